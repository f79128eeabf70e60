// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include "settings/config.h"

#include "host/parallel.h"

#include <fcntl.h>
#ifdef PF_HAVE_JANSSON
#include <jansson.h>
#endif
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void leave(int signal_number)
{
    (void)signal_number;
    _exit(128 + cli_interrupted);
}

// Something that looks at no flag may hold us, such as a simulator's library that reads a file:
// asked twice we end at once, asked once after a while. What is written by then is whole, as after
// a kill. Guards end the processes behind plants. A program such as `timeout` asks us, and the
// group that we are in: that is once.
static void on_interrupt(int signal_number)
{
    enum { PATIENCE_S = 5 };
    const int64_t once_ns = 100000000;
    static int64_t first_ns = 0;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 1, before_ns = 0;
    if (__atomic_compare_exchange_n(&first_ns, &before_ns, now_ns, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        __atomic_store_n(&cli_interrupted, signal_number, __ATOMIC_RELAXED);
        alarm(PATIENCE_S);
    } else if (now_ns - before_ns > once_ns) {
        _exit(128 + signal_number);
    }
}

#ifdef PF_HAVE_JANSSON
// jansson drops a key or a character where an allocation fails, or aborts. What has lost something
// must not be taken for whole, so the program ends: files appear whole or not at all, journals hold
// every record before this one, and guards end the processes behind plants.
static void *allocate(size_t size)
{
    static const char said[] = "preflight: out of memory\n";
    void *memory = malloc(size);
    if (!memory && size > 0) {
        (void)!write(STDERR_FILENO, said, sizeof said - 1); // nothing is left to say it with
        _exit(EXIT_INTERNAL);
    }
    return memory;
}
#endif

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
                 "Exit status: 0 yes, 1 no, 2 usage, 3 bad input, 4 internal, 130 interrupted "
                 "(143: SIGTERM).\n");
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
    // what a process behind a plant leaves behind is ours to reap
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    signal(SIGALRM, leave);
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGCHLD, SIG_DFL); // where it was ignored nobody would know how a child ended
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

// Without one of the standard streams a file of ours would take its number, and what is printed
// would go into it. What is missing can then neither be read nor written.
static void hold_streams(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    close(fd);
}

// The exit status, once all that was printed is out.
static int end(int status)
{
    if (pf__stopped(&cli_interrupted)) {
        alarm(1); // what still waits in standard output may wait for ever
    }
    // an answer that could not be written is no answer
    bool unwritten = ferror(stdout) || fflush(stdout) != 0;
    if (pf__stopped(&cli_interrupted)) {
        return 128 + cli_interrupted; // whatever was done: who stops us wants no yes
    }
    if (cli_output_lost) {
        fprintf(stderr, "preflight: out of memory for the output\n");
        return EXIT_INTERNAL;
    }
    if (unwritten && (status == EXIT_YES || status == EXIT_NO)) {
        fprintf(stderr, "preflight: standard output could not be written\n");
        return EXIT_BAD_INPUT;
    }
    return status;
}

int main(int argc, char **argv)
{
    hold_streams();
#ifdef PF_HAVE_JANSSON
    json_set_alloc_funcs(allocate, free);
#endif
    return cli_ranks_close(end(dispatch(argc, argv)));
}
