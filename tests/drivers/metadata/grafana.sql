-- Grafana: what its PostgreSQL query editor asks, and what dashboards send.

-- the version
SELECT current_setting('server_version_num')::int/100 as version;

-- tables that need no schema; same
SELECT CASE WHEN quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                         array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
         string_to_array(current_setting('search_path'), ',') s
  ) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') AND table_name LIKE 'meta%'
ORDER BY 1;

-- columns of a table in the search path; same
SELECT quote_ident(column_name) AS "column", data_type AS "type"
FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('meta_order'), 1) = 2
           THEN quote_ident(table_schema) = (parse_ident('meta_order'))[1] AND quote_ident(table_name) = (parse_ident('meta_order'))[2]
           ELSE quote_ident(table_name) = 'meta_order' AND quote_ident(table_schema) IN (
               SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
               FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                                    array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
                    string_to_array(current_setting('search_path'), ',') s)
      END
ORDER BY 1;

-- time columns; same
SELECT quote_ident(column_name) FROM information_schema.columns
WHERE quote_ident(table_name) = 'meta_order'
  AND data_type IN ('timestamp without time zone', 'timestamp with time zone', 'bigint', 'integer', 'double precision', 'real')
ORDER BY 1;

-- an extension
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';

-- a graph by intervals; same
SELECT floor(extract(epoch from "at")/3600)*3600 AS "time", avg(price) AS "value"
FROM meta_order
WHERE "at" BETWEEN '2024-01-01T00:00:00Z' AND '2024-02-01T00:00:00Z'
GROUP BY 1 ORDER BY 1;
