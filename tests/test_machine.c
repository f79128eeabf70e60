// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "core/kit_layout.h"

#include "attitude_kit.h"
#include "preflight/run.h"
#include "wire/protocol.h"
#include "host/file.h"
#include "program.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A check of a machine that is not the kit's own simulator, and what is left when it fails. The
// machine is the example in Python; variants of it replace one piece of its text.

static bool variant(const char *folder, const char *name, const char *from, const char *to)
{
    void *data = NULL;
    size_t n = 0, length = strlen(from);
    char path[256];
    pf_error error;
    pf_text text = {0};
    int found = length == 0;
    if (!CHECK(pf__file_read(PF_SOURCE "/examples/exec_plant.py", 1 << 20, &data, &n, &error) ==
               PF_OK)) {
        return false;
    }
    for (const char *at = data; *at; at++) {
        if (length > 0 && strncmp(at, from, length) == 0) {
            pf__text_add(&text, to);
            at += length - 1;
            found++;
        } else {
            pf__text_add_n(&text, at, 1);
        }
    }
    snprintf(path, sizeof path, "%s/%s.py", folder, name);
    bool good =
        CHECK(found > 0) && CHECK(pf__file_write(path, text.data, text.size, &error) == PF_OK);
    pf__text_free(&text);
    free(data);
    return good;
}

// `check rooms.kit --plant VARIANT MORE`; an empty name: no --plant. The kit names the simulator.
static bool check(const char *folder, const char *name, const char *more, int status,
                  const char *part)
{
    char command[900], plant[300] = "";
    if (name[0]) {
        snprintf(plant, sizeof plant, "--plant 'exec:python3 %s/%s.py'", folder, name);
    }
    snprintf(command, sizeof command, "check %s/rooms.kit --allow-exec %s %s", folder, plant, more);
    return program(command, status, part);
}

static void test_plants(const char *folder)
{
    char more[600];
    PF_CASE("check --plant: a machine like the simulator is ready, without an alarm");
    CHECK(variant(folder, "same", "", ""));
    CHECK(check(folder, "same", "", 0, "all ready"));
    snprintf(more, sizeof more, ">%s/out; ! grep -q ALARM %s/out", folder, folder);
    CHECK(check(folder, "same", more, 0, ""));
    PF_CASE("check --plant: the simulator predicts, so a weak machine cannot vouch for itself");
    CHECK(variant(folder, "weak", "(0.30, 0.04)", "(0.09, 0.012)"));
    CHECK(check(folder, "weak", "", 0, "ALARM: heater_a"));
    snprintf(more, sizeof more, "--json >%s/out; grep -q '\"alarm\":true' %s/out", folder, folder);
    CHECK(check(folder, "weak", more, 0, ""));
    PF_CASE("check --plant: a machine too weak to be corrected is not ready");
    CHECK(variant(folder, "weaker", "(0.30, 0.04)", "(0.03, 0.004)"));
    CHECK(check(folder, "weaker", "", 1, "not ready for every task"));
    CHECK(check(folder, "weaker", "", 1, "ALARM"));
}

// A machine under check keeps the noise of its own sensors; a simulated one gets it added.
static void test_noise(const char *folder)
{
    void *bytes = NULL;
    size_t n = 0;
    char path[300];
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_kit kit;
    PF_CASE("check --plant: no sensor noise is added to a machine's own");
    snprintf(path, sizeof path, "%s/rooms.kit", folder);
    CHECK(pf__file_read(path, 1 << 24, &bytes, &n, &error) == PF_OK);
    CHECK(variant(folder, "quiet", "request[\"noise\"]", "False"));
    snprintf(path, sizeof path, "exec:python3 %s/quiet.py", folder);
    if (CHECK(pf__kit_read(&kit, bytes, n, &error) == PF_OK) &&
        CHECK(pf_plant_create(&plant, path, &error) == PF_OK)) {
        double start[2], quiet[64], noisy[64], plain[64];
        kit.sensor_noise = .25;
        pf_rig rig = {.plant = plant, .kit = &kit, .start = start, .own_noise = true};
        pf_roll roll = pf_roll_default();
        roll.rows = pf_kit_probe_rows(&kit, 0);
        roll.command = kit.command;
        roll.key = 5;
        size_t size = sizeof(double) * (size_t)roll.rows * 2;
        CHECK(size <= sizeof plain);
        CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = plain}, &error) == PF_OK);
        rig.response = quiet;
        CHECK(pf_rig_run(&rig, 0, 5, &error) == PF_OK);
        CHECK(memcmp(quiet, plain, size) == 0);
        rig.own_noise = false;
        rig.response = noisy;
        CHECK(pf_rig_run(&rig, 0, 5, &error) == PF_OK);
        CHECK(memcmp(noisy, plain, size) != 0);
    }
    pf_plant_destroy(plant);
    free(bytes);
}

static void test_failure(const char *folder)
{
    char command[600];
    PF_CASE("check: a machine that fails midway leaves a whole journal of what it did");
    CHECK(variant(folder, "dies", "def roll(request):\n",
                  "ROLLS = []\n\n\ndef roll(request):\n    ROLLS.append(1)\n"
                  "    if len(ROLLS) == 2:\n        sys.exit(3)\n"));
    snprintf(command, sizeof command, "--journal %s/died --certificate %s/none", folder, folder);
    CHECK(check(folder, "dies", command, 3, "the journal up to there is in"));
    snprintf(command, sizeof command, "replay %s/died", folder);
    CHECK(program(command, 0, "4 events recomputed, every reply equal"));
    CHECK(program(command, 0, "the journal ends before the session was done"));
    snprintf(command, sizeof command, "--version; ! ls %s | grep -q 'tmp\\|none'", folder);
    CHECK(program(command, 0, "preflight"));
}

// The number of lines in the folder's `out` that hold the part.
static int count_lines(const char *folder, const char *part)
{
    char path[300];
    void *text = NULL;
    size_t size = 0;
    int n = 0;
    snprintf(path, sizeof path, "%s/out", folder);
    if (CHECK(pf__file_read(path, 1 << 20, &text, &size, NULL) == PF_OK)) {
        for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
            n++;
        }
    }
    free(text);
    return n;
}

// `check break.kit --plant VARIANT` of a weak machine; what it prints goes to the folder's `out`.
static bool check_weak(const char *folder, const char *name, const char *more, int status)
{
    char command[1400];
    snprintf(command, sizeof command,
             "check %s/break.kit --allow-exec --plant 'exec:python3 %s/%s.py' --fault heater_a:.35 "
             "--seed 3 "
             "--certificate %s/%s.certificate %s >%s/out",
             folder, folder, name, folder, name, more, folder);
    return program(command, status, "");
}

static void test_recovery_failure(const char *folder)
{
    static const char *const ways[] = {
        "        return {\"id\": request[\"id\"], \"error\": \"contact explosion\"}\n",
        "        return {\"id\": request[\"id\"], \"start\": [20, 20], \"initial\": [20, 20],\n"
        "                \"output\": [[float(\"nan\")] * 2] * len(request[\"commands\"])}\n",
        "        sys.exit(3)\n"};
    char command[600], roll[700];
    void *certificate = NULL;
    size_t n = 0;
    PF_CASE("check: a machine that fails in recovery is ready for nothing");
    snprintf(command, sizeof command,
             "calibrate 'exec:python3 %s/rooms.py' -o %s/break.kit --probes single "
             "--set episodes=40 --set alarm_trials=100 --set stop=break",
             folder, folder);
    CHECK(program(command, 0, ""));
    // what it looked at is ready, heater_b was never probed
    CHECK(check_weak(folder, "same", "", 1));
    int first = count_lines(folder, ":1 "), second = count_lines(folder, "  gain 0.");
    CHECK(first > 0 && second > 1 && count_lines(folder, "  GO  ") == 1);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int last = i == 0 ? first + second : first + 1; // the probe that fails
        snprintf(roll, sizeof roll,
                 "ROLLS = []\n\n\ndef roll(request):\n    ROLLS.append(1)\n"
                 "    if len(ROLLS) == %d:\n%s",
                 last, ways[i]);
        CHECK(variant(folder, "late", "def roll(request):\n", roll));
        CHECK(check_weak(folder, "late", "", 3));
        CHECK(count_lines(folder, ":1 ") == first);
        CHECK(count_lines(folder, "  gain 0.") == last - first - 1);
        CHECK(count_lines(folder, "ready") == 0 && count_lines(folder, "GO") == 0);
    }
    CHECK(check_weak(folder, "late", "--json", 3));
    CHECK(count_lines(folder, "go") == 0);
    snprintf(command, sizeof command, "%s/same.certificate", folder);
    CHECK(pf__file_read(command, 1 << 20, &certificate, &n, NULL) == PF_OK);
    CHECK_CONTAINS(certificate, "\"decision\":\"go\"");
    free(certificate);
    snprintf(command, sizeof command, "%s/late.certificate", folder);
    CHECK(access(command, F_OK) != 0);
}

static void test_source(const char *folder)
{
    char command[600];
    PF_CASE("check, serve: a simulator that changed since calibration is refused");
    CHECK(variant(folder, "rooms", "\"version\": \"1\"", "\"version\": \"2\""));
    CHECK(check(folder, "", "", 3, "the simulator has changed since calibration"));
    CHECK(check(folder, "same", "", 3, "calibrate again"));
    snprintf(command, sizeof command, "serve %s/rooms.kit --plant 'exec:python3 %s/rooms.py'",
             folder, folder);
    CHECK(program(command, 3, "the simulator has changed since calibration"));
    snprintf(command, sizeof command, "serve %s/rooms.kit --allow-exec", folder);
    CHECK(program(command, 0, "no twin (the simulator has changed"));
    PF_CASE("check --plant: without its simulator a kit checks nothing");
    CHECK(variant(folder, "rooms", "import json", "import nosuchmodule"));
    CHECK(check(folder, "same", "", 3, "rooms.py"));
}

static void test_clamped(const char *folder)
{
    char command[600];
    PF_CASE("calibrate: a plant that clamps gains to 1 is refused");
    CHECK(variant(folder, "clamped", "v = [g * min", "v = [min(1.0, g) * min"));
    snprintf(command, sizeof command,
             "calibrate 'exec:python3 %s/clamped.py' -o %s/x.kit --set episodes=20", folder,
             folder);
    CHECK(program(command, 3, "must honour `gains` above 1"));
}

// --- journals

static void *no_memory(size_t n)
{
    (void)n;
    return NULL;
}

static void test_entries(void)
{
    size_t n = 0;
    const void *bytes = attitude_small_kit_bytes(&n);
    pf_protocol *dialogue = NULL;
    pf_protocol_config config = {0};
    pf_error error = {PF_OK, ""};
    pf_text reply = {0}, journal = {0};
    PF_CASE("journal: an entry that could not be made is a failure, not a null");
    CHECK(pf__protocol_create(&dialogue, bytes, n, &config, &error) == PF_OK);
    json_t *request = json_pack("{s:s}", "op", "hello");
    json_set_alloc_funcs(no_memory, free);
    pf__protocol_request(dialogue, request, NULL, &reply, &journal);
    json_set_alloc_funcs(malloc, free);
    CHECK(journal.failed && journal.size == 0);
    json_decref(request);
    pf__protocol_destroy(dialogue);
    pf__text_free(&reply);
    pf__text_free(&journal);
}

static void test_overwrite(const char *folder)
{
    size_t n = 0;
    const void *bytes = attitude_small_kit_bytes(&n);
    char path[300], command[900];
    pf_error error;
    void *first = NULL, *second = NULL;
    size_t size = 0, again = 0;
    PF_CASE("serve --journal: a journal is never overwritten");
    snprintf(path, sizeof path, "%s/small.kit", folder);
    CHECK(pf__file_write(path, bytes, n, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/served", folder);
    CHECK(pf__file_write(path, "", 0, &error) == PF_OK); // an empty file may be used
    snprintf(command, sizeof command, "serve %s/small.kit --journal %s", folder, path);
    CHECK(program(command, 0, ""));
    CHECK(pf__file_read(path, 1 << 24, &first, &size, &error) == PF_OK && size > 0);
    CHECK(program(command, 3, "not overwritten; move it away or name another file"));
    CHECK(pf__file_read(path, 1 << 24, &second, &again, &error) == PF_OK);
    CHECK(size == again && memcmp(first, second, size) == 0);
    free(first);
    free(second);
    PF_CASE("serve --socket: a file that exists is the caller's to remove");
    snprintf(command, sizeof command, "serve %s/small.kit --socket %s", folder, path);
    CHECK(program(command, 3, "exists already and is no socket"));
}

void test_machine(void)
{
    char folder[200], command[700];
    test_entries();
    PF_CASE("check: a folder with a kit of the example in Python");
    CHECK(program_folder(folder, sizeof folder, "check"));
    test_overwrite(folder);
    PF_CASE("check: python3 for the example");
    if (system("python3 -c 0 >/dev/null 2>&1") != 0) {
        pf_skip("there is no python3");
        return;
    }
    CHECK(variant(folder, "rooms", "", ""));
    snprintf(command, sizeof command,
             "calibrate 'exec:python3 %s/rooms.py' -o %s/rooms.kit --probes single "
             "--set episodes=40",
             folder, folder);
    if (!CHECK(program(command, 0, "2 probes, 2 tasks"))) {
        return;
    }
    test_plants(folder);
    test_noise(folder);
    test_failure(folder);
    test_recovery_failure(folder);
    test_clamped(folder);
    test_source(folder);
}
