// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "description.h"

#include "host/text.h"

#include <expat.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 64, VARIABLES_MOST = 1 << 20, DIMENSIONS_MOST = 8 };

// A declared type with limits, and a structural parameter, which a dimension may name.
typedef struct pf_fmu_type {
    const char *name;
    double lo, hi;
    struct pf_fmu_type *next;
} type;

typedef struct pf_fmu_size {
    uint32_t reference;
    double value;
    struct pf_fmu_size *next;
} size_parameter;

// A dimension: a number, or the reference of a structural parameter.
typedef struct dimension {
    bool fixed;
    double value;
} dimension;

// A variable while its element is open, and afterwards until sizes are known.
typedef struct draft {
    pf_fmu_variable v;
    bool input, output, real, known, start_given;
    const char *start, *declared;
    bool limited[2];
    int n_dimensions;
    dimension dimensions[DIMENSIONS_MOST];
    struct draft *next;
} draft;

typedef struct reader {
    pf_fmu_model *model;
    XML_Parser parser;
    pf_error *error;
    pf_status status;
    int depth, variables;
    bool root, co_simulation, model_exchange;
    type *types, *type_open;
    size_parameter *sizes;
    draft *open, *first, **last;
} reader;

static void stop(reader *r, pf_status status, const char *what, const char *detail)
{
    if (r->status == PF_OK) {
        r->status = pf_fail(r->error, status, "modelDescription.xml: %s%s", what, detail);
        XML_StopParser(r->parser, XML_FALSE);
    }
}

// A piece of the model's memory; NULL: there is none, and the reader stops.
static void *take(reader *r, size_t size)
{
    void *room = pf__arena_take(&r->model->arena, 1, size);
    if (!room) {
        stop(r, PF_ERR_MEMORY, "out of memory", "");
    }
    return room;
}

static const char *keep(reader *r, const char *text)
{
    const char *copy = text ? pf__arena_text(&r->model->arena, text) : NULL;
    if (text && !copy) {
        stop(r, PF_ERR_MEMORY, "out of memory", "");
    }
    return copy;
}

// --- attributes

static const char *find(const char **attributes, const char *name)
{
    for (int i = 0; attributes[i]; i += 2) {
        if (strcmp(attributes[i], name) == 0) {
            return attributes[i + 1];
        }
    }
    return NULL;
}

static bool is_true(const char **attributes, const char *name)
{
    const char *text = find(attributes, name);
    return text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

// A number that must be one; false: not given, or wrong, which stops the reader.
static bool number(reader *r, const char **attributes, const char *name, double *value)
{
    const char *text = find(attributes, name);
    char *end = NULL;
    if (!text) {
        return false;
    }
    double read = pf__number_read(text, &end);
    while (end && (*end == ' ' || *end == '\n' || *end == '\t' || *end == '\r')) {
        end++;
    }
    if (!end || end == text || *end || !isfinite(read)) {
        stop(r, PF_ERR_FORMAT, name, " is not a finite number");
        return false;
    }
    *value = read;
    return true;
}

static bool reference(reader *r, const char **attributes, uint32_t *value)
{
    double given;
    bool good = number(r, attributes, "valueReference", &given);
    if (good && !(given >= 0 && given <= UINT32_MAX && given == floor(given))) {
        stop(r, PF_ERR_FORMAT, "a valueReference", " is no whole number below 2^32");
        good = false;
    }
    *value = good ? (uint32_t)given : 0;
    return good;
}

// INF is how XML says that there is none.
static bool limit(reader *r, const char **attributes, const char *name, double *value)
{
    const char *text = find(attributes, name);
    return text && !strstr(text, "INF") && number(r, attributes, name, value);
}

static void limits(reader *r, const char **attributes, pf_fmu_variable *v, bool given[2])
{
    given[0] = limit(r, attributes, "min", &v->lo);
    given[1] = limit(r, attributes, "max", &v->hi);
}

// --- elements

static void take_root(reader *r, const char **attributes)
{
    pf_fmu_model *m = r->model;
    const char *version = find(attributes, "fmiVersion");
    const char *token = find(attributes, "guid");
    token = token ? token : find(attributes, "instantiationToken");
    m->version = keep(r, version ? version : "");
    m->major = version && strncmp(version, "2.", 2) == 0   ? 2
               : version && strncmp(version, "3.", 2) == 0 ? 3
                                                           : 0;
    m->name = keep(r, find(attributes, "modelName"));
    m->token = keep(r, token);
    m->tool = keep(r, find(attributes, "generationTool"));
    if (version && m->major == 0) {
        stop(r, PF_ERR_UNSUPPORTED, "it is of FMI ", version);
        if (r->error) {
            strncat(r->error->text, "; 2.0 and 3.0 are read",
                    sizeof r->error->text - strlen(r->error->text) - 1);
        }
    } else if (!version || !m->name || !token) {
        stop(r, PF_ERR_FORMAT, "fmiVersion, modelName or guid (instantiationToken)", " is missing");
    }
}

static void take_co_simulation(reader *r, const char **attributes)
{
    pf_fmu_model *m = r->model;
    const char *identifier = find(attributes, "modelIdentifier");
    r->co_simulation = true;
    m->identifier = keep(r, identifier);
    m->has_state =
        is_true(attributes, m->major == 2 ? "canGetAndSetFMUstate" : "canGetAndSetFMUState");
    m->needs_tool = is_true(attributes, "needsExecutionTool");
    bool plain = identifier && identifier[0] && !strchr(identifier, '/') && identifier[0] != '.';
    if (!plain) {
        stop(r, PF_ERR_FORMAT, "modelIdentifier", " is missing or is no name of a file");
    }
}

static void take_experiment(reader *r, const char **attributes)
{
    pf_fmu_model *m = r->model;
    double stop_s;
    number(r, attributes, "startTime", &m->start_s);
    if (number(r, attributes, "stopTime", &stop_s) && stop_s > m->start_s) {
        m->stop_s = stop_s;
    }
    if (number(r, attributes, "stepSize", &m->step_s) && !(m->step_s > 0)) {
        stop(r, PF_ERR_FORMAT, "stepSize", " is not positive");
    }
    if (number(r, attributes, "tolerance", &m->tolerance) && !(m->tolerance > 0)) {
        m->tolerance = 0;
    }
}

static bool is_real(const char *element)
{
    return strcmp(element, "Float64") == 0 || strcmp(element, "Float32") == 0;
}

static bool is_type_of_3(const char *element)
{
    static const char *const names[] = {"Float64", "Float32", "Int8",   "UInt8",       "Int16",
                                        "UInt16",  "Int32",   "UInt32", "Int64",       "UInt64",
                                        "Boolean", "String",  "Binary", "Enumeration", "Clock"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(element, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void add_type(reader *r, const char **attributes)
{
    type *t = take(r, sizeof *t);
    if (t) {
        bool given[2] = {false, false};
        pf_fmu_variable v = {.lo = -INFINITY, .hi = INFINITY};
        limits(r, attributes, &v, given);
        *t = (type){keep(r, find(attributes, "name")), v.lo, v.hi, r->types};
        r->types = t;
        r->type_open = t;
    }
}

// What both versions say of a variable itself.
static void open_variable(reader *r, const char **attributes)
{
    const char *causality = find(attributes, "causality"), *name = find(attributes, "name");
    causality = causality ? causality : "local";
    bool input = strcmp(causality, "input") == 0, output = strcmp(causality, "output") == 0;
    bool size = strcmp(causality, "structuralParameter") == 0;
    if (++r->variables > VARIABLES_MOST) {
        stop(r, PF_ERR_UNSUPPORTED, "it has more than a million", " variables");
    }
    if (size) {
        size_parameter *s = take(r, sizeof *s);
        if (s) {
            *s = (size_parameter){.value = -1, .next = r->sizes};
            reference(r, attributes, &s->reference);
            number(r, attributes, "start", &s->value);
            r->sizes = s;
        }
    }
    if (!input && !output) {
        return;
    }
    draft *d = take(r, sizeof *d);
    if (!d) {
        return;
    }
    *d = (draft){.input = input, .output = output, .v = {.lo = -INFINITY, .hi = INFINITY}};
    if (!name || !name[0] || !reference(r, attributes, &d->v.reference)) {
        stop(r, PF_ERR_FORMAT, "an input or output", " has no name or no valueReference");
    }
    d->v.name = keep(r, name);
    r->open = d;
}

// The attributes that depend on its type: of the element inside in FMI 2, of the same one in 3.
static void type_variable(reader *r, const char *element, const char **attributes)
{
    draft *d = r->open;
    d->known = true;
    d->real = strcmp(element, "Real") == 0 || is_real(element);
    d->v.single = strcmp(element, "Float32") == 0;
    if (d->real) {
        d->start = keep(r, find(attributes, "start"));
        d->declared = keep(r, find(attributes, "declaredType"));
        limits(r, attributes, &d->v, d->limited);
    }
}

static void add_dimension(reader *r, const char **attributes)
{
    draft *d = r->open;
    dimension size = {.fixed = find(attributes, "start") != NULL};
    uint32_t named = 0;
    if (d->n_dimensions == DIMENSIONS_MOST) {
        stop(r, PF_ERR_UNSUPPORTED, d->v.name, " has more than 8 dimensions");
        return;
    }
    if (size.fixed) {
        number(r, attributes, "start", &size.value);
    } else if (reference(r, attributes, &named)) {
        size.value = named;
    } else {
        stop(r, PF_ERR_FORMAT, "a dimension of ", d->v.name);
    }
    d->dimensions[d->n_dimensions++] = size;
}

static void close_variable(reader *r)
{
    *r->last = r->open;
    r->last = &r->open->next;
    r->open = NULL;
}

static void XMLCALL begin(void *self, const char *element, const char **attributes)
{
    reader *r = self;
    int depth = r->depth++;
    if (depth >= DEPTH_MOST) {
        stop(r, PF_ERR_FORMAT, "its elements are nested", " too deep");
    } else if (depth == 0) {
        r->root = strcmp(element, "fmiModelDescription") == 0;
        if (!r->root) {
            stop(r, PF_ERR_FORMAT, "its element is not ", "fmiModelDescription");
            return;
        }
        take_root(r, attributes);
    } else if (strcmp(element, "CoSimulation") == 0) {
        take_co_simulation(r, attributes);
    } else if (strcmp(element, "ModelExchange") == 0) {
        r->model_exchange = true;
    } else if (strcmp(element, "DefaultExperiment") == 0) {
        take_experiment(r, attributes);
    } else if (strcmp(element, "SimpleType") == 0 || strcmp(element, "Float64Type") == 0 ||
               strcmp(element, "Float32Type") == 0) {
        add_type(r, attributes);
    } else if (strcmp(element, "Real") == 0 && r->type_open) {
        limit(r, attributes, "min", &r->type_open->lo);
        limit(r, attributes, "max", &r->type_open->hi);
    } else if (r->open && strcmp(element, "Dimension") == 0) {
        add_dimension(r, attributes);
    } else if (strcmp(element, "ScalarVariable") == 0 && !r->open && depth == 2) {
        open_variable(r, attributes);
    } else if (r->open && !r->open->known) {
        type_variable(r, element, attributes);
    } else if (r->model->major == 3 && depth == 2 && is_type_of_3(element) && !r->open) {
        open_variable(r, attributes);
        if (r->open) {
            type_variable(r, element, attributes);
        }
    }
}

static void XMLCALL end(void *self, const char *element)
{
    reader *r = self;
    (void)element;
    r->depth--;
    if (r->open && r->depth == 2) {
        close_variable(r);
    }
    if (r->depth == 2) {
        r->type_open = NULL;
    }
}

static void XMLCALL refuse_doctype(void *self, const char *name, const char *system,
                                   const char *public, int internal)
{
    (void)name, (void)system, (void)public, (void)internal;
    stop(self, PF_ERR_FORMAT, "it declares entities or a document type,", " which no FMU does");
}

// --- what is known when all is read

// How many numbers a variable has; 0: wrong, which is said.
static int count(reader *r, const draft *d)
{
    double n = 1;
    for (int i = 0; i < d->n_dimensions; i++) {
        double size = d->dimensions[i].fixed ? d->dimensions[i].value : -1;
        for (const size_parameter *s = r->sizes; s && !d->dimensions[i].fixed; s = s->next) {
            size = s->reference == d->dimensions[i].value ? s->value : size;
        }
        n = size >= 1 && size == floor(size) && size <= PF_FMU_NUMBERS_MOST ? n * size : 0;
    }
    if (!(n >= 1 && n <= PF_FMU_NUMBERS_MOST)) {
        r->status = pf_fail(r->error, PF_ERR_FORMAT,
                            "modelDescription.xml: the dimensions of %s are unknown, zero, or of "
                            "more than %d elements",
                            d->v.name, PF_FMU_NUMBERS_MOST);
        return 0;
    }
    return (int)n;
}

// Its start values: as many as it has elements, or one for all, or none, which is 0.
static void read_start(reader *r, const draft *d, pf_fmu_variable *v)
{
    v->start = pf__arena_take(&r->model->arena, (size_t)v->n, sizeof *v->start);
    const char *text = d->start ? d->start : "0";
    int n = 0;
    for (char *rest = NULL; v->start; text = rest) {
        text += strspn(text, " \t\r\n");
        double value = *text ? pf__number_read(text, &rest) : 0;
        if (!*text || rest == text || !isfinite(value) || n == v->n) {
            break;
        }
        v->start[n++] = value;
    }
    if (v->start && (*text || (n != v->n && n != 1))) {
        r->status = pf_fail(r->error, PF_ERR_FORMAT,
                            "modelDescription.xml: start of %s is not %d finite numbers, or one",
                            v->name, v->n);
    }
    for (int i = 1; v->start && n == 1 && i < v->n; i++) {
        v->start[i] = v->start[0];
    }
}

static void resolve(reader *r, const draft *d, pf_fmu_variables *to)
{
    if (!d->real) {
        to->others++;
        return;
    }
    pf_fmu_variable *v = &to->list[to->n++];
    *v = d->v;
    for (const type *t = r->types; t && d->declared; t = t->next) {
        if (t->name && strcmp(t->name, d->declared) == 0) {
            v->lo = d->limited[0] ? v->lo : t->lo;
            v->hi = d->limited[1] ? v->hi : t->hi;
            break;
        }
    }
    v->array = d->n_dimensions > 0;
    v->n = count(r, d);
    if (v->n == 0) {
        return;
    }
    read_start(r, d, v);
    to->numbers += v->n;
    if (r->status == PF_OK && v->lo > v->hi) {
        r->status =
            pf_fail(r->error, PF_ERR_FORMAT, "modelDescription.xml: min > max of %s", v->name);
    }
    if (r->status == PF_OK && to->numbers > PF_FMU_NUMBERS_MOST) {
        r->status =
            pf_fail(r->error, PF_ERR_UNSUPPORTED,
                    "modelDescription.xml: it has more than %d numbers of inputs or of outputs",
                    PF_FMU_NUMBERS_MOST);
    }
}

static void resolve_all(reader *r)
{
    pf_fmu_model *m = r->model;
    size_t n = 0;
    for (const draft *d = r->first; d; d = d->next) {
        n++;
    }
    m->inputs.list = pf__arena_take(&m->arena, n + 1, sizeof *m->inputs.list);
    m->outputs.list = pf__arena_take(&m->arena, n + 1, sizeof *m->outputs.list);
    for (const draft *d = r->first; d && r->status == PF_OK && !m->arena.failed; d = d->next) {
        resolve(r, d, d->input ? &m->inputs : &m->outputs);
    }
    if (r->status == PF_OK && m->arena.failed) {
        r->status = pf_fail(r->error, PF_ERR_MEMORY, "modelDescription.xml: out of memory");
    }
}

static pf_status parse(reader *r, const void *xml, size_t size)
{
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, begin, end);
    XML_SetStartDoctypeDeclHandler(r->parser, refuse_doctype);
    bool good = size <= INT_MAX && XML_Parse(r->parser, xml, (int)size, 1) == XML_STATUS_OK;
    if (r->status == PF_OK && !good) {
        return pf_fail(r->error, PF_ERR_FORMAT, "modelDescription.xml: line %d: %s",
                       (int)XML_GetCurrentLineNumber(r->parser),
                       XML_ErrorString(XML_GetErrorCode(r->parser)));
    }
    if (r->status == PF_OK && !r->co_simulation) {
        return pf_fail(r->error, PF_ERR_UNSUPPORTED,
                       r->model_exchange
                           ? "it is for model exchange only; export it for co-simulation, which "
                             "brings its own solver"
                           : "modelDescription.xml has no CoSimulation");
    }
    if (r->status == PF_OK) {
        resolve_all(r);
    }
    return r->status;
}

pf_status pf__fmu_describe(pf_fmu_model *model, const void *xml, size_t size, pf_error *error)
{
    *model = (pf_fmu_model){0};
    reader r = {.model = model, .error = error, .parser = XML_ParserCreate(NULL)};
    r.last = &r.first;
    if (!r.parser) {
        return pf_fail(error, PF_ERR_MEMORY, "modelDescription.xml: out of memory");
    }
    pf_status status = parse(&r, xml, size);
    XML_ParserFree(r.parser);
    return status;
}

void pf__fmu_model_free(pf_fmu_model *model)
{
    pf__arena_free(&model->arena);
    *model = (pf_fmu_model){0};
}
