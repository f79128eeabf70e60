// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"
#include "plant/plant_impl.h"
#include "core/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Streams of one trajectory. Disturbance and noise are drawn independently of commands and gains,
// in a fixed order, so passive trajectories of a dormant fault are equal to the bit.
enum { STREAM_RESET = 1, STREAM_WIND = 2, STREAM_NOISE = 3 };

// The stationary AR(1) law: w_0 = sd e, w_k = phi w_{k-1} + sd sqrt(1 - phi^2) e, sd being
// `factor` times the declared one.
static void draw_wind(const pf_plant_class *c, double factor, pf_rng *rng, bool first, double *w)
{
    for (int i = 0; i < c->n_wind; i++) {
        double e = pf_rng_normal(rng), phi = c->wind_phi[i], sd = factor * c->wind_sd[i];
        w[i] = first ? sd * e : phi * w[i] + sd * sqrt(1 - phi * phi) * e;
    }
}

// slow: how many times longer everything takes.
static void step(const pf_plant_class *c, const double *knob, double *x, const double *u,
                 const double *gains, const double *w, double slow)
{
    double v[PF_NATIVE_MECH];
    for (int s = 0; s < pf__native_substeps(c); s++) {
        if (s == 0 || pf__native_delivers_anew(c)) {
            pf__native_deliver(c, knob, x, u, gains, v);
        }
        pf__native_substep(c, c->derivative, knob, x, v, w, slow);
    }
}

void pf__native_step(const pf_plant_class *c, const double *knob, double *x, const double *u,
                     const double *gains, const double *w)
{
    step(c, knob, x, u, gains, w, 1);
}

void pf__native_output(const pf_plant_class *c, const double *knob, const double *x,
                       const double *u, const double *gains, const double *w, double *y)
{
    double v[PF_NATIVE_MECH];
    pf__native_deliver(c, knob, x, u, gains, v);
    c->output(knob, x, v, w, y);
}

static pf_status finite_state(const pf_plant_class *c, const double *x, int row, pf_error *error)
{
    for (int i = 0; i < c->info.n_state; i++) {
        if (!isfinite(x[i])) {
            return pf_fail(error, PF_ERR_PLANT, "%s: state %d is not finite after step %d",
                           c->info.name, i, row + 1);
        }
    }
    return PF_OK;
}

// A trajectory on its way.
typedef struct run {
    const pf_plant_class *class;
    const double *knob;
    const pf_roll *roll;
    const pf_trace *trace;
    double x[PF_NATIVE_STATE], w[PF_NATIVE_WIND];
    double gains[PF_NATIVE_MECH], own[PF_NATIVE_MECH];
    const double *u;     // the command under way
    const double *asked; // the same before faults
    bool over;           // the episode of a policy has ended
    double score;
    pf_rng wind, noise;
    double slow, windy;     // factors on its time constants and its disturbance
    pf_fault_state *faults; // that act on commands; NULL: it has none
    double sent[PF_NATIVE_MECH];
} run;

static void begin(run *s)
{
    const pf_plant_class *c = s->class;
    const pf_roll *roll = s->roll;
    const pf_trace *trace = s->trace;
    size_t n_state = (size_t)c->info.n_state;
    pf_rng rng;
    if (roll->start) {
        memcpy(s->x, roll->start, sizeof(double) * n_state);
    } else {
        pf_rng_init(&rng, pf__key_derive(roll->key, STREAM_RESET));
        c->reset(s->x, roll->mean_reset ? NULL : &rng);
    }
    if (roll->policy >= 0 && c->loops->start) {
        c->loops->start(roll->policy, s->x);
    }
    for (int j = 0; j < c->info.n_mech; j++) {
        s->gains[j] = roll->gains ? roll->gains[j] : 1;
    }
    if (trace->start) {
        memcpy(trace->start, s->x, sizeof(double) * n_state);
    }
    if (trace->initial) {
        pf__native_output(c, s->knob, s->x, s->u, s->gains, s->w, trace->initial);
    }
    pf_rng_init(&s->wind, pf__key_derive(roll->key, STREAM_WIND));
    pf_rng_init(&s->noise, pf__key_derive(roll->key, STREAM_NOISE));
}

// The command of a row: what was given, or what the corrected policy makes of the state.
static void take_command(run *s, int row)
{
    int n = s->class->info.n_mech;
    if (s->roll->policy < 0) {
        s->asked = s->roll->command + (size_t)row * (size_t)n;
    } else {
        s->class->loops->command(s->roll->policy, s->x, s->own);
        for (int j = 0; j < n && s->roll->correction; j++) {
            s->own[j] *= s->roll->correction[j];
        }
        s->asked = s->own;
    }
    s->u = s->asked;
    if (s->faults) {
        memcpy(s->sent, s->asked, sizeof(double) * (size_t)n);
        pf__fault_step(s->roll->faults, s->roll->n_faults, s->class->info.mechanisms, s->faults,
                       s->sent);
        s->u = s->sent;
    }
}

static void advance(run *s)
{
    const pf_plant_class *c = s->class;
    double before[PF_NATIVE_STATE], v[PF_NATIVE_MECH];
    if (s->roll->policy < 0) {
        step(c, s->knob, s->x, s->u, s->gains, s->w, s->slow);
        return;
    }
    memcpy(before, s->x, sizeof(double) * (size_t)c->info.n_state);
    pf__native_deliver(c, s->knob, before, s->u, s->gains, v);
    step(c, s->knob, s->x, s->u, s->gains, s->w, s->slow);
    s->over = !c->loops->score(s->roll->policy, before, v, s->x, &s->score);
}

static void record(run *s, int row)
{
    const pf_plant_info *info = &s->class->info;
    size_t n_state = (size_t)info->n_state;
    if (s->trace->state) {
        memcpy(s->trace->state + (size_t)row * n_state, s->x, sizeof(double) * n_state);
    }
    if (!s->trace->output) {
        return;
    }
    double *y = s->trace->output + (size_t)row * (size_t)info->n_chan;
    double factor = s->roll->sensor_noise;
    pf__native_output(s->class, s->knob, s->x, s->u, s->gains, s->w, y);
    if (factor > 0 && s->class->noise) {
        factor *= s->class->noise(s->asked);
    }
    for (int i = 0; i < info->n_chan && factor > 0; i++) {
        y[i] += factor * info->channels[i].noise_sd * pf_rng_normal(&s->noise);
    }
}

// What the faults ask of the physics.
static pf_status take_faults(run *s, pf_error *error)
{
    const pf_roll *roll = s->roll;
    s->slow = s->windy = 1;
    for (int i = 0; i < roll->n_faults; i++) {
        const pf_fault *f = &roll->faults[i];
        s->slow = f->kind == PF_FAULT_TIME_CONSTANT ? f->value : s->slow;
        s->windy = f->kind == PF_FAULT_DISTURBANCE ? f->value : s->windy;
    }
    if (pf__fault_moves(roll->faults, roll->n_faults)) {
        s->faults = calloc((size_t)roll->n_faults, sizeof *s->faults);
        if (!s->faults) {
            return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory for its faults",
                           s->class->info.name);
        }
    }
    return PF_OK;
}

static pf_status run_rows(run *s, pf_error *error)
{
    bool watched = s->trace->output || s->trace->state;
    for (int r = 0; r < s->roll->rows && (watched || !s->over); r++) {
        if (s->roll->disturbance) {
            draw_wind(s->class, s->windy, &s->wind, r == 0, s->w);
        }
        if (!s->over) {
            take_command(s, r);
            advance(s);
        }
        pf_status status = finite_state(s->class, s->x, r, error);
        if (status != PF_OK) {
            return status;
        }
        record(s, r);
    }
    return PF_OK;
}

pf_status pf__native_roll(const pf_plant_class *c, const double *knob, const pf_roll *roll,
                          const pf_trace *trace, pf_error *error)
{
    run s = {.class = c, .knob = knob, .roll = roll, .trace = trace};
    s.u = s.asked = s.own;
    pf_status status = take_faults(&s, error);
    if (status == PF_OK) {
        begin(&s);
        status = run_rows(&s, error);
    }
    free(s.faults);
    if (status == PF_OK && trace->score) {
        *trace->score = s.score;
    }
    return status;
}

// --- many in step

// One of them: what its random streams draw, unless an earlier lane with the same key draws it.
typedef struct lane {
    const pf_roll *roll;
    const pf_trace *trace;
    int wind_of, noise_of; // the lane that draws, perhaps itself; -1: nobody
    pf_rng wind, noise;
} lane;

typedef struct tile {
    const pf_plant_class *class;
    const double *knob;
    int n, wide; // lanes in use and in step
    lane lane[PF_LANES];
    double x[PF_NATIVE_STATE * PF_LANES], u[PF_NATIVE_MECH * PF_LANES];
    double gains[PF_NATIVE_MECH * PF_LANES], w[PF_NATIVE_WIND * PF_LANES];
    double y[PF_NATIVE_STATE * PF_LANES], e[PF_NATIVE_STATE * PF_LANES]; // outputs, normal draws
} tile;

// Fewer than this take less time one after the other.
enum { LEAST_LANES = 3 };

// A command sequence of a sound machine; anything else rolls alone.
static bool in_step(const pf_plant_class *c, const pf_roll *roll, const pf_trace *trace)
{
    return c->lanes && roll->policy < 0 && roll->n_faults == 0 && roll->rows > 0 && !trace->score &&
           c->info.n_chan <= PF_NATIVE_STATE;
}

// Whether a lane has the random numbers of the one before it: lanes of a key often stand together.
static bool as_before(const tile *t, int l)
{
    const pf_roll *roll = t->lane[l].roll, *before = l > 0 ? t->lane[l - 1].roll : NULL;
    return before && before->key == roll->key && before->rows >= roll->rows;
}

static void begin_lane(tile *t, int l)
{
    const pf_plant_info *info = &t->class->info;
    lane *own = &t->lane[l];
    const lane *before = l > 0 ? own - 1 : own;
    run s = {.class = t->class, .knob = t->knob, .roll = own->roll, .trace = own->trace};
    s.u = s.own;
    begin(&s);
    pf__lane_put(info->n_state, l, s.x, t->x);
    pf__lane_put(info->n_mech, l, s.gains, t->gains);
    pf__lane_put(info->n_mech, l, s.own, t->u);
    pf__lane_put(t->class->n_wind, l, s.w, t->w);
    own->wind = s.wind;
    own->noise = s.noise;
    own->wind_of = own->roll->disturbance ? l : -1;
    own->noise_of = own->roll->sensor_noise > 0 && own->trace->output ? l : -1;
    if (own->wind_of >= 0 && as_before(t, l) && before->wind_of >= 0) {
        own->wind_of = before->wind_of;
    }
    if (own->noise_of >= 0 && as_before(t, l) && before->noise_of >= 0 && !t->class->noise) {
        own->noise_of = before->noise_of;
    }
}

// What fills up the last vector is the first machine again, which nobody looks at.
static void fill_up(tile *t)
{
    double *all[] = {t->x, t->u, t->gains, t->w};
    const pf_plant_info *info = &t->class->info;
    int sizes[] = {info->n_state, info->n_mech, info->n_mech, t->class->n_wind};
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < sizes[k]; i++) {
            for (int l = t->n; l < t->wide; l++) {
                all[k][i * PF_LANES + l] = all[k][i * PF_LANES];
            }
        }
    }
}

// Disturbance and command of a row.
static void drive_lane(tile *t, int l, int row)
{
    const pf_plant_class *c = t->class;
    lane *own = &t->lane[l];
    double w[PF_NATIVE_WIND];
    for (int i = 0; i < c->n_wind && own->wind_of >= 0; i++) {
        w[i] = t->w[i * PF_LANES + own->wind_of];
    }
    if (own->wind_of == l) {
        draw_wind(c, 1, &own->wind, row == 0, w);
    }
    if (own->wind_of >= 0) {
        pf__lane_put(c->n_wind, l, w, t->w);
    }
    pf__lane_put(c->info.n_mech, l, own->roll->command + (size_t)row * (size_t)c->info.n_mech,
                 t->u);
}

// Only an exponent of all ones carries into the sign bit.
static bool finite_lanes(const tile *t)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52, last = UINT64_C(1) << 52;
    uint64_t seen = 0;
    for (int i = 0; i < t->class->info.n_state; i++) {
        for (int l = 0; l < t->wide; l++) {
            uint64_t bits;
            memcpy(&bits, &t->x[i * PF_LANES + l], sizeof bits);
            seen |= (bits & exponent) + last;
        }
    }
    return seen >> 63 == 0;
}

static void record_lane(tile *t, int l, int row)
{
    const pf_plant_class *c = t->class;
    lane *own = &t->lane[l];
    int n_state = c->info.n_state, n_chan = c->info.n_chan;
    double *x = own->trace->state, *y = own->trace->output, factor = own->roll->sensor_noise;
    for (int i = 0; x && i < n_state; i++) {
        x[(size_t)row * (size_t)n_state + (size_t)i] = t->x[i * PF_LANES + l];
    }
    if (!y) {
        return;
    }
    y += (size_t)row * (size_t)n_chan;
    if (factor > 0 && c->noise) {
        factor *= c->noise(own->roll->command + (size_t)row * (size_t)c->info.n_mech);
    }
    for (int i = 0; i < n_chan; i++) {
        y[i] = t->y[i * PF_LANES + l];
        if (factor > 0) {
            double *e = &t->e[i * PF_LANES + own->noise_of];
            *e = own->noise_of == l ? pf_rng_normal(&own->noise) : *e;
            y[i] += factor * c->info.channels[i].noise_sd * *e;
        }
    }
}

// False: a state is not finite; whoever rolls one after the other learns which.
static bool roll_tile(tile *t)
{
    const pf_plant_class *c = t->class;
    int rows = 0;
    t->wide = (t->n + PF_LANES_ALIGN - 1) / PF_LANES_ALIGN * PF_LANES_ALIGN;
    for (int l = 0; l < t->n; l++) {
        begin_lane(t, l);
        rows = t->lane[l].roll->rows > rows ? t->lane[l].roll->rows : rows;
    }
    for (int r = 0; r < rows; r++) {
        // a machine that is done goes on as it is, and nobody looks at it either
        for (int l = 0; l < t->n; l++) {
            if (r < t->lane[l].roll->rows) {
                drive_lane(t, l, r);
            }
        }
        if (r == 0) {
            fill_up(t);
        }
        c->lanes->step(t->wide, t->knob, t->x, t->u, t->gains, t->w);
        if (!finite_lanes(t)) {
            return false;
        }
        c->lanes->output(t->wide, t->knob, t->x, t->u, t->gains, t->w, t->y);
        for (int l = 0; l < t->n; l++) {
            if (r < t->lane[l].roll->rows) {
                record_lane(t, l, r);
            }
        }
    }
    return true;
}

pf_status pf__native_roll_many(const pf_plant_class *c, const double *knob, int n,
                               const pf_roll *rolls, const pf_trace *traces, pf_error *error)
{
    pf_status status = PF_OK;
    tile t;
    for (int from = 0; from < n && status == PF_OK;) {
        t.class = c;
        t.knob = knob;
        t.n = 0;
        while (from + t.n < n && t.n < PF_LANES &&
               in_step(c, &rolls[from + t.n], &traces[from + t.n])) {
            t.lane[t.n] = (lane){.roll = &rolls[from + t.n], .trace = &traces[from + t.n]};
            t.n++;
        }
        int alone = t.n == 0 ? 1 : t.n;
        bool done = t.n >= LEAST_LANES && roll_tile(&t);
        for (int i = 0; i < alone && !done && status == PF_OK; i++) {
            status = pf__native_roll(c, knob, &rolls[from + i], &traces[from + i], error);
        }
        from += alone;
    }
    return status;
}
