# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Regret and CRPS over the recovery budget.
KEY1 = 'B2'; LABEL1 = 'recovery probes B2'; SHOW1 = 'future_task_regret'
AXES1 = 'set xtics 1; set xrange [-0.2:*]; set yrange [0:*]'
KEY2 = 'B2'; LABEL2 = 'recovery probes B2'; SHOW2 = 'crps'
AXES2 = 'set xtics 1; set xrange [-0.2:*]; set yrange [0:*]'
load FIGURES.'/curves.gp'
