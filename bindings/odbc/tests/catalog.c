/* Catalog functions: their columns, patterns, lists and special cases. */
#include "check.h"

/* Columns that a function's result has, by ODBC's names. */
static void has_columns(const char *function, const char *const *names, int count) {
  SQLSMALLINT found = 0;
  OK(SQLNumResultCols(stmt, &found));
  if (found != count) fprintf(stderr, "%s has %d columns\n", function, found), failures++;
  for (int i = 0; i < count && i < found; i++) {
    SQLWCHAR name[64];
    OK(SQLDescribeColW(stmt, (SQLUSMALLINT)(i + 1), name, 64, NULL, NULL, NULL, NULL, NULL));
    if (strcmp(narrow(name), names[i]) == 0) continue;
    fprintf(stderr, "%s: the column %d is %s, not %s\n", function, i + 1, narrow(name), names[i]);
    failures++;
  }
}
#define HAS_COLUMNS(function, ...)                                                                           \
  do {                                                                                                       \
    static const char *const names_[] = {__VA_ARGS__};                                                       \
    has_columns(function, names_, sizeof names_ / sizeof *names_);                                           \
  } while (0)

/* Joins some columns of all rows: "a b|c d". NULL is -. */
static const char *rows(const int *columns, int count) {
  static char out[8192];
  size_t length = 0;
  out[0] = '\0';
  while (SQLFetch(stmt) == SQL_SUCCESS) {
    if (length > 0) length += (size_t)snprintf(out + length, sizeof out - length, "|");
    for (int i = 0; i < count; i++) {
      char value[256];
      SQLLEN told = 0;
      OK(SQLGetData(stmt, (SQLUSMALLINT)columns[i], SQL_C_CHAR, value, sizeof value, &told));
      length += (size_t)snprintf(out + length, sizeof out - length, "%s%s", i > 0 ? " " : "",
                                 told == SQL_NULL_DATA ? "-" : value);
    }
  }
  OK(SQLCloseCursor(stmt));
  return out;
}
#define ROWS(...) rows((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void same(const char *found, const char *wanted, int line) {
  if (strcmp(found, wanted) == 0) return;
  fprintf(stderr, "%s:%d: %s\n  wanted %s\n", __FILE__, line, found, wanted);
  failures++;
}
#define SAME(found, wanted) same((found), (wanted), __LINE__)

static SQLWCHAR *nts(const char *text) { return text == NULL ? NULL : w(text); }

static void tables_like(const char *catalog, const char *schema, const char *table, const char *types) {
  OK(SQLTablesW(stmt, nts(catalog), SQL_NTS, nts(schema), SQL_NTS, nts(table), SQL_NTS, nts(types), SQL_NTS));
}

static void tables(void) {
  tables_like(NULL, "shop", "%", NULL);
  HAS_COLUMNS("SQLTables", "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS");
  SAME(ROWS(2, 3, 4),
       "shop kept MATERIALIZED VIEW|shop customer TABLE|shop item TABLE|shop orderXitem TABLE|shop order_item TABLE|shop cheap VIEW");
  tables_like(NULL, "shop", "order\\_item", NULL);
  SAME(ROWS(3), "order_item");
  tables_like(NULL, "shop", "order_item", NULL);
  SAME(ROWS(3), "orderXitem|order_item");
  tables_like(NULL, "sho_", "%", "'VIEW'");
  SAME(ROWS(3), "cheap");
  tables_like(NULL, "shop", "kept", "'MATERIALIZED VIEW'");
  SAME(ROWS(3), "kept");
  tables_like(NULL, "shop", "item", NULL);
  SAME(ROWS(3, 5), "item what is sold");
  tables_like(NULL, "shop", "c%", "TABLE, VIEW");
  SAME(ROWS(3), "customer|cheap");
  tables_like(NULL, "shop", "it's", "TABLE,''");
  SAME(ROWS(3), "");
  tables_like(NULL, "nowhere", NULL, NULL);
  SAME(ROWS(3), "");
  tables_like("", "", "", "%");
  SAME(ROWS(4), "LOCAL TEMPORARY|MATERIALIZED VIEW|SYSTEM TABLE|TABLE|VIEW");
  tables_like("", "%", "", "");
  CHECK(strstr(ROWS(2), "shop") != NULL);
  tables_like("%", "", "", "");
  CHECK(strlen(ROWS(1)) > 0);
  tables_like(NULL, "information_schema", "columns", "SYSTEM TABLE");
  SAME(ROWS(3), "columns");
  /* Identifiers instead of patterns. */
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_METADATA_ID, (SQLPOINTER)SQL_TRUE, 0));
  tables_like(NULL, "SHOP", "ORDER_ITEM", NULL);
  SAME(ROWS(3), "order_item");
  tables_like(NULL, "shop", "\"orderXitem\"", NULL);
  SAME(ROWS(3), "orderXitem");
  OK(SQLSetStmtAttrW(stmt, SQL_ATTR_METADATA_ID, (SQLPOINTER)SQL_FALSE, 0));
  REFUSED(SQLTablesW(stmt, w("x"), -5, NULL, 0, NULL, 0, NULL, 0), "HY090");
}

static void columns(void) {
  OK(SQLColumnsW(stmt, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS, NULL, 0));
  HAS_COLUMNS("SQLColumns", "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME",
              "COLUMN_SIZE", "BUFFER_LENGTH", "DECIMAL_DIGITS", "NUM_PREC_RADIX", "NULLABLE", "REMARKS",
              "COLUMN_DEF", "SQL_DATA_TYPE", "SQL_DATETIME_SUB", "CHAR_OCTET_LENGTH", "ORDINAL_POSITION",
              "IS_NULLABLE");
  SAME(ROWS(4, 5, 6, 9, 11, 13, 14, 15, 17, 18),
       "id 4 INTEGER 0 0 - 4 - 1 NO|name -9 VARCHAR - 0 - -9 - 2 NO|credit 3 DECIMAL 2 1 0 3 - 3 YES|"
       "since 93 TIMESTAMP 6 1 - 9 3 4 YES|born 91 DATE - 1 - 9 1 5 YES|secret -3 BLOB - 1 - -3 - 6 YES|"
       "score 8 DOUBLE - 1 - 8 - 7 YES|tags -10 ARRAY - 1 - -10 - 8 YES|key -11 UUID - 1 - -11 - 9 YES");
  OK(SQLColumnsW(stmt, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS, w("s%"), SQL_NTS));
  SAME(ROWS(4), "since|secret|score");
  OK(SQLColumnsW(stmt, NULL, 0, w("shop"), SQL_NTS, w("cheap"), SQL_NTS, NULL, 0));
  SAME(ROWS(4, 6, 7), "id BIGINT 19|price DECIMAL 10");
  OK(SQLColumnsW(stmt, NULL, 0, w("shop"), SQL_NTS, w("item"), SQL_NTS, NULL, 0));
  SAME(ROWS(4, 12), "id -|price with tax");
  OK(SQLColumnsW(stmt, NULL, 0, w("shop"), SQL_NTS, w("kept"), SQL_NTS, NULL, 0));
  SAME(ROWS(4, 5, 6, 7, 9, 17), "one -5 BIGINT 19 0 1|text -9 VARCHAR 65535 - 2|total 3 DECIMAL 9 2 3|"
                                "point 93 TIMESTAMP 26 6 4|list -10 ARRAY 65535 - 5");
  /* What the catalog says of a column is what a result says of it. */
  OK(SQLColumnsW(stmt, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS, NULL, 0));
  SQLSMALLINT types[9];
  for (int i = 0; i < 9; i++) {
    OK(SQLFetch(stmt));
    OK(SQLGetData(stmt, 5, SQL_C_SSHORT, &types[i], 0, NULL));
  }
  OK(SQLCloseCursor(stmt));
  run("SELECT * FROM shop.customer");
  for (int i = 0; i < 9; i++) {
    SQLLEN type = 0;
    OK(SQLColAttributeW(stmt, (SQLUSMALLINT)(i + 1), SQL_DESC_CONCISE_TYPE, NULL, 0, NULL, &type));
    CHECK(type == types[i]);
  }
  OK(SQLCloseCursor(stmt));
}

static void keys(void) {
  OK(SQLPrimaryKeysW(stmt, NULL, 0, w("shop"), SQL_NTS, w("order_item"), SQL_NTS));
  HAS_COLUMNS("SQLPrimaryKeys", "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "KEY_SEQ",
              "PK_NAME");
  SAME(ROWS(3, 4, 5), "order_item customer 1|order_item item 2");
  REFUSED(SQLPrimaryKeysW(stmt, NULL, 0, NULL, 0, NULL, 0), "HY009");
  OK(SQLForeignKeysW(stmt, NULL, 0, NULL, 0, NULL, 0, NULL, 0, w("shop"), SQL_NTS, w("order_item"), SQL_NTS));
  HAS_COLUMNS("SQLForeignKeys", "PKTABLE_CAT", "PKTABLE_SCHEM", "PKTABLE_NAME", "PKCOLUMN_NAME",
              "FKTABLE_CAT", "FKTABLE_SCHEM", "FKTABLE_NAME", "FKCOLUMN_NAME", "KEY_SEQ", "UPDATE_RULE",
              "DELETE_RULE", "FK_NAME", "PK_NAME", "DEFERRABILITY");
  SAME(ROWS(3, 4, 7, 8, 9, 10, 11), "customer id order_item customer 1 3 0|item id order_item item 1 3 3");
  OK(SQLForeignKeysW(stmt, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS, NULL, 0, NULL, 0, NULL, 0));
  SAME(ROWS(7, 8), "order_item customer");
  REFUSED(SQLForeignKeysW(stmt, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0), "HY009");
  OK(SQLStatisticsW(stmt, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS, SQL_INDEX_ALL, SQL_QUICK));
  HAS_COLUMNS("SQLStatistics", "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "NON_UNIQUE", "INDEX_QUALIFIER",
              "INDEX_NAME", "TYPE", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC", "CARDINALITY", "PAGES",
              "FILTER_CONDITION");
  SAME(ROWS(4, 8, 9), "0 1 name|0 1 id");
  OK(SQLSpecialColumnsW(stmt, SQL_BEST_ROWID, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS,
                        SQL_SCOPE_SESSION, SQL_NULLABLE));
  HAS_COLUMNS("SQLSpecialColumns", "SCOPE", "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE",
              "BUFFER_LENGTH", "DECIMAL_DIGITS", "PSEUDO_COLUMN");
  SAME(ROWS(2, 3, 4), "id 4 INTEGER");
  OK(SQLSpecialColumnsW(stmt, SQL_ROWVER, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS,
                        SQL_SCOPE_SESSION, SQL_NULLABLE));
  SAME(ROWS(2), "");
}

static void others(void) {
  OK(SQLTablePrivilegesW(stmt, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS));
  HAS_COLUMNS("SQLTablePrivileges", "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "GRANTOR", "GRANTEE",
              "PRIVILEGE", "IS_GRANTABLE");
  CHECK(strstr(ROWS(6), "SELECT") != NULL);
  OK(SQLColumnPrivilegesW(stmt, NULL, 0, w("shop"), SQL_NTS, w("customer"), SQL_NTS, w("id"), SQL_NTS));
  HAS_COLUMNS("SQLColumnPrivileges", "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "GRANTOR",
              "GRANTEE", "PRIVILEGE", "IS_GRANTABLE");
  CHECK(strstr(ROWS(4, 7), "id SELECT") != NULL);
  OK(SQLProceduresW(stmt, NULL, 0, NULL, 0, NULL, 0));
  HAS_COLUMNS("SQLProcedures", "PROCEDURE_CAT", "PROCEDURE_SCHEM", "PROCEDURE_NAME", "NUM_INPUT_PARAMS",
              "NUM_OUTPUT_PARAMS", "NUM_RESULT_SETS", "REMARKS", "PROCEDURE_TYPE");
  SAME(ROWS(3), "");
  OK(SQLProcedureColumnsW(stmt, NULL, 0, NULL, 0, NULL, 0, NULL, 0));
  SAME(ROWS(3), "");
  OK(SQLGetTypeInfoW(stmt, SQL_ALL_TYPES));
  HAS_COLUMNS("SQLGetTypeInfo", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "LITERAL_PREFIX", "LITERAL_SUFFIX",
              "CREATE_PARAMS", "NULLABLE", "CASE_SENSITIVE", "SEARCHABLE", "UNSIGNED_ATTRIBUTE",
              "FIXED_PREC_SCALE", "AUTO_UNIQUE_VALUE", "LOCAL_TYPE_NAME", "MINIMUM_SCALE", "MAXIMUM_SCALE",
              "SQL_DATA_TYPE", "SQL_DATETIME_SUB", "NUM_PREC_RADIX", "INTERVAL_PRECISION");
  /* By DATA_TYPE. */
  int last = -100, count = 0;
  while (SQLFetch(stmt) == SQL_SUCCESS) {
    SQLSMALLINT type = 0;
    OK(SQLGetData(stmt, 2, SQL_C_SSHORT, &type, 0, NULL));
    CHECK(type >= last);
    last = type;
    count++;
  }
  CHECK(count == 24);
  OK(SQLCloseCursor(stmt));
  OK(SQLGetTypeInfoW(stmt, SQL_DECIMAL));
  SAME(ROWS(1, 2, 3, 6, 15), "DECIMAL 3 76 precision,scale 76");
  OK(SQLGetTypeInfoW(stmt, SQL_INTERVAL_DAY));
  SAME(ROWS(1), "");
  REFUSED(SQLGetTypeInfoW(stmt, 4711), "HY004");
}

int main(int argc, char **argv) {
  begin(argc, argv);
  run("DROP SCHEMA IF EXISTS shop CASCADE");
  run("CREATE SCHEMA shop");
  run("CREATE TABLE shop.customer (id INTEGER PRIMARY KEY, name VARCHAR(30) NOT NULL UNIQUE, credit "
      "DECIMAL(9, 2) DEFAULT 0, "
      "since TIMESTAMP, born DATE, secret BLOB, score DOUBLE, tags VARCHAR[], key UUID)");
  run("CREATE TABLE shop.item (id BIGINT PRIMARY KEY, price DECIMAL(10, 2))");
  run("CREATE TABLE shop.order_item (customer INTEGER REFERENCES shop.customer (id) ON DELETE CASCADE, "
      "item BIGINT REFERENCES shop.item (id), PRIMARY KEY (customer, item))");
  run("CREATE TABLE shop.\"orderXitem\" (a INTEGER)");
  run("CREATE VIEW shop.cheap AS SELECT * FROM shop.item WHERE price < 10");
  run("CREATE MATERIALIZED VIEW shop.kept AS SELECT 1 AS one, 'x' AS text, 1.5::DECIMAL(9, 2) AS total, "
      "TIMESTAMP '2026-01-31 01:02:03' AS point, [1] AS list");
  run("COMMENT ON TABLE shop.item IS 'what is sold'");
  run("COMMENT ON COLUMN shop.item.price IS 'with tax'");
  tables();
  columns();
  keys();
  others();
  run("DROP SCHEMA shop CASCADE");
  return end();
}
