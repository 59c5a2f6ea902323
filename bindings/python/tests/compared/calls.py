"""Functions and operators that Hypostyle shares with DuckDB or PostgreSQL, as templates by type."""

from dataclasses import dataclass, field

from .nodes import Node
from .tables import COLUMNS, sql_type

BOTH = frozenset({"duckdb", "postgres"})
DUCKDB = frozenset({"duckdb"})
POSTGRES = frozenset({"postgres"})

TYPES = sorted(set(COLUMNS.values()))
NUMBERS = ["integer", "bigint", "double", "decimal"]
TIMES = ["date", "timestamp", "timestamptz"]
PARTS = ["year", "month", "day", "quarter", "week", "dow", "isodow", "doy", "century", "decade", "millennium"]
CLOCK_PARTS = ["hour", "minute"]
TRUNCATED = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "decade", "century"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia"]
PATTERNS = ["%", "a%", "%b", "_", "a_c", "%b%", "", "%ä", "a\\_c", "__", "%%", "5%"]
EXPRESSIONS = ["a", "^a", "b$", "[ab]+", "^.$", "(a|b)c?", ".", "x*"]


@dataclass(frozen=True)
class Call:
    """A function or operator as a template, and which systems have it; `edgy` ones may overflow."""

    type: str
    template: str
    arguments: tuple[str, ...] = ()
    peers: frozenset[str] = BOTH
    edgy: bool = False
    dialects: dict[str, str] = field(default_factory=dict)

    def node(self, children: tuple[Node, ...]) -> Node:
        return Node(self.type, self.template, children, dialects=self.dialects)


def _calls(type_: str, arguments: str, *templates: str, **options: object) -> list[Call]:
    return [Call(type_, template, tuple(arguments.split()), **options) for template in templates]


def _everywhere(type_: str) -> list[Call]:
    """Calls that every type has."""
    made = _calls(type_, f"boolean {type_} {type_}", "case when {0} then {1} else {2} end")
    made += _calls(type_, f"boolean {type_}", "case when {0} then {1} end")
    made += _calls(type_, f"{type_} {type_}", "coalesce({0}, {1})", "nullif({0}, {1})")
    made += _calls(type_, f"{type_} {type_} {type_} {type_}", "case {0} when {1} then {2} else {3} end")
    if type_ not in ("integer[]", "boolean", "interval"):
        made += _calls(type_, f"{type_} {type_}", "greatest({0}, {1})", "least({0}, {1})")
    return made


def _truth(type_: str) -> list[Call]:
    """Conditions about a type."""
    comparisons = ["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"]
    made = _calls("boolean", f"{type_} {type_}", *(f"({{0}} {sign} {{1}})" for sign in comparisons))
    made += _calls("boolean", type_, "({0} is null)", "({0} is not null)")
    made += _calls(
        "boolean",
        f"{type_} {type_} {type_}",
        "({0} between {1} and {2})",
        "({0} not between {1} and {2})",
        "({0} in ({1}, {2}))",
        "({0} not in ({1}, {2}))",
    )
    return made


def _operators(type_: str) -> list[Call]:
    two = f"{type_} {type_}"
    made = _calls(type_, two, "({0} + {1})", "({0} - {1})", "({0} * {1})", edgy=type_ != "double")
    made += _calls(type_, type_, "(- {0})", "abs({0})")
    whole = type_ in ("integer", "bigint")
    forms = {"duckdb": "({0} // nullif({1}, 0))"} if whole else {}
    if type_ != "decimal":
        made += _calls(type_, two, "({0} / nullif({1}, 0))", dialects=forms)
    if type_ != "double":
        made += _calls(type_, two, "({0} % nullif({1}, 0))", "mod({0}, nullif({1}, 0))")
    if whole:
        made += _calls(type_, two, "({0} & {1})", "({0} | {1})")
        made += _calls(type_, two, "({0} # {1})", dialects={"duckdb": "xor({0}, {1})"})
        made += _calls(type_, type_, "(~ {0})", "({0} >> 2)")
        made += _calls(type_, type_, "({0} << 3)", "({0} << 40)", "({0} >> 70)", peers=POSTGRES, edgy=True)
        made += _calls(type_, two, "({0} / {1})", "({0} % {1})", peers=POSTGRES, edgy=True)
        made += _calls(type_, two, "gcd({0}, {1})", "lcm({0}, {1})", edgy=True)
    return made


def _casts() -> list[Call]:
    """Casts between types; casts that cannot fail come first."""
    safe = {
        "bigint": ["integer"],
        "double": ["integer", "bigint", "decimal"],
        "decimal": ["integer"],
        "varchar": ["integer", "bigint", "decimal", "boolean", "date", "timestamp", "timestamptz"],
        "boolean": ["integer"],
        "integer": ["boolean", "decimal"],
        "date": ["timestamp", "timestamptz"],
        "timestamp": ["date", "timestamptz"],
        "timestamptz": ["date", "timestamp"],
    }
    edgy = {
        "integer": ["bigint", "double", "varchar"],
        "bigint": ["double", "varchar", "decimal"],
        "double": ["varchar"],
        "decimal": ["bigint", "double", "varchar"],
        "boolean": ["varchar"],
        "date": ["varchar"],
        "timestamp": ["varchar"],
        "timestamptz": ["varchar"],
        "interval": ["varchar"],
        "varchar": ["double"],
    }
    # Each system writes lists and intervals in its own way.
    made = _calls("varchar", "integer[]", "cast({0} as varchar)", peers=DUCKDB)
    made += _calls("varchar", "interval", "cast({0} as varchar)", peers=POSTGRES)
    for pairs, may_fail in ((safe, False), (edgy, True)):
        for type_, sources in pairs.items():
            for source in sources:
                made += _calls(type_, source, f"cast({{0}} as {sql_type(type_)})", edgy=may_fail)
    return made


def _numeric() -> list[Call]:
    made = []
    # Extracts are DOUBLE, BIGINT or NUMERIC in other systems.
    for part in PARTS:
        for source in TIMES:
            made += _calls("integer", source, f"cast(extract({part} from {{0}}) as integer)")
    for part in CLOCK_PARTS:
        for source in ("timestamp", "timestamptz"):
            made += _calls("integer", source, f"cast(extract({part} from {{0}}) as integer)")
    for part in ("year", "month", "day", "hour", "minute"):
        made += _calls("integer", "interval", f"cast(extract({part} from {{0}}) as integer)")
    for source in ("timestamp", "timestamptz", "interval", "date"):
        made += _calls("double", source, "cast(extract(epoch from {0}) as double precision)")
    for source in ("timestamp", "timestamptz", "interval"):
        made += _calls("double", source, "cast(extract(second from {0}) as double precision)", peers=POSTGRES)
        made += _calls(
            "double", source, "cast(extract(milliseconds from {0}) as double precision)", peers=POSTGRES
        )
        made += _calls("bigint", source, "cast(extract(microseconds from {0}) as bigint)")
    made += _calls("integer", "date date", "cast(({0} - {1}) as integer)")
    made += _calls("integer", "varchar", "length({0})", "char_length({0})", "ascii({0})")
    made += _calls("integer", "varchar", "octet_length({0})", dialects={"duckdb": "strlen({0})"})
    made += _calls("integer", "varchar", "bit_length({0})")
    made += _calls("integer", "varchar varchar", "strpos({0}, {1})", "position({0} in {1})")
    made += _calls("integer", "integer[]", "({0})[1]", "({0})[2]", "({0})[7]")
    made += _calls("integer", "integer[] integer", "({0})[{1}]", peers=POSTGRES)
    made += _calls("integer", "integer[]", "cardinality({0})", dialects={"duckdb": "len({0})"})
    made += _calls("integer", "integer[]", "array_length({0}, 1)", peers=POSTGRES)
    made += _calls("integer", "integer[] integer", "array_position({0}, {1})")
    made += _calls(
        "double",
        "double",
        "floor({0})", "ceil({0})", "trunc({0})", "sign({0})", "cbrt({0})", "sqrt(abs({0}))", "atan({0})",
        "degrees({0})", "radians({0})", "ln(nullif(abs({0}), 0))", "log10(nullif(abs({0}), 0))",
        "sin(least({0}, 100))", "cos(least({0}, 100))", "tanh({0})",
    )  # fmt: skip
    made += _calls("double", "double", "round({0})", peers=POSTGRES)
    made += _calls("double", "double double", "atan2({0}, {1})")
    made += _calls("double", "double", "power({0}, 2)", "exp(least({0}, 10))")
    made += _calls(
        "double", "double", "exp({0})", "sqrt({0})", "ln({0})", "asin({0})", "power({0}, 0.5)", edgy=True
    )
    made += _calls("double", "double double", "power({0}, {1})", "({0} / {1})", edgy=True, peers=POSTGRES)
    made += _calls(
        "decimal", "decimal", "round({0}, 1)", "round({0})", "floor({0})", "ceil({0})", "trunc({0}, 1)"
    )
    made += _calls("decimal", "decimal", "round({0}, -1)", "trunc({0})", "sign({0})")
    made += _calls(
        "decimal", "decimal integer", "round({0}, {1})", "trunc({0}, {1})", peers=POSTGRES, edgy=True
    )
    made += _calls("double", "decimal decimal", "cast({0} / nullif({1}, 0) as double precision)")
    return made


def _textual() -> list[Call]:
    made = _calls(
        "varchar",
        "varchar",
        "upper({0})", "lower({0})", "trim({0})", "ltrim({0})", "rtrim({0})", "reverse({0})", "md5({0})",
        "left({0}, 2)", "right({0}, 2)", "left({0}, -1)", "right({0}, -1)", "left({0}, 0)",
        "substring({0} from 2)", "substring({0} from 2 for 1)", "substring({0}, 1, 2)", "repeat({0}, 2)",
        "repeat({0}, -1)", "trim(both 'a' from {0})", "trim(leading 'ab' from {0})",
    )  # fmt: skip
    made += _calls(
        "varchar", "varchar varchar", "({0} || {1})", "concat({0}, {1})", "concat_ws({0}, {1}, 'x')"
    )
    made += _calls("varchar", "varchar varchar varchar", "replace({0}, {1}, {2})", "translate({0}, {1}, {2})")
    made += _calls(
        "varchar", "varchar varchar", "split_part({0}, 'b', 1)", "ltrim({0}, {1})", "rtrim({0}, {1})"
    )
    made += _calls("varchar", "varchar", "lpad({0}, 4, '*')", "rpad({0}, 2, 'xy')", "lpad({0}, 0, 'a')")
    made += _calls(
        "varchar", "varchar", "regexp_replace({0}, '([ab])', '<\\1>')", "regexp_replace({0}, 'a', '', 'g')"
    )
    made += _calls("varchar", "varchar integer", "split_part({0}, 'a', nullif({1}, 0))", peers=POSTGRES)
    made += _calls("varchar", "varchar integer", "left({0}, {1})", "right({0}, {1})", "repeat({0}, {1})")
    made += _calls(
        "varchar", "varchar integer", "substring({0} from {1})", "substr({0}, {1}, 2)", peers=POSTGRES
    )
    made += _calls(
        "varchar", "varchar integer varchar", "lpad({0}, {1}, {2})", "rpad({0}, {1}, {2})", peers=POSTGRES
    )
    made += _calls("varchar", "varchar", "initcap({0})", "quote_literal({0})", peers=POSTGRES)
    made += _calls("varchar", "varchar varchar", "overlay({0} placing {1} from 2)", peers=POSTGRES)
    made += _calls("varchar", "integer", "to_hex({0})", peers=POSTGRES)
    made += _calls("varchar", "integer varchar", "concat({0}, {1})", "concat_ws('-', {0}, {1}, null)")
    for source, formats in {
        "timestamp": ["YYYY-MM-DD HH24:MI:SS", "Dy DD Mon YYYY", "Q IYYY IW", "HH12:MI am", "FMDD.FMMM."],
        "date": ["YYYY-MM-DD", "DDD", "FMMonth"],
        "integer": ["999", "000", "S99", "FM9990.00"],
        "decimal": ["9990.99", "FM999.999"],
    }.items():
        for format_ in formats:
            made += _calls("varchar", source, f"to_char({{0}}, '{format_}')", peers=POSTGRES)
    return made


def _temporal() -> list[Call]:
    made = _calls("date", "date", "({0} + 1)", "({0} - 30)", "cast(date_trunc('month', {0}) as date)")
    made += _calls("date", "date integer", "({0} + {1})", "({0} - {1})")
    made += _calls("date", "integer", "make_date(2020 + {0}, 2, 28)")
    for part in TRUNCATED:
        for type_ in ("timestamp", "timestamptz"):
            made += _calls(type_, type_, f"date_trunc('{part}', {{0}})")
    for type_ in ("timestamp", "timestamptz"):
        made += _calls(type_, f"{type_} interval", "({0} + {1})", "({0} - {1})")
        made += _calls("interval", f"{type_} {type_}", "({0} - {1})")
    made += _calls("interval", "timestamp timestamp", "age({0}, {1})")
    made += _calls("timestamp", "date interval", "({0} + {1})", "({0} - {1})")
    for zone in ZONES:
        made += _calls("timestamp", "timestamptz", f"({{0}} at time zone '{zone}')")
        made += _calls("timestamptz", "timestamp", f"({{0}} at time zone '{zone}')")
    made += _calls("timestamptz", "integer", "to_timestamp({0})")
    made += _calls("timestamp", "integer", "make_timestamp(2020, 2 + abs({0} % 9), 28, 1, 2, 3.5)")
    made += _calls("interval", "interval interval", "({0} + {1})", "({0} - {1})")
    made += _calls("interval", "interval integer", "({0} * {1})", "({1} * {0})")
    made += _calls("interval", "interval", "(- {0})")
    made += _calls(
        "interval",
        "interval",
        "justify_days({0})",
        "justify_hours({0})",
        "justify_interval({0})",
        "({0} / 2)",
        peers=POSTGRES,
    )
    made += _calls("interval", "interval double", "({0} * {1})", peers=POSTGRES, edgy=True)
    made += _calls("interval", "integer", "make_interval(months => {0}, hours => 3)", peers=POSTGRES)
    made += _calls(
        "boolean",
        "timestamp timestamp timestamp timestamp",
        "(({0}, {1}) overlaps ({2}, {3}))",
        peers=POSTGRES,
    )
    return made


def _lists() -> list[Call]:
    made = _calls("integer[]", "integer integer", "array[{0}, {1}]")
    made += _calls("integer[]", "integer", "array[{0}]")
    made += _calls("integer[]", "integer[] integer[]", "({0} || {1})", peers=POSTGRES)
    made += _calls("integer[]", "integer[] integer[]", "array_cat({0}, {1})", peers=POSTGRES)
    made += _calls("integer[]", "integer[] integer", "array_append({0}, {1})", peers=POSTGRES)
    made += _calls("integer[]", "integer integer[]", "array_prepend({0}, {1})", peers=POSTGRES)
    made += _calls("integer[]", "integer[]", "({0})[1:2]", "({0})[2:3]")
    made += _calls("integer[]", "integer[] integer integer", "({0})[{1}:{2}]", peers=POSTGRES)
    made += _calls("integer[]", "integer[] integer", "array_remove({0}, {1})", peers=POSTGRES)
    made += _calls("integer[]", "integer[] integer integer", "array_replace({0}, {1}, {2})", peers=POSTGRES)
    made += _calls(
        "integer[]",
        "integer[]",
        "list_sort({0})", "list_distinct({0})[1:0]", "list_reverse({0})", "list_sort(list_distinct({0}))",
        peers=DUCKDB,
    )  # fmt: skip
    made += _calls("integer", "integer[]", "list_min({0})", "list_max({0})", "len({0})", peers=DUCKDB)
    made += _calls("boolean", "integer[] integer", "list_contains({0}, {1})", peers=DUCKDB)
    made += _calls(
        "boolean", "integer[] integer[]", "list_has_any({0}, {1})", "list_has_all({0}, {1})", peers=DUCKDB
    )
    made += _calls("boolean", "integer integer[]", "({0} = any({1}))")
    made += _calls("boolean", "integer integer[]", "({0} < all({1}))", "({0} <> any({1}))")
    made += _calls("boolean", "integer[] integer[]", "({0} @> {1})", "({0} && {1})")
    return made


def _conditions() -> list[Call]:
    made = _calls(
        "boolean", "boolean boolean", "({0} and {1})", "({0} or {1})", "({0} and {1})", "({0} or {1})"
    )
    made += _calls("boolean", "boolean", "(not {0})")
    made += _calls(
        "boolean",
        "boolean",
        *(
            f"({{0}} is {word})"
            for word in ("true", "not true", "false", "not false", "unknown", "not unknown")
        ),
    )
    for pattern in PATTERNS:
        for word in ("like", "not like", "ilike"):
            made += _calls(
                "boolean", "varchar", f"({{0}} {word} '{pattern}')", dialects=_escaped(word, pattern)
            )
    made += _calls("boolean", "varchar", "({0} like '50!%' escape '!')")
    made += _calls("boolean", "varchar varchar", "({0} like {1})", "starts_with({0}, {1})")
    for expression in EXPRESSIONS:
        forms = {"duckdb": f"regexp_matches({{0}}, '{expression}')"}
        made += _calls("boolean", "varchar", f"({{0}} ~ '{expression}')", dialects=forms)
    made += _calls(
        "boolean", "varchar", "({0} ~* 'AB')", "({0} !~ 'b')", "({0} similar to '(a|b)%')", peers=POSTGRES
    )
    two = "integer varchar integer varchar"
    made += _calls("boolean", two, "(({0}, {1}) = ({2}, {3}))", "(({0}, {1}) in (({2}, {3})))")
    made += _calls("boolean", two, "(({0}, {1}) < ({2}, {3}))", peers=POSTGRES)
    made += _calls("boolean", two, "(({0}, {1}) is distinct from ({2}, {3}))")
    return made


def _escaped(word: str, pattern: str) -> dict[str, str]:
    """DuckDB has no escape character unless one is given."""
    return {"duckdb": f"({{0}} {word} '{pattern}' escape '\\')"} if "\\" in pattern else {}


def _all() -> dict[str, list[Call]]:
    made = [call for type_ in TYPES for call in _everywhere(type_)]
    made += [call for type_ in NUMBERS for call in _operators(type_)]
    made += [call for type_ in TYPES for call in _truth(type_)]
    made += [*_casts(), *_numeric(), *_textual(), *_temporal(), *_lists(), *_conditions()]
    by_type: dict[str, list[Call]] = {type_: [] for type_ in TYPES}
    for call in made:
        by_type[call.type].append(call)
    return by_type


CALLS = _all()

# Aggregates by result type: their arguments, and which systems have them. "column" is a stored
# DOUBLE, so that a sum does not depend on the order of its rows.
AGGREGATES = {
    "bigint": [
        ("count({0})", "any", BOTH),
        ("count(distinct {0})", "any", BOTH),
        ("sum({0})", "integer", BOTH),
        ("sum(distinct {0})", "integer", BOTH),
        ("max({0})", "bigint", BOTH),
        ("min({0})", "bigint", BOTH),
    ],
    "integer": [
        ("max({0})", "integer", BOTH),
        ("min({0})", "integer", BOTH),
        ("max(distinct {0})", "integer", BOTH),
        ("bit_and({0})", "integer", BOTH),
        ("bit_or({0})", "integer", BOTH),
        ("bit_xor({0})", "integer", BOTH),
        ("percentile_disc(0.5) within group (order by {0})", "integer", BOTH),
        ("percentile_disc(0.3) within group (order by {0} desc)", "integer", BOTH),
        ("mode() within group (order by {0})", "integer", POSTGRES),
    ],
    "double": [
        ("avg({0})", "integer", BOTH),
        ("avg(distinct {0})", "integer", BOTH),
        ("avg({0})", "bigint", BOTH),
        ("avg({0})", "column", BOTH),
        ("sum({0})", "column", BOTH),
        ("max({0})", "double", BOTH),
        ("min({0})", "double", BOTH),
        ("stddev({0})", "integer", BOTH),
        ("stddev_samp({0})", "integer", BOTH),
        ("stddev_pop({0})", "integer", BOTH),
        ("variance({0})", "integer", BOTH),
        ("var_pop({0})", "integer", BOTH),
        ("percentile_cont(0.25) within group (order by {0})", "column", BOTH),
        ("median({0})", "integer", DUCKDB),
    ],
    "decimal": [
        ("sum({0})", "decimal", BOTH),
        ("max({0})", "decimal", BOTH),
        ("min({0})", "decimal", BOTH),
    ],
    "boolean": [
        ("bool_and({0})", "boolean", BOTH),
        ("bool_or({0})", "boolean", BOTH),
        ("every({0})", "boolean", POSTGRES),
    ],
    "varchar": [
        ("max({0})", "varchar", BOTH),
        ("min({0})", "varchar", BOTH),
        ("string_agg({0}, ',' order by {0})", "varchar", BOTH),
        ("string_agg(distinct {0}, ',' order by {0})", "varchar", BOTH),
        ("string_agg({0}, '' order by {0} desc nulls last)", "varchar", BOTH),
    ],
    "date": [("max({0})", "date", BOTH), ("min({0})", "date", BOTH)],
    "timestamp": [("max({0})", "timestamp", BOTH), ("min({0})", "timestamp", BOTH)],
    "timestamptz": [("max({0})", "timestamptz", BOTH), ("min({0})", "timestamptz", BOTH)],
    "interval": [
        ("sum({0})", "interval", POSTGRES),
        ("max({0})", "interval", POSTGRES),
        ("avg({0})", "interval", POSTGRES),
    ],
    "integer[]": [
        ("array_agg({0} order by {0})", "integer", BOTH),
        ("array_agg(distinct {0} order by {0})", "integer", BOTH),
        ("array_agg({0} order by {0} desc nulls last)", "integer", BOTH),
    ],
}
# Aggregates of two arguments.
PAIRS = ["corr({0}, {1})", "covar_pop({0}, {1})", "covar_samp({0}, {1})", "regr_count({0}, {1})"]
PAIRS += ["regr_slope({0}, {1})", "regr_intercept({0}, {1})", "regr_r2({0}, {1})", "regr_avgx({0}, {1})"]
PAIRS += ["regr_sxx({0}, {1})", "regr_sxy({0}, {1})"]
