// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_BASE_H
#define PREFLIGHT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of the program and of the library. CMake reads it from here.
#define PF_VERSION "0.3.0"

// A shared library exports what carries this mark. Everything else is hidden in it.
#if defined(__GNUC__) || defined(__clang__)
#define PF_API __attribute__((visibility("default")))
#else
#define PF_API
#endif

// Status codes with the name that interfaces print and a sentence. One list, so that they cannot
// disagree.
#define PF_STATUS_LIST(X)                                                                          \
    X(PF_OK, "ok", "no error")                                                                     \
    X(PF_ERR_ARGUMENT, "bad-argument", "an argument is out of range")                              \
    X(PF_ERR_MEMORY, "memory", "not enough memory was given")                                      \
    X(PF_ERR_FORMAT, "bad-format", "the data are not in the expected format")                      \
    X(PF_ERR_VERSION, "wrong-version", "the data were written for another version")                \
    X(PF_ERR_CHECKSUM, "checksum", "the data are damaged")                                         \
    X(PF_ERR_MISMATCH, "mismatch", "the objects do not belong together")                           \
    X(PF_ERR_SHAPE, "wrong-shape", "rows or columns do not match")                                 \
    X(PF_ERR_NONFINITE, "not-finite", "a value is NaN or infinite")                                \
    X(PF_ERR_PROBE, "wrong-probe", "this probe was not asked for")                                 \
    X(PF_ERR_STAGE, "wrong-stage", "not possible at this stage of the session")                    \
    X(PF_ERR_PREDICTION, "missing-prediction", "the model's prediction is missing")                \
    X(PF_ERR_DEGENERATE, "degenerate", "the data cannot tell the cases apart")                     \
    X(PF_ERR_PLANT, "plant", "the plant failed")                                                   \
    X(PF_ERR_FILE, "file", "a file could not be read or written")                                  \
    X(PF_ERR_UNSUPPORTED, "unsupported", "this build or object cannot do it")                      \
    X(PF_ERR_INTERRUPTED, "interrupted", "stopped on request")                                     \
    X(PF_ERR_INTERNAL, "internal", "a mistake in preflight itself")

typedef enum pf_status {
#define X(code, name, text) code,
    PF_STATUS_LIST(X)
#undef X
} pf_status;

// What went wrong, in the caller's memory. Calls that fail fill it when it is not NULL.
typedef struct pf_error {
    pf_status code;
    char text[400]; // One line, always terminated.
} pf_error;

// PF_VERSION of the library that runs. The headers may be of another version.
PF_API const char *pf_version(void);

// Short name of a status as interfaces print it ("wrong-probe"), and its sentence.
PF_API const char *pf_status_name(pf_status status);
PF_API const char *pf_status_text(pf_status status);

// Fills *error (Nullable) from a format with %s, %d (int), %z (size_t) and %g (double, six digits),
// and returns code. It needs no stdio, so it works on a board.
PF_API pf_status pf_fail(pf_error *error, pf_status code, const char *format, ...);

// --- randomness

// A key names a random stream. Keys are derived, never drawn: key(seed) -> environment -> trial ->
// purpose -> index. So a result does not depend on the order of work or on the number of threads.
typedef uint64_t pf_key;

// What a stream is for. Calibration, threshold and evaluation never share draws.
typedef enum pf_purpose {
    PF_PURPOSE_CALIBRATION = 1,
    PF_PURPOSE_THRESHOLD = 2,
    PF_PURPOSE_EVALUATION = 3,
    PF_PURPOSE_RECOVERY = 4,
    PF_PURPOSE_TASK = 5,
    PF_PURPOSE_MEMBER = 6,
    PF_PURPOSE_METHOD = 7,
    PF_PURPOSE_CONTRACT = 8,
    PF_PURPOSE_LAW = 9,
    PF_PURPOSE_TRAINING = 10,
    PF_PURPOSE_DESIGN = 11,
    PF_PURPOSE_REHEARSAL = 12,
    PF_PURPOSE_MISFIT = 13
} pf_purpose;

PF_API pf_key pf_key_root(uint64_t seed);

// The stream of one physical trajectory: (seed, environment, trial, purpose, index).
PF_API pf_key pf_key_stream(uint64_t seed, const char *environment, uint64_t trial,
                            pf_purpose purpose, uint64_t index);

// xoshiro256++ in the caller's memory. Zeroed it is the stream of key 0.
typedef struct pf_rng {
    uint64_t s[4];
    double spare; // Second value of the polar pair, when has_spare.
    bool has_spare;
} pf_rng;

PF_API void pf_rng_init(pf_rng *rng, pf_key key);
PF_API double pf_rng_uniform(pf_rng *rng);             // In [0, 1), 53 bits.
PF_API uint32_t pf_rng_below(pf_rng *rng, uint32_t n); // Unbiased in 0..n-1; n >= 1.
PF_API double pf_rng_normal(pf_rng *rng);              // Mean 0, variance 1.

// --- effort

// Finished work of a job in a file (pf_part_open).
typedef struct pf_part pf_part;

// How long a job takes, measured on its first trajectories, and what would save most of it.
typedef struct pf_estimate {
    const char *what; // "design", "calibration"
    double seconds;
    const char *setting; // "alarm_trials=200". Nullable: nothing saves much.
    double seconds_then; // with that setting
} pf_estimate;

// How long work is run, watched and stopped. Zero-initialise it, then set fields.
typedef struct pf_effort {
    int threads; // 0: as many as there are processors
    void *self;
    // Called from one thread at a time. Nullable.
    void (*progress)(void *self, const char *what, size_t done, size_t total);
    // Nonzero: stop soon with PF_ERR_INTERRUPTED. It is read as a relaxed atomic. Nullable.
    const volatile int *stop;
    // What is odd but no error, one line. Nullable.
    void (*warn)(void *self, const char *text);
    // Called at the start of a design and of a calibration. Nullable.
    void (*estimate)(void *self, const pf_estimate *estimate);
    // What pf_calibrate and pf_plan_choose_probes have finished is kept here and not done again.
    // Nullable.
    pf_part *part;
} pf_effort;

#ifdef __cplusplus
}
#endif
#endif
