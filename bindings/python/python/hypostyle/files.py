"""SQL queries that call the functions which read files."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hypostyle import errors

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def query(function: str, paths: Paths, options: Mapping[str, Any]) -> str:
    """Return a query for all rows of the files."""
    arguments = [_literal(paths), *(f"{_name(name)} => {_literal(value)}" for name, value in options.items())]
    return f"SELECT * FROM {function}({', '.join(arguments)})"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, os.PathLike):
        return _literal(os.fspath(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return "[" + ", ".join(map(_literal, value)) + "]"
    raise errors.DataError(
        f"a path or an option is a text, a number, true or false, a list or a dict, "
        f"but not {type(value).__name__}"
    )
