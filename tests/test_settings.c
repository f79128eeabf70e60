// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/kit_layout.h"
#include "test.h"
#include "bench/experiment.h"
#include "bench/kits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Cells of a suite: by axes, and named one by one.

static bool open_suite(const char *more, pf_suite *suite, pf_experiment *e, pf_error *error)
{
    char text[600];
    snprintf(text, sizeof text,
             "id: short\ntitle: t\nenvironments: [dc_servo]\nmethods: [eg-mpt]\nseeds: 1\n"
             "trials: 2\nepisodes: 12\nalarm_trials: 20\n%s",
             more);
    *error = (pf_error){PF_OK, ""};
    if (pf__suite_read(suite, "short", text, strlen(text), NULL, 0, error) != PF_OK) {
        return false;
    }
    if (pf__experiment_init(e, suite, pf__profile_find("paper"), error) != PF_OK) {
        pf__suite_free(suite);
        return false;
    }
    return true;
}

static void test_named(void)
{
    pf_suite suite;
    pf_experiment e;
    pf_error error;
    PF_CASE("settings: named one by one, what is left out is the suite's");
    if (CHECK(open_suite("gains: .35\nstage2: 2\nbins: 5\nsettings:\n  - A=0.10;B2=1;g=0.20\n"
                         "  - K=3;P=4\n  - profile=rare-critical\n  - g=0.20\n",
                         &suite, &e, &error))) {
        const pf_cell *c = e.cells;
        CHECK(e.n_cells == 4);
        CHECK(c[0].amplitude == .1 && c[0].settings.budget2 == 1 && c[0].gain == .2 &&
              c[0].settings.bins == 5);
        CHECK(c[1].settings.bins == 3 && c[1].opportunities == 4 && c[1].gain == .35 &&
              c[1].settings.budget2 == 2);
        CHECK(isnan(c[1].amplitude) && c[1].settings.g_cal == .35);
        CHECK(c[2].risk == PF_RISK_RARE_CRITICAL && c[1].risk == PF_RISK_OWN);
        CHECK_STR(c[2].text, "profile=rare-critical");
        PF_CASE("settings: cells that calibrate alike share their kits");
        CHECK(e.n_calibrations == 4 && c[3].calibration != c[2].calibration);
        pf__experiment_free(&e);
        pf__suite_free(&suite);
    }
    static const char *const bad[] = {"Z=1", "g=1.5", "g",   "B2=x", "profile=odd", "K=2.5",
                                      "A=",  "B2=9",  "K=1", "N=0",  "P=31"};
    PF_CASE("settings: refused with the key");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char more[100];
        snprintf(more, sizeof more, "settings: ['%s']\n", bad[i]);
        CHECK(!open_suite(more, &suite, &e, &error));
        CHECK_CONTAINS(error.text, "is none of A B2 K N P g profile");
    }
}

static void test_axes(void)
{
    pf_suite suite;
    pf_experiment e;
    pf_error error;
    PF_CASE("settings: an axis of opportunities; recalibration follows the gain");
    if (CHECK(open_suite("gains: [.20, .50]\nrecalibrate: true\nopportunities: [1, 6]\n", &suite,
                         &e, &error))) {
        CHECK(e.n_cells == 4 && e.n_calibrations == 4);
        for (int i = 0; i < e.n_cells; i++) {
            CHECK(e.cells[i].settings.g_cal == e.cells[i].gain);
        }
        CHECK(pf__experiment_cell(&e, "B2=1;P=6;g=0.50") != NULL);
        pf__experiment_free(&e);
        pf__suite_free(&suite);
    }
    PF_CASE("settings: what the hash holds; what came later only where it is not the default");
    if (CHECK(open_suite("alpha: .2\n", &suite, &e, &error))) {
        CHECK_CONTAINS(e.settings, "\"alpha\":0.2");
        CHECK_CONTAINS(e.settings, "\"grid\":17");
        CHECK_CONTAINS(e.settings, "\"stop\":\"break\"");
        CHECK(!strstr(e.settings, "sensor_noise") && !strstr(e.settings, "weighting"));
        pf__experiment_free(&e);
        pf__suite_free(&suite);
    }
    if (CHECK(open_suite("sensor_noise: .5\n", &suite, &e, &error))) {
        CHECK_CONTAINS(e.settings, "\"sensor_noise\":0.5");
        pf__experiment_free(&e);
        pf__suite_free(&suite);
    }
    PF_CASE("settings: other settings, another hash; a predictor that there is");
    char first[PF_HASH_TEXT] = "";
    static const char *const variants[] = {"", "sensor_noise: .5\n", "recalibrate: true\n",
                                           "predictor: ensemble\n"};
    for (int i = 0; i < 4; i++) {
        if (CHECK(open_suite(variants[i], &suite, &e, &error))) {
            CHECK(i == 0 || strcmp(first, e.hash) != 0);
            CHECK(pf__experiment_learned(&e) == (i == 3));
            memcpy(first, i == 0 ? e.hash : first, sizeof first);
            pf__experiment_free(&e);
            pf__suite_free(&suite);
        }
    }
    CHECK(!open_suite("predictor: oracle\n", &suite, &e, &error));
    CHECK_CONTAINS(error.text, "neither twin nor ensemble");
    PF_CASE(
        "settings: a reading is part of the experiment where it acts; an unknown one lists them");
    static const char *const readings[] = {
        "pulse: doublet\n",    "reference: member\n",  "edges: pooled\n", "grid_one: with_one\n",
        "threshold: shared\n", "reveal: mitigation\n", "stop: latch\n"};
    for (int i = 0; i < 7; i++) {
        if (CHECK(open_suite(readings[i], &suite, &e, &error))) {
            bool acts = i > 1; // no MuJoCo system, nothing learned
            CHECK((strcmp(first, e.hash) != 0) == acts);
            CHECK((strstr(e.settings, "\"pulse\"") != NULL) == false);
            CHECK_CONTAINS(e.settings, i == 2 ? "\"edges\":\"pooled\"" : "\"edges\":\"nominal\"");
            pf__experiment_free(&e);
            pf__suite_free(&suite);
        }
    }
    CHECK(!open_suite("edges: weakened\n", &suite, &e, &error));
    CHECK_CONTAINS(error.text, "pooled");
    CHECK_CONTAINS(error.text, "nominal");
    CHECK(!open_suite("verdict: field\nedges: nominal\n", &suite, &e, &error));
    CHECK_CONTAINS(error.text, "the field's has no edges");
    PF_CASE(
        "settings: where an ensemble is learned is part of the experiment; a twin learns nothing");
    if (CHECK(open_suite("learned_on: battery\npredictor: ensemble\n", &suite, &e, &error))) {
        CHECK_CONTAINS(e.settings, "\"learned_on\":\"battery\"");
        pf__experiment_free(&e);
        pf__suite_free(&suite);
    }
    if (CHECK(open_suite("learned_on: itself\npredictor: twin\n", &suite, &e, &error))) {
        CHECK_STR(e.hash, first);
        pf__experiment_free(&e);
        pf__suite_free(&suite);
    }
    CHECK(!open_suite("learned_on: battery\n", &suite, &e, &error));
    CHECK_CONTAINS(error.text, "a twin learns nothing");
    CHECK(!open_suite("learned_on: [battery, battery]\npredictor: ensemble\n", &suite, &e, &error));
    CHECK_CONTAINS(error.text, "learned_on: 2 plants for 1 environments");
}

static void test_law(void)
{
    PF_CASE("schedule: so many opportunities after a change at round 10");
    for (int p = 1; p <= 6; p++) {
        const double gain = .35;
        pf_schedule_settings settings = {50, .2, 7, p, 1, 1, &gain};
        pf_schedule schedule = pf__schedule_draw(1, "ant", 3, &settings);
        int after = 0;
        for (int round = PF_SCHEDULE_PERIOD; round < schedule.reveal; round += PF_SCHEDULE_PERIOD) {
            after += round >= schedule.tau;
        }
        CHECK(schedule.tau == 10 && after == p);
        settings.opportunities = 0;
        CHECK(schedule.mechanism[0] == pf__schedule_draw(1, "ant", 3, &settings).mechanism[0]);
    }
}

// --- what a request does to a kit

static pf_kits_request request_for(pf_settings *settings, pf_plant *plant, const char *fingerprint,
                                   int n_methods, const char *const *methods)
{
    *settings = pf__settings_default(PF_SETTINGS_SUITE);
    settings->sigma = .06;
    settings->grid.otherwise = 9;
    settings->episodes = 20;
    settings->alarm_trials = 20;
    return (pf_kits_request){.plant = plant,
                             .seed = 1,
                             .settings = settings,
                             .amplitude = NAN,
                             .n_methods = n_methods,
                             .methods = methods,
                             .fingerprint = fingerprint};
}

static bool kit_of(pf_kits_request *request, pf_trial_kits *kits)
{
    pf_error error = {PF_OK, ""};
    bool good = pf__kits_calibrate(kits, request, &error) == PF_OK;
    CHECK_STR(error.text, "");
    return good;
}

static void test_kits(void)
{
    static const char *const methods[] = {"eg-mpt"};
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    char print[65], keys[2][65];
    CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    CHECK(pf__plant_fingerprint(plant, print, &error) == PF_OK);
    pf_settings s;
    pf_kits_request r = request_for(&s, plant, print, 1, methods);
    s.sigma = NAN;
    pf_trial_kits own, other;
    PF_CASE("kits: the amplitude of the probes alone, and the rare and critical last task");
    pf__kits_key(&r, keys[0]);
    bool good = kit_of(&r, &own);
    r.amplitude = .5;
    r.risk = PF_RISK_RARE_CRITICAL;
    pf__kits_key(&r, keys[1]);
    good = kit_of(&r, &other) && good;
    CHECK(strcmp(keys[0], keys[1]) != 0);
    if (good) {
        const pf_kit *a = own.kit[PF_STATISTIC_MATCHED], *b = other.kit[PF_STATISTIC_MATCHED];
        for (int i = 0; i < a->n_rows * a->n_mech; i++) {
            CHECK_NEAR(b->command[i], .5 * a->command[i], 1e-15);
        }
        CHECK(memcmp(a->task_command, b->task_command,
                     sizeof(double) * (size_t)(a->n_task_rows * a->n_mech)) == 0);
        // three candidates, four actuators: 3:2:1, the last one worth eight times as much
        CHECK_NEAR(b->task_reveal[0], 3 / 6., 1e-15);
        CHECK_NEAR(b->task_reveal[2], 1 / 6., 1e-15);
        CHECK(b->task_importance[0] == 1 && b->task_importance[2] == 8);
    }
    pf__kits_free(&own);
    pf__kits_free(&other);
    pf_plant_destroy(plant);
}

// --- group methods and several faults

static void test_groups(void)
{
    pf_suite suite;
    pf_experiment e;
    pf_error error;
    PF_CASE("settings: faults at once are an axis, their gains are not");
    if (CHECK(open_suite("gains: [.20, .50]\nn_faults: [1, 3]\nstage2: [0, 2]\n", &suite, &e,
                         &error))) {
        CHECK(e.n_cells == 4 && e.n_calibrations == 1);
        const pf_cell *c = pf__experiment_cell(&e, "B2=2;F=3");
        CHECK(c && c->n_faults == 3 && isnan(c->gain));
        CHECK(pf__experiment_setup(&e, c).blame);
        CHECK(pf__experiment_select(&e, 1, (const char *const[]){"F=3"}, &error) == PF_OK);
        for (size_t u = 0; u < e.n_units; u++) {
            CHECK(pf__experiment_wants(&e, &e.units[u]) ==
                  (strstr(e.units[u].setting, "F=3") != NULL));
        }
        pf__experiment_free(&e);
        pf__suite_free(&suite);
    }
    static const struct {
        const char *text, *expect;
    } bad[] = {{"faults: many\n", "faults: is for the methods group"},
               {"weighting: shrunk\n", "weighting: is for the methods group"},
               {"every_severity: true\n", "every_severity: is for the methods group"},
               {"probes: single\n", "probes: is for the methods group"},
               {"n_faults: 0\n", "n_faults"},
               {"n_faults: [2, 2]\n", "listed twice"},
               {"n_faults: 2\nrecalibrate: true\n", "leave out settings and recalibrate"}};
    PF_CASE("settings: what only group methods use is refused without one");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!open_suite(bad[i].text, &suite, &e, &error));
        CHECK_CONTAINS(error.text, bad[i].expect);
    }
}

static void test_fault_law(void)
{
    PF_CASE("schedule: several faults, distinct, of different gains; the first as with one");
    const double gains[] = {.2, .35, .5};
    for (int trial = 0; trial < 200; trial++) {
        pf_schedule_settings one = {200, .2, 4, 0, 1, 1, gains}, s = {200, .2, 4, 0, 3, 3, gains};
        pf_schedule a = pf__schedule_draw(4, "battery", trial, &one),
                    b = pf__schedule_draw(4, "battery", trial, &s);
        CHECK(a.nominal == b.nominal && a.tau == b.tau && a.reveal == b.reveal);
        CHECK(b.n_changed == (b.nominal ? 0 : 3));
        CHECK(a.nominal || (a.n_changed == 1 && a.mechanism[0] == b.mechanism[0]));
        CHECK(a.nominal || a.gain[0] == .2);
        for (int i = 0; i < b.n_changed; i++) {
            CHECK(pf__schedule_fault(&b, b.mechanism[i]) == i && b.mechanism[i] >= 1);
            for (int k = 0; k < i; k++) {
                CHECK(b.gain[i] != b.gain[k]);
            }
        }
        s.n_faults = 8; // more than there are candidates
        CHECK(pf__schedule_draw(4, "battery", trial, &s).n_changed == (b.nominal ? 0 : 4));
    }
}

// A library of group probes from a file, and everything that differs for the group methods.
static void test_group_kits(void)
{
    static const char *const methods[] = {"eg-mpt", "group", "random"};
    static const char library[] =
        "probes:\n"
        "  - {name: one, pulse: {mechanism: 3, amplitude: 3e-5, steps: 8}}\n"
        "  - name: both\n"
        "    command: [[0, 3e-5, 3e-5, 0], [0, 3e-5, 3e-5, 0], [0, 3e-5, 3e-5, 0],\n"
        "              [0, 3e-5, 3e-5, 0], [0, 3e-5, 0, 0], [0, 3e-5, 0, 0], [0, 3e-5, 0, 0],\n"
        "              [0, 3e-5, 0, 0]]\n"
        "    targets: [1, 2]\n";
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    char print[65], keys[2][65];
    CHECK(pf_plant_create(&plant, "pump_tank", &error) == PF_OK);
    CHECK(pf__plant_fingerprint(plant, print, &error) == PF_OK);
    pf_settings s;
    pf_kits_request r = request_for(&s, plant, print, 3, methods);
    s.episodes = 30;
    s.alarm_trials = 40;
    r.group = (pf_group_settings){"lib.yaml", library};
    s.faults = PF_FAULTS_MANY;
    s.weighting = PF_WEIGHTING_SHRUNK;
    PF_CASE("kits: group methods have their own probes, channel, belief and weights");
    pf_trial_kits kits, none;
    pf__kits_key(&r, keys[0]);
    if (kit_of(&r, &kits)) {
        const pf_kit *paper = kits.kit[0], *norm = kits.kit[1], *group = kits.kit[2];
        CHECK(paper->n_probes == 3 && norm->n_probes == 3 && group->n_probes == 2);
        CHECK(group->n_targets == 3 && group->faults == PF_FAULTS_MANY && group->n_whiten > 0);
        CHECK(paper->faults == PF_FAULTS_ONE && paper->n_whiten == 0);
        // the tasks are the plant's whatever the probes are
        CHECK(memcmp(paper->task_command, group->task_command,
                     sizeof(double) * (size_t)(paper->n_task_rows * paper->n_mech)) == 0);
        CHECK(paper->sigma[0] == .06 && group->sigma[0] != .06);
        CHECK(strcmp(pf_kit_method_id(group, 0), "group") == 0 && group->threshold[0] < 1);
        CHECK(pf__kits_library(&kits, true) == group && pf__kits_library(&kits, false) == paper);
        pf__kits_free(&kits);
    }
    s.weighting = PF_WEIGHTING_NONE;
    pf__kits_key(&r, keys[1]);
    CHECK(strcmp(keys[0], keys[1]) != 0);
    PF_CASE("kits: a library that cannot be read names its place");
    r.group.library = "probes: [{name: a}]\n";
    CHECK(pf__kits_calibrate(&none, &r, &error) != PF_OK);
    CHECK_CONTAINS(error.text, "lib.yaml:1:10");
    pf_plant_destroy(plant);
}

// --- what nominal trials said

typedef struct drawer {
    char key[65];
    void *bytes;
    size_t n;
    int gets, puts;
} drawer;

static bool drawer_get(void *self, const char *key, void **bytes, size_t *n)
{
    drawer *d = self;
    d->gets++;
    *bytes = NULL;
    if (d->bytes && strcmp(d->key, key) == 0) {
        *bytes = malloc(d->n);
        memcpy(*bytes, d->bytes, d->n);
        *n = d->n;
    }
    return true;
}

static bool drawer_put(void *self, const char *key, const void *bytes, size_t n)
{
    drawer *d = self;
    d->puts++;
    free(d->bytes);
    d->bytes = malloc(n);
    memcpy(d->bytes, bytes, n);
    d->n = n;
    strcpy(d->key, key);
    return true;
}

static bool same_kits(const pf_trial_kits *a, const pf_trial_kits *b)
{
    bool same = true;
    for (int f = 0; f < PF_FAMILIES; f++) {
        same = same && a->n[f] == b->n[f] &&
               (a->n[f] == 0 || memcmp(a->bytes[f], b->bytes[f], a->n[f]) == 0);
    }
    return same;
}

// Of a plant that does not run in step, as a simulator: for the others nothing is kept.
static void test_ledger(void)
{
    static const char *const methods[] = {"eg-mpt", "bayes-risk", "random"};
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    char print[65];
    CHECK(pf_plant_create(&plant, "dc_servo", &error) == PF_OK);
    pf_plant_ops alone = *plant->ops;
    alone.roll_many = NULL;
    plant->ops = &alone;
    CHECK(pf__plant_fingerprint(plant, print, &error) == PF_OK);
    pf_settings s;
    pf_kits_request r = request_for(&s, plant, print, 3, methods);
    r.seed = 5;
    s.alarm_trials = 60;
    drawer d = {.bytes = NULL};
    for (int i = 0; i < 4; i++) {
        PF_CASE(i == 0   ? "nominal: nominal trials are run once and kept"
                : i == 1 ? "nominal: other bins ask again and hear the same"
                : i == 2 ? "nominal: another calibration gain is another question"
                         : "nominal: bytes of another size are none");
        pf_trial_kits with, without;
        s.bins = i == 1 ? 3 : 5;
        s.g_cal = i == 2 ? .5 : .35;
        d.n = i == 3 ? 8 : d.n;
        int puts = d.puts;
        char key[65];
        strcpy(key, d.key);
        r.nominal = (pf_blob_store){&d, drawer_get, drawer_put};
        bool good = kit_of(&r, &with);
        r.nominal = (pf_blob_store){NULL, NULL, NULL};
        if (CHECK(good) && CHECK(kit_of(&r, &without))) {
            CHECK(same_kits(&with, &without));
            CHECK(i == 0 || (strcmp(key, d.key) == 0) == (i == 1));
            CHECK(i == 1 || d.puts == puts + 1);
            pf__kits_free(&with);
            pf__kits_free(&without);
        }
    }
    CHECK(d.gets == 4);
    free(d.bytes);
    pf_plant_destroy(plant);
}

void test_settings(void)
{
    test_ledger();
    test_groups();
    test_fault_law();
    test_group_kits();
    test_named();
    test_axes();
    test_law();
    test_kits();
}
