/* What the files of the package's C code share.
 *
 * R jumps out of functions when it raises an error. So each handle belongs to an external pointer
 * before R is called again, and an error of the library is freed before it becomes one of R. */
#ifndef HYPOSTYLE_GLUE_H
#define HYPOSTYLE_GLUE_H

#define R_NO_REMAP
#define STRICT_R_HEADERS
#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>
#include <hypostyle.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- errors.c ---- */

/* Frees the error, and raises it as a condition of R. */
#ifdef __GNUC__
__attribute__((noreturn))
#endif
void hs_raise(hypostyle_error **error);

/* Returns a text of UTF-8. */
SEXP hs_text(const char *text, size_t length);

/* ---- connections.c ---- */

/* A connection and what its waiting thread needs. */
typedef struct {
  hypostyle_connection *connection;
  pthread_t waiter;  /* the thread that waits for the database */
  bool is_busy;      /* a call runs */
  bool was_stopped;  /* the user has interrupted the call */
  bool shows_bar;    /* as the option says */
  double next_bar;   /* seconds until the bar is drawn again */
  int bar_width;     /* what is to be wiped out */
  /* Data frames that a statement may name, and the one that a thread of the database waits for. */
  SEXP frames;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  enum { FRAME_NONE, FRAME_WANTED, FRAME_FOUND, FRAME_UNKNOWN, FRAME_FAILED } wanted;
  R_xlen_t wanted_index;
  struct ArrowArrayStream *wanted_rows;
} hs_link;

/* Returns the connection of an external pointer; raises an error if it is closed or busy. */
hs_link *hs_link_of(SEXP pointer);

/* Begins and ends a call that waits for the database. hs_leave() raises the error of the call. */
void hs_enter(hs_link *link, SEXP frames);
void hs_leave(hs_link *link, hypostyle_status status, hypostyle_error **error);

/* As hs_enter() and hs_leave(), for a result whose connection may be closed. */
hs_link *hs_enter_result(SEXP result);

/* ---- results.c ---- */

/* A result in R: the pointer of the library, the connection's pointer protects it. */
hypostyle_result *hs_result_of(SEXP pointer);

/* ---- columns.c ---- */

typedef enum {
  HS_LOGICAL = 1,
  HS_INTEGER,
  HS_DOUBLE,
  HS_INTEGER64, /* 64-bit integers in the space of doubles, as package bit64 has them */
  HS_STRING,
  HS_FACTOR,
  HS_LIST
} hs_target;

/* The values of one column. The external pointer that owns it protects the texts of a dictionary. */
typedef struct {
  hypostyle_values values;
  hs_target target;
  double divisor; /* what a number is divided by */
  bool is_direct; /* the buffer is what R wants */
  bool is_patched; /* NA was written into the buffer */
  bool has_no_na;
  bool has_range;
  double minimum, maximum; /* in R's terms, if has_range */
} hs_column;

/* A vector that is a part of a column. */
typedef struct {
  hs_column *column; /* NULL when the vector's values were made */
  R_xlen_t offset;
  R_xlen_t length;
  bool is_written; /* someone may have written into the buffer */
} hs_view;

bool hs_is_null(const hs_column *column, R_xlen_t row);
void hs_fill_integers(const hs_column *column, R_xlen_t from, R_xlen_t count, int *out);
void hs_fill_doubles(const hs_column *column, R_xlen_t from, R_xlen_t count, double *out);

/* Returns the texts of a dictionary, which the column's pointer keeps. */
SEXP hs_levels(SEXP pointer);

/* Returns one text; nothing protects it. `levels` are those of a dictionary, or NULL. */
SEXP hs_string(const hs_column *column, SEXP levels, R_xlen_t row);

SEXPTYPE hs_type_of(hs_target target);

/* Makes an ordinary vector of some rows. */
SEXP hs_ordinary(SEXP pointer, R_xlen_t offset, R_xlen_t length);

/* ---- altrep.c ---- */

void hs_init_altrep(DllInfo *library);

/* Makes a vector whose values are made when they are needed, or lie where the column's buffer is. */
SEXP hs_lazy(SEXP pointer, R_xlen_t offset, R_xlen_t length);

/* ---- forge.c ---- */

/* Makes an ordinary vector of a whole stored column, whose values are a mapping; or returns R's NULL. */
SEXP hs_forged(SEXP result, size_t index, const hs_column *column);

/* ---- nested.c ---- */

/* What R warns of in a column: integers that R has no room for, the least BIGINT, integers of lists. */
enum { HS_HINT_BEYOND = 1, HS_HINT_LEAST = 2, HS_HINT_ROUNDED = 3 };

/* Reads the columns of a stream that are wanted as lists; frees the stream. */
SEXP hs_nested(struct ArrowArrayStream *stream, const int *wanted, R_xlen_t wanted_count, int *hints);

/* ---- writing.c ---- */

/* Makes a stream of the rows of prepared columns (R/prepare.R), which only reads R's memory. The
 * pointer that is returned owns the rows: when it is ended, what is left of the stream fails. */
SEXP hs_rows(SEXP columns);
void hs_rows_stream(SEXP rows, struct ArrowArrayStream *stream);
void hs_rows_end(SEXP rows);

/* ---- calls from R ---- */

SEXP hs_version(void);
SEXP hs_open(SEXP target, SEXP options);
SEXP hs_close(SEXP database);
SEXP hs_connect(SEXP database);
SEXP hs_disconnect(SEXP connection);
SEXP hs_is_valid(SEXP pointer);
SEXP hs_transaction_state(SEXP connection);
SEXP hs_session_id(SEXP connection);
SEXP hs_progress(SEXP connection);
SEXP hs_commit(SEXP connection);
SEXP hs_rollback(SEXP connection);
SEXP hs_prepare(SEXP connection, SEXP sql);
SEXP hs_bind_values(SEXP statement, SEXP columns, SEXP names);
SEXP hs_bind_rows(SEXP statement, SEXP columns, SEXP by_name);
SEXP hs_statement_execute(SEXP statement, SEXP frames, SEXP rows);
SEXP hs_statement_free(SEXP statement);
SEXP hs_result_info(SEXP result);
SEXP hs_result_free(SEXP result);
SEXP hs_result_load(SEXP result, SEXP types, SEXP bigint);
SEXP hs_result_vectors(SEXP result, SEXP columns, SEXP attributes, SEXP offset, SEXP length, SEXP lazy_rows);
SEXP hs_append(SEXP connection, SEXP table, SEXP columns, SEXP flags);
SEXP hs_is_lazy(SEXP vector);
SEXP hs_forged_count(void);

#endif
