// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include "wire/protocol.h"
#include "wire/journal.h"
#include "wire/reply.h"
#include "preflight/run.h"

#include "host/file.h"
#include "host/parallel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct call {
    const char *journal, *socket, *plant, *method, *model_file;
    uint64_t seed;
    cli_trust trust;
    cli_kit kit;
    pf_model *model; // shared by all connections. NULL: none
} call;

// One conversation over a pair of descriptors.
typedef struct line_io {
    int in, out, journal;
    char *buffer;
    size_t used, room;
} line_io;

static bool put(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t did = write(fd, data, n);
        if (did < 0 && errno == EINTR && !pf__stopped(&cli_interrupted)) {
            continue;
        }
        if (did <= 0) {
            return false;
        }
        data += did;
        n -= (size_t)did;
    }
    return true;
}

// Reads more; false at the end of input, on an error or when interrupted.
static bool fill(line_io *io)
{
    if (io->used == io->room) {
        size_t room = io->room ? 2 * io->room : 1 << 16;
        char *grown = realloc(io->buffer, room);
        if (!grown) {
            return false;
        }
        io->buffer = grown;
        io->room = room;
    }
    for (;;) {
        struct pollfd wait = {io->in, POLLIN, 0};
        int ready = poll(&wait, 1, 200);
        if (pf__stopped(&cli_interrupted)) {
            return false;
        }
        if (ready == 0 || (ready < 0 && errno == EINTR)) {
            continue;
        }
        ssize_t got = read(io->in, io->buffer + io->used, io->room - io->used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        io->used += (size_t)got;
        return true;
    }
}

// The next line without its newline, moved out by the caller with drop(). A line that is too long
// is read to its end and reported. False: no more input.
static bool next_line(line_io *io, size_t *n, bool *too_long)
{
    size_t seen = 0;
    *too_long = false;
    for (;;) {
        char *end = io->used > seen ? memchr(io->buffer + seen, '\n', io->used - seen) : NULL;
        if (end) {
            *n = (size_t)(end - io->buffer);
            *too_long = *too_long || *n > PF_LINE_MAX;
            return true;
        }
        seen = io->used;
        if (seen > PF_LINE_MAX) {
            *too_long = true;
            io->used = seen = 0;
        }
        if (!fill(io)) {
            *n = io->used;
            return (io->used > 0 || *too_long) && !pf__stopped(&cli_interrupted);
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

// Appends to the journal; what must not be lost goes down to the disk. Pipes and devices have none.
static bool record(const pf_protocol *dialogue, const line_io *io, const pf_text *journal)
{
    if (journal->failed) {
        errno = ENOMEM;
        return false;
    }
    if (!put(io->journal, journal->data, journal->size)) {
        return false;
    }
    return !pf__protocol_weighty(dialogue) || fsync(io->journal) == 0 || errno == EINVAL ||
           errno == ENOTSUP;
}

static bool answer(pf_protocol *dialogue, line_io *io, size_t n, bool too_long, pf_text *reply,
                   pf_text *journal)
{
    if (too_long) {
        pf__protocol_too_long(reply);
    } else if (blank(io->buffer, n)) {
        return true;
    } else {
        pf__protocol_line(dialogue, io->buffer, n, reply, io->journal >= 0 ? journal : NULL);
    }
    pf__text_add(reply, "\n");
    // evidence first: what was answered is always in the journal
    if (journal->size > 0 || journal->failed) {
        if (!record(dialogue, io, journal)) {
            fprintf(stderr, "preflight serve: the journal could not be written: %s\n",
                    strerror(errno));
            return false;
        }
        pf__text_clear(journal);
    }
    return !reply->failed && put(io->out, reply->data, reply->size);
}

static bool converse(pf_protocol *dialogue, line_io *io)
{
    pf_text reply = {0}, journal = {0};
    bool good = true, too_long = false;
    size_t n = 0;
    while (good && next_line(io, &n, &too_long)) {
        good = answer(dialogue, io, n, too_long, &reply, &journal);
        drop(io, n);
    }
    pf__text_free(&reply);
    pf__text_free(&journal);
    return good;
}

// A journal is evidence: none is ever overwritten. An empty file, a pipe or a device may be used.
static int open_new(const char *path)
{
    struct stat info;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) {
        return fd;
    }
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        close(fd);
        errno = EEXIST;
        return -1;
    }
    return fd;
}

// FILE, or for a connection the first FILE.N from its number on that does not exist.
static int open_path(const call *c, int connection, char *path, size_t n)
{
    int fd = -1;
    if (connection == 0) {
        snprintf(path, n, "%s", c->journal);
        fd = open_new(path);
    }
    for (int i = connection; i > 0 && i < INT_MAX; i++) {
        snprintf(path, n, "%s.%d", c->journal, i);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            break;
        }
    }
    if (fd < 0 && errno == EEXIST) {
        cli_say("serve",
                "%s: holds a journal already and is not overwritten; move it away or name another "
                "file",
                path);
    } else if (fd < 0) {
        cli_say("serve", "%s: %s", path, strerror(errno));
    }
    return fd;
}

static int open_journal(const call *c, const pf_session *session, int connection)
{
    char path[4096];
    if (!c->journal) {
        return -1;
    }
    if (strlen(c->journal) + 16 > sizeof path) {
        cli_say("serve", "--journal: the path is too long");
        return -2;
    }
    pf_error error = {PF_OK, ""};
    pf_status status = pf__file_writable(c->journal, &error);
    if (status != PF_OK) {
        cli_fail("serve", status, &error);
        return -2;
    }
    int fd = open_path(c, connection, path, sizeof path);
    if (fd < 0) {
        return -2;
    }
    pf_text header = {0};
    pf__journal_header(&header, c->kit.bytes, c->kit.n_bytes, pf_session_method(session)->id,
                       c->seed);
    pf__text_add(&header, "\n");
    bool good = !header.failed && put(fd, header.data, header.size);
    pf__text_free(&header);
    if (!good) {
        fprintf(stderr, "preflight serve: %s: %s\n", path, strerror(errno));
        close(fd);
        return -2;
    }
    return fd;
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
        fprintf(stderr, "preflight serve: no model (%s); requests must bring predictions\n",
                f->missing.text);
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
        fprintf(stderr, "preflight serve: no twin (%s); requests must bring predictions\n",
                f->missing.text);
        return PF_OK;
    }
    return status;
}

static void close_foresight(foresight *f)
{
    pf_predictor_destroy(&f->predictor);
    pf_plant_destroy(f->twin);
}

// A whole session from first to last line. connection 0: standard input and output.
static int serve(const call *c, int in, int out, int connection)
{
    pf_error error = {PF_OK, ""};
    foresight f = {0};
    pf_status status = open_foresight(&f, c);
    if (status != PF_OK) {
        close_foresight(&f);
        return cli_fail("serve", status, &f.missing);
    }
    pf_protocol_config config = {c->method, c->seed, f.predictor.predict ? &f.predictor : NULL,
                                 f.missing.text[0] ? f.missing.text : NULL};
    pf_protocol *dialogue = NULL;
    status = pf__protocol_create(&dialogue, c->kit.bytes, c->kit.n_bytes, &config, &error);
    int result = status == PF_OK ? EXIT_YES : cli_fail("serve", status, &error);
    if (status == PF_OK) {
        line_io io = {.in = in, .out = out};
        io.journal = open_journal(c, pf__protocol_session(dialogue), connection);
        if (io.journal == -2 || !converse(dialogue, &io)) {
            result = EXIT_BAD_INPUT;
        }
        if (io.journal >= 0 && close(io.journal) != 0) {
            result = EXIT_BAD_INPUT;
        }
        free(io.buffer);
    }
    pf__protocol_destroy(dialogue);
    close_foresight(&f);
    return pf__stopped(&cli_interrupted) ? EXIT_INTERRUPTED : result;
}

// --- socket

// Connections at the same time; one more is turned away.
enum { MOST_CONNECTIONS = 64 };

typedef struct connection {
    const call *c;
    int fd, number;
    pthread_t thread;
    atomic_bool ended; // the thread has nothing left to do
    struct connection *next;
} connection;

static void *serve_connection(void *self)
{
    connection *one = self;
    serve(one->c, one->fd, one->fd, one->number);
    shutdown(one->fd, SHUT_RDWR);
    close(one->fd);
    atomic_store(&one->ended, true);
    return NULL;
}

static int listen_on(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "preflight serve: --socket: the path is too long\n");
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 16) != 0) {
        if (errno == EADDRINUSE) {
            fprintf(stderr,
                    "preflight serve: %s: exists already. If another server listens there, stop it "
                    "or choose another path; if one was killed, remove the file yourself\n",
                    path);
        } else {
            fprintf(stderr, "preflight serve: %s: %s\n", path, strerror(errno));
        }
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

// Joins the threads that have ended, or all of them; gives the number that is left.
static int join(connection **all, bool every)
{
    int left = 0;
    while (*all) {
        connection *one = *all;
        if (!every && !atomic_load(&one->ended)) {
            left++;
            all = &one->next;
            continue;
        }
        *all = one->next;
        pthread_join(one->thread, NULL);
        free(one);
    }
    return left;
}

static void turn_away(int fd)
{
    pf_text reply = {0};
    pf__reply_refusal(&reply, "busy", "all 64 connections are taken; try again later");
    pf__text_add(&reply, "\n");
    if (!reply.failed) {
        put(fd, reply.data, reply.size);
    }
    pf__text_free(&reply);
    shutdown(fd, SHUT_WR);
    close(fd);
}

// Starts a thread for an accepted connection. False: there was no room for it.
static bool admit(const call *c, int fd, int number, connection **all)
{
    connection *one = calloc(1, sizeof *one);
    if (!one) {
        return false;
    }
    one->c = c;
    one->fd = fd;
    one->number = number;
    one->next = *all;
    atomic_init(&one->ended, false);
    if (pthread_create(&one->thread, NULL, serve_connection, one) != 0) {
        free(one);
        return false;
    }
    *all = one;
    return true;
}

static int serve_socket(const call *c)
{
    int fd = listen_on(c->socket), number = 0;
    connection *all = NULL;
    if (fd < 0) {
        return EXIT_BAD_INPUT;
    }
    fprintf(stderr, "preflight serve: listening on %s\n", c->socket);
    while (!pf__stopped(&cli_interrupted)) {
        struct pollfd wait = {fd, POLLIN, 0};
        int accepted = poll(&wait, 1, 200) > 0 ? accept(fd, NULL, NULL) : -1;
        int open = join(&all, false);
        if (accepted < 0) {
            continue;
        }
        fcntl(accepted, F_SETFD, FD_CLOEXEC);
        if (open >= MOST_CONNECTIONS || !admit(c, accepted, ++number, &all)) {
            turn_away(accepted);
        }
    }
    close(fd);
    unlink(c->socket);
    join(&all, true);
    return EXIT_INTERRUPTED;
}

int cmd_serve(int argc, char **argv)
{
    call c = {0};
    const char *seed_text = NULL;
    cli_list kit = {.n = 0};
    const cli_option options[] = {
        {"--journal", .value = &c.journal},     {"--socket", .value = &c.socket},
        {"--plant", .value = &c.plant},         {"--method", .value = &c.method},
        {"--seed", .value = &seed_text},        {"--model", .value = &c.model_file},
        {"--trust", .value = &c.trust.signers}, {"--allow-exec", .flag = &c.trust.allow_exec},
    };
    if (!cli_parse("serve", argc, argv, options, sizeof options / sizeof options[0], &kit)) {
        return EXIT_USAGE;
    }
    double seed = 0;
    if (kit.n != 1) {
        return cli_usage("serve", "name one kit file");
    }
    if (!cli_seed("serve", seed_text, &seed)) {
        return EXIT_USAGE;
    }
    int status = EXIT_YES;
    if (!cli_kit_open("serve", kit.item[0], &c.trust, &c.kit, &status)) {
        return status;
    }
    if (c.plant && pf_kit_get_info(c.kit.kit).starts_from_channels) {
        cli_kit_close(&c.kit);
        return cli_usage("serve", "--plant: the kit predicts with a learned model, not with a "
                                  "twin; see --model");
    }
    // refused before anybody connects, not as a twin that is missing
    pf_error error = {PF_OK, ""};
    const char *own = pf_kit_get_string(c.kit.kit, PF_KIT_PLANT);
    bool twin = strcmp(pf_kit_get_string(c.kit.kit, PF_KIT_PREDICTOR), "twin") == 0;
    pf_status trusted =
        twin && !c.plant ? cli_trusted_plant(&c.trust, "the kit", own, &error) : PF_OK;
    if (trusted != PF_OK) {
        cli_kit_close(&c.kit);
        return cli_fail("serve", trusted, &error);
    }
    if (!cli_model_for_kit("serve", c.kit.kit, c.model_file, &c.model, &status)) {
        cli_kit_close(&c.kit);
        return status;
    }
    c.seed = (uint64_t)seed;
    signal(SIGPIPE, SIG_IGN); // a client that leaves ends its session, not the server
    status = c.socket ? serve_socket(&c) : serve(&c, 0, 1, 0);
    pf_model_destroy(c.model);
    cli_kit_close(&c.kit);
    return status;
}
