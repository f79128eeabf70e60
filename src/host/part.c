// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE // flock
#include "part.h"

#include "core/sha256.h"
#include "file.h"
#include "parallel.h"
#include "preflight/calibrate.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// The file: a head, then one record per item in the order in which they ended. A record that is
// torn or damaged, and all after it, are as if they were not there.

typedef struct head {
    char magic[8];
    uint8_t key[32];
} head;

typedef struct record {
    uint32_t stage, size; // size: of the numbers that follow
    uint64_t item;
    uint8_t sum[16]; // of the key, the fields above and the numbers
} record;

static const char magic[8] = "PFPART1\n";
static const double flush_s = 1; // a job that is done before has no file

struct pf_part {
    char *path;
    uint8_t key[32];
    uint8_t *image; // the file as it was found
    size_t good;    // bytes of it that count
    size_t at;      // first record that no stage has taken yet
    size_t stage_at;
    uint32_t stage; // from 1
    pf_text buffer; // not written yet
    double flushed;
    int file;    // -1: not open
    bool headed; // the file, or the buffer, has its head
    bool broken; // it cannot be written
};

static void sum_record(const pf_part *part, const record *r, const pf_slot *slots, int n,
                       uint8_t sum[16])
{
    pf_sha256 sha;
    uint8_t digest[32];
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, part->key, sizeof part->key);
    pf__sha256_update(&sha, r, offsetof(record, sum));
    for (int i = 0; i < n; i++) {
        pf__sha256_update(&sha, slots[i].data, slots[i].size);
    }
    pf__sha256_final(&sha, digest);
    memcpy(sum, digest, 16);
}

// The record at an offset of the image; NULL: none that is whole.
static uint8_t *read_record(const pf_part *part, size_t at, size_t end, record *r)
{
    if (end - at < sizeof *r) {
        return NULL;
    }
    memcpy(r, part->image + at, sizeof *r);
    at += sizeof *r;
    return r->size <= end - at ? part->image + at : NULL;
}

// Where the records end that are whole, true and in the order of stages.
static size_t find_end(const pf_part *part, size_t bytes)
{
    size_t at = sizeof(head);
    uint32_t stage = 1;
    record r;
    for (uint8_t *data; (data = read_record(part, at, bytes, &r)); at += sizeof r + r.size) {
        uint8_t sum[16];
        sum_record(part, &r, &(pf_slot){.data = data, .size = r.size}, 1, sum);
        if (memcmp(sum, r.sum, sizeof sum) != 0 || r.stage < stage) {
            break;
        }
        stage = r.stage;
    }
    return at;
}

// Opens the file for this run alone. What was there when it could be locked may be gone by then:
// the name must still be this file's. create: there is none yet.
static bool open_file(pf_part *part, bool create)
{
    struct stat own, named;
    int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0);
    part->file = open(part->path, flags, 0666);
    bool good = part->file >= 0 && flock(part->file, LOCK_EX | LOCK_NB) == 0 &&
                fstat(part->file, &own) == 0 && stat(part->path, &named) == 0;
    if (good && (own.st_ino != named.st_ino || own.st_dev != named.st_dev)) {
        errno = ENOENT;
        good = false;
    }
    if (!good && part->file >= 0) {
        int problem = errno;
        close(part->file);
        errno = problem;
        part->file = -1;
    }
    return good;
}

// Reads the open file whole.
static pf_status read_image(pf_part *part, size_t *n, pf_error *error)
{
    struct stat about;
    if (fstat(part->file, &about) != 0 || !S_ISREG(about.st_mode)) {
        return pf_fail(error, PF_ERR_FILE, "%s: is no regular file", part->path);
    }
    size_t size = (size_t)about.st_size;
    part->image = malloc(size + 1);
    if (!part->image) {
        return pf_fail(error, PF_ERR_MEMORY, "%s: out of memory", part->path);
    }
    for (*n = 0; *n < size;) {
        ssize_t got = pread(part->file, part->image + *n, size - *n, (off_t)*n);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return pf_fail(error, PF_ERR_FILE, "%s: %s", part->path,
                           got == 0 ? "it became shorter" : strerror(errno));
        }
        *n += got > 0 ? (size_t)got : 0;
    }
    return PF_OK;
}

// Takes over what is there, and cuts off what does not count. Somebody else's file and another
// job's are refused and stay as they are.
static pf_status take_over(pf_part *part, bool *found, pf_error *error)
{
    size_t n = 0;
    pf_status status = read_image(part, &n, error);
    if (status != PF_OK) {
        return status;
    }
    if (memcmp(part->image, magic, n < sizeof magic ? n : sizeof magic) != 0) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: is there and holds no part of a job; remove it or name another output",
                       part->path);
    }
    bool whole = n >= sizeof(head);
    if (whole && memcmp(part->image + sizeof magic, part->key, sizeof part->key) != 0) {
        return pf_fail(error, PF_ERR_MISMATCH,
                       "%s: holds finished work of another job (other settings, plant, model or "
                       "version); remove it to begin anew, or name another output",
                       part->path);
    }
    *found = whole;
    part->good = whole ? find_end(part, n) : 0;
    if (ftruncate(part->file, (off_t)part->good) != 0 ||
        lseek(part->file, 0, SEEK_END) != (off_t)part->good) {
        return pf_fail(error, PF_ERR_FILE, "%s: %s", part->path, strerror(errno));
    }
    return PF_OK;
}

static void set_key(pf_part *part, const void *key, size_t n_key)
{
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, PF_VERSION, sizeof PF_VERSION);
    pf__sha256_update(&sha, key, n_key);
    pf__sha256_final(&sha, part->key);
}

pf_status pf_part_open(pf_part **out, const char *path, const void *key, size_t n_key, bool *found,
                       pf_error *error)
{
    pf_part *part = calloc(1, sizeof *part);
    size_t n = strlen(path) + 1;
    *out = NULL;
    *found = false;
    if (!part || !(part->path = malloc(n))) {
        free(part);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    memcpy(part->path, path, n);
    part->file = -1;
    part->flushed = pf__seconds();
    set_key(part, key, n_key);
    pf_status status = PF_OK;
    if (open_file(part, false)) {
        status = take_over(part, found, error);
    } else if (errno == EWOULDBLOCK) {
        status =
            pf_fail(error, PF_ERR_FILE,
                    "%s: another run is at work on it; wait for it or name another output", path);
    } else if (errno != ENOENT) {
        status = pf__file_refuse(path, errno, error);
    }
    if (status != PF_OK) {
        pf_part_close(part, true);
        return status;
    }
    part->headed = part->good > 0;
    part->at = part->headed ? sizeof(head) : 0;
    *out = part;
    return PF_OK;
}

// Writes what is in the buffer. A file that cannot be written is given up and removed: the job goes
// on, and its result may need the room.
static void flush(pf_part *part)
{
    part->flushed = pf__seconds();
    part->broken =
        part->broken || part->buffer.failed || (part->file < 0 && !open_file(part, true));
    const char *data = part->buffer.data;
    for (size_t left = part->buffer.size; left > 0 && !part->broken;) {
        ssize_t put = write(part->file, data, left);
        part->broken = put < 0 && errno != EINTR;
        data += put > 0 ? put : 0;
        left -= put > 0 ? (size_t)put : 0;
    }
    if (part->broken && part->file >= 0) {
        unlink(part->path);
        close(part->file);
        part->file = -1;
    }
    pf__text_clear(&part->buffer);
}

void pf_part_close(pf_part *part, bool keep)
{
    if (!part) {
        return;
    }
    // what stops early is worth a file too
    if (keep && part->path && part->buffer.size > 0) {
        flush(part);
    }
    if (part->file >= 0 && part->path) {
        if (!keep) {
            unlink(part->path);
        }
        close(part->file);
    }
    pf__text_free(&part->buffer);
    free(part->image);
    free(part->path);
    free(part);
}

// --- stages

static bool fits(const record *r, const pf_slot *slots, int n)
{
    size_t all = 0;
    for (int i = 0; i < n; i++) {
        all += slots[i].size;
    }
    return all == r->size;
}

// The first, the middle and the last of what is kept are run again.
static size_t choose_again(size_t n, uint8_t *kept)
{
    size_t count = 0, seen = 0, again = 0;
    for (size_t i = 0; i < n; i++) {
        count += kept[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (kept[i]) {
            bool chosen = seen == 0 || seen == count / 2 || seen == count - 1;
            kept[i] = chosen ? 2 : 1;
            again += chosen;
            seen++;
        }
    }
    return count - again;
}

pf_status pf__part_stage(pf_part *part, size_t n, pf_slots_fn slots, void *self, uint8_t *kept,
                         size_t *n_kept, pf_error *error)
{
    part->stage++;
    part->stage_at = part->at;
    record r;
    uint8_t *data;
    pf_slot list[PF_SLOTS];
    for (; read_record(part, part->at, part->good, &r) && r.stage == part->stage;
         part->at += sizeof r + r.size) {
        if (r.item >= n || !fits(&r, list, slots(self, (size_t)r.item, list))) {
            return pf_fail(error, PF_ERR_MISMATCH, "%s: is not of this job; remove it", part->path);
        }
        kept[r.item] = 1;
    }
    *n_kept = choose_again(n, kept);
    // what is run again starts from what it would have found without a part
    for (size_t at = part->stage_at; (data = read_record(part, at, part->at, &r));
         at += sizeof r + r.size) {
        int n_slots = kept[r.item] == 1 ? slots(self, (size_t)r.item, list) : 0;
        for (int i = 0; i < n_slots; i++) {
            memcpy(list[i].data, data, list[i].size);
            data += list[i].size;
        }
    }
    return PF_OK;
}

static pf_status compare(const pf_part *part, size_t item, const pf_slot *slots, int n,
                         pf_error *error)
{
    record r;
    uint8_t *data;
    for (size_t at = part->stage_at; (data = read_record(part, at, part->at, &r));
         at += sizeof r + r.size) {
        for (int i = 0; i < n && r.item == item; i++) {
            bool first = slots[i].loose && slots[i].size > sizeof(double);
            if (memcmp(data, slots[i].data, first ? sizeof(double) : slots[i].size) != 0) {
                return pf_fail(error, PF_ERR_MISMATCH,
                               "%s: the plant does not do what it did when this was written; "
                               "remove it to begin anew",
                               part->path);
            }
            data += slots[i].size;
        }
    }
    return PF_OK;
}

pf_status pf__part_item(pf_part *part, size_t item, pf_slots_fn slots, void *self, uint8_t kept,
                        pf_error *error)
{
    pf_slot list[PF_SLOTS];
    int n = slots(self, item, list);
    if (kept) {
        return compare(part, item, list, n, error);
    }
    if (part->broken) {
        return PF_OK;
    }
    record r = {.stage = part->stage, .item = item};
    for (int i = 0; i < n; i++) {
        r.size += (uint32_t)list[i].size;
    }
    sum_record(part, &r, list, n, r.sum);
    if (!part->headed) {
        pf__text_add_n(&part->buffer, magic, sizeof magic);
        pf__text_add_n(&part->buffer, (const char *)part->key, sizeof part->key);
        part->headed = true;
    }
    pf__text_add_n(&part->buffer, (const char *)&r, sizeof r);
    for (int i = 0; i < n; i++) {
        pf__text_add_n(&part->buffer, list[i].data, list[i].size);
    }
    if (pf__seconds() - part->flushed > flush_s) {
        flush(part);
    }
    return PF_OK;
}
