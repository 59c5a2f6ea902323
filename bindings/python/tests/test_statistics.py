"""The statistics of a result's transfer."""

import socket
import threading
from contextlib import contextmanager

import hypostyle
import pytest


def _of(server, scheme):
    return next(address for address in server.addresses if address.startswith(scheme))


@pytest.fixture
def database(tmp_path):
    with hypostyle.connect(tmp_path / "t.hypo") as connection:
        connection.sql(
            "CREATE TABLE t AS SELECT i, i % 7 AS few, 'text ' || (i % 1000) AS s "
            "FROM generate_series(1, 200000) AS g(i)"
        )
        yield connection


def test_an_embedded_result_has_none(database):
    assert database.sql("SELECT * FROM t").statistics is None


def test_chunks_tell_bytes_codecs_and_times(database):
    with database.serve(listen="127.0.0.1:0") as server, hypostyle.connect(server.addresses[0]) as remote:
        remote.sql("SET result_codec = 'zstd'")
        result = remote.sql("SELECT i, few, s FROM t WHERE i > 100")
        assert len(result) == 199_900
        statistics = result.statistics
        assert statistics.rows == 199_900
        assert not statistics.mapped
        assert 0 < statistics.sent_bytes < statistics.raw_bytes / 2
        assert list(statistics.codecs) == ["i", "few", "s"]
        assert any("zstd" in codec for codecs in statistics.codecs.values() for codec in codecs)
        assert statistics.execute > 0
        assert statistics.decode > 0
        assert "199,900 rows" in str(statistics)


def test_the_address_says_how_long_chunks_are(database):
    chunks = {}
    with database.serve(listen="127.0.0.1:0") as server:
        for options in ("", "?chunk_bytes=8192", "?chunk_bytes=16777216"):
            with hypostyle.connect(server.addresses[0] + options) as remote:
                result = remote.sql("SELECT i, s FROM t WHERE i > 100")
                assert sorted(result.arrow()["i"].to_pylist()) == list(range(101, 200_001))
                chunks[options] = sum(result.statistics.codecs["i"].values())
        with pytest.raises(hypostyle.Error, match="chunk_bytes is 1024 to 16777216"):
            hypostyle.connect(server.addresses[0] + "?chunk_bytes=1")
    assert chunks["?chunk_bytes=8192"] > 8 * chunks[""] > 8, chunks
    assert chunks["?chunk_bytes=16777216"] <= chunks[""]


@contextmanager
def _forwarded(port):
    """Yield a port whose connections go on to another one, as through a tunnel."""

    def pass_on(source, target):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

    def serve():
        near, _ = listener.accept()
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            back = threading.Thread(target=pass_on, args=(far, near))
            back.start()
            pass_on(near, far)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(timeout=30)
        assert not thread.is_alive()


def test_a_client_of_this_machine_gets_no_codecs_unless_it_is_forwarded(database):
    with database.serve(listen="127.0.0.1:0") as server:
        port = int(server.addresses[0].rstrip("/").rsplit(":", 1)[1])

        def codecs(port):
            with hypostyle.connect(f"hypostyle://127.0.0.1:{port}/") as remote:
                result = remote.sql("SELECT i, few, s FROM t WHERE i > 100")
                assert len(result) == 199_900
                return {codec for codecs in result.statistics.codecs.values() for codec in codecs}

        assert codecs(port) == {"plain"}
        with _forwarded(port) as other:
            assert codecs(other) - {"plain"}


def test_mapped_files_say_so(database, tmp_path):
    path = tmp_path / "socket"
    with database.serve(unix=path) as server, hypostyle.connect(server.addresses[0]) as remote:
        result = remote.sql("SELECT * FROM t")
        result.arrow()
        assert result.statistics.mapped
        assert result.statistics.rows == 200_000
        assert "mapped files" in str(result.statistics)


def test_explain_analyze_shows_what_sending_would_cost(database, tmp_path):
    path = tmp_path / "socket"
    with (
        database.serve(listen="127.0.0.1:0", unix=path) as server,
        hypostyle.connect(_of(server, "hypostyle+unix:")) as near,
        hypostyle.connect(_of(server, "hypostyle:")) as far,
    ):

        def explained(connection, query):
            return "\n".join(text for _, text in connection.sql(f"EXPLAIN ANALYZE {query}").fetchall())

        assert "TransferExec: descriptors of the stored columns" in explained(near, "SELECT * FROM t")
        assert "TransferExec: codec=none, memory files" in explained(near, "SELECT i + 1 FROM t")
        plan = explained(far, "SELECT i, s FROM t WHERE i % 2 = 0")
        assert "TransferExec: codec=auto, link=this machine, rows=100000" in plan
        assert "columns=[i: " in plan
        len(far.sql("SELECT i, few * 2, s || i FROM t"))
        assert "TransferExec" not in explained(database, "SELECT i FROM t WHERE i > 5")
