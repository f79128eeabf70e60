// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_fixture.h"
#include "core/kit_layout.h"
#include "core/method.h"
#include "core/sha256.h"
#include "test.h"
#include "test_session.h"
#include "core/session_impl.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pf_rng rng;

static int below(int n)
{
    return (int)pf_rng_below(&rng, (uint32_t)n);
}

// --- a digest of everything that a refused call must leave alone

typedef struct state {
    uint8_t digest[32];
} state;

static state state_of(const pf_session *s)
{
    size_t m = (size_t)s->m, d = sizeof(double), masses = m * (size_t)s->n_grid * d;
    size_t probes = (size_t)s->kit->n_probes;
    pf_session head;
    memcpy(&head, s, sizeof head);
    memset(&head.boundary.nominal, 0, sizeof head.boundary.nominal); // scratch
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, &head, sizeof head);
    pf__sha256_update(&sha, s->belief, (m + 1) * d);
    pf__sha256_update(&sha, s->severity, masses);
    pf__sha256_update(&sha, s->joint.mass, masses);
    pf__sha256_update(&sha, s->own_evidence, m * d);
    pf__sha256_update(&sha, s->own_readings, m * sizeof(int));
    pf__sha256_update(&sha, s->probed, (m + 1) * sizeof(bool));
    pf__sha256_update(&sha, s->skipped, probes * sizeof(bool));
    pf__sha256_update(&sha, s->schedule, probes * sizeof(int));
    pf__sha256_update(&sha, s->readings, (size_t)s->n_readings * sizeof(pf_reading));
    state out;
    pf__sha256_final(&sha, out.digest);
    return out;
}

static bool same(state a, state b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

// --- memory

static void test_memory(void)
{
    PF_CASE("exactly the size passes, one byte fewer fails, misaligned memory is refused");
    pf_fixture_config config = pf_fixture_config_default();
    for (int targets = 1; targets <= 3; targets++) {
        config.targets = targets;
        pf_fixture *f = pf_fixture_create(&config);
        size_t bytes = pf_session_size(&f->kit);
        uint8_t *memory = malloc(bytes); // exactly: a sanitizer watches the end
        pf_session *s = NULL;
        pf_error error;
        CHECK(pf_session_init(&s, &f->kit, NULL, memory, bytes, &error) == PF_OK && s);
        while (pf_session_ask(s).kind == PF_ASK_PROBE) {
            CHECK(pf_fixture_tell(f, s, 1, .3, .05, &rng) == PF_OK);
            pf_session_certify(s);
        }
        CHECK(pf_session_init(&s, &f->kit, NULL, memory, bytes - 1, &error) == PF_ERR_MEMORY);
        CHECK(s == NULL);
        CHECK_CONTAINS(error.text, "bytes");
        CHECK(pf_session_init(&s, &f->kit, NULL, NULL, bytes, NULL) == PF_ERR_ARGUMENT && !s);
        free(memory);
        memory = malloc(bytes + 16);
        for (size_t off = 1; off < 16; off++) {
            CHECK(pf_session_init(&s, &f->kit, NULL, memory + off, bytes, NULL) == PF_ERR_ARGUMENT);
        }
        pf_session_config unknown = {.method = "opax"}; // a method of the other statistic
        CHECK(pf_session_init(&s, &f->kit, &unknown, memory, bytes, &error) == PF_ERR_MISMATCH);
        CHECK_CONTAINS(error.text, "opax");
        f->at.sigma[0] = -1;
        CHECK(pf_session_size(&f->kit) == 0);
        CHECK(pf_session_init(&s, &f->kit, NULL, memory, bytes, &error) == PF_ERR_FORMAT && !s);
        CHECK_CONTAINS(error.text, "sigma");
        free(memory);
        pf_fixture_free(f);
    }

    PF_CASE("sixteen candidates, seventeen gains, window 8 x 45: under 64 KiB");
    config = pf_fixture_config_default();
    config.m = 16;
    config.n_grid = 17;
    config.rows = 8;
    config.n_chan = 45;
    config.n_members = 16;
    pf_fixture *f = pf_fixture_create(&config);
    CHECK(pf_session_size(&f->kit) > 0 && pf_session_size(&f->kit) < 64 * 1024);
    pf_fixture_free(f);
}

// --- charge, skip, asking

static void test_counting(void)
{
    PF_CASE("the charge is the told probes', a skip costs nothing and is not asked again");
    for (int round = 0; round < 200; round++) {
        pf_fixture_config config = pf_fixture_config_default();
        config.seed = (uint64_t)round;
        config.m = 1 + below(5);
        config.norm = round % 3 == 0;
        config.field = round % 2;
        config.budget1 = 1 + below(12);
        config.budget2 = below(4);
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s = pf_fixture_session(f, pf_kit_method_id(&f->kit, below(f->kit.n_methods)),
                                           (uint64_t)round);
        double charge = 0;
        int told = 0, asked[3] = {0};
        bool skipped[16] = {false};
        for (pf_ask ask; (ask = pf_session_ask(s)).kind == PF_ASK_PROBE;) {
            asked[ask.stage]++;
            CHECK(!skipped[ask.probe] && ask.rows == pf_kit_probe_rows(&f->kit, ask.probe));
            CHECK(ask.stage == pf_session_get_state(s).stage);
            state before = state_of(s);
            pf_ask again = pf_session_ask(s);
            CHECK(again.probe == ask.probe && same_double(again.value, ask.value));
            CHECK(same(before, state_of(s)));
            if (below(4) == 0) {
                skipped[ask.probe] = true;
                CHECK(pf_session_skip(s, NULL) == PF_OK);
                CHECK(pf_session_skip(s, NULL) ==
                      (s->stage == PF_STAGE_DONE ? PF_ERR_STAGE : PF_ERR_PROBE));
            } else {
                charge += f->kit.charge[ask.probe];
                told++;
                CHECK(pf_fixture_tell(f, s, 1, .2, .1, &rng) == PF_OK);
            }
            CHECK(pf_session_get_state(s).charge == charge && pf_session_get_state(s).told == told);
            CHECK(pf_session_get_state(s).opportunities == asked[1] && s->recoveries == asked[2]);
            CHECK(!pf_session_outstanding(s, NULL));
        }
        CHECK(asked[1] <= config.budget1 && asked[2] <= config.budget2);
        CHECK(pf_session_get_state(s).stage == PF_STAGE_DONE && pf_session_ask(s).probe == -1);
        free(s);
        pf_fixture_free(f);
    }
}

// --- refusals

static int bad_calls; // the predictor fails at this call, counted down
static bool bad_nan;

static pf_status predict_badly(void *self, const pf_hypothesis *hypothesis, const double *start,
                               int n_start, double *response, pf_error *error)
{
    pf_predictor good = pf_fixture_predictor(self);
    good.predict(self, hypothesis, start, n_start, response, error);
    if (bad_calls-- > 0) {
        return PF_OK;
    }
    if (bad_nan) {
        response[1] = NAN;
        return PF_OK;
    }
    return pf_fail(error, PF_ERR_PLANT, "the model is away");
}

static void refuse(pf_session *s, const pf_tell *tell, const pf_predictor *predictor,
                   pf_status expected)
{
    state before = state_of(s);
    pf_ask ask = s->ask;
    pf_error error = {PF_OK, ""};
    pf_status status = pf_session_tell(s, tell, predictor, &error);
    if (!CHECK(status == expected) || !CHECK(error.code == expected && error.text[0])) {
        printf("  got %s: %s\n", pf_status_name(status), error.text);
    }
    CHECK(same(before, state_of(s)));
    CHECK(!s->outstanding || pf_session_ask(s).probe == ask.probe);
}

// Every way to tell the outstanding probe wrongly; the session must not move.
static void refuse_all(pf_fixture *f, pf_session *s)
{
    double response[64];
    pf_ask ask = pf_session_ask(s);
    pf_hypothesis truth = {ask.probe, 1, .4, NULL};
    pf_predictor good = pf_fixture_predictor(f), bad = {f, predict_badly, NULL};
    pf_fixture_response(f, &truth, 0, NULL, response);
    const pf_tell right = {
        .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
    pf_tell tell = right;
    for (int probe = -1; probe <= f->kit.n_probes; probe++) {
        tell.probe = probe;
        if (probe != ask.probe) {
            refuse(s, &tell, &good, PF_ERR_PROBE);
        }
    }
    tell = right;
    tell.response = NULL;
    refuse(s, &tell, &good, PF_ERR_ARGUMENT);
    for (int off = -1; off <= 1; off += 2) {
        tell = right;
        tell.rows += off;
        refuse(s, &tell, &good, PF_ERR_SHAPE);
        tell = right;
        tell.channels += off;
        refuse(s, &tell, &good, PF_ERR_SHAPE);
    }
    const double poison[3] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < ask.rows * f->kit.n_chan; i++) {
        double keep = response[i];
        response[i] = poison[i % 3];
        refuse(s, &right, &good, PF_ERR_NONFINITE);
        response[i] = keep;
    }
    // finite, but no distance or score can be computed from it
    double keep = response[0];
    response[0] = DBL_MAX;
    response[1] = -DBL_MAX;
    refuse(s, &right, &good, PF_ERR_NONFINITE);
    response[0] = keep;
    pf_fixture_response(f, &truth, 0, NULL, response);
    int calls = ask.stage == 1 ? 1 + f->config.targets : 1 + f->config.targets * f->kit.n_grid;
    for (int n = 0; n < calls; n++) {
        bad_calls = n;
        bad_nan = n % 2;
        refuse(s, &right, &bad, bad_nan ? PF_ERR_NONFINITE : PF_ERR_PLANT);
        bad_calls = n;
        bad_nan = !bad_nan;
        refuse(s, &right, &bad, bad_nan ? PF_ERR_NONFINITE : PF_ERR_PLANT);
    }
    refuse(s, &right, NULL, PF_ERR_PREDICTION);
}

static void test_refusals(void)
{
    PF_CASE("every refusal leaves the session as it was, in both stages");
    for (int targets = 1; targets <= 3; targets++) {
        pf_fixture_config config = pf_fixture_config_default();
        config.targets = targets;
        config.hazard = .02;
        config.disorder = 0;
        config.cross = targets == 3;
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
        pf_predictor good = pf_fixture_predictor(f);
        double response[64] = {0};
        pf_tell early = {
            .probe = 0, .response = response, .rows = config.rows, .channels = config.n_chan};
        int stages = 0;
        refuse(s, &early, &good, PF_ERR_PROBE); // before any ask
        CHECK(pf_session_skip(s, NULL) == PF_ERR_PROBE);
        while (pf_session_ask(s).kind == PF_ASK_PROBE) {
            stages |= s->stage;
            refuse_all(f, s);
            CHECK(pf_fixture_tell(f, s, 1, .35, .02, &rng) == PF_OK);
            if (s->stage != PF_STAGE_DONE) {
                early.probe = s->ask.probe;
                refuse(s, &early, &good, PF_ERR_PROBE); // told twice
            }
        }
        CHECK(stages == 3);
        refuse(s, &early, &good, PF_ERR_STAGE); // after done
        state before = state_of(s);
        pf_error error;
        CHECK(pf_session_stage2(s, &error) == PF_ERR_STAGE);
        CHECK(pf_session_skip(s, &error) == PF_ERR_STAGE);
        CHECK(same(before, state_of(s)));
        free(s);
        pf_fixture_free(f);
    }
}

// --- stages

// Runs a session to its end on a machine with one fault; gives why it ended.
static pf_done run_to_end(pf_fixture *f, pf_session *s, int fault, double gain, double noise)
{
    for (int step = 0; step < 1000 && pf_session_ask(s).kind == PF_ASK_PROBE; step++) {
        if (!CHECK(pf_fixture_tell(f, s, fault, gain, noise, &rng) == PF_OK)) {
            break;
        }
    }
    return pf_session_ask(s).why;
}

static void test_stages(void)
{
    pf_fixture_config config = pf_fixture_config_default();
    config.disorder = 0;
    config.prior0 = .7;
    for (int budget2 = 0; budget2 <= 2; budget2++) {
        for (int stop = 0; stop < 2; stop++) {
            PF_CASE("stages: break and latch, budgets, alarm or not");
            config.stop = stop ? PF_STOP_LATCH : PF_STOP_BREAK;
            config.budget2 = budget2;
            pf_fixture *f = pf_fixture_create(&config);
            pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
            CHECK(run_to_end(f, s, 2, .35, .02) == PF_DONE_BUDGET);
            CHECK(s->alarm && s->peak > s->threshold && s->recoveries == budget2);
            int first = pf_session_get_state(s).alarm_opportunity;
            CHECK(s->opportunities == (stop ? config.budget1 : first + 1));
            CHECK(s->told == s->opportunities + budget2);
            pf_session_reset(s);
            CHECK(run_to_end(f, s, 0, 1, .02) == PF_DONE_NO_ALARM);
            CHECK(!s->alarm && s->opportunities == config.budget1 && s->recoveries == 0);
            CHECK(pf_session_get_state(s).alarm_opportunity == -1 && s->peak <= s->threshold);

            PF_CASE("stages: an early end on request, once");
            pf_session_reset(s);
            pf_session_ask(s);
            CHECK(pf_session_stage2(s, NULL) == PF_OK && !pf_session_outstanding(s, NULL));
            CHECK(pf_session_ask(s).why == PF_DONE_NO_ALARM && s->charge == 0);
            CHECK(pf_session_stage2(s, NULL) == PF_ERR_STAGE);
            pf_session_reset(s);
            while (stop && pf_session_ask(s).stage == 1 && !s->alarm) {
                pf_fixture_tell(f, s, 2, .35, .02, &rng);
            }
            if (stop) {
                int opened = s->opportunities;
                CHECK(pf_session_stage2(s, NULL) == PF_OK && s->opportunities == opened);
                CHECK(s->stage == (budget2 ? PF_STAGE_RECOVER : PF_STAGE_DONE));
                CHECK(budget2 == 0 || pf_session_ask(s).stage == 2);
                CHECK(pf_session_stage2(s, NULL) == PF_ERR_STAGE);
            }
            free(s);
            pf_fixture_free(f);
        }
    }

    PF_CASE("stages: all probes skipped");
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
    for (int q = 0; q < f->kit.n_probes; q++) {
        CHECK(pf_session_ask(s).kind == PF_ASK_PROBE && pf_session_skip(s, NULL) == PF_OK);
    }
    CHECK(pf_session_ask(s).why == PF_DONE_NO_ALARM);
    free(s);
    pf_fixture_free(f);
}

static void test_ready(void)
{
    PF_CASE("require_probe: a healthy machine ends ready, all looked at, all go");
    pf_fixture_config config = pf_fixture_config_default();
    config.field = true;
    config.disorder = 0;
    config.prior0 = .95;
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
    CHECK(run_to_end(f, s, 0, 1, .02) == PF_DONE_READY);
    CHECK(s->told < config.budget1);
    pf_session_certify(s);
    for (int t = 0; t < f->kit.n_tasks; t++) {
        CHECK(pf_session_task(s, t)->decision == PF_GO_IF);
        CHECK(pf_session_task(s, t)->why == PF_WHY_NOT_REHEARSED);
    }

    PF_CASE("require_probe: a weak fault is corrected and ends ready in stage 2 or before");
    pf_session_reset(s);
    pf_done why = run_to_end(f, s, 3, .7, .02);
    pf_session_certify(s);
    bool all = true;
    for (int t = 0; t < f->kit.n_tasks; t++) {
        all = all && pf_session_task(s, t)->decision != PF_NO_GO;
    }
    CHECK((why == PF_DONE_READY) == all);
    free(s);
    pf_fixture_free(f);
}

static void test_unlooked_first(void)
{
    PF_CASE("after an alarm with require_probe, what was not looked at comes first");
    pf_fixture_config config = pf_fixture_config_default();
    config.field = true;
    config.disorder = 0;
    int alarms = 0;
    for (int round = 0; round < 100; round++) {
        config.seed = (uint64_t)round;
        config.m = 3 + below(6);
        config.targets = 1 + below(2);
        config.budget1 = 2 * config.m;
        config.threshold = .5;
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s =
            pf_fixture_session(f, round % 3 ? "eg-mpt" : "eg-mpt:uniform", (uint64_t)round);
        for (pf_ask ask; (ask = pf_session_ask(s)).kind == PF_ASK_PROBE && ask.stage == 1;) {
            bool any = false, hits = false;
            for (int q = 0; q < f->kit.n_probes; q++) {
                for (int t = f->kit.probe_target[q]; t < f->kit.probe_target[q + 1]; t++) {
                    bool fresh = !s->skipped[q] && !pf_session_probed(s, f->kit.target_mech[t]);
                    any = any || fresh;
                    hits = hits || (fresh && q == ask.probe);
                }
            }
            if (s->alarm && any) {
                alarms++;
                CHECK(hits);
            }
            if (below(8) == 0) {
                pf_session_skip(s, NULL);
            } else {
                pf_fixture_tell(f, s, 1 + round % config.m, .35, .02, &rng);
            }
        }
        free(s);
        pf_fixture_free(f);
    }
    CHECK(alarms > 50);
}

// --- readiness

static void test_readiness(void)
{
    PF_CASE("readiness changes nothing and answers the same twice");
    pf_fixture_config config = pf_fixture_config_default();
    config.field = true;
    config.hazard = .01;
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s = pf_fixture_session(f, "eg-mpt", 0), *quiet = pf_fixture_session(f, NULL, 0);
    pf_rng copy = rng;
    for (int step = 0; pf_session_ask(s).kind == PF_ASK_PROBE; step++) {
        state before = state_of(s);
        pf_session_certify(s);
        pf_task_readiness first = *pf_session_task(s, 0);
        pf_joint joint = pf_session_joint(s);
        double sum = joint.nominal;
        for (int i = 0; i < joint.m * joint.n_grid; i++) {
            sum += joint.mass[i];
        }
        CHECK_NEAR(sum, 1, 1e-12);
        pf_session_certify(s);
        CHECK(same_double(first.lower, pf_session_task(s, 0)->lower));
        CHECK(same(before, state_of(s)));
        for (int j = 1; j <= s->m; j++) {
            const pf_mechanism_readiness *mech = pf_session_mechanism(s, j);
            CHECK(mech->probed == pf_session_probed(s, j));
            CHECK(mech->interval[0] <= mech->interval[1] && mech->correction >= 1 - 1e-12);
        }
        CHECK(pf_fixture_tell(f, s, 2, .5, .1, &rng) == PF_OK);
    }
    rng = copy;
    run_to_end(f, quiet, 2, .5, .1);
    CHECK(s->told == quiet->told && same_double(s->charge, quiet->charge));
    CHECK(memcmp(s->belief, quiet->belief, sizeof(double) * (size_t)(s->m + 1)) == 0);
    CHECK(memcmp(s->joint.mass, quiet->joint.mass, sizeof(double) * (size_t)(s->m * s->n_grid)) ==
          0);

    PF_CASE("a task with an unprobed mechanism is never go under require_probe");
    pf_session_reset(s);
    pf_session_certify(s);
    for (int t = 0; t < f->kit.n_tasks; t++) {
        CHECK(pf_session_task(s, t)->decision == PF_NO_GO);
        CHECK(pf_session_task(s, t)->why == PF_WHY_NOT_PROBED);
    }
    pf_session_ask(s);
    CHECK(pf_session_skip(s, NULL) == PF_OK); // a skip is no look
    int probe = pf_session_ask(s).probe, seen = f->kit.target_mech[probe];
    CHECK(pf_fixture_tell(f, s, 0, 1, .01, &rng) == PF_OK);
    pf_session_certify(s);
    for (int t = 0; t < f->kit.n_tasks; t++) {
        CHECK((pf_session_task(s, t)->why == PF_WHY_NOT_PROBED) == (t + 1 != seen));
    }
    free(s);
    free(quiet);
    pf_fixture_free(f);
}

// --- repeatability

// A kit whose readings of mechanism 1 speak neither for nor against a loss; the machine has it at a
// gain. What is said of mechanism and task 1, and how strong it is found.
static void check_mute(double gain, pf_why why, bool probed)
{
    pf_fixture_config config = pf_fixture_config_default();
    config.field = config.looks = true;
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s = pf_fixture_session(f, NULL, 0);
    size_t bins = (size_t)f->kit.n_bins;
    for (int t = 0; t < f->kit.n_targets; t++) {
        if (f->kit.target_mech[t] == 1) {
            memcpy(f->at.changed + (size_t)t * bins, f->at.nominal + (size_t)t * bins,
                   bins * sizeof(double));
        }
    }
    for (pf_ask ask; (ask = pf_session_ask(s)).kind == PF_ASK_PROBE;) {
        bool on_it = f->kit.target_mech[f->kit.probe_target[ask.probe]] == 1;
        CHECK((on_it ? pf_fixture_tell(f, s, 1, gain, .05, &rng) : pf_session_skip(s, NULL)) ==
              PF_OK);
    }
    pf_session_certify(s);
    const pf_mechanism_readiness *m = pf_session_mechanism(s, 1);
    const pf_task_readiness *task = pf_session_task(s, 0);
    CHECK(f->kit.use_mech[0] == 1 && !pf_session_probed(s, 1));
    CHECK(task->decision == PF_NO_GO && task->why == why && m->probed == probed);
    CHECK(gain == 1 || (m->changed > .99 && m->interval[0] < gain && gain < m->interval[1]));
    free(s);
    pf_fixture_free(f);
}

static void test_too_strong(void)
{
    PF_CASE("a mechanism that is found too strong was probed, whatever its readings say of a loss");
    check_mute(1.4, PF_WHY_TOO_STRONG, true);
    check_mute(1, PF_WHY_NOT_PROBED, false);
    check_mute(.4, PF_WHY_NOT_PROBED, false);
}

enum { STEPS = 24 };

static void record_path(pf_fixture *f, pf_session *s, int path[STEPS])
{
    pf_rng keep = rng;
    pf_rng_init(&rng, 99);
    for (int i = 0; i < STEPS; i++) {
        pf_ask ask = pf_session_ask(s);
        path[i] = ask.probe;
        if (ask.kind == PF_ASK_PROBE) {
            pf_fixture_tell(f, s, 1, .5, .3, &rng);
        }
    }
    rng = keep;
}

static void test_repeat(void)
{
    PF_CASE("every method: the same path again by seed, by reset and from recordings");
    for (int i = 0; i < pf_method_count(); i++) {
        const pf_method *method = pf_method_at(i);
        pf_fixture_config config = pf_fixture_config_default();
        config.norm = method->statistic == PF_STATISTIC_NORM;
        config.m = 6;
        config.budget1 = 20;
        config.method = method->id;
        pf_fixture *f = pf_fixture_create(&config);
        config.recorded = true;
        pf_fixture *recorded = pf_fixture_create(&config);
        int path[5][STEPS];
        for (int run = 0; run < 4; run++) {
            pf_session *s = pf_fixture_session(run == 3 ? recorded : f, NULL, run == 2 ? 6 : 5);
            record_path(run == 3 ? recorded : f, s, path[run]);
            if (run == 0) {
                pf_session_reset(s);
                record_path(f, s, path[4]);
            }
            free(s);
        }
        CHECK(memcmp(path[0], path[1], sizeof path[0]) == 0);
        CHECK(memcmp(path[0], path[4], sizeof path[0]) == 0);
        CHECK(memcmp(path[0], path[3], sizeof path[0]) == 0);
        bool random = method->rule == PF_RULE_RANDOM;
        CHECK((memcmp(path[0], path[2], sizeof path[0]) != 0) == random);
        for (int t = 6; t < 20 && method->rule == PF_RULE_SCHEDULE; t++) {
            CHECK(path[0][t] == path[0][t - 6]);
        }
        int tried[6] = {0};
        for (int t = 0; t < 6 && method->value == pf__value_bandit; t++) {
            CHECK(tried[path[0][t]]++ == 0); // every arm once before any twice
        }
        pf_fixture_free(f);
        pf_fixture_free(recorded);
    }
}

// --- a method of the user's

// Notes what it is told, and chooses the last probe that it may, or nonsense.
typedef struct chooser {
    int called, last;
    bool nonsense;
    double belief;
} chooser;

static int choose_last(void *self, const pf_choice *choice)
{
    chooser *c = self;
    c->called++;
    c->belief = choice->belief[0];
    for (int q = 0; q < choice->n_probes; q++) {
        c->last = choice->eligible[q] ? q : c->last;
    }
    return c->nonsense ? choice->n_probes : c->last;
}

static void test_own(void)
{
    static chooser mine;
    pf_error error = {PF_OK, ""};
    pf_method row = {.id = "eg-mpt", // whose threshold it borrows
                     .label = "Last",
                     .line = "the last probe",
                     .statistic = PF_STATISTIC_MATCHED,
                     .rule = PF_RULE_OWN,
                     .gate = true,
                     .choose = choose_last,
                     .self = &mine};
    pf_session_config config = {.own = &row};
    pf_fixture_config usual = pf_fixture_config_default();
    pf_fixture *f = pf_fixture_create(&usual);
    size_t bytes = pf_session_size(&f->kit);
    void *memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    pf_session *s = NULL;
    PF_CASE("a method of one's own chooses; what it may not choose is the first probe");
    for (int i = 0; i < 2; i++) {
        mine = (chooser){.nonsense = i == 1};
        CHECK(pf_session_init(&s, &f->kit, &config, memory, bytes, &error) == PF_OK);
        pf_ask ask = pf_session_ask(s);
        CHECK(mine.called == 1 && ask.probe == (i == 1 ? 0 : f->kit.n_probes - 1));
        CHECK_NEAR(mine.belief, pf_session_belief(s)[0], 1e-15);
        CHECK(pf_session_skip(s, NULL) == PF_OK); // that probe is not eligible any more
        ask = pf_session_ask(s);
        CHECK(mine.called == 2 && ask.probe == (i == 1 ? 1 : f->kit.n_probes - 2));
    }
    PF_CASE("rows that choose nothing, of another statistic or unknown to the kit are refused");
    pf_method bad[3] = {row, row, row};
    bad[0].choose = NULL;
    bad[1].statistic = PF_STATISTIC_NORM;
    bad[2].id = "python:Nobody";
    for (int i = 0; i < 3; i++) {
        config.own = &bad[i];
        CHECK(pf_session_init(&s, &f->kit, &config, memory, bytes, &error) != PF_OK);
    }
    CHECK_CONTAINS(error.text, "no alarm threshold for method 'python:Nobody'");
    free(memory);
    pf_fixture_free(f);
}

void test_session(void)
{
    pf_rng_init(&rng, pf_key_root(51));
    test_memory();
    test_counting();
    test_refusals();
    test_stages();
    test_ready();
    test_unlooked_first();
    test_readiness();
    test_session_evidence();
    test_repeat();
    test_own();
    test_too_strong();
}
