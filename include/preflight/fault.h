// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_FAULT_H
#define PREFLIGHT_FAULT_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pf_kit;
struct pf_plant_info;

// A fault is what is wrong with a machine: with what a mechanism delivers, with what a channel
// reads, or with the plant as a whole. docs/faults.md says exactly what each kind does.

// Where a fault acts.
typedef enum pf_fault_place {
    PF_FAULT_ON_MECHANISM,
    PF_FAULT_ON_CHANNEL,
    PF_FAULT_ON_PLANT
} pf_fault_place;

// What the number of a fault counts in.
typedef enum pf_fault_measure {
    PF_FAULT_FACTOR,      // 1: as it should be
    PF_FAULT_STEPS,       // control steps
    PF_FAULT_WHOLE_STEPS, // a whole number of them
    PF_FAULT_PROBABILITY,
    PF_FAULT_AMPLITUDES, // shares of the task's amplitude (pf_fault.unit)
    PF_FAULT_DEVIATIONS  // standard deviations of the channel's noise (pf_fault.unit)
} pf_fault_measure;

// The number of this kind must be given.
#define PF_FAULT_GIVEN -1e9
// Steps that a mechanism's delay may have.
#define PF_FAULT_DELAY_MAX 256

// Every kind: name, where it acts, what its number counts in, the least, the most and the default
// number, and what it does with the number X.
#define PF_FAULT_LIST(X)                                                                           \
    X(PF_FAULT_GAIN, "gain", PF_FAULT_ON_MECHANISM, PF_FAULT_FACTOR, 0, 1e5, PF_FAULT_GIVEN,       \
      "delivers X times its command; above 1 it delivers too much")                                \
    X(PF_FAULT_GAIN_UP, "gain_up", PF_FAULT_ON_MECHANISM, PF_FAULT_FACTOR, 0, 1e5, PF_FAULT_GIVEN, \
      "the same for positive commands only, within the limits")                                    \
    X(PF_FAULT_GAIN_DOWN, "gain_down", PF_FAULT_ON_MECHANISM, PF_FAULT_FACTOR, 0, 1e5,             \
      PF_FAULT_GIVEN, "the same for negative commands only, within the limits")                    \
    X(PF_FAULT_INTERMITTENT, "intermittent", PF_FAULT_ON_MECHANISM, PF_FAULT_FACTOR, 0, 1e5,       \
      PF_FAULT_GIVEN, "gain X in half of its runs, at random; 1 in the others")                    \
    X(PF_FAULT_DEAD_BAND, "dead_band", PF_FAULT_ON_MECHANISM, PF_FAULT_AMPLITUDES, 0, 1e6,         \
      PF_FAULT_GIVEN, "commands up to X do nothing; larger ones lose X")                           \
    X(PF_FAULT_BACKLASH, "backlash", PF_FAULT_ON_MECHANISM, PF_FAULT_AMPLITUDES, 0, 1e6,           \
      PF_FAULT_GIVEN, "play of width X: what is delivered follows half of it behind")              \
    X(PF_FAULT_SATURATION, "saturation", PF_FAULT_ON_MECHANISM, PF_FAULT_AMPLITUDES, 0, 1e6,       \
      PF_FAULT_GIVEN, "the top end is lost: never more than X either way")                         \
    X(PF_FAULT_RATE_LIMIT, "rate_limit", PF_FAULT_ON_MECHANISM, PF_FAULT_AMPLITUDES, 0, 1e6,       \
      PF_FAULT_GIVEN, "changes by at most X per step")                                             \
    X(PF_FAULT_LAG, "lag", PF_FAULT_ON_MECHANISM, PF_FAULT_STEPS, 0, 1e6, PF_FAULT_GIVEN,          \
      "first-order lag with the time constant X")                                                  \
    X(PF_FAULT_DELAY, "delay", PF_FAULT_ON_MECHANISM, PF_FAULT_WHOLE_STEPS, 0, PF_FAULT_DELAY_MAX, \
      PF_FAULT_GIVEN, "delivers what was commanded X steps ago")                                   \
    X(PF_FAULT_BIAS, "bias", PF_FAULT_ON_MECHANISM, PF_FAULT_AMPLITUDES, -1e6, 1e6,                \
      PF_FAULT_GIVEN, "adds X to every command, also while it is idle")                            \
    X(PF_FAULT_STUCK, "stuck", PF_FAULT_ON_MECHANISM, PF_FAULT_AMPLITUDES, -1e6, 1e6, 0,           \
      "delivers X whatever is commanded")                                                          \
    X(PF_FAULT_READS_BIAS, "bias", PF_FAULT_ON_CHANNEL, PF_FAULT_DEVIATIONS, -1e6, 1e6,            \
      PF_FAULT_GIVEN, "adds X to every reading")                                                   \
    X(PF_FAULT_READS_SCALE, "scale", PF_FAULT_ON_CHANNEL, PF_FAULT_FACTOR, -1e6, 1e6,              \
      PF_FAULT_GIVEN, "multiplies every reading by X")                                             \
    X(PF_FAULT_READS_DELAY, "delay", PF_FAULT_ON_CHANNEL, PF_FAULT_WHOLE_STEPS, 0, 1e6,            \
      PF_FAULT_GIVEN, "shows the reading of X steps ago")                                          \
    X(PF_FAULT_READS_FROZEN, "frozen", PF_FAULT_ON_CHANNEL, PF_FAULT_WHOLE_STEPS, 0, 1e6, 0,       \
      "repeats reading X from then on; 0, the default, is the first one")                          \
    X(PF_FAULT_READS_NOISE, "noise", PF_FAULT_ON_CHANNEL, PF_FAULT_DEVIATIONS, 0, 1e6,             \
      PF_FAULT_GIVEN, "adds noise with X times the deviation of the channel's own")                \
    X(PF_FAULT_READS_DROPOUT, "dropout", PF_FAULT_ON_CHANNEL, PF_FAULT_PROBABILITY, 0, 1,          \
      PF_FAULT_GIVEN, "a reading repeats the last one with probability X")                         \
    X(PF_FAULT_EFFECTIVENESS, "effectiveness", PF_FAULT_ON_PLANT, PF_FAULT_FACTOR, 0, 1e5,         \
      PF_FAULT_GIVEN, "all mechanisms deliver X times as much, mechanism 0 too")                   \
    X(PF_FAULT_DISTURBANCE, "disturbance", PF_FAULT_ON_PLANT, PF_FAULT_FACTOR, 0, 1e4,             \
      PF_FAULT_GIVEN, "the disturbance is X times as large")                                       \
    X(PF_FAULT_TIME_CONSTANT, "time_constant", PF_FAULT_ON_PLANT, PF_FAULT_FACTOR, .01, 100,       \
      PF_FAULT_GIVEN, "everything in the plant takes X times as long")

typedef enum pf_fault_kind {
#define X(code, name, place, measure, least, most, otherwise, line) code,
    PF_FAULT_LIST(X)
#undef X
        PF_FAULT_KNOB, // a knob of the plant gets this value
    PF_FAULT_DECLARED  // a fault that the plant itself declares
} pf_fault_kind;

// A row of the list. otherwise: the number if none is given; below least: it must be given.
typedef struct pf_fault_info {
    const char *name;
    pf_fault_place place;
    pf_fault_measure measure;
    double least, most, otherwise;
    const char *line;
} pf_fault_info;

// Kinds with a name of their own, by their number (NULL past the last one).
PF_API int pf_fault_count(void);
PF_API const pf_fault_info *pf_fault_at(int kind);
PF_API const char *pf_fault_measure_text(pf_fault_measure measure);

// What a plant can do wrong beyond what commands and readings carry: `disturbance` and
// `time_constant` by name, or something of its own. Strings belong to the plant.
typedef struct pf_plant_fault {
    const char *name;
    const char *line;
    double least, most;
} pf_plant_fault;

// One fault of a machine.
typedef struct pf_fault {
    pf_fault_kind kind;
    // The mechanism or channel, -1 for the plant. Of a knob and of a declared fault: its index in
    // the plant's info.
    int at;
    double value;
    double unit; // what amplitudes and deviations count in, raw units; 0: not set yet
} pf_fault;

// From "MECHANISM:GAIN", "MECHANISM:KIND=X", "CHANNEL:KIND[=X]", or "NAME=X" for the plant as a
// whole (a kind, a knob or a declared fault; "plant:NAME=X" says the same). A mechanism is named or
// numbered. The error lists what there is. The unit is not set.
PF_API pf_status pf_fault_parse(const char *text, const struct pf_plant_info *info, pf_fault *fault,
                                pf_error *error);

// The text that pf_fault_parse takes, cut to size.
PF_API void pf_fault_text(const pf_fault *fault, const struct pf_plant_info *info, char *text,
                          size_t size);

// Sets the units that are 0. Of a mechanism: its largest command in the kit's tasks, else in the
// plant's default tasks or probes, else a quarter of its range, else 1. Of a channel: the deviation
// of its noise, else a twentieth of its scale; refused where neither is known. kit is Nullable.
PF_API pf_status pf_fault_set_units(pf_fault *faults, int n, const struct pf_kit *kit,
                                    const struct pf_plant_info *info, pf_error *error);

// Whether a plant can have these faults together: each exists there, its number is in range, its
// unit is set, and no place has one kind twice.
PF_API pf_status pf_fault_check(const pf_fault *faults, int n, const struct pf_plant_info *info,
                                pf_error *error);

// What the faults of the channels make of readings: rows x n_chan in output, after first (n_chan,
// the readings before the first command. Nullable). The first reading of a channel is in `first`,
// else in the first row. key names the random stream, as in pf_roll. Other faults do nothing here.
PF_API pf_status pf_fault_sense(const pf_fault *faults, int n, const struct pf_plant_info *info,
                                pf_key key, double *first, int rows, double *output,
                                pf_error *error);

// Faults of a machine that the caller steps: the same bits as in pf_plant_roll and pf_fault_sense.
typedef struct pf_fault_run pf_fault_run;

// Units must be set. The faults and the limits of info are copied. What only the physics could
// carry is refused.
PF_API pf_status pf_fault_run_create(pf_fault_run **run, const pf_fault *faults, int n,
                                     const struct pf_plant_info *info, pf_error *error);
PF_API void pf_fault_run_destroy(pf_fault_run *run); // Nullable.
// A new trajectory; key names the random streams.
PF_API void pf_fault_run_reset(pf_fault_run *run, pf_key key);
// From a command (n_mech) to what is delivered, after limits, faults and gains.
PF_API void pf_fault_run_step(pf_fault_run *run, double *command);
// From what a sensor would say (n_chan) to what it says. The first one after a reset is the reading
// before the first command.
PF_API void pf_fault_run_read(pf_fault_run *run, double *reading);
// Where the trajectory is, in bytes (Nullable); gives their number. A run with the same faults
// goes on from there.
PF_API size_t pf_fault_run_save(const pf_fault_run *run, void *bytes);
PF_API pf_status pf_fault_run_load(pf_fault_run *run, const void *bytes, size_t n, pf_error *error);

#ifdef __cplusplus
}
#endif
#endif
