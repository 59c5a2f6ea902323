/* Numbers: exact ones as digits, doubles, and their texts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { CHUNK_DIGITS = 18, WORDS_MAX = 4 };
static const uint64_t CHUNK = 1000000000000000000u;

/* Divides by 10 to the power of 18, and returns the remainder. */
static uint64_t divide(uint64_t *words, size_t count) {
  wide rest = 0;
  for (size_t i = count; i-- > 0;) {
    rest = rest << 64 | words[i];
    words[i] = (uint64_t)(rest / CHUNK);
    rest %= CHUNK;
  }
  return (uint64_t)rest;
}

static bool is_zero(const uint64_t *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (words[i] != 0) return false;
  return true;
}

static decimal decimal_of_words(bool is_negative, uint64_t *words, size_t count, int scale) {
  char digits[DIGITS_MAX];
  size_t at = DIGITS_MAX;
  while (!is_zero(words, count)) {
    uint64_t chunk = divide(words, count);
    bool is_last = is_zero(words, count);
    for (int i = 0; i < CHUNK_DIGITS && (chunk != 0 || !is_last); i++, chunk /= 10)
      digits[--at] = (char)('0' + chunk % 10);
  }
  decimal number = {.scale = (int16_t)scale};
  number.count = (uint8_t)(DIGITS_MAX - at);
  number.is_negative = is_negative && number.count > 0;
  memcpy(number.digits, digits + at, number.count);
  return number;
}

decimal decimal_of_uint64(uint64_t value) { return decimal_of_words(false, &value, 1, 0); }

decimal decimal_of_int64(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  return decimal_of_words(value < 0, &magnitude, 1, 0);
}

static int64_t narrow_integer(const void *bytes, size_t width) {
  int8_t one;
  int16_t two;
  int32_t four;
  int64_t eight;
  switch (width) {
  case 1: return memcpy(&one, bytes, 1), one;
  case 2: return memcpy(&two, bytes, 2), two;
  case 4: return memcpy(&four, bytes, 4), four;
  default: return memcpy(&eight, bytes, 8), eight;
  }
}

decimal decimal_of_bytes(const void *bytes, size_t width, int scale) {
  if (width <= 8) {
    decimal number = decimal_of_int64(narrow_integer(bytes, width));
    number.scale = (int16_t)scale;
    return number;
  }
  uint64_t words[WORDS_MAX] = {0};
  size_t count = width / 8;
  memcpy(words, bytes, width);
  bool is_negative = (int64_t)words[count - 1] < 0;
  bool carries = is_negative;
  for (size_t i = 0; is_negative && i < count; i++) {
    words[i] = ~words[i] + carries;
    carries = carries && words[i] == 0;
  }
  return decimal_of_words(is_negative, words, count, scale);
}

size_t decimal_text(const decimal *number, char *out) {
  char *at = out;
  if (number->is_negative) *at++ = '-';
  int whole = number->count - number->scale;
  if (whole <= 0) *at++ = '0';
  for (int i = 0; i < whole; i++) *at++ = i < number->count ? number->digits[i] : '0';
  if (number->scale > 0) {
    *at++ = '.';
    for (int i = whole; i < number->count; i++) *at++ = i < 0 ? '0' : number->digits[i];
  }
  *at = '\0';
  return (size_t)(at - out);
}

size_t real_text(double number, bool is_float, char *out) {
  if (isnan(number)) return (size_t)sprintf(out, "NaN");
  if (isinf(number)) return (size_t)sprintf(out, number < 0 ? "-Infinity" : "Infinity");
  int length = 0;
  for (int digits = is_float ? 6 : 15; digits <= 17; digits++) {
    length = sprintf(out, "%.*g", digits, number);
    if (is_float ? strtof(out, NULL) == (float)number : strtod(out, NULL) == number) break;
  }
  return (size_t)length;
}

double decimal_real(const decimal *number) {
  char text[DIGITS_MAX + 32];
  sprintf(text, "%s%.*se%d", number->is_negative ? "-" : "", number->count > 0 ? number->count : 1,
          number->count > 0 ? number->digits : "0", -number->scale);
  return strtod(text, NULL);
}

/* ---- Reading ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool equals_name(const char *text, size_t length, const char *name) {
  if (strlen(name) != length) return false;
  for (size_t i = 0; i < length; i++)
    if ((text[i] | 0x20) != name[i]) return false;
  return true;
}

/* The names that the database gives to what no digits write. */
static bool read_special(const char *text, size_t length, bool is_negative, scalar *out) {
  bool is_infinite = equals_name(text, length, "infinity") || equals_name(text, length, "inf");
  if (!is_infinite && !equals_name(text, length, "nan")) return false;
  double value = is_infinite ? HUGE_VAL : NAN;
  *out = (scalar){.kind = SCALAR_REAL, .real = is_negative ? -value : value};
  return true;
}

/* Reads what strtod() reads of a text that is known to be a number. */
static bool read_real(const char *text, size_t length, scalar *out) {
  char small[128];
  char *copy = length < sizeof small ? small : malloc(length + 1);
  if (copy == NULL) return false;
  memcpy(copy, text, length);
  copy[length] = '\0';
  errno = 0;
  double value = strtod(copy, NULL);
  if (copy != small) free(copy);
  *out = (scalar){.kind = SCALAR_REAL, .real = value};
  return true;
}

static void add_digit(decimal *number, char digit, bool *is_long) {
  if (number->count == 0 && digit == '0') return;
  if (number->count == DIGITS_MAX)
    *is_long = true;
  else
    number->digits[number->count++] = digit;
}

bool read_number(const char *text, size_t length, scalar *out) {
  const char *at = text, *end = text + length;
  while (at < end && is_space(*at)) at++;
  while (end > at && is_space(end[-1])) end--;
  const char *start = at;
  decimal number = {0};
  bool is_long = false;
  if (at < end && (*at == '-' || *at == '+')) number.is_negative = *at++ == '-';
  if (at < end && !is_digit(*at) && *at != '.')
    return read_special(at, (size_t)(end - at), number.is_negative, out);
  size_t digits = 0;
  for (; at < end && is_digit(*at); at++, digits++) add_digit(&number, *at, &is_long);
  int64_t scale = 0;
  if (at < end && *at == '.')
    for (at++; at < end && is_digit(*at); at++, digits++, scale++) add_digit(&number, *at, &is_long);
  if (digits == 0) return false;
  if (at < end && (*at == 'e' || *at == 'E')) {
    bool is_down = ++at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    if (at == end) return false;
    int64_t exponent = 0;
    for (; at < end && is_digit(*at); at++)
      if (exponent < 100000) exponent = exponent * 10 + (*at - '0');
    scale += is_down ? exponent : -exponent;
  }
  if (at != end) return false;
  if (number.count == 0 && scale < 0) scale = 0;
  for (; scale < 0 && !is_long; scale++) add_digit(&number, '0', &is_long);
  if (is_long || scale < 0 || scale > DIGITS_MAX) return read_real(start, (size_t)(end - start), out);
  number.scale = (int16_t)scale;
  if (number.count == 0) number.is_negative = false;
  *out = (scalar){.kind = SCALAR_EXACT, .exact = number};
  return true;
}

bool decimal_of_real(double number, bool is_float, decimal *out) {
  char text[128];
  scalar read;
  if (!isfinite(number) || fabs(number) >= 1e77) return false;
  /* The shortest text of a large integer is another integer. */
  bool is_integer = fabs(number) >= (is_float ? 0x1p24 : 0x1p53);
  size_t length = is_integer ? (size_t)sprintf(text, "%.0f", number) : real_text(number, is_float, text);
  if (!read_number(text, length, &read)) return false;
  if (read.kind != SCALAR_EXACT) {
    /* A number so small that its first digit is behind those that there is room for. */
    if (fabs(number) >= 1e-60) return false;
    *out = (decimal){.count = 1, .scale = DIGITS_MAX, .digits = {'1'}, .is_negative = number < 0};
    return true;
  }
  *out = read.exact;
  return true;
}

/* ---- Digits ---- */

bool rescale(decimal *number, int scale, bool *is_cut) {
  while (number->scale > scale) {
    if (number->count > 0 && number->digits[--number->count] != '0') *is_cut = true;
    number->scale--;
  }
  while (number->scale < scale) {
    if (number->count > 0) {
      if (number->count == DIGITS_MAX) return false;
      number->digits[number->count++] = '0';
    }
    number->scale++;
  }
  if (number->count == 0) number->is_negative = false;
  return true;
}

static bool magnitude(const decimal *number, uint64_t *value, bool *is_cut) {
  decimal whole = *number;
  if (!rescale(&whole, 0, is_cut)) return false;
  *value = 0;
  for (int i = 0; i < whole.count; i++) {
    uint64_t digit = (uint64_t)(whole.digits[i] - '0');
    if (*value > (UINT64_MAX - digit) / 10) return false;
    *value = *value * 10 + digit;
  }
  return true;
}

bool decimal_int64(const decimal *number, int64_t *value, bool *is_cut) {
  uint64_t size;
  if (!magnitude(number, &size, is_cut)) return false;
  if (number->is_negative) {
    if (size > (uint64_t)INT64_MAX + 1) return false;
    *value = (int64_t)(0 - size);
    return true;
  }
  *value = (int64_t)size;
  return size <= (uint64_t)INT64_MAX;
}

bool decimal_uint64(const decimal *number, uint64_t *value, bool *is_cut) {
  if (!magnitude(number, value, is_cut)) return false;
  return !number->is_negative || *value == 0;
}

bool decimal_bytes(const decimal *number, size_t width, uint8_t *out) {
  memset(out, 0, width);
  for (int i = 0; i < number->count; i++) {
    unsigned carry = (unsigned)(number->digits[i] - '0');
    for (size_t k = 0; k < width; k++) {
      carry += out[k] * 10u;
      out[k] = (uint8_t)carry;
      carry >>= 8;
    }
    if (carry != 0) return false;
  }
  return true;
}
