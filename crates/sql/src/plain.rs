//! What a query is nothing but: a list of values, all rows of one table, or those that pass a condition.
//! Each clause that the syntax tree has is named here, so that a new one cannot be overlooked. And what
//! relations a FROM has, their aliases, and the conditions of joins.

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectFlavor,
    SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

/// Returns the items of `SELECT items`.
pub fn only_items(query: &Query) -> Option<&[SelectItem]> {
    items_and_tables(query).and_then(|(items, tables)| tables.is_empty().then_some(items))
}

/// Returns the table of `SELECT * FROM table`.
pub fn only_table(query: &Query) -> Option<&ObjectName> {
    only_relation(query).and_then(name_alone)
}

/// Returns the relation of `SELECT * FROM relation`.
pub fn only_relation(query: &Query) -> Option<&TableFactor> {
    let ([SelectItem::Wildcard(options)], [TableWithJoins { relation, joins }]) = items_and_tables(query)?
    else {
        return None;
    };
    (joins.is_empty() && *options == WildcardAdditionalOptions::default()).then_some(relation)
}

/// What a query of one table asks for.
#[derive(Debug)]
pub struct OfTable<'a> {
    pub items: &'a [SelectItem],
    pub table: &'a ObjectName,
    pub alias: Option<&'a Ident>,
    pub condition: &'a Expr,
}

/// Returns the parts of `SELECT items FROM table [alias] WHERE condition`.
pub fn of_table(query: &Query) -> Option<OfTable<'_>> {
    let (items, [TableWithJoins { relation, joins }], Some(condition)) = items_tables_and_condition(query)?
    else {
        return None;
    };
    let (table, alias) = name_and_alias(relation).filter(|_| joins.is_empty())?;
    Some(OfTable { items, table, alias, condition })
}

/// Returns the lists behind SELECT and FROM of a query without any other clause.
fn items_and_tables(query: &Query) -> Option<(&[SelectItem], &[TableWithJoins])> {
    let (items, tables, condition) = items_tables_and_condition(query)?;
    condition.is_none().then_some((items, tables))
}

/// Returns what stands behind SELECT, FROM and WHERE of a query without any other clause.
fn items_tables_and_condition(query: &Query) -> Option<(&[SelectItem], &[TableWithJoins], Option<&Expr>)> {
    let Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    let SetExpr::Select(select) = body.as_ref() else { return None };
    let Select {
        select_token: _,
        optimizer_hints,
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: _,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views,
        prewhere: None,
        selection,
        connect_by,
        group_by: GroupByExpr::Expressions(keys, modifiers),
        cluster_by,
        distribute_by,
        sort_by,
        having: None,
        named_window,
        qualify: None,
        window_before_qualify: _,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    } = select.as_ref()
    else {
        return None;
    };
    let is_grouped = !keys.is_empty() || !modifiers.is_empty();
    let is_sorted = !cluster_by.is_empty() || !distribute_by.is_empty() || !sort_by.is_empty();
    let has_more = !locks.is_empty()
        || !pipe_operators.is_empty()
        || !optimizer_hints.is_empty()
        || !lateral_views.is_empty()
        || !connect_by.is_empty()
        || !named_window.is_empty();
    let is_plain = !projection.is_empty() && !is_grouped && !is_sorted && !has_more;
    is_plain.then_some((projection.as_slice(), from.as_slice(), selection.as_ref()))
}

/// Returns the name of a table that is written with nothing else.
fn name_alone(relation: &TableFactor) -> Option<&ObjectName> {
    name_and_alias(relation).and_then(|(name, alias)| alias.is_none().then_some(name))
}

/// Returns the name of a table, and what it is called, if nothing else is written with it.
pub fn name_and_alias(relation: &TableFactor) -> Option<(&ObjectName, Option<&Ident>)> {
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = relation
    else {
        return None;
    };
    let alias = match alias {
        None => None,
        Some(TableAlias { explicit: _, name, columns, at: None }) if columns.is_empty() => Some(name),
        Some(_) => return None,
    };
    (with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty()).then_some((name, alias))
}

/// Returns the relations of a FROM, also those of joins in parentheses.
pub fn relations_of<'a>(from: impl IntoIterator<Item = &'a TableWithJoins>) -> Vec<&'a TableFactor> {
    let joined = |tables: &'a TableWithJoins| {
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
    };
    from.into_iter().flat_map(joined).flat_map(relations_in).collect()
}

/// Returns the relations of joins in parentheses; of another relation, itself.
pub fn relations_in(relation: &TableFactor) -> Vec<&TableFactor> {
    match relation {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            relations_of([table_with_joins.as_ref()])
        }
        other => vec![other],
    }
}

/// Returns the alias of a relation.
pub fn alias_of(relation: &TableFactor) -> Option<&TableAlias> {
    match relation {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// Returns the condition of a join, if it is one that may merge columns.
pub fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse_query};

    fn query(sql: &str) -> Query {
        parse_query(sql, &Extension::NONE).unwrap()
    }

    #[test]
    fn a_table_alone_is_read_whole() {
        for (sql, name) in [("SELECT * FROM t", "t"), ("select * from a.\"B\".c;", "a.\"B\".c")] {
            assert_eq!(only_table(&query(sql)).map(ToString::to_string).as_deref(), Some(name), "{sql}");
        }
        for sql in [
            "SELECT a FROM t",
            "SELECT *, a FROM t",
            "SELECT * EXCLUDE (a) FROM t",
            "SELECT * REPLACE (1 AS a) FROM t",
            "SELECT t.* FROM t",
            "SELECT DISTINCT * FROM t",
            "SELECT * FROM t AS u",
            "SELECT * FROM t, u",
            "SELECT * FROM t JOIN u ON TRUE",
            "SELECT * FROM range(3)",
            "SELECT * FROM (SELECT * FROM t)",
            "SELECT * FROM t WHERE a = 1",
            "SELECT * FROM t ORDER BY a",
            "SELECT * FROM t LIMIT 1",
            "SELECT * FROM t OFFSET 1",
            "WITH t AS (SELECT 1) SELECT * FROM t",
            "SELECT * FROM t UNION ALL SELECT * FROM t",
        ] {
            assert!(only_table(&query(sql)).is_none(), "{sql}");
        }
    }

    #[test]
    fn items_alone_are_found() {
        assert_eq!(only_items(&query("SELECT 1, 'x' AS a")).map(<[_]>::len), Some(2));
        for sql in [
            "SELECT 1 FROM t",
            "SELECT 1 WHERE FALSE",
            "SELECT DISTINCT 1",
            "SELECT 1 LIMIT 0",
            "SELECT 1 ORDER BY 1",
            "SELECT 1 UNION ALL SELECT 2",
            "VALUES (1)",
        ] {
            assert!(only_items(&query(sql)).is_none(), "{sql}");
        }
    }

    #[test]
    fn relations_are_found_in_parentheses() {
        let query = query("SELECT * FROM a, (b CROSS JOIN (c CROSS JOIN d)) CROSS JOIN e");
        let SetExpr::Select(select) = query.body.as_ref() else { panic!("{query}") };
        let names: Vec<String> = relations_of(&select.from).into_iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn each_relation_may_have_an_alias() {
        for (sql, alias) in [
            ("SELECT * FROM t", None),
            ("SELECT * FROM t AS u", Some("u")),
            ("SELECT * FROM (SELECT 1) AS u", Some("u")),
            ("SELECT * FROM (t CROSS JOIN s) AS u", Some("u")),
        ] {
            let query = query(sql);
            let SetExpr::Select(select) = query.body.as_ref() else { panic!("{sql}") };
            let relation = &select.from[0].relation;
            assert_eq!(alias_of(relation).map(|alias| alias.name.value.as_str()), alias, "{sql}");
        }
    }
}
