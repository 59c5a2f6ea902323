"""Backups of a database that other processes change."""

import random
import shutil
import threading

import hypostyle

ACCOUNTS, AMOUNT, ROUNDS = 60_000, 100, 15


def test_backups_beside_writers(tmp_path):
    """Money is moved, rows are written again, tables come and go: every backup is of one moment."""
    path, target = tmp_path / "bank", tmp_path / "backup"
    done, failures, changes = (
        threading.Event(),
        [],
        dict.fromkeys(("move", "rewrite", "vacuum", "come_and_go"), 0),
    )
    con = hypostyle.connect(path)
    con.execute("create table account (id integer, amount integer)")
    con.execute(f"insert into account select i, {AMOUNT} from generate_series(1, {ACCOUNTS}) as s (i)")

    def move(own, chance):
        one, other = chance.sample(range(1, ACCOUNTS + 1), 2)
        sql = "update account set amount = amount + case id when ? then 7 else -7 end where id in (?, ?)"
        own.execute(sql, [one, one, other])

    def rewrite(own, chance):
        first = chance.randrange(ACCOUNTS - 3000)
        with own.transaction():
            condition = f"where id between {first} and {first + 3000}"
            own.execute(f"create temporary table taken as select * from account {condition}")
            own.execute(f"delete from account {condition}")
            own.execute("insert into account select * from taken")
            own.execute("drop table taken")

    def vacuum(own, chance):
        own.execute("vacuum account")

    def come_and_go(own, chance):
        own.execute("create table if not exists side as select i from generate_series(1, 5000) as s (i)")
        own.execute("insert into side select i from generate_series(1, 5000) as s (i)")
        own.execute("drop table side")

    def work(step):
        chance = random.Random(step.__name__)
        try:
            with con.duplicate() as own:
                while not done.is_set():
                    try:
                        step(own, chance)
                        changes[step.__name__] += 1
                    except hypostyle.ConflictError:
                        pass
        except Exception as error:
            failures.append((step.__name__, error))

    threads = [threading.Thread(target=work, args=(step,)) for step in (move, rewrite, vacuum, come_and_go)]
    for thread in threads:
        thread.start()
    try:
        for number in range(ROUNDS):
            before = sum(changes.values())
            con.execute(f"backup database to '{target}'")
            restored = tmp_path / f"restored-{number}"
            shutil.copytree(target, restored)
            with hypostyle.connect(restored) as copy:
                assert copy.execute("check database").fetchall() == []
                totals = copy.sql("select count(*), count(distinct id), sum(amount) from account").fetchall()
                assert totals == [(ACCOUNTS, ACCOUNTS, ACCOUNTS * AMOUNT)], number
                if copy.sql("select 1 from information_schema.tables where table_name = 'side'").fetchall():
                    assert copy.sql("select count(*) from side").fetchone() in [(5000,), (10_000,)]
                copy.execute("update account set amount = amount + 1 where id = 1")
            while sum(changes.values()) < before + 30 and not failures:
                done.wait(0.01)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures, failures
    con.close()
