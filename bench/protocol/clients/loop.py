"""The common part of all client processes: each request is a line in, each answer a line out.

The clients run under interpreters of several environments, so this imports only the standard
library.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def timed(work: Callable[..., Any], *inputs: Any) -> tuple[float, Any]:
    """Return the seconds of `work`, and its result."""
    gc.collect()
    start = time.perf_counter()
    result = work(*inputs)
    return time.perf_counter() - start, result


def give_back_memory() -> None:
    """Return freed memory that libraries keep, gigabytes after a large result. Other processes need
    it, and a process that still has it would be ahead of one that must ask the system for pages.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


def serve(handle: Callable[..., dict[str, Any]]) -> None:
    """Answer every request with the result of `handle`, until the bench closes its end."""
    # Output of libraries must not get into an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    answer({})
    for line in sys.stdin:
        try:
            content = handle(**json.loads(line))
        except Exception as error:
            content = {"error": f"{type(error).__name__}: {error}"[:500]}
        give_back_memory()
        answer(content)
