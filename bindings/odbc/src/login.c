/* Opening a database within a time. A server that takes a connection and says nothing keeps a thread of its
 * own, which nobody waits for when the time is over.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t is_over;
  char *target;
  hypostyle_options options; /* its texts are copies */
  hypostyle_database *database;
  hypostyle_connection *session;
  hypostyle_error *error;
  hypostyle_status status;
  bool is_done, is_abandoned;
} login;

static hypostyle_status open_both(const char *target, const hypostyle_options *options,
                                  hypostyle_database **database, hypostyle_connection **session,
                                  hypostyle_error **error) {
  hypostyle_status status = hypostyle_open(target, HYPOSTYLE_NUL, options, database, error);
  return status != HYPOSTYLE_OK ? status : hypostyle_connect(*database, session, error);
}

/* Frees what nobody has taken. */
static void login_free(login *l) {
  hypostyle_disconnect(&l->session);
  hypostyle_close(&l->database);
  hypostyle_error_free(&l->error);
  pthread_cond_destroy(&l->is_over);
  pthread_mutex_destroy(&l->lock);
  free(l->target);
  free((char *)l->options.temp_directory);
  free((char *)l->options.verify);
  free((char *)l->options.user);
  free((char *)l->options.password);
  free(l);
}

static void *log_in(void *of) {
  login *l = of;
  hypostyle_status status = open_both(l->target, &l->options, &l->database, &l->session, &l->error);
  pthread_mutex_lock(&l->lock);
  l->status = status;
  l->is_done = true;
  bool is_abandoned = l->is_abandoned;
  pthread_cond_signal(&l->is_over);
  pthread_mutex_unlock(&l->lock);
  if (is_abandoned) login_free(l);
  return NULL;
}

static bool copy_text(const char **text) {
  if (*text == NULL) return true;
  *text = strdup(*text);
  return *text != NULL;
}

static login *login_new(const char *target, const hypostyle_options *options) {
  login *l = calloc(1, sizeof *l);
  if (l == NULL) return NULL;
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->is_over, &clock);
  pthread_condattr_destroy(&clock);
  l->options = *options;
  l->target = strdup(target);
  /* Each is copied, also behind one that could not be: what is freed is a copy or NULL. */
  bool has_all = copy_text(&l->options.temp_directory);
  has_all = copy_text(&l->options.verify) && has_all;
  has_all = copy_text(&l->options.user) && has_all;
  has_all = copy_text(&l->options.password) && has_all;
  if (l->target != NULL && has_all) return l;
  login_free(l);
  return NULL;
}

/* Waits for the thread; false when the time is over, and the thread has what it needs. */
static bool wait_for(login *l, SQLUINTEGER seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += seconds > 1000000000 ? 1000000000 : (time_t)seconds;
  pthread_mutex_lock(&l->lock);
  int waited = 0;
  while (!l->is_done && waited == 0) waited = pthread_cond_timedwait(&l->is_over, &l->lock, &until);
  bool is_done = l->is_done;
  l->is_abandoned = !is_done;
  pthread_mutex_unlock(&l->lock);
  return is_done;
}

static bool start(login *l) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, log_in, l) != 0) return false;
  pthread_detach(thread);
  return true;
}

SQLRETURN log_in_within(connection *conn, const char *target, const hypostyle_options *options,
                        SQLUINTEGER seconds) {
  hypostyle_error *error = NULL;
  if (seconds == 0 || strstr(target, "://") == NULL) {
    if (open_both(target, options, &conn->database, &conn->session, &error) == HYPOSTYLE_OK) return SQL_SUCCESS;
    hypostyle_close(&conn->database);
    return fail_library(conn, conn, &error);
  }
  login *l = login_new(target, options);
  if (l == NULL) return fail_memory(conn);
  if (!start(l)) {
    login_free(l);
    return fail_memory(conn);
  }
  if (!wait_for(l, seconds))
    return fail(conn, "HYT00", "the server has not answered within %u s", (unsigned)seconds);
  SQLRETURN returned = SQL_SUCCESS;
  if (l->status == HYPOSTYLE_OK) {
    conn->database = l->database, conn->session = l->session;
    l->database = NULL, l->session = NULL;
  } else {
    returned = fail_library(conn, conn, &l->error);
  }
  login_free(l);
  return returned;
}
