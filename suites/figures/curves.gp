# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Two or four panels of every method over a number that the settings name, mean over environments. A
# template sets, for each panel, KEY, LABEL, SHOW (the metric) and AXES (commands for its axes), then
# loads this.
load FIGURES.'/common.gp'

PANELS = exists('KEY4') ? 4 : 2
array KEYS[4]; array LABELS[4]; array SHOWS[4]; array AXIS[4]; array FEWEST[4]
KEYS[1] = KEY1; KEYS[2] = KEY2; LABELS[1] = LABEL1; LABELS[2] = LABEL2
SHOWS[1] = SHOW1; SHOWS[2] = SHOW2; AXIS[1] = AXES1; AXIS[2] = AXES2
if (PANELS == 4) {
    KEYS[3] = KEY3; KEYS[4] = KEY4; LABELS[3] = LABEL3; LABELS[4] = LABEL4
    SHOWS[3] = SHOW3; SHOWS[4] = SHOW4; AXIS[3] = AXES3; AXIS[4] = AXES4
}
# of the settings that name the key, those that name the fewest others: the rest was averaged out
do for [p = 1:PANELS] {
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

ROWS = PANELS / 2
HEIGHT = 120 + 440 * ROWS
eval canvas(1200, HEIGHT)
up(pixels) = 1 - real(pixels) / HEIGHT
set multiplot title SUITE.': mean over '.plural(sum [i = 1:N_ENVIRONMENTS] HAS[i], 'environment') \
    .'; bars: seed standard deviation of EG-MPT'
set lmargin at screen 0.02; set rmargin at screen 0.98; set bmargin at screen up(95); set tmargin at screen up(34)
unset border; unset tics; unset grid
set xrange [0:1]; set yrange [0:1]
set key center center horizontal maxrows 2 samplen 3 width 1
plot for [m = 1:N_METHODS] NaN with linespoints lw width(METHOD[m]) dt dashes(METHOD[m]) pt 3 + m \
    lc rgb colour(METHOD[m]) title METHOD_LABEL[m]
unset key
set border 3 lc rgb '#606060'; set tics nomirror; set grid back lt 1 lw 0.6 lc rgb '#d8d8d8'
do for [p = 1:PANELS] {
    b = block(SHOWS[p])
    r = (p - 1) / 2; c = (p - 1) % 2
    set lmargin at screen 0.085 + 0.4775 * c; set rmargin at screen 0.4675 + 0.4775 * c
    set tmargin at screen up(112 + 440 * r); set bmargin at screen up(492 + 440 * r)
    set xlabel LABELS[p]; set ylabel label(SHOWS[p]) offset 1,0
    unset logscale
    eval AXIS[p]
    plot for [m = 1:N_METHODS] DATA index b using (x(p, METHOD[m])):4 smooth unique with linespoints \
            lw width(METHOD[m]) dt dashes(METHOD[m]) pt 3 + m lc rgb colour(METHOD[m]) notitle, \
        DATA index b using (x(p, REFERENCE)):4:(column(5) == column(5) ? column(5) : 0) with yerrorbars lw 1.5 pt 0 lc rgb colour(REFERENCE) notitle
}
unset multiplot
