// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "plant_impl.h"
#include "core/rng.h"

#include "host/arena.h"
#include "host/text.h"
#include "preflight/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The stream of a trajectory that its faults draw from. The plant's own are 1 to 3, those of the
// observer 4 and 5.
#define STREAM_FAULT 6

// Room for a list of names in a message.
#define NAMES_SIZE 140

// A channel whose noise nobody knows: deviations are this share of its scale.
#define NOISE_UNKNOWN .05

static const pf_fault_info table[] = {
#define X(code, name, place, measure, least, most, otherwise, line)                                \
    {name, place, measure, least, most, otherwise, line},
    PF_FAULT_LIST(X)
#undef X
};

int pf_fault_count(void)
{
    return (int)(sizeof table / sizeof table[0]);
}

const pf_fault_info *pf_fault_at(int kind)
{
    return kind >= 0 && kind < pf_fault_count() ? &table[kind] : NULL;
}

const char *pf_fault_measure_text(pf_fault_measure measure)
{
    static const char *const texts[] = {
        [PF_FAULT_FACTOR] = "a factor",
        [PF_FAULT_STEPS] = "in steps",
        [PF_FAULT_WHOLE_STEPS] = "in whole steps",
        [PF_FAULT_PROBABILITY] = "a probability",
        [PF_FAULT_AMPLITUDES] = "in amplitudes of the task",
        [PF_FAULT_DEVIATIONS] = "in deviations of its noise",
    };
    return texts[measure];
}

static bool has_unit(const pf_fault *f)
{
    const pf_fault_info *k = pf_fault_at((int)f->kind);
    return k && (k->measure == PF_FAULT_AMPLITUDES || k->measure == PF_FAULT_DEVIATIONS);
}

static pf_fault_place place_of(const pf_fault *f)
{
    const pf_fault_info *k = pf_fault_at((int)f->kind);
    return k ? k->place : PF_FAULT_ON_PLANT;
}

// Which of what the plant declares has this name; -1: none.
static int find_declared(const pf_plant_info *info, const char *name, size_t length)
{
    for (int i = 0; i < info->n_faults; i++) {
        const char *known = info->faults[i].name;
        if (strlen(known) == length && strncmp(known, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static int find_knob(const pf_plant_info *info, const char *name, size_t length)
{
    for (int i = 0; i < info->n_knobs; i++) {
        const char *known = info->knobs[i].name;
        if (strlen(known) == length && strncmp(known, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static int find_kind(pf_fault_place place, const char *name, size_t length)
{
    for (int i = 0; i < pf_fault_count(); i++) {
        const char *known = table[i].name;
        if (table[i].place == place && strlen(known) == length &&
            strncmp(known, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

// What the plant declares of a kind that only its physics can carry; NULL: any plant has the kind,
// or this one has not.
static const pf_plant_fault *declared_of(const pf_fault *f, const pf_plant_info *info)
{
    if (f->kind == PF_FAULT_DECLARED) {
        return f->at >= 0 && f->at < info->n_faults ? &info->faults[f->at] : NULL;
    }
    bool physics = f->kind == PF_FAULT_DISTURBANCE || f->kind == PF_FAULT_TIME_CONSTANT;
    const char *name = physics ? table[f->kind].name : "";
    int i = find_declared(info, name, strlen(name));
    return i >= 0 ? &info->faults[i] : NULL;
}

const char *pf__fault_declared_name(const pf_fault *f, const pf_plant_info *info)
{
    const pf_plant_fault *declared = declared_of(f, info);
    return declared ? declared->name : NULL;
}

bool pf__fault_name_free(const char *name)
{
    for (int i = 0; i < pf_fault_count(); i++) {
        bool physics = i == PF_FAULT_DISTURBANCE || i == PF_FAULT_TIME_CONSTANT;
        if (!physics && strcmp(table[i].name, name) == 0) {
            return false;
        }
    }
    return true;
}

// --- lists of names for messages

typedef struct names {
    char text[NAMES_SIZE];
    size_t used;
    bool cut;
} names;

static void add_name(names *n, const char *name)
{
    size_t left = sizeof n->text - n->used;
    int size = snprintf(n->text + n->used, left, "%s%s", n->used > 0 ? ", " : "", name);
    if (n->cut || size < 0 || (size_t)size + 4 >= left) {
        strcpy(n->text + n->used, n->cut ? "" : "...");
        n->used += n->cut ? 0 : 3;
        n->cut = true;
        return;
    }
    n->used += (size_t)size;
}

static void kind_names(pf_fault_place place, names *out)
{
    *out = (names){0};
    for (int i = 0; i < pf_fault_count(); i++) {
        if (table[i].place == place) {
            add_name(out, table[i].name);
        }
    }
}

// What the plant as a whole can have.
static void plant_names(const pf_plant_info *info, names *out)
{
    *out = (names){0};
    add_name(out, table[PF_FAULT_EFFECTIVENESS].name);
    for (int i = 0; i < info->n_faults; i++) {
        add_name(out, info->faults[i].name);
    }
    for (int i = 0; i < info->n_knobs; i++) {
        add_name(out, info->knobs[i].name);
    }
}

static void mechanism_names(const pf_plant_info *info, names *out)
{
    *out = (names){0};
    for (int j = 0; j < info->n_mech; j++) {
        add_name(out, info->mechanisms[j].name);
    }
}

static void channel_names(const pf_plant_info *info, names *out)
{
    *out = (names){0};
    for (int c = 0; c < info->n_chan; c++) {
        add_name(out, info->channels[c].name);
    }
}

// --- rules

static const char *name_of(const pf_fault *f, const pf_plant_info *info)
{
    const pf_fault_info *k = pf_fault_at((int)f->kind);
    return k                          ? k->name
           : f->kind == PF_FAULT_KNOB ? info->knobs[f->at].name
                                      : info->faults[f->at].name;
}

static pf_status place_check(const pf_fault *f, const pf_plant_info *info, pf_error *error)
{
    pf_fault_place place = place_of(f);
    const pf_fault_info *k = pf_fault_at((int)f->kind);
    int n = place == PF_FAULT_ON_MECHANISM ? info->n_mech
            : place == PF_FAULT_ON_CHANNEL ? info->n_chan
            : f->kind == PF_FAULT_KNOB     ? info->n_knobs
            : f->kind == PF_FAULT_DECLARED ? info->n_faults
                                           : 0;
    bool whole = place == PF_FAULT_ON_PLANT && k;
    if (f->kind > PF_FAULT_DECLARED || (!whole && (f->at < 0 || f->at >= n))) {
        return pf_fail(error, PF_ERR_ARGUMENT, "plant %s has no fault of kind %d at %d", info->name,
                       (int)f->kind, f->at);
    }
    if (whole && f->kind != PF_FAULT_EFFECTIVENESS && !declared_of(f, info)) {
        names have;
        plant_names(info, &have);
        return pf_fail(error, PF_ERR_UNSUPPORTED,
                       "plant %s cannot have the fault %s, which only its own physics could carry; "
                       "as a whole it can have: %s",
                       info->name, k->name, have.text);
    }
    return PF_OK;
}

static pf_status value_check(const pf_fault *f, const pf_plant_info *info, pf_error *error)
{
    const pf_fault_info *k = pf_fault_at((int)f->kind);
    const pf_plant_fault *declared = declared_of(f, info);
    double least = declared ? declared->least : k ? k->least : -INFINITY;
    double most = declared ? declared->most : k ? k->most : INFINITY;
    const char *name = name_of(f, info);
    if (!isfinite(f->value)) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s must be a finite number", name);
    }
    if (!(f->value >= least && f->value <= most)) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s must be from %g to %g, not %g", name, least,
                       most, f->value);
    }
    if (k && k->measure == PF_FAULT_WHOLE_STEPS && f->value != floor(f->value)) {
        return pf_fail(error, PF_ERR_ARGUMENT, "%s must be a whole number of steps, not %g", name,
                       f->value);
    }
    return PF_OK;
}

static pf_status one_check(const pf_fault *f, const pf_plant_info *info, pf_error *error)
{
    pf_status status = place_check(f, info, error);
    return status == PF_OK ? value_check(f, info, error) : status;
}

// Whether one that is listed before it is the same; then they would not be told apart.
static bool is_repeated(const pf_fault *faults, int i)
{
    for (int other = 0; other < i; other++) {
        if (faults[other].kind == faults[i].kind && faults[other].at == faults[i].at) {
            return true;
        }
    }
    return false;
}

pf_status pf_fault_check(const pf_fault *faults, int n, const pf_plant_info *info, pf_error *error)
{
    for (int i = 0; i < n; i++) {
        const pf_fault *f = &faults[i];
        pf_status status = one_check(f, info, error);
        if (status != PF_OK) {
            return status;
        }
        bool counted = !has_unit(f) || (f->unit > 0 && isfinite(f->unit));
        if (counted && !is_repeated(faults, i)) {
            continue;
        }
        char text[80];
        pf_fault_text(f, info, text, sizeof text);
        return counted
                   ? pf_fail(error, PF_ERR_ARGUMENT,
                             "fault %s: this place has a fault already of the kind %s; give "
                             "each kind once",
                             text, name_of(f, info))
                   : pf_fail(error, PF_ERR_ARGUMENT,
                             "fault %s: its unit is not set; call pf_fault_set_units first", text);
    }
    return PF_OK;
}

// --- from and to text

// A fault in words: where:what=value, whose parts need not be there.
typedef struct words {
    const char *text;
    const char *where, *what, *value; // NULL: not there
    size_t n_where, n_what;
} words;

static words split(const char *text)
{
    const char *colon = strrchr(text, ':');
    words w = {.text = text, .what = colon ? colon + 1 : text};
    const char *equals = strchr(w.what, '=');
    w.where = colon ? text : NULL;
    w.n_where = colon ? (size_t)(colon - text) : 0;
    w.n_what = equals ? (size_t)(equals - w.what) : strlen(w.what);
    w.value = equals ? equals + 1 : NULL;
    return w;
}

static bool read_number(const char *text, double *value)
{
    char *end = NULL;
    *value = pf__number_read(text, &end);
    return end != text && *end == '\0' && !strchr(" \t\n\v\f\r", text[0]);
}

static int find_mechanism(const words *w, const pf_plant_info *info)
{
    char number[16];
    int found = -1;
    for (int j = 0; j < info->n_mech; j++) {
        const char *name = info->mechanisms[j].name;
        snprintf(number, sizeof number, "%d", j);
        if ((strlen(name) == w->n_where && strncmp(name, w->where, w->n_where) == 0) ||
            (strlen(number) == w->n_where && strncmp(number, w->where, w->n_where) == 0)) {
            found = j;
        }
    }
    return found;
}

static int find_channel(const words *w, const pf_plant_info *info)
{
    for (int c = 0; c < info->n_chan; c++) {
        const char *name = info->channels[c].name;
        if (strlen(name) == w->n_where && strncmp(name, w->where, w->n_where) == 0) {
            return c;
        }
    }
    return -1;
}

// The number of a kind: given, or its default.
static pf_status take_value(const words *w, const pf_plant_info *info, pf_fault *f, pf_error *error)
{
    const pf_fault_info *k = pf_fault_at((int)f->kind);
    pf_error why = {PF_OK, ""};
    if (w->value && !read_number(w->value, &f->value)) {
        return pf_fail(error, PF_ERR_ARGUMENT, "fault %s: '%s' is not a number", w->text, w->value);
    }
    if (!w->value && (!k || k->otherwise < k->least)) {
        return pf_fail(error, PF_ERR_ARGUMENT, "fault %s: %s needs a number, such as %s=%g",
                       w->text, name_of(f, info), name_of(f, info), k && k->most <= 1 ? .5 : 1.);
    }
    f->value = w->value ? f->value : k->otherwise;
    pf_status status = one_check(f, info, &why);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "fault %s: %s", w->text, why.text);
}

static pf_status parse_plant(const words *w, const pf_plant_info *info, pf_fault *f,
                             pf_error *error)
{
    int kind = find_kind(PF_FAULT_ON_PLANT, w->what, w->n_what);
    int knob = find_knob(info, w->what, w->n_what);
    int declared = find_declared(info, w->what, w->n_what);
    bool elsewhere = find_kind(PF_FAULT_ON_MECHANISM, w->what, w->n_what) >= 0 ||
                     find_kind(PF_FAULT_ON_CHANNEL, w->what, w->n_what) >= 0;
    if (elsewhere && !w->where) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "fault %s: say of which mechanism or channel, such as %s:%s", w->text,
                       info->mechanisms[info->n_mech - 1].name, w->text);
    }
    *f = (pf_fault){.at = -1};
    if (kind >= 0) {
        f->kind = (pf_fault_kind)kind;
    } else if (knob >= 0 || declared >= 0) {
        f->kind = knob >= 0 ? PF_FAULT_KNOB : PF_FAULT_DECLARED;
        f->at = knob >= 0 ? knob : declared;
    } else {
        names have, mechanisms, channels;
        plant_names(info, &have);
        mechanism_names(info, &mechanisms);
        channel_names(info, &channels);
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "fault %s: must be MECHANISM:GAIN, MECHANISM:KIND=X, CHANNEL:KIND=X or "
                       "NAME=X; names: %s; mechanisms: %s; channels: %s",
                       w->text, have.text, mechanisms.text, channels.text);
    }
    return take_value(w, info, f, error);
}

// Nobody is called so.
static pf_status no_such_place(const words *w, const pf_plant_info *info, pf_error *error)
{
    names mechanisms, channels;
    mechanism_names(info, &mechanisms);
    channel_names(info, &channels);
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "fault %s: no such mechanism (0..%d or %s) or channel (%s)", w->text,
                   info->n_mech - 1, mechanisms.text, channels.text);
}

static pf_status no_such_kind(const words *w, pf_fault_place place, pf_error *error)
{
    names have;
    kind_names(place, &have);
    if (place == PF_FAULT_ON_MECHANISM && !w->value) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "fault %s: '%s' is no number (the share that is left, such as 0.35), and a "
                       "mechanism can have: %s",
                       w->text, w->what, have.text);
    }
    return pf_fail(error, PF_ERR_ARGUMENT, "fault %s: a %s can have: %s", w->text,
                   place == PF_FAULT_ON_MECHANISM ? "mechanism" : "channel", have.text);
}

pf_status pf_fault_parse(const char *text, const pf_plant_info *info, pf_fault *fault,
                         pf_error *error)
{
    words w = split(text);
    *fault = (pf_fault){.at = -1};
    if (!w.where) {
        return parse_plant(&w, info, fault, error);
    }
    int mechanism = find_mechanism(&w, info), channel = find_channel(&w, info);
    if (mechanism < 0 && channel < 0) {
        bool plant = w.n_where == 5 && strncmp(w.where, "plant", 5) == 0;
        return plant ? parse_plant(&w, info, fault, error) : no_such_place(&w, info, error);
    }
    double number;
    if (mechanism >= 0 && !w.value && read_number(w.what, &number)) {
        words gain = w;
        gain.value = w.what;
        *fault = (pf_fault){.kind = PF_FAULT_GAIN, .at = mechanism};
        return take_value(&gain, info, fault, error);
    }
    // a name that both have is the mechanism's, unless only a channel can have the kind
    int kind = mechanism >= 0 ? find_kind(PF_FAULT_ON_MECHANISM, w.what, w.n_what) : -1;
    int at = mechanism;
    if (kind < 0 && channel >= 0) {
        kind = find_kind(PF_FAULT_ON_CHANNEL, w.what, w.n_what);
        at = channel;
    }
    if (kind < 0) {
        return no_such_kind(&w, mechanism >= 0 ? PF_FAULT_ON_MECHANISM : PF_FAULT_ON_CHANNEL,
                            error);
    }
    *fault = (pf_fault){.kind = (pf_fault_kind)kind, .at = at};
    return take_value(&w, info, fault, error);
}

void pf_fault_text(const pf_fault *f, const pf_plant_info *info, char *text, size_t size)
{
    char number[32];
    pf__number_text(f->value, number);
    const char *name = name_of(f, info);
    pf_fault_place place = place_of(f);
    if (f->kind == PF_FAULT_GAIN) {
        snprintf(text, size, "%s:%s", info->mechanisms[f->at].name, number);
    } else if (place == PF_FAULT_ON_PLANT) {
        // a knob may be called as a kind of a mechanism is
        bool own = f->kind == PF_FAULT_KNOB && !pf__fault_name_free(name);
        snprintf(text, size, "%s%s=%s", own ? "plant:" : "", name, number);
    } else {
        bool usual = f->value == pf_fault_at(f->kind)->otherwise; // it need not be said
        snprintf(text, size, "%s:%s%s%s",
                 place == PF_FAULT_ON_MECHANISM ? info->mechanisms[f->at].name
                                                : info->channels[f->at].name,
                 name, usual ? "" : "=", usual ? "" : number);
    }
}

// --- units

static double amplitude_unit(int mechanism, const pf_kit *kit, const pf_plant_info *info)
{
    double most = 0;
    pf_kit_info k = kit ? pf_kit_get_info(kit) : (pf_kit_info){0};
    for (int t = 0; t < k.n_tasks && mechanism < k.n_mech; t++) {
        const double *command = pf_kit_task_command(kit, t);
        for (int r = 0; r < pf_kit_task_rows(kit, t); r++) {
            most = fmax(most, fabs(command[(size_t)r * (size_t)k.n_mech + (size_t)mechanism]));
        }
    }
    const pf_pulse *pulses[] = {info->task, info->probe};
    for (int i = 0; i < 2 && most == 0; i++) {
        most = pulses[i] ? fabs(pulses[i]->amplitude[mechanism]) : 0;
    }
    double range = info->mechanisms[mechanism].hi - info->mechanisms[mechanism].lo;
    return most > 0 ? most : isfinite(range) && range > 0 ? range / 4 : 1;
}

// 0: nobody knows.
static double noise_unit(int channel, const pf_kit *kit, const pf_plant_info *info)
{
    const pf_channel *c = &info->channels[channel];
    pf_kit_info k = kit ? pf_kit_get_info(kit) : (pf_kit_info){0};
    bool known = channel < k.n_chan;
    double share = known ? k.sensor_noise : info->sensor_noise;
    if (c->noise_sd > 0) {
        return known && share > 0 ? share * c->noise_sd : c->noise_sd;
    }
    return (share > 0 ? share : NOISE_UNKNOWN) * (known ? k.return_scale[channel] : c->scale);
}

pf_status pf_fault_set_units(pf_fault *faults, int n, const pf_kit *kit, const pf_plant_info *info,
                             pf_error *error)
{
    for (int i = 0; i < n; i++) {
        pf_fault *f = &faults[i];
        pf_status status = place_check(f, info, error);
        if (status != PF_OK) {
            return status;
        }
        if (!has_unit(f) || f->unit != 0) {
            continue;
        }
        f->unit = place_of(f) == PF_FAULT_ON_MECHANISM ? amplitude_unit(f->at, kit, info)
                                                       : noise_unit(f->at, kit, info);
        if (!(f->unit > 0)) {
            return pf_fail(error, PF_ERR_ARGUMENT,
                           "%s of channel %s counts in deviations of its noise, and plant %s "
                           "declares neither noise nor scale; give its scale, or a kit",
                           table[f->kind].name, info->channels[f->at].name, info->name);
        }
    }
    return PF_OK;
}

// --- what mechanisms deliver

static void draw_from(pf_rng *rng, pf_key key, const pf_fault *f)
{
    pf_key own = pf__key_text(pf__key_derive(key, STREAM_FAULT), table[f->kind].name);
    pf_rng_init(rng, pf__key_derive(own, (uint64_t)f->at));
}

void pf__fault_gains(const pf_fault *faults, int n, int n_mech, pf_key key, const double *gains,
                     double *out)
{
    for (int j = 0; j < n_mech; j++) {
        out[j] = gains ? gains[j] : 1;
    }
    for (int i = 0; i < n; i++) {
        const pf_fault *f = &faults[i];
        pf_rng rng;
        if (f->kind == PF_FAULT_GAIN) {
            out[f->at] *= f->value;
        } else if (f->kind == PF_FAULT_INTERMITTENT) {
            draw_from(&rng, key, f);
            out[f->at] *= pf_rng_uniform(&rng) < .5 ? f->value : 1;
        } else if (f->kind == PF_FAULT_EFFECTIVENESS) {
            for (int j = 0; j < n_mech; j++) {
                out[j] *= f->value;
            }
        }
    }
}

// Whether it acts on the command; gains act on what is delivered.
static bool moves_command(const pf_fault *f)
{
    return place_of(f) == PF_FAULT_ON_MECHANISM && f->kind != PF_FAULT_GAIN &&
           f->kind != PF_FAULT_INTERMITTENT;
}

bool pf__fault_moves(const pf_fault *faults, int n)
{
    for (int i = 0; i < n; i++) {
        if (moves_command(&faults[i])) {
            return true;
        }
    }
    return false;
}

static double clip(double u, double lo, double hi)
{
    return u < lo ? lo : u > hi ? hi : u;
}

static double late(const pf_fault *f, pf_fault_state *s, double u)
{
    int steps = (int)f->value;
    if (steps == 0) {
        return u;
    }
    double was = s->past[s->row]; // zero in the first steps
    s->past[s->row] = u;
    s->row = (s->row + 1) % steps;
    return was;
}

// What becomes of one command.
static double step(const pf_fault *f, pf_fault_state *s, double u)
{
    double size = f->value * f->unit;
    switch (f->kind) {
    case PF_FAULT_GAIN_UP:
        return u > 0 ? f->value * u : u;
    case PF_FAULT_GAIN_DOWN:
        return u < 0 ? f->value * u : u;
    case PF_FAULT_DEAD_BAND:
        return u > size ? u - size : u < -size ? u + size : 0;
    case PF_FAULT_BACKLASH:
        return s->last = clip(s->last, u - size / 2, u + size / 2);
    case PF_FAULT_SATURATION:
        return clip(u, -size, size);
    case PF_FAULT_RATE_LIMIT:
        return s->last = clip(u, s->last - size, s->last + size);
    case PF_FAULT_LAG:
        return s->last = f->value > 0 ? u + exp(-1 / f->value) * (s->last - u) : u;
    case PF_FAULT_DELAY:
        return late(f, s, u);
    case PF_FAULT_BIAS:
        return u + size;
    case PF_FAULT_STUCK:
        return size;
    default:
        return u;
    }
}

void pf__fault_step(const pf_fault *faults, int n, const pf_mechanism *mechanisms,
                    pf_fault_state *states, double *u)
{
    for (int i = 0; i < n; i++) {
        if (moves_command(&faults[i])) {
            int j = faults[i].at;
            u[j] = clip(u[j], mechanisms[j].lo, mechanisms[j].hi);
        }
    }
    for (int i = 0; i < n; i++) {
        if (moves_command(&faults[i])) {
            u[faults[i].at] = step(&faults[i], &states[i], u[faults[i].at]);
        }
    }
}

// --- what channels read

// What one fault of a channel keeps along a trajectory.
typedef struct sensor {
    pf_rng rng;
    double last;  // read before
    double count; // readings so far
    size_t next;  // of a delay: the kept reading that goes next
} sensor;

// How many of so many readings a fault has to keep.
static size_t kept(const pf_fault *f, size_t readings)
{
    size_t steps = f->kind == PF_FAULT_READS_DELAY ? (size_t)f->value : 0;
    return steps < readings ? steps : readings;
}

static double late_reading(const pf_fault *f, sensor *s, double *past, double y)
{
    size_t n = (size_t)f->value;
    if (n == 0) {
        return y;
    }
    // until there are enough, the first one stays where it is
    double was = s->count == 0 ? y : past[s->count < f->value ? 0 : s->next];
    past[s->next] = y;
    s->next = (s->next + 1) % n;
    return was;
}

// What becomes of one reading. past: room for what the fault keeps.
static double sense(const pf_fault *f, sensor *s, double *past, double y)
{
    switch (f->kind) {
    case PF_FAULT_READS_DELAY:
        y = late_reading(f, s, past, y);
        break;
    case PF_FAULT_READS_BIAS:
        y += f->value * f->unit;
        break;
    case PF_FAULT_READS_SCALE:
        y *= f->value;
        break;
    case PF_FAULT_READS_FROZEN:
        y = s->count > f->value ? s->last : y;
        break;
    case PF_FAULT_READS_NOISE:
        y += f->value * f->unit * pf_rng_normal(&s->rng);
        break;
    default: // dropout
        y = s->count > 0 && pf_rng_uniform(&s->rng) < f->value ? s->last : y;
    }
    s->count++;
    return s->last = y;
}

static bool reads(const pf_fault *f)
{
    return place_of(f) == PF_FAULT_ON_CHANNEL;
}

pf_status pf__fault_sense_after(const pf_fault *faults, int n, const pf_plant_info *info,
                                pf_key key, int n_first, double *first, int rows, double *output,
                                pf_error *error)
{
    pf_status status = pf_fault_check(faults, n, info, error);
    size_t before = (size_t)n_first, all = before + (size_t)rows, n_chan = (size_t)info->n_chan;
    for (int i = 0; i < n && status == PF_OK; i++) {
        const pf_fault *f = &faults[i];
        if (!reads(f)) {
            continue; // a knob has no stream
        }
        double *past = malloc((kept(f, all) + 1) * sizeof *past);
        if (!past) {
            return pf_fail(error, PF_ERR_MEMORY, "plant %s: out of memory for its faults",
                           info->name);
        }
        sensor s = {.last = 0};
        draw_from(&s.rng, key, f);
        for (size_t r = 0; r < all; r++) {
            double *row = r < before ? first + r * n_chan : output + (r - before) * n_chan;
            row[f->at] = sense(f, &s, past, row[f->at]);
        }
        free(past);
    }
    return status;
}

pf_status pf_fault_sense(const pf_fault *faults, int n, const pf_plant_info *info, pf_key key,
                         double *first, int rows, double *output, pf_error *error)
{
    return pf__fault_sense_after(faults, n, info, key, first != NULL, first, rows, output, error);
}

// --- a machine that the caller steps

struct pf_fault_run {
    pf_arena arena;
    int n, n_mech;
    pf_fault *faults;
    pf_mechanism *mechanisms; // limits only
    // one piece that changes along a trajectory, which is what save writes
    unsigned char *moving;
    size_t bytes;
    double *gains;          // n_mech
    sensor *sensors;        // n
    pf_fault_state *states; // n
    double *past;           // what the faults keep, one after the other
};

static pf_status run_lay_out(pf_fault_run *run, const pf_plant_info *info, pf_error *error)
{
    size_t n = (size_t)run->n, m = (size_t)run->n_mech, n_past = 0;
    for (size_t i = 0; i < n; i++) {
        n_past += kept(&run->faults[i], SIZE_MAX);
    }
    // every size is a multiple of 8
    size_t sensors = m * sizeof *run->gains, states = sensors + n * sizeof *run->sensors;
    size_t past = states + n * sizeof *run->states;
    run->bytes = past + n_past * sizeof *run->past;
    run->moving = pf__arena_take(&run->arena, run->bytes + 1, 1);
    if (run->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "plant %s: out of memory for its faults", info->name);
    }
    run->gains = (double *)(void *)run->moving;
    run->sensors = (sensor *)(void *)(run->moving + sensors);
    run->states = (pf_fault_state *)(void *)(run->moving + states);
    run->past = (double *)(void *)(run->moving + past);
    return PF_OK;
}

pf_status pf_fault_run_create(pf_fault_run **run, const pf_fault *faults, int n,
                              const pf_plant_info *info, pf_error *error)
{
    *run = NULL;
    pf_status status = pf_fault_check(faults, n, info, error);
    for (int i = 0; i < n && status == PF_OK; i++) {
        if (place_of(&faults[i]) == PF_FAULT_ON_PLANT && faults[i].kind != PF_FAULT_EFFECTIVENESS) {
            status = pf_fail(error, PF_ERR_UNSUPPORTED,
                             "plant %s: only its own physics can carry the fault %s", info->name,
                             name_of(&faults[i], info));
        }
    }
    pf_fault_run *made = status == PF_OK ? calloc(1, sizeof *made) : NULL;
    if (status == PF_OK && !made) {
        status =
            pf_fail(error, PF_ERR_MEMORY, "plant %s: out of memory for its faults", info->name);
    }
    if (status != PF_OK) {
        return status;
    }
    made->n = n;
    made->n_mech = info->n_mech;
    made->faults = pf__arena_take(&made->arena, (size_t)n + 1, sizeof *made->faults);
    made->mechanisms = pf__arena_take(&made->arena, (size_t)info->n_mech, sizeof *made->mechanisms);
    for (int i = 0; made->faults && i < n; i++) {
        made->faults[i] = faults[i];
    }
    for (int j = 0; made->mechanisms && j < info->n_mech; j++) {
        made->mechanisms[j] = (pf_mechanism){NULL, info->mechanisms[j].lo, info->mechanisms[j].hi};
    }
    status = made->arena.failed ? pf_fail(error, PF_ERR_MEMORY,
                                          "plant %s: out of memory for its faults", info->name)
                                : run_lay_out(made, info, error);
    if (status != PF_OK) {
        pf_fault_run_destroy(made);
        return status;
    }
    pf_fault_run_reset(made, 0);
    *run = made;
    return PF_OK;
}

void pf_fault_run_destroy(pf_fault_run *run)
{
    if (run) {
        pf__arena_free(&run->arena);
        free(run);
    }
}

void pf_fault_run_reset(pf_fault_run *run, pf_key key)
{
    memset(run->moving, 0, run->bytes);
    pf__fault_gains(run->faults, run->n, run->n_mech, key, NULL, run->gains);
    for (int i = 0; i < run->n; i++) {
        if (reads(&run->faults[i])) {
            draw_from(&run->sensors[i].rng, key, &run->faults[i]);
        }
    }
}

void pf_fault_run_step(pf_fault_run *run, double *command)
{
    pf__fault_step(run->faults, run->n, run->mechanisms, run->states, command);
    pf__fault_deliver(run->n_mech, run->mechanisms, command, run->gains, command);
}

void pf_fault_run_read(pf_fault_run *run, double *reading)
{
    double *past = run->past;
    for (int i = 0; i < run->n; i++) {
        const pf_fault *f = &run->faults[i];
        if (reads(f)) {
            reading[f->at] = sense(f, &run->sensors[i], past, reading[f->at]);
            past += kept(f, SIZE_MAX);
        }
    }
}

size_t pf_fault_run_save(const pf_fault_run *run, void *bytes)
{
    if (bytes) {
        memcpy(bytes, run->moving, run->bytes);
    }
    return run->bytes;
}

// Whether every place that is counted to exists.
static bool counts_fit(const pf_fault_run *run)
{
    for (int i = 0; i < run->n; i++) {
        const pf_fault *f = &run->faults[i];
        size_t next = run->sensors[i].next, n = kept(f, SIZE_MAX);
        int row = run->states[i].row, steps = f->kind == PF_FAULT_DELAY ? (int)f->value : 0;
        if ((next > 0 && next >= n) || row < 0 || (row > 0 && row >= steps)) {
            return false;
        }
    }
    return true;
}

pf_status pf_fault_run_load(pf_fault_run *run, const void *bytes, size_t n, pf_error *error)
{
    if (n == run->bytes) {
        memcpy(run->moving, bytes, n);
        if (counts_fit(run)) {
            return PF_OK;
        }
    }
    pf_fault_run_reset(run, 0);
    return pf_fail(error, PF_ERR_FORMAT, "these %z bytes were saved with other faults", n);
}
