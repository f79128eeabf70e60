// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "plant/plant_impl.h"
#include "core/method.h"

#include "wire/protocol.h"
#include "settings/config.h"
#include "plant/mujoco/mujoco.h"

#include <math.h>
#include <string.h>

static void list_plant(pf_text *out, bool json, const char *name, int candidates, int channels,
                       const char *title, const char *missing)
{
    if (!json) {
        printf("%-16s %-13s  %-11s  %s%s\n", name, pf__counted(candidates, "candidate").text,
               pf__counted(channels, "channel").text, title, missing);
    }
    pf__json_comma(out);
    pf__text_add(out, "{\"name\":");
    pf__json_string(out, name);
    pf__text_addf(out, ",\"candidates\":%d,\"channels\":%d,\"title\":", candidates, channels);
    pf__json_string(out, title);
    pf__text_addf(out, ",\"available\":%s}", missing[0] ? "false" : "true");
}

static void list_plants(bool json)
{
    pf_text out = {0};
    pf__text_add(&out, "[");
    for (int i = 0; i < pf_plant_count(); i++) {
        const pf_plant_info *info = &pf_plant_at(i)->info;
        list_plant(&out, json, info->name, info->n_mech - 1, info->n_chan, info->title, "");
    }
    for (int i = 0; i < pf__mujoco_count(); i++) {
        const pf_mujoco_system *s = pf__mujoco_at(i);
        pf_error why = {PF_OK, ""};
        char missing[sizeof why.text + 16] = "";
        if (pf__mujoco_present(s, &why) != PF_OK) {
            snprintf(missing, sizeof missing, " (not here: %s)", why.text);
        }
        list_plant(&out, json, s->name, s->nu - 1, pf__mujoco_channels(s), s->title, missing);
    }
    pf__text_add(&out, "]\n");
    if (json) {
        cli_print(&out);
    } else {
        const char *title, *name;
        for (int i = 0; (name = pf__plant_domain_at(i, &title)) != NULL; i++) {
            printf("%-16s %s (needs `make domains`)%s\n", name, title,
                   pf__protocol_supported() ? "" : "; not in this build: install libjansson-dev");
        }
        printf("%-16s any MJCF or URDF file%s\n", PF_MUJOCO_PREFIX "FILE",
               pf__mujoco_version()[0] ? "" : "; not in this build: run `make deps`");
        printf("%-16s any FMU for co-simulation, FMI 2.0 and 3.0 (needs preflight-fmu)%s\n",
               PF_FMU_PREFIX "FILE",
               pf__protocol_supported() ? "" : "; not in this build: install libjansson-dev");
        printf("%-16s any Gymnasium environment, as gym:BipedalWalker-v3 (needs the Python "
               "package)%s\n",
               "gym:ID",
               pf__protocol_supported() ? "" : "; not in this build: install libjansson-dev");
        printf("%-16s a plant in a program of your own (bridge protocol)%s\n", "exec:COMMAND",
               pf__protocol_supported() ? "" : "; not in this build: install libjansson-dev");
        if (!pf__config_supported()) {
            printf("\nThis build reads no configuration files: install libyaml-dev and build "
                   "again.\n");
        }
    }
    pf__text_free(&out);
}

static void list_methods(bool json)
{
    pf_text out = {0};
    pf__text_add(&out, "[");
    for (int i = 0; i < pf_method_count(); i++) {
        const pf_method *m = pf_method_at(i);
        if (!json) {
            printf("%-20s %-8s %s\n", m->id, pf__statistic_name(m->statistic), m->line);
        }
        pf__json_comma(&out);
        pf__text_add(&out, "{\"id\":");
        pf__json_string(&out, m->id);
        pf__json_key(&out, "label");
        pf__json_string(&out, m->label);
        pf__json_key(&out, "statistic");
        pf__json_string(&out, pf__statistic_name(m->statistic));
        pf__json_key(&out, "line");
        pf__json_string(&out, m->line);
        pf__text_add(&out, "}");
    }
    pf__text_add(&out, "]\n");
    if (json) {
        cli_print(&out);
    }
    pf__text_free(&out);
}

static void list_setting(pf_text *out, const pf_setting_info *s)
{
    const struct {
        const char *key, *value;
    } texts[] = {{"key", s->key},
                 {"old", s->old ? s->old : ""},
                 {"group", s->group},
                 {"range", s->range},
                 {"default", s->otherwise[PF_SETTINGS_FIELD]},
                 {"suite_default", s->otherwise[PF_SETTINGS_SUITE]},
                 {"help", s->help}};
    pf__json_comma(out);
    pf__text_add(out, "{");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pf__json_key(out, texts[i].key);
        pf__json_string(out, texts[i].value);
    }
    pf__text_addf(out, ",\"config\":%s,\"suite\":%s,\"kit\":%s}", s->config ? "true" : "false",
                  s->suite ? "true" : "false", s->kit ? "true" : "false");
}

// A cell of a table, in which | has a meaning.
static void print_cell(const char *text)
{
    for (; *text; text++) {
        fputs(*text == '|' ? "\\|" : (char[]){*text, 0}, stdout);
    }
}

static void print_setting_row(const pf_setting_info *s)
{
    printf("| `%s`%s%s%s | %s | %s | ", s->key, s->old ? " (was `" : "", s->old ? s->old : "",
           s->old ? "`)" : "", s->config ? s->otherwise[PF_SETTINGS_FIELD] : "",
           s->suite ? s->otherwise[PF_SETTINGS_SUITE] : "");
    print_cell(s->range);
    printf(" | %s | ", s->axis            ? "axis"
                       : s->group_methods ? "group methods"
                       : s->suite         ? "yes"
                                          : "");
    print_cell(s->help);
    printf(" |\n");
}

static void list_settings(bool json, bool table)
{
    pf_text out = {0};
    pf__text_add(&out, "[");
    pf_setting_info s;
    if (table) {
        printf("| key | default | in suites | range | key of suites | what it is |\n"
               "|---|---|---|---|---|---|\n");
    }
    for (int i = 0; pf__settings_at(i, &s); i++) {
        if (table) {
            print_setting_row(&s);
        } else if (!json) {
            printf("%-16s %-8s %-22s %s\n", s.key,
                   s.otherwise[s.config ? PF_SETTINGS_FIELD : PF_SETTINGS_SUITE], s.range, s.help);
        }
        list_setting(&out, &s);
    }
    pf__text_add(&out, "]\n");
    if (json) {
        cli_print(&out);
    }
    pf__text_free(&out);
}

// Kinds that any plant has, or all of them.
static void list_fault_kinds(bool json, bool all, pf_text *out)
{
    static const char *const places[] = {"mechanism", "channel", "plant"};
    for (int i = 0; i < pf_fault_count(); i++) {
        const pf_fault_info *k = pf_fault_at(i);
        if (!all && k->place == PF_FAULT_ON_PLANT) {
            continue;
        }
        char range[40];
        snprintf(range, sizeof range, "%g to %g", k->least, k->most);
        if (!json) {
            printf("%-9s %-14s %-26s %-16s %s\n", places[k->place], k->name,
                   pf_fault_measure_text(k->measure), range, k->line);
        }
        pf__json_comma(out);
        pf__text_add(out, "{\"name\":");
        pf__json_string(out, k->name);
        pf__json_key(out, "place");
        pf__json_string(out, places[k->place]);
        pf__json_key(out, "measure");
        pf__json_string(out, pf_fault_measure_text(k->measure));
        pf__json_add_number(out, "least", k->least);
        pf__json_add_number(out, "most", k->most);
        pf__json_add_number(out, "default", k->otherwise < k->least ? NAN : k->otherwise);
        pf__json_key(out, "line");
        pf__json_string(out, k->line);
        pf__text_add(out, "}");
    }
}

// A fault of the plant itself, and how --fault spells it.
static void list_own_fault(bool json, pf_text *out, const char *key, const char *prefix,
                           const char *name, const char *line)
{
    char spelled[80];
    snprintf(spelled, sizeof spelled, "%s%s=X", prefix, name);
    if (!json) {
        cli_printf("  --fault %-22s %s\n", spelled, line);
    }
    pf__json_comma(out);
    pf__text_addf(out, "{\"%s\":", key);
    pf__json_string(out, name);
    pf__json_key(out, "line");
    pf__json_string(out, line);
    pf__text_add(out, "}");
}

typedef const char *name_at(const pf_plant_info *info, int i);

static const char *mechanism_at(const pf_plant_info *info, int i)
{
    return info->mechanisms[i].name;
}

static const char *channel_at(const pf_plant_info *info, int i)
{
    return info->channels[i].name;
}

static void list_names(bool json, pf_text *out, const pf_plant_info *info, const char *what, int n,
                       name_at *name)
{
    pf__json_key(out, what);
    pf__text_add(out, "[");
    for (int i = 0; i < n; i++) {
        pf__json_comma(out);
        pf__json_string(out, name(info, i));
        if (!json) {
            cli_printf("%s%s%s", i == 0 ? what : "", i == 0 ? ": " : ", ", name(info, i));
        }
    }
    pf__text_add(out, "]");
    if (!json) {
        cli_printf("\n");
    }
}

// Where faults can act on a plant, and what it has beyond the kinds of every plant.
static void list_plant_faults(bool json, const pf_plant_info *info, pf_text *out)
{
    if (!json) {
        cli_printf("\n%s\n", info->name);
    }
    list_names(json, out, info, "mechanisms", info->n_mech, mechanism_at);
    list_names(json, out, info, "channels", info->n_chan, channel_at);
    pf__json_key(out, "own");
    pf__text_add(out, "[");
    if (!json) {
        cli_printf("as a whole:\n");
    }
    const pf_fault_info *always = pf_fault_at(PF_FAULT_EFFECTIVENESS);
    list_own_fault(json, out, "fault", "", always->name, always->line);
    for (int i = 0; i < info->n_faults; i++) {
        list_own_fault(json, out, "fault", "", info->faults[i].name, info->faults[i].line);
    }
    for (int i = 0; i < info->n_knobs; i++) {
        pf_fault knob = {.kind = PF_FAULT_KNOB, .at = i};
        char text[80];
        pf_fault_text(&knob, info, text, sizeof text);
        bool prefixed = strncmp(text, "plant:", 6) == 0;
        list_own_fault(json, out, "knob", prefixed ? "plant:" : "", info->knobs[i].name,
                       info->knobs[i].line);
    }
    pf__text_add(out, "]");
}

static int list_faults(bool json, const char *name)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    pf_status status = name ? cli_plant_create(&plant, name, &error) : PF_OK;
    if (status != PF_OK) {
        return cli_fail("list", status, &error);
    }
    pf_text out = {0};
    pf__text_add(&out, "{\"kinds\":[");
    list_fault_kinds(json, !plant, &out);
    pf__text_add(&out, "]");
    if (plant) {
        list_plant_faults(json, pf_plant_get_info(plant), &out);
    } else if (!json) {
        cli_printf(
            "\n--fault MECHANISM:GAIN, MECHANISM:KIND=X, CHANNEL:KIND=X or KIND=X for the plant; "
            "`preflight list faults PLANT` says what a plant has\n");
    }
    pf__text_add(&out, "}\n");
    if (json) {
        cli_print(&out);
    }
    pf__text_free(&out);
    pf_plant_destroy(plant);
    return EXIT_YES;
}

static void limit_text(char *to, size_t size, double limit)
{
    snprintf(to, size, isinf(limit) ? "none" : "%.4g", limit);
}

// One mechanism: its limits, what a loss takes, and what the plant says of it.
static void list_mechanism(bool json, pf_text *out, const pf_plant *plant, int j)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    const pf_mechanism *m = &info->mechanisms[j];
    const char *loss =
        pf__loss_name(pf__plant_loses_force(info, j) ? PF_LOSS_FORCE : PF_LOSS_COMMAND);
    const char *about = pf__plant_about(plant, j);
    char lo[32], hi[32];
    limit_text(lo, sizeof lo, m->lo);
    limit_text(hi, sizeof hi, m->hi);
    if (!json) {
        cli_printf("%3d %-28s %9s .. %-9s %-8s %s\n", j, m->name, lo, hi, loss, about);
    }
    pf__json_open(out, NULL, "{");
    pf__text_add(out, "\"name\":");
    pf__json_string(out, m->name);
    pf__json_add_number(out, "lo", m->lo);
    pf__json_add_number(out, "hi", m->hi);
    pf__json_add_string(out, "loss", loss);
    pf__json_add_string(out, "about", about);
    pf__text_add(out, "}");
}

static void list_channels(bool json, pf_text *out, const pf_plant_info *info)
{
    pf__json_open(out, "channels", "[");
    for (int c = 0; c < info->n_chan; c++) {
        const char *kind = pf__channel_kind_name(info->kinds ? info->kinds[c] : PF_CHANNEL_PLAIN);
        if (!json) {
            cli_printf("%s%s", c == 0 ? "channels: " : ", ", info->channels[c].name);
        }
        pf__json_open(out, NULL, "{");
        pf__text_add(out, "\"name\":");
        pf__json_string(out, info->channels[c].name);
        pf__json_add_string(out, "kind", kind);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
    if (!json) {
        cli_printf("\n");
    }
}

// What is made of a plant: for somebody who brings a machine and wants to see it as we do.
static void list_machine(bool json, const pf_plant *plant)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    const char *about = pf__plant_about(plant, -1);
    pf_text out = {0};
    pf__text_add(&out, "{\"name\":");
    pf__json_string(&out, info->name);
    pf__json_add_string(&out, "title", info->title);
    pf__json_add_string(&out, "source", info->source);
    pf__json_add_number(&out, "dt_s", info->dt_s);
    pf__json_add_number(&out, "sensor_noise", info->sensor_noise);
    pf__json_add_string(&out, "about", about);
    if (!json) {
        cli_printf("%s\n%s (%s)\n%s%scontrol step %.4g s\n\n", info->name, info->title,
                   info->source, about, about[0] ? "\n" : "", info->dt_s);
        cli_printf("    %-28s %9s    %-9s %-8s\n", "mechanism", "from", "to", "loss of");
    }
    pf__json_open(&out, "mechanisms", "[");
    for (int j = 0; j < info->n_mech; j++) {
        list_mechanism(json, &out, plant, j);
    }
    pf__text_add(&out, "]");
    if (!json) {
        cli_printf("\n");
    }
    list_channels(json, &out, info);
    pf__text_add(&out, "}\n");
    if (json) {
        cli_print(&out);
    }
    pf__text_free(&out);
}

static int list_plant_or_refuse(const char *what, bool json)
{
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    pf_status status = cli_plant_create(&plant, what, &error);
    if (status == PF_ERR_ARGUMENT && !strchr(what, ':')) {
        return cli_usage("list",
                         "'%s' cannot be listed: plants, methods, settings, faults, suites or the "
                         "name of a plant",
                         what);
    }
    if (status != PF_OK) {
        return cli_fail("list", status, &error);
    }
    list_machine(json, plant);
    pf_plant_destroy(plant);
    return EXIT_YES;
}

static int list_one(const char *what, bool json)
{
    if (strcmp(what, "plants") == 0) {
        list_plants(json);
    } else if (strcmp(what, "methods") == 0) {
        list_methods(json);
    } else if (strcmp(what, "settings") == 0) {
        list_settings(json, false);
    } else if (strcmp(what, "faults") == 0) {
        return list_faults(json, NULL);
    } else if (strcmp(what, "suites") == 0) {
        return bench_list_suites(json);
    } else {
        return list_plant_or_refuse(what, json);
    }
    return EXIT_YES;
}

// One after the other; as JSON an object with a member for each. A build without experiments has no
// suites, and says so.
static int list_all(bool json)
{
    static const char *const words[] = {"plants", "methods", "settings", "faults", "suites"};
    enum { WORDS = sizeof words / sizeof words[0] };
    int status = EXIT_YES;
    for (int i = 0; i < WORDS; i++) {
        if (json) {
            printf("%s\"%s\":", i ? "," : "{", words[i]);
        } else {
            pf_text head = {0};
            pf__text_addf(&head, "%s# %s\n", i ? "\n" : "", words[i]);
            cli_show(&head);
            pf__text_free(&head);
        }
        fflush(stdout); // before what is said of a list that is not there
        int one = list_one(words[i], json);
        if (json && one != EXIT_YES) {
            printf("null");
        }
        status = one > status ? one : status;
    }
    fputs(json ? "}\n" : "", stdout);
    return status;
}

int cmd_list(int argc, char **argv)
{
    bool json = false;
    cli_list what = {.n = 0};
    const char *format = NULL;
    const cli_option options[] = {{"--json", .flag = &json}, {"--format", .value = &format}};
    if (!cli_parse("list", argc, argv, options, 2, &what)) {
        return EXIT_USAGE;
    }
    bool faults = what.n > 0 && strcmp(what.item[0], "faults") == 0;
    if (what.n > 2 || (what.n == 2 && !faults)) {
        return cli_usage("list", "say one word: plants, methods, settings, faults [PLANT], "
                                 "suites or a plant; or none for everything");
    }
    bool settings = what.n > 0 && strcmp(what.item[0], "settings") == 0;
    if (format && (!settings || json || strcmp(format, "md") != 0)) {
        return cli_usage("list", "--format: say `list settings --format md`");
    }
    if (format) {
        list_settings(false, true);
        return EXIT_YES;
    }
    return what.n == 0   ? list_all(json)
           : what.n == 2 ? list_faults(json, what.item[1])
                         : list_one(what.item[0], json);
}
