/* The functions of hypostyle.h as a table that is filled from a library opened at run time.
 *
 * The glue is not linked with the library: which one is used is known only when the driver starts, and
 * two class loaders may each load a copy of the glue over the same library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HYPOSTYLE_JNI_LIBRARY_H
#define HYPOSTYLE_JNI_LIBRARY_H

#include <hypostyle.h>

#define HYPOSTYLE_JNI_FUNCTIONS(FUNCTION)    \
  FUNCTION(hypostyle_version)                \
  FUNCTION(hypostyle_abi)                    \
  FUNCTION(hypostyle_error_sqlstate)         \
  FUNCTION(hypostyle_error_message)          \
  FUNCTION(hypostyle_error_detail)           \
  FUNCTION(hypostyle_error_position)         \
  FUNCTION(hypostyle_error_free)             \
  FUNCTION(hypostyle_open)                   \
  FUNCTION(hypostyle_close)                  \
  FUNCTION(hypostyle_connect)                \
  FUNCTION(hypostyle_disconnect)             \
  FUNCTION(hypostyle_interrupt)              \
  FUNCTION(hypostyle_transaction_state)      \
  FUNCTION(hypostyle_session_id)             \
  FUNCTION(hypostyle_set_autocommit)         \
  FUNCTION(hypostyle_commit)                 \
  FUNCTION(hypostyle_rollback)               \
  FUNCTION(hypostyle_execute)                \
  FUNCTION(hypostyle_next_statement)         \
  FUNCTION(hypostyle_prepare)                \
  FUNCTION(hypostyle_statement_kind)         \
  FUNCTION(hypostyle_statement_parameters)   \
  FUNCTION(hypostyle_statement_parameter)    \
  FUNCTION(hypostyle_statement_parameter_index) \
  FUNCTION(hypostyle_statement_schema)       \
  FUNCTION(hypostyle_bind)                   \
  FUNCTION(hypostyle_bind_stream)            \
  FUNCTION(hypostyle_clear_bindings)         \
  FUNCTION(hypostyle_statement_execute)      \
  FUNCTION(hypostyle_statement_free)         \
  FUNCTION(hypostyle_result_columns)         \
  FUNCTION(hypostyle_result_column)          \
  FUNCTION(hypostyle_result_schema)          \
  FUNCTION(hypostyle_result_rows_affected)   \
  FUNCTION(hypostyle_result_next)            \
  FUNCTION(hypostyle_result_stream)          \
  FUNCTION(hypostyle_result_free)            \
  FUNCTION(hypostyle_append)                 \
  FUNCTION(hypostyle_appender_open)          \
  FUNCTION(hypostyle_appender_value)         \
  FUNCTION(hypostyle_appender_end_row)       \
  FUNCTION(hypostyle_appender_finish)        \
  FUNCTION(hypostyle_appender_free)

#define HYPOSTYLE_JNI_POINTER(name) __typeof__(name) *name;

/* The opened library; all pointers are NULL before hypostyle_jni_load() has succeeded. */
struct hypostyle_jni_library {
  HYPOSTYLE_JNI_FUNCTIONS(HYPOSTYLE_JNI_POINTER)
};

extern struct hypostyle_jni_library library;

/* Opens the library at a path and fills the table. Returns NULL, or why it could not, which the caller
 * frees. The library is never closed. */
char *hypostyle_jni_load(const char *path);

#endif
