# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Two panels of every method over a number that the settings name, mean over environments. A template
# sets, for each panel, KEY, LABEL, SHOW (the metric) and AXES (commands for its axes), then loads this.
load FIGURES.'/common.gp'

array KEYS[2]; array LABELS[2]; array SHOWS[2]; array AXIS[2]; array FEWEST[2]
KEYS[1] = KEY1; KEYS[2] = KEY2; LABELS[1] = LABEL1; LABELS[2] = LABEL2
SHOWS[1] = SHOW1; SHOWS[2] = SHOW2; AXIS[1] = AXES1; AXIS[2] = AXES2
# of the settings that name the key, those that name the fewest others: the rest was averaged out
do for [p = 1:2] {
    FEWEST[p] = MOST
    do for [i = 1:N_SETTINGS] {
        if (has(SETTING[i], KEYS[p]) && keys(SETTING[i]) < FEWEST[p]) { FEWEST[p] = keys(SETTING[i]) }
    }
}
x(p, method) = row(MEAN, method) && keys(strcol(2)) == FEWEST[p] ? number(strcol(2), KEYS[p]) : NaN

# environments that have results
array HAS[MOST]
do for [i = 1:N_ENVIRONMENTS] { HAS[i] = 0 }
place(environment) = sum [i = 1:N_ENVIRONMENTS] (ENVIRONMENT[i] eq environment ? i : 0)
stats DATA index block(SHOW1) using (place(strcol(1)) ? (HAS[place(strcol(1))] = 1) : 0) nooutput

eval canvas(1200, 560)
set multiplot title SUITE.': mean over '.plural(sum [i = 1:N_ENVIRONMENTS] HAS[i], 'environment') \
    .'; bars: seed standard deviation of EG-MPT'
set lmargin at screen 0.02; set rmargin at screen 0.98; set bmargin at screen 0.83; set tmargin at screen 0.94
unset border; unset tics; unset grid
set xrange [0:1]; set yrange [0:1]
set key center center horizontal maxrows 2 samplen 3 width 1
plot for [m = 1:N_METHODS] NaN with linespoints lw width(METHOD[m]) dt dashes(METHOD[m]) pt 3 + m \
    lc rgb colour(METHOD[m]) title METHOD_LABEL[m]
unset key
set border 3 lc rgb '#606060'; set tics nomirror; set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'
set bmargin at screen 0.12; set tmargin at screen 0.8
do for [p = 1:2] {
    b = block(SHOWS[p])
    set lmargin at screen 0.085 + 0.4775 * (p - 1); set rmargin at screen 0.4675 + 0.4775 * (p - 1)
    set xlabel LABELS[p]; set ylabel label(SHOWS[p]) offset 1,0
    eval AXIS[p]
    plot for [m = 1:N_METHODS] DATA index b using (x(p, METHOD[m])):4 smooth unique with linespoints \
            lw width(METHOD[m]) dt dashes(METHOD[m]) pt 3 + m lc rgb colour(METHOD[m]) notitle, \
        DATA index b using (x(p, REFERENCE)):4:(column(5) == column(5) ? column(5) : 0) with yerrorbars lw 1.5 pt 0 lc rgb colour(REFERENCE) notitle
}
unset multiplot
