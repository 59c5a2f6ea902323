-- What COPY in the format hypostyle takes and refuses; what it sends is tested in tests/.
COPY (SELECT 1) TO STDOUT (FORMAT hypostyle);
CREATE EXTENSION hypostyle;
SELECT hypostyle_protocol();
CREATE TABLE t (a int, n numeric(5,2));
INSERT INTO t VALUES (1, 1.5), (2, 'NaN');
\o /dev/null
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle);
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, protocol 1, codec 'none', codecs 7, chunk_bytes 65536);
COPY (INSERT INTO t VALUES (3) RETURNING a) TO STDOUT (FORMAT hypostyle);
\o
SELECT count(*) FROM t;
-- Errors before the first byte.
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, protocol 2);
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, header true);
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, codecs 1, codecs 2);
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, codec 'gzip');
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, chunk_bytes -1);
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, frame_bytes 5);
COPY (SELECT a FROM t) TO STDOUT (FORMAT hypostyle, numeric 'decimal(5,6)');
COPY (SELECT a INTO u FROM t) TO STDOUT (FORMAT hypostyle);
COPY (DELETE FROM t) TO STDOUT (FORMAT hypostyle);
-- Other statements are PostgreSQL's.
COPY t TO STDOUT (FORMAT hypostyle);
COPY (SELECT a FROM t) TO '/never' (FORMAT hypostyle);
COPY (SELECT a FROM t WHERE a = 1) TO STDOUT;
DO $$BEGIN COPY (SELECT 1) TO STDOUT (FORMAT hypostyle); END$$;
-- Errors on the way.
\o /dev/null
COPY (SELECT a, n FROM t ORDER BY a) TO STDOUT (FORMAT hypostyle);
COPY (SELECT 'infinity'::date AS day) TO STDOUT (FORMAT hypostyle);
\o
DROP TABLE t;
DROP EXTENSION hypostyle;
