/* Hypostyle's interface for C: one library for databases in the process and on a server.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * Errors: a function that can fail returns a status, HYPOSTYLE_OK or what a caller can do about the
 * failure, and takes a slot for an error as its last argument. The slot may be NULL. It is set to
 * NULL on success, and to an error that hypostyle_error_free() frees on failure. Out-parameters are
 * written on success alone, unless a function says otherwise.
 *
 * Ownership: each handle that a function gives is the caller's, who frees it. Functions that free
 * take the place of the handle and set it to NULL; NULL is nothing to free. Handles may be freed in
 * any order: a result outlives its statement, its connection and its database. What the caller
 * passes is copied, except for Arrow's structs, which are moved: a function that takes one has taken
 * it, also when it fails.
 *
 * Texts are UTF-8, with a length in bytes; HYPOSTYLE_NUL as the length says that NUL ends the text.
 * Texts that are given out belong to what gives them, and NUL follows them.
 *
 * Threads: any thread may use any handle. A connection runs one statement at a time; another
 * thread's call waits. hypostyle_interrupt() and hypostyle_progress() wait for nothing. A handle is
 * freed when no other thread is in a call with it.
 *
 * Misuse that can be seen is an error (SQLSTATE HY009): a NULL that is none of the allowed ones, a
 * handle that was freed through this name, or of another kind. In a child of fork() the handles of
 * its parent are refused with 08003, and freeing them does nothing.
 *
 * Structs begin with their size, `sizeof(struct …)`, by which a later library knows how much of one
 * there is. Set a struct to zero first, and then its size. */
#ifndef HYPOSTYLE_H
#define HYPOSTYLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or a field is added; the library's is hypostyle_abi(). */
#define HYPOSTYLE_ABI 1

/* The length of a text that NUL ends. */
#define HYPOSTYLE_NUL SIZE_MAX

typedef struct hypostyle_database hypostyle_database;
typedef struct hypostyle_connection hypostyle_connection;
typedef struct hypostyle_statement hypostyle_statement;
typedef struct hypostyle_result hypostyle_result;
typedef struct hypostyle_appender hypostyle_appender;
typedef struct hypostyle_error hypostyle_error;

/* The C data interface and the C stream interface of Apache Arrow, as other libraries declare them. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

/* What a call has come to: HYPOSTYLE_OK, or what a caller can do about its failure. A later library
 * may give others; they count as HYPOSTYLE_INTERNAL. */
typedef int32_t hypostyle_status;
enum {
  HYPOSTYLE_OK = 0,
  HYPOSTYLE_SYNTAX = 1,
  HYPOSTYLE_UNKNOWN_NAME = 2,
  HYPOSTYLE_INVALID_INPUT = 3,
  HYPOSTYLE_CONSTRAINT = 4,
  HYPOSTYLE_ALREADY_EXISTS = 5,
  HYPOSTYLE_NOT_FOUND = 6,
  HYPOSTYLE_IO = 7,
  HYPOSTYLE_DISK_FULL = 8,
  HYPOSTYLE_CORRUPT = 9,
  HYPOSTYLE_VERSION = 10,
  HYPOSTYLE_BUSY = 11,
  HYPOSTYLE_READ_ONLY = 12,
  HYPOSTYLE_CONFLICT = 13,
  HYPOSTYLE_INTERRUPTED = 14,
  HYPOSTYLE_OUT_OF_MEMORY = 15,
  HYPOSTYLE_UNSUPPORTED = 16,
  HYPOSTYLE_CLOSED = 17,
  HYPOSTYLE_INTERNAL = 18,
  HYPOSTYLE_DENIED = 19,
  HYPOSTYLE_CONNECTION = 20,
  HYPOSTYLE_TRANSACTION_STATE = 21
};

/* The types of values and columns. */
typedef int32_t hypostyle_type;
enum {
  HYPOSTYLE_NULL = 0, /* of a value: NULL; of a parameter: nothing determines its type */
  HYPOSTYLE_BOOLEAN = 1,
  HYPOSTYLE_TINYINT = 2,
  HYPOSTYLE_SMALLINT = 3,
  HYPOSTYLE_INTEGER = 4,
  HYPOSTYLE_BIGINT = 5,
  HYPOSTYLE_UTINYINT = 6,
  HYPOSTYLE_USMALLINT = 7,
  HYPOSTYLE_UINTEGER = 8,
  HYPOSTYLE_UBIGINT = 9,
  HYPOSTYLE_FLOAT = 10,
  HYPOSTYLE_DOUBLE = 11,
  HYPOSTYLE_DECIMAL = 12,
  HYPOSTYLE_DATE = 13,
  HYPOSTYLE_TIME = 14,
  HYPOSTYLE_TIMESTAMP = 15,
  HYPOSTYLE_TIMESTAMPTZ = 16,
  HYPOSTYLE_INTERVAL = 17,
  HYPOSTYLE_DURATION = 18,
  HYPOSTYLE_VARCHAR = 19,
  HYPOSTYLE_JSON = 20,
  HYPOSTYLE_BLOB = 21,
  HYPOSTYLE_UUID = 22,
  HYPOSTYLE_FIXED_BINARY = 23,
  HYPOSTYLE_LIST = 24,
  HYPOSTYLE_ARRAY = 25,
  HYPOSTYLE_STRUCT = 26,
  HYPOSTYLE_MAP = 27
};

/* One value: for a parameter, a column of an appended row, an end of a column's range. Where it is
 * depends on its type:
 *   integer: BOOLEAN (0 or 1), integers (UBIGINT as its bits), DATE (days since 1970-01-01), TIME
 *     (microseconds), TIMESTAMP, TIMESTAMPTZ and DURATION (units since 1970-01-01 00:00 UTC; scale is
 *     the number of digits of the unit: 0 seconds, 3, 6, 9 nanoseconds)
 *   integer and high: DECIMAL (low and high 64 bits of the value times 10 to the scale); INTERVAL
 *     (nanoseconds; high has months in its low 32 bits and days in its high 32 bits)
 *   number: FLOAT, DOUBLE
 *   data and length: VARCHAR and JSON (UTF-8), BLOB, UUID (16 bytes) */
typedef struct hypostyle_value {
  uint32_t size;
  hypostyle_type type;
  int32_t scale;
  int32_t reserved;
  int64_t integer;
  int64_t high;
  double number;
  const void *data;
  size_t length;
} hypostyle_value;

/* Values for common types. Texts and bytes are the caller's, and are copied when they are bound. */
static inline hypostyle_value hypostyle_value_of(hypostyle_type type) {
  hypostyle_value value = {0, 0, 0, 0, 0, 0, 0, NULL, 0};
  value.size = (uint32_t)sizeof value;
  value.type = type;
  return value;
}

static inline hypostyle_value hypostyle_value_of_int64(int64_t integer) {
  hypostyle_value value = hypostyle_value_of(HYPOSTYLE_BIGINT);
  value.integer = integer;
  return value;
}

static inline hypostyle_value hypostyle_value_of_double(double number) {
  hypostyle_value value = hypostyle_value_of(HYPOSTYLE_DOUBLE);
  value.number = number;
  return value;
}

static inline hypostyle_value hypostyle_value_of_text(const char *text, size_t length) {
  hypostyle_value value = hypostyle_value_of(HYPOSTYLE_VARCHAR);
  value.data = text;
  value.length = length;
  return value;
}

/* A column of a result, or a parameter of a statement. Its texts belong to the result or statement. */
typedef struct hypostyle_column {
  uint32_t size;
  hypostyle_type type;
  const char *name; /* of a parameter without a name: NULL */
  size_t name_length;
  const char *type_name; /* in SQL, such as DECIMAL(9,2); empty if the type is not known */
  size_t type_name_length;
  int32_t precision; /* of DECIMAL */
  int32_t scale;     /* of DECIMAL; of TIMESTAMP, TIMESTAMPTZ and DURATION as in hypostyle_value */
  int32_t nullable;
  int32_t reserved;
} hypostyle_column;

/* What hypostyle_values has. */
enum {
  /* The buffers are mappings of the database's files. */
  HYPOSTYLE_VALUES_MAPPED = 1,
  /* The buffers are the caller's, who may write into them; no one else sees it. Also a wish. */
  HYPOSTYLE_VALUES_PRIVATE = 2,
  /* Where NULL is, the buffer holds the missing value: NaN, the type's least value, -1 for a code. */
  HYPOSTYLE_VALUES_MISSING = 4,
  /* The data are codes of a dictionary, which offsets and heap have. */
  HYPOSTYLE_VALUES_DICTIONARY = 8,
  /* A wish alone: no dictionary, but a text for each row. */
  HYPOSTYLE_VALUES_PLAIN = 16
};

/* The values of one column. Where they are depends on their type:
 *   data: `count` elements of `width` bytes: integers, FLOAT, DOUBLE, DECIMAL (the value times 10 to
 *     the scale in 4, 8, 16 or 32 bytes), DATE (days, 4 bytes), TIME, TIMESTAMP, TIMESTAMPTZ, DURATION
 *     (8 bytes), INTERVAL (int32 months, int32 days, int64 nanoseconds), UUID and other binary of fixed
 *     width; BOOLEAN has one bit for each, `width` 0, from the bit `data_offset` on
 *   offsets and heap: VARCHAR, JSON and BLOB: the value i is the bytes offsets[i] to offsets[i + 1] of
 *     the heap
 *   data, offsets and heap: a dictionary: a signed code of `width` bytes for each, and the
 *     `dictionary_count` values that they stand for
 * Bits are numbered from the least significant on. A bit of `validity`, from the bit
 * `validity_offset` on, is 0 where NULL is; without NULL it may be NULL. */
typedef struct hypostyle_values {
  uint32_t size;
  hypostyle_type type;
  int32_t scale;
  uint32_t width;
  uint32_t flags;
  uint32_t reserved;
  uint64_t count;
  uint64_t null_count;
  const void *data;
  uint64_t data_offset;
  const uint8_t *validity;
  uint64_t validity_offset;
  const int64_t *offsets;
  const uint8_t *heap;
  uint64_t heap_length;
  uint64_t dictionary_count;
  void *owner; /* what hypostyle_values_free() frees; NULL in values of the caller's */
} hypostyle_values;

/* What hypostyle_statistics knows. */
enum {
  HYPOSTYLE_KNOWN_NULLS = 1,
  HYPOSTYLE_KNOWN_DISTINCT = 2,
  HYPOSTYLE_KNOWN_RANGE = 4, /* no value is below the minimum or above the maximum, NaN aside */
  HYPOSTYLE_KNOWN_EXACT = 8, /* minimum and maximum are values of the column */
  HYPOSTYLE_MAY_HAVE_NAN = 16
};

/* What is known of a stored column without reading it. */
typedef struct hypostyle_statistics {
  uint32_t size;
  uint32_t known;
  uint64_t row_count;
  uint64_t null_count;
  uint64_t distinct_count;
  hypostyle_value minimum; /* its text belongs to the result */
  hypostyle_value maximum;
} hypostyle_statistics;

/* How far a statement is. */
typedef struct hypostyle_progress {
  uint32_t size;
  int32_t is_running;
  int32_t is_transfer; /* the rows are those that come from a server */
  int32_t has_total;
  uint64_t rows_done;
  uint64_t rows_total; /* if has_total */
  double seconds;
  double seconds_left; /* negative if it is not known */
} hypostyle_progress;

/* How a database is opened; NULL texts and zeros leave the defaults. */
typedef struct hypostyle_options {
  uint32_t size;
  int32_t read_only;
  int32_t allow_network_filesystem;
  uint32_t threads;           /* 0: all processors */
  uint64_t memory_limit;      /* bytes; 0: most of the machine's memory */
  const char *temp_directory; /* where queries spill */
  const char *verify;         /* when stored columns are verified: auto, always, never */
  const char *user;           /* of a server; else those of the address */
  const char *password;
} hypostyle_options;

/* What a statement does, as far as its words say. */
enum {
  HYPOSTYLE_KIND_OTHER = 0, /* also several statements */
  HYPOSTYLE_KIND_QUERY = 1,
  HYPOSTYLE_KIND_INSERT = 2,
  HYPOSTYLE_KIND_UPDATE = 3,
  HYPOSTYLE_KIND_DELETE = 4,
  HYPOSTYLE_KIND_MERGE = 5,
  HYPOSTYLE_KIND_COPY = 6,
  HYPOSTYLE_KIND_DEFINITION = 7,
  HYPOSTYLE_KIND_TRANSACTION = 8
};

/* How rows are appended or bound. */
enum {
  /* Makes the table from the rows if there is none. */
  HYPOSTYLE_APPEND_CREATE = 1,
  /* Matches columns by name, and gives missing ones their default; else by position. */
  HYPOSTYLE_BY_NAME = 2
};

/* The states of hypostyle_transaction_state(). */
enum { HYPOSTYLE_NO_TRANSACTION = 0, HYPOSTYLE_IN_TRANSACTION = 1, HYPOSTYLE_FAILED_TRANSACTION = 2 };

/* Called about every 50 ms by the thread that waits for a statement; another value than 0 ends the
 * statement. It must not call the connection, except for hypostyle_interrupt(), and must return. It may
 * be called on another stack than the function that waits was: that of a long or deep statement. */
typedef int32_t (*hypostyle_poll)(void *context, const hypostyle_progress *progress);

/* Called for a name that no table or view has, by a thread of the database. Returns 1 with a stream
 * that has the rows, which is moved; 0 if the name means nothing to it; -1 for a failure. It must not
 * call the connection or read its results, and neither must the stream: both are refused (HY010). */
typedef int32_t (*hypostyle_tables)(void *context, const char *name, size_t name_length,
                                    struct ArrowArrayStream *rows);

/* ---- The library and errors ---- */

/* Returns the library's version, such as "0.1.0". It lives as long as the process. */
const char *hypostyle_version(void);

/* Returns HYPOSTYLE_ABI of the library: at least that of the header a program was compiled with. */
int32_t hypostyle_abi(void);

/* Returns the status of an error; HYPOSTYLE_OK for NULL. */
hypostyle_status hypostyle_error_status(const hypostyle_error *error);

/* Returns the five characters of the SQLSTATE; "00000" for NULL. It belongs to the error. */
const char *hypostyle_error_sqlstate(const hypostyle_error *error);

/* Returns the message; "" for NULL. It belongs to the error. A NUL within it is written as \0. */
const char *hypostyle_error_message(const hypostyle_error *error);

/* Returns what there is to say besides the message, or NULL. It belongs to the error. */
const char *hypostyle_error_detail(const hypostyle_error *error);

/* Returns the place in the statement's text, in characters from 1 on; 0 if there is none. */
uint64_t hypostyle_error_position(const hypostyle_error *error);

/* Frees an error. */
void hypostyle_error_free(hypostyle_error **error);

/* ---- Databases and connections ---- */

/* Opens a database: a directory, which is made if it is missing; ":memory:", also for NULL, a new one
 * in memory that ends with its last handle; hypostyle://user@host:port/ or hypostyle+unix:///path, a
 * server's, or postgresql://user@host:port/database, one of PostgreSQL, which are asked at
 * hypostyle_connect(). options may be NULL.
 * Errors: NOT_FOUND, INVALID_INPUT (no database), VERSION, CORRUPT, IO, BUSY. */
hypostyle_status hypostyle_open(const char *target, size_t length, const hypostyle_options *options,
                                hypostyle_database **database, hypostyle_error **error);

/* Closes a database. Its connections and results stay; the files are released with the last. */
void hypostyle_close(hypostyle_database **database);

/* Opens a session with a database.
 * Errors: CONNECTION when no server answers, DENIED when the login fails. */
hypostyle_status hypostyle_connect(hypostyle_database *database, hypostyle_connection **connection,
                                   hypostyle_error **error);

/* Ends a session; a transaction that is open is rolled back. Results that are there stay valid. */
void hypostyle_disconnect(hypostyle_connection **connection);

/* Makes the statement that runs fail with INTERRUPTED; any thread may call it. The connection stays
 * usable. Between two statements there is nothing to interrupt: the next one runs. Does nothing for
 * NULL. */
void hypostyle_interrupt(hypostyle_connection *connection);

/* Tells how far the statement that runs is, or the last one at its end; any thread may call it.
 * progress->size is set by the caller. Errors: NOT_FOUND before the first statement. */
hypostyle_status hypostyle_get_progress(hypostyle_connection *connection, hypostyle_progress *progress,
                                        hypostyle_error **error);

/* Sets the function that is called while a statement is waited for; NULL takes it away. context is
 * passed to it, and must stay valid until it is taken away or the connection has ended. */
hypostyle_status hypostyle_set_poll(hypostyle_connection *connection, hypostyle_poll poll, void *context,
                                    hypostyle_error **error);

/* Sets the function that is asked for names that no table has; NULL takes it away. context is used by
 * other threads, and must stay valid until it is taken away or the connection has ended. A server may
 * ask only if it runs as the same user on this machine, or its address says variables=on.
 * Errors: UNSUPPORTED for a function with a connection to PostgreSQL, which asks nobody. */
hypostyle_status hypostyle_set_tables(hypostyle_connection *connection, hypostyle_tables tables,
                                      void *context, hypostyle_error **error);

/* Returns HYPOSTYLE_NO_TRANSACTION or another state; HYPOSTYLE_NO_TRANSACTION for NULL. */
int32_t hypostyle_transaction_state(const hypostyle_connection *connection);

/* Returns the number of the session, as in SHOW SESSIONS; 0 for NULL. */
uint64_t hypostyle_session_id(const hypostyle_connection *connection);

/* Turns autocommit, which is on at first, on or off. Without it a transaction begins with the first
 * statement after the last one ended. Turning it on commits. */
hypostyle_status hypostyle_set_autocommit(hypostyle_connection *connection, int32_t autocommit,
                                          hypostyle_error **error);

/* Commits. Errors: CONFLICT when others have changed the same rows; TRANSACTION_STATE with autocommit
 * and no transaction. */
hypostyle_status hypostyle_commit(hypostyle_connection *connection, hypostyle_error **error);

/* Rolls back. Errors: TRANSACTION_STATE as above. */
hypostyle_status hypostyle_rollback(hypostyle_connection *connection, hypostyle_error **error);

/* ---- Statements ---- */

/* Runs one or more statements separated by `;` and gives the result of the last; result may be NULL if
 * it is not wanted. Statements before the one that fails have taken effect. */
hypostyle_status hypostyle_execute(hypostyle_connection *connection, const char *sql, size_t length,
                                   hypostyle_result **result, hypostyle_error **error);

/* Finds the next statement of a text: from *start on, which it sets behind the statement, to
 * statement and statement_length, a part of the text without white space around it; a length of 0 says
 * that there is none. Begin with *start = 0. */
hypostyle_status hypostyle_next_statement(const char *sql, size_t length, size_t *start,
                                          const char **statement, size_t *statement_length,
                                          hypostyle_error **error);

/* Prepares a statement. Nothing is asked, so that errors in it come later. Parameters are ?, $1 or
 * $name. */
hypostyle_status hypostyle_prepare(hypostyle_connection *connection, const char *sql, size_t length,
                                   hypostyle_statement **statement, hypostyle_error **error);

/* Returns HYPOSTYLE_KIND_QUERY or another kind; HYPOSTYLE_KIND_OTHER for NULL. */
int32_t hypostyle_statement_kind(const hypostyle_statement *statement);

/* Returns the number of parameters; 0 for NULL. */
size_t hypostyle_statement_parameters(const hypostyle_statement *statement);

/* Tells the name and the type of a parameter, from 0 on. parameter->size is set by the caller. The
 * database is asked at the first call. */
hypostyle_status hypostyle_statement_parameter(hypostyle_statement *statement, size_t index,
                                               hypostyle_column *parameter, hypostyle_error **error);

/* Finds the parameter $name, written without $. Errors: UNKNOWN_NAME. */
hypostyle_status hypostyle_statement_parameter_index(const hypostyle_statement *statement, const char *name,
                                                     size_t length, size_t *index, hypostyle_error **error);

/* Tells the columns of the result without computing it; the caller releases the schema.
 * Errors: UNSUPPORTED when only running the statement tells. */
hypostyle_status hypostyle_statement_schema(hypostyle_statement *statement, struct ArrowSchema *schema,
                                            hypostyle_error **error);

/* Binds a value, which is copied, to a parameter, from 0 on; it stays until it is bound again. */
hypostyle_status hypostyle_bind(hypostyle_statement *statement, size_t index, const hypostyle_value *value,
                                hypostyle_error **error);

/* Binds rows of values for the next execution, which runs for each of them: changes take effect for
 * all or none, and results follow each other. The stream is moved. flags: HYPOSTYLE_BY_NAME. */
hypostyle_status hypostyle_bind_stream(hypostyle_statement *statement, struct ArrowArrayStream *rows,
                                       uint32_t flags, hypostyle_error **error);

/* Forgets all that is bound. */
hypostyle_status hypostyle_clear_bindings(hypostyle_statement *statement, hypostyle_error **error);

/* Runs a statement with what is bound; result may be NULL if it is not wanted.
 * Errors: INVALID_INPUT (07002) when a parameter has no value. */
hypostyle_status hypostyle_statement_execute(hypostyle_statement *statement, hypostyle_result **result,
                                             hypostyle_error **error);

/* Frees a statement; its results stay. */
void hypostyle_statement_free(hypostyle_statement **statement);

/* ---- Results ---- */

/* Returns the number of columns; 0 for NULL and for a statement without rows. */
size_t hypostyle_result_columns(const hypostyle_result *result);

/* Describes a column, from 0 on. column->size is set by the caller; its texts belong to the result. */
hypostyle_status hypostyle_result_column(const hypostyle_result *result, size_t index,
                                         hypostyle_column *column, hypostyle_error **error);

/* Gives the schema of the rows; the caller releases it. */
hypostyle_status hypostyle_result_schema(const hypostyle_result *result, struct ArrowSchema *schema,
                                         hypostyle_error **error);

/* Returns the number of rows that a statement has written, also with RETURNING; -1 if it writes none, or
 * for NULL. */
int64_t hypostyle_result_rows_affected(const hypostyle_result *result);

/* Counts the rows, which are computed and kept for it. */
hypostyle_status hypostyle_result_row_count(hypostyle_result *result, uint64_t *rows, hypostyle_error **error);

/* Gives the next rows as a struct array, which the caller releases; at the end one whose release is
 * NULL. */
hypostyle_status hypostyle_result_next(hypostyle_result *result, struct ArrowArray *rows,
                                       hypostyle_error **error);

/* Gives the rows that are left as a stream, which the caller releases. It outlives the result, whose
 * rows it takes. */
hypostyle_status hypostyle_result_stream(hypostyle_result *result, struct ArrowArrayStream *stream,
                                         hypostyle_error **error);

/* Gives all values of a column, from 0 on. A stored column is a mapping of its file, however many rows
 * it has; others are computed and joined. flags: HYPOSTYLE_VALUES_PRIVATE, HYPOSTYLE_VALUES_PLAIN.
 * values->size is set by the caller, who frees the values with hypostyle_values_free(); they outlive
 * the result, the connection and DROP TABLE. Rows that were taken before are an error.
 * Errors: UNSUPPORTED for LIST, ARRAY, STRUCT and MAP, which hypostyle_result_stream() gives. */
hypostyle_status hypostyle_result_values(hypostyle_result *result, size_t column, uint32_t flags,
                                         hypostyle_values *values, hypostyle_error **error);

/* Frees values, and sets all but their size to zero. */
void hypostyle_values_free(hypostyle_values *values);

/* Maps the elements of a stored column of fixed width, from 0 on, copy-on-write at an address of the
 * caller's, who may write into them and unmaps them. The address begins a page, and `length` bytes from
 * there on, whole pages for count * width bytes, are the caller's: what is there is replaced. *mapped is
 * 0, and nothing is done, for a column whose elements are not in a file from the first on, such as a
 * computed or a server's one; hypostyle_result_values() tells of its NULLs, width and scale. */
hypostyle_status hypostyle_result_map(hypostyle_result *result, size_t column, void *address, size_t length,
                                      int32_t *mapped, hypostyle_error **error);

/* Tells what is known of a stored column, from 0 on, without reading it. statistics->size is set by
 * the caller. A computed column has known == 0. */
hypostyle_status hypostyle_result_statistics(hypostyle_result *result, size_t column,
                                             hypostyle_statistics *statistics, hypostyle_error **error);

/* Verifies the checksums of some rows of a stored column that was handed out. Errors: CORRUPT. */
hypostyle_status hypostyle_result_verify(hypostyle_result *result, size_t column, uint64_t first_row,
                                         uint64_t rows, hypostyle_error **error);

/* Frees a result. Streams, arrays and values of it stay. */
void hypostyle_result_free(hypostyle_result **result);

/* ---- Rows, one by one or some at a time ---- */

/* Goes to the next row, the first at the first call; *has_row is 0 behind the last. */
hypostyle_status hypostyle_result_step(hypostyle_result *result, int32_t *has_row, hypostyle_error **error);

/* Goes to the next rows, as many as come at once, and tells how many; 0 behind the last. None of them is a row
 * for hypostyle_row_int64() and its like; hypostyle_result_step() goes to the row behind them. */
hypostyle_status hypostyle_result_step_batch(hypostyle_result *result, uint64_t *rows, hypostyle_error **error);

/* Gives a column, from 0 on, of the rows that hypostyle_result_step_batch() went to, as
 * hypostyle_result_values() gives one of all rows. flags: HYPOSTYLE_VALUES_PLAIN. Lists, arrays, structures
 * and maps are given as texts, which offsets and heap have. values->size is set by the caller, who frees the
 * values with hypostyle_values_free(); they outlive the result and the connection. */
hypostyle_status hypostyle_batch_values(const hypostyle_result *result, size_t column, uint32_t flags,
                                        hypostyle_values *values, hypostyle_error **error);

/* Returns 1 if a value of the row is NULL, and 0 if it is not; -1 without such a row or column. */
int32_t hypostyle_row_is_null(const hypostyle_result *result, size_t column);

/* Reads an integer, BOOLEAN, DATE, TIME, TIMESTAMP, TIMESTAMPTZ or DURATION as in hypostyle_value, or a
 * DECIMAL without digits behind the point; NULL is 0. Errors: INVALID_INPUT (22003, 22018). */
hypostyle_status hypostyle_row_int64(const hypostyle_result *result, size_t column, int64_t *value,
                                     hypostyle_error **error);

/* Reads a number of any type; NULL is NaN. Errors: INVALID_INPUT (22018). */
hypostyle_status hypostyle_row_double(const hypostyle_result *result, size_t column, double *value,
                                      hypostyle_error **error);

/* Reads a value of any type as text, which stays until the next hypostyle_result_step(); NULL is NULL
 * with the length 0. */
hypostyle_status hypostyle_row_text(const hypostyle_result *result, size_t column, const char **text,
                                    size_t *length, hypostyle_error **error);

/* Reads the bytes of a VARCHAR, JSON, BLOB, UUID or FIXED_BINARY, which stay until the next
 * hypostyle_result_step(); NULL is NULL with the length 0. NUL need not follow them. */
hypostyle_status hypostyle_row_bytes(const hypostyle_result *result, size_t column, const void **bytes,
                                     size_t *length, hypostyle_error **error);

/* ---- Appending ---- */

/* Appends all rows of a stream, which is moved, or none, and tells their number if rows is not NULL.
 * table may be qualified: "schema.table". flags: HYPOSTYLE_APPEND_CREATE, HYPOSTYLE_BY_NAME. */
hypostyle_status hypostyle_append(hypostyle_connection *connection, const char *table, size_t length,
                                  struct ArrowArrayStream *stream, uint32_t flags, uint64_t *rows,
                                  hypostyle_error **error);

/* Appends columns of the caller's, which are copied: column_count names, that NUL ends, and values,
 * whose counts are equal. The flags of hypostyle_append(). */
hypostyle_status hypostyle_append_columns(hypostyle_connection *connection, const char *table, size_t length,
                                          const char *const *names, const hypostyle_values *values,
                                          size_t column_count, uint32_t flags, uint64_t *rows,
                                          hypostyle_error **error);

/* Begins to append rows to a table, which is named as for hypostyle_append(). They take effect together
 * with hypostyle_appender_finish(). Rows are sent in pieces, the first of which begins a transaction, or a
 * savepoint in an open one: other statements of the connection belong to it until then. */
hypostyle_status hypostyle_appender_open(hypostyle_connection *connection, const char *table, size_t length,
                                         hypostyle_appender **appender, hypostyle_error **error);

/* Appends a value, which is copied, to the row that is being made. A value that is refused is no part
 * of it, and another may be given. */
hypostyle_status hypostyle_appender_value(hypostyle_appender *appender, const hypostyle_value *value,
                                          hypostyle_error **error);

/* Ends a row. Errors: INVALID_INPUT (HY024) for a row without a value for each column. After an error
 * of the database all calls fail, and nothing is appended. */
hypostyle_status hypostyle_appender_end_row(hypostyle_appender *appender, hypostyle_error **error);

/* Appends the rows of a struct array behind those before, matched by name; both are moved. */
hypostyle_status hypostyle_appender_arrow(hypostyle_appender *appender, struct ArrowArray *rows,
                                          struct ArrowSchema *schema, hypostyle_error **error);

/* Makes the rows take effect, and tells their number if rows is not NULL. Later calls fail. */
hypostyle_status hypostyle_appender_finish(hypostyle_appender *appender, uint64_t *rows,
                                           hypostyle_error **error);

/* Frees an appender. Rows that were not finished are not appended. */
void hypostyle_appender_free(hypostyle_appender **appender);

#ifdef __cplusplus
}
#endif

#endif /* HYPOSTYLE_H */
