setClass("HypostyleConnection",
  contains = "DBIConnection",
  slots = c(
    pointer = "externalptr", state = "environment", bigint = "character", timezone_out = "character",
    factors = "logical"
  )
)

# Says whether the database is one of PostgreSQL. A connection without a database is one of ours.
is_postgres <- function(conn) is_postgres_address(conn@state$dbname)

is_postgres_address <- function(dbname) !is.null(dbname) && grepl("^postgres(ql)?://", dbname)

check_open <- function(conn) {
  if (!.Call(hs_is_valid, conn@pointer)) {
    refuse("the connection is closed; connect again with dbConnect(hypostyle(), ...)")
  }
  invisible(conn)
}

# Another session with the same database, also one in memory.
setMethod("dbConnect", "HypostyleConnection", function(drv, ...) {
  check_no_others(...)
  check_open(drv)
  shape <- list(
    bigint = drv@bigint, timezone_out = drv@timezone_out, factors = drv@factors,
    data_frames = drv@state$data_frames, read_only = drv@state$read_only
  )
  connection_of(drv@state$database, drv@state$dbname, shape)
})

setMethod("show", "HypostyleConnection", function(object) {
  notes <- c(
    if (!dbIsValid(object)) "closed", if (object@state$read_only) "read-only",
    if (dbIsValid(object) && is_in_transaction(object)) "in a transaction"
  )
  cat("<HypostyleConnection> ", paste(c(object@state$dbname, notes), collapse = ", "), "\n", sep = "")
  invisible(object)
})

setMethod("dbIsValid", "HypostyleConnection", function(dbObj, ...) .Call(hs_is_valid, dbObj@pointer))

setMethod("dbDisconnect", "HypostyleConnection", function(conn, ...) {
  if (!dbIsValid(conn)) {
    warning("the connection is closed already", call. = FALSE)
    return(invisible(TRUE))
  }
  if (conn@state$open_results > 0L) {
    warning("the connection has results that are not cleared; call dbClearResult()", call. = FALSE)
  }
  .Call(hs_disconnect, conn@pointer)
  invisible(TRUE)
})

setMethod("dbGetInfo", "HypostyleConnection", function(dbObj, ...) {
  check_open(dbObj)
  list(
    db.version = if (is_postgres(dbObj)) postgres_version(dbObj) else hypostyle_version(), dbname = dbObj@state$dbname, username = NA_character_,
    host = NA_character_, port = NA_integer_, session = .Call(hs_session_id, dbObj@pointer)
  )
})

# A transaction that has failed tells nothing.
postgres_version <- function(conn) {
  tryCatch(quietly(conn, "SHOW server_version")[[1L]], hypostyle_error = function(error) NA_character_)
}

setMethod("dbIsReadOnly", "HypostyleConnection", function(dbObj, ...) dbObj@state$read_only)

setMethod("dbDataType", "HypostyleConnection", function(dbObj, obj, ...) type_in(dbObj, obj))

setMethod("dbSendQuery", c("HypostyleConnection", "character"), function(conn, statement, params = NULL, ...) {
  send(conn, statement, params, is_query = TRUE)
})

setMethod("dbSendStatement", c("HypostyleConnection", "character"), function(conn, statement, params = NULL, ...) {
  send(conn, statement, params, is_query = FALSE)
})

setMethod(
  "dbGetQuery", c("HypostyleConnection", "character"),
  function(conn, statement, params = NULL, ..., n = -1L) {
    check_count(n)
    result <- send(conn, statement, params, is_query = TRUE)
    on.exit(dbClearResult(result))
    dbFetch(result, n = n)
  }
)

setMethod("dbExecute", c("HypostyleConnection", "character"), function(conn, statement, params = NULL, ...) {
  result <- send(conn, statement, params, is_query = FALSE)
  on.exit(dbClearResult(result))
  dbGetRowsAffected(result)
})

# How far the last statement is: rows done, rows in all, seconds.
dbProgress <- function(conn) {
  told <- .Call(hs_progress, conn@pointer)
  if (is.null(told)) return(NULL)
  list(rows_done = told[1L], rows_total = told[2L], seconds = told[3L])
}
