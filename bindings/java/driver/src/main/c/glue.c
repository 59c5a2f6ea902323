/* Texts and errors between Java and C.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "glue.h"

#include <string.h>

/* Native.error(int, byte[], byte[], byte[], long), which makes an SQLException. */
static jclass native_class;
static jmethodID error_method;

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  JNIEnv *env = NULL;
  (void)reserved;
  if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
  jclass found = (*env)->FindClass(env, "org/hypostyle/jdbc/Native");
  if (found == NULL) return JNI_ERR;
  error_method = (*env)->GetStaticMethodID(env, found, "error", "(I[B[B[BJ)Ljava/sql/SQLException;");
  if (error_method == NULL) return JNI_ERR;
  /* Weak, so that the class and its loader can be unloaded; the class is there while its methods run. */
  native_class = (*env)->NewWeakGlobalRef(env, found);
  return native_class == NULL ? JNI_ERR : JNI_VERSION_1_8;
}

JNIEXPORT void JNICALL JNI_OnUnload(JavaVM *vm, void *reserved) {
  JNIEnv *env = NULL;
  (void)reserved;
  if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_8) == JNI_OK) (*env)->DeleteWeakGlobalRef(env, native_class);
}

int text_begin(JNIEnv *env, jbyteArray array, struct text *text) {
  memset(text, 0, sizeof *text);
  if (array == NULL) return 1;
  text->env = env;
  text->array = array;
  text->length = (size_t)(*env)->GetArrayLength(env, array);
  text->bytes = (*env)->GetByteArrayElements(env, array, NULL);
  return text->bytes != NULL;
}

void text_end(struct text *text) {
  if (text->bytes != NULL) (*text->env)->ReleaseByteArrayElements(text->env, text->array, text->bytes, JNI_ABORT);
}

jbyteArray bytes_of(JNIEnv *env, const void *bytes, size_t length) {
  if (bytes == NULL) return NULL;
  jbyteArray array = (*env)->NewByteArray(env, (jsize)length);
  if (array != NULL) (*env)->SetByteArrayRegion(env, array, 0, (jsize)length, bytes);
  return array;
}

static jbyteArray text_of(JNIEnv *env, const char *text) { return bytes_of(env, text, text == NULL ? 0 : strlen(text)); }

static void throw_error(JNIEnv *env, hypostyle_status status, const char *sqlstate, const char *message,
                        const char *detail, uint64_t position) {
  jbyteArray state = text_of(env, sqlstate), said = text_of(env, message), more = text_of(env, detail);
  if ((*env)->ExceptionCheck(env)) return;
  jthrowable error = (*env)->CallStaticObjectMethod(env, native_class, error_method, (jint)status, state, said, more,
                                                    (jlong)position);
  if (error != NULL && !(*env)->ExceptionCheck(env)) (*env)->Throw(env, error);
}

int failed(JNIEnv *env, hypostyle_status status, hypostyle_error **error) {
  if (status == HYPOSTYLE_OK) return 0;
  throw_error(env, status, library.hypostyle_error_sqlstate(*error), library.hypostyle_error_message(*error),
              library.hypostyle_error_detail(*error), library.hypostyle_error_position(*error));
  library.hypostyle_error_free(error);
  return 1;
}

void refuse(JNIEnv *env, hypostyle_status status, const char *sqlstate, const char *message) {
  throw_error(env, status, sqlstate, message, NULL, 0);
}
