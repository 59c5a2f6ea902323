/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.RowIdLifetime;
import java.sql.SQLException;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;

/** Tells of a database's tables, columns, keys, indexes and functions, from its catalog. */
final class HypostyleDatabaseMetaData extends Capabilities {
    private static final String SYSTEM = "('information_schema', 'pg_catalog')";
    private static final String KINDS = "CASE WHEN t.table_schema IN " + SYSTEM + " THEN 'SYSTEM VIEW' "
            + "WHEN t.table_type = 'BASE TABLE' THEN 'TABLE' WHEN t.table_type = 'LOCAL TEMPORARY' THEN 'TEMPORARY TABLE' "
            + "ELSE t.table_type END";
    /** The columns of foreign keys with those that they refer to, one row for each pair. */
    private static final String FOREIGN_KEYS = "SELECT current_database() AS \"PKTABLE_CAT\", "
            + "pn.nspname AS \"PKTABLE_SCHEM\", pt.relname AS \"PKTABLE_NAME\", pa.attname AS \"PKCOLUMN_NAME\", "
            + "current_database() AS \"FKTABLE_CAT\", fn.nspname AS \"FKTABLE_SCHEM\", ft.relname AS \"FKTABLE_NAME\", "
            + "fa.attname AS \"FKCOLUMN_NAME\", k.n::SMALLINT AS \"KEY_SEQ\", "
            + rule("k.confupdtype") + " AS \"UPDATE_RULE\", " + rule("k.confdeltype") + " AS \"DELETE_RULE\", "
            + "k.conname AS \"FK_NAME\", pc.conname AS \"PK_NAME\", (CASE WHEN NOT k.condeferrable THEN "
            + importedKeyNotDeferrable + " WHEN k.condeferred THEN " + importedKeyInitiallyDeferred + " ELSE "
            + importedKeyInitiallyImmediate + " END)::SMALLINT AS \"DEFERRABILITY\" "
            + "FROM (SELECT *, unnest(conkey) AS f, unnest(confkey) AS p, generate_subscripts(conkey, 1) AS n "
            + "FROM pg_catalog.pg_constraint WHERE contype = 'f') k "
            + "JOIN pg_catalog.pg_class ft ON ft.oid = k.conrelid JOIN pg_catalog.pg_namespace fn ON fn.oid = ft.relnamespace "
            + "JOIN pg_catalog.pg_class pt ON pt.oid = k.confrelid JOIN pg_catalog.pg_namespace pn ON pn.oid = pt.relnamespace "
            + "JOIN pg_catalog.pg_attribute fa ON fa.attrelid = k.conrelid AND fa.attnum = k.f "
            + "JOIN pg_catalog.pg_attribute pa ON pa.attrelid = k.confrelid AND pa.attnum = k.p "
            + "LEFT JOIN pg_catalog.pg_constraint pc ON pc.conrelid = k.confrelid AND pc.conindid = k.conindid "
            + "AND pc.contype IN ('p', 'u')";
    private static final String FUNCTIONS_FROM = " FROM (SELECT DISTINCT specific_catalog, specific_schema, "
            + "specific_name, routine_name, description, function_type FROM information_schema.routines "
            + "WHERE routine_type = 'FUNCTION') r";

    /** The columns of tables and views, and of materialized views, which information_schema has not, by their types' names. */
    private static final String FORMATTED = "replace(replace(replace(replace(replace(replace(replace("
            + "format_type(a.atttypid, a.atttypmod), 'character varying', 'VARCHAR'), 'double precision', 'DOUBLE'), "
            + "'real', 'FLOAT'), 'numeric', 'DECIMAL'), 'bytea', 'BLOB'), ' without time zone', ''), 'json', 'JSON')";
    private static final String ALL_COLUMNS = "(SELECT table_catalog, table_schema, table_name, column_name, column_type, "
            + "is_nullable, column_comment, column_default, ordinal_position, is_identity, is_generated, "
            + "generation_expression FROM information_schema.columns UNION ALL SELECT current_database(), n.nspname, "
            + "m.relname, a.attname, upper(" + FORMATTED + "), 'YES', col_description(m.oid, a.attnum), NULL, a.attnum, "
            + "'NO', 'NEVER', NULL FROM pg_catalog.pg_class m JOIN pg_catalog.pg_namespace n ON n.oid = m.relnamespace "
            + "JOIN pg_catalog.pg_attribute a ON a.attrelid = m.oid AND a.attnum > 0 WHERE m.relkind = 'm') AS told";

    /** The columns of PostgreSQL's tables and views, as {@link #ALL_COLUMNS} has ours; a domain's type is that below it. */
    private static final String POSTGRES_COLUMNS = "(SELECT current_database() AS table_catalog, n.nspname AS table_schema, "
            + "c.relname AS table_name, a.attname AS column_name, format_type(information_schema._pg_truetypid(a, t), "
            + "information_schema._pg_truetypmod(a, t)) AS column_type, "
            + "CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable, "
            + "col_description(c.oid, a.attnum) AS column_comment, CASE WHEN a.attgenerated = '' THEN "
            + "pg_get_expr(d.adbin, d.adrelid) END AS column_default, a.attnum::INTEGER AS ordinal_position, "
            + "CASE WHEN a.attidentity <> '' THEN 'YES' ELSE 'NO' END AS is_identity, "
            + "CASE WHEN a.attgenerated <> '' THEN 'ALWAYS' ELSE 'NEVER' END AS is_generated, "
            + "CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END AS generation_expression "
            + "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
            + "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
            + "LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
            + "WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'f', 'v', 'm')) AS told";
    private static final String POSTGRES_FUNCTIONS = "SELECT * FROM (SELECT current_database() AS \"FUNCTION_CAT\", "
            + "n.nspname AS \"FUNCTION_SCHEM\", p.proname AS \"FUNCTION_NAME\", obj_description(p.oid, 'pg_proc') AS "
            + "\"REMARKS\", (CASE WHEN p.proretset THEN " + functionReturnsTable + " ELSE " + functionNoTable
            + " END)::SMALLINT AS \"FUNCTION_TYPE\", p.proname || '_' || p.oid AS \"SPECIFIC_NAME\" "
            + "FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
            + "WHERE p.prokind <> 'p') r";

    private final HypostyleConnection connection;

    HypostyleDatabaseMetaData(HypostyleConnection connection) {
        this.connection = connection;
    }

    private boolean isPostgres() {
        return connection.address().isPostgres();
    }

    private static String rule(String code) {
        return "(CASE " + code + " WHEN 'c' THEN " + importedKeyCascade + " WHEN 'n' THEN " + importedKeySetNull
                + " WHEN 'd' THEN " + importedKeySetDefault + " WHEN 'r' THEN " + importedKeyRestrict + " ELSE "
                + importedKeyNoAction + " END)::SMALLINT";
    }

    /** A query with conditions that are added one by one. */
    private final class Query {
        private final StringBuilder sql;
        private final List<Object> values = new ArrayList<>();
        private String next = " WHERE ";

        Query(String sql) {
            this.sql = new StringBuilder(sql);
        }

        private Query condition(String condition) {
            sql.append(next).append(condition);
            next = " AND ";
            return this;
        }

        /** Adds a condition unless the value is null. */
        Query equal(String column, String value) {
            if (value != null) {
                condition(column + " = ?");
                values.add(value);
            }
            return this;
        }

        /** Adds a condition unless the pattern is null or fits everything. */
        Query like(String column, String pattern) {
            if (pattern != null && !pattern.equals("%")) {
                condition(column + " LIKE ?");
                values.add(pattern);
            }
            return this;
        }

        Query in(String column, String[] all) {
            if (all != null) {
                List<String> places = new ArrayList<>();
                for (String value : all) {
                    places.add("?");
                    values.add(value);
                }
                condition(all.length == 0 ? "false" : column + " IN (" + String.join(", ", places) + ")");
            }
            return this;
        }

        /** Runs the query. The statement ends with its rows. */
        ResultSet run(String rest) throws SQLException {
            PreparedStatement statement = connection.prepareStatement(sql + rest, ResultSet.TYPE_SCROLL_INSENSITIVE,
                    ResultSet.CONCUR_READ_ONLY);
            try {
                statement.closeOnCompletion();
                for (int index = 0; index < values.size(); index++) {
                    statement.setObject(index + 1, values.get(index));
                }
                return statement.executeQuery();
            } catch (SQLException error) {
                statement.close();
                throw error;
            }
        }
    }

    @Override
    public Connection getConnection() {
        return connection;
    }

    @Override
    public String getURL() {
        return Address.withoutPassword(connection.url());
    }

    @Override
    public String getUserName() throws SQLException {
        try (ResultSet rows = new Query("SELECT current_user").run("")) {
            rows.next();
            return rows.getString(1);
        }
    }

    @Override
    public boolean isReadOnly() throws SQLException {
        return connection.isReadOnly();
    }

    @Override
    public boolean usesLocalFiles() {
        return !connection.address().isServer();
    }

    @Override
    public String getDatabaseProductName() {
        return isPostgres() ? "PostgreSQL" : super.getDatabaseProductName();
    }

    @Override
    public String getDatabaseProductVersion() throws SQLException {
        return isPostgres() ? serverVersion() : Library.version();
    }

    private String serverVersion() throws SQLException {
        try (ResultSet rows = new Query("SELECT current_setting('server_version')").run("")) {
            rows.next();
            return rows.getString(1);
        }
    }

    private static int part(String version, int index) {
        String[] parts = version.split("[^0-9]+");
        return index < parts.length && !parts[index].isEmpty() ? Integer.parseInt(parts[index]) : 0;
    }

    @Override
    public int getDatabaseMajorVersion() throws SQLException {
        return part(getDatabaseProductVersion(), 0);
    }

    @Override
    public int getDatabaseMinorVersion() throws SQLException {
        return part(getDatabaseProductVersion(), 1);
    }

    @Override
    public int getDriverMajorVersion() {
        return HypostyleDriver.MAJOR;
    }

    @Override
    public int getDriverMinorVersion() {
        return HypostyleDriver.MINOR;
    }

    @Override
    public int getJDBCMajorVersion() {
        return 4;
    }

    @Override
    public int getJDBCMinorVersion() {
        return 3;
    }

    @Override
    public int getSQLStateType() {
        return sqlStateSQL;
    }

    @Override
    public int getDefaultTransactionIsolation() {
        return isPostgres() ? Connection.TRANSACTION_READ_COMMITTED : Connection.TRANSACTION_REPEATABLE_READ;
    }

    @Override
    public boolean supportsTransactionIsolationLevel(int level) {
        return level == Connection.TRANSACTION_READ_UNCOMMITTED || level == Connection.TRANSACTION_READ_COMMITTED
                || level == Connection.TRANSACTION_REPEATABLE_READ
                || level == Connection.TRANSACTION_SERIALIZABLE && isPostgres();
    }

    @Override
    public int getResultSetHoldability() {
        return ResultSet.HOLD_CURSORS_OVER_COMMIT;
    }

    @Override
    public boolean supportsResultSetHoldability(int holdability) {
        return holdability == ResultSet.HOLD_CURSORS_OVER_COMMIT || holdability == ResultSet.CLOSE_CURSORS_AT_COMMIT;
    }

    @Override
    public boolean supportsResultSetType(int type) {
        return type == ResultSet.TYPE_FORWARD_ONLY || type == ResultSet.TYPE_SCROLL_INSENSITIVE;
    }

    @Override
    public boolean supportsResultSetConcurrency(int type, int concurrency) {
        return supportsResultSetType(type);
    }

    @Override
    public boolean ownUpdatesAreVisible(int type) {
        return false;
    }

    @Override
    public boolean ownDeletesAreVisible(int type) {
        return false;
    }

    @Override
    public boolean ownInsertsAreVisible(int type) {
        return false;
    }

    @Override
    public boolean othersUpdatesAreVisible(int type) {
        return false;
    }

    @Override
    public boolean othersDeletesAreVisible(int type) {
        return false;
    }

    @Override
    public boolean othersInsertsAreVisible(int type) {
        return false;
    }

    @Override
    public boolean updatesAreDetected(int type) {
        return false;
    }

    @Override
    public boolean deletesAreDetected(int type) {
        return false;
    }

    @Override
    public boolean insertsAreDetected(int type) {
        return false;
    }

    @Override
    public boolean supportsConvert(int fromType, int toType) {
        return fromType != Types.ARRAY && fromType != Types.STRUCT || toType == Types.VARCHAR;
    }

    @Override
    public RowIdLifetime getRowIdLifetime() {
        return RowIdLifetime.ROWID_UNSUPPORTED;
    }

    /** Returns the reserved words that SQL:2003 has not, and that a name has to be quoted for. */
    @Override
    public String getSQLKeywords() throws SQLException {
        List<String> words = new ArrayList<>();
        try (ResultSet rows = new Query("SELECT word FROM pg_catalog.pg_get_keywords() WHERE catcode = 'R'")
                .run(" ORDER BY word")) {
            while (rows.next()) {
                if (!Sql2003.KEYWORDS.contains(rows.getString(1))) {
                    words.add(rows.getString(1));
                }
            }
        }
        return String.join(",", words);
    }

    @Override
    public String getNumericFunctions() {
        return "ABS,ACOS,ASIN,ATAN,ATAN2,CEILING,COS,COT,DEGREES,EXP,FLOOR,LOG,LOG10,MOD,PI,POWER,RADIANS,RAND,ROUND,"
                + "SIGN,SIN,SQRT,TAN,TRUNCATE";
    }

    @Override
    public String getStringFunctions() {
        return "ASCII,CHAR,CHAR_LENGTH,CHARACTER_LENGTH,CONCAT,INSERT,LCASE,LEFT,LENGTH,LOCATE,LTRIM,OCTET_LENGTH,POSITION,REPEAT,"
                + "REPLACE,RIGHT,RTRIM,SPACE,SUBSTRING,UCASE";
    }

    @Override
    public String getSystemFunctions() {
        return "DATABASE,IFNULL,USER";
    }

    @Override
    public String getTimeDateFunctions() {
        return "CURDATE,CURRENT_DATE,CURRENT_TIME,CURRENT_TIMESTAMP,CURTIME,DAYNAME,DAYOFMONTH,DAYOFWEEK,DAYOFYEAR,"
                + "EXTRACT,HOUR,MINUTE,MONTH,MONTHNAME,NOW,QUARTER,SECOND,TIMESTAMPADD,TIMESTAMPDIFF,WEEK,YEAR";
    }

    @Override
    public ResultSet getCatalogs() throws SQLException {
        return new Query("SELECT DISTINCT catalog_name AS \"TABLE_CAT\" FROM information_schema.schemata")
                .run(" ORDER BY 1");
    }

    @Override
    public ResultSet getSchemas() throws SQLException {
        return getSchemas(null, null);
    }

    @Override
    public ResultSet getSchemas(String catalog, String schemaPattern) throws SQLException {
        return new Query("SELECT schema_name AS \"TABLE_SCHEM\", catalog_name AS \"TABLE_CATALOG\" "
                + "FROM information_schema.schemata").equal("catalog_name", catalog).like("schema_name", schemaPattern)
                .run(" ORDER BY 2, 1");
    }

    @Override
    public ResultSet getTableTypes() throws SQLException {
        return RowBuilder.of("TABLE_TYPE VARCHAR").row("MATERIALIZED VIEW").row("SYSTEM VIEW").row("TABLE")
                .row("TEMPORARY TABLE").row("VIEW").build();
    }

    @Override
    public ResultSet getTables(String catalog, String schemaPattern, String tableNamePattern, String[] types)
            throws SQLException {
        return new Query("SELECT * FROM (SELECT t.table_catalog AS \"TABLE_CAT\", t.table_schema AS \"TABLE_SCHEM\", "
                + "t.table_name AS \"TABLE_NAME\", " + KINDS + " AS \"TABLE_TYPE\", obj_description(c.oid, 'pg_class') "
                + "AS \"REMARKS\", NULL::VARCHAR AS \"TYPE_CAT\", NULL::VARCHAR AS \"TYPE_SCHEM\", NULL::VARCHAR AS "
                + "\"TYPE_NAME\", NULL::VARCHAR AS \"SELF_REFERENCING_COL_NAME\", NULL::VARCHAR AS \"REF_GENERATION\" "
                + "FROM (SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables "
                + "UNION ALL SELECT current_database(), n.nspname, m.relname, 'MATERIALIZED VIEW' FROM pg_catalog.pg_class m "
                + "JOIN pg_catalog.pg_namespace n ON n.oid = m.relnamespace WHERE m.relkind = 'm') t "
                + "LEFT JOIN pg_catalog.pg_namespace s ON s.nspname = t.table_schema "
                + "LEFT JOIN pg_catalog.pg_class c ON c.relname = t.table_name AND c.relnamespace = s.oid "
                + "AND t.table_catalog = current_database()) x")
                .equal("\"TABLE_CAT\"", catalog).like("\"TABLE_SCHEM\"", schemaPattern)
                .like("\"TABLE_NAME\"", tableNamePattern).in("\"TABLE_TYPE\"", types)
                .run(" ORDER BY \"TABLE_TYPE\", \"TABLE_CAT\", \"TABLE_SCHEM\", \"TABLE_NAME\"");
    }

    /** Returns the type of a column as we call it. */
    private String typeName(String told) {
        return isPostgres() ? SqlType.nameOfPostgres(told) : told;
    }

    private static String modifiers(String typeName) {
        int paren = typeName.indexOf('(');
        return paren < 0 || !typeName.startsWith("DECIMAL") ? null : typeName.substring(paren + 1, typeName.length() - 1);
    }

    /** Returns the digits or characters of a column; null for a type that has no number of them. */
    private static Integer columnSize(SqlType type, String modifiers) {
        return modifiers != null ? Integer.valueOf(modifiers.split(",")[0].strip())
                : type == SqlType.NULL || type.isNested() ? null : Integer.valueOf(type.precision);
    }

    private static Integer decimalDigits(SqlType type, String typeName, String modifiers) {
        if (modifiers != null) {
            return Integer.valueOf(modifiers.split(",")[1].strip());
        }
        switch (type) {
            case TIME:
            case TIMESTAMPTZ:
                return 6;
            case TIMESTAMP:
                return typeName.endsWith("_S") ? 0 : typeName.endsWith("_MS") ? 3 : typeName.endsWith("_NS") ? 9 : 6;
            default:
                return type.ordinal() >= SqlType.TINYINT.ordinal() && type.ordinal() <= SqlType.UBIGINT.ordinal() ? 0
                        : null;
        }
    }

    private static boolean isNumeric(SqlType type) {
        return type.ordinal() >= SqlType.TINYINT.ordinal() && type.ordinal() <= SqlType.DECIMAL.ordinal();
    }

    @Override
    public ResultSet getColumns(String catalog, String schemaPattern, String tableNamePattern, String columnNamePattern)
            throws SQLException {
        RowBuilder built = RowBuilder.of("TABLE_CAT VARCHAR, TABLE_SCHEM VARCHAR, TABLE_NAME VARCHAR, COLUMN_NAME VARCHAR, "
                + "DATA_TYPE INTEGER, TYPE_NAME VARCHAR, COLUMN_SIZE INTEGER, BUFFER_LENGTH INTEGER, DECIMAL_DIGITS INTEGER, "
                + "NUM_PREC_RADIX INTEGER, NULLABLE INTEGER, REMARKS VARCHAR, COLUMN_DEF VARCHAR, SQL_DATA_TYPE INTEGER, "
                + "SQL_DATETIME_SUB INTEGER, CHAR_OCTET_LENGTH INTEGER, ORDINAL_POSITION INTEGER, IS_NULLABLE VARCHAR, "
                + "SCOPE_CATALOG VARCHAR, SCOPE_SCHEMA VARCHAR, SCOPE_TABLE VARCHAR, SOURCE_DATA_TYPE SMALLINT, "
                + "IS_AUTOINCREMENT VARCHAR, IS_GENERATEDCOLUMN VARCHAR");
        try (ResultSet rows = new Query("SELECT table_catalog, table_schema, table_name, column_name, column_type, "
                + "is_nullable, column_comment, column_default, ordinal_position, is_identity, is_generated, "
                + "generation_expression FROM " + (isPostgres() ? POSTGRES_COLUMNS : ALL_COLUMNS)).equal("table_catalog", catalog)
                .like("table_schema", schemaPattern).like("table_name", tableNamePattern)
                .like("column_name", columnNamePattern)
                .run(" ORDER BY table_catalog, table_schema, table_name, ordinal_position")) {
            while (rows.next()) {
                addColumn(built, rows, typeName(rows.getString("column_type")));
            }
        }
        return built.build();
    }

    private static void addColumn(RowBuilder built, ResultSet from, String typeName) throws SQLException {
        String modifiers = modifiers(typeName);
        SqlType type = SqlType.named(typeName);
        boolean isNullable = from.getString("is_nullable").equals("YES");
        String byDefault = from.getString("column_default");
        boolean isSerial = byDefault != null && byDefault.toLowerCase(java.util.Locale.ROOT).startsWith("nextval(");
        boolean isText = type == SqlType.VARCHAR || type == SqlType.JSON || type == SqlType.BLOB;
        boolean isComputed = from.getString("is_generated").equals("ALWAYS");
        built.row(from.getString("table_catalog"), from.getString("table_schema"), from.getString("table_name"),
                from.getString("column_name"), type.jdbcType, modifiers == null ? typeName : "DECIMAL",
                columnSize(type, modifiers), null, decimalDigits(type, typeName, modifiers), isNumeric(type) ? 10 : null,
                isNullable ? columnNullable : columnNoNulls, from.getString("column_comment"),
                isComputed ? from.getString("generation_expression") : byDefault, null, null,
                isText ? Integer.MAX_VALUE : null, from.getInt("ordinal_position"), isNullable ? "YES" : "NO", null, null,
                null, null, isSerial || from.getString("is_identity").equals("YES") ? "YES" : "NO",
                isComputed ? "YES" : "NO");
    }

    @Override
    public ResultSet getPrimaryKeys(String catalog, String schema, String table) throws SQLException {
        return new Query("SELECT * FROM (SELECT k.table_catalog AS \"TABLE_CAT\", k.table_schema AS \"TABLE_SCHEM\", "
                + "k.table_name AS \"TABLE_NAME\", k.column_name AS \"COLUMN_NAME\", k.ordinal_position::SMALLINT AS "
                + "\"KEY_SEQ\", k.constraint_name AS \"PK_NAME\" FROM information_schema.key_column_usage k "
                + "JOIN information_schema.table_constraints c ON c.table_catalog = k.table_catalog AND c.table_schema = "
                + "k.table_schema AND c.table_name = k.table_name AND c.constraint_name = k.constraint_name "
                + "WHERE c.constraint_type = 'PRIMARY KEY') x").equal("\"TABLE_CAT\"", catalog)
                .equal("\"TABLE_SCHEM\"", schema).equal("\"TABLE_NAME\"", table).run(" ORDER BY \"COLUMN_NAME\"");
    }

    private Query foreignKeys() {
        return new Query("SELECT * FROM (" + FOREIGN_KEYS + ") x");
    }

    @Override
    public ResultSet getImportedKeys(String catalog, String schema, String table) throws SQLException {
        return foreignKeys().equal("\"FKTABLE_CAT\"", catalog).equal("\"FKTABLE_SCHEM\"", schema)
                .equal("\"FKTABLE_NAME\"", table)
                .run(" ORDER BY \"PKTABLE_CAT\", \"PKTABLE_SCHEM\", \"PKTABLE_NAME\", \"FK_NAME\", \"KEY_SEQ\"");
    }

    @Override
    public ResultSet getExportedKeys(String catalog, String schema, String table) throws SQLException {
        return foreignKeys().equal("\"PKTABLE_CAT\"", catalog).equal("\"PKTABLE_SCHEM\"", schema)
                .equal("\"PKTABLE_NAME\"", table)
                .run(" ORDER BY \"FKTABLE_CAT\", \"FKTABLE_SCHEM\", \"FKTABLE_NAME\", \"FK_NAME\", \"KEY_SEQ\"");
    }

    @Override
    public ResultSet getCrossReference(String parentCatalog, String parentSchema, String parentTable,
            String foreignCatalog, String foreignSchema, String foreignTable) throws SQLException {
        return foreignKeys().equal("\"PKTABLE_CAT\"", parentCatalog).equal("\"PKTABLE_SCHEM\"", parentSchema)
                .equal("\"PKTABLE_NAME\"", parentTable).equal("\"FKTABLE_CAT\"", foreignCatalog)
                .equal("\"FKTABLE_SCHEM\"", foreignSchema).equal("\"FKTABLE_NAME\"", foreignTable)
                .run(" ORDER BY \"FKTABLE_CAT\", \"FKTABLE_SCHEM\", \"FKTABLE_NAME\", \"FK_NAME\", \"KEY_SEQ\"");
    }

    @Override
    public ResultSet getIndexInfo(String catalog, String schema, String table, boolean unique, boolean approximate)
            throws SQLException {
        return new Query("SELECT * FROM (SELECT current_database() AS \"TABLE_CAT\", n.nspname AS \"TABLE_SCHEM\", "
                + "t.relname AS \"TABLE_NAME\", NOT k.indisunique AS \"NON_UNIQUE\", current_database() AS "
                + "\"INDEX_QUALIFIER\", i.relname AS \"INDEX_NAME\", " + tableIndexOther + "::SMALLINT AS \"TYPE\", "
                + (isPostgres() ? "(k.n + 1)" : "k.n") + "::SMALLINT AS \"ORDINAL_POSITION\", a.attname AS "
                + "\"COLUMN_NAME\", NULL::VARCHAR AS \"ASC_OR_DESC\", "
                + "greatest(t.reltuples, 0)::BIGINT AS \"CARDINALITY\", 0::BIGINT AS \"PAGES\", NULL::VARCHAR AS "
                + "\"FILTER_CONDITION\" FROM (SELECT *, unnest(indkey) AS a, generate_subscripts(indkey, 1) AS n "
                + "FROM pg_catalog.pg_index) k JOIN pg_catalog.pg_class t ON t.oid = k.indrelid "
                + "JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "
                + "JOIN pg_catalog.pg_class i ON i.oid = k.indexrelid "
                + "JOIN pg_catalog.pg_attribute a ON a.attrelid = k.indrelid AND a.attnum = k.a "
                + "WHERE " + (unique ? "k.indisunique" : "true") + ") x").equal("\"TABLE_CAT\"", catalog)
                .equal("\"TABLE_SCHEM\"", schema).equal("\"TABLE_NAME\"", table)
                .run(" ORDER BY \"NON_UNIQUE\", \"TYPE\", \"INDEX_NAME\", \"ORDINAL_POSITION\"");
    }

    /** Returns the columns of the primary key, which identify a row as long as it lives. */
    @Override
    public ResultSet getBestRowIdentifier(String catalog, String schema, String table, int scope, boolean nullable)
            throws SQLException {
        RowBuilder built = RowBuilder.of("SCOPE SMALLINT, COLUMN_NAME VARCHAR, DATA_TYPE INTEGER, TYPE_NAME VARCHAR, "
                + "COLUMN_SIZE INTEGER, BUFFER_LENGTH INTEGER, DECIMAL_DIGITS SMALLINT, PSEUDO_COLUMN SMALLINT");
        List<String> key = new ArrayList<>();
        try (ResultSet rows = getPrimaryKeys(catalog, schema, table)) {
            while (rows.next()) {
                key.add(rows.getString("COLUMN_NAME"));
            }
        }
        try (ResultSet rows = new Query("SELECT column_name, column_type FROM "
                + (isPostgres() ? POSTGRES_COLUMNS : "information_schema.columns"))
                .equal("table_catalog", catalog).equal("table_schema", schema).equal("table_name", table)
                .in("column_name", key.toArray(new String[0])).run(" ORDER BY ordinal_position")) {
            while (rows.next()) {
                String typeName = typeName(rows.getString(2));
                String modifiers = modifiers(typeName);
                SqlType type = SqlType.named(typeName);
                built.row(bestRowSession, rows.getString(1), type.jdbcType, modifiers == null ? typeName : "DECIMAL",
                        columnSize(type, modifiers), null, decimalDigits(type, typeName, modifiers), bestRowNotPseudo);
            }
        }
        return built.build();
    }

    @Override
    public ResultSet getVersionColumns(String catalog, String schema, String table) throws SQLException {
        return RowBuilder.of("SCOPE SMALLINT, COLUMN_NAME VARCHAR, DATA_TYPE INTEGER, TYPE_NAME VARCHAR, "
                + "COLUMN_SIZE INTEGER, BUFFER_LENGTH INTEGER, DECIMAL_DIGITS SMALLINT, PSEUDO_COLUMN SMALLINT").build();
    }

    @Override
    public ResultSet getTypeInfo() throws SQLException {
        RowBuilder built = RowBuilder.of("TYPE_NAME VARCHAR, DATA_TYPE INTEGER, PRECISION INTEGER, LITERAL_PREFIX VARCHAR, "
                + "LITERAL_SUFFIX VARCHAR, CREATE_PARAMS VARCHAR, NULLABLE SMALLINT, CASE_SENSITIVE BOOLEAN, "
                + "SEARCHABLE SMALLINT, UNSIGNED_ATTRIBUTE BOOLEAN, FIXED_PREC_SCALE BOOLEAN, AUTO_INCREMENT BOOLEAN, "
                + "LOCAL_TYPE_NAME VARCHAR, MINIMUM_SCALE SMALLINT, MAXIMUM_SCALE SMALLINT, SQL_DATA_TYPE INTEGER, "
                + "SQL_DATETIME_SUB INTEGER, NUM_PREC_RADIX INTEGER");
        java.util.Arrays.stream(SqlType.values())
                .filter(type -> !type.isNested() && type != SqlType.NULL && type != SqlType.FIXED_BINARY
                        && type != SqlType.DURATION)
                .sorted(java.util.Comparator.comparingInt(type -> type.jdbcType))
                .forEach(type -> addType(built, type));
        return built.build();
    }

    private static void addType(RowBuilder built, SqlType type) {
        boolean isDecimal = type == SqlType.DECIMAL;
        boolean isQuoted = type.ordinal() >= SqlType.DATE.ordinal();
        boolean isInteger = type.ordinal() >= SqlType.TINYINT.ordinal() && type.ordinal() <= SqlType.UBIGINT.ordinal();
        boolean isText = type == SqlType.VARCHAR || type == SqlType.JSON;
        Integer digits = decimalDigits(type, type.name(), null);
        built.row(type == SqlType.TIMESTAMPTZ ? "TIMESTAMPTZ" : type.name(), type.jdbcType, type.precision,
                isQuoted ? "'" : null, isQuoted ? "'" : null, isDecimal ? "precision,scale" : null, typeNullable, isText,
                typeSearchable, !type.isSigned(), isDecimal, isInteger, null, 0, isDecimal ? Integer.valueOf(76) : digits, null, null,
                isNumeric(type) ? 10 : null);
    }

    @Override
    public ResultSet getFunctions(String catalog, String schemaPattern, String functionNamePattern) throws SQLException {
        if (isPostgres()) {
            return new Query(POSTGRES_FUNCTIONS).equal("\"FUNCTION_CAT\"", catalog)
                    .like("\"FUNCTION_SCHEM\"", schemaPattern).like("\"FUNCTION_NAME\"", functionNamePattern)
                    .run(" ORDER BY 1, 2, 3, 6");
        }
        return new Query("SELECT r.specific_catalog AS \"FUNCTION_CAT\", r.specific_schema AS \"FUNCTION_SCHEM\", "
                + "r.routine_name AS \"FUNCTION_NAME\", r.description AS \"REMARKS\", " + functionNoTable
                + "::SMALLINT AS \"FUNCTION_TYPE\", r.specific_name AS \"SPECIFIC_NAME\"" + FUNCTIONS_FROM)
                .equal("r.specific_catalog", catalog).like("r.specific_schema", schemaPattern)
                .like("r.routine_name", functionNamePattern)
                .run(" ORDER BY 1, 2, 3, 6");
    }

    @Override
    public ResultSet getFunctionColumns(String catalog, String schemaPattern, String functionNamePattern,
            String columnNamePattern) throws SQLException {
        RowBuilder built = RowBuilder.of("FUNCTION_CAT VARCHAR, FUNCTION_SCHEM VARCHAR, FUNCTION_NAME VARCHAR, "
                + "COLUMN_NAME VARCHAR, COLUMN_TYPE SMALLINT, DATA_TYPE INTEGER, TYPE_NAME VARCHAR, PRECISION INTEGER, "
                + "LENGTH INTEGER, SCALE SMALLINT, RADIX SMALLINT, NULLABLE SMALLINT, REMARKS VARCHAR, "
                + "CHAR_OCTET_LENGTH INTEGER, ORDINAL_POSITION INTEGER, IS_NULLABLE VARCHAR, SPECIFIC_NAME VARCHAR");
        try (ResultSet rows = new Query("SELECT specific_catalog, specific_schema, specific_name, parameter_name, "
                + "parameter_mode, data_type, ordinal_position FROM information_schema.parameters")
                .equal("specific_catalog", catalog).like("specific_schema", schemaPattern)
                .like(isPostgres() ? "regexp_replace(specific_name, '_[0-9]+$', '')" : "specific_name", functionNamePattern)
                .like("coalesce(parameter_name, '')", columnNamePattern)
                .run(" ORDER BY 1, 2, 3, " + (isPostgres() ? "" : "rid, ") + "parameter_mode DESC, ordinal_position")) {
            while (rows.next()) {
                boolean isIn = rows.getString(5).equals("IN");
                String typeName = rows.getString(6);
                SqlType type = SqlType.portable(typeName);
                built.row(rows.getString(1), rows.getString(2), rows.getString(3), rows.getString(4),
                        isIn ? functionColumnIn : functionReturn, type.jdbcType, typeName, type.precision, null, null,
                        isNumeric(type) ? 10 : null, functionNullable, null, null, isIn ? rows.getInt(7) : 0, "YES",
                        rows.getString(3));
            }
        }
        return built.build();
    }

    @Override
    public ResultSet getTablePrivileges(String catalog, String schemaPattern, String tableNamePattern)
            throws SQLException {
        return new Query("SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS "
                + "\"TABLE_NAME\", grantor AS \"GRANTOR\", grantee AS \"GRANTEE\", privilege_type AS \"PRIVILEGE\", "
                + "is_grantable AS \"IS_GRANTABLE\" FROM information_schema.table_privileges")
                .equal("table_catalog", catalog).like("table_schema", schemaPattern)
                .like("table_name", tableNamePattern).run(" ORDER BY 1, 2, 3, 6");
    }

    @Override
    public ResultSet getColumnPrivileges(String catalog, String schema, String table, String columnNamePattern)
            throws SQLException {
        return new Query("SELECT table_catalog AS \"TABLE_CAT\", table_schema AS \"TABLE_SCHEM\", table_name AS "
                + "\"TABLE_NAME\", column_name AS \"COLUMN_NAME\", grantor AS \"GRANTOR\", grantee AS \"GRANTEE\", "
                + "privilege_type AS \"PRIVILEGE\", is_grantable AS \"IS_GRANTABLE\" "
                + "FROM information_schema.column_privileges").equal("table_catalog", catalog)
                .equal("table_schema", schema).equal("table_name", table).like("column_name", columnNamePattern)
                .run(" ORDER BY 4, 7");
    }

    @Override
    public ResultSet getClientInfoProperties() throws SQLException {
        return RowBuilder.of("NAME VARCHAR, MAX_LEN INTEGER, DEFAULT_VALUE VARCHAR, DESCRIPTION VARCHAR")
                .row("ApplicationName", Integer.MAX_VALUE, "", "The name of the program")
                .row("ClientHostname", Integer.MAX_VALUE, "", "The machine that the program runs on")
                .row("ClientUser", Integer.MAX_VALUE, "", "The user that the program works for").build();
    }

    /** Returns nothing: there are functions alone. */
    @Override
    public ResultSet getProcedures(String catalog, String schemaPattern, String procedureNamePattern)
            throws SQLException {
        return RowBuilder.of("PROCEDURE_CAT VARCHAR, PROCEDURE_SCHEM VARCHAR, PROCEDURE_NAME VARCHAR, RESERVED_1 VARCHAR, "
                + "RESERVED_2 VARCHAR, RESERVED_3 VARCHAR, REMARKS VARCHAR, PROCEDURE_TYPE SMALLINT, SPECIFIC_NAME VARCHAR")
                .build();
    }

    @Override
    public ResultSet getProcedureColumns(String catalog, String schemaPattern, String procedureNamePattern,
            String columnNamePattern) throws SQLException {
        return RowBuilder.of("PROCEDURE_CAT VARCHAR, PROCEDURE_SCHEM VARCHAR, PROCEDURE_NAME VARCHAR, COLUMN_NAME VARCHAR, "
                + "COLUMN_TYPE SMALLINT, DATA_TYPE INTEGER, TYPE_NAME VARCHAR, PRECISION INTEGER, LENGTH INTEGER, "
                + "SCALE SMALLINT, RADIX SMALLINT, NULLABLE SMALLINT, REMARKS VARCHAR, COLUMN_DEF VARCHAR, "
                + "SQL_DATA_TYPE INTEGER, SQL_DATETIME_SUB INTEGER, CHAR_OCTET_LENGTH INTEGER, ORDINAL_POSITION INTEGER, "
                + "IS_NULLABLE VARCHAR, SPECIFIC_NAME VARCHAR").build();
    }

    /** Returns nothing: there are no types that a user defines. */
    @Override
    public ResultSet getUDTs(String catalog, String schemaPattern, String typeNamePattern, int[] types)
            throws SQLException {
        return RowBuilder.of("TYPE_CAT VARCHAR, TYPE_SCHEM VARCHAR, TYPE_NAME VARCHAR, CLASS_NAME VARCHAR, "
                + "DATA_TYPE INTEGER, REMARKS VARCHAR, BASE_TYPE SMALLINT").build();
    }

    @Override
    public ResultSet getSuperTypes(String catalog, String schemaPattern, String typeNamePattern) throws SQLException {
        return RowBuilder.of("TYPE_CAT VARCHAR, TYPE_SCHEM VARCHAR, TYPE_NAME VARCHAR, SUPERTYPE_CAT VARCHAR, "
                + "SUPERTYPE_SCHEM VARCHAR, SUPERTYPE_NAME VARCHAR").build();
    }

    @Override
    public ResultSet getSuperTables(String catalog, String schemaPattern, String tableNamePattern) throws SQLException {
        return RowBuilder.of("TABLE_CAT VARCHAR, TABLE_SCHEM VARCHAR, TABLE_NAME VARCHAR, SUPERTABLE_NAME VARCHAR").build();
    }

    @Override
    public ResultSet getAttributes(String catalog, String schemaPattern, String typeNamePattern,
            String attributeNamePattern) throws SQLException {
        return RowBuilder.of("TYPE_CAT VARCHAR, TYPE_SCHEM VARCHAR, TYPE_NAME VARCHAR, ATTR_NAME VARCHAR, "
                + "DATA_TYPE INTEGER, ATTR_TYPE_NAME VARCHAR, ATTR_SIZE INTEGER, DECIMAL_DIGITS INTEGER, "
                + "NUM_PREC_RADIX INTEGER, NULLABLE INTEGER, REMARKS VARCHAR, ATTR_DEF VARCHAR, SQL_DATA_TYPE INTEGER, "
                + "SQL_DATETIME_SUB INTEGER, CHAR_OCTET_LENGTH INTEGER, ORDINAL_POSITION INTEGER, IS_NULLABLE VARCHAR, "
                + "SCOPE_CATALOG VARCHAR, SCOPE_SCHEMA VARCHAR, SCOPE_TABLE VARCHAR, SOURCE_DATA_TYPE SMALLINT").build();
    }

    /** Returns nothing: no column is hidden. */
    @Override
    public ResultSet getPseudoColumns(String catalog, String schemaPattern, String tableNamePattern,
            String columnNamePattern) throws SQLException {
        return RowBuilder.of("TABLE_CAT VARCHAR, TABLE_SCHEM VARCHAR, TABLE_NAME VARCHAR, COLUMN_NAME VARCHAR, "
                + "DATA_TYPE INTEGER, COLUMN_SIZE INTEGER, DECIMAL_DIGITS INTEGER, NUM_PREC_RADIX INTEGER, "
                + "COLUMN_USAGE VARCHAR, REMARKS VARCHAR, CHAR_OCTET_LENGTH INTEGER, IS_NULLABLE VARCHAR").build();
    }
}
