#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on two threads at the work of bench_world: training and rolling out 12 networks of three
layers of 512. The same computation written in several ways; the fastest of them is the answer.

  member     one network after another
  stacked    all members at once, batched products
  halves     two Python threads with half of the members stacked, one torch thread each
  +compiled  the same through torch.compile; +tuned with its autotuning

Every way must reproduce the losses or states of the first one. Takes turns as perf/bench.py asks for
them, in the fastest of all ways (best), the fastest of those that need no compiler (eager), or the
first (plain).

Usage: bench_world.py train_113_105|train_35_27|roll_113_105|roll_35_27 best|eager|plain
"""

import concurrent.futures
import contextlib
import os
import sys
import time
import warnings

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from player import play, timed  # noqa: E402

MEMBERS, WIDTH, BATCH, ROWS, COMMANDS = 12, 512, 1024, 50_000, 8
HYPOTHESES, STEPS = 160, 12
SHAPES = ((113, 105), (35, 27))
WAYS = ("member", "stacked", "halves", "stacked+compiled", "halves+compiled", "stacked+tuned")
CHOICE = {"best": WAYS, "eager": [w for w in WAYS if "+" not in w], "plain": WAYS[:1]}
REPEAT, SECONDS = 3, 1.0  # of the processor, to see which way is the fastest
POOL = concurrent.futures.ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,))


def initial(n_in, n_out):
    """Stacked parameters, weight [members, in, out] and bias [members, 1, out] by layer."""
    generator = torch.Generator().manual_seed(1)
    sizes, parameters = (n_in, WIDTH, WIDTH, WIDTH, n_out), []
    for i, o in zip(sizes, sizes[1:]):
        for shape in ((MEMBERS, i, o), (MEMBERS, 1, o)):
            parameters.append((torch.rand(shape, generator=generator) * 2 - 1) / i**0.5)
    return parameters


def pieces(way, parameters):
    """The members as this way takes them: (slice, parameters) of each piece."""
    if way.startswith("member"):
        for e in range(MEMBERS):
            yield slice(e, e + 1), [p[e].t().contiguous() if p.shape[1] > 1 else p[e, 0].clone()
                                    for p in parameters]
    else:
        parts = 2 if way.startswith("halves") else 1
        for k in range(parts):
            mine = slice(k * MEMBERS // parts, (k + 1) * MEMBERS // parts)
            yield mine, [p[mine].clone() for p in parameters]


def forward(parameters, x):
    for k in range(0, len(parameters), 2):
        weight, bias = parameters[k], parameters[k + 1]
        x = torch.baddbmm(bias, x, weight) if weight.dim() == 3 else F.linear(x, weight, bias)
        x = F.silu(x) if k + 2 < len(parameters) else x
    return x


def through(way, function):
    if "+" not in way:
        return function
    mode = "max-autotune-no-cudagraphs" if "tuned" in way else None
    return torch.compile(function, dynamic=False, mode=mode)


def spread(way, jobs):
    """Runs the jobs one after the other, or on two threads."""
    if way.startswith("halves"):
        return list(POOL.map(lambda job: job(), jobs))
    return [job() for job in jobs]


def trainer(way, x, y, order, parameters):
    """One step of every member per call; gives the sum of their losses."""
    def loss_of(own, xs, ys):
        return (forward(own, xs) - ys).square().mean((-2, -1)).sum()
    loss, work, at = through(way, loss_of), [], [0]
    for mine, own in pieces(way, parameters):
        own = [p.requires_grad_() for p in own]
        work.append((own, torch.optim.Adam(own, lr=1e-3, fused=True), mine))

    def piece(own, adam, mine):
        def job():
            rows = order[at[0] % len(order), mine]
            rows = rows[0] if own[0].dim() == 2 else rows
            adam.zero_grad(set_to_none=True)
            value = loss(own, x[rows], y[rows])
            value.backward()
            adam.step()
            return value.item()
        return job
    jobs = [piece(*w) for w in work]

    def run():
        total = sum(spread(way, jobs))
        at[0] += 1
        return total
    return run


def roller(way, start, commands, gains, scales, parameters):
    """One rollout of all members per call, as a model file has it: what the mechanisms deliver
    within their limits, standardised inputs, the least-squares part beside the network; gives the
    states of every step."""
    mean, scale, linear, change_mean, change_scale = scales

    def change(own, state, command):
        drive = (gains * command).clamp(-1, 1)
        if state.dim() == 3:
            drive = drive.expand(state.shape[0], -1, -1)
        x = (torch.cat((state, drive), -1) - mean) * scale
        return state + change_mean + x @ linear + change_scale * forward(own, x)
    step, jobs = through(way, change), []
    for mine, own in pieces(way, parameters):
        def job(own=own, n=mine.stop - mine.start):
            state = start.repeat(n, 1, 1) if own[0].dim() == 3 else start
            response = torch.empty(len(commands), *state.shape)
            with torch.inference_mode():
                for t, command in enumerate(commands):
                    state = step(own, state, command)
                    response[t] = state
            return response.reshape(len(commands), -1, *start.shape)
        jobs.append(job)
    return lambda: torch.cat(spread(way, jobs), 1)


def prepare(way, make):
    """The work in this way, compiled and warm, and what it gave meanwhile."""
    torch.set_num_threads(1 if way.startswith("halves") else 2)
    torch._dynamo.reset()
    run = make(way)
    return run, [run() for _ in range(3)]


def fastest(ways, make, same, amount):
    """The work in the fastest way that gives the right numbers."""
    if len(ways) == 1:
        return prepare(ways[0], make)[0]
    rates, first = {}, None
    for way in ways:
        try:
            run, values = prepare(way, make)
            first = values if first is None else first
            if not all(same(a, b) for a, b in zip(values, first)):
                raise ArithmeticError("other numbers than the first way")
            turn = timed(lambda run=run: (run(), amount)[1])
            rates[way] = max(n / cpu for n, cpu, _ in (turn(SECONDS / 2) for _ in range(REPEAT)))
            print(f"  {way}: {rates[way]:.0f} per second of the processor", file=sys.stderr)
        except Exception as error:  # no compiler for torch.compile, for instance
            print(f"  {way}: left out, {str(error).strip()[:100]}", file=sys.stderr)
    return prepare(max(rates, key=rates.get), make)[0]


def rival(figure, ways):
    """The work of a figure, and how much one run of it does."""
    what, n_in, n_out = figure.split("_")
    n_in, n_out = int(n_in), int(n_out)
    generator = torch.Generator().manual_seed(2)
    parameters = initial(n_in, n_out)
    if what == "train":
        x = torch.randn(ROWS, n_in, generator=generator)
        y = torch.randn(ROWS, n_out, generator=generator)
        order = torch.randint(ROWS, (ROWS // BATCH, MEMBERS, BATCH), generator=generator)
        amount = MEMBERS * BATCH
        return fastest(ways, lambda way: trainer(way, x, y, order, parameters),
                       lambda a, b: abs(a - b) < 1e-3 * abs(b), amount), amount
    start = torch.randn(1, n_out, generator=generator).repeat(HYPOTHESES, 1)
    commands = torch.rand(STEPS, 1, COMMANDS, generator=generator) * 2 - 1
    gains = torch.rand(HYPOTHESES, COMMANDS, generator=generator)
    scales = (torch.zeros(n_in), torch.ones(n_in),
              .001 * torch.randn(n_in, n_out, generator=generator),
              torch.zeros(n_out), torch.full((n_out,), .01))
    amount = HYPOTHESES * MEMBERS * STEPS
    return fastest(ways, lambda way: roller(way, start, commands, gains, scales, parameters),
                   lambda a, b: torch.allclose(a, b, atol=1e-4), amount), amount


def main():
    figures = [f"{what}_{i}_{o}" for what in ("train", "roll") for i, o in SHAPES]
    if len(sys.argv) != 3 or sys.argv[1] not in figures or sys.argv[2] not in CHOICE:
        sys.exit(f"usage: bench_world.py {'|'.join(figures)} best|eager|plain")
    warnings.filterwarnings("ignore")
    torch.set_flush_denormal(True)
    with contextlib.suppress(AttributeError):
        torch._dynamo.config.recompile_limit = 64
    run, amount = rival(sys.argv[1], CHOICE[sys.argv[2]])
    play(timed(lambda: (run(), amount)[1]))
    POOL.shutdown()


main()
