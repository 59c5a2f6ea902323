/* What the parts of the glue share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HYPOSTYLE_JNI_GLUE_H
#define HYPOSTYLE_JNI_GLUE_H

#include "library.h"

#include <jni.h>

/* The name of a native method of org.hypostyle.jdbc.Native. */
#define NATIVE(type, name) JNIEXPORT type JNICALL Java_org_hypostyle_jdbc_Native_##name

/* Handles travel as longs. */
#define HANDLE(type, handle) ((type *)(intptr_t)(handle))
#define LONG(pointer) ((jlong)(intptr_t)(pointer))

/* The bytes of a Java array, which are a copy; length 0 for NULL. */
struct text {
  JNIEnv *env;
  jbyteArray array;
  jbyte *bytes;
  size_t length;
};

/* Copies an array. Returns 0 when an exception is pending. */
int text_begin(JNIEnv *env, jbyteArray array, struct text *text);

/* Frees the copy. */
void text_end(struct text *text);

/* Returns bytes as an array of Java's; NULL for NULL, and with an exception pending. */
jbyteArray bytes_of(JNIEnv *env, const void *bytes, size_t length);

/* Throws what an error says, and frees it. Returns whether the call had failed. */
int failed(JNIEnv *env, hypostyle_status status, hypostyle_error **error);

/* Throws an SQLException of the driver's own with a status, an SQLSTATE and a message. */
void refuse(JNIEnv *env, hypostyle_status status, const char *sqlstate, const char *message);

#endif
