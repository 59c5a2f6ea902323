setClass("HypostyleDriver", contains = "DBIDriver")

hypostyle <- function() new("HypostyleDriver")

setMethod("show", "HypostyleDriver", function(object) {
  cat("<HypostyleDriver>, library ", hypostyle_version(), "\n", sep = "")
})

setMethod("dbGetInfo", "HypostyleDriver", function(dbObj, ...) {
  list(driver.version = utils::packageVersion("hypostyle"), client.version = package_version(hypostyle_version()))
})

setMethod("dbIsValid", "HypostyleDriver", function(dbObj, ...) TRUE)

setMethod("dbUnloadDriver", "HypostyleDriver", function(drv, ...) invisible(TRUE))

setMethod("dbListConnections", "HypostyleDriver", function(drv, ...) list())

setMethod("dbDataType", "HypostyleDriver", function(dbObj, obj, ...) sql_type(obj))

setMethod("dbIsReadOnly", "HypostyleDriver", function(dbObj, ...) FALSE)

bigint_kinds <- c("integer64", "integer", "numeric", "character")

check_optional_text <- function(x, what) {
  if (is.null(x)) return(NULL)
  enc2utf8(check_text(x, what))
}

# An option that is not known, as readonly for read_only, must not be taken for one that is.
check_no_others <- function(...) {
  if (...length() == 0L) return(invisible(NULL))
  names <- setdiff(names(list(...)), "")
  refuse("dbConnect() has no argument ", if (length(names) > 0L) paste0("\"", names[[1L]], "\"") else "without a name behind dbname")
}

check_threads <- function(threads) {
  is_count <- is.numeric(threads) && length(threads) == 1L && !is.na(threads) && threads >= 0 &&
    threads == trunc(threads) && threads <= 4096
  if (!is_count) refuse("threads is a number of 1 to 4096, or 0 for all processors")
  as.integer(threads)
}

# "4GB" or a number of bytes. More than a machine has is no limit.
bytes_of <- function(limit) {
  is_number <- is.numeric(limit) && length(limit) == 1L && !is.na(limit) && limit >= 0
  bytes <- if (is_number) as.double(limit) else bytes_of_text(limit)
  if (bytes < 2^62) bytes else 2^62
}

bytes_of_text <- function(limit) {
  check_text(limit, "memory_limit")
  parts <- regmatches(limit, regexec("^\\s*([0-9]+[.]?[0-9]*|[.][0-9]+)\\s*([kKmMgGtT]?)(i?)[bB]?\\s*$", limit))[[1L]]
  if (length(parts) == 0L) refuse("memory_limit is a number of bytes or a text such as \"4GB\", not \"", limit, "\"")
  base <- if (nzchar(parts[4L])) 1024 else 1000
  as.double(parts[2L]) * base^(regexpr(toupper(parts[3L]), "KMGT", fixed = TRUE)[[1L]] * nzchar(parts[3L]))
}

path_of <- function(dbname) {
  check_text(dbname, "dbname")
  if (!nzchar(dbname)) return(":memory:")
  if (grepl("://", dbname, fixed = TRUE)) dbname else path.expand(dbname)
}

# PostgreSQL's numeric without digits, such as an average of integers, is a number of R as DECIMAL is,
# unless the address says otherwise.
target_of <- function(path) {
  if (!is_postgres_address(path) || grepl("[?&]numeric=", path)) return(path)
  paste0(path, if (grepl("?", path, fixed = TRUE)) "&" else "?", "numeric=double")
}

# Returns an address without its password, for showing it. A password ends at the last @ before the options,
# and may have others and slashes in it.
without_password <- function(dbname) {
  dbname <- sub("^([A-Za-z+]+://[^:@/?]*):[^?]*@", "\\1@", dbname)
  if (grepl("://", dbname, fixed = TRUE)) gsub("([?&](ssl)?password=)[^&]*", "\\1...", dbname) else dbname
}

connection_of <- function(database, dbname, shape) {
  state <- new.env(parent = emptyenv())
  state$database <- database
  state$dbname <- dbname
  state$frames <- new.env(parent = emptyenv())
  # PostgreSQL asks nobody for tables.
  state$data_frames <- shape$data_frames && !is_postgres_address(dbname)
  state$read_only <- shape$read_only
  state$open_results <- 0L
  new("HypostyleConnection",
    pointer = .Call(hs_connect, database), state = state, bigint = shape$bigint,
    timezone_out = shape$timezone_out, factors = shape$factors
  )
}

setMethod(
  "dbConnect", "HypostyleDriver",
  function(drv, dbname = ":memory:", ..., user = NULL, password = NULL, read_only = FALSE, threads = 0L,
           memory_limit = 0, temp_directory = NULL, verify = NULL, allow_network_filesystem = FALSE,
           bigint = c("integer64", "integer", "numeric", "character"), timezone_out = "UTC",
           factors = FALSE, data_frames = TRUE) {
    check_no_others(...)
    bigint <- match.arg(bigint)
    check_text(timezone_out, "timezone_out")
    check_flag(read_only, "read_only")
    path <- path_of(dbname)
    options <- list(
      read_only, check_flag(allow_network_filesystem, "allow_network_filesystem"), check_threads(threads),
      bytes_of(memory_limit), check_optional_text(temp_directory, "temp_directory"),
      check_optional_text(verify, "verify"), check_optional_text(user, "user"),
      check_optional_text(password, "password")
    )
    shape <- list(
      bigint = bigint, timezone_out = timezone_out, factors = check_flag(factors, "factors"),
      data_frames = check_flag(data_frames, "data_frames"), read_only = read_only
    )
    connection_of(.Call(hs_open, target_of(path), options), without_password(path), shape)
  }
)

