"""The papers' baseline: a CSV file is sent from one netcat to another over loopback TCP."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path


def transfer_seconds(file: Path) -> float:
    """Return the time from the sender's start until the receiver, which writes to /dev/null, has
    the end.
    """
    netcat = shutil.which("nc.openbsd") or shutil.which("nc")
    if netcat is None:
        raise SystemExit("no netcat; scripts/setup.sh installs netcat-openbsd")
    port = _free_port()
    with subprocess.Popen(
        [netcat, "-l", "127.0.0.1", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as receiver:
        try:
            wait_until_listening(port, receiver)
            with file.open("rb") as source:
                start = time.perf_counter()
                subprocess.run([netcat, "-N", "127.0.0.1", str(port)], stdin=source, check=True)
                if receiver.wait(timeout=600) != 0:
                    raise RuntimeError(f"the receiving netcat failed with {receiver.returncode}")
                return time.perf_counter() - start
        finally:
            receiver.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_listening(port: int, receiver: subprocess.Popen[bytes]) -> None:
    """Look into the kernel's table: a probing connection would be the only one that netcat
    takes.
    """
    listening = f"0100007F:{port:04X} 00000000:0000 0A"
    while listening not in Path("/proc/net/tcp").read_text():
        if receiver.poll() is not None:
            raise RuntimeError(f"the receiving netcat ended with {receiver.returncode} before the transfer")
        time.sleep(0.005)
