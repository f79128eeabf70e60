// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/misfit.h"
#include "core/session_impl.h"
#include "field_kit.h"
#include "kit_fixture.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- a sum of squares as a normal deviate

// Points of the chi-square distribution (any table): degrees, 50, 95 and 99 %.
static const double points[][4] = {{1, .4549, 3.8415, 6.6349},     {2, 1.3863, 5.9915, 9.2103},
                                   {3, 2.3660, 7.8147, 11.3449},   {5, 4.3515, 11.0705, 15.0863},
                                   {10, 9.3418, 18.3070, 23.2093}, {20, 19.3374, 31.4104, 37.5662},
                                   {50, 49.3349, 67.5048, 76.1539}};
static const double normal[] = {0, 1.6449, 2.3263};

static void check_shape(void)
{
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        int n = (int)points[i][0];
        for (int p = 0; p < 3; p++) {
            CHECK_NEAR(pf__misfit_shape(points[i][1 + p], n), normal[p], n < 3 ? .12 : .03);
        }
    }
    CHECK(pf__misfit_shape(3, 0) == 0);
    pf_rng rng;
    pf_rng_init(&rng, 3);
    for (int n = 2; n <= 32; n *= 4) {
        enum { DRAWS = 20000 };
        double sum = 0, square = 0;
        int above = 0;
        for (int i = 0; i < DRAWS; i++) {
            double q = 0;
            for (int k = 0; k < n; k++) {
                double x = pf_rng_normal(&rng);
                q += x * x;
            }
            double u = pf__misfit_shape(q, n);
            sum += u / DRAWS;
            square += u * u / DRAWS;
            above += u > normal[2];
        }
        CHECK_NEAR(sum, 0, .03);
        CHECK_NEAR(square, 1, n < 3 ? .08 : .05); // an approximation, coarse for few
        CHECK_NEAR(above / (double)DRAWS, .01, .003);
    }
}

// --- what is left of a response

static void check_roots(void)
{
    for (int scale_rows = 1; scale_rows <= 4; scale_rows += 3) {
        pf_fixture_config c = pf_fixture_config_default();
        c.field = c.looks = c.misfit = true;
        c.scale_rows = scale_rows;
        pf_fixture *f = pf_fixture_create(&c);
        const pf_kit *k = &f->kit;
        pf_rng rng;
        pf_rng_init(&rng, 9);
        for (int i = 0; i < k->n_misfit * k->n_chan; i++) {
            f->at.residual_rms[i] = .5 + pf_rng_uniform(&rng);
        }
        for (int probe = 0; probe < k->n_probes; probe++) {
            double response[16], predicted[16], root[2], u[2];
            for (int i = 0; i < 16; i++) {
                response[i] = pf_rng_normal(&rng);
                predicted[i] = pf_rng_normal(&rng);
            }
            pf__misfit_roots(k, probe, response, predicted, root);
            pf__misfit_channels(k, probe, response, predicted, u);
            for (int chan = 0; chan < 2; chan++) {
                double sum = 0;
                for (int row = 0; row < pf_kit_probe_rows(k, probe); row++) {
                    double scale = k->scale[(scale_rows > 1 ? row * 2 : 0) + chan];
                    double rms = k->residual_rms[(k->probe_row[probe] + row) * 2 + chan];
                    sum += pow((response[row * 2 + chan] - predicted[row * 2 + chan]) / scale / rms,
                               2);
                }
                CHECK_NEAR(root[chan], pow(sum, 1 / 3.), 1e-12);
                CHECK_NEAR(u[chan],
                           (root[chan] - k->misfit_mean[probe * 2 + chan]) /
                               k->misfit_sd[probe * 2 + chan],
                           1e-12);
            }
        }
        pf_fixture_free(f);
    }
}

// Readings that repeat themselves at the end, by hand; two in a row that calibration saw let five
// pass, in looks and nowhere else.
static void check_still(void)
{
    const double response[] = {1, 4, 2, 4, 3, 4, 3, 4, 3, 4, 3, 4}; // 6 rows of 2 channels
    double still[] = {2, 2};
    pf_kit k = {.n_misfit = 1, .n_chan = 2, .still = still};
    CHECK(pf__misfit_still(6, 2, response, 0) == 4 && pf__misfit_still(6, 2, response, 1) == 6);
    CHECK(pf__misfit_still(3, 2, response, 0) == 1 && pf__misfit_still(1, 2, response, 1) == 1);
    CHECK(!pf__misfit_stuck(&k, 6, response, 0) && pf__misfit_stuck(&k, 6, response, 1));
    CHECK(!pf__misfit_stuck(&k, 5, response, 1));
    k.n_misfit = 0; // a kit that was not calibrated for it
    CHECK(!pf__misfit_stuck(&k, 6, response, 1));
}

// A later look does not excuse an earlier one.
static void check_largest(void)
{
    double sum[2] = {7, 7};
    pf__misfit m = {.sum = sum};
    pf_kit k = {.n_misfit = 1, .misfit_chan = 2, .misfit_shape = 4};
    pf__misfit_reset(&m, 2);
    CHECK(sum[0] == 0 && sum[1] == 0 && m.channel == -1 && pf__misfit_value(&m, &k) == 0);
    pf__misfit_add(&m, 2, (const double[]){-1, 3}, 1, 1);
    CHECK(m.looks == 1 && m.channel == 1 && m.look == 1 && m.chan == 3 && m.shape == 1);
    CHECK_NEAR(pf__misfit_value(&m, &k), 1.5, 1e-15);
    pf__misfit_add(&m, 2, (const double[]){1, -3}, -2, 2);
    CHECK(m.looks == 2 && m.chan == 3 && m.look == 1 && m.shape == 1 && m.shape_look == 1);
    pf__misfit_add(&m, 2, (const double[]){6, 0}, 8, 3);
    CHECK_NEAR(m.chan, 6 / sqrt(3), 1e-15);
    CHECK(m.channel == 0 && m.look == 3 && m.shape == 8 && m.shape_look == 3);
    CHECK_NEAR(pf__misfit_value(&m, &k), 2, 1e-15);
    k.n_misfit = 0; // a kit that knows no levels
    CHECK(pf__misfit_value(&m, &k) == 0);
}

// --- what a session adds up, again by hand

enum { M = 3, GAINS = PF_POSTERIOR_GAINS };

// Sums over the looks of a fixture with one target per probe, whose coordinate is linear in the
// loss with variance .01: log likelihoods and squared distances of every hypothesis.
typedef struct sums {
    int n;
    double log_healthy, q_healthy;               // of all looks
    double log_own[M], q_own[M];                 // of those at one mechanism, if it is healthy
    double log_gain[M][GAINS], q_gain[M][GAINS]; // and if it has a gain
    double chan[2], most_chan, most_shape;
} sums;

static double log_t(double q)
{
    return -3 * log(1 + q / 6); // Student t, 5 degrees of freedom
}

static void add_coordinate(sums *s, int mechanism, double z, double g_cal)
{
    double q = z * z / .01;
    s->n++;
    s->log_healthy += log_t(q);
    s->q_healthy += q;
    s->log_own[mechanism - 1] += log_t(q);
    s->q_own[mechanism - 1] += q;
    for (int g = 0; g < GAINS; g++) {
        q = pow(z - (1 - pf__posterior_gains[g]) / (1 - g_cal), 2) / .01;
        s->log_gain[mechanism - 1][g] += log_t(q);
        s->q_gain[mechanism - 1][g] += q;
    }
}

// The squared distance of all looks at the likeliest hypothesis.
static double likeliest(const sums *s, const pf_kit *k)
{
    double weight[GAINS], best = log(k->prior[0]) + s->log_healthy, q = s->q_healthy, all = 0;
    bool many = k->faults == PF_FAULTS_MANY;
    pf__posterior_prior(weight);
    for (int j = 0; j < M; j++) {
        if (many) {
            best = log(1 - k->prior[j + 1]) + s->log_own[j];
            q = s->q_own[j];
        }
        for (int g = 0; g < GAINS; g++) {
            double rest = many ? 0 : s->log_healthy - s->log_own[j];
            double l = log(k->prior[j + 1] * weight[g]) + s->log_gain[j][g] + rest;
            if (l > best) {
                best = l;
                q = s->q_gain[j][g] + (many ? 0 : s->q_healthy - s->q_own[j]);
            }
        }
        all += q;
    }
    return many ? all : q;
}

// What the hypothesis nearest to a coordinate leaves of the response, by channel.
static void add_channels(sums *s, const pf_fixture *f, int probe, double z, const double *response)
{
    const pf_kit *k = &f->kit;
    double least = z * z, nearest = 1, predicted[8], u[2];
    for (int g = 0; g < GAINS; g++) {
        double away = z - (1 - pf__posterior_gains[g]) / (1 - k->g_cal);
        nearest = away * away < least ? pf__posterior_gains[g] : nearest;
        least = fmin(least, away * away);
    }
    bool changed = nearest < 1 || nearest > 1;
    pf_hypothesis h = {probe, changed ? k->target_mech[probe] : 0, nearest, NULL};
    pf_fixture_response(f, &h, 0, NULL, predicted);
    pf__misfit_channels(k, probe, response, predicted, u);
    for (int chan = 0; chan < 2; chan++) {
        s->chan[chan] += u[chan];
        s->most_chan = fmax(s->most_chan, s->chan[chan] / sqrt(s->n));
    }
}

static void check_session(uint64_t seed)
{
    pf_fixture_config c = pf_fixture_config_default();
    c.seed = seed;
    c.field = c.looks = c.misfit = true;
    c.threshold = .999;
    c.faults = seed % 2 ? PF_FAULTS_MANY : PF_FAULTS_ONE;
    pf_fixture *f = pf_fixture_create(&c);
    const pf_kit *k = &f->kit;
    pf_session *s = pf_fixture_session(f, NULL, seed);
    pf_predictor predictor = pf_fixture_predictor(f);
    pf_rng rng;
    sums own = {0};
    pf_rng_init(&rng, seed);
    double gain = .4 + .1 * (double)(seed % 7);
    while (pf_session_ask(s).kind == PF_ASK_PROBE) {
        pf_ask ask;
        double response[8];
        pf_session_outstanding(s, &ask);
        // a gain that wobbles, and what no gain explains
        pf_hypothesis truth = {ask.probe, 1, gain + .15 * pf_rng_normal(&rng), NULL};
        pf_fixture_response(f, &truth, .05, &rng, response);
        response[0] += .2 * pf_rng_normal(&rng);
        pf_tell tell = {.probe = ask.probe, .response = response, .rows = ask.rows, .channels = 2};
        CHECK(pf_session_tell(s, &tell, &predictor, NULL) == PF_OK);
        double z = s->z[0];
        add_coordinate(&own, k->target_mech[ask.probe], z, k->g_cal);
        add_channels(&own, f, ask.probe, z, response);
        own.most_shape = fmax(own.most_shape, pf__misfit_shape(likeliest(&own, k), own.n));
        CHECK_NEAR(s->misfit.chan, own.most_chan, 1e-9);
        CHECK_NEAR(s->misfit.shape, own.most_shape, 1e-9);
    }
    CHECK(s->misfit.looks == pf_session_get_state(s).told && own.n > 1);
    free(s);
    pf_fixture_free(f);
}

// --- levels, on fresh seeds

static int count_misfit(field *f, const char *faults, double from, double to, int sessions)
{
    int n = 0;
    for (int i = 0; i < sessions; i++) {
        pf_rng rng;
        char words[80];
        pf_rng_init(&rng, pf_key_root((uint64_t)i + 1000));
        double gain = from + (to - from) * pf_rng_uniform(&rng);
        snprintf(words, sizeof words, faults, 1 + i % 3, gain);
        field_faults(f, words);
        field_check(f, 5000 + (uint64_t)i, NULL);
        n += field_misfit(f);
    }
    return n;
}

static void check_levels(void)
{
    int size = pf_long() ? 3000 : 300, few = pf_long() ? 300 : 60;
    field f;
    PF_CASE("levels: healthy and weakened servos fit, on fresh seeds");
    field_open(&f, "dc_servo", &field_kit_of("dc_servo", NULL)->kit);
    int healthy = count_misfit(&f, "", 1, 1, size);
    int weak = count_misfit(&f, "%d:%.6f", 0, 1.2, size);
    printf("    misfit of %d: %d healthy, %d weakened\n", size, healthy, weak);
    CHECK(healthy <= .015 * size && weak <= .03 * size);
    PF_CASE("levels: a frozen channel fits no machine of the model");
    int frozen = count_misfit(&f, "angle:frozen", 1, 1, few);
    frozen += count_misfit(&f, "speed:frozen", 1, 1, few);
    frozen += count_misfit(&f, "speed:frozen=2", 1, 1, few);
    CHECK(frozen >= .95 * 3 * few);
    PF_CASE("levels: two losses in a kit for one fit none either");
    int two = count_misfit(&f, "1:.4 2:.5", 1, 1, few) + count_misfit(&f, "2:.3 3:.6", 1, 1, few);
    printf("    misfit: %d of %d frozen, %d of %d with two losses\n", frozen, 3 * few, two,
           2 * few);
    CHECK(two >= .9 * 2 * few);
    field_close(&f);
}

// What moves before a run: the limit, and what nobody tells or can tell.
static void check_restless(void)
{
    const double before[2] = {.1, 0};
    const pf_kit k = {.n_before = 2, .n_chan = 2, .n_state = 6, .before = before};
    const double calm[6] = {0, 3, .1, 3, 0, 3}, moved[6] = {0, 3, .1, 3, .26, 3.001};
    const double wild[6] = {0, 3, NAN, 3, 0, 3};
    const pf_kit without = {.n_chan = 2, .n_state = 6};
    CHECK_NEAR(pf__misfit_moved(6, 2, moved, 0), .16, 1e-12);
    CHECK(!pf__misfit_restless(&k, calm, 6, 0) && !pf__misfit_restless(&k, calm, 6, 1));
    CHECK(pf__misfit_restless(&k, moved, 6, 0) && pf__misfit_restless(&k, moved, 6, 1));
    CHECK(pf__misfit_restless(&k, wild, 6, 0) && !pf__misfit_restless(&k, wild, 6, 1));
    CHECK(pf__misfit_restless(&k, NULL, 0, 0) && pf__misfit_restless(&k, calm, 4, 0));
    CHECK(!pf__misfit_restless(&without, moved, 6, 0) &&
          !pf__misfit_restless(&without, NULL, 0, 0));
}

void test_misfit(void)
{
    PF_CASE("a channel is restless beyond its limit, and where nobody tells");
    check_restless();
    PF_CASE("a sum of squares as a normal deviate: published points, simulated tails");
    check_shape();
    PF_CASE("the root of a channel is that of its sum of squares");
    check_roots();
    PF_CASE("a channel that repeats itself");
    check_still();
    PF_CASE("largest values are kept");
    check_largest();
    PF_CASE("a session adds up what the nearest hypothesis leaves, and what the likeliest does");
    for (uint64_t seed = 0; seed < 40; seed++) {
        check_session(seed);
    }
    check_levels();
}
