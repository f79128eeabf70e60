// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_DATASET_H
#define PF_DATASET_H

#include "model_impl.h"
#include "preflight/train.h"

// Transitions as a network sees them: standardised features, and what the linear part leaves of the
// change, standardised. Shared by all members. The last episodes are held out.
typedef struct pf_dataset {
    int n_in, n_out;
    int n_train, n_valid;
    float *x, *y; // (n_train + n_valid) rows
    void *memory; // owned
} pf_dataset;

// Also fills the means, scales and the linear part of the model, from the training rows alone.
pf_status pf__dataset_make(pf_dataset *set, const pf_transitions *data, double held_out,
                           pf_model *model, pf_error *error);
void pf__dataset_free(pf_dataset *set);

#endif
