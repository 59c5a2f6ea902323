//! Names of result columns that a query does not name, for sessions that speak PostgreSQL's
//! protocol: the names that PostgreSQL gives them. Several columns may have the same name. Programs
//! read columns by these names.

use crate::identifier::fold;
use crate::names::{APART, first_select, order_by_names};
use crate::parse::Text;
use crate::walk::walk_mut;
use crate::wire_rows::unnest_lists;
use sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, ExactNumberInfo, Expr, Ident, ObjectName, OrderByKind, Query,
    SelectItem, SetExpr, Statement, Subscript, TableFactor, TimezoneInfo, TrimWhereField, VisitorMut,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The name of an expression that has nothing to be named after.
const NAMELESS: &str = "?column?";

/// Functions that are written as if they were columns.
const VALUES: [&str; 6] =
    ["current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"];

/// Gives unnamed columns PostgreSQL's names, and has functions that give rows give them among the
/// columns of a query, too.
pub fn rewrite(text: &Text<'_>, statement: &mut Statement) {
    name_columns(text, statement);
    unnest_lists(statement);
}

/// Names the unnamed columns of a statement's query, and those of the queries in FROM and WITH
/// wherever they are.
fn name_columns(text: &Text<'_>, statement: &mut Statement) {
    match statement {
        Statement::Prepare { statement, .. } => return name_columns(text, statement),
        Statement::Query(query) => Namer { apart: APART }.query(query),
        // A stored definition has names that can be written.
        Statement::CreateView(create) => KEPT.query(&mut create.query),
        Statement::CreateTable(create) => create.query.iter_mut().for_each(|query| KEPT.query(query)),
        _ => {}
    }
    if !text.may_have_inner_select() {
        return;
    }
    let is_kept = matches!(statement, Statement::CreateView(_));
    let apart = if is_kept { KEPT.apart } else { APART };
    let _done = walk_mut(statement, &mut Namer { apart });
}

/// Does the same for a query of the engine that answers a statement of the session.
pub fn name_query(query: &mut Query) {
    let mut namer = Namer { apart: APART };
    namer.query(query);
    let _done = walk_mut(query, &mut namer);
}

struct Namer {
    /// Stands before the number of a name that is there already.
    apart: char,
}

const KEPT: Namer = Namer { apart: '_' };

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if table.alias.columns.is_empty() {
                self.query(&mut table.query);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias, .. } = factor
            && alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
        {
            self.query(subquery);
        }
        ControlFlow::Continue(())
    }
}

impl Namer {
    /// Names the columns that a query gives.
    fn query(&self, query: &mut Query) {
        let Some(select) = first_select(&mut query.body) else { return };
        let renamed = self.items(&mut select.projection);
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            order_by_names(keys, &renamed);
        }
    }

    fn items(&self, items: &mut [SelectItem]) -> Vec<(Expr, Ident)> {
        let mut taken = HashMap::new();
        let mut given = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let name = name_of(expr);
                    let unique = self.unique(&name, &mut taken);
                    if unique != name || !is_column(expr) {
                        let alias = Ident::with_quote('"', unique);
                        given.push((expr.clone(), alias.clone()));
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    let name = fold(alias);
                    let unique = self.unique(&name, &mut taken);
                    if unique != name {
                        *alias = Ident::with_quote('"', unique);
                    }
                }
                _ => {}
            }
        }
        given
    }

    fn unique(&self, name: &str, taken: &mut HashMap<String, usize>) -> String {
        let count = taken.entry(name.to_string()).or_insert(0);
        *count += 1;
        match *count {
            1 => name.to_string(),
            number => format!("{name}{}{}", self.apart, number - 1),
        }
    }
}

/// Says whether it is called so in any case. Some words without quotes are functions.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => name.quote_style.is_some() || !VALUES.contains(&fold(name).as_str()),
        other => matches!(other, Expr::CompoundIdentifier(_)),
    }
}

fn name_of(expr: &Expr) -> String {
    found(expr).map_or_else(|| NAMELESS.to_string(), |(name, _)| name)
}

/// The amount that a name says about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    /// The name gives only the type, or that it is a CASE; an inner expression may say more.
    Weak,
    Strong,
}

/// Returns the name that an expression suggests.
fn found(expr: &Expr) -> Option<(String, Strength)> {
    let strong = |name: &str| Some((name.to_string(), Strength::Strong));
    match expr {
        Expr::Identifier(name) => strong(&fold(name)),
        Expr::CompoundIdentifier(parts) => strong(&fold(parts.last()?)),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(field)) => Some(fold(field)),
                AccessExpr::Dot(Expr::Function(function)) => last_of(&function.name),
                AccessExpr::Dot(_)
                | AccessExpr::Subscript(Subscript::Index { .. } | Subscript::Slice { .. }) => None,
            });
            field.map_or_else(|| found(root), |field| strong(&field))
        }
        Expr::Function(function) => strong(&last_of(&function.name)?),
        Expr::Cast { expr, data_type, .. } => cast(expr, data_type),
        Expr::TypedString(string) => Some((type_name(&string.data_type), Strength::Weak)),
        Expr::Interval(_) => Some(("interval".into(), Strength::Weak)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => found(inner),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(found) {
            Some((name, Strength::Strong)) => strong(&name),
            _ => Some(("case".into(), Strength::Weak)),
        },
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Subquery(query) => strong(&first_column(&query.body)?),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { shorthand, .. } => strong(if *shorthand { "substr" } else { "substring" }),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Overlay { .. } => strong("overlay"),
        _ => None,
    }
}

fn cast(expr: &Expr, data_type: &DataType) -> Option<(String, Strength)> {
    match found(expr) {
        Some((name, Strength::Strong)) => Some((name, Strength::Strong)),
        _ => Some((type_name(data_type), Strength::Weak)),
    }
}

fn last_of(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(fold)
}

/// Returns the name of a subquery's column.
fn first_column(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => Some(name_of(expr)),
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        },
        SetExpr::Query(query) => first_column(&query.body),
        SetExpr::SetOperation { left, .. } => first_column(left),
        SetExpr::Values(_) => Some("column1".into()),
        _ => None,
    }
}

/// Returns the name that PostgreSQL itself has for a type; of an array, that of its elements.
fn type_name(data_type: &DataType) -> String {
    use DataType::*;
    let known = match data_type {
        Array(of) => {
            return match of {
                ArrayElemTypeDef::AngleBracket(of)
                | ArrayElemTypeDef::SquareBracket(of, _)
                | ArrayElemTypeDef::Parenthesis(of) => type_name(of),
                ArrayElemTypeDef::None => "array".into(),
            };
        }
        Custom(name, _) => return last_of(name).unwrap_or_default(),
        SmallInt(_) | Int2(_) => "int2",
        Int(_) | Integer(_) | Int4(_) => "int4",
        BigInt(_) | Int8(_) => "int8",
        Real | Float4 => "float4",
        Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => "float4",
        Float(_) | Double(_) | DoublePrecision | Float8 => "float8",
        Numeric(_) | Decimal(_) | Dec(_) => "numeric",
        Varchar(_) | CharacterVarying(_) | CharVarying(_) => "varchar",
        Char(_) | Character(_) => "bpchar",
        Bool | Boolean => "bool",
        Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timestamptz",
        Timestamp(_, _) => "timestamp",
        Time(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timetz",
        Time(_, _) => "time",
        Interval { .. } => "interval",
        other => {
            let text = other.to_string().to_ascii_lowercase();
            return text.split(['(', ' ']).next().unwrap_or_default().to_string();
        }
    };
    known.into()
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse};
    use datafusion_sql::parser::Statement as DfStatement;

    const WIRE: Extension = Extension { as_written: super::rewrite, ..Extension::NONE };

    fn named(sql: &str) -> String {
        let DfStatement::Statement(statement) = parse(sql, &WIRE).unwrap() else { panic!("not a query") };
        statement.to_string()
    }

    #[test]
    fn equal_names_are_kept_apart() {
        assert_eq!(
            named("select 1, 2, a, t.a, count(*) from t"),
            "SELECT 1 AS \"?column?\", 2 AS \"?column?\u{0}1\", a, t.a AS \"a\u{0}1\", count(*) AS \"count\" FROM t"
        );
    }

    #[test]
    fn queries_in_from_are_named_and_order_by_follows() {
        assert_eq!(
            named("select upper(x) from (select max(a) from t) s order by upper(x)"),
            "SELECT upper(x) AS \"upper\" FROM (SELECT max(a) AS \"max\" FROM t) s ORDER BY \"upper\""
        );
        assert_eq!(
            named("select a, 1 from t order by 1 desc"),
            "SELECT a, 1 AS \"?column?\" FROM t ORDER BY 1 DESC"
        );
        assert_eq!(
            named("insert into t select s.max from (select max(a) from t) s"),
            "INSERT INTO t SELECT s.max FROM (SELECT max(a) AS \"max\" FROM t) s"
        );
        assert_eq!(
            named("create view v as select 1, 2"),
            "CREATE VIEW v AS SELECT 1 AS \"?column?\", 2 AS \"?column?_1\""
        );
    }
}
