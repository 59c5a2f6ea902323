-- Makes the format "hypostyle" of COPY known to the session that calls it.
\echo Use "CREATE EXTENSION hypostyle" to load this file. \quit

CREATE FUNCTION hypostyle_protocol() RETURNS integer
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'hypostyle_protocol';

COMMENT ON FUNCTION hypostyle_protocol() IS
'the newest version of the Hypostyle protocol that COPY (query) TO STDOUT (FORMAT hypostyle) speaks';
