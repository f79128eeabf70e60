// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "rng.h"

#include <math.h>

// splitmix64 (Steele, Lea, Flood 2014): a good mixer of 64 bits
static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

pf_key pf_key_root(uint64_t seed)
{
    return mix(seed ^ 0x7072656c69676874u);
}

pf_key pf__key_derive(pf_key key, uint64_t part)
{
    return mix(mix(key) ^ mix(part + 0x632be59bd9b4e019u));
}

pf_key pf__key_text(pf_key key, const char *part)
{
    // FNV-1a over the bytes, then mixed like a number
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *part; part++) {
        hash = (hash ^ (uint8_t)*part) * 0x100000001b3u;
    }
    return pf__key_derive(key, hash);
}

pf_key pf_key_stream(uint64_t seed, const char *environment, uint64_t trial, pf_purpose purpose,
                     uint64_t index)
{
    pf_key key = pf__key_text(pf_key_root(seed), environment);
    key = pf__key_derive(key, trial);
    key = pf__key_derive(key, (uint64_t)purpose);
    return pf__key_derive(key, index);
}

void pf_rng_init(pf_rng *rng, pf_key key)
{
    for (int i = 0; i < 4; i++) {
        key += 0x9e3779b97f4a7c15u;
        rng->s[i] = mix(key);
    }
    rng->spare = 0;
    rng->has_spare = false;
}

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

// xoshiro256++ 1.0 (Blackman, Vigna 2019)
uint64_t pf__rng_bits(pf_rng *rng)
{
    uint64_t *s = rng->s;
    if ((s[0] | s[1] | s[2] | s[3]) == 0) {
        pf_rng_init(rng, 0); // the one state that never changes: nobody has started it
    }
    uint64_t result = rotate(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double pf_rng_uniform(pf_rng *rng)
{
    return (double)(pf__rng_bits(rng) >> 11) * 0x1p-53;
}

uint32_t pf_rng_below(pf_rng *rng, uint32_t n)
{
    // rejection keeps every value equally likely
    uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t bits;
    do {
        bits = pf__rng_bits(rng);
    } while (bits >= limit);
    return (uint32_t)(bits % n);
}

double pf_rng_normal(pf_rng *rng)
{
    if (rng->has_spare) {
        rng->has_spare = false;
        return rng->spare;
    }
    // polar method of Marsaglia: sqrt and log only
    double u, v, s;
    do {
        u = 2 * pf_rng_uniform(rng) - 1;
        v = 2 * pf_rng_uniform(rng) - 1;
        s = u * u + v * v;
    } while (s >= 1 || s == 0);
    double factor = sqrt(-2 * log(s) / s);
    rng->spare = v * factor;
    rng->has_spare = true;
    return u * factor;
}
