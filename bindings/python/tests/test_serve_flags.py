"""The flags and signals of `hypostyle serve`, and the shell that is connected to it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import hypostyle
import pytest
from served import (
    DEADLINE,
    ENDLESS,
    PROGRAM,
    is_running,
    later,
    needs_program,
    promptly,
    run,
    serve,
    sessions,
    start,
    until,
)

pytestmark = needs_program

LISTEN = ("--listen", "127.0.0.1:0")
PGWIRE = ("--pgwire", "127.0.0.1:0")
METRICS = ("--metrics", "127.0.0.1:0")


@pytest.fixture
def psycopg():
    return pytest.importorskip("psycopg")


def postgres(served, more=""):
    """Return the arguments with which psycopg connects."""
    return f"host=127.0.0.1 port={served.port('postgresql')} user=ada connect_timeout={DEADLINE} {more}"


def user(name, role, password):
    """Return a line of the users' file."""
    done = run("user", name, "--role", role, text=f"{password}\n")
    assert done.returncode == 0, done.stderr
    return done.stdout


# PostgreSQL's protocol


def test_pgwire_serves_the_same_database(tmp_path, psycopg):
    with (
        serve(tmp_path, *LISTEN, *PGWIRE) as served,
        psycopg.connect(postgres(served), autocommit=True) as pg,
        served.connect() as con,
    ):
        pg.execute("create table t (a integer, b varchar)")
        pg.execute("insert into t values (%s, %s)", [1, "one"])
        con.append("t", {"a": [2], "b": ["two"]})
        assert pg.execute("select * from t order by a").fetchall() == [(1, "one"), (2, "two")]
        assert con.sql("select count(*) as n from t").fetchone() == (2,)


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A directory with an authority, and its certificates: a good one, an expired one, and
    another's.
    """
    directory = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    ours = "DNS:localhost,IP:127.0.0.1"
    (directory / "index").touch()
    (directory / "ca.conf").write_text(
        "[ca]\ndefault_ca = own\n"
        "[own]\ndatabase = index\nrand_serial = yes\ndefault_md = sha256\npolicy = any\nunique_subject = no\n"
        "certificate = ca.crt\nprivate_key = ca.key\nnew_certs_dir = .\n"
        "[any]\ncommonName = supplied\n"
        f"[ours]\nsubjectAltName = {ours}\n"
        "[theirs]\nsubjectAltName = DNS:elsewhere.example\n"
    )
    for name, section, year in (("good", "ours", 2090), ("expired", "ours", 2020), ("other", "theirs", 2090)):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        sign = ["ca", "-batch", "-notext", "-config", "ca.conf", "-extensions", section]
        sign += ["-startdate", "20190101000000Z", "-enddate", f"{year}0101000000Z"]
        openssl(*sign, "-in", f"{name}.csr", "-out", f"{name}.crt")
    return directory


def tls(certificates, name, key=None):
    return (
        "--tls-cert",
        certificates / f"{name}.crt",
        "--tls-key",
        certificates / f"{key or name}.key",
    )


def test_clients_verify_the_certificate(tmp_path, certificates, psycopg):
    with serve(tmp_path, *LISTEN, *PGWIRE, *tls(certificates, "good")) as served:
        trusting = f"tls=on&tls_ca={certificates / 'ca.crt'}"
        with promptly(lambda: hypostyle.connect(f"{served.tcp}?tls_ca={certificates / 'ca.crt'}")) as con:
            assert con.sql("select 1 as x").fetchall() == [(1,)], "who names certificates wants TLS"
        with pytest.raises(hypostyle.Error, match="there is none in it"):
            hypostyle.connect(f"{served.tcp}?tls_ca={certificates / 'good.key'}")
        for host in ("127.0.0.1", "localhost"):
            address = f"hypostyle://{host}:{served.port('hypostyle')}/?{trusting}"
            with promptly(lambda address=address: hypostyle.connect(address)) as con:
                result = con.sql("select value from generate_series(1, 300000) as g (value)")
                assert sum(value for (value,) in result.fetchall()) == 300_000 * 300_001 // 2
        with psycopg.connect(
            postgres(served, f"sslmode=verify-full sslrootcert={certificates / 'ca.crt'}")
        ) as pg:
            assert pg.pgconn.ssl_in_use
            assert pg.execute("select 7 as x").fetchone() == (7,)
        for options, why in (("tls=on", "UnknownIssuer"), ("", "wants TLS"), ("tls=off", "wants TLS")):
            with pytest.raises(hypostyle.ServerConnectionError, match=why):
                promptly(lambda options=options: hypostyle.connect(f"{served.tcp}?{options}"))
        with pytest.raises(psycopg.OperationalError, match="wants TLS"):
            psycopg.connect(postgres(served, "sslmode=disable"))


def test_what_keeps_tls_from_working_is_told(tmp_path, certificates):
    with serve(tmp_path, *LISTEN) as served:
        with pytest.raises(hypostyle.ServerConnectionError, match="--tls-cert"):
            promptly(lambda: hypostyle.connect(f"{served.tcp}?tls=on&tls_ca={certificates / 'ca.crt'}"))
        with promptly(lambda: served.connect()) as con:
            assert con.sql("select 1 as x").fetchone() == (1,)
    (tmp_path / "again").mkdir()
    with (
        serve(tmp_path / "again", *LISTEN, *tls(certificates, "ca")) as served,
        pytest.raises(hypostyle.ServerConnectionError, match="CA:FALSE"),
    ):
        promptly(lambda: hypostyle.connect(f"{served.tcp}?tls=on&tls_ca={certificates / 'ca.crt'}"))


def test_a_hangup_reads_the_certificate_again(tmp_path, certificates):
    chain, key = tmp_path / "server.crt", tmp_path / "server.key"

    def install(name):
        chain.write_bytes((certificates / f"{name}.crt").read_bytes())
        key.write_bytes((certificates / f"{name}.key").read_bytes())

    install("expired")
    with serve(tmp_path, *LISTEN, "--tls-cert", chain, "--tls-key", key) as served:
        address = f"{served.tcp}?tls=on&tls_ca={certificates / 'ca.crt'}"
        with pytest.raises(hypostyle.ServerConnectionError, match=r"[Ee]xpired"):
            promptly(lambda: hypostyle.connect(address))
        install("good")
        served.signal(signal.SIGHUP)
        served.await_log("the certificate was read again")
        with promptly(lambda: hypostyle.connect(address)) as con:
            chain.write_text("no certificate")
            served.signal(signal.SIGHUP)
            served.await_log("the certificate stays as it was")
            assert con.sql("select 1 as x").fetchone() == (1,)
        with promptly(lambda: hypostyle.connect(address)) as con:
            assert con.sql("select 2 as x").fetchone() == (2,)


@pytest.mark.parametrize(
    ("name", "why", "to_psycopg"),
    [
        ("expired", "[Ee]xpired", "certificate verify failed"),
        ("other", "elsewhere.example|not valid for name", "does not match"),
    ],
    ids=["expired", "of another name"],
)
def test_a_certificate_that_does_not_hold_is_a_clear_error(
    tmp_path, certificates, psycopg, name, why, to_psycopg
):
    places = (*LISTEN, *PGWIRE, "--unix", tmp_path / "socket")
    with serve(tmp_path, *places, *tls(certificates, name)) as served:
        address = f"{served.tcp}?tls=on&tls_ca={certificates / 'ca.crt'}"
        with pytest.raises(hypostyle.ServerConnectionError, match=why) as error:
            promptly(lambda: hypostyle.connect(address))
        assert error.value.sqlstate.startswith("08")
        shell = run(address, "-c", "select 1 as x")
        assert (shell.returncode, shell.stdout) == (1, "")
        assert shell.stderr.startswith("Error [08") and "ertificate" in shell.stderr
        with pytest.raises(psycopg.OperationalError, match=to_psycopg):
            psycopg.connect(postgres(served, f"sslmode=verify-full sslrootcert={certificates / 'ca.crt'}"))
        with served.connect("hypostyle+unix") as con:
            assert con.sql("select 1 as x").fetchone() == (1,)


def test_certificates_that_cannot_be_used_are_refused_at_the_start(tmp_path, certificates):
    for options, status, why in (
        (tls(certificates, "good")[:2], 2, "--tls-key"),
        (tls(certificates, "good")[2:], 2, "--tls-cert"),
        (tls(certificates, "good", "other"), 1, "good.crt"),
        (tls(certificates, "nothing"), 1, "nothing.crt"),
        (("--tls-cert", certificates / "ca.conf", "--tls-key", certificates / "ca.key"), 1, "ca.conf"),
    ):
        done = run("serve", ":memory:", *LISTEN, *options)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert why in done.stderr


# Who may come from where


@pytest.mark.parametrize(
    "options", [("--listen", "0.0.0.0:0"), ("--listen", "[::]:0"), ("--pgwire", "0.0.0.0:0")]
)
def test_the_network_needs_users(tmp_path, options):
    done = run("serve", ":memory:", *options)
    assert done.returncode == 1
    assert done.stderr.startswith("Error [42501 Denied]: ") and "give --users FILE" in done.stderr
    if options[1].startswith("0."):
        (tmp_path / "users").write_text(user("ada", "admin", "secret"))
        with serve(tmp_path, *options, "--users", tmp_path / "users") as served:
            assert "0.0.0.0" in "".join(served.places.values())


def test_an_address_that_is_taken_stays_with_its_owner(tmp_path):
    path = tmp_path / "socket"
    with serve(tmp_path, *LISTEN, "--unix", path) as served:
        for options in (("--listen", f"127.0.0.1:{served.port('hypostyle')}"), ("--unix", path)):
            done = run("serve", ":memory:", *options)
            assert done.returncode == 1
            assert "is in use; another server may run" in done.stderr
        for scheme in served.places:
            with served.connect(scheme) as con:
                assert con.sql("select 1 as x").fetchone() == (1,)
        served.kill()
    assert path.is_socket()
    with serve(tmp_path, "--unix", path) as served, served.connect("hypostyle+unix") as con:
        assert con.sql("select 2 as x").fetchone() == (2,)


def test_a_unix_socket_has_the_permissions_that_are_asked_for(tmp_path):
    path = tmp_path / "socket"
    for mode in ("600", "0666"):
        with serve(tmp_path, "--unix", path, "--unix-mode", mode) as served:
            assert path.stat().st_mode & 0o777 == int(mode, 8)
            with served.connect("hypostyle+unix") as con:
                assert con.sql("select 1").fetchone() == (1,)
    for wrong in ("8", "1777", "rw", "-1", "+6"):
        done = run("serve", ":memory:", "--unix", path, f"--unix-mode={wrong}")
        assert done.returncode == 2
        assert "octal digits" in done.stderr
    assert run("serve", ":memory:", *LISTEN, "--unix-mode", "600").returncode == 2


def test_a_crowd_that_says_nothing_keeps_nobody_out(tmp_path, psycopg):
    def seconds_beside_a_crowd(served) -> float:
        with contextlib.ExitStack() as crowd:
            for _ in range(300):
                for scheme in ("postgresql", "hypostyle"):
                    place = ("127.0.0.1", served.port(scheme))
                    crowd.enter_context(contextlib.closing(socket.create_connection(place, DEADLINE)))
            began = time.monotonic()
            psycopg.connect(postgres(served)).close()
            with served.connect() as con:
                assert con.sql("select 1").fetchone() == (1,)
            seconds = time.monotonic() - began
            until(lambda: served.held()["sockets"] < 10)
        return seconds

    with serve(tmp_path, *LISTEN, *PGWIRE) as served:
        # The silent are let go after 3 s: on a busy machine others may take as long without waiting for them.
        assert any(seconds_beside_a_crowd(served) < 2 for _ in range(5))


def test_who_guesses_passwords_is_slowed_down_and_audited(tmp_path, psycopg):
    file = tmp_path / "users"
    file.write_text(user("ada", "admin", "right"))
    file.chmod(0o644)
    options = ("--users", file, "--unix", tmp_path / "socket")
    with serve(tmp_path, *LISTEN, *PGWIRE, *options) as served:
        served.await_log(r"the users' file is open to every user of this machine")
        states = set()
        for number in range(12):
            with pytest.raises((hypostyle.DeniedError, hypostyle.BusyError)) as error:
                hypostyle.connect(served.tcp.replace("://", f"://ada:wrong{number}@"))
            states.add(error.value.sqlstate)
        assert states == {"28P01", "53300"}
        with pytest.raises(psycopg.OperationalError, match="too many logins have failed"):
            psycopg.connect(postgres(served, "password=right"))
        # On other addresses the rightful user can log in.
        with hypostyle.connect(served.unix.replace("://", "://ada:right@")) as con:
            assert con.sql("select 1").fetchone() == (1,)
        refused = served.await_log(r'audit: login refused .*user="ada" peer="127.0.0.1:\d+" reason=.*', 2)[0]
        assert 'protocol="' in refused
        assert "right" not in served.log and "wrong1" not in served.log
        served.await_log(r'audit: login .*user="ada" .*method="scram-sha-256" role="admin"')


def test_names_that_clients_give_stand_on_one_line(tmp_path, psycopg):
    forged = "eve\n2026-01-01T00:00:00Z  INFO audit: login protocol=forged \x1b[2K\u2028"
    with serve(tmp_path, *LISTEN, *PGWIRE) as served:
        with psycopg.connect(postgres(served), user=forged, application_name=forged, autocommit=True):
            pass
        with served.connect() as con:
            served.await_log("a PostgreSQL session ends")
            names = [str(row) for row in con.sql("show sessions").fetchall()]
        assert not any("\n" in name for name in names)
        assert not any(line.startswith("2026-01-01T00:00:00Z") for line in served.log.splitlines())
        assert "\x1b[2K\u2028" not in served.log


def test_what_is_open_is_said(tmp_path, certificates):
    file = tmp_path / "users"
    file.write_text(user("ada", "admin", "right"))
    file.chmod(0o600)
    everywhere = ("--listen", "0.0.0.0:0", "--users", file)
    with serve(tmp_path, *LISTEN) as served:
        served.await_log("whoever has a process on this machine may do everything")
    with serve(tmp_path, *everywhere) as served:
        served.await_log("what goes over the network is not encrypted")
    key = certificates / "good.key"
    key.chmod(0o644)
    with serve(tmp_path, *everywhere, *tls(certificates, "good")) as served:
        served.await_log("the certificate's key is open to every user of this machine")
        assert "not encrypted" not in served.log
    key.chmod(0o600)


def test_a_server_may_want_to_see_certificates_of_clients(tmp_path, certificates):
    trusting = f"?tls_ca={certificates / 'ca.crt'}"
    authority = ("--tls-client-ca", certificates / "ca.crt")
    file = tmp_path / "users"
    file.write_text(user("ada", "admin", "right"))
    with serve(tmp_path, *LISTEN, "--users", file, *tls(certificates, "good"), *authority) as served:
        address = served.tcp.replace("://", "://ada:right@") + trusting
        own = "&tls_cert={0}.crt&tls_key={0}.key".format(certificates / "good")
        with promptly(lambda: hypostyle.connect(address + own)) as con:
            assert con.sql("select 1").fetchone() == (1,)
        served.await_log('method="scram-sha-256-plus"')
        with pytest.raises(hypostyle.ServerConnectionError):
            promptly(lambda: hypostyle.connect(address).sql("select 1"))
        expired = own.replace("good", "expired")
        with pytest.raises(hypostyle.ServerConnectionError):
            promptly(lambda: hypostyle.connect(address + expired).sql("select 1"))


# A client that accepts descriptors, and prints in which place (protocol.md §10) a result comes.
TAKES_DESCRIPTORS = """
    import socket, struct, sys

    def text(value):
        return struct.pack("<I", len(value)) + value

    def frame(kind, body):
        return struct.pack("<IBBH", len(body), kind, 0, 0) + body

    def take(length):
        taken = b""
        while len(taken) < length:
            piece = server.recv(length - len(taken))
            assert piece, "the server has ended the connection"
            taken += piece
        return taken

    server = socket.socket(socket.AF_UNIX)
    server.connect(sys.argv[1])
    hello = struct.pack("<III", 1, 1, 1 << 28) + text(b"") + text(b"test") + text(b"") + text(b"")
    hello += struct.pack("<Q", 0) + text(b"") + struct.pack("<I", 0) + text(b"")
    query = struct.pack("<IBBIQ", 1, 0, 1, 0, 1 << 30) + text(b"select * from t") + struct.pack("<BI", 0, 0)
    server.sendall(b"HYPO" + struct.pack("<HH", 1, 1) + frame(1, hello) + frame(3, query))
    kind = 0
    while kind != 37:
        length, kind, _, _ = struct.unpack("<IBBH", take(8))
        body = take(length)
    print(body[4])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_only_processes_of_the_own_user_get_the_columns_files(tmp_path):
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        path = Path(directory) / "socket"
        options = ("--unix", path, "--unix-mode", "666")
        with serve(tmp_path, *options, database=tmp_path / "t.hypo") as served:
            with served.connect("hypostyle+unix") as con:
                con.execute(
                    "create table t as select value as x from generate_series(1, 100000) as g (value)"
                )
                con.execute("checkpoint")
                assert con.sql("select * from t").statistics.mapped

            def place(user):
                command = ["/usr/bin/python3", "-c", textwrap.dedent(TAKES_DESCRIPTORS), path]
                done = subprocess.run(command, user=user, capture_output=True, text=True, timeout=DEADLINE)
                assert done.returncode == 0, done.stderr
                return int(done.stdout)

            assert [place(user) for user in (0, 65534)] == [2, 1]


def test_clients_that_are_killed_leave_nothing_behind(tmp_path):
    code = textwrap.dedent("""
        import hypostyle, sys
        con = hypostyle.connect(sys.argv[1])
        con.execute("begin")
        con.execute("insert into t values (1)")
        print(1, flush=True)
        con.sql(sys.argv[2]).fetchall()
    """)
    spill = tmp_path / "spill"
    spill.mkdir()
    options = ("--unix", tmp_path / "socket", "--resume-timeout", "0", "--temp-directory", spill)
    with serve(tmp_path, *LISTEN, *options) as served:
        with served.connect() as con:
            con.execute("create table t (a integer)")
        until(lambda: not served.held()["threads"])
        before, memory = served.held(), []
        for _ in range(4):
            clients = [
                subprocess.Popen([sys.executable, "-c", code, address, ENDLESS], stdout=subprocess.PIPE)
                for address in (served.tcp, served.unix)
                for _ in range(2)
            ]
            for client in clients:
                assert client.stdout.readline() == b"1\n"
            for client in clients:
                client.kill()
                client.communicate()
            until(lambda: served.held() == before)
            assert not list(spill.rglob("*.arrow"))
            memory.append(served.memory())
        # It is as much as after the first round, except for what the allocator keeps.
        assert memory[-1] < memory[0] + (32 << 20), memory
        with served.connect() as con:
            assert con.sql("select count(*) from t").fetchone() == (0,)


def test_a_wrong_password_takes_its_time_over_either_protocol(tmp_path, psycopg):
    file = tmp_path / "users"
    file.write_text(user("ada", "admin", "right"))
    with serve(tmp_path, *LISTEN, *PGWIRE, "--users", file) as served:
        for connect in (
            lambda: psycopg.connect(postgres(served, "password=wrong")),
            lambda: hypostyle.connect(served.tcp.replace("://", "://ada:wrong@")),
        ):
            began = time.monotonic()
            with pytest.raises((psycopg.OperationalError, hypostyle.DeniedError)):
                connect()
            assert time.monotonic() - began >= 0.25


def test_a_hangup_reads_the_users_again(tmp_path, psycopg):
    file = tmp_path / "users"
    ada, bob = user("ada", "admin", "first"), user("bob", "read", "b")
    file.write_text(ada + bob)
    with serve(tmp_path, *LISTEN, *PGWIRE, "--users", file) as served:

        def login(who):
            return hypostyle.connect(served.tcp.replace("://", f"://{who}@"))

        with login("bob:b") as stays, login("ada:first") as con:
            con.execute("create table t as select 1 as x")
            file.write_text(user("ada", "admin", "second") + user("eve", "write", "e"))
            served.signal(signal.SIGHUP)
            served.await_log("the users' file was read again")
            for who in ("ada:first", "bob:b"):
                with pytest.raises(hypostyle.DeniedError) as error:
                    login(who)
                assert error.value.sqlstate == "28P01"
            with login("eve:e") as writer:
                assert writer.sql("insert into t values (2)").rows_affected == 1
            with psycopg.connect(postgres(served, "password=second")) as pg:
                assert pg.execute("select count(*) from t").fetchone() == (2,)
            assert stays.sql("select count(*) as n from t").fetchone() == (2,)
            file.write_text("ada raed x\n")
            served.signal(signal.SIGHUP)
            served.await_log("the users stay as they were")
            assert 'did you mean "read"' in served.log
            with login("ada:second") as again:
                assert again.sql("select count(*) as n from t").fetchone() == (2,)


def test_a_hangup_without_users_changes_nothing(tmp_path):
    with serve(tmp_path, *LISTEN) as served, served.connect() as con:
        con.execute("create table t as select 1 as x")
        served.signal(signal.SIGHUP)
        with served.connect() as other:
            assert other.table("t").fetchall() == [(1,)]
        assert con.table("t").fetchall() == [(1,)]
        assert served.process.poll() is None


# Metrics


def test_metrics_count_what_is_done(tmp_path):
    options = (*LISTEN, *METRICS, "--clients-max", "1")
    with serve(tmp_path, *options) as served:
        assert served.get("/health") == (200, "ok\n")
        with served.connect() as con:
            con.append("t", {"x": range(1000)}, create=True)
            assert len(con.sql("select x from t where x >= 10")) == 990
            with pytest.raises(hypostyle.UnknownNameError):
                con.sql("select * from nowhere")
            with pytest.raises(hypostyle.BusyError):
                served.connect()
            assert served.metric('sessions{of="client"}') == 1
            assert served.metric("connections_total") == 1
            assert served.metric("connections_refused_total") == 1
            assert served.metric("statements_total") == 2
            assert served.metric("statement_errors_total") == 1
            assert served.metric("rows_received_total") == 1000
            assert served.metric("rows_sent_total") == 990
            assert served.metric("bytes_sent_total") > 990
        until(lambda: served.metric('sessions{of="client"}') == 0)
        assert served.get("/metrics")[1].endswith("# EOF\n")
        assert [served.get(*what)[0] for what in (("/else",), ("/metrics", "POST"))] == [404, 405]


# Limits


def test_one_client_too_many_is_told_so(tmp_path, psycopg):
    with serve(tmp_path, *LISTEN, *PGWIRE, *METRICS, "--clients-max", "2") as served:
        with served.connect() as first, psycopg.connect(postgres(served)):
            with pytest.raises(hypostyle.BusyError, match="all 2 places") as error:
                served.connect()
            assert error.value.sqlstate == "53300"
            with pytest.raises(psycopg.OperationalError, match="all 2 places"):
                psycopg.connect(postgres(served))
            assert first.sql("select 1 as x").fetchone() == (1,)
        until(lambda: served.metric('sessions{of="client"}') == 0)
        with served.connect() as con:
            assert con.sql("select 1 as x").fetchone() == (1,)


def test_a_client_that_vanished_gives_its_place_to_another(tmp_path):
    code = textwrap.dedent("""
        import hypostyle, sys, time
        con = hypostyle.connect(sys.argv[1])
        con.sql("select 1")
        print(1, flush=True)
        time.sleep(600)
    """)
    with serve(tmp_path, *LISTEN, "--clients-max", "1") as served:
        client = subprocess.Popen([sys.executable, "-c", code, served.tcp], stdout=subprocess.PIPE)
        assert client.stdout.readline() == b"1\n"
        with pytest.raises(hypostyle.BusyError):
            served.connect()
        client.kill()
        client.communicate()

        def connects():
            try:
                served.connect().close()
            except hypostyle.BusyError:
                return False
            return True

        until(connects)


def test_a_statement_that_takes_too_long_is_interrupted(tmp_path, psycopg):
    with serve(tmp_path, *LISTEN, *PGWIRE, "--statement-timeout", "0.3") as served:
        with served.connect() as con:
            with pytest.raises(hypostyle.QueryInterrupted, match=r"longer than the 0\.3 s") as error:
                con.sql(ENDLESS).fetchall()
            assert error.value.sqlstate == "57014"
            assert con.sql("select 1 as x").fetchone() == (1,)
        with psycopg.connect(postgres(served), autocommit=True) as pg:
            with pytest.raises(psycopg.errors.QueryCanceled):
                pg.execute(ENDLESS)
            assert pg.execute("select 1 as x").fetchone() == (1,)


def test_an_idle_session_is_ended_and_its_transaction_with_it(tmp_path, psycopg):
    options = ("--unix", tmp_path / "socket", *METRICS, "--idle-timeout", "0.3")
    with (
        serve(tmp_path, *LISTEN, *PGWIRE, *options) as served,
        served.connect() as con,
        served.connect("hypostyle+unix") as local,
        contextlib.closing(psycopg.connect(postgres(served))) as pg,
    ):
        con.execute("create table t as select 1 as x")
        con.execute("begin")
        con.execute("delete from t")
        until(lambda: served.metric('sessions{of="client"}') == 0)
        for idle in (con, local):
            with pytest.raises(hypostyle.ClosedError, match=r"idle for 0\.3 s") as error:
                idle.sql("select 1 as x")
            assert error.value.sqlstate == "57P05"
        # It cannot be committed any more, and is rolled back.
        assert con.in_transaction
        with pytest.raises(hypostyle.ServerConnectionError, match="lost"):
            con.commit()
        con.rollback()
        with pytest.raises(psycopg.OperationalError, match="said nothing"):
            pg.execute("select 1")
        with served.connect() as con:
            assert con.table("t").fetchall() == [(1,)]


@pytest.mark.parametrize("limit", ["query_memory_limit", "memory_limit"])
def test_memory_is_limited(tmp_path, limit):
    flag = "--" + limit.replace("_", "-")
    with serve(tmp_path, *LISTEN, flag, "2MB") as served, served.connect() as con:
        con.execute(
            "create table t as select value as a, 'text number ' || value as s "
            "from generate_series(1, 200000) as g (value)"
        )
        join = "select count(*) from t a join t b on a.s = b.s and a.a <> b.a + 1 full join t c on c.s = a.s"
        with pytest.raises(hypostyle.OutOfMemoryError, match=f"raise {limit}") as error:
            con.sql(join).fetchall()
        assert error.value.sqlstate == "53200"
        assert con.sql("select count(*) as n from t").fetchone() == (200_000,)


# Sessions


def test_a_session_is_shown_as_active_while_its_rows_are_computed(tmp_path):
    with serve(tmp_path, *LISTEN) as served, served.connect() as con, served.connect() as other:
        running = later(lambda: con.sql(ENDLESS).fetchall())

        def has_rows_computed():
            shown = other.sql("show sessions").fetchall()
            return any(row[5] == ENDLESS and row[6] > 0.5 for row in shown)

        # Between the start of a statement and the wait for its rows there is a moment.
        until(has_rows_computed)
        states = {state for _ in range(50) for state, found in sessions(other) if found == ENDLESS}
        assert not running.done()
        con.interrupt()
        with pytest.raises(hypostyle.QueryInterrupted):
            running.result(timeout=DEADLINE)
        assert states == {"active"}


# The end


def test_the_first_signal_lets_statements_end(tmp_path):
    options = (*LISTEN, *METRICS, "--unix", tmp_path / "socket", "--stop-timeout", "600")
    with serve(tmp_path, *options, database=tmp_path / "t.hypo") as served:
        with served.connect() as con, served.connect("hypostyle+unix") as idle:
            con.execute("create table t as select value as i from generate_series(1, 20000) as g (value)")
            slow = "create table n as select count(*) as n from t a, t b where a.i * b.i = 7"
            running = later(lambda: con.sql(slow).rows_affected)
            until(lambda: is_running(idle, slow))
            served.signal(signal.SIGTERM)
            served.await_log("stopping")
            with pytest.raises(hypostyle.ClosedError, match="the server is stopping") as error:
                until(lambda: idle.sql("select 1 as x") and None)
            assert error.value.sqlstate == "57P01"
            with pytest.raises(hypostyle.Error):
                promptly(served.connect)
            assert running.result(timeout=DEADLINE) == 1
            assert served.wait() == 0
        assert not (tmp_path / "socket").exists()
    with hypostyle.connect(tmp_path / "t.hypo") as con:
        assert con.table("n").fetchall() == [(2,)]


def test_what_runs_when_the_time_to_stop_is_over_is_interrupted(tmp_path):
    options = (*LISTEN, "--stop-timeout", "0")
    with serve(tmp_path, *options) as served, served.connect() as con, served.connect() as other:
        running = later(lambda: con.sql(ENDLESS).fetchall())
        until(lambda: is_running(other, ENDLESS))
        served.signal(signal.SIGINT)
        with pytest.raises(hypostyle.ClosedError, match="the server is stopping") as error:
            running.result(timeout=DEADLINE)
        assert error.value.sqlstate == "57P01"
        assert served.wait() == 0


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT], ids=lambda signal: signal.name)
def test_the_second_signal_ends_the_server_at_once(tmp_path, second):
    options = (*LISTEN, *METRICS, "--stop-timeout", "600")
    with (
        serve(tmp_path, *options, database=tmp_path / "t.hypo") as served,
        served.connect() as con,
        served.connect() as other,
    ):
        con.execute("create table t as select 1 as x")
        running = later(lambda: con.sql(ENDLESS).fetchall())
        until(lambda: is_running(other, ENDLESS))
        served.signal(signal.SIGTERM)
        served.await_log("stopping")
        until(lambda: served.get("/health") == (503, "the server is stopping\n"))
        assert not running.done() and served.process.poll() is None
        served.signal(second)
        assert served.wait() == 0
        with pytest.raises((hypostyle.ServerConnectionError, hypostyle.ClosedError)):
            running.result(timeout=DEADLINE)
    with hypostyle.connect(tmp_path / "t.hypo") as con:
        assert con.table("t").fetchall() == [(1,)]


# The shell


SCRIPTS = {
    "rows": "create table t (a integer, b varchar);\ninsert into t values (1, 'x;y'), (2, null);\n"
    "select * from t order by a;\n.tables\nselect count(*) as n\n  from t",
    "unknown": "select 1 as a;\n\nselect * from nowhere;\nselect 2 as b;\n",
    "syntax": "selec 1;\n",
    "value": "select 1 as a;\nselect cast('x' as integer) as b;\n",
    "while rows come": "select 1 / (value - 5000) as x from generate_series(1, 5000) as g (value);\n",
    "command": "select 1 as a;\n.tabels\n",
    "quit": "select 1 as a;\n.quit\nselect * from nowhere;\n",
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("scheme", ["hypostyle", "hypostyle+unix"])
def test_a_remote_shell_prints_and_fails_as_a_local_one(tmp_path, script, scheme):
    local = run("--csv", text=SCRIPTS[script])
    assert local.returncode == (0 if script in ("rows", "quit") else 1)
    with serve(tmp_path, *LISTEN, "--unix", tmp_path / "socket") as served:
        remote = run(served.places[scheme], "--csv", text=SCRIPTS[script])
    assert (remote.returncode, remote.stdout) == (local.returncode, local.stdout)
    assert remote.stderr == local.stderr


def test_a_remote_shell_has_a_user(tmp_path):
    (tmp_path / "users").write_text(user("rita", "read", "r"))
    with serve(tmp_path, *LISTEN, "--users", tmp_path / "users") as served:
        address = served.tcp.replace("://", "://rita@")

        def shell(text, password):
            return run(address, "--csv", text=text, env={**os.environ, "HYPOSTYLE_PASSWORD": password})

        done = shell("select 1 as a;", "r")
        assert (done.returncode, done.stdout, done.stderr) == (0, "a\n1\n", "")
        done = shell("create table t (a integer);", "r")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("standard input:1: Error [42501 Denied]: ")
        done = shell("select 1 as a;", "wrong")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error [28P01 Denied]: ")


def test_a_remote_shell_without_a_server_says_so(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for address in (f"hypostyle://127.0.0.1:{port}/", f"hypostyle+unix://{tmp_path}/nothing"):
            done = run(address, text="select 1;")
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith("Error [08") and "cannot connect to" in done.stderr


def shell(address):
    """Start a remote shell whose statements can be sent one by one."""
    return start(PROGRAM, address, "--csv", "--no-header")


@pytest.mark.parametrize("scheme", ["hypostyle", "hypostyle+unix"])
def test_a_remote_shell_whose_server_is_killed_fails(tmp_path, scheme):
    with (
        serve(tmp_path, *LISTEN, "--unix", tmp_path / "socket") as served,
        shell(served.places[scheme]) as child,
    ):
        child.stdin.write("select 1;\n")
        child.stdin.flush()
        assert child.stdout.readline() == "1\n"
        served.kill()
        output, errors = child.communicate("select 2;\n", timeout=DEADLINE)
        assert (child.returncode, output) == (1, "")
        assert errors.startswith("standard input:2: Error [08"), errors


def test_control_c_ends_a_remote_shell_and_its_statement(tmp_path):
    with (
        serve(tmp_path, *LISTEN) as served,
        served.connect() as con,
        shell(served.tcp) as child,
    ):
        child.stdin.write(f"{ENDLESS};\n")
        child.stdin.flush()
        until(lambda: is_running(con, ENDLESS))
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=DEADLINE)
        assert child.returncode == 130
        assert "57014 Interrupted" in errors
        until(lambda: not sessions(con))
