// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test_mujoco.h"
#include "plant/plant_impl.h"
#include "core/rng.h"

#include "host/file.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Saved states go on with the same bits wherever and whenever; a trajectory that fails says so and
// leaves nothing behind.

enum { VARIANTS = 6 };

// The same few trajectories each time, from resets and from states in mid-trajectory.
typedef struct variants {
    const pf_plant_info *info;
    double command[MUJOCO_ROWS * PF_MUJOCO_MECH];
    double start[VARIANTS][PF_STATE_MAX];
    double output[VARIANTS][MUJOCO_OUT];
} variants;

static void roll_variant(pf_plant *plant, const variants *v, int k, double *output)
{
    pf_roll roll = pf_roll_default();
    roll.start = v->start[k];
    roll.command = v->command;
    roll.rows = 20;
    roll_checked(plant, &roll, &(pf_trace){.output = output});
}

static variants *make_variants(pf_plant *plant)
{
    variants *v = calloc(1, sizeof *v);
    if (!CHECK(v != NULL)) {
        return NULL;
    }
    static double states[MUJOCO_ROWS * PF_STATE_MAX];
    v->info = pf_plant_get_info(plant);
    pf_rng rng;
    pf_rng_init(&rng, 3);
    for (int i = 0; i < MUJOCO_ROWS * v->info->n_mech; i++) {
        v->command[i] = v->info->mechanisms[0].hi * (2 * pf_rng_uniform(&rng) - 1);
    }
    for (int k = 0; k < VARIANTS; k++) {
        pf_roll roll = pf_roll_default();
        roll.key = pf__key_derive(11, (uint64_t)k);
        roll.command = v->command;
        roll.rows = MUJOCO_ROWS;
        roll_checked(plant, &roll, &(pf_trace){.start = v->start[k], .state = states});
        if (k % 2 == 1) {
            memcpy(v->start[k], states + (size_t)(3 * k) * (size_t)v->info->n_state,
                   sizeof(double) * (size_t)v->info->n_state);
        }
    }
    for (int k = 0; k < VARIANTS; k++) {
        roll_variant(plant, v, k, v->output[k]);
    }
    return v;
}

static bool same_as_before(pf_plant *plant, const variants *v, int k)
{
    double output[MUJOCO_OUT];
    roll_variant(plant, v, k, output);
    return memcmp(output, v->output[k], sizeof(double) * (size_t)(20 * v->info->n_chan)) == 0;
}

typedef struct worker {
    pf_plant *plant;
    const variants *v;
    int first, other;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < 3 * VARIANTS; i++) {
        w->other += !same_as_before(w->plant, w->v, (w->first + 5 * i) % VARIANTS);
    }
    return NULL;
}

static void check_threads(pf_plant *plant, const variants *v)
{
    PF_CASE("clones in other threads and orders give the same bits");
    worker workers[2];
    pthread_t threads[2];
    for (int t = 0; t < 2; t++) {
        workers[t] = (worker){NULL, v, 2 * t + 1, 0};
        CHECK(pf_plant_clone(plant, &workers[t].plant, NULL) == PF_OK);
    }
    for (int t = 0; t < 2; t++) {
        CHECK(pthread_create(&threads[t], NULL, work, &workers[t]) == 0);
    }
    for (int t = 0; t < 2; t++) {
        pthread_join(threads[t], NULL);
        CHECK(workers[t].other == 0);
        pf_plant_destroy(workers[t].plant);
    }
    CHECK(same_as_before(plant, v, 0)); // the shared model lives on
}

static void check_saved(pf_plant *plant)
{
    PF_CASE("a saved state continues with the same bits");
    static double states[MUJOCO_ROWS * PF_STATE_MAX], again[MUJOCO_ROWS * PF_STATE_MAX];
    double command[MUJOCO_ROWS * PF_MUJOCO_MECH];
    const pf_plant_info *info = pf_plant_get_info(plant);
    for (int i = 0; i < MUJOCO_ROWS * info->n_mech; i++) {
        command[i] = i % 7 == 0 ? info->mechanisms[0].hi : 0;
    }
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = MUJOCO_ROWS;
    roll_checked(plant, &roll, &(pf_trace){.state = states});
    for (int r = 0; r < MUJOCO_ROWS - 1; r += 6) {
        size_t n = (size_t)info->n_state;
        roll.start = states + (size_t)r * n;
        roll.command = command + (size_t)(r + 1) * (size_t)info->n_mech;
        roll.rows = MUJOCO_ROWS - 1 - r;
        roll_checked(plant, &roll, &(pf_trace){.state = again});
        CHECK(memcmp(states + (size_t)(r + 1) * n, again, sizeof(double) * n * (size_t)roll.rows) ==
              0);
    }
}

// --- failures

static void expect_failure(pf_plant *plant, const variants *v, const double *start,
                           pf_status status, const char *part)
{
    double output[MUJOCO_OUT];
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.start = start;
    roll.command = v->command;
    roll.rows = 20;
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = output}, &error) == status);
    CHECK_CONTAINS(error.text, part);
    // alternately from a state and from a reset
    CHECK(same_as_before(plant, v, 1) && same_as_before(plant, v, 2));
}

static void check_failures(pf_plant *plant, const pf_mujoco_system *s, const variants *v)
{
    PF_CASE("bad states and explosions fail that trajectory alone");
    double start[PF_STATE_MAX];
    double *qpos = start + 1, *qvel = qpos + s->nq, *warm = qvel + s->nv;
    size_t bytes = sizeof(double) * (size_t)v->info->n_state;
    memcpy(start, v->start[0], bytes);
    qpos[2] = NAN;
    expect_failure(plant, v, start, PF_ERR_NONFINITE, "start state");
    qpos[2] = 1e30;
    expect_failure(plant, v, start, PF_ERR_PLANT, "MuJoCo warns in step 1: bad position (at 2)");
    memcpy(start, v->start[0], bytes);
    qvel[s->nv - 1] = 1e12;
    expect_failure(plant, v, start, PF_ERR_PLANT, "MuJoCo warns in step 1: bad velocity");
    memcpy(start, v->start[0], bytes);
    for (int i = 0; i < s->nv; i++) {
        qvel[i] = i % 2 ? 3e9 : -3e9;
    }
    expect_failure(plant, v, start, PF_ERR_PLANT, "MuJoCo warns in step");
    memcpy(start, v->start[0], bytes);
    warm[0] = INFINITY;
    expect_failure(plant, v, start, PF_ERR_NONFINITE, "start state");
    if (s->nq > s->nv) { // a free body
        memcpy(start, v->start[0], bytes);
        memset(qpos + 3, 0, 4 * sizeof(double));
        expect_failure(plant, v, start, PF_ERR_ARGUMENT, "quaternion");
    }
    PF_CASE("a state of another size is refused");
    pf_error error = {PF_OK, ""};
    for (int n = 1; n < v->info->n_state; n++) {
        pf_status status = pf__plant_load_state(plant, n, v->start[0], start, &error);
        CHECK(status == (n == s->nq + s->nv ? PF_OK : PF_ERR_SHAPE));
    }
    CHECK_CONTAINS(error.text, "positions");
    CHECK(pf__plant_load_state(plant, v->info->n_state, v->start[3], start, &error) == PF_OK);
    CHECK(memcmp(start, v->start[3], bytes) == 0);
}

// In the air and fast: the last of the four sub-steps, and no other, leaves what MuJoCo takes.
static void check_last_step(void)
{
    PF_CASE("an explosion in the very last sub-step fails the trajectory");
    const double v = 9e9, h = .002;
    double up[12] = {0, 1e10 - 3.5 * v * h, [7] = v};
    double command[3] = {0}, start[PF_STATE_MAX], output[PF_MUJOCO_CHAN];
    pf_plant *plant = plant_checked("hopper");
    if (!plant) {
        return;
    }
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.start = start;
    roll.command = command;
    roll.rows = 1;
    CHECK(pf__plant_load_state(plant, 12, up, start, NULL) == PF_OK);
    CHECK(pf_plant_roll(plant, &roll, &(pf_trace){.output = output}, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "hopper: qpos 1 is not finite or too large after step 1");
    // one sub-step lower it is just within the bound
    up[1] -= v * h;
    CHECK(pf__plant_load_state(plant, 12, up, start, NULL) == PF_OK);
    roll_checked(plant, &roll, &(pf_trace){.output = output});
    pf_plant_destroy(plant);
}

bool mujoco_variant(const char *models, const char *folder, const char *from, const char *to)
{
    char path[512], *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/hopper.xml", models);
    if (pf__file_read(path, 1 << 20, (void **)&text, &n, NULL) != PF_OK) {
        return false;
    }
    char *at = strstr(text, from);
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/hopper.xml", folder);
    FILE *file = at ? fopen(path, "w") : NULL;
    if (file) {
        const char *rest = at + strlen(from);
        fwrite(text, 1, (size_t)(at - text), file);
        fputs(to, file);
        fwrite(rest, 1, n - (size_t)(rest - text), file);
        fclose(file);
    }
    free(text);
    return file != NULL;
}

char *mujoco_models_begin(const char *folder)
{
    const char *before = getenv("PREFLIGHT_MODELS");
    char *copy = before ? strdup(before) : NULL;
    setenv("PREFLIGHT_MODELS", folder, 1);
    return copy;
}

void mujoco_models_end(char *before)
{
    if (before) {
        setenv("PREFLIGHT_MODELS", before, 1);
    } else {
        unsetenv("PREFLIGHT_MODELS");
    }
    free(before);
}

// Hopper with another size of MuJoCo's working memory.
static bool cramped_hopper(const char *models, const char *memory)
{
    char folder[512], size[120];
    snprintf(folder, sizeof folder, "%s/cramped", pf_scratch_dir());
    snprintf(size, sizeof size, "<mujoco model=\"hopper\"><size memory=\"%s\"/>", memory);
    return mujoco_variant(models, folder, "<mujoco model=\"hopper\">", size);
}

// Pressed deep into the floor, with working memory that does not do for so many contacts; in
// between a start in the air, which needs little.
static void check_cramped(const char *models, const char *memory, const char *part)
{
    static const double pressed[12] = {0, .2, 0, -.5, -.5, 0};
    double command[3] = {0}, start[PF_STATE_MAX], output[2][PF_MUJOCO_CHAN];
    CHECK(cramped_hopper(models, memory));
    pf_plant *plant = plant_checked("hopper");
    if (!plant) {
        return;
    }
    CHECK_CONTAINS(pf_plant_get_info(plant)->source, ", hopper.xml ");
    CHECK(pf__plant_load_state(plant, 12, pressed, start, NULL) == PF_OK);
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = 1;
    for (int i = 0; i < 3; i++) {
        pf_error error = {PF_OK, ""};
        roll.start = NULL;
        roll_checked(plant, &roll, &(pf_trace){.output = output[i > 0]});
        CHECK(i == 0 || memcmp(output[0], output[1], sizeof(double) * 11) == 0);
        roll.start = start;
        CHECK(pf_plant_roll(plant, &roll, &(pf_trace){0}, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, part);
    }
    pf_plant_destroy(plant);
}

// What MuJoCo calls an error ends a process that does not catch it.
static void check_errors(const char *models)
{
    PF_CASE("errors of MuJoCo and full lists fail the trajectory, not the process");
    char folder[512];
    snprintf(folder, sizeof folder, "%s/cramped", pf_scratch_dir());
    char *before = mujoco_models_begin(folder);
    check_cramped(models, "4K", "MuJoCo warns in step 1: too many contacts");
    check_cramped(models, "10000", "MuJoCo warns in step 1: too many constraints");
    check_cramped(models, "14000", "MuJoCo fails in step 1: mj_stackAlloc: out of memory");
    PF_CASE("other model files are refused");
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(cramped_hopper(models, "nonsense"));
    CHECK(pf_plant_create(&plant, "hopper", &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "hopper: MuJoCo cannot read ");
    CHECK_CONTAINS(error.text, folder);
    CHECK(pf_plant_create(&plant, "ant", &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "ant.xml is not in ");
    CHECK(pf__mujoco_present(pf__mujoco_find("ant"), &error) == PF_ERR_UNSUPPORTED);
    CHECK(pf__mujoco_present(pf__mujoco_find("hopper"), &error) == PF_OK);
    mujoco_models_end(before);
}

void test_mujoco_states(json_t *fixture)
{
    for (int i = 0; i < pf__mujoco_count(); i++) {
        const pf_mujoco_system *s = pf__mujoco_at(i);
        pf_plant *plant = plant_checked(s->name);
        variants *v = plant ? make_variants(plant) : NULL;
        if (v) {
            check_saved(plant);
            check_threads(plant, v);
            check_failures(plant, s, v);
        }
        free(v);
        pf_plant_destroy(plant);
    }
    check_last_step();
    check_errors(json_string_value(json_object_get(fixture, "models")));
}
