# The library's errors, as conditions. Called from C.

raise <- function(message, sqlstate, detail, status, position) {
  if (position > 0) {
    message <- paste0(message, " (at character ", format(position, scientific = FALSE), ")")
  }
  text <- if (is.null(detail)) message else paste0(message, "\n", detail)
  condition <- structure(
    list(
      message = text, call = NULL, sqlstate = sqlstate, status = status,
      position = if (position > 0) position else NA_real_
    ),
    class = c(paste0("hypostyle_error_", sqlstate), "hypostyle_error", "error", "condition")
  )
  stop(condition)
}

# The user has interrupted a statement: handlers of interrupts are called, and R goes back to where
# an interrupt leads to. It is no error.
interrupted <- function() {
  condition <- structure(
    list(message = "the statement was interrupted", call = NULL),
    class = c("interrupt", "condition")
  )
  signalCondition(condition)
  invokeRestart("abort")
}

refuse <- function(...) stop(paste0(...), call. = FALSE)

is_text <- function(x) is.character(x) && length(x) == 1L && !is.na(x)

check_text <- function(x, what) {
  if (!is_text(x)) refuse(what, " is one text that is not NA")
  invisible(x)
}

check_flag <- function(x, what) {
  if (!is.logical(x) || length(x) != 1L || is.na(x)) refuse(what, " is TRUE or FALSE")
  invisible(x)
}
