"""`FROM name`: tables that are variables of the program, or were registered under a name.

A resolver holds the caller's frame only while the statement is planned.
"""

import re
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from hypostyle import errors, inputs

_ACCEPTED = (
    "a pandas or Polars frame, an Arrow table or stream, a structured NumPy array, a dict of arrays, "
    "or a hypostyle result"
)
_QUOTED = re.compile(r'"([^"]+)"')
_NO_TABLE = "42P01"
_REMEDIES = {
    "Series": "its to_frame()",
    "ndarray": "a dict of it, {'name': array}",
    "list": "a dict of lists, {'name': list}, or pandas.DataFrame(list)",
    "dict": "one whose values are arrays or lists, by their names",
}


class Resolver:
    """Finds the program's object for the name of a table.

    Registered objects take precedence over variables, which are looked for outward from a frame.
    """

    def __init__(self, frame: FrameType | None, registered: Mapping[str, Any]) -> None:
        self._frame = frame
        self._registered = registered
        self._found: dict[str, Any] = {}
        # The requested names of variables that are no tables.
        self._others: dict[str, tuple[str, Any]] = {}

    def __call__(self, name: str) -> Any | None:
        """Return an object with the PyCapsule interface, or `None` if no variable is a table."""
        if name not in self._found:
            variable = self._find(name)
            self._found[name] = None if variable is None else inputs.to_table(variable)
        return self._found[name]

    def explain(self, error: errors.UnknownNameError) -> None:
        """Add to the error what the variable is that has the name of the missing table."""
        for name, (variable, value) in self._others.items():
            if f'"{name}"' in error.message:
                error.message += f'; the Python variable "{variable}" is {_described(value)}'
                error.args = (error.message,)
                return

    def explain_elsewhere(self, error: errors.UnknownNameError) -> None:
        """Add to the error of a server which asks for no variables that the missing table is one."""
        for name in _QUOTED.findall(error.message) if error.sqlstate == _NO_TABLE else ():
            for variable, value in self._named(name):
                if inputs.is_table(value):
                    error.message += (
                        f'; the Python variable "{variable}" is no table of PostgreSQL: append() it to one'
                    )
                    error.args = (error.message,)
                    return

    def _find(self, name: str) -> Any | None:
        for variable, value in self._named(name):
            if inputs.is_table(value):
                return value
            self._others.setdefault(name, (variable, value))
        return None

    def _named(self, name: str) -> Iterator[tuple[str, Any]]:
        """Find a name from the innermost scope outward: first as spelled, then in any case."""
        for scope in self._scopes():
            if name in scope:
                yield name, scope[name]
        folded = name.casefold()
        for scope in self._scopes():
            for key, value in scope.items():
                if isinstance(key, str) and key.casefold() == folded:
                    yield key, value

    def _scopes(self) -> Iterator[Mapping[str, Any]]:
        yield dict(self._registered)
        frame = self._frame
        while frame is not None:
            # A copy is used: another thread may add globals while they are searched.
            yield dict(frame.f_locals)
            yield dict(frame.f_globals)
            frame = frame.f_back


def _described(value: Any) -> str:
    """Describe a variable, and how it can become a table."""
    package, kind = type(value).__module__.partition(".")[0], type(value).__name__
    known = "" if package in ("builtins", "__main__") else f"{package}."
    article = "an" if f"{known}{kind}"[0] in "aeiouAEIOU" else "a"
    return f"{article} {known}{kind}, which is not read as a table; pass {_REMEDIES.get(kind, _ACCEPTED)}"
