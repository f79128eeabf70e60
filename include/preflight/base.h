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
#define PF_VERSION "0.1.0"

// What a shared library offers; all else is hidden in it.
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
    char text[320]; // One line, always terminated.
} pf_error;

// Short name of a status as interfaces print it ("wrong-probe"), and its sentence.
PF_API const char *pf_status_name(pf_status status);
PF_API const char *pf_status_text(pf_status status);

// Fills *error (Nullable) from a format with %s, %d (int), %z (size_t) and %g (double, six digits),
// and returns code. It needs no stdio, so it works on a board.
PF_API pf_status pf_fail(pf_error *error, pf_status code, const char *format, ...);

#ifdef __cplusplus
}
#endif
#endif
