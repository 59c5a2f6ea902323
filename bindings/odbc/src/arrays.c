/* Arrays of parameters as one stream of Arrow, for which the statement runs once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 unsigned128;

/* ---- Arrow ---- */

/* One parameter of all rows. */
typedef struct {
  char format[24], name[12];
  uint8_t *validity;
  void *data;   /* elements, or offsets of 64 bits */
  builder heap; /* of texts and bytes */
  int64_t null_count;
  const void *buffers[3];
  struct ArrowArray array;
  struct ArrowSchema schema;
} parameter_column;

/* The array of rows and that of each column hold them, since a reader may keep one column alone. */
typedef struct {
  size_t rows, count;
  _Atomic size_t holders;
  parameter_column *columns;
} parameter_rows;

static void free_rows(parameter_rows *rows) {
  for (size_t i = 0; rows->columns != NULL && i < rows->count; i++)
    free(rows->columns[i].validity), free(rows->columns[i].data), free(rows->columns[i].heap.data);
  free(rows->columns);
  free(rows);
}

static void release_child_schema(struct ArrowSchema *schema) { schema->release = NULL; }

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    free((void *)(uintptr_t)schema->children[i]->private_data);
    free(schema->children[i]);
  }
  free(schema->children);
  schema->release = NULL;
}

/* A schema outlives the stream, and so has texts of its own. */
static struct ArrowSchema *child_schema(const parameter_column *c) {
  struct ArrowSchema *schema = calloc(1, sizeof *schema);
  char *texts = malloc(sizeof c->format + sizeof c->name);
  if (schema == NULL || texts == NULL) {
    free(schema);
    free(texts);
    return NULL;
  }
  memcpy(texts, c->format, sizeof c->format);
  memcpy(texts + sizeof c->format, c->name, sizeof c->name);
  schema->format = texts;
  schema->name = texts + sizeof c->format;
  schema->flags = ARROW_FLAG_NULLABLE;
  schema->private_data = texts;
  schema->release = release_child_schema;
  return schema;
}

static int give_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  const parameter_rows *rows = stream->private_data;
  memset(out, 0, sizeof *out);
  out->format = "+s";
  out->name = "";
  out->children = calloc(rows->count + 1, sizeof *out->children);
  if (out->children == NULL) return 12;
  out->release = release_schema;
  for (size_t i = 0; i < rows->count; i++) {
    out->children[i] = child_schema(&rows->columns[i]);
    if (out->children[i] == NULL) {
      release_schema(out);
      return 12;
    }
    out->n_children++;
  }
  return 0;
}

static void let_go(parameter_rows *rows) {
  if (atomic_fetch_sub(&rows->holders, 1) == 1) free_rows(rows);
}

static void release_child_array(struct ArrowArray *array) {
  array->release = NULL;
  let_go(array->private_data);
}

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children[i]->release != NULL) array->children[i]->release(array->children[i]);
  free(array->children);
  array->release = NULL;
  let_go(array->private_data);
}

static const void *no_buffers[1];

/* The rows belong to the array from then on. */
static int give_array(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  parameter_rows *rows = stream->private_data;
  memset(out, 0, sizeof *out);
  if (rows == NULL) return 0;
  out->children = calloc(rows->count + 1, sizeof *out->children);
  if (out->children == NULL) return 12;
  for (size_t i = 0; i < rows->count; i++) {
    parameter_column *c = &rows->columns[i];
    bool has_heap = *c->format == 'U' || *c->format == 'Z';
    c->buffers[0] = c->null_count == 0 ? NULL : c->validity;
    c->buffers[1] = c->data;
    c->buffers[2] = c->heap.data;
    c->array = (struct ArrowArray){.length = (int64_t)rows->rows,
                                   .null_count = c->null_count,
                                   .n_buffers = has_heap ? 3 : 2,
                                   .buffers = c->buffers,
                                   .release = release_child_array,
                                   .private_data = rows};
    out->children[i] = &c->array;
  }
  out->length = (int64_t)rows->rows;
  out->n_buffers = 1;
  out->buffers = no_buffers;
  out->n_children = (int64_t)rows->count;
  out->private_data = rows;
  atomic_store(&rows->holders, rows->count + 1);
  out->release = release_array;
  stream->private_data = NULL;
  return 0;
}

static const char *last_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return "there is no memory for the parameters";
}

static void release_stream(struct ArrowArrayStream *stream) {
  if (stream->private_data != NULL) free_rows(stream->private_data);
  stream->release = NULL;
}

/* ---- Filling ---- */

/* The rows that are not ignored. */
typedef struct {
  size_t *rows;
  size_t count;
} chosen;

static void set_valid(parameter_column *c, size_t at, bool is_valid) {
  if (is_valid)
    c->validity[at / 8] |= (uint8_t)(1u << (at % 8));
  else
    c->null_count++;
}

/* Says whether the bits of a C type are those of the column for an SQL type. */
static const char *same_format(SQLSMALLINT c_type, SQLSMALLINT sql_type) {
  switch (sql_type) {
  case SQL_SMALLINT: return c_type == SQL_C_SSHORT || c_type == SQL_C_SHORT ? "s" : NULL;
  case SQL_INTEGER: return c_type == SQL_C_SLONG || c_type == SQL_C_LONG ? "i" : NULL;
  case SQL_BIGINT: return c_type == SQL_C_SBIGINT ? "l" : NULL;
  case SQL_REAL: return c_type == SQL_C_FLOAT ? "f" : NULL;
  case SQL_DOUBLE:
  case SQL_FLOAT: return c_type == SQL_C_DOUBLE ? "g" : NULL;
  default: return NULL;
  }
}

/* Returns the indicator of a row; 0 if there is none. */
static SQLLEN indicator_of(const statement *s, const record *r, size_t row) {
  SQLLEN indicator = 0;
  const char *place = element_of(s->apd, r->indicator_ptr, sizeof(SQLLEN), row);
  if (place != NULL) memcpy(&indicator, place, sizeof indicator);
  return indicator;
}

static bool has_default(const statement *s, const record *r, const chosen *rows) {
  for (size_t k = 0; r->indicator_ptr != NULL && k < rows->count; k++)
    if (indicator_of(s, r, rows->rows[k]) == SQL_DEFAULT_PARAM) return true;
  return false;
}

/* Numbers of fixed size have no length but that of NULL. Data at execution go the other way, and so do
 * defaults, which are refused there. */
static bool fill_same(statement *s, size_t parameter, const chosen *rows, parameter_column *c) {
  const record *a = record_of(s->apd, (SQLSMALLINT)(parameter + 1)),
               *i = record_of(s->ipd, (SQLSMALLINT)(parameter + 1));
  const char *format = a == NULL || i == NULL ? NULL : same_format(a->concise_type, i->concise_type);
  if (format == NULL || a->data == NULL || s->late_count > 0 || has_default(s, a, rows)) return false;
  size_t size = (size_t)c_size(a->concise_type);
  c->data = malloc(rows->count * size);
  if (c->data == NULL) return false;
  strcpy(c->format, format);
  for (size_t k = 0; k < rows->count; k++) {
    size_t row = rows->rows[k];
    bool is_null = indicator_of(s, a, row) == SQL_NULL_DATA;
    set_valid(c, k, !is_null);
    char *out = (char *)c->data + k * size;
    if (is_null)
      memset(out, 0, size);
    else
      memcpy(out, element_of(s->apd, a->data, size, row), size);
  }
  return true;
}

/* A GUID goes as its text: 16 bytes of Arrow would be a BLOB. */
static void add_guid(builder *heap, const hypostyle_value *value) {
  scalar guid = {.kind = SCALAR_GUID};
  char text[TEXT_OF_SCALAR_MAX];
  memcpy(guid.guid, value->data, sizeof guid.guid);
  add_bytes(heap, text, scalar_text(&guid, text));
}

static const char *fill_texts(statement *s, size_t parameter, const chosen *rows, parameter_column *c,
                              size_t *failed) {
  int64_t *offsets = malloc((rows->count + 1) * sizeof *offsets);
  if (offsets == NULL) return "HY001";
  c->data = offsets;
  offsets[0] = 0;
  builder own = {0};
  const char *state = NULL;
  add_bytes(&c->heap, "", 0);
  for (size_t k = 0; k < rows->count && state == NULL; k++) {
    hypostyle_value value;
    state = read_parameter(s, parameter, rows->rows[k], &value, &own);
    *failed = rows->rows[k];
    if (state != NULL) break;
    set_valid(c, k, value.type != HYPOSTYLE_NULL);
    if (value.type == HYPOSTYLE_UUID)
      add_guid(&c->heap, &value);
    else if (value.type != HYPOSTYLE_NULL)
      add_bytes(&c->heap, value.data, value.length);
    if (c->heap.failed) state = "HY001";
    offsets[k + 1] = (int64_t)c->heap.length;
  }
  free(own.data);
  return state;
}

static int128 decimal_of_value(const hypostyle_value *value) {
  return (int128)((unsigned128)(uint64_t)value->high << 64 | (uint64_t)value->integer);
}

/* Gives a DECIMAL the scale of the column. */
static bool widen(const hypostyle_value *value, int32_t scale, int128 *out) {
  int128 number = decimal_of_value(value);
  int128 most = 1;
  for (int i = 0; i < 38; i++) most *= 10;
  for (int32_t i = value->scale; i < scale; i++) {
    if (number >= most / 10 || number <= -most / 10) return false;
    number *= 10;
  }
  *out = number;
  return number < most && number > -most;
}

/* Returns the bytes of an element, and writes the format of a column of such values. */
static size_t format_of(hypostyle_type type, int32_t scale, char *format) {
  switch (type) {
  case HYPOSTYLE_BOOLEAN: strcpy(format, "b"); return 0;
  case HYPOSTYLE_SMALLINT: strcpy(format, "s"); return 2;
  case HYPOSTYLE_INTEGER: strcpy(format, "i"); return 4;
  case HYPOSTYLE_FLOAT: strcpy(format, "f"); return 4;
  case HYPOSTYLE_DOUBLE: strcpy(format, "g"); return 8;
  case HYPOSTYLE_DECIMAL: sprintf(format, "d:38,%d", (int)scale); return 16;
  case HYPOSTYLE_DATE: strcpy(format, "tdD"); return 4;
  case HYPOSTYLE_TIME: strcpy(format, "ttu"); return 8;
  case HYPOSTYLE_TIMESTAMP: strcpy(format, scale == 9 ? "tsn:" : "tsu:"); return 8;
  case HYPOSTYLE_INTERVAL: strcpy(format, "tin"); return 16;
  default: strcpy(format, "l"); return 8;
  }
}

static bool put_element(const hypostyle_value *value, int32_t scale, char *out) {
  switch (value->type) {
  case HYPOSTYLE_SMALLINT: memcpy(out, &value->integer, 2); return true;
  case HYPOSTYLE_INTEGER:
  case HYPOSTYLE_DATE: memcpy(out, &value->integer, 4); return true;
  case HYPOSTYLE_DOUBLE: memcpy(out, &value->number, 8); return true;
  case HYPOSTYLE_FLOAT: {
    float narrow = (float)value->number;
    memcpy(out, &narrow, sizeof narrow);
    return true;
  }
  case HYPOSTYLE_DECIMAL: {
    int128 number;
    if (!widen(value, scale, &number)) return false;
    memcpy(out, &number, sizeof number);
    return true;
  }
  case HYPOSTYLE_TIMESTAMP: {
    int64_t units = value->integer;
    if (value->scale < scale && __builtin_mul_overflow(units, (int64_t)1000, &units)) return false;
    memcpy(out, &units, sizeof units);
    return true;
  }
  case HYPOSTYLE_INTERVAL:
    memcpy(out, &value->high, 8);
    memcpy(out + 8, &value->integer, 8);
    return true;
  default: memcpy(out, &value->integer, 8); return true;
  }
}

static const char *pack(const hypostyle_value *values, const chosen *rows, parameter_column *c,
                        size_t *failed) {
  hypostyle_type type = HYPOSTYLE_NULL;
  int32_t scale = 0;
  for (size_t k = 0; k < rows->count; k++) {
    if (values[k].type != HYPOSTYLE_NULL) type = values[k].type;
    if (values[k].scale > scale) scale = values[k].scale;
  }
  size_t size = format_of(type, scale, c->format);
  c->data = calloc(rows->count + 1, size == 0 ? 1 : size);
  if (c->data == NULL) return "HY001";
  for (size_t k = 0; k < rows->count; k++) {
    *failed = rows->rows[k];
    bool is_null = values[k].type == HYPOSTYLE_NULL;
    set_valid(c, k, !is_null);
    if (is_null) continue;
    if (size == 0)
      ((uint8_t *)c->data)[k / 8] |= (uint8_t)((values[k].integer != 0) << (k % 8));
    else if (!put_element(&values[k], scale, (char *)c->data + k * size))
      return "22003";
  }
  return NULL;
}

static const char *fill_values(statement *s, size_t parameter, const chosen *rows, parameter_column *c,
                               size_t *failed) {
  hypostyle_value *values = malloc(rows->count * sizeof *values);
  if (values == NULL) return "HY001";
  builder own = {0};
  const char *state = NULL;
  for (size_t k = 0; k < rows->count && state == NULL; k++) {
    *failed = rows->rows[k];
    state = read_parameter(s, parameter, rows->rows[k], &values[k], &own);
  }
  if (state == NULL) state = pack(values, rows, c, failed);
  free(values);
  free(own.data);
  return state;
}

static const char *fill_column(statement *s, size_t parameter, const chosen *rows, parameter_column *c,
                               size_t *failed) {
  c->validity = calloc(rows->count / 8 + 1, 1);
  if (c->validity == NULL) return "HY001";
  if (fill_same(s, parameter, rows, c)) return NULL;
  const record *r = record_of(s->ipd, (SQLSMALLINT)(parameter + 1));
  SQLSMALLINT type = r == NULL ? SQL_WVARCHAR : r->concise_type;
  if (is_character(type) || is_binary(type) || type == SQL_GUID) {
    strcpy(c->format, is_binary(type) ? "Z" : "U");
    return fill_texts(s, parameter, rows, c, failed);
  }
  return fill_values(s, parameter, rows, c, failed);
}

static SQLRETURN refuse_row(statement *s, const char *state, size_t row, size_t parameter) {
  for (size_t i = 0; s->ipd->array_status != NULL && i < s->apd->array_size; i++)
    s->ipd->array_status[i] = i == row ? SQL_PARAM_ERROR : SQL_PARAM_UNUSED;
  if (s->ipd->rows_processed != NULL) *s->ipd->rows_processed = row + 1;
  return tell_conversion(s, state, (SQLLEN)row + 1, (SQLINTEGER)parameter + 1);
}

static SQLRETURN fill_rows(statement *s, const part *p, size_t first, const chosen *rows,
                           parameter_rows **out) {
  parameter_rows *filled = calloc(1, sizeof *filled);
  if (filled != NULL) filled->columns = calloc(p->parameters, sizeof *filled->columns);
  if (filled == NULL || filled->columns == NULL) {
    free(filled);
    return fail_memory(s);
  }
  filled->rows = rows->count;
  filled->count = p->parameters;
  for (size_t i = 0; i < p->parameters; i++) {
    size_t failed = 0;
    snprintf(filled->columns[i].name, sizeof filled->columns[i].name, "%u", (unsigned)i + 1);
    const char *state = fill_column(s, first + i, rows, &filled->columns[i], &failed);
    if (state != NULL) {
      free_rows(filled);
      return refuse_row(s, state, failed, first + i);
    }
  }
  *out = filled;
  return SQL_SUCCESS;
}

static SQLRETURN bind_stream(statement *s, const part *p, size_t first, const chosen *rows) {
  parameter_rows *filled = NULL;
  SQLRETURN returned = fill_rows(s, p, first, rows, &filled);
  if (returned != SQL_SUCCESS) return returned;
  struct ArrowArrayStream stream = {give_schema, give_array, last_error, release_stream, filled};
  hypostyle_error *error = NULL;
  if (hypostyle_bind_stream(p->handle, &stream, 0, &error) == HYPOSTYLE_OK) return SQL_SUCCESS;
  return fail_library(s, s->conn, &error);
}

SQLRETURN bind_rows(statement *s, const part *p, size_t first, bool *has_rows) {
  chosen rows = {malloc(s->apd->array_size * sizeof(size_t)), 0};
  if (rows.rows == NULL) return fail_memory(s);
  for (size_t row = 0; row < s->apd->array_size; row++)
    if (!is_ignored_row(s, row)) rows.rows[rows.count++] = row;
  *has_rows = rows.count > 0;
  SQLRETURN returned = *has_rows ? bind_stream(s, p, first, &rows) : SQL_SUCCESS;
  free(rows.rows);
  return returned;
}
