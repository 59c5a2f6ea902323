setClass("HypostyleResult",
  contains = "DBIResult",
  slots = c(connection = "HypostyleConnection", state = "environment")
)

check_statement <- function(statement) {
  if (length(statement) != 1L || is.na(statement)) refuse("a statement is one text that is not NA")
  enc2utf8(as.character(statement))
}

send <- function(conn, statement, params, is_query) {
  check_open(conn)
  statement <- check_statement(statement)
  prepared <- .Call(hs_prepare, conn@pointer, statement)
  state <- new.env(parent = emptyenv())
  state$sql <- statement
  state$statement <- prepared[[1L]]
  state$parameters <- prepared[[2L]]
  state$kind <- prepared[[3L]]
  state$is_query <- is_query
  state$is_open <- TRUE
  state$pointer <- NULL
  result <- new("HypostyleResult", connection = conn, state = state)
  conn@state$open_results <- conn@state$open_results + 1L
  is_sent <- FALSE
  on.exit(if (!is_sent) dbClearResult(result))
  if (!is.null(params)) {
    bind(result, params)
  } else if (state$parameters == 0L) {
    run(result, NULL)
  }
  is_sent <- TRUE
  result
}

# Runs a statement with what is bound; `rows` are those that were bound.
run <- function(result, rows) {
  state <- result@state
  conn <- result@connection
  frames <- frames_for(conn, state$sql)
  forget(state)
  state$pointer <- with_frames(frames, .Call(hs_statement_execute, state$statement, frames, rows))
  info <- .Call(hs_result_info, state$pointer)
  names(info) <- c("names", "types", "type_names", "affected")
  state$info <- info
  state$loaded <- NULL
  state$place <- 0
  state$has_ended <- FALSE
  invisible(result)
}

forget <- function(state) {
  if (!is.null(state$pointer)) .Call(hs_result_free, state$pointer)
  state$pointer <- NULL
  state$loaded <- NULL
}

check_result <- function(res) {
  if (!res@state$is_open) refuse("the result is cleared; send the statement again")
  invisible(res)
}

check_run <- function(res) {
  check_result(res)
  if (is.null(res@state$pointer)) refuse("the statement has parameters without values; call dbBind()")
  invisible(res)
}

# ---- Parameters ----

check_params <- function(state, params) {
  if (is.data.frame(params)) params <- as.list(params)
  if (!is.list(params)) params <- as.list(params)
  if (inherits(params, "blob")) params <- list(params)
  if (length(params) != state$parameters) {
    refuse("the statement has ", state$parameters, " parameters, but ", length(params), " values are given")
  }
  names <- names(params)
  if (!is.null(names) && (anyNA(names) || !all(nzchar(names)))) {
    if (!anyNA(names) && !any(nzchar(names))) names <- NULL else refuse("either all parameters have names, or none")
  }
  has_names <- state$parameters > 0L && !has_numbers(state)
  if (has_names && is.null(names)) refuse("the parameters of the statement have names; give values with names")
  if (!has_names && !is.null(names)) refuse("the parameters of the statement have no names; give values without")
  names(params) <- names
  params
}

check_values <- function(params, names) {
  types <- vapply(params, typeof, "")
  for (i in which(!types %in% c("logical", "integer", "double", "character", "list", "raw"))) {
    hint <- if (types[[i]] == "NULL") "; NA binds NULL" else ""
    refuse("the parameter \"", names[[i]], "\" is of type ", types[[i]], ", which the database has no type for", hint)
  }
}

# Says whether parameters are written as ? or $1.
has_numbers <- function(state) grepl_parameter(state$sql, "\\?|\\$[0-9]")

grepl_parameter <- function(sql, pattern) {
  sql <- gsub("'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\\*(?s:.*?)\\*/", " ", sql, perl = TRUE)
  grepl(pattern, sql, perl = TRUE)
}

bind <- function(result, params) {
  check_result(result)
  state <- result@state
  params <- check_params(state, params)
  is_factor <- vapply(params, is.factor, NA)
  if (any(is_factor)) {
    warning("factors are bound as texts", call. = FALSE)
    params[is_factor] <- lapply(params[is_factor], as.character)
  }
  params <- lapply(params, function(value) if (is.raw(value)) list(value) else if (inherits(value, "POSIXlt")) as.POSIXct(value) else value)
  lengths <- lengths(params)
  if (length(unique(lengths)) > 1L) {
    refuse("the values of parameters have different lengths: ", paste(lengths, collapse = ", "))
  }
  has_names <- !is.null(names(params))
  names <- if (has_names) enc2utf8(names(params)) else as.character(seq_along(params))
  check_values(params, names)
  columns <- lapply(seq_along(params), function(i) prepare_column(names[[i]], params[[i]], is_untyped = TRUE))
  if (length(columns) == 0L) {
    run(result, NULL)
  } else if (lengths[[1L]] == 1L && !any(vapply(columns, function(column) column[[2L]], 1L) == form_list)) {
    .Call(hs_bind_values, state$statement, columns, has_names)
    run(result, NULL)
  } else {
    run(result, .Call(hs_bind_rows, state$statement, columns, has_names))
  }
  invisible(result)
}

setMethod("dbBind", "HypostyleResult", function(res, params, ...) {
  check_result(res)
  if (res@state$parameters == 0L) refuse("the statement has no parameters to bind values to")
  bind(res, params)
})

# ---- Rows ----

check_count <- function(n) {
  is_count <- is.numeric(n) && length(n) == 1L && !is.na(n) && (n == Inf || (n >= -1 && n == trunc(n)))
  if (!is_count) refuse("n is a number of rows, or -1 or Inf for all")
  if (n == Inf) -1 else n
}

# Loads the columns of a result, once.
load <- function(res) {
  state <- res@state
  if (!is.null(state$loaded)) return(state$loaded)
  conn <- res@connection
  loaded <- .Call(hs_result_load, state$pointer, state$info$types, match(conn@bigint, bigint_kinds) - 1L)
  names(loaded) <- c("columns", "rows", "types", "hints")
  for (i in which(loaded$hints == 1L)) {
    warning("the column \"", state$info$names[[i]], "\" has integers beyond those of R: it has doubles", call. = FALSE)
  }
  for (i in which(loaded$hints == 2L)) {
    warning(
      "the column \"", state$info$names[[i]], "\" has -9223372036854775808, which is NA of integer64: it has doubles",
      call. = FALSE
    )
  }
  for (i in which(loaded$hints == 3L)) {
    warning("the column \"", state$info$names[[i]], "\" has integers that doubles round; cast them to VARCHAR", call. = FALSE)
  }
  state$loaded <- loaded
  loaded
}

as_frame <- function(vectors, names, rows) {
  names(vectors) <- names
  attr(vectors, "row.names") <- .set_row_names(rows)
  class(vectors) <- "data.frame"
  vectors
}

rows_of <- function(res, offset, count) {
  state <- res@state
  conn <- res@connection
  loaded <- load(res)
  is_integer64 <- conn@bigint == "integer64" & loaded$hints == 0L
  attributes <- lapply(seq_along(loaded$types), function(i) {
    attributes_of(loaded$types[[i]], is_integer64[[i]], conn@timezone_out)
  })
  lazy_rows <- getOption("hypostyle.lazy_rows", 8192)
  vectors <- .Call(hs_result_vectors, state$pointer, loaded$columns, attributes, offset, count, lazy_rows)
  for (i in which(loaded$types == type_null)) vectors[[i]] <- rep(NA, count)
  if (conn@factors) {
    for (i in which(loaded$types == type_varchar)) vectors[[i]] <- factor(vectors[[i]])
  }
  as_frame(vectors, state$info$names, count)
}

# R counts the rows of a data frame in integers.
check_rows <- function(count) {
  most <- .Machine$integer.max
  if (count > most) refuse("a data frame has at most ", most, " rows: fetch some of these ", format(count, scientific = FALSE), " at a time")
}

# The kind of queries in hypostyle.h.
kind_query <- 1L

# A query has rows also if they have no columns.
has_rows <- function(state) length(state$info$names) > 0L || state$kind == kind_query

setMethod("dbFetch", "HypostyleResult", function(res, n = -1, ...) {
  check_run(res)
  n <- check_count(n)
  state <- res@state
  if (!has_rows(state)) {
    if (!state$is_query) warning("the statement has no rows to fetch", call. = FALSE)
    state$has_ended <- TRUE
    return(data.frame())
  }
  loaded <- load(res)
  rest <- loaded$rows - state$place
  count <- if (n < 0) rest else min(n, rest)
  check_rows(count)
  frame <- rows_of(res, state$place, count)
  state$place <- state$place + count
  if (n < 0 || n > rest || state$place == loaded$rows) state$has_ended <- TRUE
  frame
})

# The name that dbFetch() had once.
setMethod("fetch", "HypostyleResult", function(res, n = -1, ...) dbFetch(res, n = n, ...))

setMethod("dbClearResult", "HypostyleResult", function(res, ...) {
  state <- res@state
  if (!state$is_open) {
    warning("the result is cleared already", call. = FALSE)
    return(invisible(TRUE))
  }
  forget(state)
  .Call(hs_statement_free, state$statement)
  state$is_open <- FALSE
  res@connection@state$open_results <- res@connection@state$open_results - 1L
  invisible(TRUE)
})

setMethod("dbIsValid", "HypostyleResult", function(dbObj, ...) {
  dbObj@state$is_open && dbIsValid(dbObj@connection)
})

setMethod("dbHasCompleted", "HypostyleResult", function(res, ...) {
  check_result(res)
  if (is.null(res@state$pointer)) return(FALSE)
  !res@state$is_query || !has_rows(res@state) || res@state$has_ended
})

setMethod("dbGetStatement", "HypostyleResult", function(res, ...) {
  check_result(res)
  res@state$sql
})

setMethod("dbGetRowCount", "HypostyleResult", function(res, ...) {
  check_result(res)
  if (is.null(res@state$pointer)) 0 else res@state$place
})

setMethod("dbGetRowsAffected", "HypostyleResult", function(res, ...) {
  check_result(res)
  if (is.null(res@state$pointer)) return(NA_integer_)
  max(res@state$info$affected, 0)
})

setMethod("dbColumnInfo", "HypostyleResult", function(res, ...) {
  check_run(res)
  info <- res@state$info
  conn <- res@connection
  data.frame(
    name = info$names, type = class_of_type(info$types, conn@bigint, conn@factors),
    .sql_type = info$type_names, stringsAsFactors = FALSE
  )
})

setMethod("dbGetInfo", "HypostyleResult", function(dbObj, ...) {
  check_result(dbObj)
  list(
    statement = dbGetStatement(dbObj), row.count = dbGetRowCount(dbObj),
    rows.affected = dbGetRowsAffected(dbObj), has.completed = dbHasCompleted(dbObj)
  )
})

setMethod("show", "HypostyleResult", function(object) {
  state <- object@state
  cat("<HypostyleResult>\n  SQL  ", gsub("\n", "\n       ", state$sql, fixed = TRUE), "\n", sep = "")
  if (!dbIsValid(object)) {
    cat("  ", if (state$is_open) "The connection is closed" else "Cleared", "\n", sep = "")
  } else if (is.null(state$pointer)) {
    cat("  Waits for the values of ", state$parameters, " parameter", if (state$parameters != 1L) "s", "\n", sep = "")
  } else if (has_rows(state)) {
    cat(
      "  ROWS ", format(state$place, big.mark = ",", scientific = FALSE), " fetched, ",
      if (dbHasCompleted(object)) "complete" else "there may be more", "\n",
      sep = ""
    )
  } else {
    cat("  ROWS ", format(dbGetRowsAffected(object), big.mark = ",", scientific = FALSE), " written\n", sep = "")
  }
  invisible(object)
})
