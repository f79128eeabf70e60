// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"
#include "plant/plant_impl.h"

#include "host/csv.h"
#include "host/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    const char *commands, *seed, *state, *what;
    cli_list fault, plant;
    bool mean_reset, no_noise;
} call;

// A table of numbers from a CSV file. prefix: columns must be prefix0, prefix1, ... columns 0: as
// many as there are.
typedef struct table {
    int rows, columns;
    double *value;
} table;

static pf_status read_rows(pf_csv *csv, table *out, int most, pf_error *error)
{
    bool more = true;
    size_t room = 0;
    for (;;) {
        pf_status status = pf__csv_next(csv, &more, error);
        if (status != PF_OK || !more) {
            return status;
        }
        if (out->rows == most) {
            return pf__csv_refuse(csv, -1, PF_ERR_FORMAT, "too many rows", error);
        }
        size_t need = ((size_t)out->rows + 1) * (size_t)out->columns;
        if (need > room) {
            room = 2 * need;
            double *grown = realloc(out->value, room * sizeof(double));
            if (!grown) {
                return pf_fail(error, PF_ERR_MEMORY, "out of memory");
            }
            out->value = grown;
        }
        for (int c = 0; c < out->columns; c++) {
            size_t at = (size_t)out->rows * (size_t)out->columns + (size_t)c;
            status = pf__csv_number(csv, c, &out->value[at], error);
            if (status != PF_OK) {
                return status;
            }
        }
        out->rows++;
    }
}

static pf_status read_table(const char *path, const char *prefix, int columns, int most, table *out,
                            pf_error *error)
{
    void *text = NULL;
    size_t n = 0;
    pf_csv csv;
    *out = (table){0, columns, NULL};
    pf_status status =
        pf__file_read_until(path, (size_t)1 << 28, &cli_interrupted, &text, &n, error);
    if (status != PF_OK) {
        return status;
    }
    status = pf__csv_open(&csv, path, text, n, error);
    if (status == PF_OK) {
        out->columns = csv.n_columns;
        if (columns > 0 && csv.n_columns != columns) {
            status = pf_fail(error, PF_ERR_SHAPE, "%s: %d columns, expected %d", path,
                             csv.n_columns, columns);
        }
        for (int c = 0; prefix && c < columns && status == PF_OK; c++) {
            char name[32];
            snprintf(name, sizeof name, "%s%d", prefix, c);
            if (!pf__csv_is(csv.header[c], name)) {
                status = pf_fail(error, PF_ERR_FORMAT, "%s:1: column %d must be called %s", path,
                                 c + 1, name);
            }
        }
        if (status == PF_OK) {
            status = read_rows(&csv, out, most, error);
        }
        pf__csv_close(&csv);
    }
    free(text);
    return status;
}

static void print_row(pf_text *out, int step, int n, const double *values)
{
    char number[32];
    pf__text_addf(out, "%d", step);
    for (int i = 0; i < n; i++) {
        pf__number_text(values[i], number);
        pf__text_addf(out, ",%s", number);
    }
    pf__text_add(out, "\n");
}

static void print_trace(const pf_plant_info *info, bool state, int rows, const double *first,
                        const double *values)
{
    pf_text out = {0};
    int n = state ? info->n_state : info->n_chan;
    pf__text_add(&out, "step");
    for (int i = 0; i < n; i++) {
        if (state) {
            pf__text_addf(&out, ",x%d", i);
        } else {
            pf__text_addf(&out, ",%s", info->channels[i].name);
        }
    }
    pf__text_add(&out, "\n");
    if (isfinite(first[0])) {
        print_row(&out, 0, n, first);
    }
    for (int r = 0; r < rows; r++) {
        print_row(&out, r + 1, n, values + (size_t)r * (size_t)n);
    }
    cli_print(&out);
    pf__text_free(&out);
}

typedef struct buffers {
    double *start, *given, *initial, *output, *state;
} buffers;

static pf_status simulate(const call *c, pf_plant *plant, uint64_t seed, const cli_faults *faults,
                          const table *commands, const table *start, buffers *b, pf_error *error)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    bool state = c->what && strcmp(c->what, "state") == 0;
    size_t rows = (size_t)commands->rows + 1;
    b->start = calloc((size_t)info->n_state + 1, sizeof(double));
    b->given = calloc((size_t)info->n_state + 1, sizeof(double));
    b->initial = calloc((size_t)info->n_chan, sizeof(double));
    b->output = calloc(rows * (size_t)info->n_chan, sizeof(double));
    b->state = calloc(rows * ((size_t)info->n_state + 1), sizeof(double));
    if (!b->start || !b->given || !b->initial || !b->output || !b->state) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    pf_status status =
        c->state ? pf__plant_load_state(plant, start->columns, start->value, b->given, error)
                 : PF_OK;
    if (status != PF_OK) {
        return status;
    }
    pf_roll roll = pf_roll_default();
    roll.key = pf_key_stream(seed, pf_plant_environment(info), 0, PF_PURPOSE_EVALUATION, 0);
    roll.mean_reset = c->mean_reset;
    roll.start = c->state ? b->given : NULL;
    roll.faults = faults->item;
    roll.n_faults = faults->n;
    roll.command = commands->value;
    roll.rows = commands->rows;
    roll.disturbance = !c->no_noise;
    roll.sensor_noise = c->no_noise ? 0 : 1;
    pf_trace trace = {.start = b->start,
                      .initial = b->initial,
                      .output = b->output,
                      .state = state ? b->state : NULL};
    status = pf_plant_roll(plant, &roll, &trace, error);
    if (status == PF_OK) {
        // what is printed before the first command is a reading too
        double *first = isfinite(b->initial[0]) ? b->initial : NULL;
        status = pf_fault_sense(faults->item, faults->n, info, roll.key, first, roll.rows,
                                b->output, error);
    }
    if (status == PF_OK) {
        print_trace(info, state, commands->rows, state ? b->start : b->initial,
                    state ? b->state : b->output);
    }
    return status;
}

static int run(const call *c, pf_plant *plant, uint64_t seed)
{
    const pf_plant_info *info = pf_plant_get_info(plant);
    pf_error error = {PF_OK, ""};
    table commands = {0, 0, NULL}, start = {0, 0, NULL};
    buffers b = {0};
    cli_faults faults;
    bool good = cli_read_faults("rollout", &c->fault, info, NULL, &faults);
    int exit_status = EXIT_USAGE;
    if (good) {
        pf_status status = read_table(c->commands, "u", info->n_mech, 1 << 20, &commands, &error);
        if (status == PF_OK && c->state) {
            status = read_table(c->state, NULL, 0, 1, &start, &error);
            if (status == PF_OK && start.rows != 1) {
                status = pf_fail(&error, PF_ERR_SHAPE, "%s: a header and one row are expected",
                                 c->state);
            }
        }
        if (status == PF_OK) {
            status = simulate(c, plant, seed, &faults, &commands, &start, &b, &error);
        }
        exit_status = status == PF_OK ? EXIT_YES : cli_fail("rollout", status, &error);
    }
    free(commands.value);
    free(start.value);
    free(b.start);
    free(b.given);
    free(b.initial);
    free(b.output);
    free(b.state);
    return exit_status;
}

int cmd_rollout(int argc, char **argv)
{
    call c = {0};
    const cli_option options[] = {
        {"--commands", .value = &c.commands}, {"--fault", .list = &c.fault},
        {"--seed", .value = &c.seed},         {"--mean-reset", .flag = &c.mean_reset},
        {"--no-noise", .flag = &c.no_noise},  {"--state", .value = &c.state},
        {"--what", .value = &c.what},
    };
    if (!cli_parse("rollout", argc, argv, options, sizeof options / sizeof options[0], &c.plant)) {
        return EXIT_USAGE;
    }
    double seed = 0;
    if (c.plant.n != 1 || !c.commands) {
        return cli_usage("rollout",
                         c.plant.n != 1 ? "name one plant" : "--commands FILE is missing");
    }
    if (c.what && strcmp(c.what, "output") != 0 && strcmp(c.what, "state") != 0) {
        return cli_usage("rollout", "--what %s: must be output or state", c.what);
    }
    if (c.state && c.mean_reset) {
        return cli_usage("rollout", "either --state or --mean-reset, not both");
    }
    if (!cli_seed("rollout", c.seed, &seed)) {
        return EXIT_USAGE;
    }
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_status status = cli_plant_create(&plant, c.plant.item[0], &error);
    if (status != PF_OK) {
        return cli_fail("rollout", status, &error);
    }
    int exit_status = run(&c, plant, (uint64_t)seed);
    pf_plant_destroy(plant);
    return exit_status;
}
