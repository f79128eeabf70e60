// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "calibrate/kit_build.h"
#include "preflight/preflight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Time of one stage-1 opportunity (tell and the next ask) on a made-up kit: one pulse per
// candidate, 8 rows x 45 channels, 5 bins, 17 gains. The predictor copies stored responses, so its
// physics is not in the figure. `bench_stage1 FILE` also writes the problem with 16 candidates and
// what the session made of it, for bench_stage1.py.

enum {
    ROWS = 8,
    CHANNELS = 45,
    WINDOW = ROWS * CHANNELS,
    BINS = 5,
    GAINS = 17,
    MEMBERS = 16,
    VARIANTS = 4, // responses per probe, the last one with the fault
    ROUND = 64,   // opportunities after a reset, timed together
    MOST = 64
};

typedef struct problem {
    int m;
    pf_kit_build build;
    double *nominal;  // m x window: what the model expects
    double *changed;  // m x window: at g_cal
    double *response; // m x variants x window: what the machine answers
    pf_session *session;
    void *memory;
    size_t window_bytes; // of one response; a predictor does not know it at compile time
    int probe[ROUND + 1];
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

// --- a plan of m single-target probes and tasks, just enough to lay out a kit

typedef struct lists {
    pf_mechanism mechanisms[MOST + 1];
    pf_channel channels[CHANNELS];
    pf_plan_probe probes[MOST];
    pf_plan_task tasks[MOST];
    int target[MOST];
    double command[ROWS * (MOST + 1)]; // one for all: its values play no part here
    double grid[GAINS], prior[MOST + 1];
} lists;

static void fill_lists(lists *l, int m)
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
        l->probes[j - 1] = (pf_plan_probe){"x", ROWS, l->command, .08 + .001 * j, 1, target};
        l->tasks[j - 1] = (pf_plan_task){.name = "x",
                                         .n_uses = 1,
                                         .uses = target,
                                         .rows = ROWS,
                                         .command = l->command,
                                         .policy = "",
                                         .policy_index = -1,
                                         .reveal = 1.0 / m,
                                         .importance = 1 + .1 * (j % 7)};
    }
    for (int c = 0; c < CHANNELS; c++) {
        l->channels[c] = (pf_channel){"x", 0, 1};
    }
    for (int g = 0; g < GAINS; g++) {
        l->grid[g] = .1 + .05 * g;
    }
}

static void lay_out(problem *p, bool require_probe)
{
    static lists l;
    int m = p->m;
    fill_lists(&l, m);
    pf_plan plan = {.plant = "bench",
                    .n_mech = m + 1,
                    .n_chan = CHANNELS,
                    .mechanisms = l.mechanisms,
                    .channels = l.channels,
                    .n_probes = m,
                    .n_tasks = m,
                    .probes = l.probes,
                    .tasks = l.tasks,
                    .method = "eg-mpt",
                    .g_cal = .35,
                    .n_grid = GAINS,
                    .grid = l.grid,
                    .n_bins = BINS,
                    .episodes = 60,
                    .prior = l.prior,
                    .hazard = .01,
                    .budget1 = 2 * ROUND,
                    .alpha = .1,
                    .j_min = .85,
                    .temperature = .05,
                    .stop = PF_STOP_LATCH,
                    .require_probe = require_probe};
    pf_kit_kind kind = {.predictor = "twin",
                        .source = "bench",
                        .statistic = PF_STATISTIC_MATCHED,
                        .n_scale = 1,
                        .n_members = MEMBERS};
    pf_error error;
    if (pf_kit_build_init(&p->build, &plan, &kind, &error) != PF_OK) {
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
    for (int t = 0; t < p->m; t++) {
        fill_row(b->nominal + t * BINS, healthy, rng);
        fill_row(b->changed + t * BINS, weak, rng);
        memcpy(b->edges + t * (BINS - 1), edges, sizeof edges);
        b->m0[t] = 0;
        b->m1[t] = 1;
        b->sigma[t] = .2;
        b->off_limit[t] = b->distance_limit[t] =
            1e300; // one target per probe: nothing is implausible
    }
    // every task but the last is go, so the test whether all are takes as long as it can
    for (int i = 0; i < MEMBERS * PF_SHARES; i++) {
        b->nte[(p->m - 1) * MEMBERS * PF_SHARES + i] = 1;
    }
}

static void fill_responses(problem *p, pf_rng *rng)
{
    p->nominal = numbers((size_t)p->m * WINDOW);
    p->changed = numbers((size_t)p->m * WINDOW);
    p->response = numbers((size_t)p->m * VARIANTS * WINDOW);
    for (int i = 0; i < p->m * WINDOW; i++) {
        double scale = p->build.scale[i % CHANNELS];
        p->nominal[i] = pf_rng_normal(rng);
        p->changed[i] = p->nominal[i] + .3 * scale * pf_rng_normal(rng);
        for (int v = 0; v < VARIANTS; v++) {
            double mean = v == VARIANTS - 1 ? p->changed[i] : p->nominal[i];
            p->response[((i / WINDOW) * VARIANTS + v) * WINDOW + i % WINDOW] =
                mean + scale * pf_rng_normal(rng);
        }
    }
}

static void start(problem *p, int m, bool require_probe)
{
    pf_rng rng;
    pf_error error;
    pf_rng_init(&rng, pf_key_root((uint64_t)m));
    memset(p, 0, sizeof *p);
    p->m = m;
    p->window_bytes = sizeof(double) * WINDOW;
    lay_out(p, require_probe);
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
    pf_kit_build_free(&p->build);
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
    memcpy(out, (h->mechanism == 0 ? p->nominal : p->changed) + (size_t)h->probe * WINDOW,
           p->window_bytes);
    return PF_OK;
}

// --- what is timed: ROUND opportunities from a fresh session whose first probe is asked for

static double run_round(problem *p)
{
    pf_predictor predictor = {p, predict};
    pf_session_reset(p->session);
    p->probe[0] = pf_session_ask(p->session).probe;
    double begin = bench_now();
    for (int t = 0; t < ROUND; t++) {
        int q = p->probe[t];
        const double *y = p->response + (size_t)(q * VARIANTS + t % VARIANTS) * WINDOW;
        pf_tell tell = {q, y, ROWS, CHANNELS, NULL, 0};
        if (pf_session_tell(p->session, &tell, &predictor, NULL) != PF_OK) {
            fputs("bench_stage1: tell failed\n", stderr);
            exit(1);
        }
        p->probe[t + 1] = pf_session_ask(p->session).probe;
    }
    return (bench_now() - begin) / ROUND;
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

static bool write_problem(problem *p, const char *name)
{
    FILE *file = fopen(name, "wb");
    if (!file) {
        return false;
    }
    const pf_kit *k = &p->build.kit;
    int m = p->m;
    const double head[] = {m, ROWS, CHANNELS, BINS, GAINS, VARIANTS, ROUND, k->hazard, k->g_cal};
    write_numbers(file, 9, head);
    write_numbers(file, CHANNELS, k->scale);
    write_numbers(file, GAINS, k->grid);
    write_numbers(file, m + 1, k->prior);
    write_numbers(file, m, k->weight);
    write_numbers(file, m, k->charge);
    write_numbers(file, m * (BINS - 1), k->edges);
    write_numbers(file, m * BINS, k->nominal);
    write_numbers(file, m * BINS, k->changed);
    write_numbers(file, m, k->m0);
    write_numbers(file, m, k->m1);
    write_numbers(file, m, k->sigma);
    write_numbers(file, m * WINDOW, p->nominal);
    write_numbers(file, m * WINDOW, p->changed);
    write_numbers(file, m * VARIANTS * WINDOW, p->response);
    // what came out
    run_round(p);
    for (int t = 0; t <= ROUND; t++) {
        write_numbers(file, 1, &(double){p->probe[t]});
    }
    write_numbers(file, m + 1, pf_session_belief(p->session));
    write_numbers(file, m * GAINS, pf_session_severity(p->session));
    bool good = !ferror(file);
    return fclose(file) == 0 && good;
}

int main(int argc, char **argv)
{
    const int sizes[] = {4, 8, 16, 32, 64};
    char what[64];
    static problem p;
    for (int i = 0; i < 5; i++) {
        start(&p, sizes[i], false);
        snprintf(what, sizeof what, "stage1_opportunity_%d_candidates", p.m);
        bench_print(what, 1e9 * measure(&p, .4), "ns");
        if (p.m == 16) {
            bench_print("session_16_candidates_17_gains", (double)pf_session_size(&p.build.kit),
                        "bytes");
            if (argc > 1 && !write_problem(&p, argv[1])) {
                fprintf(stderr, "bench_stage1: %s cannot be written\n", argv[1]);
                return 1;
            }
        }
        end(&p);
    }
    start(&p, 16, true);
    bench_print("stage1_opportunity_16_candidates_require_probe", 1e9 * measure(&p, .4), "ns");
    end(&p);
    return 0;
}
