# The types of the database for vectors of R.

sql_type_of <- function(x) {
  if (inherits(x, "AsIs")) class(x) <- setdiff(class(x), "AsIs")
  if (is.factor(x)) return("VARCHAR")
  if (inherits(x, "integer64")) return("BIGINT")
  if (inherits(x, "Date")) return("DATE")
  if (inherits(x, "POSIXt")) return("TIMESTAMPTZ")
  if (inherits(x, "difftime")) return(if (are_of_day(seconds_of(x))) "TIME" else "DURATION")
  switch(typeof(x),
    logical = "BOOLEAN",
    integer = "INTEGER",
    double = "DOUBLE",
    character = "VARCHAR",
    raw = "BLOB",
    list = list_type(x),
    refuse("the database has no type for a vector of type ", typeof(x))
  )
}

list_type <- function(x) {
  if (is_bytes(x)) return("BLOB")
  elements <- Filter(Negate(is.null), unclass(x))
  types <- unique(vapply(elements, sql_type_of, ""))
  if (length(types) == 2L && setequal(types, c("INTEGER", "DOUBLE"))) types <- "DOUBLE"
  if (length(types) != 1L) refuse("a list whose elements have several types has no type in the database")
  paste0(types, "[]")
}

# Returns the types as PostgreSQL calls them.
postgres_types <- function(types) {
  ours <- c("^BLOB\\b" = "BYTEA", "^DOUBLE\\b" = "DOUBLE PRECISION", "^DURATION\\b" = "INTERVAL")
  for (name in names(ours)) types[] <- sub(name, ours[[name]], types)
  types
}

# Returns the types of a vector, or of a data frame's columns, in the database of a connection.
type_in <- function(conn, obj) {
  types <- sql_type(obj)
  if (is_postgres(conn)) postgres_types(types) else types
}

sql_type <- function(obj) {
  if (is.null(obj)) refuse("NULL has no type")
  if (!is.data.frame(obj)) return(sql_type_of(obj))
  vapply(stats::setNames(seq_along(obj), names(obj)), function(i) {
    tryCatch(
      sql_type_of(.subset2(obj, i)),
      error = function(error) refuse("the column \"", names(obj)[[i]], "\": ", conditionMessage(error))
    )
  }, "")
}

# Numbers of types as in hypostyle.h.
type_null <- 0L
type_bigint <- 5L
type_date <- 13L
type_time <- 14L
type_timestamp <- 15L
type_timestamptz <- 16L
type_interval <- 17L
type_duration <- 18L
type_varchar <- 19L
type_blob <- 21L
type_fixed <- 23L

# Returns the class of R that a column of a result has.
class_of_type <- function(type, bigint, factors) {
  kinds <- c(
    "logical", "integer", "integer", "integer", bigint, "integer", "integer", "numeric", "numeric",
    "numeric", "numeric", "numeric", "Date", "difftime", "POSIXct", "POSIXct", "character", "difftime",
    "character", "character", "blob", "character", "blob", "list", "list", "list", "list"
  )
  vapply(type, function(one) if (one == type_null) "logical" else kinds[[one]], "")
}

# Returns the attributes of a vector of a column of some type.
attributes_of <- function(type, is_integer64, timezone) {
  if (type == type_date) {
    list(class = "Date")
  } else if (type == type_bigint && is_integer64) {
    list(class = "integer64")
  } else if (type == type_timestamp || type == type_timestamptz) {
    list(class = c("POSIXct", "POSIXt"), tzone = timezone)
  } else if (type == type_time) {
    list(units = "secs", class = c("hms", "difftime"))
  } else if (type == type_duration) {
    list(units = "secs", class = "difftime")
  } else if (type == type_blob || type == type_fixed) {
    list(ptype = raw(), class = c("blob", "vctrs_list_of", "vctrs_vctr", "list"))
  }
}
