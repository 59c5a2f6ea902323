/* Several threads: one connection for all, one for each, cancelling, timeouts, and stacks of 256 KB. */
#include "check.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 100 };

/* A statement that takes longer than any test waits, and stops when it is told to. */
static const char endless[] =
    "SELECT count(*) FROM range(1000000) AS a (i), range(1000000) AS b (k) WHERE (i * k) % 7 = 3";

static SQLHSTMT idle;

static double seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void start(pthread_t *thread, void *(*work)(void *), void *with) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  if (pthread_create(thread, &attributes, work, with) != 0) exit(1);
  pthread_attr_destroy(&attributes);
}

/* Counts with a statement of its own on a connection. */
static void *count_up(void *with) {
  SQLHDBC of = with;
  SQLHSTMT own;
  long wrong = 0;
  if (SQLAllocHandle(SQL_HANDLE_STMT, of, &own) != SQL_SUCCESS) return (void *)1L;
  for (SQLINTEGER i = 0; i < ROUNDS; i++) {
    SQLINTEGER value = -1;
    char text[32], wanted[32];
    SQLLEN length;
    snprintf(wanted, sizeof wanted, "%d times", (int)i);
    SQLBindParameter(own, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &i, 0, NULL);
    if (SQLExecDirectW(own, w("SELECT ? + 1, ? || ' times'"), SQL_NTS) == SQL_SUCCESS) wrong++;
    SQLBindParameter(own, 2, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &i, 0, NULL);
    wrong += SQLExecDirectW(own, w("SELECT ? + 1, ? || ' times'"), SQL_NTS) != SQL_SUCCESS ||
             SQLFetch(own) != SQL_SUCCESS;
    wrong += SQLGetData(own, 1, SQL_C_SLONG, &value, 0, NULL) != SQL_SUCCESS || value != i + 1;
    wrong += SQLGetData(own, 2, SQL_C_CHAR, text, sizeof text, &length) != SQL_SUCCESS ||
             strcmp(text, wanted) != 0;
    SQLFreeStmt(own, SQL_CLOSE);
    SQLFreeStmt(own, SQL_RESET_PARAMS);
  }
  SQLFreeHandle(SQL_HANDLE_STMT, own);
  return (void *)wrong;
}

static void together(bool share) {
  pthread_t threads[THREADS];
  SQLHDBC connections[THREADS];
  for (int i = 0; i < THREADS; i++) {
    connections[i] = dbc;
    if (!share) open_connection(&connections[i]);
    start(&threads[i], count_up, connections[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    CHECK(wrong == NULL);
    if (share) continue;
    OK_ON(SQL_HANDLE_DBC, connections[i], SQLDisconnect(connections[i]));
    OK_ON(SQL_HANDLE_DBC, connections[i], SQLFreeHandle(SQL_HANDLE_DBC, connections[i]));
  }
}

/* A cancel of another statement of the connection does nothing, and does not wait. */
static void *cancel_soon(void *with) {
  usleep(200000);
  double began = seconds();
  if (SQLCancel(idle) != SQL_SUCCESS || seconds() - began > 5) return (void *)2L;
  return SQLCancel(with) == SQL_SUCCESS ? NULL : (void *)1L;
}

static void cancelling(void) {
  pthread_t thread;
  void *wrong;
  double began = seconds();
  OK_DBC(SQLAllocHandle(SQL_HANDLE_STMT, dbc, &idle));
  start(&thread, cancel_soon, stmt);
  REFUSED(SQLExecDirectW(stmt, w(endless), SQL_NTS), "HY008");
  pthread_join(thread, &wrong);
  CHECK(wrong == NULL);
  CHECK(seconds() - began < 30);
  OK(SQLFreeHandle(SQL_HANDLE_STMT, idle));
  /* The connection is as good as before, and a cancel without a statement does nothing. */
  OK(SQLCancel(stmt));
  CHECK(number("SELECT 41 + 1") == 42);
}

static void timing_out(void) {
  double began = seconds();
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_QUERY_TIMEOUT, (SQLPOINTER)1, 0));
  REFUSED(SQLExecDirectW(stmt, w(endless), SQL_NTS), "HYT00");
  CHECK(seconds() - began > 0.9 && seconds() - began < 30);
  CHECK(number("SELECT 41 + 1") == 42);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_QUERY_TIMEOUT, (SQLPOINTER)0, 0));
}

/* All of it with a small stack. */
static void *all(void *unused) {
  (void)unused;
  together(true);
  together(false);
  cancelling();
  timing_out();
  return NULL;
}

int main(int argc, char **argv) {
  begin(argc, argv);
  pthread_t thread;
  start(&thread, all, NULL);
  pthread_join(thread, NULL);
  return end();
}
