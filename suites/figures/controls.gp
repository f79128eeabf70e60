# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# The return over gains that were not calibrated for, and over weaker pulses.
KEY1 = 'g'; LABEL1 = 'true gain g'; SHOW1 = 'changed_task_return'
AXES1 = 'set xtics 0.1; set xrange [0.1:0.9]; set yrange [*:*]'
KEY2 = 'A'; LABEL2 = 'amplitude of the pulses A'; SHOW2 = 'changed_task_return'
AXES2 = 'set xtics 0.05; set xrange [0.08:0.37]; set yrange [*:*]'
load FIGURES.'/curves.gp'
