// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include "settings/config.h"

#include <signal.h>
#include <string.h>

static const cli_command commands[] = {
    {"demo", "the whole story on a built-in plant in seconds", "[--fault J:G] [--seed N]",
     "Calibrates a kit for the eight-thruster attitude plant, weakens one thruster in secret, "
     "shows\n"
     "that passive data look the same, then probes, locates, corrects, certifies and flies.\n\n"
     "  --fault J:G   the secret fault (default 5:0.20); --fault none for a healthy machine\n"
     "  --seed N      another machine, another day (default 7)\n\n"
     "Example: preflight demo --fault 3:0.2\n",
     cmd_demo},
    {"list", "plants, methods or suites, a line on each", "plants|methods|suites [--json]",
     "Example: preflight list plants\n", cmd_list},
    {"calibrate", "builds a kit from a plant or from recordings",
     "PLANT -o KIT [options]  |  --recordings FILE -o KIT [options]",
     "  -o KIT               where the kit goes (- for standard output)\n"
     "  --config FILE        probes, tasks and settings (YAML)\n"
     "  --set a.b=v          one setting, as often as needed; wins over the file\n"
     "  --predictor twin     what predicts responses: a copy of the plant, or with\n"
     "                       ensemble:FILE a learned model of it\n"
     "  --probes designed    group probes designed on the predictor (the default); single: one\n"
     "                       pulse per candidate; FILE: a library that `design` wrote\n"
     "  --method ID          method the alarm is calibrated for (default eg-mpt)\n"
     "  --faults one         what may have changed: one mechanism, or with many each on its\n"
     "                       own\n"
     "  --seed N             calibration seed (default 0)\n"
     "  --threads N          worker threads (default: all processors); the kit is the same\n"
     "  --recordings FILE    CSV of logged responses instead of a plant\n"
     "  --json               a summary as JSON\n\n"
     "Example: preflight calibrate attitude -o attitude.kit --set episodes=100\n"
     "Example: preflight calibrate --recordings log.csv --config rig.yaml -o rig.kit\n",
     cmd_calibrate},
    {"design", "designs group probes on the predictor", "PLANT -o LIBRARY [options]",
     "Finds the fewest probes in which every mechanism stands out by a target separation, "
     "confirms\n"
     "them on simulated episodes and compares them with single pulses, Hadamard signs and\n"
     "multisines.\n\n"
     "  -o LIBRARY           a YAML file for `calibrate --probes` (- for standard output)\n"
     "  --predictor twin     what predicts responses, or ensemble:FILE\n"
     "  --config FILE        constraints in the section `design` (YAML), and other settings\n"
     "  --set a.b=v          one setting, as often as needed; wins over the file\n"
     "  --seed N             of all random draws (default 0)\n"
     "  --threads N          worker threads (default: all processors); the library is the same\n"
     "  --plot FILE          the waveforms, .svg or .png (needs gnuplot)\n"
     "  --json               the report as JSON\n\n"
     "Exit status 0 if every mechanism is separated, 1 if some are not (the library holds what\n"
     "can be done and the report names them), 3 if a constraint cannot be met.\n"
     "Example: preflight design attitude -o attitude.probes\n"
     "Example: preflight design battery -o b.probes --set design.at_once=2 --set design.target=8\n",
     cmd_design},
    {"check", "one readiness check of a simulated or external plant",
     "KIT [--plant NAME|exec:CMD] [--fault J:G]... [--seed N] [options]",
     "  --plant NAME         the machine to check (default: the kit's plant); exec:COMMAND runs\n"
     "                       a program that speaks the bridge protocol\n"
     "  --model FILE         the learned model, where the kit predicts with one\n"
     "  --fault J:G          mechanism J (index or name) delivers the share G; may be repeated\n"
     "  --seed N             resets, disturbances and noise (default 0)\n"
     "  --method ID          a method the kit has a threshold for\n"
     "  --journal FILE       evidence, one JSON line per event; see replay and explain\n"
     "  --certificate FILE   the verdict as JSON\n"
     "  --json               the verdict as JSON on standard output\n\n"
     "Exit status 0 if every task is go, 1 if one is not.\n"
     "Example: preflight check attitude.kit --fault 3:0.35 --seed 7 --journal run.jsonl\n",
     cmd_check},
    {"serve", "ask/tell in JSON lines for a plant driven by another program",
     "KIT [--journal FILE] [--socket PATH] [--plant NAME] [--model FILE] [--method ID] [--seed N]",
     "One request per line on standard input, one reply per line on standard output.\n"
     "Requests: hello ask tell skip stage2 readiness reset; see docs/formats.md.\n\n"
     "  --journal FILE   written as it goes; with --socket FILE.1, FILE.2, ... per connection\n"
     "  --socket PATH    a Unix socket, one session per connection, until Ctrl-C\n"
     "  --plant NAME     the twin that predicts from a start state (default: the kit's plant)\n"
     "  --model FILE     the learned model that predicts, where the kit was made with one\n\n"
     "Example: echo '{\"op\":\"ask\"}' | preflight serve attitude.kit\n",
     cmd_serve},
    {"replay", "recomputes a journal; any difference fails", "JOURNAL [--json]",
     "Exit status 0 if every reply is the recorded one to the last bit, 1 if not.\n"
     "Example: preflight replay run.jsonl\n",
     cmd_replay},
    {"explain", "why it alarmed, why go or no-go, in words", "JOURNAL|CERTIFICATE",
     "Example: preflight explain run.jsonl\n", cmd_explain},
    {"rollout", "raw simulation trace as CSV", "PLANT --commands FILE [options]",
     "  --commands FILE    CSV with header u0,u1,... and one row per control step\n"
     "  --fault J:G        may be repeated\n"
     "  --seed N           reset and disturbance (default 0)\n"
     "  --mean-reset       every random draw of the reset replaced by its mean\n"
     "  --no-noise         no disturbance, no sensor noise\n"
     "  --state FILE       CSV, one row: the plant's state instead of a reset\n"
     "  --what output|state\n\n"
     "Example: preflight rollout attitude --commands pulse.csv --mean-reset --no-noise\n",
     cmd_rollout},
    {"kit", "shows a kit", "show KIT [--json]", "Example: preflight kit show attitude.kit --json\n",
     cmd_kit},
    {"data", "shows the transitions that a model is learned from", "show FILE [--json]",
     "How the data were made, and what each channel and mechanism does in them.\n\n"
     "Example: preflight data show attitude.data\n",
     cmd_data},
    {"train", "learns a world model of a plant: an ensemble of networks",
     "PLANT -o MODEL [--profile quick|standard|paper] [options]",
     "  -o MODEL            a safetensors file; MODEL.member-00, ... are checkpoints while it "
     "runs\n"
     "  --profile NAME      quick (seconds), standard (minutes, the default), paper (hours)\n"
     "  --config FILE       settings (YAML): transitions episode_steps correlation amplitude "
     "single\n"
     "                      disturbance members layers width activation epochs batch patience\n"
     "                      learning_rate weight_decay cosine held_out seed\n"
     "  --set key=v         one setting, as often as needed; wins over the file\n"
     "  --data FILE         the transitions; made if not there, else used (default MODEL.data)\n"
     "  --seed N            data, initial weights and bootstraps (default 1)\n"
     "  --threads N         worker threads (default: all processors); the model is the same\n"
     "  --log FILE          CSV: error of every epoch of every member\n"
     "  --plot FILE         the learning curve, .svg or .png (needs gnuplot)\n"
     "  --json              the report as JSON\n\n"
     "Ends with a report: error of open-loop probe responses against the plant, relative to what\n"
     "a loss does. Killed or stopped, the same command goes on and ends with the same bits.\n"
     "Example: preflight train dc_servo -o servo.model --profile quick\n",
     cmd_train},
    {"model", "shows a learned model, or says how good it is",
     "show MODEL [--json]  |  assess MODEL [--plant NAME] [--json]",
     "  show      plant, shape, error, data and library of a model file\n"
     "  assess    the report that `train` ends with, on fresh starts of the plant\n"
     "  --plant   the plant, where the model was learned on exec:COMMAND\n\n"
     "Example: preflight model assess servo.model\n",
     cmd_model},
    {"bench", "the paper's experiments: run, resume, tables, figures, verify",
     "list|run|status|table|figure|verify [SUITE] [options]",
     "  list                 suites with trials, environments, what each needs and costs\n"
     "  run SUITE...         fills the database; go on after Ctrl-C or a crash by running again\n"
     "  status SUITE         done / total, failures with their reasons\n"
     "  table SUITE          --format md|csv|tex: our numbers beside the paper's\n"
     "  figure SUITE -o DIR  SVG and PNG\n"
     "  verify SUITE         recomputes a sample of stored trials to the last bit\n\n"
     "  --profile quick|standard|paper   how much of it (default standard)\n"
     "  --db FILE            the database (default preflight.db)\n"
     "  --threads N          worker threads (default: all processors); same bits for any\n"
     "  --only KEY=A,B       run: a part, by environment, seed, g, B2, F, K, N, P, A or profile\n"
     "  --retry              run: failed trials once more, when their cause is gone\n"
     "  --set a.b=v          another setting of the suite; gets its own config hash, by which the\n"
     "                       other commands find it when they are called with the same --set\n"
     "  --config HASH        status, table, figure, verify: another configuration than the one\n"
     "                       run last\n"
     "  --sample N           verify: how many trials (default 50)\n"
     "  --models DIR         learned models of the suites that predict with them; missing ones "
     "are\n"
     "                       trained with the profile's settings (default models)\n"
     "  --data DIR           folder with suites/ and data/ (default: installed, else source)\n"
     "  --json               list and status as JSON\n\n"
     "Exit status 1 if a trial failed (run, status) or verify found a difference.\n"
     "Example: preflight bench run compact-plants --profile quick\n",
     cmd_bench},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    cli_interrupted = 1;
}

static int overview(FILE *out)
{
    fprintf(out,
            "preflight " PF_VERSION ": is the machine ready for a job nobody has named yet?\n\n"
            "usage: preflight COMMAND ...\n\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].line);
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
        printf("preflight %s: %s\n\nusage: preflight %s %s\n\n%s", command->name, command->line,
               command->name, command->usage, command->help);
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
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(argv[1], commands[i].name) == 0) {
            return run_command(&commands[i], argc - 2, argv + 2);
        }
    }
    const char *near = pf_nearest_word(argv[1], names, N_COMMANDS);
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
