/* Parameters: alone, in arrays by column and by row, and data at execution. */
#include "check.h"

static void types(void) {
  SQLSMALLINT count, type, digits, nullable;
  SQLULEN size;
  run("DROP TABLE IF EXISTS given");
  run("CREATE TABLE given (id INTEGER, exact DECIMAL(12, 2), text VARCHAR, day DATE, at TIMESTAMP, bytes "
      "BLOB, key UUID, "
      "flag BOOLEAN, span INTERVAL, real DOUBLE, clock TIME)");
  OK(SQLPrepareW(stmt, w("INSERT INTO given (id, exact, text, at) VALUES (?, ?, ?, ?)"), SQL_NTS));
  OK(SQLNumParams(stmt, &count));
  CHECK(count == 4);
  OK(SQLDescribeParam(stmt, 1, &type, &size, &digits, &nullable));
  CHECK(type == SQL_INTEGER && size == 10);
  OK(SQLDescribeParam(stmt, 2, &type, &size, &digits, &nullable));
  CHECK(type == SQL_DECIMAL && size == 12 && digits == 2);
  OK(SQLDescribeParam(stmt, 3, &type, &size, &digits, &nullable));
  CHECK(type == SQL_WVARCHAR);
  OK(SQLDescribeParam(stmt, 4, &type, &size, &digits, &nullable));
  CHECK(type == SQL_TYPE_TIMESTAMP && digits == 6);
  REFUSED(SQLDescribeParam(stmt, 5, &type, &size, &digits, &nullable), "07009");
  REFUSED(SQLExecute(stmt), "07002");
  again();
}

/* One value of a C type for an SQL type, as the database shows it. */
typedef struct {
  SQLSMALLINT c_type, sql_type;
  const void *data;
  SQLLEN length;
  const char *state, *shown;
} given;

#define NUMBER(type, ...) &(const type){__VA_ARGS__}

static const given values[] = {
    {SQL_C_SLONG, SQL_INTEGER, NUMBER(int32_t, -5), 4, "", "-5"},
    {SQL_C_SBIGINT, SQL_INTEGER, NUMBER(int64_t, 5000000000), 8, "22003", NULL},
    {SQL_C_UBIGINT, SQL_BIGINT, NUMBER(uint64_t, UINT64_MAX), 8, "22003", NULL},
    {SQL_C_UBIGINT, SQL_DECIMAL, NUMBER(uint64_t, UINT64_MAX), 8, "", "18446744073709551615"},
    {SQL_C_DOUBLE, SQL_DOUBLE, NUMBER(double, 0.1), 8, "", "0.1"},
    {SQL_C_DOUBLE, SQL_INTEGER, NUMBER(double, 2.75), 8, "", "2"},
    {SQL_C_DOUBLE, SQL_REAL, NUMBER(double, 1e300), 8, "22003", NULL},
    {SQL_C_FLOAT, SQL_REAL, NUMBER(float, 0.25f), 4, "", "0.25"},
    {SQL_C_BIT, SQL_BIT, NUMBER(uint8_t, 1), 1, "", "true"},
    {SQL_C_BIT, SQL_BIT, NUMBER(uint8_t, 2), 1, "22003", NULL},
    {SQL_C_SLONG, SQL_BIT, NUMBER(int32_t, 2), 4, "22003", NULL},
    {SQL_C_STINYINT, SQL_TINYINT, NUMBER(int8_t, -128), 1, "", "-128"},
    {SQL_C_USHORT, SQL_INTEGER, NUMBER(uint16_t, 65535), 2, "", "65535"},
    {SQL_C_CHAR, SQL_INTEGER, " 12 ", SQL_NTS, "", "12"},
    {SQL_C_CHAR, SQL_INTEGER, "12.5", SQL_NTS, "22001", NULL},
    {SQL_C_CHAR, SQL_INTEGER, "twelve", SQL_NTS, "22018", NULL},
    {SQL_C_CHAR, SQL_DECIMAL, "-12.340", SQL_NTS, "", "-12.340"},
    {SQL_C_CHAR, SQL_DECIMAL, "99999999999999999999999999999999999999", SQL_NTS, "",
     "99999999999999999999999999999999999999"},
    {SQL_C_CHAR, SQL_DECIMAL, "999999999999999999999999999999999999999", SQL_NTS, "22003", NULL},
    {SQL_C_CHAR, SQL_DOUBLE, "1e-3", SQL_NTS, "", "0.001"},
    {SQL_C_CHAR, SQL_VARCHAR, "it's", SQL_NTS, "", "it's"},
    {SQL_C_CHAR, SQL_VARCHAR, "part of it", 4, "", "part"},
    {SQL_C_CHAR, SQL_VARCHAR, "", 0, "", ""},
    {SQL_C_CHAR, SQL_VARCHAR, "\xff\xfe", SQL_NTS, "22021", NULL},
    {SQL_C_WCHAR, SQL_WVARCHAR, u"gr\u00f6\u00dfe", SQL_NTS, "", "gr??e"},
    {SQL_C_WCHAR, SQL_WVARCHAR, u"gr\u00f6\u00dfe", 4, "", "gr"},
    {SQL_C_WCHAR, SQL_WVARCHAR, u"gr\u00f6\u00dfe", 5, "HY090", NULL},
    {SQL_C_WCHAR, SQL_WVARCHAR, (const uint16_t[]){0xd800, 'a', 0}, SQL_NTS, "22021", NULL},
    {SQL_C_WCHAR, SQL_INTEGER, u"77", SQL_NTS, "", "77"},
    {SQL_C_SLONG, SQL_VARCHAR, NUMBER(int32_t, 77), 4, "", "77"},
    {SQL_C_CHAR, SQL_TYPE_DATE, "2020-02-29", SQL_NTS, "", "2020-02-29"},
    {SQL_C_CHAR, SQL_TYPE_DATE, "2021-02-29", SQL_NTS, "22018", NULL},
    {SQL_C_CHAR, SQL_TYPE_DATE, "{d '2020-02-29'}", SQL_NTS, "", "2020-02-29"},
    {SQL_C_CHAR, SQL_TYPE_DATE, "2020-02-29 01:00:00", SQL_NTS, "22008", NULL},
    {SQL_C_CHAR, SQL_TYPE_TIME, "01:02:03.5", SQL_NTS, "", "01:02:03.500"},
    {SQL_C_CHAR, SQL_TYPE_TIMESTAMP, "2020-02-29 01:02:03.5", SQL_NTS, "", "2020-02-29 01:02:03.500"},
    {SQL_C_CHAR, SQL_TYPE_TIMESTAMP, "2020-02-29 25:02:03.5", SQL_NTS, "22018", NULL},
    {SQL_C_TYPE_DATE, SQL_TYPE_DATE, NUMBER(SQL_DATE_STRUCT, .year = 2020, .month = 2, .day = 29), 6, "",
     "2020-02-29"},
    {SQL_C_TYPE_DATE, SQL_TYPE_DATE, NUMBER(SQL_DATE_STRUCT, .year = 2021, .month = 2, .day = 29), 6, "22007",
     NULL},
    {SQL_C_TYPE_DATE, SQL_TYPE_TIMESTAMP, NUMBER(SQL_DATE_STRUCT, .year = 2020, .month = 2, .day = 29), 6, "",
     "2020-02-29 00:00:00"},
    {SQL_C_TYPE_DATE, SQL_INTEGER, NUMBER(SQL_DATE_STRUCT, .year = 2020, .month = 2, .day = 29), 6, "07006",
     NULL},
    {SQL_C_TYPE_TIME, SQL_TYPE_TIME, NUMBER(SQL_TIME_STRUCT, .hour = 23, .minute = 59, .second = 59), 6, "",
     "23:59:59"},
    {SQL_C_TYPE_TIMESTAMP, SQL_TYPE_TIMESTAMP,
     NUMBER(SQL_TIMESTAMP_STRUCT, .year = 1969, .month = 12, .day = 31, .hour = 23, .fraction = 500000000),
     16, "", "1969-12-31 23:00:00.500"},
    {SQL_C_TYPE_TIMESTAMP, SQL_TYPE_TIMESTAMP,
     NUMBER(SQL_TIMESTAMP_STRUCT, .year = 2020, .month = 1, .day = 1, .fraction = 123456789), 16, "",
     "2020-01-01 00:00:00.123456789"},
    {SQL_C_TYPE_TIMESTAMP, SQL_TYPE_TIMESTAMP,
     NUMBER(SQL_TIMESTAMP_STRUCT, .year = 9999, .month = 12, .day = 31, .fraction = 999999999), 16, "22008",
     NULL},
    {SQL_C_TYPE_TIMESTAMP, SQL_TYPE_DATE, NUMBER(SQL_TIMESTAMP_STRUCT, .year = 2020, .month = 1, .day = 1),
     16, "", "2020-01-01"},
    {SQL_C_BINARY, SQL_VARBINARY, "\x00\xff", 2, "", "00ff"},
    {SQL_C_CHAR, SQL_VARBINARY, "00fF", SQL_NTS, "", "00ff"},
    {SQL_C_CHAR, SQL_VARBINARY, "00f", SQL_NTS, "22018", NULL},
    {SQL_C_SLONG, SQL_VARBINARY, NUMBER(int32_t, 1), 4, "07006", NULL},
    {SQL_C_GUID, SQL_GUID,
     NUMBER(SQLGUID, .Data1 = 0x00112233, .Data2 = 0x4455, .Data3 = 0x6677, .Data4 = {1}), 16, "",
     "00112233-4455-6677-0100-000000000000"},
    {SQL_C_CHAR, SQL_GUID, "00112233-4455-6677-8899-aabbccddeeff", SQL_NTS, "",
     "00112233-4455-6677-8899-aabbccddeeff"},
    {SQL_C_CHAR, SQL_GUID, "0011", SQL_NTS, "22018", NULL},
    {SQL_C_NUMERIC, SQL_DECIMAL,
     NUMBER(SQL_NUMERIC_STRUCT, .precision = 5, .scale = 2, .sign = 0, .val = {57, 48}), 19, "", "-123.45"},
    {SQL_C_INTERVAL_DAY_TO_SECOND, SQL_INTERVAL_DAY_TO_SECOND,
     NUMBER(SQL_INTERVAL_STRUCT, .interval_type = SQL_IS_DAY_TO_SECOND, .interval_sign = SQL_TRUE,
            .intval = {.day_second = {1, 2, 3, 4, 500000}}),
     28, "", "-1 days -02:03:04.5"},
    {SQL_C_CHAR, SQL_INTERVAL_DAY, "3 days", SQL_NTS, "", "3 days"},
    {SQL_C_SLONG, SQL_INTERVAL_MONTH, NUMBER(int32_t, 14), 4, "", "1 year 2 mons"},
    {SQL_C_CHAR, SQL_INTEGER, NULL, SQL_NULL_DATA, "", NULL},
};

static void conversions(void) {
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    const given *v = &values[i];
    SQLLEN length = v->length, told = 0;
    char shown[128] = "";
    const char *column = v->sql_type == SQL_VARBINARY ? "SELECT encode(?, 'hex')" : "SELECT ?";
    again();
    OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, v->c_type, v->sql_type, 0, 0,
                        (SQLPOINTER)(uintptr_t)v->data, 0, &length));
    SQLRETURN returned = SQLExecDirectW(stmt, w(column), SQL_NTS);
    const char *state = returned == SQL_SUCCESS ? "" : state_of(SQL_HANDLE_STMT, stmt, NULL);
    bool is_right = strcmp(state, v->state) == 0;
    if (returned == SQL_SUCCESS) {
      SQLWCHAR wide[128];
      OK(SQLFetch(stmt));
      OK(SQLGetData(stmt, 1, SQL_C_WCHAR, wide, sizeof wide, &told));
      snprintf(shown, sizeof shown, "%s", told == SQL_NULL_DATA ? "" : narrow(wide));
      if (v->sql_type == SQL_BIT)
        snprintf(shown, sizeof shown, "%s", *narrow(wide) == '1' ? "true" : "false");
      /* The fraction's digits are those of the column's type. */
      size_t known = strlen(v->shown == NULL ? "" : v->shown);
      if (v->sql_type == SQL_TYPE_TIME || v->sql_type == SQL_TYPE_TIMESTAMP) shown[known] = '\0';
      is_right = is_right && (v->shown == NULL ? told == SQL_NULL_DATA : strcmp(shown, v->shown) == 0);
    }
    if (is_right) continue;
    const char *message;
    state_of(SQL_HANDLE_STMT, stmt, &message);
    fprintf(stderr,
            "value %zu of C type %d as SQL type %d: returned %d, state '%s', shown %s; wanted '%s', %s: %s\n",
            i, v->c_type, v->sql_type, returned, state, shown, v->state, v->shown == NULL ? "-" : v->shown,
            message);
    failures++;
  }
  again();
}

enum { ROWS = 2000 };

static void arrays_by_column(void) {
  static SQLINTEGER ids[ROWS];
  static char exact[ROWS][16], texts[ROWS][24];
  static SQL_DATE_STRUCT days[ROWS];
  static SQLDOUBLE reals[ROWS];
  static unsigned char bytes[ROWS][4], flags[ROWS];
  static SQLGUID keys[ROWS];
  static SQLLEN lengths[8][ROWS];
  static SQLUSMALLINT statuses[ROWS], operations[ROWS];
  SQLULEN processed = 0;
  for (int i = 0; i < ROWS; i++) {
    ids[i] = i;
    snprintf(exact[i], sizeof exact[i], i % 2 == 0 ? "%d.5" : "%d.25", i);
    snprintf(texts[i], sizeof texts[i], "text %d", i);
    days[i] = (SQL_DATE_STRUCT){2020, (SQLUSMALLINT)(i % 12 + 1), 28};
    reals[i] = i / 8.0;
    memcpy(bytes[i], &i, 4);
    flags[i] = i % 2;
    keys[i] = (SQLGUID){.Data1 = (uint32_t)i};
    for (int k = 0; k < 8; k++) lengths[k][i] = k == 1 || k == 2 ? SQL_NTS : 4;
    if (i % 10 == 0) lengths[2][i] = SQL_NULL_DATA;
    if (i % 7 == 0) lengths[4][i] = SQL_NULL_DATA;
    operations[i] = i % 1000 == 999 ? SQL_PARAM_IGNORE : SQL_PARAM_PROCEED;
  }
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)ROWS, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_STATUS_PTR, statuses, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_OPERATION_PTR, operations, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMS_PROCESSED_PTR, &processed, 0));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, ids, 0, lengths[0]));
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_DECIMAL, 12, 2, exact, sizeof exact[0],
                      lengths[1]));
  OK(SQLBindParameter(stmt, 3, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 24, 0, texts, sizeof texts[0],
                      lengths[2]));
  OK(SQLBindParameter(stmt, 4, SQL_PARAM_INPUT, SQL_C_TYPE_DATE, SQL_TYPE_DATE, 10, 0, days, 0, lengths[3]));
  OK(SQLBindParameter(stmt, 5, SQL_PARAM_INPUT, SQL_C_DOUBLE, SQL_DOUBLE, 0, 0, reals, 0, lengths[4]));
  OK(SQLBindParameter(stmt, 6, SQL_PARAM_INPUT, SQL_C_BINARY, SQL_VARBINARY, 4, 0, bytes, sizeof bytes[0],
                      lengths[5]));
  OK(SQLBindParameter(stmt, 7, SQL_PARAM_INPUT, SQL_C_BIT, SQL_BIT, 1, 0, flags, 0, lengths[6]));
  OK(SQLBindParameter(stmt, 8, SQL_PARAM_INPUT, SQL_C_GUID, SQL_GUID, 36, 0, keys, 0, lengths[7]));
  run("INSERT INTO given (id, exact, text, day, real, bytes, flag, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  SQLLEN count = 0;
  OK(SQLRowCount(stmt, &count));
  CHECK(count == ROWS - 2 && processed == ROWS);
  CHECK(statuses[0] == SQL_PARAM_SUCCESS && statuses[999] == SQL_PARAM_UNUSED &&
        statuses[ROWS - 2] == SQL_PARAM_SUCCESS);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)1, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_OPERATION_PTR, NULL, 0));
  CHECK(number("SELECT count(*) FROM given") == ROWS - 2);
  CHECK(number("SELECT count(*) FROM given WHERE exact = id + CASE WHEN id % 2 = 0 THEN 0.5 ELSE 0.25 END") ==
        ROWS - 2);
  CHECK(number("SELECT count(*) FROM given WHERE text = 'text ' || id AND id % 10 <> 0 OR text IS NULL AND "
               "id % 10 = 0") == ROWS - 2);
  CHECK(number("SELECT count(*) FROM given WHERE real = id / 8.0 AND id % 7 <> 0 OR real IS NULL AND id % 7 "
               "= 0") == ROWS - 2);
  CHECK(number("SELECT count(*) FROM given WHERE extract(month FROM day) = id % 12 + 1") == ROWS - 2);
  CHECK(number("SELECT count(*) FROM given WHERE flag = (id % 2 = 1)") == ROWS - 2);
  CHECK(number("SELECT count(*) FROM given WHERE bytes = CAST('\\x01000000' AS BLOB) AND id = 1") == 1);
  CHECK(number("SELECT count(*) FROM given WHERE key = CAST('00000001-0000-0000-0000-000000000000' AS UUID) "
               "AND id = 1") == 1);

  /* A row that cannot be converted keeps all from being executed, and is named. */
  strcpy(exact[3], "none");
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)6, 0));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_DECIMAL, 12, 2, exact, sizeof exact[0],
                      lengths[1]));
  REFUSED(SQLExecDirectW(stmt, w("INSERT INTO given (exact) VALUES (?)"), SQL_NTS), "22018");
  SQLLEN row = 0;
  CHECK(SQL_SUCCEEDED(SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_ROW_NUMBER, &row, 0, NULL)) &&
        row == 4);
  CHECK(statuses[3] == SQL_PARAM_ERROR && statuses[2] == SQL_PARAM_UNUSED && processed == 4);
  /* So does one that the database refuses; nobody knows which. */
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)2, 0));
  run("CREATE TABLE unique_given (id INTEGER PRIMARY KEY)");
  ids[1] = ids[0];
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, ids, 0, NULL));
  REFUSED(SQLExecDirectW(stmt, w("INSERT INTO unique_given VALUES (?)"), SQL_NTS), "23505");
  CHECK(statuses[0] == SQL_PARAM_DIAG_UNAVAILABLE);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)1, 0));
  CHECK(number("SELECT count(*) FROM unique_given") == 0);
  run("DROP TABLE unique_given");
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_STATUS_PTR, NULL, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMS_PROCESSED_PTR, NULL, 0));
  run("DELETE FROM given");
}

struct row {
  SQLINTEGER id;
  SQLLEN id_length;
  char text[13];
  SQLLEN text_length;
  SQL_TIMESTAMP_STRUCT at;
};

static void arrays_by_row(void) {
  static struct row rows[101];
  SQLLEN offset = sizeof *rows;
  for (int i = 0; i < 100; i++) {
    struct row *r = &rows[i + 1];
    r->id = i;
    r->id_length = 0;
    r->text_length = snprintf(r->text, sizeof r->text, "%d!", i);
    r->at = (SQL_TIMESTAMP_STRUCT){2020, 1, 1, 0, 0, 0, (SQLUINTEGER)i * 1000};
  }
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)100, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_BIND_TYPE, (SQLPOINTER)sizeof *rows, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_BIND_OFFSET_PTR, &offset, 0));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &rows->id, 0,
                      &rows->id_length));
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 0, 0, rows->text, sizeof rows->text,
                      &rows->text_length));
  OK(SQLBindParameter(stmt, 3, SQL_PARAM_INPUT, SQL_C_TYPE_TIMESTAMP, SQL_TYPE_TIMESTAMP, 26, 6, &rows->at, 0,
                      NULL));
  run("INSERT INTO given (id, text, at) VALUES (?, ?, ?)");
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)1, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_BIND_TYPE, (SQLPOINTER)SQL_PARAM_BIND_BY_COLUMN, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_BIND_OFFSET_PTR, NULL, 0));
  CHECK(number("SELECT count(*) FROM given WHERE text = id || '!' AND extract(microsecond FROM at) = id") ==
        100);
  run("DELETE FROM given");
}

static void data_at_execution(void) {
  SQLLEN at_execution = SQL_DATA_AT_EXEC, with_length = SQL_LEN_DATA_AT_EXEC(100), one = SQL_DATA_AT_EXEC;
  SQLPOINTER token = NULL;
  OK(SQLPrepareW(stmt, w("INSERT INTO given (id, text, bytes) VALUES (?, ?, ?)"), SQL_NTS));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, (SQLPOINTER)1, 0, &one));
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 0, 0, (SQLPOINTER)2, 0,
                      &at_execution));
  OK(SQLBindParameter(stmt, 3, SQL_PARAM_INPUT, SQL_C_BINARY, SQL_VARBINARY, 0, 0, (SQLPOINTER)3, 0,
                      &with_length));
  REFUSED(SQLPutData(stmt, "x", 1), "HY010");
  again();
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, (SQLPOINTER)1, 0, &one));
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 0, 0, (SQLPOINTER)2, 0,
                      &at_execution));
  OK(SQLBindParameter(stmt, 3, SQL_PARAM_INPUT, SQL_C_BINARY, SQL_VARBINARY, 0, 0, (SQLPOINTER)3, 0,
                      &with_length));
  CHECK(SQLExecute(stmt) == SQL_NEED_DATA);
  CHECK(SQLParamData(stmt, &token) == SQL_NEED_DATA && token == (SQLPOINTER)1);
  OK(SQLPutData(stmt, &(SQLINTEGER){7}, 0));
  CHECK(SQLParamData(stmt, &token) == SQL_NEED_DATA && token == (SQLPOINTER)2);
  for (int i = 0; i < 1000; i++) OK(SQLPutData(stmt, "0123456789", i % 2 == 0 ? 10 : SQL_NTS));
  CHECK(SQLParamData(stmt, &token) == SQL_NEED_DATA && token == (SQLPOINTER)3);
  OK(SQLPutData(stmt, "\x00\x01", 2));
  OK(SQLPutData(stmt, "\x02", 1));
  OK(SQLParamData(stmt, &token));
  CHECK(number("SELECT length(text) FROM given WHERE id = 7 AND bytes = CAST('\\x000102' AS BLOB)") == 10000);
  /* NULL, and nothing more of it; then the statement is cancelled. */
  at_execution = SQL_DATA_AT_EXEC;
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 0, 0, (SQLPOINTER)2, 0,
                      &at_execution));
  CHECK(SQLExecDirectW(stmt, w("INSERT INTO given (text) VALUES (?)"), SQL_NTS) == SQL_NEED_DATA);
  CHECK(SQLParamData(stmt, &token) == SQL_NEED_DATA);
  OK(SQLPutData(stmt, NULL, SQL_NULL_DATA));
  OK(SQLParamData(stmt, &token));
  CHECK(number("SELECT count(*) FROM given WHERE text IS NULL") == 1);
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 0, 0, (SQLPOINTER)2, 0,
                      &at_execution));
  CHECK(SQLExecDirectW(stmt, w("INSERT INTO given (text) VALUES (?)"), SQL_NTS) == SQL_NEED_DATA);
  CHECK(SQLParamData(stmt, &token) == SQL_NEED_DATA);
  OK(SQLPutData(stmt, "gone", 4));
  OK(SQLCancel(stmt));
  CHECK(number("SELECT count(*) FROM given") == 2);
  again();
}

/* A row that asks for the parameter's default is refused in an array, too. */
static void defaults(void) {
  SQLINTEGER ids[] = {1, 2};
  SQLLEN lengths[] = {sizeof *ids, SQL_DEFAULT_PARAM};
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)2, 0));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, ids, 0, lengths));
  REFUSED(SQLExecDirectW(stmt, w("INSERT INTO given (id) VALUES (?)"), SQL_NTS), "07S01");
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)1, 0));
  CHECK(number("SELECT count(*) FROM given WHERE id < 3") == 0);
}

/* Data that are refused end the execution that waits for them. */
static void refused_data(void) {
  SQLLEN late = SQL_DATA_AT_EXEC;
  SQLPOINTER token = NULL;
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, (SQLPOINTER)1, 0, &late));
  CHECK(SQLExecDirectW(stmt, w("SELECT ?"), SQL_NTS) == SQL_NEED_DATA);
  CHECK(SQLParamData(stmt, &token) == SQL_NEED_DATA);
  REFUSED(SQLPutData(stmt, NULL, 0), "HY009");
  again();
  CHECK(number("SELECT 42") == 42);
}

/* Parameters of several statements in one text are counted on. */
static void several_statements(void) {
  SQLINTEGER a = 1, b = 2, c = 3;
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &a, 0, NULL));
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &b, 0, NULL));
  OK(SQLBindParameter(stmt, 3, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &c, 0, NULL));
  run("SELECT ? + ?; SELECT 10 * ?");
  SQLINTEGER value = 0;
  OK(SQLFetch(stmt));
  OK(SQLGetData(stmt, 1, SQL_C_SLONG, &value, 0, NULL));
  CHECK(value == 3);
  OK(SQLMoreResults(stmt));
  OK(SQLFetch(stmt));
  OK(SQLGetData(stmt, 1, SQL_C_SLONG, &value, 0, NULL));
  CHECK(value == 30);
  again();
  REFUSED(SQLBindParameter(stmt, 2, SQL_PARAM_OUTPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &a, 0, NULL), "HYC00");
  REFUSED(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT_OUTPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &a, 0, NULL),
          "HYC00");
  REFUSED(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, 4711, SQL_INTEGER, 0, 0, &a, 0, NULL), "HY003");
  REFUSED(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, 4711, 0, 0, &a, 0, NULL), "HY004");
}

/* Functions that are called: their value is a result, or the parameter 1. */
static void calls(void) {
  int32_t value = 0, argument = -7;
  char text[8] = "";
  SQLLEN length = 0, text_length = 0;
  SQLSMALLINT count = 0;
  again();
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &argument, 0, NULL));
  OK(SQLExecDirectW(stmt, w("{call abs(?)}"), SQL_NTS));
  OK(SQLFetch(stmt));
  OK(SQLGetData(stmt, 1, SQL_C_SLONG, &value, 0, NULL));
  CHECK(value == 7);
  again();
  OK(SQLExecDirectW(stmt, w("{call pi}"), SQL_NTS));
  OK(SQLFetch(stmt));
  again();

  OK(SQLPrepareW(stmt, w(" { ? = CALL abs(?) } ; "), SQL_NTS));
  OK(SQLNumParams(stmt, &count));
  CHECK(count == 2);
  OK(SQLNumResultCols(stmt, &count));
  CHECK(count == 0);
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_OUTPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &value, 0, &length));
  REFUSED(SQLExecute(stmt), "07002");
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &argument, 0, NULL));
  /* What stands in its length is of no interest before. */
  for (argument = -9, length = SQL_DATA_AT_EXEC; argument < -7; argument++) {
    OK(SQLExecute(stmt));
    CHECK(value == -argument && length == (SQLLEN)sizeof value);
    REFUSED(SQLFetch(stmt), "24000");
  }
  /* NULL, a text, and one that is cut. */
  length = SQL_NULL_DATA;
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &argument, 0, &length));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_OUTPUT, SQL_C_CHAR, SQL_VARCHAR, 0, 0, text, sizeof text, &text_length));
  OK(SQLExecute(stmt));
  CHECK(text_length == SQL_NULL_DATA);
  OK(SQLPrepareW(stmt, w("{?=call repeat('ab', ?)}"), SQL_NTS));
  argument = 3, length = 0;
  OK(SQLExecute(stmt));
  CHECK(strcmp(text, "ababab") == 0 && text_length == 6);
  argument = 4;
  CHECK(SQLExecute(stmt) == SQL_SUCCESS_WITH_INFO && strcmp(text, "abababa") == 0 && text_length == 8);
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &value, 0, NULL));
  REFUSED(SQLExecute(stmt), "HY105");
  OK(SQLPrepareW(stmt, w("SELECT ? + ?"), SQL_NTS));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_OUTPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &value, 0, NULL));
  REFUSED(SQLExecute(stmt), "HYC00");
  again();
}

/* A statement that is prepared once takes values of whatever type each execution binds. */
static void other_types(void) {
  int32_t whole = 2;
  double real = 1.5;
  SQL_DATE_STRUCT day = {2024, 1, 2};
  const struct {
    SQLSMALLINT c_type, sql_type;
    void *data;
    const char *type, *shown;
  } all[] = {
      {SQL_C_SLONG, SQL_INTEGER, &whole, "INTEGER", "2"},
      {SQL_C_CHAR, SQL_VARCHAR, "x", "VARCHAR", "x"},
      {SQL_C_DOUBLE, SQL_DOUBLE, &real, "DOUBLE", "1.5"},
      {SQL_C_TYPE_DATE, SQL_TYPE_DATE, &day, "DATE", "2024-01-02"},
      {SQL_C_SLONG, SQL_BIGINT, &whole, "BIGINT", "2"},
  };
  again();
  OK(SQLPrepareW(stmt, w("SELECT typeof(x), x::VARCHAR FROM (SELECT ? AS x)"), SQL_NTS));
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char type[32] = "", shown[32] = "";
    SQLLEN length = SQL_NTS;
    OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, all[i].c_type, all[i].sql_type, 0, 0, all[i].data, 0, &length));
    OK(SQLExecute(stmt));
    OK(SQLFetch(stmt));
    OK(SQLGetData(stmt, 1, SQL_C_CHAR, type, sizeof type, NULL));
    OK(SQLGetData(stmt, 2, SQL_C_CHAR, shown, sizeof shown, NULL));
    CHECK(strcmp(type, all[i].type) == 0 && strcmp(shown, all[i].shown) == 0);
    OK(SQLFreeStmt(stmt, SQL_CLOSE));
  }
  again();
}

int main(int argc, char **argv) {
  begin(argc, argv);
  types();
  conversions();
  arrays_by_column();
  arrays_by_row();
  data_at_execution();
  defaults();
  refused_data();
  several_statements();
  calls();
  other_types();
  again();
  run("DROP TABLE given");
  return end();
}
