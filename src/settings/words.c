// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <string.h>

// Longest word that a nearest one is looked for.
#define WORD_MAX 64

static int least(int a, int b)
{
    return a < b ? a : b;
}

// Levenshtein distance of two words of at most WORD_MAX bytes.
static int edit_distance(const char *a, const char *b)
{
    int n = (int)strlen(b);
    int cost[WORD_MAX + 1];
    for (int j = 0; j <= n; j++) {
        cost[j] = j;
    }
    for (int i = 1; a[i - 1] != '\0'; i++) {
        int diagonal = cost[0];
        cost[0] = i;
        for (int j = 1; j <= n; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = cost[j];
            cost[j] = least(replaced, least(cost[j - 1], cost[j]) + 1);
        }
    }
    return cost[n];
}

const char *pf_nearest_word(const char *word, const char *const *known, int n)
{
    size_t length = strlen(word);
    if (length > WORD_MAX) {
        return NULL;
    }
    const char *nearest = NULL;
    int limit = least(3, (int)length / 2);
    for (int i = 0; i < n; i++) {
        if (strlen(known[i]) > WORD_MAX) {
            continue;
        }
        int distance = edit_distance(word, known[i]);
        if (distance <= limit) {
            nearest = known[i];
            limit = distance - 1;
        }
    }
    return nearest;
}
