/* A database in memory, a table, and a query with a parameter. */
#include <hypostyle.h>
#include <stdio.h>

int main(void) {
  hypostyle_database *database = NULL;
  hypostyle_connection *connection = NULL;
  hypostyle_statement *statement = NULL;
  hypostyle_result *result = NULL;
  hypostyle_error *error = NULL;
  hypostyle_value least = hypostyle_value_of_double(2);
  int32_t has_row = 0;

  if (hypostyle_open(":memory:", HYPOSTYLE_NUL, NULL, &database, &error) ||
      hypostyle_connect(database, &connection, &error) ||
      hypostyle_execute(connection,
                        "CREATE TABLE orders (name VARCHAR, total DOUBLE);"
                        "INSERT INTO orders VALUES ('pen', 1.5), ('ink', 7.25), ('paper', 3)",
                        HYPOSTYLE_NUL, NULL, &error) ||
      hypostyle_prepare(connection, "SELECT name, total FROM orders WHERE total > ? ORDER BY total", HYPOSTYLE_NUL,
                        &statement, &error) ||
      hypostyle_bind(statement, 0, &least, &error) || hypostyle_statement_execute(statement, &result, &error))
    goto end;

  while (hypostyle_result_step(result, &has_row, &error) == HYPOSTYLE_OK && has_row) {
    const char *name = NULL;
    size_t length = 0;
    double total = 0;
    if (hypostyle_row_text(result, 0, &name, &length, &error) || hypostyle_row_double(result, 1, &total, &error))
      goto end;
    printf("%s costs %.2f\n", name, total);
  }

end:
  if (error) fprintf(stderr, "%s (%s)\n", hypostyle_error_message(error), hypostyle_error_sqlstate(error));
  has_row = error != NULL;
  hypostyle_error_free(&error);
  hypostyle_result_free(&result);
  hypostyle_statement_free(&statement);
  hypostyle_disconnect(&connection);
  hypostyle_close(&database);
  return has_row;
}
