# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# Up to six measures of one environment, every method at every setting, with 95 % intervals; the last
# panel is what each method lacks of EG-MPT, in pairs of the same trials. A template sets METRICS (the
# measures), PAIRED (that of the last panel) and PAIRED_LABEL, then loads this.
load FIGURES.'/common.gp'

TONES = '#0072B2 #E69F00 #009E73 #CC79A7 #56B4E9'
PANELS = words(METRICS) + 1
COLUMNS = 3; ROWS = (PANELS + COLUMNS - 1) / COLUMNS
title_of(setting) = has(setting, 'g') ? 'g = '.given(setting, 'g') : has(setting, 'shock') ? 'shock' : 'all gains'
method(id) = sum [m = 1:N_METHODS] (METHOD[m] eq id ? m : 0)
place(m, i) = m == 0 ? NaN : (m - 1) * (N_RUN + 1) + i - 1
x(i) = strcol(1) eq MEAN && strcol(2) eq SETTING[i] ? place(method(strcol(3)), i) : NaN

eval canvas(1560, 70 + 430 * ROWS)
set multiplot layout ROWS,COLUMNS title SUITE.', '.ENVIRONMENT_LABEL[1].': mean and 95 % interval' \
    margins 0.06,0.985,0.16,0.90 spacing 0.06,0.2
set grid noxtics
set xtics () scale 0 rotate by -40 font ',10'
do for [m = 1:N_METHODS] { set xtics add (tic(METHOD_LABEL[m]) (m - 1) * (N_RUN + 1) + (N_RUN - 1) / 2.0) }
set xrange [-1:N_METHODS * (N_RUN + 1) - 1]
set boxwidth 0.85
set key at screen 0.5,0.935 center horizontal samplen 1.5
BARS = "plot for [i = 1:N_RUN] DATA index b using (x(i)):4 with boxes fs solid 0.85 noborder lc rgb word(TONES, i) " \
    ."title title_of(SETTING[i]), for [i = 1:N_RUN] DATA index b using (x(i)):6:(0):(column(7) - column(6)) " \
    ."with vectors nohead lw 1.4 lc rgb 'black' notitle"
do for [p = 1:PANELS] {
    SHOW = p < PANELS ? word(METRICS, p) : PAIRED.DIFFERENCE
    b = block(SHOW)
    set ylabel (p < PANELS ? label(SHOW) : PAIRED_LABEL) offset 0.5,0
    set yrange [*<0:0<*]
    if (p == PANELS) { set xzeroaxis lt 1 lw 1 lc rgb 'black' }
    eval BARS
    unset key
}
unset multiplot
