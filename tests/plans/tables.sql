-- a table with a key
CREATE TABLE t (a INTEGER NOT NULL PRIMARY KEY, b INTEGER, c VARCHAR, d DECIMAL(10, 2), e DATE)

-- and rows, of which statistics are
INSERT INTO t VALUES (1, 10, 'one', 1.50, '2024-01-01'), (2, 20, 'two', 2.50, '2024-02-01'), (3, NULL, NULL, NULL, NULL)

-- a table without a key
CREATE TABLE u (a INTEGER, x INTEGER NOT NULL, y DOUBLE)

INSERT INTO u VALUES (1, 5, 0.5), (1, 6, NULL), (NULL, 7, 1.5)

-- one that is larger
CREATE TABLE v (x INTEGER, z VARCHAR)

INSERT INTO v SELECT i % 10, 'z' || i FROM range(1000) AS r (i)

-- values within values
CREATE TABLE l (k INTEGER, items INTEGER[], s STRUCT(f INTEGER, g VARCHAR))

INSERT INTO l VALUES (1, [1, 2], {'f': 1, 'g': 'x'}), (2, NULL, NULL)

-- numbers with fractions, and times
CREATE TABLE f (n DOUBLE, m REAL, ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL)

INSERT INTO f VALUES (1.5, 2.5, '2024-01-01 10:00:00', '2024-01-01 10:00:00+00', INTERVAL '1 day')

-- a tree
CREATE TABLE r (parent INTEGER, child INTEGER)

INSERT INTO r VALUES (1, 2), (2, 3)

-- a view
CREATE VIEW w AS SELECT a, b + 1 AS next FROM t
