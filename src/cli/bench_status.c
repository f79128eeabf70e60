// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

// bench status.

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

static pf_status write_status(const bench_call *c, bench_session *s, const char *hash, bool json,
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

int bench_cmd_status(int argc, char **argv)
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
    bench_session s = {.store = NULL};
    char hash[65];
    pf_text out = {0};
    pf_error error = {PF_OK, ""};
    pf_status status = bench_suite_open(&call, names.item[0], &s.suite, &error);
    status = status ? status : bench_session_open(&s, &call, PF_STORE_READ, &error);
    if (status != PF_OK) {
        return cli_fail(call.command, status, &error);
    }
    status = bench_find_hash(&call, &s, hash, &error);
    status = status ? status : write_status(&call, &s, hash, json, &failed, &out, &error);
    exit_status = status == PF_OK ? cli_write(call.command, "-", &out)
                                  : cli_fail(call.command, status, &error);
    exit_status = exit_status == EXIT_YES && failed ? EXIT_NO : exit_status;
    pf__text_free(&out);
    bench_session_close(&s);
    return exit_status;
}
