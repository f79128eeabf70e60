// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include "model/rollout.h"

#include "host/file.h"
#include "model/model_impl.h"
#include "model/safetensors.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// --- a model by hand: an angle, a quaternion, a plain channel; two mechanisms

enum { N_CHAN = 6, N_MECH = 2, N_IN = 9, MEMBERS = 3, LAYERS = 2, WIDTH = 5 };
static const char *const names[N_CHAN] = {"a", "w", "x", "y", "z", "p"};
static const pf_channel_kind kinds[N_CHAN] = {PF_CHANNEL_ANGLE,      PF_CHANNEL_QUATERNION,
                                              PF_CHANNEL_QUATERNION, PF_CHANNEL_QUATERNION,
                                              PF_CHANNEL_QUATERNION, PF_CHANNEL_PLAIN};
static const pf_mechanism mechanisms[N_MECH] = {{"left", -1, 1}, {"right", -INFINITY, INFINITY}};

static pf_model_info own_info(void)
{
    return (pf_model_info){.plant = "own",
                           .source = "tests 1",
                           .n_chan = N_CHAN,
                           .n_mech = N_MECH,
                           .channels = names,
                           .kinds = kinds,
                           .mechanisms = mechanisms,
                           .window = 1,
                           .history = 1,
                           .n_members = MEMBERS,
                           .n_layers = LAYERS,
                           .width = WIDTH,
                           .activation = PF_ACTIVATION_SILU,
                           .data = "",
                           .processor = "none",
                           .valid_error = .25};
}

static void fill(pf_rng *rng, size_t n, double sd, float *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(sd * pf_rng_normal(rng));
    }
}

static pf_model *make(const pf_model_info *info)
{
    pf_error error = {PF_OK, ""};
    pf_model *m = NULL;
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(77));
    if (!CHECK(pf__model_create(&m, info, &error) == PF_OK)) {
        exit(4);
    }
    size_t in = (size_t)m->net.n_in, out = (size_t)info->n_chan;
    fill(&rng, in, .1, m->input_mean);
    for (size_t i = 0; i < in; i++) {
        m->input_scale[i] = (float)(.5 + pf_rng_uniform(&rng));
    }
    fill(&rng, out, .01, m->change_mean);
    fill(&rng, out, .1, m->change_scale);
    fill(&rng, out * in, .1, m->change_linear);
    fill(&rng, (size_t)info->n_members * pf__net_parameters(&m->net), .4, m->theta);
    return m;
}

static void path_of(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", pf_scratch_dir(), name);
}

static void save(const char *path)
{
    pf_error error;
    pf_model_info info = own_info();
    pf_model *m = make(&info);
    CHECK(pf__model_save(m, path, 0, NULL, &error) == PF_OK);
    pf_model_destroy(m);
}

// --- requests

static const double start[N_CHAN] = {3, -1, 2, 0, .5, 1};

// Responses of one member to three hypotheses over 12 steps.
enum { STEPS = 12, HYPOTHESES = 3, RESPONSE = STEPS * HYPOTHESES * N_CHAN };
static const double gains[HYPOTHESES * N_MECH] = {1, 1, .35, 1, 1, .2};

static pf_status roll(const pf_model *m, int member, double *response, pf_error *error)
{
    double command[STEPS * N_MECH];
    for (int i = 0; i < STEPS * N_MECH; i++) {
        command[i] = 2 * sin(.7 * i); // beyond the limits of one
    }
    double *scratch = calloc(pf__model_scratch(m, HYPOTHESES) + RESPONSE, sizeof *scratch);
    pf_model_request q = {start, command, STEPS, HYPOTHESES, gains, NULL};
    *error = (pf_error){PF_OK, ""};
    pf_status status = member < 0 ? pf__model_mean(m, &q, scratch, response, error)
                                  : pf__model_roll(m, member, &q, scratch, response, error);
    free(scratch);
    return status;
}

static void test_save_load(void)
{
    char path[256];
    pf_error error = {PF_OK, ""};
    pf_model_info info = own_info();
    pf_model *made = make(&info), *read = NULL;
    double a[RESPONSE], b[RESPONSE];
    PF_CASE("model: a file gives back what was written, numbers to the bit");
    path_of(path, "own.model");
    CHECK(pf__model_save(made, path, 0, NULL, &error) == PF_OK);
    CHECK(pf_model_load(&read, path, &error) == PF_OK && read);
    const pf_model_info *i = pf_model_get_info(read);
    CHECK_STR(i->plant, "own");
    CHECK_STR(i->source, "tests 1");
    CHECK_STR(i->channels[5], "p");
    CHECK_STR(i->mechanisms[1].name, "right");
    CHECK_STR(i->sha256, pf_model_get_info(made)->sha256);
    CHECK(i->n_members == MEMBERS && i->n_layers == LAYERS && i->width == WIDTH);
    CHECK(i->mechanisms[0].hi == 1 && isinf(i->mechanisms[1].lo) && i->valid_error == .25);
    CHECK(memcmp(i->kinds, kinds, sizeof kinds) == 0);
    for (int e = -1; e < MEMBERS; e++) {
        CHECK(roll(made, e, a, &error) == PF_OK && roll(read, e, b, &error) == PF_OK);
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
    PF_CASE("model: the mean is that of the members");
    double mean[RESPONSE] = {0}, worst = 0;
    for (int e = 0; e < MEMBERS; e++) {
        CHECK(roll(made, e, a, &error) == PF_OK);
        for (int k = 0; k < RESPONSE; k++) {
            mean[k] += a[k];
        }
    }
    CHECK(roll(made, -1, a, &error) == PF_OK);
    for (int k = 0; k < RESPONSE; k++) {
        worst = fmax(worst, fabs(mean[k] / MEMBERS - a[k]));
    }
    CHECK_NEAR(worst, 0, 1e-13);
    CHECK(a[STEPS * N_CHAN - 1] != a[2 * STEPS * N_CHAN - 1]); // a gain does something
    pf_model_destroy(made);
    pf_model_destroy(read);
    pf_model_destroy(NULL);
}

static void test_requests_refused(void)
{
    PF_CASE("model: requests without sense are refused");
    pf_model_info info = own_info();
    pf_model *m = make(&info);
    const double command[2 * N_MECH] = {0}, bad[2 * N_MECH] = {0, 0, NAN, 0};
    double nan_start[N_CHAN] = {0, 1, 0, 0, NAN, 0}, response[4 * N_CHAN];
    double *scratch = calloc(pf__model_scratch(m, 2) + COUNT(response), sizeof *scratch);
    const pf_model_request good = {start, command, 2, 2, gains, NULL};
    pf_error error = {PF_OK, ""};
    CHECK(pf__model_roll(m, 0, &good, scratch, response, &error) == PF_OK);
    pf_model_request q = good;
    q.start = nan_start;
    CHECK(pf__model_roll(m, 0, &q, scratch, response, &error) == PF_ERR_NONFINITE);
    CHECK_CONTAINS(error.text, "'z'");
    CHECK(pf__model_mean(m, &q, scratch, response, &error) == PF_ERR_NONFINITE);
    q = good;
    q.command = bad;
    CHECK(pf__model_roll(m, 0, &q, scratch, response, &error) == PF_ERR_NONFINITE);
    for (int k = 0; k < 4; k++) {
        q = good;
        *(k % 2 ? &q.steps : &q.n_hypotheses) = k < 2 ? 0 : -1;
        CHECK(pf__model_roll(m, 0, &q, scratch, response, &error) == PF_ERR_ARGUMENT);
        CHECK_CONTAINS(error.text, "a request of");
        CHECK(pf__model_mean(m, &q, scratch, response, &error) == PF_ERR_ARGUMENT);
    }
    q = good;
    q.steps = 1 << 30;
    CHECK(pf__model_roll(m, 0, &q, scratch, response, &error) == PF_ERR_ARGUMENT);
    CHECK(pf__model_mean(m, &q, scratch, response, &error) == PF_ERR_ARGUMENT);
    CHECK(pf__model_roll(m, -1, &good, scratch, response, &error) == PF_ERR_ARGUMENT);
    CHECK(pf__model_roll(m, MEMBERS, &good, scratch, response, &error) == PF_ERR_ARGUMENT);
    free(scratch);
    pf_model_destroy(m);
}

static void test_leaves_finite(void)
{
    static const pf_activation activations[] = {PF_ACTIVATION_SILU, PF_ACTIVATION_RELU};
    PF_CASE("model: a prediction that leaves the finite numbers is an error, not a number");
    for (size_t k = 0; k < COUNT(activations); k++) {
        double response[RESPONSE];
        pf_error error;
        pf_model_info info = own_info();
        info.activation = activations[k];
        pf_model *m = make(&info);
        for (size_t i = 0; i < pf__net_parameters(&m->net); i++) {
            m->theta[i] = i % 2 ? 3e38f : -3e38f;
        }
        CHECK(roll(m, 0, response, &error) == PF_ERR_NONFINITE);
        CHECK_CONTAINS(error.text, "leaves the finite numbers");
        pf_model_destroy(m);
    }
}

typedef struct asker {
    const pf_model *model;
    const double *expected; // MEMBERS x RESPONSE
    int different;
} asker;

static void *ask(void *self)
{
    asker *a = self;
    double response[RESPONSE];
    pf_error error;
    for (int k = 0; k < 300; k++) {
        int e = k % MEMBERS;
        a->different += roll(a->model, e, response, &error) != PF_OK ||
                        memcmp(response, a->expected + e * RESPONSE, sizeof response) != 0;
    }
    return NULL;
}

static void test_same_bits(void)
{
    PF_CASE("model: a request gives the same bits again, and from two threads at once");
    pf_model_info info = own_info();
    pf_model *m = make(&info);
    static double expected[MEMBERS * RESPONSE];
    pf_error error;
    for (int e = 0; e < MEMBERS; e++) {
        CHECK(roll(m, e, expected + e * RESPONSE, &error) == PF_OK);
    }
    asker askers[2] = {{m, expected, 0}, {m, expected, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, ask, &askers[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK(askers[i].different == 0);
    }
    PF_CASE("model: a hypothesis does not depend on those beside it");
    double command[STEPS * N_MECH], one[STEPS * N_CHAN];
    for (int i = 0; i < STEPS * N_MECH; i++) {
        command[i] = 2 * sin(.7 * i);
    }
    double *scratch = calloc(pf__model_scratch(m, 1), sizeof *scratch);
    for (int h = 0; h < HYPOTHESES; h++) {
        pf_model_request q = {start, command, STEPS, 1, gains + h * N_MECH, NULL};
        CHECK(pf__model_roll(m, 1, &q, scratch, one, &error) == PF_OK);
        CHECK(memcmp(one, expected + RESPONSE + h * STEPS * N_CHAN, sizeof one) == 0);
    }
    free(scratch);
    pf_model_destroy(m);
}

// --- files that are refused

// One thing that is changed in a good file.
typedef struct change {
    const char *meta, *value; // value NULL: left out
    const char *tensor;       // left out where rows is 0, else of this shape, columns 0: one
    size_t rows, columns;     // dimension; a name that is not there is added
    pf_status code;
    const char *part;
} change;

static const change changes[] = {
    {"format", "other", .code = PF_ERR_FORMAT, .part = "no model of preflight"},
    {"format", NULL, .code = PF_ERR_FORMAT, .part = "'format'"},
    {"version", "2", .code = PF_ERR_VERSION, .part = "version 2, this program reads 1"},
    {"version", NULL, .code = PF_ERR_VERSION, .part = "missing"},
    {"activation", "tanh", .code = PF_ERR_FORMAT, .part = "silu or relu"},
    {"activation", NULL, .code = PF_ERR_FORMAT, .part = "silu or relu"},
    {"plant", NULL, .code = PF_ERR_FORMAT, .part = "'plant' is missing"},
    {"plant", "", .code = PF_ERR_FORMAT, .part = "'plant' is missing"},
    {"channels", NULL, .code = PF_ERR_FORMAT, .part = "'channels' is missing"},
    {"channels", "a,b", .code = PF_ERR_FORMAT, .part = "'kinds' has another number"},
    {"kinds", "plain", .code = PF_ERR_FORMAT, .part = "'kinds' has another number"},
    {"kinds", "plain,plain,plain,plain,plain,banana", .code = PF_ERR_FORMAT,
     .part = "plain, angle"},
    {"kinds", "plain,plain,quaternion,quaternion,quaternion,plain", .code = PF_ERR_FORMAT,
     .part = "four channels in a row"},
    {"kinds", NULL, .code = PF_ERR_SHAPE, .part = "another shape"}, // all plain: fewer inputs
    {"mechanisms", NULL, .code = PF_ERR_FORMAT, .part = "'mechanisms' is missing"},
    {"mechanisms", "one", .code = PF_ERR_FORMAT, .part = "'lo' has another number"},
    {"lo", NULL, .code = PF_ERR_FORMAT, .part = "'lo' is missing"},
    {"hi", NULL, .code = PF_ERR_FORMAT, .part = "'hi' is missing"},
    {"lo", "-1,x", .code = PF_ERR_FORMAT, .part = "no number"},
    {"lo", "-1,", .code = PF_ERR_FORMAT, .part = "no number"},
    {"lo", "-1,nan", .code = PF_ERR_FORMAT, .part = "no number"},
    {"lo", "2,-inf", .code = PF_ERR_FORMAT, .part = "above that of 'hi'"},
    {.tensor = "input.mean", .code = PF_ERR_SHAPE, .part = "'input.mean' is missing"},
    {.tensor = "change.scale", .code = PF_ERR_SHAPE, .part = "'change.scale' is missing"},
    {.tensor = "members.1.1.bias", .code = PF_ERR_SHAPE, .part = "'members.1.1.bias' is missing"},
    {.tensor = "members.0.0.weight", .code = PF_ERR_SHAPE, .part = "'members.0.0.weight'"},
    {.tensor = "members.1.0.weight", .code = PF_ERR_SHAPE, .part = "tensors where this model has"},
    {.tensor = "members.0.2.weight", .code = PF_ERR_SHAPE, .part = "another shape"},
    {.tensor = "more",
     .rows = 1,
     .code = PF_ERR_SHAPE,
     .part = "24 tensors where this model has 23"},
    {.tensor = "members.3.0.weight",
     .rows = WIDTH,
     .columns = N_IN,
     .code = PF_ERR_SHAPE,
     .part = "'members.3.0.bias' is missing"},
    {.tensor = "input.scale",
     .rows = 1,
     .columns = N_IN,
     .code = PF_ERR_SHAPE,
     .part = "'input.scale' has another shape"},
    {.tensor = "input.scale", .rows = N_IN - 1, .code = PF_ERR_SHAPE, .part = "'input.scale'"},
    {.tensor = "change.linear",
     .rows = N_IN,
     .columns = N_CHAN,
     .code = PF_ERR_SHAPE,
     .part = "'change.linear'"},
    {.tensor = "members.0.0.weight",
     .rows = N_IN,
     .columns = WIDTH,
     .code = PF_ERR_SHAPE,
     .part = "another shape"},
    {.tensor = "members.2.1.weight",
     .rows = WIDTH,
     .columns = WIDTH + 1,
     .code = PF_ERR_SHAPE,
     .part = "'members.2.1.weight'"},
    {.tensor = "members.0.0.weight",
     .rows = PF_MODEL_WIDTH + 1,
     .columns = 1,
     .code = PF_ERR_SHAPE,
     .part = "out of range"},
};

// Writes a copy of a file with one change.
static bool write_changed(const pf_safetensors *file, const change *c, const char *path)
{
    static const float zeros[PF_MODEL_WIDTH + 1];
    pf_error error = {PF_OK, ""};
    pf_meta meta[40];
    pf_tensor tensors[40];
    int n_meta = 0, n = 0;
    bool found = !c->tensor;
    for (int i = 0; i < file->n_meta; i++) {
        bool same = c->meta && strcmp(file->meta[i].key, c->meta) == 0;
        bool digest = strcmp(file->meta[i].key, PF_CONTENTS) == 0;
        meta[n_meta] = (pf_meta){file->meta[i].key, same ? c->value : file->meta[i].value};
        n_meta += meta[n_meta].value != NULL && !digest; // as if written elsewhere
    }
    pf_tensor own = {c->tensor, c->columns > 0 ? 2 : 1, {c->rows, c->columns}, zeros};
    for (int i = 0; i < file->n_tensors; i++) {
        bool same = c->tensor && strcmp(file->tensors[i].name, c->tensor) == 0;
        tensors[n] = same ? own : file->tensors[i];
        n += !same || c->rows > 0;
        found = found || same;
    }
    if (!found) {
        tensors[n++] = own;
    }
    bool written = pf__safetensors_write(path, n_meta, meta, n, tensors, NULL, &error) == PF_OK;
    return CHECK_STR(error.text, "") && written;
}

static bool refused(const char *path, pf_status code, const char *part)
{
    pf_error error = {PF_OK, ""};
    pf_model *m = (pf_model *)&error;
    pf_status status = pf_model_load(&m, path, &error);
    bool good = CHECK(status == code) && CHECK(m == NULL) && CHECK_CONTAINS(error.text, part);
    if (status == PF_OK) {
        pf_model_destroy(m);
    }
    return good;
}

static void test_changed(const char *path)
{
    char other[256];
    pf_safetensors file;
    pf_error error = {PF_OK, ""};
    path_of(other, "changed.model");
    CHECK(pf__safetensors_read(&file, path, &error) == PF_OK);
    for (size_t i = 0; i < COUNT(changes); i++) {
        const change *c = &changes[i];
        char label[200];
        snprintf(label, sizeof label, "model: refused with %s %s %s", c->meta ? c->meta : c->tensor,
                 c->meta ? "of" : "of rows",
                 c->meta ? (c->value ? c->value : "nothing") : (c->rows > 0 ? "other" : "nothing"));
        PF_CASE(label);
        if (write_changed(&file, c, other)) {
            refused(other, c->code, c->part);
        }
    }
    PF_CASE("model: a copy without a change loads, and one without the linear part");
    pf_model *m = NULL;
    CHECK(write_changed(&file, &(change){.part = ""}, other));
    CHECK(pf_model_load(&m, other, &error) == PF_OK);
    pf_model_destroy(m);
    CHECK(write_changed(&file, &(change){.tensor = "change.linear"}, other));
    CHECK(pf_model_load(&m, other, &error) == PF_OK);
    pf_model_destroy(m);
    pf__safetensors_free(&file);
}

// Where the numbers of a tensor lie in the bytes of a file.
static size_t place_of(const uint8_t *bytes, const char *tensor)
{
    size_t header = (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16;
    char key[80];
    snprintf(key, sizeof key, "\"%s\"", tensor);
    const char *at = strstr((const char *)bytes + 8, key);
    const char *offsets = at ? strstr(at, "\"data_offsets\":[") : NULL;
    return CHECK(offsets != NULL) ? 8 + header + strtoul(offsets + 16, NULL, 10) : 0;
}

static void test_bytes(const char *path)
{
    char other[256];
    void *data = NULL;
    size_t n = 0;
    pf_error error;
    path_of(other, "bytes.model");
    CHECK(pf__file_read(path, 1 << 20, &data, &n, &error) == PF_OK);
    uint8_t *bytes = data;
    static const float bad[] = {NAN, INFINITY, 0, -1};
    PF_CASE("model: weights that are not finite are refused");
    for (int k = 0; k < 2; k++) {
        uint8_t *at = bytes + place_of(bytes, "members.1.1.weight") + 8, kept[4];
        memcpy(kept, at, 4);
        memcpy(at, &bad[k], 4);
        CHECK(pf__file_write(other, bytes, n, &error) == PF_OK);
        refused(other, PF_ERR_NONFINITE, "members.1.1.weight");
        memcpy(at, kept, 4);
    }
    PF_CASE("model: a flipped bit of a weight is refused");
    uint8_t *weight = bytes + place_of(bytes, "members.1.1.weight") + 8;
    *weight ^= 1;
    CHECK(pf__file_write(other, bytes, n, &error) == PF_OK);
    refused(other, PF_ERR_CHECKSUM, "not what was written");
    *weight ^= 1;
    PF_CASE("model: an input scale of zero or below is refused");
    for (int k = 2; k < 4; k++) {
        uint8_t *at = bytes + place_of(bytes, "input.scale") + 4, kept[4];
        memcpy(kept, at, 4);
        memcpy(at, &bad[k], 4);
        CHECK(pf__file_write(other, bytes, n, &error) == PF_OK);
        refused(other, PF_ERR_FORMAT, "'input.scale' 1 is not positive");
        memcpy(at, kept, 4);
    }
    PF_CASE("model: cut off anywhere it is refused");
    int loaded = 0;
    for (size_t cut = 0; cut < n; cut += cut < 3000 ? 37 : 101) {
        pf_model *m = NULL;
        CHECK(pf__file_write(other, bytes, cut, &error) == PF_OK);
        loaded += pf_model_load(&m, other, &error) == PF_OK;
        pf_model_destroy(m);
    }
    CHECK(loaded == 0);
    PF_CASE(
        "model: a flipped bit of the header is refused, or loads a model that predicts or fails");
    size_t end = 8 + (size_t)bytes[0] + ((size_t)bytes[1] << 8);
    int asked = 0;
    for (size_t i = 0; i < end; i++) {
        pf_model *m = NULL;
        uint8_t bit = (uint8_t)(1 << (i % 8));
        bytes[i] ^= bit;
        CHECK(pf__file_write(other, bytes, n, &error) == PF_OK);
        error.text[0] = 0;
        bool good = pf_model_load(&m, other, &error) == PF_OK;
        if (!good && !CHECK(m == NULL && error.text[0])) {
            break;
        }
        asked++;
        loaded += good;
        pf_model_destroy(m);
        bytes[i] ^= bit;
    }
    CHECK(asked == (int)end && loaded < asked / 2);
    free(data);
}

static void test_fits(const char *path)
{
    pf_error error = {PF_OK, ""};
    pf_model *m = NULL;
    pf_channel channels[N_CHAN];
    pf_mechanism own[N_MECH];
    pf_channel_kind own_kinds[N_CHAN];
    for (int c = 0; c < N_CHAN; c++) {
        channels[c] = (pf_channel){.name = names[c]};
    }
    memcpy(own, mechanisms, sizeof own);
    memcpy(own_kinds, kinds, sizeof kinds);
    pf_plant_info info = {.name = "own",
                          .n_mech = N_MECH,
                          .n_chan = N_CHAN,
                          .mechanisms = own,
                          .channels = channels,
                          .kinds = own_kinds};
    PF_CASE("model: fits its plant, and no other name, channels, kinds, mechanisms or limits");
    CHECK(pf_model_load(&m, path, &error) == PF_OK);
    info.source = "tests 1";
    CHECK(pf__model_fits(m, &info, &error) == PF_OK);
    pf_plant_info other = info;
    other.source = "tests 2";
    CHECK(pf__model_fits(m, &other, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "source is 'tests 1' in the model and 'tests 2' here; train again");
    other = info;
    other.name = "else";
    CHECK(pf__model_fits(m, &other, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "the plant is 'own' in the model and 'else' here");
    other = info;
    other.n_mech = 1;
    CHECK(pf__model_fits(m, &other, &error) == PF_ERR_MISMATCH);
    other = info;
    other.kinds = NULL;
    CHECK(pf__model_fits(m, &other, &error) == PF_ERR_MISMATCH);
    channels[5].name = "q";
    CHECK(pf__model_fits(m, &info, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "channel 5 is");
    channels[5].name = names[5];
    own[0].hi = 1.5;
    CHECK(pf__model_fits(m, &info, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "is 1 in the model and 1.5 here");
    own[0] = mechanisms[0];
    own[1].name = "wrong";
    CHECK(pf__model_fits(m, &info, &error) == PF_ERR_MISMATCH);
    CHECK_CONTAINS(error.text, "mechanism 1 is");
    pf_model_destroy(m);
}

static void test_names(void)
{
    PF_CASE("model: a name that the file's lists could not give back is refused at once");
    const char *with_comma[N_CHAN] = {"a", "w", "x,y", "y", "z", "p"};
    pf_mechanism own[N_MECH] = {{"left", -1, 1}, {"up,down", -1, 1}};
    pf_model_info info = own_info();
    pf_error error = {PF_OK, ""};
    pf_model *m = NULL;
    info.channels = with_comma;
    CHECK(pf__model_create(&m, &info, &error) == PF_ERR_FORMAT && !m);
    CHECK_CONTAINS(error.text, "x,y");
    info = own_info();
    info.mechanisms = own;
    CHECK(pf__model_create(&m, &info, &error) == PF_ERR_FORMAT && !m);
    CHECK_CONTAINS(error.text, "up,down");
}

void test_model(void)
{
    char path[256];
    path_of(path, "good.model");
    save(path);
    test_save_load();
    test_requests_refused();
    test_leaves_finite();
    test_same_bits();
    test_changed(path);
    test_bytes(path);
    test_fits(path);
    test_names();
}
