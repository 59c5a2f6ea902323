/* Results: the rows that a statement gives, batch by batch, and how a value of them is read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

/* ---- Loading ---- */

/* How many bytes of computed rows are taken while the statement runs: a smaller result is whole then, so that
 * the number of its rows and the longest of its texts are known. */
enum { BYTES_AT_ONCE = 16 << 20 };

static void free_batch(batch *b, size_t column_count) {
  for (size_t i = 0; i < column_count; i++) hypostyle_values_free(&b->values[i]);
  free(b->values);
}

static batch *new_batch(result *r) {
  if (r->batch_count == r->batch_room) {
    size_t room = r->batch_room * 2 + 4;
    batch *batches = realloc(r->batches, room * sizeof *batches);
    if (batches == NULL) return NULL;
    r->batches = batches;
    r->batch_room = room;
  }
  batch *b = &r->batches[r->batch_count];
  *b = (batch){r->rows, 0, calloc(r->column_count, sizeof *b->values)};
  return b->values == NULL ? NULL : b;
}

static uint64_t bytes_of(const hypostyle_values *values) {
  uint64_t bytes = values->count * values->width;
  bool is_text = values->offsets != NULL && !(values->flags & HYPOSTYLE_VALUES_DICTIONARY);
  if (is_text) bytes += (uint64_t)(values->offsets[values->count] - values->offsets[0]) + 8 * values->count;
  return bytes;
}

/* Takes the columns of the rows that the library has stepped to. */
static SQLRETURN take_columns(statement *s, result *r, uint64_t rows) {
  batch *b = new_batch(r);
  if (b == NULL) return fail_memory(s);
  b->rows = rows;
  hypostyle_error *error = NULL;
  for (size_t i = 0; i < r->column_count; i++) {
    b->values[i].size = sizeof *b->values;
    if (hypostyle_batch_values(r->handle, i, 0, &b->values[i], &error) != HYPOSTYLE_OK) {
      free_batch(b, r->column_count);
      return fail_library(s, s->conn, &error);
    }
    r->bytes += bytes_of(&b->values[i]);
  }
  r->batch_count++;
  r->rows += rows;
  return SQL_SUCCESS;
}

static SQLRETURN take_batch(statement *s, result *r) {
  hypostyle_error *error = NULL;
  uint64_t rows = 0;
  if (hypostyle_result_step_batch(r->handle, &rows, &error) != HYPOSTYLE_OK)
    return fail_library(s, s->conn, &error);
  r->is_whole = rows == 0;
  if (rows > r->most_rows - r->rows) rows = r->most_rows - r->rows;
  if (rows > 0 && take_columns(s, r, rows) != SQL_SUCCESS) return SQL_ERROR;
  r->is_whole = r->is_whole || r->rows == r->most_rows;
  return SQL_SUCCESS;
}

SQLRETURN result_reach(statement *s, result *r, uint64_t end) {
  if (r->has_failed)
    return fail(s, r->failure, "the rows of the result ended with an error; execute the statement again");
  if (r->is_whole || r->rows >= end) return SQL_SUCCESS;
  begin_running(s);
  SQLRETURN returned = SQL_SUCCESS;
  while (returned == SQL_SUCCESS && !r->is_whole && r->rows < end) returned = take_batch(s, r);
  end_running(s);
  if (returned == SQL_SUCCESS) return SQL_SUCCESS;
  r->has_failed = true;
  bool is_told = s->head.diagnostic_count > 0;
  memcpy(r->failure, is_told ? s->head.diagnostics[0].state : "HY001", sizeof r->failure);
  return returned;
}

void result_forget(result *r, uint64_t row) {
  if (r->keeps_all) return;
  size_t old = 0;
  while (old < r->batch_count && r->batches[old].first + r->batches[old].rows <= row)
    free_batch(&r->batches[old++], r->column_count);
  if (old == 0) return;
  r->batch_count -= old;
  memmove(r->batches, r->batches + old, r->batch_count * sizeof *r->batches);
}

const batch *result_batch(const result *r, uint64_t row) {
  size_t low = 0, high = r->batch_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (r->batches[middle].first <= row)
      low = middle;
    else
      high = middle;
  }
  return &r->batches[low];
}

/* Rows that lie in files are all taken: that costs nothing. */
static bool is_mapped(const result *r) {
  for (size_t i = 0; i < r->column_count && r->batch_count > 0; i++)
    if (r->batches[r->batch_count - 1].values[i].flags & HYPOSTYLE_VALUES_MAPPED) return true;
  return false;
}

/* Takes the first rows of a result, or all of them. The statement runs meanwhile. */
static SQLRETURN load(statement *s, result *r) {
  hypostyle_error *error = NULL;
  for (size_t i = 0; i < r->column_count; i++) {
    r->columns[i].size = sizeof *r->columns;
    if (hypostyle_result_column(r->handle, i, &r->columns[i], &error) != HYPOSTYLE_OK)
      return fail_library(s, s->conn, &error);
  }
  SQLRETURN returned = SQL_SUCCESS;
  while (returned == SQL_SUCCESS && !r->is_whole && (r->keeps_all || r->bytes < BYTES_AT_ONCE || is_mapped(r)))
    returned = take_batch(s, r);
  return returned;
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
  r->most_rows = s->max_rows > 0 ? s->max_rows : UINT64_MAX;
  r->keeps_all = s->cursor_type != SQL_CURSOR_FORWARD_ONLY;
  size_t count = hypostyle_result_columns(r->handle);
  if (count > INT16_MAX) {
    result_free(r);
    return fail(s, "54011", "the result has %zu columns, and ODBC counts up to %d", count, INT16_MAX);
  }
  r->is_whole = count == 0;
  r->columns = calloc(count + 1, sizeof *r->columns);
  r->column_count = r->columns == NULL ? 0 : count;
  SQLRETURN returned = r->columns == NULL ? fail_memory(s) : load(s, r);
  if (returned != SQL_SUCCESS) {
    result_free(r);
    return returned;
  }
  *loaded = r;
  return SQL_SUCCESS;
}

void result_free(result *r) {
  for (size_t i = 0; i < r->batch_count; i++) free_batch(&r->batches[i], r->column_count);
  free(r->batches);
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

void scalar_at(const hypostyle_values *values, uint64_t row, scalar *value) {
  switch (values->type) {
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
    value->is_float = values->type == HYPOSTYLE_FLOAT;
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
