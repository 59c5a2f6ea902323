//! Which changes of two transactions cannot both be: functions over catalogs, rows and keys.
//!
//! Each side has checked its changes against what it saw. What one of them has committed is
//! compared here with what the other is about to; nothing here reads files or takes locks.

use crate::rows::{Shift, positions_before};
use crate::table::TableData;
use arrow_array::UInt64Array;
use hypostyle_format::{
    Catalog, Change, ColumnEntry, ConstraintEntry, ConstraintRule, SequenceEntry, TableEntry,
};
use hypostyle_types::{Error, ErrorKind, Result, TableId, Version};
use roaring::RoaringTreemap;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Why, where keys are not looked at.
pub(super) const CHANGED: &str = "was changed by a transaction that committed first";

/// The error for a table that another transaction has changed.
pub(super) fn conflict(table: &str, why: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("table \"{table}\" {why}; roll back and try again"))
}

/// What has become of a table since an earlier version, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Unchanged,
    /// Rows were appended or deleted.
    RowsChanged,
    /// Its definition is another, or its rows are at other places of its files.
    Moved,
    Dropped,
}

impl Fate {
    /// The fate of a table since a version, from its states then and now.
    pub fn of(before: &TableData, now: Option<&TableData>, version: Version) -> Self {
        match now {
            None => Self::Dropped,
            Some(now) if now.beyond_files().moved > version => Self::Moved,
            Some(now) if !now.is_unchanged_since(before, version) => Self::RowsChanged,
            Some(_) => Self::Unchanged,
        }
    }
}

/// Checks that nobody has changed a table that was read as a whole.
///
/// # Errors
/// `Conflict`.
pub(super) fn check_unchanged(table: &str, fate: Fate) -> Result<()> {
    match fate {
        Fate::Unchanged => Ok(()),
        _ => Err(conflict(table, CHANGED)),
    }
}

/// Checks that rows which a transaction has read to rely on them are as they were.
///
/// # Errors
/// `Conflict` when others have deleted or updated one of them, or it is not known where one is.
pub(super) fn check_kept(
    before: Option<&Arc<TableData>>,
    now: Option<&Arc<TableData>>,
    version: Version,
    rows: &RoaringTreemap,
) -> Result<()> {
    // Nobody else knows a table that this transaction has created.
    let Some(before) = before else { return Ok(()) };
    let name = &before.entry().name;
    let Some(now) = now else { return Err(conflict(name, "was dropped")) };
    let beyond = now.beyond_files();
    if beyond.moved > version {
        return Err(conflict(name, "was altered or compacted"));
    }
    let rows = positions_before(rows, before.positions());
    let shifts = beyond.shifts.since(version);
    moved_deletions(name, rows, before.rows_in_files(), shifts, now.deleted()).map(drop)
}

/// Checks that what a change drops, alters or replaces is as the transaction has found it. `fate`
/// tells what has become of a table of the earlier catalog.
///
/// # Errors
/// `Conflict`.
pub(super) fn check_definition(
    change: &Change,
    before: &Catalog,
    now: &Catalog,
    fate: impl Fn(TableId) -> Fate,
) -> Result<()> {
    let id = match change {
        Change::DropTable { id } => *id,
        Change::ReplaceTable { table, .. } => table.id,
        Change::DropView { schema, name } => {
            return check_same("view", name, before.view(schema, name), now.view(schema, name));
        }
        Change::DropMacro { name } => {
            return check_same("macro", name, before.macro_named(name), now.macro_named(name));
        }
        Change::AlterSequence { sequence: SequenceEntry { schema, name, .. } }
        | Change::DropSequence { schema, name } => {
            let now = now.sequence(schema, name);
            // How far it is changes with every value that is taken.
            let before = before.sequence(schema, name).map(|before| match now {
                Some(now) => SequenceEntry { state: now.state, ..before.clone() },
                None => before.clone(),
            });
            return check_same("sequence", name, before.as_ref(), now);
        }
        _ => return Ok(()),
    };
    let Some(table) = before.table_by_id(id) else { return Ok(()) };
    match (change, fate(id)) {
        (_, Fate::Dropped) => Err(conflict(&table.name, "was dropped")),
        (Change::ReplaceTable { .. }, Fate::RowsChanged | Fate::Moved) => {
            Err(conflict(&table.name, "was changed"))
        }
        (_, Fate::Moved) => Err(conflict(&table.name, "was altered or compacted")),
        (_, Fate::Unchanged | Fate::RowsChanged) => Ok(()),
    }
}

/// Checks that what a transaction has found is what there is now; of its own it has found nothing.
fn check_same<T: PartialEq>(what: &str, name: &str, before: Option<&T>, now: Option<&T>) -> Result<()> {
    if before.is_none() || before == now {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "{what} \"{name}\" was changed by a transaction that committed first; roll back and try again"
        ),
    ))
}

/// Checks that a table that was altered or compacted meanwhile takes what was staged for it. Rows
/// may be put behind any others, as long as they still fit.
///
/// # Errors
/// `Conflict`.
pub(super) fn check_altered(before: &TableEntry, now: &TableEntry, deletes: bool) -> Result<()> {
    match !deletes && takes_the_same_rows(before, now) {
        true => Ok(()),
        false => Err(conflict(&before.name, "was altered or compacted")),
    }
}

/// Whether rows that were checked for a table are what it may have now, too: no constraint has
/// come.
fn takes_the_same_rows(before: &TableEntry, now: &TableEntry) -> bool {
    let definition = |column: &ColumnEntry| {
        (column.id, column.logical_type.clone(), column.nullable, column.generated.clone())
    };
    before.columns.iter().map(definition).eq(now.columns.iter().map(definition))
        && now.constraints.iter().all(|constraint| before.constraints.contains(constraint))
}

/// The positions now of rows that a transaction deletes. `shifts` tells how rows behind the
/// `in_files` first ones have moved, if that is known; `gone` has the rows that others have
/// deleted.
///
/// # Errors
/// `Conflict` when others have deleted one of them, or it is not known where one is.
pub(super) fn moved_deletions(
    table: &str,
    mut deleted: RoaringTreemap,
    in_files: u64,
    shifts: Option<&[Shift]>,
    gone: &RoaringTreemap,
) -> Result<RoaringTreemap> {
    if deleted.max().is_some_and(|last| last >= in_files) {
        let Some(shifts) = shifts else {
            return Err(conflict(table, "had the row to be deleted or updated moved"));
        };
        deleted = shifts.iter().fold(deleted, |deleted, shift| shift.moved(&deleted));
    }
    match deleted.is_disjoint(gone) {
        true => Ok(deleted),
        false => Err(conflict(table, "had the same row deleted or updated")),
    }
}

/// A foreign key that refers to a table, and that was not there in an earlier catalog.
pub(super) fn new_reference<'a>(id: TableId, before: &Catalog, now: &'a Catalog) -> Option<&'a str> {
    let refers = |constraint: &&ConstraintEntry| matches!(&constraint.rule, ConstraintRule::ForeignKey { table, .. } if *table == id);
    let is_new = |table: &TableEntry, constraint: &ConstraintEntry| {
        let earlier = before.table_by_id(table.id);
        !earlier.is_some_and(|earlier| earlier.constraints.contains(constraint))
    };
    let all = now
        .tables
        .iter()
        .flat_map(|table| table.constraints.iter().filter(refers).map(move |constraint| (table, constraint)));
    let mut found = all.filter(|(table, constraint)| is_new(table, constraint));
    found.next().map(|(_, constraint)| constraint.name.as_str())
}

/// A foreign key, as table and constraint, that refers to no key in a catalog and did so in an
/// earlier one, if it was there.
pub(super) fn lost_key<'a>(before: &'a Catalog, now: &'a Catalog) -> Option<(&'a str, &'a str)> {
    broken_references(now).difference(&broken_references(before)).next().copied()
}

/// The foreign keys that refer to no key, as tables and constraints.
fn broken_references(catalog: &Catalog) -> BTreeSet<(&str, &str)> {
    let all = catalog
        .tables
        .iter()
        .flat_map(|table| table.constraints.iter().map(|constraint| (table.name.as_str(), constraint)));
    let is_broken = |rule: &ConstraintRule| {
        let ConstraintRule::ForeignKey { table, referred, .. } = rule else { return false };
        let other = catalog.table_by_id(*table);
        let has_key = |other: &Arc<TableEntry>| {
            other.constraints.iter().any(|key| key.rule.key() == Some(referred.as_slice()))
        };
        !other.is_some_and(has_key)
    };
    let broken = all.filter(|(_, constraint)| is_broken(&constraint.rule));
    broken.map(|(table, constraint)| (table, constraint.name.as_str())).collect()
}

/// The keys of a constraint that one side has touched, sorted: those that it gave to rows, or
/// referred to, and, for a foreign key, those that it took away from the rows that are referred to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub added: Vec<u64>,
    pub removed: Vec<u64>,
}

/// What a constraint says of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unique,
    Reference,
}

/// Tells whether a constraint that each of two sides has seen hold may be broken when both commit.
pub(super) fn is_broken_by_both(own: &Touched, others: &Touched, rule: Kind) -> bool {
    match rule {
        Kind::Unique => have_common(&own.added, &others.added),
        Kind::Reference => {
            have_common(&own.added, &others.removed) || have_common(&own.removed, &others.added)
        }
    }
}

/// Whether two sorted lists have a member in common.
fn have_common(one: &[u64], other: &[u64]) -> bool {
    let (few, many) = if one.len() < other.len() { (one, other) } else { (other, one) };
    few.iter().any(|key| many.binary_search(key).is_ok())
}

/// The keys that rows had which are gone, and no row has that has come: both as they were read.
pub(super) fn no_more(removed: Vec<u64>, added: Vec<u64>) -> Vec<u64> {
    let added = sorted(added);
    let mut gone = sorted(removed);
    gone.retain(|key| added.binary_search(key).is_err());
    gone
}

/// Keys in order, each of them once.
pub(super) fn sorted(mut keys: Vec<u64>) -> Vec<u64> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The rows that came to a table or left it between two versions, by their positions in the later
/// one.
pub(super) struct RowsBetween<'a> {
    /// Positions of rows that were not there before, the deleted ones included.
    new: Vec<Range<u64>>,
    deleted_before: Cow<'a, RoaringTreemap>,
    deleted: &'a RoaringTreemap,
}

impl<'a> RowsBetween<'a> {
    /// Compares two versions of a table, each with its number of positions and the deleted ones.
    pub fn new(before: (u64, &'a RoaringTreemap), shifts: &[Shift], now: (u64, &'a RoaringTreemap)) -> Self {
        let mut old: Vec<_> = std::iter::once(0..before.0).collect();
        let mut deleted_before = Cow::Borrowed(before.1);
        for shift in shifts {
            old = shift.moved_runs(old);
            deleted_before = Cow::Owned(shift.moved(&deleted_before));
        }
        Self { new: outside(&old, now.0), deleted_before, deleted: now.1 }
    }

    pub fn added(&self) -> UInt64Array {
        let new = self.new.iter().cloned();
        UInt64Array::from_iter_values(new.flat_map(|run| live(run, self.deleted)))
    }

    pub fn removed(&self) -> UInt64Array {
        let mut gone = self.deleted - self.deleted_before.as_ref();
        for run in self.new.iter().cloned() {
            gone.remove_range(run);
        }
        UInt64Array::from_iter_values(gone.iter())
    }
}

/// The positions before `end` that are in none of some runs, which are in order.
fn outside(runs: &[Range<u64>], end: u64) -> Vec<Range<u64>> {
    let starts = std::iter::once(0).chain(runs.iter().map(|run| run.end));
    let ends = runs.iter().map(|run| run.start).chain(std::iter::once(end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|run| !run.is_empty()).collect()
}

/// The positions that are not deleted.
pub(super) fn live(positions: Range<u64>, deleted: &RoaringTreemap) -> impl Iterator<Item = u64> {
    positions.filter(|position| !deleted.contains(*position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Rows;
    use hypostyle_format::{Encoding, GenerationEntry, MacroEntry, SequenceState, ViewEntry};
    use hypostyle_io::Store;
    use hypostyle_types::{ColumnId, Generation, LogicalType};
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use proptest::sample::Index;

    const KEY: ColumnId = ColumnId(0);

    fn table(id: u64, constraints: Vec<ConstraintEntry>) -> TableEntry {
        TableEntry {
            id: TableId(id),
            schema: "main".into(),
            name: format!("t{id}"),
            rows: 0,
            next_column_id: ColumnId(1),
            columns: Vec::new(),
            constraints,
            indexes: Vec::new(),
            comment: None,
            query: None,
            deleted: None,
        }
    }

    fn column(id: u32, logical_type: LogicalType) -> ColumnEntry {
        let generation =
            GenerationEntry { number: Generation(0), encoding: Encoding::Plain, nodes: Vec::new() };
        ColumnEntry {
            id: ColumnId(id),
            name: format!("c{id}"),
            logical_type,
            nullable: true,
            default: None,
            identity: None,
            generated: None,
            comment: None,
            generation,
        }
    }

    fn catalog(tables: Vec<TableEntry>) -> Catalog {
        Catalog { tables: tables.into_iter().map(Arc::new).collect(), ..Catalog::default() }
    }

    fn key() -> ConstraintEntry {
        ConstraintEntry::new("key", ConstraintRule::PrimaryKey { columns: vec![KEY] })
    }

    fn reference(name: &str, to: u64) -> ConstraintEntry {
        let rule = ConstraintRule::ForeignKey {
            columns: vec![KEY],
            table: TableId(to),
            referred: vec![KEY],
            on_delete: Default::default(),
            on_update: Default::default(),
        };
        ConstraintEntry::new(name, rule)
    }

    fn is_conflict<T>(result: Result<T>) -> bool {
        match result {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert!(error.message().contains("roll back and try again"), "{error}");
                true
            }
        }
    }

    #[test]
    fn the_fate_of_a_table_is_the_greatest_change() {
        let store = Arc::new(Store::memory());
        let entry = Arc::new(TableEntry { rows: 10, ..table(0, Vec::new()) });
        let deleted = |rows: &[u64]| Arc::new(rows.iter().copied().collect::<RoaringTreemap>());
        let data = |entry: &Arc<TableEntry>, moved, rows: &[u64]| {
            let rows = Rows { moved: Version(moved), deleted: deleted(rows), ..Rows::default() };
            TableData::new(&store, entry, &rows, None)
        };
        let grown = Arc::new(TableEntry { rows: 11, ..entry.as_ref().clone() });
        let before = data(&entry, 3, &[1]);
        for (now, expected) in [
            (None, Fate::Dropped),
            (Some(data(&entry, 3, &[1])), Fate::Unchanged),
            (Some(data(&entry, 5, &[1])), Fate::Unchanged),
            (Some(data(&entry, 3, &[1, 2])), Fate::RowsChanged),
            (Some(data(&grown, 3, &[1])), Fate::RowsChanged),
            (Some(data(&entry, 6, &[1])), Fate::Moved),
            (Some(data(&grown, 6, &[])), Fate::Moved),
        ] {
            let fate = Fate::of(&before, now.as_ref(), Version(5));
            assert_eq!(fate, expected, "{now:?}");
            assert_eq!(is_conflict(check_unchanged("t", fate)), fate != Fate::Unchanged);
        }
    }

    #[test]
    fn a_table_is_altered_only_as_it_was_found_and_dropped_with_the_rows_of_others() {
        let before = catalog(vec![table(1, Vec::new())]);
        let replace =
            |id| Change::ReplaceTable { table: table(id, Vec::new()), absorbed: 0, compacted: false };
        let drop = |id| Change::DropTable { id: TableId(id) };
        let schema = Change::CreateSchema(hypostyle_format::SchemaEntry::new("s"));
        for (change, fate, expected) in [
            (drop(1), Fate::Unchanged, false),
            (drop(1), Fate::RowsChanged, false),
            (drop(1), Fate::Moved, true),
            (drop(1), Fate::Dropped, true),
            (replace(1), Fate::Unchanged, false),
            (replace(1), Fate::RowsChanged, true),
            (replace(1), Fate::Moved, true),
            (replace(1), Fate::Dropped, true),
            // Its own, which nobody else knows.
            (drop(2), Fate::Dropped, false),
            (replace(2), Fate::Dropped, false),
            (schema, Fate::Dropped, false),
        ] {
            let checked = check_definition(&change, &before, &before, |_| fate);
            assert_eq!(is_conflict(checked), expected, "{change:?} {fate:?}");
        }
    }

    #[test]
    fn views_and_sequences_are_dropped_only_as_they_were_found() {
        let view =
            |sql: &str| ViewEntry { schema: "main".into(), name: "v".into(), sql: sql.into(), comment: None };
        let of_view =
            |view: Option<ViewEntry>| Catalog { views: view.into_iter().collect(), ..Catalog::default() };
        let sequence = |increment, last| SequenceEntry {
            schema: "main".into(),
            name: "s".into(),
            increment,
            min: 1,
            max: 100,
            start: 1,
            cycle: false,
            owner: None,
            state: SequenceState { last, is_called: true },
            comment: None,
        };
        let of_sequence = |sequence: Option<SequenceEntry>| Catalog {
            sequences: sequence.into_iter().collect(),
            ..Catalog::default()
        };
        let drop_view = Change::DropView { schema: "main".into(), name: "v".into() };
        let drop_sequence = Change::DropSequence { schema: "main".into(), name: "s".into() };
        let alter_sequence = Change::AlterSequence { sequence: sequence(7, 1) };
        for (change, before, now, expected) in [
            (&drop_view, of_view(Some(view("a"))), of_view(Some(view("a"))), false),
            (&drop_view, of_view(Some(view("a"))), of_view(Some(view("b"))), true),
            (&drop_view, of_view(Some(view("a"))), of_view(None), true),
            (&drop_view, of_view(None), of_view(Some(view("b"))), false),
            // Taking values changes no definition.
            (&drop_sequence, of_sequence(Some(sequence(1, 5))), of_sequence(Some(sequence(1, 9))), false),
            (&drop_sequence, of_sequence(Some(sequence(1, 5))), of_sequence(Some(sequence(2, 5))), true),
            (&drop_sequence, of_sequence(Some(sequence(1, 5))), of_sequence(None), true),
            (&alter_sequence, of_sequence(Some(sequence(1, 5))), of_sequence(Some(sequence(1, 6))), false),
            (&alter_sequence, of_sequence(Some(sequence(1, 5))), of_sequence(Some(sequence(3, 5))), true),
            (&alter_sequence, of_sequence(None), of_sequence(Some(sequence(3, 5))), false),
        ] {
            let checked = check_definition(change, &before, &now, |_| Fate::Unchanged);
            assert_eq!(is_conflict(checked), expected, "{change:?} {before:?} {now:?}");
        }
    }

    #[test]
    fn macros_are_dropped_only_as_they_were_found() {
        let of_macro = |sql: Option<&str>| Catalog {
            macros: sql.map(|sql| MacroEntry { name: "m".into(), sql: sql.into() }).into_iter().collect(),
            ..Catalog::default()
        };
        let drop_macro = Change::DropMacro { name: "m".into() };
        for (before, now, expected) in [
            (Some("a"), Some("a"), false),
            (Some("a"), Some("b"), true),
            (Some("a"), None, true),
            (None, Some("b"), false),
        ] {
            let checked =
                check_definition(&drop_macro, &of_macro(before), &of_macro(now), |_| Fate::Unchanged);
            assert_eq!(is_conflict(checked), expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn an_altered_table_takes_rows_only_if_they_still_fit() {
        let columns =
            |columns: Vec<ColumnEntry>, constraints| TableEntry { columns, ..table(1, constraints) };
        let integer = column(0, LogicalType::Integer);
        let before = columns(vec![integer.clone()], vec![key()]);
        let renamed = ColumnEntry { name: "other".into(), ..integer.clone() };
        let compacted = GenerationEntry { number: Generation(1), ..integer.generation.clone() };
        let compacted = ColumnEntry { generation: compacted, ..integer.clone() };
        for (now, fits) in [
            (columns(vec![integer.clone()], vec![key()]), true),
            (columns(vec![renamed], vec![key()]), true),
            (columns(vec![compacted], vec![key()]), true),
            (columns(vec![integer.clone()], Vec::new()), true),
            (columns(vec![integer.clone()], vec![key(), reference("new", 2)]), false),
            (columns(vec![column(0, LogicalType::BigInt)], vec![key()]), false),
            (columns(vec![ColumnEntry { nullable: false, ..integer.clone() }], vec![key()]), false),
            (columns(vec![integer.clone(), column(1, LogicalType::Integer)], vec![key()]), false),
            (columns(Vec::new(), vec![key()]), false),
        ] {
            assert_eq!(!is_conflict(check_altered(&before, &now, false)), fits, "{now:?}");
            assert!(is_conflict(check_altered(&before, &now, true)), "{now:?}");
        }
    }

    #[test]
    fn a_new_reference_is_one_to_the_table_that_was_not_there() {
        let before = catalog(vec![table(1, vec![key()]), table(2, vec![reference("old", 1)])]);
        let with = |constraints| catalog(vec![table(1, vec![key()]), table(2, constraints)]);
        assert_eq!(new_reference(TableId(1), &before, &before), None);
        assert_eq!(new_reference(TableId(1), &before, &with(Vec::new())), None);
        assert_eq!(new_reference(TableId(1), &before, &with(vec![reference("other", 3)])), None);
        let now = with(vec![reference("old", 1), reference("new", 1)]);
        assert_eq!(new_reference(TableId(1), &before, &now), Some("new"));
        let created = catalog(vec![table(1, vec![key()]), table(3, vec![reference("of_new_table", 1)])]);
        assert_eq!(new_reference(TableId(1), &before, &created), Some("of_new_table"));
    }

    #[test]
    fn a_reference_whose_key_or_table_is_gone_has_lost_it() {
        let refers = table(2, vec![reference("refers", 1)]);
        let whole = catalog(vec![table(1, vec![key()]), refers.clone()]);
        let without_key = catalog(vec![table(1, Vec::new()), refers.clone()]);
        let without_table = catalog(vec![refers]);
        let lost = Some(("t2", "refers"));
        for (before, now, expected) in [
            (&whole, &whole, None),
            (&whole, &without_key, lost),
            (&whole, &without_table, lost),
            (&Catalog::default(), &without_table, lost),
            // It was so before: whoever did it has been told.
            (&without_key, &without_table, None),
            (&without_table, &whole, None),
        ] {
            assert_eq!(lost_key(before, now), expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn rows_that_are_deleted_are_followed_only_where_it_is_known() {
        let rows = |rows: &[u64]| rows.iter().copied().collect::<RoaringTreemap>();
        let moved = |deleted: &[u64], shifts: Option<&[Shift]>, gone: &[u64]| {
            moved_deletions("t", rows(deleted), 10, shifts, &rows(gone))
        };
        let shift = [Shift::new(Version(1), 10, 5)];
        assert_eq!(moved(&[3, 9], None, &[4]).unwrap(), rows(&[3, 9]));
        assert_eq!(moved(&[3, 10], Some(&shift), &[10]).unwrap(), rows(&[3, 15]));
        assert!(is_conflict(moved(&[10], None, &[])));
        assert!(is_conflict(moved(&[3, 9], None, &[9])));
        assert!(is_conflict(moved(&[10], Some(&shift), &[15])));
    }

    fn touched(added: &[u64], removed: &[u64]) -> Touched {
        Touched { added: added.to_vec(), removed: removed.to_vec() }
    }

    #[test]
    fn only_what_breaks_a_constraint_is_a_conflict() {
        let (unique, reference) = (Kind::Unique, Kind::Reference);
        for (rule, own, others, expected) in [
            (unique, touched(&[1, 3], &[]), touched(&[2, 4], &[]), false),
            (unique, touched(&[1, 3], &[]), touched(&[3, 4], &[]), true),
            (unique, touched(&[], &[1]), touched(&[1], &[]), false),
            (reference, touched(&[1], &[]), touched(&[1], &[]), false),
            (reference, touched(&[1], &[]), touched(&[], &[1]), true),
            (reference, touched(&[], &[1]), touched(&[1], &[]), true),
            (reference, touched(&[], &[1]), touched(&[], &[1]), false),
            (reference, touched(&[2], &[1]), touched(&[3], &[4]), false),
        ] {
            assert_eq!(is_broken_by_both(&own, &others, rule), expected, "{rule:?} {own:?} {others:?}");
            assert_eq!(is_broken_by_both(&others, &own, rule), expected, "{rule:?} {others:?} {own:?}");
        }
    }

    #[test]
    fn a_key_that_has_come_again_is_not_gone() {
        assert_eq!(no_more(vec![3, 1, 2, 1], vec![2]), [1, 3]);
        assert!(no_more(Vec::new(), vec![2]).is_empty());
    }

    #[test]
    fn positions_outside_of_runs_are_the_others() {
        let found = |runs: &[(u64, u64)], end| -> Vec<u64> {
            let runs: Vec<_> = runs.iter().map(|(start, end)| *start..*end).collect();
            outside(&runs, end).into_iter().flatten().collect()
        };
        assert_eq!(found(&[], 3), [0, 1, 2]);
        assert!(found(&[(0, 5)], 5).is_empty());
        assert_eq!(found(&[(0, 3), (5, 7)], 9), [3, 4, 7, 8]);
        assert_eq!(found(&[(2, 3)], 3), [0, 1]);
    }

    /// What one side does to the rows that refer, and to those that they refer to.
    #[derive(Clone, Debug)]
    struct Side {
        keys_added: BTreeSet<u64>,
        keys_removed: BTreeSet<u64>,
        references_added: BTreeSet<u64>,
    }

    impl Side {
        fn new(
            base: &BTreeSet<u64>,
            referred: &BTreeSet<u64>,
            added: &[u64],
            removed: &[u64],
            refers: &[u64],
        ) -> Self {
            let keys_added: BTreeSet<u64> = added.iter().copied().filter(|key| !base.contains(key)).collect();
            let may_go = |key: &u64| base.contains(key) && !referred.contains(key) && !refers.contains(key);
            let keys_removed: BTreeSet<u64> = removed.iter().copied().filter(may_go).collect();
            let is_there = |key: &u64| base.contains(key) || keys_added.contains(key);
            let references_added = refers.iter().copied().filter(is_there).collect();
            Self { keys_added, keys_removed, references_added }
        }

        fn of_key(&self) -> Touched {
            Touched { added: self.keys_added.iter().copied().collect(), removed: Vec::new() }
        }

        fn of_reference(&self) -> Touched {
            let list = |keys: &BTreeSet<u64>| keys.iter().copied().collect();
            Touched { added: list(&self.references_added), removed: list(&self.keys_removed) }
        }
    }

    /// A table whose rows have names, and what others do to it.
    #[derive(Clone, Debug)]
    struct Model {
        rows: Vec<u64>,
        in_files: usize,
        next: u64,
        deleted: BTreeSet<u64>,
        shifts: Vec<Shift>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Rows into the log.
        Insert(u64),
        /// Rows of the log into the files, and as many behind them as are given.
        Append {
            absorbed: Index,
            new: u64,
        },
        Delete(Index),
    }

    impl Model {
        fn new(in_files: u64, in_log: u64) -> Self {
            let next = in_files + in_log;
            let (deleted, shifts) = (BTreeSet::new(), Vec::new());
            Self { rows: (0..next).collect(), in_files: in_files as usize, next, deleted, shifts }
        }

        fn apply(&mut self, step: &Step) {
            match step {
                Step::Insert(rows) => self.rows.extend(self.next..self.next + rows),
                Step::Append { absorbed, new } => {
                    self.in_files += absorbed.index(self.rows.len() - self.in_files + 1);
                    if *new > 0 && self.in_files < self.rows.len() {
                        self.shifts.push(Shift::new(Version(1), self.in_files as u64, *new));
                    }
                    self.rows.splice(self.in_files..self.in_files, self.next..self.next + new);
                    self.in_files += *new as usize;
                }
                Step::Delete(row) if !self.rows.is_empty() => {
                    self.deleted.insert(self.rows[row.index(self.rows.len())]);
                }
                Step::Delete(_) => {}
            }
            self.next = self.rows.iter().max().map_or(0, |last| last + 1);
        }

        fn positions(&self, names: &BTreeSet<u64>) -> RoaringTreemap {
            let places = self.rows.iter().enumerate().filter(|(_, name)| names.contains(name));
            places.map(|(place, _)| place as u64).collect()
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1u64..5).prop_map(Step::Insert),
            (any::<Index>(), 0u64..5).prop_map(|(absorbed, new)| Step::Append { absorbed, new }),
            any::<Index>().prop_map(Step::Delete),
        ]
    }

    proptest! {
        #[test]
        fn rows_are_followed_through_what_others_do(
            (in_files, in_log) in (0u64..8, 0u64..8),
            deleted_before in vec(any::<Index>(), 0..4),
            steps in vec(step(), 0..8),
            own in vec(any::<Index>(), 0..4),
        ) {
            let mut before = Model::new(in_files, in_log);
            deleted_before.into_iter().for_each(|row| before.apply(&Step::Delete(row)));
            let mut now = before.clone();
            steps.iter().for_each(|step| now.apply(step));
            let all: Vec<u64> = before.rows.clone();
            let own: BTreeSet<u64> = if all.is_empty() {
                BTreeSet::new()
            } else {
                own.into_iter().map(|row| all[row.index(all.len())]).collect()
            };
            let own = &own - &before.deleted;
            let (gone_before, gone) = (before.positions(&before.deleted), now.positions(&now.deleted));

            let moved = moved_deletions("t", before.positions(&own), in_files, Some(&now.shifts), &gone);
            let is_free = own.is_disjoint(&now.deleted);
            prop_assert_eq!(moved.is_ok(), is_free);
            if let Ok(moved) = moved {
                prop_assert_eq!(moved, now.positions(&own));
            }

            let size = |model: &Model| model.rows.len() as u64;
            let between =
                RowsBetween::new((size(&before), &gone_before), &now.shifts, (size(&now), &gone));
            let list = |positions: RoaringTreemap| positions.iter().collect::<Vec<_>>();
            let old: BTreeSet<u64> = all.into_iter().collect();
            let new: BTreeSet<u64> = now.rows.iter().copied().collect();
            let added = &(&new - &old) - &now.deleted;
            let removed = &(&now.deleted - &before.deleted) & &old;
            prop_assert_eq!(between.added().values().to_vec(), list(now.positions(&added)));
            prop_assert_eq!(between.removed().values().to_vec(), list(now.positions(&removed)));
        }

        #[test]
        fn no_reference_is_left_without_its_key(
            keys in vec(any::<bool>(), 4),
            kept in vec(any::<bool>(), 4),
            references in vec((0u64..4, 0u64..4), 0..5),
            later in vec((0u64..4, 0u64..4), 0..5),
        ) {
            let with = |keys: &[bool], references: &[(u64, u64)]| {
                let table = |(id, has_key): (usize, &bool)| {
                    let id = id as u64;
                    let own = references.iter().enumerate().filter(|(_, (from, _))| *from == id);
                    let own = own.map(|(number, (_, to))| reference(&format!("r{number}"), *to));
                    table(id, has_key.then(key).into_iter().chain(own).collect())
                };
                catalog(keys.iter().enumerate().map(table).collect())
            };
            // One side drops keys, the other declares references; both have checked what they saw.
            let has = |keys: &[bool], to: u64| keys[to as usize];
            let old: Vec<_> = references.into_iter().filter(|(_, to)| has(&keys, *to)).collect();
            let left: Vec<_> = keys.iter().zip(&kept).map(|(key, kept)| *key && *kept).collect();
            let new: Vec<_> = later.into_iter().filter(|(_, to)| has(&keys, *to)).collect();
            let all: Vec<_> = old.into_iter().chain(new).collect();
            let (committed, merged) = (with(&keys, &all), with(&left, &all));
            let is_whole = all.iter().all(|(_, to)| has(&left, *to));
            prop_assert_eq!(lost_key(&committed, &merged).is_none(), is_whole);
        }

        #[test]
        fn what_is_no_conflict_breaks_nothing_and_disjoint_keys_never_conflict(
            base in btree_set(0u64..12, 0..8),
            referred in vec(0u64..12, 0..3),
            one in (vec(0u64..12, 0..4), vec(0u64..12, 0..4), vec(0u64..12, 0..4)),
            other in (vec(0u64..12, 0..4), vec(0u64..12, 0..4), vec(0u64..12, 0..4)),
        ) {
            let referred: BTreeSet<u64> = referred.into_iter().filter(|key| base.contains(key)).collect();
            let side = |(added, removed, refers): &(Vec<u64>, Vec<u64>, Vec<u64>)| {
                Side::new(&base, &referred, added, removed, refers)
            };
            let (one, other) = (side(&one), side(&other));
            let same_key = is_broken_by_both(&one.of_key(), &other.of_key(), Kind::Unique);
            let dangling = is_broken_by_both(&one.of_reference(), &other.of_reference(), Kind::Reference);
            let twice = !one.keys_added.is_disjoint(&other.keys_added);
            prop_assert_eq!(same_key, twice);
            let mut keys = &(&base - &one.keys_removed) - &other.keys_removed;
            keys.extend(one.keys_added.iter().chain(&other.keys_added));
            let references = &(&referred | &one.references_added) | &other.references_added;
            if !dangling {
                prop_assert!(references.is_subset(&keys), "{references:?} in {keys:?}");
            }
            let all = |side: &Side| &(&side.keys_added | &side.keys_removed) | &side.references_added;
            if all(&one).is_disjoint(&all(&other)) {
                prop_assert!(!same_key && !dangling);
            }
        }
    }
}
