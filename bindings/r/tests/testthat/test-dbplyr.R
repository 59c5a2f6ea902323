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
