# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""What `progress=` means: a function of yours, True for bars or lines, None for nothing."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Iterator, Optional, Sequence, TypeVar, Union

Report = Callable[[str, int, int], Any]
Progress = Union[None, bool, Report]
Item = TypeVar("Item")


class Lines:
    """Plain lines on standard error: one every few seconds."""

    PAUSE = 5.0  # seconds

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last >= self.PAUSE:
            self.last = now
            print(f"{what} {done}/{total}", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class Bars:
    """A bar of tqdm for each stage."""

    def __init__(self, tqdm: Any) -> None:
        self.tqdm = tqdm
        self.bar: Any = None

    def __call__(self, what: str, done: int, total: int) -> None:
        bar = self.bar
        if bar is None or bar.desc != what or bar.total != total or done < bar.n:
            self.close()
            # what was kept of an earlier run does not count for the rate
            self.bar = bar = self.tqdm(desc=what, total=total, initial=done, leave=False)
        else:
            bar.update(done - bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def reporter(progress: Progress) -> Optional[Report]:
    """The function to call; it may have a `close`."""
    if progress is None or progress is False:
        return None
    if progress is not True:
        if not callable(progress):
            raise TypeError(f"progress: {progress!r} is neither True nor a function of "
                            "(what, done, total)")
        return progress
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return Lines()
    return Bars(tqdm)


def finish(report: Optional[Report]) -> None:
    """Takes bars of ours away."""
    if isinstance(report, (Lines, Bars)):
        report.close()


def reported(items: Sequence[Item], what: str, progress: Progress) -> Iterator[Item]:
    """The items, with a report before each and one at the end."""
    report = reporter(progress)
    try:
        for done, item in enumerate(items):
            if report is not None:
                report(what, done, len(items))
            yield item
        if report is not None:
            report(what, len(items), len(items))
    finally:
        finish(report)
