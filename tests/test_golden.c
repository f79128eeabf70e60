// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/preflight.h"
#include "core/belief.h"
#include "core/certificate.h"
#include "core/joint.h"
#include "core/method.h"
#include "core/score.h"
#include "test.h"
#include "calibrate/fit.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Every field of every case of a golden file: numbers of an independent implementation.

#define MOST 4096

typedef struct golden {
    json_t *json;
    int m, K, G;
    double g_cal;
    double belief[64], predicted[64], weight[64], charge[64], grid[64];
    double nominal_row[64][64], changed_row[64][64];
    double nominal_mass, mass[64 * 64];
    pf_joint joint;
} golden;

static json_t *member(const golden *c, const char *key)
{
    json_t *value = json_object_get(c->json, key);
    if (!value) {
        char what[96];
        snprintf(what, sizeof what, "golden file lacks %s", key);
        pf_test_check(false, __FILE__, __LINE__, what);
    }
    return value;
}

// Flattens nested lists of numbers and booleans; gives their count.
static int flatten(json_t *value, double *out, int n)
{
    if (json_is_array(value)) {
        size_t i;
        json_t *item;
        json_array_foreach(value, i, item)
        {
            n = flatten(item, out, n);
        }
        return n;
    }
    if (n < MOST) {
        out[n] = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    }
    return n + 1;
}

static int list(const golden *c, const char *key, double *out)
{
    return flatten(member(c, key), out, 0);
}

static double number(const golden *c, const char *key)
{
    return json_number_value(member(c, key));
}

static void near_all(const char *what, int n, const double *actual, const double *expected,
                     double s)
{
    for (int i = 0; i < n; i++) {
        double tolerance = 1e-11 * fmax(fabs(expected[i]), s);
        if (!(fabs(actual[i] - expected[i]) <= tolerance)) {
            char text[160];
            snprintf(text, sizeof text, "%s[%d] is %.17g, golden %.17g", what, i, actual[i],
                     expected[i]);
            pf_test_check(false, __FILE__, __LINE__, text);
        }
    }
}

static void near_key(const golden *c, const char *key, int n, const double *actual, double s)
{
    static double expected[MOST];
    int have = list(c, key, expected);
    char text[96];
    snprintf(text, sizeof text, "%s has %d numbers, computed %d", key, have, n);
    if (pf_test_check(have == n, __FILE__, __LINE__, text)) {
        near_all(key, n, actual, expected, s);
    }
}

static pf_channel_row row_of(const golden *c, int q)
{
    return (pf_channel_row){c->K, NULL, c->nominal_row[q], c->changed_row[q]};
}

static void check_location(golden *c)
{
    double belief[64];
    memcpy(belief, c->belief, sizeof belief);
    pf__belief_hazard(c->m, belief, number(c, "hazard"));
    near_key(c, "predicted_belief", c->m + 1, belief, 0);
    int probe = (int)number(c, "probe"), category = (int)number(c, "category");
    pf_channel_row row = row_of(c, probe);
    memcpy(belief, c->predicted, sizeof belief);
    pf__belief_multiply(c->m, belief, probe + 1, pf__channel_ratio(&row, category));
    near_key(c, "posterior", c->m + 1, belief, 0);
    CHECK(pf__gate_open(&row, category) == (bool)json_is_true(member(c, "gate_open")));
}

static double entropy(int n, const double *p)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    }
    return sum;
}

static void check_acquisitions(golden *c)
{
    golden a = {.json = member(c, "acquisition")};
    golden bandit = {.json = json_object_get(a.json, "bandit")};
    double own[64], others[64], w[64], count[64], value[6][64], expected[64];
    pf_risk_terms terms = {own, others};
    pf__risk_prepare(c->m, c->predicted, c->weight, &terms);
    list(&bandit, "W", w);
    list(&bandit, "count", count);
    double (*const fn[6])(const pf_look *) = {pf__value_bayes_risk, pf__value_opax,
                                              pf__value_task_oed,   pf__value_asid_fim,
                                              pf__value_bandit,     pf__value_sept};
    for (int q = 0; q < c->m; q++) {
        pf_channel_row row = row_of(c, q);
        pf_look look = {c->m,  c->predicted, c->weight, &terms,        c->g_cal,
                        q + 1, &row,         w[q],      (int)count[q], (int)number(&bandit, "t")};
        for (int i = 0; i < 6; i++) {
            value[i][q] = fn[i](&look) / (i == 4 && count[q] == 0 ? 1 : c->charge[q]);
        }
    }
    double rho = pf__belief_risk(c->m, c->predicted, c->weight),
           h = entropy(c->m + 1, c->predicted);
    const char *keys[4] = {"bayes_risk", "opax", "task_oed", "asid_fim"};
    for (int i = 0; i < 4; i++) {
        list(&a, keys[i], expected);
        for (int q = 0; q < c->m; q++) {
            near_all(keys[i], 1, &value[i][q], &expected[q],
                     i == 0   ? rho / c->charge[q]
                     : i == 1 ? h / c->charge[q]
                              : 0);
        }
    }
    near_key(&bandit, "index", c->m, value[4], 0);
    // the schedule: by value per charge, rounded to 12 decimals, lowest index first
    double order[64];
    for (int q = 0; q < c->m; q++) {
        int rank = 0;
        for (int o = 0; o < c->m; o++) {
            double mine = pf__tie_round(value[5][q]), theirs = pf__tie_round(value[5][o]);
            rank += theirs > mine || (theirs == mine && o < q);
        }
        order[rank] = q;
    }
    near_key(&a, "sept_order", c->m, order, 0);
}

static void check_scores(golden *c)
{
    double x[MOST], x0[MOST], h[MOST], r[MOST], one[1] = {1};
    int n = list(c, "response", x);
    list(c, "nominal", x0);
    list(c, "signature", h);
    pf__scaled_difference(n, 1, x, x0, one, 1, r);
    pf_match match;
    pf__match_targets(1, n, h, r, NULL, &match);
    double norm = pf__residual_norm(n, r);
    double z = pf__coordinate(match.coefficient, number(c, "m0"), number(c, "m1"));
    near_key(c, "score", 1, &match.score, 0);
    near_key(c, "residual_norm", 1, &norm, 0);
    near_key(c, "coordinate", 1, &z, 0);
}

static void check_severity(golden *c)
{
    double severity[MOST], expected[64];
    int probe = (int)number(c, "probe");
    list(c, "severity_before", severity);
    for (int k = 0; k < c->G; k++) {
        expected[k] = pf__severity_line(c->grid[k], c->g_cal);
    }
    pf__severity_update(c->G, severity + probe * c->G, expected, number(c, "coordinate"),
                        number(c, "sigma"));
    near_key(c, "severity_after", c->m * c->G, severity, 0);
    double posterior[64];
    list(c, "posterior", posterior);
    pf__joint_transport(&c->joint, posterior, severity);
    near_key(c, "joint", c->m * c->G, c->joint.mass, 0);
    near_key(c, "joint_nominal", 1, &c->joint.nominal, 0);
}

// Continues with the joint belief that check_severity left.
static void check_recovery(golden *c)
{
    double d[MOST], value[64], mean[64], square[64], correction[64];
    int target = (int)number(c, "recovery_probe") + 1;
    list(c, "d_grid", d);
    double d_nominal = number(c, "d_nominal");
    double t = pf__temperature(d_nominal, c->G, d, .05);
    near_key(c, "temperature", 1, &t, 0);
    pf__joint_update(&c->joint, 1, &target, d_nominal, d, t);
    near_key(c, "joint_after", c->m * c->G, c->joint.mass, 0);
    near_key(c, "joint_nominal_after", 1, &c->joint.nominal, 0);
    double expected[64];
    list(c, "recovery_value", expected);
    for (int i = 1; i <= c->m; i++) {
        pf_moments moments = pf_joint_moments(&c->joint, i);
        value[i - 1] = pf__recovery_value(&c->joint, c->weight, 1, &i) / c->charge[i - 1];
        mean[i - 1] = moments.mean;
        square[i - 1] = moments.mean_square;
        correction[i - 1] = pf__correction(&moments);
        near_all("recovery_value", 1, &value[i - 1], &expected[i - 1],
                 c->weight[i - 1] / c->charge[i - 1]);
    }
    near_key(c, "mean_gain", c->m, mean, 0);
    near_key(c, "mean_square_gain", c->m, square, 0);
    near_key(c, "correction", c->m, correction, 0);
}

// returns[task][member][hypothesis]: grid gains of the task's mechanism, then gain 1.
static void check_returns(golden *c)
{
    static double returns[MOST];
    json_t *tasks = member(c, "returns");
    double mean[64], variance[64], lower[64], p[64];
    for (int t = 0; t < c->m; t++) {
        json_t *task = json_array_get(tasks, (size_t)t);
        int n = flatten(task, returns, 0), members = (int)json_array_size(task);
        CHECK(n == members * (c->G + 1));
        p[c->G] = 1;
        for (int k = 0; k < c->G; k++) {
            p[k] = c->joint.mass[t * c->G + k];
            p[c->G] -= p[k];
        }
        pf_prediction out = pf__predict_return(members, c->G + 1, p, returns, number(c, "alpha"));
        mean[t] = out.mean;
        variance[t] = out.variance;
        lower[t] = out.lower;
    }
    near_key(c, "return_mean", c->m, mean, 0);
    near_key(c, "return_variance", c->m, variance, 0);
    near_key(c, "lower_bound", c->m, lower, 0);
}

static void check_calibration(golden *c)
{
    static double nominal[MOST], fault[MOST], maxima[MOST], scratch[2 * MOST];
    int n0 = list(c, "nominal_scores", nominal), n1 = list(c, "fault_scores", fault);
    double edges[64], rows[128];
    pf__fit_edges(n0, nominal, n1, fault, c->K, edges, scratch);
    near_key(c, "edges", c->K - 1, edges, 0);
    pf__fit_row(n0, nominal, c->K, edges, rows);
    pf__fit_row(n1, fault, c->K, edges, rows + c->K);
    near_key(c, "rows", 2 * c->K, rows, 0);
    double dispersion = pf__fit_dispersion(n1, fault, scratch);
    near_key(c, "dispersion", 1, &dispersion, 0);
    int n = list(c, "maxima", maxima);
    double threshold = pf__fit_threshold(n, maxima, .05);
    near_key(c, "threshold", 1, &threshold, 0);
}

static void check_posterior_metrics(golden *c)
{
    double truth[64], crps[64], covers[64];
    list(c, "truth", truth);
    for (int i = 1; i <= c->m; i++) {
        double lo, hi;
        pf_joint_interval(&c->joint, i, &lo, &hi);
        crps[i - 1] = pf__joint_crps(&c->joint, i, truth[i - 1]);
        covers[i - 1] = pf__interval_covers(lo, hi, truth[i - 1]);
    }
    near_key(c, "crps", c->m, crps, 0);
    near_key(c, "covers", c->m, covers, 0);
}

static void check_group(golden *c)
{
    golden g = {.json = member(c, "group")};
    static double h[MOST], r[MOST], x0[MOST], scratch[MOST], d[MOST], rows[MOST];
    double targets[64], categories[64], one[1] = {1};
    int mechanisms[64], n = list(&g, "response", r), t_count = list(&g, "targets", targets);
    list(&g, "signatures", h);
    list(c, "nominal", x0);
    list(&g, "categories", categories);
    list(&g, "rows", rows);
    pf__scaled_difference(n, 1, r, x0, one, 1, r);
    pf_match match[64], plain[64];
    pf__match_targets(t_count, n, h, r, scratch, match);
    static double wide[16 * MOST];
    pf__match_targets_plain(t_count, n, h, r, wide, plain);
    double out[3][64], belief[64], value = 0, own[64], others[64];
    pf_risk_terms terms = {own, others};
    list(&g, "belief", belief);
    pf__risk_prepare(c->m, belief, c->weight, &terms);
    double charge = number(&g, "charge"), rho = pf__belief_risk(c->m, belief, c->weight);
    double ratios[64];
    for (int i = 0; i <= c->m; i++) {
        ratios[i] = 1;
    }
    for (int t = 0; t < t_count; t++) {
        mechanisms[t] = (int)targets[t];
        out[0][t] = match[t].score;
        out[1][t] = match[t].coefficient;
        out[2][t] = match[t].remaining;
        CHECK_NEAR(plain[t].score, match[t].score, 1e-10 * fmax(1, fabs(match[t].score)));
        pf_channel_row row = {c->K, NULL, rows + 2 * t * c->K, rows + (2 * t + 1) * c->K};
        value += pf__risk_reduction(c->m, belief, &terms, mechanisms[t], &row) / charge;
        ratios[mechanisms[t]] = pf__channel_ratio(&row, (int)categories[t]);
    }
    near_key(&g, "scores", t_count, out[0], 0);
    near_key(&g, "coefficients", t_count, out[1], 0);
    near_key(&g, "remaining", t_count, out[2], 0);
    near_key(&g, "value", 1, &value, rho / charge);
    pf__belief_multiply_all(c->m, belief, ratios);
    near_key(&g, "posterior", c->m + 1, belief, 0);
    list(&g, "joint_before", c->joint.mass);
    c->joint.nominal = number(&g, "joint_nominal_before");
    int nd = list(&g, "d_grid", d);
    double t = pf__temperature(number(&g, "d_nominal"), nd, d, .05);
    near_key(&g, "temperature", 1, &t, 0);
    pf__joint_update(&c->joint, t_count, mechanisms, number(&g, "d_nominal"), d, t);
    near_key(&g, "joint_after", c->m * c->G, c->joint.mass, 0);
    near_key(&g, "joint_nominal_after", 1, &c->joint.nominal, 0);
}

static void load(golden *c, json_t *json)
{
    memset(c, 0, sizeof *c);
    c->json = json;
    c->m = (int)number(c, "m");
    c->K = (int)number(c, "K");
    c->g_cal = number(c, "g_cal");
    c->G = list(c, "grid", c->grid);
    list(c, "belief", c->belief);
    list(c, "predicted_belief", c->predicted);
    list(c, "weight", c->weight);
    list(c, "charge", c->charge);
    json_t *channel = member(c, "channel");
    for (int q = 0; q < c->m; q++) {
        // channel[q][hypothesis]: the rows of non-target faults equal the nominal row
        json_t *rows = json_array_get(channel, (size_t)q);
        CHECK((int)json_array_size(rows) == c->m + 1);
        for (int h = 0; h <= c->m; h++) {
            double row[64];
            flatten(json_array_get(rows, (size_t)h), row, 0);
            if (h == 0) {
                memcpy(c->nominal_row[q], row, sizeof row);
            } else if (h == q + 1) {
                memcpy(c->changed_row[q], row, sizeof row);
            } else {
                near_all("channel", c->K, row, c->nominal_row[q], 0);
            }
        }
    }
    c->joint = (pf_joint){.m = c->m, .n_grid = c->G, .grid = c->grid, .mass = c->mass};
}

void test_golden(void)
{
    static const struct {
        const char *name;
        void (*check)(golden *);
    } parts[] = {{"location and gate", check_location},
                 {"acquisitions", check_acquisitions},
                 {"scores", check_scores},
                 {"severity and boundary", check_severity},
                 {"recovery", check_recovery},
                 {"returns", check_returns},
                 {"calibration", check_calibration},
                 {"crps and cover", check_posterior_metrics},
                 {"group probes", check_group}};
    json_error_t problem;
    json_t *file = json_load_file(pf_golden_file(), 0, &problem);
    PF_CASE("file");
    if (!CHECK(file != NULL)) {
        printf("%s: %s\n", pf_golden_file(), problem.text);
        return;
    }
    json_t *cases = json_object_get(file, "cases");
    CHECK(json_array_size(cases) > 0);
    static golden c;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            char name[80];
            snprintf(name, sizeof name, "case %zu, %s", i, parts[p].name);
            PF_CASE(name);
            if (p == 0) {
                load(&c, json_array_get(cases, i));
            }
            parts[p].check(&c);
        }
    }
    json_decref(file);
}
