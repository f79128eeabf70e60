// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L
#include "train_view.h"

#include "host/clock.h"
#include "host/file.h"
#include "host/gnuplot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void train_view_init(train_view *v, const pf_train_settings *settings, const char *log_path)
{
    *v = (train_view){
        .settings = settings, .terminal = isatty(2), .began = pf_seconds(), .log_path = log_path};
    v->printed = v->began;
    pf_text_add(&v->log, "member,epoch,training,held_out,best,samples_per_s\n");
}

void train_view_free(train_view *v)
{
    pf_text_free(&v->log);
}

void train_view_end(train_view *v)
{
    if (v->shown && v->terminal) {
        fputs("\r\033[K", stderr);
    }
}

static void print_line(train_view *v, const pf_epoch *e)
{
    const pf_train_settings *s = v->settings;
    int done = 0, seen = 0;
    double train = 0, valid = 0, elapsed = pf_seconds() - v->began;
    for (int i = 0; i < s->members; i++) {
        done += v->done[i];
        seen += v->done[i] > 0;
        train += v->train[i];
        valid += v->valid[i];
    }
    double samples = (double)v->run * s->transitions * (1 - s->held_out) / elapsed;
    double left = elapsed / v->run * ((double)s->members * s->epochs - done);
    fprintf(stderr,
            "%sepoch %d/%d, member %d/%d: training %.5f, held out %.5f, %.0f samples/s, at most "
            "%.0f s left%s",
            v->terminal ? "\r" : "", e->epoch, s->epochs, e->member + 1, s->members, train / seen,
            valid / seen, samples, left, v->terminal ? "\033[K" : "\n");
    v->shown = true;
}

void train_view_epoch(void *self, const pf_epoch *e)
{
    train_view *v = self;
    v->done[e->member] = e->finished ? v->settings->epochs : e->epoch;
    v->train[e->member] = e->train;
    v->valid[e->member] = e->valid;
    v->run += !e->restored;
    pf_text_addf(&v->log, "%d,%d,%.9g,%.9g,%.9g,%.0f\n", e->member, e->epoch, e->train, e->valid,
                 e->best, e->samples_per_s);
    double now = pf_seconds();
    if (v->log_path && !v->log.failed && now - v->logged > 5) {
        v->logged = now; // what cannot be written now is reported at the end
        pf_file_write(v->log_path, v->log.data, v->log.size, NULL);
    }
    if (!e->restored && now - v->printed > (v->terminal ? .2 : 30)) {
        v->printed = now;
        print_line(v, e);
    }
}

// --- the curve

// The rows of one member as a gnuplot data block.
static void add_block(pf_text *script, const pf_text *log, int member)
{
    pf_text_addf(script, "$member%d << EOD\n", member);
    for (const char *line = log->data ? log->data : ""; *line;) {
        const char *end = strchr(line, '\n');
        if (!end) {
            break; // cut off by a lack of memory, which the caller reports
        }
        if (atoi(line) == member && line != log->data) {
            pf_text_add_n(script, line, (size_t)(end - line) + 1);
        }
        line = end + 1;
    }
    pf_text_add(script, "EOD\n");
}

static void fill_script(const train_view *v, const char *title, const char *path, pf_text *script)
{
    for (int e = 0; e < v->settings->members; e++) {
        add_block(script, &v->log, e);
    }
    pf_gnuplot_open(script, path, 900, 560);
    pf_text_add(script,
                "set datafile separator ','\nset logscale y\nset format y '%g'\n"
                "set xlabel 'epoch'\nset ylabel 'mean squared error of the standardised change'\n"
                "set title ");
    pf_gnuplot_string(script, title);
    pf_text_add(script, "\nset key top right\nplot \\\n");
    for (int e = 0; e < v->settings->members; e++) {
        pf_text_addf(script,
                     "  $member%d using 2:3 with lines lw 1 lc rgb '#b0b0b0' %s, \\\n"
                     "  $member%d using 2:4 with lines lw 2 lc %d title 'member %d, held out'%s\n",
                     e, e == 0 ? "title 'training'" : "notitle", e, e + 1, e,
                     e + 1 < v->settings->members ? ", \\" : "");
    }
}

pf_status train_view_plot(const train_view *v, const char *title, const char *path, pf_error *error)
{
    pf_text script = {0};
    fill_script(v, title, path, &script);
    script.failed = script.failed || v->log.failed;
    pf_status status = pf_gnuplot_draw(path, &script, error);
    pf_text_free(&script);
    return status;
}

// --- the report

static void print_errors(const char *what, const double *errors)
{
    printf("  %-28s", what);
    for (int h = 0; h < PF_ASSESS_HORIZONS; h++) {
        printf(" %9.3g", errors[h]);
    }
    printf("\n");
}

void train_view_report(const pf_plant_info *info, const pf_model_info *model,
                       const pf_assessment *rows, double g_cal)
{
    printf("\nOpen-loop error of a probe response over the size of the signature (gain %g), by "
           "step:\n\n  %-28s",
           g_cal, "");
    for (int h = 0; h < PF_ASSESS_HORIZONS; h++) {
        printf(" %9d", pf_assess_horizons()[h]);
    }
    printf("\n");
    for (int q = 0; q < info->n_mech - 1; q++) {
        const pf_assessment *r = &rows[q];
        printf("%s\n", info->mechanisms[r->mechanism].name);
        print_errors("model, pulse scale", r->error[PF_ASSESS_PULSE]);
        print_errors("model, residual scale", r->error[PF_ASSESS_RESIDUAL]);
        print_errors("its linear part alone", r->linear);
        print_errors("nothing changes", r->copy);
    }
    printf("\nSeparation of gain %g from nominal by model error alone, and what the members know "
           "of it\n(noise and disturbance come on top; a kit needs 3):\n\n%-20s %14s %14s %18s\n",
           g_cal, "mechanism", "pulse scale", "residual scale", "spread over error");
    for (int q = 0; q < info->n_mech - 1; q++) {
        const pf_assessment *r = &rows[q];
        printf("%-20s %11.1f sd %11.1f sd ", info->mechanisms[r->mechanism].name,
               r->separation[PF_ASSESS_PULSE], r->separation[PF_ASSESS_RESIDUAL]);
        if (isnan(r->spread)) {
            printf("%18s", "one member");
        } else {
            printf("%18.2f%s", r->spread, r->spread < 1 ? "  overconfident" : "");
        }
        printf("%s\n", fabs(r->separation[PF_ASSESS_RESIDUAL]) < 3 ? "  TOO LITTLE FOR A KIT" : "");
    }
    printf(
        "\nA kit calibrated with --predictor ensemble:MODEL carries model error and disagreement "
        "into its\nbounds. Held-out error of the standardised change: %.4g.\n",
        model->valid_error);
}

void train_view_report_json(pf_text *out, const pf_plant_info *info, const pf_model_info *model,
                            const pf_assessment *rows, double g_cal)
{
    pf_text_add(out, "{\"plant\":");
    pf_json_string(out, info->name);
    pf_text_addf(out, ",\"sha256\":\"%s\",\"members\":%d,\"valid_error\":", model->sha256,
                 model->n_members);
    pf_json_number(out, model->valid_error);
    pf_json_key(out, "processor");
    pf_json_string(out, model->processor);
    pf_json_key(out, "g_cal");
    pf_json_number(out, g_cal);
    pf_json_key(out, "horizons");
    pf_json_ints(out, PF_ASSESS_HORIZONS, pf_assess_horizons());
    pf_json_key(out, "mechanisms");
    pf_text_add(out, "[");
    for (int q = 0; q < info->n_mech - 1; q++) {
        const pf_assessment *r = &rows[q];
        pf_json_comma(out);
        pf_text_add(out, "{\"name\":");
        pf_json_string(out, info->mechanisms[r->mechanism].name);
        pf_json_key(out, "error_pulse");
        pf_json_numbers(out, PF_ASSESS_HORIZONS, r->error[PF_ASSESS_PULSE]);
        pf_json_key(out, "error_residual");
        pf_json_numbers(out, PF_ASSESS_HORIZONS, r->error[PF_ASSESS_RESIDUAL]);
        pf_json_key(out, "error_linear");
        pf_json_numbers(out, PF_ASSESS_HORIZONS, r->linear);
        pf_json_key(out, "error_copy");
        pf_json_numbers(out, PF_ASSESS_HORIZONS, r->copy);
        pf_json_key(out, "separation_pulse");
        pf_json_number(out, r->separation[PF_ASSESS_PULSE]);
        pf_json_key(out, "separation_residual");
        pf_json_number(out, r->separation[PF_ASSESS_RESIDUAL]);
        pf_json_key(out, "spread");
        pf_json_number(out, r->spread);
        pf_text_add(out, "}");
    }
    pf_text_add(out, "]}\n");
}
