// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit.h"

#include "core/kit_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Which fault of the catalogue explains what a session saw. Every one is put on a copy of the
// plant, which repeats the runs from their saved starts.

// A fault explains the responses where they miss its prediction by no more than this, as a mean
// square in standard deviations, and where it halves what the best gain misses.
static const double close_enough = 2.5, much_better = .5;

typedef struct search {
    const pf_kit *kit;
    pf_plant *twin;
    int n;
    const pf_observed *runs;
    double *output; // of the longest run
    double numbers; // of all responses
} search;

// Standard deviation of one number of a run.
static double deviation(const search *s, const pf_observed *run, int i)
{
    const pf_kit *k = s->kit;
    int c = i % k->n_chan;
    if (run->probe < 0) {
        const double *numbers = k->rehearsal + (size_t)run->task * PF_REHEARSAL_NUMBERS;
        double n = (double)run->rows * k->n_chan;
        return k->return_scale[c] * sqrt(fmax(numbers[PF_REHEARSAL_MEAN] / n, 1e-12));
    }
    size_t at = (size_t)k->probe_row[run->probe] * (size_t)k->n_chan + (size_t)i;
    return pf__kit_scale(k, i) * k->residual_rms[at];
}

// Sum of squares that a fault leaves; infinite where the plant cannot have it.
static pf_status missed(const search *s, const pf_fault *fault, int n_faults, double *sum,
                        pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(s->twin);
    *sum = 0;
    for (int r = 0; r < s->n; r++) {
        const pf_observed *run = &s->runs[r];
        pf_roll roll = pf_roll_default();
        roll.start = info->n_state > 0 ? run->start : NULL;
        roll.rows = run->rows;
        roll.command = run->command;
        roll.faults = fault;
        roll.n_faults = n_faults;
        pf_status status = pf_plant_roll(s->twin, &roll, &(pf_trace){.output = s->output}, error);
        if (status == PF_OK && n_faults > 0) {
            status = pf_fault_sense(fault, n_faults, info, 0, NULL, run->rows, s->output, error);
        }
        if (status != PF_OK) {
            return status;
        }
        for (int i = 0; i < run->rows * info->n_chan; i++) {
            double e = (run->response[i] - s->output[i]) / deviation(s, run, i);
            *sum += e * e;
        }
    }
    return PF_OK;
}

// What the best machine of the model misses: healthy, or one mechanism at a gain.
static pf_status missed_by_gains(const search *s, double *least, pf_error *error)
{
    pf_status status = missed(s, NULL, 0, least, error);
    for (int j = 1; j < s->kit->n_mech && status == PF_OK; j++) {
        for (int g = 0; g <= 15 && status == PF_OK; g++) {
            pf_fault fault = {.kind = PF_FAULT_GAIN, .at = j, .value = .1 * g, .unit = 1};
            double sum;
            status = missed(s, &fault, 1, &sum, error);
            *least = status == PF_OK ? fmin(*least, sum) : *least;
        }
    }
    return status;
}

// Whether an entry says the same in every run: nothing drawn, nothing random, one fault.
static bool certain(const pf_audit_entry *e)
{
    return strcmp(e->fault, "none") != 0 && strcmp(e->fault, "intermittent") != 0 &&
           strcmp(e->fault, "noise") != 0 && strcmp(e->fault, "dropout") != 0 && isnan(e->from) &&
           isnan(e->second);
}

static int places_of(const pf_audit_entry *e, const pf_plant_info *info)
{
    return e->on == PF_FAULT_ON_CHANNEL ? info->n_chan
           : e->on == PF_FAULT_ON_PLANT ? 1
                                        : info->n_mech - 1;
}

static pf_status try_all(const search *s, const pf_catalogue *catalogue, pf_fault *best,
                         double *least, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(s->twin);
    for (int i = 0; i < catalogue->n; i++) {
        const pf_audit_entry *e = &catalogue->entries[i];
        for (int place = 0; certain(e) && place < places_of(e, info); place++) {
            pf_fault faults[2];
            int n = 0;
            double sum = INFINITY;
            pf_status status = pf__catalogue_faults(e, s->kit, info, 0, place, faults, &n, error);
            status = status ? status : missed(s, faults, n, &sum, error);
            if (status != PF_OK && status != PF_ERR_UNSUPPORTED) {
                return status;
            }
            if (status == PF_OK && sum < *least) {
                *least = sum;
                *best = faults[0];
            }
        }
    }
    return PF_OK;
}

pf_status pf__looks_like(const pf_kit *kit, pf_plant *twin, const pf_catalogue *catalogue, int n,
                         const pf_observed *runs, pf_fault *fault, bool *found, pf_error *error)
{
    search s = {.kit = kit, .twin = twin, .n = n, .runs = runs};
    int most = 0;
    double least = INFINITY, by_gains = INFINITY;
    *found = false;
    for (int r = 0; r < n; r++) {
        most = runs[r].rows > most ? runs[r].rows : most;
        s.numbers += (double)runs[r].rows * kit->n_chan;
    }
    if (n == 0 || kit->n_misfit == 0) {
        return PF_OK;
    }
    s.output = calloc((size_t)most * (size_t)kit->n_chan, sizeof(double));
    if (!s.output) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a search");
    }
    pf_status status = missed_by_gains(&s, &by_gains, error);
    status = status ? status : try_all(&s, catalogue, fault, &least, error);
    *found = status == PF_OK && least < close_enough * s.numbers && least < much_better * by_gains;
    free(s.output);
    return status;
}
