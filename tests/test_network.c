// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "model/rollout.h"

#include "model/model_impl.h"
#include "model/kernels/loops.h"
#include "model/kernels/matmul.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
enum { ROWS = 7, WIDEST = 64 };
static const double pi = 3.14159265358979323846;

static pf_rng rng_of(uint64_t seed)
{
    pf_rng rng;
    pf_rng_init(&rng, pf_key_root(seed));
    return rng;
}

static float *draw(pf_rng *rng, size_t n, double sd)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(sd * pf_rng_normal(rng));
    }
    return x;
}

// --- the network against one in double precision

static double activate(pf_activation activation, double z)
{
    return activation == PF_ACTIVATION_SILU ? z / (1 + exp(-z)) : fmax(z, 0);
}

// One row through the network; theta is indexed as PyTorch stores it, not through pf__net_weight.
static void forward_row(const pf_net *net, const double *theta, const float *x, double *y)
{
    double a[WIDEST], b[WIDEST];
    int n = net->n_in;
    for (int i = 0; i < n; i++) {
        a[i] = (double)x[i];
    }
    for (int l = 0; l <= net->n_layers; l++) {
        int out = l == net->n_layers ? net->n_out : net->width;
        for (int o = 0; o < out; o++) {
            double z = theta[n * out + o];
            for (int i = 0; i < n; i++) {
                z += theta[o * n + i] * a[i];
            }
            b[o] = l == net->n_layers ? z : activate(net->activation, z);
        }
        theta += n * out + out;
        n = out;
        memcpy(a, b, sizeof a);
    }
    memcpy(y, a, (size_t)n * sizeof *y);
}

static double loss(const pf_net *net, const double *theta, int rows, const float *x,
                   const float *target)
{
    double total = 0, y[WIDEST];
    for (int r = 0; r < rows; r++) {
        forward_row(net, theta, x + r * net->n_in, y);
        for (int o = 0; o < net->n_out; o++) {
            double e = y[o] - (double)target[r * net->n_out + o];
            total += e * e;
        }
    }
    return total / (rows * net->n_out);
}

static const pf_net nets[] = {
    {3, 2, 1, 5, PF_ACTIVATION_SILU},  {3, 2, 1, 5, PF_ACTIVATION_RELU},
    {7, 3, 2, 17, PF_ACTIVATION_SILU}, {7, 3, 2, 17, PF_ACTIVATION_RELU},
    {5, 1, 3, 9, PF_ACTIVATION_SILU},  {5, 1, 3, 9, PF_ACTIVATION_RELU},
    {1, 1, 1, 1, PF_ACTIVATION_SILU},  {13, 11, 3, 33, PF_ACTIVATION_SILU},
};

typedef struct sample {
    size_t n;
    float *theta, *x, *target, *work, *gradient;
    double *exact; // theta as doubles
} sample;

static sample sample_of(const pf_net *net, uint64_t seed)
{
    pf_rng rng = rng_of(seed);
    sample s = {.n = pf__net_parameters(net)};
    s.theta = draw(&rng, s.n, .6);
    s.x = draw(&rng, (size_t)(ROWS * net->n_in), 1);
    s.target = draw(&rng, (size_t)(ROWS * net->n_out), 1);
    s.work = calloc(pf__net_gradient_work(net, ROWS), sizeof(float));
    s.gradient = calloc(s.n, sizeof(float));
    s.exact = calloc(s.n, sizeof(double));
    for (size_t i = 0; i < s.n; i++) {
        s.exact[i] = (double)s.theta[i];
    }
    return s;
}

static void free_sample(sample *s)
{
    free(s->theta);
    free(s->x);
    free(s->target);
    free(s->work);
    free(s->gradient);
    free(s->exact);
}

static void test_layout(void)
{
    PF_CASE("network: weights and biases lie as PyTorch has them, layer by layer");
    const pf_net net = {3, 2, 2, 5, PF_ACTIVATION_SILU};
    CHECK(pf__net_parameters(&net) == 3 * 5 + 5 + 5 * 5 + 5 + 5 * 2 + 2);
    CHECK(pf__net_weight(&net, 0) == 0 && pf__net_bias(&net, 0) == 15);
    CHECK(pf__net_weight(&net, 1) == 20 && pf__net_bias(&net, 1) == 45);
    CHECK(pf__net_weight(&net, 2) == 50 && pf__net_bias(&net, 2) == 60);
}

static void test_forward(void)
{
    PF_CASE("network: forward is that of double precision");
    for (size_t k = 0; k < COUNT(nets); k++) {
        const pf_net *net = &nets[k];
        sample s = sample_of(net, 100 + k);
        float *work = calloc(pf__net_forward_work(net, ROWS), sizeof *work), y[ROWS * WIDEST];
        double worst = 0, size = 1;
        pf__net_forward(net, s.theta, NULL, ROWS, s.x, work, y);
        for (int r = 0; r < ROWS; r++) {
            double exact[WIDEST];
            forward_row(net, s.exact, s.x + r * net->n_in, exact);
            for (int o = 0; o < net->n_out; o++) {
                worst = fmax(worst, fabs((double)y[r * net->n_out + o] - exact[o]));
                size = fmax(size, fabs(exact[o]));
            }
        }
        CHECK_NEAR(worst / size, 0, 4e-6);
        free(work);
        free_sample(&s);
    }
}

static void test_gradient(void)
{
    PF_CASE("network: loss and gradient are those of central differences in double precision");
    for (size_t k = 0; k < COUNT(nets); k++) {
        const pf_net *net = &nets[k];
        sample s = sample_of(net, 200 + k);
        double got = pf__net_gradient(net, s.theta, ROWS, s.x, s.target, s.work, s.gradient);
        double exact = loss(net, s.exact, ROWS, s.x, s.target), worst = 0, size = 0;
        CHECK_NEAR(got / exact, 1, 1e-5);
        for (size_t i = 0; i < s.n; i++) {
            const double h = 1e-6, at = s.exact[i];
            s.exact[i] = at + h;
            double above = loss(net, s.exact, ROWS, s.x, s.target);
            s.exact[i] = at - h;
            double slope = (above - loss(net, s.exact, ROWS, s.x, s.target)) / (2 * h);
            s.exact[i] = at;
            worst = fmax(worst, fabs(slope - (double)s.gradient[i]));
            size = fmax(size, fabs(slope));
        }
        CHECK(size > 0);
        CHECK_NEAR(worst / size, 0, 1e-5);
        free_sample(&s);
    }
}

static void test_init(void)
{
    PF_CASE("network: the start is uniform in its bounds and the same for the same stream");
    const pf_net net = {10, 3, 2, 40, PF_ACTIVATION_SILU};
    size_t n = pf__net_parameters(&net);
    float *a = calloc(n, sizeof *a), *b = calloc(n, sizeof *b);
    pf_rng one = rng_of(1), again = rng_of(1), other = rng_of(2);
    pf__net_init(&net, &one, a);
    pf__net_init(&net, &again, b);
    CHECK(memcmp(a, b, n * sizeof *a) == 0);
    pf__net_init(&net, &other, b);
    CHECK(memcmp(a, b, n * sizeof *a) != 0);
    for (int l = 0; l <= net.n_layers; l++) {
        double bound = 1 / sqrt(l == 0 ? 10 : 40), most = 0, sum = 0, square = 0;
        size_t first = pf__net_weight(&net, l), last = pf__net_weight(&net, l + 1);
        double count = (double)(last - first);
        for (size_t i = first; i < last; i++) {
            most = fmax(most, fabs((double)a[i]));
            sum += (double)a[i];
            square += (double)a[i] * (double)a[i];
        }
        // moments of a uniform number, to five standard errors
        CHECK(most <= bound * (1 + 1e-6) && most > .95 * bound);
        CHECK_NEAR(sum / count, 0, 5 * bound / sqrt(3 * count));
        CHECK_NEAR(square / count / (bound * bound), 1 / 3., 5 * sqrt(4 / 45. / count));
    }
    free(a);
    free(b);
}

// --- Adam: Kingma & Ba 2015, algorithm 1; decay as Loshchilov & Hutter 2019, algorithm 2

static void test_adam_first(void)
{
    PF_CASE("adam: the first step is the rate against the sign of the gradient");
    const pf_adam adam = {1e-3f, .9f, .999f, 1e-8f, 0};
    const float start[] = {1, 1, 0, 0, -3};
    const float g[] = {1e-3f, -2e3f, .5f, 0, -7};
    float m[5] = {0}, v[5] = {0}, theta[5];
    memcpy(theta, start, sizeof theta);
    pf__adam_step(&adam, 1, 5, g, m, v, theta);
    for (int i = 0; i < 5; i++) {
        double sign = g[i] > 0 ? 1 : g[i] < 0 ? -1 : 0;
        CHECK_NEAR((double)theta[i] - (double)start[i], -1e-3 * sign, 4e-7);
    }
}

static void test_adam_steps(void)
{
    PF_CASE("adam: many steps are the published algorithm in double precision, with decay");
    enum { N = 37, STEPS = 500 };
    pf_rng rng = rng_of(3);
    float *start = draw(&rng, N, 1), theta[N], m[N] = {0}, v[N] = {0};
    for (int k = 0; k < 2; k++) {
        const pf_adam adam = {.01f, .9f, .999f, 1e-8f, k == 0 ? 0 : .1f};
        double t[N], first[N] = {0}, second[N] = {0}, worst = 0;
        memset(m, 0, sizeof m);
        memset(v, 0, sizeof v);
        memcpy(theta, start, sizeof theta);
        for (int i = 0; i < N; i++) {
            t[i] = (double)start[i];
        }
        for (int step = 1; step <= STEPS; step++) {
            float *g = draw(&rng, N, step < 100 ? 1 : 1e-2);
            pf__adam_step(&adam, step, N, g, m, v, theta);
            for (int i = 0; i < N; i++) {
                double d = (double)g[i];
                first[i] = .9 * first[i] + (1 - .9) * d;
                second[i] = .999 * second[i] + (1 - .999) * d * d;
                double hat1 = first[i] / (1 - pow(.9, step));
                double hat2 = second[i] / (1 - pow(.999, step));
                t[i] -= .01 * (hat1 / (sqrt(hat2) + 1e-8) + (double)adam.decay * t[i]);
                worst = fmax(worst, fabs(t[i] - (double)theta[i]));
            }
            free(g);
        }
        CHECK_NEAR(worst, 0, 2e-5);
    }
    free(start);
}

// --- loops

static void test_silu(void)
{
    PF_CASE("loops: silu and its slope are those of libm from -100 to 100");
    enum { N = 20001 };
    static float x[N], only[N], slope[N], zero[N], bias[N];
    double worst = 0, worst_slope = 0;
    for (int i = 0; i < N; i++) {
        only[i] = x[i] = (float)(-100 + .01 * i);
        bias[i] = .25f;
    }
    pf__loop_silu(1, N, N, zero, x, slope);
    pf__loop_silu(1, N, N, zero, only, NULL);
    for (int i = 0; i < N; i++) {
        double z = (double)(float)(-100 + .01 * i), s = 1 / (1 + exp(-z));
        double off = fabs((double)x[i] - z * s) / (fabs(z * s) + 1e-30);
        worst = z < -87 ? worst : fmax(worst, off); // below, exp stands still
        worst_slope = fmax(worst_slope, fabs((double)slope[i] - s * (1 + z * (1 - s))));
    }
    CHECK_NEAR(worst, 0, 2 * (double)FLT_EPSILON);
    CHECK_NEAR(worst_slope, 0, 12 * (double)FLT_EPSILON);
    CHECK(memcmp(x, only, sizeof x) == 0);
    CHECK(fabs((double)x[0]) < 1e-35 && x[N - 1] == 100);
    PF_CASE("loops: the bias is added before the activation");
    float one[2] = {1, -1};
    pf__loop_silu(1, 2, 2, bias, one, NULL);
    CHECK_NEAR((double)one[0], 1.25 / (1 + exp(-1.25)), 1e-6);
    CHECK_NEAR((double)one[1], -.75 / (1 + exp(.75)), 1e-6);
}

static void test_nonfinite(void)
{
    PF_CASE("loops: what is not a number stays so");
    float zero[3] = {0}, slope[3];
    float a[3] = {NAN, 1, INFINITY}, b[3] = {NAN, 1, INFINITY};
    pf__loop_silu(1, 3, 3, zero, a, slope);
    CHECK(isnan(a[0]) && isnan(slope[0]) && a[1] > .7f && isinf(a[2]));
    pf__loop_relu(1, 3, 3, zero, b, slope);
    CHECK(isnan(b[0]) && b[1] == 1 && isinf(b[2]));
}

static void test_relu(void)
{
    PF_CASE("loops: relu, its slope, the slope product and its column sums");
    const float bias[3] = {.5f, 0, -.5f};
    float x[6] = {-1, 0, .25f, 1, 2, 3}, slope[6], sums[3] = {1, 2, 3};
    const float want[6] = {0, 0, 0, 1.5f, 2, 2.5f}, want_slope[6] = {0, 0, 0, 1, 1, 1};
    pf__loop_relu(2, 3, 3, bias, x, slope);
    CHECK(memcmp(x, want, sizeof x) == 0 && memcmp(slope, want_slope, sizeof slope) == 0);
    float g[6] = {1, 2, 3, 4, 5, 6};
    const float d[6] = {2, 0, 1, 1, 3, -1};
    pf__loop_slope(2, 3, 3, d, g, sums);
    const float want_g[6] = {2, 0, 3, 4, 15, -6}, want_sums[3] = {7, 17, 0};
    CHECK(memcmp(g, want_g, sizeof g) == 0 && memcmp(sums, want_sums, sizeof sums) == 0);
}

// --- matrix products

static double dot(bool at, bool bt, int m, int n, int k, const float *a, const float *b, int i,
                  int j)
{
    double sum = 0;
    for (int l = 0; l < k; l++) {
        sum += (double)a[at ? l * m + i : i * k + l] * (double)b[bt ? j * k + l : l * n + j];
    }
    return sum;
}

static void test_products(void)
{
    static const int shapes[][3] = {{1, 1, 1},   {1, 7, 3},    {5, 1, 9},    {3, 4, 1},
                                    {13, 17, 7}, {16, 64, 33}, {31, 29, 65}, {48, 2, 100}};
    pf_rng rng = rng_of(9);
    PF_CASE("matmul: library and plain C are the sums of products, all four transpositions");
    for (size_t s = 0; s < COUNT(shapes); s++) {
        int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        float *a = draw(&rng, (size_t)(m * k), 1), *b = draw(&rng, (size_t)(k * n), 1);
        float *c = draw(&rng, (size_t)(m * n), 1e6), *plain = draw(&rng, (size_t)(m * n), 1e6);
        for (int which = 0; which < 4; which++) {
            bool at = which & 1, bt = which & 2;
            double worst = 0, worst_plain = 0;
            pf__matmul(at, bt, m, n, k, a, b, c);
            pf__matmul_plain(at, bt, m, n, k, a, b, plain);
            for (int i = 0; i < m * n; i++) {
                double exact = dot(at, bt, m, n, k, a, b, i / n, i % n);
                worst = fmax(worst, fabs((double)c[i] - exact));
                worst_plain = fmax(worst_plain, fabs((double)plain[i] - exact));
            }
            CHECK_NEAR(worst, 0, 2e-7 * (k + 10));
            CHECK_NEAR(worst_plain, 0, 2e-7 * (k + 10));
        }
        free(a);
        free(b);
        free(c);
        free(plain);
    }
    CHECK(strlen(pf__numeric_library()) > 0);
}

// --- features

static const pf_channel_kind kinds[] = {PF_CHANNEL_PLAIN,      PF_CHANNEL_QUATERNION,
                                        PF_CHANNEL_QUATERNION, PF_CHANNEL_QUATERNION,
                                        PF_CHANNEL_QUATERNION, PF_CHANNEL_ANGLE};
enum { N_CHAN = 6, N_FEATURES = 7 };

static void test_feature_values(void)
{
    PF_CASE("features: plain as it is, a quaternion of length one and one sign, sine and cosine");
    const double x[N_CHAN] = {3.5, -2, 4, 0, -4, 1}, minus[N_CHAN] = {3.5, 2, -4, 0, 4, 1};
    const double want[N_FEATURES] = {3.5, 2 / 6., -4 / 6., 0, 4 / 6., sin(1), cos(1)};
    double f[N_FEATURES], g[N_FEATURES];
    CHECK(pf__features_count(N_CHAN, kinds) == N_FEATURES);
    pf__features_of(N_CHAN, kinds, x, f);
    pf__features_of(N_CHAN, kinds, minus, g);
    for (int i = 0; i < N_FEATURES; i++) {
        CHECK_NEAR(f[i], want[i], 1e-15);
        CHECK_NEAR(g[i], want[i], 1e-15);
    }
    PF_CASE(
        "features: without a real part the next number decides the sign; no length is identity");
    const double pure[N_CHAN] = {0, 0, -1, 1, 0, 0}, none[N_CHAN] = {0};
    pf__features_of(N_CHAN, kinds, pure, f);
    CHECK(f[1] == 0 && f[2] > 0 && f[3] < 0);
    pf__features_of(N_CHAN, kinds, none, f);
    CHECK(f[1] == 1 && f[2] == 0 && f[3] == 0 && f[4] == 0);
}

static void test_feature_angle(void)
{
    const pf_channel_kind angle = PF_CHANNEL_ANGLE;
    const double pairs[][3] = {{3, -3, 2 * pi - 6}, {-3, 3, 6 - 2 * pi},   {1, 1 + 6 * pi, 0},
                               {0, 3.1, 3.1},       {100, 100.5, .5},      {.2, .1, -.1},
                               {0, -3.1, -3.1},     {0, 3.2, 3.2 - 2 * pi}};
    PF_CASE("features: the change of an angle is the short way round");
    for (size_t i = 0; i < COUNT(pairs); i++) {
        double change;
        pf__features_change(1, &angle, &pairs[i][0], &pairs[i][1], &change);
        CHECK_NEAR(change, pairs[i][2], 1e-12);
    }
}

static void test_feature_round_trip(void)
{
    PF_CASE("features: a change applied gives the next state up to a turn and a sign");
    pf_rng rng = rng_of(11);
    for (int k = 0; k < 1000; k++) {
        double x[N_CHAN], next[N_CHAN], change[N_CHAN], got[N_CHAN], length = 0, along = 0;
        for (int c = 0; c < N_CHAN; c++) {
            x[c] = pf_rng_normal(&rng);
            next[c] = k % 2 ? pf_rng_normal(&rng) : x[c] + .1 * pf_rng_normal(&rng);
        }
        next[5] *= 9;
        for (int i = 1; i < 5; i++) {
            length += next[i] * next[i];
        }
        memcpy(got, x, sizeof got);
        pf__features_change(N_CHAN, kinds, x, next, change);
        pf__features_apply(N_CHAN, kinds, change, got);
        for (int i = 1; i < 5; i++) {
            along += got[i] * next[i] / sqrt(length);
        }
        bool near = fabs(got[0] - next[0]) < 1e-12 && fabs(fabs(along) - 1) < 1e-12 &&
                    fabs(sin((got[5] - next[5]) / 2)) < 1e-12 && fabs(change[5]) <= pi + 1e-12;
        double same = 0; // in the sign of the start
        for (int i = 1; i < 5; i++) {
            same += got[i] * x[i];
        }
        if (!CHECK(near) || !CHECK(same >= -1e-12)) {
            return;
        }
    }
}

static void test_feature_refusals(void)
{
    pf_error error = {PF_OK, ""};
    PF_CASE("features: a quaternion of three channels is refused");
    CHECK(pf__features_check(N_CHAN, kinds, &error) == PF_OK);
    CHECK(pf__features_check(4, kinds, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "channel 1");
    const pf_channel_kind split[5] = {PF_CHANNEL_QUATERNION, PF_CHANNEL_QUATERNION,
                                      PF_CHANNEL_QUATERNION, PF_CHANNEL_ANGLE,
                                      PF_CHANNEL_QUATERNION};
    CHECK(pf__features_check(5, split, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "four channels in a row");
    const pf_channel_kind eight[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    CHECK(pf__features_check(8, eight, &error) == PF_OK);
    CHECK(pf__features_check(7, eight, &error) == PF_ERR_FORMAT);
}

static void test_feature_nonfinite(void)
{
    PF_CASE("features: what is not a number stays so, in a quaternion too");
    double x[N_CHAN] = {0, 1, 0, 0, 0, 0}, f[N_FEATURES];
    const double change[N_CHAN] = {0, NAN, 0, 0, 0, 0};
    pf__features_apply(N_CHAN, kinds, change, x);
    CHECK(isnan(x[1]) && isnan(x[4]));
    const double bad[N_CHAN] = {0, 1, INFINITY, 0, 0, 0};
    pf__features_of(N_CHAN, kinds, bad, f);
    CHECK(!isfinite(f[2]));
}

void test_network(void)
{
    test_layout();
    test_forward();
    test_gradient();
    test_init();
    test_adam_first();
    test_adam_steps();
    test_silu();
    test_nonfinite();
    test_relu();
    test_products();
    test_feature_values();
    test_feature_angle();
    test_feature_round_trip();
    test_feature_refusals();
    test_feature_nonfinite();
}
