/* Parameters: where they are bound, data at execution, and what the database says of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

/* ---- Binding ---- */

static SQLRETURN bind_parameter(statement *s, SQLUSMALLINT number, SQLSMALLINT direction, SQLSMALLINT c_type,
                                SQLSMALLINT sql_type, SQLULEN size, SQLSMALLINT digits, SQLPOINTER data,
                                SQLLEN room, SQLLEN *length) {
  if (number < 1 || number > INT16_MAX) return fail(s, "07009", "there is no parameter %u", (unsigned)number);
  bool may_be_value = direction == SQL_PARAM_OUTPUT && number == 1;
  if (direction == SQL_PARAM_INPUT_OUTPUT || (direction == SQL_PARAM_OUTPUT && !may_be_value))
    return fail(s, "HYC00", "the only output parameter is the value of {?= call …}, the parameter 1");
  if (direction != SQL_PARAM_INPUT && !may_be_value)
    return fail(s, "HY105", "%d is no direction of a parameter", (int)direction);
  if (c_type != SQL_C_DEFAULT && c_size(c_type) < 0)
    return fail(s, "HY003", "there is no C type %d", (int)c_type);
  if (!is_known_sql_type(sql_type)) return fail(s, "HY004", "there is no SQL type %d", (int)sql_type);
  if (room < 0) return fail(s, "HY090", "a buffer has the length %lld", (long long)room);
  if (data == NULL && length == NULL)
    return fail(s, "HY009", "the parameter %u has neither data nor a length", number);
  record *a = record_at(s->apd, (SQLSMALLINT)number), *i = record_at(s->ipd, (SQLSMALLINT)number);
  if (a == NULL || i == NULL) return fail_memory(s);
  clear_record(a);
  clear_record(i);
  set_concise_type(a, c_type == SQL_C_DEFAULT ? default_c_type(sql_type) : c_type);
  a->octet_length = room;
  a->data = data;
  a->octet_length_ptr = a->indicator_ptr = length;
  a->is_bound = true;
  set_concise_type(i, sql_type);
  i->parameter_type = direction;
  i->length = size;
  i->precision = (SQLSMALLINT)(size > INT16_MAX ? INT16_MAX : size);
  i->scale = digits;
  i->nullable = SQL_NULLABLE;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLBindParameter(SQLHSTMT h, SQLUSMALLINT number, SQLSMALLINT direction, SQLSMALLINT c_type,
                                   SQLSMALLINT sql_type, SQLULEN size, SQLSMALLINT digits, SQLPOINTER data,
                                   SQLLEN room, SQLLEN *length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(
      s, bind_parameter(s, number, direction, c_type, sql_type, size, digits, data, room, length));
}

/* ---- Reading ---- */

bool is_ignored_row(const statement *s, size_t row) {
  return s->apd->array_status != NULL && s->apd->array_status[row] == SQL_PARAM_IGNORE;
}

char *element_of(const descriptor *apd, const void *pointer, size_t size, size_t row) {
  if (pointer == NULL) return NULL;
  size_t offset = apd->bind_offset == NULL ? 0 : (size_t)*apd->bind_offset;
  size_t step = apd->bind_type == SQL_PARAM_BIND_BY_COLUMN ? size : apd->bind_type;
  return (char *)(uintptr_t)pointer + offset + row * step;
}

static SQLLEN length_of(const descriptor *apd, const SQLLEN *pointer, size_t row, SQLLEN otherwise) {
  SQLLEN length;
  const char *place = element_of(apd, pointer, sizeof(SQLLEN), row);
  if (place == NULL) return otherwise;
  memcpy(&length, place, sizeof length);
  return length;
}

static bool is_late_length(SQLLEN length) {
  return length == SQL_DATA_AT_EXEC || length <= SQL_LEN_DATA_AT_EXEC_OFFSET;
}

static SQLSMALLINT sql_type_of(const statement *s, size_t parameter) {
  const record *r = record_of(s->ipd, (SQLSMALLINT)(parameter + 1));
  return r == NULL || r->concise_type == 0 ? SQL_WVARCHAR : r->concise_type;
}

static late_value *find_late(statement *s, size_t parameter, size_t row) {
  for (size_t i = 0; i < s->late_count; i++)
    if (s->late[i].row == row && s->late[i].parameter == parameter) return &s->late[i];
  return NULL;
}

const char *read_parameter(statement *s, size_t parameter, size_t row, hypostyle_value *value, builder *own) {
  const record *r = record_of(s->apd, (SQLSMALLINT)(parameter + 1));
  if (r == NULL) return "07002";
  SQLSMALLINT sql_type = sql_type_of(s, parameter);
  SQLSMALLINT c_type = r->concise_type == SQL_C_DEFAULT ? default_c_type(sql_type) : r->concise_type;
  SQLLEN size = c_size(c_type);
  *value = hypostyle_value_of(HYPOSTYLE_NULL);
  SQLLEN indicator = length_of(s->apd, r->indicator_ptr, row, 0);
  if (indicator == SQL_NULL_DATA) return NULL;
  if (indicator == SQL_DEFAULT_PARAM) return "07S01";
  SQLLEN length = length_of(s->apd, r->octet_length_ptr, row,
                            size == 0 && c_type == SQL_C_BINARY ? r->octet_length : SQL_NTS);
  const char *data = element_of(s->apd, r->data, size > 0 ? (size_t)size : (size_t)r->octet_length, row);
  if (is_late_length(length)) {
    const late_value *late = find_late(s, parameter, row);
    if (late == NULL || late->is_null) return NULL;
    data = late->data;
    length = (SQLLEN)late->length;
    if (size > 0 && length != size) return "HY090";
  }
  if (data == NULL) return "HY009";
  if (size == 0 && length < 0 && (length != SQL_NTS || c_type == SQL_C_BINARY)) return "HY090";
  /* Half of a unit is none. */
  if (c_type == SQL_C_WCHAR && length > 0 && length % (SQLLEN)sizeof(SQLWCHAR) != 0) return "HY090";
  scalar found;
  memset(&found, 0, offsetof(scalar, exact));
  const char *state = take_scalar(c_type, data, length, &found, own);
  if (state != NULL) return state;
  return take_value(&found, sql_type, value, own);
}

SQLRETURN bind_row(statement *s, const part *p, size_t first, size_t row) {
  builder own = {0};
  SQLRETURN returned = SQL_SUCCESS;
  for (size_t i = 0; i < p->parameters && returned == SQL_SUCCESS; i++) {
    hypostyle_value value;
    hypostyle_error *error = NULL;
    const char *state = read_parameter(s, first + i, row, &value, &own);
    if (state != NULL)
      returned = tell_conversion(s, state, (SQLLEN)row + 1, (SQLINTEGER)(first + i + 1));
    else if (hypostyle_bind(p->handle, i, &value, &error) != HYPOSTYLE_OK)
      returned = fail_library(s, s->conn, &error);
  }
  free(own.data);
  if (returned == SQL_SUCCESS) return returned;
  if (s->ipd->array_status != NULL) s->ipd->array_status[row] = SQL_PARAM_ERROR;
  if (s->ipd->rows_processed != NULL) *s->ipd->rows_processed = row + 1;
  return SQL_ERROR;
}

/* ---- Data at execution ---- */

SQLRETURN find_late_values(statement *s) {
  forget_late_values(s);
  for (size_t row = 0; row < s->apd->array_size; row++) {
    if (is_ignored_row(s, row)) continue;
    for (size_t i = s->gives_value ? 1 : 0; i < s->parameter_count; i++) {
      const record *r = record_of(s->apd, (SQLSMALLINT)(i + 1));
      if (!is_late_length(length_of(s->apd, r->octet_length_ptr, row, 0))) continue;
      late_value *grown = realloc(s->late, (s->late_count + 1) * sizeof *grown);
      if (grown == NULL) return fail_memory(s);
      s->late = grown;
      SQLLEN size = c_size(r->concise_type);
      SQLPOINTER token = element_of(s->apd, r->data, size > 0 ? (size_t)size : (size_t)r->octet_length, row);
      grown[s->late_count++] = (late_value){.row = row, .parameter = i, .token = token};
    }
  }
  return SQL_SUCCESS;
}

static SQLRETURN next_late_value(statement *s, SQLPOINTER *token) {
  if (!s->needs_data) return fail(s, "HY010", "the statement waits for no data");
  if (s->late_next > 0 && !s->late[s->late_next - 1].is_given)
    return fail(s, "HY010", "SQLPutData has given nothing for the parameter %zu",
                s->late[s->late_next - 1].parameter + 1);
  if (s->late_next < s->late_count) {
    if (token != NULL) *token = s->late[s->late_next].token;
    s->late_next++;
    return SQL_NEED_DATA;
  }
  s->needs_data = false;
  SQLRETURN returned = execute_parts(s);
  forget_late_values(s);
  return returned;
}

SQLRETURN SQL_API SQLParamData(SQLHSTMT h, SQLPOINTER *token) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, next_late_value(s, token));
}

static bool add_piece(late_value *late, const void *data, size_t length) {
  if (length >= SIZE_MAX / 8 || late->length >= SIZE_MAX / 8) return false;
  if (length > late->room - late->length || late->data == NULL) {
    size_t room = (late->length + length) * 2 + 16;
    char *grown = realloc(late->data, room);
    if (grown == NULL) return false;
    late->data = grown;
    late->room = room;
  }
  if (length > 0) memcpy(late->data + late->length, data, length);
  late->length += length;
  return true;
}

static SQLRETURN put_data(statement *s, const void *data, SQLLEN length) {
  if (!s->needs_data || s->late_next == 0)
    return fail(s, "HY010", "no parameter waits for data; call SQLParamData first");
  late_value *late = &s->late[s->late_next - 1];
  const record *r = record_of(s->apd, (SQLSMALLINT)(late->parameter + 1));
  if (r == NULL) return fail(s, "07002", "the parameter %zu is not bound any more", late->parameter + 1);
  SQLSMALLINT c_type =
      r->concise_type == SQL_C_DEFAULT ? default_c_type(sql_type_of(s, late->parameter)) : r->concise_type;
  SQLLEN size = c_size(c_type);
  if (length == SQL_NULL_DATA || length == SQL_DEFAULT_PARAM) {
    if (length == SQL_DEFAULT_PARAM) return fail(s, "07S01", "a parameter has no default");
    if (late->is_given) return fail(s, "HY020", "NULL is not put behind other data");
    late->is_null = late->is_given = true;
    return SQL_SUCCESS;
  }
  if (late->is_null) return fail(s, "HY020", "data are not put behind NULL");
  if (size > 0 && late->is_given) return fail(s, "HY019", "only texts and bytes come in pieces");
  if (data == NULL && (length != 0 || size > 0)) return fail(s, "HY009", "there are no data");
  if (size > 0) length = size;
  if (length == SQL_NTS && c_type == SQL_C_CHAR) length = (SQLLEN)strlen(data);
  if (length == SQL_NTS && c_type == SQL_C_WCHAR) length = (SQLLEN)(units_until_nul(data) * sizeof(SQLWCHAR));
  if (length < 0) return fail(s, "HY090", "data have the length %lld", (long long)length);
  late->is_given = true;
  return add_piece(late, data, (size_t)length) ? SQL_SUCCESS : fail_memory(s);
}

SQLRETURN SQL_API SQLPutData(SQLHSTMT h, SQLPOINTER data, SQLLEN length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  SQLRETURN returned = put_data(s, data, length);
  /* The driver manager takes the execution for ended then, and would let nothing more through. */
  if (returned == SQL_ERROR && s->late_next > 0) forget_late_values(s);
  return leave_statement(s, returned);
}

/* ---- What the database says ---- */

SQLRETURN SQL_API SQLNumParams(SQLHSTMT h, SQLSMALLINT *count) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  if (!s->is_prepared) return leave_statement(s, fail(s, "HY010", "the statement is not prepared"));
  if (count != NULL) *count = (SQLSMALLINT)s->parameter_count;
  return leave_statement(s, SQL_SUCCESS);
}

static SQLRETURN describe_parameter(statement *s, SQLUSMALLINT number, SQLSMALLINT *type, SQLULEN *size,
                                    SQLSMALLINT *digits, SQLSMALLINT *nullable) {
  if (!s->is_prepared) return fail(s, "HY010", "the statement is not prepared");
  size_t index = (size_t)number - 1, at = 0;
  if (number < 1 || index >= s->parameter_count)
    return fail(s, "07009", "there is no parameter %u; the statement has %zu", (unsigned)number,
                s->parameter_count);
  bool is_value = s->gives_value && index == 0;
  if (s->gives_value && !is_value) index--;
  while (!is_value && index >= s->parts[at].parameters) index -= s->parts[at++].parameters;
  hypostyle_column told;
  hypostyle_error *error = NULL;
  memset(&told, 0, sizeof told);
  told.size = sizeof told;
  /* A value can be taken as text, whatever its type is. */
  told.type = HYPOSTYLE_VARCHAR;
  if (!is_value && hypostyle_statement_parameter(s->parts[at].handle, index, &told, &error) != HYPOSTYLE_OK)
    return fail_library(s, s->conn, &error);
  type_facts facts = facts_of(&told, s->conn->text_size);
  if (type != NULL) *type = facts.sql_type;
  if (size != NULL) *size = facts.size;
  if (digits != NULL) *digits = facts.digits;
  if (nullable != NULL) *nullable = SQL_NULLABLE_UNKNOWN;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLDescribeParam(SQLHSTMT h, SQLUSMALLINT number, SQLSMALLINT *type, SQLULEN *size,
                                   SQLSMALLINT *digits, SQLSMALLINT *nullable) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, describe_parameter(s, number, type, size, digits, nullable));
}
