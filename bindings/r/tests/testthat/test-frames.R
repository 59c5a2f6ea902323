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

test_that("a frame that cannot be read is an error that names it", {
  con <- local_connection()
  frame <- data.frame(a = 1:2)
  frame$b <- list(1, "x")
  frame$c <- list(quote(x), NULL)
  expect_error(dbGetQuery(con, "SELECT * FROM frame"), "frame")
  expect_equal(as.double(dbGetQuery(con, "SELECT 1 AS a")$a), 1)
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
