//! Rewrites PostgreSQL's syntax to DataFusion's: schemas in front of functions and operators,
//! collations, casts to names of objects (`::regclass`), quantified comparisons with arrays written
//! as text, and functions that return rows.

use crate::pg_catalog::rows::{system_relation, system_relations};
use crate::pg_catalog::tables::is_empty;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Delete, Expr, FromTable, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, JoinOperator, Merge, ObjectName,
    ObjectNamePart, OutputClause, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
    UnaryOperator, Update, UpdateTableFromKind, Value, ValueWithSpan, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use hypostyle_sql::array_subquery::array_of;
use hypostyle_sql::build;
use hypostyle_sql::call::call;
use hypostyle_sql::walk::{Part, expressions, expressions_mut, walk, walk_mut};
use std::ops::ControlFlow;

const SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// Types whose values are numbers that are shown as names.
const NAMED: [(&str, &str); 6] = [
    ("regclass", "regclass"),
    ("regtype", "regtype"),
    ("regnamespace", "regnamespace"),
    ("regrole", "regrole"),
    ("regproc", "regproc"),
    ("regprocedure", "regproc"),
];

/// The words of a text that may need rewriting; other texts are not examined.
const SIGNS: [&str; 13] = [
    "pg_",
    "::",
    "escape",
    "operator",
    "collate",
    "cast",
    "any",
    "array",
    "current_",
    "generate_subscripts",
    "information_schema",
    "parse_ident",
    "version",
];

/// asyncpg asks for types that it does not know, and for what they are made of, by a recursive
/// query with another one in each row, for domains, which there are none of. This gives columns of
/// the same names, elements before their arrays.
const TYPES_OF_ASYNCPG: &str = "SELECT t.oid, n.nspname AS ns, t.typname AS name, t.typtype AS kind, NULL::bigint AS basetype, \
     nullif(t.typelem, 0) AS elemtype, t.typdelim AS elemdelim, NULL::bigint AS range_subtype, \
     NULL::text AS attrtypoids, NULL::text AS attrnames, 0 AS depth, NULL::text AS basetype_name, \
     format_type(nullif(t.typelem, 0), NULL) AS elemtype_name, NULL::text AS range_subtype_name \
     FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = ANY ($1::bigint[]) \
     OR t.oid IN (SELECT typelem FROM pg_type WHERE oid = ANY ($1::bigint[])) ORDER BY t.typelem";

/// Queries of clients that nothing here plans, by a name of their WITH, and what gives the same: a row for
/// each client.
const OF_CLIENTS: [(&str, &str); 1] = [("typeinfo_tree", TYPES_OF_ASYNCPG)];

/// Returns what stands for a client's query.
fn of_client(statement: &Statement) -> Option<Statement> {
    let Statement::Query(query) = statement else { return None };
    let tables = &query.with.as_ref()?.cte_tables;
    let is_named = |name: &str| tables.iter().any(|table| table.alias.name.value == name);
    let (_, meant) = OF_CLIENTS.iter().find(|(name, _)| is_named(name))?;
    Parser::parse_sql(&PostgreSqlDialect {}, meant).ok()?.pop()
}

/// Rewrites a statement; `sql` is its text.
pub fn rewrite(sql: &str, statement: &mut Statement) {
    let signs = |text: &str| SIGNS.iter().any(|sign| text.contains(sign));
    if !signs(&sql.to_ascii_lowercase()) {
        return;
    }
    if let Some(meant) = of_client(statement) {
        *statement = meant;
    }
    let sql = sql.to_ascii_lowercase();
    let rewriter = Rewriter {
        names_databases: walk(statement, &mut NamedDatabases).is_break(),
        of_catalog: sql.contains("pg_"),
        of_standard: sql.contains("information_schema"),
        expands: sql.contains("_pg_expandarray"),
    };
    let _done: ControlFlow<()> = walk_mut(statement, &mut { rewriter });
}

/// The transaction of rows that have always been there.
const FROZEN: i64 = 2;

/// Finds catalogs of databases that a statement names: an attached PostgreSQL has a schema `public` of its
/// own.
struct NamedDatabases;

impl Visitor for NamedDatabases {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let is_catalog = |part: &ObjectNamePart| {
            let name = part.as_ident().map(|ident| ident.value.to_ascii_lowercase());
            name.is_some_and(|name| SCHEMAS.contains(&name.as_str()))
        };
        match relation.0.as_slice() {
            [_, schema, _] if is_catalog(schema) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Rewriter {
    /// The statement is about the catalogs of databases that it names.
    names_databases: bool,
    /// The statement is about PostgreSQL's catalogs.
    of_catalog: bool,
    /// It is about the standard's.
    of_standard: bool,
    /// It calls `_pg_expandarray`, whose rows have the fields `x`, an element, and `n`, its number.
    expands: bool,
}

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.of_catalog {
            if select.from.iter().any(reads_empty) {
                // It has no rows, so its subqueries are never evaluated; some could not be planned.
                for item in &mut select.projection {
                    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                        without_subqueries(expr);
                    }
                }
            }
            name_nulls(select);
            let catalogs = Catalogs::of(relations_of(&select.from));
            catalogs.write_items(&mut select.projection);
            catalogs.write(select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        if self.of_catalog
            && let Some(catalogs) = catalogs_of(statement)
        {
            catalogs.write_items(returned_mut(statement));
            catalogs.write(statement);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        if self.of_catalog {
            if let Statement::Update(update) = statement {
                update.assignments.iter_mut().for_each(|assignment| tell_json(&mut assignment.value));
            }
            tell_json_of(returned_mut(statement));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.of_catalog {
            tell_json_of(&mut select.projection);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                without_schema(name)
            }
            _ => {}
        }
        if let Some(query) = one_value(factor) {
            *factor = query;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if (self.of_catalog || self.of_standard) && !self.names_databases {
            known_schemas(expr);
        }
        let taken = std::mem::replace(expr, null());
        *expr = self.rewritten(taken);
        ControlFlow::Continue(())
    }
}

impl Rewriter {
    fn call(&self, mut function: Function) -> Expr {
        if self.expands
            && let Some((root, field)) = field_called(&function)
            && let Some(part) = part_of(root, &field)
        {
            return part;
        }
        without_schema(&mut function.name);
        called(function)
    }

    fn rewritten(&self, expr: Expr) -> Expr {
        match expr {
            Expr::Function(function) => self.call(function),
            Expr::Collate { expr, .. } => *expr,
            Expr::CompoundFieldAccess { root, access_chain } if self.expands => expanded(*root, access_chain),
            mut like @ (Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. }) => {
                escape_by_backslash(&mut like);
                like
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGCustomBinaryOperator(name), right } => {
                let op = operator(&name);
                Expr::BinaryOp { left, op, right }
            }
            Expr::BinaryOp { left, op, right } if self.of_catalog => {
                let right = Box::new(array_of_numbers(*right));
                let (left, right) = match (is_type_of(&left), is_type_of(&right)) {
                    (true, _) => (left, Box::new(name_of_type(*right))),
                    (_, true) => (Box::new(name_of_type(*left)), right),
                    _ => (left, right),
                };
                // A number that has just become a name is compared with a name's number.
                let left = match (shown_name(&left), number_of(&right)) {
                    (Some((kind, argument)), Some((other, _))) if kind == other => Box::new(argument),
                    _ => left,
                };
                let (left, right) = match (names_function(&left), names_function(&right)) {
                    (true, false) => with_function(left, right),
                    (false, true) => {
                        let (right, left) = with_function(right, left);
                        (left, right)
                    }
                    _ => (left, right),
                };
                Expr::BinaryOp { left, op, right }
            }
            Expr::AnyOp { left, compare_op, right, is_some } => {
                Expr::AnyOp { left, compare_op, right: Box::new(array_of_texts(*right)), is_some }
            }
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right }
                if !matches!(right.as_ref(), Expr::Subquery(_)) =>
            {
                let right = Box::new(array_of_texts(*right));
                let any = Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false };
                Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(any))) }
            }
            Expr::Cast { kind, expr, data_type, array, format } => {
                self.cast(kind, *expr, data_type, |kind, expr, data_type| Expr::Cast {
                    kind,
                    expr,
                    data_type,
                    array,
                    format,
                })
            }
            // Without quotes, PostgreSQL has no column of this name.
            Expr::Identifier(name)
                if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("current_schema") =>
            {
                call("current_schema", Vec::new())
            }
            other => other,
        }
    }

    fn cast(
        &self,
        kind: CastKind,
        expr: Expr,
        data_type: DataType,
        otherwise: impl FnOnce(CastKind, Box<Expr>, DataType) -> Expr,
    ) -> Expr {
        let Some((name, is_array)) = type_name(&data_type) else {
            return otherwise(kind, Box::new(expr), data_type);
        };
        if let Some((_, function)) = NAMED.iter().find(|(named, _)| *named == name)
            && !is_array
        {
            return match (*function, is_text_or_parameter(&expr)) {
                ("regtype", _) if is_type_of(&expr) => expr,
                ("regrole", _) => otherwise(kind, Box::new(expr), DataType::Text),
                ("regproc", _) if names_function(&expr) => expr,
                (function, true) => call(&format!("{function}_in"), vec![expr]),
                (function, false) => call(&format!("{function}_out"), vec![expr]),
            };
        }
        if name == "regtype" && is_array && !is_text_or_parameter(&expr) {
            return call(crate::pg_catalog::type_lists::NAME, vec![expr]);
        }
        let plain = match name.as_str() {
            "oid" | "xid" | "cid" | "int8" => {
                // A number that has just become a name becomes the number again.
                if let Some((function, argument)) = shown_name(&expr) {
                    return call(&format!("{function}_in"), vec![argument]);
                }
                if self.of_catalog && names_function(&expr) {
                    return call("regproc_in", vec![expr]);
                }
                if is_type_of(&expr) {
                    return call("regtype_in", vec![expr]);
                }
                DataType::BigInt(None)
            }
            "text" | "name" | "char" | "bpchar" | "varchar" | "pg_node_tree" | "cstring" | "refcursor" => {
                // A value that has just become a number is shown as the name of its object.
                if let Some((function, argument)) = number_of(&expr) {
                    return call(
                        &format!("{function}_out"),
                        vec![call(&format!("{function}_in"), vec![argument])],
                    );
                }
                DataType::Text
            }
            "int2" => DataType::SmallInt(None),
            "int4" => DataType::Integer(None),
            "bool" => DataType::Boolean,
            "float4" => DataType::Real,
            "float8" => DataType::DoublePrecision,
            "int2vector" | "oidvector" => return expr,
            _ => return otherwise(kind, Box::new(expr), data_type),
        };
        match is_array {
            // Arrays of the catalogs have the types that they are compared in.
            true if self.of_catalog && !matches!(expr, Expr::Array(_)) => array_of_texts(expr),
            true => otherwise(kind, Box::new(expr), data_type),
            false => otherwise(kind, Box::new(expr), plain),
        }
    }
}

/// Says whether an expression is a call of `pg_typeof`, whose values are names of types.
fn is_type_of(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_type_of(inner),
        Expr::Function(function) => function.name.to_string().eq_ignore_ascii_case("pg_typeof"),
        _ => false,
    }
}

/// Returns the number of a type as the name that `pg_typeof` gives it.
fn name_of_type(expr: Expr) -> Expr {
    match number_of(&expr) {
        Some((kind, _)) if kind == "regtype" => call("regtype_out", vec![expr]),
        _ => expr,
    }
}

/// Returns the name of a type that is PostgreSQL's own, and whether it is one of arrays.
fn type_name(data_type: &DataType) -> Option<(String, bool)> {
    let text = data_type.to_string();
    let (text, is_array) = match text.strip_suffix("[]") {
        Some(element) => (element.to_string(), true),
        None => (text, false),
    };
    let had_schema = text.starts_with("pg_catalog.");
    let name = text.trim_start_matches("pg_catalog.").trim_matches('"').to_ascii_lowercase();
    let is_own = matches!(data_type, DataType::Custom(..) | DataType::Regclass | DataType::Text)
        || matches!(data_type, DataType::Array(_))
            && (had_schema || NAMED.iter().any(|(named, _)| *named == name));
    // CHAR without quotes is SQL's type, whose length DataFusion knows.
    (is_own || had_schema).then_some((name, is_array))
}

fn is_text_or_parameter(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::Placeholder(_)
        ),
        Expr::Nested(inner) => is_text_or_parameter(inner),
        // The results of these functions are names.
        Expr::Function(function) => {
            let name = function.name.to_string();
            name == "pg_get_serial_sequence" || name == "quote_ident"
        }
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => true,
        Expr::Cast { data_type: DataType::Text | DataType::Varchar(_), .. } => true,
        _ => false,
    }
}

/// Returns the argument of a call of a function whose name ends so, with the beginning of the name.
fn argument_of(expr: &Expr, end: &str) -> Option<(String, Expr)> {
    let expr = if let Expr::Nested(inner) = expr { inner } else { expr };
    let Expr::Function(function) = expr else { return None };
    let name = function.name.to_string();
    let kind = name
        .strip_suffix(end)
        .filter(|kind| kind.is_empty() || NAMED.iter().any(|(named, _)| named == kind))?;
    match &function.args {
        FunctionArguments::List(list) => match list.args.first()? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => {
                Some((kind.to_string(), argument.clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Says whether an expression calls a function, be it within a subquery.
fn calls(expr: &Expr, name: &str) -> bool {
    let is_named =
        |part: &ObjectNamePart| part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(name));
    let found = expressions(expr, &mut |expr| match expr {
        Expr::Function(function) if function.name.0.last().is_some_and(is_named) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn shown_name(expr: &Expr) -> Option<(String, Expr)> {
    argument_of(expr, "_out")
}

fn number_of(expr: &Expr) -> Option<(String, Expr)> {
    argument_of(expr, "_in")
}

/// Has schemas that columns of the catalogs are compared with by the names that they have here:
/// `public` is another's.
fn known_schemas(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op, right } if is_equality(op) => know_either(left, right),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => know_either(left, right),
        Expr::InList { expr, list, .. } => list.iter_mut().for_each(|value| know_schema(expr, value)),
        other => {
            if let Some(matched) = matched_schema(other) {
                *other = matched;
            }
        }
    }
}

fn is_equality(op: &BinaryOperator) -> bool {
    match op {
        BinaryOperator::Eq | BinaryOperator::NotEq | BinaryOperator::Spaceship => true,
        BinaryOperator::PGCustomBinaryOperator(name) => {
            name.last().is_some_and(|name| matches!(name.as_str(), "=" | "<>" | "!="))
        }
        _ => false,
    }
}

fn know_either(left: &mut Expr, right: &mut Expr) {
    know_schema(left, right);
    know_schema(right, left);
}

/// Has a value by the name that the schema has here, if it is compared with a column of schemas.
fn know_schema(column: &Expr, value: &mut Expr) {
    if let (Expr::Tuple(columns), Expr::Tuple(values)) = (column, &mut *value) {
        columns.iter().zip(values).for_each(|(column, value)| know_schema(column, value));
    } else if names_schema(column) && may_be_public(value) {
        *value = call("known_schema", vec![std::mem::replace(value, null())]);
    }
}

/// Says whether a value may be the name `public`, whatever type it is given.
fn may_be_public(value: &Expr) -> bool {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => name == "public",
            Value::Placeholder(_) => true,
            _ => false,
        },
        Expr::TypedString(typed) => {
            matches!(&typed.value.value, Value::SingleQuotedString(name) if name == "public")
        }
        Expr::Cast { expr, .. } | Expr::Collate { expr, .. } | Expr::Nested(expr) => may_be_public(expr),
        _ => false,
    }
}

/// Returns a comparison of schemas with lists and patterns that finds by the name `public`, too.
fn matched_schema(expr: &Expr) -> Option<Expr> {
    let negated = |expr| Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) };
    let with = |left: &Expr| {
        let mut changed = expr.clone();
        match &mut changed {
            Expr::AnyOp { left: place, right, .. } => {
                **place = left.clone();
                **right = array_of_texts(right.as_ref().clone());
            }
            Expr::AllOp { right, .. } => {
                let (left, right) =
                    (Box::new(left.clone()), Box::new(array_of_texts(right.as_ref().clone())));
                return Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false };
            }
            Expr::BinaryOp { left: place, op, .. } => {
                **place = left.clone();
                if let BinaryOperator::PGCustomBinaryOperator(name) = op {
                    *op = operator(name);
                }
            }
            Expr::Like { expr: place, negated, .. }
            | Expr::ILike { expr: place, negated, .. }
            | Expr::SimilarTo { expr: place, negated, .. } => {
                (**place, *negated) = (left.clone(), false);
            }
            _ => {}
        }
        changed
    };
    let (column, is_negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. }
            if !matches!(right.as_ref(), Expr::Subquery(_)) =>
        {
            (left, false)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right }
            if !matches!(right.as_ref(), Expr::Subquery(_)) =>
        {
            (left, true)
        }
        Expr::BinaryOp { left, op, right } if is_match(op) && may_match_public(right) => (left, false),
        Expr::Like { expr, pattern, negated, .. }
        | Expr::ILike { expr, pattern, negated, .. }
        | Expr::SimilarTo { expr, pattern, negated, .. }
            if may_match_public(pattern) =>
        {
            (expr, *negated)
        }
        _ => return None,
    };
    if !names_schema(column) {
        return None;
    }
    let public = Expr::Value(Value::SingleQuotedString("public".into()).into());
    let binary =
        |left: Expr, op, right: Expr| Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    let is_public =
        binary(column.as_ref().clone(), BinaryOperator::Eq, call("known_schema", vec![public.clone()]));
    let by_name = binary(is_public, BinaryOperator::And, with(&public));
    let found = Expr::Nested(Box::new(binary(with(column), BinaryOperator::Or, by_name)));
    Some(if is_negated { negated(found) } else { found })
}

fn is_match(op: &BinaryOperator) -> bool {
    match op {
        BinaryOperator::PGRegexMatch | BinaryOperator::PGRegexIMatch => true,
        BinaryOperator::PGCustomBinaryOperator(name) => {
            name.last().is_some_and(|name| matches!(name.as_str(), "~" | "~*" | "~~" | "~~*"))
        }
        _ => false,
    }
}

/// Says whether a pattern may be one that `public` matches.
fn may_match_public(pattern: &Expr) -> bool {
    match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.to_ascii_lowercase().contains("pub"),
            Value::Placeholder(_) => true,
            _ => false,
        },
        Expr::Cast { expr, .. } | Expr::Collate { expr, .. } | Expr::Nested(expr) => may_match_public(expr),
        _ => false,
    }
}

/// Says whether an expression is a column of the catalogs that names schemas.
fn names_schema(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        Expr::Cast { expr, .. } | Expr::Collate { expr, .. } | Expr::Nested(expr) => {
            return names_schema(expr);
        }
        _ => None,
    };
    let name = name.map_or_else(String::new, |name| name.value.to_ascii_lowercase());
    matches!(name.as_str(), "nspname" | "schemaname" | "schema_name") || name.ends_with("_schema")
}

/// Says whether an expression is a column of the catalogs that names functions; these are texts
/// here.
fn names_function(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        Expr::Nested(inner) => return names_function(inner),
        _ => None,
    };
    name.is_some_and(|name| crate::pg_catalog::rows::names_functions(&name.value))
}

/// Returns a column that names functions, and what it is compared with, which may be a number.
fn with_function(column: Box<Expr>, other: Box<Expr>) -> (Box<Expr>, Box<Expr>) {
    match other.as_ref() {
        Expr::Value(value) if !matches!(value.value, Value::Number(..)) => (column, other),
        Expr::Value(_) => (column, Box::new(call("regproc_out", vec![*other]))),
        other if is_text_or_parameter(other) => (column, Box::new(other.clone())),
        other if argument_of(other, "_out").is_some() => (column, Box::new(other.clone())),
        _ => (Box::new(call("regproc_in", vec![*column])), other),
    }
}

/// Functions that give one value, and stand in FROM nevertheless.
const ONE_VALUE: [&str; 4] = ["string_to_array", "regexp_split_to_array", "now", "array_length"];

/// What a column has whose function gives no row.
#[derive(Clone, Copy)]
enum Sample {
    Number,
    Text,
    Truth,
}

impl Sample {
    fn value(self) -> Expr {
        match self {
            Self::Number => build::number(0),
            Self::Text => build::text(""),
            Self::Truth => build::truth(false),
        }
    }
}

/// Functions of what there is none of here, with the columns of their rows.
const NO_ROWS: [(&str, &[(&str, Sample)]); 3] = [
    (
        "aclexplode",
        &[
            ("grantor", Sample::Number),
            ("grantee", Sample::Number),
            ("privilege_type", Sample::Text),
            ("is_grantable", Sample::Truth),
        ],
    ),
    ("pg_options_to_table", &[("option_name", Sample::Text), ("option_value", Sample::Text)]),
    ("pg_sequence_parameters", &[("start_value", Sample::Number)]),
];

/// Returns a function in FROM as the query that has its value in its only row.
fn one_value(factor: &TableFactor) -> Option<TableFactor> {
    let (name, arguments, alias) = match factor {
        TableFactor::Table { name, args: Some(arguments), alias, with_ordinality: false, .. } => {
            (name, &arguments.args, alias)
        }
        TableFactor::Function { name, args, alias, .. } => (name, args, alias),
        _ => return None,
    };
    let function = name.0.last()?.as_ident()?.value.to_ascii_lowercase();
    let table = alias.as_ref().map_or_else(|| Ident::new(&function), |alias| alias.name.clone());
    if let Some((_, columns)) = NO_ROWS.iter().find(|(known, _)| *known == function) {
        let items = columns.iter().map(|(name, sample)| build::item_named(sample.value(), name)).collect();
        return Some(build::derived(build::select_where(items, vec![], Some(build::truth(false))), table));
    }
    if !ONE_VALUE.contains(&function.as_str()) && !crate::pg_catalog::function::is_function(&function) {
        return None;
    }
    let column = alias.as_ref().and_then(|alias| alias.columns.first());
    let column = column.map_or_else(|| table.clone(), |column| column.name.clone());
    let Expr::Function(of_none) = call(&function, Vec::new()) else { return None };
    let args = FunctionArgumentList { duplicate_treatment: None, args: arguments.clone(), clauses: vec![] };
    let args = FunctionArguments::List(args);
    let value = Expr::Function(Function { name: name.clone(), args, ..of_none });
    let items = vec![SelectItem::ExprWithAlias { expr: value, alias: column }];
    Some(build::derived(build::select(items, vec![]), table))
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn as_type(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Returns `(_pg_expandarray(array)).n` and `.x`, where the function has become the elements
/// already.
fn expanded(root: Expr, access_chain: Vec<AccessExpr>) -> Expr {
    if let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice()
        && let Some(part) = part_of(root.clone(), &field.value.to_ascii_lowercase())
    {
        return part;
    }
    Expr::CompoundFieldAccess { root: Box::new(root), access_chain }
}

/// Returns what has a field and the name of the field, where a dot has become a call already.
fn field_called(function: &Function) -> Option<(Expr, String)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(root)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(field))),
    ] = list.args.as_slice()
    else {
        return None;
    };
    match &field.value {
        Value::SingleQuotedString(field) if function.name.to_string() == "get_field" => {
            Some((root.clone(), field.clone()))
        }
        _ => None,
    }
}

/// Returns a field of what `_pg_expandarray` gives: the element itself, or its number.
fn part_of(root: Expr, field: &str) -> Option<Expr> {
    match field {
        "x" => Some(root),
        "n" => Some(match argument_of(&root, "unnest") {
            Some((_, array)) => numbers_of(array),
            None => root,
        }),
        _ => None,
    }
}

/// Returns the numbers of the elements of an array, a row each.
fn numbers_of(array: Expr) -> Expr {
    let one = Expr::Value(Value::Number("1".into(), false).into());
    call("unnest", vec![call("generate_series", vec![one, length_of(array)])])
}

fn length_of(array: Expr) -> Expr {
    as_type(call("array_length", vec![array]), DataType::BigInt(None))
}

/// Stands for an escaped escape while the others are replaced; nobody has it in a text.
const ESCAPED: char = '\u{f8ff}';

/// Gives a pattern a backslash in the place of the character of ESCAPE.
fn escape_by_backslash(like: &mut Expr) {
    if let Expr::Like { pattern, escape_char, .. }
    | Expr::ILike { pattern, escape_char, .. }
    | Expr::SimilarTo { pattern, escape_char, .. } = like
        && let Some(escape) = escape_char.take()
    {
        let written = std::mem::replace(pattern.as_mut(), null());
        **pattern = with_backslashes(written, escape);
    }
}

/// Returns a pattern whose escape is another character, with a backslash for it.
fn with_backslashes(pattern: Expr, escape: ValueWithSpan) -> Expr {
    let character = match escape.value {
        Value::SingleQuotedString(character) if character != "\\" => character,
        _ => return pattern,
    };
    let twice = character.repeat(2);
    let mut steps = vec![("\\".to_string(), "\\\\".to_string())];
    if !character.is_empty() {
        steps.push((twice, ESCAPED.to_string()));
        steps.push((character.clone(), "\\".into()));
        // Signs of a pattern are escaped as they were.
        let is_sign = !character.chars().all(char::is_alphanumeric);
        let plain = if is_sign { format!("\\{character}") } else { character };
        steps.push((ESCAPED.to_string(), plain));
    }
    let text = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
    if let Expr::Value(value) = &pattern
        && let Value::SingleQuotedString(pattern) = &value.value
    {
        return text(steps.iter().fold(pattern.clone(), |pattern, (from, to)| pattern.replace(from, to)));
    }
    steps
        .into_iter()
        .fold(pattern, |pattern, (from, to)| call("replace", vec![pattern, text(from), text(to)]))
}

/// Functions have no schemas here.
fn without_schema(name: &mut ObjectName) {
    let schema = match name.0.first() {
        Some(ObjectNamePart::Identifier(schema)) => schema.value.to_ascii_lowercase(),
        _ => return,
    };
    if name.0.len() > 1 && SCHEMAS.contains(&schema.as_str()) {
        name.0.remove(0);
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_number(inner),
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}

/// Returns a call, where DataFusion has another function for it.
fn called(function: Function) -> Expr {
    let name = function.name.to_string().to_ascii_lowercase();
    if let ("array", FunctionArguments::Subquery(query)) = (name.as_str(), &function.args) {
        if let Some(options) = options_of(query) {
            return options;
        }
        return parsed(&array_of(query)).unwrap_or(Expr::Function(function));
    }
    let arguments: Vec<Expr> = match &function.args {
        FunctionArguments::List(list) => list
            .args
            .iter()
            .filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    match (name.as_str(), arguments.as_slice()) {
        // PostgreSQL counts from 1; what is empty has no bounds.
        ("array_lower", [array, dimension]) => {
            let length = Box::new(call("array_length", vec![array.clone(), dimension.clone()]));
            Expr::BinaryOp { left: length.clone(), op: BinaryOperator::Divide, right: length }
        }
        ("array_upper", [array, dimension]) => call("array_length", vec![array.clone(), dimension.clone()]),
        ("generate_subscripts", [array, ..]) => numbers_of(array.clone()),
        // This is the number of transactions since then; only those of `xmin` are numbers.
        ("age", [.., age]) if is_number(age) => age.clone(),
        ("_pg_expandarray", [array]) => call("unnest", vec![array.clone()]),
        _ => Expr::Function(function),
    }
}

/// Returns what a query unnests that is the options of a relation. There are none, so that they
/// need not be looked at.
fn options_of(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let argument = match &select.from.first()?.relation {
        TableFactor::Table { args: Some(arguments), .. } => match arguments.args.first()? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => argument,
            _ => return None,
        },
        TableFactor::Function { args, .. } => match args.first()? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => argument,
            _ => return None,
        },
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.first()?,
        _ => return None,
    };
    let column = match argument {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    column.value.eq_ignore_ascii_case("reloptions").then(|| argument.clone())
}

fn parsed(sql: &str) -> Option<Expr> {
    Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?.parse_expr().ok()
}

fn operator(name: &[String]) -> BinaryOperator {
    use BinaryOperator::*;
    match name.last().map_or("", String::as_str) {
        "~" => PGRegexMatch,
        "~*" => PGRegexIMatch,
        "!~" => PGRegexNotMatch,
        "!~*" => PGRegexNotIMatch,
        "~~" => PGLikeMatch,
        "!~~" => PGNotLikeMatch,
        "~~*" => PGILikeMatch,
        "!~~*" => PGNotILikeMatch,
        "=" => Eq,
        "<>" | "!=" => NotEq,
        "<" => Lt,
        "<=" => LtEq,
        ">" => Gt,
        ">=" => GtEq,
        "+" => Plus,
        "-" => Minus,
        "*" => Multiply,
        "/" => Divide,
        "||" => StringConcat,
        _ => PGCustomBinaryOperator(name.to_vec()),
    }
}

/// Returns the elements of an array that is written as text.
fn elements(expr: &Expr) -> Option<Vec<String>> {
    let Expr::Value(value) = expr else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    Some(
        inner
            .split(',')
            .map(|item| item.trim().trim_matches('"').to_string())
            .filter(|item| !item.is_empty())
            .collect(),
    )
}

fn array(elements: Vec<Value>) -> Expr {
    call("make_array", elements.into_iter().map(|element| Expr::Value(element.into())).collect())
}

fn array_of_texts(expr: Expr) -> Expr {
    match elements(&expr) {
        Some(items) if !items.is_empty() => array(items.into_iter().map(Value::SingleQuotedString).collect()),
        _ => expr,
    }
}

/// Returns `'{0}'`, where it is compared with an array of numbers.
fn array_of_numbers(expr: Expr) -> Expr {
    match elements(&expr) {
        Some(items) if !items.is_empty() && items.iter().all(|item| item.parse::<i64>().is_ok()) => {
            array(items.into_iter().map(|item| Value::Number(item, false)).collect())
        }
        _ => expr,
    }
}

/// Says whether a part of FROM reads a relation of the catalogs that never has rows, so that there
/// are none at all.
fn reads_empty(from: &TableWithJoins) -> bool {
    let is_empty = |factor: &TableFactor| match factor {
        TableFactor::Table { name, args: None, .. } => match name.0.last() {
            Some(ObjectNamePart::Identifier(name)) => {
                crate::pg_catalog::has_relation(&name.value) && is_empty(&name.value)
            }
            _ => false,
        },
        _ => false,
    };
    let is_inner = |operator: &JoinOperator| {
        matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
    };
    let all_inner = from.joins.iter().all(|join| is_inner(&join.join_operator));
    all_inner && (is_empty(&from.relation) || from.joins.iter().any(|join| is_empty(&join.relation)))
}

fn without_subqueries(expr: &mut Expr) {
    let found: ControlFlow<()> = expressions(expr, &mut |part| {
        let is_array = matches!(part, Expr::Function(function)
            if matches!(function.args, FunctionArguments::Subquery(_)));
        if is_array || matches!(part, Expr::Subquery(_)) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if found.is_break() {
        *expr = null();
    }
}

/// The catalogs that a statement reads, whose system columns there are not here.
struct Catalogs {
    /// The names by which they are read, and their numbers.
    numbered: Vec<(String, i64)>,
    /// A name without that of a table is one of the only catalog's.
    are_alone: bool,
}

impl Catalogs {
    fn of<'a>(relations: impl Iterator<Item = &'a TableFactor>) -> Self {
        let relations: Vec<&TableFactor> = relations.collect();
        let are_alone = relations.len() == 1;
        Self { numbered: relations.into_iter().filter_map(catalog_in).collect(), are_alone }
    }

    /// Returns the name and the value of a system column.
    fn value(&self, expr: &Expr) -> Option<(String, Expr)> {
        let (table, column) = match expr {
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => {
                    self.numbered.iter().find(|(name, _)| *name == table.value).zip(Some(column))
                }
                _ => None,
            },
            Expr::Identifier(column) if self.are_alone => self.numbered.first().zip(Some(column)),
            _ => None,
        }?;
        let has_own = system_relations().iter().filter(|relation| relation.oid == table.1);
        if has_own.flat_map(|relation| &relation.columns).any(|(name, _)| *name == column.value) {
            return None;
        }
        system_column(&column.value, table.1).map(|value| (column.value.clone(), value))
    }

    /// Writes the values of system columns, which keep their names, into items of a result.
    fn write_items(&self, items: &mut [SelectItem]) {
        for item in items {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some((name, value)) = self.value(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: value, alias: Ident::with_quote('"', name) };
            }
        }
    }

    /// Writes the values of system columns into a part of a statement.
    fn write(&self, part: &mut impl Part) {
        let _done: ControlFlow<()> = expressions_mut(part, &mut |expr| {
            if let Some((_, value)) = self.value(expr) {
                *expr = value;
            }
            ControlFlow::Continue(())
        });
    }
}

/// Returns the relations of items of FROM, with those that are joined to them.
fn relations_of<'a>(
    from: impl IntoIterator<Item = &'a TableWithJoins>,
) -> impl Iterator<Item = &'a TableFactor> {
    let joined = |from: &'a TableWithJoins| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    };
    from.into_iter().flat_map(joined)
}

/// Returns the catalogs that a statement reads which writes rows; `None` for another statement.
fn catalogs_of(statement: &Statement) -> Option<Catalogs> {
    match statement {
        Statement::Update(Update { table, from, .. }) => {
            let others: &[TableWithJoins] = match from {
                None => &[],
                Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                    from.as_slice()
                }
            };
            Some(Catalogs::of(relations_of(std::iter::once(table).chain(others))))
        }
        Statement::Delete(Delete { from, using, .. }) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
            Some(Catalogs::of(relations_of(from.iter().chain(using.iter().flatten()))))
        }
        Statement::Merge(Merge { table, source, .. }) => Some(Catalogs::of([table, source].into_iter())),
        _ => None,
    }
}

/// Returns what a statement that writes rows returns of them.
fn returned_mut(statement: &mut Statement) -> &mut [SelectItem] {
    match statement {
        Statement::Update(Update { returning: Some(items), .. })
        | Statement::Delete(Delete { returning: Some(items), .. })
        | Statement::Merge(Merge {
            output: Some(OutputClause::Returning { select_items: items, .. }), ..
        }) => items,
        _ => &mut [],
    }
}

/// Says that the values of expressions with json_build_object are JSON: the expression around the function
/// keeps the text, but not that.
fn tell_json(expr: &mut Expr) {
    if calls(expr, "json_build_object") {
        let inner = std::mem::replace(expr, null());
        *expr = as_type(inner, DataType::JSON);
    }
}

/// Says the same of items of a result.
fn tell_json_of(items: &mut [SelectItem]) {
    for item in items {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            tell_json(expr);
        }
    }
}

/// Returns what PostgreSQL's system column of that name has in the rows of a catalog. They all seem
/// to be as old as the database.
fn system_column(name: &str, relation: i64) -> Option<Expr> {
    let number = |number: i64| Some(Expr::Value(Value::Number(number.to_string(), false).into()));
    match name {
        "tableoid" => number(relation),
        "xmin" => number(FROZEN),
        "xmax" | "cmin" | "cmax" => number(0),
        _ => None,
    }
}

/// Returns the name by which a query has a catalog, and the catalog's number.
fn catalog_in(factor: &TableFactor) -> Option<(String, i64)> {
    let TableFactor::Table { name, args: None, alias, .. } = factor else { return None };
    let catalog = name.0.last()?.as_ident()?.value.as_str();
    let known = alias.as_ref().map_or(catalog, |alias| alias.name.value.as_str());
    Some((known.to_string(), system_relation(catalog)?.oid))
}

/// Names columns of a query that are NULL, because there may be two of them.
fn name_nulls(select: &mut Select) {
    for (index, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item
            && matches!(expr, Expr::Value(value) if value.value == Value::Null)
        {
            let alias = Ident::with_quote('"', format!("NULL_{index}"));
            *item = SelectItem::ExprWithAlias { expr: Expr::Value(Value::Null.into()), alias };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_datafusion_does_not_have_is_written_in_its_way() {
        for (sql, expected) in [
            ("SELECT pg_catalog.format_type(a, b)", "SELECT format_type(a, b)"),
            ("SELECT x OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default", "SELECT x ~ '^(t)$'"),
            ("SELECT 'a'::regclass::oid", "SELECT regclass_in('a')::BIGINT"),
            ("SELECT c.oid::pg_catalog.regclass::pg_catalog.text", "SELECT regclass_out(c.oid)::TEXT"),
            ("SELECT a::pg_catalog.oid", "SELECT a::BIGINT"),
            ("SELECT a = ANY('{r,v}')", "SELECT a = ANY(make_array('r', 'v'))"),
            ("SELECT current_schema", "SELECT current_schema()"),
            (
                "SELECT c.tableoid, a.tableoid FROM pg_class c JOIN a ON pg_x",
                "SELECT 1259 AS \"tableoid\", a.tableoid FROM pg_class c JOIN a ON pg_x",
            ),
            (
                "UPDATE t SET a = c.xmin FROM pg_class c WHERE c.tableoid = t.b RETURNING c.xmin, t.xmin",
                "UPDATE t SET a = 2 FROM pg_class c WHERE 1259 = t.b RETURNING 2 AS \"xmin\", t.xmin",
            ),
            (
                "DELETE FROM t USING pg_class c WHERE t.a = c.tableoid AND xmax = 0",
                "DELETE FROM t USING pg_class c WHERE t.a = 1259 AND xmax = 0",
            ),
            (
                "UPDATE t SET j = json_build_object('a', c.oid) FROM pg_class c",
                "UPDATE t SET j = CAST(json_build_object('a', c.oid) AS JSON) FROM pg_class c",
            ),
            ("SELECT array_upper(pg_x, 1)", "SELECT array_length(pg_x, 1)"),
            ("SELECT a LIKE '//x/%\\' ESCAPE '/'", "SELECT a LIKE '\\/x\\%\\\\'"),
            (
                "SELECT (_pg_expandarray(a)).n",
                "SELECT unnest(generate_series(1, CAST(array_length(a) AS BIGINT)))",
            ),
            // Fields behind dots are calls by then.
            (
                "SELECT get_field((_pg_expandarray(a)), 'n')",
                "SELECT unnest(generate_series(1, CAST(array_length(a) AS BIGINT)))",
            ),
            ("SELECT _pg_expandarray(a), get_field((r.k), 'x')", "SELECT unnest(a), (r.k)"),
            ("SELECT 'x'", "SELECT 'x'"),
            ("SELECT 'typeinfo_tree(' FROM pg_class", "SELECT 'typeinfo_tree(' FROM pg_class"),
            (
                "SELECT pg_catalog.json_build_object('a', 1) FROM pg_class",
                "SELECT CAST(json_build_object('a', 1) AS JSON) FROM pg_class",
            ),
            ("SELECT 'json_build_object(' FROM pg_class", "SELECT 'json_build_object(' FROM pg_class"),
            (
                "SELECT ARRAY(SELECT o FROM unnest(c.reloptions) AS o) FROM pg_class c",
                "SELECT c.reloptions FROM pg_class c",
            ),
            (
                "SELECT * FROM information_schema.tables WHERE table_schema = 'public'",
                "SELECT * FROM information_schema.tables WHERE table_schema = known_schema('public')",
            ),
            (
                "SELECT * FROM pg.information_schema.tables WHERE table_schema = 'public'",
                "SELECT * FROM pg.information_schema.tables WHERE table_schema = 'public'",
            ),
        ] {
            let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
            rewrite(sql, &mut statements[0]);
            assert_eq!(statements[0].to_string(), expected);
        }
    }

    #[test]
    fn subqueries_of_what_has_no_rows_are_left_out() {
        let sql = "SELECT (SELECT a FROM b WHERE c = d) FROM pg_catalog.pg_policy";
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        rewrite(sql, &mut statements[0]);
        assert!(!statements[0].to_string().contains("WHERE"));
    }

    #[test]
    fn a_query_of_a_client_is_known_by_what_it_names() {
        let sql =
            "WITH RECURSIVE typeinfo_tree(oid) AS (SELECT oid FROM pg_type) SELECT * FROM typeinfo_tree";
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        rewrite(sql, &mut statements[0]);
        let text = statements[0].to_string();
        assert!(text.starts_with("SELECT t.oid, n.nspname AS ns") && !text.contains("WITH"), "{text}");
    }
}
