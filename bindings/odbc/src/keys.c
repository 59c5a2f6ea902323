/* Catalog functions of keys: primary and foreign keys, the indexes behind them, and the columns that say
 * which row it is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "catalog.h"

static SQLRETURN wants_table(statement *s, const char *table) {
  return table != NULL ? SQL_SUCCESS : fail(s, "HY009", "there is no name of a table");
}

/* Reads the names of one table, which must be given. */
static SQLRETURN read_table(statement *s, const name_given *given, names *out) {
  if (read_names(s, given, 3, out) != SQL_SUCCESS) return SQL_ERROR;
  if (wants_table(s, out->text[2]) == SQL_SUCCESS) return SQL_SUCCESS;
  free_names(out);
  return SQL_ERROR;
}

/* The columns of constraints, `k`, each beside its constraint, `c`. */
#define KEYS                                                                                                 \
  "FROM information_schema.key_column_usage k JOIN information_schema.table_constraints c "                  \
  "ON c.constraint_catalog = k.constraint_catalog AND c.constraint_schema = k.constraint_schema "            \
  "AND c.constraint_name = k.constraint_name AND c.table_name = k.table_name "

/* Runs a query of KEYS for that table, and leaves the statement. */
static SQLRETURN run_for_table(statement *s, builder *b, names *n, const char *order) {
  add_name(s, b, "k.table_catalog", unless_empty(n->text[0]));
  add_name(s, b, "k.table_schema", unless_empty(n->text[1]));
  add_name(s, b, "k.table_name", n->text[2]);
  add_text(b, order);
  free_names(n);
  return leave_statement(s, run_query(s, b));
}

SQLRETURN SQL_API SQLPrimaryKeysW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                  SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  names n;
  if (read_table(s, given, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  builder b = {0};
  add_text(&b, "SELECT k.table_catalog AS \"TABLE_CAT\", k.table_schema AS \"TABLE_SCHEM\", k.table_name AS "
               "\"TABLE_NAME\", "
               "k.column_name AS \"COLUMN_NAME\", CAST(k.ordinal_position AS SMALLINT) AS \"KEY_SEQ\", "
               "k.constraint_name AS \"PK_NAME\" "
               KEYS "WHERE c.constraint_type = 'PRIMARY KEY'");
  return run_for_table(s, &b, &n, " ORDER BY 1, 2, 3, 5");
}

#define RULE(column)                                                                                         \
  "CAST(CASE r." column " WHEN 'CASCADE' THEN 0 WHEN 'RESTRICT' THEN 1 WHEN 'SET NULL' THEN 2 "              \
  "WHEN 'SET DEFAULT' THEN 4 ELSE 3 END AS SMALLINT)"

static void add_foreign_keys(statement *s, const names *n, builder *b) {
  add_text(
      b,
      "SELECT p.table_catalog AS \"PKTABLE_CAT\", p.table_schema AS \"PKTABLE_SCHEM\", p.table_name AS "
      "\"PKTABLE_NAME\", "
      "p.column_name AS \"PKCOLUMN_NAME\", f.table_catalog AS \"FKTABLE_CAT\", f.table_schema AS "
      "\"FKTABLE_SCHEM\", "
      "f.table_name AS \"FKTABLE_NAME\", f.column_name AS \"FKCOLUMN_NAME\", "
      "CAST(f.ordinal_position AS SMALLINT) AS \"KEY_SEQ\", " RULE(
          "update_rule") " AS \"UPDATE_RULE\", " RULE("delete_rule") " AS \"DELETE_RULE\", f.constraint_name "
                                                                     "AS \"FK_NAME\", p.constraint_name AS "
                                                                     "\"PK_NAME\", "
                                                                     "CAST(7 AS SMALLINT) AS "
                                                                     "\"DEFERRABILITY\" "
                                                                     "FROM "
                                                                     "information_schema.referential_"
                                                                     "constraints r JOIN "
                                                                     "information_schema.key_column_usage f "
                                                                     "ON f.constraint_catalog = "
                                                                     "r.constraint_catalog AND "
                                                                     "f.constraint_schema = "
                                                                     "r.constraint_schema "
                                                                     "AND f.constraint_name = "
                                                                     "r.constraint_name JOIN "
                                                                     "information_schema.key_column_usage p "
                                                                     "ON p.constraint_catalog = "
                                                                     "r.unique_constraint_catalog AND "
                                                                     "p.constraint_schema = "
                                                                     "r.unique_constraint_schema "
                                                                     "AND p.constraint_name = "
                                                                     "r.unique_constraint_name AND "
                                                                     "p.ordinal_position = "
                                                                     "f.position_in_unique_constraint "
                                                                     "WHERE TRUE");
  static const char *const columns[] = {"p.table_catalog", "p.table_schema", "p.table_name",
                                        "f.table_catalog", "f.table_schema", "f.table_name"};
  for (int i = 0; i < ARGUMENTS; i++) add_name(s, b, columns[i], unless_empty(n->text[i]));
  add_text(b, unless_empty(n->text[2]) == NULL ? " ORDER BY 1, 2, 3, 12, 9" : " ORDER BY 5, 6, 7, 12, 9");
}

SQLRETURN SQL_API SQLForeignKeysW(SQLHSTMT h, SQLWCHAR *catalog, SQLSMALLINT catalog_length, SQLWCHAR *schema,
                                  SQLSMALLINT schema_length, SQLWCHAR *table, SQLSMALLINT table_length,
                                  SQLWCHAR *of_catalog, SQLSMALLINT of_catalog_length, SQLWCHAR *of_schema,
                                  SQLSMALLINT of_schema_length, SQLWCHAR *of_table,
                                  SQLSMALLINT of_table_length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  name_given given[] = {{catalog, catalog_length},     {schema, schema_length},
                        {table, table_length},         {of_catalog, of_catalog_length},
                        {of_schema, of_schema_length}, {of_table, of_table_length}};
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
    return leave_statement(
        s, fail(s, "HY100", "%u is neither SQL_INDEX_UNIQUE nor SQL_INDEX_ALL", (unsigned)unique));
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  names n;
  if (read_table(s, given, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  builder b = {0};
  add_text(&b,
           "SELECT k.table_catalog AS \"TABLE_CAT\", k.table_schema AS \"TABLE_SCHEM\", k.table_name AS "
           "\"TABLE_NAME\", "
           "CAST(0 AS SMALLINT) AS \"NON_UNIQUE\", CAST(NULL AS VARCHAR) AS \"INDEX_QUALIFIER\", "
           "k.constraint_name AS \"INDEX_NAME\", CAST(3 AS SMALLINT) AS \"TYPE\", "
           "CAST(k.ordinal_position AS SMALLINT) AS \"ORDINAL_POSITION\", k.column_name AS \"COLUMN_NAME\", "
           "CAST(NULL AS VARCHAR) AS \"ASC_OR_DESC\", CAST(NULL AS INTEGER) AS \"CARDINALITY\", "
           "CAST(NULL AS INTEGER) AS \"PAGES\", CAST(NULL AS VARCHAR) AS \"FILTER_CONDITION\" "
           KEYS "WHERE c.constraint_type IN ('PRIMARY KEY', 'UNIQUE')");
  return run_for_table(s, &b, &n, " ORDER BY 4, 7, 5, 6, 8");
}

/* The columns that say which row it is are those of the primary key. No column changes by itself. */
SQLRETURN SQL_API SQLSpecialColumnsW(SQLHSTMT h, SQLUSMALLINT kind, SQLWCHAR *catalog,
                                     SQLSMALLINT catalog_length, SQLWCHAR *schema, SQLSMALLINT schema_length,
                                     SQLWCHAR *table, SQLSMALLINT table_length, SQLUSMALLINT scope,
                                     SQLUSMALLINT nullable) {
  (void)scope, (void)nullable;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  if (kind != SQL_BEST_ROWID && kind != SQL_ROWVER)
    return leave_statement(s,
                           fail(s, "HY097", "%u is neither SQL_BEST_ROWID nor SQL_ROWVER", (unsigned)kind));
  name_given given[] = {{catalog, catalog_length}, {schema, schema_length}, {table, table_length}};
  names n;
  if (read_table(s, given, &n) != SQL_SUCCESS) return leave_statement(s, SQL_ERROR);
  builder b = {0};
  add_text(&b, "SELECT CAST(2 AS SMALLINT) AS \"SCOPE\", i.column_name AS \"COLUMN_NAME\"");
  add_fact(s, &b, FACT_TYPE, "SMALLINT", "DATA_TYPE");
  add_fact(s, &b, FACT_NAME, "VARCHAR", "TYPE_NAME");
  add_fact(s, &b, FACT_SIZE, "INTEGER", "COLUMN_SIZE");
  add_fact(s, &b, FACT_OCTETS, "INTEGER", "BUFFER_LENGTH");
  add_text(
      &b,
      ", CAST(i.numeric_scale AS SMALLINT) AS \"DECIMAL_DIGITS\", CAST(1 AS SMALLINT) AS \"PSEUDO_COLUMN\" "
      KEYS "JOIN information_schema.columns i ON i.table_catalog = k.table_catalog AND i.table_schema = "
      "k.table_schema "
      "AND i.table_name = k.table_name AND i.column_name = k.column_name WHERE c.constraint_type = 'PRIMARY "
      "KEY'");
  if (kind == SQL_ROWVER) add_text(&b, " AND FALSE");
  return run_for_table(s, &b, &n, " ORDER BY k.ordinal_position");
}
