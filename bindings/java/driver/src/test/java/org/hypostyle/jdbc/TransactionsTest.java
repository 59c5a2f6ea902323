/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.hypostyle.jdbc.Databases.fails;
import static org.hypostyle.jdbc.Databases.query;
import static org.hypostyle.jdbc.Databases.run;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.SQLTransactionRollbackException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Transactions and the state of connections, on databases of each kind. */
class TransactionsTest {
    private static int tables;

    static List<String> urls() throws Exception {
        return Databases.urls();
    }

    private static synchronized String table() {
        return "tx_" + tables++;
    }

    @ParameterizedTest
    @MethodSource("urls")
    void commitsAndRollsBack(String url) throws SQLException {
        String t = table();
        try (Connection connection = DriverManager.getConnection(url)) {
            run(connection, "CREATE TABLE " + t + " (a INTEGER)");
            fails("25P01", connection::commit);
            fails("25P01", connection::setSavepoint);
            connection.setAutoCommit(false);
            connection.commit();
            run(connection, "INSERT INTO " + t + " VALUES (1)");
            connection.rollback();
            run(connection, "INSERT INTO " + t + " VALUES (2)");
            Savepoint unnamed = connection.setSavepoint();
            run(connection, "INSERT INTO " + t + " VALUES (3)");
            Savepoint named = connection.setSavepoint("a \"name\"");
            assertEquals("a \"name\"", named.getSavepointName());
            fails("3B001", named::getSavepointId);
            run(connection, "INSERT INTO " + t + " VALUES (4)");
            connection.rollback(named);
            connection.releaseSavepoint(named);
            assertEquals("2;3", query(connection, "SELECT a FROM " + t + " ORDER BY a"));
            connection.rollback(unnamed);
            assertEquals("2", query(connection, "SELECT a FROM " + t));
            fails("42P01", () -> run(connection, "SELECT * FROM nothing_at_all"));
            fails("25P02", () -> run(connection, "SELECT 1"));
            assertTrue(connection.isValid(1));
            connection.rollback(unnamed);
            // Turning auto-commit on commits.
            connection.setAutoCommit(true);
            assertEquals("2", query(connection, "SELECT a FROM " + t));
        }
    }

    @ParameterizedTest
    @MethodSource("urls")
    void aConnectionThatIsReadOnlyRefusesChanges(String url) throws SQLException {
        String t = table();
        try (Connection connection = DriverManager.getConnection(url)) {
            run(connection, "CREATE TABLE " + t + " (a INTEGER)", "INSERT INTO " + t + " VALUES (1)");
            connection.setReadOnly(true);
            assertTrue(connection.isReadOnly());
            assertEquals("1", query(connection, "SELECT a FROM " + t));
            fails("25006", () -> run(connection, "INSERT INTO " + t + " VALUES (2)"));
            connection.setAutoCommit(false);
            assertEquals("1", query(connection, "SELECT a FROM " + t));
            fails("25006", () -> run(connection, "INSERT INTO " + t + " VALUES (2)"));
            fails("25001", () -> connection.setReadOnly(false));
            connection.rollback();
            connection.setReadOnly(false);
            run(connection, "INSERT INTO " + t + " VALUES (2)");
            connection.commit();
            assertEquals("1;2", query(connection, "SELECT a FROM " + t + " ORDER BY a"));
        }
    }

    /** A pool asks whether a connection is alive, and sets it up only then: no transaction has begun. */
    @ParameterizedTest
    @MethodSource("urls")
    void questionsOfPoolsLeaveNoTransaction(String url) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url)) {
            connection.setAutoCommit(false);
            assertTrue(connection.isValid(30));
            assertNotNull(connection.getSchema());
            assertNotNull(connection.getCatalog());
            connection.setReadOnly(true);
            assertTrue(connection.isValid(30));
            connection.setReadOnly(false);
            run(connection, "SELECT 1");
            assertTrue(connection.isValid(30));
            // The program's own transaction goes on.
            fails("25001", () -> connection.setReadOnly(true));
            connection.rollback();
        }
    }

    @ParameterizedTest
    @MethodSource("urls")
    void resultsOutliveTransactionsUnlessTheyMustNot(String url) throws SQLException {
        String t = table();
        try (Connection connection = DriverManager.getConnection(url)) {
            run(connection, "CREATE TABLE " + t + " AS SELECT value AS a FROM generate_series(1, 100000) AS s (value)");
            connection.setAutoCommit(false);
            try (Statement held = connection.createStatement(); Statement closed = connection.createStatement(
                    ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY, ResultSet.CLOSE_CURSORS_AT_COMMIT)) {
                ResultSet first = held.executeQuery("SELECT a + 1 FROM " + t);
                ResultSet second = closed.executeQuery("SELECT a FROM " + t);
                run(connection, "DELETE FROM " + t);
                connection.commit();
                assertTrue(second.isClosed());
                int count = 0;
                while (first.next()) {
                    count++;
                }
                assertEquals(100_000, count);
                // Turning auto-commit on commits, too.
                ResultSet third = closed.executeQuery("SELECT 1");
                connection.setAutoCommit(true);
                assertTrue(third.isClosed());
            }
        }
    }

    @ParameterizedTest
    @MethodSource("urls")
    void stateOfAConnection(String url) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url)) {
            assertEquals(Connection.TRANSACTION_REPEATABLE_READ, connection.getTransactionIsolation());
            connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            assertEquals(Connection.TRANSACTION_READ_COMMITTED, connection.getTransactionIsolation());
            assertInstanceOf(SQLFeatureNotSupportedException.class,
                    fails("0A000", () -> connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE)));
            fails("HY024", () -> connection.setTransactionIsolation(99));
            run(connection, "CREATE SCHEMA IF NOT EXISTS app");
            connection.setSchema("app");
            assertEquals("app", connection.getSchema());
            assertNotNull(connection.getCatalog());
            connection.setCatalog(connection.getCatalog());
            fails("3F000", () -> connection.setSchema("no such schema"));
            connection.setClientInfo("ApplicationName", "test");
            assertEquals("test", connection.getClientInfo("ApplicationName"));
            assertNull(connection.getWarnings());
            connection.setClientInfo("Colour", "red");
            assertEquals("01S00", connection.getWarnings().getSQLState());
            connection.clearWarnings();
            assertTrue(connection.isValid(1));
            connection.close();
            assertFalse(connection.isValid(1));
            fails("08003", connection::createStatement);
            connection.close();
        }
    }

    @ParameterizedTest
    @MethodSource("urls")
    void theSecondOfTwoThatChangeARowFails(String url) throws SQLException {
        if (url.endsWith(":memory:")) {
            url = url + "conflict";
        }
        String t = table();
        try (Connection one = DriverManager.getConnection(url); Connection other = DriverManager.getConnection(url)) {
            run(one, "CREATE TABLE " + t + " (a INTEGER)", "INSERT INTO " + t + " VALUES (1)");
            one.setAutoCommit(false);
            other.setAutoCommit(false);
            run(one, "UPDATE " + t + " SET a = 2");
            run(other, "UPDATE " + t + " SET a = 3");
            one.commit();
            assertInstanceOf(SQLTransactionRollbackException.class, fails("40001", other::commit));
            other.rollback();
            assertEquals("2", query(other, "SELECT a FROM " + t));
        }
    }
}
