"""Runs experiments in virtual time with the code of servers and viewers. The same plan and seeds give exactly the same results.

::

    results = nearlight.lab.run("vrcc-stable", seeds=5)
    frame = pandas.DataFrame(results.cells)

docs/lab.md describes plans, docs/json.md the results.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from . import _native
from ._errors import UsageError

__all__ = ["PlanInfo", "Progress", "Results", "columns", "controllers", "plan", "plans", "run"]


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """A plan: its question, its number of cells, and the default number of runs of each cell."""

    name: str
    question: str
    notes: str
    cells: int
    seeds: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The number of finished runs, the number of all runs, and the estimated seconds until all are finished."""

    done: int
    all: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Results:
    """Tables of a plan's runs, each a list of dictionaries with the same keys, as ``pandas.DataFrame`` and ``csv.DictWriter`` take them.

    Their first columns are the cell's labels. An infinite value, such as the latency of a frame that was never displayed, is ``math.inf``. A value
    that a cell or a run does not have is ``None``.
    """

    plan: str
    commit: str
    seeds: int
    #: Simulated seconds of this call, without runs that an earlier call has left in the folder.
    simulated: float
    #: A row for each cell: the mean of each metric over its runs.
    cells: list[dict[str, Any]]
    #: A row for each cell and metric: mean, ci95 (half the width of its 95 % confidence interval), p50, p95, p99, n (runs).
    figures: list[dict[str, Any]]
    #: A row for each run: its seed and the mean of each metric.
    runs: list[dict[str, Any]]
    #: A row for each session or competing flow of cells that have several: like ``figures``, with its name in ``flow``.
    flows: list[dict[str, Any]]


def plans() -> list[PlanInfo]:
    """Returns the plans of the package. :func:`run` accepts their names."""
    return [plan(name) for name in _native.built_in_plans()]


def plan(which: str | PathLike[str]) -> PlanInfo:
    """Reads a plan of the package by its name, or a TOML file."""
    return PlanInfo(*_native.describe_plan(*_open(which)))


def controllers() -> dict[str, str]:
    """Returns the names of the rate controllers, with a summary of each."""
    return dict(_native.controllers())


def run(
    which: str | PathLike[str],
    *,
    seeds: int | None = None,
    threads: int | None = None,
    only: Mapping[str, str | Iterable[str]] | Iterable[str] | None = None,
    folder: str | PathLike[str] | None = None,
    traces: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], object] = False,
) -> Results:
    """Runs a plan of the package by its name, or a TOML file.

    ``seeds`` is the number of runs of each cell (default: the plan's). ``threads`` is the number of runs at a time (default: one on each processor).
    ``only`` restricts the plan to cells with these labels, such as ``{"controller": ["gcc-libwebrtc", "nada"]}``, or in the
    command's notation ``["controller=gcc-libwebrtc", "controller=nada"]``. ``folder`` keeps finished runs, so that a later call continues after an
    interruption. ``traces`` replaces the plan's synthetic capacities by one path for each trace in this folder.
    ``progress`` set to True writes lines to standard error; a function is called after runs, and an exception that it raises ends the plan.
    Ctrl-C ends the plan after the runs in progress.
    """
    tell: Callable[[int, int, float], object] | None = None
    if progress is True:
        tell = _print
    elif callable(progress):
        inform = progress

        def tell(done: int, total: int, left: float) -> object:
            return inform(Progress(done, total, left))

    pairs = _labels(only)
    program = _native.__file__
    file, text = _open(which)
    document = json.loads(_native.run_plan(file, text, seeds, threads, pairs, folder, traces, program, tell))
    return _results(document)


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Converts a table into its columns."""
    return {name: [row.get(name) for row in rows] for name in (rows[0] if rows else {})}


def _labels(only: Mapping[str, str | Iterable[str]] | Iterable[str] | None) -> list[tuple[str, str]]:
    """Returns the labels as pairs of name and value."""
    if only is None:
        return []
    if isinstance(only, Mapping):
        pairs = [
            (label, value)
            for label, values in only.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
    else:
        pairs = [_pair(label) for label in ([only] if isinstance(only, str) else only)]
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise UsageError(f"`only` has labels that are no text: {pairs!r}")
    return pairs


def _pair(label: object) -> tuple[str, str]:
    if isinstance(label, str):
        name, equals, value = label.partition("=")
        if name and equals:
            return name, value
    raise UsageError(f'`only` has {label!r}: write {{"controller": "nada"}} or ["controller=nada"]')


def _open(which: str | PathLike[str]) -> tuple[str, str]:
    path = fspath(which)
    text = _native.built_in_plan(path) if isinstance(which, str) else None
    if text is not None:
        return f"{path}.toml", text
    try:
        return path, Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        names = ", ".join(_native.built_in_plans())
        raise UsageError(
            f"`{path}` is neither a TOML file that can be read ({error}) nor a plan of the package; those are {names}"
        ) from None


def _print(done: int, total: int, left: float) -> None:
    print(f"{done} of {total} runs, {left:.0f} s left", end="\n" if done == total else "   \r", file=sys.stderr, flush=True)


def _number(value: float | None) -> float:
    # An infinite value is null in JSON.
    return math.inf if value is None else value


def _rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows with the same keys in each."""
    names = {name: None for row in rows for name in row}
    return [{**names, **row} for row in rows]


def _figures(labels: dict[str, Any], metrics: dict[str, dict[str, float | None]]) -> list[dict[str, Any]]:
    return [
        {**labels, "metric": metric, **{name: _number(value) for name, value in figure.items()}}
        for metric, figure in metrics.items()
    ]


def _results(document: dict[str, Any]) -> Results:
    summary = document["summary"]
    cells, figures, flows = [], [], []
    for cell in summary["cells"]:
        labels, metrics = cell["labels"], cell["metrics"]
        cells.append({**labels, **{name: _number(figure["mean"]) for name, figure in metrics.items()}})
        figures += _figures(labels, metrics)
        for flow in cell.get("flows", []):
            flows += _figures({**labels, "flow": flow["flow"]}, flow["metrics"])
    runs = [
        {**run["labels"], "seed": run["seed"], **{name: _number(mean) for name, mean in run["metrics"].items()}}
        for run in document["runs"]
    ]
    return Results(
        summary["plan"],
        summary["commit"],
        summary["seeds"],
        document["simulated"],
        *map(_rows, (cells, figures, runs, flows)),
    )
