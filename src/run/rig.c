// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "run_impl.h"
#include "plant/plant_impl.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

// Streams of the noise that the observer adds; the plant's own streams are 1 to 3.
enum { STREAM_OBSERVER = 4, STREAM_START = 5 };

void pf__observe_noise(const pf_plant_info *info, pf_key key, int rows, double sensor_noise,
                       const double *scale, double *output)
{
    pf_rng rng;
    pf_rng_init(&rng, pf__key_derive(key, STREAM_OBSERVER));
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < info->n_chan; c++) {
            if (info->channels[c].noise_sd == 0) {
                output[(size_t)r * (size_t)info->n_chan + (size_t)c] +=
                    sensor_noise * scale[c] * pf_rng_normal(&rng);
            }
        }
    }
}

pf_status pf__observe(pf_plant *plant, const pf_roll *roll, double sensor_noise,
                      const double *scale, const pf_trace *trace, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_roll noisy = *roll;
    noisy.disturbance = true;
    noisy.sensor_noise = sensor_noise;
    pf_status status = pf_plant_roll(plant, &noisy, trace, error);
    if (status != PF_OK || sensor_noise == 0 || !scale || !trace->output) {
        return status;
    }
    pf__observe_noise(info, roll->key, roll->rows, sensor_noise, scale, trace->output);
    return PF_OK;
}

pf_status pf__initial_check(const pf_plant_info *info, int n, const double *initial,
                            pf_error *error)
{
    for (int i = 0; i < n * info->n_chan; i++) {
        if (!isfinite(initial[i])) {
            return pf_fail(error, PF_ERR_PLANT,
                           "%s does not tell channel '%s' before the first command, where a "
                           "learned model starts",
                           info->name, info->channels[i % info->n_chan].name);
        }
    }
    return PF_OK;
}

// The readings before the first command are as noisy as those after it.
static void disturb_start(const pf_rig *rig, const pf_kit_info *k, pf_key key)
{
    const pf_plant_info *info = pf_plant_get_info(rig->plant);
    pf_rng rng;
    if (rig->own_noise) {
        return;
    }
    pf_rng_init(&rng, pf__key_derive(key, STREAM_START));
    for (int i = 0; i < k->n_state; i++) {
        int c = i % info->n_chan;
        double sd = info->channels[c].noise_sd;
        sd = sd == 0 ? k->return_scale[c] : sd;
        rig->start[i] += k->sensor_noise * sd * pf_rng_normal(&rng);
    }
}

pf_status pf__same_size(const pf_kit_info *kit, const pf_plant_info *plant, bool state,
                        pf_error *error)
{
    bool same = plant->n_mech == kit->n_mech && plant->n_chan == kit->n_chan &&
                (!state || plant->n_state == kit->n_state);
    return same ? PF_OK
                : pf_fail(error, PF_ERR_MISMATCH,
                          "%s has %d mechanisms, %d channels and %d states, the kit %d, %d and %d; "
                          "use the kit's own plant",
                          plant->name, plant->n_mech, plant->n_chan, plant->n_state, kit->n_mech,
                          kit->n_chan, kit->n_state);
}

pf_status pf__rigs_run(int n, pf_rig *rigs, const int *probes, const pf_key *keys, pf_error *error)
{
    pf_roll rolls[PF_ROLLS];
    pf_trace traces[PF_ROLLS];
    pf_kit_info k = pf_kit_get_info(rigs[0].kit);
    const pf_plant_info *info = pf_plant_get_info(rigs[0].plant);
    pf_status status = pf__same_size(&k, info, false, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        rolls[i] = pf_roll_default();
        rolls[i].key = keys[i];
        rolls[i].gains = rigs[i].gains;
        rolls[i].disturbance = true;
        rolls[i].sensor_noise = k.sensor_noise;
        traces[i] = (pf_trace){.start = rigs[i].start, .output = rigs[i].response};
        status = pf__probe_roll(info, rigs[i].kit, probes[i], &rolls[i], error);
    }
    status = status ? status : pf__plant_roll_many(rigs[0].plant, n, rolls, traces, error);
    for (int i = 0; i < n && status == PF_OK && k.sensor_noise != 0; i++) {
        pf__observe_noise(info, keys[i], rolls[i].rows, k.sensor_noise, k.return_scale,
                          rigs[i].response);
    }
    return status;
}

pf_status pf__name_failure(const pf_plant_info *info, const char *kind, const char *name,
                           const double *gains, pf_status status, pf_error *error)
{
    if (!error || (status != PF_ERR_PLANT && status != PF_ERR_NONFINITE)) {
        return status;
    }
    char why[sizeof error->text];
    memcpy(why, error->text, sizeof why);
    int j = 0;
    while (gains && j < info->n_mech && gains[j] == 1) {
        j++;
    }
    pf_error what = {PF_OK, ""};
    pf_fail(&what, status, name ? "%s '%s'" : "%s", kind, name);
    return gains && j < info->n_mech ? pf_fail(error, status, "%s, '%s' at gain %g: %s", what.text,
                                               info->mechanisms[j].name, gains[j], why)
                                     : pf_fail(error, status, "%s: %s", what.text, why);
}

// One trajectory of the rig, seen through its sensors.
static pf_status watch(pf_rig *rig, const pf_roll *given, pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(rig->kit);
    pf_status status = pf__same_size(&k, pf_plant_get_info(rig->plant), false, error);
    if (status != PF_OK) {
        return status;
    }
    pf_roll roll = *given;
    pf_key key = roll.key;
    roll.gains = rig->gains;
    roll.faults = rig->faults;
    roll.n_faults = rig->n_faults;
    bool channels = k.starts_from_channels;
    int readings = channels ? k.n_state / k.n_chan : 0;
    roll.lead = channels ? readings - 1 : 0;
    pf_trace trace = {.start = channels ? NULL : rig->start,
                      .initial = channels ? rig->start : NULL,
                      .output = rig->response};
    // noise is relative to the size of a response, whatever residuals are divided by
    status = pf__observe(rig->plant, &roll, k.sensor_noise, rig->own_noise ? NULL : k.return_scale,
                         &trace, error);
    if (status == PF_OK && channels) {
        if (k.sensed_start) {
            disturb_start(rig, &k, key);
        }
        status = pf__initial_check(pf_plant_get_info(rig->plant), readings, rig->start, error);
    }
    return status == PF_OK && rig->n_faults > 0
               ? pf__fault_sense_after(rig->faults, rig->n_faults, pf_plant_get_info(rig->plant),
                                       key, readings, rig->start, roll.rows, rig->response, error)
               : status;
}

// The loop that a probe or task of a kit names.
static pf_status find_loop(const pf_plant_info *info, const char *name, const char *who,
                           const char *which, int *policy, pf_error *error)
{
    *policy = pf__plant_policy(info, name);
    return *policy >= 0
               ? PF_OK
               : pf_fail(error, PF_ERR_MISMATCH, "%s offers no policy '%s', which %s '%s' needs",
                         info->name, name, who, which);
}

pf_status pf__task_policy(const pf_plant_info *info, const pf_kit *kit, int task, int *policy,
                          pf_error *error)
{
    return find_loop(info, pf_kit_task_policy(kit, task), "task", pf_kit_task_name(kit, task),
                     policy, error);
}

pf_status pf__probe_roll(const pf_plant_info *info, const pf_kit *kit, int probe, pf_roll *roll,
                         pf_error *error)
{
    const char *loop = pf_kit_probe_policy(kit, probe);
    roll->rows = pf_kit_probe_rows(kit, probe);
    roll->command = pf_kit_probe_command(kit, probe);
    return loop[0]
               ? find_loop(info, loop, "probe", pf_kit_probe_name(kit, probe), &roll->policy, error)
               : PF_OK;
}

pf_status pf_rig_run(pf_rig *rig, int probe, pf_key key, pf_error *error)
{
    pf_roll roll = pf_roll_default();
    roll.key = key;
    pf_status status = pf__probe_roll(pf_plant_get_info(rig->plant), rig->kit, probe, &roll, error);
    return status ? status
                  : pf__name_failure(pf_plant_get_info(rig->plant), "probe",
                                     pf_kit_probe_name(rig->kit, probe), rig->gains,
                                     watch(rig, &roll, error), error);
}

pf_status pf_rig_rehearse(pf_rig *rig, const pf_ask *ask, pf_key key, pf_error *error)
{
    pf_roll roll = pf_roll_default();
    roll.key = key;
    roll.rows = ask->rows;
    roll.command = ask->command;
    pf_status status = PF_OK;
    if (!ask->command) {
        roll.correction = ask->correction;
        status = pf__task_policy(pf_plant_get_info(rig->plant), rig->kit, ask->tasks[0],
                                 &roll.policy, error);
    }
    return status ? status
                  : pf__name_failure(pf_plant_get_info(rig->plant), "rehearsal of task",
                                     pf_kit_task_name(rig->kit, ask->tasks[0]), rig->gains,
                                     watch(rig, &roll, error), error);
}

static pf_status rehearse(void *self, const pf_ask *ask, pf_key key, pf_answer *out,
                          pf_error *error)
{
    pf_rig *rig = self;
    *out = (pf_answer){rig->response, rig->start, pf_kit_get_info(rig->kit).n_state};
    return pf_rig_rehearse(rig, ask, key, error);
}

static pf_status answer(void *self, int probe, pf_key key, pf_answer *out, pf_error *error)
{
    pf_rig *rig = self;
    *out = (pf_answer){rig->response, rig->start, pf_kit_get_info(rig->kit).n_state};
    return pf_rig_run(rig, probe, key, error);
}

pf_machine pf_rig_machine(pf_rig *rig)
{
    return (pf_machine){rig, pf_plant_environment(pf_plant_get_info(rig->plant)), answer, rehearse};
}
