// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "bench/store.h"

#include "host/file.h"
#include "program.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Four trials of one plant.
static const char suite_text[] = "id: tiny\n"
                                 "title: four trials\n"
                                 "environments: [pump_tank]\n"
                                 "methods: [random, eg-mpt]\n"
                                 "gains: [.35]\n"
                                 "sigma: .06\n";

static char folder[200];

static const char *in_folder(const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

// Runs SQL on a database of the folder, which it creates; the first number of the answer.
static long sql(const char *db, const char *text)
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    char path[256];
    long answer = -1;
    if (sqlite3_open(in_folder(db, path), &handle) == SQLITE_OK) {
        while (*text && sqlite3_prepare_v2(handle, text, -1, &statement, &text) == SQLITE_OK) {
            int code = sqlite3_step(statement);
            answer = code == SQLITE_ROW    ? (long)sqlite3_column_int64(statement, 0)
                     : code == SQLITE_DONE ? 0
                                           : -1;
            sqlite3_finalize(statement);
        }
    }
    sqlite3_close(handle);
    return answer;
}

// The first text of the answer.
static void sql_text(const char *db, const char *text, char out[128])
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    char path[256];
    out[0] = 0;
    if (sqlite3_open(in_folder(db, path), &handle) == SQLITE_OK &&
        sqlite3_prepare_v2(handle, text, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        snprintf(out, 128, "%s", (const char *)sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
    sqlite3_close(handle);
}

static bool bench(const char *verb, const char *db, const char *more, int status, const char *part)
{
    char arguments[1200];
    snprintf(arguments, sizeof arguments, "bench %s '%s/tiny.yaml' --profile quick --db '%s/%s' %s",
             verb, folder, folder, db, more);
    return program(arguments, status, part);
}

static void check_names(void)
{
    static const char *const verbs[] = {"run", "status", "verify", "table", "figure -o x"};
    static const struct {
        const char *name, *part;
    } names[] = {{"", "--db needs the name of a file"},
                 {":memory:", "':memory:' is no file"},
                 {"file:x?mode=memory", "is an address"}};
    char arguments[600], path[256];
    PF_CASE("names that SQLite takes for no file are refused before any work");
    for (size_t v = 0; v < sizeof verbs / sizeof verbs[0]; v++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            snprintf(arguments, sizeof arguments,
                     "bench %s '%s/tiny.yaml' --profile quick --db '%s'", verbs[v], folder,
                     names[i].name);
            CHECK(program(arguments, 2, names[i].part));
        }
    }
    pf_store *store = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(pf__store_open(&store, "", PF_STORE_WRITE, &error) == PF_ERR_ARGUMENT);
    CHECK(pf__store_open(&store, ":memory:", PF_STORE_WRITE, &error) == PF_ERR_ARGUMENT);
    CHECK(access(in_folder("x", path), F_OK) != 0);
}

static void check_same(const char *db, const char *verb, const char *part)
{
    char path[256];
    void *before = NULL, *after = NULL;
    size_t n = 0, m = 0;
    in_folder(db, path);
    CHECK(pf__file_read(path, (size_t)1 << 26, &before, &n, NULL) == PF_OK);
    CHECK(bench(verb, db, "", 3, part));
    CHECK(pf__file_read(path, (size_t)1 << 26, &after, &m, NULL) == PF_OK);
    CHECK(n == m && before && after && memcmp(before, after, n) == 0);
    free(before);
    free(after);
}

static void check_foreign(void)
{
    static const char *const verbs[] = {"run", "status", "verify", "table"};
    static const char *const files[] = {"notes.db", "units.db", "marked.db"};
    PF_CASE("a database of something else is refused and stays as it is");
    CHECK(sql("notes.db", "CREATE TABLE note(text); INSERT INTO note VALUES('mine');") == 0);
    CHECK(sql("units.db", "CREATE TABLE experiment(hash, suite, profile, preflight, settings);"
                          "CREATE TABLE unit(name, symbol);") == 0);
    CHECK(sql("marked.db", "PRAGMA application_id = 77;") == 0);
    for (size_t v = 0; v < sizeof verbs / sizeof verbs[0]; v++) {
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            check_same(files[i], verbs[v], "a database of something else");
        }
    }
}

static void check_empty(void)
{
    char path[256];
    PF_CASE("a file without anything in it has no results; a run fills it");
    CHECK(pf__file_write(in_folder("empty.db", path), "", 0, NULL) == PF_OK);
    check_same("empty.db", "table", "there are no results in it; `preflight bench run`");
    check_same("empty.db", "status", "there are no results in it");
    CHECK(bench("run", "empty.db", "", 0, "4 of 4 trials"));
    CHECK(bench("table", "empty.db", "", 0, "tiny"));
}

// SQLite opens what stands beside a database; a link there must not lead elsewhere.
static void check_links(void)
{
    static const char *const beside[] = {"-wal", "-shm", "-journal"};
    static const char *const targets[] = {"victim", "nowhere"};
    char victim[256], path[256], name[30], call[600];
    struct stat info;
    PF_CASE("links beside a database are not followed");
    for (size_t i = 0; i < 6; i++) {
        CHECK(pf__file_write(in_folder("victim", victim), "mine", 4, NULL) == PF_OK);
        snprintf(name, sizeof name, "linked%d.db%s", (int)i, beside[i / 2]);
        CHECK(symlink(targets[i % 2], in_folder(name, path)) == 0);
        snprintf(call, sizeof call,
                 "</dev/null >/dev/null 2>&1 '%s' bench run '%s/tiny.yaml' --db "
                 "'%s/linked%d.db'",
                 PF_PROGRAM, folder, folder, (int)i);
        int ended = system(call); // it may refuse or clear them away
        CHECK(WIFEXITED(ended) && (WEXITSTATUS(ended) == 0 || WEXITSTATUS(ended) == 3));
        CHECK(stat(victim, &info) == 0 && info.st_size == 4);
        CHECK(access(in_folder("nowhere", path), F_OK) != 0);
    }
}

static void check_damaged(void)
{
    void *bytes = NULL;
    size_t n = 0;
    char path[256];
    PF_CASE("a damaged database is named so");
    CHECK(bench("run", "damaged.db", "", 0, "4 of 4 trials"));
    CHECK(pf__file_read(in_folder("damaged.db", path), (size_t)1 << 26, &bytes, &n, NULL) == PF_OK);
    if (CHECK(n > 8192)) {
        // the schema, but not the header
        memset((char *)bytes + 100, 0xa5, 3000);
        CHECK(pf__file_write(path, bytes, n, NULL) == PF_OK);
        check_same("damaged.db", "table", "the database is damaged");
        check_same("damaged.db", "run", "restore a copy of it, or delete it");
    }
    free(bytes);
}

static void config_of(const char *db, const char *alpha, char config[128])
{
    char text[200], hash[128];
    snprintf(text, sizeof text,
             "SELECT hash FROM experiment WHERE json_extract(settings, '$.alpha') = %s", alpha);
    sql_text(db, text, hash);
    CHECK(strlen(hash) == 16);
    snprintf(config, 128, "config %.100s", hash);
}

static void check_configs(void)
{
    char own[128], other[128], option[160];
    PF_CASE("of several configurations the one run last is shown, and the others are named");
    CHECK(bench("run", "two.db", "", 0, "4 of 4 trials"));
    CHECK(bench("run", "two.db", "--set alpha=.2", 0, "4 of 4 trials"));
    config_of("two.db", "0.1", own);
    config_of("two.db", "0.2", other);
    CHECK(bench("table", "two.db", "", 0, other));
    CHECK(bench("table", "two.db", "", 0, "two.db has 2 configurations of tiny at profile quick"));
    CHECK(bench("status", "two.db", "", 0, ": alpha=0.1\n"));
    CHECK(bench("table", "two.db", "", 0, "Settings other than the suite's: alpha=0.2."));
    CHECK(bench("table", "two.db", "--format tex", 0, "Settings other than the suite's"));
    CHECK(bench("run", "two.db", "", 0, "(0 now"));
    CHECK(bench("table", "two.db", "", 0, own));
    CHECK(bench("status", "two.db", "", 0, own));
    CHECK(bench("status", "two.db", "", 0, ": alpha=0.2\n"));

    PF_CASE("--set and --config choose the configuration of every command that reads");
    CHECK(bench("table", "two.db", "--set alpha=.2", 0, other));
    CHECK(bench("status", "two.db", "--set alpha=.2", 0, other));
    CHECK(bench("verify", "two.db", "--set alpha=.2", 0, "0 differ"));
    CHECK(bench("table", "two.db", "--set alpha=.3", 3, "holds no run of tiny at profile quick"));
    CHECK(bench("status", "two.db", "--set alpha=.3", 3, "that of --set here and now"));
    CHECK(bench("figure", "two.db", "--set alpha=.3 -o x", 3, "holds no run of tiny"));
    snprintf(option, sizeof option, "--config %s", other + strlen("config "));
    CHECK(bench("table", "two.db", option, 0, "alpha=0.2"));
    snprintf(option, sizeof option, "--set alpha=.2 --config %s", own + strlen("config "));
    CHECK(bench("table", "two.db", option, 3, "leave out one"));

    PF_CASE("a database from before the last run was noted is read, and goes on");
    CHECK(sql("two.db", "ALTER TABLE experiment DROP COLUMN last_run") == 0);
    CHECK(bench("table", "two.db", "", 0, other));
    CHECK(bench("run", "two.db", "", 0, "(0 now"));
    CHECK(bench("table", "two.db", "", 0, own));
}

static void check_incomplete(void)
{
    static const char foot[] = "\n2 of 4 trials are done, 1 failed: the numbers above";
    char path[256], more[300];
    void *csv = NULL;
    size_t n = 0;
    PF_CASE("a table says what it lacks, on stderr and below it; csv has its columns only");
    CHECK(bench("run", "part.db", "", 0, "4 of 4 trials"));
    CHECK(sql("part.db",
              "UPDATE unit SET state = 3, reason = 'gone' WHERE trial = 1;"
              "UPDATE unit SET state = 0 WHERE trial = 2;"
              "DELETE FROM result WHERE unit IN (SELECT id FROM unit WHERE state <> 2)") == 0);
    CHECK(bench("status", "part.db", "", 1, "2 of 4 done, 1 failed, 0 running"));
    CHECK(bench("status", "part.db", "--json", 1, "\"failed\":1,\"running\":0"));
    CHECK(bench("table", "part.db", "", 0, "2 of 4 trials are done, 1 failed; the rest"));
    CHECK(bench("table", "part.db", "2>/dev/null", 0, foot));
    CHECK(bench("table", "part.db", "--format tex 2>/dev/null", 0, foot));
    CHECK(bench("table", "part.db", "--format csv", 0, "2 of 4 trials are done, 1 failed; "));
    snprintf(more, sizeof more, "--format csv >'%s'", in_folder("part.csv", path));
    CHECK(bench("table", "part.db", more, 0, ""));
    CHECK(pf__file_read(path, (size_t)1 << 20, &csv, &n, NULL) == PF_OK);
    CHECK(csv && strstr(csv, "suite,environment,") == csv && !strstr(csv, "trials are done"));
    free(csv);
}

static void check_claims(void)
{
    char path[256], hash[128];
    pf_store *store = NULL;
    pf_unit unit[PF_STORE_CLAIM];
    pf_error error = {PF_OK, ""};
    int n = 0;
    PF_CASE("status counts as running what living processes have claimed");
    CHECK(bench("run", "claims.db", "", 0, "4 of 4 trials"));
    sql_text("claims.db", "SELECT hash FROM experiment", hash);
    CHECK(sql("claims.db", "DELETE FROM result; UPDATE unit SET state = 0;"
                           "UPDATE unit SET state = 1, owner = '4194000-1' WHERE trial = 3;"
                           "UPDATE unit SET state = 1, owner = NULL WHERE trial = 2") == 0);
    CHECK(pf__store_open(&store, in_folder("claims.db", path), PF_STORE_WRITE, &error) == PF_OK);
    CHECK(pf__store_claim(store, hash, NULL, NULL, NULL, unit, &n, &error) == PF_OK && n == 1);
    CHECK(bench("status", "claims.db", "", 0, "0 of 4 done, 0 failed, 1 running"));
    CHECK(pf__store_unclaim(store, &unit[0], &error) == PF_OK);
    // a claim that is gone can be neither finished nor failed
    CHECK(pf__store_fail(store, &unit[0], "late", &error) == PF_ERR_INTERNAL);
    CHECK_CONTAINS(error.text, "is not this process's");
    pf__store_close(store);
    CHECK(bench("status", "claims.db", "", 0, "0 of 4 done, 0 failed, 0 running"));
    CHECK(bench("run", "claims.db", "", 0, "4 of 4 trials, 0 failed (4 now"));
}

// One process writes for many ranks: what comes at once is written at once.
static void check_gather(void)
{
    static const char *const methods[] = {"random"};
    static const char done[] = "SELECT count(*) || '' FROM unit WHERE state = 2";
    const pf_trial_result results[1] = {{.value = {0}}};
    char path[256], hash[128], text[128];
    pf_store *store = NULL;
    pf_unit unit[3][PF_STORE_CLAIM];
    pf_error error = {PF_OK, ""};
    int64_t after = 0;
    int n = 0;
    PF_CASE("gathered changes appear together; one that is refused takes no other with it");
    CHECK(bench("run", "gather.db", "", 0, "4 of 4 trials"));
    sql_text("gather.db", "SELECT hash FROM experiment", hash);
    CHECK(sql("gather.db", "DELETE FROM result; UPDATE unit SET state = 0") == 0);
    CHECK(pf__store_open(&store, in_folder("gather.db", path), PF_STORE_WRITE, &error) == PF_OK);
    CHECK(pf__store_gather(store, true, &error) == PF_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(pf__store_claim(store, hash, NULL, NULL, &after, unit[i], &n, &error) == PF_OK);
        CHECK(n == 1 && after == unit[i]->id);
    }
    CHECK(pf__store_finish(store, unit[0], "here", 1, methods, results, &error) == PF_OK);
    CHECK(pf__store_finish(store, unit[0], "here", 1, methods, results, &error) == PF_ERR_INTERNAL);
    CHECK(pf__store_finish(store, unit[1], "there", 1, methods, results, &error) == PF_OK);
    CHECK(pf__store_flush(store, &error) == PF_OK);
    sql_text("gather.db", done, text);
    CHECK_STR(text, "2");
    sql_text("gather.db",
             "SELECT group_concat(name) FROM unit JOIN machine m ON m.id = machine WHERE state = 2",
             text);
    CHECK_STR(text, "here,there");
    PF_CASE("what this process has claimed is given back at once");
    CHECK(pf__store_unclaim_all(store, hash, &error) == PF_OK);
    CHECK(pf__store_gather(store, false, &error) == PF_OK);
    sql_text("gather.db", "SELECT count(*) || '' FROM unit WHERE state = 0 AND owner IS NULL",
             text);
    CHECK_STR(text, "2");
    PF_CASE("who looks behind the last one finds those before it afterwards");
    after = unit[2]->id + 1;
    CHECK(pf__store_claim(store, hash, NULL, NULL, &after, unit[0], &n, &error) == PF_OK);
    CHECK(n == 1 && unit[0]->id == unit[2]->id);
    pf__store_close(store);
}

// Opens a database of the folder to read as a user that is not root, who may write anything; its
// status, and what is wrong.
static int read_as_other(const char *db, char *text, size_t n)
{
    int ends[2], ended = 0;
    if (pipe(ends) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        char path[256];
        pf_store *store = NULL;
        pf_error error = {PF_OK, ""};
        pf_store_counts counts;
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
            _exit(99);
        }
        pf_status status = pf__store_open(&store, in_folder(db, path), PF_STORE_READ, &error);
        status = status ? status : pf__store_count(store, "none", &counts, &error);
        pf__store_close(store);
        ssize_t written = write(ends[1], error.text, strlen(error.text));
        _exit(written < 0 ? 98 : (int)status);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], text, n - 1);
    text[got > 0 ? got : 0] = 0;
    close(ends[0]);
    return waitpid(pid, &ended, 0) == pid && WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
}

static bool alone(const char *db)
{
    char name[32], path[256];
    snprintf(name, sizeof name, "%s-wal", db);
    bool wal = access(in_folder(name, path), F_OK) == 0;
    snprintf(name, sizeof name, "%s-shm", db);
    return !wal && access(in_folder(name, path), F_OK) != 0;
}

static void check_reading(void)
{
    static const char db[] = "read?%41#.db";
    char path[256], log[256], text[400];
    void *bytes = NULL;
    size_t n = 0;
    PF_CASE("reading leaves nothing beside a database, and needs no right to write");
    CHECK(bench("run", db, "", 0, "4 of 4 trials"));
    CHECK(alone(db));
    CHECK(bench("table", db, "", 0, "tiny"));
    CHECK(bench("status", db, "", 0, "4 of 4 done"));
    CHECK(alone(db));
    CHECK(chmod(pf_scratch_dir(), 0755) == 0);
    for (int i = 0; i < 3; i++) {
        // the file, the folder, both
        CHECK(chmod(in_folder(db, path), i == 1 ? 0666 : 0444) == 0);
        CHECK(chmod(folder, i == 0 ? 0777 : 0555) == 0);
        CHECK(read_as_other(db, text, sizeof text) == PF_OK);
        CHECK_STR(text, "");
        CHECK(alone(db));
    }
    PF_CASE("a log that cannot be read along is not passed over");
    CHECK(chmod(folder, 0755) == 0 && chmod(path, 0644) == 0);
    CHECK(pf__file_read(path, (size_t)1 << 26, &bytes, &n, NULL) == PF_OK);
    CHECK(pf__file_write(in_folder("read?%41#.db-wal", log), bytes, n, NULL) == PF_OK);
    free(bytes);
    CHECK(chmod(log, 0444) == 0 && chmod(path, 0444) == 0 && chmod(folder, 0555) == 0);
    CHECK(read_as_other(db, text, sizeof text) == PF_ERR_FILE);
    CHECK_CONTAINS(text, "its latest results are in ");
    CHECK(chmod(folder, 0755) == 0);
}

static void check_binding(void)
{
    static const char a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", b[] = "bbbbbbbbbbbbbbbb";
    static const char plant[] = "pump_tank";
    static const char *const methods[] = {"random"};
    const pf_trial_result results[1] = {{.value = {0}}};
    char path[256], hash[128], bound[65];
    pf_store *one = NULL, *two = NULL;
    pf_unit unit[PF_STORE_CLAIM];
    pf_error error = {PF_OK, ""};
    int n = 0;
    PF_CASE("a model holds the trials it has made; failed ones do not hold it");
    CHECK(bench("run", "models.db", "", 0, "4 of 4 trials"));
    sql_text("models.db", "SELECT hash FROM experiment", hash);
    CHECK(sql("models.db", "DELETE FROM result; UPDATE unit SET state = 0") == 0);
    in_folder("models.db", path);
    CHECK(pf__store_open(&one, path, PF_STORE_WRITE, &error) == PF_OK);
    CHECK(pf__store_open(&two, path, PF_STORE_WRITE, &error) == PF_OK);
    CHECK(pf__store_bind(one, hash, plant, a, bound, &error) == PF_OK);
    CHECK_STR(bound, a);
    CHECK(pf__store_claim(one, hash, NULL, NULL, NULL, unit, &n, &error) == PF_OK && n == 1);
    CHECK(pf__store_bind(two, hash, plant, b, bound, &error) == PF_OK);
    CHECK_STR(bound, a);
    CHECK(pf__store_fail(one, &unit[0], "no good", &error) == PF_OK);
    CHECK(pf__store_bind(two, hash, plant, b, bound, &error) == PF_OK);
    CHECK_STR(bound, b);
    // the first is late: it had not claimed anything when the second came
    CHECK(pf__store_claim(one, hash, NULL, NULL, NULL, unit, &n, &error) == PF_OK && n == 1);
    CHECK(pf__store_finish(one, &unit[0], "here", 1, methods, results, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "with another model");
    CHECK(pf__store_unclaim(one, &unit[0], &error) == PF_OK);
    CHECK(pf__store_claim(two, hash, NULL, NULL, NULL, unit, &n, &error) == PF_OK && n == 1);
    CHECK(pf__store_finish(two, &unit[0], "here", 1, methods, results, &error) == PF_OK);
    CHECK(pf__store_bind(one, hash, "another", a, bound, &error) == PF_OK);
    CHECK_STR(bound, a);
    CHECK(pf__store_bind(one, hash, plant, a, bound, &error) == PF_OK);
    CHECK_STR(bound, b);
    CHECK(pf__store_bind(two, hash, plant, b, bound, &error) == PF_OK);
    CHECK_STR(bound, b);
    pf__store_close(one);
    pf__store_close(two);
}

static bool merge(const char *arguments, int status, const char *part)
{
    char command[600];
    snprintf(command, sizeof command, "bench merge %s", arguments);
    return program_in(folder, command, status, part);
}

static void check_shards(void)
{
    static const char *const bad[] = {"0/2", "3/2", "x", "1", "1/", "1/2/3", "-1/2", "1/0"};
    static const char sums[] = "SELECT count(*) || ' ' || total(value * trial) || ' ' ||"
                               " total(value * value) FROM trial_metric";
    char more[40], a[128], b[128];
    PF_CASE("shards have every trial once, and merged they are what one run gives");
    CHECK(bench("run", "one.db", "", 0, "4 of 4 trials"));
    CHECK(bench("run", "shard1.db", "--shard 1/2", 0, "2 of 4 trials"));
    CHECK(bench("run", "shard2.db", "--shard 2/2", 0, "2 of 4 trials"));
    CHECK(merge("@/shard1.db @/shard2.db -o @/both.db", 0, "4 new trials from 2 databases"));
    sql_text("one.db", sums, a);
    sql_text("both.db", sums, b);
    CHECK_STR(a, b);
    CHECK(bench("verify", "both.db", "", 0, "4 of 4 stored trials recomputed, 0 differ"));
    CHECK(bench("run", "both.db", "", 0, "4 of 4 trials, 0 failed (0 now"));
    sql_text("both.db", "SELECT count(DISTINCT machine) || ' ' || count(machine) FROM unit", a);
    CHECK_STR(a, "1 4"); // where it ran is kept
    PF_CASE("merging again changes nothing; a database that is there keeps what it has");
    CHECK(merge("@/shard1.db @/one.db -o @/both.db", 0, "6 trials found twice, equal to the bit"));
    sql_text("both.db", "SELECT count(*) FROM result", a);
    sql_text("one.db", "SELECT count(*) FROM result", b);
    CHECK_STR(a, b);
    PF_CASE("no shard that is none");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(more, sizeof more, "--shard %s", bad[i]);
        CHECK(bench("run", "none.db", more, 2, "is not K/N with K from 1 to N"));
    }
    CHECK(bench("run", "none.db", "--shard 1/5", 2, "has 4 shards at most"));
    PF_CASE("another result, configuration or version of the same is refused, nothing is merged");
    CHECK(sql("shard1.db", "UPDATE result SET detection = detection + 1e-12") == 0);
    CHECK(merge("@/shard2.db @/shard1.db -o @/both.db", 3, "with another detection (1e-12 apart"));
    CHECK(merge("@/shard1.db @/one.db -o @/new.db", 3, "nothing was merged"));
    char path[256];
    CHECK(access(in_folder("new.db", path), F_OK) != 0);
    CHECK(sql("shard1.db", "UPDATE machine SET name = 'another one'") == 0);
    CHECK(merge("@/shard1.db -o @/both.db", 0, "2 trials found twice, at most 1e-12 apart"));
    CHECK(sql("shard1.db", "UPDATE result SET detection = detection + 1e-3") == 0);
    CHECK(merge("@/shard1.db -o @/both.db", 3, "1e-9 is let pass between kinds of processors"));
    CHECK(bench("run", "other.db", "--set alpha=.2 --shard 1/2", 0, "2 of 4"));
    CHECK(merge("@/other.db -o @/both.db", 3, "another configuration of tiny than"));
    CHECK(sql("shard2.db", "UPDATE experiment SET preflight = '0.0.1'") == 0);
    CHECK(merge("@/shard2.db -o @/both.db", 3, "was made by preflight 0.0.1"));
    PF_CASE("databases that are not there, not ours, or named twice");
    CHECK(merge("@/nothere.db -o @/both.db", 3, "there is no such database"));
    CHECK(merge("@/notes.db -o @/both.db", 3, "a database of something else"));
    CHECK(merge("@/one.db -o @/notes.db", 3, "a database of something else"));
    CHECK(merge("@/one.db -o @/one.db", 2, "is named twice"));
    CHECK(merge("@/one.db", 2, "name the database with -o"));
    CHECK(merge("-o @/both.db", 2, "name the databases to merge"));
}

void test_store(void)
{
    char path[256];
    PF_CASE("a suite of four trials");
    CHECK(program_folder(folder, sizeof folder, "store"));
    CHECK(pf__file_write(in_folder("tiny.yaml", path), suite_text, sizeof suite_text - 1, NULL) ==
          PF_OK);
    check_names();
    check_foreign();
    check_empty();
    check_links();
    check_damaged();
    check_configs();
    check_incomplete();
    check_claims();
    check_gather();
    check_reading();
    check_binding();
    check_shards();
}
