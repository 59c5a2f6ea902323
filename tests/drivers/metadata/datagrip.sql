-- DataGrip and IntelliJ: their introspection of a PostgreSQL database.

-- the session
SELECT current_database() AS current_database, current_schema() AS current_schema;

-- what has changed
SELECT pg_catalog.age(xmin) >= 0 AS is_old FROM pg_catalog.pg_namespace LIMIT 1;

-- databases
SELECT N.oid::bigint AS id, datname AS name, D.description, datistemplate AS is_template, datallowconn AS allow_connections,
       pg_catalog.pg_get_userbyid(N.datdba) AS "owner"
FROM pg_catalog.pg_database N
LEFT JOIN pg_catalog.pg_shdescription D ON N.oid = D.objoid
ORDER BY CASE WHEN datname = pg_catalog.current_database() THEN -1::bigint ELSE N.oid::bigint END;

-- schemas
SELECT N.oid::bigint AS id, N.xmin AS state_number, nspname AS name, D.description, pg_catalog.pg_get_userbyid(N.nspowner) AS "owner"
FROM pg_catalog.pg_namespace N
LEFT JOIN pg_catalog.pg_description D ON N.oid = D.objoid
ORDER BY CASE WHEN nspname = pg_catalog.current_schema() THEN -1::bigint ELSE N.oid::bigint END;

-- roles
SELECT R.oid::bigint AS role_id, rolname AS role_name, rolsuper AS is_super, rolinherit AS is_inherit,
       rolcreaterole AS can_createrole, rolcreatedb AS can_createdb, rolcanlogin AS can_login,
       rolconnlimit AS conn_limit, rolvaliduntil AS valid_until, rolbypassrls AS bypass_rls, rolconfig AS config, D.description
FROM pg_catalog.pg_roles R LEFT JOIN pg_catalog.pg_shdescription D ON D.objoid = R.oid;

-- tablespaces
SELECT T.oid::bigint AS id, T.spcname AS name, T.xmin AS state_number, pg_catalog.pg_get_userbyid(T.spcowner) AS owner,
       pg_catalog.pg_tablespace_location(T.oid) AS location, T.spcoptions AS options, D.description AS comment
FROM pg_catalog.pg_tablespace T LEFT JOIN pg_catalog.pg_shdescription D ON D.objoid = T.oid;

-- types
SELECT T.oid AS type_id, T.xmin AS type_state_number, typname AS type_name, typtype AS type_sub_kind, typcategory AS type_category,
       typrelid AS class_id, typbasetype AS base_type_id,
       CASE WHEN typtype IN ('c', 'e') THEN NULL ELSE pg_catalog.format_type(T.oid, typtypmod) END AS type_def,
       typndims AS dimensions_number, typdefault AS default_expression, typnotnull AS mandatory,
       pg_catalog.pg_get_userbyid(T.typowner) AS "owner"
FROM pg_catalog.pg_type T
LEFT OUTER JOIN pg_catalog.pg_class C ON T.typrelid = C.oid
WHERE (T.typtype IN ('d', 'e') OR C.relkind = 'c'::"char" OR (T.typtype = 'b' AND (T.typelem = 0 OR typcategory <> 'A')))
ORDER BY 1;

-- tables
SELECT T.relkind AS table_kind, T.relname AS table_name, T.oid AS table_id, T.xmin AS table_state_number,
       false AS table_with_oids, T.reltablespace AS tablespace_id, T.reloptions AS options, T.relpersistence AS persistence,
       (SELECT pg_catalog.array_agg(inhparent::bigint ORDER BY inhseqno)::varchar FROM pg_catalog.pg_inherits WHERE T.oid = inhrelid) AS ancestors,
       T.relispartition AS is_partition, pg_catalog.pg_get_partkeydef(T.oid) AS partition_key,
       pg_catalog.pg_get_expr(T.relpartbound, T.oid) AS partition_expression, T.relam AS am_id, pg_catalog.pg_get_userbyid(T.relowner) AS "owner"
FROM pg_catalog.pg_class T
WHERE T.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'main') AND T.relkind IN ('r', 'm', 'v', 'f', 'p')
ORDER BY table_kind, table_id;

-- columns
WITH T AS (SELECT DISTINCT T.oid AS table_id, T.relname AS table_name FROM pg_catalog.pg_class T
           WHERE T.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'main') AND T.relkind IN ('r', 'm', 'v', 'f', 'p'))
SELECT T.table_id, C.attnum AS column_position, C.attname AS column_name, C.xmin AS column_state_number, C.atttypmod AS type_mod,
       C.attndims AS dimensions_number, pg_catalog.format_type(C.atttypid, C.atttypmod) AS type_spec, C.atttypid AS type_id,
       C.attnotnull AS mandatory, pg_catalog.pg_get_expr(D.adbin, T.table_id) AS column_default_expression,
       NOT C.attislocal AS column_is_inherited, C.attfdwoptions AS options, C.attisdropped AS column_is_dropped,
       C.attidentity AS identity_kind, C.attgenerated AS generated
FROM T INNER JOIN pg_catalog.pg_attribute C ON T.table_id = C.attrelid
LEFT OUTER JOIN pg_catalog.pg_attrdef D ON (C.attrelid, C.attnum) = (D.adrelid, D.adnum)
WHERE attnum > 0 ORDER BY table_id, attnum;

-- indexes
SELECT tab.oid AS table_id, tab.relkind AS table_kind, ind_stor.relname AS index_name, ind_head.indexrelid AS index_id,
       ind_stor.xmin AS state_number, ind_head.indisunique AS is_unique, ind_head.indisprimary AS is_primary,
       pg_catalog.pg_get_expr(ind_head.indpred, ind_head.indrelid) AS condition, ind_stor.reltablespace AS tablespace_id, opcmethod AS access_method_id
FROM pg_catalog.pg_class tab
JOIN pg_catalog.pg_index ind_head ON ind_head.indrelid = tab.oid
JOIN pg_catalog.pg_class ind_stor ON tab.relnamespace = ind_stor.relnamespace AND ind_stor.oid = ind_head.indexrelid
LEFT JOIN pg_catalog.pg_opclass ON pg_opclass.oid = ANY(indclass)
WHERE tab.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'main') AND tab.relkind IN ('r', 'm', 'v', 'p') AND ind_stor.relkind IN ('i', 'I')
ORDER BY index_name;

-- constraints
SELECT T.oid AS table_id, relkind AS table_kind, C.oid::bigint AS con_id, C.xmin AS con_state_id, conname AS con_name, contype AS con_kind,
       conkey AS con_columns, conindid AS index_id, confrelid AS ref_table_id, condeferrable AS is_deferrable, condeferred AS is_init_deferred,
       confupdtype AS on_update, confdeltype AS on_delete, connoinherit AS no_inherit, pg_catalog.pg_get_expr(conbin, T.oid) AS con_expression,
       confkey AS ref_columns, conexclop::int[] AS excl_operators
FROM pg_catalog.pg_constraint C JOIN pg_catalog.pg_class T ON C.conrelid = T.oid
WHERE relkind IN ('r', 'v', 'f', 'p') AND T.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'main')
  AND contype IN ('p', 'u', 'f', 'c', 'x') AND connamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'main')
ORDER BY con_id;

-- sources of views
SELECT T.relkind AS view_kind, T.oid AS view_id, pg_catalog.pg_get_viewdef(T.oid, true) AS source_text
FROM pg_catalog.pg_class T JOIN pg_catalog.pg_namespace N ON T.relnamespace = N.oid
WHERE N.nspname = 'main' AND T.relkind IN ('m', 'v') AND T.relname = 'meta_total';

-- descriptions
SELECT T.oid AS id, D.objsubid AS position, D.description FROM pg_catalog.pg_class T
JOIN pg_catalog.pg_description D ON D.objoid = T.oid AND D.classoid = 'pg_catalog.pg_class'::regclass
WHERE T.relname = 'meta_order' ORDER BY 2;

-- sequences
SELECT cls.xmin AS sequence_state_number, sq.seqrelid AS sequence_id, cls.relname AS sequence_name,
       pg_catalog.format_type(sq.seqtypid, NULL) AS data_type, sq.seqstart AS start_value, sq.seqincrement AS inc_value,
       sq.seqmin AS min_value, sq.seqmax AS max_value, sq.seqcache AS cache_size, sq.seqcycle AS cycle_option
FROM pg_catalog.pg_sequence sq JOIN pg_class cls ON sq.seqrelid = cls.oid
WHERE cls.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'main') ORDER BY 3;

-- casts, languages, access methods, extensions, foreign data
SELECT L.oid AS id, L.xmin AS state_number, L.lanname AS name, L.lanpltrusted AS trusted FROM pg_catalog.pg_language L ORDER BY 3;
SELECT E.oid AS id, E.xmin AS state_number, extname AS name, extversion AS version, extnamespace AS schema_id FROM pg_catalog.pg_extension E;
SELECT A.oid AS access_method_id, A.xmin AS state_number, A.amname AS access_method_name, A.amtype AS access_method_type FROM pg_am A;
SELECT fdw.oid AS id, fdw.xmin AS state_number, fdw.fdwname AS name FROM pg_catalog.pg_foreign_data_wrapper fdw;
