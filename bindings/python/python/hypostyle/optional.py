"""Imports packages only in the method that returns their objects."""

import importlib
from types import ModuleType


def require(module: str, needed_for: str) -> ModuleType:
    """Import `module`, or say what needs it.

    Raises:
        ImportError: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{needed_for} needs {module}: pip install {module}", name=module) from error


def available(module: str) -> bool:
    """Say whether `module` can be imported."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def unique_names(names: list[str]) -> list[str]:
    """Return the names, with "_1", "_2" … added to names that occurred before."""
    taken = set(names)
    seen: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 0
        while candidate in seen or (number and candidate in taken):
            number += 1
            candidate = f"{name}_{number}"
        seen.add(candidate)
        unique.append(candidate)
    return unique
