// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "core/kit_layout.h"

#include "host/file.h"
#include "program.h"
#include "settings/config.h"

#include "preflight/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void test_config(void);

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static pf_status read_text(pf_config *config, const char *text, pf_error *error)
{
    return pf__config_read(config, "c.yaml", text, strlen(text), NULL, 0, error);
}

static pf_status read_set(pf_config *config, const char *text, const char *override,
                          pf_error *error)
{
    return pf__config_read(config, text != NULL ? "c.yaml" : NULL, text,
                           text != NULL ? strlen(text) : 0, &override, 1, error);
}

static bool is_empty(const pf_config *config)
{
    static const pf_config zero;
    return memcmp(config, &zero, sizeof zero) == 0;
}

static const char machine[] =
    "plant: exec:./arm --port 3, fast\n"
    "mechanisms:\n"
    "  - {name: none, lo: 0, hi: 0}\n"
    "  - {name: left, lo: -1, hi: +1}\n"
    "  - name: right\n"
    "channels:\n"
    "  - {name: speed, scale: 2.5}\n"
    "  - name: 'turn rate'\n"
    "probes:\n"
    "  - name: l\n"
    "    pulse: {mechanism: left, amplitude: -.5, steps: 12}\n"
    "    charge: 1e-2\n"
    "  - name: both\n"
    "    command: [[0, 1, 1], [0, .5, 1.]]\n"
    "    targets: [left, 2]\n"
    "tasks:\n"
    "  - {name: go, mechanisms: left, policy: drive, reveal: .5, importance: 3}\n"
    "  - {name: spin, mechanisms: [left, right], command: [[0, 1, -1]]}\n"
    "  - name: idle\n"
    "g_cal: .35\n"
    "grid: [.2, .5, .8]\n"
    "bins: 8\n"
    "episodes: 200\n"
    "prior: [.9, .05, .05]\n"
    "hazard: 0\n"
    "budget: {stage1: 8, stage2: 0}\n"
    "alpha: .1\n"
    "j_min: 1\n"
    "stop: break\n"
    "require_probe: false\n"
    "sensor_noise: 1e-3\n"
    "seed: 9007199254740991\n";

static void check_machine_lists(const pf_config *c)
{
    CHECK(c->n_mechanisms == 3 && c->n_channels == 2 && c->n_probes == 2 && c->n_tasks == 3);
    CHECK_STR(c->mechanisms[1].name, "left");
    CHECK(c->mechanisms[1].lo == -1 && c->mechanisms[1].hi == 1);
    CHECK(c->mechanisms[1].place.line == 4 && c->mechanisms[1].place.column == 5);
    CHECK(isnan(c->mechanisms[2].lo) && isnan(c->mechanisms[2].hi));
    CHECK_STR(c->channels[1].name, "turn rate");
    CHECK(c->channels[0].scale == 2.5 && isnan(c->channels[1].scale));
    const pf_config_probe *pulse = &c->probes[0], *command = &c->probes[1];
    CHECK_STR(pulse->pulse_mechanism, "left");
    CHECK(pulse->pulse_amplitude == -.5 && pulse->pulse_steps == 12 && pulse->charge == .01);
    CHECK(pulse->command.value == NULL && pulse->targets.n == 0);
    CHECK(command->pulse_mechanism == NULL && command->pulse_steps == -1);
    CHECK(isnan(command->charge) && isnan(command->pulse_amplitude));
    CHECK(command->command.rows == 2 && command->command.columns == 3);
    CHECK(command->command.value[4] == .5 && command->command.value[5] == 1);
    CHECK(command->targets.n == 2);
    CHECK_STR(command->targets.text[1], "2");
    CHECK(command->place.line == 13);
    CHECK(c->tasks[0].mechanisms.n == 1);
    CHECK_STR(c->tasks[0].mechanisms.text[0], "left");
    CHECK_STR(c->tasks[0].policy, "drive");
    CHECK(c->tasks[0].reveal == .5 && c->tasks[0].importance == 3);
    CHECK(c->tasks[1].command.columns == 3 && c->tasks[1].policy == NULL);
    CHECK(c->tasks[2].mechanisms.n == 0 && isnan(c->tasks[2].reveal));
}

static void test_good(void)
{
    pf_config c;
    pf_error error = {0};
    PF_CASE("config: a whole machine");
    CHECK(read_text(&c, machine, &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK_STR(c.file, "c.yaml");
    CHECK_STR(c.plant, "exec:./arm --port 3, fast");
    check_machine_lists(&c);
    CHECK(c.settings.g_cal == .35 && c.settings.bins == 8 && c.settings.episodes == 200 &&
          c.settings.hazard == 0);
    CHECK(c.settings.grid.n == 3 && c.settings.grid.value[2] == .8 && c.settings.prior.n == 3 &&
          c.settings.prior.value[0] == .9);
    CHECK(c.settings.budget1 == 8 && c.settings.budget2 == 0 && c.settings.alpha == .1 &&
          c.settings.j_min == 1);
    CHECK(c.settings.stop == PF_STOP_BREAK && c.settings.field == 0);
    CHECK(c.settings.sensor_noise == .001 && c.settings.seed == 9007199254740991.0);
    pf__config_free(&c);
    CHECK(is_empty(&c));

    PF_CASE("config: single numbers for lists");
    CHECK(read_text(&c, "grid: 9\nprior: .05\nstop: latch\nrequire_probe: true\n", &error) ==
          PF_OK);
    CHECK(c.settings.grid.n == 1 && c.settings.grid.value[0] == 9 && c.settings.prior.n == 1 &&
          c.settings.prior.value[0] == .05);
    CHECK(c.settings.stop == PF_STOP_LATCH && c.settings.field == 1);
    pf__config_free(&c);
    // an override counts under the new name and the old one
    CHECK(read_set(&c, "require_probe: true\n", "field=false", &error) == PF_OK);
    CHECK(c.settings.field == 0);
    pf__config_free(&c);
    CHECK(read_set(&c, "field: true\n", "require_probe=false", &error) == PF_OK);
    CHECK(c.settings.field == 0);
    pf__config_free(&c);
    pf__config_free(&c);
    pf__config_free(NULL);
}

static void check_untouched(const pf_config *c)
{
    CHECK(c->plant == NULL && c->n_mechanisms == 0 && c->mechanisms == NULL && c->n_tasks == 0);
    CHECK(isnan(c->settings.g_cal) && isnan(c->settings.hazard) && isnan(c->settings.alpha) &&
          isnan(c->settings.j_min));
    CHECK(isnan(c->settings.seed) && isnan(c->settings.sensor_noise));
    CHECK(c->settings.grid.n == 0 && c->settings.prior.n == 0 && c->settings.bins == -1 &&
          c->settings.episodes == -1);
    CHECK(c->settings.budget1 == -1 && c->settings.budget2 == -1 && c->settings.stop == -1);
    CHECK(c->settings.field == -1);
}

static void test_empty(void)
{
    PF_CASE("config: empty");
    pf_config c;
    pf_error error;
    CHECK(pf__config_read(&c, NULL, NULL, 0, NULL, 0, &error) == PF_OK);
    CHECK_STR(c.file, "--set");
    check_untouched(&c);
    pf__config_free(&c);
    if (!pf__config_supported()) {
        return;
    }
    static const char *const texts[] = {
        "", "# nothing\n", "---\n", "{}", "\n\n", "~", "--- # no\n", "\xef\xbb\xbf# mark\n"};
    for (int i = 0; i < COUNT(texts); i++) {
        CHECK(read_text(&c, texts[i], &error) == PF_OK);
        check_untouched(&c);
        pf__config_free(&c);
    }
}

// One text and what must be said of it.
typedef struct refusal {
    const char *text, *message;
} refusal;

static void check_refusals(const char *name, const refusal *refusals, int n)
{
    PF_CASE(name);
    for (int i = 0; i < n; i++) {
        pf_config c;
        pf_error error = {0};
        CHECK(read_text(&c, refusals[i].text, &error) == PF_ERR_FORMAT);
        CHECK(error.code == PF_ERR_FORMAT);
        CHECK_CONTAINS(error.text, refusals[i].message);
        CHECK(is_empty(&c));
        pf__config_free(&c);
    }
}

static void test_yaml(void)
{
    static const refusal refusals[] = {
        {"alpha: .1\nbins: 4\nalpha: .2\n",
         "c.yaml:3:1: alpha: given twice, first in line 1; keep one"},
        {"budget: {stage1: 1,\n  stage1: 2}", "c.yaml:2:3: stage1: given twice"},
        {"alpha: .1\n---\nalpha: .2\n", "c.yaml:2:1: a second document"},
        {"alpha: &a .1\n", "c.yaml:1:8: anchors"},
        {"grid: &a [.1, .2]\n", "c.yaml:1:7: anchors"},
        {"&a {alpha: .1}\n", "c.yaml:1:1: anchors"},
        {"alpha: *a\n", "c.yaml:1:8: aliases"},
        {"alpha: !!float .1\n", "c.yaml:1:8: tags"},
        {"grid: !x [.1, .2]\n", "c.yaml:1:7: tags"},
        {"budget: !x {stage1: 1}\n", "c.yaml:1:9: tags"},
        {"[a, b]: 1\n", "c.yaml:1:1: a key must be a word"},
        {"? {a: b}\n: 1\n", "c.yaml:1:3: a key must be a word"},
        {"bins: 4\ngrid: [.1, .2\n", "c.yaml:3:1: not valid YAML: "},
        {"bins: 4\n\talpha: 1\n", "c.yaml:2:1: not valid YAML: "},
        {"a: [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]\n", "c.yaml:1:19: nested deeper than 16 levels"},
        {"bins: 4\nplant: \"a\\0b\"\n", "c.yaml:2:8: \\0 is not text"},
        {"bins: 4\nplant: a\xff\n", "c.yaml:2:9: byte 0xff is not text; use UTF-8"},
        {"plant: \xc0\xaf\n", "c.yaml:1:8: byte 0xc0"},
        {"plant: \xed\xa0\x80\n", "c.yaml:1:8: byte 0xed"},
        {"plant: \xc3\xbc\xf4\x90\x80\x80\n", "c.yaml:1:9: byte 0xf4"},
        {"plant: \xe2\x82", "c.yaml:1:8: byte 0xe2"},
        {"plant: a\x01\n", "c.yaml:1:9: byte 0x01"},
        {"just words\n", "c.yaml:1:1: must be a mapping"},
        {"- bins\n", "c.yaml:1:1: must be a mapping"},
    };
    check_refusals("config: YAML that is refused", refusals, COUNT(refusals));

    PF_CASE("config: a NUL byte");
    pf_config c;
    pf_error error;
    CHECK(pf__config_read(&c, "c.yaml", "bins: 4\0\n", 9, NULL, 0, &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "c.yaml:1:8: byte 0x00");
    CHECK(pf__config_read(&c, "c.yaml",
                          "\xff\xfe"
                          "a\0",
                          4, NULL, 0, NULL) == PF_ERR_FORMAT);
}

static void test_keys(void)
{
    static const refusal refusals[] = {
        {"bins: 4\nepisode: 20\n", "c.yaml:2:1: episode: unknown key; did you mean 'episodes'?"},
        {"budget: {stage_1: 4}\n",
         "c.yaml:1:10: budget.stage_1: unknown key; did you mean 'stage1'"},
        {"probes:\n  - name: a\n    chrage: 1\n", "c.yaml:3:5: probes.0.chrage: unknown key; did "
                                                  "you mean 'charge'?"},
        {"mechanisms: [{name: a, low: 0}]", "c.yaml:1:24: mechanisms.0.low: unknown key; did you "
                                            "mean 'lo'?"},
        {"channels: [{name: a, xyz: 0}]", "c.yaml:1:22: channels.0.xyz: unknown key; use one of "
                                          "name, scale"},
        {"tasks: [{nam: a}]", "c.yaml:1:10: tasks.0.nam: unknown key; did you mean 'name'?"},
        {"probes: [{name: a, pulse: {steep: 1}}]", "1:28: probes.0.pulse.steep: unknown key; did "
                                                   "you mean 'steps'?"},
        {"zzzzzz: 1\n", "c.yaml:1:1: zzzzzz: unknown key; use one of plant, mechanisms, channels, "
                        "probes, tasks, budget, design, g_cal, grid, bins, episodes, "
                        "alarm_trials, every_severity, scale, weighting, members, seed, "
                        "sensor_noise, sensed_start, prior, hazard, faults, posterior, rehearse, "
                        "rehearsals, stop, alpha, j_min, bound, certificate, field"},
        {"field: true\nrequire_probe: true\n",
         "c.yaml:2:1: require_probe: is the old name of 'field', which is given too; drop one"},
        {"\"a\\nb\": 1\n", "c.yaml:1:1: a?b: unknown key"},
        {"<<: {bins: 4}\n", "c.yaml:1:1: <<: unknown key"},
        {"probes: [{charge: 1}]", "c.yaml:1:10: probes.0.name: is missing"},
        {"mechanisms:\n  - lo: 0\n", "c.yaml:2:5: mechanisms.0.name: is missing"},
        {"channels:\n  - {}\n", "c.yaml:2:5: channels.0.name: is missing"},
        {"tasks: [{reveal: 1}]", "c.yaml:1:9: tasks.0.name: is missing"},
        {"probes: [{name: a, pulse: {amplitude: 1}}]",
         "1:27: probes.0.pulse.mechanism: is missing"},
        {"probes: [{name: a, pulse: {mechanism: b}}]",
         "1:27: probes.0.pulse.amplitude: is missing"},
        {"probes: [{name: a}]", "c.yaml:1:10: probes.0: has none of command, pulse and policy"},
        {"probes: [{name: a, command: [[1]], pulse: {mechanism: 1, amplitude: 1}}]",
         "c.yaml:1:10: probes.0: has several of command, pulse and policy"},
        {"tasks: [{name: a, command: [[1]], policy: p}]", "c.yaml:1:9: tasks.0: has both"},
    };
    check_refusals("config: keys that are refused", refusals, COUNT(refusals));
}

// Every number rule at both ends: `good` passes, `bad` is refused and `want` is said.
typedef struct range {
    const char *key, *good, *bad, *want;
} range;

static void check_range(const range *rule)
{
    pf_config c;
    pf_error error = {0};
    char text[128];
    char values[128];
    snprintf(values, sizeof values, "%s", rule->good);
    for (char *value = strtok(values, " "); value != NULL; value = strtok(NULL, " ")) {
        snprintf(text, sizeof text, "%s: %s\n", rule->key, value);
        CHECK(read_text(&c, text, &error) == PF_OK);
        CHECK_STR(error.text, "");
        pf__config_free(&c);
    }
    snprintf(values, sizeof values, "%s", rule->bad);
    for (char *value = strtok(values, " "); value != NULL; value = strtok(NULL, " ")) {
        snprintf(text, sizeof text, "%s: %s\n", rule->key, value);
        CHECK(read_text(&c, text, &error) == PF_ERR_FORMAT);
        char want[160];
        snprintf(want, sizeof want, "c.yaml:1:%d: %s: must be %s, not '%s'",
                 (int)strlen(rule->key) + 3, rule->key, rule->want, value);
        CHECK_CONTAINS(error.text, want);
    }
}

static void test_ranges(void)
{
    static const range ranges[] = {
        {"g_cal", ".35 1e-3 +.5 5.e-1 0.5E0 0.99999", "0 1 -1 1.5", "a number in (0, 1)"},
        {"grid", "2 256", "1 257 2.5 0 -2", "a whole number from 2 to 256"},
        {"bins", "2 64 +8", "1 65 8.0 8.5 1e1 08 0x8 0b11", "a whole number from 2 to 64"},
        {"episodes", "2 1000000", "1 1000001 1e3 99999999999", "a whole number from 2 to 1000000"},
        {"prior", ".05 .999", "0 1 2", "a number in (0, 1)"},
        {"hazard", "0 .999", "1 -.1", "a number in [0, 1)"},
        {"alpha", ".1", "0 1 .nan .inf nan inf 1e999 0x1p-2 1e 1e+ . + .e1 1.2.3 1_0 .1x 1,5",
         "a number in (0, 1)"},
        {"j_min", ".37 1", ".36 0 1.0001 00.5 01", "a number in [0.37, 1]"},
        {"sensor_noise", "0 1e6", "-1e-9 1000001", "a number in [0, 1e+06]"},
        {"seed", "0 9007199254740991", "-1 9007199254740992 1.5 0o17",
         "a whole number from 0 to 9007199254740991"},
        {"stop", "break latch", "Break halt 0 true", "break or latch"},
        {"scale", "auto pulse residual", "Pulse rms 0 true", "auto, pulse or residual"},
        {"require_probe", "true false", "yes no on 1 True TRUE", "true or false"},
    };
    PF_CASE("config: ranges");
    for (int i = 0; i < COUNT(ranges); i++) {
        check_range(&ranges[i]);
    }
}

static void test_values(void)
{
    static const refusal refusals[] = {
        {"alpha: '.1'\n", "c.yaml:1:8: alpha: must be a number in (0, 1), not quoted '.1'"},
        {"alpha:\n", "alpha: must be a number in (0, 1), not empty"},
        {"alpha: [.1]\n", "c.yaml:1:8: alpha: must be a number in (0, 1), not a list of 1"},
        {"alpha: {a: 1}\n", "c.yaml:1:8: alpha: must be a number in (0, 1), not a mapping"},
        {"alpha: 1 2\n", "c.yaml:1:8: alpha: must be a number in (0, 1), not '1 2'"},
        {"require_probe: 'true'\n", "c.yaml:1:16: require_probe: must be true or false"},
        {"budget: {stage1: 0}\n", "1:18: budget.stage1: must be a whole number from 1 to 100000"},
        {"budget: {stage2: -1}\n", "1:18: budget.stage2: must be a whole number from 0 to 100000"},
        {"budget: 3\n",
         "c.yaml:1:9: budget: must be a mapping of stage1, stage2, rehearsal, not '3'"},
        {"grid: [.5]\n", "c.yaml:1:7: grid: must be a list of 2 to 256 numbers, not a list of 1"},
        {"grid: []\n", "c.yaml:1:7: grid: must be a list of 2 to 256 numbers"},
        {"grid: [.2, 1]\n", "c.yaml:1:12: grid.1: must be a number in (0, 1), not '1'"},
        {"grid: [.2, .5, .5]\n", "c.yaml:1:7: grid: must ascend, but 0.5 follows 0.5"},
        {"grid: [.2, [.5]]\n", "c.yaml:1:12: grid.1: must be a number"},
        {"prior: [.9]\n", "c.yaml:1:8: prior: must be a list of 2 to 256 numbers"},
        {"prior: [.9, .1, 1e-8]\n", "c.yaml:1:8: prior: sums to 1.00000001; the probabilities"},
        {"prior: [1.5, -.5]\n", "c.yaml:1:9: prior.0: must be a number in [0, 1], not '1.5'"},
        {"plant: ''\n", "c.yaml:1:8: plant: must be text of 1 to 4096 bytes"},
        {"plant: null\n", "c.yaml:1:8: plant: must be text of 1 to 4096 bytes"},
        {"plant: \"a\\tb\"\n", "c.yaml:1:8: plant: must be text of 1 to 4096 bytes without"},
        {"plant: [a]\n", "c.yaml:1:8: plant: must be text"},
        {"mechanisms: []\n",
         "c.yaml:1:13: mechanisms: must be a list of 1 to 256 names or mappings"},
        {"mechanisms: {name: a}\n", "c.yaml:1:13: mechanisms: must be a list of 1 to 256"},
        {"mechanisms: [[a]]\n",
         "c.yaml:1:14: mechanisms.0: must be a name or a mapping of name, lo, hi"},
        {"channels: [x, {name: x}]\n", "channels: 0 and 1 are both called 'x'; rename one"},
        {"channels: [~]\n", "channels.0: must be a name or a mapping"},
        {"channels: [\"\"]\n", "channels.0: must be text of 1 to 64 bytes"},
        {"probes: [a]\n", "c.yaml:1:10: probes.0: must be a mapping of name"},
        {"mechanisms: [{name: a, lo: 1, hi: .5}]", "1:14: mechanisms.0: lo 1 is above hi 0.5"},
        {"mechanisms: [{name: a, lo: -.inf}]", "1:28: mechanisms.0.lo: must be a finite number"},
        {"mechanisms:\n  - name: a\n  - name: b\n  - name: a\n",
         "c.yaml:4:11: mechanisms: 0 and 2 are both called 'a'; rename one"},
        {"channels: [{name: a, scale: 0}]",
         "1:29: channels.0.scale: must be a finite number above"},
        {"channels: [{name: 'a,b'}]", "1:19: channels.0.name: must be text of 1 to 64 bytes "},
        {"channels: [{name: \"a'b\"}]", "c.yaml:1:19: channels.0.name: must be text"},
        {"channels: [{name: 'a\"b'}]", "c.yaml:1:19: channels.0.name: must be text"},
        {"channels: [{name: \"a\\x7f\"}]", "c.yaml:1:19: channels.0.name: must be text"},
        {"channels: [{name: \"a\\u009b\"}]", "c.yaml:1:19: channels.0.name: must be text"},
        {"channels: [{name: ''}]", "c.yaml:1:19: channels.0.name: must be text"},
        {"channels: [{name: a2345678901234567890123456789012345678901234567890123456789012345}]",
         "c.yaml:1:19: channels.0.name: must be text of 1 to 64 bytes"},
        {"tasks: [{name: a, mechanisms: []}]", "1:31: tasks.0.mechanisms: must be a list of 1 to"},
        {"tasks: [{name: a, mechanisms: [b, [c]]}]", "1:35: tasks.0.mechanisms.1: must be text"},
        {"tasks: [{name: a, reveal: -1}]", "1:27: tasks.0.reveal: must be a finite number of at "},
        {"tasks: [{name: a, importance: -1}]", "1:31: tasks.0.importance: must be a finite number"},
    };
    check_refusals("config: values that are refused", refusals, COUNT(refusals));
}

static void test_probe_values(void)
{
    static const refusal refusals[] = {
        {"probes: [{name: a, charge: 0}]",
         "1:28: probes.0.charge: must be a finite number above 0"},
        {"probes: [{name: a, pulse: 3}]", "1:27: probes.0.pulse: must be a mapping of mechanism, "},
        {"probes: [{name: a, pulse: {mechanism: 1, amplitude: -0.0}}]",
         "c.yaml:1:53: probes.0.pulse.amplitude: must be a finite number other than 0, not '-0.0'"},
        {"probes: [{name: a, pulse: {mechanism: 1, amplitude: 1, steps: 0}}]",
         "c.yaml:1:63: probes.0.pulse.steps: must be a whole number from 1 to 65536, not '0'"},
        {"probes: [{name: a, command: []}]",
         "1:29: probes.0.command: must be a list of 1 to 65536"},
        {"probes: [{name: a, command: [1, 2]}]", "1:30: probes.0.command: must be a list of 1 to"},
        {"probes: [{name: a, command: [[]]}]", "1:30: probes.0.command: must be a list of 1 to"},
        {"probes: [{name: a, command: [[1, 2], [3]]}]",
         "c.yaml:1:38: probes.0.command: a row of 1, the first has 2"},
        {"probes: [{name: a, command: [[1, 2], [3, x]]}]",
         "c.yaml:1:42: probes.0.command.1.1: must be a finite number, not 'x'"},
    };
    check_refusals("config: probe values that are refused", refusals, COUNT(refusals));
}

// A text that repeats a part: head, then n times part with a running number, then tail.
static char *repeat(const char *head, const char *part, int n, const char *tail)
{
    size_t size = strlen(head) + (strlen(part) + 12) * (size_t)n + strlen(tail) + 1;
    char *text = malloc(size);
    if (text == NULL) {
        return NULL;
    }
    size_t used = (size_t)snprintf(text, size, "%s", head);
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, size - used, part, i);
    }
    snprintf(text + used, size - used, "%s", tail);
    return text;
}

static void check_repeated(const char *head, const char *part, int n, const char *tail,
                           const char *message)
{
    pf_config c;
    pf_error error = {0};
    char *text = repeat(head, part, n, tail);
    CHECK(text != NULL);
    if (text == NULL) {
        return;
    }
    CHECK(read_text(&c, text, &error) == (message != NULL ? PF_ERR_FORMAT : PF_OK));
    CHECK_CONTAINS(error.text, message != NULL ? message : "");
    pf__config_free(&c);
    free(text);
}

static void test_limits(void)
{
    PF_CASE("config: sizes");
    check_repeated("mechanisms:\n", "- {name: m%d}\n", 256, "", NULL);
    check_repeated("mechanisms:\n", "- {name: m%d}\n", 257, "", "c.yaml:2:1: mechanisms: must be");
    check_repeated("channels:\n", "- {name: c%d}\n", 4096, "", NULL);
    check_repeated("channels:\n", "- {name: c%d}\n", 4097, "", "not a list of 4097");
    check_repeated("probes:\n- name: a\n  command:\n", "  - [%d]\n", 65536, "", NULL);
    check_repeated("probes:\n- name: a\n  command:\n", "  - [%d]\n", 65537, "", "list of 65537");
    check_repeated("probes:\n- name: a\n  command:\n  - [", "%d,", 256, "]\n", NULL);
    check_repeated("probes:\n- name: a\n  command:\n  - [", "%d,", 257, "]\n", "not a list of 257");
    check_repeated("x: [", "%d,", 200001, "]\n", "more than 200000 values in all");
    check_repeated("", "k%d: 1\n", 257, "", "c.yaml:257:1: more than 256 keys in one mapping");
    check_repeated("#", "%d ", 16 << 18, "", "c.yaml:1:1: is larger than 16 MiB");

    PF_CASE("config: a long name of a file leaves room for what is wrong");
    char *name = repeat("", "d%d/", 200, "c.yaml");
    CHECK(name != NULL);
    if (name != NULL) {
        pf_config c;
        pf_error error;
        CHECK(pf__config_read(&c, name, "bin: 4", 6, NULL, 0, &error) == PF_ERR_FORMAT);
        CHECK_CONTAINS(error.text, "...:1:1: bin: unknown key; did you mean 'bins'?");
        free(name);
    }
}

static void test_overrides(void)
{
    PF_CASE("config: overrides replace and add");
    static const char *const overrides[] = {"probes.0.charge=.1",
                                            "probes.1.targets=right",
                                            "probes.2.name=new",
                                            "probes.2.pulse.steps=3",
                                            "probes.2.pulse.amplitude=1",
                                            "probes.2.pulse.mechanism=2",
                                            "grid=[.25, .75]",
                                            "budget.stage2=5",
                                            "plant=exec:./a b=c.d",
                                            "tasks.1={name: t, mechanisms: [1, 2]}",
                                            "alpha=.2",
                                            "alpha=.3"};
    pf_config c;
    pf_error error = {0};
    CHECK(pf__config_read(&c, "c.yaml", machine, strlen(machine), overrides, COUNT(overrides),
                          &error) == PF_OK);
    CHECK_STR(error.text, "");
    CHECK(c.n_probes == 3 && c.probes[0].charge == .1 && c.probes[0].place.line == 10);
    CHECK(c.probes[1].targets.n == 1 && c.probes[2].place.line == 0);
    CHECK_STR(c.probes[2].name, "new");
    CHECK(c.probes[2].pulse_steps == 3 && c.probes[2].pulse_amplitude == 1);
    CHECK(c.settings.grid.n == 2 && c.settings.grid.value[1] == .75);
    CHECK(c.settings.budget1 == 8 && c.settings.budget2 == 5 && c.settings.alpha == .3);
    CHECK_STR(c.plant, "exec:./a b=c.d");
    CHECK(c.n_tasks == 3 && c.tasks[1].mechanisms.n == 2 && c.tasks[1].command.value == NULL);
    pf__config_free(&c);

    PF_CASE("config: overrides without a file, and into empty keys");
    CHECK(read_set(&c, NULL, "budget.stage1=4", &error) == PF_OK);
    CHECK(c.settings.budget1 == 4 && c.settings.budget2 == -1);
    CHECK_STR(c.file, "--set");
    pf__config_free(&c);
    CHECK(read_set(&c, "budget:\n", "budget.stage1=4", &error) == PF_OK);
    CHECK(c.settings.budget1 == 4);
    pf__config_free(&c);
    CHECK(read_set(&c, "episode: 4\n", "bins=4", &error) == PF_ERR_FORMAT);
    CHECK_CONTAINS(error.text, "c.yaml:1:1: episode: unknown key");
    CHECK(read_set(&c, "bins: 400\n", "bins=4", &error) == PF_OK);
    pf__config_free(&c);
}

static void test_bad_overrides(void)
{
    static const refusal refusals[] = {
        {"alpha", "--set alpha: has no '='; write it as a.b=value"},
        {"=3", "--set =3: a key is empty"},
        {".a=3", "--set .a=3: a key is empty"},
        {"budget.=3", "--set budget.=3: a key is empty"},
        {"", "--set : has no '='"},
        {"alpha=", "--set alpha=: has no value"},
        {"alpha= # 3", "--set alpha= # 3: has no value"},
        {"alpha=~", "--set alpha=~: alpha: must be a number in (0, 1), not empty"},
        {"alpha=2", "--set alpha=2: alpha: must be a number in (0, 1), not '2'"},
        {"alpah=.2", "--set alpah=.2: alpah: unknown key; did you mean 'alpha'?"},
        {"budget.stage3=1", "--set budget.stage3=1: budget.stage3: unknown key; did you mean "},
        {"alpha.x=2", "--set alpha.x=2: alpha: is a single value and has no parts"},
        {"grid=[.2", "--set grid=[.2: not valid YAML: "},
        {"grid=[.2, 3]", "--set grid=[.2, 3]: grid.1: must be a number in (0, 1), not '3'"},
        {"grid=[.5, .2]", "--set grid=[.5, .2]: grid: must ascend"},
        {"budget={stage1: 1, stage1: 2}", "stage1: given twice; keep one"},
        {"probes.9.name=a", "--set probes.9.name=a: index 9 is past the list; use 0 to 2"},
        {"probes.x.name=a", "--set probes.x.name=a: a list needs an index from 0 to 2"},
        {"probes.99999999999.name=a", "a list needs an index from 0 to 2"},
        {"probes.2.name=a",
         "--set probes.2.name=a: probes.2: has none of command, pulse and policy"},
        {"probes.1.name=l", "--set probes.1.name=l: probes: 0 and 1 are both called 'l'"},
        {"mechanisms.1.lo=5", "c.yaml:4:5: mechanisms.1: lo 5 is above hi 1"},
        {"alpha=.1\n--- .2", "--set alpha=.1?--- .2: a second document"},
        {"alpha=&a .1", "--set alpha=&a .1: anchors"},
        {"alpha=\xff", "byte 0xff is not text"},
        {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1", "nested deeper than 16 levels"},
    };
    PF_CASE("config: overrides that are refused");
    for (int i = 0; i < COUNT(refusals); i++) {
        pf_config c;
        pf_error error = {0};
        CHECK(read_set(&c, machine, refusals[i].text, &error) == PF_ERR_FORMAT);
        CHECK_CONTAINS(error.text, refusals[i].message);
        CHECK(is_empty(&c));
    }
}

static void test_nearest(void)
{
    PF_CASE("config: nearest word");
    static const char *const known[] = {"alpha", "episodes", "require_probe", "lo"};
    CHECK_STR(pf__nearest_word("alpah", known, 4), "alpha");
    CHECK_STR(pf__nearest_word("alpha", known, 4), "alpha");
    CHECK_STR(pf__nearest_word("reqire_prob", known, 4), "require_probe");
    CHECK_STR(pf__nearest_word("epsode", known, 4), "episodes");
    CHECK_STR(pf__nearest_word("low", known, 4), "lo");
    CHECK(pf__nearest_word("epis", known, 4) == NULL);
    CHECK(pf__nearest_word("x", known, 4) == NULL);
    CHECK(pf__nearest_word("", known, 4) == NULL);
    CHECK(pf__nearest_word("require", known, 4) == NULL);
    CHECK(pf__nearest_word("alpha", NULL, 0) == NULL);
    CHECK(pf__nearest_word("a2345678901234567890123456789012345678901234567890123456789012345",
                           known, 4) == NULL);
}

static void test_unsupported(void)
{
    PF_CASE("config: built without libyaml");
    pf_config c;
    pf_error error;
    CHECK(read_text(&c, "bins: 4\n", &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "c.yaml: this program was built without libyaml");
    CHECK(read_set(&c, NULL, "grid=[.2, .5]", &error) == PF_ERR_UNSUPPORTED);
    CHECK_CONTAINS(error.text, "install libyaml-dev and rebuild");
    CHECK(is_empty(&c));
    CHECK(read_set(&c, NULL, "bins=4", &error) == PF_OK && c.settings.bins == 4);
    pf__config_free(&c);
}

// The docs hold the table that the program prints.
static void test_docs(void)
{
    PF_CASE("settings: docs/settings.md is up to date");
    char folder[200], path[256], call[320];
    pf_error error = {PF_OK, ""};
    void *printed = NULL, *docs = NULL;
    size_t n = 0;
    if (!CHECK(program_folder(folder, sizeof folder, "settings"))) {
        return;
    }
    snprintf(path, sizeof path, "%s/table.md", folder);
    snprintf(call, sizeof call, "list settings --format md >'%s'", path);
    CHECK(program(call, 0, ""));
    CHECK(program("list settings --json", 0, "\"key\":\"field\",\"old\":\"require_probe\""));
    CHECK(program("list methods --format md", 2, "list settings --format md"));
    CHECK(program("calibrate --help", 0, "budget.stage2=2 "));
    CHECK(program("bench --help", 0, "hazard=0.01 "));
    if (CHECK(pf__file_read(path, 1 << 20, &printed, &n, &error) == PF_OK) &&
        CHECK(pf__file_read(PF_SOURCE "/docs/settings.md", 1 << 20, &docs, &n, &error) == PF_OK)) {
        CHECK(strstr(docs, printed) != NULL); // preflight list settings --format md
    }
    free(printed);
    free(docs);
}

// Every setting that is not given has the default of its use.
static void test_defaults(void)
{
    PF_CASE("settings: defaults of a kit for use and of a suite");
    pf_settings kit = pf__settings_default(PF_SETTINGS_FIELD);
    pf_settings suite = pf__settings_default(PF_SETTINGS_SUITE);
    CHECK(kit.field == 1 && kit.stop == PF_STOP_LATCH && kit.hazard == 0 && kit.budget2 == 2);
    CHECK(suite.field == 0 && suite.stop == PF_STOP_BREAK && suite.hazard == .01);
    CHECK(suite.budget2 == 1 && suite.members == 1 && kit.members == 16);
    CHECK(pf__settings_number(&kit.prior) == .05 && pf__settings_number(&suite.prior) == 0);
    CHECK(pf__settings_number(&kit.grid) == 17 && kit.budget1 == -1 && isnan(kit.sensor_noise));
    PF_CASE("settings: what is given stays");
    pf_settings s;
    pf__settings_clear(&s);
    s.alpha = .2;
    s.stop = PF_STOP_BREAK;
    pf__settings_complete(&s, PF_SETTINGS_FIELD);
    CHECK(s.alpha == .2 && s.stop == PF_STOP_BREAK && s.j_min == .85);
    PF_CASE("settings: the name of a setting");
    pf_error error = {PF_OK, ""};
    CHECK(pf__settings_known("alpha=.2", &error) == PF_OK);
    CHECK(pf__settings_known("require_probe=true", &error) == PF_OK);
    CHECK(pf__settings_known("budget.stage1=3", &error) == PF_OK);
    CHECK(pf__settings_known("sigma=.1", &error) != PF_OK); // of suites alone
    CHECK(pf__settings_known("alpah=.2", &error) != PF_OK);
    CHECK_STR(error.text, "alpah: is no setting; did you mean 'alpha'?");
    CHECK(pf__settings_known("plant=x", &error) != PF_OK);
    CHECK_CONTAINS(error.text, "preflight list settings");
}

void test_config(void)
{
    test_defaults();
    test_docs();
    test_nearest();
    test_empty();
    if (!pf__config_supported()) {
        test_unsupported();
        return;
    }
    test_good();
    test_yaml();
    test_keys();
    test_ranges();
    test_values();
    test_probe_values();
    test_limits();
    test_overrides();
    test_bad_overrides();
}
