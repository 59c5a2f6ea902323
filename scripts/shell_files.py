"""Writes the man page and the completions of a program from what it says of itself.

    python3 scripts/shell_files.py path/to/hypostyle DIRECTORY

The program's `--help`, and that of each of its commands, is read, so that no list of options is kept twice.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

NAME = "hypostyle"
# Values that are files or directories; the shells complete them.
FILES = {"FILE", "DIR", "PATH"}
OPTION = re.compile(r"^ +(?:(-\w), +|  +)(--[\w-]+)(?: <([^>]+)>)?(?:  +(.*))?$")


@dataclass
class Option:
    long: str
    short: str | None
    value: str | None
    about: str


@dataclass
class Command:
    """A program or one of its commands, from its help."""

    about: str = ""
    usage: list[str] = field(default_factory=list)
    arguments: list[tuple[str, str]] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    commands: dict[str, str] = field(default_factory=dict)
    epilogue: list[str] = field(default_factory=list)


def parse(help_text: str) -> Command:
    """Read the help that clap writes."""
    command = Command()
    lines = help_text.splitlines()
    command.about = lines[0]
    section = ""
    for line in lines[1:]:
        if line.startswith("Usage: "):
            section = "Usage"
            command.usage.append(line.removeprefix("Usage: "))
        elif line in ("Commands:", "Arguments:", "Options:"):
            section = line[:-1]
        elif line and not line.startswith(" "):
            section = "after"
            command.epilogue.append(line)
        elif section == "after":
            command.epilogue.append(line)
        elif not line.strip():
            continue
        elif section == "Usage":
            command.usage.append(line.strip())
        elif section == "Options":
            add_option(command.options, line)
        else:
            add_word(command, section, line)
    while command.epilogue and not command.epilogue[-1]:
        command.epilogue.pop()
    return command


def add_option(options: list[Option], line: str) -> None:
    if match := OPTION.match(line):
        short, long, value, about = match.groups()
        options.append(Option(long, short, value, about or ""))
    elif options:
        options[-1].about = f"{options[-1].about} {line.strip()}".strip()


def add_word(command: Command, section: str, line: str) -> None:
    name, _, about = line.strip().partition("  ")
    is_new = line.startswith("  ") and not line.startswith("   ")
    if section == "Commands" and is_new:
        command.commands[name] = about.strip()
    elif section == "Arguments" and is_new:
        command.arguments.append((name, about.strip()))
    elif section == "Arguments":
        name, earlier = command.arguments[-1]
        command.arguments[-1] = (name, f"{earlier} {line.strip()}".strip())


def roff(text: str) -> str:
    """Return text as a line of a man page."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def manual(program: Command, commands: dict[str, Command], version: str) -> str:
    about = program.about.partition(": ")[2] or program.about
    lines = [f'.TH HYPOSTYLE 1 "" "{version}"', ".SH NAME", rf"{NAME} \- {roff(about)}", ".SH SYNOPSIS"]
    for usage in program.usage + [usage for command in commands.values() for usage in command.usage]:
        lines += [".PP", rf"\fB{NAME}\fR {roff(usage.removeprefix(NAME).strip())}"]
    lines += [".SH DESCRIPTION", *manual_of(program)]
    for name, command in commands.items():
        lines += [f".SH {NAME.upper()} {name.upper()}", roff(command.about) + ".", *manual_of(command)]
    lines += [".SH NOTES", ".nf"] + [roff(line) for line in program.epilogue] + [".fi"]
    return "\n".join(lines) + "\n"


def manual_of(command: Command) -> list[str]:
    lines: list[str] = []
    for name, about in command.arguments:
        lines += [".TP", rf"\fI{roff(name.strip('<>[]'))}\fR", roff(about)]
    for option in command.options:
        names = ", ".join(name for name in (option.short, option.long) if name)
        value = rf" \fI{roff(option.value)}\fR" if option.value else ""
        lines += [".TP", rf"\fB{roff(names)}\fR{value}", roff(option.about)]
    return lines


def words(command: Command) -> list[str]:
    """Return the options of a command, and the names of its own commands."""
    options = [name for option in command.options for name in (option.short, option.long) if name]
    return options + list(inner(command))


def inner(command: Command) -> dict[str, str]:
    return {name: about for name, about in command.commands.items() if name != "help"}


def valued(command: Command, files: bool) -> list[str]:
    """Return the options that take a value: those whose value is a file, or all others."""
    with_value = [option for option in command.options if option.value]
    chosen = [option for option in with_value if (option.value in FILES) == files]
    return [name for option in chosen for name in (option.short, option.long) if name]


def innermost_first(commands: dict[str, Command]) -> list[tuple[str, Command]]:
    """Return the commands of commands, then the others, so that the longest name is matched first."""
    return sorted(commands.items(), key=lambda command: -command[0].count(" "))


def bash(program: Command, commands: dict[str, Command]) -> str:
    every = [program, *commands.values()]
    files = sorted({name for command in every for name in valued(command, files=True)})
    others = sorted({name for command in every for name in valued(command, files=False)})
    top = " ".join(words(replace(program, commands={})))
    cases = [
        f"        '{name} '*) words='{' '.join(words(command))}' ;;"
        for name, command in innermost_first(commands)
    ]
    return "\n".join(
        [
            f"# Completion of {NAME} for bash.",
            f"_{NAME}() {{",
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words",
            "    COMPREPLY=()",
            "    case $before in",
            f'        {"|".join(files)}) COMPREPLY=($(compgen -f -- "$word")); return ;;',
            f"        {'|'.join(others)}) return ;;",
            "    esac",
            '    case "${COMP_WORDS[*]:1:2} " in',
            *cases,
            f"        *) words='{top}'",
            f"            ((COMP_CWORD == 1)) && words+=' {' '.join(program.commands)}' ;;",
            "    esac",
            '    [[ $word == -* ]] || COMPREPLY=($(compgen -f -- "$word"))',
            '    COMPREPLY+=($(compgen -W "$words" -- "$word"))',
            "}",
            f"complete -o filenames -F _{NAME} {NAME}",
            "",
        ]
    )


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_options(command: Command) -> list[str]:
    lines = []
    for option in command.options:
        about = re.sub(r"([\[\]:])", r"\\\1", option.about)
        action = "_files" if option.value in FILES else " "
        value = f":{re.sub(':', ' ', option.value)}:{action}" if option.value else ""
        for name in (option.short, option.long):
            if name:
                lines.append(f"        {quoted(f'*{name}[{about}]{value}')} \\")
    return lines


def described_for_zsh(commands: dict[str, str]) -> str:
    return " ".join(quoted(f"{name}:{about}") for name, about in commands.items())


def zsh_commands(command: Command) -> list[str]:
    """Return the lines that offer the commands of a command, if it has any."""
    if not inner(command):
        return []
    return [
        f"        local -a inner=({described_for_zsh(inner(command))})",
        "        ((CURRENT == 3)) && _describe command inner",
    ]


def zsh(program: Command, commands: dict[str, Command]) -> str:
    cases = []
    for name, command in innermost_first(commands):
        cases += [
            f"    '{name} '*)",
            *zsh_commands(command),
            "        _arguments \\",
            *zsh_options(command),
            "        '*:file:_files' ;;",
        ]
    described = described_for_zsh(program.commands)
    return "\n".join(
        [
            f"#compdef {NAME}",
            f"# Completion of {NAME} for zsh.",
            f"local -a commands=({described})",
            "((CURRENT == 2)) && _describe command commands",
            'case "$words[2] $words[3] " in',
            *cases,
            "    *)",
            "        _arguments \\",
            *zsh_options(program),
            "        '*:file:_files' ;;",
            "esac",
            "",
        ]
    )


def fish(program: Command, commands: dict[str, Command]) -> str:
    lines = [f"# Completion of {NAME} for fish."]
    names = " ".join(program.commands)
    for name, about in program.commands.items():
        lines.append(f"complete -c {NAME} -n __fish_use_subcommand -a {name} -d {fish_quoted(about)}")
    for name, command in [("", program), *commands.items()]:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        when = seen or f"not __fish_seen_subcommand_from {names}"
        for word, about in inner(command).items() if name else ():
            lines.append(f"complete -c {NAME} -n {fish_quoted(when)} -a {word} -d {fish_quoted(about)}")
        for option in command.options:
            parts = [f"complete -c {NAME} -n {fish_quoted(when)} -l {option.long[2:]}"]
            parts += [f"-s {option.short[1:]}"] if option.short else []
            parts += ["-r" if option.value in FILES else "-x"] if option.value else []
            lines.append(" ".join([*parts, "-d", fish_quoted(option.about)]))
    return "\n".join(lines) + "\n"


def fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def files(program: Command, commands: dict[str, Command], version: str) -> dict[str, str]:
    """Return each file's path below a prefix, and its content."""
    return {
        f"share/man/man1/{NAME}.1": manual(program, commands, version),
        f"share/bash-completion/completions/{NAME}": bash(program, commands),
        f"share/zsh/site-functions/_{NAME}": zsh(program, commands),
        f"share/fish/vendor_completions.d/{NAME}.fish": fish(program, commands),
    }


def main() -> None:
    path, directory = sys.argv[1], Path(sys.argv[2])

    def ask(*arguments: str) -> str:
        return subprocess.run([path, *arguments], check=True, capture_output=True, text=True).stdout

    program = parse(ask("--help"))
    commands: dict[str, Command] = {}
    for name in inner(program):
        commands[name] = parse(ask(name, "--help"))
        for word in inner(commands[name]):
            commands[f"{name} {word}"] = parse(ask(name, word, "--help"))
    for place, text in files(program, commands, ask("--version").strip()).items():
        file = directory / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
