"""Random statements here, in DuckDB and in PostgreSQL: one question over the same rows has one answer.

`grammar` makes statements as trees of `nodes`, about random `tables`; `peers` answer them; `campaign`
compares the answers, reduces what differs, and looks in `differences.toml` for its reason. By hand:
`python -m compared --help`.
"""
