/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.hypostyle.jdbc.Databases.run;
import static org.hypostyle.jdbc.Databases.some;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Types;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What the driver tells of tables, columns, keys, indexes, functions and types. */
class MetaDataTest {
    private Connection connection;
    private DatabaseMetaData data;

    @BeforeEach
    void open() throws SQLException {
        connection = Databases.memory();
        data = connection.getMetaData();
        run(connection, "CREATE SCHEMA app",
                "CREATE TABLE parent (b INTEGER, a INTEGER, name VARCHAR NOT NULL UNIQUE, PRIMARY KEY (b, a))",
                "CREATE TABLE app.child (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x INTEGER, y INTEGER DEFAULT 7, "
                        + "total DECIMAL(9,2), twice INTEGER GENERATED ALWAYS AS (y * 2) STORED, l INTEGER[], t TIMESTAMP(3), "
                        + "CONSTRAINT fk FOREIGN KEY (x, y) REFERENCES parent (b, a) ON DELETE CASCADE ON UPDATE SET NULL "
                        + "DEFERRABLE INITIALLY DEFERRED)",
                "CREATE INDEX child_total ON app.child (total, x)", "CREATE VIEW seen AS SELECT name FROM parent",
                "CREATE MATERIALIZED VIEW kept AS SELECT 1 AS one", "CREATE TEMP TABLE passing (a INTEGER)",
                "COMMENT ON TABLE parent IS 'elders'", "COMMENT ON COLUMN parent.name IS 'called'");
    }

    @AfterEach
    void close() throws SQLException {
        connection.close();
    }

    @Test
    void tables() throws SQLException {
        String[] told = {"TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS"};
        assertEquals("main,kept,MATERIALIZED VIEW,null;app,child,TABLE,null;main,parent,TABLE,elders;"
                + "main,passing,TEMPORARY TABLE,null;main,seen,VIEW,null", some(data.getTables(null, null, "%",
                        new String[] {"TABLE", "VIEW", "TEMPORARY TABLE", "MATERIALIZED VIEW"}), told));
        assertEquals("app,child,TABLE,null", some(data.getTables(connection.getCatalog(), "a%", "ch_ld", null), told));
        assertEquals("", some(data.getTables(null, null, "ch\\_ld", null), told));
        assertEquals("", some(data.getTables(null, "app", null, new String[0]), told));
        assertTrue(some(data.getTables(null, "information_schema", "columns", null), told).contains("SYSTEM VIEW"));
        assertTrue(some(data.getSchemas(), "TABLE_SCHEM").contains("app"));
        assertTrue(some(data.getCatalogs(), "TABLE_CAT").contains(connection.getCatalog()));
    }

    @Test
    void columns() throws SQLException {
        assertEquals("id,-5,BIGINT,19,0,0,null,YES,NO,1;x,4,INTEGER,10,0,1,null,NO,NO,2;y,4,INTEGER,10,0,1,7,NO,NO,3;"
                + "total,3,DECIMAL,9,2,1,null,NO,NO,4;twice,4,INTEGER,10,0,1,y * 2,NO,YES,5;"
                + "l,2003,INTEGER[],null,null,1,null,NO,NO,6;t,93,TIMESTAMP_MS,32,3,1,null,NO,NO,7",
                some(data.getColumns(null, "app", "child", null), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE",
                        "DECIMAL_DIGITS", "NULLABLE", "COLUMN_DEF", "IS_AUTOINCREMENT", "IS_GENERATEDCOLUMN",
                        "ORDINAL_POSITION"));
        assertEquals("name,called,NO", some(data.getColumns(null, null, "par%", "n%"), "COLUMN_NAME", "REMARKS",
                "IS_NULLABLE"));
        run(connection, "CREATE MATERIALIZED VIEW app.wide AS SELECT 1 AS a, 'x' AS b, 1.5::DECIMAL(9,2) AS c, [1] AS d, "
                + "TIMESTAMP '2026-01-31 01:02:03' AS e, 1::REAL AS f, true AS g");
        assertEquals("a,-5,BIGINT,19;b,12,VARCHAR,2147483647;c,3,DECIMAL,9;d,2003,BIGINT[],null;e,93,TIMESTAMP,32;"
                + "f,7,FLOAT,8;g,16,BOOLEAN,1", some(data.getColumns(null, "app", "wide", null), "COLUMN_NAME", "DATA_TYPE",
                        "TYPE_NAME", "COLUMN_SIZE"));
        try (ResultSet rows = data.getColumns(null, "app", "child", "id")) {
            assertEquals(24, rows.getMetaData().getColumnCount());
            assertEquals(Types.INTEGER, rows.getMetaData().getColumnType(5));
        }
    }

    @Test
    void keys() throws SQLException {
        assertEquals("a,2,parent_pkey;b,1,parent_pkey",
                some(data.getPrimaryKeys(null, "main", "parent"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        String[] told = {"PKTABLE_SCHEM", "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_SCHEM", "FKTABLE_NAME", "FKCOLUMN_NAME",
            "KEY_SEQ", "UPDATE_RULE", "DELETE_RULE", "FK_NAME", "PK_NAME", "DEFERRABILITY"};
        String key = "main,parent,b,app,child,x,1,2,0,fk,parent_pkey,5;main,parent,a,app,child,y,2,2,0,fk,parent_pkey,5";
        assertEquals(key, some(data.getImportedKeys(null, "app", "child"), told));
        assertEquals(key, some(data.getExportedKeys(null, null, "parent"), told));
        assertEquals(key, some(data.getCrossReference(null, null, "parent", null, null, "child"), told));
        assertEquals("", some(data.getImportedKeys(null, null, "parent"), told));
        assertEquals("id,-5", some(data.getBestRowIdentifier(null, "app", "child", DatabaseMetaData.bestRowSession, false),
                "COLUMN_NAME", "DATA_TYPE"));
    }

    @Test
    void indexes() throws SQLException {
        String[] told = {"NON_UNIQUE", "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME"};
        assertEquals("false,child_pkey,1,id;true,child_total,1,total;true,child_total,2,x",
                some(data.getIndexInfo(null, "app", "child", false, true), told));
        assertEquals("false,parent_name_key,1,name;false,parent_pkey,1,b;false,parent_pkey,2,a",
                some(data.getIndexInfo(null, null, "parent", true, true), told));
    }

    @Test
    void typesAndFunctions() throws SQLException {
        int last = Integer.MIN_VALUE;
        try (ResultSet rows = data.getTypeInfo()) {
            while (rows.next()) {
                assertTrue(last <= rows.getInt("DATA_TYPE"));
                last = rows.getInt("DATA_TYPE");
                Databases.query(connection, "SELECT NULL::" + rows.getString("TYPE_NAME"));
            }
        }
        assertTrue(some(data.getFunctions(null, null, "upper"), "FUNCTION_NAME").contains("upper"));
        assertTrue(some(data.getFunctionColumns(null, null, "upper", null), "COLUMN_TYPE", "TYPE_NAME")
                .contains("1,character varying"));
        assertTrue(data.getSQLKeywords().contains("analyze"));
        assertFalse(Arrays.asList(data.getSQLKeywords().split(",")).contains("select"));
        assertEquals("Hypostyle", data.getDatabaseProductName());
        assertEquals(Library.version(), data.getDatabaseProductVersion());
    }

    /** Each method of the metadata gives an answer: none is unsupported, and none fails. */
    @ParameterizedTest
    @MethodSource("urls")
    void everyMethodAnswers(String url) throws Exception {
        try (Connection other = DriverManager.getConnection(url)) {
            DatabaseMetaData all = other.getMetaData();
            for (Method method : DatabaseMetaData.class.getMethods()) {
                Object[] arguments = Arrays.stream(method.getParameterTypes()).map(MetaDataTest::argument).toArray();
                try {
                    Object answer = method.invoke(all, arguments);
                    if (answer instanceof ResultSet rows) {
                        rows.next();
                        rows.close();
                    }
                } catch (InvocationTargetException error) {
                    boolean isExcused = method.getName().equals("unwrap")
                            && !(error.getCause() instanceof SQLFeatureNotSupportedException);
                    assertTrue(isExcused, method + ": " + error.getCause());
                }
            }
        }
    }

    static List<String> urls() throws Exception {
        return Databases.urls();
    }

    private static Object argument(Class<?> type) {
        return type == int.class ? (Object) 1 : type == boolean.class ? Boolean.TRUE : type == Class.class ? String.class
                : null;
    }
}
