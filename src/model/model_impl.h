// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MODEL_IMPL_H
#define PF_MODEL_IMPL_H

#include "host/arena.h"
#include "network.h"
#include "safetensors.h"

struct pf_model {
    pf_arena arena;
    pf_model_info info;
    pf_net net;
    float *input_mean, *input_scale;   // n_in
    float *change_mean, *change_scale; // n_chan
    float *change_linear;              // n_chan x n_in
    float *theta;                      // n_members x pf__net_parameters
    float *packed;                     // the weights of theta packed, NULL: not
    float *packed_linear;              // likewise, in the same memory
};

// Room for a model of this shape, all numbers zero. Names are copied.
pf_status pf__model_create(pf_model **model, const pf_model_info *info, pf_error *error);

// Packs the weights for rollouts, when they are final; without memory for it they stay as they are.
void pf__model_pack(pf_model *model);

// Writes the file and notes its sha256. extra: further metadata.
pf_status pf__model_save(pf_model *model, const char *path, int n_extra, const pf_meta *extra,
                         pf_error *error);

#endif
