# What tables there are.

tables_sql <- paste(
  "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables",
  "WHERE table_schema NOT IN ('information_schema', 'pg_catalog')"
)

schemas_sql <- paste(
  "SELECT schema_name AS name FROM information_schema.schemata WHERE catalog_name = current_database()",
  "AND schema_name NOT IN ('information_schema', 'pg_catalog') ORDER BY schema_name"
)

# The schemas that are not PostgreSQL's own.
postgres_schemas_sql <- paste(
  "SELECT nspname AS name FROM pg_catalog.pg_namespace",
  "WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY nspname"
)

all_tables <- function(conn) {
  found <- quietly(conn, tables_sql)
  names(found) <- c("catalog", "schema", "name", "type")
  found$is_temporary <- found$type == "LOCAL TEMPORARY" | startsWith(found$schema, "pg_temp")
  found
}

# Runs a query of the package itself, whose words name no data frame.
quietly <- function(conn, sql, params = NULL) {
  check_open(conn)
  state <- conn@state
  is_on <- state$data_frames
  state$data_frames <- FALSE
  on.exit(state$data_frames <- is_on)
  conn@factors <- FALSE
  dbGetQuery(conn, sql, params)
}

# Says which tables a name without a schema finds.
is_found <- function(conn, tables) {
  path <- quietly(conn, "SELECT unnest(current_schemas(true)) AS name")$name
  tables$is_temporary | tables$schema %in% path
}

find_tables <- function(conn, id) {
  tables <- all_tables(conn)
  parts <- id@name
  is_wanted <- tables$name == parts[["table"]]
  if ("schema" %in% names(parts)) is_wanted <- is_wanted & tables$schema == parts[["schema"]]
  if ("catalog" %in% names(parts)) is_wanted <- is_wanted & tables$catalog == parts[["catalog"]]
  if (!"schema" %in% names(parts)) is_wanted <- is_wanted & is_found(conn, tables)
  tables[is_wanted, , drop = FALSE]
}

setMethod("dbListTables", "HypostyleConnection", function(conn, ...) {
  tables <- all_tables(conn)
  unique(tables$name[is_found(conn, tables)])
})

exists_table <- function(conn, name, ...) {
  check_open(conn)
  nrow(find_tables(conn, id_of_parts(parts_of_name(table_name(conn, name))))) > 0L
}

setMethod("dbExistsTable", c("HypostyleConnection", "ANY"), exists_table)

setMethod("dbExistsTable", c("HypostyleConnection", "character"), exists_table)

setMethod("dbExistsTable", c("HypostyleConnection", "Id"), exists_table)

list_fields <- function(conn, name, ...) {
  check_open(conn)
  result <- dbSendQuery(conn, paste("SELECT * FROM", table_name(conn, name), "LIMIT 0"))
  on.exit(dbClearResult(result))
  dbColumnInfo(result)$name
}

setMethod("dbListFields", c("HypostyleConnection", "ANY"), list_fields)

setMethod("dbListFields", c("HypostyleConnection", "character"), list_fields)

setMethod("dbListFields", c("HypostyleConnection", "Id"), list_fields)

frame_of_ids <- function(ids, is_prefix) {
  frame <- data.frame(is_prefix = is_prefix)
  frame$table <- ids
  frame[c("table", "is_prefix")]
}

setMethod("dbListObjects", "HypostyleConnection", function(conn, prefix = NULL, ...) {
  tables <- all_tables(conn)
  if (is.null(prefix)) {
    names <- unique(tables$name[is_found(conn, tables)])
    schemas <- quietly(conn, if (is_postgres(conn)) postgres_schemas_sql else schemas_sql)$name
    ids <- c(lapply(names, function(name) Id(table = name)), lapply(schemas, function(name) Id(schema = name)))
    return(frame_of_ids(ids, rep(c(FALSE, TRUE), c(length(names), length(schemas)))))
  }
  if (is(prefix, "Id") && !"schema" %in% names(prefix@name)) refuse("the prefix has no schema: Id(schema = )")
  schema <- if (is(prefix, "Id")) prefix@name[["schema"]] else utils::tail(parts_of_name(as.character(dbQuoteIdentifier(conn, prefix))), 1L)
  names <- tables$name[tables$schema == schema]
  ids <- lapply(names, function(name) Id(schema = schema, table = name))
  frame_of_ids(ids, rep(FALSE, length(names)))
})
