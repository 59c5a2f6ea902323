/* Columns as they lie: stored ones, computed ones, private ones, and what is known of them. */
#include "check.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

static hypostyle_values values_of(hypostyle_result *result, size_t column, uint32_t flags) {
  SIZED(hypostyle_values, values);
  OK(hypostyle_result_values(result, column, flags, &values, &error));
  return values;
}

static int is_null(const hypostyle_values *values, uint64_t row) {
  uint64_t bit = values->validity_offset + row;
  return values->validity != NULL && ((values->validity[bit / 8] >> (bit % 8)) & 1) == 0;
}

static void stored(int is_here) {
  hypostyle_result *result = run("SELECT * FROM wide");
  hypostyle_values numbers = values_of(result, 0, 0), floats = values_of(result, 1, 0);
  hypostyle_values codes = values_of(result, 2, 0), texts = values_of(result, 3, 0), flags = values_of(result, 4, 0);
  hypostyle_values plain = values_of(result, 2, HYPOSTYLE_VALUES_PLAIN);
  SIZED(hypostyle_statistics, known);

  CHECK(numbers.type == HYPOSTYLE_BIGINT && numbers.width == 8 && numbers.count == 100000);
  CHECK(numbers.null_count == 0 && numbers.validity == NULL);
  CHECK(((const int64_t *)numbers.data)[0] == 1 && ((const int64_t *)numbers.data)[99999] == 100000);
  CHECK(floats.type == HYPOSTYLE_DOUBLE && floats.null_count == 10000);
  CHECK(is_null(&floats, 9) && !is_null(&floats, 8) && ((const double *)floats.data)[8] == 4.5);
  if (is_here) {
    CHECK((numbers.flags & HYPOSTYLE_VALUES_MAPPED) && (floats.flags & HYPOSTYLE_VALUES_MISSING));
    CHECK((codes.flags & HYPOSTYLE_VALUES_DICTIONARY));
    CHECK(isnan(((const double *)floats.data)[9]));
    OK(hypostyle_result_statistics(result, 0, &known, &error));
    CHECK(known.known == (HYPOSTYLE_KNOWN_NULLS | HYPOSTYLE_KNOWN_RANGE | HYPOSTYLE_KNOWN_EXACT));
    CHECK(known.row_count == 100000 && known.null_count == 0);
    CHECK(known.minimum.type == HYPOSTYLE_BIGINT && known.minimum.integer == 1 && known.maximum.integer == 100000);
    OK(hypostyle_result_statistics(result, 2, &known, &error));
    CHECK((known.known & HYPOSTYLE_KNOWN_DISTINCT) && known.distinct_count == 3);
    CHECK(known.maximum.length == 3 && memcmp(known.maximum.data, "two", 3) == 0);
  }
  CHECK(plain.type == HYPOSTYLE_VARCHAR && !(plain.flags & HYPOSTYLE_VALUES_DICTIONARY));
  CHECK(plain.offsets[1] - plain.offsets[0] == 3 && memcmp(plain.heap + plain.offsets[0], "two", 3) == 0);
  if (codes.flags & HYPOSTYLE_VALUES_DICTIONARY) {
    const int8_t *code = codes.data;
    const int64_t *offsets = codes.offsets;
    CHECK(codes.width == 1 && codes.dictionary_count == 3 && code[0] >= 0 && code[0] < 3);
    CHECK(memcmp(codes.heap + offsets[code[0]], "two", (size_t)(offsets[code[0] + 1] - offsets[code[0]])) == 0);
  }
  CHECK(texts.type == HYPOSTYLE_VARCHAR && texts.count == 100000);
  CHECK(texts.offsets[3] - texts.offsets[2] == 5 && memcmp(texts.heap + texts.offsets[2], "row 3", 5) == 0);
  CHECK(flags.type == HYPOSTYLE_BOOLEAN && flags.width == 0);
  CHECK(((((const uint8_t *)flags.data)[flags.data_offset / 8] >> (flags.data_offset % 8)) & 3) == 2);
  OK(hypostyle_result_verify(result, 0, 10, 90000, &error));
  MISUSE(hypostyle_result_verify(result, 0, 10, UINT64_MAX, &error));
  MISUSE(hypostyle_result_verify(result, 99, 0, 1, &error));

  /* Values outlive everything. */
  hypostyle_result_free(&result);
  do_sql("DROP TABLE wide");
  hypostyle_disconnect(&connection);
  OK(hypostyle_connect(database, &connection, &error));
  CHECK(((const int64_t *)numbers.data)[50000] == 50001);
  CHECK(memcmp(texts.heap + texts.offsets[2], "row 3", 5) == 0);
  hypostyle_values_free(&numbers);
  CHECK(numbers.data == NULL && numbers.owner == NULL && numbers.size == sizeof numbers);
  hypostyle_values_free(&numbers);
  hypostyle_values_free(&floats);
  hypostyle_values_free(&codes);
  hypostyle_values_free(&texts);
  hypostyle_values_free(&flags);
  hypostyle_values_free(&plain);
  hypostyle_values_free(NULL);
}

static void private_values(void) {
  hypostyle_result *result = NULL;
  hypostyle_values mine, shared;
  do_sql("CREATE TABLE mine AS SELECT value AS a FROM generate_series(1, 50000)");
  result = run("SELECT a FROM mine");
  mine = values_of(result, 0, HYPOSTYLE_VALUES_PRIVATE);
  shared = values_of(result, 0, 0);
  CHECK(mine.flags & HYPOSTYLE_VALUES_PRIVATE);
  for (uint64_t row = 0; row < mine.count; row++) ((int64_t *)(uintptr_t)mine.data)[row] = -1;
  CHECK(((const int64_t *)shared.data)[7] == 8);
  SAYS("SELECT min(a) FROM mine", "1");
  hypostyle_values_free(&mine);
  hypostyle_values_free(&shared);
  hypostyle_result_free(&result);
  result = run("SELECT a * 2 FROM mine LIMIT 3");
  mine = values_of(result, 0, HYPOSTYLE_VALUES_PRIVATE);
  ((int64_t *)(uintptr_t)mine.data)[0] = 99;
  shared = values_of(result, 0, 0);
  CHECK(((const int64_t *)shared.data)[0] != 99 && shared.count == 3);
  hypostyle_values_free(&mine);
  hypostyle_values_free(&shared);
  hypostyle_result_free(&result);
}

/* Where the values say so, each NULL holds the missing value of its type. */
static void check_missing(const char *sql) {
  hypostyle_result *result = run(sql);
  for (size_t column = 0; column < hypostyle_result_columns(result); column++) {
    hypostyle_values values = values_of(result, column, 0);
    uint64_t nulls = 0, others = 0;
    for (uint64_t row = 0; row < values.count; row++) {
      if (!is_null(&values, row)) continue;
      nulls++;
      if (values.flags & HYPOSTYLE_VALUES_DICTIONARY) {
        others += ((const int8_t *)values.data)[row] != -1;
      } else if (values.type == HYPOSTYLE_DOUBLE) {
        others += !isnan(((const double *)values.data)[row]);
      } else if (values.type == HYPOSTYLE_BIGINT) {
        others += ((const int64_t *)values.data)[row] != INT64_MIN;
      } else if (values.type == HYPOSTYLE_DATE) {
        others += ((const int32_t *)values.data)[row] != INT32_MIN;
      }
    }
    if (nulls != values.null_count || ((values.flags & HYPOSTYLE_VALUES_MISSING) && others > 0)) {
      fprintf(stderr, "%s: column %d: %d NULLs, %d of them with values\n", sql, (int)column, (int)nulls, (int)others);
      failures++;
    }
    hypostyle_values_free(&values);
  }
  hypostyle_result_free(&result);
}

static void missing_values(void) {
  do_sql("CREATE TABLE sparse AS SELECT CASE WHEN value % 3 > 0 THEN value END AS a,"
         " CASE WHEN value % 3 > 0 THEN value::DOUBLE END AS b, CASE WHEN value % 3 > 0 THEN DATE '2000-01-01' END AS c,"
         " CASE WHEN value % 3 > 0 THEN 'few' END AS d FROM generate_series(1, 70000)");
  check_missing("SELECT * FROM sparse");
  do_sql("INSERT INTO sparse VALUES (NULL, NULL, NULL, NULL), (1, 'NaN', DATE '2000-01-02', 'few')");
  check_missing("SELECT * FROM sparse");
  check_missing("SELECT b, a FROM sparse LIMIT 10");
  do_sql("DELETE FROM sparse WHERE a % 1000 = 1 OR a IS NULL AND b IS NULL AND c IS NULL AND d IS NULL AND random() < 0.01");
  check_missing("SELECT * FROM sparse");
  do_sql("INSERT INTO sparse SELECT NULL, NULL, NULL, NULL FROM generate_series(1, 100)");
  check_missing("SELECT * FROM sparse");
  check_missing("SELECT a + 1, b * 2, d FROM sparse");
}

/* The place for a vector: a page for what is before its elements, and the elements behind it. */
static void mapped_behind_a_header(int is_here) {
  hypostyle_result *result = run("SELECT a, a + 1 AS b FROM mine"), *whole = run("SELECT a FROM mine");
  size_t page = (size_t)sysconf(_SC_PAGESIZE), length = (50000 * 8 + page - 1) / page * page;
  char *reserved = mmap(NULL, page + length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int64_t *elements = (int64_t *)(void *)(reserved + page);
  int32_t mapped = -1;
  CHECK(reserved != MAP_FAILED);
  reserved[page - 1] = 7;
  OK(hypostyle_result_map(result, 1, elements, length, &mapped, &error));
  CHECK(mapped == 0 && elements[0] == 0);
  OK(hypostyle_result_map(whole, 0, elements, length, &mapped, &error));
  CHECK(mapped == is_here);
  if (is_here) {
    CHECK(elements[0] == 1 && elements[49999] == 50000 && reserved[page - 1] == 7);
    elements[0] = 99;
    SAYS("SELECT min(a) FROM mine", "1");
    MISUSE(hypostyle_result_map(whole, 0, elements, 8, &mapped, &error));
    CHECK(hypostyle_result_map(whole, 0, reserved + 8, length, &mapped, NULL) == HYPOSTYLE_INVALID_INPUT);
    CHECK(hypostyle_result_map(whole, 0, NULL, length, &mapped, NULL) == HYPOSTYLE_INVALID_INPUT);
  }
  MISUSE(hypostyle_result_map(whole, 1, elements, length, &mapped, &error));
  MISUSE(hypostyle_result_map(whole, 0, elements, length, NULL, &error));
  hypostyle_result_free(&whole);
  hypostyle_result_free(&result);
  CHECK(!is_here || elements[1] == 2);
  munmap(reserved, page + length);
}

static void computed(void) {
  hypostyle_result *result = run(
      "SELECT 1::TINYINT, 1::SMALLINT, 1::INTEGER, 1::BIGINT, 1::UTINYINT, 1::USMALLINT, 1::UINTEGER, 1::UBIGINT,"
      " 1::FLOAT, 1::DOUBLE, 1::DECIMAL(5,2), 1::DECIMAL(15,2), 1::DECIMAL(38,2), DATE '1970-01-02',"
      " TIME '00:00:01', TIMESTAMP '1970-01-02 00:00:00', INTERVAL '1 month', 'x', 'x'::BLOB,"
      " '12345678-1234-5678-1234-567812345678'::UUID, true, NULL, [1]");
  static const uint32_t widths[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 16, 16, 16, 4, 8, 8, 16, 0, 0, 16, 0, 0};
  static const hypostyle_type types[] = {
      HYPOSTYLE_TINYINT, HYPOSTYLE_SMALLINT, HYPOSTYLE_INTEGER, HYPOSTYLE_BIGINT, HYPOSTYLE_UTINYINT,
      HYPOSTYLE_USMALLINT, HYPOSTYLE_UINTEGER, HYPOSTYLE_UBIGINT, HYPOSTYLE_FLOAT, HYPOSTYLE_DOUBLE,
      HYPOSTYLE_DECIMAL, HYPOSTYLE_DECIMAL, HYPOSTYLE_DECIMAL, HYPOSTYLE_DATE, HYPOSTYLE_TIME,
      HYPOSTYLE_TIMESTAMP, HYPOSTYLE_INTERVAL, HYPOSTYLE_VARCHAR, HYPOSTYLE_BLOB, HYPOSTYLE_UUID,
      HYPOSTYLE_BOOLEAN};
  SIZED(hypostyle_values, values);
  SIZED(hypostyle_statistics, known);
  for (size_t column = 0; column < sizeof widths / sizeof *widths; column++) {
    OK(hypostyle_result_values(result, column, 0, &values, &error));
    if (values.width != widths[column] || values.count != 1 || (values.flags & HYPOSTYLE_VALUES_MAPPED)) {
      fprintf(stderr, "column %d: width %d, flags %d\n", (int)column, (int)values.width, (int)values.flags);
      failures++;
    }
    if (column < sizeof types / sizeof *types) CHECK(values.type == types[column]);
    if (values.type == HYPOSTYLE_DECIMAL) CHECK(values.scale == 2 && *(const int8_t *)values.data == 100);
    if (values.type == HYPOSTYLE_TIMESTAMP) CHECK(values.scale == 6 || values.scale == 9);
    hypostyle_values_free(&values);
  }
  /* Stored ones are as narrow as their digits let them be. */
  do_sql("CREATE TABLE decimals AS SELECT value::DECIMAL(5,2) AS a, value::DECIMAL(15,2) AS b,"
         " value::DECIMAL(38,2) AS c, value::DECIMAL(60,2) AS d FROM generate_series(1, 900)");
  {
    hypostyle_result *decimals = run("SELECT * FROM decimals");
    for (size_t column = 0; column < 4; column++) {
      OK(hypostyle_result_values(decimals, column, 0, &values, &error));
      CHECK(values.type == HYPOSTYLE_DECIMAL && values.scale == 2 && values.width == 4u << column);
      CHECK(memcmp(values.data, "\x64\0\0", 4) == 0);
      hypostyle_values_free(&values);
    }
    hypostyle_result_free(&decimals);
  }
  REFUSED(hypostyle_result_values(result, 22, 0, &values, &error), HYPOSTYLE_UNSUPPORTED, "0A000");
  MISUSE(hypostyle_result_values(result, 23, 0, &values, &error));
  values.size = 16;
  MISUSE(hypostyle_result_values(result, 0, 0, &values, &error));
  OK(hypostyle_result_statistics(result, 0, &known, &error));
  CHECK(known.known == 0 && known.size == sizeof known);
  hypostyle_result_free(&result);
  result = run("SELECT a FROM mine WHERE a < 0");
  values.size = (uint32_t)sizeof values;
  OK(hypostyle_result_values(result, 0, 0, &values, &error));
  CHECK(values.count == 0);
  hypostyle_values_free(&values);
  hypostyle_result_free(&result);
}

/* The rows some at a time: each batch has as many values in each column, and lists are texts. */
static void in_batches(void) {
  hypostyle_result *result = run("SELECT a AS n, CASE WHEN a % 3 > 0 THEN 'row ' || a END AS t, [a, NULL] AS l,"
                                 " a % 2 = 0 AS e FROM generate_series(1, 100000) AS s (a)");
  SIZED(hypostyle_values, values);
  uint64_t rows = 0, seen = 0, batches = 0, wrong = 0;
  char text[64];
  int64_t value = 0;
  MISUSE(hypostyle_batch_values(result, 0, 0, &values, &error));
  for (;;) {
    OK(hypostyle_result_step_batch(result, &rows, &error));
    if (rows == 0) break;
    batches++;
    MISUSE(hypostyle_row_int64(result, 0, &value, &error));
    for (size_t column = 0; column < 4; column++) {
      OK(hypostyle_batch_values(result, column, HYPOSTYLE_VALUES_PLAIN, &values, &error));
      CHECK(values.count == rows && values.owner != NULL);
      for (uint64_t row = 0; row < rows; row++) {
        uint64_t number = seen + row + 1, bit = values.data_offset + row;
        size_t length = values.offsets == NULL ? 0 : (size_t)(values.offsets[row + 1] - values.offsets[row]);
        if (column == 0) wrong += ((const int64_t *)values.data)[row] != (int64_t)number;
        if (column == 3) wrong += (((const uint8_t *)values.data)[bit / 8] >> (bit % 8) & 1) != (number % 2 == 0);
        snprintf(text, sizeof text, column == 1 ? "row %d" : "[%d, NULL]", (int)number);
        if (column == 1 && number % 3 == 0)
          wrong += !is_null(&values, row);
        else if (column == 1 || column == 2)
          wrong += length != strlen(text) || memcmp(values.heap + values.offsets[row], text, length) != 0;
      }
      hypostyle_values_free(&values);
    }
    MISUSE(hypostyle_batch_values(result, 4, 0, &values, &error));
    seen += rows;
  }
  CHECK(seen == 100000 && batches > 1 && wrong == 0);
  MISUSE(hypostyle_batch_values(result, 0, 0, &values, &error));
  hypostyle_result_free(&result);

  /* Values outlive their result; a row by itself comes behind those of a batch. */
  result = run("SELECT a FROM wide_again");
  OK(hypostyle_result_step_batch(result, &rows, &error));
  OK(hypostyle_batch_values(result, 0, 0, &values, &error));
  int32_t has_row = 1;
  for (seen = rows; has_row && seen <= 100000; seen += (uint64_t)has_row)
    OK(hypostyle_result_step(result, &has_row, &error));
  CHECK(seen == 100000);
  hypostyle_result_free(&result);
  do_sql("DROP TABLE wide_again");
  CHECK(((const int64_t *)values.data)[rows - 1] == (int64_t)rows);
  hypostyle_values_free(&values);
}

int main(int argc, char **argv) {
  begin(argc, argv);
  do_sql("CREATE TABLE wide AS SELECT value AS a, CASE WHEN value % 10 <> 0 THEN value / 2.0::DOUBLE END AS b,"
         " (['three', 'two', 'one'])[value % 3 + 1] AS c, 'row ' || value AS d, value % 2 = 0 AS e"
         " FROM generate_series(1, 100000)");
  stored(argc < 2 || strstr(argv[1], "://") == NULL);
  private_values();
  missing_values();
  mapped_behind_a_header(argc < 2 || strstr(argv[1], "://") == NULL);
  computed();
  do_sql("CREATE TABLE wide_again AS SELECT value AS a FROM generate_series(1, 100000)");
  in_batches();
  return finish();
}
