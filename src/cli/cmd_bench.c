// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "settings/config.h"
#include "host/clock.h"
#include "bench/runner.h"

#include <string.h>

// A suite opened, resolved at the profile, with its database.
typedef struct session {
    bench_suite suite;
    pf_experiment experiment;
    pf_store *store;
} session;

static void close_session(session *s)
{
    pf_store_close(s->store);
    pf_experiment_free(&s->experiment);
    bench_suite_close(&s->suite);
}

// The suite is checked before the database is touched.
static pf_status open_session(session *s, const bench_call *c, const char *name, pf_store_mode mode,
                              pf_error *error)
{
    memset(s, 0, sizeof *s);
    pf_status status = bench_suite_open(c, name, &s->suite, error);
    if (status == PF_OK) {
        status = pf_experiment_init(&s->experiment, s->suite.run, c->profile, error);
    }
    if (status == PF_OK) {
        status = pf_store_open(&s->store, c->db, mode, error);
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
    return bench_resolve(&call, &status) ? bench_list(&call, json) : status;
}

// --- bench run

static int report_run(const bench_call *c, session *s, const pf_run_report *report, double seconds)
{
    pf_error error = {PF_OK, ""};
    pf_store_counts counts;
    int shown = 0;
    pf_status status = pf_store_count(s->store, s->experiment.hash, &counts, &error);
    if (status == PF_OK && counts.failed > 0) {
        status = pf_store_failures(s->store, s->experiment.hash, print_failure, &shown, &error);
    }
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    printf("%s, %s, config %s: %lld of %lld trials, %lld failed (%zu now, %zu of %zu kits "
           "calibrated, %.1f s)\n",
           s->suite.run->id, c->profile->name, s->experiment.hash, (long long)counts.done,
           (long long)counts.total, (long long)counts.failed, report->done, report->kits_made,
           report->kits, seconds);
    if (counts.failed > 0) {
        fprintf(stderr, "failed trials are run once more with --retry\n");
    }
    return counts.failed > 0 ? EXIT_NO : EXIT_YES;
}

// Models of a suite that predicts with learned ones: loaded, or trained where they are missing.
static pf_status learn(const bench_call *c, pf_experiment *e, const pf_filter *filter, bool train,
                       const pf_effort *effort, pf_error *error)
{
    return pf_experiment_learn(e, c->models ? c->models : "models", filter, train, effort, error);
}

// Environments that were asked for and whose backend is not here; how many.
static int report_missing(const pf_experiment *e, const pf_filter *filter)
{
    int n = 0;
    pf_filter part = {filter->n, filter->clause, e};
    size_t block = e->n_units / (size_t)e->suite->environments.n;
    for (int i = 0; i < e->suite->environments.n; i++) {
        const char *why = pf_experiment_missing(e, e->suite->environments.text[i]);
        bool wanted = false;
        for (size_t u = 0; why && u < block && !wanted; u++) {
            wanted = pf_filter_wants(&part, &e->units[(size_t)i * block + u]);
        }
        if (wanted) {
            n++;
            fprintf(stderr, "left out: %s (%zu trials)\n", why, block);
        }
    }
    return n;
}

static int run_one(const bench_call *c, const char *name, const pf_filter *filter, int threads,
                   bool retry)
{
    session s;
    pf_error error = {PF_OK, ""};
    pf_run_report report = {0};
    cli_progress progress;
    pf_status status = open_session(&s, c, name, PF_STORE_WRITE, &error);
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    pf_filter part = {filter->n, filter->clause, &s.experiment};
    status = pf_experiment_runnable(&s.experiment, &part, &error);
    if (status != PF_OK) {
        close_session(&s);
        return cli_fail(c->command, status, &error);
    }
    double start = pf_seconds();
    int missing = report_missing(&s.experiment, filter);
    pf_effort effort = cli_effort(&progress, threads);
    status = learn(c, &s.experiment, filter, true, &effort, &error);
    status = status ? status : pf_experiment_bind(&s.experiment, s.store, &error);
    status = status || !retry ? status : pf_store_retry(s.store, s.experiment.hash, &error);
    status =
        status ? status : pf_runner_run(&s.experiment, s.store, filter, &effort, &report, &error);
    cli_progress_end(&progress);
    int exit_status = EXIT_YES;
    if (status == PF_ERR_INTERRUPTED) {
        fprintf(stderr,
                "preflight %s: interrupted after %zu trials; run it again to go on from there\n",
                c->command, report.done);
        exit_status = EXIT_INTERRUPTED;
    } else if (status != PF_OK) {
        exit_status = cli_fail(c->command, status, &error);
    } else {
        exit_status = report_run(c, &s, &report, pf_seconds() - start);
        exit_status = missing > 0 && exit_status == EXIT_YES ? EXIT_NO : exit_status;
    }
    close_session(&s);
    return exit_status;
}

// Whether every suite can be read, before any work.
static int check_suites(const bench_call *c, const cli_list *names, const pf_filter *filter)
{
    for (int i = 0; i < names->n; i++) {
        bench_suite suite;
        pf_experiment experiment = {0};
        pf_error error = {PF_OK, ""};
        pf_status status = bench_suite_open(c, names->item[i], &suite, &error);
        if (status == PF_OK) {
            status = pf_experiment_outline(&experiment, suite.run, c->profile, &error);
            pf_filter part = {filter->n, filter->clause, &experiment};
            status = status ? status : pf_filter_check(&part, &error);
            pf_experiment_free(&experiment);
            bench_suite_close(&suite);
        }
        if (status == PF_ERR_ARGUMENT) {
            return cli_usage(c->command, "%s", error.text);
        }
        if (status != PF_OK) {
            return cli_fail(c->command, status, &error);
        }
    }
    return EXIT_YES;
}

static int bench_cmd_run(int argc, char **argv)
{
    const char *threads_text = NULL;
    int status = EXIT_YES;
    double threads = 0;
    cli_list only = {.n = 0}, names = {.n = 0};
    bench_call call = {.command = "bench run"};
    bool retry = false;
    cli_option options[BENCH_OPTIONS + 3] = {
        [BENCH_OPTIONS] = {"--threads", .value = &threads_text},
        [BENCH_OPTIONS + 1] = {"--only", .list = &only},
        [BENCH_OPTIONS + 2] = {"--retry", .flag = &retry}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 3, &names)) {
        return EXIT_USAGE;
    }
    if (names.n == 0) {
        return cli_usage(call.command, "name a suite; `preflight bench list` shows them");
    }
    if (call.config) {
        return cli_usage(call.command,
                         "--config is for reading; a run has the hash of its settings");
    }
    if ((threads_text && !cli_integer(call.command, "--threads", threads_text, 1, 256, &threads))) {
        return EXIT_USAGE;
    }
    if (!bench_resolve(&call, &status)) {
        return status;
    }
    pf_filter filter = {only.n, only.item, NULL};
    status = check_suites(&call, &names, &filter);
    // failed trials of one suite do not keep the next from running
    for (int i = 0; i < names.n && status <= EXIT_NO; i++) {
        int one = run_one(&call, names.item[i], &filter, (int)threads, retry);
        status = one > status ? one : status;
    }
    return status;
}

// --- bench status

static void add_failure(void *self, const pf_unit *u, const char *reason)
{
    pf_text *out = self;
    pf_json_comma(out);
    pf_text_add(out, "{\"environment\":");
    pf_json_string(out, u->environment);
    pf_json_key(out, "setting");
    pf_json_string(out, u->setting);
    pf_text_addf(out, ",\"seed\":%d,\"trial\":%d", u->seed, u->trial);
    pf_json_key(out, "reason");
    pf_json_string(out, reason ? reason : "");
    pf_text_add(out, "}");
}

static void list_failure(void *self, const pf_unit *u, const char *reason)
{
    pf_text_addf(self, "failed: %s %s seed %d trial %d: %s\n", u->environment, u->setting, u->seed,
                 u->trial, reason ? reason : "");
}

static pf_status write_status(const bench_call *c, session *s, const char *hash, bool json,
                              bool *failed, pf_text *out, pf_error *error)
{
    pf_store_counts n;
    pf_status status = pf_store_count(s->store, hash, &n, error);
    status = status ? status : pf_store_running(s->store, hash, &n.running, error);
    if (status != PF_OK) {
        return status;
    }
    if (n.total == 0) {
        n.total = (int64_t)s->experiment.n_units;
    }
    *failed = n.failed > 0;
    pf_text_add(out, json ? "{\"suite\":" : "");
    if (!json) {
        pf_text_addf(out, "%s, %s, config %s: %lld of %lld done, %lld failed, %lld running\n",
                     s->suite.run->id, c->profile->name, hash, (long long)n.done,
                     (long long)n.total, (long long)n.failed, (long long)n.running);
        return pf_store_failures(s->store, hash, list_failure, out, error);
    }
    pf_json_string(out, s->suite.run->id);
    pf_text_addf(out,
                 ",\"profile\":\"%s\",\"config_hash\":\"%s\",\"total\":%lld,\"done\":%lld,"
                 "\"failed\":%lld,\"running\":%lld,\"failures\":[",
                 c->profile->name, hash, (long long)n.total, (long long)n.done, (long long)n.failed,
                 (long long)n.running);
    status = pf_store_failures(s->store, hash, add_failure, out, error);
    pf_text_add(out, "]}\n");
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
    session s;
    char hash[65];
    pf_text out = {0};
    pf_error error = {PF_OK, ""};
    pf_status status = open_session(&s, &call, names.item[0], PF_STORE_READ, &error);
    if (status != PF_OK) {
        return cli_fail(call.command, status, &error);
    }
    status = find_hash(&call, &s, hash, &error);
    status = status ? status : write_status(&call, &s, hash, json, &failed, &out, &error);
    exit_status = status == PF_OK ? cli_write(call.command, "-", &out)
                                  : cli_fail(call.command, status, &error);
    exit_status = exit_status == EXIT_YES && failed ? EXIT_NO : exit_status;
    pf_text_free(&out);
    close_session(&s);
    return exit_status;
}

// --- bench verify

static int verify(const bench_call *c, session *s, size_t sample, int threads)
{
    char hash[65];
    pf_error error = {PF_OK, ""};
    pf_verify_report report;
    cli_progress progress;
    pf_status status = find_hash(c, s, hash, &error);
    if (status == PF_OK && strcmp(hash, s->experiment.hash) != 0) {
        status = pf_fail(&error, PF_ERR_MISMATCH,
                         "config %s was run with other settings or another version; as called now "
                         "the suite is %s: repeat the --set of that run, or name a --config",
                         hash, s->experiment.hash);
    }
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    pf_effort effort = cli_effort(&progress, threads);
    status = learn(c, &s->experiment, NULL, false, &effort, &error);
    status = status ? status : pf_experiment_bound(&s->experiment, s->store, &error);
    status = status ? status
                    : pf_runner_verify(&s->experiment, s->store, sample, &effort, &report, &error);
    cli_progress_end(&progress);
    if (status != PF_OK) {
        return cli_fail(c->command, status, &error);
    }
    if (report.available == 0) {
        fprintf(stderr, "preflight %s: no trial of %s is stored at profile %s\n", c->command,
                s->suite.run->id, c->profile->name);
        return EXIT_BAD_INPUT;
    }
    printf("%s, %s, config %s: %zu of %zu stored trials recomputed, %zu differ\n", s->suite.run->id,
           c->profile->name, hash, report.checked, report.available, report.different);
    if (report.different > 0) {
        printf("first difference: %s\n", report.difference);
    }
    return report.different > 0 ? EXIT_NO : EXIT_YES;
}

static int bench_cmd_verify(int argc, char **argv)
{
    const char *threads_text = NULL, *sample_text = NULL;
    double threads = 0, sample = 50;
    int status = EXIT_YES;
    cli_list names = {.n = 0};
    bench_call call = {.command = "bench verify"};
    cli_option options[BENCH_OPTIONS + 2] = {
        [BENCH_OPTIONS] = {"--threads", .value = &threads_text},
        [BENCH_OPTIONS + 1] = {"--sample", .value = &sample_text}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 2, &names)) {
        return EXIT_USAGE;
    }
    if (names.n != 1) {
        return cli_usage(call.command, "name one suite; `preflight bench list` shows them");
    }
    if ((threads_text && !cli_integer(call.command, "--threads", threads_text, 1, 256, &threads)) ||
        (sample_text && !cli_integer(call.command, "--sample", sample_text, 1, 1e9, &sample))) {
        return EXIT_USAGE;
    }
    if (!bench_resolve(&call, &status)) {
        return status;
    }
    session s;
    pf_error error = {PF_OK, ""};
    pf_status opened = open_session(&s, &call, names.item[0], PF_STORE_READ, &error);
    if (opened != PF_OK) {
        return cli_fail(call.command, opened, &error);
    }
    status = verify(&call, &s, (size_t)sample, (int)threads);
    close_session(&s);
    return status;
}

// --- bench

int cmd_bench(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"list", bench_cmd_list},     {"run", bench_cmd_run},
                 {"status", bench_cmd_status}, {"verify", bench_cmd_verify},
                 {"table", cmd_bench_table},   {"figure", cmd_bench_figure}};
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
                         "unknown option %s; say list, run, status, table, figure or "
                         "verify first",
                         argv[0]);
    }
    const char *near = argc > 0 ? pf_nearest_word(argv[0], known, VERBS) : NULL;
    return cli_usage("bench", "say list, run, status, table, figure or verify%s%s%s",
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
