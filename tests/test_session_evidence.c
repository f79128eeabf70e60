// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_fixture.h"
#include "core/kit_layout.h"
#include "core/belief.h"
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

// --- garbage

static double garbage(double sane)
{
    switch (below(7)) {
    case 0:
        return sane;
    case 1:
        return pf_rng_normal(&rng);
    case 2:
        return DBL_TRUE_MIN * below(100);
    case 3:
        return below(2) ? DBL_MAX : -DBL_MAX;
    default:
        return pf_rng_normal(&rng) * pow(10, 600 * pf_rng_uniform(&rng) - 300);
    }
}

typedef struct fuzz_count {
    int told, refused, go, unsound_go, bad_belief, bad_severity, bad_joint;
} fuzz_count;

static void fuzz_check(const pf_fixture *f, pf_session *s, const bool *looked, fuzz_count *n)
{
    const pf_kit *k = &f->kit;
    double sum = 0, none = 1;
    bool many = k->faults == PF_FAULTS_MANY;
    for (int i = 0; i <= s->m; i++) {
        sum += s->belief[i];
        none *= i > 0 ? 1 - s->belief[i] : 1;
        n->bad_belief += !(s->belief[i] >= 0 && s->belief[i] <= 1);
    }
    n->bad_belief += many ? !(fabs(none - s->belief[0]) < 1e-9) : !(fabs(sum - 1) < 1e-9);
    for (int j = 0; j < s->m; j++) {
        sum = 0;
        for (int g = 0; g < s->n_grid; g++) {
            sum += s->severity[j * s->n_grid + g];
        }
        n->bad_severity += !(fabs(sum - 1) < 1e-9);
    }
    pf_joint joint = pf_session_joint(s);
    sum = joint.nominal;
    for (int i = 0; i < joint.m * joint.n_grid; i++) {
        sum += joint.mass[i];
        n->bad_joint += !(joint.mass[i] >= 0);
    }
    for (int i = 1; many && i <= joint.m; i++) {
        n->bad_joint += !(pf_joint_moments(&joint, i).changed < 1 + 1e-9);
    }
    n->bad_joint += !many && !(fabs(sum - 1) < 1e-9);
    pf_session_certify(s);
    for (int t = 0; t < k->n_tasks; t++) {
        const pf_task_readiness *task = pf_session_task(s, t);
        bool sound = isfinite(task->mean) && isfinite(task->lower) && task->lower >= k->j_min;
        for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
            sound = sound && (!k->field || k->use_mech[u] == 0 || looked[k->use_mech[u]]);
        }
        n->go += task->decision != PF_NO_GO;
        n->unsound_go += task->decision != PF_NO_GO && !sound;
    }
}

static void fuzz_session(pf_fixture *f, pf_session *s, fuzz_count *n)
{
    const pf_kit *k = &f->kit;
    pf_predictor predictor = pf_fixture_predictor(f);
    double response[64];
    bool looked[8] = {false};
    int sane = below(3); // 0: never, 2: always
    for (int step = 0; step < 30 && pf_session_ask(s).kind == PF_ASK_PROBE; step++) {
        pf_ask ask = pf_session_ask(s);
        pf_hypothesis truth = {ask.probe, below(s->m + 1), pf_rng_uniform(&rng), NULL};
        pf_fixture_response(f, &truth, .1, &rng, response);
        for (int i = 0; i < ask.rows * k->n_chan && sane < 2; i++) {
            response[i] = sane == 1 && below(8) ? response[i] : garbage(response[i]);
        }
        pf_tell tell = {
            .probe = ask.probe, .response = response, .rows = ask.rows, .channels = k->n_chan};
        if (pf_session_tell(s, &tell, &predictor, NULL) == PF_OK) {
            n->told++;
            int readings = 0;
            const pf_reading *reading = pf_session_readings(s, &readings);
            for (int t = 0; ask.stage == 1 && t < readings; t++) {
                looked[reading[t].mechanism] = looked[reading[t].mechanism] || reading[t].usable;
            }
            for (int t = k->probe_target[ask.probe]; t < k->probe_target[ask.probe + 1]; t++) {
                looked[k->target_mech[t]] = looked[k->target_mech[t]] || ask.stage == 2;
            }
        } else {
            n->refused++;
            pf_session_skip(s, NULL);
        }
        fuzz_check(f, s, looked, n);
    }
}

static void test_garbage(void)
{
    PF_CASE("garbage: twenty thousand sessions, never go without bound and look");
    fuzz_count n = {0};
    for (int kit = 0; kit < 100; kit++) {
        pf_fixture_config config = pf_fixture_config_default();
        config.seed = 1000 + (uint64_t)kit;
        config.faults = kit < 50 ? PF_FAULTS_ONE : PF_FAULTS_MANY;
        config.m = 1 + below(4);
        config.targets = 1 + below(config.m);
        config.n_bins = 2 + below(4);
        config.n_grid = 2 + below(5);
        config.rows = 1 + config.targets;
        config.n_members = 1 + below(2);
        config.norm = config.targets == 1 && below(2);
        config.field = kit % 2;
        config.stop = below(2) ? PF_STOP_BREAK : PF_STOP_LATCH;
        config.budget1 = 1 + below(6);
        config.cross = config.targets > 1 && below(2);
        config.disorder = pf_rng_uniform(&rng);
        config.j_min = .5 + .4 * pf_rng_uniform(&rng);
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s =
            pf_fixture_session(f, pf_kit_method_id(&f->kit, below(f->kit.n_methods)), 0);
        for (int session = 0; session < 200; session++) {
            pf_session_reset(s);
            fuzz_session(f, s, &n);
        }
        free(s);
        pf_fixture_free(f);
    }
    CHECK(n.told > 10000 && n.refused > 1000 && n.go > 1000); // it saw both sides
    CHECK(n.unsound_go == 0);
    CHECK(n.bad_belief == 0);
    PF_CASE("garbage: severity and joint belief stay distributions");
    if (!CHECK(n.bad_severity == 0) || !CHECK(n.bad_joint == 0)) {
        printf("  %d severities and %d joint beliefs of %d tells\n", n.bad_severity, n.bad_joint,
               n.told);
    }
}

// --- group probes

static void test_collinear(void)
{
    PF_CASE("a collinear target is skipped: no category, gate closed, not looked at");
    pf_fixture_config config = pf_fixture_config_default();
    config.m = 4;
    config.targets = 3;
    config.n_probes = 1;
    config.field = true;
    for (int cross = 0; cross < 2; cross++) {
        config.cross = cross;
        pf_fixture *f = pf_fixture_create(&config);
        for (int i = 0; i < f->window; i++) { // targets 0 and 1 look the same
            f->direction[f->window + i] = 2 * f->direction[i];
        }
        pf_fixture_refit(f);
        pf_session *s = pf_fixture_session(f, "eg-mpt:no-gate", 0);
        double before[5], severity[9];
        memcpy(before, s->belief, sizeof before);
        memcpy(severity, s->severity, sizeof severity);
        pf_session_ask(s);
        CHECK(pf_fixture_tell(f, s, 3, .35, .02, &rng) == PF_OK);
        int n = 0;
        const pf_reading *reading = pf_session_readings(s, &n);
        CHECK(n == 3 && reading[2].usable && reading[2].gate && reading[2].category >= 0);
        CHECK(pf_session_probed(s, 3) && !pf_session_probed(s, 4) && !pf_session_probed(s, 0));
        for (int t = 0; t < 2; t++) {
            CHECK(!reading[t].usable && !reading[t].gate && reading[t].category == -1);
            CHECK(isnan(reading[t].score) && isnan(reading[t].coordinate) && reading[t].ratio == 1);
            CHECK(!pf_session_probed(s, t + 1) && s->own_readings[t] == 0);
            CHECK(cross || fabs(s->belief[t + 1] / s->belief[0] - before[1] / before[0]) < 1e-15);
        }
        CHECK(memcmp(severity, s->severity, sizeof severity) == 0);
        free(s);
        pf_fixture_free(f);
    }
}

// p(c of target t | H = i) of a probe with full rows.
static const double *full_row(const pf_kit *k, int probe, int t, int i)
{
    int n = pf_kit_probe_targets(k, probe, NULL), first = k->probe_target[probe], at = first + t;
    for (int o = 0; o < n; o++) {
        if (k->target_mech[first + o] == i) {
            return o == t ? k->changed + at * k->n_bins
                          : k->cross + k->probe_cross[probe] + (t * n + o) * k->n_bins;
        }
    }
    return k->nominal + at * k->n_bins;
}

static void check_full_rows(pf_fixture *f, pf_session *s)
{
    const pf_kit *k = &f->kit;
    int m = s->m, probe = -1;
    double b[8], after[8], best = -1, sum = 0;
    memcpy(b, k->prior, sizeof(double) * (size_t)(m + 1));
    pf__belief_hazard(m, b, k->hazard);
    for (int q = 0; q < k->n_probes; q++) {
        double value = 0;
        for (int t = 0; t < f->config.targets; t++) {
            const double *rows[8];
            for (int i = 0; i <= m; i++) {
                rows[i] = full_row(k, q, t, i);
            }
            value += pf__risk_reduction_plain(m, b, k->weight, k->n_bins, rows, after);
        }
        value = pf__tie_round(value / k->charge[q]);
        probe = value > best ? q : probe;
        best = fmax(value, best);
    }
    pf_ask ask = pf_session_ask(s);
    CHECK(ask.probe == probe && ask.value == best);
    CHECK(pf_fixture_tell(f, s, 1, .4, .3, &rng) == PF_OK);
    for (int i = 0; i <= m; i++) {
        after[i] = b[i];
        for (int t = 0; t < f->config.targets; t++) {
            after[i] *= full_row(k, probe, t, i)[s->readings[t].category];
        }
        sum += after[i];
    }
    for (int i = 0; i <= m; i++) {
        CHECK_NEAR(s->belief[i], after[i] / sum, 1e-13);
    }
}

static void test_full_rows(void)
{
    PF_CASE("full rows: choice and update against enumeration");
    for (int round = 0; round < 100; round++) {
        pf_fixture_config config = pf_fixture_config_default();
        config.seed = (uint64_t)round;
        config.cross = true;
        config.m = 3 + below(3);
        config.n_probes = 4;
        config.targets = 2 + below(2);
        config.hazard = .03;
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
        check_full_rows(f, s);
        free(s);
        pf_fixture_free(f);
    }
}

// --- one response, one reading; one joint belief

static int calls;

static pf_status predict_counted(void *self, const pf_hypothesis *hypothesis, const double *start,
                                 int n_start, double *response, pf_error *error)
{
    calls++;
    return pf_fixture_predictor(self).predict(self, hypothesis, start, n_start, response, error);
}

// Score, category, coordinate and severity of a single target from the response, by hand.
static void check_reading(const pf_fixture *f, const pf_session *s, const pf_tell *tell,
                          const double *before)
{
    const pf_kit *k = &f->kit;
    int t = k->probe_target[tell->probe], j = k->target_mech[t];
    const double *base = f->base + tell->probe * f->window;
    double rh = 0, hh = 0, post[16], sum = 0;
    for (int i = 0; i < tell->rows * k->n_chan; i++) {
        double scale = k->scale[i % (k->n_scale * k->n_chan)];
        double r = (tell->response[i] - base[i]) / scale;
        double h = (1 - k->g_cal) * f->direction[t * f->window + i] / scale;
        rh += r * h;
        hh += h * h;
    }
    const pf_reading *got = &s->readings[0];
    double z = (rh / hh - k->centre_nominal[t]) / (k->centre_changed[t] - k->centre_nominal[t]);
    int category = 0;
    while (category < k->n_bins - 1 && k->edges[t * (k->n_bins - 1) + category] < got->score) {
        category++;
    }
    CHECK(s->n_readings == 1 && got->mechanism == j && got->usable);
    CHECK_NEAR(got->score, rh / sqrt(hh), 1e-12);
    CHECK_NEAR(got->coordinate, z, 1e-12);
    CHECK(got->category == category);
    CHECK(got->gate ==
          (k->changed[t * k->n_bins + category] > k->nominal[t * k->n_bins + category]));
    for (int g = 0; g < k->n_grid; g++) {
        double away = (z - (1 - k->grid[g]) / (1 - k->g_cal)) / k->sigma[t];
        post[g] = before[(j - 1) * k->n_grid + g] * (got->gate ? exp(-.5 * away * away) : 1);
        sum += post[g];
    }
    for (int i = 0; i < s->m * k->n_grid; i++) {
        double expected = i / k->n_grid == j - 1 ? post[i % k->n_grid] / sum : before[i];
        CHECK_NEAR(s->severity[i], expected, 1e-9);
    }
}

// One recovery response by hand: the probe of the largest residual risk per charge, then
// exp(-(d - d_min)/2T).
static void check_recovery(const pf_fixture *f, const pf_session *s, const pf_tell *tell,
                           const pf_joint *before)
{
    const pf_kit *k = &f->kit;
    int j = k->target_mech[k->probe_target[tell->probe]], n = tell->rows * k->n_chan;
    double d[64], mean = 0, sd = 0, least = INFINITY, best = -1, sum, nominal;
    for (int q = 0; q < k->n_probes; q++) {
        pf_moments moments = pf_joint_moments(before, k->target_mech[q]);
        double value = k->weight[k->target_mech[q] - 1] *
                       (1 - moments.mean * moments.mean / moments.mean_square) / k->charge[q];
        best = fmax(best, pf__tie_round(value));
    }
    CHECK(s->ask.value == best);
    for (int g = 0; g <= k->n_grid; g++) { // the last is nominal
        pf_hypothesis h = {tell->probe, g < k->n_grid ? j : 0, g < k->n_grid ? k->grid[g] : 1,
                           NULL};
        double predicted[64];
        pf_fixture_response(f, &h, 0, NULL, predicted);
        d[g] = 0;
        for (int i = 0; i < n; i++) {
            double scale = k->scale[i % (k->n_scale * k->n_chan)];
            d[g] += pow((tell->response[i] - predicted[i]) / scale, 2) / n;
        }
        mean += d[g] / (k->n_grid + 1);
        least = fmin(least, d[g]);
    }
    for (int g = 0; g <= k->n_grid; g++) {
        sd += pow(d[g] - mean, 2) / (k->n_grid + 1);
    }
    double t = .05 * sqrt(sd), weight[64];
    sum = nominal = before->nominal * exp(-(d[k->n_grid] - least) / (2 * t));
    for (int i = 0; i < s->m * k->n_grid; i++) {
        double seen = i / k->n_grid == j - 1 ? d[i % k->n_grid] : d[k->n_grid];
        weight[i] = before->mass[i] * exp(-(seen - least) / (2 * t));
        sum += weight[i];
    }
    CHECK_NEAR(s->joint.nominal, nominal / sum, 1e-9);
    for (int i = 0; i < s->m * k->n_grid; i++) {
        CHECK_NEAR(s->joint.mass[i], weight[i] / sum, 1e-9);
    }
}

static void test_readings(void)
{
    PF_CASE("score, category, coordinate and severity come from the one response told");
    int recoveries = 0;
    for (int round = 0; round < 60; round++) {
        pf_fixture_config config = pf_fixture_config_default();
        config.seed = (uint64_t)round;
        config.scale_rows = 1 + round % 2;
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
        pf_predictor counted = {f, predict_counted, NULL};
        for (pf_ask ask; (ask = pf_session_ask(s)).kind == PF_ASK_PROBE;) {
            double response[64], before[64], mass[64];
            size_t bytes = sizeof(double) * (size_t)(s->m * s->n_grid);
            pf_joint joint = pf_session_joint(s);
            joint.mass = memcpy(mass, joint.mass, bytes);
            memcpy(before, s->severity, bytes);
            pf_hypothesis truth = {ask.probe, 2, .6, NULL};
            pf_fixture_response(f, &truth, .1, &rng, response);
            pf_tell tell = {.probe = ask.probe,
                            .response = response,
                            .rows = ask.rows,
                            .channels = f->kit.n_chan};
            calls = 0;
            CHECK(pf_session_tell(s, &tell, &counted, NULL) == PF_OK);
            CHECK(calls == (ask.stage == 1 ? 2 : 1 + f->kit.n_grid));
            if (ask.stage == 1) {
                check_reading(f, s, &tell, before);
            } else {
                check_recovery(f, s, &tell, &joint);
                recoveries++;
            }
        }
        free(s);
        pf_fixture_free(f);
    }
    CHECK(recoveries > 20);
}

static void test_one_state(void)
{
    PF_CASE("from the boundary on, the joint belief is all that is read");
    pf_fixture_config config = pf_fixture_config_default();
    config.disorder = 0;
    config.stop = PF_STOP_BREAK;
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = pf_fixture_session(f, "eg-mpt", 0);
        while (pf_session_ask(s[i]).stage == 1) {
            pf_fixture_tell(f, s[i], 2, .35, 0, NULL);
        }
    }
    CHECK(s[0]->stage == 2);
    while (s[0]->stage == 2 && s[1]->stage == 2) {
        pf_fixture_simplex(&rng, s[1]->m + 1, 0, s[1]->belief);
        pf_fixture_simplex(&rng, s[1]->m * s[1]->n_grid, 0, s[1]->severity);
        pf_session_certify(s[0]);
        pf_session_certify(s[1]);
        for (int t = 0; t < f->kit.n_tasks; t++) {
            CHECK(pf_session_task(s[0], t)->lower == pf_session_task(s[1], t)->lower);
        }
        for (int j = 1; j <= config.m; j++) {
            CHECK(pf_session_mechanism(s[0], j)->correction ==
                  pf_session_mechanism(s[1], j)->correction);
        }
        pf_ask a = pf_session_ask(s[0]), b = pf_session_ask(s[1]);
        CHECK(a.probe == b.probe && a.value == b.value);
        CHECK(pf_fixture_tell(f, s[0], 2, .35, 0, NULL) == PF_OK);
        CHECK(pf_fixture_tell(f, s[1], 2, .35, 0, NULL) == PF_OK);
    }
    size_t bytes = sizeof(double) * (size_t)(s[0]->m * s[0]->n_grid);
    CHECK(s[0]->stage == PF_STAGE_DONE && memcmp(s[0]->joint.mass, s[1]->joint.mass, bytes) == 0);
    free(s[0]);
    free(s[1]);
    pf_fixture_free(f);
}

static pf_status predict_nominal(void *self, const pf_hypothesis *hypothesis, const double *start,
                                 int n_start, double *response, pf_error *error)
{
    pf_hypothesis nothing = {hypothesis->probe, 0, 1, NULL};
    return pf_fixture_predictor(self).predict(self, &nothing, start, n_start, response, error);
}

static void test_silent_recovery(void)
{
    PF_CASE("a recovery response that tells no hypotheses apart changes no belief");
    pf_fixture_config config = pf_fixture_config_default();
    config.disorder = 0;
    config.stop = PF_STOP_BREAK;
    pf_fixture *f = pf_fixture_create(&config);
    for (double off = 1; off <= 1e6; off *= 10) {
        pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
        while (pf_session_ask(s).stage == 1) {
            pf_fixture_tell(f, s, 2, .35, 0, NULL);
        }
        pf_ask ask = pf_session_ask(s);
        double before[64], response[64];
        pf_joint joint = pf_session_joint(s);
        memcpy(before, joint.mass, sizeof(double) * (size_t)(joint.m * joint.n_grid));
        // the model says the same whatever changed, and the machine answers something else
        pf_hypothesis nothing = {ask.probe, 0, 1, NULL};
        pf_fixture_response(f, &nothing, 0, NULL, response);
        response[0] += off * f->kit.scale[0];
        pf_tell tell = {
            .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
        pf_predictor flat = {f, predict_nominal, NULL};
        CHECK(ask.stage == 2 && pf_session_tell(s, &tell, &flat, NULL) == PF_OK);
        double most = fabs(joint.nominal - pf_session_joint(s).nominal);
        for (int i = 0; i < joint.m * joint.n_grid; i++) {
            most = fmax(most, fabs(before[i] - s->joint.mass[i]));
        }
        if (!CHECK(most < 1e-9)) {
            printf("  response off by %g scales: a mass moved by %g\n", off, most);
        }
        free(s);
    }
    pf_fixture_free(f);
}

// --- a model that predicts nonsense

static pf_status predict_huge(void *self, const pf_hypothesis *hypothesis, const double *start,
                              int n_start, double *response, pf_error *error)
{
    pf_fixture_predictor(self).predict(self, hypothesis, start, n_start, response, error);
    response[0] = hypothesis->mechanism > 0 ? 1e200 : response[0];
    return PF_OK;
}

static void test_nonsense(void)
{
    PF_CASE("a finite but absurd prediction is refused or is no look, never a nominal reading");
    pf_fixture_config config = pf_fixture_config_default();
    config.field = true;
    config.targets = 1;
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s = pf_fixture_session(f, "eg-mpt", 0);
    pf_predictor huge = {f, predict_huge, NULL};
    pf_ask ask = pf_session_ask(s);
    double response[64];
    int target = f->kit.target_mech[f->kit.probe_target[ask.probe]];
    pf_hypothesis truth = {ask.probe, target, .2, NULL}; // clearly weakened
    pf_fixture_response(f, &truth, 0, NULL, response);
    pf_tell tell = {
        .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
    pf_status status = pf_session_tell(s, &tell, &huge, NULL);
    CHECK(status != PF_OK || !pf_session_probed(s, target));
    free(s);
    pf_fixture_free(f);
}

// --- evidence that was computed before

static void test_tell_evidence(void)
{
    PF_CASE(
        "a session that is told the evidence of a response ends as one that is told the response");
    for (int field = 0; field < 2; field++) {
        pf_fixture_config config = pf_fixture_config_default();
        config.field = field;
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *a = pf_fixture_session(f, "eg-mpt", 0), *b = pf_fixture_session(f, "eg-mpt", 0);
        int n_grid = f->kit.n_grid, stages = 0;
        CHECK(pf_session_tell_evidence(b, &(pf_evidence){.match = b->matches}, NULL) ==
              PF_ERR_STAGE);
        while (pf_session_ask(a).kind == PF_ASK_PROBE) {
            int stage = pf_session_get_state(a).stage;
            pf_ask ask = pf_session_ask(b);
            CHECK(ask.probe == pf_session_ask(a).probe && ask.stage == stage);
            CHECK(pf_fixture_tell(f, a, 1, .3, 0, NULL) == PF_OK);
            double size[16] = {0};
            for (int t = 0; t < pf_kit_probe_targets(&f->kit, ask.probe, NULL); t++) {
                size[t] = a->matches[t].size;
            }
            pf_evidence e = {.match = stage == 1 ? a->matches : NULL};
            pf_evidence none = e;
            none.match = NULL;
            CHECK(pf_session_tell_evidence(b, &none, NULL) == PF_ERR_ARGUMENT);
            if (stage == 2) {
                e = (pf_evidence){NULL, a->distance[0], a->distance + 1, size};
            }
            CHECK(pf_session_tell_evidence(b, &e, NULL) == PF_OK);
            stages |= stage;
        }
        CHECK(stages == 3 && pf_session_get_state(b).stage == PF_STAGE_DONE);
        size_t n = (size_t)(a->m * n_grid);
        CHECK(memcmp(a->belief, b->belief, sizeof(double) * (size_t)(a->m + 1)) == 0);
        CHECK(memcmp(a->joint.mass, b->joint.mass, sizeof(double) * n) == 0);
        free(a);
        free(b);
        pf_fixture_free(f);
    }
}

void test_session_evidence(void)
{
    pf_rng_init(&rng, pf_key_root(52));
    test_garbage();
    test_collinear();
    test_full_rows();
    test_readings();
    test_one_state();
    test_silent_recovery();
    test_nonsense();
    test_tell_evidence();
}
