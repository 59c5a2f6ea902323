/* Opens the library and finds its functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>

struct hypostyle_jni_library library;

static char *refusal(const char *what, const char *why) {
  char *text = NULL;
  return asprintf(&text, "%s: %s", what, why) < 0 ? NULL : text;
}

char *hypostyle_jni_load(const char *path) {
  struct hypostyle_jni_library found;
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return refusal("the library cannot be loaded", dlerror());
#define HYPOSTYLE_JNI_FIND(name)                   \
  found.name = (__typeof__(name) *)dlsym(handle, #name); \
  if (found.name == NULL) return refusal(path, "it has no function " #name);
  HYPOSTYLE_JNI_FUNCTIONS(HYPOSTYLE_JNI_FIND)
  if (found.hypostyle_abi() < HYPOSTYLE_ABI) return refusal(path, "the library is older than the driver");
  library = found;
  return NULL;
}
