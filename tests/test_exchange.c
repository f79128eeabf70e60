// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design/design_impl.h"
#include "design/search.h"
#include "core/score.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The exchange on made-up sensitivities, against plain linear algebra and full enumeration, and the
// waveforms of the other families.

enum { MECH = 4, CHAN = 3, STEPS = 4, WINDOW = STEPS * CHAN, STARTS = 2 };

// Random signatures in white noise.
typedef struct problem {
    pf_sensitivity s;
    pf_level levels[MECH];
    pf_design_config config;
    double most[CHAN];
    double *signature; // starts x columns x window
} problem;

static void problem_make(problem *p, int n_mech, int steps, uint64_t seed)
{
    memset(p, 0, sizeof *p);
    int columns = (n_mech - 1) * steps * 2;
    size_t n = (size_t)columns, window = WINDOW;
    for (int c = 0; c < CHAN; c++) {
        p->most[c] = INFINITY;
    }
    p->config = (pf_design_config){
        .steps = steps, .rows = steps, .n_mech = n_mech, .n_chan = CHAN, .most = p->most};
    for (int j = 1; j < n_mech; j++) {
        p->levels[j] = (pf_level){.top = 1, .up = 1, .down = -1, .rate = INFINITY};
    }
    p->s = (pf_sensitivity){.n_starts = STARTS,
                            .steps = steps,
                            .n_mech = n_mech,
                            .n_columns = columns,
                            .levels = p->levels,
                            .config = &p->config};
    p->signature = calloc(STARTS * n * window, sizeof(double));
    p->s.gram = calloc(STARTS * n * n, sizeof(double));
    p->s.noise = calloc(STARTS * n * n, sizeof(double));
    p->s.move = calloc(1, sizeof(double));
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(seed));
    for (size_t i = 0; i < STARTS * n * window; i++) {
        p->signature[i] = pf_rng_normal(&rng);
    }
    for (size_t s = 0; s < STARTS; s++) {
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < n; k++) {
                const double *a = p->signature + (s * n + i) * window;
                const double *b = p->signature + (s * n + k) * window;
                size_t at = (s * n + i) * n + k;
                p->s.gram[at] = pf__dot(WINDOW, a, b);
                p->s.noise[at] = .01 * p->s.gram[at]; // white, sd .1
            }
        }
    }
}

static void problem_free(problem *p)
{
    free(p->signature);
    free(p->s.gram);
    free(p->s.noise);
    free(p->s.move);
}

// The cost of levels from the signatures themselves, by pf__match_targets: in white noise of sd .1
// the variance of a coefficient is .01/|h'|^2.
static double plain_cost(const problem *p, int n, const int *group, const int *levels)
{
    double sum = 0, h[MECH * WINDOW], scratch[256];
    pf_match match[MECH];
    for (int start = 0; start < STARTS; start++) {
        memset(h, 0, sizeof h);
        for (int i = 0; i < n; i++) {
            for (int r = 0; r < p->s.steps; r++) {
                int l = levels[i * p->s.steps + r];
                int column = ((group[i] - 1) * p->s.steps + r) * 2 + (l < 0);
                const double *from =
                    p->signature +
                    ((size_t)start * (size_t)p->s.n_columns + (size_t)column) * (size_t)WINDOW;
                for (int d = 0; d < WINDOW && l != 0; d++) {
                    h[i * WINDOW + d] += from[d];
                }
            }
        }
        pf__match_targets(n, WINDOW, h, h, scratch, match);
        for (int i = 0; i < n; i++) {
            double left =
                match[i].remaining * sqrt(pf__dot(WINDOW, h + i * WINDOW, h + i * WINDOW));
            double variance = .01 / (left * left);
            sum += variance * variance * variance * variance;
        }
    }
    return sum;
}

static void test_monotone(void)
{
    PF_CASE("the exchange never raises the cost, and its matrices stay true");
    const int group[] = {1, 2, 3};
    for (uint64_t seed = 0; seed < 20; seed++) {
        problem p;
        problem_make(&p, MECH, STEPS, seed);
        pf_exchange *x = pf__exchange_create(&p.s, 3, 1);
        pf_rng rng;
        pf_rng_init(&rng, pf_key_root(100 + seed));
        CHECK(pf__exchange_draw(x, 3, group, &rng));
        double cost = pf__exchange_cost(x);
        for (int sweep = 0; sweep < 8; sweep++) {
            double next = pf__exchange_improve(x, sweep > 3, 1);
            CHECK(next <= cost);
            cost = next;
            double plain = plain_cost(&p, 3, group, pf__exchange_levels(x));
            CHECK_NEAR(cost / plain, 1, 1e-9);
        }
        // no single level can be changed for the better any more
        int levels[3 * STEPS];
        pf__exchange_improve(x, true, 100);
        memcpy(levels, pf__exchange_levels(x), sizeof levels);
        cost = pf__exchange_cost(x);
        for (int i = 0; i < 3 * STEPS; i++) {
            int kept = levels[i];
            for (levels[i] = -1; levels[i] <= 1; levels[i]++) {
                CHECK(plain_cost(&p, 3, group, levels) >= cost * (1 - 1e-7));
            }
            levels[i] = kept;
        }
        pf__exchange_destroy(x);
        problem_free(&p);
    }
}

static void test_optimum(void)
{
    PF_CASE("eight starts find the best of all 729 designs of two mechanisms in three steps");
    const int group[] = {1, 2};
    int found = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        problem p;
        problem_make(&p, 3, 3, 50 + seed);
        double best = INFINITY, reached = INFINITY;
        for (int code = 0; code < 729; code++) {
            int levels[6], left = code;
            for (int i = 0; i < 6; i++, left /= 3) {
                levels[i] = left % 3 - 1;
            }
            double cost = plain_cost(&p, 2, group, levels);
            best = cost < best ? cost : best;
        }
        pf_exchange *x = pf__exchange_create(&p.s, 2, 1);
        for (uint64_t start = 0; start < 8; start++) {
            pf_rng rng;
            pf_rng_init(&rng, pf_key_root(1000 + 100 * seed + start));
            CHECK(pf__exchange_draw(x, 2, group, &rng));
            reached = fmin(reached, pf__exchange_improve(x, true, 100));
        }
        found += reached <= best * (1 + 1e-9);
        CHECK(reached >= best * (1 - 1e-9));
        pf__exchange_destroy(x);
        problem_free(&p);
    }
    printf("%d of 20 optima found\n", found);
    CHECK(found >= 19);
}

// One mechanism pushes a mass forth, the other one back, and it may not go farther than a push
// takes it in one step: neither can push alone.
static void problem_bound(problem *p)
{
    pf_sensitivity *s = &p->s;
    s->n_moves = s->steps + 2;
    p->levels[1].down = p->levels[2].down = 0;
    free(s->move);
    s->move = calloc((size_t)(STARTS * s->n_columns * s->n_moves), sizeof(double));
    for (int i = 0; i < STARTS * s->n_columns; i++) {
        int column = i % s->n_columns, r = column / 2 % s->steps, side = column % 2 ? -1 : 1;
        int mechanism = column / 2 / s->steps;
        for (int row = r + 1; row < s->n_moves; row++) {
            s->move[i * s->n_moves + row] = side * (mechanism ? -1 : 1) * (row - r);
        }
    }
}

static bool plain_within(const problem *p, const int *levels)
{
    const pf_sensitivity *s = &p->s;
    for (int row = 0; row < s->n_moves; row++) {
        double at = 0;
        for (int i = 0; i < 2 * s->steps; i++) {
            at += levels[i] * s->move[2 * i * s->n_moves + row];
        }
        if (fabs(at) > 1) {
            return false;
        }
    }
    return true;
}

static bool plain_moves(const problem *p, const int *levels)
{
    bool moves[2] = {false, false};
    for (int i = 0; i < 2 * p->s.steps; i++) {
        moves[i / p->s.steps] |= levels[i] != 0;
    }
    return moves[0] && moves[1];
}

static void test_bounded(void)
{
    PF_CASE("within a bound that neither of two can move in alone, the best of both is found");
    const int group[] = {1, 2};
    int found = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        problem p;
        problem_make(&p, 3, STEPS, 50 + seed);
        problem_bound(&p);
        double best = INFINITY, reached = INFINITY;
        for (int code = 0; code < 256; code++) {
            int levels[8];
            for (int i = 0; i < 8; i++) {
                levels[i] = code >> i & 1;
            }
            if (plain_within(&p, levels) && plain_moves(&p, levels)) {
                best = fmin(best, plain_cost(&p, 2, group, levels));
            }
        }
        pf_exchange *x = pf__exchange_create(&p.s, 2, 1);
        for (uint64_t start = 0; start < 8; start++) {
            pf_rng rng;
            pf_rng_init(&rng, pf_key_root(1000 + 100 * seed + start));
            CHECK(!pf__exchange_draw(x, 1, group, &rng));
            pf__exchange_draw_freely(x, 2, group, &rng);
            double cost = pf__exchange_improve(x, true, 100);
            CHECK(pf__exchange_within(x) == plain_within(&p, pf__exchange_levels(x)));
            reached = pf__exchange_within(x) ? fmin(reached, cost) : reached;
        }
        found += reached <= best * (1 + 1e-9);
        CHECK(isfinite(reached) && reached >= best * (1 - 1e-9));
        pf__exchange_destroy(x);
        problem_free(&p);
    }
    printf("%d of 20 optima found\n", found);
    CHECK(found >= 19);
}

static void test_one_target(void)
{
    PF_CASE("one target: the variance is <h, S h>/<h, h>^2, nothing is projected out");
    double gram = 7.25, noise = .3, work[3], variance, remaining;
    pf__exchange_variance(1, &gram, &noise, work, &variance, &remaining);
    CHECK_NEAR(variance, noise / (gram * gram), 1e-15);
    CHECK(remaining == 1);
}

static void test_collinear(void)
{
    PF_CASE("targets with one and the same signature count as not separated");
    const double gram[] = {4, 4, 0, 4, 4, 0, 0, 0, 1}, noise[] = {1, 1, 0, 1, 1, 0, 0, 0, 1};
    double work[27], variance[3], remaining[3];
    pf__exchange_variance(3, gram, noise, work, variance, remaining);
    for (int i = 0; i < 3; i++) {
        CHECK(pf__exchange_apart(variance[i]) == 0 && remaining[i] == 0);
    }
    CHECK(pf__exchange_apart(NAN) == 0 && pf__exchange_apart(.25) == 2);
}

static void test_waves(void)
{
    PF_CASE("Hadamard signs are orthogonal");
    double wave[8 * 16];
    pf__family_hadamard(8, 8, wave);
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k <= i; k++) {
            CHECK(pf__dot(8, wave + 8 * i, wave + 8 * k) == (i == k ? 8 : 0));
        }
    }
    PF_CASE("multisines are orthogonal, without a mean, with a peak of 1");
    static const int sizes[][2] = {{4, 8}, {3, 8}, {1, 8}, {8, 16}, {2, 12}, {3, 7}, {1, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int n = sizes[i][0], steps = sizes[i][1];
        pf__family_multisine(n, steps, wave);
        for (int a = 0; a < n; a++) {
            double sum = 0, peak = 0;
            for (int r = 0; r < steps; r++) {
                sum += wave[a * steps + r];
                peak = fmax(peak, fabs(wave[a * steps + r]));
            }
            CHECK_NEAR(sum, 0, 1e-12);
            CHECK_NEAR(peak, 1, 1e-15);
            for (int b = 0; b < a; b++) {
                CHECK_NEAR(pf__dot(steps, wave + a * steps, wave + b * steps), 0, 1e-12);
            }
        }
    }
    PF_CASE("phases keep the peak factor at or below Schroeder's");
    enum { LONG = 16, HARMONICS = 7 };
    double plain[LONG], peak = 0;
    for (int r = 0; r < LONG; r++) {
        plain[r] = 0;
        for (int k = 1; k <= HARMONICS; k++) {
            double phase = -3.14159265358979323846 * (k - 1) * (k - 2) / HARMONICS;
            plain[r] += cos(2 * 3.14159265358979323846 * k * r / LONG + phase);
        }
        peak = fmax(peak, fabs(plain[r]));
    }
    pf__family_multisine(1, LONG, wave);
    double ours = 1 / sqrt(pf__dot(LONG, wave, wave) / LONG);
    double schroeder = peak / sqrt(pf__dot(LONG, plain, plain) / LONG);
    printf("peak factor %.3f, Schroeder's %.3f\n", ours, schroeder);
    CHECK(ours <= schroeder * (1 + 1e-9));
}

static void test_levels(void)
{
    PF_CASE("random waveforms obey rate and zero integral");
    double most[1] = {INFINITY};
    pf_design_config config = {.steps = 8, .rows = 8, .n_mech = 2, .n_chan = 1, .most = most};
    static const pf_design_bound bounds[] = {
        {.amplitude = 2, .lo = -5, .hi = 5, .rate = INFINITY},
        {.amplitude = 2, .lo = -5, .hi = 5, .rate = .7},
        {.amplitude = 2, .lo = -1, .hi = 5, .rate = INFINITY, .zero_integral = true},
        {.amplitude = -2, .lo = -5, .hi = 5, .rate = .9, .zero_integral = true},
        {.amplitude = 2, .lo = -5, .hi = 5, .rate = .1, .one_sided = true},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        pf_level level = pf__design_level(&config, &bounds[i]);
        pf_rng rng;
        pf_rng_init(&rng, pf_key_root(i));
        for (int k = 0; k < 200; k++) {
            int l[PF_DESIGN_STEPS];
            double sum = 0, before = 0;
            pf__design_random_waveform(&config, &level, &rng, l);
            CHECK(pf__design_waveform_allowed(&level, 8, l));
            for (int r = 0; r < 8; r++) {
                double u = pf__design_command(&level, l[r]);
                CHECK(u >= bounds[i].lo && u <= bounds[i].hi && fabs(u) <= 2);
                CHECK(fabs(u - before) <= bounds[i].rate * (1 + 1e-9));
                CHECK(!bounds[i].one_sided || u >= 0);
                sum += u;
                before = u;
            }
            CHECK(!bounds[i].zero_integral || fabs(sum) < 1e-9);
        }
    }
}

void test_exchange(void)
{
    test_monotone();
    test_optimum();
    test_bounded();
    test_one_target();
    test_collinear();
    test_waves();
    test_levels();
}
