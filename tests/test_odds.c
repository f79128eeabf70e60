// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_fixture.h"
#include "core/belief.h"
#include "core/certificate.h"
#include "core/kit_layout.h"
#include "core/rng.h"
#include "test.h"
#include "core/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The belief in which every mechanism is healthy or changed on its own.

static pf_rng rng;

static int below(int n)
{
    return (int)pf_rng_below(&rng, (uint32_t)n);
}

static pf_fixture_config many_config(int m, int targets)
{
    pf_fixture_config config = pf_fixture_config_default();
    config.seed = pf__rng_bits(&rng);
    config.m = m;
    config.targets = targets;
    config.rows = 8;
    config.faults = PF_FAULTS_MANY;
    config.method = "eg-mpt";
    return config;
}

// One probe of the outstanding ask on a machine with these gains (n_mech).
static pf_status tell_gains(pf_fixture *f, pf_session *s, const double *gains, double noise)
{
    pf_ask ask = pf_session_ask(s);
    double response[256];
    pf_hypothesis truth = {ask.probe, 0, 1, gains};
    pf_predictor predictor = pf_fixture_predictor(f);
    pf_fixture_response(f, &truth, noise, &rng, response);
    pf_tell tell = {
        .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
    return pf_session_tell(s, &tell, f->config.recorded ? NULL : &predictor, NULL);
}

// --- outside witnesses

static void check_joints(const pf_session *a, const pf_session *b)
{
    pf_joint x = pf_session_joint((pf_session *)(uintptr_t)a);
    pf_joint y = pf_session_joint((pf_session *)(uintptr_t)b);
    CHECK_NEAR(x.nominal, y.nominal, 1e-12);
    for (int i = 0; i < x.m * x.n_grid; i++) {
        CHECK_NEAR(x.mass[i], y.mass[i], 1e-12);
    }
}

// With one candidate "at most one" and "each on its own" are the same model.
static void test_single_candidate(void)
{
    PF_CASE("one candidate: the belief of the paper, to rounding, through both stages");
    int recovered = 0;
    for (int round = 0; round < 200; round++) {
        pf_fixture_config config = many_config(1, 1);
        config.hazard = round % 2 ? .05 : 0;
        config.field = round % 3 == 0;
        pf_fixture *many = pf_fixture_create(&config);
        config.faults = PF_FAULTS_ONE;
        pf_fixture *one = pf_fixture_create(&config);
        pf_session *a = pf_fixture_session(many, NULL, 1), *b = pf_fixture_session(one, NULL, 1);
        const double gains[2] = {1, round % 4 ? .2 + .7 * pf_rng_uniform(&rng) : 1};
        for (int step = 0; step < 30; step++) {
            pf_ask x = pf_session_ask(a), y = pf_session_ask(b);
            CHECK(x.kind == y.kind && x.stage == y.stage && x.probe == y.probe && x.why == y.why);
            CHECK_NEAR(x.value, y.value, 1e-11);
            if (x.kind == PF_ASK_DONE) {
                break;
            }
            recovered += x.stage == 2;
            pf_rng before = rng;
            CHECK(tell_gains(many, a, gains, .3) == PF_OK);
            rng = before; // the same noise again
            CHECK(tell_gains(one, b, gains, .3) == PF_OK);
            CHECK(a->alarm == b->alarm);
            CHECK_NEAR(a->belief[0], b->belief[0], 1e-12);
            CHECK_NEAR(a->belief[1], b->belief[1], 1e-12);
            CHECK_NEAR(pf_session_get_state(a).change, pf_session_get_state(b).change, 1e-12);
            check_joints(a, b);
        }
        pf_session_certify(a);
        pf_session_certify(b);
        for (int t = 0; t < many->kit.n_tasks; t++) {
            CHECK_NEAR(pf_session_task(a, t)->lower, pf_session_task(b, t)->lower, 1e-7);
            CHECK(pf_session_task(a, t)->decision == pf_session_task(b, t)->decision);
        }
        free(a);
        free(b);
        pf_fixture_free(many);
        pf_fixture_free(one);
    }
    CHECK(recovered > 50);
}

// All 2^m subsets of changed mechanisms, by enumeration.
enum { MOST = 5 };
typedef struct subsets {
    int m;
    double p[1 << MOST];
} subsets;

static void subsets_hazard(subsets *x, double rate)
{
    double next[1 << MOST] = {0};
    for (int from = 0; from < 1 << x->m; from++) {
        for (int to = 0; to < 1 << x->m; to++) {
            double p = x->p[from];
            for (int j = 0; j < x->m; j++) {
                bool was = from >> j & 1, is = to >> j & 1;
                p *= was ? (is ? 1 : 0) : is ? rate : 1 - rate;
            }
            next[to] += p;
        }
    }
    memcpy(x->p, next, sizeof next);
}

static void subsets_look(subsets *x, int mechanism, double ratio)
{
    double sum = 0;
    for (int i = 0; i < 1 << x->m; i++) {
        x->p[i] *= i >> (mechanism - 1) & 1 ? ratio : 1;
        sum += x->p[i];
    }
    for (int i = 0; i < 1 << x->m; i++) {
        x->p[i] /= sum;
    }
}

static double subsets_changed(const subsets *x, int mechanism)
{
    double sum = 0;
    for (int i = 0; i < 1 << x->m; i++) {
        sum += i >> (mechanism - 1) & 1 ? x->p[i] : 0;
    }
    return sum;
}

// The value of a probe by its definition: per target, the expected drop of w b (1 - b).
static double probe_value(const pf_session *s, int probe)
{
    const pf_kit *k = s->kit;
    double value = 0;
    for (int t = k->probe_target[probe]; t < k->probe_target[probe + 1]; t++) {
        pf_channel_row row = pf__kit_channel(k, t);
        int j = k->target_mech[t];
        double b = s->belief[j], after = 0;
        for (int c = 0; c < k->n_bins; c++) {
            double total = row.nominal[c] * (1 - b) + row.changed[c] * b;
            double then = row.changed[c] * b / total;
            after += total * then * (1 - then);
        }
        value += k->weight[j - 1] * (b * (1 - b) - after);
    }
    return value / k->charge[probe];
}

static void test_enumeration(void)
{
    PF_CASE("location: Bayes' rule over all subsets; acquisition: by its definition");
    for (int round = 0; round < 60; round++) {
        int m = 1 + below(MOST);
        pf_fixture_config config = many_config(m, 1 + below(m));
        config.hazard = round % 2 ? .1 : 0;
        config.budget1 = 12;
        config.stop = PF_STOP_LATCH;
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s = pf_fixture_session(f, NULL, 1);
        subsets x = {.m = m};
        double gains[MOST + 1] = {1, 1, 1, 1, 1, 1};
        for (int i = 0; i < 1 << m; i++) {
            x.p[i] = 1;
            for (int j = 0; j < m; j++) {
                double b = f->kit.prior[j + 1];
                x.p[i] *= i >> j & 1 ? b : 1 - b;
            }
        }
        for (int j = 1; j <= m; j++) {
            gains[j] = below(2) ? 1 : pf_rng_uniform(&rng);
        }
        while (pf_session_get_state(s).stage == 1) {
            pf_ask ask = pf_session_ask(s);
            subsets_hazard(&x, config.hazard / m);
            double best = 0;
            for (int q = 0; q < f->kit.n_probes; q++) {
                best = fmax(best, probe_value(s, q));
            }
            CHECK_NEAR(ask.value, best, 1e-11);
            CHECK_NEAR(probe_value(s, ask.probe), best, 1e-11);
            CHECK(tell_gains(f, s, gains, .3) == PF_OK);
            int n = 0;
            const pf_reading *r = pf_session_readings(s, &n);
            for (int t = 0; t < n; t++) {
                subsets_look(&x, r[t].mechanism, r[t].ratio);
            }
            for (int j = 1; j <= m; j++) {
                CHECK_NEAR(s->belief[j], subsets_changed(&x, j), 1e-12);
            }
            CHECK_NEAR(s->belief[0], x.p[0], 1e-12);
            CHECK_NEAR(pf_session_get_state(s).change, 1 - x.p[0], 1e-12);
        }
        free(s);
        pf_fixture_free(f);
    }
}

static void test_certainty(void)
{
    PF_CASE("odds: certainty is no point of no return");
    double odds = .001;
    for (int i = 0; i < 200; i++) {
        odds = pf__odds_update(odds, 20);
    }
    CHECK(pf__odds_probability(odds) == 1);
    for (int i = 0; i < 204; i++) {
        odds = pf__odds_update(odds, 1 / 20.);
    }
    CHECK(pf__odds_probability(odds) < .001);
    odds = pf__odds_update(1e299, 1e12);
    CHECK(isfinite(odds) && pf__odds_probability(odds) == 1);
    PF_CASE("odds: a prior of 0 waits for the hazard, a prior of 1 stays finite");
    const double prior[3] = {0, 0, 1};
    double two[2], belief[3];
    pf__odds_reset(2, prior, two);
    pf__odds_belief(2, two, belief);
    CHECK(belief[1] == 0 && belief[2] == 1 && belief[0] < 1e-290);
    pf__odds_hazard(2, two, .1);
    CHECK_NEAR(pf__odds_probability(two[0]), .05, 1e-15);
    CHECK(isfinite(two[1]));
    PF_CASE("odds: full rows, two targets: what the other explains is weighed exactly");
    for (int round = 0; round < 200; round++) {
        double nominal = pf_rng_uniform(&rng) + .01, changed = pf_rng_uniform(&rng) + .01;
        double given[2] = {0, pf_rng_uniform(&rng) + .01}, b[2] = {.7, pf_rng_uniform(&rng)};
        double healthy = (1 - b[1]) * nominal + b[1] * given[1];
        CHECK_NEAR(pf__odds_explained_ratio(nominal, changed, 2, 0, given, 1, b), changed / healthy,
                   1e-12 * changed / healthy);
    }
    const double none[3] = {0, 0, 0}, rows[3] = {.9, .9, .9};
    CHECK_NEAR(pf__odds_explained_ratio(.1, .5, 3, 1, rows, 1, none), 5, 1e-12);
}

// --- full rows

// Target 0's change also moves target 1's category: without the explanation 1 would be blamed.
static void test_explained(void)
{
    PF_CASE("full rows: the strongest explains the weaker, a real second fault stays");
    pf_fixture_config config = many_config(2, 2);
    config.cross = true;
    config.n_bins = 2;
    config.n_probes = 1;
    pf_fixture *f = pf_fixture_create(&config);
    const double nominal[2] = {.95, .05}, changed[2] = {.05, .95};
    for (int t = 0; t < 2; t++) {
        memcpy(f->at.nominal + 2 * t, nominal, sizeof nominal);
        memcpy(f->at.changed + 2 * t, changed, sizeof changed);
        for (int i = 0; i < 2; i++) {
            // the category of target 1 under 0's change looks like a change of 1; not vice versa
            memcpy(f->at.cross + (2 * t + i) * 2, t == 1 && i == 0 ? changed : nominal,
                   sizeof nominal);
        }
    }
    pf_session *s = pf_fixture_session(f, NULL, 1);
    pf_session_ask(s);
    s->odds[0] = 1; // target 0 is suspected already
    s->odds[1] = .1;
    pf__odds_belief(2, s->odds, s->belief);
    s->next[0] = (pf_reading){1, true, 0, 1, 0, false, 19, true};
    s->next[1] = (pf_reading){2, true, 0, 1, 0, false, 19, true};
    pf__session_update_odds(s, 0, 2);
    CHECK(s->new_belief[1] > .9);
    CHECK(s->new_belief[2] < .15);
    // without target 0's evidence the same category speaks for 1
    s->odds[0] = 1e-6;
    pf__odds_belief(2, s->odds, s->belief);
    s->next[0] = (pf_reading){1, true, 0, 0, 0, false, 1 / 19., true};
    pf__session_update_odds(s, 0, 2);
    CHECK(s->new_belief[2] > .6);
    free(s);
    pf_fixture_free(f);
}

// --- stage 2, corrections, certificate

typedef struct watcher {
    pf_predictor inner;
    int calls, with_others;
    double others[8];
} watcher;

static pf_status watch(void *self, const pf_hypothesis *h, const double *start, int n_start,
                       double *response, pf_error *error)
{
    watcher *w = self;
    w->calls++;
    w->with_others += h->others != NULL;
    if (h->others) {
        memcpy(w->others, h->others, sizeof(double) * 4);
    }
    return w->inner.predict(w->inner.self, h, start, n_start, response, error);
}

static void test_two_faults(void)
{
    PF_CASE("two faults: both named, both gains found, the healthy one left alone");
    for (int recorded = 0; recorded < 2; recorded++) {
        pf_fixture_config config = many_config(3, 2 + recorded);
        config.recorded = recorded;
        config.disorder = 0;
        config.budget1 = 8;
        config.budget2 = 4;
        pf_fixture *f = pf_fixture_create(&config);
        pf_session *s = pf_fixture_session(f, NULL, 1);
        const double gains[4] = {1, .35, 1, .55};
        while (pf_session_ask(s).kind == PF_ASK_PROBE) {
            if (!CHECK(tell_gains(f, s, gains, .02) == PF_OK)) {
                break;
            }
        }
        CHECK(pf_session_get_state(s).alarm);
        pf_session_certify(s);
        for (int j = 1; j <= 3; j++) {
            const pf_mechanism_readiness *r = pf_session_mechanism(s, j);
            CHECK((r->changed > .9) == (gains[j] < 1));
            CHECK_NEAR(r->mean_gain, gains[j], .08);
        }
        free(s);
        pf_fixture_free(f);
    }
    PF_CASE("two faults: every prediction is asked for once, the others at their mean gain");
    pf_fixture_config config = many_config(3, 3);
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s = pf_fixture_session(f, NULL, 1);
    const double gains[4] = {1, .35, 1, .55};
    watcher w = {.inner = pf_fixture_predictor(f)};
    pf_predictor watched = {&w, watch, NULL};
    double response[256];
    for (pf_ask ask = pf_session_ask(s); ask.kind == PF_ASK_PROBE; ask = pf_session_ask(s)) {
        pf_hypothesis truth = {ask.probe, 0, 1, gains};
        pf_fixture_response(f, &truth, .05, &rng, response);
        pf_tell tell = {
            .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
        double before = pf_session_get_state(s).charge, mean[4] = {1, 0, 0, 0};
        int told = pf_session_get_state(s).told;
        for (int j = 1; j < 4 && ask.stage == 2; j++) {
            mean[j] = pf_joint_moments(&s->joint, j).mean;
        }
        const double *others = pf_session_others(s);
        CHECK((others != NULL) == (ask.stage == 2));
        CHECK(!others || memcmp(mean, others, sizeof mean) == 0);
        w.calls = w.with_others = 0;
        CHECK(pf_session_tell(s, &tell, &watched, NULL) == PF_OK);
        CHECK(w.calls == (ask.stage == 1 ? 1 + 3 : 3 * (1 + f->kit.n_grid)));
        CHECK(w.with_others == (ask.stage == 1 ? 0 : w.calls));
        CHECK(ask.stage == 1 || memcmp(mean, w.others, sizeof mean) == 0);
        // every trajectory is counted and charged
        CHECK(pf_session_get_state(s).told == told + 1);
        CHECK_NEAR(pf_session_get_state(s).charge - before, f->kit.charge[ask.probe], 1e-12);
    }
    free(s);
    pf_fixture_free(f);
}

static void test_product(void)
{
    PF_CASE("certificate: independent returns multiply, against all combinations");
    for (int round = 0; round < 200; round++) {
        int members = 1 + below(3), factors = 1 + below(3), n = 2 + below(3), all = 1;
        double p[3 * 4], returns[3 * 3 * 4], whole[64], product[3 * 64];
        for (int f = 0; f < factors; f++) {
            pf_fixture_simplex(&rng, n, 1e-3, p + f * n);
            all *= n;
        }
        for (int i = 0; i < members * factors * n; i++) {
            returns[i] = pf_rng_uniform(&rng);
        }
        for (int c = 0; c < all; c++) {
            whole[c] = 1;
            for (int e = 0; e < members; e++) {
                int rest = c;
                product[e * all + c] = 1;
                for (int f = 0; f < factors; f++, rest /= n) {
                    product[e * all + c] *= returns[(e * factors + f) * n + rest % n];
                    whole[c] *= e == 0 ? p[f * n + rest % n] : 1;
                }
            }
        }
        pf_prediction a = pf__predict_product(members, factors, n, p, returns, .1);
        pf_prediction b = pf__predict_return(members, all, whole, product, .1);
        CHECK_NEAR(a.mean, b.mean, 1e-12);
        CHECK_NEAR(a.variance, b.variance, 1e-12);
        CHECK_NEAR(a.lower, b.lower, 1e-7);
    }
}

// --- invariants beyond Proposition 1, which test_propositions.c has

// Everything that a session decides by, as bytes.
static size_t snapshot(const pf_session *s, unsigned char *out)
{
    size_t m = (size_t)s->m, grid = (size_t)s->n_grid, at = 0;
    const struct {
        const void *data;
        size_t bytes;
    } parts[] = {{s->belief, (m + 1) * sizeof(double)},
                 {s->odds, m * sizeof(double)},
                 {s->severity, m * grid * sizeof(double)},
                 {s->joint.mass, m * grid * sizeof(double)},
                 {&s->joint.nominal, sizeof(double)},
                 {&s->charge, sizeof(double)},
                 {&s->told, sizeof(int)},
                 {&s->stage, sizeof(int)},
                 {&s->alarm, sizeof(bool)},
                 {s->probed, m + 1},
                 {s->own_evidence, m * sizeof(double)}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        memcpy(out + at, parts[i].data, parts[i].bytes);
        at += parts[i].bytes;
    }
    return at;
}

static void check_refused(pf_fixture *f, pf_session *s)
{
    static unsigned char before[65536], after[65536];
    pf_predictor predictor = pf_fixture_predictor(f);
    pf_ask ask = pf_session_ask(s);
    double response[256];
    pf_hypothesis truth = {ask.probe, 0, 1, NULL};
    pf_fixture_response(f, &truth, 0, NULL, response);
    size_t n = snapshot(s, before);
    response[1] = NAN;
    pf_tell bad = {
        .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
    CHECK(pf_session_tell(s, &bad, &predictor, NULL) == PF_ERR_NONFINITE);
    response[1] = 1e308;
    response[0] = -1e308;
    CHECK(pf_session_tell(s, &bad, &predictor, NULL) != PF_OK);
    bad.rows--;
    CHECK(pf_session_tell(s, &bad, &predictor, NULL) == PF_ERR_SHAPE);
    bad.rows++;
    bad.probe++;
    CHECK(pf_session_tell(s, &bad, &predictor, NULL) == PF_ERR_PROBE);
    CHECK(snapshot(s, after) == n && memcmp(before, after, n) == 0);
    // the answer changes nothing of what is prepared
    pf_session_certify(s);
    CHECK(snapshot(s, after) == n && memcmp(before, after, n) == 0);
}

static void test_invariants(void)
{
    PF_CASE("refused tells and answers leave a session as it was, in both stages");
    pf_fixture_config config = many_config(3, 3);
    config.field = true;
    config.j_min = 1; // never ready early
    pf_fixture *f = pf_fixture_create(&config);
    pf_session *s = pf_fixture_session(f, NULL, 1);
    const double gains[4] = {1, .35, 1, .55};
    int stages = 0;
    while (pf_session_ask(s).kind == PF_ASK_PROBE) {
        stages |= pf_session_ask(s).stage;
        check_refused(f, s);
        CHECK(tell_gains(f, s, gains, .02) == PF_OK);
    }
    CHECK(stages == 3);
    PF_CASE("one recovery state: nothing but the joint belief is read in stage 2");
    pf_session *a = pf_fixture_session(f, NULL, 1), *b = pf_fixture_session(f, NULL, 1);
    while (pf_session_get_state(a).stage == 1) {
        pf_session_ask(a);
        pf_session_ask(b);
        pf_rng before = rng;
        CHECK(tell_gains(f, a, gains, .1) == PF_OK);
        rng = before;
        CHECK(tell_gains(f, b, gains, .1) == PF_OK);
    }
    for (int j = 0; j < 3; j++) {
        b->odds[j] = pf_rng_uniform(&rng);
        b->belief[j + 1] = pf_rng_uniform(&rng);
        pf_fixture_simplex(&rng, b->n_grid, 0, b->severity + j * b->n_grid);
    }
    pf_ask x = pf_session_ask(a), y = pf_session_ask(b);
    CHECK(x.probe == y.probe && x.value == y.value);
    pf_rng before = rng;
    CHECK(tell_gains(f, a, gains, .1) == PF_OK);
    rng = before;
    CHECK(tell_gains(f, b, gains, .1) == PF_OK);
    CHECK(memcmp(a->joint.mass, b->joint.mass, sizeof(double) * 3 * (size_t)a->n_grid) == 0);
    pf_session_certify(a);
    pf_session_certify(b);
    for (int t = 0; t < f->kit.n_tasks; t++) {
        CHECK(pf_session_task(a, t)->lower == pf_session_task(b, t)->lower);
    }
    PF_CASE("a mechanism that no probe looked at blocks its tasks");
    pf_session_reset(a);
    pf_session_certify(a);
    for (int t = 0; t < f->kit.n_tasks; t++) {
        CHECK(pf_session_task(a, t)->why == PF_WHY_NOT_PROBED);
    }
    free(a);
    free(b);
    free(s);
    pf_fixture_free(f);
}

static void test_memory(void)
{
    PF_CASE("a session takes exactly what it says");
    pf_fixture_config config = many_config(4, 3);
    pf_fixture *f = pf_fixture_create(&config);
    size_t bytes = pf_session_size(&f->kit);
    void *memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
    pf_session *s = NULL;
    CHECK(pf_session_init(&s, &f->kit, NULL, memory, bytes - 1, NULL) == PF_ERR_MEMORY);
    CHECK(pf_session_init(&s, &f->kit, NULL, memory, bytes, NULL) == PF_OK);
    free(memory);
    pf_fixture_free(f);
}

void test_odds(void)
{
    pf_rng_init(&rng, 77);
    test_certainty();
    test_single_candidate();
    test_enumeration();
    test_explained();
    test_two_faults();
    test_product();
    test_invariants();
    test_memory();
}
