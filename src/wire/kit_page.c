// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "kit_page.h"
#include "audit_file.h"

#include "calibrate/quality.h"
#include "core/kit_layout.h"
#include "core/rehearsal.h"
#include "core/sha256.h"
#include "host/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Below this many standard deviations a loss is told badly, and so is its size.
enum { APART = 3, MOST_GAINS = 64, SHOWN_GAINS = 9, MOST_CURVES = 48, RETURNS = 31 };

static void add_facts(pf_text *out, const pf_kit *k)
{
    pf_kit_info info = pf_kit_get_info(k);
    char text[300], sha[65];
    pf__sha256_text(info.sha256, sha);
    pf__page_head(out, "The kit", 0, NULL);
    pf__page_fact(out, "sha256", sha);
    snprintf(text, sizeof text, "%s (%s), %s predictor", pf_kit_get_string(k, PF_KIT_PLANT),
             pf_kit_get_string(k, PF_KIT_SOURCE), pf_kit_get_string(k, PF_KIT_PREDICTOR));
    pf__page_fact(out, "machine", text);
    pf__print(text, sizeof text, "preflight %s, seed %.0f, %d episodes per class, %d alarm trials",
              pf_kit_get_string(k, PF_KIT_PREFLIGHT), (double)info.seed, info.episodes,
              info.alarm_trials);
    pf__page_fact(out, "made by", text);
    snprintf(text, sizeof text, "%d candidates, %d channels, %d probes, %d tasks", info.n_mech - 1,
             info.n_chan, info.n_probes, info.n_tasks);
    pf__page_fact(out, "size", text);
    pf__print(text, sizeof text, "return at least %.3g, with risk %.3g", info.j_min, info.alpha);
    pf__page_fact(out, "required of a go", text);
    if (info.alarm_checks > 0) {
        pf__print(text, sizeof text, "%d of %d fresh healthy sessions (at most %.1f %% at 95 %%)",
                  info.alarm_false, info.alarm_checks,
                  100 * pf__audit_upper(info.alarm_false, info.alarm_checks));
    } else {
        snprintf(text, sizeof text, "not tried on fresh sessions");
    }
    pf__page_fact(out, "false alarms", text);
    pf__page_table_end(out);
}

// --- mechanisms

// Some of the gains, evenly spread, the first and the last among them.
static int shown_gain(int n, int i)
{
    int shown = n < SHOWN_GAINS ? n : SHOWN_GAINS;
    return shown > 1 ? (i * (n - 1) + (shown - 1) / 2) / (shown - 1) : 0;
}

static void add_separation(pf_text *out, const pf_kit *k)
{
    int n = 0, shown;
    const double *gains = pf__quality_gains(k, &n);
    shown = n < SHOWN_GAINS ? n : SHOWN_GAINS;
    char heads[SHOWN_GAINS][32];
    const char *names[SHOWN_GAINS + 2] = {"mechanism", "best probe"};
    for (int i = 0; i < shown; i++) {
        pf__print(heads[i], sizeof heads[i], "gain %.3g", gains[shown_gain(n, i)]);
        names[i + 2] = heads[i];
    }
    pf__text_addf(out,
                  "<h2>How well a loss shows</h2>\n<p>How far apart one look lies on a healthy "
                  "machine and on one with this gain, in standard deviations, by the probe that "
                  "tells it best. Less than %d (marked !) is told badly in one look.</p>\n",
                  APART);
    pf__page_head(out, "Separation by gain", shown + 2, names);
    for (int j = 1; j < k->n_mech; j++) {
        int probe = -1;
        pf__quality_apart(k, j, 0, &probe);
        pf__page_row(out, pf_kit_mechanism_name(k, j));
        pf__page_cell(out, "td", probe < 0 ? "NONE" : pf_kit_probe_name(k, probe));
        for (int i = 0; i < shown; i++) {
            double apart = pf__quality_apart(k, j, shown_gain(n, i), NULL);
            pf__text_addf(out, "<td class=\"n%s\">%.1f%s</td>", apart < APART ? " no-go" : "",
                          apart, apart < APART ? " !" : "");
        }
        pf__page_row_end(out);
    }
    pf__page_table_end(out);
}

// The mean coordinate of a target over the gain: a straight line for a plant that is linear in it.
static void add_curves(pf_text *out, const pf_kit *k)
{
    if (k->n_curve == 0 || k->n_grid > MOST_GAINS) {
        return;
    }
    pf__text_addf(out,
                  "<h2>The coordinate over the gain</h2>\n<p>Solid: the mean coordinate of a look, "
                  "0 for a healthy mechanism and 1 at gain %.3g. Dashed: a machine whose response "
                  "is linear in the gain. Left: gain %.3g, right: %.3g.</p>\n",
                  k->g_cal, k->grid[0], k->grid[k->n_grid - 1]);
    for (int q = 0, shown = 0; q < k->n_probes; q++) {
        for (int t = k->probe_target[q]; t < k->probe_target[q + 1] && shown < MOST_CURVES; t++) {
            const double *z = k->curve + (size_t)t * (size_t)k->n_grid;
            double line[MOST_GAINS], lo = 0, hi = 1;
            for (int g = 0; g < k->n_grid; g++) {
                line[g] = (1 - k->grid[g]) / (1 - k->g_cal);
                lo = fmin(lo, fmin(z[g], line[g]));
                hi = fmax(hi, fmax(z[g], line[g]));
            }
            char title[200], text[100];
            snprintf(title, sizeof title, "%.90s of %.90s",
                     pf_kit_mechanism_name(k, k->target_mech[t]), pf_kit_probe_name(k, q));
            pf__print(text, sizeof text, "from %.3g at the least gain to %.3g at the largest", z[0],
                      z[k->n_grid - 1]);
            pf_plot plot = {.lo = lo, .hi = hi, .width = 150, .height = 80};
            pf__text_add(out, "<figure>");
            pf__page_plot(out, &plot, title, text);
            pf__page_level(out, &plot, 0);
            pf__page_line(out, &plot, (size_t)k->n_grid, line, 1, "4 2");
            pf__page_line(out, &plot, (size_t)k->n_grid, z, 0, "none");
            pf__page_plot_end(out);
            pf__page_cell(out, "figcaption", title);
            pf__text_add(out, "</figure>\n");
            shown++;
        }
    }
}

static void add_probes(pf_text *out, const pf_kit *k)
{
    pf__text_add(out, "<h2>The probes</h2>\n<p>Bits: what one look tells of whether its target "
                      "changed to the gain of calibration, of the one bit that there is. "
                      "Dispersion: of its coordinate, as a share of that loss.</p>\n");
    PF_PAGE_HEAD(out, "Probes and their targets", "probe", "target", "rows", "charge", "dispersion",
                 "bits");
    for (int q = 0; q < k->n_probes; q++) {
        for (int t = k->probe_target[q]; t < k->probe_target[q + 1]; t++) {
            pf__page_row(out, pf_kit_probe_name(k, q));
            pf__page_cell(out, "td", pf_kit_mechanism_name(k, k->target_mech[t]));
            pf__page_number(out, pf_kit_probe_rows(k, q), 0);
            pf__page_number(out, k->charge[q], 3);
            pf__page_number(out, k->sigma[t], 3);
            pf__page_number(out, pf__quality_bits(k, t), 3);
            pf__page_row_end(out);
        }
    }
    pf__page_table_end(out);
}

// --- channels

// The largest spread of a channel about the nearest prediction over all probes and rows.
static double residual_of(const pf_kit *k, int channel)
{
    double most = k->n_misfit > 0 ? 0 : NAN;
    for (int r = 0; r < k->n_misfit; r++) {
        most = fmax(most, k->residual_rms[(size_t)r * (size_t)k->n_chan + (size_t)channel]);
    }
    return most;
}

static void add_channels(pf_text *out, const pf_kit *k)
{
    pf__text_add(out,
                 "<h2>The channels</h2>\n<p>Scale: what differences of a task are measured "
                 "in. Spread: the largest rms of a healthy response about its prediction, over "
                 "the noise that calibration assumed.</p>\n");
    PF_PAGE_HEAD(out, "Channels", "channel", "scale", "spread", "equal readings at most");
    for (int c = 0; c < k->n_chan; c++) {
        char text[32];
        pf__print(text, sizeof text, "%.4g", k->return_scale[c]);
        pf__page_row(out, pf_kit_channel_name(k, c));
        pf__page_cell(out, "td class=\"n\"", text);
        pf__page_number(out, residual_of(k, c), 2);
        pf__page_number(out, k->n_misfit > 0 ? k->still[c] : NAN, 0);
        pf__page_row_end(out);
    }
    pf__page_table_end(out);
}

// --- tasks

// The bound over the gain of one use, corrected, from gain 0 to 1.5.
static void add_return(pf_text *out, const pf_kit *k, int task, int use)
{
    double y[RETURNS], mean;
    for (int i = 0; i < RETURNS; i++) {
        y[i] = fmax(0, pf__quality_bound(k, task, use, i / 20., &mean));
    }
    char text[160];
    pf_plot plot = {.lo = 0, .hi = 1, .width = 150, .height = 40};
    pf__print(text, sizeof text,
              "bound at gain 0, .5, 1 and 1.5: %.2f, %.2f, %.2f and %.2f; %.3g is "
              "required",
              y[0], y[10], y[20], y[30], k->j_min);
    pf__text_add(out, "<td class=\"w\">");
    pf__page_plot(out, &plot, "bound over the gain", text);
    pf__page_level(out, &plot, k->j_min);
    pf__page_line(out, &plot, RETURNS, y, 2, "none");
    pf__page_plot_end(out);
    pf__text_add(out, "</td>");
}

static void add_tasks(pf_text *out, const pf_kit *k)
{
    pf__text_addf(out,
                  "<h2>The tasks</h2>\n<p>Healthy bound: what a healthy machine is promised, "
                  "against %.3g. Least gain: with less of this mechanism left, the limits of the "
                  "command leave the corrected task below that, even if the gain is known exactly. "
                  "The picture is the bound from gain 0 to 1.5; the line across is what is "
                  "required.</p>\n",
                  k->j_min);
    PF_PAGE_HEAD(out, "Tasks", "task", "mechanism", "healthy return", "healthy bound", "least gain",
                 "bound over the gain");
    for (int t = 0; t < k->n_tasks; t++) {
        for (int u = k->task_use[t]; u < k->task_use[t + 1]; u++) {
            int use = u - k->task_use[t];
            double mean, bound = pf__quality_bound(k, t, -1, 1, &mean);
            double least = pf__quality_least_gain(k, t, use);
            pf__page_row(out, pf_kit_task_name(k, t));
            pf__page_cell(out, "td", pf_kit_mechanism_name(k, k->use_mech[u]));
            pf__page_number(out, mean, 3);
            pf__text_addf(out, "<td class=\"n%s\">%.3f</td>", bound < k->j_min ? " no-go" : "",
                          bound);
            if (isnan(least)) {
                pf__page_cell(out, "td class=\"no-go\"", "never go");
            } else {
                pf__page_number(out, least, 2);
            }
            add_return(out, k, t, use);
            pf__page_row_end(out);
        }
    }
    pf__page_table_end(out);
}

static void add_rehearsals(pf_text *out, const pf_kit *k)
{
    pf__text_add(out, "<h2>The rehearsals</h2>\n");
    if (k->n_rehearse == 0) {
        pf__text_add(out, "<p>This kit rehearses nothing.</p>\n");
        return;
    }
    pf__text_add(out, "<p>Distance: of healthy runs from their prediction, summed over rows and "
                      "channels. A task passes below its limit. Blind: directions in which the "
                      "predictor errs and the rehearsal does not look.</p>\n");
    PF_PAGE_HEAD(out, "Rehearsals", "task", "runs", "distance", "its spread", "limit", "blind");
    for (int t = 0; t < k->n_tasks; t++) {
        const double *numbers = k->rehearsal + (size_t)t * PF_REHEARSAL_NUMBERS;
        int runs = pf_kit_task_rehearsals(k, t), blind = 0, n = pf__rehearsal_numbers(k, t);
        pf__kit_blind(k, t, &blind);
        pf__page_row(out, pf_kit_task_name(k, t));
        if (runs == 0) {
            pf__text_add(out, "<td colspan=\"5\">cannot be rehearsed</td>");
        } else {
            pf__rehearsal_rule rule =
                pf__rehearsal_rule_of(k, numbers, numbers[PF_REHEARSAL_ENERGY], n);
            pf__page_number(out, runs, 0);
            pf__page_number(out, rule.mean, 2);
            pf__page_number(out, rule.sd, 2);
            pf__page_number(out, rule.mean + rule.limit, 2);
            pf__text_addf(out, "<td>%d of %d</td>", blind, blind + n);
        }
        pf__page_row_end(out);
    }
    pf__page_table_end(out);
}

// --- all of it

// The gain nearest to that of calibration.
static int middle_gain(const pf_kit *k)
{
    int n = 0, at = 0;
    const double *gains = pf__quality_gains(k, &n);
    for (int i = 1; i < n; i++) {
        at = fabs(gains[i] - k->g_cal) < fabs(gains[at] - k->g_cal) ? i : at;
    }
    return at;
}

// What stands out, in one paragraph.
static void add_summary(pf_text *out, const pf_kit *k)
{
    int n = 0, gain = middle_gain(k), shown = 0, can = 0;
    for (int j = 1; j < k->n_mech; j++) {
        shown += pf__quality_apart(k, j, gain, NULL) >= APART;
    }
    for (int t = 0; t < k->n_tasks; t++) {
        double mean;
        can += pf__quality_bound(k, t, -1, 1, &mean) >= k->j_min;
    }
    pf__text_addf(out,
                  "<p>%d of %d candidates show a loss to gain %.3g by %d standard deviations or "
                  "more in one look. %d of %d tasks can be go on a healthy machine.</p>\n",
                  shown, k->n_mech - 1, pf__quality_gains(k, &n)[gain], APART, can, k->n_tasks);
}

pf_status pf__kit_page(const pf_kit *k, const char *audit, size_t n_audit, pf_text *html,
                       pf_error *error)
{
    char sha[65];
    pf__sha256_text(k->sha256, sha);
    const char *plant = pf_kit_get_string(k, PF_KIT_PLANT);
    pf__page_open(html, "Calibration of ", plant, false);
    pf__page_heading(html, "Calibration of ", plant);
    add_summary(html, k);
    add_facts(html, k);
    add_separation(html, k);
    add_tasks(html, k);
    add_rehearsals(html, k);
    pf__text_add(html, "<h2>The audit</h2>\n");
    if (!audit || !pf__audit_table(html, audit, n_audit, sha)) {
        pf__text_addf(html,
                      "<p>%s <code>preflight audit KIT</code> tries its verdict on machines that "
                      "are sick in every way.</p>\n",
                      audit && pf__audit_damaged(audit, n_audit)
                          ? "The file with its audit is damaged: it says nothing."
                          : "This kit was not audited.");
    }
    add_probes(html, k);
    add_curves(html, k);
    add_channels(html, k);
    pf__page_close(html);
    return html->failed ? pf_fail(error, PF_ERR_MEMORY, "out of memory for a page") : PF_OK;
}
