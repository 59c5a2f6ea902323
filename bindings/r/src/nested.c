/* Columns of lists, arrays, structures and maps, from Arrow data: each value becomes an element of a
 * list. A list of numbers is a vector, a structure is a named list, and a list of structures and a map
 * are data frames. */
#include "glue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is freed also when R jumps out. */
typedef struct {
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  struct ArrowArray array;
} owned;

static void release_array(owned *own) {
  if (own->array.release != NULL) own->array.release(&own->array);
  own->array.release = NULL;
}

static void finalize_owned(SEXP pointer) {
  owned *own = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (own == NULL) return;
  release_array(own);
  if (own->schema.release != NULL) own->schema.release(&own->schema);
  if (own->stream.release != NULL) own->stream.release(&own->stream);
  free(own);
}

static bool bit_at(const void *bits, int64_t index) {
  return ((const uint8_t *)bits)[index >> 3] >> (index & 7) & 1;
}

static bool is_null(const struct ArrowArray *array, int64_t row) {
  if (array->null_count == 0 || array->n_buffers == 0 || array->buffers[0] == NULL) return false;
  return !bit_at(array->buffers[0], array->offset + row);
}

static SEXP slice(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from, int64_t count);

static void set_class(SEXP vector, const char *first, const char *second) {
  SEXP class = PROTECT(Rf_allocVector(STRSXP, second == NULL ? 1 : 2));
  SET_STRING_ELT(class, 0, Rf_mkChar(first));
  if (second != NULL) SET_STRING_ELT(class, 1, Rf_mkChar(second));
  Rf_setAttrib(vector, R_ClassSymbol, class);
  UNPROTECT(1);
}

static double decimal_at(const uint8_t *data, int64_t index, uint32_t width) {
  int64_t words[4];
  memcpy(words, data + (size_t)index * width, width);
  if (width == 4) {
    int32_t narrow;
    memcpy(&narrow, data + (size_t)index * width, width);
    return narrow;
  }
  if (width == 8) return (double)words[0];
  uint32_t count = width / 8;
  long double number = words[count - 1];
  for (uint32_t i = count - 1; i-- > 0;) number = number * 18446744073709551616.0L + (uint64_t)words[i];
  return (double)number;
}

/* Whether a 64-bit integer was read for which a double has no room. */
static bool has_rounded;

static double rounded(int64_t number) {
  if (number > 9007199254740992 || number < -9007199254740992) has_rounded = true;
  return (double)number;
}

/* Reads a number of the array; the format is known. */
static double number_at(const char *format, const struct ArrowArray *array, int64_t row) {
  const void *data = array->buffers[1];
  int64_t i = array->offset + row;
  switch (format[0]) {
  case 'c': return ((const int8_t *)data)[i];
  case 'C': return ((const uint8_t *)data)[i];
  case 's': return ((const int16_t *)data)[i];
  case 'S': return ((const uint16_t *)data)[i];
  case 'i': return ((const int32_t *)data)[i];
  case 'I': return ((const uint32_t *)data)[i];
  case 'l': return rounded(((const int64_t *)data)[i]);
  case 'L': {
    uint64_t number = ((const uint64_t *)data)[i];
    return number > INT64_MAX ? (has_rounded = true, (double)number) : rounded((int64_t)number);
  }
  case 'f': return ((const float *)data)[i];
  case 'b': return bit_at(data, i);
  default: return ((const double *)data)[i];
  }
}

static double unit_of(char unit) {
  switch (unit) {
  case 's': return 1;
  case 'm': return 1e3;
  case 'u': return 1e6;
  default: return 1e9;
  }
}

static bool has_least(const struct ArrowArray *array, int64_t from, int64_t count) {
  const int32_t *data = (const int32_t *)array->buffers[1] + array->offset + from;
  for (int64_t i = 0; i < count; i++)
    if (data[i] == INT32_MIN && !is_null(array, from + i)) return true;
  return false;
}

static SEXP integers(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from,
                     int64_t count) {
  bool is_logical = schema->format[0] == 'b';
  SEXP vector = PROTECT(Rf_allocVector(is_logical ? LGLSXP : INTSXP, count));
  int *out = is_logical ? LOGICAL(vector) : INTEGER(vector);
  for (int64_t i = 0; i < count; i++)
    out[i] = is_null(array, from + i) ? NA_INTEGER : (int)number_at(schema->format, array, from + i);
  UNPROTECT(1);
  return vector;
}

static SEXP doubles(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from,
                    int64_t count) {
  SEXP vector = PROTECT(Rf_allocVector(REALSXP, count));
  for (int64_t i = 0; i < count; i++)
    REAL(vector)[i] = is_null(array, from + i) ? NA_REAL : number_at(schema->format, array, from + i);
  UNPROTECT(1);
  return vector;
}

static SEXP decimals(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from,
                     int64_t count) {
  int precision = 0, scale = 0, bits = 128;
  sscanf(schema->format, "d:%d,%d,%d", &precision, &scale, &bits);
  double divisor = 1;
  for (int i = 0; i < scale; i++) divisor *= 10;
  SEXP vector = PROTECT(Rf_allocVector(REALSXP, count));
  for (int64_t i = 0; i < count; i++) {
    int64_t row = array->offset + from + i;
    REAL(vector)[i] = is_null(array, from + i)
                          ? NA_REAL
                          : decimal_at(array->buffers[1], row, (uint32_t)bits / 8) / divisor;
  }
  UNPROTECT(1);
  return vector;
}

/* Dates, times and durations. */
static SEXP times(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from,
                  int64_t count) {
  const char *format = schema->format;
  bool is_narrow = strcmp(format, "tdD") == 0 || strcmp(format, "tts") == 0 || strcmp(format, "ttm") == 0;
  double divisor = format[1] == 'd' ? (format[2] == 'm' ? 86400e3 : 1) : unit_of(format[2]);
  SEXP vector = PROTECT(Rf_allocVector(REALSXP, count));
  for (int64_t i = 0; i < count; i++) {
    int64_t row = array->offset + from + i;
    const void *data = array->buffers[1];
    double number = is_narrow ? ((const int32_t *)data)[row] : (double)((const int64_t *)data)[row];
    REAL(vector)[i] = is_null(array, from + i) ? NA_REAL : number / divisor;
  }
  if (format[1] == 'd') {
    set_class(vector, "Date", NULL);
  } else if (format[1] == 's') {
    set_class(vector, "POSIXct", "POSIXt");
    SEXP zone = PROTECT(Rf_mkString("UTC"));
    Rf_setAttrib(vector, Rf_install("tzone"), zone);
    UNPROTECT(1);
  } else {
    set_class(vector, "difftime", NULL);
    SEXP units = PROTECT(Rf_mkString("secs"));
    Rf_setAttrib(vector, Rf_install("units"), units);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return vector;
}

/* A text or bytes of up to 12 bytes lies in the view itself, others in one of the buffers. */
static const char *view_at(const struct ArrowArray *array, int64_t index, int32_t *length) {
  const uint8_t *view = (const uint8_t *)array->buffers[1] + 16 * (size_t)index;
  int32_t place[4];
  memcpy(place, view, sizeof place);
  *length = place[0];
  return *length <= 12 ? (const char *)view + 4 : (const char *)array->buffers[2 + place[2]] + place[3];
}

static const char *bytes_at(const char *format, const struct ArrowArray *array, int64_t row, int64_t *length) {
  int64_t i = array->offset + row;
  int32_t short_length = 0;
  const char *begin;
  switch (format[0]) {
  case 'v':
    begin = view_at(array, i, &short_length);
    *length = short_length;
    return begin;
  case 'w': {
    *length = atoi(format + 2);
    return (const char *)array->buffers[1] + (size_t)i * (size_t)*length;
  }
  case 'u': case 'z': {
    const int32_t *offsets = array->buffers[1];
    *length = offsets[i + 1] - offsets[i];
    return (const char *)array->buffers[2] + offsets[i];
  }
  default: {
    const int64_t *offsets = array->buffers[1];
    *length = offsets[i + 1] - offsets[i];
    return (const char *)array->buffers[2] + offsets[i];
  }
  }
}

static SEXP texts(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from,
                  int64_t count) {
  SEXP vector = PROTECT(Rf_allocVector(STRSXP, count));
  for (int64_t i = 0; i < count; i++) {
    int64_t length = 0;
    if (is_null(array, from + i)) {
      SET_STRING_ELT(vector, i, NA_STRING);
      continue;
    }
    const char *begin = bytes_at(schema->format, array, from + i, &length);
    if (length > INT32_MAX) Rf_error("a text is longer than R's strings");
    SET_STRING_ELT(vector, i, Rf_mkCharLenCE(begin, (int)length, CE_UTF8));
  }
  UNPROTECT(1);
  return vector;
}

static SEXP raws(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from, int64_t count) {
  SEXP vector = PROTECT(Rf_allocVector(VECSXP, count));
  for (int64_t i = 0; i < count; i++) {
    int64_t length = 0;
    if (is_null(array, from + i)) continue;
    const char *begin = bytes_at(schema->format, array, from + i, &length);
    SEXP raw = Rf_allocVector(RAWSXP, length);
    SET_VECTOR_ELT(vector, i, raw);
    if (length > 0) memcpy(RAW(raw), begin, (size_t)length);
  }
  UNPROTECT(1);
  return vector;
}

/* Where the elements of a list are in its child. */
static int64_t list_begin(const char *format, const struct ArrowArray *array, int64_t row) {
  int64_t i = array->offset + row;
  switch (format[1]) {
  case 'L': return ((const int64_t *)array->buffers[1])[i];
  case 'w': return i * atoi(format + 3);
  default: return ((const int32_t *)array->buffers[1])[i];
  }
}

static SEXP lists(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from, int64_t count) {
  SEXP vector = PROTECT(Rf_allocVector(VECSXP, count));
  for (int64_t i = 0; i < count; i++) {
    if (is_null(array, from + i)) continue;
    int64_t begin = list_begin(schema->format, array, from + i);
    int64_t end = list_begin(schema->format, array, from + i + 1);
    SET_VECTOR_ELT(vector, i, slice(schema->children[0], array->children[0], begin, end - begin));
  }
  UNPROTECT(1);
  return vector;
}

static SEXP field_names(const struct ArrowSchema *schema) {
  SEXP names = PROTECT(Rf_allocVector(STRSXP, schema->n_children));
  for (int64_t i = 0; i < schema->n_children; i++)
    SET_STRING_ELT(names, i, Rf_mkCharCE(schema->children[i]->name, CE_UTF8));
  UNPROTECT(1);
  return names;
}

static SEXP structures(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from,
                       int64_t count) {
  SEXP frame = PROTECT(Rf_allocVector(VECSXP, schema->n_children));
  for (int64_t i = 0; i < schema->n_children; i++)
    SET_VECTOR_ELT(frame, i, slice(schema->children[i], array->children[i], array->offset + from, count));
  SEXP names = PROTECT(field_names(schema));
  Rf_setAttrib(frame, R_NamesSymbol, names);
  SEXP rows = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(rows)[0] = NA_INTEGER;
  INTEGER(rows)[1] = -(int)count;
  Rf_setAttrib(frame, R_RowNamesSymbol, rows);
  set_class(frame, "data.frame", NULL);
  UNPROTECT(3);
  return frame;
}

/* Each structure as a named list; NULL is NULL. */
static SEXP structure_rows(const struct ArrowSchema *schema, const struct ArrowArray *array) {
  SEXP names = PROTECT(field_names(schema));
  SEXP vector = PROTECT(Rf_allocVector(VECSXP, array->length));
  for (int64_t row = 0; row < array->length; row++) {
    if (is_null(array, row)) continue;
    SEXP fields = Rf_allocVector(VECSXP, schema->n_children);
    SET_VECTOR_ELT(vector, row, fields);
    for (int64_t i = 0; i < schema->n_children; i++) {
      SEXP value = PROTECT(slice(schema->children[i], array->children[i], array->offset + row, 1));
      SET_VECTOR_ELT(fields, i, TYPEOF(value) == VECSXP && !Rf_isFrame(value) ? VECTOR_ELT(value, 0) : value);
      UNPROTECT(1);
    }
    Rf_setAttrib(fields, R_NamesSymbol, names);
  }
  UNPROTECT(2);
  return vector;
}

static SEXP looked_up(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from,
                      int64_t count) {
  SEXP values = PROTECT(slice(schema->dictionary, array->dictionary, 0, array->dictionary->length));
  SEXP vector = PROTECT(Rf_allocVector(STRSXP, count));
  if (TYPEOF(values) != STRSXP) Rf_error("a list has a dictionary of values that are no texts");
  for (int64_t i = 0; i < count; i++) {
    SEXP text = NA_STRING;
    if (!is_null(array, from + i))
      text = STRING_ELT(values, (R_xlen_t)number_at(schema->format, array, from + i));
    SET_STRING_ELT(vector, i, text);
  }
  UNPROTECT(2);
  return vector;
}

static SEXP nothing(int64_t count) {
  SEXP vector = Rf_allocVector(LGLSXP, count);
  for (int64_t i = 0; i < count; i++) LOGICAL(vector)[i] = NA_LOGICAL;
  return vector;
}

static SEXP slice(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t from, int64_t count) {
  const char *format = schema->format;
  if (schema->dictionary != NULL) return looked_up(schema, array, from, count);
  switch (format[0]) {
  case 'n': return nothing(count);
  case 'b': case 'c': case 'C': case 's': case 'S': return integers(schema, array, from, count);
  case 'i':
    /* R takes the least integer for NA. */
    if (count > 0 && has_least(array, from, count)) return doubles(schema, array, from, count);
    return integers(schema, array, from, count);
  case 'I': case 'l': case 'L': case 'f': case 'g': return doubles(schema, array, from, count);
  case 'u': case 'U': return texts(schema, array, from, count);
  case 'z': case 'Z': case 'w': return raws(schema, array, from, count);
  case 'v': return format[1] == 'u' ? texts(schema, array, from, count) : raws(schema, array, from, count);
  case 'd': return decimals(schema, array, from, count);
  case 't':
    if (format[1] != 'i') return times(schema, array, from, count);
    break;
  case '+':
    if (format[1] == 's') return structures(schema, array, from, count);
    if (format[1] == 'l' || format[1] == 'L' || format[1] == 'w' || format[1] == 'm')
      return lists(schema, array, from, count);
    break;
  }
  Rf_error("a value within a list has the Arrow type %s, which R has nothing for; cast it to VARCHAR", format);
}

static SEXP column_of(const struct ArrowSchema *schema, const struct ArrowArray *array) {
  if (strcmp(schema->format, "+s") == 0) return structure_rows(schema, array);
  return slice(schema, array, 0, array->length);
}

/* Joins pieces, which are in reverse order. */
static SEXP joined(SEXP pieces, R_xlen_t rows) {
  SEXP vector = PROTECT(Rf_allocVector(VECSXP, rows));
  for (R_xlen_t end = rows; pieces != R_NilValue; pieces = CDR(pieces)) {
    SEXP piece = CAR(pieces);
    end -= XLENGTH(piece);
    for (R_xlen_t i = 0; i < XLENGTH(piece); i++) SET_VECTOR_ELT(vector, end + i, VECTOR_ELT(piece, i));
  }
  UNPROTECT(1);
  return vector;
}

static void check(owned *own, int status) {
  if (status == 0) return;
  const char *message = own->stream.get_last_error(&own->stream);
  Rf_error("%s", message == NULL ? "the rows of the result cannot be read" : message);
}

SEXP hs_nested(struct ArrowArrayStream *stream, const int *wanted, R_xlen_t wanted_count, int *hints) {
  owned *own = calloc(1, sizeof *own);
  if (own == NULL) {
    stream->release(stream);
    Rf_error("no memory for rows");
  }
  own->stream = *stream;
  SEXP owner = PROTECT(R_MakeExternalPtr(own, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(owner, finalize_owned, FALSE);
  check(own, own->stream.get_schema(&own->stream, &own->schema));
  SEXP pieces = PROTECT(Rf_allocVector(VECSXP, wanted_count));
  R_xlen_t rows = 0;
  for (;;) {
    check(own, own->stream.get_next(&own->stream, &own->array));
    if (own->array.release == NULL) break;
    rows += own->array.length;
    for (R_xlen_t i = 0; i < wanted_count; i++) {
      has_rounded = false;
      SEXP piece = PROTECT(column_of(own->schema.children[wanted[i]], own->array.children[wanted[i]]));
      if (has_rounded) hints[wanted[i]] = HS_HINT_ROUNDED;
      SET_VECTOR_ELT(pieces, i, Rf_cons(piece, VECTOR_ELT(pieces, i)));
      UNPROTECT(1);
    }
    release_array(own);
    R_CheckUserInterrupt();
  }
  SEXP lists = PROTECT(Rf_allocVector(VECSXP, wanted_count));
  for (R_xlen_t i = 0; i < wanted_count; i++) SET_VECTOR_ELT(lists, i, joined(VECTOR_ELT(pieces, i), rows));
  finalize_owned(owner);
  UNPROTECT(3);
  return lists;
}
