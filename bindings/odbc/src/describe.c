/* What the columns of a result are: SQLDescribeCol, SQLColAttribute, and the descriptor behind them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- From a result ---- */

static bool has_any_length(const hypostyle_column *told) {
  switch (told->type) {
  case HYPOSTYLE_VARCHAR:
  case HYPOSTYLE_JSON:
  case HYPOSTYLE_BLOB:
  case HYPOSTYLE_FIXED_BINARY: return true;
  default: return told->type >= HYPOSTYLE_LIST;
  }
}

/* Returns the length in bytes of the longest value. */
static SQLULEN longest(const hypostyle_values *values) {
  int64_t most = values->width;
  if (values->offsets == NULL) return most < 1 ? 1 : (SQLULEN)most;
  uint64_t count = values->flags & HYPOSTYLE_VALUES_DICTIONARY ? values->dictionary_count : values->count;
  most = 1;
  for (uint64_t i = 0; i < count; i++) {
    int64_t length = values->offsets[i + 1] - values->offsets[i];
    if (length > most) most = length;
  }
  return (SQLULEN)most;
}

/* Returns the length that the texts of a column are said to have: the longest one's, if all are there. */
static SQLULEN text_size_of(const statement *s, const result *r, size_t column) {
  bool is_known = r->is_whole && (r->batch_count == 0 || r->batches[0].first == 0);
  if (!is_known || !has_any_length(&r->columns[column])) return s->conn->text_size;
  SQLULEN most = 1;
  for (size_t i = 0; i < r->batch_count; i++) {
    SQLULEN length = longest(&r->batches[i].values[column]);
    if (length > most) most = length;
  }
  return most;
}

static SQLRETURN describe_column(statement *s, SQLSMALLINT number, const hypostyle_column *told,
                                 SQLULEN text_size) {
  record *r = record_at(s->ird, number);
  if (r == NULL) return fail_memory(s);
  clear_record(r);
  type_facts facts = facts_of(told, text_size);
  set_concise_type(r, facts.sql_type);
  r->length = facts.size;
  r->precision = (SQLSMALLINT)(facts.size > INT16_MAX ? INT16_MAX : facts.size);
  if (r->type == SQL_DATETIME) r->precision = facts.digits;
  r->scale = facts.digits;
  r->octet_length = facts.octets;
  r->nullable = told->nullable ? SQL_NULLABLE : SQL_NO_NULLS;
  r->name = strndup(told->name == NULL ? "" : told->name, told->name_length);
  r->type_name = strndup(told->type_name == NULL ? "" : told->type_name, told->type_name_length);
  return r->name == NULL || r->type_name == NULL ? fail_memory(s) : SQL_SUCCESS;
}

static SQLRETURN describe_result(statement *s, const result *r) {
  for (size_t i = 0; i < r->column_count; i++) {
    SQLULEN text_size = text_size_of(s, r, i);
    if (describe_column(s, (SQLSMALLINT)(i + 1), &r->columns[i], text_size) != SQL_SUCCESS) return SQL_ERROR;
  }
  return SQL_SUCCESS;
}

/* ---- From what is prepared ---- */

static int32_t digits_of_unit(char unit) { return unit == 's' ? 0 : unit == 'm' ? 3 : unit == 'u' ? 6 : 9; }

/* Reads a format of Arrow as a type. */
static void read_format(const struct ArrowSchema *schema, hypostyle_column *told) {
  static const struct {
    const char *format;
    hypostyle_type type;
    const char *name;
  } formats[] = {
      {"b", HYPOSTYLE_BOOLEAN, "BOOLEAN"},     {"c", HYPOSTYLE_TINYINT, "TINYINT"},
      {"C", HYPOSTYLE_UTINYINT, "UTINYINT"},   {"s", HYPOSTYLE_SMALLINT, "SMALLINT"},
      {"S", HYPOSTYLE_USMALLINT, "USMALLINT"}, {"i", HYPOSTYLE_INTEGER, "INTEGER"},
      {"I", HYPOSTYLE_UINTEGER, "UINTEGER"},   {"l", HYPOSTYLE_BIGINT, "BIGINT"},
      {"L", HYPOSTYLE_UBIGINT, "UBIGINT"},     {"f", HYPOSTYLE_FLOAT, "FLOAT"},
      {"g", HYPOSTYLE_DOUBLE, "DOUBLE"},       {"tdD", HYPOSTYLE_DATE, "DATE"},
      {"ttu", HYPOSTYLE_TIME, "TIME"},         {"tin", HYPOSTYLE_INTERVAL, "INTERVAL"},
      {"u", HYPOSTYLE_VARCHAR, "VARCHAR"},     {"U", HYPOSTYLE_VARCHAR, "VARCHAR"},
      {"vu", HYPOSTYLE_VARCHAR, "VARCHAR"},    {"n", HYPOSTYLE_VARCHAR, "VARCHAR"},
      {"z", HYPOSTYLE_BLOB, "BLOB"},           {"Z", HYPOSTYLE_BLOB, "BLOB"},
      {"vz", HYPOSTYLE_BLOB, "BLOB"},          {"w:16", HYPOSTYLE_UUID, "UUID"},
  };
  if (schema->dictionary != NULL) {
    read_format(schema->dictionary, told);
    return;
  }
  const char *format = schema->format;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(format, formats[i].format) == 0) {
      told->type = formats[i].type;
      told->type_name = formats[i].name;
      return;
    }
  int precision = 0, scale = 0;
  if (sscanf(format, "d:%d,%d", &precision, &scale) == 2) {
    told->type = HYPOSTYLE_DECIMAL, told->precision = precision, told->scale = scale,
    told->type_name = "DECIMAL";
  } else if (strncmp(format, "ts", 2) == 0 && format[2] != '\0') {
    bool has_zone = format[3] == ':' && format[4] != '\0';
    told->type = has_zone ? HYPOSTYLE_TIMESTAMPTZ : HYPOSTYLE_TIMESTAMP;
    told->type_name = has_zone ? "TIMESTAMP WITH TIME ZONE" : "TIMESTAMP";
    told->scale = digits_of_unit(format[2]);
  } else if (strncmp(format, "tD", 2) == 0) {
    told->type = HYPOSTYLE_DURATION, told->type_name = "INTERVAL";
  } else if (strncmp(format, "w:", 2) == 0) {
    told->type = HYPOSTYLE_FIXED_BINARY, told->type_name = "BLOB";
  } else {
    told->type = HYPOSTYLE_LIST, told->type_name = "";
  }
}

static SQLRETURN describe_schema(statement *s, const struct ArrowSchema *schema) {
  if (schema->n_children > INT16_MAX)
    return fail(s, "54011", "the result has %lld columns, and ODBC counts up to %d", (long long)schema->n_children,
                INT16_MAX);
  for (int64_t i = 0; i < schema->n_children; i++) {
    const struct ArrowSchema *child = schema->children[i];
    hypostyle_column told = {.size = sizeof told, .name = child->name, .type_name = ""};
    read_format(child, &told);
    told.name_length = strlen(told.name == NULL ? "" : told.name);
    told.type_name_length = strlen(told.type_name);
    told.nullable = (child->flags & ARROW_FLAG_NULLABLE) != 0;
    if (describe_column(s, (SQLSMALLINT)(i + 1), &told, s->conn->text_size) != SQL_SUCCESS) return SQL_ERROR;
  }
  return SQL_SUCCESS;
}

/* The columns of the first statement of a text. */
static SQLRETURN describe_prepared(statement *s) {
  struct ArrowSchema schema;
  hypostyle_error *error = NULL;
  memset(&schema, 0, sizeof schema);
  if (s->part_count == 0) return SQL_SUCCESS;
  hypostyle_status status = hypostyle_statement_schema(s->parts[0].handle, &schema, &error);
  if (status == HYPOSTYLE_UNSUPPORTED) {
    hypostyle_error_free(&error);
    return SQL_SUCCESS;
  }
  if (status != HYPOSTYLE_OK) return fail_library(s, s->conn, &error);
  SQLRETURN returned = describe_schema(s, &schema);
  if (schema.release != NULL) schema.release(&schema);
  return returned;
}

SQLRETURN describe_columns(statement *s) {
  if (s->is_described) return SQL_SUCCESS;
  set_count(s->ird, 0);
  SQLRETURN returned = SQL_SUCCESS;
  if (s->is_executed) {
    if (s->results != NULL) returned = describe_result(s, s->results);
  } else if (s->is_prepared && !s->gives_value) {
    returned = describe_prepared(s);
  }
  s->is_described = returned == SQL_SUCCESS;
  return returned;
}

/* ---- Calls ---- */

static SQLRETURN count_columns(statement *s, SQLSMALLINT *count) {
  if (!s->is_executed && !s->is_prepared)
    return fail(s, "HY010", "the statement is neither prepared nor executed");
  /* What has been executed need not be described for it, which may read all lengths of texts. */
  if (s->is_executed) {
    if (count != NULL) *count = s->results == NULL ? 0 : (SQLSMALLINT)s->results->column_count;
    return SQL_SUCCESS;
  }
  if (describe_columns(s) != SQL_SUCCESS) return SQL_ERROR;
  if (count != NULL) *count = s->ird->count;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLNumResultCols(SQLHSTMT h, SQLSMALLINT *count) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, count_columns(s, count));
}

static const record *described(statement *s, SQLUSMALLINT number) {
  if (!s->is_executed && !s->is_prepared) {
    fail(s, "HY010", "the statement is neither prepared nor executed");
    return NULL;
  }
  if (describe_columns(s) != SQL_SUCCESS) return NULL;
  const record *r = number > INT16_MAX ? NULL : record_of(s->ird, (SQLSMALLINT)number);
  if (s->ird->count == 0)
    fail(s, "07005", "the statement gives no columns");
  else if (r == NULL)
    fail(s, "07009", "there is no column %u; the result has %d", (unsigned)number, (int)s->ird->count);
  return r;
}

SQLRETURN SQL_API SQLDescribeColW(SQLHSTMT h, SQLUSMALLINT number, SQLWCHAR *name, SQLSMALLINT room,
                                  SQLSMALLINT *told, SQLSMALLINT *type, SQLULEN *size, SQLSMALLINT *digits,
                                  SQLSMALLINT *nullable) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  const record *r = described(s, number);
  if (r == NULL) return leave_statement(s, SQL_ERROR);
  if (type != NULL) *type = r->concise_type;
  if (size != NULL) *size = r->length;
  if (digits != NULL) *digits = r->scale;
  if (nullable != NULL) *nullable = r->nullable;
  return leave_statement(s, give_units(s, r->name, name, room, told));
}

/* What SQLColAttribute calls otherwise than descriptors do. */
static SQLUSMALLINT field_of(SQLUSMALLINT attribute) {
  switch (attribute) {
  case SQL_COLUMN_COUNT: return SQL_DESC_COUNT;
  case SQL_COLUMN_NAME: return SQL_DESC_NAME;
  case SQL_COLUMN_TYPE: return SQL_DESC_CONCISE_TYPE;
  case SQL_COLUMN_LENGTH: return SQL_DESC_OCTET_LENGTH;
  case SQL_COLUMN_PRECISION: return SQL_DESC_PRECISION;
  case SQL_COLUMN_SCALE: return SQL_DESC_SCALE;
  case SQL_COLUMN_NULLABLE: return SQL_DESC_NULLABLE;
  default: return attribute;
  }
}

static bool is_text_field(SQLUSMALLINT field) {
  switch (field) {
  case SQL_DESC_NAME:
  case SQL_DESC_LABEL:
  case SQL_DESC_BASE_COLUMN_NAME:
  case SQL_DESC_BASE_TABLE_NAME:
  case SQL_DESC_TABLE_NAME:
  case SQL_DESC_SCHEMA_NAME:
  case SQL_DESC_CATALOG_NAME:
  case SQL_DESC_TYPE_NAME:
  case SQL_DESC_LOCAL_TYPE_NAME:
  case SQL_DESC_LITERAL_PREFIX:
  case SQL_DESC_LITERAL_SUFFIX: return true;
  default: return false;
  }
}

/* Asks the descriptor, whose lock is that of the statement, and takes over what it says. */
static SQLRETURN ask_descriptor(statement *s, SQLUSMALLINT number, SQLUSMALLINT field, SQLPOINTER text,
                                SQLSMALLINT room, SQLSMALLINT *told, SQLLEN *out) {
  descriptor *d = s->ird;
  SQLLEN value = 0;
  SQLINTEGER length = 0;
  bool is_text = is_text_field(field);
  forget_diagnostics(&d->head);
  SQLRETURN returned =
      descriptor_field(d, (SQLSMALLINT)number, (SQLSMALLINT)field, is_text ? text : &value, room, &length);
  if (returned == SQL_ERROR) return fail(s, "HY091", "a column has no attribute %u", (unsigned)field);
  if (is_text && told != NULL) *told = (SQLSMALLINT)length;
  if (returned == SQL_SUCCESS_WITH_INFO) return warn(s, "01004", "a text of %d bytes was cut", (int)length);
  if (is_text || out == NULL) return returned;
  SQLSMALLINT small;
  SQLINTEGER middle;
  memcpy(&small, &value, sizeof small);
  memcpy(&middle, &value, sizeof middle);
  *out = length == sizeof small ? small : length == sizeof middle ? middle : value;
  return returned;
}

static SQLRETURN column_attribute(statement *s, SQLUSMALLINT number, SQLUSMALLINT attribute, SQLPOINTER text,
                                  SQLSMALLINT room, SQLSMALLINT *told, SQLLEN *out) {
  SQLUSMALLINT field = field_of(attribute);
  if (field == SQL_DESC_COUNT) {
    SQLSMALLINT count;
    if (count_columns(s, &count) != SQL_SUCCESS) return SQL_ERROR;
    if (out != NULL) *out = count;
    return SQL_SUCCESS;
  }
  if (described(s, number) == NULL) return SQL_ERROR;
  return ask_descriptor(s, number, field, text, room, told, out);
}

SQLRETURN SQL_API SQLColAttributeW(SQLHSTMT h, SQLUSMALLINT number, SQLUSMALLINT attribute, SQLPOINTER text,
                                   SQLSMALLINT room, SQLSMALLINT *told, SQLLEN *out) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, column_attribute(s, number, attribute, text, room, told, out));
}
