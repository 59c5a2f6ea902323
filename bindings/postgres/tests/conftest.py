import pytest

from cluster import Cluster


@pytest.fixture(scope="session")
def cluster():
    cluster = Cluster()
    try:
        with cluster.connect() as connection:
            connection.execute("CREATE EXTENSION hypostyle")
        yield cluster
        with cluster.connect() as connection:
            # No statement has ended a session but its own.
            assert connection.execute("SELECT 1").fetchone() == (1,)
        log = cluster.log()
        assert "was terminated by signal" not in log and "PANIC" not in log, log
    finally:
        cluster.stop()


@pytest.fixture
def connection(cluster):
    with cluster.connect() as connection:
        yield connection
