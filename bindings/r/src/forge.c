/* Ordinary vectors of R whose values are a mapping of the column's file.
 *
 * R writes the header of a vector in front of its values, and lets an allocator say where both are. So
 * an address range is reserved that has a page for the header, and the column is mapped behind it. The
 * mapping is copy-on-write: what R writes into it stays with R. Packages that want ordinary vectors, as
 * data.table, take such a one without a copy. R 4.6 has no allocators; there vectors are those of
 * altrep.c. */
#include "glue.h"
#include <Rversion.h>
#include <string.h>

#if R_VERSION < R_Version(4, 6, 0) && defined(__linux__)

#include <R_ext/Rallocators.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Below this number of bytes a copy is quicker. */
#define FORGED_BYTES 65536

static int forged_count;
static size_t page;
static size_t header; /* bytes from what an allocator returns to the values */

static void *probe_memory;

static void *probe_alloc(R_allocator_t *allocator, size_t size) {
  (void)allocator;
  probe_memory = malloc(size);
  return probe_memory;
}

static void probe_free(R_allocator_t *allocator, void *memory) {
  (void)allocator;
  free(memory);
}

/* Measures the header, which differs between builds of R. */
static bool is_possible(void) {
  if (page != 0) return header != 0;
  page = (size_t)sysconf(_SC_PAGESIZE);
  R_allocator_t allocator = {probe_alloc, probe_free, NULL, NULL};
  SEXP probe = PROTECT(Rf_allocVector3(REALSXP, 1000, &allocator));
  size_t measured = probe_memory == NULL ? 0 : (size_t)((char *)REAL(probe) - (char *)probe_memory);
  if (measured > 0 && measured < page) header = measured;
  UNPROTECT(1);
  return header != 0;
}

/* What is reserved: the page of the header, and pages for the values. */
typedef struct {
  char *begin;
  size_t bytes;
} range;

static void *forged_alloc(R_allocator_t *allocator, size_t size) {
  (void)size;
  const range *reserved = allocator->data;
  forged_count++;
  return reserved->begin + page - header;
}

/* The header keeps a copy of the allocator, but not of what its data points to. So the size lies at
 * the start of the header's page. */
static void forged_free(R_allocator_t *allocator, void *memory) {
  (void)allocator;
  char *begin = (char *)memory + header - page;
  size_t bytes;
  memcpy(&bytes, begin, sizeof bytes);
  munmap(begin, bytes);
  forged_count--;
}

static bool reserve(range *reserved, size_t values) {
  reserved->bytes = page + (values + page - 1) / page * page;
  void *begin = mmap(NULL, reserved->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return false;
  reserved->begin = begin;
  memcpy(begin, &reserved->bytes, sizeof reserved->bytes);
  return true;
}

SEXP hs_forged(SEXP result, size_t index, const hs_column *column) {
  const hypostyle_values *values = &column->values;
  size_t bytes = (size_t)values->count * values->width;
  bool is_wanted = column->is_direct && !column->is_patched && (values->flags & HYPOSTYLE_VALUES_MAPPED) != 0 &&
                   bytes >= FORGED_BYTES && Rf_asLogical(Rf_GetOption1(Rf_install("hypostyle.forge"))) != FALSE;
  if (!is_wanted || !is_possible()) return R_NilValue;
  range reserved;
  if (!reserve(&reserved, bytes)) {
    /* Vectors that R has forgotten but not yet freed may use up what a process may have. */
    R_gc();
    if (!reserve(&reserved, bytes)) return R_NilValue;
  }
  /* The reserved range belongs to the vector from here on. */
  R_allocator_t allocator = {forged_alloc, forged_free, NULL, &reserved};
  SEXP vector = PROTECT(Rf_allocVector3(hs_type_of(column->target), (R_xlen_t)values->count, &allocator));
  int32_t is_mapped = 0;
  hypostyle_error *error = NULL;
  hypostyle_status status = hypostyle_result_map(hs_result_of(result), index, reserved.begin + page,
                                                 reserved.bytes - page, &is_mapped, &error);
  if (status != HYPOSTYLE_OK) hypostyle_error_free(&error);
  UNPROTECT(1);
  return status == HYPOSTYLE_OK && is_mapped ? vector : R_NilValue;
}

SEXP hs_forged_count(void) { return Rf_ScalarInteger(forged_count); }

#else

SEXP hs_forged(SEXP result, size_t index, const hs_column *column) {
  (void)result, (void)index, (void)column;
  return R_NilValue;
}

SEXP hs_forged_count(void) { return Rf_ScalarInteger(NA_INTEGER); }

#endif
