/* Descriptors: where an application's buffers are, and what columns and parameters are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

descriptor *descriptor_new(connection *conn, statement *of, descriptor_role role, bool is_explicit) {
  descriptor *d = handle_new(KIND_DESCRIPTOR);
  if (d == NULL) return NULL;
  d->conn = conn;
  d->of = of;
  d->role = role;
  d->is_explicit = is_explicit;
  d->array_size = 1;
  d->bind_type = SQL_BIND_BY_COLUMN;
  return d;
}

void clear_record(record *r) {
  free(r->name), free(r->type_name);
  memset(r, 0, sizeof *r);
}

void set_count(descriptor *d, SQLSMALLINT count) {
  for (SQLSMALLINT i = count; i < d->count; i++) clear_record(&d->records[i]);
  d->count = count;
}

void descriptor_free(descriptor *d) {
  set_count(d, 0);
  free(d->records);
  d->records = NULL;
  handle_release(&d->head);
}

static void set_defaults(const descriptor *d, record *r) {
  memset(r, 0, sizeof *r);
  bool is_application = d->is_explicit || d->role == ROLE_APD || d->role == ROLE_ARD;
  r->type = r->concise_type = is_application ? SQL_C_DEFAULT : 0;
  r->parameter_type = SQL_PARAM_INPUT;
  r->nullable = SQL_NULLABLE;
}

record *record_at(descriptor *d, SQLSMALLINT number) {
  if (number > d->room) {
    SQLSMALLINT room = (SQLSMALLINT)(number < 16 ? 16 : number > 16000 ? INT16_MAX : number * 2);
    record *grown = realloc(d->records, (size_t)room * sizeof *grown);
    if (grown == NULL) return NULL;
    d->records = grown;
    d->room = room;
  }
  for (; d->count < number; d->count++) set_defaults(d, &d->records[d->count]);
  return &d->records[number - 1];
}

record *record_of(const descriptor *d, SQLSMALLINT number) {
  return number >= 1 && number <= d->count ? &d->records[number - 1] : NULL;
}

void set_concise_type(record *r, SQLSMALLINT type) {
  r->concise_type = type;
  r->type = verbose_type(type);
  r->interval_code = interval_code(type);
}

static bool is_ird(const descriptor *d) { return !d->is_explicit && d->role == ROLE_IRD; }
static bool is_ipd(const descriptor *d) { return !d->is_explicit && d->role == ROLE_IPD; }
static bool is_application(const descriptor *d) { return !is_ird(d) && !is_ipd(d); }

static SQLRETURN describe(descriptor *d) { return is_ird(d) ? describe_columns(d->of) : SQL_SUCCESS; }

/* ---- Telling fields ---- */

static SQLRETURN give_number(SQLPOINTER out, SQLLEN number, size_t size, SQLINTEGER *told) {
  if (told != NULL) *told = (SQLINTEGER)size;
  if (out == NULL) return SQL_SUCCESS;
  SQLSMALLINT small = (SQLSMALLINT)number;
  SQLINTEGER middle = (SQLINTEGER)number;
  memcpy(out,
         size == sizeof small    ? (void *)&small
         : size == sizeof middle ? (void *)&middle
                                 : &number,
         size);
  return SQL_SUCCESS;
}

static SQLRETURN give_pointer(SQLPOINTER out, const void *pointer, SQLINTEGER *told) {
  if (told != NULL) *told = sizeof pointer;
  if (out != NULL) memcpy(out, &pointer, sizeof pointer);
  return SQL_SUCCESS;
}

static SQLRETURN head_field(descriptor *d, SQLSMALLINT field, SQLPOINTER out, SQLINTEGER *told,
                            bool *is_head) {
  *is_head = true;
  switch (field) {
  case SQL_DESC_ALLOC_TYPE:
    return give_number(out, d->is_explicit ? SQL_DESC_ALLOC_USER : SQL_DESC_ALLOC_AUTO, sizeof(SQLSMALLINT),
                       told);
  case SQL_DESC_ARRAY_SIZE: return give_number(out, (SQLLEN)d->array_size, sizeof(SQLULEN), told);
  case SQL_DESC_ARRAY_STATUS_PTR: return give_pointer(out, d->array_status, told);
  case SQL_DESC_BIND_OFFSET_PTR: return give_pointer(out, d->bind_offset, told);
  case SQL_DESC_BIND_TYPE: return give_number(out, (SQLLEN)d->bind_type, sizeof(SQLINTEGER), told);
  case SQL_DESC_COUNT: return give_number(out, d->count, sizeof(SQLSMALLINT), told);
  case SQL_DESC_ROWS_PROCESSED_PTR: return give_pointer(out, d->rows_processed, told);
  default: *is_head = false; return SQL_SUCCESS;
  }
}

static bool is_number(SQLSMALLINT type) {
  switch (type) {
  case SQL_SMALLINT:
  case SQL_INTEGER:
  case SQL_BIGINT:
  case SQL_REAL:
  case SQL_DOUBLE:
  case SQL_FLOAT:
  case SQL_DECIMAL:
  case SQL_NUMERIC:
  case SQL_TINYINT: return true;
  default: return false;
  }
}

static SQLLEN display_size(const record *r) {
  hypostyle_column same = {.scale = r->scale, .precision = (int32_t)r->length};
  switch (r->concise_type) {
  case SQL_SMALLINT: same.type = HYPOSTYLE_SMALLINT; break;
  case SQL_INTEGER: same.type = HYPOSTYLE_INTEGER; break;
  case SQL_BIGINT: same.type = HYPOSTYLE_BIGINT; break;
  case SQL_REAL: same.type = HYPOSTYLE_FLOAT; break;
  case SQL_DOUBLE: same.type = HYPOSTYLE_DOUBLE; break;
  case SQL_DECIMAL: same.type = HYPOSTYLE_DECIMAL; break;
  case SQL_VARBINARY: return (SQLLEN)r->length * 2;
  default: return (SQLLEN)r->length;
  }
  return facts_of(&same, 0).display;
}

static const char *quotes_of(SQLSMALLINT type, bool is_suffix) {
  if (is_character(type) || type == SQL_GUID) return "'";
  if (is_binary(type)) return is_suffix ? "'" : "'\\x";
  switch (type) {
  case SQL_TYPE_DATE: return is_suffix ? "'" : "DATE '";
  case SQL_TYPE_TIME: return is_suffix ? "'" : "TIME '";
  case SQL_TYPE_TIMESTAMP: return is_suffix ? "'" : "TIMESTAMP '";
  default: return "";
  }
}

static SQLRETURN text_field(descriptor *d, const record *r, SQLSMALLINT field, SQLPOINTER out,
                            SQLINTEGER room, SQLINTEGER *told, bool *is_text) {
  *is_text = true;
  const char *text;
  switch (field) {
  case SQL_DESC_NAME:
  case SQL_DESC_LABEL: text = r->name; break;
  /* Which table a column comes from is not told. */
  case SQL_DESC_BASE_COLUMN_NAME:
  case SQL_DESC_BASE_TABLE_NAME:
  case SQL_DESC_TABLE_NAME:
  case SQL_DESC_SCHEMA_NAME:
  case SQL_DESC_CATALOG_NAME: text = ""; break;
  case SQL_DESC_TYPE_NAME:
  case SQL_DESC_LOCAL_TYPE_NAME: text = r->type_name; break;
  case SQL_DESC_LITERAL_PREFIX: text = quotes_of(r->concise_type, false); break;
  case SQL_DESC_LITERAL_SUFFIX: text = quotes_of(r->concise_type, true); break;
  default: *is_text = false; return SQL_SUCCESS;
  }
  return give_bytes(d, text, out, room, told);
}

/* Fields of records that are numbers of 16 or 32 bits; false for others. */
static bool small_field(const record *r, SQLSMALLINT field, SQLLEN *number, size_t *size) {
  SQLSMALLINT type = r->concise_type;
  *size = sizeof(SQLSMALLINT);
  switch (field) {
  case SQL_DESC_CONCISE_TYPE: *number = type; break;
  case SQL_DESC_TYPE: *number = r->type; break;
  case SQL_DESC_DATETIME_INTERVAL_CODE: *number = r->interval_code; break;
  case SQL_DESC_PRECISION: *number = r->precision; break;
  case SQL_DESC_SCALE: *number = r->scale; break;
  case SQL_DESC_NULLABLE: *number = r->nullable; break;
  case SQL_DESC_PARAMETER_TYPE: *number = r->parameter_type; break;
  case SQL_DESC_UNNAMED: *number = r->name == NULL || *r->name == '\0' ? SQL_UNNAMED : SQL_NAMED; break;
  case SQL_DESC_FIXED_PREC_SCALE: *number = SQL_FALSE; break;
  case SQL_DESC_SEARCHABLE: *number = is_character(type) ? SQL_PRED_SEARCHABLE : SQL_PRED_BASIC; break;
  case SQL_DESC_UNSIGNED: *number = is_number(type) ? SQL_FALSE : SQL_TRUE; break;
  case SQL_DESC_UPDATABLE: *number = SQL_ATTR_READONLY; break;
  case SQL_DESC_ROWVER: *number = SQL_FALSE; break;
  case SQL_DESC_AUTO_UNIQUE_VALUE:
    *number = SQL_FALSE;
    *size = sizeof(SQLINTEGER);
    break;
  case SQL_DESC_CASE_SENSITIVE:
    *number = is_character(type);
    *size = sizeof(SQLINTEGER);
    break;
  case SQL_DESC_DATETIME_INTERVAL_PRECISION:
    *number = r->interval_precision;
    *size = sizeof(SQLINTEGER);
    break;
  case SQL_DESC_NUM_PREC_RADIX:
    *number = type == SQL_REAL || type == SQL_DOUBLE || type == SQL_FLOAT ? 2 : is_number(type) ? 10 : 0;
    *size = sizeof(SQLINTEGER);
    break;
  default: return false;
  }
  return true;
}

SQLRETURN descriptor_field(descriptor *d, SQLSMALLINT number, SQLSMALLINT field, SQLPOINTER out,
                           SQLINTEGER room, SQLINTEGER *told) {
  if (describe(d) == SQL_ERROR) return SQL_ERROR;
  bool is_found;
  SQLRETURN returned = head_field(d, field, out, told, &is_found);
  if (is_found) return returned;
  if (number < 1) return fail(d, "07009", "there is no record %d", (int)number);
  const record *r = record_of(d, number);
  if (r == NULL) return SQL_NO_DATA;
  returned = text_field(d, r, field, out, room, told, &is_found);
  if (is_found) return returned;
  SQLLEN value;
  size_t size;
  if (small_field(r, field, &value, &size)) return give_number(out, value, size, told);
  switch (field) {
  case SQL_DESC_LENGTH: return give_number(out, (SQLLEN)r->length, sizeof(SQLULEN), told);
  case SQL_DESC_OCTET_LENGTH: return give_number(out, r->octet_length, sizeof(SQLLEN), told);
  case SQL_DESC_DISPLAY_SIZE: return give_number(out, display_size(r), sizeof(SQLLEN), told);
  case SQL_DESC_DATA_PTR: return give_pointer(out, r->data, told);
  case SQL_DESC_INDICATOR_PTR: return give_pointer(out, r->indicator_ptr, told);
  case SQL_DESC_OCTET_LENGTH_PTR: return give_pointer(out, r->octet_length_ptr, told);
  default: return fail(d, "HY091", "a descriptor has no field %d", (int)field);
  }
}

SQLRETURN SQL_API SQLGetDescFieldW(SQLHDESC h, SQLSMALLINT number, SQLSMALLINT field, SQLPOINTER out,
                                   SQLINTEGER room, SQLINTEGER *told) {
  descriptor *d;
  SQLRETURN entered = enter_descriptor(h, &d);
  if (entered != SQL_SUCCESS) return entered;
  return leave_descriptor(d, descriptor_field(d, number, field, out, room, told));
}

static SQLRETURN get_record(descriptor *d, SQLSMALLINT number, SQLWCHAR *name, SQLSMALLINT room,
                            SQLSMALLINT *told, SQLSMALLINT *type, SQLSMALLINT *subtype, SQLLEN *length,
                            SQLSMALLINT *precision, SQLSMALLINT *scale, SQLSMALLINT *nullable) {
  if (describe(d) == SQL_ERROR) return SQL_ERROR;
  if (number < 1) return fail(d, "07009", "there is no record %d", (int)number);
  const record *r = record_of(d, number);
  if (r == NULL) return SQL_NO_DATA;
  if (type != NULL) *type = r->type;
  if (subtype != NULL) *subtype = r->interval_code;
  if (length != NULL) *length = r->octet_length;
  if (precision != NULL) *precision = r->precision;
  if (scale != NULL) *scale = r->scale;
  if (nullable != NULL) *nullable = r->nullable;
  return give_units(d, r->name, name, room, told);
}

SQLRETURN SQL_API SQLGetDescRecW(SQLHDESC h, SQLSMALLINT number, SQLWCHAR *name, SQLSMALLINT room,
                                 SQLSMALLINT *told, SQLSMALLINT *type, SQLSMALLINT *subtype, SQLLEN *length,
                                 SQLSMALLINT *precision, SQLSMALLINT *scale, SQLSMALLINT *nullable) {
  descriptor *d;
  SQLRETURN entered = enter_descriptor(h, &d);
  if (entered != SQL_SUCCESS) return entered;
  return leave_descriptor(
      d, get_record(d, number, name, room, told, type, subtype, length, precision, scale, nullable));
}

/* ---- Setting fields ---- */

static SQLRETURN set_head_field(descriptor *d, SQLSMALLINT field, SQLPOINTER value, bool *is_head) {
  *is_head = true;
  SQLLEN number = (SQLLEN)(intptr_t)value;
  switch (field) {
  case SQL_DESC_ARRAY_SIZE:
    if (number < 1 || number > ARRAY_MAX)
      return fail(d, "HY024", "an array cannot have %lld rows", (long long)number);
    d->array_size = (SQLULEN)number;
    return SQL_SUCCESS;
  case SQL_DESC_ARRAY_STATUS_PTR: d->array_status = value; return SQL_SUCCESS;
  case SQL_DESC_BIND_OFFSET_PTR: d->bind_offset = value; return SQL_SUCCESS;
  case SQL_DESC_BIND_TYPE: d->bind_type = (SQLULEN)number; return SQL_SUCCESS;
  case SQL_DESC_ROWS_PROCESSED_PTR: d->rows_processed = value; return SQL_SUCCESS;
  case SQL_DESC_COUNT:
    if (number < 0 || number > INT16_MAX)
      return fail(d, "07009", "a descriptor cannot have %lld records", (long long)number);
    if (number > d->count && record_at(d, (SQLSMALLINT)number) == NULL) return fail_memory(d);
    set_count(d, (SQLSMALLINT)number);
    return SQL_SUCCESS;
  default: *is_head = false; return SQL_SUCCESS;
  }
}

static SQLRETURN set_type(descriptor *d, record *r, SQLSMALLINT type, bool is_concise) {
  if (!is_concise && (type == SQL_DATETIME || type == SQL_INTERVAL)) {
    r->type = type;
    if (r->interval_code != 0)
      r->concise_type = (SQLSMALLINT)((type == SQL_INTERVAL ? 100 : 90) + r->interval_code);
    return SQL_SUCCESS;
  }
  bool is_type = is_application(d) ? type == SQL_C_DEFAULT || c_size(type) >= 0 : is_known_sql_type(type);
  if (!is_type) return fail(d, is_application(d) ? "HY003" : "HY004", "there is no type %d", (int)type);
  set_concise_type(r, type);
  /* As setting a type does in ODBC: what belongs to the one before is forgotten. */
  r->has_scale = false;
  r->scale = 0;
  r->precision = type == SQL_C_NUMERIC ? 38 : 0;
  return SQL_SUCCESS;
}

static SQLRETURN set_field(descriptor *d, SQLSMALLINT number, SQLSMALLINT field, SQLPOINTER value,
                           SQLINTEGER length) {
  if (is_ird(d) && field != SQL_DESC_ARRAY_STATUS_PTR && field != SQL_DESC_ROWS_PROCESSED_PTR)
    return fail(d, "HY016", "the descriptor of a result's columns cannot be changed");
  bool is_found;
  SQLRETURN returned = set_head_field(d, field, value, &is_found);
  if (is_found) return returned;
  if (number < 1) return fail(d, "07009", "there is no record %d", (int)number);
  record *r = record_at(d, number);
  if (r == NULL) return fail_memory(d);
  SQLLEN given = (SQLLEN)(intptr_t)value;
  switch (field) {
  case SQL_DESC_CONCISE_TYPE: return set_type(d, r, (SQLSMALLINT)given, true);
  case SQL_DESC_TYPE: return set_type(d, r, (SQLSMALLINT)given, false);
  case SQL_DESC_DATETIME_INTERVAL_CODE:
    r->interval_code = (SQLSMALLINT)given;
    if (r->type == SQL_DATETIME || r->type == SQL_INTERVAL) return set_type(d, r, r->type, false);
    return SQL_SUCCESS;
  case SQL_DESC_DATETIME_INTERVAL_PRECISION: r->interval_precision = (SQLINTEGER)given; return SQL_SUCCESS;
  case SQL_DESC_LENGTH: r->length = (SQLULEN)given; return SQL_SUCCESS;
  case SQL_DESC_OCTET_LENGTH: r->octet_length = given; return SQL_SUCCESS;
  case SQL_DESC_PRECISION: r->precision = (SQLSMALLINT)given; return SQL_SUCCESS;
  case SQL_DESC_SCALE:
    if (given < 0 || given > DIGITS_MAX)
      return fail(d, "HY104", "a number cannot have the scale %lld", (long long)given);
    r->scale = (SQLSMALLINT)given;
    r->has_scale = true;
    return SQL_SUCCESS;
  case SQL_DESC_DATA_PTR:
    r->data = value;
    r->is_bound = value != NULL;
    return SQL_SUCCESS;
  case SQL_DESC_INDICATOR_PTR: r->indicator_ptr = value; return SQL_SUCCESS;
  case SQL_DESC_OCTET_LENGTH_PTR: r->octet_length_ptr = value; return SQL_SUCCESS;
  case SQL_DESC_NUM_PREC_RADIX: return SQL_SUCCESS;
  case SQL_DESC_PARAMETER_TYPE:
    if (given != SQL_PARAM_INPUT) return fail(d, "HYC00", "there are input parameters alone");
    return SQL_SUCCESS;
  case SQL_DESC_NAME: {
    /* Half of a length below zero may be SQL_NTS. */
    bool is_as_told = length == SQL_NTS || length < 0;
    char *name = utf8_of(d, value, is_as_told ? length : length / (SQLINTEGER)sizeof(SQLWCHAR), NULL);
    if (name == NULL && value != NULL) return SQL_ERROR;
    free(r->name);
    r->name = name;
    return SQL_SUCCESS;
  }
  case SQL_DESC_UNNAMED:
    if (given != SQL_UNNAMED) return fail(d, "HY091", "a record gets a name by SQL_DESC_NAME");
    free(r->name);
    r->name = NULL;
    return SQL_SUCCESS;
  default: return fail(d, "HY091", "a descriptor has no field %d that can be set", (int)field);
  }
}

SQLRETURN SQL_API SQLSetDescFieldW(SQLHDESC h, SQLSMALLINT number, SQLSMALLINT field, SQLPOINTER value,
                                   SQLINTEGER length) {
  descriptor *d;
  SQLRETURN entered = enter_descriptor(h, &d);
  if (entered != SQL_SUCCESS) return entered;
  return leave_descriptor(d, set_field(d, number, field, value, length));
}

static SQLRETURN set_record(descriptor *d, SQLSMALLINT number, SQLSMALLINT type, SQLSMALLINT subtype,
                            SQLLEN length, SQLSMALLINT precision, SQLSMALLINT scale, SQLPOINTER data,
                            SQLLEN *octets, SQLLEN *indicator) {
  if (is_ird(d)) return fail(d, "HY016", "the descriptor of a result's columns cannot be changed");
  if (number < 1) return fail(d, "07009", "there is no record %d", (int)number);
  record *r = record_at(d, number);
  if (r == NULL) return fail_memory(d);
  r->interval_code = subtype;
  if (set_type(d, r, type, false) != SQL_SUCCESS) return SQL_ERROR;
  r->octet_length = length;
  r->precision = precision;
  r->scale = scale;
  r->has_scale = type == SQL_C_NUMERIC;
  r->data = data;
  r->is_bound = data != NULL;
  r->octet_length_ptr = octets;
  r->indicator_ptr = indicator;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLSetDescRec(SQLHDESC h, SQLSMALLINT number, SQLSMALLINT type, SQLSMALLINT subtype,
                                SQLLEN length, SQLSMALLINT precision, SQLSMALLINT scale, SQLPOINTER data,
                                SQLLEN *octets, SQLLEN *indicator) {
  descriptor *d;
  SQLRETURN entered = enter_descriptor(h, &d);
  if (entered != SQL_SUCCESS) return entered;
  return leave_descriptor(
      d, set_record(d, number, type, subtype, length, precision, scale, data, octets, indicator));
}

/* ---- Copying ---- */

static char *copied(const char *text) { return text == NULL ? NULL : strdup(text); }

static SQLRETURN copy(const descriptor *from, descriptor *to) {
  if (is_ird(to)) return fail(to, "HY016", "the descriptor of a result's columns cannot be changed");
  if (from == to) return SQL_SUCCESS;
  set_count(to, 0);
  if (from->count > 0 && record_at(to, from->count) == NULL) return fail_memory(to);
  for (SQLSMALLINT i = 0; i < from->count; i++) {
    record *r = &to->records[i];
    *r = from->records[i];
    r->name = copied(r->name);
    r->type_name = copied(r->type_name);
  }
  to->array_size = from->array_size;
  to->array_status = from->array_status;
  to->bind_offset = from->bind_offset;
  to->bind_type = from->bind_type;
  to->rows_processed = from->rows_processed;
  return SQL_SUCCESS;
}

/* Descriptors of two connections are not locked at once: two copies could wait for each other. What the
 * first one has is read under its own lock into a descriptor that nobody knows. */
SQLRETURN SQL_API SQLCopyDesc(SQLHDESC source, SQLHDESC to) {
  descriptor *from, *d;
  SQLRETURN entered = enter_descriptor(source, &from);
  if (entered != SQL_SUCCESS) return entered;
  descriptor *between = descriptor_new(from->conn, NULL, ROLE_APD, true);
  SQLRETURN returned =
      between == NULL || describe(from) == SQL_ERROR ? fail_memory(from) : copy(from, between);
  leave_descriptor(from, returned);
  if (returned == SQL_SUCCESS) {
    returned = enter_descriptor(to, &d);
    if (returned == SQL_SUCCESS) returned = leave_descriptor(d, copy(between, d));
  }
  if (between != NULL) descriptor_free(between);
  return returned;
}
