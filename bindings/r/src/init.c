/* What R calls. */
#include "glue.h"

#define CALL(name, count) {#name, (DL_FUNC)(void (*)(void))&name, count}

static const R_CallMethodDef calls[] = {
    CALL(hs_version, 0),
    CALL(hs_open, 2),
    CALL(hs_close, 1),
    CALL(hs_connect, 1),
    CALL(hs_disconnect, 1),
    CALL(hs_is_valid, 1),
    CALL(hs_transaction_state, 1),
    CALL(hs_session_id, 1),
    CALL(hs_progress, 1),
    CALL(hs_commit, 1),
    CALL(hs_rollback, 1),
    CALL(hs_prepare, 2),
    CALL(hs_bind_values, 3),
    CALL(hs_bind_rows, 3),
    CALL(hs_statement_execute, 3),
    CALL(hs_statement_free, 1),
    CALL(hs_result_info, 1),
    CALL(hs_result_free, 1),
    CALL(hs_result_load, 3),
    CALL(hs_result_vectors, 6),
    CALL(hs_append, 4),
    CALL(hs_is_lazy, 1),
    CALL(hs_forged_count, 0),
    {NULL, NULL, 0},
};

void R_init_hypostyle(DllInfo *library) {
  R_registerRoutines(library, NULL, calls, NULL, NULL);
  R_useDynamicSymbols(library, FALSE);
  R_forceSymbols(library, TRUE);
  hs_init_altrep(library);
}
