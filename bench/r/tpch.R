# Table 1: Q1 to Q10 of TPC-H, by SQL, by data.table, by dplyr, and by dplyr over a database.
# `case=load` stores the tables; `case=query` runs each query twice, of which the second run counts.
directory <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
source(file.path(directory, "common.R"))

# What keys point to: peers get indexes of these, ours makes its own when queries wish for them.
tables <- c("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
keys <- list(
  region = "r_regionkey", nation = "n_nationkey", supplier = "s_suppkey", customer = "c_custkey",
  part = "p_partkey", partsupp = "ps_partkey, ps_suppkey", orders = "o_orderkey",
  lineitem = "l_orderkey, l_linenumber"
)
foreign_keys <- c(
  "nation (n_regionkey)", "supplier (s_nationkey)", "customer (c_nationkey)", "partsupp (ps_suppkey)",
  "orders (o_custkey)", "lineitem (l_partkey, l_suppkey)", "lineitem (l_suppkey)"
)

type_of <- function(column) {
  if (inherits(column, "Date")) return("DATE")
  switch(typeof(column), integer = "INTEGER", double = "DECIMAL(15,2)", character = "TEXT")
}

load_tables <- function() {
  attach_driver()
  connection <- connect("tpch")
  for (table in tables) {
    frame <- load_frame(table)
    write_frame(connection, table, frame, vapply(frame, type_of, ""))
    if (system_name != "hypostyle") {
      dbExecute(connection, sprintf("CREATE UNIQUE INDEX %s_key ON %s (%s)", table, table, keys[[table]]))
    }
  }
  if (system_name != "hypostyle") {
    for (i in seq_along(foreign_keys)) dbExecute(connection, sprintf("CREATE INDEX foreign_%d ON %s", i, foreign_keys[[i]]))
    dbExecute(connection, if (system_name == "RPostgreSQL") "VACUUM ANALYZE" else "ANALYZE")
  }
  dbDisconnect(connection)
}

# Returns the functions that answer each query.
queries <- function(way) {
  if (way == "data.table") {
    source(file.path(directory, "tpch_data_table.R"))
    of <- lapply(setNames(tables, tables), function(table) data.table::setDT(load_frame(table)))
    return(lapply(data_table_queries, function(query) function() query(of)))
  }
  if (way == "dplyr") {
    source(file.path(directory, "tpch_dplyr.R"))
    of <- if (system_name == "memory") {
      lapply(setNames(tables, tables), function(table) tibble::as_tibble(load_frame(table)))
    } else {
      connection <- connect("tpch")
      lapply(setNames(tables, tables), function(table) dplyr::tbl(connection, table))
    }
    return(lapply(dplyr_queries, function(query) function() dplyr::collect(query(of))))
  }
  connection <- connect("tpch")
  lapply(setNames(nm = sprintf("q%02d", 1:10)), function(name) {
    sql <- paste(readLines(file.path(argument("queries"), paste0(name, ".sql"))), collapse = "\n")
    function() dbGetQuery(connection, sql)
  })
}

run_queries <- function() {
  attach_driver()
  answers <- queries(argument("way"))
  left <- listed("only")
  for (name in names(answers)) {
    if (!identical(left, " ") && !name %in% left) next
    for (i in seq_len(as.integer(argument("before", "1")))) timed(name, answers[[name]], counted = FALSE)
    answer <- timed(name, answers[[name]])
    if (!is.null(answer)) check(name, as.list(answer))
  }
}

invisible(switch(argument("case"), load = load_tables(), query = run_queries()))
