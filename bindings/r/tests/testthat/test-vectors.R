# Vectors that lie in the database's memory.

big_table <- function(con, rows = 100000) {
  dbExecute(con, paste0(
    "CREATE TABLE big AS SELECT i::INTEGER AS i, i::BIGINT AS l, i::DOUBLE / 2 AS d, 'text ' || i AS s, ",
    "'v' || (i % 5) AS k, (i / 100.0)::DECIMAL(12,2) AS m, DATE '2000-01-01' + (i % 1000)::INTEGER AS day, i % 2 = 0 AS b ",
    "FROM range(", format(rows, scientific = FALSE), ") AS r (i)"
  ))
}

test_that("columns of a large table are lazy, and small ones are not", {
  con <- local_connection()
  big_table(con)
  at_first <- forged_count()
  frame <- dbReadTable(con, "big")
  # Ordinary vectors lie in a mapping, where R allows it.
  is_forged <- if (forged_count() > at_first) names(frame) %in% c("i", "l", "d") else FALSE
  expect_true(all(vapply(frame, is_lazy, NA) != is_forged))
  expect_false(any(vapply(query(con, "SELECT * FROM big LIMIT 5"), is_lazy, NA)))
  expect_identical(frame$i, 0:99999)
  expect_identical(frame$d, (0:99999) / 2)
  expect_identical(frame$s, paste("text", 0:99999))
  expect_identical(frame$k, paste0("v", 0:99999 %% 5))
  expect_equal(frame$m, (0:99999) / 100)
  expect_identical(as.double(frame$day), 10957 + 0:99999 %% 1000)
  expect_identical(frame$b, 0:99999 %% 2 == 0)
  expect_identical(as.double(bit64::as.integer64(frame$l)), as.double(0:99999))
})

test_that("numbers of a stored table are mapped, with and without a header of R in front", {
  skip_on_os(c("mac", "windows"))
  skip_if(getRversion() >= "4.6.0", "R has no allocators")
  con <- local_connection()
  big_table(con)
  gc()
  at_first <- forged_count()
  frame <- dbReadTable(con, "big")
  expect_identical(forged_count(), at_first + 3L)
  frame$i[7] <- -7L
  expect_identical(frame$i[6:8], c(5L, -7L, 7L))
  rm(frame)
  gc()
  expect_identical(forged_count(), at_first)
  before <- options(hypostyle.forge = FALSE)
  frame <- dbReadTable(con, "big")
  options(before)
  expect_identical(forged_count(), at_first)
  expect_true(is_lazy(frame$i))
  expect_identical(frame$i[6:8], 5:7)
  # More mappings than a process may have are collected.
  dbExecute(con, paste("CREATE TABLE wide AS SELECT", paste0("i + ", 1:300, ".0::DOUBLE AS c", 1:300, collapse = ", "), "FROM range(9000) AS r (i)"))
  for (i in 1:250) frame <- dbReadTable(con, "wide")
  expect_identical(frame$c300[9000], 9299)
})

# Runs lines of R in a process of its own; returns what it prints. `before` are commands of the shell.
run_script <- function(lines, before = "") {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(lines, script)
  command <- paste(before, shQuote(file.path(R.home("bin"), "Rscript")), shQuote(script))
  suppressWarnings(system2("sh", c("-c", shQuote(command)), stdout = TRUE, stderr = TRUE))
}

test_that("an address space that is used up ends no process", {
  skip_on_os(c("mac", "windows"))
  directory <- tempfile(fileext = ".hypo")
  con <- dbConnect(hypostyle(), directory)
  dbExecute(con, "CREATE TABLE t AS SELECT i::DOUBLE AS a, 'text ' || i AS s FROM range(1000000) AS r (i)")
  dbDisconnect(con)
  told <- run_script(c(
    "library(hypostyle)", paste0("con <- dbConnect(hypostyle(), ", deparse(directory), ", memory_limit = '200MB', threads = 1)"),
    "kept <- list()",
    "told <- tryCatch({ for (i in 1:1000) kept[[i]] <- dbReadTable(con, 't'); 'all' }, hypostyle_error = function(e) 'refused')",
    "kept <- NULL", "invisible(gc())",
    "cat(told, format(sum(dbReadTable(con, 't')$a), scientific = FALSE), '\n')"
  ), "ulimit -v 2500000 && exec")
  expect_identical(utils::tail(told, 1L), "refused 499999500000 ")
})

test_that("a killed process loses nothing that was acknowledged", {
  skip_on_os("windows")
  directory <- tempfile(fileext = ".hypo")
  told <- run_script(c(
    "library(hypostyle)", paste0("con <- dbConnect(hypostyle(), ", deparse(directory), ")"),
    "dbWriteTable(con, 't', data.frame(a = 1:100000))", "invisible(dbExecute(con, 'DELETE FROM t WHERE a <= 10'))",
    "frame <- dbReadTable(con, 't')", "frame$a[] <- 0L",
    "dbBegin(con)", "invisible(dbAppendTable(con, 't', data.frame(a = 1:5)))", "cat('written\\n')",
    "tools::pskill(Sys.getpid(), tools::SIGKILL)", "Sys.sleep(60)"
  ))
  expect_true("written" %in% told)
  con <- dbConnect(hypostyle(), directory)
  expect_identical(dbReadTable(con, "t")$a, 11:100000)
  dbDisconnect(con)
})

test_that("writing into a vector never changes the database", {
  directory <- tempfile(fileext = ".hypo")
  for (dbname in c(":memory:", directory)) {
    con <- dbConnect(hypostyle(), dbname)
    big_table(con)
    before <- query(con, "SELECT sum(i) AS i, sum(d) AS d, max(s) AS s, sum(m) AS m FROM big")
    frame <- dbReadTable(con, "big")
    frame$i[1:50000] <- -1L
    frame$d[2] <- NA
    frame$s[3] <- "other"
    frame$m[4] <- 1e6
    frame$l[5] <- bit64::as.integer64(-7)
    frame$b[6] <- NA
    expect_identical(frame$i[50001], 50000L)
    expect_identical(frame$s[3:4], c("other", "text 3"))
    expect_identical(query(con, "SELECT sum(i) AS i, sum(d) AS d, max(s) AS s, sum(m) AS m FROM big"), before)
    again <- dbReadTable(con, "big")
    expect_identical(again$i, 0:99999)
    expect_identical(again$s[3], "text 2")
    dbDisconnect(con)
  }
})

test_that("vectors outlive result, connection, table and garbage collection", {
  directory <- tempfile(fileext = ".hypo")
  con <- dbConnect(hypostyle(), directory)
  big_table(con)
  frame <- dbReadTable(con, "big")
  half <- query(con, "SELECT s, l + 1 AS i FROM big WHERE i < 50000")
  gc()
  dbExecute(con, "DROP TABLE big")
  dbDisconnect(con)
  rm(con)
  gc()
  unlink(directory, recursive = TRUE)
  expect_identical(frame$i, 0:99999)
  expect_identical(frame$s[c(1, 100000)], c("text 0", "text 99999"))
  expect_identical(sum(half$i), sum(bit64::as.integer64(1:50000)))
  expect_identical(half$s[50000], "text 49999")
  rm(frame, half)
  gc()
})

test_that("lazy vectors behave as ordinary ones", {
  local_lazy()
  con <- local_connection()
  big_table(con, 20000)
  options(hypostyle.forge = FALSE)
  lazy <- dbReadTable(con, "big")
  options(hypostyle.lazy_rows = Inf)
  plain <- dbReadTable(con, "big")
  options(hypostyle.lazy_rows = 0, hypostyle.forge = TRUE)
  expect_false(any(vapply(plain, is_lazy, NA)))
  places <- c(20000L, 1L, NA, 30000L, 5L, 5L)
  for (name in names(lazy)) {
    a <- lazy[[name]]
    b <- plain[[name]]
    expect_identical(a[places], b[places], info = name)
    expect_identical(a[as.double(places)], b[as.double(places)], info = name)
    expect_identical(a[-(1:19990)], b[-(1:19990)], info = name)
    expect_identical(utils::head(a, 3), utils::head(b, 3), info = name)
    expect_identical(rev(a), rev(b), info = name)
    expect_identical(anyNA(a), anyNA(b), info = name)
    expect_identical(unserialize(serialize(a, NULL)), b, info = name)
    expect_identical(c(a, a), c(b, b), info = name)
    expect_identical(order(a), order(b), info = name)
    expect_identical(unique(a), unique(b), info = name)
    expect_identical(as.character(a), as.character(b), info = name)
  }
  expect_identical(range(lazy$i), range(plain$i))
  expect_identical(max(lazy$d), max(plain$d))
  expect_identical(sum(lazy$d), sum(plain$d))
  expect_identical(lazy[lazy$i > 19990, ], plain[plain$i > 19990, ])
  expect_identical(aggregate(d ~ k, lazy, mean), aggregate(d ~ k, plain, mean))
  expect_identical(merge(lazy[1:50, ], plain[40:60, ], by = "i")$s.x, plain$s[40:50])
})

test_that("what is known of a column is forgotten when it is written into", {
  before <- options(hypostyle.forge = FALSE)
  on.exit(options(before))
  con <- local_connection()
  dbExecute(con, "CREATE TABLE t AS SELECT i::INTEGER AS i, i::DOUBLE AS d FROM range(100000) AS r (i)")
  frame <- dbReadTable(con, "t")
  i <- frame$i
  d <- frame$d
  rm(frame)
  expect_identical(max(i), 99999L)
  expect_false(anyNA(i))
  i[1] <- 1000000L
  d[1] <- NA
  expect_identical(max(i), 1000000L)
  expect_true(anyNA(d))
})

test_that("NULLs of stored and of computed columns are NA wherever they are", {
  con <- local_connection()
  dbExecute(con, paste(
    "CREATE TABLE t AS SELECT CASE WHEN i % 7 <> 0 THEN i::INTEGER END AS i, CASE WHEN i % 7 <> 0 THEN i::BIGINT END AS l,",
    "CASE WHEN i % 7 <> 0 THEN i::DOUBLE END AS d, CASE WHEN i % 7 <> 0 THEN 'k' || i % 3 END AS k,",
    "CASE WHEN i % 7 <> 0 THEN 'text ' || i END AS s FROM range(150000) AS r (i)"
  ))
  is_null <- (0:149999) %% 7 == 0
  for (sql in c("SELECT * FROM t", "SELECT i + 0 AS i, l + 0 AS l, d + 0 AS d, k || '' AS k, s || '' AS s FROM t")) {
    frame <- query(con, sql)
    for (name in names(frame)) expect_identical(is.na(frame[[name]]), is_null, info = paste(sql, name))
  }
  dbExecute(con, "DELETE FROM t WHERE i % 10 = 3")
  dbExecute(con, "INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL)")
  frame <- dbReadTable(con, "t")
  counted <- query(con, "SELECT count(*) - count(i) AS i, count(*) - count(l) AS l, count(*) - count(d) AS d, count(*) - count(k) AS k, count(*) - count(s) AS s FROM t")
  for (name in names(frame)) expect_equal(sum(is.na(frame[[name]])), as.double(counted[[name]]), info = name)
})

test_that("strings survive garbage collection at every allocation", {
  local_lazy()
  con <- local_connection()
  dbExecute(con, "CREATE TABLE t AS SELECT 'unique text ' || i AS s, 'k' || (i % 3) AS k FROM range(3000) AS r (i)")
  frame <- dbReadTable(con, "t")
  gctorture(TRUE)
  first <- frame$s[1:4]
  elements <- vapply(c(1L, 1025L, 2050L, 3000L), function(i) frame$s[[i]], "")
  key <- frame$k[c(1, 2, 3)]
  gctorture(FALSE)
  expect_identical(first, paste("unique text", 0:3))
  expect_identical(elements, paste("unique text", c(0, 1024, 2049, 2999)))
  expect_identical(key, c("k0", "k1", "k2"))
  gctorture2(20)
  pasted <- paste0(frame$s, frame$k)
  is_equal <- frame$s == paste("unique text", 0:2999)
  gctorture2(0)
  expect_true(all(is_equal))
  expect_identical(pasted[[3000]], "unique text 2999k2")
})

test_that("texts that are written, bound and read survive garbage collection at any allocation", {
  con <- local_connection()
  latin1 <- "na\xefve"
  Encoding(latin1) <- "latin1"
  frame <- data.frame(a = c(latin1, NA, "x"), f = factor(c("p", NA, "q")))
  frame$l <- list("a", NULL, c("b", NA))
  frame$b <- list(as.raw(1:3), NULL, raw())
  # Garbage is collected at each allocation of the package's own C code, and at some of R's.
  tortured <- function(code, step = 1) {
    gctorture2(step)
    on.exit(gctorture2(0))
    code
  }
  columns <- hypostyle:::prepare_frame(frame)
  dbCreateTable(con, "t", frame)
  expect_identical(tortured(.Call(hypostyle:::hs_append, con@pointer, "t", columns, 2L)), 3)
  for (lazy_rows in c(0, Inf)) {
    before <- options(hypostyle.lazy_rows = lazy_rows)
    result <- dbSendQuery(con, "SELECT * FROM t")
    read <- tortured(dbFetch(result), 7)
    dbClearResult(result)
    expect_identical(read$a, c("naïve", NA, "x"))
    expect_identical(read$f, c("p", NA, "q"))
    expect_identical(read$l, frame$l)
    expect_identical(unclass(read$b)[1:3], frame$b)
    options(before)
  }
  expect_identical(tortured(query(con, "SELECT a FROM frame"), 53)$a, c("naïve", NA, "x"))
  expect_identical(tortured(query(con, "SELECT $a AS a", list(a = c(latin1, "u"))), 53)$a, c("naïve", "u"))
  expect_identical(tortured(tryCatch(query(con, "SELECT nothing FROM t"), hypostyle_error = function(e) e$sqlstate), 53), "42703")
})

test_that("data.table takes the columns", {
  skip_if_not_installed("data.table")
  con <- local_connection()
  big_table(con)
  frame <- dbReadTable(con, "big")
  table <- data.table::as.data.table(frame)
  expect_identical(table$i, 0:99999)
  data.table::setDT(frame)
  data.table::set(frame, 1L, "i", -5L)
  expect_identical(frame$i[1:2], c(-5L, 1L))
  expect_identical(dbReadTable(con, "big")$i[1], 0L)
})
