/* Random statements with escapes, connection strings and sequences of calls: whatever comes back, nothing
 * crashes, no call gives what is none of ODBC's answers, and the connection is as good afterwards.
 * HYPOSTYLE_TEST_SEED repeats one run, HYPOSTYLE_TEST_ROUNDS makes it so many times as long. */
#include "check.h"
#include <time.h>

static uint64_t state;

static unsigned below(unsigned count) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)(state >> 33) % count;
}

static void add(char *text, size_t room, const char *part) {
  size_t length = strlen(text);
  if (length + strlen(part) < room) strcpy(text + length, part);
}

/* A call gives one of ODBC's answers, and an error with a state. */
static void judge(SQLRETURN returned, SQLSMALLINT type, SQLHANDLE h, const char *what) {
  bool is_answer = returned == SQL_SUCCESS || returned == SQL_SUCCESS_WITH_INFO || returned == SQL_NO_DATA ||
                   returned == SQL_NEED_DATA || returned == SQL_ERROR;
  const char *told = state_of(type, h, NULL);
  if (is_answer && ((returned != SQL_ERROR && returned != SQL_SUCCESS_WITH_INFO) || strlen(told) == 5))
    return;
  say_call(__FILE__, __LINE__, what, returned, type, h);
  failures++;
}

/* ---- Texts ---- */

static void statements(int rounds) {
  static const char *const parts[] = {"{",
                                      "}",
                                      "{fn ",
                                      "{d '",
                                      "{ts ",
                                      "{oj ",
                                      "{call ",
                                      "{escape ",
                                      "'",
                                      "\"",
                                      "$$",
                                      "$a$",
                                      "--",
                                      "\n",
                                      "/*",
                                      "*/",
                                      "E'",
                                      "\\",
                                      "?",
                                      "(",
                                      ")",
                                      ",",
                                      " ",
                                      "UCASE",
                                      "LOCATE(",
                                      "TIMESTAMPADD(SQL_TSI_DAY",
                                      "CONVERT(1, SQL_INTEGER)",
                                      "1",
                                      "SELECT",
                                      ":",
                                      "[",
                                      "]",
                                      ";",
                                      "{?=",
                                      "x"};
  for (int i = 0; i < rounds; i++) {
    char sql[512] = "";
    SQLWCHAR out[64];
    SQLINTEGER length = 0;
    for (unsigned k = below(24); k > 0; k--) add(sql, sizeof sql, parts[below(sizeof parts / sizeof *parts)]);
    SQLINTEGER room = (SQLINTEGER)below(64);
    judge(SQLNativeSqlW(dbc, w(sql), SQL_NTS, out, room, &length), SQL_HANDLE_DBC, dbc, sql);
    if (strchr(sql, '{') == NULL && *sql != '\0') CHECK(length == (SQLINTEGER)strlen(sql));
  }
}

static void connection_strings(int rounds) {
  static const char *const parts[] = {"Driver", "=",   ";", "{",  "}",  "}}", " ",          "Threads",
                                      "UID",    "PWD", "x", "\n", "=;", ";;", "TextSize=1", "DSN=none"};
  SQLHDBC other;
  SQLAllocHandle(SQL_HANDLE_DBC, env, &other);
  for (int i = 0; i < rounds; i++) {
    char text[512] = "Driver=Hypostyle;";
    SQLWCHAR out[64];
    SQLSMALLINT length = 0;
    for (unsigned k = below(16); k > 0; k--)
      add(text, sizeof text, parts[below(sizeof parts / sizeof *parts)]);
    SQLRETURN returned = SQLBrowseConnectW(other, w(text), SQL_NTS, out, (SQLSMALLINT)below(64), &length);
    judge(returned, SQL_HANDLE_DBC, other, text);
    /* No database is named. */
    CHECK(!SQL_SUCCEEDED(returned));
    if (returned != SQL_NEED_DATA) continue;
    SQLWCHAR *whole = w("Driver=Hypostyle;Database=:memory:");
    if (below(10) == 0) OK_ON(SQL_HANDLE_DBC, other, SQLBrowseConnectW(other, whole, SQL_NTS, NULL, 0, NULL));
    OK_ON(SQL_HANDLE_DBC, other, SQLDisconnect(other));
  }
  SQLFreeHandle(SQL_HANDLE_DBC, other);
}

/* ---- Calls ---- */

enum { ROWS = 8, WIDTH = 32 };

static char buffers[4][ROWS * WIDTH];
static SQLLEN lengths[4][ROWS * WIDTH / sizeof(SQLLEN)];
static SQLUSMALLINT statuses[ROWS];
static SQLULEN fetched;

static const SQLSMALLINT c_types[] = {
    SQL_C_CHAR,    SQL_C_WCHAR,   SQL_C_BINARY,    SQL_C_SLONG,          SQL_C_SBIGINT, SQL_C_DOUBLE,
    SQL_C_BIT,     SQL_C_NUMERIC, SQL_C_TYPE_DATE, SQL_C_TYPE_TIMESTAMP, SQL_C_GUID,    SQL_C_INTERVAL_DAY,
    SQL_C_DEFAULT, 4711};

static SQLSMALLINT any_type(void) { return c_types[below(sizeof c_types / sizeof *c_types)]; }

static SQLRETURN any_attribute(void) {
  SQLULEN size = below(ROWS) + 1;
  switch (below(8)) {
  case 0: return SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)size, 0);
  case 1: return SQLSetStmtAttrW(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)size, 0);
  case 2: return SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_STATUS_PTR, below(2) ? statuses : NULL, 0);
  case 3: return SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, below(2) ? &fetched : NULL, 0);
  case 4: return SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)(SQLULEN)below(5), 0);
  case 5: return SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_BIND_TYPE, (SQLPOINTER)(SQLULEN)(below(2) * WIDTH), 0);
  case 6: return SQLSetStmtAttrW(stmt, SQL_ATTR_MAX_ROWS, (SQLPOINTER)(SQLULEN)below(3), 0);
  default: return SQLSetStmtAttrW(stmt, SQL_ATTR_PARAM_STATUS_PTR, below(2) ? statuses : NULL, 0);
  }
}

static SQLRETURN any_call(void) {
  static const char *const texts[] = {"SELECT 1",
                                      "SELECT * FROM hostile",
                                      "SELECT ?",
                                      "INSERT INTO hostile VALUES (?, ?)",
                                      "SELECT ?, ?; SELECT 2",
                                      "SELECT missing",
                                      "DELETE FROM hostile WHERE id > 100",
                                      "",
                                      "SELECT id, text, [id] FROM hostile",
                                      ";;",
                                      "{d"};
  SQLWCHAR name[16];
  SQLSMALLINT small;
  SQLULEN size;
  SQLLEN attribute;
  SQLPOINTER token;
  static char data[sizeof(SQL_INTERVAL_STRUCT)] = "11112222";
  unsigned column = below(4);
  SQLLEN room = (SQLLEN)below(WIDTH + 1);
  switch (below(20)) {
  case 0: return SQLPrepareW(stmt, w(texts[below(sizeof texts / sizeof *texts)]), SQL_NTS);
  case 1: return SQLExecDirectW(stmt, w(texts[below(sizeof texts / sizeof *texts)]), SQL_NTS);
  case 2: return SQLExecute(stmt);
  case 3: return SQLFetch(stmt);
  case 4: return SQLFetchScroll(stmt, (SQLSMALLINT)(below(9)), (SQLLEN)below(9) - 4);
  case 5: return SQLGetData(stmt, (SQLUSMALLINT)column, any_type(), buffers[column], room, lengths[column]);
  case 6:
    return SQLBindCol(stmt, (SQLUSMALLINT)(column + 1), any_type(), below(5) ? buffers[column] : NULL, room,
                      lengths[column]);
  case 7:
  case 8:
    for (int i = 0; i < ROWS; i++)
      lengths[column][i] = below(4) ? 4 : below(2) ? SQL_NULL_DATA : SQL_DATA_AT_EXEC;
    memset(buffers[column], below(2) ? '1' : 0, sizeof buffers[column]);
    return SQLBindParameter(stmt, (SQLUSMALLINT)(column % 2 + 1), SQL_PARAM_INPUT, any_type(),
                            below(2) ? SQL_INTEGER : SQL_WVARCHAR, 10, 0, buffers[column], WIDTH,
                            lengths[column]);
  case 9: return SQLMoreResults(stmt);
  case 10: return SQLCloseCursor(stmt);
  case 11: return SQLFreeStmt(stmt, below(2) ? SQL_UNBIND : SQL_RESET_PARAMS);
  case 12: return SQLNumResultCols(stmt, &small);
  case 13:
    return SQLDescribeColW(stmt, (SQLUSMALLINT)column, name, (SQLSMALLINT)below(16), &small, &small, &size,
                           &small, &small);
  case 14:
    return SQLColAttributeW(stmt, (SQLUSMALLINT)column, (SQLUSMALLINT)(SQL_DESC_TYPE - 1 + below(40)), name,
                            (SQLSMALLINT)below(32), &small, &attribute);
  case 15: return any_attribute();
  case 16: return SQLParamData(stmt, &token);
  case 17: return SQLPutData(stmt, data, below(2) ? 4 : 8);
  case 18: return SQLCancel(stmt);
  default: return SQLRowCount(stmt, &attribute);
  }
}

/* One that waits for data is cancelled first. */
static void free_statement(void) {
  SQLCancel(stmt);
  OK(SQLFreeHandle(SQL_HANDLE_STMT, stmt));
}

static void calls(int rounds) {
  run("DROP TABLE IF EXISTS hostile");
  run("CREATE TABLE hostile (id INTEGER, text VARCHAR)");
  run("INSERT INTO hostile VALUES (1, 'one'), (2, NULL), (3, 'three and more than fits into the buffers of "
      "this test')");
  for (int i = 0; i < rounds; i++) {
    if (below(50) == 0) {
      free_statement();
      OK_DBC(SQLAllocHandle(SQL_HANDLE_STMT, dbc, &stmt));
    }
    SQLRETURN returned = any_call();
    if (returned != SQL_NEED_DATA || below(4) > 0) judge(returned, SQL_HANDLE_STMT, stmt, "a random call");
  }
  free_statement();
  OK_DBC(SQLAllocHandle(SQL_HANDLE_STMT, dbc, &stmt));
  CHECK(number("SELECT 41 + 1") == 42);
  run("DROP TABLE hostile");
}

int main(int argc, char **argv) {
  const char *seed = getenv("HYPOSTYLE_TEST_SEED");
  state = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 2654435761u;
  fprintf(stderr, "HYPOSTYLE_TEST_SEED=%llu\n", (unsigned long long)state);
  begin(argc, argv);
  const char *times = getenv("HYPOSTYLE_TEST_ROUNDS");
  int rounds = times != NULL && atoi(times) > 0 ? atoi(times) : 1;
  statements(5000 * rounds);
  connection_strings(500 * rounds);
  calls(5000 * rounds);
  return end();
}
