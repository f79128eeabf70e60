// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "transitions_impl.h"

#include "preflight/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool pf__transitions_little_endian(void)
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

pf_status pf__transitions_layout(const char *name, const pf_transitions_head *head,
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

pf_status pf__transitions_kinds(const char *name, const uint32_t *kinds, uint32_t n,
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

int pf__transitions_steps(const pf_transitions_head *head, uint32_t episode)
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
    if (!pf__transitions_little_endian()) {
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
    pf_status status = pf__transitions_layout(d->path, &d->head, &d->layout, error);
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
    pf_sha256_init(&sha);
    pf_sha256_update(&sha, d->bytes, (size_t)d->layout.digest);
    pf_sha256_final(&sha, digest);
    if (memcmp(digest, stored, sizeof digest) != 0) {
        return pf_fail(error, PF_ERR_CHECKSUM,
                       "%s: is damaged (checksum differs); copy it or make it again", d->path);
    }
    pf_sha256_update(&sha, stored, sizeof digest);
    pf_sha256_final(&sha, digest);
    pf_sha256_text(digest, d->info.sha256);
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
    pf_mechanism *mechanisms = pf_arena_take(&d->arena, n_mech, sizeof *mechanisms);
    const char **channels = pf_arena_take(&d->arena, n_chan, sizeof *channels);
    pf_channel_kind *kinds = pf_arena_take(&d->arena, n_chan, sizeof *kinds);
    if (d->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", d->path);
    }
    pf_status status = pf__transitions_kinds(d->path, stored, n_chan, error);
    if (status == PF_OK) {
        status = read_names(d, mechanisms, channels, error);
    }
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
        size_t steps = (size_t)pf_transitions_episode(d, e, &x, &u);
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
    if (status == PF_OK) {
        status = check_digest(data, error);
    }
    if (status == PF_OK) {
        status = read_description(data, error);
    }
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
        status = pf_fail(error, PF_ERR_FILE, "%s: is %s, not a data file", d->path,
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
    char *copy = d ? pf_arena_text(&d->arena, path) : NULL;
    if (!copy) {
        pf_transitions_close(d);
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", path);
    }
    d->path = copy;
    pf_status status = map_file(d, error);
    if (status == PF_OK) {
        status = pf__transitions_view(d, d->map, d->map_size, error);
    }
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
    pf_arena_free(&data->arena);
    free(data);
}

const pf_transitions_info *pf_transitions_get_info(const pf_transitions *data)
{
    return &data->info;
}

int pf_transitions_episode(const pf_transitions *data, int episode, const double **channels,
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
    return pf__transitions_steps(h, (uint32_t)episode);
}
