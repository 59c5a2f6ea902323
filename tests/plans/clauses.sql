-- SELECT without FROM
SELECT 1 + 2 AS three, 'x' AS text

-- FROM a table, with all columns
SELECT * FROM t

-- FROM alone
FROM u

-- FROM with an alias for a table and its columns
SELECT k, n FROM t AS s (k, n)

-- FROM a view
SELECT next FROM w WHERE a = 1

-- FROM a subquery
SELECT s.b FROM (SELECT b FROM t WHERE a > 1) AS s

-- FROM rows that are written out
SELECT number, name FROM (VALUES (1, 'one'), (2, NULL)) AS s (number, name)

-- FROM a series
SELECT i FROM generate_series(1, 10) AS s (i)

-- FROM a list
SELECT k, item FROM l, unnest(items) AS s (item)

-- FROM several tables
SELECT t.c, u.y FROM t, u WHERE t.a = u.a

-- CROSS JOIN
SELECT t.a, v.z FROM t CROSS JOIN v

-- JOIN ON
SELECT t.c, u.y FROM t JOIN u ON t.a = u.a AND t.b > u.x

-- LEFT JOIN
SELECT t.c, u.y FROM t LEFT JOIN u ON t.a = u.a

-- FULL JOIN
SELECT t.a, u.a FROM t FULL JOIN u ON t.a = u.a

-- JOIN USING, whose column is that of neither table
SELECT a, t.b, u.y FROM t JOIN u USING (a)

-- FULL JOIN USING, whose column is that of either table
SELECT a, b FROM t FULL JOIN u USING (a)

-- NATURAL JOIN
SELECT * FROM u NATURAL JOIN v

-- SEMI and ANTI joins
SELECT t.a FROM t SEMI JOIN u ON t.a = u.a ANTI JOIN v ON t.b = v.x

-- LATERAL
SELECT t.a, s.largest FROM t, LATERAL (SELECT max(u.x) AS largest FROM u WHERE u.a = t.a) AS s

-- TABLESAMPLE with a seed
SELECT z FROM v TABLESAMPLE BERNOULLI (10) REPEATABLE (42)

-- a wildcard of one table
SELECT u.*, t.c FROM t JOIN u ON t.a = u.a

-- a wildcard without a column, and with another one
SELECT * EXCLUDE (c, d) REPLACE (b * 2 AS b) FROM t

-- an alias that is used beside its definition
SELECT b + 1 AS more, more * 2 AS twice FROM t

-- WHERE with three values of truth
SELECT a FROM t WHERE NOT (b > 10 OR c = 'one') AND d IS NOT NULL

-- a row of values
SELECT a FROM t WHERE (a, b) = (1, 10)

-- a list of values
SELECT a FROM t WHERE c IN ('one', 'two', NULL)

-- CASE, casts and patterns
SELECT CASE WHEN c LIKE 'o%' THEN a::DECIMAL(5, 1) ELSE 0 END FROM t

-- a field and an element
SELECT s.g, (l.s).f, items[1] FROM l

-- GROUP BY a key
SELECT b, count(*), sum(d), min(c) FROM t GROUP BY b

-- GROUP BY a place and an alias
SELECT upper(c) AS name, a % 2, count(*) FROM t GROUP BY name, 2

-- GROUP BY a primary key, which decides the other columns
SELECT t.a, t.c, count(u.x) FROM t JOIN u ON t.a = u.a GROUP BY t.a

-- GROUP BY ALL
SELECT b, c, max(a) FROM t GROUP BY ALL

-- GROUPING SETS
SELECT b, c, count(*), grouping(b) FROM t GROUP BY GROUPING SETS ((b, c), (b), ())

-- ROLLUP and CUBE
SELECT b, c, e, count(*) FROM t GROUP BY ROLLUP (b), CUBE (c, e)

-- aggregates with FILTER, DISTINCT and an order
SELECT count(*) FILTER (WHERE b > 10), count(DISTINCT c), string_agg(c, ',' ORDER BY a DESC) FROM t

-- HAVING
SELECT b FROM t GROUP BY b HAVING sum(d) > 1 AND count(*) < 5

-- HAVING without groups
SELECT 1 FROM t HAVING count(*) > 1

-- a window
SELECT a, sum(b) OVER (PARTITION BY c ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t

-- a window with a name, and one over groups
SELECT b, rank() OVER s, sum(count(*)) OVER s FROM t GROUP BY b WINDOW s AS (ORDER BY b)

-- QUALIFY
SELECT a, c FROM t QUALIFY row_number() OVER (PARTITION BY c ORDER BY a) = 1

-- DISTINCT
SELECT DISTINCT b, c FROM t

-- DISTINCT ON
SELECT DISTINCT ON (x) x, y FROM u ORDER BY x, y DESC

-- ORDER BY a column, a place and what is not shown
SELECT c, b FROM t ORDER BY 2 DESC NULLS LAST, c, a

-- ORDER BY ALL
SELECT c, b FROM t ORDER BY ALL

-- LIMIT and OFFSET
SELECT a FROM t ORDER BY a LIMIT 2 OFFSET 1

-- LIMIT of a share of the rows
SELECT z FROM v ORDER BY z LIMIT 10%

-- UNION, INTERSECT and EXCEPT
SELECT a FROM t UNION SELECT x FROM u INTERSECT SELECT x FROM v EXCEPT ALL SELECT 1

-- UNION ALL BY NAME
SELECT a, b FROM t UNION ALL BY NAME SELECT x AS b, a FROM u

-- WITH, read twice
WITH s AS (SELECT x, count(*) AS n FROM v GROUP BY x) SELECT * FROM s JOIN s AS o ON s.n = o.n + 1

-- WITH RECURSIVE
WITH RECURSIVE below (node) AS (SELECT 1 UNION ALL SELECT r.child FROM r JOIN below ON r.parent = below.node) SELECT node FROM below

-- a scalar subquery in SELECT
SELECT a, (SELECT max(y) FROM u) FROM t

-- a correlated scalar subquery
SELECT a, (SELECT sum(u.x) FROM u WHERE u.a = t.a) FROM t

-- a correlated subquery with an inequality
SELECT a, (SELECT count(*) FROM u WHERE u.x > t.b) FROM t

-- EXISTS and NOT EXISTS
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND NOT EXISTS (SELECT 1 FROM v WHERE v.x = t.b)

-- IN and NOT IN of a subquery
SELECT a FROM t WHERE a IN (SELECT a FROM u) OR b NOT IN (SELECT x FROM v)

-- a comparison with ALL of a subquery
SELECT a FROM t WHERE b > ALL (SELECT x FROM u WHERE u.a = t.a)

-- a subquery in HAVING, about an aggregate of the query around
SELECT b FROM t GROUP BY b HAVING EXISTS (SELECT 1 FROM u WHERE u.x = max(t.a))

-- a subquery in ORDER BY
SELECT a FROM t ORDER BY (SELECT max(u.y) FROM u WHERE u.a = t.a)

-- a list of a subquery
SELECT ARRAY(SELECT x FROM u ORDER BY x)

-- INSERT of rows into some columns
INSERT INTO t (a, c) VALUES (4, 'four')

-- INSERT of a query
INSERT INTO u SELECT a, b, d FROM t WHERE b IS NOT NULL

-- INSERT with a conflict
INSERT INTO t (a, b) VALUES (1, 11) ON CONFLICT (a) DO UPDATE SET b = excluded.b + t.b

-- UPDATE
UPDATE t SET b = b + 1, c = upper(c) WHERE a > 1

-- UPDATE FROM another table
UPDATE t SET b = u.x FROM u WHERE t.a = u.a

-- DELETE
DELETE FROM u WHERE x = 5 OR y IS NULL

-- DELETE USING another table
DELETE FROM u USING t WHERE u.a = t.a AND t.b < 15

-- MERGE
MERGE INTO t USING u ON t.a = u.a WHEN MATCHED AND u.x > 5 THEN UPDATE SET b = u.x WHEN NOT MATCHED THEN INSERT (a, b) VALUES (u.x, 0)
