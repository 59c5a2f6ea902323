//! The types of functions of this crate.

use crate::aggregate::Exact;
use crate::amplifier::{Bounded, Texts};
use crate::any_equal::AnyEqual;
use crate::arithmetic::{Arithmetic, Negated};
use crate::builtin::Builtin;
use crate::builtin::chance::Chance;
use crate::builtin::choice::Chosen;
use crate::builtin::domain::WithinDomain;
use crate::builtin::each::Each;
use crate::builtin::element::Element;
use crate::builtin::elements::OfElements;
use crate::builtin::identifiers::UuidOfNow;
use crate::builtin::list_functions::{Alike, Sorted};
use crate::builtin::made::Made;
use crate::builtin::moments::Moments;
use crate::builtin::of_list::OfList;
use crate::builtin::ordered::Ordered;
use crate::builtin::overload::Overload;
use crate::builtin::reduce::Reduce;
use crate::builtin::sleep::Sleep;
use crate::builtin::structure::FieldAt;
use crate::cast::SqlCast;
use crate::chain::Chain;
use crate::date_part::DatePart;
use crate::extreme::Extreme;
use crate::field::FieldOf;
use crate::float_extreme::FloatExtreme;
use crate::function::{Choosing, Counting, DateTrunc, MapEntries, Now, OctetLength};
use crate::interval::{DaysLater, IntervalLength, Scaled, TimeMoved};
use crate::interval_part::IntervalPart;
use crate::json::order::JsonKey;
use crate::json::{JsonColumn, JsonFunction, JsonTransform};
use crate::list_sets::KeptApart;
use crate::nan::OneNan;
use crate::operand::Operand;
use crate::overlaps::Overlaps;
use crate::percentile::Percentile;
use crate::portable::{Entry, Table};
use crate::ranking::Signed;
use crate::room::Asking;
use crate::rounding::Rounding;
use crate::row_numbers::OfRows;
use crate::searching::Searching;
use crate::text_function::{Changed, Strict};
use crate::time_difference::Difference;
use crate::time_part::OfYear;
use crate::time_zone::{CastWithin, InZone, Shift};
use crate::typed::Typed;
use crate::value_keys::{BesideKey, NestedKey};

pub(super) static TABLE: Table = Table {
    scalars: &[
        Entry::made::<Arithmetic>(),
        Entry::made::<BesideKey>(),
        Entry::made::<Bounded>(),
        Entry::made::<CastWithin>(),
        Entry::made::<Chain>(),
        Entry::made::<DaysLater>(),
        Entry::made::<Difference>(),
        Entry::made::<Extreme>(),
        Entry::made::<FieldOf>(),
        Entry::made::<IntervalLength>(),
        Entry::made::<IntervalPart>(),
        Entry::made::<JsonKey>(),
        Entry::made::<Negated>(),
        Entry::made::<NestedKey>(),
        Entry::made::<OfYear>(),
        Entry::made::<OneNan>(),
        Entry::made::<Rounding>(),
        Entry::made::<Scaled>(),
        Entry::made::<Shift>(),
        Entry::made::<SqlCast>(),
        Entry::made::<Texts>(),
        Entry::made::<TimeMoved>(),
        Entry::made::<Typed>(),
        Entry::registered::<Alike>(),
        Entry::registered::<AnyEqual>(),
        Entry::registered::<Builtin>(),
        Entry::registered::<Chance>(),
        Entry::registered::<Changed>(),
        Entry::registered::<Choosing>(),
        Entry::registered::<Chosen>(),
        Entry::registered::<Counting>(),
        Entry::registered::<DatePart>(),
        Entry::registered::<DateTrunc>(),
        Entry::registered::<Element>(),
        Entry::registered::<FieldAt>(),
        Entry::registered::<InZone>(),
        Entry::registered::<JsonColumn>(),
        Entry::registered::<JsonFunction>(),
        Entry::registered::<JsonTransform>(),
        Entry::registered::<Made>(),
        Entry::registered::<MapEntries>(),
        Entry::registered::<OctetLength>(),
        Entry::registered::<OfElements>(),
        Entry::registered::<OfList>(),
        Entry::registered::<Operand>(),
        Entry::registered::<Overlaps>(),
        Entry::registered::<Overload>(),
        Entry::registered::<Searching>(),
        Entry::registered::<Sorted>(),
        Entry::registered::<Strict>(),
        Entry::registered::<UuidOfNow>(),
        Entry::registered::<WithinDomain>(),
        Entry::refused::<KeptApart>("it is there while a plan is simplified"),
        Entry::refused::<Now>("planning has to make it a constant of the statement"),
        Entry::refused::<Sleep>("it waits on the node of its session"),
    ],
    aggregates: &[
        Entry::made::<Asking>(),
        Entry::made::<FloatExtreme>(),
        Entry::registered::<Exact>(),
        Entry::registered::<Moments>(),
        Entry::registered::<Ordered>(),
        Entry::registered::<Percentile>(),
    ],
    windows: &[Entry::registered::<OfRows>(), Entry::registered::<Signed>()],
    higher_orders: &[Entry::registered::<Each>(), Entry::registered::<Reduce>()],
};
