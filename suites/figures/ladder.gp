# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
# What removing a part of the method costs, two metrics, mean over environments.
load FIGURES.'/common.gp'

# the setting averaged over all gains first, then those that were run
TONES = '#0072B2 #56B4E9 #E69F00 #009E73 #CC79A7'
N_BARS = N_SETTINGS < 5 ? N_SETTINGS : 5
setting(i) = SETTING[(N_SETTINGS - 2 + i) % N_SETTINGS + 1]
title_of(setting) = has(setting, 'g') ? 'g = '.given(setting, 'g') : 'all gains'
rung(label) = strstrt(label, ', ') ? label[strstrt(label, ', ') + 2:*] : label
array RUNG[MOST]; N_RUNGS = 0
do for [m = 1:N_METHODS] { if (METHOD[m] ne REFERENCE) { N_RUNGS = N_RUNGS + 1; RUNG[N_RUNGS] = m } }
rung_of(method) = sum [r = 1:N_RUNGS] (METHOD[RUNG[r]] eq method ? r : 0)
place(r, i) = r == 0 ? NaN : (r - 1) * (N_BARS + 1) + i - 1
x(i) = strcol(1) eq MEAN && strcol(2) eq setting(i) ? place(rung_of(strcol(3)), i) : NaN

PANELS = N_SHOWN < 2 ? N_SHOWN : 2
eval canvas(600 * PANELS, 560)
set multiplot layout 1,PANELS title SUITE.': what removing a part costs, mean over '.plural(N_ENVIRONMENTS, 'plant') \
    margins 0.08,0.985,0.08,0.84 spacing 0.1,0
set grid noxtics
set xtics () scale 0
do for [r = 1:N_RUNGS] { set xtics add (tic(rung(METHOD_LABEL[RUNG[r]])) (r - 1) * (N_BARS + 1) + (N_BARS - 1) / 2.0) }
set xrange [-1:N_RUNGS * (N_BARS + 1) - 1]
set boxwidth 0.85
set offsets 0,0,graph 0.05,0
set key at screen 0.5,0.9 center horizontal samplen 1.5
do for [p = 1:PANELS] {
    b = block(SHOWN[p].DIFFERENCE)
    set ylabel label(SHOWN[p]).': rung minus full'
    plot for [i = 1:N_BARS] DATA index b using (x(i)):4 with boxes fs solid 0.85 noborder lc rgb word(TONES, i) \
            title title_of(setting(i)), \
        for [i = 1:N_BARS] DATA index b using (x(i)):6:(0):(column(7) - column(6)) with vectors nohead lw 1.5 \
            lc rgb 'black' notitle, \
        0 lw 1 lc rgb 'black' notitle
    unset key
}
unset multiplot
