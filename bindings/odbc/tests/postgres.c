/* A database of PostgreSQL: statements, parameters, transactions, the catalog, and what the driver says. */
#include "check.h"

/* The first rows of the statement as text: values by blanks, rows by bars. NULL is -. */
static const char *rows(int columns) {
  static char out[4096];
  size_t length = 0;
  out[0] = '\0';
  while (SQLFetch(stmt) == SQL_SUCCESS) {
    if (length > 0) length += (size_t)snprintf(out + length, sizeof out - length, "|");
    for (int i = 1; i <= columns; i++) {
      char value[256];
      SQLLEN told = 0;
      OK(SQLGetData(stmt, (SQLUSMALLINT)i, SQL_C_CHAR, value, sizeof value, &told));
      length += (size_t)snprintf(out + length, sizeof out - length, "%s%s", i > 1 ? " " : "",
                                 told == SQL_NULL_DATA ? "-" : value);
    }
  }
  OK(SQLCloseCursor(stmt));
  return out;
}

static void same(const char *found, const char *wanted, int line) {
  if (strcmp(found, wanted) == 0) return;
  fprintf(stderr, "%s:%d: %s\n  wanted %s\n", __FILE__, line, found, wanted);
  failures++;
}
#define SAME(found, wanted) same((found), (wanted), __LINE__)

static void statements(void) {
  SQLLEN count = 0;
  SQLWCHAR name[64];
  SQLSMALLINT type = 0, digits = 0;
  SQLULEN size = 0;
  run("CREATE TEMP TABLE t (a integer PRIMARY KEY, b text, n numeric(9,2), d date)");
  run("INSERT INTO t VALUES (1, 'x', 1.50, '2024-02-29'), (2, NULL, NULL, NULL)");
  OK(SQLRowCount(stmt, &count));
  CHECK(count == 2);
  again();
  run("SELECT * FROM t ORDER BY a");
  OK(SQLDescribeColW(stmt, 3, name, 64, NULL, &type, &size, &digits, NULL));
  CHECK(type == SQL_DECIMAL && size == 9 && digits == 2);
  SAME(rows(4), "1 x 1.50 2024-02-29|2 - - -");
  REFUSED(SQLExecDirectW(stmt, w("SELECT nosuch FROM t"), SQL_NTS), "42S22");
  CHECK(number("SELECT count(*) FROM generate_series(1, 100000) AS s (i)") == 100000);
}

static void parameters(void) {
  SQLINTEGER id = 7;
  char text[] = "seven", exact[] = "7.25", day[] = "2024-01-07";
  SQLLEN nul = SQL_NTS;
  again();
  OK(SQLPrepareW(stmt, w("INSERT INTO t VALUES (?, ?, ?, ?)"), SQL_NTS));
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_SLONG, SQL_INTEGER, 0, 0, &id, 0, NULL));
  OK(SQLBindParameter(stmt, 2, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 24, 0, text, sizeof text, &nul));
  OK(SQLBindParameter(stmt, 3, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_DECIMAL, 9, 2, exact, sizeof exact, &nul));
  OK(SQLBindParameter(stmt, 4, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_TYPE_DATE, 10, 0, day, sizeof day, &nul));
  OK(SQLExecute(stmt));
  again();
  OK(SQLBindParameter(stmt, 1, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, 24, 0, text, sizeof text, &nul));
  OK(SQLExecDirectW(stmt, w("SELECT a, n, d FROM t WHERE b = ?"), SQL_NTS));
  SAME(rows(3), "7 7.25 2024-01-07");
  again();
}

static void transactions(void) {
  SQLUINTEGER level = 0;
  OK_DBC(SQLGetConnectAttrW(dbc, SQL_ATTR_TXN_ISOLATION, &level, 0, NULL));
  CHECK(level == SQL_TXN_READ_COMMITTED);
  OK_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_TXN_ISOLATION, (SQLPOINTER)SQL_TXN_SERIALIZABLE, 0));
  OK_DBC(SQLGetConnectAttrW(dbc, SQL_ATTR_TXN_ISOLATION, &level, 0, NULL));
  CHECK(level == SQL_TXN_SERIALIZABLE);
  OK_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_OFF, 0));
  run("SHOW transaction_isolation");
  SAME(rows(1), "serializable");
  run("DELETE FROM t");
  OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_ROLLBACK));
  CHECK(number("SELECT count(*) FROM t") == 3);
  OK_DBC(SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT));
  OK_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_ON, 0));
  REFUSED_DBC(SQLSetConnectAttrW(dbc, SQL_ATTR_CURRENT_CATALOG, w("nosuch"), SQL_NTS), "HYC00");
}

static void catalog(void) {
  SQLWCHAR name[64];
  SQLSMALLINT length = 0;
  again();
  run("DROP SCHEMA IF EXISTS odbc CASCADE");
  run("CREATE SCHEMA odbc");
  run("CREATE TABLE odbc.item (id integer PRIMARY KEY, price numeric(9,2) NOT NULL, words text[])");
  run("COMMENT ON COLUMN odbc.item.price IS 'with tax'");
  again();
  OK(SQLTablesW(stmt, NULL, 0, w("odbc"), SQL_NTS, w("%"), SQL_NTS, NULL, 0));
  SAME(strchr(rows(4), ' ') + 1, "odbc item TABLE");
  OK(SQLColumnsW(stmt, NULL, 0, w("odbc"), SQL_NTS, w("item"), SQL_NTS, w("price"), SQL_NTS));
  OK(SQLFetch(stmt));
  static const struct {
    int column;
    const char *wanted;
  } facts[] = {{4, "price"}, {5, "3"},  {6, "DECIMAL"},   {7, "9"},
               {9, "2"},     {11, "0"}, {12, "with tax"}, {17, "2"}};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    char value[64] = "";
    OK(SQLGetData(stmt, (SQLUSMALLINT)facts[i].column, SQL_C_CHAR, value, sizeof value, NULL));
    SAME(value, facts[i].wanted);
  }
  OK(SQLCloseCursor(stmt));
  OK(SQLPrimaryKeysW(stmt, NULL, 0, w("odbc"), SQL_NTS, w("item"), SQL_NTS));
  OK(SQLFetch(stmt));
  char key[64] = "";
  OK(SQLGetData(stmt, 4, SQL_C_CHAR, key, sizeof key, NULL));
  SAME(key, "id");
  OK(SQLCloseCursor(stmt));
  OK_DBC(SQLGetInfoW(dbc, SQL_DBMS_NAME, name, sizeof name, &length));
  SAME(narrow(name), "PostgreSQL");
  OK_DBC(SQLGetInfoW(dbc, SQL_DBMS_VER, name, sizeof name, &length));
  CHECK(atoi(narrow(name)) >= 14);
  run("DROP SCHEMA odbc CASCADE");
}

static void timeouts(void) {
  again();
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_QUERY_TIMEOUT, (SQLPOINTER)1, 0));
  REFUSED(SQLExecDirectW(stmt, w("SELECT pg_sleep(60)"), SQL_NTS), "HYT00");
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_QUERY_TIMEOUT, (SQLPOINTER)0, 0));
  CHECK(number("SELECT 1") == 1);
}

int main(int argc, char **argv) {
  begin(argc, argv);
  statements();
  parameters();
  transactions();
  catalog();
  timeouts();
  return end();
}
