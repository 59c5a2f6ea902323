/* Statements: prepared, executed, with one result or several.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making and freeing ---- */

statement *statement_new(connection *conn) {
  statement *s = handle_new(KIND_STATEMENT);
  if (s == NULL) return NULL;
  s->conn = conn;
  s->own_apd = s->apd = descriptor_new(conn, s, ROLE_APD, false);
  s->own_ipd = s->ipd = descriptor_new(conn, s, ROLE_IPD, false);
  s->own_ard = s->ard = descriptor_new(conn, s, ROLE_ARD, false);
  s->own_ird = s->ird = descriptor_new(conn, s, ROLE_IRD, false);
  s->cursor_type = SQL_CURSOR_FORWARD_ONLY;
  s->retrieve_data = SQL_RD_ON;
  s->metadata_id = conn->metadata_id;
  s->row = -1;
  s->next = conn->statements;
  conn->statements = s;
  if (s->own_apd == NULL || s->own_ipd == NULL || s->own_ard == NULL || s->own_ird == NULL) {
    statement_free(s);
    return NULL;
  }
  return s;
}

void forget_prepared(statement *s) {
  for (size_t i = 0; i < s->part_count; i++) hypostyle_statement_free(&s->parts[i].handle);
  free(s->parts);
  s->parts = NULL;
  s->part_count = s->parameter_count = 0;
  s->is_prepared = s->is_described = s->gives_value = false;
  set_count(s->own_ird, 0);
}

void forget_late_values(statement *s) {
  for (size_t i = 0; i < s->late_count; i++) free(s->late[i].data);
  free(s->late);
  s->late = NULL;
  s->late_count = s->late_next = 0;
  s->needs_data = false;
}

void close_cursor(statement *s) {
  while (s->results != NULL) {
    result *first = s->results;
    s->results = first->next;
    result_free(first);
  }
  s->is_executed = s->has_cursor = s->is_described = s->is_after_end = false;
  s->row = -1;
  s->rowset = s->current = 0;
  s->piece_column = 0;
}

void statement_free(statement *s) {
  for (statement **place = &s->conn->statements; *place != NULL; place = &(*place)->next)
    if (*place == s) {
      *place = s->next;
      break;
    }
  close_cursor(s);
  forget_late_values(s);
  descriptor *own[] = {s->own_apd, s->own_ipd, s->own_ard, s->own_ird};
  if (s->own_ird != NULL) forget_prepared(s);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (own[i] != NULL) descriptor_free(own[i]);
  free(s->cursor_name);
  free(s->scratch.data);
  s->scratch = (builder){0};
  handle_release(&s->head);
}

static SQLRETURN free_part(statement *s, SQLUSMALLINT option) {
  if (s->needs_data) return fail(s, "HY010", "the statement waits for data of SQLPutData");
  switch (option) {
  case SQL_CLOSE: close_cursor(s); return SQL_SUCCESS;
  case SQL_UNBIND: set_count(s->ard, 0); return SQL_SUCCESS;
  case SQL_RESET_PARAMS: set_count(s->apd, 0), set_count(s->ipd, 0); return SQL_SUCCESS;
  default: return fail(s, "HY092", "SQLFreeStmt has no option %u", (unsigned)option);
  }
}

SQLRETURN SQL_API SQLFreeStmt(SQLHSTMT h, SQLUSMALLINT option) {
  if (option == SQL_DROP) return SQLFreeHandle(SQL_HANDLE_STMT, h);
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, free_part(s, option));
}

SQLRETURN SQL_API SQLCloseCursor(SQLHSTMT h) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  if (!s->has_cursor) return leave_statement(s, fail(s, "24000", "no cursor is open"));
  close_cursor(s);
  return leave_statement(s, SQL_SUCCESS);
}

/* ---- Preparing ---- */

static SQLRETURN add_part(statement *s, const char *sql, size_t length) {
  part *parts = realloc(s->parts, (s->part_count + 1) * sizeof *parts);
  if (parts == NULL) return fail_memory(s);
  s->parts = parts;
  hypostyle_error *error = NULL;
  part p = {NULL, 0};
  if (hypostyle_prepare(s->conn->session, sql, length, &p.handle, &error) != HYPOSTYLE_OK)
    return fail_library(s, s->conn, &error);
  p.parameters = hypostyle_statement_parameters(p.handle);
  s->parts[s->part_count++] = p;
  s->parameter_count += p.parameters;
  return SQL_SUCCESS;
}

/* A text without a statement is one, which the database refuses. */
static SQLRETURN add_parts(statement *s, const char *sql, size_t length) {
  size_t start = 0, found_length = 0;
  const char *found = NULL;
  hypostyle_error *error = NULL;
  for (;;) {
    if (hypostyle_next_statement(sql, length, &start, &found, &found_length, &error) != HYPOSTYLE_OK)
      return fail_library(s, s->conn, &error);
    if (found_length == 0) break;
    if (add_part(s, found, found_length) != SQL_SUCCESS) return SQL_ERROR;
  }
  return s->part_count > 0 ? SQL_SUCCESS : add_part(s, sql, length);
}

static SQLRETURN check_session(statement *s) {
  if (s->conn->session == NULL) return fail(s, "08003", "the connection is not open");
  if (s->needs_data) return fail(s, "HY010", "the statement waits for data of SQLPutData");
  if (s->has_cursor) return fail(s, "24000", "the statement has a cursor that is open; close it first");
  return SQL_SUCCESS;
}

static SQLRETURN prepare_native(statement *s, const char *sql, size_t length) {
  if (add_parts(s, sql, length) != SQL_SUCCESS) {
    forget_prepared(s);
    return SQL_ERROR;
  }
  s->is_prepared = true;
  return SQL_SUCCESS;
}

static SQLRETURN prepare(statement *s, const SQLWCHAR *text, SQLINTEGER length) {
  if (check_session(s) != SQL_SUCCESS) return SQL_ERROR;
  close_cursor(s);
  forget_prepared(s);
  size_t bytes = 0;
  char *sql = utf8_of(s, text, length, &bytes);
  if (sql == NULL) return text == NULL ? fail(s, "HY009", "there is no statement") : SQL_ERROR;
  builder native = {0};
  bool gives_value = false;
  const char *problem = NULL;
  if (s->noscan == SQL_NOSCAN_ON)
    add_bytes(&native, sql, bytes);
  else
    problem = without_escapes(sql, bytes, &native, &gives_value);
  free(sql);
  SQLRETURN returned;
  if (problem != NULL)
    returned = fail(s, "42000", "%s", problem);
  else if (native.failed)
    returned = fail_memory(s);
  else
    returned = prepare_native(s, native.data, native.length);
  free(native.data);
  if (returned != SQL_SUCCESS || !gives_value) return returned;
  if (s->part_count > 1) {
    forget_prepared(s);
    return fail(s, "42000", "{?= call …} calls one function");
  }
  s->gives_value = true;
  s->parameter_count++;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLPrepareW(SQLHSTMT h, SQLWCHAR *text, SQLINTEGER length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, prepare(s, text, length));
}

/* ---- Executing ---- */

/* Says of each row of parameters what became of it. */
static void set_statuses(statement *s, SQLUSMALLINT status) {
  for (size_t row = 0; s->ipd->array_status != NULL && row < s->apd->array_size; row++)
    s->ipd->array_status[row] = is_ignored_row(s, row) ? SQL_PARAM_UNUSED : status;
  if (s->ipd->rows_processed != NULL) *s->ipd->rows_processed = s->apd->array_size;
}

/* Binds the parameters of a part; *has_rows is false if all rows are ignored. */
static SQLRETURN bind_part(statement *s, const part *p, size_t first, bool *has_rows) {
  *has_rows = true;
  if (p->parameters == 0) return SQL_SUCCESS;
  if (s->apd->array_size > 1) return bind_rows(s, p, first, has_rows);
  *has_rows = !is_ignored_row(s, 0);
  return *has_rows ? bind_row(s, p, first, 0) : SQL_SUCCESS;
}

static SQLRETURN execute_part(statement *s, const part *p, result **place) {
  hypostyle_result *handle = NULL;
  hypostyle_error *error = NULL;
  if (hypostyle_statement_execute(p->handle, &handle, &error) != HYPOSTYLE_OK)
    return fail_library(s, s->conn, &error);
  return result_load(s, &handle, hypostyle_statement_kind(p->handle), place);
}

/* Goes to the first of the results that are left. */
static SQLRETURN begin_result(statement *s) {
  const result *r = s->results;
  s->is_described = false;
  s->row = -1;
  s->rowset = s->current = 0;
  s->is_after_end = false;
  s->piece_column = 0;
  s->has_cursor = r != NULL && r->column_count > 0;
  bool is_change = r != NULL && (r->kind == HYPOSTYLE_KIND_UPDATE || r->kind == HYPOSTYLE_KIND_DELETE);
  return is_change && !s->has_cursor && r->affected == 0 ? SQL_NO_DATA : SQL_SUCCESS;
}

static SQLRETURN run_parts(statement *s) {
  size_t first = s->gives_value ? 1 : 0;
  result **place = &s->results;
  for (size_t i = 0; i < s->part_count; first += s->parts[i++].parameters) {
    bool has_rows;
    if (bind_part(s, &s->parts[i], first, &has_rows) != SQL_SUCCESS) return SQL_ERROR;
    if (!has_rows) continue;
    if (execute_part(s, &s->parts[i], place) != SQL_SUCCESS) {
      set_statuses(s, s->apd->array_size > 1 ? SQL_PARAM_DIAG_UNAVAILABLE : SQL_PARAM_ERROR);
      return SQL_ERROR;
    }
    place = &(*place)->next;
  }
  return SQL_SUCCESS;
}

SQLRETURN execute_parts(statement *s) {
  close_cursor(s);
  begin_running(s);
  SQLRETURN returned = run_parts(s);
  end_running(s);
  SQLRETURN given = returned == SQL_SUCCESS && s->gives_value ? give_function_value(s) : SQL_SUCCESS;
  if (returned != SQL_SUCCESS || given == SQL_ERROR) {
    close_cursor(s);
    return SQL_ERROR;
  }
  /* The value is all that comes of it. */
  if (s->gives_value) close_cursor(s);
  set_statuses(s, SQL_PARAM_SUCCESS);
  s->is_executed = true;
  returned = begin_result(s);
  return given == SQL_SUCCESS ? returned : given;
}

/* The value of {?= call …} is the only parameter that is not read. */
static SQLRETURN check_directions(statement *s) {
  const record *r = record_of(s->ipd, 1);
  bool is_output = r != NULL && r->parameter_type == SQL_PARAM_OUTPUT;
  if (is_output && !s->gives_value && s->parameter_count > 0)
    return fail(s, "HYC00", "the only output parameter is the value of {?= call …}");
  if (!s->gives_value) return SQL_SUCCESS;
  if (!is_output) return fail(s, "HY105", "the parameter 1 takes the value of the function: it is for output");
  if (s->apd->array_size > 1) return fail(s, "HYC00", "{?= call …} takes no arrays of parameters");
  return SQL_SUCCESS;
}

static SQLRETURN execute(statement *s) {
  if (!s->is_prepared) return fail(s, "HY010", "the statement is not prepared");
  if (check_session(s) != SQL_SUCCESS) return SQL_ERROR;
  for (size_t i = 0; i < s->parameter_count; i++) {
    const record *r = record_of(s->apd, (SQLSMALLINT)(i + 1));
    if (r == NULL || !r->is_bound) return fail(s, "07002", "the parameter %zu is not bound", i + 1);
  }
  if (check_directions(s) != SQL_SUCCESS || find_late_values(s) != SQL_SUCCESS) return SQL_ERROR;
  if (s->late_count == 0) return execute_parts(s);
  s->needs_data = true;
  return SQL_NEED_DATA;
}

SQLRETURN SQL_API SQLExecute(SQLHSTMT h) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, execute(s));
}

SQLRETURN SQL_API SQLExecDirectW(SQLHSTMT h, SQLWCHAR *text, SQLINTEGER length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  SQLRETURN returned = prepare(s, text, length);
  return leave_statement(s, returned == SQL_SUCCESS ? execute(s) : returned);
}

SQLRETURN execute_text(statement *s, const char *sql, size_t length) {
  if (check_session(s) != SQL_SUCCESS) return SQL_ERROR;
  close_cursor(s);
  forget_prepared(s);
  hypostyle_result *handle = NULL;
  hypostyle_error *error = NULL;
  begin_running(s);
  SQLRETURN returned = hypostyle_execute(s->conn->session, sql, length, &handle, &error) == HYPOSTYLE_OK
                           ? result_load(s, &handle, HYPOSTYLE_KIND_QUERY, &s->results)
                           : fail_library(s, s->conn, &error);
  end_running(s);
  if (returned != SQL_SUCCESS) return returned;
  s->is_executed = true;
  return begin_result(s);
}

/* ---- What came of it ---- */

SQLRETURN SQL_API SQLMoreResults(SQLHSTMT h) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  if (s->results == NULL || s->results->next == NULL) {
    close_cursor(s);
    return leave_statement(s, SQL_NO_DATA);
  }
  result *first = s->results;
  s->results = first->next;
  result_free(first);
  begin_result(s);
  return leave_statement(s, SQL_SUCCESS);
}

SQLLEN row_count(const statement *s) {
  const result *r = s->results;
  if (r == NULL) return -1;
  return r->affected < 0 && s->has_cursor && r->is_whole ? (SQLLEN)r->rows : (SQLLEN)r->affected;
}

SQLRETURN SQL_API SQLRowCount(SQLHSTMT h, SQLLEN *rows) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  if (!s->is_executed) return leave_statement(s, fail(s, "HY010", "the statement was not executed"));
  if (rows != NULL) *rows = row_count(s);
  return leave_statement(s, SQL_SUCCESS);
}

/* ---- The name of the cursor ---- */

static SQLRETURN set_cursor_name(statement *s, const SQLWCHAR *text, SQLSMALLINT length) {
  char *name = utf8_of(s, text, length, NULL);
  if (name == NULL) return text == NULL ? fail(s, "HY009", "there is no name") : SQL_ERROR;
  bool is_taken = false;
  for (const statement *other = s->conn->statements; other != NULL; other = other->next)
    is_taken =
        is_taken || (other != s && other->cursor_name != NULL && strcmp(other->cursor_name, name) == 0);
  if (is_taken || *name == '\0' || strncmp(name, "SQL_CUR", 7) == 0) {
    SQLRETURN returned = is_taken ? fail(s, "3C000", "another cursor has the name %s", name)
                                  : fail(s, "34000", "\"%s\" is no name for a cursor", name);
    free(name);
    return returned;
  }
  free(s->cursor_name);
  s->cursor_name = name;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLSetCursorNameW(SQLHSTMT h, SQLWCHAR *text, SQLSMALLINT length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, set_cursor_name(s, text, length));
}

SQLRETURN SQL_API SQLGetCursorNameW(SQLHSTMT h, SQLWCHAR *out, SQLSMALLINT room, SQLSMALLINT *told) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  char made[32];
  snprintf(made, sizeof made, "SQL_CUR%p", (void *)s);
  return leave_statement(s, give_units(s, s->cursor_name == NULL ? made : s->cursor_name, out, room, told));
}
