/* Databases, connections, and what happens while one of them is waited for: interrupts, the bar that
 * shows progress, and data frames that a statement reads as tables. */
#define CSTACK_DEFNS
#include "glue.h"
#include <Rinterface.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long a thread of the database waits for a data frame. */
#define FRAME_SECONDS 60

/* Places in the list of frames (R/frames.R): the names that are looked for, and what was made. */
enum { FRAMES_NAMES = 0, FRAMES_KEPT = 3 };

/* ---- Databases ---- */

static void finalize_database(SEXP pointer) {
  hypostyle_database *database = R_ExternalPtrAddr(pointer);
  R_ClearExternalPtr(pointer);
  hypostyle_close(&database);
}

static const char *option_text(SEXP options, int index) {
  SEXP value = VECTOR_ELT(options, index);
  return value == R_NilValue ? NULL : Rf_translateCharUTF8(STRING_ELT(value, 0));
}

/* options: read_only, allow_network_filesystem, threads, memory_limit, temp_directory, verify, user,
 * password. */
SEXP hs_open(SEXP target, SEXP options) {
  hypostyle_options given;
  memset(&given, 0, sizeof given);
  given.size = sizeof given;
  given.read_only = Rf_asLogical(VECTOR_ELT(options, 0)) == TRUE;
  given.allow_network_filesystem = Rf_asLogical(VECTOR_ELT(options, 1)) == TRUE;
  given.threads = (uint32_t)Rf_asInteger(VECTOR_ELT(options, 2));
  given.memory_limit = (uint64_t)Rf_asReal(VECTOR_ELT(options, 3));
  given.temp_directory = option_text(options, 4);
  given.verify = option_text(options, 5);
  given.user = option_text(options, 6);
  given.password = option_text(options, 7);
  const char *path = Rf_translateCharUTF8(STRING_ELT(target, 0));

  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, Rf_install("hypostyle_database"), R_NilValue));
  R_RegisterCFinalizerEx(pointer, finalize_database, TRUE);
  hypostyle_database *database = NULL;
  hypostyle_error *error = NULL;
  if (hypostyle_open(path, HYPOSTYLE_NUL, &given, &database, &error) != HYPOSTYLE_OK) hs_raise(&error);
  R_SetExternalPtrAddr(pointer, database);
  UNPROTECT(1);
  return pointer;
}

SEXP hs_close(SEXP database) {
  finalize_database(database);
  return R_NilValue;
}

/* ---- Waiting ---- */

/* Calls R while the library waits; false when R has jumped out. A statement whose syntax is deep has a
 * stack of its own, which R would take for one that overflows: it is told not to look. */
static bool call_r(void (*function)(void *), void *context) {
  char here;
  uintptr_t limit = R_CStackLimit, used = R_CStackStart - (uintptr_t)&here;
  if (limit != (uintptr_t)-1 && used > limit) R_CStackLimit = (uintptr_t)-1;
  bool is_done = R_ToplevelExec(function, context);
  R_CStackLimit = limit;
  return is_done;
}

static void check_interrupt(void *nothing) {
  (void)nothing;
  R_CheckUserInterrupt();
}

static void draw_bar(hs_link *link, const hypostyle_progress *progress) {
  enum { CELLS = 40 };
  char bar[CELLS + 1];
  char line[160];
  int width;
  if (progress->has_total && progress->rows_total > 0) {
    double share = (double)progress->rows_done / (double)progress->rows_total;
    int filled = share >= 1 ? CELLS : (int)(share * CELLS);
    memset(bar, '=', (size_t)filled);
    memset(bar + filled, ' ', (size_t)(CELLS - filled));
    bar[CELLS] = '\0';
    width = snprintf(line, sizeof line, "[%s] %3.0f %%", bar, share >= 1 ? 100.0 : share * 100);
    if (progress->seconds_left >= 0)
      width += snprintf(line + width, sizeof line - (size_t)width, ", %.0f s left", progress->seconds_left);
  } else {
    width = snprintf(line, sizeof line, "%.0f rows, %.0f s", (double)progress->rows_done, progress->seconds);
  }
  int wiped = link->bar_width > width ? link->bar_width - width : 0;
  REprintf("\r%s%*s", line, wiped, "");
  link->bar_width = width;
}

static void wipe_bar(hs_link *link) {
  if (link->bar_width > 0) REprintf("\r%*s\r", link->bar_width, "");
  link->bar_width = 0;
}

typedef struct {
  hs_link *link;
  const hypostyle_progress *progress;
} bar_call;

static void draw_bar_of(void *context) {
  bar_call *call = context;
  draw_bar(call->link, call->progress);
}

typedef struct {
  SEXP frames;
  R_xlen_t index;
  struct ArrowArrayStream *rows;
  int32_t answer; /* as of hypostyle_tables */
  bool is_found;  /* R has found and prepared it, or said that it cannot */
} frame_call;

/* Finds and prepares a data frame; R may jump out. The list of frames keeps what was made. */
static void prepare_frame(void *context) {
  frame_call *call = context;
  SEXP name = PROTECT(Rf_mkString("hypostyle"));
  SEXP find = PROTECT(Rf_lang2(Rf_install("getNamespace"), name));
  SEXP space = PROTECT(Rf_eval(find, R_BaseEnv));
  SEXP place = PROTECT(Rf_ScalarReal((double)call->index + 1));
  SEXP prepare = PROTECT(Rf_lang3(Rf_install("prepare_found"), call->frames, place));
  SEXP columns = PROTECT(Rf_eval(prepare, space));
  call->is_found = true;
  if (TYPEOF(columns) != VECSXP) {
    /* No data frame, or one that cannot be read. */
    call->answer = columns == R_NilValue ? 0 : -1;
    UNPROTECT(6);
    return;
  }
  SEXP kept = VECTOR_ELT(call->frames, FRAMES_KEPT);
  SEXP rows = PROTECT(hs_rows(columns));
  SET_VECTOR_ELT(call->frames, FRAMES_KEPT, Rf_cons(rows, kept));
  hs_rows_stream(rows, call->rows);
  call->answer = 1;
  UNPROTECT(7);
}

/* Gives the frame that a thread of the database waits for. */
static int32_t give_frame(hs_link *link, R_xlen_t index, struct ArrowArrayStream *rows) {
  frame_call call = {link->frames, index, rows, -1, false};
  if (call_r(prepare_frame, &call)) return call.answer;
  /* Errors of R's code are caught there, so that this was an interrupt. */
  if (!call.is_found) link->was_stopped = true;
  return -1;
}

static void answer_frame(hs_link *link) {
  pthread_mutex_lock(&link->lock);
  bool is_wanted = link->wanted == FRAME_WANTED;
  R_xlen_t index = link->wanted_index;
  struct ArrowArrayStream *rows = link->wanted_rows;
  pthread_mutex_unlock(&link->lock);
  if (!is_wanted) return;
  struct ArrowArrayStream made;
  int32_t answer = give_frame(link, index, &made);
  pthread_mutex_lock(&link->lock);
  /* The other thread may have given up. */
  if (link->wanted == FRAME_WANTED) {
    if (answer > 0) *rows = made;
    link->wanted = answer > 0 ? FRAME_FOUND : answer == 0 ? FRAME_UNKNOWN : FRAME_FAILED;
    pthread_cond_broadcast(&link->changed);
  } else if (answer > 0) {
    made.release(&made);
  }
  pthread_mutex_unlock(&link->lock);
}

/* The library calls it about every 50 ms. */
static int32_t poll(void *context, const hypostyle_progress *progress) {
  hs_link *link = context;
  if (!link->is_busy || !pthread_equal(pthread_self(), link->waiter)) return 0;
  answer_frame(link);
  if (link->was_stopped || !call_r(check_interrupt, NULL)) {
    link->was_stopped = true;
    return 1;
  }
  if (link->shows_bar && progress->is_running && progress->seconds >= link->next_bar) {
    bar_call call = {link, progress};
    call_r(draw_bar_of, &call);
    link->next_bar = progress->seconds + 0.2;
  }
  return 0;
}

static bool is_name(SEXP name, const char *wanted, size_t length, bool in_any_case) {
  const char *text = CHAR(name);
  if (strlen(text) != length) return false;
  if (!in_any_case) return memcmp(text, wanted, length) == 0;
  for (size_t i = 0; i < length; i++) {
    char a = text[i], b = wanted[i];
    if (a >= 'A' && a <= 'Z') a = (char)(a - 'A' + 'a');
    if (b >= 'A' && b <= 'Z') b = (char)(b - 'A' + 'a');
    if (a != b) return false;
  }
  return true;
}

/* Finds a frame by its name, or -1. It reads R's memory only. */
static R_xlen_t find_frame(SEXP frames, const char *name, size_t length) {
  if (frames == R_NilValue) return -1;
  SEXP names = VECTOR_ELT(frames, FRAMES_NAMES);
  const SEXP *texts = STRING_PTR_RO(names);
  for (int in_any_case = 0; in_any_case < 2; in_any_case++)
    for (R_xlen_t i = 0; i < XLENGTH(names); i++)
      if (is_name(texts[i], name, length, in_any_case)) return i;
  return -1;
}

/* The library calls it from a thread of its own for names that no table has. R lives on the thread
 * that waits for the statement, which makes the rows when it is polled. */
static int32_t tables(void *context, const char *name, size_t length, struct ArrowArrayStream *rows) {
  hs_link *link = context;
  pthread_mutex_lock(&link->lock);
  R_xlen_t index = link->is_busy ? find_frame(link->frames, name, length) : -1;
  if (index < 0) {
    pthread_mutex_unlock(&link->lock);
    return 0;
  }
  if (pthread_equal(pthread_self(), link->waiter)) {
    pthread_mutex_unlock(&link->lock);
    return give_frame(link, index, rows);
  }
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += FRAME_SECONDS;
  int waited = 0;
  while (link->is_busy && link->wanted != FRAME_NONE && waited != ETIMEDOUT)
    waited = pthread_cond_timedwait(&link->changed, &link->lock, &end);
  int32_t answer = -1;
  if (link->is_busy && link->wanted == FRAME_NONE) {
    link->wanted = FRAME_WANTED;
    link->wanted_index = index;
    link->wanted_rows = rows;
    while (link->is_busy && link->wanted == FRAME_WANTED && waited != ETIMEDOUT)
      waited = pthread_cond_timedwait(&link->changed, &link->lock, &end);
    answer = link->wanted == FRAME_FOUND ? 1 : link->wanted == FRAME_UNKNOWN ? 0 : -1;
    link->wanted = FRAME_NONE;
    pthread_cond_broadcast(&link->changed);
  }
  pthread_mutex_unlock(&link->lock);
  return answer;
}

void hs_enter(hs_link *link, SEXP frames) {
  if (link->is_busy)
    Rf_error("the connection runs a statement; use another connection, or wait until it has ended");
  SEXP option = Rf_GetOption1(Rf_install("hypostyle.progress"));
  link->shows_bar = Rf_asLogical(option) == TRUE;
  pthread_mutex_lock(&link->lock);
  link->waiter = pthread_self();
  link->was_stopped = false;
  link->next_bar = 2;
  link->frames = frames;
  link->wanted = FRAME_NONE;
  link->is_busy = true;
  pthread_mutex_unlock(&link->lock);
}

static void stop_waiting(hs_link *link) {
  pthread_mutex_lock(&link->lock);
  link->is_busy = false;
  link->frames = R_NilValue;
  pthread_cond_broadcast(&link->changed);
  pthread_mutex_unlock(&link->lock);
}

void hs_leave(hs_link *link, hypostyle_status status, hypostyle_error **error) {
  stop_waiting(link);
  wipe_bar(link);
  if (link->was_stopped) {
    /* An interrupt is one however the call has ended: R has forgotten it. */
    if (status != HYPOSTYLE_OK) hypostyle_error_free(error);
    SEXP name = PROTECT(Rf_mkString("hypostyle"));
    SEXP find = PROTECT(Rf_lang2(Rf_install("getNamespace"), name));
    SEXP space = PROTECT(Rf_eval(find, R_BaseEnv));
    SEXP call = PROTECT(Rf_lang1(Rf_install("interrupted")));
    Rf_eval(call, space);
    UNPROTECT(4);
    Rf_error("the statement was interrupted");
  }
  if (status != HYPOSTYLE_OK) hs_raise(error);
}

/* ---- Connections ---- */

static void end_connection(hs_link *link) {
  if (link->connection == NULL) return;
  hypostyle_set_tables(link->connection, NULL, NULL, NULL);
  hypostyle_disconnect(&link->connection);
}

static void finalize_connection(SEXP pointer) {
  hs_link *link = R_ExternalPtrAddr(pointer);
  if (link == NULL) return;
  R_ClearExternalPtr(pointer);
  if (link->connection != NULL) hypostyle_set_poll(link->connection, NULL, NULL, NULL);
  end_connection(link);
  pthread_cond_destroy(&link->changed);
  pthread_mutex_destroy(&link->lock);
  free(link);
}

hs_link *hs_link_of(SEXP pointer) {
  hs_link *link = TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
  if (link == NULL || link->connection == NULL)
    Rf_error("the connection is closed; connect again with dbConnect(hypostyle(), ...)");
  return link;
}

SEXP hs_connect(SEXP database) {
  hypostyle_database *from = R_ExternalPtrAddr(database);
  if (from == NULL) Rf_error("the database is closed; open it again with dbConnect(hypostyle(), ...)");
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, Rf_install("hypostyle_connection"), database));
  R_RegisterCFinalizerEx(pointer, finalize_connection, TRUE);
  hs_link *link = calloc(1, sizeof *link);
  if (link == NULL) Rf_error("no memory for a connection");
  link->frames = R_NilValue;
  pthread_mutex_init(&link->lock, NULL);
  pthread_cond_init(&link->changed, NULL);
  R_SetExternalPtrAddr(pointer, link);
  hypostyle_error *error = NULL;
  if (hypostyle_connect(from, &link->connection, &error) != HYPOSTYLE_OK) hs_raise(&error);
  if (hypostyle_set_poll(link->connection, poll, link, &error) != HYPOSTYLE_OK) hs_raise(&error);
  /* A server's names are not looked for here. */
  hypostyle_set_tables(link->connection, tables, link, NULL);
  UNPROTECT(1);
  return pointer;
}

/* The struct stays until R has forgotten all results, which are polled with it. */
SEXP hs_disconnect(SEXP connection) {
  hs_link *link = R_ExternalPtrAddr(connection);
  if (link == NULL) return R_NilValue;
  if (link->is_busy) Rf_error("the connection runs a statement, and cannot be closed now");
  end_connection(link);
  return R_NilValue;
}

SEXP hs_is_valid(SEXP pointer) {
  if (TYPEOF(pointer) != EXTPTRSXP) return Rf_ScalarLogical(FALSE);
  void *address = R_ExternalPtrAddr(pointer);
  bool is_valid = address != NULL;
  if (is_valid && R_ExternalPtrTag(pointer) == Rf_install("hypostyle_connection"))
    is_valid = ((hs_link *)address)->connection != NULL;
  return Rf_ScalarLogical(is_valid);
}

SEXP hs_transaction_state(SEXP connection) {
  return Rf_ScalarInteger(hypostyle_transaction_state(hs_link_of(connection)->connection));
}

SEXP hs_session_id(SEXP connection) {
  return Rf_ScalarReal((double)hypostyle_session_id(hs_link_of(connection)->connection));
}

SEXP hs_progress(SEXP connection) {
  hs_link *link = hs_link_of(connection);
  hypostyle_progress progress;
  memset(&progress, 0, sizeof progress);
  progress.size = sizeof progress;
  hypostyle_error *error = NULL;
  hypostyle_status status = hypostyle_get_progress(link->connection, &progress, &error);
  if (status == HYPOSTYLE_NOT_FOUND) {
    hypostyle_error_free(&error);
    return R_NilValue;
  }
  if (status != HYPOSTYLE_OK) hs_raise(&error);
  SEXP numbers = PROTECT(Rf_allocVector(REALSXP, 3));
  REAL(numbers)[0] = (double)progress.rows_done;
  REAL(numbers)[1] = progress.has_total ? (double)progress.rows_total : NA_REAL;
  REAL(numbers)[2] = progress.seconds;
  UNPROTECT(1);
  return numbers;
}

SEXP hs_commit(SEXP connection) {
  hs_link *link = hs_link_of(connection);
  hypostyle_error *error = NULL;
  hs_enter(link, R_NilValue);
  hs_leave(link, hypostyle_commit(link->connection, &error), &error);
  return R_NilValue;
}

SEXP hs_rollback(SEXP connection) {
  hs_link *link = hs_link_of(connection);
  hypostyle_error *error = NULL;
  hs_enter(link, R_NilValue);
  hs_leave(link, hypostyle_rollback(link->connection, &error), &error);
  return R_NilValue;
}

SEXP hs_version(void) {
  const char *version = hypostyle_version();
  return hs_text(version, strlen(version));
}
