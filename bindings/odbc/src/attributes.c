/* The attributes of connections and statements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

/* ---- Connections ---- */

static SQLRETURN set_autocommit(connection *conn, SQLUINTEGER value) {
  if (value != SQL_AUTOCOMMIT_ON && value != SQL_AUTOCOMMIT_OFF)
    return fail(conn, "HY024", "autocommit is neither on nor off: %u", (unsigned)value);
  hypostyle_error *error = NULL;
  if (conn->session != NULL &&
      hypostyle_set_autocommit(conn->session, value == SQL_AUTOCOMMIT_ON, &error) != HYPOSTYLE_OK)
    return fail_library(conn, conn, &error);
  conn->autocommit = value;
  return SQL_SUCCESS;
}

static const struct {
  SQLUINTEGER level;
  const char *name;
} levels[] = {
    {SQL_TXN_READ_UNCOMMITTED, "READ UNCOMMITTED"},
    {SQL_TXN_READ_COMMITTED, "READ COMMITTED"},
    {SQL_TXN_REPEATABLE_READ, "REPEATABLE READ"},
    {SQL_TXN_SERIALIZABLE, "SERIALIZABLE"},
};

/* PostgreSQL has all levels. The setting holds when the transaction that begins with it is over. */
static SQLRETURN set_isolation_in_postgres(connection *conn, SQLUINTEGER level) {
  const char *name = NULL;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if (levels[i].level == level) name = levels[i].name;
  if (name == NULL) return fail(conn, "HY024", "there is no isolation level %u", (unsigned)level);
  if (conn->session == NULL) return fail(conn, "08003", "the connection is not open");
  if (hypostyle_transaction_state(conn->session) != HYPOSTYLE_NO_TRANSACTION)
    return fail(conn, "HY011", "a transaction is open, which has its isolation level");
  builder sql = {0};
  add_format(&sql, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL %s", name);
  SQLRETURN returned = sql.failed ? fail_memory(conn) : run(conn, conn, sql.data);
  free(sql.data);
  return returned == SQL_SUCCESS ? end_transaction(conn, conn, SQL_COMMIT) : returned;
}

static SQLRETURN give_isolation_in_postgres(connection *conn, SQLUINTEGER *level) {
  char *name = ask_text(conn, conn, "SELECT upper(current_setting('default_transaction_isolation'))");
  if (name == NULL) return SQL_ERROR;
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if (strcmp(levels[i].name, name) == 0) *level = levels[i].level;
  free(name);
  return SQL_SUCCESS;
}

/* All transactions read a snapshot, which is what REPEATABLE READ promises and more. */
static SQLRETURN set_isolation(connection *conn, SQLUINTEGER level) {
  if (is_postgres(conn)) return set_isolation_in_postgres(conn, level);
  switch (level) {
  case SQL_TXN_READ_UNCOMMITTED:
  case SQL_TXN_READ_COMMITTED:
  case SQL_TXN_REPEATABLE_READ: conn->isolation = level; return SQL_SUCCESS;
  case SQL_TXN_SERIALIZABLE:
    return fail(conn, "HYC00", "transactions have snapshot isolation; they are not serializable");
  default: return fail(conn, "HY024", "there is no isolation level %u", (unsigned)level);
  }
}

static SQLRETURN set_access_mode(connection *conn, SQLUINTEGER mode) {
  if (mode != SQL_MODE_READ_ONLY && mode != SQL_MODE_READ_WRITE)
    return fail(conn, "HY024", "there is no access mode %u", (unsigned)mode);
  if (mode == SQL_MODE_READ_ONLY && conn->session != NULL && !conn->is_read_only)
    return fail(conn, "HY011",
                "a database is opened read-only or not: set SQL_ATTR_ACCESS_MODE before, or READONLY=1");
  conn->access_mode = mode;
  return SQL_SUCCESS;
}

static SQLRETURN set_catalog(connection *conn, const SQLWCHAR *value, SQLINTEGER length) {
  if (conn->session == NULL) return fail(conn, "08003", "the connection is not open");
  if (is_postgres(conn)) return fail(conn, "HYC00", "a session of PostgreSQL stays in its database");
  char *name = utf8_of(conn, value, length < 0 ? length : length / (SQLINTEGER)sizeof(SQLWCHAR), NULL);
  if (name == NULL) return value == NULL ? fail(conn, "HY009", "there is no name") : SQL_ERROR;
  builder sql = {0};
  add_text(&sql, "USE \"");
  for (const char *at = name; *at != '\0'; at++)
    add_bytes(&sql, *at == '"' ? "\"\"" : at, *at == '"' ? 2 : 1);
  add_text(&sql, "\"");
  free(name);
  SQLRETURN returned = sql.failed ? fail_memory(conn) : run(conn, conn, sql.data);
  free(sql.data);
  return returned;
}

static SQLRETURN set_connection_attribute(connection *conn, SQLINTEGER attribute, SQLPOINTER value,
                                          SQLINTEGER length) {
  SQLUINTEGER number = (SQLUINTEGER)(uintptr_t)value;
  switch (attribute) {
  case SQL_ATTR_AUTOCOMMIT: return set_autocommit(conn, number);
  case SQL_ATTR_TXN_ISOLATION: return set_isolation(conn, number);
  case SQL_ATTR_ACCESS_MODE: return set_access_mode(conn, number);
  case SQL_ATTR_CURRENT_CATALOG: return set_catalog(conn, value, length);
  case SQL_ATTR_METADATA_ID: conn->metadata_id = number; return SQL_SUCCESS;
  case SQL_ATTR_LOGIN_TIMEOUT: conn->login_timeout = number; return SQL_SUCCESS;
  case SQL_ATTR_CONNECTION_TIMEOUT:
    if (number == 0) return SQL_SUCCESS;
    return warn(conn, "01S02", "calls have no time of their own; statements have SQL_ATTR_QUERY_TIMEOUT");
  case SQL_ATTR_ASYNC_ENABLE:
    if (number == SQL_ASYNC_ENABLE_OFF) return SQL_SUCCESS;
    return fail(conn, "HYC00", "statements do not run asynchronously; use a thread");
  case SQL_ATTR_PACKET_SIZE:
  case SQL_ATTR_QUIET_MODE: return SQL_SUCCESS;
  case SQL_ATTR_TRANSLATE_LIB:
  case SQL_ATTR_TRANSLATE_OPTION: return fail(conn, "HYC00", "texts are not translated");
  default: return fail(conn, "HY092", "a connection has no attribute %d that can be set", (int)attribute);
  }
}

SQLRETURN SQL_API SQLSetConnectAttrW(SQLHDBC h, SQLINTEGER attribute, SQLPOINTER value, SQLINTEGER length) {
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  return leave_connection(conn, set_connection_attribute(conn, attribute, value, length));
}

static SQLRETURN give_catalog(connection *conn, SQLPOINTER out, SQLINTEGER room, SQLINTEGER *told) {
  if (conn->session == NULL) return SQL_NO_DATA;
  char *name = ask_text(conn, conn, "SELECT current_database()");
  if (name == NULL) return SQL_ERROR;
  SQLRETURN returned = give_bytes(conn, name, out, room, told);
  free(name);
  return returned;
}

static SQLRETURN get_connection_attribute(connection *conn, SQLINTEGER attribute, SQLPOINTER out,
                                          SQLINTEGER room, SQLINTEGER *told) {
  SQLUINTEGER number = 0;
  switch (attribute) {
  case SQL_ATTR_AUTOCOMMIT: number = conn->autocommit; break;
  case SQL_ATTR_TXN_ISOLATION:
    number = conn->isolation;
    if (is_postgres(conn) && conn->session != NULL &&
        give_isolation_in_postgres(conn, &number) != SQL_SUCCESS)
      return SQL_ERROR;
    break;
  case SQL_ATTR_ACCESS_MODE: number = conn->is_read_only ? SQL_MODE_READ_ONLY : conn->access_mode; break;
  case SQL_ATTR_METADATA_ID: number = conn->metadata_id; break;
  case SQL_ATTR_CURRENT_CATALOG: return give_catalog(conn, out, room, told);
  case SQL_ATTR_CONNECTION_DEAD:
    number = conn->session == NULL || conn->is_dead ? SQL_CD_TRUE : SQL_CD_FALSE;
    break;
  case SQL_ATTR_AUTO_IPD: number = SQL_FALSE; break;
  case SQL_ATTR_LOGIN_TIMEOUT: number = conn->login_timeout; break;
  case SQL_ATTR_CONNECTION_TIMEOUT:
  case SQL_ATTR_ASYNC_ENABLE:
  case SQL_ATTR_PACKET_SIZE:
  case SQL_ATTR_QUIET_MODE: break;
  default: return fail(conn, "HY092", "a connection has no attribute %d", (int)attribute);
  }
  if (out != NULL) memcpy(out, &number, sizeof number);
  if (told != NULL) *told = sizeof number;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLGetConnectAttrW(SQLHDBC h, SQLINTEGER attribute, SQLPOINTER out, SQLINTEGER room,
                                     SQLINTEGER *told) {
  connection *conn;
  SQLRETURN entered = enter_connection(h, &conn);
  if (entered != SQL_SUCCESS) return entered;
  return leave_connection(conn, get_connection_attribute(conn, attribute, out, room, told));
}

/* ---- Statements ---- */

/* Says that another value holds than was asked for. */
static SQLRETURN replaced(statement *s, const char *what) { return warn(s, "01S02", "%s", what); }

static SQLRETURN set_cursor_type(statement *s, SQLULEN type) {
  if (s->has_cursor) return fail(s, "24000", "the statement has a cursor that is open; close it first");
  switch (type) {
  case SQL_CURSOR_FORWARD_ONLY:
  case SQL_CURSOR_STATIC: s->cursor_type = type; return SQL_SUCCESS;
  case SQL_CURSOR_KEYSET_DRIVEN:
  case SQL_CURSOR_DYNAMIC:
    s->cursor_type = SQL_CURSOR_STATIC;
    return replaced(s, "the cursor is static: it shows the rows as they were when the statement ran");
  default: return fail(s, "HY024", "there is no type of cursor %lu", (unsigned long)type);
  }
}

/* A descriptor of the application's takes the place of the statement's own. */
static SQLRETURN set_descriptor(statement *s, SQLHDESC value, descriptor **place, descriptor *own) {
  if (value == SQL_NULL_HDESC || value == own) {
    *place = own;
    return SQL_SUCCESS;
  }
  if (!handle_is(value, KIND_DESCRIPTOR)) return fail(s, "HY024", "the handle is none of a descriptor");
  descriptor *d = value;
  if (!d->is_explicit) return fail(s, "HY017", "the descriptor belongs to another statement");
  if (d->conn != s->conn) return fail(s, "HY024", "the descriptor belongs to another connection");
  *place = d;
  return SQL_SUCCESS;
}

static SQLRETURN set_array_size(statement *s, descriptor *d, SQLULEN size) {
  if (size < 1 || size > ARRAY_MAX)
    return fail(s, "HY024", "an array cannot have %lu rows", (unsigned long)size);
  d->array_size = size;
  return SQL_SUCCESS;
}

/* Attributes that are fields of descriptors; false for others. */
static bool set_array_attribute(statement *s, SQLINTEGER attribute, SQLPOINTER value, SQLRETURN *returned) {
  SQLULEN number = (SQLULEN)(uintptr_t)value;
  *returned = SQL_SUCCESS;
  switch (attribute) {
  case SQL_ATTR_ROW_ARRAY_SIZE:
  case SQL_ROWSET_SIZE: *returned = set_array_size(s, s->ard, number); return true;
  case SQL_ATTR_PARAMSET_SIZE: *returned = set_array_size(s, s->apd, number); return true;
  case SQL_ATTR_ROW_BIND_TYPE: s->ard->bind_type = number; return true;
  case SQL_ATTR_PARAM_BIND_TYPE: s->apd->bind_type = number; return true;
  case SQL_ATTR_ROW_BIND_OFFSET_PTR: s->ard->bind_offset = value; return true;
  case SQL_ATTR_PARAM_BIND_OFFSET_PTR: s->apd->bind_offset = value; return true;
  case SQL_ATTR_ROW_OPERATION_PTR: s->ard->array_status = value; return true;
  case SQL_ATTR_PARAM_OPERATION_PTR: s->apd->array_status = value; return true;
  case SQL_ATTR_ROW_STATUS_PTR: s->ird->array_status = value; return true;
  case SQL_ATTR_PARAM_STATUS_PTR: s->ipd->array_status = value; return true;
  case SQL_ATTR_ROWS_FETCHED_PTR: s->ird->rows_processed = value; return true;
  case SQL_ATTR_PARAMS_PROCESSED_PTR: s->ipd->rows_processed = value; return true;
  default: return false;
  }
}

static SQLRETURN set_statement_attribute(statement *s, SQLINTEGER attribute, SQLPOINTER value) {
  SQLULEN number = (SQLULEN)(uintptr_t)value;
  SQLRETURN returned;
  if (set_array_attribute(s, attribute, value, &returned)) return returned;
  switch (attribute) {
  case SQL_ATTR_APP_ROW_DESC: return set_descriptor(s, value, &s->ard, s->own_ard);
  case SQL_ATTR_APP_PARAM_DESC: return set_descriptor(s, value, &s->apd, s->own_apd);
  case SQL_ATTR_IMP_ROW_DESC:
  case SQL_ATTR_IMP_PARAM_DESC: return fail(s, "HY017", "the descriptor is the statement's own");
  case SQL_ATTR_CURSOR_TYPE: return set_cursor_type(s, number);
  case SQL_ATTR_CURSOR_SCROLLABLE:
    return set_cursor_type(s, number == SQL_SCROLLABLE ? SQL_CURSOR_STATIC : SQL_CURSOR_FORWARD_ONLY);
  case SQL_ATTR_CURSOR_SENSITIVITY:
    if (number == SQL_SENSITIVE) return fail(s, "HYC00", "cursors do not see later changes");
    return SQL_SUCCESS;
  case SQL_ATTR_CONCURRENCY:
    if (number == SQL_CONCUR_READ_ONLY) return SQL_SUCCESS;
    return replaced(s, "rows are read, and are not changed through the cursor");
  case SQL_ATTR_QUERY_TIMEOUT: s->query_timeout = number; return SQL_SUCCESS;
  case SQL_ATTR_MAX_ROWS: s->max_rows = number; return SQL_SUCCESS;
  case SQL_ATTR_NOSCAN: s->noscan = number; return SQL_SUCCESS;
  case SQL_ATTR_RETRIEVE_DATA: s->retrieve_data = number; return SQL_SUCCESS;
  case SQL_ATTR_METADATA_ID: s->metadata_id = number; return SQL_SUCCESS;
  case SQL_ATTR_MAX_LENGTH: return number == 0 ? SQL_SUCCESS : replaced(s, "values are given whole");
  case SQL_ATTR_KEYSET_SIZE:
    return number == 0 ? SQL_SUCCESS : replaced(s, "there are no cursors with keysets");
  case SQL_ATTR_USE_BOOKMARKS:
    return number == SQL_UB_OFF
               ? SQL_SUCCESS
               : fail(s, "HYC00", "there are no bookmarks; static cursors have SQL_FETCH_ABSOLUTE");
  case SQL_ATTR_ASYNC_ENABLE:
    return number == SQL_ASYNC_ENABLE_OFF
               ? SQL_SUCCESS
               : fail(s, "HYC00", "statements do not run asynchronously; use a thread");
  case SQL_ATTR_ENABLE_AUTO_IPD:
    return number == SQL_FALSE ? SQL_SUCCESS
                               : fail(s, "HYC00", "parameters are described by SQLDescribeParam");
  case SQL_ATTR_SIMULATE_CURSOR: return SQL_SUCCESS;
  default: return fail(s, "HY092", "a statement has no attribute %d that can be set", (int)attribute);
  }
}

SQLRETURN SQL_API SQLSetStmtAttrW(SQLHSTMT h, SQLINTEGER attribute, SQLPOINTER value, SQLINTEGER length) {
  (void)length;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, set_statement_attribute(s, attribute, value));
}

/* Attributes that are pointers; false for others. */
static bool pointer_attribute(const statement *s, SQLINTEGER attribute, const void **out) {
  switch (attribute) {
  case SQL_ATTR_APP_ROW_DESC: *out = s->ard; return true;
  case SQL_ATTR_APP_PARAM_DESC: *out = s->apd; return true;
  case SQL_ATTR_IMP_ROW_DESC: *out = s->ird; return true;
  case SQL_ATTR_IMP_PARAM_DESC: *out = s->ipd; return true;
  case SQL_ATTR_ROW_BIND_OFFSET_PTR: *out = s->ard->bind_offset; return true;
  case SQL_ATTR_PARAM_BIND_OFFSET_PTR: *out = s->apd->bind_offset; return true;
  case SQL_ATTR_ROW_OPERATION_PTR: *out = s->ard->array_status; return true;
  case SQL_ATTR_PARAM_OPERATION_PTR: *out = s->apd->array_status; return true;
  case SQL_ATTR_ROW_STATUS_PTR: *out = s->ird->array_status; return true;
  case SQL_ATTR_PARAM_STATUS_PTR: *out = s->ipd->array_status; return true;
  case SQL_ATTR_ROWS_FETCHED_PTR: *out = s->ird->rows_processed; return true;
  case SQL_ATTR_PARAMS_PROCESSED_PTR: *out = s->ipd->rows_processed; return true;
  case SQL_ATTR_FETCH_BOOKMARK_PTR: *out = NULL; return true;
  default: return false;
  }
}

static SQLRETURN get_statement_attribute(statement *s, SQLINTEGER attribute, SQLPOINTER out,
                                         SQLINTEGER *told) {
  const void *pointer;
  if (pointer_attribute(s, attribute, &pointer)) {
    if (out != NULL) memcpy(out, &pointer, sizeof pointer);
    if (told != NULL) *told = sizeof pointer;
    return SQL_SUCCESS;
  }
  SQLULEN number = 0;
  switch (attribute) {
  case SQL_ATTR_ROW_ARRAY_SIZE:
  case SQL_ROWSET_SIZE: number = s->ard->array_size; break;
  case SQL_ATTR_PARAMSET_SIZE: number = s->apd->array_size; break;
  case SQL_ATTR_ROW_BIND_TYPE: number = s->ard->bind_type; break;
  case SQL_ATTR_PARAM_BIND_TYPE: number = s->apd->bind_type; break;
  case SQL_ATTR_CURSOR_TYPE: number = s->cursor_type; break;
  case SQL_ATTR_CURSOR_SCROLLABLE:
    number = s->cursor_type == SQL_CURSOR_STATIC ? SQL_SCROLLABLE : SQL_NONSCROLLABLE;
    break;
  case SQL_ATTR_CURSOR_SENSITIVITY: number = SQL_INSENSITIVE; break;
  case SQL_ATTR_CONCURRENCY: number = SQL_CONCUR_READ_ONLY; break;
  case SQL_ATTR_QUERY_TIMEOUT: number = s->query_timeout; break;
  case SQL_ATTR_MAX_ROWS: number = s->max_rows; break;
  case SQL_ATTR_NOSCAN: number = s->noscan; break;
  case SQL_ATTR_RETRIEVE_DATA: number = s->retrieve_data; break;
  case SQL_ATTR_METADATA_ID: number = s->metadata_id; break;
  case SQL_ATTR_ROW_NUMBER:
    if (!s->has_cursor || s->row < 0) return fail(s, "24000", "the cursor is on no row");
    number = (SQLULEN)s->row + s->current + 1;
    break;
  case SQL_ATTR_MAX_LENGTH:
  case SQL_ATTR_KEYSET_SIZE:
  case SQL_ATTR_USE_BOOKMARKS:
  case SQL_ATTR_ASYNC_ENABLE:
  case SQL_ATTR_ENABLE_AUTO_IPD:
  case SQL_ATTR_SIMULATE_CURSOR: break;
  default: return fail(s, "HY092", "a statement has no attribute %d", (int)attribute);
  }
  if (out != NULL) memcpy(out, &number, sizeof number);
  if (told != NULL) *told = sizeof number;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLGetStmtAttrW(SQLHSTMT h, SQLINTEGER attribute, SQLPOINTER out, SQLINTEGER room,
                                  SQLINTEGER *told) {
  (void)room;
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, get_statement_attribute(s, attribute, out, told));
}
