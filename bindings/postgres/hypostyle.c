/* COPY (query) TO STDOUT (FORMAT hypostyle): results in columns, as docs/protocol.md has them.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * A hook on utility statements takes this one COPY and leaves all others alone. It plans and runs the query
 * as COPY does, into a receiver that writes each row into buffers of the Rust half (encoder/), and sends the
 * frames that come back as CopyData. Rust calls nothing of PostgreSQL, so no error jumps across it. What it
 * has allocated is freed by a callback of the memory context that holds all state of a COPY.
 *
 * copy_start(), copy_row() and copy_end() are what a format of COPY's own would be asked for. */
#include "copy.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
/* Structs have a place for GSSAPI's data in any case, and its headers are not needed. */
#undef ENABLE_GSS

#include <netdb.h>
#include <sys/socket.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "libpq/libpq.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parse_node.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#pragma GCC diagnostic pop

#if PG_VERSION_NUM >= 180000
PG_MODULE_MAGIC_EXT(.name = "hypostyle", .version = "0.2");
#else
PG_MODULE_MAGIC;
#endif

/* The longest body of a frame at most. */
#define FRAME_BYTES_MAX (MaxAllocSize - 64)

/* Longer messages do not go through the send buffer, which never shrinks. */
#define BUFFERED_BYTES_MAX (4 << 20)

/* Rows of a block that packs best. */
#define BLOCK 1024

static ProcessUtility_hook_type next_process_utility;

PG_FUNCTION_INFO_V1(hypostyle_protocol);

/* Calling it loads the library, which makes the format known to the session. */
Datum
hypostyle_protocol(PG_FUNCTION_ARGS)
{
  (void) fcinfo;
  PG_RETURN_INT32((int32) hypostyle_encoder_protocol());
}

void
fail(Copy *copy)
{
  const char *state = copy->failure.sqlstate;
  const char *message = copy->failure.message;

  ereport(ERROR,
          (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
           errmsg("%s", pg_any_to_server(message, strlen(message), PG_UTF8))));
}

/* Sends what is in the send buffer; true if the socket was full. PostgreSQL waits for it, since it knows how
 * a session ends whose client does not read. A cancelled statement ends when the client has read on. */
static bool
send_buffer(void)
{
  bool has_waited;

  (void) pq_flush_if_writable();
  has_waited = pq_is_send_pending();
  if (has_waited)
    (void) pq_flush();
  /* A connection that is gone is found here. */
  CHECK_FOR_INTERRUPTS();
  return has_waited;
}

/* Puts the encoder's frames into the send buffer, each in a CopyData. */
static bool
put_frames(Copy *copy)
{
  bool has_waited = false;

  for (;;)
  {
    const uint8_t *frame;
    size_t length;

    check(copy, hypostyle_encoder_frame(copy->encoder, &frame, &length, &copy->failure));
    if (length == 0)
      return has_waited;
    if (length <= BUFFERED_BYTES_MAX)
    {
      pq_putmessage_noblock('d', (const char *) frame, length);
      continue;
    }
    has_waited |= send_buffer();
    (void) pq_putmessage('d', (const char *) frame, length);
  }
}

void
encode_rows(Copy *copy)
{
  check(copy, hypostyle_encoder_flush(copy->encoder, copy->rows, &copy->failure));
  copy->rows = 0;
  copy->bytes = 0;
}

static void
send_frames(Copy *copy)
{
  bool has_waited = put_frames(copy);

  has_waited |= send_buffer();
  check(copy, hypostyle_encoder_told(copy->encoder, has_waited, &copy->failure));
}

static void
free_encoder(void *copy)
{
  hypostyle_encoder_free(((Copy *) copy)->encoder);
  ((Copy *) copy)->encoder = NULL;
}

int32
modifier(const Copy *copy, Form_pg_attribute column, int number)
{
  if (column->atttypid == NUMERICOID && column->atttypmod < 0 && number < copy->options.modifier_count)
    return copy->options.modifiers[number];
  return column->atttypmod;
}

void
describe_columns(Copy *copy, TupleDesc columns, const List *names)
{
  MemoryContext before = MemoryContextSwitchTo(copy->memory);

  copy->converts = GetDatabaseEncoding() != PG_UTF8;
  copy->column_count = columns->natts;
  copy->columns = palloc0(Max(1, columns->natts) * sizeof(FieldNode *));
  copy->field_room = Max(8, columns->natts);
  copy->fields = palloc(copy->field_room * sizeof(HypostyleField));
  for (int i = 0; i < columns->natts; i++)
  {
    Form_pg_attribute column = TupleDescAttr(columns, i);
    char *name = pstrdup(names == NIL ? NameStr(column->attname) : strVal(list_nth(names, i)));

    copy->columns[i] = describe(copy, name, name, column->atttypid, modifier(copy, column, i), 0);
  }
  MemoryContextSwitchTo(before);
}

void
open_encoder(Copy *copy)
{
  check(copy, hypostyle_encoder_open(copy->fields, copy->field_count, &copy->options.encoder, &copy->encoder,
                                     &copy->arrays, &copy->room, &copy->failure));
  for (int i = 0; i < copy->column_count; i++)
    (void) measure(copy, copy->columns[i]);
}

/* Describes the columns, and answers that rows come. Whatever can be refused is refused before. */
static void
copy_start(Copy *copy, TupleDesc columns)
{
  StringInfoData answer;

  if (!copy->relays)
    describe_columns(copy, columns, NIL);
  open_encoder(copy);
  /* CopyOutResponse: binary, as each column is. */
  pq_beginmessage(&answer, 'H');
  pq_sendbyte(&answer, 1);
  pq_sendint16(&answer, (uint16) copy->column_count);
  for (int i = 0; i < copy->column_count; i++)
    pq_sendint16(&answer, 1);
  pq_endmessage(&answer);
  (void) put_frames(copy);
}

static inline bool
is_full(const Copy *copy)
{
  if (copy->rows >= copy->room.rows)
    return true;
  if (copy->bytes < copy->room.bytes)
    return false;
  /* Whole blocks pack better, and are waited for where that makes a chunk a little longer. */
  return copy->rows < BLOCK || copy->rows % BLOCK == 0 || copy->bytes >= copy->room.bytes / 4 * 5;
}

static inline bool
put_row(Copy *copy, TupleTableSlot *slot)
{
  MemoryContext before;

  slot_getallattrs(slot);
  before = MemoryContextSwitchTo(copy->row);
  copy->before = copy->bytes;
  for (int i = 0; i < copy->column_count; i++)
  {
    if (slot->tts_isnull[i])
      put_null(copy, copy->columns[i]);
    else
      put_value(copy, copy->columns[i], slot->tts_values[i]);
  }
  MemoryContextSwitchTo(before);
  MemoryContextReset(copy->row);
  copy->rows++;
  copy->bytes += copy->room.row_bytes;
  return is_full(copy);
}

bool
add_row(Copy *copy, TupleTableSlot *slot)
{
  return put_row(copy, slot);
}

static void
copy_row(Copy *copy, TupleTableSlot *slot)
{
  if (likely(!put_row(copy, slot)))
    return;
  encode_rows(copy);
  send_frames(copy);
}

/* Sends a chunk that a worker has encoded, or this process beside them: its bytes before codecs stand before
 * it. */
static void
copy_chunk(Copy *copy, TupleTableSlot *slot)
{
  struct varlena *message;
  size_t length;
  uint64 raw;
  uint64 rows;

  slot_getallattrs(slot);
  if (slot->tts_isnull[0])
    elog(ERROR, "a worker has sent no chunk");
  message = PG_DETOAST_DATUM_PACKED(slot->tts_values[0]);
  length = VARSIZE_ANY_EXHDR(message);
  if (length < sizeof(raw))
    elog(ERROR, "a worker has sent %zu bytes for a chunk", length);
  memcpy(&raw, VARDATA_ANY(message), sizeof(raw));
  check(copy, hypostyle_encoder_relay(copy->encoder, VARDATA_ANY(message) + sizeof(raw), length - sizeof(raw),
                                      raw, &rows, &copy->failure));
  copy->relayed += rows;
  send_frames(copy);
}

/* The last chunk, and what ends the stream. */
static void
copy_end(Copy *copy, uint64 affected)
{
  encode_rows(copy);
  (void) put_frames(copy);
  check(copy, hypostyle_encoder_end(copy->encoder, affected, IsTransactionBlock(), &copy->failure));
  (void) put_frames(copy);
  pq_putemptymessage('c');
}

static bool
receive_slot(TupleTableSlot *slot, DestReceiver *self)
{
  Copy *copy = (Copy *) self;

  if (copy->relays)
    copy_chunk(copy, slot);
  else
    copy_row(copy, slot);
  return true;
}

static void
receive_startup(DestReceiver *self, int operation, TupleDesc columns)
{
  (void) self, (void) operation, (void) columns;
}

static void
receive_nothing(DestReceiver *self)
{
  (void) self;
}

static bool
is_format(const DefElem *option)
{
  return strcmp(option->defname, "format") == 0 && option->arg != NULL && IsA(option->arg, String) &&
         strcmp(strVal(option->arg), "hypostyle") == 0;
}

/* Whether a statement is COPY (query) TO STDOUT (FORMAT hypostyle). */
static bool
is_ours(const Node *statement)
{
  const CopyStmt *copy = (const CopyStmt *) statement;
  ListCell *cell;

  if (!IsA(statement, CopyStmt) || copy->is_from || copy->is_program || copy->filename != NULL ||
      copy->relation != NULL || copy->query == NULL)
    return false;
  foreach (cell, copy->options)
    if (is_format(lfirst_node(DefElem, cell)))
      return true;
  return false;
}

/* Whether the client's end of the connection is the one that it has named: then it is on this machine, and
 * nothing between passes the connection on. */
static bool
is_peer(const char *origin)
{
  const SockAddr *peer = &MyProcPort->raddr;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];

#ifdef SO_PEERCRED
  if (peer->addr.ss_family == AF_UNIX)
  {
    struct
    {
      int pid;
      unsigned user, group;
    } other;
    socklen_t length = sizeof(other);

    return getsockopt(MyProcPort->sock, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 &&
           strcmp(origin, psprintf("%d", other.pid)) == 0;
  }
#endif
  if (getnameinfo((const struct sockaddr *) &peer->addr, peer->salen, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return false;
  return strcmp(origin, psprintf(strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port)) == 0;
}

static int64
read_number(ParseState *parse, DefElem *option, int64 least, int64 most)
{
  int64 number = defGetInt64(option);

  if (number < least || number > most)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("%s must be " INT64_FORMAT " to " INT64_FORMAT, option->defname, least, most),
             parser_errposition(parse, option->location)));
  return number;
}

static void
read_protocol(ParseState *parse, DefElem *option)
{
  int64 version = defGetInt64(option);

  if (version < 1 || version > hypostyle_encoder_protocol())
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("version " INT64_FORMAT " of the protocol is not spoken here", version),
             errhint("This server speaks versions 1 to %u.", hypostyle_encoder_protocol()),
             parser_errposition(parse, option->location)));
}

static void
read_numerics(ParseState *parse, DefElem *option, Options *options)
{
  const char *value = defGetString(option);
  int end = 0;

  if (strcmp(value, "text") == 0)
    options->numerics = NUMERIC_TEXT;
  else if (strcmp(value, "auto") == 0)
    options->numerics = NUMERIC_AUTO;
  else if (strcmp(value, "double") == 0)
    options->numerics = NUMERIC_DOUBLE;
  else if (sscanf(value, "decimal(%2d,%2d)%n", &options->precision, &options->scale, &end) == 2 &&
           value[end] == '\0' && end > 0 && options->precision >= 1 && options->scale >= 0 &&
           options->precision <= DECIMAL_DIGITS_MAX && options->scale <= options->precision)
    options->numerics = NUMERIC_DECIMAL;
  else
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("numeric must be auto, text, double or decimal(precision,scale), and not \"%s\"", value),
             errhint("A precision is 1 to %d, and a scale 0 to the precision.", DECIMAL_DIGITS_MAX),
             parser_errposition(parse, option->location)));
}

static Options
read_options(ParseState *parse, List *list)
{
  Options options = {.encoder = {.codecs = hypostyle_encoder_codecs(), .frame_bytes = FRAME_BYTES}};
  HypostyleOptions *encoder = &options.encoder;
  ListCell *cell;
  ListCell *other;

  foreach (cell, list)
  {
    DefElem *option = lfirst_node(DefElem, cell);
    const char *name = option->defname;

    foreach (other, list)
      if (lfirst(other) != option && strcmp(lfirst_node(DefElem, other)->defname, name) == 0)
        ereport(ERROR,
                (errcode(ERRCODE_SYNTAX_ERROR), errmsg("conflicting or redundant options"),
                 parser_errposition(parse, option->location)));
    if (is_format(option))
      continue;
    else if (strcmp(name, "protocol") == 0)
      read_protocol(parse, option);
    else if (strcmp(name, "codecs") == 0)
      encoder->codecs = (uint32_t) read_number(parse, option, 0, PG_UINT32_MAX);
    else if (strcmp(name, "codec") == 0)
      encoder->codec = defGetString(option);
    else if (strcmp(name, "chunk_bytes") == 0)
      encoder->chunk_bytes = (uint32_t) read_number(parse, option, 0, PG_UINT32_MAX);
    else if (strcmp(name, "frame_bytes") == 0)
      encoder->frame_bytes = (uint32_t) read_number(parse, option, 1 << 20, FRAME_BYTES_MAX);
    else if (strcmp(name, "origin") == 0)
      encoder->is_local = is_peer(defGetString(option));
    else if (strcmp(name, "numeric") == 0)
      read_numerics(parse, option, &options);
    else
      ereport(ERROR,
              (errcode(ERRCODE_SYNTAX_ERROR),
               errmsg("option \"%s\" is not one of the format hypostyle", name),
               errhint("It has protocol, codecs, codec, chunk_bytes, frame_bytes, origin and numeric."),
               parser_errposition(parse, option->location)));
  }
  return options;
}

/* Plans as if rows from workers cost nothing on their way: they are encoded before. */
static PlannedStmt *
plan_for_workers(Query *query, const char *text, ParamListInfo params)
{
  double before = parallel_tuple_cost;
  PlannedStmt *volatile plan = NULL;

  PG_TRY();
  {
    parallel_tuple_cost = 0;
    plan = pg_plan_query(query, text, CURSOR_OPT_PARALLEL_OK, params);
  }
  PG_FINALLY();
  {
    parallel_tuple_cost = before;
  }
  PG_END_TRY();
  return plan;
}

/* Plans the query, with what COPY allows. */
static PlannedStmt *
plan_query(const CopyStmt *statement, const PlannedStmt *outer, const char *text, ParamListInfo params,
           QueryEnvironment *environment, Options *options)
{
  RawStmt *raw = makeNode(RawStmt);
  int count = params == NULL ? 0 : params->numParams;
  Oid *types = palloc(Max(1, count) * sizeof(Oid));
  List *rewritten;
  Query *query;

  for (int i = 0; i < count; i++)
  {
    ParamExternData fetched;

    types[i] = params->paramFetch == NULL ? params->params[i].ptype
                                          : params->paramFetch(params, i + 1, true, &fetched)->ptype;
  }
  raw->stmt = copyObject(statement->query);
  raw->stmt_location = outer->stmt_location;
  raw->stmt_len = outer->stmt_len;
  rewritten = pg_analyze_and_rewrite_fixedparams(raw, text, types, count, environment);
  if (list_length(rewritten) != 1)
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("COPY does not support rules that make none or several statements of one")));
  query = linitial_node(Query, rewritten);
  if (query->commandType == CMD_UTILITY)
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("COPY (SELECT INTO) is not supported, nor are utility statements")));
  if (query->commandType != CMD_SELECT && query->returningList == NIL)
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("COPY query must have a RETURNING clause")));
  /* Planning changes the query. */
  if (options->numerics == NUMERIC_AUTO)
    options->modifiers = find_modifiers(query, &options->modifier_count);
  return encode_in_workers ? plan_for_workers(query, text, params)
                           : pg_plan_query(query, text, CURSOR_OPT_PARALLEL_OK, params);
}

Copy *
make_copy(const Options *options)
{
  MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "hypostyle", ALLOCSET_DEFAULT_SIZES);
  Copy *copy = MemoryContextAllocZero(memory, sizeof(Copy));

  copy->memory = memory;
  copy->row = AllocSetContextCreate(memory, "hypostyle row", ALLOCSET_DEFAULT_SIZES);
  copy->options = *options;
  copy->receiver.receiveSlot = receive_slot;
  copy->receiver.rStartup = receive_startup;
  copy->receiver.rShutdown = receive_nothing;
  copy->receiver.rDestroy = receive_nothing;
  copy->receiver.mydest = DestCopyOut;
  copy->callback.func = free_encoder;
  copy->callback.arg = copy;
  MemoryContextRegisterResetCallback(memory, &copy->callback);
  return copy;
}

/* Runs the query into the client. */
static uint64
run(Copy *copy, PlannedStmt *plan, const char *text, ParamListInfo params, QueryEnvironment *environment)
{
  QueryDesc *query;
  MemoryContext before;
  uint64 rows;

  if (encode_in_workers && plan->commandType == CMD_SELECT && IsA(plan->planTree, Gather))
  {
    TupleDesc columns = ExecCleanTypeFromTL(plan->planTree->targetlist);

    describe_columns(copy, columns, NIL);
    copy->relays = workers_may_encode(copy, plan);
    if (copy->relays)
      let_workers_encode(copy, plan, columns);
    else
      copy->field_count = 0;
  }
  PushCopiedSnapshot(GetActiveSnapshot());
  UpdateActiveSnapshotCommandId();
  query = CreateQueryDesc(plan, text, GetActiveSnapshot(), InvalidSnapshot, &copy->receiver, params,
                          environment, 0);
  /* Rights are checked here, and nowhere else. */
  ExecutorStart(query, 0);
  before = MemoryContextSwitchTo(copy->memory);
  copy_start(copy, query->tupDesc);
  MemoryContextSwitchTo(before);
#if PG_VERSION_NUM >= 180000
  ExecutorRun(query, ForwardScanDirection, 0);
#else
  ExecutorRun(query, ForwardScanDirection, 0, true);
#endif
  rows = copy->relays ? copy->relayed : query->estate->es_processed;
  ExecutorFinish(query);
  copy_end(copy, plan->commandType == CMD_SELECT ? PG_UINT64_MAX : rows);
  ExecutorEnd(query);
  FreeQueryDesc(query);
  PopActiveSnapshot();
  return rows;
}

static void
process_utility(PlannedStmt *statement, const char *text, bool is_read_only, ProcessUtilityContext context,
                ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver,
                QueryCompletion *completion)
{
  const CopyStmt *stmt = (const CopyStmt *) statement->utilityStmt;
  ParseState *parse;
  PlannedStmt *plan;
  Options options;
  Copy *copy;
  uint64 rows;

  if (!is_ours(statement->utilityStmt))
  {
    ProcessUtility_hook_type next = next_process_utility ? next_process_utility : standard_ProcessUtility;

    next(statement, text, is_read_only, context, params, environment, receiver, completion);
    return;
  }
  check_stack_depth();
  if (whereToSendOutput != DestRemote)
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the format hypostyle is only sent to clients")));
  parse = make_parsestate(NULL);
  parse->p_sourcetext = text;
  parse->p_queryEnv = environment;
  options = read_options(parse, stmt->options);
  plan = plan_query(stmt, statement, text, params, environment, &options);
  copy = make_copy(&options);
  rows = run(copy, plan, text, params, environment);
  MemoryContextDelete(copy->memory);
  free_parsestate(parse);
  if (completion != NULL)
    SetQueryCompletion(completion, CMDTAG_COPY, rows);
}

void _PG_init(void);

void
_PG_init(void)
{
  DefineCustomBoolVariable("hypostyle.encode_in_workers", "Lets the workers of parallel queries encode.",
                           "Chunks come in no order then. It is off unless it is asked for.",
                           &encode_in_workers, false, PGC_USERSET, 0, NULL, NULL, NULL);
  MarkGUCPrefixReserved("hypostyle");
  register_workers();
  next_process_utility = ProcessUtility_hook;
  ProcessUtility_hook = process_utility;
}
