"""Shows the plans of EXPLAIN as readable trees."""

import html
import re
from typing import Any, NamedTuple

_COLUMNS = ["plan_type", "plan"]
# The name of the plan that runs, in EXPLAIN and in EXPLAIN ANALYZE.
_RUNS = ("physical_plan", "Plan with Metrics")
# The row of EXPLAIN that is no plan, but tells how the query comes to its rows.
_ROUTE = "route"
# A number that is larger than the steps of EXPLAIN VERBOSE.
ROWS_MAX = 1000
# The first rows of EXPLAIN, EXPLAIN ANALYZE and EXPLAIN VERBOSE.
_FIRST = ("logical_plan", *_RUNS, "initial_logical_plan")
_OPERATOR = re.compile(r"(?P<indent>(?:  )*)(?P<name>[A-Za-z]\w*?)(?:Exec)?(?:(?:: |, |:)(?P<detail>.*))?")
_METRICS = re.compile(r"(?:^|, )metrics=\[(?P<metrics>.*)\]$")
_STEPS = re.compile(r"(?:^|, )steps=\[(?P<steps>.*)\]$")
_STEP = re.compile(r"(?P<name>.*?): (?P<rows>\d+) rows, (?P<time>[\d.]+\w+)(?: → | \| |$)")
_DURATION = re.compile(r"(?P<number>[\d.]+)(?P<unit>ns|µs|ms|s|m)")
_SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


class Operator(NamedTuple):
    """A line of a plan.

    Attributes:
        depth: the number of operators above it.
        name: the name in words.
        detail: the expressions and tables of the operator.
        rows: the number of returned rows; `None` in a plan that has not run.
        seconds: the time that all threads have spent in it.
        steps: the steps of a position pipeline, if it has run.
    """

    depth: int
    name: str
    detail: str
    rows: str | None
    seconds: float | None
    steps: tuple["Step", ...] = ()


class Step(NamedTuple):
    """A step of a position pipeline.

    Attributes:
        name: what it does.
        rows: the number of rows that have passed it.
        seconds: the time that all threads have spent in it.
    """

    name: str
    rows: str
    seconds: float | None


def is_postgres(names: list[str]) -> bool:
    """Say whether columns of these names are the result of PostgreSQL's EXPLAIN."""
    return names == ["QUERY PLAN"]


def postgres_text(rows: list[tuple[Any, ...]]) -> str:
    """Return the lines of PostgreSQL's EXPLAIN, which are indented already."""
    return "\n".join(str(line) for (line,) in rows)


def may_be(names: list[str]) -> bool:
    """Say whether columns of these names may be the result of EXPLAIN."""
    return names == _COLUMNS


def is_plan(rows: list[tuple[Any, ...]]) -> bool:
    """Say whether rows of such columns are the result of EXPLAIN."""
    return bool(rows) and rows[0][0] in _FIRST and all(plan is not None for _, plan in rows)


def text(rows: list[tuple[Any, ...]]) -> str:
    """Return the plan that runs, as a tree; the text itself for EXPLAIN VERBOSE."""
    plans = [plan for kind, plan in rows if kind in _RUNS]
    operators = [_operator(line) for line in plans[0].splitlines() if line.strip()] if len(plans) == 1 else []
    found = [operator for operator in operators if operator is not None]
    steps = [kind for kind, _ in rows if kind != _ROUTE]
    if not found or len(found) != len(operators) or len(steps) > len(_COLUMNS):
        return "\n\n".join(f"{kind}\n{plan.rstrip()}" for kind, plan in rows)
    return _tree(found)


def as_html(rows: list[tuple[Any, ...]]) -> str:
    """Return the same for a notebook, which keeps every line as long as it is."""
    return preformatted(text(rows))


def preformatted(lines: str) -> str:
    """Return lines for a notebook as they are."""
    return f'<pre style="white-space: pre; overflow-x: auto">{html.escape(lines)}</pre>'


def _operator(line: str) -> Operator | None:
    found = _OPERATOR.fullmatch(line)
    if found is None:
        return None
    detail = found["detail"] or ""
    rows, seconds, steps = None, None, ()
    if metrics := _METRICS.search(detail):
        detail = detail[: metrics.start()]
        values = dict(pair.partition("=")[::2] for pair in metrics["metrics"].split(", "))
        rows = values.get("output_rows")
        seconds = _seconds(values.get("elapsed_compute", ""))
        if shown := _STEPS.search(metrics["metrics"]):
            steps = tuple(
                Step(step["name"], step["rows"], _seconds(step["time"]))
                for step in _STEP.finditer(shown["steps"])
            )
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", found["name"]).capitalize()
    return Operator(len(found["indent"]) // 2, words, detail, rows, seconds, steps)


def _seconds(duration: str) -> float | None:
    parts = list(_DURATION.finditer(duration))
    if not parts:
        return None
    return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)


def _tree(operators: list[Operator]) -> str:
    names = [branch + operator.name for branch, operator in zip(_branches(operators), operators, strict=True)]
    width = max(map(len, names))
    if all(operator.rows is None and operator.seconds is None for operator in operators):
        lines = [f"{name:{width}}  {each.detail}" for name, each in zip(names, operators, strict=True)]
        return "\n".join(line.rstrip() for line in lines)
    lines = [("", "rows", "time", "")]
    for name, operator in zip(names, operators, strict=True):
        lines.append((name, operator.rows or "", _milliseconds(operator.seconds), operator.detail))
        lines.extend(
            ("", each.rows, _milliseconds(each.seconds), f"· {each.name}") for each in operator.steps
        )
    lines.append(("total", "", _milliseconds(sum(operator.seconds or 0 for operator in operators)), ""))
    rows_width, times_width = (max(len(line[place]) for line in lines) for place in (1, 2))
    return "\n".join(
        f"{name:{width}}  {count:>{rows_width}}  {time:>{times_width}}  {detail}".rstrip()
        for name, count, time, detail in lines
    )


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:,.2f} ms"


def _branches(operators: list[Operator]) -> list[str]:
    """Return the lines in front of each operator, which lead down to its inputs."""
    branches = []
    for place, operator in enumerate(operators):
        following = operators[place + 1 :]

        def goes_on(depth: int, following: list[Operator] = following) -> bool:
            """Say whether another operator of the depth comes before its parent's next sibling."""
            return next((each.depth == depth for each in following if each.depth <= depth), False)

        lines = ["│  " if goes_on(depth) else "   " for depth in range(1, operator.depth)]
        if operator.depth:
            lines.append("├─ " if goes_on(operator.depth) else "└─ ")
        branches.append("".join(lines))
    return branches
