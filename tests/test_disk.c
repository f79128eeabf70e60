// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // flock, F_OK
#include "test.h"

#include "host/file.h"
#include "model/transitions.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// What others may have put where files are written: links, files of the same name, and what a
// killed process left.

static char folder[200];
static const char left_over[] = "preflight-0123456789abcdef.tmp";

static char *in(const char *name)
{
    static char path[8][300];
    static int next = 0;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static void put(const char *name, const char *text)
{
    int fd = open(in(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static bool has(const char *name, const char *text)
{
    char got[100] = "";
    int fd = open(in(name), O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, got, sizeof got - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return n >= 0 && strcmp(got, text) == 0;
}

static bool is_there(const char *name)
{
    struct stat info;
    return lstat(in(name), &info) == 0;
}

static int temporaries(void)
{
    DIR *list = opendir(folder);
    int n = 0;
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list)) {
        n += strstr(e->d_name, ".tmp") != NULL;
    }
    if (list) {
        closedir(list);
    }
    return list ? n : -1;
}

static bool write_it(const char *name, const char *text)
{
    pf_error error = {PF_OK, ""};
    bool good = pf__file_write(in(name), text, strlen(text), &error) == PF_OK;
    if (!good) {
        printf("    %s\n", error.text);
    }
    return good;
}

static void check_links(void)
{
    char name[60];
    PF_CASE("file: a link under the final name is replaced, what it points to stays");
    put("victim", "mine");
    CHECK(symlink("victim", in("out")) == 0);
    CHECK(write_it("out", "new") && has("out", "new") && has("victim", "mine"));
    CHECK(symlink("nowhere", in("dangling")) == 0);
    CHECK(write_it("dangling", "new") && has("dangling", "new") && !is_there("nowhere"));
    PF_CASE("file: nothing that can be foreseen is followed or written over");
    snprintf(name, sizeof name, "out.%ld.tmp", (long)getpid());
    CHECK(symlink("victim", in(name)) == 0);
    CHECK(write_it("out", "newer") && has("out", "newer") && has("victim", "mine"));
    CHECK(is_there(name) && unlink(in(name)) == 0);
    put(name, "theirs");
    CHECK(write_it("out", "newest") && has("out", "newest") && has(name, "theirs"));
    CHECK(unlink(in(name)) == 0 && temporaries() == 0);
}

static void check_left_over(void)
{
    static const char *const others[] = {
        "preflight-0123456789abcde.tmp", "preflight-0123456789abcdef0.tmp",
        "preflight-0123456789ABCDEF.tmp", "preflight-0123456789abcdef.tmp.kit",
        "my-preflight-0123456789abcdef.tmp"};
    PF_CASE("file: what a killed process left is removed by the next one in that folder");
    put(left_over, "half");
    CHECK(write_it("another", "new") && !is_there(left_over) && has("another", "new"));
    PF_CASE("file: what a process holds stays");
    put(left_over, "half");
    int held = open(in(left_over), O_RDONLY);
    CHECK(flock(held, LOCK_EX) == 0);
    CHECK(write_it("another", "newer") && has(left_over, "half"));
    close(held);
    CHECK(write_it("another", "newer") && !is_there(left_over));
    PF_CASE("file: other names, links, folders, pipes and files with two names stay");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        put(others[i], "theirs");
    }
    CHECK(write_it("another", "1"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        CHECK(has(others[i], "theirs") && unlink(in(others[i])) == 0);
    }
    CHECK(symlink("victim", in(left_over)) == 0);
    CHECK(write_it("another", "2") && is_there(left_over) && has("victim", "mine"));
    CHECK(unlink(in(left_over)) == 0 && link(in("victim"), in(left_over)) == 0);
    CHECK(write_it("another", "3") && is_there(left_over) && unlink(in(left_over)) == 0);
    CHECK(mkdir(in(left_over), 0777) == 0);
    CHECK(write_it("another", "4") && is_there(left_over) && rmdir(in(left_over)) == 0);
    CHECK(mkfifo(in(left_over), 0666) == 0);
    CHECK(write_it("another", "5") && is_there(left_over) && unlink(in(left_over)) == 0);
    PF_CASE("file: what belongs to another user stays");
    put(left_over, "theirs");
    if (chown(in(left_over), 12345, (gid_t)-1) != 0) {
        printf("    not root, so nothing can belong to another user here\n");
    } else {
        CHECK(write_it("another", "6") && is_there(left_over));
    }
    CHECK(unlink(in(left_over)) == 0);
}

// A process that is killed in the middle of the write, by a limit on the size of files.
static void check_kill(void)
{
    int code = 0;
    PF_CASE("file: killed in a write, the old file is whole and the next run clears up");
    CHECK(write_it("killed", "old"));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *large = calloc(1, 100000);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){5000, 5000});
        signal(SIGXFSZ, SIG_DFL);
        pf__file_write(in("killed"), large, 100000, NULL);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &code, 0) == child && WIFSIGNALED(code));
    CHECK(has("killed", "old") && temporaries() == 1);
    CHECK(write_it("killed", "new") && has("killed", "new") && temporaries() == 0);
}

static mode_t mode_of(const char *name)
{
    struct stat info;
    return stat(in(name), &info) == 0 ? info.st_mode & 07777 : 0;
}

static void check_modes(void)
{
    PF_CASE("file: its mode is what the umask leaves");
    mode_t before = umask(027);
    CHECK(write_it("mode", "1") && mode_of("mode") == 0640);
    umask(0);
    CHECK(write_it("mode", "2") && mode_of("mode") == 0666);
    umask(before);
    PF_CASE("file: a name of the longest length");
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    CHECK(write_it(name, "long") && has(name, "long"));
}

static void check_move(void)
{
    pf_error error = {PF_OK, ""};
    PF_CASE("file: a move replaces what is there and names what it cannot");
    CHECK(write_it("from", "1") && write_it("to", "2"));
    CHECK(pf__file_move(in("from"), in("to"), &error) == PF_OK && has("to", "1"));
    CHECK(!is_there("from"));
    CHECK(pf__file_move(in("from"), in("to"), &error) == PF_ERR_FILE && has("to", "1"));
    CHECK_CONTAINS(error.text, in("to"));
}

static void check_lock(void)
{
    PF_CASE("file: the lock of a training is no link");
    CHECK(symlink("nowhere", in("m.model.lock")) == 0);
    CHECK(!pf__train_busy(in("m.model")));
    CHECK(symlink("victim", in("v.model.lock")) == 0);
    int held = open(in("victim"), O_RDWR);
    CHECK(flock(held, LOCK_EX) == 0);
    CHECK(!pf__train_busy(in("v.model")) && !is_there("nowhere"));
    close(held);
}

void test_disk(void)
{
    snprintf(folder, sizeof folder, "%s/disk", pf_scratch_dir());
    if (!CHECK(mkdir(folder, 0777) == 0)) {
        return;
    }
    check_links();
    check_left_over();
    check_kill();
    check_modes();
    check_move();
    check_lock();
}
