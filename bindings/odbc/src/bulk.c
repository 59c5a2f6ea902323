/* Rows of a column at once, for the pairs of types that programs bind most.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <string.h>

static bool has_null(const hypostyle_values *values, uint64_t row, size_t count) {
  if (values->validity == NULL || values->null_count == 0) return false;
  for (size_t i = 0; i < count; i++)
    if (is_null_at(values, row + i)) return true;
  return false;
}

static void put_length(char *place, SQLLEN length) { memcpy(place, &length, sizeof length); }

/* Tells the lengths of rows that all have the same one, and which of them are NULL. */
static void fill_lengths(const hypostyle_values *values, uint64_t row, size_t count, const target *to,
                         SQLLEN length, bool any_null) {
  if (to->length != NULL)
    for (size_t i = 0; i < count; i++) put_length(to->length + i * to->length_step, length);
  if (to->indicator != NULL && to->indicator != to->length)
    for (size_t i = 0; i < count; i++) put_length(to->indicator + i * to->length_step, 0);
  if (!any_null) return;
  for (size_t i = 0; i < count; i++)
    if (is_null_at(values, row + i)) put_length(to->indicator + i * to->length_step, SQL_NULL_DATA);
}

/* ---- Bits that are the same ---- */

static bool has_same_bits(hypostyle_type type, SQLSMALLINT c_type) {
  switch (type) {
  case HYPOSTYLE_TINYINT: return c_type == SQL_C_STINYINT || c_type == SQL_C_TINYINT;
  case HYPOSTYLE_UTINYINT: return c_type == SQL_C_UTINYINT;
  case HYPOSTYLE_SMALLINT: return c_type == SQL_C_SSHORT || c_type == SQL_C_SHORT;
  case HYPOSTYLE_USMALLINT: return c_type == SQL_C_USHORT;
  case HYPOSTYLE_INTEGER: return c_type == SQL_C_SLONG || c_type == SQL_C_LONG;
  case HYPOSTYLE_UINTEGER: return c_type == SQL_C_ULONG;
  case HYPOSTYLE_BIGINT: return c_type == SQL_C_SBIGINT;
  case HYPOSTYLE_UBIGINT: return c_type == SQL_C_UBIGINT;
  case HYPOSTYLE_FLOAT: return c_type == SQL_C_FLOAT;
  case HYPOSTYLE_DOUBLE: return c_type == SQL_C_DOUBLE;
  default: return false;
  }
}

static void copy_bits(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  size_t width = values->width;
  const char *from = (const char *)values->data + row * width;
  if (to->data_step == width) {
    memcpy(to->data, from, count * width);
    return;
  }
  for (size_t i = 0; i < count; i++) memcpy(to->data + i * to->data_step, from + i * width, width);
}

/* ---- Numbers that become wider ones ---- */

#define WIDEN(from_type, to_type)                                                                            \
  {                                                                                                          \
    const from_type *data = (const from_type *)values->data + row;                                           \
    for (size_t i = 0; i < count; i++) {                                                                     \
      to_type number = (to_type)data[i];                                                                     \
      memcpy(to->data + i * to->data_step, &number, sizeof number);                                          \
    }                                                                                                        \
    return true;                                                                                             \
  }

static bool widen_to_int64(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  switch (values->type) {
  case HYPOSTYLE_TINYINT: WIDEN(int8_t, int64_t)
  case HYPOSTYLE_UTINYINT: WIDEN(uint8_t, int64_t)
  case HYPOSTYLE_SMALLINT: WIDEN(int16_t, int64_t)
  case HYPOSTYLE_USMALLINT: WIDEN(uint16_t, int64_t)
  case HYPOSTYLE_INTEGER: WIDEN(int32_t, int64_t)
  case HYPOSTYLE_UINTEGER: WIDEN(uint32_t, int64_t)
  default: return false;
  }
}

static bool widen_to_int32(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  switch (values->type) {
  case HYPOSTYLE_TINYINT: WIDEN(int8_t, int32_t)
  case HYPOSTYLE_UTINYINT: WIDEN(uint8_t, int32_t)
  case HYPOSTYLE_SMALLINT: WIDEN(int16_t, int32_t)
  case HYPOSTYLE_USMALLINT: WIDEN(uint16_t, int32_t)
  default: return false;
  }
}

static bool widen_to_int16(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  switch (values->type) {
  case HYPOSTYLE_TINYINT: WIDEN(int8_t, int16_t)
  case HYPOSTYLE_UTINYINT: WIDEN(uint8_t, int16_t)
  default: return false;
  }
}

/* The quotient of two doubles that are exact is the one that is nearest to the DECIMAL. */
static bool divide_to_double(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const int64_t exact = (int64_t)1 << 53;
  if (values->scale > 22 || values->width > 16) return false;
  double power = powers[values->scale];
  const char *from = (const char *)values->data + row * values->width;
  for (size_t i = 0; i < count; i++, from += values->width) {
    int64_t low, high;
    int32_t narrow;
    if (values->width == 4) {
      memcpy(&narrow, from, sizeof narrow);
      low = narrow;
    } else {
      memcpy(&low, from, sizeof low);
    }
    high = low >> 63;
    if (values->width == 16) memcpy(&high, from + 8, sizeof high);
    double number = (double)low / power;
    if (high != low >> 63 || low > exact || low < -exact) {
      decimal wide = decimal_of_bytes(from, values->width, values->scale);
      number = decimal_real(&wide);
    }
    memcpy(to->data + i * to->data_step, &number, sizeof number);
  }
  return true;
}

static bool widen_to_double(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  switch (values->type) {
  case HYPOSTYLE_TINYINT: WIDEN(int8_t, double)
  case HYPOSTYLE_UTINYINT: WIDEN(uint8_t, double)
  case HYPOSTYLE_SMALLINT: WIDEN(int16_t, double)
  case HYPOSTYLE_USMALLINT: WIDEN(uint16_t, double)
  case HYPOSTYLE_INTEGER: WIDEN(int32_t, double)
  case HYPOSTYLE_UINTEGER: WIDEN(uint32_t, double)
  case HYPOSTYLE_BIGINT: WIDEN(int64_t, double)
  case HYPOSTYLE_FLOAT: WIDEN(float, double)
  case HYPOSTYLE_DECIMAL: return divide_to_double(values, row, count, to);
  default: return false;
  }
}

static bool fill_bits(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  const uint8_t *bits = values->data;
  for (size_t i = 0; i < count; i++) {
    uint64_t bit = values->data_offset + row + i;
    to->data[i * to->data_step] = (char)(bits[bit >> 3] >> (bit & 7) & 1);
  }
  return true;
}

static bool fill_numbers(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  if (has_same_bits(values->type, to->c_type)) {
    copy_bits(values, row, count, to);
    return true;
  }
  switch (to->c_type) {
  case SQL_C_SBIGINT: return widen_to_int64(values, row, count, to);
  case SQL_C_SLONG:
  case SQL_C_LONG: return widen_to_int32(values, row, count, to);
  case SQL_C_SSHORT:
  case SQL_C_SHORT: return widen_to_int16(values, row, count, to);
  case SQL_C_DOUBLE: return widen_to_double(values, row, count, to);
  case SQL_C_BIT: return values->type == HYPOSTYLE_BOOLEAN && fill_bits(values, row, count, to);
  default: return false;
  }
}

/* ---- Dates ---- */

static bool fill_dates(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  /* The days of the years that have four digits. */
  enum { FIRST = -719528, LAST = 2932896 };
  const int32_t *data = (const int32_t *)values->data + row;
  for (size_t i = 0; i < count; i++) {
    if (is_null_at(values, row + i)) continue;
    if (data[i] < FIRST || data[i] > LAST) return false;
    moment m;
    date_of_days(data[i], &m);
    SQL_DATE_STRUCT date = {(SQLSMALLINT)m.year, (SQLUSMALLINT)m.month, (SQLUSMALLINT)m.day};
    memcpy(to->data + i * to->data_step, &date, sizeof date);
  }
  return true;
}

static bool fill_timestamps(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  const int64_t *data = (const int64_t *)values->data + row;
  for (size_t i = 0; i < count; i++) {
    if (is_null_at(values, row + i)) continue;
    moment m;
    moment_of_units(data[i], values->scale, &m);
    if (m.year < INT16_MIN || m.year > INT16_MAX) return false;
    SQL_TIMESTAMP_STRUCT timestamp = {(SQLSMALLINT)m.year,  (SQLUSMALLINT)m.month,  (SQLUSMALLINT)m.day,
                                      (SQLUSMALLINT)m.hour, (SQLUSMALLINT)m.minute, (SQLUSMALLINT)m.second,
                                      m.nanoseconds};
    memcpy(to->data + i * to->data_step, &timestamp, sizeof timestamp);
  }
  return true;
}

/* ---- Texts ---- */

static void put_lengths(const target *to, size_t i, SQLLEN length, bool is_null) {
  if (is_null) {
    put_length(to->indicator + i * to->length_step, SQL_NULL_DATA);
    return;
  }
  if (to->indicator != NULL) put_length(to->indicator + i * to->length_step, 0);
  if (to->length != NULL) put_length(to->length + i * to->length_step, length);
}

/* Texts that do not fit are left to those who can say so, and so are units at odd addresses. */
static bool fill_texts(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  bool is_wide = to->c_type == SQL_C_WCHAR;
  if (is_wide && ((uintptr_t)to->data | to->data_step) % sizeof(SQLWCHAR) != 0) return false;
  for (size_t i = 0; i < count; i++) {
    if (is_null_at(values, row + i)) {
      put_lengths(to, i, 0, true);
      continue;
    }
    size_t length;
    const char *text = bytes_at(values, row + i, &length);
    char *place = to->data + i * to->data_step;
    if (is_wide) {
      size_t units = utf16_length(text, length);
      if ((units + 1) * sizeof(SQLWCHAR) > (size_t)to->room) return false;
      SQLWCHAR *out = (SQLWCHAR *)(void *)place;
      utf16_from(text, length, out, units);
      out[units] = 0;
      length = units * sizeof(SQLWCHAR);
    } else {
      if (length + 1 > (size_t)to->room) return false;
      if (length > 0) memcpy(place, text, length);
      place[length] = '\0';
    }
    put_lengths(to, i, (SQLLEN)length, false);
  }
  return true;
}

/* Writes the digits of a DECIMAL of up to 8 bytes with its point, and returns how many characters. */
static size_t narrow_decimal_text(int64_t number, int32_t scale, char *out) {
  char digits[24];
  int count = 0;
  uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  do {
    digits[count++] = (char)('0' + size % 10);
    size /= 10;
  } while (size != 0 || count <= scale);
  char *at = out;
  if (number < 0) *at++ = '-';
  while (count > 0) {
    if (count == scale) *at++ = '.';
    *at++ = digits[--count];
  }
  return (size_t)(at - out);
}

static bool fill_decimal_texts(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  if (values->width > 8) return false;
  for (size_t i = 0; i < count; i++) {
    if (is_null_at(values, row + i)) {
      put_lengths(to, i, 0, true);
      continue;
    }
    char text[32];
    int64_t number = values->width == 4 ? ((const int32_t *)values->data)[row + i]
                                        : ((const int64_t *)values->data)[row + i];
    size_t length = narrow_decimal_text(number, values->scale, text);
    if (length + 1 > (size_t)to->room) return false;
    char *place = to->data + i * to->data_step;
    memcpy(place, text, length);
    place[length] = '\0';
    put_lengths(to, i, (SQLLEN)length, false);
  }
  return true;
}

static bool is_text(hypostyle_type type) {
  return type == HYPOSTYLE_VARCHAR || type >= HYPOSTYLE_LIST || type == HYPOSTYLE_JSON;
}

bool fill_in_bulk(const hypostyle_values *values, uint64_t row, size_t count, const target *to) {
  bool any_null = has_null(values, row, count);
  if (any_null && to->indicator == NULL) return false;
  bool is_chars = to->c_type == SQL_C_CHAR;
  if (is_text(values->type) && (is_chars || to->c_type == SQL_C_WCHAR))
    return fill_texts(values, row, count, to);
  if (values->type == HYPOSTYLE_DECIMAL && is_chars) return fill_decimal_texts(values, row, count, to);
  bool is_filled;
  switch (values->type) {
  case HYPOSTYLE_DATE: is_filled = to->c_type == SQL_C_TYPE_DATE && fill_dates(values, row, count, to); break;
  case HYPOSTYLE_TIMESTAMP:
  case HYPOSTYLE_TIMESTAMPTZ:
    is_filled = to->c_type == SQL_C_TYPE_TIMESTAMP && fill_timestamps(values, row, count, to);
    break;
  default: is_filled = fill_numbers(values, row, count, to);
  }
  if (is_filled) fill_lengths(values, row, count, to, c_size(to->c_type), any_null);
  return is_filled;
}
