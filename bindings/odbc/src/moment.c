/* Dates, times of day, points in time and intervals: their parts and their texts. The calendar is the
 * Gregorian one for all years; the year 0 is 1 BC.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"
#include <stdio.h>
#include <string.h>

enum { DAY_SECONDS = 86400 };

int64_t days_of_date(int32_t year, uint32_t month, uint32_t day) {
  /* Years begin in March, so that the leap day is the last one. */
  int64_t y = (int64_t)year - (month <= 2);
  int64_t era = (y >= 0 ? y : y - 399) / 400;
  int64_t year_of_era = y - era * 400;
  int64_t day_of_year = (153 * ((int64_t)month + (month > 2 ? -3 : 9)) + 2) / 5 + (int64_t)day - 1;
  int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

void date_of_days(int64_t days, moment *out) {
  days += 719468;
  int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  int64_t day_of_era = days - era * 146097;
  int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  int64_t month = (5 * day_of_year + 2) / 153;
  out->day = (uint32_t)(day_of_year - (153 * month + 2) / 5 + 1);
  out->month = (uint32_t)(month < 10 ? month + 3 : month - 9);
  out->year = (int32_t)(year_of_era + era * 400 + (out->month <= 2));
}

static int64_t power_of_ten(int digits) {
  int64_t power = 1;
  while (digits-- > 0) power *= 10;
  return power;
}

void moment_of_units(int64_t units, int digits, moment *out) {
  int64_t of_second = power_of_ten(digits);
  int64_t seconds = units / of_second, rest = units % of_second;
  if (rest < 0) rest += of_second, seconds--;
  int64_t days = seconds / DAY_SECONDS, second = seconds % DAY_SECONDS;
  if (second < 0) second += DAY_SECONDS, days--;
  date_of_days(days, out);
  out->hour = (uint32_t)(second / 3600);
  out->minute = (uint32_t)(second / 60 % 60);
  out->second = (uint32_t)(second % 60);
  out->nanoseconds = (uint32_t)(rest * power_of_ten(9 - digits));
}

bool units_of_moment(const moment *m, int digits, int64_t *units) {
  int64_t seconds = days_of_date(m->year, m->month, m->day) * DAY_SECONDS + (int64_t)m->hour * 3600 +
                    (int64_t)m->minute * 60 + (int64_t)m->second;
  int64_t rest = (int64_t)m->nanoseconds / power_of_ten(9 - digits), whole;
  /* The seconds of the least number begin below it. */
  if (seconds < 0 && rest > 0) seconds++, rest -= power_of_ten(digits);
  return !__builtin_mul_overflow(seconds, power_of_ten(digits), &whole) &&
         !__builtin_add_overflow(whole, rest, units);
}

bool is_date(const moment *m) {
  static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (m->month < 1 || m->month > 12 || m->day < 1) return false;
  bool is_leap = (m->year % 4 == 0 && m->year % 100 != 0) || m->year % 400 == 0;
  return m->day <= days[m->month - 1] + (uint32_t)(m->month == 2 && is_leap);
}

bool is_time(const moment *m) {
  return m->hour < 24 && m->minute < 60 && m->second < 60 && m->nanoseconds < 1000000000;
}

size_t date_text(const moment *m, char *out) {
  return (size_t)sprintf(out, m->year < 0 ? "%05d-%02u-%02u" : "%04d-%02u-%02u", (int)m->year,
                         (unsigned)m->month, (unsigned)m->day);
}

size_t time_text(const moment *m, int fraction, char *out) {
  int length = sprintf(out, "%02u:%02u:%02u", (unsigned)m->hour, (unsigned)m->minute, (unsigned)m->second);
  if (fraction <= 0) return (size_t)length;
  char digits[16];
  sprintf(digits, "%09u", (unsigned)m->nanoseconds);
  return (size_t)(length + sprintf(out + length, ".%.*s", fraction > 9 ? 9 : fraction, digits));
}

size_t timestamp_text(const moment *m, int fraction, char *out) {
  size_t length = date_text(m, out);
  out[length++] = ' ';
  return length + time_text(m, fraction, out + length);
}

/* Writes a part of an interval. Behind a part that is negative one that is not has a plus. */
static size_t part_text(int64_t count, const char *unit, bool *is_negative, char *out) {
  if (count == 0) return 0;
  size_t length = (size_t)sprintf(out, "%s%lld %s%s ", *is_negative && count > 0 ? "+" : "", (long long)count,
                                  unit, count == 1 ? "" : "s");
  *is_negative = count < 0;
  return length;
}

/* Writes an interval as PostgreSQL does: 1 year 2 mons -3 days +04:05:06.7. */
size_t span_text(const span *s, char *out) {
  bool is_negative = false;
  size_t length = part_text(s->months / 12, "year", &is_negative, out);
  length += part_text(s->months % 12, "mon", &is_negative, out + length);
  length += part_text(s->days, "day", &is_negative, out + length);
  if (s->nanoseconds == 0 && length > 0) {
    out[--length] = '\0';
    return length;
  }
  uint64_t size = s->nanoseconds < 0 ? 0 - (uint64_t)s->nanoseconds : (uint64_t)s->nanoseconds;
  uint64_t seconds = size / 1000000000, rest = size % 1000000000;
  const char *sign = s->nanoseconds < 0 ? "-" : is_negative ? "+" : "";
  length +=
      (size_t)sprintf(out + length, "%s%02llu:%02llu:%02llu", sign, (unsigned long long)(seconds / 3600),
                      (unsigned long long)(seconds / 60 % 60), (unsigned long long)(seconds % 60));
  if (rest == 0) return length;
  length += (size_t)sprintf(out + length, ".%09llu", (unsigned long long)rest);
  while (out[length - 1] == '0') out[--length] = '\0';
  return length;
}

/* ---- Reading ---- */

typedef struct {
  const char *at, *end;
} reader;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static reader trimmed(const char *text, size_t length) {
  reader r = {text, text + length};
  while (r.at < r.end && is_space(*r.at)) r.at++;
  while (r.end > r.at && is_space(r.end[-1])) r.end--;
  return r;
}

static bool take(reader *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

/* Reads a number of at least `least` and at most `most` digits. */
static bool take_number(reader *r, int least, int most, uint32_t *out) {
  uint32_t value = 0;
  int digits = 0;
  while (r->at < r->end && is_digit(*r->at) && digits < most)
    value = value * 10 + (uint32_t)(*r->at++ - '0'), digits++;
  *out = value;
  return digits >= least && (r->at == r->end || !is_digit(*r->at));
}

static bool take_fraction(reader *r, uint32_t *nanoseconds) {
  uint32_t unit = 100000000;
  *nanoseconds = 0;
  if (r->at == r->end || !is_digit(*r->at)) return false;
  for (; r->at < r->end && is_digit(*r->at); r->at++, unit /= 10)
    *nanoseconds += unit * (uint32_t)(*r->at - '0');
  return true;
}

static bool take_date(reader *r, moment *m) {
  uint32_t year;
  bool is_negative = take(r, '-');
  if (!take_number(r, 1, 6, &year) || !take(r, '-') || !take_number(r, 1, 2, &m->month) || !take(r, '-') ||
      !take_number(r, 1, 2, &m->day))
    return false;
  m->year = is_negative ? -(int32_t)year : (int32_t)year;
  return is_date(m);
}

static bool take_time(reader *r, moment *m) {
  if (!take_number(r, 1, 2, &m->hour) || !take(r, ':') || !take_number(r, 1, 2, &m->minute)) return false;
  if (take(r, ':')) {
    if (!take_number(r, 1, 2, &m->second)) return false;
    if (take(r, '.') && !take_fraction(r, &m->nanoseconds)) return false;
  }
  return is_time(m);
}

/* Takes the frame of an escape, such as {ts '…'}, away. */
static bool take_frame(reader *r) {
  if (!take(r, '{')) return true;
  if (r->end == r->at || *--r->end != '}') return false;
  while (r->at < r->end && (*r->at == 't' || *r->at == 's' || *r->at == 'd')) r->at++;
  while (r->at < r->end && is_space(*r->at)) r->at++;
  while (r->end > r->at && is_space(r->end[-1])) r->end--;
  if (!take(r, '\'') || r->end == r->at || *--r->end != '\'') return false;
  return true;
}

bool read_moment(const char *text, size_t length, scalar *out) {
  reader r = trimmed(text, length);
  if (!take_frame(&r)) return false;
  *out = (scalar){.kind = SCALAR_TIME, .fraction = 9};
  reader whole = r;
  if (take_time(&r, &out->moment) && r.at == r.end) return true;
  r = whole;
  memset(&out->moment, 0, sizeof out->moment);
  if (!take_date(&r, &out->moment)) return false;
  out->kind = SCALAR_DATE;
  if (r.at == r.end) return true;
  out->kind = SCALAR_TIMESTAMP;
  if (!take(&r, ' ') && !take(&r, 'T')) return false;
  return take_time(&r, &out->moment) && r.at == r.end;
}

/* Says how many months, days or nanoseconds a unit is; 0 in all for none. */
static span unit_of(const char *name, size_t length) {
  static const struct {
    const char *name;
    span size;
  } units[] = {{"year", {12, 0, 0}},
               {"mon", {1, 0, 0}},
               {"month", {1, 0, 0}},
               {"week", {0, 7, 0}},
               {"day", {0, 1, 0}},
               {"hour", {0, 0, 3600000000000}},
               {"minute", {0, 0, 60000000000}},
               {"min", {0, 0, 60000000000}},
               {"second", {0, 0, 1000000000}},
               {"sec", {0, 0, 1000000000}}};
  if (length > 1 && (name[length - 1] | 0x20) == 's') length--;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strlen(units[i].name) != length) continue;
    size_t k = 0;
    while (k < length && (name[k] | 0x20) == units[i].name[k]) k++;
    if (k == length) return units[i].size;
  }
  return (span){0, 0, 0};
}

/* Reads [hours:minutes:seconds[.fraction]] behind its hours. */
static bool take_clock(reader *r, bool is_negative, int64_t hours, span *out) {
  uint32_t minute, second = 0, nanoseconds = 0;
  if (!take_number(r, 1, 2, &minute)) return false;
  if (take(r, ':') && !take_number(r, 1, 2, &second)) return false;
  if (take(r, '.') && !take_fraction(r, &nanoseconds)) return false;
  if (minute > 59 || second > 59 || hours > 2562046) return false;
  int64_t size = ((hours * 60 + minute) * 60 + second) * 1000000000 + nanoseconds;
  return !__builtin_add_overflow(out->nanoseconds, is_negative ? -size : size, &out->nanoseconds);
}

static bool add_unit(span *out, int64_t count, span unit) {
  int64_t months, days, nanoseconds;
  if (__builtin_mul_overflow(count, (int64_t)unit.months, &months) ||
      __builtin_mul_overflow(count, (int64_t)unit.days, &days) ||
      __builtin_mul_overflow(count, unit.nanoseconds, &nanoseconds))
    return false;
  return !__builtin_add_overflow(out->months, months, &out->months) &&
         !__builtin_add_overflow(out->days, days, &out->days) &&
         !__builtin_add_overflow(out->nanoseconds, nanoseconds, &out->nanoseconds);
}

bool read_span(const char *text, size_t length, span *out) {
  reader r = trimmed(text, length);
  *out = (span){0, 0, 0};
  if (r.at == r.end) return false;
  while (r.at < r.end) {
    bool is_negative = take(&r, '-');
    if (!is_negative) take(&r, '+');
    uint32_t count;
    if (!take_number(&r, 1, 9, &count)) return false;
    if (take(&r, ':')) {
      if (!take_clock(&r, is_negative, count, out)) return false;
    } else {
      while (r.at < r.end && is_space(*r.at)) r.at++;
      const char *name = r.at;
      while (r.at < r.end && !is_space(*r.at)) r.at++;
      span unit = unit_of(name, (size_t)(r.at - name));
      if (unit.months == 0 && unit.days == 0 && unit.nanoseconds == 0) return false;
      if (!add_unit(out, is_negative ? -(int64_t)count : (int64_t)count, unit)) return false;
    }
    while (r.at < r.end && is_space(*r.at)) r.at++;
  }
  return true;
}
