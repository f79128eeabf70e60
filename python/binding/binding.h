// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PY_BINDING_H
#define PF_PY_BINDING_H

#include "preflight/calibrate.h"
#include "preflight/run.h"

// What Python calls through ctypes: flat functions on opaque handles, numbers and texts, so that no
// layout of a public struct is repeated in Python. A call that can fail returns a pf_status and
// says why in `why` (PF_PY_WHY bytes). Texts and bytes that are handed out are freed with
// pf_py_free. python/preflight/_library.py declares the same list.

#if defined(__GNUC__) || defined(__clang__)
#define PF_PY __attribute__((visibility("default")))
#else
#define PF_PY
#endif

#define PF_PY_WHY 400

PF_PY const char *pf_py_version(void);
PF_PY void pf_py_free(void *memory); // Nullable.
PF_PY const char *pf_py_status(int status);

// --- plants

typedef struct pf_py_plant pf_py_plant;

// One trajectory of a plant in Python, as pf_roll_function without self.
typedef int (*pf_py_roll_fn)(uint64_t seed, const double *start, int n_start, const double *gains,
                             const double *commands, int rows, int noise, double *start_out,
                             double *initial, double *output, char *why);

// Whether a name says what code to run.
PF_PY int pf_py_plant_runs_code(const char *name);
// folder as in pf_plant_create_in.
PF_PY int pf_py_plant_open(pf_py_plant **plant, const char *name, const char *folder, char *why);
// hello as in the bridge protocol; the function must outlive the plant.
PF_PY int pf_py_plant_wrap(pf_py_plant **plant, const char *name, const char *hello,
                           pf_py_roll_fn roll, char *why);
PF_PY void pf_py_plant_close(pf_py_plant *plant);
// {"name":..,"source":..,"mechanisms":[..],"channels":[..],"state_size":..,"dt":..}
PF_PY char *pf_py_plant_json(const pf_py_plant *plant);

// What is wrong with a plant: texts as `--fault` takes them, with units from the kit, or from the
// plant where kit is NULL. Nullable wherever faults are taken: nothing.
typedef struct pf_py_faults pf_py_faults;
typedef struct pf_py_kit pf_py_kit;

PF_PY int pf_py_faults_open(pf_py_faults **faults, const pf_py_plant *plant, const pf_py_kit *kit,
                            const char *const *texts, int n, char *why);
PF_PY void pf_py_faults_close(pf_py_faults *faults);

// The same on a body that has no plant of ours: what is commanded and what is read, by name.
typedef struct pf_py_body {
    const char *name;
    int n_mech, n_chan;
    const char *const *mechanisms, *const *channels; // names
    const double *lo, *hi;                           // n_mech
    const double *scale;                             // n_chan; 0: unknown
} pf_py_body;

PF_PY int pf_py_steps_open(pf_fault_run **run, const pf_py_body *body, const pf_py_kit *kit,
                           const char *const *texts, int n, char *why);
PF_PY void pf_py_steps_close(pf_fault_run *run);
PF_PY void pf_py_steps_reset(pf_fault_run *run, uint64_t key);
PF_PY void pf_py_steps_act(pf_fault_run *run, double *command);
PF_PY void pf_py_steps_read(pf_fault_run *run, double *reading);
PF_PY size_t pf_py_steps_save(const pf_fault_run *run, void *bytes);
PF_PY int pf_py_steps_load(pf_fault_run *run, const void *bytes, size_t n, char *why);

// start (Nullable) in, start_out (Nullable) out; output is rows x channels. Channels before the
// first command, where the plant tells them, are readings too.
PF_PY int pf_py_plant_roll(pf_py_plant *plant, uint64_t key, const double *start,
                           const double *gains, const pf_py_faults *faults, const double *commands,
                           int rows, int noise, double *start_out, double *initial, double *output,
                           char *why);
// Seconds for the hello and for one trajectory of a process plant; negative: as before.
PF_PY void pf_py_plant_limits(pf_py_plant *plant, double hello_s, double roll_s);

// --- kits

PF_PY int pf_py_kit_open(pf_py_kit **kit, const void *bytes, size_t n, char *why);
PF_PY void pf_py_kit_close(pf_py_kit *kit);
PF_PY char *pf_py_kit_json(const pf_py_kit *kit);
PF_PY int pf_py_kit_save(const char *path, const void *bytes, size_t n, char *why);

// How a calibration runs; texts are Nullable, seed < 0: the configuration's.
typedef struct pf_py_plan {
    const char *file;   // what the configuration is called in messages
    const char *config; // YAML
    const char *method;
    const char *model;  // file of a learned model. Nullable: a twin.
    const char *probes; // as pf_plan_choose_probes takes them
    double seed;
    int threads; // 0: one per processor
    const volatile int *stop;
    // Called at most ten times a second, and at the end of every stage. Nullable.
    void (*progress)(const char *what, size_t done, size_t total);
} pf_py_plan;

PF_PY int pf_py_calibrate(pf_py_plant *plant, const pf_py_plan *plan, void **bytes, size_t *n,
                          char *why);
PF_PY int pf_py_recordings(const char *file, const char *csv, size_t n_csv, const pf_py_plan *plan,
                           void **bytes, size_t *n, char *why);

// --- sessions

typedef struct pf_py_session pf_py_session;

typedef struct pf_py_ask {
    int32_t kind; // pf_ask_kind
    int32_t stage, probe, rows, has_value;
    int32_t has_gains;   // in desk.gains
    int32_t per_gain;    // predictions are needed at every gain of the grid
    int32_t n_tasks;     // of a rehearsal, in desk.tasks
    int32_t has_command; // of a rehearsal, in desk.command; else it is the policy of its task
    int32_t n_edges;     // of a rehearsal of several tasks, in desk.edges
    double value;
    const char *why; // when done
} pf_py_ask;

typedef struct pf_py_reading {
    int32_t mechanism, usable, category, gate, plausible;
    double score, coordinate;
} pf_py_reading;

// What a session reads and writes; the memory is the session's and stays where it is.
typedef struct pf_py_desk {
    double *response;   // most rows of a probe or rehearsal x channels, raw units
    double *start;      // n_state
    double *nominal;    // predictions of the caller's: window
    double *fault;      // most targets x window: at g_cal, in stage 2 with several faults at gain 1
    double *grid;       // most targets x gains x window
    double *nearest;    // window
    double *runs;       // of a rehearsal: nominal, then the free response or one per edge
    double *belief;     // n_mech, after a tell
    double *joint;      // m x n_gains, after a tell of stage 2
    double *joint_grid; // n_gains of the joint belief
    double *mean;       // m, after a tell of stage 2
    double *gains;      // n_mech, after an ask that has them: of all but the target at hand
    double *command;    // rows x n_mech of a rehearsal
    double *correction; // n_mech of a rehearsal
    double *edges;      // n_edges x (mechanism, gain)
    int32_t *tasks;     // of a rehearsal
    pf_py_reading *reading;
    pf_py_ask *ask;
    int32_t n_readings, alarm;
    int32_t passed; // the last rehearsal
    int32_t n_gains;
    double change, misfit;
    double distance; // of the last rehearsal
} pf_py_desk;

PF_PY int pf_py_session_open(pf_py_session **session, const pf_py_kit *kit, const char *method,
                             uint64_t seed, char *why);
PF_PY void pf_py_session_close(pf_py_session *session);
PF_PY pf_py_desk *pf_py_session_desk(pf_py_session *session);
// What predicts from a start state; the plant must outlive the session.
PF_PY int pf_py_session_twin(pf_py_session *session, pf_py_plant *plant, char *why);
PF_PY int pf_py_session_model(pf_py_session *session, const char *path, char *why);

PF_PY void pf_py_session_ask(pf_py_session *session); // into desk.ask
// desk.response and, by `from`, nothing more (0), desk.start (1) or the caller's predictions (2;
// with PF_PY_NEAREST also desk.nearest).
#define PF_PY_NEAREST 4
PF_PY int pf_py_session_tell(pf_py_session *session, int probe, int from, char *why);
// The same for a rehearsal of these tasks.
PF_PY int pf_py_session_tell_rehearsal(pf_py_session *session, const int32_t *tasks, int n_tasks,
                                       int from, char *why);
PF_PY int pf_py_session_skip(pf_py_session *session, char *why);
PF_PY int pf_py_session_stage2(pf_py_session *session, char *why);
PF_PY void pf_py_session_reset(pf_py_session *session);
PF_PY char *pf_py_session_readiness(pf_py_session *session);
// The joint belief now into desk.joint; the probability of "nothing changed".
PF_PY double pf_py_session_joint(pf_py_session *session);
PF_PY int pf_py_session_stage(const pf_py_session *session);
PF_PY double pf_py_session_charge(const pf_py_session *session);
PF_PY double pf_py_session_threshold(const pf_py_session *session);

// Runs the outstanding probe or rehearsal on a simulated machine into desk.response and desk.start,
// with the random streams of `preflight check --seed`; index counts those of its stage.
PF_PY int pf_py_session_run(pf_py_session *session, pf_py_plant *machine,
                            const pf_py_faults *faults, uint64_t seed, int index, char *why);

// --- evaluation: whole checks of machines with faults, and the truth flown

// What a machine may have, as `preflight audit` reads it; text NULL: what the program comes with.
typedef struct pf_py_catalogue pf_py_catalogue;

PF_PY int pf_py_catalogue_open(pf_py_catalogue **catalogue, const char *file, const char *text,
                               size_t n, char *why);
PF_PY void pf_py_catalogue_close(pf_py_catalogue *catalogue);
// The name of an entry, and whether a false go of it counts; NULL: there are fewer.
PF_PY const char *pf_py_catalogue_entry(const pf_py_catalogue *catalogue, int entry, int *promised);

// A kit with machines and what predicts, one of each per thread. What it was made of must outlive
// it. twin and model are Nullable; without both the machine predicts, or the kit itself.
typedef struct pf_py_evaluator pf_py_evaluator;

PF_PY int pf_py_evaluator_open(pf_py_evaluator **evaluator, const pf_py_kit *kit,
                               pf_py_plant *machine, pf_py_plant *twin, const char *model,
                               int threads, char *why);
PF_PY void pf_py_evaluator_close(pf_py_evaluator *evaluator);

// What is wrong with the machines of some trials: faults, or an entry of a catalogue.
typedef struct pf_py_row {
    const char *name; // the seeds of the trials come from it
    const pf_py_faults *faults;
    const pf_py_catalogue *catalogue; // Nullable: faults count
    int32_t entry;
} pf_py_row;

// One check; counts as those of an audit.
typedef struct pf_py_trial {
    uint64_t seed; // of `preflight check`
    double gain_error;
    int32_t alarm, misfit, named, within, probes, rehearsals;
    int32_t go, all_go, below_bound, below_j_min, false_go, unused;
} pf_py_trial;

// Every task of every trial, flown with its correction: arrays of trials x tasks.
typedef struct pf_py_flights {
    int32_t *decision; // pf_decision
    double *lower, *flown;
} pf_py_flights;

PF_PY int pf_py_evaluate(const pf_py_evaluator *evaluator, const pf_py_row *row, int n,
                         uint64_t seed, const volatile int *stop, pf_py_trial *trials,
                         const pf_py_flights *flights, char *why);
// The largest rate that k of n are still compatible with, at 95 %.
PF_PY double pf_py_upper(int k, int n);

// --- shared by the files of the binding

struct pf_py_plant {
    pf_plant *plant;
    pf_py_roll_fn roll; // of a plant in Python
};

struct pf_py_faults {
    int n;
    pf_fault item[];
};

struct pf_py_kit {
    void *bytes;
    pf_kit *kit;
    _Alignas(16) unsigned char memory[PF_KIT_BYTES];
};

// Copies the text and returns the code.
int pf_py_report(pf_status status, const pf_error *error, char *why);

#endif
