// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "plant/plant_impl.h"

#include "model/transitions.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// What the numbers of a channel or mechanism look like over the whole file.
typedef struct column {
    size_t n;
    double min, max, mean, squares; // squares: of the deviations from the mean (Welford)
    size_t active;                  // commands away from rest
} column;

typedef struct summary {
    column *channels, *changes, *commands;
    double bytes;
} summary;

static void add(column *c, double x)
{
    c->n++;
    c->min = c->n == 1 || x < c->min ? x : c->min;
    c->max = c->n == 1 || x > c->max ? x : c->max;
    double delta = x - c->mean;
    c->mean += delta / (double)c->n;
    c->squares += delta * (x - c->mean);
}

static double sd(const column *c)
{
    return c->n > 1 ? sqrt(c->squares / (double)(c->n - 1)) : 0;
}

static double share(const column *c)
{
    return (double)c->active / (double)c->n;
}

static void add_episode(const pf_transitions *data, int episode, summary *s)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    const double *x;
    const float *u;
    int steps = pf__transitions_episode(data, episode, &x, &u);
    for (int r = 0; r <= steps; r++, x += info->n_chan) {
        for (int c = 0; c < info->n_chan; c++) {
            add(&s->channels[c], x[c]);
            if (r > 0) {
                add(&s->changes[c], x[c] - x[c - info->n_chan]);
            }
        }
    }
    for (int r = 0; r < steps; r++, u += info->n_mech) {
        for (int j = 0; j < info->n_mech; j++) {
            add(&s->commands[j], (double)u[j]);
            s->commands[j].active += u[j] != pf__transitions_command(&info->mechanisms[j], 0);
        }
    }
}

static bool summarise(const pf_transitions *data, const char *path, summary *s)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    struct stat file;
    s->bytes = stat(path, &file) == 0 ? (double)file.st_size : NAN;
    s->channels = calloc((size_t)info->n_chan, sizeof *s->channels);
    s->changes = calloc((size_t)info->n_chan, sizeof *s->changes);
    s->commands = calloc((size_t)info->n_mech, sizeof *s->commands);
    if (!s->channels || !s->changes || !s->commands) {
        return false;
    }
    for (int e = 0; e < info->n_episodes; e++) {
        add_episode(data, e, s);
    }
    return true;
}

static void show(const pf_transitions_info *info, const summary *s)
{
    cli_printf("plant          %s (%s)\n", info->plant, info->source);
    cli_printf("sha256         %s\n", info->sha256);
    cli_printf("size           %.0f bytes\n", s->bytes);
    cli_printf("episodes       %d of %d steps, %d transitions in all, control step %g s\n",
               info->n_episodes, info->steps, info->transitions, info->dt_s);
    cli_printf(
        "commands       correlation %g, amplitude %g, one mechanism alone in a share of %g\n",
        info->correlation, info->amplitude, info->single);
    cli_printf("disturbance    %s\n", info->disturbance ? "on" : "off");
    cli_printf("seed           %" PRIu64 "\n", info->seed);
    pf_text tables = {0};
    pf__text_add(&tables, "\nchannel\tkind\t>min\t>max\t>mean\t>sd\t>sd of change\n");
    for (int c = 0; c < info->n_chan; c++) {
        const column *x = &s->channels[c];
        pf__text_addf(&tables, "%s\t%s\t%.5g\t%.5g\t%.5g\t%.5g\t%.5g\n", info->channels[c],
                      pf__channel_kind_name(info->kinds[c]), x->min, x->max, x->mean, sd(x),
                      sd(&s->changes[c]));
    }
    pf__text_add(&tables, "\nmechanism\t>lo\t>hi\t>sd\t>active\n");
    for (int j = 0; j < info->n_mech; j++) {
        const pf_mechanism *m = &info->mechanisms[j];
        pf__text_addf(&tables, "%s\t%.5g\t%.5g\t%.5g\t%.3f\n", m->name, m->lo, m->hi,
                      sd(&s->commands[j]), share(&s->commands[j]));
    }
    cli_show(&tables);
    pf__text_free(&tables);
}

static void json_tables(pf_text *out, const pf_transitions_info *info, const summary *s)
{
    pf__json_key(out, "channels");
    pf__text_add(out, "[");
    for (int c = 0; c < info->n_chan; c++) {
        const column *x = &s->channels[c];
        pf__json_comma(out);
        pf__text_add(out, "{");
        pf__json_add_string(out, "name", info->channels[c]);
        pf__json_add_string(out, "kind", pf__channel_kind_name(info->kinds[c]));
        pf__json_add_number(out, "min", x->min);
        pf__json_add_number(out, "max", x->max);
        pf__json_add_number(out, "mean", x->mean);
        pf__json_add_number(out, "sd", sd(x));
        pf__json_add_number(out, "change_sd", sd(&s->changes[c]));
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
    pf__json_key(out, "mechanisms");
    pf__text_add(out, "[");
    for (int j = 0; j < info->n_mech; j++) {
        pf__json_comma(out);
        pf__text_add(out, "{");
        pf__json_add_string(out, "name", info->mechanisms[j].name);
        pf__json_add_number(out, "lo", info->mechanisms[j].lo);
        pf__json_add_number(out, "hi", info->mechanisms[j].hi);
        pf__json_add_number(out, "sd", sd(&s->commands[j]));
        pf__json_add_number(out, "active", share(&s->commands[j]));
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
}

static int show_json(const pf_transitions_info *info, const summary *s)
{
    pf_text out = {0};
    pf__text_addf(&out, "{\"format\":\"preflight-data\",\"version\":%d", PF_TRANSITIONS_VERSION);
    pf__json_add_string(&out, "sha256", info->sha256);
    pf__json_add_number(&out, "bytes", s->bytes);
    pf__json_add_string(&out, "plant", info->plant);
    pf__json_add_string(&out, "source", info->source);
    pf__json_add_number(&out, "dt", info->dt_s);
    pf__json_add_number(&out, "episodes", info->n_episodes);
    pf__json_add_number(&out, "steps", info->steps);
    pf__json_add_number(&out, "transitions", info->transitions);
    pf__json_add_number(&out, "correlation", info->correlation);
    pf__json_add_number(&out, "amplitude", info->amplitude);
    pf__json_add_number(&out, "single", info->single);
    pf__json_key(&out, "disturbance");
    pf__text_add(&out, info->disturbance ? "true" : "false");
    pf__json_key(&out, "seed"); // a double would not hold every seed
    pf__text_addf(&out, "%" PRIu64, info->seed);
    json_tables(&out, info, s);
    pf__text_add(&out, "}\n");
    int status = cli_write("data", "-", &out);
    pf__text_free(&out);
    return status;
}

int cmd_data(int argc, char **argv)
{
    bool json = false;
    cli_list words = {.n = 0};
    const cli_option options[] = {{"--json", .flag = &json}};
    if (!cli_parse("data", argc, argv, options, 1, &words)) {
        return EXIT_USAGE;
    }
    if (words.n != 2 || strcmp(words.item[0], "show") != 0) {
        return cli_usage("data", "say `data show FILE`");
    }
    if (cli_other_kind("data", words.item[1], CLI_DATA)) {
        return EXIT_BAD_INPUT;
    }
    pf_error error = {PF_OK, ""};
    pf_transitions *data = NULL;
    pf_status opened = pf_transitions_open(&data, words.item[1], &error);
    if (opened != PF_OK) {
        return cli_fail("data", opened, &error);
    }
    const pf_transitions_info *info = pf_transitions_get_info(data);
    summary s = {0};
    int status = EXIT_YES;
    if (!summarise(data, words.item[1], &s)) {
        pf_fail(&error, PF_ERR_MEMORY, "out of memory");
        status = cli_fail("data", PF_ERR_MEMORY, &error);
    } else if (json) {
        status = show_json(info, &s);
    } else {
        show(info, &s);
    }
    free(s.channels);
    free(s.changes);
    free(s.commands);
    pf_transitions_close(data);
    return status;
}
