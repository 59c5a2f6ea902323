/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.hypostyle.jdbc.Databases.fails;
import static org.hypostyle.jdbc.Databases.query;
import static org.hypostyle.jdbc.Databases.run;
import static org.hypostyle.jdbc.Databases.some;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.sql.SQLTimeoutException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A database of PostgreSQL, which scripts/with_postgres.sh starts. */
class PostgresTest {
    private Connection connection;

    @BeforeEach
    void open() throws SQLException {
        String address = System.getenv("HYPOSTYLE_POSTGRES");
        assumeTrue(address != null, "HYPOSTYLE_POSTGRES is not set: run the tests by scripts/with_postgres.sh");
        connection = DriverManager.getConnection("jdbc:hypostyle:" + address);
    }

    @AfterEach
    void close() throws SQLException {
        if (connection != null) {
            connection.close();
        }
    }

    @Test
    void statements() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            assertFalse(statement.execute("CREATE TEMP TABLE t (a integer PRIMARY KEY, b text, n numeric(9,2), d date)"));
            assertEquals(2, statement.executeUpdate("INSERT INTO t VALUES (1, 'é', 1.50, '2024-02-29'), (2, NULL, NULL, NULL)"));
            try (ResultSet rows = statement.executeQuery("SELECT * FROM t ORDER BY a")) {
                assertEquals(Types.DECIMAL, rows.getMetaData().getColumnType(3));
                assertEquals(9, rows.getMetaData().getPrecision(3));
                assertEquals(2, rows.getMetaData().getScale(3));
                assertTrue(rows.next());
                assertEquals(1, rows.getInt("a"));
                assertEquals("é", rows.getString(2));
                assertEquals(new BigDecimal("1.50"), rows.getBigDecimal(3));
                assertEquals(Date.valueOf("2024-02-29"), rows.getDate(4));
                assertTrue(rows.next());
                assertEquals(null, rows.getString(2));
                assertTrue(rows.wasNull());
                assertFalse(rows.next());
            }
            assertInstanceOf(SQLIntegrityConstraintViolationException.class,
                    fails("23505", () -> statement.execute("INSERT INTO t VALUES (1)")));
            fails("42703", () -> statement.execute("SELECT nosuch FROM t"));
            fails("22012", () -> statement.executeQuery("SELECT 1 / (a - 1) FROM t"));
            try (ResultSet rows = statement.executeQuery("UPDATE t SET b = 'y' WHERE a = 2 RETURNING b")) {
                assertEquals("y", Databases.rows(rows));
            }
        }
        assertEquals("100000,5000050000", query(connection, "SELECT count(*), sum(i)::bigint FROM generate_series(1, 100000) i"));
    }

    @Test
    void parameters() throws SQLException {
        run(connection, "CREATE TEMP TABLE t (a integer, b text, n numeric(9,2), d date)");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?, ?, ?, ?)")) {
            assertEquals(4, insert.getParameterMetaData().getParameterCount());
            for (int row = 1; row <= 3; row++) {
                insert.setInt(1, row);
                insert.setString(2, "row " + row);
                insert.setBigDecimal(3, new BigDecimal("1.25"));
                insert.setDate(4, Date.valueOf("2024-01-0" + row));
                if (row == 1) {
                    assertEquals(1, insert.executeUpdate());
                } else {
                    insert.addBatch();
                }
            }
            assertArrayEquals(new int[] {1, 1}, insert.executeBatch());
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT a, d FROM t WHERE b = ? AND n > ? ORDER BY a")) {
            select.setString(1, "row 3");
            select.setBigDecimal(2, BigDecimal.ONE);
            try (ResultSet rows = select.executeQuery()) {
                assertEquals("3,2024-01-03", Databases.rows(rows));
            }
        }
    }

    @Test
    void transactions() throws SQLException {
        run(connection, "CREATE TEMP TABLE t (a integer)");
        assertEquals(Connection.TRANSACTION_READ_COMMITTED, connection.getTransactionIsolation());
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        assertEquals(Connection.TRANSACTION_SERIALIZABLE, connection.getTransactionIsolation());
        connection.setAutoCommit(false);
        assertEquals("serializable", query(connection, "SHOW transaction_isolation"));
        connection.rollback();
        connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        assertEquals("repeatable read", query(connection, "SHOW transaction_isolation"));
        run(connection, "INSERT INTO t VALUES (1)");
        connection.rollback();
        run(connection, "INSERT INTO t VALUES (2)");
        Savepoint savepoint = connection.setSavepoint();
        run(connection, "INSERT INTO t VALUES (3)");
        connection.rollback(savepoint);
        connection.commit();
        try (Statement statement = connection.createStatement()) {
            fails("22012", () -> statement.execute("SELECT 1 / 0"));
            fails("25P02", () -> statement.execute("SELECT 1"));
        }
        connection.rollback();
        connection.setAutoCommit(true);
        assertEquals("2", query(connection, "SELECT a FROM t"));
    }

    @Test
    void timeouts() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            assertThrows(SQLTimeoutException.class, () -> statement.execute("SELECT pg_sleep(60)"));
        }
        assertTrue(connection.isValid(5));
        assertEquals("1", query(connection, "SELECT 1"));
    }

    @Test
    void catalog() throws SQLException {
        run(connection, "DROP SCHEMA IF EXISTS jdbc CASCADE", "CREATE SCHEMA jdbc",
                "CREATE TABLE jdbc.parent (id integer PRIMARY KEY, name varchar(10) NOT NULL)",
                "CREATE TABLE jdbc.child (id bigint GENERATED ALWAYS AS IDENTITY, parent integer REFERENCES jdbc.parent, "
                        + "n numeric(9,2) DEFAULT 1.5, at timestamp(3), zoned timestamptz, doc jsonb, tags text[], net inet, "
                        + "free numeric)",
                "COMMENT ON COLUMN jdbc.child.n IS 'a number'", "CREATE INDEX child_parent ON jdbc.child (parent, n)");
        DatabaseMetaData data = connection.getMetaData();
        assertEquals("PostgreSQL", data.getDatabaseProductName());
        assertTrue(data.getDatabaseMajorVersion() >= 14);
        assertTrue(some(data.getSchemas(), "TABLE_SCHEM").contains("jdbc"));
        assertEquals("child,TABLE;parent,TABLE", some(data.getTables(null, "jdbc", "%", null), "TABLE_NAME", "TABLE_TYPE"));
        assertEquals("id,BIGINT;parent,INTEGER;n,DECIMAL;at,TIMESTAMP;zoned,TIMESTAMP WITH TIME ZONE;doc,JSON;tags,VARCHAR[];"
                + "net,VARCHAR;free,VARCHAR", some(data.getColumns(null, "jdbc", "child", "%"), "COLUMN_NAME", "TYPE_NAME"));
        assertEquals("9,2,1.5,a number,YES,NO", some(data.getColumns(null, "jdbc", "child", "n"), "COLUMN_SIZE",
                "DECIMAL_DIGITS", "COLUMN_DEF", "REMARKS", "IS_NULLABLE", "IS_AUTOINCREMENT"));
        assertEquals("YES,NO", some(data.getColumns(null, "jdbc", "child", "id"), "IS_AUTOINCREMENT", "IS_GENERATEDCOLUMN"));
        assertEquals("id,1", some(data.getPrimaryKeys(null, "jdbc", "parent"), "COLUMN_NAME", "KEY_SEQ"));
        assertEquals("id,INTEGER", some(data.getBestRowIdentifier(null, "jdbc", "parent", 0, true), "COLUMN_NAME", "TYPE_NAME"));
        assertEquals("parent,id,parent", some(data.getImportedKeys(null, "jdbc", "child"), "PKTABLE_NAME", "PKCOLUMN_NAME",
                "FKCOLUMN_NAME"));
        assertEquals("child_parent,1,parent;child_parent,2,n", some(data.getIndexInfo(null, "jdbc", "child", false, true),
                "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME"));
        assertTrue(some(data.getFunctions(null, "pg_catalog", "lower"), "FUNCTION_NAME").startsWith("lower"));
        connection.setSchema("jdbc");
        assertEquals("jdbc", connection.getSchema());
        assertEquals("0", query(connection, "SELECT count(*) FROM parent"));
        fails("3F000", () -> connection.setSchema("nosuch"));
        assertThrows(SQLFeatureNotSupportedException.class, () -> connection.setCatalog("nosuch"));
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO child (n) VALUES (?)",
                Statement.RETURN_GENERATED_KEYS)) {
            insert.setBigDecimal(1, BigDecimal.TEN);
            assertEquals(1, insert.executeUpdate());
            try (ResultSet keys = insert.getGeneratedKeys()) {
                assertEquals("1", Databases.rows(keys));
            }
        }
        run(connection, "DROP SCHEMA jdbc CASCADE");
    }

    @Test
    void namesOfTypes() {
        assertEquals("DECIMAL(9,2)[]", SqlType.nameOfPostgres("numeric(9,2)[]"));
        assertEquals("TIME", SqlType.nameOfPostgres("time(3) without time zone"));
        assertEquals("VARCHAR", SqlType.nameOfPostgres("time with time zone"));
        assertEquals("TIMESTAMP", SqlType.nameOfPostgres("timestamp without time zone"));
        assertEquals("TIMESTAMP WITH TIME ZONE", SqlType.nameOfPostgres("timestamp(6) with time zone"));
        assertEquals("INTERVAL", SqlType.nameOfPostgres("interval day to second"));
        assertEquals("VARCHAR", SqlType.nameOfPostgres("character varying(10)"));
    }
}
