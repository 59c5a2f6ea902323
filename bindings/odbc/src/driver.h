/* What the files of the driver share: its handles, and what one file does for others.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * An application's call enters a handle, which takes the lock of its connection and forgets the
 * diagnostics of the last call, does its work, and leaves. Functions below the calls take handles that
 * are entered. */
#ifndef DRIVER_H
#define DRIVER_H

#include "scalar.h"
#include <hypostyle.h>
#include <pthread.h>
#include <sql.h>
#include <sqlext.h>
#include <sqlucode.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRIVER_VERSION "00.01.0000"
#define DRIVER_FILE "libhypostyleodbc.so"

/* So many rows an array may have: the sum of two positions among them is no overflow. */
#define ARRAY_MAX (INT64_MAX / 64)

/* ---- Handles (handles.c) ---- */

typedef enum {
  KIND_FREE = 0,
  KIND_ENVIRONMENT,
  KIND_CONNECTION,
  KIND_STATEMENT,
  KIND_DESCRIPTOR
} handle_kind;

/* One thing that a call had to say. */
typedef struct {
  char state[6];
  SQLINTEGER native;
  char *message;
  SQLLEN row;
  SQLINTEGER column;
} diagnostic;

/* The head of each handle. Handles lie in memory that is never given back, so that a handle which was
 * freed is seen to be none. */
typedef struct handle {
  _Atomic uint32_t kind;
  struct handle *next_free;
  diagnostic *diagnostics;
  SQLINTEGER diagnostic_count;
  SQLINTEGER diagnostic_room;
  SQLRETURN returned;
} handle;

typedef struct connection connection;
typedef struct statement statement;
typedef struct descriptor descriptor;

typedef struct {
  handle head;
  pthread_mutex_t lock;
  SQLINTEGER version;
  connection *connections;
} environment;

/* How a database is opened, from a data source and a connection string. All texts are UTF-8 or NULL. */
typedef struct {
  char *dsn, *driver, *database, *user, *password;
  char *threads, *memory_limit, *temp_directory, *verify, *read_only, *text_size;
} settings;

struct connection {
  handle head;
  environment *env;
  connection *next; /* of the environment */
  pthread_mutex_t lock;
  /* Guards `running`, which other threads read to cancel. */
  pthread_mutex_t cancel_lock;
  statement *running;
  unsigned generation;
  hypostyle_database *database;
  hypostyle_connection *session;
  settings settings;
  statement *statements;
  descriptor *descriptors;
  bool is_dead;
  bool is_browsing; /* SQLBrowseConnect waits for more */
  /* The time, of CLOCK_MONOTONIC in nanoseconds, at which the statement that runs has taken too long. */
  _Atomic int64_t deadline;
  atomic_bool is_late;
  atomic_bool is_cancelled;
  /* Attributes. */
  SQLUINTEGER autocommit, access_mode, metadata_id, isolation, login_timeout;
  bool is_read_only;
  SQLULEN text_size;
};

/* A record of a descriptor. */
typedef struct {
  SQLSMALLINT type, concise_type, interval_code;
  SQLULEN length;
  SQLSMALLINT precision, scale;
  SQLINTEGER interval_precision;
  SQLLEN octet_length;
  SQLPOINTER data;
  SQLLEN *octet_length_ptr, *indicator_ptr;
  SQLSMALLINT parameter_type;
  SQLSMALLINT nullable;
  bool has_scale, is_bound;
  char *name, *type_name;
} record;

typedef enum { ROLE_APD, ROLE_IPD, ROLE_ARD, ROLE_IRD } descriptor_role;

struct descriptor {
  handle head;
  connection *conn;
  statement *of;        /* of an implicit one */
  descriptor *next;     /* among the explicit ones of a connection */
  descriptor_role role; /* of an implicit one */
  bool is_explicit;
  SQLULEN array_size;
  SQLUSMALLINT *array_status;
  SQLLEN *bind_offset;
  SQLULEN bind_type;
  SQLULEN *rows_processed;
  SQLSMALLINT count;
  record *records; /* from 1 on; 0 is of bookmarks, which there are none of */
  SQLSMALLINT room;
};

/* A text that grows. After an allocation has failed, `failed` is true and nothing more is added. */
typedef struct {
  char *data;
  size_t length, room;
  bool failed;
} builder;

/* Some rows of a result, one behind the other, column by column. */
typedef struct {
  uint64_t first, rows; /* the number of the first among those of the result, from 0 on */
  hypostyle_values *values;
} batch;

/* The result of one statement. Rows of a cursor that goes forward come when they are fetched, and those that it
 * has left behind are freed; a static cursor has all. */
typedef struct result {
  struct result *next;
  hypostyle_result *handle;
  size_t column_count;
  hypostyle_column *columns; /* their texts belong to the result of the library */
  batch *batches;
  size_t batch_count, batch_room;
  uint64_t rows;      /* that have come so far */
  uint64_t bytes;     /* of theirs */
  uint64_t most_rows; /* that are wanted */
  bool is_whole;      /* no more rows come */
  bool keeps_all;
  bool has_failed; /* the state says how; no more rows can be had */
  char failure[6];
  int64_t affected;
  int32_t kind;
} result;

/* A value that SQLPutData gives. */
typedef struct {
  size_t row, parameter;
  SQLPOINTER token;
  char *data;
  size_t length, room;
  bool is_null, is_given;
} late_value;

/* One of the statements of a text. */
typedef struct {
  hypostyle_statement *handle;
  size_t parameters;
} part;

struct statement {
  handle head;
  connection *conn;
  statement *next;
  descriptor *apd, *ipd, *ard, *ird; /* those in use */
  descriptor *own_apd, *own_ipd, *own_ard, *own_ird;
  char *cursor_name;

  /* What is prepared. */
  part *parts;
  size_t part_count;
  size_t parameter_count;
  bool is_prepared, is_described;
  bool gives_value; /* {?= call …}: the parameter 1 takes the value, and the arguments come behind it */

  /* What was executed. */
  result *results;
  bool is_executed, has_cursor;
  int64_t row;     /* the first row of the rowset, from 0 on; -1 before the first */
  uint64_t rowset; /* its rows */
  uint64_t current; /* the one of them that SQLGetData reads, from 0 on */
  bool is_after_end;

  /* SQLGetData in pieces. */
  SQLUSMALLINT piece_column;
  SQLSMALLINT piece_type;
  size_t piece_offset;
  const char *piece;
  size_t piece_length;
  bool piece_is_done;
  builder scratch;

  /* Data at execution. */
  late_value *late;
  size_t late_count, late_next;
  atomic_bool needs_data; /* SQLCancel reads it without the lock */

  /* Attributes. */
  SQLULEN cursor_type, max_rows, query_timeout, noscan, retrieve_data, metadata_id;
};

/* Grows by one in each child of fork(). */
extern unsigned fork_generation;

void *handle_new(handle_kind kind);
void handle_release(handle *h);
bool handle_is(const void *h, handle_kind kind);

/* Each enters a handle: SQL_SUCCESS, or what the call returns at once. */
SQLRETURN enter_environment(SQLHENV h, environment **env);
SQLRETURN enter_connection(SQLHDBC h, connection **conn);
SQLRETURN enter_statement(SQLHSTMT h, statement **s);
SQLRETURN enter_descriptor(SQLHDESC h, descriptor **d);
SQLRETURN leave_environment(environment *env, SQLRETURN returned);
SQLRETURN leave_connection(connection *conn, SQLRETURN returned);
SQLRETURN leave_statement(statement *s, SQLRETURN returned);
SQLRETURN leave_descriptor(descriptor *d, SQLRETURN returned);

/* Takes the lock of a handle of any kind, without forgetting its diagnostics; false for a handle that is
 * none. */
bool lock_handle(handle *h, handle_kind kind);
void unlock_handle(handle *h, handle_kind kind);

/* Frees all statements and descriptors of a connection. */
void free_dependants(connection *conn);

/* ---- Diagnostics (diagnostics.c) ---- */

void forget_diagnostics(handle *h);

/* Each says something and returns what the call returns: SQL_ERROR, SQL_SUCCESS_WITH_INFO. */
SQLRETURN fail(void *h, const char *state, const char *format, ...) __attribute__((format(printf, 3, 4)));
SQLRETURN warn(void *h, const char *state, const char *format, ...) __attribute__((format(printf, 3, 4)));
SQLRETURN fail_memory(void *h);

/* Says what the library has said, and frees its error. */
SQLRETURN fail_library(void *h, connection *conn, hypostyle_error **error);

/* Says what became of a value: a state of class 01 is a warning, another one an error. */
SQLRETURN tell_conversion(void *h, const char *state, SQLLEN row, SQLINTEGER column);

/* Says whether what became of a value is an error. */
static inline bool is_error_state(const char *state) {
  return state != NULL && (state[0] != '0' || state[1] != '1');
}

/* ---- Texts (text.c) ---- */

/* Returns the UTF-8 of a text of UTF-16 as a block of malloc(), which NUL ends. length is in units, or
 * SQL_NTS. Returns NULL, and has said why, without memory, for a negative length and for half a surrogate
 * pair. A NULL text is NULL, and nothing is said. */
char *utf8_of(void *h, const SQLWCHAR *text, SQLINTEGER length, size_t *bytes);

/* Counts the units before NUL, at any address. */
size_t units_until_nul(const void *text);

/* Returns the number of units that UTF-8 takes in UTF-16. */
size_t utf16_length(const char *text, size_t bytes);

/* Writes at most `room` units, and returns how many. */
size_t utf16_from(const char *text, size_t bytes, SQLWCHAR *out, size_t room);

/* Writes UTF-8 of at most 3 bytes a unit, and returns how many; SIZE_MAX for half a surrogate pair. */
size_t utf8_from(const SQLWCHAR *text, size_t units, char *out);

/* Writes a text with NUL into a buffer of units or bytes, as much of it as there is room for. The length
 * that it tells, in units or bytes, is that of the whole text. */
SQLRETURN give_units(void *h, const char *text, SQLWCHAR *out, SQLLEN room, SQLSMALLINT *told);
SQLRETURN give_bytes(void *h, const char *text, SQLPOINTER out, SQLLEN room, SQLINTEGER *told);

void add_bytes(builder *b, const char *bytes, size_t length);
void add_text(builder *b, const char *text);
void add_format(builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a text in single quotes, as a literal. */
void add_literal(builder *b, const char *text, size_t length);

/* ---- Types (types.c) ---- */

/* Describes a type of the library in ODBC's words. */
typedef struct {
  SQLSMALLINT sql_type; /* concise */
  SQLULEN size;         /* characters or digits */
  SQLSMALLINT digits;   /* decimal digits */
  SQLLEN octets;        /* the transfer octet length */
  SQLLEN display;
} type_facts;

/* text_size is what texts and bytes of any length are said to have. */
type_facts facts_of(const hypostyle_column *column, SQLULEN text_size);
SQLSMALLINT verbose_type(SQLSMALLINT concise);
SQLSMALLINT interval_code(SQLSMALLINT concise);
SQLSMALLINT default_c_type(SQLSMALLINT sql_type);
/* Returns the bytes of a C type of fixed size; 0 for one of variable size, -1 for none. */
SQLLEN c_size(SQLSMALLINT c_type);
bool is_known_sql_type(SQLSMALLINT sql_type);
bool is_character(SQLSMALLINT sql_type);
bool is_binary(SQLSMALLINT sql_type);

/* ---- Descriptors (descriptors.c) ---- */

descriptor *descriptor_new(connection *conn, statement *of, descriptor_role role, bool is_explicit);
void descriptor_free(descriptor *d);
/* Returns a record, from 1 on, and makes it if it is missing; NULL without memory. */
record *record_at(descriptor *d, SQLSMALLINT number);
/* Returns a record, or NULL if there is none. */
record *record_of(const descriptor *d, SQLSMALLINT number);
void set_concise_type(record *r, SQLSMALLINT type);
void set_count(descriptor *d, SQLSMALLINT count);
/* Tells a field, whose length is told in bytes. */
SQLRETURN descriptor_field(descriptor *d, SQLSMALLINT number, SQLSMALLINT field, SQLPOINTER out,
                           SQLINTEGER room, SQLINTEGER *told);
/* Frees the texts of a record and sets it to zero. */
void clear_record(record *r);

/* ---- Settings (settings.c) ---- */

/* Reads a connection string. Keywords that are none are warned of. */
SQLRETURN read_settings(connection *conn, const char *text, settings *out);
/* Fills what is not set from a data source. */
SQLRETURN read_data_source(connection *conn, settings *out);
void write_settings(const settings *from, builder *out);
void free_settings(settings *s);
/* Says what the library is told of the settings. */
SQLRETURN options_of(connection *conn, hypostyle_options *out);

/* ---- Connections (connect.c) ---- */

/* Asks the database for one text, which is a block of malloc(). Returns NULL, and has said why, when it fails
 * and for NULL. */
char *ask_text(void *h, connection *conn, const char *sql);
/* Runs a statement without a result. */
SQLRETURN run(void *h, connection *conn, const char *sql);
SQLRETURN end_transaction(void *h, connection *conn, SQLSMALLINT how);
/* Whether the database is one of PostgreSQL. */
bool is_postgres(const connection *conn);

/* Opens a database and a session of it; a server's within so many seconds, or as long as it takes for 0. */
SQLRETURN log_in_within(connection *conn, const char *target, const hypostyle_options *options,
                        SQLUINTEGER seconds);

/* Says that a statement begins or has ended, which a cancel and a deadline need. */
void begin_running(statement *s);
void end_running(statement *s);

/* ---- Statements (statement.c) ---- */

statement *statement_new(connection *conn);
void statement_free(statement *s);
void close_cursor(statement *s);
void forget_prepared(statement *s);
void forget_late_values(statement *s);
/* Runs a statement of the driver's own for a catalog function. */
SQLRETURN execute_text(statement *s, const char *sql, size_t length);
/* Returns how many rows the statement has changed or gives; -1 if that is not known. */
SQLLEN row_count(const statement *s);
/* Executes what is prepared, with parameters that are all there. */
SQLRETURN execute_parts(statement *s);

/* ---- Results (result.c) ---- */

/* Takes a result of the library and its first rows; all of them for a static cursor, of stored columns, which
 * are mappings, and of few rows. */
SQLRETURN result_load(statement *s, hypostyle_result **handle, int32_t kind, result **loaded);
/* Takes rows until there are `end` of them or no more come. */
SQLRETURN result_reach(statement *s, result *r, uint64_t end);
/* Frees rows before one, if the cursor does not go back to them. */
void result_forget(result *r, uint64_t row);
/* Returns the batch that has a row that is there. */
const batch *result_batch(const result *r, uint64_t row);
void result_free(result *r);
bool is_null_at(const hypostyle_values *values, uint64_t row);
/* Finds the bytes of a text or BLOB. */
const char *bytes_at(const hypostyle_values *values, uint64_t row, size_t *length);
/* Reads a value that is not NULL. Its text or bytes are where the value lies. */
void scalar_at(const hypostyle_values *values, uint64_t row, scalar *value);

/* ---- Descriptions (describe.c) ---- */

/* Fills the IRD, if it is not filled, from the result, or else from what is prepared. */
SQLRETURN describe_columns(statement *s);

/* ---- Fetching (fetch.c, bulk.c, put.c) ---- */

/* Where values of a column go. */
typedef struct {
  SQLSMALLINT c_type;
  SQLSMALLINT default_type; /* the C type of the column that has the same bits */
  SQLSMALLINT precision, scale;
  bool has_scale;
  char *data;
  size_t data_step;
  SQLLEN room;              /* bytes for each value of variable size */
  char *length, *indicator; /* places for SQLLEN, or NULL */
  size_t length_step;
} target;

/* Fills rows of a target straight from the column, if both are laid out alike or there is a loop for the
 * pair. Returns false if each value has to be converted, and may have written some of them. */
bool fill_in_bulk(const hypostyle_values *values, uint64_t row, size_t count, const target *to);

/* Writes the value of a function, which is the only one of the result, to the parameter 1. */
SQLRETURN give_function_value(statement *s);

/* Converts a value to a C type in a buffer. Returns NULL or a state; *length is that of the whole value.
 * Texts are cut between characters. */
const char *put_scalar(const scalar *value, const target *to, char *data, SQLLEN *length);

/* Writes the bytes that a C type of variable size has of the whole value, without NUL, to *bytes: where the
 * value lies, or in the scratch. *least is how many of them must not be cut. Returns NULL or a state. */
const char *whole_value(const scalar *value, const target *to, builder *scratch, const char **bytes,
                        size_t *length, size_t *least);

/* ---- Parameters (take.c, parameters.c, arrays.c) ---- */

/* Reads a value of a C type. length is that of texts and bytes, or SQL_NTS. What has to be converted is in
 * *own. Returns NULL or a state. */
const char *take_scalar(SQLSMALLINT c_type, const char *data, SQLLEN length, scalar *value, builder *own);

/* Makes a value of the database for an SQL type. What has to be converted is in *own. Returns NULL or a
 * state. */
const char *take_value(const scalar *from, SQLSMALLINT sql_type, hypostyle_value *value, builder *own);

/* Finds the values that SQLPutData gives. */
SQLRETURN find_late_values(statement *s);
/* Binds the parameters of a part, the first of which is `first`, of one row of the arrays. */
SQLRETURN bind_row(statement *s, const part *p, size_t first, size_t row);
/* Binds all rows of the arrays that are not ignored, of which there may be none. */
SQLRETURN bind_rows(statement *s, const part *p, size_t first, bool *has_rows);
/* Reads a parameter, from 0 on, as a value of its SQL type. What has to be converted is in *own. Returns NULL
 * or a state. */
const char *read_parameter(statement *s, size_t parameter, size_t row, hypostyle_value *value, builder *own);
bool is_ignored_row(const statement *s, size_t row);
/* Returns the address of what a record of the APD points to for a row. */
char *element_of(const descriptor *apd, const void *pointer, size_t size, size_t row);

/* ---- Escapes (escapes.c) ---- */

/* Writes a statement in the database's own words, and says whether it is {?= call …}. Returns NULL, or what is
 * wrong. */
const char *without_escapes(const char *sql, size_t length, builder *out, bool *gives_value);

#endif
