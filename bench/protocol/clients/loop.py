"""What all client processes have in common: a request a line comes in, an answer a line goes out.

The clients run under interpreters of several environments, so this imports nothing but the standard library.
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
    """Seconds that `work` took, and what it returned."""
    gc.collect()
    start = time.perf_counter()
    result = work(*inputs)
    return time.perf_counter() - start, result


def give_back_memory() -> None:
    """Returns what libraries keep of freed memory, gigabytes after a large result: others need it, and who
    still has it is ahead of who must ask the system for pages.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


def serve(handle: Callable[..., dict[str, Any]]) -> None:
    """Answers every request with what `handle` returns for it, until the bench closes its end."""
    # Libraries that print do not print into an answer.
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
