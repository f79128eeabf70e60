// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <string.h>

// bench list, and the suites of `list`.

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

int bench_cmd_list(int argc, char **argv)
{
    bool json = false;
    int status = EXIT_YES;
    cli_list words = {.n = 0};
    bench_call call = {.command = "bench list"};
    cli_option options[BENCH_OPTIONS + 1] = {[BENCH_OPTIONS] = {"--json", .flag = &json}};
    bench_options(&call, options);
    call.trust.allow_exec = true; // nothing is run
    if (!cli_parse(call.command, argc, argv, options, BENCH_OPTIONS + 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n > 0) {
        return cli_usage(call.command, "takes no suite");
    }
    call.profile_name = call.profile_name ? call.profile_name : list_profile;
    return bench_resolve(&call, &status) ? bench_list(&call, json) : status;
}
