// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "design_impl.h"
#include "core/score.h"

#include <math.h>
#include <string.h>

// Random commands whose nominal residuals are looked at, and how often each: a twin is quick.
enum { NOISE_COMMANDS = 40, TWIN_REPEATS = 10, MODEL_REPEATS = 5 };

// As in calibration: a residual scale is never less than this share of the pulse scale.
static const double least_share = 1e-3;

pf_key pf__design_key(const pf_design_job *job, uint64_t index, uint64_t stream)
{
    return pf_key_stream(job->plan->settings.seed, job->plan->environment, index, PF_PURPOSE_DESIGN,
                         stream);
}

double pf__design_charge(const pf_plan *plan)
{
    for (int q = 0; q < plan->n_probes; q++) {
        if (plan->probes[q].n_targets == 1) {
            return plan->probes[q].charge / plan->probes[q].rows;
        }
    }
    return .01;
}

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_ERR_MEMORY, "out of memory for the design");
}

// A probe that commands nothing; kits want a target all the same.
static bool make_still(pf_study *s, int rows, pf_plan_probe *probe)
{
    double *command =
        pf__arena_take(&s->arena, (size_t)rows * (size_t)s->plan.n_mech, sizeof *command);
    int *target = pf__arena_take(&s->arena, 1, sizeof *target);
    if (!command || !target) {
        return false;
    }
    *target = 1;
    *probe = (pf_plan_probe){"still", rows, command, .01 * rows, 1, target, NULL};
    return true;
}

static void copy_scales(pf_study *s, const pf_design_job *job)
{
    pf_kit_build *b = &s->c.build;
    size_t chan = (size_t)s->plan.n_chan;
    memcpy(b->return_scale, job->return_scale, chan * sizeof(double));
    for (int r = 0; r < b->kit.n_scale; r++) {
        int from = r < job->n_scale ? r : job->n_scale - 1;
        memcpy(b->scale + (size_t)r * chan, job->scale + (size_t)from * chan,
               chan * sizeof(double));
    }
}

pf_status pf__study_open(pf_study *s, const pf_design_job *job, int n, const pf_plan_probe *probes,
                         bool still, bool own_scales, pf_error *error)
{
    memset(s, 0, sizeof *s);
    s->plan = *job->plan;
    s->plan.config = NULL;
    s->plan.memory = NULL;
    pf_plan_probe *list = pf__arena_take(&s->arena, (size_t)n + 1, sizeof *list);
    if (!list || !make_still(s, job->rows, &list[n])) {
        return no_memory(error);
    }
    memcpy(list, probes, (size_t)n * sizeof *list);
    s->plan.probes = list;
    s->plan.n_probes = n + still;
    s->c = (pf_plant_source){.plan = &s->plan, .model = job->model, .effort = job->effort};
    pf_kit_kind kind = pf__plant_kind(&s->c, pf_plant_get_info(job->plant), PF_STATISTIC_MATCHED);
    kind.weighted = kind.weighted && own_scales; // weights are those of its probes, like the scales
    pf_status status = pf__plant_open(&s->c, job->plant, &kind, error);
    if (status == PF_OK && own_scales) {
        return pf__plant_scales(&s->c, error);
    }
    if (status == PF_OK) {
        copy_scales(s, job);
    }
    return status;
}

void pf__study_close(pf_study *s)
{
    pf__plant_free(&s->c);
    pf__arena_free(&s->arena);
}

pf_status pf__study_machine(pf_study *s, int worker, int q, int weak, pf_key key, pf_error *error)
{
    const pf_plan *plan = &s->plan;
    pf_worker *w = &s->c.workers[worker];
    for (int j = 0; j < plan->n_mech; j++) {
        w->gains[j] = j == weak && j > 0 ? plan->settings.g_cal : 1;
    }
    return pf__plant_run(&s->c, worker, q, w->gains, key, error);
}

pf_status pf__study_rest(pf_study *s, int worker, int still, pf_key key, double *start,
                         size_t window, double *response, pf_error *error)
{
    const pf_worker *w = &s->c.workers[worker];
    pf_status status = pf__study_machine(s, worker, still, 0, key, error);
    status = status ? status : pf__study_predict(s, worker, still, w->start, false, error);
    if (status == PF_OK) {
        memcpy(start, w->start, (size_t)s->c.build.kit.n_state * sizeof(double));
        memcpy(response, w->nominal, window * sizeof(double));
    }
    return status;
}

static bool all_finite(size_t n, const double *values)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

pf_status pf__study_predict(pf_study *s, int worker, int q, const double *start, bool signatures,
                            pf_error *error)
{
    pf__evidence e = pf__worker_evidence(&s->c, worker, q);
    e.start = start;
    pf_status status = signatures ? pf__evidence_signatures(&e, error)
                                  : pf__evidence_predict(&e, 0, 1, e.nominal, error);
    if (status != PF_OK) {
        return status;
    }
    size_t window = (size_t)e.rows * (size_t)e.n_chan, targets = (size_t)e.n_targets;
    bool finite = all_finite(window, e.nominal) &&
                  (!signatures || all_finite(targets * window, e.signatures));
    for (size_t t = 0; t < targets && finite && signatures && e.whiten; t++) {
        pf__whiten((int)window, e.whiten, e.signatures + t * window);
    }
    return finite
               ? PF_OK
               : pf_fail(error, PF_ERR_NONFINITE, "what is predicted for probe '%s' is not finite",
                         s->plan.probes[q].name);
}

void pf__study_match(pf_study *s, int worker, int q, pf_match *out)
{
    pf__evidence e = pf__worker_evidence(&s->c, worker, q);
    pf__evidence_residual(&e, e.residual);
    if (e.whiten) {
        pf__whiten(e.rows * e.n_chan, e.whiten, e.residual);
    }
    if (out) {
        pf__evidence_match(&e, out);
    }
}

// --- nominal residuals

// A random command that the constraints allow: as many mechanisms as may act together.
static void random_command(const pf_design_job *job, uint64_t index, double *command, int *target)
{
    const pf_design_config *c = job->config;
    int order[PF_MECH_MAX], level[PF_DESIGN_STEPS], chosen[PF_MECH_MAX], n = 0;
    pf_rng rng;
    pf_rng_init(&rng, pf__design_key(job, index, PF_STREAM_DRAW));
    for (int j = 1; j < c->n_mech; j++) {
        int at = (int)pf_rng_below(&rng, (uint32_t)j);
        order[j - 1] = order[at];
        order[at] = j;
    }
    for (int i = 0; i < c->n_mech - 1 && n < c->at_once; i++) {
        int j = order[i];
        bool fits = true;
        for (int k = 0; k < n; k++) {
            fits = fits && !c->apart[j * c->n_mech + chosen[k]];
        }
        if (!fits) {
            continue;
        }
        chosen[n++] = j;
        pf__design_random_waveform(c, &job->levels[j], &rng, level);
        for (int r = 0; r < c->steps; r++) {
            command[r * c->n_mech + j] = pf__design_command(&job->levels[j], level[r]);
        }
    }
    *target = chosen[0];
}

static bool noise_probes(pf_design_job *job, pf_arena *arena, pf_plan_probe *probes)
{
    for (int q = 0; q < NOISE_COMMANDS; q++) {
        double *command =
            pf__arena_take(arena, (size_t)job->rows * (size_t)job->plan->n_mech, sizeof *command);
        int *target = pf__arena_take(arena, 1, sizeof *target);
        if (!command || !target) {
            return false;
        }
        random_command(job, (uint64_t)q, command, target);
        probes[q] = (pf_plan_probe){"noise", job->rows, command, 1, 1, target, NULL};
    }
    return true;
}

typedef struct noise_work {
    pf_design_job *job;
    pf_study *study;
} noise_work;

static pf_status run_noise(void *self, int worker, size_t item, pf_error *error)
{
    noise_work *n = self;
    size_t window = (size_t)n->job->rows * (size_t)n->job->plan->n_chan;
    int q = (int)item % NOISE_COMMANDS;
    pf_status status = pf__study_machine(n->study, worker, q, 0,
                                         pf__design_key(n->job, item, PF_STREAM_NOISE), error);
    status = status ? status
                    : pf__study_predict(n->study, worker, q, n->study->c.workers[worker].start,
                                        false, error);
    if (status == PF_OK) {
        pf__study_match(n->study, worker, q, NULL);
        memcpy(n->job->residuals + item * window, n->study->c.workers[worker].response,
               window * sizeof(double));
    }
    return status;
}

static int noise_slots(void *self, size_t item, pf_slot *slots)
{
    noise_work *n = self;
    size_t window = (size_t)n->job->rows * (size_t)n->job->plan->n_chan;
    slots[0] =
        (pf_slot){.data = n->job->residuals + item * window, .size = window * sizeof(double)};
    return 1;
}

// Under `residual` the scale of a library with both kinds of probes is between theirs: the rms
// over the single pulses and one group probe, as calibration would weigh them.
static void blend_scales(pf_design_job *job)
{
    size_t chan = (size_t)job->plan->n_chan, window = (size_t)job->n_scale * chan;
    double singles = job->config->with_singles ? job->plan->n_mech - 1 : 0;
    for (size_t i = 0; i < window; i++) {
        double sum = 0;
        for (int e = 0; e < job->n_residuals; e++) {
            double r = job->residuals[(size_t)e * window + i];
            sum += r * r / job->n_residuals;
        }
        double ratio = sqrt((singles + sum) / (singles + 1));
        ratio = fmax(ratio, least_share * job->return_scale[i % chan] / job->scale[i]);
        job->scale[i] *= ratio;
        for (int e = 0; e < job->n_residuals; e++) {
            job->residuals[(size_t)e * window + i] /= ratio;
        }
    }
}

// Residuals about the mean of their own command: what a learned model gets wrong every time a probe
// is run moves the centre of its coefficient, not its spread.
static pf_status centre(pf_design_job *job, pf_error *error)
{
    size_t window = (size_t)job->rows * (size_t)job->plan->n_chan;
    int repeats = job->n_residuals / NOISE_COMMANDS;
    double whole = 0;
    job->freedom = job->n_residuals - NOISE_COMMANDS;
    for (size_t i = 0; i < window; i++) {
        double sum = 0;
        for (int q = 0; q < NOISE_COMMANDS; q++) {
            double mean = 0;
            for (int e = q; e < job->n_residuals; e += NOISE_COMMANDS) {
                mean += job->residuals[(size_t)e * window + i] / repeats;
            }
            for (int e = q; e < job->n_residuals; e += NOISE_COMMANDS) {
                double *r = &job->residuals[(size_t)e * window + i];
                whole += fabs(*r);
                *r -= mean;
                sum += *r * *r;
            }
        }
        job->variance[i] = sum / job->freedom;
    }
    if (whole == 0) {
        return pf_fail(error, PF_ERR_DEGENERATE,
                       "nominal responses equal the prediction to the last bit: there is no noise "
                       "to design against; set sensor_noise (for example .25)");
    }
    return PF_OK;
}

// How much the correlations are shrunk towards none (Schaefer and Strimmer 2005): their estimated
// variance over their squares.
static double find_shrink(const pf_design_job *job)
{
    int n = job->n_residuals, window = job->rows * job->plan->n_chan;
    double spread = 0, squares = 0;
    for (int i = 0; i < window; i++) {
        for (int k = 0; k < i; k++) {
            double size = sqrt(job->variance[i] * job->variance[k]);
            if (!(size > 0)) {
                continue;
            }
            double mean = 0, second = 0;
            for (int e = 0; e < n; e++) {
                const double *r = job->residuals + (size_t)e * (size_t)window;
                double w = r[i] * r[k] / size;
                mean += w;
                second += w * w;
            }
            mean /= n;
            spread += (second / n - mean * mean) / (n - 1);
            squares += mean * mean;
        }
    }
    double shrink = squares > 0 ? spread / squares : 1;
    return shrink < 0 ? 0 : shrink > 1 ? 1 : shrink;
}

static pf_status single_scales(pf_design_job *job, pf_error *error)
{
    const pf_plan *plan = job->plan;
    pf_study s;
    pf_status status = pf__study_open(&s, job, plan->n_probes, plan->probes, false, true, error);
    size_t chan = (size_t)plan->n_chan;
    if (status == PF_OK) {
        const pf_kit *k = &s.c.build.kit;
        job->n_scale = pf__plant_residual(&s.c) ? job->rows : 1;
        job->scale = pf__arena_take(&job->arena, (size_t)job->n_scale * chan, sizeof(double));
        job->return_scale = pf__arena_take(&job->arena, chan, sizeof(double));
        status = job->arena.failed ? no_memory(error) : PF_OK;
        for (int r = 0; r < job->n_scale && status == PF_OK; r++) {
            int from = r < k->n_scale ? r : k->n_scale - 1;
            memcpy(job->scale + (size_t)r * chan, k->scale + (size_t)from * chan,
                   chan * sizeof(double));
        }
        if (status == PF_OK) {
            memcpy(job->return_scale, k->return_scale, chan * sizeof(double));
        }
    }
    pf__study_close(&s);
    return status;
}

// Rows of trajectories that a design runs: sensitivities, and the confirmation of one probe for
// all and of the single pulses, where families are compared of those and of two more libraries. A
// search that needs several probes or divisions takes longer.
static double rows_of(const pf_design_job *job, int episodes)
{
    double n = job->config->n_mech - 1, impulses = 4 * n * job->config->steps * 2 * 2;
    double group = 2 + 1.4 * n, singles = n * 3.4, families = job->config->compare ? 2 : 0;
    double own = group + (job->config->with_singles ? singles : 0);
    double confirmed = own + (job->config->compare ? singles : 0) + families * group;
    return job->rows * (2.0 * job->n_residuals + impulses + confirmed * episodes);
}

// The first residuals tell how long the design takes at least.
static void say_time(void *self, size_t first, size_t n, double seconds)
{
    enum { FEW = 30 };
    (void)first;
    const pf_design_job *job = self;
    double row = seconds / (2.0 * job->rows * (double)n);
    pf_estimate estimate = {.what = "design",
                            .seconds = row * rows_of(job, job->config->episodes),
                            .seconds_then = row * rows_of(job, FEW)};
    if (estimate.seconds_then < .8 * estimate.seconds) {
        estimate.setting = "design.episodes=30";
    }
    job->effort->estimate(job->effort->self, &estimate);
}

pf_status pf__study_noise(pf_design_job *job, pf_error *error)
{
    pf_status status = single_scales(job, error);
    if (status != PF_OK) {
        return status;
    }
    size_t window = (size_t)job->rows * (size_t)job->plan->n_chan;
    job->n_residuals = NOISE_COMMANDS * (job->model ? MODEL_REPEATS : TWIN_REPEATS);
    job->residuals = pf__arena_take(&job->arena, (size_t)job->n_residuals * window, sizeof(double));
    job->variance = pf__arena_take(&job->arena, window, sizeof(double));
    pf_plan_probe probes[NOISE_COMMANDS];
    if (job->arena.failed || !noise_probes(job, &job->arena, probes)) {
        return no_memory(error);
    }
    pf_study s;
    status = pf__study_open(&s, job, NOISE_COMMANDS, probes, false, false, error);
    if (status == PF_OK) {
        noise_work work = {job, &s};
        pf_timing timing = {.effort = job->effort, .self = job, .say = say_time};
        pf_effort effort = pf__timed(&timing);
        status = pf__parallel_kept(&effort, s.c.n_workers, (size_t)job->n_residuals, run_noise,
                                   noise_slots, &work, "residuals", error);
    }
    pf__study_close(&s);
    if (status == PF_OK && job->n_scale > 1) {
        blend_scales(job);
    }
    status = status ? status : centre(job, error);
    if (status == PF_OK) {
        job->shrink = job->n_residuals >= 2 * (int)window ? 0 : find_shrink(job);
    }
    return status;
}

void pf__study_covariance(const pf_design_job *job, int n, int window, const double *signatures,
                          double *projections, double *noise)
{
    size_t whole = (size_t)job->rows * (size_t)job->plan->n_chan, size = (size_t)window;
    int e_n = job->n_residuals;
    for (int i = 0; i < n; i++) {
        for (int e = 0; e < e_n; e++) {
            projections[(size_t)i * (size_t)e_n + (size_t)e] =
                pf__dot(window, signatures + (size_t)i * size, job->residuals + (size_t)e * whole);
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) {
            noise[i * n + k] = noise[k * n + i] =
                pf__dot(e_n, projections + (size_t)i * (size_t)e_n,
                        projections + (size_t)k * (size_t)e_n) /
                job->freedom;
        }
    }
}
