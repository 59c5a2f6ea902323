/* Calls that no program should make: each is an error, and none ends the process. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static void nothing_given(void) {
  hypostyle_result *result = NULL;
  hypostyle_statement *statement = NULL;
  hypostyle_appender *appender = NULL;
  hypostyle_database *other = NULL;
  hypostyle_connection *session = NULL;
  SIZED(hypostyle_value, value);
  SIZED(hypostyle_values, values);
  SIZED(hypostyle_column, column);
  SIZED(hypostyle_statistics, statistics);
  SIZED(hypostyle_progress, progress);
  struct ArrowSchema schema;
  struct ArrowArray array;
  struct ArrowArrayStream stream;
  const char *text = NULL;
  const void *bytes = NULL;
  size_t length = 0, start = 0;
  uint64_t count = 0;
  int64_t integer = 0;
  int32_t has_row = 0;
  double number = 0;

  MISUSE(hypostyle_open("x", 1, NULL, NULL, &error));
  MISUSE(hypostyle_connect(NULL, &session, &error));
  MISUSE(hypostyle_connect(database, NULL, &error));
  MISUSE(hypostyle_get_progress(NULL, &progress, &error));
  MISUSE(hypostyle_set_poll(NULL, NULL, NULL, &error));
  MISUSE(hypostyle_set_tables(NULL, NULL, NULL, &error));
  MISUSE(hypostyle_set_autocommit(NULL, 1, &error));
  MISUSE(hypostyle_commit(NULL, &error));
  MISUSE(hypostyle_rollback(NULL, &error));
  MISUSE(hypostyle_execute(NULL, "SELECT 1", HYPOSTYLE_NUL, &result, &error));
  MISUSE(hypostyle_execute(connection, NULL, 8, &result, &error));
  MISUSE(hypostyle_execute(connection, NULL, HYPOSTYLE_NUL, &result, &error));
  REFUSED(hypostyle_execute(connection, "SELECT '\xff'", HYPOSTYLE_NUL, &result, &error), HYPOSTYLE_INVALID_INPUT,
          "22021");
  MISUSE(hypostyle_execute(connection, "SELECT 1", SIZE_MAX - 1, &result, &error));
  MISUSE(hypostyle_next_statement(NULL, 0, &start, &text, &length, &error));
  MISUSE(hypostyle_next_statement("x", 1, NULL, &text, &length, &error));
  MISUSE(hypostyle_next_statement("x", 1, &start, NULL, &length, &error));
  MISUSE(hypostyle_next_statement("x", 1, &start, &text, NULL, &error));
  MISUSE(hypostyle_prepare(NULL, "SELECT 1", HYPOSTYLE_NUL, &statement, &error));
  MISUSE(hypostyle_prepare(connection, NULL, HYPOSTYLE_NUL, &statement, &error));
  MISUSE(hypostyle_prepare(connection, "SELECT 1", HYPOSTYLE_NUL, NULL, &error));
  MISUSE(hypostyle_statement_parameter(NULL, 0, &column, &error));
  MISUSE(hypostyle_statement_parameter_index(NULL, "x", 1, &length, &error));
  MISUSE(hypostyle_statement_schema(NULL, &schema, &error));
  MISUSE(hypostyle_bind(NULL, 0, &value, &error));
  MISUSE(hypostyle_bind_stream(NULL, NULL, 0, &error));
  MISUSE(hypostyle_clear_bindings(NULL, &error));
  MISUSE(hypostyle_statement_execute(NULL, &result, &error));
  MISUSE(hypostyle_result_column(NULL, 0, &column, &error));
  MISUSE(hypostyle_result_schema(NULL, &schema, &error));
  MISUSE(hypostyle_result_row_count(NULL, &count, &error));
  MISUSE(hypostyle_result_next(NULL, &array, &error));
  MISUSE(hypostyle_result_stream(NULL, &stream, &error));
  MISUSE(hypostyle_result_values(NULL, 0, 0, &values, &error));
  MISUSE(hypostyle_result_map(NULL, 0, NULL, 0, &has_row, &error));
  MISUSE(hypostyle_result_statistics(NULL, 0, &statistics, &error));
  MISUSE(hypostyle_result_verify(NULL, 0, 0, 0, &error));
  MISUSE(hypostyle_result_step(NULL, &has_row, &error));
  MISUSE(hypostyle_row_int64(NULL, 0, &integer, &error));
  MISUSE(hypostyle_row_double(NULL, 0, &number, &error));
  MISUSE(hypostyle_row_text(NULL, 0, &text, &length, &error));
  MISUSE(hypostyle_row_bytes(NULL, 0, &bytes, &length, &error));
  MISUSE(hypostyle_append(connection, "t", 1, NULL, 0, &count, &error));
  MISUSE(hypostyle_append_columns(NULL, "t", 1, NULL, NULL, 0, 0, &count, &error));
  MISUSE(hypostyle_append_columns(connection, "t", 1, NULL, NULL, 1, 0, &count, &error));
  MISUSE(hypostyle_appender_open(NULL, "t", 1, &appender, &error));
  MISUSE(hypostyle_appender_open(connection, "t", 1, NULL, &error));
  MISUSE(hypostyle_appender_value(NULL, &value, &error));
  MISUSE(hypostyle_appender_end_row(NULL, &error));
  MISUSE(hypostyle_appender_arrow(NULL, NULL, NULL, &error));
  MISUSE(hypostyle_appender_finish(NULL, &count, &error));

  /* Questions without errors have an answer. */
  CHECK(hypostyle_error_status(NULL) == HYPOSTYLE_OK && strcmp(hypostyle_error_sqlstate(NULL), "00000") == 0);
  CHECK(hypostyle_error_message(NULL)[0] == '\0' && hypostyle_error_detail(NULL) == NULL);
  CHECK(hypostyle_error_position(NULL) == 0);
  CHECK(hypostyle_statement_kind(NULL) == HYPOSTYLE_KIND_OTHER && hypostyle_statement_parameters(NULL) == 0);
  CHECK(hypostyle_result_columns(NULL) == 0 && hypostyle_result_rows_affected(NULL) == -1);
  CHECK(hypostyle_row_is_null(NULL, 0) == -1 && hypostyle_session_id(NULL) == 0);
  CHECK(hypostyle_transaction_state(NULL) == HYPOSTYLE_NO_TRANSACTION);
  hypostyle_interrupt(NULL);

  /* Freeing nothing does nothing. */
  hypostyle_error_free(NULL);
  hypostyle_close(NULL);
  hypostyle_disconnect(NULL);
  hypostyle_statement_free(NULL);
  hypostyle_result_free(NULL);
  hypostyle_appender_free(NULL);
  hypostyle_close(&other);
  hypostyle_disconnect(&session);
  hypostyle_statement_free(&statement);
  hypostyle_result_free(&result);
  hypostyle_appender_free(&appender);
}

static void places_that_are_missing(void) {
  hypostyle_result *result = run("SELECT 1 AS a");
  hypostyle_statement *statement = NULL;
  int32_t has_row = 0;
  const char *text = NULL;
  size_t length = 0;
  MISUSE(hypostyle_result_column(result, 0, NULL, &error));
  MISUSE(hypostyle_result_schema(result, NULL, &error));
  MISUSE(hypostyle_result_row_count(result, NULL, &error));
  MISUSE(hypostyle_result_next(result, NULL, &error));
  MISUSE(hypostyle_result_stream(result, NULL, &error));
  MISUSE(hypostyle_result_values(result, 0, 0, NULL, &error));
  MISUSE(hypostyle_result_statistics(result, 0, NULL, &error));
  MISUSE(hypostyle_result_step(result, NULL, &error));
  MISUSE(hypostyle_result_step_batch(result, NULL, &error));
  MISUSE(hypostyle_batch_values(result, 0, 0, NULL, &error));
  OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(has_row == 1);
  MISUSE(hypostyle_row_int64(result, 0, NULL, &error));
  MISUSE(hypostyle_row_double(result, 0, NULL, &error));
  MISUSE(hypostyle_row_text(result, 0, NULL, &length, &error));
  MISUSE(hypostyle_row_text(result, 0, &text, NULL, &error));
  MISUSE(hypostyle_row_bytes(result, 0, NULL, NULL, &error));
  hypostyle_result_free(&result);
  OK(hypostyle_prepare(connection, "SELECT $a", HYPOSTYLE_NUL, &statement, &error));
  MISUSE(hypostyle_statement_parameter(statement, 0, NULL, &error));
  MISUSE(hypostyle_statement_parameter_index(statement, "a", 1, NULL, &error));
  MISUSE(hypostyle_statement_schema(statement, NULL, &error));
  MISUSE(hypostyle_bind(statement, 0, NULL, &error));
  MISUSE(hypostyle_bind_stream(statement, NULL, 0, &error));
  hypostyle_statement_free(&statement);
}

/* Places and structs at odd addresses are refused before anything is read or written there. */
static void odd_addresses(void) {
  hypostyle_result *result = run("SELECT 1 AS a");
  union {
    char bytes[256];
    uint64_t aligned;
  } room = {{0}};
  char *odd = room.bytes + 1;
  hypostyle_value value = hypostyle_value_of(HYPOSTYLE_NULL);
  memcpy(odd, &value, sizeof value);
  MISUSE(hypostyle_execute(connection, "SELECT 1", HYPOSTYLE_NUL, (hypostyle_result **)(void *)odd, &error));
  MISUSE(hypostyle_result_column(result, 0, (hypostyle_column *)(void *)odd, &error));
  MISUSE(hypostyle_result_row_count(result, (uint64_t *)(void *)odd, &error));
  MISUSE(hypostyle_append(connection, "t", 1, (struct ArrowArrayStream *)(void *)odd, 0, NULL, &error));
  hypostyle_statement *statement = NULL;
  OK(hypostyle_prepare(connection, "SELECT ?", HYPOSTYLE_NUL, &statement, &error));
  MISUSE(hypostyle_bind(statement, 0, (hypostyle_value *)(void *)odd, &error));
  hypostyle_statement_free(&statement);
  hypostyle_result_free(&result);
}

static void handles_of_other_kinds(void) {
  hypostyle_result *result = run("SELECT 1");
  hypostyle_statement *statement = (hypostyle_statement *)(void *)result;
  hypostyle_connection *session = (hypostyle_connection *)(void *)result;
  char memory[64] = {0};
  hypostyle_result *no_handle = (hypostyle_result *)(void *)memory;
  int32_t has_row = 0;
  MISUSE(hypostyle_statement_execute(statement, NULL, &error));
  MISUSE(hypostyle_execute(session, "SELECT 1", HYPOSTYLE_NUL, NULL, &error));
  CHECK(hypostyle_session_id(session) == 0);
  MISUSE(hypostyle_result_step(no_handle, &has_row, &error));
  /* Freeing them frees nothing. */
  hypostyle_statement_free(&statement);
  hypostyle_result_free(&no_handle);
  OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(has_row == 1);
  hypostyle_result_free(&result);
  MISUSE(hypostyle_result_step(result, &has_row, &error));
}

static void in_any_order(void) {
  hypostyle_database *other = NULL;
  hypostyle_connection *session = NULL;
  hypostyle_statement *statement = NULL;
  hypostyle_result *result = NULL;
  int32_t has_row = 0;
  int64_t integer = 0;
  OK(hypostyle_open(":memory:", HYPOSTYLE_NUL, NULL, &other, &error));
  OK(hypostyle_connect(other, &session, &error));
  OK(hypostyle_prepare(session, "SELECT 42", HYPOSTYLE_NUL, &statement, &error));
  OK(hypostyle_statement_execute(statement, &result, &error));
  hypostyle_close(&other);
  hypostyle_disconnect(&session);
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), HYPOSTYLE_CLOSED, "08003");
  hypostyle_statement_free(&statement);
  OK(hypostyle_result_step(result, &has_row, &error));
  OK(hypostyle_row_int64(result, 0, &integer, &error));
  CHECK(has_row == 1 && integer == 42);
  hypostyle_result_free(&result);
}

static void options(const char *program) {
  SIZED(hypostyle_options, options);
  hypostyle_database *other = NULL;
  options.threads = 1;
  options.memory_limit = 1 << 28;
  options.temp_directory = "/tmp";
  options.verify = "always";
  OK(hypostyle_open(NULL, 0, &options, &other, &error));
  hypostyle_close(&other);
  options.verify = "sometimes";
  CHECK(hypostyle_open(NULL, 0, &options, &other, &error) == HYPOSTYLE_INVALID_INPUT);
  hypostyle_error_free(&error);
  options.verify = NULL;
  options.user = "somebody";
  CHECK(hypostyle_open(NULL, 0, &options, &other, NULL) == HYPOSTYLE_INVALID_INPUT);
  options.user = NULL;
  options.size = 4;
  MISUSE(hypostyle_open(NULL, 0, &options, &other, &error));
  options.size = (uint32_t)sizeof options;
  options.read_only = 1;
  CHECK(hypostyle_open("/nowhere/at/all", HYPOSTYLE_NUL, &options, &other, NULL) == HYPOSTYLE_NOT_FOUND);
  CHECK(hypostyle_open(program, HYPOSTYLE_NUL, NULL, &other, NULL) != HYPOSTYLE_OK);
  CHECK(hypostyle_open("", 0, NULL, &other, NULL) == HYPOSTYLE_INVALID_INPUT);
  CHECK(hypostyle_open("hypostyle://127.0.0.1:1/", HYPOSTYLE_NUL, NULL, &other, &error) == HYPOSTYLE_OK);
  {
    hypostyle_connection *session = NULL;
    CHECK(hypostyle_connect(other, &session, &error) == HYPOSTYLE_CONNECTION);
    hypostyle_error_free(&error);
  }
  hypostyle_close(&other);
}

/* What a child of fork() does with what it has inherited; returns what was not so. */
static int child(hypostyle_statement *statement, hypostyle_result *result, hypostyle_appender *appender) {
  hypostyle_connection *session = NULL;
  hypostyle_database *own = NULL;
  int32_t has_row = 0;
  failures = 0;
  REFUSED(hypostyle_connect(database, &session, &error), HYPOSTYLE_CLOSED, "08003");
  REFUSED(hypostyle_execute(connection, "SELECT 1", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_CLOSED, "08003");
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), HYPOSTYLE_CLOSED, "08003");
  REFUSED(hypostyle_result_step(result, &has_row, &error), HYPOSTYLE_CLOSED, "08003");
  REFUSED(hypostyle_appender_finish(appender, NULL, &error), HYPOSTYLE_CLOSED, "08003");
  CHECK(hypostyle_result_columns(result) == 0 && hypostyle_session_id(connection) == 0);
  hypostyle_interrupt(connection);
  hypostyle_appender_free(&appender);
  hypostyle_result_free(&result);
  hypostyle_statement_free(&statement);
  hypostyle_disconnect(&connection);
  hypostyle_close(&database);
  /* A database of its own works. */
  OK(hypostyle_open(NULL, 0, NULL, &own, &error));
  OK(hypostyle_connect(own, &session, &error));
  OK(hypostyle_execute(session, "SELECT 1", HYPOSTYLE_NUL, NULL, &error));
  hypostyle_disconnect(&session);
  hypostyle_close(&own);
  return failures;
}

static void forks(void) {
  hypostyle_statement *statement = NULL;
  hypostyle_appender *appender = NULL;
  hypostyle_result *result = run("SELECT * FROM generate_series(1, 100000) AS t (a)");
  int status = 0;
  uint64_t rows = 0;
  hypostyle_value value = integer(HYPOSTYLE_BIGINT, 1);
  pid_t forked;
  do_sql("CREATE TABLE forked (a BIGINT)");
  OK(hypostyle_appender_open(connection, "forked", HYPOSTYLE_NUL, &appender, &error));
  OK(hypostyle_appender_value(appender, &value, &error));
  OK(hypostyle_appender_end_row(appender, &error));
  OK(hypostyle_prepare(connection, "SELECT 1", HYPOSTYLE_NUL, &statement, &error));
  forked = fork();
  if (forked == 0) _exit(child(statement, result, appender));
  CHECK(forked > 0 && waitpid(forked, &status, 0) == forked);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  /* The parent goes on. */
  OK(hypostyle_result_row_count(result, &rows, &error));
  CHECK(rows == 100000);
  OK(hypostyle_appender_finish(appender, &rows, &error));
  CHECK(rows == 1);
  hypostyle_appender_free(&appender);
  hypostyle_result_free(&result);
  hypostyle_statement_free(&statement);
  SAYS("SELECT count(*) FROM forked", "1");
}

int main(int argc, char **argv) {
  begin(argc, argv);
  nothing_given();
  places_that_are_missing();
  odd_addresses();
  handles_of_other_kinds();
  in_any_order();
  options(argv[0]);
  /* Valgrind's child would report what its parent holds. */
  if (getenv("HYPOSTYLE_TEST_NO_FORK") == NULL) forks();
  return finish();
}
