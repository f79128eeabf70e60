// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit.h"
#include "core/kit_layout.h"
#include "core/score.h"
#include "kit_fixture.h"
#include "calibrate/plan.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Weighted inner products: the factor, what it is worth, and that none of it is felt at identity.

enum { N = 24, RUNS = 200 };

static pf_rng rng;

// Residuals of an autoregressive noise: neighbours correlate by `rho`, sd 2.
static void draw(double rho, int count, double *x)
{
    for (int k = 0; k < count; k++) {
        double last = pf_rng_normal(&rng);
        for (int i = 0; i < N; i++) {
            last = i == 0 ? last : rho * last + sqrt(1 - rho * rho) * pf_rng_normal(&rng);
            x[k * N + i] = 2 * last;
        }
    }
}

// <a, b> with the weight F^T F, by its definition.
static double weighted(const double *factor, const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double fa = 0, fb = 0;
        for (int j = 0; j <= i; j++) {
            fa += factor[i * (i + 1) / 2 + j] * a[j];
            fb += factor[i * (i + 1) / 2 + j] * b[j];
        }
        sum += fa * fb;
    }
    return sum;
}

static void test_factor(void)
{
    static double x[RUNS * N], scratch[N * N], factor[N * (N + 1) / 2];
    PF_CASE("whiten: F^T F is the inverse of the shrunk second moments over their mean");
    draw(.9, RUNS, x);
    double lambda = pf__fit_whiten(N, RUNS, x, scratch, factor), mu = 0, worst = 0;
    CHECK(lambda > 0 && lambda < .2);
    for (int i = 0; i < RUNS * N; i++) {
        mu += x[i] * x[i] / (RUNS * N);
    }
    for (int a = 0; a < N; a++) {
        double column[N], product[N];
        for (int i = 0; i < N; i++) {
            double moment = 0;
            for (int k = 0; k < RUNS; k++) {
                moment += x[k * N + i] * x[k * N + a] / RUNS;
            }
            column[i] = (1 - lambda) * moment / mu + (i == a ? lambda : 0);
        }
        // W column = unit vector
        for (int i = 0; i < N; i++) {
            double unit[N] = {0};
            unit[i] = 1;
            product[i] = weighted(factor, unit, column);
            worst = fmax(worst, fabs(product[i] - (i == a)));
        }
    }
    CHECK(worst < 1e-9);
}

static void test_plain(void)
{
    static double x[RUNS * N], scratch[N * N], factor[N * (N + 1) / 2];
    PF_CASE("whiten: in place it is the same product");
    double r[N], h[N];
    draw(.9, RUNS, x);
    double lambda = pf__fit_whiten(N, RUNS, x, scratch, factor);
    for (int i = 0; i < N; i++) {
        r[i] = pf_rng_normal(&rng);
        h[i] = pf_rng_normal(&rng);
    }
    double expected = weighted(factor, r, h);
    pf__whiten(N, factor, r);
    pf__whiten(N, factor, h);
    CHECK_NEAR(pf__dot(N, r, h), expected, 1e-11 * fabs(expected));
    PF_CASE("whiten: white noise is left alone, and so is a predictor without error");
    CHECK(lambda < .2);
    draw(0, RUNS, x);
    lambda = pf__fit_whiten(N, RUNS, x, scratch, factor);
    CHECK(lambda > .9);
    memset(x, 0, sizeof x);
    CHECK(pf__fit_whiten(N, RUNS, x, scratch, factor) == 1);
    for (int i = 0; i < N; i++) {
        CHECK(factor[i * (i + 1) / 2 + i] == 1);
        for (int j = 0; j < i; j++) {
            CHECK(factor[i * (i + 1) / 2 + j] == 0);
        }
    }
    PF_CASE("whiten: one residual over and over still gives a factor");
    for (int i = 0; i < RUNS * N; i++) {
        x[i] = 1 + i % N;
    }
    pf__fit_whiten(N, RUNS, x, scratch, factor);
    for (int i = 0; i < N * (N + 1) / 2; i++) {
        CHECK(isfinite(factor[i]));
    }
}

// Separation of the matched score in its own standard deviations.
static double separation(const double *factor, const double *signature)
{
    double h[N], sum = 0, square = 0;
    memcpy(h, signature, sizeof h);
    if (factor) {
        pf__whiten(N, factor, h);
    }
    double size = sqrt(pf__dot(N, h, h));
    for (int k = 0; k < 2000; k++) {
        double r[N];
        draw(.9, 1, r);
        if (factor) {
            pf__whiten(N, factor, r);
        }
        double score = pf__dot(N, r, h) / size;
        sum += score;
        square += score * score;
    }
    return size / sqrt(square / 2000 - sum / 2000 * sum / 2000);
}

static void test_worth(void)
{
    static double x[RUNS * N], scratch[N * N], factor[N * (N + 1) / 2];
    PF_CASE("whiten: correlated residuals: a short signature separates half as much again");
    double signature[N];
    for (int i = 0; i < N; i++) {
        signature[i] = i >= 8 && i < 12; // slow noise looks like it, to plain eyes
    }
    draw(.9, RUNS, x);
    pf__fit_whiten(N, RUNS, x, scratch, factor);
    double plain = separation(NULL, signature), better = separation(factor, signature);
    printf("    separation %.2f plain, %.2f weighted\n", plain, better);
    CHECK(better > 1.5 * plain);
}

// The same sessions with and without the identity as weight.
static void test_identity(void)
{
    PF_CASE("whiten: the identity changes nothing, to rounding");
    for (int round = 0; round < 40; round++) {
        pf_fixture_config config = pf_fixture_config_default();
        config.seed = 500 + (uint64_t)round;
        config.m = 3;
        config.targets = 1 + round % 3;
        config.rows = 8;
        config.faults = round % 2 ? PF_FAULTS_MANY : PF_FAULTS_ONE;
        pf_fixture *plain = pf_fixture_create(&config);
        config.whiten = true;
        pf_fixture *white = pf_fixture_create(&config);
        pf_session *a = pf_fixture_session(plain, "eg-mpt", 1);
        pf_session *b = pf_fixture_session(white, "eg-mpt", 1);
        while (pf_session_ask(a).kind == PF_ASK_PROBE) {
            CHECK(pf_session_ask(a).probe == pf_session_ask(b).probe);
            pf_rng before = rng;
            CHECK(pf_fixture_tell(plain, a, 2, .4, .2, &rng) == PF_OK);
            rng = before;
            CHECK(pf_fixture_tell(white, b, 2, .4, .2, &rng) == PF_OK);
            int n = 0;
            const pf_reading *x = pf_session_readings(a, &n), *y = pf_session_readings(b, &n);
            for (int t = 0; t < n; t++) {
                CHECK_NEAR(x[t].score, y[t].score, 1e-11 * fmax(1, fabs(x[t].score)));
                CHECK(x[t].category == y[t].category);
            }
            for (int j = 0; j <= 3; j++) {
                CHECK_NEAR(pf_session_belief(a)[j], pf_session_belief(b)[j], 1e-12);
            }
        }
        free(a);
        free(b);
        pf_fixture_free(plain);
        pf_fixture_free(white);
    }
}

// A whole calibration with weights; what cannot be weighted says so.
static void test_calibrated(void)
{
    pf_plant *plant = NULL;
    pf_plan plan;
    void *bytes[2] = {NULL, NULL};
    size_t n = 0;
    pf_kit kit[2];
    pf_error error = {PF_OK, ""};
    const char *set[] = {"weighting=shrunk", "episodes=30"};
    PF_CASE("whiten: a kit with weights, the same for any number of threads");
    CHECK(pf_plant_create(&plant, "pump_tank", &error) == PF_OK);
    const pf_plant_info *info = pf_plant_get_info(plant);
    CHECK(pf__plan_from_config(&plan, info, "--set", NULL, 0, set, 2, &error) == PF_OK);
    plan.settings.alarm_trials = 100;
    for (int i = 0; i < 2; i++) {
        pf_effort effort = {.threads = 1 + i};
        CHECK(pf_calibrate(&plan, plant, NULL, &effort, &bytes[i], &n, &error) == PF_OK);
        CHECK(pf__kit_read(&kit[i], bytes[i], n, &error) == PF_OK);
    }
    CHECK(kit[0].n_whiten > 0 && memcmp(kit[0].sha256, kit[1].sha256, 32) == 0);
    for (int q = 0; q < kit[0].n_probes; q++) {
        CHECK(pf__kit_whiten(&kit[0], q)[0] > 0);
        CHECK(kit[0].distance_limit[q] > 0 && kit[0].off_limit[q] > 0);
    }
    PF_CASE("whiten: refused with the norm statistic and from recordings");
    plan.method = "bayes-risk";
    void *none = NULL;
    CHECK(pf_calibrate(&plan, plant, NULL, NULL, &none, &n, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "weighting");
    CHECK(pf_calibrate_recordings(&plan, "r.csv", "x", 1, NULL, &none, &n, &error) ==
          PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "weighting");
    free(bytes[0]);
    free(bytes[1]);
    pf__plan_free(&plan);
    pf_plant_destroy(plant);
}

void test_whiten(void)
{
    pf_rng_init(&rng, 5);
    test_factor();
    test_plain();
    test_worth();
    test_identity();
    test_calibrated();
}
