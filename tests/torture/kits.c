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
// without that actuator may come out go, and nothing may end as a mistake of preflight itself
// (PF_ERR_INTERNAL). At least one task must be lost without an actuator, else there is nothing to
// find. EACH elements of each field are edited in every way, and whole fields are scaled, shuffled
// and reversed; 0: all elements. --accept counts a task that was not rehearsed as go, as `check
// --accept` does. --list names the edits that say go or break. Prints the counts; last line: N
// passed, N failed.

enum { DIGEST = 32, SEED = 11 };

typedef struct torture {
    uint8_t *whole, *edited; // file images
    size_t n;
    pf_kit kit; // untouched
    pf_plant *plant;
    pf_model *model;
    bool list, accept;
    int edits, refused, no_go, go, broke;
    pf_error broke_with; // what the last one that broke said
    uint64_t state;      // of the random choices
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

// The column of the correction that corrects nothing, in the table over gain and correction.
static size_t no_correction(const pf_kit *k)
{
    size_t c = 0;
    while (c + 1 < PF_FORCE_CORRECTIONS && k->corrections[c] != 1) {
        c++;
    }
    return c;
}

// Whether a task returns less than j_min without the mechanism, by the untouched kit. Gain 0 and
// share 0 come first.
static bool is_lost(const pf_kit *k, int task, int mechanism)
{
    for (int u = k->task_use[task]; u < k->task_use[task + 1]; u++) {
        double mean = 0;
        for (int e = 0; e < k->n_members && k->use_mech[u] == mechanism; e++) {
            size_t row = (size_t)u * (size_t)k->n_members + (size_t)e;
            double nte =
                pf_kit_loses_force(k, mechanism)
                    ? k->force_error[row * PF_FORCE_GAINS * PF_FORCE_CORRECTIONS + no_correction(k)]
                    : k->tracking_error[row * (size_t)k->n_shares];
            mean += exp(-fmin(nte, 10)) / k->n_members;
        }
        if (k->use_mech[u] == mechanism) {
            return mean < k->j_min;
        }
    }
    return false;
}

typedef enum answer { REFUSED, NO_GO, GO, BROKE } answer;

// What a check or a kit that failed says.
static answer failed(torture *t, const pf_error *error)
{
    if (error->code != PF_ERR_INTERNAL) {
        return REFUSED;
    }
    t->broke_with = *error;
    return BROKE;
}

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
    answer said = status == PF_OK ? NO_GO : failed(t, &error);
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
        return failed(t, error);
    }
    for (int j = 1; j < t->kit.n_mech; j++) {
        answer one = check_dead(t, &kit, j);
        said = one > said ? one : said; // the worst
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
        t->broke += said == BROKE;
        if (t->list && said >= GO) {
            printf("  %s: %s[%zu] %s%s%s\n", said == GO ? "go" : "broke", field, at, how,
                   said == GO ? "" : ": ", said == GO ? "" : t->broke_with.text);
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

static const struct {
    const char *name;
    int64_t factor, sum;
} integers[] = {
    {"+1", 1, 1},
    {"-1", 1, -1},
    {"+2", 1, 2},
    {"-2", 1, -2},
    {"+7", 1, 7},
    {"+100", 1, 100},
    {"doubled", 2, 0},
    {"negated", -1, 0},
    {"is 0", 0, 0},
    {"is 1", 0, 1},
    {"is -1", 0, -1},
    {"is the largest", 0, INT32_MAX},
    {"is the smallest", 0, INT32_MIN},
};

static const struct {
    const char *name;
    int factor, sum;
} bytes[] = {
    {"is NUL", 0, 0},       {"is a", 0, 'a'},       {"is x", 0, 'x'},
    {"is a space", 0, ' '}, {"is a slash", 0, '/'}, {"is 0xff", 0, 0xff},
    {"+1", 1, 1},           {"-1", 1, -1},          {"+128", 1, 128},
};

enum {
    NUMBERS = sizeof numbers / sizeof numbers[0],
    INTEGERS = sizeof integers / sizeof integers[0],
    BYTES = sizeof bytes / sizeof bytes[0],
};

// How many ways there are to edit an element of that size.
static int ways(size_t element)
{
    return element == sizeof(double) ? NUMBERS : element == sizeof(int32_t) ? INTEGERS : BYTES;
}

static const char *way_name(size_t element, int how)
{
    return element == sizeof(double)    ? numbers[how].name
           : element == sizeof(int32_t) ? integers[how].name
                                        : bytes[how].name;
}

// One element by a row of its table.
static void set_number(uint8_t *at, size_t element, int how)
{
    if (element == sizeof(double)) {
        double v;
        memcpy(&v, at, sizeof v);
        v = (numbers[how].factor != 0 ? v * numbers[how].factor : 0) + numbers[how].sum;
        memcpy(at, &v, sizeof v);
    } else if (element == sizeof(int32_t)) {
        int32_t v;
        memcpy(&v, at, sizeof v);
        int64_t w = v * integers[how].factor + integers[how].sum;
        v = (int32_t)(w > INT32_MAX ? INT32_MAX : w < INT32_MIN ? INT32_MIN : w);
        memcpy(at, &v, sizeof v);
    } else {
        *at = (uint8_t)(*at * bytes[how].factor + bytes[how].sum);
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
    for (int how = 0; how < ways(s->element); how++) {
        set_number(at, s->element, how);
        count_edit(t, field, i, way_name(s->element, how));
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
    for (int how = 0; how < ways(s->element) && n > 1; how++) {
        for (size_t i = 0; i < n; i++) {
            set_number(first + i * s->element, s->element, how);
        }
        count_edit(t, field, n, way_name(s->element, how));
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
    int edits = t->edits, refused = t->refused, go = t->go, broke = t->broke;
    bool few = s->id == PF_KIT_ID_DIMS || s->id == PF_KIT_ID_SCALARS || s->id == PF_KIT_ID_SETTINGS;
    size_t n = each == 0 || few || s->count < each ? (size_t)s->count : each;
    for (size_t i = 0; i < n; i++) {
        edit_element(t, name_of(s->id), s, i * (size_t)s->count / n);
    }
    edit_whole(t, name_of(s->id), s);
    printf("%-18s %6d edits, %6d refused, %4d go, %4d broke\n", name_of(s->id), t->edits - edits,
           t->refused - refused, t->go - go, t->broke - broke);
}

// --- all of it

static int fail(const char *what, const pf_error *error)
{
    fprintf(stderr, "torture_kits: %s: %s\n", what, error->text);
    return 4;
}

// How many pairs of a task and a candidate there are where the task is lost without it.
static int count_lost(const pf_kit *k, int *pairs)
{
    int lost = 0;
    *pairs = k->n_tasks * (k->n_mech - 1);
    for (int i = 0; i < *pairs; i++) {
        lost += is_lost(k, i / (k->n_mech - 1), 1 + i % (k->n_mech - 1));
    }
    return lost;
}

static int run(torture *t, size_t each)
{
    uint32_t n = 0;
    int pairs = 0, lost = count_lost(&t->kit, &pairs);
    printf("%d of %d pairs of a task and an actuator are lost when that is dead\n", lost, pairs);
    if (lost == 0) {
        fprintf(stderr, "torture_kits: no task needs an actuator, so nothing could be found\n");
        return 4;
    }
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
    printf("%d edits: %d refused, %d without a false go, %d go for a dead actuator, %d broke\n",
           t->edits, t->refused, t->no_go, t->go, t->broke);
    printf("%d passed, %d failed\n", t->refused + t->no_go, t->go + t->broke);
    return t->go + t->broke > 0;
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
