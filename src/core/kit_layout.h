// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_KIT_LAYOUT_H
#define PF_KIT_LAYOUT_H

#include "belief.h"
#include "preflight/kit.h"

// What a kit is made of. Core, the building of kits and the writer of their JSON see it; everybody
// else asks preflight/kit.h.

// File layout, all little-endian: 8 bytes magic, u32 version, u32 number of sections, u64 bytes of
// the whole file, the table of sections (pf_kit_section each), then the sections one after the
// other, each padded to 8 bytes, then the SHA-256 of everything before it. Four sections are the
// dimensions (i32, in the order of PF_KIT_DIMS), the scalars (f64, PF_KIT_SCALARS), the settings
// (f64, the rows of settings.def that a kit holds, in their order) and the names of these settings
// (each with a space after it), the others the arrays of PF_KIT_ARRAYS; an array without elements
// has none. So new fields need no new version: dimensions and scalars are added at the end, where a
// file that lacks them counts as 0 and a file with more of them is refused unless they are 0; a
// file with other settings is refused; arrays get a new id, and a section whose id is not known is
// passed over if it is marked optional, else refused.
#define PF_KIT_MAGIC "PFLTKIT"
#define PF_KIT_VERSION 4

// One row of the table of sections.
typedef struct pf_kit_section {
    uint32_t id;
    uint16_t element; // bytes of one element
    uint16_t flags;   // PF_KIT_OPTIONAL
    uint64_t offset;  // from the start of the file
    uint64_t count;   // elements
} pf_kit_section;

enum { PF_KIT_OPTIONAL = 1, PF_KIT_HEAD_BYTES = 24, PF_KIT_SECTION_BYTES = 24 };
// ids of the arrays are in PF_KIT_ARRAYS
enum {
    PF_KIT_ID_DIMS = 1,
    PF_KIT_ID_SCALARS = 2,
    PF_KIT_ID_SETTINGS = 3,
    PF_KIT_ID_SETTING_NAMES = 4
};

#define PF_KIT_DIMS(X)                                                                             \
    X(n_mech)  /* mechanisms: 0 current, 1..m candidates */                                        \
    X(n_chan)  /* observed channels */                                                             \
    X(n_state) /* doubles that a prediction starts from; 0: it needs none */                       \
    X(n_grid)  /* gains of the grid */                                                             \
    X(n_bins)  /* categories K */                                                                  \
    X(n_probes)                                                                                    \
    X(n_targets)  /* targets of all probes together */                                             \
    X(n_rows)     /* command rows of all probes together */                                        \
    X(n_scale)    /* rows of `scale`: 1, or the longest probe's */                                 \
    X(n_curve)    /* n_targets where z has a calibrated curve, else 0 */                           \
    X(n_cross)    /* doubles of full rows, 0 where no probe has them */                            \
    X(n_response) /* n_rows where nominal responses are stored (recordings), else 0 */             \
    X(n_variant)  /* response rows over all targets and grid gains, else 0 */                      \
    X(n_tasks)                                                                                     \
    X(n_uses)      /* mechanisms used by all tasks together */                                     \
    X(n_task_rows) /* command rows of all tasks together */                                        \
    X(n_shares)    /* delivered shares of the return table */                                      \
    X(n_members)   /* members of the return table */                                               \
    X(n_methods)   /* alarm thresholds */                                                          \
    X(n_names)     /* strings in `text` */                                                         \
    X(n_text)      /* bytes of `text` */                                                           \
    X(statistic)   /* pf_statistic */                                                              \
    X(n_whiten)    /* doubles of all whitening factors, 0 where inner products are plain */        \
    X(n_reach)     /* n_uses where a task is a policy, else 0 */                                   \
    X(n_knots)     /* gains that looks are calibrated at; 0: no joint posterior */                 \
    X(n_look)      /* doubles of all looks, see look_mean; 0 without knots */                      \
    X(n_misfit)    /* n_rows where the misfit is calibrated, else 0 */                             \
    X(n_rehearse)  /* n_tasks where tasks can be rehearsed, else 0 */                              \
    X(n_groups)    /* rehearsals of several tasks in one run */                                    \
    X(n_grouped)   /* tasks of all groups together */                                              \
    X(n_bounded)   /* n_uses where a rehearsal must not move an output too far, else 0 */          \
    X(n_blind)     /* doubles of all blind directions; 0: every rehearsal sees everything */       \
    X(n_before)    /* n_chan where predictions start from several readings, else 0 */              \
    X(n_force)     /* doubles of the table over gain and correction, 0 where all lose command */

#define PF_KIT_SCALARS(X)                                                                          \
    X(cross_ratio)  /* worst ratio of a target's row under another's fault to its nominal row */   \
    X(misfit_chan)  /* A*: what the misfit of a channel is divided by */                           \
    X(misfit_shape) /* B*: the same of the coordinates */                                          \
    X(misfit_level) /* V*: a session above it fits no machine of the model */                      \
    X(alarm_checks) /* fresh healthy sessions that the kit was tried on */                         \
    X(alarm_false)  /* how many of them alarmed */                                                 \
    X(rehearsal_strictness) /* share taken off what a rehearsal may miss, chosen by an audit */    \
    X(tolerance)            /* equal trajectories of the plant differ by less; 0: in no bit */

// (id, type, field, count)
#define PF_KIT_ARRAYS(X)                                                                           \
    X(16, double, lo, k->n_mech)                                                                   \
    X(17, double, hi, k->n_mech)                                                                   \
    X(18, double, scale, (size_t)k->n_scale *(size_t)k->n_chan)                                    \
    X(19, double, return_scale, k->n_chan)                                                         \
    X(20, double, grid, k->n_grid)                                                                 \
    X(21, double, prior, k->n_mech)                                                                \
    X(22, double, weight, k->n_mech - 1)                                                           \
    X(23, double, importance, k->n_mech - 1)                                                       \
    X(24, double, reveal, k->n_mech - 1)                                                           \
    X(25, int32_t, probe_row, k->n_probes + 1)    /* first command row of each probe */            \
    X(26, int32_t, probe_target, k->n_probes + 1) /* first target of each probe */                 \
    X(27, int32_t, probe_cross, k->n_probes)      /* first double in `cross`, -1: none */          \
    X(28, double, charge, k->n_probes)                                                             \
    X(29, double, command, (size_t)k->n_rows *(size_t)k->n_mech)                                   \
    X(30, int32_t, target_mech, k->n_targets)                                                      \
    X(31, double, edges, (size_t)k->n_targets *(size_t)(k->n_bins - 1))                            \
    X(32, double, nominal, (size_t)k->n_targets *(size_t)k->n_bins)                                \
    X(33, double, changed, (size_t)k->n_targets *(size_t)k->n_bins)                                \
    X(34, double, centre_nominal, k->n_targets)                                                    \
    X(35, double, centre_changed, k->n_targets)                                                    \
    X(36, double, sigma, k->n_targets)                                                             \
    X(37, double, curve, (size_t)k->n_curve *(size_t)k->n_grid)                                    \
    X(38, double, cross, k->n_cross) /* per probe: targets x targets x K, p(c_k | i) */            \
    X(39, double, response, (size_t)k->n_response *(size_t)k->n_chan)                              \
    X(40, double, variant, (size_t)k->n_variant *(size_t)k->n_chan)                                \
    X(41, int32_t, task_use, k->n_tasks + 1) /* first entry in use_mech of each task */            \
    X(42, int32_t, task_row, k->n_tasks + 1) /* first command row; none: the task is a policy */   \
    X(43, int32_t, use_mech, k->n_uses)                                                            \
    X(44, double, task_command, (size_t)k->n_task_rows *(size_t)k->n_mech)                         \
    X(45, double, task_reveal, k->n_tasks)                                                         \
    X(46, double, task_importance, k->n_tasks)                                                     \
    X(47, double, shares, k->n_shares)                                                             \
    X(48, double, tracking_error, (size_t)k->n_uses *(size_t)k->n_members *(size_t)k->n_shares)    \
    X(49, double, threshold, k->n_methods)                                                         \
    X(50, double, off_limit, k->n_probes)  /* largest plausible rms off the signatures */          \
    X(51, double, signature, k->n_targets) /* typical |h|; a tenth of it is no look. 0: unknown */ \
    X(52, uint32_t, name, k->n_names)      /* offset in `text` of each string */                   \
    X(53, char, text, k->n_text)                                                                   \
    X(54, double, distance_limit, k->n_probes) /* largest plausible rms distance, stage 2 */       \
    X(55, double, whiten, k->n_whiten)         /* per probe: rows 0..n-1 of a lower triangle */    \
    X(56, double, reach, k->n_reach) /* largest correction that a policy's limits let be */        \
    X(57, double, knots, k->n_knots) /* ascending gains, 1 is not among them */                    \
    /* per probe with T targets: T of the nominal look, then per target and knot T */              \
    X(58, double, look_mean, k->n_look)                                                            \
    X(59, double, look_variance, k->n_look)                                                        \
    X(60, double, residual_rms, (size_t)k->n_misfit *(size_t)k->n_chan) /* by row and channel */   \
    X(61, double, misfit_mean, k->n_misfit ? (size_t)k->n_probes *(size_t)k->n_chan : 0)           \
    X(62, double, misfit_sd, k->n_misfit ? (size_t)k->n_probes *(size_t)k->n_chan : 0)             \
    X(63, double, rehearsal, (size_t)k->n_rehearse *PF_REHEARSAL_NUMBERS)                          \
    X(64, double, use_edge, k->n_rehearse ? 2 * (size_t)k->n_uses : 0) /* shares where a task */   \
    /* of that use alone returns j_min: below 1 and above */                                       \
    X(65, int32_t, group_first, k->n_groups ? k->n_groups + 1 : 0) /* in group_task */             \
    X(66, int32_t, group_task, k->n_grouped)                                                       \
    X(67, double, group_rehearsal, (size_t)k->n_groups *PF_REHEARSAL_NUMBERS)                      \
    X(68, double, slew, k->n_rehearse ? k->n_mech : 0) /* largest step of a command */             \
    X(69, double, excursion, k->n_bounded)        /* of a use, at share 1, over what is allowed */ \
    X(70, int32_t, rehearsal_rows, k->n_rehearse) /* 0: this task cannot be rehearsed */           \
    X(71, double, still, k->n_misfit ? k->n_chan : 0) /* most equal readings at the end of a look  \
                                                       */                                          \
    /* of each task, then of each group: unit vectors of rows x channels numbers, in which the     \
       predictor errs and a rehearsal does not look */                                             \
    X(72, double, blind, k->n_blind)                                                               \
    X(73, int32_t, blind_first, k->n_blind ? k->n_rehearse + k->n_groups + 1 : 0) /* in blind */   \
    X(74, double, before, k->n_before) /* most that a channel moves between the readings of a      \
                                          start */                                                 \
    X(75, int32_t, loss, k->n_force ? k->n_mech : 0) /* 1: of force, 0: of command */              \
    X(76, double, force_gains, k->n_force ? PF_FORCE_GAINS : 0)                                    \
    X(77, double, corrections, k->n_force ? PF_FORCE_CORRECTIONS : 0)                              \
    /* per use and member: gains x corrections; 0 for uses of mechanisms that lose command */      \
    X(78, double, force_error, k->n_force)

// A mechanism that loses force delivers no share of its command: what a task misses then depends on
// gain and correction apart. Points of that table.
enum { PF_FORCE_GAINS = 14, PF_FORCE_CORRECTIONS = 13 };

// What is known of a rehearsal from healthy runs of it, seen through the sensors: the numbers of
// one row of `rehearsal` and `group_rehearsal`.
enum {
    PF_REHEARSAL_MEAN,   // of the distance D to the prediction
    PF_REHEARSAL_SD,     // of D
    PF_REHEARSAL_CLEAN,  // 99 % point of D
    PF_REHEARSAL_ENERGY, // 5 % point over starts of what the task moves
    PF_REHEARSAL_CV,     // spread of the tracking error over members where its mean gives j_min
    PF_REHEARSAL_NUMBERS
};

// What settings.def says of a setting: whether a kit has it, and as what.
#define PF_KIT_YES(...) __VA_ARGS__
#define PF_KIT_NO(...)
#define PF_KIT_NUMBER double
#define PF_KIT_WHOLE double
#define PF_KIT_COUNT int32_t
#define PF_KIT_FLAG int32_t
#define PF_KIT_WORD int32_t

// The strings come in this order in `name`: the fixed ones, then one per mechanism, channel,
// probe, task (its name), task (its policy, empty for an open loop), task (its fallback, empty: the
// uncorrected command) and method id; then, where a probe is a closed loop, one per probe (its
// policy, empty for an open loop); then, after these, the folder that the plant's command names
// files in, where it names some.
struct pf_kit {
#define X(field) int32_t field;
    PF_KIT_DIMS(X)
#undef X
#define X(field) double field;
    PF_KIT_SCALARS(X)
#undef X
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    PF_KIT_##kit(PF_KIT_##type field;)
#include "../settings/settings.def" // those of the kit, as they were when it was calibrated
#define X(id, type, field, count) const type *field;
    PF_KIT_ARRAYS(X)
#undef X
    uint8_t sha256[32]; // Of the whole file, as sha256sum prints it; zero before pf__kit_read.
};

// Bytes of the file, 0 if a dimension is out of range.
size_t pf__kit_image_size(const pf_kit *kit);

// Writes the file image into mem (at least pf__kit_image_size bytes) after pf_kit_check.
pf_status pf__kit_save(const pf_kit *kit, void *mem, size_t bytes, pf_error *error);

// Points *kit into a file image, as pf_kit_load does.
pf_status pf__kit_read(pf_kit *kit, const void *image, size_t n_image, pf_error *error);

// Whether the dimensions make sense by themselves; on failure names the one that does not.
pf_status pf__kit_check_dims(const pf_kit *kit, pf_error *error);

// Whether fields that calibration makes from each other still agree; on failure names those that do
// not. Asked when a kit is read or written, of one that passed pf_kit_check.
pf_status pf__kit_check_relations(const pf_kit *kit, pf_error *error);

// Facts that pf_kit_get_info tells too.
// Whether names of a kit may be so: UTF-8 without control characters but the zeros between them.
bool pf__kit_may_say(const char *text, int n);

int pf__kit_most_rows(const pf_kit *kit);
int pf__kit_most_targets(const pf_kit *kit);
bool pf__kit_starts_from_channels(const pf_kit *kit);

// What number i of a response (rows x channels) is divided by.
static inline double pf__kit_scale(const pf_kit *kit, int i)
{
    return kit->scale[kit->n_scale > 1 ? i : i % kit->n_chan];
}

// Channel of target t (counted over all probes).
pf_channel_row pf__kit_channel(const pf_kit *kit, int target);

// Where the looks of a probe begin in look_mean and look_variance.
size_t pf__kit_look(const pf_kit *kit, int probe);

// Rows of the longest rehearsal of commands, 0: none.
int pf__kit_rehearsal_rows(const pf_kit *kit);

// Rows of rehearsal `which`: a task, or n_tasks + a group.
int pf__kit_run_rows(const pf_kit *kit, int which);

// Blind directions of a rehearsal and how many there are.
const double *pf__kit_blind(const pf_kit *kit, int which, int *n);

// Whitening factor of a probe for windows of n = rows x channels, n (n + 1)/2 doubles, row by row:
// the inverse of the lower Cholesky factor of the shrunk covariance of nominal residuals. NULL
// where inner products are plain.
const double *pf__kit_whiten(const pf_kit *kit, int probe);

// Doubles of a whitening factor for windows of n numbers.
static inline int64_t pf__whiten_size(int n)
{
    return (int64_t)n * (n + 1) / 2;
}

#endif
