/* Catalog functions. Each one is a query of information_schema, whose columns are those that ODBC wants.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS = 6 };

/* A name that a call was given, in UTF-8, or NULL. */
typedef struct {
  char *text[ARGUMENTS];
} names;

typedef struct {
  const SQLWCHAR *text;
  SQLSMALLINT length;
} name_given;

static void free_names(names *n) {
  for (int i = 0; i < ARGUMENTS; i++) free(n->text[i]);
}

static SQLRETURN read_names(statement *s, const name_given *given, int count, names *out) {
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

static SQLRETURN run_query(statement *s, builder *sql) {
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
static void add_pattern(const statement *s, builder *b, const char *column, const char *pattern) {
  if (pattern == NULL || (strcmp(pattern, "%") == 0 && s->metadata_id != SQL_TRUE)) return;
  if (s->metadata_id == SQL_TRUE) {
    add_identifier(b, column, pattern);
    return;
  }
  add_format(b, " AND %s LIKE ", column);
  add_literal(b, pattern, strlen(pattern));
  add_text(b, " ESCAPE '\\'");
}

static void add_name(const statement *s, builder *b, const char *column, const char *name) {
  if (name == NULL) return;
  if (s->metadata_id == SQL_TRUE) {
    add_identifier(b, column, name);
    return;
  }
  add_format(b, " AND %s = ", column);
  add_literal(b, name, strlen(name));
}

/* ---- Tables ---- */

/* TABLE, VIEW, SYSTEM TABLE and LOCAL TEMPORARY, of information_schema's words. */
#define TABLE_TYPE                                                                                              \
  "CASE WHEN table_schema IN ('information_schema', 'pg_catalog') THEN 'SYSTEM TABLE' "                         \
  "WHEN table_type = 'BASE TABLE' THEN 'TABLE' ELSE table_type END"

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
    add_format(b, "SELECT DISTINCT %s AS \"TABLE_CAT\", %s AS \"TABLE_SCHEM\"", lists_catalogs ? "catalog_name" : nothing,
               lists_schemas ? "schema_name" : nothing);
    add_format(b, ", %s AS \"TABLE_NAME\", %s AS \"TABLE_TYPE\", %s AS \"REMARKS\" FROM information_schema.schemata ORDER BY 1, 2",
               nothing, nothing, nothing);
    return;
  }
  if (lists_types) {
    add_format(b, "SELECT %s AS \"TABLE_CAT\", %s AS \"TABLE_SCHEM\", %s AS \"TABLE_NAME\", type AS \"TABLE_TYPE\", %s AS \"REMARKS\" "
               "FROM (VALUES ('LOCAL TEMPORARY'), ('SYSTEM TABLE'), ('TABLE'), ('VIEW')) AS types (type) ORDER BY 4",
               nothing, nothing, nothing, nothing);
    return;
  }
  add_format(b, "SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS \"TABLE_NAME\", " TABLE_TYPE
             " AS \"TABLE_TYPE\", %s AS \"REMARKS\" FROM information_schema.tables WHERE TRUE", nothing);
  add_pattern(s, b, "table_catalog", is_empty(catalog) ? NULL : catalog);
  add_pattern(s, b, "table_schema", is_empty(schema) ? NULL : schema);
  add_pattern(s, b, "table_name", is_empty(table) ? NULL : table);
  add_types(b, types);
  add_text(b, " ORDER BY 4, 1, 2, 3");
}

SQLRETURN SQL_API SQLTablesW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                             SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length, SQLWCHAR *types,
                             SQLSMALLINT types_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}, {types, types_length}};
  names n;
  if (read_names(s, given, 4, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  builder b = {0};
  add_tables(s, &n, &b);
  free_names(&n);
  return leave_statement(s, run_query(s, &b));
}

/* ---- Columns ---- */

/* Adds CASE data_type WHEN … for one fact of the types that information_schema names. */
typedef enum { FACT_TYPE, FACT_SIZE, FACT_OCTETS, FACT_VERBOSE, FACT_SUBCODE, FACT_RADIX, FACT_NAME } fact;

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
    add_text(b, type == SQL_REAL || type == SQL_DOUBLE                                                      ? "2"
                : type == SQL_SMALLINT || type == SQL_INTEGER || type == SQL_BIGINT || type == SQL_DECIMAL ? "10"
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

static void add_fact(const statement *s, builder *b, fact wanted, const char *cast, const char *name) {
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

static void add_columns(statement *s, const names *n, builder *b) {
  add_text(b, "SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS \"TABLE_NAME\", "
              "column_name AS \"COLUMN_NAME\"");
  add_fact(s, b, FACT_TYPE, "SMALLINT", "DATA_TYPE");
  add_fact(s, b, FACT_NAME, "VARCHAR", "TYPE_NAME");
  add_fact(s, b, FACT_SIZE, "INTEGER", "COLUMN_SIZE");
  add_fact(s, b, FACT_OCTETS, "INTEGER", "BUFFER_LENGTH");
  add_text(b, ", CAST(CASE WHEN data_type IN ('smallint', 'integer', 'bigint', 'numeric') THEN numeric_scale "
              "WHEN data_type LIKE 'time%' THEN datetime_precision END AS SMALLINT) AS \"DECIMAL_DIGITS\"");
  add_fact(s, b, FACT_RADIX, "SMALLINT", "NUM_PREC_RADIX");
  add_text(b, ", CAST(CASE is_nullable WHEN 'NO' THEN 0 ELSE 1 END AS SMALLINT) AS \"NULLABLE\", "
              "CAST(NULL AS VARCHAR) AS \"REMARKS\", column_default AS \"COLUMN_DEF\"");
  add_fact(s, b, FACT_VERBOSE, "SMALLINT", "SQL_DATA_TYPE");
  add_fact(s, b, FACT_SUBCODE, "SMALLINT", "SQL_DATETIME_SUB");
  add_text(b, ", CAST(CASE WHEN data_type IN ('character varying', 'text', 'bytea', 'json') THEN ");
  add_format(b, "%lu", (unsigned long)s->conn->text_size);
  add_text(b, " END AS INTEGER) AS \"CHAR_OCTET_LENGTH\", CAST(ordinal_position AS INTEGER) AS \"ORDINAL_POSITION\", "
              "is_nullable AS \"IS_NULLABLE\" FROM information_schema.columns WHERE TRUE");
  add_name(s, b, "table_catalog", is_empty(n->text[0]) ? NULL : n->text[0]);
  add_pattern(s, b, "table_schema", is_empty(n->text[1]) ? NULL : n->text[1]);
  add_pattern(s, b, "table_name", n->text[2]);
  add_pattern(s, b, "column_name", n->text[3]);
  add_text(b, " ORDER BY 1, 2, 3, 17");
}

SQLRETURN SQL_API SQLColumnsW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                              SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length, SQLWCHAR *column,
                              SQLSMALLINT column_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}, {column, column_length}};
  names n;
  if (read_names(s, given, 4, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  builder b = {0};
  add_columns(s, &n, &b);
  free_names(&n);
  return leave_statement(s, run_query(s, &b));
}

/* ---- Keys ---- */

static SQLRETURN wants_table(statement *s, const char *table) {
  return table != NULL ? SQL_SUCCESS : fail(s, "HY009", "there is no name of a table");
}

SQLRETURN SQL_API SQLPrimaryKeysW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                  SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  names n;
  if (read_names(s, given, 3, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  if (wants_table(s, n.text[2]) != SQL_SUCCESS) {
    free_names(&n);
    return leave_statement(s, SQL_ERROR);
  }
  builder b = {0};
  add_text(&b, "SELECT k.table_catalog AS \"TABLE_CAT\", k.table_schema AS \"TABLE_SCHEM\", k.table_name AS \"TABLE_NAME\", "
               "k.column_name AS \"COLUMN_NAME\", CAST(k.ordinal_position AS SMALLINT) AS \"KEY_SEQ\", k.constraint_name AS \"PK_NAME\" "
               "FROM information_schema.key_column_usage k JOIN information_schema.table_constraints c "
               "ON c.constraint_catalog = k.constraint_catalog AND c.constraint_schema = k.constraint_schema "
               "AND c.constraint_name = k.constraint_name AND c.table_name = k.table_name "
               "WHERE c.constraint_type = 'PRIMARY KEY'");
  add_name(s, &b, "k.table_catalog", is_empty(n.text[0]) ? NULL : n.text[0]);
  add_name(s, &b, "k.table_schema", is_empty(n.text[1]) ? NULL : n.text[1]);
  add_name(s, &b, "k.table_name", n.text[2]);
  add_text(&b, " ORDER BY 1, 2, 3, 5");
  free_names(&n);
  return leave_statement(s, run_query(s, &b));
}

#define RULE(column)                                                                                            \
  "CAST(CASE r." column " WHEN 'CASCADE' THEN 0 WHEN 'RESTRICT' THEN 1 WHEN 'SET NULL' THEN 2 "                 \
  "WHEN 'SET DEFAULT' THEN 4 ELSE 3 END AS SMALLINT)"

static void add_foreign_keys(statement *s, const names *n, builder *b) {
  add_text(b, "SELECT p.table_catalog AS \"PKTABLE_CAT\", p.table_schema AS \"PKTABLE_SCHEM\", p.table_name AS \"PKTABLE_NAME\", "
              "p.column_name AS \"PKCOLUMN_NAME\", f.table_catalog AS \"FKTABLE_CAT\", f.table_schema AS \"FKTABLE_SCHEM\", "
              "f.table_name AS \"FKTABLE_NAME\", f.column_name AS \"FKCOLUMN_NAME\", "
              "CAST(f.ordinal_position AS SMALLINT) AS \"KEY_SEQ\", " RULE("update_rule") " AS \"UPDATE_RULE\", "
              RULE("delete_rule") " AS \"DELETE_RULE\", f.constraint_name AS \"FK_NAME\", p.constraint_name AS \"PK_NAME\", "
              "CAST(7 AS SMALLINT) AS \"DEFERRABILITY\" "
              "FROM information_schema.referential_constraints r JOIN information_schema.key_column_usage f "
              "ON f.constraint_catalog = r.constraint_catalog AND f.constraint_schema = r.constraint_schema "
              "AND f.constraint_name = r.constraint_name JOIN information_schema.key_column_usage p "
              "ON p.constraint_catalog = r.unique_constraint_catalog AND p.constraint_schema = r.unique_constraint_schema "
              "AND p.constraint_name = r.unique_constraint_name AND p.ordinal_position = f.position_in_unique_constraint "
              "WHERE TRUE");
  static const char *const columns[] = {"p.table_catalog", "p.table_schema", "p.table_name",
                                        "f.table_catalog", "f.table_schema", "f.table_name"};
  for (int i = 0; i < ARGUMENTS; i++) add_name(s, b, columns[i], is_empty(n->text[i]) ? NULL : n->text[i]);
  add_text(b, is_empty(n->text[2]) || n->text[2] == NULL ? " ORDER BY 1, 2, 3, 12, 9" : " ORDER BY 5, 6, 7, 12, 9");
}

SQLRETURN SQL_API SQLForeignKeysW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                  SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length,
                                  SQLWCHAR *of_catalog, SQLSMALLINT of_catalog_length, SQLWCHAR *of_schema,
                                  SQLSMALLINT of_schema_length, SQLWCHAR *of_table, SQLSMALLINT of_table_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length},       {schema, schema_length},       {table, table_length},
                        {of_catalog, of_catalog_length}, {of_schema, of_schema_length}, {of_table, of_table_length}};
  names n;
  if (read_names(s, given, 6, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  SQLRETURN returned = n.text[2] != NULL || n.text[5] != NULL ? SQL_SUCCESS : wants_table(s, NULL);
  builder b = {0};
  if (returned == SQL_SUCCESS) add_foreign_keys(s, &n, &b);
  free_names(&n);
  return leave_statement(s, returned == SQL_SUCCESS ? run_query(s, &b) : returned);
}

/* The indexes that keep keys unique are all that there are. */
SQLRETURN SQL_API SQLStatisticsW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                 SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length,
                                 SQLUSMALLINT unique, SQLUSMALLINT accuracy) {
  (void)accuracy;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  if (unique != SQL_INDEX_UNIQUE && unique != SQL_INDEX_ALL)
    return leave_statement(s, fail(s, "HY100", "%u is neither SQL_INDEX_UNIQUE nor SQL_INDEX_ALL", (unsigned)unique));
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  names n;
  if (read_names(s, given, 3, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  if (wants_table(s, n.text[2]) != SQL_SUCCESS) {
    free_names(&n);
    return leave_statement(s, SQL_ERROR);
  }
  builder b = {0};
  add_text(&b, "SELECT k.table_catalog AS \"TABLE_CAT\", k.table_schema AS \"TABLE_SCHEM\", k.table_name AS \"TABLE_NAME\", "
               "CAST(0 AS SMALLINT) AS \"NON_UNIQUE\", CAST(NULL AS VARCHAR) AS \"INDEX_QUALIFIER\", "
               "k.constraint_name AS \"INDEX_NAME\", CAST(3 AS SMALLINT) AS \"TYPE\", "
               "CAST(k.ordinal_position AS SMALLINT) AS \"ORDINAL_POSITION\", k.column_name AS \"COLUMN_NAME\", "
               "CAST(NULL AS VARCHAR) AS \"ASC_OR_DESC\", CAST(NULL AS INTEGER) AS \"CARDINALITY\", "
               "CAST(NULL AS INTEGER) AS \"PAGES\", CAST(NULL AS VARCHAR) AS \"FILTER_CONDITION\" "
               "FROM information_schema.key_column_usage k JOIN information_schema.table_constraints c "
               "ON c.constraint_catalog = k.constraint_catalog AND c.constraint_schema = k.constraint_schema "
               "AND c.constraint_name = k.constraint_name AND c.table_name = k.table_name "
               "WHERE c.constraint_type IN ('PRIMARY KEY', 'UNIQUE')");
  add_name(s, &b, "k.table_catalog", is_empty(n.text[0]) ? NULL : n.text[0]);
  add_name(s, &b, "k.table_schema", is_empty(n.text[1]) ? NULL : n.text[1]);
  add_name(s, &b, "k.table_name", n.text[2]);
  add_text(&b, " ORDER BY 4, 7, 5, 6, 8");
  free_names(&n);
  return leave_statement(s, run_query(s, &b));
}

/* The columns that say which row it is are those of the primary key. No column changes by itself. */
SQLRETURN SQL_API SQLSpecialColumnsW(SQLHSTMT h, SQLUSMALLINT kind, SQLWCHAR *catalog, SQLSMALLINT catalog_length,
                                     SQLWCHAR *schema, SQLSMALLINT schema_length, SQLWCHAR *table,
                                     SQLSMALLINT table_length, SQLUSMALLINT scope, SQLUSMALLINT nullable) {
  (void)scope, (void)nullable;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  if (kind != SQL_BEST_ROWID && kind != SQL_ROWVER)
    return leave_statement(s, fail(s, "HY097", "%u is neither SQL_BEST_ROWID nor SQL_ROWVER", (unsigned)kind));
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  names n;
  if (read_names(s, given, 3, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  if (wants_table(s, n.text[2]) != SQL_SUCCESS) {
    free_names(&n);
    return leave_statement(s, SQL_ERROR);
  }
  builder b = {0};
  add_text(&b, "SELECT CAST(2 AS SMALLINT) AS \"SCOPE\", i.column_name AS \"COLUMN_NAME\"");
  add_fact(s, &b, FACT_TYPE, "SMALLINT", "DATA_TYPE");
  add_fact(s, &b, FACT_NAME, "VARCHAR", "TYPE_NAME");
  add_fact(s, &b, FACT_SIZE, "INTEGER", "COLUMN_SIZE");
  add_fact(s, &b, FACT_OCTETS, "INTEGER", "BUFFER_LENGTH");
  add_text(&b, ", CAST(i.numeric_scale AS SMALLINT) AS \"DECIMAL_DIGITS\", CAST(1 AS SMALLINT) AS \"PSEUDO_COLUMN\" "
               "FROM information_schema.key_column_usage k JOIN information_schema.table_constraints c "
               "ON c.constraint_catalog = k.constraint_catalog AND c.constraint_schema = k.constraint_schema "
               "AND c.constraint_name = k.constraint_name AND c.table_name = k.table_name "
               "JOIN information_schema.columns i ON i.table_catalog = k.table_catalog AND i.table_schema = k.table_schema "
               "AND i.table_name = k.table_name AND i.column_name = k.column_name WHERE c.constraint_type = 'PRIMARY KEY'");
  if (kind == SQL_ROWVER) add_text(&b, " AND FALSE");
  add_name(s, &b, "k.table_catalog", is_empty(n.text[0]) ? NULL : n.text[0]);
  add_name(s, &b, "k.table_schema", is_empty(n.text[1]) ? NULL : n.text[1]);
  add_name(s, &b, "k.table_name", n.text[2]);
  add_text(&b, " ORDER BY k.ordinal_position");
  free_names(&n);
  return leave_statement(s, run_query(s, &b));
}

/* ---- Privileges ---- */

static SQLRETURN privileges(statement *s, const name_given *given, bool are_of_columns) {
  names n;
  if (read_names(s, given, are_of_columns ? 4 : 3, &n) != SQL_SUCCESS) return SQL_ERROR;
  builder b = {0};
  add_format(&b, "SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS \"TABLE_NAME\"%s, "
                 "grantor AS \"GRANTOR\", grantee AS \"GRANTEE\", privilege_type AS \"PRIVILEGE\", "
                 "is_grantable AS \"IS_GRANTABLE\" FROM information_schema.%s WHERE TRUE",
             are_of_columns ? ", column_name AS \"COLUMN_NAME\"" : "", are_of_columns ? "column_privileges" : "table_privileges");
  add_name(s, &b, "table_catalog", is_empty(n.text[0]) ? NULL : n.text[0]);
  if (are_of_columns) {
    add_name(s, &b, "table_schema", is_empty(n.text[1]) ? NULL : n.text[1]);
    add_name(s, &b, "table_name", n.text[2]);
    add_pattern(s, &b, "column_name", n.text[3]);
  } else {
    add_pattern(s, &b, "table_schema", is_empty(n.text[1]) ? NULL : n.text[1]);
    add_pattern(s, &b, "table_name", n.text[2]);
  }
  add_text(&b, are_of_columns ? " ORDER BY 1, 2, 3, 4, 7" : " ORDER BY 1, 2, 3, 6");
  free_names(&n);
  return run_query(s, &b);
}

SQLRETURN SQL_API SQLTablePrivilegesW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                      SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  return leave_statement(s, privileges(s, given, false));
}

SQLRETURN SQL_API SQLColumnPrivilegesW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                       SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length,
                                       SQLWCHAR *column, SQLSMALLINT column_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}, {column, column_length}};
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
  add_text(&b, "SELECT CAST(NULL AS VARCHAR) AS \"PROCEDURE_CAT\", CAST(NULL AS VARCHAR) AS \"PROCEDURE_SCHEM\", "
               "CAST(NULL AS VARCHAR) AS \"PROCEDURE_NAME\", CAST(NULL AS INTEGER) AS \"NUM_INPUT_PARAMS\", "
               "CAST(NULL AS INTEGER) AS \"NUM_OUTPUT_PARAMS\", CAST(NULL AS INTEGER) AS \"NUM_RESULT_SETS\", "
               "CAST(NULL AS VARCHAR) AS \"REMARKS\", CAST(NULL AS SMALLINT) AS \"PROCEDURE_TYPE\" WHERE FALSE");
  return leave_statement(s, run_query(s, &b));
}

SQLRETURN SQL_API SQLProcedureColumnsW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                       SQLSMALLINT schema_length, SQLWCHAR *name, SQLSMALLINT name_length,
                                       SQLWCHAR *column, SQLSMALLINT column_length) {
  (void)catalog, (void)catalog_length, (void)schema, (void)schema_length, (void)name, (void)name_length;
  (void)column, (void)column_length;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  static const char *const columns[][2] = {
      {"VARCHAR", "PROCEDURE_CAT"}, {"VARCHAR", "PROCEDURE_SCHEM"}, {"VARCHAR", "PROCEDURE_NAME"},
      {"VARCHAR", "COLUMN_NAME"}, {"SMALLINT", "COLUMN_TYPE"}, {"SMALLINT", "DATA_TYPE"}, {"VARCHAR", "TYPE_NAME"},
      {"INTEGER", "COLUMN_SIZE"}, {"INTEGER", "BUFFER_LENGTH"}, {"SMALLINT", "DECIMAL_DIGITS"},
      {"SMALLINT", "NUM_PREC_RADIX"}, {"SMALLINT", "NULLABLE"}, {"VARCHAR", "REMARKS"}, {"VARCHAR", "COLUMN_DEF"},
      {"SMALLINT", "SQL_DATA_TYPE"}, {"SMALLINT", "SQL_DATETIME_SUB"}, {"INTEGER", "CHAR_OCTET_LENGTH"},
      {"INTEGER", "ORDINAL_POSITION"}, {"VARCHAR", "IS_NULLABLE"},
  };
  builder b = {0};
  add_text(&b, "SELECT ");
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    add_format(&b, "%sCAST(NULL AS %s) AS \"%s\"", i > 0 ? ", " : "", columns[i][0], columns[i][1]);
  add_text(&b, " WHERE FALSE");
  return leave_statement(s, run_query(s, &b));
}

/* ---- Types ---- */

typedef struct {
  const char *name;
  SQLSMALLINT type;
  const char *prefix, *suffix, *parameters;
  bool is_case_sensitive;
  SQLSMALLINT searchable, least_scale, most_scale; /* scale: -1 for none */
  hypostyle_type of;
} type_row;

/* By DATA_TYPE, and by how close a type is to it. */
static const type_row type_rows[] = {
    {"UUID", SQL_GUID, "'", "'", NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_UUID},
    {"JSON", SQL_WLONGVARCHAR, "'", "'", NULL, true, SQL_SEARCHABLE, -1, -1, HYPOSTYLE_JSON},
    {"VARCHAR", SQL_WLONGVARCHAR, "'", "'", NULL, true, SQL_SEARCHABLE, -1, -1, HYPOSTYLE_VARCHAR},
    {"VARCHAR", SQL_WVARCHAR, "'", "'", NULL, true, SQL_SEARCHABLE, -1, -1, HYPOSTYLE_VARCHAR},
    {"VARCHAR", SQL_WCHAR, "'", "'", NULL, true, SQL_SEARCHABLE, -1, -1, HYPOSTYLE_VARCHAR},
    {"BOOLEAN", SQL_BIT, NULL, NULL, NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_BOOLEAN},
    {"SMALLINT", SQL_TINYINT, NULL, NULL, NULL, false, SQL_PRED_BASIC, 0, 0, HYPOSTYLE_SMALLINT},
    {"BIGINT", SQL_BIGINT, NULL, NULL, NULL, false, SQL_PRED_BASIC, 0, 0, HYPOSTYLE_BIGINT},
    {"BLOB", SQL_LONGVARBINARY, "'\\x", "'", NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_BLOB},
    {"BLOB", SQL_VARBINARY, "'\\x", "'", NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_BLOB},
    {"BLOB", SQL_BINARY, "'\\x", "'", NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_BLOB},
    {"VARCHAR", SQL_LONGVARCHAR, "'", "'", NULL, true, SQL_SEARCHABLE, -1, -1, HYPOSTYLE_VARCHAR},
    {"VARCHAR", SQL_CHAR, "'", "'", NULL, true, SQL_SEARCHABLE, -1, -1, HYPOSTYLE_VARCHAR},
    {"DECIMAL", SQL_NUMERIC, NULL, NULL, "precision,scale", false, SQL_PRED_BASIC, 0, 76, HYPOSTYLE_DECIMAL},
    {"DECIMAL", SQL_DECIMAL, NULL, NULL, "precision,scale", false, SQL_PRED_BASIC, 0, 76, HYPOSTYLE_DECIMAL},
    {"INTEGER", SQL_INTEGER, NULL, NULL, NULL, false, SQL_PRED_BASIC, 0, 0, HYPOSTYLE_INTEGER},
    {"SMALLINT", SQL_SMALLINT, NULL, NULL, NULL, false, SQL_PRED_BASIC, 0, 0, HYPOSTYLE_SMALLINT},
    {"DOUBLE", SQL_FLOAT, NULL, NULL, NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_DOUBLE},
    {"REAL", SQL_REAL, NULL, NULL, NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_FLOAT},
    {"DOUBLE", SQL_DOUBLE, NULL, NULL, NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_DOUBLE},
    {"VARCHAR", SQL_VARCHAR, "'", "'", NULL, true, SQL_SEARCHABLE, -1, -1, HYPOSTYLE_VARCHAR},
    {"DATE", SQL_TYPE_DATE, "DATE '", "'", NULL, false, SQL_PRED_BASIC, -1, -1, HYPOSTYLE_DATE},
    {"TIME", SQL_TYPE_TIME, "TIME '", "'", NULL, false, SQL_PRED_BASIC, 6, 6, HYPOSTYLE_TIME},
    {"TIMESTAMP", SQL_TYPE_TIMESTAMP, "TIMESTAMP '", "'", NULL, false, SQL_PRED_BASIC, 0, 9, HYPOSTYLE_TIMESTAMP},
};

static void add_text_or_null(builder *b, const char *text) {
  add_text(b, ", ");
  if (text == NULL)
    add_text(b, "NULL");
  else
    add_literal(b, text, strlen(text));
}

static void add_number_or_null(builder *b, bool is_number, long number) {
  if (is_number)
    add_format(b, ", %ld", number);
  else
    add_text(b, ", NULL");
}

static void add_type_row(const statement *s, builder *b, const type_row *t) {
  hypostyle_column told = {.type = t->of, .precision = 76, .scale = t->of == HYPOSTYLE_TIMESTAMP ? 6 : 0};
  type_facts facts = facts_of(&told, s->conn->text_size);
  bool is_exact = t->least_scale >= 0 && t->type < SQL_TYPE_DATE, is_real = facts.sql_type == SQL_REAL || facts.sql_type == SQL_DOUBLE;
  add_text(b, "(");
  add_literal(b, t->name, strlen(t->name));
  add_format(b, ", %d, %lu", (int)t->type, (unsigned long)facts.size);
  add_text_or_null(b, t->prefix);
  add_text_or_null(b, t->suffix);
  add_text_or_null(b, t->parameters);
  add_format(b, ", 1, %d, %d", t->is_case_sensitive, (int)t->searchable);
  add_number_or_null(b, is_exact || is_real, 0);
  add_text(b, ", 0");
  add_number_or_null(b, is_exact || is_real, 0);
  add_text_or_null(b, t->name);
  add_number_or_null(b, t->least_scale >= 0, t->least_scale);
  add_number_or_null(b, t->most_scale >= 0, t->most_scale);
  add_format(b, ", %d", (int)verbose_type(t->type));
  add_number_or_null(b, verbose_type(t->type) == SQL_DATETIME, interval_code(t->type));
  add_number_or_null(b, is_exact || is_real, is_real ? 2 : 10);
  add_text(b, ", NULL)");
}

static SQLRETURN type_info(statement *s, SQLSMALLINT type) {
  static const char *const columns[][2] = {
      {"VARCHAR", "TYPE_NAME"}, {"SMALLINT", "DATA_TYPE"}, {"INTEGER", "COLUMN_SIZE"}, {"VARCHAR", "LITERAL_PREFIX"},
      {"VARCHAR", "LITERAL_SUFFIX"}, {"VARCHAR", "CREATE_PARAMS"}, {"SMALLINT", "NULLABLE"},
      {"SMALLINT", "CASE_SENSITIVE"}, {"SMALLINT", "SEARCHABLE"}, {"SMALLINT", "UNSIGNED_ATTRIBUTE"},
      {"SMALLINT", "FIXED_PREC_SCALE"}, {"SMALLINT", "AUTO_UNIQUE_VALUE"}, {"VARCHAR", "LOCAL_TYPE_NAME"},
      {"SMALLINT", "MINIMUM_SCALE"}, {"SMALLINT", "MAXIMUM_SCALE"}, {"SMALLINT", "SQL_DATA_TYPE"},
      {"SMALLINT", "SQL_DATETIME_SUB"}, {"INTEGER", "NUM_PREC_RADIX"}, {"SMALLINT", "INTERVAL_PRECISION"},
  };
  enum { COLUMNS = sizeof columns / sizeof *columns };
  builder b = {0};
  add_text(&b, "SELECT ");
  for (size_t i = 0; i < COLUMNS; i++)
    add_format(&b, "%sCAST(c%zu AS %s) AS \"%s\"", i > 0 ? ", " : "", i, columns[i][0], columns[i][1]);
  add_text(&b, " FROM (VALUES ");
  for (size_t i = 0; i < sizeof type_rows / sizeof *type_rows; i++) {
    if (i > 0) add_text(&b, ", ");
    add_type_row(s, &b, &type_rows[i]);
  }
  add_text(&b, ") AS types (");
  for (size_t i = 0; i < COLUMNS; i++) add_format(&b, "%sc%zu", i > 0 ? ", " : "", i);
  add_text(&b, ")");
  if (type != SQL_ALL_TYPES) add_format(&b, " WHERE c1 = %d", (int)type);
  return run_query(s, &b);
}

SQLRETURN SQL_API SQLGetTypeInfoW(SQLHSTMT h, SQLSMALLINT type) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  bool is_known = type == SQL_ALL_TYPES || is_known_sql_type(type);
  if (type == SQL_DATE) type = SQL_TYPE_DATE;
  if (type == SQL_TIME) type = SQL_TYPE_TIME;
  if (type == SQL_TIMESTAMP) type = SQL_TYPE_TIMESTAMP;
  return leave_statement(s, is_known ? type_info(s, type) : fail(s, "HY004", "there is no SQL type %d", (int)type));
}
