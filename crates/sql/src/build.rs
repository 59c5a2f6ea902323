//! Queries that are built as trees. What is never a text needs no quotes, is read by no dialect, and no pass
//! changes it.

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    GroupByExpr, Ident, ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

/// Returns `SELECT items FROM tables`.
pub fn select(items: Vec<SelectItem>, tables: Vec<TableFactor>) -> Query {
    let from = tables.into_iter().map(|relation| TableWithJoins { relation, joins: Vec::new() }).collect();
    let select = Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: items,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    };
    query(SetExpr::Select(Box::new(select)))
}

/// Returns `SELECT * FROM table`.
pub fn all_rows(table: TableFactor) -> Query {
    select(vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())], vec![table])
}

/// Returns a query that is nothing but its body.
pub fn query(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// Returns a table by its name, which may be called otherwise.
pub fn table(name: Ident, alias: Option<Ident>) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(vec![name]),
        alias: alias.map(called),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// Returns a query in the place of a table.
pub fn derived(query: Query, alias: Ident) -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(called(alias)),
        sample: None,
    }
}

fn called(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse_query};
    use sqlparser::ast::Expr;

    #[test]
    fn what_is_built_is_what_would_be_read() {
        let of_table = all_rows(table(Ident::with_quote('"', "A b"), Some(Ident::new("c"))));
        let column = SelectItem::UnnamedExpr(Expr::Identifier(Ident::new("d")));
        let of_query = select(vec![column], vec![derived(of_table.clone(), Ident::new("e"))]);
        for (built, sql) in [
            (all_rows(table(Ident::new("t"), None)), "SELECT * FROM t"),
            (of_table, "SELECT * FROM \"A b\" AS c"),
            (of_query, "SELECT d FROM (SELECT * FROM \"A b\" AS c) AS e"),
        ] {
            assert_eq!(built.to_string(), sql);
            assert_eq!(built, parse_query(sql, &Extension::NONE).unwrap(), "{sql}");
        }
    }
}
