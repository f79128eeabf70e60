// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "recordings.h"
#include "model/transitions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Recordings of a machine as transitions that a model learns from. Two kinds of files are read. A
// log has the header episode,step,<channels>,u0,u1,...: any commands, step 0 before the first one.
// The recordings of probes that `calibrate --recordings` takes have no step 0: readings are
// deviations from rest, so they begin at zero, and what was delivered is the gain times the
// command.

// One stretch without a gap: rows readings, and the commands between them.
typedef struct stretch {
    int rows;       // readings
    size_t first;   // reading, in `channels`
    size_t command; // first command
} stretch;

typedef struct record {
    const char *file;
    int n_chan, n_mech;
    const char **names; // channels
    double *channels;   // readings x n_chan
    double *commands;   // one less than readings per stretch, x n_mech
    size_t n_readings, n_commands;
    stretch *stretches;
    int n;
    pf_arena arena;
} record;

// --- a log

static pf_status log_header(record *r, const pf_csv *csv, pf_error *error)
{
    int first_u = csv->n_columns;
    for (int i = csv->n_columns - 1; i >= 2; i--) {
        first_u = pf__csv_is(csv->header[i], "u0") ? i : first_u;
    }
    r->n_chan = first_u - 2;
    r->n_mech = csv->n_columns - first_u;
    if (r->n_chan < 1 || r->n_mech < 1 || r->n_chan > PF_STATE_MAX || r->n_mech > PF_MECH_MAX) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: the header of a log is episode,step,<channels>,u0,u1,...", r->file);
    }
    for (int j = 0; j < r->n_mech; j++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", j);
        if (!pf__csv_is(csv->header[first_u + j], name)) {
            return pf__csv_refuse(csv, first_u + j, PF_ERR_FORMAT,
                                  "u columns come last: u0, u1, ...", error);
        }
    }
    r->names = pf__arena_take(&r->arena, (size_t)r->n_chan, sizeof *r->names);
    for (int c = 0; r->names && c < r->n_chan; c++) {
        pf_csv_field field = csv->header[2 + c];
        char *name = pf__arena_take(&r->arena, field.n + 1, 1);
        if (name) {
            memcpy(name, field.text, field.n);
        }
        r->names[c] = name;
    }
    return PF_OK;
}

// One row of a log: the first of an episode is step 0, the others follow each other.
static pf_status log_row(record *r, const pf_csv *csv, pf_csv_field *episode, pf_error *error)
{
    int step = 0;
    bool opens = r->n == 0 || !pf__csv_same(*episode, csv->field[0]);
    pf_status status = pf__csv_integer(csv, 1, 0, 1 << 30, &step, error);
    stretch *s = &r->stretches[r->n > 0 ? r->n - 1 : 0];
    if (status == PF_OK && opens) {
        s = &r->stretches[r->n++];
        *s = (stretch){.first = r->n_readings, .command = r->n_commands};
        *episode = csv->field[0];
    }
    if (status == PF_OK && step != s->rows) {
        return pf__csv_refuse(csv, 1, PF_ERR_FORMAT,
                              "the rows of an episode stand together, steps 0, 1, 2, ...", error);
    }
    for (int i = 0; i < r->n_chan + (step > 0 ? r->n_mech : 0) && status == PF_OK; i++) {
        double *to =
            i < r->n_chan
                ? &r->channels[r->n_readings * (size_t)r->n_chan + (size_t)i]
                : &r->commands[r->n_commands * (size_t)r->n_mech + (size_t)(i - r->n_chan)];
        status = pf__csv_number(csv, 2 + i, to, error);
        if (status == PF_OK && fabs(*to) > 1e30) {
            status = pf__csv_refuse(csv, 2 + i, PF_ERR_FORMAT, "larger than 1e30; check the units",
                                    error);
        }
    }
    s->rows++;
    r->n_readings++;
    r->n_commands += step > 0;
    return status;
}

static pf_status read_log(record *r, pf_csv *csv, size_t lines, pf_error *error)
{
    pf_csv_field episode = {NULL, 0};
    bool more = true;
    pf_status status = log_header(r, csv, error);
    if (status != PF_OK) {
        return status;
    }
    r->channels = pf__arena_take(&r->arena, lines * (size_t)r->n_chan, sizeof(double));
    r->commands = pf__arena_take(&r->arena, lines * (size_t)r->n_mech, sizeof(double));
    r->stretches = pf__arena_take(&r->arena, lines, sizeof *r->stretches);
    if (r->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", r->file);
    }
    while (status == PF_OK && more) {
        status = pf__csv_next(csv, &more, error);
        if (status == PF_OK && more) {
            status = log_row(r, csv, &episode, error);
        }
    }
    return status;
}

// --- recordings of probes

static pf_status take_probes(record *r, const char *text, size_t n, pf_error *error)
{
    pf_recordings rec;
    pf_status status = pf__recordings_read(&rec, NULL, r->file, text, n, error);
    if (status != PF_OK) {
        return status;
    }
    size_t rows = 0, chan = (size_t)rec.n_chan, mech = (size_t)rec.n_mech;
    for (int e = 0; e < rec.n_episodes; e++) {
        rows += (size_t)rec.episodes[e].rows;
    }
    r->n_chan = rec.n_chan;
    r->n_mech = rec.n_mech;
    r->names = pf__arena_take(&r->arena, chan, sizeof *r->names);
    r->channels = pf__arena_take(&r->arena, (rows + (size_t)rec.n_episodes) * chan, sizeof(double));
    r->commands = pf__arena_take(&r->arena, rows * mech, sizeof(double));
    r->stretches = pf__arena_take(&r->arena, (size_t)rec.n_episodes, sizeof *r->stretches);
    for (int c = 0; c < rec.n_chan && !r->arena.failed; c++) {
        r->names[c] = pf__arena_text(&r->arena, rec.channels[c]);
    }
    for (int e = 0; e < rec.n_episodes && !r->arena.failed; e++) {
        const pf_episode *from = &rec.episodes[e];
        const pf_group *group = &rec.groups[from->group];
        const double *command = rec.probes[group->probe].command;
        r->stretches[r->n++] = (stretch){from->rows + 1, r->n_readings, r->n_commands};
        r->n_readings++; // at rest
        memcpy(r->channels + r->n_readings * chan, from->response,
               (size_t)from->rows * chan * sizeof(double));
        for (size_t i = 0; i < (size_t)from->rows * mech; i++) {
            double gain = (int)(i % mech) == group->mechanism ? group->gain : 1;
            r->commands[r->n_commands * mech + i] = gain * command[i];
        }
        r->n_readings += (size_t)from->rows;
        r->n_commands += (size_t)from->rows;
    }
    pf__recordings_free(&rec);
    return r->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", r->file) : PF_OK;
}

static pf_status read_record(record *r, const char *text, size_t n, pf_error *error)
{
    pf_csv csv;
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
    }
    pf_status status = pf__csv_open(&csv, r->file, text, n, error);
    if (status != PF_OK) {
        return status;
    }
    bool probes = csv.n_columns > 1 && pf__csv_is(csv.header[0], "episode") &&
                  pf__csv_is(csv.header[1], "probe");
    bool log = csv.n_columns > 3 && pf__csv_is(csv.header[0], "episode") &&
               pf__csv_is(csv.header[1], "step");
    if (!probes && !log) {
        status =
            pf_fail(error, PF_ERR_FORMAT,
                    "%s: the header is episode,step,<channels>,u0,u1,... of a log, or "
                    "episode,probe,mechanism,gain,step,<channels>,u0,u1,... of recorded probes",
                    r->file);
    } else if (log) {
        status = read_log(r, &csv, lines, error);
    }
    pf__csv_close(&csv);
    return status == PF_OK && probes ? take_probes(r, text, n, error) : status;
}

// --- windows

// Names and limits: the plant's, or those of the file without limits.
static pf_status describe(record *r, const pf_plant_info *plant, pf_transitions_info *info,
                          pf_error *error)
{
    pf_mechanism *mechanisms = pf__arena_take(&r->arena, (size_t)r->n_mech, sizeof *mechanisms);
    pf_channel_kind *kinds = pf__arena_take(&r->arena, (size_t)r->n_chan, sizeof *kinds);
    if (plant && (plant->n_chan != r->n_chan || plant->n_mech != r->n_mech)) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s has %d channels and %d u columns, %s has %d channels and %d mechanisms",
                       r->file, r->n_chan, r->n_mech, plant->name, plant->n_chan, plant->n_mech);
    }
    for (int c = 0; plant && c < r->n_chan && !r->arena.failed; c++) {
        kinds[c] = plant->kinds ? plant->kinds[c] : PF_CHANNEL_PLAIN;
        if (strcmp(plant->channels[c].name, r->names[c]) != 0) {
            return pf_fail(error, PF_ERR_MISMATCH, "%s: channel %d is '%s', of %s it is '%s'",
                           r->file, c, r->names[c], plant->name, plant->channels[c].name);
        }
    }
    for (int j = 0; j < r->n_mech && !r->arena.failed; j++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", j);
        mechanisms[j] = plant
                            ? plant->mechanisms[j]
                            : (pf_mechanism){pf__arena_text(&r->arena, name), -INFINITY, INFINITY};
    }
    info->plant = plant ? pf_plant_environment(plant) : "recordings";
    info->source = plant ? plant->source : "";
    info->dt_s = plant ? plant->dt_s : 0;
    info->n_chan = r->n_chan;
    info->n_mech = r->n_mech;
    info->channels = r->names;
    info->kinds = kinds;
    info->mechanisms = mechanisms;
    return r->arena.failed ? pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", r->file) : PF_OK;
}

// A record is cut into windows that do not overlap, each with the readings before it that a history
// needs.
typedef struct cutting {
    int lead, window;
} cutting;

static size_t windows_of(const stretch *s, cutting c)
{
    return s->rows - 1 >= c.lead + c.window ? (size_t)((s->rows - 1 - c.lead) / c.window) : 0;
}

// The order of the stretches: shuffled, since the last ones are held out and a file is rarely in
// any order. A stretch stays in one piece, so that held-out windows share no run with the others.
static void shuffle(int n, int *order)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(0));
    for (int i = 0; i < n; i++) {
        int k = (int)pf_rng_below(&rng, (uint32_t)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
}

static pf_status check_command(const record *r, const pf_mechanism *m, double u, pf_error *error)
{
    double slack = 1e-6 * fmax(1, fabs(u));
    return u >= m->lo - slack && u <= m->hi + slack
               ? PF_OK
               : pf_fail(error, PF_ERR_FORMAT,
                         "%s: a command of '%s' is %g, beyond its limits %g and %g; write what was "
                         "delivered, or name no plant",
                         r->file, m->name, u, m->lo, m->hi);
}

// Cuts the stretches into episodes of lead and window.
static pf_status cut(record *r, const pf_transitions_info *info, double **x, float **u,
                     pf_error *error)
{
    size_t n = (size_t)info->n_episodes, steps = (size_t)info->steps, at = 0;
    size_t chan = (size_t)r->n_chan, mech = (size_t)r->n_mech;
    cutting c = {info->lead, info->steps - info->lead};
    int *order = pf__arena_take(&r->arena, (size_t)r->n, sizeof *order);
    *x = pf__arena_take(&r->arena, n * (steps + 1) * chan, sizeof **x);
    *u = pf__arena_take(&r->arena, n * steps * mech, sizeof **u);
    if (r->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", r->file);
    }
    shuffle(r->n, order);
    for (int i = 0; i < r->n; i++) {
        const stretch *t = &r->stretches[order[i]];
        size_t windows = windows_of(t, c);
        for (size_t k = 0; k < windows; k++, at++) {
            size_t from = k * (size_t)c.window;
            memcpy(*x + at * (steps + 1) * chan, r->channels + (t->first + from) * chan,
                   (steps + 1) * chan * sizeof **x);
            for (size_t j = 0; j < steps * mech; j++) {
                const pf_mechanism *m = &info->mechanisms[j % mech];
                double sent = r->commands[(t->command + from) * mech + j];
                pf_status status = check_command(r, m, sent, error);
                if (status != PF_OK) {
                    return status;
                }
                (*u)[at * steps * mech + j] = pf__transitions_command(m, sent);
            }
        }
    }
    return PF_OK;
}

// How the record is cut: the window, and the history that there is room for.
static pf_status plan_windows(const record *r, pf_train_settings *s, pf_transitions_info *info,
                              const pf_effort *effort, pf_error *error)
{
    int longest = 0, short_ones = 0;
    for (int i = 0; i < r->n; i++) {
        longest = r->stretches[i].rows - 1 > longest ? r->stretches[i].rows - 1 : longest;
    }
    enum { USUAL = 12, LEAST = 20 };
    s->window = s->window > 0 ? s->window : longest < USUAL ? longest : USUAL;
    int room = longest - s->window + 1;
    if (s->window == 1 && longest > 1) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s: a window has at least 2 steps", r->file);
    }
    if (s->window < 2 || room < 1) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "%s: its longest episode has %d steps, too few for a window of %d", r->file,
                       longest, s->window);
    }
    s->history = s->history < room ? s->history : room;
    cutting c = {s->history - 1, s->window};
    size_t n = 0;
    for (int i = 0; i < r->n; i++) {
        size_t windows = windows_of(&r->stretches[i], c);
        n += windows;
        short_ones += windows == 0;
    }
    info->lead = c.lead;
    info->steps = s->episode_steps = c.lead + c.window;
    if (n < LEAST || n * (size_t)info->steps > 100000000) {
        return pf_fail(
            error, PF_ERR_ARGUMENT,
            "%s holds %z windows of %d steps; a model needs many more than it has inputs "
            "(here %d): record some hundreds",
            r->file, n, s->window, r->n_chan + s->window * r->n_mech);
    }
    if (short_ones > 0 && effort && effort->warn) {
        char text[200];
        snprintf(text, sizeof text,
                 "%d of %d episodes are shorter than %d steps and left out; --set window=N or "
                 "history=N takes shorter ones",
                 short_ones, r->n, info->steps);
        effort->warn(effort->self, text);
    }
    info->n_episodes = (int)n;
    info->transitions = s->transitions = (int)n * info->steps;
    return PF_OK;
}

// The share of a mechanism's command that the others' commands do not give away; gram is n x n and
// is used up.
static double own_share(int n, int mechanism, double *gram)
{
    double whole = gram[mechanism * n + mechanism];
    for (int p = 0; p < n; p++) {
        double pivot = gram[p * n + p];
        if (p == mechanism || !(pivot > 1e-9 * whole)) {
            continue;
        }
        for (int i = 0; i < n; i++) {
            double part = gram[i * n + p] / pivot;
            for (int k = 0; k < n && i != p; k++) {
                gram[i * n + k] -= part * gram[p * n + k];
            }
        }
    }
    return gram[mechanism * n + mechanism] / whole;
}

// Mechanisms that always move together cannot be told apart.
static pf_status check_apart(record *r, pf_error *error)
{
    size_t n = (size_t)r->n_mech;
    double *gram = pf__arena_take(&r->arena, n * n, sizeof *gram);
    double *work = pf__arena_take(&r->arena, n * n, sizeof *work);
    if (r->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", r->file);
    }
    for (size_t row = 0; row < r->n_commands; row++) {
        const double *v = r->commands + row * n;
        for (size_t i = 0; i < n * n; i++) {
            gram[i] += v[i / n] * v[i % n];
        }
    }
    const double least = .01;
    for (int j = 0; j < r->n_mech; j++) {
        memcpy(work, gram, n * n * sizeof *gram);
        if (gram[(size_t)j * n + (size_t)j] > 0 && own_share(r->n_mech, j, work) < least) {
            return pf_fail(error, PF_ERR_DEGENERATE,
                           "%s: u%d moves only together with other commands, so nothing tells them "
                           "apart; record runs in which it moves alone",
                           r->file, j);
        }
    }
    return PF_OK;
}

// A record in which nothing happens teaches nothing.
static pf_status check_motion(const record *r, const pf_effort *effort, pf_error *error)
{
    bool moved = false, driven = false;
    if (r->n_readings == 0) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: has a header and no rows", r->file);
    }
    size_t chan = (size_t)r->n_chan, mech = (size_t)r->n_mech;
    for (size_t c = 0; c < chan; c++) {
        bool alive = false;
        for (size_t i = chan + c; i < r->n_readings * chan && !alive; i += chan) {
            alive = r->channels[i] != r->channels[i - chan];
        }
        moved = moved || alive;
        if (!alive && effort && effort->warn) {
            char text[200];
            snprintf(text, sizeof text,
                     "%.60s: channel '%.60s' never changes; is its sensor alive?", r->file,
                     r->names[c]);
            effort->warn(effort->self, text);
        }
    }
    for (size_t i = mech; i < r->n_commands * mech && !driven; i++) {
        driven = r->commands[i] != r->commands[i - mech];
    }
    return moved && driven
               ? PF_OK
               : pf_fail(error, PF_ERR_DEGENERATE,
                         "%s: no %s ever changes; record the machine while its commands vary",
                         r->file, driven ? "channel" : "command");
}

pf_status pf__transitions_record(pf_train_settings *s, const pf_plant_info *plant, const char *file,
                                 const char *text, size_t n, const char *path,
                                 const pf_effort *effort, pf_error *error)
{
    record r = {.file = file};
    pf_transitions_info info = {.correlation = 0};
    double *x = NULL;
    float *u = NULL;
    pf_status status = read_record(&r, text, n, error);
    status = status ? status : check_motion(&r, effort, error);
    status = status ? status : check_apart(&r, error);
    status = status ? status : describe(&r, plant, &info, error);
    status = status ? status : plan_windows(&r, s, &info, effort, error);
    status = status ? status : cut(&r, &info, &x, &u, error);
    status = status ? status : pf__transitions_write(&info, x, u, path, error);
    pf__arena_free(&r.arena);
    return status;
}
