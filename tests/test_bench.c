// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "bench/foreman.h"
#include "bench/store.h"

#include "database.h"
#include "host/file.h"
#include "preflight/base.h"
#include "program.h"
#include "bench/experiment.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Two quick plants and forty gains: many short trials.
static const char suite_text[] =
    "id: short\n"
    "title: many short trials\n"
    "environments: [pump_tank, wood_berry]\n"
    "methods: [random, bayes-risk, bandit-qcd, sept, eg-mpt, \"eg-mpt:no-transport\"]\n"
    "gains: [.11, .13, .15, .17, .19, .21, .23, .25, .27, .29, .31, .33, .35, .37, .39, .41, .43,\n"
    "        .45, .47, .49, .51, .53, .55, .57, .59, .61, .63, .65, .67, .69, .71, .73, .75, .77,\n"
    "        .79, .81, .83, .85, .87, .89]\n"
    "sigma: .06\n";
enum { UNITS = 2 * 40 * 4, METHODS = 6 };

static char folder[200];

static const char *in_folder(const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_s(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&t, NULL);
}

// --- databases

static long long ask(const char *db, const char *other, const char *sql)
{
    char path[256], second[256];
    return database_ask(in_folder(db, path), other ? in_folder(other, second) : NULL, sql);
}

static bool intact(const char *db)
{
    return ask(db, NULL,
               "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1;
}

// Row for row, value for value, in both directions.
static bool same_rows(const char *a, const char *b)
{
    static const char except[] = "SELECT count(*) FROM (SELECT * FROM main.trial_metric EXCEPT "
                                 "SELECT * FROM b.trial_metric)";
    static const char count[] = "SELECT (SELECT count(*) FROM main.trial_metric) - "
                                "(SELECT count(*) FROM b.trial_metric)";
    return ask(a, NULL, "SELECT count(*) FROM trial_metric") > UNITS * METHODS &&
           ask(a, b, except) == 0 && ask(b, a, except) == 0 && ask(a, b, count) == 0;
}

static bool complete(const char *db)
{
    return ask(db, NULL, "SELECT count(*) FROM unit WHERE state = 2") == UNITS &&
           ask(db, NULL, "SELECT count(*) FROM unit") == UNITS &&
           ask(db, NULL, "SELECT count(*) FROM result") == UNITS * METHODS && intact(db);
}

// --- the real program

static pid_t launch(const char *db, const char *threads)
{
    char suite[256], path[256];
    in_folder("short.yaml", suite);
    in_folder(db, path);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execl(PF_PROGRAM, PF_PROGRAM, "bench", "run", suite, "--profile", "quick", "--db", path,
              "--threads", threads, (char *)NULL);
        _exit(127);
    }
    return pid;
}

// Exit status, or minus the signal.
static int await(pid_t pid)
{
    int ended = 0;
    if (waitpid(pid, &ended, 0) != pid) {
        return -1000;
    }
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended);
}

static bool bench(const char *verb, const char *db, const char *more, int status, const char *part)
{
    char arguments[1200];
    snprintf(arguments, sizeof arguments,
             "bench %s '%s/short.yaml' --profile quick --db '%s/%s' %s", verb, folder, folder, db,
             more);
    return program(arguments, status, part);
}

typedef struct kills {
    pf_rng rng;
    double longest;  // s before a kill
    int n, progress; // kills, and those that came after new trials
} kills;

// Kills one process after the other until the run is complete or there were `most`; then lets it
// finish.
static void kill_round(kills *k, const char *db, int most)
{
    static const char count[] = "SELECT count(*) FROM unit WHERE state = 2";
    long long before = 0;
    bool ended = false;
    for (int i = 0; !ended && i < most; i++) {
        pid_t pid = launch(db, "2");
        wait_s(pf_rng_uniform(&k->rng) * k->longest);
        kill(pid, SIGKILL);
        int status = await(pid);
        ended = status == 0;
        CHECK(ended || status == -SIGKILL);
        long long done = ask(db, NULL, count);
        k->n += !ended;
        k->progress += !ended && done > before;
        before = done;
    }
    CHECK(await(launch(db, "2")) == 0);
    CHECK(complete(db));
    CHECK(same_rows(db, "calm.db"));
}

static void check_kills(double undisturbed)
{
    PF_CASE("kill -9 at random moments: after resuming the rows are the same");
    kills k = {.longest = undisturbed / 10};
    pf_rng_init(&k.rng, pf_key_root((uint64_t)time(NULL)));
    for (int round = 0; round < 10 && (k.n < 20 || k.progress < 3); round++) {
        char db[32];
        snprintf(db, sizeof db, "killed%d.db", round);
        // from the very start, then among the trials, with the kits made before
        if (round % 2 == 1) {
            CHECK(bench("run", db, "--only g=.11", 0, "8 of 320 trials"));
        }
        kill_round(&k, db, round % 2 == 1 ? 16 : 8);
    }
    printf("    %d kills, %d of them after new trials\n", k.n, k.progress);
    CHECK(k.n >= 20 && k.progress >= 3);
}

static void check_two_processes(double undisturbed)
{
    PF_CASE("two processes on one database: no lost or doubled unit");
    pid_t a = launch("two.db", "1"), b = launch("two.db", "1");
    CHECK(await(a) == 0);
    CHECK(await(b) == 0);
    CHECK(complete("two.db"));
    CHECK(same_rows("two.db", "calm.db"));

    PF_CASE("one of two processes is killed: the other finishes what it had claimed");
    a = launch("widow.db", "1");
    b = launch("widow.db", "1");
    wait_s(.6 * undisturbed);
    kill(a, SIGKILL);
    await(a);
    CHECK(await(b) == 0);
    CHECK(complete("widow.db"));
    CHECK(same_rows("widow.db", "calm.db"));
}

static void check_interrupt(double undisturbed)
{
    PF_CASE("Ctrl-C finishes the trial in progress and ends with 130; running again goes on");
    pid_t pid = launch("stopped.db", "2");
    wait_s(.5 * undisturbed);
    kill(pid, SIGINT);
    int status = await(pid);
    CHECK(status == 130 || status == 0);
    CHECK(ask("stopped.db", NULL, "SELECT count(*) FROM unit WHERE state = 1") == 0);
    CHECK(bench("run", "stopped.db", "", 0, "320 of 320 trials"));
    CHECK(bench("run", "stopped.db", "", 0, "(0 now"));
    CHECK(same_rows("stopped.db", "calm.db"));
}

static void check_parts(void)
{
    PF_CASE("--only runs a part, the rest later; the rows are the same");
    CHECK(bench("run", "single.db", "--only environment=wood_berry --only g=.13", 0,
                "4 of 320 trials"));
    CHECK(bench("run", "part.db", "--only environment=wood_berry --only g=.11,0.89", 0,
                "8 of 320 trials"));
    CHECK(bench("status", "part.db", "--json", 0, "\"done\":8"));
    CHECK(bench("run", "part.db", "--only environment=pump_tank --only seed=0", 0,
                "168 of 320 trials"));
    CHECK(bench("run", "part.db", "--threads 1", 0, "320 of 320 trials"));
    CHECK(same_rows("part.db", "calm.db"));
    CHECK(bench("run", "none.db", "--only plant=x", 2, "key environment"));
    CHECK(bench("run", "none.db", "--only g=.12", 2, "nothing in the suite"));
    CHECK(bench("run", "none.db", "--only g=", 2, "nothing in the suite"));
    CHECK(bench("run", "none.db", "--only seed", 2, "--only seed"));
    char path[256];
    CHECK(access(in_folder("none.db", path), F_OK) != 0);
}

// --- what a disk can do

typedef struct bench_run {
    pf_suite suite;
    pf_experiment experiment;
} bench_run;

static bool resolve(bench_run *b)
{
    pf_error error = {PF_OK, ""};
    bool good =
        pf__suite_read(&b->suite, "short", suite_text, sizeof suite_text - 1, NULL, 0, &error) ==
            PF_OK &&
        pf__experiment_init(&b->experiment, &b->suite, pf__profile_find("quick"), &error) == PF_OK;
    if (!good) {
        printf("    %s\n", error.text);
    }
    return good;
}

// What a foreman says to whoever asks for trials; its kits are said to be there.
static pf_turn ask_for_trials(pf_foreman *foreman)
{
    pf_turn turn = PF_TURN_LONG;
    pf_text text = {0};
    pf_error error = {PF_OK, ""};
    while (turn == PF_TURN_LONG) {
        pf_job job;
        pf_said said;
        pf__text_clear(&text);
        if (!CHECK(foreman->next(foreman->self, 0, &turn, &text, &error) == PF_OK)) {
            break;
        }
        if (turn == PF_TURN_LONG) {
            memset(&said, 0, sizeof said);
            memcpy(&job, text.data, text.size < sizeof job ? text.size : sizeof job);
            said.kind = PF_SAID_KITS;
            said.kits = job.kits;
            pf_text bytes = {.data = (char *)&said, .size = sizeof said};
            CHECK(foreman->hear(foreman->self, 0, &bytes, NULL, &error) == PF_OK);
        }
    }
    pf__text_free(&text);
    return turn;
}

static void check_given_back(bench_run *b)
{
    char path[256];
    bool work = false;
    int n = 1;
    pf_store *store = NULL;
    pf_run_foreman *f = NULL;
    pf_run_report report = {0};
    pf_error error = {PF_OK, ""};
    pf_unit units[PF_STORE_CLAIM];
    pf_effort effort = {.threads = 2};
    PF_CASE("trials that another process gives back are done, however many threads wait");
    CHECK(pf__store_open(&store, in_folder("back.db", path), PF_STORE_WRITE, &error) == PF_OK);
    pf_run_place place = {.store = store, .effort = &effort};
    CHECK(pf__foreman_create(&f, &b->experiment, &place, &report, &work, &error) == PF_OK && work);
    pf_foreman foreman = pf__foreman_of(f);
    const char *hash = b->experiment.hash;
    while (n > 0 &&
           CHECK(pf__store_claim(store, hash, NULL, NULL, NULL, units, &n, &error) == PF_OK)) {
    }
    CHECK(ask_for_trials(&foreman) == PF_TURN_LATER);
    CHECK(ask_for_trials(&foreman) == PF_TURN_LATER); // within the pause between two counts
    CHECK(pf__store_unclaim_all(store, hash, &error) == PF_OK);
    wait_s(.06);
    CHECK(ask_for_trials(&foreman) == PF_TURN_SHORT);
    pf__foreman_destroy(f);
    pf__store_close(store);
}

static void check_full_disk(bench_run *b)
{
    char path[256];
    PF_CASE("a full disk is an error, the database stays whole and can go on");
    long long all = ask("calm.db", NULL, "PRAGMA page_count");
    CHECK(all > 40);
    in_folder("full.db", path);
    for (int step = 0; step < 8; step++) {
        pf_store *store = NULL;
        pf_error error = {PF_OK, ""};
        pf_run_report report;
        pf_effort effort = {.threads = 2};
        CHECK(pf__store_open(&store, path, PF_STORE_WRITE, &error) == PF_OK);
        long long pages = ask("full.db", NULL, "PRAGMA page_count");
        pages += 1 + (all - pages) * step / 12;
        CHECK(pf__store_limit(store, (int)pages, &error) == PF_OK);
        CHECK(pf__experiment_run(&b->experiment, &(pf_run_place){.store = store, .effort = &effort},
                                 &report, &error) == PF_ERR_FILE);
        CHECK_CONTAINS(error.text, "full");
        CHECK_CONTAINS(error.text, "full.db");
        pf__store_close(store);
        CHECK(intact("full.db"));
    }
    CHECK(bench("run", "full.db", "", 0, "320 of 320 trials, 0 failed"));
    CHECK(complete("full.db"));
    CHECK(same_rows("full.db", "calm.db"));
}

// In a child that is not root, because root may write anything.
static int run_readonly(bench_run *b, const char *path, char *text, size_t n)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        pf_store *store = NULL;
        pf_error error = {PF_OK, ""};
        pf_run_report report;
        pf_effort effort = {.threads = 2};
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
            _exit(99);
        }
        pf_status status = pf__store_open(&store, path, PF_STORE_WRITE, &error);
        if (status == PF_OK) {
            status = pf__experiment_run(&b->experiment,
                                        &(pf_run_place){.store = store, .effort = &effort}, &report,
                                        &error);
        }
        pf__store_close(store);
        ssize_t written = write(ends[1], error.text, strlen(error.text));
        _exit(written < 0 ? 98 : (int)status);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], text, n - 1);
    text[got > 0 ? got : 0] = 0;
    close(ends[0]);
    return await(pid);
}

static void check_read_only(bench_run *b)
{
    char path[256], text[400];
    PF_CASE("a read-only database: a clear error, and the file is as it was");
    CHECK(bench("run", "locked.db", "--only g=.11", 0, "8 of 320 trials"));
    in_folder("locked.db", path);
    CHECK(chmod(pf_scratch_dir(), 0755) == 0 && chmod(folder, 0755) == 0);
    CHECK(chmod(path, 0444) == 0 && chmod(folder, 0555) == 0);
    CHECK(run_readonly(b, path, text, sizeof text) == PF_ERR_FILE);
    CHECK_CONTAINS(text, "locked.db");
    CHECK(chmod(folder, 0755) == 0);
    CHECK(run_readonly(b, path, text, sizeof text) == PF_ERR_FILE);
    CHECK_CONTAINS(text, "locked.db");
    CHECK(chmod(path, 0644) == 0);
    CHECK(intact("locked.db"));
    CHECK(bench("run", "locked.db", "", 0, "320 of 320 trials"));
    CHECK(same_rows("locked.db", "calm.db"));

    PF_CASE("a database that is none, a folder, a place that cannot be written: 3 and named");
    CHECK(pf__file_write(in_folder("text.db", path), "this is no database, only text\n", 31,
                         NULL) == PF_OK);
    CHECK(bench("run", "text.db", "", 3, "text.db"));
    CHECK(bench("status", "text.db", "", 3, "text.db"));
    CHECK(bench("run", "none/x.db", "", 3, "none/x.db"));
    CHECK(bench("status", "nosuch.db", "", 3, "there is no such database"));
    CHECK(bench("verify", "nosuch.db", "", 3, "there is no such database"));
    CHECK(access(in_folder("nosuch.db", path), F_OK) != 0);
}

// --- verify

static void tamper(const char *sql)
{
    CHECK(ask("tampered.db", NULL, sql) == 0);
}

static void check_verify(void)
{
    static const char all[] = "--sample 1000";
    static const char one[] = "unit = (SELECT max(id) FROM unit) - 5 AND method = 'sept'";
    char sql[400];
    PF_CASE("verify recomputes stored trials to the last bit");
    CHECK(bench("verify", "calm.db", all, 0, "320 of 320 stored trials recomputed, 0 differ"));
    CHECK(bench("verify", "calm.db", "--sample 7 --threads 1", 0, "7 of 320"));
    CHECK(bench("run", "tampered.db", "", 0, "320 of 320"));
    PF_CASE("verify finds a tampered row and names it");
    // the last bit of a number
    snprintf(sql, sizeof sql, "UPDATE result SET cost = cost * (1 + 2.3e-16) WHERE %s", one);
    tamper(sql);
    CHECK(bench("verify", "tampered.db", all, 1, "sept, cost: stored "));
    CHECK(bench("verify", "tampered.db", all, 1, "1 differ"));
    snprintf(sql, sizeof sql, "UPDATE result SET cost = NULL WHERE %s", one);
    tamper(sql);
    CHECK(bench("verify", "tampered.db", all, 1, "sept, cost: stored none, recomputed "));
    snprintf(sql, sizeof sql, "DELETE FROM result WHERE %s", one);
    tamper(sql);
    CHECK(bench("verify", "tampered.db", all, 1, "sept: the row is missing"));
    // all rows of a unit gone: the unit still counts as done
    tamper("DELETE FROM result WHERE unit = 7");
    CHECK(bench("verify", "tampered.db", all, 1, "320 of 320"));
    CHECK(bench("verify", "tampered.db", all, 1, "the row is missing"));
    // kits are calibrated anew, never taken from the store
    tamper("UPDATE kit SET bytes = zeroblob(64)");
    CHECK(bench("verify", "tampered.db", all, 1, "the row is missing"));
}

// one.db, which nobody needs any more, as a run would leave it whose simulator was gone for a
// while.
static void check_retry(void)
{
    PF_CASE("failed trials stay failed; --retry runs them once more");
    CHECK(ask("one.db", NULL,
              "DELETE FROM result WHERE unit IN (SELECT id FROM unit WHERE "
              "trial = 1)") == 0);
    CHECK(ask("one.db", NULL, "UPDATE unit SET state = 3, reason = 'gone' WHERE trial = 1") == 0);
    CHECK(bench("run", "one.db", "", 1, "240 of 320 trials, 80 failed (0 now"));
    CHECK(bench("run", "one.db", "--retry", 0, "320 of 320 trials, 0 failed (80 now"));
    CHECK(same_rows("one.db", "calm.db"));
    CHECK(bench("run", "one.db", "--retry", 0, "(0 now"));
}

static void check_config_hash(void)
{
    PF_CASE("a changed setting gets another hash and overwrites nothing");
    CHECK(bench("run", "hash.db", "", 0, "320 of 320"));
    CHECK(bench("run", "hash.db", "--set alpha=.2 --set gains=[.35,.5]", 0, "16 of 16 trials"));
    CHECK(ask("hash.db", NULL, "SELECT count(DISTINCT config_hash) FROM trial_metric") == 2);
    CHECK(ask("hash.db", "calm.db",
              "SELECT count(*) FROM (SELECT * FROM b.trial_metric EXCEPT SELECT * FROM "
              "main.trial_metric)") == 0);
    CHECK(bench("status", "hash.db", "", 0, "16 of 16 done"));
    CHECK(bench("verify", "hash.db", "--set alpha=.2 --set gains=[.35,.5]", 0, "0 differ"));
    CHECK(bench("verify", "hash.db", "", 3, "repeat the --set of that run"));
    CHECK(bench("status", "hash.db", "--config 0123456789abcdef", 3, "holds no run"));
    bench_run b;
    if (CHECK(resolve(&b))) {
        char config[64];
        snprintf(config, sizeof config, "--config %s", b.experiment.hash);
        CHECK(bench("status", "hash.db", config, 0, "320 of 320 done"));
        CHECK(bench("verify", "hash.db", config, 0, "0 differ"));
        pf__experiment_free(&b.experiment);
        pf__suite_free(&b.suite);
    }
}

// --- suites that make no sense

static void check_bad_suites(void)
{
    static const struct {
        const char *set, *part;
    } cases[] = {
        {"gain=.5", "did you mean 'gains'"},
        {"metods=[random]", "did you mean 'methods'"},
        {"trials=many", "trials"},
        {"gains=[low]", "gains"},
        {"gains=[]", "gains"},
        {"environments=[]", "environments"},
        {"methods=[]", "methods"},
        {"methods=[oracle]", "oracle"},
        {"methods=[random,random]", "listed twice"},
        {"environments=[moon_base]", "moon_base"},
        {"environments=[dc_servo,dc_servo]", "listed twice"},
        {"bins=1", "bins"},
        {"bins=[5,1]", "bins"},
        {"trials=0", "trials"},
        {"seeds=0", "seeds"},
        {"alpha=0", "alpha"},
        {"alpha=1", "alpha"},
        {"gains=[.5,.5]", "listed twice"},
        {"gains=[.333]", "two decimals"},
        {"gains=[1]", "gains"},
        {"stage2=99", "stage2"},
        {"stop=never", "stop"},
        {"nominal=1", "nominal"},
        {"kind=dance", "kind"},
        {"table=round", "table"},
        {"episodes=[60,60]", "listed twice"},
        {"sigma=.nan", "sigma"},
        {"id=../up", "id: becomes the name of a file"},
        {"id=sub/page", "id: becomes the name of a file"},
        {"id=..", "id: becomes the name of a file"},
        {"id=-o", "id: becomes the name of a file"},
        {"id=turned\u202eback", "id: becomes the name of a file"},
        {"id=\"two\\nlines\"", "id"},
        {"from=../ladder", "from: becomes the name of a file"},
    };
    char path[256], more[200];
    PF_CASE("suites that make no sense are refused before any work");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(more, sizeof more, "--set '%s'", cases[i].set);
        CHECK(bench("run", "bad.db", more, 3, cases[i].part));
    }
    CHECK(program("bench run compact-plans --profile quick", 3, "did you mean 'compact-plants'"));
    CHECK(program("bench run /nosuch/x.yaml --profile quick", 3, "/nosuch/x.yaml"));
    CHECK(program("bench run compact-plants --profile quik", 2, "quick, standard or paper"));
    CHECK(program("bench run compact-plants --data /nosuch", 3, "--data DIR"));
    CHECK(program("bench rum", 2, "did you mean 'run'"));
    CHECK(program("bench", 2, "say list"));
    CHECK(access(in_folder("bad.db", path), F_OK) != 0);
}

static void check_smoke(void)
{
    char arguments[600];
    PF_CASE("quick smoke of every suite in one process that shares kits");
    snprintf(arguments, sizeof arguments,
             "bench run compact-plants compact-ranks compact-severity ladder per-family --profile "
             "quick --db '%s/smoke.db'",
             folder);
    CHECK(program(arguments, 0, "(352 now, 0 of 11 kits calibrated"));
    CHECK(intact("smoke.db"));
    CHECK(ask("smoke.db", NULL, "SELECT count(*) FROM unit WHERE state = 2") == 88 + 352 + 88);
    CHECK(program("bench list --json", 0, "\"id\":\"compact-ranks\""));
    CHECK(program("list suites", 0, "ladder"));
}

// Both turn the new file to write-ahead logging at the same moment.
static void check_open(void)
{
    enum { ROUNDS = 60, OPENERS = 2 };
    PF_CASE("two processes create a database at once");
    int refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char path[300];
        snprintf(path, sizeof path, "%s/new%d.db", pf_scratch_dir(), round);
        pid_t child[OPENERS];
        for (int i = 0; i < OPENERS; i++) {
            child[i] = fork();
            if (child[i] == 0) {
                pf_store *store = NULL;
                pf_status status = pf__store_open(&store, path, PF_STORE_WRITE, NULL);
                pf__store_close(store);
                _exit(status != PF_OK);
            }
        }
        for (int i = 0; i < OPENERS; i++) {
            int code = 0;
            CHECK(waitpid(child[i], &code, 0) == child[i]);
            refused += code != 0;
        }
    }
    CHECK(refused == 0);
}

// Group probes, several faults, the control arm: a whole small suite, twice, and a store of before.
static void check_groups(void)
{
    static const char suite[] = "id: groups\ntitle: t\nenvironments: [attitude]\n"
                                "methods: [eg-mpt, group, \"group:random\"]\nfaults: many\n"
                                "weighting: shrunk\nn_faults: [1, 2]\ngains: [.2, .5]\n"
                                "stop: latch\nprobes: '%s/{}.yaml'\n";
    static const char library[] =
        "probes:\n"
        "  - {name: a, command: [[0,.26,.26,0,0,0,0,0],[0,.26,0,0,0,0,0,0]]}\n"
        "  - {name: b, command: [[0,0,0,.26,.26,0,0,0],[0,0,0,.26,0,0,0,0]]}\n"
        "  - {name: c, command: [[0,0,0,0,0,.26,.26,0],[0,0,0,0,0,.26,0,0]]}\n"
        "  - {name: d, command: [[0,0,0,0,0,0,0,.26],[0,0,0,0,0,0,0,.26]]}\n";
    char path[256], text[800], command[1200];
    pf_error error;
    PF_CASE("group methods and several faults: run, verified, the same for any threads");
    snprintf(text, sizeof text, suite, folder);
    CHECK(pf__file_write(in_folder("groups.yaml", path), text, strlen(text), &error) == PF_OK);
    CHECK(pf__file_write(in_folder("attitude.yaml", path), library, sizeof library - 1, &error) ==
          PF_OK);
    for (int threads = 1; threads <= 2; threads++) {
        snprintf(command, sizeof command,
                 "bench run '%s/groups.yaml' --profile quick --threads %d --db '%s/g%d.db'", folder,
                 threads, folder, threads);
        CHECK(program(command, 0, "8 of 8 trials"));
    }
    static const char except[] = "SELECT count(*) FROM (SELECT * FROM main.trial_metric EXCEPT "
                                 "SELECT * FROM b.trial_metric)";
    CHECK(ask("g1.db", "g2.db", except) == 0 && ask("g2.db", "g1.db", except) == 0);
    CHECK(ask("g1.db", NULL, "SELECT count(*) FROM trial_metric WHERE metric = 'healthy_blamed'") ==
          3 * 8);
    snprintf(command, sizeof command,
             "bench verify '%s/groups.yaml' --profile quick --db '%s/g1.db'", folder, folder);
    CHECK(program(command, 0, "0 differ"));
    PF_CASE("a store from before a metric came: read as it is, completed when written to");
    CHECK(ask("g2.db", NULL, "DROP VIEW trial_metric") == 0);
    CHECK(ask("g2.db", NULL, "ALTER TABLE result DROP COLUMN all_named") == 0);
    snprintf(command, sizeof command,
             "bench table '%s/groups.yaml' --profile quick --format csv --db '%s/g2.db'", folder,
             folder);
    CHECK(program(command, 0, "healthy_blamed"));
    snprintf(command, sizeof command, "bench run '%s/groups.yaml' --profile quick --db '%s/g2.db'",
             folder, folder);
    CHECK(program(command, 0, "8 of 8 trials"));
    CHECK(ask("g2.db", NULL, "SELECT count(*) FROM trial_metric WHERE metric = 'all_named'") == 0);
    CHECK(ask("g2.db", NULL, "SELECT count(*) FROM trial_metric") > 0);
}

void test_bench(void)
{
    check_open();
    char path[256];
    pf_error error;
    bench_run b;
    PF_CASE("an undisturbed run; 1 and 2 threads give the same rows");
    CHECK(program_folder(folder, sizeof folder, "bench"));
    CHECK(pf__file_write(in_folder("short.yaml", path), suite_text, sizeof suite_text - 1,
                         &error) == PF_OK);
    double start = now();
    CHECK(await(launch("calm.db", "2")) == 0);
    double undisturbed = now() - start;
    CHECK(complete("calm.db"));
    CHECK(await(launch("one.db", "1")) == 0);
    CHECK(same_rows("one.db", "calm.db"));
    check_kills(undisturbed);
    check_two_processes(undisturbed);
    check_interrupt(undisturbed);
    check_parts();
    if (CHECK(resolve(&b))) {
        check_given_back(&b);
        check_full_disk(&b);
        check_read_only(&b);
        pf__experiment_free(&b.experiment);
        pf__suite_free(&b.suite);
    }
    check_verify();
    check_retry();
    check_config_hash();
    check_bad_suites();
    check_groups();
    check_smoke();
}
