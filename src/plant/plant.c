// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plant/mujoco/mujoco.h"

#include "plant/native/native.h"
#include "core/kit_layout.h"
#include "plant_impl.h"
#include "host/arena.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define X(name) &pf_plant_##name,
static const pf_plant_class *const registry[] = {PF_NATIVE_PLANTS(X)};
#undef X

int pf_plant_count(void)
{
    return (int)(sizeof registry / sizeof registry[0]);
}

const pf_plant_class *pf_plant_at(int index)
{
    return index >= 0 && index < pf_plant_count() ? registry[index] : NULL;
}

static pf_status native_roll(pf_plant *plant, const pf_roll *roll, const pf_trace *trace,
                             pf_error *error)
{
    double knob[PF_KNOBS_MAX];
    memcpy(knob, plant->knob, sizeof knob);
    for (int i = 0; i < roll->n_faults; i++) {
        if (roll->faults[i].kind == PF_FAULT_KNOB) {
            knob[roll->faults[i].at] = roll->faults[i].value;
        }
    }
    return pf__native_roll(plant->self, knob, roll, trace, error);
}

static pf_status native_roll_many(pf_plant *plant, int n, const pf_roll *rolls,
                                  const pf_trace *traces, pf_error *error)
{
    return pf__native_roll_many(plant->self, plant->knob, n, rolls, traces, error);
}

static pf_status native_clone(const pf_plant *plant, pf_plant **copy, pf_error *error)
{
    pf_status status = pf_plant_from_class(copy, plant->self, error);
    if (status == PF_OK) {
        memcpy((*copy)->knob, plant->knob, sizeof plant->knob);
    }
    return status;
}

static void native_destroy(pf_plant *plant)
{
    (void)plant; // the class is the caller's
}

static const pf_plant_ops native_ops = {.native = true,
                                        .steps_faults = true,
                                        .roll = native_roll,
                                        .roll_many = native_roll_many,
                                        .clone = native_clone,
                                        .destroy = native_destroy};

// --- names

static pf_status name_check(const pf_plant_info *info, const char *what, const char *name,
                            pf_error *error)
{
    size_t n = name ? strlen(name) : 0;
    return n < INT_MAX && (n == 0 || pf__kit_may_say(name, (int)n))
               ? PF_OK
               : pf_fail(error, PF_ERR_PLANT,
                         "plant %s: its %s '%s' holds a control character or is not UTF-8",
                         info->name, what, name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Names of one kind: fit for a kit, and no two of them the same.
static pf_status list_check(const pf_plant_info *info, const char *what, int n, const char **names,
                            pf_error *error)
{
    pf_status status = PF_OK;
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = name_check(info, what, names[i], error);
    }
    qsort(names, (size_t)n, sizeof *names, compare_names);
    for (int i = 1; i < n && status == PF_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            status =
                pf_fail(error, PF_ERR_PLANT, "plant %s: two of its %ss have the same name '%s'",
                        info->name, what, names[i]);
        }
    }
    return status;
}

pf_status pf__plant_check_names(const pf_plant_info *info, pf_error *error)
{
    int most = info->n_mech > info->n_chan ? info->n_mech : info->n_chan;
    const char **names = malloc((size_t)most * sizeof *names);
    if (!names) {
        return pf_fail(error, PF_ERR_MEMORY, "plant %s: out of memory for its names", info->name);
    }
    const struct {
        const char *what, *name;
    } own[] = {{"name", info->name}, {"environment", info->environment}, {"version", info->source}};
    pf_status status = PF_OK;
    for (int i = 0; i < 3 && status == PF_OK; i++) {
        status = name_check(info, own[i].what, own[i].name, error);
    }
    for (int j = 0; j < info->n_mech; j++) {
        names[j] = info->mechanisms[j].name;
    }
    status = status ? status : list_check(info, "mechanism", info->n_mech, names, error);
    for (int c = 0; c < info->n_chan; c++) {
        names[c] = info->channels[c].name;
    }
    status = status ? status : list_check(info, "channel", info->n_chan, names, error);
    for (int p = 0; p < info->n_policies && status == PF_OK; p++) {
        status = name_check(info, "task", info->policies[p].name, error);
    }
    free(names);
    return status;
}

// --- native plants

static pf_status class_check(const pf_plant_class *c, pf_error *error)
{
    const pf_plant_info *info = &c->info;
    const char *name = info->name ? info->name : "(unnamed)";
    if (info->n_mech < 2 || info->n_mech > PF_NATIVE_MECH || info->n_chan < 1 ||
        info->n_state < 1 || info->n_state > PF_NATIVE_STATE || c->n_wind < 0 ||
        c->n_wind > PF_NATIVE_WIND || info->n_knobs > PF_KNOBS_MAX) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "plant %s: needs 2 to %d mechanisms, 1 to %d states, at least one channel, "
                       "at most %d disturbances and %d knobs",
                       name, PF_NATIVE_MECH, PF_NATIVE_STATE, PF_NATIVE_WIND, PF_KNOBS_MAX);
    }
    if (!info->name || !info->mechanisms || !info->channels || !c->reset || !c->output ||
        (!c->derivative && !c->advance) || (c->n_wind > 0 && (!c->wind_phi || !c->wind_sd))) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "plant %s: name, mechanisms, channels, reset, output, derivative or advance "
                       "and the disturbance law must be set",
                       name);
    }
    if (info->n_policies > 0 && (!c->loops || !c->loops->command || !c->loops->score)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "plant %s: policies need `loops` with their command and score", name);
    }
    if (info->n_faults > 0) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "plant %s: a native plant declares no faults; make them knobs", name);
    }
    if (!c->advance && (c->substeps < 1 || !(info->dt_s > 0))) {
        return pf_fail(error, PF_ERR_ARGUMENT, "plant %s: needs dt_s > 0 and substeps >= 1", name);
    }
    return pf__plant_check_names(info, error);
}

// Faults that native physics carries: only one with a disturbance can have more of it, and only one
// that is integrated can be slower.
static void class_faults(const pf_plant_class *c, pf_plant_info *info)
{
    static const pf_plant_fault all[] = {
#define X(code, name, place, measure, least, most, otherwise, line)                                \
    [code] = {name, line, least, most},
        PF_FAULT_LIST(X)
#undef X
    };
    _Static_assert(PF_FAULT_TIME_CONSTANT == PF_FAULT_DISTURBANCE + 1, "both are one list");
    bool slower = !c->advance, windy = c->n_wind > 0;
    info->faults = windy ? &all[PF_FAULT_DISTURBANCE] : &all[PF_FAULT_TIME_CONSTANT];
    info->n_faults = (windy ? 1 : 0) + (slower ? 1 : 0);
}

pf_status pf_plant_from_class(pf_plant **plant, const pf_plant_class *plant_class, pf_error *error)
{
    *plant = NULL;
    pf_status status = class_check(plant_class, error);
    if (status != PF_OK) {
        return status;
    }
    pf_plant *p = calloc(1, sizeof *p);
    if (!p) {
        return pf_fail(error, PF_ERR_MEMORY, "plant %s: out of memory", plant_class->info.name);
    }
    p->ops = &native_ops;
    p->info = plant_class->info;
    class_faults(plant_class, &p->info);
    p->self = (void *)(uintptr_t)plant_class; // read only
    for (int i = 0; i < p->info.n_knobs; i++) {
        p->knob[i] = p->info.knobs[i].value;
    }
    *plant = p;
    return PF_OK;
}

static const char *const domains[][2] = {
#define X(name, title) {#name, title},
    PF_DOMAIN_PLANTS(X)
#undef X
};

const char *pf__plant_domain_at(int index, const char **title)
{
    bool there = index >= 0 && index < (int)(sizeof domains / sizeof domains[0]);
    *title = there ? domains[index][1] : NULL;
    return there ? domains[index][0] : NULL;
}

static bool is_domain(const char *name)
{
    const char *title, *known;
    for (int i = 0; (known = pf__plant_domain_at(i, &title)) != NULL; i++) {
        if (strcmp(known, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_fmu(const char *name)
{
    return strncmp(name, PF_FMU_PREFIX, strlen(PF_FMU_PREFIX)) == 0;
}

bool pf__plant_is_process(const char *name)
{
    return strncmp(name, "exec:", 5) == 0 || strncmp(name, "gym:", 4) == 0 || is_fmu(name) ||
           is_domain(name);
}

bool pf__plant_runs_code(const char *name)
{
    bool gym = strncmp(name, "gym:", 4) == 0;
    return strncmp(name, "exec:", 5) == 0 || is_fmu(name) || (gym && strchr(name + 4, ':'));
}

bool pf__plant_is_mujoco(const char *name)
{
    return pf__mujoco_find(name) != NULL ||
           strncmp(name, PF_MUJOCO_PREFIX, strlen(PF_MUJOCO_PREFIX)) == 0;
}

const char *pf__plant_about(const pf_plant *plant, int mechanism)
{
    const char *words = plant->ops->about ? plant->ops->about(plant, mechanism) : NULL;
    return words ? words : "";
}

const char *pf__loss_name(pf_loss loss)
{
    return loss == PF_LOSS_FORCE ? "force" : "command";
}

bool pf__plant_loses_force(const pf_plant_info *info, int mechanism)
{
    return info->losses && info->losses[mechanism] == PF_LOSS_FORCE;
}

pf_status pf_plant_create(pf_plant **plant, const char *name, pf_error *error)
{
    return pf_plant_create_in(plant, name, NULL, error);
}

pf_status pf_plant_create_in(pf_plant **plant, const char *name, const char *folder,
                             pf_error *error)
{
    return pf__plant_create(plant, name, folder, NULL, error);
}

static pf_status create(pf_plant **plant, const char *name, const char *folder,
                        const volatile int *stop, pf_error *error)
{
    for (int i = 0; i < pf_plant_count(); i++) {
        if (strcmp(registry[i]->info.name, name) == 0) {
            return pf_plant_from_class(plant, registry[i], error);
        }
    }
    const pf_mujoco_system *system = pf__mujoco_find(name);
    if (system) {
        return pf__mujoco_create(plant, system, error);
    }
    if (pf__plant_is_mujoco(name)) {
        return pf__mujoco_create_file(plant, name + strlen(PF_MUJOCO_PREFIX), error);
    }
    if (strncmp(name, "exec:", 5) == 0) {
        return pf__bridge_create(plant, name + 5, folder, stop, error);
    }
    if (is_fmu(name)) {
        return pf__fmu_create(plant, name + strlen(PF_FMU_PREFIX), stop, error);
    }
    if (strncmp(name, "gym:", 4) == 0) {
        return pf__gym_create(plant, name + 4, stop, error);
    }
    if (is_domain(name)) {
        return pf__domain_create(plant, name, stop, error);
    }
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "no plant is called '%s'; `preflight list plants` shows what there is", name);
}

pf_status pf__plant_create(pf_plant **plant, const char *name, const char *folder,
                           const volatile int *stop, pf_error *error)
{
    *plant = NULL;
    pf_status status = create(plant, name, folder, stop, error);
    status = status ? status : pf__plant_check_names(pf_plant_get_info(*plant), error);
    if (status != PF_OK) {
        pf_plant_destroy(*plant);
        *plant = NULL;
    }
    return status;
}

pf_status pf_plant_clone(const pf_plant *plant, pf_plant **copy, pf_error *error)
{
    return plant->ops->clone(plant, copy, error);
}

void pf_plant_destroy(pf_plant *plant)
{
    if (plant) {
        plant->ops->destroy(plant);
        free(plant);
    }
}

static const char *const kind_names[] = {
    [PF_CHANNEL_PLAIN] = "plain",
    [PF_CHANNEL_ANGLE] = "angle",
    [PF_CHANNEL_QUATERNION] = "quaternion",
};

const char *pf__channel_kind_name(pf_channel_kind kind)
{
    return kind_names[kind];
}

bool pf__channel_kind_find(const char *name, pf_channel_kind *kind)
{
    for (int k = PF_CHANNEL_PLAIN; k <= PF_CHANNEL_QUATERNION; k++) {
        if (strcmp(name, kind_names[k]) == 0) {
            *kind = (pf_channel_kind)k;
            return true;
        }
    }
    return false;
}

const pf_plant_info *pf_plant_get_info(const pf_plant *plant)
{
    return &plant->info;
}

const char *pf_plant_environment(const pf_plant_info *info)
{
    return info->environment ? info->environment : info->name;
}

pf_status pf_plant_set_knob(pf_plant *plant, const char *name, double value, pf_error *error)
{
    for (int i = 0; i < plant->info.n_knobs; i++) {
        if (strcmp(plant->info.knobs[i].name, name) == 0 && isfinite(value)) {
            plant->knob[i] = value;
            return PF_OK;
        }
    }
    return pf_fail(error, PF_ERR_ARGUMENT, "plant %s has no knob '%s' that could be %g",
                   plant->info.name, name, value);
}

void pf_plant_set_timeouts(pf_plant *plant, double hello_s, double roll_s)
{
    if (plant->ops->set_timeouts) {
        plant->ops->set_timeouts(plant, hello_s, roll_s);
    }
}

pf_status pf__plant_load_state(pf_plant *plant, int n, const double *values, double *state,
                               pf_error *error)
{
    const pf_plant_info *info = &plant->info;
    for (int i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return pf_fail(error, PF_ERR_NONFINITE,
                           "plant %s: number %d of the state is not finite", info->name, i);
        }
    }
    if (n == info->n_state) {
        memcpy(state, values, sizeof(double) * (size_t)n);
        return PF_OK;
    }
    if (plant->ops->state_from) {
        return plant->ops->state_from(plant, n, values, state, error);
    }
    return pf_fail(error, PF_ERR_SHAPE, "plant %s: a state has %d numbers, not %d", info->name,
                   info->n_state, n);
}

pf_roll pf_roll_default(void)
{
    return (pf_roll){.policy = -1};
}

static pf_status gains_check(const pf_plant_info *info, const double *gains, pf_error *error)
{
    for (int j = 0; gains && j < info->n_mech; j++) {
        if (!(gains[j] >= 0 && gains[j] < 1e6)) {
            return pf_fail(error, PF_ERR_ARGUMENT, "gain %g of mechanism %d is out of range",
                           gains[j], j);
        }
    }
    return PF_OK;
}

// The command as the faults of the mechanisms leave it, to be freed with free(); NULL: no memory.
static double *faulty_command(const pf_plant_info *info, const pf_roll *roll)
{
    size_t n_mech = (size_t)info->n_mech, n = (size_t)roll->rows * n_mech;
    double *command = malloc((n + 1) * sizeof *command);
    pf_fault_state *states = calloc((size_t)roll->n_faults, sizeof *states);
    if (command && states) {
        memcpy(command, roll->command, n * sizeof *command);
        for (int r = 0; r < roll->rows; r++) {
            pf__fault_step(roll->faults, roll->n_faults, info->mechanisms, states,
                           command + (size_t)r * n_mech);
        }
    } else {
        free(command);
        command = NULL;
    }
    free(states);
    return command;
}

int pf__plant_policy(const pf_plant_info *info, const char *name)
{
    int i = name[0] ? info->n_policies - 1 : -1;
    while (i >= 0 && strcmp(info->policies[i].name, name) != 0) {
        i--;
    }
    return i;
}

static pf_status faulty_roll(pf_plant *plant, const pf_roll *roll, const pf_trace *trace,
                             pf_error *error)
{
    const pf_plant_info *info = &plant->info;
    double gains[PF_MECH_MAX], *command = NULL;
    pf_status status = pf_fault_check(roll->faults, roll->n_faults, info, error);
    if (status != PF_OK) {
        return status;
    }
    bool moves = !plant->ops->steps_faults && pf__fault_moves(roll->faults, roll->n_faults);
    if (moves && roll->policy >= 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "plant %s: its policy %s runs inside the plant, where only gains and the "
                       "faults that it declares can act; use a task that is a command sequence",
                       info->name, info->policies[roll->policy].name);
    }
    pf__fault_gains(roll->faults, roll->n_faults, info->n_mech, roll->key, roll->gains, gains);
    status = gains_check(info, gains, error);
    if (status != PF_OK) {
        return status;
    }
    pf_roll faulty = *roll;
    faulty.gains = gains;
    if (moves && roll->rows > 0) {
        command = faulty_command(info, roll);
        faulty.command = command;
        if (!command) {
            return pf_fail(error, PF_ERR_MEMORY, "plant %s: out of memory for its faults",
                           info->name);
        }
    }
    status = plant->ops->roll(plant, &faulty, trace, error);
    free(command);
    return status;
}

// A trajectory that rests before its first command: one of lead + rows, of which the end is shown.
// What was read before the command comes from a second one, whose sensors are exact.
static pf_status roll_after(pf_plant *plant, const pf_roll *given, const pf_trace *trace,
                            pf_error *error)
{
    const pf_plant_info *info = &plant->info;
    size_t lead = (size_t)given->lead, rows = (size_t)given->rows, d = sizeof(double);
    size_t mech = (size_t)info->n_mech, chan = (size_t)info->n_chan, state = (size_t)info->n_state;
    if (given->policy >= 0) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "plant %s: its policy %s cannot rest first",
                       info->name, info->policies[given->policy].name);
    }
    pf_arena arena = {0};
    double *command = pf__arena_take(&arena, (lead + rows) * mech, d);
    double *output = pf__arena_take(&arena, (lead + rows) * chan, d);
    double *states = trace->state ? pf__arena_take(&arena, (lead + rows) * state, d) : NULL;
    if (arena.failed) {
        pf__arena_free(&arena);
        return pf_fail(error, PF_ERR_MEMORY, "plant %s: out of memory for a trajectory",
                       info->name);
    }
    if (rows > 0) {
        memcpy(command + lead * mech, given->command, rows * mech * d);
    }
    pf_roll roll = *given;
    roll.lead = 0;
    roll.rows = given->lead;
    roll.command = command;
    roll.sensor_noise = 0;
    pf_trace before = {.start = trace->start,
                       .initial = trace->initial,
                       .output = trace->initial ? trace->initial + chan : output};
    pf_status status = pf_plant_roll(plant, &roll, &before, error);
    roll.rows = given->lead + given->rows;
    roll.sensor_noise = given->sensor_noise;
    pf_trace whole = {.output = output, .state = states};
    if (status == PF_OK && rows > 0) {
        status = pf_plant_roll(plant, &roll, &whole, error);
    }
    if (status == PF_OK && trace->output && rows > 0) {
        memcpy(trace->output, output + lead * chan, rows * chan * d);
    }
    if (status == PF_OK && states) {
        memcpy(trace->state, states + lead * state, rows * state * d);
    }
    pf__arena_free(&arena);
    return status;
}

static pf_status roll_check(const pf_plant_info *info, const pf_roll *roll, pf_error *error)
{
    if (roll->rows < 0 || roll->lead < 0 ||
        ((double)roll->rows + roll->lead) * info->n_chan > PF_TRACE_MAX) {
        return pf_fail(error, PF_ERR_ARGUMENT, "plant %s: %d rows are out of range", info->name,
                       roll->rows);
    }
    if (roll->policy >= info->n_policies) {
        return pf_fail(error, PF_ERR_ARGUMENT, "plant %s offers no policy %d", info->name,
                       roll->policy);
    }
    if (roll->policy < 0 && roll->rows > 0 && !roll->command) {
        return pf_fail(error, PF_ERR_ARGUMENT, "plant %s: %d rows, but no command", info->name,
                       roll->rows);
    }
    for (int i = 0; roll->policy < 0 && i < roll->rows * info->n_mech; i++) {
        if (!isfinite(roll->command[i])) {
            return pf_fail(error, PF_ERR_NONFINITE, "command: row %d, mechanism %d is not finite",
                           i / info->n_mech, i % info->n_mech);
        }
    }
    return gains_check(info, roll->gains, error);
}

pf_status pf_plant_roll(pf_plant *plant, const pf_roll *roll, const pf_trace *trace,
                        pf_error *error)
{
    pf_status status = roll_check(&plant->info, roll, error);
    if (status != PF_OK) {
        return status;
    }
    if (roll->lead > 0) {
        return roll_after(plant, roll, trace, error);
    }
    return roll->n_faults > 0 ? faulty_roll(plant, roll, trace, error)
                              : plant->ops->roll(plant, roll, trace, error);
}

bool pf__plant_rolls_many(const pf_plant *plant)
{
    return plant->ops->roll_many != NULL;
}

pf_status pf__plant_roll_many(pf_plant *plant, int n, const pf_roll *rolls, const pf_trace *traces,
                              pf_error *error)
{
    bool together = pf__plant_rolls_many(plant);
    pf_status status = PF_OK;
    for (int i = 0; i < n && together; i++) {
        // what is wrong with one is told when its turn comes
        together = rolls[i].lead == 0 && rolls[i].n_faults == 0 &&
                   roll_check(&plant->info, &rolls[i], NULL) == PF_OK;
    }
    if (together) {
        return plant->ops->roll_many(plant, n, rolls, traces, error);
    }
    for (int i = 0; i < n && status == PF_OK; i++) {
        status = pf_plant_roll(plant, &rolls[i], &traces[i], error);
    }
    return status;
}

pf_status pf__plant_forecast(pf_plant *plant, const pf_forecast *forecast, double *returns,
                             double *beyond, pf_error *error)
{
    const pf_plant_info *info = &plant->info;
    if (!plant->ops->forecast || info->n_metrics == 0 || forecast->policy < 0 ||
        forecast->policy >= info->n_policies) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "plant %s forecasts no policy %d", info->name,
                       forecast->policy);
    }
    return plant->ops->forecast(plant, forecast, returns, beyond, error);
}

void pf__pulse_command(const pf_pulse *pulse, int n_mech, int mechanism, double *command)
{
    for (int r = 0; r < pulse->rows; r++) {
        for (int j = 0; j < n_mech; j++) {
            double sign = pulse->doublet && r >= pulse->steps / 2 ? -1 : 1;
            bool active = j == mechanism && r < pulse->steps;
            command[r * n_mech + j] = active ? sign * pulse->amplitude[j] : 0;
        }
    }
}
