"""The interface of a party: a server with data, and one or more ways to get a table from it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol.data import Data, Table
from protocol.networks import Path as NetworkPath
from protocol.processes import Client


@dataclass(frozen=True)
class Transfer:
    """One result that has arrived."""

    seconds: float
    rows: int | None  # None: the client does not count rows
    more: dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way to get all of a table from a party: its protocol, and its compression."""

    name: str
    fetch: Callable[[NetworkPath, Table], Transfer]


class Peer:
    """A party. `start` serves all its data, `stop` leaves nothing running."""

    name: str
    port: int

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.log = scratch / f"{type(self).__name__}.log"
        self.cleanup = contextlib.ExitStack()
        # The ways that cannot be taken here, and why.
        self.missing: dict[str, str] = {}

    def start(self, data: Data) -> None:
        raise NotImplementedError

    def ways(self) -> list[Way]:
        raise NotImplementedError

    def versions(self) -> dict[str, str]:
        """Return the measured versions, for the record."""
        return {}

    def stop(self) -> None:
        self.cleanup.close()

    def client(self, script: str, python: Path | None = None) -> Client:
        """Start a client process of this party, which ends with it."""
        return self.cleanup.enter_context(contextlib.closing(Client(script, python)))


def transfer(answer: dict[str, Any]) -> Transfer:
    return Transfer(answer.pop("seconds"), answer.pop("rows", None), answer)
