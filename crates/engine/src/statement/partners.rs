//! Statements that change rows of a table of the cluster which have partners in other tables: its nodes are
//! told the keys of these, and send no other rows.

use crate::statement::constraint::told;
use crate::statement::planned_parameters::literal;
use crate::statement::target::Target;
use crate::statement::violation::ends;
use crate::statement::writer::Writer;
use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, ObjectName, SetExpr, TableFactor, TableWithJoins,
};
use hypostyle_catalog::given::Relation;
use hypostyle_error::from_datafusion;
use hypostyle_placement::partition::Kind;
use hypostyle_sql::build;
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_sql::plain::name_and_alias;
use hypostyle_storage::ColumnEntry;
use hypostyle_types::{LogicalType, Result};

/// So many keys are told to the nodes one by one, and so many bytes of them; of more, the least and the
/// greatest.
const PARTNER_KEYS_MAX: u64 = 4096;
const PARTNER_BYTES_MAX: usize = 1 << 20;

/// The most rows of a table whose keys are listed: of more, the least and the greatest are looked for.
const LISTED_ROWS_MAX: u64 = 1 << 20;

/// Returns how many keys of so many bytes are told to the nodes one by one.
pub(super) fn most_listed(bytes: usize) -> u64 {
    if bytes <= PARTNER_BYTES_MAX { PARTNER_KEYS_MAX } else { 0 }
}

impl Writer<'_> {
    /// Returns a condition with what follows from it for rows of a table of the cluster: that they have keys
    /// of the other tables, of which it says that they are equal. A row that meets the one meets the other.
    pub(super) fn narrowed(
        &self,
        target: &Target,
        others: &[TableWithJoins],
        condition: Option<Expr>,
    ) -> Result<Option<Expr>> {
        let (mut parts, mut within) = (Vec::new(), Vec::new());
        if target.is_of_cluster
            && let Some(condition) = &condition
        {
            divide(condition, &mut parts);
        }
        for part in parts {
            within.extend(self.with_partner(target, others, part)?);
        }
        match within.is_empty() {
            true => Ok(condition),
            false => Ok(build::all_of(condition.into_iter().chain(within))),
        }
    }

    /// Returns what follows from one part of a condition, if it compares a column of the target with one of
    /// another table.
    fn with_partner(&self, target: &Target, others: &[TableWithJoins], part: &Expr) -> Result<Option<Expr>> {
        let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = part else { return Ok(None) };
        for (own, partner) in [(left, right), (right, left)] {
            let (Some((alias, name)), Some((other, key))) = (column_of(own), column_of(partner)) else {
                return Ok(None);
            };
            if alias != target.alias || other == target.alias {
                continue;
            }
            let column = target.columns().iter().find(|column| column.name == name);
            let table = others.iter().filter(|table| table.joins.is_empty()).find_map(|table| {
                let (name, alias) = name_and_alias(&table.relation)?;
                let called = alias.map_or_else(|| last_of(name).ok(), |alias| Some(fold(alias)))?;
                (called == other).then_some((&table.relation, name))
            });
            let Some((column, (relation, name))) = column.zip(table) else { return Ok(None) };
            let Some(rows) = self.rows_with(name, &key, &column.logical_type) else { return Ok(None) };
            return self.keys_among(target, column, (relation, &other, &key), rows);
        }
        Ok(None)
    }

    /// Returns how many rows a table has, if it is one whose rows are the same each time that the statement
    /// reads them, and has a column of this type.
    fn rows_with(&self, name: &ObjectName, key: &str, of_type: &LogicalType) -> Option<u64> {
        let given = match name.0.as_slice() {
            [part] => part.as_ident().and_then(|name| self.scope.given(&name.value)),
            _ => None,
        };
        if let Some(given) = given {
            let Relation::Rows { rows, .. } = given else { return None };
            let is_same = *rows.schema().field_with_name(key).ok()?.data_type() == of_type.arrow_type();
            // Texts may be of other types, which compare otherwise.
            return (is_same && *of_type != LogicalType::Varchar).then_some(0);
        }
        let table = self.names().table_data(&self.names().resolve(name).ok()?)?;
        let column = table.entry().columns.iter().find(|column| column.name == key)?;
        (column.logical_type == *of_type).then(|| self.checks.cluster.row_count(&table))
    }

    /// Returns the condition that a column of the target has one of the keys of another table.
    fn keys_among(
        &self,
        target: &Target,
        column: &ColumnEntry,
        (relation, other, key): (&TableFactor, &str, &str),
        rows: u64,
    ) -> Result<Option<Expr>> {
        let (is_listed, has_range) = Kind::of(&column.logical_type).map_or((false, false), told);
        let own = target.column_of_row(&column.name);
        if is_listed && rows <= LISTED_ROWS_MAX {
            let items = vec![build::item(build::column_of(other, key))];
            let mut query = build::select(items, vec![relation.clone()]);
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.distinct = Some(Distinct::Distinct);
            }
            let found = self.queries.rows_of_query(build::limited(query, PARTNER_KEYS_MAX + 1))?;
            let count: u64 = found.iter().map(|rows| rows.num_rows() as u64).sum();
            let bytes: usize = found.iter().map(RecordBatch::get_array_memory_size).sum();
            if count <= most_listed(bytes) {
                let values = values_of(&found)?;
                if values.is_empty() {
                    return Ok(Some(build::truth(false)));
                }
                let literals = values.iter().map(literal).collect::<Option<Vec<Expr>>>();
                return Ok(literals.map(|literals| build::is_among(own, literals)));
            }
        }
        if !has_range {
            return Ok(None);
        }
        let Some(row) = self.queries.first_row(ends(relation.clone(), key))? else { return Ok(None) };
        let ends = row.columns().iter().map(|column| ScalarValue::try_from_array(column, 0));
        let ends = ends.collect::<datafusion::error::Result<Vec<_>>>().map_err(from_datafusion)?;
        if ends.iter().any(ScalarValue::is_null) {
            return Ok(Some(build::truth(false)));
        }
        Ok(match ends.iter().map(literal).collect::<Option<Vec<Expr>>>().as_deref() {
            Some([low, high]) => Some(build::is_between(own, low.clone(), high.clone())),
            _ => None,
        })
    }
}

/// Divides a condition into parts that all have to be true.
fn divide<'a>(condition: &'a Expr, parts: &mut Vec<&'a Expr>) {
    let mut rest = vec![condition];
    while let Some(next) = rest.pop() {
        match next {
            Expr::Nested(inner) => rest.push(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => rest.extend([&**left, &**right]),
            part => parts.push(part),
        }
    }
}

/// Returns the names of a table and of a column of it, if an expression is that.
fn column_of(expr: &Expr) -> Option<(String, String)> {
    match expr {
        Expr::Nested(inner) => column_of(inner),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [relation, column] => Some((fold(relation), fold(column))),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the values of the first column of some rows that are not NULL.
fn values_of(rows: &[RecordBatch]) -> Result<Vec<ScalarValue>> {
    let columns = rows.iter().map(|rows| rows.column(0));
    let values = columns.flat_map(|column| (0..column.len()).map(move |row| (column, row)));
    let values = values.filter(|(column, row)| !column.is_null(*row));
    values.map(|(column, row)| ScalarValue::try_from_array(column, row).map_err(from_datafusion)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::dialect::parse_query;

    #[test]
    fn long_keys_are_not_listed() {
        assert_eq!(most_listed(PARTNER_BYTES_MAX), PARTNER_KEYS_MAX);
        assert_eq!(most_listed(PARTNER_BYTES_MAX + 1), 0);
    }

    #[test]
    fn only_what_has_to_be_true_tells_of_partners() {
        let query =
            parse_query("SELECT 1 WHERE t.a = o.b AND ((t.c = 1 OR t.d = o.e) AND (o.f = t.g))").unwrap();
        let SetExpr::Select(select) = query.body.as_ref() else { panic!("no SELECT") };
        let (condition, mut parts) = (select.selection.as_ref().unwrap(), Vec::new());
        divide(condition, &mut parts);
        let mut shown: Vec<String> = parts.iter().map(|part| part.to_string()).collect();
        shown.sort();
        assert_eq!(shown, ["o.f = t.g", "t.a = o.b", "t.c = 1 OR t.d = o.e"]);
        let columns = |text: &str| {
            let part = parts.iter().find(|part| part.to_string() == text);
            let Some(Expr::BinaryOp { left, right, .. }) = part else { panic!("{text}") };
            (column_of(left), column_of(right))
        };
        let named = |relation: &str, column: &str| Some((relation.to_string(), column.to_string()));
        assert_eq!(columns("t.a = o.b"), (named("t", "a"), named("o", "b")));
        assert_eq!(columns("t.c = 1 OR t.d = o.e"), (None, None));
    }
}
