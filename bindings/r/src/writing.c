/* Rows of R for the database: a stream of Arrow data that copies them piece by piece.
 *
 * The library may pull the stream from a thread of its own, while R's thread waits. So the stream
 * reads the memory of vectors only, and calls nothing of R. R/prepare.R has brought the vectors into
 * one of the forms below. */
#include "glue.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many rows a piece has. */
#define PIECE 65536

typedef enum {
  FORM_LOGICAL = 1,
  FORM_INTEGER,
  FORM_DOUBLE,
  FORM_INTEGER64,
  FORM_DATE,      /* doubles: days */
  FORM_TIMESTAMP, /* doubles: seconds, with a time zone */
  FORM_TIME,      /* doubles: seconds since midnight */
  FORM_DURATION,  /* doubles: seconds */
  FORM_TEXT,      /* strings of UTF-8 */
  FORM_FACTOR,    /* integers and the strings of their levels */
  FORM_BYTES,     /* a list of raw vectors and NULL */
  FORM_LIST,      /* lengths, and a column of all elements */
  FORM_NULL       /* nothing but NULL, of any type */
} form;

typedef struct field {
  form form;
  char *name;
  const void *data;      /* logicals, integers, doubles; of a list: lengths */
  const SEXP *strings;   /* texts, or the levels of a factor */
  int64_t strings_count; /* the number of levels */
  SEXP list;             /* raw vectors */
  struct field *child;
  int64_t child_place;   /* where the elements of the next row begin */
} field;

/* R and the stream share it, and the last of them frees it. */
typedef struct {
  pthread_mutex_t lock;
  int owners;
  bool is_over; /* R's vectors may be gone */
  int64_t rows, place;
  int64_t count;
  field *fields;
  char error[256];
} source;

static void free_field(field *of) {
  free(of->name);
  if (of->child != NULL) {
    free_field(of->child);
    free(of->child);
  }
}

static void let_go(source *from, bool is_over) {
  pthread_mutex_lock(&from->lock);
  from->is_over = from->is_over || is_over;
  bool is_last = --from->owners == 0;
  pthread_mutex_unlock(&from->lock);
  if (!is_last) return;
  for (int64_t i = 0; i < from->count; i++) free_field(from->fields + i);
  free(from->fields);
  pthread_mutex_destroy(&from->lock);
  free(from);
}

/* ---- Arrays ---- */

static void release_array(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_children; i++) {
    struct ArrowArray *child = array->children[i];
    if (child->release != NULL) child->release(child);
    free(child);
  }
  for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
  free((void *)array->buffers);
  free(array->children);
  array->release = NULL;
}

/* Makes an array with buffers that are NULL, and children without data. */
static bool begin_array(struct ArrowArray *array, int64_t length, int64_t buffers, int64_t children) {
  memset(array, 0, sizeof *array);
  array->length = length;
  array->release = release_array;
  array->buffers = calloc((size_t)buffers + 1, sizeof *array->buffers);
  array->children = calloc((size_t)children + 1, sizeof *array->children);
  if (array->buffers == NULL || array->children == NULL) return false;
  array->n_buffers = buffers;
  for (int64_t i = 0; i < children; i++) {
    array->children[i] = calloc(1, sizeof(struct ArrowArray));
    if (array->children[i] == NULL) return false;
    array->n_children++;
  }
  return true;
}

/* Allocates a buffer of an array; one of zero bytes has an address, too. */
static void *buffer(struct ArrowArray *array, int64_t index, size_t bytes) {
  void *made = malloc(bytes + 8);
  array->buffers[index] = made;
  return made;
}

static bool set_null(struct ArrowArray *array, int64_t row) {
  uint8_t *bits = (uint8_t *)array->buffers[0];
  if (bits == NULL) {
    size_t bytes = (size_t)(array->length + 7) / 8;
    bits = buffer(array, 0, bytes);
    if (bits == NULL) return false;
    memset(bits, 0xff, bytes);
  }
  bits[row >> 3] &= (uint8_t)~(1u << (row & 7));
  array->null_count++;
  return true;
}

static bool no_memory(source *from) {
  snprintf(from->error, sizeof from->error, "no memory for rows of R");
  return false;
}

static bool fill_logicals(struct ArrowArray *array, const int *data) {
  uint8_t *bits = buffer(array, 1, (size_t)(array->length + 7) / 8);
  if (bits == NULL) return false;
  memset(bits, 0, (size_t)(array->length + 7) / 8);
  for (int64_t i = 0; i < array->length; i++) {
    if (data[i] == NA_LOGICAL) {
      if (!set_null(array, i)) return false;
    } else if (data[i]) {
      bits[i >> 3] |= (uint8_t)(1u << (i & 7));
    }
  }
  return true;
}

static bool fill_integers(struct ArrowArray *array, const int *data) {
  int32_t *out = buffer(array, 1, (size_t)array->length * sizeof *out);
  if (out == NULL) return false;
  memcpy(out, data, (size_t)array->length * sizeof *out);
  for (int64_t i = 0; i < array->length; i++)
    if (data[i] == NA_INTEGER && !set_null(array, i)) return false;
  return true;
}

/* A NaN that is not R's NA stays NaN. */
static bool is_na(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return value != value && (uint32_t)bits == 1954;
}

static bool fill_doubles(struct ArrowArray *array, const double *data) {
  double *out = buffer(array, 1, (size_t)array->length * sizeof *out);
  if (out == NULL) return false;
  memcpy(out, data, (size_t)array->length * sizeof *out);
  for (int64_t i = 0; i < array->length; i++)
    if (is_na(data[i]) && !set_null(array, i)) return false;
  return true;
}

static bool fill_integers64(struct ArrowArray *array, const int64_t *data) {
  int64_t *out = buffer(array, 1, (size_t)array->length * sizeof *out);
  if (out == NULL) return false;
  memcpy(out, data, (size_t)array->length * sizeof *out);
  for (int64_t i = 0; i < array->length; i++)
    if (data[i] == INT64_MIN && !set_null(array, i)) return false;
  return true;
}

static bool is_beyond(source *from, const field *of, double value, double limit) {
  if (value >= -limit && value < limit) return false;
  snprintf(from->error, sizeof from->error, "the column \"%.100s\" has %g, which is no %s of the database",
           of->name, value, of->form == FORM_DATE ? "date" : "point in time");
  return true;
}

static bool fill_dates(source *from, const field *of, struct ArrowArray *array, const double *data) {
  int32_t *out = buffer(array, 1, (size_t)array->length * sizeof *out);
  if (out == NULL) return no_memory(from);
  for (int64_t i = 0; i < array->length; i++) {
    out[i] = 0;
    if (data[i] != data[i]) {
      if (!set_null(array, i)) return no_memory(from);
    } else if (is_beyond(from, of, data[i], 2147483648.0)) {
      return false;
    } else {
      out[i] = (int32_t)floor(data[i]);
    }
  }
  return true;
}

/* Seconds as microseconds, the nearest. */
static bool fill_times(source *from, const field *of, struct ArrowArray *array, const double *data) {
  int64_t *out = buffer(array, 1, (size_t)array->length * sizeof *out);
  if (out == NULL) return no_memory(from);
  for (int64_t i = 0; i < array->length; i++) {
    out[i] = 0;
    if (data[i] != data[i]) {
      if (!set_null(array, i)) return no_memory(from);
    } else if (is_beyond(from, of, data[i], 9.2e12)) {
      return false;
    } else {
      double whole = floor(data[i]);
      out[i] = (int64_t)whole * 1000000 + llround((data[i] - whole) * 1e6);
    }
  }
  return true;
}

/* Puts texts or bytes behind each other. `get` tells one; a length of -1 is NULL. */
static bool fill_bytes(source *from, const field *of, struct ArrowArray *array, int64_t first,
                       const void *(*get)(const field *, int64_t, int64_t *)) {
  int64_t *offsets = buffer(array, 1, (size_t)(array->length + 1) * sizeof *offsets);
  if (offsets == NULL) return no_memory(from);
  int64_t length = 0, total = 0;
  for (int64_t i = 0; i < array->length; i++) {
    offsets[i] = total;
    get(of, first + i, &length);
    if (length >= 0)
      total += length;
    else if (!set_null(array, i))
      return no_memory(from);
  }
  offsets[array->length] = total;
  char *heap = buffer(array, 2, (size_t)total);
  if (heap == NULL) return no_memory(from);
  for (int64_t i = 0; i < array->length; i++) {
    const void *begin = get(of, first + i, &length);
    if (length > 0) memcpy(heap + offsets[i], begin, (size_t)length);
  }
  return true;
}

static const void *text_at(const field *of, int64_t row, int64_t *length) {
  SEXP string = of->strings[row];
  *length = string == NA_STRING ? -1 : LENGTH(string);
  return CHAR(string);
}

static const void *level_at(const field *of, int64_t row, int64_t *length) {
  int code = ((const int *)of->data)[row];
  if (code == NA_INTEGER || code < 1 || code > of->strings_count) {
    *length = -1;
    return NULL;
  }
  return text_at(of, code - 1, length);
}

static const void *raw_at(const field *of, int64_t row, int64_t *length) {
  SEXP raw = VECTOR_ELT(of->list, row);
  *length = raw == R_NilValue ? -1 : XLENGTH(raw);
  return raw == R_NilValue ? NULL : RAW_RO(raw);
}

static bool fill(source *from, field *of, struct ArrowArray *array, int64_t first, int64_t length);

static bool fill_lists(source *from, field *of, struct ArrowArray *array, int64_t first) {
  const int *lengths = (const int *)of->data + first;
  int64_t *offsets = buffer(array, 1, (size_t)(array->length + 1) * sizeof *offsets);
  if (offsets == NULL) return no_memory(from);
  int64_t total = 0;
  for (int64_t i = 0; i < array->length; i++) {
    offsets[i] = total;
    if (lengths[i] != NA_INTEGER)
      total += lengths[i];
    else if (!set_null(array, i))
      return no_memory(from);
  }
  offsets[array->length] = total;
  int64_t begin = of->child_place;
  of->child_place += total;
  return fill(from, of->child, array->children[0], begin, total);
}

/* Fills an array with rows of a column. */
static bool fill(source *from, field *of, struct ArrowArray *array, int64_t first, int64_t length) {
  if (of->form == FORM_NULL) {
    if (!begin_array(array, length, 0, 0)) return no_memory(from);
    array->null_count = length;
    return true;
  }
  bool is_long = of->form == FORM_TEXT || of->form == FORM_FACTOR || of->form == FORM_BYTES;
  if (!begin_array(array, length, is_long ? 3 : 2, of->form == FORM_LIST)) return no_memory(from);
  const int *ints = of->data;
  const double *numbers = of->data;
  bool is_done = true;
  switch (of->form) {
  case FORM_LOGICAL: is_done = fill_logicals(array, ints + first); break;
  case FORM_INTEGER: is_done = fill_integers(array, ints + first); break;
  case FORM_DOUBLE: is_done = fill_doubles(array, numbers + first); break;
  case FORM_INTEGER64: is_done = fill_integers64(array, (const int64_t *)of->data + first); break;
  case FORM_DATE: return fill_dates(from, of, array, numbers + first);
  case FORM_TIMESTAMP: case FORM_TIME: case FORM_DURATION: return fill_times(from, of, array, numbers + first);
  case FORM_TEXT: return fill_bytes(from, of, array, first, text_at);
  case FORM_FACTOR: return fill_bytes(from, of, array, first, level_at);
  case FORM_BYTES: return fill_bytes(from, of, array, first, raw_at);
  case FORM_LIST: return fill_lists(from, of, array, first);
  case FORM_NULL: break;
  }
  return is_done || no_memory(from);
}

/* ---- Schemas ---- */

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    struct ArrowSchema *child = schema->children[i];
    if (child->release != NULL) child->release(child);
    free(child);
  }
  free(schema->children);
  free((void *)schema->name);
  schema->release = NULL;
}

static bool begin_schema(struct ArrowSchema *schema, const char *format, const char *name, int64_t children) {
  memset(schema, 0, sizeof *schema);
  schema->format = format;
  schema->flags = ARROW_FLAG_NULLABLE;
  schema->release = release_schema;
  schema->name = strdup(name);
  schema->children = calloc((size_t)children + 1, sizeof *schema->children);
  if (schema->name == NULL || schema->children == NULL) return false;
  for (int64_t i = 0; i < children; i++) {
    schema->children[i] = calloc(1, sizeof(struct ArrowSchema));
    if (schema->children[i] == NULL) return false;
    schema->n_children++;
  }
  return true;
}

static const char *format_of(form of) {
  switch (of) {
  case FORM_LOGICAL: return "b";
  case FORM_INTEGER: return "i";
  case FORM_DOUBLE: return "g";
  case FORM_INTEGER64: return "l";
  case FORM_DATE: return "tdD";
  case FORM_TIMESTAMP: return "tsu:UTC";
  case FORM_TIME: return "ttu";
  case FORM_DURATION: return "tDu";
  case FORM_TEXT: case FORM_FACTOR: return "U";
  case FORM_BYTES: return "Z";
  case FORM_LIST: return "+L";
  case FORM_NULL: break;
  }
  return "n";
}

static bool describe(const field *of, struct ArrowSchema *schema) {
  if (!begin_schema(schema, format_of(of->form), of->name, of->form == FORM_LIST)) return false;
  return of->form != FORM_LIST || describe(of->child, schema->children[0]);
}

/* ---- The stream ---- */

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  source *from = stream->private_data;
  bool is_done = begin_schema(out, "+s", "", from->count);
  for (int64_t i = 0; is_done && i < from->count; i++) is_done = describe(from->fields + i, out->children[i]);
  if (is_done) return 0;
  no_memory(from);
  out->release(out);
  return ENOMEM;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  source *from = stream->private_data;
  memset(out, 0, sizeof *out);
  pthread_mutex_lock(&from->lock);
  int status = 0;
  int64_t rest = from->rows - from->place;
  int64_t length = rest < PIECE ? rest : PIECE;
  if (from->is_over) {
    snprintf(from->error, sizeof from->error, "the rows of R were read too late");
    status = EIO;
  } else if (length > 0) {
    bool is_done = begin_array(out, length, 1, from->count) || no_memory(from);
    for (int64_t i = 0; is_done && i < from->count; i++)
      is_done = fill(from, from->fields + i, out->children[i], from->place, length);
    if (!is_done) {
      out->release(out);
      status = EINVAL;
    }
    from->place += length;
  }
  pthread_mutex_unlock(&from->lock);
  return status;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  const source *from = stream->private_data;
  return from->error[0] == '\0' ? NULL : from->error;
}

static void release_stream(struct ArrowArrayStream *stream) {
  let_go(stream->private_data, false);
  stream->release = NULL;
}

/* ---- From R ---- */

static void finalize_rows(SEXP pointer) {
  source *from = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (from != NULL) let_go(from, true);
}

void hs_rows_end(SEXP rows) { finalize_rows(rows); }

/* Reads a column: list(name, form, vector, levels or child). R may jump out; the source is owned. */
static int64_t read_field(SEXP column, field *out) {
  const char *name = Rf_translateCharUTF8(STRING_ELT(VECTOR_ELT(column, 0), 0));
  out->name = strdup(name);
  if (out->name == NULL) Rf_error("no memory for rows");
  out->form = (form)Rf_asInteger(VECTOR_ELT(column, 1));
  SEXP vector = VECTOR_ELT(column, 2);
  switch (out->form) {
  case FORM_LOGICAL: out->data = LOGICAL_RO(vector); break;
  case FORM_INTEGER: case FORM_FACTOR: case FORM_LIST: out->data = INTEGER_RO(vector); break;
  case FORM_TEXT: out->strings = STRING_PTR_RO(vector); break;
  case FORM_BYTES: out->list = vector; break;
  case FORM_NULL: break;
  default: out->data = REAL_RO(vector);
  }
  if (out->form == FORM_FACTOR) {
    SEXP levels = VECTOR_ELT(column, 3);
    out->strings = STRING_PTR_RO(levels);
    out->strings_count = XLENGTH(levels);
  }
  if (out->form == FORM_LIST) {
    out->child = calloc(1, sizeof *out->child);
    if (out->child == NULL) Rf_error("no memory for rows");
    read_field(VECTOR_ELT(column, 3), out->child);
  }
  return XLENGTH(vector);
}

SEXP hs_rows(SEXP columns) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, Rf_install("hypostyle_rows"), columns));
  R_RegisterCFinalizerEx(pointer, finalize_rows, FALSE);
  source *from = calloc(1, sizeof *from);
  if (from == NULL) Rf_error("no memory for rows");
  pthread_mutex_init(&from->lock, NULL);
  from->owners = 1;
  R_SetExternalPtrAddr(pointer, from);
  int64_t count = XLENGTH(columns);
  from->fields = calloc((size_t)count + 1, sizeof *from->fields);
  if (from->fields == NULL) Rf_error("no memory for rows");
  from->count = count;
  for (int64_t i = 0; i < count; i++) from->rows = read_field(VECTOR_ELT(columns, i), from->fields + i);
  UNPROTECT(1);
  return pointer;
}

void hs_rows_stream(SEXP rows, struct ArrowArrayStream *stream) {
  source *from = R_ExternalPtrAddr(rows);
  pthread_mutex_lock(&from->lock);
  from->owners++;
  pthread_mutex_unlock(&from->lock);
  stream->get_schema = get_schema;
  stream->get_next = get_next;
  stream->get_last_error = get_last_error;
  stream->release = release_stream;
  stream->private_data = from;
}

/* Appends columns to a table. flags: those of hypostyle_append(). */
SEXP hs_append(SEXP connection, SEXP table, SEXP columns, SEXP flags) {
  hs_link *link = hs_link_of(connection);
  const char *name = Rf_translateCharUTF8(STRING_ELT(table, 0));
  SEXP rows = PROTECT(hs_rows(columns));
  struct ArrowArrayStream stream;
  uint64_t appended = 0;
  hypostyle_error *error = NULL;
  hs_enter(link, R_NilValue);
  hs_rows_stream(rows, &stream);
  hypostyle_status status = hypostyle_append(link->connection, name, HYPOSTYLE_NUL, &stream,
                                             (uint32_t)Rf_asInteger(flags), &appended, &error);
  hs_rows_end(rows);
  hs_leave(link, status, &error);
  UNPROTECT(1);
  return Rf_ScalarReal((double)appended);
}

/* Binds rows for the next execution, and returns their owner. */
SEXP hs_bind_rows(SEXP statement, SEXP columns, SEXP by_name) {
  hypostyle_statement *to = R_ExternalPtrAddr(statement);
  if (to == NULL) Rf_error("the statement is closed");
  SEXP rows = PROTECT(hs_rows(columns));
  struct ArrowArrayStream stream;
  hypostyle_error *error = NULL;
  hs_rows_stream(rows, &stream);
  uint32_t flags = Rf_asLogical(by_name) == TRUE ? HYPOSTYLE_BY_NAME : 0;
  if (hypostyle_bind_stream(to, &stream, flags, &error) != HYPOSTYLE_OK) hs_raise(&error);
  UNPROTECT(1);
  return rows;
}

/* Reads one value of a column of one row. */
static void read_value(const field *of, hypostyle_value *value) {
  memset(value, 0, sizeof *value);
  value->size = sizeof *value;
  double number = of->form >= FORM_DOUBLE && of->form <= FORM_DURATION ? *(const double *)of->data : 0;
  int64_t length = 0;
  switch (of->form) {
  case FORM_LOGICAL: case FORM_INTEGER: {
    int integer = *(const int *)of->data;
    if (integer == NA_INTEGER) return;
    value->type = of->form == FORM_LOGICAL ? HYPOSTYLE_BOOLEAN : HYPOSTYLE_INTEGER;
    value->integer = integer;
    return;
  }
  case FORM_DOUBLE:
    if (is_na(number)) return;
    value->type = HYPOSTYLE_DOUBLE;
    value->number = number;
    return;
  case FORM_INTEGER64:
    memcpy(&value->integer, of->data, sizeof value->integer);
    if (value->integer != INT64_MIN) value->type = HYPOSTYLE_BIGINT;
    return;
  case FORM_DATE: case FORM_TIMESTAMP: case FORM_TIME: case FORM_DURATION:
    if (number != number) return;
    if (!(number >= -9.2e12 && number < 9.2e12)) Rf_error("%g is no date or point in time", number);
    value->type = of->form == FORM_DATE        ? HYPOSTYLE_DATE
                  : of->form == FORM_TIMESTAMP ? HYPOSTYLE_TIMESTAMPTZ
                  : of->form == FORM_TIME      ? HYPOSTYLE_TIME
                                               : HYPOSTYLE_DURATION;
    value->scale = 6;
    value->integer = of->form == FORM_DATE
                         ? (int64_t)floor(number)
                         : (int64_t)floor(number) * 1000000 + llround((number - floor(number)) * 1e6);
    return;
  case FORM_TEXT: value->data = text_at(of, 0, &length), value->type = HYPOSTYLE_VARCHAR; break;
  case FORM_FACTOR: value->data = level_at(of, 0, &length), value->type = HYPOSTYLE_VARCHAR; break;
  case FORM_BYTES: value->data = raw_at(of, 0, &length), value->type = HYPOSTYLE_BLOB; break;
  case FORM_LIST: Rf_error("a list is no value of one parameter; bind rows");
  case FORM_NULL: return;
  }
  if (length < 0) {
    value->type = HYPOSTYLE_NULL;
    value->data = NULL;
  } else {
    value->length = (size_t)length;
  }
}

static size_t place_of(hypostyle_statement *statement, const field *of, R_xlen_t position, bool has_names) {
  size_t place = (size_t)position;
  hypostyle_error *error = NULL;
  if (has_names && hypostyle_statement_parameter_index(statement, of->name, HYPOSTYLE_NUL, &place, &error) !=
                       HYPOSTYLE_OK)
    hs_raise(&error);
  return place;
}

/* Binds the values of one row, by the names of columns or by position. */
SEXP hs_bind_values(SEXP statement, SEXP columns, SEXP names) {
  hypostyle_statement *to = R_ExternalPtrAddr(statement);
  if (to == NULL) Rf_error("the statement is closed");
  SEXP rows = PROTECT(hs_rows(columns));
  source *from = R_ExternalPtrAddr(rows);
  for (int64_t i = 0; i < from->count; i++) {
    hypostyle_value value;
    hypostyle_error *error = NULL;
    size_t place = place_of(to, from->fields + i, i, Rf_asLogical(names) == TRUE);
    read_value(from->fields + i, &value);
    if (hypostyle_bind(to, place, &value, &error) != HYPOSTYLE_OK) hs_raise(&error);
  }
  UNPROTECT(1);
  return R_NilValue;
}
