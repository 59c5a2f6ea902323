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
  vapply(unclass(x), function(one) {
    if (is.null(one)) "NULL" else paste0("'\\x", paste(format(one), collapse = ""), "'::BYTEA")
  }, "")
}

time_literal <- function(x, type, format) {
  texts <- format(x, format, tz = "UTC")
  paste0("'", texts, if (type == "TIMESTAMPTZ") "+00", "'::", type)
}

literal_of <- function(conn, x) {
  if (is.factor(x)) x <- as.character(x)
  if (inherits(x, "POSIXlt")) x <- as.POSIXct(x)
  if (is.character(x)) return(as.character(dbQuoteString(conn, x)))
  if (is.list(x)) return(bytes_literal(x))
  written <- if (inherits(x, "integer64")) {
    paste0(as.character(x), "::BIGINT")
  } else if (inherits(x, "Date")) {
    time_literal(x, "DATE", "%Y-%m-%d")
  } else if (inherits(x, "POSIXct")) {
    time_literal(x, "TIMESTAMPTZ", "%Y-%m-%d %H:%M:%OS6")
  } else if (inherits(x, "difftime")) {
    seconds <- as.double(x, units = "secs")
    is_beyond <- !is.na(seconds) & (seconds < 0 | seconds >= 86400)
    if (any(is_beyond)) refuse(format(x[is_beyond][1L]), " is no time of a day, which TIME is")
    sprintf("'%02d:%02d:%09.6f'::TIME", seconds %/% 3600, seconds %/% 60 %% 60, seconds %% 60)
  } else if (is.logical(x)) {
    ifelse(x, "TRUE", "FALSE")
  } else if (is.integer(x)) {
    as.character(x)
  } else {
    number_literal(x)
  }
  written[is.na(x) & !(is.double(x) & is.nan(unclass(x)) & !is.object(x))] <- "NULL"
  written
}

setMethod("dbQuoteLiteral", "HypostyleConnection", function(conn, x, ...) {
  if (inherits(x, "SQL")) return(x)
  if (length(x) == 0L) return(SQL(character()))
  SQL(unname(literal_of(conn, x)), names = names(x))
})
