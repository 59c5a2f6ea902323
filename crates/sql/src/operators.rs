//! How tightly operators bind, whatever dialect reads them: PostgreSQL's table (its manual, 4.1.6).
//! The parser reads by it, and [`crate::printable`] prints by it.

use sqlparser::ast::{BinaryOperator, CastKind, Expr, UnaryOperator};
use sqlparser::dialect::Precedence;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Word};

/// The function that stands for `= ANY (list)`: of a list and a value.
pub const ANY_EQUAL: &str = "any_equal";

/// Nothing: the parser stops before such a token.
pub const NONE: u8 = 0;
/// A colon ends the bounds of a slice, whatever operators they have.
const COLON: u8 = 1;
const OR: u8 = 10;
const XOR: u8 = 15;
const AND: u8 = 20;
const NOT: u8 = 30;
/// `IS NULL`, `IS DISTINCT FROM` and their like.
pub const IS: u8 = 40;
const COMPARISON: u8 = 50;
/// BETWEEN, IN, LIKE, ILIKE and SIMILAR TO.
pub const RANGE: u8 = 60;
/// All operators that have no level of their own: `||`, `->`, `&`, `~`, …
pub const OTHER: u8 = 70;
const SUM: u8 = 80;
const PRODUCT: u8 = 90;
pub const POWER: u8 = 100;
const AT_TIME_ZONE: u8 = 110;
const COLLATE: u8 = 120;
/// A sign before its operand.
pub const SIGN: u8 = 125;
const SUBSCRIPT: u8 = 130;
const CAST: u8 = 140;
const PERIOD: u8 = 200;
/// What needs no parentheses anywhere.
const PRIMARY: u8 = 255;

/// Returns how tightly a class of operators of the parser's binds.
pub fn of_class(class: Precedence) -> u8 {
    match class {
        Precedence::Period => PERIOD,
        Precedence::DoubleColon => CAST,
        Precedence::AtTz => AT_TIME_ZONE,
        Precedence::Caret => POWER,
        Precedence::MulDivModOp => PRODUCT,
        Precedence::PlusMinus => SUM,
        Precedence::Ampersand | Precedence::Pipe | Precedence::PgOther => OTHER,
        Precedence::Between | Precedence::Like => RANGE,
        Precedence::Eq => COMPARISON,
        Precedence::Is => IS,
        Precedence::UnaryNot => NOT,
        Precedence::And => AND,
        Precedence::Xor => XOR,
        Precedence::Or => OR,
        Precedence::Colon => COLON,
    }
}

/// Returns how tightly an operator binds that the parser classes otherwise than PostgreSQL does.
pub fn of_token(token: &Token) -> Option<u8> {
    match token {
        Token::Colon => Some(NONE),
        Token::Caret => Some(POWER),
        Token::LBracket => Some(SUBSCRIPT),
        Token::StringConcat
        | Token::Ampersand
        | Token::Pipe
        | Token::Sharp
        | Token::ShiftLeft
        | Token::ShiftRight
        | Token::Overlap
        | Token::CaretAt
        | Token::Tilde
        | Token::TildeAsterisk
        | Token::ExclamationMarkTilde
        | Token::ExclamationMarkTildeAsterisk
        | Token::DoubleTilde
        | Token::DoubleTildeAsterisk
        | Token::ExclamationMarkDoubleTilde
        | Token::ExclamationMarkDoubleTildeAsterisk => Some(OTHER),
        Token::Word(word) if is_word(word, "ISNULL") || is_word(word, "NOTNULL") => Some(IS),
        Token::Word(word) if word.keyword == Keyword::OPERATOR => Some(OTHER),
        Token::Word(word) if word.keyword == Keyword::COLLATE => Some(COLLATE),
        _ => None,
    }
}

/// Says whether a token is a word that the parser has no keyword for.
pub fn is_word(word: &Word, known: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(known)
}

/// Returns how tightly an expression holds together: it needs parentheses as an operand of what
/// binds more tightly.
pub fn of_expression(expr: &Expr) -> u8 {
    match expr {
        Expr::BinaryOp { op, .. } => of_binary(op),
        Expr::AnyOp { compare_op, .. } | Expr::AllOp { compare_op, .. } => of_binary(compare_op),
        Expr::UnaryOp { op, .. } => of_unary(*op),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::IsNormalized { .. } => IS,
        Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::InUnnest { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. }
        | Expr::RLike { .. }
        | Expr::MemberOf(_) => RANGE,
        Expr::AtTimeZone { .. } => AT_TIME_ZONE,
        Expr::Collate { .. } => COLLATE,
        Expr::Cast { kind: CastKind::DoubleColon, .. } => CAST,
        Expr::CompoundFieldAccess { .. } | Expr::JsonAccess { .. } => SUBSCRIPT,
        Expr::Exists { negated: true, .. } => NOT,
        Expr::Lambda(_) => NONE,
        _ => PRIMARY,
    }
}

/// Returns how tightly an operator between operands binds.
pub fn of_binary(op: &BinaryOperator) -> u8 {
    use BinaryOperator as Op;
    match op {
        Op::Or => OR,
        Op::Xor => XOR,
        Op::And => AND,
        Op::Gt | Op::Lt | Op::GtEq | Op::LtEq | Op::Eq | Op::NotEq | Op::Spaceship | Op::Assignment => {
            COMPARISON
        }
        Op::Overlaps => RANGE,
        Op::Plus | Op::Minus => SUM,
        Op::Multiply | Op::Divide | Op::Modulo | Op::DuckIntegerDivide | Op::MyIntegerDivide => PRODUCT,
        Op::BitwiseXor | Op::PGExp => POWER,
        _ => OTHER,
    }
}

/// Returns how tightly an operator before its operand binds.
pub fn of_unary(op: UnaryOperator) -> u8 {
    match op {
        UnaryOperator::Not | UnaryOperator::BangNot => NOT,
        UnaryOperator::Minus | UnaryOperator::Plus => SIGN,
        UnaryOperator::PGPostfixFactorial => CAST,
        _ => OTHER,
    }
}
