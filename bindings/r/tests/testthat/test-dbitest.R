# The tests of DBI's specification. What is skipped:
skipped <- c(
  # The package is called as the database is, without an R in front.
  "package_name",
  # Integers that R's have no room for shall overflow silently. They become doubles, with a warning.
  "connect_bigint_integer",
  # Several results of one connection may be open at the same time; the tests are of drivers that
  # have one only.
  "send_query_only_one_result_set",
  "send_statement_only_one_result_set"
)

if (requireNamespace("DBItest", quietly = TRUE) && requireNamespace("blob", quietly = TRUE) &&
  requireNamespace("hms", quietly = TRUE) && requireNamespace("lubridate", quietly = TRUE)) {
  library(DBItest)
  directory <- tempfile(fileext = ".hypo")
  make_context(hypostyle(), list(dbname = directory),
    set_as_default = TRUE, name = "hypostyle",
    tweaks = tweaks(
      placeholder_pattern = c("?", "$1", "$name"),
      date_cast = function(x) paste0("DATE '", x, "'"),
      time_cast = function(x) paste0("TIME '", x, "'"),
      timestamp_cast = function(x) paste0("TIMESTAMP '", x, "'"),
      blob_cast = function(x) paste0("CAST(", x, " AS BLOB)"),
      dbitest_version = "1.7.3"
    )
  )
  suppressWarnings(test_all(skip = skipped))
}
