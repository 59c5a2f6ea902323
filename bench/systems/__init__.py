"""The systems of MonetDBLite's Table 1 and Figures 5 and 6, each behind the same few calls.

`party` starts a process for each (`worker`), under interpreters of several environments: what a worker
imports is the standard library, pandas, pyarrow and the system itself. `r_libraries` are those of R.
"""
