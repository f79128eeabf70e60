// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "commit.h" // PF_COMMIT, of the sources that were built

#include "core/sha256.h"
#include "host/file.h"
#include "host/parallel.h"
#include "model/rollout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Progress of long commands, in the form that --progress names, always on standard error.

volatile int cli_interrupted = 0;

// Seconds between two lines of a form, and before the first one.
static const double pause_s[] = {
    [CLI_FORM_LINE] = .1, [CLI_FORM_PLAIN] = 30, [CLI_FORM_JSON] = 1, [CLI_FORM_NONE] = INFINITY};
// A job that takes less is not announced. A rate is believed after this long.
static const double long_s = 20, believed_s = 3;

bool cli_progress_form(const char *command, const char *text, cli_form *form)
{
    static const char *const names[] = {"auto", "plain", "json", "none"};
    static const cli_form forms[] = {CLI_FORM_LINE, CLI_FORM_PLAIN, CLI_FORM_JSON, CLI_FORM_NONE};
    int i = 0;
    while (text && i < 4 && strcmp(text, names[i]) != 0) {
        i++;
    }
    if (i == 4) {
        cli_usage(command, "--progress %s: say auto, plain, json or none", text);
        return false;
    }
    *form = i == 0 && !isatty(2) ? CLI_FORM_PLAIN : forms[i];
    return true;
}

// "12 min" as people say it.
void cli_time(double seconds, char *out, size_t n)
{
    if (seconds < 100) {
        snprintf(out, n, "%.0f s", seconds);
    } else if (seconds < 100 * 60) {
        snprintf(out, n, "%.0f min", seconds / 60);
    } else {
        snprintf(out, n, "%.1f h", seconds / 3600);
    }
}

// A whole JSON line, which no other line cuts.
static void print_json(pf_text *line)
{
    pf__text_add(line, "}\n");
    if (!line->failed) {
        fputs(line->data, stderr);
        fflush(stderr);
    }
    pf__text_free(line);
}

// Four digits say all that is known; null: nothing is known yet.
static void add_number(pf_text *line, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    pf__json_key(line, key);
    pf__text_add(line, isfinite(value) ? text : "null");
}

static void print_progress(cli_progress *p, size_t total, double rate, double left)
{
    char time[32];
    cli_time(left, time, sizeof time);
    p->shown = p->form == CLI_FORM_LINE;
    if (p->form == CLI_FORM_JSON) {
        pf_text line = {0};
        pf__text_add(&line, "{");
        pf__json_add_string(&line, "progress", p->what);
        pf__text_addf(&line, ",\"done\":%zu,\"total\":%zu", p->done, total);
        add_number(&line, "rate", rate);
        add_number(&line, "left_s", left);
        if (p->note[0]) {
            pf__json_add_string(&line, "note", p->note);
        }
        print_json(&line);
        return;
    }
    const char *end = p->shown ? "\033[K" : "\n";
    fprintf(stderr, "%s%-14s %zu/%zu", p->shown ? "\r" : "", p->what, p->done, total);
    if (p->done < total && isfinite(left)) {
        fprintf(stderr, "  %.*f/s  %s left", rate < 10 ? 1 : 0, rate, time);
    }
    fprintf(stderr, "%s%s%s", p->note[0] ? "  " : "", p->note, end);
    fflush(stderr);
}

static void show_estimate(void *self, const pf_estimate *estimate)
{
    cli_progress *p = self;
    if (p->estimated || p->form == CLI_FORM_NONE || !(estimate->seconds > long_s)) {
        return;
    }
    cli_progress_end(p);
    const char *set = !estimate->setting || estimate->setting[0] == '-' ? "" : "--set ";
    if (p->form == CLI_FORM_JSON) {
        pf_text line = {0};
        pf__text_add(&line, "{");
        pf__json_add_string(&line, "estimate", estimate->what);
        add_number(&line, "estimate_s", estimate->seconds);
        if (estimate->setting) {
            char option[96];
            snprintf(option, sizeof option, "%s%s", set, estimate->setting);
            pf__json_add_string(&line, "shorter", option);
            add_number(&line, "shorter_s", estimate->seconds_then);
        }
        print_json(&line);
        return;
    }
    char time[32], then[32];
    cli_time(estimate->seconds, time, sizeof time);
    cli_time(estimate->seconds_then, then, sizeof then);
    fprintf(stderr, "%s: about %s", estimate->what, time);
    if (estimate->setting) {
        fprintf(stderr, "; %s%s takes %s", set, estimate->setting, then);
    }
    fputs("\n", stderr);
}

// Where one stage is nearly the whole job, its first seconds say how long it takes.
static void estimate_stage(cli_progress *p, size_t total, double elapsed, double rate)
{
    if (p->timed || !p->main || strcmp(p->main, p->what) != 0 || elapsed < believed_s ||
        p->done - p->first < 2) {
        return;
    }
    bool shorter = p->shorter.option[0] && p->shorter.share < .8;
    pf_estimate estimate = {.what = p->job,
                            .seconds = (double)(total - p->first) / rate,
                            .setting = shorter ? p->shorter.option : NULL,
                            .seconds_then = p->shorter.share * (double)total / rate};
    show_estimate(p, &estimate);
    p->timed = true;
    p->estimated = p->estimated || estimate.seconds > long_s;
}

static void show_progress(void *self, const char *what, size_t done, size_t total)
{
    cli_progress *p = self;
    double now = pf__seconds();
    // work that was done before does not count for the rate
    if (strncmp(p->what, what, sizeof p->what - 1) != 0 || done < p->done) {
        snprintf(p->what, sizeof p->what, "%s", what);
        p->started = now;
        p->first = done;
        p->done = done;
        p->timed = false;
        if (p->form == CLI_FORM_LINE && p->last < now - pause_s[p->form]) {
            p->last = now - pause_s[p->form] + .3; // what takes a moment is not shown
        }
    }
    p->done = done;
    double elapsed = now - p->started, rate = (double)(done - p->first) / elapsed;
    double left = done < total ? (double)(total - done) / rate : 0;
    bool known = done > p->first && elapsed > 0;
    rate = known ? rate : NAN;
    left = known || done == total ? left : NAN;
    if (known) {
        estimate_stage(p, total, elapsed, rate);
    }
    bool ends = done == total && (p->form == CLI_FORM_JSON || elapsed > pause_s[p->form]);
    if (now - p->last >= pause_s[p->form] || (ends && p->form != CLI_FORM_NONE)) {
        p->last = now;
        print_progress(p, total, rate, left);
    }
}

static void show_warning(void *self, const char *text)
{
    cli_progress_end(self);
    fprintf(stderr, "preflight: warning: %s\n", text);
}

pf_effort cli_effort(cli_progress *progress, int threads)
{
    *progress = (cli_progress){.last = pf__seconds()};
    cli_progress_form("", NULL, &progress->form);
    return (pf_effort){.threads = threads,
                       .self = progress,
                       .progress = show_progress,
                       .stop = &cli_interrupted,
                       .warn = show_warning,
                       .estimate = show_estimate};
}

void cli_progress_end(cli_progress *progress)
{
    if (progress->shown) {
        fprintf(stderr, "\r\033[K");
        progress->shown = false;
    }
}

// --- going on after a stop

// Each value with its length, so that no two calls have the same text.
void cli_key_add(pf_text *key, const char *name, const char *value)
{
    pf__text_addf(key, "%s %zu ", name, value ? strlen(value) + 1 : 0);
    pf__text_add(key, value ? value : "");
    pf__text_add(key, "\n");
}

bool cli_key_file(pf_text *key, const char *name, const char *path)
{
    void *data = NULL;
    size_t size = 0;
    char sha[65];
    if (!path || access(path, F_OK) != 0) {
        return true;
    }
    bool known =
        pf__file_regular(path) && pf__file_read(path, (size_t)1 << 32, &data, &size, NULL) == PF_OK;
    if (known) {
        pf__sha256_of(data, size, sha);
        cli_key_add(key, name, sha);
    }
    free(data);
    return known;
}

// A word of a plant's command that is a file counts with what is in it: it may be the simulator.
static void add_words(pf_text *key, const char *command)
{
    for (const char *at = command; *at;) {
        size_t n = strcspn(at, " ");
        char word[4096];
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), at);
        cli_key_file(key, word, word);
        at += n;
        at += strspn(at, " ");
    }
}

bool cli_key_config(pf_text *key, const char *path, const cli_list *set)
{
    for (int i = 0; i < set->n; i++) {
        cli_key_add(key, "set", set->item[i]);
    }
    return cli_key_file(key, "config", path);
}

void cli_key_plant(pf_text *key, const char *name, const pf_plant_info *info)
{
    cli_key_add(key, "plant", name);
    cli_key_add(key, "source", info->source);
    cli_key_add(key, "numbers", pf__numeric_library());
    cli_key_add(key, "program", PF_COMMIT);
    if (strncmp(name, "exec:", 5) == 0) {
        add_words(key, name + 5);
    }
}

pf_status cli_part_open(cli_part *part, const char *command, const char *output, const pf_text *key,
                        pf_effort *effort, pf_error *error)
{
    *part = (cli_part){.command = command};
    int n = snprintf(part->path, sizeof part->path, "%s.part", output);
    if (strcmp(output, "-") == 0 || n >= (int)sizeof part->path ||
        !(pf__file_regular(output) || access(output, F_OK) != 0)) {
        return PF_OK; // no file of this name is beside a pipe or device
    }
    if (key->failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    bool found = false;
    pf_status status = pf_part_open(&part->part, part->path, key->data, key->size, &found, error);
    effort->part = part->part;
    if (found && status == PF_OK) {
        fprintf(stderr, "preflight %s: goes on from %s\n", command, part->path);
        // an estimate would count what is done already
        ((cli_progress *)effort->self)->estimated = true;
    }
    return status;
}

// What is finished is of use after a stop, a process that died or a full disk. A job that was
// refused for what it asks for would be refused again, and a plant in this process fails again.
int cli_part_fail(cli_part *part, pf_status status, const pf_error *error)
{
    bool again = status == PF_ERR_INTERRUPTED || status == PF_ERR_FILE || status == PF_ERR_MEMORY ||
                 (status == PF_ERR_PLANT && part->process);
    bool own = part->part && again;
    pf_part_close(part->part, again || status == PF_ERR_MISMATCH);
    part->part = NULL;
    bool kept = own && pf__file_regular(part->path);
    int exit_status = EXIT_INTERRUPTED;
    if (!kept || status != PF_ERR_INTERRUPTED) {
        exit_status = cli_fail(part->command, status, error);
    }
    if (kept) {
        fprintf(stderr, "preflight %s: %sthe same command goes on from %s\n", part->command,
                status == PF_ERR_INTERRUPTED ? "interrupted; " : "", part->path);
    }
    return exit_status;
}

void cli_part_done(cli_part *part)
{
    pf_part_close(part->part, false);
    part->part = NULL;
}
