// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_fixture.h"
#include "core/constants.h"
#include "core/joint.h"
#include "core/kit_layout.h"
#include "core/rng.h"
#include "core/score.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pf_fixture_config pf_fixture_config_default(void)
{
    return (pf_fixture_config){.seed = 1,
                               .m = 3,
                               .n_bins = 5,
                               .n_grid = 9,
                               .rows = 4,
                               .n_chan = 2,
                               .targets = 1,
                               .n_members = 3,
                               .scale_rows = 1,
                               .stop = PF_STOP_LATCH,
                               .budget1 = 8,
                               .budget2 = 2,
                               .prior0 = .9,
                               .threshold = .6,
                               .j_min = .85,
                               .disorder = .3,
                               .noise = .05};
}

static void *need(void *memory)
{
    if (!memory) {
        perror("fixture");
        exit(4);
    }
    return memory;
}

static double between(pf_rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * pf_rng_uniform(rng);
}

void pf_fixture_simplex(pf_rng *rng, int n, double floor, double *p)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        p[i] = -log(1 - pf_rng_uniform(rng)) + 1e-6;
        sum += p[i];
    }
    for (int i = 0; i < n; i++) {
        p[i] = floor + (1 - n * floor) * p[i] / sum;
    }
}

static const double fixture_knots[] = {0, .35, .65, .9, 1.5};

static int probe_rows(const pf_fixture_config *c, int probe)
{
    return c->rows > 1 && probe % 2 == 1 ? c->rows - 1 : c->rows;
}

// --- dimensions and memory

static void set_dims(pf_kit *k, const pf_fixture_config *c)
{
    k->n_mech = c->m + 1;
    k->n_chan = c->n_chan;
    k->n_grid = c->n_grid;
    k->n_bins = c->n_bins;
    k->n_probes = c->n_probes > 0 ? c->n_probes : c->m;
    k->n_targets = k->n_probes * c->targets;
    for (int q = 0; q < k->n_probes; q++) {
        k->n_rows += probe_rows(c, q);
    }
    k->n_scale = c->scale_rows > 1 ? c->rows : 1;
    k->n_curve = c->curve ? k->n_targets : 0;
    k->n_cross = c->cross ? k->n_targets * c->targets * c->n_bins : 0;
    k->n_response = c->recorded ? k->n_rows : 0;
    k->n_variant = c->recorded ? k->n_rows * c->targets * c->n_grid : 0;
    for (int q = 0; c->whiten && q < k->n_probes; q++) {
        int window = probe_rows(c, q) * c->n_chan;
        k->n_whiten += window * (window + 1) / 2;
    }
    k->faults = c->faults;
    // one task per candidate, and a policy that uses the current mechanism and two candidates
    k->n_tasks = c->m + 1;
    k->n_uses = c->m + (c->m > 1 ? 3 : 2);
    k->n_task_rows = c->m * 5;
    k->n_shares = 41;
    k->n_members = c->n_members;
    k->statistic = c->norm ? PF_STATISTIC_NORM : PF_STATISTIC_MATCHED;
    for (int i = 0; i < pf_method_count() && !c->method; i++) {
        k->n_methods += (int)pf_method_at(i)->statistic == k->statistic;
    }
    k->n_methods = c->method ? 1 : k->n_methods;
    k->n_names =
        PF_KIT_STRINGS + k->n_mech + k->n_chan + k->n_probes + 3 * k->n_tasks + k->n_methods;
    k->n_text = k->n_names * 24;
    if (c->looks) {
        k->posterior = PF_POSTERIOR_JOINT;
        k->n_knots = sizeof fixture_knots / sizeof fixture_knots[0];
        k->n_look = k->n_probes * c->targets * (1 + c->targets * k->n_knots);
        k->n_misfit = k->n_rows;
    }
    if (c->rehearse != PF_REHEARSE_NONE) {
        k->n_rehearse = k->n_tasks;
        k->n_groups = c->m > 1;
        k->n_grouped = c->m > 1 ? c->m : 0;
        k->n_bounded = c->bounded ? k->n_uses : 0;
        // open loops and their group have 5 rows, the policy 4
        k->n_blind = c->blind ? ((c->m + k->n_groups) * 5 + 4) * k->n_chan : 0;
        k->n_state = c->blind ? k->n_chan : k->n_state;
    }
    k->stop = (int32_t)c->stop;
    k->field = c->field;
    k->rehearse = (int32_t)c->rehearse;
    k->budget3 = 100;
    k->budget1 = c->budget1;
    k->budget2 = c->budget2;
    k->rehearsals = 1;
    k->episodes = 60;
    k->alarm_trials = 100;
}

static void allocate(pf_fixture *f)
{
    pf_kit *k = &f->kit;
#define X(id, type, field, count)                                                                  \
    f->at.field = need(calloc((size_t)(count) + 1, sizeof(type)));                                 \
    k->field = f->at.field;
    PF_KIT_ARRAYS(X)
#undef X
    f->window = f->config.rows * k->n_chan;
    f->base = need(calloc((size_t)k->n_probes * (size_t)f->window, sizeof(double)));
    f->direction = need(calloc((size_t)k->n_targets * (size_t)f->window, sizeof(double)));
    f->effect = need(calloc((size_t)k->n_mech * (size_t)k->n_chan, sizeof(double)));
}

void pf_fixture_free(pf_fixture *f)
{
    if (!f) {
        return;
    }
#define X(id, type, field, count) free(f->at.field);
    PF_KIT_ARRAYS(X)
#undef X
    free(f->base);
    free(f->direction);
    free(f->effect);
    free(f);
}

// --- contents

static void add_name(pf_fixture *f, int *names, size_t *used, const char *stem, int number)
{
    f->at.name[(*names)++] = (uint32_t)*used;
    size_t room = (size_t)f->kit.n_text - *used;
    int n = number < 0 ? snprintf(f->at.text + *used, room, "%s", stem)
                       : snprintf(f->at.text + *used, room, "%s%d", stem, number);
    *used += (size_t)n + 1;
}

static void fill_names(pf_fixture *f)
{
    const pf_kit *k = &f->kit;
    static const char *fixed[PF_KIT_STRINGS] = {"fixture", "twin", "", "tests", "none", PF_VERSION};
    int n = 0;
    size_t used = 0;
    for (int i = 0; i < PF_KIT_STRINGS; i++) {
        add_name(f, &n, &used,
                 i == PF_KIT_PREDICTOR && k->n_response ? "recordings"
                 : i == PF_KIT_PREDICTOR && k->n_blind  ? "ensemble"
                                                        : fixed[i],
                 -1);
    }
    const struct {
        const char *stem;
        int count;
    } lists[] = {
        {"mech", k->n_mech}, {"chan", k->n_chan}, {"probe", k->n_probes}, {"task", k->n_tasks}};
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        for (int i = 0; i < lists[l].count; i++) {
            add_name(f, &n, &used, lists[l].stem, i);
        }
    }
    for (int i = 0; i < k->n_tasks; i++) {
        add_name(f, &n, &used, i == k->n_tasks - 1 ? "policy" : "", -1);
    }
    for (int i = 0; i < k->n_tasks; i++) {
        add_name(f, &n, &used, "", -1); // no fallback
    }
    for (int i = 0; i < pf_method_count(); i++) {
        const pf_method *method = pf_method_at(i);
        bool wanted = f->config.method ? strcmp(f->config.method, method->id) == 0
                                       : (int)method->statistic == k->statistic;
        if (wanted) {
            f->at.threshold[n - (k->n_names - k->n_methods)] = f->config.threshold;
            add_name(f, &n, &used, method->id, -1);
        }
    }
}

static void fill_scalars(pf_fixture *f, pf_rng *rng)
{
    pf_kit *k = &f->kit;
    const pf_fixture_config *c = &f->config;
    for (int g = 0; g < k->n_grid; g++) {
        f->at.grid[g] = .15 + .8 * g / (k->n_grid - 1);
        if (g == 0 || fabs(f->at.grid[g] - .35) < fabs(k->g_cal - .35)) {
            k->g_cal = f->at.grid[g];
        }
    }
    k->hazard = c->hazard;
    k->temperature = .05;
    k->alpha = .1;
    k->j_min = c->j_min;
    k->cross_ratio = 1;
    k->seed = 7;
    for (int j = 0; j < k->n_mech; j++) {
        f->at.lo[j] = -1;
        f->at.hi[j] = 1;
        f->at.prior[j] = j == 0 ? c->prior0 : (1 - c->prior0) / c->m;
    }
    for (int j = 0; j < c->m; j++) {
        f->at.importance[j] = between(rng, .5, 2);
        f->at.reveal[j] = 1.0 / c->m;
        f->at.weight[j] = f->at.importance[j] * f->at.reveal[j];
    }
    for (int i = 0; i < k->n_scale * k->n_chan; i++) {
        f->at.scale[i] = between(rng, .5, 2);
    }
    for (int i = 0; i < k->n_chan; i++) {
        f->at.return_scale[i] = f->at.scale[i];
    }
}

static int by_value(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void fill_probes(pf_fixture *f, pf_rng *rng)
{
    const pf_kit *k = &f->kit;
    const pf_fixture_config *c = &f->config;
    for (int q = 0; q < k->n_probes; q++) {
        int first = q * c->targets;
        f->at.probe_row[q + 1] = f->at.probe_row[q] + probe_rows(c, q);
        f->at.probe_target[q + 1] = first + c->targets;
        f->at.probe_cross[q] = c->cross ? first * c->targets * c->n_bins : -1;
        f->at.off_limit[q] = f->at.distance_limit[q] = 1e300; // nothing is implausible
        f->at.charge[q] = .01 * (2 + (double)pf_rng_below(rng, 8));
        for (int t = 0; t < c->targets; t++) {
            f->at.target_mech[first + t] = (q + t) % c->m + 1;
        }
        qsort(f->at.target_mech + first, (size_t)c->targets, sizeof(int32_t), by_value);
        for (int r = f->at.probe_row[q]; r < f->at.probe_row[q + 1]; r++) {
            for (int t = 0; t < c->targets; t++) {
                f->at.command[r * k->n_mech + f->at.target_mech[first + t]] = .25;
            }
        }
        for (int i = 0; i < f->window; i++) {
            f->base[q * f->window + i] = pf_rng_normal(rng);
        }
        double *factor =
            f->at.whiten + (pf__kit_whiten(k, q) ? pf__kit_whiten(k, q) - k->whiten : 0);
        for (int i = 0; c->whiten && i < probe_rows(c, q) * k->n_chan; i++) {
            factor[i * (i + 1) / 2 + i] = 1;
        }
    }
    for (int t = 0; t < k->n_targets; t++) {
        for (int i = 0; i < f->window; i++) {
            f->direction[t * f->window + i] = 2 * pf_rng_normal(rng);
        }
    }
}

static void fill_row(pf_rng *rng, int n_bins, double slope, double disorder, double *row)
{
    double noise[64], sum = 0;
    pf_fixture_simplex(rng, n_bins, 0, noise);
    for (int c = 0; c < n_bins; c++) {
        row[c] = exp(slope * c / (n_bins - 1));
        sum += row[c];
    }
    for (int c = 0; c < n_bins; c++) {
        row[c] = (1 - disorder) * row[c] / sum + disorder * noise[c];
        row[c] = (row[c] + .01) / (1 + .01 * n_bins);
    }
}

static void fill_channels(pf_fixture *f, pf_rng *rng)
{
    const pf_kit *k = &f->kit;
    int n_bins = k->n_bins;
    double disorder = f->config.disorder;
    for (int t = 0; t < k->n_targets; t++) {
        fill_row(rng, n_bins, -5, disorder, f->at.nominal + t * n_bins);
        fill_row(rng, n_bins, 5, disorder, f->at.changed + t * n_bins);
        f->at.centre_nominal[t] = between(rng, -.01, .01);
        f->at.centre_changed[t] = between(rng, .98, 1.02);
        f->at.sigma[t] = between(rng, .04, .1);
        for (int g = 0; k->n_curve > 0 && g < k->n_grid; g++) {
            f->at.curve[t * k->n_grid + g] =
                1.02 * pf__severity_line(k->grid[g], k->g_cal) + between(rng, 0, .01);
        }
    }
    for (int r = 0; r * n_bins < k->n_cross; r++) {
        fill_row(rng, n_bins, -2, disorder, f->at.cross + r * n_bins);
    }
}

static void fill_tasks(pf_fixture *f, pf_rng *rng)
{
    const pf_kit *k = &f->kit;
    int m = f->config.m, use = 0, last = k->n_tasks - 1;
    for (int t = 0; t < k->n_tasks; t++) {
        f->at.task_use[t] = use;
        f->at.task_row[t] = t * 5;
        f->at.task_reveal[t] = 1.0 / k->n_tasks;
        f->at.task_importance[t] = 1;
        if (t == last) {
            break;
        }
        f->at.use_mech[use++] = t + 1;
        for (int r = 5 * t; r < 5 * t + 5; r++) {
            f->at.task_command[r * k->n_mech + t + 1] = .35;
        }
    }
    for (int j = 0; j <= 2 && j <= m; j++) {
        f->at.use_mech[use++] = j;
    }
    f->at.task_use[k->n_tasks] = use;
    f->at.task_row[k->n_tasks] = 5 * last;
    for (int s = 0; s < k->n_shares; s++) {
        f->at.shares[s] = .05 * s;
    }
    for (int u = 0; u < k->n_uses * k->n_members; u++) {
        double slope = between(rng, .7, .9), rest = between(rng, 0, .01);
        for (int s = 0; s < k->n_shares; s++) {
            double away = 1 - k->shares[s];
            f->at.tracking_error[u * k->n_shares + s] = slope * away * away + rest;
        }
    }
}

// --- the field's verdict

// Coordinates are linear in the loss, that of the weakened target alone moves.
static void fill_looks(pf_fixture *f)
{
    pf_kit *k = &f->kit;
    int n = f->config.targets, per_probe = n * (1 + n * k->n_knots);
    for (int i = 0; i < k->n_knots; i++) {
        f->at.knots[i] = fixture_knots[i];
    }
    for (int i = 0; i < k->n_look; i++) {
        int row = i % per_probe / n, target = i % n, knot = row > 0 ? (row - 1) % k->n_knots : -1;
        bool own = row > 0 && (row - 1) / k->n_knots == target;
        f->at.look_mean[i] = own ? pf__severity_line(k->knots[knot], k->g_cal) : 0;
        f->at.look_variance[i] = .01;
    }
    for (int i = 0; i < k->n_misfit * k->n_chan; i++) {
        f->at.residual_rms[i] = f->config.noise;
    }
    for (int i = 0; k->n_misfit > 0 && i < k->n_probes * k->n_chan; i++) {
        double rows = probe_rows(&f->config, i / k->n_chan); // cube root of a chi-square
        f->at.misfit_mean[i] = cbrt(rows) * (1 - 2 / (9 * rows));
        f->at.misfit_sd[i] = cbrt(rows) * sqrt(2 / (9 * rows));
    }
    for (int i = 0; k->n_misfit > 0 && i < k->n_chan; i++) {
        f->at.still[i] = probe_rows(&f->config, 0); // its responses may be without noise
    }
    // far above what half a step between two gains of the posterior leaves
    if (!f->config.misfit) { // everything fits
        for (int i = 0; i < k->n_misfit * k->n_chan; i++) {
            f->at.residual_rms[i] = 1e100;
        }
        for (int i = 0; i < k->n_probes * k->n_chan && k->n_misfit > 0; i++) {
            f->at.misfit_mean[i] = 1;
        }
    }
    k->misfit_chan = k->misfit_shape = f->config.misfit ? 12 : PF_MISFIT_MOST;
    k->misfit_level = f->config.misfit ? 1 : PF_MISFIT_LEVEL_MOST;
}

// What healthy runs of some tasks are like: noise alone, in every row and channel.
static void fill_numbers(const pf_fixture *f, int rows, double energy, double *numbers)
{
    double n = rows * f->kit.n_chan, one = f->config.noise * f->config.noise;
    numbers[PF_REHEARSAL_MEAN] = n * one;
    numbers[PF_REHEARSAL_SD] = sqrt(2 * n) * one;
    numbers[PF_REHEARSAL_CLEAN] = numbers[PF_REHEARSAL_MEAN] + 3 * numbers[PF_REHEARSAL_SD];
    numbers[PF_REHEARSAL_ENERGY] = energy;
    numbers[PF_REHEARSAL_CV] = .1;
}

// Open loops have 5 rows, the policy 4; all open loops are one group.
static void fill_rehearsals(pf_fixture *f, pf_rng *rng)
{
    const pf_kit *k = &f->kit;
    int m = f->config.m;
    for (int i = 0; i < k->n_mech * k->n_chan; i++) {
        f->effect[i] = 4 * pf_rng_normal(rng);
    }
    for (int t = 0; t < k->n_rehearse; t++) {
        int rows = t < m ? 5 : 4;
        double energy = 0;
        for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
            for (int c = 0; c < k->n_chan; c++) {
                double moved = .35 * f->effect[k->use_mech[u] * k->n_chan + c];
                energy += rows * pow(moved / k->return_scale[c], 2);
            }
            f->at.use_edge[2 * u] = .6;
            f->at.use_edge[2 * u + 1] = 1.4;
        }
        f->at.rehearsal_rows[t] = rows;
        fill_numbers(f, rows, energy, f->at.rehearsal + t * PF_REHEARSAL_NUMBERS);
    }
    for (int j = 0; k->n_rehearse > 0 && j < k->n_mech; j++) {
        f->at.slew[j] = INFINITY;
    }
    for (int i = 0; i < k->n_grouped; i++) {
        f->at.group_task[i] = i;
        f->at.group_first[1] = m;
    }
    if (k->n_groups > 0) {
        fill_numbers(f, 5, 1, f->at.group_rehearsal);
    }
    for (int i = 0, at = 0; k->n_blind > 0 && i < k->n_rehearse + k->n_groups; i++) {
        int n = pf__kit_run_rows(k, i) * k->n_chan;
        for (int j = 0; j < n; j++) {
            f->at.blind[at++] = 1 / sqrt(n);
        }
        f->at.blind_first[i + 1] = at;
    }
}

// --- what the machine does

void pf_fixture_run(const pf_fixture *f, const pf_run *run, const double *correction, double noise,
                    pf_rng *rng, double *response)
{
    const pf_kit *k = &f->kit;
    const int32_t *uses = NULL;
    int n_uses = pf_kit_task_mechanisms(k, run->task, &uses);
    for (int i = 0; i < run->rows * k->n_chan; i++) {
        int row = i / k->n_chan, chan = i % k->n_chan;
        response[i] = .1 * row;
        for (int u = 0; u < (run->command ? k->n_mech : n_uses); u++) {
            int j = run->command ? u : uses[u];
            double sent = run->command ? run->command[row * k->n_mech + j]
                          : run->idle  ? 0
                                       : .35 * (correction ? correction[j] : 1);
            response[i] +=
                (run->gains ? run->gains[j] : 1) * sent * f->effect[j * k->n_chan + chan];
        }
        if (noise > 0) {
            response[i] += noise * k->return_scale[chan] * pf_rng_normal(rng);
        }
    }
}

void pf_fixture_response(const pf_fixture *f, const pf_hypothesis *h, double noise, pf_rng *rng,
                         double *response)
{
    const pf_kit *k = &f->kit;
    const double *base = f->base + h->probe * f->window;
    for (int i = 0; i < pf_kit_probe_rows(k, h->probe) * k->n_chan; i++) {
        response[i] = base[i];
        for (int t = k->probe_target[h->probe]; t < k->probe_target[h->probe + 1]; t++) {
            int j = k->target_mech[t];
            double gain = j == h->mechanism ? h->gain : h->others ? h->others[j] : 1;
            response[i] += gain != 1 ? (1 - gain) * f->direction[t * f->window + i] : 0;
        }
        if (noise > 0) {
            response[i] += noise * k->scale[i % k->n_chan] * pf_rng_normal(rng);
        }
    }
}

static pf_status predict(void *self, const pf_hypothesis *hypothesis, const double *start,
                         int n_start, double *response, pf_error *error)
{
    const pf_fixture *f = self;
    (void)error;
    pf_fixture_response(f, hypothesis, 0, NULL, response);
    double shift = 0;
    for (int i = 0; i < n_start; i++) {
        shift += start[i];
    }
    for (int i = 0; i < pf_kit_probe_rows(&f->kit, hypothesis->probe) * f->kit.n_chan; i++) {
        response[i] += shift;
    }
    return PF_OK;
}

static pf_status predict_run(void *self, const pf_run *run, const double *start, int n_start,
                             double *response, pf_error *error)
{
    (void)start, (void)n_start, (void)error;
    pf_fixture_run(self, run, NULL, 0, NULL, response);
    return PF_OK;
}

pf_predictor pf_fixture_predictor(pf_fixture *f)
{
    return (pf_predictor){f, predict, predict_run};
}

// Edges around 0 and the score of the target's own fault at g_cal.
static void fit_edges(pf_fixture *f, int probe)
{
    const pf_kit *k = &f->kit;
    int first = k->probe_target[probe], n_targets = k->probe_target[probe + 1] - first;
    int rows = pf_kit_probe_rows(k, probe), n = rows * k->n_chan;
    double *h = need(calloc((size_t)(n_targets + 1) * (size_t)n, sizeof(double)));
    double *scratch = need(calloc(pf__match_scratch(n_targets), sizeof(double)));
    pf_match *match = need(calloc((size_t)n_targets, sizeof *match));
    pf_hypothesis nothing = {probe, 0, 1, NULL};
    double *nominal = h + n_targets * n;
    pf_fixture_response(f, &nothing, 0, NULL, nominal);
    for (int t = 0; t < n_targets; t++) {
        pf_hypothesis fault = {probe, k->target_mech[first + t], k->g_cal, NULL};
        pf_fixture_response(f, &fault, 0, NULL, h + t * n);
        pf__scaled_difference(rows, k->n_chan, h + t * n, nominal, k->scale, k->n_scale, h + t * n);
    }
    for (int t = 0; t < n_targets; t++) {
        pf__match_targets(n_targets, n, h, h + t * n, scratch, match);
        double width = match[t].usable ? match[t].score : 1;
        for (int e = 0; e < k->n_bins - 1; e++) {
            f->at.edges[(first + t) * (k->n_bins - 1) + e] =
                width * (1.2 * (e + .5) / (k->n_bins - 1) - .1);
        }
    }
    free(h);
    free(scratch);
    free(match);
}

void pf_fixture_refit(pf_fixture *f)
{
    const pf_kit *k = &f->kit;
    double *variant = f->at.variant;
    for (int q = 0; q < k->n_probes; q++) {
        fit_edges(f, q);
        if (k->n_response == 0) {
            continue;
        }
        pf_hypothesis h = {q, 0, 1, NULL};
        pf_fixture_response(f, &h, 0, NULL, f->at.response + k->probe_row[q] * k->n_chan);
        for (int t = k->probe_target[q]; t < k->probe_target[q + 1]; t++) {
            for (int g = 0; g < k->n_grid; g++) {
                h = (pf_hypothesis){q, k->target_mech[t], k->grid[g], NULL};
                pf_fixture_response(f, &h, 0, NULL, variant);
                variant += pf_kit_probe_rows(k, q) * k->n_chan;
            }
        }
    }
}

pf_fixture *pf_fixture_create(const pf_fixture_config *config)
{
    pf_fixture *f = need(calloc(1, sizeof *f));
    f->config = *config;
    set_dims(&f->kit, config);
    allocate(f);
    pf_rng rng;
    pf_rng_init(&rng, pf__key_text(pf_key_root(config->seed), "fixture"));
    fill_names(f);
    fill_scalars(f, &rng);
    fill_probes(f, &rng);
    fill_channels(f, &rng);
    fill_tasks(f, &rng);
    if (config->looks) {
        fill_looks(f);
    }
    fill_rehearsals(f, &rng);
    pf_fixture_refit(f);
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf_kit_check(&f->kit, &error) == PF_OK)) {
        printf("fixture: %s\n", error.text);
    }
    return f;
}

pf_session *pf_fixture_session(const pf_fixture *f, const char *method, uint64_t seed)
{
    pf_session_config config = {.method = method, .seed = seed};
    size_t bytes = pf_session_size(&f->kit);
    void *memory = need(malloc(bytes));
    pf_session *session = NULL;
    pf_error error = {PF_OK, ""};
    if (!CHECK(pf_session_init(&session, &f->kit, &config, memory, bytes, &error) == PF_OK)) {
        printf("session: %s\n", error.text);
        exit(4);
    }
    return session;
}

pf_status pf_fixture_tell(pf_fixture *f, pf_session *session, int mechanism, double gain,
                          double noise, pf_rng *rng)
{
    pf_ask ask;
    if (!CHECK(pf_session_outstanding(session, &ask))) {
        return PF_ERR_PROBE;
    }
    double *response = need(calloc((size_t)f->window, sizeof(double)));
    pf_hypothesis truth = {ask.probe, mechanism, gain, NULL};
    pf_fixture_response(f, &truth, noise, rng, response);
    pf_tell tell = {
        .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
    pf_predictor predictor = pf_fixture_predictor(f);
    pf_status status =
        pf_session_tell(session, &tell, f->config.recorded ? NULL : &predictor, NULL);
    free(response);
    return status;
}
