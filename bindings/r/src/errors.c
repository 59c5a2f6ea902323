/* Errors of the library as conditions of R. */
#include "glue.h"
#include <string.h>

SEXP hs_text(const char *text, size_t length) {
  SEXP string = PROTECT(Rf_mkCharLenCE(text, (int)length, CE_UTF8));
  SEXP vector = Rf_ScalarString(string);
  UNPROTECT(1);
  return vector;
}

static SEXP text_or_null(const char *text) {
  return text == NULL ? R_NilValue : hs_text(text, strlen(text));
}

void hs_raise(hypostyle_error **error) {
  /* The error belongs to a pointer while R allocates. */
  SEXP message = PROTECT(text_or_null(hypostyle_error_message(*error)));
  SEXP sqlstate = PROTECT(text_or_null(hypostyle_error_sqlstate(*error)));
  SEXP detail = PROTECT(text_or_null(hypostyle_error_detail(*error)));
  SEXP status = PROTECT(Rf_ScalarInteger(hypostyle_error_status(*error)));
  SEXP position = PROTECT(Rf_ScalarReal((double)hypostyle_error_position(*error)));
  hypostyle_error_free(error);
  SEXP name = PROTECT(Rf_mkString("hypostyle"));
  SEXP find = PROTECT(Rf_lang2(Rf_install("getNamespace"), name));
  SEXP space = PROTECT(Rf_eval(find, R_BaseEnv));
  SEXP call = PROTECT(Rf_lang6(Rf_install("raise"), message, sqlstate, detail, status, position));
  Rf_eval(call, space);
  Rf_error("an error of the database was not raised");
}
