// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "bench/fidelity.h"
#include "host/parallel.h"
#include "host/file.h"
#include "settings/config.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void bench_options(bench_call *c, cli_option *options)
{
    options[0] = (cli_option){"--profile", .value = &c->profile_name};
    options[1] = (cli_option){"--db", .value = &c->db};
    options[2] = (cli_option){"--data", .value = &c->data};
    options[3] = (cli_option){"--config", .value = &c->config};
    options[4] = (cli_option){"--set", .list = &c->set};
    options[5] = (cli_option){"--models", .value = &c->models};
    options[6] = (cli_option){"--twin", .flag = &c->twin};
}

// --- where suites and the paper's numbers are

static bool has_suites(const char *folder)
{
    char path[BENCH_PATH + 16];
    snprintf(path, sizeof path, "%s/suites", folder);
    return access(path, R_OK | X_OK) == 0;
}

// The folder itself, the installed one beside the program, or the source tree.
static bool find_folder(bench_call *c)
{
    if (c->data) {
        int n = snprintf(c->folder, sizeof c->folder, "%s", c->data);
        return n > 0 && n < (int)sizeof c->folder && has_suites(c->folder);
    }
    char program[BENCH_PATH - 32];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = 0;
        char *slash = strrchr(program, '/');
        if (slash) {
            *slash = 0;
        }
        snprintf(c->folder, sizeof c->folder, "%s/../share/preflight", program);
        if (has_suites(c->folder)) {
            return true;
        }
    }
    snprintf(c->folder, sizeof c->folder, "%s", PF_SOURCE_DIR);
    return has_suites(c->folder);
}

// Starts the methods of --method; the list has their ids then.
static bool open_methods(bench_call *c, int *status)
{
    pf_error error = {PF_OK, ""};
    c->own = c->methods.n > 0 ? pf__own_methods_create() : NULL;
    for (int i = 0; i < c->methods.n; i++) {
        pf_status result =
            c->own ? pf__own_methods_open(c->own, c->methods.item[i], &c->methods.item[i], &error)
                   : pf_fail(&error, PF_ERR_MEMORY, "out of memory for methods");
        if (result != PF_OK) {
            *status = cli_fail(c->command, result, &error);
            return false;
        }
    }
    return true;
}

// The reading of the grid beside its number of points: --set grid=with_one means grid_one=with_one.
static const char *grid_reading(const char *set)
{
    return strcmp(set, "grid=with_one") == 0  ? "grid_one=with_one"
           : strcmp(set, "grid=without") == 0 ? "grid_one=without"
                                              : set;
}

// Resolves profile, database and folder after cli_parse. False: printed, *status is the exit
// status.
bool bench_resolve(bench_call *c, int *status)
{
    c->db = c->db ? c->db : "preflight.db";
    for (int i = 0; i < c->set.n; i++) {
        c->set.item[i] = grid_reading(c->set.item[i]);
    }
    c->profile = pf__profile_find(c->profile_name ? c->profile_name : "standard");
    if (!c->profile) {
        *status = cli_usage(c->command, "--profile: '%s' is not quick, standard or paper",
                            c->profile_name);
        return false;
    }
    pf_error error = {PF_OK, ""};
    if (pf__store_check_name(c->db, &error) != PF_OK) {
        *status = cli_usage(c->command, "%s", error.text);
        return false;
    }
    if (!find_folder(c)) {
        fprintf(stderr, "preflight %s: there is no folder %s/suites; name one with --data DIR\n",
                c->command, c->folder);
        *status = EXIT_BAD_INPUT;
        return false;
    }
    return open_methods(c, status);
}

// What the profile fixes cannot be set beside it; it would be overridden without a word.
static pf_status check_profile(const bench_call *c, pf_error *error)
{
    const struct {
        const char *key;
        int fixed;
    } keys[] = {{"seeds=", c->profile->seeds},
                {"trials=", c->profile->trials},
                {"alarm_trials=", c->profile->alarm_trials}};
    for (int i = 0; i < c->set.n; i++) {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            if (keys[k].fixed > 0 &&
                strncmp(c->set.item[i], keys[k].key, strlen(keys[k].key)) == 0) {
                return pf_fail(error, PF_ERR_ARGUMENT,
                               "--set %s: the profile %s has its own number; use --profile paper",
                               c->set.item[i], c->profile->name);
            }
        }
    }
    return PF_OK;
}

// --- suites by name

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void bench_names_free(char **names, int n)
{
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
}

// Names of the suites in the folder, sorted; free each and the list.
pf_status bench_names(const bench_call *c, char ***names, int *n, pf_error *error)
{
    enum { SUITES_MAX = 256 };
    char path[BENCH_PATH + 16];
    *n = 0;
    *names = calloc(SUITES_MAX, sizeof **names);
    snprintf(path, sizeof path, "%s/suites", c->folder);
    DIR *folder = *names ? opendir(path) : NULL;
    if (!folder) {
        free(*names);
        *names = NULL;
        return pf_fail(error, PF_ERR_FILE, "%s: cannot be read", path);
    }
    for (struct dirent *e = readdir(folder); e && *n < SUITES_MAX; e = readdir(folder)) {
        size_t length = strlen(e->d_name);
        if (length <= 5 || strcmp(e->d_name + length - 5, ".yaml") != 0 || e->d_name[0] == '.') {
            continue;
        }
        char *name = calloc(length, 1);
        if (name) {
            memcpy(name, e->d_name, length - 5);
            (*names)[(*n)++] = name;
        }
    }
    closedir(folder);
    qsort(*names, (size_t)*n, sizeof **names, by_text);
    return PF_OK;
}

static bool is_path(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 5 && strcmp(name + n - 5, ".yaml") == 0);
}

static pf_status no_such_suite(const bench_call *c, const char *name, pf_error *error)
{
    char **names = NULL;
    int n = 0;
    pf_status status = bench_names(c, &names, &n, error);
    if (status != PF_OK) {
        return status;
    }
    const char *near = pf__nearest_word(name, (const char *const *)names, n);
    status = pf_fail(error, PF_ERR_FILE, "there is no suite '%s'%s%s%s; see `preflight bench list`",
                     name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    bench_names_free(names, n);
    return status;
}

// Methods of the user's, behind those of the suite.
static pf_status add_methods(const bench_call *c, pf_suite *suite, pf_error *error)
{
    int n = suite->methods.n + c->methods.n;
    if (c->methods.n == 0) {
        return PF_OK;
    }
    if (suite->kind && strcmp(suite->kind, "readiness") != 0) {
        return pf_fail(error, PF_ERR_ARGUMENT, "--method: suite %s has no methods of that kind",
                       suite->id);
    }
    char **text = realloc(suite->methods.text, (size_t)n * sizeof *text);
    if (!text) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for methods");
    }
    suite->methods.text = text;
    for (int i = 0; i < c->methods.n; i++) {
        size_t size = strlen(c->methods.item[i]) + 1;
        char *copy = malloc(size);
        if (!copy) {
            return pf_fail(error, PF_ERR_MEMORY, "out of memory for methods");
        }
        memcpy(copy, c->methods.item[i], size);
        suite->methods.text[suite->methods.n++] = copy;
    }
    return PF_OK;
}

static pf_status read_suite(const char *path, const bench_call *c, pf_suite *suite, pf_error *error)
{
    enum { SUITE_BYTES = 1 << 20 };
    void *text = NULL;
    size_t n = 0;
    pf_status status = pf__file_read(path, SUITE_BYTES, &text, &n, error);
    if (status == PF_OK) {
        const char *slash = strrchr(path, '/');
        const char *file = slash ? slash + 1 : path;
        status = pf__suite_read(suite, file, text, n, c->set.item, c->set.n, error);
        if (status == PF_OK && c->twin && suite->predictor &&
            strcmp(suite->predictor, "ensemble") == 0) {
            // a simulator predicts to the bit where nothing adds noise
            cli_list set = {{"predictor=twin", "sensor_noise=.25", "learned_on=itself"}, 3};
            for (int i = 0; i < c->set.n && set.n < 64; i++) {
                set.item[set.n++] = c->set.item[i];
            }
            pf__suite_free(suite);
            status = pf__suite_read(suite, file, text, n, set.item, set.n, error);
        }
        if (status == PF_OK && !suite->from) {
            suite->own = c->own;
            status = c->own && suite->settings.verdict == PF_VERDICT_FIELD
                         ? pf_fail(error, PF_ERR_ARGUMENT,
                                   "--method: %s has the field's verdict, whose kits bring their "
                                   "own method; use a suite with the paper's",
                                   file)
                         : add_methods(c, suite, error);
        }
        if (status == PF_OK && !suite->from) {
            status = check_profile(c, error);
            if (status != PF_OK) {
                pf__suite_free(suite);
            }
        }
    }
    free(text);
    return status;
}

static pf_status open_other(const bench_call *c, const char *path, bench_suite *s, pf_error *error)
{
    char other[BENCH_PATH + 128];
    const char *slash = strrchr(path, '/');
    snprintf(other, sizeof other, "%.*s%s.yaml", slash ? (int)(slash - path) + 1 : 0, path,
             s->shown.from);
    pf_status status = read_suite(other, c, &s->other, error);
    if (status == PF_OK && s->other.from) {
        status = pf_fail(error, PF_ERR_FORMAT, "%s: from: '%s' has no trials of its own either",
                         s->shown.id, s->shown.from);
    }
    s->run = &s->other;
    return status;
}

static void bench_suite_close(bench_suite *s)
{
    pf__suite_free(&s->shown);
    pf__suite_free(&s->other);
    s->run = NULL;
}

// By name in suites/ or by path (with a slash or ending in .yaml); --set acts on the one that is
// run.
static pf_status bench_suite_open(const bench_call *c, const char *name, bench_suite *s,
                                  pf_error *error)
{
    char path[BENCH_PATH + 128];
    memset(s, 0, sizeof *s);
    if (is_path(name)) {
        snprintf(path, sizeof path, "%s", name);
    } else {
        snprintf(path, sizeof path, "%s/suites/%.100s.yaml", c->folder, name);
        if (access(path, F_OK) != 0) {
            return no_such_suite(c, name, error);
        }
    }
    pf_status status = read_suite(path, c, &s->shown, error);
    s->run = &s->shown;
    if (status == PF_OK && s->shown.from) {
        status = open_other(c, path, s, error);
    }
    if (status != PF_OK) {
        bench_suite_close(s);
    }
    return status;
}

void bench_take_last(bench_call *c, const char *name)
{
    bench_call plain = *c;
    bench_suite suite = {.run = NULL};
    pf_store *store = NULL;
    char last[32] = "";
    plain.set.n = plain.methods.n = 0;
    if (!c->profile_name && bench_suite_open(&plain, name, &suite, NULL) == PF_OK &&
        pf__store_open(&store, c->db, PF_STORE_READ, NULL) == PF_OK &&
        pf__store_profile(store, suite.run->id, c->config, last, NULL) == PF_OK &&
        pf__profile_find(last)) {
        c->profile = pf__profile_find(last);
    }
    pf__store_close(store);
    bench_suite_close(&suite);
}

// --- list

// A list has the paper's scale, because that is what is known to cost something.
static const char list_profile[] = "paper";

static bool is_costed(const bench_call *c)
{
    return strcmp(c->profile->name, list_profile) == 0;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static void add_string(pf_text *out, const char *key, const char *value)
{
    pf__json_key(out, key);
    pf__json_string(out, or_empty(value));
}

// The environments of a suite as a list; missing: those alone that are not here.
static void add_environments(pf_text *out, const char *key, const bench_suite *s,
                             const pf_experiment *e, bool missing)
{
    pf__json_key(out, key);
    pf__text_add(out, "[");
    for (int i = 0; i < s->run->environments.n; i++) {
        const char *name = s->run->environments.text[i];
        if (!missing || pf__experiment_missing(e, i)) {
            pf__json_comma(out);
            pf__json_string(out, name);
        }
    }
    pf__text_add(out, "]");
}

static void list_json(const bench_call *c, const char *name, const bench_suite *s,
                      const pf_experiment *e, pf_text *out)
{
    pf__json_comma(out);
    pf__text_add(out, "{");
    add_string(out, "id", name);
    add_string(out, "title", s->shown.title);
    add_string(out, "paper", s->shown.paper);
    add_string(out, "from", s->shown.from);
    add_string(out, "needs", s->run->needs);
    add_string(out, "cost", is_costed(c) ? s->run->cost : "");
    add_string(out, "profile", c->profile->name);
    pf__text_addf(out, ",\"trials\":%zu,\"environments\":%d,\"methods\":%d", e->n_units,
                  s->run->environments.n, e->n_methods);
    add_environments(out, "names", s, e, false);
    add_environments(out, "missing", s, e, true);
    pf__text_add(out, "}");
}

static void list_line(const bench_call *c, const char *name, const bench_suite *s,
                      const pf_experiment *e, pf_text *out)
{
    pf__text_addf(out, "%-18s %s", name, s->shown.title);
    pf__text_addf(out, "%s%s%s\n%18s ", s->shown.paper ? " (" : "", or_empty(s->shown.paper),
                  s->shown.paper ? ")" : "", "");
    if (s->shown.from) {
        pf__text_addf(out, "shows the trials of %s\n", s->shown.from);
        return;
    }
    pf__text_addf(out, "profile %s: %s%s%s\n%18s ", c->profile->name,
                  pf__counted((long long)e->n_units, "trial").text,
                  s->run->cost && is_costed(c) ? ", " : "",
                  is_costed(c) ? or_empty(s->run->cost) : "", "");
    pf__text_addf(
        out, "%s, %s; needs %s\n", pf__counted(s->run->environments.n, "environment").text,
        pf__counted(e->n_methods, "method").text, s->run->needs ? s->run->needs : "nothing more");
    pf__text_addf(out, "%18s on", "");
    for (int i = 0; i < s->run->environments.n; i++) {
        pf__text_addf(out, " %s", s->run->environments.text[i]);
    }
    pf__text_add(out, "\n");
    for (int i = 0; i < s->run->environments.n; i++) {
        const char *why = pf__experiment_missing(e, i);
        if (why) {
            pf__text_addf(out, "%18s not here: %s\n", "", why);
        }
    }
}

static void list_one(const bench_call *c, const char *name, bool json, pf_text *out)
{
    bench_suite s;
    pf_experiment e = {0};
    pf_error error = {PF_OK, ""};
    pf_status status = bench_suite_open(c, name, &s, &error);
    if (status == PF_OK) {
        status = pf__experiment_outline(&e, s.run, c->profile, &error);
    }
    if (status != PF_OK && json) {
        pf__json_comma(out);
        pf__text_add(out, "{");
        add_string(out, "id", name);
        add_string(out, "error", error.text);
        pf__text_add(out, "}");
    } else if (status != PF_OK) {
        pf__text_addf(out, "%-18s not available: %s\n", name, error.text);
    } else if (json) {
        list_json(c, name, &s, &e, out);
    } else {
        list_line(c, name, &s, &e, out);
    }
    pf__experiment_free(&e);
    bench_suite_close(&s);
}

static int bench_list(const bench_call *c, bool json)
{
    char **names = NULL;
    int n = 0;
    pf_error error = {PF_OK, ""};
    pf_status status = bench_names(c, &names, &n, &error);
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    pf_text out = {0};
    pf__text_add(&out, json ? "[" : "");
    for (int i = 0; i < n; i++) {
        list_one(c, names[i], json, &out);
    }
    pf__text_add(&out, json ? "]\n" : "");
    bench_names_free(names, n);
    int exit_status = cli_write(c->command, "-", &out);
    pf__text_free(&out);
    return exit_status;
}

int bench_list_suites(bool json)
{
    int status = EXIT_YES;
    bench_call call = {.command = "list", .profile_name = list_profile};
    return bench_resolve(&call, &status) ? bench_list(&call, json) : status;
}

// --- which configuration of a database

enum { CONFIGS = 64 };

static pf_status no_such(const bench_call *c, const pf_suite *suite, const char *hash,
                         pf_error *error)
{
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "%s holds no run of %s at profile %s with config %s%s; `preflight bench status "
                   "%s` names what it holds",
                   c->db, suite->id, c->profile->name, hash,
                   c->config ? "" : ", which is that of --set here and now", suite->id);
}

// The others are named, with what they have set otherwise; where that cannot be told, without.
static void name_others(const bench_call *c, const pf_suite *suite, pf_store *store,
                        char (*hashes)[65], int n)
{
    enum { SHOWN = 8 };
    pf_text settings = {0};
    pf__store_settings(store, hashes[0], &settings, NULL);
    fprintf(stderr,
            "preflight %s: %s has %s of %s at profile %s; this is %s, run last; "
            "--config HASH shows another:\n",
            c->command, c->db, pf__counted(n, "configuration").text, suite->id, c->profile->name,
            hashes[0]);
    for (int i = 1; i < n && i <= SHOWN; i++) {
        pf_text other = {0};
        if (settings.size > 0) {
            pf__store_differences(store, hashes[i], settings.data, &other, NULL);
        }
        fprintf(stderr, "  %s%s%s\n", hashes[i], other.size > 0 ? ": " : "",
                other.size > 0 ? other.data : "");
        pf__text_free(&other);
    }
    if (n > SHOWN + 1) {
        fprintf(stderr, "  and %d more\n", n - SHOWN - 1);
    }
    pf__text_free(&settings);
}

// The hash of the configuration meant: --config, else that of --set, else the one run last, with
// the others named on stderr; empty if there is none. own: the hash of the suite as called, needed
// with --set only.
static pf_status bench_find_config(const bench_call *c, const pf_suite *suite, const char *own,
                                   pf_store *store, char hash[65], pf_error *error)
{
    char hashes[CONFIGS][65];
    int n = 0;
    hash[0] = 0;
    pf_status status =
        pf__store_configs(store, suite->id, c->profile->name, CONFIGS, hashes, &n, error);
    if (status != PF_OK) {
        return status;
    }
    if (c->config && c->set.n > 0 && strcmp(c->config, own) != 0) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "--config %s is not the configuration of --set, which is %s; leave out one",
                       c->config, own);
    }
    if (!c->config && c->set.n == 0 && !c->exact && !c->twin) {
        snprintf(hash, 65, "%s", n > 0 ? hashes[0] : "");
        if (n > 1) {
            name_others(c, suite, store, hashes, n < CONFIGS ? n : CONFIGS);
        }
        return PF_OK;
    }
    snprintf(hash, 65, "%s", c->config ? c->config : own);
    for (int i = 0; i < n && i < CONFIGS; i++) {
        if (strcmp(hashes[i], hash) == 0) {
            return PF_OK;
        }
    }
    return no_such(c, suite, hash, error);
}

// A suite opened, resolved at the profile, with its database.
typedef struct session {
    bench_suite suite;
    pf_experiment experiment;
    pf_store *store;
} session;

static void close_session(session *s)
{
    pf__store_close(s->store);
    pf__experiment_free(&s->experiment);
    bench_suite_close(&s->suite);
    s->store = NULL;
}

// The suite is checked before the database is touched.
static pf_status open_session(session *s, const bench_call *c, pf_store_mode mode, pf_error *error)
{
    pf_status status = s->experiment.suite ? PF_OK
                                           : pf__experiment_outline(&s->experiment, s->suite.run,
                                                                    c->profile, error);
    status = status ? status : pf__experiment_complete(&s->experiment, error);
    if (status == PF_OK) {
        status = pf__store_open(&s->store, c->db, mode, error);
    }
    if (status != PF_OK) {
        close_session(s);
    }
    return status;
}

static void print_failure(void *self, const pf_unit *u, const char *reason)
{
    enum { SHOWN = 10 };
    int *n = self;
    if ((*n)++ < SHOWN) {
        fprintf(stderr, "failed: %s %s seed %d trial %d: %s\n", u->environment, u->setting, u->seed,
                u->trial, reason ? reason : "");
    } else if (*n == SHOWN + 1) {
        fprintf(stderr, "failed: and more; `preflight bench status` has them all\n");
    }
}

// --- bench list

static int bench_cmd_list(int argc, char **argv)
{
    bool json = false;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench list"};
    cli_option options[BENCH_OPTIONS + 1] = {[BENCH_OPTIONS] = {"--json", .flag = &json}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n > 0) {
        return cli_usage(call.command, "takes no suite");
    }
    call.profile_name = call.profile_name ? call.profile_name : list_profile;
    return bench_resolve(&call, &status) ? bench_list(&call, json) : status;
}

// --- bench run

static int report_run(const bench_call *c, session *s, const pf_run_report *report, double seconds)
{
    pf_error error = {PF_OK, ""};
    pf_store_counts counts;
    int shown = 0;
    pf_status status = pf__store_count(s->store, s->experiment.hash, &counts, &error);
    if (status == PF_OK && counts.failed > 0) {
        status = pf__store_failures(s->store, s->experiment.hash, print_failure, &shown, &error);
    }
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    printf("%s, %s, config %s: %lld of %s, %lld failed (%zu now, %zu of %s calibrated, %.1f s)\n",
           s->suite.run->id, c->profile->name, s->experiment.hash, (long long)counts.done,
           pf__counted((long long)counts.total, "trial").text, (long long)counts.failed,
           report->done, report->kits_made, pf__counted((long long)report->kits, "kit").text,
           seconds);
    if (counts.failed > 0) {
        fprintf(stderr, "failed trials are run once more with --retry\n");
    }
    return counts.failed > 0 ? EXIT_NO : EXIT_YES;
}

// Models of a suite that predicts with learned ones: loaded, or trained where they are missing.
static pf_status learn(const bench_call *c, pf_experiment *e, bool train, const pf_effort *effort,
                       pf_error *error)
{
    return pf__experiment_learn(e, c->models ? c->models : "models", train, effort, error);
}

// Environments that were asked for and whose backend is not here; how many.
static int report_missing(const pf_experiment *e)
{
    int n = 0;
    for (int i = 0; i < e->suite->environments.n; i++) {
        if (pf__experiment_wants_missing(e, i)) {
            n++;
            size_t units = e->n_units / (size_t)e->suite->environments.n;
            fprintf(stderr, "left out: %s (%s)\n", pf__experiment_missing(e, i),
                    pf__counted((long long)units, "trial").text);
        }
    }
    return n;
}

// What the quick profile would leave of a run.
static cli_shorter quick_run(const pf_experiment *e)
{
    cli_shorter shorter = {.option = "--profile quick", .share = 1};
    pf_experiment quick = {0};
    if (pf__experiment_outline(&quick, e->suite, pf__profile_find("quick"), NULL) == PF_OK) {
        shorter.share = (double)quick.n_units / (double)e->n_units;
    }
    pf__experiment_free(&quick);
    return shorter;
}

static int run_one(const bench_call *c, session *s, int threads, bool retry)
{
    pf_error error = {PF_OK, ""};
    pf_run_report report = {0};
    cli_progress progress;
    pf_status status = open_session(s, c, PF_STORE_WRITE, &error);
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    status = pf__experiment_runnable(&s->experiment, &error);
    if (status != PF_OK) {
        close_session(s);
        return cli_fail(c->command, status, &error);
    }
    double start = pf__seconds();
    int missing = report_missing(&s->experiment);
    pf_effort effort = cli_effort(&progress, threads);
    progress.form = c->form;
    progress.main = progress.job = "trials";
    progress.shorter = quick_run(&s->experiment);
    status = learn(c, &s->experiment, true, &effort, &error);
    status = status ? status : pf__experiment_bind(&s->experiment, s->store, &error);
    status = status || !retry ? status : pf__store_retry(s->store, s->experiment.hash, &error);
    status =
        status ? status : pf__experiment_run(&s->experiment, s->store, &effort, &report, &error);
    cli_progress_end(&progress);
    int exit_status = EXIT_YES;
    if (status == PF_ERR_INTERRUPTED) {
        fprintf(stderr, "preflight %s: interrupted after %s; run it again to go on from there\n",
                c->command, pf__counted((long long)report.done, "trial").text);
        exit_status = EXIT_INTERRUPTED;
    } else if (status != PF_OK) {
        exit_status = cli_fail(c->command, status, &error);
    } else {
        exit_status = report_run(c, s, &report, pf__seconds() - start);
        exit_status = missing > 0 && exit_status == EXIT_YES ? EXIT_NO : exit_status;
    }
    close_session(s);
    return exit_status;
}

// Whether every suite can be read and has what is asked for, before any work; they stay open.
static int open_suites(const bench_call *c, const cli_list *names, const cli_list *only,
                       session *sessions)
{
    for (int i = 0; i < names->n; i++) {
        session *s = &sessions[i];
        pf_error error = {PF_OK, ""};
        pf_status status = bench_suite_open(c, names->item[i], &s->suite, &error);
        if (status == PF_OK) {
            status = pf__experiment_outline(&s->experiment, s->suite.run, c->profile, &error);
        }
        status =
            status ? status : pf__experiment_select(&s->experiment, only->n, only->item, &error);
        if (status == PF_ERR_ARGUMENT) {
            return cli_usage(c->command, "%s", error.text);
        }
        if (status != PF_OK) {
            return cli_fail(c->command, status, &error);
        }
    }
    return EXIT_YES;
}

// The suites one after the other; failed trials of one do not keep the next from running.
static int run_suites(const bench_call *c, const cli_list *names, const cli_list *only, int threads,
                      bool retry)
{
    session *sessions = calloc((size_t)names->n, sizeof *sessions);
    if (!sessions) {
        return cli_fail(c->command, PF_ERR_MEMORY, &(pf_error){PF_ERR_MEMORY, "out of memory"});
    }
    int status = open_suites(c, names, only, sessions);
    for (int i = 0; i < names->n; i++) {
        if (status <= EXIT_NO) {
            int one = run_one(c, &sessions[i], threads, retry);
            status = one > status ? one : status;
        }
        close_session(&sessions[i]);
    }
    free(sessions);
    return status;
}

static int bench_cmd_run(int argc, char **argv)
{
    const char *threads_text = NULL, *progress = NULL;
    int status = EXIT_YES;
    double threads = 0;
    cli_list only = {.n = 0}, names = {.n = 0};
    bench_call call = {.command = "bench run"};
    bool retry = false;
    cli_option options[BENCH_OPTIONS + 5] = {
        [BENCH_OPTIONS] = {"--threads", .value = &threads_text},
        [BENCH_OPTIONS + 1] = {"--only", .list = &only},
        [BENCH_OPTIONS + 2] = {"--retry", .flag = &retry},
        [BENCH_OPTIONS + 3] = {"--method", .list = &call.methods},
        [BENCH_OPTIONS + 4] = {"--progress", .value = &progress}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 5, &names)) {
        return EXIT_USAGE;
    }
    if (names.n == 0) {
        return cli_usage(call.command, "name a suite; `preflight bench list` shows them");
    }
    if (call.config) {
        return cli_usage(call.command,
                         "--config is for reading; a run has the hash of its settings");
    }
    if (!cli_threads(call.command, threads_text, &threads) ||
        !cli_progress_form(call.command, progress, &call.form)) {
        return EXIT_USAGE;
    }
    if (bench_resolve(&call, &status)) {
        status = run_suites(&call, &names, &only, (int)threads, retry);
    }
    pf__own_methods_destroy(call.own);
    return status;
}

// --- bench status

static void add_failure(void *self, const pf_unit *u, const char *reason)
{
    pf_text *out = self;
    pf__json_comma(out);
    pf__text_add(out, "{\"environment\":");
    pf__json_string(out, u->environment);
    pf__json_key(out, "setting");
    pf__json_string(out, u->setting);
    pf__text_addf(out, ",\"seed\":%d,\"trial\":%d", u->seed, u->trial);
    pf__json_key(out, "reason");
    pf__json_string(out, reason ? reason : "");
    pf__text_add(out, "}");
}

static void list_failure(void *self, const pf_unit *u, const char *reason)
{
    pf__text_addf(self, "failed: %s %s seed %d trial %d: %s\n", u->environment, u->setting, u->seed,
                  u->trial, reason ? reason : "");
}

static pf_status write_status(const bench_call *c, session *s, const char *hash, bool json,
                              bool *failed, pf_text *out, pf_error *error)
{
    pf_store_counts n;
    pf_status status = pf__store_count(s->store, hash, &n, error);
    status = status ? status : pf__store_running(s->store, hash, &n.running, error);
    if (status != PF_OK) {
        return status;
    }
    if (n.total == 0) {
        n.total = (int64_t)s->experiment.n_units;
    }
    *failed = n.failed > 0;
    pf__text_add(out, json ? "{\"suite\":" : "");
    if (!json) {
        pf__text_addf(out, "%s, %s, config %s: %lld of %lld done, %lld failed, %lld running\n",
                      s->suite.run->id, c->profile->name, hash, (long long)n.done,
                      (long long)n.total, (long long)n.failed, (long long)n.running);
        return pf__store_failures(s->store, hash, list_failure, out, error);
    }
    pf__json_string(out, s->suite.run->id);
    pf__text_addf(out,
                  ",\"profile\":\"%s\",\"config_hash\":\"%s\",\"total\":%lld,\"done\":%lld,"
                  "\"failed\":%lld,\"running\":%lld,\"failures\":[",
                  c->profile->name, hash, (long long)n.total, (long long)n.done,
                  (long long)n.failed, (long long)n.running);
    status = pf__store_failures(s->store, hash, add_failure, out, error);
    pf__text_add(out, "]}\n");
    return status;
}

// Where the database has none, the suite's own.
static pf_status find_hash(const bench_call *c, session *s, char hash[65], pf_error *error)
{
    pf_status status =
        bench_find_config(c, s->suite.run, s->experiment.hash, s->store, hash, error);
    if (status == PF_OK && !hash[0]) {
        snprintf(hash, 65, "%s", s->experiment.hash);
    }
    return status;
}

static int bench_cmd_status(int argc, char **argv)
{
    bool json = false, failed = false;
    int exit_status = EXIT_YES;
    cli_list names = {.n = 0};
    bench_call call = {.command = "bench status"};
    cli_option options[BENCH_OPTIONS + 1] = {[BENCH_OPTIONS] = {"--json", .flag = &json}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 1, &names)) {
        return EXIT_USAGE;
    }
    if (names.n != 1) {
        return cli_usage(call.command, "name one suite; `preflight bench list` shows them");
    }
    if (!bench_resolve(&call, &exit_status)) {
        return exit_status;
    }
    bench_take_last(&call, names.item[0]);
    session s = {.store = NULL};
    char hash[65];
    pf_text out = {0};
    pf_error error = {PF_OK, ""};
    pf_status status = bench_suite_open(&call, names.item[0], &s.suite, &error);
    status = status ? status : open_session(&s, &call, PF_STORE_READ, &error);
    if (status != PF_OK) {
        return cli_fail(call.command, status, &error);
    }
    status = find_hash(&call, &s, hash, &error);
    status = status ? status : write_status(&call, &s, hash, json, &failed, &out, &error);
    exit_status = status == PF_OK ? cli_write(call.command, "-", &out)
                                  : cli_fail(call.command, status, &error);
    exit_status = exit_status == EXIT_YES && failed ? EXIT_NO : exit_status;
    pf__text_free(&out);
    close_session(&s);
    return exit_status;
}

// --- bench verify

static pf_status recompute(const bench_call *c, session *s, size_t sample, int threads,
                           pf_verify_report *report, char hash[65], pf_error *error)
{
    cli_progress progress;
    pf_status status = find_hash(c, s, hash, error);
    if (status == PF_OK && strcmp(hash, s->experiment.hash) != 0) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "config %s was run with other settings or another version; as called now "
                         "the suite is %s: repeat the --set of that run, or name a --config",
                         hash, s->experiment.hash);
    }
    if (status != PF_OK) {
        return status;
    }
    pf_effort effort = cli_effort(&progress, threads);
    progress.form = c->form;
    progress.main = progress.job = "verifying";
    status = learn(c, &s->experiment, false, &effort, error);
    status = status ? status : pf__experiment_bound(&s->experiment, s->store, error);
    status = status
                 ? status
                 : pf__experiment_verify(&s->experiment, s->store, sample, &effort, report, error);
    cli_progress_end(&progress);
    if (status == PF_OK && report->available == 0) {
        status = pf_fail(error, PF_ERR_ARGUMENT, "no trial of %s is stored at profile %s",
                         s->suite.run->id, c->profile->name);
    }
    return status;
}

pf_status bench_recompute(const bench_call *c, const char *name, size_t sample, int threads,
                          pf_verify_report *report, char hash[65], pf_error *error)
{
    session s = {.store = NULL};
    pf_status status = bench_suite_open(c, name, &s.suite, error);
    status = status ? status : open_session(&s, c, PF_STORE_READ, error);
    if (status == PF_OK) {
        status = recompute(c, &s, sample, threads, report, hash, error);
        close_session(&s);
    }
    return status;
}

static int verify_suite(bench_call *c, const char *name, size_t sample, int threads)
{
    char hash[65];
    pf_verify_report report;
    pf_error error = {PF_OK, ""};
    bench_take_last(c, name);
    pf_status status = bench_recompute(c, name, sample, threads, &report, hash, &error);
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    printf("%s, %s, config %s: %zu of %zu stored trials recomputed, %zu differ\n", name,
           c->profile->name, hash, report.checked, report.available, report.different);
    if (report.different > 0) {
        printf("first difference: %s\n", report.difference);
    }
    return report.different > 0 ? EXIT_NO : EXIT_YES;
}

static int bench_cmd_verify(int argc, char **argv)
{
    const char *threads_text = NULL, *sample_text = NULL, *progress = NULL;
    double threads = 0, sample = 50;
    int status = EXIT_YES;
    cli_list names = {.n = 0};
    bench_call call = {.command = "bench verify"};
    cli_option options[BENCH_OPTIONS + 4] = {
        [BENCH_OPTIONS] = {"--threads", .value = &threads_text},
        [BENCH_OPTIONS + 1] = {"--sample", .value = &sample_text},
        [BENCH_OPTIONS + 2] = {"--method", .list = &call.methods},
        [BENCH_OPTIONS + 3] = {"--progress", .value = &progress}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 4, &names)) {
        return EXIT_USAGE;
    }
    if (names.n != 1) {
        return cli_usage(call.command, "name one suite; `preflight bench list` shows them");
    }
    if (!cli_threads(call.command, threads_text, &threads) ||
        !cli_progress_form(call.command, progress, &call.form) ||
        (sample_text && !cli_integer(call.command, "--sample", sample_text, 1, 1e9, &sample))) {
        return EXIT_USAGE;
    }
    if (bench_resolve(&call, &status)) {
        status = verify_suite(&call, names.item[0], (size_t)sample, (int)threads);
    }
    pf__own_methods_destroy(call.own);
    return status;
}

// --- bench table and figure

void bench_unload(bench_loaded *l)
{
    pf__text_free(&l->settings);
    pf__entries_free(&l->entries);
    pf__paper_free(&l->paper);
    pf__store_close(l->store);
    bench_suite_close(&l->suite);
}

// The configuration meant; only --set needs the suite's own hash, for which plants are started.
static pf_status find_stored(bench_loaded *l, const bench_call *c, pf_error *error)
{
    const char *suite = l->suite.run->id;
    pf_experiment own = {0};
    pf_status status = c->set.n > 0 || c->exact || c->twin
                           ? pf__experiment_init(&own, l->suite.run, c->profile, error)
                           : PF_OK;
    bool described = status == PF_OK;
    status =
        status ? status : bench_find_config(c, l->suite.run, own.hash, l->store, l->hash, error);
    pf__experiment_free(&own);
    l->not_run = described && (status == PF_ERR_ARGUMENT || (status == PF_OK && !l->hash[0]));
    if (status == PF_OK && !l->hash[0]) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s has no trials of %s at profile %s; `preflight bench run %s --profile %s "
                       "--db %s` makes them",
                       c->db, suite, c->profile->name, suite, c->profile->name, c->db);
    }
    return status;
}

// What the configuration has set otherwise than the suite, and what its table needs of it.
static pf_status find_settings(bench_loaded *l, const bench_call *c, const char *name,
                               pf_error *error)
{
    l->alpha = l->suite.run->settings.alpha;
    l->g_cal = l->suite.run->settings.g_cal;
    pf_status status = pf__store_number(l->store, l->hash, "alpha", &l->alpha, error);
    status = status ? status : pf__store_number(l->store, l->hash, "g_cal", &l->g_cal, error);
    bench_call plain = *c;
    plain.set.n = 0;
    bench_suite as_written = {.run = NULL};
    pf_experiment e = {0};
    // a suite that cannot be read or described any more is not compared
    bool read = c->set.n == 0 || bench_suite_open(&plain, name, &as_written, NULL) == PF_OK;
    const pf_suite *suite = c->set.n == 0 ? l->suite.run : as_written.run;
    if (status == PF_OK && read && pf__experiment_describe(&e, suite, c->profile, NULL) == PF_OK) {
        status = pf__store_differences(l->store, l->hash, e.settings, &l->settings, error);
    }
    pf__experiment_free(&e);
    bench_suite_close(&as_written);
    return status;
}

static pf_status check_rows(bench_loaded *l, const bench_call *c, pf_error *error)
{
    pf_status status = pf__store_count(l->store, l->hash, &l->counts, error);
    const pf_store_counts counts = l->counts;
    if (status != PF_OK) {
        return status;
    }
    l->not_run = counts.done == 0;
    if (l->not_run) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s has no finished trials of config %s%s", c->db,
                       l->hash,
                       counts.failed > 0 ? "; `preflight bench status` says why they failed" : "");
    }
    if (counts.done < counts.total && !c->quiet) {
        fprintf(stderr,
                "preflight %s: %lld of %s are done, %lld failed; the rest is not in "
                "here\n",
                c->command, (long long)counts.done,
                pf__counted((long long)counts.total, "trial").text, (long long)counts.failed);
    }
    return PF_OK;
}

static pf_status aggregate(bench_loaded *l, pf_error *error)
{
    const pf_suite *run = l->suite.run, *shown = &l->suite.shown;
    const char *names[64];
    pf_aggregate_options options = {.environments = (const char *const *)run->environments.text,
                                    .n_environments = run->environments.n,
                                    .shown = names,
                                    .n_shown = pf__paper_shown(&l->paper, shown->id, names, 64)};
    // entries of a catalogue and rules come in their own order
    enum { MOST_ENTRIES = 4096 };
    const char *entries[MOST_ENTRIES];
    pf_experiment own = {0};
    pf_status status = PF_OK;
    if (pf__suite_audits(run)) {
        status = pf__experiment_outline(&own, run, pf__profile_find("quick"), error);
        for (int i = 0; i < own.n_cells && i < MOST_ENTRIES; i++) {
            entries[options.n_settings++] = own.cells[i].text;
        }
        options.settings = entries;
        options.methods = (const char *const *)run->methods.text;
        options.n_methods = run->methods.n;
    }
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 0);
    options.effort = &effort;
    status = status ? status : pf__aggregate(&l->entries, l->store, l->hash, &options, error);
    cli_progress_end(&progress);
    pf__experiment_free(&own);
    return status;
}

pf_status bench_load(bench_loaded *l, const bench_call *c, const char *name, pf_error *error)
{
    char folder[BENCH_PATH + 16];
    memset(l, 0, sizeof *l);
    pf_status status = bench_suite_open(c, name, &l->suite, error);
    if (status != PF_OK) {
        return status;
    }
    snprintf(folder, sizeof folder, "%s/data", c->folder);
    status = pf__store_open(&l->store, c->db, PF_STORE_READ, error);
    status = status ? status : pf__paper_load(&l->paper, folder, error);
    status = status ? status : find_stored(l, c, error);
    status = status ? status : check_rows(l, c, error);
    status = status ? status : find_settings(l, c, name, error);
    status = status ? status : aggregate(l, error);
    status = status ? status : pf__paper_best(&l->paper, l->suite.shown.id, &l->entries, error);
    const pf_suite *s = &l->suite.shown;
    l->report = (pf_report){.suite = s->id,
                            .title = s->title,
                            .table = s->table ? s->table : "metrics",
                            .profile = c->profile->name,
                            .hash = l->hash,
                            .metrics = (const char *const *)s->metrics.text,
                            .n_metrics = s->metrics.n,
                            .settings = l->settings.size > 0 ? l->settings.data : NULL,
                            .done = l->counts.done,
                            .failed = l->counts.failed,
                            .total = l->counts.total,
                            .alpha = l->alpha,
                            .g_cal = l->g_cal,
                            .entries = &l->entries,
                            .paper = &l->paper};
    return status;
}

static int write_table(bench_call *c, const char *name, const char *format)
{
    bench_loaded l;
    bench_take_last(c, name);
    pf_error error = {PF_OK, ""};
    pf_text out = {0};
    pf_status status = bench_load(&l, c, name, &error);
    if (status == PF_OK && strcmp(format, "csv") == 0) {
        pf__table_csv(&l.report, &out);
    } else if (status == PF_OK) {
        status = pf__table_text(&l.report, format, &out, &error);
    }
    int exit_status =
        status == PF_OK ? cli_write(c->command, "-", &out) : cli_fail(c->command, status, &error);
    pf__text_free(&out);
    bench_unload(&l);
    return exit_status;
}

static int bench_cmd_table(int argc, char **argv)
{
    const char *format = NULL;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench table"};
    cli_option options[BENCH_OPTIONS + 1] = {[BENCH_OPTIONS] = {"--format", .value = &format}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n != 1) {
        return cli_usage(call.command, "name one suite");
    }
    format = format ? format : "md";
    if (strcmp(format, "md") != 0 && strcmp(format, "csv") != 0 && strcmp(format, "tex") != 0) {
        return cli_usage(call.command, "--format: '%s' is not md, csv or tex", format);
    }
    return bench_resolve(&call, &status) ? write_table(&call, words.item[0], format) : status;
}

pf_status bench_draw(const bench_loaded *l, const bench_call *c, const char *folder,
                     const char *file, pf_error *error)
{
    char templates[BENCH_PATH + 32];
    snprintf(templates, sizeof templates, "%s/suites/figures", c->folder);
    const char *figure = l->suite.shown.figure;
    pf_figure drawn = {templates, figure ? figure : "bars", file};
    return pf__figure_write(&l->report, &drawn, folder, error);
}

static int write_figure(bench_call *c, const char *name, const char *folder)
{
    bench_loaded l;
    bench_take_last(c, name);
    pf_error error = {PF_OK, ""};
    pf_status status = bench_load(&l, c, name, &error);
    status = status ? status : bench_draw(&l, c, folder, l.report.suite, &error);
    if (status == PF_OK) {
        printf("%s/%s.svg\n%s/%s.png\n", folder, l.report.suite, folder, l.report.suite);
    }
    int exit_status = status == PF_OK ? EXIT_YES : cli_fail(c->command, status, &error);
    bench_unload(&l);
    return exit_status;
}

static int bench_cmd_figure(int argc, char **argv)
{
    const char *folder = NULL;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench figure"};
    cli_option options[BENCH_OPTIONS + 1] = {[BENCH_OPTIONS] = {"-o", .value = &folder}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n != 1 || !folder) {
        return cli_usage(call.command, words.n != 1 ? "name one suite" : "-o DIR is missing");
    }
    return bench_resolve(&call, &status) ? write_figure(&call, words.item[0], folder) : status;
}

// --- fidelity

// Our numbers of a suite, where it was run.
static pf_status take_suite(pf_fidelity *f, const bench_call *c, const char *suite, pf_error *error)
{
    bench_loaded l;
    pf_status status = bench_load(&l, c, suite, error);
    if (l.not_run) {
        status = PF_OK;
    } else if (status == PF_OK) {
        const char *predictor = l.suite.run->predictor;
        pf__fidelity_take(f, &(pf_fidelity_suite){.name = suite,
                                                  .predictor = predictor ? predictor : "twin",
                                                  .entries = &l.entries,
                                                  .done = l.counts.done,
                                                  .total = l.counts.total});
    }
    bench_unload(&l);
    return status;
}

// Every suite that a number or a claim stands in, once.
static pf_status take_all(pf_fidelity *f, const bench_call *c, pf_error *error)
{
    enum { MOST = 256 };
    const char *names[MOST];
    int n = 0;
    pf_status status = PF_OK;
    for (int i = 0; i < f->n + f->n_claims; i++) {
        const char *suite = i < f->n ? f->row[i].paper.suite : f->claim[i - f->n].suite;
        int k = 0;
        while (k < n && strcmp(names[k], suite) != 0) {
            k++;
        }
        if (k == n && n < MOST) {
            names[n++] = suite;
        }
    }
    for (int k = 0; k < n && status == PF_OK; k++) {
        status = take_suite(f, c, names[k], error);
    }
    return status;
}

// The paper's numbers and claims with ours beside them.
static pf_status open_fidelity(pf_fidelity *f, pf_paper *paper, const bench_call *c,
                               pf_error *error)
{
    char folder[BENCH_PATH + 16];
    snprintf(folder, sizeof folder, "%s/data", c->folder);
    pf_status status = pf__paper_load(paper, folder, error);
    status = status ? status : pf__fidelity_init(f, paper, folder, error);
    f->profile = c->profile->name;
    return status ? status : take_all(f, c, error);
}

// What was set, for the first line.
static const char *settings_text(const bench_call *c, pf_text *out)
{
    pf__text_add(out, c->twin ? "--twin" : "");
    for (int i = 0; i < c->set.n; i++) {
        pf__text_addf(out, "%s%s", out->size > 0 ? " " : "", c->set.item[i]);
    }
    return out->size > 0 ? out->data : NULL;
}

static pf_status nothing_run(const bench_call *c, pf_error *error)
{
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "%s has no number of the paper at profile %s with these settings and without "
                   "--method; `preflight bench run SUITE...` makes them",
                   c->db, c->profile->name);
}

pf_status bench_fidelity(const bench_call *c, bool csv, const char *picture, pf_text *out,
                         int *produced, pf_error *error)
{
    pf_paper paper = {0};
    pf_fidelity f = {0};
    pf_text settings = {0};
    pf_status status = open_fidelity(&f, &paper, c, error);
    f.settings = settings_text(c, &settings);
    *produced = status == PF_OK ? pf__fidelity_sum(&f, NULL).produced : 0;
    if (*produced > 0) {
        (csv ? pf__fidelity_csv : pf__fidelity_md)(&f, out);
        status = picture ? pf__fidelity_draw(&f, picture, error) : PF_OK;
    }
    pf__text_free(&settings);
    pf__fidelity_free(&f);
    pf__paper_free(&paper);
    return status;
}

static int write_fidelity(const bench_call *c, bool csv, const char *picture)
{
    pf_error error = {PF_OK, ""};
    pf_text out = {0};
    int produced = 0;
    pf_status status = bench_fidelity(c, csv, picture, &out, &produced, &error);
    if (status == PF_OK && produced == 0) {
        status = nothing_run(c, &error);
    }
    int exit_status =
        status == PF_OK ? cli_write(c->command, "-", &out) : cli_fail(c->command, status, &error);
    pf__text_free(&out);
    return exit_status;
}

// Whether a call has a reading already: it says so, or says nothing and all suites have it.
static bool has_reading(const bench_call *c, const char *reading, bool common)
{
    size_t key = strcspn(reading, "=") + 1;
    for (int i = c->set.n - 1; i >= 0; i--) {
        if (strncmp(c->set.item[i], reading, key) == 0) {
            return strcmp(c->set.item[i], reading) == 0;
        }
    }
    return common;
}

// A reading, and the first one over the same numbers.
static pf_status sum_reading(const bench_call *c, const bench_call *first, pf_fidelity_reading *out,
                             pf_error *error)
{
    pf_paper paper[2] = {{0}, {0}};
    pf_fidelity f[2] = {{0}, {0}};
    pf_status status = open_fidelity(&f[0], &paper[0], c, error);
    status = status ? status : open_fidelity(&f[1], &paper[1], first, error);
    if (status == PF_OK) {
        pf__fidelity_match(&f[0], &f[1]);
        out->sum = pf__fidelity_sum(&f[0], NULL);
        out->before = pf__fidelity_sum(&f[1], NULL);
    }
    for (int i = 0; i < 2; i++) {
        pf__fidelity_free(&f[i]);
        pf__paper_free(&paper[i]);
    }
    return status;
}

// One reading after the other; those of which nothing was run are left out.
static pf_status sum_readings(const bench_call *c, pf_fidelity_reading *out, int most, int *n,
                              pf_error *error)
{
    char reading[64] = "as it is";
    bool common = false;
    pf_status status = PF_OK;
    *n = 0;
    for (int i = -1; i < 0 || pf__settings_reading(i, reading, sizeof reading, &common); i++) {
        bench_call one = *c;
        one.quiet = true; // its row says how many numbers there are
        if (*n == most || status != PF_OK || (i >= 0 && has_reading(c, reading, common))) {
            continue;
        }
        if (i >= 0 && one.set.n < (int)(sizeof one.set.item / sizeof one.set.item[0])) {
            one.set.item[one.set.n++] = reading;
        }
        status = sum_reading(&one, c, &out[*n], error);
        snprintf(out[*n].name, sizeof out->name, "%s", reading);
        *n += status == PF_OK && out[*n].sum.produced > 0;
    }
    return status;
}

static int write_readings(const bench_call *c, bool csv, const char *picture)
{
    enum { MOST = 64 };
    pf_fidelity_reading readings[MOST];
    pf_error error = {PF_OK, ""};
    pf_text out = {0}, settings = {0};
    int n = 0;
    pf_status status = sum_readings(c, readings, MOST, &n, &error);
    const char *given = settings_text(c, &settings);
    if (status == PF_OK && n == 0) {
        status = nothing_run(c, &error);
    }
    if (status == PF_OK && csv) {
        pf__readings_csv(readings, n, c->profile->name, &out);
    } else if (status == PF_OK) {
        pf__readings_md(readings, n, c->profile->name, given, &out);
    }
    status = status || !picture ? status : pf__readings_draw(readings, n, picture, &error);
    int exit_status =
        status == PF_OK ? cli_write(c->command, "-", &out) : cli_fail(c->command, status, &error);
    pf__text_free(&out);
    pf__text_free(&settings);
    return exit_status;
}

static int bench_cmd_fidelity(int argc, char **argv)
{
    const char *format = NULL, *picture = NULL;
    bool readings = false;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench fidelity", .exact = true};
    cli_option options[BENCH_OPTIONS + 3] = {
        [BENCH_OPTIONS] = {"--format", .value = &format},
        [BENCH_OPTIONS + 1] = {"--plot", .value = &picture},
        [BENCH_OPTIONS + 2] = {"--readings", .flag = &readings}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 3, &words)) {
        return EXIT_USAGE;
    }
    if (words.n > 0) {
        return cli_usage(call.command, "it is about all suites; leave '%s' out", words.item[0]);
    }
    if (format && strcmp(format, "md") != 0 && strcmp(format, "csv") != 0) {
        return cli_usage(call.command, "--format: '%s' is not md or csv", format);
    }
    if (call.config) {
        return cli_usage(call.command, "--config is of one suite; choose readings with --set");
    }
    if (picture && !cli_picture(call.command, picture)) {
        return EXIT_USAGE;
    }
    bool csv = format && strcmp(format, "csv") == 0;
    return !bench_resolve(&call, &status) ? status
           : readings                     ? write_readings(&call, csv, picture)
                                          : write_fidelity(&call, csv, picture);
}

// --- bench

int cmd_bench(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"list", bench_cmd_list},         {"run", bench_cmd_run},
                 {"status", bench_cmd_status},     {"verify", bench_cmd_verify},
                 {"table", bench_cmd_table},       {"figure", bench_cmd_figure},
                 {"fidelity", bench_cmd_fidelity}, {"report", bench_cmd_report}};
    enum { VERBS = sizeof verbs / sizeof verbs[0] };
    const char *known[VERBS];
    for (int i = 0; i < VERBS; i++) {
        known[i] = verbs[i].name;
        if (argc > 0 && strcmp(argv[0], verbs[i].name) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    if (argc > 0 && argv[0][0] == '-' && argv[0][1]) {
        return cli_usage("bench",
                         "unknown option %s; say list, run, status, table, figure, "
                         "verify, fidelity or report first",
                         argv[0]);
    }
    const char *near = argc > 0 ? pf__nearest_word(argv[0], known, VERBS) : NULL;
    return cli_usage("bench",
                     "say list, run, status, table, figure, verify, fidelity or report%s%s%s",
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
