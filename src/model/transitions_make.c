// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "transitions_impl.h"

#include "host/file.h"
#include "host/parallel.h"
#include "preflight/kit.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Stream of the commands; the plant's own streams are 1 to 3, the observer's is 4.
enum { STREAM_COMMAND = 5 };

// Larger data are a mistake.
static const double most_bytes = 8e9;

// A command without limits spreads over this many probe amplitudes.
#define PROBE_AMPLITUDES 4
// Far below the largest float32, so that no draw can leave it.
#define COMMAND_MAX 1e30

typedef struct worker {
    pf_plant *plant;
    double *command; // one episode
} worker;

typedef struct maker {
    const pf_train_settings *settings;
    const pf_plant_info *info;
    pf_transitions_head head;
    pf_transitions_layout layout;
    uint8_t *bytes; // the file
    double *rest, *sd;
    int n_workers;
    worker *workers;
    pf_arena arena;
} maker;

// --- commands

static pf_status noise_of(const maker *k, int j, pf_error *error)
{
    const pf_mechanism *m = &k->info->mechanisms[j];
    const char *plant = k->info->name;
    bool limited = isfinite(m->lo) && isfinite(m->hi);
    double probe = k->info->probe ? fabs(k->info->probe->amplitude[j]) : 0;
    if (!limited && !(probe > 0 && isfinite(probe))) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "plant %s: mechanism %s has neither two limits nor a probe amplitude, so "
                       "how far to move it is unknown",
                       plant, m->name);
    }
    if (!(m->lo <= m->hi) || (isfinite(m->lo) && fabs(m->lo) > COMMAND_MAX) ||
        (isfinite(m->hi) && fabs(m->hi) > COMMAND_MAX)) {
        return pf_fail(error, PF_ERR_ARGUMENT, "plant %s: limits %g to %g of mechanism %s", plant,
                       m->lo, m->hi, m->name);
    }
    k->rest[j] = (double)pf__transitions_command(m, 0);
    // from rest to the further limit, so that a command that moves one way reaches as far
    double reach = fmax(m->hi - k->rest[j], k->rest[j] - m->lo);
    k->sd[j] = k->settings->amplitude * (limited ? reach : PROBE_AMPLITUDES * probe);
    if (!(k->sd[j] <= COMMAND_MAX) || !(k->rest[j] >= m->lo && k->rest[j] <= m->hi)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "plant %s: commands of mechanism %s cannot be held as float32", plant,
                       m->name);
    }
    return PF_OK;
}

// Stationary AR(1) noise around rest. The law runs without limits; what it gives is clipped.
static void draw_commands(const maker *k, pf_key key, int steps, float *command)
{
    int n_mech = k->info->n_mech;
    double phi = k->settings->correlation, fresh = sqrt(1 - phi * phi);
    double u[PF_MECH_MAX];
    pf_rng rng;
    pf_rng_init(&rng, pf_key_derive(key, STREAM_COMMAND));
    bool single = pf_rng_uniform(&rng) < k->settings->single;
    int only = single ? (int)pf_rng_below(&rng, (uint32_t)n_mech) : -1;
    for (int r = 0; r < steps; r++) {
        float *row = command + (size_t)r * (size_t)n_mech;
        for (int j = 0; j < n_mech; j++) {
            if (single && j != only) {
                row[j] = (float)k->rest[j];
                continue;
            }
            double e = k->sd[j] * pf_rng_normal(&rng);
            u[j] = r == 0 ? e : phi * u[j] + fresh * e;
            row[j] = pf__transitions_command(&k->info->mechanisms[j], k->rest[j] + u[j]);
        }
    }
}

// --- episodes

static pf_status check_rows(const maker *k, int episode, int steps, const double *rows,
                            pf_error *error)
{
    size_t n_chan = (size_t)k->info->n_chan;
    for (size_t i = 0; i < ((size_t)steps + 1) * n_chan; i++) {
        if (isfinite(rows[i])) {
            continue;
        }
        const char *channel = k->info->channels[i % n_chan].name;
        if (i < n_chan) {
            return pf_fail(error, PF_ERR_UNSUPPORTED,
                           "plant %s: does not tell channel %s before the first command, and a "
                           "learned model starts from there",
                           k->info->name, channel);
        }
        return pf_fail(error, PF_ERR_NONFINITE,
                       "plant %s: episode %d: channel %s is not finite after step %d",
                       k->info->name, episode, channel, (int)(i / n_chan));
    }
    return PF_OK;
}

static pf_status make_episode(void *self, int worker_index, size_t item, pf_error *error)
{
    const maker *k = self;
    worker *w = &k->workers[worker_index];
    size_t n_chan = (size_t)k->info->n_chan, n_mech = (size_t)k->info->n_mech;
    int steps = pf__transitions_steps(&k->head, (uint32_t)item);
    double *rows = (double *)(void *)(k->bytes + k->layout.channels);
    rows += item * ((size_t)k->head.steps + 1) * n_chan;
    float *command = (float *)(void *)(k->bytes + k->layout.commands);
    command += item * (size_t)k->head.steps * n_mech;
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(k->settings->seed, pf_plant_environment(k->info), item,
                             PF_PURPOSE_TRAINING, 0);
    roll.command = w->command;
    roll.rows = steps;
    roll.disturbance = k->settings->disturbance;
    draw_commands(k, roll.key, steps, command);
    for (size_t i = 0; i < (size_t)steps * n_mech; i++) {
        w->command[i] = (double)command[i];
    }
    // so that a plant that leaves the first row alone is noticed
    for (size_t c = 0; c < n_chan; c++) {
        rows[c] = NAN;
    }
    pf_trace trace = {.initial = rows, .output = rows + n_chan};
    pf_error problem = {PF_OK, ""};
    pf_status status = pf_plant_roll(w->plant, &roll, &trace, &problem);
    if (status != PF_OK) {
        return pf_fail(error, status, "episode %d: %s", (int)item, problem.text);
    }
    return check_rows(k, (int)item, steps, rows, error);
}

// --- the file

static pf_status make_head(maker *k, pf_error *error)
{
    const pf_train_settings *s = k->settings;
    const pf_plant_info *info = k->info;
    if (!pf__transitions_little_endian()) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "data: this machine is not little-endian");
    }
    if (s->transitions < 1 || s->episode_steps < 1) {
        return pf_fail(error, PF_ERR_ARGUMENT, "data: %d transitions in episodes of %d steps",
                       s->transitions, s->episode_steps);
    }
    size_t n_text =
        strlen(pf_plant_environment(info)) + 1 + (info->source ? strlen(info->source) : 0) + 1;
    for (int c = 0; c < info->n_chan; c++) {
        n_text += strlen(info->channels[c].name) + 1;
    }
    for (int j = 0; j < info->n_mech; j++) {
        n_text += strlen(info->mechanisms[j].name) + 1;
    }
    k->head = (pf_transitions_head){.magic = PF_TRANSITIONS_MAGIC,
                                    .version = PF_TRANSITIONS_VERSION,
                                    .n_chan = (uint32_t)info->n_chan,
                                    .n_mech = (uint32_t)info->n_mech,
                                    .steps = (uint32_t)s->episode_steps,
                                    .transitions = (uint32_t)s->transitions,
                                    .disturbance = s->disturbance ? 1 : 0,
                                    .n_text = n_text > UINT32_MAX ? 0 : (uint32_t)n_text,
                                    .seed = s->seed,
                                    .dt_s = info->dt_s,
                                    .correlation = s->correlation,
                                    .amplitude = s->amplitude,
                                    .single = s->single};
    k->head.n_episodes = (k->head.transitions - 1) / k->head.steps + 1;
    return pf__transitions_layout("data", &k->head, &k->layout, error);
}

static char *put_text(char *at, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (n > 0) {
        memcpy(at, text, n);
    }
    return at + n + 1; // the zero is there
}

// Everything before the numbers.
static pf_status write_description(maker *k, pf_error *error)
{
    const pf_plant_info *info = k->info;
    double *limits = (double *)(void *)(k->bytes + k->layout.limits);
    uint32_t *kinds = (uint32_t *)(void *)(k->bytes + k->layout.kinds);
    char *text = (char *)k->bytes + k->layout.text;
    memcpy(k->bytes, &k->head, sizeof k->head);
    text = put_text(put_text(text, pf_plant_environment(info)), info->source);
    for (int c = 0; c < info->n_chan; c++) {
        kinds[c] = (uint32_t)(info->kinds ? info->kinds[c] : PF_CHANNEL_PLAIN);
        text = put_text(text, info->channels[c].name);
    }
    for (int j = 0; j < info->n_mech; j++) {
        limits[2 * j] = info->mechanisms[j].lo;
        limits[2 * j + 1] = info->mechanisms[j].hi;
        text = put_text(text, info->mechanisms[j].name);
    }
    return pf__transitions_kinds(info->name, kinds, k->head.n_chan, error);
}

static pf_status make_workers(maker *k, pf_plant *plant, const pf_effort *effort, pf_error *error)
{
    int threads = pf_threads(effort), episodes = (int)k->head.n_episodes;
    k->n_workers = threads < episodes ? threads : episodes;
    k->workers = pf_arena_take(&k->arena, (size_t)k->n_workers, sizeof *k->workers);
    size_t longest = (size_t)pf__transitions_steps(&k->head, 0);
    for (int i = 0; k->workers && i < k->n_workers; i++) {
        worker *w = &k->workers[i];
        w->command = pf_arena_take(&k->arena, longest * k->head.n_mech, sizeof(double));
        if (!w->command) {
            break;
        }
        pf_status status = pf_plant_clone(plant, &w->plant, error);
        if (status != PF_OK) {
            return status;
        }
    }
    return k->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "data: out of memory") : PF_OK;
}

static pf_status start(maker *k, pf_plant *plant, const pf_effort *effort, pf_error *error)
{
    pf_status status = make_head(k, error);
    if (status != PF_OK) {
        return status;
    }
    if ((double)k->layout.size > most_bytes) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "data: %d transitions would take %g GB, the most is %g; set fewer",
                       k->settings->transitions, (double)k->layout.size * 1e-9, most_bytes * 1e-9);
    }
    size_t n_mech = (size_t)k->info->n_mech;
    k->rest = pf_arena_take(&k->arena, n_mech, sizeof *k->rest);
    k->sd = pf_arena_take(&k->arena, n_mech, sizeof *k->sd);
    k->bytes = calloc(1, (size_t)k->layout.size);
    if (!k->bytes || k->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "data: out of memory for %z bytes",
                       (size_t)k->layout.size);
    }
    for (int j = 0; status == PF_OK && j < k->info->n_mech; j++) {
        status = noise_of(k, j, error);
    }
    if (status == PF_OK) {
        status = write_description(k, error);
    }
    return status == PF_OK ? make_workers(k, plant, effort, error) : status;
}

static pf_status finish(const maker *k, const char *path, pf_error *error)
{
    pf_sha256 sha;
    pf_sha256_init(&sha);
    pf_sha256_update(&sha, k->bytes, (size_t)k->layout.digest);
    pf_sha256_final(&sha, k->bytes + k->layout.digest);
    return pf_file_write(path, k->bytes, (size_t)k->layout.size, error);
}

pf_status pf_transitions_make(const pf_train_settings *settings, pf_plant *plant, const char *path,
                              const pf_effort *effort, pf_error *error)
{
    maker k = {.settings = settings, .info = pf_plant_get_info(plant)};
    pf_status status = pf_file_writable(path, error);
    if (status == PF_OK) {
        status = start(&k, plant, effort, error);
    }
    if (status == PF_OK) {
        status = pf_parallel(effort, k.n_workers, k.head.n_episodes, make_episode, &k,
                             "transitions", error);
    }
    if (status == PF_OK) {
        status = finish(&k, path, error);
    }
    for (int i = 0; k.workers && i < k.n_workers; i++) {
        pf_plant_destroy(k.workers[i].plant);
    }
    pf_arena_free(&k.arena);
    free(k.bytes);
    return status;
}
