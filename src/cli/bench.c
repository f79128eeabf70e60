// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "settings/config.h"
#include "host/file.h"
#include "bench/experiment.h"

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

bool bench_resolve(bench_call *c, int *status)
{
    c->db = c->db ? c->db : "preflight.db";
    c->profile = pf_profile_find(c->profile_name ? c->profile_name : "standard");
    if (!c->profile) {
        *status = cli_usage(c->command, "--profile: '%s' is not quick, standard or paper",
                            c->profile_name);
        return false;
    }
    pf_error error = {PF_OK, ""};
    if (pf_store_check_name(c->db, &error) != PF_OK) {
        *status = cli_usage(c->command, "%s", error.text);
        return false;
    }
    if (!find_folder(c)) {
        fprintf(stderr, "preflight %s: there is no folder %s/suites; name one with --data DIR\n",
                c->command, c->folder);
        *status = EXIT_BAD_INPUT;
        return false;
    }
    return true;
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
    const char *near = pf_nearest_word(name, (const char *const *)names, n);
    status = pf_fail(error, PF_ERR_FILE, "there is no suite '%s'%s%s%s; see `preflight bench list`",
                     name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    bench_names_free(names, n);
    return status;
}

static pf_status read_suite(const char *path, const bench_call *c, bool overridden, pf_suite *suite,
                            pf_error *error)
{
    enum { SUITE_BYTES = 1 << 20 };
    void *text = NULL;
    size_t n = 0;
    pf_status status = pf_file_read(path, SUITE_BYTES, &text, &n, error);
    if (status == PF_OK) {
        const char *slash = strrchr(path, '/');
        status = pf_suite_read(suite, slash ? slash + 1 : path, text, n, c->set.item,
                               overridden ? c->set.n : 0, error);
        if (status == PF_OK && overridden) {
            status = check_profile(c, error);
            if (status != PF_OK) {
                pf_suite_free(suite);
            }
        }
    }
    free(text);
    return status;
}

// Reads without --set first, because it acts on the suite that is run.
static pf_status open_other(const bench_call *c, const char *path, bench_suite *s, pf_error *error)
{
    char other[BENCH_PATH + 128];
    const char *slash = strrchr(path, '/');
    snprintf(other, sizeof other, "%.*s%s.yaml", slash ? (int)(slash - path) + 1 : 0, path,
             s->shown.from);
    pf_status status = read_suite(other, c, true, &s->other, error);
    if (status == PF_OK && s->other.from) {
        status = pf_fail(error, PF_ERR_FORMAT, "%s: from: '%s' has no trials of its own either",
                         s->shown.id, s->shown.from);
    }
    s->run = &s->other;
    return status;
}

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
    pf_status status = read_suite(path, c, false, &s->shown, error);
    s->run = &s->shown;
    if (status == PF_OK && s->shown.from) {
        status = open_other(c, path, s, error);
    } else if (status == PF_OK && c->set.n > 0) {
        pf_suite_free(&s->shown);
        status = read_suite(path, c, true, &s->shown, error);
    }
    if (status != PF_OK) {
        bench_suite_close(s);
    }
    return status;
}

void bench_suite_close(bench_suite *s)
{
    pf_suite_free(&s->shown);
    pf_suite_free(&s->other);
    s->run = NULL;
}

// --- list

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static void add_string(pf_text *out, const char *key, const char *value)
{
    pf_json_key(out, key);
    pf_json_string(out, or_empty(value));
}

// The environments of a suite as a list; missing: those alone that are not here.
static void add_environments(pf_text *out, const char *key, const bench_suite *s,
                             const pf_experiment *e, bool missing)
{
    pf_json_key(out, key);
    pf_text_add(out, "[");
    for (int i = 0; i < s->run->environments.n; i++) {
        const char *name = s->run->environments.text[i];
        if (!missing || pf_experiment_missing(e, name)) {
            pf_json_comma(out);
            pf_json_string(out, name);
        }
    }
    pf_text_add(out, "]");
}

static void list_json(const bench_call *c, const char *name, const bench_suite *s,
                      const pf_experiment *e, pf_text *out)
{
    pf_json_comma(out);
    pf_text_add(out, "{");
    add_string(out, "id", name);
    add_string(out, "title", s->shown.title);
    add_string(out, "paper", s->shown.paper);
    add_string(out, "from", s->shown.from);
    add_string(out, "needs", s->run->needs);
    add_string(out, "cost", s->run->cost);
    add_string(out, "profile", c->profile->name);
    pf_text_addf(out, ",\"trials\":%zu,\"environments\":%d,\"methods\":%d", e->n_units,
                 s->run->environments.n, e->n_methods);
    add_environments(out, "names", s, e, false);
    add_environments(out, "missing", s, e, true);
    pf_text_add(out, "}");
}

static void list_line(const char *name, const bench_suite *s, const pf_experiment *e, pf_text *out)
{
    pf_text_addf(out, "%-18s %s", name, s->shown.title);
    pf_text_addf(out, "%s%s%s\n%18s ", s->shown.paper ? " (" : "", or_empty(s->shown.paper),
                 s->shown.paper ? ")" : "", "");
    if (s->shown.from) {
        pf_text_addf(out, "shows the trials of %s\n", s->shown.from);
        return;
    }
    pf_text_addf(out, "%zu trials, %d environments, %d methods; needs %s%s%s\n", e->n_units,
                 s->run->environments.n, e->n_methods,
                 s->run->needs ? s->run->needs : "nothing more",
                 s->run->cost ? "; paper scale: " : "", or_empty(s->run->cost));
    pf_text_addf(out, "%18s on", "");
    for (int i = 0; i < s->run->environments.n; i++) {
        pf_text_addf(out, " %s", s->run->environments.text[i]);
    }
    pf_text_add(out, "\n");
    for (int i = 0; i < s->run->environments.n; i++) {
        const char *why = pf_experiment_missing(e, s->run->environments.text[i]);
        if (why) {
            pf_text_addf(out, "%18s not here: %s\n", "", why);
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
        status = pf_experiment_outline(&e, s.run, c->profile, &error);
    }
    if (status != PF_OK && json) {
        pf_json_comma(out);
        pf_text_add(out, "{");
        add_string(out, "id", name);
        add_string(out, "error", error.text);
        pf_text_add(out, "}");
    } else if (status != PF_OK) {
        pf_text_addf(out, "%-18s not available: %s\n", name, error.text);
    } else if (json) {
        list_json(c, name, &s, &e, out);
    } else {
        list_line(name, &s, &e, out);
    }
    pf_experiment_free(&e);
    bench_suite_close(&s);
}

int bench_list(const bench_call *c, bool json)
{
    char **names = NULL;
    int n = 0;
    pf_error error = {PF_OK, ""};
    pf_status status = bench_names(c, &names, &n, &error);
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    pf_text out = {0};
    pf_text_add(&out, json ? "[" : "");
    for (int i = 0; i < n; i++) {
        list_one(c, names[i], json, &out);
    }
    pf_text_add(&out, json ? "]\n" : "");
    bench_names_free(names, n);
    int exit_status = cli_write(c->command, "-", &out);
    pf_text_free(&out);
    return exit_status;
}

int bench_list_suites(bool json)
{
    int status = EXIT_YES;
    bench_call call = {.command = "list"};
    return bench_resolve(&call, &status) ? bench_list(&call, json) : status;
}
