// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design/design_impl.h"
#include "design/search.h"
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
    pf__design_free(&m->design);
    pf__limits_free(&m->config);
    pf__plan_free(&m->plan);
    pf_plant_destroy(m->plant);
}

// Designs on m->plant under the overrides; episodes 0: the default.
static bool make_on(made *m, const char *const *overrides, int n, int episodes, int threads)
{
    pf_error error = {PF_OK, ""};
    bool good = pf__plan_from_config(&m->plan, pf_plant_get_info(m->plant), "test", NULL, 0,
                                     overrides, n, &error) == PF_OK &&
                pf__design_config_read(&m->config, &m->plan, &error) == PF_OK;
    m->config.compare = false;
    m->config.episodes = episodes > 0 ? episodes : m->config.episodes;
    pf_effort effort = {.threads = threads};
    good = good && pf__design_create(&m->design, &m->config, &m->plan, m->plant, NULL, &effort,
                                     &error) == PF_OK;
    if (!CHECK(good)) {
        printf("%s: %s\n", pf_plant_get_info(m->plant)->name, error.text);
    }
    return good;
}

// The same on a plant by its name.
static bool make(made *m, const char *plant, const char *const *overrides, int n, int episodes,
                 int threads)
{
    pf_error error = {PF_OK, ""};
    memset(m, 0, sizeof *m);
    return CHECK(pf_plant_create(&m->plant, plant, &error) == PF_OK) &&
           make_on(m, overrides, n, episodes, threads);
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
    good = make(&other, "attitude", (const char *[]){"seed=7"}, 1, 0, 3) && good;
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
        if (pf__design_allows(&m->config, &m->plan, p->probe.rows, p->probe.command, &error) !=
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

// What the design says of pairs must agree with the probes it keeps.
static void check_pairs(const pf_design *d)
{
    const pf_design_library *l = &d->library;
    for (int i = 0; i < d->n_pairs; i++) {
        for (int q = 0; q < l->n_probes; q++) {
            int good = 0;
            for (int t = 0; t < l->probes[q].probe.n_targets; t++) {
                const pf_design_target *target = &l->targets[l->probes[q].first + t];
                good += target->good && (target->mechanism == d->pairs[2 * i] ||
                                         target->mechanism == d->pairs[2 * i + 1]);
            }
            CHECK(good < 2);
        }
    }
}

// Opposed thrusters make up for each other; alone none may do more than shows 4 standard
// deviations.
static void test_opposed(void)
{
    static const struct {
        const char *name, *overrides[2];
        int n, channels[3];
    } cases[] = {
        {"one angle", {"design.excursion=[{channel: angle_z, most: .0005}]"}, 1, {2}},
        {"a fifth of that", {"design.excursion=[{channel: angle_z, most: .0001}]"}, 1, {2}},
        {"three angles and 16 steps",
         {"design.steps=16", "design.excursion=[{channel: angle_x, most: .002}, {channel: angle_y, "
                             "most: .002}, {channel: angle_z, most: .002}]"},
         3,
         {0, 1, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[100];
        made m;
        snprintf(name, sizeof name, "opposed mechanisms share probes within a tight bound: %s",
                 cases[i].name);
        PF_CASE(name);
        if (make(&m, "attitude", cases[i].overrides, cases[i].overrides[1] ? 2 : 1, 0, 0)) {
            CHECK(m.design.n_weak == 0 && all_allowed(&m));
            for (int q = 0; q < m.design.library.n_probes; q++) {
                for (int c = 0; c < cases[i].n; c++) {
                    int channel = cases[i].channels[c];
                    CHECK(m.design.library.probes[q].excursion[channel] <= m.config.most[channel]);
                }
            }
            check_pairs(&m.design);
        }
        made_free(&m);
    }
}

// Neither elevon may move alone; both together show less than the target, and that is kept.
static void test_helped(void)
{
    PF_CASE("a candidate that stays too weak within bounds is looked at all the same");
    static const char *const held[] = {"design.excursion=[{channel: roll_rate, most: .01}]"};
    made m;
    if (make(&m, "aircraft", held, 1, 0, 0)) {
        bool looked[4] = {false};
        for (int t = 0; t < m.design.library.n_targets; t++) {
            looked[m.design.library.targets[t].mechanism] = true;
        }
        CHECK(looked[1] && looked[2] && looked[3]);
        for (int q = 0; q < m.design.library.n_probes; q++) {
            for (int i = 0; i < q; i++) {
                CHECK(!pf__design_same(&m.plan, &m.design.library.probes[q].probe,
                                       &m.design.library.probes[i].probe));
            }
        }
    }
    made_free(&m);
}

static void test_other_plan(void)
{
    PF_CASE("constraints that were read for another plan are refused");
    made servo = {0}, thrusters = {0};
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&servo.plant, "dc_servo", &error) == PF_OK);
    CHECK(pf_plant_create(&thrusters.plant, "attitude", &error) == PF_OK);
    CHECK(pf__plan_default(&servo.plan, pf_plant_get_info(servo.plant), &error) == PF_OK);
    CHECK(pf__plan_default(&thrusters.plan, pf_plant_get_info(thrusters.plant), &error) == PF_OK);
    CHECK(pf__design_config_read(&servo.config, &servo.plan, &error) == PF_OK);
    CHECK(pf__design_create(&thrusters.design, &servo.config, &thrusters.plan, thrusters.plant,
                            NULL, NULL, &error) == PF_ERR_MISMATCH);
    made_free(&servo);
    made_free(&thrusters);
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
    CHECK(pf__plan_default(&m.plan, pf_plant_get_info(m.plant), &error) == PF_OK);
    CHECK(pf__design_config_read(&m.config, &m.plan, &error) == PF_OK);
    m.plan.settings.sensor_noise = 1e6;
    CHECK(pf__design_create(&m.design, &m.config, &m.plan, m.plant, NULL, NULL, &error) ==
          PF_ERR_DEGENERATE);
    CHECK_CONTAINS(error.text, "no allowed probe");
    made_free(&m);
}

// --- two tanks that know nothing of each other

// The first one's gauge reads more and more beyond what superposition says.
static void tanks_reset(double *x, pf_rng *rng)
{
    (void)rng;
    x[0] = x[1] = 0;
}

static void tanks_advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)w;
    x[0] += v[1];
    x[1] += knob[0] * v[2];
}

static void tanks_output(const double *knob, const double *x, const double *v, const double *w,
                         double *y)
{
    (void)knob, (void)v, (void)w;
    y[0] = x[0] + .1 * x[0] * x[0] * x[0];
    y[1] = x[1];
}

static const pf_mechanism valves[] = {{"none", -1, 1}, {"a", -1, 1}, {"b", -1, 1}};
static const pf_channel gauges[] = {{"of_a", .6, 0}, {"of_b", .5, 0}};
static const pf_knob tank_knobs[] = {{"b", 1, "strength of b"}};
static const pf_pulse valve_pulse = {8, 8, false, (const double[]){0, 1, 1}};
static const pf_plant_class tanks = {
    .info = {"tanks", "two tanks", "test_design.c", 3, 2, 2, 1, valves, gauges,
             .probe = &valve_pulse, .task = &valve_pulse, .n_knobs = 1, .knobs = tank_knobs},
    .reset = tanks_reset,
    .advance = tanks_advance,
    .output = tanks_output,
};

static bool make_tanks(made *m, double b, const char *const *overrides, int n)
{
    pf_error error = {PF_OK, ""};
    memset(m, 0, sizeof *m);
    return CHECK(pf_plant_from_class(&m->plant, &tanks, &error) == PF_OK) &&
           CHECK(pf_plant_set_knob(m->plant, "b", b, &error) == PF_OK) &&
           make_on(m, overrides, n, 0, 0);
}

// The designed probe of one mechanism. NULL: there is none.
static const pf_design_probe *probe_of(const made *m, int mechanism)
{
    for (int t = 0; t < m->design.library.n_targets; t++) {
        const pf_design_target *target = &m->design.library.targets[t];
        if (target->mechanism == mechanism && target->probe < m->design.n_designed) {
            return &m->design.library.probes[target->probe];
        }
    }
    return NULL;
}

// Superposition lets the first tank rise by 3 of the 4 that are allowed, where it reads 5.7: its
// probe has to be held to less, and that of the other one not.
static void test_tighter(void)
{
    PF_CASE("a bound that one group has to be held to leaves the others alone");
    static const char *const one[] = {"design.at_once=1",
                                      "design.excursion=[{channel: of_b, most: 4}]"};
    static const char *const both[] = {
        "design.at_once=1",
        "design.excursion=[{channel: of_b, most: 4}, {channel: of_a, most: 4}]"};
    made free, held;
    bool good = make_tanks(&free, 1, one, 2);
    good = make_tanks(&held, 1, both, 2) && good;
    const pf_design_probe *b = good ? probe_of(&free, 2) : NULL;
    const pf_design_probe *same = good ? probe_of(&held, 2) : NULL;
    const pf_design_probe *a = good ? probe_of(&held, 1) : NULL;
    if (good && CHECK(a && b && same)) {
        CHECK_NEAR(a->excursion[0], 2.8, 1e-9);
        CHECK_NEAR(b->excursion[1], 4, 1e-9);
        CHECK_NEAR(same->excursion[1], 4, 1e-9);
        CHECK(memcmp(b->probe.command, same->probe.command,
                     (size_t)b->probe.rows * 3 * sizeof(double)) == 0);
        CHECK(held.design.n_weak == 0);
    }
    made_free(&free);
    made_free(&held);
}

// Nothing shows the second tank, and the single pulse of the first one rises too far.
static void test_dropped(void)
{
    PF_CASE("a library tells of what it holds, not of probes that were dropped");
    static const char *const held[] = {"design.excursion=[{channel: of_a, most: 4}]"};
    made m;
    if (make_tanks(&m, 1e-3, held, 1)) {
        const pf_design_library *l = &m.design.library;
        CHECK(l->n_probes == 1 && l->n_targets == 1 && m.design.n_designed == 1);
        CHECK(m.design.n_weak == 1 && m.design.weak[0] == 2 && m.design.n_left == 2);
        CHECK(l->smallest == l->targets[0].confirmed && l->smallest >= m.config.target);
        CHECK_NEAR(l->worst_move,
                   fmax(l->probes[0].excursion[0] / m.design.scale[0],
                        l->probes[0].excursion[1] / m.design.scale[1]),
                   1e-12);
        char said[60];
        pf_text text = {0};
        snprintf(said, sizeof said, "smallest confirmed %.1f.\n", l->targets[0].confirmed);
        pf__library_write(&m.design, &m.config, &m.plan, "twin", &text);
        CHECK(!text.failed);
        CHECK_CONTAINS(text.data, said);
        pf__text_free(&text);
    }
    made_free(&m);
}

void test_design(void)
{
    test_confirmed();
    test_determinism();
    test_constraints();
    test_excursion();
    test_opposed();
    test_helped();
    test_other_plan();
    test_weak();
    test_hopeless();
    test_tighter();
    test_dropped();
}
