// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "calibrate/recordings_read.h"
#include "host/csv.h"
#include "host/text.h"

#include "preflight/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void test_recordings(void);

// --- a machine: two outputs, each a first-order lag of what three mechanisms deliver

enum { ROWS = 6, CHAN = 2, MECH = 3, WINDOW = ROWS * CHAN };

typedef struct machine {
    bool group; // one probe that moves both candidates at once, else one pulse each
    bool same;  // both candidates act in the same way
    double noise;
} machine;

static const double command_single[2][ROWS][MECH] = {
    {{0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {{0, 0, .5}, {0, 0, .5}, {0, 0, .5}, {0, 0, .5}, {0, 0, 0}, {0, 0, 0}},
};
static const double command_group[ROWS][MECH] = {{0, 1, .5},  {0, 1, -.5}, {0, -1, .5},
                                                 {0, -1, -.5}, {0, 1, .5},  {0, 1, -.5}};

static const double *command_of(const machine *w, int probe)
{
    return w->group ? &command_group[0][0] : &command_single[probe][0][0];
}

static void respond(const machine *w, int probe, int mechanism, double gain, pf_key key,
                    double *out)
{
    static const double effect[CHAN][MECH] = {{1, 2, .3}, {.5, -.4, 3}};
    const double *command = command_of(w, probe);
    double y[CHAN] = {0, 0};
    pf_rng rng;
    pf_rng_init(&rng, key);
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < CHAN; c++) {
            y[c] *= .7;
            for (int j = 0; j < MECH; j++) {
                double g = j == mechanism && j > 0 ? gain : 1;
                double u = w->same && j > 0 ? command[r * MECH + 1] : command[r * MECH + j];
                y[c] += effect[c][w->same && j > 0 ? 1 : j] * g * u;
            }
            out[r * CHAN + c] = y[c] + w->noise * (c + 1) * pf_rng_normal(&rng);
        }
    }
}

static pf_key episode_key(int probe, int mechanism, double gain, int rank)
{
    return pf_key_stream(7, "machine", (uint64_t)rank, PF_PURPOSE_CALIBRATION,
                         (uint64_t)(1000 * probe + 100 * mechanism) + (uint64_t)(50 * gain));
}

// --- its recordings

typedef struct recording {
    machine w;
    int nominal, weak; // episodes per class
    int n_gains;
    double gains[4];
    bool no_u, by_index, crlf, by_step; // by_step: all first steps, then all second ones, ...
} recording;

static recording usual(void)
{
    return (recording){.w = {.noise = .1}, .nominal = 40, .weak = 40, .n_gains = 1, .gains = {.35}};
}

static const char *probe_label(const recording *r, int probe)
{
    static const char *const names[2] = {"left", "right"}, *const index[2] = {"0", "1"};
    return r->w.group ? "both" : r->by_index ? index[probe] : names[probe];
}

static void add_row(pf_text *csv, const recording *r, int probe, int mechanism, double gain,
                    int rank, int step)
{
    double y[WINDOW];
    respond(&r->w, probe, mechanism, gain, episode_key(probe, mechanism, gain, rank), y);
    pf_text_addf(csv, "p%dm%dg%g-%d,%s,", probe, mechanism, gain, rank, probe_label(r, probe));
    if (mechanism > 0) {
        pf_text_addf(csv, r->by_index ? "%d" : "u%d", mechanism);
    }
    pf_text_addf(csv, ",%.17g,%d", gain, step + 1);
    for (int c = 0; c < CHAN; c++) {
        pf_text_addf(csv, ",%.17g", y[step * CHAN + c]);
    }
    for (int j = 0; j < MECH && !r->no_u; j++) {
        // on weakened rows whatever stands there is ignored
        double u = command_of(&r->w, probe)[step * MECH + j];
        pf_text_addf(csv, mechanism > 0 ? ",measured" : ",%.17g", u);
    }
    pf_text_add(csv, r->crlf ? "\r\n" : "\n");
}

static void add_class(pf_text *csv, const recording *r, int probe, int mechanism, double gain,
                      int n)
{
    for (int i = 0; i < n * ROWS; i++) {
        int rank = r->by_step ? i % n : i / ROWS, step = r->by_step ? i / n : i % ROWS;
        add_row(csv, r, probe, mechanism, gain, rank, step);
    }
}

static char *record(const recording *r)
{
    pf_text csv = {0};
    pf_text_add(&csv, "episode,probe,mechanism,gain,step,speed,turn");
    pf_text_add(&csv, r->no_u ? "" : ",u0,u1,u2");
    pf_text_add(&csv, r->crlf ? "\r\n" : "\n");
    for (int q = 0; q < (r->w.group ? 1 : 2); q++) {
        add_class(&csv, r, q, 0, 1, r->nominal);
        for (int j = 1; j < MECH; j++) {
            for (int g = 0; g < r->n_gains && (r->w.group || j == q + 1); g++) {
                add_class(&csv, r, q, j, r->gains[g], r->weak);
            }
        }
    }
    CHECK(!csv.failed);
    return csv.data;
}

// --- kits

typedef struct made {
    void *bytes;
    size_t n;
    pf_kit kit;
    pf_status status;
    pf_error error;
} made;

static made make_kit(const pf_plan *plan, const char *csv, int threads)
{
    made m = {0};
    pf_effort effort = {.threads = threads};
    m.status = pf_calibrate_recordings(plan, "log.csv", csv, strlen(csv), &effort, &m.bytes, &m.n,
                                       &m.error);
    if (m.status == PF_OK) {
        CHECK(pf_kit_load(&m.kit, m.bytes, m.n, &m.error) == PF_OK);
    }
    return m;
}

static made make(const pf_plan *plan, const recording *r)
{
    char *csv = record(r);
    made m = make_kit(plan, csv, 1);
    if (!CHECK(m.status == PF_OK)) {
        printf("%s\n", m.error.text);
    }
    free(csv);
    return m;
}

typedef struct outcome {
    bool alarm, go;
    pf_done done;
    double changed[MECH], gain[MECH];
} outcome;

// One whole session on a machine with one mechanism weakened.
static outcome run_session(const pf_kit *kit, const machine *w, int mechanism, double gain,
                           int trial)
{
    outcome out = {.go = true};
    size_t bytes = pf_session_size(kit);
    void *memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    pf_session *s = NULL;
    pf_error error;
    if (!CHECK(pf_session_init(&s, kit, NULL, memory, bytes, &error) == PF_OK)) {
        free(memory);
        return out;
    }
    for (int told = 0;; told++) {
        pf_ask ask = pf_session_ask(s);
        double y[WINDOW];
        if (ask.kind == PF_ASK_DONE) {
            out.done = ask.why;
            break;
        }
        respond(w, ask.probe, mechanism, gain,
                pf_key_stream(9, "machine", (uint64_t)trial, PF_PURPOSE_EVALUATION, (uint64_t)told),
                y);
        pf_tell tell = {.probe = ask.probe, .response = y, .rows = ROWS, .channels = CHAN};
        if (!CHECK(pf_session_tell(s, &tell, NULL, &error) == PF_OK)) {
            break;
        }
    }
    pf_session_certify(s);
    out.alarm = pf_session_alarm(s);
    for (int t = 0; t < kit->n_tasks; t++) {
        out.go = out.go && pf_session_task(s, t)->decision == PF_GO;
    }
    for (int j = 1; j < MECH; j++) {
        out.changed[j] = pf_session_mechanism(s, j)->changed;
        out.gain[j] = pf_session_mechanism(s, j)->mean_gain;
    }
    free(memory);
    return out;
}

enum { TRIALS = 20 };

// How often a fault was found: alarm, the right mechanism, its gain within the tolerance.
static int found(const pf_kit *kit, const machine *w, int mechanism, double gain, double tolerance)
{
    int n = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        outcome o = run_session(kit, w, mechanism, gain, trial);
        int other = 3 - mechanism;
        n += o.alarm && o.changed[mechanism] > .9 && o.changed[other] < .1 &&
             fabs(o.gain[mechanism] - gain) < tolerance;
    }
    return n;
}

static int ready(const pf_kit *kit, const machine *w)
{
    int n = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        outcome o = run_session(kit, w, 0, 1, 100 + trial);
        n += o.done == PF_DONE_READY && o.go;
    }
    return n;
}

// --- cases

static void mean_of(const recording *r, int probe, int mechanism, double gain, int n, double *mean)
{
    memset(mean, 0, WINDOW * sizeof *mean);
    for (int rank = 0; rank < n; rank += 2) {
        double y[WINDOW];
        respond(&r->w, probe, mechanism, gain, episode_key(probe, mechanism, gain, rank), y);
        for (int i = 0; i < WINDOW; i++) {
            mean[i] += y[i] / (n / 2);
        }
    }
}

// Means, scale and e_k again, from the machine itself.
static void check_numbers(const recording *r, const pf_kit *k)
{
    double mean[2][WINDOW], weak[WINDOW], energy[CHAN] = {0, 0};
    for (int q = 0; q < 2; q++) {
        mean_of(r, q, 0, 1, r->nominal, mean[q]);
        for (int rank = 0; rank < r->nominal; rank += 2) {
            double y[WINDOW];
            respond(&r->w, q, 0, 1, episode_key(q, 0, 1, rank), y);
            for (int i = 0; i < WINDOW; i++) {
                energy[i % CHAN] += (y[i] - mean[q][i]) * (y[i] - mean[q][i]);
            }
        }
        for (int i = 0; i < WINDOW; i++) {
            CHECK_NEAR(k->response[q * WINDOW + i], mean[q][i], 1e-12);
        }
    }
    for (int c = 0; c < CHAN; c++) {
        CHECK_NEAR(k->scale[c], sqrt(energy[c] / (2 * (r->nominal / 2) * ROWS)), 1e-12);
        CHECK(k->return_scale[c] == k->scale[c]);
    }
    mean_of(r, 0, 1, .35, r->weak, weak);
    for (int g = 0; g < k->n_grid; g++) {
        double part = (k->grid[g] - .35) / .65;
        for (int i = 0; i < WINDOW; i++) {
            CHECK_NEAR(k->variant[g * WINDOW + i], weak[i] + part * (mean[0][i] - weak[i]), 1e-12);
        }
    }
    // the second task is the second probe; its third member is the episode of rank 5
    double y[WINDOW], missed = 0, whole = 0;
    respond(&r->w, 1, 0, 1, episode_key(1, 0, 1, 5), y);
    for (int i = 0; i < WINDOW; i++) {
        missed += pow((y[i] - mean[1][i]) / k->scale[i % CHAN], 2);
        whole += pow(mean[1][i] / k->scale[i % CHAN], 2);
    }
    const double *row = k->nte + (size_t)(1 * k->n_members + 2) * (size_t)k->n_shares;
    CHECK_NEAR(row[20], missed / whole, 1e-12);
    CHECK_NEAR(row[10], .25 + missed / whole, 1e-12);
    CHECK_NEAR(row[40], 1 + missed / whole, 1e-12);
}

static void test_plain(void)
{
    PF_CASE("a kit from u columns alone");
    recording r = usual();
    char *csv = record(&r);
    made m = make_kit(NULL, csv, 1), two = make_kit(NULL, csv, 2);
    const pf_kit *k = &m.kit;
    if (!CHECK(m.status == PF_OK && two.status == PF_OK)) {
        printf("%s\n", m.error.text);
        free(csv);
        return;
    }
    CHECK(k->n_mech == 3 && k->n_chan == 2 && k->n_probes == 2 && k->n_targets == 2);
    CHECK(k->n_state == 0 && k->n_tasks == 2 && k->n_members == 20 && k->episodes == 40);
    CHECK(k->n_grid == 17 && k->n_bins == 5 && k->n_curve == 0 && k->n_cross == 0);
    CHECK(k->budget1 == 8 && k->budget2 == 2 && k->stop == PF_STOP_LATCH && k->require_probe == 1);
    CHECK(k->g_cal == .35 && k->prior[0] == .95 && k->prior[1] == .025 && k->hazard == 0);
    CHECK(k->alpha == .1 && k->j_min == .85 && k->temperature == .05 && k->alarm_trials == 2000);
    CHECK(isinf(k->lo[1]) && isinf(k->hi[2]) && k->task_reveal[0] == .5 && k->weight[1] == .5);
    CHECK(k->command[MECH + 1] == 1 && k->command[ROWS * MECH + 2] == .5);
    CHECK_NEAR(k->charge[0], .06, 1e-15);
    CHECK_STR(pf_kit_get_string(k, PF_KIT_PREDICTOR), "recordings");
    CHECK_STR(pf_kit_get_string(k, PF_KIT_PLANT), "recordings");
    CHECK_STR(pf_kit_probe_name(k, 1), "right");
    CHECK_STR(pf_kit_task_name(k, 0), "left");
    CHECK_STR(pf_kit_mechanism_name(k, 2), "u2");
    CHECK_STR(pf_kit_channel_name(k, 1), "turn");
    CHECK_STR(pf_kit_method_id(k, 0), "eg-mpt");
    CHECK(strncmp(pf_kit_get_string(k, PF_KIT_SOURCE), "sha256:", 7) == 0);
    CHECK(strlen(pf_kit_get_string(k, PF_KIT_SOURCE)) == 71);
    CHECK(k->threshold[0] > 0 && k->threshold[0] < 1);
    PF_CASE("means, scale, responses and returns are what they are said to be");
    check_numbers(&r, k);
    PF_CASE("equal bytes for one thread and two");
    CHECK(m.n == two.n && memcmp(m.bytes, two.bytes, m.n) == 0);
    free(m.bytes);
    free(two.bytes);
    free(csv);
}

static void test_sessions(void)
{
    PF_CASE("faults are found and healthy machines ready");
    recording r = usual();
    r.w.noise = .3;
    r.nominal = r.weak = 80;
    made m = make(NULL, &r);
    if (m.status != PF_OK) {
        return;
    }
    int healthy = ready(&m.kit, &r.w);
    CHECK(healthy >= TRIALS - 2);
    for (int j = 1; j < MECH; j++) {
        CHECK(found(&m.kit, &r.w, j, .35, .1) >= TRIALS - 1);
    }
    PF_CASE("milder faults than the calibrated one");
    for (int j = 1; j < MECH; j++) {
        int alarms = 0, wrong = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            outcome o = run_session(&m.kit, &r.w, j, .6, trial);
            alarms += o.alarm && o.changed[j] > .9 && fabs(o.gain[j] - .6) < .15;
            // ready as it is, though it is weak
            wrong += o.go && o.gain[j] > .9;
        }
        printf("DBG j %d alarms %d wrong %d healthy %d\n", j, alarms, wrong, healthy);
    }
    free(m.bytes);
}

void test_recordings(void)
{
    test_plain();
    test_sessions();
}
