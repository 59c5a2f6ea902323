//! The place of a query in a statement: the tables that there are, the definitions of WITH, and the rows of
//! the queries around.

use crate::query::frame::{Frame, Meant, Relation, Seen, meant};
use crate::query::refusal::internal;
use crate::query::rows::Rows;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ResolvedTableReference, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, TableSource};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Ident, Query, Statement, TableFactor, Visitor};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_error::complexity::too_complex;
use hypostyle_error::{ambiguous_column, external, no_column};
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_sql::plain::alias_of;
use hypostyle_sql::walk::walk;
use hypostyle_types::{Error, ErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Operators, values and calls of an item that others name.
const NAMED_PARTS_MAX: usize = 4_096;
/// The number of the first parameter of a lambda: no expression has so many names and subqueries.
const PARAMETERS: usize = 1 << 40;
/// Those of all items that are named in a statement.
const ALL_NAMED_PARTS_MAX: usize = 131_072;

/// Binds a query within another one. The clauses that have queries know it by this alone, so that none of
/// them names those that it has.
pub type Binder = fn(&Query, &Scope<'_>) -> Result<Rows>;

/// The session that a statement is bound in, and the tables that it names.
pub struct Tables<'a> {
    pub state: &'a SessionState,
    binder: Binder,
    sources: HashMap<ResolvedTableReference, Arc<dyn TableSource>>,
    /// The names that were made for what has none.
    made: Cell<usize>,
    /// The frames whose columns have been named, each as often as one was.
    named: RefCell<Vec<usize>>,
    /// How many parts the items have that were named, each as often as it was.
    parts: Cell<usize>,
    /// What the statement calls its relations, each as often as it does.
    relations: HashMap<String, usize>,
}

impl<'a> Tables<'a> {
    /// Asks the session's catalogs for the tables that a query names. One that is not there may be a
    /// definition of WITH, or is an error where it is bound.
    ///
    /// # Errors
    /// Those of the catalogs.
    pub async fn read(state: &'a SessionState, query: &Query, binder: Binder) -> Result<Self> {
        let statement = Statement::Query(Box::new(query.clone()));
        let named = state.resolve_table_references(&DfStatement::Statement(Box::new(statement)))?;
        let mut sources = HashMap::with_capacity(named.len());
        for name in named {
            let full = full_name(state, name);
            if sources.contains_key(&full) {
                continue;
            }
            if let Ok(schema) = state.schema_for_ref(full.clone())
                && let Some(table) = schema.table(&full.table).await?
            {
                sources.insert(full, provider_as_source(table));
            }
        }
        let mut relations = Relations(HashMap::new());
        let _all = walk(query, &mut relations);
        Ok(Self {
            state,
            binder,
            sources,
            made: Cell::new(0),
            named: RefCell::default(),
            parts: Cell::new(0),
            relations: relations.0,
        })
    }

    /// Returns the rows of a table, if it is there.
    pub fn source(&self, name: TableReference) -> Option<Arc<dyn TableSource>> {
        self.sources.get(&full_name(self.state, name)).cloned()
    }

    /// Says whether the statement has several relations of a name, in whatever schemas and clauses.
    pub fn has_several(&self, name: &str) -> bool {
        self.relations.get(name).is_some_and(|count| *count > 1)
    }

    /// Returns a name for the parameter of a lambda, which no slot of an expression has, either.
    pub fn new_parameter(&self, shown: &str) -> String {
        let number = PARAMETERS + self.made.get();
        self.made.set(self.made.get() + 1);
        format!("{shown}{ONE_OF}{number}")
    }

    /// Counts the parts of an item that another one names, and so has within it: items that name each other
    /// would double each time.
    ///
    /// # Errors
    /// `Syntax` (54001) for too many.
    pub fn count_parts(&self, item: &Expr, name: &str) -> Result<()> {
        let mut parts = 0;
        item.apply(|_| {
            parts += 1;
            Ok(if parts > NAMED_PARTS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        self.parts.set(self.parts.get() + parts);
        if parts > NAMED_PARTS_MAX || self.parts.get() > ALL_NAMED_PARTS_MAX {
            let message = format!("\"{name}\" stands for too long an expression where it is named");
            return Err(external(too_complex(message)));
        }
        Ok(())
    }

    /// Returns a name that nothing else has, and that is shown as another one.
    pub fn new_name(&self, shown: &str) -> String {
        let number = self.made.get();
        self.made.set(number + 1);
        format!("{shown}{ONE_OF}{number}")
    }
}

/// Counts the names of relations.
struct Relations(HashMap<String, usize>);

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let name = match (alias_of(factor), factor) {
            (Some(alias), _) => Some(fold(&alias.name)),
            (None, TableFactor::Table { name, .. }) => last_of(name).ok(),
            _ => None,
        };
        if let Some(name) = name {
            *self.0.entry(name).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name of a table with those of its schema and its database.
fn full_name(state: &SessionState, name: TableReference) -> ResolvedTableReference {
    let catalog = &state.config_options().catalog;
    name.resolve(&catalog.default_catalog, &catalog.default_schema)
}

/// A query that WITH names.
pub struct Definition {
    pub name: String,
    pub rows: Rows,
}

/// A place of a statement.
pub struct Scope<'a> {
    pub tables: &'a Tables<'a>,
    around: Option<&'a Scope<'a>>,
    definitions: Vec<Definition>,
    frame: Option<&'a Frame>,
}

/// A column that a name means.
pub struct Named {
    pub seen: Seen,
    /// The number of the frame that has it, from the inside out. That of the place itself is 0.
    pub depth: usize,
    /// How many parts of the name it takes. The others are fields.
    pub parts: usize,
}

impl<'a> Scope<'a> {
    /// The place of a statement.
    pub fn new(tables: &'a Tables<'a>) -> Self {
        Self { tables, around: None, definitions: Vec::new(), frame: None }
    }

    /// The place of a query within this one.
    pub fn within<'b>(&'b self) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { tables: self.tables, around: Some(self), definitions: Vec::new(), frame: None }
    }

    /// The place of clauses about some rows.
    pub fn over<'b>(&'b self, frame: &'b Frame) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { frame: Some(frame), ..self.within() }
    }

    /// Binds a query within this place.
    ///
    /// # Errors
    /// Those of the query.
    pub fn rows(&self, query: &Query) -> Result<Rows> {
        (self.tables.binder)(query, &self.within())
    }

    /// Gives a query a name from here on.
    pub fn define(&mut self, definition: Definition) {
        self.definitions.push(definition);
    }

    /// Returns the query that WITH calls so, in the nearest scope that has one.
    pub fn definition(&self, name: &str) -> Option<&Rows> {
        let mut scopes = std::iter::successors(Some(self), |scope| scope.around);
        scopes.find_map(|scope| {
            let own = scope.definitions.iter().rev().find(|definition| definition.name == name);
            own.map(|definition| &definition.rows)
        })
    }

    /// The rows that the place is about.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame
    }

    /// The rows of the places around, from the inside out.
    fn frames_around(&self) -> impl Iterator<Item = &Frame> {
        std::iter::successors(self.around, |scope| scope.around).filter_map(|scope| scope.frame)
    }

    /// Returns the rows at a depth.
    pub fn frame_at(&self, depth: usize) -> Option<&Frame> {
        match depth {
            0 => self.frame,
            depth => self.frames_around().nth(depth - 1),
        }
    }

    /// Says whether a relation of the rows here or around has a name. Plans know those by their names alone:
    /// one of a query within needs another one there.
    pub fn is_taken(&self, name: &str) -> bool {
        let has = |relation: &Relation| relation.name.last().is_some_and(|own| own == name);
        self.frames().any(|(_, frame)| frame.relations.iter().any(has))
    }

    /// Returns all frames with their depths.
    pub fn frames(&self) -> impl Iterator<Item = (usize, &Frame)> {
        self.frame.map(|frame| (0, frame)).into_iter().chain((1..).zip(self.frames_around()))
    }

    /// Returns the column of a name whose relation is written before it, in the nearest frame that has this.
    ///
    /// # Errors
    /// `Syntax` (42702) for one that is in several relations of that name.
    pub fn qualified(&self, name: &[Ident]) -> Result<Option<Named>> {
        for parts in (2..=name.len().min(4)).rev() {
            let (relation, column) = name[..parts].split_at(parts - 1);
            for (depth, frame) in self.frames() {
                // A relation further out is another one, also where this one has no such column.
                let Some(of) = called(frame, relation)? else { continue };
                match one(meant(&of.columns, &column[0]), frame, &column[0], of.name.last())? {
                    Some(seen) => return Ok(Some(Named { seen, depth, parts })),
                    None => break,
                }
            }
        }
        Ok(None)
    }

    /// Returns the column of a frame that a name means by itself.
    ///
    /// # Errors
    /// `Syntax` (42702) for one that is in several relations, or may be several.
    pub fn alone_in(&self, frame: &Frame, name: &Ident) -> Result<Option<Seen>> {
        one(frame.column(name), frame, name, None)
    }

    /// Keeps in mind that a column of a frame has been named.
    pub fn has_named(&self, depth: usize) {
        if let Some(frame) = self.frame_at(depth) {
            self.tables.named.borrow_mut().push(address_of(frame));
        }
    }

    /// Binds a part, and returns the number of the nearest frame of here whose columns were named in it.
    ///
    /// # Errors
    /// Those of the part.
    pub fn nearest_named<T>(&self, bind: impl FnOnce() -> Result<T>) -> Result<(T, Option<usize>)> {
        let before = self.tables.named.borrow().len();
        let bound = bind()?;
        let named = self.tables.named.borrow();
        let nearest = self.frames().find(|(_, frame)| named[before..].contains(&address_of(frame)));
        Ok((bound, nearest.map(|(depth, _)| depth)))
    }

    /// Returns the error that nothing has a name.
    pub fn unknown(&self, name: &[Ident], more: impl Iterator<Item = String>) -> DataFusionError {
        // The schema of a table that is not there is no column either.
        let is_relation = |first: &Ident| {
            let first = std::slice::from_ref(first);
            self.frames().any(|(_, frame)| frame.relations_called(first).next().is_some())
        };
        let name = match name {
            [first, _, _, ..] if is_relation(first) => &name[..2],
            [_, _, _, ..] => &name[..1],
            name => name,
        };
        let Some((column, table)) = name.split_last() else { return internal("a name without parts") };
        let known = self.frames().next().map_or_else(Vec::new, |(_, frame)| frame.known());
        let more = more.map(Column::new_unqualified);
        let known = known.into_iter().chain(more).collect();
        let table = table.last().map(fold);
        external(no_column(&fold(column), table.as_deref(), name[0].span, known))
    }
}

/// What tells a frame from all others while it is there.
fn address_of(frame: &Frame) -> usize {
    std::ptr::from_ref(frame).addr()
}

/// Returns the relation of a name.
///
/// # Errors
/// `Syntax` (42P09) where there are several, of other schemas.
pub fn called<'a>(frame: &'a Frame, name: &'a [Ident]) -> Result<Option<&'a Relation>> {
    let mut relations = frame.relations_called(name);
    match (relations.next(), relations.next()) {
        (found, None) => Ok(found),
        _ => {
            let shown = name.last().map(fold).unwrap_or_default();
            let message =
                format!("\"{shown}\" may be one table or another here; name its schema, or give it an alias");
            Err(external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42P09").about(&shown)))
        }
    }
}

/// Returns the only column that a name means.
fn one(found: Meant<'_>, frame: &Frame, name: &Ident, relation: Option<&String>) -> Result<Option<Seen>> {
    match found {
        Meant::Nothing => Ok(None),
        Meant::Column(seen) => Ok(Some(seen.clone())),
        Meant::Several => Err(external(ambiguous_column(&fold(name), name.span))),
        Meant::Alike => {
            let relation = relation.map(String::as_str);
            Err(external(no_column(&fold(name), relation, name.span, frame.known())))
        }
    }
}
