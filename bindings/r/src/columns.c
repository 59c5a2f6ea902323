/* Columns of a result as vectors of R: which vector a type becomes, and how values are read. */
#include "glue.h"
#include <stdio.h>
#include <string.h>

bool hs_is_null(const hs_column *column, R_xlen_t row) {
  const hypostyle_values *values = &column->values;
  if (values->validity == NULL) return false;
  uint64_t bit = values->validity_offset + (uint64_t)row;
  return (values->validity[bit >> 3] >> (bit & 7) & 1) == 0;
}

SEXPTYPE hs_type_of(hs_target target) {
  switch (target) {
  case HS_LOGICAL: return LGLSXP;
  case HS_INTEGER: case HS_FACTOR: return INTSXP;
  case HS_DOUBLE: case HS_INTEGER64: return REALSXP;
  case HS_STRING: return STRSXP;
  case HS_LIST: return VECSXP;
  }
  return NILSXP;
}

static bool has_nulls(const hs_column *column) {
  return column->values.validity != NULL && column->values.null_count > 0;
}

/* ---- Integers ---- */

#define COPY_INTEGERS(type)                                                                            \
  {                                                                                                    \
    const type *data = (const type *)column->values.data + from;                                       \
    for (R_xlen_t i = 0; i < count; i++) out[i] = (int)data[i];                                        \
  }

static void fill_bits(const hs_column *column, R_xlen_t from, R_xlen_t count, int *out) {
  const uint8_t *bits = column->values.data;
  uint64_t first = column->values.data_offset + (uint64_t)from;
  for (R_xlen_t i = 0; i < count; i++) {
    uint64_t bit = first + (uint64_t)i;
    out[i] = bits[bit >> 3] >> (bit & 7) & 1;
  }
}

void hs_fill_integers(const hs_column *column, R_xlen_t from, R_xlen_t count, int *out) {
  const hypostyle_values *values = &column->values;
  if (count == 0) return;
  if (values->type == HYPOSTYLE_BOOLEAN) {
    fill_bits(column, from, count, out);
  } else if (values->type == HYPOSTYLE_UTINYINT) {
    COPY_INTEGERS(uint8_t)
  } else if (values->type == HYPOSTYLE_USMALLINT) {
    COPY_INTEGERS(uint16_t)
  } else if (values->width == 1) {
    COPY_INTEGERS(int8_t)
  } else if (values->width == 2) {
    COPY_INTEGERS(int16_t)
  } else if (values->width == 4) {
    COPY_INTEGERS(int32_t)
  } else {
    COPY_INTEGERS(int64_t)
  }
  if (column->target == HS_FACTOR)
    for (R_xlen_t i = 0; i < count; i++) out[i] += 1;
  if (has_nulls(column) && !column->is_direct)
    for (R_xlen_t i = 0; i < count; i++)
      if (hs_is_null(column, from + i)) out[i] = NA_INTEGER;
}

/* ---- Doubles ---- */

#define COPY_DOUBLES(type)                                                                             \
  {                                                                                                    \
    const type *data = (const type *)values->data + from;                                              \
    if (divisor == 1)                                                                                  \
      for (R_xlen_t i = 0; i < count; i++) out[i] = (double)data[i];                                   \
    else                                                                                               \
      for (R_xlen_t i = 0; i < count; i++) out[i] = (double)data[i] / divisor;                         \
  }

/* Reads an integer of 16 or 32 bytes as the nearest number, but for the last bit. */
static double wide_number(const uint8_t *bytes, uint32_t width) {
  long double number = 0;
  uint64_t words[4];
  uint32_t count = width / 8;
  memcpy(words, bytes, width);
  bool is_negative = (int64_t)words[count - 1] < 0;
  if (is_negative) {
    bool carry = true;
    for (uint32_t i = 0; i < count; i++) {
      words[i] = ~words[i] + carry;
      carry = carry && words[i] == 0;
    }
  }
  for (uint32_t i = count; i-- > 0;) number = number * 18446744073709551616.0L + words[i];
  return (double)(is_negative ? -number : number);
}

static void fill_wide(const hs_column *column, R_xlen_t from, R_xlen_t count, double *out) {
  const hypostyle_values *values = &column->values;
  const uint8_t *data = (const uint8_t *)values->data + (size_t)from * values->width;
  for (R_xlen_t i = 0; i < count; i++)
    out[i] = wide_number(data + (size_t)i * values->width, values->width) / column->divisor;
}

static bool is_unsigned(hypostyle_type type) {
  return type >= HYPOSTYLE_UTINYINT && type <= HYPOSTYLE_UBIGINT;
}

static void fill_numbers(const hs_column *column, R_xlen_t from, R_xlen_t count, double *out) {
  const hypostyle_values *values = &column->values;
  double divisor = column->divisor;
  if (values->type == HYPOSTYLE_DOUBLE) {
    memcpy(out, (const double *)values->data + from, (size_t)count * sizeof *out);
  } else if (values->type == HYPOSTYLE_FLOAT) {
    COPY_DOUBLES(float)
  } else if (is_unsigned(values->type)) {
    switch (values->width) {
    case 1: COPY_DOUBLES(uint8_t) break;
    case 2: COPY_DOUBLES(uint16_t) break;
    case 4: COPY_DOUBLES(uint32_t) break;
    default: COPY_DOUBLES(uint64_t)
    }
  } else {
    switch (values->width) {
    case 1: COPY_DOUBLES(int8_t) break;
    case 2: COPY_DOUBLES(int16_t) break;
    case 4: COPY_DOUBLES(int32_t) break;
    case 8: COPY_DOUBLES(int64_t) break;
    default: fill_wide(column, from, count, out);
    }
  }
}

#define COPY_INTEGERS64(type)                                                                          \
  {                                                                                                    \
    const type *data = (const type *)column->values.data + from;                                       \
    for (R_xlen_t i = 0; i < count; i++) out[i] = (int64_t)data[i];                                    \
  }

static void fill_integers64(const hs_column *column, R_xlen_t from, R_xlen_t count, int64_t *out) {
  switch (column->values.width) {
  case 4: COPY_INTEGERS64(uint32_t) break;
  default: COPY_INTEGERS64(int64_t)
  }
  if (has_nulls(column) && !column->is_direct)
    for (R_xlen_t i = 0; i < count; i++)
      if (hs_is_null(column, from + i)) out[i] = INT64_MIN;
}

void hs_fill_doubles(const hs_column *column, R_xlen_t from, R_xlen_t count, double *out) {
  if (count == 0) return;
  if (column->target == HS_INTEGER64) {
    fill_integers64(column, from, count, (int64_t *)out);
    return;
  }
  fill_numbers(column, from, count, out);
  if (has_nulls(column) && !column->is_direct)
    for (R_xlen_t i = 0; i < count; i++)
      if (hs_is_null(column, from + i)) out[i] = NA_REAL;
}

/* ---- Texts ---- */

static SEXP text_at(const hypostyle_values *values, uint64_t index) {
  int64_t begin = values->offsets[index], end = values->offsets[index + 1];
  if (end - begin > INT32_MAX)
    Rf_error("a text of %.0f bytes is longer than R's strings, which have at most 2^31 - 1",
             (double)(end - begin));
  return Rf_mkCharLenCE((const char *)values->heap + begin, (int)(end - begin), CE_UTF8);
}

SEXP hs_levels(SEXP pointer) {
  const hs_column *column = R_ExternalPtrAddr(pointer);
  SEXP kept = R_ExternalPtrProtected(pointer);
  if (kept != R_NilValue) return kept;
  R_xlen_t count = (R_xlen_t)column->values.dictionary_count;
  SEXP levels = PROTECT(Rf_allocVector(STRSXP, count));
  for (R_xlen_t i = 0; i < count; i++) SET_STRING_ELT(levels, i, text_at(&column->values, (uint64_t)i));
  R_SetExternalPtrProtected(pointer, levels);
  UNPROTECT(1);
  return levels;
}

static int64_t code_at(const hypostyle_values *values, R_xlen_t row) {
  switch (values->width) {
  case 1: return ((const int8_t *)values->data)[row];
  case 2: return ((const int16_t *)values->data)[row];
  default: return ((const int32_t *)values->data)[row];
  }
}

/* The text of a 64-bit integer. */
static SEXP number_text(const hs_column *column, R_xlen_t row) {
  char text[24];
  uint64_t bits = ((const uint64_t *)column->values.data)[row];
  if (column->values.type == HYPOSTYLE_UBIGINT)
    snprintf(text, sizeof text, "%llu", (unsigned long long)bits);
  else
    snprintf(text, sizeof text, "%lld", (long long)(int64_t)bits);
  return Rf_mkChar(text);
}

static SEXP uuid_text(const uint8_t *bytes) {
  static const char digits[] = "0123456789abcdef";
  char text[37];
  int place = 0;
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[place++] = '-';
    text[place++] = digits[bytes[i] >> 4];
    text[place++] = digits[bytes[i] & 15];
  }
  return Rf_mkCharLen(text, place);
}

static int write_part(char *text, size_t size, int place, long long number, const char *unit) {
  if (number == 0) return place;
  const char *before = place > 0 ? " " : "", *plural = number == 1 || number == -1 ? "" : "s";
  return place + snprintf(text + place, size - (size_t)place, "%s%lld %s%s", before, number, unit, plural);
}

/* An interval as PostgreSQL writes it: 1 year 2 mons 3 days 04:05:06.7. */
static SEXP interval_text(const uint8_t *bytes) {
  int32_t months, days;
  int64_t nanoseconds;
  char text[128];
  memcpy(&months, bytes, 4);
  memcpy(&days, bytes + 4, 4);
  memcpy(&nanoseconds, bytes + 8, 8);
  int place = write_part(text, sizeof text, 0, months / 12, "year");
  place = write_part(text, sizeof text, place, months % 12, "mon");
  place = write_part(text, sizeof text, place, days, "day");
  if (nanoseconds != 0 || place == 0) {
    uint64_t rest = nanoseconds < 0 ? 0 - (uint64_t)nanoseconds : (uint64_t)nanoseconds;
    unsigned long long seconds = rest / 1000000000u, fraction = rest % 1000000000u;
    place += snprintf(text + place, sizeof text - (size_t)place, "%s%s%02llu:%02llu:%02llu",
                      place > 0 ? " " : "", nanoseconds < 0 ? "-" : "", seconds / 3600,
                      seconds / 60 % 60, seconds % 60);
    if (fraction > 0) {
      place += snprintf(text + place, sizeof text - (size_t)place, ".%09llu", fraction);
      while (text[place - 1] == '0') place--;
    }
  }
  return Rf_mkCharLen(text, place);
}

SEXP hs_string(const hs_column *column, SEXP levels, R_xlen_t row) {
  const hypostyle_values *values = &column->values;
  if (hs_is_null(column, row)) return NA_STRING;
  if (values->flags & HYPOSTYLE_VALUES_DICTIONARY) return STRING_ELT(levels, code_at(values, row));
  switch (values->type) {
  case HYPOSTYLE_UUID: return uuid_text((const uint8_t *)values->data + 16 * (size_t)row);
  case HYPOSTYLE_INTERVAL: return interval_text((const uint8_t *)values->data + 16 * (size_t)row);
  case HYPOSTYLE_BIGINT: case HYPOSTYLE_UBIGINT: return number_text(column, row);
  default: return text_at(values, (uint64_t)row);
  }
}

/* ---- Ordinary vectors ---- */

static SEXP bytes_at(const hypostyle_values *values, R_xlen_t row) {
  const uint8_t *begin;
  size_t length;
  if (values->offsets != NULL) {
    begin = values->heap + values->offsets[row];
    length = (size_t)(values->offsets[row + 1] - values->offsets[row]);
  } else {
    begin = (const uint8_t *)values->data + (size_t)row * values->width;
    length = values->width;
  }
  SEXP raw = Rf_allocVector(RAWSXP, (R_xlen_t)length);
  if (length > 0) memcpy(RAW(raw), begin, length);
  return raw;
}

SEXP hs_ordinary(SEXP pointer, R_xlen_t offset, R_xlen_t length) {
  /* Its vector may let go of it while R collects garbage. */
  PROTECT(pointer);
  const hs_column *column = R_ExternalPtrAddr(pointer);
  SEXP vector = PROTECT(Rf_allocVector(hs_type_of(column->target), length));
  switch (column->target) {
  case HS_LOGICAL: hs_fill_integers(column, offset, length, LOGICAL(vector)); break;
  case HS_INTEGER: case HS_FACTOR: hs_fill_integers(column, offset, length, INTEGER(vector)); break;
  case HS_DOUBLE: case HS_INTEGER64: hs_fill_doubles(column, offset, length, REAL(vector)); break;
  case HS_STRING: {
    bool has_levels = (column->values.flags & HYPOSTYLE_VALUES_DICTIONARY) != 0;
    SEXP levels = PROTECT(has_levels ? hs_levels(pointer) : R_NilValue);
    for (R_xlen_t i = 0; i < length; i++) SET_STRING_ELT(vector, i, hs_string(column, levels, offset + i));
    UNPROTECT(1);
    break;
  }
  case HS_LIST:
    for (R_xlen_t i = 0; i < length; i++)
      if (!hs_is_null(column, offset + i)) SET_VECTOR_ELT(vector, i, bytes_at(&column->values, offset + i));
    break;
  }
  UNPROTECT(2);
  return vector;
}
