// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_PLANT_IMPL_H
#define PF_PLANT_IMPL_H

#include "preflight/plant.h"

#include <math.h>

// pf_fault_sense with any number of readings before the rows, oldest first.
pf_status pf__fault_sense_after(const pf_fault *faults, int n, const pf_plant_info *info,
                                pf_key key, int n_first, double *first, int rows, double *output,
                                pf_error *error);

// A closed loop of a plant by its name; -1: it has none such, or the name is empty.
int pf__plant_policy(const pf_plant_info *info, const char *name);

// The return of a policy under many hypotheses at once, from the plant's own twin of the task.
typedef struct pf_forecast {
    pf_key key;               // of the draws
    const double *start;      // n_state
    int policy;               // index in info.policies
    const double *correction; // n_mech
    int n;                    // hypotheses
    const double *gains;      // n x n_mech
} pf_forecast;

// What stands behind a plant: native physics or a process. roll has checked its arguments.
typedef struct pf_plant_ops {
    bool native; // our own fault layer delivers: gains above 1 count, limits are where info says so
    bool steps_faults; // its roll passes commands through pf__fault_step itself, policies' too
    pf_status (*roll)(pf_plant *plant, const pf_roll *roll, const pf_trace *trace, pf_error *error);
    // Nullable: one after the other. No roll rests first or has faults.
    pf_status (*roll_many)(pf_plant *plant, int n, const pf_roll *rolls, const pf_trace *traces,
                           pf_error *error);
    pf_status (*clone)(const pf_plant *plant, pf_plant **copy, pf_error *error);
    void (*destroy)(pf_plant *plant); // frees what self owns, not the plant
    // A full state from n numbers that are not one. Nullable: n must be n_state.
    pf_status (*state_from)(pf_plant *plant, int n, const double *values, double *state,
                            pf_error *error);
    // Nullable: the plant has no measures of its own.
    pf_status (*forecast)(pf_plant *plant, const pf_forecast *forecast, double *returns,
                          double *beyond, pf_error *error);
    // A mechanism, or with -1 the machine, in words that its description has no number for. NULL,
    // or Nullable: there are none.
    const char *(*about)(const pf_plant *plant, int mechanism);
    // Nullable: the plant is no process.
    void (*set_timeouts)(pf_plant *plant, double hello_s, double roll_s);
} pf_plant_ops;

struct pf_plant {
    const pf_plant_ops *ops;
    pf_plant_info info; // points into self or into static data
    double knob[PF_KNOBS_MAX];
    void *self;
};

// Rows x channels of one response may not exceed this many numbers.
#define PF_TRACE_MAX (1 << 22)

// pf_plant_create_in with a flag (Nullable) that ends every wait for a process behind the plant,
// its hello and those of its clones included: PF_ERR_INTERRUPTED. It must outlive them all.
pf_status pf__plant_create(pf_plant **plant, const char *name, const char *folder,
                           const volatile int *stop, pf_error *error);

// Whether a kit can hold every name of a plant, and no two mechanisms or channels have the same.
pf_status pf__plant_check_names(const pf_plant_info *info, pf_error *error);

// A plant in a child process that speaks the bridge protocol (`exec:COMMAND`).
// folder (Nullable) is that of pf_plant_create_in, stop that of pf__plant_create; so below.
pf_status pf__bridge_create(pf_plant **plant, const char *command, const char *folder,
                            const volatile int *stop, pf_error *error);

// A Gymnasium environment behind the same protocol, in a worker of our Python package (`gym:ID`).
pf_status pf__gym_create(pf_plant **plant, const char *id, const volatile int *stop,
                         pf_error *error);

// An FMU in a process of its own (`fmu:FILE`).
#define PF_FMU_PREFIX "fmu:"
pf_status pf__fmu_create(pf_plant **plant, const char *reference, const volatile int *stop,
                         pf_error *error);

// Whether a name says what code to run: a command, a module that Python imports, or an FMU, which
// is native code.
bool pf__plant_runs_code(const char *name);

// The simulators of a domain that our Python package knows by name, behind the same protocol.
#define PF_DOMAIN_PLANTS(X)                                                                        \
    X(grid2op, "Grid2Op, L2RPN NeurIPS 2020: five dormant generators")                             \
    X(highway, "highway-env, highway-v0: brake and steering dormant")                              \
    X(inventory_serial, "gym-invmgmt, serial supply chain with backlog")                           \
    X(inventory_lost_sales, "gym-invmgmt, serial supply chain with lost sales")                    \
    X(inventory_multi, "gym-invmgmt, multi-echelon network")
pf_status pf__domain_create(pf_plant **plant, const char *name, const volatile int *stop,
                            pf_error *error);
// The same with another source tree, whose build folder is looked into. Its path has no quotes.
pf_status pf__domain_create_in(pf_plant **plant, const char *tree, const char *name,
                               const volatile int *stop, pf_error *error);

// As many trajectories in step as are worth collecting.
enum { PF_ROLLS = 32 };

// n trajectories, each as pf_plant_roll has it, to the bit. Where the plant can, they run in step.
// Those of one key and of one command are best side by side: they share random numbers and checks.
pf_status pf__plant_roll_many(pf_plant *plant, int n, const pf_roll *rolls, const pf_trace *traces,
                              pf_error *error);
// Whether that takes less time than one after the other.
bool pf__plant_rolls_many(const pf_plant *plant);

// Its word in files and messages, and back; false: there is no such word.
const char *pf__channel_kind_name(pf_channel_kind kind);
bool pf__channel_kind_find(const char *name, pf_channel_kind *kind);

// A start state (n_state numbers) from the n numbers of a file: n_state, or what else the plant
// knows (positions and velocities of a MuJoCo system, the rest as after a reset).
pf_status pf__plant_load_state(pf_plant *plant, int n, const double *values, double *state,
                               pf_error *error);

// Simulators of a domain behind the process bridge, by name; NULL past the last one.
const char *pf__plant_domain_at(int index, const char **title);

// Whether a plant of that name is a process of its own, which takes time to start.
bool pf__plant_is_process(const char *name);
// Whether it is one of the MuJoCo systems or a model file for MuJoCo.
bool pf__plant_is_mujoco(const char *name);

// The fault layer: what stands between a command and what the plant receives, v = g * clip(u, lo,
// hi). Plants whose physics puts the gain elsewhere replace it through pf_plant_class.deliver.
static inline void pf__fault_deliver(int n_mech, const pf_mechanism *mechanisms, const double *u,
                                     const double *gains, double *v)
{
    for (int j = 0; j < n_mech; j++) {
        double lo = mechanisms[j].lo, hi = mechanisms[j].hi;
        v[j] = gains[j] * (u[j] < lo ? lo : u[j] > hi ? hi : u[j]);
    }
}

// The state of one fault along a trajectory. All zero: at rest.
typedef struct pf_fault_state {
    double last; // delivered before
    double past[PF_FAULT_DELAY_MAX];
    int row;
} pf_fault_state;

// Whether some of the faults act on the command of a mechanism, step by step.
bool pf__fault_moves(const pf_fault *faults, int n);

// What the faults make of the commands u (n_mech) of one step: those that some act on are clipped,
// then pass through them in the order given. states: n, one per fault.
void pf__fault_step(const pf_fault *faults, int n, const pf_mechanism *mechanisms,
                    pf_fault_state *states, double *u);

// gains (n_mech, Nullable: all 1) times what the faults leave; key is the trajectory's.
void pf__fault_gains(const pf_fault *faults, int n, int n_mech, pf_key key, const double *gains,
                     double *out);

// The name under which the plant declares this fault; NULL: it is none that the plant carries.
const char *pf__fault_declared_name(const pf_fault *fault, const pf_plant_info *info);

// Whether a plant may declare a fault of this name: no kind of ours, or one that needs its physics.
bool pf__fault_name_free(const char *name);

// A quarter of a mechanism's range, to its wider side; infinite where it has no limits.
static inline double pf__quarter_range(const pf_mechanism *mechanism)
{
    return fabs(mechanism->hi) >= fabs(mechanism->lo) ? .25 * mechanism->hi : .25 * mechanism->lo;
}

// A mechanism, or with -1 the machine, in the plant's own words; "": it has none.
const char *pf__plant_about(const pf_plant *plant, int mechanism);

// Whether the loss of a mechanism is one of its force.
bool pf__plant_loses_force(const pf_plant_info *info, int mechanism);

const char *pf__loss_name(pf_loss loss); // "command", "force"

// Fills rows x n_mech with the pulse of one mechanism, all others zero.
void pf__pulse_command(const pf_pulse *pulse, int n_mech, int mechanism, double *command);

// returns: draws x n; beyond: n, the share of the commands that ask for more than the limit.
pf_status pf__plant_forecast(pf_plant *plant, const pf_forecast *forecast, double *returns,
                             double *beyond, pf_error *error);

#endif
