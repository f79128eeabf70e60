#!/usr/bin/env python3
# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on two threads at the work of bench_world: training and rolling out 12 networks of three
layers of 512. The same computation written in several ways; the fastest of them is the answer.

  member     one network after another
  stacked    all members at once, batched products
  halves     two Python threads with half of the members stacked, one torch thread each
  +compiled  the same through torch.compile; +tuned with its autotuning

Prints lines `name,value,unit`. Every way must reproduce the losses or states of the first one.
With the path of bench_world as its argument it then takes turns with it, ours and the fastest way
here in alternation, and ours and the first way, and prints the quartiles of the ratios of
neighbouring turns too: a machine that others use changes its speed from one half minute to the
next, for both alike.
"""

import concurrent.futures
import contextlib
import os
import statistics
import subprocess
import sys
import time
import warnings

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

MEMBERS, WIDTH, BATCH, ROWS, COMMANDS = 12, 512, 1024, 50_000, 8
HYPOTHESES, STEPS = 160, 12
SHAPES = ((113, 105), (35, 27))
WAYS = ("member", "stacked", "halves", "stacked+compiled", "halves+compiled", "stacked+tuned")
REPEAT, SECONDS, TURNS = 4, 1.0, 12
OURS = sys.argv[1] if len(sys.argv) > 1 else None
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


def timed(run):
    """Seconds of one run, over a turn of them."""
    n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        run()
        n += 1
    return (time.perf_counter() - begin) / n


def prepare(way, make):
    """The work in this way, compiled and warm, and what it gave meanwhile."""
    torch.set_num_threads(1 if way.startswith("halves") else 2)
    torch._dynamo.reset()
    run = make(way)
    return run, [run() for _ in range(3)]


def our_turn(name):
    done = subprocess.run([OURS, name], stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split(",")[1])


def take_turns(name, against, run, amount):
    """Ratios of our rate to theirs, each turn of theirs between two of ours."""
    before, ratios = our_turn(name), []
    for _ in range(TURNS):
        theirs, after = amount / timed(run), our_turn(name)
        ratios.append((before * after) ** .5 / theirs)
        before = after
    for part, value in zip(("low", "mid", "high"), statistics.quantiles(ratios)):
        print(f"turns_{name}_{against}_{part},{value:.4g},x", flush=True)


def contest(name, make, same, amount, unit):
    """The rate of the fastest way that gives the right numbers."""
    rates, first = {}, None
    for way in WAYS:
        try:
            run, values = prepare(way, make)
            first = values if first is None else first
            if not all(same(a, b) for a, b in zip(values, first)):
                raise ArithmeticError("other numbers than the first way")
            rates[way] = amount / min(timed(run) for _ in range(REPEAT))
            print(f"  {name} {way}: {rates[way]:.0f} {unit}", file=sys.stderr)
        except Exception as error:  # no compiler for torch.compile, for instance
            print(f"  {name} {way}: left out, {str(error).strip()[:100]}", file=sys.stderr)
    print(f"torch_{name},{max(rates.values()):.6g},{unit}", flush=True)
    if OURS:
        for against, way in (("best", max(rates, key=rates.get)), ("plain", WAYS[0])):
            take_turns(name, against, prepare(way, make)[0], amount)


def measure(n_in, n_out):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(ROWS, n_in, generator=generator)
    y = torch.randn(ROWS, n_out, generator=generator)
    order = torch.randint(ROWS, (ROWS // BATCH, MEMBERS, BATCH), generator=generator)
    parameters = initial(n_in, n_out)
    contest(f"train_{n_in}_{n_out}", lambda way: trainer(way, x, y, order, parameters),
            lambda a, b: abs(a - b) < 1e-3 * abs(b), MEMBERS * BATCH, "samples/s")
    start = torch.randn(1, n_out, generator=generator).repeat(HYPOTHESES, 1)
    commands = torch.rand(STEPS, 1, COMMANDS, generator=generator) * 2 - 1
    gains = torch.rand(HYPOTHESES, COMMANDS, generator=generator)
    scales = (torch.zeros(n_in), torch.ones(n_in),
              .001 * torch.randn(n_in, n_out, generator=generator),
              torch.zeros(n_out), torch.full((n_out,), .01))
    contest(f"roll_{n_in}_{n_out}",
            lambda way: roller(way, start, commands, gains, scales, parameters),
            lambda a, b: torch.allclose(a, b, atol=1e-4), HYPOTHESES * MEMBERS * STEPS, "steps/s")


def main():
    warnings.filterwarnings("ignore")
    torch.set_flush_denormal(True)
    with contextlib.suppress(AttributeError):
        torch._dynamo.config.recompile_limit = 64
    print(f"torch {torch.__version__}", file=sys.stderr)
    for shape in SHAPES:
        measure(*shape)
    POOL.shutdown()


main()
