// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include "preflight/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The gain at which the report weakens a mechanism.
static const double g_cal = .35;

// --- the report

static void print_errors(const char *what, const double *errors)
{
    cli_printf("  %-28s", what);
    for (int h = 0; h < PF_ASSESS_HORIZONS; h++) {
        cli_printf(" %9.3g", errors[h]);
    }
    cli_printf("\n");
}

// Return that a go needs, as kits have it unless they are told otherwise.
static const double j_min = .85;

// Whether the model's error blurs the gain more than the sensors do.
static bool model_blurs(const pf_assessment *r)
{
    double model = hypot((1 - g_cal) / r->separation[PF_ASSESS_RESIDUAL], r->gain_bias);
    return !(model < .7 * r->gain_sd);
}

// What the bounds of a task mean.
static const char *can_certify(const pf_assessment *r)
{
    if (isnan(r->bound_exact)) {
        return "no task of its own";
    }
    if (!(r->bound_exact >= j_min)) {
        return "no: the task does not follow its command well enough";
    }
    if (!(r->bound_healthy >= j_min)) {
        return model_blurs(r) ? "no: the model blurs the gain" : "no: sensor noise blurs the gain";
    }
    if (!(r->bound_lost >= j_min)) {
        return model_blurs(r) ? "if healthy; the model blurs the gain for more"
                              : "if healthy; sensor noise blurs the gain for more";
    }
    return "yes";
}

static void print_tasks(const pf_plant_info *info, const pf_assessment *rows)
{
    int n = info->n_mech - 1, healthy = 0, lost = 0, blurred = 0, noisy = 0;
    cli_printf(
        "\nCan tasks be certified? What one probe tells of the gain, and the bound of the return "
        "of each\nmechanism's default task (a go needs %g): gain known exactly, a healthy machine "
        "after two probes,\nand a loss to %g corrected after four:\n\n%-20s %8s %8s %8s %8s\n",
        j_min, g_cal, "mechanism", "gain +-", "exact", "healthy", "lost");
    for (int q = 0; q < n; q++) {
        const pf_assessment *r = &rows[q];
        cli_printf("%-20s %8.3f %8.3f %8.3f %8.3f  %s\n", info->mechanisms[r->mechanism].name,
                   r->gain_sd, r->bound_exact, r->bound_healthy, r->bound_lost, can_certify(r));
        healthy += r->bound_healthy >= j_min;
        lost += r->bound_lost >= j_min;
        bool short_of = r->bound_exact >= j_min && r->bound_lost < j_min;
        blurred += short_of && model_blurs(r);
        noisy += short_of && !model_blurs(r);
    }
    cli_printf("\n%s: %d of %d tasks can be go on a healthy machine, %d after a loss to %g.\n",
               lost == n      ? "Good enough"
               : healthy == 0 ? "Not good enough"
                              : "Good enough in part",
               healthy, n, lost, g_cal);
    if (blurred > 0) {
        cli_printf(
            "A better model helps %d: train longer (--profile), with more data, or the other "
            "--kind.\n",
            blurred);
    }
    if (blurred + noisy > 0) {
        cli_printf("Stronger probes help %d, and so do those that `calibrate` designs.\n",
                   blurred + noisy);
    }
}

static void print_report(const pf_plant_info *info, const pf_model_info *model,
                         const pf_assessment *rows)
{
    cli_printf("\nOpen-loop error of a probe response over the size of the signature (gain %g), by "
               "step:\n\n  %-28s",
               g_cal, "");
    for (int h = 0; h < PF_ASSESS_HORIZONS; h++) {
        cli_printf(" %9d", pf_assess_horizons()[h]);
    }
    cli_printf("\n");
    for (int q = 0; q < info->n_mech - 1; q++) {
        const pf_assessment *r = &rows[q];
        cli_printf("%s\n", info->mechanisms[r->mechanism].name);
        print_errors("model, pulse scale", r->error[PF_ASSESS_PULSE]);
        print_errors("model, residual scale", r->error[PF_ASSESS_RESIDUAL]);
        print_errors("its linear part alone", r->linear);
        print_errors("nothing changes", r->copy);
    }
    cli_printf(
        "\nSeparation of gain %g from nominal by model error alone, and what the members know "
        "of it\n(noise and disturbance come on top; a kit needs 3):\n\n%-20s %14s %14s %18s\n",
        g_cal, "mechanism", "pulse scale", "residual scale", "spread over error");
    for (int q = 0; q < info->n_mech - 1; q++) {
        const pf_assessment *r = &rows[q];
        cli_printf("%-20s %11.1f sd %11.1f sd ", info->mechanisms[r->mechanism].name,
                   r->separation[PF_ASSESS_PULSE], r->separation[PF_ASSESS_RESIDUAL]);
        if (isnan(r->spread)) {
            cli_printf("%18s", "one member");
        } else {
            cli_printf("%18.2f%s", r->spread, r->spread < 1 ? "  overconfident" : "");
        }
        cli_printf("%s\n",
                   fabs(r->separation[PF_ASSESS_RESIDUAL]) < 3 ? "  TOO LITTLE FOR A KIT" : "");
    }
    print_tasks(info, rows);
    if (!isnan(model->window_error)) {
        cli_printf("\nLeaves %.3g of what moves in held-out windows.%s\n", model->window_error,
                   model->window_error > .5
                       ? " THAT IS MOST OF IT: do not make a kit with this model."
                       : "");
    } else if (!isnan(model->valid_error)) {
        cli_printf("\nHeld-out error of the standardised change: %.4g.\n", model->valid_error);
    }
}

static void report_json(pf_text *out, const pf_plant_info *info, const pf_model_info *model,
                        const pf_assessment *rows)
{
    pf__text_add(out, "{\"plant\":");
    pf__json_string(out, info->name);
    pf__text_addf(out, ",\"sha256\":\"%s\",\"members\":%d,\"valid_error\":", model->sha256,
                  model->n_members);
    pf__json_number(out, model->valid_error);
    pf__json_key(out, "processor");
    pf__json_string(out, model->processor);
    pf__json_add_number(out, "g_cal", g_cal);
    pf__json_key(out, "horizons");
    pf__json_ints(out, PF_ASSESS_HORIZONS, pf_assess_horizons());
    pf__json_key(out, "mechanisms");
    pf__text_add(out, "[");
    for (int q = 0; q < info->n_mech - 1; q++) {
        const pf_assessment *r = &rows[q];
        pf__json_comma(out);
        pf__text_add(out, "{\"name\":");
        pf__json_string(out, info->mechanisms[r->mechanism].name);
        pf__json_key(out, "error_pulse");
        pf__json_numbers(out, PF_ASSESS_HORIZONS, r->error[PF_ASSESS_PULSE]);
        pf__json_key(out, "error_residual");
        pf__json_numbers(out, PF_ASSESS_HORIZONS, r->error[PF_ASSESS_RESIDUAL]);
        pf__json_key(out, "error_linear");
        pf__json_numbers(out, PF_ASSESS_HORIZONS, r->linear);
        pf__json_key(out, "error_copy");
        pf__json_numbers(out, PF_ASSESS_HORIZONS, r->copy);
        pf__json_add_number(out, "separation_pulse", r->separation[PF_ASSESS_PULSE]);
        pf__json_add_number(out, "separation_residual", r->separation[PF_ASSESS_RESIDUAL]);
        pf__json_add_number(out, "spread", r->spread);
        pf__json_add_number(out, "gain_sd", r->gain_sd);
        pf__json_add_number(out, "bound_exact", r->bound_exact);
        pf__json_add_number(out, "bound_healthy", r->bound_healthy);
        pf__json_add_number(out, "bound_lost", r->bound_lost);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]}\n");
}

static const char *activation_of(const pf_model_info *m)
{
    return m->activation == PF_ACTIVATION_SILU ? "silu" : "relu";
}

// "trajectory of 12 steps from 5 readings, linear"
void cli_model_kind(const pf_model_info *m)
{
    if (m->window > 1) {
        cli_printf("trajectory of %s from %s, ", pf__counted(m->window, "step").text,
                   pf__counted(m->history, "reading").text);
    } else {
        cli_printf("recursive, ");
    }
    if (m->n_layers > 0) {
        cli_printf("%s of %s of %d, %s", pf__counted(m->n_members, "member").text,
                   pf__counted(m->n_layers, "layer").text, m->width, activation_of(m));
    } else {
        cli_printf("linear");
    }
}

pf_status cli_model_report(const char *path, const pf_model *model, pf_plant *plant, uint64_t seed,
                           bool json, const pf_effort *effort, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_assessment *rows = calloc((size_t)info->n_mech, sizeof *rows);
    pf_status status = rows ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "out of memory for the report");
    if (status == PF_OK) {
        status = pf_assess(model, plant, g_cal, seed, effort, rows, error);
    }
    if (status == PF_OK && json) {
        pf_text out = {0};
        report_json(&out, info, pf_model_get_info(model), rows);
        cli_print(&out);
        pf__text_free(&out);
    } else if (status == PF_OK) {
        const pf_model_info *about = pf_model_get_info(model);
        cli_printf("model %s: plant %s, ", path, about->plant);
        cli_model_kind(about);
        cli_printf(", sha256 %s\n", about->sha256);
        print_report(info, pf_model_get_info(model), rows);
    }
    free(rows);
    return status;
}

// --- the command

static void show(const char *path, const pf_model_info *m)
{
    cli_printf("model %s\nsha256 %s\nplant %s, %s\n", path, m->sha256, m->plant, m->source);
    cli_model_kind(m);
    cli_printf("; %s, %s\n", pf__counted(m->n_chan, "channel").text,
               pf__counted(m->n_mech, "mechanism").text);
    if (!isnan(m->window_error)) {
        cli_printf("leaves %.3g of what moves in held-out windows\n", m->window_error);
    }
    if (!isnan(m->valid_error)) {
        cli_printf("held-out error of the standardised change %.4g\n", m->valid_error);
    }
    cli_printf("data %s\ntrained with %s\n", m->data[0] ? m->data : "unknown",
               m->processor[0] ? m->processor : "something else than preflight");
}

static void show_json(pf_text *out, const pf_model_info *m)
{
    pf__text_add(out, "{\"format\":\"preflight-model\",\"version\":1");
    const struct {
        const char *key, *value;
    } texts[] = {{"sha256", m->sha256}, {"plant", m->plant},
                 {"source", m->source}, {"activation", activation_of(m)},
                 {"data", m->data},     {"processor", m->processor}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pf__json_key(out, texts[i].key);
        pf__json_string(out, texts[i].value);
    }
    pf__text_addf(out, ",\"members\":%d,\"layers\":%d,\"width\":%d", m->n_members, m->n_layers,
                  m->width);
    pf__text_addf(out, ",\"kind\":\"%s\",\"window\":%d,\"history\":%d",
                  m->window > 1 ? "trajectory" : "recursive", m->window, m->history);
    pf__json_add_number(out, "window_error", m->window_error);
    pf__json_add_number(out, "valid_error", m->valid_error);
    pf__json_key(out, "channels");
    pf__text_add(out, "[");
    for (int c = 0; c < m->n_chan; c++) {
        pf__json_comma(out);
        pf__json_string(out, m->channels[c]);
    }
    pf__text_add(out, "]");
    pf__json_key(out, "mechanisms");
    pf__text_add(out, "[");
    for (int j = 0; j < m->n_mech; j++) {
        pf__json_comma(out);
        pf__json_string(out, m->mechanisms[j].name);
    }
    pf__text_add(out, "]}\n");
}

// The report that `train` ends with, of a model that is there.
static int assess(const char *path, const pf_model *model, const char *name, bool json,
                  const cli_trust *trust)
{
    const pf_model_info *m = pf_model_get_info(model);
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 0);
    bool recorded = !name && strcmp(m->plant, "recordings") == 0;
    pf_status status =
        recorded
            ? pf_fail(&error, PF_ERR_ARGUMENT,
                      "%s was learned from recordings of a machine without a name; `train` has "
                      "reported on it. Train it with PLANT beside --recordings to assess it "
                      "there",
                      path)
        : name ? PF_OK
               : cli_trusted_plant(trust, path, m->plant, &error);
    bool trusted = status == PF_OK;
    status = trusted ? cli_plant_create(&plant, name ? name : m->plant, &error) : status;
    if (status != PF_OK && !name && trusted) {
        char text[sizeof error.text];
        snprintf(text, sizeof text, "%s", error.text);
        status = pf_fail(&error, status, "%s; name the machine with --plant", text);
    }
    if (status == PF_OK) {
        status = cli_model_report(path, model, plant, 1, json, &effort, &error);
    }
    cli_progress_end(&progress);
    pf_plant_destroy(plant);
    return status == PF_OK ? EXIT_YES : cli_fail("model", status, &error);
}

int cmd_model(int argc, char **argv)
{
    bool json = false;
    const char *plant = NULL;
    cli_list words = {.n = 0};
    cli_trust trust = {.signers = NULL};
    const cli_option options[] = {{"--json", .flag = &json},
                                  {"--plant", .value = &plant},
                                  {"--trust", .value = &trust.signers},
                                  {"--allow-exec", .flag = &trust.allow_exec}};
    if (!cli_parse("model", argc, argv, options, sizeof options / sizeof options[0], &words)) {
        return EXIT_USAGE;
    }
    bool wants_report = words.n == 2 && strcmp(words.item[0], "assess") == 0;
    if (!wants_report && (words.n != 2 || strcmp(words.item[0], "show") != 0)) {
        return cli_usage("model", "say `model show MODEL` or `model assess MODEL`");
    }
    if (plant && !wants_report) {
        return cli_usage("model", "--plant goes with `model assess`");
    }
    if (cli_other_kind("model", words.item[1], CLI_MODEL)) {
        return EXIT_BAD_INPUT;
    }
    pf_model *model = NULL;
    pf_error error = {PF_OK, ""};
    pf_status status = cli_trusted_model(&trust, &model, words.item[1], &error);
    if (status != PF_OK) {
        return cli_fail("model", status, &error);
    }
    const pf_model_info *m = pf_model_get_info(model);
    int code = EXIT_YES;
    if (wants_report) {
        code = assess(words.item[1], model, plant, json, &trust);
    } else if (json) {
        pf_text out = {0};
        show_json(&out, m);
        code = cli_write("model", "-", &out);
        pf__text_free(&out);
    } else {
        show(words.item[1], m);
    }
    pf_model_destroy(model);
    return code;
}
