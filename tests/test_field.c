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
        const char *set, *why;
    } bad[] = {
        {"verdict=both", "verdict"},
        {"opportunities=[2]", "the field's has no opportunities; leave it out, or say paper"},
        {"recalibrate=true", "the field's has no recalibrate"},
        {"settings=[\"B2=1\"]", "the field's has no settings"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char arguments[600];
        snprintf(arguments, sizeof arguments,
                 "bench run '%s/shipped.yaml' --profile quick --db '%s/bad.db' --set '%s'", folder,
                 folder, bad[i].set);
        CHECK(program(arguments, 3, bad[i].why));
    }
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
    PF_CASE("verdict field: what it has no use for is refused");
    check_refused();
}
