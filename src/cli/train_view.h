// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_TRAIN_VIEW_H
#define PF_TRAIN_VIEW_H

#include "cli.h"
#include "preflight/train.h"

// Prints the report of a model, or writes it as JSON.
pf_status train_report(const char *path, pf_plant *plant, uint64_t seed, bool json,
                       const pf_effort *effort, pf_error *error);

// What is seen of a training: a line on the terminal, a log, a learning curve, a report.
typedef struct train_view {
    const pf_train_settings *settings;
    bool terminal;
    bool shown;
    double began, printed, logged;
    const char *log_path;
    int run;                    // epochs of this run
    int done[PF_MODEL_MEMBERS]; // epochs behind each member, early stopping counted in full
    double train[PF_MODEL_MEMBERS], valid[PF_MODEL_MEMBERS];
    pf_text log; // CSV, one row per epoch
} train_view;

// log_path (Nullable): a file that follows the training.
void train_view_init(train_view *view, const pf_train_settings *settings, const char *log_path);
void train_view_end(train_view *view); // ends the line on the terminal
void train_view_free(train_view *view);
void train_view_epoch(void *view, const pf_epoch *epoch); // a pf_train_watch

// Draws the log as a learning curve: FILE by its ending .svg or .png, and the script beside it.
pf_status train_view_plot(const train_view *view, const char *title, const char *path,
                          pf_error *error);

// The report of what matters to the method.
void train_view_report(const pf_plant_info *info, const pf_model_info *model,
                       const pf_assessment *rows, double g_cal);
void train_view_report_json(pf_text *out, const pf_plant_info *info, const pf_model_info *model,
                            const pf_assessment *rows, double g_cal);

#endif
