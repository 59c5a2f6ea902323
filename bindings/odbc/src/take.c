/* Values of C types as values of the database, by the rules of ODBC's appendix D.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- From C ---- */

static const char *take_text(SQLSMALLINT c_type, const char *data, SQLLEN length, scalar *value,
                             builder *own) {
  value->kind = c_type == SQL_C_BINARY ? SCALAR_BYTES : SCALAR_TEXT;
  if (c_type != SQL_C_WCHAR) {
    value->data = data;
    value->length = length == SQL_NTS ? strlen(data) : (size_t)length;
    return NULL;
  }
  size_t count = length == SQL_NTS ? units_until_nul(data) : (size_t)length / sizeof(SQLWCHAR);
  own->length = 0;
  while (count > 0) {
    /* Units may lie at odd addresses. */
    SQLWCHAR units[256];
    char piece[sizeof units / sizeof *units * 3];
    size_t some = count < 256 ? count : 256;
    memcpy(units, data, some * sizeof *units);
    /* A pair stays together. */
    if (some < count && (units[some - 1] & 0xfc00) == 0xd800) some--;
    size_t written = utf8_from(units, some, piece);
    if (written == SIZE_MAX) return "22021";
    add_bytes(own, piece, written);
    data += some * sizeof *units;
    count -= some;
  }
  add_bytes(own, "", 0);
  value->data = own->data;
  value->length = own->length;
  return own->failed ? "HY001" : NULL;
}

static const char *take_numeric(const char *data, scalar *value) {
  SQL_NUMERIC_STRUCT numeric;
  memcpy(&numeric, data, sizeof numeric);
  uint8_t wide[32] = {0};
  memcpy(wide, numeric.val, sizeof numeric.val);
  value->kind = SCALAR_EXACT;
  value->exact = decimal_of_bytes(wide, sizeof wide, 0);
  value->exact.is_negative = numeric.sign == 0 && value->exact.count > 0;
  int scale = numeric.scale;
  for (; scale < 0; scale++) {
    if (value->exact.count == DIGITS_MAX) return "22003";
    if (value->exact.count > 0) value->exact.digits[value->exact.count++] = '0';
  }
  if (scale > DIGITS_MAX) return "22003";
  value->exact.scale = (int16_t)scale;
  return NULL;
}

static const char *take_moment(SQLSMALLINT c_type, const char *data, scalar *value) {
  memset(&value->moment, 0, sizeof value->moment);
  moment *m = &value->moment;
  value->fraction = 9;
  if (c_type == SQL_C_TYPE_TIME || c_type == SQL_C_TIME) {
    SQL_TIME_STRUCT time;
    memcpy(&time, data, sizeof time);
    m->hour = time.hour, m->minute = time.minute, m->second = time.second;
    value->kind = SCALAR_TIME;
    return is_time(m) ? NULL : "22007";
  }
  if (c_type == SQL_C_TYPE_DATE || c_type == SQL_C_DATE) {
    SQL_DATE_STRUCT date;
    memcpy(&date, data, sizeof date);
    m->year = date.year, m->month = date.month, m->day = date.day;
    value->kind = SCALAR_DATE;
    return is_date(m) ? NULL : "22007";
  }
  SQL_TIMESTAMP_STRUCT timestamp;
  memcpy(&timestamp, data, sizeof timestamp);
  m->year = timestamp.year, m->month = timestamp.month, m->day = timestamp.day;
  m->hour = timestamp.hour, m->minute = timestamp.minute, m->second = timestamp.second;
  m->nanoseconds = timestamp.fraction;
  value->kind = SCALAR_TIMESTAMP;
  return is_date(m) && is_time(m) ? NULL : "22007";
}

static const char *take_guid(const char *data, scalar *value) {
  SQLGUID guid;
  memcpy(&guid, data, sizeof guid);
  value->kind = SCALAR_GUID;
  uint8_t *out = value->guid;
  out[0] = (uint8_t)(guid.Data1 >> 24), out[1] = (uint8_t)(guid.Data1 >> 16);
  out[2] = (uint8_t)(guid.Data1 >> 8), out[3] = (uint8_t)guid.Data1;
  out[4] = (uint8_t)(guid.Data2 >> 8), out[5] = (uint8_t)guid.Data2;
  out[6] = (uint8_t)(guid.Data3 >> 8), out[7] = (uint8_t)guid.Data3;
  memcpy(out + 8, guid.Data4, 8);
  return NULL;
}

static const char *take_interval(SQLSMALLINT c_type, const char *data, scalar *value) {
  SQL_INTERVAL_STRUCT interval;
  memcpy(&interval, data, sizeof interval);
  value->kind = SCALAR_INTERVAL;
  value->span = (span){0, 0, 0};
  int64_t sign = interval.interval_sign == SQL_TRUE ? -1 : 1;
  bool is_months = c_type == SQL_C_INTERVAL_YEAR || c_type == SQL_C_INTERVAL_MONTH ||
                   c_type == SQL_C_INTERVAL_YEAR_TO_MONTH;
  if (is_months) {
    int64_t months = (c_type == SQL_C_INTERVAL_MONTH ? 0 : (int64_t)interval.intval.year_month.year * 12) +
                     (c_type == SQL_C_INTERVAL_YEAR ? 0 : (int64_t)interval.intval.year_month.month);
    if (months > INT32_MAX) return "22015";
    value->span.months = (int32_t)(sign * months);
    return NULL;
  }
  /* Parts that the type does not have hold anything. */
  SQL_DAY_SECOND_STRUCT clock = interval.intval.day_second;
  bool has_day = c_type == SQL_C_INTERVAL_DAY ||
                 (c_type >= SQL_C_INTERVAL_DAY_TO_HOUR && c_type <= SQL_C_INTERVAL_DAY_TO_SECOND);
  bool has_hour = c_type == SQL_C_INTERVAL_HOUR ||
                  (c_type >= SQL_C_INTERVAL_DAY_TO_HOUR && c_type <= SQL_C_INTERVAL_HOUR_TO_SECOND);
  bool has_minute = c_type == SQL_C_INTERVAL_MINUTE ||
                    (c_type >= SQL_C_INTERVAL_DAY_TO_MINUTE && c_type <= SQL_C_INTERVAL_MINUTE_TO_SECOND);
  bool has_second = c_type == SQL_C_INTERVAL_SECOND || c_type == SQL_C_INTERVAL_DAY_TO_SECOND ||
                    c_type == SQL_C_INTERVAL_HOUR_TO_SECOND || c_type == SQL_C_INTERVAL_MINUTE_TO_SECOND;
  if (has_day && clock.day > INT32_MAX) return "22015";
  if (has_hour && clock.hour > 2562046) return "22015";
  if (has_second && clock.fraction > 999999) return "22015";
  int64_t seconds = (has_hour ? (int64_t)clock.hour * 3600 : 0) +
                    (has_minute ? (int64_t)clock.minute * 60 : 0) + (has_second ? (int64_t)clock.second : 0);
  if (seconds > INT64_MAX / 1000000000 - 1) return "22015";
  value->span.days = has_day ? (int32_t)(sign * (int64_t)clock.day) : 0;
  value->span.nanoseconds = sign * (seconds * 1000000000 + (has_second ? (int64_t)clock.fraction * 1000 : 0));
  return NULL;
}

#define TAKE(type, make)                                                                                     \
  {                                                                                                          \
    type number;                                                                                             \
    memcpy(&number, data, sizeof number);                                                                    \
    value->kind = SCALAR_EXACT;                                                                              \
    value->exact = make(number);                                                                             \
    return NULL;                                                                                             \
  }

const char *take_scalar(SQLSMALLINT c_type, const char *data, SQLLEN length, scalar *value, builder *own) {
  switch (c_type) {
  case SQL_C_CHAR:
  case SQL_C_WCHAR:
  case SQL_C_BINARY: return take_text(c_type, data, length, value, own);
  case SQL_C_BIT:
    value->kind = SCALAR_BOOLEAN;
    value->boolean = *data != 0;
    return *(const uint8_t *)data <= 1 ? NULL : "22003";
  case SQL_C_TINYINT:
  case SQL_C_STINYINT: TAKE(int8_t, decimal_of_int64)
  case SQL_C_UTINYINT: TAKE(uint8_t, decimal_of_uint64)
  case SQL_C_SHORT:
  case SQL_C_SSHORT: TAKE(int16_t, decimal_of_int64)
  case SQL_C_USHORT: TAKE(uint16_t, decimal_of_uint64)
  case SQL_C_LONG:
  case SQL_C_SLONG: TAKE(int32_t, decimal_of_int64)
  case SQL_C_ULONG: TAKE(uint32_t, decimal_of_uint64)
  case SQL_C_SBIGINT: TAKE(int64_t, decimal_of_int64)
  case SQL_C_UBIGINT: TAKE(uint64_t, decimal_of_uint64)
  case SQL_C_FLOAT: {
    float number;
    memcpy(&number, data, sizeof number);
    value->kind = SCALAR_REAL, value->real = (double)number, value->is_float = true;
    return NULL;
  }
  case SQL_C_DOUBLE:
    memcpy(&value->real, data, sizeof value->real);
    value->kind = SCALAR_REAL, value->is_float = false;
    return NULL;
  case SQL_C_NUMERIC: return take_numeric(data, value);
  case SQL_C_GUID: return take_guid(data, value);
  case SQL_C_DATE:
  case SQL_C_TIME:
  case SQL_C_TIMESTAMP:
  case SQL_C_TYPE_DATE:
  case SQL_C_TYPE_TIME:
  case SQL_C_TYPE_TIMESTAMP: return take_moment(c_type, data, value);
  default: return c_size(c_type) > 0 ? take_interval(c_type, data, value) : "HY003";
  }
}

/* ---- To the database ---- */

static const char *value_text(const scalar *from, hypostyle_value *value, builder *own) {
  *value = hypostyle_value_of(HYPOSTYLE_VARCHAR);
  if (from->kind == SCALAR_TEXT || from->kind == SCALAR_BYTES) {
    value->data = from->data;
    value->length = from->length;
    return NULL;
  }
  char made[TEXT_OF_SCALAR_MAX];
  size_t length = scalar_text(from, made);
  /* Nanoseconds that are 0 say nothing. */
  if ((from->kind == SCALAR_TIME || from->kind == SCALAR_TIMESTAMP) && memchr(made, '.', length) != NULL) {
    while (made[length - 1] == '0') length--;
    if (made[length - 1] == '.') length--;
  }
  own->length = 0;
  add_bytes(own, made, length);
  value->data = own->data;
  value->length = own->length;
  return own->failed ? "HY001" : NULL;
}

static const char *number_of(const scalar *from, scalar *number) {
  switch (from->kind) {
  case SCALAR_EXACT:
  case SCALAR_REAL: *number = *from; return NULL;
  case SCALAR_BOOLEAN:
    *number = (scalar){.kind = SCALAR_EXACT, .exact = decimal_of_int64(from->boolean)};
    return NULL;
  case SCALAR_TEXT: return read_number(from->data, from->length, number) ? NULL : "22018";
  default: return "07006";
  }
}

static const char *exact_of(const scalar *from, decimal *exact) {
  scalar number;
  const char *state = number_of(from, &number);
  if (state != NULL) return state;
  if (number.kind == SCALAR_REAL)
    return decimal_of_real(number.real, number.is_float, exact) ? NULL : "22003";
  *exact = number.exact;
  return NULL;
}

/* Digits behind the point are cut, but not those of a text. */
static const char *value_integer(const scalar *from, hypostyle_type type, int64_t least, int64_t most,
                                 hypostyle_value *value) {
  decimal exact;
  const char *state = exact_of(from, &exact);
  int64_t number;
  bool is_cut = false;
  if (state != NULL) return state;
  if (!decimal_int64(&exact, &number, &is_cut) || number < least || number > most) return "22003";
  if (is_cut && from->kind == SCALAR_TEXT) return "22001";
  *value = hypostyle_value_of(type);
  value->integer = number;
  return NULL;
}

static const char *value_real(const scalar *from, hypostyle_type type, hypostyle_value *value) {
  scalar number;
  const char *state = number_of(from, &number);
  if (state != NULL) return state;
  *value = hypostyle_value_of(type);
  value->number = number.kind == SCALAR_REAL ? number.real : decimal_real(&number.exact);
  if (type == HYPOSTYLE_FLOAT && isfinite(value->number) && isinf((float)value->number)) return "22003";
  return NULL;
}

static const char *value_decimal(const scalar *from, hypostyle_value *value) {
  enum { SCALE_MAX = 38 };
  decimal exact;
  const char *state = exact_of(from, &exact);
  if (state != NULL) return state;
  bool is_cut = false;
  if (exact.scale > SCALE_MAX) rescale(&exact, SCALE_MAX, &is_cut);
  if (is_cut && from->kind == SCALAR_TEXT) return "22001";
  uint8_t bytes[16];
  if (exact.count > SCALE_MAX || !decimal_bytes(&exact, sizeof bytes, bytes)) return "22003";
  *value = hypostyle_value_of(HYPOSTYLE_DECIMAL);
  value->scale = exact.scale;
  uint64_t low, high;
  memcpy(&low, bytes, 8);
  memcpy(&high, bytes + 8, 8);
  if (exact.is_negative) {
    low = ~low + 1;
    high = ~high + (low == 0);
  }
  value->integer = (int64_t)low;
  value->high = (int64_t)high;
  return NULL;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A text for bytes has two hexadecimal digits for each. */
static const char *value_bytes(const scalar *from, hypostyle_value *value, builder *own) {
  *value = hypostyle_value_of(HYPOSTYLE_BLOB);
  value->data = from->data;
  value->length = from->length;
  if (from->kind == SCALAR_BYTES) return NULL;
  if (from->kind != SCALAR_TEXT) return "07006";
  if (from->length % 2 != 0) return "22018";
  /* The text may lie in *own itself. */
  builder bytes = {0};
  add_bytes(&bytes, "", 0);
  for (size_t i = 0; i < from->length; i += 2) {
    int high = hex_digit(from->data[i]), low = hex_digit(from->data[i + 1]);
    if (high < 0 || low < 0) {
      free(bytes.data);
      return "22018";
    }
    char byte = (char)(high << 4 | low);
    add_bytes(&bytes, &byte, 1);
  }
  free(own->data);
  *own = bytes;
  value->data = own->data;
  value->length = own->length;
  return own->failed ? "HY001" : NULL;
}

static const char *moment_of(const scalar *from, scalar *out) {
  switch (from->kind) {
  case SCALAR_DATE:
  case SCALAR_TIME:
  case SCALAR_TIMESTAMP: *out = *from; return NULL;
  case SCALAR_TEXT: return read_moment(from->data, from->length, out) ? NULL : "22018";
  default: return "07006";
  }
}

static const char *value_date(const scalar *from, hypostyle_value *value) {
  scalar found;
  const char *state = moment_of(from, &found);
  if (state != NULL) return state;
  const moment *m = &found.moment;
  if (found.kind == SCALAR_TIME) return from->kind == SCALAR_TEXT ? "22018" : "07006";
  if (found.kind == SCALAR_TIMESTAMP && (m->hour || m->minute || m->second || m->nanoseconds)) return "22008";
  *value = hypostyle_value_of(HYPOSTYLE_DATE);
  value->integer = days_of_date(m->year, m->month, m->day);
  return NULL;
}

static const char *value_time(const scalar *from, hypostyle_value *value) {
  scalar found;
  const char *state = moment_of(from, &found);
  if (state != NULL) return state;
  const moment *m = &found.moment;
  if (found.kind == SCALAR_DATE) return from->kind == SCALAR_TEXT ? "22018" : "07006";
  if (m->nanoseconds % 1000 != 0) return "22008";
  *value = hypostyle_value_of(HYPOSTYLE_TIME);
  value->integer = ((int64_t)m->hour * 3600 + m->minute * 60 + m->second) * 1000000 + m->nanoseconds / 1000;
  return NULL;
}

static const char *value_timestamp(const scalar *from, hypostyle_value *value) {
  scalar found;
  const char *state = moment_of(from, &found);
  if (state != NULL) return state;
  if (found.kind == SCALAR_TIME) {
    time_t seconds = time(NULL);
    struct tm today;
    localtime_r(&seconds, &today);
    found.moment.year = today.tm_year + 1900;
    found.moment.month = (uint32_t)today.tm_mon + 1;
    found.moment.day = (uint32_t)today.tm_mday;
  }
  *value = hypostyle_value_of(HYPOSTYLE_TIMESTAMP);
  value->scale = found.moment.nanoseconds % 1000 == 0 ? 6 : 9;
  return units_of_moment(&found.moment, value->scale, &value->integer) ? NULL : "22008";
}

static const char *value_guid(const scalar *from, hypostyle_value *value, builder *own) {
  uint8_t guid[16];
  if (from->kind == SCALAR_GUID)
    memcpy(guid, from->guid, sizeof guid);
  else if (from->kind == SCALAR_BYTES && from->length == sizeof guid)
    memcpy(guid, from->data, sizeof guid);
  else if (from->kind != SCALAR_TEXT)
    return "07006";
  else if (!read_guid(from->data, from->length, guid))
    return "22018";
  own->length = 0;
  add_bytes(own, (const char *)guid, sizeof guid);
  *value = hypostyle_value_of(HYPOSTYLE_UUID);
  value->data = own->data;
  value->length = own->length;
  return own->failed ? "HY001" : NULL;
}

static const char *value_interval(const scalar *from, SQLSMALLINT sql_type, hypostyle_value *value) {
  span s;
  scalar number;
  if (from->kind == SCALAR_INTERVAL) {
    s = from->span;
  } else if (from->kind == SCALAR_TEXT && read_span(from->data, from->length, &s)) {
    /* It has units of its own. */
  } else {
    /* A number is one of the type's first part. */
    const char *state = number_of(from, &number);
    if (state != NULL) return state;
    decimal exact;
    int64_t count;
    bool is_cut = false;
    if (exact_of(from, &exact) != NULL || !decimal_int64(&exact, &count, &is_cut) || is_cut) return "22018";
    if (count > 100000000 || count < -100000000) return "22015";
    s = (span){0, 0, 0};
    switch (sql_type) {
    case SQL_INTERVAL_YEAR: s.months = (int32_t)count * 12; break;
    case SQL_INTERVAL_MONTH: s.months = (int32_t)count; break;
    case SQL_INTERVAL_DAY: s.days = (int32_t)count; break;
    case SQL_INTERVAL_HOUR:
      s.nanoseconds = count > 2562046 || count < -2562046 ? 0 : count * 3600000000000;
      break;
    case SQL_INTERVAL_MINUTE: s.nanoseconds = count * 60000000000; break;
    case SQL_INTERVAL_SECOND: s.nanoseconds = count * 1000000000; break;
    default: return "22018";
    }
    if (sql_type == SQL_INTERVAL_HOUR && count != 0 && s.nanoseconds == 0) return "22015";
  }
  *value = hypostyle_value_of(HYPOSTYLE_INTERVAL);
  value->integer = s.nanoseconds;
  value->high = (int64_t)((uint64_t)(uint32_t)s.months | (uint64_t)(uint32_t)s.days << 32);
  return NULL;
}

const char *take_value(const scalar *from, SQLSMALLINT type, hypostyle_value *value, builder *own) {
  if (is_character(type)) return value_text(from, value, own);
  if (is_binary(type)) return value_bytes(from, value, own);
  switch (type) {
  case SQL_BIT: return value_integer(from, HYPOSTYLE_BOOLEAN, 0, 1, value);
  case SQL_TINYINT: return value_integer(from, HYPOSTYLE_SMALLINT, INT8_MIN, UINT8_MAX, value);
  case SQL_SMALLINT: return value_integer(from, HYPOSTYLE_SMALLINT, INT16_MIN, INT16_MAX, value);
  case SQL_INTEGER: return value_integer(from, HYPOSTYLE_INTEGER, INT32_MIN, INT32_MAX, value);
  case SQL_BIGINT: return value_integer(from, HYPOSTYLE_BIGINT, INT64_MIN, INT64_MAX, value);
  case SQL_REAL: return value_real(from, HYPOSTYLE_FLOAT, value);
  case SQL_FLOAT:
  case SQL_DOUBLE: return value_real(from, HYPOSTYLE_DOUBLE, value);
  case SQL_DECIMAL:
  case SQL_NUMERIC: return value_decimal(from, value);
  case SQL_DATE:
  case SQL_TYPE_DATE: return value_date(from, value);
  case SQL_TIME:
  case SQL_TYPE_TIME: return value_time(from, value);
  case SQL_TIMESTAMP:
  case SQL_TYPE_TIMESTAMP: return value_timestamp(from, value);
  case SQL_GUID: return value_guid(from, value, own);
  default: return value_interval(from, type, value);
  }
}
