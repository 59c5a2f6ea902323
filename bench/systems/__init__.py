"""The systems of MonetDBLite's Table 1 and Figures 5 and 6, each behind the same few calls.

They run in processes of their own (worker.py), under interpreters of several environments: what is in
here imports only the standard library, pandas, pyarrow and the system itself.
"""
