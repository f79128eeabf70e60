// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_RNG_H
#define PF_RNG_H

#include "preflight/base.h"

// Streams that are not a trajectory's own.
pf_key pf__key_derive(pf_key key, uint64_t part);
pf_key pf__key_text(pf_key key, const char *part);
uint64_t pf__rng_bits(pf_rng *rng);

#endif
