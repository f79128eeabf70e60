// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/joint.h"
#include "core/posterior.h"
#include "core/session_impl.h"
#include "kit_fixture.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The joint posterior against the plainest way to compute it, which shares no line with the code:
// every hypothesis against every look, from the prior on, in logarithms.

enum { MOST = 5, GAINS = 60, LOOKS = 4 };

// --- a plain posterior

// Gains 0, .025, .. 1.5 without 1.
static double plain_gain(int g)
{
    return .025 * (g < 40 ? g : g + 1);
}

// Mean and variance of coordinate t of a probe when its target i has a gain; i -1: nothing changed.
static void plain_normal(const pf_kit *k, int probe, int i, double gain, int t, double *mean,
                         double *variance)
{
    double node[16], mu[16], s[16];
    int n = 0, targets = pf_kit_probe_targets(k, probe, NULL);
    size_t at = pf__kit_look(k, probe);
    bool one = false;
    for (int a = 0; a <= k->n_knots; a++) {
        bool here = !one && (a == k->n_knots || k->knots[a] > 1);
        if (here) {
            node[n] = 1;
            mu[n] = k->look_mean[at + (size_t)t];
            s[n++] = k->look_variance[at + (size_t)t];
            one = true;
        }
        if (a < k->n_knots && i >= 0) {
            size_t row = at + (size_t)((1 + i * k->n_knots + a) * targets + t);
            node[n] = k->knots[a];
            mu[n] = k->look_mean[row];
            s[n++] = k->look_variance[row];
        }
    }
    int low = 0;
    while (low + 2 < n && gain > node[low + 1]) {
        low++;
    }
    *mean = mu[0];
    *variance = s[0];
    if (i >= 0) {
        double part = (gain - node[low]) / (node[low + 1] - node[low]);
        double inside = part < 0 ? 0 : part > 1 ? 1 : part;
        *mean = (1 - part) * mu[low] + part * mu[low + 1];
        *variance = (1 - inside) * s[low] + inside * s[low + 1];
    }
}

// Log likelihood of a look and its squared distance, over all coordinates or over one of them.
static double plain_look(const pf_kit *k, int probe, const double *z, int i, double gain, int only,
                         double *q)
{
    int targets = pf_kit_probe_targets(k, probe, NULL), n = 0;
    double volume = 0;
    *q = 0;
    for (int t = 0; t < targets; t++) {
        double mean, variance;
        if (isnan(z[t]) || (only >= 0 && t != only)) {
            continue;
        }
        plain_normal(k, probe, i, gain, t, &mean, &variance);
        *q += (z[t] - mean) * (z[t] - mean) / variance;
        volume += log(variance);
        n++;
    }
    return -volume / 2 - (5 + n) / 2.0 * log(1 + *q / (5 + n));
}

typedef struct plain_looks {
    int n, probe[LOOKS];
    double z[LOOKS][MOST];
} plain_looks;

// Log likelihood of all looks under "mechanism has gain" (0: nothing changed). With several faults
// of the coordinates of `of` alone.
static double plain_log(const pf_kit *k, const plain_looks *looks, int mechanism, double gain,
                        int of)
{
    double sum = 0, q;
    for (int l = 0; l < looks->n; l++) {
        const int32_t *targets = NULL;
        int n = pf_kit_probe_targets(k, looks->probe[l], &targets), i = -1, only = -1;
        for (int t = 0; t < n; t++) {
            i = targets[t] == mechanism ? t : i;
            only = targets[t] == of ? t : only;
        }
        if (of > 0 && (only < 0 || isnan(looks->z[l][only]))) {
            continue;
        }
        sum += plain_look(k, looks->probe[l], looks->z[l], i, gain, of > 0 ? only : -1, &q);
    }
    return sum;
}

// Weights of a mechanism's gains and of "not changed" before normalisation, relative to `most`.
static double plain_weight(const pf_kit *k, const plain_looks *looks, int j, int g, int of,
                           double most)
{
    double density = 0;
    for (int i = 0; i < GAINS; i++) {
        density += plain_gain(i) < 1 ? 1 : .25;
    }
    double prior = k->prior[j] * (plain_gain(g) < 1 ? 1 : .25) / density;
    return prior * exp(plain_log(k, looks, j, plain_gain(g), of) - most);
}

static void plain_one(const pf_kit *k, const plain_looks *looks, double *nominal, double *mass)
{
    double most = plain_log(k, looks, 0, 1, 0), sum;
    *nominal = k->prior[0];
    sum = *nominal;
    for (int j = 1; j < k->n_mech; j++) {
        for (int g = 0; g < GAINS; g++) {
            mass[(j - 1) * GAINS + g] = plain_weight(k, looks, j, g, 0, most);
            sum += mass[(j - 1) * GAINS + g];
        }
    }
    *nominal /= sum;
    for (int i = 0; i < (k->n_mech - 1) * GAINS; i++) {
        mass[i] /= sum;
    }
}

static void plain_many(const pf_kit *k, const plain_looks *looks, double *nominal, double *mass)
{
    *nominal = 1;
    for (int j = 1; j < k->n_mech; j++) {
        double *row = mass + (j - 1) * GAINS, most = plain_log(k, looks, 0, 1, j);
        double healthy = 1 - k->prior[j], sum = healthy;
        for (int g = 0; g < GAINS; g++) {
            row[g] = plain_weight(k, looks, j, g, j, most);
            sum += row[g];
        }
        for (int g = 0; g < GAINS; g++) {
            row[g] /= sum;
        }
        *nominal *= healthy / sum;
    }
}

// --- random kits

static double uniform(pf_rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * pf_rng_uniform(rng);
}

static pf_fixture *random_kit(pf_rng *rng, uint64_t seed, pf_faults faults)
{
    pf_fixture_config c = pf_fixture_config_default();
    c.seed = seed;
    c.m = 1 + (int)pf_rng_below(rng, 4);
    c.targets = 1 + (int)pf_rng_below(rng, (uint32_t)c.m);
    c.n_probes = c.m + 1;
    c.field = c.looks = true;
    c.faults = faults;
    c.prior0 = uniform(rng, .2, .99);
    pf_fixture *f = pf_fixture_create(&c);
    double gain = uniform(rng, 0, .3);
    bool below = pf_rng_uniform(rng) < .2; // no knot above 1
    f->kit.n_knots = 2 + (int)pf_rng_below(rng, 4);
    for (int i = 0; i < f->kit.n_knots; i++) {
        f->at.knots[i] = gain;
        gain += below ? (1 - gain) * uniform(rng, .1, .5) : uniform(rng, .05, .5);
    }
    f->kit.n_look = (int32_t)pf__kit_look(&f->kit, f->kit.n_probes);
    for (int i = 0; i < f->kit.n_look; i++) {
        f->at.look_mean[i] = pf_rng_normal(rng);
        f->at.look_variance[i] = fmax(4e-4, exp(uniform(rng, -7, 2)));
    }
    CHECK(pf_kit_check(&f->kit, NULL) == PF_OK);
    return f;
}

typedef struct arrays {
    double log_healthy[MOST], q_healthy[MOST], log_gain[MOST * GAINS], q_gain[MOST * GAINS];
    pf__between between[GAINS];
} arrays;

// What one look says, hypothesis by hypothesis, and which is nearest.
static void check_look(const pf_kit *k, const pf__look *look)
{
    bool many = k->faults == PF_FAULTS_MANY;
    double least = INFINITY, q;
    for (int t = 0; t < look->n_targets; t++) {
        int only = many ? t : -1;
        double healthy = plain_look(k, look->probe, look->z, -1, 1, only, &q);
        if (t == 0 || many) {
            CHECK_NEAR(look->log_healthy[t], healthy, 1e-12 * (1 + fabs(healthy)));
            CHECK_NEAR(look->q_healthy[t], q, 1e-12 * (1 + q));
            least = fmin(least, q);
        }
        for (int g = 0; g < GAINS; g++) {
            double l = plain_look(k, look->probe, look->z, t, plain_gain(g), only, &q);
            // the logarithm is as precise as the q that it is made of
            CHECK_NEAR(look->log_gain[t * GAINS + g], l, 1e-11 * (1 + fabs(l)));
            CHECK_NEAR(look->q_gain[t * GAINS + g], q, 1e-11 * (1 + q));
            least = fmin(least, q);
        }
    }
    int gain = -1, target = many ? -1 : pf__look_nearest(look, &gain);
    if (!many) {
        q = target < 0 ? look->q_healthy[0] : look->q_gain[target * GAINS + gain];
        CHECK_NEAR(q, least, 1e-11 * (1 + least));
        CHECK((target < 0) == (gain < 0));
    }
    for (int t = 0; many && t < look->n_targets; t++) {
        int own = pf__look_nearest_gain(look, t);
        for (int g = 0; g < GAINS; g++) {
            CHECK((own < 0 ? look->q_healthy[t] : look->q_gain[t * GAINS + own]) <=
                  look->q_gain[t * GAINS + g]);
        }
    }
}

static void check_brute(pf_faults faults)
{
    pf_rng rng;
    pf_rng_init(&rng, 77 + (uint64_t)faults);
    int kits = pf_long() ? 2000 : 100;
    for (int trial = 0; trial < kits; trial++) {
        pf_fixture *f = random_kit(&rng, (uint64_t)trial, faults);
        const pf_kit *k = &f->kit;
        double mass[MOST * GAINS], plain[MOST * GAINS], healthy[MOST], nominal;
        pf_joint joint = {.m = k->n_mech - 1,
                          .healthy = faults == PF_FAULTS_MANY ? healthy : NULL,
                          .n_grid = GAINS,
                          .grid = pf__posterior_gains,
                          .mass = mass,
                          .faults = faults,
                          .cells = true};
        arrays a;
        plain_looks looks = {.n = 0};
        pf__posterior_between(k, a.between);
        pf__posterior_reset(&joint, k->prior);
        while (looks.n < LOOKS) {
            int probe = (int)pf_rng_below(&rng, (uint32_t)k->n_probes);
            double *z = looks.z[looks.n];
            for (int t = 0; t < MOST; t++) {
                z[t] = pf_rng_uniform(&rng) < .2 ? NAN : 1.5 * pf_rng_normal(&rng);
            }
            looks.probe[looks.n++] = probe;
            int said[64];
            pf__look look = {.probe = probe,
                             .said = said,
                             .z = z,
                             .log_healthy = a.log_healthy,
                             .q_healthy = a.q_healthy,
                             .log_gain = a.log_gain,
                             .q_gain = a.q_gain};
            look.n_targets = pf_kit_probe_targets(k, probe, &look.targets);
            pf__look_weigh(&look, k, a.between);
            check_look(k, &look);
            pf__posterior_update(&joint, &look, k);
            (faults == PF_FAULTS_MANY ? plain_many : plain_one)(k, &looks, &nominal, plain);
            CHECK_NEAR(joint.nominal, nominal, 1e-12);
            for (int i = 0; i < joint.m * GAINS; i++) {
                CHECK_NEAR(mass[i], plain[i], 1e-12);
            }
        }
        pf_fixture_free(f);
    }
}

static void check_grid(void)
{
    double weight[GAINS], sum = 0;
    CHECK((int)PF_POSTERIOR_GAINS == (int)GAINS);
    pf__posterior_prior(weight);
    for (int g = 0; g < GAINS; g++) {
        CHECK_NEAR(pf__posterior_gains[g], plain_gain(g), 1e-15);
        CHECK_NEAR(weight[g] / weight[0], plain_gain(g) < 1 ? 1 : .25, 1e-15);
        sum += weight[g];
    }
    CHECK_NEAR(sum, 1, 1e-15);
}

// --- intervals

// The gain below which a share of the mass lies, by a fine sum over the density.
static double plain_quantile(const double *mass, double share)
{
    enum { STEPS = 120000 };
    double sum = 0, whole = 0;
    int cell = 0;
    for (int g = 0; g < GAINS; g++) {
        whole += mass[g];
    }
    for (int i = 0; i < STEPS; i++) {
        double x = 1.5 * (i + .5) / STEPS;
        while (cell + 1 < GAINS && x > (plain_gain(cell) + plain_gain(cell + 1)) / 2) {
            cell++;
        }
        double from = cell > 0 ? (plain_gain(cell - 1) + plain_gain(cell)) / 2 : 0;
        double to = cell + 1 < GAINS ? (plain_gain(cell) + plain_gain(cell + 1)) / 2 : 1.5;
        sum += mass[cell] / (to - from) * 1.5 / STEPS;
        if (sum >= share * whole) {
            return x;
        }
    }
    return 1.5;
}

static void check_intervals(void)
{
    pf_rng rng;
    pf_rng_init(&rng, 5);
    for (int trial = 0; trial < 60; trial++) {
        double mass[GAINS] = {0}, lo, hi, mean = 0, whole = 0;
        double peak = uniform(&rng, -.1, 1.6), width = exp(uniform(&rng, -6, 1));
        for (int g = 0; g < GAINS; g++) {
            double away = (plain_gain(g) - peak) / width;
            mass[g] = trial % 3 == 0   ? pf_rng_uniform(&rng)
                      : trial % 3 == 1 ? exp(-away * away / 2) + 1e-12
                                       : (g == trial % GAINS);
            mass[g] *= .3;
            mean += mass[g] * plain_gain(g);
            whole += mass[g];
        }
        pf_joint joint = {
            .m = 1, .n_grid = GAINS, .grid = pf__posterior_gains, .mass = mass, .cells = true};
        joint.nominal = 1 - whole;
        pf_joint_interval(&joint, 1, &lo, &hi);
        double low = plain_quantile(mass, .05), high = plain_quantile(mass, .95);
        mean /= whole;
        // a point in an end cell is the end: a dead mechanism is in its interval
        low = low < .0125 ? 0 : low;
        high = high > 1.4875 ? 1.5 : high;
        CHECK_NEAR(lo, fmin(mean, low), 1e-4);
        CHECK_NEAR(hi, fmax(mean, high), 1e-4);
        CHECK(lo <= mean && mean <= hi && hi > lo && lo >= 0 && hi <= 1.5);
        CHECK_NEAR(pf__joint_mean_if_changed(&joint, 1), mean, 1e-12);
    }
}

// Whatever a session tells, its intervals hold their mean.
static void check_session_intervals(void)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        pf_fixture_config c = pf_fixture_config_default();
        c.seed = seed;
        c.field = c.looks = true;
        c.faults = seed % 2 ? PF_FAULTS_MANY : PF_FAULTS_ONE;
        pf_fixture *f = pf_fixture_create(&c);
        pf_session *s = pf_fixture_session(f, NULL, seed);
        pf_rng rng;
        pf_rng_init(&rng, seed);
        double gain = 1.3 * pf_rng_uniform(&rng);
        while (pf_session_ask(s).kind == PF_ASK_PROBE) {
            CHECK(pf_fixture_tell(f, s, 1 + (int)(seed % 3), gain, .05, &rng) == PF_OK);
            pf_session_certify(s);
            for (int j = 1; j <= c.m; j++) {
                const pf_mechanism_readiness *r = pf_session_mechanism(s, j);
                CHECK(r->interval[0] <= r->mean_gain && r->mean_gain <= r->interval[1]);
                CHECK(r->interval[1] > r->interval[0]);
            }
        }
        free(s);
        pf_fixture_free(f);
    }
}

// --- no severity feedback

// Two kits that differ only in where coordinates lie at which gain: stage 1 cannot tell them apart.
static void check_feedback(pf_faults faults)
{
    int both = 0, differ = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        pf_fixture_config c = pf_fixture_config_default();
        c.seed = seed;
        c.targets = 1 + (int)(seed % 3);
        c.field = c.looks = c.misfit = true;
        c.faults = faults;
        pf_fixture *f = pf_fixture_create(&c), *g = pf_fixture_create(&c);
        pf_rng rng, noise[2];
        pf_rng_init(&rng, seed);
        for (int i = 0; i < g->kit.n_look; i++) {
            g->at.look_mean[i] = pf_rng_normal(&rng);
            g->at.look_variance[i] = .01 + pf_rng_uniform(&rng);
        }
        pf_session *a = pf_fixture_session(f, NULL, seed), *b = pf_fixture_session(g, NULL, seed);
        int mechanism = (int)(seed % 4);
        pf_rng_init(&noise[0], seed);
        pf_rng_init(&noise[1], seed);
        while (pf_session_get_state(a).stage == PF_STAGE_LOOK &&
               pf_session_get_state(b).stage == PF_STAGE_LOOK) {
            pf_ask x = pf_session_ask(a), y = pf_session_ask(b);
            CHECK(x.probe == y.probe && x.value == y.value && x.stage == y.stage);
            CHECK(pf_fixture_tell(f, a, mechanism, .5, .05, &noise[0]) == PF_OK);
            CHECK(pf_fixture_tell(g, b, mechanism, .5, .05, &noise[1]) == PF_OK);
            CHECK(memcmp(pf_session_belief(a), pf_session_belief(b),
                         sizeof(double) * (size_t)(c.m + 1)) == 0);
            pf_session_state p = pf_session_get_state(a), q = pf_session_get_state(b);
            CHECK(p.alarm == q.alarm && p.change == q.change && p.peak == q.peak &&
                  p.alarm_opportunity == q.alarm_opportunity);
            differ += pf_session_joint(a).nominal != pf_session_joint(b).nominal;
            both++;
        }
        free(a);
        free(b);
        pf_fixture_free(f);
        pf_fixture_free(g);
    }
    CHECK(both > 100 && differ > 50); // or nothing was tested
}

// --- suspicion

// A kit of which the first `fall` curves of a task miss it wherever less than all is delivered.
static pf_fixture *falling(uint64_t seed, int members, int fall)
{
    pf_fixture_config c = pf_fixture_config_default();
    c.seed = seed;
    c.field = c.looks = true;
    c.n_members = members;
    pf_fixture *f = pf_fixture_create(&c);
    for (int i = 0; i < f->kit.n_uses * members * f->kit.n_shares; i++) {
        double away = 1 - f->kit.shares[i % f->kit.n_shares];
        bool falls = i / f->kit.n_shares % members < fall && away > 1e-9;
        f->at.tracking_error[i] = falls ? 1 : away * away;
    }
    return f;
}

// What a curve returns where a share is delivered.
static double plain_return(const pf_kit *k, int use, int member, double share)
{
    const double *nte = k->tracking_error + (use * k->n_members + member) * k->n_shares;
    int at = (int)(share / .05);
    double part = share / .05 - at;
    return exp(-((1 - part) * nte[at] + part * nte[at + 1]));
}

// Mean less three standard deviations over curves and hypotheses: healthy with weight `healthy`,
// and the gains below `below` by their mass.
static double plain_bound(const pf_kit *k, int task, double share, double healthy,
                          const double *mass, double below)
{
    double whole = 0, mean = 0, square = 0;
    for (int g = -1; g < GAINS; g++) {
        double gain = g < 0 ? 1 : plain_gain(g), weight = g < 0 ? healthy : mass[g];
        for (int e = 0; e < k->n_members && (g < 0 || gain < below); e++) {
            double ret = plain_return(k, k->task_use[task], e, gain * share);
            whole += weight;
            mean += weight * ret;
            square += weight * ret * ret;
        }
    }
    mean /= whole;
    return mean - 3 * sqrt(fmax(0, square / whole - mean * mean));
}

// Mass of the losses that more curves miss than alpha allows of a new run.
static double plain_harm(const pf_kit *k, int task, double share, const double *mass)
{
    double harm = 0;
    for (int g = 0; plain_gain(g) < 1; g++) {
        int miss = 0;
        for (int e = 0; e < k->n_members; e++) {
            miss += plain_return(k, k->task_use[task], e, plain_gain(g) * share) < .85;
        }
        harm += miss + 1 > .1 * (k->n_members + 1) ? mass[g] : 0;
    }
    return harm;
}

// Gives how often a loss that is suspected breaks no promise, so that the bound is that over all.
static int check_suspicion(int members, int fall)
{
    int freed = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        pf_fixture *f = falling(seed, members, fall);
        const pf_kit *k = &f->kit;
        pf_session *s = pf_fixture_session(f, NULL, seed);
        pf_rng rng;
        pf_rng_init(&rng, seed);
        while (pf_session_ask(s).kind == PF_ASK_PROBE) {
            CHECK(pf_fixture_tell(f, s, 0, 1, .05, &rng) == PF_OK);
            pf_session_certify(s);
            pf_joint joint = pf_session_joint(s);
            for (int j = 1; j <= 3; j++) {
                const double *mass = joint.mass + (j - 1) * GAINS;
                double least = .01 * k->prior[j], changed = 0;
                for (int g = 0; g < GAINS; g++) {
                    changed += mass[g];
                }
                double share =
                    pf_kit_delivered_share(k, j - 1, j, pf_session_mechanism(s, j)->correction, 1);
                double harm = members >= 50 ? plain_harm(k, j - 1, share, mass) : changed;
                double all = plain_bound(k, j - 1, share, 1 - changed, mass, 9);
                double given = plain_bound(k, j - 1, share, 0, mass, 1);
                bool suspected = changed >= least && harm >= least;
                CHECK_NEAR(pf_session_task(s, j - 1)->lower, suspected ? fmin(all, given) : all,
                           1e-6);
                freed += changed >= least && !suspected && given < all;
            }
        }
        free(s);
        pf_fixture_free(f);
    }
    return freed;
}

void test_posterior(void)
{
    PF_CASE("its gains and their weights before any look");
    check_grid();
    PF_CASE("one fault at most: equal to a plain posterior over all looks");
    check_brute(PF_FAULTS_ONE);
    PF_CASE("several faults: each mechanism by itself equals a plain posterior");
    check_brute(PF_FAULTS_MANY);
    PF_CASE("intervals are the points of the density, and hold their mean");
    check_intervals();
    PF_CASE("intervals of sessions hold their mean and have a width");
    check_session_intervals();
    PF_CASE("no severity feedback: where gains lie changes nothing in stage 1");
    check_feedback(PF_FAULTS_ONE);
    PF_CASE("no severity feedback, several faults");
    check_feedback(PF_FAULTS_MANY);
    PF_CASE("a loss at which the promise holds is not suspected; curves enough must say so");
    CHECK(check_suspicion(60, 4) > 20);
    CHECK(check_suspicion(60, 7) == 0 && check_suspicion(16, 1) == 0);
}
