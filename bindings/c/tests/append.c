/* Appending: values of each type, pieces in one transaction, refused rows, columns, Arrow streams both
 * ways, and tables that the program has. */
#include "check.h"

static void values_of_each_type(void) {
  hypostyle_appender *appender;
  hypostyle_value value;
  uint64_t rows = 0;
  do_sql("CREATE TABLE types (a BOOLEAN, b TINYINT, c INTEGER, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(9,2),"
         " h DATE, i TIME, j TIMESTAMP, k VARCHAR, l BLOB, m UUID, n JSON, o UBIGINT, p INTERVAL, q INTEGER[])");
  appender = open_appender("types");
  for (int row = 0; row < 2; row++) {
    put(appender, integer(HYPOSTYLE_BOOLEAN, 1));
    put(appender, integer(HYPOSTYLE_BIGINT, -7));
    put(appender, integer(HYPOSTYLE_INTEGER, 70000));
    put(appender, integer(HYPOSTYLE_BIGINT, INT64_MAX));
    put(appender, number(HYPOSTYLE_DOUBLE, 0.5));
    put(appender, integer(HYPOSTYLE_BIGINT, 3));
    value = integer(HYPOSTYLE_DECIMAL, 12345);
    value.scale = 2;
    put(appender, value);
    put(appender, data(HYPOSTYLE_VARCHAR, "2024-02-29", HYPOSTYLE_NUL));
    put(appender, integer(HYPOSTYLE_TIME, 1000000));
    value = integer(HYPOSTYLE_TIMESTAMP, 1000);
    value.scale = 3;
    put(appender, value);
    put(appender, data(HYPOSTYLE_VARCHAR, "\xc3\xa4", HYPOSTYLE_NUL));
    put(appender, data(HYPOSTYLE_BLOB, "a\0b", 3));
    put(appender, data(HYPOSTYLE_VARCHAR, "12345678-1234-5678-1234-567812345678", HYPOSTYLE_NUL));
    put(appender, data(HYPOSTYLE_VARCHAR, "{\"a\":1}", HYPOSTYLE_NUL));
    put(appender, integer(HYPOSTYLE_UBIGINT, -1));
    value = integer(HYPOSTYLE_INTERVAL, 0);
    value.high = 14;
    put(appender, value);
    put(appender, of(HYPOSTYLE_NULL));
    OK(hypostyle_appender_end_row(appender, &error));
  }
  for (int column = 0; column < 17; column++) put(appender, of(HYPOSTYLE_NULL));
  OK(hypostyle_appender_end_row(appender, &error));
  OK(hypostyle_appender_finish(appender, &rows, &error));
  CHECK(rows == 3);
  REFUSED(hypostyle_appender_finish(appender, &rows, &error), HYPOSTYLE_CLOSED, "08003");
  hypostyle_appender_free(&appender);
  SAYS("SELECT concat_ws(' ', a, b, c, d, e, f, g, h, i, j, k, octet_length(l), m, n, o) FROM types LIMIT 1",
       "true -7 70000 9223372036854775807 0.5 3.0 123.45 2024-02-29 00:00:01 1970-01-01 00:00:01 \xc3\xa4 3"
       " 12345678-1234-5678-1234-567812345678 {\"a\":1} 18446744073709551615");
  SAYS("SELECT count(*) FROM types WHERE a IS NULL AND q IS NULL AND p IS NULL", "1");
}

static void refused_values(void) {
  hypostyle_appender *appender;
  hypostyle_value value;
  do_sql("CREATE TABLE few (a TINYINT, b VARCHAR, c INTEGER NOT NULL)");
  appender = open_appender("few");
  value = integer(HYPOSTYLE_BIGINT, 300);
  REFUSED(hypostyle_appender_value(appender, &value, &error), HYPOSTYLE_INVALID_INPUT, "22003");
  value = data(HYPOSTYLE_BLOB, "x", 1);
  put(appender, integer(HYPOSTYLE_BIGINT, 3));
  REFUSED(hypostyle_appender_end_row(appender, &error), HYPOSTYLE_INVALID_INPUT, "HY024");
  REFUSED(hypostyle_appender_finish(appender, NULL, &error), HYPOSTYLE_INVALID_INPUT, "HY024");
  put(appender, data(HYPOSTYLE_VARCHAR, "three", 5));
  value = number(HYPOSTYLE_DOUBLE, 1.5);
  REFUSED(hypostyle_appender_value(appender, &value, &error), HYPOSTYLE_INVALID_INPUT, "22018");
  put(appender, number(HYPOSTYLE_DOUBLE, 2.0));
  REFUSED(hypostyle_appender_value(appender, &value, &error), HYPOSTYLE_INVALID_INPUT, "HY024");
  OK(hypostyle_appender_end_row(appender, &error));
  OK(hypostyle_appender_finish(appender, NULL, &error));
  hypostyle_appender_free(&appender);
  SAYS("SELECT a || b || c FROM few", "3three2");
  /* What the table refuses comes with the rows, and leaves nothing. */
  appender = open_appender("few");
  for (int column = 0; column < 3; column++) put(appender, of(HYPOSTYLE_NULL));
  OK(hypostyle_appender_end_row(appender, &error));
  REFUSED(hypostyle_appender_finish(appender, NULL, &error), HYPOSTYLE_CONSTRAINT, "23502");
  hypostyle_appender_free(&appender);
  SAYS("SELECT count(*) FROM few", "1");
  REFUSED(hypostyle_appender_open(connection, "nowhere", HYPOSTYLE_NUL, &appender, &error), HYPOSTYLE_UNKNOWN_NAME,
          "42P01");
}

static void pieces(void) {
  hypostyle_appender *appender;
  uint64_t rows = 0;
  do_sql("CREATE TABLE much (a BIGINT, b VARCHAR)");
  appender = open_appender("much");
  put_rows(appender, 150000);
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_IN_TRANSACTION);
  OK(hypostyle_appender_finish(appender, &rows, &error));
  CHECK(rows == 150000 && hypostyle_transaction_state(connection) == HYPOSTYLE_NO_TRANSACTION);
  hypostyle_appender_free(&appender);
  SAYS("SELECT count(*) || ' ' || sum(a) FROM much", "150000 11249925000");
  /* Rows that nobody finishes are not appended. */
  appender = open_appender("much");
  put_rows(appender, 100000);
  hypostyle_appender_free(&appender);
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_NO_TRANSACTION);
  SAYS("SELECT count(*) FROM much", "150000");
  /* In a transaction of the program's they are undone alone. */
  do_sql("BEGIN; DELETE FROM much WHERE a >= 10");
  appender = open_appender("much");
  put_rows(appender, 70000);
  hypostyle_appender_free(&appender);
  CHECK(hypostyle_transaction_state(connection) == HYPOSTYLE_IN_TRANSACTION);
  appender = open_appender("much");
  put_rows(appender, 70000);
  OK(hypostyle_appender_finish(appender, &rows, &error));
  hypostyle_appender_free(&appender);
  SAYS("SELECT count(*) FROM much", "70010");
  do_sql("ROLLBACK");
  SAYS("SELECT count(*) FROM much", "150000");
  /* Who ends the transaction before ends the rows. */
  appender = open_appender("much");
  put_rows(appender, 70000);
  do_sql("ROLLBACK");
  REFUSED(hypostyle_appender_finish(appender, &rows, &error), HYPOSTYLE_TRANSACTION_STATE, "25000");
  hypostyle_appender_free(&appender);
  SAYS("SELECT count(*) FROM much", "150000");
}

static void columns(void) {
  static const int32_t numbers[] = {1, 2, 3};
  static const double floats[] = {0.5, 0, 1.5};
  static const int64_t offsets[] = {0, 3, 3, 8};
  static const uint8_t flags[] = {5}, validity[] = {5};
  static const char *const names[] = {"a", "b", "c", "d"};
  hypostyle_values values[4];
  uint64_t rows = 0;
  memset(values, 0, sizeof values);
  for (int column = 0; column < 4; column++) {
    values[column].size = (uint32_t)sizeof *values;
    values[column].count = 3;
  }
  values[0].type = HYPOSTYLE_INTEGER;
  values[0].width = 4;
  values[0].data = numbers;
  values[1].type = HYPOSTYLE_DOUBLE;
  values[1].width = 8;
  values[1].data = floats;
  values[1].validity = validity;
  values[2].type = HYPOSTYLE_VARCHAR;
  values[2].offsets = offsets;
  values[2].heap = (const uint8_t *)"onethree";
  values[2].heap_length = 8;
  values[2].validity = validity;
  values[3].type = HYPOSTYLE_BOOLEAN;
  values[3].data = flags;
  REFUSED(hypostyle_append_columns(connection, "made", 4, names, values, 4, HYPOSTYLE_BY_NAME, &rows, &error),
          HYPOSTYLE_UNKNOWN_NAME, "42P01");
  OK(hypostyle_append_columns(connection, "made", 4, names, values, 4, HYPOSTYLE_APPEND_CREATE, &rows, &error));
  CHECK(rows == 3);
  SAYS("SELECT string_agg(concat_ws(' ', a, b, c, d), '|' ORDER BY a) FROM made", "1 0.5 one true|2 false|3 1.5 three true");
  OK(hypostyle_append_columns(connection, "made", 4, names, values, 2, HYPOSTYLE_BY_NAME, &rows, &error));
  SAYS("SELECT count(*) || ' ' || count(c) FROM made", "6 2");
  values[0].width = 8;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 4, 0, &rows, &error));
  values[0].width = 4;
  values[0].count = 2;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 4, 0, &rows, &error));
  values[0].count = UINT64_MAX / 32;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 1, 0, &rows, &error));
  values[0].count = 3;
  values[0].type = HYPOSTYLE_DECIMAL;
  values[0].scale = 10;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 1, 0, &rows, &error));
  values[0].type = HYPOSTYLE_INTEGER;
  values[0].scale = 0;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, SIZE_MAX / 64, 0, &rows, &error));
  values[0].count = UINT64_MAX / 2;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 1, 0, &rows, &error));
  values[0].count = 3;
  values[0].data = NULL;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 4, 0, &rows, &error));
  values[0].data = numbers;
  values[2].heap_length = 4;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 4, 0, &rows, &error));
  values[2].heap_length = 8;
  values[0].null_count = 1;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 4, 0, &rows, &error));
  values[0].null_count = 0;
  values[0].type = HYPOSTYLE_LIST;
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 4, 0, &rows, &error));
  MISUSE(hypostyle_append_columns(connection, "made", 4, names, values, 0, 0, &rows, &error));
  MISUSE(hypostyle_append_columns(connection, "made", 4, NULL, values, 4, 0, &rows, &error));
  SAYS("SELECT count(*) FROM made", "6");
}

/* What one table gives goes into another, with its dictionary. */
static void columns_of_a_result(void) {
  static const char *const names[] = {"a", "b"};
  hypostyle_result *result;
  hypostyle_values values[2];
  uint64_t rows = 0;
  int8_t code = 0;
  do_sql("CREATE TABLE kinds AS SELECT value AS a, CASE WHEN value % 4 > 0 THEN (['x', 'yy', 'z'])[value % 4] END AS b"
         " FROM generate_series(1, 20000)");
  result = run("SELECT * FROM kinds");
  memset(values, 0, sizeof values);
  for (size_t column = 0; column < 2; column++) {
    values[column].size = (uint32_t)sizeof *values;
    OK(hypostyle_result_values(result, column, 0, &values[column], &error));
  }
  hypostyle_result_free(&result);
  CHECK(values[1].flags & HYPOSTYLE_VALUES_DICTIONARY);
  OK(hypostyle_append_columns(connection, "kinds", 5, names, values, 2, HYPOSTYLE_BY_NAME, &rows, &error));
  CHECK(rows == 20000);
  SAYS("SELECT count(*) || ' ' || count(b) || ' ' || sum(length(b)) FROM kinds", "40000 30000 40000");
  code = 3;
  hypostyle_values_free(&values[0]);
  hypostyle_values wrong = values[1];
  wrong.count = 1;
  wrong.width = 1;
  wrong.data = &code;
  wrong.validity = NULL;
  MISUSE(hypostyle_append_columns(connection, "kinds", 5, &names[1], &wrong, 1, HYPOSTYLE_BY_NAME, &rows, &error));
  wrong.width = 3;
  MISUSE(hypostyle_append_columns(connection, "kinds", 5, &names[1], &wrong, 1, HYPOSTYLE_BY_NAME, &rows, &error));
  hypostyle_values_free(&values[1]);
}

/* Streams that are not as Arrow's interface says. */
static int gives_no_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  memset(out, 0, sizeof *out);
  return stream->private_data == NULL ? 0 : 5;
}

static int gives_nothing(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  (void)stream;
  memset(out, 0, sizeof *out);
  return 0;
}

static const char *says_nothing(struct ArrowArrayStream *stream) {
  (void)stream;
  return NULL;
}

static void is_released(struct ArrowArrayStream *stream) { stream->release = NULL; }

static void broken_streams(void) {
  hypostyle_statement *statement = NULL;
  uint64_t rows = 0;
  OK(hypostyle_prepare(connection, "SELECT ?", HYPOSTYLE_NUL, &statement, &error));
  for (int fails = 0; fails < 2; fails++) {
    struct ArrowArrayStream appended = {gives_no_schema, gives_nothing, says_nothing, is_released, NULL};
    struct ArrowArrayStream bound = appended;
    if (fails) appended.private_data = bound.private_data = &rows;
    MISUSE(hypostyle_append(connection, "copied", HYPOSTYLE_NUL, &appended, 0, &rows, &error));
    MISUSE(hypostyle_bind_stream(statement, &bound, 0, &error));
    CHECK(appended.release == NULL && bound.release == NULL);
  }
  hypostyle_statement_free(&statement);
}

static void streams(void) {
  hypostyle_result *result = run("SELECT a, b, [a] AS c FROM much WHERE a < 100000 ORDER BY a");
  hypostyle_appender *appender;
  struct ArrowArrayStream stream, gone;
  struct ArrowSchema schema;
  struct ArrowArray array;
  uint64_t rows = 0;
  int64_t counted = 0;
  OK(hypostyle_result_stream(result, &stream, &error));
  /* The stream outlives the result. */
  hypostyle_result_free(&result);
  OK(hypostyle_append(connection, "copied", HYPOSTYLE_NUL, &stream, HYPOSTYLE_APPEND_CREATE | HYPOSTYLE_BY_NAME, &rows,
                      &error));
  CHECK(rows == 100000 && stream.release == NULL);
  SAYS("SELECT sum(c[1]) FROM copied", "4999950000");
  memset(&gone, 0, sizeof gone);
  MISUSE(hypostyle_append(connection, "copied", HYPOSTYLE_NUL, &gone, 0, &rows, &error));

  result = run("SELECT a FROM copied ORDER BY a DESC");
  OK(hypostyle_result_schema(result, &schema, &error));
  CHECK(strcmp(schema.format, "+s") == 0 && strcmp(schema.children[0]->format, "l") == 0);
  for (;;) {
    OK(hypostyle_result_next(result, &array, &error));
    if (array.release == NULL) break;
    if (counted == 0) CHECK(((const int64_t *)array.children[0]->buffers[1])[array.children[0]->offset] == 99999);
    counted += array.length;
    array.release(&array);
  }
  CHECK(counted == 100000);
  OK(hypostyle_result_next(result, &array, &error));
  CHECK(array.release == NULL);
  schema.release(&schema);
  hypostyle_result_free(&result);

  result = run("SELECT a, b FROM much ORDER BY a LIMIT 10");
  OK(hypostyle_result_schema(result, &schema, &error));
  OK(hypostyle_result_next(result, &array, &error));
  appender = open_appender("much");
  put_rows(appender, 5);
  OK(hypostyle_appender_arrow(appender, &array, &schema, &error));
  CHECK(array.release == NULL && schema.release == NULL);
  MISUSE(hypostyle_appender_arrow(appender, &array, &schema, &error));
  put_rows(appender, 5);
  OK(hypostyle_appender_finish(appender, &rows, &error));
  CHECK(rows == 20);
  hypostyle_appender_free(&appender);
  hypostyle_result_free(&result);
}

static void bound_rows(void) {
  hypostyle_result *result = run("SELECT value AS a, 'row ' || value AS b FROM generate_series(1, 1000)");
  hypostyle_statement *statement = NULL;
  struct ArrowArrayStream stream;
  uint64_t rows = 0;
  do_sql("CREATE TABLE bound (a BIGINT PRIMARY KEY, b VARCHAR)");
  OK(hypostyle_result_stream(result, &stream, &error));
  hypostyle_result_free(&result);
  OK(hypostyle_prepare(connection, "INSERT INTO bound VALUES (?, ?)", HYPOSTYLE_NUL, &statement, &error));
  OK(hypostyle_bind_stream(statement, &stream, 0, &error));
  OK(hypostyle_statement_execute(statement, &result, &error));
  CHECK(hypostyle_result_rows_affected(result) == 1000 && stream.release == NULL);
  hypostyle_result_free(&result);
  SAYS("SELECT count(*) || ' ' || max(b) FROM bound", "1000 row 999");
  /* All or none: the second of these keys is there. */
  result = run("SELECT 2000 - value * 1000 AS a, 'x' AS b FROM generate_series(0, 1)");
  OK(hypostyle_result_stream(result, &stream, &error));
  hypostyle_result_free(&result);
  OK(hypostyle_bind_stream(statement, &stream, 0, &error));
  REFUSED(hypostyle_statement_execute(statement, NULL, &error), HYPOSTYLE_CONSTRAINT, "23505");
  hypostyle_statement_free(&statement);
  SAYS("SELECT count(*) FROM bound", "1000");
  /* A query runs for each row; columns are found by the names of the parameters. */
  result = run("SELECT 'x' AS other, value AS key FROM generate_series(1, 3)");
  OK(hypostyle_result_stream(result, &stream, &error));
  hypostyle_result_free(&result);
  OK(hypostyle_prepare(connection, "SELECT b FROM bound WHERE a <= $key", HYPOSTYLE_NUL, &statement, &error));
  OK(hypostyle_bind_stream(statement, &stream, HYPOSTYLE_BY_NAME, &error));
  OK(hypostyle_statement_execute(statement, &result, &error));
  OK(hypostyle_result_row_count(result, &rows, &error));
  CHECK(rows == 6);
  hypostyle_result_free(&result);
  hypostyle_statement_free(&statement);
}

/* ---- Tables of the program's ---- */

struct numbers {
  int64_t left;
  int is_damaged;       /* texts instead, whose offsets leave their heap */
  int64_t other_length; /* what the column says of its length instead, unless 0 */
};

static void release_schema(struct ArrowSchema *schema) {
  for (int64_t child = 0; child < schema->n_children; child++) {
    if (schema->children[child]->release) schema->children[child]->release(schema->children[child]);
    free(schema->children[child]);
  }
  free(schema->children);
  schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
  for (int64_t child = 0; child < array->n_children; child++) {
    if (array->children[child]->release) array->children[child]->release(array->children[child]);
    free(array->children[child]);
  }
  free(array->children);
  if (array->n_buffers > 1) free((void *)(uintptr_t)array->buffers[1]);
  free(array->buffers);
  array->release = NULL;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  struct ArrowSchema *child = calloc(1, sizeof *child);
  child->format = ((struct numbers *)stream->private_data)->is_damaged ? "u" : "l";
  child->name = "n";
  child->flags = ARROW_FLAG_NULLABLE;
  child->release = release_schema;
  memset(out, 0, sizeof *out);
  out->format = "+s";
  out->name = "";
  out->n_children = 1;
  out->children = calloc(1, sizeof *out->children);
  out->children[0] = child;
  out->release = release_schema;
  return 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  struct numbers *numbers = stream->private_data;
  struct ArrowArray *child;
  int64_t *values;
  memset(out, 0, sizeof *out);
  if (numbers->left == 0) return 0;
  if (numbers->left < 0) return 5;
  child = calloc(1, sizeof *child);
  values = calloc(2, sizeof *values);
  values[0] = numbers->left;
  values[1] = -numbers->left;
  child->length = 2;
  child->n_buffers = numbers->is_damaged ? 3 : 2;
  child->buffers = calloc(3, sizeof *child->buffers);
  child->buffers[1] = values;
  child->buffers[2] = "hello";
  if (numbers->is_damaged) {
    static const int32_t offsets[] = {0, 1000000000, 2};
    memcpy(values, offsets, sizeof offsets);
  }
  if (numbers->other_length) child->length = numbers->other_length;
  child->release = release_array;
  out->length = 2;
  out->n_buffers = 1;
  out->buffers = calloc(1, sizeof *out->buffers);
  out->n_children = 1;
  out->children = calloc(1, sizeof *out->children);
  out->children[0] = child;
  out->release = release_array;
  numbers->left--;
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return "the numbers are broken";
}

static int streams_released = 0;

static void release_stream(struct ArrowArrayStream *stream) {
  free(stream->private_data);
  stream->release = NULL;
  streams_released++;
}

static void give_numbers(struct ArrowArrayStream *stream, int64_t left) {
  struct numbers *numbers = calloc(1, sizeof *numbers);
  numbers->left = left;
  stream->get_schema = get_schema;
  stream->get_next = get_next;
  stream->get_last_error = get_last_error;
  stream->release = release_stream;
  stream->private_data = numbers;
}

static int32_t tables(void *context, const char *name, size_t length, struct ArrowArrayStream *rows) {
  ++*(int *)context;
  if (length == 7 && memcmp(name, "numbers", 7) == 0) {
    give_numbers(rows, 3);
    return 1;
  }
  if (length == 6 && memcmp(name, "broken", 6) == 0) {
    give_numbers(rows, -1);
    return 1;
  }
  return length == 6 && memcmp(name, "failed", 6) == 0 ? -1 : 0;
}

/* A call back would wait for the statement that waits for it. */
static int32_t calls_back(void *context, const char *name, size_t length, struct ArrowArrayStream *rows) {
  hypostyle_error *refused = NULL;
  hypostyle_status status = hypostyle_execute(connection, "SELECT 1", HYPOSTYLE_NUL, NULL, &refused);
  (void)name, (void)length, (void)rows;
  *(int32_t *)context += status == HYPOSTYLE_INVALID_INPUT && strcmp(hypostyle_error_sqlstate(refused), "HY010") == 0;
  hypostyle_error_free(&refused);
  return 0;
}

static void calls_from_within(void) {
  int32_t refused = 0;
  OK(hypostyle_set_tables(connection, calls_back, &refused, &error));
  REFUSED(hypostyle_execute(connection, "SELECT * FROM nowhere", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_UNKNOWN_NAME,
          "42P01");
  CHECK(refused > 0);
  OK(hypostyle_set_tables(connection, NULL, NULL, &error));
  SAYS("SELECT 1", "1");
}

static void external_tables(void) {
  int asked = 0;
  struct ArrowArrayStream stream;
  OK(hypostyle_set_tables(connection, tables, &asked, &error));
  SAYS("SELECT count(*) || ' ' || sum(n) || ' ' || max(n) FROM numbers", "6 0 3");
  CHECK(asked > 0 && streams_released > 0);
  CHECK(hypostyle_execute(connection, "SELECT * FROM broken", HYPOSTYLE_NUL, NULL, &error) != HYPOSTYLE_OK);
  CHECK(strstr(hypostyle_error_message(error), "numbers are broken") != NULL);
  hypostyle_error_free(&error);
  CHECK(hypostyle_execute(connection, "SELECT * FROM failed", HYPOSTYLE_NUL, NULL, NULL) != HYPOSTYLE_OK);
  REFUSED(hypostyle_execute(connection, "SELECT * FROM nowhere", HYPOSTYLE_NUL, NULL, &error), HYPOSTYLE_UNKNOWN_NAME,
          "42P01");
  OK(hypostyle_set_tables(connection, NULL, NULL, &error));
  CHECK(hypostyle_execute(connection, "SELECT * FROM numbers", HYPOSTYLE_NUL, NULL, NULL) == HYPOSTYLE_UNKNOWN_NAME);
  /* A stream that breaks leaves nothing, and is released. */
  do_sql("CREATE TABLE n (n BIGINT)");
  streams_released = 0;
  give_numbers(&stream, -1);
  CHECK(hypostyle_append(connection, "n", 1, &stream, 0, NULL, NULL) != HYPOSTYLE_OK);
  CHECK(streams_released == 1);
  give_numbers(&stream, 2);
  CHECK(hypostyle_append(NULL, "n", 1, &stream, 0, NULL, NULL) != HYPOSTYLE_OK);
  CHECK(streams_released == 2);
  SAYS("SELECT count(*) FROM n", "0");
  /* Damaged data is found before it is read. */
  do_sql("CREATE TABLE texts (n VARCHAR)");
  give_numbers(&stream, 1);
  ((struct numbers *)stream.private_data)->is_damaged = 1;
  CHECK(hypostyle_append(connection, "texts", 5, &stream, 0, NULL, &error) != HYPOSTYLE_OK);
  CHECK(strstr(hypostyle_error_message(error), "ffset") != NULL);
  hypostyle_error_free(&error);
  CHECK(streams_released == 3 && stream.release == NULL);
  SAYS("SELECT count(*) FROM texts", "0");
  /* So are lengths that none has. */
  for (size_t lie = 0; lie < 3; lie++) {
    static const int64_t lengths[] = {-1, INT64_MIN, INT64_MAX};
    give_numbers(&stream, 1);
    ((struct numbers *)stream.private_data)->other_length = lengths[lie];
    CHECK(hypostyle_append(connection, "n", 1, &stream, 0, NULL, &error) == HYPOSTYLE_INVALID_INPUT);
    CHECK(strstr(hypostyle_error_message(error), "damaged Arrow data") != NULL);
    hypostyle_error_free(&error);
  }
  SAYS("SELECT count(*) FROM n", "0");
}

int main(int argc, char **argv) {
  begin(argc, argv);
  values_of_each_type();
  refused_values();
  pieces();
  columns();
  columns_of_a_result();
  streams();
  broken_streams();
  bound_rows();
  external_tables();
  calls_from_within();
  return finish();
}
