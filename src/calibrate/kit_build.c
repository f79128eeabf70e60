// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "core/constants.h"
#include "kit_build.h"
#include "core/kit_layout.h"

#include <stdlib.h>
#include <string.h>

// Every gain of the joint posterior and every correction in use lies between these.
static const double force_gains[PF_FORCE_GAINS] = {0,  .1, .2, .3, .4,  .5,   .6,
                                                   .7, .8, .9, 1,  1.1, 1.25, 1.5};
static const double corrections[PF_FORCE_CORRECTIONS] = {.7, .85, 1, 1.15, 1.3, 1.5, 1.75,
                                                         2,  2.5, 3, 4,    6,   10};

// --- dimensions

static void set_dims(pf_kit *k, const pf_plan *plan, const pf_kit_kind *kind)
{
    k->n_mech = plan->n_mech;
    k->n_chan = plan->n_chan;
    k->n_state = kind->n_state;
    k->n_grid = plan->n_grid;
    k->n_bins = plan->settings.bins;
    k->n_probes = plan->n_probes;
    k->n_scale = kind->n_scale;
    for (int q = 0; q < plan->n_probes; q++) {
        k->n_targets += plan->probes[q].n_targets;
        k->n_rows += plan->probes[q].rows;
        k->n_variant += plan->probes[q].rows * plan->probes[q].n_targets * plan->n_grid;
        int window = plan->probes[q].rows * plan->n_chan;
        k->n_whiten += kind->weighted ? window * (window + 1) / 2 : 0;
    }
    k->n_response = kind->responses ? k->n_rows : 0;
    k->n_variant = kind->responses ? k->n_variant : 0;
    k->n_curve = kind->curves ? k->n_targets : 0;
    k->n_tasks = plan->n_tasks;
    for (int t = 0; t < plan->n_tasks; t++) {
        k->n_uses += plan->tasks[t].n_uses;
        k->n_task_rows += plan->tasks[t].command ? plan->tasks[t].rows : 0;
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        k->n_reach = plan->tasks[t].policy_index >= 0 ? k->n_uses : k->n_reach;
    }
    k->n_shares = PF_RETURN_SHARES;
    k->n_knots = kind->n_knots;
    for (int q = 0; q < plan->n_probes; q++) {
        int n = plan->probes[q].n_targets;
        k->n_look += kind->n_knots > 0 ? n * (1 + n * kind->n_knots) : 0;
    }
    k->n_misfit = kind->n_knots > 0 ? k->n_rows : 0;
    bool readings = strcmp(kind->predictor, "ensemble") == 0 && kind->n_state > plan->n_chan;
    k->n_before = k->n_misfit > 0 && readings ? plan->n_chan : 0;
    k->n_rehearse = kind->rehearse ? k->n_tasks : 0;
    k->n_bounded =
        kind->rehearse && plan->config && plan->config->design.n_outputs > 0 ? k->n_uses : 0;
    k->n_members = kind->n_members;
    for (int t = 0; t < plan->n_tasks && kind->losses; t++) {
        for (int u = 0; u < plan->tasks[t].n_uses; u++) {
            bool force = kind->losses[plan->tasks[t].uses[u]] == PF_LOSS_FORCE;
            k->n_force = force ? k->n_uses * k->n_members * PF_FORCE_GAINS * PF_FORCE_CORRECTIONS
                               : k->n_force;
        }
    }
    k->n_methods = kind->n_methods > 0 ? kind->n_methods : 1;
    k->statistic = kind->statistic;
    k->cross_ratio = 1;
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    PF_KIT_##kit(k->field = plan->settings.field;)
#include "settings/settings.def"
    if (k->budget3 < 0) {
        k->budget3 = 2 * k->n_tasks * (k->rehearsals > 0 ? k->rehearsals : 1);
    }
}

// --- names, in the order of pf_kit_string and after it

typedef struct names {
    pf_kit_build *build; // NULL while counting
    int n, bytes;
} names;

static void add_name(names *list, const char *text)
{
    int size = (int)strlen(text) + 1;
    if (list->build) {
        list->build->name[list->n] = (uint32_t)list->bytes;
        memcpy(list->build->text + list->bytes, text, (size_t)size);
    }
    list->n++;
    list->bytes += size;
}

static void add_names(names *list, const pf_plan *plan, const pf_kit_kind *kind)
{
    add_name(list, plan->plant);
    add_name(list, kind->predictor);
    add_name(list, kind->model ? kind->model : "");
    add_name(list, kind->source);
    add_name(list, kind->processor ? kind->processor : "");
    add_name(list, PF_VERSION);
    for (int j = 0; j < plan->n_mech; j++) {
        add_name(list, plan->mechanisms[j].name);
    }
    for (int c = 0; c < plan->n_chan; c++) {
        add_name(list, plan->channels[c].name);
    }
    for (int q = 0; q < plan->n_probes; q++) {
        add_name(list, plan->probes[q].name);
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        add_name(list, plan->tasks[t].name);
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        add_name(list, plan->tasks[t].policy);
    }
    for (int t = 0; t < plan->n_tasks; t++) {
        add_name(list, plan->tasks[t].fallback ? plan->tasks[t].fallback : "");
    }
    for (int i = 0; i < kind->n_methods; i++) {
        add_name(list, kind->methods[i]);
    }
    if (kind->n_methods == 0) {
        add_name(list, plan->method);
    }
    bool loops = plan->folder != NULL; // the folder comes after them
    for (int q = 0; q < plan->n_probes; q++) {
        loops = loops || plan->probes[q].policy;
    }
    for (int q = 0; q < plan->n_probes && loops; q++) {
        add_name(list, plan->probes[q].policy ? plan->probes[q].policy : "");
    }
    if (plan->folder) {
        add_name(list, plan->folder);
    }
}

// --- contents

static void fill_probes(pf_kit_build *b, const pf_plan *plan)
{
    int row = 0, target = 0;
    for (int q = 0; q < plan->n_probes; q++) {
        const pf_plan_probe *probe = &plan->probes[q];
        memcpy(b->command + (size_t)row * (size_t)plan->n_mech, probe->command,
               sizeof(double) * (size_t)probe->rows * (size_t)plan->n_mech);
        for (int t = 0; t < probe->n_targets; t++) {
            b->target_mech[target + t] = probe->targets[t];
        }
        row += probe->rows;
        target += probe->n_targets;
        b->probe_row[q + 1] = row;
        b->probe_target[q + 1] = target;
        b->probe_cross[q] = -1;
        b->charge[q] = probe->charge;
    }
}

static void fill_tasks(pf_kit_build *b, const pf_plan *plan)
{
    int row = 0, use = 0;
    for (int t = 0; t < plan->n_tasks; t++) {
        const pf_plan_task *task = &plan->tasks[t];
        if (task->command) {
            memcpy(b->task_command + (size_t)row * (size_t)plan->n_mech, task->command,
                   sizeof(double) * (size_t)task->rows * (size_t)plan->n_mech);
            row += task->rows;
        }
        for (int u = 0; u < task->n_uses; u++) {
            int j = task->uses[u];
            b->use_mech[use + u] = j;
            if (j == 0) {
                continue;
            }
            // w sums reveal x importance over the tasks that use a mechanism
            b->weight[j - 1] += task->reveal * task->importance;
            b->reveal[j - 1] += task->reveal;
        }
        use += task->n_uses;
        b->task_use[t + 1] = use;
        b->task_row[t + 1] = row;
        b->task_reveal[t] = task->reveal;
        b->task_importance[t] = task->importance;
    }
    for (int j = 0; j < plan->n_mech - 1; j++) {
        b->importance[j] = b->reveal[j] > 0 ? b->weight[j] / b->reveal[j] : 0;
    }
}

// What the field's verdict knows before it is calibrated: nothing, in numbers that a kit may have.
static void fill_verdict(pf_kit_build *b)
{
    const pf_kit *k = &b->kit;
    for (int i = 0; i < k->n_look; i++) {
        b->look_variance[i] = 1;
    }
    for (int i = 0; i < k->n_misfit * k->n_chan; i++) {
        b->residual_rms[i] = 1;
    }
    for (int i = 0; k->n_misfit > 0 && i < k->n_probes * k->n_chan; i++) {
        b->misfit_sd[i] = 1;
    }
    for (int c = 0; k->n_misfit > 0 && c < k->n_chan; c++) {
        b->still[c] = 1;
    }
    for (int c = 0; c < k->n_before; c++) {
        b->before[c] = PF_UNBOUNDED;
    }
    if (k->n_misfit > 0) {
        b->kit.misfit_chan = b->kit.misfit_shape = b->kit.misfit_level = 1;
    }
}

double pf__return_share(int index)
{
    return index * .05;
}

pf_status pf__kit_build_init(pf_kit_build *b, const pf_plan *plan, const pf_kit_kind *kind,
                             pf_error *error)
{
    memset(b, 0, sizeof *b);
    pf_kit *k = &b->kit;
    set_dims(k, plan, kind);
    names count = {NULL, 0, 0};
    add_names(&count, plan, kind);
    k->n_names = count.n;
    k->n_text = count.bytes;
    if (pf__kit_image_size(k) == 0) {
        return pf_fail(error, PF_ERR_ARGUMENT,
                       "a kit of this size is beyond the format (%d probe rows, %d task rows, %d "
                       "targets)",
                       (int)k->n_rows, (int)k->n_task_rows, (int)k->n_targets);
    }
#define X(id, type, field, count)                                                                  \
    k->field = b->field = pf__arena_take(&b->arena, count, sizeof(type));
    PF_KIT_ARRAYS(X)
#undef X
    if (b->arena.failed) {
        pf__kit_build_free(b);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a kit of %z bytes",
                       pf__kit_image_size(k));
    }
    for (int j = 0; j < plan->n_mech; j++) {
        b->lo[j] = plan->mechanisms[j].lo;
        b->hi[j] = plan->mechanisms[j].hi;
        b->prior[j] = plan->prior[j];
    }
    memcpy(b->grid, plan->grid, sizeof(double) * (size_t)plan->n_grid);
    for (int i = 0; i < PF_RETURN_SHARES; i++) {
        b->shares[i] = pf__return_share(i);
    }
    for (int j = 0; j < k->n_mech && k->n_force > 0; j++) {
        b->loss[j] = kind->losses[j] == PF_LOSS_FORCE;
    }
    if (k->n_force > 0) {
        memcpy(b->force_gains, force_gains, sizeof force_gains);
        memcpy(b->corrections, corrections, sizeof corrections);
    }
    for (int i = 0; i < k->n_knots; i++) {
        b->knots[i] = kind->knots[i]; // a kit without looks has none
    }
    fill_verdict(b);
    fill_probes(b, plan);
    fill_tasks(b, plan);
    for (int u = 0; u < k->n_reach; u++) {
        b->reach[u] = 1;
    }
    for (int i = 0; i < k->n_methods; i++) {
        b->threshold[i] = 1;
    }
    names fill = {b, 0, 0};
    add_names(&fill, plan, kind);
    return PF_OK;
}

pf_status pf__kit_build_cross(pf_kit_build *b, int n, const double *cross, pf_error *error)
{
    b->kit.n_cross = n;
    b->kit.cross = b->cross = pf__arena_take(&b->arena, (size_t)n, sizeof(double));
    if (!b->cross) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for full rows");
    }
    memcpy(b->cross, cross, sizeof(double) * (size_t)n);
    return PF_OK;
}

pf_status pf__kit_build_groups(pf_kit_build *b, int n, const int32_t *first, const int32_t *tasks,
                               pf_error *error)
{
    pf_kit *k = &b->kit;
    k->n_groups = n;
    k->n_grouped = first[n];
    k->group_first = b->group_first =
        pf__arena_take(&b->arena, n > 0 ? (size_t)n + 1 : 0, sizeof *first);
    k->group_task = b->group_task = pf__arena_take(&b->arena, (size_t)first[n], sizeof *tasks);
    k->group_rehearsal = b->group_rehearsal =
        pf__arena_take(&b->arena, (size_t)n * PF_REHEARSAL_NUMBERS, sizeof(double));
    if (b->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for groups");
    }
    for (int i = 0; i <= n && n > 0; i++) {
        b->group_first[i] = first[i];
    }
    for (int i = 0; i < first[n]; i++) {
        b->group_task[i] = tasks[i];
    }
    return PF_OK;
}

pf_status pf__kit_build_blind(pf_kit_build *b, int n_first, const int32_t *first,
                              const double *blind, pf_error *error)
{
    size_t n = (size_t)first[n_first - 1];
    b->kit.n_blind = (int32_t)n;
    b->kit.blind_first = b->blind_first = pf__arena_take(&b->arena, (size_t)n_first, sizeof *first);
    b->kit.blind = b->blind = pf__arena_take(&b->arena, n, sizeof *blind);
    if (b->arena.failed) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for blind directions");
    }
    memcpy(b->blind_first, first, sizeof *first * (size_t)n_first);
    memcpy(b->blind, blind, sizeof *blind * n);
    return PF_OK;
}

pf_status pf__kit_build_save(const pf_kit_build *b, void **bytes, size_t *n_bytes, pf_error *error)
{
    *bytes = NULL;
    pf_status status = pf_kit_check(&b->kit, error);
    if (status != PF_OK) {
        return status;
    }
    *n_bytes = pf__kit_image_size(&b->kit);
    void *image = malloc(*n_bytes);
    if (!image) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a kit of %z bytes", *n_bytes);
    }
    status = pf__kit_save(&b->kit, image, *n_bytes, error);
    if (status != PF_OK) {
        free(image);
        return status;
    }
    *bytes = image;
    return PF_OK;
}

void pf__kit_build_free(pf_kit_build *b)
{
    pf__arena_free(&b->arena);
}
