// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_MODEL_TRANSITIONS_H
#define PF_MODEL_TRANSITIONS_H

#include "host/arena.h"
#include "preflight/train.h"

// The file, all little-endian, every part aligned to 8 bytes and padded with zeros:
//
//   head      88 bytes
//   limits    n_mech x (lo, hi) float64, infinite where there are none
//   kinds     n_chan x u32
//   text      plant, source, channels, mechanisms: each ended by a zero byte
//   channels  float64, episode after episode, (steps + 1) x n_chan each
//   commands  float32, episode after episode, steps x n_mech each
//   digest    SHA-256 of everything before it

#define PF_TRANSITIONS_MAGIC "PFLTDATA"
#define PF_TRANSITIONS_VERSION 2

// Largest dimensions that are believed; every size then stays below 2^48.
#define PF_TRANSITIONS_CHAN 4096
#define PF_TRANSITIONS_STEPS (1 << 22)
#define PF_TRANSITIONS_TEXT (1 << 24)
#define PF_TRANSITIONS_DIGEST 32

typedef struct pf_transitions_head {
    char magic[8];
    uint32_t version;
    uint32_t n_chan, n_mech;
    uint32_t n_episodes, steps, transitions;
    uint32_t disturbance; // 0 or 1
    uint32_t n_text;      // bytes
    uint64_t seed;
    double dt_s;
    double correlation, amplitude, single;
    uint32_t lead;     // steps at rest before the first command of an episode
    uint32_t commands; // pf_train_commands
} pf_transitions_head;

_Static_assert(sizeof(pf_transitions_head) == 88, "the head has no padding");

// Where the parts lie, in bytes from the start.
typedef struct pf_transitions_layout {
    uint64_t limits, kinds, text, channels, commands, digest, size;
} pf_transitions_layout;

struct pf_transitions {
    void *map; // NULL: the bytes are the caller's
    size_t map_size;
    char *path;
    const uint8_t *bytes;
    pf_transitions_head head;
    pf_transitions_layout layout;
    pf_transitions_info info;
    pf_arena arena; // what info points to, besides the file itself
};

// The nearest float32 to a command within the limits. That to zero is where a mechanism rests.
float pf__transitions_command(const pf_mechanism *mechanism, double u);

// Checks every byte and fills *data, which starts as zero but for its path. On failure its arena is
// still to be freed.
pf_status pf__transitions_view(pf_transitions *data, const void *bytes, size_t size,
                               pf_error *error);

// Writes data that were not made here: info with its names, episodes, steps and lead, the channels
// of all episodes and their commands, which are within the limits.
pf_status pf__transitions_write(const pf_transitions_info *info, const double *channels,
                                const float *commands, const char *path, pf_error *error);

// How good a model is on the held-out windows of its data, where there is no plant to ask.
typedef struct pf_windows_report {
    int windows, held_out, inputs;
    double left;   // of what moves in held-out windows
    double linear; // what its linear part leaves of them by itself
    double half;   // and what it leaves when fitted to half of the data
    // Standard deviation of the gain of each mechanism that one window tells, from the size of a
    // loss to `gain`; NaN: it never moves.
    double gain_sd[PF_MECH_MAX];
} pf_windows_report;
pf_status pf__windows_report(const pf_model *model, const pf_transitions *data, double held_out,
                             double gain, pf_windows_report *report, pf_error *error);

// Steps at rest that episodes of this training begin with: room for the history.
int pf__train_lead(const pf_train_settings *settings);

// Names of the profiles, NULL at the end.
const char *const *pf__train_profiles(void);

// Opens the file, made first where it is not there, and checks that it fits as pf_transitions_fit
// does with `exact` settings or with any.
pf_status pf__transitions_ready(pf_transitions **data, const pf_train_settings *settings,
                                bool exact, pf_plant *plant, const char *path,
                                const pf_effort *effort, pf_error *error);

// Steps of one episode, its channels ((steps + 1) x n_chan, row 0 before the first command) and
// commands (steps x n_mech).
int pf__transitions_episode(const pf_transitions *data, int episode, const double **channels,
                            const float **commands);

// Whether a training is writing the model of this path now, which another one then refuses to do.
bool pf__train_busy(const char *path);

// Whether a model was trained with these settings, the seed aside. One that does not say how it was
// trained passes; that of another number of transitions does too.
pf_status pf__train_made(const pf_train_settings *settings, const pf_model *model, pf_error *error);

#endif
