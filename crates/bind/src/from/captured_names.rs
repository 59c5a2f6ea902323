//! Names of relations of a query around, where a relation within has a column of this name. DataFusion
//! takes `a.x` for the field `x` of that column `a`, and looks around only else. As in PostgreSQL, it is a
//! column of the nearest relation `a`: where both may be meant, the relation gets a name that no column has.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor,
    TableWithJoins, VisitorMut, With,
};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::plain::{alias_of, alias_of_mut, relations_of};
use hypostyle_sql::walk::walk_mut;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Gives such relations of a query other names; whether there are any.
pub async fn rewrite(state: &SessionState, statement: &mut DfStatement) -> bool {
    let statement = match statement {
        DfStatement::Statement(statement) => statement,
        DfStatement::Explain(explain) => return Box::pin(rewrite(state, &mut explain.statement)).await,
        _ => return false,
    };
    if !matches!(**statement, Statement::Query(_) | Statement::Insert(_)) {
        return false;
    }
    let mut renamed = HashSet::new();
    for Captured { owner, name, within } in captured(statement) {
        let key = (owner, name);
        if !renamed.contains(&key) && any_has(state, &within, &key.1).await {
            renamed.insert(key);
        }
    }
    if renamed.is_empty() {
        return false;
    }
    let _done = walk_mut(statement, &mut Names { renamed, ..Names::default() });
    true
}

/// Looks for conditions on fields of columns that have none: such a name means a relation that is not there.
///
/// # Errors
/// That of a column that is not there.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let schema = filter.input.schema();
            let is_of_column = |column: &Column| match &column.relation {
                Some(relation @ TableReference::Bare { table }) => {
                    schema.iter().all(|(qualifier, _)| qualifier != Some(relation))
                        && schema.fields().iter().any(|field| field.name().as_str() == &**table)
                }
                _ => false,
            };
            for column in filter.predicate.column_refs() {
                if is_of_column(column) {
                    schema.index_of_column(column)?;
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The columns that a relation may have.
#[derive(Clone)]
enum Columns {
    Any,
    Named(Vec<String>),
    Of(TableReference),
}

/// A relation of a FROM.
#[derive(Clone)]
struct Relation {
    name: String,
    columns: Columns,
    /// It has no alias, so that its schema may stand before its name.
    is_plain: bool,
}

/// A name that means a relation of a SELECT around, by its number.
struct Captured {
    owner: usize,
    name: String,
    /// The relations between.
    within: Vec<Columns>,
}

/// The relations of a SELECT.
struct Scope {
    number: usize,
    relations: Vec<Relation>,
}

impl Scope {
    fn has(&self, name: &str) -> bool {
        self.relations.iter().any(|relation| relation.name == name)
    }
}

#[derive(Default)]
struct Names {
    scopes: Vec<Scope>,
    /// Numbers of SELECTs whose relations a subquery in their FROM does not see.
    hidden: Vec<usize>,
    /// WITH of the queries around, which see none of their relations.
    taken: Vec<Option<With>>,
    /// The names that these define, and their columns.
    known: Vec<Vec<(String, Columns)>>,
    /// The SELECTs until here.
    count: usize,
    captured: Vec<Captured>,
    /// Relations that get another name; none yet while they are looked for.
    renamed: HashSet<(usize, String)>,
}

fn captured(statement: &mut Statement) -> Vec<Captured> {
    let mut names = Names::default();
    let _done = walk_mut(statement, &mut names);
    names.captured
}

/// Says whether one of some relations may have a column.
async fn any_has(state: &SessionState, relations: &[Columns], name: &str) -> bool {
    for columns in relations {
        let has = match columns {
            Columns::Any => true,
            Columns::Named(names) => names.iter().any(|known| known == name),
            Columns::Of(table) => match state.schema_for_ref(table.clone()) {
                Ok(schema) => match schema.table(table.table()).await {
                    Ok(Some(table)) => {
                        table.schema().fields().iter().any(|field| field.name().eq_ignore_ascii_case(name))
                    }
                    _ => true,
                },
                Err(_) => true,
            },
        };
        if has {
            return true;
        }
    }
    false
}

/// Returns what a relation of a FROM is called, and its columns.
fn relation(factor: &TableFactor) -> Option<Relation> {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(fold)).collect();
            let columns = match parts.as_slice() {
                _ if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) => Columns::Any,
                [name] => Columns::Of(TableReference::bare(name.as_str())),
                [schema, name] => Columns::Of(TableReference::partial(schema.as_str(), name.as_str())),
                [database, schema, name] => {
                    Columns::Of(TableReference::full(database.as_str(), schema.as_str(), name.as_str()))
                }
                _ => Columns::Any,
            };
            let called = alias.as_ref().map(|alias| fold(&alias.name)).or_else(|| parts.last().cloned());
            called.map(|name| Relation { name, columns, is_plain: alias.is_none() })
        }
        TableFactor::Derived { subquery, alias: Some(alias), .. } => {
            let columns = if alias.columns.is_empty() { of_query(subquery) } else { Columns::Any };
            Some(Relation { name: fold(&alias.name), columns, is_plain: false })
        }
        other => alias_of(other).map(|alias| Relation {
            name: fold(&alias.name),
            columns: Columns::Any,
            is_plain: false,
        }),
    }
}

/// Returns the columns that a query names.
fn of_query(query: &Query) -> Columns {
    let SetExpr::Select(select) = query.body.as_ref() else { return Columns::Any };
    let mut names = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => names.push(fold(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => names.push(fold(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => names.extend(parts.last().map(fold)),
            _ => return Columns::Any,
        }
    }
    Columns::Named(names)
}

/// Returns a name that no column has, and that is shown as the other.
fn other_name(name: &str) -> Ident {
    Ident::with_quote('"', format!("{name}{ONE_OF}"))
}

impl Names {
    /// Returns the relations of a FROM, some of which WITH defines.
    fn relations(&self, from: &[TableWithJoins]) -> Vec<Relation> {
        let mut relations: Vec<Relation> = relations_of(from).into_iter().filter_map(relation).collect();
        for relation in &mut relations {
            if let Columns::Of(TableReference::Bare { table }) = &relation.columns {
                let mut defined = self.known.iter().rev().flatten();
                let defined = defined.find(|(name, _)| name.as_str() == &**table);
                if let Some((_, columns)) = defined {
                    relation.columns = columns.clone();
                }
            }
        }
        relations
    }

    /// Returns the scopes that can be seen, from the inside out.
    fn seen(&self) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().rev().filter(|scope| !self.hidden.contains(&scope.number))
    }

    fn is_renamed(&self, number: usize, name: &str) -> bool {
        self.renamed.iter().any(|(owner, known)| *owner == number && known == name)
    }

    /// Looks what the first part of a name means.
    fn look(&mut self, name: &str) {
        // A part of a statement that is asked for its columns may have been here.
        if name.contains(ONE_OF) {
            return;
        }
        let Some(innermost) = self.seen().next().map(|scope| scope.number) else { return };
        let Some(owner) = self.seen().find(|scope| scope.has(name)).map(|scope| scope.number) else { return };
        if owner == innermost {
            return;
        }
        let between = self.seen().take_while(|scope| scope.number != owner);
        let within: Vec<Columns> =
            between.flat_map(|scope| &scope.relations).map(|relation| relation.columns.clone()).collect();
        self.captured.push(Captured { owner, name: name.to_string(), within });
    }

    /// Writes a name with the other one of its relation.
    fn rename(&self, parts: &mut Vec<Ident>) {
        let owner = |name: &str| self.seen().find(|scope| scope.has(name));
        let first = fold(&parts[0]);
        match owner(&first) {
            Some(scope) if self.is_renamed(scope.number, &first) => parts[0] = other_name(&first),
            Some(_) => {}
            None => {
                // A schema may stand before it, and a database before that.
                let is_here = |place: &usize| {
                    let name = fold(&parts[*place]);
                    let is_plain = |scope: &&Scope| {
                        scope.relations.iter().any(|relation| relation.name == name && relation.is_plain)
                    };
                    owner(&name).filter(is_plain).is_some_and(|scope| self.is_renamed(scope.number, &name))
                };
                if let Some(place) = (1..parts.len().min(4) - 1).find(is_here) {
                    parts.drain(..place);
                    parts[0] = other_name(&fold(&parts[0]));
                }
            }
        }
    }

    /// Writes `t.*` in a call, as in `count(t.*)`, with the other name of its relation.
    fn rename_all_of(&self, argument: &mut FunctionArg) {
        if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(ObjectName(parts))) = argument
            && let Some(last) = parts.last().and_then(ObjectNamePart::as_ident).map(fold)
            && let Some(scope) = self.seen().find(|scope| scope.has(&last))
            && self.is_renamed(scope.number, &last)
        {
            *parts = vec![ObjectNamePart::Identifier(other_name(&last))];
        }
    }

    fn rename_relations(&self, number: usize, from: &mut [TableWithJoins]) {
        for tables in from {
            let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut tables.relation).chain(joined) {
                self.rename_relation(number, factor);
            }
        }
    }

    fn rename_relation(&self, number: usize, factor: &mut TableFactor) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.rename_relations(number, std::slice::from_mut(table_with_joins));
            }
            TableFactor::Table { name, alias: alias @ None, args: None, .. } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                if let Some(last) = last.filter(|last| self.is_renamed(number, last)) {
                    let name = other_name(&last);
                    *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                }
            }
            other => {
                if let Some(alias) = alias_of_mut(other) {
                    let name = fold(&alias.name);
                    if self.is_renamed(number, &name) {
                        alias.name = other_name(&name);
                    }
                }
            }
        }
    }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut with = query.with.take();
        self.known.push(Vec::new());
        for table in with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            walk_mut(&mut table.query, self)?;
            let columns = match table.alias.columns.as_slice() {
                [] => of_query(&table.query),
                columns => Columns::Named(columns.iter().map(|column| fold(&column.name)).collect()),
            };
            // The next ones see it.
            if let Some(known) = self.known.last_mut() {
                known.push((fold(&table.alias.name), columns));
            }
        }
        self.taken.push(with);
        // ORDER BY is outside of the SELECT, which has the next number.
        let relations = match query.body.as_ref() {
            SetExpr::Select(select) => self.relations(&select.from),
            _ => Vec::new(),
        };
        self.scopes.push(Scope { number: self.count + 1, relations });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        self.known.pop();
        query.with = self.taken.pop().flatten();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.count += 1;
        let number = self.count;
        let relations = self.relations(&select.from);
        self.scopes.push(Scope { number, relations });
        if !self.renamed.is_empty() {
            self.rename_relations(number, &mut select.from);
            for item in &mut select.projection {
                if let SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)),
                    _,
                ) = item
                    && let Some(last) = parts.last().and_then(ObjectNamePart::as_ident).map(fold)
                    && self.is_renamed(number, &last)
                {
                    *parts = vec![ObjectNamePart::Identifier(other_name(&last))];
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { lateral: false, .. } = factor {
            self.hidden.extend(self.scopes.last().map(|scope| scope.number));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { lateral: false, .. } = factor {
            self.hidden.pop();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr {
            list.args.iter_mut().for_each(|argument| self.rename_all_of(argument));
        }
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 1
        {
            match self.renamed.is_empty() {
                true => self.look(&fold(&parts[0])),
                false => self.rename(parts),
            }
        }
        ControlFlow::Continue(())
    }
}
