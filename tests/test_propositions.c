// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_fixture.h"
#include "core/kit_layout.h"
#include "core/belief.h"
#include "core/joint.h"
#include "core/rng.h"
#include "test.h"
#include "core/session_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pf_rng rng;

static int below(int n)
{
    return (int)pf_rng_below(&rng, (uint32_t)n);
}

// --- Proposition 1: the severity never feeds back

// Overwrites every severity with something else: a random distribution, a spike, or no distribution
// at all where nothing may read it.
static void spoil_severity(pf_session *s, bool not_even_numbers)
{
    for (int i = 0; i < s->m; i++) {
        double *severity = s->severity + i * s->n_grid;
        int kind = below(not_even_numbers ? 4 : 3);
        pf_fixture_simplex(&rng, s->n_grid, 0, severity);
        if (kind == 1) {
            memset(severity, 0, sizeof(double) * (size_t)s->n_grid);
            severity[below(s->n_grid)] = 1;
        } else if (kind == 3) {
            for (int k = 0; k < s->n_grid; k++) {
                severity[k] = k % 2 ? NAN : -1e300;
            }
        }
    }
}

static bool same_ask(const pf_ask *a, const pf_ask *b)
{
    return a->kind == b->kind && a->stage == b->stage && a->probe == b->probe &&
           a->rows == b->rows && a->has_value == b->has_value &&
           memcmp(&a->value, &b->value, sizeof a->value) == 0 && a->why == b->why;
}

// What stage 1 decides on, bit by bit.
static bool same_location(const pf_session *a, const pf_session *b)
{
    size_t beliefs = sizeof(double) * (size_t)(a->m + 1);
    return memcmp(a->belief, b->belief, beliefs) == 0 && a->alarm == b->alarm &&
           a->alarm_opportunity == b->alarm_opportunity && a->peak == b->peak &&
           a->charge == b->charge && a->opportunities == b->opportunities && a->told == b->told &&
           memcmp(a->probed, b->probed, sizeof(bool) * (size_t)(a->m + 1)) == 0;
}

typedef struct pair_count {
    int steps, spoiled, ready, alarms;
} pair_count;

// Two sessions on the same responses; b's severity is spoiled after every tell.
static void run_pair(pf_fixture *f, const char *method, pair_count *count)
{
    uint64_t seed = pf__rng_bits(&rng);
    pf_session *a = pf_fixture_session(f, method, seed), *b = pf_fixture_session(f, method, seed);
    double *response = malloc(sizeof(double) * (size_t)f->window);
    pf_predictor predictor = pf_fixture_predictor(f);
    int fault = below(f->config.m + 1);
    double gain = pf_rng_uniform(&rng), noise = pf_rng_uniform(&rng);
    for (int step = 0; step < 100 && a->stage == 1 && b->stage == 1; step++) {
        pf_ask ask = pf_session_ask(a), twin = pf_session_ask(b);
        if (!CHECK(same_ask(&ask, &twin)) || !CHECK(same_location(a, b))) {
            break;
        }
        pf_hypothesis truth = {ask.probe, fault, gain, NULL};
        pf_fixture_response(f, &truth, noise, &rng, response);
        pf_tell tell = {
            .probe = ask.probe, .response = response, .rows = ask.rows, .channels = f->kit.n_chan};
        CHECK(pf_session_tell(a, &tell, &predictor, NULL) == PF_OK);
        CHECK(pf_session_tell(b, &tell, &predictor, NULL) == PF_OK);
        count->steps++;
        if (!CHECK(same_location(a, b))) {
            break;
        }
        size_t bytes = sizeof(double) * (size_t)a->m * (size_t)a->n_grid;
        count->spoiled += memcmp(a->severity, b->severity, bytes) != 0;
        if (b->stage == 1) {
            spoil_severity(b, !f->config.field);
        }
    }
    // only the early end `ready` may come from the severity
    bool early = a->done == PF_DONE_READY || b->done == PF_DONE_READY;
    CHECK(early ? f->config.field : (a->stage != 1) == (b->stage != 1));
    count->ready += early;
    count->alarms += a->alarm;
    free(response);
    free(a);
    free(b);
}

// Eq. severity_orthogonality.
static void test_orthogonality(void)
{
    for (int kind = 0; kind < 4; kind++) {
        bool require = kind % 2;
        pf_faults faults = kind < 2 ? PF_FAULTS_ONE : PF_FAULTS_MANY;
        for (int i = 0; i < pf_method_count(); i++) {
            const pf_method *method = pf_method_at(i);
            if (method->statistic != PF_STATISTIC_MATCHED || !method->transport) {
                continue;
            }
            char name[120];
            snprintf(name, sizeof name, "Proposition 1: %s, require_probe %d, faults %s",
                     method->id, require, pf__faults_name(faults));
            PF_CASE(name);
            pair_count count = {0};
            for (int round = 0; round < 120; round++) {
                pf_fixture_config config = pf_fixture_config_default();
                config.seed = pf__rng_bits(&rng);
                config.m = 1 + below(6);
                config.targets = 1 + below(config.m < 3 ? config.m : 3);
                config.n_bins = 2 + below(5);
                config.n_grid = 3 + below(10);
                config.stop = round % 2 ? PF_STOP_BREAK : PF_STOP_LATCH;
                config.field = require;
                config.hazard = round % 3 ? .05 : 0;
                config.cross = round % 4 == 0;
                config.curve = round % 5 == 0;
                config.budget1 = 1 + below(15);
                config.threshold = .3 + .6 * pf_rng_uniform(&rng);
                config.disorder = pf_rng_uniform(&rng);
                config.method = method->id;
                config.faults = faults;
                pf_fixture *f = pf_fixture_create(&config);
                for (int k = 0; k < 3; k++) {
                    run_pair(f, method->id, &count);
                }
                pf_fixture_free(f);
            }
            // the test had something to compare
            CHECK(count.steps > 1000 && count.spoiled > 500 && count.alarms > 20);
            CHECK(require ? count.ready > 0 : count.ready == 0);
        }
    }
}

// --- Proposition 2: what the coordinate is worth to the correction

// A calibrated finite model: location and gain, a categorical history c, a coordinate z, and which
// categories open the gate.
enum { MECH = 3, GAINS = 4, CATEGORIES = 3, COORDINATES = 3, HYPOTHESES = 1 + MECH * GAINS };

typedef struct model {
    int m, n_grid, n_cat, n_coord;
    double grid[GAINS];
    double prior[HYPOTHESES];                               // (0), then (i, g)
    double category[HYPOTHESES][CATEGORIES];                // p(c | H, g)
    double coordinate[HYPOTHESES][CATEGORIES][COORDINATES]; // p(z | H, g, c)
    bool gate[CATEGORIES];
} model;

static int hypotheses(const model *x)
{
    return 1 + x->m * x->n_grid;
}

static void random_model(model *x)
{
    memset(x, 0, sizeof *x);
    x->m = 2 + below(MECH - 1);
    x->n_grid = 2 + below(GAINS - 1);
    x->n_cat = 2 + below(CATEGORIES - 1);
    x->n_coord = 2 + below(COORDINATES - 1);
    for (int k = 0; k < x->n_grid; k++) {
        x->grid[k] = .1 + .85 * (k + pf_rng_uniform(&rng)) / x->n_grid;
    }
    pf_fixture_simplex(&rng, hypotheses(x), 1e-3, x->prior);
    for (int h = 0; h < hypotheses(x); h++) {
        pf_fixture_simplex(&rng, x->n_cat, 1e-3, x->category[h]);
        for (int c = 0; c < x->n_cat; c++) {
            pf_fixture_simplex(&rng, x->n_coord, 1e-3, x->coordinate[h][c]);
        }
    }
    for (int c = 0; c < x->n_cat; c++) {
        x->gate[c] = pf_rng_below(&rng, 3) > 0;
    }
}

// The joint belief given c and, unless negative, z; its probability is returned.
static double condition(const model *x, int c, int z, pf_joint *joint)
{
    double weight[HYPOTHESES] = {0}, sum = 0;
    for (int h = 0; h < hypotheses(x); h++) {
        weight[h] = x->prior[h] * x->category[h][c] * (z < 0 ? 1 : x->coordinate[h][c][z]);
        sum += weight[h];
    }
    joint->m = x->m;
    joint->n_grid = x->n_grid;
    joint->grid = x->grid;
    joint->nominal = weight[0] / sum;
    for (int h = 1; h < hypotheses(x); h++) {
        joint->mass[h - 1] = weight[h] / sum;
    }
    return sum;
}

// E[(G_i c - 1)^2] under a joint belief, by its definition (Eq. information_specific_risk).
static double mismatch(const pf_joint *joint, int i, double c)
{
    double sum = joint->nominal * (c - 1) * (c - 1);
    for (int h = 0; h < joint->m * joint->n_grid; h++) {
        double g = h / joint->n_grid == i - 1 ? joint->grid[h % joint->n_grid] : 1;
        sum += joint->mass[h] * (g * c - 1) * (g * c - 1);
    }
    return sum;
}

typedef struct value {
    double risk0, risk1, identity, variance, distance, moved;
    double posterior; // largest change of a probability by z
} value;

static value control_value(const model *x, int i)
{
    value v = {0};
    double mass0[MECH * GAINS], mass1[MECH * GAINS];
    pf_joint coarse = {.mass = mass0}, fine = {.mass = mass1};
    for (int c = 0; c < x->n_cat; c++) {
        double p0 = condition(x, c, -1, &coarse), mean = 0, square = 0;
        pf_moments m0 = pf_joint_moments(&coarse, i);
        double c0 = pf__correction(&m0);
        v.risk0 += p0 * mismatch(&coarse, i, c0);
        for (int z = 0; z < (x->gate[c] ? x->n_coord : 1); z++) {
            double p1 = condition(x, c, x->gate[c] ? z : -1, &fine);
            pf_moments m1 = pf_joint_moments(&fine, i);
            double c1 = pf__correction(&m1);
            v.risk1 += p1 * mismatch(&fine, i, c1);
            v.identity += p1 * m1.mean_square * (c0 - c1) * (c0 - c1);
            v.distance += p1 * (c0 - c1) * (c0 - c1);
            v.moved += fabs(c0 - c1) > 1e-9 ? p1 : 0;
            mean += p1 * c1 / p0;
            square += p1 * c1 * c1 / p0;
            for (int h = 0; h < x->m * x->n_grid; h++) {
                v.posterior = fmax(v.posterior, fabs(mass0[h] - mass1[h]));
            }
            CHECK_NEAR(pf__residual_risk(&m1), mismatch(&fine, i, c1), 1e-12);
        }
        v.variance += p0 * (square - mean * mean);
    }
    return v;
}

// Eq. control_value_identity and control_value_bounds.
static void check_value(const model *x, const value *v)
{
    double gap = v->risk0 - v->risk1, least = x->grid[0] * x->grid[0];
    CHECK_NEAR(gap, v->identity, 1e-12);
    CHECK(least * v->variance <= gap + 1e-12);
    CHECK(gap <= v->distance + 1e-12);
    CHECK((gap > 1e-13) == (v->moved > 0));
}

// z splits the beliefs about mechanism 1 into two different ones with the same best correction.
static void silent_model(model *x)
{
    memset(x, 0, sizeof *x);
    *x = (model){.m = 1, .n_grid = 3, .n_cat = 1, .n_coord = 2, .gate = {true}};
    double c = 1.2 + pf_rng_uniform(&rng), a[3], posterior[2][3],
           share = .2 + .6 * pf_rng_uniform(&rng);
    // gains around 1/c: sum p (g - c g^2) = 0 for every mixture of the pairs (0, 2) and (1, 2)
    const double relative[3] = {.5, .7, 1.1};
    for (int k = 0; k < 3; k++) {
        x->grid[k] = relative[k] / c;
        a[k] = x->grid[k] * (1 - c * x->grid[k]);
    }
    for (int z = 0; z < 2; z++) {
        memset(posterior[z], 0, sizeof posterior[z]);
        posterior[z][z] = -a[2] / (a[z] - a[2]);
        posterior[z][2] = 1 - posterior[z][z];
    }
    x->category[0][0] = 1;
    x->coordinate[0][0][0] = x->coordinate[0][0][1] = .5; // H = 0 has no mass
    for (int k = 0; k < 3; k++) {
        double both = share * posterior[0][k] + (1 - share) * posterior[1][k];
        x->prior[1 + k] = both;
        x->category[1 + k][0] = 1;
        x->coordinate[1 + k][0][0] = share * posterior[0][k] / both;
        x->coordinate[1 + k][0][1] = 1 - x->coordinate[1 + k][0][0];
    }
}

static void test_control_value(void)
{
    static model x;
    PF_CASE("Proposition 2: identity, bounds and strictness on random models");
    int strict = 0, equal = 0;
    for (int round = 0; round < 3000; round++) {
        random_model(&x);
        for (int i = 1; i <= x.m; i++) {
            value v = control_value(&x, i);
            check_value(&x, &v);
            strict += v.moved > 0;
            equal += v.moved == 0; // no gate open
        }
    }
    CHECK(strict > 1000 && equal > 50);

    PF_CASE("Proposition 2: no value where the correction stays, whatever else z tells");
    for (int round = 0; round < 300; round++) {
        silent_model(&x);
        value v = control_value(&x, 1);
        check_value(&x, &v);
        CHECK(v.moved == 0 && v.posterior > .05);
        CHECK_NEAR(v.risk0 - v.risk1, 0, 1e-14);
        // moving some mass breaks the balance, and z is worth something
        x.prior[1] *= .5;
        x.prior[2] += x.prior[1];
        v = control_value(&x, 1);
        check_value(&x, &v);
        CHECK(v.moved > 0 && v.risk0 - v.risk1 > 1e-9);
    }

    PF_CASE("Proposition 2: a coordinate that knows nothing is worth nothing");
    for (int round = 0; round < 300; round++) {
        random_model(&x);
        for (int h = 1; h < hypotheses(&x); h++) {
            memcpy(x.coordinate[h], x.coordinate[0], sizeof x.coordinate[0]);
        }
        value v = control_value(&x, 1);
        check_value(&x, &v);
        CHECK(v.moved == 0);
    }
}

// --- Proposition 3: at a fixed budget the coordinate cannot hurt an exact Bayes strategy

typedef struct recovery {
    double outcome[MECH][GAINS + 1]; // p(y = 1 | probe, nominal or gain of its target)
    double weight[MECH], abstain[MECH];
    double price; // of one recovery probe
} recovery;

static void random_recovery(const model *x, recovery *r)
{
    for (int i = 0; i < x->m; i++) {
        r->weight[i] = .2 + pf_rng_uniform(&rng);
        r->abstain[i] = .2 * pf_rng_uniform(&rng);
        for (int k = 0; k <= x->n_grid; k++) {
            r->outcome[i][k] = .02 + .96 * pf_rng_uniform(&rng);
        }
    }
    r->price = .01 * pf_rng_uniform(&rng);
}

// Task-weighted residual mismatch, or the price of abstaining, task by task.
static double loss_now(const recovery *r, const pf_joint *joint)
{
    double loss = 0;
    for (int i = 1; i <= joint->m; i++) {
        pf_moments moments = pf_joint_moments(joint, i);
        loss += r->weight[i - 1] * fmin(pf__residual_risk(&moments), r->abstain[i - 1]);
    }
    return loss;
}

// Least expected loss over all non-anticipating strategies with `budget` probes left.
static double best_loss(const recovery *r, const pf_joint *joint, int budget)
{
    double best = loss_now(r, joint);
    for (int q = 1; q <= joint->m && budget > 0; q++) {
        double loss = r->price;
        for (int y = 0; y < 2; y++) {
            // the core's own recovery update with the exact likelihood: d = -log p(y), T = 1/2
            double mass[MECH * GAINS], d[GAINS], seen = 0;
            pf_joint next = *joint;
            next.mass = mass;
            memcpy(mass, joint->mass, sizeof(double) * (size_t)(joint->m * joint->n_grid));
            double nominal = y ? r->outcome[q - 1][0] : 1 - r->outcome[q - 1][0];
            double rest = 1;
            for (int k = 0; k < joint->n_grid; k++) {
                double p = y ? r->outcome[q - 1][k + 1] : 1 - r->outcome[q - 1][k + 1];
                double here = joint->mass[(q - 1) * joint->n_grid + k];
                d[k] = -log(p);
                seen += p * here;
                rest -= here;
            }
            seen += nominal * rest;
            pf__joint_update(&next, 1, &q, -log(nominal), d, .5);
            loss += seen * best_loss(r, &next, budget - 1);
        }
        best = fmin(best, loss);
    }
    return best;
}

// V_B(F1) with the coordinate, V_B(F0) without.
static double strategy_value(const model *x, const recovery *r, int budget, bool refined)
{
    double mass[MECH * GAINS], sum = 0;
    pf_joint joint = {.mass = mass};
    for (int c = 0; c < x->n_cat; c++) {
        bool sees = refined && x->gate[c];
        for (int z = 0; z < (sees ? x->n_coord : 1); z++) {
            double p = condition(x, c, sees ? z : -1, &joint);
            sum += p * best_loss(r, &joint, budget);
        }
    }
    return sum;
}

// Eq. task_weighted_value.
static void test_dominance(void)
{
    static model x;
    recovery r;
    PF_CASE("Proposition 3: exact strategies of budget 0 to 2, with and without the coordinate");
    int better[3] = {0}, probed = 0;
    for (int round = 0; round < 250; round++) {
        random_model(&x);
        random_recovery(&x, &r);
        double control = 0, last[2] = {INFINITY, INFINITY};
        for (int i = 1; i <= x.m; i++) {
            value v = control_value(&x, i);
            control += r.weight[i - 1] * (v.risk0 - v.risk1);
        }
        CHECK(control >= -1e-12);
        for (int budget = 0; budget <= 2; budget++) {
            double v0 = strategy_value(&x, &r, budget, false);
            double v1 = strategy_value(&x, &r, budget, true);
            CHECK(v1 <= v0 + 1e-12);
            // a larger budget cannot hurt either
            CHECK(v0 <= last[0] + 1e-12 && v1 <= last[1] + 1e-12);
            better[budget] += v1 < v0 - 1e-9;
            probed += v0 < last[0] - 1e-9;
            last[0] = v0;
            last[1] = v1;
        }
    }
    CHECK(better[0] > 50 && better[1] > 50 && better[2] > 50 && probed > 50);
}

void test_propositions(void)
{
    pf_rng_init(&rng, pf_key_root(41));
    test_orthogonality();
    test_control_value();
    test_dominance();
}
