// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "transitions.h"
#include "core/rng.h"
#include "core/sha256.h"

#include "host/file.h"
#include "host/parallel.h"
#include "plant/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool transitions_little_endian(void)
{
    const uint32_t one = 1;
    uint8_t first = 0;
    memcpy(&first, &one, 1);
    return first == 1;
}

// --- sizes

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~(uint64_t)7;
}

static pf_status head_check(const char *name, const pf_transitions_head *h, pf_error *error)
{
    struct {
        const char *what;
        uint32_t value, lo, hi;
    } rules[] = {
        {"number of channels", h->n_chan, 1, PF_TRANSITIONS_CHAN},
        {"number of mechanisms", h->n_mech, 1, PF_MECH_MAX},
        {"number of transitions", h->transitions, 1, INT_MAX},
        {"steps of an episode", h->steps, 1, PF_TRANSITIONS_STEPS},
        {"disturbance", h->disturbance, 0, 1},
        {"steps at rest", h->lead, 0, h->steps - 1},
        {"kind of commands", h->commands, PF_TRAIN_COMMANDS_NOISE, PF_TRAIN_COMMANDS_USE},
        {"length of the names", h->n_text, 1, PF_TRANSITIONS_TEXT},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].value < rules[i].lo || rules[i].value > rules[i].hi) {
            return pf_fail(error, PF_ERR_FORMAT, "%s: %s is %z, must be %z to %z", name,
                           rules[i].what, (size_t)rules[i].value, (size_t)rules[i].lo,
                           (size_t)rules[i].hi);
        }
    }
    if (h->n_episodes != (h->transitions - 1) / h->steps + 1) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: %z transitions are not %z episodes of %z steps",
                       name, (size_t)h->transitions, (size_t)h->n_episodes, (size_t)h->steps);
    }
    if (!(h->dt_s >= 0 && isfinite(h->dt_s)) || !(fabs(h->correlation) < 1) ||
        !(h->amplitude >= 0 && isfinite(h->amplitude)) || !(h->single >= 0 && h->single <= 1)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: time step %g, correlation %g, amplitude %g or single share %g is out "
                       "of range",
                       name, h->dt_s, h->correlation, h->amplitude, h->single);
    }
    return PF_OK;
}

// Refuses a head that makes no sense; otherwise *layout is right. `name` opens the message.
static pf_status transitions_layout(const char *name, const pf_transitions_head *head,
                                    pf_transitions_layout *layout, pf_error *error)
{
    pf_status status = head_check(name, head, error);
    if (status != PF_OK) {
        return status;
    }
    uint64_t n_chan = head->n_chan, n_mech = head->n_mech, steps = head->transitions;
    pf_transitions_layout l = {.limits = sizeof *head};
    l.kinds = l.limits + n_mech * 2 * sizeof(double);
    l.text = l.kinds + padded(n_chan * sizeof(uint32_t));
    l.channels = l.text + padded(head->n_text);
    l.commands = l.channels + (steps + head->n_episodes) * n_chan * sizeof(double);
    l.digest = l.commands + padded(steps * n_mech * sizeof(float));
    l.size = l.digest + PF_TRANSITIONS_DIGEST;
    if (l.size > SIZE_MAX / 2) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: too large for this machine", name);
    }
    *layout = l;
    return PF_OK;
}

// Channel kinds are known and quaternions come in fours.
static pf_status transitions_kinds(const char *name, const uint32_t *kinds, uint32_t n,
                                   pf_error *error)
{
    for (uint32_t c = 0; c < n; c++) {
        if (kinds[c] > PF_CHANNEL_QUATERNION) {
            return pf_fail(error, PF_ERR_FORMAT, "%s: channel %d is of an unknown kind %z", name,
                           (int)c, (size_t)kinds[c]);
        }
        if (kinds[c] != PF_CHANNEL_QUATERNION) {
            continue;
        }
        for (uint32_t i = 1; i < 4; i++) {
            if (c + i >= n || kinds[c + i] != PF_CHANNEL_QUATERNION) {
                return pf_fail(error, PF_ERR_FORMAT,
                               "%s: channel %d opens a quaternion that has fewer than four parts",
                               name, (int)c);
            }
        }
        c += 3;
    }
    return PF_OK;
}

// Steps of an episode that exists.
static int transitions_steps(const pf_transitions_head *head, uint32_t episode)
{
    bool last = episode + 1 == head->n_episodes;
    return (int)(last ? head->transitions - episode * head->steps : head->steps);
}

float pf__transitions_command(const pf_mechanism *mechanism, double u)
{
    double lo = mechanism->lo, hi = mechanism->hi;
    float nearest = (float)(u < lo ? lo : u > hi ? hi : u);
    if ((double)nearest > hi) {
        return nextafterf(nearest, -INFINITY);
    }
    return (double)nearest < lo ? nextafterf(nearest, INFINITY) : nearest;
}

// --- reading

// Magic, version and size, before any count is believed.
static pf_status open_head(pf_transitions *d, size_t size, pf_error *error)
{
    const size_t magic = sizeof PF_TRANSITIONS_MAGIC - 1;
    if (!transitions_little_endian()) {
        return pf_fail(error, PF_ERR_UNSUPPORTED, "%s: this machine is not little-endian", d->path);
    }
    if (size < magic || memcmp(d->bytes, PF_TRANSITIONS_MAGIC, magic) != 0) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: not a preflight data file", d->path);
    }
    if (size < sizeof d->head + PF_TRANSITIONS_DIGEST) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: is cut off: %z bytes", d->path, size);
    }
    memcpy(&d->head, d->bytes, sizeof d->head);
    if (d->head.version != PF_TRANSITIONS_VERSION) {
        return pf_fail(error, PF_ERR_VERSION,
                       "%s: data of format version %z, this program reads version %d; make them "
                       "again",
                       d->path, (size_t)d->head.version, PF_TRANSITIONS_VERSION);
    }
    pf_status status = transitions_layout(d->path, &d->head, &d->layout, error);
    if (status == PF_OK && d->layout.size != size) {
        status = pf_fail(error, PF_ERR_FORMAT, "%s: %s: %z bytes, its head says %z", d->path,
                         size < d->layout.size ? "is cut off" : "has trailing bytes", size,
                         (size_t)d->layout.size);
    }
    return status;
}

// One pass gives both the inner checksum and the checksum of the whole file.
static pf_status check_digest(pf_transitions *d, pf_error *error)
{
    const uint8_t *stored = d->bytes + d->layout.digest;
    uint8_t digest[PF_TRANSITIONS_DIGEST];
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, d->bytes, (size_t)d->layout.digest);
    pf__sha256_final(&sha, digest);
    if (memcmp(digest, stored, sizeof digest) != 0) {
        return pf_fail(error, PF_ERR_CHECKSUM,
                       "%s: is damaged (checksum differs); copy it or make it again", d->path);
    }
    pf__sha256_update(&sha, stored, sizeof digest);
    pf__sha256_final(&sha, digest);
    pf__sha256_text(digest, d->info.sha256);
    return PF_OK;
}

// The next of the texts; NULL when there is none.
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at, *zero = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    *at = zero ? zero + 1 : end;
    return zero ? text : NULL;
}

static pf_status read_names(pf_transitions *d, pf_mechanism *mechanisms, const char **channels,
                            pf_error *error)
{
    const char *at = (const char *)d->bytes + d->layout.text, *end = at + d->head.n_text;
    bool good = (d->info.plant = next_text(&at, end)) && (d->info.source = next_text(&at, end));
    for (uint32_t c = 0; good && c < d->head.n_chan; c++) {
        good = (channels[c] = next_text(&at, end));
    }
    for (uint32_t j = 0; good && j < d->head.n_mech; j++) {
        good = (mechanisms[j].name = next_text(&at, end));
    }
    return good && at == end ? PF_OK
                             : pf_fail(error, PF_ERR_FORMAT,
                                       "%s: the names do not match the numbers of channels and "
                                       "mechanisms",
                                       d->path);
}

static pf_status read_description(pf_transitions *d, pf_error *error)
{
    uint32_t n_chan = d->head.n_chan, n_mech = d->head.n_mech;
    const double *limits = (const void *)(d->bytes + d->layout.limits);
    const uint32_t *stored = (const void *)(d->bytes + d->layout.kinds);
    pf_mechanism *mechanisms = pf__arena_take(&d->arena, n_mech, sizeof *mechanisms);
    const char **channels = pf__arena_take(&d->arena, n_chan, sizeof *channels);
    pf_channel_kind *kinds = pf__arena_take(&d->arena, n_chan, sizeof *kinds);
    if (d->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", d->path);
    }
    pf_status status = transitions_kinds(d->path, stored, n_chan, error);
    status = status ? status : read_names(d, mechanisms, channels, error);
    for (uint32_t c = 0; status == PF_OK && c < n_chan; c++) {
        kinds[c] = (pf_channel_kind)stored[c];
    }
    for (uint32_t j = 0; status == PF_OK && j < n_mech; j++) {
        mechanisms[j].lo = limits[2 * j];
        mechanisms[j].hi = limits[2 * j + 1];
        if (!(mechanisms[j].lo <= mechanisms[j].hi)) {
            status = pf_fail(error, PF_ERR_FORMAT, "%s: limits %g to %g of mechanism %s", d->path,
                             mechanisms[j].lo, mechanisms[j].hi, mechanisms[j].name);
        }
    }
    d->info.mechanisms = mechanisms;
    d->info.channels = channels;
    d->info.kinds = kinds;
    return status;
}

static pf_status check_numbers(const pf_transitions *d, pf_error *error)
{
    const pf_transitions_info *info = &d->info;
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        size_t steps = (size_t)pf__transitions_episode(d, e, &x, &u);
        size_t n_chan = (size_t)info->n_chan, n_mech = (size_t)info->n_mech;
        for (size_t i = 0; i < (steps + 1) * n_chan; i++) {
            if (!isfinite(x[i])) {
                return pf_fail(error, PF_ERR_NONFINITE,
                               "%s: episode %d, step %d: channel %s is not finite", d->path, e,
                               (int)(i / n_chan), info->channels[i % n_chan]);
            }
        }
        for (size_t i = 0; i < steps * n_mech; i++) {
            const pf_mechanism *m = &info->mechanisms[i % n_mech];
            if (!(isfinite(u[i]) && u[i] >= m->lo && u[i] <= m->hi)) {
                return pf_fail(error, isfinite(u[i]) ? PF_ERR_FORMAT : PF_ERR_NONFINITE,
                               "%s: episode %d, step %d: command %g of %s is not within %g to %g",
                               d->path, e, (int)(i / n_mech), (double)u[i], m->name, m->lo, m->hi);
            }
        }
    }
    return PF_OK;
}

pf_status pf__transitions_view(pf_transitions *data, const void *bytes, size_t size,
                               pf_error *error)
{
    data->bytes = bytes;
    pf_status status = open_head(data, size, error);
    status = status ? status : check_digest(data, error);
    status = status ? status : read_description(data, error);
    if (status != PF_OK) {
        return status;
    }
    const pf_transitions_head *h = &data->head;
    pf_transitions_info *info = &data->info;
    info->n_chan = (int)h->n_chan;
    info->n_mech = (int)h->n_mech;
    info->n_episodes = (int)h->n_episodes;
    info->steps = (int)h->steps;
    info->transitions = (int)h->transitions;
    info->correlation = h->correlation;
    info->amplitude = h->amplitude;
    info->single = h->single;
    info->disturbance = h->disturbance == 1;
    info->lead = (int)h->lead;
    info->commands = (pf_train_commands)h->commands;
    info->seed = h->seed;
    info->dt_s = h->dt_s;
    return check_numbers(data, error);
}

// Maps a whole regular file.
static pf_status map_file(pf_transitions *d, pf_error *error)
{
    // nonblocking: a pipe must be refused, not waited for
    int fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat file;
    pf_status status = PF_OK;
    if (fd < 0 || fstat(fd, &file) != 0) {
        status = pf_fail(error, PF_ERR_FILE, "%s: %s", d->path, strerror(errno));
    } else if (!S_ISREG(file.st_mode)) {
        status = pf_fail(error, PF_ERR_FILE, "%s: is %s, not a file", d->path,
                         S_ISDIR(file.st_mode) ? "a folder" : "a device or pipe");
    } else if (file.st_size <= 0) {
        status = pf_fail(error, PF_ERR_FORMAT, "%s: not a preflight data file (empty)", d->path);
    } else if ((uint64_t)file.st_size > SIZE_MAX / 2) {
        status = pf_fail(error, PF_ERR_MEMORY, "%s: too large for this machine", d->path);
    } else {
        d->map_size = (size_t)file.st_size;
        d->map = mmap(NULL, d->map_size, PROT_READ, MAP_SHARED, fd, 0);
        if (d->map == MAP_FAILED) {
            d->map = NULL;
            status = pf_fail(error, PF_ERR_FILE, "%s: %s", d->path, strerror(errno));
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

pf_status pf_transitions_open(pf_transitions **data, const char *path, pf_error *error)
{
    *data = NULL;
    pf_transitions *d = calloc(1, sizeof *d);
    char *copy = d ? pf__arena_text(&d->arena, path) : NULL;
    if (!copy) {
        pf_transitions_close(d);
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
    }
    d->path = copy;
    pf_status status = map_file(d, error);
    status = status ? status : pf__transitions_view(d, d->map, d->map_size, error);
    if (status != PF_OK) {
        pf_transitions_close(d);
        return status;
    }
    *data = d;
    return PF_OK;
}

void pf_transitions_close(pf_transitions *data)
{
    if (!data) {
        return;
    }
    if (data->map) {
        munmap(data->map, data->map_size);
    }
    pf__arena_free(&data->arena);
    free(data);
}

const pf_transitions_info *pf_transitions_get_info(const pf_transitions *data)
{
    return &data->info;
}

int pf__transitions_episode(const pf_transitions *data, int episode, const double **channels,
                            const float **commands)
{
    const pf_transitions_head *h = &data->head;
    *channels = NULL;
    *commands = NULL;
    if (episode < 0 || (uint32_t)episode >= h->n_episodes) {
        return 0;
    }
    size_t before = (size_t)episode * h->steps; // transitions of the episodes before it
    const double *x = (const void *)(data->bytes + data->layout.channels);
    const float *u = (const void *)(data->bytes + data->layout.commands);
    *channels = x + (before + (size_t)episode) * h->n_chan;
    *commands = u + before * h->n_mech;
    return transitions_steps(h, (uint32_t)episode);
}

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
    uint8_t *bytes;            // the file
    double *rest, *sd, *pulse; // n_mech; pulse: of the plant, or a quarter of the way to a limit
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
    bool up = m->hi - k->rest[j] >= k->rest[j] - m->lo;
    k->pulse[j] = probe > 0 ? k->info->probe->amplitude[j] : (up ? .25 : -.25) * reach;
    if (!(k->sd[j] <= COMMAND_MAX) || !(k->rest[j] >= m->lo && k->rest[j] <= m->hi)) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "plant %s: commands of mechanism %s cannot be held as float32", plant,
                       m->name);
    }
    return PF_OK;
}

// A hold or a doublet of one mechanism, some steps long, 0 to 3 times its pulse and three times in
// four in its direction: what probes and tasks are like, corrected and uncorrected.
static void draw_pulse(const maker *k, pf_rng *rng, int mechanism, int steps, float *command)
{
    const pf_mechanism *m = &k->info->mechanisms[mechanism];
    int n_mech = k->info->n_mech, length = 1 + (int)pf_rng_below(rng, (uint32_t)steps);
    bool doublet = pf_rng_uniform(rng) < .5, back = pf_rng_uniform(rng) < .25;
    double height = 3 * pf_rng_uniform(rng) * k->pulse[mechanism] * (back ? -1 : 1);
    for (int r = 0; r < length; r++) {
        double u = doublet && r >= length / 2 ? -height : height;
        command[(size_t)r * (size_t)n_mech + (size_t)mechanism] =
            pf__transitions_command(m, k->rest[mechanism] + u);
    }
}

// Pulses of one mechanism, or of each with probability one half.
static void draw_pulses(const maker *k, pf_rng *rng, bool several, int steps, float *command)
{
    int n_mech = k->info->n_mech, only = (int)pf_rng_below(rng, (uint32_t)n_mech);
    for (int i = 0; i < steps * n_mech; i++) {
        command[i] = (float)k->rest[i % n_mech];
    }
    for (int j = 0; j < n_mech; j++) {
        if (j == only || (several && pf_rng_uniform(rng) < .5)) {
            draw_pulse(k, rng, j, steps, command);
        }
    }
}

// Commands of an episode: at rest for the lead, then pulses as they are used or stationary AR(1)
// noise around rest. The law runs without limits; what it gives is clipped.
static void draw_commands(const maker *k, pf_key key, int steps, float *command)
{
    int n_mech = k->info->n_mech, lead = (int)k->head.lead;
    double phi = k->settings->correlation, fresh = sqrt(1 - phi * phi);
    double u[PF_MECH_MAX];
    pf_rng rng;
    pf_rng_init(&rng, pf__key_derive(key, STREAM_COMMAND));
    for (int i = 0; i < lead * n_mech && i < steps * n_mech; i++) {
        command[i] = (float)k->rest[i % n_mech];
    }
    command += (size_t)lead * (size_t)n_mech;
    steps -= lead;
    double kind = k->settings->commands == PF_TRAIN_COMMANDS_USE ? pf_rng_uniform(&rng) : 1;
    if (steps < 1 || kind < .75) {
        if (steps >= 1) {
            draw_pulses(k, &rng, kind >= .5, steps, command);
        }
        return;
    }
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
    int steps = transitions_steps(&k->head, (uint32_t)item);
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
    if (!transitions_little_endian()) {
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
                                    .single = s->single,
                                    .lead = (uint32_t)pf__train_lead(s),
                                    .commands = (uint32_t)s->commands};
    k->head.n_episodes = (k->head.transitions - 1) / k->head.steps + 1;
    return transitions_layout("data", &k->head, &k->layout, error);
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
    return transitions_kinds(info->name, kinds, k->head.n_chan, error);
}

static pf_status make_workers(maker *k, pf_plant *plant, const pf_effort *effort, pf_error *error)
{
    int threads = pf__threads(effort), episodes = (int)k->head.n_episodes;
    k->n_workers = threads < episodes ? threads : episodes;
    k->workers = pf__arena_take(&k->arena, (size_t)k->n_workers, sizeof *k->workers);
    size_t longest = (size_t)transitions_steps(&k->head, 0);
    for (int i = 0; k->workers && i < k->n_workers; i++) {
        worker *w = &k->workers[i];
        w->command = pf__arena_take(&k->arena, longest * k->head.n_mech, sizeof(double));
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
    k->rest = pf__arena_take(&k->arena, n_mech, sizeof *k->rest);
    k->sd = pf__arena_take(&k->arena, n_mech, sizeof *k->sd);
    k->pulse = pf__arena_take(&k->arena, n_mech, sizeof *k->pulse);
    k->bytes = calloc(1, (size_t)k->layout.size);
    if (!k->bytes || k->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "data: out of memory for %z bytes",
                       (size_t)k->layout.size);
    }
    for (int j = 0; status == PF_OK && j < k->info->n_mech; j++) {
        status = noise_of(k, j, error);
    }
    status = status ? status : write_description(k, error);
    return status == PF_OK ? make_workers(k, plant, effort, error) : status;
}

static pf_status finish(const maker *k, const char *path, pf_error *error)
{
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, k->bytes, (size_t)k->layout.digest);
    pf__sha256_final(&sha, k->bytes + k->layout.digest);
    return pf__file_write(path, k->bytes, (size_t)k->layout.size, error);
}

pf_status pf_transitions_make(const pf_train_settings *settings, pf_plant *plant, const char *path,
                              const pf_effort *effort, pf_error *error)
{
    maker k = {.settings = settings, .info = pf_plant_get_info(plant)};
    if (k.info->losses) {
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "plant %s: its servos lose force, and a learned model knows commands only; "
                       "calibrate it with a twin",
                       k.info->name);
    }
    pf_status status = pf__file_writable(path, error);
    status = status ? status : start(&k, plant, effort, error);
    status = status ? status
                    : pf__parallel(effort, k.n_workers, k.head.n_episodes, make_episode, &k,
                                   "transitions", error);
    status = status ? status : finish(&k, path, error);
    for (int i = 0; k.workers && i < k.n_workers; i++) {
        pf_plant_destroy(k.workers[i].plant);
    }
    pf__arena_free(&k.arena);
    free(k.bytes);
    return status;
}

pf_status pf__transitions_write(const pf_transitions_info *info, const double *channels,
                                const float *commands, const char *path, pf_error *error)
{
    pf_plant_info plant = {.name = info->plant,
                           .source = info->source,
                           .n_chan = info->n_chan,
                           .n_mech = info->n_mech,
                           .dt_s = info->dt_s,
                           .mechanisms = info->mechanisms,
                           .kinds = info->kinds};
    pf_channel *named = calloc((size_t)info->n_chan, sizeof *named);
    pf_train_settings s = {.kind = PF_TRAIN_TRAJECTORY,
                           .history = info->lead + 1,
                           .transitions = info->transitions,
                           .episode_steps = info->steps,
                           .seed = info->seed};
    maker k = {.settings = &s, .info = &plant};
    pf_status status = named ? PF_OK : pf_fail(error, PF_ERR_MEMORY, "data: out of memory");
    for (int c = 0; status == PF_OK && c < info->n_chan; c++) {
        named[c].name = info->channels[c];
    }
    plant.channels = named;
    status = status ? status : make_head(&k, error);
    k.bytes = status == PF_OK ? calloc(1, (size_t)k.layout.size) : NULL;
    if (status == PF_OK && !k.bytes) {
        status = pf_fail(error, PF_ERR_MEMORY, "data: out of memory for %z bytes",
                         (size_t)k.layout.size);
    }
    status = status ? status : write_description(&k, error);
    if (status == PF_OK) {
        size_t n = (size_t)info->transitions;
        memcpy(k.bytes + k.layout.channels, channels,
               (n + (size_t)info->n_episodes) * (size_t)info->n_chan * sizeof(double));
        memcpy(k.bytes + k.layout.commands, commands, n * (size_t)info->n_mech * sizeof(float));
        status = finish(&k, path, error);
    }
    free(k.bytes);
    free(named);
    return status;
}

static void same_seed(pf_comparison *c, uint64_t was, uint64_t is)
{
    if (c->status == PF_OK && was != is) {
        char text[2][32];
        snprintf(text[0], sizeof text[0], "%" PRIu64, was);
        snprintf(text[1], sizeof text[1], "%" PRIu64, is);
        pf__differ(c, "the seed", "", text[0], text[1]);
    }
}

static const char *mechanism_name(const void *data, int mechanism)
{
    return ((const pf_transitions_info *)data)->mechanisms[mechanism].name;
}

static const char *channel_name(const void *data, int channel)
{
    return ((const pf_transitions_info *)data)->channels[channel];
}

pf_status pf_transitions_fit(const pf_transitions *data, const pf_train_settings *settings,
                             const pf_plant_info *info, pf_error *error)
{
    const pf_transitions_info *d = &data->info;
    char advice[200];
    snprintf(advice, sizeof advice, "remove %.150s or name another with --data", data->path);
    pf_comparison f = {"the data", advice, error, PF_OK};
    pf_identity file = {.plant = d->plant,
                        .source = d->source,
                        .dt_s = d->dt_s,
                        .n_mech = d->n_mech,
                        .n_chan = d->n_chan,
                        .n_state = -1,
                        .self = d,
                        .mechanism = mechanism_name,
                        .channel = channel_name,
                        .limits = d->mechanisms,
                        .kinds = d->kinds};
    pf__identity_same(&f, &file, pf_plant_environment(info), info);
    if (!settings) {
        return f.status;
    }
    pf__same_number(&f, "the number of transitions", "", d->transitions, settings->transitions);
    pf__same_number(&f, "the number of steps of an episode", "", d->steps, settings->episode_steps);
    pf__same_number(&f, "the correlation", "", d->correlation, settings->correlation);
    pf__same_number(&f, "the amplitude", "", d->amplitude, settings->amplitude);
    pf__same_number(&f, "the share of single mechanisms", "", d->single, settings->single);
    pf__same_number(&f, "the number of steps at rest", "", d->lead, pf__train_lead(settings));
    pf__same_number(&f, "the kind of commands", "", d->commands, settings->commands);
    if (f.status == PF_OK && d->disturbance != settings->disturbance) {
        pf__differ(&f, "the disturbance", "", d->disturbance ? "on" : "off",
                   settings->disturbance ? "on" : "off");
    }
    same_seed(&f, d->seed, settings->seed);
    return f.status;
}

pf_status pf__transitions_ready(pf_transitions **data, const pf_train_settings *settings,
                                bool exact, pf_plant *plant, const char *path,
                                const pf_effort *effort, pf_error *error)
{
    *data = NULL;
    pf_status status =
        access(path, F_OK) == 0 ? PF_OK : pf_transitions_make(settings, plant, path, effort, error);
    status = status ? status : pf_transitions_open(data, path, error);
    if (status == PF_OK) {
        status =
            pf_transitions_fit(*data, exact ? settings : NULL, pf_plant_get_info(plant), error);
    }
    if (status != PF_OK) {
        pf_transitions_close(*data);
        *data = NULL;
    }
    return status;
}
