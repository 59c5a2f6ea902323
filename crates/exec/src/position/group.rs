//! The groups of a pipeline: which keys tell them apart, and how rows get their ids.

use super::chunk::Chunk;
use super::codes::{KeyValue, RowCodes};
use super::condition::is_kernel_type;
use super::evaluate::{Columns, Evaluator, Value, Values};
use super::flow::Expression;
use super::number::Numbers;
use super::ready::{Link, ReadyFlow};
use super::stop::{Stop, Stopped};
use super::table::as_type;
use crate::scan::table_statistics;
use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, make_array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use hypostyle_position::fold::{self, Fold, Ids};
use hypostyle_position::group::{DenseGroups, Domain, DomainGroups, Groups, HashGroups};
use hypostyle_position::{Column as KernelColumn, NO_POSITION, Rows};
use std::cmp::Ordering;

/// The bytes that an array of the numbers of groups may take for each row of the table.
const DENSE_BYTES: usize = 64;

/// The bytes that such an array may take where filters may leave few rows.
const DENSE_BYTES_FILTERED: usize = 4 << 20;

/// How the keys of a pipeline are found.
#[derive(Debug)]
pub(super) struct Grouping {
    keys: Vec<Key>,
    /// The codes of the rows of joined tables, which come behind the values of other keys.
    coded: Vec<RowCodes>,
    kind: GroupKind,
}

/// How ids are found.
#[derive(Debug)]
enum GroupKind {
    /// There is one group.
    One,
    /// Keys have small domains, whose product is small.
    Domain,
    /// The values of the only key, a column, lie between these two, close together.
    Dense {
        number: usize,
        bounds: ArrayRef,
    },
    Hash,
}

/// A key of the plan.
#[derive(Debug)]
enum Key {
    /// Its values tell groups apart.
    Value {
        value: KeyValue,
        /// The column on which it depends alone, of which a domain is made.
        column: Option<usize>,
    },
    /// The codes of rows tell groups apart: those at a place, which stand for this one of their keys.
    Coded { codes: usize, place: usize },
    /// It depends on other keys, and is read in the end from any row of the group.
    Late { number: usize, slot: usize },
}

/// The groups of one worker.
pub(super) struct GroupIds {
    groups: Option<Box<dyn Groups>>,
    /// Which ids have a row, where not all have.
    exists: Option<Box<dyn Fold>>,
    /// A position of each group, for each slot of late keys.
    late: Vec<(usize, Box<dyn Fold>)>,
    ids: Vec<u32>,
}

impl Grouping {
    /// Finds out how rows are grouped.
    pub fn new(expressions: &[Expression], columns: &Columns, flow: &ReadyFlow) -> Stopped<Self> {
        let kept = needed_keys(expressions, columns, flow);
        let mut keys = Vec::with_capacity(expressions.len());
        for (expression, kept) in expressions.iter().zip(kept) {
            let column = expression.downcast_ref::<Column>();
            keys.push(match column {
                Some(column) if !kept => {
                    Key::Late { number: column.index(), slot: columns.slot(column.index()) }
                }
                _ => value_key(expression, columns)?,
            });
        }
        let mut grouping = Self { keys, coded: Vec::new(), kind: GroupKind::One };
        if !grouping.keys.is_empty() {
            grouping.kind = GroupKind::Domain;
            if grouping.domains(expressions, columns).is_err() {
                let dense = grouping.dense(columns, flow.passes_all());
                let dense = dense.map(|(number, bounds)| GroupKind::Dense { number, bounds });
                grouping.kind = dense.unwrap_or(GroupKind::Hash);
            }
        }
        if grouping.is_hashed() {
            grouping.code_rows(expressions, columns, flow)?;
        }
        Ok(grouping)
    }

    /// Has the rows of joined tables coded, where that spares most rows the hashing of several keys, of
    /// texts, or of what expressions give.
    fn code_rows(&mut self, expressions: &[Expression], columns: &Columns, flow: &ReadyFlow) -> Stopped<()> {
        let slot_of = |expression: &Expression| match columns.universe.slots_of(expression)[..] {
            [slot] => Some(slot),
            _ => None,
        };
        let mut slots: Vec<usize> = expressions.iter().filter_map(slot_of).collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            let Some(positions) = flow.positions_met_often(slot, columns) else { continue };
            let is_of_slot = |(key, expression): &(&mut Key, &Expression)| {
                matches!(key, Key::Value { .. }) && slot_of(expression) == Some(slot)
            };
            let of_slot: Vec<&mut Key> =
                self.keys.iter_mut().zip(expressions).filter(is_of_slot).map(|(key, _)| key).collect();
            let is_costly = |key: &&mut Key| match key {
                Key::Value { value, .. } => value.is_costly(),
                _ => false,
            };
            if of_slot.len() < 2 && !of_slot.iter().any(is_costly) {
                continue;
            }
            let mut values = Vec::with_capacity(of_slot.len());
            for key in of_slot {
                let coded = Key::Coded { codes: self.coded.len(), place: values.len() };
                if let Key::Value { value, .. } = std::mem::replace(key, coded) {
                    values.push(value);
                }
            }
            self.coded.push(RowCodes::new(slot, positions, values)?);
        }
        Ok(())
    }

    fn is_domain(&self) -> bool {
        matches!(self.kind, GroupKind::Domain)
    }

    /// Returns the only key and its bounds, if its values may be numbered by an array: a large one is for
    /// all rows of a table, not for those that filters leave.
    fn dense(&self, columns: &Columns, passes_all: bool) -> Option<(usize, ArrayRef)> {
        let mut values = self.keys.iter().filter(|key| matches!(key, Key::Value { .. }));
        let (Some(Key::Value { value, .. }), None) = (values.next(), values.next()) else { return None };
        let (Evaluator::Column(number), None) = (&value.evaluator, &value.codes) else { return None };
        let bounds = bounds(*number, columns).ok()?;
        let rows = columns.get(*number).ok()?.stored.len();
        let bytes = DenseGroups::bytes_for(&bounds).ok()?;
        let most = if passes_all { rows.saturating_mul(DENSE_BYTES) } else { DENSE_BYTES_FILTERED };
        (bytes <= most && DenseGroups::new(&bounds).is_ok()).then_some((*number, bounds))
    }

    /// Returns the keys of a chunk's rows that tell groups apart, or the columns of their domains.
    pub fn keys<'a>(
        &'a self,
        columns: &'a Columns,
        chunk: &'a Chunk,
        numbers: &'a Numbers,
    ) -> Stopped<Vec<Value<'a>>> {
        let mut values = Values::new(columns, numbers, chunk);
        let mut keys = Vec::new();
        for key in &self.keys {
            match key {
                Key::Value { column: Some(column), .. } if self.is_domain() => {
                    keys.push(values.get(&Evaluator::Column(*column))?);
                }
                Key::Value { value, .. } => keys.push(value.of(&mut values)?),
                Key::Coded { .. } | Key::Late { .. } => {}
            }
        }
        for codes in &self.coded {
            keys.push(Value::Own(codes.of(columns, chunk)?));
        }
        Ok(keys)
    }

    /// Tells whether groups are found by a hash of their keys.
    pub fn is_hashed(&self) -> bool {
        matches!(self.kind, GroupKind::Hash)
    }

    /// Tells whether there may be ids that no row has.
    pub fn is_sparse(&self) -> bool {
        self.is_domain()
    }

    /// Tells whether there may be many groups.
    pub fn may_be_many(&self) -> bool {
        matches!(self.kind, GroupKind::Hash | GroupKind::Dense { .. })
    }

    fn types(&self) -> Vec<(DataType, bool)> {
        let key_type = |key: &Key| match key {
            Key::Value { value, .. } => Some(value.key_type.clone()),
            Key::Coded { .. } | Key::Late { .. } => None,
        };
        let codes = self.coded.iter().map(|_| (DataType::UInt32, false));
        self.keys.iter().filter_map(key_type).chain(codes).collect()
    }

    /// Returns the bytes of what all workers share.
    pub fn bytes(&self) -> usize {
        self.coded.iter().map(RowCodes::bytes).sum()
    }

    fn domains(&self, expressions: &[Expression], columns: &Columns) -> Stopped<DomainGroups> {
        let mut domains = Vec::new();
        for (key, expression) in self.keys.iter().zip(expressions) {
            if let Key::Value { value, .. } = key {
                domains.push(domain(&value.evaluator, expression, columns)?);
            }
        }
        Ok(DomainGroups::new(domains)?)
    }

    /// Makes groups without rows, of which it may be known between which values of a column they lie.
    pub fn groups(
        &self,
        expressions: &[Expression],
        columns: &Columns,
        within: Option<(usize, &ArrayRef)>,
    ) -> Stopped<GroupIds> {
        let groups: Option<Box<dyn Groups>> = match &self.kind {
            GroupKind::One => None,
            GroupKind::Domain => Some(Box::new(self.domains(expressions, columns)?)),
            GroupKind::Dense { number, bounds } => {
                let closer = within.filter(|(column, _)| column == number);
                Some(Box::new(DenseGroups::new(closer.map_or(bounds, |(_, bounds)| bounds))?))
            }
            GroupKind::Hash => Some(Box::new(HashGroups::new(&self.types())?)),
        };
        let mut late: Vec<(usize, Box<dyn Fold>)> = Vec::new();
        for key in &self.keys {
            if let Key::Late { slot, .. } = key
                && late.iter().all(|(known, _)| known != slot)
            {
                late.push((*slot, fold::first()));
            }
        }
        let exists = self.is_domain().then(fold::exists);
        Ok(GroupIds { groups, exists, late, ids: Vec::new() })
    }
}

impl GroupIds {
    /// Returns a number that all ids are less than.
    pub fn len(&self) -> usize {
        self.groups.as_ref().map_or(1, |groups| groups.len())
    }

    pub fn bytes(&self) -> usize {
        let groups = self.groups.as_ref().map_or(0, |groups| groups.bytes());
        let late: usize = self.late.iter().map(|(_, fold)| fold.bytes()).sum();
        groups + late + self.exists.as_ref().map_or(0, |fold| fold.bytes())
    }

    /// Gives the rows of a chunk their ids, which `then` is called with.
    pub fn number(
        &mut self,
        grouping: &Grouping,
        columns: &Columns,
        chunk: &Chunk,
        then: impl FnOnce(Ids<'_>, usize) -> Stopped<()>,
    ) -> Stopped<()> {
        let Some(groups) = &mut self.groups else {
            return then(Ids::One { id: 0, rows: chunk.rows }, 1);
        };
        let numbers = Numbers::default();
        let keys = grouping.keys(columns, chunk, &numbers)?;
        let key_columns: Vec<KernelColumn<'_>> = keys.iter().map(Value::column).collect();
        groups.ids(&key_columns, &mut self.ids)?;
        let count = groups.len();
        let ids = Ids::Each(&self.ids);
        if let Some(exists) = &mut self.exists {
            exists.grow(count);
            exists.fold(ids, None)?;
        }
        for (slot, first) in &mut self.late {
            first.grow(count);
            let rows = chunk.positions(*slot);
            if matches!(rows, Rows::List(list) if list.contains(&NO_POSITION)) {
                return Err(Stop::Unfit("a late key has no row".into()));
            }
            // Only the positions matter, of whichever column.
            let column = columns.any_of_slot(*slot)?;
            first.fold(ids, Some(KernelColumn { array: column.stored.as_ref(), rows }))?;
        }
        then(ids, count)
    }

    /// Adds the groups of another worker, and returns their ids here.
    pub fn merge(&mut self, other: &Self) -> Stopped<Vec<u32>> {
        let (Some(groups), Some(others)) = (&mut self.groups, &other.groups) else { return Ok(vec![0]) };
        let all = Rows::Range(0, others.len() as u32);
        let ids = match &mut self.exists {
            Some(_) => all.iter().collect(),
            None => {
                let keys = others.keys(all)?;
                let columns: Vec<KernelColumn<'_>> =
                    keys.iter().map(|key| KernelColumn { array: key.as_ref(), rows: all }).collect();
                let mut ids = Vec::new();
                groups.ids(&columns, &mut ids)?;
                ids
            }
        };
        let count = groups.len();
        let pairs = self.late.iter_mut().zip(&other.late).map(|((_, one), (_, other))| (one, other));
        for (fold, other) in pairs.chain(self.exists.iter_mut().zip(&other.exists)) {
            fold.grow(count);
            // One that has had no row has no states.
            if other.bytes() > 0 {
                fold.merge(other.as_ref(), Ids::Each(&ids))?;
            }
        }
        Ok(ids)
    }

    /// Returns the ids that have a row, in order.
    pub fn present(&self) -> Stopped<Vec<u32>> {
        let Some(groups) = &self.groups else { return Ok(vec![0]) };
        Ok(match &self.exists {
            Some(exists) if exists.bytes() == 0 => Vec::new(),
            Some(exists) => {
                let has_row = exists.finish()?;
                has_row.as_boolean().values().set_indices_u32().collect()
            }
            None => (0..groups.len() as u32).collect(),
        })
    }

    /// Returns the keys of some groups in the types of the plan.
    pub fn keys(
        &self,
        ids: &UInt32Array,
        grouping: &Grouping,
        columns: &Columns,
        types: &[DataType],
    ) -> Stopped<Vec<ArrayRef>> {
        let Some(groups) = &self.groups else { return Ok(Vec::new()) };
        let mut values = groups.keys(Rows::List(ids.values()))?;
        let codes = values.split_off(values.len().saturating_sub(grouping.coded.len()));
        let coded = grouping.coded.iter().zip(&codes).map(|(coded, codes)| coded.values(codes, columns));
        let coded = coded.collect::<Stopped<Vec<_>>>()?;
        let mut values = values.into_iter();
        let mut positions = Vec::with_capacity(self.late.len());
        for (slot, first) in &self.late {
            let picked = match ids.is_empty() {
                true => Vec::new(),
                false => {
                    let picked = take(&first.finish()?, ids, None).map_err(Stop::arrow)?;
                    let picked = picked.as_primitive::<arrow::datatypes::UInt32Type>();
                    picked.iter().map(|position| position.unwrap_or(NO_POSITION)).collect()
                }
            };
            positions.push((*slot, picked));
        }
        let mut keys = Vec::with_capacity(grouping.keys.len());
        for (key, data_type) in grouping.keys.iter().zip(types) {
            let found = match key {
                Key::Value { value, .. } => {
                    let found = values.next().ok_or_else(no_key)?;
                    if grouping.is_domain() { found } else { value.decoded(found, columns)? }
                }
                Key::Coded { codes, place } => {
                    let found = coded.get(*codes).and_then(|values| values.get(*place));
                    found.cloned().ok_or_else(no_key)?
                }
                Key::Late { number, slot } => {
                    let of_slot = positions.iter().find(|(known, _)| known == slot);
                    let (_, positions) = of_slot.ok_or_else(no_key)?;
                    let column = columns.get(*number)?;
                    column.verify_all()?;
                    column.read(Rows::List(positions))?
                }
            };
            keys.push(as_type(&found, data_type)?);
        }
        Ok(keys)
    }
}

fn no_key() -> Stop {
    Stop::Unfit("a key is missing".into())
}

fn value_key(expression: &Expression, columns: &Columns) -> Stopped<Key> {
    let universe = &columns.universe;
    let nullable = expression.nullable(&universe.schema()).unwrap_or(true);
    if let Some(column) = expression.downcast_ref::<Column>() {
        let stored = &columns.get(column.index())?.stored;
        if is_kernel_type(stored.data_type()) {
            let nullable = nullable || stored.null_count() > 0 || columns.is_outer(column.index());
            // Values of a dictionary that a table keeps differ, so that codes tell them apart.
            let codes = match stored.as_any_dictionary_opt() {
                Some(dictionary) if columns.get(column.index())?.is_of_files() => {
                    Some(make_array(dictionary.keys().to_data()))
                }
                _ => None,
            };
            let data_type = codes.as_ref().unwrap_or(stored).data_type().clone();
            let evaluator = Evaluator::Column(column.index());
            let value = KeyValue { evaluator, codes, key_type: (data_type, nullable) };
            return Ok(Key::Value { value, column: Some(column.index()) });
        }
    }
    let data_type = expression.data_type(&universe.schema()).map_err(Stop::expression)?;
    if !is_kernel_type(&data_type) {
        return Err(Stop::Unfit(format!("keys of type {data_type}")));
    }
    let evaluator = Evaluator::seen(expression, universe)?;
    let numbers: Vec<usize> = collect_columns(expression).iter().map(Column::index).collect();
    let column = match numbers[..] {
        [column] => Some(column),
        _ => None,
    };
    Ok(Key::Value { value: KeyValue { evaluator, codes: None, key_type: (data_type, true) }, column })
}

/// Returns the domain of a key whose values are known to be few.
fn domain(evaluator: &Evaluator, expression: &Expression, columns: &Columns) -> Stopped<Domain> {
    let numbers: Vec<usize> = collect_columns(expression).iter().map(Column::index).collect();
    let [number] = numbers[..] else { return Err(Stop::Unfit("a key of several columns".into())) };
    let column = columns.get(number)?;
    let slot_column = &columns.universe.columns[number];
    let nullable = slot_column.field.is_nullable() || columns.is_outer(number);
    let domain = match column.stored.as_any_dictionary_opt() {
        Some(dictionary) => Domain::of_dictionary(dictionary.values(), nullable)?,
        None => {
            let bounds = bounds(number, columns)?;
            Domain::between(&bounds, nullable)?
        }
    };
    match evaluator {
        Evaluator::Column(_) => Ok(domain),
        Evaluator::Expression { .. } => {
            let seen = column.as_seen(domain.values())?;
            let results = evaluator.over(vec![seen], domain.values().len())?;
            // Rows that are grouped by what an expression gives are looked up as they are stored.
            Ok(domain.decided(&results)?)
        }
        _ => Err(Stop::Unfit("a key without a domain".into())),
    }
}

/// Returns the least and the greatest value of a column.
fn bounds(number: usize, columns: &Columns) -> Stopped<ArrayRef> {
    let none = || Stop::Unfit("a column without bounds".into());
    let slot_column = &columns.universe.columns[number];
    let stored = columns.get(number)?.stored.data_type();
    if *stored == DataType::Boolean {
        let truths = [ScalarValue::from(false), ScalarValue::from(true)];
        return ScalarValue::iter_to_array(truths).map_err(Stop::expression);
    }
    let source = columns.universe.table(slot_column.slot).ok_or_else(none)?;
    if source.table.positions() == 0 {
        return Err(none());
    }
    let field = slot_column.field.as_ref().clone().with_data_type(stored.clone());
    let statistics = table_statistics(&source.table, &[slot_column.column], &[field]);
    let known = |value: &Precision<ScalarValue>| value.get_value().cloned().ok_or_else(none);
    let [of_column] = statistics.column_statistics.as_slice() else { return Err(none()) };
    let mut both = [known(&of_column.min_value)?, known(&of_column.max_value)?];
    let in_files = source.table.rows_in_files() as u32;
    let stored = &columns.get(number)?.stored;
    if stored.len() > in_files as usize {
        let behind = Rows::Range(in_files, stored.len() as u32);
        for (bound, is_minimum) in both.iter_mut().zip([true, false]) {
            extend(bound, columns.get(number)?.extreme(behind, is_minimum)?, is_minimum);
        }
    }
    ScalarValue::iter_to_array(both).map_err(Stop::expression)
}

/// Extends the bound of some rows' values to that of others.
fn extend(bound: &mut ScalarValue, found: ScalarValue, is_minimum: bool) {
    let beyond = if is_minimum { Ordering::Less } else { Ordering::Greater };
    if !found.is_null() && found.partial_cmp(bound).is_none_or(|order| order == beyond) {
        *bound = found;
    }
}

/// Tells which keys are needed to tell groups apart: not those that depend on others, because a
/// join has found at most one row for the others' values.
fn needed_keys(expressions: &[Expression], columns: &Columns, flow: &ReadyFlow) -> Vec<bool> {
    let mut kept = vec![true; expressions.len()];
    for place in (0..expressions.len()).rev() {
        let Some(column) = expressions[place].downcast_ref::<Column>() else { continue };
        if columns.is_outer(column.index()) {
            continue;
        }
        kept[place] = false;
        let others: Vec<&Expression> =
            expressions.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(key, _)| key).collect();
        kept[place] = !depends(&expressions[place], &others, columns, flow);
    }
    kept
}

/// Tells whether the value of an expression is the same in all rows in which others are the same.
fn depends(expression: &Expression, others: &[&Expression], columns: &Columns, flow: &ReadyFlow) -> bool {
    let mut known = Known { slots: Vec::new(), expressions: others.to_vec() };
    loop {
        let before = (known.slots.len(), known.expressions.len());
        known.learn(flow, columns);
        if before == (known.slots.len(), known.expressions.len()) {
            return known.has(expression, columns);
        }
    }
}

/// What is the same in all rows of a group.
struct Known<'a> {
    slots: Vec<usize>,
    expressions: Vec<&'a Expression>,
}

impl<'a> Known<'a> {
    fn has(&self, expression: &Expression, columns: &Columns) -> bool {
        let slots = columns.universe.slots_of(expression);
        self.expressions.contains(&expression)
            || !slots.is_empty() && slots.iter().all(|slot| self.slots.contains(slot))
    }

    fn learn(&mut self, flow: &'a ReadyFlow, columns: &Columns) {
        for Link { keys, is_left, slots } in flow.links() {
            // The rows that a left join keeps have all the same NULL as the other side's key.
            let same = |(probe, build): &(Expression, Expression)| {
                self.has(probe, columns) || !is_left && self.has(build, columns)
            };
            if keys.iter().all(same) {
                for slot in slots {
                    if !self.slots.contains(slot) {
                        self.slots.push(*slot);
                    }
                }
                // Equal keys are equal on both sides.
                for (probe, build) in keys {
                    for key in [probe, build] {
                        if !self.expressions.contains(&key) {
                            self.expressions.push(key);
                        }
                    }
                }
            }
        }
    }
}
