/* Statements, parameters of each type, rows one by one, errors. */
#include "check.h"

#include <math.h>

static void versions(void) {
  CHECK(hypostyle_abi() >= HYPOSTYLE_ABI);
  CHECK(strchr(hypostyle_version(), '.') != NULL);
}

/* Binds a value to the one parameter of a statement, and compares its first value as text. */
static void bound(const char *sql, hypostyle_value value, const char *expected) {
  hypostyle_statement *statement = NULL;
  hypostyle_result *result = NULL;
  const char *text = NULL;
  size_t length = 0;
  int32_t has_row = 0;
  OK(hypostyle_prepare(connection, sql, HYPOSTYLE_NUL, &statement, &error));
  CHECK(hypostyle_statement_parameters(statement) == 1);
  OK(hypostyle_bind(statement, 0, &value, &error));
  OK(hypostyle_statement_execute(statement, &result, &error));
  hypostyle_statement_free(&statement);
  OK(hypostyle_result_step(result, &has_row, &error));
  OK(hypostyle_row_text(result, 0, &text, &length, &error));
  if (strcmp(text == NULL ? "NULL" : text, expected) != 0) {
    fprintf(stderr, "%s: %s\n", sql, text);
    failures++;
  }
  CHECK(length == (text == NULL ? 0 : strlen(text)));
  hypostyle_result_free(&result);
}

static void parameters_of_each_type(void) {
  hypostyle_value value;
  bound("SELECT ?::INTEGER", of(HYPOSTYLE_NULL), "NULL");
  bound("SELECT ?::BOOLEAN", integer(HYPOSTYLE_BOOLEAN, 1), "true");
  bound("SELECT ? + 1", integer(HYPOSTYLE_TINYINT, -5), "-4");
  bound("SELECT ?::BIGINT", integer(HYPOSTYLE_SMALLINT, -300), "-300");
  bound("SELECT ? * 2", integer(HYPOSTYLE_INTEGER, 70000), "140000");
  bound("SELECT $1", integer(HYPOSTYLE_BIGINT, INT64_MIN), "-9223372036854775808");
  bound("SELECT ?::BIGINT", integer(HYPOSTYLE_UTINYINT, 255), "255");
  bound("SELECT ?::BIGINT", integer(HYPOSTYLE_USMALLINT, 65535), "65535");
  bound("SELECT ?::BIGINT", integer(HYPOSTYLE_UINTEGER, 4294967295), "4294967295");
  bound("SELECT ?::UBIGINT", integer(HYPOSTYLE_UBIGINT, -1), "18446744073709551615");
  bound("SELECT ?::DOUBLE", number(HYPOSTYLE_FLOAT, 0.5), "0.5");
  bound("SELECT ? / 2", number(HYPOSTYLE_DOUBLE, 3.0), "1.5");
  bound("SELECT ? || '!'", data(HYPOSTYLE_VARCHAR, "text", HYPOSTYLE_NUL), "text!");
  bound("SELECT ? || '!'", data(HYPOSTYLE_VARCHAR, "text", 2), "te!");
  bound("SELECT ? || '!'", data(HYPOSTYLE_VARCHAR, NULL, 0), "!");
  bound("SELECT $name", data(HYPOSTYLE_VARCHAR, "\xc3\xa4", HYPOSTYLE_NUL), "\xc3\xa4");
  bound("SELECT octet_length(?::BLOB)", data(HYPOSTYLE_BLOB, "a\0b", 3), "3");
  bound("SELECT ?::DATE", integer(HYPOSTYLE_DATE, 365), "1971-01-01");
  bound("SELECT ?::TIME", integer(HYPOSTYLE_TIME, 3600000000), "01:00:00");
  value = integer(HYPOSTYLE_TIMESTAMP, 86400);
  bound("SELECT ?::TIMESTAMP", value, "1970-01-02 00:00:00");
  value.scale = 6;
  value.integer = 86400000001;
  bound("SELECT ?::TIMESTAMP", value, "1970-01-02 00:00:00.000001");
  value = integer(HYPOSTYLE_DECIMAL, 12345);
  value.scale = 2;
  bound("SELECT ?::DECIMAL(9,2)", value, "123.45");
  value.integer = -12345;
  value.high = -1;
  bound("SELECT ?::DECIMAL(9,2)", value, "-123.45");
  value = of(HYPOSTYLE_INTERVAL);
  value.high = ((int64_t)3 << 32) | 14;
  bound("SELECT (TIMESTAMP '2000-01-01 00:00:00' + ?::INTERVAL)::DATE::VARCHAR", value, "2001-03-04");
  bound("SELECT ?::UUID", data(HYPOSTYLE_UUID, "\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x78", 16),
        "12345678-1234-5678-1234-567812345678");
}

static void values_that_do_not_fit(void) {
  hypostyle_statement *statement = NULL;
  hypostyle_value value = integer(HYPOSTYLE_TINYINT, 128);
  OK(hypostyle_prepare(connection, "SELECT ?", HYPOSTYLE_NUL, &statement, &error));
  REFUSED(hypostyle_bind(statement, 0, &value, &error), HYPOSTYLE_INVALID_INPUT, "22003");
  value = integer(HYPOSTYLE_DATE, INT64_MAX);
  REFUSED(hypostyle_bind(statement, 0, &value, &error), HYPOSTYLE_INVALID_INPUT, "22003");
  value = integer(HYPOSTYLE_TIME, -1);
  REFUSED(hypostyle_bind(statement, 0, &value, &error), HYPOSTYLE_INVALID_INPUT, "22008");
  value = integer(HYPOSTYLE_TIME, INT64_C(86400000001));
  REFUSED(hypostyle_bind(statement, 0, &value, &error), HYPOSTYLE_INVALID_INPUT, "22008");
  value = number(HYPOSTYLE_FLOAT, -1e39);
  REFUSED(hypostyle_bind(statement, 0, &value, &error), HYPOSTYLE_INVALID_INPUT, "22003");
  value = of(HYPOSTYLE_DECIMAL);
  value.high = INT64_MIN;
  REFUSED(hypostyle_bind(statement, 0, &value, &error), HYPOSTYLE_INVALID_INPUT, "22003");
  value = data(HYPOSTYLE_VARCHAR, "\xff", 1);
  REFUSED(hypostyle_bind(statement, 0, &value, &error), HYPOSTYLE_INVALID_INPUT, "22021");
  value = data(HYPOSTYLE_UUID, "short", 5);
  MISUSE(hypostyle_bind(statement, 0, &value, &error));
  value = integer(HYPOSTYLE_TIMESTAMP, 0);
  value.scale = 4;
  MISUSE(hypostyle_bind(statement, 0, &value, &error));
  value = of(HYPOSTYLE_LIST);
  MISUSE(hypostyle_bind(statement, 0, &value, &error));
  value = of(999);
  MISUSE(hypostyle_bind(statement, 0, &value, &error));
  value = of(HYPOSTYLE_BIGINT);
  MISUSE(hypostyle_bind(statement, 1, &value, &error));
  value.size = 8;
  MISUSE(hypostyle_bind(statement, 0, &value, &error));
  /* Nothing was bound. */
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), HYPOSTYLE_INVALID_INPUT, "07002");
  value = integer(HYPOSTYLE_BIGINT, 1);
  OK(hypostyle_bind(statement, 0, &value, &error));
  OK(hypostyle_statement_execute(statement, NULL, &error));
  OK(hypostyle_clear_bindings(statement, &error));
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), HYPOSTYLE_INVALID_INPUT, "07002");
  hypostyle_statement_free(&statement);
}

static void descriptions(void) {
  hypostyle_statement *statement = NULL;
  SIZED(hypostyle_column, column);
  struct ArrowSchema schema;
  size_t index = 9;
  do_sql("CREATE TABLE described (a INTEGER, b DECIMAL(9,2) NOT NULL, c VARCHAR)");
  OK(hypostyle_prepare(connection, "INSERT INTO described VALUES ($a, $b, $a)", HYPOSTYLE_NUL, &statement, &error));
  CHECK(hypostyle_statement_kind(statement) == HYPOSTYLE_KIND_INSERT);
  CHECK(hypostyle_statement_parameters(statement) == 2);
  OK(hypostyle_statement_parameter_index(statement, "b", HYPOSTYLE_NUL, &index, &error));
  CHECK(index == 1);
  REFUSED(hypostyle_statement_parameter_index(statement, "x", 1, &index, &error), HYPOSTYLE_UNKNOWN_NAME, "42P02");
  OK(hypostyle_statement_parameter(statement, 1, &column, &error));
  CHECK(column.size == sizeof column && strcmp(column.name, "b") == 0 && column.name_length == 1);
  CHECK(column.type == HYPOSTYLE_DECIMAL && column.precision == 9 && column.scale == 2);
  CHECK(strcmp(column.type_name, "DECIMAL(9,2)") == 0 && column.type_name_length == strlen(column.type_name));
  MISUSE(hypostyle_statement_parameter(statement, 2, &column, &error));
  hypostyle_statement_free(&statement);
  CHECK(statement == NULL);

  OK(hypostyle_prepare(connection, "SELECT a, b FROM described WHERE c = ?", HYPOSTYLE_NUL, &statement, &error));
  CHECK(hypostyle_statement_kind(statement) == HYPOSTYLE_KIND_QUERY);
  OK(hypostyle_statement_parameter(statement, 0, &column, &error));
  CHECK(column.name == NULL && column.type == HYPOSTYLE_VARCHAR);
  OK(hypostyle_statement_schema(statement, &schema, &error));
  CHECK(schema.n_children == 2 && strcmp(schema.children[0]->name, "a") == 0);
  schema.release(&schema);
  hypostyle_statement_free(&statement);

  /* Errors come when the database is asked. */
  OK(hypostyle_prepare(connection, "SELEC ?", HYPOSTYLE_NUL, &statement, &error));
  CHECK(hypostyle_statement_parameter(statement, 0, &column, &error) == HYPOSTYLE_SYNTAX);
  CHECK(hypostyle_error_position(error) == 1 || hypostyle_error_position(error) == 0);
  hypostyle_error_free(&error);
  hypostyle_statement_free(&statement);
}

static void kinds(void) {
  static const struct {
    const char *sql;
    int32_t kind;
  } cases[] = {
      {"-- x\n select 1", HYPOSTYLE_KIND_QUERY},
      {"values (1)", HYPOSTYLE_KIND_QUERY},
      {"update t set a = 1", HYPOSTYLE_KIND_UPDATE},
      {"with x as (select 1) delete from t", HYPOSTYLE_KIND_DELETE},
      {"merge into t using u on true when matched then delete", HYPOSTYLE_KIND_MERGE},
      {"copy t to 'x'", HYPOSTYLE_KIND_COPY},
      {"create table t (a integer)", HYPOSTYLE_KIND_DEFINITION},
      {"begin", HYPOSTYLE_KIND_TRANSACTION},
      {"set x = 1", HYPOSTYLE_KIND_OTHER},
      {"select 1; select 2", HYPOSTYLE_KIND_OTHER},
      {"", HYPOSTYLE_KIND_OTHER},
  };
  for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
    hypostyle_statement *statement = NULL;
    OK(hypostyle_prepare(connection, cases[index].sql, HYPOSTYLE_NUL, &statement, &error));
    if (hypostyle_statement_kind(statement) != cases[index].kind) {
      fprintf(stderr, "%s: %d\n", cases[index].sql, (int)hypostyle_statement_kind(statement));
      failures++;
    }
    hypostyle_statement_free(&statement);
  }
}

static void texts_of_several_statements(void) {
  const char *sql = " SELECT ';' ; -- a comment;\n;; INSERT INTO t VALUES (1)  ;SELECT 2 -- the end\n";
  static const char *const expected[] = {"SELECT ';'", "INSERT INTO t VALUES (1)", "SELECT 2"};
  size_t start = 0, length = 0, count = 0;
  const char *statement = NULL;
  for (;;) {
    OK(hypostyle_next_statement(sql, HYPOSTYLE_NUL, &start, &statement, &length, &error));
    if (length == 0) break;
    CHECK(count < 3 && length == strlen(expected[count]) && strncmp(statement, expected[count], length) == 0);
    CHECK(statement >= sql && statement + length <= sql + strlen(sql));
    count++;
  }
  CHECK(count == 3);
  start = 1000;
  MISUSE(hypostyle_next_statement(sql, HYPOSTYLE_NUL, &start, &statement, &length, &error));
}

static void rows(void) {
  hypostyle_result *result = run(
      "SELECT * FROM (VALUES (1, 1.5::DOUBLE, 'one', 2.00::DECIMAL(5,2), true),"
      " (NULL, NULL, NULL, NULL, NULL), (3, 'NaN'::DOUBLE, 'th' || chr(0) || 'ree', -2.5, false)) AS t (a, b, c, d, e)");
  int32_t has_row = 0;
  int64_t integer = 0;
  double number = 0;
  const char *text = NULL, *again = NULL;
  const void *bytes = NULL;
  size_t length = 0;
  uint64_t count = 0;
  SIZED(hypostyle_column, column);
  CHECK(hypostyle_result_columns(result) == 5 && hypostyle_result_rows_affected(result) == -1);
  OK(hypostyle_result_column(result, 2, &column, &error));
  CHECK(strcmp(column.name, "c") == 0 && column.type == HYPOSTYLE_VARCHAR && strcmp(column.type_name, "VARCHAR") == 0);
  MISUSE(hypostyle_result_column(result, 5, &column, &error));
  OK(hypostyle_result_row_count(result, &count, &error));
  CHECK(count == 3);
  /* Before the first row there is none. */
  CHECK(hypostyle_row_is_null(result, 0) == -1);
  MISUSE(hypostyle_row_int64(result, 0, &integer, &error));
  OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(has_row == 1 && hypostyle_row_is_null(result, 0) == 0 && hypostyle_row_is_null(result, 5) == -1);
  OK(hypostyle_row_int64(result, 0, &integer, &error));
  CHECK(integer == 1);
  OK(hypostyle_row_int64(result, 4, &integer, &error));
  CHECK(integer == 1);
  OK(hypostyle_row_double(result, 1, &number, &error));
  CHECK(number == 1.5);
  OK(hypostyle_row_double(result, 3, &number, &error));
  CHECK(number == 2.0);
  OK(hypostyle_row_text(result, 2, &text, &length, &error));
  CHECK(length == 3 && strcmp(text, "one") == 0);
  OK(hypostyle_row_text(result, 3, &again, &length, &error));
  CHECK(strcmp(again, "2.00") == 0 && strcmp(text, "one") == 0);
  OK(hypostyle_row_text(result, 2, &again, &length, &error));
  CHECK(again == text);
  REFUSED(hypostyle_row_int64(result, 2, &integer, &error), HYPOSTYLE_INVALID_INPUT, "22018");
  REFUSED(hypostyle_row_int64(result, 3, &integer, &error), HYPOSTYLE_INVALID_INPUT, "22018");
  REFUSED(hypostyle_row_double(result, 2, &number, &error), HYPOSTYLE_INVALID_INPUT, "22018");
  REFUSED(hypostyle_row_bytes(result, 0, &bytes, &length, &error), HYPOSTYLE_INVALID_INPUT, "22018");
  MISUSE(hypostyle_row_int64(result, 5, &integer, &error));
  OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(hypostyle_row_is_null(result, 0) == 1 && hypostyle_row_is_null(result, 2) == 1);
  OK(hypostyle_row_int64(result, 0, &integer, &error));
  CHECK(integer == 0);
  OK(hypostyle_row_double(result, 1, &number, &error));
  CHECK(isnan(number));
  OK(hypostyle_row_text(result, 2, &text, &length, &error));
  CHECK(text == NULL && length == 0);
  OK(hypostyle_row_bytes(result, 2, &bytes, &length, &error));
  CHECK(bytes == NULL && length == 0);
  OK(hypostyle_result_step(result, &has_row, &error));
  OK(hypostyle_row_text(result, 2, &text, &length, &error));
  CHECK(length == 6 && memcmp(text, "th\0ree", 7) == 0);
  OK(hypostyle_row_bytes(result, 2, &bytes, &length, &error));
  CHECK(length == 6 && memcmp(bytes, "th\0ree", 6) == 0);
  OK(hypostyle_row_double(result, 1, &number, &error));
  CHECK(isnan(number) && hypostyle_row_is_null(result, 1) == 0);
  OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(has_row == 0);
  OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(has_row == 0 && hypostyle_row_is_null(result, 0) == -1);
  hypostyle_result_free(&result);
}

static void texts_of_each_type(void) {
  SAYS("SELECT true", "true");
  SAYS("SELECT 1.10::DECIMAL(4,2)", "1.10");
  SAYS("SELECT DATE '2024-02-29'", "2024-02-29");
  SAYS("SELECT TIME '01:02:03.5'", "01:02:03.500");
  SAYS("SELECT TIMESTAMP '2024-02-29 01:02:03'", "2024-02-29 01:02:03");
  SAYS("SELECT INTERVAL '1 day 2 hours'", "1 day 02:00:00");
  SAYS("SELECT '12345678-1234-5678-1234-567812345678'::UUID", "12345678-1234-5678-1234-567812345678");
  SAYS("SELECT '{\"a\":1}'::JSON", "{\"a\":1}");
  SAYS("SELECT [1, 2]", "[1, 2]");
  SAYS("SELECT NULL", "NULL");
}

static void errors(void) {
  hypostyle_result *result = NULL;
  REFUSED(hypostyle_execute(connection, "SELECT * FROM nowhere", HYPOSTYLE_NUL, &result, &error),
          HYPOSTYLE_UNKNOWN_NAME, "42P01");
  CHECK(result == NULL);
  REFUSED(hypostyle_execute(connection, "SELECT 1 +", HYPOSTYLE_NUL, &result, &error), HYPOSTYLE_SYNTAX, "42601");
  /* Without a slot there is the status alone. */
  CHECK(hypostyle_execute(connection, "SELECT * FROM nowhere", HYPOSTYLE_NUL, &result, NULL) == HYPOSTYLE_UNKNOWN_NAME);
  do_sql("CREATE TABLE keys (a INTEGER PRIMARY KEY)");
  result = run("INSERT INTO keys VALUES (1), (2)");
  CHECK(hypostyle_result_rows_affected(result) == 2 && hypostyle_result_columns(result) == 0);
  hypostyle_result_free(&result);
  REFUSED(hypostyle_execute(connection, "INSERT INTO keys VALUES (1)", HYPOSTYLE_NUL, NULL, &error),
          HYPOSTYLE_CONSTRAINT, "23505");
  /* An error of a value comes when it is computed. */
  REFUSED(hypostyle_execute(connection, "SELECT 1 / (a - 1) FROM keys", HYPOSTYLE_NUL, NULL, &error),
          HYPOSTYLE_INVALID_INPUT, "22012");
  CHECK(hypostyle_session_id(connection) > 0);
}

static void transactions(void) {
  do_sql("CREATE TABLE t (a INTEGER)");
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_NO_TRANSACTION);
  REFUSED(hypostyle_commit(connection, &error), HYPOSTYLE_TRANSACTION_STATE, "HY010");
  OK(hypostyle_set_autocommit(connection, 0, &error));
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_NO_TRANSACTION);
  do_sql("INSERT INTO t VALUES (1)");
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_IN_TRANSACTION);
  OK(hypostyle_rollback(connection, &error));
  SAYS("SELECT count(*) FROM t", "0");
  do_sql("INSERT INTO t VALUES (1)");
  OK(hypostyle_commit(connection, &error));
  CHECK(hypostyle_execute(connection, "SELECT nothing FROM t", HYPOSTYLE_NUL, NULL, NULL) != HYPOSTYLE_OK);
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_FAILED_TRANSACTION);
  REFUSED(hypostyle_execute(connection, "SELECT 1", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_TRANSACTION_STATE, "25P02");
  OK(hypostyle_rollback(connection, &error));
  do_sql("INSERT INTO t VALUES (2)");
  OK(hypostyle_set_autocommit(connection, 1, &error));
  SAYS("SELECT count(*) FROM t", "2");
}

int main(int argc, char **argv) {
  begin(argc, argv);
  versions();
  parameters_of_each_type();
  values_that_do_not_fit();
  descriptions();
  kinds();
  texts_of_several_statements();
  rows();
  texts_of_each_type();
  errors();
  transactions();
  return finish();
}
