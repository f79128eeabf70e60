// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include "wire/protocol.h"
#include "wire/journal.h"
#include "wire/reply.h"
#include "preflight/run.h"

#include "host/door.h"
#include "host/file.h"
#include "host/log.h"
#include "host/parallel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct call {
    const char *journal, *resume, *socket, *plant, *method, *model_file;
    uint64_t seed;
    cli_trust trust;
    double idle_s; // of a client at a socket, 0: it may take for ever
    cli_kit kit;
    pf_model *model; // shared by all conversations. NULL: none
    // of --resume, until its session is over: every conversation goes on with that
    bool resuming;
    pf_log log; // held from the start on, so that no other process takes it
    char own_method[64];
} call;

// One conversation over a pair of descriptors.
typedef struct line_io {
    call *c;
    int in, out;
    int knock;   // where other clients knock, who are told that we are busy; -1: nowhere
    int number;  // of the conversation, from 1; 0: standard input and output
    double last; // when the last line was answered
    size_t most; // bytes of a line
    pf_log journal;
    char path[4096]; // of the journal
    char *buffer;    // of most and CHUNK bytes
    size_t used;
} line_io;

enum { CHUNK = 1 << 16, LOOK_MS = 200 };

static double deadline_of(const line_io *io)
{
    return io->knock >= 0 && io->c->idle_s > 0 ? io->last + io->c->idle_s : 0;
}

static void refuse_line(int fd, const char *code, const char *message)
{
    pf_text reply = {0};
    pf__reply_refusal(&reply, code, message);
    pf__text_add(&reply, "\n");
    if (!reply.failed) {
        // one line fits into a socket that nothing was written to
        send(fd, reply.data, reply.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    pf__text_free(&reply);
}

// On a socket the client is told why its conversation ends.
static void tell_why(const line_io *io, const char *code, const char *message)
{
    if (io->knock >= 0) {
        refuse_line(io->out, code, message);
    }
}

// A machine has one client at a time.
static void turn_away(int knock)
{
    int fd = accept(knock, NULL, NULL);
    if (fd >= 0) {
        refuse_line(fd, "busy", "another client is served; try again when it has left");
        close(fd);
    }
}

typedef enum input { MORE, ENDED, IDLE, STOPPED } input;

// Reads more.
static input fill(line_io *io)
{
    for (;;) {
        struct pollfd wait[2] = {{io->in, POLLIN, 0}, {io->knock, POLLIN, 0}};
        int ready = poll(wait, io->knock >= 0 ? 2 : 1, LOOK_MS);
        if (pf__stopped(&cli_interrupted)) {
            return STOPPED;
        }
        double deadline = deadline_of(io);
        if (deadline > 0 && pf__seconds() > deadline) {
            return IDLE;
        }
        if (ready <= 0) {
            continue;
        }
        if (wait[0].revents == 0) {
            turn_away(io->knock);
            continue;
        }
        ssize_t got = read(io->in, io->buffer + io->used, io->most + CHUNK - io->used);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        io->used += got > 0 ? (size_t)got : 0;
        return got > 0 ? MORE : ENDED;
    }
}

// The next line of n bytes without its newline, moved out by the caller with drop(). A line that is
// too long is read to its end and not kept. At the end of input the last line may have no newline.
static input next_line(line_io *io, size_t *n, bool *too_long)
{
    size_t seen = 0;
    *too_long = false;
    for (;;) {
        char *end = io->used > seen ? memchr(io->buffer + seen, '\n', io->used - seen) : NULL;
        if (end) {
            *n = (size_t)(end - io->buffer);
            *too_long = *too_long || *n > io->most;
            return MORE;
        }
        seen = io->used;
        if (seen > io->most) {
            *too_long = true;
            io->used = seen = 0;
        }
        input more = fill(io);
        if (more != MORE) {
            *n = io->used;
            return more == ENDED && (io->used > 0 || *too_long) ? MORE : more;
        }
    }
}

static void drop(line_io *io, size_t n)
{
    size_t gone = n < io->used ? n + 1 : io->used;
    memmove(io->buffer, io->buffer + gone, io->used - gone);
    io->used -= gone;
}

static bool blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
            return false;
        }
    }
    return true;
}

// --- the journal

// FILE, or for a connection the first FILE.N from its number on that does not exist.
static pf_status open_path(line_io *io, const pf_text *header, pf_error *error)
{
    int connection = io->number;
    char *path = io->path;
    size_t size = sizeof io->path;
    snprintf(path, size, connection == 0 ? "%s" : "%s.%d", io->c->journal, connection);
    struct stat info;
    for (int i = connection + 1; connection > 0 && lstat(path, &info) == 0 && i < INT_MAX; i++) {
        snprintf(path, size, "%s.%d", io->c->journal, i);
    }
    return pf__log_start(&io->journal, path, PF_LOG_NEW, &cli_interrupted, header, error);
}

static pf_status open_journal(line_io *io, const pf_session *session, pf_error *error)
{
    const call *c = io->c;
    if (!c->journal) {
        return PF_OK;
    }
    if (strlen(c->journal) + 16 > sizeof io->path) {
        return pf_fail(error, PF_ERR_ARGUMENT, "--journal: the path is too long");
    }
    pf_status status = pf__file_writable(c->journal, error);
    if (status != PF_OK) {
        return status;
    }
    pf_text header = {0};
    pf__journal_header(&header, c->kit.bytes, c->kit.n_bytes, pf_session_method(session)->id,
                       c->seed, NULL, NULL);
    pf__text_add(&header, "\n");
    status = open_path(io, &header, error);
    pf__text_free(&header);
    return status;
}

// Answers one line. Gives the exit status if the conversation cannot go on, -1 if it can.
static int answer(pf_protocol *dialogue, line_io *io, size_t n, bool too_long, pf_text *reply,
                  pf_text *journal)
{
    bool records = io->journal.fd >= 0 || io->c->journal;
    pf_error error = {PF_OK, ""};
    pf_status status = PF_OK;
    io->last = pf__seconds();
    if (too_long) {
        pf__protocol_too_long(dialogue, reply);
    } else if (blank(io->buffer, n)) {
        return -1;
    } else {
        pf__protocol_line(dialogue, io->buffer, n, reply, records ? journal : NULL);
    }
    pf__text_add(reply, "\n");
    // evidence first: what was answered is always in the journal
    if (journal->size > 0 || journal->failed) {
        if (io->journal.fd < 0) { // a client that says nothing good leaves no journal
            status = open_journal(io, pf__protocol_session(dialogue), &error);
        }
        status = status ? status : pf__log_add(&io->journal, journal, &error);
        pf__text_clear(journal);
    }
    if (status == PF_OK && reply->failed) {
        status = pf_fail(&error, PF_ERR_MEMORY, "out of memory for a reply");
    }
    if (status != PF_OK) {
        tell_why(io, "journal", "the journal cannot be written; connect again when it can");
        return cli_fail("serve", status, &error);
    }
    if (!pf__put(io->out, reply->data, reply->size, &cli_interrupted, deadline_of(io))) {
        if (errno != EINTR) {
            cli_say("serve", "the client does not take its replies: %s", strerror(errno));
        }
        return EXIT_BAD_INPUT;
    }
    io->last = pf__seconds();
    return -1;
}

// --- a journal to go on from

typedef struct past {
    char *text; // NULL: there is none
    size_t n;
    pf_journal_head head;
} past;

// What is verified under --trust is the journal as it was left, not as it grows here.
static pf_status read_past(past *p, const call *c, pf_error *error)
{
    enum { BYTES = 1 << 30 };
    void *text = NULL;
    pf_error why = {PF_OK, ""};
    pf_status status =
        c->log.fd >= 0 ? pf__file_read(c->resume, BYTES, &text, &p->n, error)
                       : cli_trusted_read(&c->trust, c->resume, BYTES, &text, &p->n, NULL, error);
    if (status != PF_OK) {
        return status;
    }
    p->text = text;
    status = pf__journal_head_read(text, p->n, &p->head, &why);
    if (status == PF_OK && (p->head.n_kit != c->kit.n_bytes ||
                            memcmp(p->head.kit, c->kit.bytes, c->kit.n_bytes) != 0)) {
        status = pf_fail(&why, PF_ERR_MISMATCH, "the journal is of another kit than this one");
    }
    return status == PF_OK ? PF_OK : pf_fail(error, status, "%s: %s", c->resume, why.text);
}

static void free_past(past *p)
{
    free(p->text);
    free(p->head.kit);
    *p = (past){.text = NULL};
}

// The session of a journal is taken up where that ends, and the journal grows from there. The
// server does so for one conversation after the other, until the session is over.
static pf_status take_up(call *c, pf_protocol *dialogue, const past *p, pf_error *error)
{
    pf_error why = {PF_OK, ""};
    pf_resumed resumed;
    bool first = c->log.fd < 0;
    pf_status status = pf__replay_resume(dialogue, p->text, p->n, &resumed, &why);
    if (status == PF_OK && resumed.over && first) {
        status = pf_fail(&why, PF_ERR_ARGUMENT,
                         "the session is done and its verdict was given; start a new one");
    }
    if (status != PF_OK) {
        return pf_fail(error, status, "%s: %s", c->resume, why.text);
    }
    c->resuming = !resumed.over;
    if (first) {
        status = pf__log_resume(&c->log, c->resume, resumed.whole, &cli_interrupted, error);
        snprintf(c->own_method, sizeof c->own_method, "%s", p->head.method);
        c->method = c->own_method; // sessions after this one have its method and seed
        c->seed = p->head.seed;
    }
    if (status == PF_OK && first) {
        cli_say("serve", "%s: goes on after %s", c->resume,
                pf__counted(resumed.records, "record").text);
    }
    return status;
}

// What predicts from a start state in one session: the twin or the model. Both may be missing, then
// requests must bring predictions.
typedef struct foresight {
    pf_plant *twin;
    pf_predictor predictor; // predict NULL: none
    pf_error missing;       // why there is none
} foresight;

static pf_status open_foresight(foresight *f, const call *c)
{
    const pf_kit *kit = c->kit.kit;
    pf_kit_info k = pf_kit_get_info(kit);
    if (c->model) {
        return pf_predictor_create(&f->predictor, kit, NULL, c->model, &f->missing);
    }
    if (k.starts_from_channels) {
        pf_fail(&f->missing, PF_ERR_PREDICTION, "the kit's model was not given with --model FILE");
        cli_say("serve", "no model (%s); requests must bring predictions", f->missing.text);
        return PF_OK;
    }
    if (strcmp(pf_kit_get_string(kit, PF_KIT_PREDICTOR), "twin") != 0) {
        return PF_OK;
    }
    pf_status status = cli_plant_for_kit(&f->twin, kit, c->plant, &c->trust, &f->missing);
    if (status == PF_OK) {
        status = pf_kit_fits_twin(kit, pf_plant_get_info(f->twin), &f->missing);
    }
    if (status == PF_OK) {
        return pf_predictor_create(&f->predictor, kit, f->twin, NULL, &f->missing);
    }
    if (!c->plant) {
        cli_say("serve", "no twin (%s); requests must bring predictions", f->missing.text);
        return PF_OK;
    }
    return status;
}

static void close_foresight(foresight *f)
{
    pf_predictor_destroy(&f->predictor);
    pf_plant_destroy(f->twin);
}

// Lines until the client leaves. Gives the exit status.
static int converse(pf_protocol *dialogue, line_io *io)
{
    pf_text reply = {0}, journal = {0};
    int result = -1;
    while (result < 0) {
        bool too_long = false;
        size_t n = 0;
        input line = next_line(io, &n, &too_long);
        if (line == IDLE) {
            char why[120];
            snprintf(why, sizeof why, "no whole request came for %g s (--idle); connect again",
                     io->c->idle_s);
            refuse_line(io->out, "idle", why);
            cli_say("serve", "a client that said nothing for %g s was dropped", io->c->idle_s);
        }
        if (line != MORE) {
            result = EXIT_YES;
            break;
        }
        result = answer(dialogue, io, n, too_long, &reply, &journal);
        drop(io, n);
    }
    pf__text_free(&reply);
    pf__text_free(&journal);
    return result;
}

// A conversation from its first line to its last.
static int talk(line_io *io, pf_protocol *dialogue)
{
    pf_error error = {PF_OK, ""};
    pf_status status = PF_OK;
    int result = EXIT_YES;
    io->most = pf__protocol_line_max(dialogue);
    io->buffer = malloc(io->most + CHUNK);
    io->last = pf__seconds();
    if (!io->buffer) {
        status = pf_fail(&error, PF_ERR_MEMORY, "out of memory for a line");
    } else if (io->c->resuming) {
        io->journal = io->c->log;
    } else if (io->number == 0) {
        status = open_journal(io, pf__protocol_session(dialogue), &error);
    }
    result = status == PF_OK ? converse(dialogue, io) : cli_fail("serve", status, &error);
    if (io->journal.fd != io->c->log.fd) {
        status = pf__log_close(&io->journal, &error);
        result = status == PF_OK || result != EXIT_YES ? result : cli_fail("serve", status, &error);
    }
    free(io->buffer);
    return result;
}

// A dialogue with what it predicts with, taken up from the journal of --resume.
static pf_status prepare(call *c, foresight *f, pf_protocol **dialogue, pf_error *error)
{
    past p = {.text = NULL};
    pf_status status = c->resuming ? read_past(&p, c, error) : PF_OK;
    if (status == PF_OK && (status = open_foresight(f, c)) != PF_OK) {
        *error = f->missing;
    }
    if (status == PF_OK) {
        pf_protocol_config config = {p.text ? p.head.method : c->method,
                                     p.text ? p.head.seed : c->seed,
                                     f->predictor.predict ? &f->predictor : NULL,
                                     f->missing.text[0] ? f->missing.text : NULL};
        status = pf__protocol_create(dialogue, c->kit.bytes, c->kit.n_bytes, &config, error);
    }
    if (status == PF_OK && p.text) {
        status = take_up(c, *dialogue, &p, error);
    }
    free_past(&p);
    return status;
}

// A whole session from first to last line. number 0: standard input and output; without an input it
// is only prepared.
static int serve(call *c, int in, int out, int knock, int number)
{
    pf_error error = {PF_OK, ""};
    foresight f = {0};
    pf_protocol *dialogue = NULL;
    bool resuming = c->resuming;
    pf_status status = prepare(c, &f, &dialogue, &error);
    line_io io = {
        .c = c, .in = in, .out = out, .knock = knock, .number = number, .journal = {.fd = -1}};
    int result = EXIT_YES;
    bool over = status == PF_OK && resuming && !c->resuming; // by the conversation before
    if (status != PF_OK) {
        result = cli_fail("serve", status, &error);
        tell_why(&io, "not-started", error.text);
    } else if (in >= 0 && !over) {
        result = talk(&io, dialogue);
    }
    pf__protocol_destroy(dialogue);
    close_foresight(&f);
    if (over && in >= 0) {
        return serve(c, in, out, knock, number);
    }
    return pf__stopped(&cli_interrupted) ? EXIT_INTERRUPTED : result;
}

// --- socket

static int serve_socket(call *c)
{
    pf_door d;
    int number = 0;
    pf_error error = {PF_OK, ""};
    // what no session can start with is told now, not to every client
    int status = serve(c, -1, -1, -1, 0);
    if (status == EXIT_YES && c->journal && pf__file_writable(c->journal, &error) != PF_OK) {
        status = cli_fail("serve", error.code, &error);
    }
    if (status != EXIT_YES) {
        return status;
    }
    if (pf__door_open(&d, c->socket, &error) != PF_OK) {
        return cli_fail("serve", error.code, &error);
    }
    fprintf(stderr, "preflight serve: listening on %s\n", c->socket);
    while (!pf__stopped(&cli_interrupted)) {
        struct pollfd wait = {d.fd, POLLIN, 0};
        int client = poll(&wait, 1, LOOK_MS) > 0 ? accept(d.fd, NULL, NULL) : -1;
        if (client >= 0) {
            fcntl(client, F_SETFD, FD_CLOEXEC);
            fcntl(client, F_SETFL, O_NONBLOCK);
            serve(c, client, client, d.fd, ++number);
            close(client);
        }
    }
    pf__door_close(&d);
    return EXIT_INTERRUPTED;
}

// The options of a call; false: a usage error was printed.
static bool read_options(call *c, int argc, char **argv, cli_list *kit)
{
    const char *seed_text = NULL, *idle_text = NULL;
    const cli_option options[] = {
        {"--journal", .value = &c->journal},     {"--socket", .value = &c->socket},
        {"--plant", .value = &c->plant},         {"--method", .value = &c->method},
        {"--seed", .value = &seed_text},         {"--model", .value = &c->model_file},
        {"--resume", .value = &c->resume},       {"--idle", .value = &idle_text},
        {"--trust", .value = &c->trust.signers}, {"--allow-exec", .flag = &c->trust.allow_exec},
    };
    double seed = 0;
    if (!cli_parse("serve", argc, argv, options, sizeof options / sizeof options[0], kit)) {
        return false;
    }
    if (kit->n != 1) {
        return cli_usage("serve", "name one kit file") == EXIT_YES;
    }
    if (!cli_seed("serve", seed_text, &seed) ||
        (idle_text && !cli_integer("serve", "--idle", idle_text, 0, 1e9, &c->idle_s))) {
        return false;
    }
    if (c->resume && (c->method || seed_text || (c->journal && !c->socket))) {
        return cli_usage("serve", "--resume: the journal says %s",
                         c->journal ? "where it goes on: in itself; leave --journal out"
                                    : "method and seed; leave --method and --seed out") == EXIT_YES;
    }
    if (idle_text && !c->socket) {
        return cli_usage("serve", "--idle is about clients of --socket") == EXIT_YES;
    }
    c->seed = (uint64_t)seed;
    c->resuming = c->resume != NULL;
    return true;
}

// What is refused before anybody connects, not as a twin that is missing.
static int open_model(call *c)
{
    int status = EXIT_YES;
    pf_error error = {PF_OK, ""};
    if (c->plant && pf_kit_get_info(c->kit.kit).starts_from_channels) {
        return cli_usage("serve", "--plant: the kit predicts with a learned model, not with a "
                                  "twin; see --model");
    }
    const char *own = pf_kit_get_string(c->kit.kit, PF_KIT_PLANT);
    bool twin = strcmp(pf_kit_get_string(c->kit.kit, PF_KIT_PREDICTOR), "twin") == 0;
    if (twin && !c->plant && cli_trusted_plant(&c->trust, "the kit", own, &error) != PF_OK) {
        return cli_fail("serve", error.code, &error);
    }
    cli_model_for_kit("serve", c->kit.kit, c->model_file, &c->model, &status);
    return status;
}

int cmd_serve(int argc, char **argv)
{
    call c = {.idle_s = 600, .log = {.fd = -1}};
    cli_list kit = {.n = 0};
    int status = EXIT_YES;
    if (!read_options(&c, argc, argv, &kit)) {
        return EXIT_USAGE;
    }
    if (!cli_kit_open("serve", kit.item[0], &c.trust, &c.kit, &status)) {
        return status;
    }
    status = open_model(&c);
    if (status == EXIT_YES) {
        signal(SIGPIPE, SIG_IGN); // a client that leaves ends its session, not the server
        status = c.socket ? serve_socket(&c) : serve(&c, 0, 1, -1, 0);
    }
    pf_error error = {PF_OK, ""};
    if (pf__log_close(&c.log, &error) != PF_OK && status == EXIT_YES) {
        status = cli_fail("serve", error.code, &error);
    }
    pf_model_destroy(c.model);
    cli_kit_close(&c.kit);
    return status;
}
