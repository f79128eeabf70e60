// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include "host/file.h"
#include "settings/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- the table

typedef enum option_kind { VALUE, LIST, FLAG } option_kind;

typedef struct option_row {
    const char *command, *verbs, *name, *argument;
    option_kind kind;
    const char *words, *help;
} option_row;

typedef struct verb_row {
    const char *command, *name, *argument, *help;
} verb_row;

#define VERB(command, name, argument, help)
#define OPTION(command, verbs, name, argument, kind, words, help)
#define COMMAND(name, line, usage, words, about, end)                                              \
    {#name, line, usage, words, about, end, cmd_##name},
static const cli_command commands[] = {
#include "options.def"
};
#undef COMMAND
#undef OPTION

#define COMMAND(name, line, usage, words, about, end)
#define OPTION(command, verbs, name, argument, kind, words, help)                                  \
    {#command, verbs, name, argument, kind, words, help},
static const option_row options[] = {
#include "options.def"
};
#undef OPTION
#undef VERB

#define OPTION(command, verbs, name, argument, kind, words, help)
#define VERB(command, name, argument, help) {#command, name, argument, help},
static const verb_row verbs[] = {
#include "options.def"
};
#undef COMMAND
#undef OPTION
#undef VERB

enum {
    N_COMMANDS = sizeof commands / sizeof commands[0],
    N_OPTIONS = sizeof options / sizeof options[0],
    N_VERBS = sizeof verbs / sizeof verbs[0]
};

const cli_command *cli_command_at(int index)
{
    return index >= 0 && index < N_COMMANDS ? &commands[index] : NULL;
}

// Whether a word stands in a list of words.
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) {
            return true;
        }
    }
    return false;
}

// Whether an option belongs to a command, "check" or "bench run".
static bool belongs(const option_row *row, const char *command)
{
    size_t n = strcspn(command, " ");
    const char *verb = command[n] ? command + n + 1 : "";
    return strlen(row->command) == n && strncmp(row->command, command, n) == 0 &&
           (!verb[0] || !row->verbs[0] || listed(row->verbs, verb));
}

// --- help

// One row of the help; further lines of the text stand under the first.
static void print_row(int width, const char *name, const char *argument, const char *verbs_of,
                      const char *text)
{
    int shown = printf("  %s%s%s", name, argument[0] ? " " : "", argument);
    printf("%*s", shown < width ? width - shown : 2, "");
    for (const char *v = verbs_of; *v; v++) {
        fputs(*v == ' ' ? ", " : (char[]){*v, 0}, stdout);
    }
    fputs(verbs_of[0] ? ": " : "", stdout);
    for (; *text; text++) {
        putchar(*text);
        if (*text == '\n') {
            printf("%*s", width, "");
        }
    }
    putchar('\n');
}

// Settings by group with default and range: those of suites, or those of configurations.
static void print_settings(bool suites)
{
    pf_setting_info s;
    const char *group = "";
    printf("settings (--set key=value, or in the %s):\n", suites ? "suite" : "configuration");
    for (int i = 0; pf__settings_at(i, &s); i++) {
        if (suites ? !s.suite || s.axis : !s.config) {
            continue;
        }
        if (strcmp(group, s.group) != 0) {
            group = s.group;
            printf(" %s\n", group);
        }
        int shown = printf("  %s=%s", s.key, s.otherwise[suites]);
        printf("%*s%s\n", shown < 23 ? 23 - shown : 2, "", s.help);
        printf("%23s%s%s\n", "", s.range, suites && s.group_methods ? ", group methods alone" : "");
    }
    putchar('\n');
}

void cli_print_help(const cli_command *command)
{
    enum { WIDTH = 23 };
    printf("preflight %s: %s\n\nusage: preflight %s %s\n\n", command->name, command->line,
           command->name, command->usage);
    int rows = 0;
    printf("%s%s", command->about, command->about[0] ? "\n" : "");
    for (int i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i].command, command->name) == 0 && verbs[i].help[0]) {
            print_row(WIDTH, verbs[i].name, verbs[i].argument, "", verbs[i].help);
            rows++;
        }
    }
    fputs(rows > 0 ? "\n" : "", stdout);
    rows = 0;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (belongs(&options[i], command->name)) {
            print_row(WIDTH, options[i].name, options[i].argument, options[i].verbs,
                      options[i].help);
            rows++;
        }
    }
    fputs(rows > 0 ? "\n" : "", stdout);
    for (int i = 0; i < N_OPTIONS; i++) {
        if (belongs(&options[i], command->name) && strcmp(options[i].words, "setting") == 0) {
            print_settings(strcmp(command->name, "bench") == 0);
        }
    }
    fputs(command->end, stdout);
}

// A text without tabs and newlines.
static void print_field(const char *text, char end)
{
    for (; *text; text++) {
        if (*text == '\n') {
            fputs("\\n", stdout);
        } else {
            putchar(*text);
        }
    }
    putchar(end);
}

static void print_fields(int n, const char *const *fields)
{
    for (int i = 0; i < n; i++) {
        print_field(fields[i], i + 1 < n ? '\t' : '\n');
    }
}

void cli_print_options(void)
{
    static const char *const kinds[] = {"value", "list", "flag"};
    for (int c = 0; c < N_COMMANDS; c++) {
        const cli_command *k = &commands[c];
        print_fields(
            7, (const char *[]){"command", k->name, k->line, k->usage, k->words, k->about, k->end});
        for (int i = 0; i < N_VERBS; i++) {
            const verb_row *v = &verbs[i];
            if (strcmp(v->command, k->name) == 0) {
                print_fields(5, (const char *[]){"verb", k->name, v->name, v->argument, v->help});
            }
        }
        for (int i = 0; i < N_OPTIONS; i++) {
            const option_row *o = &options[i];
            if (belongs(o, k->name)) {
                print_fields(8, (const char *[]){"option", k->name, o->verbs, o->name, o->argument,
                                                 kinds[o->kind], o->words, o->help});
            }
        }
    }
}

// --- parsing

// Where an option of the table goes. NULL: its command does not take it.
static const cli_option *binding(const option_row *row, const cli_option *bound, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(bound[i].name, row->name) == 0) {
            bool same = row->kind == FLAG   ? bound[i].flag != NULL
                        : row->kind == LIST ? bound[i].list != NULL
                                            : bound[i].value != NULL;
            return same ? &bound[i] : NULL;
        }
    }
    return NULL;
}

// Whether a command takes the options that the table lists for it and no others.
static bool all_bound(const char *command, const cli_option *bound, int n)
{
    int rows = 0;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (belongs(&options[i], command)) {
            rows += binding(&options[i], bound, n) ? 1 : n + 1;
        }
    }
    if (rows != n) {
        fprintf(stderr, "preflight %s: takes other options than its table lists\n", command);
    }
    return rows == n;
}

static bool take_option(const char *command, const option_row *row, const cli_option *option,
                        const char *value)
{
    bool file = strcmp(row->words, "file") == 0;
    if (!value[0] && (file || strcmp(row->words, "folder") == 0)) {
        cli_usage(command, "%s needs the name of a %s", option->name, row->words);
        return false;
    }
    if (option->list && option->list->n == (int)(sizeof option->list->item / sizeof(char *))) {
        cli_usage(command, "%s is given too often", option->name);
        return false;
    }
    if (option->value && *option->value) {
        cli_usage(command, "%s is given twice", option->name);
        return false;
    }
    if (option->list) {
        option->list->item[option->list->n++] = value;
    } else {
        *option->value = value;
    }
    return true;
}

static bool refuse_option(const char *command, const char *word)
{
    const char *known[N_OPTIONS];
    int n = 0;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (belongs(&options[i], command)) {
            known[n++] = options[i].name;
        }
    }
    const char *near = pf__nearest_word(word, known, n);
    if (near) {
        cli_usage(command, "unknown option %s; did you mean %s?", word, near);
    } else {
        cli_usage(command, "unknown option %s", word);
    }
    return false;
}

static bool parse_option(const char *command, int argc, char **argv, int *at,
                         const cli_option *bound, int n)
{
    const char *argument = argv[*at], *equals = strchr(argument, '=');
    size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), argument);
    for (int i = 0; i < N_OPTIONS; i++) {
        if (!belongs(&options[i], command) || strcmp(options[i].name, word) != 0) {
            continue;
        }
        const cli_option *option = binding(&options[i], bound, n);
        if (option->flag) {
            if (equals) {
                cli_usage(command, "%s takes no value", option->name);
                return false;
            }
            *option->flag = true;
            return true;
        }
        if (!equals && *at + 1 >= argc) {
            cli_usage(command, "%s needs a value", option->name);
            return false;
        }
        return take_option(command, &options[i], option, equals ? equals + 1 : argv[++*at]);
    }
    return refuse_option(command, word);
}

bool cli_parse(const char *command, int argc, char **argv, const cli_option *bound, int n,
               cli_list *positional)
{
    bool only_positional = false;
    if (!all_bound(command, bound, n)) {
        return false;
    }
    for (int i = 0; i < argc; i++) {
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (!only_positional && argv[i][0] == '-' && argv[i][1] != 0) {
            if (!parse_option(command, argc, argv, &i, bound, n)) {
                return false;
            }
        } else if (positional->n < (int)(sizeof positional->item / sizeof(char *))) {
            positional->item[positional->n++] = argv[i];
        } else {
            cli_usage(command, "too many arguments");
            return false;
        }
    }
    return true;
}

// --- values of options

bool cli_picture(const char *command, const char *path)
{
    const char *ending = strrchr(path, '.');
    if (!ending || (strcmp(ending, ".svg") != 0 && strcmp(ending, ".png") != 0)) {
        cli_usage(command, "--plot %s: must end in .svg or .png", path);
        return false;
    }
    return true;
}

bool cli_integer(const char *command, const char *option, const char *text, double lo, double hi,
                 double *value)
{
    char *end = NULL;
    bool digits = text[0] >= '0' && text[0] <= '9';
    *value = digits ? pf__number_read(text, &end) : NAN;
    for (const char *c = text; digits && *c; c++) {
        digits = *c >= '0' && *c <= '9';
    }
    if (!digits || *end || !(*value >= lo && *value <= hi)) {
        cli_usage(command, "%s: '%s' is not a whole number from %.0f to %.0f", option, text, lo,
                  hi);
        return false;
    }
    return true;
}

bool cli_seed(const char *command, const char *text, double *seed)
{
    return !text || cli_integer(command, "--seed", text, 0, 9007199254740991.0, seed);
}

bool cli_threads(const char *command, const char *text, double *threads)
{
    return !text || cli_integer(command, "--threads", text, 1, 256, threads);
}

bool cli_read_faults(const char *command, const cli_list *given, const pf_plant_info *info,
                     const pf_kit *kit, cli_faults *faults)
{
    pf_error error = {PF_OK, ""};
    pf_status status = PF_OK;
    *faults = (cli_faults){.n = 0};
    for (int i = 0; i < given->n && status == PF_OK; i++) {
        status = pf_fault_parse(given->item[i], info, &faults->item[faults->n++], &error);
    }
    if (status == PF_OK) {
        status = pf_fault_set_units(faults->item, faults->n, kit, info, &error);
    }
    if (status == PF_OK) {
        status = pf_fault_check(faults->item, faults->n, info, &error);
    }
    if (status != PF_OK) {
        bool named = strncmp(error.text, "fault ", 6) == 0;
        cli_usage(command, "--%s%s", named ? "" : "fault: ", error.text);
    }
    return status == PF_OK;
}

int cli_config_open(const char *command, const char *path, const cli_list *set, cli_config *config)
{
    pf_error error = {PF_OK, ""};
    *config = (cli_config){.file = path ? path : "--set"};
    for (int i = 0; i < set->n; i++) {
        config->overrides[config->n_overrides++] = set->item[i];
    }
    if (path) {
        pf_status status = pf__file_read_until(path, (size_t)16 << 20, &cli_interrupted,
                                               &config->data, &config->n, &error);
        if (status != PF_OK) {
            return cli_fail(command, status, &error);
        }
    }
    return EXIT_YES;
}

void cli_config_close(cli_config *config)
{
    free(config->data);
    config->data = NULL;
}

int cli_predictor(const char *command, const char *given, const char *output, const char **model)
{
    static const char ensemble[] = "ensemble:";
    given = given ? given : "twin";
    *model = NULL;
    if (strncmp(given, ensemble, sizeof ensemble - 1) == 0) {
        *model = given + sizeof ensemble - 1;
    }
    if (*model ? !(*model)[0] : strcmp(given, "twin") != 0) {
        return cli_usage(command, "--predictor %s: say twin or ensemble:FILE", given);
    }
    if (*model && pf__file_same(output, *model)) {
        return cli_usage(command, "-o %s would overwrite the model", output);
    }
    return EXIT_YES;
}
