// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test_mujoco.h"

#include "database.h"
#include "host/file.h"
#include "program.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A suite on a Hopper whose foot explodes at a limit that healthy pulses never reach, only what a
// weak mechanism's correction may ask of it: description, calibration and most trials pass.

static const char suite_text[] = "id: falls\ntitle: t\nenvironments: [hopper]\n"
                                 "methods: [random, eg-mpt]\npredictor: twin\nsensor_noise: .25\n"
                                 "gains: [.2, .3, .4, .5]\nstop: latch\n";
enum { UNITS = 16, METHODS = 2 };

static char folder[200];

static long long ask(const char *db, const char *other, const char *sql)
{
    char path[256], second[256];
    snprintf(path, sizeof path, "%s/%s", folder, db);
    snprintf(second, sizeof second, "%s/%s", folder, other ? other : "");
    return database_ask(path, other ? second : NULL, sql);
}

static bool bench(const char *verb, const char *db, const char *more, int status, const char *part)
{
    char arguments[1000];
    snprintf(arguments, sizeof arguments,
             "bench %s '%s/falls.yaml' --profile quick --db '%s/%s' %s", verb, folder, folder, db,
             more);
    return program(arguments, status, part);
}

// How many trials of a method the table stands on, over all gains.
static long long table_trials(const char *db, const char *method)
{
    char path[256], more[300], key[80];
    void *text = NULL;
    size_t size = 0;
    int n = -1;
    snprintf(path, sizeof path, "%s/table.csv", folder);
    snprintf(more, sizeof more, "--format csv >'%s'", path);
    CHECK(bench("table", db, more, 0, ""));
    if (!CHECK(pf__file_read(path, 1 << 24, &text, &size, NULL) == PF_OK)) {
        return -1;
    }
    snprintf(key, sizeof key, ",B2=1,selective_return,%s,", method);
    const char *at = strstr(text, key);
    // mean, no sd with one seed, the interval, n
    CHECK(at && sscanf(at + strlen(key), "%*[^,],,%*[^,],%*[^,],%d", &n) == 1);
    free(text);
    return n;
}

// The run with the fragile simulator: failures are named, the other trials are those of a sound
// one, and of a failed trial there is nothing.
static void check_failed(void)
{
    static const char except[] =
        "SELECT count(*) FROM (SELECT environment, setting, method, seed, trial, metric, value "
        "FROM main.trial_metric EXCEPT SELECT environment, setting, method, seed, trial, metric, "
        "value FROM b.trial_metric)";
    char part[120];
    PF_CASE("a simulator that fails in some trials: named, the run goes on");
    CHECK(bench("run", "falls.db", "", 1, "failed trials are run once more with --retry"));
    long long failed = ask("falls.db", NULL, "SELECT count(*) FROM unit WHERE state = 3");
    long long done = ask("falls.db", NULL, "SELECT count(*) FROM unit WHERE state = 2");
    printf("    %lld of %d trials failed\n", failed, UNITS);
    CHECK(failed >= 2 && done >= 2 && failed + done == UNITS);
    CHECK(ask("falls.db", NULL,
              "SELECT count(*) FROM unit WHERE state = 3 AND (reason LIKE '%: hopper: MuJoCo warns "
              "in step %: bad %' OR reason LIKE '%: hopper: q___ % is not finite or too large "
              "after step %')") == failed);
    snprintf(part, sizeof part, "%lld of %d trials, %lld failed (0 now", done, UNITS, failed);
    CHECK(bench("run", "falls.db", "", 1, part));
    snprintf(part, sizeof part, "\"done\":%lld,\"failed\":%lld,\"running\":0", done, failed);
    CHECK(bench("status", "falls.db", "--json", 1, part));
    CHECK(bench("run", "falls.db", "", 1, "failed: hopper B2="));

    PF_CASE("of a failed trial there is no row and no certificate, in the table neither");
    CHECK(ask("falls.db", NULL,
              "SELECT count(*) FROM result WHERE unit IN (SELECT id FROM unit WHERE state <> 2)") ==
          0);
    CHECK(ask("falls.db", NULL, "SELECT count(*) FROM result") == METHODS * done);
    CHECK(ask("falls.db", "sound.db", except) == 0);
    CHECK(table_trials("falls.db", "eg-mpt") == done);
    CHECK(table_trials("falls.db", "random") == done);
    snprintf(part, sizeof part, "%lld of %d trials are done, %lld failed; the rest is not in here",
             done, UNITS, failed);
    CHECK(bench("table", "falls.db", "", 0, part));
    snprintf(part, sizeof part, "%lld of %lld stored trials recomputed, 0 differ", done, done);
    CHECK(bench("verify", "falls.db", "", 0, part));
    CHECK(bench("run", "falls.db", "--retry", 1, "failed: hopper B2="));
    CHECK(ask("falls.db", NULL, "SELECT count(*) FROM unit WHERE state = 3") == failed);
}

void test_mujoco_suite(json_t *fixture)
{
    char path[300], models[300];
    pf_error error;
    PF_CASE("a small suite on MuJoCo, undisturbed");
    CHECK(program_folder(folder, sizeof folder, "falls"));
    snprintf(path, sizeof path, "%s/falls.yaml", folder);
    CHECK(pf__file_write(path, suite_text, sizeof suite_text - 1, &error) == PF_OK);
    CHECK(bench("run", "sound.db", "", 0, "16 of 16 trials, 0 failed"));
    CHECK(table_trials("sound.db", "eg-mpt") == UNITS);
    snprintf(models, sizeof models, "%s/models", folder);
    if (!CHECK(mujoco_variant(json_string_value(json_object_get(fixture, "models")), models,
                              "range=\"-45 45\"", "range=\"-45 15\" solreflimit=\"-1e14 0\""))) {
        return;
    }
    char *before = mujoco_models_begin(models);
    check_failed();
    mujoco_models_end(before);
    PF_CASE("a sound simulator is another experiment in the same database");
    CHECK(bench("run", "falls.db", "--retry", 0, "16 of 16 trials, 0 failed (16 now"));
    CHECK(ask("falls.db", "sound.db",
              "SELECT count(*) FROM (SELECT * FROM b.trial_metric EXCEPT SELECT * FROM "
              "main.trial_metric)") == 0);
}
