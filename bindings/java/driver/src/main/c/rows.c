/* Rows of parameters: one batch of columns of Java's as an Arrow stream.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "glue.h"

#include <stdlib.h>
#include <string.h>

/* What an array or schema of ours owns besides its children. */
static void release_schema(struct ArrowSchema *schema) {
  for (int64_t child = 0; child < schema->n_children; child++) {
    struct ArrowSchema *at = schema->children[child];
    if (at->release != NULL) at->release(at);
    free(at);
  }
  free(schema->children);
  free((void *)schema->format);
  free((void *)schema->name);
  free((void *)schema->metadata);
  schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
  for (int64_t child = 0; child < array->n_children; child++) {
    struct ArrowArray *at = array->children[child];
    if (at->release != NULL) at->release(at);
    free(at);
  }
  for (int64_t buffer = 0; buffer < array->n_buffers; buffer++) free((void *)array->buffers[buffer]);
  free(array->children);
  free(array->buffers);
  array->release = NULL;
}

/* What Java gives: an element for each node, in the order of a walk from the top. */
struct nodes {
  JNIEnv *env;
  jobjectArray formats, names, metadata, buffers;
  jint *children;
  jlong *lengths, *null_counts;
  jsize next;
};

/* Copies an element, with NUL behind it; NULL for NULL. *is_whole becomes 0 when memory is refused. */
static void *copy(JNIEnv *env, jobjectArray arrays, jsize index, int *is_whole) {
  jbyteArray array = (*env)->GetObjectArrayElement(env, arrays, index);
  if (array == NULL) return NULL;
  jsize length = (*env)->GetArrayLength(env, array);
  char *copied = malloc((size_t)length + 64);
  if (copied == NULL) {
    *is_whole = 0;
  } else {
    (*env)->GetByteArrayRegion(env, array, 0, length, (jbyte *)copied);
    memset(copied + length, 0, 64);
  }
  (*env)->DeleteLocalRef(env, array);
  return copied;
}

/* Builds a node and its children. What is there when it fails is released by the top's release. */
static int build(struct nodes *nodes, struct ArrowSchema *schema, struct ArrowArray *array) {
  JNIEnv *env = nodes->env;
  jsize index = nodes->next++;
  int is_whole = 1;
  memset(schema, 0, sizeof *schema);
  memset(array, 0, sizeof *array);
  schema->release = release_schema;
  array->release = release_array;
  schema->format = copy(env, nodes->formats, index, &is_whole);
  schema->name = copy(env, nodes->names, index, &is_whole);
  schema->metadata = copy(env, nodes->metadata, index, &is_whole);
  schema->flags = ARROW_FLAG_NULLABLE;
  array->length = nodes->lengths[index];
  array->null_count = nodes->null_counts[index];

  jobjectArray buffers = (*env)->GetObjectArrayElement(env, nodes->buffers, index);
  jsize count = (*env)->GetArrayLength(env, buffers);
  array->buffers = calloc((size_t)count + 1, sizeof *array->buffers);
  if (array->buffers == NULL) return 0;
  array->n_buffers = count;
  for (jsize buffer = 0; buffer < count; buffer++) array->buffers[buffer] = copy(env, buffers, buffer, &is_whole);
  (*env)->DeleteLocalRef(env, buffers);

  jint children = nodes->children[index];
  schema->children = calloc((size_t)children + 1, sizeof *schema->children);
  array->children = calloc((size_t)children + 1, sizeof *array->children);
  if (schema->children == NULL || array->children == NULL) return 0;
  for (jint child = 0; child < children; child++) {
    struct ArrowSchema *inner_schema = calloc(1, sizeof *inner_schema);
    struct ArrowArray *inner_array = calloc(1, sizeof *inner_array);
    if (inner_schema == NULL || inner_array == NULL) {
      free(inner_schema);
      free(inner_array);
      return 0;
    }
    schema->children[schema->n_children++] = inner_schema;
    array->children[array->n_children++] = inner_array;
    if (!build(nodes, inner_schema, inner_array)) return 0;
  }
  return is_whole;
}

/* A stream of one batch. */
struct batch {
  struct ArrowSchema schema;
  struct ArrowArray rows;
};

/* Gives the schema away and leaves none: a stream of ours is asked once. */
static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  struct batch *batch = stream->private_data;
  *out = batch->schema;
  batch->schema.release = NULL;
  return 0;
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  struct batch *batch = stream->private_data;
  *out = batch->rows;
  batch->rows.release = NULL;
  return 0;
}

static const char *stream_error(struct ArrowArrayStream *stream) {
  (void)stream;
  return NULL;
}

static void stream_release(struct ArrowArrayStream *stream) {
  struct batch *batch = stream->private_data;
  if (batch->schema.release != NULL) batch->schema.release(&batch->schema);
  if (batch->rows.release != NULL) batch->rows.release(&batch->rows);
  free(batch);
  stream->release = NULL;
}

NATIVE(void, bindRows)
(JNIEnv *env, jclass class, jlong statement, jobjectArray formats, jobjectArray names, jobjectArray metadata,
 jintArray children, jlongArray lengths, jlongArray null_counts, jobjectArray buffers) {
  struct nodes nodes = {env, formats, names, metadata, buffers, NULL, NULL, NULL, 0};
  struct ArrowArrayStream stream = {stream_schema, stream_next, stream_error, stream_release, NULL};
  hypostyle_error *error = NULL;
  (void)class;
  struct batch *batch = calloc(1, sizeof *batch);
  nodes.children = (*env)->GetIntArrayElements(env, children, NULL);
  nodes.lengths = (*env)->GetLongArrayElements(env, lengths, NULL);
  nodes.null_counts = (*env)->GetLongArrayElements(env, null_counts, NULL);
  stream.private_data = batch;
  if (batch == NULL || nodes.children == NULL || nodes.lengths == NULL || nodes.null_counts == NULL ||
      !build(&nodes, &batch->schema, &batch->rows)) {
    if (batch != NULL) stream_release(&stream);
    if (!(*env)->ExceptionCheck(env)) refuse(env, HYPOSTYLE_OUT_OF_MEMORY, "53200", "no memory for rows of parameters");
  } else {
    failed(env, library.hypostyle_bind_stream(HANDLE(hypostyle_statement, statement), &stream, 0, &error), &error);
  }
  if (nodes.children != NULL) (*env)->ReleaseIntArrayElements(env, children, nodes.children, JNI_ABORT);
  if (nodes.lengths != NULL) (*env)->ReleaseLongArrayElements(env, lengths, nodes.lengths, JNI_ABORT);
  if (nodes.null_counts != NULL) (*env)->ReleaseLongArrayElements(env, null_counts, nodes.null_counts, JNI_ABORT);
}
