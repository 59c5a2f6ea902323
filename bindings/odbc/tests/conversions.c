/* Values of each type in each C type, by the rules of ODBC's appendix D: SQLGetData, bound columns, and bound
 * columns of three rows, which go other ways, agree. */
#include "check.h"
#include <math.h>

enum { ROOM = 64 };

typedef struct {
  const char *sql;
  SQLSMALLINT c_type;
  SQLLEN room;
  const char *state; /* "" for none */
  const char *value; /* as shown() shows it; NULL if it does not matter */
} conversion;

#define FITS ROOM

static const conversion conversions[] = {
    /* Integers and their ends. */
    {"CAST(127 AS TINYINT)", SQL_C_STINYINT, 0, "", "127"},
    {"CAST(-128 AS TINYINT)", SQL_C_UTINYINT, 0, "22003", NULL},
    {"CAST(255 AS UTINYINT)", SQL_C_UTINYINT, 0, "", "255"},
    {"CAST(255 AS UTINYINT)", SQL_C_STINYINT, 0, "22003", NULL},
    {"CAST(32767 AS SMALLINT)", SQL_C_SSHORT, 0, "", "32767"},
    {"CAST(-32768 AS SMALLINT)", SQL_C_SBIGINT, 0, "", "-32768"},
    {"CAST(65535 AS USMALLINT)", SQL_C_SSHORT, 0, "22003", NULL},
    {"CAST(65535 AS USMALLINT)", SQL_C_SLONG, 0, "", "65535"},
    {"CAST(-2147483648 AS INTEGER)", SQL_C_SLONG, 0, "", "-2147483648"},
    {"CAST(-2147483648 AS INTEGER)", SQL_C_ULONG, 0, "22003", NULL},
    {"CAST(4294967295 AS UINTEGER)", SQL_C_ULONG, 0, "", "4294967295"},
    {"CAST(4294967295 AS UINTEGER)", SQL_C_SLONG, 0, "22003", NULL},
    {"CAST(9223372036854775807 AS BIGINT)", SQL_C_SBIGINT, 0, "", "9223372036854775807"},
    {"CAST(-9223372036854775807 AS BIGINT) - 1", SQL_C_SBIGINT, 0, "", "-9223372036854775808"},
    {"CAST(-9223372036854775807 AS BIGINT) - 1", SQL_C_CHAR, FITS, "", "-9223372036854775808"},
    {"CAST('18446744073709551615' AS UBIGINT)", SQL_C_UBIGINT, 0, "", "18446744073709551615"},
    {"CAST('18446744073709551615' AS UBIGINT)", SQL_C_SBIGINT, 0, "22003", NULL},
    {"CAST('18446744073709551615' AS UBIGINT)", SQL_C_CHAR, FITS, "", "18446744073709551615"},
    {"CAST(5 AS BIGINT)", SQL_C_STINYINT, 0, "", "5"},
    {"CAST(1 AS INTEGER)", SQL_C_BIT, 0, "", "1"},
    {"CAST(2 AS INTEGER)", SQL_C_BIT, 0, "22003", NULL},
    {"CAST(7 AS INTEGER)", SQL_C_DOUBLE, 0, "", "7"},
    {"CAST(7 AS INTEGER)", SQL_C_FLOAT, 0, "", "7"},
    {"CAST(7 AS INTEGER)", SQL_C_NUMERIC, 0, "", "7e-0"},
    {"CAST(-7 AS INTEGER)", SQL_C_WCHAR, FITS, "", "-7"},
    {"CAST(12345 AS INTEGER)", SQL_C_CHAR, 6, "", "12345"},
    {"CAST(12345 AS INTEGER)", SQL_C_CHAR, 5, "22003", NULL},
    {"CAST(12345 AS INTEGER)", SQL_C_TYPE_DATE, 0, "07006", NULL},
    {"CAST(12345 AS INTEGER)", SQL_C_GUID, 0, "07006", NULL},
    {"CAST(3 AS INTEGER)", SQL_C_INTERVAL_DAY, 0, "", "+3 0:0:0.0"},
    {"CAST(3 AS INTEGER)", SQL_C_INTERVAL_DAY_TO_SECOND, 0, "07006", NULL},
    {"CAST(258 AS INTEGER)", SQL_C_BINARY, FITS, "", "02010000"},
    /* DECIMAL. */
    {"CAST('123.456' AS DECIMAL(9,3))", SQL_C_CHAR, FITS, "", "123.456"},
    {"CAST('-0.050' AS DECIMAL(9,3))", SQL_C_CHAR, FITS, "", "-0.050"},
    {"CAST('-0.050' AS DECIMAL(9,3))", SQL_C_WCHAR, FITS, "", "-0.050"},
    {"CAST('0' AS DECIMAL(18,4))", SQL_C_CHAR, FITS, "", "0.0000"},
    {"CAST('123.456' AS DECIMAL(9,3))", SQL_C_CHAR, 6, "01004", "123.4"},
    {"CAST('123.456' AS DECIMAL(9,3))", SQL_C_CHAR, 3, "22003", NULL},
    {"CAST('123.456' AS DECIMAL(9,3))", SQL_C_SLONG, 0, "01S07", "123"},
    {"CAST('-123.456' AS DECIMAL(9,3))", SQL_C_SLONG, 0, "01S07", "-123"},
    {"CAST('123.000' AS DECIMAL(9,3))", SQL_C_SLONG, 0, "", "123"},
    {"CAST('123.456' AS DECIMAL(9,3))", SQL_C_DOUBLE, 0, "", "123.456"},
    {"CAST('0.1' AS DECIMAL(18,17))", SQL_C_DOUBLE, 0, "", "0.10000000000000001"},
    {"CAST('99999999999999.99' AS DECIMAL(18,2))", SQL_C_DOUBLE, 0, "", "99999999999999.984"},
    {"CAST('123.456' AS DECIMAL(9,3))", SQL_C_NUMERIC, 0, "", "123456e-3"},
    {"CAST('-99999999999999999999999999999999999999' AS DECIMAL(38,0))", SQL_C_NUMERIC, 0, "",
     "-99999999999999999999999999999999999999e-0"},
    {"CAST('-99999999999999999999999999999999999999' AS DECIMAL(38,0))", SQL_C_CHAR, FITS, "",
     "-99999999999999999999999999999999999999"},
    {"CAST('-9999999999999999999999999999999999999.9' AS DECIMAL(38,1))", SQL_C_DOUBLE, 0, "",
     "-9.9999999999999995e+36"},
    {"CAST('12345678901234567890123456789012345678901234567.891' AS DECIMAL(50,3))", SQL_C_CHAR, FITS, "",
     "12345678901234567890123456789012345678901234567.891"},
    {"CAST('12345678901234567890123456789012345678901234567.891' AS DECIMAL(50,3))", SQL_C_NUMERIC, 0,
     "22003", NULL},
    {"CAST('99999999999999999999' AS DECIMAL(20,0))", SQL_C_SBIGINT, 0, "22003", NULL},
    {"CAST('0.5' AS DECIMAL(9,3))", SQL_C_BIT, 0, "01S07", "0"},
    {"CAST('-0.5' AS DECIMAL(9,3))", SQL_C_UTINYINT, 0, "01S07", "0"},
    /* DOUBLE and FLOAT. */
    {"CAST(0.1 AS DOUBLE)", SQL_C_CHAR, FITS, "", "0.1"},
    {"CAST(0.1 AS REAL)", SQL_C_CHAR, FITS, "", "0.1"},
    {"CAST(0.1 AS REAL)", SQL_C_DOUBLE, 0, "", "0.10000000149011612"},
    {"CAST('1e300' AS DOUBLE)", SQL_C_FLOAT, 0, "22003", NULL},
    {"CAST('1e300' AS DOUBLE)", SQL_C_SBIGINT, 0, "22003", NULL},
    {"CAST('1e300' AS DOUBLE)", SQL_C_CHAR, FITS, "", "1e+300"},
    {"CAST('1e300' AS DOUBLE)", SQL_C_CHAR, 5, "22003", NULL},
    {"CAST('1.75' AS DOUBLE)", SQL_C_SLONG, 0, "01S07", "1"},
    {"CAST('9223372036854775808' AS DOUBLE)", SQL_C_SBIGINT, 0, "22003", NULL},
    {"CAST('-9223372036854775808' AS DOUBLE)", SQL_C_SBIGINT, 0, "", "-9223372036854775808"},
    {"CAST('9007199254740994' AS DOUBLE)", SQL_C_SBIGINT, 0, "", "9007199254740994"},
    {"CAST('9223372036854774784' AS DOUBLE)", SQL_C_SBIGINT, 0, "", "9223372036854774784"},
    {"CAST(16777218 AS REAL)", SQL_C_SLONG, 0, "", "16777218"},
    {"CAST('NaN' AS DOUBLE)", SQL_C_DOUBLE, 0, "", "nan"},
    {"CAST('NaN' AS DOUBLE)", SQL_C_CHAR, FITS, "", "NaN"},
    {"CAST('NaN' AS DOUBLE)", SQL_C_SLONG, 0, "22003", NULL},
    {"CAST('-Infinity' AS DOUBLE)", SQL_C_CHAR, FITS, "", "-Infinity"},
    {"CAST('-Infinity' AS DOUBLE)", SQL_C_FLOAT, 0, "", "-inf"},
    {"CAST('1e-70' AS DOUBLE)", SQL_C_SLONG, 0, "01S07", "0"},
    {"CAST('2.5' AS DOUBLE)", SQL_C_NUMERIC, 0, "", "25e-1"},
    {"CAST('2.5' AS DOUBLE)", SQL_C_TYPE_TIME, 0, "07006", NULL},
    /* BOOLEAN. */
    {"TRUE", SQL_C_BIT, 0, "", "1"},
    {"FALSE", SQL_C_CHAR, FITS, "", "0"},
    {"TRUE", SQL_C_CHAR, 1, "22003", NULL},
    {"TRUE", SQL_C_DOUBLE, 0, "", "1"},
    {"TRUE", SQL_C_TYPE_DATE, 0, "07006", NULL},
    /* Texts. */
    {"' 42 '", SQL_C_SLONG, 0, "", "42"},
    {"'42.9'", SQL_C_SLONG, 0, "01S07", "42"},
    {"'4e2'", SQL_C_SLONG, 0, "", "400"},
    {"'4x'", SQL_C_SLONG, 0, "22018", NULL},
    {"''", SQL_C_SLONG, 0, "22018", NULL},
    {"'99999999999'", SQL_C_SLONG, 0, "22003", NULL},
    {"'1.5'", SQL_C_DOUBLE, 0, "", "1.5"},
    {"'1e999'", SQL_C_DOUBLE, 0, "22003", NULL},
    {"'infinity'", SQL_C_DOUBLE, 0, "", "inf"},
    {"'x'", SQL_C_DOUBLE, 0, "22018", NULL},
    {"'1'", SQL_C_BIT, 0, "", "1"},
    {"'yes'", SQL_C_BIT, 0, "22018", NULL},
    {"'2020-02-29'", SQL_C_TYPE_DATE, 0, "", "2020-2-29"},
    {"'2021-02-29'", SQL_C_TYPE_DATE, 0, "22018", NULL},
    {"'2020-02-29 00:00:00'", SQL_C_TYPE_DATE, 0, "", "2020-2-29"},
    {"'2020-02-29 01:00:00'", SQL_C_TYPE_DATE, 0, "01S07", "2020-2-29"},
    {"'01:02:03'", SQL_C_TYPE_TIME, 0, "", "1:2:3"},
    {"'2020-02-29 01:02:03.5'", SQL_C_TYPE_TIME, 0, "01S07", "1:2:3"},
    {"'2020-02-29 01:02:03.123456789'", SQL_C_TYPE_TIMESTAMP, 0, "", "2020-2-29 1:2:3.123456789"},
    {"'24:00:00'", SQL_C_TYPE_TIME, 0, "22018", NULL},
    {"'00112233-4455-6677-8899-aabbccddeeff'", SQL_C_GUID, 0, "", "00112233-4455-6677-8899aabbccddeeff"},
    {"'0011'", SQL_C_GUID, 0, "22018", NULL},
    {"'abc'", SQL_C_BINARY, FITS, "", "616263"},
    {"'abc'", SQL_C_BINARY, 2, "01004", "6162"},
    {"'abc'", SQL_C_CHAR, 3, "01004", "ab"},
    {"'abc'", SQL_C_WCHAR, 6, "01004", "ab"},
    {"''", SQL_C_CHAR, 1, "", ""},
    {"'3 days'", SQL_C_INTERVAL_DAY, 0, "", "+3 0:0:0.0"},
    {"'some'", SQL_C_INTERVAL_DAY, 0, "22018", NULL},
    {"'123.4'", SQL_C_NUMERIC, 0, "", "1234e-1"},
    /* BLOB. */
    {"CAST('\\x00ff10' AS BLOB)", SQL_C_BINARY, FITS, "", "00FF10"},
    {"CAST('\\x00ff10' AS BLOB)", SQL_C_BINARY, 1, "01004", "00"},
    {"CAST('\\x00ff10' AS BLOB)", SQL_C_CHAR, FITS, "", "00FF10"},
    {"CAST('\\x00ff10' AS BLOB)", SQL_C_WCHAR, FITS, "", "00FF10"},
    {"CAST('\\x00ff10' AS BLOB)", SQL_C_CHAR, 5, "01004", "00FF"},
    {"CAST('\\x00ff10' AS BLOB)", SQL_C_SLONG, 0, "07006", NULL},
    /* Dates and times. */
    {"DATE '2020-02-29'", SQL_C_TYPE_DATE, 0, "", "2020-2-29"},
    {"DATE '0001-01-01'", SQL_C_TYPE_DATE, 0, "", "1-1-1"},
    {"DATE '9999-12-31'", SQL_C_TYPE_DATE, 0, "", "9999-12-31"},
    {"DATE '0044-03-15 BC'", SQL_C_TYPE_DATE, 0, "", "-43-3-15"},
    {"DATE '2020-02-29'", SQL_C_TYPE_TIMESTAMP, 0, "", "2020-2-29 0:0:0.0"},
    {"DATE '2020-02-29'", SQL_C_CHAR, 11, "", "2020-02-29"},
    {"DATE '2020-02-29'", SQL_C_CHAR, 10, "22003", NULL},
    {"DATE '2020-02-29'", SQL_C_WCHAR, 22, "", "2020-02-29"},
    {"DATE '2020-02-29'", SQL_C_TYPE_TIME, 0, "07006", NULL},
    {"DATE '2020-02-29'", SQL_C_SLONG, 0, "07006", NULL},
    {"DATE '2020-02-29'", SQL_C_BINARY, FITS, "", "E40702001D00"},
    {"TIME '23:59:59'", SQL_C_TYPE_TIME, 0, "", "23:59:59"},
    {"TIME '23:59:59.5'", SQL_C_TYPE_TIME, 0, "01S07", "23:59:59"},
    {"TIME '23:59:59.5'", SQL_C_CHAR, FITS, "", "23:59:59.500000"},
    {"TIME '23:59:59.5'", SQL_C_CHAR, 9, "01004", "23:59:59"},
    {"TIME '23:59:59.5'", SQL_C_CHAR, 8, "22003", NULL},
    {"TIME '23:59:59.5'", SQL_C_TYPE_DATE, 0, "07006", NULL},
    {"TIMESTAMP '2020-02-29 01:02:03.456'", SQL_C_TYPE_TIMESTAMP, 0, "", "2020-2-29 1:2:3.456000000"},
    {"TIMESTAMP '1969-12-31 23:59:59.999999'", SQL_C_TYPE_TIMESTAMP, 0, "", "1969-12-31 23:59:59.999999000"},
    {"TIMESTAMP '2020-02-29 01:02:03.456'", SQL_C_CHAR, FITS, "", "2020-02-29 01:02:03.456000"},
    {"TIMESTAMP '2020-02-29 01:02:03.456'", SQL_C_CHAR, 24, "01004", "2020-02-29 01:02:03.456"},
    {"TIMESTAMP '2020-02-29 01:02:03.456'", SQL_C_CHAR, 19, "22003", NULL},
    {"TIMESTAMP '2020-02-29 01:02:03.456'", SQL_C_TYPE_DATE, 0, "01S07", "2020-2-29"},
    {"TIMESTAMP '2020-02-29 00:00:00'", SQL_C_TYPE_DATE, 0, "", "2020-2-29"},
    {"TIMESTAMP '2020-02-29 01:02:03.456'", SQL_C_TYPE_TIME, 0, "01S07", "1:2:3"},
    {"TIMESTAMP '2020-02-29 01:02:03.456'", SQL_C_DOUBLE, 0, "07006", NULL},
    {"CAST('2020-02-29 01:02:03+02' AS TIMESTAMPTZ)", SQL_C_TYPE_TIMESTAMP, 0, "", "2020-2-28 23:2:3.0"},
    /* INTERVAL and UUID. */
    {"INTERVAL '1 year 2 months'", SQL_C_INTERVAL_YEAR_TO_MONTH, 0, "", "+1-2"},
    {"INTERVAL '1 year 2 months'", SQL_C_INTERVAL_MONTH, 0, "", "+0-14"},
    {"INTERVAL '1 year 2 months'", SQL_C_INTERVAL_YEAR, 0, "01S07", "+1-0"},
    {"INTERVAL '1 year 2 months'", SQL_C_INTERVAL_DAY, 0, "22015", NULL},
    {"INTERVAL '1 day 02:03:04.5'", SQL_C_INTERVAL_DAY_TO_SECOND, 0, "", "+1 2:3:4.500000"},
    {"INTERVAL '-1 day -02:03:04'", SQL_C_INTERVAL_DAY_TO_SECOND, 0, "", "-1 2:3:4.0"},
    {"INTERVAL '1 day 02:03:04.5'", SQL_C_INTERVAL_HOUR, 0, "01S07", "+0 26:0:0.0"},
    {"INTERVAL '1 day 02:03:04.5'", SQL_C_INTERVAL_YEAR, 0, "22015", NULL},
    {"INTERVAL '1 day 02:03:04.5'", SQL_C_CHAR, FITS, "", "1 day 02:03:04.5"},
    {"INTERVAL '-1 day'", SQL_C_CHAR, FITS, "", "-1 days"},
    {"INTERVAL '1 day -1 month'", SQL_C_CHAR, FITS, "", "-1 mons +1 day"},
    {"INTERVAL '1 day -1 month 2 hours'", SQL_C_CHAR, FITS, "", "-1 mons +1 day 02:00:00"},
    {"INTERVAL '-1 day 2 hours'", SQL_C_CHAR, FITS, "", "-1 days +02:00:00"},
    {"INTERVAL '1 day 02:03:04.5'", SQL_C_SLONG, 0, "22018", NULL},
    {"CAST('00112233-4455-6677-8899-aabbccddeeff' AS UUID)", SQL_C_GUID, 0, "",
     "00112233-4455-6677-8899aabbccddeeff"},
    {"CAST('00112233-4455-6677-8899-aabbccddeeff' AS UUID)", SQL_C_CHAR, 37, "",
     "00112233-4455-6677-8899-aabbccddeeff"},
    {"CAST('00112233-4455-6677-8899-aabbccddeeff' AS UUID)", SQL_C_CHAR, 36, "22003", NULL},
    {"CAST('00112233-4455-6677-8899-aabbccddeeff' AS UUID)", SQL_C_SLONG, 0, "07006", NULL},
    /* The type's own C type. */
    {"CAST(5 AS INTEGER)", SQL_C_DEFAULT, 0, "", NULL},
    {"DATE '2020-02-29'", SQL_C_DEFAULT, 0, "", NULL},
};
enum { CONVERSIONS = sizeof conversions / sizeof *conversions };

/* ---- Showing a buffer ---- */

static void show_numeric(const SQL_NUMERIC_STRUCT *n, char *out) {
  unsigned __int128 value;
  char digits[48];
  int at = 47;
  memcpy(&value, n->val, sizeof value);
  digits[at] = '\0';
  do {
    digits[--at] = (char)('0' + (int)(value % 10));
    value /= 10;
  } while (value != 0);
  sprintf(out, "%s%se-%d", n->sign ? "" : "-", digits + at, n->scale);
}

static void show_interval(const SQL_INTERVAL_STRUCT *i, SQLSMALLINT c_type, char *out) {
  const char *sign = i->interval_sign ? "-" : "+";
  if (c_type == SQL_C_INTERVAL_YEAR || c_type == SQL_C_INTERVAL_MONTH ||
      c_type == SQL_C_INTERVAL_YEAR_TO_MONTH)
    sprintf(out, "%s%u-%u", sign, i->intval.year_month.year, i->intval.year_month.month);
  else
    sprintf(out, "%s%u %u:%u:%u.%u", sign, i->intval.day_second.day, i->intval.day_second.hour,
            i->intval.day_second.minute, i->intval.day_second.second, i->intval.day_second.fraction);
}

static const char *shown(SQLSMALLINT c_type, const void *data, SQLLEN room, SQLLEN length) {
  static char out[256];
  const SQL_DATE_STRUCT *date = data;
  const SQL_TIME_STRUCT *time = data;
  const SQL_TIMESTAMP_STRUCT *timestamp = data;
  const SQLGUID *guid = data;
  switch (c_type) {
  case SQL_C_CHAR: sprintf(out, "%s", (const char *)data); break;
  case SQL_C_WCHAR: sprintf(out, "%s", narrow(data)); break;
  case SQL_C_BINARY:
    for (SQLLEN i = 0; i < (length < room ? length : room); i++)
      sprintf(out + 2 * i, "%02X", ((const uint8_t *)data)[i]);
    break;
  case SQL_C_STINYINT: sprintf(out, "%d", *(const int8_t *)data); break;
  case SQL_C_UTINYINT:
  case SQL_C_BIT: sprintf(out, "%d", *(const uint8_t *)data); break;
  case SQL_C_SSHORT: sprintf(out, "%d", *(const int16_t *)data); break;
  case SQL_C_SLONG: sprintf(out, "%d", *(const int32_t *)data); break;
  case SQL_C_ULONG: sprintf(out, "%u", *(const uint32_t *)data); break;
  case SQL_C_SBIGINT: sprintf(out, "%lld", (long long)*(const int64_t *)data); break;
  case SQL_C_UBIGINT: sprintf(out, "%llu", (unsigned long long)*(const uint64_t *)data); break;
  case SQL_C_FLOAT: sprintf(out, "%.9g", (double)*(const float *)data); break;
  case SQL_C_DOUBLE: sprintf(out, "%.17g", *(const double *)data); break;
  case SQL_C_NUMERIC: show_numeric(data, out); break;
  case SQL_C_TYPE_DATE: sprintf(out, "%d-%u-%u", date->year, date->month, date->day); break;
  case SQL_C_TYPE_TIME: sprintf(out, "%u:%u:%u", time->hour, time->minute, time->second); break;
  case SQL_C_TYPE_TIMESTAMP:
    sprintf(out, "%d-%u-%u %u:%u:%u.%u", timestamp->year, timestamp->month, timestamp->day, timestamp->hour,
            timestamp->minute, timestamp->second, timestamp->fraction);
    break;
  case SQL_C_GUID:
    sprintf(out, "%08x-%04x-%04x-", guid->Data1, guid->Data2, guid->Data3);
    for (int i = 0; i < 8; i++) sprintf(out + 19 + 2 * i, "%02x", guid->Data4[i]);
    break;
  default: show_interval(data, c_type, out);
  }
  return out;
}

/* ---- Three ways ---- */

static bool is_as_wanted(const conversion *c, SQLRETURN returned, const void *data, SQLLEN length,
                         const char *way) {
  bool is_error = *c->state != '\0' && strncmp(c->state, "01", 2) != 0;
  SQLRETURN wanted = *c->state == '\0' ? SQL_SUCCESS : is_error ? SQL_ERROR : SQL_SUCCESS_WITH_INFO;
  const char *state = returned == SQL_SUCCESS ? "" : state_of(SQL_HANDLE_STMT, stmt, NULL);
  const char *value = c->value == NULL || is_error ? NULL : shown(c->c_type, data, c->room, length);
  if (returned == wanted && strcmp(state, c->state) == 0 && (value == NULL || strcmp(value, c->value) == 0))
    return true;
  fprintf(stderr, "%s as C type %d in %ld bytes, %s: returned %d, state '%s', value %s; wanted '%s', %s\n",
          c->sql, c->c_type, (long)c->room, way, returned, state, value == NULL ? "-" : value, c->state,
          c->value == NULL ? "-" : c->value);
  failures++;
  return false;
}

static void try_it(const conversion *c) {
  char sql[512];
  union {
    char bytes[3][ROOM];
    double aligned;
  } data;
  SQLLEN lengths[3] = {0};
  again();
  snprintf(sql, sizeof sql, "SELECT %s AS v FROM (VALUES (1), (2), (3)) AS t (i)", c->sql);
  memset(&data, 0x55, sizeof data);
  run(sql);
  OK(SQLFetch(stmt));
  SQLRETURN returned = SQLGetData(stmt, 1, c->c_type, data.bytes[0], c->room, lengths);
  is_as_wanted(c, returned, data.bytes[0], lengths[0], "by SQLGetData");
  OK(SQLCloseCursor(stmt));

  memset(&data, 0x55, sizeof data);
  OK(SQLBindCol(stmt, 1, c->c_type, data.bytes[0], c->room, lengths));
  run(sql);
  returned = SQLFetch(stmt);
  is_as_wanted(c, returned, data.bytes[0], lengths[0], "bound");
  OK(SQLCloseCursor(stmt));

  /* Row by row, so that the steps are those of the test's buffers; from a table, whose columns are mapped. */
  char made[640];
  snprintf(made, sizeof made, "CREATE TABLE converted AS %s", sql);
  run(made);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)3, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_BIND_TYPE, (SQLPOINTER)ROOM, 0));
  SQLLEN by_row[3 * ROOM / sizeof(SQLLEN)];
  memset(&data, 0x55, sizeof data);
  OK(SQLBindCol(stmt, 1, c->c_type, data.bytes[0], c->room, by_row));
  run("SELECT v FROM converted");
  returned = SQLFetch(stmt);
  for (int i = 0; i < 3; i++)
    if (!is_as_wanted(c, returned, data.bytes[i], by_row[(size_t)i * ROOM / sizeof(SQLLEN)], "in rows"))
      break;
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)1, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_BIND_TYPE, (SQLPOINTER)SQL_BIND_BY_COLUMN, 0));
  again();
  run("DROP TABLE converted");
}

/* Each type with each C type: a value, an error with a state of the standard's, and nothing written beyond
 * the room; NULL is NULL in each. */
static void try_all_pairs(void) {
  static const char *const types[] = {
      "BOOLEAN",       "TINYINT", "SMALLINT", "INTEGER",   "BIGINT",       "UTINYINT",      "USMALLINT",
      "UINTEGER",      "UBIGINT", "REAL",     "DOUBLE",    "DECIMAL(9,2)", "DECIMAL(18,3)", "DECIMAL(38,4)",
      "DECIMAL(60,5)", "DATE",    "TIME",     "TIMESTAMP", "TIMESTAMP(0)", "TIMESTAMPTZ",   "INTERVAL",
      "VARCHAR",       "JSON",    "BLOB",     "UUID",      "INTEGER[]"};
  static const SQLSMALLINT c_types[] = {SQL_C_CHAR,
                                        SQL_C_WCHAR,
                                        SQL_C_BINARY,
                                        SQL_C_BIT,
                                        SQL_C_STINYINT,
                                        SQL_C_UTINYINT,
                                        SQL_C_SSHORT,
                                        SQL_C_USHORT,
                                        SQL_C_SLONG,
                                        SQL_C_ULONG,
                                        SQL_C_SBIGINT,
                                        SQL_C_UBIGINT,
                                        SQL_C_FLOAT,
                                        SQL_C_DOUBLE,
                                        SQL_C_NUMERIC,
                                        SQL_C_TYPE_DATE,
                                        SQL_C_TYPE_TIME,
                                        SQL_C_TYPE_TIMESTAMP,
                                        SQL_C_GUID,
                                        SQL_C_INTERVAL_YEAR,
                                        SQL_C_INTERVAL_MONTH,
                                        SQL_C_INTERVAL_DAY,
                                        SQL_C_INTERVAL_HOUR,
                                        SQL_C_INTERVAL_MINUTE,
                                        SQL_C_INTERVAL_SECOND,
                                        SQL_C_INTERVAL_YEAR_TO_MONTH,
                                        SQL_C_INTERVAL_DAY_TO_SECOND,
                                        SQL_C_DEFAULT};
  static const char *const known[] = {"01004", "01S07", "07006", "22003", "22015", "22018", "22008"};
  static const char *const values[] = {"1",
                                       "0",
                                       "'2020-01-01'",
                                       "'12:00:00'",
                                       "'1 day'",
                                       "'[1]'",
                                       "'00112233-4455-6677-8899-aabbccddeeff'",
                                       "'{1}'",
                                       "'\\x01'"};
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_STATIC, 0));
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    char sql[256];
    run("DROP TABLE IF EXISTS pairs");
    snprintf(sql, sizeof sql, "CREATE TABLE pairs (v %s)", types[t]);
    run(sql);
    /* Some value that the type has, and NULL. */
    bool has_value = false;
    for (size_t v = 0; v < sizeof values / sizeof *values && !has_value; v++) {
      snprintf(sql, sizeof sql, "INSERT INTO pairs VALUES (CAST(%s AS %s))", values[v], types[t]);
      has_value = SQL_SUCCEEDED(SQLExecDirectW(stmt, w(sql), SQL_NTS));
    }
    CHECK(has_value);
    run("INSERT INTO pairs VALUES (NULL)");
    again();
    run("SELECT v FROM pairs");
    for (size_t k = 0; k < sizeof c_types / sizeof *c_types; k++)
      for (SQLLEN room = 0; room <= ROOM; room = room == 0 ? 1 : room * 2) {
        unsigned char data[ROOM + 16];
        SQLLEN length = 0;
        memset(data, 0xa5, sizeof data);
        OK(SQLBindCol(stmt, 1, c_types[k], data, room, &length));
        SQLRETURN returned = SQLFetchScroll(stmt, SQL_FETCH_ABSOLUTE, 1);
        bool is_known = returned == SQL_SUCCESS;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
          is_known = is_known || strcmp(state_of(SQL_HANDLE_STMT, stmt, NULL), known[i]) == 0;
        bool is_variable = k < 3;
        for (size_t i = is_variable ? (size_t)room : ROOM; i < sizeof data; i++)
          is_known = is_known && data[i] == 0xa5;
        if (!is_known) say_call(__FILE__, __LINE__, types[t], returned, SQL_HANDLE_STMT, stmt), failures++;
        OK(SQLFetchScroll(stmt, SQL_FETCH_ABSOLUTE, 2));
        CHECK(length == SQL_NULL_DATA);
      }
    again();
  }
  run("DROP TABLE pairs");
}

/* A descriptor may give SQL_C_NUMERIC another scale. */
static void numeric_with_scale(void) {
  SQL_NUMERIC_STRUCT n;
  SQLHDESC ard;
  char text[64];
  OK(SQLGetStmtAttrW(stmt, SQL_ATTR_APP_ROW_DESC, &ard, 0, NULL));
  OK_ON(SQL_HANDLE_DESC, ard, SQLSetDescFieldW(ard, 1, SQL_DESC_TYPE, (SQLPOINTER)SQL_C_NUMERIC, 0));
  OK_ON(SQL_HANDLE_DESC, ard, SQLSetDescFieldW(ard, 1, SQL_DESC_PRECISION, (SQLPOINTER)10, 0));
  OK_ON(SQL_HANDLE_DESC, ard, SQLSetDescFieldW(ard, 1, SQL_DESC_SCALE, (SQLPOINTER)1, 0));
  OK_ON(SQL_HANDLE_DESC, ard, SQLSetDescFieldW(ard, 1, SQL_DESC_DATA_PTR, &n, 0));
  run("SELECT 123.456");
  WARNED(SQLFetch(stmt), "01S07");
  show_numeric(&n, text);
  CHECK(strcmp(text, "1234e-1") == 0 && n.precision == 10);
  again();
}

int main(int argc, char **argv) {
  begin(argc, argv);
  for (size_t i = 0; i < CONVERSIONS; i++) try_it(&conversions[i]);
  numeric_with_scale();
  try_all_pairs();
  return end();
}
