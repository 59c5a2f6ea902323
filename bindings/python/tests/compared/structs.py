"""Structs, and lists of structs and texts, which only DuckDB has, too."""

import random

from .nodes import EMPTY, Node, items, raw

VALUES = [
    "{0}.c", "{0}.g", "{0}.m", "{0}.c is null", "{0}.g[2]", "{0}.m[-1]", "{0}.m[2:]", "{0}.m || ['z']",
    "list_contains({0}.m, 'a')", "{{'k': {0}.id, 'v': {0}.m}}", "{0}.c = {1}.c", "{0}.m = {1}.m",
    "{0}.c < {1}.c", "{0}.m < {1}.m", "{0}.g = {1}.g", "[{0}.c, {1}.c]", "[{0}.m, {1}.m]",
    "coalesce({0}.c, {1}.c)", "case when {0}.id > 2 then {0}.c else {1}.c end", "list_sort({0}.m)",
    "list_distinct({0}.m) is null", "{0}.c in ({1}.c)", "{0}.m is distinct from {1}.m",
    "{0}.c is distinct from {1}.c", "array_to_string({0}.m, '-')", "list_position({0}.m, 'b')",
    "{0}.m @> {1}.m", "{0}.m && {1}.m", "struct_extract({0}.c, 'b')", "greatest({0}.m, {1}.m)",
    "[{0}.c.a, {1}.c.a]", "list_concat({0}.m, {1}.m)", "{0}.g[1].a", "len({0}.m)",
]  # fmt: skip
CONDITIONS = [
    "{0}.c.a = {1}.c.a", "{0}.m = {1}.m", "{0}.c is not null", "{0}.c = {1}.c", "not ({0}.m = {1}.m)",
]  # fmt: skip
PARTS = ["{0}.c.a", "({0}.c).b", "{0}.c['a']", "{0}.g[1].a", "{0}.m[1]", "len({0}.m)", "len({0}.g)"]
SHIFTED = [
    "lag({0}.c)",
    "first_value({0}.m)",
    "last_value({0}.g)",
    "count({0}.c)",
    "max({0}.m)",
    "lead({0}.g, 2)",
]
# Whole queries; `{key}` is a column of two relations in turn, and the rest has its own choices.
QUERIES = [
    "select {0}.id, {1}.id from r {0} {join} r {1} on {key} = {other}",
    "select {key}, count(*), min({0}.id) from r {0} group by {key}{having}",
    "select row_number() over (order by {key}{order}, {0}.id), {0}.id from r {0}",
    "select {aggregate}{filter} from r {0}",
    "select {0}.id, v from r {0}, unnest({0}.m) as x(v)",
    "select {0}.id, v from r {0} left join unnest({0}.m) as x(v) on true",
    "select {0}.id, v.a, v from r {0}, unnest({0}.g) as x(v)",
    "select {0}.id, unnest({0}.m) from r {0}",
    "select {0}.id, unnest({0}.g) as v from r {0}",
    "select distinct {key} from r {0}",
    "select {key} from r {0} where {0}.id > 2 {set} select {key} from r {0} where {0}.id < 5",
    "select {0}.id from r {0} where {key} {word} (select {other} from r {1} where {1}.id < 4)",
    "select {0}.id, {call} over (partition by {0}.id % 2 order by {0}.id) from r {0}",
]


def query(rng: random.Random) -> Node:
    """Return a query of the table `r`."""
    one, two = "a1", "a2"
    if rng.random() < 0.3:
        chosen = [raw("any", rng.choice(VALUES).format(one, two)) for _ in range(rng.randint(1, 3))]
        where = EMPTY
        if rng.random() < 0.4:
            where = raw("where", " where " + rng.choice(CONDITIONS).format(one, two), droppable=True)
        source = raw("relation", "r a1 join r a2 on a1.id + 1 >= a2.id")
        return Node("query", "select {0} from {1}{2}", (items("outputs", chosen), source, where))
    key = rng.choice(["{0}.c", "{0}.m", "{0}.g", rng.choice(PARTS)])
    aggregate = rng.choice(
        [
            "min({key})",
            "max({key})",
            "count({key})",
            "count(distinct {key})",
            "array_agg({key} order by {0}.id)",
        ]
    )
    text = rng.choice(QUERIES).format(
        one,
        two,
        key=key.format(one),
        other=key.format(two),
        join=rng.choice(["join", "left join", "full join"]),
        having=rng.choice(["", " having count(*) > 1"]),
        order=rng.choice(["", " desc", " nulls first", " desc nulls last"]),
        aggregate=aggregate.format(one, key=key.format(one)),
        filter=rng.choice(["", " filter (where a1.id > 1)"]),
        set=rng.choice(["union", "intersect", "except", "union all", "except all", "intersect all"]),
        word=rng.choice(["in", "not in"]),
        call=rng.choice(SHIFTED).format(one),
    )
    return raw("query", text)
