//! OLD and NEW in RETURNING (PostgreSQL 18): the values that rows had before a statement changed them, and
//! those that they have since. They stand in further columns of the rows that RETURNING reads, under names
//! that no statement knows. A row that was inserted was not there before, and one that was deleted is not
//! there since: all of its values are NULL then. A column beside them tells what MERGE did.

use crate::statement::referential::Modification;
use crate::statement::refusal::refuse;
use crate::statement::row_locks::called;
use crate::statement::target::Target;
use crate::statement::writer::Writer;
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableWithJoins, WildcardAdditionalOptions,
};
use hypostyle_error::from_datafusion;
use hypostyle_exec::scan::{engine_array, engine_field};
use hypostyle_sql::build;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::plain::relations_of;
use hypostyle_sql::walk::{checked, done, expressions, expressions_mut};
use hypostyle_types::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The column that tells what MERGE did, and the function that stands for it.
const ACTION: &str = "__merge_action";
const MERGE_ACTION: &str = "merge_action";

/// One of the two versions of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Old,
    New,
}

impl Version {
    const ALL: [Self; 2] = [Self::Old, Self::New];

    fn name(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }

    /// Returns the name of the column that has this version of another one.
    fn column(self, name: &str) -> String {
        format!("__{} {name}", self.name())
    }
}

/// What a statement did with a row, with the versions that there are.
#[derive(Clone, Copy)]
pub(super) enum Did<'a> {
    Insert,
    Update { old: &'a [ArrayRef] },
    Delete,
}

/// The versions that a statement may name: those whose names none of its relations has.
pub(super) struct Versions(Vec<Version>);

impl Versions {
    fn new(relations: &[String]) -> Self {
        let is_free = |version: &Version| !relations.iter().any(|relation| relation == version.name());
        Self(Version::ALL.into_iter().filter(is_free).collect())
    }

    /// Returns those that items of RETURNING name; `None` where they name none, and ask for no action either.
    pub fn named_in(relations: &[String], items: &[SelectItem]) -> Option<Self> {
        let versions = Self::new(relations);
        let is_whole = |item: &SelectItem| versions.whole(item).is_some();
        let found = expressions(items, &mut |expr| match expr {
            Expr::CompoundIdentifier(parts)
                if parts.first().is_some_and(|name| versions.named(name).is_some()) =>
            {
                ControlFlow::Break(())
            }
            expr if is_action(expr) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        (found.is_break() || items.iter().any(is_whole)).then_some(versions)
    }

    fn named(&self, name: &Ident) -> Option<Version> {
        let name = fold(name);
        self.0.iter().copied().find(|version| version.name() == name)
    }

    /// Returns the version that `old.*` or `new.*` has all columns of.
    fn whole(&self, item: &SelectItem) -> Option<Version> {
        let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
            return None;
        };
        match name.0.as_slice() {
            [part] => self.named(part.as_ident()?),
            _ => None,
        }
    }

    /// Writes the items of a query, whose columns have been named, as what they mean.
    ///
    /// # Errors
    /// `UnknownName` for a column that the table has not; `Unsupported` for `old.* EXCLUDE …` and the like.
    pub fn write(&self, query: &mut Query, meaning: &Meaning<'_>) -> Result<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
        let mut written = Vec::with_capacity(select.projection.len());
        for mut item in std::mem::take(&mut select.projection) {
            if let Some(version) = self.whole(&item) {
                let is_plain = matches!(&item, SelectItem::QualifiedWildcard(_, options)
                    if *options == WildcardAdditionalOptions::default());
                refuse(!is_plain, &format!("{item} in RETURNING"))?;
                written.extend(meaning.row(version));
                continue;
            }
            meaning.hide(&mut item);
            if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = &item
                && let [version, .., column] = parts.as_slice()
                && self.named(version).is_some()
            {
                let (expr, alias) = (Expr::CompoundIdentifier(parts.clone()), column.clone());
                item = SelectItem::ExprWithAlias { expr, alias };
            }
            checked(expressions_mut(&mut item, &mut |expr| done(self.write_expression(expr, meaning))))?;
            written.push(item);
        }
        select.projection = written;
        Ok(())
    }

    fn write_expression(&self, expr: &mut Expr, meaning: &Meaning<'_>) -> Result<()> {
        let meant = match &*expr {
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [version, column, fields @ ..] => match self.named(version) {
                    Some(version) => Some(meaning.column(version, column, fields)?),
                    None => None,
                },
                _ => None,
            },
            expr if is_action(expr) => Some(meaning.action()),
            _ => None,
        };
        if let Some(meant) = meant {
            *expr = meant;
        }
        Ok(())
    }
}

fn is_action(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case(MERGE_ACTION))
}

/// What the versions of a table's columns are in a query.
pub(super) enum Meaning<'a> {
    /// Columns of a relation.
    Columns { target: &'a Target, relation: &'a str, is_own: bool },
    /// The columns of the table themselves, where only their types are asked for.
    Types { relation: &'a Ident },
}

impl Meaning<'_> {
    fn column(&self, version: Version, column: &Ident, fields: &[Ident]) -> Result<Expr> {
        let mut parts = match self {
            Self::Columns { target, relation, .. } => {
                let place = target.column(&fold(column))?;
                let name = version.column(&target.columns()[place].name);
                vec![build::name(relation), build::name(&name)]
            }
            Self::Types { relation } => vec![(*relation).clone(), column.clone()],
        };
        parts.extend(fields.iter().cloned());
        Ok(Expr::CompoundIdentifier(parts))
    }

    fn row(&self, version: Version) -> Vec<SelectItem> {
        match self {
            Self::Columns { target, relation, .. } => target
                .names()
                .map(|name| build::item_named(build::column_of(relation, &version.column(name)), name))
                .collect(),
            Self::Types { relation } => {
                let relation = ObjectName::from(vec![(*relation).clone()]);
                let kind = SelectItemQualifiedWildcardKind::ObjectName(relation);
                vec![SelectItem::QualifiedWildcard(kind, WildcardAdditionalOptions::default())]
            }
        }
    }

    fn action(&self) -> Expr {
        match self {
            Self::Columns { relation, .. } => build::column_of(relation, ACTION),
            Self::Types { .. } => build::text("INSERT"),
        }
    }

    /// Leaves the versions out of what `*` stands for.
    fn hide(&self, item: &mut SelectItem) {
        let Self::Columns { target, is_own, .. } = self else { return };
        let options = match item {
            SelectItem::Wildcard(options) => options,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if *is_own
                    && name
                        .0
                        .last()
                        .and_then(|name| name.as_ident())
                        .is_some_and(|name| fold(name) == target.alias) =>
            {
                options
            }
            _ => return,
        };
        let mut hidden: Vec<ObjectName> = match options.opt_exclude.take() {
            None => Vec::new(),
            Some(ExcludeSelectItem::Single(name)) => vec![name],
            Some(ExcludeSelectItem::Multiple(names)) => names,
        };
        hidden.extend(names_of(target).map(|name| ObjectName::from(build::name(&name))));
        options.opt_exclude = Some(ExcludeSelectItem::Multiple(hidden));
    }
}

/// Returns the names of the columns of both versions, and of the action.
fn names_of(target: &Target) -> impl Iterator<Item = String> {
    let of_version = move |version: Version| target.names().map(move |name| version.column(name));
    Version::ALL.into_iter().flat_map(of_version).chain([ACTION.to_string()])
}

/// Returns the fields of the columns of both versions, and of the action, of a table with some fields.
pub(super) fn fields_of(target: &Target, fields: &Fields) -> Vec<Field> {
    let types = fields.iter().take(target.columns().len()).map(|field| field.data_type().clone());
    let types: Vec<DataType> = types.collect();
    let types = types.iter().chain(&types).cloned().chain([DataType::Utf8]);
    names_of(target).zip(types).map(|(name, data_type)| Field::new(name, data_type, true)).collect()
}

/// Returns the names of relations in FROM.
pub(super) fn relation_names(from: &[TableWithJoins]) -> Vec<String> {
    relations_of(from).into_iter().filter_map(called).collect()
}

/// Returns rows with their versions behind.
pub(super) fn with_versions(target: &Target, rows: &RecordBatch, did: Did<'_>) -> Result<RecordBatch> {
    let own = &rows.columns()[..target.columns().len()];
    let none = || -> Vec<ArrayRef> {
        own.iter().map(|column| new_null_array(column.data_type(), rows.num_rows())).collect()
    };
    let (old, new, action): (Vec<ArrayRef>, Vec<ArrayRef>, &str) = match did {
        Did::Insert => (none(), own.to_vec(), "INSERT"),
        Did::Update { old } => (old.to_vec(), own.to_vec(), "UPDATE"),
        Did::Delete => (own.to_vec(), none(), "DELETE"),
    };
    let action = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(action, rows.num_rows())));
    let schema = rows.schema();
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    fields.extend(fields_of(target, schema.fields()).into_iter().map(Arc::new));
    let columns = rows.columns().iter().cloned().chain(old).chain(new).chain([action as ArrayRef]);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect())
        .map_err(|error| Error::internal(format!("cannot arrange the versions of rows: {error}")))
}

impl Writer<'_> {
    /// Returns what a table has at some positions, in the engine's types.
    pub(super) fn stored_rows(&self, target: &Target, positions: &UInt64Array) -> Result<Vec<ArrayRef>> {
        let all: Vec<usize> = (0..target.columns().len()).collect();
        let stored = target.data.rows_at(&all, positions, self.threads)?;
        let columns = target.data.columns().iter().zip(&stored);
        columns
            .map(|(column, values)| {
                let field = engine_field(&target.data, column);
                engine_array(values, field.data_type()).map_err(from_datafusion)
            })
            .collect()
    }

    /// Returns the rows that a change leaves, with their versions.
    pub(super) fn versions_of(
        &self,
        target: &Target,
        modification: &Modification,
    ) -> Result<Vec<RecordBatch>> {
        let inserted = modification.inserted.iter().map(|rows| with_versions(target, rows, Did::Insert));
        let updated = modification.updated.iter().map(|(positions, rows)| {
            let old = self.stored_rows(target, positions)?;
            with_versions(target, rows, Did::Update { old: &old })
        });
        inserted.chain(updated).collect()
    }
}
