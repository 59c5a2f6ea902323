// A database of PostgreSQL through the classes of hypostyle.hpp.
#include <hypostyle.hpp>

#include <iostream>
#include <numeric>
#include <string>

namespace {

int failures = 0;

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::cerr << __FILE__ << ':' << __LINE__ << ": not so: " #condition << '\n'; \
      failures++;                                                                  \
    }                                                                              \
  } while (0)

// Returns the SQLSTATE with which work fails.
template <typename Work>
std::string fails(Work work) {
  try {
    work();
  } catch (const hypostyle::Error &error) {
    return error.sqlstate();
  }
  return "00000";
}

void rows(hypostyle::Connection &connection) {
  connection.execute("CREATE TEMP TABLE orders (id int, name text, total double precision, paid boolean)");
  auto appender = connection.appender("orders");
  appender.row(1, "pen", 1.5, true).row(2, std::string("ink"), 2, false).row(3, nullptr, std::nullopt, nullptr);
  CHECK(appender.finish() == 3);
  double sum = 0;
  std::string names;
  for (auto row : connection.execute("SELECT name, total FROM orders WHERE total > ? ORDER BY id", 1)) {
    names += row.text(0);
    sum += row.number(1);
  }
  CHECK(names == "penink" && sum == 3.5);
  auto insert = connection.prepare("INSERT INTO orders VALUES ($id, $name, $total, true)");
  insert.bind("name", "paper").bind("id", 4).bind("total", hypostyle::Value::decimal(250, 2));
  CHECK(insert.execute().rows_affected() == 1);
  const char *const none = nullptr;
  CHECK(insert.execute(5, none, 1.0).rows_affected() == 1);
  auto result = connection.execute("SELECT count(*) AS n, count(name) FROM orders");
  CHECK(result.columns() == 2 && result.name(0) == "n" && result.step() && result.row().integer(0) == 5);
}

void columns(hypostyle::Connection &connection) {
  auto result = connection.execute("SELECT i::bigint AS a, 'no ' || i AS b FROM generate_series(1, 100000) AS s (i)");
  auto a = result.values(0), b = result.values(1);
  const auto numbers = a.as<const std::int64_t>();
  CHECK(numbers.size() == 100000 && std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}) == 5000050000);
  CHECK(b.text(99999) == "no 100000");
}

void errors(hypostyle::Connection &connection) {
  CHECK(fails([&] { connection.execute("SELECT nosuch"); }) == "42703");
  CHECK(fails([&] { connection.execute("SELECT ?::int", "x"); }) == "22P02");
  CHECK(connection.execute("SELECT 1").step());
}

}  // namespace

int main(int, char **arguments) {
  hypostyle::Database database(arguments[1]);
  hypostyle::Connection connection(database);
  rows(connection);
  columns(connection);
  errors(connection);
  return failures != 0;
}
