// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "calibrate/plan.h"
#include "calibrate/recordings.h"
#include "preflight/design.h"
#include "core/kit_layout.h"
#include "model/model_impl.h"
#include "model/rollout.h"
#include "model/transitions.h"
#include "train.h"

#include "preflight/calibrate.h"
#include "preflight/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Trajectory models against a plant whose response is known in closed form: a cart on a spring
// whose sensor reads the place, and with `both` the speed too.

enum { MECH = 3, WINDOW = 12 };

static const pf_mechanism mechanisms[MECH] = {{"rest", -1, 1}, {"push", -1, 1}, {"pull", -2, 2}};
static const double amplitude[MECH] = {.2, .25, -.4};
static const pf_pulse probe = {.steps = 8, .rows = 8, .amplitude = amplitude};
static const pf_pulse task = {.steps = 12, .rows = 12, .amplitude = amplitude};
static const pf_channel channels[2] = {{.name = "place", .noise_sd = .002, .scale = .1},
                                       {.name = "speed", .noise_sd = .002, .scale = .1}};

static void reset(double *x, pf_rng *rng)
{
    x[0] = rng ? .3 * pf_rng_normal(rng) : 0;
    x[1] = rng ? .3 * pf_rng_normal(rng) : 0;
}

static void advance(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob, (void)w;
    double place = x[0];
    x[0] += .1 * x[1];
    x[1] += -.2 * place - .05 * x[1] + .3 * v[1] + .2 * v[2] + .1 * v[0];
}

static void output(const double *knob, const double *x, const double *v, const double *w, double *y)
{
    (void)knob, (void)v, (void)w;
    y[0] = x[0];
}

static void output_both(const double *knob, const double *x, const double *v, const double *w,
                        double *y)
{
    (void)knob, (void)v, (void)w;
    memcpy(y, x, 2 * sizeof *y);
}

static pf_plant_class cart(bool both)
{
    return (pf_plant_class){.info = {.name = both ? "cart" : "blind_cart",
                                     .title = "a cart on a spring",
                                     .source = "tests 1",
                                     .n_mech = MECH,
                                     .n_chan = both ? 2 : 1,
                                     .n_state = 2,
                                     .dt_s = .1,
                                     .mechanisms = mechanisms,
                                     .channels = channels,
                                     .probe = &probe,
                                     .task = &task,
                                     .deterministic = true},
                            .reset = reset,
                            .advance = advance,
                            .output = both ? output_both : output};
}

static pf_train_settings settings_of(const pf_plant *plant)
{
    pf_train_settings s = train_settings(3);
    s.kind = PF_TRAIN_TRAJECTORY;
    s.commands = PF_TRAIN_COMMANDS_USE;
    s.transitions = 12000;
    s.history = 4;
    pf_train_complete(&s, pf_plant_get_info(plant));
    return s;
}

// Data and model of a plant, trained by so many threads.
static pf_model *learn(pf_plant *plant, const pf_train_settings *s, const char *name, int threads)
{
    char path[256], data_path[300];
    pf_error error = {PF_OK, ""};
    pf_transitions *data = NULL;
    pf_model *model = NULL;
    pf_effort effort = {.threads = threads};
    train_path(path, name);
    snprintf(data_path, sizeof data_path, "%s.data", path);
    bool good =
        CHECK(pf__transitions_ready(&data, s, true, plant, data_path, &effort, &error) == PF_OK) &&
        CHECK(pf_train(s, data, path, 100, &effort, NULL, &error) == PF_OK) &&
        CHECK(pf_model_load(&model, path, &error) == PF_OK);
    if (!good) {
        printf("%s\n", error.text);
    }
    pf_transitions_close(data);
    return model;
}

// Largest difference of model and plant over random commands and gains, from rest after a random
// reset.
static double largest(pf_plant *plant, const pf_model *model, int steps)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    double start[8], command[WINDOW * MECH], gains[MECH], direct[WINDOW * 2], ours[WINDOW * 2];
    double *scratch = calloc(pf__model_scratch(model, 1) + WINDOW * 2, sizeof *scratch), worst = 0;
    pf_rng rng;
    pf_rng_init(&rng, 7);
    for (int i = 0; i < 50; i++) {
        for (int k = 0; k < steps * MECH; k++) {
            command[k] = 1.6 * pf_rng_uniform(&rng) - .8;
        }
        for (int j = 0; j < MECH; j++) {
            gains[j] = 1.2 * pf_rng_uniform(&rng);
        }
        pf_roll roll = pf_roll_default();
        roll.key = pf_key_root((uint64_t)i);
        roll.command = command;
        roll.gains = gains;
        roll.rows = steps;
        roll.lead = pf_model_get_info(model)->history - 1;
        CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.initial = start, .output = direct}, NULL) ==
              PF_OK);
        pf_model_request q = {start, command, steps, 1, gains, NULL};
        CHECK(pf__model_mean(model, &q, scratch, ours, NULL) == PF_OK);
        for (int k = 0; k < steps * info->n_chan; k++) {
            worst = fmax(worst, fabs(ours[k] - direct[k]));
        }
    }
    free(scratch);
    return worst;
}

// A wheel that turns more than once in a window, read as an angle.
static void spin(const double *knob, double *x, const double *v, const double *w)
{
    (void)knob, (void)w;
    x[0] += x[1];
    x[1] += .06 * v[1] + .04 * v[2] + .02 * v[0];
}

static void check_spin(void)
{
    PF_CASE("an angle that goes round more than once in a window");
    static const pf_channel_kind kinds[2] = {PF_CHANNEL_ANGLE, PF_CHANNEL_PLAIN};
    pf_plant_class c = cart(true);
    c.info.name = "wheel";
    c.info.kinds = kinds;
    c.advance = spin;
    pf_plant *plant = NULL;
    CHECK(pf_plant_from_class(&plant, &c, NULL) == PF_OK);
    pf_train_settings s = settings_of(plant);
    pf_model *m = learn(plant, &s, "wheel_angle", 1);
    if (m) {
        CHECK(largest(plant, m, WINDOW) < 1e-3);
        CHECK(pf_model_get_info(m)->window_error < 1e-6);
    }
    pf_model_destroy(m);
    pf_plant_destroy(plant);
}

static void check_linear(void)
{
    pf_plant *plant = NULL;
    pf_plant_class c = cart(true);
    CHECK(pf_plant_from_class(&plant, &c, NULL) == PF_OK);
    pf_train_settings s = settings_of(plant);
    CHECK(s.window == WINDOW && s.episode_steps == 20);
    PF_CASE(
        "a linear plant is predicted to rounding by the linear part, which is all that is kept");
    pf_model *m = learn(plant, &s, "cart", 1);
    if (!m) {
        pf_plant_destroy(plant);
        return;
    }
    const pf_model_info *info = pf_model_get_info(m);
    CHECK(info->window == WINDOW && info->history == 1 && info->n_layers == 0 &&
          info->n_members == 1);
    CHECK(info->window_error < 1e-10);
    CHECK(largest(plant, m, WINDOW) < 1e-5);
    CHECK(largest(plant, m, 5) < 1e-5); // part of the window
    PF_CASE("a row depends on the commands before it alone, to the bit");
    double start[2] = {.1, -.2}, gains[MECH] = {1, 1, 1}, command[WINDOW * MECH] = {0};
    double a[WINDOW * 2], b[WINDOW * 2];
    double *scratch = calloc(pf__model_scratch(m, 1), sizeof *scratch);
    pf_model_request q = {start, command, WINDOW, 1, gains, NULL};
    CHECK(pf__model_roll(m, 0, &q, scratch, a, NULL) == PF_OK);
    command[7 * MECH + 1] = .5; // acts on the speed of row 7 and later
    CHECK(pf__model_roll(m, 0, &q, scratch, b, NULL) == PF_OK);
    CHECK(memcmp(a, b, 7 * 2 * sizeof(double)) == 0 && a[7 * 2 + 1] != b[7 * 2 + 1]);
    PF_CASE("more steps than the window are refused, with what to do");
    pf_error error = {PF_OK, ""};
    q.steps = WINDOW + 1;
    CHECK(pf__model_roll(m, 0, &q, scratch, a, &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "--set window=13");
    PF_CASE("the same bytes for one thread and two");
    char one[256], two[256];
    pf_model *again = learn(plant, &s, "cart2", 2);
    train_path(one, "cart");
    train_path(two, "cart2");
    CHECK(train_same_bytes(one, two));
    pf_model_destroy(again);
    free(scratch);
    pf_model_destroy(m);
    pf_plant_destroy(plant);
}

static void check_history(void)
{
    PF_CASE("a hidden speed: two readings tell it, and no more are taken");
    pf_plant *plant = NULL;
    pf_plant_class c = cart(false);
    CHECK(pf_plant_from_class(&plant, &c, NULL) == PF_OK);
    pf_train_settings s = settings_of(plant);
    pf_model *m = learn(plant, &s, "blind", 1);
    if (m) {
        CHECK(pf_model_get_info(m)->history == 2 && pf_model_get_info(m)->n_layers == 0);
        CHECK(largest(plant, m, WINDOW) < 1e-4);
    }
    s.history = 1;
    PF_CASE("with one reading it is much worse, and a kit says what it starts from");
    pf_model *one = learn(plant, &s, "blind1", 1);
    if (m && one) {
        CHECK(largest(plant, one, WINDOW) > 100 * largest(plant, m, WINDOW));
        CHECK(pf_model_get_info(one)->window_error > 1e4 * pf_model_get_info(m)->window_error);
    }
    pf_plan plan;
    void *bytes = NULL;
    size_t n = 0;
    pf_kit kit;
    pf_error error = {PF_OK, ""};
    CHECK(pf__plan_default(&plan, &c.info, &error) == PF_OK);
    plan.settings.alarm_trials = 100;
    plan.settings.episodes = 30;
    bool good = m && CHECK(pf_calibrate(&plan, plant, m, NULL, &bytes, &n, &error) == PF_OK) &&
                CHECK(pf__kit_read(&kit, bytes, n, &error) == PF_OK);
    CHECK_STR(error.text, "");
    for (int i = 0; good && i < 12; i++) {
        int weak = i % 3;
        double gains[MECH] = {1, weak == 1 ? .35 : 1, weak == 2 ? .5 : 1};
        pf_check_config config = {
            .machine = plant, .gains = gains, .model = m, .seed = (uint64_t)i};
        pf_check *check = NULL;
        CHECK(kit.n_state == 2);
        CHECK(pf_check_create(&check, &kit, &config, &error) == PF_OK &&
              pf_check_run(check, NULL, &error) == PF_OK);
        pf_session *session = pf_check_session(check);
        for (int t = 0; t < 2; t++) {
            CHECK(pf_session_task(session, t)->decision == PF_GO);
            CHECK((pf_session_mechanism(session, t + 1)->changed > .9) == (weak == t + 1));
        }
        pf_check_destroy(check);
    }
    free(bytes);
    pf__plan_free(&plan);
    pf_model_destroy(one);
    pf_model_destroy(m);
    pf_plant_destroy(plant);
}

// dc_servo is not linear: networks are kept, and the better kind is.
static void check_best(void)
{
    PF_CASE("networks that predict better are kept; of two kinds the better one stays, alone");
    pf_plant *plant = NULL;
    CHECK(pf_plant_create(&plant, "dc_servo", NULL) == PF_OK);
    pf_train_settings s = train_settings(40);
    s.kind = PF_TRAIN_TRAJECTORY;
    s.commands = PF_TRAIN_COMMANDS_USE;
    s.transitions = 12000;
    pf_train_complete(&s, pf_plant_get_info(plant));
    pf_model *trajectory = learn(plant, &s, "servo.t", 2), *best = NULL, *recursive = NULL;
    CHECK(trajectory && pf_model_get_info(trajectory)->n_layers > 0);
    s.kind = PF_TRAIN_BEST;
    best = learn(plant, &s, "servo", 2);
    s.kind = PF_TRAIN_RECURSIVE;
    s.history = 1;
    recursive = learn(plant, &s, "servo.r", 2);
    if (trajectory && best && recursive) {
        double t = pf_model_get_info(trajectory)->window_error;
        double r = pf_model_get_info(recursive)->window_error;
        double b = pf_model_get_info(best)->window_error;
        printf("    dc_servo leaves of held-out windows: trajectory %.2g, recursive %.2g\n", t, r);
        CHECK(r < t &&
              b < .1 * t); // the recursive one, of which the best has more episodes at rest
        CHECK(isfinite(r) && b > 0);
    }
    char path[300];
    train_path(path, "servo.trajectory");
    CHECK(!train_exists(path));
    train_path(path, "servo.recursive");
    CHECK(!train_exists(path));
    pf_model_destroy(trajectory);
    pf_model_destroy(best);
    pf_model_destroy(recursive);
    pf_plant_destroy(plant);
}

// --- the assessment

// Squared deviation of place and speed from rest while mechanism j is held at its probe.
static double pulse_energy(int j, int rows)
{
    double x[2] = {0, 0}, v[MECH] = {0}, sum = 0;
    v[j] = amplitude[j];
    for (int t = 0; t < rows; t++) {
        advance(NULL, x, v, NULL);
        sum += x[0] * x[0] + x[1] * x[1];
    }
    return sum;
}

// A model of one plant, assessed on another or the same.
static bool assessed(pf_plant *learned, pf_plant *plant, const char *name, pf_assessment *a)
{
    pf_train_settings s = settings_of(plant);
    pf_model *m = learn(learned, &s, name, 1);
    pf_error error = {PF_OK, ""};
    pf_effort effort = {.threads = 1};
    bool good = m && CHECK(pf_assess(m, plant, .35, 5, &effort, a, &error) == PF_OK);
    pf_model_destroy(m);
    return good;
}

static void check_assess(void)
{
    PF_CASE("assess: noise alone blurs the gain of an exact model, and tasks are on the line");
    pf_plant *plant = NULL;
    pf_plant_class c = cart(true);
    CHECK(pf_plant_from_class(&plant, &c, NULL) == PF_OK);
    pf_assessment a[MECH - 1];
    bool good = assessed(plant, plant, "cart3", a);
    for (int j = 1; good && j < MECH; j++) {
        const pf_assessment *r = &a[j - 1];
        // both channels have the same noise, scale and weight
        CHECK_NEAR(r->gain_sd, .002 / sqrt(pulse_energy(j, 8)), .001);
        CHECK_NEAR(r->bound_exact, 1, 1e-9);
        // exp(-d^2) with d normal: mean and second moment are 1/sqrt(1 + 2 sd^2), 1/sqrt(1 + 4
        // sd^2)
        double share[2] = {r->gain_sd / sqrt(2), r->gain_sd / 2 / .35};
        double bound[2] = {r->bound_healthy, r->bound_lost};
        for (int i = 0; i < 2; i++) {
            double v = share[i] * share[i], mean = 1 / sqrt(1 + 2 * v);
            CHECK_NEAR(bound[i], mean - 3 * sqrt(1 / sqrt(1 + 4 * v) - mean * mean), .02);
            CHECK(bound[i] < 1 && bound[i] > .9);
        }
    }
    pf_plant_destroy(plant);
}

// A model that is nearly exact in some channels must not put all weight on them: sensors are noisy.
static void check_assess_noise(void)
{
    PF_CASE("assess: an exact channel with a noisy sensor has the weight of its noise");
    pf_plant *plant = NULL;
    CHECK(pf_plant_create(&plant, "reaction_wheel", NULL) == PF_OK);
    pf_assessment a[3];
    bool good = assessed(plant, plant, "wheel", a);
    for (int j = 0; good && j < 3; j++) {
        CHECK(a[j].gain_sd < .1 && a[j].bound_lost > .9);
    }
    pf_plant_destroy(plant);
}

// The cart with one mechanism the wrong way round.
static void advance_reversed(const double *knob, double *x, const double *v, const double *w)
{
    const double other[MECH] = {v[0], -v[1], v[2]};
    advance(knob, x, other, w);
}

static void check_assess_wrong(void)
{
    PF_CASE("assess: a model that has a mechanism the wrong way round tells nothing of it");
    pf_plant *plant = NULL, *wrong = NULL;
    pf_plant_class c = cart(true), d = cart(true);
    d.advance = advance_reversed;
    CHECK(pf_plant_from_class(&plant, &c, NULL) == PF_OK);
    CHECK(pf_plant_from_class(&wrong, &d, NULL) == PF_OK);
    pf_assessment a[MECH - 1];
    if (assessed(wrong, plant, "wrong", a)) {
        CHECK(a[0].gain_sd > 1 && !(a[0].bound_healthy > .5));
        CHECK(a[1].gain_sd < .1 && a[1].bound_lost > .9);
    }
    pf_plant_destroy(plant);
    pf_plant_destroy(wrong);
}

// --- recordings

// A log of the cart whose sensor reads the place: episodes of random commands, with noise.
static void record_cart(pf_text *csv, int episodes, int steps, double noise)
{
    pf_rng rng;
    pf_rng_init(&rng, 11);
    pf__text_add(csv, "episode,step,place,u0,u1,u2\n");
    for (int e = 0; e < episodes; e++) {
        double x[2], v[MECH] = {0, 0, 0};
        reset(x, &rng);
        for (int t = 0; t <= steps; t++) {
            pf__text_addf(csv, "%d,%d,%.9g,%.9g,%.9g,%.9g\n", e, t,
                          x[0] + noise * pf_rng_normal(&rng), v[0], v[1], v[2]);
            for (int j = 1; j < MECH; j++) { // u0 rests
                v[j] = .7 * v[j] + .3 * pf_rng_normal(&rng);
                v[j] = (double)(float)fmax(-1, fmin(v[j], 1));
            }
            advance(NULL, x, v, NULL);
        }
    }
}

static pf_status record(const pf_plant_info *plant, const char *text, size_t n, int window,
                        pf_train_settings *s, pf_error *error)
{
    char path[256];
    train_path(path, "recorded.data");
    *s = train_settings(3);
    s->kind = PF_TRAIN_TRAJECTORY;
    s->history = 4;
    s->window = window;
    return pf__transitions_record(s, plant, "log.csv", text, n, path, NULL, error);
}

static void refuse(const char *text, const pf_plant_info *plant, int window, const char *why)
{
    pf_error error = {PF_OK, ""};
    pf_train_settings s;
    CHECK(record(plant, text, strlen(text), window, &s, &error) != PF_OK);
    CHECK_CONTAINS(error.text, why);
    CHECK_CONTAINS(error.text, "log.csv");
}

static void check_recorded(void)
{
    PF_CASE("recordings: a model from a log alone predicts the machine, and knows what it needs");
    pf_plant *plant = NULL;
    pf_plant_class c = cart(false);
    pf_text csv = {0};
    pf_error error = {PF_OK, ""};
    pf_train_settings s;
    pf_transitions *data = NULL;
    pf_model *m = NULL;
    char path[256], model[256];
    CHECK(pf_plant_from_class(&plant, &c, NULL) == PF_OK);
    record_cart(&csv, 60, 200, 0);
    train_path(path, "recorded.data");
    train_path(model, "recorded");
    bool good = CHECK(record(&c.info, csv.data, csv.size, 0, &s, &error) == PF_OK) &&
                CHECK(pf_transitions_open(&data, path, &error) == PF_OK) &&
                CHECK(pf_train(&s, data, model, 100, NULL, NULL, &error) == PF_OK) &&
                CHECK(pf_model_load(&m, model, &error) == PF_OK);
    CHECK_STR(error.text, "");
    pf_windows_report r;
    if (good && CHECK(pf__windows_report(m, data, s.held_out, .35, &r, &error) == PF_OK)) {
        CHECK(s.window == 12 && pf_model_get_info(m)->history == 2);
        CHECK_STR(pf_model_get_info(m)->plant, "blind_cart");
        CHECK(largest(plant, m, WINDOW) > 1e-2); // u0 never moved, so nothing is known of it
        CHECK(r.windows == 60 * ((200 - 4) / 12) && isnan(r.gain_sd[0]));
        CHECK(r.left < 1e-8 && r.gain_sd[1] < 1e-3 && r.gain_sd[2] < 1e-3);
    }
    pf_model_destroy(m);
    pf_transitions_close(data);
    m = NULL;
    data = NULL;
    PF_CASE("recordings: sensor noise shows in the gains that a window tells");
    csv.size = 0;
    record_cart(&csv, 60, 200, .02);
    good = CHECK(record(NULL, csv.data, csv.size, 12, &s, &error) == PF_OK) &&
           CHECK(pf_transitions_open(&data, path, &error) == PF_OK) &&
           CHECK(pf_train(&s, data, model, 100, NULL, NULL, &error) == PF_OK) &&
           CHECK(pf_model_load(&m, model, &error) == PF_OK) &&
           CHECK(pf__windows_report(m, data, s.held_out, .35, &r, &error) == PF_OK);
    CHECK_STR(error.text, "");
    if (good) {
        CHECK_STR(pf_model_get_info(m)->plant, "recordings");
        CHECK(r.gain_sd[1] > .02 && r.gain_sd[1] < .3 && r.gain_sd[2] > r.gain_sd[1]);
        CHECK(r.half >= .9 * r.linear);
    }
    pf_model_destroy(m);
    pf_transitions_close(data);
    m = NULL;
    data = NULL;
    PF_CASE(
        "probes are designed on a model that starts from more numbers than the plant has states");
    pf_plan *plan = NULL;
    good = CHECK(record(&c.info, csv.data, csv.size, 12, &s, &error) == PF_OK) &&
           CHECK(pf_transitions_open(&data, path, &error) == PF_OK) &&
           CHECK(pf_train(&s, data, model, 100, NULL, NULL, &error) == PF_OK) &&
           CHECK(pf_model_load(&m, model, &error) == PF_OK) &&
           CHECK(pf_model_get_info(m)->history * c.info.n_chan > c.info.n_state) &&
           CHECK(pf_plan_create(&plan, &c.info, NULL, NULL, 0, NULL, 0, &error) == PF_OK);
    if (good) {
        pf_effort effort = {.threads = 1};
        CHECK(pf_plan_choose_probes(plan, "designed", plant, m, &effort, &error) == PF_OK);
        CHECK(plan->n_probes > 0);
    }
    CHECK_STR(error.text, "");
    pf_plan_destroy(plan);
    pf_model_destroy(m);
    pf_transitions_close(data);
    pf__text_free(&csv);

    PF_CASE("recordings: what cannot be learned from is refused with what is missing");
    refuse("episode,step,place,speed\n0,0,1,2\n", NULL, 0, "episode,step,<channels>,u0");
    refuse("time,place,u0\n0,1,2\n", NULL, 0, "episode,probe,mechanism,gain,step");
    refuse("episode,step,place,u0,u2\n0,0,1,0,0\n", NULL, 0, "u columns come last");
    refuse("episode,step,place,u0\n0,0,1,0\n0,2,1,0\n", NULL, 0, "steps 0, 1, 2");
    refuse("episode,step,place,u0\n0,1,1,0\n", NULL, 0, "steps 0, 1, 2");
    refuse("episode,step,place,u0\n0,0,nan,0\n", NULL, 0, "not finite");
    refuse("episode,step,place,u0\n0,0,1e40,0\n", NULL, 0, "check the units");
    refuse("episode,step,place,u0\n0,0,1,0\n0,1,1,1\n0,2,1,2\n", NULL, 0, "no channel ever");
    refuse("episode,step,place,u0\n0,0,1,0\n0,1,2,1\n0,2,3,1\n", NULL, 0, "no command ever");
    refuse("episode,step,place,u0\n0,0,1,0\n0,1,2,1\n0,2,3,2\n", NULL, 0, "record some hundreds");
    refuse("episode,step,place,u0\n0,0,1,0\n0,1,2,1\n0,2,3,2\n", NULL, 12, "too few for a window");
    refuse("episode,step,place,u0\n0,0,1,0\n0,1,2,1\n0,2,3,2\n", &c.info, 0, "1 u columns");
    refuse("episode,step,spot,u0,u1,u2\n0,0,1,0,0,0\n0,1,2,1,0,0\n0,2,3,2,0,0\n", &c.info, 0,
           "of blind_cart it is 'place'");
    refuse("episode,step,place,u0\n", NULL, 0, "no rows");
    refuse("episode,step,place,u0,u1,u2\n0,0,1,0,0,0\n0,1,2,0,1,-.5\n0,2,3,1,2,-1\n", NULL, 0,
           "u1 moves only together");
    csv = (pf_text){0};
    record_cart(&csv, 60, 200, 0);
    pf_mechanism narrow[MECH] = {mechanisms[0], {"push", -.1, .1}, mechanisms[2]};
    pf_plant_info limited = c.info;
    limited.mechanisms = narrow;
    refuse(csv.data, &limited, 0, "beyond its limits -0.1 and 0.1");
    pf__text_free(&csv);
    pf_plant_destroy(plant);
}

void test_trajectory(void)
{
    check_assess();
    check_assess_noise();
    check_assess_wrong();
    check_recorded();
    check_spin();
    check_linear();
    check_history();
    check_best();
}
