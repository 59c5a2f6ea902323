// Hypostyle for C++17: hypostyle.h with destructors, exceptions and ranges. Header-only.
//
// SPDX-License-Identifier: Apache-2.0
//
//   hypostyle::Database database("shop.hypo");
//   hypostyle::Connection connection(database);
//   for (auto row : connection.execute("SELECT name, total FROM orders WHERE total > ?", 100))
//     std::cout << row.text(0) << ' ' << row.number(1) << '\n';
//
// Each class owns one handle; it is moved and not copied. Functions throw hypostyle::Error. A class
// that was moved from holds no handle, and the library refuses its calls with such an error.
#ifndef HYPOSTYLE_HPP
#define HYPOSTYLE_HPP

#include "hypostyle.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hypostyle {

// A failure of the database, with its status and SQLSTATE.
class Error : public std::runtime_error {
 public:
  explicit Error(const hypostyle_error *error)
      : std::runtime_error(hypostyle_error_message(error)),
        status_(hypostyle_error_status(error)),
        sqlstate_(hypostyle_error_sqlstate(error)),
        position_(hypostyle_error_position(error)) {
    if (const char *detail = hypostyle_error_detail(error)) detail_ = detail;
  }

  hypostyle_status status() const noexcept { return status_; }
  const std::string &sqlstate() const noexcept { return sqlstate_; }
  const std::string &detail() const noexcept { return detail_; }
  // The place in the statement's text, in characters from 1 on; 0 if there is none.
  std::uint64_t position() const noexcept { return position_; }

 private:
  hypostyle_status status_;
  std::string sqlstate_;
  std::string detail_;
  std::uint64_t position_;
};

namespace internal {

// The slot for an error of one call.
class Slot {
 public:
  Slot() = default;
  Slot(const Slot &) = delete;
  Slot &operator=(const Slot &) = delete;
  ~Slot() { hypostyle_error_free(&error_); }

  operator hypostyle_error **() noexcept { return &error_; }

  void check(hypostyle_status status) const {
    if (status != HYPOSTYLE_OK) throw Error(error_);
  }

 private:
  hypostyle_error *error_ = nullptr;
};

template <typename Handle, void (*Free)(Handle **)>
struct Freed {
  void operator()(Handle *handle) const noexcept { Free(&handle); }
};

template <typename Handle, void (*Free)(Handle **)>
using Owned = std::unique_ptr<Handle, Freed<Handle, Free>>;

inline hypostyle_value typed(hypostyle_type type) {
  hypostyle_value value{};
  value.size = static_cast<std::uint32_t>(sizeof value);
  value.type = type;
  return value;
}

template <typename T>
inline constexpr bool is_text = std::is_convertible_v<const T &, std::string_view>;

}  // namespace internal

// A value for a parameter or for a column of an appended row. It refers to texts of the caller's.
class Value {
 public:
  Value() : value_(internal::typed(HYPOSTYLE_NULL)) {}
  Value(std::nullptr_t) : Value() {}
  Value(std::nullopt_t) : Value() {}

  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Value(T given) : Value() {
    if constexpr (std::is_same_v<T, bool>) {
      value_.type = HYPOSTYLE_BOOLEAN;
      value_.integer = given ? 1 : 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      value_.type = HYPOSTYLE_DOUBLE;
      value_.number = static_cast<double>(given);
    } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::uint64_t)) {
      value_.type = HYPOSTYLE_UBIGINT;
      value_.integer = static_cast<std::int64_t>(given);
    } else {
      value_.type = HYPOSTYLE_BIGINT;
      value_.integer = static_cast<std::int64_t>(given);
    }
  }

  template <typename T, std::enable_if_t<internal::is_text<T>, int> = 0>
  Value(const T &given) : Value() {
    const std::string_view text = given;
    value_.type = HYPOSTYLE_VARCHAR;
    value_.data = text.data();
    value_.length = text.size();
  }

  Value(const char *given) : Value() {
    if (given != nullptr) *this = Value(std::string_view(given));
  }

  template <typename T>
  Value(const std::optional<T> &given) : Value() {
    if (given) *this = Value(*given);
  }

  Value(const hypostyle_value &given) : value_(given) {}

  static Value blob(const void *data, std::size_t length) {
    Value value;
    value.value_.type = HYPOSTYLE_BLOB;
    value.value_.data = data;
    value.value_.length = length;
    return value;
  }

  // The value times 10 to the scale, as far as 64 bits have room for it.
  static Value decimal(std::int64_t scaled, std::int32_t scale) {
    Value value;
    value.value_.type = HYPOSTYLE_DECIMAL;
    value.value_.scale = scale;
    value.value_.integer = scaled;
    value.value_.high = scaled < 0 ? -1 : 0;
    return value;
  }

  // Days since 1970-01-01.
  static Value date(std::int64_t days) {
    Value value;
    value.value_.type = HYPOSTYLE_DATE;
    value.value_.integer = days;
    return value;
  }

  // Microseconds since 1970-01-01 00:00.
  static Value timestamp(std::int64_t microseconds, bool with_time_zone = false) {
    Value value;
    value.value_.type = with_time_zone ? HYPOSTYLE_TIMESTAMPTZ : HYPOSTYLE_TIMESTAMP;
    value.value_.scale = 6;
    value.value_.integer = microseconds;
    return value;
  }

  const hypostyle_value *get() const noexcept { return &value_; }

 private:
  hypostyle_value value_;
};

// Elements side by side that belong to someone else.
template <typename T>
class Range {
 public:
  using value_type = std::remove_const_t<T>;
  using iterator = T *;

  Range(T *data, std::size_t size) : data_(data), size_(size) {}

  T *begin() const noexcept { return data_; }
  T *end() const noexcept { return data_ + size_; }
  T *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T &operator[](std::size_t index) const { return data_[index]; }

 private:
  T *data_;
  std::size_t size_;
};

// All values of one column. They outlive the result, the connection and the database.
class Values {
 public:
  explicit Values(const hypostyle_values &values) : values_(values) {}
  Values(const Values &) = delete;
  Values &operator=(const Values &) = delete;
  Values(Values &&other) noexcept : values_(other.values_) { other.forget(); }
  Values &operator=(Values &&other) noexcept {
    if (this != &other) {
      hypostyle_values_free(&values_);
      values_ = other.values_;
      other.forget();
    }
    return *this;
  }
  ~Values() { hypostyle_values_free(&values_); }

  const hypostyle_values &get() const noexcept { return values_; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(values_.count); }
  std::size_t null_count() const noexcept { return static_cast<std::size_t>(values_.null_count); }
  bool is_mapped() const noexcept { return (values_.flags & HYPOSTYLE_VALUES_MAPPED) != 0; }

  bool is_null(std::size_t row) const {
    check(true, row);
    return values_.validity != nullptr && !bit(values_.validity, values_.validity_offset + row);
  }

  // The elements of a column of fixed width, such as int64_t of BIGINT or double of DOUBLE. Numbers with a
  // fraction are read as such, and others are not. Those of private values may be written to: T is not
  // const then.
  template <typename T>
  Range<T> as() const {
    if (values_.width != sizeof(T) || (values_.flags & HYPOSTYLE_VALUES_DICTIONARY) != 0)
      throw std::invalid_argument("an element of the column has another width than the type");
    const bool is_real = values_.type == HYPOSTYLE_FLOAT || values_.type == HYPOSTYLE_DOUBLE;
    if (std::is_arithmetic_v<T> && std::is_floating_point_v<T> != is_real)
      throw std::invalid_argument("the column has numbers of another kind than the type");
    if (!std::is_const_v<T> && (values_.flags & HYPOSTYLE_VALUES_PRIVATE) == 0)
      throw std::invalid_argument("the values are not private; read them as const");
    return Range<T>(static_cast<T *>(const_cast<void *>(values_.data)), size());
  }

  bool boolean(std::size_t row) const {
    check(values_.type == HYPOSTYLE_BOOLEAN, row);
    return bit(static_cast<const std::uint8_t *>(values_.data), values_.data_offset + row);
  }

  // The bytes of a VARCHAR, JSON or BLOB, through its dictionary; none for NULL.
  std::string_view text(std::size_t row) const {
    check(values_.offsets != nullptr, row);
    if (is_null(row)) return {};
    std::size_t at = row;
    if ((values_.flags & HYPOSTYLE_VALUES_DICTIONARY) != 0) at = code(row);
    const std::int64_t begin = values_.offsets[at], end = values_.offsets[at + 1];
    return {reinterpret_cast<const char *>(values_.heap) + begin, static_cast<std::size_t>(end - begin)};
  }

 private:
  void forget() noexcept {
    values_ = hypostyle_values{};
    values_.size = static_cast<std::uint32_t>(sizeof values_);
  }

  static bool bit(const std::uint8_t *bits, std::uint64_t at) {
    return ((bits[at / 8] >> (at % 8)) & 1) != 0;
  }

  void check(bool has_layout, std::size_t row) const {
    if (!has_layout) throw std::invalid_argument("the column has values of another type");
    if (row >= size()) throw std::out_of_range("the column has no such row");
  }

  std::size_t code(std::size_t row) const {
    switch (values_.width) {
      case 1: return static_cast<std::size_t>(static_cast<const std::int8_t *>(values_.data)[row]);
      case 2: return static_cast<std::size_t>(static_cast<const std::int16_t *>(values_.data)[row]);
      default: return static_cast<std::size_t>(static_cast<const std::int32_t *>(values_.data)[row]);
    }
  }

  hypostyle_values values_;
};

// The row that a result is at.
class Row {
 public:
  explicit Row(const hypostyle_result *result) : result_(result) {}

  bool is_null(std::size_t column) const { return hypostyle_row_is_null(result_, column) != 0; }

  std::int64_t integer(std::size_t column) const {
    internal::Slot slot;
    std::int64_t value = 0;
    slot.check(hypostyle_row_int64(result_, column, &value, slot));
    return value;
  }

  double number(std::size_t column) const {
    internal::Slot slot;
    double value = 0;
    slot.check(hypostyle_row_double(result_, column, &value, slot));
    return value;
  }

  // Any value as text, until the next row; none for NULL.
  std::string_view text(std::size_t column) const {
    internal::Slot slot;
    const char *text = nullptr;
    std::size_t length = 0;
    slot.check(hypostyle_row_text(result_, column, &text, &length, slot));
    return text == nullptr ? std::string_view() : std::string_view(text, length);
  }

  std::string_view bytes(std::size_t column) const {
    internal::Slot slot;
    const void *bytes = nullptr;
    std::size_t length = 0;
    slot.check(hypostyle_row_bytes(result_, column, &bytes, &length, slot));
    return bytes == nullptr ? std::string_view() : std::string_view(static_cast<const char *>(bytes), length);
  }

 private:
  const hypostyle_result *result_;
};

// The result of a statement; a range of its rows, once.
class Result {
 public:
  explicit Result(hypostyle_result *result) : result_(result) {}

  hypostyle_result *get() const noexcept { return result_.get(); }
  std::size_t columns() const { return hypostyle_result_columns(result_.get()); }
  std::int64_t rows_affected() const { return hypostyle_result_rows_affected(result_.get()); }

  hypostyle_column column(std::size_t index) const {
    internal::Slot slot;
    hypostyle_column column{};
    column.size = static_cast<std::uint32_t>(sizeof column);
    slot.check(hypostyle_result_column(result_.get(), index, &column, slot));
    return column;
  }

  std::string_view name(std::size_t index) const {
    const hypostyle_column found = column(index);
    return {found.name, found.name_length};
  }

  std::uint64_t row_count() {
    internal::Slot slot;
    std::uint64_t rows = 0;
    slot.check(hypostyle_result_row_count(result_.get(), &rows, slot));
    return rows;
  }

  Values values(std::size_t column, std::uint32_t flags = 0) {
    internal::Slot slot;
    hypostyle_values values{};
    values.size = static_cast<std::uint32_t>(sizeof values);
    slot.check(hypostyle_result_values(result_.get(), column, flags, &values, slot));
    return Values(values);
  }

  hypostyle_statistics statistics(std::size_t column) {
    internal::Slot slot;
    hypostyle_statistics statistics{};
    statistics.size = static_cast<std::uint32_t>(sizeof statistics);
    slot.check(hypostyle_result_statistics(result_.get(), column, &statistics, slot));
    return statistics;
  }

  // The rows that are left; the caller releases the stream.
  ArrowArrayStream stream() {
    internal::Slot slot;
    ArrowArrayStream stream{};
    slot.check(hypostyle_result_stream(result_.get(), &stream, slot));
    return stream;
  }

  bool step() {
    internal::Slot slot;
    std::int32_t has_row = 0;
    slot.check(hypostyle_result_step(result_.get(), &has_row, slot));
    return has_row != 0;
  }

  Row row() const { return Row(result_.get()); }

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Row;
    using difference_type = std::ptrdiff_t;
    using pointer = const Row *;
    using reference = Row;

    iterator() = default;
    explicit iterator(Result *result) : result_(result) { ++*this; }
    Row operator*() const { return result_->row(); }
    iterator &operator++() {
      if (!result_->step()) result_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const iterator &other) const { return result_ == other.result_; }
    bool operator!=(const iterator &other) const { return result_ != other.result_; }

   private:
    Result *result_ = nullptr;
  };

  iterator begin() { return iterator(this); }
  iterator end() { return {}; }

 private:
  internal::Owned<hypostyle_result, hypostyle_result_free> result_;
};

// A database: a directory, ":memory:", or a server's address.
class Database {
 public:
  explicit Database(std::string_view target = ":memory:", const hypostyle_options *options = nullptr) {
    internal::Slot slot;
    hypostyle_database *database = nullptr;
    slot.check(hypostyle_open(target.data(), target.size(), options, &database, slot));
    database_.reset(database);
  }

  hypostyle_database *get() const noexcept { return database_.get(); }

 private:
  internal::Owned<hypostyle_database, hypostyle_close> database_;
};

// A prepared statement.
class Statement {
 public:
  explicit Statement(hypostyle_statement *statement) : statement_(statement) {}

  hypostyle_statement *get() const noexcept { return statement_.get(); }
  std::int32_t kind() const { return hypostyle_statement_kind(statement_.get()); }
  std::size_t parameters() const { return hypostyle_statement_parameters(statement_.get()); }

  Statement &bind(std::size_t index, const Value &value) {
    internal::Slot slot;
    slot.check(hypostyle_bind(statement_.get(), index, value.get(), slot));
    return *this;
  }

  Statement &bind(std::string_view name, const Value &value) {
    internal::Slot slot;
    std::size_t index = 0;
    slot.check(
        hypostyle_statement_parameter_index(statement_.get(), name.data(), name.size(), &index, slot));
    return bind(index, value);
  }

  // Runs it with values for its parameters, in their order; without any, with what is bound.
  template <typename... Arguments>
  Result execute(const Arguments &...arguments) {
    std::size_t index = 0;
    (bind(index++, Value(arguments)), ...);
    static_cast<void>(index);
    internal::Slot slot;
    hypostyle_result *result = nullptr;
    slot.check(hypostyle_statement_execute(statement_.get(), &result, slot));
    return Result(result);
  }

 private:
  internal::Owned<hypostyle_statement, hypostyle_statement_free> statement_;
};

// Appends rows to one table; all take effect with finish(), or none.
class Appender {
 public:
  explicit Appender(hypostyle_appender *appender) : appender_(appender) {}

  hypostyle_appender *get() const noexcept { return appender_.get(); }

  template <typename... Columns>
  Appender &row(const Columns &...columns) {
    (value(Value(columns)), ...);
    return end_row();
  }

  Appender &value(const Value &value) {
    internal::Slot slot;
    slot.check(hypostyle_appender_value(appender_.get(), value.get(), slot));
    return *this;
  }

  Appender &end_row() {
    internal::Slot slot;
    slot.check(hypostyle_appender_end_row(appender_.get(), slot));
    return *this;
  }

  std::uint64_t finish() {
    internal::Slot slot;
    std::uint64_t rows = 0;
    slot.check(hypostyle_appender_finish(appender_.get(), &rows, slot));
    return rows;
  }

 private:
  internal::Owned<hypostyle_appender, hypostyle_appender_free> appender_;
};

// A session with a database.
class Connection {
 public:
  explicit Connection(const Database &database) {
    internal::Slot slot;
    hypostyle_connection *connection = nullptr;
    slot.check(hypostyle_connect(database.get(), &connection, slot));
    connection_.reset(connection);
  }

  hypostyle_connection *get() const noexcept { return connection_.get(); }

  // Runs one or more statements, and gives the result of the last.
  Result execute(std::string_view sql) {
    internal::Slot slot;
    hypostyle_result *result = nullptr;
    slot.check(hypostyle_execute(connection_.get(), sql.data(), sql.size(), &result, slot));
    return Result(result);
  }

  // Runs a statement with values for its parameters.
  template <typename First, typename... Others>
  Result execute(std::string_view sql, const First &first, const Others &...others) {
    return prepare(sql).execute(first, others...);
  }

  Statement prepare(std::string_view sql) {
    internal::Slot slot;
    hypostyle_statement *statement = nullptr;
    slot.check(hypostyle_prepare(connection_.get(), sql.data(), sql.size(), &statement, slot));
    return Statement(statement);
  }

  Appender appender(std::string_view table) {
    internal::Slot slot;
    hypostyle_appender *appender = nullptr;
    slot.check(hypostyle_appender_open(connection_.get(), table.data(), table.size(), &appender, slot));
    return Appender(appender);
  }

  // Appends the rows of a stream, which is moved, and returns their number.
  std::uint64_t append(std::string_view table, ArrowArrayStream &stream, std::uint32_t flags = HYPOSTYLE_BY_NAME) {
    internal::Slot slot;
    std::uint64_t rows = 0;
    slot.check(
        hypostyle_append(connection_.get(), table.data(), table.size(), &stream, flags, &rows, slot));
    return rows;
  }

  void set_autocommit(bool autocommit) {
    internal::Slot slot;
    slot.check(hypostyle_set_autocommit(connection_.get(), autocommit ? 1 : 0, slot));
  }

  void commit() {
    internal::Slot slot;
    slot.check(hypostyle_commit(connection_.get(), slot));
  }

  void rollback() {
    internal::Slot slot;
    slot.check(hypostyle_rollback(connection_.get(), slot));
  }

  void interrupt() noexcept { hypostyle_interrupt(connection_.get()); }
  std::int32_t transaction_state() const { return hypostyle_transaction_state(connection_.get()); }

 private:
  internal::Owned<hypostyle_connection, hypostyle_disconnect> connection_;
};

}  // namespace hypostyle

#endif  // HYPOSTYLE_HPP
