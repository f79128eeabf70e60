// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_CONSTANTS_H
#define PF_CONSTANTS_H

// Every threshold of the procedure that is not a setting of a kit, with its reason. What a user may
// want to change is a setting; these are not.

// --- is a response plausible? (field kits)

// A predicted signature below this share of the usual one shows nothing: the start state hides the
// mechanism. A tenth is far below the usual spread over starts and far above rounding.
#define PF_SIGNATURE_SHARE .1

// An amplitude may lie this far outside the range from healthy to dead, plus so many sigmas. The
// margin is wide on purpose: it is there to refuse frozen and wild sensors, not unusual machines.
#define PF_AMPLITUDE_SLACK .5
#define PF_AMPLITUDE_SIGMAS 8

// A probe that gave this many implausible responses is not asked again. One may be bad luck.
#define PF_IMPLAUSIBLE_MAX 2

// --- the joint posterior (field kits)

// A gain above 1 is four times less probable before any look than one below: mechanisms wear, but a
// valve may be replaced by a larger one, and a go for such a machine must be true too.
#define PF_POSTERIOR_STRONGER .25
// Degrees of freedom of the coordinates. Their tails are heavier than a Gaussian's: with one, 90 %
// intervals held .87 of the gains (.78 on the worst of nine plants), with 5 degrees .95 (.93).
#define PF_POSTERIOR_FREEDOM 5
// The least variance of a coordinate: the square of PF_SIGMA_MIN.
#define PF_POSTERIOR_VARIANCE_MIN 4e-4
// A mechanism whose probability of a change fell below this share of what it was is not suspected
// any more: its bound is that over all hypotheses, not that given a loss.
#define PF_SUSPECTED_SHARE .01
// With this many curves of a task a loss is harmless where the promise holds at its gain. The share
// of curves that fall short is then known to +-.04 at alpha .1; with the 16 of a twin to +-.08.
#define PF_HARMLESS_CURVES 50
// An alarm is dismissed where the probability that anything changed is below this; until then more
// looks are taken.
#define PF_DISMISSED .01
// Hypotheses with less probability than this do not move a mean by a digit that is shown.
#define PF_NEGLIGIBLE 1e-9
// J names a loss where the probability that its mechanism changed is above this.
#define PF_NAMED .5

// A kit from recordings says off-grid where more than this belief lies farther than this from every
// recorded gain.
#define PF_BEYOND_KNOTS .05
#define PF_BEYOND_BELIEF .05
// A loss is unseen where the looks have not lowered its odds against healthy to a tenth.
#define PF_UNSEEN_SHARE .1
// Nor raised them to more than this: then something speaks for it.
#define PF_UNSEEN_MOST 3
// The doubt below which a verdict is settled: no further probe will change it.
#define PF_SETTLED_DOUBT 1e-3

// Equal trajectories of a simulator may differ by this share of a reading, from rounding that
// depends on where its memory lies (up to 5e-12 was seen); ten times what was measured counts as
// equal. What differs by more has another cause.
#define PF_ROUNDING 1e-9
#define PF_TOLERANCE_MOST 1e-8

// The least level of a misfit: a normal deviate that one session in a hundred reaches by chance.
#define PF_MISFIT_LEAST 2.3
// The most that calibration may take for fitting. A machine whose healthy sessions go beyond it is
// told so, rather than hidden behind a level that nothing reaches.
#define PF_MISFIT_MOST 100.0
#define PF_MISFIT_LEVEL_MOST 10.0
// The largest mean and spread of a root that misfits are made of: a channel whose healthy residual
// is a thousand times its own rms was not calibrated.
#define PF_MISFIT_ROOT_MOST 1e3
// A channel that moves before the first command by this many times the most of healthy starts is
// restless.
#define PF_RESTLESS 1.5
// As the most of healthy starts it says that none is known yet.
#define PF_UNBOUNDED 1e300
// What a channel that stands still, or is restless, adds to its misfit: above every level.
#define PF_MISFIT_STILL 1e6

// --- rehearsal (field kits)

// A rehearsal must leave this many standard deviations to the limit, and its bound is that far
// below what was seen.
#define PF_REHEARSAL_SDS 2
// In a group a task that just fails must stand this many standard deviations out of the noise; else
// it runs alone.
#define PF_REHEARSAL_VISIBLE_SDS 4
// A task that is lost in the noise runs up to the square of this many times, and the mean counts.
// One that needs more stays not rehearsed.
#define PF_REHEARSALS_MOST 4
// A task whose group did not come out well must come out well alone this often, from other starts.
#define PF_REHEARSALS_AFTER_GROUP 2
// Hypotheses above this probability must keep a rehearsal within the limits of the design.
#define PF_REHEARSAL_WEIGHT .01
// A rehearsal with a learned model leaves out the directions in which the model errs, until noise
// is this share of what must be seen, or this share of it is left to see.
#define PF_BLIND_NOISE .125
#define PF_BLIND_LEAST .1
// Share of all directions that may be left out. With half of them, quick models of slow plants let
// 1 of 40 sick machines pass; MuJoCo systems need 1 to 18 %.
#define PF_BLIND_MOST .25
// Charge of one row of a rehearsal: that of a row of a default probe.
#define PF_REHEARSAL_CHARGE .01

// --- does a response count as having probed a mechanism?

// Only a reading whose |log likelihood ratio| exceeds this says more than that the probe ran: odds
// move by at least a tenth.
#define PF_PROBED_LOG_RATIO .1

// --- what blocks a task before its bound is computed? (field kits)

// Own evidence for a loss at odds of 19 to 1 (95 %) must not be explained away: if the belief holds
// that mechanism for rather healthy, the two are in conflict.
#define PF_CONFLICT_ODDS 19
#define PF_CONFLICT_BELIEF .5

// The mean admitted amplitude lies beyond the weakest gain of the grid by this many standard
// errors, of a mechanism that is not ruled out: less is left of it than the model can say.
#define PF_OFF_GRID_SIGMAS 2
#define PF_OFF_GRID_BELIEF .01

// --- match

// Online, a target whose signature keeps less than this share outside the span of the others is
// skipped: what is left is rounding and model error.
#define PF_REMAINING_ONLINE .01
// At calibration such a probe is refused (median over the calibration starts). Five times the
// online limit, so that a probe that passes seldom skips a target.
#define PF_REMAINING_CALIBRATION .05

// A pivot of the correlations (unit diagonal) below this is eliminated the careful way: half of the
// digits are gone.
#define PF_PIVOT_CAREFUL 1e-8
// And one below this counts as dependent there: remaining 1e-5, far under what is usable.
#define PF_PIVOT_DEPENDENT 1e-10

// --- beliefs

// Odds stay below this: far from any decision and finite.
#define PF_ODDS_MAX 1e300

// A severity is weighed without logarithms while its likeliest gain keeps more than e^-600 of its
// weight; doubles end at e^-745.
#define PF_SEVERITY_EXPONENT 600

// The least temperature, for discrepancies that are all equal.
#define PF_TEMPERATURE_MIN 1e-12

// Probabilities that were normalised sum to 1 within this; anything else is not finite or damaged.
#define PF_SUM_SLACK 1e-6

// Tail mass on each side of the interval of a gain (90 % inside), and the rounding that a cumulated
// mass may have.
#define PF_INTERVAL_TAIL .05
#define PF_INTERVAL_SLACK 1e-12

// --- what the fields of a kit owe each other

// Centres and curves may differ by this and so many sigmas from what they are by definition: they
// are medians, and those of a learned model that errs. Kits of 20 plants differ by at most .15.
#define PF_CENTRE_SLACK .5
#define PF_CENTRE_SIGMAS 2
// What a task misses without its mechanisms and with them, as lengths over what it moves, come to
// at least 1 on a linear machine, as on 20 plants. Half of it leaves room for others.
#define PF_WAY_LEAST .5

// Gains closer than this are one gain: they come from decimal text.
#define PF_SAME_GAIN 1e-9

// --- choice

// Values are compared in units of this, so that exact ties stay ties on every machine. Beyond
// PF_TIE_LARGEST (2^53 units) a double has no decimals left to round.
#define PF_TIE_UNITS 1e12
#define PF_TIE_LARGEST 9007.0

// Value of an arm of the bandit that was never tried: above every real one.
#define PF_BANDIT_UNVISITED 1e9

// --- return

// A tracking error is clipped here before it becomes a return: exp(-10) is as good as nothing.
#define PF_TRACKING_ERROR_MAX 10.0

// --- calibration, where it decides what a session will accept

// Healthy and weakened responses of a field kit lie at least this many dispersions apart, else
// their categories overlap too much for a decision.
#define PF_APART_DISPERSIONS 3
// Centres closer than this coincide.
#define PF_APART_MIN 1e-9
// The least sigma of a coordinate, in units of the calibrated loss. A finite number of episodes
// cannot vouch for less, and a sigma of 0 would let one reading decide.
#define PF_SIGMA_MIN .02
// A response is plausible up to this multiple of the largest misfit that calibration saw: twice
// what the model ever missed is not the model's machine.
#define PF_LARGEST_MULTIPLE 2
// The least misfit, for a plant without noise.
#define PF_MISFIT_MIN 1e-12
// Where another target's loss moves a row by more than this ratio, the rows of a probe are kept in
// full (protocol section 8). Below it the error of the short form is smaller than one category's
// evidence.
#define PF_CROSS_RATIO 3

// The share of the risk that the worst bound leaves to gains that the posterior holds for unlikely.
// A posterior has tails; without it the bound would be that of the most unlikely gain.
#define PF_WORST_SHARE .2

// Readings that a learned model may start from. More have not been of use, and memory is laid out
// by them.
#define PF_HISTORY_MAX 32

#endif
