// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "recordings_read.h"

#include <math.h>

// The return table of a machine without a simulator: what is not delivered is missed, and every run
// has the error that a nominal run was seen to have.

// The probe whose runs show the error of a mechanism: its own alone if there is one; -1: none.
static int probe_of(const pf_plan *plan, int mechanism)
{
    int found = -1;
    for (int q = 0; q < plan->n_probes; q++) {
        for (int t = 0; t < plan->probes[q].n_targets; t++) {
            bool better =
                found < 0 || (plan->probes[found].n_targets > 1 && plan->probes[q].n_targets == 1);
            if (plan->probes[q].targets[t] == mechanism && better) {
                found = q;
            }
        }
    }
    return found;
}

// e_k: error energy of the nominal odd-rank episode `member` relative to that of the mean response.
static pf_status error_share(const pf_recordings *rec, const pf_kit *k, int probe, int member,
                             double *share, pf_error *error)
{
    const pf_group *group = pf_recordings_find(rec, probe, 0, 1);
    const double *response = pf_recordings_response(rec, group, 2 * member + 1);
    size_t n_chan = (size_t)k->n_chan, n = (size_t)pf_kit_probe_rows(k, probe) * n_chan;
    const double *mean = k->response + (size_t)k->probe_row[probe] * n_chan;
    double missed = 0, energy = 0;
    for (size_t i = 0; i < n; i++) {
        double scale = k->return_scale[i % n_chan];
        double part = (response[i] - mean[i]) / scale, whole = mean[i] / scale;
        missed += part * part;
        energy += whole * whole;
    }
    *share = missed / energy;
    if (!(energy > 0) || !isfinite(*share)) {
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "%s: probe '%s': its mean nominal response is zero, so an error has no "
                       "measure; use a stronger probe",
                       rec->file, pf_kit_probe_name(k, probe));
    }
    return PF_OK;
}

static void fill_row(const pf_kit *k, double share, double *row)
{
    for (int i = 0; i < k->n_shares; i++) {
        double missing = 1 - k->shares[i];
        row[i] = missing * missing + share;
    }
}

// NTE = (1 - e)^2 + e_k. Entries of a task's mechanisms are added in use, so each carries an equal
// part of e_k: a run has its error once. The current mechanism carries none.
pf_status pf__recordings_returns(const pf_recordings *rec, const pf_plan *plan, pf_kit_build *build,
                                 pf_error *error)
{
    const pf_kit *k = &build->kit;
    double *row = build->nte;
    for (int task = 0; task < k->n_tasks; task++) {
        int candidates = 0;
        for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
            candidates += k->use_mech[u] > 0;
        }
        for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
            int probe = k->use_mech[u] > 0 ? probe_of(plan, k->use_mech[u]) : -1;
            for (int e = 0; e < k->n_members; e++, row += k->n_shares) {
                double share = 0;
                pf_status status =
                    probe >= 0 ? error_share(rec, k, probe, e, &share, error) : PF_OK;
                if (status != PF_OK) {
                    return status;
                }
                fill_row(k, share / (candidates > 0 ? candidates : 1), row);
            }
        }
    }
    return PF_OK;
}
