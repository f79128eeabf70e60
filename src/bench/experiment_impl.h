// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_EXPERIMENT_IMPL_H
#define PF_EXPERIMENT_IMPL_H

#include "experiment.h"

// The canonical settings, and their hash where the fingerprints are known.
pf_status pf__experiment_settings(pf_experiment *e, pf_error *error);

#endif
