/* SQLGetTypeInfo: the types of columns that a program may ask for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "catalog.h"
#include <string.h>

typedef struct {
  const char *name;
  SQLSMALLINT type;
  const char *prefix, *suffix, *parameters;
  bool is_case_sensitive;
  SQLSMALLINT searchable, least_scale, most_scale; /* scale: -1 for none */
  hypostyle_type of;
} type_row;

/* Sorted by DATA_TYPE, and by how close a type is to it. */
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
    {"TIMESTAMP", SQL_TYPE_TIMESTAMP, "TIMESTAMP '", "'", NULL, false, SQL_PRED_BASIC, 0, 9,
     HYPOSTYLE_TIMESTAMP},
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
  bool is_exact = t->least_scale >= 0 && t->type < SQL_TYPE_DATE,
       is_real = facts.sql_type == SQL_REAL || facts.sql_type == SQL_DOUBLE;
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
      {"VARCHAR", "TYPE_NAME"},           {"SMALLINT", "DATA_TYPE"},        {"INTEGER", "COLUMN_SIZE"},
      {"VARCHAR", "LITERAL_PREFIX"},      {"VARCHAR", "LITERAL_SUFFIX"},    {"VARCHAR", "CREATE_PARAMS"},
      {"SMALLINT", "NULLABLE"},           {"SMALLINT", "CASE_SENSITIVE"},   {"SMALLINT", "SEARCHABLE"},
      {"SMALLINT", "UNSIGNED_ATTRIBUTE"}, {"SMALLINT", "FIXED_PREC_SCALE"}, {"SMALLINT", "AUTO_UNIQUE_VALUE"},
      {"VARCHAR", "LOCAL_TYPE_NAME"},     {"SMALLINT", "MINIMUM_SCALE"},    {"SMALLINT", "MAXIMUM_SCALE"},
      {"SMALLINT", "SQL_DATA_TYPE"},      {"SMALLINT", "SQL_DATETIME_SUB"}, {"INTEGER", "NUM_PREC_RADIX"},
      {"SMALLINT", "INTERVAL_PRECISION"},
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
  return leave_statement(s, is_known ? type_info(s, type)
                                     : fail(s, "HY004", "there is no SQL type %d", (int)type));
}
