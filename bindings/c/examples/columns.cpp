// A million rows as a column: no row is copied, and the sum reads the file's own bytes.
#include <hypostyle.hpp>

#include <iostream>
#include <numeric>

int main() try {
  hypostyle::Database database;
  hypostyle::Connection connection(database);
  connection.execute("CREATE TABLE readings (sensor VARCHAR, value DOUBLE)");

  auto appender = connection.appender("readings");
  for (int reading = 0; reading < 1000000; reading++) appender.row("s" + std::to_string(reading % 3), reading / 2.0);
  std::cout << appender.finish() << " rows\n";

  auto result = connection.execute("SELECT * FROM readings");
  auto sensors = result.values(0), values = result.values(1);
  auto numbers = values.as<const double>();
  std::cout << "the sum is " << std::accumulate(numbers.begin(), numbers.end(), 0.0) << '\n';
  std::cout << "the last sensor is " << sensors.text(sensors.size() - 1) << '\n';

  for (auto row : connection.execute("SELECT sensor, max(value) FROM readings GROUP BY sensor ORDER BY sensor"))
    std::cout << row.text(0) << ": " << row.number(1) << '\n';
} catch (const hypostyle::Error &error) {
  std::cerr << error.what() << " (" << error.sqlstate() << ")\n";
  return 1;
}
