# Tables: written by columns, read as columns.

# Returns the name of a table as SQL writes it.
table_name <- function(conn, name) {
  if (is.character(name) && !inherits(name, "SQL") && !is_text(name)) refuse("the name of a table is one text")
  if (!is.character(name) && !is(name, "Id")) refuse("the name of a table is a text, an Id or SQL, not ", class(name)[1L])
  quoted <- dbQuoteIdentifier(conn, name)
  if (length(quoted) != 1L) refuse("the name of a table is one text")
  as.character(quoted)
}

check_row_names <- function(row.names) {
  is_fine <- is.null(row.names) || (length(row.names) == 1L && (is.logical(row.names) || is_text(row.names)))
  if (!is_fine) refuse("row.names is TRUE, FALSE, NA, or the name of a column")
}

# Returns the definitions of columns for CREATE TABLE.
definitions_of <- function(conn, fields) {
  if (is.data.frame(fields)) fields <- type_in(conn, fields)
  if (length(fields) == 0L) refuse("a table has columns, and none is given")
  if (is.null(names(fields))) refuse("the columns of a table have names")
  paste0("  ", dbQuoteIdentifier(conn, names(fields)), " ", fields, collapse = ",\n")
}

create_table_sql <- function(conn, name, fields, temporary) {
  paste0(
    "CREATE ", if (temporary) "TEMPORARY ", "TABLE ", table_name(conn, name), " (\n",
    definitions_of(conn, fields), "\n)\n"
  )
}

setMethod(
  "sqlCreateTable", "HypostyleConnection",
  function(con, table, fields, row.names = NA, temporary = FALSE, ...) {
    check_row_names(row.names)
    if (is.data.frame(fields)) fields <- sqlRownamesToColumn(fields, row.names)
    SQL(create_table_sql(con, table, fields, temporary))
  }
)

setMethod(
  "dbCreateTable", "HypostyleConnection",
  function(conn, name, fields, ..., row.names = NULL, temporary = FALSE) {
    check_open(conn)
    if (!is.null(row.names)) refuse("dbCreateTable() knows no row names: row.names is NULL")
    check_flag(temporary, "temporary")
    sql <- create_table_sql(conn, name, fields, temporary)
    dbExecute(conn, sql)
    invisible(TRUE)
  }
)

# Flags of hypostyle_append().
append_by_name <- 2L

# Returns which columns of a table are durations or intervals, if some of the data are differences of time.
durations_in <- function(conn, table, value) {
  if (!any(vapply(value, inherits, NA, "difftime"))) return(NULL)
  result <- dbSendQuery(conn, paste("SELECT * FROM", table, "LIMIT 0"))
  on.exit(dbClearResult(result))
  info <- result@state$info
  info$names[info$types %in% c(type_interval, type_duration)]
}

# A table takes no columns without rows: the library wants at least one column.
append_frame <- function(conn, table, value) {
  if (length(value) == 0L) refuse("a data frame without columns cannot be appended")
  columns <- prepare_frame(value, is_untyped = TRUE, durations_in(conn, table, value))
  .Call(hs_append, conn@pointer, table, columns, append_by_name)
}

check_frame <- function(value) {
  if (!is.data.frame(value)) refuse("value is a data frame, not ", class(value)[1L])
  names <- names(value)
  if (anyDuplicated(names)) refuse("two columns are named \"", names[[anyDuplicated(names)]], "\"")
  value
}

setMethod(
  "dbAppendTable", "HypostyleConnection",
  function(conn, name, value, ..., row.names = NULL) {
    check_open(conn)
    if (!is.null(row.names)) refuse("dbAppendTable() knows no row names: row.names is NULL")
    check_frame(value)
    if (any(vapply(value, is.factor, NA))) warning("factors are appended as texts", call. = FALSE)
    append_frame(conn, table_name(conn, name), value)
  }
)

check_field_types <- function(field.types, value) {
  if (is.null(field.types)) return(NULL)
  is_fine <- is.character(field.types) && !is.null(names(field.types)) && !anyDuplicated(names(field.types))
  if (!is_fine) refuse("field.types is a named character vector of types, each name once")
  unknown <- setdiff(names(field.types), names(value))
  if (length(unknown) > 0L) refuse("field.types has \"", unknown[[1L]], "\", which is no column of the data")
  field.types
}

types_of <- function(conn, value, field.types) {
  types <- type_in(conn, value)
  types[names(field.types)] <- field.types
  types
}

write_table <- function(conn, name, value, how) {
  table <- table_name(conn, name)
  is_there <- dbExistsTable(conn, name)
  # What is wrong with the columns is told before anything is done.
  sql <- create_table_sql(conn, name, types_of(conn, value, how$field.types), how$temporary)
  if (is_there && !how$overwrite && !how$append) {
    refuse("the table ", table, " exists already; append = TRUE or overwrite = TRUE")
  }
  together(conn, {
    if (is_there && how$overwrite) dbExecute(conn, paste("DROP TABLE", table))
    if (!is_there || how$overwrite) {
      dbExecute(conn, sql)
    }
    if (nrow(value) > 0L) append_frame(conn, table, value)
  })
}

write_frame <- function(conn, name, value, ..., row.names = FALSE, overwrite = FALSE, append = FALSE,
                        field.types = NULL, temporary = FALSE) {
  check_open(conn)
  if (!is.data.frame(value)) refuse("value is a data frame, not ", class(value)[1L])
  check_row_names(row.names)
  check_flag(overwrite, "overwrite")
  check_flag(append, "append")
  check_flag(temporary, "temporary")
  if (overwrite && append) refuse("overwrite and append cannot both be TRUE")
  if (append && !is.null(field.types)) refuse("field.types cannot be given together with append = TRUE")
  value <- check_frame(sqlRownamesToColumn(value, if (is.null(row.names)) FALSE else row.names))
  how <- list(
    overwrite = overwrite, append = append, temporary = temporary,
    field.types = check_field_types(field.types, value)
  )
  write_table(conn, name, value, how)
  invisible(TRUE)
}

# Data frames may have classes that S4 knows nothing of. DBI has a method for Id, which would be taken before
# that for ANY.
setMethod("dbWriteTable", c("HypostyleConnection", "ANY"), write_frame)

setMethod("dbWriteTable", c("HypostyleConnection", "character"), write_frame)

setMethod("dbWriteTable", c("HypostyleConnection", "Id"), write_frame)

read_table <- function(conn, name, ..., row.names = FALSE, check.names = TRUE) {
  check_open(conn)
  check_row_names(row.names)
  check_flag(check.names, "check.names")
  frame <- dbGetQuery(conn, paste("SELECT * FROM", table_name(conn, name)))
  frame <- sqlColumnToRownames(frame, if (is.null(row.names)) FALSE else row.names)
  if (check.names) names(frame) <- make.names(names(frame), unique = TRUE)
  frame
}

# DBI has methods for texts and for Id, which would be taken before those for ANY.
setMethod("dbReadTable", c("HypostyleConnection", "ANY"), read_table)

setMethod("dbReadTable", c("HypostyleConnection", "character"), read_table)

setMethod("dbReadTable", c("HypostyleConnection", "Id"), read_table)

remove_table <- function(conn, name, ..., temporary = FALSE, fail_if_missing = TRUE) {
  check_open(conn)
  check_flag(temporary, "temporary")
  check_flag(fail_if_missing, "fail_if_missing")
  table <- table_name(conn, name)
  if (temporary) {
    found <- find_tables(conn, id_of_parts(parts_of_name(table)))
    if (!any(found$is_temporary)) {
      if (fail_if_missing) refuse("there is no temporary table ", table)
      return(invisible(TRUE))
    }
  }
  dbExecute(conn, paste("DROP TABLE", if (!fail_if_missing) "IF EXISTS", table))
  invisible(TRUE)
}

setMethod("dbRemoveTable", c("HypostyleConnection", "ANY"), remove_table)

setMethod("dbRemoveTable", c("HypostyleConnection", "character"), remove_table)

setMethod("dbRemoveTable", c("HypostyleConnection", "Id"), remove_table)
