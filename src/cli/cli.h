// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CLI_H
#define PF_CLI_H

#include "host/ranks.h"
#include "host/signature.h"
#include "host/text.h"
#include "preflight/calibrate.h"
#include "preflight/session.h"
#include "screen.h"
#include "wire/words.h"

#include <stdio.h>

// Exit status of every command.
enum {
    EXIT_YES = 0,          // success; all ready
    EXIT_NO = 1,           // the answer is no
    EXIT_USAGE = 2,        // the call is wrong
    EXIT_BAD_INPUT = 3,    // a file or value handed over is wrong
    EXIT_INTERNAL = 4,     // our mistake
    EXIT_INTERRUPTED = 130 // Ctrl-C; main makes 143 of it after SIGTERM
};

// --- options

// One command of the table in options.def.
typedef struct cli_command {
    const char *name;
    const char *line;        // for the overview
    const char *usage;       // after "preflight NAME "
    const char *words;       // what its arguments are completed with
    const char *about, *end; // of its help, before and after the options
    int (*run)(int argc, char **argv);
} cli_command;

const cli_command *cli_command_at(int index); // NULL past the last one
void cli_print_help(const cli_command *command);
void cli_print_options(void); // the whole table, tab-separated

// Where the value, flag or list of an option of the table goes; exactly one destination is set.
typedef struct cli_list {
    const char *item[64];
    int n;
} cli_list;

typedef struct cli_option {
    const char *name; // "--seed" or "-o"
    const char **value;
    bool *flag;
    cli_list *list;
} cli_option;

// Sorts arguments into options and positionals. command: "check", "bench run". options has every
// option that the table lists for it. False: a usage error was printed.
bool cli_parse(const char *command, int argc, char **argv, const cli_option *options, int n,
               cli_list *positional);

// Prints "preflight COMMAND: message" on standard error, control characters as text.
void cli_say(const char *command, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
// The same of a call that is wrong; gives the exit status.
int cli_usage(const char *command, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;
// The same for a failed call: maps the status.
int cli_fail(const char *command, pf_status status, const pf_error *error);
// The same with the file that it is about.
int cli_fail_in(const char *command, const char *file, pf_status status, const pf_error *error);

// Kinds of files that the program writes, as bits.
typedef enum cli_kind {
    CLI_KIT = 1,
    CLI_MODEL = 2,
    CLI_DATA = 4,
    CLI_JOURNAL = 8,
    CLI_CERTIFICATE = 16,
    CLI_OTHER_KIND = 32 // what no command reads by its name alone
} cli_kind;

// Whether a file is one of ours, but of none of the wanted kinds: printed, with what reads it.
bool cli_other_kind(const char *command, const char *path, int wanted);

// A whole number from text, within limits. False: printed.
bool cli_integer(const char *command, const char *option, const char *text, double lo, double hi,
                 double *value);

// --seed, an integer below 2^53, and --threads. text is Nullable: the number stays as it is.
bool cli_seed(const char *command, const char *text, double *seed);
bool cli_threads(const char *command, const char *text, double *threads);

// The --fault options of a call: what pf_fault_parse takes, with units from the kit (Nullable) or
// the plant. False: printed.
typedef struct cli_faults {
    pf_fault item[64];
    int n;
} cli_faults;

bool cli_read_faults(const char *command, const cli_list *given, const pf_plant_info *info,
                     const pf_kit *kit, cli_faults *faults);

// --- outputs

// A file of a call.
typedef struct cli_file {
    const char *name; // for messages: "the kit"; of an output its option
    const char *path; // NULL: there is none
} cli_file;

// Whether every output can be written, is none of the inputs and no other output, and at most one
// of them goes to standard output. Else it was printed; gives the exit status.
int cli_outputs(const char *command, int n_inputs, const cli_file *inputs, int n_outputs,
                const cli_file *outputs);

// Whether no output is a file that the name of a plant (Nullable) names: of mujoco:FILE the file,
// of exec:COMMAND its words. folder: where such a file is looked for too (Nullable). Else it was
// printed; gives the exit status.
int cli_spare_plant(const char *command, const char *plant, const char *folder, int n_outputs,
                    const cli_file *outputs);

void cli_warn_damaged(const char *command, const char *path); // of one that was read

// --- progress

// How progress is shown on standard error: a line that changes (a terminal), a line now and then,
// JSON lines, or not at all.
typedef enum cli_form { CLI_FORM_LINE, CLI_FORM_PLAIN, CLI_FORM_JSON, CLI_FORM_NONE } cli_form;

// What would make a job shorter: an option, and the share of the work that it leaves.
typedef struct cli_shorter {
    char option[64]; // "--sessions 20"; empty: none
    double share;
} cli_shorter;

// Progress of a command. The stage at hand began at `started` with `first` items done.
typedef struct cli_progress {
    cli_form form;
    bool shown;       // the line on the terminal
    bool estimated;   // nothing more is to be said of how long it takes
    bool timed;       // the stage at hand has been
    const char *main; // the stage that is nearly all of a job: its rate gives the estimate.
                      // Nullable: the library gives one, or nobody does.
    const char *job;  // what that job is called
    cli_shorter shorter;
    double started;
    double last; // when something was shown
    size_t first, done;
    char what[64];
    char note[96]; // after the numbers of the stage; "": none
} cli_progress;

// --progress (Nullable: auto). False: a usage error was printed.
bool cli_progress_form(const char *command, const char *text, cli_form *form);

// An effort that shows progress in the form of --progress auto and stops on Ctrl-C; threads 0: all.
pf_effort cli_effort(cli_progress *progress, int threads);
void cli_progress_end(cli_progress *progress);
void cli_time(double seconds, char *out, size_t size); // "12 min"
extern volatile int cli_interrupted;                   // the signal that asked us to stop, 0: none

// The file OUTPUT.part, from which a command goes on after a stop. Nothing is kept of what goes to
// standard output.
typedef struct cli_part {
    const char *command;
    char path[4096];
    pf_part *part; // NULL: nothing is kept
    bool process;  // the plant is one, so it may fail once and not again
} cli_part;

// Everything that decides the result of a call, as one text.
void cli_key_add(pf_text *key, const char *name, const char *value); // Nullable: value
// With what is in a file; a path that names nothing is a word. False: there is something else, such
// as a pipe, whose content cannot be known again, so nothing may be kept.
bool cli_key_file(pf_text *key, const char *name, const char *path); // Nullable: path
void cli_key_plant(pf_text *key, const char *name, const pf_plant_info *info);
bool cli_key_config(pf_text *key, const char *path, const cli_list *set); // Nullable: path

pf_status cli_part_open(cli_part *part, const char *command, const char *output, const pf_text *key,
                        pf_effort *effort, pf_error *error);
// The job ended so; says where it goes on if it was stopped. Gives the exit status of a stop or
// failure.
int cli_part_fail(cli_part *part, pf_status status, const pf_error *error);
void cli_part_done(cli_part *part);

// --- ranks of an MPI job

// Where mpirun has started us, joins the job; *ranks is NULL where it has not. From here on rank 0
// alone prints. False: printed, *status is the exit status.
bool cli_ranks_open(const char *command, pf_ranks **ranks, int *status);
// --mixed: they may be on different kinds of processors.
void cli_ranks_mixed(bool mixed);
// The work of a rank that computes: what goes wrong in it is told in messages, what goes wrong
// before and after it is collected for rank 0.
void cli_ranks_begin(void);
void cli_ranks_end(void);
// Leaves the job, if there is one; gives the exit status of this rank.
int cli_ranks_close(int status);

// --- things commands share

// What a call trusts: --trust and --allow-exec.
typedef struct cli_trust {
    const char *signers; // file of allowed signers. NULL: files need no signature
    bool allow_exec;     // files may name programs, which are run
    bool no_plant;       // the command has no --plant
} cli_trust;

// A whole file as pf__file_read gives it, and with signers only if one of them signed these bytes.
// signer (Nullable): who, of PF_SIGNER_BYTES; without signers it stays as it is.
pf_status cli_trusted_read(const cli_trust *trust, const char *path, size_t most, void **data,
                           size_t *n, char *signer, pf_error *error);

// The same of the file with an audit. *text is NULL where no such file is there; whatever else
// keeps it from being read is an error.
pf_status cli_audit_read(const cli_trust *trust, const char *path, char **text, size_t *n,
                         pf_error *error);

// Refuses a pipe or device where an audit is to be kept: who writes into it may wait for ever.
pf_status cli_audit_keepable(const char *path, pf_error *error);

// The same of a learned model.
pf_status cli_trusted_model(const cli_trust *trust, pf_model **model, const char *path,
                            pf_error *error);

// Refuses a plant that runs code where nobody but the file names it. file: "the kit".
pf_status cli_trusted_plant(const cli_trust *trust, const char *file, const char *plant,
                            pf_error *error);

// A kit file in memory. False: printed, *status is the exit status.
typedef struct cli_kit {
    void *bytes;
    size_t n_bytes;
    pf_kit *kit;
    char signer[PF_SIGNER_BYTES]; // "": nobody was asked for
} cli_kit;

// A kit over its file image, to be freed with free(). *kit is NULL where it was refused.
pf_status cli_kit_load(pf_kit **kit, const void *image, size_t n, pf_error *error);

bool cli_kit_open(const char *command, const char *path, const cli_trust *trust, cli_kit *kit,
                  int *status);
void cli_kit_close(cli_kit *kit);

// pf_plant_create; a signal ends every wait for a process behind it.
pf_status cli_plant_create(pf_plant **plant, const char *name, pf_error *error);

// The plant a kit speaks of, if that is trusted, or the one named. A kit from recordings speaks of
// none.
pf_status cli_plant_for_kit(pf_plant **plant, const pf_kit *kit, const char *name,
                            const cli_trust *trust, pf_error *error);

// The model of a kit that predicts with one, from the file that --model names (Nullable: *model is
// NULL then). Refused where it is another than the kit's or the kit has none. False: printed,
// *status is the exit status.
bool cli_model_for_kit(const char *command, const pf_kit *kit, const char *path, pf_model **model,
                       int *status);

// A configuration file and the overrides of --set.
typedef struct cli_config {
    void *data;
    size_t n;
    const char *file; // for messages
    const char *overrides[65];
    int n_overrides;
} cli_config;

// path is Nullable. Gives the exit status; close frees.
int cli_config_open(const char *command, const char *path, const cli_list *set, cli_config *config);
void cli_config_close(cli_config *config);

// --predictor (Nullable): "twin" leaves *model NULL, "ensemble:FILE" gives the file, which the
// output must not overwrite. Gives the exit status.
int cli_predictor(const char *command, const char *given, const char *output, const char **model);

// Whether --plot names a picture that we draw, by its ending; else a usage error was printed.
bool cli_picture(const char *command, const char *path);

// Prints the report of a model on fresh starts of the plant, or writes it as JSON.
// "trajectory of 12 steps from 5 readings, linear", without a line end.
void cli_model_kind(const pf_model_info *model);
pf_status cli_model_report(const char *path, const pf_model *model, pf_plant *plant, uint64_t seed,
                           bool json, const pf_effort *effort, pf_error *error);

// Writes text to a file (rename) or standard output and reports failure.
int cli_write(const char *command, const char *path, const pf_text *text);

// Prints text on standard output, "" where it is empty. Output that memory ran out for is lost:
// then the command fails, whatever else it gives.
void cli_print(const pf_text *text);
extern bool cli_output_lost;

// --accept. False: a usage error was printed.
bool cli_accept(const char *command, const cli_list *words, pf_accepted *accepted);

#define COMMAND(name, line, usage, words, about, end) int cmd_##name(int argc, char **argv);
#define VERB(command, name, argument, help)
#define OPTION(command, verbs, name, argument, kind, words, help)
#include "options.def"
#undef COMMAND
#undef VERB
#undef OPTION
int bench_list_suites(bool json); // `list suites`

#endif
