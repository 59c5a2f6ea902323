/* Results: all columns of what a statement gave, and how a value of them is read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

static bool is_nested(hypostyle_type type) { return type >= HYPOSTYLE_LIST; }

/* ---- Loading ---- */

/* Columns with lists in them become texts, which are read row by row. */
typedef struct {
  size_t column;
  int64_t *offsets;
  uint8_t *validity;
  builder heap;
  size_t room;
  uint64_t null_count;
} text_column;

static bool make_room(text_column *t, uint64_t rows) {
  if (rows < t->room) return true;
  size_t room = t->room * 2 + 1024;
  int64_t *offsets = realloc(t->offsets, (room + 1) * sizeof *offsets);
  if (offsets != NULL) t->offsets = offsets;
  uint8_t *validity = realloc(t->validity, room / 8 + 1);
  if (validity != NULL) t->validity = validity;
  if (offsets == NULL || validity == NULL) return false;
  t->room = room;
  return true;
}

static hypostyle_status add_row(text_column *t, const hypostyle_result *handle, uint64_t row,
                                hypostyle_error **error, bool *has_memory) {
  const char *text = NULL;
  size_t length = 0;
  hypostyle_status status = hypostyle_row_text(handle, t->column, &text, &length, error);
  if (status != HYPOSTYLE_OK) return status;
  *has_memory = make_room(t, row + 1);
  if (!*has_memory) return HYPOSTYLE_OUT_OF_MEMORY;
  if (row == 0) t->offsets[0] = 0;
  uint8_t bit = (uint8_t)(1u << (row % 8));
  if (text == NULL) {
    t->null_count++;
    t->validity[row / 8] &= (uint8_t)~bit;
  } else {
    t->validity[row / 8] |= bit;
    add_bytes(&t->heap, text, length);
  }
  t->offsets[row + 1] = (int64_t)t->heap.length;
  *has_memory = !t->heap.failed;
  return *has_memory ? HYPOSTYLE_OK : HYPOSTYLE_OUT_OF_MEMORY;
}

static void free_texts(text_column *texts, size_t count) {
  for (size_t i = 0; i < count; i++)
    free(texts[i].offsets), free(texts[i].validity), free(texts[i].heap.data);
  free(texts);
}

static void take_texts(result *r, text_column *texts, size_t count) {
  for (size_t i = 0; i < count; i++) {
    hypostyle_values *values = &r->columns[texts[i].column].values;
    values->type = r->columns[texts[i].column].told.type;
    values->count = r->rows;
    values->null_count = texts[i].null_count;
    values->validity = texts[i].validity;
    values->offsets = texts[i].offsets;
    values->heap = (const uint8_t *)texts[i].heap.data;
    values->heap_length = texts[i].heap.length;
    r->columns[texts[i].column].is_own = true;
  }
  free(texts);
}

static SQLRETURN load_nested(statement *s, result *r, size_t count) {
  text_column *texts = calloc(count, sizeof *texts);
  if (texts == NULL) return fail_memory(s);
  for (size_t i = 0, at = 0; i < r->column_count; i++)
    if (is_nested(r->columns[i].told.type)) texts[at++].column = i;
  hypostyle_error *error = NULL;
  bool has_memory = true;
  hypostyle_status status = HYPOSTYLE_OK;
  uint64_t rows = 0;
  for (;; rows++) {
    int32_t has_row = 0;
    status = hypostyle_result_step(r->handle, &has_row, &error);
    if (status != HYPOSTYLE_OK || !has_row) break;
    for (size_t i = 0; i < count && status == HYPOSTYLE_OK; i++)
      status = add_row(&texts[i], r->handle, rows, &error, &has_memory);
    if (status != HYPOSTYLE_OK) break;
  }
  if (status != HYPOSTYLE_OK) {
    free_texts(texts, count);
    return has_memory ? fail_library(s, s->conn, &error) : fail_memory(s);
  }
  r->rows = rows;
  take_texts(r, texts, count);
  return SQL_SUCCESS;
}

/* Columns of lists come last: stepping takes the rows. */
static SQLRETURN load_columns(statement *s, result *r) {
  size_t nested = 0;
  hypostyle_error *error = NULL;
  for (size_t i = 0; i < r->column_count; i++) {
    column *c = &r->columns[i];
    c->told.size = sizeof c->told;
    c->values.size = sizeof c->values;
    if (hypostyle_result_column(r->handle, i, &c->told, &error) != HYPOSTYLE_OK)
      return fail_library(s, s->conn, &error);
    if (is_nested(c->told.type)) {
      nested++;
      continue;
    }
    if (hypostyle_result_values(r->handle, i, 0, &c->values, &error) != HYPOSTYLE_OK)
      return fail_library(s, s->conn, &error);
    r->rows = c->values.count;
  }
  return nested == 0 ? SQL_SUCCESS : load_nested(s, r, nested);
}

SQLRETURN result_load(statement *s, hypostyle_result **handle, int32_t kind, result **loaded) {
  result *r = calloc(1, sizeof *r);
  if (r == NULL) {
    hypostyle_result_free(handle);
    return fail_memory(s);
  }
  r->handle = *handle;
  *handle = NULL;
  r->kind = kind;
  r->affected = hypostyle_result_rows_affected(r->handle);
  size_t count = hypostyle_result_columns(r->handle);
  r->columns = calloc(count + 1, sizeof *r->columns);
  r->column_count = r->columns == NULL ? 0 : count;
  SQLRETURN returned = r->columns == NULL ? fail_memory(s) : load_columns(s, r);
  if (returned != SQL_SUCCESS) {
    result_free(r);
    return returned;
  }
  if (s->max_rows > 0 && r->rows > s->max_rows) r->rows = s->max_rows;
  *loaded = r;
  return SQL_SUCCESS;
}

static void free_values(column *c) {
  if (!c->is_own) {
    hypostyle_values_free(&c->values);
    return;
  }
  free((void *)(uintptr_t)c->values.offsets);
  free((void *)(uintptr_t)c->values.validity);
  free((void *)(uintptr_t)c->values.heap);
}

void result_free(result *r) {
  for (size_t i = 0; i < r->column_count; i++) free_values(&r->columns[i]);
  free(r->columns);
  hypostyle_result_free(&r->handle);
  free(r);
}

/* ---- Reading a value ---- */

static bool is_set(const void *bits, uint64_t bit) {
  return ((const uint8_t *)bits)[bit >> 3] >> (bit & 7) & 1;
}

bool is_null_at(const hypostyle_values *values, uint64_t row) {
  return values->validity != NULL && !is_set(values->validity, values->validity_offset + row);
}

static int64_t integer_at(const hypostyle_values *values, uint64_t row) {
  switch (values->width) {
  case 1: return ((const int8_t *)values->data)[row];
  case 2: return ((const int16_t *)values->data)[row];
  case 4: return ((const int32_t *)values->data)[row];
  default: return ((const int64_t *)values->data)[row];
  }
}

static uint64_t unsigned_at(const hypostyle_values *values, uint64_t row) {
  switch (values->width) {
  case 1: return ((const uint8_t *)values->data)[row];
  case 2: return ((const uint16_t *)values->data)[row];
  case 4: return ((const uint32_t *)values->data)[row];
  default: return ((const uint64_t *)values->data)[row];
  }
}

const char *bytes_at(const hypostyle_values *values, uint64_t row, size_t *length) {
  if (values->offsets == NULL) {
    *length = values->width;
    return (const char *)values->data + row * values->width;
  }
  uint64_t at = row;
  if (values->flags & HYPOSTYLE_VALUES_DICTIONARY) at = (uint64_t)integer_at(values, row);
  *length = (size_t)(values->offsets[at + 1] - values->offsets[at]);
  return (const char *)values->heap + values->offsets[at];
}

static const char *element(const hypostyle_values *values, uint64_t row) {
  return (const char *)values->data + row * values->width;
}

static span interval_at(const hypostyle_values *values, uint64_t row) {
  const char *at = element(values, row);
  span found;
  memcpy(&found.months, at, 4);
  memcpy(&found.days, at + 4, 4);
  memcpy(&found.nanoseconds, at + 8, 8);
  return found;
}

/* Keeps days apart, so that the nanoseconds of no duration are out of range. */
static span duration_at(const hypostyle_values *values, uint64_t row) {
  static const int64_t nanoseconds_of[] = {1000000000, 100000000, 10000000, 1000000, 100000,
                                           10000,      1000,      100,      10,      1};
  int64_t unit = nanoseconds_of[values->scale], of_day = 86400 * (1000000000 / unit);
  int64_t units = integer_at(values, row);
  return (span){0, (int32_t)(units / of_day), units % of_day * unit};
}

void scalar_at(const column *of, uint64_t row, scalar *value) {
  const hypostyle_values *values = &of->values;
  switch (of->told.type) {
  case HYPOSTYLE_BOOLEAN:
    value->kind = SCALAR_BOOLEAN;
    value->boolean = is_set(values->data, values->data_offset + row);
    break;
  case HYPOSTYLE_TINYINT:
  case HYPOSTYLE_SMALLINT:
  case HYPOSTYLE_INTEGER:
  case HYPOSTYLE_BIGINT:
    value->kind = SCALAR_EXACT;
    value->exact = decimal_of_int64(integer_at(values, row));
    break;
  case HYPOSTYLE_UTINYINT:
  case HYPOSTYLE_USMALLINT:
  case HYPOSTYLE_UINTEGER:
  case HYPOSTYLE_UBIGINT:
    value->kind = SCALAR_EXACT;
    value->exact = decimal_of_uint64(unsigned_at(values, row));
    break;
  case HYPOSTYLE_DECIMAL:
    value->kind = SCALAR_EXACT;
    value->exact = decimal_of_bytes(element(values, row), values->width, values->scale);
    break;
  case HYPOSTYLE_FLOAT:
  case HYPOSTYLE_DOUBLE:
    value->kind = SCALAR_REAL;
    value->is_float = of->told.type == HYPOSTYLE_FLOAT;
    value->real =
        value->is_float ? (double)((const float *)values->data)[row] : ((const double *)values->data)[row];
    break;
  case HYPOSTYLE_DATE:
    value->kind = SCALAR_DATE;
    memset(&value->moment, 0, sizeof value->moment);
    date_of_days(integer_at(values, row), &value->moment);
    break;
  case HYPOSTYLE_TIME:
    value->kind = SCALAR_TIME;
    value->fraction = 6;
    moment_of_units(integer_at(values, row), 6, &value->moment);
    break;
  case HYPOSTYLE_TIMESTAMP:
  case HYPOSTYLE_TIMESTAMPTZ:
    value->kind = SCALAR_TIMESTAMP;
    value->fraction = values->scale;
    moment_of_units(integer_at(values, row), values->scale, &value->moment);
    break;
  case HYPOSTYLE_INTERVAL:
    value->kind = SCALAR_INTERVAL;
    value->span = interval_at(values, row);
    break;
  case HYPOSTYLE_DURATION:
    value->kind = SCALAR_INTERVAL;
    value->span = duration_at(values, row);
    break;
  case HYPOSTYLE_UUID:
    value->kind = SCALAR_GUID;
    memcpy(value->guid, element(values, row), sizeof value->guid);
    break;
  case HYPOSTYLE_BLOB:
  case HYPOSTYLE_FIXED_BINARY:
    value->kind = SCALAR_BYTES;
    value->data = bytes_at(values, row, &value->length);
    break;
  default: value->kind = SCALAR_TEXT; value->data = bytes_at(values, row, &value->length);
  }
}
