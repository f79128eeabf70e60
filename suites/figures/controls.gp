# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Return and gain error over gains that were not calibrated for.
KEY1 = 'g'; LABEL1 = 'true gain g'; SHOW1 = 'changed_task_return'
AXES1 = 'set xtics 0.1; set xrange [0.1:0.9]; set yrange [*:*]'
KEY2 = 'g'; LABEL2 = 'true gain g'; SHOW2 = 'gain_mae'
AXES2 = 'set xtics 0.1; set xrange [0.1:0.9]; set yrange [0:*]'
load FIGURES.'/curves.gp'
