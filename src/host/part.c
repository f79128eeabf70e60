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

// Reads what is there. Somebody else's file is refused, another job's is not used.
static pf_status read_file(pf_part *part, pf_part_found *found, pf_error *error)
{
    void *image = NULL;
    size_t n = 0;
    pf_status status = pf__file_read(part->path, (size_t)1 << 36, &image, &n, error);
    part->image = image;
    if (status != PF_OK) {
        return status;
    }
    if (memcmp(image, magic, n < sizeof magic ? n : sizeof magic) != 0) {
        return pf_fail(error, PF_ERR_FORMAT,
                       "%s: is there and holds no part of a job; remove it or name another output",
                       part->path);
    }
    bool whole = n >= sizeof(head);
    bool same = whole && memcmp(part->image + sizeof magic, part->key, sizeof part->key) == 0;
    part->good = same ? find_end(part, n) : 0;
    *found = same ? PF_PART_SAME : whole ? PF_PART_OTHER : PF_PART_NONE;
    return PF_OK;
}

// Opens the file for this run alone, behind what counts of it.
static bool open_file(pf_part *part)
{
    part->file = open(part->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    bool good = part->file >= 0 && flock(part->file, LOCK_EX | LOCK_NB) == 0 &&
                ftruncate(part->file, (off_t)part->good) == 0 &&
                lseek(part->file, 0, SEEK_END) == (off_t)part->good;
    if (!good && part->file >= 0) {
        int problem = errno;
        close(part->file);
        errno = problem;
        part->file = -1;
    }
    return good;
}

static void set_key(pf_part *part, const void *key, size_t n_key)
{
    pf_sha256 sha;
    pf__sha256_init(&sha);
    pf__sha256_update(&sha, PF_VERSION, sizeof PF_VERSION);
    pf__sha256_update(&sha, key, n_key);
    pf__sha256_final(&sha, part->key);
}

pf_status pf_part_open(pf_part **out, const char *path, const void *key, size_t n_key,
                       pf_part_found *found, pf_error *error)
{
    pf_part *part = calloc(1, sizeof *part);
    size_t n = strlen(path) + 1;
    *out = NULL;
    *found = PF_PART_NONE;
    if (!part || !(part->path = malloc(n))) {
        free(part);
        return pf_fail(error, PF_ERR_MEMORY, "out of memory");
    }
    memcpy(part->path, path, n);
    part->file = -1;
    part->flushed = pf__seconds();
    set_key(part, key, n_key);
    pf_status status = access(path, F_OK) == 0 ? read_file(part, found, error) : PF_OK;
    if (status == PF_OK && part->image && !open_file(part)) {
        status = errno == EWOULDBLOCK
                     ? pf_fail(error, PF_ERR_FILE,
                               "%s: another run is at work on it; wait for it or name another "
                               "output",
                               path)
                     : pf_fail(error, PF_ERR_FILE, "%s: %s", path, strerror(errno));
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

// Writes what is in the buffer. A file that cannot be written is given up: the job goes on.
static void flush(pf_part *part)
{
    part->flushed = pf__seconds();
    part->broken = part->broken || part->buffer.failed || (part->file < 0 && !open_file(part));
    const char *data = part->buffer.data;
    for (size_t left = part->buffer.size; left > 0 && !part->broken;) {
        ssize_t put = write(part->file, data, left);
        part->broken = put < 0 && errno != EINTR;
        data += put > 0 ? put : 0;
        left -= put > 0 ? (size_t)put : 0;
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

// Copies the numbers of a record into the slots of its item.
static bool fill_slots(const record *r, const uint8_t *data, const pf_slot *slots, int n)
{
    size_t all = 0;
    for (int i = 0; i < n; i++) {
        all += slots[i].size;
    }
    for (int i = 0; i < n && all == r->size; i++) {
        memcpy(slots[i].data, data, slots[i].size);
        data += slots[i].size;
    }
    return all == r->size;
}

// The first, the middle and the last of what is kept are run again.
static size_t choose_again(size_t n, uint8_t *kept)
{
    size_t first = n, last = 0, count = 0, again = 0;
    for (size_t i = 0; i < n; i++) {
        first = kept[i] && first == n ? i : first;
        last = kept[i] ? i : last;
        count += kept[i];
    }
    size_t middle = first + (last - first) / 2;
    for (size_t i = 0; i < n && count > 0; i++) {
        if (kept[i] && (i == first || i == middle || i == last)) {
            kept[i] = 2;
            again++;
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
    for (uint8_t *data;
         (data = read_record(part, part->at, part->good, &r)) && r.stage == part->stage;
         part->at += sizeof r + r.size) {
        pf_slot list[PF_SLOTS];
        int n_slots = r.item < n ? slots(self, (size_t)r.item, list) : 0;
        if (r.item >= n || !fill_slots(&r, data, list, n_slots)) {
            return pf_fail(error, PF_ERR_MISMATCH, "%s: is not of this job; remove it", part->path);
        }
        kept[r.item] = 1;
    }
    *n_kept = choose_again(n, kept);
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
