/* How many digits a numeric of a query can have, where its type does not say it.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is found holds for all values that there may be: it comes from the types of columns, from constants,
 * and from what functions of pg_catalog do with them, and never from statistics or rows. A sum has no more
 * than 2^63 terms, so it has up to 19 digits more than they. The query is looked at as it was rewritten,
 * views and all, and before it is planned. */
#include "copy.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "parser/parsetree.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#pragma GCC diagnostic pop

/* The macros of arrays compare so. */
#pragma GCC diagnostic ignored "-Wsign-compare"

/* Digits that nobody knows: more than any type of ours has. */
#define UNKNOWN 10000

/* Digits of the number of rows that there can be. */
#define ROWS_DIGITS 19

/* Expressions that are looked at for a column. A query of queries can have each column twice in the next. */
#define STEPS_MAX 10000

/* The most digits before the point, and behind it. */
typedef struct
{
  int whole;
  int scale;
} Digits;

/* A query, and that around it. */
typedef struct Scope
{
  const Query *query;
  const struct Scope *parent;
} Scope;

static bool find(const void *node, const Scope *scope, int *steps, Digits *digits);
static bool find_column(const Query *query, const Scope *parent, int number, int *steps, Digits *digits);

static bool
give(Digits *digits, int whole, int scale)
{
  digits->whole = Min(whole, UNKNOWN);
  digits->scale = Min(scale, UNKNOWN);
  return true;
}

/* Those that hold for one and for the other. */
static void
widen(Digits *digits, Digits other)
{
  digits->whole = Max(digits->whole, other.whole);
  digits->scale = Max(digits->scale, other.scale);
}

static bool
find_all(const List *nodes, const Scope *scope, int *steps, Digits *digits)
{
  ListCell *cell;

  (void) give(digits, 0, 0);
  foreach (cell, nodes)
  {
    Digits one;

    if (!find(lfirst(cell), scope, steps, &one))
      return false;
    widen(digits, one);
  }
  return true;
}

static bool
find_number(const char *text, Digits *digits)
{
  const char *point;
  size_t whole;

  text += *text == '-';
  whole = strspn(text, "0123456789");
  if (whole == 0)
    return false; /* not a number, or infinite */
  point = text + whole;
  for (; *text == '0' && whole > 0; text++)
    whole--;
  return give(digits, (int) whole, *point == '.' ? (int) strlen(point + 1) : 0);
}

static bool
find_constant(const Const *constant, Digits *digits)
{
  Oid output;
  bool is_varlena;

  if (constant->constisnull)
    return give(digits, 0, 0);
  getTypeOutputInfo(constant->consttype, &output, &is_varlena);
  return find_number(OidOutputFunctionCall(output, constant->constvalue), digits);
}

/* What the type and its modifier say. */
static bool
find_modifier(int32 typmod, Digits *digits)
{
  int precision = ((typmod - VARHDRSZ) >> 16) & 0xffff;
  int scale = (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;

  return give(digits, Max(precision - scale, 0), Max(scale, 0));
}

/* A column of a set operation: what holds for that of each arm. */
static bool
find_arms(const Node *arm, const Scope *scope, int number, int *steps, Digits *digits)
{
  const SetOperationStmt *both = (const SetOperationStmt *) arm;
  const RangeTblEntry *table;
  Digits right;

  check_stack_depth();
  if ((*steps)-- <= 0)
    return false;
  if (IsA(arm, RangeTblRef))
  {
    table = rt_fetch(((const RangeTblRef *) arm)->rtindex, scope->query->rtable);
    return table->rtekind == RTE_SUBQUERY && find_column(table->subquery, scope, number, steps, digits);
  }
  if (!IsA(arm, SetOperationStmt) || !find_arms(both->larg, scope, number, steps, digits) ||
      !find_arms(both->rarg, scope, number, steps, &right))
    return false;
  widen(digits, right);
  return true;
}

static bool
find_column(const Query *query, const Scope *parent, int number, int *steps, Digits *digits)
{
  Scope scope = {query, parent};
  List *list = query->commandType == CMD_SELECT ? query->targetList : query->returningList;
  const TargetEntry *column;

  if (query->setOperations != NULL)
    return find_arms(query->setOperations, &scope, number, steps, digits);
  column = get_tle_by_resno(list, (AttrNumber) number);
  return column != NULL && !column->resjunk && find(column->expr, &scope, steps, digits);
}

static bool
find_in_with(const RangeTblEntry *table, const Scope *scope, int number, int *steps, Digits *digits)
{
  ListCell *cell;

  for (Index up = table->ctelevelsup; up > 0 && scope != NULL; up--)
    scope = scope->parent;
  if (scope == NULL || table->self_reference)
    return false;
  foreach (cell, scope->query->cteList)
  {
    const CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);

    if (strcmp(with->ctename, table->ctename) == 0)
      return !with->cterecursive && IsA(with->ctequery, Query) &&
             find_column((const Query *) with->ctequery, scope, number, steps, digits);
  }
  return false;
}

static bool
find_nth(const List *list, int number, const Scope *scope, int *steps, Digits *digits)
{
  return number <= list_length(list) && find(list_nth(list, number - 1), scope, steps, digits);
}

static bool
find_variable(const Var *var, const Scope *scope, int *steps, Digits *digits)
{
  const RangeTblEntry *table;
  Digits one;
  ListCell *cell;

  for (Index up = var->varlevelsup; up > 0 && scope != NULL; up--)
    scope = scope->parent;
  if (scope == NULL || var->varattno < 1 || (int) var->varno < 1 ||
      (int) var->varno > list_length(scope->query->rtable))
    return false;
  table = rt_fetch(var->varno, scope->query->rtable);
  switch (table->rtekind)
  {
    case RTE_SUBQUERY:
      return find_column(table->subquery, scope, var->varattno, steps, digits);
    case RTE_JOIN:
      return find_nth(table->joinaliasvars, var->varattno, scope, steps, digits);
    case RTE_CTE:
      return find_in_with(table, scope, var->varattno, steps, digits);
    case RTE_VALUES:
      (void) give(digits, 0, 0);
      foreach (cell, table->values_lists)
      {
        if (!find_nth(lfirst(cell), var->varattno, scope, steps, &one))
          return false;
        widen(digits, one);
      }
      return true;
#if PG_VERSION_NUM >= 180000
    case RTE_GROUP:
      return find_nth(table->groupexprs, var->varattno, scope, steps, digits);
#endif
    default:
      return false;
  }
}

/* EXTRACT of a field that is named by a constant. */
static bool
find_field(const Node *name, Digits *digits)
{
  static const char *const whole[] = {"year", "quarter", "month", "week", "day", "hour", "minute",
                                      "microseconds", "dow", "isodow", "doy", "isoyear", "decade", "century",
                                      "millennium"};
  const Const *constant = (const Const *) name;
  const char *field;

  if (!IsA(name, Const) || constant->constisnull || constant->consttype != TEXTOID)
    return false;
  field = TextDatumGetCString(constant->constvalue);
  for (size_t i = 0; i < lengthof(whole); i++)
    if (strcmp(field, whole[i]) == 0)
      return give(digits, 10, 0);
  if (strcmp(field, "second") == 0)
    return give(digits, 2, 6);
  if (strcmp(field, "milliseconds") == 0)
    return give(digits, 5, 3);
  /* An interval has up to 2^31 months. */
  return strcmp(field, "epoch") == 0 && give(digits, 16, 6);
}

/* What is rounded, or cut, to a number of digits that is a constant, or else to none. */
static bool
round_to(const List *args, Digits value, int carry, Digits *digits)
{
  const Const *to = list_length(args) > 1 ? (const Const *) lsecond(args) : NULL;
  int scale = 0;

  if (to != NULL)
  {
    if (!IsA(to, Const) || to->constisnull || to->consttype != INT4OID)
      return false;
    scale = DatumGetInt32(to->constvalue);
  }
  return give(digits, value.whole + carry, Max(scale, 0));
}

/* What a function of pg_catalog gives. All of them are strict: without values there is no number. */
static bool
find_call(Oid function, const List *args, const Scope *scope, int *steps, Digits *digits)
{
  Digits a;
  Digits b = {0, 0};

  switch (function)
  {
    case F_EXTRACT_TEXT_DATE:
    case F_EXTRACT_TEXT_TIME:
    case F_EXTRACT_TEXT_TIMETZ:
    case F_EXTRACT_TEXT_TIMESTAMP:
    case F_EXTRACT_TEXT_TIMESTAMPTZ:
    case F_EXTRACT_TEXT_INTERVAL:
      return args != NIL && find_field(linitial(args), digits);
    case F_NUMERIC_INT2:
    case F_NUMERIC_INT4:
    case F_NUMERIC_INT8:
    case F_NUMERIC_ABS:
    case F_ABS_NUMERIC:
    case F_NUMERIC_UMINUS:
    case F_NUMERIC_UPLUS:
    case F_NUMERIC_ADD:
    case F_NUMERIC_SUB:
    case F_NUMERIC_MUL:
    case F_NUMERIC_DIV:
    case F_NUMERIC_MOD:
    case F_MOD_NUMERIC_NUMERIC:
    case F_DIV:
    case F_ROUND_NUMERIC:
    case F_ROUND_NUMERIC_INT4:
    case F_TRUNC_NUMERIC:
    case F_TRUNC_NUMERIC_INT4:
    case F_CEIL_NUMERIC:
    case F_CEILING_NUMERIC:
    case F_FLOOR_NUMERIC:
      break;
    default:
      return false;
  }
  if (args == NIL || !find(linitial(args), scope, steps, &a) ||
      (list_length(args) > 1 && !find(lsecond(args), scope, steps, &b)))
    return false;
  switch (function)
  {
    case F_NUMERIC_ADD:
    case F_NUMERIC_SUB:
      return give(digits, Max(a.whole, b.whole) + 1, Max(a.scale, b.scale));
    case F_NUMERIC_MUL:
      return give(digits, a.whole + b.whole, a.scale + b.scale);
    case F_NUMERIC_DIV:
      /* The least divisor is as small as its scale allows. What is rounded may have a digit more. */
      return give(digits, a.whole + b.scale + 1, UNKNOWN);
    case F_DIV:
      return give(digits, a.whole + b.scale, 0);
    case F_NUMERIC_MOD:
    case F_MOD_NUMERIC_NUMERIC:
      return give(digits, Min(a.whole, b.whole), Max(a.scale, b.scale));
    case F_ROUND_NUMERIC:
    case F_ROUND_NUMERIC_INT4:
    case F_CEIL_NUMERIC:
    case F_CEILING_NUMERIC:
    case F_FLOOR_NUMERIC:
      return round_to(args, a, 1, digits);
    case F_TRUNC_NUMERIC:
    case F_TRUNC_NUMERIC_INT4:
      return round_to(args, a, 0, digits);
    default:
      return give(digits, a.whole, a.scale);
  }
}

static bool
find_aggregate(Oid function, const void *argument, const Scope *scope, int *steps, Digits *digits)
{
  Digits of;

  if (argument == NULL || !find(argument, scope, steps, &of))
    return false;
  switch (function)
  {
    case F_SUM_INT8:
      /* 2^63 times as many rows: less than 2^126. */
      return give(digits, 38, 0);
    case F_SUM_NUMERIC:
      return give(digits, of.whole + ROWS_DIGITS, of.scale);
    case F_AVG_INT2:
    case F_AVG_INT4:
    case F_AVG_INT8:
    case F_AVG_NUMERIC:
      return give(digits, of.whole + 1, UNKNOWN);
    case F_MIN_NUMERIC:
    case F_MAX_NUMERIC:
#ifdef F_ANY_VALUE
    case F_ANY_VALUE:
#endif
      *digits = of;
      return true;
    default:
      return false;
  }
}

static bool
find_window(const WindowFunc *call, const Scope *scope, int *steps, Digits *digits)
{
  Digits other;

  if (call->args == NIL)
    return false;
  switch (call->winfnoid)
  {
    case F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE:
    case F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE:
      if (list_length(call->args) < 3 || !find(linitial(call->args), scope, steps, digits) ||
          !find(lthird(call->args), scope, steps, &other))
        return false;
      widen(digits, other);
      return true;
    case F_LAG_ANYELEMENT:
    case F_LAG_ANYELEMENT_INT4:
    case F_LEAD_ANYELEMENT:
    case F_LEAD_ANYELEMENT_INT4:
    case F_FIRST_VALUE:
    case F_LAST_VALUE:
    case F_NTH_VALUE:
      return find(linitial(call->args), scope, steps, digits);
    default:
      return find_aggregate(call->winfnoid, linitial(call->args), scope, steps, digits);
  }
}

static bool
find_case(const CaseExpr *expression, const Scope *scope, int *steps, Digits *digits)
{
  ListCell *cell;
  Digits one;

  (void) give(digits, 0, 0);
  if (expression->defresult != NULL && !find(expression->defresult, scope, steps, digits))
    return false;
  foreach (cell, expression->args)
  {
    if (!find(lfirst_node(CaseWhen, cell)->result, scope, steps, &one))
      return false;
    widen(digits, one);
  }
  return true;
}

static bool
find_operator(const OpExpr *call, const Scope *scope, int *steps, Digits *digits)
{
  Oid function = OidIsValid(call->opfuncid) ? call->opfuncid : get_opcode(call->opno);

  return find_call(function, call->args, scope, steps, digits);
}

/* An expression of type numeric that has no modifier. */
static bool
find_numeric(const Node *node, const Scope *scope, int *steps, Digits *digits)
{
  switch (nodeTag(node))
  {
    case T_Var:
      return find_variable((const Var *) node, scope, steps, digits);
    case T_FuncExpr:
      return find_call(((const FuncExpr *) node)->funcid, ((const FuncExpr *) node)->args, scope, steps,
                       digits);
    case T_OpExpr:
      return find_operator((const OpExpr *) node, scope, steps, digits);
    case T_Aggref:
    {
      const Aggref *call = (const Aggref *) node;
      const void *argument = call->args == NIL ? NULL : linitial_node(TargetEntry, call->args)->expr;

      return find_aggregate(call->aggfnoid, argument, scope, steps, digits);
    }
    case T_WindowFunc:
      return find_window((const WindowFunc *) node, scope, steps, digits);
    case T_CaseExpr:
      return find_case((const CaseExpr *) node, scope, steps, digits);
    case T_CoalesceExpr:
      return find_all(((const CoalesceExpr *) node)->args, scope, steps, digits);
    case T_MinMaxExpr:
      return find_all(((const MinMaxExpr *) node)->args, scope, steps, digits);
    case T_NullIfExpr:
      return find(linitial(((const NullIfExpr *) node)->args), scope, steps, digits);
    case T_RelabelType:
      return find(((const RelabelType *) node)->arg, scope, steps, digits);
    case T_SubLink:
    {
      const SubLink *link = (const SubLink *) node;

      return link->subLinkType == EXPR_SUBLINK && IsA(link->subselect, Query) &&
             find_column((const Query *) link->subselect, scope, 1, steps, digits);
    }
    default:
      return false;
  }
}

/* Finds how many digits the values of an expression may have; false if that is not known. */
static bool
find(const void *expression, const Scope *scope, int *steps, Digits *digits)
{
  const Node *node = expression;
  Oid type;
  int32 typmod;

  check_stack_depth();
  CHECK_FOR_INTERRUPTS();
  if (node == NULL || (*steps)-- <= 0)
    return false;
  type = exprType(node);
  if (IsA(node, Const) && (type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID))
    return find_constant((const Const *) node, digits);
  switch (type)
  {
    case INT2OID:
      return give(digits, 5, 0);
    case INT4OID:
      return give(digits, 10, 0);
    case INT8OID:
      return give(digits, 19, 0);
    case NUMERICOID:
      typmod = exprTypmod(node);
      return typmod >= (int32) VARHDRSZ ? find_modifier(typmod, digits)
                                        : find_numeric(node, scope, steps, digits);
    default:
      return false;
  }
}

/* The modifiers of a query's columns that are numerics without one, where one can be found, and else -1. */
int32 *
find_modifiers(const Query *query, int *count)
{
  List *list = query->commandType == CMD_SELECT ? query->targetList : query->returningList;
  int32 *modifiers = palloc(Max(1, list_length(list)) * sizeof(int32));
  ListCell *cell;

  *count = 0;
  foreach (cell, list)
  {
    const TargetEntry *column = lfirst_node(TargetEntry, cell);
    int steps = STEPS_MAX;
    Digits digits;
    int32 modifier = -1;

    if (column->resjunk)
      continue;
    if (exprType((Node *) column->expr) == NUMERICOID && exprTypmod((Node *) column->expr) < 0 &&
        find_column(query, NULL, column->resno, &steps, &digits) &&
        digits.whole + digits.scale <= DECIMAL_DIGITS_MAX)
      modifier = (Max(digits.whole + digits.scale, 1) << 16 | digits.scale) + VARHDRSZ;
    modifiers[(*count)++] = modifier;
  }
  return modifiers;
}

PG_FUNCTION_INFO_V1(hypostyle_numerics);

/* The modifiers of the columns of a query, which is described and not run. Its parameters have the types. */
Datum
hypostyle_numerics(PG_FUNCTION_ARGS)
{
  char *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));
  ArrayType *types = PG_GETARG_ARRAYTYPE_P(1);
  List *parsed = pg_parse_query(sql);
  List *rewritten;
  int32 *modifiers;
  Datum *values;
  int count;

  if (ARR_NDIM(types) > 1 || ARR_HASNULL(types) || ARR_ELEMTYPE(types) != OIDOID)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the types of parameters are a list of oids")));
  if (list_length(parsed) != 1)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("one query is described")));
  rewritten = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, parsed), sql,
                                                 (const Oid *) ARR_DATA_PTR(types),
                                                 ArrayGetNItems(ARR_NDIM(types), ARR_DIMS(types)), NULL);
  if (list_length(rewritten) != 1 || linitial_node(Query, rewritten)->commandType == CMD_UTILITY)
    PG_RETURN_NULL();
  modifiers = find_modifiers(linitial_node(Query, rewritten), &count);
  values = palloc(Max(1, count) * sizeof(Datum));
  for (int i = 0; i < count; i++)
    values[i] = Int32GetDatum(modifiers[i]);
  PG_RETURN_ARRAYTYPE_P(construct_array(values, count, INT4OID, sizeof(int32), true, TYPALIGN_INT));
}
