// The classes of hypostyle.hpp: lifetimes, exceptions, ranges.
#include <hypostyle.hpp>

#include <cmath>
#include <iostream>
#include <numeric>

namespace {

int failures = 0;

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::cerr << __FILE__ << ':' << __LINE__ << ": not so: " #condition << '\n'; \
      failures++;                                                                  \
    }                                                                              \
  } while (0)

template <typename Exception, typename Work>
bool throws(Work work) {
  try {
    work();
  } catch (const Exception &) {
    return true;
  }
  return false;
}

void rows(hypostyle::Connection &connection) {
  connection.execute("CREATE TABLE orders (id INTEGER, name VARCHAR, total DOUBLE, paid BOOLEAN)");
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
  CHECK(insert.kind() == HYPOSTYLE_KIND_INSERT && insert.parameters() == 3);
  insert.bind("name", "paper").bind("id", 4).bind("total", hypostyle::Value::decimal(250, 2));
  CHECK(insert.execute().rows_affected() == 1);
  const char *const none = nullptr;
  CHECK(insert.execute(5, none, 1.0).rows_affected() == 1);
  auto result = connection.execute("SELECT count(*) AS n, count(name) FROM orders");
  CHECK(result.columns() == 2 && result.name(0) == "n" && result.step());
  CHECK(result.row().integer(0) == 5 && result.row().integer(1) == 3 && !result.row().is_null(0));
  CHECK(!result.step() && result.begin() == result.end());
}

void columns(hypostyle::Connection &connection) {
  connection.execute("CREATE TABLE numbers AS SELECT value AS a, (['x', 'y'])[value % 2 + 1] AS b, 'no ' || value AS c,"
                     " value % 2 = 0 AS d, CASE WHEN value > 1 THEN value END AS e FROM generate_series(1, 100000)");
  auto result = connection.execute("SELECT * FROM numbers");
  auto a = result.values(0), b = result.values(1), c = result.values(2), d = result.values(3), e = result.values(4);
  const auto numbers = a.as<const std::int64_t>();
  CHECK(numbers.size() == 100000 && std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}) == 5000050000);
  CHECK(b.text(0) == "y" && b.text(1) == "x" && c.text(9) == "no 10" && !d.boolean(0) && d.boolean(1));
  CHECK(e.is_null(0) && !e.is_null(1) && e.null_count() == 1);
  CHECK(throws<std::invalid_argument>([&] { a.as<const std::int32_t>(); }));
  CHECK(throws<std::invalid_argument>([&] { a.as<std::int64_t>(); }));
  CHECK(throws<std::invalid_argument>([&] { a.as<const double>(); }));
  CHECK(throws<std::out_of_range>([&] { e.is_null(100000); }));
  {
    auto halves = connection.execute("SELECT a / 2e0 AS half FROM numbers WHERE a < 3 ORDER BY a");
    auto half = halves.values(0);
    CHECK(half.as<const double>()[1] == 1 && throws<std::invalid_argument>([&] { half.as<const std::int64_t>(); }));
  }
  CHECK(throws<std::invalid_argument>([&] { a.text(0); }));
  CHECK(throws<std::out_of_range>([&] { c.text(100000); }));
  auto mine = result.values(0, HYPOSTYLE_VALUES_PRIVATE);
  for (auto &number : mine.as<std::int64_t>()) number = 0;
  CHECK(numbers[0] == 1 && result.row_count() == 100000);
  hypostyle::Values moved = std::move(mine);
  CHECK(moved.size() == 100000 && moved.as<const std::int64_t>()[5] == 0);
  moved = std::move(a);
  CHECK(moved.as<const std::int64_t>()[5] == 6);
}

void errors(hypostyle::Connection &connection) {
  try {
    connection.execute("SELECT * FROM nowhere");
    CHECK(false);
  } catch (const hypostyle::Error &error) {
    CHECK(error.status() == HYPOSTYLE_UNKNOWN_NAME && error.sqlstate() == "42P01");
    CHECK(std::string(error.what()).find("nowhere") != std::string::npos);
  }
  CHECK(throws<hypostyle::Error>([&] { connection.prepare("SELECT ?").bind(1, 1); }));
  // What was moved from is refused, and does no harm.
  hypostyle::Connection other = std::move(connection);
  CHECK(throws<hypostyle::Error>([&] { connection.execute("SELECT 1"); }));
  connection = std::move(other);
  connection.set_autocommit(false);
  connection.execute("DELETE FROM numbers");
  CHECK(connection.transaction_state() == HYPOSTYLE_IN_TRANSACTION);
  connection.rollback();
  connection.set_autocommit(true);
  CHECK(connection.execute("SELECT * FROM numbers").row_count() == 100000);
  // An appender that is not finished appends nothing.
  { connection.appender("orders").row(9, "x", 1, true); }
  CHECK(connection.execute("SELECT * FROM orders WHERE id = 9").row_count() == 0);
  auto stream = connection.execute("SELECT 9 AS id, 'nine' AS name").stream();
  CHECK(connection.append("orders", stream) == 1);
}

}  // namespace

int main(int argc, char **argv) {
  hypostyle::Database database(argc > 1 ? argv[1] : ":memory:");
  hypostyle::Connection connection(database);
  rows(connection);
  columns(connection);
  errors(connection);
  return failures != 0;
}
