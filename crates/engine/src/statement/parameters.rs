//! Describes a statement before it runs: the types of its parameters, and the columns of its
//! result.

use crate::session::outcome::{Described, DescribedColumn, Gives};
use crate::session::statement_cache::{LastRead, placeholder};
use crate::session::{Session, planned};
use crate::statement::dialect::{extension, name_columns_for};
use crate::statement::error_place::located;
use crate::statement::explain_options::{columns_of, columns_of_plans};
use crate::statement::given_types::give_told;
use crate::statement::names::Names;
use crate::statement::planned_parameters::needs_values;
use crate::statement::queries::Queries;
use crate::statement::versions::{Meaning, Versions, relation_names};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Delete, Expr, FromTable, FunctionArg, FunctionArgExpr,
    FunctionArguments, Insert, LimitClause, ObjectName, OutputClause, Query, SelectItem, SetExpr, Statement,
    TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind, Value, With,
};
use hypostyle_bind::in_own_forms;
use hypostyle_catalog::kept::KeptPlan;
use hypostyle_catalog::origin::origins;
use hypostyle_catalog::pg_catalog::Origin;
use hypostyle_catalog::scope::Scope;
use hypostyle_exec::memory::for_text;
use hypostyle_expr::common_type::CHOOSING;
use hypostyle_expr::types::logical_type;
use hypostyle_sql::common_table::{main_of, writes_within, writing};
use hypostyle_sql::gate::{check_size, with_room};
use hypostyle_sql::insert_clauses::is_by_name;
use hypostyle_sql::walk::{expressions, expressions_mut};
use hypostyle_sql::{Statement as SqlStatement, build, selected};
use hypostyle_storage::TableEntry;
use hypostyle_types::{LogicalType, Result};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The types that are known of parameters, by their numbers from 1.
type Known = HashMap<usize, LogicalType>;

impl Session {
    pub(super) fn describer(&self) -> Describer<'_> {
        let is_wire = self.settings.is_wire();
        Describer { queries: self, scope: &self.scope, context: &self.context, is_wire }
    }

    /// Describes one statement, with `$1` for its parameters, of which the first ones may have
    /// types that the caller gives.
    ///
    /// # Errors
    /// Those of parsing it, and of planning it if it is a query.
    pub fn describe_statement(&self, sql: &str, given: &[Option<DataType>]) -> Result<Described> {
        let _text = for_text(sql, &self.context.runtime_env().memory_pool)?;
        with_room(sql, self.kept_macros().parts(), || {
            let _running = self.enter();
            self.check_killed()?;
            let name = *self.next_name.lock();
            let described = self.in_transaction(sql, || {
                check_size(sql)?;
                self.describe_one(sql, given).map_err(|error| located(error, sql))
            });
            // The client has named the statement that runs, not its description.
            *self.next_name.lock() = name;
            described
        })
    }

    /// Checks that a text is a statement, without asking what its names mean.
    ///
    /// # Errors
    /// Those of parsing it.
    pub fn check_syntax(&self, sql: &str) -> Result<()> {
        if self.remembered.lock().get(sql).is_some() {
            return Ok(());
        }
        let _text = for_text(sql, &self.context.runtime_env().memory_pool)?;
        with_room(sql, 0, || {
            let parsed = check_size(sql).and_then(|()| {
                let is_wire = self.settings.is_wire();
                let statement = SqlStatement::parse(sql, None, extension(is_wire))?;
                *self.last_read.lock() = LastRead::new(sql, is_wire, statement);
                Ok(())
            });
            parsed.map_err(|error| located(error, sql))
        })
    }

    fn describe_one(&self, sql: &str, given: &[Option<DataType>]) -> Result<Described> {
        let (statement, _) = self.meant(sql, self.read_before_it_runs(sql)?)?;
        self.describer().describe_read(statement, given)
    }

    /// Reads a statement that will run afterwards.
    fn read_before_it_runs(&self, sql: &str) -> Result<SqlStatement> {
        let is_wire = self.settings.is_wire();
        let mut last = self.last_read.lock();
        if let Some(known) = last.as_ref().filter(|last| last.is(sql, is_wire, None)) {
            return Ok(known.statement.clone());
        }
        let statement = SqlStatement::parse(sql, None, extension(is_wire))?;
        *last = LastRead::new(sql, is_wire, statement.clone());
        Ok(statement)
    }

    /// Aborts the open transaction, as an error in one of its statements does.
    pub fn abort_transaction(&self, why: &str) {
        if let Some(explicit) = self.transaction.lock().as_mut() {
            explicit.abort(why);
        }
    }
}

/// What describes statements before they run: it plans queries, and runs none.
pub(super) struct Describer<'a> {
    queries: &'a dyn Queries,
    scope: &'a Arc<Scope>,
    context: &'a SessionContext,
    /// The session speaks PostgreSQL's protocol.
    is_wire: bool,
}

impl Describer<'_> {
    fn names(&self) -> Names<'_> {
        Names { scope: self.scope }
    }

    fn describe_read(&self, statement: SqlStatement, given: &[Option<DataType>]) -> Result<Described> {
        let gives = match statement {
            SqlStatement::Tree(statement) => return self.describe_parsed(*statement, given),
            SqlStatement::Explain(options, explained) => {
                let gives = Gives::Rows(columns_of(options));
                let explained = self.describe_read(*explained, given)?;
                return Ok(Described { gives, origins: Vec::new(), ..explained });
            }
            SqlStatement::Cluster(statement) if !statement.gives_rows() => Gives::Nothing,
            SqlStatement::Cluster(_)
            | SqlStatement::CheckDatabase
            | SqlStatement::Pragma(_)
            | SqlStatement::ReadPartition { .. }
            | SqlStatement::ShowDatabases
            | SqlStatement::ShowIndexes
            | SqlStatement::ShowPartitions { .. }
            | SqlStatement::ShowSessions
            | SqlStatement::Summarize(_) => Gives::Unknown,
            _ => Gives::Nothing,
        };
        Ok(Described { parameters: Vec::new(), gives, origins: Vec::new(), follows_definitions: false })
    }

    fn describe_parsed(&self, statement: DfStatement, given: &[Option<DataType>]) -> Result<Described> {
        let mut statement = match statement {
            DfStatement::Statement(statement) => statement,
            DfStatement::Explain(explain) => {
                let gives = Gives::Rows(columns_of_plans());
                let explained = self.describe_parsed(*explain.statement, given)?;
                return Ok(Described { gives, origins: Vec::new(), ..explained });
            }
            _ => {
                let (parameters, origins) = (Vec::new(), Vec::new());
                let (gives, follows_definitions) = (Gives::Unknown, false);
                return Ok(Described { parameters, gives, origins, follows_definitions });
            }
        };
        let count = placeholders(statement.as_ref());
        if let Statement::Query(query) = statement.as_mut() {
            name_columns_for(query, self.is_wire);
        }
        let told = told_by_syntax(statement.as_ref());
        let lists = without_lists(statement.as_mut());
        let mut known = Known::new();
        let (mut origins, mut follows_definitions) = (Vec::new(), false);
        let needs_values = needs_values(statement.as_ref());
        give_told(statement.as_mut(), given);
        let gives = match *statement {
            Statement::Query(query) if writes_within(&query) => {
                self.describe_with_writes(*query, &mut known, given)?
            }
            Statement::Query(query) => match self.queries.plan_as_written(Statement::Query(query)) {
                Ok(plan) => {
                    known = types_of(&plan);
                    known.extend(told.clone());
                    let types = Types { given, known: &known };
                    origins = self.origins_of(&plan);
                    follows_definitions = KeptPlan::of(&plan, self.scope).is_some();
                    Gives::Rows(self.columns_given(plan, &types)?)
                }
                Err(_) if needs_values => Gives::Unknown,
                Err(error) => return Err(error),
            },
            Statement::Insert(insert) => self.describe_insert(&insert, &mut known, given)?,
            Statement::Update(update) => self.describe_update(&update, &mut known, given)?,
            Statement::Delete(delete) => self.describe_delete(&delete, &mut known, given)?,
            Statement::Merge(merge) => {
                let items = match &merge.output {
                    Some(OutputClause::Returning { select_items, .. }) => Some(select_items.as_slice()),
                    _ => None,
                };
                let from = vec![build::alone(merge.table)];
                self.returned(from, items, &Types { given, known: &known })?
            }
            Statement::Explain { .. }
            | Statement::ExplainTable { .. }
            | Statement::ShowCreate { .. }
            | Statement::ShowVariable { .. }
            | Statement::ShowTables { .. }
            | Statement::ShowColumns { .. }
            | Statement::Execute { .. } => Gives::Unknown,
            _ => Gives::Nothing,
        };
        for number in lists {
            let element = known.remove(&number).map(Box::new);
            known.extend(element.map(|element| (number, LogicalType::List { element })));
        }
        known.extend(told);
        let parameters = (1..=count).map(|number| known.remove(&number)).collect();
        Ok(Described { parameters, gives, origins, follows_definitions })
    }

    /// Plans a query for the types of its parameters only. What is wrong with it is told when it
    /// runs.
    fn learn(&self, query: Result<Query>, known: &mut Known) {
        if let Ok(query) = query
            && let Ok(plan) = self.queries.plan_as_written(Statement::Query(Box::new(query)))
        {
            for (number, logical_type) in types_of(&plan) {
                known.entry(number).or_insert(logical_type);
            }
        }
    }

    fn describe_insert(
        &self,
        insert: &Insert,
        known: &mut Known,
        given: &[Option<DataType>],
    ) -> Result<Gives> {
        let by_name;
        let insert = match is_by_name(insert.partitioned.as_deref()) {
            true => {
                let mut named = insert.clone();
                name_by_query(self.queries, &mut named)?;
                by_name = named;
                &by_name
            }
            false => insert,
        };
        let TableObject::TableName(table) = &insert.table else { return Ok(Gives::Unknown) };
        if let Some(entry) = self.names().entry(table)?
            && let Some(source) = &insert.source
        {
            let columns: Vec<&LogicalType> = match insert.columns.is_empty() {
                true => entry.columns.iter().map(|column| &column.logical_type).collect(),
                false => {
                    let named = insert.columns.iter().map(hypostyle_sql::identifier::last_of);
                    let named = named.collect::<Result<Vec<_>>>()?;
                    let found = named.iter().filter_map(|name| entry.column_meant(name));
                    found.map(|column| &column.logical_type).collect()
                }
            };
            let mut learn = |value: &Expr, index: usize| {
                if let (Some(number), Some(logical_type)) = (placeholder(value), columns.get(index)) {
                    known.entry(number).or_insert_with(|| (*logical_type).clone());
                }
            };
            match source.body.as_ref() {
                SetExpr::Values(values) => {
                    for row in &values.rows {
                        row.iter().enumerate().for_each(|(index, value)| learn(value, index));
                    }
                }
                SetExpr::Select(select) => {
                    for (index, item) in select.projection.iter().enumerate() {
                        if let SelectItem::UnnamedExpr(value)
                        | SelectItem::ExprWithAlias { expr: value, .. } = item
                        {
                            learn(value, index);
                        }
                    }
                }
                _ => {}
            }
            self.learn(Ok(source.as_ref().clone()), known);
        }
        let alias = insert.table_alias.as_ref().map(|called| called.alias.clone());
        let from = vec![build::alone(build::table(table.clone(), alias))];
        self.returned(from, insert.returning.as_deref(), &Types { given, known })
    }

    fn describe_update(
        &self,
        update: &Update,
        known: &mut Known,
        given: &[Option<DataType>],
    ) -> Result<Gives> {
        let entry = match &update.table.relation {
            TableFactor::Table { name, .. } => self.names().entry(name)?,
            _ => None,
        };
        let mut items = Vec::new();
        for assignment in &update.assignments {
            let AssignmentTarget::ColumnName(column) = &assignment.target else { continue };
            let column = hypostyle_sql::identifier::last_of(column)?;
            let column = entry.as_ref().and_then(|entry| entry.column_meant(&column));
            match (placeholder(&assignment.value), column) {
                (Some(number), Some(column)) => {
                    known.entry(number).or_insert_with(|| column.logical_type.clone());
                }
                _ => items.push(build::item(assignment.value.clone())),
            }
        }
        items.push(build::item(build::number(1)));
        let from = match &update.from {
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                from.as_slice()
            }
            None => &[],
        };
        let from: Vec<TableWithJoins> = [&update.table].into_iter().chain(from).cloned().collect();
        self.learn(selected::query(items, from.clone(), update.selection.clone()), known);
        self.returned(from, update.returning.as_deref(), &Types { given, known })
    }

    fn describe_delete(
        &self,
        delete: &Delete,
        known: &mut Known,
        given: &[Option<DataType>],
    ) -> Result<Gives> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let using = delete.using.as_deref().unwrap_or_default();
        let from: Vec<TableWithJoins> = from.iter().chain(using).cloned().collect();
        if delete.selection.is_some() {
            let items = vec![build::item(build::number(1))];
            self.learn(selected::query(items, from.clone(), delete.selection.clone()), known);
        }
        self.returned(from, delete.returning.as_deref(), &Types { given, known })
    }

    /// Returns the columns of RETURNING over the tables that it knows.
    fn returned(
        &self,
        from: Vec<TableWithJoins>,
        items: Option<&[SelectItem]>,
        types: &Types<'_>,
    ) -> Result<Gives> {
        let Some(items) = items else { return Ok(Gives::Nothing) };
        let query = self.returned_query(from, items)?;
        let plan = self.queries.plan_as_written(Statement::Query(Box::new(query)))?;
        Ok(Gives::Rows(self.columns_given(plan, types)?))
    }

    /// Returns RETURNING as a query of the tables that it knows.
    fn returned_query(&self, from: Vec<TableWithJoins>, items: &[SelectItem]) -> Result<Query> {
        let names = relation_names(&from);
        let mut query = selected::query(items.to_vec(), from, None)?;
        name_columns_for(&mut query, self.is_wire);
        if let (Some(target), Some(versions)) = (names.first(), Versions::named_in(&names, items)) {
            versions.write(&mut query, &Meaning::Types { relation: &build::name(target) })?;
            name_columns_for(&mut query, self.is_wire);
        }
        Ok(query)
    }

    /// Describes a query whose WITH has statements that write: what these return is read as it would be from
    /// their tables.
    fn describe_with_writes(
        &self,
        mut query: Query,
        known: &mut Known,
        given: &[Option<DataType>],
    ) -> Result<Gives> {
        let Some(With { with_token, recursive, cte_tables }) = query.with.take() else {
            return Ok(Gives::Unknown);
        };
        let mut defined = Vec::with_capacity(cte_tables.len());
        for mut table in cte_tables {
            if let Some(statement) = writing(&table.query).cloned() {
                self.describe_written(&statement, known, given)?;
                let Some((from, items)) = returning_of(&statement) else { continue };
                *table.query = self.returned_query(from, items)?;
            }
            defined.push(table);
        }
        let with = With { with_token, recursive, cte_tables: defined };
        query.with = Some(with).filter(|with| !with.cte_tables.is_empty());
        match main_of(query) {
            main @ Statement::Query(_) => {
                let plan = self.queries.plan_as_written(main)?;
                for (number, logical_type) in types_of(&plan) {
                    known.entry(number).or_insert(logical_type);
                }
                Ok(Gives::Rows(self.columns_given(plan, &Types { given, known })?))
            }
            main => self.describe_written(&main, known, given),
        }
    }

    fn describe_written(
        &self,
        statement: &Statement,
        known: &mut Known,
        given: &[Option<DataType>],
    ) -> Result<Gives> {
        match statement {
            Statement::Insert(insert) => self.describe_insert(insert, known, given),
            Statement::Update(update) => self.describe_update(update, known, given),
            Statement::Delete(delete) => self.describe_delete(delete, known, given),
            _ => Ok(Gives::Unknown),
        }
    }

    /// Returns the columns that a query gives when it runs, whose types follow from those of its
    /// parameters: those of the plan as it is with values of these types. What cannot be planned
    /// without the values themselves is described as it is written.
    fn columns_given(&self, plan: LogicalPlan, types: &Types<'_>) -> Result<Vec<DescribedColumn>> {
        let state = self.context.state();
        let written = columns(plan.schema().as_arrow())?;
        let coerced = types.nulls_for(&plan).and_then(|values| {
            let plan = in_own_forms(plan.with_param_values(values)?)?;
            state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})
        });
        let Ok(coerced) = coerced else { return Ok(written) };
        // Parameters that are all NULL do not say whether a column may be NULL.
        let coerced = columns(coerced.schema().as_arrow())?.into_iter().zip(written);
        Ok(coerced
            .map(|((name, logical_type, _), (_, _, nullable))| (name, logical_type, nullable))
            .collect())
    }

    fn origins_of(&self, plan: &LogicalPlan) -> Vec<Option<Origin>> {
        if self.is_wire { origins(plan, self.scope) } else { Vec::new() }
    }
}

/// Gives an INSERT … BY NAME the names of its query's columns.
pub(super) fn name_by_query(queries: &dyn Queries, insert: &mut Insert) -> Result<()> {
    insert.partitioned = None;
    let Some(source) = insert.source.clone() else { return Ok(()) };
    let plan = queries.plan_as_written(Statement::Query(source))?;
    let names = plan.schema().fields().iter().map(|field| build::name(field.name()));
    insert.columns = names.map(|name| ObjectName::from(vec![name])).collect();
    Ok(())
}

impl Names<'_> {
    fn entry(&self, name: &ObjectName) -> Result<Option<Arc<TableEntry>>> {
        let found = self.resolve(name)?;
        // The server of another system's database finds the types of values.
        if self.scope.foreign(&found.database).is_some() {
            return Ok(None);
        }
        let snapshot = self.scope.database(&found.database)?.snapshot;
        Ok(snapshot.catalog().table(&found.schema, &found.name).cloned())
    }
}

/// The known types of parameters: those of the caller, which are the types of its values, and those
/// that follow from the statement.
struct Types<'a> {
    given: &'a [Option<DataType>],
    known: &'a Known,
}

impl Types<'_> {
    /// Returns a NULL of the right type for each parameter of a plan.
    fn nulls_for(&self, plan: &LogicalPlan) -> datafusion::error::Result<ParamValues> {
        let names = plan.get_parameter_names()?;
        let highest = names.iter().filter_map(|name| name.strip_prefix('$')?.parse::<usize>().ok()).max();
        let null = |number: usize| match self.given.get(number - 1).cloned().flatten() {
            Some(given) => ScalarValue::try_from(&given),
            None => match self.known.get(&number) {
                Some(known) => ScalarValue::try_from(&known.arrow_type()),
                // The parameter is described and given as text.
                None => Ok(ScalarValue::Utf8(None)),
            },
        };
        let nulls = (1..=highest.unwrap_or(0)).map(|number| null(number).map(|null| planned(&null)));
        nulls.collect::<datafusion::error::Result<Vec<_>>>().map(ParamValues::List)
    }
}

/// Returns the types of parameters that are cast, and of those that count rows.
fn told_by_syntax(statement: &Statement) -> Known {
    let mut known = Known::new();
    let _done: ControlFlow<()> = expressions(statement, &mut |expr| {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let Some(number) = placeholder(expr)
            && let Ok(logical_type) = logical_type(data_type)
        {
            known.entry(number).or_insert(logical_type);
        }
        ControlFlow::Continue(())
    });
    if let Statement::Query(query) = statement
        && let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause
    {
        let rows = limit.iter().chain(offset.iter().map(|offset| &offset.value));
        known.extend(rows.filter_map(placeholder).map(|number| (number, LogicalType::BigInt)));
    }
    known
}

/// Returns the list and the value of an `x = ANY (list)`, as parsing has written it.
fn any_equal(expr: &mut Expr) -> Option<(&mut Expr, &mut Expr)> {
    let Expr::Function(function) = expr else { return None };
    if function.name.to_string() != hypostyle_sql::operators::ANY_EQUAL {
        return None;
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.as_mut_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(list)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(sought)),
        ] => Some((list, sought)),
        _ => None,
    }
}

/// Writes `x = $1` for `x = ANY ($1)`: the types are told of elements only. The numbers of the
/// lists.
fn without_lists(statement: &mut Statement) -> BTreeSet<usize> {
    let mut lists = BTreeSet::new();
    let _done: ControlFlow<()> = expressions_mut(statement, &mut |expr| {
        let null = || Expr::Value(Value::Null.into());
        let taken = |expr: &mut Expr| Box::new(std::mem::replace(expr, null()));
        let compared = match &mut *expr {
            Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } => {
                placeholder(right).map(|number| (number, taken(left), compare_op.clone(), taken(right)))
            }
            other => any_equal(other).and_then(|(list, sought)| {
                placeholder(list).map(|number| (number, taken(sought), BinaryOperator::Eq, taken(list)))
            }),
        };
        if let Some((number, left, op, right)) = compared {
            lists.insert(number);
            *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
        }
        ControlFlow::Continue(())
    });
    lists
}

fn columns(schema: &Schema) -> Result<Vec<DescribedColumn>> {
    schema
        .fields()
        .iter()
        .map(|field| Ok((field.name().clone(), LogicalType::from_arrow(field)?, field.is_nullable())))
        .collect()
}

/// Returns the tables of which a statement that writes returns something, and what.
fn returning_of(statement: &Statement) -> Option<(Vec<TableWithJoins>, &[SelectItem])> {
    let (from, items): (Vec<TableWithJoins>, _) = match statement {
        Statement::Insert(insert) => {
            let TableObject::TableName(table) = &insert.table else { return None };
            let alias = insert.table_alias.as_ref().map(|called| called.alias.clone());
            (vec![build::alone(build::table(table.clone(), alias))], &insert.returning)
        }
        Statement::Update(update) => {
            let others = match &update.from {
                Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                    from.as_slice()
                }
                None => &[],
            };
            ([&update.table].into_iter().chain(others).cloned().collect(), &update.returning)
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let using = delete.using.as_deref().unwrap_or_default();
            (from.iter().chain(using).cloned().collect(), &delete.returning)
        }
        _ => return None,
    };
    Some((from, items.as_deref()?))
}

/// Parameters that a statement has: as many as the highest number of them.
pub(super) fn placeholders(statement: &Statement) -> usize {
    let mut highest = 0;
    let _done: ControlFlow<()> = expressions(statement, &mut |expr| {
        highest = highest.max(placeholder(expr).unwrap_or(0));
        ControlFlow::Continue(())
    });
    highest.min(usize::from(u16::MAX))
}

fn types_of(plan: &LogicalPlan) -> Known {
    let types = plan.get_parameter_fields().unwrap_or_default();
    let known = types.into_iter().filter_map(|(name, field)| {
        let number = name.strip_prefix('$')?.parse().ok()?;
        Some((number, LogicalType::from_arrow(field?.as_ref()).ok()?))
    });
    let mut known = known.collect();
    // Only known types are recorded.
    let _done = plan.apply_with_subqueries(|node| {
        learn_from_siblings(node, &mut known);
        Ok(TreeNodeRecursion::Continue)
    });
    known
}

/// Parameters that are results of a CASE, arguments of COALESCE or columns of a UNION have the type
/// of what stands beside them.
fn learn_from_siblings(node: &LogicalPlan, known: &mut Known) {
    if let LogicalPlan::Union(union) = node {
        for (place, field) in union.schema.fields().iter().enumerate() {
            let items: Vec<&PlanExpr> = union.inputs.iter().filter_map(|input| item(input, place)).collect();
            let typed = union.inputs.iter().filter(|input| !item(input, place).is_some_and(is_placeholder));
            let field = typed.map(|input| input.schema().field(place)).next().unwrap_or(field);
            if let Ok(logical_type) = LogicalType::from_arrow(field) {
                learn_alike(&items, &logical_type, known);
            }
        }
    }
    let inputs = node.inputs().into_iter().map(|input| input.schema().as_ref().clone());
    let schema = inputs.reduce(|mut merged, schema| {
        merged.merge(&schema);
        merged
    });
    let schema = schema.unwrap_or_else(DFSchema::empty);
    let _done = node.apply_expressions(|expr| {
        expr.apply(|part| {
            let alike: Vec<&PlanExpr> = match part {
                PlanExpr::Case(case) => {
                    let results = case.when_then_expr.iter().map(|(_, result)| result);
                    results.chain(&case.else_expr).map(Box::as_ref).collect()
                }
                PlanExpr::ScalarFunction(function) if CHOOSING.contains(&function.name()) => {
                    function.args.iter().collect()
                }
                _ => Vec::new(),
            };
            let typed = alike.iter().find(|expr| !is_placeholder(expr) && !is_null(expr));
            if let Some(field) = typed.and_then(|typed| typed.to_field(&schema).ok())
                && let Ok(logical_type) = LogicalType::from_arrow(&field.1)
            {
                learn_alike(&alike, &logical_type, known);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    });
}

fn learn_alike(exprs: &[&PlanExpr], logical_type: &LogicalType, known: &mut Known) {
    for expr in exprs {
        if let PlanExpr::Placeholder(placeholder) = expr
            && let Some(number) = placeholder.id.strip_prefix('$').and_then(|number| number.parse().ok())
        {
            known.entry(number).or_insert_with(|| logical_type.clone());
        }
    }
}

/// Returns the expression of a query's column, without its name.
fn item(plan: &LogicalPlan, place: usize) -> Option<&PlanExpr> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    let mut expr = projection.expr.get(place)?;
    while let PlanExpr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    Some(expr)
}

fn is_placeholder(expr: &PlanExpr) -> bool {
    matches!(expr, PlanExpr::Placeholder(_))
}

fn is_null(expr: &PlanExpr) -> bool {
    matches!(expr, PlanExpr::Literal(value, _) if value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::test_options::OPTIONS;
    use crate::session::{Engine, Parameters};
    use hypostyle_storage::Database;
    use hypostyle_types::Identity;

    #[test]
    fn parameters_beside_other_arguments_are_of_their_type() {
        let engine = Engine::new(Database::in_memory().unwrap(), OPTIONS).unwrap();
        let session = Session::new(engine, Identity::default()).unwrap();
        session.execute("CREATE TABLE t (a BIGINT)", &Parameters::None).unwrap();
        for call in ["coalesce($1, a)", "ifnull($1, a)", "nvl(a, $1)", "nullif($1, a)"] {
            let described = session.describe_statement(&format!("SELECT {call} FROM t"), &[]).unwrap();
            assert_eq!(described.parameters, [Some(LogicalType::BigInt)], "{call}");
        }
    }
}
