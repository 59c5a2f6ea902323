/* Encoding in the workers of a parallel query: a node below the Gather on top of a plan, which takes rows and
 * gives encoded chunks. So the process that sends them has little else to do.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * The node's only column is a bytea: the bytes of a chunk before codecs, as a uint64, and its frame. The
 * leader gives each chunk its number and its place in the checksum (hypostyle.c, copy_chunk()). It runs the
 * node as well, where it takes part in the query or no worker came. Each process has an encoder of its own,
 * and knows how to describe the columns from what is in the plan: the plan is all that a worker gets. */
#include "copy.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "utils/lsyscache.h"
#pragma GCC diagnostic pop

#define NODE_NAME "hypostyle_encode"

/* No other node of a plan has this number: those that the planner gives count from 0. */
#define NODE_ID (1 << 30)

/* The numbers among the node's own data, in their order; the modifiers of the columns follow. */
enum
{
  CODECS,
  CHUNK_BYTES,
  CODED_FRAME_BYTES,
  IS_LOCAL,
  NUMERICS,
  PRECISION,
  SCALE,
  SETTINGS
};

typedef struct
{
  CustomScanState scan;
  Copy *copy; /* NULL before the first row */
  MemoryContext chunk;
  uint64 raw; /* bytes before codecs of the chunks that are encoded, until they are told */
  bool is_done;
} EncodeState;

bool encode_in_workers = false;

static Node *create_state(CustomScan *node);
static void begin_encoding(CustomScanState *node, EState *estate, int flags);
static TupleTableSlot *give_chunk(CustomScanState *node);
static void end_encoding(CustomScanState *node);
static void encode_again(CustomScanState *node);

static const CustomScanMethods scan_methods = {.CustomName = NODE_NAME,
                                               .CreateCustomScanState = create_state};

static const CustomExecMethods exec_methods = {.CustomName = NODE_NAME,
                                               .BeginCustomScan = begin_encoding,
                                               .ExecCustomScan = give_chunk,
                                               .EndCustomScan = end_encoding,
                                               .ReScanCustomScan = encode_again};

/* A worker, which loads the libraries of its leader, finds the node by its name. */
void
register_workers(void)
{
  RegisterCustomScanMethods(&scan_methods);
}

/* --- the plan --- */

/* Whether values of a field may be put by a worker: what runs for them is safe there. */
static bool
is_safe(const FieldNode *node)
{
  switch (node->put)
  {
    case PUT_CODE: /* dictionaries are the leader's */
    case PUT_SENT:
      return false;
    case PUT_OUTPUT:
      /* What others have made may run anything within those that run others. */
      return node->type < FirstGenbkiObjectId && node->type != RECORDOID && node->type != ANYARRAYOID &&
             func_parallel(node->output.fn_oid) == PROPARALLEL_SAFE;
    case PUT_LIST:
      return is_safe(node->element);
    case PUT_STRUCT:
      for (int i = 0; i < node->attributes->natts; i++)
        if (node->members[i] != NULL && !is_safe(node->members[i]))
          return false;
      return true;
    default:
      return true;
  }
}

/* Whether a column of a node is that of the node below, in the same place. */
static bool
is_same_column(const TargetEntry *column, const TargetEntry *below)
{
  const Var *var = (const Var *) column->expr;

  if (column->resjunk || below->resjunk)
    return false;
  if (IsA(var, Const))
    return equal(column->expr, below->expr);
  return IsA(var, Var) && var->varno == OUTER_VAR && var->varattno == below->resno &&
         column->resno == below->resno;
}

bool
workers_may_encode(const Copy *copy, const PlannedStmt *plan)
{
  const Gather *gather = (const Gather *) plan->planTree;
  const Plan *below = outerPlan(gather);
  ListCell *one;
  ListCell *other;

  if (gather->single_copy || gather->num_workers < 1 || gather->plan.qual != NIL || below == NULL ||
      copy->column_count == 0 || plan->hasModifyingCTE || plan->rowMarks != NIL ||
      list_length(gather->plan.targetlist) != copy->column_count ||
      list_length(below->targetlist) != copy->column_count)
    return false;
  forboth(one, gather->plan.targetlist, other, below->targetlist)
  {
    if (!is_same_column(lfirst_node(TargetEntry, one), lfirst_node(TargetEntry, other)))
      return false;
  }
  for (int i = 0; i < copy->column_count; i++)
    if (!is_safe(copy->columns[i]))
      return false;
  return true;
}

static List *
chunk_column(Expr *expression)
{
  return list_make1(makeTargetEntry(expression, 1, pstrdup("chunk"), false));
}

/* What a worker has to know: the codec, the numbers, and the names of columns for errors. */
static List *
settings(const Copy *copy, TupleDesc columns)
{
  const HypostyleOptions *encoder = &copy->options.encoder;
  List *numbers = NIL;
  List *names = NIL;

  numbers = lappend_int(numbers, (int) encoder->codecs);
  numbers = lappend_int(numbers, (int) encoder->chunk_bytes);
  numbers = lappend_int(numbers, (int) encoder->frame_bytes);
  numbers = lappend_int(numbers, encoder->is_local);
  numbers = lappend_int(numbers, (int) copy->options.numerics);
  numbers = lappend_int(numbers, copy->options.precision);
  numbers = lappend_int(numbers, copy->options.scale);
  for (int i = 0; i < columns->natts; i++)
  {
    Form_pg_attribute column = TupleDescAttr(columns, i);

    numbers = lappend_int(numbers, modifier(copy, column, i));
    names = lappend(names, makeString(pstrdup(NameStr(column->attname))));
  }
  return list_make3(makeString(pstrdup(encoder->codec == NULL ? "auto" : encoder->codec)), numbers, names);
}

/* Puts the node below the Gather on top of a plan, for which workers_may_encode(). */
void
let_workers_encode(const Copy *copy, PlannedStmt *plan, TupleDesc columns)
{
  Gather *gather = castNode(Gather, plan->planTree);
  Plan *below = outerPlan(gather);
  CustomScan *node = makeNode(CustomScan);

  node->scan.plan.startup_cost = below->startup_cost;
  node->scan.plan.total_cost = below->total_cost;
  node->scan.plan.plan_rows = below->plan_rows;
  node->scan.plan.plan_width = below->plan_width;
  node->scan.plan.parallel_safe = true;
  node->scan.plan.plan_node_id = NODE_ID;
  node->scan.plan.extParam = bms_copy(below->extParam);
  node->scan.plan.allParam = bms_copy(below->allParam);
  node->scan.plan.targetlist = chunk_column((Expr *) makeVar(INDEX_VAR, 1, BYTEAOID, -1, InvalidOid, 0));
  node->custom_scan_tlist = chunk_column((Expr *) makeNullConst(BYTEAOID, -1, InvalidOid));
  node->custom_plans = list_make1(below);
  node->custom_private = settings(copy, columns);
  node->methods = &scan_methods;
  outerPlan(gather) = (Plan *) node;
  gather->plan.targetlist = chunk_column((Expr *) makeVar(OUTER_VAR, 1, BYTEAOID, -1, InvalidOid, 0));
}

/* --- the node --- */

static Node *
create_state(CustomScan *node)
{
  EncodeState *state = (EncodeState *) newNode(sizeof(EncodeState), T_CustomScanState);

  (void) node;
  state->scan.methods = &exec_methods;
  return (Node *) state;
}

static void
begin_encoding(CustomScanState *node, EState *estate, int flags)
{
  EncodeState *state = (EncodeState *) node;
  CustomScan *plan = castNode(CustomScan, node->ss.ps.plan);

  node->custom_ps = list_make1(ExecInitNode(linitial(plan->custom_plans), estate, flags));
  state->chunk = AllocSetContextCreate(estate->es_query_cxt, "hypostyle chunk", ALLOCSET_DEFAULT_SIZES);
}

/* Makes the encoder as the leader has described it. */
static Copy *
make_encoder(const EncodeState *state)
{
  const CustomScan *plan = castNode(CustomScan, state->scan.ss.ps.plan);
  const List *numbers = lsecond(plan->custom_private);
  TupleDesc columns = ExecGetResultType(linitial(state->scan.custom_ps));
  MemoryContext before = MemoryContextSwitchTo(state->scan.ss.ps.state->es_query_cxt);
  Options options = {.modifier_count = list_length(numbers) - SETTINGS};
  const uint8_t *frame;
  size_t length;
  Copy *copy;

  if (options.modifier_count != columns->natts)
    elog(ERROR, "%d columns are encoded, and there are %d", options.modifier_count, columns->natts);
  options.encoder.codec = strVal(linitial(plan->custom_private));
  options.encoder.codecs = (uint32_t) list_nth_int(numbers, CODECS);
  options.encoder.chunk_bytes = (uint32_t) list_nth_int(numbers, CHUNK_BYTES);
  options.encoder.frame_bytes = (uint32_t) list_nth_int(numbers, CODED_FRAME_BYTES);
  options.encoder.is_local = list_nth_int(numbers, IS_LOCAL) != 0;
  options.numerics = (Numerics) list_nth_int(numbers, NUMERICS);
  options.precision = list_nth_int(numbers, PRECISION);
  options.scale = list_nth_int(numbers, SCALE);
  options.modifiers = palloc(Max(1, options.modifier_count) * sizeof(int32));
  for (int i = 0; i < options.modifier_count; i++)
    options.modifiers[i] = list_nth_int(numbers, SETTINGS + i);
  copy = make_copy(&options);
  describe_columns(copy, columns, lthird(plan->custom_private));
  open_encoder(copy);
  /* The first frame describes the result, which the leader has done. */
  check(copy, hypostyle_encoder_frame(copy->encoder, &frame, &length, &copy->failure));
  MemoryContextSwitchTo(before);
  return copy;
}

/* The next chunk that is encoded, or NULL. It is valid until the node is asked for another. */
static TupleTableSlot *
next_chunk(EncodeState *state)
{
  TupleTableSlot *slot = state->scan.ss.ss_ScanTupleSlot;
  Copy *copy = state->copy;
  const uint8_t *frame;
  struct varlena *message;
  size_t length;

  check(copy, hypostyle_encoder_frame(copy->encoder, &frame, &length, &copy->failure));
  if (length == 0)
    return NULL;
  ExecClearTuple(slot);
  MemoryContextReset(state->chunk);
  message = MemoryContextAlloc(state->chunk, VARHDRSZ + sizeof(state->raw) + length);
  SET_VARSIZE(message, VARHDRSZ + sizeof(state->raw) + length);
  memcpy(VARDATA(message), &state->raw, sizeof(state->raw));
  memcpy(VARDATA(message) + sizeof(state->raw), frame, length);
  state->raw = 0;
  slot->tts_values[0] = PointerGetDatum(message);
  slot->tts_isnull[0] = false;
  return ExecStoreVirtualTuple(slot);
}

static TupleTableSlot *
give_chunk(CustomScanState *node)
{
  EncodeState *state = (EncodeState *) node;
  PlanState *below = linitial(node->custom_ps);

  if (state->copy == NULL)
    state->copy = make_encoder(state);
  for (;;)
  {
    TupleTableSlot *chunk = next_chunk(state);
    bool is_full = false;
    uint64 raw;

    if (chunk != NULL)
      return chunk;
    if (state->is_done)
      return ExecClearTuple(node->ss.ss_ScanTupleSlot);
    while (!is_full && !state->is_done)
    {
      TupleTableSlot *row = ExecProcNode(below);

      if (TupIsNull(row))
        state->is_done = true;
      else
        is_full = add_row(state->copy, row);
    }
    encode_rows(state->copy);
    check(state->copy, hypostyle_encoder_pass(state->copy->encoder, &raw, &state->copy->failure));
    state->raw += raw;
  }
}

static void
free_copy(EncodeState *state)
{
  if (state->copy != NULL)
    MemoryContextDelete(state->copy->memory);
  state->copy = NULL;
}

static void
end_encoding(CustomScanState *node)
{
  free_copy((EncodeState *) node);
  ExecEndNode(linitial(node->custom_ps));
}

/* A Gather on top of a plan is not run again; whatever comes to be, all begins anew. */
static void
encode_again(CustomScanState *node)
{
  EncodeState *state = (EncodeState *) node;
  PlanState *below = linitial(node->custom_ps);

  free_copy(state);
  state->raw = 0;
  state->is_done = false;
  if (node->ss.ps.chgParam != NULL)
    UpdateChangedParamSet(below, node->ss.ps.chgParam);
  if (below->chgParam == NULL)
    ExecReScan(below);
}
