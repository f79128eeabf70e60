// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "bench/memo.h"

// What is kept is found under its own start and hypothesis and under no other.
static void check_found(pf_memo *m)
{
    PF_CASE("a prediction is found by its own start, probe, mechanism and gain alone");
    const double start[] = {.25, -1}, other[] = {.25, -1.0000001};
    const double response[] = {1, 2, 3};
    pf_hypothesis h = {2, 1, .35, NULL};
    CHECK(pf_memo_find(m, start, &h) == NULL);
    pf_memo_keep(m, start, &h, response, 3);
    const double *found = pf_memo_find(m, start, &h);
    CHECK(found && found[0] == 1 && found[2] == 3);
    CHECK(pf_memo_find(m, other, &h) == NULL);
    const pf_hypothesis others[] = {{1, 1, .35, NULL}, {2, 2, .35, NULL}, {2, 1, .36, NULL}};
    for (int i = 0; i < 3; i++) {
        CHECK(pf_memo_find(m, start, &others[i]) == NULL);
    }
}

static void check_crowded(pf_memo *m)
{
    PF_CASE("more than it has room for: what is found is right, the last one is there");
    int found = 0;
    for (int i = 0; i < 20000; i++) {
        double start[] = {i, -i}, response = i;
        pf_hypothesis h = {0, i % 3, .5, NULL};
        pf_memo_keep(m, start, &h, &response, 1);
        CHECK(*pf_memo_find(m, start, &h) == i);
    }
    for (int i = 0; i < 20000; i++) {
        double start[] = {i, -i};
        pf_hypothesis h = {0, i % 3, .5, NULL};
        const double *response = pf_memo_find(m, start, &h);
        found += response != NULL;
        CHECK(!response || *response == i);
    }
    CHECK(found > 1000 && found < 20000);
}

void test_memo(void)
{
    pf_arena arena = {0};
    pf_memo memo = {0};
    pf_error error;
    if (CHECK(pf_memo_init(&memo, &arena, 2, 3, &error) == PF_OK)) {
        check_found(&memo);
        check_crowded(&memo);
    }
    pf_arena_free(&arena);
}
