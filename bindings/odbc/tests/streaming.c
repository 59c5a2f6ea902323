/* Large computed results, which come while they are fetched, and places within rowsets. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { ROWS = 600000, SIZE = 7777 };

/* More than is taken while the statement runs, in many batches, none of which ends where a rowset does. */
static const char large[] =
    "SELECT CAST(i AS INTEGER) AS id, CASE WHEN i % 3 = 0 THEN NULL ELSE i / 4.0::DOUBLE END AS real, "
    "CASE WHEN i % 7 = 0 THEN NULL ELSE 'row ' || i || repeat('.', 60) END AS text, [i, NULL] AS pair "
    "FROM range(600000) AS t (i)";

static SQLINTEGER ids[SIZE];
static SQLDOUBLE reals[SIZE];
static char texts[SIZE][80], lists[SIZE][32];
static SQLLEN lengths[4][SIZE];
static SQLULEN fetched;

static void bind(void) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)SIZE, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, &fetched, 0));
  OK(SQLBindCol(stmt, 1, SQL_C_SLONG, ids, 0, lengths[0]));
  OK(SQLBindCol(stmt, 2, SQL_C_DOUBLE, reals, 0, lengths[1]));
  OK(SQLBindCol(stmt, 3, SQL_C_CHAR, texts, sizeof *texts, lengths[2]));
  OK(SQLBindCol(stmt, 4, SQL_C_CHAR, lists, sizeof *lists, lengths[3]));
}

static void unbind(void) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)1, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, NULL, 0));
  again();
}

/* Says whether a row of the rowset is the row `number` of the result. */
static bool is_right(SQLULEN i, int number) {
  char wanted[96], dots[61];
  memset(dots, '.', 60);
  dots[60] = '\0';
  if (ids[i] != number || lengths[0][i] != 4) return false;
  if (number % 3 == 0 ? lengths[1][i] != SQL_NULL_DATA : reals[i] != number / 4.0) return false;
  snprintf(wanted, sizeof wanted, "row %d%s", number, dots);
  if (number % 7 == 0 ? lengths[2][i] != SQL_NULL_DATA : strcmp(texts[i], wanted) != 0) return false;
  snprintf(wanted, sizeof wanted, "[%d, NULL]", number);
  return strcmp(lists[i], wanted) == 0 && lengths[3][i] == (SQLLEN)strlen(wanted);
}

static int right_rows(int first) {
  int right = 0;
  for (SQLULEN i = 0; i < fetched; i++) right += is_right(i, first + (int)i);
  return right;
}

static SQLLEN row_count(void) {
  SQLLEN rows = -2;
  OK(SQLRowCount(stmt, &rows));
  return rows;
}

/* Another statement of the connection runs in the middle, and changes nothing. */
static void every_row(void) {
  SQLHSTMT other;
  SQLINTEGER answer = 0;
  bind();
  run(large);
  CHECK(row_count() == -1);
  int rows = 0;
  SQLRETURN returned;
  while ((returned = SQLFetch(stmt)) == SQL_SUCCESS) {
    CHECK(right_rows(rows) == (int)fetched);
    CHECK(fetched == SIZE || rows + (int)fetched == ROWS);
    rows += (int)fetched;
    if (rows != 40 * SIZE) continue;
    OK_DBC(SQLAllocHandle(SQL_HANDLE_STMT, dbc, &other));
    OK_ON(SQL_HANDLE_STMT, other, SQLExecDirectW(other, w("SELECT 41 + 1"), SQL_NTS));
    OK_ON(SQL_HANDLE_STMT, other, SQLFetch(other));
    OK_ON(SQL_HANDLE_STMT, other, SQLGetData(other, 1, SQL_C_SLONG, &answer, 0, NULL));
    OK_ON(SQL_HANDLE_STMT, other, SQLFreeHandle(SQL_HANDLE_STMT, other));
  }
  CHECK(returned == SQL_NO_DATA && rows == ROWS && answer == 42);
  CHECK(row_count() == ROWS);
  CHECK(SQLFetch(stmt) == SQL_NO_DATA);
  unbind();
}

static void static_cursor(void) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_STATIC, 0));
  bind();
  run(large);
  CHECK(row_count() == ROWS);
  OK(SQLFetchScroll(stmt, SQL_FETCH_LAST, 0));
  CHECK(fetched == SIZE && right_rows(ROWS - SIZE) == SIZE);
  OK(SQLFetchScroll(stmt, SQL_FETCH_ABSOLUTE, 8190));
  CHECK(fetched == SIZE && right_rows(8189) == SIZE);
  OK(SQLFetchScroll(stmt, SQL_FETCH_FIRST, 0));
  CHECK(right_rows(0) == SIZE);
  unbind();
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_FORWARD_ONLY, 0));
}

static void limited(void) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_MAX_ROWS, (SQLPOINTER)400001, 0));
  bind();
  run(large);
  int rows = 0;
  for (; SQLFetch(stmt) == SQL_SUCCESS; rows += (int)fetched) CHECK(right_rows(rows) == (int)fetched);
  CHECK(rows == 400001);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_MAX_ROWS, (SQLPOINTER)0, 0));
  unbind();
}

/* Returns the most memory that the process has had, in MiB. */
static long most_memory(void) {
  char line[128];
  long kilobytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
  if (file != NULL) fclose(file);
  return kilobytes / 1024;
}

/* A result of two gigabytes and more passes through a part of that: some 700 MiB, whatever its size, and more
 * under AddressSanitizer. */
static void memory(void) {
  long before = most_memory();
  char text[4096];
  SQLLEN length;
  int rows = 0;
  OK(SQLBindCol(stmt, 1, SQL_C_CHAR, text, sizeof text, &length));
  run("SELECT repeat('0123456789', 300) || i FROM range(800000) AS t (i)");
  for (; SQLFetch(stmt) == SQL_SUCCESS; rows++) CHECK(length > 3000);
  CHECK(rows == 800000);
  CHECK(before > 0 && most_memory() - before < 1400);
  again();
}

static void left_in_the_middle(void) {
  char both[1024];
  SQLINTEGER answer = 0;
  snprintf(both, sizeof both, "%s; SELECT 7", large);
  bind();
  run(both);
  OK(SQLFetch(stmt));
  CHECK(right_rows(0) == SIZE);
  OK(SQLFreeStmt(stmt, SQL_UNBIND));
  OK(SQLMoreResults(stmt));
  CHECK(row_count() == 1);
  OK(SQLFetch(stmt));
  OK(SQLGetData(stmt, 1, SQL_C_SLONG, &answer, 0, NULL));
  CHECK(answer == 7 && fetched == 1);
  CHECK(SQLMoreResults(stmt) == SQL_NO_DATA);
  bind();
  for (int i = 0; i < 3; i++) {
    run(large);
    OK(SQLFetch(stmt));
    OK(SQLFetch(stmt));
    CHECK(right_rows(SIZE) == SIZE);
    OK(SQLCloseCursor(stmt));
  }
  unbind();
  CHECK(number("SELECT 41 + 1") == 42);
}

/* An error in the middle is one whenever rows are asked for, and never the end of the rows. */
static void errors_in_the_middle(void) {
  char sql[256];
  SQLBIGINT value;
  snprintf(sql, sizeof sql, "SELECT 1 / (5000000 - i) FROM range(6000000) AS t (i)");
  OK(SQLBindCol(stmt, 1, SQL_C_SBIGINT, &value, 0, NULL));
  SQLRETURN returned = SQLExecDirectW(stmt, w(sql), SQL_NTS);
  bool has_run = returned == SQL_SUCCESS;
  int rows = 0;
  while (returned == SQL_SUCCESS && (returned = SQLFetch(stmt)) == SQL_SUCCESS) rows++;
  CHECK(returned == SQL_ERROR && strcmp(state_of(SQL_HANDLE_STMT, stmt, NULL), "22012") == 0);
  CHECK(rows <= 5000000);
  if (has_run) REFUSED(SQLFetch(stmt), "22012");
  again();
  CHECK(number("SELECT 41 + 1") == 42);
}

static atomic_bool is_over;

static void *cancel_until_it_is_over(void *unused) {
  (void)unused;
  while (!atomic_load(&is_over)) {
    SQLCancel(stmt);
    usleep(2000);
  }
  return NULL;
}

/* Says whether there is a driver manager between the program and the driver. */
static bool is_managed(void) {
  Dl_info found;
  void *fetch = dlsym(RTLD_DEFAULT, "SQLFetch");
  return fetch != NULL && dladdr(fetch, &found) != 0 && strstr(found.dli_fname, "libhypostyleodbc") == NULL;
}

/* Fetches until it is cancelled. Returns false when that came between two fetches: a driver manager closes the
 * cursor then, as of ODBC 2. */
static bool is_cancelled(void) {
  pthread_t thread;
  run("SELECT CAST(i % 1000 AS INTEGER) FROM range(100000000000) AS t (i)");
  OK(SQLFetch(stmt));
  atomic_store(&is_over, false);
  if (pthread_create(&thread, NULL, cancel_until_it_is_over, NULL) != 0) exit(1);
  SQLRETURN returned;
  while ((returned = SQLFetch(stmt)) == SQL_SUCCESS) continue;
  char state[6];
  snprintf(state, sizeof state, "%s", state_of(SQL_HANDLE_STMT, stmt, NULL));
  atomic_store(&is_over, true);
  pthread_join(thread, NULL);
  CHECK(returned == SQL_ERROR);
  if (strcmp(state, "HY008") == 0) return true;
  CHECK(is_managed());
  /* None is there when an attempt to cancel, which is a call, too, has cleared it. */
  CHECK(state[0] == '\0' || strcmp(state, "HY010") == 0 || strcmp(state, "24000") == 0);
  return false;
}

static void cancelled_in_the_middle(void) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)SIZE, 0));
  OK(SQLBindCol(stmt, 1, SQL_C_SLONG, ids, 0, lengths[0]));
  int attempts = 1;
  for (; !is_cancelled() && attempts < 100; attempts++) OK(SQLFreeStmt(stmt, SQL_CLOSE));
  CHECK(attempts < 100);
  /* The last attempt to cancel may have come behind the error, and closed the cursor. */
  CHECK(SQLFetch(stmt) == SQL_ERROR);
  const char *state = state_of(SQL_HANDLE_STMT, stmt, NULL);
  bool is_closed = strcmp(state, "HY010") == 0 || strcmp(state, "24000") == 0;
  CHECK(strcmp(state, "HY008") == 0 || (is_closed && is_managed()));
  OK(SQLFreeStmt(stmt, SQL_CLOSE));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)1, 0));
  CHECK(number("SELECT 41 + 1") == 42);
}

/* SQLGetData reads the row that SQLSetPos went to, in pieces as well. */
static void positions(SQLULEN cursor_type) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)cursor_type, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)SIZE, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, &fetched, 0));
  run(large);
  REFUSED(SQLSetPos(stmt, 1, SQL_POSITION, SQL_LOCK_NO_CHANGE), "24000");
  OK(SQLFetch(stmt));
  OK(SQLFetch(stmt));
  for (SQLULEN i = 0; i < SIZE; i += 97) {
    SQLINTEGER id = -1;
    SQLULEN number = 0;
    SQLLEN length;
    char start[5], rest[80];
    int wanted = SIZE + (int)i;
    if (i > 0) OK(SQLSetPos(stmt, i + 1, SQL_POSITION, SQL_LOCK_NO_CHANGE));
    OK(SQLGetStmtAttrW(stmt, SQL_ATTR_ROW_NUMBER, &number, 0, NULL));
    OK(SQLGetData(stmt, 1, SQL_C_SLONG, &id, 0, NULL));
    CHECK(number == (SQLULEN)wanted + 1 && id == wanted);
    if (wanted % 7 == 0) {
      OK(SQLGetData(stmt, 3, SQL_C_CHAR, start, sizeof start, &length));
      CHECK(length == SQL_NULL_DATA);
      continue;
    }
    WARNED(SQLGetData(stmt, 3, SQL_C_CHAR, start, sizeof start, &length), "01004");
    OK(SQLGetData(stmt, 3, SQL_C_CHAR, rest, sizeof rest, &length));
    CHECK(strcmp(start, "row ") == 0 && atoi(rest) == wanted);
  }
  REFUSED(SQLSetPos(stmt, SIZE + 1, SQL_POSITION, SQL_LOCK_NO_CHANGE), "HY107");
  REFUSED(SQLSetPos(stmt, 0, SQL_POSITION, SQL_LOCK_NO_CHANGE), "HY107");
  REFUSED(SQLSetPos(stmt, 1, SQL_DELETE, SQL_LOCK_NO_CHANGE), "HYC00");
  REFUSED(SQLSetPos(stmt, 1, SQL_REFRESH, SQL_LOCK_NO_CHANGE), "HYC00");
  REFUSED(SQLSetPos(stmt, 1, SQL_POSITION, SQL_LOCK_EXCLUSIVE), "HYC00");
  /* A driver manager may know that there is none, and say so itself. */
  CHECK(SQLBulkOperations(stmt, SQL_ADD) == SQL_ERROR);
  const char *state = state_of(SQL_HANDLE_STMT, stmt, NULL);
  CHECK(strcmp(state, "HYC00") == 0 || strcmp(state, "IM001") == 0);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)1, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, NULL, 0));
  again();
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_FORWARD_ONLY, 0));
}

static SQLUINTEGER info(SQLUSMALLINT what) {
  SQLUINTEGER told = 0;
  OK_DBC(SQLGetInfoW(dbc, what, &told, sizeof told, NULL));
  return told;
}

static void told(void) {
  const SQLUINTEGER changes = SQL_CA1_POS_UPDATE | SQL_CA1_POS_DELETE | SQL_CA1_POS_REFRESH |
                              SQL_CA1_BULK_ADD | SQL_CA1_BULK_UPDATE_BY_BOOKMARK |
                              SQL_CA1_BULK_DELETE_BY_BOOKMARK | SQL_CA1_BULK_FETCH_BY_BOOKMARK;
  SQLUINTEGER forward = info(SQL_FORWARD_ONLY_CURSOR_ATTRIBUTES1), fixed = info(SQL_STATIC_CURSOR_ATTRIBUTES1);
  CHECK((forward & SQL_CA1_POS_POSITION) && (fixed & SQL_CA1_POS_POSITION));
  CHECK((forward & changes) == 0 && (fixed & changes) == 0);
  CHECK(info(SQL_POS_OPERATIONS) == SQL_POS_POSITION);
  CHECK(info(SQL_GETDATA_EXTENSIONS) & SQL_GD_BLOCK);
  CHECK((info(SQL_FORWARD_ONLY_CURSOR_ATTRIBUTES2) & SQL_CA2_CRC_EXACT) == 0);
  SQLUSMALLINT is_there = 9;
  OK_DBC(SQLGetFunctions(dbc, SQL_API_SQLSETPOS, &is_there));
  CHECK(is_there == SQL_TRUE);
}

int main(int argc, char **argv) {
  begin(argc, argv);
  memory();
  every_row();
  static_cursor();
  limited();
  left_in_the_middle();
  errors_in_the_middle();
  cancelled_in_the_middle();
  positions(SQL_CURSOR_FORWARD_ONLY);
  positions(SQL_CURSOR_STATIC);
  told();
  return end();
}
