// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include "host/file.h"
#include "host/parallel.h"

#include <limits.h>
#include <stdlib.h>

// bench run.

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

static int report_run(const bench_call *c, bench_session *s, const pf_run_report *report,
                      double seconds)
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

// How a suite is run.
typedef struct manner {
    int threads;
    bool retry;
    pf_ranks *ranks; // Nullable
} manner;

// Models that are here; of ranks the others learn those that are not.
static pf_status find_models(const bench_call *c, pf_experiment *e, const manner *how,
                             const pf_effort *effort, pf_error *error)
{
    if (!pf__ranks_many(how->ranks)) {
        return bench_learn(c, e, true, effort, error);
    }
    pf_status status = pf__experiment_models(e, bench_models(c), true, error);
    for (int i = 0; i < e->suite->environments.n && status == PF_OK; i++) {
        if (pf__experiment_learns(e, i)) {
            status = pf__experiment_learn_one(e, i, bench_models(c), false, effort, error);
        }
    }
    return status;
}

// A rank that computes: whatever it fails with, rank 0 says it.
static int help_one(const bench_call *c, bench_session *s, const manner *how)
{
    pf_error error = {PF_OK, ""};
    pf_run_report report;
    pf_effort effort = {.threads = how->threads, .stop = &cli_interrupted};
    pf_run_place place = {.ranks = how->ranks, .models = bench_models(c), .effort = &effort};
    pf_status status = bench_session_resolve(s, c, &error);
    status = status ? status : pf__experiment_runnable(&s->experiment, &error);
    status = status ? status : pf__experiment_meet(&s->experiment, how->ranks, &error);
    if (status == PF_OK) {
        cli_ranks_begin();
        status = pf__experiment_run(&s->experiment, &place, &report, &error);
        cli_ranks_end();
    }
    // rank 0 knows what work failed with; what failed before goes with the end
    return status == PF_OK ? EXIT_YES : cli_fail(c->command, status, &error);
}

// The suite is resolved, and of one mind with the other ranks, before the database is touched.
static pf_status open_one(const bench_call *c, bench_session *s, const manner *how, pf_error *error)
{
    pf_status status = bench_session_resolve(s, c, error);
    status = status ? status : pf__experiment_runnable(&s->experiment, error);
    if (status == PF_OK && pf__ranks_many(how->ranks)) {
        status = pf__experiment_meet(&s->experiment, how->ranks, error);
    }
    return status ? status : pf__store_open(&s->store, c->db, PF_STORE_WRITE, error);
}

// Models, then trials.
static pf_status run_opened(const bench_call *c, bench_session *s, const manner *how,
                            const pf_effort *effort, pf_run_report *report, pf_error *error)
{
    pf_experiment *e = &s->experiment;
    pf_run_place place = {s->store, how->ranks, bench_models(c), effort};
    pf_status status = find_models(c, e, how, effort, error);
    status = status ? status : pf__experiment_bind(e, s->store, error);
    status = status || !how->retry ? status : pf__store_retry(s->store, e->hash, error);
    return status ? status : pf__experiment_run(e, &place, report, error);
}

static int run_one(const bench_call *c, bench_session *s, const manner *how)
{
    pf_error error = {PF_OK, ""};
    pf_run_report report = {0};
    cli_progress progress;
    pf_status status = open_one(c, s, how, &error);
    if (status != PF_OK) {
        bench_session_close(s);
        return cli_fail(c->command, status, &error);
    }
    if (pf__file_on_network(c->db)) {
        cli_say(c->command,
                "warning: %s is on a network file system, where locks may not hold; one process at "
                "a time, or give each a --shard and a --db of its own",
                c->db);
    }
    double start = pf__seconds();
    int missing = report_missing(&s->experiment);
    pf_effort effort = cli_effort(&progress, how->threads);
    progress.form = c->form;
    progress.main = progress.job = "trials";
    progress.shorter = quick_run(&s->experiment);
    status = run_opened(c, s, how, &effort, &report, &error);
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
    bench_session_close(s);
    return exit_status;
}

// What of the suites is run.
typedef struct part {
    cli_list only;
    int shard, shards; // from 0; shards 0: all
} part;

// Whether every suite can be read and has what is asked for, before any work; they stay open.
static int open_suites(const bench_call *c, const cli_list *names, const part *want,
                       bench_session *sessions)
{
    for (int i = 0; i < names->n; i++) {
        bench_session *s = &sessions[i];
        pf_error error = {PF_OK, ""};
        pf_status status = bench_suite_open(c, names->item[i], &s->suite, &error);
        if (status == PF_OK) {
            status = pf__experiment_outline(&s->experiment, s->suite.run, c->profile, &error);
        }
        status = status
                     ? status
                     : pf__experiment_select(&s->experiment, want->only.n, want->only.item, &error);
        if (status == PF_OK && want->shards > 0) {
            status = pf__experiment_shard(&s->experiment, want->shard, want->shards, &error);
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

// The suites one after the other; failed trials of one do not keep the next from running.
static int run_suites(const bench_call *c, const cli_list *names, const part *want,
                      const manner *how)
{
    bench_session *sessions = calloc((size_t)names->n, sizeof *sessions);
    if (!sessions) {
        return cli_fail(c->command, PF_ERR_MEMORY, &(pf_error){PF_ERR_MEMORY, "out of memory"});
    }
    int status = open_suites(c, names, want, sessions);
    for (int i = 0; i < names->n; i++) {
        if (status <= EXIT_NO) {
            int one = pf__ranks_worker(how->ranks) ? help_one(c, &sessions[i], how)
                                                   : run_one(c, &sessions[i], how);
            status = one > status ? one : status;
        }
        bench_session_close(&sessions[i]);
    }
    free(sessions);
    return status;
}

// "3/8". False: a usage error was printed.
static bool read_shard(const char *command, const char *text, part *want)
{
    char *end = NULL, *all = NULL;
    long shard = text ? strtol(text, &end, 10) : 0;
    long shards = text && *end == '/' ? strtol(end + 1, &all, 10) : 0;
    if (text &&
        (!all || *all || all == end + 1 || shard < 1 || shard > shards || shards > INT_MAX)) {
        cli_usage(command, "--shard: '%s' is not K/N with K from 1 to N, as in 3/8", text);
        return false;
    }
    want->shard = (int)shard - 1;
    want->shards = (int)shards;
    return true;
}

int bench_cmd_run(int argc, char **argv)
{
    const char *threads_text = NULL, *progress = NULL, *shard = NULL;
    int status = EXIT_YES;
    double threads = 0;
    manner how = {0};
    part want = {.shards = 0};
    cli_list names = {.n = 0};
    bench_call call = {.command = "bench run"};
    bool mixed = false;
    if (!cli_ranks_open(call.command, &how.ranks, &status)) {
        return status;
    }
    cli_option options[BENCH_OPTIONS + 7] = {
        [BENCH_OPTIONS] = {"--threads", .value = &threads_text},
        [BENCH_OPTIONS + 1] = {"--only", .list = &want.only},
        [BENCH_OPTIONS + 2] = {"--retry", .flag = &how.retry},
        [BENCH_OPTIONS + 3] = {"--method", .list = &call.methods},
        [BENCH_OPTIONS + 4] = {"--progress", .value = &progress},
        [BENCH_OPTIONS + 5] = {"--shard", .value = &shard},
        [BENCH_OPTIONS + 6] = {"--mixed", .flag = &mixed}};
    bench_options(&call, options);
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 7, &names)) {
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
        !read_shard(call.command, shard, &want) ||
        !cli_progress_form(call.command, progress, &call.form)) {
        return EXIT_USAGE;
    }
    if (bench_resolve(&call, &status)) {
        cli_ranks_mixed(mixed);
        // a rank is one worker; more threads help where it learns a model
        how.threads = pf__ranks_many(how.ranks) && threads == 0 ? 1 : (int)threads;
        status = run_suites(&call, &names, &want, &how);
    }
    pf__own_methods_destroy(call.own);
    return status;
}
