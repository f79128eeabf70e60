// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PREFLIGHT_KIT_H
#define PREFLIGHT_KIT_H

#include "preflight/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- methods

// Which number a response is turned into before it is quantised.
typedef enum pf_statistic {
    PF_STATISTIC_MATCHED = 0, // signed matched score, one per target
    PF_STATISTIC_NORM = 1     // norm of the residual, one target only
} pf_statistic;

// How a method chooses by the value of a probe.
typedef enum pf_rule {
    PF_RULE_BEST,     // the largest value per charge
    PF_RULE_SCHEDULE, // probes sorted once by value per charge, then cycled
    PF_RULE_RANDOM,   // uniform; has no value
    PF_RULE_OWN       // a function of yours chooses
} pf_rule;

// What the id of a method begins with that a kit may name although no table has it: a session
// brings it along.
#define PF_METHOD_OWN "python:"

struct pf_look; // what a method may know of a target
struct pf_kit;

// What a method of yours may know when it chooses. All of it is categorical: no gain, no
// coordinate, as for every method.
typedef struct pf_choice {
    const void *session;      // tells sessions apart; opportunity 0 begins a new one
    uint64_t seed;            // of the session: the only randomness a choice may have
    int opportunity;          // from 0
    const struct pf_kit *kit; // its probes, charges and tasks
    int n_mech;
    const double *belief; // n_mech: nothing changed, then each candidate
    int n_probes;
    const bool *eligible; // n_probes: which may be chosen; at least one
} pf_choice;

// A method is a row of a table. Nothing else differs between methods.
typedef struct pf_method {
    const char *id;    // "eg-mpt"
    const char *label; // "EG-MPT"
    const char *line;  // One line for `list methods`.
    pf_statistic statistic;
    pf_rule rule;
    double (*value)(const struct pf_look *look); // of one target; NULL with PF_RULE_RANDOM
    bool gate;                                   // false: every coordinate is admitted
    bool transport;                              // false: stage 2 starts from the broad prior
    bool group; // experiments give it the suite's library of group probes
    // PF_RULE_OWN: an eligible probe; anything else counts as the first one. It may be called from
    // several threads at once.
    int (*choose)(void *self, const pf_choice *choice);
    void *self;
} pf_method;

PF_API int pf_method_count(void);
PF_API const pf_method *pf_method_at(int index);
// NULL when no method has that id.
PF_API const pf_method *pf_method_find(const char *id);

// --- a kit

// A kit holds everything that was calibrated offline. It lives in the caller's memory as a view of
// a file image (flash, mmap, heap). The image must stay where it is and is never written. Nothing
// is allocated. Threads may share a kit.
typedef struct pf_kit pf_kit;

// Memory that is enough for the view, for a static array on a board (aligned to 8).
#define PF_KIT_BYTES 1024

// Bytes that the view really takes.
PF_API size_t pf_kit_size(void);

// Lays a view of a file image into mem (aligned to 8). The image starts at a multiple of 8.
// Refuses anything that is not a whole, undamaged kit of this version.
PF_API pf_status pf_kit_load(pf_kit **kit, const void *image, size_t n_image, void *mem,
                             size_t bytes, pf_error *error);

// Checks every rule a kit must obey; on failure names the field.
PF_API pf_status pf_kit_check(const pf_kit *kit, pf_error *error);

// What the belief holds possible: at most one changed mechanism (as in the paper), or each changed
// or healthy on its own.
typedef enum pf_faults { PF_FAULTS_ONE = 0, PF_FAULTS_MANY = 1 } pf_faults;

// When stage 1 ends on an alarm.
typedef enum pf_stop { PF_STOP_BREAK = 0, PF_STOP_LATCH = 1 } pf_stop;

// Which lower bound on a return: the mean less standard deviations (Eq. cantelli_certificate), or
// the worst quantile over the gains that the posterior holds for possible.
typedef enum pf_bound { PF_BOUND_CANTELLI = 0, PF_BOUND_WORST = 1 } pf_bound;

// What the certificate rests on: as in the paper the location belief times a transported severity,
// or one joint posterior over which mechanism changed and what gain it has, from every look.
typedef enum pf_posterior { PF_POSTERIOR_TRANSPORT = 0, PF_POSTERIOR_JOINT = 1 } pf_posterior;

// Whether tasks run once, corrected, before they are go: not at all, each alone, or several in one
// run first and alone where that leaves a doubt.
typedef enum pf_rehearse {
    PF_REHEARSE_NONE = 0,
    PF_REHEARSE_EACH = 1,
    PF_REHEARSE_GROUP = 2
} pf_rehearse;

// The rules of a session. A kit sets them; an experiment may give others.
typedef struct pf_rules {
    pf_stop stop; // what an alarm in stage 1 does
    bool field;   // the verdict of a field kit: it ends when no probe can change a verdict, ignores
                  // implausible responses, rehearses, and says why a task is not go
    int budget1;  // opportunities of stage 1
    int budget2;  // recovery probes
    int budget3;  // rehearsals
    pf_rehearse rehearse;
    int rehearsals; // how often each task is rehearsed
} pf_rules;

// The facts of a kit. Arrays are the kit's own.
typedef struct pf_kit_info {
    int n_mech;  // mechanisms: 0 current, 1..m candidates
    int n_chan;  // observed channels
    int n_state; // numbers that a prediction starts from; 0: it needs none
    int n_grid;  // gains of the grid
    int n_bins;  // categories of a score
    int n_probes;
    int n_tasks;
    int n_methods;
    int most_rows;              // of a probe
    int most_targets;           // of a probe
    const double *lo, *hi;      // n_mech: limits of the commands
    const double *grid;         // n_grid, ascending
    const double *prior;        // n_mech: P(nothing changed), then P(changed) of each candidate
    const double *return_scale; // n_chan: what differences of a task are measured in
    double g_cal;               // gain of the signatures
    double hazard;              // leaks from "nothing changed" before each opportunity
    double alpha;               // level of the bound
    double j_min;               // least return of a go
    double sensor_noise;        // multiple of return_scale
    pf_statistic statistic;
    pf_faults faults;
    pf_rules rules;
    bool recorded;             // it predicts by itself, from recordings
    bool starts_from_channels; // predictions start from the channels before the first command (a
                               // learned model) rather than from the plant's own state
    bool sensed_start;         // and what is told of them is as noisy as the sensors
    bool joint_posterior;      // one posterior over where and how much
    bool rehearsable;          // it knows what healthy rehearsals of its tasks look like
    int rehearsal_rows;        // of the longest rehearsal
    double tolerance;          // readings of equal trajectories of the plant differ by less, as a
                               // share of the largest one; 0: in no bit
    int alarm_checks;          // fresh healthy sessions that the kit was tried on
    int alarm_false;           // how many of them alarmed
    int episodes;              // calibration episodes per class
    int alarm_trials;
    uint64_t seed;
    const uint8_t *sha256; // 32 bytes, of the whole file, as sha256sum prints it
} pf_kit_info;

PF_API pf_kit_info pf_kit_get_info(const pf_kit *kit);

typedef enum pf_kit_string {
    PF_KIT_PLANT,     // name of the plant
    PF_KIT_PREDICTOR, // "twin", "ensemble" or "recordings"
    PF_KIT_MODEL,     // sha256 of the ensemble's file, or empty
    PF_KIT_SOURCE,    // simulator and version, or the recordings' sha256
    PF_KIT_PROCESSOR, // CPU type of the numeric library
    PF_KIT_PREFLIGHT, // program version
    PF_KIT_STRINGS
} pf_kit_string;

PF_API const char *pf_kit_get_string(const pf_kit *kit, pf_kit_string which);
// The folder that the command of the plant names files in (pf_plant_create_in), "" if it names
// none.
PF_API const char *pf_kit_folder(const pf_kit *kit);
PF_API const char *pf_kit_mechanism_name(const pf_kit *kit, int mechanism);
PF_API const char *pf_kit_channel_name(const pf_kit *kit, int channel);

// Whether a mechanism that has lost strength has gain times the force under its whole command (a
// servo that keeps its set point), rather than gain times the command.
PF_API bool pf_kit_loses_force(const pf_kit *kit, int mechanism);

// A method that the kit has an alarm threshold for, and the threshold.
PF_API const char *pf_kit_method_id(const pf_kit *kit, int method);
PF_API double pf_kit_threshold(const pf_kit *kit, int method);

// A probe: its command (rows x n_mech), charge, and targets (number, mechanisms; Nullable).
PF_API const char *pf_kit_probe_name(const pf_kit *kit, int probe);
PF_API int pf_kit_probe_rows(const pf_kit *kit, int probe);
// rows x n_mech. NULL: the probe is a closed loop.
PF_API const double *pf_kit_probe_command(const pf_kit *kit, int probe);
// The closed loop of the plant that the probe is; "" for an open loop.
PF_API const char *pf_kit_probe_policy(const pf_kit *kit, int probe);
PF_API double pf_kit_probe_charge(const pf_kit *kit, int probe);
PF_API int pf_kit_probe_targets(const pf_kit *kit, int probe, const int32_t **mechanisms);
// Dispersion of the coordinate of each target, in units of the calibrated loss.
PF_API const double *pf_kit_probe_sigma(const pf_kit *kit, int probe);

// A task: its command (rows x n_mech), or the name of its policy with no rows; the mechanisms it
// uses (number, Nullable list); how likely it is revealed, and how much it matters.
PF_API const char *pf_kit_task_name(const pf_kit *kit, int task);
PF_API const char *pf_kit_task_policy(const pf_kit *kit, int task); // "" for an open loop.
PF_API int pf_kit_task_rows(const pf_kit *kit, int task);
PF_API const double *pf_kit_task_command(const pf_kit *kit, int task);
PF_API int pf_kit_task_mechanisms(const pf_kit *kit, int task, const int32_t **mechanisms);
PF_API double pf_kit_task_reveal(const pf_kit *kit, int task);
// How often it runs before it is go; 0: it cannot be rehearsed.
PF_API int pf_kit_task_rehearsals(const pf_kit *kit, int task);
// What to do where it is no-go. "" for the uncorrected command.
PF_API const char *pf_kit_task_fallback(const pf_kit *kit, int task);
PF_API double pf_kit_task_importance(const pf_kit *kit, int task);

// The share of the asked command that mechanism j delivers under correction c and gain g:
// g <clip(c u), u>/<u, u>; for a policy g min(c, reach).
PF_API double pf_kit_delivered_share(const pf_kit *kit, int task, int mechanism, double correction,
                                     double gain);

#ifdef __cplusplus
}
#endif
#endif
