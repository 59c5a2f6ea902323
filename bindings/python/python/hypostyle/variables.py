"""`FROM name`: tables that are variables of the program, or were registered under a name.

A resolver holds the caller's frame only while the statement is planned.
"""

from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from hypostyle import errors, inputs

_ACCEPTED = (
    "a pandas or Polars frame, an Arrow table or stream, a structured NumPy array, a dict of arrays, "
    "or a hypostyle result"
)
_REMEDIES = {
    "Series": "its to_frame()",
    "ndarray": "a dict of it, {'name': array}",
    "list": "a dict of lists, {'name': list}, or pandas.DataFrame(list)",
    "dict": "one whose values are arrays or lists, by their names",
}


class Resolver:
    """Finds what a name of a table means to the program.

    Registered objects come before variables, which are looked for outward from a frame.
    """

    def __init__(self, frame: FrameType | None, registered: Mapping[str, Any]) -> None:
        self._frame = frame
        self._registered = registered
        self._found: dict[str, Any] = {}
        # Variables that are no tables, by the names that were asked for.
        self._others: dict[str, tuple[str, Any]] = {}

    def __call__(self, name: str) -> Any | None:
        """An object of the Arrow PyCapsule interface, or `None` if no variable can be read as a table."""
        if name not in self._found:
            variable = self._find(name)
            self._found[name] = None if variable is None else inputs.to_table(variable)
        return self._found[name]

    def explain(self, error: errors.UnknownNameError) -> None:
        """Adds to the error what the variable is that has the name of the table that was not found."""
        for name, (variable, value) in self._others.items():
            if f'"{name}"' in error.message:
                error.message += f'; the Python variable "{variable}" is {_described(value)}'
                error.args = (error.message,)
                return

    def _find(self, name: str) -> Any | None:
        for variable, value in self._named(name):
            if inputs.is_table(value):
                return value
            self._others.setdefault(name, (variable, value))
        return None

    def _named(self, name: str) -> Iterator[tuple[str, Any]]:
        """What has the name, from the innermost scope outward: first as it is spelled, then in any case."""
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
            # A copy: another thread may be adding globals while they are looked through.
            yield dict(frame.f_locals)
            yield dict(frame.f_globals)
            frame = frame.f_back


def _described(value: Any) -> str:
    """What a variable is, and how a table can be made of it."""
    package, kind = type(value).__module__.partition(".")[0], type(value).__name__
    known = "" if package in ("builtins", "__main__") else f"{package}."
    article = "an" if f"{known}{kind}"[0] in "aeiouAEIOU" else "a"
    return f"{article} {known}{kind}, which is not read as a table; pass {_REMEDIES.get(kind, _ACCEPTED)}"
