"""Gives an error message in place of SIGILL on unsupported processors."""

import platform
import sys

# The features that x86-64-v3 adds, by the names of /proc/cpuinfo ("abm" stands for LZCNT).
_REQUIRED = {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"}


def check() -> None:
    """Raise ImportError if this x86-64 Linux machine lacks instructions the native module uses."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return
    missing = missing_features(_cpuinfo())
    if missing:
        raise ImportError(
            "hypostyle needs a processor of the x86-64-v3 level (2013 or newer); this one lacks "
            + ", ".join(sorted(missing))
        )


def missing_features(cpuinfo: str) -> set[str]:
    """Return required features that /proc/cpuinfo does not list; none if it lists no features."""
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            return _REQUIRED - set(line.partition(":")[2].split())
    return set()


def _cpuinfo() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
