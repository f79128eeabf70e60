// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "bench/trial.h"
#include "database.h"
#include "host/file.h"
#include "program.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Suites that measure the shipped verdict: what they store is what `check` says.

static char folder[200];

static const char suite_text[] = "id: shipped\n"
                                 "title: the shipped verdict\n"
                                 "verdict: field\n"
                                 "environments: [attitude]\n"
                                 "methods: [eg-mpt]\n"
                                 "gains: [.1, .35]\n";

enum { TRIALS = 4 }; // of the profile quick

static bool stored(const char *metric, double gain, int trial, double value)
{
    char sql[400], path[256];
    snprintf(path, sizeof path, "%s/field.db", folder);
    snprintf(
        sql, sizeof sql,
        "SELECT count(*) FROM trial_metric WHERE metric = '%s' AND trial = %d AND seed = 0 AND "
        "setting = 'B2=2;g=%.2f' AND abs(value - %.17g) <= 1e-14",
        metric, trial, gain, value);
    return database_ask(path, NULL, sql) == 1;
}

// What `check` says of the machine of one trial.
static json_t *check_machine(double gain, int trial)
{
    char command[700];
    const pf_schedule_settings settings = {.trials = TRIALS,
                                           .share = .2,
                                           .candidates = 7,
                                           .n_faults = 1,
                                           .n_gains = 1,
                                           .gains = &gain};
    pf_schedule schedule = pf__schedule_draw(0, "attitude", trial, &settings);
    int n = snprintf(command, sizeof command, "'%s' check '%s/attitude.kit' --json --seed %llu",
                     PF_PROGRAM, folder, (unsigned long long)pf__field_seed(0, trial));
    if (!schedule.nominal) {
        snprintf(command + n, sizeof command - (size_t)n, " --fault %d:%.17g",
                 schedule.mechanism[0], schedule.gain[0]);
    }
    FILE *f = popen(command, "r");
    json_t *verdict = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (f) {
        pclose(f);
    }
    return verdict;
}

static void compare(double gain, int trial)
{
    json_t *verdict = check_machine(gain, trial), *tasks = json_object_get(verdict, "tasks");
    double go = 0, bounds = 0;
    size_t n = json_array_size(tasks);
    if (!CHECK(n == 7)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *task = json_array_get(tasks, i);
        go += strcmp(json_string_value(json_object_get(task, "decision")), "go") == 0;
        bounds += json_number_value(json_object_get(task, "lower"));
    }
    CHECK(stored("go", gain, trial, go / (double)n));
    CHECK(stored("all_go", gain, trial, go == (double)n));
    CHECK(stored("bound", gain, trial, bounds / (double)n));
    CHECK(stored("cost", gain, trial, json_number_value(json_object_get(verdict, "charge"))));
    json_decref(verdict);
}

static void check_refused(void)
{
    static const struct {
        const char *suite, *set, *why;
    } bad[] = {
        {"shipped", "verdict=both", "verdict"},
        {"shipped", "opportunities=[2]",
         "the field's has no opportunities; leave it out, or say paper"},
        {"shipped", "recalibrate=true", "the field's has no recalibrate"},
        {"shipped", "settings=[\"B2=1\"]", "the field's has no settings"},
        {"audited", "verdict=paper", "a verdict suite is about field kits; say verdict: field"},
        {"audited", "n_faults=[2]", "the field's has no n_faults"},
        {"audited", "methods=[eg-mpt]", "there is no rule 'eg-mpt'; those of a verdict suite are"},
        {"audited", "bins=[4,7]", "a verdict suite has no several bins"},
        {"audited", "hazard=.3", "a verdict suite has no hazard"},
        {"audited", "table=ranks", "a verdict suite has no table but settings"},
        {"audited", "metrics=[zork]", "there is no metric 'zork'"},
        {"audited", "settings=[gremlins]", "the catalogue has no entry 'gremlins'"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char arguments[600];
        snprintf(arguments, sizeof arguments,
                 "bench run '%s/%s.yaml' --profile quick --db '%s/bad.db' --set '%s'", folder,
                 bad[i].suite, folder, bad[i].set);
        CHECK(program(arguments, 3, bad[i].why));
    }
}

// --- verdict suites

static const char audit_suite[] = "id: audited\n"
                                  "title: rules on sick machines\n"
                                  "kind: verdict\n"
                                  "verdict: field\n"
                                  "environments: [dc_servo]\n"
                                  "methods: [shipped, version-0.1, threshold]\n"
                                  "settings: [dead band .4, healthy]\n"
                                  "metrics: [false_go]\n"
                                  "table: settings\n";

// A sum over the stored trials of an entry.
static double summed(const char *metric, const char *entry, const char *rule)
{
    char sql[400], path[256];
    snprintf(path, sizeof path, "%s/audited.db", folder);
    snprintf(sql, sizeof sql,
             "SELECT round(1000 * sum(value)) FROM trial_metric WHERE metric = '%s' AND setting = "
             "'%s' AND method = '%s'",
             metric, entry, rule);
    return (double)database_ask(path, NULL, sql) / 1000;
}

// The counts of `preflight audit` on a kit are the sums of the suite's trials.
static void compare_audit(const char *kit, const char *rule)
{
    char command[600];
    snprintf(command, sizeof command, "'%s' audit '%s/%s.kit' --sessions %d --json -o '%s/%s.json'",
             PF_PROGRAM, folder, kit, TRIALS, folder, kit);
    FILE *f = popen(command, "r");
    json_t *audit = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL, *entry;
    size_t i;
    int compared = 0;
    json_array_foreach(json_object_get(audit, "entries"), i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "fault"));
        bool old = strcmp(kit, "old") == 0;
        json_t *count = old ? json_object_get(entry, "without_rehearsal") : entry;
        if (strcmp(name, "healthy") != 0 && strcmp(name, "dead band .4") != 0) {
            continue;
        }
        compared++;
        CHECK(summed("false_go", name, rule) ==
              json_number_value(json_object_get(count, "false_go")));
        CHECK(summed("deployed", name, rule) == json_number_value(json_object_get(count, "go")));
        CHECK(summed("misfit", name, rule) == json_number_value(json_object_get(entry, "misfit")));
    }
    CHECK(compared == 2);
    json_decref(audit);
    if (f) {
        pclose(f);
    }
}

static void check_audited(void)
{
    static const struct {
        const char *kit, *more;
    } kits[] = {{"new", ""}, {"old", "--set posterior=transport --set rehearse=none"}};
    char path[256], arguments[900];
    snprintf(path, sizeof path, "%s/audited.yaml", folder);
    CHECK(pf__file_write(path, audit_suite, strlen(audit_suite), NULL) == PF_OK);
    PF_CASE("kind verdict: its trials add up to what audit counts, by the rules of both kits");
    snprintf(arguments, sizeof arguments, "bench run '%s' --profile quick --db '%s/audited.db'",
             path, folder);
    CHECK(program(arguments, 0, "8 of 8 trials, 0 failed"));
    for (int i = 0; i < 2; i++) {
        snprintf(arguments, sizeof arguments,
                 "calibrate dc_servo --method eg-mpt --seed 0 --set episodes=12 --set "
                 "alarm_trials=100 %s -o '%s/%s.kit'",
                 kits[i].more, folder, kits[i].kit);
        CHECK(program(arguments, 0, "dc_servo"));
        compare_audit(kits[i].kit, i == 0 ? "shipped" : "version-0.1");
    }
    CHECK(summed("false_go", "dead band .4", "version-0.1") > 0);
    CHECK(summed("false_go", "dead band .4", "shipped") == 0);
    PF_CASE("kind verdict: verified, and entries and rules in the order of the suite");
    snprintf(arguments, sizeof arguments, "bench verify '%s' --profile quick --db '%s/audited.db'",
             path, folder);
    CHECK(program(arguments, 0, "8 of 8 stored trials recomputed, 0 differ"));
    snprintf(arguments, sizeof arguments, "bench table '%s' --profile quick --db '%s/audited.db'",
             path, folder);
    CHECK(program(arguments, 0, "| Setting      | shipped"));
}

void test_field(void)
{
    char path[256], arguments[900];
    if (!CHECK(program_folder(folder, sizeof folder, "field"))) {
        return;
    }
    snprintf(path, sizeof path, "%s/shipped.yaml", folder);
    CHECK(pf__file_write(path, suite_text, strlen(suite_text), NULL) == PF_OK);
    PF_CASE("verdict field: go and bounds are those of check on the same machine");
    snprintf(arguments, sizeof arguments,
             "calibrate attitude --method eg-mpt --seed 0 --set episodes=12 --set alarm_trials=100 "
             "-o '%s/attitude.kit'",
             folder);
    CHECK(program(arguments, 0, "attitude"));
    snprintf(arguments, sizeof arguments, "bench run '%s' --profile quick --db '%s/field.db'", path,
             folder);
    if (CHECK(program(arguments, 0, "8 of 8 trials, 0 failed"))) {
        for (int trial = 0; trial < TRIALS; trial++) {
            compare(.1, trial);
            compare(.35, trial);
        }
    }
    PF_CASE("verdict field: recomputed trials are the stored ones, the table shows the shares");
    snprintf(arguments, sizeof arguments, "bench verify '%s' --profile quick --db '%s/field.db'",
             path, folder);
    CHECK(program(arguments, 0, "8 of 8 stored trials recomputed, 0 differ"));
    static const char *const shown[] = {",go,eg-mpt,", ",false_ready_share,eg-mpt,",
                                        ",violation,eg-mpt,", ",all_go,eg-mpt,"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        snprintf(arguments, sizeof arguments,
                 "bench table '%s' --profile quick --format csv --db '%s/field.db'", path, folder);
        CHECK(program(arguments, 0, shown[i]));
    }
    check_audited();
    PF_CASE("verdict field: what it has no use for is refused");
    check_refused();
}
