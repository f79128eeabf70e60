// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "calibrate/doctor.h"
#include "cli.h"

#include "host/parallel.h"
#include "plant/plant_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    const char *config, *seed, *starts, *progress;
    cli_list set, plant;
    bool json;
    cli_form form;
} call;

// What was found, in words. What stops a kit, or keeps a task from ever being go, is counted.
typedef struct findings {
    const pf_plan *plan;
    const pf_plant_info *info;
    const pf_doctor *d;
    pf_text text;
    int n, stops;
    bool quiet;      // nothing disturbs the plant and nothing is added to its sensors
    bool amplitudes; // the config to paste has probes
    double *scale;   // n_chan: what is suggested
} findings;

enum { LEAST_APART = 3 }; // the separation that calibrate asks for
// A response so many times its share is one of a simulation that runs away.
static const double far_more = 100;
// A scale below this share of the largest reading is lost in its rounding.
static const double least_scale = 1e-9;
// Error of a task that one channel may have before its scale is to blame, and what it should have.
static const double most_share = .5, fair_share = .1;

static void say(findings *f, bool stops, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(findings *f, bool stops, const char *format, ...)
{
    char line[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pf__text_addf(&f->text, "%d. %s\n", ++f->n, line);
    f->stops += stops;
}

// One finding about several mechanisms, which `names` lists; nothing where it is empty.
static void say_list(findings *f, const char *before, pf_text *names, const char *after)
{
    if (names->size > 0) {
        pf__text_addf(&f->text, "%d. %s%s%s\n", ++f->n, before, names->data, after);
    }
    pf__text_free(names);
}

// What stands before the next name of such a list.
static const char *comma(const pf_text *names)
{
    return names->size > 0 ? ", " : "";
}

static const char *channel_name(const findings *f, int channel)
{
    return f->plan->channels[channel].name;
}

static const char *mechanism_name(const findings *f, int mechanism)
{
    return f->plan->mechanisms[mechanism].name;
}

// --- findings

static void judge_repeats(findings *f)
{
    bool repeats = pf__repeats_itself(f->d->repeat, PF_REPEAT_WAYS);
    for (int way = 0; way < PF_REPEAT_WAYS && !repeats; way++) {
        const pf_repeat *r = &f->d->repeat[way];
        if (r->differs > PF_ROUNDING) {
            say(f, true,
                "The same trajectory run %s differs by %.2g of the largest reading of %s: %s. "
                "Everything random must come from the seed that the plant is given.",
                pf__repeat_name((pf_repeat_way)way), r->differs, channel_name(f, r->channel),
                pf__repeat_cause((pf_repeat_way)way));
            return; // what comes after it has the same cause
        }
    }
    if (f->d->tolerance > 0) {
        say(f, false,
            "It repeats itself to rounding only. Readings that differ by less than %.1g of the "
            "largest one count as equal.",
            f->d->tolerance);
    }
}

static void judge_dormancy(findings *f)
{
    pf_text loaded = {0};
    for (int j = 1; j < f->plan->n_mech; j++) {
        const pf_repeat *r = &f->d->passive[j];
        bool shows = r->differs > f->d->tolerance;
        if (shows && pf__plant_loses_force(f->info, j)) {
            pf__text_addf(&loaded, "%s%s (%.2g of %s)", comma(&loaded), mechanism_name(f, j),
                          r->differs, channel_name(f, r->channel));
        } else if (shows) {
            say(f, true,
                "The loss of %s is not dormant: what today's controller does moves %s by %.2g of "
                "its largest reading when it is weak. Leave it out of `passive`, or make it "
                "mechanism 0.",
                mechanism_name(f, j), channel_name(f, r->channel), r->differs);
        }
    }
    say_list(f,
             "A loss of force is also one of what is held at rest, and moves so much of a "
             "channel's largest reading before any command: ",
             &loaded, ". Today's logs may show it.");
}

// The multiple of a probe under which the machine fails or does far more than its share; 0: none.
static double runs_away_at(const pf_doctor *d, int mechanism)
{
    for (int i = PF_SWEEP_PROBE + 1; i < PF_SWEEP; i++) {
        double response = d->sweep[(size_t)mechanism * PF_SWEEP + (size_t)i];
        if (response > far_more && isfinite(response)) {
            return pf__sweep[i];
        }
    }
    return d->fails[mechanism];
}

static void judge_sweeps(findings *f)
{
    pf_text dead = {0}, saturated = {0}, fails = {0};
    for (int j = 1; j < f->plan->n_mech; j++) {
        if (pf__doctor_dead_zone(f->d, j)) {
            pf__text_addf(&dead, "%s%s (%.0f %%)", comma(&dead), mechanism_name(f, j),
                          100 * f->d->sweep[(size_t)j * PF_SWEEP]);
        }
        if (pf__doctor_saturates(f->d, j)) {
            pf__text_addf(&saturated, "%s%s", comma(&saturated), mechanism_name(f, j));
        }
        double runs_away = runs_away_at(f->d, j);
        if (runs_away > 0) {
            pf__text_addf(&fails, "%s%s (%g times)", comma(&fails), mechanism_name(f, j),
                          runs_away);
        }
        f->amplitudes =
            f->amplitudes || pf__doctor_amplitude(f->d, j) != 1 || pf__doctor_longer(f->d, j) != 1;
    }
    say_list(f, "Dead zones: a sixteenth of a probe does so much of its share: ", &dead,
             ". A loss there is not a gain; keep commands large.");
    say_list(f, "Saturation: twice or four times a probe does less than its share: ", &saturated,
             ".");
    say_list(f,
             "The simulation runs away under a multiple of a probe that the limits allow: ", &fails,
             ". Give narrower limits, or the simulation a shorter step.");
}

static void judge_mechanisms(findings *f)
{
    judge_dormancy(f);
    for (int q = 0; q < f->plan->n_probes && !f->quiet; q++) {
        int j = f->plan->probes[q].targets[0];
        double apart = f->d->apart[j];
        if (!(apart > 0)) {
            say(f, true, "The probe of %s shows nothing of a loss to %.3g.", mechanism_name(f, j),
                f->plan->settings.g_cal);
        } else if (apart < PF_GOOD_APART) {
            say(f, apart < LEAST_APART,
                "A loss of %s to %.3g lies %.1f standard deviations from healthy in one probe; "
                "%d are good. Make its probe stronger or longer.",
                mechanism_name(f, j), f->plan->settings.g_cal, apart, PF_GOOD_APART);
        }
    }
    judge_sweeps(f);
}

static void judge_channels(findings *f)
{
    for (int c = 0; c < f->plan->n_chan; c++) {
        const pf_doctor *d = f->d;
        f->scale[c] = d->scale[c];
        if (d->scale[c] < least_scale * d->largest[c]) {
            f->scale[c] = fmax(d->moved[c], d->noise[c]);
            say(f, true, "%s is divided by %.3g, which is lost in the rounding of its readings.",
                channel_name(f, c), d->scale[c]);
        } else if (!(d->moved[c] > 0)) {
            say(f, false, "No probe moves %s: it says nothing.", channel_name(f, c));
        }
    }
    if (f->quiet) {
        say(f, true,
            "Nothing disturbs it and its sensors are exact, so there is no noise to calibrate "
            "against: set sensor_noise, in shares of a channel's scale.");
    }
}

static void judge_tasks(findings *f)
{
    if (f->d->failure[0]) {
        say(f, true, "Calibrate would fail: %s.", f->d->failure);
    }
    for (int t = 0; t < f->plan->n_tasks; t++) {
        const double *share = f->d->error_share + (size_t)t * (size_t)f->plan->n_chan;
        double bound = f->d->bound[t], j_min = f->plan->settings.j_min;
        int most = 0;
        for (int c = 1; c < f->plan->n_chan; c++) {
            most = share[c] > share[most] ? c : most;
        }
        if (bound >= j_min) {
            continue;
        }
        if (share[most] > most_share) {
            f->scale[most] =
                fmax(f->scale[most], f->d->scale[most] * sqrt(share[most] / fair_share));
        }
        say(f, true,
            "Task %s can never be go: a healthy machine is promised %.3f, j_min is %.3g. %.0f %% "
            "of what it misses is in %s, which is divided by %.3g.",
            f->plan->tasks[t].name, bound, j_min, 100 * share[most], channel_name(f, most),
            f->d->scale[most]);
    }
}

// --- the page

static void show_repeats(const findings *f, pf_text *out)
{
    pf__text_add(out, "## Does it repeat itself?\n\nthe same trajectory\tdiffers by\n");
    for (int way = 0; way < PF_REPEAT_WAYS; way++) {
        const pf_repeat *r = &f->d->repeat[way];
        pf__text_addf(out, "%s\t", pf__repeat_name((pf_repeat_way)way));
        if (r->differs > 0) {
            pf__text_addf(out, "%.2g of %s\n", r->differs, channel_name(f, r->channel));
        } else {
            pf__text_add(out, "nothing, to the bit\n");
        }
    }
}

static void show_time(const findings *f, pf_text *out)
{
    char calibration[32];
    cli_time(f->d->calibration_s, calibration, sizeof calibration);
    pf__text_addf(
        out,
        "\n## How long does it take?\n\nA trajectory of %.0f rows takes %.3g ms. A calibration "
        "with one pulse per mechanism takes about %s on one thread.\n",
        f->d->trajectory_rows, 1e3 * f->d->trajectory_s, calibration);
}

static void show_mechanisms(const findings *f, pf_text *out)
{
    pf__text_addf(out,
                  "\n## What does a loss show?\n\n"
                  "Apart: standard deviations between a healthy machine and a loss to %.3g in one "
                  "probe. Then the response per command at these multiples of the probe.\n\n"
                  "mechanism\t>apart\tmost in",
                  f->plan->settings.g_cal);
    pf__text_add(out, "\t>1/16\t>1/8\t>1/4\t>1/2\t>1\t>2\t>4\n");
    for (int q = 0; q < f->plan->n_probes; q++) {
        int j = f->plan->probes[q].targets[0], most = 0;
        const double *shows = f->d->shows + (size_t)j * (size_t)f->plan->n_chan;
        for (int c = 1; c < f->plan->n_chan; c++) {
            most = shows[c] / f->d->scale[c] > shows[most] / f->d->scale[most] ? c : most;
        }
        pf__text_addf(out, "%s\t", mechanism_name(f, j));
        pf__text_addf(out, f->quiet ? "-" : "%.1f", f->d->apart[j]);
        pf__text_addf(out, "\t%s", channel_name(f, most));
        for (int i = 0; i < PF_SWEEP; i++) {
            double ratio = f->d->sweep[(size_t)j * PF_SWEEP + (size_t)i];
            pf__text_addf(out, isnan(ratio) ? "\t-" : "\t%.2f", ratio);
        }
        pf__text_add(out, "\n");
    }
}

static void show_channels(const findings *f, pf_text *out)
{
    pf__text_add(out, "\n## The channels, in their own units\n\n"
                      "channel\t>divided by\t>probes move\t>noise moves\t>largest reading\n");
    for (int c = 0; c < f->plan->n_chan; c++) {
        pf__text_addf(out, "%s\t%.3g\t%.3g\t%.3g\t%.3g\n", channel_name(f, c), f->d->scale[c],
                      f->d->moved[c], f->d->noise[c], f->d->largest[c]);
    }
}

static void show_tasks(const findings *f, pf_text *out)
{
    pf__text_addf(out,
                  "\n## What can a healthy machine be promised?\n\n"
                  "A go needs a bound of %.3g.\n\ntask\t>mean return\t>bound\n",
                  f->plan->settings.j_min);
    for (int t = 0; t < f->plan->n_tasks; t++) {
        pf__text_addf(out, "%s\t%.3f\t%.3f\n", f->plan->tasks[t].name, f->d->mean[t],
                      f->d->bound[t]);
    }
}

// A configuration with what was suggested. YAML in flow style, so names are quoted as in JSON.
static void show_config(const findings *f, pf_text *out)
{
    const pf_plan *plan = f->plan;
    pf__text_add(out, "\n# a configuration to start from\n");
    if (f->quiet) {
        double noise = f->info->sensor_noise > 0 ? f->info->sensor_noise : .25;
        pf__text_addf(out, "sensor_noise: %.3g\n", noise);
    }
    pf__text_add(out, "channels:\n");
    for (int c = 0; c < plan->n_chan; c++) {
        pf__text_add(out, "  - {name: ");
        pf__json_string(out, channel_name(f, c));
        pf__text_addf(out, ", scale: %.3g}\n", f->scale[c]);
    }
    for (int q = 0; q < plan->n_probes && f->amplitudes; q++) {
        const pf_plan_probe *p = &plan->probes[q];
        int j = p->targets[0];
        double amplitude = p->command[j] * pf__doctor_amplitude(f->d, j);
        pf__text_add(out, q == 0 ? "probes:\n  - {name: " : "  - {name: ");
        pf__json_string(out, p->name);
        pf__text_add(out, ", pulse: {mechanism: ");
        pf__json_string(out, mechanism_name(f, j));
        pf__text_addf(out, ", amplitude: %.3g, steps: %d}}\n", amplitude,
                      p->rows * pf__doctor_longer(f->d, j));
    }
}

static void show(const findings *f)
{
    pf_text out = {0};
    show_repeats(f, &out);
    if (pf__repeats_itself(f->d->repeat, PF_REPEAT_WAYS)) {
        show_time(f, &out);
        show_mechanisms(f, &out);
        show_channels(f, &out);
        show_tasks(f, &out);
    }
    pf__text_add(&out, "\n## What to do\n\n");
    pf__text_add(&out, f->n > 0 ? f->text.data : "Nothing: calibrate it.\n");
    cli_show(&out);
    pf__text_clear(&out);
    if (f->n > 0 &&
        pf__repeats_itself(f->d->repeat, PF_REPEAT_WAYS)) { // to paste: its lines are not broken
        show_config(f, &out);
        cli_print(&out);
    }
    pf__text_free(&out);
}

// --- as JSON

static void json_repeats(const findings *f, pf_text *out)
{
    pf__json_open(out, "repeats", "[");
    for (int way = 0; way < PF_REPEAT_WAYS; way++) {
        const pf_repeat *r = &f->d->repeat[way];
        pf__json_open(out, NULL, "{");
        pf__json_add_string(out, "how", pf__repeat_name((pf_repeat_way)way));
        pf__json_add_number(out, "differs", r->differs);
        pf__json_add_string(out, "channel", channel_name(f, r->channel));
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
}

static void json_rest(const findings *f, pf_text *out)
{
    const pf_doctor *d = f->d;
    size_t chan = (size_t)f->plan->n_chan;
    pf__json_add_number(out, "trajectory_s", d->trajectory_s);
    pf__json_add_number(out, "calibration_s", d->calibration_s);
    pf__json_open(out, "mechanisms", "[");
    for (int j = 1; j < f->plan->n_mech; j++) {
        pf__json_open(out, NULL, "{");
        pf__json_add_string(out, "name", mechanism_name(f, j));
        pf__json_add_number(out, "passive_differs", d->passive[j].differs);
        pf__json_add_number(out, "apart", d->apart[j]);
        pf__json_key(out, "shows");
        pf__json_numbers(out, f->plan->n_chan, d->shows + (size_t)j * chan);
        pf__json_key(out, "sweep");
        pf__json_numbers(out, PF_SWEEP, d->sweep + (size_t)j * PF_SWEEP);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
    pf__json_open(out, "channels", "[");
    for (int c = 0; c < f->plan->n_chan; c++) {
        pf__json_open(out, NULL, "{");
        pf__json_add_string(out, "name", channel_name(f, c));
        pf__json_add_number(out, "scale", d->scale[c]);
        pf__json_add_number(out, "moved", d->moved[c]);
        pf__json_add_number(out, "noise", d->noise[c]);
        pf__json_add_number(out, "largest", d->largest[c]);
        pf__json_add_number(out, "suggested_scale", f->scale[c]);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
    pf__json_open(out, "tasks", "[");
    for (int t = 0; t < f->plan->n_tasks; t++) {
        pf__json_open(out, NULL, "{");
        pf__json_add_string(out, "name", f->plan->tasks[t].name);
        pf__json_add_number(out, "mean", d->mean[t]);
        pf__json_add_number(out, "bound", d->bound[t]);
        pf__json_key(out, "error_share");
        pf__json_numbers(out, f->plan->n_chan, d->error_share + (size_t)t * chan);
        pf__text_add(out, "}");
    }
    pf__text_add(out, "]");
}

static void show_json(const findings *f)
{
    pf_text out = {0};
    pf__json_open(&out, NULL, "{");
    pf__json_add_string(&out, "plant", f->info->name);
    json_repeats(f, &out);
    pf__json_add_number(&out, "tolerance", f->d->tolerance);
    if (pf__repeats_itself(f->d->repeat, PF_REPEAT_WAYS)) {
        json_rest(f, &out);
    }
    pf__json_add_int(&out, "stops", f->stops);
    pf__json_open(&out, "findings", "[");
    char *line = f->text.data, *save = NULL;
    for (line = line ? strtok_r(line, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        pf__json_comma(&out);
        pf__json_string(&out, strchr(line, ' ') + 1);
    }
    pf__text_add(&out, "]}\n");
    cli_print(&out);
    pf__text_free(&out);
}

// --- the command

static int judge(const call *c, const pf_plan *plan, pf_plant *plant, const pf_doctor *d)
{
    findings f = {.plan = plan, .info = pf_plant_get_info(plant), .d = d};
    f.scale = calloc((size_t)plan->n_chan, sizeof *f.scale);
    if (!f.scale) {
        pf_error error = {PF_ERR_MEMORY, "out of memory for the findings"};
        return cli_fail("doctor", error.code, &error);
    }
    judge_repeats(&f);
    if (pf__repeats_itself(d->repeat, PF_REPEAT_WAYS)) {
        f.quiet = true;
        for (int i = 0; i < plan->n_chan; i++) {
            f.quiet = f.quiet && !(d->noise[i] > 0);
        }
        judge_mechanisms(&f);
        judge_channels(&f);
        judge_tasks(&f);
    }
    if (c->json) {
        show_json(&f);
    } else {
        show(&f);
    }
    free(f.scale);
    pf__text_free(&f.text);
    return f.stops > 0 ? EXIT_NO : EXIT_YES;
}

static int run(const call *c, const cli_config *t, int starts)
{
    pf_error error = {PF_OK, ""};
    pf_plant *plant = NULL;
    pf_plan *plan = NULL;
    pf_doctor d = {.starts = starts};
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, 1);
    progress.form = c->form;
    pf_status status = cli_plant_create(&plant, c->plant.item[0], &error);
    if (status == PF_OK) {
        status = pf_plan_create(&plan, pf_plant_get_info(plant), t->file, t->data, t->n,
                                t->overrides, t->n_overrides, &error);
    }
    status = status ? status : pf__doctor_run(&d, plan, plant, &effort, &error);
    cli_progress_end(&progress);
    int exit_status =
        status == PF_OK ? judge(c, plan, plant, &d) : cli_fail("doctor", status, &error);
    pf__doctor_free(&d);
    pf_plan_destroy(plan);
    pf_plant_destroy(plant);
    return exit_status;
}

int cmd_doctor(int argc, char **argv)
{
    call c = {0};
    double starts = 8;
    const cli_option options[] = {
        {"--config", .value = &c.config},     {"--set", .list = &c.set},
        {"--starts", .value = &c.starts},     {"--json", .flag = &c.json},
        {"--progress", .value = &c.progress},
    };
    if (!cli_parse("doctor", argc, argv, options, sizeof options / sizeof options[0], &c.plant)) {
        return EXIT_USAGE;
    }
    if (c.plant.n != 1) {
        return cli_usage("doctor", "name one plant");
    }
    if (c.starts && !cli_integer("doctor", "--starts", c.starts, 2, 1000, &starts)) {
        return EXIT_USAGE;
    }
    if (!cli_progress_form("doctor", c.progress, &c.form)) {
        return EXIT_USAGE;
    }
    cli_config t;
    int status = cli_config_open("doctor", c.config, &c.set, &t);
    if (status == EXIT_YES) {
        status = run(&c, &t, (int)starts);
        cli_config_close(&t);
    }
    return status;
}
