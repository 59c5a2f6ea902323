/* Vectors of R (ALTREP) whose values lie in a column's buffer, or are made when they are needed.
 *
 * The first datum is a pointer to the view, which protects the pointer of its column. The second is
 * nothing, or what was made: a vector of all values, or for texts a list of blocks. R does not keep
 * the strings that an element function returns, so that each of them stays in such a vector. */
#include "glue.h"
#include <R_ext/Altrep.h>
#include <stdlib.h>
#include <string.h>

/* How many strings are made at once. */
#define BLOCK 1024

static R_altrep_class_t integer_class, double_class, logical_class, string_class;

static hs_view *view_of(SEXP x) { return R_ExternalPtrAddr(R_altrep_data1(x)); }

static SEXP column_pointer(SEXP x) { return R_ExternalPtrProtected(R_altrep_data1(x)); }

static void finalize_view(SEXP pointer) {
  free(R_ExternalPtrAddr(pointer));
  R_ClearExternalPtr(pointer);
}

SEXP hs_lazy(SEXP pointer, R_xlen_t offset, R_xlen_t length) {
  hs_column *column = R_ExternalPtrAddr(pointer);
  SEXP owner = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, pointer));
  R_RegisterCFinalizerEx(owner, finalize_view, FALSE);
  hs_view *view = malloc(sizeof *view);
  if (view == NULL) Rf_error("no memory for a column");
  *view = (hs_view){column, offset, length, false};
  R_SetExternalPtrAddr(owner, view);
  R_altrep_class_t class;
  switch (hs_type_of(column->target)) {
  case LGLSXP: class = logical_class; break;
  case INTSXP: class = integer_class; break;
  case REALSXP: class = double_class; break;
  default: class = string_class;
  }
  SEXP vector = R_new_altrep(class, owner, R_NilValue);
  UNPROTECT(1);
  return vector;
}

SEXP hs_is_lazy(SEXP vector) {
  if (!ALTREP(vector)) return Rf_ScalarLogical(FALSE);
  bool is_ours = R_altrep_inherits(vector, integer_class) || R_altrep_inherits(vector, double_class) ||
                 R_altrep_inherits(vector, logical_class) || R_altrep_inherits(vector, string_class);
  return Rf_ScalarLogical(is_ours);
}

/* Keeps what was made, and lets go of the column. */
static void keep(SEXP x, SEXP made) {
  R_set_altrep_data2(x, made);
  view_of(x)->column = NULL;
  R_SetExternalPtrProtected(R_altrep_data1(x), R_NilValue);
}

static R_xlen_t length_of(SEXP x) { return view_of(x)->length; }

static Rboolean inspect(SEXP x, int before, int deep, int more, void (*inspect_subtree)(SEXP, int, int, int)) {
  (void)before, (void)deep, (void)more, (void)inspect_subtree;
  const hs_view *view = view_of(x);
  const char *state = view->column == NULL      ? "made"
                      : view->column->is_direct ? "in the column's buffer"
                                                : "not made yet";
  Rprintf("hypostyle column, %.0f values, %s\n", (double)view->length, state);
  return TRUE;
}

/* ---- Numbers ---- */

static SEXP make_all(SEXP x) {
  const hs_view *view = view_of(x);
  return hs_ordinary(column_pointer(x), view->offset, view->length);
}

static void *address_of(SEXP made) {
  switch (TYPEOF(made)) {
  case LGLSXP: return LOGICAL(made);
  case INTSXP: return INTEGER(made);
  default: return REAL(made);
  }
}

static void *direct_address(const hs_view *view) {
  return (uint8_t *)view->column->values.data + (size_t)view->offset * view->column->values.width;
}

static void *number_data(SEXP x, Rboolean is_writable) {
  SEXP made = R_altrep_data2(x);
  if (made != R_NilValue) return address_of(made);
  hs_view *view = view_of(x);
  if (view->column->is_direct) {
    if (is_writable) view->is_written = true;
    return direct_address(view);
  }
  made = PROTECT(make_all(x));
  keep(x, made);
  UNPROTECT(1);
  return address_of(made);
}

static const void *number_data_or_null(SEXP x) {
  SEXP made = R_altrep_data2(x);
  if (made != R_NilValue) return address_of(made);
  const hs_view *view = view_of(x);
  return view->column->is_direct ? direct_address(view) : NULL;
}

static void fill(SEXP x, R_xlen_t from, R_xlen_t count, void *out) {
  const hs_view *view = view_of(x);
  size_t width = TYPEOF(x) == REALSXP ? sizeof(double) : sizeof(int);
  const uint8_t *data = number_data_or_null(x);
  if (data != NULL)
    memcpy(out, data + (size_t)from * width, (size_t)count * width);
  else if (TYPEOF(x) == REALSXP)
    hs_fill_doubles(view->column, view->offset + from, count, out);
  else
    hs_fill_integers(view->column, view->offset + from, count, out);
}

static R_xlen_t region(SEXP x, R_xlen_t from, R_xlen_t count, void *out) {
  R_xlen_t rest = view_of(x)->length - from;
  R_xlen_t given = count < rest ? count : rest;
  if (given <= 0) return 0;
  fill(x, from, given, out);
  return given;
}

static R_xlen_t integer_region(SEXP x, R_xlen_t from, R_xlen_t count, int *out) {
  return region(x, from, count, out);
}

static R_xlen_t double_region(SEXP x, R_xlen_t from, R_xlen_t count, double *out) {
  return region(x, from, count, out);
}

static int integer_element(SEXP x, R_xlen_t index) {
  int value;
  fill(x, index, 1, &value);
  return value;
}

static double double_element(SEXP x, R_xlen_t index) {
  double value;
  fill(x, index, 1, &value);
  return value;
}

static SEXP duplicate_number(SEXP x, Rboolean is_deep) {
  (void)is_deep;
  R_xlen_t length = length_of(x);
  SEXP copy = PROTECT(Rf_allocVector(TYPEOF(x), length));
  if (length > 0) fill(x, 0, length, address_of(copy));
  UNPROTECT(1);
  return copy;
}

/* Returns the place that an index of R names, from 0 on, or -1 for NA and what is outside. */
static R_xlen_t place_of(SEXP indices, R_xlen_t i, R_xlen_t length) {
  if (TYPEOF(indices) == INTSXP) {
    int index = INTEGER_ELT(indices, i);
    return index == NA_INTEGER || index < 1 || index > length ? -1 : index - 1;
  }
  double index = REAL_ELT(indices, i);
  return ISNAN(index) || index < 1 || index >= (double)length + 1 ? -1 : (R_xlen_t)index - 1;
}

static SEXP subset_numbers(SEXP x, SEXP indices, SEXP call) {
  (void)call;
  R_xlen_t count = XLENGTH(indices), length = length_of(x);
  bool is_double = TYPEOF(x) == REALSXP;
  SEXP part = PROTECT(Rf_allocVector(TYPEOF(x), count));
  uint8_t *out = address_of(part);
  for (R_xlen_t i = 0; i < count; i++) {
    R_xlen_t place = place_of(indices, i, length);
    if (place >= 0)
      fill(x, place, 1, out + (size_t)i * (is_double ? sizeof(double) : sizeof(int)));
    else if (is_double)
      ((double *)out)[i] = NA_REAL;
    else
      ((int *)out)[i] = NA_INTEGER;
  }
  UNPROTECT(1);
  return part;
}

static const hs_column *known_column(SEXP x) {
  const hs_view *view = view_of(x);
  return view->is_written ? NULL : view->column;
}

static int has_no_na(SEXP x) {
  const hs_column *column = known_column(x);
  return column != NULL && column->has_no_na;
}

/* Returns an end of the range, if the vector is the whole column; otherwise NULL, and R computes. */
static const double *end_of(SEXP x, Rboolean without_na, bool is_maximum) {
  const hs_column *column = known_column(x);
  if (column == NULL || !column->has_range || (!without_na && !column->has_no_na)) return NULL;
  if (view_of(x)->length != (R_xlen_t)column->values.count) return NULL;
  return is_maximum ? &column->maximum : &column->minimum;
}

static SEXP number_of(SEXP x, const double *value) {
  if (value == NULL) return NULL;
  return TYPEOF(x) == REALSXP ? Rf_ScalarReal(*value) : Rf_ScalarInteger((int)*value);
}

static SEXP minimum(SEXP x, Rboolean without_na) { return number_of(x, end_of(x, without_na, false)); }

static SEXP maximum(SEXP x, Rboolean without_na) { return number_of(x, end_of(x, without_na, true)); }

/* ---- Texts ---- */

static SEXP levels_of(SEXP x) {
  const hs_column *column = view_of(x)->column;
  return column->values.flags & HYPOSTYLE_VALUES_DICTIONARY ? hs_levels(column_pointer(x)) : R_NilValue;
}

/* Returns all strings, which were made or are made now. */
static SEXP all_strings(SEXP x) {
  SEXP made = R_altrep_data2(x);
  if (TYPEOF(made) == STRSXP) return made;
  SEXP strings = PROTECT(make_all(x));
  keep(x, strings);
  UNPROTECT(1);
  return strings;
}

/* Returns the block of a string. It is kept before a string of it is given out. */
static SEXP block_of(SEXP x, R_xlen_t index) {
  const hs_view *view = view_of(x);
  SEXP blocks = R_altrep_data2(x);
  if (blocks == R_NilValue) {
    blocks = PROTECT(Rf_allocVector(VECSXP, (view->length + BLOCK - 1) / BLOCK));
    R_set_altrep_data2(x, blocks);
    UNPROTECT(1);
  }
  SEXP block = VECTOR_ELT(blocks, index / BLOCK);
  if (block != R_NilValue) return block;
  R_xlen_t first = index / BLOCK * BLOCK;
  R_xlen_t rest = view->length - first;
  block = PROTECT(hs_ordinary(column_pointer(x), view->offset + first, rest < BLOCK ? rest : BLOCK));
  /* Making strings collects garbage, and finalizers may have asked for the same vector. */
  blocks = R_altrep_data2(x);
  if (TYPEOF(blocks) == VECSXP) SET_VECTOR_ELT(blocks, index / BLOCK, block);
  UNPROTECT(1);
  return block;
}

static SEXP string_element(SEXP x, R_xlen_t index) {
  SEXP made = R_altrep_data2(x);
  if (TYPEOF(made) == STRSXP) return STRING_ELT(made, index);
  const hs_view *view = view_of(x);
  if (view->column->values.flags & HYPOSTYLE_VALUES_DICTIONARY) {
    SEXP levels = levels_of(x);
    return view->column == NULL ? STRING_ELT(R_altrep_data2(x), index)
                                : hs_string(view->column, levels, view->offset + index);
  }
  SEXP block = PROTECT(block_of(x, index));
  made = R_altrep_data2(x);
  SEXP string = TYPEOF(made) == STRSXP ? STRING_ELT(made, index) : STRING_ELT(block, index % BLOCK);
  UNPROTECT(1);
  return string;
}

static void set_string_element(SEXP x, R_xlen_t index, SEXP string) {
  PROTECT(string);
  SET_STRING_ELT(all_strings(x), index, string);
  UNPROTECT(1);
}

static void *string_data(SEXP x, Rboolean is_writable) {
  (void)is_writable;
  return (void *)STRING_PTR_RO(all_strings(x));
}

static const void *string_data_or_null(SEXP x) {
  SEXP made = R_altrep_data2(x);
  return TYPEOF(made) == STRSXP ? STRING_PTR_RO(made) : NULL;
}

static SEXP duplicate_strings(SEXP x, Rboolean is_deep) {
  (void)is_deep;
  R_xlen_t length = length_of(x);
  SEXP copy = PROTECT(Rf_allocVector(STRSXP, length));
  for (R_xlen_t i = 0; i < length; i++) SET_STRING_ELT(copy, i, string_element(x, i));
  UNPROTECT(1);
  return copy;
}

static SEXP subset_strings(SEXP x, SEXP indices, SEXP call) {
  (void)call;
  R_xlen_t count = XLENGTH(indices), length = length_of(x);
  SEXP part = PROTECT(Rf_allocVector(STRSXP, count));
  SEXP made = R_altrep_data2(x);
  bool is_made = TYPEOF(made) == STRSXP;
  PROTECT(column_pointer(x));
  SEXP levels = PROTECT(is_made ? R_NilValue : levels_of(x));
  for (R_xlen_t i = 0; i < count; i++) {
    R_xlen_t place = place_of(indices, i, length);
    if (place < 0) {
      SET_STRING_ELT(part, i, NA_STRING);
      continue;
    }
    const hs_view *view = view_of(x);
    /* A finalizer may have made all strings. */
    SEXP string = view->column == NULL ? STRING_ELT(R_altrep_data2(x), place)
                                       : hs_string(view->column, levels, view->offset + place);
    SET_STRING_ELT(part, i, string);
  }
  UNPROTECT(3);
  return part;
}

/* ---- Classes ---- */

static void set_common(R_altrep_class_t class) {
  R_set_altrep_Length_method(class, length_of);
  R_set_altrep_Inspect_method(class, inspect);
}

static void set_numbers(R_altrep_class_t class) {
  set_common(class);
  R_set_altrep_Duplicate_method(class, duplicate_number);
  R_set_altvec_Dataptr_method(class, number_data);
  R_set_altvec_Dataptr_or_null_method(class, number_data_or_null);
  R_set_altvec_Extract_subset_method(class, subset_numbers);
}

void hs_init_altrep(DllInfo *library) {
  integer_class = R_make_altinteger_class("hypostyle_integer", "hypostyle", library);
  set_numbers(integer_class);
  R_set_altinteger_Elt_method(integer_class, integer_element);
  R_set_altinteger_Get_region_method(integer_class, integer_region);
  R_set_altinteger_No_NA_method(integer_class, has_no_na);
  R_set_altinteger_Min_method(integer_class, minimum);
  R_set_altinteger_Max_method(integer_class, maximum);

  logical_class = R_make_altlogical_class("hypostyle_logical", "hypostyle", library);
  set_numbers(logical_class);
  R_set_altlogical_Elt_method(logical_class, integer_element);
  R_set_altlogical_Get_region_method(logical_class, integer_region);
  R_set_altlogical_No_NA_method(logical_class, has_no_na);

  double_class = R_make_altreal_class("hypostyle_double", "hypostyle", library);
  set_numbers(double_class);
  R_set_altreal_Elt_method(double_class, double_element);
  R_set_altreal_Get_region_method(double_class, double_region);
  R_set_altreal_No_NA_method(double_class, has_no_na);
  R_set_altreal_Min_method(double_class, minimum);
  R_set_altreal_Max_method(double_class, maximum);

  string_class = R_make_altstring_class("hypostyle_string", "hypostyle", library);
  set_common(string_class);
  R_set_altrep_Duplicate_method(string_class, duplicate_strings);
  R_set_altvec_Dataptr_method(string_class, string_data);
  R_set_altvec_Dataptr_or_null_method(string_class, string_data_or_null);
  R_set_altvec_Extract_subset_method(string_class, subset_strings);
  R_set_altstring_Elt_method(string_class, string_element);
  R_set_altstring_Set_elt_method(string_class, set_string_element);
  R_set_altstring_No_NA_method(string_class, has_no_na);
}
