/* Measures an ODBC driver through unixODBC: measure CONNECTION_STRING TASK COUNT
 *
 *   connect COUNT   opens and closes a connection
 *   select COUNT    SELECT 1, executed and fetched
 *   fetch COUNT     all of lineitem, in rowsets of COUNT rows, each column in its own C type
 *   insert COUNT    inserts rows by one array of parameters, in one transaction
 *
 * Prints lines of words with tabs between: "took", a stage, and its seconds; "found", a name, and a number
 * by which answers are compared. */
#include <sql.h>
#include <sqlext.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static SQLHENV env;
static SQLHDBC dbc;
static SQLHSTMT stmt;
static char *target;

static void fail(const char *what, SQLSMALLINT type, SQLHANDLE handle) {
  SQLCHAR state[6] = "", message[1024] = "";
  SQLGetDiagRec(type, handle, 1, state, NULL, message, sizeof message, NULL);
  fprintf(stderr, "%s: %s %s\n", what, state, message);
  exit(1);
}

static void check(SQLRETURN returned, const char *what) {
  if (!SQL_SUCCEEDED(returned) && returned != SQL_NO_DATA) fail(what, SQL_HANDLE_STMT, stmt);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double took(const char *stage, double since) {
  double until = now();
  printf("took\t%s\t%.9f\n", stage, until - since);
  return until;
}

static void open_connection(void) {
  if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, env, &dbc))) exit(1);
  SQLRETURN returned =
      SQLDriverConnect(dbc, NULL, (SQLCHAR *)target, SQL_NTS, NULL, 0, NULL, SQL_DRIVER_NOPROMPT);
  if (!SQL_SUCCEEDED(returned)) fail("connecting", SQL_HANDLE_DBC, dbc);
  if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, dbc, &stmt))) exit(1);
}

static void close_connection(void) {
  SQLFreeHandle(SQL_HANDLE_STMT, stmt);
  SQLDisconnect(dbc);
  SQLFreeHandle(SQL_HANDLE_DBC, dbc);
}

static void execute(const char *sql) { check(SQLExecDirect(stmt, (SQLCHAR *)sql, SQL_NTS), sql); }

static void measure_connect(long count) {
  double start = now();
  for (long i = 0; i < count; i++) {
    open_connection();
    close_connection();
  }
  printf("took\tconnect\t%.9f\n", (now() - start) / (double)count);
}

static void measure_select(long count) {
  SQLINTEGER value = 0;
  int64_t sum = 0;
  open_connection();
  SQLBindCol(stmt, 1, SQL_C_SLONG, &value, 0, NULL);
  double start = now();
  for (long i = 0; i < count; i++) {
    execute("SELECT 1");
    check(SQLFetch(stmt), "SELECT 1");
    sum += value;
    SQLFreeStmt(stmt, SQL_CLOSE);
  }
  printf("took\tselect\t%.9f\n", (now() - start) / (double)count);
  printf("found\tsum\t%lld\n", (long long)(sum / count));
  close_connection();
}

/* ---- lineitem ---- */

typedef struct {
  SQLSMALLINT c_type;
  size_t size;
} place;

static const place lineitem[16] = {
    {SQL_C_SBIGINT, 8},   {SQL_C_SBIGINT, 8}, {SQL_C_SBIGINT, 8},   {SQL_C_SLONG, 4},
    {SQL_C_DOUBLE, 8},    {SQL_C_DOUBLE, 8},  {SQL_C_DOUBLE, 8},    {SQL_C_DOUBLE, 8},
    {SQL_C_CHAR, 2},      {SQL_C_CHAR, 2},    {SQL_C_TYPE_DATE, 6}, {SQL_C_TYPE_DATE, 6},
    {SQL_C_TYPE_DATE, 6}, {SQL_C_CHAR, 26},   {SQL_C_CHAR, 11},     {SQL_C_CHAR, 45},
};

static void measure_fetch(long rows) {
  char *buffers[16];
  SQLLEN *lengths[16];
  SQLULEN fetched = 0;
  double start = now();
  open_connection();
  start = took("connect", start);
  SQLSetStmtAttr(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)(uintptr_t)rows, 0);
  SQLSetStmtAttr(stmt, SQL_ATTR_ROWS_FETCHED_PTR, &fetched, 0);
  for (int i = 0; i < 16; i++) {
    buffers[i] = malloc((size_t)rows * lineitem[i].size);
    lengths[i] = malloc((size_t)rows * sizeof(SQLLEN));
    check(SQLBindCol(stmt, (SQLUSMALLINT)(i + 1), lineitem[i].c_type, buffers[i], (SQLLEN)lineitem[i].size,
                     lengths[i]),
          "binding");
  }
  start = now();
  execute("SELECT * FROM lineitem");
  start = took("execute", start);
  int64_t count = 0, keys = 0, comments = 0, days = 0;
  double prices = 0;
  SQLRETURN returned;
  while ((returned = SQLFetch(stmt)) != SQL_NO_DATA) {
    check(returned, "fetching");
    count += (int64_t)fetched;
    for (SQLULEN i = 0; i < fetched; i++) {
      keys += ((int64_t *)(void *)buffers[0])[i];
      prices += ((double *)(void *)buffers[5])[i];
      days += ((SQL_DATE_STRUCT *)(void *)buffers[10])[i].day;
      comments += lengths[15][i];
    }
  }
  took("transfer", start);
  printf(
      "found\trows\t%lld\nfound\tkeys\t%lld\nfound\tdays\t%lld\nfound\tcomments\t%lld\nfound\tprices\t%.0f\n",
      (long long)count, (long long)keys, (long long)days, (long long)comments, prices);
  close_connection();
}

/* ---- Inserts ---- */

static void measure_insert(long rows) {
  SQLINTEGER *ids = malloc((size_t)rows * sizeof *ids);
  char (*texts)[24] = malloc((size_t)rows * sizeof *texts);
  double *numbers = malloc((size_t)rows * sizeof *numbers);
  SQL_DATE_STRUCT *days = malloc((size_t)rows * sizeof *days);
  SQLLEN *lengths = malloc((size_t)rows * sizeof *lengths);
  for (long i = 0; i < rows; i++) {
    ids[i] = (SQLINTEGER)i;
    numbers[i] = (double)i / 8;
    days[i] = (SQL_DATE_STRUCT){2020, (SQLUSMALLINT)(i % 12 + 1), (SQLUSMALLINT)(i % 28 + 1)};
    lengths[i] = sprintf(texts[i], "row number %ld", i);
  }
  open_connection();
  SQLExecDirect(stmt, (SQLCHAR *)"DROP TABLE inserted", SQL_NTS);
  execute("CREATE TABLE inserted (id INTEGER, name VARCHAR(24), number DOUBLE PRECISION, day DATE)");
  SQLFreeStmt(stmt, SQL_CLOSE);
  SQLSetConnectAttr(dbc, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_OFF, 0);
  double start = now();
  check(SQLPrepare(stmt, (SQLCHAR *)"INSERT INTO inserted VALUES (?, ?, ?, ?)", SQL_NTS), "preparing");
  SQLSetStmtAttr(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)(uintptr_t)rows, 0);
  SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, ids, 0, NULL);
  SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 24, 0, texts, sizeof *texts, lengths);
  SQLBindParameter(stmt, 3, SQL_PARAM_INPUT, SQL_C_DOUBLE, SQL_DOUBLE, 0, 0, numbers, 0, NULL);
  SQLBindParameter(stmt, 4, SQL_PARAM_INPUT, SQL_C_TYPE_DATE, SQL_TYPE_DATE, 10, 0, days, 0, NULL);
  check(SQLExecute(stmt), "inserting");
  /* Some drivers have a result for each row. */
  while (SQLMoreResults(stmt) == SQL_SUCCESS) {
  }
  if (!SQL_SUCCEEDED(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT))) fail("committing", SQL_HANDLE_DBC, dbc);
  took("insert", start);
  SQLFreeStmt(stmt, SQL_CLOSE);
  SQLFreeStmt(stmt, SQL_RESET_PARAMS);
  SQLSetStmtAttr(stmt, SQL_ATTR_PARAMSET_SIZE, (SQLPOINTER)1, 0);
  SQLBIGINT count = 0, sum = 0;
  execute("SELECT count(*), sum(id) FROM inserted");
  check(SQLFetch(stmt), "counting");
  SQLGetData(stmt, 1, SQL_C_SBIGINT, &count, 0, NULL);
  SQLGetData(stmt, 2, SQL_C_SBIGINT, &sum, 0, NULL);
  printf("found\trows\t%lld\nfound\tsum\t%lld\n", (long long)count, (long long)sum);
  SQLFreeStmt(stmt, SQL_CLOSE);
  SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT);
  close_connection();
}

int main(int argc, char **argv) {
  if (argc != 4 || atol(argv[3]) < 1) {
    fprintf(stderr, "measure CONNECTION_STRING connect|select|fetch|insert COUNT\n");
    return 2;
  }
  target = argv[1];
  long count = atol(argv[3]);
  SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &env);
  SQLSetEnvAttr(env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3, 0);
  if (strcmp(argv[2], "connect") == 0)
    measure_connect(count);
  else if (strcmp(argv[2], "select") == 0)
    measure_select(count);
  else if (strcmp(argv[2], "fetch") == 0)
    measure_fetch(count);
  else if (strcmp(argv[2], "insert") == 0)
    measure_insert(count);
  else
    return 2;
  SQLFreeHandle(SQL_HANDLE_ENV, env);
  return 0;
}
