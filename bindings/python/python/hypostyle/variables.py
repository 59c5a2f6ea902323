"""`FROM name`: tables that are variables of the program.

A resolver holds the caller's frame only while the statement is planned.
"""

from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from hypostyle import inputs


class Resolver:
    """Finds a variable by the name of a table, looking outward from a frame."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._found: dict[str, Any] = {}

    def __call__(self, name: str) -> Any | None:
        """An object of the Arrow PyCapsule interface, or `None` if no variable can be read as a table."""
        if name not in self._found:
            variable = self._find(name)
            self._found[name] = None if variable is None else inputs.to_table(variable)
        return self._found[name]

    def _find(self, name: str) -> Any | None:
        for scope in self._scopes():
            if name in scope and inputs.is_table(scope[name]):
                return scope[name]
        folded = name.casefold()
        for scope in self._scopes():
            for key, value in scope.items():
                if isinstance(key, str) and key.casefold() == folded and inputs.is_table(value):
                    return value
        return None

    def _scopes(self) -> Iterator[Mapping[str, Any]]:
        frame: FrameType | None = self._frame
        while frame is not None:
            # A copy: another thread may be adding globals while they are looked through.
            yield dict(frame.f_locals)
            yield dict(frame.f_globals)
            frame = frame.f_back
