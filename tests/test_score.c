// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/constants.h"
#include "core/score.h"
#include "preflight/preflight.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TARGETS = 16, WINDOW = 8 * 45 };

static double signature[TARGETS * WINDOW], residual[WINDOW];
static double scratch[2 * TARGETS * TARGETS + 3 * TARGETS], wide[(TARGETS + 1) * WINDOW];
static pf_match fast[TARGETS], plain[TARGETS];

static void draw(pf_rng *rng, int n, double size, double *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = size * pf_rng_normal(rng);
    }
}

static void run_both(int targets, int n)
{
    pf__match_targets(targets, n, signature, residual, scratch, fast);
    pf__match_targets_plain(targets, n, signature, residual, wide, plain);
}

// Fast and plain agree: usable alike, numbers within tolerance of the size of the residual.
static void check_equal(int targets, int n, double tolerance)
{
    double size = pf__residual_norm(n, residual);
    for (int t = 0; t < targets; t++) {
        const double *h = signature + t * n;
        double norm = sqrt(pf__dot(n, h, h));
        if (!CHECK(fast[t].usable == plain[t].usable)) {
            printf("  target %d of %d, window %d: remaining %g and %g\n", t, targets, n,
                   fast[t].remaining, plain[t].remaining);
            continue;
        }
        // correlations know the square of what remains
        CHECK_NEAR(fast[t].remaining * fast[t].remaining, plain[t].remaining * plain[t].remaining,
                   tolerance);
        if (!fast[t].usable) {
            CHECK(isnan(fast[t].score) && isnan(fast[t].coefficient));
            continue;
        }
        // an error of the direction h' is magnified by 1/remaining
        double allowed = tolerance * size / fast[t].remaining;
        CHECK_NEAR(fast[t].score, plain[t].score, allowed);
        CHECK_NEAR(fast[t].coefficient, plain[t].coefficient, allowed / (norm * fast[t].remaining));
        // what no signature explains, here by its square since it is a difference
        CHECK_NEAR(fast[t].off * fast[t].off, plain[t].off * plain[t].off,
                   tolerance * size * size / (n * fast[t].remaining * fast[t].remaining));
    }
}

static void test_random(void)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(21));
    PF_CASE("fast equals plain: random signatures, 1 to 16 targets");
    static const int windows[] = {17, 24, 60, 128, WINDOW};
    for (int targets = 1; targets <= TARGETS; targets++) {
        for (int w = 0; w < 5; w++) {
            int n = windows[w];
            for (int t = 0; t < targets; t++) {
                draw(&rng, n, exp(6 * pf_rng_normal(&rng)), signature + t * n);
            }
            draw(&rng, n, 1, residual);
            run_both(targets, n);
            check_equal(targets, n, 1e-10);
            for (int t = 0; t < targets; t++) {
                CHECK(fast[t].usable && fast[t].remaining <= 1 + 1e-12);
            }
        }
    }

    PF_CASE("fast equals plain: nearly collinear signatures");
    for (int round = 0; round < 400; round++) {
        int targets = 2 + (int)pf_rng_below(&rng, TARGETS - 1), n = 40;
        // from clearly apart to nearly the same, across the thresholds of both ways
        double apart = pow(10, -4.5 * pf_rng_uniform(&rng));
        draw(&rng, n, 1, residual);
        draw(&rng, targets * n, 1, signature);
        int a = (int)pf_rng_below(&rng, (uint32_t)targets), b = (a + 1) % targets;
        for (int i = 0; i < n; i++) {
            signature[a * n + i] = 3 * signature[b * n + i] + apart * signature[a * n + i];
        }
        run_both(targets, n);
        double remaining = plain[a].remaining;
        if (fabs(remaining - PF_REMAINING_ONLINE) > 1e-6) {
            // correlations lose what the pair has in common
            check_equal(targets, n, 1e-13 / fmin(1, apart * apart));
            CHECK(fast[a].usable == (remaining >= PF_REMAINING_ONLINE));
        }
    }
}

static void test_deficient(void)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(22));
    PF_CASE("fast equals plain: exactly collinear and vanished signatures");
    for (int round = 0; round < 400; round++) {
        int targets = 3 + (int)pf_rng_below(&rng, TARGETS - 2), n = 30;
        draw(&rng, n, 1, residual);
        draw(&rng, targets * n, 1, signature);
        // the first k span all of the next, and one may be zero
        int same = 1 + (int)pf_rng_below(&rng, (uint32_t)targets - 1);
        bool zero = pf_rng_below(&rng, 2) == 0;
        for (int i = 0; i < n; i++) {
            signature[same * n + i] = 0;
            for (int t = 0; t < same; t++) {
                signature[same * n + i] += (t + 1) * signature[t * n + i];
            }
            signature[(targets - 1) * n + i] *= zero ? 0 : 1;
        }
        run_both(targets, n);
        check_equal(targets, n, 1e-9);
        // who is in the span of the others says nothing, who is not keeps its score
        for (int t = 0; t < targets; t++) {
            bool gone = zero && t == targets - 1;
            bool dependent = t <= same && !(zero && same == targets - 1);
            CHECK(fast[t].usable == (!gone && !dependent));
        }
    }

    PF_CASE("all signatures zero, all the same, more than the window holds");
    int n = 5;
    memset(signature, 0, sizeof signature);
    draw(&rng, n, 1, residual);
    for (int targets = 1; targets <= 4; targets++) {
        run_both(targets, n);
        for (int t = 0; t < targets; t++) {
            CHECK(!fast[t].usable && !plain[t].usable && fast[t].remaining == 0);
            CHECK(isnan(fast[t].score) && isnan(fast[t].coefficient));
        }
    }
    for (int t = 0; t < 4; t++) {
        memcpy(signature + t * n, residual, sizeof(double) * (size_t)n);
    }
    run_both(4, n);
    for (int t = 0; t < 4; t++) {
        CHECK(!fast[t].usable && !plain[t].usable);
    }
    draw(&rng, 9 * n, 1, signature);
    run_both(9, n);
    for (int t = 0; t < 9; t++) {
        CHECK(!fast[t].usable && !plain[t].usable);
    }
}

static void test_one_target(void)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(23));
    PF_CASE("one target is the paper's score and coefficient, to the bit");
    for (int n = 1; n <= WINDOW; n += 7) {
        draw(&rng, n, 3, signature);
        draw(&rng, n, 1, residual);
        pf_match match;
        pf__match_targets(1, n, signature, residual, NULL, &match);
        double product = pf__dot(n, residual, signature), energy = pf__dot(n, signature, signature);
        CHECK(match.score == product / sqrt(energy));
        CHECK(match.coefficient == product / energy);
        CHECK(match.remaining == 1 && match.usable);
        // against sums in the plain order, wider
        long double p = 0, e = 0, r = 0;
        for (int i = 0; i < n; i++) {
            p += (long double)residual[i] * signature[i];
            e += (long double)signature[i] * signature[i];
            r += (long double)residual[i] * residual[i];
        }
        double size = (double)sqrtl(r);
        CHECK_NEAR(match.score, (double)(p / sqrtl(e)), 1e-14 * size);
        CHECK_NEAR(match.coefficient, (double)(p / e), 1e-14 * size / (double)sqrtl(e));
        CHECK_NEAR(pf__residual_norm(n, residual), size, 1e-14 * size);
    }

    PF_CASE("a signature too large for its energy is never taken for a score of 0");
    // finite predictions, but <h, h> overflows: whatever is reported, it must not look nominal
    for (int targets = 1; targets <= 2; targets++) {
        memset(signature, 0, sizeof signature);
        signature[0] = 1e160;
        signature[4 + 1] = 1;
        residual[0] = 5;
        residual[1] = residual[2] = residual[3] = 0;
        pf__match_targets(targets, 4, signature, residual, scratch, fast);
        CHECK(!fast[0].usable || !isfinite(fast[0].score) || fabs(fast[0].score - 5) < 1e-9);
    }
}

static void test_dot_rows(void)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(26));
    PF_CASE("dots of many rows have the bits of one at a time");
    double out[TARGETS + 1];
    for (int rows = 0; rows <= TARGETS; rows++) {
        for (int n = 0; n <= 41; n++) {
            draw(&rng, rows * n, 1, signature);
            draw(&rng, n, 1, residual);
            out[rows] = 7;
            pf__dot_rows(n, rows, residual, signature, out);
            for (int k = 0; k < rows; k++) {
                CHECK(out[k] == pf__dot(n, residual, signature + k * n));
            }
            CHECK(out[rows] == 7);
        }
    }
}

static void test_closed_forms(void)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(24));
    PF_CASE("orthogonal signatures: each target as if alone");
    int n = 24;
    for (int targets = 2; targets <= 8; targets++) {
        memset(signature, 0, sizeof signature);
        for (int t = 0; t < targets; t++) {
            draw(&rng, 3, 2, signature + t * n + 3 * t); // disjoint supports
        }
        draw(&rng, n, 1, residual);
        run_both(targets, n);
        for (int t = 0; t < targets; t++) {
            pf_match alone;
            pf__match_targets(1, n, signature + t * n, residual, NULL, &alone);
            CHECK_NEAR(fast[t].score, alone.score, 1e-13);
            CHECK_NEAR(fast[t].coefficient, alone.coefficient, 1e-13);
            CHECK_NEAR(fast[t].remaining, 1, 1e-14);
            CHECK_NEAR(plain[t].score, alone.score, 1e-13);
        }
    }
}

static void test_recovered_coefficients(void)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(25));
    PF_CASE("a residual made of the signatures gives its own coefficients");
    for (int round = 0; round < 200; round++) {
        int targets = 1 + (int)pf_rng_below(&rng, TARGETS);
        double beta[TARGETS];
        int n = 3 * TARGETS;
        draw(&rng, targets * n, 1, signature);
        draw(&rng, targets, 1, beta);
        memset(residual, 0, sizeof residual);
        for (int t = 0; t < targets; t++) {
            for (int i = 0; i < n; i++) {
                residual[i] += beta[t] * signature[t * n + i];
            }
        }
        run_both(targets, n);
        for (int t = 0; t < targets; t++) {
            const double *h = signature + t * n;
            CHECK_NEAR(fast[t].coefficient, beta[t], 1e-11);
            CHECK_NEAR(plain[t].coefficient, beta[t], 1e-11);
            double left = fast[t].remaining * sqrt(pf__dot(n, h, h)); // norm of h'
            CHECK_NEAR(fast[t].score, beta[t] * left, 1e-11 * fmax(1, left));
        }
    }

    PF_CASE("two targets at an angle: remaining is its sine");
    for (double angle = .05; angle < 3.1; angle += .1) {
        const double two[4] = {2, 0, 3 * cos(angle), 3 * sin(angle)}, r[2] = {.3, -.7};
        memcpy(signature, two, sizeof two);
        memcpy(residual, r, sizeof r);
        run_both(2, 2);
        CHECK_NEAR(fast[0].remaining, sin(angle), 1e-13);
        CHECK_NEAR(fast[1].remaining, sin(angle), 1e-13);
        // h_1' is what is left of the second coordinate
        CHECK_NEAR(fast[1].score, -.7, 1e-12);
        CHECK_NEAR(fast[1].coefficient, -.7 / (3 * sin(angle)), 1e-11);
    }
}

static void test_small(void)
{
    PF_CASE("scaled difference, one scale or one per row, in place");
    const double x[6] = {1, 2, 3, 4, 5, 6}, base[6] = {0, 1, 1, 1, 1, 2};
    const double scale[6] = {1, 2, 4, 8, 16, 32};
    const double one[6] = {1, .5, 2, 1.5, 4, 2}, each[6] = {1, .5, .5, .375, .25, .125};
    double out[6];
    pf__scaled_difference(3, 2, x, base, scale, 1, out);
    CHECK(memcmp(out, one, sizeof out) == 0);
    pf__scaled_difference(3, 2, x, base, scale, 3, out);
    CHECK(memcmp(out, each, sizeof out) == 0);
    memcpy(out, x, sizeof out);
    pf__scaled_difference(3, 2, out, base, scale, 3, out);
    CHECK(memcmp(out, each, sizeof out) == 0);

    PF_CASE("the coordinate is 0 and 1 at the centres");
    CHECK(pf__coordinate(.02, .02, .97) == 0);
    CHECK(pf__coordinate(.97, .02, .97) == 1);
    CHECK_NEAR(pf__coordinate(.495, .02, .97), .5, 1e-15);
    CHECK_NEAR(pf__coordinate(1.92, .02, .97), 2, 1e-15);
    CHECK(pf__coordinate(-3, 1, -3) == 1); // centres may stand the other way round

    PF_CASE("dot: order is fixed, any length");
    double a[11], b[11];
    for (int n = 0; n <= 11; n++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            a[i] = i + 1;
            b[i] = 2 * i - 7;
            sum += a[i] * b[i];
        }
        CHECK(pf__dot(n, a, b) == sum); // small integers: exact in any order
    }
    const double big[5] = {1e16, 1, -1e16, 1, 1}, ones[5] = {1, 1, 1, 1, 1};
    CHECK(pf__dot(5, big, ones) == ((1e16 + 1) + 1) + (-1e16 + 1));
}

void test_score(void)
{
    test_random();
    test_deficient();
    test_one_target();
    test_dot_rows();
    test_closed_forms();
    test_recovered_coefficients();
    test_small();
}
