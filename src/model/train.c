// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // flock
#include "host/file.h"
#include "host/parallel.h"
#include "rollout.h"
#include "transitions.h"
#include "core/sha256.h"
#include "host/text.h"
#include "settings/settings.h"
#include "train_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

enum { PATH_BYTES = 4096 };

// --- settings

// What a training may take at most; above it the settings are a mistake.
static const double most_bytes = 16e9;

// The paper's; window and history are those of a trajectory model.
static const pf_train_settings common = {.kind = PF_TRAIN_RECURSIVE,
                                         .history = 5,
                                         .commands = PF_TRAIN_COMMANDS_NOISE,
                                         .episode_steps = 20,
                                         .correlation = .8,
                                         .amplitude = .4,
                                         .single = .5,
                                         .disturbance =
                                             false, // as a twin predicts: one undisturbed rollout
                                         .activation = PF_ACTIVATION_SILU,
                                         .patience = 30,
                                         .learning_rate = 1e-3,
                                         .cosine = true,
                                         .held_out = .1,
                                         .seed = 1};

typedef struct profile {
    const char *name;
    int transitions, members, layers, width, epochs, batch;
    double weight_decay; // few rows need some
} profile;

static const profile profiles[] = {
    {"quick", 4000, 2, 2, 64, 150, 64, .2},
    {"standard", 100000, 5, 3, 256, 60, 256, 0},
    {"paper", 500000, 12, 3, 512, 300, 1024, 0},
};
enum { N_PROFILES = sizeof profiles / sizeof profiles[0] };

const char *const *pf__train_profiles(void)
{
    static const char *const names[] = {"quick", "standard", "paper", NULL};
    return names;
}

pf_status pf_train_profile(pf_train_settings *s, const char *name, pf_error *error)
{
    for (int i = 0; i < N_PROFILES; i++) {
        const profile *p = &profiles[i];
        if (strcmp(name, p->name) == 0) {
            *s = common;
            s->transitions = p->transitions;
            s->members = p->members;
            s->layers = p->layers;
            s->width = p->width;
            s->epochs = p->epochs;
            s->batch = p->batch;
            s->weight_decay = p->weight_decay;
            return PF_OK;
        }
    }
    return pf_fail(error, PF_ERR_ARGUMENT,
                   "no profile is called '%s'; there are quick, standard and "
                   "paper",
                   name);
}

void pf_train_for_use(pf_train_settings *s)
{
    enum { LEAST = 20000 }; // enough windows for a linear map
    s->kind = PF_TRAIN_BEST;
    s->commands = PF_TRAIN_COMMANDS_USE;
    s->rollouts = true;
    s->transitions = s->transitions > LEAST ? s->transitions : LEAST;
}

// (field, kind, least, most, shape, help): what a configuration may say and what is checked.
#define SETTINGS(X)                                                                                \
    X(kind, WORD, PF_TRAIN_RECURSIVE, PF_TRAIN_BEST, PF_WORDS("recursive", "trajectory", "best"),  \
      "of model")                                                                                  \
    X(window, COUNT, 0, PF_MODEL_WINDOW, NULL, "steps predicted at once; 0: probe and task")       \
    X(history, COUNT, 1, PF_MODEL_HISTORY, NULL, "readings to start from, at most")                \
    X(commands, WORD, PF_TRAIN_COMMANDS_NOISE, PF_TRAIN_COMMANDS_USE, PF_WORDS("noise", "use"),    \
      "of the data")                                                                               \
    X(transitions, COUNT, 10, 1e8, NULL, "in all")                                                 \
    X(episode_steps, COUNT, 1, 10000, NULL, "steps from a reset")                                  \
    X(correlation, NUMBER, 0, .9999, NULL, "of a command with its last")                           \
    X(amplitude, NUMBER, 1e-6, 100, NULL, "of how far a command can go")                           \
    X(single, NUMBER, 0, 1, NULL, "share with one active mechanism")                               \
    X(disturbance, FLAG, 0, 1, NULL, "the plant's own")                                            \
    X(members, COUNT, 1, PF_MODEL_MEMBERS, NULL, "networks")                                       \
    X(layers, COUNT, 1, PF_MODEL_LAYERS, NULL, "hidden layers")                                    \
    X(width, COUNT, 1, PF_MODEL_WIDTH, NULL, "of a hidden layer")                                  \
    X(activation, WORD, PF_ACTIVATION_SILU, PF_ACTIVATION_RELU, PF_WORDS("silu", "relu"),          \
      "of a hidden layer")                                                                         \
    X(epochs, COUNT, 1, 100000, NULL, "at most")                                                   \
    X(batch, COUNT, 1, 65536, NULL, "rows of a step")                                              \
    X(patience, COUNT, 1, 100000, NULL, "epochs without progress")                                 \
    X(learning_rate, NUMBER, 1e-8, 1, NULL, "of Adam")                                             \
    X(weight_decay, NUMBER, 0, 1, NULL, "decoupled")                                               \
    X(cosine, FLAG, 0, 1, NULL, "the rate falls along a cosine")                                   \
    X(rollouts, FLAG, 0, 1, NULL, "a recursive model learns windows at the end")                   \
    X(held_out, NUMBER, .001, .9, NULL, "share of the episodes")                                   \
    X(seed, WHOLE, 0, PF_WHOLE_MAX, NULL, "of data and members")

static pf_status check_ranges(const pf_train_settings *s, pf_error *error)
{
    const struct {
        const char *name;
        double value, least, most;
    } ranges[] = {
#define X(field, kind, least, most, shape, help) {#field, (double)s->field, least, most},
        SETTINGS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most)) {
            return pf_fail(error, PF_ERR_ARGUMENT, "%s: %g is outside %g..%g", ranges[i].name,
                           ranges[i].value, ranges[i].least, ranges[i].most);
        }
    }
    return PF_OK;
}

int pf__train_lead(const pf_train_settings *s)
{
    return s->kind == PF_TRAIN_RECURSIVE ? 0 : s->history - 1;
}

void pf_train_complete(pf_train_settings *s, const pf_plant_info *info)
{
    enum { LEAST = 12 };
    int probe = info->probe ? info->probe->rows : 0, task = info->task ? info->task->rows : 0;
    int longest = probe > task ? probe : task;
    if (s->kind == PF_TRAIN_RECURSIVE && !s->rollouts) {
        return;
    }
    s->window = s->window > 0 ? s->window : longest > LEAST ? longest : LEAST;
    int steps = pf__train_lead(s) + s->window;
    s->episode_steps = s->episode_steps > steps ? s->episode_steps : steps;
}

// Bytes that a training takes at its peak, data and one checkpoint in the writing included.
static double bytes_of(const pf_train_settings *s, int n_chan, int n_mech)
{
    int window = s->kind == PF_TRAIN_RECURSIVE || s->window == 0 ? 1 : s->window;
    int history = window > 1 ? s->history : 1;
    pf_net net = {2 * history * n_chan + (history - 1 + window) * n_mech, window * n_chan,
                  s->layers, s->width, s->activation};
    double rows = s->kind == PF_TRAIN_TRAJECTORY ? (double)s->transitions / s->episode_steps + 1
                                                 : s->transitions;
    double parameters = (double)pf__net_parameters(&net);
    double data = s->transitions * (n_chan * 8 * (1 + 1.0 / s->episode_steps) + n_mech * 4);
    double set = rows * (net.n_in + net.n_out) * 4;
    pf_net step = {2 * n_chan + n_mech, n_chan, s->layers, s->width, s->activation};
    double rolled =
        s->rollouts && s->window > 0 && s->kind != PF_TRAIN_TRAJECTORY
            ? 8.0 * (double)pf__rollouts_work(&step, n_chan, s->window, pf__rollouts_batch(s))
            : 0;
    double threads = pf__processors() < s->members ? pf__processors() : s->members;
    double worker = 4.0 * (rows + (double)pf__net_gradient_work(&net, s->batch) + parameters +
                           (double)s->batch * (net.n_in + net.n_out));
    return 2 * data + set + 20.0 * s->members * parameters +
           threads * (worker + rolled + 16 * parameters);
}

pf_status pf__train_size(const pf_train_settings *s, int n_chan, int n_mech, pf_error *error)
{
    pf_status status = check_ranges(s, error);
    double bytes = status == PF_OK ? bytes_of(s, n_chan, n_mech) : 0;
    if (bytes > most_bytes) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "these settings would take %g GB of memory, the most is %g; fewer "
                       "transitions or members, or a smaller width or batch",
                       bytes * 1e-9, most_bytes * 1e-9);
    }
    return status;
}

pf_status pf_train_check(const pf_train_settings *s, const pf_plant_info *info, pf_error *error)
{
    return pf__train_size(s, info->n_chan, info->n_mech, error);
}

// --- from a configuration

// As written: numbers not given are NaN, counts, flags and words -1.
typedef struct written {
#define X(field, kind, least, most, shape, help) pf_setting_##kind field;
    SETTINGS(X)
#undef X
} written;

static const pf_schema_row rows[] = {
#define X(field, kind, least, most, shape, help)                                                   \
    {#field, PF_KIND_##kind, PF_ROW_CLOSED, least, most, offsetof(written, field), shape, help},
    SETTINGS(X)
#undef X
};
static const pf_schema schema = {rows, PF_COUNT(rows), sizeof(written), 0, NULL, NULL};

static void apply(pf_train_settings *s, const written *w)
{
#define X(field, kind, least, most, shape, help)                                                   \
    if (w->field >= 0) { /* false for NaN */                                                       \
        s->field = w->field;                                                                       \
    }
    SETTINGS(X)
#undef X
}

pf_status pf_train_configure(pf_train_settings *settings, const char *file, const char *text,
                             size_t n, const char *const *overrides, int n_overrides,
                             pf_error *error)
{
    if (!text && n_overrides == 0) {
        return PF_OK;
    }
    written w = {0};
    pf_status status = pf__schema_read(&schema, "a training", text ? file : "--set", text, n,
                                       overrides, n_overrides, &w, error);
    if (status == PF_OK) {
        apply(settings, &w);
    }
    return status;
}

// --- training

// A training: members wait in a row, each worker takes the one that is furthest behind for one
// epoch. A member's arithmetic never depends on who runs it or when.
typedef struct training {
    const pf_train_settings *s;
    const pf_effort *effort;
    const pf_train_watch *watch; // Nullable
    const char *path;
    double checkpoint_s;
    pf_model *model;
    pf_dataset set;
    pf_rolled rolled;
    pf_arena arena;
    pf_member *members;
    bool *taken;
    double *saved; // when each member was last written
    char fingerprint[65];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int failed; // 0, or 1: stop
    pf_status status;
    pf_error error;
} training;

static void checkpoint_path(const training *t, int member, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s.member-%02d", t->path, member);
}

// Settings as one line of text: for the file, and for the fingerprint.
static void settings_text(const pf_train_settings *s, pf_text *out)
{
    if (s->kind != PF_TRAIN_RECURSIVE) {
        pf__text_addf(out, "kind trajectory, window %d, history %d, ", s->window, s->history);
    } else if (s->rollouts && s->window > 0) {
        pf__text_addf(out, "rollouts %d, ", s->window);
    }
    pf__text_addf(out,
                  "members %d, layers %d, width %d, activation %s, epochs %d, batch %d, patience "
                  "%d, learning_rate %.17g, weight_decay %.17g, cosine %d, held_out %.17g, seed "
                  "%.0f",
                  s->members, s->layers, s->width,
                  s->activation == PF_ACTIVATION_SILU ? "silu" : "relu", s->epochs, s->batch,
                  s->patience, s->learning_rate, s->weight_decay, (int)s->cosine, s->held_out,
                  (double)s->seed);
}

pf_status pf__train_made(const pf_train_settings *settings, const pf_model *model, pf_error *error)
{
    const pf_model_info *info = pf_model_get_info(model);
    const char *made = info->settings;
    pf_text text = {0};
    pf_train_settings as_kept = *settings;
    if (settings->kind == PF_TRAIN_BEST) { // either kind may have won
        as_kept.kind = info->window > 1 ? PF_TRAIN_TRAJECTORY : PF_TRAIN_RECURSIVE;
    }
    settings_text(&as_kept, &text);
    if (text.failed) {
        pf__text_free(&text);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the settings");
    }
    pf_status status = PF_OK;
    const char *wanted = text.data;
    if (settings->kind == PF_TRAIN_RECURSIVE && info->window > 1) {
        status = pf_fail(error, PF_ERR_MISMATCH,
                         "it is a trajectory model, not a recursive one (train --kind recursive "
                         "--set rollouts=false)");
    }
    while (made[0] && strncmp(wanted, "seed ", 5) != 0 && status == PF_OK) {
        size_t n = strcspn(made, ","), m = strcspn(wanted, ",");
        if (n != m || memcmp(made, wanted, n) != 0) {
            char is[64], was[64];
            snprintf(was, sizeof was, "%.*s", (int)n, made);
            snprintf(is, sizeof is, "%.*s", (int)m, wanted);
            status = pf_fail(error, PF_ERR_MISMATCH, "it was trained with %s, not %s", was, is);
        }
        made += n + strspn(made + n, ", ");
        wanted += m + strspn(wanted + m, ", ");
    }
    pf__text_free(&text);
    return status;
}

static void take_fingerprint(training *t, const char *settings, const char *data)
{
    pf_sha256 sha;
    uint8_t digest[32];
    const char *const parts[] = {PF_VERSION, settings, data, pf__numeric_library()};
    pf__sha256_init(&sha);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        pf__sha256_update(&sha, parts[i], strlen(parts[i]) + 1);
    }
    pf__sha256_final(&sha, digest);
    pf__sha256_text(digest, t->fingerprint);
}

static void tell(const training *t, const pf_member *m, int epoch, bool restored)
{
    if (!t->watch || !t->watch->epoch) {
        return;
    }
    const float *h = m->history + (size_t)(epoch - 1) * PF_HISTORY;
    pf_epoch e = {.member = m->index,
                  .epoch = epoch,
                  .epochs = pf__member_epochs(t->s),
                  .train = (double)h[0],
                  .valid = (double)h[1],
                  .best = (double)h[1],
                  .samples_per_s = (double)h[2],
                  .rollouts = m->turn > 0 && epoch > m->turn,
                  .finished = m->finished && epoch == m->epoch,
                  .restored = restored};
    for (int i = e.rollouts ? m->turn : 0; i < epoch; i++) {
        e.best = fmin(e.best, (double)m->history[(size_t)i * PF_HISTORY + 1]);
    }
    t->watch->epoch(t->watch->self, &e);
}

// The member to go on with, NULL: none is free now. *left: whether any is unfinished or taken; only
// its worker may look at a taken one.
static pf_member *furthest_behind(training *t, bool *left)
{
    pf_member *best = NULL;
    *left = false;
    for (int e = 0; e < t->s->members; e++) {
        pf_member *m = &t->members[e];
        bool open = t->taken[e] || !m->finished;
        *left = *left || open;
        if (open && !t->taken[e] && (!best || m->epoch < best->epoch)) {
            best = m;
        }
    }
    return best;
}

static pf_status save_member(training *t, pf_member *m, pf_error *error)
{
    if (!m->finished && pf__seconds() - t->saved[m->index] < t->checkpoint_s) {
        return PF_OK;
    }
    char path[PATH_BYTES];
    checkpoint_path(t, m->index, path);
    t->saved[m->index] = pf__seconds();
    return pf__member_write(m, t->s, &t->model->net, path, t->fingerprint, error);
}

static bool take_space(const training *t, pf_epoch_space *space, pf_arena *arena)
{
    const pf_net *net = &t->model->net;
    size_t f = sizeof(float), batch = (size_t)t->s->batch;
    int most =
        t->set.n_train > pf__rollouts_batch(t->s) ? t->set.n_train : pf__rollouts_batch(t->s);
    space->order = pf__arena_take(arena, (size_t)most, sizeof(int));
    space->x = pf__arena_take(arena, batch * (size_t)net->n_in, f);
    space->y = pf__arena_take(arena, batch * (size_t)net->n_out, f);
    space->gradient = pf__arena_take(arena, pf__net_parameters(net), f);
    space->work = pf__arena_take(arena, pf__net_gradient_work(net, t->s->batch), f);
    if (t->rolled.windows.n_train > 0) {
        int chan = t->model->info.n_chan, windows = pf__rollouts_batch(t->s);
        space->rolled = pf__arena_take(
            arena, pf__rollouts_work(net, chan, t->rolled.windows.steps, windows), sizeof(double));
    }
    return !arena->failed;
}

static void note_failure(training *t, pf_status status, const pf_error *error)
{
    if (!t->failed) {
        t->failed = 1;
        t->status = status;
        t->error = *error;
    }
}

// Serves members until all are finished. Tiny numbers are flushed to zero here: they cost much and
// mean nothing.
static void *work(void *self)
{
    training *t = self;
    pf_arena arena = {0};
    pf_epoch_space space;
#if defined(__SSE2__)
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040);
#endif
    bool ready = take_space(t, &space, &arena), left = true;
    pthread_mutex_lock(&t->lock);
    if (!ready) {
        note_failure(t, PF_ERR_MEMORY,
                     &(pf_error){PF_ERR_MEMORY, "out of memory for a training batch"});
    }
    while (!t->failed) {
        pf_member *m = furthest_behind(t, &left);
        if (!left) {
            break;
        }
        if (!m) {
            pthread_cond_wait(&t->changed, &t->lock);
            continue;
        }
        t->taken[m->index] = true;
        pthread_mutex_unlock(&t->lock);
        pf_error error = {PF_OK, ""};
        pf_status status = pf__member_epoch(m, t->s, &t->model->net, &t->set, &t->rolled, &space,
                                            t->effort ? t->effort->stop : NULL, &error);
        status = status ? status : save_member(t, m, &error);
        pthread_mutex_lock(&t->lock);
        t->taken[m->index] = false;
        if (status == PF_OK) {
            tell(t, m, m->epoch, false);
        } else {
            note_failure(t, status, &error);
        }
        pthread_cond_broadcast(&t->changed);
    }
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
#if defined(__SSE2__)
    _mm_setcsr(mode);
#endif
    pf__arena_free(&arena);
    return NULL;
}

static pf_status take_members(training *t, pf_error *error)
{
    const pf_train_settings *s = t->s;
    size_t n = pf__net_parameters(&t->model->net), f = sizeof(float);
    t->members = pf__arena_take(&t->arena, (size_t)s->members, sizeof *t->members);
    t->taken = pf__arena_take(&t->arena, (size_t)s->members, sizeof *t->taken);
    t->saved = pf__arena_take(&t->arena, (size_t)s->members, sizeof *t->saved);
    for (int e = 0; e < s->members && !t->arena.failed; e++) {
        pf_member *m = &t->members[e];
        m->index = e;
        m->theta = pf__arena_take(&t->arena, n, f);
        m->first = pf__arena_take(&t->arena, n, f);
        m->second = pf__arena_take(&t->arena, n, f);
        m->kept = pf__arena_take(&t->arena, n, f);
        m->history = pf__arena_take(&t->arena, (size_t)pf__member_epochs(s) * PF_HISTORY, f);
        t->saved[e] = pf__seconds();
    }
    if (t->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for %d members", s->members);
    }
    for (int e = 0; e < s->members; e++) {
        pf_member *m = &t->members[e];
        char path[PATH_BYTES];
        bool found;
        checkpoint_path(t, e, path);
        pf_status status =
            pf__member_read(m, s, &t->model->net, path, t->fingerprint, &found, error);
        if (status != PF_OK) {
            return status;
        }
        if (!found) {
            pf__member_init(m, s, &t->model->net);
        }
        for (int epoch = 1; found && epoch <= m->epoch; epoch++) {
            tell(t, m, epoch, true);
        }
    }
    return PF_OK;
}

static void run_workers(training *t)
{
    pthread_t threads[PF_MODEL_MEMBERS];
    int wanted = pf__threads(t->effort), started = 0;
    wanted = wanted > t->s->members ? t->s->members : wanted;
    while (started < wanted - 1 && pthread_create(&threads[started], NULL, work, t) == 0) {
        started++;
    }
    work(t);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}

// A network must leave less than this share of what the linear part leaves, or it is not worth it.
static const double worth = .98;
// What is left of held-out windows where nothing but rounding is: nothing more is to be learned.
static const double exact = 1e-9;

static bool is_exact(const training *t)
{
    return t->s->kind == PF_TRAIN_TRAJECTORY && t->set.error <= exact;
}

// The best parameters of every member into the model. A trajectory model has none where its linear
// part does as well.
static void take_best(training *t)
{
    pf_model *model = t->model;
    size_t n = pf__net_parameters(&model->net);
    double total = 0;
    for (int e = 0; t->members && e < t->s->members; e++) {
        memcpy(model->theta + (size_t)e * n, t->members[e].kept, n * sizeof(float));
        total += pf__member_stepped(&t->members[e]) / t->s->members;
    }
    model->info.valid_error = total;
    if (model->info.window > 1 && (is_exact(t) || !(total < worth * t->set.left))) {
        model->info.valid_error = t->set.left;
        model->info.n_members = 1;
        model->info.n_layers = model->info.width = 0;
        model->theta = NULL; // the arena's
    }
}

// The model into its file; only then are the checkpoints done with.
static pf_status finish(training *t, const pf_transitions *data, const char *settings,
                        pf_error *error)
{
    take_best(t);
    pf_status status = pf__window_error(t->model, data, t->s->held_out, t->s->window,
                                        &t->model->info.window_error, error);
    char seed[32];
    pf__print(seed, sizeof seed, "%.0f", (double)t->s->seed);
    const pf_meta extra[] = {{"seed", seed}, {"settings", settings}};
    status = status ? status : pf__model_save(t->model, t->path, 2, extra, error);
    for (int e = 0; e < t->s->members && status == PF_OK; e++) {
        char path[PATH_BYTES];
        checkpoint_path(t, e, path);
        unlink(path);
    }
    return status;
}

static pf_status make_model(training *t, const pf_transitions_info *info, int history,
                            pf_error *error)
{
    const pf_train_settings *s = t->s;
    bool windows = s->kind == PF_TRAIN_TRAJECTORY;
    pf_model_info about = {.plant = info->plant,
                           .source = info->source,
                           .n_chan = info->n_chan,
                           .n_mech = info->n_mech,
                           .channels = info->channels,
                           .kinds = info->kinds,
                           .mechanisms = info->mechanisms,
                           .window = windows ? s->window : 1,
                           .history = windows ? history : 1,
                           .n_members = s->members,
                           .n_layers = s->layers,
                           .width = s->width,
                           .activation = s->activation,
                           .data = info->sha256,
                           .processor = pf__numeric_library(),
                           .valid_error = NAN,
                           .window_error = NAN};
    return pf__model_create(&t->model, &about, error);
}

// How good a rival is: what it leaves of held-out windows, and what these tell of a gain.
typedef struct rival {
    double left, gain;
} rival;

// How good the linear part of the present set is: what a held-out window tells of a gain, in which
// a reading more must take a third off. Each reading shows the model more of what is wrong with a
// machine that moves by itself, and it follows. Where no window can tell: what it leaves of them,
// in which a twentieth is enough.
static pf_status linear_rival(training *t, const pf_transitions *data, rival *out, pf_error *error)
{
    t->model->theta = NULL; // the arena's
    t->model->info.n_members = 1;
    out->left = t->set.error;
    return pf__window_gain(t->model, data, t->s->held_out, t->s->window, &out->gain, error);
}

static bool is_worth_it(const rival *longer, const rival *best)
{
    bool gains = !isnan(longer->gain) && !isnan(best->gain);
    return gains ? longer->gain < 2. / 3 * best->gain : longer->left < .95 * best->left;
}

// Numbers that several readings may have together.
enum { START_MOST = 512 };

// Readings that a trajectory model starts from.
static pf_status choose_history(training *t, const pf_transitions *data, int *history,
                                pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    int most = t->s->kind == PF_TRAIN_TRAJECTORY ? t->s->history : 1;
    most = most < info->lead + 1 ? most : info->lead + 1;
    most = most * info->n_chan <= START_MOST ? most : START_MOST / info->n_chan;
    rival best = {NAN, NAN};
    bool search = most > 1;
    *history = 1;
    for (int h = 1; search && h <= most; h++) {
        rival now = {INFINITY, NAN};
        pf_error why = {PF_OK, ""};
        pf_status status = make_model(t, info, h, &why);
        status = status ? status : pf__dataset_make(&t->set, data, t->s->held_out, t->model, &why);
        search = status == PF_OK && t->set.error > exact;
        status = status ? status : linear_rival(t, data, &now, &why);
        pf__dataset_free(&t->set);
        pf_model_destroy(t->model);
        t->model = NULL;
        if (status != PF_OK && (status != PF_ERR_DEGENERATE || h == 1)) {
            if (error) {
                *error = why;
            }
            return status;
        } // too few windows for so many inputs end the search
        if (status == PF_OK && (h == 1 || is_worth_it(&now, &best))) {
            *history = h;
            best = now;
        }
    }
    return PF_OK;
}

static pf_status make_set(training *t, const pf_transitions *data, pf_error *error)
{
    int history = 1;
    pf_status status = choose_history(t, data, &history, error);
    status = status ? status : make_model(t, pf_transitions_get_info(data), history, error);
    return status ? status : pf__dataset_make(&t->set, data, t->s->held_out, t->model, error);
}

// Two trainings on one file would write over each other. The lock goes with the process.
static int take_lock(const char *path, pf_error *error)
{
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_CREAT | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0666);
    struct stat mine, there;
    if (fd < 0) {
        pf__file_refuse(name, errno, error);
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        pf_fail(error, PF_ERR_FILE,
                "%s: another training is writing it; wait, or name another file", path);
        close(fd);
        fd = -1;
    } else if (fstat(fd, &mine) != 0 || stat(name, &there) != 0 || mine.st_ino != there.st_ino) {
        close(fd); // its owner ended and removed it in between
        return take_lock(path, error);
    }
    return fd;
}

bool pf__train_busy(const char *path)
{
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
    if (fd >= 0) {
        close(fd);
    }
    return busy;
}

static void drop_lock(const char *path, int fd)
{
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "%s.lock", path);
    unlink(name);
    close(fd);
}

static pf_status run(training *t, const pf_transitions *data, const char *settings, pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    take_fingerprint(t, settings, info->sha256);
    pf_status status = make_set(t, data, error);
    if (status == PF_OK && is_exact(t)) {
        return finish(t, data, settings, error);
    }
    if (status == PF_OK && t->s->rollouts) {
        t->rolled.model = t->model;
        status = pf__windows_open(&t->rolled.windows, data, t->s->held_out, t->s->window, error);
    }
    status = status ? status : take_members(t, error);
    if (status == PF_OK) {
        pthread_mutex_init(&t->lock, NULL);
        pthread_cond_init(&t->changed, NULL);
        run_workers(t);
        pthread_cond_destroy(&t->changed);
        pthread_mutex_destroy(&t->lock);
        status = t->status;
        if (status != PF_OK && error) {
            *error = t->error;
        }
    }
    return status == PF_OK ? finish(t, data, settings, error) : status;
}

static pf_status train_one(const pf_train_settings *settings, const pf_transitions *data,
                           const char *path, double checkpoint_s, const pf_effort *effort,
                           const pf_train_watch *watch, pf_error *error)
{
    const pf_transitions_info *info = pf_transitions_get_info(data);
    pf_status status = pf__train_size(settings, info->n_chan, info->n_mech, error);
    if (status != PF_OK) {
        return status;
    }
    int lock = take_lock(path, error);
    if (lock < 0) {
        return PF_ERR_FILE;
    }
    pf_train_settings own = *settings;
    own.rollouts = own.rollouts && own.kind == PF_TRAIN_RECURSIVE && own.window > 0;
    training t = {
        .s = &own, .effort = effort, .watch = watch, .path = path, .checkpoint_s = checkpoint_s};
    pf_text text = {0};
    settings_text(settings, &text);
    status = text.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the settings")
                         : run(&t, data, text.data, error);
    pf__text_free(&text);
    pf__dataset_free(&t.set);
    pf__windows_close(&t.rolled.windows);
    pf__arena_free(&t.arena);
    pf_model_destroy(t.model);
    drop_lock(path, lock);
    return status;
}

// A trajectory model that leaves less of held-out windows needs no rival: .3 % of the change.
static const double good_enough = 1e-5;

// Whether a model was made with these very settings, seed included, by the same numeric library.
static bool made_alike(const pf_train_settings *s, const pf_model *model)
{
    pf_text text = {0};
    settings_text(s, &text);
    bool alike = !text.failed && strcmp(text.data, model->info.settings) == 0 &&
                 strcmp(model->info.processor, pf__numeric_library()) == 0;
    pf__text_free(&text);
    return alike;
}

static bool is_better(const rival *a, const rival *b)
{
    bool gains = !isnan(a->gain) && !isnan(b->gain);
    return gains ? a->gain < b->gain : a->left < b->left;
}

// What a run leaves that is killed when its model is written already.
static void remove_left_over(const char *path, int members)
{
    int lock = take_lock(path, NULL);
    training t = {.path = path};
    for (int e = 0; e < members && lock >= 0; e++) {
        char checkpoint[PATH_BYTES];
        checkpoint_path(&t, e, checkpoint);
        unlink(checkpoint);
    }
    if (lock >= 0) {
        drop_lock(path, lock);
    }
}

// One of the two rivals: that of an earlier run with the same settings and data, or trained now.
static pf_status train_rival(const pf_train_settings *settings, pf_train_kind kind,
                             const pf_transitions *data, const char *path, double checkpoint_s,
                             const pf_effort *effort, const pf_train_watch *watch, rival *out,
                             pf_error *error)
{
    pf_train_settings s = *settings;
    pf_model *model = NULL;
    pf_error why;
    s.kind = kind;
    bool there = pf_model_load(&model, path, &why) == PF_OK &&
                 strcmp(model->info.data, pf_transitions_get_info(data)->sha256) == 0 &&
                 made_alike(&s, model);
    pf_status status = PF_OK;
    if (!there) {
        pf_model_destroy(model);
        model = NULL;
        status = train_one(&s, data, path, checkpoint_s, effort, watch, error);
        status = status ? status : pf_model_load(&model, path, error);
    }
    out->left = status == PF_OK ? model->info.window_error : NAN;
    if (status == PF_OK) {
        status = pf__window_gain(model, data, s.held_out, s.window, &out->gain, error);
    }
    pf_model_destroy(model);
    return status;
}

pf_status pf_train(const pf_train_settings *settings, const pf_transitions *data, const char *path,
                   double checkpoint_s, const pf_effort *effort, const pf_train_watch *watch,
                   pf_error *error)
{
    pf_text rivals[2] = {{0}, {0}};
    rival found[2] = {{NAN, NAN}, {NAN, NAN}};
    if (strlen(path) + 32 > PATH_BYTES) {
        return pf_fail(error, PF_ERR_ARGUMENT, "the name of the model file is too long");
    }
    if (settings->kind != PF_TRAIN_BEST) {
        return train_one(settings, data, path, checkpoint_s, effort, watch, error);
    }
    pf__text_addf(&rivals[0], "%s.trajectory", path);
    pf__text_addf(&rivals[1], "%s.recursive", path);
    pf_status status = rivals[0].failed || rivals[1].failed
                           ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a path")
                           : train_rival(settings, PF_TRAIN_TRAJECTORY, data, rivals[0].data,
                                         checkpoint_s, effort, watch, &found[0], error);
    if (status == PF_ERR_DEGENERATE) { // too few windows; steps may be enough
        status = PF_OK;
        found[0].left = found[0].gain = INFINITY;
    }
    if (status == PF_OK && !(found[0].left <= good_enough)) {
        status = train_rival(settings, PF_TRAIN_RECURSIVE, data, rivals[1].data, checkpoint_s,
                             effort, watch, &found[1], error);
    }
    int best = is_better(&found[1], &found[0]) || isinf(found[0].left);
    status = status ? status : pf__file_move(rivals[best].data, path, error);
    for (int i = 0; i < 2 && status == PF_OK; i++) {
        unlink(rivals[i].data);
        remove_left_over(rivals[i].data, settings->members);
    }
    pf__text_free(&rivals[0]);
    pf__text_free(&rivals[1]);
    return status;
}
