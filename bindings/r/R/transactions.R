no_transaction <- 0L

is_in_transaction <- function(conn) .Call(hs_transaction_state, conn@pointer) != no_transaction

setMethod("dbBegin", "HypostyleConnection", function(conn, ...) {
  check_open(conn)
  if (is_in_transaction(conn)) refuse("a transaction is open already; end it with dbCommit() or dbRollback()")
  dbExecute(conn, "BEGIN")
  invisible(TRUE)
})

setMethod("dbCommit", "HypostyleConnection", function(conn, ...) {
  check_open(conn)
  if (!is_in_transaction(conn)) refuse("no transaction is open; begin one with dbBegin()")
  .Call(hs_commit, conn@pointer)
  invisible(TRUE)
})

setMethod("dbRollback", "HypostyleConnection", function(conn, ...) {
  check_open(conn)
  if (!is_in_transaction(conn)) refuse("no transaction is open; begin one with dbBegin()")
  .Call(hs_rollback, conn@pointer)
  invisible(TRUE)
})

# Runs code whose statements take effect together, also within a transaction that is open.
together <- function(conn, code) {
  is_nested <- is_in_transaction(conn)
  dbExecute(conn, if (is_nested) "SAVEPOINT hypostyle_r" else "BEGIN")
  is_done <- FALSE
  on.exit(if (!is_done && dbIsValid(conn)) undo(conn, is_nested))
  value <- force(code)
  dbExecute(conn, if (is_nested) "RELEASE SAVEPOINT hypostyle_r" else "COMMIT")
  is_done <- TRUE
  value
}

undo <- function(conn, is_nested) {
  if (!is_nested) {
    if (is_in_transaction(conn)) .Call(hs_rollback, conn@pointer)
    return(invisible(NULL))
  }
  dbExecute(conn, "ROLLBACK TO SAVEPOINT hypostyle_r")
  dbExecute(conn, "RELEASE SAVEPOINT hypostyle_r")
}
