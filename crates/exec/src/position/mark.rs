//! Semi and anti joins whose other side is the larger one: its rows mark the rows that they find.

use super::build::{differ, evaluators, hash_table, key_bits, verify};
use super::chunk::Chunk;
use super::evaluate::{Evaluator, Value, Values};
use super::execution::Execution;
use super::extremes::{Comparison, Extremes};
use super::flow::{Flow, Mark};
use super::held;
use super::index::referring;
use super::number::{Numbers, known_places};
use super::ready::{Lists, ReadyFlow, restrict};
use super::run::{Sink, run};
use super::stop::Stopped;
use hypostyle_position::join::{JoinTable, Pairs};
use hypostyle_position::{Bits, NO_POSITION, Rows};
use std::sync::Arc;

/// The pairs of rows that conditions are evaluated for at a time.
const PAIRS: usize = 1 << 13;

/// The collected rows by their keys.
struct Table {
    rows: JoinTable,
    /// The positions of the collected rows.
    positions: Chunk,
    slots: Vec<usize>,
    /// A bit for each key from the lowest on, which most rows of the other side do not find set.
    known: Option<(i64, Bits)>,
    keys: Vec<Evaluator>,
    conditions: Vec<Evaluator>,
    /// The only condition, if extremes tell whether it holds.
    comparison: Option<Comparison>,
}

/// What one worker has marked.
struct Marks {
    table: Arc<Table>,
    bits: Bits,
    extremes: Option<Extremes>,
}

/// Returns the places of the collected rows of a flow that remain.
pub(super) async fn remaining(
    execution: &Arc<Execution>,
    mark: &Mark,
    flow: &Flow,
    lists: &Lists,
) -> Stopped<Vec<u32>> {
    let seen = differ(execution, &mark.keys)?;
    let slots: Vec<usize> = lists.lists.iter().map(|(slot, _)| *slot).collect();
    verify(execution, &slots)?;
    let reservation = execution.reservation("PosJoinExec");
    let grow = |bytes: usize| held::grow(&reservation, bytes);
    let positions = lists.chunk(execution.universe().sources.len());
    grow(lists.rows * 4 * slots.len())?;
    let comparison = Comparison::of(&mark.conditions, &slots, execution.universe())?;
    let (rows, known, firsts) = {
        let numbers = Numbers::default();
        let mut values = Values::new(&execution.columns, &numbers, &positions);
        let own = evaluators(mark.keys.iter().map(|(own, _)| own), execution.universe(), seen)?;
        let keys = own.iter().map(|key| values.get(key)).collect::<Stopped<Vec<_>>>()?;
        let known = match keys.as_slice() {
            [key] if !mark.nulls_equal => key_bits(key, &grow)?,
            _ => None,
        };
        let rows = hash_table(execution, &keys, lists.rows, mark.nulls_equal, &grow)?;
        let firsts = match (mark.conditions.is_empty() || comparison.is_some()) && !rows.is_unique() {
            true => {
                grow(lists.rows * 8)?;
                let columns: Vec<_> = keys.iter().map(Value::column).collect();
                Some(rows.probe(&columns)?.first_partners())
            }
            false => None,
        };
        (rows, known, firsts)
    };
    let conditions = mark.conditions.iter().map(|condition| Evaluator::seen(condition, execution.universe()));
    let table = Arc::new(Table {
        rows,
        positions,
        slots,
        known,
        keys: evaluators(mark.keys.iter().map(|(_, other)| other), execution.universe(), seen)?,
        conditions: conditions.collect::<Stopped<_>>()?,
        comparison,
    });
    grow(Bits::bytes_for(lists.rows) * execution.threads)?;
    if let Some(restricted) = &mark.restricted {
        restrict(execution, &mark.keys, restricted, lists)?;
    }
    let found = match mark.nulls_equal {
        true => None,
        false => referring(execution, mark, flow, lists)?,
    };
    let other = Arc::new(ReadyFlow::make_of(execution, &mark.other, found, None).await?);
    let make = || {
        let extremes = table.comparison.as_ref().map(|comparison| Extremes::new(comparison, lists.rows));
        Ok(Marks { table: table.clone(), bits: Bits::new(lists.rows), extremes: extremes.transpose()? })
    };
    let workers = run(execution, &other, "PosJoinExec", make).await?;
    let mut marked = put_together(execution, &table, lists.rows, workers, firsts.as_deref())?;
    if mark.anti {
        marked.not();
    }
    Ok(marked.positions())
}

/// Returns the collected rows that workers have marked. `firsts` are the first rows with the same keys,
/// where several have them: these alone are marked, for all of them.
fn put_together(
    execution: &Execution,
    table: &Table,
    rows: usize,
    workers: Vec<Marks>,
    firsts: Option<&[u32]>,
) -> Stopped<Bits> {
    let mut marked = Bits::new(rows);
    let mut all: Option<Extremes> = None;
    for Marks { bits, extremes, .. } in workers {
        marked.or(&bits)?;
        match (&mut all, extremes) {
            (Some(all), Some(extremes)) => all.merge(&extremes, rows)?,
            (all, extremes) => *all = extremes,
        }
    }
    let places: Vec<u32> = match (&table.comparison, &all, firsts) {
        (Some(comparison), Some(extremes), firsts) => {
            let numbers = Numbers::default();
            let mut values = Values::new(&execution.columns, &numbers, &table.positions);
            let themselves: Vec<u32> = (0..rows as u32).collect();
            comparison.fulfilled(&mut values, extremes, firsts.unwrap_or(&themselves))?
        }
        (_, _, Some(firsts)) => {
            (0..).zip(firsts).filter(|(_, first)| marked.test(**first)).map(|(place, _)| place).collect()
        }
        _ => return Ok(marked),
    };
    marked.set(Rows::List(&places))?;
    Ok(marked)
}

impl Sink for Marks {
    const NAME: &'static str = "mark";

    fn push(&mut self, execution: &Execution, chunk: &Chunk) -> Stopped<()> {
        let Self { table, bits, extremes } = self;
        let numbers = Numbers::default();
        let mut likely = None;
        if let (Some((low, known)), [key]) = (&table.known, table.keys.as_slice()) {
            let key = Values::new(&execution.columns, &numbers, chunk).get(key)?;
            let (array, rows) = key.parts();
            if let Some((places, _)) = known_places(array, rows, *low, known) {
                likely = Some(chunk.at(&places));
            }
        }
        let chunk = likely.as_ref().unwrap_or(chunk);
        if chunk.rows == 0 {
            return Ok(());
        }
        let mut values = Values::new(&execution.columns, &numbers, chunk);
        let keys = table.keys.iter().map(|key| values.get(key)).collect::<Stopped<Vec<_>>>()?;
        let columns: Vec<_> = keys.iter().map(Value::column).collect();
        let mut probe = table.rows.probe(&columns)?;
        if let (Some(comparison), Some(extremes)) = (&table.comparison, extremes) {
            return extremes.push(comparison, &mut values, &probe.first_partners());
        }
        if table.conditions.is_empty() {
            let mut firsts = probe.first_partners();
            firsts.retain(|first| *first != NO_POSITION);
            return Ok(bits.set(Rows::List(&firsts))?);
        }
        let mut pairs = Pairs::default();
        loop {
            let more = probe.next_pairs(false, PAIRS, &mut pairs);
            execution.check()?;
            if !pairs.partners.is_empty() {
                bits.set(Rows::List(&table.fulfilled(execution, chunk, &pairs)?))?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn bytes(&self) -> usize {
        // The bits are accounted for before the rows come.
        self.extremes.as_ref().map_or(0, Extremes::bytes)
    }
}

impl Table {
    /// Returns the collected rows of the pairs for which all conditions hold.
    fn fulfilled(&self, execution: &Execution, other: &Chunk, pairs: &Pairs) -> Stopped<Vec<u32>> {
        let mut both = other.at(&pairs.places);
        let own = self.positions.at(&pairs.partners);
        for slot in &self.slots {
            both.put(*slot, own.positions(*slot).into());
        }
        let numbers = Numbers::default();
        let mut values = Values::new(&execution.columns, &numbers, &both);
        let mut partners = pairs.partners.clone();
        for condition in &self.conditions {
            for (partner, is_true) in partners.iter_mut().zip(values.truths(condition)?) {
                if is_true == 0 {
                    *partner = NO_POSITION;
                }
            }
        }
        partners.retain(|partner| *partner != NO_POSITION);
        Ok(partners)
    }
}
