"""Fuzzing of SQL: statements that a reader could send, against a server that must stay healthy.

`repetition` multiplies constructs, and `smith` generates random statements. `campaign` sends them
to a `server` through a `client` and watches. It needs only Python and the program: `python -m
statements --help`.
"""
