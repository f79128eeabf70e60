// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "posterior.h"

#include "constants.h"

#include <math.h>

enum { N = PF_POSTERIOR_GAINS };

// One more variance (1e-12 to 1e150 in a kit) keeps a product above this within a double.
#define PRODUCT_MIN 1e-100

const double pf__posterior_gains[N] = {
    0,     .025, .05,   .075, .1,    .125, .15,   .175, .2,    .225, .25,   .275,
    .3,    .325, .35,   .375, .4,    .425, .45,   .475, .5,    .525, .55,   .575,
    .6,    .625, .65,   .675, .7,    .725, .75,   .775, .8,    .825, .85,   .875,
    .9,    .925, .95,   .975, 1.025, 1.05, 1.075, 1.1,  1.125, 1.15, 1.175, 1.2,
    1.225, 1.25, 1.275, 1.3,  1.325, 1.35, 1.375, 1.4,  1.425, 1.45, 1.475, 1.5};

void pf__posterior_prior(double *weight)
{
    double sum = 0;
    for (int g = 0; g < N; g++) {
        weight[g] = pf__posterior_gains[g] < 1 ? 1 : PF_POSTERIOR_STRONGER;
        sum += weight[g];
    }
    for (int g = 0; g < N; g++) {
        weight[g] /= sum;
    }
}

// --- where a gain lies

// Gain of knot i of a kit with the nominal look at 1 among them, and which knot that is (-1: the
// nominal look).
static double knot_at(const pf_kit *k, int i, int *knot)
{
    int below = 0;
    while (below < k->n_knots && k->knots[below] < 1) {
        below++;
    }
    *knot = i < below ? i : i == below ? -1 : i - 1;
    return *knot < 0 ? 1 : k->knots[*knot];
}

void pf__posterior_between(const pf_kit *k, pf__between *between)
{
    for (int g = 0; g < N && k->n_knots > 0; g++) {
        double gain = pf__posterior_gains[g];
        int at = 0, from, to;
        while (at + 2 <= k->n_knots && knot_at(k, at + 1, &to) < gain) {
            at++;
        }
        double low = knot_at(k, at, &from), high = knot_at(k, at + 1, &to);
        double share = (gain - low) / (high - low);
        between[g] = (pf__between){from, to, share, fmin(1, fmax(0, share))};
    }
}

// --- one look

// Means and variances of all coordinates of a probe under one hypothesis: row 0 is nominal, row 1 +
// t n_knots + k target t at knot k.
typedef struct rows {
    const double *mean, *variance;
    size_t n; // targets
} rows;

// Sum of squares in standard deviations over the coordinates in `list`, and the log of the product
// of their variances; from row a to row b by the given shares.
static double distance(const pf__look *look, const rows *r, size_t a, size_t b,
                       const pf__between *at, int n, const int *list, double *log_volume)
{
    const double *ma = r->mean + a * r->n, *mb = r->mean + b * r->n;
    const double *va = r->variance + a * r->n, *vb = r->variance + b * r->n;
    double q = 0, product = 1, volume = 0;
    for (int i = 0; i < n; i++) {
        int t = list[i];
        double mean = ma[t] + at->share * (mb[t] - ma[t]);
        double variance = va[t] + at->variance_share * (vb[t] - va[t]);
        double away = look->z[t] - mean;
        q += away * away / variance;
        product *= variance;
        if (!(product > PRODUCT_MIN && product < 1 / PRODUCT_MIN)) {
            volume += log(product); // before it leaves the range of a double
            product = 1;
        }
    }
    *log_volume = volume + log(product);
    return q;
}

// A Student t of 5 degrees of freedom in n dimensions: one wild coordinate must not decide.
static double log_likelihood(double q, double log_volume, int n)
{
    double nu = PF_POSTERIOR_FREEDOM + n;
    return -.5 * log_volume - .5 * nu * log1p(q / nu);
}

static void weigh_target(pf__look *look, const pf_kit *k, const rows *r, int target,
                         const pf__between *between)
{
    bool many = k->faults == PF_FAULTS_MANY;
    int n = many ? !isnan(look->z[target]) : look->n_z;
    const int *list = many ? &target : look->said;
    const pf__between nominal = {0, 0, 0, 0};
    double volume;
    size_t base = 1 + (size_t)target * (size_t)k->n_knots;
    if (many || target == 0) {
        double q = distance(look, r, 0, 0, &nominal, n, list, &volume);
        look->q_healthy[many ? target : 0] = q;
        look->log_healthy[many ? target : 0] = log_likelihood(q, volume, n);
    }
    for (int g = 0; g < N; g++) {
        const pf__between *at = &between[g];
        double q = distance(look, r, at->from < 0 ? 0 : base + (size_t)at->from,
                            at->to < 0 ? 0 : base + (size_t)at->to, at, n, list, &volume);
        look->q_gain[target * N + g] = q;
        look->log_gain[target * N + g] = log_likelihood(q, volume, n);
    }
}

void pf__look_weigh(pf__look *look, const pf_kit *k, const pf__between *between)
{
    size_t at = pf__kit_look(k, look->probe);
    rows r = {k->look_mean + at, k->look_variance + at, (size_t)look->n_targets};
    look->n_z = 0;
    for (int t = 0; t < look->n_targets; t++) {
        if (!isnan(look->z[t])) {
            look->said[look->n_z++] = t;
        }
    }
    for (int t = 0; t < look->n_targets; t++) {
        weigh_target(look, k, &r, t, between);
    }
}

int pf__look_target(const pf__look *look, const pf_kit *k, int mechanism)
{
    int t = 0;
    while (t < look->n_targets && look->targets[t] != mechanism) {
        t++;
    }
    bool says = t < look->n_targets && !(k->faults == PF_FAULTS_MANY && isnan(look->z[t]));
    return says ? t : -1;
}

int pf__look_nearest_gain(const pf__look *look, int target)
{
    double least = look->q_healthy[target];
    int gain = -1;
    for (int g = 0; g < N; g++) {
        if (look->q_gain[target * N + g] < least) {
            least = look->q_gain[target * N + g];
            gain = g;
        }
    }
    return gain;
}

int pf__look_nearest(const pf__look *look, int *gain)
{
    double least = look->q_healthy[0];
    int target = -1;
    *gain = -1;
    for (int i = 0; i < look->n_targets * N; i++) {
        if (look->q_gain[i] < least) {
            least = look->q_gain[i];
            target = i / N;
            *gain = i % N;
        }
    }
    return target;
}

// --- the posterior

static double *row_of(const pf_joint *joint, int mechanism)
{
    return joint->mass + (size_t)(mechanism - 1) * N;
}

// With several faults: P(nothing changed) from the rows, each by itself.
static void set_nominal(pf_joint *joint)
{
    joint->nominal = 1;
    for (int i = 1; i <= joint->m; i++) {
        joint->nominal *= joint->healthy ? joint->healthy[i - 1]
                                         : fmax(0, 1 - pf_joint_moments(joint, i).changed);
    }
}

void pf__posterior_reset(pf_joint *joint, const double *prior)
{
    double weight[N];
    pf__posterior_prior(weight);
    joint->nominal = prior[0];
    for (int i = 1; i <= joint->m; i++) {
        for (int g = 0; g < N; g++) {
            row_of(joint, i)[g] = prior[i] * weight[g];
        }
        if (joint->healthy) {
            joint->healthy[i - 1] = 1 - prior[i];
        }
    }
    if (joint->faults == PF_FAULTS_MANY) {
        set_nominal(joint);
    }
}

// One mechanism by itself: the new mass of its gains, what is left is healthy. kept: that, where it
// is kept apart. Nullable.
static void update_row(double *mass, double *kept, double log_healthy, const double *log_gain)
{
    double most = log_healthy, healthy = 1;
    for (int g = 0; g < N; g++) {
        most = fmax(most, log_gain[g]);
        healthy -= mass[g];
    }
    healthy = (kept ? *kept : fmax(0, healthy)) * exp(log_healthy - most);
    double sum = healthy;
    for (int g = 0; g < N; g++) {
        mass[g] *= exp(log_gain[g] - most);
        sum += mass[g];
    }
    for (int g = 0; g < N && sum > 0; g++) {
        mass[g] /= sum;
    }
    if (kept && sum > 0) {
        *kept = healthy / sum;
    }
}

// At most one change: every hypothesis against all others. A mechanism that is no target of the
// probe gives the healthy response.
static void update_one(pf_joint *joint, const pf__look *look, const pf_kit *kit)
{
    double most = look->log_healthy[0], sum;
    for (int i = 0; i < look->n_targets * N; i++) {
        most = fmax(most, look->log_gain[i]);
    }
    double healthy = exp(look->log_healthy[0] - most);
    joint->nominal *= healthy;
    sum = joint->nominal;
    for (int i = 1; i <= joint->m; i++) {
        int t = pf__look_target(look, kit, i);
        const double *seen = t >= 0 ? look->log_gain + t * N : NULL;
        double *mass = row_of(joint, i);
        for (int g = 0; g < N; g++) {
            mass[g] *= seen ? exp(seen[g] - most) : healthy;
            sum += mass[g];
        }
    }
    joint->nominal /= sum;
    for (int i = 0; i < joint->m * N; i++) {
        joint->mass[i] /= sum;
    }
}

void pf__posterior_update(pf_joint *joint, const pf__look *look, const pf_kit *kit)
{
    if (joint->faults != PF_FAULTS_MANY) {
        update_one(joint, look, kit);
        return;
    }
    for (int t = 0; t < look->n_targets; t++) {
        if (!isnan(look->z[t])) {
            int i = look->targets[t];
            update_row(row_of(joint, i), joint->healthy ? &joint->healthy[i - 1] : NULL,
                       look->log_healthy[t], look->log_gain + t * N);
        }
    }
    set_nominal(joint);
}
