// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "trial.h"
#include "plant/plant_impl.h"
#include "core/belief.h"
#include "core/score.h"

#include "calibrate/fit.h"
#include "core/evidence.h"
#include "core/joint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- what a response says of a known model

enum { GRID = 17, BINS = 5, ROWS = 8, CHANNELS = 6, N = ROWS * CHANNELS, N_MECH = 8 };
enum { CENTRES = 60, CHANNEL_EPISODES = 120, COVARIANCE_EPISODES = 1500 };

// The paper's fixed dispersion of the coordinate on compact plants.
static const double sigma = .06;
static const double g_cal = .35;

typedef struct study {
    uint64_t seed;
    pf_plant *plant; // the physics
    pf_plant *twin;  // what predicts; mismatched in one study
    double noise;    // multiple of the sensor noise
    double grid[GRID];
    double centre_nominal, centre_changed;
    double edges[BINS - 1];
    double channel[GRID][BINS]; // p(c | g)
    double factor[N * N];       // Cholesky factor of the residual covariance
    double expected[GRID];
    bool recentre;
} study;

const char *const *pf_mechanism_arms(void)
{
    static const char *const names[PF_ARMS] = {"transport", "category", "bayes"};
    return names;
}

static pf_status set_up(study *s, const char *setting, pf_error *error)
{
    char knob[64] = "";
    int at = 0;
    sscanf(setting, "knob=%63[a-z_];value=%n", knob, &at);
    char *end = NULL;
    double value = at > 0 ? pf__number_read(setting + at, &end) : 0;
    if (at == 0 || end == setting + at) {
        return pf_fail(error, PF_ERR_ARGUMENT, "setting '%s' is not knob=NAME;value=X", setting);
    }
    pf_status status = pf_plant_create(&s->plant, "attitude", error);
    status = status ? status : pf_plant_create(&s->twin, "attitude", error);
    if (status != PF_OK) {
        return status;
    }
    s->noise = 1;
    s->recentre = true;
    for (int k = 0; k < GRID; k++) {
        s->grid[k] = .15 + .05 * k;
        s->expected[k] = pf__severity_line(s->grid[k], g_cal);
    }
    if (strcmp(knob, "none") == 0) {
        return PF_OK;
    }
    if (strcmp(knob, "noise") == 0) {
        s->noise = value;
        return value > 0 ? PF_OK : pf_fail(error, PF_ERR_ARGUMENT, "noise must be positive");
    }
    if (strncmp(knob, "mismatch", 8) == 0) {
        s->recentre = strcmp(knob, "mismatch_recentred") == 0;
        return pf_plant_set_knob(s->twin, "thrust", 1 + value, error);
    }
    status = pf_plant_set_knob(s->plant, knob, value, error);
    return status == PF_OK ? pf_plant_set_knob(s->twin, knob, value, error) : status;
}

// --- responses

static pf_status roll(pf_plant *plant, int mechanism, double gain, pf_roll *roll_, double *out,
                      double *start, pf_error *error)
{
    double command[ROWS * N_MECH], gains[N_MECH];
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf__pulse_command(info->probe, N_MECH, mechanism, command);
    for (int j = 0; j < N_MECH; j++) {
        gains[j] = j == mechanism ? gain : 1;
    }
    roll_->command = command;
    roll_->rows = ROWS;
    roll_->gains = gains;
    pf_status status =
        pf_plant_roll(plant, roll_, &(pf_trace){.start = start, .output = out}, error);
    for (int i = 0; i < N; i++) {
        out[i] /= info->channels[i % CHANNELS].scale;
    }
    return status;
}

// A physical response, scaled, and where it started.
static pf_status observe(study *s, int mechanism, double gain, pf_purpose purpose, int index,
                         double *x, double *start, pf_error *error)
{
    pf_roll r = pf_roll_default();
    r.key =
        pf_key_stream(s->seed, "attitude", (uint64_t)index, purpose, (uint64_t)lround(1e3 * gain));
    r.disturbance = true;
    r.sensor_noise = s->noise;
    return roll(s->plant, mechanism, gain, &r, x, start, error);
}

static pf_status predict(pf_plant *plant, int mechanism, double gain, const double *start,
                         double *x, pf_error *error)
{
    pf_roll r = pf_roll_default();
    r.start = start;
    return roll(plant, mechanism, gain, &r, x, NULL, error);
}

// The pulse of mechanism h->probe on the twin.
static pf_status predict_twin(void *self, const pf_hypothesis *h, const double *start, int n_start,
                              double *x, pf_error *error)
{
    (void)n_start;
    return predict(self, h->probe, h->gain, start, x, error);
}

// Score and coefficient of a response with the twin's signature.
static pf_status match(study *s, int mechanism, const double *x, const double *start, pf_match *out,
                       pf_error *error)
{
    static const double scale[CHANNELS] = {1, 1, 1, 1, 1, 1}; // responses are scaled already
    double nominal[N], predicted[N], signature[N], residual[N];
    int32_t target = mechanism;
    pf__evidence e = {.probe = mechanism,
                      .rows = ROWS,
                      .n_chan = CHANNELS,
                      .n_targets = 1,
                      .targets = &target,
                      .g_cal = g_cal,
                      .scale = scale,
                      .n_scale = 1,
                      .predictor = {s->twin, predict_twin, NULL},
                      .start = start,
                      .nominal = nominal,
                      .predicted = predicted,
                      .residual = residual,
                      .signatures = signature};
    return pf__evidence_read(&e, x, out, error);
}

static pf_status collect(study *s, double gain, int n, int first, double *score,
                         double *coefficient, pf_error *error)
{
    double x[N], start[N_MECH];
    for (int i = 0; i < n; i++) {
        int mechanism = 1 + i % (N_MECH - 1);
        pf_match m;
        pf_status status =
            observe(s, mechanism, gain, PF_PURPOSE_CALIBRATION, first + i, x, start, error);
        status = status ? status : match(s, mechanism, x, start, &m, error);
        if (status != PF_OK) {
            return status;
        }
        score[i] = m.score;
        coefficient[i] = m.coefficient;
    }
    return PF_OK;
}

// --- calibration: centres, bins, p(c | g), covariance of the residuals

static pf_status fit_channel(study *s, pf_error *error)
{
    double nominal[CENTRES], fault[CENTRES], b0[CENTRES], b1[CENTRES], scratch[2 * CENTRES];
    pf_status status = collect(s, 1, CENTRES, 0, nominal, b0, error);
    status = status ? status : collect(s, g_cal, CENTRES, 0, fault, b1, error);
    if (status != PF_OK) {
        return status;
    }
    s->centre_nominal = s->recentre ? pf__fit_median(CENTRES, b0, scratch) : 0;
    s->centre_changed = s->recentre ? pf__fit_median(CENTRES, b1, scratch) : 1;
    pf__fit_edges(CENTRES, nominal, CENTRES, fault, BINS, s->edges, scratch);
    for (int k = 0; k < GRID && status == PF_OK; k++) {
        double score[CHANNEL_EPISODES], b[CHANNEL_EPISODES];
        status = collect(s, s->grid[k], CHANNEL_EPISODES, 1000, score, b, error);
        pf__fit_row(CHANNEL_EPISODES, score, BINS, s->edges, s->channel[k]);
    }
    return status;
}

static bool factorise(double *c)
{
    for (int i = 0; i < N; i++) {
        for (int k = 0; k <= i; k++) {
            double sum = c[i * N + k];
            for (int p = 0; p < k; p++) {
                sum -= c[i * N + p] * c[k * N + p];
            }
            if (i == k && !(sum > 0)) {
                return false;
            }
            c[i * N + k] = i == k ? sqrt(sum) : sum / c[k * N + k];
        }
    }
    return true;
}

// The disturbance enters linearly, so one covariance serves every gain.
static pf_status fit_covariance(study *s, pf_error *error)
{
    double x[N], mean[N], start[N_MECH];
    memset(s->factor, 0, sizeof s->factor);
    for (int e = 0; e < COVARIANCE_EPISODES; e++) {
        pf_status status = observe(s, 1, 1, PF_PURPOSE_THRESHOLD, e, x, start, error);
        status = status ? status : predict(s->plant, 1, 1, start, mean, error);
        if (status != PF_OK) {
            return status;
        }
        for (int i = 0; i < N; i++) {
            for (int k = 0; k <= i; k++) {
                s->factor[i * N + k] += (x[i] - mean[i]) * (x[k] - mean[k]) / COVARIANCE_EPISODES;
            }
        }
    }
    return factorise(s->factor) ? PF_OK
                                : pf_fail(error, PF_ERR_INTERNAL, "the covariance is singular");
}

// Minus twice the log likelihood of a residual, up to a constant.
static double mahalanobis(const study *s, const double *r)
{
    double y[N], sum = 0;
    for (int i = 0; i < N; i++) {
        y[i] = r[i];
        for (int k = 0; k < i; k++) {
            y[i] -= s->factor[i * N + k] * y[k];
        }
        y[i] /= s->factor[i * N + i];
        sum += y[i] * y[i];
    }
    return sum;
}

// --- the arms

static pf_status bayes(study *s, int mechanism, const double *x, const double *start,
                       double *posterior, pf_error *error)
{
    double distance[GRID], least = INFINITY, sum = 0;
    for (int k = 0; k < GRID; k++) {
        double mean[N];
        pf_status status = predict(s->plant, mechanism, s->grid[k], start, mean, error);
        if (status != PF_OK) {
            return status;
        }
        for (int i = 0; i < N; i++) {
            mean[i] = x[i] - mean[i];
        }
        distance[k] = mahalanobis(s, mean);
        least = fmin(least, distance[k]);
    }
    for (int k = 0; k < GRID; k++) {
        posterior[k] = exp(-.5 * (distance[k] - least));
        sum += posterior[k];
    }
    for (int k = 0; k < GRID; k++) {
        posterior[k] /= sum;
    }
    return PF_OK;
}

static void from_category(const study *s, double score, double *posterior)
{
    pf_channel_row row = {BINS, s->edges, s->channel[0], s->channel[0]};
    int c = pf__channel_category(&row, score);
    double sum = 0;
    for (int k = 0; k < GRID; k++) {
        sum += posterior[k] = s->channel[k][c];
    }
    for (int k = 0; k < GRID; k++) {
        posterior[k] /= sum;
    }
}

static void add_scores(const study *s, double *posterior, int truth, double weight, double *value)
{
    pf_joint joint = {
        .m = 1, .n_grid = GRID, .grid = s->grid, .mass = posterior, .faults = PF_FAULTS_ONE};
    double lo, hi, g = s->grid[truth];
    pf_joint_interval(&joint, 1, &lo, &hi);
    value[PF_METRIC_gain_mae] += weight * fabs(pf_joint_moments(&joint, 1).mean - g);
    value[PF_METRIC_crps] += weight * pf__joint_crps(&joint, 1, g);
    value[PF_METRIC_coverage] += weight * pf__interval_covers(lo, hi, g);
    // log2 of the mass on the truth against the uniform prior: bits recovered, floored at 2^-20
    value[PF_METRIC_log_score] += weight * log2(fmax(posterior[truth], 0x1p-20) * GRID);
}

static pf_status score_gain(study *s, int truth, int responses, pf_trial_result *results,
                            pf_error *error)
{
    double weight = 1.0 / (responses * GRID);
    for (int i = 0; i < responses; i++) {
        double x[N], start[N_MECH], posterior[PF_ARMS][GRID];
        int mechanism = 1 + i % (N_MECH - 1);
        pf_match m;
        pf_status status =
            observe(s, mechanism, s->grid[truth], PF_PURPOSE_EVALUATION, i, x, start, error);
        status = status ? status : match(s, mechanism, x, start, &m, error);
        status = status ? status : bayes(s, mechanism, x, start, posterior[PF_ARM_BAYES], error);
        if (status != PF_OK) {
            return status;
        }
        pf__severity_reset(GRID, posterior[PF_ARM_TRANSPORT]);
        pf__severity_update(GRID, posterior[PF_ARM_TRANSPORT], s->expected,
                            pf__coordinate(m.coefficient, s->centre_nominal, s->centre_changed),
                            sigma * s->noise);
        from_category(s, m.score, posterior[PF_ARM_CATEGORY]);
        for (int arm = 0; arm < PF_ARMS; arm++) {
            add_scores(s, posterior[arm], truth, weight, results[arm].value);
        }
    }
    return PF_OK;
}

pf_status pf__mechanism_run(const char *setting, uint64_t seed, int responses,
                            pf_trial_result results[PF_ARMS], pf_error *error)
{
    static const int used[] = {PF_METRIC_gain_mae, PF_METRIC_crps, PF_METRIC_coverage,
                               PF_METRIC_log_score};
    for (int arm = 0; arm < PF_ARMS; arm++) {
        pf__trial_clear(results[arm].value, sizeof used / sizeof used[0], used);
    }
    study *s = calloc(1, sizeof *s);
    if (!s) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the mechanism study");
    }
    s->seed = seed;
    pf_status status = set_up(s, setting, error);
    status = status ? status : fit_channel(s, error);
    status = status ? status : fit_covariance(s, error);
    for (int k = 0; k < GRID && status == PF_OK; k++) {
        status = score_gain(s, k, responses, results, error);
    }
    pf_plant_destroy(s->plant);
    pf_plant_destroy(s->twin);
    free(s);
    return status;
}

// --- the transported coordinate

const char *const *pf_coordinate_arms(void)
{
    static const char *const names[PF_COORDINATE_ARMS] = {
        "all",         "mechanism-1", "mechanism-2", "mechanism-3", "mechanism-4",
        "mechanism-5", "mechanism-6", "mechanism-7", "mechanism-8"};
    return names;
}

// Mean and spread of z: within a mechanism, so that the pooled spread holds no bias between them.
typedef struct spread {
    double mean, sd;
} spread;

static pf_status measure(pf_responses *responses, const pf_kit *kit, uint64_t seed, double gain,
                         int probe, int episodes, spread *out, pf_error *error)
{
    const int32_t *targets = NULL;
    pf_kit_probe_targets(kit, probe, &targets);
    int mechanism = targets[0];
    double sum = 0, square = 0;
    for (int i = 0; i < episodes; i++) {
        const pf_stage1_answer *e = NULL;
        pf__responses_start(responses, seed, (uint64_t)i, PF_PURPOSE_EVALUATION, 1, &mechanism,
                            &gain);
        pf_status status = pf__responses_stage1(responses, 0, probe, true, &e, error);
        if (status != PF_OK) {
            return status;
        }
        double z = pf__evidence_coordinate(kit, probe, 0, &e->match[0]);
        sum += z;
        square += z * z;
    }
    out->mean = sum / episodes;
    out->sd = sqrt(fmax(square / episodes - out->mean * out->mean, 0) * episodes /
                   (episodes > 1 ? episodes - 1 : 1));
    return PF_OK;
}

static void put_spread(pf_trial_result *result, double mean, double sd, double ideal)
{
    result->value[PF_METRIC_coordinate] = mean;
    result->value[PF_METRIC_coordinate_bias] = mean - ideal;
    result->value[PF_METRIC_coordinate_sd] = sd;
    result->value[PF_METRIC_noise_to_signal] = sd / ideal;
}

pf_status pf__coordinate_run(pf_responses *responses, const pf_kit *kit, uint64_t seed, double gain,
                             int episodes, pf_trial_result results[PF_COORDINATE_ARMS],
                             pf_error *error)
{
    pf_kit_info k = pf_kit_get_info(kit);
    double mean = 0, variance = 0, ideal = pf__severity_line(gain, k.g_cal);
    for (int arm = 0; arm < PF_COORDINATE_ARMS; arm++) {
        pf__trial_clear(results[arm].value, 0, NULL);
    }
    for (int q = 0; q < k.n_probes; q++) {
        spread s;
        pf_status status = measure(responses, kit, seed, gain, q, episodes, &s, error);
        if (status != PF_OK) {
            return status;
        }
        if (q + 1 < PF_COORDINATE_ARMS) {
            put_spread(&results[q + 1], s.mean, s.sd, ideal);
        }
        mean += s.mean / k.n_probes;
        variance += s.sd * s.sd / k.n_probes;
    }
    put_spread(&results[0], mean, sqrt(variance), ideal);
    return PF_OK;
}
