// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_view.h"

#include "design/library.h"
#include "host/file.h"

#include <math.h>
#include <string.h>

typedef struct call {
    const char *output, *config, *predictor, *seed, *threads, *plot;
    cli_list set, plant;
    bool json;
    const char *model; // file of the ensemble. NULL: a twin
    double seed_number, n_threads;
} call;

static int check_call(call *c)
{
    if (!c->output) {
        return cli_usage("design", "-o LIBRARY is missing");
    }
    if (c->plant.n != 1) {
        return cli_usage("design", "name one plant");
    }
    if (c->plot && !cli_picture("design", c->plot)) {
        return EXIT_USAGE;
    }
    if ((c->config && pf_file_same(c->output, c->config)) ||
        (c->plot && pf_file_same(c->output, c->plot))) {
        return cli_usage("design", "-o %s would overwrite another file of this call", c->output);
    }
    if (c->seed &&
        !cli_integer("design", "--seed", c->seed, 0, 9007199254740991.0, &c->seed_number)) {
        return EXIT_USAGE;
    }
    if (c->threads && !cli_integer("design", "--threads", c->threads, 1, 256, &c->n_threads)) {
        return EXIT_USAGE;
    }
    return cli_predictor("design", c->predictor, c->output, &c->model);
}

// Writes the library, then tells about it. Nothing is written where a step before failed.
static pf_status publish(const call *c, const design_view *view, pf_error *error)
{
    pf_text text = {0};
    pf_library_write(view->design, view->config, view->plan, view->predictor, &text);
    pf_status status = text.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the library")
                                   : pf_file_write(c->output, text.data, text.size, error);
    pf_text_free(&text);
    if (status == PF_OK && c->plot) {
        status = design_view_plot(view, c->plot, error);
    }
    if (status != PF_OK || strcmp(c->output, "-") == 0) {
        return status;
    }
    if (c->json) {
        design_view_json(view, &text);
        fputs(text.data ? text.data : "", stdout);
        pf_text_free(&text);
    } else {
        design_view_report(view);
    }
    return status;
}

static pf_status design(const call *c, const cli_config *t, pf_plant *plant, const pf_model *model,
                        const pf_effort *effort, bool *all, pf_error *error)
{
    pf_plan *plan = NULL;
    pf_design_config config = {0};
    pf_design made = {0};
    pf_status status = pf_plan_create(&plan, pf_plant_get_info(plant), t->file, t->data, t->n,
                                      t->overrides, t->n_overrides, error);
    if (status == PF_OK && !isnan(c->seed_number)) {
        char seed[40];
        snprintf(seed, sizeof seed, "seed=%.0f", c->seed_number);
        status = pf_plan_set(plan, seed, error);
    }
    if (status == PF_OK) {
        status = pf_design_config_read(&config, plan, error);
    }
    if (status == PF_OK) {
        status = pf_design_create(&made, &config, plan, plant, model, effort, error);
    }
    cli_progress_end(effort->self);
    if (status == PF_OK) {
        design_view view = {&made, &config, plan, c->predictor ? c->predictor : "twin", c->output};
        *all = made.n_weak == 0;
        status = publish(c, &view, error);
    }
    pf_design_free(&made);
    pf_design_config_free(&config);
    pf_plan_destroy(plan);
    return status;
}

static int run(const call *c)
{
    cli_config t;
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, (int)c->n_threads);
    pf_plant *plant = NULL;
    pf_model *model = NULL;
    pf_error error = {PF_OK, ""};
    bool all = false;
    int opened = cli_config_open("design", c->config, &c->set, &t);
    if (opened != EXIT_YES) {
        return opened;
    }
    pf_status status = pf_plant_create(&plant, c->plant.item[0], &error);
    if (status == PF_OK && c->model) {
        status = pf_model_load(&model, c->model, &error);
    }
    if (status == PF_OK) {
        status = design(c, &t, plant, model, &effort, &all, &error);
    }
    pf_model_destroy(model);
    pf_plant_destroy(plant);
    cli_config_close(&t);
    return status != PF_OK ? cli_fail("design", status, &error) : all ? EXIT_YES : EXIT_NO;
}

int cmd_design(int argc, char **argv)
{
    call c = {.seed_number = NAN};
    const cli_option options[] = {
        {"-o", .value = &c.output},
        {"--output", .value = &c.output},
        {"--config", .value = &c.config},
        {"--set", .list = &c.set},
        {"--predictor", .value = &c.predictor},
        {"--seed", .value = &c.seed},
        {"--threads", .value = &c.threads},
        {"--plot", .value = &c.plot},
        {"--json", .flag = &c.json},
    };
    if (!cli_parse("design", argc, argv, options, sizeof options / sizeof options[0], &c.plant)) {
        return EXIT_USAGE;
    }
    int status = check_call(&c);
    pf_error error = {PF_OK, ""};
    pf_status writable = PF_OK;
    if (status == EXIT_YES) {
        writable = pf_file_writable(c.output, &error);
        if (writable == PF_OK && c.plot) {
            writable = pf_file_writable(c.plot, &error);
        }
    }
    if (writable != PF_OK) {
        return cli_fail("design", writable, &error);
    }
    return status == EXIT_YES ? run(&c) : status;
}
