// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "cli.h"

#include "host/file.h"
#include "plant/plant_impl.h"
#include "wire/audit_file.h"

#include <stdlib.h>
#include <string.h>

typedef struct call {
    const char *plant, *model, *seed, *method, *journal, *certificate, *report, *color;
    cli_list fault, kit, accept;
    cli_trust trust;
    bool json;
} call;

static bool is_screen(const char *output)
{
    return output && strcmp(output, "-") == 0;
}

// Whether standard output is free for a person to read.
static bool is_told(const call *c)
{
    return !c->json && !is_screen(c->journal) && !is_screen(c->certificate) &&
           !is_screen(c->report);
}

static int write_sheet(const cli_check *k, const char *path)
{
    pf_text html = {0};
    pf_error error = {PF_OK, ""};
    pf_status result = cli_check_sheet(k, true, &html, &error);
    int status = result == PF_OK ? cli_write("check", path, &html)
                                 : cli_fail_in("check", path, result, &error);
    pf__text_free(&html);
    return status;
}

// What was found is shown before it is written: the runs are spent, whatever the disk says.
static int report(cli_check *k, const call *c)
{
    cli_check_finish(k);
    if (is_told(c)) {
        cli_check_show(k);
    }
    if (k->lost != PF_OK) {
        return cli_fail("check", k->lost, &k->error);
    }
    int certificate =
        c->certificate ? cli_write("check", c->certificate, &k->certificate) : EXIT_YES;
    int sheet = c->report ? write_sheet(k, c->report) : EXIT_YES;
    int json = c->json ? cli_write("check", "-", &k->certificate) : EXIT_YES;
    return certificate != EXIT_YES                ? certificate
           : sheet != EXIT_YES                    ? sheet
           : json != EXIT_YES                     ? json
           : pf__all_go(k->session, &k->accepted) ? EXIT_YES
                                                  : EXIT_NO;
}

// Whether a machine is the kit's own model file in another place. What is compiled from the file
// names its source; of other plants the same name of a source does not say that they are the same.
static bool is_moved_file(const pf_kit *kit, const pf_plant *machine)
{
    const char *own = pf_kit_get_string(kit, PF_KIT_PLANT);
    const pf_plant_info *info = pf_plant_get_info(machine);
    const char *key = strchr(own, '#'), *other = strchr(info->name, '#');
    return pf__plant_is_mujoco(own) && pf__plant_is_mujoco(info->name) &&
           strcmp(key ? key : "", other ? other : "") == 0 &&
           pf_kit_fits_twin(kit, info, NULL) == PF_OK;
}

// The machine is what --plant names, else the kit's own simulator. Another machine than that needs
// the simulator as a twin, where the kit predicts with one.
static pf_status open_plants(cli_check *k, const call *c, pf_error *error)
{
    const pf_kit *kit = k->kit;
    pf_kit_info info = pf_kit_get_info(kit);
    const char *own = pf_kit_get_string(kit, PF_KIT_PLANT);
    bool twin = !info.recorded && !info.starts_from_channels;
    pf_status status = cli_plant_for_kit(&k->machine, kit, c->plant, &c->trust, error);
    if (status == PF_OK && twin && strcmp(pf_plant_get_info(k->machine)->name, own) != 0) {
        status = is_moved_file(kit, k->machine)
                     ? PF_OK
                     : cli_plant_for_kit(&k->twin, kit, NULL, &c->trust, error);
    }
    return status;
}

static bool open_model(cli_check *k, const call *c, int *status)
{
    const pf_kit *kit = k->kit;
    if (!c->model && pf_kit_get_info(kit).starts_from_channels) {
        *status = cli_usage("check",
                            "%s predicts with a learned model; give its file with --model FILE "
                            "(sha256 %s)",
                            c->kit.item[0], pf_kit_get_string(kit, PF_KIT_MODEL));
        return false;
    }
    return cli_model_for_kit("check", kit, c->model, &k->model, status);
}

// The check did not come to its end. What was observed until then is evidence all the same.
static int give_up(const cli_check *k, const call *c, pf_status result, const pf_error *error)
{
    bool kept = k->log.fd >= 0;
    int status = EXIT_INTERRUPTED;
    if (kept && result == PF_ERR_INTERRUPTED) {
        fprintf(stderr, "preflight check: interrupted\n");
    } else {
        status = cli_fail("check", result, error);
    }
    if (k->lost != PF_OK) {
        cli_fail("check", k->lost, &k->error);
    } else if (kept) {
        cli_say("check", "the journal up to there is in %s", c->journal);
    }
    const char *const others[] = {c->certificate, c->report};
    for (int i = 0; i < 2; i++) {
        if (others[i] && pf__file_regular(others[i])) {
            cli_say("check", "%s was not written; what is there is of an earlier check", others[i]);
        }
    }
    return status;
}

enum { OUTPUTS = 4 };

static void outputs_of(const call *c, cli_file outputs[OUTPUTS])
{
    outputs[0] = (cli_file){"--journal", c->journal};
    outputs[1] = (cli_file){"--certificate", c->certificate};
    outputs[2] = (cli_file){"--report", c->report};
    outputs[3] = (cli_file){"--json", c->json ? "-" : NULL};
}

// Probes cost something: an output that cannot be written is found before the first.
static int check_outputs(const call *c)
{
    char *audit = pf__audit_path(c->kit.item[0]);
    const cli_file inputs[] = {{"the kit", c->kit.item[0]},
                               {"the audit of the kit", audit},
                               {"the model", c->model},
                               {"the allowed signers", c->trust.signers}};
    cli_file outputs[OUTPUTS];
    outputs_of(c, outputs);
    int status = cli_outputs("check", 4, inputs, OUTPUTS, outputs);
    free(audit);
    return status;
}

// The files of the machine are no outputs, nor are those of the kit's simulator.
static int spare_plants(const call *c, const pf_kit *kit)
{
    cli_file outputs[OUTPUTS];
    outputs_of(c, outputs);
    int status = cli_spare_plant("check", pf_kit_get_string(kit, PF_KIT_PLANT), pf_kit_folder(kit),
                                 OUTPUTS, outputs);
    return status == EXIT_YES ? cli_spare_plant("check", c->plant, NULL, OUTPUTS, outputs) : status;
}

static int drive(cli_check *k, const call *c)
{
    pf_error error = {PF_OK, ""};
    cli_faults faults = {.n = 0};
    pf_status result = open_plants(k, c, &error);
    if (result == PF_OK &&
        !cli_read_faults("check", &c->fault, pf_plant_get_info(k->machine), k->kit, &faults)) {
        return EXIT_USAGE;
    }
    k->faults = faults.item;
    k->n_faults = faults.n;
    result = result == PF_OK ? cli_check_run(k, &error) : result;
    return result == PF_OK ? report(k, c) : give_up(k, c, result, &error);
}

static int check_kit(const call *c, const pf_accepted *accepted, uint64_t seed)
{
    int status = check_outputs(c);
    cli_kit file;
    if (status != EXIT_YES || !cli_kit_open("check", c->kit.item[0], &c->trust, &file, &status)) {
        return status;
    }
    status = spare_plants(c, file.kit);
    cli_check k = {.image = file.bytes,
                   .n_image = file.n_bytes,
                   .kit = file.kit,
                   .kit_path = c->kit.item[0],
                   .trust = c->trust,
                   .signer = file.signer,
                   .method = c->method,
                   .seed = seed,
                   .accepted = *accepted,
                   .live = is_told(c),
                   .likeness = true,
                   .journal_path = c->journal,
                   .log = {.fd = -1}};
    if (status == EXIT_YES && open_model(&k, c, &status)) {
        status = drive(&k, c);
    }
    cli_check_close(&k);
    pf_model_destroy(k.model);
    pf_plant_destroy(k.twin);
    pf_plant_destroy(k.machine);
    cli_kit_close(&file);
    return status;
}

int cmd_check(int argc, char **argv)
{
    call c = {0};
    const cli_option options[] = {
        {"--plant", .value = &c.plant},
        {"--fault", .list = &c.fault},
        {"--seed", .value = &c.seed},
        {"--method", .value = &c.method},
        {"--journal", .value = &c.journal},
        {"--certificate", .value = &c.certificate},
        {"--json", .flag = &c.json},
        {"--model", .value = &c.model},
        {"--accept", .list = &c.accept},
        {"--report", .value = &c.report},
        {"--color", .value = &c.color},
        {"--trust", .value = &c.trust.signers},
        {"--allow-exec", .flag = &c.trust.allow_exec},
    };
    if (!cli_parse("check", argc, argv, options, sizeof options / sizeof options[0], &c.kit)) {
        return EXIT_USAGE;
    }
    double seed = 0;
    pf_accepted accepted;
    if (c.kit.n != 1) {
        return cli_usage("check", "name one kit file");
    }
    if (!cli_seed("check", c.seed, &seed) || !cli_accept("check", &c.accept, &accepted) ||
        !cli_color("check", c.color)) {
        return EXIT_USAGE;
    }
    return check_kit(&c, &accepted, (uint64_t)seed);
}
