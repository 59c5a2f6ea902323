/* Diagnostics: what calls have to say, and SQLGetDiagRec and SQLGetDiagField, which tell it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "[Hypostyle][ODBC Driver]"

static char no_memory[] = PREFIX "there is no memory";

void forget_diagnostics(handle *h) {
  for (SQLINTEGER i = 0; i < h->diagnostic_count; i++)
    if (h->diagnostics[i].message != no_memory) free(h->diagnostics[i].message);
  h->diagnostic_count = 0;
}

/* Returns a place for one more, or NULL without memory. Errors go before warnings. */
static diagnostic *new_diagnostic(handle *h, bool is_error) {
  if (h->diagnostic_count == h->diagnostic_room) {
    SQLINTEGER room = h->diagnostic_room * 2 + 4;
    diagnostic *grown = realloc(h->diagnostics, (size_t)room * sizeof *grown);
    if (grown == NULL) return NULL;
    h->diagnostics = grown;
    h->diagnostic_room = room;
  }
  SQLINTEGER at = h->diagnostic_count++;
  if (is_error) {
    SQLINTEGER first_warning = 0;
    while (first_warning < at && strncmp(h->diagnostics[first_warning].state, "01", 2) != 0) first_warning++;
    memmove(h->diagnostics + first_warning + 1, h->diagnostics + first_warning,
            (size_t)(at - first_warning) * sizeof *h->diagnostics);
    at = first_warning;
  }
  diagnostic *d = &h->diagnostics[at];
  memset(d, 0, sizeof *d);
  d->row = SQL_NO_ROW_NUMBER;
  d->column = SQL_NO_COLUMN_NUMBER;
  return d;
}

static diagnostic *say(handle *h, const char *state, const char *format, va_list arguments) {
  diagnostic *d = new_diagnostic(h, strncmp(state, "01", 2) != 0);
  if (d == NULL) return NULL;
  memcpy(d->state, state, 5);
  char *text = NULL;
  if (vasprintf(&text, format, arguments) < 0 || asprintf(&d->message, PREFIX "%s", text) < 0)
    d->message = no_memory;
  free(text);
  return d;
}

SQLRETURN fail(void *h, const char *state, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(h, state, format, arguments);
  va_end(arguments);
  return SQL_ERROR;
}

SQLRETURN warn(void *h, const char *state, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(h, state, format, arguments);
  va_end(arguments);
  return SQL_SUCCESS_WITH_INFO;
}

SQLRETURN fail_memory(void *h) {
  diagnostic *d = new_diagnostic(h, true);
  if (d != NULL) {
    memcpy(d->state, "HY001", 5);
    d->message = no_memory;
  }
  return SQL_ERROR;
}

/* ---- States of the library ---- */

/* What ODBC calls otherwise than PostgreSQL does, whose states the library has. */
static const char *odbc_state(const char *state) {
  static const char *const pairs[][2] = {
      {"42P01", "42S02"}, {"42P07", "42S01"}, {"42703", "42S22"}, {"42701", "42S21"}, {"57014", "HY008"},
      {"0A000", "HYC00"}, {"22P02", "22018"}, {"08006", "08S01"}, {"08000", "08S01"}, {"53200", "HY001"},
      {"28P01", "28000"}, {"40P01", "40001"}, {"25P02", "25S03"}, {"XX000", "HY000"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (strcmp(pairs[i][0], state) == 0) return pairs[i][1];
  return state;
}

SQLRETURN fail_library(void *h, connection *conn, hypostyle_error **error) {
  hypostyle_status status = hypostyle_error_status(*error);
  const char *state = odbc_state(hypostyle_error_sqlstate(*error));
  if (status == HYPOSTYLE_CONNECTION && conn->session != NULL) state = "08S01";
  if (status == HYPOSTYLE_INTERRUPTED && atomic_load(&conn->is_late)) state = "HYT00";
  if (status == HYPOSTYLE_CONNECTION || status == HYPOSTYLE_CLOSED) conn->is_dead = conn->session != NULL;
  const char *detail = hypostyle_error_detail(*error);
  uint64_t position = hypostyle_error_position(*error);
  builder text = {0};
  add_text(&text, hypostyle_error_message(*error));
  if (detail != NULL) add_format(&text, "\n%s", detail);
  if (position > 0) add_format(&text, "\nat character %llu", (unsigned long long)position);
  fail(h, state, "%s", text.failed ? hypostyle_error_message(*error) : text.data);
  handle *head = h;
  for (SQLINTEGER i = 0; i < head->diagnostic_count; i++)
    if (strcmp(head->diagnostics[i].state, state) == 0) head->diagnostics[i].native = status;
  free(text.data);
  hypostyle_error_free(error);
  return SQL_ERROR;
}

static const char *meaning_of(const char *state) {
  static const char *const meanings[][2] = {
      {"01004", "the value was cut; its length is told"},
      {"01S07", "digits behind the point, or a time of day, were cut"},
      {"07002", "a parameter is not bound"},
      {"07006", "a value of this type cannot become one of that type"},
      {"22001", "the value is too long"},
      {"22002", "a value is NULL, and there is no place to say so"},
      {"22003", "the number is out of range"},
      {"22007", "the text is no date or time"},
      {"22008", "the point in time is out of range"},
      {"22015", "the interval does not fit"},
      {"22018", "the text is no value of this type"},
      {"22021", "the text is not UTF-16"},
      {"HY001", "there is no memory"},
      {"HY003", "there is no such C type"},
      {"HY009", "a pointer is NULL"},
      {"HY090", "the length is none"},
      {"HYC00", "the conversion is not there"},
  };
  for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
    if (strcmp(meanings[i][0], state) == 0) return meanings[i][1];
  return "the value cannot be converted";
}

SQLRETURN tell_conversion(void *h, const char *state, SQLLEN row, SQLINTEGER column) {
  if (state == NULL) return SQL_SUCCESS;
  handle *head = h;
  bool is_warning = !is_error_state(state);
  diagnostic *d = new_diagnostic(head, !is_warning);
  if (d != NULL) {
    memcpy(d->state, state, 5);
    d->row = row;
    d->column = column;
    if (asprintf(&d->message, PREFIX "%s", meaning_of(state)) < 0) d->message = no_memory;
  }
  return is_warning ? SQL_SUCCESS_WITH_INFO : SQL_ERROR;
}

/* ---- Telling them ---- */

static handle_kind kind_of(SQLSMALLINT type) {
  switch (type) {
  case SQL_HANDLE_ENV: return KIND_ENVIRONMENT;
  case SQL_HANDLE_DBC: return KIND_CONNECTION;
  case SQL_HANDLE_STMT: return KIND_STATEMENT;
  case SQL_HANDLE_DESC: return KIND_DESCRIPTOR;
  default: return KIND_FREE;
  }
}

static SQLRETURN give_record(const handle *h, SQLSMALLINT number, SQLWCHAR *state, SQLINTEGER *native,
                             SQLWCHAR *message, SQLSMALLINT room, SQLSMALLINT *told) {
  if (number < 1 || room < 0) return SQL_ERROR;
  if (number > h->diagnostic_count) return SQL_NO_DATA;
  const diagnostic *d = &h->diagnostics[number - 1];
  if (state != NULL) state[utf16_from(d->state, 5, state, 5)] = 0;
  if (native != NULL) *native = d->native;
  return give_units(NULL, d->message, message, room, told);
}

SQLRETURN SQL_API SQLGetDiagRecW(SQLSMALLINT type, SQLHANDLE of, SQLSMALLINT number, SQLWCHAR *state,
                                 SQLINTEGER *native, SQLWCHAR *message, SQLSMALLINT room, SQLSMALLINT *told) {
  handle_kind kind = kind_of(type);
  if (kind == KIND_FREE || !lock_handle(of, kind)) return SQL_INVALID_HANDLE;
  SQLRETURN returned = give_record(of, number, state, native, message, room, told);
  unlock_handle(of, kind);
  return returned;
}

static const char *class_origin(const char *state) {
  return strncmp(state, "IM", 2) == 0 || strncmp(state, "HY", 2) == 0 || state[2] == 'S' ? "ODBC 3.0"
                                                                                         : "ISO 9075";
}

static const char *subclass_origin(const char *state) {
  return strncmp(state, "HY", 2) == 0 || strchr("SPT", state[2]) != NULL ? "ODBC 3.0" : "ISO 9075";
}

static const char *server_name(SQLSMALLINT type, const handle *h) {
  const connection *conn = NULL;
  if (type == SQL_HANDLE_DBC) conn = (const connection *)h;
  if (type == SQL_HANDLE_STMT) conn = ((const statement *)h)->conn;
  if (type == SQL_HANDLE_DESC) conn = ((const descriptor *)h)->conn;
  return conn == NULL || conn->settings.dsn == NULL ? "" : conn->settings.dsn;
}

typedef struct {
  const char *word;
  SQLINTEGER code;
} function_name;

/* What a statement was, as SQL/CLI names it. */
static function_name dynamic_function(const handle *h) {
  const statement *s = (const statement *)h;
  switch (s->results == NULL ? HYPOSTYLE_KIND_OTHER : s->results->kind) {
  case HYPOSTYLE_KIND_QUERY: return (function_name){"SELECT CURSOR", SQL_DIAG_SELECT_CURSOR};
  case HYPOSTYLE_KIND_INSERT: return (function_name){"INSERT", SQL_DIAG_INSERT};
  case HYPOSTYLE_KIND_UPDATE: return (function_name){"UPDATE WHERE", SQL_DIAG_UPDATE_WHERE};
  case HYPOSTYLE_KIND_DELETE: return (function_name){"DELETE WHERE", SQL_DIAG_DELETE_WHERE};
  default: return (function_name){"", SQL_DIAG_UNKNOWN_STATEMENT};
  }
}

static SQLRETURN head_field(SQLSMALLINT type, handle *h, SQLSMALLINT field, SQLPOINTER out, SQLSMALLINT room,
                            SQLINTEGER *told, bool *is_known) {
  SQLLEN number = 0;
  size_t size = sizeof(SQLINTEGER);
  *is_known = true;
  switch (field) {
  case SQL_DIAG_NUMBER: number = h->diagnostic_count; break;
  case SQL_DIAG_RETURNCODE: number = h->returned, size = sizeof(SQLRETURN); break;
  case SQL_DIAG_CURSOR_ROW_COUNT:
  case SQL_DIAG_ROW_COUNT:
    if (type != SQL_HANDLE_STMT) return SQL_ERROR;
    number = row_count((statement *)h), size = sizeof(SQLLEN);
    if (field == SQL_DIAG_CURSOR_ROW_COUNT && !((statement *)h)->has_cursor) number = 0;
    break;
  case SQL_DIAG_DYNAMIC_FUNCTION_CODE:
    if (type != SQL_HANDLE_STMT) return SQL_ERROR;
    number = dynamic_function(h).code;
    break;
  case SQL_DIAG_DYNAMIC_FUNCTION:
    if (type != SQL_HANDLE_STMT) return SQL_ERROR;
    return give_bytes(NULL, dynamic_function(h).word, out, room, told);
  default: *is_known = false; return SQL_ERROR;
  }
  SQLINTEGER narrow = (SQLINTEGER)number;
  SQLRETURN code = (SQLRETURN)number;
  if (out != NULL)
    memcpy(out,
           size == sizeof number ? (void *)&number
           : size == sizeof code ? (void *)&code
                                 : &narrow,
           size);
  return SQL_SUCCESS;
}

static SQLRETURN give_field(SQLSMALLINT type, handle *h, SQLSMALLINT number, SQLSMALLINT field,
                            SQLPOINTER out, SQLSMALLINT room, SQLSMALLINT *told) {
  SQLINTEGER length = 0;
  bool is_head;
  SQLRETURN returned = head_field(type, h, field, out, room, &length, &is_head);
  if (!is_head) {
    if (number < 1) return SQL_ERROR;
    if (number > h->diagnostic_count) return SQL_NO_DATA;
    const diagnostic *d = &h->diagnostics[number - 1];
    returned = SQL_SUCCESS;
    switch (field) {
    case SQL_DIAG_SQLSTATE: returned = give_bytes(NULL, d->state, out, room, &length); break;
    case SQL_DIAG_MESSAGE_TEXT: returned = give_bytes(NULL, d->message, out, room, &length); break;
    case SQL_DIAG_CLASS_ORIGIN:
      returned = give_bytes(NULL, class_origin(d->state), out, room, &length);
      break;
    case SQL_DIAG_SUBCLASS_ORIGIN:
      returned = give_bytes(NULL, subclass_origin(d->state), out, room, &length);
      break;
    case SQL_DIAG_CONNECTION_NAME: returned = give_bytes(NULL, "", out, room, &length); break;
    case SQL_DIAG_SERVER_NAME: returned = give_bytes(NULL, server_name(type, h), out, room, &length); break;
    case SQL_DIAG_NATIVE:
      if (out != NULL) memcpy(out, &d->native, sizeof d->native);
      break;
    case SQL_DIAG_ROW_NUMBER:
      if (out != NULL) memcpy(out, &d->row, sizeof d->row);
      break;
    case SQL_DIAG_COLUMN_NUMBER:
      if (out != NULL) memcpy(out, &d->column, sizeof d->column);
      break;
    default: return SQL_ERROR;
    }
  }
  if (told != NULL) *told = (SQLSMALLINT)length;
  return returned;
}

SQLRETURN SQL_API SQLGetDiagFieldW(SQLSMALLINT type, SQLHANDLE of, SQLSMALLINT number, SQLSMALLINT field,
                                   SQLPOINTER out, SQLSMALLINT room, SQLSMALLINT *told) {
  handle_kind kind = kind_of(type);
  if (kind == KIND_FREE || !lock_handle(of, kind)) return SQL_INVALID_HANDLE;
  SQLRETURN returned = give_field(type, of, number, field, out, room, told);
  unlock_handle(of, kind);
  return returned;
}
