/* How each type of PostgreSQL is sent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
#pragma GCC diagnostic pop

/* The most fields of a result, those within types included (docs/protocol.md §13). Types of eight attributes,
 * each of such a type again, have billions a few steps on. */
#define FIELDS_MAX (1 << 18)

static char *
to_utf8(const char *text)
{
  char *converted = pg_server_to_any(text, (int) strlen(text), PG_UTF8);

  return converted == text ? pstrdup(text) : converted;
}

/* A new field. Pointers into the list are valid until the next one. */
static HypostyleField *
add_field(Copy *copy, FieldNode *node, const char *name)
{
  HypostyleField *field;

  CHECK_FOR_INTERRUPTS();
  if (copy->field_count == FIELDS_MAX)
    ereport(ERROR,
            (errcode(ERRCODE_TOO_MANY_COLUMNS),
             errmsg("the columns have more than %d fields, with those within their types", FIELDS_MAX)));
  if (copy->field_count == copy->field_room)
  {
    copy->field_room *= 2;
    copy->fields = repalloc(copy->fields, copy->field_room * sizeof(HypostyleField));
  }
  node->field = copy->field_count++;
  field = &copy->fields[node->field];
  memset(field, 0, sizeof(HypostyleField));
  field->name = to_utf8(name);
  field->name_length = strlen(field->name);
  return field;
}

/* Reads the values of an enumeration, in their order. */
static void
read_labels(FieldNode *node, HypostyleField *field)
{
  Relation relation = table_open(EnumRelationId, AccessShareLock);
  SysScanDesc scan;
  ScanKeyData key;
  HeapTuple tuple;
  int count = 0;
  int room = 8;
  const char **names = palloc(room * sizeof(char *));

  node->labels = palloc(room * sizeof(Label));
  ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(node->type));
  scan = systable_beginscan(relation, EnumTypIdSortOrderIndexId, true, NULL, 1, &key);
  while (HeapTupleIsValid(tuple = systable_getnext(scan)))
  {
    Form_pg_enum value = (Form_pg_enum) GETSTRUCT(tuple);

    if (count == room)
    {
      room *= 2;
      node->labels = repalloc(node->labels, room * sizeof(Label));
      names = repalloc(names, room * sizeof(char *));
    }
    node->labels[count] = (Label) {value->oid, count, pstrdup(NameStr(value->enumlabel))};
    names[count] = to_utf8(node->labels[count].label);
    count++;
  }
  systable_endscan(scan);
  table_close(relation, AccessShareLock);
  node->label_count = count;
  field->labels = names;
  field->label_count = (uint32_t) count;
  if (count > 0)
    qsort(node->labels, count, sizeof(Label), compare_labels);
}

static void
use_output(Copy *copy, FieldNode *node, HypostyleField *field, int kind)
{
  Oid function;
  bool is_varlena;

  getTypeOutputInfo(node->type, &function, &is_varlena);
  fmgr_info_cxt(function, &node->output, copy->memory);
  field->kind = kind;
  node->put = PUT_OUTPUT;
}

/* Whether a type is one of PostGIS's, whose binary form others read, too: extended well-known binary. */
static bool
is_geometry(Oid type)
{
  HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
  Form_pg_type form;
  bool is_so;

  if (!HeapTupleIsValid(tuple))
    return false;
  form = (Form_pg_type) GETSTRUCT(tuple);
  is_so = form->typtype == TYPTYPE_BASE && OidIsValid(form->typsend) &&
          (strcmp(NameStr(form->typname), "geometry") == 0 || strcmp(NameStr(form->typname), "geography") == 0);
  ReleaseSysCache(tuple);
  return is_so;
}

static void
use_sending(Copy *copy, FieldNode *node, HypostyleField *field)
{
  Oid function;
  bool is_varlena;

  getTypeBinaryOutputInfo(node->type, &function, &is_varlena);
  fmgr_info_cxt(function, &node->output, copy->memory);
  field->kind = HYPOSTYLE_BLOB;
  node->put = PUT_SENT;
}

/* Says by its modifier how a numeric is sent. */
static void
describe_numeric(Copy *copy, FieldNode *node, HypostyleField *field, int32 typmod)
{
  int precision = copy->options.precision;
  int scale = copy->options.scale;

  if (typmod < (int32) VARHDRSZ)
  {
    if (copy->options.numerics == NUMERIC_DOUBLE)
    {
      field->kind = HYPOSTYLE_DOUBLE;
      node->put = PUT_DOUBLE_OF_NUMERIC;
      return;
    }
    if (copy->options.numerics != NUMERIC_DECIMAL)
    {
      use_output(copy, node, field, HYPOSTYLE_VARCHAR);
      return;
    }
  }
  else
  {
    /* The lower eleven bits are the scale, with a sign. */
    precision = ((typmod - VARHDRSZ) >> 16) & 0xffff;
    scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
    if (scale < 0)
    {
      precision -= scale;
      scale = 0;
    }
    precision = Max(precision, scale);
  }
  if (precision > DECIMAL_DIGITS_MAX)
  {
    use_output(copy, node, field, HYPOSTYLE_VARCHAR);
    return;
  }
  field->kind = HYPOSTYLE_DECIMAL;
  field->precision = (uint8_t) precision;
  field->scale = (uint8_t) scale;
  node->put = PUT_DECIMAL;
}

/* The types that have one of the protocol's. */
static const struct
{
  Oid type;
  Put put;
  int kind;
} known_types[] = {
    {BOOLOID, PUT_BYTE, HYPOSTYLE_BOOLEAN},
    {INT2OID, PUT_SHORT, HYPOSTYLE_SMALLINT},
    {INT4OID, PUT_INT, HYPOSTYLE_INTEGER},
    {INT8OID, PUT_LONG, HYPOSTYLE_BIGINT},
    {OIDOID, PUT_INT, HYPOSTYLE_UINTEGER},
    {FLOAT4OID, PUT_INT, HYPOSTYLE_FLOAT},
    {FLOAT8OID, PUT_LONG, HYPOSTYLE_DOUBLE},
    {TEXTOID, PUT_TEXT, HYPOSTYLE_VARCHAR},
    {VARCHAROID, PUT_TEXT, HYPOSTYLE_VARCHAR},
    {BPCHAROID, PUT_TEXT, HYPOSTYLE_VARCHAR},
    {NAMEOID, PUT_NAME, HYPOSTYLE_VARCHAR},
    {JSONOID, PUT_TEXT, HYPOSTYLE_JSON},
    {BYTEAOID, PUT_BYTES, HYPOSTYLE_BLOB},
    {DATEOID, PUT_DATE, HYPOSTYLE_DATE},
    {TIMEOID, PUT_TIME, HYPOSTYLE_TIME},
    {TIMESTAMPOID, PUT_TIMESTAMP, HYPOSTYLE_TIMESTAMP},
    {TIMESTAMPTZOID, PUT_TIMESTAMP, HYPOSTYLE_TIMESTAMPTZ},
    {INTERVALOID, PUT_INTERVAL, HYPOSTYLE_INTERVAL},
    {UUIDOID, PUT_UUID, HYPOSTYLE_UUID},
};

/* Describes the attributes of a composite type; false if there are none. */
static bool
describe_struct(Copy *copy, FieldNode *node, int depth)
{
  TypeCacheEntry *type = lookup_type_cache(node->type, TYPECACHE_TUPDESC);
  TupleDesc attributes;
  uint32_t count = 0;

  if (type->tupDesc == NULL)
    return false;
  attributes = CreateTupleDescCopyConstr(type->tupDesc);
  for (int i = 0; i < attributes->natts; i++)
    count += !TupleDescAttr(attributes, i)->attisdropped;
  if (count == 0)
    return false;
  copy->fields[node->field].kind = HYPOSTYLE_STRUCT;
  copy->fields[node->field].members = count;
  node->put = PUT_STRUCT;
  node->attributes = attributes;
  node->version = palloc(sizeof(uint64));
  *node->version = type->tupDesc_identifier;
  node->members = palloc0(attributes->natts * sizeof(FieldNode *));
  for (int i = 0; i < attributes->natts; i++)
  {
    Form_pg_attribute attribute = TupleDescAttr(attributes, i);

    if (!attribute->attisdropped)
      node->members[i] = describe(copy, node->column, NameStr(attribute->attname), attribute->atttypid,
                                  attribute->atttypmod, depth + 1);
  }
  return true;
}

/* Says how values of a type are sent, and adds the field, with those within it. */
FieldNode *
describe(Copy *copy, const char *column, const char *name, Oid type, int32 typmod, int depth)
{
  FieldNode *node = palloc0(sizeof(FieldNode));
  HypostyleField *field = add_field(copy, node, name);
  Oid base = getBaseTypeAndTypmod(type, &typmod);
  Oid element;

  check_stack_depth();
  node->column = column;
  node->type = base;
  for (size_t i = 0; i < lengthof(known_types); i++)
    if (known_types[i].type == base)
    {
      field->kind = known_types[i].kind;
      node->put = known_types[i].put;
      return node;
    }
  if (base == NUMERICOID)
  {
    describe_numeric(copy, node, field, typmod);
    return node;
  }
  if (type_is_enum(base))
  {
    read_labels(node, field);
    field->kind = depth == 0 && field->label_count > 0 ? HYPOSTYLE_DICTIONARY : HYPOSTYLE_VARCHAR;
    node->put = field->kind == HYPOSTYLE_DICTIONARY ? PUT_CODE : PUT_LABEL;
    if (node->put == PUT_LABEL)
      field->labels = NULL;
    return node;
  }
  element = get_element_type(base);
  if (OidIsValid(element))
  {
    field->kind = HYPOSTYLE_LIST;
    field->members = 1;
    node->put = PUT_LIST;
    get_typlenbyvalalign(element, &node->length, &node->by_value, &node->align);
    node->element = describe(copy, column, "item", element, typmod, depth + 1);
    node->element->type = element;
    return node;
  }
  if (get_typtype(base) == TYPTYPE_COMPOSITE && describe_struct(copy, node, depth))
    return node;
  if (is_geometry(base))
    use_sending(copy, node, field);
  else
    use_output(copy, node, field, base == JSONBOID ? HYPOSTYLE_JSON : HYPOSTYLE_VARCHAR);
  return node;
}

size_t
measure(const Copy *copy, FieldNode *node)
{
  node->width = copy->arrays[node->field].width;
  if (node->element != NULL)
    (void) measure(copy, node->element);
  if (node->members != NULL)
    for (int i = 0; i < node->attributes->natts; i++)
      if (node->members[i] != NULL)
        node->width += measure(copy, node->members[i]);
  return node->width;
}
