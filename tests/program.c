// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include "host/file.h"
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int width = 1000;

void program_width(int columns)
{
    width = columns;
}

bool program(const char *arguments, int status, const char *part)
{
    char caught[200], command[2000];
    snprintf(caught, sizeof caught, "%s/caught", pf_scratch_dir());
    // redirections among the arguments come later and win
    int n = snprintf(command, sizeof command, "</dev/null >'%s' 2>&1 COLUMNS=%d '%s' %s", caught,
                     width, PF_PROGRAM, arguments);
    int ended = n < (int)sizeof command ? system(command) : -1;
    int exit_status = ended != -1 && WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    void *output = NULL;
    size_t size = 0;
    pf_error error;
    bool read = pf__file_read(caught, (size_t)1 << 26, &output, &size, &error) == PF_OK;
    bool good = read && exit_status == status && strstr(output, part);
    if (!good) {
        printf("    preflight %s\n    exit status %d, expected %d; no \"%s\" in: %.600s\n",
               arguments, exit_status, status, part, read ? (char *)output : "nothing");
    }
    free(output);
    return good;
}

bool program_in(const char *folder, const char *arguments, int status, const char *part)
{
    char text[1500];
    size_t n = 0;
    for (const char *a = arguments; *a && n + 250 < sizeof text; a++) {
        n += (size_t)snprintf(text + n, sizeof text - n, *a == '@' ? "%s" : "%.1s",
                              *a == '@' ? folder : a);
    }
    text[n] = 0;
    return program(text, status, part);
}

bool program_folder(char *path, size_t n, const char *name)
{
    int used = snprintf(path, n, "%s/%s", pf_scratch_dir(), name);
    return used > 0 && (size_t)used < n && mkdir(path, 0777) == 0;
}

char *program_text(const char *folder, const char *name)
{
    char path[300];
    void *bytes = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    bool read = CHECK(pf__file_read(path, 1 << 24, &bytes, &n, NULL) == PF_OK);
    char *text = calloc(n + 1, 1);
    if (read) {
        memcpy(text, bytes, n);
    }
    free(bytes);
    return text;
}

int program_count(const char *text, const char *part)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++) {
        n++;
    }
    return n;
}

// --- exit status; in the arguments @ stands for the folder

typedef struct call {
    const char *arguments;
    int status;
    const char *part;
} call;

static bool run(const char *folder, const call *c)
{
    return program_in(folder, c->arguments, c->status, c->part);
}

static void run_all(const char *folder, const call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        CHECK(run(folder, &calls[i]));
    }
}

static const char *const commands[] = {"demo",   "list",    "calibrate", "check", "serve",
                                       "replay", "explain", "rollout",   "kit",   "data",
                                       "train",  "model",   "design"};

static void check_usage(const char *folder)
{
    static const call calls[] = {
        {"", 2, "usage: preflight COMMAND"},
        {"frobnicate", 2, "there is no command 'frobnicate'"},
        {"chek", 2, "did you mean 'check'?"},
        {"--frobnicate", 2, "there is no command"},
        {"--help", 0, "usage: preflight COMMAND"},
        {"--version", 0, "preflight "},
        {"list", 0, "\nsuites\n======\n"},
        {"list --json", 0, ",\"suites\":["},
        {"list planets", 2, "'planets'"},
        {"list plants", 0, "attitude"},
        {"list methods --json", 0, "eg-mpt"},
        {"list faults", 0, "backlash"},
        {"list faults --json", 0, "\"name\":\"backlash\""},
        {"list faults attitude", 0, "--fault plant:dead_band=X"},
        {"list faults attitude --json", 0, "\"knob\":\"dead_band\""},
        {"list faults attitude battery", 2, "say one word"},
        {"list plants attitude", 2, "say one word"},
        {"list faults altitude", 3, "altitude"},
        {"calibrate", 2, "-o KIT is missing"},
        {"calibrate attitude", 2, "-o KIT is missing"},
        {"calibrate -o @/x", 2, "name one plant"},
        {"calibrate attitude other -o @/x", 2, "name one plant"},
        {"calibrate attitude -o @/x --threads 0", 2, "--threads"},
        {"calibrate attitude -o @/x --threads two", 2, "--threads"},
        {"calibrate attitude -o @/x --method nosuch", 2, "nosuch"},
        {"calibrate attitude -o @/x --predictor oracle", 2, "oracle"},
        {"calibrate attitude -o", 2, "-o needs a value"},
        {"calibrate attitude -o @/x -o @/y", 2, "twice"},
        {"demo a b", 2, "name one plant at most"},
        {"demo --gain 1", 2, "--gain: '1' is no loss"},
        {"demo --gain x", 2, "--gain: 'x' is no loss"},
        {"demo --mechanism thruster0", 2, "today's job uses it"},
        {"demo --mechanism nosuch", 2, "none of that name"},
        {"demo nosuch", 3, "'nosuch'"},
        {"demo --report @/nosuch/x.html", 3, "x.html"},
        {"demo --color blue", 2, "'blue' is not auto, always or never"},
        {"explain @/run --color blue", 2, "'blue' is not auto, always or never"},
        {"check @/attitude.kit --color blue", 2, "'blue' is not auto, always or never"},
        {"check", 2, "name one kit"},
        {"check @/attitude.kit @/attitude.kit", 2, "name one kit"},
        {"check @/attitude.kit --fautl 1:0.5", 2, "did you mean --fault?"},
        {"check @/attitude.kit --json=yes", 2, "--json takes no value"},
        {"serve", 2, "name one kit"},
        {"replay", 2, "name one file"},
        {"replay @/run @/run", 2, "name one file"},
        {"explain", 2, "name one file"},
        {"rollout", 2, "name one plant"},
        {"rollout attitude", 2, "--commands"},
        {"rollout attitude --commands @/u --what colour", 2, "--what"},
        {"kit", 2, "kit show KIT"},
        {"kit shew @/attitude.kit", 2, "kit show KIT"},
        {"kit show", 2, "kit show KIT"},
        {"data", 2, "data show FILE"},
        {"data shew @/garbage", 2, "data show FILE"},
        {"data show", 2, "data show FILE"},
        {"data show @/garbage @/garbage", 2, "data show FILE"},
    };
    PF_CASE("exit status: wrong calls are 2, help is 0");
    run_all(folder, calls, sizeof calls / sizeof calls[0]);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "%s --nonsense", commands[i]);
        CHECK(program(arguments, 2, "unknown option --nonsense"));
        snprintf(arguments, sizeof arguments, "%s --help", commands[i]);
        CHECK(program(arguments, 0, "Example: "));
        snprintf(arguments, sizeof arguments, "%s x y z --nonsense -h", commands[i]);
        CHECK(program(arguments, 0, "usage: preflight "));
    }
}

static void check_values(const char *folder)
{
    static const char *const faults[] = {"5",      "5:",       "5:x",   "8:0.5",        "-1:0.5",
                                         ":0.5",   "",         ":",     "thruster9:.5", "5:1e6",
                                         "5:-.1",  "5:nan",    "5:inf", "'5:0.5 '",     "5:.5:.5",
                                         "5.0:.5", "'5 :0.5'", "5:0,5", "thruster:.5"};
    static const char *const seeds[] = {"-1",
                                        "1.5",
                                        "x",
                                        "''",
                                        "1e3",
                                        "0x10",
                                        "' 1'",
                                        "1x",
                                        "9007199254740992",
                                        "99999999999999999999999",
                                        "nan"};
    char arguments[400];
    PF_CASE("exit status: a bad --fault is 2 and named");
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        snprintf(arguments, sizeof arguments, "check '%s/attitude.kit' --fault=%s", folder,
                 faults[i]);
        CHECK(program(arguments, 2, "--fault"));
    }
    snprintf(arguments, sizeof arguments, "check '%s/attitude.kit' --fault 5:.5 --fault 5:.4",
             folder);
    CHECK(program(arguments, 2, "has a fault already"));
    PF_CASE("exit status: a bad --seed is 2 and named");
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        static const char *const with[] = {"check @/attitude.kit", "serve @/attitude.kit",
                                           "calibrate attitude -o @/x", "demo",
                                           "rollout attitude --commands @/u"};
        for (size_t k = 0; k < sizeof with / sizeof with[0]; k++) {
            snprintf(arguments, sizeof arguments, "%s --seed=%s", with[k], seeds[i]);
            CHECK(run(folder, &(call){arguments, 2, "--seed"}));
        }
    }
}

static void check_files(const char *folder)
{
    static const call calls[] = {
        {"check @/nosuch", 3, "nosuch: "},
        {"serve @/nosuch", 3, "nosuch: "},
        {"kit show @/nosuch", 3, "nosuch: "},
        {"data show @/nosuch", 3, "nosuch: "},
        {"replay @/nosuch", 3, "nosuch: "},
        {"explain @/nosuch", 3, "nosuch: "},
        {"rollout attitude --commands @/nosuch", 3, "nosuch: "},
        {"rollout attitude --commands @/u --state @/nosuch", 3, "nosuch: "},
        {"calibrate attitude -o @/x --config @/nosuch", 3, "nosuch: "},
        {"calibrate --recordings @/nosuch -o @/x", 3, "nosuch: "},
        {"check @", 3, "is a folder"},
        {"serve @", 3, "is a folder"},
        {"kit show @", 3, "is a folder"},
        {"data show @", 3, "is a folder"},
        {"replay @", 3, "is a folder"},
        {"explain @", 3, "is a folder"},
        {"rollout attitude --commands @", 3, "is a folder"},
        {"calibrate attitude -o @/x --config @", 3, "is a folder"},
        {"calibrate --recordings @ -o @/x", 3, "is a folder"},
        {"check @/garbage", 3, "garbage: not a preflight kit"},
        {"serve @/garbage", 3, "garbage: not a preflight kit"},
        {"kit show @/garbage --json", 3, "garbage: not a preflight kit"},
        {"data show @/garbage --json", 3, "garbage: not a preflight data file"},
        {"data show @/attitude.kit", 3, "attitude.kit is a kit: `preflight kit show /"},
        {"data show /dev/null", 3, "/dev/null: is a device"},
        {"check /dev/null", 3, "/dev/null: not a preflight kit"},
        {"check @/cut.kit", 3, "cut.kit: kit is cut off"},
        {"check @/damaged.kit", 3, "damaged.kit: kit is damaged"},
        {"replay @/garbage", 3, "garbage: line 1"},
        {"replay /dev/null", 3, "/dev/null: "},
        {"explain @/garbage", 3, "garbage: "},
        {"explain /dev/null", 3, "/dev/null: "},
        {"rollout attitude --commands @/garbage", 3, "garbage"},
        {"calibrate attitude -o @/x --config @/garbage", 3, "garbage"},
        {"calibrate attitude -o @/x --set nosuch=1", 3, "nosuch"},
        {"calibrate --recordings @/garbage -o @/x", 3, "garbage"},
        {"check @/attitude.kit --plant nosuch", 3, "nosuch"},
        {"serve @/attitude.kit --plant nosuch", 3, "nosuch"},
        {"calibrate nosuch -o @/x", 3, "nosuch"},
        {"rollout nosuch --commands @/u", 3, "nosuch"},
        {"check @/attitude.kit --method random", 3, "random"},
        {"serve @/attitude.kit --method random", 3, "random"},
        {"check @/attitude.kit --plant 'exec:" PF_EXEC_CHILD "'", 3,
         "calibrated for plant attitude"},
        {"serve @/attitude.kit --plant 'exec:" PF_EXEC_CHILD "'", 3,
         "calibrated for plant attitude"},
        {"check @/attitude.kit --plant exec:/nosuch", 3, "/nosuch"},
    };
    PF_CASE("exit status: bad files and plants are 3 and named");
    run_all(folder, calls, sizeof calls / sizeof calls[0]);
}

// A file of ours in the wrong place: what it is, and what reads it.
static void check_kinds(const char *folder)
{
    static const call calls[] = {
        {"explain @/attitude.kit", 3, "attitude.kit is a kit: `preflight kit show /"},
        {"explain @/attitude.kit", 3, "attitude.kit` shows it; `kit report` writes a page"},
        {"replay @/attitude.kit", 3, "attitude.kit is a kit: "},
        {"model show @/attitude.kit", 3, "attitude.kit is a kit: "},
        {"replay @/certificate", 3, "certificate is a certificate: `preflight explain /"},
        {"check @/run", 3, "run is a journal: `preflight explain /"},
        {"kit show @/certificate", 3, "certificate is a certificate: "},
        {"explain @/kind.audit.json", 3, "kind.audit.json is the audit of a kit: "},
        {"explain @/kind.db", 3, "kind.db is a database: "},
        {"explain @/kind.library", 3, "kind.library is a library of probes: "},
        {"explain @/kind.html", 3, "kind.html is a page: "},
        {"kit show @/kind.model", 3, "kind.model is a learned model: `preflight model show /"},
        {"explain @/kind.data", 3, "kind.data is training data: `preflight data show /"},
    };
    static const char *const heads[][2] = {
        {"audit.json", "{\"format\":\"preflight-audit\",\"kit\":"},
        {"db", "SQLite format 3"},
        {"library", "# Probe library by preflight 0.3.0, for"},
        {"html", "<!doctype html>\n"},
        {"model", "\210\010......{\"__metadata__\":{\"format\":\"preflight-model\","},
        {"data", "PFLTDATA...."}};
    PF_CASE("a file of ours that a command does not read is named, with what reads it");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/kind.%s", folder, heads[i][0]);
        CHECK(pf__file_write(path, heads[i][1], strlen(heads[i][1]), NULL) == PF_OK);
    }
    run_all(folder, calls, sizeof calls / sizeof calls[0]);
}

static int files_in(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        n += e->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
    }
    return d ? n : -1;
}

static void check_unwritable(const char *folder)
{
    static const call calls[] = {
        {"check @/attitude.kit --journal @/empty/no/j", 3, "/no/j: "},
        {"check @/attitude.kit --certificate @/empty/no/c", 3, "/no/c: "},
        {"check @/attitude.kit --journal @/empty", 3, "empty: "},
        {"check @/attitude.kit --journal @/garbage/j", 3, "garbage/j: "},
        {"check @/attitude.kit --journal /dev/full", 3, "/dev/full: "},
        {"check @/attitude.kit --certificate /dev/full", 3, "/dev/full: "},
        {"serve @/attitude.kit --journal @/empty/no/j", 3, "/no/j: "},
        {"serve @/attitude.kit --journal @/empty", 3, "empty: "},
        {"serve @/attitude.kit --journal /dev/full", 3, "/dev/full: "},
        {"serve @/attitude.kit --socket @/empty/no/s", 3, "/no/s: "},
        {"serve @/attitude.kit --socket @/garbage", 3, "garbage: "},
        {"calibrate attitude -o @/empty/no/k", 3, "/no/k: "},
        {"calibrate attitude -o @/empty", 3, "empty: "},
        {"calibrate attitude -o /dev/full", 3, "/dev/full: "},
        {"calibrate attitude -o @/empty/k --set grid=nosuch", 3, "grid"},
    };
    char empty[256];
    PF_CASE("exit status: what cannot be written is 3, nothing is left behind");
    snprintf(empty, sizeof empty, "%s/empty", folder);
    CHECK(mkdir(empty, 0777) == 0);
    int before = files_in(folder);
    run_all(folder, calls, sizeof calls / sizeof calls[0]);
    CHECK(files_in(empty) == 0);
    CHECK(files_in(folder) == before);
}

static void check_full_output(const char *folder)
{
    static const char *const calls[] = {
        "demo",
        "list plants",
        "list methods --json",
        "calibrate attitude -o -",
        "calibrate attitude -o @/full.kit",
        "calibrate attitude -o @/full.kit --json",
        "check @/attitude.kit",
        "check @/attitude.kit --json",
        "check @/attitude.kit --fault 5:.1",
        "serve @/attitude.kit <@/hello",
        "replay @/run",
        "replay @/run --json",
        "explain @/run",
        "explain @/certificate",
        "rollout attitude --commands @/u",
        "rollout attitude --commands @/long",
        "design dc_servo -o -",
        "design dc_servo -o @/full.probes",
        "design dc_servo -o @/full.probes --json",
        "kit show @/attitude.kit",
        "kit show @/attitude.kit --json",
        "--help",
        "--version",
        "check --help",
    };
    char arguments[600];
    PF_CASE("exit status: a full standard output is no success");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        snprintf(arguments, sizeof arguments, "%s >/dev/full; s=$?; [ $s -ge 1 ] && [ $s -le 4 ]",
                 calls[i]);
        CHECK(run(folder, &(call){arguments, 0, ""}));
    }
}

static void write_commands(const char *path, int rows)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "u0,u1,u2,u3,u4,u5,u6,u7\n");
    for (int r = 0; r < rows; r++) {
        fprintf(f, "0,0,.2,0,0,0,0,0\n");
    }
    CHECK(fclose(f) == 0);
}

void check_exit_status(const char *folder)
{
    char path[256];
    void *kit = NULL;
    size_t n = 0;
    pf_error error;
    PF_CASE("exit status: files for the calls");
    snprintf(path, sizeof path, "%s/u", folder);
    write_commands(path, 3);
    snprintf(path, sizeof path, "%s/long", folder);
    write_commands(path, 2000);
    snprintf(path, sizeof path, "%s/hello", folder);
    CHECK(pf__file_write(path, "{\"op\":\"hello\"}\n", 15, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/attitude.kit", folder);
    CHECK(pf__file_read(path, 1 << 24, &kit, &n, &error) == PF_OK);
    snprintf(path, sizeof path, "%s/cut.kit", folder);
    CHECK(pf__file_write(path, kit, n / 2, &error) == PF_OK);
    ((char *)kit)[n / 2] ^= 1;
    snprintf(path, sizeof path, "%s/damaged.kit", folder);
    CHECK(pf__file_write(path, kit, n, &error) == PF_OK);
    free(kit);
    check_usage(folder);
    check_values(folder);
    check_files(folder);
    check_kinds(folder);
    check_unwritable(folder);
    check_full_output(folder);
}
