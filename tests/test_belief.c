// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/constants.h"
#include "core/belief.h"
#include "core/certificate.h"
#include "core/joint.h"
#include "core/method.h"
#include "kit_fixture.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { M = 16, K = 9, GRID = 17 };

static pf_rng rng;

static double total(int n, const double *p)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += p[i];
    }
    return sum;
}

// --- location

// A belief whose entries are multiples of 2^-52 and sum to 1 exactly; `sharp` puts nearly all of
// it on one hypothesis, the rest down to 1e-15.
static void exact_belief(int m, bool sharp, double *b)
{
    int top = (int)pf_rng_below(&rng, (uint32_t)m + 1);
    double rest = 1;
    for (int i = 0; i <= m; i++) {
        double share = sharp ? pow(10, -1 - 13 * pf_rng_uniform(&rng)) : pf_rng_uniform(&rng);
        b[i] = i == top ? 0 : floor(share / (m + 1) * 0x1p52) * 0x1p-52;
        rest -= b[i];
    }
    b[top] = rest;
}

static pf_channel_row random_row(int n_bins, double *nominal, double *changed)
{
    double floor = pf_rng_below(&rng, 2) ? .01 / n_bins : 1e-9;
    pf_fixture_simplex(&rng, n_bins, floor, nominal);
    pf_fixture_simplex(&rng, n_bins, floor, changed);
    return (pf_channel_row){n_bins, NULL, nominal, changed};
}

// rho(b) - E[rho(b after)] by enumeration, wide, with 1 - b_i summed over the others.
static double reduction_by_hand(int m, const double *b, const double *w, int mechanism,
                                const pf_channel_row *row)
{
    long double before = 0, after = 0;
    for (int c = -1; c < row->n_bins; c++) {
        long double post[M + 1], sum = 0;
        for (int i = 0; i <= m; i++) {
            long double p = c < 0 ? 1 : i == mechanism ? row->changed[c] : row->nominal[c];
            post[i] = p * b[i];
            sum += post[i];
        }
        for (int i = 1; i <= m; i++) {
            long double others = 0;
            for (int o = 0; o <= m; o++) {
                others += o == i ? 0 : post[o];
            }
            long double risk = w[i - 1] * post[i] * others / sum;
            before += c < 0 ? risk : 0;
            after += c < 0 ? 0 : risk;
        }
    }
    return (double)(before - after);
}

static void test_risk(void)
{
    PF_CASE("risk reduction: fast, plain and enumeration agree, never negative");
    double b[M + 1], w[M], own[M], others[M], nominal[K], changed[K], scratch[M + 1];
    const double *rows[M + 1];
    pf_risk_terms terms = {own, others};
    for (int round = 0; round < 4000; round++) {
        int m = 1 + (int)pf_rng_below(&rng, M), n_bins = 2 + (int)pf_rng_below(&rng, K - 1);
        exact_belief(m, round % 2 == 0, b);
        double most = 0;
        for (int i = 0; i < m; i++) {
            w[i] = pow(10, 2 * pf_rng_uniform(&rng) - 1);
            most = fmax(most, w[i]);
        }
        pf_channel_row row = random_row(n_bins, nominal, changed);
        pf__risk_prepare(m, b, w, &terms);
        double rho = pf__belief_risk(m, b, w);
        int j = 1 + (int)pf_rng_below(&rng, (uint32_t)m);
        for (int i = 0; i <= m; i++) {
            rows[i] = i == j ? changed : nominal;
        }
        double fast = pf__risk_reduction(m, b, &terms, j, &row);
        CHECK_NEAR(fast, reduction_by_hand(m, b, w, j, &row), 1e-12 * rho);
        // the plain form takes 1 - b of rounded posteriors
        CHECK_NEAR(pf__risk_reduction_plain(m, b, w, n_bins, rows, scratch), fast,
                   1e-12 * rho + 64 * DBL_EPSILON * most);
        CHECK(fast >= -1e-12 * rho);
        pf_look look = {
            .m = m, .belief = b, .weight = w, .terms = &terms, .mechanism = j, .row = &row};
        CHECK(pf__value_bayes_risk(&look) == fast);
    }

    PF_CASE("equal rows: no value, exactly 0 after the tie rounding");
    for (int round = 0; round < 2000; round++) {
        int m = 1 + (int)pf_rng_below(&rng, M);
        exact_belief(m, round % 2 == 0, b);
        pf_fixture_simplex(&rng, m, 0, w);
        random_row(K, nominal, changed);
        pf_channel_row row = {K, NULL, nominal, nominal};
        pf__risk_prepare(m, b, w, &terms);
        int j = 1 + (int)pf_rng_below(&rng, (uint32_t)m);
        CHECK(pf__tie_round(pf__risk_reduction(m, b, &terms, j, &row) / .02) == 0);
    }
    CHECK(pf__tie_round(.1 + .2) == pf__tie_round(.3) && pf__tie_round(1e300) == 1e300);
    CHECK(pf__tie_round(-4.4e-13) == 0 && pf__tie_round(1.0000000000004) == 1);
}

static void test_updates(void)
{
    PF_CASE("hazard moves mass and conserves it");
    double b[M + 1], c[M + 1], ratios[M + 1];
    for (int round = 0; round < 500; round++) {
        int m = 1 + (int)pf_rng_below(&rng, M);
        double hazard = round % 3 == 0 ? 0 : pf_rng_uniform(&rng);
        pf_fixture_simplex(&rng, m + 1, 0, b);
        memcpy(c, b, sizeof b);
        pf__belief_hazard(m, c, hazard);
        CHECK_NEAR(total(m + 1, c), total(m + 1, b), 4 * DBL_EPSILON);
        CHECK_NEAR(c[0], b[0] * (1 - hazard), 2 * DBL_EPSILON);
        for (int i = 1; i <= m; i++) {
            CHECK_NEAR(c[i] - b[i], hazard * b[0] / m, 2 * DBL_EPSILON);
        }
        CHECK_NEAR(pf__belief_change(m, c), 1 - c[0], 8 * DBL_EPSILON);
    }

    PF_CASE("updates: Bayes, in any order, all targets at once");
    for (int round = 0; round < 1000; round++) {
        int m = 2 + (int)pf_rng_below(&rng, M - 1);
        double forward[M + 1], backward[M + 1], once[M + 1], by_hand[M + 1], sum = 0;
        pf_fixture_simplex(&rng, m + 1, 1e-6, b);
        ratios[0] = 1;
        for (int i = 1; i <= m; i++) {
            ratios[i] = pow(10, 4 * pf_rng_uniform(&rng) - 2);
        }
        memcpy(forward, b, sizeof b);
        memcpy(backward, b, sizeof b);
        memcpy(once, b, sizeof b);
        for (int i = 1; i <= m; i++) {
            pf__belief_multiply(m, forward, i, ratios[i]);
            pf__belief_multiply(m, backward, m + 1 - i, ratios[m + 1 - i]);
        }
        pf__belief_multiply_all(m, once, ratios);
        for (int i = 0; i <= m; i++) {
            by_hand[i] = b[i] * ratios[i];
            sum += by_hand[i];
        }
        for (int i = 0; i <= m; i++) {
            CHECK_NEAR(forward[i], by_hand[i] / sum, 1e-13);
            CHECK_NEAR(backward[i], forward[i], 1e-13);
            CHECK_NEAR(once[i], forward[i], 1e-13);
        }
        CHECK_NEAR(total(m + 1, once), 1, 1e-14);
    }
}

static void test_categories(void)
{
    PF_CASE("categories: edges strictly below the score, ties go down");
    const double edges[4] = {-1, 0, 0, 2.5}, p0[5] = {.4, .3, .1, .1, .1};
    const double p1[5] = {.1, .3, .1, .2, .3};
    pf_channel_row row = {5, edges, p0, p1};
    const struct {
        double score;
        int category;
    } known[] = {{-INFINITY, 0}, {-1, 0},  {-.999, 1}, {-0.0, 1},     {0, 1},
                 {1e-300, 3},    {2.5, 3}, {2.6, 4},   {INFINITY, 4}, {DBL_MAX, 4}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        CHECK(pf__channel_category(&row, known[i].score) == known[i].category);
    }
    // the gate: strictly more likely under the change
    const bool open[5] = {false, false, false, true, true};
    for (int i = 0; i < 5; i++) {
        CHECK(pf__gate_open(&row, i) == open[i]);
        CHECK(pf__channel_ratio(&row, i) == p1[i] / p0[i]);
    }
}

// --- the other acquisitions

static double mutual_information(int m, const double *b, int j, const pf_channel_row *row)
{
    double before = 0, after = 0;
    for (int i = 0; i <= m; i++) {
        before -= b[i] > 0 ? b[i] * log(b[i]) : 0;
    }
    for (int c = 0; c < row->n_bins; c++) {
        double post[M + 1], sum = 0;
        for (int i = 0; i <= m; i++) {
            post[i] = b[i] * (i == j ? row->changed[c] : row->nominal[c]);
            sum += post[i];
        }
        for (int i = 0; i <= m; i++) {
            after -= post[i] > 0 ? post[i] * log(post[i] / sum) : 0;
        }
    }
    return before - after;
}

static void test_acquisitions(void)
{
    PF_CASE("OPAX, ASID, SEPT, Task-OED and the bandit against plain formulas");
    double b[M + 1], w[M], nominal[K], changed[K];
    for (int round = 0; round < 2000; round++) {
        int m = 1 + (int)pf_rng_below(&rng, M), j = 1 + (int)pf_rng_below(&rng, (uint32_t)m);
        pf_fixture_simplex(&rng, m + 1, 1e-9, b);
        pf_fixture_simplex(&rng, m, 0, w);
        pf_channel_row row = random_row(2 + (int)pf_rng_below(&rng, K - 1), nominal, changed);
        double kl01 = 0, kl10 = 0, fisher = 0, cal = .1 + .8 * pf_rng_uniform(&rng);
        for (int c = 0; c < row.n_bins; c++) {
            kl01 += nominal[c] * log(nominal[c] / changed[c]);
            kl10 += changed[c] * log(changed[c] / nominal[c]);
            double slope = (changed[c] - nominal[c]) / (1 - cal);
            fisher += slope * slope / (.5 * (changed[c] + nominal[c]));
        }
        int count = (int)pf_rng_below(&rng, 4), t = (int)pf_rng_below(&rng, 9);
        double bandit = 5 * pf_rng_uniform(&rng);
        pf_look look = {m, b, w, NULL, cal, j, &row, bandit, count, t};
        CHECK_NEAR(pf__value_opax(&look), mutual_information(m, b, j, &row), 1e-12);
        CHECK_NEAR(pf__value_sept(&look), kl01 + kl10, 1e-12 * (1 + kl01 + kl10));
        double v = b[j] * (1 - b[j]);
        CHECK_NEAR(pf__value_task_oed(&look), (kl01 + kl10) * v * w[j - 1], 1e-12);
        CHECK_NEAR(pf__value_asid_fim(&look), v - 1 / (1 / v + fisher), 1e-12);
        CHECK(pf__value_opax(&look) > -1e-15 && pf__value_asid_fim(&look) > -1e-15);
        CHECK_NEAR(pf__value_bandit(&look),
                   count == 0 ? PF_BANDIT_UNVISITED : bandit + sqrt(2 * log(t + 2) / count), 1e-12);
    }

    PF_CASE("a certain belief has no value for OPAX and ASID");
    const double sure[4] = {0, 1, 0, 0};
    pf_channel_row row = random_row(5, nominal, changed);
    for (int j = 1; j <= 3; j++) {
        pf_look look = {3, sure, w, NULL, .35, j, &row, 0, 0, 0};
        CHECK_NEAR(pf__value_opax(&look), 0, 1e-15);
        CHECK(pf__value_asid_fim(&look) == 0 && pf__value_task_oed(&look) == 0);
    }
}

// --- severity

static void test_severity(void)
{
    PF_CASE("severity: two gains in closed form");
    double two[2] = {.3, .7}, expected[2] = {1, .2};
    double l0 = .3 * exp(-pow((.8 - 1) / .1, 2) / 2), l1 = .7 * exp(-pow((.8 - .2) / .1, 2) / 2);
    pf__severity_update(2, two, expected, .8, .1);
    CHECK_NEAR(two[0], l0 / (l0 + l1), 1e-14);
    CHECK_NEAR(two[1], l1 / (l0 + l1), 1e-14);

    PF_CASE("severity: a distribution after any coordinate, however extreme");
    double severity[GRID], line[GRID];
    for (int k = 0; k < GRID; k++) {
        line[k] = pf__severity_line(.15 + .05 * k, .35);
    }
    CHECK_NEAR(line[4], 1, 1e-15);
    static const double extreme[] = {0,     1,     -40,    1e3,   -1e6,   1e20,   -1e100,
                                     1e150, 1e153, -1e160, 1e200, -1e300, DBL_MAX};
    for (size_t i = 0; i < sizeof extreme / sizeof extreme[0]; i++) {
        pf__severity_reset(GRID, severity);
        CHECK_NEAR(total(GRID, severity), 1, 1e-15);
        pf__severity_update(GRID, severity, line, extreme[i], .06);
        if (!CHECK_NEAR(total(GRID, severity), 1, 1e-12)) {
            printf("  coordinate %g\n", extreme[i]);
            continue;
        }
        // beyond the ends of the grid the nearest gain takes all
        CHECK(severity[0] > .99 || !(extreme[i] > 2 && extreme[i] < 1e12));
        CHECK(severity[GRID - 1] > .99 || !(extreme[i] < -2 && extreme[i] > -1e12));
    }
    // a gain without mass may explain z best and still gets none
    for (size_t i = 0; i < sizeof extreme / sizeof extreme[0]; i++) {
        memset(severity, 0, sizeof severity);
        severity[8] = .25;
        severity[9] = .75;
        pf__severity_update(GRID, severity, line, extreme[i], .06);
        if (!CHECK_NEAR(severity[8] + severity[9], 1, 1e-12)) {
            printf("  coordinate %g\n", extreme[i]);
        }
    }
    for (int round = 0; round < 500; round++) {
        pf__severity_reset(GRID, severity);
        for (int step = 0; step < 20; step++) {
            double z = 5 * pf_rng_normal(&rng), sigma = pow(10, -3 * pf_rng_uniform(&rng));
            pf__severity_update(GRID, severity, line, z, sigma);
            CHECK_NEAR(total(GRID, severity), 1, 1e-12);
        }
    }
}

// --- joint belief

static double mass[M * GRID], grid[GRID];

static pf_joint random_joint(int m, int n_grid)
{
    double all[M * GRID + 1];
    pf_joint joint = {.m = m,
                      .n_grid = n_grid,
                      .grid = grid,
                      .nominal = 0,
                      .mass = mass,
                      .faults = PF_FAULTS_ONE};
    pf_fixture_simplex(&rng, m * n_grid + 1, 0, all);
    double share = pf_rng_uniform(&rng); // of H = 0
    joint.nominal = share + (1 - share) * all[0];
    for (int i = 0; i < m * n_grid; i++) {
        mass[i] = (1 - share) * all[i + 1];
    }
    for (int k = 0; k < n_grid; k++) {
        grid[k] = .15 + .8 * k / (n_grid - 1);
    }
    return joint;
}

static void check_joint(const pf_joint *joint)
{
    CHECK_NEAR(joint->nominal + total(joint->m * joint->n_grid, joint->mass), 1, 1e-12);
}

static void test_joint_update(void)
{
    PF_CASE("joint update: Bayes by hand, several targets");
    double d[M * GRID], before[M * GRID];
    for (int round = 0; round < 500; round++) {
        int m = 1 + (int)pf_rng_below(&rng, 5), n_grid = 2 + (int)pf_rng_below(&rng, 8);
        int n_targets = 1 + (int)pf_rng_below(&rng, (uint32_t)m), targets[M];
        pf_joint joint = random_joint(m, n_grid);
        for (int t = 0; t < n_targets; t++) {
            targets[t] = m - t;
        }
        for (int i = 0; i < n_targets * n_grid; i++) {
            d[i] = 3 * pf_rng_uniform(&rng);
        }
        double d0 = pf_rng_uniform(&rng), mean = d0, square = d0 * d0;
        for (int i = 0; i < n_targets * n_grid; i++) {
            mean += d[i];
            square += d[i] * d[i];
        }
        int n = n_targets * n_grid + 1;
        double sd = sqrt(square / n - mean * mean / n / n);
        double t = pf__temperature(d0, n - 1, d, .05);
        CHECK_NEAR(t, .05 * sd, 1e-12);
        memcpy(before, mass, sizeof mass);
        double weight0 = joint.nominal * exp(-d0 / (2 * t)), sum = weight0;
        for (int i = 0; i < m * n_grid; i++) {
            int target = m - (i / n_grid + 1); // 0 for mechanism m, and so on
            double seen = target < n_targets ? d[target * n_grid + i % n_grid] : d0;
            before[i] *= exp(-seen / (2 * t));
            sum += before[i];
        }
        pf__joint_update(&joint, n_targets, targets, d0, d, t);
        CHECK_NEAR(joint.nominal, weight0 / sum, 1e-11);
        for (int i = 0; i < m * n_grid; i++) {
            CHECK_NEAR(mass[i], before[i] / sum, 1e-11);
        }
        check_joint(&joint);
    }
}

static void test_joint_extremes(void)
{
    PF_CASE("joint update: a best hypothesis without mass, and huge distances");
    int target = 1;
    pf_joint joint = random_joint(2, 4);
    mass[0] = 0;
    const double best_empty[4] = {0, 50, 60, 70};
    pf__joint_update(&joint, 1, &target, 80, best_empty, 1e-3);
    check_joint(&joint);
    CHECK(mass[0] == 0 && mass[1] > .999);
    CHECK(pf__temperature(3, 4, (const double[4]){3, 3, 3, 3}, .05) == 1e-12);
    static const double huge[] = {1, 1e4, 1e10, 1e150, 1e200, 1e290, 1e300, DBL_MAX};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        const double some[4] = {huge[i], .5 * huge[i], huge[i], huge[i]};
        joint = random_joint(2, 4);
        pf__joint_update(&joint, 1, &target, huge[i], some, .05 * huge[i]);
        check_joint(&joint);
        // the best has no mass, all others are equally far
        joint = random_joint(2, 4);
        mass[1] = 0;
        const double far[4] = {huge[i], 0, huge[i], huge[i]};
        pf__joint_update(&joint, 1, &target, huge[i], far, 1e-12);
        check_joint(&joint);
        // all the same: nothing is learned, even at the smallest temperature
        const double same[4] = {huge[i], huge[i], huge[i], huge[i]};
        joint = random_joint(2, 4);
        double nominal = joint.nominal;
        pf__joint_update(&joint, 1, &target, huge[i], same,
                         pf__temperature(3, 1, &(double){3}, .05));
        check_joint(&joint);
        if (!CHECK_NEAR(joint.nominal, nominal, 1e-9)) {
            printf("  all distances %g\n", huge[i]);
        }
    }
}

static void test_summaries(void)
{
    PF_CASE("interval and CRPS against the cumulative distribution, step by step");
    for (int round = 0; round < 150; round++) {
        int m = 1 + (int)pf_rng_below(&rng, 4), j = 1 + (int)pf_rng_below(&rng, (uint32_t)m);
        int n_grid = 2 + (int)pf_rng_below(&rng, GRID - 1);
        pf_joint joint = random_joint(m, n_grid);
        double truth = round % 2 == 0 ? grid[pf_rng_below(&rng, (uint32_t)n_grid)]
                                      : .05 + 1.1 * pf_rng_uniform(&rng);
        // integral of (F - 1{x >= truth})^2 on [0, 1.2] by midpoints
        double crps = 0, lo = 1, hi = 1, step = 1.2 / 12000;
        for (int s = 0; s < 12000; s++) {
            double x = (s + .5) * step, f = x >= 1 ? 1 : 0;
            for (int k = 0; x < 1 && k < n_grid; k++) {
                f += grid[k] <= x ? mass[(j - 1) * n_grid + k] : 0;
            }
            crps += step * pow(f - (x >= truth ? 1 : 0), 2);
        }
        double below = 0;
        for (int k = n_grid - 1; k >= 0; k--) {
            below = total(k + 1, mass + (j - 1) * n_grid);
            lo = below >= .05 ? grid[k] : lo;
            hi = below >= .95 ? grid[k] : hi;
        }
        double got[2];
        pf_joint_interval(&joint, j, &got[0], &got[1]);
        CHECK(got[0] == lo && got[1] == hi);
        CHECK_NEAR(pf__joint_crps(&joint, j, truth), crps, 4 * step);
    }
    // cumulative masses of exactly .05 and .95 count as reached, just below does not
    double ends[2], five[5] = {.05, .2, .7, .05, 0}, gains[5] = {.2, .3, .4, .5, .6};
    pf_joint edge = {
        .m = 1, .n_grid = 5, .grid = gains, .nominal = 0, .mass = five, .faults = PF_FAULTS_ONE};
    pf_joint_interval(&edge, 1, &ends[0], &ends[1]);
    CHECK(ends[0] == .2 && ends[1] == .4);
    five[0] -= 1e-9;
    edge.nominal = 1e-9;
    pf_joint_interval(&edge, 1, &ends[0], &ends[1]);
    CHECK(ends[0] == .3 && ends[1] == .5);
    CHECK(pf__interval_covers(.3, .5, .3 - 5e-10) && !pf__interval_covers(.3, .5, .5 + 2e-9));
}

static void test_correction(void)
{
    PF_CASE("correction minimises the mismatch, the residual risk is its minimum");
    for (int round = 0; round < 300; round++) {
        int m = 1 + (int)pf_rng_below(&rng, 4), n_grid = 5, j = m;
        pf_joint joint = random_joint(m, n_grid);
        pf_moments moments = pf_joint_moments(&joint, j);
        double c = pf__correction(&moments), changed = total(n_grid, mass + (j - 1) * n_grid);
        CHECK_NEAR(moments.changed, changed, 1e-14);
        double risk[3], weight[M] = {0};
        for (int side = -1; side <= 1; side++) {
            double at = c + 1e-4 * side;
            risk[side + 1] = (1 - changed) * (at - 1) * (at - 1);
            for (int k = 0; k < n_grid; k++) {
                risk[side + 1] += mass[(j - 1) * n_grid + k] * pow(grid[k] * at - 1, 2);
            }
        }
        CHECK(risk[1] < risk[0] && risk[1] < risk[2]);
        CHECK_NEAR((risk[2] - risk[0]) / 2e-4, 0, 1e-9);
        CHECK_NEAR(pf__residual_risk(&moments), risk[1], 1e-13);
        weight[j - 1] = 2.5;
        CHECK_NEAR(pf__recovery_value(&joint, weight, 1, &j), 2.5 * risk[1], 1e-12);
    }
    CHECK(pf__corrected_command(.5, 3, -1, 1) == 1 && pf__corrected_command(-.5, 3, -1, 1) == -1);
    CHECK(pf__corrected_command(.25, 2, -1, 1) == .5 && pf__corrected_command(.4, 2, 0, 0) == 0);
}

// --- certificate

static void test_certificate(void)
{
    PF_CASE("Cantelli: the bound holds with its probability for every finite distribution");
    for (int round = 0; round < 5000; round++) {
        int n = 1 + (int)pf_rng_below(&rng, 12), members = 1 + (int)pf_rng_below(&rng, 4);
        double p[12], returns[48], alpha = .01 + .9 * pf_rng_uniform(&rng), mean = 0, holds = 0;
        pf_fixture_simplex(&rng, n, 0, p);
        for (int i = 0; i < n * members; i++) {
            returns[i] = round % 2 ? pf_rng_uniform(&rng) : exp(-10 * pf_rng_uniform(&rng));
            mean += p[i % n] * returns[i] / members;
        }
        pf_prediction out = pf__predict_return(members, n, p, returns, alpha);
        double variance = 0;
        for (int i = 0; i < n * members; i++) {
            variance += p[i % n] * pow(returns[i] - mean, 2) / members;
            holds += returns[i] >= out.lower ? p[i % n] / members : 0;
        }
        CHECK_NEAR(out.mean, mean, 1e-13);
        CHECK_NEAR(out.variance, variance, 1e-13);
        CHECK_NEAR(out.lower, mean - sqrt((1 - alpha) / alpha) * sqrt(variance), 1e-10);
        CHECK(holds >= 1 - alpha - 1e-12);
    }
    // where it is sharp: mass alpha at the bound itself
    const double two[2] = {.1, .9}, returns[2] = {0, 1};
    CHECK_NEAR(pf__predict_return(1, 2, two, returns, .1).lower, 0, 1e-15);
    PF_CASE("the worst bound: a quantile within each hypothesis, unlikely ones left out");
    // 99 members 1..99 under the first hypothesis, 101..199 under the second, shuffled; one more
    // falls below the 8th of them with probability 8/100, four fifths of the risk
    double many[99 * 3];
    for (int e = 0; e < 99; e++) {
        many[e * 3] = 1 + e * 37 % 99;
        many[e * 3 + 1] = 101 + e * 58 % 99;
        many[e * 3 + 2] = -1000;
    }
    double copy[99 * 3];
    static const struct {
        double p[3], bound;
    } cases[] = {{{.5, .5, 0}, 8},     // the smaller one
                 {{.03, .97, 0}, 8},   // that holds more than a fifth of the risk
                 {{.01, .99, 0}, 108}, // or not
                 {{.5, .49, .01}, 8},  // nor does the third
                 {{.49, .49, .02001}, -1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(copy, many, sizeof copy);
        CHECK_NEAR(pf__worst_bound(99, 3, cases[i].p, copy, .1), cases[i].bound, 0);
    }
    // 12 members can promise a thirteenth, 11 cannot promise a twelfth
    double few[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    CHECK_NEAR(pf__worst_bound(12, 1, (const double[]){1}, few, .1), 1, 0);
    CHECK(isnan(pf__worst_bound(11, 1, (const double[]){1}, few, .1)));
    double broken[] = {NAN, 1, .5, .5};
    CHECK(!(pf__worst_bound(2, 2, (const double[]){.5, .5}, broken, .1) >= 0));

    PF_CASE("decision: go only for a finite bound that reaches a finite level, and probed");
    const double values[] = {NAN,     INFINITY, -INFINITY, 0,     .85, .85 - 1e-16,
                             DBL_MAX, -DBL_MAX, 1,         .8499, 2,   -.85};
    int n = (int)(sizeof values / sizeof values[0]);
    for (int i = 0; i < n * n * 2; i++) {
        double lower = values[i % n], j_min = values[i / n % n];
        pf_why why = PF_WHY_CERTIFIED;
        bool probed = i / n / n, sound = isfinite(lower) && isfinite(j_min) && lower >= j_min;
        bool go = pf__decide(lower, j_min, probed, &why) == PF_GO;
        if (!CHECK(go == (sound && probed)) || !CHECK(go == (why == PF_WHY_CERTIFIED))) {
            printf("  lower %g, j_min %g, probed %d: %s, %s\n", lower, j_min, probed,
                   go ? "go" : "no-go", pf_why_name(why));
        }
        CHECK(probed || why == PF_WHY_NOT_PROBED);
    }

    PF_CASE("returns and the table of tracking errors");
    CHECK(pf__return(0) == 1 && pf__return(.5) == exp(-.5));
    CHECK(pf__return(10) == exp(-10) && pf__return(11) == exp(-10) &&
          pf__return(1e300) == exp(-10));
    CHECK(pf__return(INFINITY) == exp(-10) && pf__return(NAN) <= exp(-10));
    const double shares[4] = {0, .5, 1, 2}, nte[4] = {8, 2, 0, 4};
    const double at[9] = {-1, 0, .25, .5, .75, 1, 1.5, 2, 9},
                 value[9] = {8, 8, 5, 2, 1, 0, 2, 4, 4};
    for (int i = 0; i < 9; i++) {
        CHECK_NEAR(pf__tracking_error_at(4, shares, nte, at[i]), value[i], 1e-15);
    }
    CHECK(pf__tracking_error_at(4, shares, nte, NAN) == 8);
    CHECK(pf__tracking_error_at(4, shares, nte, INFINITY) == 4);
}

void test_belief(void)
{
    pf_rng_init(&rng, pf_key_root(31));
    test_risk();
    test_updates();
    test_categories();
    test_acquisitions();
    test_severity();
    test_joint_update();
    test_joint_extremes();
    test_summaries();
    test_correction();
    test_certificate();
}
