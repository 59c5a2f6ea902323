"""Writers that are killed while others continue: acknowledged data is there, and nobody waits."""

import json
import os
import random
import threading
import time

import pytest
from campaigns import DEADLINE, in_a_fresh_process, place_of, seeds
from test_processes import elsewhere, start

WRITERS = 3
KILLS = 3
KEYS = 60

# It prints before each change the keys that it will have after it, and afterwards that it is made.
WRITER = """
    import json, random, sys, hypostyle
    directory, synchronous, seed = sys.argv[1:4]
    first, keys = map(int, sys.argv[4:6])
    decide = random.Random(seed)
    con = hypostyle.connect(directory)
    con.execute(f"pragma synchronous = {synchronous}")

    def say(word, rows):
        print(json.dumps([word, sorted(rows.items())]), flush=True)

    def change(rows):
        kind = decide.randrange(8)
        if kind < 3:
            free = [key for key in range(first, first + keys) if key not in rows]
            chosen = decide.sample(free, min(len(free), decide.randrange(1, 6)))
            new = {key: decide.randrange(1_000_000) for key in chosen}
            rows.update(new)
            values = ", ".join(f"({key}, {value}, 'value {value}')" for key, value in new.items())
            return f"insert into t values {values}" if new else "select 1"
        low = decide.randrange(first, first + keys)
        high = low + decide.randrange(1, keys // 3)
        concerned = [key for key in rows if low <= key < high]
        # Never into the keys of the next writer.
        where = f"where id >= {low} and id < {min(high, first + keys)}"
        if kind < 6:
            more = decide.randrange(1, 100)
            for key in concerned:
                rows[key] += more
            return f"update t set value = value + {more}, text = 'value ' || (value + {more}) {where}"
        for key in concerned:
            del rows[key]
        return f"delete from t {where}"

    def run(con, statements):
        for statement in statements:
            con.execute(statement)

    found = con.sql("select id, value from t where id >= ? and id < ?", [first, first + keys])
    rows = dict(found.fetchall())
    say("found", rows)
    while True:
        after = dict(rows)
        kind = decide.randrange(30)
        if kind == 0:
            statements = ["checkpoint"]
        elif kind == 1:
            statements = ["vacuum"]
        else:
            statements = [change(after) for _ in range(decide.choice([1, 1, 1, 3]))]
        say("begun", after)
        if len(statements) > 1:
            con.run_transaction(lambda con, all=statements: run(con, all), attempts=1000)
        else:
            try:
                run(con, statements)
            except hypostyle.ConflictError:
                # Whoever changes a table meanwhile is faster.
                if kind != 1:
                    raise
        rows = after
        say("done", rows)
"""


class Writer:
    """A process with keys of its own, which may be killed and restarted, and its output."""

    def __init__(self, directory, synchronous: str, number: int) -> None:
        self.directory, self.synchronous, self.first = directory, synchronous, number * KEYS
        # The data that may be stored: the acknowledged keys, and those of the change that was begun
        # then.
        self.possible: list[list[list[int]]] = [[]]
        self.wrong: list[str] = []

    def begin(self, seed: int) -> None:
        self.heard = threading.Condition()
        self.done, self.ended = 0, False
        self.process = start(WRITER, self.directory, self.synchronous, seed, self.first, KEYS)
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self) -> None:
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break
            word, rows = json.loads(line)
            with self.heard:
                if word == "found" and rows not in self.possible:
                    self.wrong.append(f"found {rows}, which is none of {self.possible}")
                # Other writers count on its commits: a statement that changes nothing commits
                # nothing.
                self.done += word == "done" and rows != self.possible[0]
                self.possible = [self.possible[0], rows] if word == "begun" else [rows]
                self.heard.notify_all()
        with self.heard:
            self.ended = True
            self.heard.notify_all()

    def wait_for_more(self, changes: int) -> None:
        """Wait until it has acknowledged more changes; it must live, and not be kept waiting."""
        with self.heard:
            enough = self.done + changes
            self.heard.wait_for(lambda: self.done >= enough or self.ended, DEADLINE)
            ended, done = self.ended, self.done
        assert not ended, self.process.stderr.read()
        assert done >= enough, f"no more than {done} changes"

    def kill(self) -> None:
        self.process.kill()
        self.listener.join()
        self.process.communicate()
        assert self.wrong == []


@pytest.mark.parametrize("synchronous", ["full", "normal", "off"])
def test_writers_outlive_those_that_are_killed(directory, synchronous):
    for seed in seeds():
        decide = random.Random(f"{seed} {synchronous}")
        place = place_of(directory, seed)
        elsewhere(place, "create table t (id integer, value integer, text varchar)")
        writers = [Writer(place, synchronous, number) for number in range(WRITERS)]
        try:
            for writer in writers:
                writer.begin(decide.randrange(2**32))
            for _ in range(KILLS):
                victim = decide.choice(writers)
                victim.wait_for_more(decide.randrange(1, 30))
                # It is killed somewhere in its next changes.
                time.sleep(decide.uniform(0, 0.01))
                victim.kill()
                # By then others also see data that it had written without having acknowledged it.
                for writer in writers:
                    if writer is not victim:
                        writer.wait_for_more(5)
                victim.begin(decide.randrange(2**32))
            for writer in writers:
                writer.wait_for_more(5)
        finally:
            for writer in writers:
                if writer.process.poll() is None:
                    os.kill(writer.process.pid, 9)
            for writer in writers:
                writer.kill()
        stored, damage = in_a_fresh_process(
            place, "select id, value, text from t order by id", "check database"
        )
        assert damage == []
        assert all(text == f"value {value}" for _, value, text in stored)
        for writer in writers:
            own = range(writer.first, writer.first + KEYS)
            found = [[id, value] for id, value, _ in stored if id in own]
            assert found in writer.possible, f"keys from {writer.first}"
        assert len(stored) == len({id for id, _, _ in stored})
