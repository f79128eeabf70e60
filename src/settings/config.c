// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static pf_status check_limits(const pf__yaml_node *node, double lo, double hi, const char *path,
                              pf_error *error)
{
    return lo > hi ? pf__yaml_refuse(error, node->at, "%s: lo %.6g is above hi %.6g; swap them",
                                     path, lo, hi)
                   : PF_OK;
}

static pf_status check_mechanism(const pf__yaml_node *node, const void *base, const char *path,
                                 pf_error *error)
{
    const pf_config_mechanism *m = base;
    return check_limits(node, m->lo, m->hi, path, error);
}

static pf_status check_probe(const pf__yaml_node *node, const void *base, const char *path,
                             pf_error *error)
{
    const pf_config_probe *p = base;
    int n = (p->command.value != NULL) + (p->pulse_mechanism != NULL) + (p->policy != NULL);
    if (p->rows > 0 && !p->policy) {
        return pf__yaml_refuse(error, node->at, "%s: rows are those of a policy; %s", path,
                               p->pulse_mechanism ? "those of a pulse are a key of `pulse`"
                                                  : "leave them out");
    }
    int steps = p->pulse_steps > 0 ? p->pulse_steps : PF_PULSE_STEPS;
    if (p->pulse_rows > 0 && p->pulse_rows < steps) {
        return pf__yaml_refuse(error, node->at,
                               "%s: the pulse has %d rows, fewer than its %d steps; give more rows "
                               "or fewer steps",
                               path, p->pulse_rows, steps);
    }
    return n == 1 ? PF_OK
                  : pf__yaml_refuse(error, node->at,
                                    "%s: has %s of command, pulse and policy; give one of them",
                                    path, n == 0 ? "none" : "several");
}

static pf_status check_task(const pf__yaml_node *node, const void *base, const char *path,
                            pf_error *error)
{
    const pf_config_task *t = base;
    if (t->command.value != NULL && t->policy != NULL) {
        return pf__yaml_refuse(error, node->at, "%s: has both command and policy; keep one", path);
    }
    return PF_OK;
}

static pf_status check_config(const pf__yaml_node *node, const void *base, const char *path,
                              pf_error *error)
{
    (void)path;
    return pf__settings_check(node, &((const pf_config *)base)->settings, error);
}

static const pf_schema_row matrix_element = {"", PF_KIND_NUMBER, 0,          -DBL_MAX, DBL_MAX,
                                             0,  NULL,           "a command"};
static const pf_schema_shape matrix_shape = {.element = &matrix_element};

static const pf_schema_row ref_element = {"",   PF_KIND_NAME,        0, 1, 64, 0,
                                          NULL, "a name or an index"};
static const pf_schema_shape refs_shape = {.single = &ref_element};

// What one item of a list is, and the list of them in a configuration.
#define ITEM(type, rows, check, help)                                                              \
    {                                                                                              \
        rows, PF_COUNT(rows), sizeof(type), offsetof(type, place), check, help                     \
    }
#define LIST_OF(item, n)                                                                           \
    {                                                                                              \
        .object = &(item), .count = offsetof(pf_config, n)                                         \
    }

static const pf_schema_row mechanism_rows[] = {
    {"name", PF_KIND_NAME, PF_ROW_REQUIRED | PF_ROW_ALONE, 1, 64,
     offsetof(pf_config_mechanism, name), NULL, "what the mechanism is called"},
    {"lo", PF_KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, offsetof(pf_config_mechanism, lo), NULL,
     "least command"},
    {"hi", PF_KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, offsetof(pf_config_mechanism, hi), NULL,
     "greatest command"},
};
static const pf_schema mechanism_object =
    ITEM(pf_config_mechanism, mechanism_rows, check_mechanism, "a mechanism");
static const pf_schema_shape mechanism_list = LIST_OF(mechanism_object, n_mechanisms);

static const pf_schema_row channel_rows[] = {
    {"name", PF_KIND_NAME, PF_ROW_REQUIRED | PF_ROW_ALONE, 1, 64, offsetof(pf_config_channel, name),
     NULL, "what the channel is called"},
    {"scale", PF_KIND_NUMBER, PF_ROW_OPEN_MIN, 0, DBL_MAX, offsetof(pf_config_channel, scale), NULL,
     "responses are divided by it"},
};
static const pf_schema channel_object = ITEM(pf_config_channel, channel_rows, NULL, "a channel");
static const pf_schema_shape channel_list = LIST_OF(channel_object, n_channels);

static const pf_schema_row pulse_rows[] = {
    {"mechanism", PF_KIND_NAME, PF_ROW_REQUIRED, 1, 64, offsetof(pf_config_probe, pulse_mechanism),
     NULL, "name or index of the mechanism that is pulsed"},
    {"amplitude", PF_KIND_NUMBER, PF_ROW_REQUIRED | PF_ROW_NONZERO, -DBL_MAX, DBL_MAX,
     offsetof(pf_config_probe, pulse_amplitude), NULL,
     "height of the pulse in units of the command"},
    {"steps", PF_KIND_COUNT, 0, 1, 65536, offsetof(pf_config_probe, pulse_steps), NULL,
     "length of the pulse in control steps"},
    {"rows", PF_KIND_COUNT, 0, 1, 65536, offsetof(pf_config_probe, pulse_rows), NULL,
     "length of the probe in control steps, zero after the pulse; default: its steps"},
};
static const pf_schema pulse_object = {pulse_rows, PF_COUNT(pulse_rows), 0, 0, NULL, NULL};
static const pf_schema_shape pulse_shape = {.object = &pulse_object};

static const pf_schema_row probe_rows[] = {
    {"name", PF_KIND_NAME, PF_ROW_REQUIRED, 1, 64, offsetof(pf_config_probe, name), NULL,
     "what the probe is called"},
    {"command", PF_KIND_MATRIX, 0, 1, 65536, offsetof(pf_config_probe, command), &matrix_shape,
     "one row per control step, one number per mechanism"},
    {"pulse", PF_KIND_OBJECT, 0, 0, 0, 0, &pulse_shape, "a constant command to one mechanism"},
    {"policy", PF_KIND_NAME, 0, 1, 64, offsetof(pf_config_probe, policy), NULL,
     "a closed loop that the plant offers"},
    {"rows", PF_KIND_COUNT, 0, 1, 65536, offsetof(pf_config_probe, rows), NULL,
     "control steps of a policy; default: all of it"},
    {"charge", PF_KIND_NUMBER, PF_ROW_OPEN_MIN, 0, DBL_MAX, offsetof(pf_config_probe, charge), NULL,
     "what running the probe costs"},
    {"targets", PF_KIND_REFS, 0, 1, 256, offsetof(pf_config_probe, targets), &refs_shape,
     "names or indices of the mechanisms that it tests"},
};
static const pf_schema probe_object = ITEM(pf_config_probe, probe_rows, check_probe, "a probe");
static const pf_schema_shape probe_list = LIST_OF(probe_object, n_probes);

static const pf_schema_row task_rows[] = {
    {"name", PF_KIND_NAME, PF_ROW_REQUIRED, 1, 64, offsetof(pf_config_task, name), NULL,
     "what the task is called"},
    {"mechanisms", PF_KIND_REFS, 0, 1, 256, offsetof(pf_config_task, mechanisms), &refs_shape,
     "names or indices of the mechanisms that it uses"},
    {"command", PF_KIND_MATRIX, 0, 1, 65536, offsetof(pf_config_task, command), &matrix_shape,
     "one row per control step, one number per mechanism"},
    {"policy", PF_KIND_NAME, 0, 1, 64, offsetof(pf_config_task, policy), NULL,
     "a closed loop that the plant offers"},
    {"fallback", PF_KIND_NAME, 0, 1, 64, offsetof(pf_config_task, fallback), NULL,
     "what to do where the task is no-go; default: its uncorrected command"},
    {"reveal", PF_KIND_NUMBER, 0, 0, DBL_MAX, offsetof(pf_config_task, reveal), NULL,
     "how likely the task is asked for"},
    {"importance", PF_KIND_NUMBER, 0, 0, DBL_MAX, offsetof(pf_config_task, importance), NULL,
     "how much the task matters"},
};
static const pf_schema task_object = ITEM(pf_config_task, task_rows, check_task, "a task");
static const pf_schema_shape task_list = LIST_OF(task_object, n_tasks);

// rows of settings.def that are keys of a configuration, or of its budget
#define PF_CONFIG_ROW(field, key, type, field_kit, suite_default, least, most, ends, shape,        \
                      config, suite, kit, hash, group, help)                                       \
    PF_IN_##config(PF_SETTING_ROW(pf_config, field, key, type, least, most, ends, shape, help))

#define PF_IN_NO(...)
#define PF_IN_TOP(...)
#define PF_IN_BUDGET(...) __VA_ARGS__,
static const pf_schema_row budget_rows[] = {
#define PF_SETTING(...) PF_CONFIG_ROW(__VA_ARGS__)
#include "settings.def"
};
#undef PF_IN_TOP
#undef PF_IN_BUDGET
static const pf_schema budget_object = {budget_rows, PF_COUNT(budget_rows), 0, 0, NULL, NULL};
static const pf_schema_shape budget_shape = {.object = &budget_object};

static pf_status check_design_mechanism(const pf__yaml_node *node, const void *base,
                                        const char *path, pf_error *error)
{
    const pf_config_design_mechanism *m = base;
    return check_limits(node, m->lo, m->hi, path, error);
}

#define DESIGN_MECHANISM(field) offsetof(pf_config_design_mechanism, field)
static const pf_schema_row design_mechanism_rows[] = {
    {"name", PF_KIND_NAME, PF_ROW_REQUIRED, 1, 64, DESIGN_MECHANISM(name), NULL,
     "name or index of a candidate"},
    {"amplitude", PF_KIND_NUMBER, PF_ROW_NONZERO, -DBL_MAX, DBL_MAX, DESIGN_MECHANISM(amplitude),
     NULL, "largest command; default that of its pulse"},
    {"lo", PF_KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, DESIGN_MECHANISM(lo), NULL, "least command"},
    {"hi", PF_KIND_NUMBER, 0, -DBL_MAX, DBL_MAX, DESIGN_MECHANISM(hi), NULL, "greatest command"},
    {"rate", PF_KIND_NUMBER, PF_ROW_OPEN_MIN, 0, DBL_MAX, DESIGN_MECHANISM(rate), NULL,
     "most change of the command from one step to the next"},
    {"one_sided", PF_KIND_FLAG, 0, 0, 0, DESIGN_MECHANISM(one_sided), NULL,
     "whether it acts in the direction of its pulse only"},
    {"zero_integral", PF_KIND_FLAG, 0, 0, 0, DESIGN_MECHANISM(zero_integral), NULL,
     "whether its commands add up to zero"},
};
static const pf_schema design_mechanism_object =
    ITEM(pf_config_design_mechanism, design_mechanism_rows, check_design_mechanism,
         "what a mechanism may be asked for");
static const pf_schema_shape design_mechanism_list =
    LIST_OF(design_mechanism_object, design.n_mechanisms);

static const pf_schema_row design_output_rows[] = {
    {"channel", PF_KIND_NAME, PF_ROW_REQUIRED, 1, 64, offsetof(pf_config_design_output, channel),
     NULL, "name or index of a channel"},
    {"most", PF_KIND_NUMBER, PF_ROW_REQUIRED | PF_ROW_OPEN_MIN, 0, DBL_MAX,
     offsetof(pf_config_design_output, most), NULL, "how far a probe may move it, raw units"},
};
static const pf_schema design_output_object =
    ITEM(pf_config_design_output, design_output_rows, NULL, "how far an output may move");
static const pf_schema_shape design_output_list = LIST_OF(design_output_object, design.n_outputs);

// lists only: one name alone is no constraint
static const pf_schema_shape apart_names = {.element = &ref_element};
static const pf_schema_row apart_element = {
    "", PF_KIND_REFS, 0, 2, 256, 0, &apart_names, "mechanisms that never act together"};
static const pf_schema_shape apart_shape = {.element = &apart_element};

static const pf_schema_row design_rows[] = {
    {"target", PF_KIND_NUMBER, PF_ROW_OPEN_MIN, 0, 1e6, offsetof(pf_config, design.target), NULL,
     "separation that every candidate shall reach in one probe, in standard deviations"},
    {"steps", PF_KIND_COUNT, 0, 1, 256, offsetof(pf_config, design.steps), NULL,
     "control steps with a command; default as in the single pulse"},
    {"rate", PF_KIND_NUMBER, PF_ROW_OPEN_MIN, 0, DBL_MAX, offsetof(pf_config, design.rate), NULL,
     "most change of any command from one step to the next, in amplitudes"},
    {"one_sided", PF_KIND_FLAG, 0, 0, 0, offsetof(pf_config, design.one_sided), NULL,
     "whether all mechanisms act in the direction of their pulse only"},
    {"zero_integral", PF_KIND_FLAG, 0, 0, 0, offsetof(pf_config, design.zero_integral), NULL,
     "whether the commands of every mechanism add up to zero"},
    {"at_once", PF_KIND_COUNT, 0, 1, 256, offsetof(pf_config, design.at_once), NULL,
     "most mechanisms that one probe may move"},
    {"apart", PF_KIND_GROUPS, 0, 1, 4096, offsetof(pf_config, design.apart), &apart_shape,
     "mechanisms that never act together"},
    {"mechanisms", PF_KIND_LIST, 0, 1, 256, offsetof(pf_config, design.mechanisms),
     &design_mechanism_list, "what single mechanisms may be asked for"},
    {"excursion", PF_KIND_LIST, 0, 1, 4096, offsetof(pf_config, design.outputs),
     &design_output_list, "how far named outputs may move"},
    {"with_singles", PF_KIND_FLAG, 0, 0, 0, offsetof(pf_config, design.with_singles), NULL,
     "whether the single pulses go into the library too"},
    {"starts", PF_KIND_COUNT, 0, 1, 1000, offsetof(pf_config, design.starts), NULL,
     "starts of the exchange"},
    {"episodes", PF_KIND_COUNT, 0, 20, 100000, offsetof(pf_config, design.episodes), NULL,
     "nominal episodes that confirm a probe"},
};
static const pf_schema design_object = {design_rows, PF_COUNT(design_rows), 0, 0, NULL, NULL};
static const pf_schema_shape design_shape = {.object = &design_object};

#define PF_IN_TOP(...) __VA_ARGS__,
#define PF_IN_BUDGET(...)
static const pf_schema_row config_rows[] = {
    {"plant", PF_KIND_TEXT, 0, 1, 4096, offsetof(pf_config, plant), NULL, "name of the plant"},
    {"mechanisms", PF_KIND_LIST, 0, 1, 256, offsetof(pf_config, mechanisms), &mechanism_list,
     "what can be commanded, current one first"},
    {"channels", PF_KIND_LIST, 0, 1, 4096, offsetof(pf_config, channels), &channel_list,
     "what is measured"},
    {"probes", PF_KIND_LIST, 0, 1, 4096, offsetof(pf_config, probes), &probe_list,
     "experiments that may be run"},
    {"tasks", PF_KIND_LIST, 0, 1, 4096, offsetof(pf_config, tasks), &task_list,
     "what the machine is needed for"},
    {"budget", PF_KIND_OBJECT, 0, 0, 0, 0, &budget_shape, "how many probes may be run"},
    {"design", PF_KIND_OBJECT, 0, 0, 0, 0, &design_shape, "constraints of designed probes"},
#define PF_SETTING(...) PF_CONFIG_ROW(__VA_ARGS__)
#include "settings.def"
};
static const pf_schema config_object = {config_rows, PF_COUNT(config_rows), sizeof(pf_config),
                                        0,           check_config,          NULL};

void pf__config_free(pf_config *config)
{
    if (config != NULL) {
        pf__schema_free(&config_object, config);
        free(config->file);
        memset(config, 0, sizeof *config);
    }
}

bool pf__config_supported(void)
{
    return pf__yaml_supported();
}

pf_status pf__config_read(pf_config *config, const char *file, const char *text, size_t n,
                          const char *const *overrides, int n_overrides, pf_error *error)
{
    memset(config, 0, sizeof *config);
    pf__settings_clear(&config->settings);
    const char *called = file != NULL ? file : "--set";
    config->file = pf__yaml_copy(called, strlen(called));
    if (config->file == NULL) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: not enough memory to read it", called);
    }
    pf_status status = pf__schema_read(&config_object, "the configuration", called, text, n,
                                       overrides, n_overrides, config, error);
    if (status != PF_OK) {
        pf__config_free(config);
    }
    return status;
}
