"""Random statements here, in DuckDB and in PostgreSQL must have the same answers over the same
rows.

`grammar` generates statements as trees of `nodes`, about random `tables`, and `peers` answer them.
`campaign` compares the answers, reduces each difference, and looks up its reason in
`differences.toml`. By hand: `python -m compared --help`.
"""
