/* Databases, connections, statements and appenders: the native methods that give and take handles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "glue.h"

#include <stdlib.h>
#include <string.h>

NATIVE(jbyteArray, load)(JNIEnv *env, jclass class, jbyteArray path) {
  struct text text;
  (void)class;
  if (!text_begin(env, path, &text)) return NULL;
  char *why = hypostyle_jni_load((const char *)text.bytes);
  text_end(&text);
  if (why == NULL) return NULL;
  jbyteArray said = bytes_of(env, why, strlen(why));
  free(why);
  return said;
}

NATIVE(jbyteArray, version)(JNIEnv *env, jclass class) {
  (void)class;
  const char *version = library.hypostyle_version();
  return bytes_of(env, version, strlen(version));
}

NATIVE(jlong, open)
(JNIEnv *env, jclass class, jbyteArray target, jboolean read_only, jboolean network, jint threads, jlong memory,
 jbyteArray temp_directory, jbyteArray verify, jbyteArray user, jbyteArray password) {
  struct text texts[5];
  jbyteArray arrays[5] = {target, temp_directory, verify, user, password};
  hypostyle_database *database = NULL;
  (void)class;
  memset(texts, 0, sizeof texts);
  int is_whole = 1;
  for (int index = 0; is_whole && index < 5; index++) is_whole = text_begin(env, arrays[index], &texts[index]);
  if (is_whole) {
    hypostyle_error *error = NULL;
    hypostyle_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.read_only = read_only;
    options.allow_network_filesystem = network;
    options.threads = (uint32_t)threads;
    options.memory_limit = (uint64_t)memory;
    options.temp_directory = (const char *)texts[1].bytes;
    options.verify = (const char *)texts[2].bytes;
    options.user = (const char *)texts[3].bytes;
    options.password = (const char *)texts[4].bytes;
    failed(env, library.hypostyle_open((const char *)texts[0].bytes, texts[0].length, &options, &database, &error),
           &error);
  }
  for (int index = 0; index < 5; index++) text_end(&texts[index]);
  return LONG(database);
}

NATIVE(void, close)(JNIEnv *env, jclass class, jlong handle) {
  hypostyle_database *database = HANDLE(hypostyle_database, handle);
  (void)env, (void)class;
  library.hypostyle_close(&database);
}

NATIVE(jlong, connect)(JNIEnv *env, jclass class, jlong database) {
  hypostyle_connection *connection = NULL;
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_connect(HANDLE(hypostyle_database, database), &connection, &error), &error);
  return LONG(connection);
}

NATIVE(void, disconnect)(JNIEnv *env, jclass class, jlong handle) {
  hypostyle_connection *connection = HANDLE(hypostyle_connection, handle);
  (void)env, (void)class;
  library.hypostyle_disconnect(&connection);
}

NATIVE(void, interrupt)(JNIEnv *env, jclass class, jlong connection) {
  (void)env, (void)class;
  library.hypostyle_interrupt(HANDLE(hypostyle_connection, connection));
}

NATIVE(jint, transactionState)(JNIEnv *env, jclass class, jlong connection) {
  (void)env, (void)class;
  return library.hypostyle_transaction_state(HANDLE(hypostyle_connection, connection));
}

NATIVE(jlong, sessionId)(JNIEnv *env, jclass class, jlong connection) {
  (void)env, (void)class;
  return (jlong)library.hypostyle_session_id(HANDLE(hypostyle_connection, connection));
}

NATIVE(void, setAutoCommit)(JNIEnv *env, jclass class, jlong connection, jboolean autocommit) {
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_set_autocommit(HANDLE(hypostyle_connection, connection), autocommit, &error), &error);
}

NATIVE(void, commit)(JNIEnv *env, jclass class, jlong connection) {
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_commit(HANDLE(hypostyle_connection, connection), &error), &error);
}

NATIVE(void, rollback)(JNIEnv *env, jclass class, jlong connection) {
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_rollback(HANDLE(hypostyle_connection, connection), &error), &error);
}

NATIVE(jlong, execute)(JNIEnv *env, jclass class, jlong connection, jbyteArray sql) {
  hypostyle_result *result = NULL;
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, sql, &text)) return 0;
  failed(env, library.hypostyle_execute(HANDLE(hypostyle_connection, connection), (const char *)text.bytes, text.length,
                                        &result, &error), &error);
  text_end(&text);
  return LONG(result);
}

/* Finds the next statement from a place on: where it begins, its length, and where to go on. */
NATIVE(jboolean, nextStatement)(JNIEnv *env, jclass class, jbyteArray sql, jint from, jintArray places) {
  const char *statement = NULL;
  size_t start = (size_t)from, length = 0;
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, sql, &text)) return JNI_FALSE;
  if (!failed(env, library.hypostyle_next_statement((const char *)text.bytes, text.length, &start, &statement, &length,
                                                    &error), &error) && length > 0) {
    jint found[3] = {(jint)(statement - (const char *)text.bytes), (jint)length, (jint)start};
    (*env)->SetIntArrayRegion(env, places, 0, 3, found);
  }
  text_end(&text);
  return length > 0;
}

NATIVE(jlong, prepare)(JNIEnv *env, jclass class, jlong connection, jbyteArray sql) {
  hypostyle_statement *statement = NULL;
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, sql, &text)) return 0;
  failed(env, library.hypostyle_prepare(HANDLE(hypostyle_connection, connection), (const char *)text.bytes, text.length,
                                        &statement, &error), &error);
  text_end(&text);
  return LONG(statement);
}

NATIVE(jint, kind)(JNIEnv *env, jclass class, jlong statement) {
  (void)env, (void)class;
  return library.hypostyle_statement_kind(HANDLE(hypostyle_statement, statement));
}

NATIVE(jint, parameters)(JNIEnv *env, jclass class, jlong statement) {
  (void)env, (void)class;
  return (jint)library.hypostyle_statement_parameters(HANDLE(hypostyle_statement, statement));
}

/* The parameter's type, precision and scale go into `numbers`; its type's name is returned. */
NATIVE(jbyteArray, parameter)(JNIEnv *env, jclass class, jlong statement, jint index, jintArray numbers) {
  hypostyle_error *error = NULL;
  hypostyle_column column;
  (void)class;
  memset(&column, 0, sizeof column);
  column.size = sizeof column;
  if (failed(env, library.hypostyle_statement_parameter(HANDLE(hypostyle_statement, statement), (size_t)index, &column,
                                                        &error), &error))
    return NULL;
  jint told[3] = {column.type, column.precision, column.scale};
  (*env)->SetIntArrayRegion(env, numbers, 0, 3, told);
  return bytes_of(env, column.type_name, column.type_name_length);
}

NATIVE(jint, parameterIndex)(JNIEnv *env, jclass class, jlong statement, jbyteArray name) {
  size_t index = 0;
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, name, &text)) return 0;
  failed(env, library.hypostyle_statement_parameter_index(HANDLE(hypostyle_statement, statement),
                                                          (const char *)text.bytes, text.length, &index, &error),
         &error);
  text_end(&text);
  return (jint)index;
}

static hypostyle_value value_of(jint type, jint scale, jlong integer, jlong high, jdouble number, const struct text *text) {
  hypostyle_value value = hypostyle_value_of(type);
  value.scale = scale;
  value.integer = integer;
  value.high = high;
  value.number = number;
  /* An empty text has an address, too: NULL is none of the allowed ones. */
  value.data = text->bytes != NULL ? (const void *)text->bytes : "";
  value.length = text->length;
  return value;
}

NATIVE(void, bind)
(JNIEnv *env, jclass class, jlong statement, jint index, jint type, jint scale, jlong integer, jlong high,
 jdouble number, jbyteArray bytes) {
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, bytes, &text)) return;
  hypostyle_value value = value_of(type, scale, integer, high, number, &text);
  failed(env, library.hypostyle_bind(HANDLE(hypostyle_statement, statement), (size_t)index, &value, &error), &error);
  text_end(&text);
}

NATIVE(void, clearBindings)(JNIEnv *env, jclass class, jlong statement) {
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_clear_bindings(HANDLE(hypostyle_statement, statement), &error), &error);
}

NATIVE(jlong, executeStatement)(JNIEnv *env, jclass class, jlong statement) {
  hypostyle_result *result = NULL;
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_statement_execute(HANDLE(hypostyle_statement, statement), &result, &error), &error);
  return LONG(result);
}

NATIVE(void, freeStatement)(JNIEnv *env, jclass class, jlong handle) {
  hypostyle_statement *statement = HANDLE(hypostyle_statement, handle);
  (void)env, (void)class;
  library.hypostyle_statement_free(&statement);
}

NATIVE(jlong, openAppender)(JNIEnv *env, jclass class, jlong connection, jbyteArray table) {
  hypostyle_appender *appender = NULL;
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, table, &text)) return 0;
  failed(env, library.hypostyle_appender_open(HANDLE(hypostyle_connection, connection), (const char *)text.bytes,
                                              text.length, &appender, &error), &error);
  text_end(&text);
  return LONG(appender);
}

NATIVE(void, appendValue)
(JNIEnv *env, jclass class, jlong appender, jint type, jint scale, jlong integer, jlong high, jdouble number,
 jbyteArray bytes) {
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, bytes, &text)) return;
  hypostyle_value value = value_of(type, scale, integer, high, number, &text);
  failed(env, library.hypostyle_appender_value(HANDLE(hypostyle_appender, appender), &value, &error), &error);
  text_end(&text);
}

NATIVE(void, endRow)(JNIEnv *env, jclass class, jlong appender) {
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_appender_end_row(HANDLE(hypostyle_appender, appender), &error), &error);
}

NATIVE(jlong, finishAppender)(JNIEnv *env, jclass class, jlong appender) {
  uint64_t rows = 0;
  hypostyle_error *error = NULL;
  (void)class;
  failed(env, library.hypostyle_appender_finish(HANDLE(hypostyle_appender, appender), &rows, &error), &error);
  return (jlong)rows;
}

NATIVE(void, freeAppender)(JNIEnv *env, jclass class, jlong handle) {
  hypostyle_appender *appender = HANDLE(hypostyle_appender, handle);
  (void)env, (void)class;
  library.hypostyle_appender_free(&appender);
}
