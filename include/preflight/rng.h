// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_RNG_H
#define PREFLIGHT_RNG_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A key names a random stream. Keys are derived, never drawn, so that a result does not depend on
// the order of work or on the number of threads: key(seed) -> environment -> trial -> purpose ->
// index.
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
    PF_PURPOSE_DESIGN = 11
} pf_purpose;

PF_API pf_key pf_key_root(uint64_t seed);
PF_API pf_key pf_key_derive(pf_key key, uint64_t part);
PF_API pf_key pf_key_text(pf_key key, const char *part);

// The stream of one physical trajectory: (seed, environment, trial, purpose, index).
PF_API pf_key pf_key_stream(uint64_t seed, const char *environment, uint64_t trial,
                            pf_purpose purpose, uint64_t index);

// xoshiro256++ in the caller's memory.
typedef struct pf_rng {
    uint64_t s[4];
    double spare; // Second value of the polar pair, when has_spare.
    bool has_spare;
} pf_rng;

PF_API void pf_rng_init(pf_rng *rng, pf_key key);
PF_API uint64_t pf_rng_bits(pf_rng *rng);
PF_API double pf_rng_uniform(pf_rng *rng);             // In [0, 1), 53 bits.
PF_API uint32_t pf_rng_below(pf_rng *rng, uint32_t n); // Unbiased in 0..n-1; n >= 1.
PF_API double pf_rng_normal(pf_rng *rng);              // Mean 0, variance 1.

#ifdef __cplusplus
}
#endif
#endif
