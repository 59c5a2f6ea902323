import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.*;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.*;
import org.postgresql.PGConnection;

/** PostgreSQL's JDBC driver: what is known only by metadata, values of all kinds in text and binary, transactions, COPY, cancelling. */
public class Check {
    interface Step { void run() throws Exception; }

    static int failed = 0, passed = 0;

    static void step(String what, Step step) {
        try {
            step.run();
        } catch (Exception error) {
            failed++;
            System.out.println(what + " FAILED: " + error);
        }
    }

    static void same(String what, Object found, Object expected) {
        if (Objects.deepEquals(found, expected)) {
            passed++;
            return;
        }
        failed++;
        System.out.println(what + " FAILED: " + found + " in place of " + expected);
    }

    /** One column of all rows. */
    static List<String> all(ResultSet rows, String column) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) values.add(rows.getString(column));
        return values;
    }

    static String sqlstate(Step step) throws Exception {
        try {
            step.run();
        } catch (SQLException error) {
            return error.getSQLState();
        }
        return null;
    }

    static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    static void metadata(DatabaseMetaData data) throws SQLException {
        same("getTables", all(data.getTables(null, "main", "jdbc%", new String[] {"TABLE"}), "TABLE_NAME"), List.of("jdbc", "jdbc_child"));
        same("getTables of views", all(data.getTables(null, "main", "jdbc%", new String[] {"VIEW"}), "TABLE_NAME"), List.of("jdbc_view"));
        same("getColumns", all(data.getColumns(null, "main", "jdbc", "%"), "COLUMN_NAME"), List.of("id", "name", "price", "made"));
        same("types", all(data.getColumns(null, "main", "jdbc", "%"), "TYPE_NAME"), List.of("int4", "varchar", "numeric", "timestamp"));
        same("nullable", all(data.getColumns(null, "main", "jdbc", "%"), "IS_NULLABLE"), List.of("NO", "YES", "YES", "YES"));
        same("getPrimaryKeys", all(data.getPrimaryKeys(null, "main", "jdbc"), "COLUMN_NAME"), List.of("id"));
        same("getImportedKeys", all(data.getImportedKeys(null, "main", "jdbc_child"), "PKTABLE_NAME"), List.of("jdbc"));
        same("and its columns", all(data.getImportedKeys(null, "main", "jdbc_child"), "FKCOLUMN_NAME"), List.of("parent"));
        same("getExportedKeys", all(data.getExportedKeys(null, "main", "jdbc"), "FKTABLE_NAME"), List.of("jdbc_child"));
        same("getSchemas", all(data.getSchemas(), "TABLE_SCHEM").contains("main"), true);
        same("getCatalogs", all(data.getCatalogs(), "TABLE_CAT"), List.of("hypostyle"));
        same("getTypeInfo", all(data.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "numeric", "timestamptz")), true);
        data.getIndexInfo(null, "main", "jdbc", false, false).close();
    }

    /** The driver reads text the first few times, and binary after that. */
    static void values(Connection connection) throws SQLException {
        String sql = "SELECT ?::boolean, ?::smallint, ?::bigint, ?::double precision, ?::decimal(20, 4), ?::varchar, ?::date, ?::timestamp, "
            + "?::bytea, ?::uuid, NULL::integer, [1, 2, NULL]";
        UUID uuid = UUID.fromString("01234567-89ab-cdef-0123-456789abcdef");
        byte[] bytes = {0, 1, -1, 92, 39};
        try (PreparedStatement query = connection.prepareStatement(sql)) {
            for (int round = 0; round < 12; round++) {
                query.setBoolean(1, true);
                query.setShort(2, (short) -7);
                query.setLong(3, Long.MIN_VALUE);
                query.setDouble(4, 0.1);
                query.setBigDecimal(5, new BigDecimal("-1234567890123456.7891"));
                query.setString(6, "ä' \\ \n €");
                query.setObject(7, LocalDate.of(1969, 12, 31));
                query.setObject(8, LocalDateTime.of(2024, 2, 29, 23, 59, 59, 123_456_000));
                query.setBytes(9, bytes);
                query.setObject(10, uuid);
                try (ResultSet rows = query.executeQuery()) {
                    String which = "round " + round + ", column ";
                    same(which + "rows", rows.next(), true);
                    same(which + 1, rows.getBoolean(1), true);
                    same(which + 2, rows.getShort(2), (short) -7);
                    same(which + 3, rows.getLong(3), Long.MIN_VALUE);
                    same(which + 4, rows.getDouble(4), 0.1);
                    same(which + 5, rows.getBigDecimal(5), new BigDecimal("-1234567890123456.7891"));
                    same(which + 6, rows.getString(6), "ä' \\ \n €");
                    same(which + 7, rows.getObject(7, LocalDate.class), LocalDate.of(1969, 12, 31));
                    same(which + 8, rows.getObject(8, LocalDateTime.class), LocalDateTime.of(2024, 2, 29, 23, 59, 59, 123_456_000));
                    same(which + 9, rows.getBytes(9), bytes);
                    same(which + 10, rows.getObject(10), uuid);
                    same(which + 11, rows.getObject(11), null);
                    Object[] list = (Object[]) rows.getArray(12).getArray();
                    same(which + 12, Arrays.stream(list).map(value -> value == null ? null : ((Number) value).longValue()).toArray(),
                        new Object[] {1L, 2L, null});
                }
            }
        }
    }

    static void transactions(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jdbc VALUES (?, ?, ?, ?)")) {
            for (int i = 1; i <= 1000; i++) {
                insert.setInt(1, i);
                insert.setString(2, i % 10 == 0 ? null : "n" + i);
                insert.setBigDecimal(3, new BigDecimal(i).movePointLeft(2));
                insert.setTimestamp(4, Timestamp.valueOf("2024-01-02 03:04:05"));
                insert.addBatch();
            }
            same("batch", Arrays.stream(insert.executeBatch()).sum(), 1000);
        }
        connection.commit();
        try (Statement statement = connection.createStatement()) {
            same("update", statement.executeUpdate("UPDATE jdbc SET price = price + 1 WHERE id <= 10"), 10);
            connection.rollback();
            same("after ROLLBACK", number(connection, "SELECT sum(price * 100)::bigint FROM jdbc"), 500_500L);
            Savepoint savepoint = connection.setSavepoint("here");
            same("a second row of the key", sqlstate(() -> statement.executeUpdate("INSERT INTO jdbc (id) VALUES (7)")), "23505");
            same("an aborted transaction", sqlstate(() -> number(connection, "SELECT 1")), "25P02");
            connection.rollback(savepoint);
            same("after the savepoint", number(connection, "SELECT count(*) FROM jdbc"), 1000L);
            same("no parent", sqlstate(() -> statement.executeUpdate("INSERT INTO jdbc_child VALUES (1, 5000)")), "23503");
            connection.rollback();
        }
        try (PreparedStatement query = connection.prepareStatement("SELECT id, name, price, made FROM jdbc WHERE id > ? ORDER BY id")) {
            // From a portal, some rows at a time.
            query.setFetchSize(64);
            for (int round = 0; round < 7; round++) {
                query.setInt(1, 10);
                int id = 10;
                try (ResultSet rows = query.executeQuery()) {
                    while (rows.next()) {
                        id++;
                        boolean right = rows.getInt(1) == id && Objects.equals(rows.getString(2), id % 10 == 0 ? null : "n" + id)
                            && rows.getBigDecimal(3).equals(new BigDecimal(id).movePointLeft(2))
                            && rows.getTimestamp(4).equals(Timestamp.valueOf("2024-01-02 03:04:05"));
                        if (!right) same("row " + id, rows.getString(1) + rows.getString(2) + rows.getString(3), null);
                    }
                }
                same("fetched", id, 1000);
            }
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jdbc (id) VALUES (2000)", Statement.RETURN_GENERATED_KEYS)) {
            insert.executeUpdate();
            ResultSet keys = insert.getGeneratedKeys();
            keys.next();
            same("RETURNING", keys.getInt("id"), 2000);
        }
    }

    static void copy(Connection connection) throws Exception {
        var copies = connection.unwrap(PGConnection.class).getCopyAPI();
        String lines = "1,one\n2,\"t,w\"\"o\"\n3,\n";
        same("COPY FROM", copies.copyIn("COPY copied FROM STDIN (FORMAT csv)", new StringReader(lines)), 3L);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        same("COPY TO", copies.copyOut("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT (FORMAT csv)", out), 3L);
        same("and its lines", out.toString("UTF-8"), lines);
        same("COPY of what is no number",
            sqlstate(() -> copies.copyIn("COPY copied FROM STDIN (FORMAT csv)", new StringReader("4,four\nx,five\n"))), "22P02");
        same("and of it nothing", number(connection, "SELECT count(*) FROM copied"), 3L);
    }

    static void cancel(Connection connection) throws Exception {
        String endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a + b = 3";
        try (Statement statement = connection.createStatement()) {
            Thread canceller = new Thread(() -> {
                try {
                    Thread.sleep(300);
                    statement.cancel();
                } catch (Exception error) {
                    System.out.println("cancel: " + error);
                }
            });
            canceller.start();
            same("cancel", sqlstate(() -> statement.executeQuery(endless)), "57014");
            canceller.join();
            statement.setQueryTimeout(1);
            same("a timeout", sqlstate(() -> statement.executeQuery(endless)), "57014");
        }
        same("after that", number(connection, "SELECT 41 + 1"), 42L);
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData data = connection.getMetaData();
            System.out.println(data.getDatabaseProductName() + " " + data.getDatabaseProductVersion() + ", " + data.getDriverName() + " " + data.getDriverVersion());
            try (Statement statement = connection.createStatement()) {
                statement.execute("CREATE TABLE jdbc (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(10,2), made TIMESTAMP)");
                statement.execute("CREATE TABLE jdbc_child (id BIGINT, parent INTEGER REFERENCES jdbc (id))");
                statement.execute("CREATE VIEW jdbc_view AS SELECT id, name FROM jdbc");
                statement.execute("CREATE TABLE copied (id INTEGER, name VARCHAR)");
            }
            step("metadata", () -> metadata(data));
            step("values", () -> values(connection));
            step("transactions", () -> transactions(connection));
            step("copy", () -> copy(connection));
            step("cancel", () -> cancel(connection));
            same("unknown column", sqlstate(() -> number(connection, "SELECT nothing FROM jdbc")), "42703");
            same("unknown table", sqlstate(() -> number(connection, "SELECT 1 FROM nothing")), "42P01");
            same("no statement", sqlstate(() -> number(connection, "SELEC 1")), "42601");
            same("division", sqlstate(() -> number(connection, "SELECT 1 / 0")), "22012");
        }
        System.out.println(passed + " checks passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
