// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "core/sha256.h"

#include "host/file.h"
#include "host/text.h"
#include "preflight/kit.h"
#include "model/safetensors.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// The reader on a copy of exactly these bytes.
static pf_status parse(pf_safetensors *file, const void *bytes, size_t n, pf_error *error)
{
    void *copy = malloc(n > 0 ? n : 1);
    memcpy(copy, bytes, n);
    *error = (pf_error){PF_OK, ""};
    return pf__safetensors_parse(file, "m.st", copy, n, error);
}

// A refusal has its code, says what and what to do in one line, and leaves nothing.
static bool refused(const void *bytes, size_t n, pf_status code, const char *part)
{
    pf_safetensors file;
    pf_error error;
    pf_status status = parse(&file, bytes, n, &error);
    bool good = status != PF_OK && error.code == status && !file.memory && file.n_tensors == 0 &&
                strncmp(error.text, "m.st: ", 6) == 0 && !strchr(error.text, '\n');
    if (status == PF_OK) {
        pf__safetensors_free(&file);
    }
    return CHECK(good) && CHECK(status == code) && CHECK_CONTAINS(error.text, part);
}

// A file by hand: length, header, numbers. Free with free().
static uint8_t *by_hand(const char *header, size_t n_header, const void *data, size_t n_bytes)
{
    uint8_t *bytes = malloc(8 + n_header + n_bytes);
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(n_header >> (8 * i));
    }
    memcpy(bytes + 8, header, n_header);
    memcpy(bytes + 8 + n_header, data, n_bytes);
    return bytes;
}

// --- writing

static const float pair[2] = {1, -2.5f};
static const float three[3] = {.1f, FLT_MIN / 8, -0.0f};
static const pf_meta small_meta[] = {{"format", "t"}, {"note", "a\"b\n"}};
static const pf_tensor small[] = {{"w", 2, {1, 2}, pair}, {"b", 1, {3}, three}};
static const char small_header[] =
    "{\"__metadata__\":{\"format\":\"t\",\"note\":\"a\\\"b\\u000a\"},"
    "\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],"
    "\"data_offsets\":[0,8]},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[3],"
    "\"data_offsets\":[8,20]}}";

static void test_write_exact(void)
{
    PF_CASE("the bytes of a small file are as written by hand");
    char path[256], sha256[65] = "", header[256];
    pf_error error;
    void *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/small.st", pf_scratch_dir());
    CHECK(pf__safetensors_write(path, 2, small_meta, 2, small, sha256, &error) == PF_OK);
    CHECK(pf__file_read(path, 4096, &data, &n, &error) == PF_OK);
    // padded with spaces to a multiple of 8
    size_t n_header = (sizeof small_header - 1 + 7) / 8 * 8;
    snprintf(header, sizeof header, "%-*s", (int)n_header, small_header);
    const float numbers[5] = {1, -2.5f, .1f, FLT_MIN / 8, -0.0f};
    uint8_t *expected = by_hand(header, n_header, numbers, sizeof numbers);
    CHECK(n == 8 + n_header + 20 && memcmp(data, expected, n) == 0);
    char digest[65];
    pf__sha256_of(expected, n, digest);
    CHECK_STR(sha256, digest);
    free(expected);
    free(data);
    PF_CASE("an empty file is a header of two bytes and its padding");
    CHECK(pf__safetensors_write(path, 0, NULL, 0, NULL, NULL, &error) == PF_OK);
    CHECK(pf__file_read(path, 4096, &data, &n, &error) == PF_OK);
    CHECK(n == 16 && memcmp(data, "\x08\0\0\0\0\0\0\0{}      ", 16) == 0);
    free(data);
}

static void test_round_trip(void)
{
    PF_CASE("what is written reads back to the bit, sorted by name");
    enum { ROWS = 7, COLUMNS = 11 };
    static float large[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        large[i] = (float)i / 3 * (i % 2 ? -1e-38f : 1e36f);
    }
    const pf_meta meta[] = {{"z", ""},
                            {"quotes \"\\/", "\"\\/\b\f\n\r\t\x01\x7f"},
                            {"caf\xc3\xa9", "\xe2\x88\x9e \xf0\x9f\x9a\x80\n\n"}};
    const pf_tensor tensors[] = {{"z.weight", 2, {ROWS, COLUMNS}, large},
                                 {"a\xc3\xa9 \"q\\", 1, {3}, three},
                                 {"m", 2, {2, 1}, pair}};
    char path[256], sha256[65] = "";
    pf_error error = {PF_OK, ""};
    pf_safetensors file;
    snprintf(path, sizeof path, "%s/round.st", pf_scratch_dir());
    CHECK(pf__safetensors_write(path, 3, meta, 3, tensors, sha256, &error) == PF_OK);
    if (!CHECK(pf__safetensors_read(&file, path, &error) == PF_OK)) {
        return;
    }
    CHECK_STR(file.sha256, sha256);
    CHECK(file.path == path && file.n_meta == 3 && file.n_tensors == 3);
    CHECK_STR(file.tensors[0].name, tensors[1].name);
    CHECK_STR(file.tensors[2].name, "z.weight");
    for (int i = 0; i < 3; i++) {
        CHECK_STR(pf__safetensors_meta(&file, meta[i].key), meta[i].value);
        const pf_tensor *t = pf__safetensors_find(&file, tensors[i].name);
        if (CHECK(t != NULL)) {
            CHECK(t->n_dims == tensors[i].n_dims && t->dims[0] == tensors[i].dims[0]);
            CHECK(t->n_dims == 1 || t->dims[1] == tensors[i].dims[1]);
            CHECK(memcmp(t->data, tensors[i].data, pf__tensor_bytes(t)) == 0);
        }
    }
    CHECK(pf__safetensors_find(&file, "n") == NULL && pf__safetensors_meta(&file, "a") == NULL);
    pf__safetensors_free(&file);
    CHECK(file.memory == NULL);
    pf__safetensors_free(&file);
    PF_CASE("a file that is not there is refused with its name");
    CHECK(pf__safetensors_read(&file, "/nowhere/m.st", &error) == PF_ERR_FILE);
    CHECK_CONTAINS(error.text, "/nowhere/m.st");
    CHECK(file.memory == NULL);
}

static void test_write_refused(void)
{
    static const float bad[2] = {0, INFINITY};
    static const size_t half = SIZE_MAX / 2 + 2;
    char long_name[PF_TENSOR_NAME + 2];
    memset(long_name, 'x', PF_TENSOR_NAME + 1);
    long_name[PF_TENSOR_NAME + 1] = 0;
    const struct {
        pf_tensor second;
        pf_status code;
        const char *part;
    } cases[] = {
        {{"w", 1, {2}, pair}, PF_ERR_ARGUMENT, "tensor 'w' is there twice"},
        {{"", 1, {2}, pair}, PF_ERR_ARGUMENT, "'' cannot name"},
        {{"a\nb", 1, {2}, pair}, PF_ERR_ARGUMENT, "'a?b' cannot name"},
        {{"a\x7f", 1, {2}, pair}, PF_ERR_ARGUMENT, "'a?' cannot name"},
        {{"\xc3(", 1, {2}, pair}, PF_ERR_ARGUMENT, "cannot name"},
        {{"__metadata__", 1, {2}, pair}, PF_ERR_ARGUMENT, "cannot name"},
        {{long_name, 1, {2}, pair}, PF_ERR_ARGUMENT, "xxx...' cannot name"},
        {{"v", 0, {2}, pair}, PF_ERR_SHAPE, "tensor 'v'"},
        {{"v", 3, {1, 1}, pair}, PF_ERR_SHAPE, "tensor 'v'"},
        {{"v", 2, {2, 0}, pair}, PF_ERR_SHAPE, "tensor 'v'"},
        {{"v", 2, {half, 2}, pair}, PF_ERR_SHAPE, "tensor 'v'"},
        {{"v", 1, {(size_t)1 << 30}, pair}, PF_ERR_SHAPE, "tensor 'v'"},
        {{"v", 1, {2}, bad}, PF_ERR_NONFINITE, "tensor 'v': number 1"},
    };
    char path[256];
    pf_error error;
    void *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/refused.st", pf_scratch_dir());
    PF_CASE("the writer refuses what could not be read back, and writes nothing");
    for (size_t i = 0; i < COUNT(cases); i++) {
        pf_tensor both[2] = {small[0], cases[i].second};
        pf_status status = pf__safetensors_write(path, 0, NULL, 2, both, NULL, &error);
        CHECK(status == cases[i].code);
        CHECK_CONTAINS(error.text, cases[i].part);
    }
    const pf_meta bad_meta[][2] = {
        {{"a", "x"}, {"a", "y"}}, {{"a", "x"}, {"", "y"}}, {{"a", "x"}, {"b", "\xed\xa0\x80"}}};
    for (size_t i = 0; i < COUNT(bad_meta); i++) {
        CHECK(pf__safetensors_write(path, 2, bad_meta[i], 1, small, NULL, &error) ==
              PF_ERR_ARGUMENT);
    }
    CHECK(pf__safetensors_write(path, 0, NULL, PF_TENSORS_MAX + 1, small, NULL, &error) ==
          PF_ERR_ARGUMENT);
    CHECK(pf__file_read(path, 4096, &data, &n, &error) == PF_ERR_FILE);
    PF_CASE("a folder that is not there is refused with the path");
    CHECK(pf__safetensors_write("/nowhere/m.st", 0, NULL, 2, small, NULL, &error) == PF_ERR_FILE);
    CHECK_CONTAINS(error.text, "/nowhere/m.st: ");
}

// --- files of others

// What safetensors 0.8.0 for Python gives for save({"b.weight": [[1,2],[3,-0.5]], "a": [0.1, 1e-40,
// 3]}, metadata={"note": "caf\u00e9 \"x\"\n", "k": "v"}).
static const char python[] =
    "\xa8\0\0\0\0\0\0\0"
    "{\"__metadata__\":{\"k\":\"v\",\"note\":\"caf\xc3\xa9 \\\"x\\\"\\n\"},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
    "\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[12,28]}} "
    "\xcd\xcc\xcc\x3d\xc2\x16\x01\x00\x00\x00\x40\x40"
    "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x00\xbf";

static void python_check(const pf_safetensors *file)
{
    static const float a[3] = {.1f, 1e-40f, 3}, b[4] = {1, 2, 3, -.5f};
    CHECK(file->n_meta == 2 && file->n_tensors == 2);
    CHECK_STR(pf__safetensors_meta(file, "note"), "caf\xc3\xa9 \"x\"\n");
    CHECK_STR(pf__safetensors_meta(file, "k"), "v");
    const pf_tensor *t = pf__safetensors_find(file, "a");
    CHECK(t && t->n_dims == 1 && t->dims[0] == 3 && memcmp(t->data, a, sizeof a) == 0);
    t = pf__safetensors_find(file, "b.weight");
    CHECK(t && t->n_dims == 2 && t->dims[0] == 2 && t->dims[1] == 2);
    CHECK(t && memcmp(t->data, b, sizeof b) == 0 && (uintptr_t)t->data % sizeof(float) == 0);
}

static void test_python(void)
{
    PF_CASE("a file of the Python package reads");
    pf_safetensors file;
    pf_error error;
    size_t n = sizeof python - 1;
    if (CHECK(parse(&file, python, n, &error) == PF_OK)) {
        python_check(&file);
        // sha256sum of that file
        CHECK_STR(file.sha256, "3bf9b8a74979f63635b9430647769ead9fb8c2c26d742031c0ea3d177eca63ce");
        pf__safetensors_free(&file);
    }
    PF_CASE("a header of any length reads, with aligned numbers");
    char header[176];
    for (size_t pad = 0; pad < 9; pad++) {
        // the last byte of the header is a space
        memset(header, ' ', sizeof header);
        memcpy(header, python + 8, 167);
        uint8_t *bytes = by_hand(header, 167 + pad, python + 176, 28);
        if (CHECK(parse(&file, bytes, 8 + 167 + pad + 28, &error) == PF_OK)) {
            python_check(&file);
            pf__safetensors_free(&file);
        }
        free(bytes);
    }
    PF_CASE("a file without tensors reads");
    CHECK(parse(&file, "\x02\0\0\0\0\0\0\0{}", 10, &error) == PF_OK);
    CHECK(file.n_tensors == 0 && !pf__safetensors_find(&file, "a") && file.n_meta == 0);
    CHECK(!pf__safetensors_meta(&file, "a"));
    pf__safetensors_free(&file);
}

// --- refusals

static const float numbers8[8] = {1, 2, 3, 4, 5, 6, 7, 8};

#define ENTRY(shape, range) "{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" range "]}"

// 32 bytes of numbers follow each
static const struct {
    const char *header, *part;
} header_cases[] = {
    {"[]", "begin with '{'"},
    {" {}", "begin with '{'"},
    {"{}x", "damaged"},
    {"{", "damaged"},
    {"{\"a\":" ENTRY("8", "0,32") ",}", "damaged"},
    {"{\"a\":" ENTRY("4", "0,16") ",\"a\":" ENTRY("4", "16,32") "}", "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}",
     "duplicate"},
    {"{\"a\\u0000b\":" ENTRY("8", "0,32") "}", "damaged"},
    {"{\"\xc3(\":" ENTRY("8", "0,32") "}", "damaged"},
    {"{\"\":" ENTRY("8", "0,32") "}", "1 to 200 bytes"},
    {"{\"a\\nb\":" ENTRY("8", "0,32") "}", "'a?b': a name is plain text"},
    {"{\"a\x7f\":" ENTRY("8", "0,32") "}", "'a?': a name is plain text"},
    {"{\"a\":3}", "tensor 'a': needs dtype"},
    {"{\"a\":[]}", "tensor 'a': needs dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8]}}", "needs dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,32]}}", "needs dtype"},
    {"{\"a\":{\"shape\":[8],\"data_offsets\":[0,32]}}", "needs dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32],\"x\":0}}", "nothing else"},
    {"{\"a\":{\"dtype\":32,\"shape\":[8],\"data_offsets\":[0,32]}}", "needs dtype"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4],\"data_offsets\":[0,32]}}",
     "tensor 'a' has dtype F64; only F32"},
    {"{\"a\":{\"dtype\":\"f32\\n\",\"shape\":[8],\"data_offsets\":[0,32]}}", "dtype f32?"},
    {"{\"a\":" ENTRY("", "0,4") "}", "tensor 'a': the shape"},
    {"{\"a\":" ENTRY("2,2,2", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("0", "0,0") "}", "the shape"},
    {"{\"a\":" ENTRY("8,0", "0,0") "}", "the shape"},
    {"{\"a\":" ENTRY("-8", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("-2,-4", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("8.0", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("\"8\"", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("4611686018427387912", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("4294967296,4294967304", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("65536,65544", "0,32") "}", "the shape"},
    {"{\"a\":" ENTRY("99999999999999999999", "0,32") "}", "damaged"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":8,\"data_offsets\":[0,32]}}", "the shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":{}}}", "data_offsets"},
    {"{\"a\":" ENTRY("8", "0") "}", "tensor 'a': data_offsets"},
    {"{\"a\":" ENTRY("8", "0,32,32") "}", "data_offsets"},
    {"{\"a\":" ENTRY("8", "0.0,32") "}", "data_offsets"},
    {"{\"a\":" ENTRY("8", "32,0") "}", "data_offsets"},
    {"{\"a\":" ENTRY("8", "-4,28") "}", "data_offsets"},
    {"{\"a\":" ENTRY("8", "4,36") "}", "within the file"},
    {"{\"a\":" ENTRY("9", "0,36") "}", "within the file"},
    {"{\"a\":" ENTRY("8", "0,9223372036854775807") "}", "within the file"},
    {"{\"a\":" ENTRY("7", "0,32") "}", "does not fit the shape"},
    {"{\"a\":" ENTRY("2,4", "0,16") "}", "does not fit the shape"},
    {"{\"a\":" ENTRY("7", "2,30") "}", "does not fit the shape"},
    {"{\"a\":" ENTRY("7", "4,32") "}", "tensor 'a': bytes before it"},
    {"{\"a\":" ENTRY("7", "0,28") "}", "4 bytes at the end"},
    {"{}", "32 bytes at the end"},
    {"{\"a\":" ENTRY("2", "0,8") ",\"b\":" ENTRY("5", "12,32") "}", "'b': bytes before"},
    {"{\"a\":" ENTRY("4", "0,16") ",\"b\":" ENTRY("5", "12,32") "}", "'b': overlaps"},
    {"{\"a\":" ENTRY("8", "0,32") ",\"b\":" ENTRY("8", "0,32") "}", "overlaps"},
    {"{\"__metadata__\":3,\"a\":" ENTRY("8", "0,32") "}", "__metadata__ is not an object"},
    {"{\"__metadata__\":null,\"a\":" ENTRY("8", "0,32") "}", "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"k\":3},\"a\":" ENTRY("8", "0,32") "}", "metadata 'k' is not a text"},
    {"{\"__metadata__\":{\"\":\"\"},\"a\":" ENTRY("8", "0,32") "}", "metadata key ''"},
    {"{\"__metadata__\":{\"k\":\"\\u0000\"},\"a\":" ENTRY("8", "0,32") "}", "damaged"},
    {"{\"__metadata__\":{\"k\":\"\\ud800\"},\"a\":" ENTRY("8", "0,32") "}", "damaged"},
    {"{\"__metadata__\":{\"k\":\"\",\"k\":\"\"},\"a\":" ENTRY("8", "0,32") "}", "duplicate"},
};

static void test_headers_refused(void)
{
    PF_CASE("each rule of the header");
    for (size_t i = 0; i < COUNT(header_cases); i++) {
        size_t n = strlen(header_cases[i].header);
        uint8_t *bytes = by_hand(header_cases[i].header, n, numbers8, sizeof numbers8);
        if (!refused(bytes, 8 + n + sizeof numbers8, PF_ERR_FORMAT, header_cases[i].part)) {
            printf("    header %s\n", header_cases[i].header);
        }
        free(bytes);
    }
    PF_CASE("a header padded with NUL");
    static const char padded[] = "{\"a\":" ENTRY("8", "0,32") "}\0\0";
    uint8_t *bytes = by_hand(padded, sizeof padded - 1, numbers8, sizeof numbers8);
    refused(bytes, 8 + sizeof padded - 1 + sizeof numbers8, PF_ERR_FORMAT, "damaged");
    free(bytes);
}

static void test_limits_refused(void)
{
    PF_CASE("a header that is longer than the file, or than a header may be");
    refused("", 0, PF_ERR_FORMAT, "0 bytes are no safetensors file");
    refused("\0\0\0\0\0\0\0\0", 8, PF_ERR_FORMAT, "'{'");
    refused("\x03\0\0\0\0\0\0\0{}", 10, PF_ERR_FORMAT, "cut");
    refused("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, PF_ERR_FORMAT, "cut");
    refused("\xf9\xff\xff\xff\xff\xff\xff\xff{}", 10, PF_ERR_FORMAT, "cut");
    size_t n = PF_TENSORS_HEADER + 1;
    char *wide = malloc(n);
    memset(wide, ' ', n);
    memcpy(wide, "{}", 2);
    uint8_t *bytes = by_hand(wide, n, numbers8, 0);
    free(wide);
    refused(bytes, 8 + n, PF_ERR_FORMAT, "larger than 16777216 bytes");
    free(bytes);
    PF_CASE("more metadata than a file may have");
    pf_text many = {0};
    pf__text_add(&many, "{\"__metadata__\":{");
    for (int i = 0; i <= PF_META_MOST; i++) {
        pf__text_addf(&many, "%s\"k%d\":\"\"", i ? "," : "", i);
    }
    pf__text_add(&many, "}}");
    bytes = by_hand(many.data, many.size, numbers8, 0);
    refused(bytes, 8 + many.size, PF_ERR_FORMAT, "257 entries of metadata, more than 256");
    free(bytes);
    pf__text_free(&many);
    for (int more = 0; more < 2; more++) {
        PF_CASE(more ? "a tensor too many" : "as many tensors as there may be");
        pf_text text = {0};
        pf__text_add(&text, "{");
        int count = PF_TENSORS_MAX + more;
        float *zeros = calloc((size_t)count, sizeof *zeros);
        for (int i = 0; i < count; i++) {
            pf__text_addf(&text, "%s\"t%d\":" ENTRY("1", "%d,%d"), i ? "," : "", i, 4 * i,
                          4 * i + 4);
        }
        pf__text_add(&text, "}");
        bytes = by_hand(text.data, text.size, zeros, (size_t)count * sizeof *zeros);
        n = 8 + text.size + (size_t)count * sizeof *zeros;
        pf_safetensors file;
        pf_error error;
        if (more) {
            refused(bytes, n, PF_ERR_FORMAT, "4097 tensors; at most 4096");
        } else if (CHECK(parse(&file, bytes, n, &error) == PF_OK)) {
            CHECK(file.n_tensors == PF_TENSORS_MAX && pf__safetensors_find(&file, "t4095"));
            pf__safetensors_free(&file);
        }
        free(bytes);
        free(zeros);
        pf__text_free(&text);
    }
    for (size_t length = PF_TENSOR_NAME; length <= PF_TENSOR_NAME + 1; length++) {
        PF_CASE(length == PF_TENSOR_NAME ? "the longest name" : "a name too long");
        char header[400], name[PF_TENSOR_NAME + 2] = "";
        memset(name, 'n', length);
        int size = snprintf(header, sizeof header, "{\"%s\":" ENTRY("8", "0,32") "}", name);
        bytes = by_hand(header, (size_t)size, numbers8, sizeof numbers8);
        n = 8 + (size_t)size + sizeof numbers8;
        pf_safetensors file;
        pf_error error;
        if (length > PF_TENSOR_NAME) {
            refused(bytes, n, PF_ERR_FORMAT, "1 to 200 bytes");
        } else if (CHECK(parse(&file, bytes, n, &error) == PF_OK)) {
            CHECK_STR(file.tensors[0].name, name);
            pf__safetensors_free(&file);
        }
        free(bytes);
    }
}

static void test_nonfinite_refused(void)
{
    PF_CASE("a number that is not finite is named");
    static const char header[] = "{\"b\":" ENTRY("2,2", "16,32") ",\"a\":" ENTRY("4", "0,16") "}";
    const float bad[3] = {NAN, INFINITY, -INFINITY};
    size_t n = 8 + sizeof header - 1 + sizeof numbers8;
    for (int i = 0; i < 3; i++) {
        float numbers[8];
        memcpy(numbers, numbers8, sizeof numbers);
        numbers[4 + i] = bad[i];
        char part[64];
        snprintf(part, sizeof part, "tensor 'b': number %d (from 0) is not finite", i);
        uint8_t *bytes = by_hand(header, sizeof header - 1, numbers, sizeof numbers);
        refused(bytes, n, PF_ERR_NONFINITE, part);
        free(bytes);
    }
}

static void test_damaged(void)
{
    PF_CASE("a file cut at any length is refused");
    size_t n = sizeof python - 1;
    pf_error error;
    pf_safetensors file;
    for (size_t cut = 0; cut < n; cut++) {
        refused(python, cut, PF_ERR_FORMAT, "m.st: ");
    }
    PF_CASE("a byte too many is refused");
    refused(python, n + 1, PF_ERR_FORMAT, "1 bytes at the end");
    PF_CASE("a flipped bit is refused or gives other contents, and never harms");
    char damaged[sizeof python];
    char digest[65];
    pf__sha256_of(python, n, digest);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(damaged, python, n);
        damaged[bit / 8] = (char)(damaged[bit / 8] ^ (1 << bit % 8));
        if (parse(&file, damaged, n, &error) == PF_OK) {
            CHECK(strcmp(file.sha256, digest) != 0 && file.n_tensors == 2);
            // nothing in the length may be accepted
            CHECK(bit >= 64);
            pf__safetensors_free(&file);
        } else {
            CHECK(error.code != PF_OK && strncmp(error.text, "m.st: ", 6) == 0);
            CHECK(!strchr(error.text, '\n') && !file.memory);
        }
    }
}

void test_safetensors(void)
{
    test_write_exact();
    test_round_trip();
    test_write_refused();
    test_python();
    test_headers_refused();
    test_limits_refused();
    test_nonfinite_refused();
    test_damaged();
}
