# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Detection and return over the opportunities between change and reveal.
KEY1 = 'P'; LABEL1 = 'opportunities after the change P'; SHOW1 = 'detection'
AXES1 = 'set xtics 1; set xrange [0.5:6.5]; set yrange [*:*]'
KEY2 = 'P'; LABEL2 = 'opportunities after the change P'; SHOW2 = 'changed_task_return'
AXES2 = 'set xtics 1; set xrange [0.5:6.5]; set yrange [*:*]'
load FIGURES.'/curves.gp'
