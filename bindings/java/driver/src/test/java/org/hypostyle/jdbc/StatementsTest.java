/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.hypostyle.jdbc.Databases.fails;
import static org.hypostyle.jdbc.Databases.query;
import static org.hypostyle.jdbc.Databases.run;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Blob;
import java.sql.CallableStatement;
import java.sql.Clob;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.JDBCType;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLDataException;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.sql.SQLSyntaxErrorException;
import java.sql.SQLTimeoutException;
import java.sql.Statement;
import java.sql.Types;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Statements and results: what they run, count, return, and refuse. */
class StatementsTest {
    private Connection connection;

    @BeforeEach
    void open() throws SQLException {
        connection = Databases.memory();
    }

    @AfterEach
    void close() throws SQLException {
        connection.close();
    }

    @Test
    void countsAndRows() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            assertFalse(statement.execute("CREATE TABLE t (a INTEGER)"));
            assertEquals(0, statement.getUpdateCount());
            assertEquals(3, statement.executeUpdate("INSERT INTO t VALUES (1), (2), (3)"));
            assertEquals(2, statement.executeLargeUpdate("UPDATE t SET a = a + 10 WHERE a > 1"));
            assertTrue(statement.execute("SELECT a FROM t ORDER BY a"));
            assertEquals(-1, statement.getUpdateCount());
            assertEquals("1;12;13", Databases.rows(statement.getResultSet()));
            assertFalse(statement.getMoreResults());
            assertEquals(-1, statement.getUpdateCount());
            fails("02000", () -> statement.executeQuery("DELETE FROM t WHERE a = 1"));
            fails("0100E", () -> statement.executeUpdate("SELECT 1"));
            try (ResultSet rows = statement.executeQuery("UPDATE t SET a = 0 WHERE a = 12 RETURNING a")) {
                assertEquals("0", Databases.rows(rows));
            }
        }
    }

    @Test
    void severalStatementsInAText() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            assertFalse(statement.execute("CREATE TABLE t (a VARCHAR); INSERT INTO t VALUES ('x;y'); SELECT a FROM t; "
                    + "SELECT 1 -- the end;"));
            assertEquals(0, statement.getUpdateCount());
            assertFalse(statement.getMoreResults());
            assertEquals(1, statement.getUpdateCount());
            assertTrue(statement.getMoreResults());
            ResultSet first = statement.getResultSet();
            assertTrue(statement.getMoreResults(Statement.KEEP_CURRENT_RESULT));
            assertEquals("x;y", Databases.rows(first));
            ResultSet second = statement.getResultSet();
            assertEquals("1", Databases.rows(second));
            assertFalse(statement.getMoreResults(Statement.CLOSE_ALL_RESULTS));
            assertTrue(first.isClosed());
            assertTrue(second.isClosed());
            assertEquals(-1, statement.getUpdateCount());
        }
    }

    @Test
    void errorsHaveTheirClassesAndStates() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)");
        try (Statement statement = connection.createStatement()) {
            assertInstanceOf(SQLSyntaxErrorException.class, fails("42601", () -> statement.execute("SELEC 1")));
            SQLException unknown = fails("42703", () -> statement.execute("SELECT nothing"));
            assertTrue(unknown.getMessage().contains("Position: 8"), unknown.getMessage());
            assertInstanceOf(SQLIntegrityConstraintViolationException.class,
                    fails("23505", () -> statement.execute("INSERT INTO t VALUES (1)")));
            assertInstanceOf(SQLDataException.class, fails("22012", () -> statement.execute("SELECT 1 / (a - 1) FROM t")));
            fails("22021", () -> statement.execute("SELECT '\ud800'"));
            fails("HY009", () -> statement.execute(null));
            fails("42601", () -> statement.execute("SELECT {fn upper('a')"));
        }
    }

    @Test
    void parameters() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER, b VARCHAR, c INTEGER[], d DATE)");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?, ?, ?, ?)")) {
            insert.setInt(1, 1);
            fails("07001", insert::executeUpdate);
            insert.setString(2, "b");
            insert.setArray(3, connection.createArrayOf("INTEGER", new Object[] {1, null, 3}));
            insert.setString(4, "2026-01-31");
            assertEquals(1, insert.executeUpdate());
            insert.setInt(1, 2);
            assertEquals(1, insert.executeUpdate());
            insert.clearParameters();
            fails("07001", insert::executeUpdate);
            fails("07009", () -> insert.setInt(5, 1));
            fails("HY010", () -> insert.executeUpdate("SELECT 1"));
            fails("22018", () -> insert.setObject(1, new Object()));
            fails("22003", () -> insert.setObject(1, 1L << 40, Types.INTEGER));
            fails("22015", () -> insert.setObject(1, java.time.Period.of(Integer.MAX_VALUE, 0, 0)));
            fails("22015", () -> insert.setObject(1, java.time.Duration.ofDays(1 << 20)));
        }
        assertEquals("1,b,[1, NULL, 3],2026-01-31;2,b,[1, NULL, 3],2026-01-31", query(connection, "SELECT * FROM t"));
        try (PreparedStatement statement = connection.prepareStatement("SELECT $2::INTEGER - $1::INTEGER")) {
            statement.setInt(1, 1);
            statement.setInt(2, 10);
            assertEquals("9", Databases.rows(statement.executeQuery()));
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT a FROM t WHERE a = ANY(?) AND ? < 5")) {
            statement.setObject(1, List.of(2, 3));
            statement.setInt(2, 1);
            assertEquals("2", Databases.rows(statement.executeQuery()));
        }
    }

    @Test
    void parameterMetaData() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER, b DECIMAL(9,2))");
        try (PreparedStatement statement = connection.prepareStatement("SELECT a, b FROM t WHERE a = ? AND b < ?")) {
            ParameterMetaData parameters = statement.getParameterMetaData();
            assertEquals(2, parameters.getParameterCount());
            assertEquals(Types.INTEGER, parameters.getParameterType(1));
            assertEquals("java.lang.Integer", parameters.getParameterClassName(1));
            assertEquals(Types.DECIMAL, parameters.getParameterType(2));
            assertEquals(2, parameters.getScale(2));
            assertEquals(ParameterMetaData.parameterModeIn, parameters.getParameterMode(2));
            fails("07009", () -> parameters.getParameterType(3));
            ResultSetMetaData columns = statement.getMetaData();
            assertEquals(2, columns.getColumnCount());
            assertEquals("b", columns.getColumnLabel(2));
            assertEquals(Types.DECIMAL, columns.getColumnType(2));
            assertEquals(9, columns.getPrecision(2));
            assertEquals("DECIMAL", columns.getColumnTypeName(2));
        }
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t VALUES (?, ?)")) {
            assertNull(statement.getMetaData());
        }
    }

    @Test
    void generatedKeys() throws SQLException {
        run(connection, "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \"Name\" VARCHAR, n INTEGER DEFAULT 7)",
                "CREATE TABLE u (k INTEGER PRIMARY KEY, v VARCHAR)");
        try (Statement statement = connection.createStatement()) {
            assertEquals(2, statement.executeUpdate("INSERT INTO t (\"Name\") VALUES ('a'), ('b');",
                    Statement.RETURN_GENERATED_KEYS));
            assertEquals("1;2", Databases.rows(statement.getGeneratedKeys()));
            statement.executeUpdate("INSERT INTO t (\"Name\") VALUES ('c') -- comment", new String[] {"n", "id"});
            assertEquals("7,3", Databases.rows(statement.getGeneratedKeys()));
            statement.executeUpdate("INSERT INTO main.t (\"Name\") VALUES ('d')", new int[] {2});
            assertEquals("d", Databases.rows(statement.getGeneratedKeys()));
            statement.executeUpdate("INSERT INTO u VALUES (5, 'x')", Statement.RETURN_GENERATED_KEYS);
            assertEquals("5", Databases.rows(statement.getGeneratedKeys()));
            statement.executeUpdate("DELETE FROM u");
            assertEquals("", Databases.rows(statement.getGeneratedKeys()));
            fails("42703", () -> statement.executeUpdate("INSERT INTO u VALUES (6, 'x')", new int[] {3}));
        }
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t (\"Name\") VALUES (?)",
                Statement.RETURN_GENERATED_KEYS)) {
            for (String name : List.of("e", "f", "g")) {
                statement.setString(1, name);
                statement.addBatch();
            }
            assertEquals(3, statement.executeBatch().length);
            assertEquals("5;6;7", Databases.rows(statement.getGeneratedKeys()));
            statement.setString(1, "h");
            assertEquals(1, statement.executeUpdate());
            assertEquals("8", Databases.rows(statement.getGeneratedKeys()));
        }
        keysOfEachRowOfABatch();
    }

    /** A temporary table comes before another one of its name; comments stand where white space may. */
    @Test
    void tablesAreFoundAsTheDatabaseFindsThem() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)", "CREATE TABLE u (a INTEGER PRIMARY KEY, b INTEGER)",
                "CREATE TEMP TABLE u (a INTEGER, b INTEGER PRIMARY KEY)", "CREATE TEMP TABLE v (a INTEGER, b INTEGER)",
                "CREATE TABLE v (a INTEGER PRIMARY KEY, b INTEGER)");
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("/* INTO x */ INSERT /* t */ INTO -- here\n t VALUES (1, 2) -- end",
                    Statement.RETURN_GENERATED_KEYS);
            assertEquals("1", Databases.rows(statement.getGeneratedKeys()));
            statement.executeUpdate("INSERT INTO u VALUES (3, 4)", Statement.RETURN_GENERATED_KEYS);
            assertEquals("4", Databases.rows(statement.getGeneratedKeys()));
            statement.executeUpdate("INSERT INTO main.u VALUES (3, 4)", Statement.RETURN_GENERATED_KEYS);
            assertEquals("3", Databases.rows(statement.getGeneratedKeys()));
        }
        Map<String, Integer> queries = Map.of("SELECT a, b FROM u", ResultSet.CONCUR_UPDATABLE,
                "SELECT a, b FROM v", ResultSet.CONCUR_READ_ONLY, "SELECT a, b FROM main.v", ResultSet.CONCUR_UPDATABLE,
                "SELECT a /* x */, b -- y\n FROM /* z */ t", ResultSet.CONCUR_UPDATABLE);
        for (Map.Entry<String, Integer> query : queries.entrySet()) {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY,
                    ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery(query.getKey())) {
                assertEquals(query.getValue(), rows.getConcurrency(), query.getKey());
            }
        }
    }

    /** Whether the rows go as columns or one by one, and whatever the statement does with them. */
    private void keysOfEachRowOfABatch() throws SQLException {
        int count = 10_000;
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t (\"Name\", n) VALUES (?, ?)",
                new String[] {"id", "Name", "n"})) {
            for (int row = 0; row < count; row++) {
                insert.setString(1, "many");
                insert.setInt(2, row);
                insert.addBatch();
            }
            assertEquals(count, insert.executeBatch().length);
            ResultSet keys = insert.getGeneratedKeys();
            for (int row = 0; row < count; row++) {
                assertTrue(keys.next());
                assertEquals(9 + row, keys.getLong("id"));
                assertEquals(row, keys.getInt("n"));
            }
            assertFalse(keys.next());
            // Values of several types in a column are inserted row by row.
            insert.setString(1, "text");
            insert.setInt(2, 1);
            insert.addBatch();
            insert.setInt(1, 5);
            insert.addBatch();
            assertArrayEquals(new int[] {1, 1}, insert.executeBatch());
            assertEquals(count + 9 + ",text,1;" + (count + 10) + ",5,1", Databases.rows(insert.getGeneratedKeys()));
        }
        for (int type : new int[] {ResultSet.TYPE_FORWARD_ONLY, ResultSet.TYPE_SCROLL_INSENSITIVE}) {
            try (PreparedStatement update = new HypostylePreparedStatement(connection.unwrap(HypostyleConnection.class),
                    "UPDATE t SET n = n + 1 WHERE id < ?", type, ResultSet.CONCUR_READ_ONLY,
                    ResultSet.HOLD_CURSORS_OVER_COMMIT, new String[] {"id"})) {
                for (int limit : new int[] {3, 1, 2}) {
                    update.setInt(1, limit);
                    update.addBatch();
                }
                assertArrayEquals(new int[] {2, 0, 1}, update.executeBatch());
                try (ResultSet keys = update.getGeneratedKeys()) {
                    assertTrue(keys.next());
                    long first = keys.getLong(1);
                    assertTrue(keys.next());
                    assertEquals(3, first + keys.getLong(1));
                    assertTrue(keys.next());
                    assertEquals(1, keys.getLong(1));
                    assertFalse(keys.next());
                }
                update.setInt(1, 0);
                update.addBatch();
                assertArrayEquals(new int[] {0}, update.executeBatch());
                assertEquals("", Databases.rows(update.getGeneratedKeys()));
            }
        }
    }

    @Test
    void batches() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER, b VARCHAR, c DECIMAL(9,2), d TIMESTAMP)");
        int rows = 70_000;
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?, ?, ?, ?)")) {
            for (int row = 0; row < rows; row++) {
                insert.setInt(1, row);
                insert.setString(2, row % 3 == 0 ? null : "row " + row);
                insert.setBigDecimal(3, row % 2 == 0 ? new java.math.BigDecimal("1.5") : new java.math.BigDecimal("-2"));
                insert.setTimestamp(4, new java.sql.Timestamp(row * 1000L));
                insert.addBatch();
            }
            int[] counts = insert.executeBatch();
            assertEquals(rows, counts.length);
            assertEquals(rows, java.util.Arrays.stream(counts).sum());
            assertEquals(0, insert.executeBatch().length);
        }
        assertEquals(rows + "," + rows * 2 / 3 + ",-17500.00",
                query(connection, "SELECT count(*), count(b), sum(c) FROM t"));
        try (PreparedStatement update = connection.prepareStatement("UPDATE t SET b = ? WHERE a < ?")) {
            for (int limit : new int[] {1, 3, 0}) {
                update.setString(1, "new");
                update.setInt(2, limit);
                update.addBatch();
            }
            assertArrayEquals(new int[] {1, 3, 0}, update.executeBatch());
        }
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("DELETE FROM t WHERE a = 0");
            statement.addBatch("DELETE FROM t WHERE a < 3");
            assertArrayEquals(new int[] {1, 2}, statement.executeBatch());
            statement.addBatch("DELETE FROM t WHERE a = 3");
            statement.addBatch("DELETE FROM nothing");
            BatchUpdateException error = assertThrows(BatchUpdateException.class, statement::executeBatch);
            assertEquals("42P01", error.getSQLState());
            assertArrayEquals(new int[] {1}, error.getUpdateCounts());
        }
    }

    /** A column of a piece is one array, so that rows with long texts go in more pieces; a failure undoes all of them. */
    @Test
    void batchesOfLongTexts() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)");
        String text = "x".repeat(4 << 20);
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?, ?)")) {
            for (int row = 0; row < 20; row++) {
                insert.setInt(1, row);
                insert.setString(2, row % 5 == 0 ? null : text);
                insert.addBatch();
            }
            int[] counts = insert.executeBatch();
            assertEquals(20, java.util.Arrays.stream(counts).sum());
            assertEquals("20,16," + (16L << 22), query(connection, "SELECT count(*), count(b), sum(length(b)) FROM t"));
            for (int row = 30; row < 50; row++) {
                insert.setInt(1, row == 49 ? 0 : row);
                insert.setString(2, text);
                insert.addBatch();
            }
            BatchUpdateException error = assertThrows(BatchUpdateException.class, insert::executeBatch);
            assertEquals("23505", error.getSQLState());
            assertEquals("20", query(connection, "SELECT count(*) FROM t"));
        }
    }

    @Test
    void aBatchThatFailsTakesNoEffect() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)", "INSERT INTO t VALUES (2, 'old')");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?, ?)")) {
            for (int row = 0; row < 4; row++) {
                insert.setInt(1, row);
                insert.setString(2, "new");
                insert.addBatch();
            }
            BatchUpdateException error = assertThrows(BatchUpdateException.class, insert::executeBatch);
            assertEquals("23505", error.getSQLState());
            assertEquals(4, error.getUpdateCounts().length);
            assertEquals(Statement.EXECUTE_FAILED, error.getUpdateCounts()[0]);
            // Values of several types in a column are inserted row by row.
            insert.setInt(1, 10);
            insert.setString(2, "text");
            insert.addBatch();
            insert.setInt(1, 11);
            insert.setInt(2, 5);
            insert.addBatch();
            assertArrayEquals(new int[] {1, 1}, insert.executeBatch());
        }
        assertEquals("2,old;10,text;11,5", query(connection, "SELECT * FROM t ORDER BY a"));
    }

    @Test
    void scrolling() throws SQLException {
        String[] queries = {"SELECT a FROM t", "SELECT a FROM t WHERE a >= 0", "SELECT a + 0 FROM t"};
        run(connection, "CREATE TABLE t AS SELECT value::INTEGER AS a FROM generate_series(1, 100000) AS s (value)");
        for (String sql : queries) {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE,
                    ResultSet.CONCUR_READ_ONLY); ResultSet rows = statement.executeQuery(sql)) {
                assertTrue(rows.isBeforeFirst());
                assertTrue(rows.absolute(90_000));
                assertEquals(90_000, rows.getInt(1));
                assertEquals(90_000, rows.getRow());
                assertTrue(rows.relative(-1));
                assertEquals(89_999, rows.getInt(1));
                assertTrue(rows.last());
                assertTrue(rows.isLast());
                assertEquals(100_000, rows.getInt(1));
                assertFalse(rows.next());
                assertTrue(rows.isAfterLast());
                assertTrue(rows.previous());
                assertEquals(100_000, rows.getInt(1));
                assertTrue(rows.absolute(-2));
                assertEquals(99_999, rows.getInt(1));
                assertTrue(rows.first());
                assertTrue(rows.isFirst());
                assertFalse(rows.previous());
                assertTrue(rows.isBeforeFirst());
                assertTrue(rows.next());
                assertEquals(1, rows.getInt(1));
                assertFalse(rows.absolute(100_001));
                assertTrue(rows.isAfterLast());
                assertFalse(rows.absolute(-100_001));
                fails("24000", () -> rows.getInt(1));
                rows.afterLast();
                assertTrue(rows.relative(-100_000));
                assertEquals(1, rows.getInt(1));
                int sum = 0;
                rows.beforeFirst();
                while (rows.next()) {
                    sum += rows.getInt(1);
                }
                assertEquals((int) (100_000L * 100_001 / 2), sum);
            }
        }
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT 1")) {
            fails("HY106", rows::last);
            assertTrue(rows.next());
            assertTrue(rows.isLast());
            assertFalse(rows.next());
            assertTrue(rows.isAfterLast());
        }
    }

    @Test
    void limits() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(20_000);
            try (ResultSet rows = statement.executeQuery("SELECT * FROM generate_series(1, 100000)")) {
                int count = 0;
                while (rows.next()) {
                    count++;
                }
                assertEquals(20_000, count);
            }
            fails("HY024", () -> statement.setMaxRows(-1));
            fails("HY024", () -> statement.setQueryTimeout(-1));
        }
    }

    @Test
    void cancelling() throws Exception {
        try (Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    Thread.sleep(100);
                    statement.cancel();
                } catch (SQLException | InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            });
            canceller.start();
            fails("57014", () -> statement.executeQuery(Databases.ENDLESS));
            canceller.join();
            assertEquals("1", Databases.rows(statement.executeQuery("SELECT 1")));
            statement.setQueryTimeout(1);
            assertThrows(SQLTimeoutException.class, () -> statement.executeQuery(Databases.ENDLESS));
            assertEquals("1", Databases.rows(statement.executeQuery("SELECT 1")));
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT a + 1 FROM generate_series(1, 10000000) AS t (a)")) {
            assertTrue(rows.next());
            // No call runs, but the statement has rows to give.
            statement.cancel();
            fails("57014", () -> {
                while (rows.next()) {
                    rows.getLong(1);
                }
            });
            assertEquals("1", Databases.rows(statement.executeQuery("SELECT 1")));
            statement.cancel();
            assertEquals("1", Databases.rows(statement.executeQuery("SELECT 1")));
        }
        connection.setNetworkTimeout(Runnable::run, 100);
        assertEquals(100, connection.getNetworkTimeout());
        try (Statement statement = connection.createStatement()) {
            fails("08006", () -> statement.executeQuery(Databases.ENDLESS));
        }
        assertTrue(connection.isClosed());
    }

    @Test
    void escapes() throws SQLException {
        assertEquals("2026-01-31,12:00:00,2026-01-31 12:00:00.5,AB,3,2,{'d': 1}", query(connection,
                "SELECT {d '2026-01-31'}, {t '12:00:00'}, {ts '2026-01-31 12:00:00.5'}, {fn ucase('ab')}, "
                        + "{fn locate('c', 'abc')}, {fn dayofmonth({d '2026-01-02'})}, {'d': 1}"));
        assertEquals("2026-03-31 00:00:00,{d '1'},12", query(connection,
                "SELECT {fn timestampadd(SQL_TSI_MONTH, 2, {ts '2026-01-31 00:00:00'})}, '{d ''1''}', "
                        + "{fn convert('12', SQL_INTEGER)} /* {d 'x'} */"));
        assertEquals("SELECT DATE '2026-01-31'", connection.nativeSQL("SELECT {d '2026-01-31'}"));
        assertEquals("   x,aXXef,true,1.5,\\x6162,1.26", query(connection, "SELECT {fn space(3)} || 'x', "
                + "{fn insert('abcdef', 2, 3, 'XX')}, {fn convert(1, SQL_BIT)}, {fn convert('1.5', FLOAT)}, "
                + "{fn convert('ab', SQL_VARBINARY)}, {fn convert('1.256', DECIMAL(9,2))}"));
        assertEquals("true", query(connection, "SELECT {fn CURRENT_DATE} = {fn curdate()}"));
        assertEquals("1,null", query(connection,
                "SELECT * FROM {oj (VALUES (1)) AS a (x) LEFT OUTER JOIN (VALUES (2)) AS b (y) ON a.x = b.y}"));
        assertEquals("A", query(connection, "{call upper('a')}"));
        assertEquals("{'call': 1}", query(connection, "SELECT {call: 1}"));
    }

    /** What the metadata lists can be called. */
    @Test
    void functionsOfTheEscapes() throws SQLException {
        Map<String, String> arguments = Map.ofEntries(Map.entry("ATAN2", "1, 2"), Map.entry("MOD", "7, 3"),
                Map.entry("POWER", "2, 3"), Map.entry("PI", ""), Map.entry("RAND", ""), Map.entry("ROUND", "1.5, 0"),
                Map.entry("TRUNCATE", "1.5, 0"), Map.entry("CHAR", "65"), Map.entry("CONCAT", "'a', 'b'"),
                Map.entry("INSERT", "'abc', 2, 1, 'x'"), Map.entry("LEFT", "'abc', 2"), Map.entry("RIGHT", "'abc', 2"),
                Map.entry("LOCATE", "'b', 'abc', 1"), Map.entry("POSITION", "'b' IN 'abc'"), Map.entry("REPEAT", "'a', 2"),
                Map.entry("REPLACE", "'abc', 'b', 'x'"), Map.entry("SPACE", "2"), Map.entry("SUBSTRING", "'abc', 2, 1"),
                Map.entry("CURDATE", ""), Map.entry("CURTIME", ""), Map.entry("CURRENT_DATE", ""),
                Map.entry("CURRENT_TIME", ""), Map.entry("CURRENT_TIMESTAMP", ""), Map.entry("NOW", ""),
                Map.entry("EXTRACT", "YEAR FROM DATE '2026-01-31'"), Map.entry("TIMESTAMPADD", "SQL_TSI_DAY, 1, now()"),
                Map.entry("TIMESTAMPDIFF", "SQL_TSI_DAY, now(), now()"), Map.entry("DATABASE", ""), Map.entry("USER", ""),
                Map.entry("IFNULL", "NULL, 1"));
        DatabaseMetaData data = connection.getMetaData();
        Map<String, String> lists = Map.of(data.getNumericFunctions(), "0.5", data.getStringFunctions(), "'abc'",
                data.getTimeDateFunctions(), "TIMESTAMP '2026-01-31 01:02:03'", data.getSystemFunctions(), "");
        for (Map.Entry<String, String> list : lists.entrySet()) {
            for (String name : list.getKey().split(",")) {
                String sql = "SELECT {fn " + name + "(" + arguments.getOrDefault(name, list.getValue()) + ")}";
                assertFalse(query(connection, sql).equals("null"), sql);
            }
        }
    }

    @Test
    void calls() throws SQLException {
        try (CallableStatement call = connection.prepareCall("{? = call upper(?)}")) {
            call.registerOutParameter(1, Types.VARCHAR);
            call.setString(2, "abc");
            assertFalse(call.execute());
            assertEquals("ABC", call.getString(1));
            assertFalse(call.wasNull());
            fails("07009", () -> call.getString(2));
            call.registerOutParameter(1, JDBCType.VARCHAR);
            call.registerOutParameter("any", JDBCType.VARCHAR, 0);
            fails("HY009", () -> call.setObject((String) null, "abc", JDBCType.VARCHAR));
        }
        try (CallableStatement call = connection.prepareCall("{call power(?, 2)}")) {
            call.setInt(1, 3);
            assertTrue(call.execute());
            assertEquals("9.0", Databases.rows(call.getResultSet()));
        }
    }

    @Test
    void streamsAndLargeObjects() throws Exception {
        run(connection, "CREATE TABLE t (b BLOB, c VARCHAR)");
        byte[] bytes = new byte[100_000];
        bytes[99_999] = -1;
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?, ?)")) {
            insert.setBinaryStream(1, new ByteArrayInputStream(bytes));
            insert.setCharacterStream(2, new StringReader("Ärger"), 3);
            insert.executeUpdate();
            fails("22026", () -> insert.setCharacterStream(2, new StringReader("a"), 3));
            insert.setObject(1, new ByteArrayInputStream(new byte[] {7}), Types.BLOB);
            insert.setObject(2, new StringReader("read"));
            insert.executeUpdate();
            run(connection, "DELETE FROM t WHERE b = '\\x07'::BLOB AND c = 'read'");
            Blob blob = connection.createBlob();
            blob.setBytes(1, new byte[] {1, 2, 3});
            Clob clob = connection.createClob();
            clob.setString(1, "clob");
            insert.setBlob(1, blob);
            insert.setClob(2, clob);
            insert.executeUpdate();
        }
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT * FROM t")) {
            assertTrue(rows.next());
            assertArrayEquals(bytes, rows.getBinaryStream(1).readAllBytes());
            assertEquals("Ärg", rows.getString(2));
            assertTrue(rows.next());
            Blob blob = rows.getBlob(1);
            assertEquals(3, blob.length());
            assertEquals(2, blob.position(new byte[] {2, 3}, 1));
            assertArrayEquals(new byte[] {2}, blob.getBytes(2, 1));
            assertEquals("\\x010203", rows.getString(1));
            assertEquals("lob", rows.getClob(2).getSubString(2, 10));
            assertArrayEquals("clob".getBytes(StandardCharsets.UTF_8), rows.getBytes(2));
        }
    }

    @Test
    void updatableResults() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')");
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE,
                ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery("SELECT a, b FROM t ORDER BY a")) {
            assertEquals(ResultSet.CONCUR_UPDATABLE, rows.getConcurrency());
            assertTrue(rows.next());
            rows.updateString("b", "new");
            rows.updateRow();
            assertTrue(rows.next());
            rows.deleteRow();
            rows.moveToInsertRow();
            rows.updateInt(1, 3);
            rows.updateNull(2);
            rows.insertRow();
        }
        assertEquals("1,new;3,null", query(connection, "SELECT * FROM t ORDER BY a"));
        try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_UPDATABLE);
                ResultSet rows = statement.executeQuery("SELECT b FROM t")) {
            assertTrue(rows.next());
            fails("25006", () -> rows.updateString(1, "no key"));
        }
    }

    /** A value that is called like the key, but computed, would have another row changed. */
    @Test
    void onlyColumnsOfOneTableTellItsRows() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
                "CREATE TABLE u (b VARCHAR)", "INSERT INTO u VALUES ('z')");
        for (String sql : List.of("SELECT a + 1 AS a, b FROM t", "SELECT b AS a, a AS b FROM t", "SELECT t.a, u.b FROM t, u",
                "SELECT a, upper(b) AS b FROM t", "SELECT a, 'q' b FROM t")) {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY,
                    ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery(sql)) {
                assertEquals(ResultSet.CONCUR_READ_ONLY, rows.getConcurrency(), sql);
            }
        }
        for (String sql : List.of("SELECT * FROM t", "SELECT \"a\", t.b FROM main.t ORDER BY b, a", "select T.* from t as T",
                "SELECT a,b FROM t WHERE a IN (1, 2)")) {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY,
                    ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery(sql)) {
                assertEquals(ResultSet.CONCUR_UPDATABLE, rows.getConcurrency(), sql);
            }
        }
    }

    /** A field of a structure, and what WITH calls like a table, are not the table's own columns. */
    @Test
    void onlyTheTablesOwnColumnsCanBeChanged() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, s STRUCT(a INTEGER, b VARCHAR))",
                "INSERT INTO t VALUES (1, 'x', {'a': 2, 'b': 'y'})");
        for (String sql : List.of("SELECT a, s.b FROM t", "SELECT s.a, b FROM t", "SELECT a, t.s.b FROM t AS t",
                "WITH t (a, b) AS (VALUES (1, 'z')) SELECT a, b FROM t")) {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY,
                    ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery(sql)) {
                assertEquals(ResultSet.CONCUR_READ_ONLY, rows.getConcurrency(), sql);
            }
        }
        for (String sql : List.of("SELECT a, b FROM t x", "SELECT x.a, x.b FROM main.t AS x WHERE x.a = 1",
                "SELECT t.a, main.t.b FROM main.t LIMIT 1")) {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY,
                    ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery(sql)) {
                assertEquals(ResultSet.CONCUR_UPDATABLE, rows.getConcurrency(), sql);
                assertTrue(rows.next());
                rows.updateString("b", sql);
                rows.updateRow();
            }
            assertEquals(sql, query(connection, "SELECT b FROM t"));
        }
    }

    /** A java.sql.Time has no microseconds, and a java.sql.Timestamp no time that the JVM's zone skips. */
    @Test
    void keysAreFoundAgainAsTheyAre() throws SQLException {
        TimeZone before = TimeZone.getDefault();
        TimeZone.setDefault(TimeZone.getTimeZone("Europe/Berlin"));
        try {
            for (String key : List.of("TIME '01:02:03.000456'", "TIMESTAMP '2026-03-29 02:30:00'", "DATE '1500-02-28'",
                    "TIMESTAMPTZ '2026-03-29 00:30:00.000001+00'", "0.1::DOUBLE", "0.1::REAL", "1.10::DECIMAL(9,2)",
                    "18446744073709551615::UBIGINT", "'\\x00ff'::BLOB", "true")) {
                run(connection, "CREATE TABLE t AS SELECT " + key + " AS k, 1 AS v", "ALTER TABLE t ADD PRIMARY KEY (k)");
                try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY,
                        ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery("SELECT k, v FROM t")) {
                    assertTrue(rows.next());
                    rows.updateInt("v", 2);
                    rows.updateRow();
                    assertEquals("2", query(connection, "SELECT v FROM t"), key);
                    rows.deleteRow();
                    assertEquals("", query(connection, "SELECT v FROM t"), key);
                }
                run(connection, "DROP TABLE t");
            }
        } finally {
            TimeZone.setDefault(before);
        }
    }

    @Test
    void theRowToInsertIsNoRowOfTheResult() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)");
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE,
                ResultSet.CONCUR_UPDATABLE); ResultSet rows = statement.executeQuery("SELECT a FROM t")) {
            assertTrue(rows.next());
            fails("24000", rows::insertRow);
            rows.moveToInsertRow();
            fails("24000", rows::updateRow);
            fails("24000", rows::deleteRow);
            fails("24000", rows::refreshRow);
            fails("24000", rows::cancelRowUpdates);
            rows.updateInt(1, 2);
            rows.insertRow();
            rows.moveToCurrentRow();
            rows.refreshRow();
            assertEquals(1, rows.getInt(1));
            fails("HY024", () -> rows.setFetchDirection(7));
        }
        assertEquals("1;2", query(connection, "SELECT a FROM t ORDER BY a"));
    }

    @Test
    void textsOfABatchKeepTheirResultsApart() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER)");
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2), (3)");
            statement.addBatch("UPDATE t SET a = a + 1; SELECT 1");
            statement.addBatch("DELETE FROM t WHERE a > 2");
            assertArrayEquals(new int[] {1, 3, 2}, statement.executeBatch());
        }
    }

    @Test
    void numbersOfTooManyDigits() throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("SELECT ?")) {
            for (String text : List.of("1E+2000000000", "1E-2000000000", "-7E+200000")) {
                BigDecimal number = new BigDecimal(text);
                fails("22003", () -> statement.setBigDecimal(1, number));
                fails("22003", () -> statement.setObject(1, number));
                fails("22003", () -> statement.setObject(1, number, java.sql.Types.NUMERIC, 2));
            }
            fails("22003", () -> statement.setObject(1, BigDecimal.ONE, java.sql.Types.NUMERIC, Integer.MAX_VALUE));
            statement.setBigDecimal(1, new BigDecimal("1E+20"));
            try (ResultSet rows = statement.executeQuery()) {
                assertTrue(rows.next());
                assertEquals(0, new BigDecimal("1E+20").compareTo(rows.getBigDecimal(1)));
            }
        }
    }

    @Test
    void partsThatAreNone() throws SQLException {
        Blob blob = connection.createBlob();
        fails("22011", () -> blob.setBytes(1, new byte[2], 1, 2));
        fails("22011", () -> blob.setBytes(1, new byte[2], -1, 1));
        fails("22011", () -> blob.setBytes(1, new byte[2], 0, -1));
        fails("22011", () -> connection.createClob().setString(1, "ab", 1, 2));
        assertEquals(1, blob.setBytes(1, new byte[] {7, 8}, 1, 1));
        assertArrayEquals(new byte[] {8}, blob.getBytes(1, 9));
    }

    @Test
    void statementsCloseWithTheirResults() throws SQLException {
        Statement statement = connection.createStatement();
        statement.closeOnCompletion();
        ResultSet rows = statement.executeQuery("SELECT 1");
        assertSame(statement, rows.getStatement());
        rows.close();
        assertTrue(statement.isClosed());
        Statement several = connection.createStatement();
        several.closeOnCompletion();
        several.execute("SELECT 1; SELECT 2");
        ResultSet first = several.getResultSet();
        assertTrue(several.getMoreResults(Statement.KEEP_CURRENT_RESULT));
        several.getResultSet().close();
        assertTrue(first.next());
        assertEquals(1, first.getInt(1));
        first.close();
        assertTrue(several.isClosed());
        try (Statement open = connection.createStatement()) {
            fails("HY024", () -> open.getMoreResults(9));
        }
    }

    @Test
    void appending() throws SQLException {
        run(connection, "CREATE TABLE t (a INTEGER, b VARCHAR, c DECIMAL(9,2))");
        HypostyleConnection ours = connection.unwrap(HypostyleConnection.class);
        try (Appender rows = ours.createAppender("t")) {
            for (int row = 0; row < 1000; row++) {
                rows.append(row, row % 2 == 0 ? null : "row", new java.math.BigDecimal("1.25"));
            }
            assertEquals(1000, rows.finish());
            fails("HY010", () -> rows.append(1, "x", null));
        }
        try (Appender rows = ours.createAppender("main.t")) {
            rows.append(1, "not finished", null);
        }
        try (Appender rows = ours.createAppender("t")) {
            fails("HY024", () -> rows.append(1));
            fails("HY010", rows::finish);
        }
        assertEquals("1000,500,1250.00", query(connection, "SELECT count(*), count(b), sum(c) FROM t"));
        fails("42P01", () -> ours.createAppender("nothing"));
        // A name is no SQL.
        run(connection, "CREATE TABLE \"My Table\" (a TIMESTAMPTZ)");
        try (Appender rows = ours.createAppender("main.My Table")) {
            rows.append(new java.sql.Timestamp(0));
            assertEquals(1, rows.finish());
        }
        assertEquals("1970-01-01 00:00:00+00", query(connection, "SELECT a FROM \"My Table\""));
        fails("42P01", () -> ours.createAppender("t; DROP TABLE t"));
        fails("42P01", () -> ours.createAppender("t AS a, t AS b"));
    }
}
