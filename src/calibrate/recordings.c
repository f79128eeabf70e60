// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "recordings.h"

#include "host/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The text is walked twice: first for the episodes and their sizes, then for the numbers, which
// then go straight to their place.

enum { EPISODE, PROBE, MECHANISM, GAIN, STEP, CHANNELS };
static const char *const columns[CHANNELS] = {"episode", "probe", "mechanism", "gain", "step"};

// What a kit can hold; beyond it a file is refused while it is read.
enum { STEPS_MAX = 1 << 20, PROBES_MAX = 4096, GROUPS_MAX = 4096, CHANNELS_MAX = 4096 };

typedef struct reader {
    pf_recordings *rec;
    pf_csv csv;
    int room_episodes, room_probes, room_groups;
    int *table; // open addressing by episode id: index + 1, 0 free
    size_t n_table;
    int last; // episode of the row before, -1 none
    int *slot_line;
    double *data;
    pf_error *error;
} reader;

static pf_status refuse(const reader *r, int column, const char *what)
{
    return pf__csv_refuse(&r->csv, column, PF_ERR_FORMAT, what, r->error);
}

static pf_status no_memory(const reader *r)
{
    return pf_fail(r->error, PF_ERR_MEMORY, "%s: out of memory", r->rec->file);
}

// The items with room for one more, doubled when full; the old piece stays in the arena until the
// end. NULL without memory.
static void *grow(pf_arena *arena, void *items, int n, int *room, size_t size)
{
    if (n < *room) {
        return items;
    }
    *room = *room > 0 ? 2 * *room : 16;
    void *bigger = pf__arena_take(arena, (size_t)*room, size);
    if (bigger && n > 0) {
        memcpy(bigger, items, (size_t)n * size);
    }
    return bigger;
}

static char *terminated(pf_arena *arena, pf_csv_field field)
{
    char *text = pf__arena_take(arena, field.n + 1, 1);
    if (text) {
        memcpy(text, field.text, field.n);
    }
    return text;
}

// --- header

// u columns are the last ones, u0, u1, ... without a gap.
static pf_status count_columns(reader *r)
{
    const pf_csv *csv = &r->csv;
    int first_u = csv->n_columns;
    for (int i = CHANNELS; i < csv->n_columns; i++) {
        char name[16];
        if (first_u == csv->n_columns && pf__csv_is(csv->header[i], "u0")) {
            first_u = i;
        }
        snprintf(name, sizeof name, "u%d", i - first_u);
        if (i >= first_u && !pf__csv_is(csv->header[i], name)) {
            char what[112];
            snprintf(what, sizeof what, "'%s' is expected here; u columns come last, u0, u1, ...",
                     name);
            return refuse(r, i, what);
        }
    }
    r->rec->n_chan = first_u - CHANNELS;
    r->rec->n_u = csv->n_columns - first_u;
    if (r->rec->n_chan < 1 || r->rec->n_chan > CHANNELS_MAX) {
        return refuse(r, -1,
                      r->rec->n_chan < 1 ? "there is no channel column after 'step'"
                                         : "more than 4096 channel columns");
    }
    return PF_OK;
}

static pf_status read_header(reader *r)
{
    const pf_csv *csv = &r->csv;
    pf_recordings *rec = r->rec;
    for (int i = 0; i < CHANNELS; i++) {
        if (i >= csv->n_columns || !pf__csv_is(csv->header[i], columns[i])) {
            char what[160];
            snprintf(what, sizeof what,
                     "column %d must be '%s'; the header is "
                     "episode,probe,mechanism,gain,step,<channels>[,u0,u1,...]",
                     i + 1, columns[i]);
            return refuse(r, -1, what);
        }
    }
    pf_status status = count_columns(r);
    if (status != PF_OK) {
        return status;
    }
    rec->channels = pf__arena_take(&rec->arena, (size_t)rec->n_chan, sizeof *rec->channels);
    for (int c = 0; c < rec->n_chan && rec->channels; c++) {
        rec->channels[c] = terminated(&rec->arena, csv->header[CHANNELS + c]);
    }
    return rec->arena.failed ? no_memory(r) : pf__recordings_match(rec, r->error);
}

// --- references

// A field that is an index below n, else -1.
static int as_index(pf_csv_field field, int n)
{
    int64_t index = 0;
    for (size_t i = 0; i < field.n; i++) {
        if (field.text[i] < '0' || field.text[i] > '9' || index >= n) {
            return -1;
        }
        index = 10 * index + (field.text[i] - '0');
    }
    return field.n > 0 && index < n ? (int)index : -1;
}

static pf_status find_probe(reader *r, int *probe)
{
    pf_recordings *rec = r->rec;
    pf_csv_field field = r->csv.field[PROBE];
    for (*probe = 0; *probe < rec->n_probes; ++*probe) {
        if (pf__csv_is(field, rec->probes[*probe].name)) {
            return PF_OK;
        }
    }
    if (!rec->own_probes) {
        *probe = as_index(field, rec->n_probes);
        return *probe >= 0 ? PF_OK
                           : refuse(r, PROBE,
                                    "no probe of the configuration; give its name or its index "
                                    "from 0");
    }
    if (field.n == 0) {
        return refuse(r, PROBE, "empty; every row needs the name of its probe");
    }
    if (rec->n_probes >= PROBES_MAX) {
        return refuse(r, PROBE, "more than 4096 different probes");
    }
    pf_recorded_probe *probes =
        grow(&rec->arena, rec->probes, rec->n_probes, &r->room_probes, sizeof *probes);
    if (!probes) {
        return no_memory(r);
    }
    rec->probes = probes;
    rec->probes[rec->n_probes] = (pf_recorded_probe){.name = terminated(&rec->arena, field)};
    *probe = rec->n_probes++;
    return rec->arena.failed ? no_memory(r) : PF_OK;
}

static int mechanism_index(const pf_recordings *rec, pf_csv_field field)
{
    for (int j = 0; rec->plan && j < rec->n_mech; j++) {
        if (pf__csv_is(field, rec->plan->mechanisms[j].name)) {
            return j;
        }
    }
    for (int j = 0; rec->own_probes && j < rec->n_u; j++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", j);
        if (pf__csv_is(field, name)) {
            return j;
        }
    }
    return as_index(field, rec->n_mech);
}

// Empty exactly where the gain is 1.
static pf_status find_mechanism(reader *r, double gain, int *mechanism)
{
    pf_csv_field field = r->csv.field[MECHANISM];
    *mechanism = 0;
    if (gain == 1) {
        return field.n == 0 ? PF_OK
                            : refuse(r, MECHANISM,
                                     "must be empty where the gain is 1 (nothing is weakened)");
    }
    if (field.n == 0) {
        return refuse(r, MECHANISM, "empty, but the gain is not 1; name the weakened mechanism");
    }
    *mechanism = mechanism_index(r->rec, field);
    if (*mechanism < 0) {
        return refuse(r, MECHANISM,
                      r->rec->plan ? "no mechanism of the configuration; give its name or its index"
                                   : "no mechanism; give u1, u2, ... or an index (there are as "
                                     "many as u columns)");
    }
    if (*mechanism == 0) {
        return refuse(r, MECHANISM,
                      "mechanism 0 is the current one and no candidate; weaken the others");
    }
    return PF_OK;
}

static pf_status read_gain(reader *r, double *gain)
{
    pf_status status = pf__csv_number(&r->csv, GAIN, gain, r->error);
    if (status == PF_OK && !(*gain >= 0 && *gain <= 1)) {
        return refuse(r, GAIN, "out of range; 1 is nominal, a weakened one is from 0 to below 1");
    }
    if (status == PF_OK && *gain > 1 - PF_SAME_GAIN) {
        *gain = 1;
    }
    return status;
}

// --- episodes

static size_t hash(pf_csv_field id)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < id.n; i++) {
        h = (h ^ (uint8_t)id.text[i]) * 0x100000001b3u;
    }
    return (size_t)(h ^ (h >> 29));
}

// Where the id is in the table or would go.
static size_t table_slot(const reader *r, pf_csv_field id)
{
    size_t at = hash(id) & (r->n_table - 1);
    while (r->table[at] > 0 && !pf__csv_same(r->rec->episodes[r->table[at] - 1].id, id)) {
        at = (at + 1) & (r->n_table - 1);
    }
    return at;
}

static bool grow_table(reader *r)
{
    pf_recordings *rec = r->rec;
    if ((size_t)rec->n_episodes * 2 < r->n_table) {
        return true;
    }
    r->n_table = r->n_table > 0 ? 2 * r->n_table : 64;
    free(r->table);
    r->table = calloc(r->n_table, sizeof *r->table);
    for (int e = 0; r->table && e < rec->n_episodes; e++) {
        r->table[table_slot(r, rec->episodes[e].id)] = e + 1;
    }
    return r->table != NULL;
}

// The episode of the row just read, -1 if it is new.
static int find_episode(const reader *r)
{
    pf_csv_field id = r->csv.field[EPISODE];
    if (r->last >= 0 && pf__csv_same(r->rec->episodes[r->last].id, id)) {
        return r->last;
    }
    return r->table[table_slot(r, id)] - 1;
}

static pf_status find_group(reader *r, int *group)
{
    pf_recordings *rec = r->rec;
    pf_group new = {0};
    pf_status status = find_probe(r, &new.probe);
    if (status == PF_OK) {
        status = read_gain(r, &new.gain);
    }
    if (status == PF_OK) {
        status = find_mechanism(r, new.gain, &new.mechanism);
    }
    if (status != PF_OK) {
        return status;
    }
    const pf_group *known = pf__recordings_find(rec, new.probe, new.mechanism, new.gain);
    if (known) {
        *group = (int)(known - rec->groups);
        return PF_OK;
    }
    if (rec->n_groups >= GROUPS_MAX) {
        return refuse(r, GAIN, "more than 4096 different probes, mechanisms and gains");
    }
    pf_group *groups =
        grow(&rec->arena, rec->groups, rec->n_groups, &r->room_groups, sizeof *groups);
    if (!groups) {
        return no_memory(r);
    }
    rec->groups = groups;
    rec->groups[rec->n_groups] = new;
    *group = rec->n_groups++;
    return PF_OK;
}

static pf_status new_episode(reader *r)
{
    pf_recordings *rec = r->rec;
    const pf_csv_field *field = r->csv.field;
    pf_episode episode = {.id = field[EPISODE],
                          .probe = field[PROBE],
                          .mechanism = field[MECHANISM],
                          .gain = field[GAIN],
                          .line = r->csv.line};
    if (episode.id.n == 0) {
        return refuse(r, EPISODE, "empty; every episode needs an id of its own");
    }
    pf_status status = find_group(r, &episode.group);
    if (status != PF_OK) {
        return status;
    }
    pf_episode *episodes =
        grow(&rec->arena, rec->episodes, rec->n_episodes, &r->room_episodes, sizeof *episodes);
    if (!episodes) {
        return no_memory(r);
    }
    rec->episodes = episodes;
    if (!grow_table(r)) {
        return no_memory(r);
    }
    rec->groups[episode.group].n++;
    r->last = rec->n_episodes;
    rec->episodes[rec->n_episodes++] = episode;
    r->table[table_slot(r, episode.id)] = rec->n_episodes;
    return PF_OK;
}

// A later row of a known episode must say the same of it, if in other words.
static pf_status same_episode(reader *r)
{
    const pf_episode *e = &r->rec->episodes[r->last];
    const pf_csv_field *field = r->csv.field;
    if (pf__csv_same(e->probe, field[PROBE]) && pf__csv_same(e->mechanism, field[MECHANISM]) &&
        pf__csv_same(e->gain, field[GAIN])) {
        return PF_OK;
    }
    int group = -1;
    pf_status status = find_group(r, &group);
    if (status == PF_OK && group != e->group) {
        char what[192], shown[PF_CSV_SHOWN];
        snprintf(what, sizeof what,
                 "'%s' has another probe, mechanism or gain on line %d; an id may be used once",
                 pf__csv_shown(e->id, shown), e->line);
        return refuse(r, EPISODE, what);
    }
    return status;
}

// First walk: which episodes there are, and how many rows each has.
static pf_status walk_episodes(reader *r)
{
    bool more = true;
    if (!grow_table(r)) {
        return no_memory(r);
    }
    for (;;) {
        pf_status status = pf__csv_next(&r->csv, &more, r->error);
        if (status != PF_OK || !more) {
            return status;
        }
        int step = 0, known = find_episode(r);
        r->last = known >= 0 ? known : r->last;
        status = known < 0 ? new_episode(r) : same_episode(r);
        if (status == PF_OK) {
            status = pf__csv_integer(&r->csv, STEP, 1, STEPS_MAX, &step, r->error);
        }
        if (status != PF_OK) {
            return status;
        }
        r->rec->episodes[r->last].rows++;
    }
}

// --- numbers

static pf_status make_room(reader *r)
{
    pf_recordings *rec = r->rec;
    pf_arena *arena = &rec->arena;
    size_t rows = 0;
    if (rec->n_episodes == 0) {
        return pf_fail(r->error, PF_ERR_FORMAT, "%s: there is no row after the header", rec->file);
    }
    for (int e = 0; e < rec->n_episodes; e++) {
        rec->episodes[e].first = rows;
        rows += (size_t)rec->episodes[e].rows;
        pf_recorded_probe *probe = &rec->probes[rec->groups[rec->episodes[e].group].probe];
        probe->rows = probe->rows > 0 ? probe->rows : rec->episodes[e].rows;
    }
    r->data = pf__arena_take(arena, rows, sizeof(double) * (size_t)rec->n_chan);
    r->slot_line = pf__arena_take(arena, rows, sizeof(int));
    for (int q = 0; q < rec->n_probes; q++) {
        pf_recorded_probe *probe = &rec->probes[q];
        size_t n = (size_t)probe->rows;
        probe->command_line = pf__arena_take(arena, n, sizeof(int));
        probe->command = pf__arena_take(arena, n, sizeof(double) * (size_t)rec->n_mech);
        if (!rec->own_probes && probe->command) {
            memcpy(probe->command, rec->plan->probes[q].command,
                   n * sizeof(double) * (size_t)rec->n_mech);
        }
    }
    for (int g = 0; g < rec->n_groups; g++) {
        rec->groups[g].episodes = pf__arena_take(arena, (size_t)rec->groups[g].n, sizeof(int));
        rec->groups[g].n = 0;
    }
    if (arena->failed) {
        return no_memory(r);
    }
    for (int e = 0; e < rec->n_episodes; e++) {
        pf_group *group = &rec->groups[rec->episodes[e].group];
        group->episodes[group->n++] = e;
        rec->episodes[e].response = r->data + rec->episodes[e].first * (size_t)rec->n_chan;
    }
    return PF_OK;
}

static pf_status read_value(reader *r, int column, double *value)
{
    pf_status status = pf__csv_number(&r->csv, column, value, r->error);
    if (status == PF_OK && fabs(*value) > PF_RECORDED_MAX) {
        return refuse(r, column, "larger than 1e100; check the units");
    }
    return status;
}

// Commands are compared to six digits: logs are often printed with no more.
static bool same_command(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

static pf_status read_command(reader *r, pf_recorded_probe *probe, int step)
{
    const pf_recordings *rec = r->rec;
    bool first = rec->own_probes && probe->command_line[step - 1] == 0;
    double *command = probe->command + (size_t)(step - 1) * (size_t)rec->n_mech;
    for (int j = 0; j < rec->n_u; j++) {
        int column = CHANNELS + rec->n_chan + j;
        double u = 0;
        pf_status status = read_value(r, column, &u);
        if (status != PF_OK) {
            return status;
        }
        if (first) {
            command[j] = u;
        } else if (!same_command(u, command[j])) {
            char what[240], where[32] = "in the configuration";
            if (rec->own_probes) {
                snprintf(where, sizeof where, "on line %d", probe->command_line[step - 1]);
            }
            pf__print(what, sizeof what,
                      "%.9g, but %.9g %s for step %d of probe '%.48s'; nominal rows must agree "
                      "(log the command, not a measurement)",
                      u, command[j], where, step, probe->name);
            return pf__csv_refuse(
                &r->csv, column, rec->own_probes ? PF_ERR_FORMAT : PF_ERR_MISMATCH, what, r->error);
        }
    }
    if (first) {
        probe->command_line[step - 1] = r->csv.line;
    }
    return PF_OK;
}

static pf_status read_row(reader *r)
{
    pf_recordings *rec = r->rec;
    pf_episode *e = &rec->episodes[r->last];
    int step = 0;
    pf_status status = pf__csv_integer(&r->csv, STEP, 1, STEPS_MAX, &step, r->error);
    // a step beyond the number of rows leaves another one out, which is reported after the walk
    bool inside = status == PF_OK && step <= e->rows;
    size_t slot = inside ? e->first + (size_t)(step - 1) : 0;
    if (inside && r->slot_line[slot] > 0) {
        char what[144], shown[PF_CSV_SHOWN];
        snprintf(what, sizeof what, "step %d of episode '%s' stands on line %d already", step,
                 pf__csv_shown(e->id, shown), r->slot_line[slot]);
        return refuse(r, STEP, what);
    }
    for (int c = 0; c < rec->n_chan && status == PF_OK; c++) {
        double value = 0;
        status = read_value(r, CHANNELS + c, &value);
        if (inside) {
            r->data[slot * (size_t)rec->n_chan + (size_t)c] = value;
        }
    }
    const pf_group *group = &rec->groups[e->group];
    pf_recorded_probe *probe = &rec->probes[group->probe];
    if (status == PF_OK && rec->n_u > 0 && group->mechanism == 0 && step <= probe->rows) {
        status = read_command(r, probe, step);
    }
    if (inside) {
        r->slot_line[slot] = r->csv.line;
    }
    return status;
}

// Second walk: the numbers.
static pf_status walk_numbers(reader *r)
{
    bool more = true;
    pf__csv_rewind(&r->csv);
    for (;;) {
        pf_status status = pf__csv_next(&r->csv, &more, r->error);
        if (status != PF_OK || !more) {
            return status;
        }
        r->last = find_episode(r);
        status = read_row(r);
        if (status != PF_OK) {
            return status;
        }
    }
}

static pf_status check_steps(reader *r)
{
    const pf_recordings *rec = r->rec;
    for (int e = 0; e < rec->n_episodes; e++) {
        const pf_episode *episode = &rec->episodes[e];
        const pf_recorded_probe *probe = &rec->probes[rec->groups[episode->group].probe];
        char shown[PF_CSV_SHOWN];
        pf__csv_shown(episode->id, shown);
        for (int i = 0; i < episode->rows; i++) {
            if (r->slot_line[episode->first + (size_t)i] == 0) {
                return pf_fail(r->error, PF_ERR_FORMAT,
                               "%s:%d: column 'step': episode '%s' has %d rows but no step %d; "
                               "steps are 1..L, each once",
                               rec->file, episode->line, shown, episode->rows, i + 1);
            }
        }
        if (episode->rows != probe->rows) {
            return pf_fail(r->error, PF_ERR_SHAPE,
                           "%s:%d: column 'step': episode '%s' has %d steps, probe '%s' has %d; "
                           "all episodes of a probe must be as long (is the file cut off?)",
                           rec->file, episode->line, shown, episode->rows, probe->name,
                           probe->rows);
        }
    }
    return PF_OK;
}

// --- all of it

// Probes of a plan are known before the first row.
static pf_status plan_probes(reader *r)
{
    pf_recordings *rec = r->rec;
    int n = rec->own_probes ? 0 : rec->plan->n_probes;
    rec->probes = pf__arena_take(&rec->arena, (size_t)n, sizeof *rec->probes);
    for (int q = 0; q < n && rec->probes; q++) {
        rec->probes[q] = (pf_recorded_probe){.name = rec->plan->probes[q].name,
                                             .rows = rec->plan->probes[q].rows};
    }
    rec->n_probes = r->room_probes = n;
    return rec->probes ? PF_OK : no_memory(r);
}

static pf_status read_all(reader *r)
{
    pf_status (*const steps[])(reader *) = {read_header, plan_probes,  walk_episodes,
                                            make_room,   walk_numbers, check_steps};
    pf_status status = PF_OK;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == PF_OK; i++) {
        status = steps[i](r);
    }
    return status;
}

pf_status pf__recordings_read(pf_recordings *rec, const pf_plan *plan, const char *file,
                              const char *text, size_t n, pf_error *error)
{
    *rec = (pf_recordings){.plan = plan, .file = file ? file : "recordings"};
    reader r = {.rec = rec, .last = -1, .error = error};
    pf_status status = pf__csv_open(&r.csv, rec->file, text, n, error);
    if (status != PF_OK) {
        return status;
    }
    status = read_all(&r);
    free(r.table);
    pf__csv_close(&r.csv);
    if (status != PF_OK) {
        pf__recordings_free(rec);
    }
    return status;
}

void pf__recordings_free(pf_recordings *rec)
{
    pf__arena_free(&rec->arena);
    *rec = (pf_recordings){0};
}
