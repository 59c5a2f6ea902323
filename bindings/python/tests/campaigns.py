"""Common parts of campaigns of random work: seeds, workers in threads of several processes, and a
reader.
"""

import ast
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypostyle
from test_processes import run

# These are the variables of the storage's tests: the first repeats a run, the second makes it
# longer.
SEED = "HYPOSTYLE_TEST_SEED"
ROUNDS = "HYPOSTYLE_TEST_ROUNDS"

PROCESSES = 2
THREADS = 2
WORKERS = PROCESSES * THREADS

# Seconds; machines may be loaded.
DEADLINE = 60

Rows = list[tuple[Any, ...]]
Task = Callable[[hypostyle.Connection, random.Random, int], Any]


def seeds() -> Iterator[int]:
    """Yield a seed for each round; a failing one is the last that was printed."""
    first = int(os.environ.get(SEED) or time.time_ns())
    for seed in range(first, first + int(os.environ.get(ROUNDS) or 1)):
        print(f"{SEED}={seed}")
        yield seed


def place_of(directory: Path, seed: int) -> Path:
    """Return where the database of a round is made; its directory is there afterwards."""
    directory.mkdir(exist_ok=True)
    return directory / str(seed)


def fixed_seeds() -> range:
    """Yield the same seeds in every run, unless more are requested: a new failure comes from a
    change.
    """
    first, rounds = int(os.environ.get(SEED) or 0), int(os.environ.get(ROUNDS) or 1)
    return range(first, first + 4 * rounds)


def work_and_watch(directory: Path, task: Task, seed: int, question: str, answer: Rows) -> list[Any]:
    """Return the results of `task` for each worker; a reader must always find the same answer
    meanwhile.
    """
    path = os.fspath(directory)
    with hypostyle.connect(path) as con:
        con.execute("create table ready (worker integer)")
        con.execute("create table finished (worker integer)")
    with ProcessPoolExecutor(PROCESSES + 1, multiprocessing.get_context("spawn")) as pool:
        watching = pool.submit(_watch, path, question, answer)
        working = [pool.submit(_work, path, task, seed, process) for process in range(PROCESSES)]
        results = [result for future in working for result in future.result(2 * DEADLINE)]
        assert watching.result(2 * DEADLINE) > 1
    return results


def _work(path: str, task: Task, seed: int, process: int) -> list[Any]:
    with hypostyle.connect(path) as con, ThreadPoolExecutor(THREADS) as pool:

        def work(thread: int) -> Any:
            worker = process * THREADS + thread
            with con.duplicate() as own:
                try:
                    _meet(own, worker)
                    return task(own, random.Random(f"{seed} {worker}"), worker)
                finally:
                    own.execute("insert into finished values (?)", [worker])

        return list(pool.map(work, range(THREADS)))


def _watch(path: str, question: str, answer: Rows) -> int:
    reads = 0
    with hypostyle.connect(path) as con:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            with con.transaction(read_only=True):
                ((finished,),) = con.sql("select count(*) from finished").fetchall()
                for _ in range(2):
                    found = con.sql(question).fetchall()
                    assert found == answer, f"read {reads}: {found}"
            if reads == 0:
                con.execute("insert into ready values (-1)")
            reads += 1
            if finished == WORKERS:
                return reads
    raise TimeoutError(f"the workers have not finished after {reads} reads")


def _meet(con: hypostyle.Connection, worker: int) -> None:
    """Wait until all workers, and the reader, have started."""
    con.execute("insert into ready values (?)", [worker])
    deadline = time.monotonic() + DEADLINE
    while con.sql("select count(*) from ready").fetchone() != (WORKERS + 1,):
        assert time.monotonic() < deadline, "not all workers have come"
        time.sleep(0.002)


def in_a_fresh_process(directory: Path, *questions: str) -> list[Rows]:
    """Return the answers of a process that opens the database anew."""
    program = """
        import sys, hypostyle
        with hypostyle.connect(sys.argv[1]) as con:
            for question in sys.argv[2:]:
                print(con.sql(question).fetchall())
    """
    return [ast.literal_eval(line) for line in run(program, directory, *questions).splitlines()]
