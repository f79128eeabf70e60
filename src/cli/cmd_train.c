// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "train_view.h"

#include "host/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The gain at which the report weakens a mechanism.
static const double g_cal = .35;
static const double checkpoint_s = 5;

typedef struct call {
    cli_list plant, set;
    const char *output, *profile, *config, *data, *seed, *threads, *log, *plot;
    bool json;
    pf_text data_path;
} call;

// No two of the files may be one.
static int check_paths(const call *c)
{
    const struct {
        const char *option, *path;
    } files[] = {{"-o", c->output},
                 {"--data", c->data_path.data},
                 {"--config", c->config},
                 {"--log", c->log},
                 {"--plot", c->plot}};
    enum { N = sizeof files / sizeof files[0] };
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < i; k++) {
            const char *a = files[i].path, *b = files[k].path;
            if (a && b && (strcmp(a, b) == 0 || pf_file_same(a, b))) {
                return cli_usage("train", "%s and %s name the same file, %s", files[k].option,
                                 files[i].option, a);
            }
        }
    }
    return EXIT_YES;
}

static int check_call(const call *c)
{
    if (c->plant.n != 1) {
        return cli_usage("train", "name one plant; see `preflight list plants`");
    }
    if (!c->output || strcmp(c->output, "-") == 0) {
        return cli_usage("train", "-o MODEL is missing, or no file");
    }
    if (c->plot && !cli_picture("train", c->plot)) {
        return EXIT_USAGE;
    }
    return check_paths(c);
}

static pf_status read_settings(const call *c, pf_train_settings *s, pf_error *error)
{
    void *text = NULL;
    size_t n = 0;
    pf_status status = pf_train_profile(s, c->profile ? c->profile : "standard", error);
    if (status == PF_OK && c->config) {
        status = pf_file_read(c->config, (size_t)16 << 20, &text, &n, error);
    }
    if (status == PF_OK) {
        status = pf_train_configure(s, c->config, text, n, c->set.item, c->set.n, error);
    }
    free(text);
    return status;
}

pf_status train_report(const char *path, pf_plant *plant, uint64_t seed, bool json,
                       const pf_effort *effort, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_model *model = NULL;
    pf_assessment *rows = calloc((size_t)info->n_mech, sizeof *rows);
    pf_status status = rows ? pf_model_load(&model, path, error)
                            : pf_fail(error, PF_ERR_MEMORY, "out of memory for the report");
    if (status == PF_OK) {
        status = pf_assess(model, plant, g_cal, seed, effort, rows, error);
    }
    if (status == PF_OK && json) {
        pf_text out = {0};
        train_view_report_json(&out, info, pf_model_get_info(model), rows, g_cal);
        fputs(out.data ? out.data : "", stdout);
        pf_text_free(&out);
    } else if (status == PF_OK) {
        const pf_model_info *about = pf_model_get_info(model);
        printf("model %s: plant %s, %d members, sha256 %s\n", path, about->plant, about->n_members,
               about->sha256);
        train_view_report(info, pf_model_get_info(model), rows, g_cal);
    }
    pf_model_destroy(model);
    free(rows);
    return status;
}

static pf_status learn(const call *c, const pf_train_settings *s, pf_plant *plant,
                       const pf_effort *effort, cli_progress *progress, pf_error *error)
{
    pf_transitions *data = NULL;
    train_view view;
    // data that were named are used as they are, if they are of this plant
    pf_status status =
        pf_transitions_ready(&data, s, !c->data, plant, c->data_path.data, effort, error);
    cli_progress_end(progress);
    train_view_init(&view, s, c->log);
    if (status == PF_OK) {
        pf_train_watch watch = {&view, train_view_epoch};
        status = pf_train(s, data, c->output, checkpoint_s, effort, &watch, error);
        if (status == PF_ERR_INTERRUPTED) {
            fprintf(stderr,
                    "%spreflight train: the same command goes on from the last checkpoint\n",
                    view.shown && view.terminal ? "\r\033[K" : "");
        }
    }
    train_view_end(&view);
    pf_transitions_close(data);
    if (status == PF_OK && c->log) {
        status = view.log.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the log")
                                 : pf_file_write(c->log, view.log.data, view.log.size, error);
    }
    if (status == PF_OK) {
        status = train_report(c->output, plant, s->seed, c->json, effort, error);
    }
    if (status == PF_OK && c->plot) {
        status = train_view_plot(&view, pf_plant_get_info(plant)->name, c->plot, error);
    }
    train_view_free(&view);
    return status;
}

// Everything that can be refused is refused before the first transition is made.
static pf_status prepare(const call *c, pf_train_settings *s, pf_plant **plant, pf_error *error)
{
    pf_status status = read_settings(c, s, error);
    if (status == PF_OK) {
        status = pf_plant_create(plant, c->plant.item[0], error);
    }
    if (status == PF_OK) {
        status = pf_train_check(s, pf_plant_get_info(*plant), error);
    }
    const char *const paths[] = {c->output, c->log, c->plot};
    for (int i = 0; i < 3 && status == PF_OK; i++) {
        status = paths[i] ? pf_file_writable(paths[i], error) : PF_OK;
        if (status == PF_OK && paths[i] && access(paths[i], F_OK) == 0 &&
            !pf_file_regular(paths[i])) {
            status = pf_fail(error, PF_ERR_FILE, "%s: is no plain file", paths[i]);
        }
    }
    pf_model *old = NULL;
    pf_error why = {PF_OK, ""};
    if (status == PF_OK && access(c->output, F_OK) == 0 &&
        pf_model_load(&old, c->output, &why) != PF_OK) {
        status = pf_fail(error, PF_ERR_FILE,
                         "%s: is there and is no model; remove it or name another file", c->output);
    }
    pf_model_destroy(old);
    if (status == PF_OK && access(c->data_path.data, F_OK) != 0) {
        status = pf_file_writable(c->data_path.data, error);
    }
    return status;
}

static int run(call *c, double seed, int threads)
{
    pf_error error = {PF_OK, ""};
    pf_train_settings s;
    pf_plant *plant = NULL;
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, threads);
    pf_status status = prepare(c, &s, &plant, &error);
    if (status == PF_OK) {
        s.seed = isnan(seed) ? s.seed : (uint64_t)seed;
        status = learn(c, &s, plant, &effort, &progress, &error);
    }
    cli_progress_end(&progress);
    pf_plant_destroy(plant);
    if (status == PF_ERR_INTERRUPTED) {
        fprintf(stderr, "preflight train: stopped\n");
        return EXIT_INTERRUPTED;
    }
    return status == PF_OK ? EXIT_YES : cli_fail("train", status, &error);
}

int cmd_train(int argc, char **argv)
{
    call c = {.profile = NULL};
    const cli_option options[] = {
        {"-o", .value = &c.output},         {"--output", .value = &c.output},
        {"--profile", .value = &c.profile}, {"--config", .value = &c.config},
        {"--set", .list = &c.set},          {"--data", .value = &c.data},
        {"--seed", .value = &c.seed},       {"--threads", .value = &c.threads},
        {"--log", .value = &c.log},         {"--plot", .value = &c.plot},
        {"--json", .flag = &c.json},
    };
    if (!cli_parse("train", argc, argv, options, sizeof options / sizeof options[0], &c.plant)) {
        return EXIT_USAGE;
    }
    double seed = NAN, threads = 0;
    if ((c.seed && !cli_integer("train", "--seed", c.seed, 0, 9007199254740991.0, &seed)) ||
        (c.threads && !cli_integer("train", "--threads", c.threads, 1, 256, &threads))) {
        return EXIT_USAGE;
    }
    if (c.data) {
        pf_text_add(&c.data_path, c.data);
    } else if (c.output) {
        pf_text_addf(&c.data_path, "%s.data", c.output);
    }
    int status = c.data_path.failed ? EXIT_INTERNAL : check_call(&c);
    if (status == EXIT_YES) {
        status = run(&c, seed, (int)threads);
    }
    pf_text_free(&c.data_path);
    return status;
}
