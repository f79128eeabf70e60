# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""Runs `preflight bench`, with methods of yours, and gives its results as pandas data frames
(extra: bench)."""

from __future__ import annotations

import csv
import inspect
import io
import json
import math
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from preflight._program import carried
from preflight._show import import_pandas
from preflight.progress import Progress, Report, finish, reporter

if TYPE_CHECKING:
    import pandas

Path = Union[str, "os.PathLike[str]"]
WORKER = "PREFLIGHT_METHOD_WORKER"  # set in the process that reads a method's file
NUMBERS = ("mean", "sd", "lo", "hi", "n", "paper_mean", "paper_sd")


def program(named: Optional[Path] = None) -> str:
    """The program `preflight`: the one named, PREFLIGHT_PROGRAM, what the path has, or the one
    that this package carries."""
    found = (named or os.environ.get("PREFLIGHT_PROGRAM") or shutil.which("preflight")
             or carried())
    if not found:
        raise FileNotFoundError("the program preflight is not on the path: `make install` it, or "
                                "name it in PREFLIGHT_PROGRAM")
    return os.fspath(found)


def _filters(columns: Sequence[tuple]) -> tuple:
    """WHERE and its arguments from (column, value or values or None)."""
    clauses: List[str] = []
    arguments: List[Any] = []
    for column, wanted in columns:
        if wanted is None:
            continue
        values = [wanted] if isinstance(wanted, (str, int, float)) else list(wanted)
        clauses.append(f"{column} IN ({', '.join('?' * len(values))})")
        arguments += values
    return (" WHERE " + " AND ".join(clauses) if clauses else ""), arguments


def _known(connection: sqlite3.Connection, db: Path, suite: Any) -> None:
    """A suite that the database does not know is a misspelt one."""
    known = [row[0] for row in connection.execute("SELECT DISTINCT suite FROM experiment")]
    for name in [suite] if isinstance(suite, str) else suite or ():
        if name not in known:
            raise ValueError(f"suite {name!r}: {os.fspath(db)} has {', '.join(known) or 'none'}")


def _latest(connection: sqlite3.Connection) -> List[str]:
    """Of every suite and profile the experiment that was run last."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(experiment)")]
    # databases of earlier versions do not say
    order = "coalesce(last_run, 0), ordinal" if "last_run" in columns else "ordinal"
    rows = connection.execute(f"SELECT suite, profile, hash FROM experiment ORDER BY {order}")
    return list({row[:2]: row[2] for row in rows}.values())


def trials(db: Path = "preflight.db", *, suite: Any = None, profile: Any = None,
           environment: Any = None, method: Any = None, metric: Any = None,
           config: Optional[str] = None) -> pandas.DataFrame:
    """Every trial: columns suite, environment, setting, method, seed, trial, metric, value,
    profile, config_hash. Arguments pick one value or several. Of several experiments of a suite
    and profile the one run last, unless `config` names a hash (or "all").
    """
    pandas = import_pandas()
    if not pathlib.Path(db).is_file():
        raise FileNotFoundError(f"{os.fspath(db)}: there is no such database; `preflight bench "
                                "run` makes it")
    connection = sqlite3.connect(f"file:{pathlib.Path(db).resolve().as_posix()}?mode=ro", uri=True)
    try:
        _known(connection, db, suite)
        hashes = None
        if config is None:
            hashes = _latest(connection)
        elif config != "all":
            hashes = [config]
        where, arguments = _filters([("suite", suite), ("profile", profile), ("metric", metric),
                                     ("environment", environment), ("method", method),
                                     ("config_hash", hashes)])
        return pandas.read_sql_query(
            f"SELECT * FROM trial_metric{where} ORDER BY suite, environment, setting, method, "
            "seed, trial, metric", connection, params=arguments)
    finally:
        connection.close()


def _method_spec(method: Any) -> str:
    """python:FILE:CLASS of a class, or the text itself."""
    if isinstance(method, str):
        return method if method.startswith("python:") else f"python:{method}"
    if not isinstance(method, type):
        raise TypeError(f"{method!r}: give the class itself, or \"FILE:CLASS\"")
    file = inspect.getsourcefile(method)
    if not file or not os.path.exists(file) or getattr(sys.modules.get(method.__module__),
                                                       method.__name__, None) is not method:
        raise ValueError(f"{method!r}: a method is a class at the top of a file")
    return f"python:{os.path.abspath(file)}:{method.__name__}"


def _several(given: Any) -> Sequence[Any]:
    """One value is a list of one."""
    return [given] if isinstance(given, (str, type)) else list(given)


def run(suite: str, *, methods: Sequence[Any] = (), db: Path = "preflight.db",
        profile: str = "standard", set: Sequence[str] = (), only: Sequence[str] = (),
        preflight: Optional[Path] = None, progress: Progress = None,
        allow_exec: bool = False) -> pandas.DataFrame:
    """Runs a suite, with methods of yours beside its own, and gives its table. A method is a class
    with `choose(belief, probes)` (see preflight.method) or "FILE:CLASS"; `set` and `only` are those
    of `preflight bench run`. What the database has already is not run again. progress: a function
    of (what, done, total), or True for bars of tqdm (plain lines without it). allow_exec: runs the
    programs that a suite of yours names."""
    report = reporter(progress)
    if os.environ.get(WORKER):
        raise RuntimeError("this file is being read for its class: put what runs behind "
                           "`if __name__ == \"__main__\":`")
    command = [program(preflight), "bench", "run", suite, "--db", os.fspath(db),
               "--profile", profile, *_allowed(allow_exec)]
    for option, values in (("--method", [_method_spec(m) for m in _several(methods)]),
                           ("--set", _several(set)), ("--only", _several(only))):
        for value in values:
            command += [option, value]
    # the same Python, so that what a method imports is there
    environment = {**os.environ, "PREFLIGHT_PYTHON": sys.executable}
    status, said = _watch(command, environment, report)
    if status != 0:
        raise RuntimeError(said or f"bench run {suite} failed")
    return table(suite, db=db, profile=profile, preflight=preflight, allow_exec=allow_exec)


def _allowed(allow_exec: bool) -> Sequence[str]:
    return ["--allow-exec"] if allow_exec else []


def _watch(command: List[str], environment: Any, report: Optional[Report]) -> Tuple[int, str]:
    """Runs the program, reports its progress, and gives its exit status and what it said. Whatever
    is raised here stops it as Ctrl-C does, so that finished trials are in the database."""
    errors: List[str] = []
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        child = subprocess.Popen(command + ["--progress", "json" if report else "none"],
                                 stdout=output, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            for line in child.stderr or ():
                told = _progress_of(line) if report else None
                if told is None:
                    errors.append(line)
                elif report and "progress" in told:
                    report(told["progress"], told["done"], told["total"])
            child.wait()
        except BaseException:
            child.send_signal(signal.SIGINT)
            child.communicate()
            raise
        finally:
            finish(report)
        output.seek(0)
        return child.returncode, "".join(errors).strip() or output.read().strip()


def _progress_of(line: str) -> Optional[Dict[str, Any]]:
    """A line of `--progress json`; None: it is something else."""
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) and told.keys() & {"progress", "estimate"} else None


def table(suite: str, *, db: Path = "preflight.db", profile: Optional[str] = None,
          preflight: Optional[Path] = None, allow_exec: bool = False) -> pandas.DataFrame:
    """The suite's table, as `preflight bench table --format csv` prints it, beside the paper's
    numbers: suite, environment, setting, metric, method, mean, sd, lo, hi, n, paper_mean,
    paper_sd. Without a profile that of what was run last."""
    pandas = import_pandas()
    which = [] if profile is None else ["--profile", profile]
    done = subprocess.run([program(preflight), "bench", "table", suite, "--format", "csv",
                           "--db", os.fspath(db), *which, *_allowed(allow_exec)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"bench table {suite} failed")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    for row in rows:  # float() gives the printed double back, whatever the version of pandas
        row.update({k: float(row[k]) if row[k] else math.nan for k in NUMBERS})
    return pandas.DataFrame(rows)
