# Connections, statements and transactions.

test_that("errors name what is wrong, and have the SQLSTATE", {
  con <- local_connection()
  error <- tryCatch(query(con, "SELECT * FROM nothing"), error = identity)
  expect_s3_class(error, "hypostyle_error_42P01")
  expect_s3_class(error, "hypostyle_error")
  expect_match(conditionMessage(error), "nothing")
  expect_identical(tryCatch(query(con, "SELEKT 1"), hypostyle_error = function(e) e$sqlstate), "42601")
  expect_equal(as.double(query(con, "SELECT 1 AS a")$a), 1)
})

test_that("misuse is an error", {
  expect_error(dbConnect(hypostyle(), NA_character_), "dbname")
  expect_error(dbConnect(hypostyle(), bigint = "float"))
  expect_error(dbConnect(hypostyle(), memory_limit = "much"), "memory_limit")
  expect_error(dbConnect(hypostyle(), user = "ada"), "user")
  expect_error(dbConnect(hypostyle(), tempfile(), readonly = TRUE), "no argument \"readonly\"")
  for (threads in list(-1, 1.5, NA, "two", c(1, 2), 1e10)) expect_error(dbConnect(hypostyle(), threads = threads), "threads")
  for (limit in list(-1, NA, "1.2.3GB", "")) expect_error(dbConnect(hypostyle(), memory_limit = limit), "memory_limit")
  for (limit in list(Inf, 1e30, "0.5GB", "2 GiB")) dbDisconnect(dbConnect(hypostyle(), memory_limit = limit))
  con <- local_connection()
  expect_error(dbSendQuery(con, NA_character_), "NA")
  expect_error(query(con, "SELECT 1", n = 1.5), "n is")
  expect_error(hypostyle:::check_rows(2^31), "2147483647 rows")
  result <- dbSendQuery(con, "SELECT ? AS a")
  expect_error(dbFetch(result), "dbBind")
  expect_error(dbBind(result, list(1, 2)), "parameters")
  dbClearResult(result)
  expect_error(dbFetch(result), "cleared")
  expect_warning(dbClearResult(result), "already")
  dbDisconnect(con)
  expect_warning(dbDisconnect(con), "already")
  expect_error(query(con, "SELECT 1"), "closed")
  expect_error(dbReadTable(con, "t"), "closed")
  saved <- unserialize(serialize(con, NULL))
  expect_false(dbIsValid(saved))
  expect_error(query(saved, "SELECT 1"), "closed")
})

test_that("a database on disk is there again", {
  directory <- tempfile(fileext = ".hypo")
  con <- dbConnect(hypostyle(), directory)
  dbWriteTable(con, "t", data.frame(a = 1:3, b = c("x", NA, "z")))
  dbDisconnect(con)
  con <- dbConnect(hypostyle(), directory, read_only = TRUE)
  expect_identical(dbReadTable(con, "t"), data.frame(a = 1:3, b = c("x", NA, "z")))
  expect_true(dbIsReadOnly(con))
  expect_error(dbExecute(con, "DELETE FROM t"), class = "hypostyle_error")
  dbDisconnect(con)
})

test_that("a connection of a connection sees the same database", {
  con <- local_connection()
  dbWriteTable(con, "t", data.frame(a = 1))
  second <- dbConnect(con)
  expect_identical(dbReadTable(second, "t")$a, 1)
  dbDisconnect(second)
})

test_that("several results are open at the same time", {
  con <- local_connection()
  first <- dbSendQuery(con, "SELECT i FROM range(10) AS r (i) ORDER BY i")
  second <- dbSendQuery(con, "SELECT i + 100 AS i FROM range(10) AS r (i) ORDER BY i")
  expect_equal(as.double(dbFetch(first, 2)$i), c(0, 1))
  expect_equal(as.double(dbFetch(second, 3)$i), c(100, 101, 102))
  expect_equal(as.double(dbFetch(first)$i), 2:9)
  expect_equal(as.double(dbFetch(second)$i), 103:109)
  expect_true(dbHasCompleted(first))
  expect_identical(dbGetRowCount(first), 10)
  expect_identical(nrow(dbFetch(first)), 0L)
  dbClearResult(first)
  dbClearResult(second)
})

test_that("parts of a large result are the rows in order", {
  con <- local_connection()
  result <- dbSendQuery(con, "SELECT i::INTEGER AS i, 'text ' || i AS s FROM range(30000) AS r (i) ORDER BY i")
  first <- dbFetch(result, 100)
  rest <- dbFetch(result)
  dbClearResult(result)
  expect_identical(c(first$i, rest$i), 0:29999)
  expect_identical(c(first$s, rest$s), paste("text", 0:29999))
})

test_that("parameters have many values, and NULL", {
  con <- local_connection()
  dbExecute(con, "CREATE TABLE t (a INTEGER, b VARCHAR, c DOUBLE, d DATE, e BLOB, f TIMESTAMPTZ)")
  n <- dbExecute(con, "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", list(
    c(1L, NA), c("x", NA), c(1.5, NA), as.Date(c("2026-01-05", NA)), list(as.raw(1), NULL),
    as.POSIXct(c("2026-01-05 10:00:00", NA), tz = "UTC")
  ))
  expect_identical(n, 2)
  rows <- dbReadTable(con, "t")
  expect_identical(rows$a, c(1L, NA))
  expect_identical(rows$b, c("x", NA))
  expect_identical(as.double(rows$d), c(20458, NA))
  expect_identical(unclass(rows$e)[1:2], list(as.raw(1), NULL))
  expect_identical(as.double(rows$f), c(1767607200, NA))
  expect_identical(query(con, "SELECT a FROM t WHERE a = $a", list(a = 1L))$a, 1L)
  expect_equal(as.double(query(con, "SELECT ? + 1 AS a", list(c(1, 2, 3)))$a), c(2, 3, 4))
  expect_identical(query(con, "SELECT ?::INTEGER AS a", list(NA))$a, NA_integer_)
  expect_identical(query(con, "SELECT ? AS a", list(c("x", NA, "z")))$a, c("x", NA, "z"))
  expect_identical(query(con, "SELECT ? AS a, ? AS b", list(c(1, NA), c(NA, TRUE))), data.frame(a = c(1, NA), b = c(NA, TRUE)))
  unused <- factor(c("x", NA), levels = c("x", NA), exclude = NULL)
  expect_identical(suppressWarnings(query(con, "SELECT ? AS a", list(unused))$a), c("x", NA))
  expect_warning(dbExecute(con, "INSERT INTO t (b) VALUES (?)", list(factor("f"))), "factors")
  # All values take effect, or none.
  expect_error(dbExecute(con, "INSERT INTO t (a) VALUES (1 / ?::INTEGER)", list(c(1, 0))))
  expect_equal(as.double(query(con, "SELECT count(*) AS n FROM t")$n), 3)
})

test_that("transactions take effect as a whole", {
  con <- local_connection()
  dbWriteTable(con, "t", data.frame(a = 1))
  dbBegin(con)
  dbExecute(con, "INSERT INTO t VALUES (2)")
  dbRollback(con)
  expect_identical(dbReadTable(con, "t")$a, 1)
  try(dbWithTransaction(con, {
    dbExecute(con, "INSERT INTO t VALUES (3)")
    stop("no")
  }), silent = TRUE)
  expect_identical(dbReadTable(con, "t")$a, 1)
  dbWithTransaction(con, dbWriteTable(con, "u", data.frame(a = 4)))
  expect_identical(dbReadTable(con, "u")$a, 4)
  dbBegin(con)
  expect_error(dbWriteTable(con, "v", data.frame(a = as.POSIXct(Inf, origin = "1970-01-01"))))
  dbWriteTable(con, "w", data.frame(a = 5))
  dbCommit(con)
  expect_setequal(dbListTables(con), c("t", "u", "w"))
  expect_error(dbCommit(con), "no transaction")
})

test_that("a table is appended to by name, also in a schema", {
  con <- local_connection()
  dbExecute(con, "CREATE SCHEMA app")
  name <- Id(schema = "app", table = "Two Words.")
  dbCreateTable(con, name, c(a = "INTEGER DEFAULT 7", b = "VARCHAR"))
  expect_identical(dbAppendTable(con, name, data.frame(b = c("x", "y"))), 2)
  expect_identical(dbReadTable(con, name), data.frame(a = c(7L, 7L), b = c("x", "y")))
  expect_true(dbExistsTable(con, name))
  expect_false(dbExistsTable(con, "Two Words."))
  expect_error(dbAppendTable(con, name, data.frame(z = 1)), "z")
  expect_error(dbAppendTable(con, "nowhere", data.frame(z = 1)), "no table or view \"nowhere\";", fixed = TRUE)
  expect_message(dbWriteTable(con, name, data.frame(b = "z"), append = TRUE), NA)
  expect_identical(nrow(dbReadTable(con, name)), 3L)
  dbRemoveTable(con, name)
  expect_false(dbExistsTable(con, name))
})

test_that("a child of fork cannot use its parent's connection, and nothing hangs", {
  skip_on_os("windows")
  directory <- tempfile(fileext = ".hypo")
  for (dbname in c(":memory:", directory)) {
    con <- local_connection(dbname)
    dbWriteTable(con, "t", data.frame(a = as.double(1:20000), s = paste("text", 1:20000)))
    frame <- dbReadTable(con, "t")
    rows <- dbSendQuery(con, "SELECT * FROM t ORDER BY a")
    waiting <- dbSendQuery(con, "SELECT ? AS a")
    state_of <- function(code) tryCatch({ code; "ok" }, hypostyle_error = function(e) e$sqlstate, error = conditionMessage)
    told <- parallel::mclapply(1:2, function(i) {
      refused <- c(
        state_of(query(con, "SELECT 1")), state_of(dbFetch(rows)), state_of(dbBind(waiting, list(1))), state_of(dbBegin(con)),
        state_of(dbWriteTable(con, "u", frame)), state_of(dbListTables(con)), state_of(dbConnect(con)), state_of(dbProgress(con))
      )
      # What was read is there, and a database of its own can be opened.
      own <- state_of({ mine <- dbConnect(hypostyle()); query(mine, "SELECT 1 AS a"); dbDisconnect(mine) })
      read <- sum(frame$a) == sum(1:20000) && frame$s[20000] == "text 20000"
      ended <- c(state_of(dbClearResult(rows)), state_of(dbClearResult(waiting)), state_of(dbDisconnect(con)))
      rm(con, rows, waiting)
      gc()
      list(refused = refused, rest = c(own, read, ended))
    }, mc.cores = 2)
    for (one in told) {
      expect_identical(one$refused, rep("08003", 8))
      expect_identical(one$rest, c("ok", "TRUE", "ok", "ok", "ok"))
    }
    # The parent has all of it still.
    expect_identical(nrow(dbFetch(rows)), 20000L)
    dbBind(waiting, list(7))
    expect_identical(dbFetch(waiting)$a, 7)
    dbClearResult(rows)
    dbClearResult(waiting)
    expect_identical(dbListTables(con), "t")
  }
})

test_that("connections and results print what they are", {
  con <- local_connection()
  expect_output(print(hypostyle()), "^<HypostyleDriver>, library [0-9.]+$")
  expect_output(print(con), "^<HypostyleConnection> :memory:$")
  dbBegin(con)
  expect_output(print(con), "^<HypostyleConnection> :memory:, in a transaction$")
  dbRollback(con)
  result <- dbSendQuery(con, "SELECT i\nFROM range(2000) AS r (i)")
  expect_output(print(result), "^<HypostyleResult>\n  SQL  SELECT i\n       FROM range\\(2000\\) AS r \\(i\\)\n  ROWS 0 fetched, there may be more$")
  dbFetch(result, 1500)
  expect_output(print(result), "ROWS 1,500 fetched, there may be more$")
  dbFetch(result)
  expect_output(print(result), "ROWS 2,000 fetched, complete$")
  dbClearResult(result)
  expect_output(print(result), "Cleared$")
  result <- dbSendStatement(con, "CREATE TABLE t AS SELECT * FROM range(2000) AS r (i)")
  expect_output(print(result), "ROWS 2,000 written$")
  dbClearResult(result)
  result <- dbSendQuery(con, "SELECT ? AS a, ? AS b")
  expect_output(print(result), "Waits for the values of 2 parameters$")
  expect_warning(dbDisconnect(con), "not cleared")
  expect_output(print(result), "connection is closed$")
  expect_output(print(con), "^<HypostyleConnection> :memory:, closed$")
  directory <- tempfile(fileext = ".hypo")
  dbDisconnect(dbConnect(hypostyle(), directory))
  con <- local_connection(directory, read_only = TRUE)
  expect_output(print(con), paste0(basename(directory), ", read-only$"))
})

test_that("schemas are objects, with and without tables", {
  con <- local_connection()
  parts <- function(ids) vapply(ids, function(id) paste(names(id@name), id@name, collapse = " "), "")
  expect_identical(parts(dbListObjects(con)$table), "schema main")
  dbExecute(con, "CREATE SCHEMA app")
  dbExecute(con, "CREATE TABLE app.t (a INTEGER)")
  dbExecute(con, "CREATE TEMPORARY TABLE here (a INTEGER)")
  objects <- dbListObjects(con)
  expect_identical(parts(objects$table), c("table here", "schema app", "schema main"))
  expect_identical(objects$is_prefix, c(FALSE, TRUE, TRUE))
  expect_identical(parts(dbListObjects(con, Id(schema = "app"))$table), "schema app table t")
  expect_error(dbListObjects(con, Id(table = "t")), "schema")
})

test_that("literals are the values that are bound", {
  con <- local_connection()
  points <- as.POSIXct(c(1700000000.3, 0.1, -0.3, 59.9999999, -1e11, 4e11), origin = "1970-01-01", tz = "UTC")
  days <- as.Date(c("0999-01-01", "2024-02-29", "1969-12-31"))
  days <- c(days, as.Date(c(-800000, 4000000, 0.7), origin = "1970-01-01"))
  times <- as.difftime(c(0.1, 59.9999999, 86399.25), units = "secs")
  for (x in list(points, days, times, list(as.raw(0:2)), TRUE, "it's", bit64::as.integer64(2)^62, -5L, 1e-300)) {
    sql <- paste("SELECT", dbQuoteLiteral(con, x), "IS NOT DISTINCT FROM ? AS same")
    for (i in seq_along(x)) expect_true(query(con, sql[i], list(x[i]))$same, info = sql[i])
  }
  expect_identical(as.character(dbQuoteLiteral(con, as.raw(0:2))), "'\\x000102'::BYTEA")
  expect_identical(as.character(dbQuoteLiteral(con, c(points[2], NA))[2]), "NULL")
  for (x in list(list(1), list("a"), data.frame(a = 1), 1i, mean, quote(x))) expect_error(dbQuoteLiteral(con, x), "quoted")
  expect_error(dbQuoteLiteral(con, as.Date(Inf, origin = "1970-01-01")), "no date")
  expect_error(dbQuoteLiteral(con, as.POSIXct(-Inf, origin = "1970-01-01")), "no date")
})

test_that("values that have no type are told by name", {
  con <- local_connection()
  expect_error(dbWriteTable(con, "t", data.frame(a = 1, z = 1i)), "\"z\".*complex")
  expect_error(query(con, "SELECT ? AS a", list(NULL)), "NA binds NULL")
  expect_error(query(con, "SELECT $x AS a", list(x = quote(y))), "parameter \"x\".*symbol")
  expect_error(dbQuoteLiteral(con, as.difftime(-5, units = "secs")), "no time of a day")
  expect_identical(as.character(dbQuoteLiteral(con, c(0, -0, 0.1))), c("0.0e0", "-0.0e0", "0.1e0"))
  expect_identical(dbListTables(con), character())
})

# It takes minutes, and ends in any case.
long_query <- "SELECT count(*) AS n FROM range(100000) AS a (x), range(100000) AS b (y) WHERE (x * y) % 7 = 3"

test_that("an interrupt ends a statement, and the connection stays usable", {
  con <- local_connection()
  begin <- Sys.time()
  expect_identical(interrupted_after(0.5, query(con, long_query)), "interrupted")
  expect_identical(interrupted_after(0.5, dbExecute(con, paste("CREATE TABLE t AS", long_query))), "interrupted")
  result <- dbSendQuery(con, long_query)
  expect_identical(interrupted_after(0.5, dbFetch(result)), "interrupted")
  dbClearResult(result)
  expect_lt(as.double(Sys.time() - begin, units = "secs"), 60)
  expect_false(dbExistsTable(con, "t"))
  expect_equal(as.double(query(con, "SELECT 1 AS a")$a), 1)
})

test_that("an interrupt is no error, and what was begun is undone", {
  con <- local_connection()
  dbWriteTable(con, "t", data.frame(a = 1))
  was_left <- FALSE
  work <- function() {
    on.exit(was_left <<- TRUE)
    dbWithTransaction(con, {
      dbExecute(con, "INSERT INTO t VALUES (2)")
      tryCatch(query(con, long_query), error = function(error) "an error")
    })
  }
  expect_identical(interrupted_after(0.5, work()), "interrupted")
  expect_true(was_left)
  # DBI ends a transaction when an error leaves it, not when an interrupt does.
  if (inherits(try(dbRollback(con), silent = TRUE), "try-error")) succeed()
  expect_identical(dbReadTable(con, "t")$a, 1)
  frame <- data.frame(a = as.double(1:5000000), b = "text")
  ended <- interrupted_after(0.1, dbWriteTable(con, "u", frame))
  expect_identical(dbExistsTable(con, "u"), ended == "ended")
  dbWriteTable(con, "v", data.frame(a = 3))
  expect_identical(dbReadTable(con, "v")$a, 3)
})

test_that("a long statement is waited for, interrupted and given frames as a short one", {
  # The library runs it on a stack that R knows nothing of.
  size <- Cstack_info()[["size"]]
  con <- local_connection(bigint = "integer")
  long <- function(sql) paste0(sql, " /*", strrep("x", 20000), "*/")
  expect_identical(query(con, long("SELECT count(*) AS n FROM range(3000) AS a (x), range(20000) AS b (y) WHERE (x * y) % 7 = 3"))$n > 0L, TRUE)
  expect_identical(interrupted_after(0.5, query(con, long(long_query))), "interrupted")
  expect_identical(interrupted_after(0.5, dbExecute(con, long(paste("CREATE TABLE t AS", long_query)))), "interrupted")
  delayedAssign("slow", { Sys.sleep(0.2); data.frame(a = 1:10) })
  expect_identical(query(con, long("SELECT count(*) AS n FROM slow"))$n, 10L)
  wide <- as.data.frame(as.list(1:3000))
  names(wide) <- paste0("c", 1:3000)
  dbWriteTable(con, "wide", wide)
  expect_identical(query(con, paste("SELECT", paste(names(wide), collapse = ", "), "FROM wide")), wide)
  # R looks at its own stack as before.
  expect_identical(Cstack_info()[["size"]], size)
})

test_that("an interrupted script ends", {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(
    "library(hypostyle)", "con <- dbConnect(hypostyle())",
    "system(paste0('(sleep 0.5; kill -INT ', Sys.getpid(), ')'), wait = FALSE)",
    paste0("tryCatch(dbGetQuery(con, \"", long_query, "\"), error = function(e) cat('an error\\n'))"), "cat('went on\\n')"
  ), script)
  program <- file.path(R.home("bin"), "Rscript")
  output <- suppressWarnings(system2(program, shQuote(script), stdout = TRUE, stderr = TRUE, timeout = 60))
  expect_identical(attr(output, "status"), 1L)
  expect_false(any(grepl("an error|went on", output)))
})

test_that("progress is told", {
  con <- local_connection()
  query(con, "SELECT 1")
  expect_named(dbProgress(con), c("rows_done", "rows_total", "seconds"))
})
