// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // symlink
#include "plant/plant_impl.h"
#include "program.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PF_HAVE_FMU

#include "fmu/description.h"
#include "fmu/library.h"
#include "fmu/unpack.h"
#include "host/file.h"
#include "host/scratch.h"
#include "host/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

// FMUs: what is read of their description, what is unpacked of their archive, and what a machine
// costs that crashes, hangs, prints or lies. Machines of others: scripts/check_fmu.sh.

static char folder[200];

// --- archives

typedef struct entry {
    const char *name, *text; // text NULL: a folder
    unsigned mode;           // 0: not said
} entry;

static void add(zip_t *zip, const entry *e)
{
    zip_int64_t index;
    if (!e->text) {
        index = zip_dir_add(zip, e->name, 0);
    } else {
        zip_source_t *source = zip_source_buffer(zip, e->text, strlen(e->text), 0);
        index = zip_file_add(zip, e->name, source, 0);
    }
    CHECK(index >= 0);
    if (e->mode) {
        zip_file_set_external_attributes(zip, (zip_uint64_t)index, 0, ZIP_OPSYS_UNIX,
                                         (zip_uint32_t)e->mode << 16);
    }
}

static const char *path_of(const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static zip_t *begin_zip(const char *name)
{
    int problem;
    zip_t *zip = zip_open(path_of(name), ZIP_CREATE | ZIP_TRUNCATE, &problem);
    CHECK(zip != NULL);
    return zip;
}

// Whether an archive of these entries is opened and read whole; else why not.
static bool accepts(const entry *entries, int n, uint64_t most, const char *reason)
{
    zip_t *zip = begin_zip("some.zip");
    for (int i = 0; i < n; i++) {
        add(zip, &entries[i]);
    }
    CHECK(zip_close(zip) == 0);
    void *data;
    size_t size;
    pf_error error = {PF_OK, ""};
    pf_fmu_zip *opened = NULL;
    CHECK(pf__file_read(path_of("some.zip"), 1 << 20, &data, &size, &error) == PF_OK);
    pf_status status = pf__fmu_zip_open(&opened, data, size, most, &error);
    status = status == PF_OK ? pf__fmu_zip_unpack(opened, "linux64", NULL, &error) : status;
    pf__fmu_zip_close(opened);
    free(data);
    if (reason) {
        CHECK(status == PF_ERR_FORMAT);
        CHECK_CONTAINS(error.text, reason);
    }
    return status == PF_OK;
}

static void test_archives(void)
{
    PF_CASE("an archive in order");
    const entry good[] = {{"a/", NULL, 0}, {"a/b.txt", "text", 0100644}, {"c", "", 0}};
    CHECK(accepts(good, 3, 100, NULL));
    PF_CASE("names that lead out of the folder");
    static const char *const names[] = {"../x", "a/../../x", "/x",      "a//x",
                                        "./x",  "a/..",      "a\\..\\x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK(!accepts(&(entry){names[i], "x", 0}, 1, 100, names[i]));
    }
    PF_CASE("links and special files");
    CHECK(!accepts(&(entry){"link", "/etc/passwd", S_IFLNK | 0777}, 1, 100, "a link"));
    CHECK(!accepts(&(entry){"pipe", "", S_IFIFO | 0600}, 1, 100, "special"));
    PF_CASE("more than it may hold");
    char large[2001];
    memset(large, 'a', 2000);
    large[2000] = 0;
    const entry bomb[] = {{"small", "x", 0}, {"large", large, 0}};
    CHECK(!accepts(bomb, 2, 2000, "would unpack to more than"));
    CHECK(accepts(bomb, 2, 2001, NULL));
    PF_CASE("no archive");
    pf_fmu_zip *opened = NULL;
    pf_error error = {PF_OK, ""};
    CHECK(pf__fmu_zip_open(&opened, "no zip", 6, 100, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "no zip archive");
}

// An entry that says that it is small: what comes out of it counts.
static void test_lie(void)
{
    PF_CASE("an entry that lies about its size");
    static char large[5001];
    memset(large, 'a', 5000);
    zip_t *zip = begin_zip("lie.zip");
    add(zip, &(entry){"large", large, 0});
    CHECK(zip_close(zip) == 0);
    void *data;
    size_t size, edited = 0;
    pf_error error = {PF_OK, ""};
    CHECK(pf__file_read(path_of("lie.zip"), 1 << 20, &data, &size, &error) == PF_OK);
    uint8_t *bytes = data;
    for (size_t i = 0; i + 4 <= size; i++) { // 5000, little endian, in both of its headers
        if (bytes[i] == 0x88 && bytes[i + 1] == 0x13 && bytes[i + 2] == 0 && bytes[i + 3] == 0) {
            bytes[i] = 0x10;
            bytes[i + 1] = 0;
            edited++;
        }
    }
    CHECK(edited == 2);
    pf_fmu_zip *opened = NULL;
    pf_status status = pf__fmu_zip_open(&opened, data, size, 1000, &error);
    CHECK(status == PF_OK);
    CHECK(status == PF_OK && pf__fmu_zip_unpack(opened, "linux64", NULL, &error) == PF_ERR_FORMAT);
    pf__fmu_zip_close(opened);
    free(data);
}

// --- descriptions

#define HEAD_2 "<fmiModelDescription fmiVersion='2.0' modelName='m' guid='g'>"
#define HEAD_3 "<fmiModelDescription fmiVersion='3.0' modelName='m' instantiationToken='g'>"
#define BOTH "<CoSimulation modelIdentifier='m'/>"
#define TAIL "</fmiModelDescription>"

static bool describes(pf_fmu_model *model, const char *xml, const char *reason)
{
    pf_error error = {PF_OK, ""};
    pf_status status = pf__fmu_describe(model, xml, strlen(xml), &error);
    if (reason) {
        CHECK(status != PF_OK);
        CHECK_CONTAINS(error.text, reason);
        pf__fmu_model_free(model);
    } else {
        CHECK_STR(error.text, "");
    }
    return status == PF_OK;
}

static void test_description_2(void)
{
    pf_fmu_model m;
    PF_CASE("what FMI 2.0 says");
    CHECK(describes(
        &m,
        HEAD_2
        "<CoSimulation modelIdentifier='m' canGetAndSetFMUstate='true'/>"
        "<TypeDefinitions><SimpleType name='T'><Real min='-2' max='3'/></SimpleType>"
        "</TypeDefinitions><DefaultExperiment startTime='1' stopTime='5' stepSize='.1'/>"
        "<ModelVariables>"
        "<ScalarVariable name='a' valueReference='7' causality='input'>"
        "<Real declaredType='T' max='1' start='.5'/></ScalarVariable>"
        "<ScalarVariable name='b' valueReference='8' causality='input'><Integer/></ScalarVariable>"
        "<ScalarVariable name='p' valueReference='8' causality='parameter'><Real/></ScalarVariable>"
        "<ScalarVariable name='y' valueReference='9' causality='output'><Real "
        "min='-INF'/></ScalarVariable>"
        "</ModelVariables>" TAIL,
        NULL));
    CHECK(m.major == 2 && m.has_state && m.start_s == 1 && m.stop_s == 5 && m.step_s == .1);
    CHECK(m.inputs.n == 1 && m.inputs.others == 1 && m.outputs.n == 1);
    CHECK_STR(m.inputs.list[0].name, "a");
    CHECK(m.inputs.list[0].lo == -2 && m.inputs.list[0].hi == 1 && m.inputs.list[0].start[0] == .5);
    CHECK(m.inputs.list[0].reference == 7 && isinf(m.outputs.list[0].lo));
    pf__fmu_model_free(&m);
}

static void test_description_3(void)
{
    pf_fmu_model m;
    PF_CASE("what FMI 3.0 says");
    CHECK(
        describes(&m,
                  HEAD_3 BOTH
                  "<ModelVariables>"
                  "<UInt64 name='n' valueReference='1' causality='structuralParameter' start='3'/>"
                  "<Float64 name='u' valueReference='2' causality='input' start='1 2 3'>"
                  "<Dimension valueReference='1'/></Float64>"
                  "<Float32 name='w' valueReference='3' causality='input' start='4'>"
                  "<Dimension start='2'/><Dimension start='2'/></Float32>"
                  "<Float64 name='y' valueReference='4' causality='output'/>"
                  "<Clock name='c' valueReference='5' causality='input'/>"
                  "</ModelVariables>" TAIL,
                  NULL));
    CHECK(m.major == 3 && m.inputs.n == 2 && m.inputs.numbers == 7 && m.inputs.others == 1);
    CHECK(m.inputs.list[0].start[2] == 3 && m.inputs.list[1].n == 4 && m.inputs.list[1].single);
    CHECK(m.inputs.list[1].start[3] == 4 && m.outputs.list[0].n == 1 && !m.outputs.list[0].array);
    pf__fmu_model_free(&m);
}

static void test_bad_descriptions(void)
{
    static const struct {
        const char *xml, *reason;
    } bad[] = {
        {"", "line"},
        {"<a/>", "fmiModelDescription"},
        {HEAD_2 "<ModelExchange modelIdentifier='m'/>" TAIL, "for model exchange only"},
        {HEAD_2 TAIL, "no CoSimulation"},
        {"<fmiModelDescription fmiVersion='1.0' modelName='m' guid='g'>" BOTH TAIL, "FMI 1.0"},
        {"<fmiModelDescription fmiVersion='2.0'>" TAIL, "is missing"},
        {HEAD_2 "<CoSimulation modelIdentifier='../m'/>" TAIL, "modelIdentifier"},
        {HEAD_2 BOTH "<DefaultExperiment stepSize='0'/>" TAIL, "stepSize"},
        {HEAD_2 BOTH "<DefaultExperiment stepSize='1x'/>" TAIL, "stepSize"},
        {"<!DOCTYPE a [<!ENTITY b 'c'>]>" HEAD_2 BOTH TAIL, "document type"},
        {HEAD_3 BOTH "<ModelVariables><Float64 name='u' valueReference='-1' causality='input'/>"
                     "</ModelVariables>" TAIL,
         "valueReference"},
        {HEAD_3 BOTH "<ModelVariables><Float64 name='u' valueReference='1' causality='input'>"
                     "<Dimension start='100000'/></Float64></ModelVariables>" TAIL,
         "dimensions of u"},
        {HEAD_3 BOTH "<ModelVariables><Float64 name='u' valueReference='1' causality='input'>"
                     "<Dimension valueReference='9'/></Float64></ModelVariables>" TAIL,
         "dimensions of u"},
        {HEAD_3 BOTH "<ModelVariables><Float64 name='u' valueReference='1' causality='input' "
                     "start='1 2'/></ModelVariables>" TAIL,
         "start of u"},
        {HEAD_3 BOTH "<ModelVariables><Float64 name='u' valueReference='1' causality='input' "
                     "min='2' max='1'/></ModelVariables>" TAIL,
         "min > max"},
    };
    pf_fmu_model m;
    PF_CASE("descriptions that are refused");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!describes(&m, bad[i].xml, bad[i].reason));
    }
}

// --- machines

// An FMU of ours with this token, of FMI 2 or 3, around a library.
static void make_fmu(const char *name, int major, const char *token, const char *library)
{
    char where[200];
    pf_text xml = {0};
    pf__text_addf(&xml,
                  "<fmiModelDescription fmiVersion='%d.0' modelName='m' %s='%s'>"
                  "<CoSimulation modelIdentifier='m' %s='true'/>"
                  "<DefaultExperiment stepSize='.1'/><ModelVariables>",
                  major, major == 2 ? "guid" : "instantiationToken", token,
                  major == 2 ? "canGetAndSetFMUstate" : "canGetAndSetFMUState");
    static const char two[] =
        "<ScalarVariable name='left' valueReference='0' causality='input'>"
        "<Real min='-2' max='2' start='0'/></ScalarVariable>"
        "<ScalarVariable name='right' valueReference='1' causality='input'>"
        "<Real min='-1' max='2' start='.5'/></ScalarVariable>"
        "<ScalarVariable name='x' valueReference='2' causality='output'><Real/></ScalarVariable>"
        "<ScalarVariable name='z' valueReference='3' causality='output'><Real/></ScalarVariable>";
    static const char three[] =
        "<Float64 name='push' valueReference='0' causality='input' min='-2' max='2' start='0 0.5'>"
        "<Dimension start='2'/></Float64>"
        "<Float64 name='x' valueReference='2' causality='output'/>"
        "<Float32 name='z' valueReference='3' causality='output'/>";
    pf__text_addf(&xml, "%s</ModelVariables></fmiModelDescription>", major == 2 ? two : three);
    zip_t *zip = begin_zip(name);
    add(zip, &(entry){"modelDescription.xml", xml.data, 0});
    snprintf(where, sizeof where, "binaries/%s/m.so", pf__fmu_platform(major));
    CHECK(zip_file_add(zip, where, zip_source_file(zip, library, 0, 0), 0) >= 0);
    CHECK(zip_close(zip) == 0);
    pf__text_free(&xml);
}

// The plant of such an FMU; NULL: it was refused, with this reason.
static pf_plant *open_fmu(int major, const char *token, const char *reason)
{
    char name[400];
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    make_fmu("m.fmu", major, token, PF_FMU_MACHINE);
    snprintf(name, sizeof name, "fmu:%s/m.fmu", folder);
    pf_status status = pf_plant_create(&plant, name, &error);
    CHECK_STR(error.text, reason ? error.text : "");
    if (reason) {
        CHECK(status != PF_OK);
        CHECK_CONTAINS(error.text, reason);
    }
    return plant;
}

enum { ROWS = 6 };

// A push of the first input: the reason why it fails, or NULL, and the outputs.
static bool push(pf_plant *plant, double amount, double *output, const char *reason)
{
    double command[ROWS * 3] = {0};
    pf_error error = {PF_OK, ""};
    for (int r = 0; r < ROWS; r++) {
        command[3 * r + 1] = amount;
    }
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = ROWS;
    pf_status status = pf_plant_roll(plant, &roll, &(pf_trace){.output = output}, &error);
    if (reason) {
        CHECK(status == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, reason);
    } else {
        CHECK_STR(error.text, "");
    }
    return status == PF_OK;
}

// What the machine should do, in the same order of operations.
static void expect(int major, double amount, double *output)
{
    double x[2] = {0, 0}, v[2] = {0, 0}, u[2] = {amount, .5};
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < 2; i++) {
            v[i] += .1 * ((i + 1) * u[i] - .5 * v[i]);
            x[i] += .1 * v[i];
        }
        output[2 * r] = x[0];
        output[2 * r + 1] = major == 2 ? x[1] : (double)(float)x[1];
    }
}

static void test_good(int major)
{
    double output[2 * ROWS], expected[2 * ROWS];
    PF_CASE(major == 2 ? "a machine of FMI 2.0" : "a machine of FMI 3.0");
    pf_plant *plant = open_fmu(major, "good", NULL), *copy = NULL;
    if (!plant) {
        return;
    }
    const pf_plant_info *info = pf_plant_get_info(plant);
    CHECK(info->n_mech == 3 && info->n_chan == 2 && info->n_state == 1 && info->dt_s == .1);
    CHECK_STR(info->mechanisms[0].name, "none");
    CHECK_STR(info->mechanisms[2].name, major == 2 ? "right" : "push[2]");
    CHECK(info->mechanisms[2].lo == (major == 2 ? -1.5 : -2.5) && info->mechanisms[2].hi == 1.5);
    CHECK_CONTAINS(pf__plant_about(plant, -1), "its saved state");
    CHECK_CONTAINS(pf__plant_about(plant, 2), "rests at 0.5");
    CHECK(pf_plant_clone(plant, &copy, NULL) == PF_OK);
    for (int i = 0; i < 6; i++) {
        double amount = .3 * i - .7;
        expect(major, amount, expected);
        CHECK(push(i % 2 ? plant : copy, amount, output, NULL));
        CHECK(memcmp(output, expected, sizeof output) == 0);
    }
    expect(major, 2, expected); // the limit
    CHECK(push(plant, 5, output, NULL) && memcmp(output, expected, sizeof output) == 0);
    pf_plant_destroy(copy);
    pf_plant_destroy(plant);
}

// One trajectory is lost, the next one is right.
static void test_lost(const char *token, const char *reason, bool waits)
{
    double output[2 * ROWS], expected[2 * ROWS];
    char name[80];
    snprintf(name, sizeof name, "a machine that %s", token);
    PF_CASE(name);
    for (int major = strcmp(token, "asks to end") == 0 ? 3 : 2; major <= 3; major++) {
        pf_plant *plant = open_fmu(major, token, NULL);
        if (!plant) {
            return;
        }
        if (waits) {
            pf_plant_set_timeouts(plant, -1, .5);
        }
        push(plant, 2, output, reason);
        pf_plant_set_timeouts(plant, -1, 60);
        expect(major, .4, expected);
        CHECK(push(plant, .4, output, NULL) && memcmp(output, expected, sizeof output) == 0);
        pf_plant_destroy(plant);
    }
}

// A trajectory with more numbers than the process takes is refused in words, the next one is right.
static void test_large(void)
{
    enum { LARGE = (1 << 22) / 5 + 1 };
    double output[2 * ROWS], expected[2 * ROWS];
    double *command = calloc(LARGE * 3, sizeof *command);
    PF_CASE("a trajectory that is too large");
    pf_plant *plant = open_fmu(2, "good", NULL);
    pf_error error = {PF_OK, ""};
    pf_roll roll = pf_roll_default();
    roll.command = command;
    roll.rows = LARGE;
    if (plant && command) {
        CHECK(pf_plant_roll(plant, &roll, &(pf_trace){0}, &error) == PF_ERR_PLANT);
        CHECK_CONTAINS(error.text, "838861 rows of 3 mechanisms and 2 channels are too many");
        expect(2, .4, expected);
        CHECK(push(plant, .4, output, NULL) && memcmp(output, expected, sizeof output) == 0);
    }
    pf_plant_destroy(plant);
    free(command);
}

// What it says of its states and of a reset is not believed.
static void test_renewal(const char *token, const char *words)
{
    double output[2 * ROWS], expected[2 * ROWS];
    char name[80];
    snprintf(name, sizeof name, "renewal of a machine that %s", token);
    PF_CASE(name);
    pf_plant *plant = open_fmu(2, token, NULL);
    if (!plant) {
        return;
    }
    CHECK_CONTAINS(pf__plant_about(plant, -1), words);
    expect(2, .4, expected);
    for (int i = 0; i < 3; i++) {
        CHECK(push(plant, 1, output, NULL));
        CHECK(push(plant, .4, output, NULL));
        CHECK(fabs(output[0] - expected[0]) < 1e-7 && output[1] == expected[1]);
        double first = output[2 * ROWS - 2];
        CHECK(push(plant, 0, output, NULL) && push(plant, .4, output, NULL));
        CHECK(output[2 * ROWS - 2] == first);
    }
    pf_plant_destroy(plant);
}

// --- refusals

static void refuses_library(const char *library, const char *reason)
{
    char name[400];
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    make_fmu("bad.fmu", 2, "good", library);
    snprintf(name, sizeof name, "fmu:%s/bad.fmu", folder);
    CHECK(pf_plant_create(&plant, name, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, reason);
}

static void test_refused(void)
{
    char name[400];
    pf_plant *plant = NULL;
    pf_error error = {PF_OK, ""};
    PF_CASE("libraries that cannot be loaded");
    refuses_library(PF_FMU_NO_STEP, "no function fmi2DoStep");
    refuses_library(PF_FMU_NEEDS, "libfmu_gone.so");
    refuses_library(PF_FMU_NEEDS, "install the library that is missing");
    refuses_library(PF_SOURCE "/Makefile", "cannot be loaded: binaries/");
    PF_CASE("a machine that cannot be instantiated");
    open_fmu(2, "refuses", "cannot be instantiated: the license of m has ended");
    open_fmu(3, "refuses", "cannot be instantiated: m");
    open_fmu(2, "ends at birth", "it ended the process with status 9");
    PF_CASE("another platform's binary");
    zip_t *zip = begin_zip("win.fmu");
    add(zip,
        &(entry){"modelDescription.xml",
                 HEAD_2 BOTH "<DefaultExperiment stepSize='1'/><ModelVariables>"
                             "<ScalarVariable name='u' valueReference='1' causality='input'><Real/>"
                             "</ScalarVariable><ScalarVariable name='y' valueReference='2' "
                             "causality='output'><Real/></ScalarVariable></ModelVariables>" TAIL,
                 0});
    add(zip, &(entry){"binaries/win64/m.dll", "x", 0});
    add(zip, &(entry){"binaries/win32/m.dll", "x", 0});
    CHECK(zip_close(zip) == 0);
    snprintf(name, sizeof name, "fmu:%s/win.fmu", folder);
    CHECK(pf_plant_create(&plant, name, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "it has binaries for win64, win32; export it");
    PF_CASE("no such file, no such step");
    CHECK(pf_plant_create(&plant, "fmu:/nowhere.fmu", &error) == PF_ERR_FILE);
    make_fmu("m.fmu", 2, "good", PF_FMU_MACHINE);
    snprintf(name, sizeof name, "fmu:%s/m.fmu#fast", folder);
    CHECK(pf_plant_create(&plant, name, &error) == PF_ERR_PLANT);
    CHECK_CONTAINS(error.text, "#fast is no control step");
    snprintf(name, sizeof name, "fmu:%s/m.fmu#.25", folder);
    CHECK(pf_plant_create(&plant, name, &error) == PF_OK && pf_plant_get_info(plant)->dt_s == .25);
    pf_plant_destroy(plant);
}

// --- what is left behind

static int count_left(void)
{
    int n = 0;
    DIR *list = opendir(folder);
    for (struct dirent *e = list ? readdir(list) : NULL; e; e = readdir(list)) {
        n += strncmp(e->d_name, "preflight-fmu-", 14) == 0;
    }
    if (list) {
        closedir(list);
    }
    return n;
}

static void test_left(void)
{
    PF_CASE("nothing is left, and what others left is removed");
    CHECK(count_left() == 0);
    pf_scratch gone, held;
    char deep[PF_SCRATCH_BYTES + 16];
    CHECK(pf__scratch_create(&held, NULL) == PF_OK && pf__scratch_create(&gone, NULL) == PF_OK);
    snprintf(deep, sizeof deep, "%s/deep", gone.path);
    CHECK(mkdir(deep, 0700) == 0);
    snprintf(deep, sizeof deep, "%s/deep/root", gone.path);
    CHECK(symlink("/", deep) == 0);
    close(gone.lock); // as if its process had been killed
    pf_plant *plant = open_fmu(2, "good", NULL);
    CHECK(count_left() == 2); // its own and the one that is held
    pf_plant_destroy(plant);
    CHECK(count_left() == 1 && access(held.path, F_OK) == 0);
    pf__scratch_remove(&held);
    CHECK(count_left() == 0);
}

// Folders that are only named like ours: one is empty, one has a file of the mark's name.
static void test_not_ours(void)
{
    PF_CASE("folders that are only named like ours stay");
    CHECK(mkdir(path_of("preflight-fmu-master"), 0700) == 0);
    CHECK(mkdir(path_of("preflight-fmu-branch"), 0700) == 0);
    int file = open(path_of("preflight-fmu-branch/.preflight-fmu"), O_WRONLY | O_CREAT, 0600);
    CHECK(file >= 0 && write(file, "mine\n", 5) == 5 && close(file) == 0);
    pf_scratch scratch;
    CHECK(pf__scratch_create(&scratch, NULL) == PF_OK);
    CHECK(access(path_of("preflight-fmu-master"), F_OK) == 0);
    CHECK(access(path_of("preflight-fmu-branch/.preflight-fmu"), F_OK) == 0);
    pf__scratch_remove(&scratch);
    CHECK(count_left() == 2);
    remove(path_of("preflight-fmu-branch/.preflight-fmu"));
    rmdir(path_of("preflight-fmu-branch"));
    rmdir(path_of("preflight-fmu-master"));
}

// --- from end to end

static void test_checks(void)
{
    PF_CASE("a kit names the weak input");
    make_fmu("m.fmu", 2, "good", PF_FMU_MACHINE);
    CHECK(program_in(folder, "list fmu:@/m.fmu", 0, "rests at 0.5"));
    CHECK(program_in(folder, "doctor fmu:@/m.fmu", 0, "left"));
    CHECK(program_in(folder, "demo fmu:@/m.fmu", 0, "GO"));
    CHECK(program_in(folder,
                     "calibrate fmu:@/m.fmu -o @/m.kit --set episodes=30 --set alarm_trials=100", 0,
                     ""));
    CHECK(program_in(folder, "check @/m.kit --seed 1", 3, "not run"));
    CHECK(program_in(folder, "check @/m.kit --allow-exec --seed 1", 0, "GO"));
    CHECK(program_in(folder, "check @/m.kit --plant fmu:@/m.fmu --seed 1 --fault right:0.35", 0,
                     "right"));
    PF_CASE("another FMU of that name is another machine");
    make_fmu("m.fmu", 2, "statics", PF_FMU_MACHINE);
    CHECK(
        program_in(folder, "check @/m.kit --allow-exec --seed 1", 3, "the simulator has changed"));
}

void test_fmu(void)
{
    if (!program_folder(folder, sizeof folder, "fmu")) {
        return;
    }
    setenv("TMPDIR", folder, 1);
    test_archives();
    test_lie();
    test_description_2();
    test_description_3();
    test_bad_descriptions();
    test_good(2);
    test_good(3);
    test_lost("crashes", "ended", false);
    test_lost("exits", "with status 7", false);
    test_lost("hangs", "no answer within 0.5 s", true);
    test_lost("is fatal", "'fatal'", false);
    test_lost("answers with an error", "'error'", false);
    test_lost("grumbles", "'error': zu hei?, ??", false);
    test_large();
    test_lost("discards", "'discard'", false);
    test_lost("is not a number", "x is not finite", false);
    test_lost("asks to end", "it asks to end", false);
    test_renewal("prints", "its saved state");
    test_renewal("lies", "an instance of its own");
    test_renewal("ends in states", "an instance of its own");
    test_renewal("statics", "its library loaded anew");
    if (pf_long()) { // ten seconds of waiting
        test_renewal("hangs in states", "a process of its own");
    }
    test_refused();
    test_left();
    test_not_ours();
    test_checks();
    unsetenv("TMPDIR");
}

#else

void test_fmu(void)
{
    PF_CASE("FMUs");
    pf_skip("built without libzip and expat");
}

#endif
