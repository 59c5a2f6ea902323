# Columns of R in the forms that src/writing.c reads. Their numbers are those of its enum.

form_logical <- 1L
form_integer <- 2L
form_double <- 3L
form_integer64 <- 4L
form_date <- 5L
form_timestamp <- 6L
form_time <- 7L
form_duration <- 8L
form_text <- 9L
form_factor <- 10L
form_bytes <- 11L
form_list <- 12L
form_null <- 13L

plain_double <- function(x) {
  attributes(x) <- NULL
  if (is.double(x)) x else as.double(x)
}

# A class says nothing of what is in a list, and a thread of the database must not find what R would refuse.
is_bytes <- function(x) is.list(x) && all(vapply(unclass(x), function(one) is.null(one) || is.raw(one), NA))

# Joins the elements of lists. c() takes the method of its first argument, which would take dates and 64-bit
# integers behind NULL, nothing or NA for the numbers that they are made of.
joined_elements <- function(pieces) {
  full <- pieces[lengths(pieces) > 0L]
  classed <- Find(is.object, full)
  if (!is.null(classed)) {
    full <- lapply(full, function(one) {
      if (is.logical(one) && all(is.na(one))) classed[rep(NA_integer_, length(one))] else one
    })
  }
  do.call(c, unname(if (length(full) > 0L) full else pieces))
}

prepare_list <- function(name, x, is_untyped) {
  if (is_bytes(x)) return(list(name, form_bytes, unclass(x)))
  counts <- lengths(x)
  counts[vapply(x, is.null, NA)] <- NA_integer_
  elements <- tryCatch(
    joined_elements(lapply(unclass(x), function(one) if (is.factor(one)) as.character(one) else one)),
    error = function(error) refuse("the lists of the column \"", name, "\": ", conditionMessage(error))
  )
  if (is.null(elements)) elements <- logical()
  if (is.list(elements) && !is_bytes(elements)) {
    refuse("the column \"", name, "\" has lists of lists, which the database is not given from R")
  }
  if (length(elements) != sum(counts, na.rm = TRUE)) {
    refuse("the lists of the column \"", name, "\" do not have elements of one type")
  }
  list(name, form_list, as.integer(counts), prepare_column("item", elements, is_untyped))
}

seconds_of <- function(x) plain_double(`units<-`(x, "secs"))

# Says whether differences of time are times of a day, which TIME is, to the microsecond.
are_of_day <- function(seconds) all(is.na(seconds) | (seconds >= 0 & seconds < 86399.9999995))

# Says whether a column says nothing of its type: R's NA is a logical before it is anything else.
has_no_type <- function(x) {
  if (is.object(x) || !is.null(dim(x))) return(FALSE)
  if (is.logical(x)) all(is.na(x)) else is.list(x) && all(vapply(x, is.null, NA))
}

# Returns list(name, form, vector), and levels or elements as a fourth. What has no type is NULL of any type
# if `is_untyped`, and differences of time are what `is_duration` says, or what their values are.
prepare_column <- function(name, x, is_untyped = FALSE, is_duration = NULL) {
  if (inherits(x, "AsIs")) class(x) <- setdiff(class(x), "AsIs")
  if (is_untyped && has_no_type(x)) return(list(name, form_null, x))
  if (is.factor(x)) {
    return(list(name, form_factor, as.integer(x), enc2utf8(levels(x))))
  }
  if (inherits(x, "integer64")) return(list(name, form_integer64, plain_double(x)))
  if (inherits(x, "Date")) return(list(name, form_date, plain_double(x)))
  if (inherits(x, "POSIXlt")) x <- as.POSIXct(x)
  if (inherits(x, "POSIXct")) return(list(name, form_timestamp, plain_double(x)))
  if (inherits(x, "difftime")) {
    seconds <- seconds_of(x)
    if (is.null(is_duration)) is_duration <- !are_of_day(seconds)
    return(list(name, if (is_duration) form_duration else form_time, seconds))
  }
  if (is.data.frame(x) || is.matrix(x)) {
    refuse("the column \"", name, "\" is a ", class(x)[1L], "; give its columns one by one")
  }
  switch(typeof(x),
    logical = list(name, form_logical, x),
    integer = list(name, form_integer, x),
    double = list(name, form_double, x),
    character = list(name, form_text, enc2utf8(x)),
    list = prepare_list(name, x, is_untyped),
    raw = list(name, form_bytes, list(x)),
    refuse("the column \"", name, "\" is of type ", typeof(x), ", which the database has no type for")
  )
}

# Returns the columns of a data frame for .Call.
prepare_frame <- function(frame, is_untyped = FALSE, durations = NULL) {
  names <- enc2utf8(names(frame))
  columns <- lapply(seq_along(names), function(i) {
    is_duration <- if (is.null(durations)) NULL else names[[i]] %in% durations
    prepare_column(names[[i]], .subset2(frame, i), is_untyped, is_duration)
  })
  rows <- vapply(columns, function(column) length(column[[3L]]), 1L)
  wrong <- which(rows != rows[1L])
  if (length(wrong) > 0L) {
    refuse("the column \"", names[[wrong[1L]]], "\" has ", rows[wrong[1L]], " rows, and others have ", rows[1L])
  }
  columns
}
