/* Types: those of the database in ODBC's words, and the sizes of those of C.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

/* Types that information_schema does not know, such as TINYINT, are here what they are there. */
type_facts facts_of(const hypostyle_column *column, SQLULEN text_size) {
  SQLULEN precision = (SQLULEN)column->precision;
  SQLSMALLINT digits = (SQLSMALLINT)column->scale;
  SQLLEN text = (SQLLEN)text_size;
  switch (column->type) {
  case HYPOSTYLE_BOOLEAN: return (type_facts){SQL_BIT, 1, 0, 1, 1};
  case HYPOSTYLE_TINYINT:
  case HYPOSTYLE_UTINYINT:
  case HYPOSTYLE_SMALLINT: return (type_facts){SQL_SMALLINT, 5, 0, 2, 6};
  case HYPOSTYLE_USMALLINT:
  case HYPOSTYLE_INTEGER: return (type_facts){SQL_INTEGER, 10, 0, 4, 11};
  case HYPOSTYLE_UINTEGER:
  case HYPOSTYLE_BIGINT: return (type_facts){SQL_BIGINT, 19, 0, 8, 20};
  case HYPOSTYLE_UBIGINT: return (type_facts){SQL_DECIMAL, 20, 0, 22, 22};
  case HYPOSTYLE_FLOAT: return (type_facts){SQL_REAL, 24, 0, 4, 14};
  case HYPOSTYLE_DOUBLE: return (type_facts){SQL_DOUBLE, 53, 0, 8, 24};
  case HYPOSTYLE_DECIMAL:
    return (type_facts){SQL_DECIMAL, precision, digits, (SQLLEN)precision + 2, (SQLLEN)precision + 2};
  case HYPOSTYLE_DATE: return (type_facts){SQL_TYPE_DATE, 10, 0, sizeof(SQL_DATE_STRUCT), 10};
  case HYPOSTYLE_TIME: return (type_facts){SQL_TYPE_TIME, 15, 6, sizeof(SQL_TIME_STRUCT), 15};
  case HYPOSTYLE_TIMESTAMP:
  case HYPOSTYLE_TIMESTAMPTZ: {
    SQLULEN size = 19 + (digits > 0 ? 1 + (SQLULEN)digits : 0);
    return (type_facts){SQL_TYPE_TIMESTAMP, size, digits, sizeof(SQL_TIMESTAMP_STRUCT), (SQLLEN)size};
  }
  case HYPOSTYLE_INTERVAL:
  case HYPOSTYLE_DURATION: return (type_facts){SQL_WVARCHAR, 64, 0, 128, 64};
  case HYPOSTYLE_NULL:
  case HYPOSTYLE_VARCHAR: return (type_facts){SQL_WVARCHAR, text_size, 0, text * 2, text};
  case HYPOSTYLE_BLOB:
  case HYPOSTYLE_FIXED_BINARY: return (type_facts){SQL_VARBINARY, text_size, 0, text, text * 2};
  case HYPOSTYLE_UUID: return (type_facts){SQL_GUID, 36, 0, 16, 36};
  default: return (type_facts){SQL_WLONGVARCHAR, text_size, 0, text * 2, text};
  }
}

bool is_character(SQLSMALLINT type) {
  return type == SQL_CHAR || type == SQL_VARCHAR || type == SQL_LONGVARCHAR || type == SQL_WCHAR ||
         type == SQL_WVARCHAR || type == SQL_WLONGVARCHAR;
}

bool is_binary(SQLSMALLINT type) {
  return type == SQL_BINARY || type == SQL_VARBINARY || type == SQL_LONGVARBINARY;
}

static bool is_interval(SQLSMALLINT type) {
  return type >= SQL_INTERVAL_YEAR && type <= SQL_INTERVAL_MINUTE_TO_SECOND;
}

SQLSMALLINT verbose_type(SQLSMALLINT concise) {
  if (is_interval(concise)) return SQL_INTERVAL;
  bool is_datetime = concise == SQL_TYPE_DATE || concise == SQL_TYPE_TIME || concise == SQL_TYPE_TIMESTAMP;
  return is_datetime ? SQL_DATETIME : concise;
}

SQLSMALLINT interval_code(SQLSMALLINT concise) {
  if (is_interval(concise)) return (SQLSMALLINT)(concise - 100);
  switch (concise) {
  case SQL_TYPE_DATE: return SQL_CODE_DATE;
  case SQL_TYPE_TIME: return SQL_CODE_TIME;
  case SQL_TYPE_TIMESTAMP: return SQL_CODE_TIMESTAMP;
  default: return 0;
  }
}

SQLSMALLINT default_c_type(SQLSMALLINT type) {
  if (is_interval(type)) return type;
  switch (type) {
  case SQL_CHAR:
  case SQL_VARCHAR:
  case SQL_LONGVARCHAR:
  case SQL_DECIMAL:
  case SQL_NUMERIC: return SQL_C_CHAR;
  case SQL_WCHAR:
  case SQL_WVARCHAR:
  case SQL_WLONGVARCHAR: return SQL_C_WCHAR;
  case SQL_BIT: return SQL_C_BIT;
  case SQL_TINYINT: return SQL_C_STINYINT;
  case SQL_SMALLINT: return SQL_C_SSHORT;
  case SQL_INTEGER: return SQL_C_SLONG;
  case SQL_BIGINT: return SQL_C_SBIGINT;
  case SQL_REAL: return SQL_C_FLOAT;
  case SQL_FLOAT:
  case SQL_DOUBLE: return SQL_C_DOUBLE;
  case SQL_BINARY:
  case SQL_VARBINARY:
  case SQL_LONGVARBINARY: return SQL_C_BINARY;
  case SQL_TYPE_DATE:
  case SQL_DATE: return SQL_C_TYPE_DATE;
  case SQL_TYPE_TIME:
  case SQL_TIME: return SQL_C_TYPE_TIME;
  case SQL_TYPE_TIMESTAMP:
  case SQL_TIMESTAMP: return SQL_C_TYPE_TIMESTAMP;
  case SQL_GUID: return SQL_C_GUID;
  default: return SQL_C_CHAR;
  }
}

SQLLEN c_size(SQLSMALLINT type) {
  if (is_interval(type)) return sizeof(SQL_INTERVAL_STRUCT);
  switch (type) {
  case SQL_C_CHAR:
  case SQL_C_WCHAR:
  case SQL_C_BINARY: return 0;
  case SQL_C_BIT:
  case SQL_C_TINYINT:
  case SQL_C_STINYINT:
  case SQL_C_UTINYINT: return 1;
  case SQL_C_SHORT:
  case SQL_C_SSHORT:
  case SQL_C_USHORT: return sizeof(SQLSMALLINT);
  case SQL_C_LONG:
  case SQL_C_SLONG:
  case SQL_C_ULONG: return sizeof(SQLINTEGER);
  case SQL_C_SBIGINT:
  case SQL_C_UBIGINT: return sizeof(SQLBIGINT);
  case SQL_C_FLOAT: return sizeof(SQLREAL);
  case SQL_C_DOUBLE: return sizeof(SQLDOUBLE);
  case SQL_C_NUMERIC: return sizeof(SQL_NUMERIC_STRUCT);
  case SQL_C_DATE:
  case SQL_C_TYPE_DATE: return sizeof(SQL_DATE_STRUCT);
  case SQL_C_TIME:
  case SQL_C_TYPE_TIME: return sizeof(SQL_TIME_STRUCT);
  case SQL_C_TIMESTAMP:
  case SQL_C_TYPE_TIMESTAMP: return sizeof(SQL_TIMESTAMP_STRUCT);
  case SQL_C_GUID: return sizeof(SQLGUID);
  default: return -1;
  }
}

bool is_known_sql_type(SQLSMALLINT type) {
  if (is_character(type) || is_binary(type) || is_interval(type)) return true;
  switch (type) {
  case SQL_BIT:
  case SQL_TINYINT:
  case SQL_SMALLINT:
  case SQL_INTEGER:
  case SQL_BIGINT:
  case SQL_REAL:
  case SQL_FLOAT:
  case SQL_DOUBLE:
  case SQL_DECIMAL:
  case SQL_NUMERIC:
  case SQL_TYPE_DATE:
  case SQL_TYPE_TIME:
  case SQL_TYPE_TIMESTAMP:
  case SQL_DATE:
  case SQL_TIME:
  case SQL_TIMESTAMP:
  case SQL_GUID: return true;
  default: return false;
  }
}
