// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include "wire/journal.h"
#include "wire/sheet.h"
#include "host/file.h"

#include <stdlib.h>
#include <string.h>

// Reads one file named on the command line, of the wanted kinds. False: printed, *status set.
static bool read_one(const char *command, const cli_list *files, int wanted, const cli_trust *trust,
                     void **data, size_t *n, int *status)
{
    pf_error error = {PF_OK, ""};
    if (files->n != 1) {
        *status = cli_usage(command, "name one file");
        return false;
    }
    if (cli_other_kind(command, files->item[0], wanted)) {
        *status = EXIT_BAD_INPUT;
        return false;
    }
    pf_status s = cli_trusted_read(trust, files->item[0], (size_t)1 << 30, data, n, NULL, &error);
    if (s != PF_OK) {
        *status = cli_fail(command, s, &error);
        return false;
    }
    return true;
}

static void print_replay(const pf_replay *r, bool json)
{
    if (!json) {
        printf("%s recomputed, %s\n", pf__counted(r->events, "event").text,
               r->differs ? "the first difference is" : "every reply equal to the last bit");
        if (r->differs) {
            printf("%s\n", r->where);
        }
        if (r->cut) {
            printf("the journal is cut off after %s; everything before was replayed\n",
                   pf__counted(r->events, "record").text);
        }
        if (r->open) {
            printf("the journal ends before the session was done\n");
        }
        return;
    }
    pf_text out = {0};
    pf__text_addf(&out, "{\"events\":%d,\"equal\":%s,\"cut\":%s,\"difference\":", r->events,
                  r->differs ? "false" : "true", r->cut || r->open ? "true" : "false");
    if (r->differs) {
        pf__json_string(&out, r->where);
    } else {
        pf__text_add(&out, "null");
    }
    pf__text_add(&out, "}\n");
    cli_print(&out);
    pf__text_free(&out);
}

int cmd_replay(int argc, char **argv)
{
    bool json = false;
    cli_list files = {.n = 0};
    cli_trust trust = {.signers = NULL};
    const cli_option options[] = {{"--json", .flag = &json}, {"--trust", .value = &trust.signers}};
    void *text = NULL;
    size_t n = 0;
    int status = EXIT_USAGE;
    if (!cli_parse("replay", argc, argv, options, 2, &files) ||
        !read_one("replay", &files, CLI_JOURNAL, &trust, &text, &n, &status)) {
        return status;
    }
    pf_replay replay;
    pf_error error = {PF_OK, ""};
    pf_status result = pf__replay_journal(text, n, false, &replay, &error);
    free(text);
    if (result != PF_OK) {
        return cli_fail_in("replay", files.item[0], result, &error);
    }
    print_replay(&replay, json);
    return replay.differs ? EXIT_NO : EXIT_YES;
}

int cmd_explain(int argc, char **argv)
{
    const char *html = NULL, *color = NULL;
    cli_trust trust = {.signers = NULL};
    const cli_option options[] = {{"--html", .value = &html},
                                  {"--color", .value = &color},
                                  {"--trust", .value = &trust.signers}};
    cli_list files = {.n = 0};
    void *text = NULL;
    size_t n = 0;
    int status = EXIT_USAGE;
    if (!cli_parse("explain", argc, argv, options, 3, &files) || !cli_color("explain", color) ||
        !read_one("explain", &files, CLI_JOURNAL | CLI_CERTIFICATE, &trust, &text, &n, &status)) {
        return status;
    }
    pf_error error = {PF_OK, ""};
    pf_text words = {0};
    pf_replay replay = {0};
    bool journal = n > 10 && memcmp(text, "{\"journal\"", 10) == 0;
    status = html && !journal ? cli_usage("explain", "--html needs a journal, not a certificate")
                              : cli_outputs("explain", 1, &(cli_file){"the journal", files.item[0]},
                                            1, &(cli_file){"--html", html});
    if (status != EXIT_YES) {
        free(text);
        return status;
    }
    pf_status result = journal ? pf__replay_journal(text, n, true, &replay, &error)
                               : pf__explain_certificate(text, n, &words, &error);
    status = EXIT_YES;
    if (result != PF_OK) {
        status = cli_fail_in("explain", files.item[0], result, &error);
    } else if (replay.differs) {
        printf("Warning: the journal does not replay (%s).\nWhat it says is not what this program "
               "finds in it, so there is no verdict to explain.\n",
               replay.where);
        status = EXIT_NO;
    } else if (html) {
        result = pf__sheet(text, n, NULL, &words, &error);
        status = result == PF_OK ? cli_write("explain", html, &words)
                                 : cli_fail_in("explain", files.item[0], result, &error);
    } else {
        cli_show(journal ? &replay.explanation : &words);
        if (replay.cut) {
            printf("\nThe journal is cut off after %s: this is how things stood then.\n",
                   pf__counted(replay.events, "record").text);
        }
        if (replay.open) {
            printf("\nThe journal ends before the session was done.\n");
        }
    }
    free(text);
    pf__text_free(&words);
    pf__text_free(&replay.explanation);
    return status;
}
