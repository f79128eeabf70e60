// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "design/search.h"

#include "calibrate/plan.h"
#include "host/file.h"
#include "host/gnuplot.h"
#include "plant/plant_impl.h"
#include "preflight/design.h"

#include <math.h>
#include <string.h>

// What is seen of a designed library.
typedef struct design_view {
    const pf_design *design;
    const pf_design_config *config;
    const pf_plan *plan;
    const char *predictor; // "twin" or "ensemble:FILE"
    const char *path;      // of the library
} design_view;

static const char *mechanism(const design_view *v, int j)
{
    return v->plan->mechanisms[j].name;
}

// --- for people

static void print_targets(const design_view *v)
{
    const pf_design *d = v->design;
    printf("%-12s %-18s %8s %10s %10s %16s %9s %10s\n", "probe", "mechanism", "linear", "predicted",
           "confirmed", "95 % limits", "weakened", "remaining");
    for (int t = 0; t < d->library.n_targets; t++) {
        const pf_design_target *target = &d->library.targets[t];
        char linear[16] = "", limits[24];
        if (isfinite(target->linear)) {
            snprintf(linear, sizeof linear, "%.1f", target->linear);
        }
        snprintf(limits, sizeof limits, "%.1f .. %.1f", target->lo, target->hi);
        printf("%-12s %-18s %8s %10.1f %s%10.1f%s %16s %9.1f %10.2f\n",
               d->library.probes[target->probe].probe.name, mechanism(v, target->mechanism), linear,
               target->predicted, cli_paint(target->good ? CLI_GREEN : CLI_YELLOW),
               target->confirmed, cli_paint(NULL), limits, target->weakened, target->remaining);
    }
}

static void print_pairs(const design_view *v)
{
    const pf_design *d = v->design;
    for (int q = 0; q < d->n_designed; q++) {
        const pf_design_probe *p = &d->library.probes[q];
        if (p->probe.n_targets > 1) {
            printf("%s: worst pair %s and %s, collinearity %.2f\n", p->probe.name,
                   mechanism(v, p->pair[0]), mechanism(v, p->pair[1]), p->collinearity);
        }
    }
    for (int i = 0; i < d->n_pairs; i++) {
        printf("%s and %s: no probe of the two was found that separates both\n",
               mechanism(v, d->pairs[2 * i]), mechanism(v, d->pairs[2 * i + 1]));
    }
}

static void print_excursions(const design_view *v)
{
    const pf_design *d = v->design;
    printf("\nLargest predicted move of each output away from its free response:\n");
    for (int c = 0; c < v->plan->n_chan; c++) {
        int worst = 0;
        for (int q = 1; q < d->n_designed; q++) {
            bool more = d->library.probes[q].excursion[c] > d->library.probes[worst].excursion[c];
            worst = more ? q : worst;
        }
        double move = d->library.probes[worst].excursion[c];
        printf("  %-20s %10.4g  %8.2f scales  in %s", v->plan->channels[c].name, move,
               move / d->scale[c], d->library.probes[worst].probe.name);
        if (isfinite(v->config->most[c])) {
            printf(", %.4g allowed", v->config->most[c]);
        }
        printf("\n");
    }
}

static void print_families(const design_view *v)
{
    const pf_design *d = v->design;
    pf_text table = {0};
    pf__text_add(&table, "\nfamily\t>probes\t>smallest separation\t>largest move\tconstraints\n");
    for (int i = 0; i < d->n_families; i++) {
        const pf_design_library *l = &d->families[i];
        pf__text_addf(&table, "%s\t%d\t%.1f\t%.1f scales\t%s\n", l->family, l->n_probes,
                      l->smallest, l->worst_move, l->broken[0] ? l->broken : "obeyed");
    }
    cli_show(&table);
    pf__text_free(&table);
}

static void design_view_report(const design_view *v)
{
    const pf_design *d = v->design;
    printf("library %s: plant %s, %s predictor, %s for %s, %s\n", v->path, v->plan->plant,
           v->predictor, pf__counted(d->n_designed, "designed probe").text,
           pf__counted(v->plan->n_mech - 1, "mechanism").text,
           pf__counted(d->library.n_probes - d->n_designed, "single pulse").text);
    printf("separation of gain %g from nominal in standard deviations of the coefficient, target "
           "%g\n\n",
           v->plan->settings.g_cal, v->config->target);
    print_targets(v);
    printf("\n");
    print_pairs(v);
    if (d->n_designed > 0) {
        print_excursions(v);
    }
    print_families(v);
    for (int i = 0; i < d->n_left; i++) {
        printf("\nsingle pulse of %s: left out, it breaks a constraint or shows too little",
               mechanism(v, d->left[i]));
    }
    printf("%s", d->n_left > 0 ? "\n" : "");
    for (int i = 0; i < d->n_weak; i++) {
        printf("\n%s%s: no allowed probe was found that separates it by %g%s", cli_paint(CLI_RED),
               mechanism(v, d->weak[i]), v->config->target, cli_paint(NULL));
    }
    printf("%s", d->n_weak > 0 ? "\n" : "");
}

// --- for programs

static void add_target(const design_view *v, const pf_design_target *t, pf_text *out)
{
    pf__json_comma(out);
    pf__text_addf(out, "{\"mechanism\":%d,\"name\":", t->mechanism);
    pf__json_string(out, mechanism(v, t->mechanism));
    pf__json_add_number(out, "linear", t->linear);
    pf__json_add_number(out, "predicted", t->predicted);
    pf__json_add_number(out, "confirmed", t->confirmed);
    pf__json_add_number(out, "lo", t->lo);
    pf__json_add_number(out, "hi", t->hi);
    pf__json_add_number(out, "weakened", t->weakened);
    pf__json_add_number(out, "remaining", t->remaining);
    pf__text_addf(out, ",\"accepted\":%s,\"good\":%s}", t->accepted ? "true" : "false",
                  t->good ? "true" : "false");
}

static void add_probe(const design_view *v, int q, pf_text *out)
{
    const pf_design *d = v->design;
    const pf_design_probe *p = &d->library.probes[q];
    pf__json_comma(out);
    pf__text_add(out, "{\"name\":");
    pf__json_string(out, p->probe.name);
    pf__text_addf(out, ",\"designed\":%s,\"rows\":%d", q < d->n_designed ? "true" : "false",
                  p->probe.rows);
    pf__json_add_number(out, "charge", p->probe.charge);
    pf__json_key(out, "targets");
    pf__text_add(out, "[");
    for (int t = 0; t < p->probe.n_targets; t++) {
        add_target(v, &d->library.targets[p->first + t], out);
    }
    pf__text_add(out, "]");
    pf__json_key(out, "worst_pair");
    if (p->probe.n_targets > 1) {
        pf__json_ints(out, 2, p->pair);
        pf__json_add_number(out, "collinearity", p->collinearity);
    } else {
        pf__text_add(out, "null");
    }
    pf__json_key(out, "excursion");
    pf__json_numbers(out, v->plan->n_chan, p->excursion);
    pf__json_key(out, "command");
    pf__json_matrix(out, p->probe.rows, v->plan->n_mech, p->probe.command);
    pf__text_add(out, "}");
}

static void add_families(const design_view *v, pf_text *out)
{
    pf__json_key(out, "families");
    pf__text_add(out, "[");
    for (int i = 0; i < v->design->n_families; i++) {
        const pf_design_library *l = &v->design->families[i];
        pf__json_comma(out);
        pf__text_addf(out, "{\"family\":\"%s\",\"probes\":%d", l->family, l->n_probes);
        pf__json_add_number(out, "smallest", l->smallest);
        pf__json_add_number(out, "largest_move", l->worst_move);
        pf__json_key(out, "broken");
        if (l->broken[0]) {
            pf__json_string(out, l->broken);
        } else {
            pf__text_add(out, "null");
        }
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
}

static void design_view_json(const design_view *v, pf_text *out)
{
    const pf_design *d = v->design;
    pf__text_add(out, "{\"library\":");
    pf__json_string(out, v->path);
    pf__json_key(out, "plant");
    pf__json_string(out, v->plan->plant);
    pf__json_key(out, "predictor");
    pf__json_string(out, v->predictor);
    pf__text_addf(out, ",\"seed\":%llu,\"designed\":%d", (unsigned long long)v->plan->settings.seed,
                  d->n_designed);
    pf__json_add_number(out, "target", v->config->target);
    pf__json_add_number(out, "g_cal", v->plan->settings.g_cal);
    pf__json_key(out, "channels");
    pf__text_add(out, "[");
    for (int c = 0; c < v->plan->n_chan; c++) {
        pf__json_comma(out);
        pf__json_string(out, v->plan->channels[c].name);
    }
    pf__text_add(out, "],\"probes\":[");
    for (int q = 0; q < d->library.n_probes; q++) {
        add_probe(v, q, out);
    }
    pf__text_add(out, "]");
    add_families(v, out);
    pf__json_key(out, "not_separated");
    pf__json_ints(out, d->n_weak, d->weak);
    pf__json_key(out, "not_at_once");
    pf__text_add(out, "[");
    for (int i = 0; i < d->n_pairs; i++) {
        pf__json_comma(out);
        pf__json_ints(out, 2, d->pairs + 2 * i);
    }
    pf__text_add(out, "]");
    pf__json_key(out, "singles_left_out");
    pf__json_ints(out, d->n_left, d->left);
    pf__text_add(out, "}\n");
}

// --- the plot

// One block of numbers per probe: step, then one column per target, full level 1, one above the
// other.
static void add_block(const design_view *v, int q, pf_text *script)
{
    const pf_plan_probe *p = &v->design->library.probes[q].probe;
    pf__text_addf(script, "$probe%d << EOD\n", q);
    for (int r = 0; r <= p->rows; r++) {
        pf__text_addf(script, "%d", r);
        for (int t = 0; t < p->n_targets; t++) {
            int j = p->targets[t], row = r < p->rows ? r : p->rows - 1;
            double u = p->command[row * v->plan->n_mech + j];
            pf__text_addf(script, " %.6g", u / fabs(v->config->bounds[j].amplitude) - 2.5 * t);
        }
        pf__text_add(script, "\n");
    }
    pf__text_add(script, "EOD\n");
}

static void add_panel(const design_view *v, int q, pf_text *script)
{
    const pf_plan_probe *p = &v->design->library.probes[q].probe;
    pf__text_add(script, "set title ");
    pf__gnuplot_string(script, p->name);
    pf__text_addf(script, "\nset yrange [%g:1.5]\nset ytics (", -2.5 * (p->n_targets - 1) - 1.5);
    for (int t = 0; t < p->n_targets; t++) {
        pf__text_add(script, t > 0 ? ", tic(" : "tic(");
        pf__gnuplot_string(script, mechanism(v, p->targets[t]));
        pf__text_addf(script, ") %g", -2.5 * t);
    }
    pf__text_add(script, ")\nplot \\\n");
    for (int t = 0; t < p->n_targets; t++) {
        pf__text_addf(script, "  $probe%d using 1:%d with steps lw 2 lc %d notitle%s\n", q, t + 2,
                      t + 1, t + 1 < p->n_targets ? ", \\" : "");
    }
}

static void fill_script(const design_view *v, const char *path, pf_text *script)
{
    int n = v->design->n_designed, lines = 0;
    for (int q = 0; q < n; q++) {
        add_block(v, q, script);
        lines += v->design->library.probes[q].probe.n_targets + 2;
    }
    pf__gnuplot_open(script, path, 820, 60 + 34 * lines);
    pf__text_addf(script,
                  "set xlabel 'step'\nset grid noxtics\nset lmargin 18\n"
                  "set multiplot layout %d,1\n",
                  n);
    for (int q = 0; q < n; q++) {
        add_panel(v, q, script);
    }
    pf__text_add(script, "unset multiplot\n");
}

static pf_status design_view_plot(const design_view *v, const char *path, pf_error *error)
{
    pf_text script = {0};
    fill_script(v, path, &script);
    pf_status status = pf__gnuplot_draw(path, &script, &cli_interrupted, error);
    pf__text_free(&script);
    return status;
}

// --- the command

typedef struct call {
    const char *output, *config, *predictor, *seed, *threads, *plot, *progress;
    cli_list set, plant;
    bool json;
    const char *model; // file of the ensemble. NULL: a twin
    double seed_number, n_threads;
    cli_form form; // of progress
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
    const cli_file outputs[] = {{"-o", c->output}, {"--plot", c->plot}};
    int status = cli_outputs("design", 1, &(cli_file){"the configuration", c->config}, 2, outputs);
    if (status == EXIT_YES) {
        status = cli_spare_plant("design", c->plant.item[0], NULL, 2, outputs);
    }
    if (status != EXIT_YES) {
        return status;
    }
    if (!cli_seed("design", c->seed, &c->seed_number)) {
        return EXIT_USAGE;
    }
    if (!cli_threads("design", c->threads, &c->n_threads) ||
        !cli_progress_form("design", c->progress, &c->form)) {
        return EXIT_USAGE;
    }
    return cli_predictor("design", c->predictor, c->output, &c->model);
}

// Writes the library, then tells about it. Nothing is written where a step before failed.
static pf_status publish(const call *c, const design_view *view, pf_error *error)
{
    pf_text text = {0};
    pf__library_write(view->design, view->config, view->plan, view->predictor, &text);
    pf_status status = text.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the library")
                                   : pf__file_write(c->output, text.data, text.size, error);
    pf__text_free(&text);
    if (status == PF_OK && c->plot) {
        status = design_view_plot(view, c->plot, error);
    }
    if (status != PF_OK || strcmp(c->output, "-") == 0) {
        return status;
    }
    if (c->json) {
        design_view_json(view, &text);
        cli_print(&text);
        pf__text_free(&text);
    } else {
        design_view_report(view);
    }
    return status;
}

// Opens LIBRARY.part under all that decides the library. Nullable: model.
static pf_status open_part(const call *c, const pf_plant_info *plant, const pf_model *model,
                           cli_part *part, pf_effort *effort, pf_error *error)
{
    pf_text key = {0};
    cli_key_add(&key, "job", "design");
    cli_key_plant(&key, c->plant.item[0], plant);
    cli_key_add(&key, "model", model ? pf_model_get_info(model)->sha256 : NULL);
    cli_key_add(&key, "seed", c->seed);
    bool known = cli_key_config(&key, c->config, &c->set);
    pf_status status =
        known ? cli_part_open(part, "design", c->output, &key, effort, error) : PF_OK;
    pf__text_free(&key);
    return status;
}

static pf_status design(const call *c, const cli_config *t, pf_plant *plant, const pf_model *model,
                        cli_part *part, pf_effort *effort, bool *all, pf_error *error)
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
        status = pf__design_config_read(&config, plan, error);
    }
    status = status ? status : open_part(c, pf_plant_get_info(plant), model, part, effort, error);
    part->process = pf__plant_is_process(c->plant.item[0]);
    if (status == PF_OK) {
        status = pf__design_create(&made, &config, plan, plant, model, effort, error);
    }
    cli_progress_end(effort->self);
    if (status == PF_OK) {
        design_view view = {&made, &config, plan, c->predictor ? c->predictor : "twin", c->output};
        *all = made.n_weak == 0;
        status = publish(c, &view, error);
    }
    pf__design_free(&made);
    pf__limits_free(&config);
    pf_plan_destroy(plan);
    return status;
}

static int run(const call *c)
{
    cli_config t;
    cli_progress progress;
    cli_part part = {.command = "design"};
    pf_effort effort = cli_effort(&progress, (int)c->n_threads);
    progress.form = c->form;
    pf_plant *plant = NULL;
    pf_model *model = NULL;
    pf_error error = {PF_OK, ""};
    bool all = false;
    int opened = cli_config_open("design", c->config, &c->set, &t);
    if (opened != EXIT_YES) {
        return opened;
    }
    pf_status status = cli_plant_create(&plant, c->plant.item[0], &error);
    if (status == PF_OK && c->model) {
        status = pf_model_load(&model, c->model, &error);
    }
    if (status == PF_OK) {
        status = design(c, &t, plant, model, &part, &effort, &all, &error);
    }
    pf_model_destroy(model);
    pf_plant_destroy(plant);
    cli_config_close(&t);
    if (status != PF_OK) {
        return cli_part_fail(&part, status, &error);
    }
    cli_part_done(&part);
    return all ? EXIT_YES : EXIT_NO;
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
        {"--progress", .value = &c.progress},
    };
    if (!cli_parse("design", argc, argv, options, sizeof options / sizeof options[0], &c.plant)) {
        return EXIT_USAGE;
    }
    int status = check_call(&c);
    return status == EXIT_YES ? run(&c) : status;
}
