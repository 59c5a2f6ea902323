/* Results: their columns as one text of bytes, their batches as addresses of Arrow's buffers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "glue.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that grow. */
struct writer {
  uint8_t *bytes;
  size_t length, room;
  int is_short; /* memory was refused */
};

static void put(struct writer *writer, const void *bytes, size_t length) {
  if (writer->is_short) return;
  if (writer->room - writer->length < length) {
    size_t room = 2 * writer->room + length + 256;
    uint8_t *grown = realloc(writer->bytes, room);
    if (grown == NULL) {
      writer->is_short = 1;
      return;
    }
    writer->bytes = grown;
    writer->room = room;
  }
  if (length > 0) memcpy(writer->bytes + writer->length, bytes, length);
  writer->length += length;
}

static void put_int(struct writer *writer, int32_t number) { put(writer, &number, sizeof number); }

static void put_text(struct writer *writer, const char *text, size_t length) {
  put_int(writer, (int32_t)length);
  put(writer, text, length);
}

/* The bytes of an Arrow schema's metadata: a count, and keys and values with their lengths. */
static size_t metadata_length(const char *metadata) {
  const char *at = metadata;
  int32_t count, length;
  if (metadata == NULL) return 0;
  memcpy(&count, at, sizeof count);
  at += sizeof count;
  for (int64_t part = 0; part < 2 * (int64_t)count; part++) {
    memcpy(&length, at, sizeof length);
    at += sizeof length + (size_t)length;
  }
  return (size_t)(at - metadata);
}

/* A node is its format, name, metadata and flags, its children, and its dictionary if it has one. */
static void put_node(struct writer *writer, const struct ArrowSchema *schema) {
  put_text(writer, schema->format, strlen(schema->format));
  put_text(writer, schema->name, schema->name == NULL ? 0 : strlen(schema->name));
  put_text(writer, schema->metadata, metadata_length(schema->metadata));
  put_int(writer, (int32_t)schema->flags);
  put_int(writer, (int32_t)schema->n_children);
  put_int(writer, schema->dictionary != NULL);
  for (int64_t child = 0; child < schema->n_children; child++) put_node(writer, schema->children[child]);
  if (schema->dictionary != NULL) put_node(writer, schema->dictionary);
}

static jbyteArray written(JNIEnv *env, struct writer *writer) {
  jbyteArray array = NULL;
  if (writer->is_short)
    refuse(env, HYPOSTYLE_OUT_OF_MEMORY, "53200", "no memory for the description of the columns");
  else
    array = bytes_of(env, writer->bytes, writer->length);
  free(writer->bytes);
  return array;
}

NATIVE(jint, columns)(JNIEnv *env, jclass class, jlong result) {
  (void)env, (void)class;
  return (jint)library.hypostyle_result_columns(HANDLE(hypostyle_result, result));
}

/* The schema as nodes, and behind them each column's type, precision, scale, nullability, and its type's name. */
NATIVE(jbyteArray, describe)(JNIEnv *env, jclass class, jlong handle) {
  hypostyle_result *result = HANDLE(hypostyle_result, handle);
  struct writer writer = {NULL, 0, 0, 0};
  struct ArrowSchema schema;
  hypostyle_error *error = NULL;
  (void)class;
  memset(&schema, 0, sizeof schema);
  if (failed(env, library.hypostyle_result_schema(result, &schema, &error), &error)) return NULL;
  put_node(&writer, &schema);
  schema.release(&schema);
  size_t columns = library.hypostyle_result_columns(result);
  for (size_t index = 0; index < columns; index++) {
    hypostyle_column column;
    memset(&column, 0, sizeof column);
    column.size = sizeof column;
    if (failed(env, library.hypostyle_result_column(result, index, &column, &error), &error)) {
      free(writer.bytes);
      return NULL;
    }
    put_int(&writer, column.type);
    put_int(&writer, column.precision);
    put_int(&writer, column.scale);
    put_int(&writer, column.nullable);
    put_text(&writer, column.type_name, column.type_name_length);
  }
  return written(env, &writer);
}

/* The schema of a prepared statement's rows as nodes. */
NATIVE(jbyteArray, describeStatement)(JNIEnv *env, jclass class, jlong statement) {
  struct writer writer = {NULL, 0, 0, 0};
  struct ArrowSchema schema;
  hypostyle_error *error = NULL;
  (void)class;
  memset(&schema, 0, sizeof schema);
  if (failed(env, library.hypostyle_statement_schema(HANDLE(hypostyle_statement, statement), &schema, &error), &error))
    return NULL;
  put_node(&writer, &schema);
  schema.release(&schema);
  return written(env, &writer);
}

NATIVE(jlong, rowsAffected)(JNIEnv *env, jclass class, jlong result) {
  (void)env, (void)class;
  return library.hypostyle_result_rows_affected(HANDLE(hypostyle_result, result));
}

NATIVE(void, freeResult)(JNIEnv *env, jclass class, jlong handle) {
  hypostyle_result *result = HANDLE(hypostyle_result, handle);
  (void)env, (void)class;
  library.hypostyle_result_free(&result);
}

static size_t words_of(const struct ArrowArray *array) {
  size_t words = 4 + (size_t)array->n_buffers;
  for (int64_t child = 0; child < array->n_children; child++) words += words_of(array->children[child]);
  if (array->dictionary != NULL) words += words_of(array->dictionary);
  return words;
}

/* An array is its length, offset, number of NULLs and of buffers, the buffers, its children, its dictionary. */
static jlong *put_array(jlong *at, const struct ArrowArray *array) {
  *at++ = array->length;
  *at++ = array->offset;
  *at++ = array->null_count;
  *at++ = array->n_buffers;
  for (int64_t buffer = 0; buffer < array->n_buffers; buffer++) *at++ = LONG(array->buffers[buffer]);
  for (int64_t child = 0; child < array->n_children; child++) at = put_array(at, array->children[child]);
  if (array->dictionary != NULL) at = put_array(at, array->dictionary);
  return at;
}

/* The next batch: what releaseBatch() takes, and the arrays; NULL at the end. */
NATIVE(jlongArray, nextBatch)(JNIEnv *env, jclass class, jlong result) {
  hypostyle_error *error = NULL;
  jlongArray told = NULL;
  (void)class;
  struct ArrowArray *rows = calloc(1, sizeof *rows);
  if (rows == NULL) {
    refuse(env, HYPOSTYLE_OUT_OF_MEMORY, "53200", "no memory for the next rows");
    return NULL;
  }
  if (failed(env, library.hypostyle_result_next(HANDLE(hypostyle_result, result), rows, &error), &error) ||
      rows->release == NULL) {
    free(rows);
    return NULL;
  }
  size_t words = 1 + words_of(rows);
  jlong *all = malloc(words * sizeof *all);
  if (all == NULL) {
    refuse(env, HYPOSTYLE_OUT_OF_MEMORY, "53200", "no memory for the next rows");
  } else {
    all[0] = LONG(rows);
    put_array(all + 1, rows);
    told = (*env)->NewLongArray(env, (jsize)words);
    if (told != NULL) (*env)->SetLongArrayRegion(env, told, 0, (jsize)words, all);
    free(all);
  }
  if (told == NULL) {
    rows->release(rows);
    free(rows);
  }
  return told;
}

NATIVE(void, releaseBatch)(JNIEnv *env, jclass class, jlong batch) {
  struct ArrowArray *rows = HANDLE(struct ArrowArray, batch);
  (void)env, (void)class;
  /* A stream may have taken the rows. */
  if (rows->release != NULL) rows->release(rows);
  free(rows);
}

NATIVE(jobject, buffer)(JNIEnv *env, jclass class, jlong address, jlong length) {
  (void)class;
  return (*env)->NewDirectByteBuffer(env, HANDLE(void, address), length);
}

/* A stream that gives a batch that was fetched before, and then those of another stream. */
struct resumed {
  struct ArrowArray first;
  struct ArrowArrayStream rest;
};

static int resumed_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  struct resumed *resumed = stream->private_data;
  return resumed->rest.get_schema(&resumed->rest, out);
}

static int resumed_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  struct resumed *resumed = stream->private_data;
  if (resumed->first.release == NULL) return resumed->rest.get_next(&resumed->rest, out);
  *out = resumed->first;
  resumed->first.release = NULL;
  return 0;
}

static const char *resumed_error(struct ArrowArrayStream *stream) {
  struct resumed *resumed = stream->private_data;
  return resumed->rest.get_last_error(&resumed->rest);
}

static void resumed_release(struct ArrowArrayStream *stream) {
  struct resumed *resumed = stream->private_data;
  if (resumed->first.release != NULL) resumed->first.release(&resumed->first);
  resumed->rest.release(&resumed->rest);
  free(resumed);
  stream->release = NULL;
}

/* Moves a batch, which may be 0, and the rows that are left into the ArrowArrayStream at an address. */
NATIVE(void, stream)(JNIEnv *env, jclass class, jlong result, jlong batch, jlong address) {
  struct ArrowArrayStream *stream = HANDLE(struct ArrowArrayStream, address);
  struct ArrowArray *rows = HANDLE(struct ArrowArray, batch);
  hypostyle_error *error = NULL;
  (void)class;
  struct resumed *resumed = calloc(1, sizeof *resumed);
  if (resumed == NULL) {
    refuse(env, HYPOSTYLE_OUT_OF_MEMORY, "53200", "no memory for a stream");
  } else if (failed(env, library.hypostyle_result_stream(HANDLE(hypostyle_result, result), &resumed->rest, &error),
                    &error)) {
    free(resumed);
  } else {
    if (rows != NULL) {
      resumed->first = *rows;
      rows->release = NULL;
    }
    stream->get_schema = resumed_schema;
    stream->get_next = resumed_next;
    stream->get_last_error = resumed_error;
    stream->release = resumed_release;
    stream->private_data = resumed;
  }
}

/* Appends the ArrowArrayStream at an address, which is moved, to a table. */
NATIVE(jlong, append)(JNIEnv *env, jclass class, jlong connection, jbyteArray table, jlong stream, jint flags) {
  uint64_t rows = 0;
  hypostyle_error *error = NULL;
  struct text text;
  (void)class;
  if (!text_begin(env, table, &text)) return 0;
  failed(env, library.hypostyle_append(HANDLE(hypostyle_connection, connection), (const char *)text.bytes, text.length,
                                       HANDLE(struct ArrowArrayStream, stream), (uint32_t)flags, &rows, &error),
         &error);
  text_end(&text);
  return (jlong)rows;
}
