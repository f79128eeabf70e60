// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "host/file.h"
#include "settings/config.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What the subcommands of bench share: their options, suites by name, configurations of a database.

void bench_options(bench_call *c, cli_option *options)
{
    options[0] = (cli_option){"--profile", .value = &c->profile_name};
    options[1] = (cli_option){"--db", .value = &c->db};
    options[2] = (cli_option){"--data", .value = &c->data};
    options[3] = (cli_option){"--config", .value = &c->config};
    options[4] = (cli_option){"--set", .list = &c->set};
    options[5] = (cli_option){"--models", .value = &c->models};
    options[6] = (cli_option){"--twin", .flag = &c->twin};
    options[7] = (cli_option){"--trust", .value = &c->trust.signers};
    options[8] = (cli_option){"--allow-exec", .flag = &c->trust.allow_exec};
    c->trust.no_plant = true;
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
    c->own = c->methods.n > 0 ? pf__own_methods_create(&cli_interrupted) : NULL;
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
    pf_status status = cli_trusted_read(&c->trust, path, SUITE_BYTES, &text, &n, NULL, error);
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
            suite->stop = &cli_interrupted;
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

// What a suite names is run to know it again, so nothing is done before that is allowed.
static pf_status check_plants(const bench_call *c, const pf_suite *suite, pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < suite->environments.n && status == PF_OK; i++) {
        const char *learned_on = pf__suite_learned_on(suite, i);
        status = cli_trusted_plant(&c->trust, suite->id, suite->environments.text[i], error);
        if (status == PF_OK && learned_on) {
            status = cli_trusted_plant(&c->trust, suite->id, learned_on, error);
        }
    }
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

void bench_suite_close(bench_suite *s)
{
    pf__suite_free(&s->shown);
    pf__suite_free(&s->other);
    s->run = NULL;
}

// By name in suites/ or by path (with a slash or ending in .yaml); --set acts on the one that is
// run.
pf_status bench_suite_open(const bench_call *c, const char *name, bench_suite *s, pf_error *error)
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
    status = status ? status : check_plants(c, s->run, error);
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
    if (!c->profile_name && (!name || bench_suite_open(&plain, name, &suite, NULL) == PF_OK) &&
        pf__store_open(&store, c->db, PF_STORE_READ, NULL) == PF_OK &&
        pf__store_profile(store, name ? suite.run->id : NULL, c->config, last, NULL) == PF_OK &&
        pf__profile_find(last)) {
        c->profile = pf__profile_find(last);
    }
    pf__store_close(store);
    bench_suite_close(&suite);
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

pf_status bench_find_config(const bench_call *c, const pf_suite *suite, const char *own,
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

void bench_session_close(bench_session *s)
{
    pf__store_close(s->store);
    pf__experiment_free(&s->experiment);
    bench_suite_close(&s->suite);
    s->store = NULL;
}

pf_status bench_session_resolve(bench_session *s, const bench_call *c, pf_error *error)
{
    pf_status status = s->experiment.suite ? PF_OK
                                           : pf__experiment_outline(&s->experiment, s->suite.run,
                                                                    c->profile, error);
    return status ? status : pf__experiment_complete(&s->experiment, error);
}

pf_status bench_session_open(bench_session *s, const bench_call *c, pf_store_mode mode,
                             pf_error *error)
{
    pf_status status = bench_session_resolve(s, c, error);
    if (status == PF_OK) {
        status = pf__store_open(&s->store, c->db, mode, error);
    }
    if (status != PF_OK) {
        bench_session_close(s);
    }
    return status;
}

pf_status bench_learn(const bench_call *c, pf_experiment *e, bool train, const pf_effort *effort,
                      pf_error *error)
{
    return pf__experiment_learn(e, bench_models(c), train, effort, error);
}

const char *bench_models(const bench_call *c)
{
    return c->models ? c->models : "models";
}

pf_status bench_find_hash(const bench_call *c, bench_session *s, char hash[65], pf_error *error)
{
    pf_status status =
        bench_find_config(c, s->suite.run, s->experiment.hash, s->store, hash, error);
    if (status == PF_OK && !hash[0]) {
        snprintf(hash, 65, "%s", s->experiment.hash);
    }
    return status;
}
