// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "unpack.h"

#include "host/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

enum { ENTRIES_MOST = 100000, PATH_BYTES = 2048, BLOCK = 1 << 16 };

struct pf_fmu_zip {
    zip_t *archive;
    uint64_t most, taken; // bytes
};

static pf_status refuse(pf_error *error, const char *name, const char *what)
{
    char shown[80];
    return pf_fail(error, PF_ERR_FORMAT, "its archive %s: '%s'", what,
                   pf__text_shown(shown, sizeof shown, name, strlen(name)));
}

// --- what may be in it

// Why a name may not be unpacked; NULL: it may.
static const char *bad_name(const char *name)
{
    if (!name[0] || name[0] == '/' || strchr(name, '\\') || strlen(name) >= PATH_BYTES / 2) {
        return "has an absolute name, one with a backslash, or none or too long a one";
    }
    for (const char *part = name; part;) {
        const char *slash = strchr(part, '/');
        size_t n = slash ? (size_t)(slash - part) : strlen(part);
        bool last = !slash;
        if ((n == 0 && !last) || (n == 1 && part[0] == '.') ||
            (n == 2 && !strncmp(part, "..", 2))) {
            return "has a name that leads out of its folder";
        }
        part = slash ? slash + 1 : NULL;
    }
    return NULL;
}

static bool is_folder(const char *name)
{
    return name[0] && name[strlen(name) - 1] == '/';
}

static pf_status check_entry(pf_fmu_zip *z, zip_uint64_t i, uint64_t *declared, pf_error *error)
{
    zip_stat_t info;
    zip_uint8_t system = 0;
    zip_uint32_t attributes = 0;
    if (zip_stat_index(z->archive, i, 0, &info) != 0 || !(info.valid & ZIP_STAT_NAME) ||
        !(info.valid & ZIP_STAT_SIZE)) {
        return pf_fail(error, PF_ERR_FORMAT, "its archive has an entry without a name or a size");
    }
    const char *why = bad_name(info.name);
    if (why) {
        return refuse(error, info.name, why);
    }
    bool unix_made =
        zip_file_get_external_attributes(z->archive, i, 0, &system, &attributes) == 0 &&
        system == ZIP_OPSYS_UNIX;
    mode_t type = unix_made ? (mode_t)(attributes >> 16) & S_IFMT : 0;
    if (type != 0 && type != S_IFREG && type != S_IFDIR) {
        return refuse(error, info.name, "has a link or a special file");
    }
    *declared = info.size > z->most || *declared + info.size > z->most ? z->most + 1
                                                                       : *declared + info.size;
    return PF_OK;
}

static pf_status too_large(const pf_fmu_zip *z, pf_error *error)
{
    return pf_fail(error, PF_ERR_FORMAT, "its archive would unpack to more than %z MiB",
                   (size_t)(z->most >> 20));
}

static pf_status check_entries(pf_fmu_zip *z, pf_error *error)
{
    zip_int64_t n = zip_get_num_entries(z->archive, 0);
    uint64_t declared = 0;
    if (n > ENTRIES_MOST) {
        return pf_fail(error, PF_ERR_FORMAT, "its archive has more than %d entries", ENTRIES_MOST);
    }
    pf_status status = PF_OK;
    for (zip_int64_t i = 0; i < n && status == PF_OK; i++) {
        status = check_entry(z, (zip_uint64_t)i, &declared, error);
        if (status == PF_OK && declared > z->most) {
            status = too_large(z, error);
        }
    }
    return status;
}

pf_status pf__fmu_zip_open(pf_fmu_zip **zip, const void *data, size_t size, uint64_t most,
                           pf_error *error)
{
    zip_error_t why;
    *zip = calloc(1, sizeof **zip);
    if (!*zip) {
        return pf_fail(error, PF_ERR_MEMORY, "out of memory for the archive");
    }
    (*zip)->most = most;
    zip_error_init(&why);
    zip_source_t *source = zip_source_buffer_create(data, size, 0, &why);
    (*zip)->archive =
        source ? zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &why) : NULL;
    pf_status status = PF_OK;
    if (!(*zip)->archive) {
        status =
            pf_fail(error, PF_ERR_FORMAT, "it is no zip archive: %s", zip_error_strerror(&why));
        zip_source_free(source);
    }
    zip_error_fini(&why);
    status = status == PF_OK ? check_entries(*zip, error) : status;
    if (status != PF_OK) {
        pf__fmu_zip_close(*zip);
        *zip = NULL;
    }
    return status;
}

void pf__fmu_zip_close(pf_fmu_zip *zip)
{
    if (zip && zip->archive) {
        zip_discard(zip->archive);
    }
    free(zip);
}

bool pf__fmu_zip_has(pf_fmu_zip *zip, const char *name)
{
    return zip_name_locate(zip->archive, name, 0) >= 0;
}

void pf__fmu_zip_platforms(pf_fmu_zip *zip, char *out, size_t size)
{
    static const char head[] = "binaries/";
    pf_text list = {0};
    zip_int64_t n = zip_get_num_entries(zip->archive, 0);
    pf__text_add(&list, "");
    for (zip_int64_t i = 0; i < n; i++) {
        const char *name = zip_get_name(zip->archive, (zip_uint64_t)i, 0);
        const char *platform =
            name && !strncmp(name, head, sizeof head - 1) ? name + sizeof head - 1 : "";
        size_t length = strcspn(platform, "/");
        char word[32];
        if (length == 0 || length + 1 > sizeof word || !platform[length] ||
            pf__text_steers(platform, length) > 0) {
            continue;
        }
        snprintf(word, sizeof word, "%.*s", (int)length, platform);
        const char *there = list.data ? strstr(list.data, word) : NULL;
        // a name may begin another one
        while (there && ((there > list.data && there[-1] != ' ') ||
                         (there[length] != ',' && there[length] != '\0'))) {
            there = strstr(there + 1, word);
        }
        if (!there) {
            pf__text_addf(&list, "%s%s", list.size ? ", " : "", word);
        }
    }
    snprintf(out, size, "%s", list.data ? list.data : "");
    pf__text_free(&list);
}

// --- what comes out of it

// Called with the bytes of an entry as they come. False: it failed.
typedef bool sink(void *self, const char *bytes, size_t n);

static pf_status read_entry(pf_fmu_zip *z, zip_uint64_t index, const char *name, sink *to,
                            void *self, pf_error *error)
{
    char block[BLOCK];
    zip_file_t *file = zip_fopen_index(z->archive, index, 0);
    if (!file) {
        char what[160];
        snprintf(what, sizeof what, "has an entry that cannot be read (%s)",
                 zip_strerror(z->archive));
        return refuse(error, name, what);
    }
    pf_status status = PF_OK;
    zip_int64_t got = 0;
    while (status == PF_OK && (got = zip_fread(file, block, sizeof block)) > 0) {
        // what an entry says of its size is not what comes out of it
        z->taken += (uint64_t)got;
        if (z->taken > z->most) {
            status = too_large(z, error);
        } else if (!to(self, block, (size_t)got)) {
            status =
                pf_fail(error, PF_ERR_FILE, "its archive cannot be unpacked: %s", strerror(errno));
        }
    }
    if (got < 0) {
        status = refuse(error, name, "has a damaged entry");
    }
    return zip_fclose(file) != 0 && status == PF_OK ? refuse(error, name, "has a damaged entry")
                                                    : status;
}

static bool into_text(void *self, const char *bytes, size_t n)
{
    pf_text *text = self;
    pf__text_add_n(text, bytes, n);
    errno = text->failed ? ENOMEM : 0;
    return !text->failed;
}

pf_status pf__fmu_zip_read(pf_fmu_zip *zip, const char *name, void **data, size_t *size,
                           pf_error *error)
{
    zip_int64_t index = zip_name_locate(zip->archive, name, 0);
    pf_text text = {0};
    *data = NULL;
    *size = 0;
    if (index < 0) {
        return pf_fail(error, PF_ERR_FORMAT, "it has no %s, so it is no FMU", name);
    }
    pf__text_add(&text, "");
    pf_status status = read_entry(zip, (zip_uint64_t)index, name, into_text, &text, error);
    if (status != PF_OK || !text.data) {
        pf__text_free(&text);
        return status != PF_OK ? status : pf_fail(error, PF_ERR_FORMAT, "its %s is empty", name);
    }
    *data = text.data;
    *size = text.size;
    return PF_OK;
}

static bool into_file(void *self, const char *bytes, size_t n)
{
    int fd = *(int *)self;
    while (fd >= 0 && n > 0) {
        ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        bytes += put;
        n -= (size_t)put;
    }
    return true;
}

// Makes the folders of a path below `folder` that are not there yet.
static bool make_folders(char *path, size_t from)
{
    for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) {
            return false;
        }
    }
    return true;
}

static pf_status unpack_entry(pf_fmu_zip *z, zip_uint64_t index, const char *name,
                              const char *folder, pf_error *error)
{
    char path[PATH_BYTES];
    int fd = -1;
    if (folder) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (n >= (int)sizeof path || !make_folders(path, strlen(folder) + 1)) {
            return refuse(error, name, "has a name that no folder can be made for");
        }
        if (is_folder(name)) {
            return PF_OK;
        }
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
        if (fd < 0) {
            return errno == EEXIST ? refuse(error, name, "has the same name twice")
                                   : pf_fail(error, PF_ERR_FILE,
                                             "its archive cannot be unpacked: %s", strerror(errno));
        }
    } else if (is_folder(name)) {
        return PF_OK;
    }
    pf_status status = read_entry(z, index, name, into_file, &fd, error);
    if (fd >= 0 && close(fd) != 0 && status == PF_OK) {
        status = pf_fail(error, PF_ERR_FILE, "its archive cannot be unpacked: %s", strerror(errno));
    }
    return status;
}

static bool begins(const char *name, const char *head)
{
    return strncmp(name, head, strlen(head)) == 0;
}

static bool is_needed(const char *name, const char *platform)
{
    char own[64];
    snprintf(own, sizeof own, "binaries/%s/", platform);
    return begins(name, own) || (!begins(name, "binaries/") && !begins(name, "sources/") &&
                                 !begins(name, "documentation/"));
}

pf_status pf__fmu_zip_unpack(pf_fmu_zip *zip, const char *platform, const char *folder,
                             pf_error *error)
{
    zip_int64_t n = zip_get_num_entries(zip->archive, 0);
    pf_status status = PF_OK;
    for (zip_int64_t i = 0; i < n && status == PF_OK; i++) {
        const char *name = zip_get_name(zip->archive, (zip_uint64_t)i, 0);
        if (name && is_needed(name, platform)) {
            status = unpack_entry(zip, (zip_uint64_t)i, name, folder, error);
        }
    }
    return status;
}
