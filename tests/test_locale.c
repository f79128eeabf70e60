// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "host/file.h"
#include "host/json.h"
#include "host/text.h"
#include "program.h"
#include "recordings_machine.h"

#include <dirent.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// A program that takes its user's locale gets the same bytes in every file. German has a decimal
// comma; the point of Pashto has two bytes, of which jansson knows one.

static const char *const locales[] = {"de_DE", "ps_AF"};
enum { N_LOCALES = sizeof locales / sizeof locales[0] };

// Makes them in a folder, from the sources of the C library; false: it cannot.
static bool make_locales(const char *folder)
{
    char command[700];
    bool all = true;
    for (int i = 0; i < N_LOCALES; i++) {
        snprintf(command, sizeof command, "localedef -i %s -f UTF-8 '%s/%s.UTF-8' >/dev/null 2>&1",
                 locales[i], folder, locales[i]);
        all = all && system(command) == 0;
    }
    return all;
}

static void check_numbers(void)
{
    static const double values[] = {.35, -1.5e-300, 1. / 3, 12345678.9};
    char number[32];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char *end = NULL;
        pf__number_text(values[i], number);
        CHECK(strchr(number, '.') != NULL);
        CHECK(pf__number_read(number, &end) == values[i] && *end == '\0');
        pf_text text = {0};
        pf__json_numbers(&text, 1, &values[i]);
        json_t *json = pf__json_load(text.data, text.size, 0, NULL);
        CHECK(json_number_value(json_array_get(json, 0)) == values[i]);
        char *again = json ? pf__json_dump(json, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
        CHECK(again && strchr(again, '.') != NULL && strchr(again, ',') == NULL);
        free(again);
        json_decref(json);
        pf__text_free(&text);
    }
    pf_text text = {0};
    pf__text_addf(&text, "%.2f and %g", .25, 1.5);
    CHECK_STR(text.data, "0.25 and 1.5");
    pf__text_free(&text);
    pf_error error;
    pf_fail(&error, PF_ERR_ARGUMENT, "%g", 2.5);
    CHECK_STR(error.text, "2.5");
}

static void check_in_process(void)
{
    for (int i = 0; i < N_LOCALES; i++) {
        char name[32], before[32], after[32];
        snprintf(name, sizeof name, "%s.UTF-8", locales[i]);
        PF_CASE(name);
        if (!CHECK(setlocale(LC_ALL, name) != NULL)) {
            continue;
        }
        snprintf(before, sizeof before, "%.1f", .5);
        CHECK(strchr(before, '.') == NULL); // the locale has no decimal point
        check_numbers();
        snprintf(after, sizeof after, "%.1f", .5);
        CHECK_STR(after, before); // and the program keeps it
        setlocale(LC_ALL, "C");
    }
}

// --- whole runs

static const char config[] = "sensor_noise: .25\n"
                             "episodes: 20\n"
                             "alarm_trials: 100\n"
                             "grid: [0.25, 0.5, 0.75]\n";
static const char commands[] = "u0,u1,u2\n.5,0,.25\n0,1e-1,0\n";

// What is run in a folder, and what it must end with.
static const struct {
    const char *arguments;
    int status;
} calls[] = {
    {"calibrate dc_servo --config @/config.yaml -o @/a.kit", 0},
    {"kit show @/a.kit --json >@/kit.json", 0},
    {"check @/a.kit --fault 1:0.35 --seed 5 --journal @/run --certificate @/certificate --json "
     ">@/check.json",
     0},
    {"replay @/run --json >@/replay.json", 0},
    {"explain @/run --html @/sheet.html >@/explained", 0},
    {"calibrate --recordings @/log.csv --config @/rig.yaml -o @/rig.kit", 0},
    {"rollout \"exec:exec '" PF_EXEC_CHILD "' good\" --commands @/u.csv >@/trace.csv", 0},
    {"train dc_servo --profile quick --kind recursive --set members=2 --set layers=1 --set "
     "width=16 "
     "--set epochs=3 --set transitions=4000 -o @/m.model",
     0},
    {"model show @/m.model --json >@/model.json", 0},
    {"design dc_servo --set design.target=4.5 -o @/library", 0},
    {"bench run mechanism --profile quick --db @/x.db", 0},
    {"bench table mechanism --profile quick --db @/x.db --format csv "
     ">@/table.csv; rm @/x.db*",
     0},
};

static void put(const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(text && pf__file_write(path, text, strlen(text), NULL) == PF_OK);
}

static void run_calls(const char *folder)
{
    CHECK(mkdir(folder, 0777) == 0);
    recording usual = recording_usual();
    char *csv = recording_text(&usual);
    put(folder, "log.csv", csv);
    free(csv);
    put(folder, "config.yaml", config);
    put(folder, "rig.yaml",
        "mechanisms: [a, {name: b, lo: -1.5, hi: 1.5}, c]\nalarm_trials: 100\nalpha: 0.15\n");
    put(folder, "u.csv", commands);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CHECK(program_in(folder, calls[i].arguments, calls[i].status, ""));
    }
}

// Every file of the first folder has the same bytes in the second. Gives how many there are.
static int compare(const char *first, const char *second)
{
    int n = 0;
    DIR *folder = opendir(first);
    for (struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder)) {
        char path[2][600];
        void *bytes[2] = {NULL, NULL};
        size_t size[2] = {0, 0};
        if (e->d_name[0] == '.') {
            continue;
        }
        snprintf(path[0], sizeof path[0], "%s/%s", first, e->d_name);
        snprintf(path[1], sizeof path[1], "%s/%s", second, e->d_name);
        for (int i = 0; i < 2; i++) {
            CHECK(pf__file_read(path[i], (size_t)1 << 26, &bytes[i], &size[i], NULL) == PF_OK);
        }
        bool same =
            bytes[0] && bytes[1] && size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0;
        if (!CHECK(same)) {
            printf("    %s differs in the locale\n", e->d_name);
        }
        free(bytes[0]);
        free(bytes[1]);
        n++;
    }
    if (folder) {
        closedir(folder);
    }
    return n;
}

static void check_runs(void)
{
    char folder[200], plain[200];
    snprintf(folder, sizeof folder, "%s/locale", pf_scratch_dir());
    snprintf(plain, sizeof plain, "%s/locale-plain", pf_scratch_dir());
    PF_CASE("whole runs without a locale");
    run_calls(folder);
    CHECK(rename(folder, plain) == 0); // paths are written into files: both runs have the same
    PF_CASE("the same runs in a program with a decimal comma");
    // the sanitizers want to be loaded first
    const char *options = getenv("ASAN_OPTIONS");
    char *kept = options ? strdup(options) : NULL;
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    setenv("LD_PRELOAD", PF_USER_LOCALE, 1);
    run_calls(folder);
    unsetenv("LD_PRELOAD");
    unsetenv("LC_ALL");
    if (kept) {
        setenv("ASAN_OPTIONS", kept, 1);
    } else {
        unsetenv("ASAN_OPTIONS");
    }
    free(kept);
    CHECK(compare(plain, folder) == 19);
}

void test_locale(void)
{
    char folder[200];
    PF_CASE("locales without a decimal point");
    if (!CHECK(program_folder(folder, sizeof folder, "locales"))) {
        return;
    }
    if (!make_locales(folder)) {
        pf_skip("localedef cannot make a locale (package locales)");
        return;
    }
    setenv("LOCPATH", folder, 1);
    check_in_process();
    check_runs();
    unsetenv("LOCPATH");
}
