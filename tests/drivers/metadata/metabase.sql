-- Metabase 0.5x: what a sync of a PostgreSQL database asks. `same` in front of a query: its rows are PostgreSQL's, too.

-- schemas
SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY nspname;

-- tables with their kinds and comments; same
SELECT n.nspname AS schema, c.relname AS name,
       CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW'
                      WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END AS type,
       d.description AS description, GREATEST(c.reltuples::bigint, 0) >= 0 AS has_estimate
FROM pg_catalog.pg_class AS c
INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description AS d ON (c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass)
WHERE c.relnamespace = n.oid AND (n.nspname !~ '^pg_') AND n.nspname <> 'information_schema'
  AND c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname IN ('public', 'main') AND c.relname LIKE 'meta%'
ORDER BY type, schema, name;

-- fields; same
SELECT c.column_name AS name,
       CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN FORMAT('%s', c.udt_name)
            ELSE FORMAT('"%s"."%s"', c.udt_schema, c.udt_name) END AS database_type,
       c.ordinal_position - 1 AS database_position, c.table_schema AS table_schema, c.table_name AS table_name,
       pk.column_name IS NOT NULL AS pk,
       COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST(c.table_schema AS TEXT), CAST(c.table_name AS TEXT)) AS REGCLASS) AS OID),
                       c.ordinal_position) AS field_comment,
       ((column_default IS NULL OR LOWER(column_default) = 'null') AND is_nullable = 'NO'
        AND NOT ((column_default IS NOT NULL AND column_default LIKE '%nextval(%') OR is_identity <> 'NO')) AS database_required,
       ((column_default IS NOT NULL AND column_default LIKE '%nextval(%') OR is_identity <> 'NO') AS database_is_auto_increment
FROM information_schema.columns AS c
LEFT JOIN (
    SELECT tc.table_schema, tc.table_name, kc.column_name
    FROM information_schema.table_constraints AS tc
    INNER JOIN information_schema.key_column_usage AS kc
      ON tc.constraint_name = kc.constraint_name AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name
    WHERE tc.constraint_type = 'PRIMARY KEY'
) AS pk ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_name IN ('meta_customer', 'meta_order')
ORDER BY table_schema, table_name, database_position;

-- foreign keys; same
SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS "fk-column-name",
       pk_ns.nspname AS "pk-table-schema", pk_table.relname AS "pk-table-name", pk_column.attname AS "pk-column-name"
FROM pg_constraint AS c
INNER JOIN pg_class AS fk_table ON c.conrelid = fk_table.oid
INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid
INNER JOIN pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid
INNER JOIN pg_class AS pk_table ON c.confrelid = pk_table.oid
INNER JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid
INNER JOIN pg_attribute AS pk_column ON c.confrelid = pk_column.attrelid
WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::"char"
  AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey) AND fk_table.relname LIKE 'meta%'
ORDER BY "fk-table-schema", "fk-table-name";

-- indexed columns; same
SELECT tmp.table_name AS "table-name", TRIM(BOTH '"' FROM PG_CATALOG.PG_GET_INDEXDEF(tmp.ci_oid, tmp.pos, FALSE)) AS "field-name"
FROM (
    SELECT n.nspname AS table_schem, ct.relname AS table_name,
           INFORMATION_SCHEMA._PG_EXPANDARRAY(i.indkey) AS keys, ci.oid AS ci_oid, 1 AS pos
    FROM pg_catalog.pg_class AS ct
    INNER JOIN pg_catalog.pg_namespace AS n ON ct.relnamespace = n.oid
    INNER JOIN pg_catalog.pg_index AS i ON ct.oid = i.indrelid
    INNER JOIN pg_catalog.pg_class AS ci ON ci.oid = i.indexrelid
    WHERE n.nspname !~ '^information_schema|catalog_history|pg_' AND PG_CATALOG.PG_GET_EXPR(i.indpred, i.indrelid) IS NULL
) AS tmp
WHERE tmp.table_name LIKE 'meta%'
ORDER BY 1, 2;

-- privileges; same
WITH table_privileges AS (
    SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
           pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"' || t.objectname || '"', 'update') AS update,
           pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"' || t.objectname || '"', 'select') AS select,
           pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"' || t.objectname || '"', 'insert') AS insert,
           pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"' || '.' || '"' || t.objectname || '"', 'delete') AS delete
    FROM (
        SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables
        UNION
        SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views
        UNION
        SELECT schemaname, matviewname AS objectname FROM pg_catalog.pg_matviews
    ) t
    WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema'
      AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')
)
SELECT t.* FROM table_privileges t WHERE "table" LIKE 'meta%' ORDER BY "table";

-- enums
SELECT nspname, typname, enumlabel FROM pg_enum e LEFT JOIN pg_type t ON t.oid = e.enumtypid
LEFT JOIN pg_namespace n ON n.oid = t.typnamespace ORDER BY 1, 2, e.enumsortorder;

-- the version and the zone
SHOW TIME ZONE;

-- a fingerprint; same
SELECT "main"."meta_order"."id" AS "id", SUBSTRING(CAST("main"."meta_customer"."name" AS TEXT), 1, 1234) AS "substring"
FROM "main"."meta_order" LEFT JOIN "main"."meta_customer" ON "main"."meta_order"."customer" = "main"."meta_customer"."id"
ORDER BY 1 LIMIT 10000;

-- a question by months; same
SELECT DATE_TRUNC('month', "main"."meta_order"."made") AS "made", SUM("main"."meta_order"."price") AS "sum", COUNT(*) AS "count"
FROM "main"."meta_order"
WHERE "main"."meta_order"."made" >= TIMESTAMP '2024-01-01 00:00:00' AND "main"."meta_order"."made" < DATE_TRUNC('month', NOW()) + INTERVAL '1 month'
GROUP BY DATE_TRUNC('month', "main"."meta_order"."made") ORDER BY DATE_TRUNC('month', "main"."meta_order"."made") ASC;
