// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L // symlink
#include "program.h"
#include "model/transitions.h"
#include "test.h"
#include "train.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// --- settings

typedef struct range {
    const char *name;
    size_t at;
    bool whole; // an int, not a double
    double below, above;
} range;

#define AT(field) #field, offsetof(pf_train_settings, field)
static const range ranges[] = {
    {AT(transitions), true, 9, 100000001},
    {AT(episode_steps), true, 0, 10001},
    {AT(correlation), false, -.01, 1},
    {AT(amplitude), false, 0, 101},
    {AT(single), false, -.1, 1.1},
    {AT(members), true, 0, PF_MODEL_MEMBERS + 1},
    {AT(layers), true, 0, PF_MODEL_LAYERS + 1},
    {AT(width), true, 0, PF_MODEL_WIDTH + 1},
    {AT(epochs), true, 0, 100001},
    {AT(batch), true, 0, 65537},
    {AT(patience), true, 0, 100001},
    {AT(learning_rate), false, 0, 1.1},
    {AT(weight_decay), false, -1e-9, 1.1},
    {AT(held_out), false, 0, 1},
};
#undef AT

static void put(pf_train_settings *s, const range *r, double value)
{
    char *at = (char *)s + r->at;
    if (r->whole) {
        *(int *)(void *)at = (int)value;
    } else {
        *(double *)(void *)at = value;
    }
}

static void check_ranges(const pf_plant_info *info)
{
    pf_error error;
    pf_train_settings good = train_settings(150);
    PF_CASE("settings: every one out of its range is refused by name");
    CHECK(pf_train_check(&good, info, &error) == PF_OK);
    for (size_t i = 0; i < COUNT(ranges); i++) {
        const double values[] = {ranges[i].below, ranges[i].above, NAN, -INFINITY};
        for (int k = 0; k < (ranges[i].whole ? 2 : 4); k++) {
            pf_train_settings s = good;
            put(&s, &ranges[i], values[k]);
            error.text[0] = 0;
            CHECK(pf_train_check(&s, info, &error) == PF_ERR_ARGUMENT);
            CHECK(strncmp(error.text, ranges[i].name, strlen(ranges[i].name)) == 0);
        }
    }
    pf_train_settings s = good;
    s.seed = (uint64_t)1 << 54;
    CHECK(pf_train_check(&s, info, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "seed");
}

static void check_memory(const pf_plant_info *info)
{
    pf_error error = {PF_OK, ""};
    pf_train_settings s = train_settings(150);
    PF_CASE("settings: what would not fit in memory is refused, the profiles are not");
    for (const char *const *name = pf__train_profiles(); *name; name++) {
        CHECK(pf_train_profile(&s, *name, &error) == PF_OK);
        CHECK(pf_train_check(&s, info, &error) == PF_OK);
    }
    s = train_settings(150);
    s.transitions = 100000000;
    CHECK(pf_train_check(&s, info, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "GB of memory");
    s = train_settings(150);
    s.members = PF_MODEL_MEMBERS;
    s.layers = PF_MODEL_LAYERS;
    s.width = PF_MODEL_WIDTH;
    CHECK(pf_train_check(&s, info, &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "GB of memory");
    s.members = 1;
    s.batch = 65536;
    CHECK(pf_train_check(&s, info, &error) == PF_ERR_ARGUMENT);
    CHECK(pf_train_profile(&s, "nonsense", &error) == PF_ERR_ARGUMENT);
    CHECK_CONTAINS(error.text, "quick, standard and paper");
}

static bool configured(pf_train_settings *s, const char *text, const char *set, pf_error *error)
{
    *error = (pf_error){PF_OK, ""};
    return pf_train_configure(s, "t.yaml", text, text ? strlen(text) : 0, &set, set ? 1 : 0,
                              error) == PF_OK;
}

static void check_configure(void)
{
    static const char *const bad[][2] = {{"epohcs=3", "epochs"},
                                         {"epochs=0", "epochs"},
                                         {"epochs=1.5", "epochs"},
                                         {"epochs=many", "epochs"},
                                         {"activation=tanh", "tanh"},
                                         {"held_out=0.95", "held_out"},
                                         {"learning_rate=nan", "learning_rate"},
                                         {"correlation=1", "correlation"},
                                         {"members=65", "members"},
                                         {"width=4097", "width"},
                                         {"seed=-1", "seed"},
                                         {"cosine=perhaps", "cosine"},
                                         {"nothing", "nothing"},
                                         {"=3", ""}};
    pf_error error;
    pf_train_settings s = train_settings(150), before = s;
    PF_CASE(
        "settings: a key unknown, out of range or of the wrong kind is refused, nothing is set");
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!CHECK(!configured(&s, NULL, bad[i][0], &error))) {
            printf("    accepted %s\n", bad[i][0]);
        }
        CHECK_CONTAINS(error.text, bad[i][1]);
        CHECK(memcmp(&s, &before, sizeof s) == 0);
    }
    CHECK(!configured(&s, "width: 32\nheight: 3\n", NULL, &error));
    CHECK_CONTAINS(error.text, "t.yaml:2");
    PF_CASE("settings: the file first, then what is set");
    CHECK(configured(&s, "width: 32\nepochs: 7\ncosine: false\nactivation: relu\n", "epochs=9",
                     &error));
    CHECK(s.width == 32 && s.epochs == 9 && !s.cosine && s.activation == PF_ACTIVATION_RELU);
    CHECK(s.batch == before.batch && s.seed == before.seed && s.held_out == before.held_out);
}

// --- the program; in the arguments @ stands for the folder

typedef struct call {
    const char *arguments;
    int status;
    const char *part;
} call;

#define SMALL " --profile quick --set epochs=3 --set transitions=400"
static const call calls[] = {
    {"train", 2, "name one plant"},
    {"train dc_servo", 2, "-o MODEL is missing"},
    {"train dc_servo -o -", 2, "-o MODEL is missing"},
    {"train dc_servo attitude -o @/x", 2, "name one plant"},
    {"train dc_servo -o @/x --plot x.pdf", 2, "--plot x.pdf: must end in .svg or .png"},
    {"train dc_servo -o @/x --plot pdf", 2, "must end in"},
    {"train dc_servo -o @/x --data @/x", 2, "the same file"},
    {"train dc_servo -o @/x --seed -1", 2, "--seed"},
    {"train dc_servo -o @/x --threads 0", 2, "--threads"},
    {"train dc_servo -o @/x --nonsense", 2, "unknown option --nonsense"},
    {"train --help", 0, "Example"},
    {"train nosuch -o @/x", 3, "nosuch"},
    {"train dc_servo -o @/x --profile nonsense", 3, "no profile is called 'nonsense'"},
    {"train dc_servo -o @/no/x" SMALL, 3, "/no/x: "},
    {"train dc_servo -o @" SMALL, 3, "is a folder"},
    {"train dc_servo -o /proc/x" SMALL, 3, "/proc/x"},
    {"train dc_servo -o @/x --log @/no/l" SMALL, 3, "/no/l: "},
    {"train dc_servo -o @/x --plot @/no/p.svg" SMALL, 3, "/no/p.svg: "},
    {"train dc_servo -o @/x --data @/no/d" SMALL, 3, "/no/d: "},
    {"train dc_servo -o @/x --config @/nosuch.yaml", 3, "nosuch.yaml"},
    {"train dc_servo -o @/x --set epohcs=3", 3, "epochs"},
    {"train --recordings @/nosuch.csv -o @/x", 3, "nosuch.csv"},
    {"train --recordings @/log.csv --data @/d -o @/x", 2, "leave --data out"},
    {"train --recordings @/log.csv -o @/log.csv", 2, "the same file"},
    {"train dc_servo --recordings @/log.csv -o @/x", 3, "2 channels and 4 mechanisms"},
    {"train --recordings @/log.csv -o @/x --set window=500", 3, "too few for a window of 500"},
    {"train dc_servo -o @/x --set window=5", 3, "probes and tasks of dc_servo take 12"},
    {"train dc_servo -o @/x --profile fast", 3, "no profile is called 'fast'"},
    {"train dc_servo -o @/x --set width=4096 --set layers=8 --set members=64", 3, "GB of memory"},
};

// A log of something that follows its one command.
static bool write_log(const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/log.csv", folder);
    FILE *f = fopen(path, "w");
    double place = 0, command = 0;
    pf_rng rng;
    pf_rng_init(&rng, 3);
    for (int t = 0; f && t <= 3000; t++) {
        fprintf(f, t == 0 ? "episode,step,place,u0\n" : "");
        fprintf(f, "%d,%d,%.6f,%.6f\n", t / 301, t % 301, place, command);
        command = (double)(float)(.8 * command + .2 * pf_rng_normal(&rng));
        place = .9 * place + .3 * command;
    }
    return f && fclose(f) == 0;
}

static void check_program(void)
{
    char folder[200], x[256], a[256];
    PF_CASE("train program: what is refused has its status, its message and writes nothing");
    CHECK(program_folder(folder, sizeof folder, "train") && write_log(folder));
    snprintf(x, sizeof x, "%s/x", folder);
    for (size_t i = 0; i < COUNT(calls); i++) {
        CHECK(program_in(folder, calls[i].arguments, calls[i].status, calls[i].part));
        CHECK(!train_exists(x));
    }
    PF_CASE("train program: data that were named are used as they are, of this plant alone");
    CHECK(program_in(folder, "train dc_servo -o @/a --data @/d --log @/l" SMALL, 0, "sha256"));
    CHECK(program_in(folder, "train dc_servo -o @/y --data @/d --seed 2" SMALL, 0, "sha256"));
    CHECK(program_in(folder, "train dc_servo -o @/z" SMALL, 0, "sha256"));
    CHECK(program_in(folder, "train dc_servo -o @/z --seed 2" SMALL, 3, "seed"));
    CHECK(program_in(folder, "train attitude -o @/x --data @/d" SMALL, 3, "dc_servo"));
    CHECK(program_in(folder, "train dc_servo -o @/z --set amplitude=.3" SMALL, 3, "amplitude"));
    CHECK(program_in(folder, "train dc_servo -o @/x --data @/a" SMALL, 3,
                     "not a preflight data file"));
    CHECK(!train_exists(x));
    snprintf(a, sizeof a, "%s/x.trajectory.lock", folder);
    CHECK(symlink("nowhere", a) == 0);
    CHECK(program_in(folder, "train dc_servo -o @/x --data @/d" SMALL, 3,
                     "x.trajectory.lock: is a symbolic link"));
    snprintf(a, sizeof a, "%s/nowhere", folder);
    CHECK(!train_exists(x) && !train_exists(a));
    snprintf(a, sizeof a, "%s/x.trajectory.lock", folder);
    CHECK(unlink(a) == 0);
    CHECK(program_in(folder, "train dc_servo -o @/b --data @/d --json" SMALL, 0, "{"));
    char b[256];
    snprintf(a, sizeof a, "%s/a", folder);
    snprintf(b, sizeof b, "%s/b", folder);
    CHECK(train_same_bytes(a, b));
    PF_CASE("train program: a log of a machine alone gives a model, and the words for it");
    CHECK(program_in(folder, "train --recordings @/log.csv -o @/r --profile quick", 0,
                     "good enough for probes and tasks"));
    CHECK(program_in(folder, "train --recordings @/log.csv -o @/r --profile quick --json", 0,
                     "\"gain_sd\":["));
    CHECK(program_in(folder, "model show @/r", 0, "recordings"));
}

void check_train_refused(void)
{
    pf_error error;
    pf_plant *plant = NULL;
    PF_CASE("settings: a plant");
    CHECK(pf_plant_create(&plant, "attitude", &error) == PF_OK);
    check_ranges(pf_plant_get_info(plant));
    check_memory(pf_plant_get_info(plant));
    pf_plant_destroy(plant);
    check_configure();
    check_program();
}
