// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design/design_impl.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Designed libraries on the compact plants: what is predicted is what episodes show, whatever the
// number of threads; constraints are obeyed.

static const char *const compact[] = {"attitude",       "building",   "pump_tank", "battery",
                                      "reaction_wheel", "aircraft",   "dc_servo",  "quad_tank",
                                      "quadrotor",      "wind_pitch", "wood_berry"};
enum { N_COMPACT = sizeof compact / sizeof compact[0] };

typedef struct made {
    pf_plant *plant;
    pf_plan plan;
    pf_design_config config;
    pf_design design;
} made;

static void made_free(made *m)
{
    pf_design_free(&m->design);
    pf_design_config_free(&m->config);
    pf_plan_free(&m->plan);
    pf_plant_destroy(m->plant);
}

// Designs under the overrides; seed and episodes 0: the default.
static bool make_seeded(made *m, const char *plant, uint64_t seed, const char *const *overrides,
                        int n, int episodes, int threads)
{
    pf_error error = {PF_OK, ""};
    memset(m, 0, sizeof *m);
    bool good =
        pf_plant_create(&m->plant, plant, &error) == PF_OK &&
        pf_plan_default(&m->plan, pf_plant_get_info(m->plant), &error) == PF_OK &&
        pf_design_config_read(&m->config, &m->plan, "test", NULL, 0, overrides, n, &error) == PF_OK;
    m->plan.seed = seed > 0 ? seed : m->plan.seed;
    m->config.compare = false;
    m->config.episodes = episodes > 0 ? episodes : m->config.episodes;
    pf_effort effort = {.threads = threads};
    good = good && pf_design_create(&m->design, &m->config, &m->plan, m->plant, NULL, &effort,
                                    &error) == PF_OK;
    if (!CHECK(good)) {
        printf("%s: %s\n", plant, error.text);
    }
    return good;
}

static bool make(made *m, const char *plant, const char *const *overrides, int n, int episodes,
                 int threads)
{
    return make_seeded(m, plant, 0, overrides, n, episodes, threads);
}

// --- designed separations are confirmed

typedef struct agreement {
    int n, within;
    double worst;
} agreement;

// Prediction and confirmation each have an error: the first of a covariance from 400 residuals.
static void compare(const pf_design_target *t, agreement *a)
{
    double se = log(t->hi / t->lo) / (2 * 1.96), own = sqrt(1 / (2.0 * 400));
    double off = fabs(log(t->predicted / t->confirmed)) / sqrt(se * se + own * own);
    a->n++;
    a->within += off <= 1.96;
    a->worst = fmax(a->worst, off);
}

static void test_confirmed(void)
{
    agreement a = {0};
    for (int i = 0; i < N_COMPACT; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s: all separated, as predicted", compact[i]);
        PF_CASE(name);
        made m;
        if (!make(&m, compact[i], NULL, 0, 400, 0)) {
            made_free(&m);
            continue;
        }
        // ten plants in one probe, the thrusters in few
        CHECK(m.design.n_designed <= (i == 0 ? 4 : 1));
        CHECK(m.design.n_weak == 0);
        double smallest = INFINITY;
        for (int t = 0; t < m.design.library.n_targets; t++) {
            const pf_design_target *target = &m.design.library.targets[t];
            compare(target, &a);
            if (target->probe < m.design.n_designed) {
                CHECK(target->good && target->confirmed >= m.config.target);
                smallest = fmin(smallest, target->confirmed);
            }
        }
        printf("%-16s %d probes, smallest separation %.1f\n", compact[i], m.design.n_designed,
               smallest);
        made_free(&m);
    }
    PF_CASE("predictions lie within the limits of the episodes");
    printf("%d of %d targets within 95 %% limits, the farthest %.1f standard errors off\n",
           a.within, a.n, a.worst);
    CHECK(a.within >= .85 * a.n);
    CHECK(a.worst < 4.5);
}

// --- the same for any number of threads

// Whether commands and targets are equal to the bit.
static bool same_library(const made *m, const made *other)
{
    const pf_design_library *a = &m->design.library, *b = &other->design.library;
    size_t mech = (size_t)m->plan.n_mech;
    bool same = a->n_probes == b->n_probes && a->n_targets == b->n_targets;
    for (int q = 0; same && q < a->n_probes; q++) {
        const pf_plan_probe *p = &a->probes[q].probe, *r = &b->probes[q].probe;
        same = p->rows == r->rows && p->n_targets == r->n_targets &&
               memcmp(p->command, r->command, (size_t)p->rows * mech * sizeof(double)) == 0;
    }
    return same && memcmp(a->targets, b->targets, (size_t)a->n_targets * sizeof *a->targets) == 0;
}

static void test_determinism(void)
{
    PF_CASE("the same library for one and for three threads, another for another seed");
    made one, three, other;
    bool good = make(&one, "attitude", NULL, 0, 0, 1);
    good = make(&three, "attitude", NULL, 0, 0, 3) && good;
    good = make_seeded(&other, "attitude", one.plan.seed + 1, NULL, 0, 0, 3) && good;
    CHECK(good && same_library(&one, &three));
    CHECK(good && !same_library(&one, &other));
    made_free(&one);
    made_free(&three);
    made_free(&other);
}

// --- constraints

static bool all_allowed(const made *m)
{
    for (int q = 0; q < m->design.library.n_probes; q++) {
        pf_error error = {PF_OK, ""};
        const pf_design_probe *p = &m->design.library.probes[q];
        if (pf_design_allows(&m->config, &m->plan, p->probe.rows, p->probe.command, &error) !=
            PF_OK) {
            printf("%s: %s\n", p->probe.name, error.text);
            return false;
        }
    }
    return true;
}

static void test_constraints(void)
{
    static const struct {
        const char *plant, *name, *overrides[2];
    } cases[] = {
        {"battery", "at most two at once", {"design.at_once=2"}},
        {"battery", "three apart from each other", {"design.apart=[[1, 2, 3]]"}},
        {"quadrotor", "zero integral", {"design.zero_integral=true"}},
        {"quadrotor", "rate of half an amplitude", {"design.rate=.5"}},
        {"quadrotor", "zero integral and rate", {"design.zero_integral=true", "design.rate=.5"}},
        {"pump_tank", "one-sided", {"design.one_sided=true"}},
        {"building",
         "limits of one mechanism",
         {"design.mechanisms=[{name: unit_east, hi: .2, lo: -.1}]"}},
        {"wood_berry", "five steps", {"design.steps=5"}},
        {"quadrotor",
         "rate of one mechanism",
         {"design.mechanisms=[{name: yaw, rate: 4e-5}]", "design.with_singles=false"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[100];
        made m;
        snprintf(name, sizeof name, "constraint: %s (%s)", cases[i].name, cases[i].plant);
        PF_CASE(name);
        if (make(&m, cases[i].plant, cases[i].overrides, cases[i].overrides[1] ? 2 : 1, 0, 0)) {
            CHECK(m.design.n_designed > 0 && m.design.n_weak == 0);
            CHECK(all_allowed(&m));
            // three axes that hardly touch each other: one probe, whatever the waveforms may be
            CHECK(strcmp(cases[i].plant, "quadrotor") != 0 || m.design.n_designed == 1);
        }
        made_free(&m);
    }
}

static void test_excursion(void)
{
    made free, held;
    PF_CASE("constraint: a bounded output stays within its bound");
    bool good = make(&free, "quadrotor", NULL, 0, 0, 0);
    const pf_plan *plan = &free.plan;
    int channel = 0;
    while (good && channel < plan->n_chan && strcmp(plan->channels[channel].name, "roll_rate")) {
        channel++;
    }
    char override[96];
    const char *const overrides[] = {override};
    if (!good || !CHECK(channel < plan->n_chan)) {
        made_free(&free);
        return;
    }
    // less than the single pulse of roll does, so that one stays out
    double most = 0;
    for (int q = free.design.n_designed; q < free.design.library.n_probes; q++) {
        most = fmax(most, .8 * free.design.library.probes[q].excursion[channel]);
    }
    snprintf(override, sizeof override, "design.excursion=[{channel: roll_rate, most: %.17g}]",
             most);
    if (make(&held, "quadrotor", overrides, 1, 0, 0)) {
        CHECK(held.design.n_designed > 0 && held.design.n_left > 0 && all_allowed(&held));
        for (int q = 0; q < held.design.library.n_probes; q++) {
            CHECK(held.design.library.probes[q].excursion[channel] <= most);
        }
    }
    made_free(&free);
    made_free(&held);
}

static void test_weak(void)
{
    static const char *const far[] = {"design.target=1000"};
    made m;
    PF_CASE("what cannot be separated is named, the library holds what can be done");
    if (make(&m, "dc_servo", far, 1, 0, 0)) {
        CHECK(m.design.n_weak == m.plan.n_mech - 1);
        CHECK(m.design.library.n_probes > 0);
    }
    made_free(&m);
}

static void test_hopeless(void)
{
    PF_CASE("nothing to be seen at all is refused");
    pf_error error = {PF_OK, ""};
    made m = {0};
    CHECK(pf_plant_create(&m.plant, "dc_servo", &error) == PF_OK);
    CHECK(pf_plan_default(&m.plan, pf_plant_get_info(m.plant), &error) == PF_OK);
    CHECK(pf_design_config_default(&m.config, &m.plan, &error) == PF_OK);
    m.plan.sensor_noise = 1e6;
    CHECK(pf_design_create(&m.design, &m.config, &m.plan, m.plant, NULL, NULL, &error) ==
          PF_ERR_DEGENERATE);
    CHECK_CONTAINS(error.text, "no allowed probe");
    made_free(&m);
}

void test_design(void)
{
    test_confirmed();
    test_determinism();
    test_constraints();
    test_excursion();
    test_weak();
    test_hopeless();
}
