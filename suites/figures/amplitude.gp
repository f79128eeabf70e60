# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Return and gain error over the amplitude of the pulses.
KEY1 = 'A'; LABEL1 = 'amplitude of the pulses A'; SHOW1 = 'changed_task_return'
AXES1 = 'set xtics 0.05; set xrange [0.08:0.37]; set yrange [*:*]'
KEY2 = 'A'; LABEL2 = 'amplitude of the pulses A'; SHOW2 = 'gain_mae'
AXES2 = 'set xtics 0.05; set xrange [0.08:0.37]; set yrange [0:*]'
load FIGURES.'/curves.gp'
