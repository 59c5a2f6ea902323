"""Fuzzing of SQL: statements that a reader could send, against a server that has to stay well.

`repetition` multiplies constructs, `smith` makes random statements; `campaign` sends them to a `server`
through a `client` and watches. Needs nothing but Python and the program: `python -m statements --help`.
"""
