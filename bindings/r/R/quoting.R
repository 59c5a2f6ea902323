quote_names <- function(x) {
  if (anyNA(x)) refuse("NA is no name; it cannot be quoted")
  if (!is.character(x)) refuse("names are texts, not ", class(x)[1L])
  quoted <- paste0("\"", gsub("\"", "\"\"", enc2utf8(x), fixed = TRUE), "\"")
  if (length(x) == 0L) quoted <- character()
  SQL(quoted, names = names(x))
}

setMethod("dbQuoteIdentifier", c("HypostyleConnection", "character"), function(conn, x, ...) quote_names(x))

setMethod("dbQuoteIdentifier", c("HypostyleConnection", "SQL"), function(conn, x, ...) x)

setMethod("dbQuoteIdentifier", c("HypostyleConnection", "Id"), function(conn, x, ...) {
  SQL(paste0(quote_names(unname(x@name)), collapse = "."))
})

# Splits a name as SQL writes it into its parts.
parts_of_name <- function(text) {
  pattern <- "^(?:(\"(?:[^\"]|\"\")*\"|[^\".]+)(?:\\.|$))+$"
  if (is.na(text) || !grepl(pattern, text, perl = TRUE) || endsWith(text, ".")) {
    refuse("\"", text, "\" is not the name of a table as SQL writes it")
  }
  parts <- regmatches(text, gregexpr("\"(?:[^\"]|\"\")*\"|[^\".]+", text, perl = TRUE))[[1L]]
  is_quoted <- startsWith(parts, "\"")
  parts[is_quoted] <- gsub("\"\"", "\"", substr(parts[is_quoted], 2L, nchar(parts[is_quoted]) - 1L), fixed = TRUE)
  parts
}

id_of_parts <- function(parts) {
  levels <- c("catalog", "schema", "table")
  if (length(parts) > 3L) refuse("a table's name has at most three parts, not ", length(parts))
  do.call(Id, as.list(stats::setNames(parts, utils::tail(levels, length(parts)))))
}

setMethod("dbUnquoteIdentifier", c("HypostyleConnection", "SQL"), function(conn, x, ...) {
  stats::setNames(lapply(as.character(x), function(text) id_of_parts(parts_of_name(text))), names(x))
})

setMethod("dbUnquoteIdentifier", c("HypostyleConnection", "Id"), function(conn, x, ...) list(x))

setMethod("dbQuoteString", c("HypostyleConnection", "character"), function(conn, x, ...) {
  quoted <- paste0("'", gsub("'", "''", enc2utf8(x), fixed = TRUE), "'")
  if (length(x) == 0L) quoted <- character()
  quoted[is.na(x)] <- "NULL"
  SQL(quoted, names = names(x))
})

setMethod("dbQuoteString", c("HypostyleConnection", "SQL"), function(conn, x, ...) x)

# The types of constants have the names that PostgreSQL has for them, too.
number_literal <- function(x) {
  written <- vapply(x, function(one) {
    if (is.na(one) && !is.nan(one)) return("NULL")
    if (is.nan(one)) return("'NaN'::DOUBLE PRECISION")
    if (is.infinite(one)) return(paste0("'", if (one < 0) "-", "Infinity'::DOUBLE PRECISION"))
    text <- if (one == 0 && 1 / one < 0) "-0" else format(one, digits = 15L)
    if (as.double(text) != one) text <- format(one, digits = 17L)
    if (grepl("e", text, fixed = TRUE)) text else paste0(text, if (grepl(".", text, fixed = TRUE)) "e0" else ".0e0")
  }, "")
  as.character(written)
}

bytes_literal <- function(x) {
  if (!is_bytes(x)) refuse("a list is quoted if its elements are raw vectors or NULL")
  vapply(unclass(x), function(one) {
    if (is.null(one)) "NULL" else paste0("'\\x", paste(format(one), collapse = ""), "'::BYTEA")
  }, "")
}

# R cuts digits off where it shows seconds: the nearest microsecond is written in two parts, as it is bound.
point_literal <- function(x) {
  seconds <- as.double(x)
  check_days(seconds / 86400)
  whole <- floor(seconds)
  micros <- round((seconds - whole) * 1e6)
  is_next <- !is.na(micros) & micros == 1e6
  whole[is_next] <- whole[is_next] + 1
  micros[is_next] <- 0
  minutes <- format(as.POSIXct(whole, origin = "1970-01-01", tz = "UTC"), "%m-%d %H:%M:%S", tz = "UTC")
  paste0("'", years_of(whole), "-", minutes, sprintf(".%06.0f", micros), "+00", era_of(whole), "'::TIMESTAMPTZ")
}

date_literal <- function(x) {
  days <- floor(as.double(x))
  check_days(days)
  paste0("'", years_of(days * 86400), "-", format(as.Date(days, origin = "1970-01-01"), "%m-%d"), era_of(days * 86400), "'::DATE")
}

check_days <- function(days) {
  is_beyond <- !is.na(days) & abs(days) > 1e8
  if (any(is_beyond)) refuse(format(days[is_beyond][1L]), " days from 1970-01-01 on are no date of the database")
}

year_numbers <- function(seconds) as.POSIXlt(seconds, origin = "1970-01-01", tz = "UTC")$year + 1900

# SQL has no year 0: it is that before the first.
years_of <- function(seconds) {
  years <- year_numbers(seconds)
  sprintf("%04.0f", ifelse(years > 0, years, 1 - years))
}

era_of <- function(seconds) ifelse(year_numbers(seconds) > 0, "", " BC")

literal_of <- function(conn, x) {
  if (is.factor(x)) x <- as.character(x)
  if (inherits(x, "POSIXlt")) x <- as.POSIXct(x)
  if (is.character(x)) return(as.character(dbQuoteString(conn, x)))
  if (is.raw(x)) x <- list(x)
  if (is.list(x)) return(bytes_literal(x))
  written <- if (inherits(x, "integer64")) {
    paste0(as.character(x), "::BIGINT")
  } else if (inherits(x, "Date")) {
    date_literal(x)
  } else if (inherits(x, "POSIXct")) {
    point_literal(x)
  } else if (inherits(x, "difftime")) {
    seconds <- round(as.double(x, units = "secs"), 6)
    is_beyond <- !is.na(seconds) & (seconds < 0 | seconds >= 86400)
    if (any(is_beyond)) refuse(format(x[is_beyond][1L]), " is no time of a day, which TIME is")
    sprintf("'%02d:%02d:%09.6f'::TIME", seconds %/% 3600, seconds %/% 60 %% 60, seconds %% 60)
  } else if (is.logical(x)) {
    ifelse(x, "TRUE", "FALSE")
  } else if (is.integer(x)) {
    as.character(x)
  } else if (is.double(x)) {
    number_literal(x)
  } else {
    refuse("a vector of type ", typeof(x), " cannot be quoted")
  }
  written[is.na(x) & !(is.double(x) & is.nan(unclass(x)) & !is.object(x))] <- "NULL"
  written
}

setMethod("dbQuoteLiteral", "HypostyleConnection", function(conn, x, ...) {
  if (inherits(x, "SQL")) return(x)
  if (is.function(x) || is.language(x)) refuse("a vector of type ", typeof(x), " cannot be quoted")
  if (length(x) == 0L && !is.raw(x)) return(SQL(character()))
  SQL(unname(literal_of(conn, x)), names = names(x))
})
