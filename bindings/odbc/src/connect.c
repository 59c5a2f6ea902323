/* Connections: how they are opened and ended, transactions, and cancelling.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- What runs ---- */

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The library calls it while a statement is waited for. */
static int32_t poll_statement(void *context, const hypostyle_progress *progress) {
  (void)progress;
  connection *conn = context;
  int64_t deadline = atomic_load(&conn->deadline);
  if (deadline != 0 && now() >= deadline) atomic_store(&conn->is_late, true);
  return atomic_load(&conn->is_late) || atomic_load(&conn->is_cancelled);
}

void begin_running(statement *s) {
  connection *conn = s->conn;
  pthread_mutex_lock(&conn->cancel_lock);
  conn->running = s;
  atomic_store(&conn->is_cancelled, false);
  atomic_store(&conn->is_late, false);
  int64_t seconds = (int64_t)(s->query_timeout > 1000000000 ? 1000000000 : s->query_timeout);
  atomic_store(&conn->deadline, seconds == 0 ? 0 : now() + seconds * 1000000000);
  pthread_mutex_unlock(&conn->cancel_lock);
}

void end_running(statement *s) {
  connection *conn = s->conn;
  pthread_mutex_lock(&conn->cancel_lock);
  conn->running = NULL;
  atomic_store(&conn->deadline, 0);
  pthread_mutex_unlock(&conn->cancel_lock);
}

/* Ends the statement of a connection that runs; of any statement if s is NULL. Returns whether it does. */
static bool cancel_running(connection *conn, const statement *s) {
  pthread_mutex_lock(&conn->cancel_lock);
  bool is_running = conn->running != NULL && (s == NULL || conn->running == s);
  if (is_running) {
    atomic_store(&conn->is_cancelled, true);
    hypostyle_interrupt(conn->session);
  }
  pthread_mutex_unlock(&conn->cancel_lock);
  return is_running;
}

SQLRETURN SQL_API SQLCancel(SQLHSTMT h) {
  if (!handle_is(h, KIND_STATEMENT)) return SQL_INVALID_HANDLE;
  statement *s = h;
  if (s->conn->generation == fork_generation && cancel_running(s->conn, s)) return SQL_SUCCESS;
  /* Another statement of the connection may run, and is not waited for. */
  if (!atomic_load(&s->needs_data)) return SQL_SUCCESS;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  forget_late_values(s);
  return leave_statement(s, SQL_SUCCESS);
}

SQLRETURN SQL_API SQLCancelHandle(SQLSMALLINT type, SQLHANDLE h) {
  if (type == SQL_HANDLE_STMT) return SQLCancel(h);
  if (type != SQL_HANDLE_DBC || !handle_is(h, KIND_CONNECTION)) return SQL_INVALID_HANDLE;
  connection *conn = h;
  if (conn->generation == fork_generation) cancel_running(conn, NULL);
  return SQL_SUCCESS;
}

/* ---- Asking ---- */

char *ask_text(void *h, connection *conn, const char *sql) {
  hypostyle_result *result = NULL;
  hypostyle_error *error = NULL;
  const char *text = NULL;
  size_t length = 0;
  int32_t has_row = 0;
  char *copy = NULL;
  if (hypostyle_execute(conn->session, sql, HYPOSTYLE_NUL, &result, &error) != HYPOSTYLE_OK ||
      hypostyle_result_step(result, &has_row, &error) != HYPOSTYLE_OK ||
      (has_row && hypostyle_row_text(result, 0, &text, &length, &error) != HYPOSTYLE_OK)) {
    fail_library(h, conn, &error);
  } else if (text != NULL) {
    copy = malloc(length + 1);
    if (copy == NULL)
      fail_memory(h);
    else
      memcpy(copy, text, length + 1);
  }
  hypostyle_result_free(&result);
  return copy;
}

SQLRETURN run(void *h, connection *conn, const char *sql) {
  hypostyle_error *error = NULL;
  if (hypostyle_execute(conn->session, sql, HYPOSTYLE_NUL, NULL, &error) == HYPOSTYLE_OK) return SQL_SUCCESS;
  return fail_library(h, conn, &error);
}

bool is_postgres(const connection *conn) {
  const char *database = conn->settings.database;
  return database != NULL &&
         (strncmp(database, "postgresql://", 13) == 0 || strncmp(database, "postgres://", 11) == 0);
}

/* ---- Opening ---- */

static SQLRETURN open_database(connection *conn) {
  const char *target = conn->settings.database;
  if (target == NULL || *target == '\0')
    return fail(conn, "08001",
                "no database is named; DATABASE=… is a directory, :memory: or a server's address");
  hypostyle_options options;
  if (options_of(conn, &options) != SQL_SUCCESS) return SQL_ERROR;
  hypostyle_error *error = NULL;
  if (log_in_within(conn, target, &options, conn->login_timeout) != SQL_SUCCESS) return SQL_ERROR;
  if (hypostyle_set_poll(conn->session, poll_statement, conn, &error) != HYPOSTYLE_OK ||
      (conn->autocommit == SQL_AUTOCOMMIT_OFF &&
       hypostyle_set_autocommit(conn->session, 0, &error) != HYPOSTYLE_OK)) {
    hypostyle_disconnect(&conn->session);
    hypostyle_close(&conn->database);
    return fail_library(conn, conn, &error);
  }
  conn->is_dead = conn->is_browsing = false;
  conn->is_read_only = options.read_only != 0;
  return SQL_SUCCESS;
}

/* Opens what new settings say, and keeps them. */
static SQLRETURN open_settings(connection *conn, settings *new) {
  free_settings(&conn->settings);
  conn->settings = *new;
  SQLRETURN returned = open_database(conn);
  if (returned == SQL_ERROR) free_settings(&conn->settings);
  return returned;
}

static SQLRETURN connect_source(connection *conn, const SQLWCHAR *dsn, SQLSMALLINT dsn_length,
                                const SQLWCHAR *user, SQLSMALLINT user_length, const SQLWCHAR *password,
                                SQLSMALLINT password_length) {
  if (conn->session != NULL) return fail(conn, "08002", "the connection is open already");
  settings new = {0};
  new.dsn = utf8_of(conn, dsn, dsn_length, NULL);
  new.user = utf8_of(conn, user, user_length, NULL);
  new.password = utf8_of(conn, password, password_length, NULL);
  if ((new.dsn == NULL && dsn != NULL) || (new.user == NULL && user != NULL) ||
      (new.password == NULL && password != NULL) || read_data_source(conn, &new) == SQL_ERROR) {
    free_settings(&new);
    return SQL_ERROR;
  }
  return open_settings(conn, &new);
}

SQLRETURN SQL_API SQLConnectW(SQLHDBC h, SQLWCHAR *dsn, SQLSMALLINT dsn_length, SQLWCHAR *user,
                              SQLSMALLINT user_length, SQLWCHAR *password, SQLSMALLINT password_length) {
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  return leave_connection(
      conn, connect_source(conn, dsn, dsn_length, user, user_length, password, password_length));
}

/* Reads a connection string and its data source. */
static SQLRETURN settings_of(connection *conn, const SQLWCHAR *text, SQLSMALLINT length, settings *out) {
  if (conn->session != NULL) return fail(conn, "08002", "the connection is open already");
  char *string = utf8_of(conn, text, length, NULL);
  if (string == NULL) return text == NULL ? fail(conn, "HY009", "there is no connection string") : SQL_ERROR;
  SQLRETURN returned = read_settings(conn, string, out);
  free(string);
  if (returned != SQL_ERROR && read_data_source(conn, out) == SQL_ERROR) returned = SQL_ERROR;
  if (returned == SQL_ERROR) free_settings(out);
  return returned;
}

/* Gives the settings as a connection string. */
static SQLRETURN give_settings(connection *conn, SQLWCHAR *out, SQLSMALLINT room, SQLSMALLINT *told) {
  builder string = {0};
  write_settings(&conn->settings, &string);
  SQLRETURN returned =
      string.failed ? fail_memory(conn) : give_units(conn, string.data, out, out == NULL ? 0 : room, told);
  free(string.data);
  return returned;
}

SQLRETURN SQL_API SQLDriverConnectW(SQLHDBC h, SQLHWND window, SQLWCHAR *in, SQLSMALLINT length,
                                    SQLWCHAR *out, SQLSMALLINT room, SQLSMALLINT *told,
                                    SQLUSMALLINT completion) {
  (void)window;
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  if (completion == SQL_DRIVER_PROMPT)
    return leave_connection(conn, fail(conn, "HYC00", "the driver has no dialogue; use SQL_DRIVER_COMPLETE"));
  /* A connection that was opened is not told of with an error. */
  if (out != NULL && room < 0)
    return leave_connection(conn, fail(conn, "HY090", "a buffer has the length %d", (int)room));
  settings new = {0};
  SQLRETURN read = settings_of(conn, in, length, &new);
  if (read == SQL_ERROR) return leave_connection(conn, read);
  SQLRETURN returned = open_settings(conn, &new);
  if (returned == SQL_ERROR) return leave_connection(conn, returned);
  returned = give_settings(conn, out, room, told);
  return leave_connection(conn, returned == SQL_SUCCESS ? read : returned);
}

/* Asks for the one thing that is needed, until it is there. */
SQLRETURN SQL_API SQLBrowseConnectW(SQLHDBC h, SQLWCHAR *in, SQLSMALLINT length, SQLWCHAR *out,
                                    SQLSMALLINT room, SQLSMALLINT *told) {
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  settings new = {0};
  SQLRETURN read = settings_of(conn, in, length, &new);
  if (read == SQL_ERROR) return leave_connection(conn, read);
  if (new.database == NULL) {
    free_settings(&new);
    conn->is_browsing = true;
    SQLRETURN returned = give_units(conn, "DATABASE:Database=?;*UID:User=?;*PWD:Password=?", out, room, told);
    return leave_connection(conn, returned == SQL_ERROR ? returned : SQL_NEED_DATA);
  }
  SQLRETURN returned = open_settings(conn, &new);
  if (returned != SQL_ERROR) returned = give_settings(conn, out, room, told);
  return leave_connection(conn, returned);
}

/* ---- Transactions and the end ---- */

SQLRETURN end_transaction(void *h, connection *conn, SQLSMALLINT how) {
  if (how != SQL_COMMIT && how != SQL_ROLLBACK)
    return fail(h, "HY012", "%d is neither SQL_COMMIT nor SQL_ROLLBACK", how);
  if (conn->session == NULL) return fail(h, "08003", "the connection is not open");
  if (hypostyle_transaction_state(conn->session) == HYPOSTYLE_NO_TRANSACTION) return SQL_SUCCESS;
  hypostyle_error *error = NULL;
  hypostyle_status status =
      how == SQL_COMMIT ? hypostyle_commit(conn->session, &error) : hypostyle_rollback(conn->session, &error);
  return status == HYPOSTYLE_OK ? SQL_SUCCESS : fail_library(h, conn, &error);
}

static SQLRETURN end_all(environment *env, SQLSMALLINT how) {
  SQLRETURN returned = SQL_SUCCESS;
  for (connection *conn = env->connections; conn != NULL; conn = conn->next) {
    if (conn->generation != fork_generation) continue;
    pthread_mutex_lock(&conn->lock);
    if (conn->session != NULL && end_transaction(env, conn, how) == SQL_ERROR) returned = SQL_ERROR;
    pthread_mutex_unlock(&conn->lock);
  }
  return returned;
}

SQLRETURN SQL_API SQLEndTran(SQLSMALLINT type, SQLHANDLE h, SQLSMALLINT how) {
  if (type == SQL_HANDLE_ENV) {
    environment *env;
    SQLRETURN entered = enter_environment(h, &env);
    if (entered != SQL_SUCCESS) return entered;
    return leave_environment(env, end_all(env, how));
  }
  if (type != SQL_HANDLE_DBC) return SQL_INVALID_HANDLE;
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  return leave_connection(conn, end_transaction(conn, conn, how));
}

static SQLRETURN disconnect(connection *conn) {
  if (conn->is_browsing) {
    conn->is_browsing = false;
    return SQL_SUCCESS;
  }
  if (conn->session == NULL) return fail(conn, "08003", "the connection is not open");
  bool is_open = conn->autocommit == SQL_AUTOCOMMIT_OFF && !conn->is_dead &&
                 hypostyle_transaction_state(conn->session) != HYPOSTYLE_NO_TRANSACTION;
  if (is_open) return fail(conn, "25000", "a transaction is open; end it with SQLEndTran");
  free_dependants(conn);
  pthread_mutex_lock(&conn->cancel_lock);
  hypostyle_disconnect(&conn->session);
  pthread_mutex_unlock(&conn->cancel_lock);
  hypostyle_close(&conn->database);
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLDisconnect(SQLHDBC h) {
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  return leave_connection(conn, disconnect(conn));
}

/* ---- Statements in the database's own words ---- */

static SQLRETURN native_text(connection *conn, const SQLWCHAR *in, SQLINTEGER length, SQLWCHAR *out,
                             SQLINTEGER room, SQLINTEGER *told) {
  size_t bytes = 0;
  char *sql = utf8_of(conn, in, length, &bytes);
  if (sql == NULL) return in == NULL ? fail(conn, "HY009", "there is no statement") : SQL_ERROR;
  builder native = {0};
  bool gives_value;
  const char *problem = without_escapes(sql, bytes, &native, &gives_value);
  free(sql);
  SQLRETURN returned;
  if (problem != NULL) {
    returned = fail(conn, "42000", "%s", problem);
  } else if (native.failed) {
    returned = fail_memory(conn);
  } else {
    SQLINTEGER octets = 0;
    returned = give_bytes(conn, native.data, out, (SQLLEN)room * (SQLLEN)sizeof *out, &octets);
    if (told != NULL) *told = octets / (SQLINTEGER)sizeof *out;
  }
  free(native.data);
  return returned;
}

SQLRETURN SQL_API SQLNativeSqlW(SQLHDBC h, SQLWCHAR *in, SQLINTEGER length, SQLWCHAR *out, SQLINTEGER room,
                                SQLINTEGER *told) {
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  return leave_connection(conn, native_text(conn, in, length, out, room, told));
}
