// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "model/rollout.h"
#include "model/transitions.h"
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 32, CHANNELS = 16 };

// --- a predictor of our own: ordinary least squares of the change on [channels, commands, 1]

typedef struct straight {
    int n_chan, n_mech;
    double weight[INPUTS][CHANNELS];
} straight;

static void inputs_of(const straight *s, const double *x, const float *u, double *in)
{
    for (int c = 0; c < s->n_chan; c++) {
        in[c] = x[c];
    }
    for (int j = 0; j < s->n_mech; j++) {
        in[s->n_chan + j] = (double)u[j];
    }
    in[s->n_chan + s->n_mech] = 1;
}

// Gauss with the largest pivot; rows hold the right sides after their n numbers.
static void solve(int n, int n_right, double rows[INPUTS][INPUTS + CHANNELS])
{
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int r = k + 1; r < n; r++) {
            best = fabs(rows[r][k]) > fabs(rows[best][k]) ? r : best;
        }
        for (int i = 0; i < n + n_right; i++) {
            double kept = rows[k][i];
            rows[k][i] = rows[best][i];
            rows[best][i] = kept;
        }
        for (int r = 0; r < n; r++) {
            double factor = r == k ? 0 : rows[r][k] / rows[k][k];
            for (int i = k; i < n + n_right && r != k; i++) {
                rows[r][i] -= factor * rows[k][i];
            }
        }
    }
}

static straight fit(const pf_transitions *data)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    straight s = {.n_chan = info->n_chan, .n_mech = info->n_mech};
    static double rows[INPUTS][INPUTS + CHANNELS];
    int n = s.n_chan + s.n_mech + 1;
    memset(rows, 0, sizeof rows);
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(data, e, &x, &u);
        for (int t = 0; t < steps; t++, x += s.n_chan, u += s.n_mech) {
            double in[INPUTS];
            inputs_of(&s, x, u, in);
            for (int i = 0; i < n; i++) {
                for (int k = 0; k < n; k++) {
                    rows[i][k] += in[i] * in[k];
                }
                for (int c = 0; c < s.n_chan; c++) {
                    rows[i][n + c] += in[i] * (x[s.n_chan + c] - x[c]);
                }
            }
        }
    }
    solve(n, s.n_chan, rows);
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < s.n_chan; c++) {
            s.weight[i][c] = rows[i][n + c] / rows[i][i];
        }
    }
    return s;
}

static void step(const straight *s, const float *u, double *x)
{
    double in[INPUTS];
    inputs_of(s, x, u, in);
    for (int i = 0; i < s->n_chan + s->n_mech + 1; i++) {
        for (int c = 0; c < s->n_chan; c++) {
            x[c] += s->weight[i][c] * in[i];
        }
    }
}

// --- open loop, squared errors by channel

typedef struct errors {
    double model[CHANNELS], straight[CHANNELS], copy[CHANNELS];
} errors;

static void add_episode(const pf_model *m, const straight *s, int steps, const double *x,
                        const float *u, double *scratch, errors *sum)
{
    double state[CHANNELS], gains[INPUTS], command[20 * INPUTS], response[20 * CHANNELS];
    pf_error error = {PF_OK, ""};
    for (int j = 0; j < s->n_mech; j++) {
        gains[j] = 1;
    }
    for (int i = 0; i < steps * s->n_mech; i++) {
        command[i] = (double)u[i];
    }
    pf_model_request q = {x, command, steps, 1, gains, NULL};
    CHECK(pf__model_mean(m, &q, scratch, response, &error) == PF_OK);
    memcpy(state, x, (size_t)s->n_chan * sizeof *state);
    for (int t = 0; t < steps; t++) {
        step(s, u + t * s->n_mech, state);
        for (int c = 0; c < s->n_chan; c++) {
            double truth = x[(t + 1) * s->n_chan + c];
            sum->model[c] += pow(response[t * s->n_chan + c] - truth, 2);
            sum->straight[c] += pow(state[c] - truth, 2);
            sum->copy[c] += pow(x[c] - truth, 2);
        }
    }
}

static void check_open_loop(const char *plant, const pf_model *m, const pf_transitions *train,
                            const pf_transitions *fresh, double most)
{
    const pf_transitions_info *info = pf_transitions_get_info(fresh);
    straight s = fit(train);
    errors sum = {{0}, {0}, {0}};
    double *scratch =
        calloc(pf__model_scratch(m, 1) + (size_t)(20 * info->n_chan), sizeof *scratch);
    for (int e = 0; e < info->n_episodes; e++) {
        const double *x;
        const float *u;
        int steps = pf__transitions_episode(fresh, e, &x, &u);
        add_episode(m, &s, steps, x, u, scratch, &sum);
    }
    free(scratch);
    // every channel in units of how far it goes
    double model = 0, linear = 0;
    for (int c = 0; c < info->n_chan; c++) {
        model += sum.model[c] / sum.copy[c] / info->n_chan;
        linear += sum.straight[c] / sum.copy[c] / info->n_chan;
        CHECK(sum.model[c] < sum.copy[c]);
    }
    printf("    %s, open loop over 20 steps, rms error over that of copying: model %.5f, least "
           "squares %.5f, model over least squares %.3f\n",
           plant, sqrt(model), sqrt(linear), sqrt(model / linear));
    CHECK(model < .01);
    CHECK(sqrt(model / linear) < most);
}

// --- the assessment

static void check_assessment(const pf_model *m, pf_plant *plant)
{
    int n = pf_plant_get_info(plant)->n_mech - 1;
    pf_assessment a[INPUTS], b[INPUTS];
    pf_error error = {PF_OK, ""};
    pf_effort one = {.threads = 1}, two = {.threads = 2};
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    CHECK(pf_assess(m, plant, .35, 3, &one, a, &error) == PF_OK);
    CHECK(pf_assess(m, plant, .35, 3, &two, b, &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK(memcmp(a, b, (size_t)n * sizeof *a) == 0);
    const int *horizons = pf_assess_horizons();
    CHECK(horizons[0] == 1 && horizons[PF_ASSESS_HORIZONS - 1] == 12);
    for (int q = 0; q < n; q++) {
        CHECK(a[q].mechanism == q + 1);
        for (int h = 0; h < PF_ASSESS_HORIZONS; h++) {
            CHECK(isfinite(a[q].error[PF_ASSESS_PULSE][h]) &&
                  isfinite(a[q].error[PF_ASSESS_RESIDUAL][h]));
            CHECK(a[q].error[PF_ASSESS_PULSE][h] > 0 && isfinite(a[q].linear[h]));
            CHECK(a[q].error[PF_ASSESS_PULSE][h] < a[q].copy[h] && isfinite(a[q].copy[h]));
        }
        for (int s = 0; s < PF_ASSESS_SCALES; s++) {
            CHECK(isfinite(a[q].separation[s]));
        }
        CHECK(isfinite(a[q].spread) && a[q].spread > 0);
    }
    PF_CASE("assess: refuses a plant that the model is not of");
    pf_plant *other = NULL;
    CHECK(pf_plant_create(&other, n == 3 ? "attitude" : "dc_servo", &error) == PF_OK);
    CHECK(pf_assess(m, other, .35, 3, &one, a, &error) == PF_ERR_MISMATCH);
    pf_plant_destroy(other);
}

void check_train_good(const char *name, double most)
{
    char label[120], file[256], path[256];
    pf_train_settings s = train_settings(150), other = s;
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_model *m = NULL;
    other.seed = 4711;
    snprintf(label, sizeof label,
             "train: %s in the open loop beats copying, %g of least squares at most", name, most);
    PF_CASE(label);
    train_path(file, "good.data");
    train_path(path, "fresh.data");
    pf_transitions *data = train_data(name, &s, file), *fresh = train_data(name, &other, path);
    train_path(path, "good.model");
    CHECK(pf_train(&s, data, path, 60, NULL, NULL, &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK(pf_plant_create(&plant, name, &error) == PF_OK);
    if (CHECK(pf_model_load(&m, path, &error) == PF_OK)) {
        CHECK(pf__model_fits(m, pf_plant_get_info(plant), &error) == PF_OK);
        CHECK_STR(pf_model_get_info(m)->data, pf_transitions_get_info(data)->sha256);
        check_open_loop(name, m, data, fresh, most);
        snprintf(label, sizeof label, "assess: %s has finite fields and beats copying", name);
        PF_CASE(label);
        check_assessment(m, plant);
    }
    pf_model_destroy(m);
    pf_plant_destroy(plant);
    pf_transitions_close(data);
    pf_transitions_close(fresh);
}

// --- a plant with a channel that never moves

static void reset_still(double *x, pf_rng *rng)
{
    x[0] = rng ? pf_rng_uniform(rng) : 0;
    x[1] = .1;
}

static void advance_still(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob;
    (void)w;
    x[0] += .1 * (v[0] + v[1]) - .05 * x[0];
}

static void output_still(const double *knob, const double *x, const double *v, const double *w,
                         double *y)
{
    (void)knob;
    (void)v;
    (void)w;
    y[0] = x[0];
    y[1] = x[1];
}

void check_train_constant(void)
{
    static const pf_mechanism mechanisms[] = {{"a", -1, 1}, {"b", -1, 1}};
    static const pf_channel channels[] = {{.name = "x"}, {.name = "still"}};
    const pf_plant_class still = {.info = {.name = "still",
                                           .title = "",
                                           .source = "",
                                           .n_mech = 2,
                                           .n_chan = 2,
                                           .n_state = 2,
                                           .mechanisms = mechanisms,
                                           .channels = channels},
                                  .reset = reset_still,
                                  .advance = advance_still,
                                  .output = output_still};
    char data_path[256], path[256];
    pf_train_settings s = train_settings(20);
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_transitions *data = NULL;
    pf_model *m = NULL;
    PF_CASE("train: a channel that never moved is not magnified when it does");
    train_path(data_path, "still.data");
    train_path(path, "still.model");
    CHECK(pf_plant_from_class(&plant, &still, &error) == PF_OK);
    CHECK(pf_transitions_make(&s, plant, data_path, NULL, &error) == PF_OK);
    CHECK(pf_transitions_open(&data, data_path, &error) == PF_OK);
    CHECK(pf_train(&s, data, path, 60, NULL, NULL, &error) == PF_OK);
    if (CHECK(pf_model_load(&m, path, &error) == PF_OK)) {
        const double start[2] = {.5, .101}, command[2] = {0, 1}, gains[2] = {1, 1};
        double response[2], *scratch = calloc(pf__model_scratch(m, 1) + 2, sizeof *scratch);
        pf_model_request request = {start, command, 1, 1, gains, NULL};
        CHECK(pf__model_mean(m, &request, scratch, response, &error) == PF_OK);
        CHECK_NEAR(response[0], .5 + .1 - .025, .01);
        CHECK_NEAR(response[1], .101, .001);
        free(scratch);
    }
    CHECK_STR(error.text, "");
    pf_model_destroy(m);
    pf_transitions_close(data);
    pf_plant_destroy(plant);
}
