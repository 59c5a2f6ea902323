/* One value between the columns of the database and the buffers of an application: what conversions
 * read and write.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef SCALAR_H
#define SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGITS_MAX = 80, TEXT_OF_SCALAR_MAX = 400 };

/* An exact number: the digits, without zeros in front, times 10 to the power of -scale. Zero has none. */
typedef struct {
  bool is_negative;
  uint8_t count;
  int16_t scale;
  char digits[DIGITS_MAX];
} decimal;

/* A date, a time of day, or both, without a time zone. */
typedef struct {
  int32_t year;
  uint32_t month, day, hour, minute, second, nanoseconds;
} moment;

typedef struct {
  int32_t months, days;
  int64_t nanoseconds;
} span;

typedef enum {
  SCALAR_EXACT,
  SCALAR_REAL,
  SCALAR_BOOLEAN,
  SCALAR_TEXT,
  SCALAR_BYTES,
  SCALAR_DATE,
  SCALAR_TIME,
  SCALAR_TIMESTAMP,
  SCALAR_INTERVAL,
  SCALAR_GUID
} scalar_kind;

typedef struct {
  scalar_kind kind;
  bool is_float; /* of a REAL: it has 24 bits */
  int fraction;  /* of a TIME or TIMESTAMP: the digits behind its seconds */
  bool boolean;
  double real;
  decimal exact;
  moment moment;
  span span;
  uint8_t guid[16]; /* in the order of its text */
  const char *data; /* of texts and bytes */
  size_t length;
} scalar;

/* ---- Numbers (number.c) ---- */

decimal decimal_of_int64(int64_t value);
decimal decimal_of_uint64(uint64_t value);
/* Reads an integer of 1, 2, 4, 8, 16 or 32 bytes, times 10 to the power of -scale. */
decimal decimal_of_bytes(const void *bytes, size_t width, int scale);
/* Writes the text of a number, with all digits of its scale, and returns its length. */
size_t decimal_text(const decimal *number, char *out);
/* Writes the shortest text that reads as the same number. */
size_t real_text(double number, bool is_float, char *out);
double decimal_real(const decimal *number);
/* Reads a number with white space around it as an exact one, or as a double if it is too long or has a large
 * exponent. Returns false for what is none. */
bool read_number(const char *text, size_t length, scalar *number);
/* Gives a double as the number that its shortest text is, or as the integer that it is; false if that has too
 * many digits, or it is none. */
bool decimal_of_real(double number, bool is_float, decimal *out);
/* Gives the number another scale, cutting digits. *is_cut says that some were not 0. False: too many digits.
 */
bool rescale(decimal *number, int scale, bool *is_cut);
/* Returns the number without its fraction as 64 bits. False: out of range. */
bool decimal_int64(const decimal *number, int64_t *value, bool *is_cut);
bool decimal_uint64(const decimal *number, uint64_t *value, bool *is_cut);
/* Writes the digits as an integer of `width` bytes; false: out of range. */
bool decimal_bytes(const decimal *number, size_t width, uint8_t *out);

/* ---- Dates, times and intervals (moment.c) ---- */

int64_t days_of_date(int32_t year, uint32_t month, uint32_t day);
void date_of_days(int64_t days, moment *out);
/* Reads units of 10 to the power of -digits seconds since 1970. */
void moment_of_units(int64_t units, int digits, moment *out);
/* Returns units since 1970; false: out of range. Digits that are too small are cut. */
bool units_of_moment(const moment *from, int digits, int64_t *units);
bool is_date(const moment *m);
bool is_time(const moment *m);
size_t date_text(const moment *m, char *out);
size_t time_text(const moment *m, int fraction, char *out);
size_t timestamp_text(const moment *m, int fraction, char *out);
size_t span_text(const span *s, char *out);
/* Each reads a text with white space around it. The kind is what it was: a date, a time or both. */
bool read_moment(const char *text, size_t length, scalar *out);
bool read_span(const char *text, size_t length, span *out);

/* ---- All kinds (scalar.c) ---- */

/* Writes the text of any scalar but a text or bytes, and returns its length. */
size_t scalar_text(const scalar *value, char *out);
bool read_guid(const char *text, size_t length, uint8_t *out);

#endif
