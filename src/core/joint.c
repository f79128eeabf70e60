// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "joint.h"

#include "constants.h"
#include "score.h"

#include <math.h>

// --- severity

void pf__severity_reset(int n_grid, double *severity)
{
    for (int k = 0; k < n_grid; k++) {
        severity[k] = 1.0 / n_grid;
    }
}

double pf__severity_line(double gain, double g_cal)
{
    return (1 - gain) / (1 - g_cal);
}

// How much farther z is from a than from b, squared and halved: (|z - a|^2 - |z - b|^2)/2 without
// the squares, which a wild z would overflow.
static double farther(double z, double a, double b)
{
    return (z - .5 * (a + b)) * (b - a);
}

// By way of logarithms, for a likeliest gain that z all but excludes.
static void weigh_careful(int n_grid, double *severity, const double *expected, int best, double z,
                          double sigma)
{
    double least = INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < n_grid; k++) {
            double away = farther(z, expected[k], expected[best]) / sigma / sigma;
            double cost = severity[k] > 0 ? away - log(severity[k]) : INFINITY;
            if (pass == 0) {
                least = cost < least ? cost : least;
            } else {
                severity[k] = exp(least - cost);
            }
        }
    }
}

void pf__severity_update(int n_grid, double *severity, const double *expected, double z,
                         double sigma)
{
    // exponents count from the gain that explains z best, so the sum can never vanish
    int best = -1, likely = 0;
    for (int k = 0; k < n_grid; k++) {
        bool better = best < 0 || farther(z, expected[k], expected[best]) < 0;
        best = severity[k] > 0 && better ? k : best;
        likely = severity[k] > severity[likely] ? k : likely;
    }
    if (best < 0) {
        return;
    }
    // where the likeliest gain keeps more than e^-600 of its weight no logarithm is needed
    if (farther(z, expected[likely], expected[best]) / sigma / sigma < PF_SEVERITY_EXPONENT) {
        for (int k = 0; k < n_grid; k++) {
            double away = farther(z, expected[k], expected[best]) / sigma / sigma;
            severity[k] = severity[k] > 0 ? severity[k] * exp(-away) : 0;
        }
    } else {
        weigh_careful(n_grid, severity, expected, best, z, sigma);
    }
    double sum = 0;
    for (int k = 0; k < n_grid; k++) {
        sum += severity[k];
    }
    for (int k = 0; k < n_grid; k++) {
        severity[k] /= sum;
    }
}

// --- the joint belief

static double *row_of(const pf_joint *joint, int mechanism)
{
    return joint->mass + (size_t)(mechanism - 1) * (size_t)joint->n_grid;
}

static double sum_row(const pf_joint *joint, int mechanism)
{
    const double *mass = row_of(joint, mechanism);
    double sum = 0;
    for (int k = 0; k < joint->n_grid; k++) {
        sum += mass[k];
    }
    return sum;
}

void pf__joint_transport(pf_joint *joint, const double *belief, const double *severity)
{
    joint->nominal = belief[0];
    for (int i = 1; i <= joint->m; i++) {
        const double *phi = severity + (size_t)(i - 1) * (size_t)joint->n_grid;
        double *mass = row_of(joint, i);
        for (int k = 0; k < joint->n_grid; k++) {
            mass[k] = belief[i] * phi[k];
        }
    }
}

void pf__joint_broad(pf_joint *joint, const double *belief)
{
    joint->nominal = belief[0];
    for (int i = 1; i <= joint->m; i++) {
        double *mass = row_of(joint, i);
        for (int k = 0; k < joint->n_grid; k++) {
            mass[k] = belief[i] / joint->n_grid;
        }
    }
}

pf_moments pf_joint_moments(const pf_joint *joint, int mechanism)
{
    const double *mass = row_of(joint, mechanism);
    double changed = 0, first = 0, second = 0;
    for (int k = 0; k < joint->n_grid; k++) {
        double g = joint->grid[k];
        changed += mass[k];
        first += mass[k] * g;
        second += mass[k] * g * g;
    }
    // everywhere else G_i = 1
    bool many = joint->faults == PF_FAULTS_MANY;
    double rest = many ? fmax(0, 1 - changed) : joint->nominal;
    for (int i = 1; i <= joint->m && !many; i++) {
        if (i == mechanism) {
            continue;
        }
        const double *other = row_of(joint, i);
        for (int k = 0; k < joint->n_grid; k++) {
            rest += other[k];
        }
    }
    return (pf_moments){changed, first + rest, second + rest};
}

bool pf__joint_proper(const pf_joint *joint)
{
    double sum = joint->nominal;
    for (int j = 1; j <= joint->m; j++) {
        double changed = pf_joint_moments(joint, j).changed;
        if (!(changed >= 0 && changed < 1 + PF_SUM_SLACK)) {
            return false;
        }
        sum += changed;
    }
    return joint->faults == PF_FAULTS_MANY || fabs(sum - 1) < PF_SUM_SLACK;
}

double pf__discrepancy(int n, const double *difference)
{
    return pf__dot(n, difference, difference) / n;
}

double pf__temperature(double d_nominal, int n, const double *d, double relative)
{
    double mean = d_nominal;
    for (int i = 0; i < n; i++) {
        mean += d[i];
    }
    mean /= n + 1;
    double variance = (d_nominal - mean) * (d_nominal - mean);
    for (int i = 0; i < n; i++) {
        variance += (d[i] - mean) * (d[i] - mean);
    }
    return fmax(relative * sqrt(variance / (n + 1)), PF_TEMPERATURE_MIN);
}

// Minus the log of a hypothesis's unnormalised new mass; infinite where it had none.
static double cost_of(double mass, double d, double temperature)
{
    return mass > 0 ? d / (2 * temperature) - log(mass) : INFINITY;
}

// Discrepancies of mechanism i: its own row where it is a target, else NULL (the nominal one).
static const double *row_seen(int i, int n_targets, const int *targets, const double *d, int n_grid)
{
    for (int t = 0; t < n_targets; t++) {
        if (targets[t] == i) {
            return d + t * n_grid;
        }
    }
    return NULL;
}

// The smallest discrepancy among the hypotheses that have any mass.
static double nearest(const pf_joint *joint, int n_targets, const int *targets, double d_nominal,
                      const double *d)
{
    double least = joint->nominal > 0 ? d_nominal : INFINITY;
    for (int i = 1; i <= joint->m; i++) {
        const double *mass = row_of(joint, i);
        const double *seen = row_seen(i, n_targets, targets, d, joint->n_grid);
        for (int k = 0; k < joint->n_grid; k++) {
            double one = seen ? seen[k] : d_nominal;
            least = mass[k] > 0 && one < least ? one : least;
        }
    }
    return least;
}

void pf__joint_update(pf_joint *joint, int n_targets, const int *targets, double d_nominal,
                      const double *d, double temperature)
{
    int n_grid = joint->n_grid, n = joint->m * n_grid;
    double d_min = nearest(joint, n_targets, targets, d_nominal, d);
    // costs in place of masses; the smallest is subtracted, so the sum can never vanish
    double nominal = cost_of(joint->nominal, d_nominal - d_min, temperature), least = nominal;
    for (int i = 1; i <= joint->m; i++) {
        double *mass = row_of(joint, i);
        const double *seen = row_seen(i, n_targets, targets, d, n_grid);
        for (int k = 0; k < n_grid; k++) {
            mass[k] = cost_of(mass[k], (seen ? seen[k] : d_nominal) - d_min, temperature);
            least = mass[k] < least ? mass[k] : least;
        }
    }
    joint->nominal = exp(least - nominal);
    double sum = joint->nominal;
    for (int i = 0; i < n; i++) {
        joint->mass[i] = exp(least - joint->mass[i]);
        sum += joint->mass[i];
    }
    joint->nominal /= sum;
    for (int i = 0; i < n; i++) {
        joint->mass[i] /= sum;
    }
}

// One mechanism: healthy with d[0], at the grid gains with d[1..n_grid].
static void update_row(pf_joint *joint, int mechanism, const double *d, double temperature)
{
    int n_grid = joint->n_grid;
    double *mass = row_of(joint, mechanism), was = fmax(0, 1 - sum_row(joint, mechanism));
    double d_min = was > 0 ? d[0] : INFINITY;
    for (int k = 0; k < n_grid; k++) {
        d_min = mass[k] > 0 && d[k + 1] < d_min ? d[k + 1] : d_min;
    }
    double healthy = cost_of(was, d[0] - d_min, temperature), least = healthy;
    for (int k = 0; k < n_grid; k++) {
        mass[k] = cost_of(mass[k], d[k + 1] - d_min, temperature);
        least = mass[k] < least ? mass[k] : least;
    }
    double sum = exp(least - healthy);
    for (int k = 0; k < n_grid; k++) {
        mass[k] = exp(least - mass[k]);
        sum += mass[k];
    }
    for (int k = 0; k < n_grid; k++) {
        mass[k] /= sum;
    }
}

void pf__joint_update_each(pf_joint *joint, int n_targets, const int *targets, const double *d,
                           double temperature)
{
    for (int t = 0; t < n_targets; t++) {
        update_row(joint, targets[t], d + t * (1 + joint->n_grid), temperature);
    }
    joint->nominal = 1;
    for (int i = 1; i <= joint->m; i++) {
        joint->nominal *= fmax(0, 1 - sum_row(joint, i));
    }
}

// The gain below which `share` of the mass of a row lies, each mass spread evenly over its cell:
// half way to its neighbours.
static double cell_point(const pf_joint *joint, const double *mass, double whole, double share)
{
    const double *gain = joint->grid;
    int last = joint->n_grid - 1;
    double below = 0;
    for (int k = 0; k <= last; k++) {
        double from = k > 0 ? (gain[k - 1] + gain[k]) / 2 : gain[0];
        double to = k < last ? (gain[k] + gain[k + 1]) / 2 : gain[last];
        if (mass[k] > 0 && below + mass[k] >= share * whole) {
            // the ends of the grid are the ends of what can be: a dead mechanism is in its interval
            bool end = (k == 0 && share < .5) || (k == last && share > .5);
            double part = fmin(1, (share * whole - below) / mass[k]);
            return end ? gain[k] : from + (to - from) * part;
        }
        below += mass[k];
    }
    return gain[last];
}

double pf__joint_mean_if_changed(const pf_joint *joint, int mechanism)
{
    const double *mass = row_of(joint, mechanism);
    double whole = sum_row(joint, mechanism), mean = 0;
    for (int k = 0; k < joint->n_grid; k++) {
        mean += mass[k] * joint->grid[k];
    }
    return whole > 0 ? mean / whole : 1;
}

// Of the gain if the mechanism changed. It holds the mean, whatever the shape.
static void cell_interval(const pf_joint *joint, int mechanism, double *lo, double *hi)
{
    const double *mass = row_of(joint, mechanism);
    double whole = sum_row(joint, mechanism), mean = pf__joint_mean_if_changed(joint, mechanism);
    *lo = *hi = 1;
    if (whole > 0) {
        *lo = fmin(mean, cell_point(joint, mass, whole, PF_INTERVAL_TAIL));
        *hi = fmax(mean, cell_point(joint, mass, whole, 1 - PF_INTERVAL_TAIL));
    }
}

void pf_joint_interval(const pf_joint *joint, int mechanism, double *lo, double *hi)
{
    if (joint->cells) {
        cell_interval(joint, mechanism, lo, hi);
        return;
    }
    const double *mass = row_of(joint, mechanism);
    double below = 0;
    bool has_lo = false;
    *lo = *hi = 1;
    for (int k = 0; k < joint->n_grid; k++) {
        below += mass[k];
        if (!has_lo && below >= PF_INTERVAL_TAIL - PF_INTERVAL_SLACK) {
            *lo = joint->grid[k];
            has_lo = true;
        }
        if (below >= 1 - PF_INTERVAL_TAIL - PF_INTERVAL_SLACK) {
            *hi = joint->grid[k];
            return;
        }
    }
}

bool pf__too_strong(double changed, const double interval[2])
{
    return changed > PF_NAMED && interval[0] > 1;
}

bool pf__interval_covers(double lo, double hi, double truth)
{
    return truth >= lo - PF_SAME_GAIN && truth <= hi + PF_SAME_GAIN;
}

// Integral of (F(x) - 1{x >= truth})^2 over the support of grid, 1 and the truth.
double pf__joint_crps(const pf_joint *joint, int mechanism, double truth)
{
    const double *mass = row_of(joint, mechanism);
    double crps = 0, cumulative = 0;
    for (int k = 0; k < joint->n_grid; k++) {
        double at = joint->grid[k], next = k + 1 < joint->n_grid ? joint->grid[k + 1] : 1;
        if (k == 0 && truth < at) {
            crps += at - truth;
        }
        cumulative += mass[k];
        double split = fmin(fmax(truth, at), next);
        crps += cumulative * cumulative * (split - at);
        crps += (1 - cumulative) * (1 - cumulative) * (next - split);
    }
    return crps + (truth > 1 ? truth - 1 : 0);
}

// --- recovery and correction

double pf__residual_risk(const pf_moments *moments)
{
    return 1 - moments->mean * moments->mean / moments->mean_square;
}

double pf__recovery_value(const pf_joint *joint, const double *weight, int n_targets,
                          const int *targets)
{
    double value = 0;
    for (int t = 0; t < n_targets; t++) {
        pf_moments moments = pf_joint_moments(joint, targets[t]);
        value += weight[targets[t] - 1] * pf__residual_risk(&moments);
    }
    return value;
}

double pf__correction(const pf_moments *moments)
{
    // nothing is left: no correction helps
    return moments->mean_square > 0 ? moments->mean / moments->mean_square : 1;
}

double pf__corrected_command(double command, double correction, double lo, double hi)
{
    double sent = correction * command;
    return command == 0 ? 0 : sent < lo ? lo : sent > hi ? hi : sent;
}
