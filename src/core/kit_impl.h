// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_KIT_IMPL_H
#define PF_KIT_IMPL_H

#include "preflight/kit.h"

// Whether the dimensions make sense by themselves; on failure names the one that does not.
pf_status pf__kit_check_dims(const pf_kit *kit, pf_error *error);

// Doubles of a whitening factor for windows of n numbers.
static inline int64_t pf__whiten_size(int n)
{
    return (int64_t)n * (n + 1) / 2;
}

#endif
