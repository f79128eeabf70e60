// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "core/kit_layout.h"

#include "calibrate/kit_build.h"
#include "calibrate/source.h"
#include "preflight/preflight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Time of one stage-1 opportunity (tell and the next ask) on a made-up kit: one pulse per
// candidate, 8 rows x 45 channels, 5 bins, 17 gains; then on a kit like those of designed
// libraries, with two group probes that target all candidates before the pulses. There the group
// probes have the best value per charge, and a run in which a pulse was told counts as failed. The
// predictor copies stored responses, so its physics is not in the figure. `bench_stage1 turns
// pulses|groups PROBLEM` takes turns with bench_stage1.py on the kit with 16 candidates: it writes
// the problem and what the session made of it.

enum {
    MOST_ROWS = 128,
    CHANNELS = 45,
    BINS = 5,
    GAINS = 17,
    MEMBERS = 16,
    VARIANTS = 4, // responses per probe, the last one with the fault
    ROUND = 64,   // opportunities after a reset, timed together
    MOST = 64,    // candidates
    GROUPS = 2    // group probes, where there are any
};

static int rows = 8; // of a response, as everywhere but where their number is what is measured

static size_t window(void)
{
    return (size_t)(rows * CHANNELS);
}

typedef struct problem {
    int m, groups; // candidates; group probes, which come before the pulses
    pf_kit_build build;
    double *nominal;  // probes x window: what the model expects
    double *changed;  // targets x window: at g_cal
    double *response; // probes x variants x window: what the machine answers
    pf_session *session;
    void *memory;
    size_t window_bytes; // of one response; a predictor does not know it at compile time
    int32_t probe[ROUND + 1];
} problem;

static double *numbers(size_t n)
{
    double *p = malloc(n * sizeof *p);
    if (!p) {
        fputs("bench_stage1: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

// --- a plan of group probes, m pulses and m tasks, just enough to lay out a kit

typedef struct lists {
    pf_mechanism mechanisms[MOST + 1];
    pf_channel channels[CHANNELS];
    pf_plan_probe probes[GROUPS + MOST];
    pf_plan_task tasks[MOST];
    int target[MOST];
    double command[MOST_ROWS * (MOST + 1)]; // one for all: its values play no part here
    double grid[GAINS], prior[MOST + 1];
} lists;

static void fill_lists(lists *l, int m, int groups)
{
    memset(l, 0, sizeof *l);
    l->prior[0] = .95;
    l->command[0] = 1;
    l->mechanisms[0] = (pf_mechanism){"x", -1, 1};
    for (int j = 1; j <= m; j++) {
        int *target = &l->target[j - 1];
        *target = j;
        l->mechanisms[j] = (pf_mechanism){"x", -1, 1};
        l->prior[j] = .05 / m;
        l->probes[groups + j - 1] =
            (pf_plan_probe){"x", rows, l->command, .08 + .001 * j, 1, target, NULL};
        l->tasks[j - 1] = (pf_plan_task){.name = "x",
                                         .n_uses = 1,
                                         .uses = target,
                                         .rows = rows,
                                         .command = l->command,
                                         .policy = "",
                                         .policy_index = -1,
                                         .reveal = 1.0 / m,
                                         .importance = 1 + .1 * (j % 7)};
    }
    // designed probes are as long as a pulse and charged like one
    for (int q = 0; q < groups; q++) {
        l->probes[q] = (pf_plan_probe){"x", rows, l->command, .08, m, l->target, NULL};
    }
    for (int c = 0; c < CHANNELS; c++) {
        l->channels[c] = (pf_channel){"x", 0, 1};
    }
    for (int g = 0; g < GAINS; g++) {
        l->grid[g] = .1 + .05 * g;
    }
}

static void lay_out(problem *p, bool field)
{
    static lists l;
    int m = p->m;
    fill_lists(&l, m, p->groups);
    pf_plan plan = {.plant = "bench",
                    .n_mech = m + 1,
                    .n_chan = CHANNELS,
                    .mechanisms = l.mechanisms,
                    .channels = l.channels,
                    .n_probes = p->groups + m,
                    .n_tasks = m,
                    .probes = l.probes,
                    .tasks = l.tasks,
                    .method = "eg-mpt",
                    .n_grid = GAINS,
                    .grid = l.grid,
                    .prior = l.prior,
                    .settings = {.g_cal = .35,
                                 .bins = BINS,
                                 .episodes = 60,
                                 .alarm_trials = 2000,
                                 .hazard = .01,
                                 .budget1 = 2 * ROUND,
                                 .rehearsals = 1,
                                 .alpha = .1,
                                 .j_min = .85,
                                 .temperature = .05,
                                 .stop = PF_STOP_LATCH,
                                 .posterior = PF_POSTERIOR_JOINT,
                                 .field = field}};
    pf_kit_kind kind = {.predictor = "twin",
                        .source = "bench",
                        .statistic = PF_STATISTIC_MATCHED,
                        .n_scale = 1,
                        .n_knots = field ? PF_LOOK_KNOTS : 0,
                        .knots = pf__look_knots,
                        .n_members = MEMBERS};
    pf_error error;
    if (pf__kit_build_init(&p->build, &plan, &kind, &error) != PF_OK) {
        fprintf(stderr, "bench_stage1: %s\n", error.text);
        exit(1);
    }
}

// --- made-up calibration and responses

static void fill_row(double *row, const double *shape, pf_rng *rng)
{
    double sum = 0;
    for (int c = 0; c < BINS; c++) {
        row[c] = shape[c] * (.8 + .4 * pf_rng_uniform(rng));
        sum += row[c];
    }
    for (int c = 0; c < BINS; c++) {
        row[c] /= sum;
    }
}

// Where coordinates lie: on the straight line, each target by itself.
static void fill_looks(problem *p)
{
    pf_kit_build *b = &p->build;
    const pf_kit *k = &b->kit;
    for (int q = 0; q < k->n_probes && k->n_knots > 0; q++) {
        int n = k->probe_target[q + 1] - k->probe_target[q];
        double *mean = b->look_mean + pf__kit_look(k, q) + n;
        for (int i = 0; i < n * k->n_knots; i++) {
            mean[i * n + i / k->n_knots] = (1 - k->knots[i % k->n_knots]) / (1 - k->g_cal);
        }
    }
    for (int i = 0; i < k->n_look; i++) {
        b->look_variance[i] = .04;
    }
}

static void fill_kit(problem *p, pf_rng *rng)
{
    const double healthy[BINS] = {.38, .38, .22, .01, .01};
    const double weak[BINS] = {.01, .01, .22, .38, .38};
    const double edges[BINS - 1] = {-.3, .6, 5.0, 6.0};
    pf_kit_build *b = &p->build;
    for (int c = 0; c < CHANNELS; c++) {
        b->scale[c] = .5 + pf_rng_uniform(rng);
        b->return_scale[c] = 1;
    }
    for (int t = 0; t < b->kit.n_targets; t++) {
        fill_row(b->nominal + t * BINS, healthy, rng);
        fill_row(b->changed + t * BINS, weak, rng);
        memcpy(b->edges + t * (BINS - 1), edges, sizeof edges);
        b->centre_nominal[t] = 0;
        b->centre_changed[t] = 1;
        b->sigma[t] = .2;
    }
    for (int q = 0; q < b->kit.n_probes; q++) {
        b->off_limit[q] = b->distance_limit[q] = 1e300; // nothing is implausible
    }
    // every task but the last is go, so the test whether all are takes as long as it can; the last
    // one is not hopeless, so no session is settled: some of its members miss
    for (int i = 0; i < MEMBERS / 5 * PF_RETURN_SHARES; i++) {
        b->tracking_error[(p->m - 1) * MEMBERS * PF_RETURN_SHARES + i] = 1;
    }
    fill_looks(p);
}

static void fill_responses(problem *p, pf_rng *rng)
{
    const pf_kit *k = &p->build.kit;
    p->nominal = numbers((size_t)k->n_probes * window());
    p->changed = numbers((size_t)k->n_targets * window());
    p->response = numbers((size_t)k->n_probes * VARIANTS * window());
    for (size_t i = 0; i < (size_t)k->n_probes * window(); i++) {
        size_t q = i / window(), x = i % window();
        int target = k->probe_target[q];
        double scale = k->scale[x % CHANNELS], weak = 0;
        p->nominal[i] = pf_rng_normal(rng);
        for (; target < k->probe_target[q + 1]; target++) {
            weak = p->nominal[i] + .3 * scale * pf_rng_normal(rng);
            p->changed[(size_t)target * window() + x] = weak;
        }
        // the fault is that of the probe's last target
        for (int v = 0; v < VARIANTS; v++) {
            double mean = v == VARIANTS - 1 ? weak : p->nominal[i];
            p->response[(q * VARIANTS + (size_t)v) * window() + x] =
                mean + scale * pf_rng_normal(rng);
        }
    }
}

static void start(problem *p, int m, int groups, bool field)
{
    pf_rng rng;
    pf_error error;
    pf_rng_init(&rng, pf_key_root((uint64_t)m));
    memset(p, 0, sizeof *p);
    p->m = m;
    p->groups = groups;
    p->window_bytes = sizeof(double) * window();
    lay_out(p, field);
    fill_kit(p, &rng);
    fill_responses(p, &rng);
    size_t bytes = pf_session_size(&p->build.kit);
    p->memory = malloc(bytes);
    if (pf_session_init(&p->session, &p->build.kit, NULL, p->memory, bytes, &error) != PF_OK) {
        fprintf(stderr, "bench_stage1: %s\n", error.text);
        exit(1);
    }
}

static void end(problem *p)
{
    pf__kit_build_free(&p->build);
    free(p->nominal);
    free(p->changed);
    free(p->response);
    free(p->memory);
}

static pf_status predict(void *self, const pf_hypothesis *h, const double *from, int n_from,
                         double *out, pf_error *error)
{
    (void)from;
    (void)n_from;
    (void)error;
    const problem *p = self;
    const double *from_here = p->nominal + (size_t)h->probe * window();
    if (h->mechanism > 0) {
        int target = p->build.kit.probe_target[h->probe];
        target += h->probe < p->groups ? h->mechanism - 1 : 0;
        from_here = p->changed + (size_t)target * window();
    }
    memcpy(out, from_here, p->window_bytes);
    return PF_OK;
}

// --- what is timed: ROUND opportunities from a fresh session whose first probe is asked for

static double run_round(problem *p)
{
    pf_predictor predictor = {p, predict, NULL};
    pf_session_reset(p->session);
    p->probe[0] = pf_session_ask(p->session).probe;
    double begin = bench_cpu();
    for (int t = 0; t < ROUND; t++) {
        int q = p->probe[t];
        if (p->groups > 0 && q >= p->groups) {
            fputs("bench_stage1: a single pulse in a round of group probes\n", stderr);
            exit(1);
        }
        const double *y = p->response + (size_t)(q * VARIANTS + t % VARIANTS) * window();
        pf_tell tell = {.probe = q, .response = y, .rows = rows, .channels = CHANNELS};
        if (pf_session_tell(p->session, &tell, &predictor, NULL) != PF_OK) {
            fputs("bench_stage1: tell failed\n", stderr);
            exit(1);
        }
        p->probe[t + 1] = pf_session_ask(p->session).probe;
    }
    return (bench_cpu() - begin) / ROUND;
}

// The minimum over about `seconds` of rounds, after a warm-up of a quarter of that.
static double measure(problem *p, double seconds)
{
    double best = INFINITY, begin = bench_now();
    while (bench_now() - begin < .25 * seconds) {
        run_round(p);
    }
    begin = bench_now();
    while (bench_now() - begin < seconds) {
        double now = run_round(p);
        best = now < best ? now : best;
    }
    return best;
}

// --- the problem for NumPy: all doubles, in the order in which bench_stage1.py reads them

static void write_numbers(FILE *file, int n, const double *values)
{
    fwrite(values, sizeof *values, (size_t)n, file);
}

static void write_integers(FILE *file, int n, const int32_t *values)
{
    for (int i = 0; i < n; i++) {
        write_numbers(file, 1, &(double){values[i]});
    }
}

static void write_problem(problem *p, const char *name)
{
    FILE *file = fopen(name, "wb");
    if (!file) {
        fprintf(stderr, "bench_stage1: %s cannot be opened\n", name);
        exit(1);
    }
    const pf_kit *k = &p->build.kit;
    int m = p->m, probes = k->n_probes, targets = k->n_targets;
    const double head[] = {m,     probes,   targets, rows,      CHANNELS, BINS,
                           GAINS, VARIANTS, ROUND,   k->hazard, k->g_cal};
    write_numbers(file, 11, head);
    write_integers(file, probes + 1, k->probe_target);
    write_integers(file, targets, k->target_mech);
    write_numbers(file, CHANNELS, k->scale);
    write_numbers(file, GAINS, k->grid);
    write_numbers(file, m + 1, k->prior);
    write_numbers(file, m, k->weight);
    write_numbers(file, probes, k->charge);
    write_numbers(file, targets * (BINS - 1), k->edges);
    write_numbers(file, targets * BINS, k->nominal);
    write_numbers(file, targets * BINS, k->changed);
    write_numbers(file, targets, k->centre_nominal);
    write_numbers(file, targets, k->centre_changed);
    write_numbers(file, targets, k->sigma);
    write_numbers(file, probes * rows * CHANNELS, p->nominal);
    write_numbers(file, targets * rows * CHANNELS, p->changed);
    write_numbers(file, probes * VARIANTS * rows * CHANNELS, p->response);
    // what came out
    run_round(p);
    write_integers(file, ROUND + 1, p->probe);
    write_numbers(file, m + 1, pf_session_belief(p->session));
    write_numbers(file, m * GAINS, pf_session_severity(p->session));
    bool good = !ferror(file);
    if (fclose(file) != 0 || !good) {
        fprintf(stderr, "bench_stage1: %s cannot be written\n", name);
        exit(1);
    }
}

static void time_kit(int m, int groups, bool field, const char *what)
{
    static problem p;
    start(&p, m, groups, field);
    bench_print(what, 1e9 * measure(&p, .4), "ns");
    if (m == 16 && rows == 8) {
        char size[64];
        snprintf(size, sizeof size, "session_16_candidates_17_gains%s%s",
                 groups > 0 ? "_groups" : "", field ? "_field" : "");
        bench_print(size, (double)pf_session_size(&p.build.kit), "bytes");
    }
    end(&p);
}

static double one_round(void *self)
{
    run_round(self);
    return ROUND;
}

// Turns on the kit of pulses or on that of groups, whose problem is written for the rival.
static int take_turns(const char *what, const char *name)
{
    static problem p;
    start(&p, 16, strcmp(what, "groups") == 0 ? GROUPS : 0, false);
    write_problem(&p, name);
    int code = bench_turns(one_round, &p);
    end(&p);
    return code;
}

// An opportunity by the rows of a response.
static int grow_rows(void)
{
    for (rows = 8; rows <= MOST_ROWS; rows *= 2) {
        char what[64];
        snprintf(what, sizeof what, "stage1_opportunity_%d_rows", rows);
        time_kit(16, 0, false, what);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const int sizes[] = {4, 8, 16, 32, 64};
    if (argc == 4 && strcmp(argv[1], "turns") == 0) {
        return take_turns(argv[2], argv[3]);
    }
    if (argc == 2 && strcmp(argv[1], "rows") == 0) {
        return grow_rows();
    }
    if (argc != 1) {
        fputs("usage: bench_stage1 [rows | turns pulses|groups PROBLEM]\n", stderr);
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        char what[64];
        snprintf(what, sizeof what, "stage1_opportunity_%d_candidates", sizes[i]);
        time_kit(sizes[i], 0, false, what);
    }
    time_kit(16, 0, true, "stage1_opportunity_16_candidates_field");
    time_kit(16, GROUPS, false, "stage1_group_opportunity_16_targets");
    time_kit(16, GROUPS, true, "stage1_group_opportunity_16_targets_field");
    return 0;
}
