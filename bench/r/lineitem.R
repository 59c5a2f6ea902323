# Figures 5 and 6: lineitem is written from R, and read into R. `case=write` or `case=read`.
source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))

attach_driver()

# Reads every value of a data frame: the sum of numbers and dates, and of the bytes of texts.
touch <- function(frame) {
  vapply(frame, function(column) {
    if (is.character(column)) sum(nchar(column, "bytes")) else sum(as.numeric(column))
  }, 0)
}

by_key <- function(frame) {
  frame <- lapply(frame, plain)
  order <- order(frame$l_orderkey, frame$l_linenumber)
  lapply(frame, function(column) column[order])
}

# Compares what was read with the frame that was written: value by value, and exactly. A table has no
# order: PostgreSQL gives rows in another one.
check_frame <- function(what, frame) {
  if (argument("check", "no") != "yes") return(invisible())
  told <- difference(by_key(frame), by_key(load_frame("lineitem")), 0)
  if (!is.null(told)) tell("differs", what, told)
}

write_lineitem <- function() {
  frame <- load_frame("lineitem")
  touch(frame)
  connection <- NULL
  done <- timed("write", function() {
    connection <<- connect("lineitem")
    write_frame(connection, "lineitem", frame)
    TRUE
  })
  if (!is.null(done)) dbDisconnect(connection)
}

read_lineitem <- function() {
  if (system_name == "memory") {
    frame <- load_frame("lineitem")
    touch(frame)
    timed("touch", function() touch(frame))
    timed("touch again", function() touch(frame))
    return(invisible())
  }
  connection <- connect("lineitem")
  frame <- timed("read", function() dbReadTable(connection, "lineitem"))
  timed("touch", function() touch(frame))
  timed("touch again", function() touch(frame))
  check_frame("read", frame)
  dbDisconnect(connection)
}

invisible(switch(argument("case"), write = write_lineitem(), read = read_lineitem()))
