/* What the test programs share: checks that say where they failed, and a connection to work with. The first
 * argument of a program is its connection string. A program may be linked with unixODBC's driver manager or,
 * since it calls functions of Unicode alone, with the driver itself. */
#ifndef CHECK_H
#define CHECK_H

#include <sql.h>
#include <sqlext.h>
#include <sqlucode.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                                     \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                \
      failures++;                                                                                            \
    }                                                                                                        \
  } while (0)

static SQLHENV env = SQL_NULL_HENV;
static SQLHDBC dbc = SQL_NULL_HDBC;
static SQLHSTMT stmt = SQL_NULL_HSTMT;
static SQLWCHAR target[2048];

/* A text of ASCII in UTF-16, one of the last eight. */
static inline SQLWCHAR *w(const char *text) {
  static __thread SQLWCHAR texts[8][1024];
  static __thread int next = 0;
  SQLWCHAR *out = texts[next = (next + 1) % 8];
  size_t i = 0;
  for (; text[i] != '\0' && i < 1023; i++) out[i] = (unsigned char)text[i];
  out[i] = 0;
  return out;
}

/* The text of ASCII that one of UTF-16 is. */
static inline const char *narrow(const SQLWCHAR *text) {
  static __thread char texts[4][2048];
  static __thread int next = 0;
  char *out = texts[next = (next + 1) % 4];
  size_t i = 0;
  for (; text[i] != 0 && i < 2047; i++) out[i] = text[i] < 128 ? (char)text[i] : '?';
  out[i] = '\0';
  return out;
}

/* The state of a handle's first diagnostic, and its message. */
static inline const char *state_of(SQLSMALLINT type, SQLHANDLE h, const char **message) {
  static __thread char state[6], text[2048];
  SQLWCHAR wide_state[6] = {0}, wide[2048] = {0};
  SQLINTEGER native;
  SQLSMALLINT length;
  state[0] = '\0';
  text[0] = '\0';
  if (SQL_SUCCEEDED(SQLGetDiagRecW(type, h, 1, wide_state, &native, wide, 2048, &length))) {
    snprintf(state, sizeof state, "%s", narrow(wide_state));
    snprintf(text, sizeof text, "%s", narrow(wide));
  }
  if (message != NULL) *message = text;
  return state;
}

static inline void say_call(const char *file, int line, const char *call, SQLRETURN returned,
                            SQLSMALLINT type, SQLHANDLE h) {
  const char *message;
  const char *state = state_of(type, h, &message);
  fprintf(stderr, "%s:%d: %s: %d %s %s\n", file, line, call, returned, state, message);
}

/* The call succeeds; the program ends if it does not. */
#define OK_ON(type, h, call)                                                                                 \
  do {                                                                                                       \
    SQLRETURN returned_ = (call);                                                                            \
    if (returned_ != SQL_SUCCESS) {                                                                          \
      say_call(__FILE__, __LINE__, #call, returned_, (type), (h));                                           \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)
#define OK(call) OK_ON(SQL_HANDLE_STMT, stmt, call)
#define OK_DBC(call) OK_ON(SQL_HANDLE_DBC, dbc, call)

/* The call returns this, and its first diagnostic has this state. */
#define GIVES_ON(type, h, call, wanted, state)                                                               \
  do {                                                                                                       \
    SQLRETURN returned_ = (call);                                                                            \
    if (returned_ != (wanted) || strcmp(state_of((type), (h), NULL), (state)) != 0) {                        \
      say_call(__FILE__, __LINE__, #call, returned_, (type), (h));                                           \
      failures++;                                                                                            \
    }                                                                                                        \
  } while (0)
#define REFUSED(call, state) GIVES_ON(SQL_HANDLE_STMT, stmt, call, SQL_ERROR, state)
#define WARNED(call, state) GIVES_ON(SQL_HANDLE_STMT, stmt, call, SQL_SUCCESS_WITH_INFO, state)
#define REFUSED_DBC(call, state) GIVES_ON(SQL_HANDLE_DBC, dbc, call, SQL_ERROR, state)

static inline void open_connection(SQLHDBC *connection) {
  if (SQLAllocHandle(SQL_HANDLE_DBC, env, connection) != SQL_SUCCESS) exit(1);
  OK_ON(SQL_HANDLE_DBC, *connection,
        SQLDriverConnectW(*connection, NULL, target, SQL_NTS, NULL, 0, NULL, SQL_DRIVER_NOPROMPT));
}

static inline void begin(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "the connection string is missing\n");
    exit(2);
  }
  memcpy(target, w(argv[1]), (strlen(argv[1]) + 1) * sizeof(SQLWCHAR));
  if (SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &env) != SQL_SUCCESS) exit(1);
  OK_ON(SQL_HANDLE_ENV, env, SQLSetEnvAttr(env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3_80, 0));
  open_connection(&dbc);
  OK_DBC(SQLAllocHandle(SQL_HANDLE_STMT, dbc, &stmt));
}

static inline void run(const char *sql) {
  SQLRETURN returned = SQLExecDirectW(stmt, w(sql), SQL_NTS);
  if (!SQL_SUCCEEDED(returned) && returned != SQL_NO_DATA) {
    say_call(__FILE__, __LINE__, sql, returned, SQL_HANDLE_STMT, stmt);
    exit(1);
  }
}

static inline void again(void) {
  OK(SQLFreeStmt(stmt, SQL_CLOSE));
  OK(SQLFreeStmt(stmt, SQL_UNBIND));
  OK(SQLFreeStmt(stmt, SQL_RESET_PARAMS));
}

/* The one number of a query. */
static inline int64_t number(const char *sql) {
  SQLBIGINT value = 0;
  SQLLEN length = 0;
  again();
  run(sql);
  OK(SQLFetch(stmt));
  OK(SQLGetData(stmt, 1, SQL_C_SBIGINT, &value, 0, &length));
  OK(SQLCloseCursor(stmt));
  return length == SQL_NULL_DATA ? INT64_MIN : value;
}

static inline int end(void) {
  SQLFreeHandle(SQL_HANDLE_STMT, stmt);
  OK_DBC(SQLDisconnect(dbc));
  OK_DBC(SQLFreeHandle(SQL_HANDLE_DBC, dbc));
  OK_ON(SQL_HANDLE_ENV, env, SQLFreeHandle(SQL_HANDLE_ENV, env));
  return failures > 0;
}

#endif
