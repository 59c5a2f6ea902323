-- Statements of clients that are not run here themselves: dbplyr with RPostgres, sqlx, ActiveRecord, Prisma, Superset, Tableau.

-- dbplyr: the table that compute() makes
CREATE TEMPORARY TABLE meta_computed AS SELECT customer, SUM(price) AS total FROM meta_order GROUP BY customer;
ANALYZE meta_computed;

-- dbplyr: the columns of a query; same
SELECT * FROM (SELECT * FROM meta_customer) AS "q01" WHERE (0 = 1);

-- RPostgres: types; same
SELECT oid, typname FROM pg_type WHERE typname IN ('bool', 'int4', 'int8', 'text', 'timestamptz', 'numeric') ORDER BY oid;

-- RPostgres: tables in the search path; same
SELECT table_schema, table_name FROM INFORMATION_SCHEMA.tables
WHERE table_type = 'BASE TABLE' AND table_schema = ANY(current_schemas(true)) AND table_schema <> 'pg_catalog' AND table_name LIKE 'meta_o%';

-- sqlx: a type by its number; same
SELECT typname, typtype, typcategory, typrelid, typelem, typbasetype FROM pg_catalog.pg_type WHERE oid = 23;
-- sqlx: migrations
SELECT pg_advisory_lock(1);
SELECT pg_advisory_unlock(1);
SELECT current_database();

-- sqlx: which columns may be NULL; same
SELECT attname, NOT pg_attribute.attnotnull AS nullable FROM pg_attribute
WHERE attrelid = 'meta_customer'::regclass AND attnum > 0 ORDER BY attnum;

-- ActiveRecord: columns; same
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atttypid, a.atttypmod,
       col_description(a.attrelid, a.attnum) AS comment, attidentity AS identity, attgenerated AS generated
FROM pg_attribute a
LEFT JOIN pg_attrdef d ON a.attrelid = d.adrelid AND a.attnum = d.adnum
LEFT JOIN pg_type t ON a.atttypid = t.oid
WHERE a.attrelid = '"meta_customer"'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;

-- ActiveRecord: types
SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype
FROM pg_type AS t LEFT JOIN pg_range AS r ON oid = rngtypid
WHERE t.typname IN ('int2', 'int4', 'int8', 'oid', 'float4', 'float8', 'text', 'varchar', 'bool', 'timestamptz', 'json')
   OR t.typtype IN ('r', 'e', 'd') OR t.typinput = 'array_in(cstring,oid,integer)'::regprocedure OR t.typelem != 0
ORDER BY 1;

-- ActiveRecord: keys; same
SELECT a.attname FROM (SELECT indrelid, indkey, generate_subscripts(indkey, 1) idx FROM pg_index WHERE indrelid = '"meta_order"'::regclass AND indisprimary) i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[i.idx] ORDER BY i.idx;

-- Prisma: tables; same
SELECT tbl.relname AS table_name, namespace.nspname AS namespace, (tbl.relhassubclass AND tbl.relkind = 'p') AS is_partition,
       tbl.relrowsecurity AS has_row_level_security, reloptions, obj_description(tbl.oid, 'pg_class') AS description
FROM pg_class AS tbl INNER JOIN pg_namespace AS namespace ON namespace.oid = tbl.relnamespace
WHERE ((tbl.relkind = 'r' AND tbl.relispartition = 'f') OR tbl.relkind = 'p') AND namespace.nspname = ANY (ARRAY['main'])
  AND tbl.relname LIKE 'meta%'
ORDER BY namespace, table_name;

-- Prisma: columns; same
SELECT info.table_name, info.column_name, info.data_type, info.udt_schema AS type_schema_name, info.udt_name AS full_data_type,
       info.is_nullable, info.is_identity, info.character_maximum_length, info.numeric_precision, info.numeric_scale
FROM information_schema.columns info
JOIN pg_attribute att ON att.attname = info.column_name
JOIN (SELECT pg_class.oid, relname, pg_namespace.nspname AS namespace FROM pg_class
      JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace) AS oid
  ON oid.oid = att.attrelid AND relname = info.table_name AND namespace = info.table_schema
WHERE info.table_schema = 'main' AND info.table_name LIKE 'meta_%r'
ORDER BY table_name, ordinal_position;

-- Superset: what a table is
SELECT pg_table_is_visible(c.oid) FROM pg_class c WHERE c.relname = 'meta_order';

-- Tableau: what can be scrolled
BEGIN;
DECLARE "SQL_CUR1" CURSOR FOR SELECT id, name FROM meta_customer ORDER BY id;
FETCH 1 IN "SQL_CUR1";
CLOSE "SQL_CUR1";
COMMIT;

-- privileges; same
SELECT grantee, privilege_type FROM information_schema.role_table_grants
WHERE table_name = 'meta_order' AND table_schema = 'main' ORDER BY privilege_type;

-- constraints with their columns; same
SELECT tc.constraint_name, tc.constraint_type, kcu.column_name, ccu.table_name AS foreign_table, ccu.column_name AS foreign_column,
       rc.update_rule, rc.delete_rule
FROM information_schema.table_constraints tc
JOIN information_schema.key_column_usage kcu ON tc.constraint_name = kcu.constraint_name AND tc.table_schema = kcu.table_schema
JOIN information_schema.constraint_column_usage ccu ON ccu.constraint_name = tc.constraint_name
LEFT JOIN information_schema.referential_constraints rc ON rc.constraint_name = tc.constraint_name
WHERE tc.table_name = 'meta_order' ORDER BY 1, 3;

-- checks; same
SELECT cc.constraint_schema, count(*) AS checks FROM information_schema.check_constraints cc
JOIN information_schema.table_constraints tc USING (constraint_schema, constraint_name)
WHERE tc.table_name LIKE 'meta%' GROUP BY 1;

-- sequences, ours also of identity columns
SELECT sequence_name, data_type, start_value, increment, cycle_option FROM information_schema.sequences WHERE sequence_name LIKE 'meta%';

-- what arrays are made of; same
SELECT object_name, data_type FROM information_schema.element_types WHERE object_name = 'meta_order';
