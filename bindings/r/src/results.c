/* Statements, results, and how their columns become vectors. */
#include "glue.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Statements ---- */

static void finalize_statement(SEXP pointer) {
  hypostyle_statement *statement = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  hypostyle_statement_free(&statement);
}

static void finalize_result(SEXP pointer) {
  hypostyle_result *result = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  hypostyle_result_free(&result);
}

static SEXP new_pointer(const char *tag, SEXP connection, R_CFinalizer_t finalizer) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, Rf_install(tag), connection));
  R_RegisterCFinalizerEx(pointer, finalizer, FALSE);
  UNPROTECT(1);
  return pointer;
}

SEXP hs_prepare(SEXP connection, SEXP sql) {
  hs_link *link = hs_link_of(connection);
  const char *text = Rf_translateCharUTF8(STRING_ELT(sql, 0));
  SEXP pointer = PROTECT(new_pointer("hypostyle_statement", connection, finalize_statement));
  hypostyle_statement *statement = NULL;
  hypostyle_error *error = NULL;
  if (hypostyle_prepare(link->connection, text, HYPOSTYLE_NUL, &statement, &error) != HYPOSTYLE_OK)
    hs_raise(&error);
  R_SetExternalPtrAddr(pointer, statement);
  SEXP told = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(told, 0, pointer);
  SET_VECTOR_ELT(told, 1, Rf_ScalarInteger((int)hypostyle_statement_parameters(statement)));
  SET_VECTOR_ELT(told, 2, Rf_ScalarInteger(hypostyle_statement_kind(statement)));
  UNPROTECT(2);
  return told;
}

static hypostyle_statement *statement_of(SEXP pointer) {
  hypostyle_statement *statement = R_ExternalPtrAddr(pointer);
  if (statement == NULL) Rf_error("the statement is closed");
  return statement;
}

SEXP hs_statement_free(SEXP statement) {
  finalize_statement(statement);
  return R_NilValue;
}

/* rows are those that were bound, which are read now. */
SEXP hs_statement_execute(SEXP statement, SEXP frames, SEXP rows) {
  SEXP connection = R_ExternalPtrProtected(statement);
  hs_link *link = hs_link_of(connection);
  hypostyle_statement *of = statement_of(statement);
  SEXP pointer = PROTECT(new_pointer("hypostyle_result", connection, finalize_result));
  hypostyle_result *result = NULL;
  hypostyle_error *error = NULL;
  hs_enter(link, frames);
  hypostyle_status status = hypostyle_statement_execute(of, &result, &error);
  R_SetExternalPtrAddr(pointer, result);
  if (rows != R_NilValue) hs_rows_end(rows);
  hs_leave(link, status, &error);
  UNPROTECT(1);
  return pointer;
}

/* ---- Results ---- */

hypostyle_result *hs_result_of(SEXP pointer) {
  hypostyle_result *result = R_ExternalPtrAddr(pointer);
  if (result == NULL) Rf_error("the result is cleared");
  return result;
}

SEXP hs_result_free(SEXP result) {
  finalize_result(result);
  return R_NilValue;
}

/* Gives the names, the types and the SQL types of the columns, and the number of written rows. */
SEXP hs_result_info(SEXP pointer) {
  hypostyle_result *result = hs_result_of(pointer);
  size_t count = hypostyle_result_columns(result);
  SEXP names = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)count));
  SEXP types = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)count));
  SEXP type_names = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)count));
  for (size_t i = 0; i < count; i++) {
    hypostyle_column column;
    memset(&column, 0, sizeof column);
    column.size = sizeof column;
    hypostyle_error *error = NULL;
    if (hypostyle_result_column(result, i, &column, &error) != HYPOSTYLE_OK) hs_raise(&error);
    SEXP name = Rf_mkCharLenCE(column.name == NULL ? "" : column.name, (int)column.name_length, CE_UTF8);
    SET_STRING_ELT(names, (R_xlen_t)i, name);
    SEXP type = Rf_mkCharLenCE(column.type_name, (int)column.type_name_length, CE_UTF8);
    SET_STRING_ELT(type_names, (R_xlen_t)i, type);
    INTEGER(types)[i] = column.type;
  }
  SEXP told = PROTECT(Rf_allocVector(VECSXP, 4));
  SET_VECTOR_ELT(told, 0, names);
  SET_VECTOR_ELT(told, 1, types);
  SET_VECTOR_ELT(told, 2, type_names);
  SET_VECTOR_ELT(told, 3, Rf_ScalarReal((double)hypostyle_result_rows_affected(result)));
  UNPROTECT(4);
  return told;
}

hs_link *hs_enter_result(SEXP result) {
  hs_link *link = R_ExternalPtrAddr(R_ExternalPtrProtected(result));
  if (link == NULL) Rf_error("the connection of the result is gone");
  /* An error between hs_enter() and hs_leave() would leave the connection busy. */
  hs_result_of(result);
  hs_enter(link, R_NilValue);
  return link;
}

/* ---- Columns ---- */

static void finalize_column(SEXP pointer) {
  hs_column *column = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  if (column == NULL) return;
  hypostyle_values_free(&column->values);
  free(column);
}

enum { BIGINT_INTEGER64 = 0, BIGINT_INTEGER = 1, BIGINT_NUMERIC = 2, BIGINT_CHARACTER = 3 };

/* Says which values the result is asked for: those that R reads where they are belong to R. */
static uint32_t wish_of(hypostyle_type type, int bigint) {
  bool is_direct = type == HYPOSTYLE_INTEGER || type == HYPOSTYLE_DOUBLE ||
                   (type == HYPOSTYLE_BIGINT && bigint == BIGINT_INTEGER64);
  return is_direct ? HYPOSTYLE_VALUES_PRIVATE : 0;
}

static hypostyle_status ask(SEXP result, size_t index, uint32_t wish, hs_column *column,
                            hypostyle_error **error) {
  column->values.size = sizeof column->values;
  return hypostyle_result_values(hs_result_of(result), index, wish, &column->values, error);
}

/* Gives the values of a column. Mappings that R has forgotten but not yet freed may use up what a
 * process may have: they are collected, and the library is asked once more. */
static void ask_for(SEXP result, size_t index, uint32_t wish, hs_column *column) {
  hypostyle_error *error = NULL;
  hs_link *link = hs_enter_result(result);
  hypostyle_status status = ask(result, index, wish, column, &error);
  if (status != HYPOSTYLE_OUT_OF_MEMORY && status != HYPOSTYLE_IO) {
    hs_leave(link, status, &error);
    return;
  }
  hs_leave(link, HYPOSTYLE_OK, NULL);
  hypostyle_error_free(&error);
  R_gc();
  link = hs_enter_result(result);
  status = ask(result, index, wish, column, &error);
  hs_leave(link, status, &error);
}

typedef struct {
  bool has_minimum, is_exact, may_have_nan;
  hypostyle_value minimum, maximum;
} known_range;

static known_range range_of(SEXP result, size_t index) {
  hypostyle_statistics statistics;
  memset(&statistics, 0, sizeof statistics);
  statistics.size = sizeof statistics;
  known_range range = {false, false, true, {0}, {0}};
  hypostyle_error *error = NULL;
  if (hypostyle_result_statistics(hs_result_of(result), index, &statistics, &error) != HYPOSTYLE_OK) {
    hypostyle_error_free(&error);
    return range;
  }
  range.has_minimum = (statistics.known & HYPOSTYLE_KNOWN_RANGE) != 0;
  range.is_exact = range.has_minimum && (statistics.known & HYPOSTYLE_KNOWN_EXACT) != 0;
  range.may_have_nan = statistics.known == 0 || (statistics.known & HYPOSTYLE_MAY_HAVE_NAN) != 0;
  range.minimum = statistics.minimum;
  range.maximum = statistics.maximum;
  return range;
}

/* Says whether a value that is not NULL is the one that R takes for NA. */
static bool has_least(const hs_column *column, const known_range *range, int64_t least) {
  if (range->has_minimum && range->minimum.integer > least) return false;
  const hypostyle_values *values = &column->values;
  for (uint64_t i = 0; i < values->count; i++) {
    int64_t value = values->width == 4 ? ((const int32_t *)values->data)[i] : ((const int64_t *)values->data)[i];
    if (value == least && !hs_is_null(column, (R_xlen_t)i)) return true;
  }
  return false;
}

/* Says whether the buffer holds R's NA where NULL is. A NaN that no R wrote need not be it: an older
 * block has another, so that one NULL of each block is looked at, and each of the last one. */
static bool holds_na(const hs_column *column) {
  enum { BLOCK_ROWS = 65536, NA_LOW = 1954 };
  const hypostyle_values *values = &column->values;
  if ((values->flags & HYPOSTYLE_VALUES_MISSING) == 0) return false;
  const uint64_t *bits = values->data;
  uint64_t last_block = values->count / BLOCK_ROWS * BLOCK_ROWS;
  for (uint64_t i = 0; i < values->count; i++) {
    if (!hs_is_null(column, (R_xlen_t)i)) continue;
    if ((uint32_t)bits[i] != NA_LOW) return false;
    if (i < last_block) i = (i / BLOCK_ROWS + 1) * BLOCK_ROWS - 1;
  }
  return true;
}

static bool has_nulls(const hypostyle_values *values) {
  return values->validity != NULL && values->null_count > 0;
}

/* Writes what R takes for NA where NULL is, into a buffer that is R's own. */
static void write_na(hs_column *column) {
  hypostyle_values *values = &column->values;
  for (uint64_t i = 0; i < values->count; i++) {
    if (!hs_is_null(column, (R_xlen_t)i)) continue;
    if (values->type == HYPOSTYLE_DOUBLE)
      ((double *)values->data)[i] = NA_REAL;
    else if (values->width == 4)
      ((int32_t *)values->data)[i] = NA_INTEGER;
    else
      ((int64_t *)values->data)[i] = INT64_MIN;
  }
}

/* Makes a buffer one that R reads where it lies, if it belongs to R. */
static void make_direct(hs_column *column, bool holds_missing) {
  hypostyle_values *values = &column->values;
  if ((values->flags & HYPOSTYLE_VALUES_PRIVATE) == 0 || values->data == NULL) return;
  if (has_nulls(values) && !holds_missing) {
    write_na(column);
    column->is_patched = true;
  }
  column->is_direct = true;
}

static void set_range(hs_column *column, const known_range *range) {
  column->has_no_na = !has_nulls(&column->values);
  bool is_double = column->values.type == HYPOSTYLE_DOUBLE;
  if (is_double && range->may_have_nan) column->has_no_na = false;
  if (!range->is_exact || (is_double && range->may_have_nan) || column->target == HS_INTEGER64) return;
  bool is_number = column->values.type == HYPOSTYLE_INTEGER || column->values.type == HYPOSTYLE_SMALLINT ||
                   column->values.type == HYPOSTYLE_TINYINT || is_double;
  if (!is_number || column->values.count == column->values.null_count) return;
  column->has_range = true;
  column->minimum = is_double ? range->minimum.number : (double)range->minimum.integer;
  column->maximum = is_double ? range->maximum.number : (double)range->maximum.integer;
}

static double power_of_ten(int32_t digits) {
  double power = 1;
  for (int32_t i = 0; i < digits; i++) power *= 10;
  return power;
}

static bool exceeds_integer(const hs_column *column) {
  const int64_t *data = column->values.data;
  for (uint64_t i = 0; i < column->values.count; i++)
    if ((data[i] > INT32_MAX || data[i] <= INT32_MIN) && !hs_is_null(column, (R_xlen_t)i)) return true;
  return false;
}

/* Returns a hint for a warning, or 0. */
static int shape_bigint(hs_column *column, int bigint, const known_range *range) {
  bool is_unsigned = column->values.type == HYPOSTYLE_UBIGINT;
  column->target = HS_DOUBLE;
  if (bigint == BIGINT_CHARACTER) {
    column->target = HS_STRING;
  } else if (bigint == BIGINT_INTEGER) {
    if (is_unsigned || exceeds_integer(column)) return HS_HINT_BEYOND;
    column->target = HS_INTEGER;
  } else if (bigint == BIGINT_INTEGER64 && !is_unsigned) {
    if (has_least(column, range, INT64_MIN)) return HS_HINT_LEAST;
    column->target = HS_INTEGER64;
    make_direct(column, (column->values.flags & HYPOSTYLE_VALUES_MISSING) != 0);
  }
  return 0;
}

/* Decides what a column becomes. */
static int shape(hs_column *column, int bigint, const known_range *range) {
  hypostyle_values *values = &column->values;
  column->divisor = 1;
  bool holds_missing = (values->flags & HYPOSTYLE_VALUES_MISSING) != 0;
  switch (values->type) {
  case HYPOSTYLE_BOOLEAN: column->target = HS_LOGICAL; break;
  case HYPOSTYLE_INTEGER:
    if (has_least(column, range, INT32_MIN)) {
      column->target = HS_DOUBLE;
      break;
    }
    column->target = HS_INTEGER;
    make_direct(column, holds_missing);
    break;
  case HYPOSTYLE_TINYINT: case HYPOSTYLE_SMALLINT: case HYPOSTYLE_UTINYINT: case HYPOSTYLE_USMALLINT:
    column->target = HS_INTEGER;
    break;
  case HYPOSTYLE_BIGINT: case HYPOSTYLE_UBIGINT: return shape_bigint(column, bigint, range);
  case HYPOSTYLE_DOUBLE:
    column->target = HS_DOUBLE;
    make_direct(column, !has_nulls(values) || holds_na(column));
    break;
  case HYPOSTYLE_UINTEGER: case HYPOSTYLE_FLOAT: case HYPOSTYLE_DATE: column->target = HS_DOUBLE; break;
  case HYPOSTYLE_TIME: column->target = HS_DOUBLE, column->divisor = 1e6; break;
  case HYPOSTYLE_DECIMAL: case HYPOSTYLE_TIMESTAMP: case HYPOSTYLE_TIMESTAMPTZ: case HYPOSTYLE_DURATION:
    column->target = HS_DOUBLE;
    column->divisor = power_of_ten(values->scale);
    break;
  case HYPOSTYLE_VARCHAR: case HYPOSTYLE_JSON: case HYPOSTYLE_UUID: case HYPOSTYLE_INTERVAL:
    column->target = HS_STRING;
    break;
  case HYPOSTYLE_NULL: column->target = HS_STRING; break;
  default: column->target = HS_LIST;
  }
  return 0;
}

static bool is_nested(hypostyle_type type) { return type >= HYPOSTYLE_LIST; }

static SEXP load_column(SEXP result, size_t index, hypostyle_type type, int bigint, int *hint) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, Rf_install("hypostyle_column"), R_NilValue));
  R_RegisterCFinalizerEx(pointer, finalize_column, FALSE);
  hs_column *column = calloc(1, sizeof *column);
  if (column == NULL) Rf_error("no memory for a column");
  R_SetExternalPtrAddr(pointer, column);
  ask_for(result, index, wish_of(type, bigint), column);
  known_range range = range_of(result, index);
  *hint = shape(column, bigint, &range);
  set_range(column, &range);
  UNPROTECT(1);
  return pointer;
}

/* Reads the columns with lists in them from the stream of all rows. */
static void load_nested(SEXP result, SEXP types, SEXP columns, int *hints) {
  R_xlen_t count = XLENGTH(types), nested = 0;
  int *wanted = (int *)R_alloc((size_t)count + 1, sizeof *wanted);
  for (R_xlen_t i = 0; i < count; i++)
    if (is_nested(INTEGER(types)[i])) wanted[nested++] = (int)i;
  if (nested == 0) return;
  struct ArrowArrayStream stream;
  hypostyle_error *error = NULL;
  hs_link *link = hs_enter_result(result);
  hs_leave(link, hypostyle_result_stream(hs_result_of(result), &stream, &error), &error);
  SEXP lists = PROTECT(hs_nested(&stream, wanted, nested, hints));
  for (R_xlen_t i = 0; i < nested; i++) SET_VECTOR_ELT(columns, wanted[i], VECTOR_ELT(lists, i));
  UNPROTECT(1);
}

/* Rows may also have no columns. */
static double count_rows(SEXP result) {
  uint64_t rows = 0;
  hypostyle_error *error = NULL;
  hs_link *link = hs_enter_result(result);
  hs_leave(link, hypostyle_result_row_count(hs_result_of(result), &rows, &error), &error);
  return (double)rows;
}

/* Gives a list of the columns' pointers, or of vectors for columns with lists; the number of rows;
 * and for each column the hint for a warning. */
SEXP hs_result_load(SEXP result, SEXP types, SEXP bigint) {
  R_xlen_t count = XLENGTH(types);
  SEXP columns = PROTECT(Rf_allocVector(VECSXP, count));
  SEXP hints = PROTECT(Rf_allocVector(INTSXP, count));
  double rows = 0;
  for (R_xlen_t i = 0; i < count; i++) {
    hypostyle_type type = INTEGER(types)[i];
    INTEGER(hints)[i] = 0;
    if (is_nested(type)) continue;
    SEXP pointer = load_column(result, (size_t)i, type, Rf_asInteger(bigint), INTEGER(hints) + i);
    SET_VECTOR_ELT(columns, i, pointer);
    rows = (double)((hs_column *)R_ExternalPtrAddr(pointer))->values.count;
  }
  if (count == 0) rows = count_rows(result);
  load_nested(result, types, columns, INTEGER(hints));
  for (R_xlen_t i = 0; i < count; i++)
    if (TYPEOF(VECTOR_ELT(columns, i)) != EXTPTRSXP) rows = (double)Rf_xlength(VECTOR_ELT(columns, i));
  SEXP told = PROTECT(Rf_allocVector(VECSXP, 4));
  SET_VECTOR_ELT(told, 0, columns);
  SET_VECTOR_ELT(told, 1, Rf_ScalarReal(rows));
  SET_VECTOR_ELT(told, 2, types);
  SET_VECTOR_ELT(told, 3, hints);
  UNPROTECT(3);
  return told;
}

/* ---- Vectors ---- */

static SEXP some_of_list(SEXP list, R_xlen_t offset, R_xlen_t length) {
  if (offset == 0 && length == XLENGTH(list)) return list;
  SEXP part = PROTECT(Rf_allocVector(VECSXP, length));
  for (R_xlen_t i = 0; i < length; i++) SET_VECTOR_ELT(part, i, VECTOR_ELT(list, offset + i));
  UNPROTECT(1);
  return part;
}

static SEXP vector_of(SEXP result, size_t index, SEXP pointer, R_xlen_t from, R_xlen_t rows, double lazy_rows) {
  const hs_column *column = R_ExternalPtrAddr(pointer);
  if ((double)rows < lazy_rows || rows == 0 || column->target == HS_LIST) return hs_ordinary(pointer, from, rows);
  bool is_whole = from == 0 && rows == (R_xlen_t)column->values.count;
  SEXP forged = is_whole ? hs_forged(result, index, column) : R_NilValue;
  return forged != R_NilValue ? forged : hs_lazy(pointer, from, rows);
}

/* Gives a vector its class and the like. R would copy the vector for it. */
static void set_attributes(SEXP vector, SEXP attributes) {
  if (attributes == R_NilValue) return;
  SEXP names = Rf_getAttrib(attributes, R_NamesSymbol);
  PROTECT(names);
  for (R_xlen_t i = 0; i < XLENGTH(attributes); i++)
    Rf_setAttrib(vector, Rf_installTrChar(STRING_ELT(names, i)), VECTOR_ELT(attributes, i));
  UNPROTECT(1);
}

/* Makes vectors of some rows: from a number of rows on those that copy nothing. attributes has a named
 * list or NULL for each. */
SEXP hs_result_vectors(SEXP result, SEXP columns, SEXP attributes, SEXP offset, SEXP length, SEXP lazy_rows) {
  R_xlen_t count = XLENGTH(columns);
  R_xlen_t from = (R_xlen_t)Rf_asReal(offset), rows = (R_xlen_t)Rf_asReal(length);
  double limit = Rf_asReal(lazy_rows);
  SEXP vectors = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t i = 0; i < count; i++) {
    SEXP column = VECTOR_ELT(columns, i);
    if (TYPEOF(column) != EXTPTRSXP) {
      SET_VECTOR_ELT(vectors, i, some_of_list(column, from, rows));
      continue;
    }
    SEXP vector = vector_of(result, (size_t)i, column, from, rows, limit);
    SET_VECTOR_ELT(vectors, i, vector);
    set_attributes(vector, VECTOR_ELT(attributes, i));
  }
  UNPROTECT(1);
  return vectors;
}
