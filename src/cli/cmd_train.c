// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "calibrate/recordings.h"
#include "model/transitions.h"

#include "host/parallel.h"
#include "host/file.h"
#include "host/gnuplot.h"
#include "preflight/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double checkpoint_s = 5;

// What is seen of a training: progress, a log, a learning curve, a report.
typedef struct train_view {
    const pf_train_settings *settings;
    const pf_effort *effort;
    cli_progress *progress;
    double logged;
    const char *log_path;
    int done[PF_MODEL_MEMBERS]; // epochs behind each member, early stopping counted in full
    double train[PF_MODEL_MEMBERS], valid[PF_MODEL_MEMBERS];
    bool rolled[PF_MODEL_MEMBERS]; // learns rollouts, whose errors are others
    pf_text log;                   // CSV, one row per epoch
} train_view;

// log_path (Nullable): a file that follows the training.
static void train_view_init(train_view *v, const pf_train_settings *settings, const char *log_path,
                            const pf_effort *effort)
{
    *v = (train_view){
        .settings = settings, .effort = effort, .progress = effort->self, .log_path = log_path};
    pf__text_add(&v->log, "member,epoch,training,held_out,best,samples_per_s,rollouts\n");
}

static void train_view_free(train_view *v)
{
    pf__text_free(&v->log);
}

// What progress says of the members that are as far as this one.
static void note_errors(const train_view *v, const pf_epoch *e)
{
    const pf_train_settings *s = v->settings;
    int seen = 0;
    double train = 0, valid = 0;
    for (int i = 0; i < s->members; i++) {
        bool alike = v->done[i] > 0 && v->rolled[i] == e->rollouts;
        seen += alike;
        train += alike ? v->train[i] : 0;
        valid += alike ? v->valid[i] : 0;
    }
    snprintf(v->progress->note, sizeof v->progress->note,
             "member %d/%d%s: training %.5f, held out %.5f", e->member + 1, s->members,
             e->rollouts ? ", rollouts" : "", train / seen, valid / seen);
}

// Early stopping may end it sooner than the progress says.
static void show_epochs(const train_view *v, const pf_epoch *e)
{
    size_t done = 0, total = (size_t)v->settings->members * (size_t)e->epochs;
    for (int i = 0; i < v->settings->members; i++) {
        done += (size_t)v->done[i];
    }
    note_errors(v, e);
    v->effort->progress(v->effort->self, "epochs", done, total);
}

static void train_view_epoch(void *self, const pf_epoch *e)
{
    train_view *v = self;
    v->done[e->member] = e->finished ? e->epochs : e->epoch;
    v->train[e->member] = e->train;
    v->valid[e->member] = e->valid;
    v->rolled[e->member] = e->rollouts;
    pf__text_addf(&v->log, "%d,%d,%.9g,%.9g,%.9g,%.0f,%d\n", e->member, e->epoch, e->train,
                  e->valid, e->best, e->samples_per_s, e->rollouts);
    double now = pf__seconds();
    if (v->log_path && !v->log.failed && now - v->logged > 5) {
        v->logged = now; // what cannot be written now is reported at the end
        pf__file_write(v->log_path, v->log.data, v->log.size, NULL);
    }
    if (!e->restored) {
        show_epochs(v, e);
    }
}

// --- the curve

// The rows of one member as a gnuplot data block.
static void add_block(pf_text *script, const pf_text *log, int member)
{
    pf__text_addf(script, "$member%d << EOD\n", member);
    for (const char *line = log->data ? log->data : ""; *line;) {
        const char *end = strchr(line, '\n');
        if (!end) {
            break; // cut off by a lack of memory, which the caller reports
        }
        if (atoi(line) == member && line != log->data) {
            pf__text_add_n(script, line, (size_t)(end - line) + 1);
        }
        line = end + 1;
    }
    pf__text_add(script, "EOD\n");
}

static void fill_script(const train_view *v, const char *title, const char *path, pf_text *script)
{
    for (int e = 0; e < v->settings->members; e++) {
        add_block(script, &v->log, e);
    }
    pf__gnuplot_open(script, path, 900, 560);
    pf__text_add(script,
                 "set datafile separator ','\nset logscale y\nset format y '%g'\n"
                 "set xlabel 'epoch'\nset ylabel 'mean squared error of the standardised change'\n"
                 "set title ");
    pf__gnuplot_string(script, title);
    pf__text_add(script, "\nset key top right\nplot \\\n");
    for (int e = 0; e < v->settings->members; e++) {
        pf__text_addf(
            script,
            "  $member%d using 2:($7 > 0 ? NaN : $3) with lines lw 1 lc rgb '#b0b0b0' %s, \\\n"
            "  $member%d using 2:($7 > 0 ? NaN : $4) with lines lw 2 lc %d title 'member %d, held "
            "out'%s\n",
            e, e == 0 ? "title 'training'" : "notitle", e, e + 1, e,
            e + 1 < v->settings->members ? ", \\" : "");
    }
}

static pf_status train_view_plot(const train_view *v, const char *title, const char *path,
                                 pf_error *error)
{
    pf_text script = {0};
    fill_script(v, title, path, &script);
    script.failed = script.failed || v->log.failed;
    pf_status status = pf__gnuplot_draw(path, &script, &cli_interrupted, error);
    pf__text_free(&script);
    return status;
}

// --- the command

typedef struct call {
    cli_list plant, set;
    const char *output, *profile, *kind, *config, *data, *recordings, *seed, *threads, *log, *plot,
        *progress;
    bool json;
    pf_text data_path;
} call;

// No two of the files may be one.
static int check_paths(const call *c)
{
    const struct {
        const char *option, *path;
    } files[] = {{"-o", c->output},       {"--data", c->data_path.data},
                 {"--config", c->config}, {"--recordings", c->recordings},
                 {"--log", c->log},       {"--plot", c->plot}};
    enum { N = sizeof files / sizeof files[0] };
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < i; k++) {
            const char *a = files[i].path, *b = files[k].path;
            if (a && b && (strcmp(a, b) == 0 || pf__file_same(a, b))) {
                return cli_usage("train", "%s and %s name the same file, %s", files[k].option,
                                 files[i].option, a);
            }
        }
    }
    const cli_file outputs[] = {
        {"-o", c->output}, {"--data", c->data}, {"--log", c->log}, {"--plot", c->plot}};
    return cli_spare_plant("train", c->plant.n > 0 ? c->plant.item[0] : NULL, NULL, 4, outputs);
}

static int check_call(const call *c)
{
    if (c->plant.n > 1 || (c->plant.n == 0 && !c->recordings)) {
        return cli_usage("train", "name one plant (see `preflight list plants`), or --recordings");
    }
    if (c->recordings && c->data) {
        return cli_usage("train", "--recordings are the data; leave --data out");
    }
    if (!c->output || strcmp(c->output, "-") == 0) {
        return cli_usage("train", "-o MODEL is missing, or no file");
    }
    if (c->plot && !cli_picture("train", c->plot)) {
        return EXIT_USAGE;
    }
    return check_paths(c);
}

static pf_status read_settings(const call *c, pf_train_settings *s, pf_error *error)
{
    void *text = NULL;
    size_t n = 0;
    char kind[64];
    const char *set[1 + sizeof c->set.item / sizeof c->set.item[0]];
    int n_set = 0;
    pf_status status = pf_train_profile(s, c->profile ? c->profile : "standard", error);
    if (status != PF_OK) {
        return status;
    }
    pf_train_for_use(s);
    if (c->kind) {
        snprintf(kind, sizeof kind, "kind=%.40s", c->kind);
        set[n_set++] = kind;
    }
    for (int i = 0; i < c->set.n; i++) {
        set[n_set++] = c->set.item[i];
    }
    if (c->config) {
        status =
            pf__file_read_until(c->config, (size_t)16 << 20, &cli_interrupted, &text, &n, error);
    }
    if (status == PF_OK) {
        status = pf_train_configure(s, c->config, text, n, set, n_set, error);
    }
    free(text);
    return status;
}

// The gain that a loss is measured at, and how well one window must tell the gain. A task in
// proportion to its command has the return exp(-d^2) where the share that arrives is off by d; the
// bound, mean less three standard deviations, is 1 - 5.2 d^2, and .85 allows d = .17. A healthy
// machine is probed twice; a mechanism at gain g four times, and its share is off by 1/g as much.
static const double lost = .35, certifies_lost = .119, certifies_healthy = .24;

static const char *grade(double gain_sd)
{
    return gain_sd <= certifies_lost      ? "good enough for probes and tasks"
           : gain_sd <= certifies_healthy ? "good enough while it is healthy, not after a loss"
                                          : "not good enough";
}

static void print_more(const pf_windows_report *r)
{
    // error = floor + a/N, from all and from half of the data
    double gained = r->half - r->linear, floor = r->linear - gained;
    if (!isfinite(r->half)) {
        printf("half of these data would be too few to learn from, so more will help: record at "
               "least %d windows\n",
               2 * r->windows > 10 * r->inputs ? 2 * r->windows : 10 * r->inputs);
    } else if (gained > .1 * r->linear && floor > 0) {
        double more = (r->windows - r->held_out) * (gained / (.1 * floor) - 1);
        printf("with half of the data its linear part left %.3g, with all %.3g: %.0f more windows "
               "would bring that to about %.3g\n",
               r->half, r->linear, fmax(more, r->windows), 1.1 * floor);
    } else if (gained > .1 * r->linear) {
        printf("with half of the data its linear part left %.3g, with all %.3g: record many more\n",
               r->half, r->linear);
    } else {
        printf("with half of the data its linear part left %.3g, with all %.3g: more data would "
               "bring little\n",
               r->half, r->linear);
    }
}

static void print_windows(const call *c, const pf_train_settings *s, const pf_model_info *info,
                          const pf_windows_report *r)
{
    printf("model %s: ", c->output);
    cli_model_kind(info);
    printf("\nlearned from %d windows of %d steps, %d of them held out; it has %d inputs\n",
           r->windows, s->window, r->held_out, r->inputs);
    printf("leaves %.3g of what moves in held-out windows: %.2g %% of a response\n", r->left,
           100 * sqrt(r->left));
    printf("what one window tells of a gain, and whether that is enough:\n");
    for (int j = 0; j < info->n_mech; j++) {
        if (!isnan(r->gain_sd[j])) {
            printf("  %-20s +-%.3f  %s\n", info->mechanisms[j].name, r->gain_sd[j],
                   grade(r->gain_sd[j]));
        } else {
            printf("  %-20s never moves: record it if probes or tasks use it\n",
                   info->mechanisms[j].name);
        }
    }
    print_more(r);
    if (c->plant.n == 0) {
        printf("for a kit with this model train it with its PLANT: preflight train exec:COMMAND "
               "--recordings %s -o MODEL\n",
               c->recordings);
    }
}

// What there is to say of a model without a plant to compare it with.
static pf_status report_windows(const call *c, const pf_train_settings *s,
                                const pf_transitions *data, pf_error *error)
{
    pf_model *model = NULL;
    pf_windows_report r;
    pf_status status = pf_model_load(&model, c->output, error);
    status = status ? status : pf__windows_report(model, data, s->held_out, lost, &r, error);
    const pf_model_info *info = status == PF_OK ? pf_model_get_info(model) : NULL;
    if (info && c->json) {
        pf_text out = {0};
        pf__text_addf(&out, "{\"windows\":%d,\"held_out\":%d,\"inputs\":%d", r.windows, r.held_out,
                      r.inputs);
        const double numbers[] = {r.left, r.linear, r.half};
        static const char *const keys[] = {"left", "linear", "linear_half"};
        for (int i = 0; i < 3; i++) {
            pf__json_key(&out, keys[i]);
            pf__json_number(&out, isfinite(numbers[i]) ? numbers[i] : NAN);
        }
        pf__json_key(&out, "gain_sd");
        pf__json_numbers(&out, info->n_mech, r.gain_sd);
        pf__text_add(&out, "}\n");
        cli_print(&out);
        pf__text_free(&out);
    } else if (info) {
        print_windows(c, s, info, &r);
    }
    pf_model_destroy(model);
    return status;
}

static pf_status report_plant(const call *c, const pf_train_settings *s, pf_plant *plant,
                              const pf_effort *effort, pf_error *error)
{
    pf_model *model = NULL;
    pf_status status = pf_model_load(&model, c->output, error);
    if (status == PF_OK) {
        status = cli_model_report(c->output, model, plant, s->seed, c->json, effort, error);
    }
    pf_model_destroy(model);
    return status;
}

// The data of a training: made on the plant, or cut from recordings.
static pf_status open_data(const call *c, pf_train_settings *s, pf_plant *plant,
                           pf_transitions **data, const pf_effort *effort, pf_error *error)
{
    void *text = NULL;
    size_t n = 0;
    if (!c->recordings) {
        // data that were named are used as they are, if they are of this plant
        return pf__transitions_ready(data, s, !c->data, plant, c->data_path.data, effort, error);
    }
    pf_status status =
        pf__file_read_until(c->recordings, PF_CSV_BYTES, &cli_interrupted, &text, &n, error);
    status = status
                 ? status
                 : pf__transitions_record(s, plant ? pf_plant_get_info(plant) : NULL, c->recordings,
                                          text, n, c->data_path.data, effort, error);
    free(text);
    return status ? status : pf_transitions_open(data, c->data_path.data, error);
}

static pf_status learn(const call *c, pf_train_settings *s, pf_plant *plant,
                       const pf_effort *effort, cli_progress *progress, pf_error *error)
{
    pf_transitions *data = NULL;
    train_view view;
    pf_status status = open_data(c, s, plant, &data, effort, error);
    cli_progress_end(progress);
    train_view_init(&view, s, c->log, effort);
    progress->main = "epochs";
    progress->job = "training";
    progress->shorter.share = .25;
    snprintf(progress->shorter.option, sizeof progress->shorter.option, "--set epochs=%d",
             s->epochs > 4 ? s->epochs / 4 : 1);
    if (status == PF_OK) {
        pf_train_watch watch = {&view, train_view_epoch};
        status = pf_train(s, data, c->output, checkpoint_s, effort, &watch, error);
        cli_progress_end(progress);
        progress->note[0] = 0;
        if (status == PF_ERR_INTERRUPTED) {
            fprintf(stderr, "preflight train: the same command goes on from here\n");
        }
    }
    if (status == PF_OK && c->log) {
        status = view.log.failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for the log")
                                 : pf__file_write(c->log, view.log.data, view.log.size, error);
    }
    if (status == PF_OK) {
        status = c->recordings ? report_windows(c, s, data, error)
                               : report_plant(c, s, plant, effort, error);
    }
    pf_transitions_close(data);
    if (status == PF_OK && c->plot) {
        const char *title = plant ? pf_plant_get_info(plant)->name : c->recordings;
        status = train_view_plot(&view, title, c->plot, error);
    }
    train_view_free(&view);
    return status;
}

// A trajectory model must answer for as many steps as the probes and tasks of the plant have.
static pf_status check_window(const pf_train_settings *s, const pf_plant_info *info,
                              pf_error *error)
{
    pf_train_settings needed = *s;
    needed.window = 0;
    pf_train_complete(&needed, info);
    return s->kind == PF_TRAIN_RECURSIVE || s->window >= needed.window
               ? PF_OK
               : pf_fail(
                     error, PF_ERR_ARGUMENT,
                     "window: %d steps, but probes and tasks of %s take %d; leave it out or set "
                     "more",
                     s->window, info->name, needed.window);
}

// Everything that can be refused is refused before the first transition is made.
static pf_status prepare(const call *c, pf_train_settings *s, pf_plant **plant, pf_error *error)
{
    pf_status status = read_settings(c, s, error);
    if (status == PF_OK && c->plant.n > 0) {
        status = cli_plant_create(plant, c->plant.item[0], error);
    }
    if (status == PF_OK && !c->recordings) {
        pf_train_complete(s, pf_plant_get_info(*plant));
        status = pf_train_check(s, pf_plant_get_info(*plant), error);
        status = status ? status : check_window(s, pf_plant_get_info(*plant), error);
    }
    const char *const paths[] = {c->output, c->log, c->plot};
    for (int i = 0; i < 3 && status == PF_OK; i++) {
        status = paths[i] ? pf__file_writable(paths[i], error) : PF_OK;
        if (status == PF_OK && paths[i] && access(paths[i], F_OK) == 0 &&
            !pf__file_regular(paths[i])) {
            status = pf_fail(error, PF_ERR_FILE, "%s: is no plain file", paths[i]);
        }
    }
    pf_model *old = NULL;
    pf_error why = {PF_OK, ""};
    if (status == PF_OK && access(c->output, F_OK) == 0 &&
        pf_model_load(&old, c->output, &why) != PF_OK) {
        status = pf_fail(error, PF_ERR_FILE,
                         "%s: is there and is no model; remove it or name another file", c->output);
    }
    pf_model_destroy(old);
    if (status == PF_OK && access(c->data_path.data, F_OK) != 0) {
        status = pf__file_writable(c->data_path.data, error);
    }
    return status;
}

static int run(call *c, double seed, int threads, cli_form form)
{
    pf_error error = {PF_OK, ""};
    pf_train_settings s;
    pf_plant *plant = NULL;
    cli_progress progress;
    pf_effort effort = cli_effort(&progress, threads);
    progress.form = form;
    pf_status status = prepare(c, &s, &plant, &error);
    if (status == PF_OK) {
        s.seed = isnan(seed) ? s.seed : (uint64_t)seed;
        status = learn(c, &s, plant, &effort, &progress, &error);
    }
    cli_progress_end(&progress);
    pf_plant_destroy(plant);
    if (status == PF_ERR_INTERRUPTED) {
        fprintf(stderr, "preflight train: stopped\n");
        return EXIT_INTERRUPTED;
    }
    return status == PF_OK ? EXIT_YES : cli_fail("train", status, &error);
}

int cmd_train(int argc, char **argv)
{
    call c = {.profile = NULL};
    const cli_option options[] = {
        {"-o", .value = &c.output},         {"--output", .value = &c.output},
        {"--profile", .value = &c.profile}, {"--config", .value = &c.config},
        {"--kind", .value = &c.kind},       {"--recordings", .value = &c.recordings},
        {"--set", .list = &c.set},          {"--data", .value = &c.data},
        {"--seed", .value = &c.seed},       {"--threads", .value = &c.threads},
        {"--log", .value = &c.log},         {"--plot", .value = &c.plot},
        {"--json", .flag = &c.json},        {"--progress", .value = &c.progress},
    };
    if (!cli_parse("train", argc, argv, options, sizeof options / sizeof options[0], &c.plant)) {
        return EXIT_USAGE;
    }
    double seed = NAN, threads = 0;
    cli_form form = CLI_FORM_NONE;
    if (!cli_seed("train", c.seed, &seed) || !cli_threads("train", c.threads, &threads) ||
        !cli_progress_form("train", c.progress, &form)) {
        return EXIT_USAGE;
    }
    if (c.data) {
        pf__text_add(&c.data_path, c.data);
    } else if (c.output) {
        pf__text_addf(&c.data_path, "%s.data", c.output);
    }
    int status = c.data_path.failed ? EXIT_INTERNAL : check_call(&c);
    if (status == EXIT_YES) {
        status = run(&c, seed, (int)threads, form);
    }
    pf__text_free(&c.data_path);
    return status;
}
