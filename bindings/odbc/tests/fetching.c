/* Rows in arrays by column and by row, scrolling, and values in pieces. */
#include "check.h"

enum { ROWS = 1000, SIZE = 64 };

static void make_table(void) {
  run("DROP TABLE IF EXISTS fetched");
  run("CREATE TABLE fetched AS SELECT CAST(i AS INTEGER) AS id, CAST(i AS BIGINT) * 10000000000 AS large, "
      "CASE WHEN i % 3 = 0 THEN NULL ELSE i / 4.0::DOUBLE END AS real, 'text ' || i AS text, "
      "CASE WHEN i % 5 = 0 THEN NULL ELSE DATE '2020-01-01' + CAST(i AS INTEGER) END AS day, "
      "CAST(i AS DECIMAL(12, 2)) / 1 AS quotient, CAST(i * 1.25 AS DECIMAL(12, 2)) AS exact FROM range(1000) "
      "AS t (i)");
}

static void by_column(void) {
  SQLINTEGER ids[SIZE];
  SQLBIGINT large[SIZE];
  SQLDOUBLE reals[SIZE], exact[SIZE];
  char texts[SIZE][16];
  SQL_DATE_STRUCT days[SIZE];
  SQLLEN lengths[6][SIZE];
  SQLUSMALLINT statuses[SIZE];
  SQLULEN fetched = 0;
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)SIZE, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_STATUS_PTR, statuses, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, &fetched, 0));
  OK(SQLBindCol(stmt, 1, SQL_C_SLONG, ids, 0, lengths[0]));
  OK(SQLBindCol(stmt, 2, SQL_C_SBIGINT, large, 0, lengths[1]));
  OK(SQLBindCol(stmt, 3, SQL_C_DOUBLE, reals, 0, lengths[2]));
  OK(SQLBindCol(stmt, 4, SQL_C_CHAR, texts, sizeof texts[0], lengths[3]));
  OK(SQLBindCol(stmt, 5, SQL_C_TYPE_DATE, days, 0, lengths[4]));
  OK(SQLBindCol(stmt, 7, SQL_C_DOUBLE, exact, 0, lengths[5]));
  run("SELECT * FROM fetched ORDER BY id");
  int row = 0;
  SQLRETURN returned;
  while ((returned = SQLFetch(stmt)) == SQL_SUCCESS) {
    for (SQLULEN i = 0; i < fetched; i++, row++) {
      char text[24];
      snprintf(text, sizeof text, "text %d", row);
      CHECK(statuses[i] == SQL_ROW_SUCCESS);
      CHECK(ids[i] == row && lengths[0][i] == 4);
      CHECK(large[i] == row * 10000000000 && lengths[1][i] == 8);
      CHECK(row % 3 == 0 ? lengths[2][i] == SQL_NULL_DATA : lengths[2][i] == 8 && reals[i] == row / 4.0);
      CHECK(strcmp(texts[i], text) == 0 && lengths[3][i] == (SQLLEN)strlen(text));
      CHECK(row % 5 == 0 ? lengths[4][i] == SQL_NULL_DATA : lengths[4][i] == 6);
      if (row == 31) CHECK(days[i].year == 2020 && days[i].month == 2 && days[i].day == 1);
      CHECK(exact[i] == row * 1.25);
    }
    for (SQLULEN i = fetched; i < SIZE; i++) CHECK(statuses[i] == SQL_ROW_NOROW);
  }
  CHECK(returned == SQL_NO_DATA);
  CHECK(row == ROWS);
  CHECK(fetched == 0);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_STATUS_PTR, NULL, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, NULL, 0));
  again();
}

struct row {
  SQLLEN id_length;
  SQLINTEGER id;
  char text[11];
  SQLLEN text_length;
  SQLDOUBLE real;
  SQLLEN real_length;
};

static void by_row(void) {
  struct row rows[SIZE + 1];
  SQLLEN offset = 0;
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)SIZE, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_BIND_TYPE, (SQLPOINTER)sizeof *rows, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_BIND_OFFSET_PTR, &offset, 0));
  OK(SQLBindCol(stmt, 1, SQL_C_SLONG, &rows->id, 0, &rows->id_length));
  OK(SQLBindCol(stmt, 2, SQL_C_CHAR, rows->text, sizeof rows->text, &rows->text_length));
  OK(SQLBindCol(stmt, 3, SQL_C_DOUBLE, &rows->real, 0, &rows->real_length));
  run("SELECT id, text, real FROM fetched ORDER BY id");
  offset = sizeof *rows;
  OK(SQLFetch(stmt));
  for (int i = 0; i < SIZE; i++) {
    const struct row *r = &rows[i + 1];
    char text[24];
    snprintf(text, sizeof text, "text %d", i);
    CHECK(r->id == i && r->id_length == 4);
    CHECK(strcmp(r->text, text) == 0);
    CHECK(i % 3 == 0 ? r->real_length == SQL_NULL_DATA : r->real == i / 4.0);
  }
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_BIND_TYPE, (SQLPOINTER)SQL_BIND_BY_COLUMN, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_BIND_OFFSET_PTR, NULL, 0));
  again();
}

/* Rows that are wrong do not take those that are right with them. */
static void rows_with_errors(void) {
  SQLSMALLINT small[4];
  SQLLEN lengths[4];
  SQLUSMALLINT statuses[4];
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)4, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_STATUS_PTR, statuses, 0));
  OK(SQLBindCol(stmt, 1, SQL_C_SSHORT, small, 0, lengths));
  run("SELECT CAST(n AS DOUBLE) FROM (VALUES (1), (70000), (2.5), (4)) AS t (n)");
  CHECK(SQLFetch(stmt) == SQL_SUCCESS_WITH_INFO);
  CHECK(statuses[0] == SQL_ROW_SUCCESS && small[0] == 1);
  CHECK(statuses[1] == SQL_ROW_ERROR);
  CHECK(statuses[2] == SQL_ROW_SUCCESS_WITH_INFO && small[2] == 2);
  CHECK(statuses[3] == SQL_ROW_SUCCESS && small[3] == 4);
  SQLLEN row = 0;
  SQLINTEGER column = 0;
  CHECK(strcmp(state_of(SQL_HANDLE_STMT, stmt, NULL), "22003") == 0);
  CHECK(SQL_SUCCEEDED(SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_ROW_NUMBER, &row, 0, NULL)) &&
        row == 2);
  CHECK(SQL_SUCCEEDED(SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_COLUMN_NUMBER, &column, 0, NULL)) &&
        column == 1);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_STATUS_PTR, NULL, 0));
  again();
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)1, 0));
  OK(SQLBindCol(stmt, 1, SQL_C_SSHORT, small, 0, NULL));
  run("SELECT CAST(NULL AS INTEGER)");
  REFUSED(SQLFetch(stmt), "22002");
  again();
}

static SQLINTEGER scrolled(SQLSMALLINT orientation, SQLLEN offset) {
  SQLINTEGER id = -2;
  SQLRETURN returned = SQLFetchScroll(stmt, orientation, offset);
  if (returned == SQL_NO_DATA) return -1;
  if (!SQL_SUCCEEDED(returned)) return -3;
  SQLGetData(stmt, 1, SQL_C_SLONG, &id, 0, NULL);
  return id;
}

static void scrolling(void) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_STATIC, 0));
  run("SELECT id FROM fetched ORDER BY id");
  SQLLEN count = 0;
  OK(SQLRowCount(stmt, &count));
  CHECK(count == ROWS);
  CHECK(scrolled(SQL_FETCH_PRIOR, 0) == -1);
  CHECK(scrolled(SQL_FETCH_NEXT, 0) == 0);
  CHECK(scrolled(SQL_FETCH_LAST, 0) == 999);
  CHECK(scrolled(SQL_FETCH_NEXT, 0) == -1);
  CHECK(scrolled(SQL_FETCH_PRIOR, 0) == 999);
  CHECK(scrolled(SQL_FETCH_ABSOLUTE, 500) == 499);
  CHECK(scrolled(SQL_FETCH_RELATIVE, -9) == 490);
  CHECK(scrolled(SQL_FETCH_RELATIVE, 0) == 490);
  CHECK(scrolled(SQL_FETCH_ABSOLUTE, -1) == 999);
  CHECK(scrolled(SQL_FETCH_ABSOLUTE, -1000) == 0);
  CHECK(scrolled(SQL_FETCH_ABSOLUTE, -1001) == -1);
  CHECK(scrolled(SQL_FETCH_ABSOLUTE, 1001) == -1);
  CHECK(scrolled(SQL_FETCH_RELATIVE, -1) == 999);
  CHECK(scrolled(SQL_FETCH_ABSOLUTE, 0) == -1);
  CHECK(scrolled(SQL_FETCH_RELATIVE, INT64_MAX) == -1);
  CHECK(scrolled(SQL_FETCH_RELATIVE, INT64_MIN) == -1);
  CHECK(scrolled(SQL_FETCH_FIRST, 0) == 0);
  SQLULEN number = 0;
  OK(SQLGetStmtAttrW(stmt, SQL_ATTR_ROW_NUMBER, &number, 0, NULL));
  CHECK(number == 1);
  again();
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_FORWARD_ONLY, 0));
  run("SELECT id FROM fetched");
  REFUSED(SQLFetchScroll(stmt, SQL_FETCH_FIRST, 1), "HY106");
  again();
}

static void scrolling_with_rowsets(void) {
  SQLINTEGER ids[10];
  SQLULEN fetched = 0;
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_STATIC, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)10, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, &fetched, 0));
  OK(SQLBindCol(stmt, 1, SQL_C_SLONG, ids, 0, NULL));
  run("SELECT id FROM fetched ORDER BY id");
  OK(SQLFetchScroll(stmt, SQL_FETCH_LAST, 0));
  CHECK(ids[0] == 990 && fetched == 10);
  OK(SQLFetchScroll(stmt, SQL_FETCH_ABSOLUTE, 996));
  CHECK(ids[0] == 995 && ids[4] == 999 && fetched == 5);
  OK(SQLFetchScroll(stmt, SQL_FETCH_PRIOR, 0));
  CHECK(ids[0] == 985 && fetched == 10);
  OK(SQLFetchScroll(stmt, SQL_FETCH_ABSOLUTE, 4));
  CHECK(ids[0] == 3);
  WARNED(SQLFetchScroll(stmt, SQL_FETCH_PRIOR, 0), "01S06");
  CHECK(ids[0] == 0 && fetched == 10);
  CHECK(SQLFetchScroll(stmt, SQL_FETCH_PRIOR, 0) == SQL_NO_DATA);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROWS_FETCHED_PTR, NULL, 0));
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)1, 0));
  again();
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_CURSOR_TYPE, (SQLPOINTER)SQL_CURSOR_FORWARD_ONLY, 0));
}

/* The pieces of a text, joined, are the text; each one's length is that of what was left. */
static void pieces(SQLSMALLINT c_type, size_t room, size_t whole, size_t terminator) {
  char *joined = malloc(whole + room + terminator), *piece = malloc(room);
  size_t had = 0;
  SQLLEN length;
  SQLRETURN returned;
  run("SELECT repeat('abcdefg', 1000), CAST(repeat('abcdefg', 1000) AS BLOB)");
  OK(SQLFetch(stmt));
  SQLUSMALLINT column = c_type == SQL_C_BINARY ? 2 : 1;
  while ((returned = SQLGetData(stmt, column, c_type, piece, (SQLLEN)room, &length)) != SQL_NO_DATA) {
    if (!SQL_SUCCEEDED(returned)) {
      say_call(__FILE__, __LINE__, "SQLGetData", returned, SQL_HANDLE_STMT, stmt);
      exit(1);
    }
    CHECK(length == (SQLLEN)(whole - had));
    size_t got = returned == SQL_SUCCESS ? (size_t)length : room - terminator;
    if (returned == SQL_SUCCESS_WITH_INFO) CHECK(strcmp(state_of(SQL_HANDLE_STMT, stmt, NULL), "01004") == 0);
    memcpy(joined + had, piece, got);
    had += got;
  }
  CHECK(had == whole);
  size_t unit = c_type == SQL_C_WCHAR ? 2 : 1;
  bool is_same = true;
  for (size_t i = 0; i < whole / unit; i++) is_same = is_same && joined[i * unit] == "abcdefg"[i % 7];
  CHECK(is_same);
  free(joined);
  free(piece);
  again();
}

static void truncation(void) {
  char text[8];
  SQLWCHAR wide[4];
  SQLLEN length = 0;
  run("SELECT U&'gr\\00F6\\00DFer als gedacht', 123.456, 12345");
  OK(SQLFetch(stmt));
  WARNED(SQLGetData(stmt, 1, SQL_C_CHAR, text, 0, &length), "01004");
  CHECK(length == 20);
  WARNED(SQLGetData(stmt, 1, SQL_C_CHAR, text, sizeof text, &length), "01004");
  CHECK(length == 20 && strcmp(text, "gr\xc3\xb6\xc3\x9f"
                                     "e") == 0);
  WARNED(SQLGetData(stmt, 1, SQL_C_WCHAR, wide, sizeof wide, &length), "01004");
  CHECK(length == 36 && wide[2] == 0xf6 && wide[3] == 0);
  WARNED(SQLGetData(stmt, 2, SQL_C_CHAR, text, 6, &length), "01004");
  CHECK(length == 7 && strcmp(text, "123.4") == 0);
  REFUSED(SQLGetData(stmt, 3, SQL_C_CHAR, text, 5, &length), "22003");
  /* Which value it was. */
  SQLLEN row = 0;
  SQLINTEGER column = 0;
  SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_ROW_NUMBER, &row, 0, NULL);
  SQLGetDiagFieldW(SQL_HANDLE_STMT, stmt, 1, SQL_DIAG_COLUMN_NUMBER, &column, 0, NULL);
  CHECK(row == 1 && column == 3);
  REFUSED(SQLGetData(stmt, 4, SQL_C_CHAR, text, 5, &length), "07009");
  REFUSED(SQLGetData(stmt, 1, SQL_C_CHAR, text, -1, &length), "HY090");
  REFUSED(SQLGetData(stmt, 1, 4711, text, 5, &length), "HY003");
  again();
  /* Bound texts end where a character does. */
  OK(SQLBindCol(stmt, 1, SQL_C_CHAR, text, 4, &length));
  run("SELECT U&'gr\\00F6\\00DFe'");
  WARNED(SQLFetch(stmt), "01004");
  CHECK(length == 7 && strcmp(text, "gr") == 0);
  again();
}

static void several_results(void) {
  run("SELECT 1; CREATE TABLE IF NOT EXISTS several (a INTEGER); INSERT INTO several VALUES (1), (2); SELECT "
      "2, 3");
  SQLSMALLINT columns = 0;
  SQLLEN rows = 0;
  OK(SQLNumResultCols(stmt, &columns));
  CHECK(columns == 1);
  OK(SQLMoreResults(stmt));
  OK(SQLMoreResults(stmt));
  OK(SQLRowCount(stmt, &rows));
  CHECK(rows == 2);
  OK(SQLMoreResults(stmt));
  OK(SQLNumResultCols(stmt, &columns));
  CHECK(columns == 2);
  OK(SQLFetch(stmt));
  CHECK(SQLMoreResults(stmt) == SQL_NO_DATA);
  again();
  CHECK(SQLExecDirectW(stmt, w("DELETE FROM several WHERE a > 100"), SQL_NTS) == SQL_NO_DATA);
  run("DROP TABLE several");
}

static void limits(void) {
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_MAX_ROWS, (SQLPOINTER)3, 0));
  run("SELECT id FROM fetched");
  for (int i = 0; i < 3; i++) OK(SQLFetch(stmt));
  CHECK(SQLFetch(stmt) == SQL_NO_DATA);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_MAX_ROWS, (SQLPOINTER)0, 0));
  again();
  /* Rows without any, columns of lists, and NULL alone. */
  run("SELECT id FROM fetched WHERE id < 0");
  CHECK(SQLFetch(stmt) == SQL_NO_DATA);
  again();
  char text[64];
  SQLLEN length = 0;
  run("SELECT [1, NULL, 3], {'a': 'x'}, NULL, id FROM fetched ORDER BY id");
  OK(SQLFetch(stmt));
  OK(SQLGetData(stmt, 1, SQL_C_CHAR, text, sizeof text, &length));
  CHECK(strcmp(text, "[1, NULL, 3]") == 0);
  OK(SQLGetData(stmt, 2, SQL_C_CHAR, text, sizeof text, &length));
  CHECK(strcmp(text, "{a: x}") == 0);
  OK(SQLGetData(stmt, 3, SQL_C_CHAR, text, sizeof text, &length));
  CHECK(length == SQL_NULL_DATA);
  again();
}

static void described(void) {
  SQLWCHAR name[32];
  SQLSMALLINT name_length, type, digits, nullable, count;
  SQLULEN size;
  SQLLEN attribute = 0;
  /* Prepared, and not executed. */
  OK(SQLPrepareW(stmt, w("SELECT id, text, exact FROM fetched WHERE id = ?"), SQL_NTS));
  OK(SQLNumResultCols(stmt, &count));
  CHECK(count == 3);
  OK(SQLDescribeColW(stmt, 3, name, 32, &name_length, &type, &size, &digits, &nullable));
  CHECK(strcmp(narrow(name), "exact") == 0 && name_length == 5 && type == SQL_DECIMAL && size == 12 &&
        digits == 2);
  OK(SQLColAttributeW(stmt, 1, SQL_DESC_CONCISE_TYPE, NULL, 0, NULL, &attribute));
  CHECK(attribute == SQL_INTEGER);
  OK(SQLColAttributeW(stmt, 2, SQL_DESC_CASE_SENSITIVE, NULL, 0, NULL, &attribute));
  CHECK(attribute == SQL_TRUE);
  REFUSED(SQLDescribeColW(stmt, 4, name, 32, &name_length, &type, &size, &digits, &nullable), "07009");
  again();
  run("SELECT id, text FROM fetched");
  OK(SQLDescribeColW(stmt, 2, name, 32, &name_length, &type, &size, &digits, &nullable));
  CHECK(type == SQL_WVARCHAR && size == 8);
  WARNED(SQLDescribeColW(stmt, 2, name, 3, &name_length, &type, &size, &digits, &nullable), "01004");
  CHECK(strcmp(narrow(name), "te") == 0 && name_length == 4);
  OK(SQLColAttributeW(stmt, 2, SQL_DESC_TYPE_NAME, name, sizeof name, &name_length, NULL));
  CHECK(strcmp(narrow(name), "VARCHAR") == 0 && name_length == 14);
  again();
}

int main(int argc, char **argv) {
  begin(argc, argv);
  make_table();
  by_column();
  by_row();
  rows_with_errors();
  scrolling();
  scrolling_with_rowsets();
  pieces(SQL_C_CHAR, 100, 7000, 1);
  pieces(SQL_C_CHAR, 7001, 7000, 1);
  pieces(SQL_C_CHAR, 2, 7000, 1);
  pieces(SQL_C_WCHAR, 100, 14000, 2);
  pieces(SQL_C_WCHAR, 4, 14000, 2);
  pieces(SQL_C_BINARY, 100, 7000, 0);
  pieces(SQL_C_BINARY, 1, 7000, 0);
  truncation();
  several_results();
  limits();
  described();
  run("DROP TABLE fetched");
  return end();
}
