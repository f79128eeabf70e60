// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "model/rollout.h"

#include "host/parallel.h"
#include "model/kernels/loops.h"
#include "model/kernels/matmul.h"
#include "model/train_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Training and rollouts of the paper's ensemble (12 members, three layers of 512, batch 1,024) on
// two threads, beside the bare matrix products of the same shapes, by our kernel and by OpenBLAS.
// bench_world.py does the same in PyTorch.

enum {
    MEMBERS = 12,
    LAYERS = 3,
    WIDTH = 512,
    BATCH = 1024,
    ROWS = 50000,
    HYPOTHESES = 160, // 16 hypotheses x 10 gains
    STEPS = 12,
    REPEAT = 5
};
static const double shortest = .5; // seconds of a measurement

typedef struct shape {
    int n_chan, n_mech;
} shape;

typedef struct problem {
    pf_model *model, *direct,
        *linear; // step after step; all steps at once, with and without networks
    pf_train_settings settings;
    pf_dataset set;
    pf_member member[2];
    pf_epoch_space space[2];
    double *scratch[2], *response[2];
    double *start, *command, *gains;
} problem;

static void *take(size_t n, size_t size)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n * size + 64) != 0) {
        fputs("bench_world: out of memory\n", stderr);
        exit(1);
    }
    memset(p, 0, n * size);
    return p;
}

static void must(pf_status status, const pf_error *error)
{
    if (status != PF_OK) {
        fprintf(stderr, "bench_world: %s\n", error->text);
        exit(1);
    }
}

static pf_model *make_model(shape s, int window, int members, int layers)
{
    pf_model *model = NULL;
    pf_error error = {PF_OK, ""};
    const char **channels = take((size_t)s.n_chan, sizeof *channels);
    pf_channel_kind *kinds = take((size_t)s.n_chan, sizeof *kinds);
    pf_mechanism *mechanisms = take((size_t)s.n_mech, sizeof *mechanisms);
    for (int c = 0; c < s.n_chan; c++) {
        channels[c] = "x";
    }
    for (int j = 0; j < s.n_mech; j++) {
        mechanisms[j] = (pf_mechanism){"u", -1, 1};
    }
    pf_model_info info = {.plant = "made-up",
                          .source = "",
                          .n_chan = s.n_chan,
                          .n_mech = s.n_mech,
                          .channels = channels,
                          .kinds = kinds,
                          .mechanisms = mechanisms,
                          .window = window,
                          .history = 1,
                          .n_members = members,
                          .n_layers = layers,
                          .width = WIDTH,
                          .data = "",
                          .processor = ""};
    must(pf__model_create(&model, &info, &error), &error);
    pf_rng rng;
    pf_rng_init(&rng, 1);
    size_t n = pf__net_parameters(&model->net);
    for (int e = 0; e < members && layers > 0; e++) {
        pf__net_init(&model->net, &rng, model->theta + (size_t)e * n);
    }
    pf__model_pack(model);
    for (int i = 0; i < model->net.n_in; i++) {
        model->input_scale[i] = 1;
    }
    for (int c = 0; c < model->net.n_out; c++) {
        model->change_scale[c] = .01f;
    }
    return model;
}

static void make_data(problem *p)
{
    const pf_net *net = &p->model->net;
    pf_rng rng;
    pf_rng_init(&rng, 2);
    p->settings = (pf_train_settings){.members = MEMBERS,
                                      .layers = LAYERS,
                                      .width = WIDTH,
                                      .epochs = 1 << 20,
                                      .batch = BATCH,
                                      .patience = 1 << 20,
                                      .learning_rate = 1e-3};
    p->set = (pf_dataset){.n_in = net->n_in, .n_out = net->n_out, .n_train = ROWS, .n_valid = 1};
    p->set.x = take((size_t)(ROWS + 1) * (size_t)net->n_in, sizeof(float));
    p->set.y = take((size_t)(ROWS + 1) * (size_t)net->n_out, sizeof(float));
    for (size_t i = 0; i < (size_t)ROWS * (size_t)net->n_in; i++) {
        p->set.x[i] = (float)pf_rng_normal(&rng);
    }
    for (size_t i = 0; i < (size_t)ROWS * (size_t)net->n_out; i++) {
        p->set.y[i] = (float)pf_rng_normal(&rng);
    }
    size_t n = pf__net_parameters(net);
    for (int w = 0; w < 2; w++) {
        pf_member *m = &p->member[w];
        m->index = w;
        m->theta = take(n, sizeof(float));
        m->first = take(n, sizeof(float));
        m->second = take(n, sizeof(float));
        m->kept = take(n, sizeof(float));
        m->history = take((size_t)1 << 16, sizeof(float));
        pf__member_init(m, &p->settings, net);
        pf_epoch_space *space = &p->space[w];
        space->order = take(ROWS, sizeof(int));
        space->x = take((size_t)BATCH * (size_t)net->n_in, sizeof(float));
        space->y = take((size_t)BATCH * (size_t)net->n_out, sizeof(float));
        space->gradient = take(n, sizeof(float));
        space->work = take(pf__net_gradient_work(net, BATCH), sizeof(float));
    }
}

static pf_status one_epoch(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    problem *p = self;
    return pf__member_epoch(&p->member[item], &p->settings, &p->model->net, &p->set, NULL,
                            &p->space[item], NULL, error);
}

// The products of one epoch alone, on the same memory.
static pf_status one_bare(void *self, int worker, size_t item, pf_error *error)
{
    (void)worker;
    (void)error;
    problem *p = self;
    const pf_net *net = &p->model->net;
    pf_epoch_space *s = &p->space[item];
    const float *theta = p->member[item].theta;
    size_t size = (size_t)BATCH * WIDTH;
    for (int b = 0; b < ROWS / BATCH; b++) {
        for (int l = 0; l <= net->n_layers; l++) {
            int in = pf__net_inputs(net, l), out = pf__net_outputs(net, l);
            const float *below = l == 0 ? s->x : s->work + (size_t)(l - 1) * size;
            float *above = s->work + (size_t)l * size;
            pf__matmul(false, true, BATCH, out, in, below, theta + pf__net_weight(net, l), above);
            pf__matmul(true, false, out, in, BATCH, above, below,
                       s->gradient + pf__net_weight(net, l));
            if (l > 0) {
                pf__matmul(false, false, BATCH, in, out, above, theta + pf__net_weight(net, l),
                           s->work + (size_t)(net->n_layers + 1) * size);
            }
        }
    }
    return PF_OK;
}

static pf_status roll(problem *p, const pf_model *model, int worker, size_t item, pf_error *error)
{
    pf_model_request request = {p->start, p->command, STEPS, HYPOTHESES, p->gains, NULL};
    return pf__model_roll(model, (int)item, &request, p->scratch[worker], p->response[worker],
                          error);
}

static pf_status one_roll(void *self, int worker, size_t item, pf_error *error)
{
    problem *p = self;
    return roll(p, p->model, worker, item, error);
}

static pf_status one_direct(void *self, int worker, size_t item, pf_error *error)
{
    problem *p = self;
    return roll(p, p->direct, worker, item, error);
}

static pf_status one_linear(void *self, int worker, size_t item, pf_error *error)
{
    problem *p = self;
    return roll(p, p->linear, worker, item, error);
}

// Best time of a piece of work over a few repetitions, each at least as long as `shortest`, after
// one to warm up.
static double best_time(problem *p, int repeat, size_t items, pf_item_fn work)
{
    double best = INFINITY;
    pf_error error = {PF_OK, ""};
    must(pf__parallel(NULL, 2, items, work, p, "", &error), &error);
    for (int r = 0; r < repeat; r++) {
        int runs = 0;
        double begin = bench_now(), now = begin;
        while (now - begin < shortest) {
            must(pf__parallel(NULL, 2, items, work, p, "", &error), &error);
            runs++;
            now = bench_now();
        }
        best = fmin(best, (now - begin) / runs);
    }
    return best;
}

// The work that a figure counts, and how much of it one run does.
typedef struct kind {
    const char *before, *after; // the shape, in its name
    size_t items;
    pf_item_fn work;
    double amount;
    const char *unit;
    pf_engine engine;
} kind;

static const kind kinds[] = {
    {"train_", "", 2, one_epoch, 2.0 * (ROWS / BATCH) * BATCH, "samples/s", PF_ENGINE_AUTO},
    {"train_", "_products", 2, one_bare, 2.0 * (ROWS / BATCH) * BATCH, "samples/s", PF_ENGINE_AUTO},
    {"train_", "_sgemm", 2, one_bare, 2.0 * (ROWS / BATCH) * BATCH, "samples/s", PF_ENGINE_LIBRARY},
    {"roll_", "", MEMBERS, one_roll, (double)HYPOTHESES *MEMBERS *STEPS, "steps/s", PF_ENGINE_AUTO},
    {"roll_", "_trajectory", MEMBERS, one_direct, (double)HYPOTHESES *MEMBERS *STEPS, "steps/s",
     PF_ENGINE_AUTO},
    {"roll_", "_linear", 1, one_linear, (double)HYPOTHESES *STEPS, "steps/s", PF_ENGINE_AUTO},
};

static void make_problem(problem *p, shape s)
{
    p->model = make_model(s, 1, MEMBERS, LAYERS);
    p->direct = make_model(s, STEPS, MEMBERS, LAYERS);
    p->linear = make_model(s, STEPS, 1, 0);
    make_data(p);
    p->start = take((size_t)s.n_chan, sizeof(double));
    p->command = take((size_t)STEPS * (size_t)s.n_mech, sizeof(double));
    p->gains = take((size_t)HYPOTHESES * (size_t)s.n_mech, sizeof(double));
    pf_rng rng;
    pf_rng_init(&rng, 3);
    for (int i = 0; i < STEPS * s.n_mech; i++) {
        p->command[i] = 2 * pf_rng_uniform(&rng) - 1;
    }
    for (int i = 0; i < HYPOTHESES * s.n_mech; i++) {
        p->gains[i] = pf_rng_uniform(&rng);
    }
    for (int w = 0; w < 2; w++) {
        size_t one = pf__model_scratch(p->model, HYPOTHESES);
        size_t other = pf__model_scratch(p->direct, HYPOTHESES);
        p->scratch[w] = take(one > other ? one : other, sizeof(double));
        p->response[w] = take((size_t)HYPOTHESES * STEPS * (size_t)s.n_chan, sizeof(double));
    }
}

typedef struct turn {
    problem *p;
    const kind *k;
} turn;

static double one_turn(void *self)
{
    const turn *t = self;
    pf_error error = {PF_OK, ""};
    must(pf__parallel(NULL, 2, t->k->items, t->k->work, t->p, "", &error), &error);
    return t->k->amount;
}

// Turns of a figure: as it is chosen here, or as on a processor without AVX-512.
static int take_turns(const char *wanted, bool narrow)
{
    static const struct {
        const char *name;
        shape shape;
    } shapes[] = {{"113_105", {105, 8}}, {"35_27", {27, 8}}};
    size_t n = sizeof kinds / sizeof kinds[0];
    for (size_t i = 0; i < 2 * n; i++) {
        const kind *k = &kinds[i % n];
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", k->before, shapes[i / n].name, k->after);
        if (strcmp(wanted, name) == 0) {
            static problem p;
            pf__loop_narrow(narrow);
            if (!pf__matmul_engine(narrow ? PF_ENGINE_LIBRARY : k->engine)) {
                fputs("bench_world: built without OpenBLAS\n", stderr);
                return 1;
            }
            make_problem(&p, shapes[i / n].shape);
            return bench_turns(one_turn, &(turn){&p, k});
        }
    }
    fprintf(stderr, "bench_world: no figure %s\n", wanted);
    return 1;
}

// Every figure of a shape, or the one that is wanted, once; false: there is none of that name.
static bool measure(shape s, const char *shape_name, const char *wanted)
{
    problem p = {0};
    bool any = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const kind *k = &kinds[i];
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", k->before, shape_name, k->after);
        if ((wanted && strcmp(wanted, name) != 0) || !pf__matmul_engine(k->engine)) {
            continue;
        }
        if (!any) {
            make_problem(&p, s);
            any = true;
        }
        double time = best_time(&p, wanted ? 1 : REPEAT, k->items, k->work);
        bench_print(name, k->amount / time, k->unit);
    }
    pf__matmul_engine(PF_ENGINE_AUTO);
    return any;
}

// bench_world [FIGURE]: all figures, the best of a few turns each; or one turn of one of them.
// bench_world turns FIGURE [avx2]; bench_world library: the name of what computes the products, and
// whether it is for AVX-512.
int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : NULL;
    if (wanted && strcmp(wanted, "library") == 0) {
        printf("%s\n%s\n", pf__numeric_library(), pf__wide_available() ? "avx512" : "avx2");
        return 0;
    }
    if (argc > 2 && strcmp(wanted, "turns") == 0) {
        return take_turns(argv[2], argc > 3 && strcmp(argv[3], "avx2") == 0);
    }
    if (!wanted) {
        fprintf(stderr, "numeric library: %s\n", pf__numeric_library());
    }
    bool wide = measure((shape){105, 8}, "113_105", wanted);
    bool narrow = measure((shape){27, 8}, "35_27", wanted);
    if (!wide && !narrow) {
        fprintf(stderr, "bench_world: no figure %s\n", wanted);
        return 1;
    }
    return 0;
}
