// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "core/certificate.h"
#include "core/joint.h"
#include "field_kit.h"
#include "gymnasium.h"
#include "host/file.h"
#include "plant/mujoco/mujoco.h"
#include "plant/plant_impl.h"
#include "program.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Model files of somebody's own. What is made of them is compared with MuJoCo's Python package, by
// the rules of docs/machines.md written down a second time (mujoco_file_fixture.py).

enum { ROWS = 12, MECHANISMS = 8, CHANNELS = 64 };

#define MODELS "mujoco:" PF_SOURCE "/tests/models/"

// --- what is made of a file

static int find_channel(const pf_plant_info *info, const char *name)
{
    int c = info->n_chan - 1;
    while (c >= 0 && strcmp(info->channels[c].name, name) != 0) {
        c--;
    }
    return c;
}

static void check_mixed(void)
{
    PF_CASE("actuators by name or target, behind none; what a loss is by their kind");
    static const char *const names[] = {"none", "hip",   "cable",  "knee",
                                        "slow", "crawl", "flexor", "tail"};
    static const char *const words[] = {"moves nothing",  "motor",
                                        "motor",          "position servo, holds -0.3",
                                        "filtered motor", "velocity servo (integrated)",
                                        "muscle",         "motor"};
    static const double limits[][2] = {{0, 0},  {-1, 1},   {-.5, .5}, {-.7, 1.3},
                                       {-1, 1}, {-.5, .5}, {0, 1},    {-1, 1}};
    // a quarter of the range, or all of it where less shows too little
    static const double amplitudes[] = {0, 1, .5, .325, .25, .125, .25, .25};
    pf_plant *plant = plant_checked(MODELS "mixed.xml");
    const pf_plant_info *info = plant ? pf_plant_get_info(plant) : NULL;
    if (!info || !CHECK(info->n_mech == MECHANISMS)) {
        pf_plant_destroy(plant);
        return;
    }
    for (int j = 0; j < MECHANISMS; j++) {
        CHECK_STR(info->mechanisms[j].name, names[j]);
        CHECK_STR(pf__plant_about(plant, j), words[j]);
        CHECK(pf__plant_loses_force(info, j) == (j == 3 || j == 5 || j == 6));
        CHECK_NEAR(info->mechanisms[j].lo, limits[j][0], 1e-12);
        CHECK_NEAR(info->mechanisms[j].hi, limits[j][1], 1e-12);
        CHECK_NEAR(info->probe->amplitude[j], amplitudes[j], 1e-12);
    }
    CHECK_CONTAINS(pf__plant_about(plant, -1), "home: keyframe home");
    CHECK(info->dt_s == 5 * .004 && info->sensor_noise == .25 && info->deterministic);
    PF_CASE("channels: joints, quaternions known as such, where the machine is left out");
    CHECK(find_channel(info, "root_x") < 0 && find_channel(info, "root_z") == 0);
    CHECK(find_channel(info, "joint_6_x") >= 0);
    CHECK(info->kinds[find_channel(info, "tail_qw")] == PF_CHANNEL_QUATERNION);
    CHECK(info->kinds[find_channel(info, "root_qz")] == PF_CHANNEL_QUATERNION);
    CHECK(info->kinds[find_channel(info, "tail_wz")] == PF_CHANNEL_PLAIN);
    CHECK(find_channel(info, "rod_vel") == 32 && info->n_chan == 39);
    pf_plant_destroy(plant);
}

static void check_others(void)
{
    PF_CASE("sensors are the channels where a file has some; a motor that holds a load");
    pf_plant *plant = plant_checked(MODELS "crane.xml");
    const pf_plant_info *info = plant ? pf_plant_get_info(plant) : NULL;
    if (info) {
        CHECK(info->n_chan == 11 && find_channel(info, "clock") < 0);
        CHECK(info->kinds[find_channel(info, "attitude_qw")] == PF_CHANNEL_QUATERNION);
        CHECK(info->kinds[find_channel(info, "gyro_x")] == PF_CHANNEL_PLAIN);
        CHECK(!pf__plant_loses_force(info, 1) && pf__plant_loses_force(info, 2));
        CHECK_CONTAINS(pf__plant_about(plant, 2), "motor, holds -0.526");
        CHECK_CONTAINS(pf__plant_about(plant, -1), "it rests after");
    }
    pf_plant_destroy(plant);
    PF_CASE("a URDF gets a motor per hinge and slide, as strong as its effort");
    plant = plant_checked(MODELS "reach.urdf");
    info = plant ? pf_plant_get_info(plant) : NULL;
    if (info && CHECK(info->n_mech == 4)) {
        CHECK_STR(info->mechanisms[1].name, "turn");
        CHECK(info->mechanisms[1].lo == -20 && info->mechanisms[1].hi == 20);
        CHECK(info->mechanisms[2].lo == -50 && info->mechanisms[2].hi == 50);
        CHECK(isinf(info->mechanisms[3].lo) && isinf(info->mechanisms[3].hi));
        CHECK(!info->losses);
    }
    pf_plant_destroy(plant);
}

// --- as MuJoCo's own package does it

// Actuator a is asked for .1 + .05 a, falling row by row, and has gain .3 + .1 a.
static void fill_run(int n_mech, double *command, double *gains)
{
    for (int i = 0; i < ROWS * n_mech; i++) {
        int r = i / n_mech, a = i % n_mech - 1;
        command[i] = a < 0 ? 0 : (.1 + .05 * a) * (1 - (double)r / ROWS);
    }
    gains[0] = 1;
    for (int a = 0; a + 1 < n_mech; a++) {
        gains[a + 1] = .3 + .1 * a;
    }
}

static void check_witness(const json_t *fixture, const char *file)
{
    PF_CASE("rest and a run with losses of every kind have the bits of MuJoCo's own package");
    char name[512];
    snprintf(name, sizeof name, MODELS "%s", file);
    pf_plant *plant = plant_checked(name);
    const json_t *theirs = gymnasium_system(fixture, file);
    if (!plant || !CHECK(theirs)) {
        pf_plant_destroy(plant);
        return;
    }
    const pf_plant_info *info = pf_plant_get_info(plant);
    static double rest[PF_STATE_MAX], start[PF_STATE_MAX], out[ROWS * CHANNELS];
    double command[ROWS * MECHANISMS], gains[MECHANISMS], row[CHANNELS];
    const json_t *state = json_object_get(theirs, "rest");
    if (CHECK(json_array_size(state) == (size_t)info->n_state)) {
        gymnasium_numbers(state, rest);
        pf_roll roll = pf_roll_default();
        roll.mean_reset = true;
        fill_run(info->n_mech, command, gains);
        roll.command = command;
        roll.gains = gains;
        roll.rows = ROWS;
        roll_checked(plant, &roll, &(pf_trace){.start = start, .output = out});
        CHECK(memcmp(rest, start, sizeof(double) * (size_t)info->n_state) == 0);
        int other = 0;
        for (int r = 0; r < ROWS; r++) {
            const json_t *list = json_array_get(json_object_get(theirs, "rows"), (size_t)r);
            CHECK(json_array_size(list) == (size_t)info->n_chan);
            gymnasium_numbers(list, row);
            other +=
                memcmp(row, out + r * info->n_chan, sizeof(double) * (size_t)info->n_chan) != 0;
        }
        if (!CHECK(other == 0)) {
            printf("%s: %d of %d rows differ\n", file, other, ROWS);
        }
    }
    pf_plant_destroy(plant);
}

// --- trajectories

static void check_restart(const char *file)
{
    PF_CASE("a saved state goes on with the same bits, a loss leaves nothing behind");
    enum { AT = 5 };
    char name[512];
    snprintf(name, sizeof name, MODELS "%s", file);
    pf_plant *plant = plant_checked(name), *copy = NULL;
    if (!plant || !CHECK(pf_plant_clone(plant, &copy, NULL) == PF_OK)) {
        pf_plant_destroy(plant);
        return;
    }
    const pf_plant_info *info = pf_plant_get_info(plant);
    size_t n_chan = (size_t)info->n_chan;
    static double states[ROWS * PF_STATE_MAX], out[3][ROWS * CHANNELS];
    double command[ROWS * MECHANISMS], gains[MECHANISMS];
    fill_run(info->n_mech, command, gains);
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_root(3);
    roll.command = command;
    roll.rows = ROWS;
    roll_checked(plant, &roll, &(pf_trace){.output = out[0]});
    roll.gains = gains;
    roll_checked(plant, &roll, &(pf_trace){.output = out[1], .state = states});
    CHECK(memcmp(out[0], out[1], sizeof(double) * ROWS * n_chan) != 0);
    roll.start = states + AT * info->n_state;
    roll.command = command + (AT + 1) * info->n_mech;
    roll.rows = ROWS - AT - 1;
    roll_checked(copy, &roll, &(pf_trace){.output = out[2]});
    CHECK(memcmp(out[2], out[1] + (AT + 1) * n_chan, sizeof(double) * (size_t)roll.rows * n_chan) ==
          0);
    roll = (pf_roll){.key = roll.key, .command = command, .rows = ROWS, .policy = -1};
    roll_checked(plant, &roll, &(pf_trace){.output = out[2]});
    CHECK(memcmp(out[0], out[2], sizeof(double) * ROWS * n_chan) == 0);
    roll_checked(copy, &roll, &(pf_trace){.output = out[2]});
    CHECK(memcmp(out[0], out[2], sizeof(double) * ROWS * n_chan) == 0);
    pf_plant_destroy(copy);
    pf_plant_destroy(plant);
}

static void check_reset(void)
{
    PF_CASE("resets are small uniform draws around the rest; quaternions stay unit");
    pf_plant *plant = plant_checked(MODELS "mixed.xml#bent");
    if (!plant) {
        return;
    }
    static double rest[PF_STATE_MAX], start[PF_STATE_MAX];
    pf_roll roll = pf_roll_default();
    roll.mean_reset = true;
    roll_checked(plant, &roll, &(pf_trace){.start = rest});
    roll.mean_reset = false;
    double most = 0, sum = 0;
    enum { DRAWS = 400, HIP = 1 + 7, TAIL = 1 + 9, NQ = 22, NV = 19 };
    for (int i = 0; i < DRAWS; i++) {
        roll.key = pf_key_stream(2, "mixed", (uint64_t)i, PF_PURPOSE_TASK, 0);
        roll_checked(plant, &roll, &(pf_trace){.start = start});
        double away = start[HIP] - rest[HIP], norm = 0, turned = 0;
        for (int k = 0; k < 4; k++) {
            norm += start[TAIL + k] * start[TAIL + k];
            turned += start[TAIL + k] * rest[TAIL + k];
        }
        most = fmax(most, fabs(away));
        sum += away * away;
        CHECK(fabs(norm - 1) < 1e-12);
        // three uniform draws of at most .01 rad each
        CHECK(2 * acos(fmin(1, fabs(turned))) < .01 * sqrt(3) + 1e-6);
        CHECK(fabs(start[1 + NQ + 6] - rest[1 + NQ + 6]) <= .01);
    }
    CHECK(most <= .01 && most > .0098);
    CHECK(fabs(sum / DRAWS / (1e-4 / 3) - 1) < 5 * sqrt(.8 / DRAWS));
    pf_plant_destroy(plant);
}

// --- names and sources

static bool copy_model(const char *file, const char *to)
{
    char command[1200];
    snprintf(command, sizeof command, "cp '" PF_SOURCE "/tests/models/%s' '%s'", file, to);
    return system(command) == 0;
}

static void check_source(void)
{
    PF_CASE("a file is known by what it compiles to, wherever it lies");
    char folder[400], copy[480], name[520];
    CHECK(program_folder(folder, sizeof folder, "elsewhere"));
    snprintf(copy, sizeof copy, "%s/crane.xml", folder);
    snprintf(name, sizeof name, "mujoco:%s", copy);
    CHECK(copy_model("crane.xml", copy));
    pf_plant *one = plant_checked(MODELS "crane.xml"), *other = plant_checked(name);
    if (one && other) {
        const pf_plant_info *a = pf_plant_get_info(one), *b = pf_plant_get_info(other);
        CHECK_STR(a->source, b->source);
        CHECK_CONTAINS(a->source, "crane.xml ");
        CHECK(strcmp(a->name, b->name) != 0 && a->name[7] == '/');
        CHECK_STR(pf_plant_environment(a), "mujoco:crane.xml");
        CHECK_STR(pf_plant_environment(b), "mujoco:crane.xml");
    }
    char edit[900];
    snprintf(edit, sizeof edit, "sed -i 's/damping=..5./damping=\".6\"/' '%s'", copy);
    pf_plant *third = system(edit) == 0 ? plant_checked(name) : NULL;
    if (one && third) {
        CHECK(strcmp(pf_plant_get_info(one)->source, pf_plant_get_info(third)->source) != 0);
    }
    pf_plant_destroy(one);
    pf_plant_destroy(other);
    pf_plant_destroy(third);
}

// --- what is refused

typedef struct refusal {
    const char *file, *text;
    pf_status status;
    const char *part;
} refusal;

static const refusal refusals[] = {
    {"gone.xml", NULL, PF_ERR_FILE, "there is no such file; say mujoco:FILE"},
    {"words.xml", "words", PF_ERR_FORMAT, "MuJoCo cannot make a model of it: XML"},
    {"idle.xml",
     "<mujoco><worldbody><body><joint name=\"a\"/><geom size=\".1\"/><body><joint/>"
     "<geom size=\".1\"/></body></body></worldbody></mujoco>",
     PF_ERR_FORMAT,
     "it has no actuators; add <motor joint=\"...\"/> below <actuator> for joints "
     "that have motors: a, joint_1"},
    {"still.xml",
     "<mujoco><option timestep=\"0\"/><worldbody><body><joint name=\"a\"/><geom size=\".1\"/>"
     "</body></worldbody><actuator><motor joint=\"a\"/></actuator></mujoco>",
     PF_ERR_FORMAT, "its timestep is 0 s, 1e-6 s is the least"},
    {"mesh.xml",
     "<mujoco><asset><mesh name=\"m\" file=\"gone.stl\"/></asset><worldbody><body><joint/>"
     "<geom type=\"mesh\" mesh=\"m\"/></body></worldbody></mujoco>",
     PF_ERR_FORMAT, "gone.stl"},
    {"wild.xml",
     "<mujoco><worldbody><body><joint name=\"a\" axis=\"0 1 0\"/><geom size=\".1\" "
     "pos=\"1 0 0\"/></body></worldbody><actuator><general joint=\"a\" biastype=\"affine\" "
     "biasprm=\"0 1e6 1e4\"/></actuator></mujoco>",
     PF_ERR_PLANT, "the model is unstable at its home: MuJoCo warns of bad"},
    {"dc.xml",
     "<mujoco><worldbody><body><joint name=\"a\"/><geom size=\".1\"/></body></worldbody><actuator>"
     "<dcmotor name=\"m\" joint=\"a\" motorconst=\".05\" resistance=\"2\"/></actuator></mujoco>",
     PF_ERR_UNSUPPORTED, "actuator m is of a kind whose loss is not known here"},
    {"robot.urdf",
     "<robot name=\"r\"><link name=\"a\"/><joint name=\"j\" type=\"revolute\"><parent "
     "link=\"a\"/><child link=\"c\"/></joint></robot>",
     PF_ERR_FORMAT, "of this URDF: "},
};

static void check_refusals(void)
{
    PF_CASE("what cannot be a plant is refused in one line that says why");
    char folder[400], path[480], name[520];
    CHECK(program_folder(folder, sizeof folder, "refused"));
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        snprintf(path, sizeof path, "%s/%s", folder, r->file);
        snprintf(name, sizeof name, "mujoco:%s", path);
        FILE *file = r->text ? fopen(path, "w") : NULL;
        if (file) {
            fputs(r->text, file);
            fclose(file);
        }
        pf_plant *plant = NULL;
        pf_error error = {PF_OK, ""};
        CHECK(pf_plant_create(&plant, name, &error) == r->status && !plant);
        CHECK_CONTAINS(error.text, r->part);
        CHECK_CONTAINS(error.text, name);
        CHECK(!strchr(error.text, '\n'));
        pf_plant_destroy(plant);
    }
    CHECK(program_in(folder, "--version; mkfifo @/pipe && ln -s @/loop @/loop", 0, ""));
    CHECK(program_in(folder, "list mujoco:@", 3, "is a folder, not a model file"));
    CHECK(program_in(folder, "list mujoco:@/pipe", 3, "is no plain file"));
    CHECK(program_in(folder, "list mujoco:@/loop", 3, "Too many levels of symbolic links"));
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(pf_plant_create(&plant, MODELS "mixed.xml#sit", &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "there is no such keyframe; there are #home, #bent");
    CHECK(pf_plant_create(&plant, MODELS "crane.xml#sit", &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "the file has none");
}

// --- losses of force

#define SERVO MODELS "servo.xml"

// What a task of a servo really returns from one start, at a gain and with a correction.
static double flown(pf_plant *plant, const pf_kit *k, int task, uint64_t start, double gain,
                    double correction)
{
    enum { MOST = 32, CHAN = 8, MECH = 4 };
    double command[MOST * MECH] = {0}, gains[MECH] = {1, 1, 1, 1}, out[3][MOST * CHAN];
    const double *asked = pf_kit_task_command(k, task);
    int rows = pf_kit_task_rows(k, task), j = k->use_mech[k->task_use[task]];
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(77, "servo", start, PF_PURPOSE_TASK, 0);
    roll.rows = rows;
    roll.command = command;
    roll_checked(plant, &roll, &(pf_trace){.output = out[0]});
    roll.command = asked;
    roll_checked(plant, &roll, &(pf_trace){.output = out[1]});
    for (int r = 0; r < rows; r++) {
        command[r * MECH + j] =
            pf__corrected_command(asked[r * MECH + j], correction, k->lo[j], k->hi[j]);
    }
    roll.command = command;
    gains[j] = gain;
    roll.gains = gains;
    roll_checked(plant, &roll, &(pf_trace){.output = out[2]});
    const double *scale = k->return_scale;
    return pf__return(pf__tracking_distance(rows, k->n_chan, scale, out[2], out[1]) /
                      pf__tracking_distance(rows, k->n_chan, scale, out[1], out[0]));
}

// The mean over the members of a kit, by gain and correction or by their product.
static double predicted(const pf_kit *k, int task, double gain, double correction, bool product)
{
    double mean = 0;
    int use = k->task_use[task];
    for (int e = 0; e < k->n_members; e++) {
        size_t row = (size_t)use * (size_t)k->n_members + (size_t)e;
        pf__delivered d = pf__deliver(k, task, k->use_mech[use], correction);
        double error = product
                           ? pf__tracking_error_at(k->n_shares, k->shares,
                                                   k->tracking_error + row * (size_t)k->n_shares,
                                                   gain * d.share)
                           : pf__use_error(k, use, e, gain, d);
        mean += pf__return(error) / k->n_members;
    }
    return mean;
}

static void check_force_table(const pf_kit *k)
{
    PF_CASE(
        "what a corrected servo returns is foreseen by gain and correction, not by their product");
    static const double gains[] = {.25, .4, .55, .85, 1}, corrections[] = {.8, 1, 1.4, 2.2, 3.5};
    pf_plant *plant = plant_checked(SERVO);
    double worst = 0, by_product = 0;
    CHECK(k->n_force > 0 && k->n_tasks == 3);
    for (int i = 0; plant && i < 25 * k->n_tasks; i++) {
        int task = i / 25;
        double gain = gains[i / 5 % 5], correction = corrections[i % 5], truth = 0;
        for (uint64_t start = 0; start < 10; start++) {
            truth += flown(plant, k, task, start, gain, correction) / 10;
        }
        worst = fmax(worst, fabs(predicted(k, task, gain, correction, false) - truth));
        by_product = fmax(by_product, fabs(predicted(k, task, gain, correction, true) - truth));
    }
    CHECK(worst < .06);
    CHECK(by_product > .15);
    if (pf_long()) {
        printf("farthest from what is flown: %.3f by gain and correction, %.3f by their product\n",
               worst, by_product);
    }
    pf_plant_destroy(plant);
}

static void check_force_verdicts(const pf_kit *k)
{
    PF_CASE("no servo of any gain that is go returns less than it must");
    static const char *const names[] = {"shoulder", "elbow", "wrist"};
    static const double gains[] = {1, .7, .5, .35, .2};
    field f;
    field_open(&f, SERVO, k);
    int go = 0, false_go = 0, checks = pf_long() ? 20 : 3;
    for (int i = 0; i < checks * 15; i++) {
        char fault[32];
        snprintf(fault, sizeof fault, "%s:%g", names[i % 3], gains[i / 3 % 5]);
        field_faults(&f, fault);
        field_check(&f, (uint64_t)i, NULL);
        go += field_go(&f);
        false_go += field_false_go(&f);
    }
    CHECK(false_go == 0);
    CHECK(go > checks * 15 * 3 / 2);
    if (pf_long()) {
        printf("%d of %d tasks go, %d of them falsely\n", go, checks * 45, false_go);
    }
    field_close(&f);
}

static void check_force_kit(const field_kit *kit)
{
    PF_CASE("a kit knows which mechanisms lose force; damage to that is refused");
    pf_kit k = kit->kit;
    pf_error error = {PF_OK, ""};
    CHECK(!pf_kit_loses_force(&k, 0) && pf_kit_loses_force(&k, 1) && pf_kit_loses_force(&k, 3));
    CHECK(pf_kit_check(&k, &error) == PF_OK);
    static const int32_t odd[] = {0, 1, 2, 1};
    k.loss = odd;
    CHECK(pf_kit_check(&k, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "mechanism 2 has no kind of loss");
    k = kit->kit;
    k.n_force--;
    CHECK(pf_kit_check(&k, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "n_force");
    // of a healthy servo no correction is right, of a weak one the best of the table
    CHECK(pf__right_correction(&kit->kit, 3, 1) == 1);
    CHECK(pf__right_correction(&kit->kit, 3, .5) >= 1.75);
    CHECK_NEAR(pf__right_correction(&field_kit_of("attitude", NULL)->kit, 3, .4), 2.5, 1e-12);
}

// --- with the program

// A kit whose model file is elsewhere now is told where. Another file is another machine.
static void check_moved(const char *folder)
{
    char path[480];
    void *bytes = NULL;
    size_t n = 0;
    CHECK(pf__file_read(PF_SOURCE "/examples/arm.xml", 1 << 20, &bytes, &n, NULL) == PF_OK);
    snprintf(path, sizeof path, "%s/arm.xml", folder);
    CHECK(pf__file_write(path, bytes, n, NULL) == PF_OK);
    free(bytes);
    CHECK(program_in(folder,
                     "calibrate mujoco:@/arm.xml -o @/moved.kit --probes single --set episodes=40 "
                     "--set alarm_trials=100",
                     0, "plant mujoco:"));
    CHECK(remove(path) == 0);
    CHECK(program_in(folder, "check @/moved.kit --seed 3", 3, "there is no such file"));
    CHECK(program_in(folder,
                     "check @/moved.kit --seed 3 --plant mujoco:" PF_SOURCE "/examples/arm.xml", 0,
                     "GO: all ready"));
    CHECK(program_in(folder, "check @/moved.kit --plant " SERVO, 3, ""));
}

static void check_program(void)
{
    PF_CASE("a kit of a model file finds a loss and corrects it, from any folder");
    char folder[400];
    CHECK(program_folder(folder, sizeof folder, "arm"));
    CHECK(program_in(folder, "list mujoco:" PF_SOURCE "/examples/arm.xml", 0, "3 wrist "));
    CHECK(program_in(folder, "list mujoco:" PF_SOURCE "/tests/models/crane.xml --json", 0,
                     "\"loss\":\"force\",\"about\":\"motor, holds"));
    CHECK(program_in(folder,
                     "calibrate mujoco:" PF_SOURCE "/examples/../examples/arm.xml -o @/arm.kit "
                     "--probes single --set episodes=40 --set alarm_trials=100",
                     0, "plant mujoco:" PF_SOURCE "/examples/arm.xml"));
    CHECK(program_in(folder, "check @/arm.kit --fault elbow:.5 --seed 3", 0, "GO: all ready"));
    CHECK(program_in(folder, "check @/arm.kit --fault elbow:.5 --seed 3", 0,
                     "elbow: GO. Send elbow 1."));
    CHECK(program_in(folder, "check @/arm.kit --fault elbow:.1 --seed 3", 1, "NO-GO"));
    CHECK(program_in(folder, "check @/arm.kit --seed 3", 0, "GO: all ready"));
    check_moved(folder);
    CHECK(program_in(folder, "check @/arm.kit --report " PF_SOURCE "/examples/../examples/arm.xml",
                     2, "would overwrite a file of the plant"));
    CHECK(program_in(folder, "doctor " SERVO, 0, "also one of what is held at rest"));
    CHECK(program_in(folder, "train " SERVO " -o @/servo.model --profile quick", 3,
                     "its servos lose force, and a learned model knows commands only"));
    CHECK(program_in(folder, "calibrate mujoco:" PF_SOURCE "/tests/models/reach.urdf -o @/r.kit", 3,
                     "'roll' has no finite limits"));
    CHECK(program_in(folder, "demo mujoco:" PF_SOURCE "/tests/models/reach.urdf", 3,
                     "in the file of `calibrate --config`"));
}

// What is said of a loss of force, and of one machine with one motor.
static void check_words(const field_kit *servo)
{
    static const char slow[] =
        "<mujoco><option timestep=\"3\" gravity=\"0 0 0\"/><worldbody><body><joint name=\"x\" "
        "type=\"slide\" damping=\"1\"/><geom size=\".1\"/></body></worldbody><actuator><motor "
        "name=\"push\" joint=\"x\" ctrlrange=\"-1 1\"/></actuator></mujoco>";
    char folder[400], path[480];
    pf_error error;
    PF_CASE("a loss of force is one of its force; one motor alone; a model of long steps rests");
    CHECK(program_folder(folder, sizeof folder, "words"));
    snprintf(path, sizeof path, "%s/servo.kit", folder);
    CHECK(pf__file_write(path, servo->bytes, servo->n, &error) == PF_OK);
    CHECK(program_in(folder, "check @/servo.kit --fault 3:.5 --seed 3 --report @/s.html", 0, ""));
    char *sheet = program_text(folder, "s.html");
    CHECK_CONTAINS(sheet, " of its force (90 % interval ");
    free(sheet);
    snprintf(path, sizeof path, "%s/slow.xml", folder);
    CHECK(pf__file_write(path, slow, sizeof slow - 1, &error) == PF_OK);
    CHECK(program_in(folder, "list mujoco:@/slow.xml", 0, "; it rests after 3 s"));
    CHECK(program_in(folder, "--version; sed 's/=.3. g/=\".05\" g/' @/slow.xml >@/one.xml", 0, ""));
    CHECK(
        program_in(folder, "demo mujoco:@/one.xml", 0,
                   "Today's job moves nothing, and the next job is not known yet. push may have"));
}

// A model that rests well and runs away under its own tasks.
static void check_whip(void)
{
    PF_CASE("a model that runs away is told by doctor, and by what stops with it and what to do");
    char folder[400], part[480];
    CHECK(program_folder(folder, sizeof folder, "whip"));
    CHECK(program_in(folder, "doctor " MODELS "whip.xml", 1,
                     "Calibrate would fail: task 'mb', 'mb' at gain"));
    CHECK(program_in(folder, "doctor " MODELS "whip.xml", 1, "mb (4 times). Give narrower limits"));
    CHECK(program_in(folder, "calibrate " MODELS "whip.xml -o @/w.kit", 3,
                     "task 'mb', 'mb' at gain 1."));
    CHECK(program_in(folder, "calibrate " MODELS "whip.xml -o @/w.kit", 3,
                     "give a smaller amplitude, or the model a shorter timestep"));
    CHECK(program_in(folder, "calibrate " MODELS "whip.xml -o @/w.kit 2>@/said", 3, ""));
    char *said = program_text(folder, "said");
    CHECK_CONTAINS(said, "bad acceleration");
    CHECK(!strstr(said, "goes on from"));
    free(said);
    snprintf(part, sizeof part, "%s/w.kit.part", folder);
    CHECK(access(part, F_OK) != 0);
}

// A crane whose boom sags: the task to slew does not move the boom's motor, and needs it.
static void check_load(void)
{
    PF_CASE("a task that names what holds its load is refused before it is rehearsed");
    char folder[400], path[480];
    CHECK(program_folder(folder, sizeof folder, "crane"));
    snprintf(path, sizeof path, "%s/crane.yaml", folder);
    FILE *file = fopen(path, "w");
    if (!CHECK(file)) {
        return;
    }
    fputs("tasks:\n  - name: slew\n    mechanisms: [slew, luff]\n    command:\n", file);
    for (int r = 0; r < 12; r++) {
        fputs("      - [0, .75, 0]\n", file);
    }
    fclose(file);
    CHECK(program_in(folder,
                     "calibrate " MODELS "crane.xml --config @/crane.yaml -o @/c.kit "
                     "--set episodes=30 --set alarm_trials=100",
                     0, "kit"));
    CHECK(program_in(folder, "kit show @/c.kit", 0, "losses of force luff"));
    CHECK(program_in(folder, "check @/c.kit --fault luff:.8 --seed 2", 1,
                     "slew: NO-GO because it may return as little"));
    CHECK(program_in(folder, "check @/c.kit --fault slew:.5 --seed 2", 0, "GO: all ready"));
}

void test_mujoco_file(void)
{
    PF_CASE("the installed MuJoCo");
    if (!pf__mujoco_version()[0]) {
        pf_plant *plant = NULL;
        pf_error error = {PF_OK, ""};
        CHECK(pf_plant_create(&plant, MODELS "crane.xml", &error) == PF_ERR_UNSUPPORTED);
        CHECK_CONTAINS(error.text, "built without MuJoCo (packages have none); get the source");
        pf_skip("built without MuJoCo (make deps)");
        return;
    }
    check_mixed();
    check_others();
    check_restart("mixed.xml");
    check_restart("crane.xml");
    check_reset();
    check_source();
    check_refusals();
    check_program();
    check_whip();
    check_load();
    const field_kit *servo = field_kit_of(SERVO, "alarm_trials=100");
    check_force_kit(servo);
    check_words(servo);
    check_force_table(&servo->kit);
    check_force_verdicts(&servo->kit);
    json_t *fixture = gymnasium_fixture("mujoco_file_fixture.py");
    if (!fixture) {
        pf_skip("build/venv has no Python package of MuJoCo (make deps)");
        return;
    }
    check_witness(fixture, "mixed.xml");
    check_witness(fixture, "mixed.xml#bent");
    check_witness(fixture, "crane.xml");
    json_decref(fixture);
}
