/* Connections, their attributes, transactions, diagnostics, and what the driver says of itself. */
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void strings(void) {
  SQLHDBC other;
  SQLWCHAR out[512];
  SQLSMALLINT length = 0;
  SQLAllocHandle(SQL_HANDLE_DBC, env, &other);
  const char *const wrong[][2] = {
      {"Driver=Hypostyle", "08001"},
      {"Driver=Hypostyle;Database=/nowhere/to/be/found.hypo", NULL},
      {"Driver=Hypostyle;Database=hypostyle://127.0.0.1:1/", "08004"},
      {"Driver=Hypostyle;Database=hypostyle+unix:///nowhere/socket", "08001"},
      {"Driver=Hypostyle;Database=postgresql://127.0.0.1:1/x", "08001"},
      {"Driver=Hypostyle;Database=:memory:;Threads=many", "HY024"},
      {"Driver=Hypostyle;Database=:memory:;MemoryLimit=2XB", "HY024"},
      {"Driver=Hypostyle;Database=:memory:;ReadOnly=perhaps", "HY024"},
      {"Driver=Hypostyle;Database=:memory:;TextSize=0", "HY024"},
      {"Driver=Hypostyle;Database=:memory:;Verify=seldom", NULL},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    SQLRETURN returned =
        SQLDriverConnectW(other, NULL, w(wrong[i][0]), SQL_NTS, out, 512, &length, SQL_DRIVER_NOPROMPT);
    const char *state = state_of(SQL_HANDLE_DBC, other, NULL);
    if (returned == SQL_ERROR && *state != '\0' && (wrong[i][1] == NULL || strcmp(state, wrong[i][1]) == 0))
      continue;
    say_call(__FILE__, __LINE__, wrong[i][0], returned, SQL_HANDLE_DBC, other);
    failures++;
  }
  /* What cannot be told is not opened, either. */
  GIVES_ON(SQL_HANDLE_DBC, other,
           SQLDriverConnectW(other, NULL, w("Driver=Hypostyle;Database=:memory:"), SQL_NTS, out, -1, &length,
                             SQL_DRIVER_NOPROMPT),
           SQL_ERROR, "HY090");
  /* The first value of a keyword holds; braces hide semicolons; what is no keyword is warned of. */
  GIVES_ON(
      SQL_HANDLE_DBC, other,
      SQLDriverConnectW(other, NULL,
                        w("driver=Hypostyle;DATABASE={:memory:}; database=/nowhere/;colour=red;threads=2"),
                        SQL_NTS, out, 512, &length, SQL_DRIVER_NOPROMPT),
      SQL_SUCCESS_WITH_INFO, "01S00");
  CHECK(strstr(narrow(out), "DATABASE=:memory:") != NULL && strstr(narrow(out), "THREADS=2") != NULL);
  GIVES_ON(SQL_HANDLE_DBC, other,
           SQLDriverConnectW(other, NULL, w("Driver=Hypostyle;Database=:memory:"), SQL_NTS, NULL, 0, NULL,
                             SQL_DRIVER_NOPROMPT),
           SQL_ERROR, "08002");
  OK_ON(SQL_HANDLE_DBC, other, SQLDisconnect(other));
  /* Asked for what it needs, and then connected. */
  CHECK(SQLBrowseConnectW(other, w("Driver=Hypostyle"), SQL_NTS, out, 512, &length) == SQL_NEED_DATA);
  CHECK(strstr(narrow(out), "DATABASE:") != NULL);
  OK_ON(SQL_HANDLE_DBC, other,
        SQLBrowseConnectW(other, w("Driver=Hypostyle;Database=:memory:"), SQL_NTS, out, 512, &length));
  OK_ON(SQL_HANDLE_DBC, other, SQLDisconnect(other));
  OK_ON(SQL_HANDLE_DBC, other, SQLFreeHandle(SQL_HANDLE_DBC, other));
}

/* Whether a diagnostic of a connection has a text. */
static bool says(SQLHDBC h, const char *part) {
  SQLWCHAR state[6], text[2048];
  SQLINTEGER native;
  SQLSMALLINT length, record = 1;
  while (SQL_SUCCEEDED(SQLGetDiagRecW(SQL_HANDLE_DBC, h, record++, state, &native, text, 2048, &length)))
    if (strstr(narrow(text), part) != NULL) return true;
  return false;
}

/* No part of a password is shown, wherever it is, and whether a semicolon or a brace ends it. */
static void passwords(void) {
  SQLHDBC other;
  SQLAllocHandle(SQL_HANDLE_DBC, env, &other);
  const char *const wrong[] = {
      "Driver=Hypostyle;Database=:memory:;PWD=s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=:memory:;PWD=a;s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=:memory:;PWD=a;s3cr:t%@/#?x=b",
      "Driver=Hypostyle;Database=:memory:;PWD=a;s3cr:t%@/#?x={b",
      "Driver=Hypostyle;Database=:memory:;PWD={s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=:memory:;PWD={a}s3cr:t%@/#?x;UID=b",
      "Driver=Hypostyle;Database=:memory:;PWD=a;ReadOnly=s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=:memory:;PWD=a;Threads=s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=:memory:;PWD=a;MemoryLimit=s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=:memory:;PWD=a;TextSize=s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=:memory:;PWD=a;Verify=s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=hypostyle://ada:12/s3cr",
      "Driver=Hypostyle;Database=hypostyle:ada:s3cr:t%@/#?x@h;Password=a;s3cr;s3cr=b",
      "Driver=Hypostyle;Database=hypostyle://ada:s3cr:t%@/#?x@h/",
      "Driver=Hypostyle;Database=hypostyle://ada:a;s3cr:t%@/#?x@h/",
      "Driver=Hypostyle;Database=hypostyle://ada:s3cr;t%@/#?x@h/",
      "Driver=Hypostyle;Database=hypostyle://h/?password=s3cr:t%@/#?x",
      "Driver=Hypostyle;Database=postgresql://ada:s3cr:t%@/#?x@h/x",
      "Driver=Hypostyle;Database=mysql://ada:s3cr:t%@/#?x@h/x",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    SQLRETURN returned =
        SQLDriverConnectW(other, NULL, w(wrong[i]), SQL_NTS, NULL, 0, NULL, SQL_DRIVER_NOPROMPT);
    if (returned == SQL_ERROR && !says(other, "s3cr") && !says(other, "t%") && !says(other, "#?")) continue;
    say_call(__FILE__, __LINE__, wrong[i], returned, SQL_HANDLE_DBC, other);
    failures++;
  }
  OK_ON(SQL_HANDLE_DBC, other, SQLFreeHandle(SQL_HANDLE_DBC, other));
}

static void attributes(void) {
  SQLUINTEGER number = 99;
  OK_DBC(SQLGetConnectAttrW(dbc, SQL_ATTR_AUTOCOMMIT, &number, 0, NULL));
  CHECK(number == SQL_AUTOCOMMIT_ON);
  OK_DBC(SQLGetConnectAttrW(dbc, SQL_ATTR_CONNECTION_DEAD, &number, 0, NULL));
  CHECK(number == SQL_CD_FALSE);
  OK_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_TXN_ISOLATION, (SQLPOINTER)SQL_TXN_READ_COMMITTED, 0));
  OK_DBC(SQLGetConnectAttrW(dbc, SQL_ATTR_TXN_ISOLATION, &number, 0, NULL));
  CHECK(number == SQL_TXN_READ_COMMITTED);
  REFUSED_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_TXN_ISOLATION, (SQLPOINTER)SQL_TXN_SERIALIZABLE, 0), "HYC00");
  SQLWCHAR name[64];
  SQLINTEGER length = 0;
  OK_DBC(SQLGetConnectAttrW(dbc, SQL_ATTR_CURRENT_CATALOG, name, sizeof name, &length));
  CHECK(length == 2 * (SQLINTEGER)strlen(narrow(name)) && length > 0);
  WARNED(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_DYNAMIC, 0), "01S02");
  SQLULEN type = 0;
  OK(SQLGetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, &type, 0, NULL));
  CHECK(type == SQL_CURSOR_STATIC);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_FORWARD_ONLY, 0));
  WARNED(SQLSetStmtAttrW(stmt, SQL_ATTR_CONCURRENCY, (SQLPOINTER)SQL_CONCUR_LOCK, 0), "01S02");
  REFUSED(SQLSetStmtAttrW(stmt, SQL_ATTR_USE_BOOKMARKS, (SQLPOINTER)SQL_UB_VARIABLE, 0), "HYC00");
}

/* A server that takes connections and says nothing. */
static void silent_server(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int server = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(server, (struct sockaddr *)&at, size) == 0 && listen(server, 4) == 0);
  CHECK(getsockname(server, (struct sockaddr *)&at, &size) == 0);
  char text[128];
  snprintf(text, sizeof text, "Driver=Hypostyle;Database=hypostyle://127.0.0.1:%d/", ntohs(at.sin_port));
  SQLHDBC other;
  SQLUINTEGER seconds = 0;
  if (SQLAllocHandle(SQL_HANDLE_DBC, env, &other) != SQL_SUCCESS) exit(1);
  OK_ON(SQL_HANDLE_DBC, other, SQLSetConnectAttrW(other, SQL_ATTR_LOGIN_TIMEOUT, (SQLPOINTER)1, 0));
  OK_ON(SQL_HANDLE_DBC, other, SQLGetConnectAttrW(other, SQL_ATTR_LOGIN_TIMEOUT, &seconds, 0, NULL));
  CHECK(seconds == 1);
  time_t begun = time(NULL);
  GIVES_ON(SQL_HANDLE_DBC, other,
           SQLDriverConnectW(other, NULL, w(text), SQL_NTS, NULL, 0, NULL, SQL_DRIVER_NOPROMPT), SQL_ERROR,
           "HYT00");
  CHECK(time(NULL) - begun < 10);
  /* A server that answers in time is no other one than before, and neither is one that is none. */
  OK_ON(SQL_HANDLE_DBC, other, SQLSetConnectAttrW(other, SQL_ATTR_LOGIN_TIMEOUT, (SQLPOINTER)20, 0));
  OK_ON(SQL_HANDLE_DBC, other,
        SQLDriverConnectW(other, NULL, target, SQL_NTS, NULL, 0, NULL, SQL_DRIVER_NOPROMPT));
  OK_ON(SQL_HANDLE_DBC, other, SQLDisconnect(other));
  close(server);
  SQLRETURN returned =
      SQLDriverConnectW(other, NULL, w(text), SQL_NTS, NULL, 0, NULL, SQL_DRIVER_NOPROMPT);
  CHECK(returned == SQL_ERROR && strncmp(state_of(SQL_HANDLE_DBC, other, NULL), "08", 2) == 0);
  OK_ON(SQL_HANDLE_DBC, other, SQLFreeHandle(SQL_HANDLE_DBC, other));
}

static void transactions(void) {
  SQLHDBC other;
  SQLHSTMT second;
  run("DROP TABLE IF EXISTS account");
  run("CREATE TABLE account (id INTEGER, balance INTEGER)");
  run("INSERT INTO account VALUES (1, 100)");
  OK_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_OFF, 0));
  run("UPDATE account SET balance = 50");
  CHECK(number("SELECT balance FROM account") == 50);
  OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_ROLLBACK));
  CHECK(number("SELECT balance FROM account") == 100);
  run("UPDATE account SET balance = 60");
  OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT));
  OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT));
  run("SELECT balance FROM account");
  /* Cursors stay open. */
  OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT));
  OK(SQLFetch(stmt));
  again();
  run("UPDATE account SET balance = 61");
  REFUSED_DBC(SQLDisconnect(dbc), "25000");
  OK_ON(SQL_HANDLE_ENV, env, SQLEndTran(SQL_HANDLE_ENV, env, SQL_ROLLBACK));
  CHECK(number("SELECT balance FROM account") == 60);
  /* A second connection to the same database, unless it is one in memory, which is this connection's. */
  if (strstr(narrow(target), ":memory:") == NULL) {
    open_connection(&other);
    OK_ON(SQL_HANDLE_DBC, other, SQLAllocHandle(SQL_HANDLE_STMT, other, &second));
    run("UPDATE account SET balance = balance + 1");
    OK_ON(SQL_HANDLE_STMT, second,
          SQLExecDirectW(second, w("UPDATE account SET balance = balance + 2"), SQL_NTS));
    SQLRETURN returned = SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT);
    CHECK(returned == SQL_ERROR && strcmp(state_of(SQL_HANDLE_DBC, dbc, NULL), "40001") == 0);
    OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_ROLLBACK));
    CHECK(number("SELECT balance FROM account") == 62);
    OK_ON(SQL_HANDLE_DBC, other, SQLDisconnect(other));
    OK_ON(SQL_HANDLE_DBC, other, SQLFreeHandle(SQL_HANDLE_DBC, other));
  }
  OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT));
  OK_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_ON, 0));
  run("DROP TABLE account");
}

static void diagnostics(void) {
  static const char *const states[][2] = {
      {"SELEC 1", "42601"},
      {"SELECT a FROM missing", "42S02"},
      {"SELECT missing", "42S22"},
      {"SELECT 1 / 0", "22012"},
      {"SELECT CAST('x' AS INTEGER)", "22018"},
      {"SELECT CAST(300 AS TINYINT)", "22003"},
      {"CREATE TABLE pg_catalog.x (a INTEGER)", NULL},
      {"", NULL},
  };
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    again();
    SQLRETURN returned = SQLExecDirectW(stmt, w(states[i][0]), SQL_NTS);
    if (returned == SQL_SUCCESS) returned = SQLFetch(stmt);
    const char *state = state_of(SQL_HANDLE_STMT, stmt, NULL);
    if (returned == SQL_ERROR && *state != '\0' && (states[i][1] == NULL || strcmp(state, states[i][1]) == 0))
      continue;
    say_call(__FILE__, __LINE__, states[i][0], returned, SQL_HANDLE_STMT, stmt);
    failures++;
  }
  again();
  REFUSED(SQLExecDirectW(stmt, w("SELECT missing"), SQL_NTS), "42S22");
  SQLINTEGER count = 0, native = 0;
  SQLWCHAR text[512];
  SQLSMALLINT length = 0;
  CHECK(SQL_SUCCEEDED(SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 0, SQL_DIAG_NUMBER, &count, 0, NULL)) &&
        count == 1);
  CHECK(SQL_SUCCEEDED(SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_NATIVE, &native, 0, NULL)) &&
        native == 2);
  CHECK(SQL_SUCCEEDED(
      SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_MESSAGE_TEXT, text, sizeof text, &length)));
  CHECK(strstr(narrow(text), "missing") != NULL && strncmp(narrow(text), "[Hypostyle]", 11) == 0);
  CHECK(SQL_SUCCEEDED(
      SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_SUBCLASS_ORIGIN, text, sizeof text, &length)));
  CHECK(SQLGetDiagRecW(SQL_HANDLE_STMT, stmt, 2, text, &native, text, 512, &length) == SQL_NO_DATA);
  REFUSED(SQLFetch(stmt), "HY010");
  again();
}

static void information(void) {
  SQLWCHAR text[2048];
  SQLSMALLINT length = 0;
  SQLUINTEGER bits = 0;
  SQLUSMALLINT small = 0, functions[SQL_API_ODBC3_ALL_FUNCTIONS_SIZE];
  OK_DBC(SQLGetInfoW(dbc, SQL_DBMS_NAME, text, sizeof text, &length));
  CHECK(strcmp(narrow(text), "Hypostyle") == 0 && length == 18);
  GIVES_ON(SQL_HANDLE_DBC, dbc, SQLGetInfoW(dbc, SQL_DBMS_NAME, text, 8, &length), SQL_SUCCESS_WITH_INFO,
           "01004");
  CHECK(strcmp(narrow(text), "Hyp") == 0 && length == 18);
  OK_DBC(SQLGetInfoW(dbc, SQL_TXN_ISOLATION_OPTION, &bits, 0, NULL));
  CHECK((bits & SQL_TXN_REPEATABLE_READ) && !(bits & SQL_TXN_SERIALIZABLE));
  OK_DBC(SQLGetInfoW(dbc, SQL_CURSOR_COMMIT_BEHAVIOR, &small, 0, NULL));
  CHECK(small == SQL_CB_PRESERVE);
  for (SQLUSMALLINT what = SQL_ASYNC_DBC_FUNCTIONS; what <= SQL_ASYNC_NOTIFICATION; what++) {
    bits = 7;
    OK_DBC(SQLGetInfoW(dbc, what, &bits, 0, NULL));
    CHECK(bits == 0);
  }
  OK_DBC(SQLGetInfoW(dbc, SQL_DRIVER_ODBC_VER, text, sizeof text, &length));
  CHECK(strcmp(narrow(text), "03.80") == 0);
  REFUSED_DBC(SQLGetInfoW(dbc, 64999, text, sizeof text, &length), "HY096");
  OK_DBC(SQLGetFunctions(dbc, SQL_API_ODBC3_ALL_FUNCTIONS, functions));
  CHECK(SQL_FUNC_EXISTS(functions, SQL_API_SQLFETCHSCROLL) &&
        !SQL_FUNC_EXISTS(functions, SQL_API_SQLBULKOPERATIONS));
  /* What is not known is refused, and nothing else. The handles of the driver are the driver manager's to
   * tell. */
  for (SQLUSMALLINT what = 0; what < 200; what++) {
    if (what == SQL_DRIVER_HSTMT || what == SQL_DRIVER_HDESC) continue;
    SQLRETURN returned = SQLGetInfoW(dbc, what, text, sizeof text, &length);
    CHECK(returned == SQL_SUCCESS ||
          (returned == SQL_ERROR && strcmp(state_of(SQL_HANDLE_DBC, dbc, NULL), "HY096") == 0));
  }
}

/* What the functions that are said to be there give. */
static void escapes(void) {
  static const char *const pairs[][2] = {
      {"{fn ASCII('a')}", "97"},
      {"{fn CHAR(65)}", "A"},
      {"{fn CONCAT('a', 'b')}", "ab"},
      {"{fn INSERT('abcd', 2, 2, 'xyz')}", "axyzd"},
      {"{fn LCASE('AB')}", "ab"},
      {"{fn LEFT('abc', 2)}", "ab"},
      {"{fn LENGTH('ab  ')}", "2"},
      {"{fn LOCATE('b', 'abcb')}", "2"},
      {"{fn LOCATE('b', 'abcb', 3)}", "4"},
      {"{fn LOCATE('x', 'abcb', 3)}", "0"},
      {"{fn LTRIM('  a')}", "a"},
      {"{fn REPEAT('ab', 2)}", "abab"},
      {"{fn REPLACE('abc', 'b', 'x')}", "axc"},
      {"{fn RIGHT('abc', 2)}", "bc"},
      {"{fn RTRIM('a  ')}", "a"},
      {"'x' || {fn SPACE(2)} || 'y'", "x  y"},
      {"{fn SUBSTRING('abc', 2, 1)}", "b"},
      {"{fn UCASE('ab')}", "AB"},
      {"{fn BIT_LENGTH('a')}", "8"},
      {"{fn CHAR_LENGTH('abc')}", "3"},
      {"{fn OCTET_LENGTH('abc')}", "3"},
      {"{fn POSITION('b' IN 'abc')}", "2"},
      {"{fn ABS(-3)}", "3"},
      {"{fn CEILING(1.5)}", "2"},
      {"{fn FLOOR(1.5)}", "1"},
      {"{fn MOD(7, 3)}", "1"},
      {"{fn POWER(2, 3)}", "8"},
      {"{fn ROUND(2.345, 2)}", "2.35"},
      {"{fn SIGN(-2)}", "-1"},
      {"{fn SQRT(9)}", "3"},
      {"{fn TRUNCATE(2.345, 2)}", "2.34"},
      {"{fn LOG10(100)}", "2"},
      {"{fn LOG(1)}", "0"},
      {"{fn EXP(0)}", "1"},
      {"{fn ROUND({fn PI()}, 2)}", "3.14"},
      {"{fn DEGREES(0)}", "0"},
      {"{fn RADIANS(0)}", "0"},
      {"{fn SIN(0)}", "0"},
      {"{fn COS(0)}", "1"},
      {"{fn TAN(0)}", "0"},
      {"{fn ASIN(0)}", "0"},
      {"{fn ACOS(1)}", "0"},
      {"{fn ATAN(0)}", "0"},
      {"{fn ATAN2(0, 1)}", "0"},
      {"{fn RAND()} >= 0", "1"},
      {"{fn CURDATE()} = current_date", "1"},
      {"{fn CURRENT_DATE()} = current_date", "1"},
      {"{fn CURTIME()} IS NULL", "0"},
      {"{fn CURRENT_TIME()} IS NULL", "0"},
      {"{fn CURRENT_TIMESTAMP()} IS NULL", "0"},
      {"{fn NOW()} IS NULL", "0"},
      {"{fn DAYNAME({d '2020-02-03'})}", "Monday"},
      {"{fn DAYOFMONTH({d '2020-02-03'})}", "3"},
      {"{fn DAYOFWEEK({d '2020-02-03'})}", "2"},
      {"{fn DAYOFYEAR({d '2020-02-03'})}", "34"},
      {"{fn HOUR({t '04:05:06'})}", "4"},
      {"{fn MINUTE({ts '2020-02-03 04:05:06'})}", "5"},
      {"{fn SECOND({ts '2020-02-03 04:05:06.7'})}", "6"},
      {"{fn MONTH({d '2020-02-03'})}", "2"},
      {"{fn MONTHNAME({d '2020-02-03'})}", "February"},
      {"{fn QUARTER({d '2020-02-03'})}", "1"},
      {"{fn WEEK({d '2020-02-03'})}", "6"},
      {"{fn YEAR({d '2020-02-03'})}", "2020"},
      {"{fn EXTRACT(YEAR FROM {d '2020-02-03'})}", "2020"},
      {"{fn TIMESTAMPADD(SQL_TSI_DAY, 2, {d '2020-02-28'})} = {ts '2020-03-01 00:00:00'}", "1"},
      {"{fn TIMESTAMPADD(SQL_TSI_QUARTER, 1, {ts '2020-01-31 01:00:00'})} = {ts '2020-04-30 01:00:00'}", "1"},
      {"{fn TIMESTAMPDIFF(SQL_TSI_MONTH, {d '2020-01-31'}, {d '2020-03-01'})}", "2"},
      {"{fn DATABASE()} = current_database()", "1"},
      {"{fn IFNULL(NULL, 'x')}", "x"},
      {"{fn USER()} = current_user", "1"},
      {"{fn CONVERT('12', SQL_INTEGER)} + 1", "13"},
      {"{fn CONVERT({d '2020-01-01'}, SQL_VARCHAR)}", "2020-01-01"},
      {"{guid '00112233-4455-6677-8899-aabbccddeeff'}", "00112233-4455-6677-8899-aabbccddeeff"},
      {"{interval '3' day}", "3 days"},
      {"{interval -'3' day}", "-3 days"},
      {"{INTERVAL + '1' month} + {interval -'3' day}", "1 mon -3 days"},
      {"'a%' LIKE 'a!%' {escape '!'}", "1"},
      {"'{fn UCASE(x)}'", "{fn UCASE(x)}"},
      {"1 /* {d 'x'} */", "1"},
      {"'it''s {d}'", "it's {d}"},
      {"$$ {fn x} $$", " {fn x} "},
      {"E'\\'{d ''x''}'", "'{d 'x'}"},
      {"{'d': 1}", "{d: 1}"},
      {"{d: 1}", "{d: 1}"},
      {"{fn UCASE({fn CONCAT('a', {fn LCASE('B')})})}", "AB"},
      {"{fn NOSUCH(1)}", NULL},
      {"{fn }", NULL},
      {"{d 'x' 'y'}", NULL},
      {"{?= call x}", NULL},
      {"{fn CONVERT(1, SQL_NOTHING)}", NULL},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char sql[512], value[256] = "";
    SQLLEN length = 0;
    again();
    snprintf(sql, sizeof sql, "SELECT %s", pairs[i][0]);
    SQLRETURN returned = SQLExecDirectW(stmt, w(sql), SQL_NTS);
    if (returned == SQL_SUCCESS && SQLFetch(stmt) == SQL_SUCCESS)
      SQLGetData(stmt, 1, SQL_C_CHAR, value, sizeof value, &length);
    /* A number may have digits behind its point that are 0. */
    char *point = strchr(value, '.');
    if (point != NULL && strspn(point + 1, "0") == strlen(point + 1)) *point = '\0';
    bool is_right = pairs[i][1] == NULL ? returned == SQL_ERROR
                                        : returned == SQL_SUCCESS && strcmp(value, pairs[i][1]) == 0;
    if (is_right) continue;
    say_call(__FILE__, __LINE__, sql, returned, SQL_HANDLE_STMT, stmt);
    fprintf(stderr, "  gave %s, wanted %s\n", value, pairs[i][1] == NULL ? "an error" : pairs[i][1]);
    failures++;
  }
  again();
  CHECK(number("SELECT count(*) FROM {oj (SELECT 1 AS a) x LEFT OUTER JOIN (SELECT 2 AS b) y ON a = b}") ==
        1);
  SQLWCHAR out[128];
  SQLINTEGER length = 0;
  OK_DBC(SQLNativeSqlW(dbc, w("SELECT {fn UCASE('x')}"), SQL_NTS, out, 128, &length));
  CHECK(strcmp(narrow(out), "SELECT upper('x')") == 0 && length == 17);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_NOSCAN, (SQLPOINTER)SQL_NOSCAN_ON, 0));
  CHECK(SQLExecDirectW(stmt, w("SELECT * FROM {oj (SELECT 1) x LEFT JOIN (SELECT 2) y ON TRUE}"), SQL_NTS) ==
        SQL_ERROR);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_NOSCAN, (SQLPOINTER)SQL_NOSCAN_OFF, 0));
  again();
}

int main(int argc, char **argv) {
  begin(argc, argv);
  strings();
  passwords();
  attributes();
  silent_server();
  transactions();
  diagnostics();
  information();
  escapes();
  return end();
}
