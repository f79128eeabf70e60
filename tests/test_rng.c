// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "preflight/preflight.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "test.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- generators, against published vectors and a second implementation

// xoshiro256++ and splitmix64 as their authors publish them
static uint64_t reference_split(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t left(uint64_t x, unsigned k)
{
    return (x << k) | (x >> (64u - k));
}

static uint64_t reference_next(uint64_t s[4])
{
    const uint64_t result = left(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = left(s[3], 45);
    return result;
}

static void test_vectors(void)
{
    PF_CASE("xoshiro256++ from state 1 2 3 4");
    static const uint64_t expected[10] = {UINT64_C(41943041),
                                          UINT64_C(58720359),
                                          UINT64_C(3588806011781223),
                                          UINT64_C(3591011842654386),
                                          UINT64_C(9228616714210784205),
                                          UINT64_C(9973669472204895162),
                                          UINT64_C(14011001112246962877),
                                          UINT64_C(12406186145184390807),
                                          UINT64_C(15849039046786891736),
                                          UINT64_C(10450023813501588000)};
    pf_rng rng = {{1, 2, 3, 4}, 0, false};
    for (int i = 0; i < 10; i++) {
        CHECK(pf__rng_bits(&rng) == expected[i]);
    }

    PF_CASE("splitmix64 from 1234567");
    static const uint64_t split[5] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                      UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                      UINT64_C(16408922859458223821)};
    uint64_t state = 1234567;
    for (int i = 0; i < 5; i++) {
        // the root key is one step of splitmix64 from the seed, offset by the name of the project
        uint64_t seed = (1234567 + (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15));
        CHECK(pf_key_root(seed ^ UINT64_C(0x7072656c69676874)) == split[i]);
        CHECK(reference_split(&state) == split[i]);
    }

    PF_CASE("a stream is xoshiro256++ seeded by splitmix64 from its key");
    for (uint64_t key = 0; key < 200; key++) {
        uint64_t s[4], from = key * UINT64_C(0xD1342543DE82EF95);
        pf_rng_init(&rng, from);
        from += UINT64_C(0x9E3779B97F4A7C15);
        for (int i = 0; i < 4; i++) {
            s[i] = reference_split(&from);
        }
        bool same = true;
        for (int i = 0; i < 100; i++) {
            same = same && pf__rng_bits(&rng) == reference_next(s);
        }
        CHECK(same);
    }
}

static uint64_t first_bits(pf_key key)
{
    pf_rng rng;
    pf_rng_init(&rng, key);
    return pf__rng_bits(&rng);
}

static int by_bits(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static void test_keys(void)
{
    PF_CASE("same parts, same stream");
    pf_key key = pf_key_stream(7, "ant", 3, PF_PURPOSE_RECOVERY, 2);
    CHECK(key == pf_key_stream(7, "ant", 3, PF_PURPOSE_RECOVERY, 2));
    pf_key by_hand = pf__key_text(pf_key_root(7), "ant");
    by_hand = pf__key_derive(pf__key_derive(pf__key_derive(by_hand, 3), PF_PURPOSE_RECOVERY), 2);
    CHECK(key == by_hand);
    pf_rng a, b;
    pf_rng_init(&a, key);
    pf_rng_init(&b, key);
    bool same = true;
    for (int i = 0; i < 1000; i++) {
        double x = pf_rng_normal(&a), y = pf_rng_normal(&b);
        same = same && memcmp(&x, &y, sizeof x) == 0;
        same = same && pf_rng_below(&a, 7) == pf_rng_below(&b, 7);
    }
    CHECK(same);

    PF_CASE("another part, another stream");
    static uint64_t seen[4 * 5 * 6 * 9 * 7];
    int n = 0;
    const char *environments[5] = {"ant", "tna", "", "a", "attitude"};
    for (uint64_t seed = 0; seed < 4; seed++) {
        for (int e = 0; e < 5; e++) {
            for (uint64_t trial = 0; trial < 6; trial++) {
                for (int purpose = PF_PURPOSE_CALIBRATION; purpose <= PF_PURPOSE_LAW; purpose++) {
                    for (uint64_t index = 0; index < 7; index++) {
                        seen[n++] = first_bits(pf_key_stream(seed, environments[e], trial,
                                                             (pf_purpose)purpose, index));
                    }
                }
            }
        }
    }
    qsort(seen, (size_t)n, sizeof seen[0], by_bits);
    int repeats = 0;
    for (int i = 1; i < n; i++) {
        repeats += seen[i] == seen[i - 1];
    }
    CHECK(n == 7560 && repeats == 0);
    // order matters: (3, 2) is not (2, 3)
    CHECK(pf__key_derive(pf__key_derive(1, 3), 2) != pf__key_derive(pf__key_derive(1, 2), 3));
}

// --- distributions, at fixed seeds

enum { DRAWS = 200000 };

static double draw[DRAWS];

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Largest distance of the empirical distribution of draw[] to `law`, times sqrt(n).
static double kolmogorov(double (*law)(double))
{
    qsort(draw, DRAWS, sizeof draw[0], by_value);
    double most = 0;
    for (int i = 0; i < DRAWS; i++) {
        double f = law(draw[i]);
        most = fmax(most, fmax((i + 1.0) / DRAWS - f, f - (double)i / DRAWS));
    }
    return most * sqrt(DRAWS);
}

static double law_uniform(double x)
{
    return x;
}

static double law_normal(double x)
{
    return .5 * erfc(-x / sqrt(2));
}

static double moment(int power)
{
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        sum += pow(draw[i], power);
    }
    return sum / DRAWS;
}

static void test_distributions(void)
{
    pf_rng rng;
    PF_CASE("uniform: range, moments, law, independence of neighbours");
    pf_rng_init(&rng, pf_key_root(11));
    double product = 0, last = pf_rng_uniform(&rng);
    bool inside = true;
    for (int i = 0; i < DRAWS; i++) {
        draw[i] = pf_rng_uniform(&rng);
        inside = inside && draw[i] >= 0 && draw[i] < 1;
        inside = inside && draw[i] * 0x1p53 == floor(draw[i] * 0x1p53);
        product += (draw[i] - .5) * (last - .5);
        last = draw[i];
    }
    CHECK(inside);
    // four standard errors each
    CHECK_NEAR(moment(1), 1.0 / 2, 4 * sqrt(1.0 / 12 / DRAWS));
    CHECK_NEAR(moment(2), 1.0 / 3, 4 * sqrt(4.0 / 45 / DRAWS));
    CHECK_NEAR(product / DRAWS, 0, 4.0 / 12 / sqrt(DRAWS));
    CHECK(kolmogorov(law_uniform) < 1.95); // 0.1 % point

    PF_CASE("normal: moments, law, the spare is used");
    pf_rng_init(&rng, pf_key_root(12));
    for (int i = 0; i < DRAWS; i++) {
        draw[i] = pf_rng_normal(&rng);
    }
    CHECK_NEAR(moment(1), 0, 4 * sqrt(1.0 / DRAWS));
    CHECK_NEAR(moment(2), 1, 4 * sqrt(2.0 / DRAWS));
    CHECK_NEAR(moment(3), 0, 4 * sqrt(15.0 / DRAWS));
    CHECK_NEAR(moment(4), 3, 4 * sqrt(96.0 / DRAWS));
    CHECK(kolmogorov(law_normal) < 1.95);
    pf_rng_init(&rng, 5);
    pf_rng_normal(&rng);
    pf_rng before = rng;
    CHECK(before.has_spare && pf_rng_normal(&rng) == before.spare && !rng.has_spare);
    CHECK(memcmp(before.s, rng.s, sizeof rng.s) == 0);

    PF_CASE("a zeroed stream is that of key 0, and ends what it draws");
    pf_rng zeroed = {{0}, 0, false};
    pf_rng_init(&rng, 0);
    if (CHECK(pf_rng_uniform(&zeroed) == pf_rng_uniform(&rng))) {
        memset(&zeroed, 0, sizeof zeroed);
        pf_rng_init(&rng, 0);
        CHECK(pf_rng_normal(&zeroed) == pf_rng_normal(&rng));
        CHECK(pf_rng_below(&zeroed, 1000) == pf_rng_below(&rng, 1000));
    }
}

static void test_below(void)
{
    pf_rng rng;
    PF_CASE("below: every value equally likely");
    for (uint32_t n = 1; n <= 17; n++) {
        int count[17] = {0};
        pf_rng_init(&rng, pf__key_derive(pf_key_root(13), n));
        for (int i = 0; i < 60000; i++) {
            uint32_t value = pf_rng_below(&rng, n);
            count[CHECK(value < n) ? value : 0]++;
        }
        double chi = 0;
        for (uint32_t v = 0; v < n; v++) {
            chi += pow(count[v] - 60000.0 / n, 2) / (60000.0 / n);
        }
        CHECK(chi < n - 1 + 4 * sqrt(2.0 * n) + 4);
    }
    // a draw in the last, incomplete block is thrown away: this state gives 2^64 - 1 first
    for (uint32_t n = 2; n < 100; n++) {
        pf_rng edge = {{0, 1, 2, UINT64_MAX}, 0, false}, twin = edge;
        CHECK(pf__rng_bits(&twin) == UINT64_MAX);
        CHECK(pf_rng_below(&edge, n) == pf__rng_bits(&twin) % n);
    }
    pf_rng_init(&rng, 14);
    bool low = false, high = false;
    for (int i = 0; i < 1000; i++) {
        uint32_t value = pf_rng_below(&rng, UINT32_MAX);
        CHECK(value < UINT32_MAX);
        low = low || value < UINT32_MAX / 16;
        high = high || value > UINT32_MAX / 16 * 15;
    }
    CHECK(low && high);
}

// --- SHA-256, FIPS 180-4 examples

static void check_digest(const pf_sha256 *sha, const char *expected)
{
    uint8_t digest[32];
    char text[65];
    pf__sha256_final(sha, digest);
    pf__sha256_text(digest, text);
    CHECK_STR(text, expected);
}

static void test_sha256(void)
{
    PF_CASE("sha256 of the published messages");
    static const struct {
        const char *message, *digest;
    } known[] = {{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                 {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                 {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                 {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};
    pf_sha256 sha;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        pf__sha256_init(&sha);
        pf__sha256_update(&sha, known[i].message, strlen(known[i].message));
        check_digest(&sha, known[i].digest);
        // final does not end it: the same digest again
        check_digest(&sha, known[i].digest);
    }

    PF_CASE("sha256 of a million a, in pieces of every size");
    static char block[1000];
    memset(block, 'a', sizeof block);
    for (size_t piece = 1; piece <= 1000; piece = piece * 3 + 1) {
        pf__sha256_init(&sha);
        for (size_t done = 0; done < 1000000;) {
            size_t n = 1000000 - done < piece ? 1000000 - done : piece;
            pf__sha256_update(&sha, block, n);
            done += n;
        }
        check_digest(&sha, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }

    PF_CASE("sha256: every split of a message gives the same digest");
    for (size_t length = 0; length < 200; length += 13) {
        char whole[65], parts[65];
        uint8_t digest[32];
        for (size_t i = 0; i < length; i++) {
            block[i] = (char)(7 * i + length);
        }
        for (size_t at = 0; at <= length; at++) {
            pf__sha256_init(&sha);
            pf__sha256_update(&sha, block, at);
            pf__sha256_update(&sha, block + at, length - at);
            pf__sha256_final(&sha, digest);
            pf__sha256_text(digest, at == 0 ? whole : parts);
            if (at > 0) {
                CHECK_STR(parts, whole);
            }
        }
    }
}

// --- messages

static void check_double(double value)
{
    pf_error error;
    pf_fail(&error, PF_ERR_INTERNAL, "%g", value);
    char *end = NULL;
    double back = strtod(error.text, &end);
    char what[400];
    snprintf(what, sizeof what, "%.17g printed as %.300s", value, error.text);
    // half a unit of the sixth digit, and what a subnormal cannot express
    bool good = *end == 0 && fabs(back - value) <= 5.1e-6 * fabs(value) + 2 * DBL_TRUE_MIN;
    pf_test_check(good && strlen(error.text) <= 14, __FILE__, __LINE__, what);
}

static void test_messages(void)
{
    PF_CASE("pf_fail formats strings, integers, sizes and numbers");
    pf_error error;
    CHECK(pf_fail(&error, PF_ERR_SHAPE, "a %s b %d c %z d %g%%", "text", -17, (size_t)42, 2.5) ==
          PF_ERR_SHAPE);
    CHECK(error.code == PF_ERR_SHAPE);
    CHECK_STR(error.text, "a text b -17 c 42 d 2.5%");
    CHECK(pf_fail(NULL, PF_ERR_FILE, "%s", "nobody reads it") == PF_ERR_FILE);
    pf_fail(&error, PF_ERR_FILE, "%s", (const char *)NULL);
    CHECK_STR(error.text, "(none)");
    pf_fail(&error, PF_ERR_FILE, "%d %d %d %z", INT_MIN, INT_MAX, 0, SIZE_MAX);
    char expected[100];
    snprintf(expected, sizeof expected, "%d %d 0 %zu", INT_MIN, INT_MAX, SIZE_MAX);
    CHECK_STR(error.text, expected);
    // what it does not know is shown, and nothing is read for what follows
    const char *unknown = "%d of %.2g of %s";
    pf_fail(&error, PF_ERR_FILE, unknown, 3, 2.5, "it");
    CHECK_STR(error.text, "3 of %.2g of %s");
    pf_fail(&error, PF_ERR_FILE, "half a %");
    CHECK_STR(error.text, "half a ");
}

static void test_numbers(void)
{
    pf_error error;
    PF_CASE("pf_fail: numbers");
    static const struct {
        double value;
        const char *text;
    } known[] = {{0, "0"},
                 {-0.0, "0"},
                 {1, "1"},
                 {-1, "-1"},
                 {.35, "0.35"},
                 {100, "100"},
                 {123456, "123456"},
                 {-.001, "-0.001"},
                 {999999.7, "1e6"},
                 {1e20, "1e20"},
                 {-2.5e-9, "-2.5e-9"},
                 {INFINITY, "inf"},
                 {-INFINITY, "-inf"},
                 {NAN, "nan"},
                 {1.0 / 3, "0.333333"},
                 {2.0 / 3, "0.666667"},
                 {99999.96, "100000"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        pf_fail(&error, PF_ERR_FILE, "%g", known[i].value);
        CHECK_STR(error.text, known[i].text);
    }

    PF_CASE("pf_fail: numbers of every size read back");
    const double edge[] = {DBL_MAX,   -DBL_MAX, DBL_MIN,     DBL_TRUE_MIN, -DBL_TRUE_MIN,
                           1e-310,    3.3e-322, 1e-290,      1e-300,       9.999995e-5,
                           1e5 - .25, 999999.5, 0.999999999, DBL_EPSILON};
    for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++) {
        check_double(edge[i]);
    }
    for (int e = -323; e <= 308; e++) {
        check_double(pow(10, e));
        check_double(-9.9999949 * pow(10, e - 1));
        check_double(1.2345678 * pow(10, e - 1));
    }
}

static void test_cut_and_names(void)
{
    pf_error error;
    PF_CASE("pf_fail cuts a long text and ends it");
    char *text = malloc(1001);
    memset(text, 'x', 1000);
    text[1000] = 0;
    memset(&error, 'y', sizeof error);
    pf_fail(&error, PF_ERR_FILE, "begin %s %d %g", text, 1234, 2.5);
    CHECK(strlen(error.text) == sizeof error.text - 1);
    CHECK(strncmp(error.text, "begin xxx", 9) == 0);
    const size_t most = sizeof error.text - 1;
    for (size_t n = most - 20; n < most + 10; n++) {
        memset(&error, 'y', sizeof error);
        pf_fail(&error, PF_ERR_FILE, "%s%d", text + 1000 - n, 123456);
        CHECK(strlen(error.text) == (n + 6 < most ? n + 6 : most));
    }
    free(text);

    PF_CASE("names of the statuses");
    CHECK_STR(pf_status_name(PF_OK), "ok");
    CHECK_STR(pf_status_name(PF_ERR_PROBE), "wrong-probe");
    CHECK_STR(pf_status_name(PF_ERR_INTERNAL), "internal");
    CHECK_STR(pf_status_name((pf_status)999), "unknown");
    CHECK_STR(pf_status_text((pf_status)999), "unknown status");
    for (int i = PF_OK; i <= PF_ERR_INTERNAL; i++) {
        CHECK(strlen(pf_status_text((pf_status)i)) > 5);
        for (int k = PF_OK; k < i; k++) {
            CHECK(strcmp(pf_status_name((pf_status)i), pf_status_name((pf_status)k)) != 0);
        }
    }
}

void test_rng(void)
{
    test_vectors();
    test_keys();
    test_distributions();
    test_below();
    test_sha256();
    test_messages();
    test_numbers();
    test_cut_and_names();
}
