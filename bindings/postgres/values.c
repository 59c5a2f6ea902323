/* Values of PostgreSQL into the buffers of the Rust half.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
#pragma GCC diagnostic pop

/* The macros of arrays compare so. */
#pragma GCC diagnostic ignored "-Wsign-compare"

#define EPOCH_DAYS (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)

static pg_noinline void
refuse(const FieldNode *node, int sqlstate, const char *what, const char *hint)
{
  ereport(ERROR, (errcode(sqlstate), errmsg("column \"%s\": %s", node->column, what), errhint("%s", hint)));
}

/* Refuses a row that is longer than a frame may be, before memory is asked for it. Where its values are stored
 * they may be short: compressed, or without those that are NULL. */
static void
check_row(const Copy *copy, const FieldNode *node, size_t more)
{
  size_t most = Max(copy->options.encoder.frame_bytes, FRAME_BYTES);
  size_t bytes = copy->bytes - copy->before + more;

  if (unlikely(bytes > most))
    ereport(ERROR,
            (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
             errmsg("column \"%s\": a row of %zu bytes or more is longer than the %zu that a frame may have",
                    node->column, bytes, most)));
}

static pg_noinline void
make_room(Copy *copy, const FieldNode *node, size_t bytes)
{
  check_row(copy, node, bytes);
  check(copy, hypostyle_encoder_reserve(copy->encoder, node->field, 1, bytes, &copy->failure));
}

/* The array of a field, with room for another element. */
static inline HypostyleArray *
place(Copy *copy, const FieldNode *node, size_t bytes)
{
  HypostyleArray *array = &copy->arrays[node->field];

  if (unlikely(array->length >= array->capacity || bytes > array->bytes_capacity - array->bytes_length))
    make_room(copy, node, bytes);
  return array;
}

/* Frees what a value was made whole for. A row may have many such, and a list more. */
static inline void
free_copy(void *whole, Datum value)
{
  if ((Pointer) whole != DatumGetPointer(value))
    pfree(whole);
}

static inline void
put_end(HypostyleArray *array, size_t end)
{
  ((int64 *) array->values)[++array->length] = (int64) end;
}

static void
put_bytes(Copy *copy, const FieldNode *node, const char *bytes, size_t length)
{
  HypostyleArray *array = place(copy, node, length);

  if (length > 0)
    memcpy(array->bytes + array->bytes_length, bytes, length);
  array->bytes_length += length;
  copy->bytes += length;
  put_end(array, array->bytes_length);
}

static void
put_text(Copy *copy, const FieldNode *node, const char *text, size_t length)
{
  if (copy->converts)
  {
    char *converted = pg_server_to_any(text, (int) length, PG_UTF8);

    if (converted != text)
    {
      put_bytes(copy, node, converted, strlen(converted));
      pfree(converted);
      return;
    }
  }
  put_bytes(copy, node, text, length);
}

void
put_null(Copy *copy, const FieldNode *node)
{
  HypostyleArray *array = place(copy, node, 0);
  size_t at = array->length;

  array->validity[at / 8] &= (uint8) ~(1 << at % 8);
  array->nulls++;
  if (node->put >= PUT_TEXT)
  {
    put_end(array, (size_t) ((int64 *) array->values)[at]);
    return;
  }
  if (array->width > 0)
    memset(array->values + at * array->width, node->put == PUT_CODE ? 0xff : 0, array->width);
  array->length++;
  if (node->put == PUT_STRUCT)
    for (int i = 0; i < node->attributes->natts; i++)
      if (node->members[i] != NULL)
        put_null(copy, node->members[i]);
}

static void
put_decimal(Copy *copy, const FieldNode *node, Datum value)
{
  HypostyleArray *array = place(copy, node, 0);
  struct varlena *numeric = PG_DETOAST_DATUM_PACKED(value);
  const char *otherwise = "Cast the column to text or to double precision.";

  switch (hypostyle_encoder_decimal(copy->encoder, node->field, VARDATA_ANY(numeric),
                                    VARSIZE_ANY_EXHDR(numeric)))
  {
    case HYPOSTYLE_FITS:
      array->length++;
      return;
    case HYPOSTYLE_NOT_A_NUMBER:
      refuse(node, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "NaN does not fit a decimal number", otherwise);
      return;
    case HYPOSTYLE_INFINITE:
      refuse(node, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "infinity does not fit a decimal number", otherwise);
      return;
    case HYPOSTYLE_TOO_MANY_DIGITS:
      refuse(node, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
             psprintf("%s has more digits than the column's type",
                      DatumGetCString(DirectFunctionCall1(numeric_out, PointerGetDatum(numeric)))),
             "Cast the column to a numeric type of precision and scale, or to text.");
      return;
    default:
      refuse(node, ERRCODE_DATA_CORRUPTED, "a value is no numeric", otherwise);
  }
}

static void
put_date(Copy *copy, const FieldNode *node, DateADT date)
{
  HypostyleArray *array = place(copy, node, 0);

  if (unlikely(DATE_NOT_FINITE(date)))
    refuse(node, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, "an infinite date has no number of days",
           "Cast the column to text, or replace such dates: nullif(column, 'infinity').");
  ((int32 *) array->values)[array->length++] = date + EPOCH_DAYS;
}

static void
put_time(Copy *copy, const FieldNode *node, TimeADT time)
{
  HypostyleArray *array = place(copy, node, 0);

  if (unlikely(time >= USECS_PER_DAY))
    refuse(node, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, "the time 24:00:00 is that of no day",
           "Cast the column to text, or replace such times: nullif(column, '24:00').");
  ((int64 *) array->values)[array->length++] = time;
}

static void
put_timestamp(Copy *copy, const FieldNode *node, Timestamp timestamp)
{
  HypostyleArray *array = place(copy, node, 0);
  int64 since_1970;

  if (unlikely(TIMESTAMP_NOT_FINITE(timestamp)))
    refuse(node, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, "an infinite timestamp has no number of microseconds",
           "Cast the column to text, or replace such timestamps: nullif(column, 'infinity').");
  if (unlikely(pg_add_s64_overflow(timestamp, EPOCH_DAYS * USECS_PER_DAY, &since_1970)))
    refuse(node, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE,
           "a timestamp is more microseconds after 1970 than 64 bits hold", "Cast the column to text.");
  ((int64 *) array->values)[array->length++] = since_1970;
}

static void
put_interval(Copy *copy, const FieldNode *node, const Interval *interval)
{
  HypostyleArray *array = place(copy, node, 0);
  uint8 *to = array->values + array->length * array->width;
  int64 nanoseconds;

#ifdef INTERVAL_NOT_FINITE
  if (unlikely(INTERVAL_NOT_FINITE(interval)))
    refuse(node, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE, "an infinite interval has no length",
           "Cast the column to text, or replace such intervals: nullif(column, 'infinity').");
#endif
  if (unlikely(pg_mul_s64_overflow(interval->time, 1000, &nanoseconds)))
    refuse(node, ERRCODE_INTERVAL_FIELD_OVERFLOW,
           "the time of an interval is more nanoseconds than 64 bits hold",
           "Cast the column to text, or take days out of the time with justify_hours().");
  memcpy(to, &interval->month, 4);
  memcpy(to + 4, &interval->day, 4);
  memcpy(to + 8, &nanoseconds, 8);
  array->length++;
}

int
compare_labels(const void *one, const void *other)
{
  Oid a = ((const Label *) one)->oid;
  Oid b = ((const Label *) other)->oid;

  return (a > b) - (a < b);
}

static const Label *
find_label(const FieldNode *node, Oid oid)
{
  Label key = {.oid = oid};
  const Label *label = bsearch(&key, node->labels, node->label_count, sizeof(Label), compare_labels);

  if (label == NULL)
    refuse(node, ERRCODE_INVALID_BINARY_REPRESENTATION, "a value was added to the enumeration meanwhile",
           "Run the statement again.");
  return label;
}

static void
put_code(Copy *copy, const FieldNode *node, Oid oid)
{
  HypostyleArray *array = place(copy, node, 0);
  int code = find_label(node, oid)->code;
  uint8 *to = array->values + array->length++ * array->width;

  if (array->width == 1)
    *(int8 *) to = (int8) code;
  else if (array->width == 2)
    *(int16 *) to = (int16) code;
  else
    *(int32 *) to = code;
}

static void
put_list(Copy *copy, const FieldNode *node, Datum value)
{
  ArrayType *list = DatumGetArrayTypeP(value);
  const FieldNode *element = node->element;
  const char *at = ARR_DATA_PTR(list);
  const bits8 *mask = ARR_NULLBITMAP(list);
  int count;
  HypostyleArray *array;

  if (ARR_NDIM(list) > 1)
    refuse(node, ERRCODE_FEATURE_NOT_SUPPORTED, "an array of several dimensions is no list",
           "Cast the column to text, or use to_json().");
  if (ARR_ELEMTYPE(list) != element->type)
    refuse(node, ERRCODE_DATATYPE_MISMATCH, "an array has elements of another type",
           "Cast the column to text.");
  count = ARR_NDIM(list) == 0 ? 0 : ARR_DIMS(list)[0];
  check_row(copy, node, (size_t) count * element->width);
  copy->bytes += (size_t) count * element->width;
  for (int i = 0; i < count; i++)
  {
    if (i % 1024 == 0)
      CHECK_FOR_INTERRUPTS();
    if (mask != NULL && !(mask[i / 8] & (1 << i % 8)))
    {
      put_null(copy, element);
      continue;
    }
    put_value(copy, element, fetch_att(at, node->by_value, node->length));
    at = att_addlength_pointer(at, node->length, at);
    at = (const char *) att_align_nominal(at, node->align);
  }
  array = place(copy, node, 0);
  put_end(array, copy->arrays[element->field].length);
  free_copy(list, value);
}

static bool
is_same_type(TupleDesc one, TupleDesc other)
{
  if (one->natts != other->natts)
    return false;
  for (int i = 0; i < one->natts; i++)
    if (TupleDescAttr(one, i)->atttypid != TupleDescAttr(other, i)->atttypid)
      return false;
  return true;
}

/* Looks whether a row is laid out as its type was when the statement began. No lock is held on the type: a
 * function that makes rows, or another session, may change it meanwhile, and then bytes of a number would be
 * taken for the length of a text. PostgreSQL's own output looks at the type for each value, too. */
static void
check_type(const FieldNode *node, HeapTupleHeader header)
{
  TypeCacheEntry *type = lookup_type_cache(node->type, TYPECACHE_TUPDESC);
  bool is_same = true;

  if (unlikely(type->tupDesc_identifier != *node->version))
  {
    is_same = type->tupDesc != NULL && is_same_type(node->attributes, type->tupDesc);
    *node->version = type->tupDesc_identifier;
  }
  if (unlikely(HeapTupleHeaderGetTypeId(header) != node->type))
  {
    TupleDesc own =
        lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header), HeapTupleHeaderGetTypMod(header));

    is_same = is_same && is_same_type(node->attributes, own);
    ReleaseTupleDesc(own);
  }
  if (unlikely(!is_same))
    refuse(node, ERRCODE_DATATYPE_MISMATCH, "the type of a row was changed meanwhile",
           "Run the statement again.");
}

static void
put_struct(Copy *copy, const FieldNode *node, Datum value)
{
  HeapTupleHeader header = DatumGetHeapTupleHeader(value);
  HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};
  int count = node->attributes->natts;
  Datum *values = palloc(count * sizeof(Datum));
  bool *nulls = palloc(count * sizeof(bool));

  check_type(node, header);
  ItemPointerSetInvalid(&tuple.t_self);
  heap_deform_tuple(&tuple, node->attributes, values, nulls);
  for (int i = 0; i < count; i++)
  {
    if (node->members[i] == NULL)
      continue;
    if (nulls[i])
      put_null(copy, node->members[i]);
    else
      put_value(copy, node->members[i], values[i]);
  }
  place(copy, node, 0)->length++;
  pfree(values);
  pfree(nulls);
  free_copy(header, value);
}

void
put_value(Copy *copy, const FieldNode *node, Datum value)
{
  HypostyleArray *array;
  struct varlena *bytes;
  char *text;

  switch (node->put)
  {
    case PUT_BYTE:
      array = place(copy, node, 0);
      array->values[array->length++] = DatumGetBool(value);
      break;
    case PUT_SHORT:
      array = place(copy, node, 0);
      ((int16 *) array->values)[array->length++] = DatumGetInt16(value);
      break;
    case PUT_INT:
      array = place(copy, node, 0);
      ((int32 *) array->values)[array->length++] = DatumGetInt32(value);
      break;
    case PUT_LONG:
      array = place(copy, node, 0);
      ((int64 *) array->values)[array->length++] = DatumGetInt64(value);
      break;
    case PUT_DECIMAL:
      put_decimal(copy, node, value);
      break;
    case PUT_DOUBLE_OF_NUMERIC:
      array = place(copy, node, 0);
      value = DirectFunctionCall1(numeric_float8, value);
      ((float8 *) array->values)[array->length++] = DatumGetFloat8(value);
      break;
    case PUT_DATE:
      put_date(copy, node, DatumGetDateADT(value));
      break;
    case PUT_TIME:
      put_time(copy, node, DatumGetTimeADT(value));
      break;
    case PUT_TIMESTAMP:
      put_timestamp(copy, node, DatumGetTimestamp(value));
      break;
    case PUT_INTERVAL:
      put_interval(copy, node, DatumGetIntervalP(value));
      break;
    case PUT_UUID:
      array = place(copy, node, 0);
      memcpy(array->values + array->length++ * UUID_LEN, DatumGetUUIDP(value)->data, UUID_LEN);
      break;
    case PUT_CODE:
      put_code(copy, node, DatumGetObjectId(value));
      break;
    case PUT_STRUCT:
      check_stack_depth();
      put_struct(copy, node, value);
      break;
    case PUT_TEXT:
      bytes = PG_DETOAST_DATUM_PACKED(value);
      put_text(copy, node, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
      free_copy(bytes, value);
      break;
    case PUT_BYTES:
      bytes = PG_DETOAST_DATUM_PACKED(value);
      put_bytes(copy, node, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
      free_copy(bytes, value);
      break;
    case PUT_SENT:
      bytes = (struct varlena *) SendFunctionCall((FmgrInfo *) &node->output, value);
      put_bytes(copy, node, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
      free_copy(bytes, value);
      break;
    case PUT_NAME:
      put_text(copy, node, NameStr(*DatumGetName(value)), strlen(NameStr(*DatumGetName(value))));
      break;
    case PUT_OUTPUT:
      text = OutputFunctionCall((FmgrInfo *) &node->output, value);
      put_text(copy, node, text, strlen(text));
      pfree(text);
      break;
    case PUT_LABEL:
      text = find_label(node, DatumGetObjectId(value))->label;
      put_text(copy, node, text, strlen(text));
      break;
    case PUT_LIST:
      check_stack_depth();
      put_list(copy, node, value);
      break;
  }
}
