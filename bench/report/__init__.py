"""The report: every table and figure of the papers, from the records of the benches."""
