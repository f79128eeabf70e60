// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "attitude_kit.h"
#include "host/file.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What commands write: never over an input, one thing to standard output, and only into what can be
// a file.

static char folder[200];

static bool run(const char *arguments, int status, const char *part)
{
    return program_in(folder, arguments, status, part);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(pf__file_write(path, bytes, n, NULL) == PF_OK);
}

static void check_inputs(void)
{
    static const char *const calls[][2] = {
        {"kit report @/a.kit -o @/a.kit.audit.json", "would overwrite the audit of the kit"},
        {"kit report @/a.kit -o @/./a.kit", "would overwrite the kit"},
        {"check @/a.kit --report @/a.kit.audit.json", "would overwrite the audit of the kit"},
        {"check @/a.kit --journal @/a.kit.audit.json", "would overwrite the audit of the kit"},
        {"check @/a.kit --certificate @/a.kit", "would overwrite the kit"},
        {"check @/a.kit --trust @/signers --report @/signers", "overwrite the allowed signers"},
        {"check @/a.kit --journal @/a.kit.sig", "would overwrite the signature of "},
        {"explain @/j --html @/j", "would overwrite the journal"},
        {"audit @/a.kit -o @/a.kit", "would overwrite an input, the kit"}};
    PF_CASE("an output never goes over the kit, its audit, the journal or another input");
    CHECK(run("audit @/a.kit --sessions 5 --threads 1", 0, ""));
    CHECK(run("audit @/a.kit --threads 0", 2, "--threads"));
    CHECK(run("check @/a.kit --journal @/j", 0, "audited against"));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CHECK(run(calls[i][0], 2, calls[i][1]));
    }
    CHECK(run("check @/a.kit", 0, "audited against"));
    CHECK(run("replay @/j", 0, "equal to the last bit"));
}

// A plant's own files are inputs too: its model, the program behind it.
static void check_plants(void)
{
    static const char *const calls[] = {
        "calibrate mujoco:@/arm.xml -o @/arm.xml",
        "calibrate mujoco:@/arm.xml#up -o @/arm.xml",
        "calibrate \"exec:python3 @/rig.py\" -o @/rig.py",
        "design \"exec:RIG=1 python3 '@/rig.py'\" -o @/rig.py",
        "design mujoco:@/arm.xml -o @/arm.xml",
        "demo mujoco:@/arm.xml --report @/arm.xml",
        "train \"exec:python3 @/rig.py\" -o @/rig.py",
        "check @/a.kit --plant \"exec:python3 @/rig.py\" --report @/rig.py"};
    PF_CASE("an output never goes over a file that a plant's name names");
    write_file("arm.xml", "x", 1);
    write_file("rig.py", "x", 1);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CHECK(run(calls[i], 2, "would overwrite a file of the plant"));
    }
    for (int i = 0; i < 2; i++) {
        char *left = program_text(folder, i ? "arm.xml" : "rig.py");
        CHECK(strcmp(left, "x") == 0);
        free(left);
    }
}

static void check_damage(void)
{
    PF_CASE("a damaged audit is said to be damaged");
    char *audit = program_text(folder, "a.kit.audit.json");
    write_file("a.kit.audit.json", audit, strlen(audit) / 2);
    CHECK(run("check @/a.kit", 0, "warning: "));
    CHECK(run("check @/a.kit", 0, "This kit was not audited: the file with its audit is damaged"));
    CHECK(run("check @/a.kit --json", 0, "a.kit.audit.json is damaged"));
    CHECK(run("kit report @/a.kit -o @/page.html", 0, "a.kit.audit.json is damaged"));
    char *page = program_text(folder, "page.html");
    CHECK_CONTAINS(page, "The file with its audit is damaged");
    free(page);
    write_file("a.kit.audit.json", audit, strlen(audit));
    CHECK(run("check @/a.kit --certificate - 2>&1 >@/out | cat >@/err", 0, ""));
    char *err = program_text(folder, "err");
    CHECK_STR(err, "");
    free(err);
    free(audit);
}

// What a call leaves on standard output begins and ends so.
static void stands_alone(const char *arguments, const char *begin, const char *end)
{
    char call[400];
    snprintf(call, sizeof call, "%s >@/out", arguments);
    CHECK(run(call, 0, ""));
    char *text = program_text(folder, "out");
    size_t n = strlen(text), tail = strlen(end);
    if (!CHECK(strncmp(text, begin, strlen(begin)) == 0 && n >= tail &&
               strcmp(text + n - tail, end) == 0)) {
        printf("    preflight %s: %.60s ... %s\n", arguments, text, n > 60 ? text + n - 60 : "");
    }
    free(text);
}

static void check_screen(void)
{
    PF_CASE("one thing goes to standard output, and nothing is mixed with it");
    stands_alone("check @/a.kit --report -", "<!doctype html>", "</html>\n");
    stands_alone("check @/a.kit --certificate -", "{\"kit\":", "}\n");
    stands_alone("check @/a.kit --journal -", "{\"journal\":1,", "}\n");
    stands_alone("check @/a.kit --json --report @/x", "{\"kit\":", "}\n");
    CHECK(run("check @/a.kit --report - --json", 2, "--report and --json both write to standard"));
    CHECK(run("check @/a.kit --certificate - --json", 2, "both write to standard output"));
    CHECK(run("check @/a.kit --journal - --report -", 2, "both write to standard output"));
    CHECK(run("demo --report -", 2, "--report needs a file"));
    PF_CASE("a journal on a full disk: it says so and does not name it as kept");
    CHECK(run("check @/a.kit --journal /dev/full >/dev/null; test $? = 3", 0, "No space left"));
    CHECK(run("check @/a.kit --report /dev/full", 3, "No space left"));
    CHECK(run("check @/a.kit --report /dev/full >@/said; grep 'What follows' @/said", 0, ""));
    CHECK(run("check @/a.kit --journal /dev/full 2>@/said; ! grep 'up to there' @/said", 0, ""));
}

static void check_names(void)
{
    static const char *const calls[][2] = {
        {"check @/a.kit --report ''", "--report needs the name of a file"},
        {"check @/a.kit --journal=", "--journal needs the name of a file"},
        {"kit report @/a.kit -o ''", "-o needs the name of a file"},
        {"bench report -o ''", "-o needs the name of a folder"}};
    PF_CASE("an output without a name, in a folder that is missing, or that is a folder");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CHECK(run(calls[i][0], 2, calls[i][1]));
    }
    CHECK(run("check @/a.kit --report @/none/x.html", 3, "/none/x.html: there is no folder "));
    CHECK(run("kit report @/a.kit -o @/none/x.html", 3, "there is no folder "));
    CHECK(run("kit report @/a.kit -o @", 3, ": is a folder, not a file"));
    CHECK(run("model show @", 3, ": is a folder, not a file"));
    CHECK(run("data show @", 3, ": is a folder, not a file"));
    CHECK(run("serve @/a.kit --journal @", 3, ": is a folder, not a file"));
}

void test_outputs(void)
{
    size_t n = 0;
    const void *bytes = attitude_kit_bytes(&n);
    PF_CASE("outputs: a folder with a kit");
    CHECK(program_folder(folder, sizeof folder, "outputs"));
    write_file("a.kit", bytes, n);
    write_file("a.kit.sig", "signed", 6);
    write_file("signers", "me", 2);
    check_inputs();
    check_plants();
    check_damage();
    check_screen();
    check_names();
}
