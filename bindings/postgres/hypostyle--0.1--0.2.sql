-- What the query tells of its numerics without precision and scale.
\echo Use "ALTER EXTENSION hypostyle UPDATE" to load this file. \quit

CREATE FUNCTION hypostyle_numerics(query text, parameters oid[]) RETURNS integer[]
LANGUAGE c VOLATILE STRICT
AS 'MODULE_PATHNAME', 'hypostyle_numerics';

COMMENT ON FUNCTION hypostyle_numerics(text, oid[]) IS
'the modifiers (pg_attribute.atttypmod) that the values of a query''s numeric columns keep to though their types have none; -1 where none is known';
