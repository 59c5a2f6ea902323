"""Hypostyle, DuckDB and PostgreSQL, each of which gives rows of the same Python values."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import hypostyle
import pyarrow as pa

SECONDS = 5
UNREADABLE = "unreadable"
# Texts are ordered by their bytes, as in the others, and have letters of all languages.
LOCALE = ["-E", "UTF8", "--locale=C", "--lc-ctype=C.UTF-8"]
EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Answer:
    """Rows, or an error with its SQLSTATE, if there is one."""

    rows: list[tuple[Any, ...]] | None = None
    sqlstate: str = ""
    message: str = ""

    def __str__(self) -> str:
        if self.rows is None:
            return f"{self.sqlstate} {self.message}".strip()
        shown = ", ".join(str(row) for row in self.rows[:6])
        return f"{len(self.rows)} rows: {shown}"


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_plain(element) for element in value)
    if isinstance(value, dict):
        return tuple(_plain(element) for element in value.values())
    if isinstance(value, pa.MonthDayNano):
        return ("interval", value.months, value.days, value.nanoseconds // 1000)
    if isinstance(value, dt.datetime):
        zone = "timestamptz" if value.tzinfo else "timestamp"
        moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (zone, (moment - EPOCH) // dt.timedelta(microseconds=1))
    if isinstance(value, dt.timedelta):
        return ("interval", 0, 0, value // dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return ("date", value.toordinal() - EPOCH.toordinal())
    return value


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    # Columns are read by position, because a name may occur twice.
    columns = [_column(table.column(index)) for index in range(table.num_columns)]
    return list(zip(*columns, strict=True))


def _column(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; times are numbers, because some are outside Python's years."""
    if pa.types.is_date32(column.type):
        return [value if value is None else ("date", value) for value in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(column.type):
        name = "timestamptz" if column.type.tz else "timestamp"
        numbers = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        return [value if value is None else (name, value) for value in numbers.to_pylist()]
    return [_plain(value) for value in column.to_pylist()]


class Hypostyle:
    name = "hypostyle"
    # With "verify", pipelines and the operators that they stand for both run, and must agree.
    pipelines = "on"

    def __init__(self) -> None:
        self._con = hypostyle.connect()
        self._con.execute(f"SET position_pipelines = {self.pipelines}")

    def answer(self, sql: str, parameters: list[Any]) -> Answer:
        timer = threading.Timer(SECONDS, self._con.interrupt)
        timer.start()
        try:
            return Answer(_rows(self._con.execute(sql, parameters).arrow()))
        except hypostyle.Error as error:
            return Answer(sqlstate=error.sqlstate or "", message=str(error))
        finally:
            timer.cancel()


class DuckDb:
    name = "duckdb"

    def __init__(self) -> None:
        self._con = duckdb.connect()
        self._con.execute("set threads = 1")
        self._con.execute("set default_null_order = 'nulls_last_on_asc_first_on_desc'")

    def answer(self, sql: str, parameters: list[Any]) -> Answer:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return Answer(_rows(self._con.execute(sql, parameters).to_arrow_table()))
        except duckdb.Error as error:
            return Answer(sqlstate=type(error).__name__, message=str(error))


class Postgres:
    name = "postgres"

    def __init__(self, address: str, database: str) -> None:
        import psycopg

        with psycopg.connect(f"{address} dbname=postgres", autocommit=True) as con:
            con.execute(f'create database "{database}"')
        self._con = psycopg.connect(
            f"{address} dbname={database}", autocommit=True, cursor_factory=psycopg.RawCursor
        )
        self._con.adapters.register_loader("interval", _interval_loader())
        self._con.execute(f"set statement_timeout = '{SECONDS}s'")
        self._error = psycopg.Error

    def answer(self, sql: str, parameters: list[Any]) -> Answer:
        try:
            cursor = self._con.execute(sql, parameters)
            if cursor.description is None:
                return Answer([])
            return Answer([tuple(_plain(value) for value in row) for row in cursor.fetchall()])
        except self._error as error:
            # Values that psycopg cannot read, such as years before the first, have no SQLSTATE.
            # A statement that took too long has no answer either: it was not refused.
            sqlstate = getattr(error, "sqlstate", None) or UNREADABLE
            return Answer(sqlstate=UNREADABLE if sqlstate == "57014" else sqlstate, message=str(error))


def _interval_loader() -> type:
    """Return a loader that keeps months, days and the rest apart, which `timedelta` does not."""
    from psycopg.adapt import Loader

    class IntervalLoader(Loader):
        def load(self, data: Any) -> Any:
            return _interval(bytes(data).decode())

    return IntervalLoader


def _interval(text: str) -> tuple[Any, ...]:
    """Read the months, days and microseconds of an interval that PostgreSQL has written."""
    parts = dict.fromkeys(("year", "mon", "day"), 0)
    parts |= {unit: int(number) for number, unit in re.findall(r"(-?[0-9]+) (year|mon|day)", text)}
    microseconds = 0
    if found := re.search(r"(-?)([0-9]+):([0-9]+):([0-9.]+)", text):
        sign, hours, minutes, seconds = found.groups()
        microseconds = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)
        microseconds = -microseconds if sign else microseconds
    return ("interval", parts["year"] * 12 + parts["mon"], parts["day"], microseconds)


def postgres_program() -> Path | None:
    """Return the directory of a PostgreSQL server's programs, if there are any."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (found := shutil.which("postgres")) is not None:
        places.insert(0, Path(found).resolve().parent)
    return next((place for place in places if (place / "initdb").exists()), None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a PostgreSQL server in a temporary directory; yield what connects to it."""
    programs = postgres_program()
    assert programs is not None
    with tempfile.TemporaryDirectory() as name:
        # PostgreSQL does not run as root.
        user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(name, user["user"], user["group"])
        data = Path(name) / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "-N", *LOCALE],
            check=True,
            capture_output=True,
            cwd=name,
            **user,
        )
        # The first compiled expression of a cold machine takes longer than a statement may.
        settings = {"listen_addresses": "", "unix_socket_directories": name, "fsync": "off", "jit": "off"}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *options], cwd=name, stderr=subprocess.DEVNULL, **user
        )
        try:
            deadline = time.monotonic() + 60
            # Its socket is there before it takes connections.
            ready = [programs / "pg_isready", "-q", "-h", name, "-U", "test"]
            while subprocess.run(ready).returncode != 0:
                assert server.poll() is None and time.monotonic() < deadline, "PostgreSQL does not start"
                time.sleep(0.05)
            yield f"host={name} user=test"
        finally:
            # This mode does not wait for clients.
            server.send_signal(signal.SIGINT)
            server.wait(30)


def _same_value(one: Any, other: Any) -> bool:
    numbers = (int, float, Decimal)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, numbers) and isinstance(other, numbers):
        if isinstance(one, int) and isinstance(other, int):
            return one == other
        one, other = float(one), float(other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same_value, one, other))
    return type(one) is type(other) and one == other


def _order(value: Any) -> Any:
    if isinstance(value, tuple):
        return ("tuple", *(_order(element) for element in value))
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float, Decimal)):
        # Values that differ only in their last digits sort alike; whole numbers sort by all digits.
        is_whole = not isinstance(value, float) and math.isfinite(value) and value % 1 == 0
        return f"number {float(value) + 0.0:.9e} {int(value) if is_whole else ''}"
    return f"{type(value).__name__} {value}"


def by_length(answer: Answer) -> Answer:
    """An answer in which intervals that are equal are the same: a month has 30 days, a day 24 hours."""

    def length(value: Any) -> Any:
        match value:
            case ("interval", months, days, microseconds):
                return ("interval", (months * 30 + days) * 86_400_000_000 + microseconds)
        return value

    if answer.rows is None:
        return answer
    return Answer([tuple(map(length, row)) for row in answer.rows])


def same(one: Answer, other: Answer, ordered: bool) -> bool:
    """Say whether two answers are the same: all errors are alike, and order counts only if
    promised.

    Whole numbers are compared exactly, other numbers to 1e-12 of the greater one, whatever their
    types. All NaN are the same, and so are both zeros.
    """
    if one.rows is None or other.rows is None:
        return one.rows is other.rows
    if len(one.rows) != len(other.rows):
        return False
    rows, others = one.rows, other.rows
    if not ordered:
        rows, others = (sorted(some, key=lambda row: str(_order(row))) for some in (rows, others))
    return all(map(_same_value, rows, others))
