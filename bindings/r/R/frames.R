# Data frames that SQL reads as tables: those that were registered, and variables of the caller.

# Packages that stand between the user's code and the database.
between <- c("hypostyle", "DBI", "methods", "base", "dbplyr", "dplyr", "survey", "utils")

is_between <- function(fun) {
  space <- topenv(environment(fun) %||% baseenv())
  isNamespace(space) && getNamespaceName(space) %in% between || identical(space, baseenv())
}

`%||%` <- function(x, y) if (is.null(x)) y else x

# Returns the environment of the function that called the package.
calling_environment <- function() {
  for (i in rev(seq_len(sys.nframe()))) {
    if (!is_between(sys.function(i))) return(sys.frame(i))
  }
  globalenv()
}

# Returns the words of a statement that may be names: those outside of texts and comments.
words_of <- function(sql) {
  sql <- gsub("'(?:[^']|'')*'|--[^\n]*|/\\*(?s:.*?)\\*/", " ", sql, perl = TRUE)
  words <- regmatches(sql, gregexpr("\"(?:[^\"]|\"\")*\"|[\\p{L}_.][\\p{L}\\p{N}_.]*", sql, perl = TRUE))[[1L]]
  is_quoted <- startsWith(words, "\"")
  words[is_quoted] <- gsub("\"\"", "\"", substr(words[is_quoted], 2L, nchar(words[is_quoted]) - 1L), fixed = TRUE)
  unique(words)
}

# Returns what C looks names up in: data frames, then their names, then a place to keep what is made.
frames_for <- function(connection, sql) {
  found <- as.list(connection@state$frames, all.names = TRUE)
  if (connection@state$data_frames) {
    from <- calling_environment()
    for (word in setdiff(words_of(sql), c(names(found), ""))) {
      variable <- get0(word, envir = from, mode = "list")
      if (is.data.frame(variable)) found[[word]] <- variable
    }
  }
  if (length(found) == 0L) return(NULL)
  c(unname(found), list(enc2utf8(names(found)), NULL))
}

#' Give a data frame a name as a table
dbRegisterFrame <- function(conn, name, value) {
  check_text(name, "the name")
  if (!is.data.frame(value)) refuse("only a data frame is registered as a table")
  assign(enc2utf8(name), value, envir = conn@state$frames)
  invisible(TRUE)
}

dbUnregisterFrame <- function(conn, name) {
  check_text(name, "the name")
  name <- enc2utf8(name)
  if (!exists(name, envir = conn@state$frames, inherits = FALSE)) {
    refuse("no data frame is registered as \"", name, "\"")
  }
  rm(list = name, envir = conn@state$frames)
  invisible(TRUE)
}
