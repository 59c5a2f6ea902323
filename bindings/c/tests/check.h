/* What the test programs share: checks that say where they failed, and a database to work with. The
 * first argument of a program is the target of its database. */
#ifndef CHECK_H
#define CHECK_H

#include <hypostyle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);     \
      failures++;                                                                 \
    }                                                                             \
  } while (0)

/* The call succeeds; it uses `error` as its slot. */
#define OK(call)                                                                  \
  do {                                                                            \
    hypostyle_status status_ = (call);                                            \
    if (status_ != HYPOSTYLE_OK || error != NULL) {                               \
      fprintf(stderr, "%s:%d: %s: %d %s %s\n", __FILE__, __LINE__, #call, (int)status_, \
              hypostyle_error_sqlstate(error), hypostyle_error_message(error));   \
      hypostyle_error_free(&error);                                               \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

/* The call fails with this status and SQLSTATE, and says why. */
#define REFUSED(call, wanted, state)                                              \
  do {                                                                            \
    hypostyle_status status_ = (call);                                            \
    if (status_ != (wanted) || hypostyle_error_status(error) != (wanted) ||       \
        strcmp(hypostyle_error_sqlstate(error), (state)) != 0 ||                  \
        hypostyle_error_message(error)[0] == '\0') {                              \
      fprintf(stderr, "%s:%d: %s: %d %s %s\n", __FILE__, __LINE__, #call, (int)status_, \
              hypostyle_error_sqlstate(error), hypostyle_error_message(error));   \
      failures++;                                                                 \
    }                                                                             \
    hypostyle_error_free(&error);                                                 \
    CHECK(error == NULL);                                                         \
  } while (0)

/* A call that no program should make. */
#define MISUSE(call) REFUSED(call, HYPOSTYLE_INVALID_INPUT, "HY009")

#define SIZED(type, name)    \
  type name;                 \
  memset(&name, 0, sizeof name); \
  name.size = (uint32_t)sizeof name

static hypostyle_error *error = NULL;
static hypostyle_database *database = NULL;
static hypostyle_connection *connection = NULL;

static inline void begin(int argc, char **argv) {
  OK(hypostyle_open(argc > 1 ? argv[1] : NULL, HYPOSTYLE_NUL, NULL, &database, &error));
  OK(hypostyle_connect(database, &connection, &error));
}

static inline int finish(void) {
  hypostyle_disconnect(&connection);
  hypostyle_close(&database);
  CHECK(connection == NULL && database == NULL);
  return failures != 0;
}

static inline hypostyle_result *run(const char *sql) {
  hypostyle_result *result = NULL;
  OK(hypostyle_execute(connection, sql, HYPOSTYLE_NUL, &result, &error));
  return result;
}

static inline void do_sql(const char *sql) { OK(hypostyle_execute(connection, sql, HYPOSTYLE_NUL, NULL, &error)); }

/* The first value of a query, as text; "NULL" for NULL. */
static inline const char *one(const char *sql) {
  static char shown[4096];
  hypostyle_result *result = run(sql);
  int32_t has_row = 0;
  const char *text = NULL;
  size_t length = 0;
  OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(has_row == 1);
  OK(hypostyle_row_text(result, 0, &text, &length, &error));
  snprintf(shown, sizeof shown, "%s", text == NULL ? "NULL" : text);
  hypostyle_result_free(&result);
  return shown;
}

#define SAYS(sql, expected)                                                       \
  do {                                                                            \
    const char *found_ = one(sql);                                                \
    if (strcmp(found_, (expected)) != 0) {                                        \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, (sql), found_);      \
      failures++;                                                                 \
    }                                                                             \
  } while (0)

static inline hypostyle_value of(hypostyle_type type) {
  SIZED(hypostyle_value, value);
  value.type = type;
  return value;
}

static inline hypostyle_value integer(hypostyle_type type, int64_t integer) {
  hypostyle_value value = of(type);
  value.integer = integer;
  return value;
}

static inline hypostyle_value number(hypostyle_type type, double number) {
  hypostyle_value value = of(type);
  value.number = number;
  return value;
}

static inline hypostyle_value data(hypostyle_type type, const void *data, size_t length) {
  hypostyle_value value = of(type);
  value.data = data;
  value.length = length;
  return value;
}

/* ---- Appenders ---- */

static inline hypostyle_appender *open_appender(const char *table) {
  hypostyle_appender *appender = NULL;
  OK(hypostyle_appender_open(connection, table, HYPOSTYLE_NUL, &appender, &error));
  return appender;
}

static inline void put(hypostyle_appender *appender, hypostyle_value value) {
  OK(hypostyle_appender_value(appender, &value, &error));
}

/* Rows of a number, from 0 on, and a text. */
static inline void put_rows(hypostyle_appender *appender, int64_t rows) {
  for (int64_t row = 0; row < rows; row++) {
    put(appender, integer(HYPOSTYLE_BIGINT, row));
    put(appender, data(HYPOSTYLE_VARCHAR, "some text", 9));
    OK(hypostyle_appender_end_row(appender, &error));
  }
}

#endif /* CHECK_H */
