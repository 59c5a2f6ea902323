"""Damaged files: CHECK DATABASE lists them, and reads of damaged rows give errors, never other
rows.
"""

import random
import time

import hypostyle
import pyarrow
import pytest
from campaigns import DEADLINE, seeds
from test_processes import start

# There are four blocks, the last of them not full.
ROWS = 200_000
CONTENT = {
    "n": range(ROWS),
    "text": [f"number {n}" for n in range(ROWS)],
    "kind": [f"kind {n % 7}" for n in range(ROWS)],
    "half": [n * 0.5 if n % 3 else None for n in range(ROWS)],
}

# Each statement reads all rows of a column.
SCANS = (
    "select {column} from t",
    "select count(distinct {column}) as n from t",
    "select {column}, count(*) as c from t group by {column} order by c desc, {column} limit 10",
    "select count(*) as n from t a join t b on a.{column} = b.{column} and a.n = b.n + 1",
    "select n from t where cast({column} as varchar) like '%77' order by n",
    "select count({column} || '') as n from t",
)

FILES = [
    ("n", "values"),
    ("text", "offsets"),
    ("text", "heap"),
    ("kind", "values"),
    ("kind", "dictionary_offsets"),
    ("kind", "dictionary_heap"),
    ("half", "values"),
    ("half", "validity"),
]
COLUMNS = list(CONTENT)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The files of a database, by their names; a test writes and damages them."""
    directory = tmp_path_factory.mktemp("sound") / "sound.hypo"
    with hypostyle.connect(directory) as con:
        con.append("t", pyarrow.table(CONTENT), create=True)
        con.append("beside", pyarrow.table({"n": range(1, ROWS + 1)}), create=True)
    return {file.relative_to(directory): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.fixture
def place(directory, sound):
    (directory / "readers").mkdir(parents=True)
    for name, content in sound.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def file_of(place, column, role):
    (file,) = place.glob(f"columns/1/{COLUMNS.index(column)}-*-0.{role}")
    return file


def flip(file, position, bits=0x80):
    with file.open("r+b") as opened:
        opened.seek(position)
        (byte,) = opened.read(1)
        opened.seek(position)
        opened.write(bytes([byte ^ bits]))


def refused(con, statement):
    """Check that a statement reports the damage at every attempt."""
    for _ in range(2):
        with pytest.raises(hypostyle.CorruptionError) as error:
            con.sql(statement).fetchall()
        assert error.value.sqlstate == "XX001"
    return str(error.value)


@pytest.mark.parametrize(("column", "role"), FILES)
def test_damage_is_listed_and_refuses_only_who_reads_it(place, column, role):
    file = file_of(place, column, role)
    flip(file, file.stat().st_size // 2)
    block = 0 if role.startswith("dictionary") else 1
    with hypostyle.connect(place) as con:
        (damage,) = con.sql("check database").fetchall()
        assert damage[:5] == ("main", "t", column, 0, block)
        assert f'column "{column}"' in damage[5] and "checksum" in damage[5]
        for scan in SCANS:
            assert f'column "{column}"' in refused(con, scan.format(column=column))
        # Statements that do not read the block work as before.
        for other in COLUMNS:
            if other != column:
                assert (
                    con.sql(f"select count(distinct {other}) as n from t where n < 60000").fetchone()[0] > 6
                )
        assert con.sql("select count(*) as n from t").fetchone() == (ROWS,)
        assert con.sql("select sum(n) as s from beside").fetchone() == (ROWS * (ROWS + 1) // 2,)
        first = f"select count(distinct {column}) as n from t where n < 7"
        if role.startswith("dictionary"):
            refused(con, first)
        else:
            assert con.sql(first).fetchone() == (4 if column == "half" else 7,)


@pytest.mark.parametrize(("column", "role"), [*FILES, ("n", "blocks")])
def test_a_missing_file_is_damage(place, column, role):
    file_of(place, column, role).unlink()
    with hypostyle.connect(place) as con:
        damages = con.sql("check database").fetchall()
        assert {damage[:3] for damage in damages} == {("main", "t", column)}
        assert "restore it from a backup" in damages[0][5]
        assert f'column "{column}"' in refused(con, f"select count(distinct {column}) as n from t")
        assert con.sql("select sum(n) as s from beside").fetchone() == (ROWS * (ROWS + 1) // 2,)


def test_nothing_is_made_of_damaged_rows(place, tmp_path):
    flip(file_of(place, "text", "heap"), 1_000_000)
    with hypostyle.connect(place) as con:
        for statement in (
            "create table copy as select * from t",
            "insert into t select * from t",
            "update t set text = text || '!'",
            "delete from t where text like 'number 1%'",
            f"copy t to '{tmp_path / 'copy.csv'}'",
            "alter table t alter column text type blob",
        ):
            refused(con, statement)
        assert [table.name for table in con.tables()] == ["beside", "t"]
        assert con.sql("select count(*) as n from t").fetchone() == (ROWS,)
        # Rows of sound blocks can be changed, and new ones added; the next process sees them.
        con.execute("update t set n = -1 where n = 5")
        con.execute("delete from t where n = 199999")
        con.execute("insert into t values (-2, 'new', 'kind 7', null)")
    with hypostyle.connect(place, read_only=True) as con:
        rows = con.sql("select n, text from t where n < 1 order by n").fetchall()
        assert rows == [(-2, "new"), (-1, "number 5"), (0, "number 0")]
        assert con.sql("select count(*) as n from t").fetchone() == (ROWS,)


@pytest.mark.parametrize(
    ("column", "role", "conversion"),
    [
        ("text", "offsets", "fetchnumpy()['text']"),
        ("text", "offsets", "pl()"),
        ("text", "heap", "fetchnumpy()['text']"),
        ("text", "heap", "pl()"),
        ("kind", "values", "fetchnumpy()['kind']"),
        ("kind", "dictionary_offsets", "fetchnumpy()['kind']"),
        ("kind", "dictionary_offsets", "pl()"),
        ("kind", "dictionary_offsets", "df()"),
        ("kind", "dictionary_heap", "fetchnumpy()['kind']"),
        ("kind", "dictionary_heap", "pl()"),
        ("kind", "dictionary_heap", "df()"),
    ],
)
def test_a_conversion_reads_no_damaged_strings(place, column, role, conversion):
    # These read each string; others read a mapping that is handed out.
    program = f"""
        import sys, hypostyle
        with hypostyle.connect(sys.argv[1]) as con:
            try:
                con.sql("select {column} from t").{conversion}
            except hypostyle.CorruptionError as error:
                print(error.sqlstate)
    """
    file = file_of(place, column, role)
    # This is a high byte of an offset, which no memory belongs to.
    flip(file, file.stat().st_size // 2 // 8 * 8 + 4)
    with start(program, place) as child:
        output, errors = child.communicate(timeout=DEADLINE)
    assert (child.returncode, output, errors) == (0, "XX001\n", "")


# All ways in which a column is handed out, and how each is read.
WAYS = {
    "arrow": "con.sql(query).arrow().combine_chunks().to_pylist()",
    "stream": "pyarrow.table(con.sql(query)).validate(full=True)",
    "df": "str(con.sql(query).df())",
    "pl": "str(con.sql(query).pl().sum())",
    "fetchnumpy": "[str(values) for values in con.sql(query).fetchnumpy().values()]",
    "fetchall": "con.sql(query).fetchall()",
}

# Says for each way whether it was refused, over a connection of each kind.
EVERY_WAY = f"""
    import sys, hypostyle, pyarrow
    query = "select " + sys.argv[2] + " from t"
    with hypostyle.connect(sys.argv[1], read_only=True) as own, own.serve(unix=sys.argv[3]) as server:
        for con in (own, hypostyle.connect(server.addresses[0])):
            for way, code in {WAYS!r}.items():
                try:
                    eval(code)
                    print(way, "came")
                except hypostyle.CorruptionError as error:
                    print(way, error.sqlstate)
"""


@pytest.mark.parametrize(("column", "role"), FILES)
def test_nothing_damaged_of_what_came_from_elsewhere_is_handed_over(place, column, role, tmp_path):
    file = file_of(place, column, role)
    # This is a high byte of an offset, which no memory belongs to; or a bit of a value like others.
    flip(file, file.stat().st_size // 2 // 8 * 8 + 4)
    with start(EVERY_WAY, place, column, tmp_path / "socket") as child:
        output, errors = child.communicate(timeout=DEADLINE)
    assert (child.returncode, errors) == (0, "")
    assert output.splitlines() == [f"{way} XX001" for way in WAYS] * 2


def make_own(directory):
    """Create a database that this machine has written, and that was not copied there."""
    with hypostyle.connect(directory) as con:
        con.append("t", pyarrow.table(CONTENT), create=True)


def until_refused(con, query):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        try:
            con.sql(query).arrow()
        except hypostyle.CorruptionError as error:
            return str(error)
        time.sleep(0.01)
    raise AssertionError("the damage was not found")


def test_damage_of_what_was_written_here_fails_the_next_use(directory):
    make_own(directory)
    flip(file_of(directory, "n", "values"), 800_000)
    with hypostyle.connect(directory, verify="always") as con, pytest.raises(hypostyle.CorruptionError):
        con.sql("select n from t").fetchnumpy()
    with hypostyle.connect(directory, verify="never") as con:
        for _ in range(3):
            assert len(con.sql("select n from t").fetchnumpy()["n"]) == ROWS
            time.sleep(0.05)
    with hypostyle.connect(directory) as con:
        assert con.sql("select text from t").arrow().num_rows == ROWS
        assert 'column "n"' in until_refused(con, "select n from t")
        # Few rows are verified before they are handed out.
        with pytest.raises(hypostyle.CorruptionError):
            con.sql("select n from t limit 10 offset 100000").arrow()
        assert con.sql("select n from t limit 10").arrow().num_rows == 10
        assert con.sql("select text from t").arrow().num_rows == ROWS
    with pytest.raises(hypostyle.DataError, match="auto, always or never"):
        hypostyle.connect(directory, verify="sometimes")


def test_a_check_makes_a_directory_this_machines_own(place):
    with hypostyle.connect(place) as con:
        assert con.sql("check database").fetchall() == []
    flip(file_of(place, "n", "values"), 800_000)
    with hypostyle.connect(place) as con:
        # It is handed out at once now.
        assert con.sql("select n from t").arrow().num_rows == ROWS
        assert 'column "n"' in until_refused(con, "select n from t")
        assert len(con.sql("check database").fetchall()) == 1


def test_a_child_process_gets_nothing_of_a_result_that_its_parent_has_not_verified(directory):
    make_own(directory)
    flip(file_of(directory, "n", "values"), 800_000)
    program = """
        import os, sys, warnings, hypostyle
        warnings.simplefilter("ignore", DeprecationWarning)
        con = hypostyle.connect(sys.argv[1])
        result = con.sql("select n from t")
        child = os.fork()
        if child == 0:
            try:
                result.fetchnumpy()
            except hypostyle.ClosedError:
                own = hypostyle.connect(sys.argv[1])
                try:
                    own.sql("select sum(n) from t").fetchall()
                except hypostyle.CorruptionError:
                    os._exit(7)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        try:
            con.sql("select sum(n) from t").fetchall()
        except hypostyle.CorruptionError:
            print("damaged")
    """
    with start(program, directory) as child:
        output, errors = child.communicate(timeout=DEADLINE)
    assert (child.returncode, output, errors) == (0, "7\ndamaged\n", "")


def test_damage_is_an_error_of_the_same_class_behind_a_server(place):
    flip(file_of(place, "n", "values"), 800_000)
    with (
        hypostyle.connect(place) as database,
        database.serve(listen="127.0.0.1:0") as server,
        hypostyle.connect(server.addresses[0]) as con,
    ):
        assert [row[1:5] for row in con.sql("check database").fetchall()] == [("t", "n", 0, 1)]
        for scan in SCANS:
            refused(con, scan.format(column="n"))
        assert con.sql("select sum(n) as s from beside").fetchone() == (ROWS * (ROWS + 1) // 2,)


def test_any_flipped_bit_is_found_and_no_answer_is_wrong(place, sound):
    questions = [scan.format(column=column) for scan in SCANS for column in COLUMNS]
    with hypostyle.connect(place) as con:
        answers = [con.sql(question).fetchall() for question in questions]
    files = [name for name in sound if name.parts[:2] == ("columns", "1") and name.suffix != ".blocks"]
    assert len(files) == len(FILES)
    for seed in seeds():
        decide = random.Random(seed)
        for name in decide.sample(files, 4):
            damage = place / name, decide.randrange(len(sound[name])), 1 << decide.randrange(8)
            flip(*damage)
            with hypostyle.connect(place) as con:
                ((*_, column, _, _, _),) = con.sql("check database").fetchall()
                refusals = 0
                for question, answer in zip(questions, answers, strict=True):
                    try:
                        assert con.sql(question).fetchall() == answer, f"{name}: {question}"
                    except hypostyle.CorruptionError as error:
                        assert f'column "{column}"' in str(error)
                        refusals += 1
                assert refusals >= len(SCANS), name
            # The file is replaced: a process that still maps it must not find it shorter.
            flip(*damage)


@pytest.mark.parametrize(
    "byte", [12, 16, 20, 32, 56], ids=["nulls", "minimum", "minimum+4", "maximum", "flags"]
)
def test_a_damaged_synopsis_never_makes_an_answer_wrong(place, byte):
    record = 64
    flip(file_of(place, "n", "blocks"), record + byte, 1 if byte == 56 else 0x40)
    answers = {
        "select min(n) as low, max(n) as high from t": (0, ROWS - 1),
        "select count(*) as n from t where n = 65536": (1,),
        "select count(*) as n from t where n between 65536 and 131071": (65536,),
        "select count(*) as n from t where n is null": (0,),
    }
    with hypostyle.connect(place) as con:
        for question, answer in answers.items():
            try:
                assert con.sql(question).fetchone() == answer, question
            except hypostyle.CorruptionError as error:
                assert 'column "n"' in str(error)
        assert [row[1:5] for row in con.sql("check database").fetchall()] == [("t", "n", 0, 1)]


@pytest.mark.parametrize("kind", ["log", "catalog", "HYPOSTYLE"])
def test_damage_of_no_table_is_listed_and_refuses_the_next(place, kind):
    with hypostyle.connect(place) as con:
        con.execute("insert into beside values (-1)")
        con.execute("insert into beside values (-2)")
        (file,) = place.glob(f"{kind}*")
        flip(file, 100)
        # Rows that were read before are still right.
        assert con.sql("select min(n) as n, count(*) as c from beside").fetchone() == (-2, ROWS + 2)
        for read_only in (True, False):
            with pytest.raises(hypostyle.CorruptionError, match=kind) as error:
                hypostyle.connect(place, read_only=read_only)
            assert error.value.sqlstate == "XX001"
        ((schema, table, column, _, _, message),) = con.sql("check database").fetchall()
        assert (schema, table, column) == ("", "", "")
        assert "damaged" in message
        flip(file, 100)
        assert con.sql("check database").fetchall() == []
    with hypostyle.connect(place, read_only=True) as con:
        assert con.sql("select min(n) as n from beside").fetchone() == (-2,)
