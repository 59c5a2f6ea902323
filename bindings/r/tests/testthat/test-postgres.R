# A database of PostgreSQL. HYPOSTYLE_POSTGRES is its address, and HYPOSTYLE_POSTGRES_COLUMNS that of one with
# our extension (scripts/with_postgres.sh).

test_that("addresses are shown without their passwords", {
  shown <- function(text) hypostyle:::without_password(text)
  expect_identical(shown("postgresql://ada:secret@host/db?a=b"), "postgresql://ada@host/db?a=b")
  expect_identical(shown("postgresql:///db?user=ada&password=secret&a=b"), "postgresql:///db?user=ada&password=...&a=b")
  expect_identical(shown("hypostyle+unix://ada:secret@/socket"), "hypostyle+unix://ada@/socket")
  expect_identical(shown("a:b@c.hypo"), "a:b@c.hypo")
  expect_identical(shown("HYPOSTYLE://ada:s3cr@t@host/?tls=on"), "HYPOSTYLE://ada@host/?tls=on")
  expect_identical(shown("postgresql://ada:s3cr/t@host/db?sslpassword=s3cr"), "postgresql://ada@host/db?sslpassword=...")
  expect_identical(shown("hypostyle+unix:///run/a:b@c"), "hypostyle+unix:///run/a:b@c")
})

test_that("errors about addresses show no passwords", {
  malformed <- c(
    "hypostyle://ada:*@h/", "hypostyle://*@h/", "hypostyle://ada:1?*@h/", "hypostyle://ada:1/*@h/", "hypostyle://h/*",
    "hypostyle://h/?password=*&streams=99", "hypostyle://h/?password=a&s3cr", "hypostyle:ada:*@h/",
    "hypostyle+unix://ada:*@/run/socket", "postgresql://ada:*@h/db", "postgresql://h/db?password=*",
    "postgresql://ada:s3cr?x=1@h/db", "mysql://ada:*@h/db"
  )
  for (text in malformed) {
    error <- expect_error(dbConnect(hypostyle(), sub("*", "s3cr:t%@/#?x", text, fixed = TRUE)))
    for (part in c("s3cr", "t%", "#?")) expect_false(grepl(part, conditionMessage(error), fixed = TRUE), info = text)
  }
})

# Runs a test by each way in which results come.
for_each_transfer <- function(what, test) {
  plain <- Sys.getenv("HYPOSTYLE_POSTGRES")
  columns <- Sys.getenv("HYPOSTYLE_POSTGRES_COLUMNS")
  for (transfer in c("auto", "copy", "rows", "columns")) {
    test_that(paste0(what, ": ", transfer), {
      address <- if (transfer == "columns") columns else plain
      skip_if(address == "", "there is no such PostgreSQL: run the tests by scripts/with_postgres.sh")
      con <- local_connection(paste0(address, "&transfer=", transfer, "&options=-csearch_path%3Dshop"))
      dbExecute(con, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS shop, sales CASCADE")
      dbExecute(con, "CREATE SCHEMA shop; CREATE SCHEMA sales")
      test(con)
    })
  }
}

sample_frame <- function() {
  frame <- data.frame(
    i = c(1L, NA, 3L), x = c(0.5, NA, NaN), s = c("a", NA, "\u00e9"), b = c(TRUE, NA, FALSE),
    d = as.Date("2024-02-29") + 0:2, t = as.POSIXct("2024-01-01 12:00:00", tz = "UTC") + c(0, NA, 0.5)
  )
  frame$l <- bit64::as.integer64(c("9007199254740993", NA, "1"))
  frame$r <- blob::blob(as.raw(0:2), NULL, as.raw(255))
  frame$h <- hms::hms(c(1, NA, 3))
  frame
}

for_each_transfer("data frames are written and read", function(con) {
  frame <- sample_frame()
  expect_true(dbWriteTable(con, "w", frame))
  expect_equal(dbReadTable(con, "w"), frame)
  expect_error(dbWriteTable(con, "w", frame), "exists already")
  dbWriteTable(con, "w", frame, append = TRUE)
  expect_identical(dbGetQuery(con, "SELECT count(*)::int AS n FROM w")$n, 6L)
  dbWriteTable(con, "w", frame, overwrite = TRUE)
  expect_identical(dbAppendTable(con, "w", frame), 3)
  dbWriteTable(con, Id(schema = "sales", table = "w"), frame["i"], field.types = c(i = "bigint"))
  expect_identical(dbReadTable(con, Id(schema = "sales", table = "w"))$i, bit64::as.integer64(frame$i))
  dbWriteTable(con, "brief", frame, temporary = TRUE)
  expect_true("brief" %in% dbListTables(con))
  dbRemoveTable(con, "brief", temporary = TRUE)
  expect_false(dbExistsTable(con, "brief"))
  dbCreateTable(con, "made", frame)
  expect_identical(dbListFields(con, "made"), names(frame))
  expect_error(dbWriteTable(con, "made", data.frame(nosuch = 1), append = TRUE), class = "hypostyle_error_42703")
  expect_identical(nrow(dbReadTable(con, "made")), 0L)
})

for_each_transfer("tables are listed", function(con) {
  dbExecute(con, "CREATE TABLE t (a int); CREATE TABLE sales.o (k int); CREATE VIEW v AS SELECT 1 AS one")
  expect_setequal(dbListTables(con), c("t", "v"))
  expect_identical(
    c(dbExistsTable(con, "t"), dbExistsTable(con, "o"), dbExistsTable(con, Id(schema = "sales", table = "o"))),
    c(TRUE, FALSE, TRUE)
  )
  schemas <- vapply(Filter(function(id) "schema" %in% names(id@name), dbListObjects(con)$table), function(id) id@name[["schema"]], "")
  expect_true(all(c("sales", "shop") %in% schemas) && !any(startsWith(schemas, "pg_")))
  expect_identical(dbListObjects(con, Id(schema = "sales"))$table[[1L]]@name[["table"]], "o")
  info <- dbGetInfo(con)
  expect_identical(info$db.version, dbGetQuery(con, "SHOW server_version")[[1L]])
})

for_each_transfer("values are bound", function(con) {
  bound <- dbGetQuery(
    con, "SELECT ?::int + 1 AS i, ?::text AS s, ?::date AS d, ?::timestamptz AS t, ?::bytea AS r, ?::bool AS b, ?::bigint AS l",
    list(1L, "\u00e9", as.Date("2024-01-01"), as.POSIXct("2024-01-01", tz = "UTC"), blob::blob(as.raw(1:3)), TRUE, bit64::as.integer64(5))
  )
  expect_identical(bound$i, 2L)
  expect_identical(bound$s, "\u00e9")
  expect_equal(bound$d, as.Date("2024-01-01"))
  expect_equal(bound$t, as.POSIXct("2024-01-01", tz = "UTC"))
  expect_identical(bound$r[[1L]], as.raw(1:3))
  expect_identical(bound$b, TRUE)
  expect_identical(bound$l, bit64::as.integer64(5))
  expect_identical(unlist(query(con, "SELECT ?::int AS a, ?::text AS b", list(NA_integer_, NA_character_))), c(a = NA_character_, b = NA_character_))
  uuid <- "6ccd780c-baba-1026-9564-5b8c656024db"
  expect_identical(query(con, "SELECT ?::uuid AS u", list(uuid))$u, uuid)
  expect_error(query(con, "SELECT ?::int", list("x")), class = "hypostyle_error_22P02")
  result <- dbSendQuery(con, "SELECT ?::int * 2 AS a")
  dbBind(result, list(1:3))
  expect_identical(dbFetch(result)$a, c(2L, 4L, 6L))
  dbClearResult(result)
  dbExecute(con, "CREATE TABLE t (a int PRIMARY KEY)")
  expect_identical(dbExecute(con, "INSERT INTO t VALUES (?)", list(1:1000)), 1000)
  expect_error(dbExecute(con, "INSERT INTO t VALUES (?)", list(c(2000L, 1L))), class = "hypostyle_error_23505")
  expect_identical(query(con, "SELECT max(a) AS a FROM t")$a, 1000L)
})

for_each_transfer("values have their meaning", function(con) {
  dbExecute(con, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (x int, y text)")
  values <- query(con, paste(
    "SELECT 12.345::numeric(12,3) AS n, 0.1::numeric AS u, timestamptz '2024-01-01 00:00+02' AS z,",
    "'6ccd780c-baba-1026-9564-5b8c656024db'::uuid AS i, '{\"a\":1}'::jsonb AS j, '{1,NULL}'::int[] AS a, 'ok'::mood AS e,",
    "'\\x00ff'::bytea AS b, interval '1 month 2 days 3.5 s' AS v, 'NaN'::float8 AS f, '(1,z)'::pair AS p, '10.0.0.1'::inet AS q"
  ))
  expect_identical(values$n, 12.345)
  expect_identical(values$u, 0.1)
  expect_equal(values$z, as.POSIXct("2023-12-31 22:00:00", tz = "UTC"))
  expect_identical(values$i, "6ccd780c-baba-1026-9564-5b8c656024db")
  expect_identical(values$j, "{\"a\": 1}")
  expect_identical(values$a[[1L]], c(1L, NA))
  expect_identical(values$e, "ok")
  expect_identical(values$b[[1L]], as.raw(c(0, 255)))
  expect_identical(values$v, "1 mon 2 days 00:00:03.5")
  expect_true(is.nan(values$f))
  expect_identical(values$p[[1L]], list(x = 1L, y = "z"))
  expect_identical(values$q, "10.0.0.1")
  expect_error(query(con, "SELECT timestamptz 'infinity'"), class = "hypostyle_error_22008")
  expect_identical(query(con, "SELECT avg(i) AS a, sum(i::bigint) AS b FROM generate_series(1, 4) AS s (i)"), data.frame(a = 2.5, b = 10))
  literals <- list(1L, 1.5, NaN, -Inf, "it's \\ x", TRUE, as.Date("2024-01-01"), as.POSIXct("2024-01-01", tz = "UTC"), blob::blob(as.raw(1)))
  shown <- query(con, paste("SELECT", paste(vapply(literals, function(one) as.character(dbQuoteLiteral(con, one)), ""), "AS", paste0("c", seq_along(literals)), collapse = ", ")))
  for (place in seq_along(literals)) expect_equal(shown[[place]], literals[[place]], ignore_attr = TRUE)
})

for_each_transfer("transactions are the server's", function(con) {
  dbExecute(con, "CREATE TABLE t (a int)")
  dbBegin(con)
  dbExecute(con, "INSERT INTO t VALUES (1)")
  expect_error(dbBegin(con), "open already")
  dbRollback(con)
  expect_error(dbWithTransaction(con, {
    dbExecute(con, "INSERT INTO t VALUES (2)")
    stop("no more")
  }), "no more")
  dbWithTransaction(con, dbExecute(con, "INSERT INTO t VALUES (3)"))
  expect_identical(query(con, "SELECT a FROM t")$a, 3L)
  dbBegin(con)
  expect_error(query(con, "SELECT 1 / 0"), class = "hypostyle_error_22012")
  expect_error(query(con, "SELECT 1"), class = "hypostyle_error_25P02")
  # The server rolls back, which is no success.
  expect_error(dbCommit(con), class = "hypostyle_error_25P02")
  expect_identical(query(con, "SELECT 1 AS a")$a, 1L)
})

for_each_transfer("a statement is interrupted, and the connection stays", function(con) {
  expect_identical(interrupted_after(0.5, query(con, "SELECT pg_sleep(60)")), "interrupted")
  expect_identical(query(con, "SELECT 1 AS a")$a, 1L)
  result <- dbSendQuery(con, "SELECT i FROM generate_series(1, 100000) AS s (i)")
  expect_identical(nrow(dbFetch(result, n = 10)), 10L)
  expect_identical(query(con, "SELECT 2 AS a")$a, 2L)
  expect_identical(nrow(dbFetch(result)), 99990L)
  dbClearResult(result)
})

for_each_transfer("NA alone is appended to any column, and differences of time beyond a day are intervals", function(con) {
  dbExecute(con, "CREATE TABLE nothing (a INTEGER, d DATE, s TEXT, t TIME, i INTERVAL, l DOUBLE PRECISION[], n NUMERIC)")
  frame <- data.frame(a = NA, d = NA, s = NA, t = NA, i = NA, l = NA, n = NA)
  expect_identical(dbAppendTable(con, "nothing", frame), 1)
  frame$l <- list(NULL)
  expect_identical(dbAppendTable(con, "nothing", frame), 1)
  expect_identical(dbExecute(con, "INSERT INTO nothing (d, l) VALUES (?, ?)", list(c(NA, NA), c(NA, NA))), 2)
  expect_true(all(is.na(query(con, "SELECT a, d, s, t, i, n FROM nothing"))))
  times <- data.frame(a = as.difftime(c(0, 36, NA, -1), units = "hours"), b = as.difftime(1:4, units = "mins"))
  expect_identical(unname(dbDataType(con, times)), c("INTERVAL", "TIME"))
  dbWriteTable(con, "times", times)
  # Those of a day are intervals where the column is one.
  dbAppendTable(con, "times", data.frame(a = as.difftime(5, units = "secs")))
  read <- dbReadTable(con, "times")
  expect_identical(read$a, c("00:00:00", "36:00:00", NA, "-01:00:00", "00:00:05"))
  expect_identical(as.double(read$b, units = "secs"), c(60, 120, 180, 240, NA))
  expect_error(dbAppendTable(con, "times", data.frame(b = as.difftime(-1, units = "secs"))), class = "hypostyle_error")
  expect_identical(query(con, "SELECT ? AS a", list(c("x", NA)))$a, c("x", NA))
  at <- as.POSIXct(1700000000.3, origin = "1970-01-01", tz = "UTC")
  expect_true(query(con, paste("SELECT", dbQuoteLiteral(con, at), "= ? AS same"), list(at))$same)
})

for_each_transfer("data frames of the program are no tables", function(con) {
  frame <- data.frame(a = 1)
  expect_error(query(con, "SELECT * FROM frame"), class = "hypostyle_error_42P01")
  expect_error(dbRegisterFrame(con, "frame", frame), "PostgreSQL")
  expect_error(dbConnect(hypostyle(), Sys.getenv("HYPOSTYLE_POSTGRES"), read_only = TRUE), class = "hypostyle_error_0A000")
})

for_each_transfer("dplyr's verbs are those in memory", function(con) {
  skip_if_not_installed("dbplyr")
  skip_if_not_installed("dplyr")
  `%>%` <- dplyr::`%>%`
  cars <- data.frame(model = rownames(mtcars), mtcars, row.names = NULL)
  remote <- dplyr::copy_to(con, cars, "cars")
  same <- function(verbs, order = "model") {
    sorted <- function(frame) {
      frame <- as.data.frame(dplyr::collect(frame))
      frame <- frame[do.call(base::order, unname(frame[order])), , drop = FALSE]
      rownames(frame) <- NULL
      frame
    }
    expect_equal(sorted(verbs(remote)), sorted(verbs(cars)), ignore_attr = TRUE)
  }
  same(function(x) x %>% dplyr::filter(mpg > 20, cyl %in% c(4, 6)) %>% dplyr::select(model, mpg))
  same(function(x) x %>% dplyr::mutate(
    ratio = mpg / cyl, half = as.integer(gear) / 2L, part = as.integer(gear) %/% 2L, rest = as.integer(gear) %% 3L, near = round(mpg), big = dplyr::if_else(hp > 100, "yes", "no"),
    name = paste0(model, "!"), long = nchar(model), is_merc = grepl("Merc", model), whole = as.integer(wt), text = as.character(as.integer(cyl))
  ))
  same(function(x) x %>% dplyr::group_by(cyl) %>% dplyr::summarise(
    n = as.integer(dplyr::n()), mean = mean(mpg, na.rm = TRUE), sd = sd(mpg, na.rm = TRUE), most = max(hp, na.rm = TRUE), middle = median(mpg, na.rm = TRUE)
  ), "cyl")
  same(function(x) x %>% dplyr::group_by(cyl) %>% dplyr::mutate(rank = as.integer(dplyr::min_rank(mpg)), before = dplyr::lag(mpg, order_by = model)) %>% dplyr::ungroup())
  same(function(x) x %>% dplyr::inner_join(x %>% dplyr::distinct(cyl) %>% dplyr::mutate(twice = cyl * 2), by = "cyl"))
  same(function(x) x %>% dplyr::arrange(dplyr::desc(mpg)) %>% head(3L))
  kept <- remote %>% dplyr::filter(cyl == 4) %>% dplyr::compute()
  expect_identical(nrow(dplyr::collect(kept)), 11L)
  expect_output(dplyr::explain(kept), "Scan")
  dbWriteTable(con, "target", data.frame(k = 1:2, v = c("a", "b")))
  dbExecute(con, "ALTER TABLE target ADD PRIMARY KEY (k)")
  target <- dplyr::tbl(con, "target")
  dplyr::rows_upsert(target, dplyr::copy_to(con, data.frame(k = 2:3, v = c("B", "c")), "news"), by = "k", in_place = TRUE)
  expect_identical(query(con, "SELECT v FROM target ORDER BY k")$v, c("a", "B", "c"))
})
