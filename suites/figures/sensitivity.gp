# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Return and broken bounds over the number of categories and of calibration episodes.
KEY1 = 'K'; LABEL1 = 'categories K'; SHOW1 = 'changed_task_return'
AXES1 = 'set xtics (2, 3, 5, 9); set xrange [1.5:9.5]; set yrange [*:*]'
KEY2 = 'N'; LABEL2 = 'calibration episodes N'; SHOW2 = 'changed_task_return'
AXES2 = 'set logscale x 2; set xtics (25, 50, 100, 200); set xrange [20:250]; set yrange [*:*]'
KEY3 = 'K'; LABEL3 = LABEL1; SHOW3 = 'violation'; AXES3 = AXES1.'; set yrange [0:*]'
KEY4 = 'N'; LABEL4 = LABEL2; SHOW4 = 'violation'; AXES4 = AXES2.'; set yrange [0:*]'
load FIGURES.'/curves.gp'
