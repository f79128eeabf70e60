// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "audit.h"

#include "core/certificate.h"
#include "core/evidence.h"
#include "core/joint.h"
#include "core/kit_layout.h"
#include "core/misfit.h"
#include "core/rehearsal.h"
#include "host/arena.h"

#include <math.h>
#include <string.h>

// What an engineer would do without preflight, on the same machine and with the same predictor.

// A response within this share of the nominal one passes a motor test.
static const double tolerance = .2;
// One-sided 99 % point of a normal deviate.
static const double deviate_99 = 2.326;

typedef struct bench {
    const pf_kit *kit;
    pf_plant *plant;
    pf_rig rig;
    pf_predictor predictor;
    pf__evidence evidence;
    pf_match *matches;
    double *nominal, *idle, *still, *work; // longest run
    uint64_t seed;
    const char *environment;
    pf_arena arena;
} bench;

static pf_status open_bench(bench *b, const pf_rule_trial *t, pf_error *error)
{
    const pf_kit *k = t->kit;
    const pf_plant_info *info = pf_plant_get_info(t->plant);
    int rows = pf__kit_most_rows(k), other = pf__kit_rehearsal_rows(k);
    rows = other > rows ? other : rows;
    size_t d = sizeof(double), window = (size_t)rows * (size_t)k->n_chan;
    size_t targets = (size_t)pf__kit_most_targets(k);
    size_t start = (size_t)(info->n_state > k->n_state ? info->n_state : k->n_state) + 1;
    *b = (bench){
        .kit = k, .plant = t->plant, .seed = t->seed, .environment = pf_plant_environment(info)};
    b->rig = (pf_rig){.plant = t->plant,
                      .kit = k,
                      .start = pf__arena_take(&b->arena, start, d),
                      .response = pf__arena_take(&b->arena, window, d),
                      .faults = t->faults,
                      .n_faults = t->n_faults};
    b->evidence =
        (pf__evidence){.nominal = pf__arena_take(&b->arena, window, d),
                       .predicted = pf__arena_take(&b->arena, window, d),
                       .residual = pf__arena_take(&b->arena, window, d),
                       .signatures = pf__arena_take(&b->arena, window * targets, d),
                       .scratch = pf__arena_take(&b->arena, pf__match_scratch((int)targets), d)};
    b->matches = pf__arena_take(&b->arena, targets, sizeof *b->matches);
    b->nominal = pf__arena_take(&b->arena, window, d);
    b->idle = pf__arena_take(&b->arena, window, d);
    b->work = pf__arena_take(&b->arena, window, d);
    b->still = pf__arena_take(&b->arena, (size_t)rows * (size_t)k->n_mech, d);
    if (b->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a rule");
    }
    return pf_predictor_create(&b->predictor, k, t->plant, t->model, error);
}

static void close_bench(bench *b)
{
    pf_predictor_destroy(&b->predictor);
    pf__arena_free(&b->arena);
}

static pf_key key_of(const bench *b, int rule, int index)
{
    return pf_key_stream(b->seed, b->environment, (uint64_t)(1 + rule), PF_PURPOSE_EVALUATION,
                         (uint64_t)index);
}

static pf_status run(const bench *b, const double *command, int rows, double *out, pf_error *error)
{
    pf_run r = {.command = command, .rows = rows, .idle = command == b->still};
    return b->predictor.run(b->predictor.self, &r, b->rig.start, b->kit->n_state, out, error);
}

// --- threshold: pulse one actuator at a time, accept what is within 20 % of nominal

// The probe of a mechanism alone, else one that has it among its targets; -1: none.
static int probe_of(const pf_kit *k, int mechanism)
{
    int found = -1;
    for (int q = 0; q < k->n_probes; q++) {
        const int32_t *targets = NULL;
        int n = pf_kit_probe_targets(k, q, &targets);
        for (int t = 0; t < n; t++) {
            if (targets[t] == mechanism && (found < 0 || n == 1)) {
                found = q;
            }
        }
    }
    return found;
}

static pf_status threshold(bench *b, pf_rule_verdict *out, pf_error *error)
{
    const pf_kit *k = b->kit;
    bool good[PF_MECH_MAX] = {true};
    pf_status status = PF_OK;
    for (int j = 1; j < k->n_mech && status == PF_OK; j++) {
        int q = probe_of(k, j), rows = q >= 0 ? pf_kit_probe_rows(k, q) : 0;
        if (q < 0) {
            continue;
        }
        status = pf_rig_run(&b->rig, q, key_of(b, PF_RULE_THRESHOLD, j), error);
        pf_hypothesis healthy = {.probe = q, .gain = 1};
        status = status ? status
                        : b->predictor.predict(b->predictor.self, &healthy, b->rig.start,
                                               k->n_state, b->nominal, error);
        status = status ? status : run(b, b->still, rows, b->idle, error);
        double along = 0, whole = 0;
        for (int i = 0; i < rows * k->n_chan && status == PF_OK; i++) {
            double scale = k->return_scale[i % k->n_chan];
            double moved = (b->nominal[i] - b->idle[i]) / scale;
            along += moved * (b->rig.response[i] - b->idle[i]) / scale;
            whole += moved * moved;
        }
        good[j] = whole > 0 && fabs(along / whole - 1) <= tolerance;
        out->runs++;
    }
    for (int t = 0; t < k->n_tasks; t++) {
        out->go[t] = true;
        for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
            out->go[t] = out->go[t] && good[k->use_mech[u]];
        }
    }
    return status;
}

// --- least squares: all gains from all responses, a chi-square test on what is left

static pf_status measure(bench *b, double *z, double *weight, bool *fits, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_status status = PF_OK;
    for (int q = 0; q < k->n_probes && status == PF_OK; q++) {
        pf__evidence *e = &b->evidence;
        status = pf_rig_run(&b->rig, q, key_of(b, PF_RULE_LEAST_SQUARES, q), error);
        pf__evidence_set(e, k, q);
        e->predictor = b->predictor;
        e->start = b->rig.start;
        e->n_start = k->n_state;
        status = status ? status : pf__evidence_read(e, b->rig.response, b->matches, error);
        double variance = 0;
        int n = e->rows * e->n_chan;
        for (int i = 0; i < n && k->n_misfit > 0; i++) {
            double rms = k->residual_rms[(size_t)k->probe_row[q] * (size_t)k->n_chan + (size_t)i];
            variance += rms * rms / n;
        }
        for (int t = 0; t < e->n_targets && status == PF_OK; t++) {
            const pf_match *m = &b->matches[t];
            double sigma = k->sigma[k->probe_target[q] + t], w = 1 / (sigma * sigma);
            if (m->usable) {
                z[e->targets[t]] += w * pf__evidence_coordinate(k, q, t, m);
                weight[e->targets[t]] += w;
                double chi = m->off * m->off * n / variance;
                *fits = *fits && !(pf__misfit_shape(chi, n) > deviate_99);
            }
        }
    }
    return status;
}

static pf_status least_squares(bench *b, pf_rule_verdict *out, pf_error *error)
{
    const pf_kit *k = b->kit;
    double z[PF_MECH_MAX] = {0}, weight[PF_MECH_MAX] = {0}, gain[PF_MECH_MAX];
    bool fits = true;
    pf_status status = measure(b, z, weight, &fits, error);
    out->runs += k->n_probes;
    for (int j = 0; j < k->n_mech; j++) {
        gain[j] = weight[j] > 0 ? 1 - z[j] / weight[j] * (1 - k->g_cal) : 1;
        gain[j] = fmax(.01, gain[j]);
        out->correction[j] = 1 / gain[j];
    }
    for (int t = 0; t < k->n_tasks; t++) {
        double error_sum = 0;
        bool probed = true;
        for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
            int j = k->use_mech[u];
            double share = pf_kit_delivered_share(k, t, j, out->correction[j], gain[j]);
            for (int e = 0; e < k->n_members; e++) {
                size_t row = (size_t)u * (size_t)k->n_members + (size_t)e;
                error_sum +=
                    pf__tracking_error_at(k->n_shares, k->shares,
                                          k->tracking_error + row * (size_t)k->n_shares, share) /
                    k->n_members;
            }
            probed = probed && (j == 0 || weight[j] > 0);
        }
        out->go[t] = fits && probed && pf__return(error_sum) >= k->j_min;
    }
    return status;
}

// --- rehearsal only: every task once as it is

static pf_status rehearse_only(bench *b, pf_rule_verdict *out, pf_error *error)
{
    const pf_kit *k = b->kit;
    pf_status status = PF_OK;
    for (int32_t t = 0; t < k->n_tasks && status == PF_OK; t++) {
        int rows = pf_kit_task_rows(k, t);
        if (k->n_rehearse == 0 || rows == 0 || k->rehearsal_rows[t] == 0) {
            continue;
        }
        const double *command = pf_kit_task_command(k, t);
        pf_ask ask = {.kind = PF_ASK_REHEARSAL,
                      .probe = -1,
                      .rows = rows,
                      .n_tasks = 1,
                      .tasks = &t,
                      .command = command};
        status = pf_rig_rehearse(&b->rig, &ask, key_of(b, PF_RULE_REHEARSAL_ONLY, t), error);
        status = status ? status : run(b, command, rows, b->nominal, error);
        status = status ? status : run(b, b->still, rows, b->idle, error);
        if (status == PF_OK) {
            double energy = pf__rehearsal_distance(k, t, b->nominal, b->idle, b->work);
            double d = pf__rehearsal_distance(k, t, b->rig.response, b->nominal, b->work);
            pf__rehearsal_rule rule =
                pf__rehearsal_rule_of(k, k->rehearsal + (size_t)t * PF_REHEARSAL_NUMBERS, energy,
                                      pf__rehearsal_numbers(k, t));
            out->go[t] = pf__rehearsal_passes(&rule, d);
        }
        out->runs++;
    }
    return status;
}

// --- all of them

const char *pf__rule_name(int rule)
{
    static const char *const names[PF_RULES] = {"threshold", "least_squares", "rehearsal_only"};
    return names[rule];
}

pf_status pf__rule_decide(int rule, const pf_rule_trial *trial, pf_rule_verdict *out,
                          pf_error *error)
{
    static pf_status (*const rules[PF_RULES])(bench *, pf_rule_verdict *, pf_error *) = {
        threshold, least_squares, rehearse_only};
    bench b;
    for (int t = 0; t < trial->kit->n_tasks; t++) {
        out->go[t] = false;
    }
    for (int j = 0; j < trial->kit->n_mech; j++) {
        out->correction[j] = 1;
    }
    out->runs = 0;
    pf_status status = open_bench(&b, trial, error);
    status = status ? status : rules[rule](&b, out, error);
    close_bench(&b);
    return status;
}
