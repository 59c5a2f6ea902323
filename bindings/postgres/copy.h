/* What the C half shares: a COPY while it runs, and its fields.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef HYPOSTYLE_COPY_H
#define HYPOSTYLE_COPY_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "postgres.h"

#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "tcop/dest.h"
#include "utils/memutils.h"
#pragma GCC diagnostic pop

#include "hypostyle_encoder.h"

#if PG_VERSION_NUM < 150000
#error "PostgreSQL 15 or newer is needed"
#endif
#ifndef USE_FLOAT8_BYVAL
#error "a machine of 64 bits is needed"
#endif

/* The longest body of a frame unless the client says another. */
#define FRAME_BYTES (256 << 20)

/* The digits of the longest decimal number. */
#define DECIMAL_DIGITS_MAX 76

/* What becomes of a numeric whose type does not say precision and scale. */
typedef enum
{
  NUMERIC_TEXT,
  NUMERIC_AUTO, /* a decimal where the query tells its digits, else text */
  NUMERIC_DOUBLE,
  NUMERIC_DECIMAL
} Numerics;

typedef struct
{
  HypostyleOptions encoder;
  Numerics numerics;
  int precision;
  int scale;
  /* What the query tells of its columns, if that is asked for. */
  int32 *modifiers;
  int modifier_count;
} Options;

/* How a value is put into its array. */
typedef enum
{
  PUT_BYTE,
  PUT_SHORT,
  PUT_INT,
  PUT_LONG,
  PUT_DECIMAL,
  PUT_DOUBLE_OF_NUMERIC,
  PUT_DATE,
  PUT_TIME,
  PUT_TIMESTAMP,
  PUT_INTERVAL,
  PUT_UUID,
  PUT_CODE,
  PUT_STRUCT,
  /* Those that have ends. */
  PUT_TEXT,
  PUT_BYTES,
  PUT_SENT,
  PUT_NAME,
  PUT_OUTPUT,
  PUT_LABEL,
  PUT_LIST
} Put;

/* A value of an enumeration. */
typedef struct
{
  Oid oid;
  int code;
  char *label; /* in the server's encoding */
} Label;

/* A field: a column, or what is within a list or struct. */
typedef struct FieldNode
{
  int field;
  Put put;
  const char *column; /* the name for errors */
  Oid type;
  size_t width;    /* bytes of an element, with those of the fields within a struct */
  FmgrInfo output; /* or the function that sends it */
  Label *labels; /* by their oids */
  int label_count;
  /* Of a list. */
  struct FieldNode *element;
  int16 length;
  bool by_value;
  char align;
  /* Of a struct: a node for each attribute that was not dropped. */
  TupleDesc attributes;
  struct FieldNode **members;
  uint64 *version; /* of the type, as the cache of types numbers what it has read */
} FieldNode;

/* A COPY while it runs. */
typedef struct
{
  DestReceiver receiver;
  MemoryContext memory;
  MemoryContext row; /* for what a row needs meanwhile */
  MemoryContextCallback callback;
  HypostyleEncoder *encoder;
  HypostyleArray *arrays;
  HypostyleRoom room;
  HypostyleFailure failure;
  Options options;
  HypostyleField *fields;
  int field_count;
  int field_room;
  int column_count;
  FieldNode **columns;
  bool converts; /* the server's encoding is not UTF-8 */
  size_t rows;   /* of the chunk */
  size_t bytes;
  size_t before; /* the bytes of the rows before this one */
  bool relays;   /* workers encode: what comes are chunks */
  uint64 relayed; /* the rows in them */
} Copy;

/* Raises the encoder's error. */
extern void fail(Copy *copy);

static inline void
check(Copy *copy, bool is_done)
{
  if (unlikely(!is_done))
    fail(copy);
}

/* A COPY in a memory context of its own, which frees the Rust half with it. */
extern Copy *make_copy(const Options *options);

/* Says how columns are sent. Names are those of the descriptor unless others are given. */
extern void describe_columns(Copy *copy, TupleDesc columns, const List *names);

/* Makes the Rust half for columns that were described. */
extern void open_encoder(Copy *copy);

/* Puts a row behind those that are there; true if they are a chunk. */
extern bool add_row(Copy *copy, TupleTableSlot *slot);

/* Encodes the rows that are there. */
extern void encode_rows(Copy *copy);

/* The modifier of a column's type: its own, or that which the query tells. */
extern int32 modifier(const Copy *copy, Form_pg_attribute column, int number);

/* What lets the workers of a parallel query encode. */
extern bool encode_in_workers;
extern void register_workers(void);
extern bool workers_may_encode(const Copy *copy, const PlannedStmt *plan);
extern void let_workers_encode(const Copy *copy, PlannedStmt *plan, TupleDesc columns);

/* Says how values of a type are sent, and adds the field, with those within it. */
extern FieldNode *describe(Copy *copy, const char *column, const char *name, Oid type, int32 typmod,
                           int depth);

/* Says how many bytes an element has, when the arrays are there. */
extern size_t measure(const Copy *copy, FieldNode *node);

/* Put a value, or a NULL, behind those of a field. */
extern void put_value(Copy *copy, const FieldNode *node, Datum value);
extern void put_null(Copy *copy, const FieldNode *node);

/* Finds the modifiers of a query's numerics that have none. */
extern int32 *find_modifiers(const Query *query, int *count);

/* Compares labels by their oids. */
extern int compare_labels(const void *one, const void *other);

#endif
