//! Operators of JSON as calls of functions, `||` of a list and NULL, and lists, structures and maps as they
//! are written.

use crate::builtin::choice::{overlaid, position, substring};
use crate::builtin::described;
use crate::builtin::made::{list, row, structure};
use crate::builtin::structure::field_at;
use crate::cast::dimensions;
use crate::common_type::CHOOSING;
use crate::json::{JsonFunction, function, is_json};
use crate::nested_type::{element, is_list};
use crate::structures::cast_alike;
use crate::truth::read_elements;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::functions_nested::map::map_udf;
use datafusion::logical_expr::expr::{Alias, ScalarFunction};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawDictionaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, GetFieldAccess, ScalarUDF, TryCast};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use hypostyle_error::external;
use hypostyle_sql::json_path::{JSON, TEXT};
use hypostyle_types::{Error, ErrorKind};
use std::sync::Arc;

/// Plans these operators.
#[derive(Debug)]
pub struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{
            Arrow, AtAt, AtQuestion, HashArrow, HashLongArrow, HashMinus, LongArrow, Minus, Question,
            QuestionAnd, QuestionPipe, StringConcat,
        };
        if raw.op == StringConcat
            && let Some(list) = beside_null(&raw, schema)
        {
            return Ok(PlannerResult::Planned(list));
        }
        let raw = if raw.op == StringConcat { with_lists(raw, schema) } else { raw };
        let name = match &raw.op {
            Arrow => "json_part",
            LongArrow => "json_part_text",
            HashArrow => JSON,
            HashLongArrow => TEXT,
            Question => "json_has_key",
            QuestionPipe => "json_has_any_key",
            QuestionAnd => "json_has_all_keys",
            HashMinus => "json_delete_path",
            AtQuestion => "jsonb_path_exists",
            AtAt => "jsonb_path_match",
            Minus if is_of_json(&raw.left, schema) => "json_delete",
            StringConcat if joins_json(&raw, schema) => "json_joined",
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let Some(func) = function(name) else { return Ok(PlannerResult::Original(raw)) };
        // The column has the name that was written.
        let written = format!("{} {} {}", written(&raw.left), raw.op, written(&raw.right));
        let is_of_path = matches!(raw.op, AtQuestion | AtAt);
        let mut args = vec![raw.left, raw.right];
        if is_of_path {
            // There are no variables, and what is not as the path wants it is NULL.
            args.extend([ScalarValue::from("{}"), ScalarValue::from(true)].map(|of| Expr::Literal(of, None)));
        }
        let call = Expr::ScalarFunction(ScalarFunction { func, args });
        Ok(PlannerResult::Planned(Expr::Alias(Alias::new(call, None::<&str>, written))))
    }

    /// Plans the parts of JSON and of texts, `j['a']`, `'text'[2]` and `'text'[2:3]`, and the field of a
    /// structure at a place, `row(1, 'x')[2]`.
    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let field = field_of(&raw.expr, schema)?;
        if let (DataType::Struct(_), GetFieldAccess::ListIndex { key }) =
            (field.data_type(), &raw.field_access)
            && matches!(key.as_ref(), Expr::Literal(place, _) if place.data_type().is_integer())
        {
            let args = vec![raw.expr.clone(), key.as_ref().clone()];
            let call = ScalarFunction::new_udf(Arc::new(field_at()), args);
            return Ok(PlannerResult::Planned(Expr::ScalarFunction(call)));
        }
        if !field.data_type().is_string() {
            return Ok(PlannerResult::Original(raw));
        }
        let call = |func: Option<Arc<ScalarUDF>>, args: Vec<Expr>| match func {
            Some(func) => PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })),
            None => PlannerResult::Original(raw.clone()),
        };
        let expr = raw.expr.clone();
        Ok(match raw.field_access.clone() {
            GetFieldAccess::NamedStructField { name } if is_json(&field) => {
                call(function("json_part"), vec![expr, Expr::Literal(name, None)])
            }
            GetFieldAccess::ListIndex { key } if is_json(&field) => {
                call(function("json_part"), vec![expr, *key])
            }
            GetFieldAccess::ListIndex { key } => call(described("text_element"), vec![expr, *key]),
            GetFieldAccess::ListRange { start, stop, .. } if !is_json(&field) => {
                call(described("text_slice"), vec![expr, *start, *stop])
            }
            _ => PlannerResult::Original(raw),
        })
    }

    /// Plans `a.x` where `a` is a column, which DataFusion takes for a field of whatever it is. Where it has
    /// no fields, a relation is meant, which is not there.
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _: Option<&TableReference>,
        names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let may_have = matches!(field.data_type(), DataType::Struct(_) | DataType::Map(..) | DataType::Null)
            || is_json(field);
        Ok(match names {
            [name, ..] if !may_have => {
                let relation = TableReference::bare(field.name().as_str());
                PlannerResult::Planned(Expr::Column(Column::new(Some(relation), name)))
            }
            _ => PlannerResult::Original(Vec::new()),
        })
    }

    /// Plans `position(part IN text)`, of BLOBs, too.
    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match position() {
            Some(func) => PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })),
            None => PlannerResult::Original(args),
        })
    }

    /// Plans `overlay(text PLACING other FROM 2)`, of BLOBs, too.
    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match overlaid() {
            Some(func) => PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })),
            None => PlannerResult::Original(args),
        })
    }

    /// Plans `substring(text FROM pattern)`, where the pattern is written, and other parts of texts.
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let is_pattern = match args.as_slice() {
            [_, Expr::Literal(pattern, _)] => pattern.data_type().is_string(),
            _ => false,
        };
        let func = match is_pattern {
            true => described("substring_of_pattern"),
            false => substring(),
        };
        Ok(match func {
            Some(func) => PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })),
            None => PlannerResult::Original(args),
        })
    }

    /// Plans a list as it is written. Its texts and structures get one type before DataFusion looks at them.
    fn plan_array_literal(&self, mut args: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        read_elements(&mut args, schema);
        cast_alike(args.iter_mut().collect(), schema);
        nulls_of_json(&mut args, schema)?;
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func: list(), args })))
    }

    /// Plans a map as it is written, of lists as we make them.
    fn plan_make_map(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let (keys, values): (Vec<_>, Vec<_>) =
            args.into_iter().enumerate().partition(|(place, _)| place.is_multiple_of(2));
        let listed = |of: Vec<(usize, Expr)>| {
            let args = of.into_iter().map(|(_, expr)| expr).collect();
            Expr::ScalarFunction(ScalarFunction { func: list(), args })
        };
        let args = vec![listed(keys), listed(values)];
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func: map_udf(), args })))
    }

    /// Plans values in parentheses, `(1, 'a')`, as ROW(…).
    fn plan_struct_literal(&self, args: Vec<Expr>, is_named: bool) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match is_named {
            true => PlannerResult::Original(args),
            false => PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func: row(), args })),
        })
    }

    /// Plans a structure, and refuses one that has two fields of one name.
    fn plan_dictionary_literal(
        &self,
        raw: RawDictionaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawDictionaryExpr>> {
        let twice = raw.keys.iter().enumerate().find(|(place, key)| raw.keys[..*place].contains(key));
        match twice {
            Some((_, key)) => {
                let message = format!("a structure has a field {} once", written(key));
                Err(external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42701")))
            }
            None => {
                let args = raw.keys.into_iter().zip(raw.values).flat_map(|(key, value)| [key, value]);
                let call = ScalarFunction { func: structure(), args: args.collect() };
                Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
            }
        }
    }
}

/// Makes JSON of NULLs beside JSON.
fn nulls_of_json(elements: &mut [Expr], schema: &DFSchema) -> Result<()> {
    let is_null = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
    let Some(first) = elements.iter().find(|expr| !is_null(expr)) else { return Ok(()) };
    if !elements.iter().any(is_null) {
        return Ok(());
    }
    let (_, field) = first.to_field(schema)?;
    if !is_json(&field) {
        return Ok(());
    }
    let metadata = FieldMetadata::from(field.metadata().clone());
    let null = Expr::Literal(ScalarValue::try_from(field.data_type())?, Some(metadata));
    elements.iter_mut().filter(|expr| is_null(expr)).for_each(|expr| *expr = null.clone());
    Ok(())
}

/// Returns the list that stands beside a NULL without a type, which is no element, as in PostgreSQL.
fn beside_null(raw: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let is_null = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Null, _));
    let list = match (is_null(&raw.left), is_null(&raw.right)) {
        (true, false) => &raw.right,
        (false, true) => &raw.left,
        _ => return None,
    };
    let of = list.get_type(schema).ok()?;
    is_list(&of).then(|| list.clone())
}

/// Makes lists of texts in braces that stand beside a list and `||`, as in PostgreSQL.
fn with_lists(mut raw: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    let (of_left, of_right) =
        (list_meant(&raw.left, &raw.right, schema), list_meant(&raw.right, &raw.left, schema));
    for (side, of) in [(&mut raw.left, of_left), (&mut raw.right, of_right)] {
        if let Some(of) = of {
            *side = Expr::Cast(Cast::new(Box::new(std::mem::take(side)), of));
        }
    }
    raw
}

/// Returns the type that a text in braces has beside a list: that of the list, or of its elements if these
/// are lists that are as deep as the text. Beside lists of JSON it is an object.
fn list_meant(text: &Expr, list: &Expr, schema: &DFSchema) -> Option<DataType> {
    let Expr::Literal(value, _) = text else { return None };
    let text = value.try_as_str().flatten()?.trim();
    let letters = text.chars().filter(|letter| !letter.is_whitespace());
    let depth = letters.take_while(|letter| *letter == '{').count();
    if depth == 0 || !text.ends_with('}') {
        return None;
    }
    let mut of = list.get_type(schema).ok()?;
    while dimensions(&of) > depth {
        of = element(&of)?.data_type().clone();
    }
    let mut inner = element(&of)?;
    while let Some(next) = element(inner.data_type()) {
        inner = next;
    }
    if dimensions(&of) < depth || is_json(inner) {
        return None;
    }
    Some(match of {
        DataType::FixedSizeList(field, _) => DataType::List(field),
        other => other,
    })
}

/// Functions that give a part of their first argument, whose type says what it is.
const PARTS: [&str; 5] = ["array_element", "get_field", "list_any_value", "list_first", "list_last"];

/// Returns the field of an expression. That of an element is the one of its list's elements: what
/// DataFusion's function gives does not say that it is JSON.
fn field_of(expr: &Expr, schema: &DFSchema) -> Result<FieldRef> {
    if let Expr::ScalarFunction(call) = expr
        && let ("array_element", Some(list)) = (call.func.name(), call.args.first())
        && let DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) =
            field_of(list, schema)?.data_type()
    {
        return Ok(element.clone());
    }
    Ok(expr.to_field(schema)?.1)
}

/// Aggregates and functions of windows that give a value of one of the rows.
const CHOOSING_ROWS: [&str; 9] =
    ["any_value", "first_value", "lag", "last_value", "lead", "max", "min", "mode", "nth_value"];

/// Says whether `||` joins JSON: both sides are, or one is beside an object or an array as it is written,
/// or beside NULL. Another text is joined with the text of the JSON, as in DuckDB.
fn joins_json(raw: &RawBinaryExpr, schema: &DFSchema) -> bool {
    let may_be = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::Null, _) => true,
        Expr::Literal(value, _) => {
            let text = value.try_as_str().flatten().map(str::trim);
            text.is_some_and(|text| {
                [('{', '}'), ('[', ']')].iter().any(|ends| text.starts_with(ends.0) && text.ends_with(ends.1))
            })
        }
        _ => false,
    };
    match is_of_json(&raw.left, schema) {
        true => may_be(&raw.right) || is_of_json(&raw.right, schema),
        false => may_be(&raw.left) && is_of_json(&raw.right, schema),
    }
}

/// Says whether a value is JSON, as far as it can be told at once: the types of operators in a row
/// would be found again and again.
fn is_of_json(expr: &Expr, schema: &DFSchema) -> bool {
    let said = |field: &Field| is_json(field);
    match expr {
        Expr::Alias(alias) => is_of_json(&alias.expr, schema),
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => said(field),
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) | Expr::Placeholder(_) => {
            expr.to_field(schema).is_ok_and(|(_, field)| said(&field))
        }
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<JsonFunction>() {
            Some(function) => function.gives_json(),
            None if PARTS.contains(&call.func.name()) => {
                field_of(expr, schema).is_ok_and(|field| said(&field))
            }
            None => {
                CHOOSING.contains(&call.func.name())
                    && call.args.iter().any(|argument| is_of_json(argument, schema))
            }
        },
        Expr::AggregateFunction(call) if CHOOSING_ROWS.contains(&call.func.name()) => {
            call.params.args.first().is_some_and(|value| is_of_json(value, schema))
        }
        Expr::WindowFunction(call) if CHOOSING_ROWS.contains(&call.fun.name()) => {
            call.params.args.first().is_some_and(|value| is_of_json(value, schema))
        }
        Expr::Case(case) => {
            let mut chosen = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            chosen.any(|value| is_of_json(value, schema))
        }
        _ => false,
    }
}

/// Returns an operand as a name shows it.
fn written(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => column.name.clone(),
        Expr::Alias(alias) => alias.name.clone(),
        Expr::Cast(cast) => written(&cast.expr),
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) => {
            format!("'{text}'")
        }
        Expr::Literal(value, _) => value.to_string(),
        other => other.to_string(),
    }
}
