-- rule rewrites_as_written: a decimal is rounded to a decimal
SELECT round(d, 1) FROM t

-- rule rewrites_as_written: a part of a time
SELECT extract(week FROM ts), date_part('year', iv) FROM f

-- rule rewrites_as_written: OVERLAPS of a time and a length
SELECT (ts, INTERVAL '1 day') OVERLAPS (ts, INTERVAL '2 days') FROM f

-- rule rewrites_as_written: SIMILAR TO
SELECT c SIMILAR TO '(one|two)%' FROM t

-- rule rewrites_as_coerced: what is too large is an error, and not another number
SELECT a + b, -a FROM t

-- rule rewrites_as_coerced: a fraction is rounded by a cast
SELECT d::INTEGER, y::INTEGER FROM t, u

-- rule rewrites_as_coerced: intervals are compared by their length
SELECT iv > INTERVAL '30 days' FROM f

-- rule rewrites_as_coerced: an aggregate that no order changes
SELECT max(b ORDER BY c), count(b ORDER BY c) FROM t

-- rule rewrites_of_nodes: computed keys of windows are columns below
SELECT rank() OVER (PARTITION BY abs(a) > 1 ORDER BY b) FROM t

-- rule bound_functions: texts that may become long, and patterns that may take long, are functions
SELECT t.c || v.z, t.c ~ v.z FROM t, v

-- rule null_keys: NULLs that are equal are keys of their own
SELECT t.c, u.y FROM t JOIN u ON t.b IS NOT DISTINCT FROM u.a

-- rule composite_keys: a key of several tables is a condition
SELECT count(*) FROM t CROSS JOIN u JOIN v ON t.a + u.x = v.x

-- rule null_rejection: the rows that a left join adds do not pass the join above
SELECT count(*) FROM t LEFT JOIN u ON t.a = u.a JOIN v ON u.x = v.x

-- rule push_down_filter: a condition goes below the join, and what may be an error stays
SELECT t.a FROM t JOIN u ON t.a = u.a WHERE t.b > 10 AND 100 / u.x > 1

-- rule shifted_sums: sums of one column and several constants
SELECT sum(a + 1), sum(a + 2), sum(a + 3) FROM t

-- rule both_zeros: a list has both zeros
SELECT n IN (0.0, 1.5, 2.5, 3.5) FROM f

-- rule join_keys: a computed key beside columns of one name is a column
SELECT t.a, u.a AS other, v.z FROM t JOIN u ON t.b = u.x JOIN v ON t.a + 1 = v.x

-- rule repeated_keys: a key that turns out to come again
SELECT array_agg(a ORDER BY x, CASE WHEN false THEN a ELSE x END DESC, a DESC) FROM u

-- rule eager_aggregates: rows are counted by customer before the left join
SELECT t.a, count(v.x) FROM t LEFT JOIN v ON t.a = v.x GROUP BY t.a

-- rule union_aggregates: each input of a union is aggregated by itself
SELECT x, sum(n), count(*) FROM (SELECT x, x AS n FROM v UNION ALL SELECT x, a FROM u) AS s GROUP BY x

-- rule join_order: the smaller tables are joined first
SELECT count(*) FROM v JOIN v AS o ON v.x = o.x JOIN t ON t.a = o.x AND t.c = 'one'

-- a part that is written twice is computed once
SELECT (SELECT max(n) FROM (SELECT count(*) AS n FROM v GROUP BY z)), (SELECT min(n) FROM (SELECT count(*) AS n FROM v GROUP BY z))

-- a subquery of which DataFusion makes no join is unnested
SELECT a, (SELECT x FROM u WHERE u.x > t.b ORDER BY x LIMIT 1) FROM t

-- a scalar subquery may have no row, and is NULL then
SELECT coalesce((SELECT x FROM u WHERE x = 100), 0) IS NULL

-- rows that are written out have subqueries
SELECT * FROM (VALUES (1, (SELECT max(x) FROM u)), (2, 3)) AS s (a, b)

-- INTERSECT ALL and EXCEPT ALL count rows
SELECT a FROM u INTERSECT ALL SELECT x FROM v
