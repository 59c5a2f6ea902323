-- Much from a short text: each line is a statement, in which `{}` is a number.
SELECT repeat('x', {})
SELECT length(repeat('x', {}))
SELECT repeat(repeat('x', 1000), {})
SELECT repeat(t, {}) FROM many
SELECT lpad('x', {}), rpad('x', {})
SELECT lpad(t, {}) FROM many
SELECT concat(repeat('x', {}), repeat('y', {}), repeat('z', {}))
SELECT repeat('x', {}) || repeat('y', {})
SELECT concat_ws(repeat(',', {}), 'a', 'b', 'c', 'd')
SELECT encode(repeat('a', {})::BLOB, 'hex')
SELECT encode(encode(encode(repeat('a', {})::BLOB, 'hex')::BLOB, 'hex')::BLOB, 'base64')
SELECT replace(repeat('a', {}), 'a', repeat('b', 1000))
SELECT regexp_replace(repeat('a', {}), 'a', 'bbbbbbbbbb', 'g')
SELECT regexp_match(repeat('a', {}), '(a*)*b')
SELECT regexp_like('a', 'a{{{}}}')
SELECT regexp_like('a', '((a{{100}}){{100}}){{{}}}')
SELECT translate(repeat('a', {}), 'a', 'é')
SELECT levenshtein(repeat('a', {}), repeat('b', {}))
SELECT split_part(repeat('a,', {}), ',', -1)
SELECT string_to_array(repeat('a,', {}), ',')
SELECT reverse(repeat('é', {})), upper(repeat('ß', {}))
SELECT md5(repeat('x', {})), sha512(repeat('x', {})::BLOB)
SELECT repeat('[', {})::JSON
SELECT chr({}), to_hex({}), factorial({})
SELECT power(10, {}), 2::DECIMAL(38, 0) ^ {}
SELECT {} * INTERVAL '1 day', DATE '2024-01-01' + {}
SELECT overlay(repeat('a', {}) PLACING repeat('b', {}) FROM 1)
SELECT range(0, {})
SELECT len(range(0, {}))
SELECT generate_series(0, {})
SELECT unnest(range(0, {}))
SELECT unnest(range(0, {})) + unnest(range(0, {}))
SELECT count(*) FROM (SELECT unnest(range(0, {})))
SELECT unnest(range(0, {})), unnest(range(0, {}))
SELECT unnest(x) FROM (SELECT range(0, {}) AS x, unnest(range(0, {})))
SELECT array_repeat(1, {})
SELECT array_repeat(array_repeat(1, {}), {})
SELECT array_resize([1], {}, 0)
SELECT array_to_string(range(0, {}), ',')
SELECT array_concat(range(0, {}), range(0, {}))
SELECT array_sort(range(0, {})), array_reverse(range(0, {}))
SELECT array_distinct(range(0, {})), array_union(range(0, {}), range(0, {}))
SELECT flatten([range(0, {}), range(0, {})])
SELECT range(0, {})::VARCHAR
SELECT string_agg(t, repeat(',', {})) FROM many
SELECT array_agg(l.i) FROM many AS l, range({}) AS r
SELECT array_agg(t) OVER () FROM many, range({})
SELECT string_agg(t, ',') OVER (ORDER BY i) FROM many, range({})
SELECT count(*) FROM range({})
SELECT * FROM range({})
SELECT count(*) FROM range({}) AS a, range({}) AS b
SELECT * FROM range({}) AS a, range({}) AS b
SELECT * FROM range({}) AS a(x) ORDER BY -x
SELECT DISTINCT x % 1000000007 FROM range({}) AS a(x)
SELECT x, count(*) FROM range({}) AS a(x) GROUP BY x
SELECT x, array_agg(x), string_agg(x::VARCHAR, ',') FROM range({}) AS a(x) GROUP BY x
SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM range({}) AS a(x)
SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN {} PRECEDING AND {} FOLLOWING) FROM range({}) AS a(x)
SELECT min(x) OVER (PARTITION BY x % 3 ORDER BY x RANGE BETWEEN {} PRECEDING AND CURRENT ROW) FROM range({}) AS a(x)
SELECT lag(x, {}) OVER (ORDER BY x), ntile({}) OVER (ORDER BY x), nth_value(x, {}) OVER () FROM range({}) AS a(x)
SELECT median(x), approx_distinct(x), percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM range({}) AS a(x)
SELECT count(*) FROM range({}) AS a(x) JOIN range({}) AS b(y) ON x % 10 = y % 10
SELECT count(*) FROM range({}) AS a(x) LEFT JOIN range({}) AS b(y) ON x < y
SELECT a.x FROM range({}) AS a(x) JOIN range({}) AS b(x) USING (x) ORDER BY 1
SELECT x FROM range({}) AS a(x) UNION SELECT x + 1 FROM range({}) AS a(x)
SELECT x FROM range({}) AS a(x) EXCEPT SELECT x + 1 FROM range({}) AS a(x)
SELECT count(*) FROM many AS a, many AS b, many AS c LIMIT {}
SELECT * FROM many LIMIT {} OFFSET {}
WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < {}) SELECT count(*) FROM r
WITH RECURSIVE r AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM r WHERE length(x) < {}) SELECT max(x) FROM r
WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT a.x + 1 FROM r AS a, few WHERE a.x < {}) SELECT count(*) FROM r
WITH RECURSIVE r AS (SELECT [1] AS x UNION ALL SELECT array_concat(x, x) FROM r WHERE len(x) < {}) SELECT count(*) FROM r
SELECT count(*) FROM information_schema.columns AS a, information_schema.columns AS b, range({})
SELECT count(*) FROM pg_catalog.pg_proc AS a, pg_catalog.pg_proc AS b, pg_catalog.pg_proc AS c, range({})
SELECT json_extract(repeat('[', {}) || repeat(']', {}), '$[0]')
SELECT date_bin(INTERVAL '1 microsecond', TIMESTAMP '2024-01-01'), range({})
SELECT generate_series(TIMESTAMP '1900-01-01', TIMESTAMP '2100-01-01', {} * INTERVAL '1 microsecond')
SELECT random() FROM range({}) ORDER BY 1
SELECT x, repeat('x', 1000) FROM range({}) AS a(x) ORDER BY 2, 1
SELECT count(*) FROM few GROUP BY CUBE (i, t, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7), range({})
SELECT make_array(repeat('x', {}), repeat('y', {}), repeat('z', {}))
SELECT MAP(range(0, {}), range(0, {}))
SELECT struct(repeat('x', {}), range(0, {}))
SELECT CASE WHEN i > 0 THEN repeat('x', {}) END FROM many
SELECT max(repeat(t, {})) FROM many
SELECT array_agg(repeat(t, {})) FROM many
SELECT repeat(t, {}) FROM many GROUP BY 1
SELECT repeat(t, {}) FROM many ORDER BY 1
SELECT count(*) FROM (SELECT repeat(t, {}) AS x FROM many) AS a JOIN many AS b ON a.x = b.t
EXPLAIN ANALYZE SELECT count(*) FROM range({})
SELECT DISTINCT i FROM few ORDER BY 1 LIMIT {}
SELECT DISTINCT t FROM few ORDER BY 1 LIMIT {}
SELECT i, max(b) FROM many GROUP BY i ORDER BY 2 DESC LIMIT {}
SELECT i, t FROM many ORDER BY t LIMIT {}
SELECT i, t FROM many ORDER BY t LIMIT 10 OFFSET {}
SELECT i, row_number() OVER (PARTITION BY t ORDER BY i) AS n FROM many QUALIFY n <= {}
SELECT first_value(i ORDER BY b), last_value(i ORDER BY b), nth_value(i, {} ORDER BY b) FROM many
SELECT approx_percentile_cont(f, 0.5, {}) FROM many
SELECT substr(t, {}, {}), left(t, {}), right(t, {}) FROM many
SELECT round(d, {}), trunc(f, {}), to_hex({}), bit_length(repeat('x', {})) FROM few
SELECT array_slice(range(0, 10), {}, {}), array_position(range(0, {}), {}), array_remove_n([1], 1, {}) FROM few
SELECT list_resize(l, {}), array_replace_n(l, 1, 2, {}) FROM many
SELECT regexp_like(t, 'a{{0,{}}}'), regexp_count(repeat('a', {}), 'a') FROM few
SELECT random() FROM generate_series(1, {}, 1) LIMIT {}
