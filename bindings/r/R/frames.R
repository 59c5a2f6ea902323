# Data frames that SQL reads as tables: those that were registered, and variables of the caller.

# Packages that stand between the user's code and the database. Their own variables are no tables.
between <- c(
  "base", "data.table", "DBI", "dbplyr", "dplyr", "knitr", "lattice", "magrittr", "methods", "parallel", "pool",
  "purrr", "rlang", "stats", "survey", "tidyr", "utils", "withr"
)

# Says whether an environment is of a function of this package. One below its namespace need not be: tests
# of a package run in such.
is_ours <- function(env) {
  ours <- topenv()
  within <- parent.env(env)
  identical(within, ours) || (exists(".local", envir = within, inherits = FALSE) && identical(parent.env(within), ours))
}

is_skipped <- function(env, space) {
  if (identical(space, topenv())) is_ours(env) else identical(space, baseenv()) || getNamespaceName(space) %in% between
}

# Returns the environments in which a statement's names are looked up, the nearest first: the one that
# called DBI, and while it is of a package those that called it. That of local(), with() or a pipe is one
# as that of a function is.
calling_environments <- function() {
  frames <- sys.frames()
  found <- list()
  env <- parent.frame()
  repeat {
    space <- topenv(env)
    is_package <- isNamespace(space) || identical(space, baseenv())
    if (!is_package || !is_skipped(env, space)) found <- c(found, env)
    is_there <- vapply(frames, identical, NA, env)
    if (!is_package || !any(is_there)) break
    # The frame's own caller, not that of the last function that was called.
    env <- do.call(parent.frame, list(), envir = env)
    frames <- frames[seq_len(max(which(is_there)) - 1L)]
  }
  if (length(found) == 0L) list(globalenv()) else found
}

# Returns the words of a statement that may be names: those outside of texts and comments.
words_of <- function(sql) {
  sql <- gsub("'(?:[^']|'')*'|--[^\n]*|/\\*(?s:.*?)\\*/", " ", sql, perl = TRUE)
  words <- regmatches(sql, gregexpr("\"(?:[^\"]|\"\")*\"|[\\p{L}_.][\\p{L}\\p{N}_.]*", sql, perl = TRUE))[[1L]]
  is_quoted <- startsWith(words, "\"")
  words[is_quoted] <- gsub("\"\"", "\"", substr(words[is_quoted], 2L, nchar(words[is_quoted]) - 1L), fixed = TRUE)
  unique(words)
}

# Returns what C looks names up in: names, the data frames that were registered with the first of them,
# where the others are looked for, a place to keep what is made, and one for what went wrong.
frames_for <- function(connection, sql) {
  registered <- as.list(connection@state$frames, all.names = TRUE)
  words <- places <- NULL
  if (connection@state$data_frames) {
    places <- calling_environments()
    words <- setdiff(words_of(sql), c(names(registered), ""))
    is_there <- vapply(words, function(word) any(vapply(places, exists, NA, x = word)), NA)
    words <- words[is_there]
  }
  names <- c(names(registered), words)
  if (length(names) == 0L) return(NULL)
  list(enc2utf8(names), unname(registered), places, NULL, new.env(parent = emptyenv()))
}

# Returns the columns of a frame that the database asks for, or NULL if the name is none of a data
# frame. Variables are read no earlier: to read one may compute it. Called from C.
prepare_found <- function(frames, index) {
  name <- frames[[1L]][[index]]
  tryCatch(
    {
      frame <- find_frame(frames, name, index)
      if (is.null(frame)) NULL else prepare_frame(frame)
    },
    error = function(error) {
      frames[[5L]]$problem <- paste0("the data frame \"", name, "\" cannot be read: ", conditionMessage(error))
      FALSE
    }
  )
}

find_frame <- function(frames, name, index) {
  registered <- frames[[2L]]
  if (index <= length(registered)) return(registered[[index]])
  for (env in frames[[3L]]) {
    variable <- frame_in(name, env)
    if (!is.null(variable)) return(variable)
  }
  NULL
}

# Runs a statement; one that fails for a data frame's sake says what is wrong with it.
with_frames <- function(frames, code) {
  tryCatch(code, hypostyle_error = function(error) {
    problem <- if (is.null(frames)) NULL else frames[[5L]]$problem
    if (is.null(problem)) stop(error) else refuse(problem)
  })
}

# Returns the nearest data frame of a name, as a scope of R sees it. A variable that has no value is none.
frame_in <- function(name, env) {
  while (!identical(env, emptyenv())) {
    if (exists(name, envir = env, inherits = FALSE)) {
      variable <- tryCatch(get(name, envir = env, inherits = FALSE), error = function(error) NULL)
      if (is.data.frame(variable)) return(variable)
    }
    env <- parent.env(env)
  }
  NULL
}

#' Give a data frame a name as a table
dbRegisterFrame <- function(conn, name, value) {
  check_open(conn)
  check_text(name, "the name")
  if (!is.data.frame(value)) refuse("only a data frame is registered as a table")
  if (is_postgres(conn)) refuse("PostgreSQL reads no data frames: write it with dbWriteTable(temporary = TRUE)")
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
