// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include "settings/config.h"

#include <signal.h>
#include <string.h>

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    __atomic_store_n(&cli_interrupted, 1, __ATOMIC_RELAXED); // other threads read it
}

static int overview(FILE *out)
{
    fprintf(out,
            "preflight " PF_VERSION ": is the machine ready for a job nobody has named yet?\n\n"
            "usage: preflight COMMAND ...\n\n");
    for (int i = 0; cli_command_at(i); i++) {
        fprintf(out, "  %-10s %s\n", cli_command_at(i)->name, cli_command_at(i)->line);
    }
    fprintf(out, "\n`preflight COMMAND --help` tells more, with an example. Start with `preflight "
                 "demo`.\n"
                 "Exit status: 0 yes, 1 no, 2 usage, 3 bad input, 4 internal, 130 interrupted.\n");
    return out == stdout ? EXIT_YES : EXIT_USAGE;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    if (wants_help(argc, argv)) {
        cli_print_help(command);
        return EXIT_YES;
    }
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); // a file size limit is an error like a full disk
    return command->run(argc, argv);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        return overview(stderr);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return overview(stdout);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("preflight " PF_VERSION "\n");
        return EXIT_YES;
    }
    if (strcmp(argv[1], "--options") == 0) {
        cli_print_options();
        return EXIT_YES;
    }
    const char *names[32];
    int n = 0;
    for (const cli_command *c; (c = cli_command_at(n)) != NULL; n++) {
        names[n] = c->name;
        if (strcmp(argv[1], c->name) == 0) {
            return run_command(c, argc - 2, argv + 2);
        }
    }
    const char *near = pf__nearest_word(argv[1], names, n);
    fprintf(stderr, "preflight: there is no command '%s'%s%s%s\n", argv[1],
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    fprintf(stderr, "Try `preflight --help`.\n");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    int status = dispatch(argc, argv);
    // an answer that could not be written is no answer
    bool unwritten = ferror(stdout) || fflush(stdout) != 0;
    if (unwritten && (status == EXIT_YES || status == EXIT_NO)) {
        fprintf(stderr, "preflight: standard output could not be written\n");
        return EXIT_BAD_INPUT;
    }
    return status;
}
