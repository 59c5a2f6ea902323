/* Catalog functions. Each one is a query of information_schema, whose columns are those that ODBC wants.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "catalog.h"
#include <stdlib.h>
#include <string.h>

void free_names(names *n) {
  for (int i = 0; i < ARGUMENTS; i++) free(n->text[i]);
}

SQLRETURN read_names(statement *s, const name_given *given, int count, names *out) {
  memset(out, 0, sizeof *out);
  for (int i = 0; i < count; i++) {
    out->text[i] = utf8_of(s, given[i].text, given[i].length, NULL);
    if (out->text[i] == NULL && given[i].text != NULL) {
      free_names(out);
      return SQL_ERROR;
    }
  }
  return SQL_SUCCESS;
}

SQLRETURN run_query(statement *s, builder *sql) {
  SQLRETURN returned = sql->failed ? fail_memory(s) : execute_text(s, sql->data, sql->length);
  free(sql->data);
  return returned;
}

/* ---- Conditions ---- */

/* Names that stand for identifiers are in any case, unless they are in double quotes. */
static void add_identifier(builder *b, const char *column, const char *name) {
  size_t length = strlen(name);
  while (length > 0 && name[length - 1] == ' ') length--;
  bool is_quoted = length >= 2 && name[0] == '"' && name[length - 1] == '"';
  add_format(b, is_quoted ? " AND %s = " : " AND lower(%s) = lower(", column);
  add_literal(b, is_quoted ? name + 1 : name, is_quoted ? length - 2 : length);
  if (!is_quoted) add_text(b, ")");
}

/* A pattern may have the backslash before _ and %, as SQL_SEARCH_PATTERN_ESCAPE says. */
void add_pattern(const statement *s, builder *b, const char *column, const char *pattern) {
  if (pattern == NULL || (strcmp(pattern, "%") == 0 && s->metadata_id != SQL_TRUE)) return;
  if (s->metadata_id == SQL_TRUE) {
    add_identifier(b, column, pattern);
    return;
  }
  add_format(b, " AND %s LIKE ", column);
  add_literal(b, pattern, strlen(pattern));
  add_text(b, " ESCAPE '\\'");
}

void add_name(const statement *s, builder *b, const char *column, const char *name) {
  if (name == NULL) return;
  if (s->metadata_id == SQL_TRUE) {
    add_identifier(b, column, name);
    return;
  }
  add_format(b, " AND %s = ", column);
  add_literal(b, name, strlen(name));
}

const char *unless_empty(const char *name) { return name == NULL || *name == '\0' ? NULL : name; }

/* ---- Tables ---- */

/* TABLE, VIEW, SYSTEM TABLE, LOCAL TEMPORARY and MATERIALIZED VIEW, of information_schema's words. */
#define TABLE_TYPE                                                                                           \
  "CASE WHEN table_schema IN ('information_schema', 'pg_catalog') THEN 'SYSTEM TABLE' "                      \
  "WHEN table_type = 'BASE TABLE' THEN 'TABLE' ELSE table_type END"

/* information_schema has no materialized views, as in PostgreSQL. */
#define MATERIALIZED_VIEWS                                                                                   \
  "pg_catalog.pg_class m JOIN pg_catalog.pg_namespace n ON n.oid = m.relnamespace AND m.relkind = 'm'"
#define ALL_TABLES                                                                                           \
  "(SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables UNION ALL "    \
  "SELECT current_database(), n.nspname, m.relname, 'MATERIALIZED VIEW' FROM " MATERIALIZED_VIEWS ") t "     \
  "LEFT JOIN pg_catalog.pg_namespace s ON s.nspname = t.table_schema "                                       \
  "LEFT JOIN pg_catalog.pg_class c ON c.relname = t.table_name AND c.relnamespace = s.oid "                  \
  "AND t.table_catalog = current_database()"

/* Adds the types of a list such as 'TABLE','VIEW' or TABLE, VIEW. */
static void add_types(builder *b, const char *types) {
  if (types == NULL || *types == '\0' || strcmp(types, "%") == 0) return;
  const char *separator = "";
  add_text(b, " AND " TABLE_TYPE " IN (");
  while (*types != '\0') {
    size_t length = strcspn(types, ",");
    const char *at = types, *end = types + length;
    while (at < end && (*at == ' ' || *at == '\'')) at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\'')) end--;
    add_text(b, separator);
    add_text(b, "upper(");
    add_literal(b, at, (size_t)(end - at));
    add_text(b, ")");
    separator = ", ";
    types += length + (types[length] == ',');
  }
  add_text(b, ")");
}

static bool is_empty(const char *text) { return text != NULL && *text == '\0'; }
static bool is_all(const char *text) { return text != NULL && strcmp(text, "%") == 0; }

static void add_tables(statement *s, const names *n, builder *b) {
  const char *catalog = n->text[0], *schema = n->text[1], *table = n->text[2], *types = n->text[3];
  static const char nothing[] = "CAST(NULL AS VARCHAR)";
  bool lists_catalogs = is_all(catalog) && is_empty(schema) && is_empty(table);
  bool lists_schemas = is_empty(catalog) && is_all(schema) && is_empty(table);
  bool lists_types = is_empty(catalog) && is_empty(schema) && is_empty(table) && is_all(types);
  if (lists_catalogs || lists_schemas) {
    add_format(b, "SELECT DISTINCT %s AS \"TABLE_CAT\", %s AS \"TABLE_SCHEM\"",
               lists_catalogs ? "catalog_name" : nothing, lists_schemas ? "schema_name" : nothing);
    add_format(b,
               ", %s AS \"TABLE_NAME\", %s AS \"TABLE_TYPE\", %s AS \"REMARKS\" FROM "
               "information_schema.schemata ORDER BY 1, 2",
               nothing, nothing, nothing);
    return;
  }
  if (lists_types) {
    add_format(
        b,
        "SELECT %s AS \"TABLE_CAT\", %s AS \"TABLE_SCHEM\", %s AS \"TABLE_NAME\", type AS \"TABLE_TYPE\", %s "
        "AS \"REMARKS\" "
        "FROM (VALUES ('LOCAL TEMPORARY'), ('MATERIALIZED VIEW'), ('SYSTEM TABLE'), ('TABLE'), ('VIEW')) "
        "AS types (type) ORDER BY 4",
        nothing, nothing, nothing, nothing);
    return;
  }
  add_text(b, "SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS "
              "\"TABLE_NAME\", " TABLE_TYPE
              " AS \"TABLE_TYPE\", obj_description(c.oid, 'pg_class') AS \"REMARKS\" FROM " ALL_TABLES
              " WHERE TRUE");
  add_pattern(s, b, "table_catalog", unless_empty(catalog));
  add_pattern(s, b, "table_schema", unless_empty(schema));
  add_pattern(s, b, "table_name", unless_empty(table));
  add_types(b, types);
  add_text(b, " ORDER BY 4, 1, 2, 3");
}

SQLRETURN SQL_API SQLTablesW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                             SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length,
                             SQLWCHAR *types, SQLSMALLINT types_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {
      {catalog, catalog_length}, {schema, schema_length}, {table, table_length}, {types, types_length}};
  names n;
  if (read_names(s, given, 4, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  builder b = {0};
  add_tables(s, &n, &b);
  free_names(&n);
  return leave_statement(s, run_query(s, &b));
}

/* ---- Columns ---- */

static const struct {
  const char *name, *shown;
  hypostyle_type type;
} catalog_types[] = {
    {"boolean", "BOOLEAN", HYPOSTYLE_BOOLEAN},
    {"smallint", "SMALLINT", HYPOSTYLE_SMALLINT},
    {"integer", "INTEGER", HYPOSTYLE_INTEGER},
    {"bigint", "BIGINT", HYPOSTYLE_BIGINT},
    {"real", "REAL", HYPOSTYLE_FLOAT},
    {"double precision", "DOUBLE", HYPOSTYLE_DOUBLE},
    {"numeric", "DECIMAL", HYPOSTYLE_DECIMAL},
    {"date", "DATE", HYPOSTYLE_DATE},
    {"time without time zone", "TIME", HYPOSTYLE_TIME},
    {"timestamp without time zone", "TIMESTAMP", HYPOSTYLE_TIMESTAMP},
    {"timestamp with time zone", "TIMESTAMP WITH TIME ZONE", HYPOSTYLE_TIMESTAMPTZ},
    {"interval", "INTERVAL", HYPOSTYLE_INTERVAL},
    {"character varying", "VARCHAR", HYPOSTYLE_VARCHAR},
    {"text", "VARCHAR", HYPOSTYLE_VARCHAR},
    {"bytea", "BLOB", HYPOSTYLE_BLOB},
    {"uuid", "UUID", HYPOSTYLE_UUID},
    {"json", "JSON", HYPOSTYLE_JSON},
};

static void add_fact_value(builder *b, const type_facts *facts, const char *shown, fact wanted) {
  SQLSMALLINT type = facts->sql_type;
  bool is_decimal = type == SQL_DECIMAL, is_timestamp = type == SQL_TYPE_TIMESTAMP;
  switch (wanted) {
  case FACT_TYPE: add_format(b, "%d", (int)type); break;
  case FACT_VERBOSE: add_format(b, "%d", (int)verbose_type(type)); break;
  case FACT_SUBCODE:
    if (interval_code(type) == 0)
      add_text(b, "NULL");
    else
      add_format(b, "%d", (int)interval_code(type));
    break;
  case FACT_NAME: add_format(b, "'%s'", shown); break;
  case FACT_RADIX:
    add_text(b, type == SQL_REAL || type == SQL_DOUBLE ? "2"
                : type == SQL_SMALLINT || type == SQL_INTEGER || type == SQL_BIGINT || type == SQL_DECIMAL
                    ? "10"
                    : "NULL");
    break;
  case FACT_SIZE:
    if (is_decimal)
      add_text(b, "numeric_precision");
    else if (is_timestamp)
      add_text(b, "CASE WHEN datetime_precision > 0 THEN 20 + datetime_precision ELSE 19 END");
    else
      add_format(b, "%lu", (unsigned long)facts->size);
    break;
  case FACT_OCTETS:
    if (is_decimal)
      add_text(b, "numeric_precision + 2");
    else
      add_format(b, "%ld", (long)facts->octets);
  }
}

void add_fact(const statement *s, builder *b, fact wanted, const char *cast, const char *name) {
  add_text(b, ", CAST(CASE data_type");
  for (size_t i = 0; i < sizeof catalog_types / sizeof *catalog_types; i++) {
    hypostyle_column told = {.type = catalog_types[i].type};
    type_facts facts = facts_of(&told, s->conn->text_size);
    add_format(b, " WHEN '%s' THEN ", catalog_types[i].name);
    add_fact_value(b, &facts, catalog_types[i].shown, wanted);
  }
  hypostyle_column other = {.type = HYPOSTYLE_LIST};
  type_facts facts = facts_of(&other, s->conn->text_size);
  add_text(b, " ELSE ");
  if (wanted == FACT_NAME)
    add_text(b, "data_type");
  else
    add_fact_value(b, &facts, "", wanted);
  add_format(b, " END AS %s) AS \"%s\"", cast, name);
}

/* The columns of materialized views as information_schema would tell them. */
#define FORMATTED "format_type(a.atttypid, a.atttypmod)"
/* information_schema has no comments in PostgreSQL. */
#define COMMENT_IN_POSTGRES                                                                                  \
  "col_description(format('%I.%I', table_schema, table_name)::regclass, ordinal_position)"
#define ALL_COLUMNS(comment)                                                                                 \
  "(SELECT table_catalog, table_schema, table_name, column_name, data_type, numeric_precision, "             \
  "numeric_scale, datetime_precision, is_nullable, column_default, ordinal_position, " comment               \
  " AS column_comment FROM information_schema.columns UNION ALL SELECT current_database(), n.nspname, "      \
  "m.relname, a.attname, "                                                                                   \
  "CASE WHEN " FORMATTED " LIKE '%[]' THEN 'ARRAY' WHEN " FORMATTED " LIKE 'numeric%' THEN 'numeric' "       \
  "ELSE " FORMATTED " END, CASE WHEN a.atttypmod >= 4 THEN (a.atttypmod - 4) >> 16 ELSE 20 END, "            \
  "CASE WHEN a.atttypmod >= 4 THEN (a.atttypmod - 4) & 65535 ELSE 0 END, 6, 'YES', NULL, a.attnum, "         \
  "col_description(m.oid, a.attnum) FROM " MATERIALIZED_VIEWS                                                \
  " JOIN pg_catalog.pg_attribute a ON a.attrelid = m.oid AND a.attnum > 0) AS told"

static void add_columns(statement *s, const names *n, builder *b) {
  add_text(
      b,
      "SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS \"TABLE_NAME\", "
      "column_name AS \"COLUMN_NAME\"");
  add_fact(s, b, FACT_TYPE, "SMALLINT", "DATA_TYPE");
  add_fact(s, b, FACT_NAME, "VARCHAR", "TYPE_NAME");
  add_fact(s, b, FACT_SIZE, "INTEGER", "COLUMN_SIZE");
  add_fact(s, b, FACT_OCTETS, "INTEGER", "BUFFER_LENGTH");
  add_text(b, ", CAST(CASE WHEN data_type IN ('smallint', 'integer', 'bigint', 'numeric') THEN numeric_scale "
              "WHEN data_type LIKE 'time%' THEN datetime_precision END AS SMALLINT) AS \"DECIMAL_DIGITS\"");
  add_fact(s, b, FACT_RADIX, "SMALLINT", "NUM_PREC_RADIX");
  add_text(b, ", CAST(CASE is_nullable WHEN 'NO' THEN 0 ELSE 1 END AS SMALLINT) AS \"NULLABLE\", "
              "column_comment AS \"REMARKS\", column_default AS \"COLUMN_DEF\"");
  add_fact(s, b, FACT_VERBOSE, "SMALLINT", "SQL_DATA_TYPE");
  add_fact(s, b, FACT_SUBCODE, "SMALLINT", "SQL_DATETIME_SUB");
  add_text(b, ", CAST(CASE WHEN data_type IN ('character varying', 'text', 'bytea', 'json') THEN ");
  add_format(b, "%lu", (unsigned long)s->conn->text_size);
  add_text(
      b,
      " END AS INTEGER) AS \"CHAR_OCTET_LENGTH\", CAST(ordinal_position AS INTEGER) AS \"ORDINAL_POSITION\", "
      "is_nullable AS \"IS_NULLABLE\" FROM ");
  add_text(b, is_postgres(s->conn) ? ALL_COLUMNS(COMMENT_IN_POSTGRES) : ALL_COLUMNS("column_comment"));
  add_text(b, " WHERE TRUE");
  add_name(s, b, "table_catalog", unless_empty(n->text[0]));
  add_pattern(s, b, "table_schema", unless_empty(n->text[1]));
  add_pattern(s, b, "table_name", n->text[2]);
  add_pattern(s, b, "column_name", n->text[3]);
  add_text(b, " ORDER BY 1, 2, 3, 17");
}

SQLRETURN SQL_API SQLColumnsW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                              SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length,
                              SQLWCHAR *column, SQLSMALLINT column_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {
      {catalog, catalog_length}, {schema, schema_length}, {table, table_length}, {column, column_length}};
  names n;
  if (read_names(s, given, 4, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  builder b = {0};
  add_columns(s, &n, &b);
  free_names(&n);
  return leave_statement(s, run_query(s, &b));
}

/* ---- Privileges ---- */

static SQLRETURN privileges(statement *s, const name_given *given, bool are_of_columns) {
  names n;
  if (read_names(s, given, are_of_columns ? 4 : 3, &n) != SQL_SUCCESS) return SQL_ERROR;
  builder b = {0};
  add_format(&b,
             "SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS "
             "\"TABLE_NAME\"%s, "
             "grantor AS \"GRANTOR\", grantee AS \"GRANTEE\", privilege_type AS \"PRIVILEGE\", "
             "is_grantable AS \"IS_GRANTABLE\" FROM information_schema.%s WHERE TRUE",
             are_of_columns ? ", column_name AS \"COLUMN_NAME\"" : "",
             are_of_columns ? "column_privileges" : "table_privileges");
  add_name(s, &b, "table_catalog", unless_empty(n.text[0]));
  if (are_of_columns) {
    add_name(s, &b, "table_schema", unless_empty(n.text[1]));
    add_name(s, &b, "table_name", n.text[2]);
    add_pattern(s, &b, "column_name", n.text[3]);
  } else {
    add_pattern(s, &b, "table_schema", unless_empty(n.text[1]));
    add_pattern(s, &b, "table_name", n.text[2]);
  }
  add_text(&b, are_of_columns ? " ORDER BY 1, 2, 3, 4, 7" : " ORDER BY 1, 2, 3, 6");
  free_names(&n);
  return run_query(s, &b);
}

SQLRETURN SQL_API SQLTablePrivilegesW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length,
                                      SQLWCHAR *schema, SQLSMALLINT schema_length, SQLWCHAR *table,
                                      SQLSMALLINT table_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  return leave_statement(s, privileges(s, given, false));
}

SQLRETURN SQL_API SQLColumnPrivilegesW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length,
                                       SQLWCHAR *schema, SQLSMALLINT schema_length, SQLWCHAR *table,
                                       SQLSMALLINT table_length, SQLWCHAR *column,
                                       SQLSMALLINT column_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {
      {catalog, catalog_length}, {schema, schema_length}, {table, table_length}, {column, column_length}};
  return leave_statement(s, privileges(s, given, true));
}

/* ---- Procedures ---- */

/* The database's procedures load data sets; nothing lists them, and none gives a value. */
SQLRETURN SQL_API SQLProceduresW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                 SQLSMALLINT schema_length, SQLWCHAR *name, SQLSMALLINT name_length) {
  (void)catalog, (void)catalog_length, (void)schema, (void)schema_length, (void)name, (void)name_length;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  builder b = {0};
  add_text(&b,
           "SELECT CAST(NULL AS VARCHAR) AS \"PROCEDURE_CAT\", CAST(NULL AS VARCHAR) AS \"PROCEDURE_SCHEM\", "
           "CAST(NULL AS VARCHAR) AS \"PROCEDURE_NAME\", CAST(NULL AS INTEGER) AS \"NUM_INPUT_PARAMS\", "
           "CAST(NULL AS INTEGER) AS \"NUM_OUTPUT_PARAMS\", CAST(NULL AS INTEGER) AS \"NUM_RESULT_SETS\", "
           "CAST(NULL AS VARCHAR) AS \"REMARKS\", CAST(NULL AS SMALLINT) AS \"PROCEDURE_TYPE\" WHERE FALSE");
  return leave_statement(s, run_query(s, &b));
}

SQLRETURN SQL_API SQLProcedureColumnsW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length,
                                       SQLWCHAR *schema, SQLSMALLINT schema_length, SQLWCHAR *name,
                                       SQLSMALLINT name_length, SQLWCHAR *column, SQLSMALLINT column_length) {
  (void)catalog, (void)catalog_length, (void)schema, (void)schema_length, (void)name, (void)name_length;
  (void)column, (void)column_length;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  static const char *const columns[][2] = {
      {"VARCHAR", "PROCEDURE_CAT"},     {"VARCHAR", "PROCEDURE_SCHEM"},   {"VARCHAR", "PROCEDURE_NAME"},
      {"VARCHAR", "COLUMN_NAME"},       {"SMALLINT", "COLUMN_TYPE"},      {"SMALLINT", "DATA_TYPE"},
      {"VARCHAR", "TYPE_NAME"},         {"INTEGER", "COLUMN_SIZE"},       {"INTEGER", "BUFFER_LENGTH"},
      {"SMALLINT", "DECIMAL_DIGITS"},   {"SMALLINT", "NUM_PREC_RADIX"},   {"SMALLINT", "NULLABLE"},
      {"VARCHAR", "REMARKS"},           {"VARCHAR", "COLUMN_DEF"},        {"SMALLINT", "SQL_DATA_TYPE"},
      {"SMALLINT", "SQL_DATETIME_SUB"}, {"INTEGER", "CHAR_OCTET_LENGTH"}, {"INTEGER", "ORDINAL_POSITION"},
      {"VARCHAR", "IS_NULLABLE"},
  };
  builder b = {0};
  add_text(&b, "SELECT ");
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    add_format(&b, "%sCAST(NULL AS %s) AS \"%s\"", i > 0 ? ", " : "", columns[i][0], columns[i][1]);
  add_text(&b, " WHERE FALSE");
  return leave_statement(s, run_query(s, &b));
}
