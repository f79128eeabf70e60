// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "suite.h"
#include "own_method.h"
#include "host/file.h"
#include "plant/plant_impl.h"

#include "stats.h"
#include "trial.h"
#include "verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const pf_profile profiles[] = {
    {"quick", 1, 4, 12, 100},
    {"standard", 3, 25, 0, 1000},
    {"paper", 0, 0, 0, 0},
};

const pf_profile *pf__profile_find(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            return &profiles[i];
        }
    }
    return NULL;
}

// --- the schema

#define NAMES PF_ONE_OR_MORE(PF_KIND_TEXT, 0, 1, 128, "a name")
#define WHOLE(least, most, help) PF_ONE_OR_MORE(PF_KIND_WHOLE, 0, least, most, help)
#define AT(field) offsetof(pf_suite, field)
static const pf_schema_row rows[] = {
    {"id", PF_KIND_NAME, PF_ROW_REQUIRED, 1, 64, AT(id), NULL, "name of the suite"},
    {"title", PF_KIND_TEXT, PF_ROW_REQUIRED, 1, 200, AT(title), NULL, "what it is about"},
    {"paper", PF_KIND_TEXT, 0, 1, 80, AT(paper), NULL, "where the paper has it"},
    {"kind", PF_KIND_NAME, 0, 1, 32, AT(kind), NULL, "readiness, mechanism, coordinate or verdict"},
    {"needs", PF_KIND_TEXT, 0, 1, 120, AT(needs), NULL, "what it needs"},
    {"cost", PF_KIND_TEXT, 0, 1, 120, AT(cost), NULL, "what it costs"},
    {"from", PF_KIND_NAME, 0, 1, 64, AT(from), NULL, "the suite whose units it shows"},
    {"table", PF_KIND_NAME, 0, 1, 32, AT(table), NULL, "metrics, ranks, ladder or settings"},
    {"figure", PF_KIND_NAME, 0, 1, 32, AT(figure), NULL, "a template of suites/figures"},
    {"environments", PF_KIND_REFS, 0, 1, 64, AT(environments), NAMES, "plants"},
    {"methods", PF_KIND_REFS, 0, 1, 32, AT(methods), NAMES, "method ids"},
    {"settings", PF_KIND_REFS, 0, 1, 256, AT(named), NAMES, "settings one by one"},
    {"metrics", PF_KIND_REFS, 0, 1, 32, AT(metrics), NAMES, "metrics the table shows"},
    {"gains", PF_KIND_NUMBERS, 0, 1, 64, AT(gains),
     PF_ONE_OR_MORE(PF_KIND_NUMBER, PF_ROW_OPEN, 0, 1, "a gain"), "true gains"},
    {"stage2", PF_KIND_NUMBERS, 0, 1, 16, AT(stage2), WHOLE(0, 100, "recovery probes"),
     "recovery budgets"},
    {"bins", PF_KIND_NUMBERS, 0, 1, 16, AT(bins),
     WHOLE(PF_SUITE_BINS_LEAST, PF_SUITE_BINS_MOST, "categories"), "categories K"},
    {"episodes", PF_KIND_NUMBERS, 0, 1, 16, AT(episodes),
     WHOLE(PF_SUITE_EPISODES_LEAST, PF_SUITE_EPISODES_MOST, "episodes"), "episodes per class"},
    {"opportunities", PF_KIND_NUMBERS, 0, 1, 16, AT(opportunities),
     WHOLE(1, PF_SUITE_OPPORTUNITIES_MOST, "opportunities"), "after the change"},
    {"predictor", PF_KIND_NAME, 0, 1, 16, AT(predictor), NULL, "twin or ensemble"},
    {"learned_on", PF_KIND_REFS, 0, 1, 64, AT(learned_on), NAMES,
     "by environment: the plant that its ensemble is learned on; default: itself"},
    {"recalibrate", PF_KIND_FLAG, 0, 0, 0, AT(recalibrate), NULL, "g_cal follows the gain"},
    {"seeds", PF_KIND_COUNT, 0, 1, 1000, AT(seeds), NULL, "seeds 0.. at paper scale"},
    {"trials", PF_KIND_COUNT, 0, 1, 100000, AT(trials), NULL, "trials per seed at paper scale"},
    {"nominal", PF_KIND_NUMBER, PF_ROW_OPEN_MAX, 0, 1, AT(nominal), NULL,
     "share of nominal trials"},
    {"n_faults", PF_KIND_NUMBERS, 0, 1, PF_SCHEDULE_FAULTS, AT(n_faults),
     WHOLE(1, PF_SCHEDULE_FAULTS, "mechanisms"),
     "mechanisms that change at once, gains drawn from the list"},
    {"probes", PF_KIND_TEXT, 0, 1, 1024, AT(probes), NULL,
     "of the group methods: single, designed or a file"},
// settings.def: those of suites
#define PF_IN_NO(...)
#define PF_IN_AXIS(...)
#define PF_IN_YES(...) __VA_ARGS__,
#define PF_IN_GROUP(...) __VA_ARGS__,
#define PF_IN_READING(...) __VA_ARGS__,
#define PF_SETTING(field, key, type, field_kit, suite_default, least, most, ends, shape, config,   \
                   suite, kit, hash, group, help)                                                  \
    PF_IN_##suite(PF_SETTING_ROW(pf_suite, field, key, type, least, most, ends, shape, help))
#include "settings/settings.def"
};
#undef AT
#undef NAMES
#undef WHOLE

static pf_status check_settings(const pf__yaml_node *node, const void *base, const char *path,
                                pf_error *error)
{
    (void)path;
    return pf__settings_check(node, &((const pf_suite *)base)->settings, error);
}

static const pf_schema schema = {rows, PF_COUNT(rows), sizeof(pf_suite), 0, check_settings, NULL};

// --- what the schema cannot know

static pf_status set_numbers(pf_config_numbers *list, double value, pf_error *error)
{
    if (list->n > 0) {
        return PF_OK;
    }
    list->value = malloc(sizeof *list->value);
    if (!list->value) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for a suite");
    }
    list->value[0] = value;
    list->n = 1;
    return PF_OK;
}

static pf_status set_defaults(pf_suite *s, pf_error *error)
{
    pf_settings *settings = &s->settings;
    pf__settings_complete(settings, s->settings.verdict == PF_VERDICT_FIELD ? PF_SETTINGS_FIELD
                                                                            : PF_SETTINGS_SUITE);
    pf_status status = set_numbers(&s->gains, .35, error);
    status = status ? status : set_numbers(&s->stage2, settings->budget2, error);
    status = status ? status : set_numbers(&s->bins, settings->bins, error);
    status = status ? status : set_numbers(&s->episodes, settings->episodes, error);
    s->seeds = s->seeds < 0 ? 5 : s->seeds;
    s->trials = s->trials < 0 ? 40 : s->trials;
    s->nominal = isnan(s->nominal) ? .2 : s->nominal;
    return status;
}

static bool learns_on_itself(const pf_suite *s)
{
    return s->learned_on.n == 0 ||
           (s->learned_on.n == 1 && strcmp(s->learned_on.text[0], "itself") == 0);
}

const char *pf__suite_learned_on(const pf_suite *s, int environment)
{
    return learns_on_itself(s) ? s->environments.text[environment]
                               : s->learned_on.text[environment];
}

static bool is_kind(const pf_suite *s, const char *kind)
{
    return s->kind && strcmp(s->kind, kind) == 0;
}

// What the field's verdict and its own suites have no use for.
static pf_status check_field(const pf_suite *s, const char *file, pf_error *error)
{
    bool audits = pf__suite_audits(s), field = s->settings.verdict == PF_VERDICT_FIELD;
    if (audits && !field) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: kind: a verdict suite is about field kits; say verdict: field", file);
    }
    const char *idle = is_kind(s, "mechanism") || is_kind(s, "coordinate") ? "kind"
                       : s->opportunities.n > 0                            ? "opportunities"
                       : s->named.n > 0 && !audits                         ? "settings"
                       : s->n_faults.n > 0 && audits                       ? "n_faults"
                       : s->recalibrate > 0                                ? "recalibrate"
                                                                           : NULL;
    if (field && idle) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: verdict: the field's has no %s; leave it out, or say paper", file,
                       idle);
    }
    const char *unused = s->gains.n > 1           ? "gains"
                         : s->bins.n > 1          ? "several bins"
                         : s->stage2.n > 1        ? "several stage2"
                         : s->episodes.n > 1      ? "several episodes"
                         : s->settings.hazard > 0 ? "hazard"
                                                  : NULL;
    if (audits && (unused || (s->table && strcmp(s->table, "settings") != 0))) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: kind: a verdict suite has no %s; leave it out",
                       file, unused ? unused : "table but settings");
    }
    return PF_OK;
}

// What is run, and on what.
static pf_status check_parts(const pf_suite *s, const char *file, pf_error *error)
{
    bool mechanism = is_kind(s, "mechanism");
    if (is_kind(s, "coordinate") &&
        (s->methods.n != 1 || strcmp(s->methods.text[0], "eg-mpt") != 0)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: methods: a coordinate study has the coordinate of eg-mpt alone", file);
    }
    if (s->from && (s->environments.n > 0 || s->methods.n > 0)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: from: environments and methods are those of '%s', leave them out", file,
                       s->from);
    }
    if (!s->from && s->environments.n == 0) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: environments: is missing", file);
    }
    if (mechanism && s->named.n == 0) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: settings: a mechanism study needs them", file);
    }
    if (!s->from && !mechanism && s->methods.n == 0) {
        return pf_fail(error, PF_ERR_FORMAT, "%s: methods: is missing", file);
    }
    return PF_OK;
}

static pf_status check_kind(const pf_suite *s, const char *file, pf_error *error)
{
    static const char *const kinds[] = {"readiness", "mechanism", "coordinate", "verdict"};
    static const char *const tables[] = {"metrics", "ranks", "ladder", "settings"};
    bool kind = !s->kind, table = !s->table;
    for (int i = 0; i < 4; i++) {
        kind = kind || strcmp(s->kind, kinds[i]) == 0;
        table = table || strcmp(s->table, tables[i]) == 0;
    }
    if (!kind) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: kind: '%s' is not readiness, mechanism, coordinate or verdict", file,
                       s->kind);
    }
    if (!table) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: table: '%s' is not metrics, ranks, ladder or settings", file, s->table);
    }
    for (int i = 0; i < s->metrics.n; i++) {
        if (!pf__entry_metric_known(s->metrics.text[i])) {
            return pf_fail(error, PF_ERR_FORMAT, "%s: metrics: there is no metric '%s'", file,
                           s->metrics.text[i]);
        }
    }
    pf_status status = check_field(s, file, error);
    return status ? status : check_parts(s, file, error);
}

bool pf__environment_missing(const char *name, pf_status status)
{
    return status == PF_ERR_UNSUPPORTED ||
           (status == PF_ERR_PLANT && pf__plant_is_process(name) && strncmp(name, "exec:", 5) != 0);
}

pf_status pf__environment_usable(const pf_plant *plant, const char *name, const char *file,
                                 pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    if (info->losses) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: environments: mechanisms of plant '%s' lose force, and suites know "
                       "losses of command only",
                       file, name);
    }
    return info->probe && (info->task || info->n_metrics > 0)
               ? PF_OK
               : pf_fail(error, PF_ERR_FORMAT,
                         "%s: environments: plant '%s' brings no probes and tasks", file, name);
}

// A plant whose backend is missing here is left out when the suite runs; its tables can be read.
// Processes are not started to read a suite.
static pf_status check_plants(const pf_suite *s, const char *file, pf_error *error)
{
    for (int i = 0; i < s->environments.n; i++) {
        pf_plant *plant = NULL;
        pf_error why = {PF_OK, ""};
        const char *name = s->environments.text[i];
        pf_status status =
            pf__plant_is_process(name) ? PF_ERR_UNSUPPORTED : pf_plant_create(&plant, name, &why);
        if (pf__environment_missing(name, status)) {
            continue;
        }
        if (status != PF_OK) {
            return pf_fail(error, PF_ERR_FORMAT, "%s: environments: %s", file, why.text);
        }
        status = pf__environment_usable(plant, name, file, error);
        pf_plant_destroy(plant);
        if (status != PF_OK) {
            return status;
        }
    }
    return PF_OK;
}

// The id names pages and figures, `from` the file of another suite.
static pf_status check_id(const pf_suite *s, const char *file, pf_error *error)
{
    bool id = !pf__file_name_fits(s->id);
    if (!id && (!s->from || pf__file_name_fits(s->from))) {
        return PF_OK;
    }
    return pf_fail(error, PF_ERR_FORMAT,
                   "%s: %s: becomes the name of a file: take out '/', control characters, and '.' "
                   "or '-' at its beginning",
                   file, id ? "id" : "from");
}

static pf_status check_names(const pf_suite *s, const char *file, pf_error *error)
{
    pf_status status = check_id(s, file, error);
    status = status ? status : check_kind(s, file, error);
    if (status == PF_OK && s->predictor && strcmp(s->predictor, "twin") != 0 &&
        strcmp(s->predictor, "ensemble") != 0) {
        status = pf_fail(error, PF_ERR_FORMAT, "%s: predictor: '%s' is neither twin nor ensemble",
                         file, s->predictor);
    }
    if (status == PF_OK && s->learned_on.n != s->environments.n && !learns_on_itself(s)) {
        status = pf_fail(error, PF_ERR_FORMAT, "%s: learned_on: %d plants for %d environments",
                         file, s->learned_on.n, s->environments.n);
    }
    if (status != PF_OK) {
        return status;
    }
    for (int i = 0; i < s->methods.n; i++) {
        if (pf__suite_audits(s) && pf__verdict_rule(s->methods.text[i]) < 0) {
            char rules[128];
            pf__verdict_names(rules);
            return pf_fail(error, PF_ERR_FORMAT,
                           "%s: methods: there is no rule '%s'; those of a verdict suite are%s",
                           file, s->methods.text[i], rules);
        }
        if (!pf__suite_audits(s) && !pf_method_find(s->methods.text[i])) {
            return pf_fail(error, PF_ERR_FORMAT,
                           "%s: methods: there is no method '%s'; see `preflight list methods`",
                           file, s->methods.text[i]);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(s->methods.text[i], s->methods.text[k]) == 0) {
                return pf_fail(error, PF_ERR_FORMAT, "%s: methods: '%s' is listed twice", file,
                               s->methods.text[i]);
            }
        }
    }
    return check_plants(s, file, error);
}

// What has no use must not be given in vain: readings of the paper with the field's verdict, a
// plant to learn on without an ensemble, and what only group methods have.
static pf_status check_idle(const pf_suite *s, const char *file, pf_error *error)
{
    bool field = s->settings.verdict == PF_VERDICT_FIELD;
    const char *reading = field ? pf__settings_given_reading(&s->settings) : NULL;
    if (reading) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: verdict: the field's has no %s; leave it out, or say paper", file,
                       reading);
    }
    if (s->learned_on.n > 0 && !learns_on_itself(s) &&
        !(s->predictor && strcmp(s->predictor, "ensemble") == 0)) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: learned_on: a twin learns nothing; leave it out, or say predictor: "
                       "ensemble",
                       file);
    }
    if (pf__suite_groups(s) || s->settings.verdict == PF_VERDICT_FIELD) {
        return PF_OK;
    }
    const char *idle = s->probes ? "probes" : pf__settings_given_group(&s->settings);
    return !idle ? PF_OK
                 : pf_fail(error, PF_ERR_FORMAT,
                           "%s: %s: is for the methods group and group:random; list one or leave "
                           "it out",
                           file, idle);
}

bool pf__suite_audits(const pf_suite *s)
{
    return s->kind && strcmp(s->kind, "verdict") == 0;
}

bool pf__suite_groups(const pf_suite *s)
{
    for (int i = 0; i < s->methods.n; i++) {
        const pf_method *method = pf__method_of(s->own, s->methods.text[i]);
        if (method && method->group) {
            return true;
        }
    }
    return false;
}

pf_status pf__suite_read(pf_suite *suite, const char *file, const char *text, size_t n,
                         const char *const *overrides, int n_overrides, pf_error *error)
{
    memset(suite, 0, sizeof *suite);
    pf__settings_clear(&suite->settings);
    pf_status status =
        pf__schema_read(&schema, "a suite", file, text, n, overrides, n_overrides, suite, error);
    status = status ? status : check_idle(suite, file, error);
    status = status ? status : set_defaults(suite, error);
    status = status ? status : check_names(suite, file, error);
    if (status != PF_OK) {
        pf__suite_free(suite);
    }
    return status;
}

void pf__suite_free(pf_suite *suite)
{
    pf__schema_free(&schema, suite);
    memset(suite, 0, sizeof *suite);
}
