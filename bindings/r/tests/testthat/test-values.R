# Values of every type, as ordinary vectors and as lazy ones.

both <- function(code) {
  code <- substitute(code)
  env <- parent.frame()
  for (lazy_rows in c(0, Inf)) {
    before <- options(hypostyle.lazy_rows = lazy_rows)
    eval(code, env)
    options(before)
  }
}

test_that("numbers keep their values and NULL is NA", {
  con <- local_connection()
  dbExecute(con, paste(
    "CREATE TABLE t (b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INTEGER, i8 BIGINT, u1 UTINYINT,",
    "u2 USMALLINT, u4 UINTEGER, u8 UBIGINT, f4 FLOAT, f8 DOUBLE, d DECIMAL(9,2), e DECIMAL(38,3), g DECIMAL(18,4))"
  ))
  dbExecute(con, "INSERT INTO t VALUES (true, -128, -32768, -2147483647, -9007199254740993, 255, 65535, 4294967295, 18446744073709551615, 0.5, 0.1, 1234567.89, 12345678901234567890.125, -0.0001)")
  dbExecute(con, "INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
  dbExecute(con, "INSERT INTO t VALUES (false, 127, 32767, 2147483647, 5, 0, 0, 0, 0, -1.5, -1e300, -0.01, -0.001, 7)")
  for (sql in c("SELECT * FROM t", "SELECT * FROM (SELECT * FROM t ORDER BY f8 DESC LIMIT 5) AS s ORDER BY f8")) {
    both({
      rows <- query(con, sql)
      if (sql != "SELECT * FROM t") rows <- rows[c(2, 3, 1), ]
      expect_identical(rows$b, c(TRUE, NA, FALSE))
      expect_identical(rows$i1, c(-128L, NA, 127L))
      expect_identical(rows$i2, c(-32768L, NA, 32767L))
      expect_identical(rows$i4, c(-2147483647L, NA, 2147483647L))
      expect_identical(as.character(rows$i8), c("-9007199254740993", NA, "5"))
      expect_s3_class(rows$i8, "integer64")
      expect_identical(rows$u1, c(255L, NA, 0L))
      expect_identical(rows$u2, c(65535L, NA, 0L))
      expect_identical(rows$u4, c(4294967295, NA, 0))
      expect_identical(rows$u8, c(18446744073709551616, NA, 0))
      expect_identical(rows$f4, c(0.5, NA, -1.5))
      expect_identical(rows$f8, c(0.1, NA, -1e300))
      expect_identical(rows$d, c(1234567.89, NA, -0.01))
      expect_equal(rows$e, c(12345678901234567890.125, NA, -0.001), tolerance = 1e-15)
      expect_identical(rows$g, c(-0.0001, NA, 7))
    })
  }
})

test_that("dates, times and texts keep their values", {
  con <- local_connection()
  dbExecute(con, paste(
    "CREATE TABLE t (d DATE, t TIME, s TIMESTAMP, z TIMESTAMPTZ, v VARCHAR, j JSON, u UUID, i INTERVAL, b BLOB)"
  ))
  dbExecute(con, paste(
    "INSERT INTO t VALUES ('2026-01-05', '12:34:56.5', '2026-01-05 09:30:00.25', '1969-12-31 23:59:59+00', 'naïve \U00010348',",
    "'{\"a\": 1}', '00112233-4455-6677-8899-aabbccddeeff', INTERVAL '1 year 2 months 3 days 04:05:06.5', '\\x00ff'),",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), ('0001-01-01', '00:00', '1970-01-01', '2262-01-01', '', 'null', NULL, INTERVAL '-1 second', '')"
  ))
  both({
    rows <- query(con, "SELECT * FROM t")
    expect_s3_class(rows$d, "Date")
    expect_identical(format(rows$d[1:2]), c("2026-01-05", NA))
    expect_identical(as.double(rows$d), c(20458, NA, -719162))
    expect_identical(as.double(rows$t, units = "secs"), c(45296.5, NA, 0))
    expect_s3_class(rows$s, "POSIXct")
    expect_identical(attr(rows$s, "tzone"), "UTC")
    expect_identical(as.double(rows$s), c(1767605400.25, NA, 0))
    expect_identical(as.double(rows$z)[1:2], c(-1, NA))
    expect_identical(rows$v, c("naïve \U00010348", NA, ""))
    expect_identical(rows$u, c("00112233-4455-6677-8899-aabbccddeeff", NA, NA))
    expect_identical(rows$i, c("1 year 2 mons 3 days 04:05:06.5", NA, "-00:00:01"))
    expect_identical(unclass(rows$b)[1:3], list(as.raw(c(0, 255)), NULL, raw()))
  })
})

test_that("time zones are shown as the connection says", {
  con <- local_connection(timezone_out = "Asia/Tokyo")
  at <- query(con, "SELECT TIMESTAMPTZ '2026-01-05 00:00:00+00' AS at")$at
  expect_identical(attr(at, "tzone"), "Asia/Tokyo")
  expect_identical(format(at, "%H"), "09")
})

test_that("the least INTEGER is no NA", {
  con <- local_connection()
  dbExecute(con, "CREATE TABLE t AS SELECT k, a::INTEGER AS a FROM (VALUES (1, -2147483648), (2, 5), (3, NULL)) AS v (k, a)")
  dbExecute(con, "CREATE TABLE u AS SELECT (i - 2147483648)::INTEGER AS a FROM range(20000) AS r (i)")
  both({
    expect_identical(query(con, "SELECT a FROM t")$a, c(-2147483648, 5, NA))
    expect_identical(query(con, "SELECT a FROM t ORDER BY k")$a, c(-2147483648, 5, NA))
    expect_identical(query(con, "SELECT a FROM t WHERE k = 2")$a, 5L)
    expect_false(anyNA(query(con, "SELECT a FROM u")$a))
    expect_false(anyNA(query(con, "SELECT a + 0 AS a FROM u")$a))
  })
})

test_that("the least INTEGER is no NA within lists and structures", {
  con <- local_connection()
  rows <- query(con, "SELECT [(-2147483648)::INTEGER, NULL, 5::INTEGER] AS l, {'a': (-2147483648)::INTEGER, 'b': 5::INTEGER} AS s, [NULL, 5::INTEGER] AS m")
  expect_identical(rows$l[[1]], c(-2147483648, NA, 5))
  expect_identical(rows$s[[1]], list(a = -2147483648, b = 5L))
  expect_identical(rows$m[[1]], c(NA, 5L))
})

test_that("the least BIGINT is no NA", {
  con <- local_connection()
  dbExecute(con, "CREATE TABLE t AS SELECT * FROM (VALUES (1, -9223372036854775808), (2, 5), (3, NULL)) AS v (k, a)")
  both({
    expect_warning(a <- query(con, "SELECT a::BIGINT AS a FROM t ORDER BY k")$a, "NA of integer64")
    expect_identical(a, c(-9223372036854775808, 5, NA))
  })
})

test_that("64-bit integers become what the connection says", {
  big <- "SELECT * FROM (VALUES (1, 9007199254740993), (2, NULL)) AS t (k, a) ORDER BY k"
  small <- "SELECT * FROM (VALUES (1::BIGINT, 7::BIGINT), (2::BIGINT, NULL)) AS t (k, a) ORDER BY k"
  both({
    con <- dbConnect(hypostyle(), bigint = "numeric")
    expect_identical(query(con, small)$a, c(7, NA))
    dbDisconnect(con)
    con <- dbConnect(hypostyle(), bigint = "integer")
    expect_identical(query(con, small)$a, c(7L, NA))
    expect_warning(a <- query(con, big)$a, "beyond those of R")
    expect_identical(a, c(9007199254740992, NA))
    dbDisconnect(con)
    con <- dbConnect(hypostyle(), bigint = "character")
    expect_identical(query(con, big)$a, c("9007199254740993", NA))
    dbDisconnect(con)
  })
})

test_that("NaN stays NaN and NA becomes NULL, in both directions", {
  con <- local_connection()
  values <- c(NaN, NA, 1, Inf, -Inf)
  dbWriteTable(con, "t", data.frame(a = values))
  expect_equal(as.double(query(con, "SELECT count(*) AS n FROM t WHERE a IS NULL")$n), 1)
  both({
    for (sql in c("SELECT * FROM t", "SELECT a * 1 AS a FROM t")) {
      read <- query(con, sql)$a
      expect_identical(is.nan(read), is.nan(values))
      expect_identical(is.na(read), is.na(values))
      expect_identical(read[3:5], values[3:5])
    }
  })
  many <- rep(values, 40000)
  dbWriteTable(con, "u", data.frame(a = many))
  read <- dbReadTable(con, "u")$a
  expect_identical(is.nan(read), is.nan(many))
  expect_identical(is.na(read), is.na(many))
})

test_that("texts in other encodings become UTF-8", {
  con <- local_connection()
  latin1 <- "na\xefve"
  Encoding(latin1) <- "latin1"
  dbWriteTable(con, "t", data.frame(a = c(latin1, "naïve"), f = factor(c(latin1, NA))))
  both({
    read <- dbReadTable(con, "t")
    expect_identical(read$a, c("naïve", "naïve"))
    expect_identical(Encoding(read$a), c("UTF-8", "UTF-8"))
    expect_identical(read$f, c("naïve", NA))
  })
  expect_identical(query(con, "SELECT ? AS a", list(latin1))$a, "naïve")
  bytes <- "\xff\xfe"
  Encoding(bytes) <- "bytes"
  expect_error(dbWriteTable(con, "u", data.frame(a = bytes)))
  expect_false(dbExistsTable(con, "u"))
})

test_that("a text with a NUL byte is an error when it is read", {
  con <- local_connection()
  dbExecute(con, "CREATE TABLE t AS SELECT chr(0) || 'a' AS a")
  both(expect_error(nchar(query(con, "SELECT a FROM t")$a)[1], "nul"))
})

test_that("factors with NA and unused levels are written as texts", {
  con <- local_connection()
  f <- factor(c("b", NA, "a"), levels = c("a", "b", "c", NA), exclude = NULL)
  dbWriteTable(con, "t", data.frame(f = f))
  both(expect_identical(dbReadTable(con, "t")$f, c("b", NA, "a")))
  factors <- local_connection(factors = TRUE)
  dbWriteTable(factors, "t", data.frame(f = f))
  expect_s3_class(dbReadTable(factors, "t")$f, "factor")
})

test_that("lists, structures and maps become lists", {
  con <- local_connection()
  rows <- query(con, "SELECT [1, 2, NULL] AS l, {'a': 1, 'b': 'x'} AS s, ['p', NULL] AS t")
  expect_equal(rows$l[[1]], c(1, 2, NA))
  expect_equal(rows$s[[1]], list(a = 1, b = "x"))
  expect_identical(rows$t[[1]], c("p", NA))
  frame <- data.frame(k = 1:3)
  frame$l <- list(c(1.5, NA), numeric(), NULL)
  frame$l <- c(frame$l, rep(list(NULL), 3 - length(frame$l)))
  dbWriteTable(con, "t", frame)
  read <- query(con, "SELECT * FROM t ORDER BY k")
  expect_identical(read$l[[1]], c(1.5, NA))
  expect_length(read$l[[2]], 0)
  expect_null(read$l[[3]])
})

test_that("lists of dates and 64-bit integers keep their class behind NULL, nothing and NA", {
  con <- local_connection()
  day <- as.Date("2026-01-05")
  no_day <- day[NA]
  big <- bit64::as.integer64("9007199254740993")
  frame <- data.frame(k = 1:4)
  frame$d <- list(NULL, day[0], c(day, NA), day)
  frame$i <- list(NULL, big[0], c(big, big), big)
  dbWriteTable(con, "t", frame)
  rows <- query(con, "SELECT d[1] AS d, i[1] AS i FROM t ORDER BY k")
  expect_identical(rows$d, c(no_day, no_day, day, day))
  expect_identical(as.character(rows$i), c(NA, NA, "9007199254740993", "9007199254740993"))
  frame$d <- list(NA, NULL, day, day)
  dbAppendTable(con, "t", frame)
  expect_identical(query(con, "SELECT d[1] AS d FROM t ORDER BY k, d NULLS FIRST")$d, c(rep(no_day, 4), rep(day, 4)))
})

test_that("integers of lists that doubles round are told", {
  con <- local_connection()
  for (value in c("[9007199254740993]", "{'a': -9007199254740993}", "map(['k'], [18446744073709551615::UBIGINT])")) {
    expect_warning(query(con, paste("SELECT", value, "AS l, 1 AS i")), "\"l\".*doubles round")
  }
  expect_warning(rows <- query(con, "SELECT [9007199254740992, NULL, -5] AS l"), NA)
  expect_identical(rows$l[[1]], c(9007199254740992, NA, -5))
})

test_that("a list with the class of bytes is what is in it", {
  con <- local_connection()
  frame <- data.frame(k = 1:2)
  frame$b <- structure(list("x", "y"), class = "blob")
  dbWriteTable(con, "t", frame)
  expect_identical(query(con, "SELECT b[1] AS b FROM t ORDER BY k")$b, c("x", "y"))
})

test_that("NA alone and NULL alone are appended to any column", {
  con <- local_connection()
  types <- c(
    "BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "VARCHAR", "DATE", "TIMESTAMPTZ", "TIME", "DURATION",
    "INTERVAL", "BLOB", "UUID", "JSON", "DOUBLE[]", "INTEGER[2]"
  )
  names(types) <- paste0("c", seq_along(types))
  dbCreateTable(con, "t", types)
  frame <- as.data.frame(as.list(rep(NA, length(types))), col.names = names(types))
  expect_identical(dbAppendTable(con, "t", frame[c(1, 1), ]), 2)
  for (i in seq_along(types)) frame[[i]] <- list(NULL)
  expect_identical(dbAppendTable(con, "t", frame), 1)
  # An empty list has no type, either.
  frame <- data.frame(c1 = TRUE)
  frame$c15 <- list(NULL)
  expect_identical(dbAppendTable(con, "t", frame), 1)
  expect_identical(dbExecute(con, "INSERT INTO t (c7, c10) VALUES (?, ?)", list(c(NA, NA), c(NA, NA))), 2)
  counted <- query(con, paste("SELECT", paste0("count(", names(types), ")::INTEGER AS ", names(types), collapse = ", "), "FROM t"))
  expect_identical(unlist(counted, use.names = FALSE), c(1L, rep(0L, length(types) - 1L)))
})

test_that("differences of time beyond a day are durations", {
  con <- local_connection()
  frame <- data.frame(a = as.difftime(c(0, 36, NA), units = "hours"), b = as.difftime(c(-5, 0, 5), units = "secs"))
  frame$c <- as.difftime(c(0, NA, 86399), units = "secs")
  expect_identical(unname(dbDataType(con, frame)), c("DURATION", "DURATION", "TIME"))
  dbWriteTable(con, "t", frame)
  # Those of a day are durations where the column is one.
  dbAppendTable(con, "t", data.frame(a = as.difftime(1, units = "mins"), c = as.difftime(1, units = "mins")))
  read <- dbReadTable(con, "t")
  expect_identical(as.double(read$a, units = "secs"), c(0, 129600, NA, 60))
  expect_identical(as.double(read$b, units = "secs"), c(-5, 0, 5, NA))
  expect_identical(as.double(read$c, units = "secs"), c(0, NA, 86399, 60))
  expect_identical(class(read$a), "difftime")
  expect_s3_class(read$c, "hms")
  expect_error(dbAppendTable(con, "t", data.frame(c = as.difftime(-1, units = "secs"))), "\"c\"")
  expect_identical(as.double(query(con, "SELECT max(a) AS a FROM frame")$a, units = "secs"), 129600)
  expect_identical(as.double(query(con, "SELECT ? AS a", list(as.difftime(2, units = "days")))$a, units = "secs"), 172800)
})

test_that("only data frames are written, of whatever further class", {
  con <- local_connection()
  dbWriteTable(con, "t", structure(data.frame(a = 1), class = c("special", "data.frame")))
  expect_identical(dbReadTable(con, "t"), data.frame(a = 1))
  for (value in list(NULL, 1, list(a = 1), matrix(1))) expect_error(dbWriteTable(con, "u", value), "data frame")
  expect_false(dbExistsTable(con, "u"))
})

test_that("zero rows, zero columns and many columns work", {
  con <- local_connection()
  dbWriteTable(con, "empty", data.frame(a = integer(), b = character()))
  both({
    rows <- dbReadTable(con, "empty")
    expect_identical(dim(rows), c(0L, 2L))
    expect_identical(rows$a, integer())
    expect_identical(rows$b, character())
  })
  # A query without columns has rows.
  dbWriteTable(con, "three", data.frame(a = 1:3))
  expect_identical(dim(query(con, "SELECT FROM three")), c(3L, 0L))
  expect_identical(dim(query(con, "SELECT FROM three WHERE a > 5")), c(0L, 0L))
  expect_error(dbWriteTable(con, "none", data.frame()), "columns")
  expect_error(dbCreateTable(con, "none", character()), "columns")
  wide <- as.data.frame(as.list(1:10000))
  names(wide) <- paste0("c", seq_along(wide))
  dbWriteTable(con, "wide", wide)
  expect_identical(dbReadTable(con, "wide"), wide)
  expect_identical(dim(query(con, "SELECT * FROM wide LIMIT 0")), c(0L, 10000L))
  expect_identical(query(con, "SELECT c10000 FROM wide")$c10000, 10000L)
})
