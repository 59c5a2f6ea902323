/* Handles: how they are made, entered and freed, and the environment.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---- */

/* Freed handles are taken again in the order in which they were freed, so that an old one is seen to be
 * freed for as long as possible. */
typedef struct {
  size_t size;
  handle *first, *last;
} pool;

static pool pools[] = {[KIND_ENVIRONMENT] = {sizeof(environment), NULL, NULL},
                       [KIND_CONNECTION] = {sizeof(connection), NULL, NULL},
                       [KIND_STATEMENT] = {sizeof(statement), NULL, NULL},
                       [KIND_DESCRIPTOR] = {sizeof(descriptor), NULL, NULL}};
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

enum { SPARE_HANDLES = 64 };

/* Handles that are in use, and freed ones that wait, by kind; only freed ones beyond SPARE_HANDLES are
 * taken again. */
static size_t spare[KIND_DESCRIPTOR + 1];

void *handle_new(handle_kind kind) {
  pool *p = &pools[kind];
  pthread_mutex_lock(&pool_lock);
  handle *h = NULL;
  if (spare[kind] > SPARE_HANDLES) {
    h = p->first;
    p->first = h->next_free;
    if (p->first == NULL) p->last = NULL;
    spare[kind]--;
  }
  pthread_mutex_unlock(&pool_lock);
  if (h == NULL) h = malloc(p->size);
  if (h == NULL) return NULL;
  memset(h, 0, p->size);
  atomic_store(&h->kind, (uint32_t)kind);
  return h;
}

void handle_release(handle *h) {
  handle_kind kind = (handle_kind)atomic_exchange(&h->kind, KIND_FREE);
  forget_diagnostics(h);
  free(h->diagnostics);
  h->diagnostics = NULL;
  pool *p = &pools[kind];
  pthread_mutex_lock(&pool_lock);
  h->next_free = NULL;
  if (p->last != NULL)
    p->last->next_free = h;
  else
    p->first = h;
  p->last = h;
  spare[kind]++;
  pthread_mutex_unlock(&pool_lock);
}

bool handle_is(const void *h, handle_kind kind) {
  return h != NULL && atomic_load(&((const handle *)h)->kind) == (uint32_t)kind;
}

/* ---- Fork ---- */

unsigned fork_generation;

/* Locks that other threads of the parent held are free in the child, whose handles do nothing. */
static void after_fork(void) {
  fork_generation++;
  pthread_mutex_init(&pool_lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

/* ---- Entering and leaving ---- */

SQLRETURN enter_environment(SQLHENV h, environment **env) {
  if (!handle_is(h, KIND_ENVIRONMENT)) return SQL_INVALID_HANDLE;
  *env = h;
  pthread_mutex_lock(&(*env)->lock);
  forget_diagnostics(&(*env)->head);
  return SQL_SUCCESS;
}

SQLRETURN leave_environment(environment *env, SQLRETURN returned) {
  env->head.returned = returned;
  pthread_mutex_unlock(&env->lock);
  return returned;
}

static SQLRETURN refuse_child(void *h) {
  forget_diagnostics(h);
  return fail(h, "08003",
              "the connection belongs to the process that has forked this one; open another one here");
}

/* Takes the lock of a connection for one of its handles, which another thread may have freed before. */
static SQLRETURN lock_for(connection *conn, void *h, handle_kind kind) {
  if (conn->generation != fork_generation) return refuse_child(h);
  pthread_mutex_lock(&conn->lock);
  if (!handle_is(h, kind)) {
    pthread_mutex_unlock(&conn->lock);
    return SQL_INVALID_HANDLE;
  }
  forget_diagnostics(h);
  return SQL_SUCCESS;
}

SQLRETURN enter_connection(SQLHDBC h, connection **conn) {
  if (!handle_is(h, KIND_CONNECTION)) return SQL_INVALID_HANDLE;
  *conn = h;
  return lock_for(*conn, h, KIND_CONNECTION);
}

SQLRETURN enter_statement(SQLHSTMT h, statement **s) {
  if (!handle_is(h, KIND_STATEMENT)) return SQL_INVALID_HANDLE;
  *s = h;
  return lock_for((*s)->conn, h, KIND_STATEMENT);
}

SQLRETURN enter_descriptor(SQLHDESC h, descriptor **d) {
  if (!handle_is(h, KIND_DESCRIPTOR)) return SQL_INVALID_HANDLE;
  *d = h;
  return lock_for((*d)->conn, h, KIND_DESCRIPTOR);
}

/* Returns the lock of a handle; NULL in a child of fork(), where no other thread can be in a call. */
static pthread_mutex_t *lock_of(handle *h, handle_kind kind) {
  if (kind == KIND_ENVIRONMENT) return &((environment *)h)->lock;
  connection *conn = kind == KIND_STATEMENT    ? ((statement *)h)->conn
                     : kind == KIND_DESCRIPTOR ? ((descriptor *)h)->conn
                                               : (connection *)h;
  return conn->generation == fork_generation ? &conn->lock : NULL;
}

bool lock_handle(handle *h, handle_kind kind) {
  if (!handle_is(h, kind)) return false;
  pthread_mutex_t *lock = lock_of(h, kind);
  if (lock != NULL) pthread_mutex_lock(lock);
  if (handle_is(h, kind)) return true;
  if (lock != NULL) pthread_mutex_unlock(lock);
  return false;
}

void unlock_handle(handle *h, handle_kind kind) {
  pthread_mutex_t *lock = lock_of(h, kind);
  if (lock != NULL) pthread_mutex_unlock(lock);
}

SQLRETURN leave_connection(connection *conn, SQLRETURN returned) {
  conn->head.returned = returned;
  pthread_mutex_unlock(&conn->lock);
  return returned;
}

SQLRETURN leave_statement(statement *s, SQLRETURN returned) {
  s->head.returned = returned;
  pthread_mutex_unlock(&s->conn->lock);
  return returned;
}

SQLRETURN leave_descriptor(descriptor *d, SQLRETURN returned) {
  d->head.returned = returned;
  pthread_mutex_unlock(&d->conn->lock);
  return returned;
}

/* ---- Making and freeing ---- */

static SQLRETURN new_environment(SQLHANDLE *out) {
  environment *env = handle_new(KIND_ENVIRONMENT);
  if (env == NULL) return SQL_ERROR;
  pthread_mutex_init(&env->lock, NULL);
  env->version = SQL_OV_ODBC3;
  *out = env;
  return SQL_SUCCESS;
}

static SQLRETURN new_connection(SQLHENV of, SQLHANDLE *out) {
  environment *env;
  SQLRETURN entered = enter_environment(of, &env);
  if (entered != SQL_SUCCESS) return entered;
  connection *conn = handle_new(KIND_CONNECTION);
  if (conn == NULL) return leave_environment(env, fail_memory(env));
  conn->env = env;
  conn->generation = fork_generation;
  pthread_mutex_init(&conn->lock, NULL);
  pthread_mutex_init(&conn->cancel_lock, NULL);
  conn->autocommit = SQL_AUTOCOMMIT_ON;
  conn->access_mode = SQL_MODE_READ_WRITE;
  conn->isolation = SQL_TXN_REPEATABLE_READ;
  conn->next = env->connections;
  env->connections = conn;
  *out = conn;
  return leave_environment(env, SQL_SUCCESS);
}

static SQLRETURN new_statement(SQLHDBC of, SQLHANDLE *out) {
  connection *conn;
  SQLRETURN entered = enter_connection(of, &conn);
  if (entered != SQL_SUCCESS) return entered;
  if (conn->session == NULL) return leave_connection(conn, fail(conn, "08003", "the connection is not open"));
  statement *s = statement_new(conn);
  if (s == NULL) return leave_connection(conn, fail_memory(conn));
  *out = s;
  return leave_connection(conn, SQL_SUCCESS);
}

static SQLRETURN new_descriptor(SQLHDBC of, SQLHANDLE *out) {
  connection *conn;
  SQLRETURN entered = enter_connection(of, &conn);
  if (entered != SQL_SUCCESS) return entered;
  descriptor *d = descriptor_new(conn, NULL, ROLE_APD, true);
  if (d == NULL) return leave_connection(conn, fail_memory(conn));
  d->next = conn->descriptors;
  conn->descriptors = d;
  *out = d;
  return leave_connection(conn, SQL_SUCCESS);
}

SQLRETURN SQL_API SQLAllocHandle(SQLSMALLINT type, SQLHANDLE of, SQLHANDLE *out) {
  if (out == NULL) return SQL_ERROR;
  *out = SQL_NULL_HANDLE;
  switch (type) {
  case SQL_HANDLE_ENV: return new_environment(out);
  case SQL_HANDLE_DBC: return new_connection(of, out);
  case SQL_HANDLE_STMT: return new_statement(of, out);
  case SQL_HANDLE_DESC: return new_descriptor(of, out);
  default: return SQL_ERROR;
  }
}

static SQLRETURN free_environment(SQLHENV h) {
  environment *env;
  SQLRETURN entered = enter_environment(h, &env);
  if (entered != SQL_SUCCESS) return entered;
  if (env->connections != NULL)
    return leave_environment(env,
                             fail(env, "HY010", "the environment still has connections; free them first"));
  pthread_mutex_unlock(&env->lock);
  pthread_mutex_destroy(&env->lock);
  handle_release(&env->head);
  return SQL_SUCCESS;
}

/* Another thread of the parent may hold the lock for ever in a child of fork(), where no thread can be within
 * a call. */
static bool is_of_parent(const connection *conn) { return conn->generation != fork_generation; }

static void unlink_connection(connection *conn) {
  environment *env = conn->env;
  bool is_locked = !is_of_parent(conn);
  if (is_locked) pthread_mutex_lock(&env->lock);
  connection **place = &env->connections;
  while (*place != NULL && *place != conn) place = &(*place)->next;
  if (*place != NULL) *place = conn->next;
  if (is_locked) pthread_mutex_unlock(&env->lock);
}

static SQLRETURN free_connection(SQLHDBC h) {
  if (!handle_is(h, KIND_CONNECTION)) return SQL_INVALID_HANDLE;
  connection *conn = h;
  if (!is_of_parent(conn)) {
    SQLRETURN entered = enter_connection(h, &conn);
    if (entered != SQL_SUCCESS) return entered;
    if (conn->session != NULL)
      return leave_connection(conn, fail(conn, "HY010", "the connection is open; disconnect first"));
    pthread_mutex_unlock(&conn->lock);
  }
  unlink_connection(conn);
  free_dependants(conn);
  hypostyle_disconnect(&conn->session);
  hypostyle_close(&conn->database);
  free_settings(&conn->settings);
  handle_release(&conn->head);
  return SQL_SUCCESS;
}

static SQLRETURN free_statement(SQLHSTMT h) {
  if (!handle_is(h, KIND_STATEMENT)) return SQL_INVALID_HANDLE;
  statement *s = h;
  connection *conn = s->conn;
  if (is_of_parent(conn)) {
    statement_free(s);
    return SQL_SUCCESS;
  }
  SQLRETURN entered = enter_statement(h, &s);
  if (entered != SQL_SUCCESS) return entered;
  statement_free(s);
  pthread_mutex_unlock(&conn->lock);
  return SQL_SUCCESS;
}

/* Statements that use a descriptor get their own one back. */
static void unlink_descriptor(descriptor *d) {
  for (descriptor **place = &d->conn->descriptors; *place != NULL; place = &(*place)->next)
    if (*place == d) {
      *place = d->next;
      break;
    }
  for (statement *s = d->conn->statements; s != NULL; s = s->next) {
    if (s->apd == d) s->apd = s->own_apd;
    if (s->ard == d) s->ard = s->own_ard;
  }
}

static SQLRETURN free_explicit_descriptor(SQLHDESC h) {
  if (!handle_is(h, KIND_DESCRIPTOR)) return SQL_INVALID_HANDLE;
  descriptor *d = h;
  connection *conn = d->conn;
  bool is_locked = !is_of_parent(conn);
  if (is_locked) {
    SQLRETURN entered = enter_descriptor(h, &d);
    if (entered != SQL_SUCCESS) return entered;
    if (!d->is_explicit)
      return leave_descriptor(d, fail(d, "HY017", "the descriptor belongs to a statement, which frees it"));
  }
  unlink_descriptor(d);
  descriptor_free(d);
  if (is_locked) pthread_mutex_unlock(&conn->lock);
  return SQL_SUCCESS;
}

void free_dependants(connection *conn) {
  while (conn->statements != NULL) statement_free(conn->statements);
  while (conn->descriptors != NULL) {
    descriptor *d = conn->descriptors;
    unlink_descriptor(d);
    descriptor_free(d);
  }
}

SQLRETURN SQL_API SQLFreeHandle(SQLSMALLINT type, SQLHANDLE h) {
  switch (type) {
  case SQL_HANDLE_ENV: return free_environment(h);
  case SQL_HANDLE_DBC: return free_connection(h);
  case SQL_HANDLE_STMT: return free_statement(h);
  case SQL_HANDLE_DESC: return free_explicit_descriptor(h);
  default: return SQL_ERROR;
  }
}

/* ---- The attributes of an environment ---- */

SQLRETURN SQL_API SQLSetEnvAttr(SQLHENV h, SQLINTEGER attribute, SQLPOINTER value, SQLINTEGER length) {
  (void)length;
  environment *env;
  SQLRETURN entered = enter_environment(h, &env);
  if (entered != SQL_SUCCESS) return entered;
  SQLINTEGER number = (SQLINTEGER)(intptr_t)value;
  switch (attribute) {
  case SQL_ATTR_ODBC_VERSION:
    if (number != SQL_OV_ODBC2 && number != SQL_OV_ODBC3 && number != SQL_OV_ODBC3_80)
      return leave_environment(env, fail(env, "HY024", "%d is no version of ODBC", (int)number));
    env->version = number;
    return leave_environment(env, SQL_SUCCESS);
  case SQL_ATTR_OUTPUT_NTS:
    if (number != SQL_TRUE) return leave_environment(env, fail(env, "HYC00", "texts always end with NUL"));
    return leave_environment(env, SQL_SUCCESS);
  default:
    return leave_environment(env, fail(env, "HY092", "an environment has no attribute %d", (int)attribute));
  }
}

SQLRETURN SQL_API SQLGetEnvAttr(SQLHENV h, SQLINTEGER attribute, SQLPOINTER value, SQLINTEGER room,
                                SQLINTEGER *told) {
  (void)room;
  environment *env;
  SQLRETURN entered = enter_environment(h, &env);
  if (entered != SQL_SUCCESS) return entered;
  SQLINTEGER number;
  switch (attribute) {
  case SQL_ATTR_ODBC_VERSION: number = env->version; break;
  case SQL_ATTR_OUTPUT_NTS: number = SQL_TRUE; break;
  case SQL_ATTR_CONNECTION_POOLING: number = SQL_CP_OFF; break;
  case SQL_ATTR_CP_MATCH: number = SQL_CP_STRICT_MATCH; break;
  default:
    return leave_environment(env, fail(env, "HY092", "an environment has no attribute %d", (int)attribute));
  }
  if (value != NULL) memcpy(value, &number, sizeof number);
  if (told != NULL) *told = sizeof number;
  return leave_environment(env, SQL_SUCCESS);
}
