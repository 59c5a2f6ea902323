# What the programs of this bench share: their arguments, the systems, the clock, what they tell bench/r.py
# and the comparison with the answer in memory.
#
# Each program gets arguments like `system=RSQLite`, and tells its driver one line at a time, of words
# parted by tabs: `begun WHAT`, `took WHAT SECONDS CPU`, `differs WHAT HOW`, `cannot WHAT WHY`,
# `unchecked WHAT WHY`.

suppressPackageStartupMessages(library(DBI))

arguments <- local({
  words <- strsplit(commandArgs(TRUE), "=", fixed = TRUE)
  setNames(vapply(words, function(word) paste(word[-1L], collapse = "="), ""), vapply(words, `[[`, "", 1L))
})

argument <- function(name, default = NULL) {
  if (name %in% names(arguments)) return(arguments[[name]])
  if (is.null(default)) stop("the argument ", name, "= is missing")
  default
}

listed <- function(name) strsplit(argument(name, " "), ",", fixed = TRUE)[[1L]]

system_name <- argument("system")
threads <- as.integer(argument("threads", "1"))
data.table::setDTthreads(threads)

tell <- function(...) {
  line <- paste(gsub("[\t\n]+", " ", c(...)), collapse = "\t")
  cat(line, "\n", sep = "")
  flush(stdout())
}

# Systems ------------------------------------------------------------------------------------------------

# Returns what connects to a database of a system: the driver's name, the database's, and the rest.
address_of <- function(database) {
  path <- function(ending) file.path(argument("scratch"), paste0(database, ".", ending))
  switch(system_name,
    hypostyle = list(
      driver = "hypostyle", dbname = path("hypo"),
      options = list(threads = threads, bigint = "numeric", data_frames = FALSE)
    ),
    # RSQLite does not wait for the disk unless it is told to; the others do.
    RSQLite = list(
      driver = "SQLite", dbname = path("sqlite"), options = list(extended_types = TRUE, synchronous = "full")
    ),
    # The database has to be the first argument without a name: survey gives it so.
    RPostgreSQL = list(
      driver = "PostgreSQL", dbname = database,
      options = list(user = "bench", password = "", host = argument("host"), port = argument("port"))
    ),
    stop("no database: ", system_name)
  )
}

# Attaches the package that has the driver, which is no part of what is timed.
attach_driver <- function() {
  if (system_name != "memory") {
    suppressPackageStartupMessages(library(system_name, character.only = TRUE))
  }
}

connect <- function(database) {
  address <- address_of(database)
  do.call(dbConnect, c(list(dbDriver(address$driver), address$dbname), address$options))
}

# RPostgreSQL writes the names of rows unless it is told not to, and has no other way to say it.
write_frame <- function(connection, name, frame, types = NULL) {
  done <- dbWriteTable(connection, name, frame, row.names = FALSE, field.types = types)
  if (!isTRUE(done)) stop(name, " was not written")
}

# Data and answers ---------------------------------------------------------------------------------------

load_frame <- function(name) readRDS(file.path(argument("data"), paste0(name, ".rds")))

answer_path <- function(what) file.path(argument("answers"), paste0(gsub("[^A-Za-z0-9]+", "_", what), ".rds"))

# Numbers are the same whatever their type in R; a date is its number of days.
plain <- function(column) {
  if (is.factor(column)) as.character(column)
  else if (inherits(column, "integer64")) as.numeric(column)
  else if (is.character(column)) column
  else as.numeric(column)
}

difference <- function(ours, theirs, tolerance) {
  if (length(ours) != length(theirs)) return(sprintf("%d columns, not %d", length(ours), length(theirs)))
  for (i in seq_along(theirs)) {
    one <- plain(.subset2(ours, i))
    other <- plain(.subset2(theirs, i))
    name <- names(theirs)[[i]]
    if (length(one) != length(other)) return(sprintf("%s: %d values, not %d", name, length(one), length(other)))
    if (!identical(is.na(one), is.na(other))) return(paste0(name, ": values are missing elsewhere"))
    same <- if (is.character(one) || is.character(other)) {
      as.character(one) == as.character(other)
    } else {
      abs(one - other) <= tolerance * pmax(abs(one), abs(other)) | one == other
    }
    wrong <- which(!same)
    if (length(wrong) > 0L) {
      at <- wrong[[1L]]
      return(sprintf("%s: value %d is %s, not %s", name, at, format(one[[at]], digits = 16), format(other[[at]], digits = 16)))
    }
  }
  NULL
}

# Sums of doubles depend on the order of rows; a lost row or fraction is seen far above this.
answer_tolerance <- 1e-9

# Keeps the answer when it is the one that the others are compared with, else compares it.
check <- function(what, answer, tolerance = answer_tolerance) {
  if (argument("check", "no") == "keep") return(invisible(saveRDS(answer, answer_path(what), compress = FALSE)))
  if (argument("check", "no") != "yes") return(invisible())
  if (!file.exists(answer_path(what))) return(tell("unchecked", what, "there is no answer in memory"))
  told <- difference(answer, readRDS(answer_path(what)), tolerance)
  if (!is.null(told)) tell("differs", what, told)
}

# The clock ----------------------------------------------------------------------------------------------

ticks <- 100 # of a second, as Linux tells them in /proc

processor_seconds_of <- function(process, with_children) {
  text <- tryCatch(
    suppressWarnings(readLines(file.path("/proc", process, "stat"))),
    error = function(error) character()
  )
  if (length(text) == 0L) return(c(parent = 0, seconds = 0))
  fields <- strsplit(sub("^.*\\) ", "", text), " ")[[1L]]
  c(parent = as.numeric(fields[[2L]]), seconds = sum(as.numeric(fields[12:(if (with_children) 15L else 13L)])) / ticks)
}

# Returns the seconds of all processors for a server with all its processes, those that have ended too.
server_seconds <- function() {
  server <- argument("server", "0")
  if (server == "0") return(0)
  total <- processor_seconds_of(server, with_children = TRUE)[["seconds"]]
  for (process in grep("^[0-9]+$", dir("/proc"), value = TRUE)) {
    of <- processor_seconds_of(process, with_children = FALSE)
    if (of[["parent"]] == as.numeric(server)) total <- total + of[["seconds"]]
  }
  total
}

processor_seconds <- function() sum(proc.time()[c(1L, 2L, 4L, 5L)]) + server_seconds()

# Evaluates `work()`, tells how long it took on the clock and on all processors, and returns what it gave.
timed <- function(what, work, counted = TRUE) {
  gc(FALSE)
  tell("begun", what)
  processor <- processor_seconds()
  start <- as.numeric(Sys.time())
  result <- tryCatch(work(), error = function(error) {
    tell("cannot", what, conditionMessage(error))
    NULL
  })
  seconds <- as.numeric(Sys.time()) - start
  processor <- processor_seconds() - processor
  if (counted && !is.null(result)) tell("took", what, format(seconds, digits = 9), format(processor, digits = 9))
  result
}
