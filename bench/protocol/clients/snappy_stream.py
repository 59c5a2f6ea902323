"""Compresses or decompresses standard input to standard output: Snappy's framing format."""

from __future__ import annotations

import sys

import snappy

PIECE_BYTES = 1 << 16


def main() -> None:
    stream = snappy.StreamCompressor() if sys.argv[1] == "compress" else snappy.StreamDecompressor()
    work = stream.add_chunk if sys.argv[1] == "compress" else stream.decompress
    while piece := sys.stdin.buffer.read(PIECE_BYTES):
        sys.stdout.buffer.write(work(piece))


if __name__ == "__main__":
    main()
