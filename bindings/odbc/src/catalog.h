/* What the files of catalog functions share: names that calls are given, and parts of queries.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CATALOG_H
#define CATALOG_H

#include "driver.h"

enum { ARGUMENTS = 6 };

/* Names that a call was given, in UTF-8, or NULL. */
typedef struct {
  char *text[ARGUMENTS];
} names;

typedef struct {
  const SQLWCHAR *text;
  SQLSMALLINT length;
} name_given;

/* A fact of a column's type, which SQLColumns and SQLSpecialColumns tell. */
typedef enum { FACT_TYPE, FACT_SIZE, FACT_OCTETS, FACT_VERBOSE, FACT_SUBCODE, FACT_RADIX, FACT_NAME } fact;

SQLRETURN read_names(statement *s, const name_given *given, int count, names *out);
void free_names(names *n);
/* Runs a query and frees its text. */
SQLRETURN run_query(statement *s, builder *sql);
/* Returns the name, or NULL if it is empty, which says nothing. */
const char *unless_empty(const char *name);
/* Each adds a condition on a column; none for NULL. */
void add_pattern(const statement *s, builder *b, const char *column, const char *pattern);
void add_name(const statement *s, builder *b, const char *column, const char *name);
/* Adds CASE data_type WHEN … as a column. */
void add_fact(const statement *s, builder *b, fact wanted, const char *cast, const char *name);

#endif
