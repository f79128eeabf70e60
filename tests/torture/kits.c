// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/kit_layout.h"
#include "core/sha256.h"
#include "host/file.h"
#include "preflight/run.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// torture_kits KIT PLANT EACH [--model FILE] [--accept] [--list]
//
// Edits a kit in one place at a time, seals it again, loads it, and checks machines with a dead
// actuator, each candidate in turn, on the real plant. No task that the untouched kit calls lost
// without that actuator may come out go. EACH elements of each field are edited in every way, and
// whole fields are scaled, shuffled and reversed; 0: all elements. --accept counts a task that was
// not rehearsed as go, as `check --accept` does. --list names the edits that say go. Prints the
// counts; last line: N passed, N failed.

enum { DIGEST = 32, SEED = 11 };

typedef struct torture {
    uint8_t *whole, *edited; // file images
    size_t n;
    pf_kit kit; // untouched
    pf_plant *plant;
    pf_model *model;
    bool list, accept;
    int edits, refused, no_go, go;
    uint64_t state; // of the random choices
} torture;

static uint64_t next(torture *t)
{
    t->state = t->state * 6364136223846793005u + 1442695040888963407u;
    return t->state >> 33;
}

static void seal(uint8_t *image, size_t n)
{
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, image, n - DIGEST);
    pf__sha256_final(&sha, image + n - DIGEST);
}

// --- what an edited kit says

// Whether a task returns less than j_min without the mechanism, by the untouched kit.
static bool is_lost(const pf_kit *k, int task, int mechanism)
{
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        double mean = 0;
        for (int e = 0; e < k->n_members && k->use_mech[u] == mechanism; e++) {
            size_t row = (size_t)u * (size_t)k->n_members + (size_t)e;
            double nte = pf_kit_loses_force(k, mechanism)
                             ? k->force_error[row * PF_FORCE_GAINS * PF_FORCE_CORRECTIONS + 2]
                             : k->tracking_error[row * (size_t)k->n_shares];
            mean += exp(-fmin(nte, 10)) / k->n_members;
        }
        if (k->use_mech[u] == mechanism) {
            return mean < k->j_min;
        }
    }
    return false;
}

typedef enum answer { REFUSED, NO_GO, GO } answer;

// A check of a machine whose mechanism is dead.
static answer check_dead(torture *t, const pf_kit *kit, int mechanism)
{
    double gains[256];
    pf_error error = {PF_OK, ""};
    pf_check *check = NULL;
    for (int j = 0; j < 256; j++) {
        gains[j] = j != mechanism;
    }
    pf_check_config config = {.machine = t->plant, .gains = gains, .model = t->model, .seed = SEED};
    pf_status status = pf_check_create(&check, kit, &config, &error);
    status = status ? status : pf_check_run(check, NULL, &error);
    answer said = status == PF_OK ? NO_GO : REFUSED;
    for (int task = 0; task < t->kit.n_tasks && task < kit->n_tasks && said == NO_GO; task++) {
        const pf_task_readiness *answer = pf_session_task(pf_check_session(check), task);
        bool go = answer->decision == PF_GO || (t->accept && answer->decision == PF_GO_IF &&
                                                answer->why == PF_WHY_NOT_REHEARSED);
        said = go && is_lost(&t->kit, task, mechanism) ? GO : said;
    }
    pf_check_destroy(check);
    return said;
}

static answer judge(torture *t, pf_error *error)
{
    pf_kit kit;
    answer said = REFUSED;
    if (pf__kit_read(&kit, t->edited, t->n, error) != PF_OK) {
        return REFUSED;
    }
    for (int j = 1; j < t->kit.n_mech && said != GO; j++) {
        answer one = check_dead(t, &kit, j);
        said = one == REFUSED ? said : one;
    }
    return said;
}

// The edit is in t->edited; judges it and takes it back.
static void count_edit(torture *t, const char *field, size_t at, const char *how)
{
    pf_error error = {PF_OK, ""};
    if (memcmp(t->edited, t->whole, t->n - DIGEST) != 0) {
        seal(t->edited, t->n);
        answer said = judge(t, &error);
        t->edits++;
        t->refused += said == REFUSED;
        t->no_go += said == NO_GO;
        t->go += said == GO;
        if (t->list && said == GO) {
            printf("  go: %s[%zu] %s\n", field, at, how);
        }
    }
    memcpy(t->edited, t->whole, t->n);
}

// --- edits

static const struct {
    const char *name;
    double factor, sum;
} numbers[] = {
    {"0", 0, 0},           {"1", 0, 1},
    {"-1", 0, -1},         {"1e-9", 0, 1e-9},
    {"1e9", 0, 1e9},       {"negated", -1, 0},
    {"x .1", .1, 0},       {"x .5", .5, 0},
    {"x .9", .9, 0},       {"x 1.1", 1.1, 0},
    {"x 2", 2, 0},         {"x 10", 10, 0},
    {"x 1e3", 1e3, 0},     {"infinite", 0, INFINITY},
    {"no number", 0, NAN},
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

// One element by a row of the table; false: there is nothing to do to a byte.
static void set_number(uint8_t *at, size_t element, int how)
{
    if (element == sizeof(double)) {
        double v;
        memcpy(&v, at, sizeof v);
        v = (numbers[how].factor != 0 ? v * numbers[how].factor : 0) + numbers[how].sum;
        memcpy(at, &v, sizeof v);
    } else if (element == sizeof(int32_t)) {
        static const int32_t sums[] = {1, -1, 2, -2, 7, 100};
        int32_t v;
        memcpy(&v, at, sizeof v);
        int64_t w = how < 6     ? (int64_t)v + sums[how]
                    : how == 6  ? 0
                    : how == 7  ? 2 * (int64_t)v
                    : how == 8  ? INT32_MAX
                    : how == 9  ? -(int64_t)v
                    : how == 10 ? 1
                                : -1;
        v = (int32_t)(w > INT32_MAX ? INT32_MAX : w);
        memcpy(at, &v, sizeof v);
    } else {
        static const uint8_t bytes[] = {0, 'a', 'x', ' ', '/', 0xff};
        *at = how < 6 ? bytes[how] : (uint8_t)(*at + how);
    }
}

static void swap(uint8_t *a, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t c = a[i];
        a[i] = b[i];
        b[i] = c;
    }
}

static void edit_element(torture *t, const char *field, const pf_kit_section *s, size_t i)
{
    uint8_t *first = t->edited + s->offset, *at = first + i * s->element;
    for (int how = 0; how < NUMBERS; how++) {
        set_number(at, s->element, how);
        count_edit(t, field, i, numbers[how].name);
    }
    if (s->count < 2) {
        return;
    }
    size_t beside = (i + 1) % s->count, far = next(t) % s->count;
    swap(at, first + beside * s->element, s->element);
    count_edit(t, field, i, "swapped with the next");
    memcpy(at, first + beside * s->element, s->element);
    count_edit(t, field, i, "copied from the next");
    swap(at, first + far * s->element, s->element);
    count_edit(t, field, i, "swapped with another");
    memcpy(at, first + far * s->element, s->element);
    count_edit(t, field, i, "copied from another");
}

// All of a field at once, which elements alone do not show.
static void edit_whole(torture *t, const char *field, const pf_kit_section *s)
{
    uint8_t *first = t->edited + s->offset;
    size_t n = (size_t)s->count;
    for (int how = 0; how < NUMBERS && n > 1; how++) {
        for (size_t i = 0; i < n; i++) {
            set_number(first + i * s->element, s->element, how);
        }
        count_edit(t, field, n, numbers[how].name);
    }
    for (int turn = 0; turn < 4 && n > 1; turn++) {
        for (size_t i = n - 1; i > 0; i--) {
            swap(first + i * s->element, first + next(t) % (i + 1) * s->element, s->element);
        }
        count_edit(t, field, n, "shuffled");
    }
    for (size_t i = 0; i < n / 2; i++) {
        swap(first + i * s->element, first + (n - 1 - i) * s->element, s->element);
    }
    count_edit(t, field, n, "reversed");
    for (size_t i = 0; i + 1 < n; i++) {
        swap(first + i * s->element, first + (i + 1) * s->element, s->element);
    }
    count_edit(t, field, n, "turned by one");
    for (size_t i = 1; i < n; i++) {
        memcpy(first + i * s->element, first, s->element);
    }
    count_edit(t, field, n, "all as the first");
}

static const char *name_of(uint32_t id)
{
    switch (id) {
    case PF_KIT_ID_DIMS:
        return "dimensions";
    case PF_KIT_ID_SCALARS:
        return "scalars";
    case PF_KIT_ID_SETTINGS:
        return "settings";
    case PF_KIT_ID_SETTING_NAMES:
        return "names of settings";
#define X(number, type, field, count)                                                              \
    case number:                                                                                   \
        return #field;
        PF_KIT_ARRAYS(X)
#undef X
    default:
        return "?";
    }
}

static void edit_section(torture *t, const pf_kit_section *s, size_t each)
{
    int edits = t->edits, refused = t->refused, go = t->go;
    bool few = s->id == PF_KIT_ID_DIMS || s->id == PF_KIT_ID_SCALARS || s->id == PF_KIT_ID_SETTINGS;
    size_t n = each == 0 || few || s->count < each ? (size_t)s->count : each;
    for (size_t i = 0; i < n; i++) {
        edit_element(t, name_of(s->id), s, i * (size_t)s->count / n);
    }
    edit_whole(t, name_of(s->id), s);
    printf("%-18s %6d edits, %6d refused, %4d go\n", name_of(s->id), t->edits - edits,
           t->refused - refused, t->go - go);
}

// --- all of it

static int fail(const char *what, const pf_error *error)
{
    fprintf(stderr, "torture_kits: %s: %s\n", what, error->text);
    return 4;
}

static int run(torture *t, size_t each)
{
    uint32_t n = 0;
    memcpy(&n, t->whole + 12, sizeof n);
    t->edited = malloc(t->n);
    memcpy(t->edited, t->whole, t->n);
    for (int j = 1; j < t->kit.n_mech; j++) {
        if (check_dead(t, &t->kit, j) != NO_GO) {
            fprintf(stderr, "torture_kits: the untouched kit does not say no-go\n");
            return 4;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        pf_kit_section s;
        memcpy(&s, t->whole + PF_KIT_HEAD_BYTES + i * PF_KIT_SECTION_BYTES, sizeof s);
        edit_section(t, &s, each);
        fflush(stdout);
    }
    printf("%d edits: %d refused, %d without a false go, %d go for a dead actuator\n", t->edits,
           t->refused, t->no_go, t->go);
    printf("%d passed, %d failed\n", t->edits - t->go, t->go);
    return t->go > 0;
}

int main(int argc, char **argv)
{
    pf_error error = {PF_OK, ""};
    torture t = {.state = 1};
    if (argc < 4) {
        fprintf(stderr, "torture_kits KIT PLANT EACH [--model FILE] [--accept] [--list]\n");
        return 2;
    }
    for (int i = 4; i < argc; i++) {
        t.list = t.list || strcmp(argv[i], "--list") == 0;
        t.accept = t.accept || strcmp(argv[i], "--accept") == 0;
        if (strcmp(argv[i], "--model") == 0 && i + 1 < argc &&
            pf_model_load(&t.model, argv[i + 1], &error) != PF_OK) {
            return fail(argv[i + 1], &error);
        }
    }
    void *bytes = NULL;
    if (pf__file_read(argv[1], (size_t)1 << 30, &bytes, &t.n, &error) != PF_OK ||
        pf__kit_read(&t.kit, bytes, t.n, &error) != PF_OK ||
        pf_plant_create(&t.plant, argv[2], &error) != PF_OK) {
        return fail(argv[1], &error);
    }
    t.whole = bytes;
    int status = run(&t, (size_t)atoi(argv[3]));
    pf_model_destroy(t.model);
    pf_plant_destroy(t.plant);
    free(t.edited);
    free(bytes);
    return status;
}
