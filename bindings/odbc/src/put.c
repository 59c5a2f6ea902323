/* Values of the database in C types, by the rules of ODBC's appendix D.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Texts and bytes ---- */

static void add_hex(builder *b, const char *bytes, size_t length) {
  static const char digits[] = "0123456789ABCDEF";
  for (size_t i = 0; i < length; i++) {
    char pair[2] = {digits[(uint8_t)bytes[i] >> 4], digits[(uint8_t)bytes[i] & 15]};
    add_bytes(b, pair, 2);
  }
}

/* Says how many characters of a value's text are more than digits behind a point. */
static size_t whole_characters(const scalar *value, const char *text, size_t length) {
  switch (value->kind) {
  case SCALAR_EXACT: return strcspn(text, ".");
  case SCALAR_REAL: return strpbrk(text, "eEnN") == NULL ? strcspn(text, ".") : length;
  case SCALAR_TIME:
  case SCALAR_TIMESTAMP: return strcspn(text, ".");
  case SCALAR_INTERVAL:
  case SCALAR_TEXT:
  case SCALAR_BYTES: return 0;
  default: return length;
  }
}

static void add_utf16(builder *b, const char *text, size_t length) {
  SQLWCHAR units[256];
  const char *end = text + length;
  while (text < end) {
    /* Pieces end where a character does. */
    size_t piece = (size_t)(end - text) < 128 ? (size_t)(end - text) : 128;
    while (text + piece < end && piece > 0 && ((uint8_t)text[piece] & 0xc0) == 0x80) piece--;
    size_t count = utf16_from(text, piece, units, sizeof units / sizeof *units);
    add_bytes(b, (const char *)units, count * sizeof *units);
    text += piece;
  }
}

const char *whole_value(const scalar *value, const target *to, builder *scratch, const char **bytes,
                        size_t *length, size_t *least) {
  scratch->length = 0;
  *least = 0;
  char made[TEXT_OF_SCALAR_MAX];
  const char *text = value->data;
  size_t size = value->length;
  bool is_bytes = value->kind == SCALAR_BYTES, is_text = value->kind == SCALAR_TEXT;
  if (to->c_type == SQL_C_BINARY && !is_bytes && !is_text) {
    if (c_size(to->default_type) > 0) {
      target same = *to;
      same.c_type = to->default_type;
      SQLLEN told;
      const char *state = put_scalar(value, &same, made, &told);
      if (is_error_state(state)) return state;
      size = (size_t)c_size(to->default_type);
      *least = size;
    } else {
      size = scalar_text(value, made);
    }
    add_bytes(scratch, made, size);
    *bytes = scratch->data;
    *length = size;
    return scratch->failed ? "HY001" : NULL;
  }
  if (!is_bytes && !is_text) {
    size = scalar_text(value, made);
    text = made;
    *least = whole_characters(value, made, size);
  }
  bool is_direct = to->c_type == SQL_C_BINARY || (to->c_type == SQL_C_CHAR && is_text);
  if (is_direct) {
    *bytes = text;
    *length = size;
    return NULL;
  }
  if (is_bytes) {
    add_hex(scratch, text, size);
    if (to->c_type == SQL_C_WCHAR && !scratch->failed) {
      builder wide = {0};
      add_utf16(&wide, scratch->data == NULL ? "" : scratch->data, scratch->length);
      free(scratch->data);
      *scratch = wide;
    }
  } else if (to->c_type == SQL_C_WCHAR) {
    add_utf16(scratch, text, size);
    *least *= sizeof(SQLWCHAR);
  } else {
    add_bytes(scratch, text, size);
  }
  *bytes = scratch->data == NULL ? "" : scratch->data;
  *length = scratch->length;
  return scratch->failed ? "HY001" : NULL;
}

/* Returns how much of a text fits, without half of a character. */
static size_t fitting(const char *bytes, size_t room, SQLSMALLINT c_type) {
  if (c_type == SQL_C_CHAR)
    while (room > 0 && ((uint8_t)bytes[room] & 0xc0) == 0x80) room--;
  if (c_type == SQL_C_WCHAR) {
    room -= room % sizeof(SQLWCHAR);
    SQLWCHAR last;
    if (room == 0) return 0;
    memcpy(&last, bytes + room - sizeof last, sizeof last);
    if ((last & 0xfc00) == 0xd800) room -= sizeof last;
  }
  return room;
}

static const char *put_bytes(const scalar *value, const target *to, char *data, SQLLEN *length) {
  builder scratch = {0};
  const char *bytes = NULL;
  size_t size = 0, least = 0;
  const char *state = whole_value(value, to, &scratch, &bytes, &size, &least);
  if (state == NULL) {
    *length = (SQLLEN)size;
    size_t end = to->c_type == SQL_C_BINARY ? 0 : to->c_type == SQL_C_CHAR ? 1 : sizeof(SQLWCHAR);
    size_t room = (size_t)to->room > end ? (size_t)to->room - end : 0;
    if (size > room && least > room) {
      state = "22003";
    } else {
      size_t fits = size <= room ? size : fitting(bytes, room, to->c_type);
      if (fits > 0) memcpy(data, bytes, fits);
      if ((size_t)to->room >= end) memset(data + fits, 0, size <= room ? end : room - fits + end);
      if (size > room || (size_t)to->room < end) state = "01004";
    }
  }
  free(scratch.data);
  return state;
}

/* ---- Numbers ---- */

/* Reads a value as a number, exact or not. */
static const char *number_of(const scalar *value, scalar *number) {
  char made[TEXT_OF_SCALAR_MAX];
  switch (value->kind) {
  case SCALAR_EXACT:
  case SCALAR_REAL: *number = *value; return NULL;
  case SCALAR_BOOLEAN:
    *number = (scalar){.kind = SCALAR_EXACT, .exact = decimal_of_int64(value->boolean)};
    return NULL;
  case SCALAR_TEXT:
    if (!read_number(value->data, value->length, number)) return "22018";
    /* Digits that stand for more than a double can be are out of range; the word infinity is not. */
    if (number->kind == SCALAR_REAL && isinf(number->real)) {
      for (size_t i = 0; i < value->length; i++)
        if (value->data[i] >= '0' && value->data[i] <= '9') return "22003";
    }
    return NULL;
  case SCALAR_INTERVAL: return read_number(made, scalar_text(value, made), number) ? NULL : "22018";
  default: return "07006";
  }
}

static const char *exact_of(const scalar *value, decimal *exact) {
  scalar number;
  const char *state = number_of(value, &number);
  if (state != NULL) return state;
  if (number.kind == SCALAR_REAL)
    return decimal_of_real(number.real, number.is_float, exact) ? NULL : "22003";
  *exact = number.exact;
  return NULL;
}

static const char *put_signed(const scalar *value, char *data, size_t width) {
  decimal exact;
  const char *state = exact_of(value, &exact);
  int64_t number;
  bool is_cut = false;
  if (state != NULL) return state;
  if (!decimal_int64(&exact, &number, &is_cut)) return "22003";
  int64_t most = width == 8 ? INT64_MAX : ((int64_t)1 << (width * 8 - 1)) - 1;
  if (number > most || number < -most - 1) return "22003";
  memcpy(data, &number, width);
  return is_cut ? "01S07" : NULL;
}

static const char *put_unsigned(const scalar *value, char *data, size_t width, uint64_t most) {
  decimal exact;
  const char *state = exact_of(value, &exact);
  uint64_t number;
  bool is_cut = false;
  if (state != NULL) return state;
  if (!decimal_uint64(&exact, &number, &is_cut) || number > most) return "22003";
  memcpy(data, &number, width);
  return is_cut ? "01S07" : NULL;
}

static const char *put_real(const scalar *value, char *data, bool is_float) {
  scalar number;
  const char *state = number_of(value, &number);
  if (state != NULL) return state;
  double real = number.kind == SCALAR_REAL ? number.real : decimal_real(&number.exact);
  if (!is_float) {
    memcpy(data, &real, sizeof real);
    return NULL;
  }
  if (isfinite(real) && fabs(real) > (double)FLT_MAX) return "22003";
  float narrow = (float)real;
  memcpy(data, &narrow, sizeof narrow);
  return NULL;
}

static const char *put_numeric(const scalar *value, const target *to, char *data) {
  decimal exact;
  const char *state = exact_of(value, &exact);
  if (state != NULL) return state;
  bool is_cut = false;
  int precision = to->precision > 0 && to->precision < 38 ? to->precision : 38;
  if (to->has_scale && !rescale(&exact, to->scale, &is_cut)) return "22003";
  while (!to->has_scale && exact.count > precision && exact.scale > 0)
    rescale(&exact, exact.scale - 1, &is_cut);
  if (exact.count > precision) return "22003";
  SQL_NUMERIC_STRUCT numeric;
  memset(&numeric, 0, sizeof numeric);
  numeric.precision = (SQLCHAR)precision;
  numeric.scale = (SQLSCHAR)exact.scale;
  numeric.sign = !exact.is_negative;
  if (!decimal_bytes(&exact, sizeof numeric.val, numeric.val)) return "22003";
  memcpy(data, &numeric, sizeof numeric);
  return is_cut ? "01S07" : NULL;
}

/* ---- Dates and times ---- */

static const char *moment_of(const scalar *value, scalar *out) {
  switch (value->kind) {
  case SCALAR_DATE:
  case SCALAR_TIME:
  case SCALAR_TIMESTAMP: *out = *value; return NULL;
  case SCALAR_TEXT: return read_moment(value->data, value->length, out) ? NULL : "22018";
  case SCALAR_INTERVAL: return "22018";
  default: return "07006";
  }
}

static bool has_year(const moment *m) { return m->year >= INT16_MIN && m->year <= INT16_MAX; }

static const char *put_date(const scalar *value, char *data) {
  scalar found;
  const char *state = moment_of(value, &found);
  if (state != NULL) return state;
  const moment *m = &found.moment;
  if (found.kind == SCALAR_TIME) return value->kind == SCALAR_TEXT ? "22018" : "07006";
  if (!has_year(m)) return "22008";
  SQL_DATE_STRUCT date = {(SQLSMALLINT)m->year, (SQLUSMALLINT)m->month, (SQLUSMALLINT)m->day};
  memcpy(data, &date, sizeof date);
  bool is_cut = found.kind == SCALAR_TIMESTAMP && (m->hour || m->minute || m->second || m->nanoseconds);
  return is_cut ? "01S07" : NULL;
}

static const char *put_time(const scalar *value, char *data) {
  scalar found;
  const char *state = moment_of(value, &found);
  if (state != NULL) return state;
  const moment *m = &found.moment;
  if (found.kind == SCALAR_DATE) return value->kind == SCALAR_TEXT ? "22018" : "07006";
  SQL_TIME_STRUCT time = {(SQLUSMALLINT)m->hour, (SQLUSMALLINT)m->minute, (SQLUSMALLINT)m->second};
  memcpy(data, &time, sizeof time);
  return m->nanoseconds != 0 ? "01S07" : NULL;
}

/* A time of day is one of today, as ODBC has it. */
static void set_today(moment *m) {
  time_t seconds = time(NULL);
  struct tm today;
  localtime_r(&seconds, &today);
  m->year = today.tm_year + 1900;
  m->month = (uint32_t)today.tm_mon + 1;
  m->day = (uint32_t)today.tm_mday;
}

static const char *put_timestamp(const scalar *value, char *data) {
  scalar found;
  const char *state = moment_of(value, &found);
  if (state != NULL) return state;
  moment *m = &found.moment;
  if (found.kind == SCALAR_TIME) set_today(m);
  if (found.kind == SCALAR_DATE) m->hour = m->minute = m->second = m->nanoseconds = 0;
  if (!has_year(m)) return "22008";
  SQL_TIMESTAMP_STRUCT timestamp = {(SQLSMALLINT)m->year,  (SQLUSMALLINT)m->month,  (SQLUSMALLINT)m->day,
                                    (SQLUSMALLINT)m->hour, (SQLUSMALLINT)m->minute, (SQLUSMALLINT)m->second,
                                    m->nanoseconds};
  memcpy(data, &timestamp, sizeof timestamp);
  return NULL;
}

/* ---- Intervals ---- */

static const char *put_months(int64_t months, SQLSMALLINT c_type, SQL_INTERVAL_STRUCT *out) {
  uint64_t size = (uint64_t)(months < 0 ? -months : months);
  bool is_cut = false;
  out->interval_sign = months < 0 ? SQL_TRUE : SQL_FALSE;
  if (c_type == SQL_C_INTERVAL_MONTH) {
    out->intval.year_month.month = (SQLUINTEGER)size;
  } else {
    out->intval.year_month.year = (SQLUINTEGER)(size / 12);
    if (c_type == SQL_C_INTERVAL_YEAR)
      is_cut = size % 12 != 0;
    else
      out->intval.year_month.month = (SQLUINTEGER)(size % 12);
  }
  return is_cut ? "01S07" : NULL;
}

typedef enum { PART_DAY, PART_HOUR, PART_MINUTE, PART_SECOND } interval_part;

static interval_part first_part(SQLSMALLINT c_type) {
  switch (c_type) {
  case SQL_C_INTERVAL_HOUR:
  case SQL_C_INTERVAL_HOUR_TO_MINUTE:
  case SQL_C_INTERVAL_HOUR_TO_SECOND: return PART_HOUR;
  case SQL_C_INTERVAL_MINUTE:
  case SQL_C_INTERVAL_MINUTE_TO_SECOND: return PART_MINUTE;
  case SQL_C_INTERVAL_SECOND: return PART_SECOND;
  default: return PART_DAY;
  }
}

static interval_part last_part(SQLSMALLINT c_type) {
  switch (c_type) {
  case SQL_C_INTERVAL_DAY: return PART_DAY;
  case SQL_C_INTERVAL_HOUR:
  case SQL_C_INTERVAL_DAY_TO_HOUR: return PART_HOUR;
  case SQL_C_INTERVAL_MINUTE:
  case SQL_C_INTERVAL_DAY_TO_MINUTE:
  case SQL_C_INTERVAL_HOUR_TO_MINUTE: return PART_MINUTE;
  default: return PART_SECOND;
  }
}

/* The least part that there is takes what is left; what is less than it is cut. */
static const char *put_clock(const span *s, SQLSMALLINT c_type, SQL_INTERVAL_STRUCT *out) {
  static const uint64_t seconds_of[] = {86400, 3600, 60, 1};
  int64_t seconds = (int64_t)s->days * 86400 + s->nanoseconds / 1000000000,
          rest = s->nanoseconds % 1000000000;
  if (seconds > 0 && rest < 0) seconds--, rest += 1000000000;
  if (seconds < 0 && rest > 0) seconds++, rest -= 1000000000;
  out->interval_sign = seconds < 0 || rest < 0 ? SQL_TRUE : SQL_FALSE;
  uint64_t size = (uint64_t)(seconds < 0 ? -seconds : seconds);
  SQLUINTEGER parts[4] = {0};
  interval_part last = last_part(c_type);
  for (interval_part part = first_part(c_type); part <= last; part++) {
    uint64_t count = size / seconds_of[part];
    if (count > UINT32_MAX) return "22015";
    parts[part] = (SQLUINTEGER)count;
    size %= seconds_of[part];
  }
  out->intval.day_second.day = parts[PART_DAY];
  out->intval.day_second.hour = parts[PART_HOUR];
  out->intval.day_second.minute = parts[PART_MINUTE];
  out->intval.day_second.second = parts[PART_SECOND];
  uint32_t fraction = (uint32_t)(rest < 0 ? -rest : rest);
  if (last != PART_SECOND) return size != 0 || fraction != 0 ? "01S07" : NULL;
  /* The fraction has six digits, as the precision of such a C type at first. */
  out->intval.day_second.fraction = fraction / 1000;
  return fraction % 1000 != 0 ? "01S07" : NULL;
}

static bool is_year_month(SQLSMALLINT c_type) {
  return c_type == SQL_C_INTERVAL_YEAR || c_type == SQL_C_INTERVAL_MONTH ||
         c_type == SQL_C_INTERVAL_YEAR_TO_MONTH;
}

/* A whole number is one of the interval's only part. */
static const char *span_of(const scalar *value, SQLSMALLINT c_type, span *out) {
  *out = (span){0, 0, 0};
  switch (value->kind) {
  case SCALAR_INTERVAL: *out = value->span; return NULL;
  case SCALAR_TEXT: return read_span(value->data, value->length, out) ? NULL : "22018";
  case SCALAR_EXACT: {
    int64_t number;
    bool is_cut = false;
    if (first_part(c_type) != last_part(c_type) && !is_year_month(c_type)) return "07006";
    if (c_type == SQL_C_INTERVAL_YEAR_TO_MONTH) return "07006";
    if (!decimal_int64(&value->exact, &number, &is_cut) || number > 100000000 || number < -100000000)
      return "22015";
    if (c_type == SQL_C_INTERVAL_YEAR)
      out->months = (int32_t)number * 12;
    else if (c_type == SQL_C_INTERVAL_MONTH)
      out->months = (int32_t)number;
    else if (c_type == SQL_C_INTERVAL_DAY)
      out->days = (int32_t)number;
    else {
      static const int64_t seconds_of[] = {86400, 3600, 60, 1};
      int64_t seconds = number * seconds_of[first_part(c_type)];
      out->days = (int32_t)(seconds / 86400);
      out->nanoseconds = seconds % 86400 * 1000000000;
    }
    return is_cut ? "22015" : NULL;
  }
  default: return "07006";
  }
}

static const char *put_interval(const scalar *value, SQLSMALLINT c_type, char *data) {
  span s;
  const char *state = span_of(value, c_type, &s);
  if (state != NULL) return state;
  SQL_INTERVAL_STRUCT interval;
  memset(&interval, 0, sizeof interval);
  interval.interval_type = (SQLINTERVAL)(c_type - 100);
  if (is_year_month(c_type)) {
    if (s.days != 0 || s.nanoseconds != 0) return "22015";
    state = put_months(s.months, c_type, &interval);
  } else {
    if (s.months != 0) return "22015";
    state = put_clock(&s, c_type, &interval);
  }
  if (!is_error_state(state)) memcpy(data, &interval, sizeof interval);
  return state;
}

/* ---- GUIDs ---- */

static const char *put_guid(const scalar *value, char *data) {
  uint8_t bytes[16];
  if (value->kind == SCALAR_GUID)
    memcpy(bytes, value->guid, sizeof bytes);
  else if (value->kind != SCALAR_TEXT)
    return "07006";
  else if (!read_guid(value->data, value->length, bytes))
    return "22018";
  SQLGUID guid;
  guid.Data1 = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
  guid.Data2 = (uint16_t)(bytes[4] << 8 | bytes[5]);
  guid.Data3 = (uint16_t)(bytes[6] << 8 | bytes[7]);
  memcpy(guid.Data4, bytes + 8, 8);
  memcpy(data, &guid, sizeof guid);
  return NULL;
}

/* ---- All ---- */

const char *put_scalar(const scalar *value, const target *to, char *data, SQLLEN *length) {
  SQLLEN size = c_size(to->c_type);
  *length = size;
  if (size == 0) return put_bytes(value, to, data, length);
  switch (to->c_type) {
  case SQL_C_BIT: return put_unsigned(value, data, 1, 1);
  case SQL_C_TINYINT:
  case SQL_C_STINYINT:
  case SQL_C_SHORT:
  case SQL_C_SSHORT:
  case SQL_C_LONG:
  case SQL_C_SLONG:
  case SQL_C_SBIGINT: return put_signed(value, data, (size_t)size);
  case SQL_C_UTINYINT: return put_unsigned(value, data, 1, UINT8_MAX);
  case SQL_C_USHORT: return put_unsigned(value, data, 2, UINT16_MAX);
  case SQL_C_ULONG: return put_unsigned(value, data, 4, UINT32_MAX);
  case SQL_C_UBIGINT: return put_unsigned(value, data, 8, UINT64_MAX);
  case SQL_C_FLOAT: return put_real(value, data, true);
  case SQL_C_DOUBLE: return put_real(value, data, false);
  case SQL_C_NUMERIC: return put_numeric(value, to, data);
  case SQL_C_DATE:
  case SQL_C_TYPE_DATE: return put_date(value, data);
  case SQL_C_TIME:
  case SQL_C_TYPE_TIME: return put_time(value, data);
  case SQL_C_TIMESTAMP:
  case SQL_C_TYPE_TIMESTAMP: return put_timestamp(value, data);
  case SQL_C_GUID: return put_guid(value, data);
  default: return size > 0 ? put_interval(value, to->c_type, data) : "HY003";
  }
}
