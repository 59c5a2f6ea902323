/* Fetching: rowsets into bound buffers, and single values in pieces.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

/* ---- Bound columns ---- */

/* What became of the rows of a rowset. The worst of each row counts. */
typedef struct {
  uint8_t *rows; /* made when the first row has something to say */
  bool has_memory;
} outcome;

enum { ROW_FINE = 0, ROW_WARNED = 1, ROW_FAILED = 2 };

static void note(outcome *o, size_t count, size_t row, SQLRETURN returned) {
  if (returned == SQL_SUCCESS || !o->has_memory) return;
  if (o->rows == NULL) o->rows = calloc(count, 1);
  o->has_memory = o->rows != NULL;
  uint8_t worst = returned == SQL_ERROR ? ROW_FAILED : ROW_WARNED;
  if (o->has_memory && o->rows[row] < worst) o->rows[row] = worst;
}

static char *moved(const void *pointer, size_t offset) {
  return pointer == NULL ? NULL : (char *)(uintptr_t)pointer + offset;
}

static SQLSMALLINT c_type_of(const statement *s, const record *r, size_t index) {
  if (r->concise_type != SQL_C_DEFAULT) return r->concise_type;
  return default_c_type(facts_of(&s->results->columns[index], s->conn->text_size).sql_type);
}

static void set_target(const statement *s, const record *r, size_t index, target *to) {
  const descriptor *ard = s->ard;
  size_t offset = ard->bind_offset == NULL ? 0 : (size_t)*ard->bind_offset;
  memset(to, 0, sizeof *to);
  to->c_type = c_type_of(s, r, index);
  to->default_type = default_c_type(facts_of(&s->results->columns[index], s->conn->text_size).sql_type);
  to->precision = r->precision;
  to->scale = r->scale;
  to->has_scale = r->has_scale;
  to->room = r->octet_length;
  to->data = moved(r->data, offset);
  to->length = moved(r->octet_length_ptr, offset);
  to->indicator = moved(r->indicator_ptr, offset);
  SQLLEN size = c_size(to->c_type);
  bool is_by_column = ard->bind_type == SQL_BIND_BY_COLUMN;
  to->data_step = !is_by_column ? ard->bind_type : size > 0 ? (size_t)size : (size_t)r->octet_length;
  to->length_step = is_by_column ? sizeof(SQLLEN) : ard->bind_type;
}

static const char *put_value(const hypostyle_values *of, uint64_t row, const target *to, size_t i) {
  SQLLEN length = SQL_NULL_DATA, zero = 0;
  char *length_place = moved(to->length, to->length == NULL ? 0 : i * to->length_step);
  char *indicator_place = moved(to->indicator, to->indicator == NULL ? 0 : i * to->length_step);
  if (is_null_at(of, row)) {
    if (indicator_place == NULL) return "22002";
    memcpy(indicator_place, &length, sizeof length);
    return NULL;
  }
  scalar value;
  memset(&value, 0, offsetof(scalar, exact));
  scalar_at(of, row, &value);
  const char *state = put_scalar(&value, to, to->data + i * to->data_step, &length);
  if (is_error_state(state)) return state;
  if (indicator_place != NULL) memcpy(indicator_place, &zero, sizeof zero);
  if (length_place != NULL) memcpy(length_place, &length, sizeof length);
  return state;
}

SQLRETURN give_function_value(statement *s) {
  result *r = s->results;
  if (r == NULL) return SQL_SUCCESS;
  if (result_reach(s, r, 1) != SQL_SUCCESS) return SQL_ERROR;
  if (r->column_count != 1 || r->rows == 0) return fail(s, "HY000", "the function gives no value");
  const record *a = record_of(s->apd, 1);
  /* Another descriptor may have come while data were waited for. */
  if (a == NULL) return fail(s, "07002", "the parameter 1 is not bound any more");
  const hypostyle_values *of = &result_batch(r, 0)->values[0];
  size_t offset = s->apd->bind_offset == NULL ? 0 : (size_t)*s->apd->bind_offset;
  target to = {.c_type = a->concise_type, .precision = a->precision, .scale = a->scale};
  to.has_scale = a->has_scale;
  to.default_type = default_c_type(facts_of(&r->columns[0], s->conn->text_size).sql_type);
  if (to.c_type == SQL_C_DEFAULT) to.c_type = to.default_type;
  to.room = a->octet_length;
  to.data = moved(a->data, offset);
  to.length = moved(a->octet_length_ptr, offset);
  to.indicator = moved(a->indicator_ptr, offset);
  if (c_size(to.c_type) == 0 && to.room < 0)
    return fail(s, "HY090", "a buffer has the length %lld", (long long)to.room);
  if (to.data == NULL && !is_null_at(of, 0)) return fail(s, "HY009", "there is no buffer for the value");
  return tell_conversion(s, put_value(of, 0, &to, 0), 1, 1);
}

/* Fills rows of a target from rows of one batch; the first of them is the row `at` of the rowset. */
static void fill_part(statement *s, const hypostyle_values *of, uint64_t row, size_t count, const target *to,
                      size_t index, size_t at, outcome *o) {
  if (fill_in_bulk(of, row, count, to)) return;
  for (size_t i = 0; i < count; i++) {
    const char *state = put_value(of, row + i, to, i);
    if (state == NULL) continue;
    tell_conversion(s, state, (SQLLEN)(at + i) + 1, (SQLINTEGER)index + 1);
    note(o, (size_t)s->rowset, at + i, is_error_state(state) ? SQL_ERROR : SQL_SUCCESS_WITH_INFO);
  }
}

/* A rowset may begin in one batch and end in another. */
static void fill_column(statement *s, const record *r, size_t index, outcome *o) {
  size_t count = (size_t)s->rowset;
  target to;
  set_target(s, r, index, &to);
  if (c_size(to.c_type) == 0 && to.room < 0) {
    tell_conversion(s, "HY090", 1, (SQLINTEGER)index + 1);
    note(o, count, 0, SQL_ERROR);
    return;
  }
  for (size_t at = 0, part; at < count; at += part) {
    uint64_t row = (uint64_t)s->row + at;
    const batch *b = result_batch(s->results, row);
    uint64_t left = b->first + b->rows - row;
    part = left < count - at ? (size_t)left : count - at;
    fill_part(s, &b->values[index], row - b->first, part, &to, index, at, o);
    to.data += part * to.data_step;
    to.length = moved(to.length, part * to.length_step);
    to.indicator = moved(to.indicator, part * to.length_step);
  }
}

static SQLRETURN judge(const outcome *o, size_t count, SQLUSMALLINT *statuses) {
  size_t failed = 0, warned = 0;
  for (size_t i = 0; o->rows != NULL && i < count; i++) {
    failed += o->rows[i] == ROW_FAILED;
    warned += o->rows[i] == ROW_WARNED;
    if (statuses != NULL && o->rows[i] != ROW_FINE)
      statuses[i] = o->rows[i] == ROW_FAILED ? SQL_ROW_ERROR : SQL_ROW_SUCCESS_WITH_INFO;
  }
  if (failed == count && count > 0) return SQL_ERROR;
  return failed + warned > 0 ? SQL_SUCCESS_WITH_INFO : SQL_SUCCESS;
}

static SQLRETURN fill_rowset(statement *s) {
  SQLUSMALLINT *statuses = s->ird->array_status;
  if (s->ird->rows_processed != NULL) *s->ird->rows_processed = s->rowset;
  for (size_t i = 0; statuses != NULL && i < s->ard->array_size; i++)
    statuses[i] = i < s->rowset ? SQL_ROW_SUCCESS : SQL_ROW_NOROW;
  outcome o = {NULL, true};
  for (size_t i = 0; i < s->results->column_count && s->retrieve_data == SQL_RD_ON; i++) {
    const record *r = record_of(s->ard, (SQLSMALLINT)(i + 1));
    if (r != NULL && r->is_bound) fill_column(s, r, i, &o);
  }
  SQLRETURN returned = o.has_memory ? judge(&o, (size_t)s->rowset, statuses) : fail_memory(s);
  free(o.rows);
  return returned;
}

/* ---- Where the rowset is ---- */

/* Finds the first row; -1 is before the first, total behind the last. *is_cut says that the rowset would have
 * begun before the first. */
static int64_t new_row(const statement *s, SQLSMALLINT orientation, SQLLEN offset, bool *is_cut) {
  int64_t total = (int64_t)s->results->rows, size = (int64_t)s->ard->array_size, row = s->row;
  int64_t wanted;
  switch (orientation) {
  case SQL_FETCH_FIRST: return total == 0 ? total : 0;
  case SQL_FETCH_LAST: return total == 0 ? total : total > size ? total - size : 0;
  case SQL_FETCH_PRIOR: wanted = s->is_after_end ? total - size : row < 0 ? -size - 1 : row - size; break;
  case SQL_FETCH_ABSOLUTE:
    if (offset == 0) return -1;
    wanted = offset > 0 ? (offset > total ? total : offset - 1)
                        : (offset < -total - size ? -size - 1 : total + offset);
    break;
  case SQL_FETCH_RELATIVE: {
    int64_t from = s->is_after_end ? total : row;
    int64_t step = offset > total ? total + 1 : offset < -total - size ? -total - size - 1 : offset;
    if (row < 0 && !s->is_after_end && step <= 0) return -1;
    wanted = from + step;
    break;
  }
  default: wanted = s->is_after_end ? total : row < 0 ? 0 : row + (int64_t)s->rowset;
  }
  if (wanted >= total) return total;
  if (wanted >= 0) return wanted;
  bool reaches_first =
      wanted + size > 0 && total > 0 && (row > 0 || s->is_after_end || orientation == SQL_FETCH_ABSOLUTE);
  *is_cut = reaches_first;
  return reaches_first ? 0 : -1;
}

static SQLRETURN no_rows(statement *s, bool is_behind) {
  s->row = -1;
  s->is_after_end = is_behind;
  s->rowset = s->current = 0;
  if (s->ird->rows_processed != NULL) *s->ird->rows_processed = 0;
  for (size_t i = 0; s->ird->array_status != NULL && i < s->ard->array_size; i++)
    s->ird->array_status[i] = SQL_ROW_NOROW;
  return SQL_NO_DATA;
}

/* Has the next rowset of a cursor that goes forward come, and lets go of the one before. A rowset that ends with
 * an error has no rows: a short one would say that no more come. */
static SQLRETURN reach_next(statement *s) {
  result *r = s->results;
  if (r->is_whole || s->is_after_end) return SQL_SUCCESS;
  uint64_t next = s->row < 0 ? 0 : (uint64_t)s->row + s->rowset, size = s->ard->array_size;
  result_forget(r, next);
  if (result_reach(s, r, size > UINT64_MAX - next ? UINT64_MAX : next + size) == SQL_SUCCESS) return SQL_SUCCESS;
  no_rows(s, false);
  return SQL_ERROR;
}

static SQLRETURN fetch(statement *s, SQLSMALLINT orientation, SQLLEN offset) {
  if (!s->has_cursor)
    return fail(s, s->is_executed ? "24000" : "HY010", "the statement has no rows to fetch");
  if (orientation < SQL_FETCH_NEXT || orientation > SQL_FETCH_RELATIVE)
    return fail(s, orientation == SQL_FETCH_BOOKMARK ? "HYC00" : "HY106", "rows are not fetched by %d",
                (int)orientation);
  if (orientation != SQL_FETCH_NEXT && s->cursor_type == SQL_CURSOR_FORWARD_ONLY)
    return fail(s, "HY106", "the cursor goes forward only; set SQL_ATTR_CURSOR_TYPE to SQL_CURSOR_STATIC");
  if (reach_next(s) != SQL_SUCCESS) return SQL_ERROR;
  bool is_cut = false;
  int64_t total = (int64_t)s->results->rows, row = new_row(s, orientation, offset, &is_cut);
  s->piece_column = 0;
  if (row < 0 || row >= total) return no_rows(s, row >= total);
  s->row = row;
  s->current = 0;
  s->is_after_end = false;
  s->rowset = (uint64_t)(total - row);
  if (s->rowset > s->ard->array_size) s->rowset = s->ard->array_size;
  SQLRETURN returned = fill_rowset(s);
  if (!is_cut || returned == SQL_ERROR) return returned;
  return warn(s, "01S06", "the rowset would have begun before the first row, and begins with it");
}

SQLRETURN SQL_API SQLFetch(SQLHSTMT h) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, fetch(s, SQL_FETCH_NEXT, 0));
}

SQLRETURN SQL_API SQLFetchScroll(SQLHSTMT h, SQLSMALLINT orientation, SQLLEN offset) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, fetch(s, orientation, offset));
}

/* ---- Binding ---- */

static SQLRETURN bind_column(statement *s, SQLUSMALLINT number, SQLSMALLINT c_type, SQLPOINTER data,
                             SQLLEN room, SQLLEN *length) {
  if (number == 0) return fail(s, "HYC00", "there are no bookmarks, which the column 0 would have");
  if (number > INT16_MAX) return fail(s, "07009", "there is no column %u", (unsigned)number);
  if (c_type != SQL_C_DEFAULT && c_size(c_type) < 0)
    return fail(s, "HY003", "there is no C type %d", (int)c_type);
  if (room < 0) return fail(s, "HY090", "a buffer has the length %lld", (long long)room);
  if (data == NULL && length == NULL && number > s->ard->count) return SQL_SUCCESS;
  record *r = record_at(s->ard, (SQLSMALLINT)number);
  if (r == NULL) return fail_memory(s);
  clear_record(r);
  set_concise_type(r, c_type);
  r->precision = c_type == SQL_C_NUMERIC ? 38 : 0;
  r->octet_length = room;
  r->data = data;
  r->octet_length_ptr = r->indicator_ptr = length;
  r->is_bound = data != NULL;
  SQLSMALLINT count = s->ard->count;
  while (count > 0 && !s->ard->records[count - 1].is_bound &&
         s->ard->records[count - 1].indicator_ptr == NULL)
    count--;
  set_count(s->ard, count);
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLBindCol(SQLHSTMT h, SQLUSMALLINT number, SQLSMALLINT c_type, SQLPOINTER data,
                             SQLLEN room, SQLLEN *length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, bind_column(s, number, c_type, data, room, length));
}

/* ---- Single values ---- */

/* Goes to a row of the rowset, which SQLGetData reads then. */
static SQLRETURN set_position(statement *s, SQLSETPOSIROW row, SQLUSMALLINT operation, SQLUSMALLINT lock) {
  if (operation > SQL_ADD) return fail(s, "HY092", "there is no operation %u", (unsigned)operation);
  if (lock > SQL_LOCK_UNLOCK) return fail(s, "HY092", "there is no lock %u", (unsigned)lock);
  if (!s->is_executed) return fail(s, "HY010", "the statement was not executed");
  if (!s->has_cursor || s->row < 0) return fail(s, "24000", "the cursor is on no row");
  if (operation != SQL_POSITION)
    return fail(s, "HYC00", "rows are read, and are not changed through the cursor; UPDATE changes them");
  if (lock != SQL_LOCK_NO_CHANGE) return fail(s, "HYC00", "rows are not locked; others' changes are not seen");
  if (row < 1 || row > s->rowset)
    return fail(s, "HY107", "there is no row %llu; the rowset has %llu", (unsigned long long)row,
                (unsigned long long)s->rowset);
  s->current = row - 1;
  s->piece_column = 0;
  return SQL_SUCCESS;
}

SQLRETURN SQL_API SQLSetPos(SQLHSTMT h, SQLSETPOSIROW row, SQLUSMALLINT operation, SQLUSMALLINT lock) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, set_position(s, row, operation, lock));
}

/* Is there to say what to do instead; SQLGetFunctions does not name it. */
SQLRETURN SQL_API SQLBulkOperations(SQLHSTMT h, SQLSMALLINT operation) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, fail(s, "HYC00",
                                 "there are no operations such as %d on rowsets; INSERT, UPDATE and DELETE take "
                                 "arrays of parameters",
                                 (int)operation));
}

static const char *begin_pieces(statement *s, const scalar *value, const target *to, size_t *least) {
  s->piece_offset = 0;
  return whole_value(value, to, &s->scratch, &s->piece, &s->piece_length, least);
}

static SQLRETURN give_piece(statement *s, const target *to, SQLLEN *length) {
  size_t left = s->piece_length - s->piece_offset;
  size_t end = to->c_type == SQL_C_BINARY ? 0 : to->c_type == SQL_C_CHAR ? 1 : sizeof(SQLWCHAR);
  size_t room = (size_t)to->room > end ? (size_t)to->room - end : 0;
  if (to->c_type == SQL_C_WCHAR) room -= room % sizeof(SQLWCHAR);
  size_t count = left < room ? left : room;
  if (count > 0) memcpy(to->data, s->piece + s->piece_offset, count);
  if ((size_t)to->room >= end && end > 0) memset(to->data + count, 0, end);
  if (length != NULL) *length = (SQLLEN)left;
  s->piece_offset += count;
  s->piece_is_done = count == left;
  return s->piece_is_done ? SQL_SUCCESS : tell_conversion(s, "01004", (SQLLEN)s->current + 1, s->piece_column);
}

static SQLRETURN get_value(statement *s, const target *to, SQLLEN *length, bool is_new) {
  uint64_t row = (uint64_t)s->row + s->current;
  const batch *b = result_batch(s->results, row);
  const hypostyle_values *of = &b->values[s->piece_column - 1];
  row -= b->first;
  SQLLEN number = (SQLLEN)s->current + 1;
  if (is_null_at(of, row)) {
    if (length == NULL) return tell_conversion(s, "22002", number, s->piece_column);
    *length = SQL_NULL_DATA;
    s->piece_is_done = true;
    return SQL_SUCCESS;
  }
  scalar value;
  memset(&value, 0, offsetof(scalar, exact));
  if (is_new) scalar_at(of, row, &value);
  if (c_size(to->c_type) > 0) {
    SQLLEN told = 0;
    SQLRETURN returned = tell_conversion(s, put_scalar(&value, to, to->data, &told), number, s->piece_column);
    if (returned != SQL_ERROR && length != NULL) *length = told;
    s->piece_is_done = returned != SQL_ERROR;
    return returned;
  }
  if (is_new) {
    size_t least = 0;
    const char *state = begin_pieces(s, &value, to, &least);
    size_t end = to->c_type == SQL_C_BINARY ? 0 : to->c_type == SQL_C_CHAR ? 1 : sizeof(SQLWCHAR);
    /* A buffer without room asks for the length. */
    if (state == NULL && to->room > 0 && least + end > (size_t)to->room) state = "22003";
    if (state != NULL) {
      SQLRETURN returned = tell_conversion(s, state, number, s->piece_column);
      /* Another try begins anew. */
      s->piece_column = 0;
      return returned;
    }
  }
  return give_piece(s, to, length);
}

static SQLRETURN get_data(statement *s, SQLUSMALLINT number, SQLSMALLINT c_type, SQLPOINTER data, SQLLEN room,
                          SQLLEN *length) {
  if (!s->has_cursor || s->row < 0) return fail(s, "24000", "the cursor is on no row");
  if (number == 0 || number > s->results->column_count)
    return fail(s, "07009", "there is no column %u; the result has %zu", (unsigned)number,
                s->results->column_count);
  target to = {.c_type = c_type, .data = data, .room = room};
  to.default_type =
      default_c_type(facts_of(&s->results->columns[number - 1], s->conn->text_size).sql_type);
  if (c_type == SQL_ARD_TYPE) {
    const record *r = record_of(s->ard, (SQLSMALLINT)number);
    if (r == NULL) return fail(s, "07009", "the column %u has no C type in the descriptor", (unsigned)number);
    to.c_type = r->concise_type;
    to.precision = r->precision, to.scale = r->scale, to.has_scale = r->has_scale;
  }
  if (to.c_type == SQL_C_DEFAULT) to.c_type = to.default_type;
  SQLLEN size = c_size(to.c_type);
  if (size < 0) return fail(s, "HY003", "there is no C type %d", (int)c_type);
  if (room < 0) return fail(s, "HY090", "a buffer has the length %lld", (long long)room);
  if (data == NULL && (size > 0 || room > 0)) return fail(s, "HY009", "there is no buffer");
  bool is_new = s->piece_column != number || s->piece_type != to.c_type;
  if (!is_new && s->piece_is_done) return SQL_NO_DATA;
  s->piece_column = number;
  s->piece_type = to.c_type;
  if (is_new) s->piece_is_done = false;
  /* A value of fixed size that has failed is read anew. */
  return get_value(s, &to, length, is_new || size > 0);
}

SQLRETURN SQL_API SQLGetData(SQLHSTMT h, SQLUSMALLINT number, SQLSMALLINT c_type, SQLPOINTER data,
                             SQLLEN room, SQLLEN *length) {
  statement *s;
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  return leave_statement(s, get_data(s, number, c_type, data, room, length));
}
