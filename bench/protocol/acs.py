"""A table shaped like the chapter's American Community Survey: persons, 274 columns, 16.1 % NULLs.

What is taken from the survey's public description: 265 of the columns are integers of small domains; 80 of
them are replicate weights, about 75 are flags that say whether an answer was imputed; persons of a
household stand together, households are sorted by state. Answers are missing by structure: children have no
job, those born in the country no year of immigration. Amounts of money are rounded as the survey rounds
them.

What is assumed: a replicate weight is the person's weight times about 0.3, 1 or 1.7, with some noise; codes
are skewed (a few answers are common); the shares of missing answers are picked so that all NULLs together
are 16.1 %.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

ROWS_PER_SCALE = 100_000
COLUMNS = 274
NULL_SHARE = 0.161
SEED = 2013

REPLICATES = 80
FLAGS = 75
# Groups of answers: columns, and the values that each may take.
EVERYONE = (8, (2, 2, 2, 3, 4, 5, 9, 12, 15, 2))
ADULTS = (28, (2, 2, 6, 9, 24, 3, 2, 4, 200, 10))
WORKERS = (31, (9, 12, 100, 300, 5, 52, 2, 7, 265, 500))
IMMIGRANTS = (13, (60, 5, 180, 3))
VETERANS = (15, (2, 2, 11, 6))
INCOMES = 10

Values = tuple[np.ndarray, np.ndarray | None]


def acs(scale: float) -> pa.Table:
    """Return the table at this scale; the same bytes every time."""
    random = np.random.default_rng(SEED)
    rows = max(1, round(ROWS_PER_SCALE * scale))
    return pa.table(dict(_columns(random, rows)))


def _columns(random: np.random.Generator, rows: int) -> Iterator[tuple[str, pa.Array]]:
    household, person = _households(random, rows)
    households = household[-1] + 1
    state = np.sort(random.integers(1, 57, households))[household]
    weight = np.clip(random.lognormal(4.2, 0.7, rows), 1, 2000)
    age = np.clip(random.normal(40, 23, rows), 0, 95).astype(np.int32)
    adult = age >= 16
    worker = adult & (random.random(rows) < 0.72)
    immigrant = random.random(rows) < 0.13
    veteran = adult & (random.random(rows) < 0.09)

    yield "rt", pa.repeat(pa.scalar("P"), rows)
    yield "serialno", _strings(2_013_000_000_000 + household * 13 + 7)
    yield "sporder", _integers(person)
    yield "puma", _integers(state * 100 + random.integers(1, 40, households)[household])
    yield "st", _integers(state)
    for name, factor in (("adjinc", 1.007549), ("adjhsg", 1.0)):
        yield name, pa.repeat(pa.scalar(factor).cast(pa.decimal128(9, 6)), rows)
    yield "pwgtp", _integers(weight)
    yield "agep", _integers(age)
    for name, codes, present in (
        ("naicsp", 270, worker),
        ("socp", 520, worker),
        ("fod1p", 170, adult & (random.random(rows) < 0.3)),
        ("ancestry", 190, None),
        ("division", 9, None),
    ):
        code = _skewed(random, rows, codes)
        texts = pa.array([f"{10_000 + 37 * number:x}"[-6:].upper() for number in range(codes)])
        yield name, texts.take(pa.array(code, mask=None if present is None else ~present))
    for prefix, (count, domains), present in (
        ("person", EVERYONE, None),
        ("adult", ADULTS, adult),
        ("worker", WORKERS, worker),
        ("immigrant", IMMIGRANTS, immigrant),
        ("veteran", VETERANS, veteran),
    ):
        for number in range(count):
            domain = domains[number % len(domains)]
            yield f"{prefix}{number + 1}", _integers(_skewed(random, rows, domain) + 1, present)
    for number in range(INCOMES):
        yield f"income{number + 1}", _integers(_income(random, rows, 0.15 + 0.08 * number), adult)
    for number in range(FLAGS):
        yield f"flag{number + 1}", _integers(random.random(rows) < 0.01 + 0.002 * number)
    for number in range(REPLICATES):
        factor = random.choice([0.3, 1.0, 1.7], rows, p=[0.25, 0.5, 0.25])
        yield f"pwgtp{number + 1}", _integers(np.maximum(weight * factor * random.normal(1, 0.05, rows), 1))


def _households(random: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each person the number of the household, and of the person in it."""
    sizes = random.choice([1, 2, 3, 4, 5, 6], rows, p=[0.28, 0.34, 0.15, 0.13, 0.06, 0.04])
    household = np.repeat(np.arange(rows), sizes)[:rows]
    first = np.concatenate([[0], np.cumsum(sizes)])[household]
    return household, np.arange(rows) - first + 1


def _skewed(random: np.random.Generator, rows: int, domain: int) -> np.ndarray:
    """Return codes below `domain`; the first ones are common."""
    return (domain * random.random(rows) ** 2.5).astype(np.int32)


def _income(random: np.random.Generator, rows: int, share: float) -> np.ndarray:
    """Return amounts of those who have such an income, else 0; rounded to 10 below 1,000, to 100
    below 50,000, else to 1,000.
    """
    amount = random.lognormal(9.8, 1.1, rows)
    unit = np.select([amount < 1_000, amount < 50_000], [10, 100], 1_000)
    return np.where(random.random(rows) < share, amount // unit * unit, 0)


def _integers(values: np.ndarray, present: np.ndarray | None = None) -> pa.Array:
    return pa.array(values.astype(np.int32), mask=None if present is None else ~present)


def _strings(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(pa.string())
