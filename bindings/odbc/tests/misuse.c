/* What no program should do, without a driver manager between: freed handles, pointers that are NULL, and the
 * child of a fork. Nothing crashes, and nothing is left. */
#include "check.h"
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

static void freed_handles(void) {
  SQLHDBC connection;
  SQLHSTMT one, two;
  SQLHDESC descriptor;
  SQLSMALLINT count;
  open_connection(&connection);
  OK_ON(SQL_HANDLE_DBC, connection, SQLAllocHandle(SQL_HANDLE_STMT, connection, &one));
  OK_ON(SQL_HANDLE_DBC, connection, SQLAllocHandle(SQL_HANDLE_STMT, connection, &two));
  OK_ON(SQL_HANDLE_DBC, connection, SQLAllocHandle(SQL_HANDLE_DESC, connection, &descriptor));
  OK_ON(SQL_HANDLE_STMT, two, SQLSetStmtAttrW(two, SQL_ATTR_APP_ROW_DESC, descriptor, 0));
  CHECK(SQLFreeHandle(SQL_HANDLE_STMT, one) == SQL_SUCCESS);
  CHECK(SQLFreeHandle(SQL_HANDLE_STMT, one) == SQL_INVALID_HANDLE);
  CHECK(SQLFetch(one) == SQL_INVALID_HANDLE);
  CHECK(SQLExecDirectW(one, w("SELECT 1"), SQL_NTS) == SQL_INVALID_HANDLE);
  CHECK(SQLCancel(one) == SQL_INVALID_HANDLE);
  CHECK(SQLGetDiagRecW(SQL_HANDLE_STMT, one, 1, NULL, NULL, NULL, 0, NULL) == SQL_INVALID_HANDLE);
  /* Handles of other kinds. */
  CHECK(SQLFetch(connection) == SQL_INVALID_HANDLE);
  CHECK(SQLDisconnect(two) == SQL_INVALID_HANDLE);
  CHECK(SQLFetch(NULL) == SQL_INVALID_HANDLE);
  CHECK(SQLFreeHandle(SQL_HANDLE_DBC, NULL) == SQL_INVALID_HANDLE);
  /* A statement whose descriptor is freed has its own one again. */
  CHECK(SQLFreeHandle(SQL_HANDLE_DESC, descriptor) == SQL_SUCCESS);
  SQLHDESC own = NULL;
  OK_ON(SQL_HANDLE_STMT, two, SQLGetStmtAttrW(two, SQL_ATTR_APP_ROW_DESC, &own, 0, NULL));
  CHECK(own != descriptor);
  CHECK(SQLFreeHandle(SQL_HANDLE_DESC, own) == SQL_ERROR);
  /* A connection takes its statements with it. */
  GIVES_ON(SQL_HANDLE_DBC, connection, SQLFreeHandle(SQL_HANDLE_DBC, connection), SQL_ERROR, "HY010");
  OK_ON(SQL_HANDLE_STMT, two, SQLExecDirectW(two, w("SELECT 1"), SQL_NTS));
  OK_ON(SQL_HANDLE_DBC, connection, SQLDisconnect(connection));
  CHECK(SQLFetch(two) == SQL_INVALID_HANDLE);
  CHECK(SQLNumResultCols(two, &count) == SQL_INVALID_HANDLE);
  SQLHSTMT none = NULL;
  GIVES_ON(SQL_HANDLE_DBC, connection, SQLAllocHandle(SQL_HANDLE_STMT, connection, &none), SQL_ERROR,
           "08003");
  GIVES_ON(SQL_HANDLE_DBC, connection, SQLDisconnect(connection), SQL_ERROR, "08003");
  GIVES_ON(SQL_HANDLE_DBC, connection, SQLEndTran(SQL_HANDLE_DBC, connection, SQL_COMMIT), SQL_ERROR,
           "08003");
  CHECK(SQLFreeHandle(SQL_HANDLE_DBC, connection) == SQL_SUCCESS);
  CHECK(SQLDisconnect(connection) == SQL_INVALID_HANDLE);
  CHECK(SQLFreeHandle(SQL_HANDLE_ENV, env) == SQL_ERROR);
}

static void sequences(void) {
  REFUSED(SQLFetch(stmt), "HY010");
  REFUSED(SQLExecute(stmt), "HY010");
  REFUSED(SQLCloseCursor(stmt), "24000");
  REFUSED(SQLExecDirectW(stmt, NULL, SQL_NTS), "HY009");
  REFUSED(SQLExecDirectW(stmt, w("SELECT 1"), -7), "HY090");
  REFUSED(SQLPutData(stmt, "x", 1), "HY010");
  SQLPOINTER token;
  REFUSED(SQLParamData(stmt, &token), "HY010");
  run("SELECT 1");
  REFUSED(SQLExecDirectW(stmt, w("SELECT 1"), SQL_NTS), "24000");
  SQLINTEGER value;
  REFUSED(SQLGetData(stmt, 1, SQL_C_SLONG, &value, 0, NULL), "24000");
  OK(SQLFetch(stmt));
  REFUSED(SQLGetData(stmt, 1, SQL_C_SLONG, NULL, 0, NULL), "HY009");
  CHECK(SQLFetch(stmt) == SQL_NO_DATA);
  REFUSED(SQLGetData(stmt, 1, SQL_C_SLONG, &value, 0, NULL), "24000");
  again();
  /* Half of a surrogate pair is no text. */
  SQLWCHAR half[] = {'S', 0xd800, 'x', 0};
  REFUSED(SQLExecDirectW(stmt, half, SQL_NTS), "22021");
  REFUSED(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)0, 0), "HY024");
  REFUSED(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)-1, 0), "HY024");
  REFUSED(SQLSetStmtAttrW(stmt, SQL_ATTR_APP_ROW_DESC, (SQLPOINTER)stmt, 0), "HY024");
  REFUSED(SQLSetStmtAttrW(stmt, 4711, (SQLPOINTER)1, 0), "HY092");
  SQLHDESC ird;
  OK(SQLGetStmtAttrW(stmt, SQL_ATTR_IMP_ROW_DESC, &ird, 0, NULL));
  GIVES_ON(SQL_HANDLE_DESC, ird, SQLSetDescFieldW(ird, 1, SQL_DESC_TYPE, (SQLPOINTER)SQL_C_CHAR, 0),
           SQL_ERROR, "HY016");
}

static void descriptors(void) {
  SQLHDESC ard, copy;
  SQLINTEGER first = 0, second = 0;
  OK(SQLBindCol(stmt, 1, SQL_C_SLONG, &first, 0, NULL));
  OK(SQLGetStmtAttrW(stmt, SQL_ATTR_APP_ROW_DESC, &ard, 0, NULL));
  OK_DBC(SQLAllocHandle(SQL_HANDLE_DESC, dbc, &copy));
  OK_ON(SQL_HANDLE_DESC, copy, SQLCopyDesc(ard, copy));
  OK_ON(SQL_HANDLE_DESC, copy, SQLSetDescFieldW(copy, 1, SQL_DESC_DATA_PTR, &second, 0));
  /* Arrays so long that a position in them is out of range. */
  GIVES_ON(SQL_HANDLE_DESC, copy, SQLSetDescFieldW(copy, 0, SQL_DESC_ARRAY_SIZE, (SQLPOINTER)INT64_MAX, 0),
           SQL_ERROR, "HY024");
  REFUSED(SQLSetStmtAttrW(stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)INT64_MAX, 0), "HY024");
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_APP_ROW_DESC, copy, 0));
  run("SELECT 7");
  OK(SQLFetch(stmt));
  CHECK(first == 0 && second == 7);
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_APP_ROW_DESC, NULL, 0));
  OK_ON(SQL_HANDLE_DESC, copy, SQLFreeHandle(SQL_HANDLE_DESC, copy));
  SQLHDESC ird;
  SQLSMALLINT type = 0, count = 0;
  SQLWCHAR name[16];
  OK(SQLGetStmtAttrW(stmt, SQL_ATTR_IMP_ROW_DESC, &ird, 0, NULL));
  OK_ON(SQL_HANDLE_DESC, ird, SQLGetDescFieldW(ird, 0, SQL_DESC_COUNT, &count, 0, NULL));
  CHECK(count == 1);
  OK_ON(SQL_HANDLE_DESC, ird, SQLGetDescRecW(ird, 1, name, 16, NULL, &type, NULL, NULL, NULL, NULL, NULL));
  CHECK(type == SQL_BIGINT && strcmp(narrow(name), "7") == 0);
  CHECK(SQLGetDescRecW(ird, 2, name, 16, NULL, &type, NULL, NULL, NULL, NULL, NULL) == SQL_NO_DATA);
  /* Half of this length would say that NUL ends the name. */
  SQLHDESC ipd;
  OK(SQLGetStmtAttrW(stmt, SQL_ATTR_IMP_PARAM_DESC, &ipd, 0, NULL));
  GIVES_ON(SQL_HANDLE_DESC, ipd, SQLSetDescFieldW(ipd, 1, SQL_DESC_NAME, w("x"), -6), SQL_ERROR, "HY090");
  again();
}

/* The child refuses to work with what its parent has opened, and frees it without harm. */
static void in_a_child(void) {
  run("SELECT 1");
  pid_t child = fork();
  if (child == 0) {
    failures = 0;
    GIVES_ON(SQL_HANDLE_STMT, stmt, SQLFetch(stmt), SQL_ERROR, "08003");
    GIVES_ON(SQL_HANDLE_DBC, dbc, SQLEndTran(SQL_HANDLE_DBC, dbc, SQL_COMMIT), SQL_ERROR, "08003");
    CHECK(SQLFreeHandle(SQL_HANDLE_STMT, stmt) == SQL_SUCCESS);
    CHECK(SQLFreeHandle(SQL_HANDLE_DBC, dbc) == SQL_SUCCESS);
    _exit(failures > 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(SQLFetch(stmt));
  again();
}

/* ---- What is left ---- */

static int descriptors_open(void) {
  DIR *directory = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(directory) != NULL) count++;
  closedir(directory);
  return count;
}

/* Counts mappings of files: those of memory come and go with the heap. */
static int mappings(void) {
  FILE *file = fopen("/proc/self/maps", "r");
  char line[4096];
  int count = 0;
  while (fgets(line, sizeof line, file) != NULL) count += strchr(line, '/') != NULL;
  fclose(file);
  return count;
}

static void use_it_all(void) {
  SQLHDBC connection;
  SQLHSTMT one;
  open_connection(&connection);
  OK_ON(SQL_HANDLE_DBC, connection, SQLAllocHandle(SQL_HANDLE_STMT, connection, &one));
  OK_ON(SQL_HANDLE_STMT, one,
        SQLExecDirectW(one,
                       w("CREATE TEMPORARY TABLE left_over AS SELECT i, 'text ' || i AS t, [i] AS l FROM "
                         "range(1000) AS r (i)"),
                       SQL_NTS));
  OK_ON(SQL_HANDLE_STMT, one, SQLFreeStmt(one, SQL_CLOSE));
  for (int i = 0; i < 10; i++) {
    OK_ON(SQL_HANDLE_STMT, one, SQLExecDirectW(one, w("SELECT * FROM left_over; SELECT 2"), SQL_NTS));
    OK_ON(SQL_HANDLE_STMT, one, SQLFetch(one));
    if (i % 2 == 0) OK_ON(SQL_HANDLE_STMT, one, SQLMoreResults(one));
    OK_ON(SQL_HANDLE_STMT, one, SQLFreeStmt(one, SQL_CLOSE));
    CHECK(SQLExecDirectW(one, w("SELECT missing"), SQL_NTS) == SQL_ERROR);
  }
  /* The result of a statement is open when the connection ends. */
  OK_ON(SQL_HANDLE_STMT, one, SQLExecDirectW(one, w("SELECT * FROM left_over"), SQL_NTS));
  OK_ON(SQL_HANDLE_DBC, connection, SQLDisconnect(connection));
  OK_ON(SQL_HANDLE_DBC, connection, SQLFreeHandle(SQL_HANDLE_DBC, connection));
}

static void leaves_nothing(void) {
  for (int i = 0; i < 3; i++) use_it_all();
  int files = descriptors_open(), mapped = mappings();
  for (int i = 0; i < 20; i++) use_it_all();
  /* One or two may come and go with threads of the database. */
  if (descriptors_open() > files + 2 || mappings() > mapped + 4) {
    fprintf(stderr, "%d descriptors were %d, %d mappings were %d\n", descriptors_open(), files, mappings(),
            mapped);
    failures++;
  }
}

int main(int argc, char **argv) {
  begin(argc, argv);
  freed_handles();
  sequences();
  descriptors();
  /* valgrind has descriptors of its own, and follows no child. */
  if (getenv("HYPOSTYLE_TEST_UNDER_VALGRIND") == NULL) {
    leaves_nothing();
    in_a_child();
  } else {
    use_it_all();
  }
  return end();
}
