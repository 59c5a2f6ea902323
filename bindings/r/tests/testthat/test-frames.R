# Data frames as tables.

test_that("a variable of the caller is a table", {
  con <- local_connection()
  frame <- data.frame(a = 1:3, b = c("x", NA, "z"), c = factor(c("u", "v", NA)))
  expect_identical(dbGetQuery(con, "SELECT * FROM frame"), data.frame(a = 1:3, b = c("x", NA, "z"), c = c("u", "v", NA)))
  inner <- function() {
    frame <- data.frame(a = 10L)
    dbGetQuery(con, "SELECT sum(a)::INTEGER AS a FROM frame")$a
  }
  expect_identical(inner(), 10L)
  joined <- dbGetQuery(con, "SELECT f.a, m.mpg FROM frame f JOIN mtcars m ON m.cyl = f.a + 3 ORDER BY m.mpg DESC LIMIT 1")
  expect_identical(joined$mpg, max(mtcars$mpg[mtcars$cyl %in% 4:6]))
})

test_that("frames are found wherever code stands", {
  con <- local_connection()
  sql <- "SELECT sum(a)::DOUBLE AS a FROM inner_frame"
  asked <- function(...) dbGetQuery(con, sql)$a
  expect_error(asked(), class = "hypostyle_error_42P01")
  # local(), also in others and with an environment.
  expect_identical(local({ inner_frame <- data.frame(a = 2); dbGetQuery(con, sql)$a }), 2)
  expect_identical(local({ inner_frame <- data.frame(a = 2); local({ x <- 1; dbGetQuery(con, sql)$a }) }), 2)
  expect_identical(local({ inner_frame <- data.frame(a = 2); local({ inner_frame <- data.frame(a = 3); dbGetQuery(con, sql)$a }) }), 3)
  elsewhere <- new.env()
  elsewhere$inner_frame <- data.frame(a = 4)
  expect_identical(local(dbGetQuery(con, sql)$a, elsewhere), 4)
  expect_identical(eval(quote(dbGetQuery(con, sql)$a), elsewhere), 4)
  expect_identical(evalq(dbGetQuery(con, sql)$a, list(inner_frame = data.frame(a = 5))), 5)
  expect_identical(with(list(inner_frame = data.frame(a = 5)), dbGetQuery(con, sql)$a), 5)
  # Functions, their arguments, and functions within functions.
  by_argument <- function(inner_frame) dbGetQuery(con, sql)$a
  expect_identical(by_argument(data.frame(a = 6)), 6)
  by_default <- function(inner_frame = data.frame(a = 7)) dbGetQuery(con, sql)$a
  expect_identical(by_default(), 7)
  maker <- function() {
    inner_frame <- data.frame(a = 8)
    function() dbGetQuery(con, sql)$a
  }
  closure <- maker()
  expect_identical(closure(), 8)
  nested <- function() {
    inner_frame <- data.frame(a = 9)
    deeper <- function(n) if (n == 0) dbGetQuery(con, sql)$a else deeper(n - 1)
    deeper(3)
  }
  expect_identical(nested(), 9)
  # What the caller of a function has is not the function's own.
  has_frame <- function() {
    inner_frame <- data.frame(a = 10)
    helper <- function(code) code
    helper(dbGetQuery(con, sql)$a)
  }
  expect_identical(has_frame(), 10)
  # Functions that call DBI themselves.
  by_call <- function() {
    inner_frame <- data.frame(a = 11)
    c(
      do.call(dbGetQuery, list(con, sql))$a, do.call("dbGetQuery", list(con, sql))$a,
      vapply(lapply(sql, dbGetQuery, conn = con), function(x) x$a, 0), sapply(1, function(i) dbGetQuery(con, sql)$a),
      suppressWarnings(tryCatch(dbGetQuery(con, sql)$a, error = function(e) 0)),
      Reduce(function(x, y) dbGetQuery(con, sql)$a, 1:2), dbWithTransaction(con, dbGetQuery(con, sql)$a),
      Map(function(sql) dbGetQuery(con, sql)$a, sql)[[1]]
    )
  }
  expect_identical(by_call(), rep(11, 8))
  # Other calls of DBI, and what is bound later.
  inner_frame <- data.frame(a = c(12, 13))
  result <- dbSendQuery(con, paste(sql, "WHERE a > ?"))
  dbBind(result, list(12))
  expect_identical(dbFetch(result)$a, 13)
  dbClearResult(result)
  expect_identical(dbExecute(con, "CREATE TABLE made AS SELECT * FROM inner_frame"), 2)
  expect_identical(dbExecute(con, "INSERT INTO made SELECT * FROM inner_frame"), 2)
  expect_identical(query(con, sql)$a, 25)
  expect_identical(dbGetQuery(con, "SELECT count(*) AS n FROM inner_frame x JOIN inner_frame y ON x.a = y.a")$n, bit64::as.integer64(2))
})

test_that("frames are found through pipes", {
  con <- local_connection()
  piped <- function() {
    inner_frame <- data.frame(a = 1:3)
    con |> dbGetQuery("SELECT count(*)::INTEGER AS n FROM inner_frame") |> getElement("n")
  }
  expect_identical(piped(), 3L)
  skip_if_not_installed("dplyr")
  skip_if_not_installed("dbplyr")
  `%>%` <- dplyr::`%>%`
  by_magrittr <- function() {
    inner_frame <- data.frame(a = 1:4)
    con %>% dbGetQuery("SELECT count(*)::INTEGER AS n FROM inner_frame") %>% getElement("n")
  }
  expect_identical(by_magrittr(), 4L)
  expect_identical(local({
    inner_frame <- data.frame(a = 1:5)
    con %>% dbGetQuery("SELECT count(*)::INTEGER AS n FROM inner_frame") %>% .[["n"]]
  }), 5L)
  by_dplyr <- function() {
    inner_frame <- data.frame(a = 1:6)
    dplyr::tbl(con, "inner_frame") %>% dplyr::filter(a > 2L) %>% dplyr::collect()
  }
  expect_identical(by_dplyr()$a, 3:6)
})

test_that("frames of a script are found at its top, in functions and in local()", {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(
    "library(hypostyle)", "con <- dbConnect(hypostyle(), bigint = 'integer')", "frame <- data.frame(a = 1:3)",
    "count <- function() dbGetQuery(con, 'SELECT count(*) AS n FROM frame')$n",
    "cat(dbGetQuery(con, 'SELECT count(*) AS n FROM frame')$n, count(), local(count()))",
    "cat('', local({ frame <- data.frame(a = 1); c(dbGetQuery(con, 'SELECT count(*) AS n FROM frame')$n, count()) }))",
    "cat('', dbGetQuery(con, 'SELECT count(*) AS n FROM iris')$n, '\n')"
  ), script)
  output <- system2(file.path(R.home("bin"), "Rscript"), shQuote(script), stdout = TRUE, stderr = TRUE)
  expect_identical(output, "3 3 3 1 3 150 ")
})

test_that("data.tables are data frames", {
  skip_if_not_installed("data.table")
  con <- local_connection()
  prices <- data.table::data.table(a = c(2, 3), key = "a")
  expect_identical(dbGetQuery(con, "SELECT sum(a)::DOUBLE AS a FROM prices")$a, 5)
})

test_that("a variable is read only when a table is wanted that has its name", {
  con <- local_connection()
  dbWriteTable(con, "t", data.frame(n = 1, later = 2))
  f <- function(n, later = stop("it was read")) dbGetQuery(con, "SELECT n, later FROM t")
  expect_identical(f(), data.frame(n = 1, later = 2))
  was_read <- FALSE
  delayedAssign("late", { was_read <- TRUE; data.frame(a = 1) })
  dbGetQuery(con, "SELECT n AS late FROM t")
  expect_false(was_read)
  expect_identical(dbGetQuery(con, "SELECT a FROM late")$a, 1)
  # Variables that are no data frames, or have no value, are no tables.
  number <- 5
  expect_error(dbGetQuery(con, "SELECT * FROM number"), class = "hypostyle_error_42P01")
  g <- function(missing_one) dbGetQuery(con, "SELECT * FROM missing_one")
  expect_error(g(), class = "hypostyle_error_42P01")
  # They do not hide a data frame further out, as they do not hide a function.
  frame <- data.frame(a = 3)
  expect_identical(local({ frame <- "text"; dbGetQuery(con, "SELECT a FROM frame")$a }), 3)
})

test_that("a frame's rows outlive the statement", {
  con <- local_connection()
  sent <- local({
    frame <- data.frame(a = as.double(1:1000000), b = paste("text", 1:1000000))
    dbSendQuery(con, "SELECT a, b FROM frame")
  })
  for (i in 1:3) gc()
  rows <- dbFetch(sent)
  dbClearResult(sent)
  expect_identical(rows$a, as.double(1:1000000))
  expect_identical(rows$b[1000000], "text 1000000")
  # What changes later changes no result.
  frame <- data.frame(a = as.double(1:100000))
  sent <- dbSendQuery(con, "SELECT a FROM frame")
  frame$a[] <- 0
  expect_identical(dbFetch(sent)$a, as.double(1:100000))
  dbClearResult(sent)
})

test_that("a table of the database comes first", {
  con <- local_connection()
  dbWriteTable(con, "frame", data.frame(a = 5))
  frame <- data.frame(a = 1:3)
  expect_identical(dbGetQuery(con, "SELECT * FROM frame")$a, 5)
})

test_that("registered frames are found, in any case, and in a transaction", {
  con <- local_connection()
  dbRegisterFrame(con, "Cars", cars)
  expect_equal(as.double(dbGetQuery(con, "SELECT count(*) AS n FROM cars")$n), 50)
  dbBegin(con)
  expect_equal(as.double(dbGetQuery(con, "SELECT count(*) AS n FROM \"Cars\" WHERE speed > ?", list(20))$n), sum(cars$speed > 20))
  dbExecute(con, "CREATE TABLE kept AS SELECT * FROM cars")
  dbCommit(con)
  dbUnregisterFrame(con, "Cars")
  expect_error(dbUnregisterFrame(con, "Cars"), "no data frame")
  expect_identical(dbReadTable(con, "kept"), cars)
})

test_that("a frame that cannot be read is an error that says why", {
  con <- local_connection()
  frame <- data.frame(a = 1:2)
  frame$b <- list(1, "x")
  frame$c <- list(quote(x), NULL)
  printed <- capture.output(type = "message", expect_error(dbGetQuery(con, "SELECT * FROM frame"), "\"frame\".*column \"c\""))
  expect_identical(printed, character())
  expect_equal(as.double(dbGetQuery(con, "SELECT 1 AS a")$a), 1)
  # It is nothing to statements that do not want it.
  expect_equal(as.double(dbGetQuery(con, "SELECT 1 AS frame")$frame), 1)
})

test_that("frames are not looked for when the connection says so", {
  con <- local_connection(data_frames = FALSE)
  frame <- data.frame(a = 1)
  expect_error(dbGetQuery(con, "SELECT * FROM frame"), class = "hypostyle_error_42P01")
})

test_that("words in texts and comments are no names", {
  expect_identical(hypostyle:::words_of("SELECT 'frame' -- cars\n FROM t"), c("SELECT", "FROM", "t"))
  expect_identical(hypostyle:::words_of("SELECT \"a \"\"b\" /* x */ FROM \U00fcber"), c("SELECT", "a \"b", "FROM", "\U00fcber"))
})

test_that("an interrupt while a frame is read is one of the statement", {
  con <- local_connection()
  delayedAssign("slow", { Sys.sleep(20); data.frame(a = 1) })
  expect_identical(interrupted_after(0.5, query(con, "SELECT * FROM slow")), "interrupted")
  expect_equal(as.double(query(con, "SELECT 1 AS a")$a), 1)
})
