"""Compares the answers of two engines: a fast wrong answer is worth nothing."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest
from math import isclose
from typing import Any

# Sums of doubles, and the last digits of quotients, depend on the order of the rows. This is far
# below the effect of a lost row or fraction.
RELATIVE_TOLERANCE = 1e-9

Rows = Sequence[Sequence[Any]]


def difference(ours: Rows, peers: Rows, rounding: float = 0.0) -> str | None:
    """Describe the first row that differs; `None` if there is none. Order counts. Numbers may differ by
    `rounding`, because some systems round decimals.
    """
    for number, (our_row, peer_row) in enumerate(zip_longest(ours, peers, fillvalue=()), start=1):
        if len(our_row) != len(peer_row) or not all(
            _same(one, other, rounding) for one, other in zip(our_row, peer_row, strict=True)
        ):
            return f"row {number} is {tuple(our_row)}, not {tuple(peer_row)}"
    return None


def _same(one: Any, other: Any, rounding: float) -> bool:
    if isinstance(one, int | float | Decimal) and isinstance(other, int | float | Decimal):
        return isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=rounding)
    return one == other
