// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The families that a designed library is compared with. Blocks of candidates in order, the fewest
// of them in which the predictor separates all by the target.

// A command from unit waveforms (n x steps) of a group.
static double *family_command(pf_design_job *job, int n, const int *group, const double *wave)
{
    const pf_design_config *c = job->config;
    size_t mech = (size_t)c->n_mech;
    double *command = pf__arena_take(&job->arena, (size_t)c->rows * mech, sizeof *command);
    for (int i = 0; i < n && command; i++) {
        const pf_level *level = &job->levels[group[i]];
        for (int r = 0; r < c->steps; r++) {
            double v = wave[i * c->steps + r];
            // one-sided effectors get the wave lifted above rest
            bool lifted = level->up == 0 || level->down == 0;
            v = lifted ? (1 + v) / 2 : v;
            double full = lifted && level->up == 0 ? level->down : level->up;
            command[(size_t)r * mech + (size_t)group[i]] =
                v >= 0 || lifted ? full * v : level->down * -v;
        }
    }
    return command;
}

void pf__family_check(const pf_design_job *job, pf_design_library *library)
{
    for (int q = 0; q < library->n_probes && !library->broken[0]; q++) {
        pf_error error = {PF_OK, ""};
        const pf_design_probe *p = &library->probes[q];
        if (pf__design_allows(job->config, job->plan, p->probe.rows, p->probe.command, &error) !=
            PF_OK) {
            snprintf(library->broken, sizeof library->broken, "%.150s", error.text);
        }
        for (int c = 0; c < job->plan->n_chan && !library->broken[0]; c++) {
            if (p->excursion[c] > job->config->most[c] * (1 + 1e-9)) {
                pf__print(library->broken, sizeof library->broken,
                          "excursion: '%.40s' moves by %.4g", job->plan->channels[c].name,
                          p->excursion[c]);
            }
        }
    }
}

// Candidates first..last of block b out of k.
static int block(int candidates, int k, int b, int *group)
{
    int first = b * candidates / k, last = (b + 1) * candidates / k;
    for (int i = first; i < last; i++) {
        group[i - first] = i + 1;
    }
    return last - first;
}

static pf_status make_blocks(pf_design_job *job, bool sines, int k, pf_plan_probe *probes,
                             pf_error *error)
{
    const pf_design_config *c = job->config;
    int m = c->n_mech - 1;
    double *wave = pf__arena_take(&job->arena, (size_t)m * (size_t)c->steps, sizeof *wave);
    for (int b = 0; b < k && wave; b++) {
        int *group = pf__arena_take(&job->arena, (size_t)m, sizeof *group);
        if (!group) {
            break;
        }
        int n = block(m, k, b, group);
        (sines ? pf__family_multisine : pf__family_hadamard)(n, c->steps, wave);
        double charge = pf__design_charge(job->plan) * c->rows;
        probes[b] = (pf_plan_probe){
            "block", c->rows, family_command(job, n, group, wave), charge, n, group, NULL};
    }
    return job->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a family") : PF_OK;
}

static pf_status measure_blocks(pf_design_job *job, bool sines, pf_design_library *library,
                                pf_error *error)
{
    const pf_design_config *c = job->config;
    int m = c->n_mech - 1, most = sines ? c->steps / 2 : m;
    if (most < 1) {
        return PF_OK; // no harmonic fits
    }
    pf_plan_probe *probes = pf__arena_take(&job->arena, (size_t)m, sizeof *probes);
    pf_status status = probes ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a family");
    bool enough = false;
    for (int k = (m + most - 1) / most; k <= m && status == PF_OK && !enough; k++) {
        status = make_blocks(job, sines, k, probes, error);
        status =
            status ? status : pf__measure_library(job, library->family, k, probes, library, error);
        status = status ? status : pf__measure_predict(job, library, error);
        enough = status == PF_OK && pf__measure_smallest(library, -1) >= c->target;
    }
    return status;
}

static pf_status measure_singles(pf_design_job *job, pf_design_library *library, pf_error *error)
{
    const pf_plan *plan = job->plan;
    pf_plan_probe *probes = pf__arena_take(&job->arena, (size_t)plan->n_probes, sizeof *probes);
    int n = 0;
    for (int q = 0; q < plan->n_probes && probes; q++) {
        if (plan->probes[q].n_targets == 1) {
            probes[n++] = plan->probes[q];
        }
    }
    pf_status status = probes ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for a family");
    if (status != PF_OK || n == 0) {
        return status;
    }
    status = pf__measure_library(job, library->family, n, probes, library, error);
    return status == PF_OK ? pf__measure_predict(job, library, error) : status;
}

pf_status pf__family_measure(pf_design_job *job, const char *family, pf_design_library *library,
                             pf_error *error)
{
    *library = (pf_design_library){.family = family};
    pf_status status = strcmp(family, "single") == 0
                           ? measure_singles(job, library, error)
                           : measure_blocks(job, strcmp(family, "multisine") == 0, library, error);
    if (status != PF_OK || library->n_probes == 0) {
        return status;
    }
    status = pf__measure_confirm(job, library, error);
    pf__family_check(job, library);
    return status;
}

// What others send: signs of a Hadamard matrix, and the orthogonal multisines of aircraft
// identification (Morelli), each mechanism with harmonics of its own and phases that keep the peak
// low for the power (Schroeder's to begin with, then by search).

static const double pi = 3.14159265358979323846;

// Phases are looked for on a circle of this many points.
enum { PHASES = 24, ROUNDS = 4 };

void pf__family_hadamard(int n, int steps, double *wave)
{
    for (int i = 0; i < n; i++) {
        for (int r = 0; r < steps; r++) {
            int both = i & r, odd = 0;
            for (; both; both &= both - 1) {
                odd = !odd;
            }
            wave[i * steps + r] = odd ? -1 : 1;
        }
    }
}

// Harmonics of a mechanism: first, first + n, ... below the Nyquist frequency; that one alone may
// be used too where steps is even, as a cosine.
static int count_harmonics(int n, int steps, int first)
{
    int most = (steps - 1) / 2, count = 0;
    for (int k = first; k <= most; k += n) {
        count++;
    }
    return count;
}

static void fill(int n, int steps, int first, int count, const double *phase, double *wave)
{
    double peak = 0;
    for (int r = 0; r < steps; r++) {
        double sum = 0;
        for (int i = 0; i < count; i++) {
            sum += cos(2 * pi * (first + i * n) * r / steps + phase[i]);
        }
        wave[r] = count > 0 ? sum : r % 2 ? -1 : 1;
        peak = fmax(peak, fabs(wave[r]));
    }
    for (int r = 0; r < steps; r++) {
        wave[r] /= peak;
    }
}

static double power(int steps, const double *wave)
{
    double sum = 0;
    for (int r = 0; r < steps; r++) {
        sum += wave[r] * wave[r];
    }
    return sum;
}

void pf__family_multisine(int n, int steps, double *wave)
{
    double phase[PF_DESIGN_STEPS], trial[PF_DESIGN_STEPS];
    for (int j = 0; j < n; j++) {
        int count = count_harmonics(n, steps, j + 1);
        for (int i = 0; i < count; i++) {
            phase[i] = -pi * i * (i - 1) / count; // Schroeder 1970
        }
        double *own = wave + j * steps;
        fill(n, steps, j + 1, count, phase, own);
        double best = power(steps, own); // with the peak at 1: most power, lowest peak factor
        for (int round = 0; round < ROUNDS * count; round++) {
            int i = round % count;
            double kept = phase[i];
            for (int p = 0; p < PHASES; p++) {
                phase[i] = 2 * pi * p / PHASES;
                fill(n, steps, j + 1, count, phase, trial);
                if (power(steps, trial) > best * (1 + 1e-12)) {
                    best = power(steps, trial);
                    kept = phase[i];
                }
            }
            phase[i] = kept;
        }
        fill(n, steps, j + 1, count, phase, own);
    }
}
