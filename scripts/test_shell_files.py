"""The man page and the completions say what the program's help says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from shell_files import Option, bash, files, fish, manual, parse, zsh

PROGRAM = """\
Hypostyle: an analytical database in your process

Usage: hypostyle [OPTIONS] [DATABASE]
       hypostyle <COMMAND>

Commands:
  serve    Serve a database to other programs and machines
  cluster  Run a cluster of several nodes on this machine
  help     Print this message or the help of the given subcommand(s)

Arguments:
  [DATABASE]  Directory of the database, made if missing, or a server: hypostyle://host/,
              or nothing

Options:
  -f, --file <FILE>                Run a script and leave; don't stay
      --allow-network-filesystem   Open a database on a network file system, whose locks and
                                   mappings cannot be relied on
      --verify <WHEN>              When columns are verified: auto,
                                   always or never [default: auto]
  -h, --help                       Print help

Examples:
  hypostyle            a shell

Exit status: 0 done.
"""
SERVE = """\
Serve a database to other programs and machines

Usage: hypostyle serve [OPTIONS] <DATABASE>

Arguments:
  <DATABASE>  Directory of the database

Options:
      --listen <HOST:PORT>
          Address and port for clients, such as
          127.0.0.1:4953
  -h, --help
          Print help
"""
CLUSTER = """\
Run a cluster of several nodes on this machine

Usage: hypostyle cluster <COMMAND>

Commands:
  up    Start the nodes
  down  End them
  help  Print this message or the help of the given subcommand(s)

Options:
  -h, --help  Print help
"""
UP = """\
Start the nodes

Usage: hypostyle cluster up [OPTIONS] <NODES>

Arguments:
  <NODES>  Number of nodes

Options:
      --port <PORT>  Port of the first node
      --data <DIR>   Directory of the cluster
  -h, --help         Print help
"""
COMMANDS = {"serve": parse(SERVE), "cluster": parse(CLUSTER), "cluster up": parse(UP)}


def test_help_is_read_as_it_is_written() -> None:
    program = parse(PROGRAM)
    assert program.usage == ["hypostyle [OPTIONS] [DATABASE]", "hypostyle <COMMAND>"]
    assert program.options[:2] == [
        Option("--file", "-f", "FILE", "Run a script and leave; don't stay"),
        Option(
            "--allow-network-filesystem",
            None,
            None,
            "Open a database on a network file system, whose locks and mappings cannot be relied on",
        ),
    ]
    assert program.options[2].value == "WHEN"
    assert program.arguments[0][1].endswith("hypostyle://host/, or nothing")
    assert list(program.commands) == ["serve", "cluster", "help"]
    assert program.epilogue[-1] == "Exit status: 0 done."
    serve = parse(SERVE)
    assert [option.long for option in serve.options] == ["--listen", "--help"]
    assert serve.options[0].about == "Address and port for clients, such as 127.0.0.1:4953"


def test_every_option_is_in_every_file() -> None:
    program, commands = parse(PROGRAM), COMMANDS
    for place, text in files(program, commands, "hypostyle 0.1.0").items():
        plain = text.replace("\\-", "-")
        for name in ("file", "allow-network-filesystem", "verify", "listen", "serve", "port", "up"):
            assert name in plain.lower(), f"{place}: {name}"


def checked(command: list[str], text: str, tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    path = tmp_path / "file"
    path.write_text(text)
    run = subprocess.run([*command, str(path)], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_shells_can_read_their_files(tmp_path: Path) -> None:
    program, commands = parse(PROGRAM), COMMANDS
    checked(["bash", "-n"], bash(program, commands), tmp_path)
    for shell, text in (("zsh", zsh(program, commands)), ("fish", fish(program, commands))):
        if shutil.which(shell):
            checked([shell, "-n"], text, tmp_path)


def test_bash_completes_options_and_commands(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(bash(parse(PROGRAM), COMMANDS))
    ask = f"""
        source {script}
        COMP_WORDS=(hypostyle "$@"); COMP_CWORD=$#
        _hypostyle; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    for typed, expected in (
        (["--al"], ["--allow-network-filesystem"]),
        (["serv"], ["serve"]),
        (["serve", "--l"], ["--listen"]),
        (["cl"], ["cluster"]),
        (["cluster", "d"], ["down"]),
        (["cluster", "up", "--p"], ["--port"]),
    ):
        run = subprocess.run(
            ["bash", "-c", ask, "bash", *typed], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        assert run.stdout.split() == expected


def test_the_man_page_is_one(tmp_path: Path) -> None:
    text = manual(parse(PROGRAM), COMMANDS, "hypostyle 0.1.0")
    assert text.startswith(".TH HYPOSTYLE 1")
    assert ".SH HYPOSTYLE SERVE\n" in text and ".SH HYPOSTYLE CLUSTER UP\n" in text
    if shutil.which("man"):
        checked(["man", "--warnings", "-l", "-E", "UTF-8"], text, tmp_path)
