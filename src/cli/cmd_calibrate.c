// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "core/sha256.h"

#include "host/file.h"
#include "plant/plant_impl.h"
#include "wire/audit_file.h"
#include "preflight/design.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    const char *output, *config, *predictor, *probes, *method, *seed, *threads, *recordings,
        *faults, *progress;
    cli_list set, plant;
    bool json, audit;
    double seed_number; // NaN: not given
    const char *model;  // file of the ensemble. NULL: a twin
    cli_form form;      // of progress
} call;

static void print_summary(const char *path, const pf_kit *kit, bool json)
{
    pf_kit_info k = pf_kit_get_info(kit);
    char sha[65];
    pf__sha256_text(k.sha256, sha);
    if (json) {
        pf_text out = {0};
        pf__text_add(&out, "{\"kit\":");
        pf__json_string(&out, path);
        pf__text_addf(&out,
                      ",\"sha256\":\"%s\",\"mechanisms\":%d,\"probes\":%d,\"tasks\":%d,"
                      "\"session_bytes\":%zu,\"threshold\":",
                      sha, k.n_mech, k.n_probes, k.n_tasks, pf_session_size(kit));
        pf__json_number(&out, pf_kit_threshold(kit, 0));
        pf__text_add(&out, "}\n");
        cli_print(&out);
        pf__text_free(&out);
        return;
    }
    cli_printf("kit %s: plant %s, %s predictor, %s, %s\n", path,
               pf_kit_get_string(kit, PF_KIT_PLANT), pf_kit_get_string(kit, PF_KIT_PREDICTOR),
               pf__counted(k.n_probes, "probe").text, pf__counted(k.n_tasks, "task").text);
    cli_printf("sha256 %s\n", sha);
    cli_printf("alarm above a belief of %.4g (%s), a session takes %zu bytes\n",
               pf_kit_threshold(kit, 0), pf_kit_method_id(kit, 0), pf_session_size(kit));
    if (k.tolerance > 0) {
        cli_printf(
            "it repeats to rounding only: readings that differ by %.2g of the largest one count "
            "as equal\n",
            k.tolerance);
    }
    if (k.alarm_checks > 0) {
        cli_printf("it alarmed in %d of %d fresh healthy sessions (at most %.1f %% at 95 %%)\n",
                   k.alarm_false, k.alarm_checks,
                   100 * pf__audit_upper(k.alarm_false, k.alarm_checks));
    }
    for (int t = 0; t < k.n_tasks && k.rules.field; t++) {
        int runs = pf_kit_task_rehearsals(kit, t);
        if (runs == 0) {
            cli_printf(k.recorded ? "task %s was not recorded as a go needs it: it is no-go\n"
                                  : "task %s cannot be rehearsed here: it can be go-if at most\n",
                       pf_kit_task_name(kit, t));
        } else if (runs > k.rules.rehearsals) {
            cli_printf("task %s is rehearsed %d times: the noise is as large as what it may miss\n",
                       pf_kit_task_name(kit, t), runs);
        }
    }
    pf_text table = {0};
    pf__text_add(&table, "\nprobe\tmechanism\t>charge\t>separation\t>limits\t\n");
    for (int q = 0; q < k.n_probes; q++) {
        const int32_t *targets = NULL;
        int n = pf_kit_probe_targets(kit, q, &targets);
        for (int t = 0; t < n; t++) {
            int j = targets[t];
            pf__text_addf(&table, "%s\t%s\t%.3g\t%.1f sd\t%.3g .. %.3g\t%s\n",
                          pf_kit_probe_name(kit, q), pf_kit_mechanism_name(kit, j),
                          pf_kit_probe_charge(kit, q), 1 / pf_kit_probe_sigma(kit, q)[t], k.lo[j],
                          k.hi[j], isinf(k.lo[j]) || isinf(k.hi[j]) ? "(unbounded!)" : "");
        }
    }
    cli_show(&table);
    pf__text_free(&table);
}

// A loss that lies within the scatter of its own coordinate is told badly, and so is its size.
static void warn_blurred(const pf_kit *kit)
{
    enum { APART = 3 };
    for (int q = 0; q < pf_kit_get_info(kit).n_probes; q++) {
        const int32_t *targets = NULL;
        int n = pf_kit_probe_targets(kit, q, &targets);
        for (int t = 0; t < n; t++) {
            double apart = 1 / pf_kit_probe_sigma(kit, q)[t];
            if (apart < APART) {
                fprintf(stderr,
                        "preflight calibrate: probe '%s' tells losses of '%s' apart by %.1f sd at "
                        "its worst gain: gains and intervals may be wrong; change its length or "
                        "strength, and audit the kit\n",
                        pf_kit_probe_name(kit, q), pf_kit_mechanism_name(kit, targets[t]), apart);
            }
        }
    }
}

// A library may leave a candidate out; then its tasks stay no-go where looks are required.
static void warn_unprobed(const pf_kit *kit)
{
    pf_kit_info k = pf_kit_get_info(kit);
    for (int j = 1; j < k.n_mech && k.rules.field; j++) {
        bool probed = false;
        for (int q = 0; q < k.n_probes; q++) {
            const int32_t *targets = NULL;
            int n = pf_kit_probe_targets(kit, q, &targets);
            for (int t = 0; t < n; t++) {
                probed = probed || targets[t] == j;
            }
        }
        if (!probed) {
            fprintf(stderr,
                    "preflight calibrate: no probe looks at '%s': tasks that use it stay no-go "
                    "(`preflight design` tells why)\n",
                    pf_kit_mechanism_name(kit, j));
        }
    }
}

static int save_kit(const call *c, void *bytes, size_t n)
{
    pf_error error = {PF_OK, ""};
    pf_status status = pf__file_write(c->output, bytes, n, &error);
    pf_kit *kit = NULL;
    if (status == PF_OK) {
        status = cli_kit_load(&kit, bytes, n, &error);
    }
    if (status != PF_OK) {
        return cli_fail("calibrate", status, &error);
    }
    warn_blurred(kit);
    warn_unprobed(kit);
    if (strcmp(c->output, "-") != 0) {
        print_summary(c->output, kit, c->json);
    }
    free(kit);
    return EXIT_YES;
}

// The plan of a configuration and --set, then of the options of their own.
static pf_status make_plan(pf_plan **plan, const call *c, const pf_plant_info *info,
                           const cli_config *t, pf_error *error)
{
    pf_status status =
        pf_plan_create(plan, info, t->file, t->data, t->n, t->overrides, t->n_overrides, error);
    char set[96];
    if (status == PF_OK && c->method) {
        snprintf(set, sizeof set, "method=%s", c->method);
        status = pf_plan_set(*plan, set, error);
    }
    if (status == PF_OK && !isnan(c->seed_number)) {
        snprintf(set, sizeof set, "seed=%.0f", c->seed_number);
        status = pf_plan_set(*plan, set, error);
    }
    if (status == PF_OK && c->faults) {
        snprintf(set, sizeof set, "faults=%s", c->faults);
        status = pf_plan_set(*plan, set, error);
    }
    return status;
}

// Opens KIT.part under all that decides the kit. Nullable: plant and model.
static pf_status open_part(const call *c, const pf_plant_info *plant, const pf_model *model,
                           cli_part *part, pf_effort *effort, pf_error *error)
{
    pf_text key = {0};
    cli_key_add(&key, "job", "calibrate");
    if (plant) {
        cli_key_plant(&key, c->plant.item[0], plant);
    }
    cli_key_add(&key, "model", model ? pf_model_get_info(model)->sha256 : NULL);
    cli_key_add(&key, "probes", c->probes);
    bool known = cli_key_file(&key, "library", c->probes);
    cli_key_add(&key, "method", c->method);
    cli_key_add(&key, "faults", c->faults);
    cli_key_add(&key, "seed", c->seed);
    known = cli_key_file(&key, "recordings", c->recordings) && known;
    known = cli_key_config(&key, c->config, &c->set) && known;
    pf_status status =
        known ? cli_part_open(part, "calibrate", c->output, &key, effort, error) : PF_OK;
    pf__text_free(&key);
    return status;
}

static pf_status from_recordings(const call *c, const cli_config *t, cli_part *part,
                                 pf_effort *effort, void **bytes, size_t *n_bytes, pf_error *error)
{
    void *csv = NULL;
    size_t n = 0;
    pf_plan *plan = NULL;
    pf_status status =
        pf__file_read_until(c->recordings, (size_t)1 << 30, &cli_interrupted, &csv, &n, error);
    if (status == PF_OK && c->config) {
        status = make_plan(&plan, c, NULL, t, error);
    }
    status = status ? status : open_part(c, NULL, NULL, part, effort, error);
    if (status == PF_OK) {
        status =
            pf_calibrate_recordings(plan, c->recordings, csv, n, effort, bytes, n_bytes, error);
    }
    pf_plan_destroy(plan);
    free(csv);
    return status;
}

static pf_status from_plant(const call *c, const cli_config *t, cli_part *part, pf_effort *effort,
                            void **bytes, size_t *n_bytes, pf_error *error)
{
    pf_plant *plant = NULL;
    pf_plan *plan = NULL;
    pf_model *model = NULL;
    pf_status status = cli_plant_create(&plant, c->plant.item[0], error);
    if (status == PF_OK && c->model) {
        status = pf_model_load(&model, c->model, error);
    }
    if (status == PF_OK) {
        status = make_plan(&plan, c, pf_plant_get_info(plant), t, error);
    }
    status = status ? status : open_part(c, pf_plant_get_info(plant), model, part, effort, error);
    part->process = pf__plant_is_process(c->plant.item[0]);
    if (status == PF_OK) {
        status = pf_plan_choose_probes(plan, c->probes, plant, model, effort, error);
    }
    if (status == PF_OK) {
        status = pf_calibrate(plan, plant, model, effort, bytes, n_bytes, error);
    }
    pf_plan_destroy(plan);
    pf_model_destroy(model);
    pf_plant_destroy(plant);
    return status;
}

static int check_files(const call *c)
{
    if (c->probes && c->recordings) {
        return cli_usage("calibrate",
                         "--probes: recordings come with the probes they were made of");
    }
    bool word =
        c->probes && (strcmp(c->probes, "single") == 0 || strcmp(c->probes, "designed") == 0);
    const cli_file inputs[] = {{"an input, the recordings", c->recordings},
                               {"an input, the configuration", c->config},
                               {"the library", word ? NULL : c->probes}};
    char *audit = c->audit ? pf__audit_path(c->output) : NULL;
    pf_error error = {PF_OK, ""};
    pf_status kept = cli_audit_keepable(audit, &error);
    free(audit);
    if (kept != PF_OK) {
        return cli_fail("calibrate", kept, &error);
    }
    const cli_file output = {"-o", c->output};
    int status = cli_outputs("calibrate", 3, inputs, 1, &output);
    const char *plant = c->plant.n > 0 ? c->plant.item[0] : NULL;
    return status == EXIT_YES ? cli_spare_plant("calibrate", plant, NULL, 1, &output) : status;
}

static int read_predictor(call *c)
{
    if (c->predictor && c->recordings) {
        return cli_usage("calibrate", "--predictor: recordings predict by themselves");
    }
    return cli_predictor("calibrate", c->predictor, c->output, &c->model);
}

static int check_call(const call *c)
{
    if (!c->output) {
        return cli_usage("calibrate", "-o KIT is missing");
    }
    if (!c->recordings && c->plant.n != 1) {
        return cli_usage("calibrate", "name one plant, or give --recordings FILE");
    }
    if (c->recordings && c->plant.n > 0) {
        return cli_usage("calibrate", "either a plant or --recordings, not both");
    }
    if (c->recordings && !c->config && (c->seed || c->method || c->faults || c->set.n > 0)) {
        return cli_usage("calibrate", "--seed, --method, --faults and --set need --config with "
                                      "--recordings");
    }
    if (c->faults && strcmp(c->faults, "one") != 0 && strcmp(c->faults, "many") != 0) {
        return cli_usage("calibrate", "--faults %s: say one or many", c->faults);
    }
    if (c->audit && (c->recordings || strcmp(c->output, "-") == 0)) {
        return cli_usage("calibrate",
                         "--audit needs a plant to audit the kit on, and a file beside "
                         "which to keep the result");
    }
    if (c->method && !pf_method_find(c->method)) {
        return cli_usage("calibrate", "--method %s: unknown; see `preflight list methods`",
                         c->method);
    }
    return EXIT_YES;
}

// Says what was chosen, and what no setting covers.
static void print_choice(const pf_audit *a, const bool *not_covered, int chosen)
{
    double level = 1, strictness = 0;
    pf__audit_settings(chosen - 1, &level, &strictness);
    cli_printf(
        "audit: misfit above %.2f of its level, a rehearsal may miss %.2f of what j_min allows\n",
        level, 1 - strictness);
    for (int e = 0; e < a->catalogue->n; e++) {
        if (not_covered[e]) {
            cli_printf("audit: not covered by any setting: %s\n", a->catalogue->entries[e].name);
        }
    }
}

// The audit of the chosen kit stands beside it.
static pf_status keep_audit(const call *c, const pf_audit *a, const void *bytes, size_t n,
                            const pf_audit_result *results, pf_error *error)
{
    pf_kit *kit = NULL;
    char *path = pf__audit_path(c->output);
    bool *known = calloc((size_t)a->catalogue->n, sizeof *known);
    pf_text text = {0};
    pf_status status = cli_kit_load(&kit, bytes, n, error);
    for (int e = 0; known && e < a->catalogue->n; e++) {
        known[e] = true;
    }
    pf_audit chosen = *a;
    chosen.kit = kit;
    if (status == PF_OK && path && known) {
        pf__audit_json(&text, &chosen, known, results);
        status = text.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit")
                             : pf__file_write(path, text.data, text.size, error);
    }
    pf__text_free(&text);
    free(known);
    free(path);
    free(kit);
    return status;
}

static pf_status run_choice(const call *c, const pf_audit *a, void **bytes, size_t *n,
                            pf_error *error)
{
    size_t entries = (size_t)a->catalogue->n;
    bool *not_covered = calloc(entries, sizeof *not_covered);
    pf_audit_result *results = calloc(entries, sizeof *results);
    void *image = NULL;
    size_t n_image = 0;
    int chosen = 0;
    pf_status status =
        not_covered && results
            ? pf__audit_choose(a, &image, &n_image, not_covered, results, &chosen, error)
            : pf_fail(error, PF_ERR_MEMORY, "out of memory for an audit");
    if (status == PF_OK) {
        status = keep_audit(c, a, image, n_image, results, error);
    }
    if (status == PF_OK) {
        free(*bytes);
        *bytes = image;
        *n = n_image;
        if (!c->json) {
            print_choice(a, not_covered, chosen);
        }
    } else {
        free(image);
    }
    free(not_covered);
    free(results);
    return status;
}

// --audit: how strict the verdict is follows from the shipped catalogue.
static pf_status choose_by_audit(const call *c, const pf_effort *effort, void **bytes, size_t *n,
                                 pf_error *error)
{
    pf_catalogue catalogue;
    pf_plant *plant = NULL;
    pf_model *model = NULL;
    pf_kit *kit = NULL;
    pf_status status = pf__catalogue_read(&catalogue, NULL, NULL, 0, error);
    status = status ? status : cli_kit_load(&kit, *bytes, *n, error);
    if (status == PF_OK && !pf_kit_get_info(kit).rules.field) {
        status = pf_fail(error, PF_ERR_ARGUMENT,
                         "--audit is about the field's verdict; leave field=false out");
    }
    status = status ? status : cli_plant_create(&plant, c->plant.item[0], error);
    if (status == PF_OK && c->model) {
        status = pf_model_load(&model, c->model, error);
    }
    pf_audit audit = {.kit = kit,
                      .plant = plant,
                      .model = model,
                      .catalogue = &catalogue,
                      .sessions = 60,
                      .effort = effort};
    status = status ? status : run_choice(c, &audit, bytes, n, error);
    pf_model_destroy(model);
    pf_plant_destroy(plant);
    pf__catalogue_free(&catalogue);
    free(kit);
    return status;
}

static int run(const call *c, const cli_config *t, int threads)
{
    pf_error error = {PF_OK, ""};
    cli_progress progress;
    cli_part part = {.command = "calibrate"};
    pf_effort effort = cli_effort(&progress, threads);
    progress.form = c->form;
    void *bytes = NULL;
    size_t n_bytes = 0;
    pf_status result = c->recordings
                           ? from_recordings(c, t, &part, &effort, &bytes, &n_bytes, &error)
                           : from_plant(c, t, &part, &effort, &bytes, &n_bytes, &error);
    if (result == PF_OK && c->audit) {
        result = choose_by_audit(c, &effort, &bytes, &n_bytes, &error);
    }
    cli_progress_end(&progress);
    int status =
        result == PF_OK ? save_kit(c, bytes, n_bytes) : cli_part_fail(&part, result, &error);
    if (status == EXIT_YES) {
        cli_part_done(&part);
    }
    pf_part_close(part.part, true); // the kit could not be written: its parts are still good
    free(bytes);
    return status;
}

int cmd_calibrate(int argc, char **argv)
{
    call c = {.seed_number = NAN};
    const cli_option options[] = {
        {"-o", .value = &c.output},
        {"--output", .value = &c.output},
        {"--config", .value = &c.config},
        {"--set", .list = &c.set},
        {"--predictor", .value = &c.predictor},
        {"--probes", .value = &c.probes},
        {"--method", .value = &c.method},
        {"--seed", .value = &c.seed},
        {"--faults", .value = &c.faults},
        {"--threads", .value = &c.threads},
        {"--recordings", .value = &c.recordings},
        {"--json", .flag = &c.json},
        {"--audit", .flag = &c.audit},
        {"--progress", .value = &c.progress},
    };
    if (!cli_parse("calibrate", argc, argv, options, sizeof options / sizeof options[0],
                   &c.plant)) {
        return EXIT_USAGE;
    }
    int status = check_call(&c);
    if (status == EXIT_YES) {
        status = read_predictor(&c);
    }
    if (status == EXIT_YES) {
        status = check_files(&c);
    }
    cli_config t;
    double threads = 0;
    if (status == EXIT_YES && !cli_seed("calibrate", c.seed, &c.seed_number)) {
        status = EXIT_USAGE;
    }
    if (status == EXIT_YES && (!cli_threads("calibrate", c.threads, &threads) ||
                               !cli_progress_form("calibrate", c.progress, &c.form))) {
        status = EXIT_USAGE;
    }
    if (status != EXIT_YES) {
        return status;
    }
    status = cli_config_open("calibrate", c.config, &c.set, &t);
    if (status != EXIT_YES) {
        return status;
    }
    status = run(&c, &t, (int)threads);
    cli_config_close(&t);
    return status;
}
