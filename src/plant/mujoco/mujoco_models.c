// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#include "mujoco.h"

#include <string.h>

// Channels are the positions without the root's x (and y), then the velocities. Scales are the rms
// of (nominal pulse response - free response) by channel, over 40 of Gymnasium's resets, all
// candidates and 8 steps, at least a tenth of the median of the positions or of the velocities.
static const double ant_scale[] = {.012771, .0034974, .013311, .011523, .024733,  .17397,  .034974,
                                   .17351,  .083272,  .17528,  .095739, .0041118, .035959, //
                                   .24225,  .23596,   .20007,  .40807,  .41195,   .26662,  .88063,
                                   .87881,  .87766,   1.1124,  .88477,  1.078,    .062225, .83255};
static const double half_cheetah_scale[] = {
    .013094, .021025, .010329, .062404, .063838, .092886, .072712, .076585, //
    .058093, .090743, .17068,  .16929,  .52975,  .54285,  .57435,  .68363,  .51332};
static const double hopper_scale[] = {.00068542, .0010612, .00033915, .0027586, .033124, //
                                      .021868,   .025912,  .03221,    .013144,  .093449, 1.2553};
static const double humanoid_scale[] = {
    .0045177, .0045177, .0095507, .0069979, .018655, .064788, .056075, .04296,
    .029293,  .082257,  .083938,  .036763,  .029089, .082258, .083731, .036645,
    .044788,  .051953,  .068497,  .045566,  .054016, .067929, //
    .085022,  .085022,  .085022,  .33623,   .45498,  .56097,  .9407,   .91345,
    .6911,    .43334,   1.1095,   1.2022,   .97364,  .43096,  1.1095,  1.1985,
    .96773,   .79193,   .85022,   1.125,    .81087,  .89762,  1.1146};
static const double swimmer_scale[] = {.060379, .18514, .28822, //
                                       .085979, .48656, .39039, 1.2042, 1.8705};
static const double walker2d_scale[] = {
    .0035967, .012779, .010799, .022326, .1987,  .011414, .023555, .19877, //
    .047993,  .12102,  .47993,  .40406,  .61459, 6.966,   .41228,  .64448, 6.9673};

static const double ant_reveal[] = {.08, .10, .12, .14, .16, .18, .22};
static const double ant_importance[] = {1, 1.1, 1.2, 1.4, 1.6, 1.8, 2};
static const double planar_reveal[] = {.10, .15, .20, .25, .30};
static const double planar_importance[] = {1, 1.2, 1.4, 1.7, 2};

static const pf_mujoco_system systems[] = {
    {.name = "ant",
     .title = "four-legged walker, eight joint motors",
     .file = "ant.xml",
     .known = "cd5f83ef0ea35b09",
     .nq = 15,
     .nv = 14,
     .nu = 8,
     .skip = 5,
     .dropped = 2,
     .dt_s = .05,
     .reset_qpos = .1,
     .reset_qvel = .1,
     .reset_normal = true,
     .scale = ant_scale,
     .reveal = ant_reveal,
     .importance = ant_importance},
    {.name = "half_cheetah",
     .title = "planar runner, six joint motors",
     .file = "half_cheetah.xml",
     .known = "11797a5d69e8ac95",
     .nq = 9,
     .nv = 9,
     .nu = 6,
     .skip = 5,
     .dropped = 1,
     .dt_s = .05,
     .reset_qpos = .1,
     .reset_qvel = .1,
     .reset_normal = true,
     .scale = half_cheetah_scale,
     .reveal = planar_reveal,
     .importance = planar_importance},
    {.name = "hopper",
     .title = "planar one-legged hopper, three joint motors",
     .file = "hopper.xml",
     .known = "3ce93a055ffdcd83",
     .nq = 6,
     .nv = 6,
     .nu = 3,
     .skip = 4,
     .dropped = 1,
     .dt_s = .008,
     .reset_qpos = .005,
     .reset_qvel = .005,
     .scale = hopper_scale},
    {.name = "humanoid",
     .title = "humanoid, seventeen joint motors",
     .file = "humanoid.xml",
     .known = "85816f372c826d20",
     .nq = 24,
     .nv = 23,
     .nu = 17,
     .skip = 5,
     .dropped = 2,
     .dt_s = .015,
     .reset_qpos = .01,
     .reset_qvel = .01,
     .scale = humanoid_scale},
    {.name = "swimmer",
     .title = "three-link swimmer, two joint motors",
     .file = "swimmer.xml",
     .known = "25b0d46bf5522920",
     .nq = 5,
     .nv = 5,
     .nu = 2,
     .skip = 4,
     .dropped = 2,
     .dt_s = .04,
     .reset_qpos = .1,
     .reset_qvel = .1,
     .scale = swimmer_scale},
    // the file is Gymnasium's v5 model; walker2d.xml is an older one
    {.name = "walker2d",
     .title = "planar two-legged walker, six joint motors",
     .file = "walker2d_v5.xml",
     .known = "6bed53a6cc3ca73c",
     .nq = 9,
     .nv = 9,
     .nu = 6,
     .skip = 4,
     .dropped = 1,
     .dt_s = .008,
     .reset_qpos = .005,
     .reset_qvel = .005,
     .scale = walker2d_scale,
     .reveal = planar_reveal,
     .importance = planar_importance},
};

int pf__mujoco_count(void)
{
    return (int)(sizeof systems / sizeof systems[0]);
}

const pf_mujoco_system *pf__mujoco_at(int index)
{
    return index >= 0 && index < pf__mujoco_count() ? &systems[index] : NULL;
}

const pf_mujoco_system *pf__mujoco_find(const char *name)
{
    for (int i = 0; i < pf__mujoco_count(); i++) {
        if (strcmp(systems[i].name, name) == 0) {
            return &systems[i];
        }
    }
    return NULL;
}

int pf__mujoco_channels(const pf_mujoco_system *system)
{
    return system->nq - system->dropped + system->nv;
}
