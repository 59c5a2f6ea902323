/* A database of PostgreSQL: parameters, results, rows that are appended, transactions, what is refused. */
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

static hypostyle_result *with_value(const char *sql, hypostyle_value value) {
  hypostyle_statement *statement = NULL;
  hypostyle_result *result = NULL;
  OK(hypostyle_prepare(connection, sql, HYPOSTYLE_NUL, &statement, &error));
  OK(hypostyle_bind(statement, 0, &value, &error));
  OK(hypostyle_statement_execute(statement, &result, &error));
  hypostyle_statement_free(&statement);
  return result;
}

/* Binds a value to the one parameter of a statement, and compares its first value as text. */
static void bound(const char *sql, hypostyle_value value, const char *expected) {
  hypostyle_result *result = with_value(sql, value);
  const char *text = NULL;
  size_t length = 0;
  int32_t has_row = 0;
  OK(hypostyle_result_step(result, &has_row, &error));
  OK(hypostyle_row_text(result, 0, &text, &length, &error));
  if (strcmp(text == NULL ? "NULL" : text, expected) != 0) {
    fprintf(stderr, "%s: %s\n", sql, text == NULL ? "NULL" : text);
    failures++;
  }
  hypostyle_result_free(&result);
}

static void not_bound(const char *sql, hypostyle_value value, hypostyle_status status, const char *state) {
  hypostyle_statement *statement = NULL;
  OK(hypostyle_prepare(connection, sql, HYPOSTYLE_NUL, &statement, &error));
  OK(hypostyle_bind(statement, 0, &value, &error));
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), status, state);
  hypostyle_statement_free(&statement);
}

static hypostyle_value text(const char *text) { return data(HYPOSTYLE_VARCHAR, text, HYPOSTYLE_NUL); }

static void parameters_of_each_type(void) {
  static const char uuid[] = "\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x78\x12\x34\x56\x78";
  hypostyle_value value;
  bound("SELECT ?::int", of(HYPOSTYLE_NULL), "NULL");
  bound("SELECT ?::boolean", integer(HYPOSTYLE_BOOLEAN, 1), "true");
  bound("SELECT ? + 1", integer(HYPOSTYLE_TINYINT, -5), "-4");
  bound("SELECT $1", integer(HYPOSTYLE_BIGINT, INT64_MIN), "-9223372036854775808");
  bound("SELECT ?::bigint", integer(HYPOSTYLE_UINTEGER, 4294967295), "4294967295");
  bound("SELECT ?::numeric", integer(HYPOSTYLE_UBIGINT, -1), "18446744073709551615");
  bound("SELECT ?::real", number(HYPOSTYLE_FLOAT, 0.5), "0.5");
  bound("SELECT ? / 2", number(HYPOSTYLE_DOUBLE, 3.0), "1.5");
  bound("SELECT ?::numeric", number(HYPOSTYLE_DOUBLE, NAN), "NaN");
  bound("SELECT $name || '!'", text("\xc3\xa4"), "\xc3\xa4!");
  bound("SELECT ?::text || '!'", data(HYPOSTYLE_VARCHAR, NULL, 0), "!");
  bound("SELECT octet_length(?)", data(HYPOSTYLE_BLOB, "a\0b", 3), "3");
  bound("SELECT ?::date", integer(HYPOSTYLE_DATE, 365), "1971-01-01");
  bound("SELECT ?::time", integer(HYPOSTYLE_TIME, 3600000000), "01:00:00");
  value = integer(HYPOSTYLE_TIMESTAMPTZ, 86400000001);
  value.scale = 6;
  bound("SELECT ?", value, "1970-01-02 00:00:00.000001+00:00");
  value = integer(HYPOSTYLE_DECIMAL, -12345);
  value.high = -1;
  value.scale = 2;
  bound("SELECT ?::numeric(9,2)", value, "-123.45");
  value = of(HYPOSTYLE_INTERVAL);
  value.high = ((int64_t)3 << 32) | 14;
  bound("SELECT ?", value, "1 year 2 mons 3 days");
  bound("SELECT ?", data(HYPOSTYLE_UUID, uuid, 16), "12345678-1234-5678-1234-567812345678");
  bound("SELECT ?::jsonb ->> 'a'", data(HYPOSTYLE_JSON, "{\"a\": 1}", HYPOSTYLE_NUL), "1");
  /* Texts are read by the server, whatever the type is. */
  bound("SELECT ?::uuid", text("12345678-1234-5678-1234-567812345678"), "12345678-1234-5678-1234-567812345678");
  bound("SELECT (?::int[])[2]", text("{1,2}"), "2");
  bound("SELECT ?::mood", text("ok"), "ok");
  bound("SELECT ?::inet", text("10.0.0.1"), "10.0.0.1");
  bound("SELECT ?::timestamptz", text("2024-01-01 00:00+02"), "2023-12-31 22:00:00+00:00");
  not_bound("SELECT ?::int", text("x"), HYPOSTYLE_INVALID_INPUT, "22P02");
  not_bound("SELECT ?::mood", text("nosuch"), HYPOSTYLE_INVALID_INPUT, "22P02");
  not_bound("SELECT ?::smallint", integer(HYPOSTYLE_BIGINT, 70000), HYPOSTYLE_INVALID_INPUT, "22003");
  not_bound("SELECT ?::text", data(HYPOSTYLE_VARCHAR, "a\0b", 3), HYPOSTYLE_INVALID_INPUT, "22021");
}

static void descriptions(void) {
  hypostyle_statement *statement = NULL;
  SIZED(hypostyle_column, column);
  struct ArrowSchema schema;
  hypostyle_value value = integer(HYPOSTYLE_INTEGER, 1);
  OK(hypostyle_prepare(connection, "SELECT a, m FROM types WHERE n = $b AND m = $c", HYPOSTYLE_NUL, &statement, &error));
  CHECK(hypostyle_statement_kind(statement) == HYPOSTYLE_KIND_QUERY && hypostyle_statement_parameters(statement) == 2);
  OK(hypostyle_statement_parameter(statement, 0, &column, &error));
  CHECK(strcmp(column.name, "b") == 0 && column.type != HYPOSTYLE_NULL);
  OK(hypostyle_statement_schema(statement, &schema, &error));
  CHECK(schema.n_children == 2 && strcmp(schema.children[0]->format, "i") == 0 && schema.children[1]->dictionary != NULL);
  schema.release(&schema);
  OK(hypostyle_bind(statement, 0, &value, &error));
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), HYPOSTYLE_INVALID_INPUT, "07002");
  hypostyle_statement_free(&statement);
  OK(hypostyle_prepare(connection, "SELEC ?", HYPOSTYLE_NUL, &statement, &error));
  REFUSED(hypostyle_statement_parameter(statement, 0, &column, &error), HYPOSTYLE_SYNTAX, "42601");
  hypostyle_statement_free(&statement);
  CHECK(hypostyle_execute(connection, "SELECT 1,\n nosuch", HYPOSTYLE_NUL, NULL, &error) == HYPOSTYLE_UNKNOWN_NAME);
  CHECK(hypostyle_error_position(error) == 12 && strcmp(hypostyle_error_sqlstate(error), "42703") == 0);
  hypostyle_error_free(&error);
}

/* Values of columns are copies; nothing of them is mapped or known beforehand. */
static void values_of_columns(void) {
  static const char *const names[] = {"INTEGER", "DECIMAL(9,2)", "VARCHAR", "INTEGER[]"};
  hypostyle_result *result = run("SELECT a, n, m, l FROM types ORDER BY a");
  SIZED(hypostyle_values, values);
  SIZED(hypostyle_statistics, statistics);
  SIZED(hypostyle_column, column);
  int32_t mapped = 7;
  uint64_t rows = 0;
  CHECK(hypostyle_result_columns(result) == 4);
  for (size_t index = 0; index < 4; index++) {
    OK(hypostyle_result_column(result, index, &column, &error));
    CHECK(strcmp(column.type_name, names[index]) == 0);
  }
  OK(hypostyle_result_values(result, 0, 0, &values, &error));
  CHECK(values.count == 2 && values.null_count == 0 && !(values.flags & HYPOSTYLE_VALUES_MAPPED));
  CHECK(((const int32_t *)values.data)[1] == 2);
  hypostyle_values_free(&values);
  OK(hypostyle_result_values(result, 1, HYPOSTYLE_VALUES_PRIVATE, &values, &error));
  CHECK(values.scale == 2 && values.null_count == 1 && (values.flags & HYPOSTYLE_VALUES_PRIVATE));
  hypostyle_values_free(&values);
  OK(hypostyle_result_values(result, 2, 0, &values, &error));
  CHECK(values.flags & HYPOSTYLE_VALUES_DICTIONARY);
  hypostyle_values_free(&values);
  OK(hypostyle_result_values(result, 2, HYPOSTYLE_VALUES_PLAIN, &values, &error));
  CHECK(!(values.flags & HYPOSTYLE_VALUES_DICTIONARY) && values.heap_length == 2 && memcmp(values.heap, "ok", 2) == 0);
  hypostyle_values_free(&values);
  REFUSED(hypostyle_result_values(result, 3, 0, &values, &error), HYPOSTYLE_UNSUPPORTED, "0A000");
  OK(hypostyle_result_statistics(result, 0, &statistics, &error));
  CHECK(statistics.known == 0);
  char *pages = NULL;
  CHECK(posix_memalign((void **)&pages, 4096, 4096) == 0);
  OK(hypostyle_result_map(result, 0, pages, 4096, &mapped, &error));
  CHECK(mapped == 0);
  free(pages);
  OK(hypostyle_result_row_count(result, &rows, &error));
  CHECK(rows == 2 && hypostyle_result_rows_affected(result) == -1);
  hypostyle_result_free(&result);
}

static void rows_are_appended(void) {
  hypostyle_appender *appender = NULL;
  hypostyle_value value = integer(HYPOSTYLE_BIGINT, 70000);
  uint64_t rows = 0;
  REFUSED(hypostyle_appender_open(connection, "nowhere", HYPOSTYLE_NUL, &appender, &error), HYPOSTYLE_UNKNOWN_NAME, "42P01");
  do_sql("CREATE TEMP TABLE put (a smallint, b text, c int NOT NULL, d date, e mood, f numeric(9,2), g numeric, h uuid,"
         " i jsonb, j timestamptz, k bytea, l interval, m int[])");
  appender = open_appender("put");
  REFUSED(hypostyle_appender_value(appender, &value, &error), HYPOSTYLE_INVALID_INPUT, "22003");
  put(appender, integer(HYPOSTYLE_BIGINT, 7));
  put(appender, text("x"));
  put(appender, integer(HYPOSTYLE_BIGINT, 8));
  put(appender, text("2024-02-29"));
  put(appender, text("ok"));
  put(appender, number(HYPOSTYLE_DOUBLE, 1.25));
  put(appender, text("0.10"));
  put(appender, text("6ccd780c-baba-1026-9564-5b8c656024db"));
  put(appender, text("{\"a\": 1}"));
  put(appender, integer(HYPOSTYLE_TIMESTAMPTZ, 86400));
  put(appender, data(HYPOSTYLE_BLOB, "a\0b", 3));
  value = of(HYPOSTYLE_INTERVAL);
  value.high = 14;
  put(appender, value);
  put(appender, of(HYPOSTYLE_NULL));
  OK(hypostyle_appender_end_row(appender, &error));
  OK(hypostyle_appender_finish(appender, &rows, &error));
  CHECK(rows == 1);
  hypostyle_appender_free(&appender);
  SAYS("SELECT concat_ws(' ', a, b, c, d, e, f, g, h, i ->> 'a', extract(epoch FROM j)::int, encode(k, 'hex'), l, m) FROM put",
       "7 x 8 2024-02-29 ok 1.25 0.10 6ccd780c-baba-1026-9564-5b8c656024db 1 86400 610062 1 year 2 mons");
  /* What the table refuses leaves nothing. */
  appender = open_appender("put");
  for (int column = 0; column < 13; column++) put(appender, of(HYPOSTYLE_NULL));
  OK(hypostyle_appender_end_row(appender, &error));
  REFUSED(hypostyle_appender_finish(appender, NULL, &error), HYPOSTYLE_CONSTRAINT, "23502");
  hypostyle_appender_free(&appender);
  SAYS("SELECT count(*) FROM put", "1");
}

static void pieces_take_effect_together(void) {
  hypostyle_appender *appender;
  uint64_t rows = 0;
  do_sql("CREATE TEMP TABLE much (a bigint, b text)");
  appender = open_appender("much");
  put_rows(appender, 150000);
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_IN_TRANSACTION);
  OK(hypostyle_appender_finish(appender, &rows, &error));
  CHECK(rows == 150000 && hypostyle_transaction_state(connection) == HYPOSTYLE_NO_TRANSACTION);
  hypostyle_appender_free(&appender);
  SAYS("SELECT count(*) || ' ' || sum(a) FROM much", "150000 11249925000");
  appender = open_appender("much");
  put_rows(appender, 70000);
  hypostyle_appender_free(&appender);
  SAYS("SELECT count(*) FROM much", "150000");
  do_sql("BEGIN; DELETE FROM much WHERE a >= 10");
  appender = open_appender("much");
  put_rows(appender, 70000);
  hypostyle_appender_free(&appender);
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_IN_TRANSACTION);
  SAYS("SELECT count(*) FROM much", "10");
  do_sql("ROLLBACK");
}

/* Rows of a statement run the other for each of them; a stream outlives its result and the next statement. */
static void streams(void) {
  struct ArrowArrayStream stream;
  hypostyle_statement *statement = NULL;
  hypostyle_result *result = run("SELECT i AS a, i::text AS b FROM generate_series(1, 20000) AS s (i)");
  uint64_t rows = 0;
  OK(hypostyle_result_stream(result, &stream, &error));
  hypostyle_result_free(&result);
  do_sql("CREATE TEMP TABLE bound (a int PRIMARY KEY, b text)");
  OK(hypostyle_append(connection, "bound", HYPOSTYLE_NUL, &stream, HYPOSTYLE_BY_NAME, &rows, &error));
  CHECK(rows == 20000);
  result = run("SELECT i AS a, 'n' AS b FROM generate_series(20001, 22000) AS s (i)");
  OK(hypostyle_result_stream(result, &stream, &error));
  hypostyle_result_free(&result);
  OK(hypostyle_prepare(connection, "INSERT INTO bound VALUES (?, ?)", HYPOSTYLE_NUL, &statement, &error));
  OK(hypostyle_bind_stream(statement, &stream, 0, &error));
  OK(hypostyle_statement_execute(statement, &result, &error));
  CHECK(hypostyle_result_rows_affected(result) == 2000);
  hypostyle_result_free(&result);
  /* One row that is refused undoes the others. */
  result = run("SELECT i AS a, 'n' AS b FROM (VALUES (22001), (1)) AS s (i)");
  OK(hypostyle_result_stream(result, &stream, &error));
  hypostyle_result_free(&result);
  OK(hypostyle_bind_stream(statement, &stream, 0, &error));
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), HYPOSTYLE_CONSTRAINT, "23505");
  hypostyle_statement_free(&statement);
  SAYS("SELECT count(*) FROM bound", "22000");
}

static void transactions(void) {
  do_sql("CREATE TEMP TABLE kept (a int)");
  OK(hypostyle_set_autocommit(connection, 0, &error));
  do_sql("INSERT INTO kept VALUES (1)");
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_IN_TRANSACTION);
  OK(hypostyle_rollback(connection, &error));
  do_sql("INSERT INTO kept VALUES (2)");
  OK(hypostyle_commit(connection, &error));
  do_sql("INSERT INTO kept VALUES (3)");
  REFUSED(hypostyle_execute(connection, "SELECT 1 / 0", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_INVALID_INPUT, "22012");
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_FAILED_TRANSACTION);
  REFUSED(hypostyle_execute(connection, "SELECT 1", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_TRANSACTION_STATE, "25P02");
  /* The server rolls back, which is no success. */
  REFUSED(hypostyle_commit(connection, &error), HYPOSTYLE_TRANSACTION_STATE, "25P02");
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_NO_TRANSACTION);
  OK(hypostyle_set_autocommit(connection, 1, &error));
  SAYS("SELECT string_agg(a::text, ' ') FROM kept", "2");
}

static void *interrupt_soon(void *unused) {
  struct timespec wait = {0, 300000000};
  nanosleep(&wait, NULL);
  hypostyle_interrupt(connection);
  return unused;
}

static void interrupts(void) {
  pthread_t thread;
  SIZED(hypostyle_progress, progress);
  CHECK(pthread_create(&thread, NULL, interrupt_soon, NULL) == 0);
  REFUSED(hypostyle_execute(connection, "SELECT pg_sleep(60)", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_INTERRUPTED, "57014");
  pthread_join(thread, NULL);
  SAYS("SELECT 1", "1");
  OK(hypostyle_get_progress(connection, &progress, &error));
  CHECK(!progress.is_running);
  CHECK(hypostyle_session_id(connection) != 0);
}

static int32_t no_table(void *context, const char *name, size_t length, struct ArrowArrayStream *rows) {
  (void)context, (void)name, (void)length, (void)rows;
  return 0;
}

static void what_is_refused(void) {
  hypostyle_options options = {0};
  hypostyle_database *other = NULL;
  hypostyle_connection *session = NULL;
  options.size = (uint32_t)sizeof options;
  options.read_only = 1;
  OK(hypostyle_set_tables(connection, NULL, NULL, &error));
  REFUSED(hypostyle_set_tables(connection, no_table, NULL, &error), HYPOSTYLE_UNSUPPORTED, "0A000");
  REFUSED(hypostyle_execute(connection, "COPY (SELECT 1) TO STDOUT", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_UNSUPPORTED, "0A000");
  REFUSED(hypostyle_execute(connection, "COPY types FROM STDIN", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_UNSUPPORTED, "0A000");
  SAYS("SELECT count(*) FROM types", "2");
  REFUSED(hypostyle_open("postgresql:///x?nosuch=1", HYPOSTYLE_NUL, NULL, &other, &error), HYPOSTYLE_INVALID_INPUT, "22000");
  OK(hypostyle_open("postgresql://nobody@127.0.0.1:1/x", HYPOSTYLE_NUL, NULL, &other, &error));
  REFUSED(hypostyle_connect(other, &session, &error), HYPOSTYLE_CONNECTION, "08001");
  hypostyle_close(&other);
}

int main(int argc, char **argv) {
  begin(argc, argv);
  do_sql("DROP TABLE IF EXISTS types; DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'ok');"
         " CREATE TABLE types (a int, n numeric(9,2), m mood, l int[]);"
         " INSERT INTO types VALUES (1, 1.50, 'ok', '{1,NULL}'), (2, NULL, NULL, NULL)");
  parameters_of_each_type();
  descriptions();
  values_of_columns();
  rows_are_appended();
  pieces_take_effect_together();
  streams();
  transactions();
  interrupts();
  what_is_refused();
  do_sql("DROP TABLE put, types; DROP TYPE mood");
  return finish();
}
