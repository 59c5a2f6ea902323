//! A dialect that limits the parser. The parser tries one reading after another. If these nest, a
//! text that fits none of them takes time that doubles with every level, as `CAST(CAST(… x)` does;
//! and the parser recurses. It asks its dialect at every step, so that a dialect can count the
//! steps and check the stack.

use crate::call::call;
use crate::operators::ANY_EQUAL;
use crate::{build, in_list, inner_queries, operators};
use hypostyle_error::complexity::too_complex;
use hypostyle_types::{Error, Result};
use sqlparser::ast::{
    BinaryOperator, ColumnOption, Expr, GranteesType, Ident, LambdaFunction, LambdaFunctionParameter,
    LambdaSyntax, ObjectNamePart, OneOrManyWithParens, Statement, TrimWhereField, UnaryOperator, Value,
};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::any::TypeId;
use std::cell::Cell;
use std::iter::Peekable;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::Chars;

/// Steps that any text may take, and those for each of its tokens. Texts that can be parsed take
/// about three for each token.
const STEPS: u64 = 200_000;
const STEPS_OF_TOKEN: u64 = 30;

/// The part of the stack that the parser must leave.
const STACK_LEFT_BYTES: usize = 64 << 10;

/// The reason for stopping the parser, as the payload of a panic that only [`Watched::parse`] sees.
enum Stopped {
    Steps,
    Stack,
}

/// Another dialect that counts how often it is asked.
#[derive(Debug)]
pub struct Watched {
    dialect: &'static dyn Dialect,
    steps_left: Cell<u64>,
    nests_joins: bool,
}

impl Watched {
    /// Returns the watch for a text of some tokens.
    pub fn new(dialect: &'static dyn Dialect, tokens: usize) -> Self {
        let steps = STEPS + STEPS_OF_TOKEN * tokens as u64;
        Self { dialect, steps_left: Cell::new(steps), nests_joins: false }
    }

    /// Reads `a JOIN b JOIN c ON … ON …` as `a JOIN (b JOIN c ON …) ON …`.
    pub fn nesting_joins(self, nests_joins: bool) -> Self {
        Self { nests_joins, ..self }
    }

    /// Returns the dialect by which a text becomes tokens: that takes a step for each character.
    pub fn of_tokens(dialect: &'static dyn Dialect) -> Self {
        Self { dialect, steps_left: Cell::new(u64::MAX), nests_joins: false }
    }

    /// Runs a parser that has this dialect.
    ///
    /// # Errors
    /// `Syntax` (54001) when it takes too many steps, or there is no room for how deep it recurses.
    pub fn parse<T>(&self, run: impl FnOnce(&dyn Dialect) -> T) -> Result<T> {
        catch_unwind(AssertUnwindSafe(|| run(self))).map_err(|payload| match payload.downcast::<Stopped>() {
            Ok(stopped) => match *stopped {
                Stopped::Steps => too_complex(
                    "it is not understood within as many steps as it may take; look for an error in what nests, or nest less",
                ),
                Stopped::Stack => too_complex("it is nested too deeply"),
            },
            Err(_) => Error::internal("the parser panicked; please report it"),
        })
    }

    fn step(&self) -> &'static dyn Dialect {
        let left = self.steps_left.get();
        if left == 0 {
            resume_unwind(Box::new(Stopped::Steps));
        }
        if stacker::remaining_stack().is_some_and(|bytes| bytes < STACK_LEFT_BYTES) {
            resume_unwind(Box::new(Stopped::Stack));
        }
        self.steps_left.set(left - 1);
        self.dialect
    }
}

/// The questions without arguments.
macro_rules! flags {
    ($($flag:ident),* $(,)?) => {
        $(fn $flag(&self) -> bool {
            self.step().$flag()
        })*
    };
}

/// Every question of the trait, since the answers that it gives by itself are not those of the
/// dialect.
impl Dialect for Watched {
    fn dialect(&self) -> TypeId {
        self.step().dialect()
    }

    flags! {
        supports_string_literal_backslash_escape, ignores_wildcard_escapes,
        supports_filter_during_aggregation,
        supports_window_clause_named_window_reference, supports_within_after_array_aggregation,
        supports_partition_by_after_order_by, supports_array_join_syntax, supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_outer_join_operator, supports_cross_join_constraint, supports_connect_by,
        supports_execute_immediate, supports_match_recognize, supports_in_empty_list,
        supports_start_transaction_modifier, supports_end_transaction_modifier,
        supports_named_fn_args_with_eq_operator, supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_assignment_operator,
        supports_named_fn_args_with_rarrow_operator, supports_named_fn_args_with_expr_name,
        supports_numeric_prefix, supports_numeric_literal_underscores,
        supports_window_function_null_treatment_arg, supports_parenthesized_set_variables,
        supports_comma_separated_set_assignments, supports_update_order_by,
        supports_select_wildcard_except, convert_type_before_value, supports_triple_quoted_string,
        supports_trailing_commas, supports_limit_comma, supports_string_literal_concatenation,
        supports_string_literal_concatenation_with_newline, supports_projection_trailing_commas,
        supports_from_trailing_commas, supports_column_definition_trailing_commas,
        supports_object_name_double_dot_notation, supports_struct_literal,
        supports_empty_projections, supports_from_first_select,
        supports_from_first_insert, supports_pipe_operator, supports_user_host_grantee,
        supports_match_against, supports_select_exclude,
        supports_create_table_multi_schema_info_sources, supports_select_modifiers,
        describe_requires_table_keyword, allow_extract_custom, allow_extract_single_quotes,
        supports_extract_comma_syntax, supports_subquery_as_function_arg,
        supports_create_view_comment_syntax, supports_array_typedef_without_element_type,
        supports_parens_around_table_factor, supports_values_as_table_factor,
        supports_dollar_placeholder, supports_dollar_as_money_prefix,
        supports_create_index_with_clause, require_interval_qualifier,
        supports_explain_with_utility_options, supports_asc_desc_in_column_definition,
        supports_factorial_operator, supports_bitwise_shift_operators, supports_eq_alias_assignment, supports_try_convert,
        supports_bang_not_operator, supports_listen_notify, supports_load_data,
        supports_load_extension, supports_top_before_distinct, supports_boolean_literals,
        supports_show_like_before_in, supports_comment_on, supports_create_table_select,
        supports_partiql, supports_constraint_keyword_without_name, supports_key_column_option,
        supports_table_sample_before_alias, supports_insert_set, supports_insert_table_function,
        supports_insert_table_query, supports_insert_format, supports_insert_table_alias,
        supports_set_stmt_without_operator, supports_table_versioning,
        supports_table_hints,
        requires_single_line_comment_whitespace, supports_array_typedef_with_brackets,
        supports_geometric_types, supports_order_by_all, supports_set_names,
        supports_space_separated_column_options, supports_alter_column_type_using,
        supports_comma_separated_drop_column_list, supports_notnull_operator,
        supports_data_type_signed_suffix, supports_interval_options,
        supports_create_table_like_parenthesized, supports_semantic_view_table_factor,
        supports_comment_optimizer_hint,
        supports_double_ampersand_operator, supports_binary_kw_as_cast,
        supports_select_wildcard_with_alias,
        supports_optimize_table, supports_install, supports_detach, supports_prewhere,
        supports_with_fill, supports_limit_by, supports_interpolate, supports_settings,
        supports_select_format, supports_comma_separated_trim, supports_cte_without_as,
        supports_select_item_multi_column_alias, supports_xml_expressions,
        supports_create_table_using, supports_long_type_as_bigint,
        supports_map_literal_with_angle_brackets
    }

    // Structures and maps are written beside what each dialect has of its own.

    fn supports_dictionary_syntax(&self) -> bool {
        self.step();
        true
    }

    fn support_map_literal_syntax(&self) -> bool {
        self.step();
        true
    }

    // So are the options of `*`, and stand beside what only PostgreSQL has, as MATERIALIZED.

    fn supports_select_wildcard_exclude(&self) -> bool {
        self.step();
        true
    }

    fn supports_select_wildcard_replace(&self) -> bool {
        self.step();
        true
    }

    fn supports_select_wildcard_ilike(&self) -> bool {
        self.step();
        true
    }

    fn supports_select_wildcard_rename(&self) -> bool {
        self.step();
        true
    }

    /// `(s).*` gives the fields of a structure, as in PostgreSQL.
    fn supports_select_expr_star(&self) -> bool {
        self.step();
        true
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nests_joins && self.step().supports_left_associative_joins_without_parens()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.step().is_delimited_identifier_start(ch)
    }

    fn is_nested_delimited_identifier_start(&self, ch: char) -> bool {
        self.step().is_nested_delimited_identifier_start(ch)
    }

    fn peek_nested_delimited_identifier_quotes(
        &self,
        chars: Peekable<Chars<'_>>,
    ) -> Option<(char, Option<char>)> {
        self.step().peek_nested_delimited_identifier_quotes(chars)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.step().identifier_quote_style(identifier)
    }

    // `a#b` and `a@>b` are operators between names in each dialect, and as in `crate::lexer`.

    fn is_identifier_start(&self, ch: char) -> bool {
        ch != '#' && self.step().is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        !matches!(ch, '#' | '@') && self.step().is_identifier_part(ch)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.step().is_custom_operator_part(ch)
    }

    // Where a text or a comment ends is the same in each dialect, and as in `crate::lexer`.

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_multiline_comment_hints(&self) -> bool {
        false
    }

    fn supports_string_escape_constant(&self) -> bool {
        true
    }

    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    fn supports_quote_delimited_string(&self) -> bool {
        false
    }

    // Arrows are an operator; `x -> …` among arguments is read as `lambda x : …` beforehand.
    fn supports_lambda_functions(&self) -> bool {
        false
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let dialect = self.step();
        inner_queries::read(parser).or_else(|| prefixed(parser)).or_else(|| dialect.parse_prefix(parser))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let dialect = self.step();
        in_list::with_subqueries(parser, expr)
            .or_else(|| like_glob(parser, expr, precedence))
            .or_else(|| in_values(parser, expr, precedence))
            .or_else(|| between_bounds(parser, expr, precedence))
            .or_else(|| further_operator(parser, expr, precedence))
            .or_else(|| dialect.parse_infix(parser, expr, precedence))
    }

    /// Answers by one table, whatever the dialect: an operator binds alike beside all others.
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        self.step();
        if glob(parser).is_some() {
            return Some(Ok(operators::RANGE));
        }
        if is_power(parser) {
            return Some(Ok(operators::POWER));
        }
        operators::of_token(&parser.peek_token_ref().token).map(Ok)
    }

    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        self.step().parse_statement(parser)
    }

    fn parse_column_option(
        &self,
        parser: &mut Parser,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        self.step().parse_column_option(parser)
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        self.step();
        operators::of_class(prec)
    }

    fn prec_unknown(&self) -> u8 {
        self.step();
        operators::NONE
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        self.step().is_reserved_for_identifier(kw)
    }

    fn get_reserved_keywords_for_select_item_operator(&self) -> &[Keyword] {
        self.step().get_reserved_keywords_for_select_item_operator()
    }

    fn get_reserved_grantees_types(&self) -> &[GranteesType] {
        self.step().get_reserved_grantees_types()
    }

    fn is_column_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        self.step().is_column_alias(kw, parser)
    }

    fn is_select_item_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        self.step().is_select_item_alias(explicit, kw, parser)
    }

    fn is_table_factor(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        self.step().is_table_factor(kw, parser)
    }

    fn is_table_alias(&self, kw: &Keyword, parser: &mut Parser) -> bool {
        self.step().is_table_alias(kw, parser)
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser) -> bool {
        self.step().is_table_factor_alias(explicit, kw, parser)
    }

    fn is_identifier_generating_function_name(&self, ident: &Ident, name_parts: &[ObjectNamePart]) -> bool {
        self.step().is_identifier_generating_function_name(ident, name_parts)
    }
}

/// Reads signs and `~` before their operands, and `lambda x, y : …`; `None` where neither stands.
fn prefixed(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let op = match &parser.peek_token_ref().token {
        Token::Minus => UnaryOperator::Minus,
        Token::Plus => UnaryOperator::Plus,
        Token::Tilde => UnaryOperator::BitwiseNot,
        Token::Word(word) if word.keyword == Keyword::LAMBDA && word.quote_style.is_none() => {
            return parser.maybe_parse(lambda).transpose();
        }
        Token::Word(word) if word.keyword == Keyword::TRIM && word.quote_style.is_none() => {
            return trim_of_blanks(parser);
        }
        _ => return None,
    };
    parser.advance_token();
    let operand = parser.parse_subexpr(operators::of_unary(op));
    Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
}

/// Reads `TRIM(BOTH FROM text)` and `TRIM(FROM text)`, which do not name the blank that they cut off;
/// `None` where others stand.
fn trim_of_blanks(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let keyword = |place: usize| match &parser.peek_nth_token_ref(place).token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let trim_where = match keyword(2) {
        Keyword::LEADING => Some(TrimWhereField::Leading),
        Keyword::TRAILING => Some(TrimWhereField::Trailing),
        Keyword::BOTH => Some(TrimWhereField::Both),
        _ => None,
    };
    let from = if trim_where.is_some() { 3 } else { 2 };
    if parser.peek_nth_token_ref(1).token != Token::LParen || keyword(from) != Keyword::FROM {
        return None;
    }
    (0..=from).for_each(|_| parser.advance_token());
    let text = parser.parse_expr().and_then(|text| parser.expect_token(&Token::RParen).map(|_| text));
    Some(text.map(|text| Expr::Trim {
        expr: Box::new(text),
        trim_where,
        trim_what: Some(Box::new(Expr::value(Value::SingleQuotedString(" ".into())))),
        trim_characters: None,
    }))
}

/// Reads a function of list elements.
fn lambda(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_keyword_is(Keyword::LAMBDA)?;
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    let mut params: Vec<_> =
        names.into_iter().map(|name| LambdaFunctionParameter { name, data_type: None }).collect();
    let params = match params.len() {
        1 => OneOrManyWithParens::One(params.remove(0)),
        _ => OneOrManyWithParens::Many(params),
    };
    parser.expect_token(&Token::Colon)?;
    let body = Box::new(parser.parse_expr()?);
    Ok(Expr::Lambda(LambdaFunction { params, body, syntax: LambdaSyntax::LambdaKeyword }))
}

/// The function that stands for GLOB.
const GLOB: &str = "glob_match";

/// Says whether GLOB is next, and a pattern behind it, with NOT before it or without; `None` if it is not:
/// behind an expression, it may be an alias.
fn glob(parser: &Parser) -> Option<bool> {
    let word = |place: usize| match &parser.peek_nth_token_ref(place).token {
        Token::Word(word) => Some(word),
        _ => None,
    };
    let is_denied = word(0)?.keyword == Keyword::NOT;
    let place = usize::from(is_denied);
    if !operators::is_word(word(place)?, "GLOB") {
        return None;
    }
    let has_pattern = match &parser.peek_nth_token_ref(place + 1).token {
        Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::Placeholder(_)
        | Token::LParen => true,
        Token::Word(word) => word.keyword == Keyword::NoKeyword,
        _ => false,
    };
    has_pattern.then_some(is_denied)
}

/// Reads `GLOB pattern` or `NOT GLOB pattern` behind an expression.
fn like_glob(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let is_denied = glob(parser)?;
    (0..1 + usize::from(is_denied)).for_each(|_| parser.advance_token());
    Some(parser.parse_subexpr(precedence).map(|pattern| {
        let is_like = call(GLOB, vec![left.clone(), pattern]);
        match is_denied {
            true => Expr::Nested(Box::new(build::not(is_like))),
            false => is_like,
        }
    }))
}

/// Reads `IN list` without parentheses, and NOT IN, of a list that is written or a column (DuckDB).
fn in_values(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let is = |place: usize, known: Keyword| matches!(&parser.peek_nth_token_ref(place).token, Token::Word(word) if word.keyword == known);
    let is_denied = is(0, Keyword::NOT);
    let place = usize::from(is_denied);
    let is_list = is(place, Keyword::IN)
        && match &parser.peek_nth_token_ref(place + 1).token {
            Token::LBracket => true,
            Token::Word(word) => word.keyword == Keyword::NoKeyword,
            _ => false,
        };
    if !is_list {
        return None;
    }
    (0..1 + place).for_each(|_| parser.advance_token());
    Some(parser.parse_subexpr(precedence).map(|list| {
        let is_in = call(ANY_EQUAL, vec![list, left.clone()]);
        match is_denied {
            true => Expr::Nested(Box::new(build::not(is_in))),
            false => is_in,
        }
    }))
}

/// Says whether `BETWEEN SYMMETRIC` or `BETWEEN ASYMMETRIC` is next, with NOT before it or without, and
/// whether it is the former; `None` for other words, and where a column has this name.
fn symmetric(parser: &Parser) -> Option<(bool, bool)> {
    let word = |place: usize| match &parser.peek_nth_token_ref(place).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    };
    let is_denied = word(0)?.keyword == Keyword::NOT;
    let place = usize::from(is_denied);
    if word(place)?.keyword != Keyword::BETWEEN {
        return None;
    }
    let is_symmetric = match word(place + 1)?.keyword {
        Keyword::SYMMETRIC => true,
        Keyword::ASYMMETRIC => false,
        _ => return None,
    };
    let is_column = match &parser.peek_nth_token_ref(place + 2).token {
        Token::Word(word) => word.keyword == Keyword::AND,
        behind => matches!(behind, Token::Period | Token::DoubleColon | Token::Mul | Token::Div | Token::Mod),
    };
    (!is_column).then_some((is_denied, is_symmetric))
}

/// Reads `BETWEEN SYMMETRIC a AND b`, of which either bound may be the lower one, as PostgreSQL does: the
/// operand is between a and b, or between b and a.
fn between_bounds(parser: &mut Parser, operand: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let (is_denied, is_symmetric) = symmetric(parser)?;
    (0..2 + usize::from(is_denied)).for_each(|_| parser.advance_token());
    let low = parser.parse_subexpr(precedence);
    let bounds = low.and_then(|low| {
        parser.expect_keyword_is(Keyword::AND)?;
        Ok((low, parser.parse_subexpr(precedence)?))
    });
    Some(bounds.map(|(low, high)| {
        let is_between = build::is_between(operand.clone(), low.clone(), high.clone());
        let is_between = match is_symmetric {
            true => {
                let is_reverse = build::is_between(operand.clone(), high, low);
                build::binary(is_between, BinaryOperator::Or, is_reverse)
            }
            false => is_between,
        };
        Expr::Nested(Box::new(if is_denied { build::not(is_between) } else { is_between }))
    }))
}

/// Says whether DuckDB's `**` is next, which is `^`.
fn is_power(parser: &Parser) -> bool {
    (0..2).all(|place| parser.peek_nth_token_ref(place).token == Token::Mul)
}

/// Reads operators behind an operand that not all dialects know, or of which the parser takes too
/// much for the right side; `None` where another stands.
fn further_operator(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let is = |place: usize, known: Keyword| matches!(&parser.peek_nth_token_ref(place).token, Token::Word(word) if word.keyword == known);
    let boxed = || Box::new(left.clone());
    match &parser.peek_token_ref().token {
        Token::Sharp => {
            parser.advance_token();
            Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
                left: boxed(),
                op: BinaryOperator::PGBitwiseXor,
                right: Box::new(right),
            }))
        }
        Token::Mul if is_power(parser) => {
            (0..2).for_each(|_| parser.advance_token());
            Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
                left: boxed(),
                op: BinaryOperator::PGExp,
                right: Box::new(right),
            }))
        }
        Token::Word(word) if word.keyword == Keyword::IS => {
            let negated = is(1, Keyword::NOT);
            let distinct = 1 + usize::from(negated);
            if !is(distinct, Keyword::DISTINCT) || !is(distinct + 1, Keyword::FROM) {
                return None;
            }
            (0..distinct + 2).for_each(|_| parser.advance_token());
            Some(parser.parse_subexpr(precedence).map(|right| match negated {
                true => Expr::IsNotDistinctFrom(boxed(), Box::new(right)),
                false => Expr::IsDistinctFrom(boxed(), Box::new(right)),
            }))
        }
        // The parser reads it behind names, literals and calls alone, and not behind `a::TEXT`.
        Token::Word(word) if word.keyword == Keyword::COLLATE => {
            parser.advance_token();
            let collation = parser.parse_object_name(false);
            Some(collation.map(|collation| Expr::Collate { expr: boxed(), collation }))
        }
        Token::Word(word) if operators::is_word(word, "ISNULL") => {
            parser.advance_token();
            Some(Ok(Expr::IsNull(boxed())))
        }
        Token::Word(word) if operators::is_word(word, "NOTNULL") => {
            parser.advance_token();
            Some(Ok(Expr::IsNotNull(boxed())))
        }
        _ => None,
    }
}
