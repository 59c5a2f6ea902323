# The verbs of dplyr, compared with those over RSQLite and with data in memory.

flights <- function() {
  set.seed(41)
  n <- 500
  data.frame(
    id = seq_len(n), carrier = sample(c("AA", "BB", "CC", NA), n, TRUE), delay = round(rnorm(n, 5, 20), 2),
    seats = sample(50:300, n, TRUE), far = sample(c(0L, 1L), n, TRUE)
  )
}

carriers <- function() data.frame(carrier = c("AA", "BB", "DD"), name = c("Alpha", "Beta", "Delta"))

sorted <- function(frame) {
  frame <- as.data.frame(frame)
  frame[] <- lapply(frame, function(x) if (is.numeric(x) || inherits(x, "integer64")) as.double(x) else x)
  frame <- frame[do.call(order, unname(as.list(frame))), , drop = FALSE]
  rownames(frame) <- NULL
  frame
}

compare <- function(verb, info) {
  ours <- dbConnect(hypostyle())
  theirs <- dbConnect(RSQLite::SQLite())
  on.exit({
    dbDisconnect(ours)
    dbDisconnect(theirs)
  })
  got <- lapply(list(ours, theirs), function(con) {
    dbWriteTable(con, "flights", flights())
    dbWriteTable(con, "carriers", carriers())
    sorted(dplyr::collect(verb(dplyr::tbl(con, "flights"), dplyr::tbl(con, "carriers"))))
  })
  expect_equal(got[[1]], got[[2]], info = info)
}

test_that("verbs give what they give over SQLite", {
  skip_if_not_installed("dbplyr")
  skip_if_not_installed("RSQLite")
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  verbs <- list(
    filter = function(f, c) filter(f, delay > 10, carrier != "BB" | is.na(carrier)),
    select = function(f, c) select(f, id, late = delay),
    rename = function(f, c) rename(f, places = seats),
    mutate = function(f, c) mutate(f, half = seats / 2, rest = seats %% 7L, big = if_else(seats > 100L, "big", "small")),
    negative_rest = function(f, c) mutate(f, rest = id %% 7L, whole = as.integer(delay)),
    transmute = function(f, c) transmute(f, id, x = abs(delay), r = round(delay)),
    arrange_head = function(f, c) arrange(f, desc(delay), id) %>% head(7),
    distinct = function(f, c) distinct(f, carrier, far),
    count = function(f, c) count(f, carrier, sort = TRUE),
    tally = function(f, c) group_by(f, far) %>% tally(seats),
    summarise = function(f, c) group_by(f, carrier) %>% summarise(n = n(), m = mean(delay, na.rm = TRUE), lo = min(seats, na.rm = TRUE), hi = max(seats, na.rm = TRUE), s = sum(seats, na.rm = TRUE), k = n_distinct(far), .groups = "drop"),
    having = function(f, c) group_by(f, carrier) %>% summarise(n = n(), .groups = "drop") %>% filter(n > 100),
    inner_join = function(f, c) inner_join(f, c, by = "carrier"),
    left_join = function(f, c) left_join(f, c, by = "carrier"),
    semi_join = function(f, c) semi_join(f, c, by = "carrier"),
    anti_join = function(f, c) anti_join(f, c, by = "carrier"),
    na_matches = function(f, c) left_join(f, distinct(f, carrier, far), by = c("carrier", "far"), na_matches = "na"),
    union = function(f, c) dplyr::union(select(f, carrier), select(c, carrier)),
    union_all = function(f, c) dplyr::union_all(select(f, carrier), select(c, carrier)),
    intersect = function(f, c) dplyr::intersect(select(f, carrier), select(c, carrier)),
    setdiff = function(f, c) dplyr::setdiff(select(f, carrier), select(c, carrier)),
    window = function(f, c) group_by(f, carrier) %>% mutate(r = min_rank(id), l = lag(delay, order_by = id), t = row_number(id)) %>% ungroup(),
    cumulate = function(f, c) group_by(f, carrier) %>% dbplyr::window_order(id) %>% mutate(run = cumsum(seats)) %>% ungroup(),
    slice_min = function(f, c) group_by(f, carrier) %>% slice_min(id, n = 2) %>% ungroup(),
    case_when = function(f, c) mutate(f, size = case_when(seats < 100L ~ "s", seats < 200L ~ "m", TRUE ~ "l")),
    coalesce = function(f, c) mutate(f, carrier = coalesce(carrier, "none")),
    texts = function(f, c) mutate(f, low = tolower(carrier), two = paste0(carrier, "x"), first = substr(carrier, 1L, 1L), n = nchar(carrier)) %>% filter(!is.na(carrier)),
    inside = function(f, c) filter(f, carrier %in% c("AA", "CC")),
    pivot = function(f, c) group_by(f, far) %>% summarise(aa = sum(if_else(carrier == "AA", 1L, 0L), na.rm = TRUE), .groups = "drop")
  )
  for (name in names(verbs)) compare(verbs[[name]], name)
})

test_that("functions give what they give in memory", {
  skip_if_not_installed("dbplyr")
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  con <- local_connection(bigint = "numeric")
  data <- flights()
  data$day <- as.Date("2024-01-31") + data$id
  dbWriteTable(con, "flights", data)
  change <- function(f) {
    mutate(f,
      q = seats %/% 7L, p = id %% 3L, l2 = log2(seats), l10 = log10(seats), ln = log(seats), s = sqrt(seats),
      e = grepl("^A", carrier), g = gsub("A", "b", carrier), u = toupper(carrier), lo = pmin(seats, id, na.rm = TRUE)
    ) %>% filter(!is.na(carrier)) %>% arrange(id)
  }
  expect_equal(as.data.frame(collect(change(tbl(con, "flights")))), change(data), tolerance = 1e-12, ignore_attr = TRUE)
  counted <- function(f) group_by(f, far) %>% summarise(one = n_distinct(carrier, na.rm = TRUE), two = n_distinct(carrier, seats), .groups = "drop") %>% arrange(far)
  expect_equal(as.data.frame(collect(counted(tbl(con, "flights")))), as.data.frame(counted(data)))
  groups <- function(f) {
    group_by(f, far) %>%
      summarise(m = median(delay, na.rm = TRUE), v = var(delay, na.rm = TRUE), d = sd(delay, na.rm = TRUE), .groups = "drop") %>%
      arrange(far)
  }
  expect_equal(as.data.frame(collect(groups(tbl(con, "flights")))), as.data.frame(groups(data)), tolerance = 1e-12)
  times <- tbl(con, "flights") %>%
    mutate(y = year(day), m = month(day), d = day(day)) %>%
    arrange(id) %>%
    collect()
  expect_equal(times$y, as.integer(format(data$day, "%Y")))
  expect_equal(times$m, as.integer(format(data$day, "%m")))
  expect_equal(times$d, as.integer(format(data$day, "%d")))
})

test_that("functions of texts and times give what they give in memory", {
  skip_if_not_installed("dbplyr")
  skip_if_not_installed("lubridate")
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  con <- local_connection(bigint = "numeric")
  data <- data.frame(
    id = 1:4, s = c("a.b+c", "Ab 12 c3", NA, "'x{y}"), b = c(TRUE, FALSE, NA, TRUE),
    day = as.Date(c("2023-12-31", "2024-02-29", NA, "2024-10-01")),
    at = as.POSIXct(c("2023-12-31 23:59:59.25", "2024-02-29 12:00:00", NA, "2024-10-01 00:07:30.5"), tz = "UTC")
  )
  dbWriteTable(con, "data", data)
  value <- function(code) {
    code <- rlang::enquo(code)
    pull(collect(mutate(arrange(tbl(con, "data"), id), z = !!code)), z)
  }
  expect_identical(value(xor(b, id > 1L)), xor(data$b, data$id > 1L))
  expect_identical(value(near(id, 2)), near(data$id, 2))
  expect_identical(value(startsWith(s, "a")), startsWith(data$s, "a"))
  expect_identical(value(endsWith(s, "c")), endsWith(data$s, "c"))
  expect_identical(value(substring(s, 2)), substring(data$s, 2))
  expect_identical(value(substring(s, 0, 3)), substring(data$s, 0, 3))
  expect_identical(value(substring(s, id, id + 1L)), substring(data$s, data$id, data$id + 1L))
  # What the package stringr has.
  expect_identical(value(str_detect(s, fixed("b+"))), c(TRUE, FALSE, NA, FALSE))
  expect_identical(value(str_detect(s, regex("^AB", ignore_case = TRUE))), c(FALSE, TRUE, NA, FALSE))
  expect_identical(value(str_starts(s, "[aA]")), c(TRUE, TRUE, NA, FALSE))
  expect_identical(value(str_ends(s, "[0-9}]", negate = TRUE)), c(TRUE, FALSE, NA, FALSE))
  expect_identical(value(str_count(s, "[0-9]")), c(0L, 3L, NA, 0L))
  expect_identical(value(str_extract(s, "b.([0-9])")), c(NA, "b 1", NA, NA))
  expect_identical(value(str_pad(s, 6, "right", "*")), c("a.b+c*", "Ab 12 c3", NA, "'x{y}*"))
  expect_identical(value(str_dup(s, 2)), c("a.b+ca.b+c", "Ab 12 c3Ab 12 c3", NA, "'x{y}'x{y}"))
  expect_identical(value(str_c(s, id, sep = "-")), c("a.b+c-1", "Ab 12 c3-2", NA, "'x{y}-4"))
  # Braces in a text are no places of the translation.
  expect_identical(value(str_replace(s, fixed("x{y}"), "{string}")), c("a.b+c", "Ab 12 c3", NA, "'{string}"))
  expect_identical(value(gsub("[{]y", "{pattern}", s)), c("a.b+c", "Ab 12 c3", NA, "'x{pattern}}"))
  for (name in c("second", "semester", "qday", "am", "pm")) {
    fun <- getExportedValue("lubridate", name)
    expect_equal(value((!!as.name(name))(at)), fun(data$at), info = name)
  }
  expect_identical(value(format(at, "%H:%M:%S")), format(data$at, "%H:%M:%S"))
  expect_identical(value(format(id)), as.character(data$id))
  for (unit in c("15 minutes", "6 hours", "week", "day", "30 seconds")) {
    expect_equal(as.double(value(floor_date(at, !!unit))), as.double(lubridate::floor_date(data$at, unit)), info = unit)
  }
  expect_equal(as.double(value(floor_date(at, "week", week_start = 1))), as.double(lubridate::floor_date(data$at, "week", week_start = 1)))
  expect_error(value(floor_date(at, "7 minutes")), "7 minutes")
  expect_identical(format(value(day %m+% months(4))), c("2024-04-30", "2024-06-29", NA, "2025-02-01"))
  expect_identical(format(value(day - days(id))), c("2023-12-30", "2024-02-27", NA, "2024-09-27"))
  at <- data$at[4]
  expect_identical(value(at == !!at), c(FALSE, FALSE, NA, TRUE))
  expect_identical(value(at > as.POSIXct("2024-02-29 12:00:00", tz = "UTC")), c(FALSE, FALSE, NA, TRUE))
  expect_identical(value(day == as.Date("29/02/2024", format = "%d/%m/%Y")), c(FALSE, TRUE, NA, FALSE))
})

test_that("functions of rows before and behind give what they give in memory", {
  skip_if_not_installed("dbplyr")
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  con <- local_connection(bigint = "numeric")
  data <- flights()[1:50, ]
  dbWriteTable(con, "data", data)
  data$delay[c(3, 9, 20)] <- NA
  dbWriteTable(con, "data", data, overwrite = TRUE)
  change <- function(f) {
    mutate(f,
      a = nth(seats, 2L), b = cumall(id < 20L), c = cumany(seats > 280L), d = first(id), e = last(id),
      f = min_rank(desc(delay)), g = dense_rank(desc(seats)), h = percent_rank(desc(delay)), i = row_number(desc(id)), j = min_rank(delay)
    )
  }
  ours <- dbplyr::window_order(group_by(tbl(con, "data"), far), id) %>% change() %>% collect() %>% arrange(id)
  memory <- change(group_by(data, far)) %>% arrange(id)
  expect_equal(as.data.frame(ours), as.data.frame(memory))
})

test_that("NA is the last of an order", {
  skip_if_not_installed("dbplyr")
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  con <- local_connection()
  data <- data.frame(id = 1:6, g = c("a", "a", "a", "b", "b", "b"), x = c(1.5, NA, 3, NA, 4, 4))
  dbWriteTable(con, "data", data)
  remote <- tbl(con, "data")
  same <- function(f) expect_identical(as.data.frame(collect(f(remote)))$id, as.data.frame(f(data))$id)
  same(function(f) arrange(f, desc(x), id))
  same(function(f) arrange(f, x, id))
  same(function(f) arrange(f, desc(g), desc(x), desc(id)))
  same(function(f) slice_max(f, x, n = 1) %>% arrange(id))
  same(function(f) group_by(f, g) %>% slice_max(x, n = 2, with_ties = FALSE) %>% ungroup() %>% arrange(id))
  same(function(f) slice_min(f, x, n = 2) %>% arrange(id))
  same(function(f) group_by(f, g) %>% filter(min_rank(desc(x)) == 1L) %>% ungroup() %>% arrange(id))
})

test_that("rows are given inline", {
  skip_if_not_installed("dbplyr")
  skip_if_not(exists("copy_inline", asNamespace("dbplyr")))
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  con <- local_connection()
  rows <- data.frame(
    a = c(1L, NA), b = c("x'y", NA), c = as.Date(c("2024-01-01", NA)), d = c(TRUE, NA), e = c(1.5, NaN)
  )
  expect_identical(as.data.frame(collect(dbplyr::copy_inline(con, rows))), rows)
  expect_identical(as.data.frame(collect(dbplyr::copy_inline(con, rows[0, ]))), rows[0, ])
})

test_that("tables are copied, computed and explained", {
  skip_if_not_installed("dbplyr")
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  con <- local_connection()
  copied <- copy_to(con, flights(), "copied")
  expect_equal(pull(tally(copied), n) %>% as.double(), 500)
  computed <- compute(filter(copied, id <= 5L))
  expect_equal(nrow(collect(computed)), 5)
  expect_output(explain(filter(copied, id == 3L)), "id")
  expect_output(print(copied), "Hypostyle")
})

test_that("rows are inserted, changed and deleted", {
  skip_if_not_installed("dbplyr")
  suppressPackageStartupMessages(library(dplyr, warn.conflicts = FALSE))
  con <- local_connection()
  dbWriteTable(con, "t", data.frame(k = 1:3, v = c("a", "b", "c")))
  t <- tbl(con, "t")
  new <- copy_to(con, data.frame(k = 3:4, v = c("C", "D")), "fresh")
  rows_upsert(t, new, by = "k", in_place = TRUE)
  expect_identical(query(con, "SELECT * FROM t ORDER BY k"), data.frame(k = 1:4, v = c("a", "b", "C", "D")))
  rows_delete(t, copy_to(con, data.frame(k = 1L), "gone"), by = "k", in_place = TRUE, unmatched = "ignore")
  rows_insert(t, copy_to(con, data.frame(k = 9L, v = "i"), "more"), by = "k", in_place = TRUE, conflict = "ignore")
  expect_identical(query(con, "SELECT k FROM t ORDER BY k")$k, c(2L, 3L, 4L, 9L))
})
