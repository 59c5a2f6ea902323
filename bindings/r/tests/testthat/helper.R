local_connection <- function(..., env = parent.frame()) {
  con <- dbConnect(hypostyle(), ...)
  at_end(if (dbIsValid(con)) suppressWarnings(dbDisconnect(con)), env)
  con
}

# Runs code when a function ends.
at_end <- function(code, env) {
  code <- substitute(code)
  from <- parent.frame()
  do.call(on.exit, list(bquote(eval(quote(.(code)), .(from))), add = TRUE), envir = env)
}

# All columns are lazy, also of small results.
local_lazy <- function(env = parent.frame()) {
  before <- options(hypostyle.lazy_rows = 0)
  at_end(options(before), env)
}

is_lazy <- function(x) .Call(hypostyle:::hs_is_lazy, x)

# How many vectors of R are mappings of columns.
forged_count <- function() .Call(hypostyle:::hs_forged_count)

query <- function(con, sql, ...) dbGetQuery(con, sql, ...)

# Runs code that is interrupted after a while, and says how it ended. system() itself would lose the
# signal while it waits: all of the command runs by itself.
interrupted_after <- function(seconds, code) {
  tryCatch(
    {
      system(paste0("(sleep ", seconds, "; kill -INT ", Sys.getpid(), ")"), wait = FALSE)
      code
      "ended"
    },
    interrupt = function(condition) "interrupted",
    error = conditionMessage
  )
}
