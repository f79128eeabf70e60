// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_layout.h"

#include "constants.h"
#include "sha256.h"

#include <math.h>
#include <string.h>

// --- names and shapes

static const char *string_at(const pf_kit *kit, int index)
{
    return kit->text + kit->name[index];
}

const char *pf_kit_get_string(const pf_kit *kit, pf_kit_string which)
{
    return string_at(kit, (int)which);
}

const char *pf_kit_mechanism_name(const pf_kit *kit, int mechanism)
{
    return string_at(kit, PF_KIT_STRINGS + mechanism);
}

const char *pf_kit_channel_name(const pf_kit *kit, int channel)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + channel);
}

const char *pf_kit_probe_name(const pf_kit *kit, int probe)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + probe);
}

const char *pf_kit_task_name(const pf_kit *kit, int task)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes + task);
}

const char *pf_kit_task_policy(const pf_kit *kit, int task)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes +
                              kit->n_tasks + task);
}

const char *pf_kit_task_fallback(const pf_kit *kit, int task)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes +
                              2 * kit->n_tasks + task);
}

const char *pf_kit_method_id(const pf_kit *kit, int method)
{
    return string_at(kit, PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes +
                              3 * kit->n_tasks + method);
}

// Strings of a kit without closed loops among its probes.
static int open_names(const pf_kit *kit)
{
    return PF_KIT_STRINGS + kit->n_mech + kit->n_chan + kit->n_probes + 3 * kit->n_tasks +
           kit->n_methods;
}

const char *pf_kit_probe_policy(const pf_kit *kit, int probe)
{
    int n = open_names(kit);
    return kit->n_names > n ? string_at(kit, n + probe) : "";
}

const char *pf_kit_folder(const pf_kit *kit)
{
    int n = open_names(kit) + kit->n_probes;
    return kit->n_names > n ? string_at(kit, n) : "";
}

bool pf__kit_starts_from_channels(const pf_kit *kit)
{
    return strcmp(pf_kit_get_string(kit, PF_KIT_PREDICTOR), "ensemble") == 0;
}

bool pf_kit_loses_force(const pf_kit *kit, int mechanism)
{
    return kit->n_force > 0 && kit->loss[mechanism] != 0;
}

int pf_kit_probe_rows(const pf_kit *kit, int probe)
{
    return kit->probe_row[probe + 1] - kit->probe_row[probe];
}

int pf_kit_task_rows(const pf_kit *kit, int task)
{
    return kit->task_row[task + 1] - kit->task_row[task];
}

int pf__kit_most_rows(const pf_kit *kit)
{
    int most = 0;
    for (int q = 0; q < kit->n_probes; q++) {
        int rows = pf_kit_probe_rows(kit, q);
        most = rows > most ? rows : most;
    }
    return most;
}

int pf_kit_probe_targets(const pf_kit *kit, int probe, const int32_t **mechanisms)
{
    if (mechanisms) {
        *mechanisms = kit->target_mech + kit->probe_target[probe];
    }
    return kit->probe_target[probe + 1] - kit->probe_target[probe];
}

int pf__kit_most_targets(const pf_kit *kit)
{
    int most = 0;
    for (int q = 0; q < kit->n_probes; q++) {
        int n = pf_kit_probe_targets(kit, q, NULL);
        most = n > most ? n : most;
    }
    return most;
}

const double *pf_kit_probe_command(const pf_kit *kit, int probe)
{
    return pf_kit_probe_policy(kit, probe)[0]
               ? NULL
               : kit->command + (size_t)kit->probe_row[probe] * (size_t)kit->n_mech;
}

double pf_kit_probe_charge(const pf_kit *kit, int probe)
{
    return kit->charge[probe];
}

const double *pf_kit_probe_sigma(const pf_kit *kit, int probe)
{
    return kit->sigma + kit->probe_target[probe];
}

const double *pf_kit_task_command(const pf_kit *kit, int task)
{
    return kit->task_command + (size_t)kit->task_row[task] * (size_t)kit->n_mech;
}

int pf_kit_task_mechanisms(const pf_kit *kit, int task, const int32_t **mechanisms)
{
    if (mechanisms) {
        *mechanisms = kit->use_mech + kit->task_use[task];
    }
    return kit->task_use[task + 1] - kit->task_use[task];
}

double pf_kit_task_reveal(const pf_kit *kit, int task)
{
    return kit->task_reveal[task];
}

double pf_kit_task_importance(const pf_kit *kit, int task)
{
    return kit->task_importance[task];
}

double pf_kit_threshold(const pf_kit *kit, int method)
{
    return kit->threshold[method];
}

pf_kit_info pf_kit_get_info(const pf_kit *k)
{
    return (pf_kit_info){
        .n_mech = k->n_mech,
        .n_chan = k->n_chan,
        .n_state = k->n_state,
        .n_grid = k->n_grid,
        .n_bins = k->n_bins,
        .n_probes = k->n_probes,
        .n_tasks = k->n_tasks,
        .n_methods = k->n_methods,
        .most_rows = pf__kit_most_rows(k),
        .most_targets = pf__kit_most_targets(k),
        .lo = k->lo,
        .hi = k->hi,
        .grid = k->grid,
        .prior = k->prior,
        .return_scale = k->return_scale,
        .g_cal = k->g_cal,
        .hazard = k->hazard,
        .alpha = k->alpha,
        .j_min = k->j_min,
        .sensor_noise = k->sensor_noise,
        .statistic = (pf_statistic)k->statistic,
        .faults = (pf_faults)k->faults,
        .rules = {.stop = (pf_stop)k->stop,
                  .field = k->field != 0,
                  .budget1 = k->budget1,
                  .budget2 = k->budget2,
                  .budget3 = k->budget3,
                  .rehearse = (pf_rehearse)k->rehearse,
                  .rehearsals = k->rehearsals},
        .recorded = k->n_response > 0,
        .starts_from_channels = pf__kit_starts_from_channels(k),
        .sensed_start = k->sensed_start != 0,
        .joint_posterior = k->posterior == PF_POSTERIOR_JOINT && k->n_knots > 0 && k->field,
        .rehearsable = k->n_rehearse > 0,
        .rehearsal_rows = pf__kit_rehearsal_rows(k),
        .alarm_checks = (int)k->alarm_checks,
        .alarm_false = (int)k->alarm_false,
        .tolerance = k->tolerance,
        .episodes = k->episodes,
        .alarm_trials = k->alarm_trials,
        .seed = (uint64_t)k->seed,
        .sha256 = k->sha256,
    };
}

pf_channel_row pf__kit_channel(const pf_kit *kit, int target)
{
    size_t row = (size_t)target * (size_t)kit->n_bins;
    return (pf_channel_row){kit->n_bins, kit->edges + (size_t)target * (size_t)(kit->n_bins - 1),
                            kit->nominal + row, kit->changed + row};
}

size_t pf__kit_look(const pf_kit *kit, int probe)
{
    size_t at = 0;
    for (int q = 0; q < probe; q++) {
        size_t n = (size_t)pf_kit_probe_targets(kit, q, NULL);
        at += n * (1 + n * (size_t)kit->n_knots);
    }
    return at;
}

int pf__kit_rehearsal_rows(const pf_kit *kit)
{
    int most = 0;
    for (int t = 0; t < kit->n_rehearse; t++) {
        most = kit->rehearsal_rows[t] > most ? kit->rehearsal_rows[t] : most;
    }
    return most;
}

int pf__kit_run_rows(const pf_kit *k, int which)
{
    if (which < k->n_tasks) {
        return k->rehearsal_rows[which];
    }
    int group = which - k->n_tasks, most = 0;
    for (int i = k->group_first[group]; i < k->group_first[group + 1]; i++) {
        int rows = k->rehearsal_rows[k->group_task[i]];
        most = rows > most ? rows : most;
    }
    return most;
}

const double *pf__kit_blind(const pf_kit *k, int which, int *n)
{
    if (k->n_blind == 0) {
        *n = 0;
        return NULL;
    }
    int numbers = pf__kit_run_rows(k, which) * k->n_chan, first = k->blind_first[which];
    *n = numbers > 0 ? (k->blind_first[which + 1] - first) / numbers : 0;
    return k->blind + first;
}

const double *pf__kit_whiten(const pf_kit *kit, int probe)
{
    int64_t at = 0;
    if (kit->n_whiten == 0) {
        return NULL;
    }
    for (int q = 0; q < probe; q++) {
        at += pf__whiten_size(pf_kit_probe_rows(kit, q) * kit->n_chan);
    }
    return kit->whiten + at;
}

// --- rules

// Largest dimensions that are believed. Together they keep every product below 2^62.
#define DIM_MAX (1 << 26)
#define WINDOW_MAX (1 << 24)
#define MECH_MAX 256
#define BINS_MAX 64
#define GRID_MAX 256
#define KNOTS_MAX 64

static pf_status ranges_check(const pf_kit *k, pf_error *error)
{
#define X(field)                                                                                   \
    if (k->field < 0 || k->field > DIM_MAX) {                                                      \
        return pf_fail(error, PF_ERR_FORMAT, "kit: %s is %d, out of range", #field,                \
                       (int)k->field);                                                             \
    }
    PF_KIT_DIMS(X)
#undef X
    struct {
        const char *name;
        int value, lo, hi;
    } rules[] = {
        {"n_mech", k->n_mech, 2, MECH_MAX},
        {"n_chan", k->n_chan, 1, 4096},
        {"n_state", k->n_state, 0, 65536},
        {"n_grid", k->n_grid, 2, GRID_MAX},
        {"n_bins", k->n_bins, 2, BINS_MAX},
        {"n_probes", k->n_probes, 1, 4096},
        {"n_targets", k->n_targets, k->n_probes, 65536},
        {"n_rows", k->n_rows, k->n_probes, 1 << 20},
        {"n_tasks", k->n_tasks, 1, 4096},
        {"n_uses", k->n_uses, k->n_tasks, 65536},
        {"n_task_rows", k->n_task_rows, 0, 1 << 20},
        {"n_shares", k->n_shares, 2, 4096},
        {"n_members", k->n_members, 1, 4096},
        {"n_methods", k->n_methods, 1, 64},
        {"n_text", k->n_text, 1, 1 << 24},
        {"statistic", k->statistic, 0, 1},
        {"n_scale", k->n_scale, 1, 1 << 20},
        {"n_knots", k->n_knots, 0, KNOTS_MAX},
        {"n_groups", k->n_groups, 0, k->n_rehearse},
        {"n_grouped", k->n_grouped, 0, k->n_rehearse},
        {"n_force", k->n_force, 0, 4 * WINDOW_MAX},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].value < rules[i].lo || rules[i].value > rules[i].hi) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: %s is %d, must be %d to %d", rules[i].name,
                           rules[i].value, rules[i].lo, rules[i].hi);
        }
    }
    return PF_OK;
}

pf_status pf__kit_check_dims(const pf_kit *k, pf_error *error)
{
    pf_status s = ranges_check(k, error);
    if (s != PF_OK) {
        return s;
    }
    int names = open_names(k);
    if (k->n_names != names && k->n_names != names + k->n_probes &&
        k->n_names != names + k->n_probes + 1) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: n_names is %d, must be %d", (int)k->n_names,
                       names);
    }
    // what is multiplied later must stay within an int, also on a 32-bit board
    if ((int64_t)k->n_rows * k->n_chan > WINDOW_MAX ||
        (int64_t)k->n_rows * k->n_mech > WINDOW_MAX ||
        (int64_t)k->n_task_rows * k->n_mech > WINDOW_MAX ||
        (int64_t)k->n_uses * k->n_grid * k->n_members > WINDOW_MAX ||
        (int64_t)k->n_uses * k->n_shares * k->n_members > 4 * (int64_t)WINDOW_MAX) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: rows, channels, members or tasks are too many");
    }
    int64_t force = (int64_t)k->n_uses * k->n_members * PF_FORCE_GAINS * PF_FORCE_CORRECTIONS;
    if (k->n_force != 0 && k->n_force != force) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: n_force must be 0 or one table per use and member");
    }
    if (k->n_curve != 0 && k->n_curve != k->n_targets) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: n_curve must be 0 or the number of targets");
    }
    if (k->n_reach != 0 && k->n_reach != k->n_uses) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: n_reach must be 0 or the number of mechanisms used by the tasks");
    }
    if (k->n_response != 0 && k->n_response != k->n_rows) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: n_response must be 0 or the number of rows");
    }
    struct {
        const char *name;
        int value, whole;
    } parts[] = {{"n_misfit", k->n_misfit, k->n_rows},
                 {"n_rehearse", k->n_rehearse, k->n_tasks},
                 {"n_bounded", k->n_bounded, k->n_uses},
                 {"n_before", k->n_before, k->n_chan}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].value != 0 && parts[i].value != parts[i].whole) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: %s is %d, must be 0 or %d", parts[i].name,
                           parts[i].value, parts[i].whole);
        }
    }
    if ((k->n_knots == 0) != (k->n_look == 0) || (k->n_misfit == 0) != (k->n_knots == 0)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: knots, looks and misfit come together: %d, %d and %d", (int)k->n_knots,
                       (int)k->n_look, (int)k->n_misfit);
    }
    if ((k->n_response == 0) != (k->n_variant == 0)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: responses without the weakened ones, or the "
                       "other way round");
    }
    return PF_OK;
}

// --- rules on the contents

// What settings.def says of a setting that a kit holds.
typedef struct kit_setting {
    const char *name;
    size_t offset; // in pf_kit
    bool whole;    // an int32_t, not a double
    double least, most;
} kit_setting;

// An open end is out of reach by this much.
#define END 1e-9
#define END_CLOSED(least, most) least, most
#define END_OPEN(least, most) (least) + END, (most)-END
#define END_OPEN_MIN(least, most) (least) + END, most
#define END_OPEN_MAX(least, most) least, (most)-END
#define WHOLE_NUMBER false
#define WHOLE_WHOLE false
#define WHOLE_COUNT true
#define WHOLE_FLAG true
#define WHOLE_WORD true
static const kit_setting settings[] = {
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    PF_KIT_##kit({#field, offsetof(pf_kit, field), WHOLE_##type, END_##ends(least, most)}, )
#include "../settings/settings.def"
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

static const char setting_names[] =
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    PF_KIT_##kit(#field " ")
#include "../settings/settings.def"
    ;

static double get_setting(const pf_kit *k, int i)
{
    const char *at = (const char *)k + settings[i].offset;
    return settings[i].whole ? *(const int32_t *)(const void *)at
                             : *(const double *)(const void *)at;
}

// Values that no int32_t holds become one that no setting has.
static void set_setting(pf_kit *k, int i, double value)
{
    char *at = (char *)k + settings[i].offset;
    if (settings[i].whole) {
        bool fits = value >= 0 && value <= INT32_MAX && value == floor(value);
        *(int32_t *)(void *)at = fits ? (int32_t)value : -1;
    } else {
        *(double *)(void *)at = value;
    }
}

static pf_status settings_check(const pf_kit *k, pf_error *error)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        double value = get_setting(k, i);
        if (!(value >= settings[i].least && value <= settings[i].most)) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: %s is %g, must be %g to %g",
                           settings[i].name, value, settings[i].least, settings[i].most);
        }
    }
    return PF_OK;
}

static pf_status scalars_check(const pf_kit *k, pf_error *error)
{
#define X(field)                                                                                   \
    if (!isfinite(k->field)) {                                                                     \
        return pf_fail(error, PF_ERR_FORMAT, "kit: %s is not finite", #field);                     \
    }
    PF_KIT_SCALARS(X)
#undef X
    return PF_OK;
}

static pf_status numbers_check(const pf_kit *k, pf_error *error)
{
    size_t misfits = k->n_misfit ? (size_t)k->n_probes * (size_t)k->n_chan : 0;
    struct {
        const char *name;
        const double *value;
        size_t n;
        double lo, hi;
    } rules[] = {
        {"grid", k->grid, (size_t)k->n_grid, 1e-9, k->n_response > 0 ? 1 - 1e-9 : 1},
        {"prior", k->prior, (size_t)k->n_mech, 0, 1},
        {"weight", k->weight, (size_t)k->n_mech - 1, 0, 1e12},
        {"importance", k->importance, (size_t)k->n_mech - 1, 0, 1e12},
        {"reveal", k->reveal, (size_t)k->n_mech - 1, 0, 1e12},
        {"scale", k->scale, (size_t)k->n_scale * (size_t)k->n_chan, 1e-300, 1e300},
        {"return_scale", k->return_scale, (size_t)k->n_chan, 1e-300, 1e300},
        {"charge", k->charge, (size_t)k->n_probes, 1e-12, 1e12},
        {"command", k->command, (size_t)k->n_rows * (size_t)k->n_mech, -1e300, 1e300},
        {"edges", k->edges, (size_t)k->n_targets * (size_t)(k->n_bins - 1), -1e300, 1e300},
        {"nominal", k->nominal, (size_t)k->n_targets * (size_t)k->n_bins, 1e-12, 1},
        {"changed", k->changed, (size_t)k->n_targets * (size_t)k->n_bins, 1e-12, 1},
        {"m0", k->centre_nominal, (size_t)k->n_targets, -1e300, 1e300},
        {"m1", k->centre_changed, (size_t)k->n_targets, -1e300, 1e300},
        {"sigma", k->sigma, (size_t)k->n_targets, 1e-12, 1e12},
        {"curve", k->curve, (size_t)k->n_curve * (size_t)k->n_grid, -1e300, 1e300},
        {"cross", k->cross, (size_t)k->n_cross, 1e-12, 1},
        {"response", k->response, (size_t)k->n_response * (size_t)k->n_chan, -1e300, 1e300},
        {"variant", k->variant, (size_t)k->n_variant * (size_t)k->n_chan, -1e300, 1e300},
        {"task_command", k->task_command, (size_t)k->n_task_rows * (size_t)k->n_mech, -1e300,
         1e300},
        {"task_reveal", k->task_reveal, (size_t)k->n_tasks, 0, 1e12},
        {"task_importance", k->task_importance, (size_t)k->n_tasks, 0, 1e12},
        {"shares", k->shares, (size_t)k->n_shares, 0, 1e6},
        {"nte", k->tracking_error, (size_t)k->n_uses * (size_t)k->n_members * (size_t)k->n_shares,
         0, 1e300},
        {"threshold", k->threshold, (size_t)k->n_methods, 0, 1},
        {"off_limit", k->off_limit, (size_t)k->n_probes, 1e-300, 1e300},
        {"distance_limit", k->distance_limit, (size_t)k->n_probes, 1e-300, 1e300},
        {"signature", k->signature, (size_t)k->n_targets, 0, 1e300},
        {"whiten", k->whiten, (size_t)k->n_whiten, -1e150, 1e150},
        {"reach", k->reach, (size_t)k->n_reach, 1, 1e6},
        {"knots", k->knots, (size_t)k->n_knots, 0, 1e6},
        {"look_mean", k->look_mean, (size_t)k->n_look, -1e150, 1e150},
        {"look_variance", k->look_variance, (size_t)k->n_look, 1e-12, 1e150},
        {"residual_rms", k->residual_rms, (size_t)k->n_misfit * (size_t)k->n_chan, 1e-300, 1e150},
        {"misfit_mean", k->misfit_mean, misfits, 0, PF_MISFIT_ROOT_MOST},
        {"misfit_sd", k->misfit_sd, misfits, 1e-300, PF_MISFIT_ROOT_MOST},
        {"still", k->still, k->n_misfit ? (size_t)k->n_chan : 0, 1, 1e9},
        {"rehearsal", k->rehearsal, (size_t)k->n_rehearse * PF_REHEARSAL_NUMBERS, 0, 1e300},
        {"use_edge", k->use_edge, k->n_rehearse ? 2 * (size_t)k->n_uses : 0, 0, 1e6},
        {"group_rehearsal", k->group_rehearsal, (size_t)k->n_groups * PF_REHEARSAL_NUMBERS, 0,
         1e300},
        {"slew", k->slew, k->n_rehearse ? (size_t)k->n_mech : 0, 0, INFINITY},
        {"blind", k->blind, (size_t)k->n_blind, -1, 1},
        {"excursion", k->excursion, (size_t)k->n_bounded, 0, 1e300},
        {"before", k->before, (size_t)k->n_before, 0, .99 * PF_UNBOUNDED},
        {"force_gains", k->force_gains, k->n_force ? PF_FORCE_GAINS : 0, 0, 1e6},
        {"corrections", k->corrections, k->n_force ? PF_FORCE_CORRECTIONS : 0, 0, 1e6},
        {"force_error", k->force_error, (size_t)k->n_force, 0, 1e300},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        for (size_t j = 0; j < rules[i].n; j++) {
            double v = rules[i].value[j];
            if (!(v >= rules[i].lo && v <= rules[i].hi)) {
                return pf_fail(error, PF_ERR_FORMAT, "kit: %s[%z] is %g, out of range",
                               rules[i].name, j, v);
            }
        }
    }
    return PF_OK;
}

static pf_status ascending(const char *name, const double *value, int n, pf_error *error)
{
    for (int i = 1; i < n; i++) {
        if (!(value[i] > value[i - 1])) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: %s must ascend", name);
        }
    }
    return PF_OK;
}

static pf_status sums_to_one(const char *name, const double *value, int n, pf_error *error)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += value[i];
    }
    if (!(fabs(sum - 1) < PF_SUM_SLACK)) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: %s sums to %g, not to 1", name, sum);
    }
    return PF_OK;
}

// first[0] = 0, every step at least `least`, first[n] = total
static pf_status partition(const char *name, const int32_t *first, int n, int least, int total,
                           pf_error *error)
{
    bool good = first[0] == 0 && first[n] == total;
    for (int i = 0; i < n && good; i++) {
        good = first[i + 1] >= first[i] && first[i + 1] - first[i] >= least;
    }
    if (!good) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: %s is not a partition", name);
    }
    return PF_OK;
}

static pf_status structure_check(const pf_kit *k, pf_error *error)
{
    pf_status s = PF_OK;
    if ((s = partition("probe_row", k->probe_row, k->n_probes, 1, k->n_rows, error)) ||
        (s = partition("probe_target", k->probe_target, k->n_probes, 1, k->n_targets, error)) ||
        (s = partition("task_use", k->task_use, k->n_tasks, 1, k->n_uses, error)) ||
        (s = partition("task_row", k->task_row, k->n_tasks, 0, k->n_task_rows, error)) ||
        (s = ascending("grid", k->grid, k->n_grid, error)) ||
        (s = ascending("shares", k->shares, k->n_shares, error)) ||
        (s = ascending("force_gains", k->force_gains, k->n_force ? PF_FORCE_GAINS : 0, error)) ||
        (s = ascending("corrections", k->corrections, k->n_force ? PF_FORCE_CORRECTIONS : 0,
                       error)) ||
        (s = sums_to_one("prior", k->prior, k->n_mech, error))) {
        return s;
    }
    for (int t = 0; t < k->n_targets; t++) {
        if (k->target_mech[t] < 1 || k->target_mech[t] >= k->n_mech) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: target %d has no mechanism", t);
        }
        const double *edge = k->edges + (size_t)t * (size_t)(k->n_bins - 1);
        for (int i = 1; i < k->n_bins - 1; i++) {
            if (edge[i] < edge[i - 1]) {
                return pf_fail(error, PF_ERR_FORMAT, "kit: edges of target %d descend", t);
            }
        }
        size_t row = (size_t)t * (size_t)k->n_bins;
        if ((s = sums_to_one("a nominal row", k->nominal + row, k->n_bins, error)) ||
            (s = sums_to_one("a changed row", k->changed + row, k->n_bins, error))) {
            return s;
        }
        if (k->centre_nominal[t] == k->centre_changed[t]) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: centres of target %d are equal", t);
        }
    }
    for (int j = 0; j < k->n_mech && k->n_force > 0; j++) {
        if (k->loss[j] != 0 && k->loss[j] != 1) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: mechanism %d has no kind of loss", j);
        }
    }
    for (int i = 0; i < k->n_uses; i++) {
        if (k->use_mech[i] < 0 || k->use_mech[i] >= k->n_mech) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: use %d has no mechanism", i);
        }
    }
    return PF_OK;
}

static pf_status probes_check(const pf_kit *k, pf_error *error)
{
    int most = 0, cross = 0;
    int64_t variant = 0, whiten = 0;
    for (int q = 0; q < k->n_probes; q++) {
        int rows = pf_kit_probe_rows(k, q), targets = k->probe_target[q + 1] - k->probe_target[q];
        most = rows > most ? rows : most;
        variant += (int64_t)rows * targets * k->n_grid;
        whiten += pf__whiten_size(rows * k->n_chan);
        if (targets >= k->n_mech) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: probe %d has too many targets", q);
        }
        if (k->n_whiten > 0 && k->statistic == PF_STATISTIC_NORM) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: whitening needs the matched statistic");
        }
        if (targets > 1 && k->statistic == PF_STATISTIC_NORM) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: probe %d has several targets, which needs the matched statistic",
                           q);
        }
        for (int a = k->probe_target[q]; a < k->probe_target[q + 1]; a++) {
            for (int b = k->probe_target[q]; b < a; b++) {
                if (k->target_mech[a] == k->target_mech[b]) {
                    return pf_fail(error, PF_ERR_FORMAT, "kit: probe %d has a target twice", q);
                }
            }
        }
        if (k->probe_cross[q] >= 0) {
            if (k->probe_cross[q] != cross) {
                return pf_fail(error, PF_ERR_FORMAT, "kit: full rows of probe %d misplaced", q);
            }
            cross += targets * targets * k->n_bins;
        }
    }
    if (cross != k->n_cross || (k->n_scale != 1 && k->n_scale != most) ||
        (k->n_variant != 0 && k->n_variant != variant) ||
        (k->n_whiten != 0 && k->n_whiten != whiten)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: full rows, scales, responses or whitening have the wrong size");
    }
    return PF_OK;
}

// Length of the UTF-8 character at p (n bytes left), 0 if there is none: replies quote names.
static int character(const unsigned char *p, int n)
{
    int length = p[0] < 0x80                   ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;
    if (length > n) {
        return 0;
    }
    for (int i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    // no overlong forms, no surrogates, nothing beyond U+10FFFF
    bool bad = length > 2 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
                              (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f));
    return bad ? 0 : length;
}

bool pf__kit_may_say(const char *text, int n)
{
    for (int i = 0, length = 0; i < n; i += length) {
        const unsigned char *c = (const unsigned char *)text + i;
        length = character(c, n - i);
        if ((*c < 32 && *c != 0) || *c == 127 || length == 0) {
            return false;
        }
    }
    return true;
}

// Every candidate that a command moves must be among the task's uses, each once, and something must
// be known about it: a prior of zero without hazard could never be overcome.
static pf_status task_check(const pf_kit *k, int task, pf_error *error)
{
    int first = k->task_use[task], last = k->task_use[task + 1];
    bool listed[MECH_MAX] = {false};
    for (int u = first; u < last; u++) {
        int j = k->use_mech[u];
        if (listed[j]) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: task %d lists mechanism %d twice", task, j);
        }
        listed[j] = true;
        if (j > 0 && k->prior[j] == 0 && k->hazard == 0) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: prior: mechanism %d has probability 0 and there is no hazard, so "
                           "its loss could never be found",
                           j);
        }
    }
    if (pf_kit_task_rows(k, task) == 0 && pf_kit_task_policy(k, task)[0] == 0) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: task %d has neither command nor policy", task);
    }
    for (int r = k->task_row[task]; r < k->task_row[task + 1]; r++) {
        for (int j = 1; j < k->n_mech; j++) {
            double u = k->task_command[(size_t)r * (size_t)k->n_mech + (size_t)j];
            if (u != 0 && !listed[j]) {
                return pf_fail(error, PF_ERR_FORMAT,
                               "kit: task %d moves mechanism %d without listing it", task, j);
            }
        }
    }
    return PF_OK;
}

static pf_status text_check(const pf_kit *k, pf_error *error)
{
    if (k->text[k->n_text - 1] != 0) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: text is not terminated");
    }
    for (int i = 0; i < k->n_names; i++) {
        if (k->name[i] >= (uint32_t)k->n_text || (k->name[i] > 0 && k->text[k->name[i] - 1])) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: name %d does not start a string", i);
        }
    }
    if (!pf__kit_may_say(k->text, k->n_text)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: a name holds a control character or is not UTF-8");
    }
    for (int i = 0; i < k->n_methods; i++) {
        const char *id = pf_kit_method_id(k, i);
        const pf_method *method = pf_method_find(id);
        bool own = strncmp(id, PF_METHOD_OWN, sizeof PF_METHOD_OWN - 1) == 0; // a session brings it
        if (!own && (!method || (int)method->statistic != k->statistic)) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: method '%s' is unknown or has another "
                           "statistic",
                           pf_kit_method_id(k, i));
        }
    }
    int readings = k->n_state / k->n_chan;
    if (pf__kit_starts_from_channels(k) &&
        (k->n_state % k->n_chan != 0 || readings < 1 || readings > PF_HISTORY_MAX)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "kit: an ensemble starts from readings of the %d channels, not from %d "
                       "numbers",
                       (int)k->n_chan, (int)k->n_state);
    }
    bool several = pf__kit_starts_from_channels(k) && readings > 1;
    if ((k->n_before > 0) != (k->n_misfit > 0 && several)) {
        return pf_fail(error, PF_ERR_VERSION,
                       "kit: how much a healthy machine moves before a run is %s; calibrate again",
                       several ? "missing" : "of no use to it");
    }
    if (k->n_blind > 0 && !pf__kit_starts_from_channels(k)) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: a %s has no blind directions",
                       pf_kit_get_string(k, PF_KIT_PREDICTOR));
    }
    bool twin = strcmp(pf_kit_get_string(k, PF_KIT_PREDICTOR), "twin") == 0;
    for (int q = 0; q < k->n_probes; q++) {
        if (pf_kit_probe_policy(k, q)[0] && !twin) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "kit: probe %d is a closed loop, which a twin alone predicts", q);
        }
    }
    return PF_OK;
}

// Groups of a rehearsal: open loops, no mechanism moved by two of them, each task once.
static pf_status groups_check(const pf_kit *k, pf_error *error)
{
    pf_status s = partition("group_first", k->group_first, k->n_groups, 2, k->n_grouped, error);
    for (int g = 0; g < k->n_groups && s == PF_OK; g++) {
        bool moved[MECH_MAX] = {false}, others = false;
        for (int i = k->group_first[g]; i < k->group_first[g + 1]; i++) {
            int task = k->group_task[i];
            if (task < 0 || task >= k->n_tasks || pf_kit_task_rows(k, task) == 0 ||
                k->rehearsal_rows[task] == 0) {
                return pf_fail(error, PF_ERR_FORMAT, "kit: group %d has no such task", g);
            }
            for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
                if (moved[k->use_mech[u]]) {
                    return pf_fail(error, PF_ERR_FORMAT, "kit: group %d moves mechanism %d twice",
                                   g, (int)k->use_mech[u]);
                }
                moved[k->use_mech[u]] = true;
            }
            // the current mechanism may move without being listed
            const double *command = pf_kit_task_command(k, task);
            bool current = false;
            for (int row = 0; row < pf_kit_task_rows(k, task); row++) {
                current = current || command[row * k->n_mech] != 0;
            }
            if (current && others) {
                return pf_fail(error, PF_ERR_FORMAT, "kit: group %d moves mechanism 0 twice", g);
            }
            others = others || current;
        }
    }
    return s;
}

// Blind directions have length 1, and leave a rehearsal most of what it measures.
static pf_status blind_check(const pf_kit *k, pf_error *error)
{
    int n_runs = k->n_rehearse + k->n_groups;
    pf_status s = k->n_rehearse == 0
                      ? pf_fail(error, PF_ERR_FORMAT, "kit: blind directions of no rehearsal")
                      : partition("blind_first", k->blind_first, n_runs, 0, k->n_blind, error);
    for (int i = 0; i < n_runs && s == PF_OK; i++) {
        int n = 0, numbers = pf__kit_run_rows(k, i) * k->n_chan;
        const double *blind = pf__kit_blind(k, i, &n);
        bool good = n * numbers == k->blind_first[i + 1] - k->blind_first[i] &&
                    n <= PF_BLIND_MOST * numbers;
        for (int b = 0; b < n && good; b++) {
            double square = 0;
            for (int j = 0; j < numbers; j++) {
                square += blind[b * numbers + j] * blind[b * numbers + j];
            }
            good = fabs(square - 1) < PF_SUM_SLACK;
        }
        if (!good) {
            s = pf_fail(error, PF_ERR_FORMAT,
                        "kit: the blind directions of rehearsal %d make no "
                        "sense",
                        i);
        }
    }
    return s;
}

static bool rehearsal_makes_sense(const double *numbers)
{
    return numbers[PF_REHEARSAL_SD] > 0 &&
           numbers[PF_REHEARSAL_CLEAN] >= numbers[PF_REHEARSAL_MEAN];
}

static pf_status rehearsals_check(const pf_kit *k, pf_error *error)
{
    for (int t = 0; t < k->n_rehearse; t++) {
        int rows = k->rehearsal_rows[t], own = pf_kit_task_rows(k, t);
        const double *numbers = k->rehearsal + (size_t)t * PF_REHEARSAL_NUMBERS;
        if (rows < 0 || (int64_t)rows * k->n_chan > WINDOW_MAX ||
            (int64_t)rows * k->n_mech > WINDOW_MAX || (rows > 0 && own > 0 && rows != own) ||
            (rows > 0 && !(numbers[PF_REHEARSAL_ENERGY] > 0 && rehearsal_makes_sense(numbers)))) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: the rehearsal of task %d makes no sense", t);
        }
    }
    for (int g = 0; g < k->n_groups; g++) {
        if (!rehearsal_makes_sense(k->group_rehearsal + (size_t)g * PF_REHEARSAL_NUMBERS)) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: the rehearsal of group %d makes no sense",
                           g);
        }
    }
    pf_status s = k->n_groups > 0 ? groups_check(k, error) : PF_OK;
    return s == PF_OK && k->n_blind > 0 ? blind_check(k, error) : s;
}

// What the field's verdict needs: looks of the right size, levels above nothing, sound groups.
static pf_status verdict_check(const pf_kit *k, pf_error *error)
{
    if (k->n_knots > 0 && (size_t)k->n_look != pf__kit_look(k, k->n_probes)) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: n_look is %d, must be %d", (int)k->n_look,
                       (int)pf__kit_look(k, k->n_probes));
    }
    if (k->n_knots > 0 && k->statistic == PF_STATISTIC_NORM) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: looks need the matched statistic");
    }
    for (int i = 0; i < k->n_knots; i++) {
        if (k->knots[i] == 1 || (i > 0 && !(k->knots[i] > k->knots[i - 1]))) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: knots must ascend, 1 is not one of them");
        }
    }
    bool levels = k->misfit_chan > 0 && k->misfit_chan <= PF_MISFIT_MOST && k->misfit_shape > 0 &&
                  k->misfit_shape <= PF_MISFIT_MOST && k->misfit_level > 0 &&
                  k->misfit_level <= PF_MISFIT_LEVEL_MOST;
    if (k->n_misfit > 0 && !levels) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: levels of the misfit that no calibration gives");
    }
    if (!(k->alarm_checks >= 0 && k->alarm_checks <= 1e9 && k->alarm_false >= 0 &&
          k->alarm_false <= k->alarm_checks)) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: alarms of fresh sessions make no sense");
    }
    if (!(k->tolerance >= 0 && k->tolerance <= PF_TOLERANCE_MOST)) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: tolerance is %g, must be in [0, %g]",
                       k->tolerance, PF_TOLERANCE_MOST);
    }
    if (!(k->rehearsal_strictness >= 0 && k->rehearsal_strictness < 1)) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: rehearsal_strictness is %g, must be in [0, 1)",
                       k->rehearsal_strictness);
    }
    pf_status status = rehearsals_check(k, error);
    int probes = pf__kit_most_rows(k), tasks = pf__kit_rehearsal_rows(k);
    for (int c = 0; c < k->n_chan && k->n_misfit > 0 && status == PF_OK; c++) {
        if (k->still[c] > (probes > tasks ? probes : tasks)) {
            status = pf_fail(error, PF_ERR_FORMAT, "kit: still[%d] is longer than any run", c);
        }
    }
    return status;
}

pf_status pf_kit_check(const pf_kit *kit, pf_error *error)
{
    pf_status s = PF_OK;
    if ((s = pf__kit_check_dims(kit, error)) || (s = structure_check(kit, error)) ||
        (s = scalars_check(kit, error)) || (s = settings_check(kit, error)) ||
        (s = numbers_check(kit, error)) || (s = probes_check(kit, error)) ||
        (s = text_check(kit, error))) {
        return s;
    }
    for (int j = 0; j < kit->n_mech; j++) {
        if (!(kit->lo[j] <= kit->hi[j]) || kit->lo[j] == INFINITY || kit->hi[j] == -INFINITY) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: limits of mechanism %d are not ordered", j);
        }
    }
    bool on_grid = kit->n_response == 0;
    for (int g = 0; g < kit->n_grid; g++) {
        on_grid = on_grid || fabs(kit->grid[g] - kit->g_cal) < PF_SAME_GAIN;
    }
    if (!on_grid) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: g_cal is not on the grid");
    }
    for (int t = 0; t < kit->n_tasks && s == PF_OK; t++) {
        s = task_check(kit, t, error);
    }
    return s == PF_OK ? verdict_check(kit, error) : s;
}

// --- the file image

// The file image of a kit: a table of sections and the sections themselves.

enum { DIGEST_BYTES = 32, SECTIONS_MAX = 4096 };

enum {
    N_DIMS = 0
#define X(field) +1
    PF_KIT_DIMS(X)
#undef X
};
enum {
    N_SCALARS = 0
#define X(field) +1
    PF_KIT_SCALARS(X)
#undef X
};

static bool little_endian(void)
{
    uint32_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

static int count_sections(const pf_kit *k)
{
    int n = 4;
#define X(id, type, field, count) n += (size_t)(count) > 0;
    PF_KIT_ARRAYS(X)
#undef X
    return n;
}

// How many dimensions a file has: what was added at the end and is 0 is left out, so that kits
// without it keep their bytes.
static size_t written_dims(const pf_kit *k)
{
    return k->n_force > 0 ? N_DIMS : N_DIMS - 1;
}

size_t pf__kit_image_size(const pf_kit *k)
{
    if (pf__kit_check_dims(k, NULL) != PF_OK) {
        return 0;
    }
    size_t bytes = PF_KIT_HEAD_BYTES + (size_t)count_sections(k) * PF_KIT_SECTION_BYTES +
                   padded(written_dims(k) * sizeof(int32_t)) +
                   (N_SCALARS + N_SETTINGS) * sizeof(double) + padded(sizeof setting_names);
#define X(id, type, field, count)                                                                  \
    {                                                                                              \
        size_t n = (size_t)(count);                                                                \
        if (n > (SIZE_MAX / 4 - bytes) / sizeof(type)) {                                           \
            return 0;                                                                              \
        }                                                                                          \
        bytes += padded(n * sizeof(type));                                                         \
    }
    PF_KIT_ARRAYS(X)
#undef X
    return bytes + DIGEST_BYTES;
}

// --- writing

typedef struct writer {
    uint8_t *image;
    size_t entry; // where the next row of the table goes
    size_t at;    // where the next section goes
} writer;

static void put_section(writer *w, uint32_t id, size_t element, size_t count, const void *data)
{
    if (count == 0) {
        return;
    }
    pf_kit_section section = {id, (uint16_t)element, 0, w->at, count};
    memcpy(w->image + w->entry, &section, sizeof section);
    memcpy(w->image + w->at, data, count * element);
    w->entry += PF_KIT_SECTION_BYTES;
    w->at += padded(count * element);
}

pf_status pf__kit_save(const pf_kit *k, void *mem, size_t bytes, pf_error *error)
{
    pf_status s = pf_kit_check(k, error);
    s = s ? s : pf__kit_check_relations(k, error);
    if (s != PF_OK) {
        return s;
    }
    uint64_t size = pf__kit_image_size(k);
    if (!little_endian()) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "kit: this machine is not little-endian");
    }
    if (bytes < size) {
        return pf_fail(error, PF_ERR_MEMORY, "kit: needs %z bytes, got %z", (size_t)size, bytes);
    }
    uint32_t head[2] = {PF_KIT_VERSION, (uint32_t)count_sections(k)};
    const int32_t dims[] = {
#define X(field) k->field,
        PF_KIT_DIMS(X)
#undef X
    };
    const double scalars[] = {
#define X(field) k->field,
        PF_KIT_SCALARS(X)
#undef X
    };
    double values[N_SETTINGS];
    for (int i = 0; i < N_SETTINGS; i++) {
        values[i] = get_setting(k, i);
    }
    memset(mem, 0, (size_t)size);
    writer w = {mem, PF_KIT_HEAD_BYTES, PF_KIT_HEAD_BYTES + (size_t)head[1] * PF_KIT_SECTION_BYTES};
    memcpy(w.image, PF_KIT_MAGIC, 8);
    memcpy(w.image + 8, head, sizeof head);
    memcpy(w.image + 16, &size, sizeof size);
    put_section(&w, PF_KIT_ID_DIMS, sizeof dims[0], written_dims(k), dims);
    put_section(&w, PF_KIT_ID_SCALARS, sizeof scalars[0], N_SCALARS, scalars);
    put_section(&w, PF_KIT_ID_SETTINGS, sizeof values[0], N_SETTINGS, values);
    put_section(&w, PF_KIT_ID_SETTING_NAMES, 1, sizeof setting_names, setting_names);
#define X(id, type, field, count) put_section(&w, id, sizeof(type), (size_t)(count), k->field);
    PF_KIT_ARRAYS(X)
#undef X
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, mem, w.at);
    pf__sha256_final(&sha, w.image + w.at);
    return PF_OK;
}

// --- reading

// Head and size; *n_sections rows of the table are inside the file then.
static pf_status check_head(const uint8_t *p, size_t n_bytes, int *n_sections, pf_error *error)
{
    if (!little_endian()) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "kit: this machine is not little-endian");
    }
    if (!p || (uintptr_t)p % 8 != 0) {
        return pf_fail(error, PF_ERR_ARGUMENT, "kit: the image must start at a multiple of 8");
    }
    if (n_bytes < 16 || memcmp(p, PF_KIT_MAGIC, 8) != 0) {
        return pf_fail(error, PF_ERR_FORMAT, "not a preflight kit (wrong first bytes)");
    }
    uint32_t head[2];
    memcpy(head, p + 8, sizeof head);
    if (head[0] != PF_KIT_VERSION) {
        return pf_fail(error, PF_ERR_VERSION,
                       "kit of format version %d, this program reads version %d; calibrate again",
                       (int)head[0], PF_KIT_VERSION);
    }
    uint64_t size = 0;
    if (n_bytes < PF_KIT_HEAD_BYTES + DIGEST_BYTES) {
        return pf_fail(error, PF_ERR_FORMAT, "kit is cut off: %z bytes", n_bytes);
    }
    memcpy(&size, p + 16, sizeof size);
    if (size != n_bytes) {
        return pf_fail(error, PF_ERR_FORMAT, "kit %s: %z bytes, its header says %z",
                       n_bytes < size ? "is cut off" : "has trailing bytes", n_bytes, (size_t)size);
    }
    if (head[1] < 2 || head[1] > SECTIONS_MAX ||
        (size_t)head[1] * PF_KIT_SECTION_BYTES > n_bytes - PF_KIT_HEAD_BYTES - DIGEST_BYTES) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: a table of %d sections does not fit",
                       (int)head[1]);
    }
    *n_sections = (int)head[1];
    return PF_OK;
}

// One pass gives both the inner checksum and the checksum of the whole file.
static pf_status check_digest(const uint8_t *p, size_t n_bytes, uint8_t whole[32], pf_error *error)
{
    pf_sha256 sha;
    uint8_t digest[DIGEST_BYTES];
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, p, n_bytes - DIGEST_BYTES);
    pf__sha256_final(&sha, digest);
    if (memcmp(digest, p + n_bytes - DIGEST_BYTES, DIGEST_BYTES) != 0) {
        return pf_fail(error, PF_ERR_CHECKSUM, "kit is damaged (checksum differs); copy it again");
    }
    pf__sha256_update(&sha, p + n_bytes - DIGEST_BYTES, DIGEST_BYTES);
    pf__sha256_final(&sha, whole);
    return PF_OK;
}

// A file that is whole, and its table.
typedef struct reader {
    const uint8_t *image;
    int n_sections;
} reader;

static pf_kit_section section_at(const reader *r, int index)
{
    pf_kit_section section;
    memcpy(&section, r->image + PF_KIT_HEAD_BYTES + (size_t)index * PF_KIT_SECTION_BYTES,
           sizeof section);
    return section;
}

static bool known(uint32_t id)
{
    switch (id) {
    case PF_KIT_ID_DIMS:
    case PF_KIT_ID_SCALARS:
    case PF_KIT_ID_SETTINGS:
    case PF_KIT_ID_SETTING_NAMES:
#define X(number, type, field, count) case number:
        PF_KIT_ARRAYS(X)
#undef X
        return true;
    default:
        return false;
    }
}

// Sections follow each other from the table to the checksum, each id once, and every one that may
// not be passed over is known.
static pf_status check_table(const reader *r, size_t n_bytes, pf_error *error)
{
    uint64_t at = PF_KIT_HEAD_BYTES + (uint64_t)r->n_sections * PF_KIT_SECTION_BYTES;
    uint64_t end = n_bytes - DIGEST_BYTES;
    for (int i = 0; i < r->n_sections; i++) {
        pf_kit_section s = section_at(r, i);
        bool fits = s.offset == at && s.element > 0 && s.count > 0 && s.offset <= end &&
                    s.count <= (end - s.offset) / s.element;
        if (!fits) {
            return pf_fail(error, PF_ERR_FORMAT, "kit: section %d does not fit into the file", i);
        }
        at += padded((size_t)(s.count * s.element));
        for (int k = 0; k < i; k++) {
            if (section_at(r, k).id == s.id) {
                return pf_fail(error, PF_ERR_FORMAT, "kit: section %d repeats an earlier one", i);
            }
        }
        if (!known(s.id) && !(s.flags & PF_KIT_OPTIONAL)) {
            return pf_fail(error, PF_ERR_VERSION,
                           "kit: section %d (id %d) is not known to this program; use a newer "
                           "preflight, or calibrate again",
                           i, (int)s.id);
        }
    }
    return at == end ? PF_OK : pf_fail(error, PF_ERR_FORMAT, "kit: sections do not fill the file");
}

// The elements of a section, NULL where the file has none. Its size must be as said.
static const void *find(const reader *r, uint32_t id, size_t element, uint64_t *count)
{
    for (int i = 0; i < r->n_sections; i++) {
        pf_kit_section s = section_at(r, i);
        if (s.id == id && s.element == element) {
            *count = s.count;
            return r->image + s.offset;
        }
    }
    *count = 0;
    return NULL;
}

// Copies the n numbers that this program knows; a file may have fewer, or more if they are 0.
static pf_status read_fixed(const reader *r, uint32_t id, size_t element, size_t n, void *out,
                            pf_error *error)
{
    uint64_t count = 0;
    const uint8_t *from = find(r, id, element, &count);
    if (!from) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: has no %s",
                       id == PF_KIT_ID_DIMS ? "dimensions" : "scalars");
    }
    for (uint64_t i = n * element; i < count * element; i++) {
        if (from[i] != 0) {
            return pf_fail(error, PF_ERR_VERSION,
                           "kit: sets something that this program does not know; use a newer "
                           "preflight, or calibrate again");
        }
    }
    memset(out, 0, n * element);
    memcpy(out, from, (count < n ? (size_t)count : n) * element);
    return PF_OK;
}

static pf_status read_array(const reader *r, uint32_t id, const char *name, size_t element,
                            size_t count, const void **field, pf_error *error)
{
    uint64_t have = 0;
    const void *from = find(r, id, element, &have);
    if (have != count) {
        return pf_fail(error, PF_ERR_FORMAT, "kit: %s has %z elements, its dimensions ask for %z",
                       name, (size_t)have, count);
    }
    // an empty array points somewhere all the same: nobody needs to ask first
    *field = from ? from : r->image;
    return PF_OK;
}

// Settings mean what they mean to this program only if they are the same ones.
static pf_status read_settings(const reader *r, pf_kit *k, pf_error *error)
{
    uint64_t n = 0, n_names = 0;
    const char *values = find(r, PF_KIT_ID_SETTINGS, sizeof(double), &n);
    const char *names = find(r, PF_KIT_ID_SETTING_NAMES, 1, &n_names);
    if (!values || !names || n != N_SETTINGS || n_names != sizeof setting_names ||
        memcmp(names, setting_names, sizeof setting_names) != 0) {
        return pf_fail(error, PF_ERR_VERSION,
                       "kit of a program with other settings than this one; calibrate again");
    }
    for (int i = 0; i < N_SETTINGS; i++) {
        double value;
        memcpy(&value, values + (size_t)i * sizeof value, sizeof value);
        set_setting(k, i, value);
    }
    return PF_OK;
}

static pf_status read_view(const reader *r, pf_kit *k, pf_error *error)
{
    int32_t dims[N_DIMS];
    double scalars[N_SCALARS];
    pf_status s = read_fixed(r, PF_KIT_ID_DIMS, sizeof dims[0], N_DIMS, dims, error);
    if (s == PF_OK) {
        s = read_fixed(r, PF_KIT_ID_SCALARS, sizeof scalars[0], N_SCALARS, scalars, error);
    }
    if (s == PF_OK) {
        s = read_settings(r, k, error);
    }
    if (s != PF_OK) {
        return s;
    }
    int at = 0;
#define X(field) k->field = dims[at++];
    PF_KIT_DIMS(X)
#undef X
    at = 0;
#define X(field) k->field = scalars[at++];
    PF_KIT_SCALARS(X)
#undef X
    s = pf__kit_check_dims(k, error);
    if (s != PF_OK || pf__kit_image_size(k) == 0) {
        return s != PF_OK ? s : pf_fail(error, PF_ERR_FORMAT, "kit: absurd dimensions");
    }
#define X(id, type, field, count)                                                                  \
    if (s == PF_OK) {                                                                              \
        const void *from = NULL;                                                                   \
        s = read_array(r, id, #field, sizeof(type), (size_t)(count), &from, error);                \
        k->field = from;                                                                           \
    }
    PF_KIT_ARRAYS(X)
#undef X
    return s;
}

pf_status pf__kit_read(pf_kit *kit, const void *bytes, size_t n_bytes, pf_error *error)
{
    memset(kit, 0, sizeof *kit);
    reader r = {bytes, 0};
    pf_kit view = {0};
    pf_status s = check_head(bytes, n_bytes, &r.n_sections, error);
    if (s == PF_OK) {
        s = check_digest(bytes, n_bytes, view.sha256, error);
    }
    if (s == PF_OK) {
        s = check_table(&r, n_bytes, error);
    }
    if (s == PF_OK) {
        s = read_view(&r, &view, error);
    }
    if (s == PF_OK) {
        s = pf_kit_check(&view, error);
    }
    if (s == PF_OK) {
        s = pf__kit_check_relations(&view, error);
    }
    if (s == PF_OK) {
        *kit = view;
    }
    return s;
}

size_t pf_kit_size(void)
{
    return sizeof(pf_kit);
}

_Static_assert(sizeof(pf_kit) <= PF_KIT_BYTES, "PF_KIT_BYTES holds a kit");

pf_status pf_kit_load(pf_kit **kit, const void *image, size_t n_image, void *mem, size_t bytes,
                      pf_error *error)
{
    *kit = NULL;
    if (!mem || (uintptr_t)mem % 8 != 0) {
        return pf_fail(error, PF_ERR_ARGUMENT, "kit memory must be aligned to 8 bytes");
    }
    if (bytes < sizeof(pf_kit)) {
        return pf_fail(error, PF_ERR_MEMORY, "a kit needs %z bytes, got %z", sizeof(pf_kit), bytes);
    }
    pf_status status = pf__kit_read(mem, image, n_image, error);
    *kit = status == PF_OK ? mem : NULL;
    return status;
}
