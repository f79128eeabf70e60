# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of a session on matplotlib (extra: plot). Each draws on `ax`, or on a new one, and
returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import numpy as np

if TYPE_CHECKING:
    from preflight.session import Readiness, Session

GO, GO_IF, NO_GO = "#2a7f4f", "#c08a1e", "#b3372f"


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("matplotlib is missing: pip install matplotlib "
                          "(or preflight-readiness[plot])") from None
    return plt.subplots(figsize=(6.4, 3.6), layout="constrained")[1]


def belief(session: Session, ax: Any = None, *, label_above: float = 0.05) -> Any:
    """P(mechanism changed) after each response of stage 1, with the alarm's threshold. Mechanisms
    that never exceed `label_above` are drawn thin and without a label."""
    ax = _axes(ax)
    told = [t for t in session.history if t.stage == 1]
    steps = np.arange(1, len(told) + 1)
    values = np.array([t.belief for t in told]).reshape(len(told), len(session.kit.mechanisms))
    for j, name in enumerate(session.kit.mechanisms[1:], start=1):
        shown = len(told) > 0 and values[:, j].max() > label_above
        ax.plot(steps, values[:, j], label=name if shown else None,
                **({"lw": 1.8, "marker": "."} if shown else {"lw": 0.6, "color": "0.75"}))
    ax.plot(steps, [t.change for t in told], "k--", lw=1, label="anything")
    ax.axhline(session.threshold, color=NO_GO, lw=0.8, ls=":", label="alarm")
    ax.set(xlabel="opportunity", ylabel="belief", ylim=(-0.02, 1.02))
    ax.legend(frameon=False, fontsize="small")
    return ax


def gains(session: Session, ax: Any = None) -> Any:
    """The posterior over what each candidate has left, conditional on it having changed; the
    opacity is the probability that it has."""
    ax = _axes(ax)
    nominal, joint = session.joint()
    grid = session.grid
    for j, mass in enumerate(joint, start=1):
        changed = mass.sum()
        if changed <= 0:
            continue
        shown = changed > 0.01
        ax.plot(grid, mass / changed, marker=".", alpha=float(0.3 + 0.7 * min(changed, 1)),
                color=None if shown else "0.8",
                label=f"{session.kit.mechanisms[j]} ({changed:.2f})" if shown else None)
    ax.set(xlabel="gain left", ylabel="P(gain | changed)", ylim=(0, None),
           title=f"P(nothing changed) = {nominal:.3f}")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize="small")
    return ax


def readiness(ready: Readiness, ax: Any = None, *, j_min: Optional[float] = None) -> Any:
    """Predicted return and its lower bound per task; j_min: what a task needs to be go."""
    ax = _axes(ax)
    names = [t["name"] for t in ready.tasks]
    mean = np.array([np.nan if t["mean"] is None else t["mean"] for t in ready.tasks])
    lower = np.array([np.nan if t["lower"] is None else t["lower"] for t in ready.tasks])
    colours = [{"go": GO, "go-if": GO_IF}.get(t["decision"], NO_GO) for t in ready.tasks]
    rows = np.arange(len(names))
    ax.barh(rows, np.maximum(lower, 0), color=colours, height=0.6)
    ax.plot(mean, rows, "k|", ms=12)
    for row, task in zip(rows, ready.tasks):
        if task["decision"] != "go":
            ax.text(0.01, row, task["why"], va="center", fontsize="small")
    if j_min is not None:
        ax.axvline(j_min, color="0.3", lw=0.8, ls=":")
    ax.set(yticks=rows, yticklabels=names, xlim=(0, 1.02),
           xlabel="return: lower bound (bar) and mean (mark)")
    ax.invert_yaxis()
    return ax
