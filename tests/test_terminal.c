// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // forkpty
#include "test.h"
#include "attitude_kit.h"
#include "host/file.h"
#include "host/text.h"
#include "program.h"
#include "wire/words.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// What a person sees: colour, width, tables, and the words of check, explain, demo and list.

static char folder[200];

static bool run(const char *arguments, int status, const char *part)
{
    return program_in(folder, arguments, status, part);
}

// What the program prints; free it.
static char *output_of(const char *arguments, int status)
{
    char whole[600];
    snprintf(whole, sizeof whole, "%s >@/out", arguments);
    CHECK(run(whole, status, ""));
    return program_text(folder, "out");
}

static void says(const char *arguments, int status, const char *part, bool wanted)
{
    char *text = output_of(arguments, status);
    if (!CHECK((strstr(text, part) != NULL) == wanted)) {
        printf("    preflight %s: '%s' in\n%.900s\n", arguments, part, text);
    }
    free(text);
}

static void write_kit(const char *name)
{
    size_t n = 0;
    char path[300];
    const void *bytes = attitude_kit_bytes(&n);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(pf__file_write(path, bytes, n, NULL) == PF_OK);
}

// --- colour

// `check a.kit` on a terminal so many columns wide. no_color: Nullable. Free the text.
static char *on_terminal(int columns, const char *no_color)
{
    struct winsize size = {.ws_row = 50, .ws_col = (unsigned short)columns};
    char kit[300], *text = calloc(1, 1 << 16);
    int terminal = -1;
    size_t n = 0;
    snprintf(kit, sizeof kit, "%s/a.kit", folder);
    pid_t child = forkpty(&terminal, NULL, NULL, &size);
    if (child == 0) {
        setenv("TERM", "xterm", 1);
        unsetenv("COLUMNS");
        unsetenv("NO_COLOR");
        if (no_color) {
            setenv("NO_COLOR", no_color, 1);
        }
        execl(PF_PROGRAM, PF_PROGRAM, "check", kit, "--fault", "3:0.15", (char *)NULL);
        _exit(127);
    }
    for (ssize_t got;
         n < (1 << 16) - 1 && (got = read(terminal, text + n, (1 << 16) - 1 - n)) > 0;) {
        n += (size_t)got;
    }
    int code = 0;
    CHECK(waitpid(child, &code, 0) == child && WIFEXITED(code) && WEXITSTATUS(code) == 1);
    close(terminal);
    return text;
}

// The longest line in characters, without colours.
static int widest(const char *text)
{
    int most = 0, n = 0;
    for (; *text; text++) {
        if (*text == '\033') {
            text += strcspn(text, "m");
        } else {
            n = *text == '\n' ? 0 : n + (*text != '\r' && ((unsigned char)*text & 0xC0) != 0x80);
        }
        most = n > most ? n : most;
    }
    return most;
}

static void check_colour(void)
{
    PF_CASE("--color: verdicts are words, colour comes on top where it is wanted");
    static const char *const commands[] = {"check @/a.kit --fault 3:0.15", "explain @/j",
                                           "explain @/c"};
    CHECK(run("check @/a.kit --fault 3:0.15 --journal @/j --certificate @/c", 1, "NO-GO"));
    for (int i = 0; i < 3; i++) {
        char arguments[100];
        int status = i == 0;
        says(commands[i], status, "\033", false);
        snprintf(arguments, sizeof arguments, "%s --color never", commands[i]);
        says(arguments, status, "\033", false);
        snprintf(arguments, sizeof arguments, "%s --color auto", commands[i]);
        says(arguments, status, "\033", false);
        snprintf(arguments, sizeof arguments, "%s --color always", commands[i]);
        says(arguments, status, "\033[31mNO-GO\033[0m", true);
        says(arguments, status, "\033[32mGO\033[0m", true);
        says(arguments, status, "\033[1mWhat follows\033[0m", true);
    }
    says("check @/a.kit --color always --json", 0, "\033", false);
    PF_CASE("--color auto: on a terminal, unless NO_COLOR is set; the terminal says how wide");
    char *text = on_terminal(66, NULL);
    CHECK_CONTAINS(text, "\033[31mNO-GO\033[0m");
    CHECK(widest(text) <= 66 && widest(text) > 55);
    free(text);
    text = on_terminal(120, "1");
    CHECK(!strchr(text, '\033') && strstr(text, "NO-GO"));
    CHECK(widest(text) <= 120 && widest(text) > 100);
    free(text);
    text = on_terminal(80, ""); // set to nothing is not set
    CHECK(strchr(text, '\033') != NULL);
    free(text);
}

// --- width

static void check_width(void)
{
    static const int widths[] = {60, 200};
    static const char *const calls[] = {"check @/a.kit --fault 3:0.15", "explain @/j",
                                        "explain @/c", "check @/long.kit"};
    PF_CASE("lines keep to the width, 60 and 200; long names too");
    const char config[] =
        "tasks:\n  - {name: turn the shaft a quarter and hold it there, mechanisms: [1]}\n"
        "  - {name: \xC3\xBC, mechanisms: [2], fallback: stop and call somebody}\n";
    char path[300];
    snprintf(path, sizeof path, "%s/long.yaml", folder);
    CHECK(pf__file_write(path, config, sizeof config - 1, NULL) == PF_OK);
    CHECK(run("calibrate dc_servo --config @/long.yaml --set episodes=40 --set alarm_trials=100 "
              "-o @/long.kit",
              0, "2 tasks"));
    for (int w = 0; w < 2; w++) {
        program_width(widths[w]);
        for (int i = 0; i < 4; i++) {
            char *text = output_of(calls[i], i == 0);
            CHECK(widest(text) <= widths[w]);
            free(text);
        }
        // a table reads at both
        says("check @/a.kit --fault 3:0.15", 1,
             "\ntask       verdict  send      return  at least  rehearsed\nthruster1  GO   ", true);
    }
    PF_CASE("80 columns where nobody says how wide");
    program_width(0);
    char *text = output_of("explain @/j", 0);
    CHECK(widest(text) <= 80 && widest(text) > 70);
    free(text);
    program_width(1000);
    PF_CASE("columns stand under each other, whatever characters a name has");
    says("check @/long.kit", 0, "\n\xC3\xBC                                           GO       as",
         true);
}

static void check_escapes(void)
{
    PF_CASE("a name in a file cannot steer the terminal");
    char *text = program_text(folder, "c"), path[300];
    char *at = strstr(text, "\"name\":\"thruster3\"");
    CHECK(at != NULL);
    memcpy(at + 8, "\\u001b[2J", 9);
    snprintf(path, sizeof path, "%s/bad", folder);
    CHECK(pf__file_write(path, text, strlen(text), NULL) == PF_OK);
    free(text);
    says("explain @/bad", 0, "\033", false);
    says("explain @/bad", 0, "\n\\u001b[2J ", true);
    CHECK(run("check '@/a\033[2Jb' 2>&1 | od -c | grep -q 033", 1, ""));
    CHECK(run("check '@/a\033[2Jb'", 3, "/a\\u001b[2Jb: No such file"));
    PF_CASE("a certificate says who signed its kit");
    says("explain @/c", 0, "signed by", false);
    CHECK(run("--version; sed 's/\"signed_by\":null/\"signed_by\":\"ann\"/' @/c >@/signed", 0, ""));
    says("explain @/signed", 0, "Its kit is signed by ann.\n", true);
    PF_CASE("a name cannot turn the direction of a line");
    text = program_text(folder, "c");
    at = strstr(text, "\"name\":\"thruster3\"");
    CHECK(at != NULL);
    memcpy(at + 8,
           "\xe2\x80\xae"
           "er3\xe2\x80\xa9",
           9);
    CHECK(pf__file_write(path, text, strlen(text), NULL) == PF_OK);
    free(text);
    says("explain @/bad", 0, "\xe2\x80", false);
    says("explain @/bad", 0, "\n\\u202eer3\\u2029", true);
}

// What a plant tells of itself is somebody else's text too.
static void check_plant_names(void)
{
    PF_CASE("list shows what a plant calls itself, without what steers a terminal");
    static const char script[] =
        "read line\necho '{\"protocol\":1,\"name\":\"x\",\"title\":\"\\\\u001b[31mred\","
        "\"mechanisms\":[\"a\",{\"name\":\"b\\\\u202e\",\"lo\":-1,\"hi\":1}],"
        "\"channels\":[\"y\\\\u0085\"],\"dt\":0,\"state_size\":0}'\ncat >/dev/null\n";
    static const char *const commands[] = {"list 'exec:sh @/hello'",
                                           "list faults 'exec:sh @/hello'"};
    char path[300];
    snprintf(path, sizeof path, "%s/hello", folder);
    CHECK(pf__file_write(path, script, sizeof script - 1, NULL) == PF_OK);
    says(commands[0], 0, "\n\\u001b[31mred (x)", true);
    for (int i = 0; i < 2; i++) {
        says(commands[i], 0, "\033", false);
        says(commands[i], 0, "\xe2\x80", false);
        says(commands[i], 0, "b\\u202e", true);
        says(commands[i], 0, "channels: y\\u0085\n", true);
    }
}

// --- words

static void check_parts(void)
{
    static const char *const calls[] = {"check @/a.kit --fault 3:0.15", "explain @/j",
                                        "explain @/c"};
    PF_CASE("what was done, what was found, what follows: check, explain, certificate");
    for (int i = 0; i < 3; i++) {
        char *text = output_of(calls[i], i == 0);
        const char *done = strstr(text, "What was done\n---"),
                   *found = strstr(text, "What was found\n---"),
                   *follows = strstr(text, "What follows\n---");
        CHECK(done && found && follows && done < found && found < follows);
        CHECK(strstr(text, "Done after ") && strstr(text, " rehearsals, charge "));
        // two numbers, two names
        CHECK((strstr(text, "  belief\n") != NULL) == (i == 0) && !strstr(text, "P(change)"));
        CHECK((strstr(text, " Belief ") != NULL) == (i == 1));
        CHECK(strstr(text, "the belief that") != NULL || i == 2);
        CHECK(i == 1 || program_count(text, "P(changed)") == 1);
        CHECK_CONTAINS(text, "\nthruster3  lost strength ");
        CHECK_CONTAINS(text, "\nthruster3  NO-GO    -   ");
        CHECK_CONTAINS(text, "it may return as little as 0.");
        CHECK_CONTAINS(text, "\nNO-GO: not ready for every task.\n");
        // a task that is no-go is not sent, and its fallback is named
        CHECK(!strstr(text, "Send thruster3"));
        CHECK_CONTAINS(text, "Fallback: the uncorrected command, at your own risk");
        CHECK(i == 2 || strstr(text, " and its limits let 4.00 times through"));
        free(text);
    }
    PF_CASE("a task that names its fallback has it said");
    says("check @/long.kit --fault 2:0.05", 1, "Fallback: stop and call somebody.", true);
    PF_CASE("a go whose correction the limits cut says both");
    says("check @/a.kit --fault 3:0.22 --seed 3", 0, "Its limits let 4.00 times through", true);
}

// A motor so strong that its answers lie beyond all that calibration saw.
static void check_too_strong(void)
{
    static const char *const calls[] = {"check @/servo.kit --fault motor_3:1.45 --seed 2",
                                        "explain @/strong.j", "explain @/strong.c"};
    PF_CASE("a mechanism that is too strong for its probes was probed all the same");
    CHECK(run("calibrate dc_servo --set alarm_trials=100 -o @/servo.kit", 0, ""));
    CHECK(run("check @/servo.kit --fault motor_3:1.45 --seed 2 --journal @/strong.j --certificate "
              "@/strong.c --report @/strong.html",
              1, ""));
    for (int i = 0; i < 3; i++) {
        char *text = output_of(calls[i], i == 0);
        CHECK_CONTAINS(text, "\nmotor_3    too strong ");
        CHECK_CONTAINS(text, "motor_3: NO-GO because a mechanism it needs is too strong for its "
                             "probes to judge. motor_3 delivers 1.4");
        CHECK(!strstr(text, "not probed"));
        free(text);
    }
    char *text = program_text(folder, "strong.html");
    CHECK_CONTAINS(text, "is too strong for its probes to judge");
    CHECK_CONTAINS(text, "go: finding out why the mechanism delivers more");
    CHECK(!strstr(text, "not probed") && !strstr(text, "<td>NO</td>"));
    free(text);
    text = program_text(folder, "strong.c");
    CHECK_CONTAINS(text, "\"why\":\"too-strong\"");
    CHECK(!strstr(text, "\"probed\":false"));
    free(text);
}

static void check_remedies(void)
{
    static const char *const calls[] = {"check @/a.kit --fault 3:0", "explain @/dead.j"};
    PF_CASE("where a limit is the reason, limits, task or repair would help, not probes");
    CHECK(run("check @/a.kit --fault 3:0 --journal @/dead.j --certificate @/dead.c --report "
              "@/dead.html",
              1, ""));
    char *sheet = program_text(folder, "dead.html");
    for (int i = 0; i < 2; i++) {
        char *text = output_of(calls[i], i == 0);
        char *remedy = strstr(text, "What would make it go: limits that let ");
        if (CHECK(remedy != NULL)) {
            *strstr(remedy, " Fallback") = 0;
            CHECK_CONTAINS(remedy,
                           " times the command of thruster3 through (they let 4.00), a task "
                           "that asks for at most ");
            CHECK_CONTAINS(remedy, "or repair; a gain that is known better does not help.");
            CHECK(!strstr(remedy, "recovery probes"));
            // the sheet says the same, in its own frame
            CHECK_CONTAINS(sheet, remedy + strlen("What would make it go: "));
        }
        CHECK_CONTAINS(text, "What was found of thruster3 is not confirmed: no task");
        free(text);
    }
    free(sheet);
    PF_CASE("of a certificate alone limits are not known, so none is named");
    says("explain @/dead.c", 0,
         "What would make it go: a gain that is known better (more recovery "
         "probes), a larger command limit, or a task that asks for less.",
         true);
}

// A stuck thruster looks like another one that is too strong.
static void check_unconfirmed(void)
{
    bool silent = false;
    PF_CASE("a finding that no response of its own probes supports is not confirmed");
    for (int seed = 0; seed < 8 && !silent; seed++) {
        char call[200];
        snprintf(call, sizeof call, "check @/a.kit --fault 3:stuck=.5 --seed %d --report @/s.html",
                 seed);
        char *text = output_of(call, 1), *page = program_text(folder, "s.html");
        silent =
            strstr(text, " too strong ") && strstr(text, "NO-GO because a mechanism it needs is "
                                                         "too strong");
        static const char said[] =
            "is not confirmed: no task that uses it came out as predicted in "
            "a rehearsal, and no response of its own probes says so; another "
            "fault, also of another mechanism, may look the same.";
        CHECK(!silent || (strstr(text, said) && strstr(page, said)));
        CHECK(!silent || !strstr(text, "a larger budget of probes"));
        free(page);
        free(text);
    }
    CHECK(silent);
    PF_CASE("two losses at once: no sentence contradicts another");
    char *text = output_of("check @/a.kit --fault 3:.5 --fault 1:.3", 1);
    CHECK(!strstr(text, "nothing says why") && strstr(text, " lost strength "));
    CHECK_CONTAINS(text, "it alarmed, and what was found does not explain it.");
    free(text);
    PF_CASE("a fault of mechanism 0 is said to be one that nothing probes");
    says("check @/a.kit --fault 0:.5", 0, "thruster0 is mechanism 0, which is never probed", true);
    says("check @/a.kit --fault 3:.5", 0, "never probed", false);
}

static void check_percent(void)
{
    static const struct {
        double probability;
        const char *text;
    } rows[] = {{0, "below 0.01 %"}, {.00005, "below 0.01 %"},
                {.00014, "0.01 %"},  {.005, "0.50 %"},
                {.5, "50.0 %"},      {.9994, "99.94 %"},
                {.99988, "99.99 %"}, {.9999996, "over 99.99 %"},
                {1, "over 99.99 %"}};
    PF_CASE("a probability is never 0 or 100 %");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pf_text text = {0};
        pf__words_percent(&text, rows[i].probability);
        CHECK_STR(text.data, rows[i].text);
        pf__text_free(&text);
    }
}

static void check_against(void)
{
    PF_CASE("belief that moves against a reading is explained");
    bool found = false;
    CHECK(run("calibrate battery -o @/b.kit --set episodes=50 --set alarm_trials=200", 0, ""));
    for (int seed = 1; seed < 9 && !found; seed++) {
        char arguments[200];
        snprintf(
            arguments, sizeof arguments,
            "check @/b.kit --fault 1:.6 --fault 2:.6 --seed %d --journal @/against; [ $? -le 1 ]",
            seed);
        CHECK(run(arguments, 0, ""));
        char *text = output_of("explain @/against", 0);
        const char *fell = strstr(text, " It fell all the same: the whole response speaks more for "
                                        "a loss of string_");
        found = fell && strstr(fell, ", and only one of these can be true.");
        free(text);
    }
    CHECK(found);
}

static void check_columns(void)
{
    PF_CASE("rows of group probes and of single probes have the same columns");
    CHECK(run("calibrate attitude -o @/d.kit --set episodes=50 --set alarm_trials=200", 0, ""));
    char *text = output_of("check @/d.kit --fault angle_z:frozen --seed 7", 1);
    long at = -1;
    int groups = 0, singles = 0;
    for (char *line = strstr(text, "\n  1  "); line; line = strchr(line + 1, '\n')) {
        char *percent = strchr(line + 1, '%'), *end = strchr(line + 1, '\n');
        if (line[1] != ' ' || !percent || percent > end) {
            break; // a rehearsal or the end
        }
        CHECK(at < 0 || percent - line == at);
        at = percent - line;
        groups += strncmp(line + 6, "group_", 6) == 0;
        singles += strncmp(line + 6, "thruster", 8) == 0;
    }
    CHECK(groups > 0 && singles > 0);
    free(text);
}

static void check_counts(void)
{
    PF_CASE("one of a thing has no plural");
    CHECK_STR(pf__counted(1, "probe").text, "1 probe");
    CHECK_STR(pf__counted(0, "probe").text, "0 probes");
    CHECK_STR(pf__counted(1, "entry").text, "1 entry");
    CHECK_STR(pf__counted(2, "promised entry").text, "2 promised entries");
    CHECK_STR(pf__counted(2, "loss").text, "2 losses");
    CHECK_STR(pf__counted(1, "loss").text, "1 loss");
    says("list plants", 0, "1 candidate ", true);
    says("list plants", 0, " 1 candidates", false);
}

// --- bench and list

static void check_bench(void)
{
    PF_CASE("bench list: trials and cost are of one profile, which it names");
    char *text = output_of("bench list", 0);
    if (strstr(text, "no experiments")) {
        free(text);
        pf_skip("this build has no experiments");
        return;
    }
    CHECK_CONTAINS(text, "profile paper: 4400 trials, half a minute on two cores\n");
    CHECK(!strstr(text, " 1 environments") && strstr(text, " 1 environment,"));
    free(text);
    says("bench list --profile quick", 0, "profile quick: 88 trials\n", true);
    says("bench list --profile quick", 0, "on two cores", false);
    says("bench list --json --profile quick", 0, "on two cores", false);
    PF_CASE("bench reads what was run last, whatever its profile");
    CHECK(run("bench table compact-plants --db @/q.db", 3, "q.db"));
    CHECK(run("bench run compact-plants --profile quick --only environment=dc_servo --db @/q.db", 0,
              "8 of 88 trials"));
    CHECK(run("bench table compact-plants --db @/q.db", 0, "Profile quick, config "));
    CHECK(run("bench status compact-plants --db @/q.db", 0, "compact-plants, quick, config "));
    CHECK(run("bench report compact-plants --db @/q.db -o @/part", 0, ""));
    text = program_text(folder, "part/compact-plants.md");
    CHECK_CONTAINS(text, "--profile quick`, in part (`--only`, or stopped) |");
    free(text);
    CHECK(run("bench verify compact-plants --sample 1 --db @/q.db", 0, "quick, config "));
    CHECK(run("bench fidelity --db @/q.db", 0, "Profile quick. "));
    CHECK(run("bench table compact-plants --profile standard --db @/q.db", 3,
              "no trials of compact-plants at profile standard"));
    CHECK(run("bench table ladder --db @/q.db", 3, "at profile standard"));
}

static void check_list(void)
{
    static const char *const heads[] = {"plants\n======", "methods\n=======", "settings\n========",
                                        "faults\n======", "suites\n======"};
    PF_CASE("list alone lists everything");
    char *text = output_of("list", 0);
    const char *at = text;
    for (int i = 0; i < 5; i++) {
        at = at ? strstr(at, heads[i]) : NULL;
        CHECK(at != NULL);
    }
    CHECK(strstr(text, "attitude ") && strstr(text, "eg-mpt ") && strstr(text, "backlash "));
    free(text);
}

// --- demo

static void check_story(const char *text, const char *mechanism)
{
    char secret[100];
    const char *first = strstr(text, "\n1. A healthy machine\n==="),
               *second = strstr(text, "\n2. A loss that is corrected\n==="),
               *third = strstr(text, "\n3. A loss too deep\n===");
    if (!CHECK(first && second && third && first < second && second < third)) {
        return;
    }
    CHECK(program_count(text, "What was done\n") == 3 &&
          program_count(text, "What was found\n") == 3);
    CHECK(program_count(text, "What follows\n") == 3 &&
          program_count(text, "What really happens") == 3);
    CHECK(program_count(text, "\nGO: all ready.\n") == 2);
    CHECK(strstr(third, "\nNO-GO: not ready for every task.\n") != NULL);
    snprintf(secret, sizeof secret, "In secret: %s delivers 50 %% of its command.", mechanism);
    CHECK_CONTAINS(second, secret);
    snprintf(secret, sizeof secret, "GO. Send %s ", mechanism);
    CHECK_CONTAINS(second, secret);
    snprintf(secret, sizeof secret, "\n%s: NO-GO because it may return as little as 0.", mechanism);
    CHECK_CONTAINS(third, secret);
    CHECK_CONTAINS(third, " with the correction that was not good enough to send and ");
    CHECK(!strstr(third, " with its correction"));
    CHECK_CONTAINS(third, "Fallback: ");
    CHECK_CONTAINS(second, "Today's logs do not show it");
    CHECK(!strstr(text, "This plant does not show it"));
}

static void check_demo(void)
{
    PF_CASE("demo: healthy, corrected, too deep");
    char *text = output_of("demo", 0);
    check_story(text, "thruster1");
    free(text);
    PF_CASE("demo PLANT: the same on another, with its sheets");
    text = output_of("demo dc_servo --mechanism motor_2 --report @/demo.html", 0);
    check_story(text, "motor_2");
    free(text);
    text = program_text(folder, "demo.html");
    CHECK(program_count(text, "<!doctype html>") == 1 && program_count(text, "</html>") == 1);
    CHECK(program_count(text, "<body>") == 1 && program_count(text, "</body>") == 1);
    CHECK(program_count(text, "<h1>Readiness of <bdi>dc_servo</bdi></h1>") == 3);
    CHECK(program_count(text, "<div class=\"verdict go\">GO</div>") == 2);
    CHECK(program_count(text, "<div class=\"verdict no-go\">NO-GO</div>") == 1);
    free(text);
    PF_CASE("demo: what a plant does not show is said, with the check that was made");
    says("demo dc_servo --gain .05", 0,
         "This plant does not show it: no loss is found, corrected and go. 3 losses were tried; "
         "this is the last.\n",
         true);
    says("demo dc_servo --gain .05 --color always", 0, "\033[31mNO-GO\033[0m", true);
}

void test_terminal(void)
{
    PF_CASE("terminal: a folder with a kit");
    CHECK(program_folder(folder, sizeof folder, "terminal"));
    write_kit("a.kit");
    check_colour();
    check_width();
    check_escapes();
    check_plant_names();
    check_parts();
    check_too_strong();
    check_remedies();
    check_unconfirmed();
    check_percent();
    check_against();
    check_columns();
    check_counts();
    check_bench();
    check_list();
    check_demo();
}
