// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "train_view.h"

#include <math.h>
#include <string.h>

static const char *activation_of(const pf_model_info *m)
{
    return m->activation == PF_ACTIVATION_SILU ? "silu" : "relu";
}

static void show(const char *path, const pf_model_info *m)
{
    printf("model %s\nsha256 %s\nplant %s, %s\n", path, m->sha256, m->plant, m->source);
    printf("%d members of %d layers of %d, %s; %d channels, %d mechanisms\n", m->n_members,
           m->n_layers, m->width, activation_of(m), m->n_chan, m->n_mech);
    if (!isnan(m->valid_error)) {
        printf("held-out error of the standardised change %.4g\n", m->valid_error);
    }
    printf("data %s\ntrained with %s\n", m->data[0] ? m->data : "unknown",
           m->processor[0] ? m->processor : "something else than preflight");
}

static void show_json(pf_text *out, const pf_model_info *m)
{
    pf_text_add(out, "{\"format\":\"preflight-model\",\"version\":1");
    const struct {
        const char *key, *value;
    } texts[] = {{"sha256", m->sha256}, {"plant", m->plant},
                 {"source", m->source}, {"activation", activation_of(m)},
                 {"data", m->data},     {"processor", m->processor}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pf_json_key(out, texts[i].key);
        pf_json_string(out, texts[i].value);
    }
    pf_text_addf(out, ",\"members\":%d,\"layers\":%d,\"width\":%d", m->n_members, m->n_layers,
                 m->width);
    pf_json_key(out, "valid_error");
    pf_json_number(out, m->valid_error);
    pf_json_key(out, "channels");
    pf_text_add(out, "[");
    for (int c = 0; c < m->n_chan; c++) {
        pf_json_comma(out);
        pf_json_string(out, m->channels[c]);
    }
    pf_text_add(out, "]");
    pf_json_key(out, "mechanisms");
    pf_text_add(out, "[");
    for (int j = 0; j < m->n_mech; j++) {
        pf_json_comma(out);
        pf_json_string(out, m->mechanisms[j].name);
    }
    pf_text_add(out, "]}\n");
}

// The report that `train` ends with, of a model that is there.
static int assess(const char *path, const pf_model_info *m, const char *name, bool json)
{
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 0);
    pf_status status = pf_plant_create(&plant, name ? name : m->plant, &error);
    if (status == PF_OK) {
        status = train_report(path, plant, 1, json, &effort, &error);
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
    const cli_option options[] = {{"--json", .flag = &json}, {"--plant", .value = &plant}};
    if (!cli_parse("model", argc, argv, options, 2, &words)) {
        return EXIT_USAGE;
    }
    bool wants_report = words.n == 2 && strcmp(words.item[0], "assess") == 0;
    if (!wants_report && (words.n != 2 || strcmp(words.item[0], "show") != 0)) {
        return cli_usage("model", "say `model show MODEL` or `model assess MODEL`");
    }
    if (plant && !wants_report) {
        return cli_usage("model", "--plant goes with `model assess`");
    }
    pf_model *model = NULL;
    pf_error error = {PF_OK, ""};
    pf_status status = pf_model_load(&model, words.item[1], &error);
    if (status != PF_OK) {
        return cli_fail("model", status, &error);
    }
    const pf_model_info *m = pf_model_get_info(model);
    int code = EXIT_YES;
    if (wants_report) {
        code = assess(words.item[1], m, plant, json);
    } else if (json) {
        pf_text out = {0};
        show_json(&out, m);
        code = cli_write("model", "-", &out);
        pf_text_free(&out);
    } else {
        show(words.item[1], m);
    }
    pf_model_destroy(model);
    return code;
}
