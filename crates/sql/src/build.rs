//! Queries that are built as trees. What is never a text needs no quotes, is read by no dialect, and no pass
//! changes it. What is built prints as what the parser would read to the same tree.

use crate::call::call;
use crate::chains;
use crate::operators::{IS, RANGE, of_binary, of_unary};
use crate::printable::{self, close};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, Insert, Join, JoinConstraint, JoinOperator, LimitClause,
    ObjectName, OrderBy, OrderByExpr, OrderByKind, Parens, Query, Select, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, TableAlias, TableAliasColumnDef,
    TableFactor, TableObject, TableWithJoins, UnaryOperator, Value, Values, WildcardAdditionalOptions,
    WindowSpec, WindowType,
};

/// Returns `SELECT items FROM tables`.
pub fn select(items: Vec<SelectItem>, tables: Vec<TableFactor>) -> Query {
    select_where(items, tables.into_iter().map(alone).collect(), None)
}

/// Returns `SELECT items FROM from WHERE condition`.
pub fn select_where(items: Vec<SelectItem>, from: Vec<TableWithJoins>, condition: Option<Expr>) -> Query {
    query(SetExpr::Select(Box::new(plain_select(items, from, condition))))
}

/// Returns `SELECT items FROM from WHERE condition GROUP BY keys HAVING having`.
fn select_groups(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    condition: Option<Expr>,
    keys: Vec<Expr>,
    having: Expr,
) -> Query {
    let group_by = GroupByExpr::Expressions(keys, Vec::new());
    let select = Select { group_by, having: Some(having), ..plain_select(items, from, condition) };
    query(SetExpr::Select(Box::new(select)))
}

/// Returns a query for a key that several rows of a table have, if there is one.
pub fn repeated_key(table: TableFactor, key: Vec<Expr>) -> Query {
    let known = all_of(key.iter().cloned().map(is_known));
    let items = key.iter().cloned().map(item).collect();
    let several = binary(count_rows(), BinaryOperator::Gt, number(1));
    limited(select_groups(items, vec![alone(table)], known, key, several), 1)
}

fn plain_select(items: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Select {
    Select {
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
        selection,
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
    }
}

/// Returns `SELECT * FROM table`.
pub fn all_rows(table: TableFactor) -> Query {
    select(vec![every_column()], vec![table])
}

/// Returns all rows of a query as a part of another: some queries run as soon as they are planned.
pub fn rows_of(query: Query) -> Query {
    all_rows(derived(query, Ident::new("source")))
}

/// Returns a query for rows that are written out.
pub fn values(rows: Vec<Vec<Expr>>) -> Query {
    let rows = rows.into_iter().map(Parens::with_empty_span).collect();
    query(SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows }))
}

/// Returns both queries' rows.
pub fn union_all(left: Query, right: Query) -> Query {
    query(SetExpr::SetOperation {
        left: left.body,
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        right: right.body,
    })
}

/// Returns a query that gives so many rows at most.
pub fn limited(query: Query, rows: u64) -> Query {
    let limit = Some(number(rows));
    let clause = LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() };
    Query { limit_clause: Some(clause), ..query }
}

/// Returns a query that gives its rows in the order of some values.
pub fn ordered(query: Query, keys: Vec<Expr>) -> Query {
    Query { order_by: Some(order_by(keys)), ..query }
}

/// Returns `ORDER BY keys`.
pub fn order_by(keys: Vec<Expr>) -> OrderBy {
    OrderBy { kind: OrderByKind::Expressions(ascending(keys)), interpolate: None }
}

fn ascending(keys: Vec<Expr>) -> Vec<OrderByExpr> {
    let key = |expr| OrderByExpr { expr, options: Default::default(), with_fill: None };
    keys.into_iter().map(key).collect()
}

/// Returns an INSERT of the rows of a query into all columns of a table.
pub fn insert(table: impl Into<ObjectName>, source: Query) -> Insert {
    Insert {
        insert_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        or: None,
        ignore: false,
        into: true,
        table: TableObject::TableName(table.into()),
        table_alias: None,
        columns: Vec::new(),
        overwrite: false,
        source: Some(Box::new(source)),
        assignments: Vec::new(),
        partitioned: None,
        after_columns: Vec::new(),
        has_table_keyword: false,
        on: None,
        returning: None,
        output: None,
        replace_into: false,
        priority: None,
        insert_alias: None,
        settings: None,
        format_clause: None,
        multi_table_insert_type: None,
        multi_table_into_clauses: Vec::new(),
        multi_table_when_clauses: Vec::new(),
        multi_table_else_clause: None,
    }
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
pub fn table(name: impl Into<ObjectName>, alias: Option<Ident>) -> TableFactor {
    TableFactor::Table {
        name: name.into(),
        alias: alias.map(|name| called(name, Vec::new())),
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
    derived_as(query, alias, Vec::new())
}

/// Returns a query in the place of a table, whose first columns have these names.
pub fn derived_as(query: Query, alias: Ident, columns: Vec<Ident>) -> TableFactor {
    let alias = Some(called(alias, columns));
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None }
}

/// Returns an alias of a relation, whose first columns have these names.
pub fn called(name: Ident, columns: Vec<Ident>) -> TableAlias {
    let columns = columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None });
    TableAlias { explicit: true, name, columns: columns.collect(), at: None }
}

/// Returns a relation with nothing joined to it.
pub fn alone(relation: TableFactor) -> TableWithJoins {
    TableWithJoins { relation, joins: Vec::new() }
}

/// Returns the pairs of rows of two relations that meet a condition.
pub fn joined(left: TableFactor, right: TableFactor, condition: Expr) -> TableWithJoins {
    with_join(left, right, JoinOperator::Join(JoinConstraint::On(condition)))
}

/// Returns the rows of a relation that meet a condition with no row of another.
pub fn without_partner(left: TableFactor, right: TableFactor, condition: Expr) -> TableWithJoins {
    with_join(left, right, JoinOperator::LeftAnti(JoinConstraint::On(condition)))
}

fn with_join(left: TableFactor, right: TableFactor, join_operator: JoinOperator) -> TableWithJoins {
    TableWithJoins { relation: left, joins: vec![Join { relation: right, global: false, join_operator }] }
}

/// Returns a name as it is, whatever characters it has.
pub fn name(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// Returns a column by its name alone.
pub fn column(of_name: &str) -> Expr {
    Expr::Identifier(name(of_name))
}

/// Returns a column of a relation.
pub fn column_of(relation: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![name(relation), name(column)])
}

/// Returns an item of SELECT that has the name of its expression.
pub fn item(expr: Expr) -> SelectItem {
    SelectItem::UnnamedExpr(expr)
}

/// Returns an item of SELECT by another name.
pub fn item_named(expr: Expr, alias: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: name(alias) }
}

/// Returns `*`.
pub fn every_column() -> SelectItem {
    SelectItem::Wildcard(WildcardAdditionalOptions::default())
}

/// Returns all columns of a relation.
pub fn every_column_of(relation: &str) -> SelectItem {
    let of = SelectItemQualifiedWildcardKind::ObjectName(name(relation).into());
    SelectItem::QualifiedWildcard(of, WildcardAdditionalOptions::default())
}

/// Returns a number.
pub fn number(number: u64) -> Expr {
    Expr::value(Value::Number(number.to_string(), false))
}

/// Returns a text.
pub fn text(text: &str) -> Expr {
    let mut text = Expr::value(Value::SingleQuotedString(text.to_string()));
    printable::rewrite(&mut text);
    text
}

/// Returns `CAST(of AS to)`.
pub fn cast(of: Expr, to: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(of), data_type: to, array: false, format: None }
}

/// Returns `CASE WHEN condition THEN result END`.
pub fn case(condition: Expr, result: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: None,
    }
}

/// Returns a truth.
pub fn truth(is: bool) -> Expr {
    Expr::value(Value::Boolean(is))
}

/// Returns NULL.
pub fn null() -> Expr {
    Expr::value(Value::Null)
}

/// Returns an operator between its operands.
pub fn binary(mut left: Expr, op: BinaryOperator, mut right: Expr) -> Expr {
    let level = of_binary(&op);
    close(&mut left, level);
    close(&mut right, level + 1);
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Returns `left = right`.
pub fn equal(left: Expr, right: Expr) -> Expr {
    binary(left, BinaryOperator::Eq, right)
}

/// Returns `left IS DISTINCT FROM right`.
pub fn differ(mut left: Expr, mut right: Expr) -> Expr {
    close(&mut left, IS);
    close(&mut right, IS + 1);
    Expr::IsDistinctFrom(Box::new(left), Box::new(right))
}

/// Returns `NOT operand`.
pub fn not(mut operand: Expr) -> Expr {
    let op = UnaryOperator::Not;
    close(&mut operand, of_unary(op));
    Expr::UnaryOp { op, expr: Box::new(operand) }
}

/// Returns `operand IS NULL`.
pub fn is_null(mut operand: Expr) -> Expr {
    close(&mut operand, IS);
    Expr::IsNull(Box::new(operand))
}

/// Returns `operand IS NOT NULL`.
pub fn is_known(mut operand: Expr) -> Expr {
    close(&mut operand, IS);
    Expr::IsNotNull(Box::new(operand))
}

/// Returns `operand IN (list)`.
pub fn is_among(mut operand: Expr, list: Vec<Expr>) -> Expr {
    close(&mut operand, RANGE);
    Expr::InList { expr: Box::new(operand), list, negated: false }
}

/// Returns `operand BETWEEN low AND high`.
pub fn is_between(mut operand: Expr, mut low: Expr, mut high: Expr) -> Expr {
    close(&mut operand, RANGE);
    close(&mut low, RANGE + 1);
    close(&mut high, RANGE + 1);
    Expr::Between { expr: Box::new(operand), negated: false, low: Box::new(low), high: Box::new(high) }
}

/// Returns the condition that a query gives no row.
pub fn not_exists(query: Query) -> Expr {
    Expr::Exists { subquery: Box::new(query), negated: true }
}

/// Returns the condition that all of some conditions are true; `None` for none.
pub fn all_of(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    chained(conditions, &BinaryOperator::And)
}

/// Returns the condition that one of some conditions is true; `None` for none.
pub fn any_of(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    chained(conditions, &BinaryOperator::Or)
}

fn chained(conditions: impl IntoIterator<Item = Expr>, op: &BinaryOperator) -> Option<Expr> {
    let mut chain =
        conditions.into_iter().reduce(|before, condition| binary(before, op.clone(), condition))?;
    chains::balance(&mut chain);
    Some(chain)
}

/// Returns `coalesce(first, second)`.
pub fn coalesce(first: Expr, second: Expr) -> Expr {
    call("coalesce", vec![first, second])
}

/// Returns `min(of)`.
pub fn min(of: Expr) -> Expr {
    call("min", vec![of])
}

/// Returns `max(of)`.
pub fn max(of: Expr) -> Expr {
    call("max", vec![of])
}

/// Returns `count(*)`.
pub fn count_rows() -> Expr {
    let mut count = call("count", Vec::new());
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut count {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
    }
    count
}

/// Returns the number of a row among those of the same keys, in the order of some values.
pub fn row_number(keys: Vec<Expr>, order: Vec<Expr>) -> Expr {
    let mut number = call("row_number", Vec::new());
    if let Expr::Function(function) = &mut number {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: keys,
            order_by: ascending(order),
            window_frame: None,
        }));
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Extension, parse, parse_query};
    use datafusion_sql::parser::Statement as DfStatement;
    use sqlparser::ast::Statement;

    /// Names that are no words, or mean something else where they are not quoted.
    const NAMES: [&str; 10] = ["a\"b", "select", "a.b", "A b", "it's", "$1", "a\nb", "--", "/*", "a\\"];

    fn t() -> TableFactor {
        table(Ident::new("t"), None)
    }

    fn u() -> TableFactor {
        table(Ident::new("u"), Some(Ident::new("v")))
    }

    fn c() -> Expr {
        Expr::Identifier(Ident::new("c"))
    }

    fn d() -> Expr {
        Expr::Identifier(Ident::new("d"))
    }

    /// Checks that a query is what the parser makes of its text.
    fn check(built: &Query, sql: &str) {
        assert_eq!(built.to_string(), sql);
        assert_eq!(*built, parse_query(sql, &Extension::NONE).unwrap(), "{sql}");
    }

    #[test]
    fn what_is_built_is_what_would_be_read() {
        check(&rows_of(all_rows(t())), "SELECT * FROM (SELECT * FROM t) AS source");
        let of_table = all_rows(table(Ident::with_quote('"', "A b"), Some(Ident::new("c"))));
        let of_query = select(vec![item(d())], vec![derived(of_table.clone(), Ident::new("e"))]);
        let full = ObjectName::from(vec![name("d"), name("s"), name("t")]);
        let both = vec![every_column_of("t"), item_named(column_of("t", "c"), "d")];
        for (built, sql) in [
            (all_rows(t()), "SELECT * FROM t"),
            (of_table.clone(), "SELECT * FROM \"A b\" AS c"),
            (of_query, "SELECT d FROM (SELECT * FROM \"A b\" AS c) AS e"),
            (all_rows(table(full, None)), "SELECT * FROM \"d\".\"s\".\"t\""),
            (select(both, vec![t()]), "SELECT \"t\".*, \"t\".\"c\" AS \"d\" FROM t"),
            (select(vec![item(column("c"))], vec![t(), u()]), "SELECT \"c\" FROM t, u AS v"),
            (
                select_where(
                    vec![every_column()],
                    vec![joined(t(), u(), equal(c(), d()))],
                    Some(is_null(c())),
                ),
                "SELECT * FROM t JOIN u AS v ON c = d WHERE c IS NULL",
            ),
            (
                select_where(vec![every_column()], vec![without_partner(t(), u(), equal(c(), d()))], None),
                "SELECT * FROM t LEFT ANTI JOIN u AS v ON c = d",
            ),
            (
                repeated_key(t(), vec![c(), d()]),
                "SELECT c, d FROM t WHERE c IS NOT NULL AND d IS NOT NULL GROUP BY c, d HAVING count(*) > 1 LIMIT 1",
            ),
            (union_all(all_rows(t()), all_rows(u())), "SELECT * FROM t UNION ALL SELECT * FROM u AS v"),
            (values(vec![vec![number(1), null()], vec![c(), d()]]), "VALUES (1, NULL), (c, d)"),
            (ordered(all_rows(t()), vec![c(), d()]), "SELECT * FROM t ORDER BY c, d"),
            (
                all_rows(derived_as(all_rows(t()), Ident::new("e"), vec![Ident::new("c"), name("A b")])),
                "SELECT * FROM (SELECT * FROM t) AS e (c, \"A b\")",
            ),
        ] {
            check(&built, sql);
        }
    }

    #[test]
    fn an_insert_is_what_would_be_read() {
        let full = ObjectName::from(vec![name("s"), name("A b")]);
        let built = Statement::Insert(insert(full, all_rows(t())));
        let sql = "INSERT INTO \"s\".\"A b\" SELECT * FROM t";
        assert_eq!(built.to_string(), sql);
        let DfStatement::Statement(read) = parse(sql, &Extension::NONE).unwrap() else { panic!("{sql}") };
        assert_eq!(built, *read);
    }

    #[test]
    fn expressions_are_what_would_be_read() {
        let or = || any_of([equal(c(), number(1)), is_null(d())]).unwrap();
        for (built, sql) in [
            (not(or()), "NOT (c = 1 OR d IS NULL)"),
            (not(coalesce(or(), truth(false))), "NOT coalesce(c = 1 OR d IS NULL, false)"),
            (all_of([or(), truth(true), not(c())]).unwrap(), "(c = 1 OR d IS NULL) AND true AND NOT c"),
            (any_of([or(), differ(c(), d())]).unwrap(), "c = 1 OR d IS NULL OR c IS DISTINCT FROM d"),
            (is_null(or()), "(c = 1 OR d IS NULL) IS NULL"),
            (is_known(null()), "NULL IS NOT NULL"),
            (is_among(c(), vec![number(1), null()]), "c IN (1, NULL)"),
            (is_between(equal(c(), d()), number(1), number(2)), "(c = d) BETWEEN 1 AND 2"),
            (not_exists(select(vec![item(number(1))], vec![t()])), "NOT EXISTS (SELECT 1 FROM t)"),
            (coalesce(min(c()), max(d())), "coalesce(min(c), max(d))"),
            (case(or(), text("it's")), "CASE WHEN c = 1 OR d IS NULL THEN 'it''s' END"),
            (cast(text("\\'"), DataType::Text), "CAST($q0$\\'$q0$ AS TEXT)"),
            (
                row_number(vec![c(), d()], vec![column("n")]),
                "row_number() OVER (PARTITION BY c, d ORDER BY \"n\")",
            ),
        ] {
            // Names keep the parser from naming an item after its expression.
            let sql = format!("SELECT {sql} AS \"x\"");
            check(&select(vec![item_named(built, "x")], Vec::new()), &sql);
        }
    }

    #[test]
    fn names_are_whatever_they_are() {
        for hostile in NAMES {
            let on = equal(column_of(hostile, hostile), column(hostile));
            let items = vec![every_column_of(hostile), item_named(column_of(hostile, hostile), hostile)];
            let of = table(name(hostile), Some(name(hostile)));
            let built = select_where(items, vec![joined(of.clone(), of, on.clone())], Some(on));
            let sql = built.to_string();
            assert_eq!(parse_query(&sql, &Extension::NONE).unwrap(), built, "{sql}");
        }
    }

    #[test]
    fn long_chains_are_not_deep() {
        fn depth(expr: &Expr) -> usize {
            match expr {
                Expr::BinaryOp { left, op: BinaryOperator::And, right } => 1 + depth(left).max(depth(right)),
                _ => 0,
            }
        }
        let chain = all_of((0..1000).map(|place| equal(c(), number(place)))).unwrap();
        assert!(depth(&chain) <= 10, "{}", depth(&chain));
        assert_eq!(all_of([]), None);
        assert_eq!(any_of([truth(true)]), Some(truth(true)));
    }
}
