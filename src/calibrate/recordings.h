// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_RECORDINGS_H
#define PF_RECORDINGS_H

#include "core/constants.h"
#include "host/arena.h"
#include "host/csv.h"
#include "kit_build.h"

// Recorded probe responses as they stand in a CSV file, checked for shape and order only.

// Values beyond this are a mistake in the units; below it no square overflows.
#define PF_RECORDED_MAX 1e100

// Episodes per class below which a channel is guesswork.
enum { PF_LEAST_EPISODES = 20 };

// One run of one probe.
typedef struct pf_episode {
    pf_csv_field id;                     // as written
    pf_csv_field probe, mechanism, gain; // as written in its first row
    int line;                            // of its first row
    int group;                           // in pf_recordings.groups
    int rows;
    size_t first;           // first row in `data`
    const double *response; // rows x n_chan
} pf_episode;

// All runs of one probe with the same mechanism weakened to the same gain, in the order of their
// first rows. Even ranks make signatures and mean responses, odd ranks the channel.
typedef struct pf_group {
    int probe;
    int mechanism; // 0: nominal
    double gain;   // 1: nominal
    int n;
    int *episodes; // n
} pf_group;

typedef struct pf_recorded_probe {
    const char *name;
    int rows;
    double *command;   // rows x n_mech, NULL without u columns
    int *command_line; // rows: where the command was first read, 0: not yet
} pf_recorded_probe;

typedef struct pf_recordings {
    const pf_plan *plan; // Nullable
    bool own_probes;     // the u columns say which probes there are
    const char *file;
    int n_chan, n_mech;
    int n_u; // n_mech, or 0 where the plan gives the commands
    const char **channels;
    int n_probes;
    pf_recorded_probe *probes;
    int n_episodes;
    pf_episode *episodes;
    int n_groups;
    pf_group *groups;
    pf_arena arena; // owns all of it; ids are slices of the caller's text
} pf_recordings;

// Reads text (n bytes, called `file` in messages; both must outlive *rec). On failure nothing is
// left to free.
pf_status pf__recordings_read(pf_recordings *rec, const pf_plan *plan, const char *file,
                              const char *text, size_t n, pf_error *error);
void pf__recordings_free(pf_recordings *rec);

// The group, NULL where nothing of the kind was recorded.
const pf_group *pf__recordings_find(const pf_recordings *rec, int probe, int mechanism,
                                    double gain);

// Response of the episode of this rank.
const double *pf__recordings_response(const pf_recordings *rec, const pf_group *group, int rank);

// Compares the header with the plan and sets n_mech; without a plan the u columns are the machine.
pf_status pf__recordings_match(pf_recordings *rec, pf_error *error);

// The plan of the kit: the given one, or that of a machine known by its recordings only, with g_cal
// and grid as recorded. Everything lives in the arena, in the recordings or in the given plan.
// Refuses what is missing, by name.
pf_status pf__recordings_plan(const pf_recordings *rec, pf_arena *arena, pf_plan *plan,
                              pf_error *error);

// Windows of a log or of recorded probes as the transitions that a model learns from, into a file.
// plant (Nullable) gives names, kinds and limits. Sets the window where it is not given, the
// history that there is room for, and the size of the data. Warns of episodes that are too short.
struct pf_train_settings;
pf_status pf__transitions_record(struct pf_train_settings *settings, const pf_plant_info *plant,
                                 const char *file, const char *text, size_t n, const char *path,
                                 const pf_effort *effort, pf_error *error);

// pf_calibrate_recordings with another number of alarm trials (0: the plan's); for the fuzzer.
pf_status pf__calibrate_recordings(const pf_plan *plan, const char *file, const char *csv, size_t n,
                                   int alarm_trials, const pf_effort *effort, void **bytes,
                                   size_t *n_bytes, pf_error *error);

#endif
