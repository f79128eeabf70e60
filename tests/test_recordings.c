// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "recordings_machine.h"
#include "core/kit_layout.h"
#include "core/evidence.h"
#include "test.h"

#include "host/text.h"

#include "preflight/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void test_recordings(void);

// --- a machine: two outputs, each a first-order lag of what three mechanisms deliver

const double recording_commands[2][ROWS][MECH] = {
    {{0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {{0, 0, .5}, {0, 0, .5}, {0, 0, .5}, {0, 0, .5}, {0, 0, 0}, {0, 0, 0}},
};
static const double command_group[ROWS][MECH] = {{0, 1, .5},   {0, 1, -.5}, {0, -1, .5},
                                                 {0, -1, -.5}, {0, 1, .5},  {0, 1, -.5}};

static const double *command_of(const machine *w, int probe)
{
    return w->group ? &command_group[0][0] : &recording_commands[probe][0][0];
}

// What a candidate delivers.
static double delivered(const machine *w, double v)
{
    double size = w->top > 0 ? fmin(fabs(v), w->top) : fabs(v);
    return copysign(fmax(0, size - w->dead), v);
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
                y[c] += effect[c][w->same && j > 0 ? 1 : j] * delivered(w, g * u);
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

recording recording_usual(void)
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
    pf__text_addf(csv, "p%dm%dg%g-%d,%s,", probe, mechanism, gain, rank, probe_label(r, probe));
    if (mechanism > 0) {
        pf__text_addf(csv, r->by_index ? "%d" : "u%d", mechanism);
    }
    pf__text_addf(csv, ",%.17g,%d", gain, step + 1);
    for (int c = 0; c < CHAN; c++) {
        pf__text_addf(csv, ",%.17g", y[step * CHAN + c]);
    }
    for (int j = 0; j < MECH && !r->no_u; j++) {
        // on weakened rows whatever stands there is ignored
        double u = command_of(&r->w, probe)[step * MECH + j];
        pf__text_addf(csv, mechanism > 0 ? ",measured" : ",%.17g", u);
    }
    pf__text_add(csv, r->crlf ? "\r\n" : "\n");
}

static void add_class(pf_text *csv, const recording *r, int probe, int mechanism, double gain,
                      int n)
{
    for (int i = 0; i < n * ROWS; i++) {
        int rank = r->by_step ? i % n : i / ROWS, step = r->by_step ? i / n : i % ROWS;
        add_row(csv, r, probe, mechanism, gain, rank, step);
    }
}

char *recording_text(const recording *r)
{
    pf_text csv = {0};
    pf__text_add(&csv, "episode,probe,mechanism,gain,step,speed,turn");
    pf__text_add(&csv, r->no_u ? "" : ",u0,u1,u2");
    pf__text_add(&csv, r->crlf ? "\r\n" : "\n");
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

made recording_kit_of_text(const pf_plan *plan, const char *csv, int threads)
{
    made m = {0};
    pf_effort effort = {.threads = threads};
    m.status = pf_calibrate_recordings(plan, "log.csv", csv, strlen(csv), &effort, &m.bytes, &m.n,
                                       &m.error);
    if (m.status == PF_OK) {
        CHECK(pf__kit_read(&m.kit, m.bytes, m.n, &m.error) == PF_OK);
    }
    return m;
}

made recording_kit(const pf_plan *plan, const recording *r)
{
    char *csv = recording_text(r);
    made m = recording_kit_of_text(plan, csv, 1);
    if (!CHECK(m.status == PF_OK)) {
        printf("%s\n", m.error.text);
    }
    free(csv);
    return m;
}

typedef struct outcome {
    bool alarm, go;
    pf_done done;
    int rehearsals;
    pf_task_readiness tasks[2];
    double changed[MECH], gain[MECH], correction[MECH];
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
        pf_key key =
            pf_key_stream(9, "machine", (uint64_t)trial, PF_PURPOSE_EVALUATION, (uint64_t)told);
        if (ask.kind == PF_ASK_REHEARSAL) {
            // the task is a probe, driven by its correction
            const double *asked = pf_kit_task_command(kit, ask.tasks[0]);
            const int32_t *uses = NULL;
            int n = pf_kit_task_mechanisms(kit, ask.tasks[0], &uses), weak = uses[0];
            for (int u = 0; u < n; u++) {
                weak = uses[u] == mechanism ? mechanism : weak;
            }
            double share = ask.correction[weak] * (weak == mechanism ? gain : 1);
            respond(w, pf__recorded_probe(kit, ROWS, asked), weak, share, key, y);
        } else {
            respond(w, ask.probe, mechanism, gain, key, y);
        }
        pf_tell tell = {.probe = ask.probe,
                        .response = y,
                        .rows = ROWS,
                        .channels = CHAN,
                        .n_tasks = ask.n_tasks,
                        .tasks = ask.tasks};
        if (!CHECK(pf_session_tell(s, &tell, NULL, &error) == PF_OK)) {
            break;
        }
    }
    pf_session_certify(s);
    out.alarm = pf_session_get_state(s).alarm;
    out.rehearsals = pf_session_get_state(s).rehearsals;
    for (int t = 0; t < kit->n_tasks; t++) {
        out.tasks[t] = *pf_session_task(s, t);
        out.go = out.go && pf_session_task(s, t)->decision != PF_NO_GO;
    }
    for (int j = 1; j < MECH; j++) {
        out.changed[j] = pf_session_mechanism(s, j)->changed;
        out.correction[j] = pf_session_mechanism(s, j)->correction;
        out.gain[j] = pf_session_mechanism(s, j)->mean_gain;
    }
    free(memory);
    return out;
}

enum { TRIALS = 20 };

// How often a fault was found: alarm, the right mechanism. Whatever the session says, a machine
// that it lets go must do its task: j_min is .85.
static int found(const pf_kit *kit, const machine *w, int mechanism, double gain)
{
    int n = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        outcome o = run_session(kit, w, mechanism, gain, trial);
        n += o.alarm && o.changed[mechanism] > o.changed[3 - mechanism];
        double missed = 1 - gain * o.correction[mechanism];
        CHECK(!o.go || exp(-missed * missed) > .85);
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

// What one run missed of the mean nominal response beyond the law of proportion, from the machine.
static double excess_of(const recording *r, const pf_kit *k, int probe, double gain, int member)
{
    double mean[WINDOW], y[WINDOW], missed = 0, whole = 0;
    int mechanism = gain < 1 ? probe + 1 : 0;
    mean_of(r, probe, 0, 1, r->nominal, mean);
    respond(&r->w, probe, mechanism, gain, episode_key(probe, mechanism, gain, 2 * member + 1), y);
    for (int i = 0; i < WINDOW; i++) {
        missed += pow((y[i] - mean[i]) / k->scale[i % CHAN], 2);
        whole += pow(mean[i] / k->scale[i % CHAN], 2);
    }
    return missed / whole - (1 - gain) * (1 - gain);
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
    const double *row = k->tracking_error + (size_t)(1 * k->n_members + 2) * (size_t)k->n_shares;
    CHECK_NEAR(row[20], missed / whole, 1e-12);
    // half the command: between what was recorded at .35 and at 1
    double low = excess_of(r, k, 1, .35, 2), high = excess_of(r, k, 1, 1, 2);
    CHECK_NEAR(row[10], .25 + low + (.5 - .35) / .65 * (high - low), 1e-12);
    CHECK_NEAR(row[40], 1 + missed / whole, 1e-12);
}

static void test_plain(void)
{
    PF_CASE("a kit from u columns alone");
    recording r = recording_usual();
    char *csv = recording_text(&r);
    made m = recording_kit_of_text(NULL, csv, 1), two = recording_kit_of_text(NULL, csv, 2);
    const pf_kit *k = &m.kit;
    if (!CHECK(m.status == PF_OK && two.status == PF_OK)) {
        printf("%s\n", m.error.text);
        free(csv);
        return;
    }
    CHECK(k->n_mech == 3 && k->n_chan == 2 && k->n_probes == 2 && k->n_targets == 2);
    CHECK(k->n_state == 0 && k->n_tasks == 2 && k->n_members == 20 && k->episodes == 40);
    CHECK(k->n_grid == 17 && k->n_bins == 5 && k->n_curve == 0 && k->n_cross == 0);
    CHECK(k->budget1 == 8 && k->budget2 == 2 && k->stop == PF_STOP_LATCH && k->field == 1);
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

static void check_sessions(const pf_kit *kit, const machine *w)
{
    CHECK(ready(kit, w) >= TRIALS - 1);
    for (int j = 1; j < MECH; j++) {
        CHECK(found(kit, w, j, .35) >= TRIALS - 1);
        CHECK(found(kit, w, j, .6) >= TRIALS - 1);
        // between the calibrated gains, and where it hardly matters
        found(kit, w, j, .5);
        found(kit, w, j, .75);
    }
}

static void test_sessions(void)
{
    static const double noises[] = {.02, .1, .2};
    for (int i = 0; i < 3; i++) {
        PF_CASE("faults are found, healthy machines ready");
        recording r = recording_usual();
        r.w.noise = noises[i];
        made m = recording_kit(NULL, &r);
        if (m.status == PF_OK) {
            check_sessions(&m.kit, &r.w);
        }
        free(m.bytes);
    }
    PF_CASE("few episodes");
    recording r = recording_usual();
    r.nominal = r.weak = 20;
    made m = recording_kit(NULL, &r);
    if (m.status == PF_OK) {
        CHECK(m.kit.n_members == 10 && m.kit.episodes == 20);
        check_sessions(&m.kit, &r.w);
    }
    free(m.bytes);
    PF_CASE("many more nominal episodes than weakened ones: classes are pooled 1:1");
    r.nominal = 200;
    m = recording_kit(NULL, &r);
    if (m.status == PF_OK) {
        // unequal classes do not move the edges: healthy responses share one category, few
        // weakened ones fall into it
        int home = 0;
        for (int c = 1; c < m.kit.n_bins; c++) {
            home = m.kit.nominal[c] > m.kit.nominal[home] ? c : home;
        }
        CHECK(m.kit.nominal[home] > .85);
        CHECK(m.kit.changed[home] < .2);
        check_sessions(&m.kit, &r.w);
    }
    free(m.bytes);
}

static void test_group(void)
{
    PF_CASE("a group probe with two targets");
    recording r = recording_usual();
    r.w.group = true;
    made m = recording_kit(NULL, &r);
    if (m.status == PF_OK) {
        CHECK(m.kit.n_probes == 1 && m.kit.n_targets == 2 && m.kit.n_tasks == 1);
        CHECK(m.kit.n_uses == 2 && m.kit.budget1 == 8 && m.kit.cross_ratio >= 1);
        // the error of a run counts once, however many mechanisms its task uses
        size_t members = (size_t)m.kit.n_members, shares = (size_t)m.kit.n_shares;
        CHECK(m.kit.tracking_error[20] > 0 &&
              m.kit.tracking_error[20] == m.kit.tracking_error[members * shares + 20]);
        check_sessions(&m.kit, &r.w);
    }
    free(m.bytes);
    PF_CASE("targets that cannot be told apart");
    r.w.same = true;
    char *csv = recording_text(&r);
    m = recording_kit_of_text(NULL, csv, 1);
    CHECK(m.status == PF_ERR_DEGENERATE);
    CHECK_CONTAINS(m.error.text, "mechanism 'u1': cannot be told apart from 'u2'");
    free(csv);
}

static void test_gains(void)
{
    PF_CASE("several gains give a curve");
    recording r = recording_usual();
    r.n_gains = 3;
    r.gains[0] = .6;
    r.gains[1] = .2;
    r.gains[2] = .4;
    made m = recording_kit(NULL, &r);
    if (m.status == PF_OK) {
        const pf_kit *k = &m.kit;
        CHECK(k->g_cal == .4 && k->n_grid == 17 && k->n_curve == 2);
        for (int g = 0; g < k->n_grid; g++) {
            CHECK_NEAR(k->curve[g], (1 - k->grid[g]) / .6, .05);
            CHECK(g == 0 || k->curve[g] <= k->curve[g - 1]);
        }
        double low[WINDOW], high[WINDOW];
        mean_of(&r, 0, 1, .2, r.weak, low);
        mean_of(&r, 0, 1, .4, r.weak, high);
        // grid: .15 lies below the recorded gains, .3 halfway between two
        for (int i = 0; i < WINDOW; i++) {
            CHECK_NEAR(k->variant[i], low[i] - .25 * (high[i] - low[i]), 1e-12);
            CHECK_NEAR(k->variant[3 * WINDOW + i], .5 * (low[i] + high[i]), 1e-12);
        }
        check_sessions(k, &r.w);
    }
    free(m.bytes);
    PF_CASE("g_cal is added to the grid; the smaller of two equally near gains");
    r.n_gains = 2;
    r.gains[0] = .38;
    r.gains[1] = .32;
    m = recording_kit(NULL, &r);
    CHECK(m.status == PF_OK && m.kit.g_cal == .32 && m.kit.n_grid == 18);
    free(m.bytes);
}

// --- a machine whose responses are not in proportion to its commands

// What is missed at half the command and halfway between two recorded gains, from the machine.
static void check_missed(const recording *r, const pf_kit *k)
{
    const double law = .25;
    for (int e = 0; e < k->n_members; e++) {
        const double *row = k->tracking_error + (size_t)e * (size_t)k->n_shares;
        double half = excess_of(r, k, 0, .5, e), most = excess_of(r, k, 0, .8, e);
        CHECK_NEAR(row[10], law + half, 1e-12);
        CHECK_NEAR(row[13], .35 * .35 + (half + most) / 2, 1e-12);
        CHECK(row[10] - row[20] > 1.8 * law); // (.5/.7)^2 and not .5^2
    }
    CHECK(k->shares[10] == .5 && fabs(k->shares[13] - .65) < 1e-12 && k->shares[20] == 1);
}

static void test_dead_zone(void)
{
    PF_CASE("a recorded dead zone: returns are what was recorded, not the square of what lacks");
    recording r = recording_usual();
    r.w.dead = .3;
    r.w.noise = .03; // the second probe, .5, delivers little of itself
    r.n_gains = 3;
    r.gains[0] = .5;
    r.gains[1] = .35;
    r.gains[2] = .8;
    made m = recording_kit(NULL, &r);
    if (m.status != PF_OK) {
        return;
    }
    const pf_kit *k = &m.kit;
    check_missed(&r, k);
    PF_CASE("a recorded dead zone: tasks that are probes are rehearsed, each alone");
    CHECK(k->n_rehearse == 2 && k->n_groups == 0);
    CHECK(k->rehearsal_rows[0] == ROWS && k->rehearsal_rows[1] == ROWS);
    int go = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        outcome o = run_session(k, &r.w, 0, 1, 300 + trial);
        for (int t = 0; t < 2; t++) {
            go += o.tasks[t].decision == PF_GO && o.tasks[t].rehearsed == PF_REHEARSED_APART;
        }
        CHECK(!o.go || o.rehearsals >= 2);
    }
    CHECK(go >= 2 * (TRIALS - 1));
    PF_CASE("a recorded dead zone: a lost top end looks like a gain, and is no go");
    machine weak = r.w;
    weak.top = .6;
    int alarms = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        outcome o = run_session(k, &weak, 1, 1, 400 + trial);
        double missed =
            (delivered(&r.w, 1) - delivered(&weak, o.correction[1])) / delivered(&r.w, 1);
        alarms += o.alarm;
        CHECK(exp(-missed * missed) < .85 && o.tasks[0].decision != PF_GO);
    }
    CHECK(alarms == TRIALS);
    free(m.bytes);
}

// What a session may be judged by must hold for gains that nobody recorded, too.
static void test_unrecorded(void)
{
    PF_CASE("gains between the recorded ones and below the grid are machines of the model");
    recording r = recording_usual();
    r.w.noise = .03;
    r.n_gains = 4;
    r.gains[0] = 0;
    r.gains[1] = .35;
    r.gains[2] = .6;
    r.gains[3] = .8;
    made m = recording_kit(NULL, &r);
    if (m.status != PF_OK) {
        return;
    }
    CHECK(m.kit.misfit_chan < 6);  // a response at 0 is no stranger
    CHECK(m.kit.misfit_shape > 4); // nor is one at .9, which is neither .8 nor healthy
    static const double gains[] = {0, .07, .9, .95, 1.1};
    for (int g = 0; g < 5; g++) {
        int misfit = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            outcome o = run_session(&m.kit, &r.w, 1 + trial % 2, gains[g], 700 + trial);
            misfit += o.tasks[0].why == PF_WHY_MISFIT || o.tasks[1].why == PF_WHY_MISFIT;
        }
        CHECK(misfit <= 2);
    }
    double low[WINDOW], base[WINDOW];
    pf_predictor p = pf__recorded_predictor(&m.kit);
    pf_hypothesis h = {.probe = 0, .mechanism = 1, .gain = 0};
    CHECK(p.predict(p.self, &h, NULL, 0, low, NULL) == PF_OK);
    mean_of(&r, 0, 1, 0, r.weak, base);
    for (int i = 0; i < WINDOW; i++) {
        CHECK_NEAR(low[i], base[i], 1e-12);
    }
    free(m.bytes);
}

static void test_beyond(void)
{
    PF_CASE("less than was ever recorded is no go: off-grid");
    recording r = recording_usual();
    made m = recording_kit(NULL, &r);
    int off_grid = 0;
    for (int trial = 0; trial < TRIALS && m.status == PF_OK; trial++) {
        outcome o = run_session(&m.kit, &r.w, 1, .1, 500 + trial);
        CHECK(o.tasks[0].decision == PF_NO_GO);
        off_grid += o.tasks[0].why == PF_WHY_OFF_GRID;
    }
    CHECK(off_grid >= TRIALS - 2);
    free(m.bytes);
}

// --- the same file in other words

bool recording_kits_agree(const made *a, const made *b)
{
    // all but the name of the source, which is the text's checksum, and what follows from it
    return a->status == PF_OK && b->status == PF_OK && a->n == b->n &&
           a->kit.threshold[0] == b->kit.threshold[0] &&
           memcmp(a->kit.variant, b->kit.variant,
                  sizeof(double) * (size_t)a->kit.n_variant * CHAN) == 0 &&
           memcmp(a->kit.nominal, b->kit.nominal,
                  sizeof(double) * (size_t)(a->kit.n_targets * a->kit.n_bins)) == 0;
}

static void test_spelling(void)
{
    recording r = recording_usual();
    made plain = recording_kit(NULL, &r);
    PF_CASE("CRLF, blank lines at the end, a byte order mark, spaces");
    r.crlf = true;
    made crlf = recording_kit(NULL, &r);
    CHECK(recording_kits_agree(&plain, &crlf));
    r.crlf = false;
    char *csv = recording_text(&r);
    pf_text text = {0};
    pf__text_addf(&text, "\xef\xbb\xbf%s \n\r\n\n", csv);
    made padded = recording_kit_of_text(NULL, text.data, 1);
    CHECK(recording_kits_agree(&plain, &padded));
    PF_CASE("rows of the episodes mixed");
    r.by_step = true;
    made mixed = recording_kit(NULL, &r);
    CHECK(recording_kits_agree(&plain, &mixed));
    PF_CASE("mechanisms and gains in other spellings");
    r.by_step = false;
    r.by_index = true;
    made index = recording_kit(NULL, &r);
    CHECK(index.status == PF_OK && index.kit.threshold[0] == plain.kit.threshold[0]);
    CHECK_STR(pf_kit_probe_name(&index.kit, 1), "1");
    CHECK_STR(pf_kit_mechanism_name(&index.kit, 1), "u1");
    free(plain.bytes);
    free(crlf.bytes);
    free(padded.bytes);
    free(mixed.bytes);
    free(index.bytes);
    pf__text_free(&text);
    free(csv);
}

void test_recordings(void)
{
    test_plain();
    test_sessions();
    test_group();
    test_gains();
    test_dead_zone();
    test_unrecorded();
    test_beyond();
    test_spelling();
    test_recordings_refused();
}
