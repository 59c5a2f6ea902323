/* SPDX-License-Identifier: Apache-2.0 */

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Measures a driver of JDBC: {@code Measure CASE URL SCRATCH_URL SCRATCH_FOLDER}. The case runs once to warm up, with a
 * part of the rows if there are many, and once measured; it prints its seconds and a sum over what it has read.
 */
final class Measure {
    private static final int REPEATS = 2000;
    private static final int BATCH = 20_000;
    /** So many rows that a JVM has compiled what reads them. */
    private static final String FEW = "SELECT * FROM lineitem LIMIT 300000";
    private static final String ALL = "SELECT * FROM lineitem";

    private Measure() {}

    /** Work whose time is taken; returns a sum over what it has read. */
    private interface Work {
        double run() throws SQLException;
    }

    private static void measure(int divisor, Work warming, Work work) throws SQLException {
        warming.run();
        System.gc();
        long begin = System.nanoTime();
        double sum = work.run();
        double seconds = (System.nanoTime() - begin) / 1e9 / divisor;
        System.out.printf("%.9f\t%.2f%n", seconds, sum);
    }

    private static void measure(int divisor, Work work) throws SQLException {
        measure(divisor, work, work);
    }

    public static void main(String[] arguments) throws SQLException, IOException {
        String url = arguments[1];
        switch (arguments[0]) {
            case "connect" -> measure(1, () -> connect(url));
            case "batch" -> {
                try (Connection connection = DriverManager.getConnection(arguments[2])) {
                    measure(1, () -> batch(connection));
                } finally {
                    remove(Path.of(arguments[3]));
                }
            }
            default -> {
                try (Connection connection = DriverManager.getConnection(url)) {
                    connection.setAutoCommit(false);
                    read(arguments[0], connection);
                    connection.rollback();
                }
            }
        }
    }

    private static void read(String what, Connection connection) throws SQLException {
        switch (what) {
            case "all" -> measure(1, () -> all(connection, FEW), () -> all(connection, ALL));
            case "some" -> measure(1, () -> some(connection, FEW), () -> some(connection, ALL));
            case "query" -> measure(REPEATS, () -> queries(connection));
            case "prepared" -> measure(REPEATS, () -> prepared(connection));
            default -> throw new IllegalArgumentException("there is no case " + what);
        }
    }

    private static double connect(String url) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url)) {
            return connection.isClosed() ? 0 : 1;
        }
    }

    private static void remove(Path scratch) throws IOException {
        if (Files.exists(scratch)) {
            try (Stream<Path> all = Files.walk(scratch)) {
                for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(path);
                }
            }
        }
    }

    private static Statement statement(Connection connection) throws SQLException {
        Statement statement = connection.createStatement();
        statement.setFetchSize(10_000);
        return statement;
    }

    private static double all(Connection connection, String query) throws SQLException {
        double sum = 0;
        try (Statement statement = statement(connection); ResultSet rows = statement.executeQuery(query)) {
            while (rows.next()) {
                sum += rows.getLong(1) + rows.getLong(2) + rows.getLong(3) + rows.getInt(4);
                sum += rows.getDouble(5) + rows.getDouble(6) + rows.getDouble(7) + rows.getDouble(8);
                sum += rows.getString(9).length() + rows.getString(10).length();
                for (int column = 11; column <= 13; column++) {
                    sum += rows.getObject(column, java.time.LocalDate.class).getDayOfMonth();
                }
                sum += rows.getString(14).length() + rows.getString(15).length() + rows.getString(16).length();
            }
        }
        return sum;
    }

    private static double some(Connection connection, String query) throws SQLException {
        double sum = 0;
        try (Statement statement = statement(connection); ResultSet rows = statement.executeQuery(query)) {
            while (rows.next()) {
                sum += rows.getLong(1) + rows.getInt(4) + rows.getDouble(5) + rows.getString(9).length();
            }
        }
        return sum;
    }

    private static double queries(Connection connection) throws SQLException {
        double sum = 0;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery("SELECT 1")) {
                rows.next();
                sum += rows.getInt(1);
            }
        }
        return sum;
    }

    private static double prepared(Connection connection) throws SQLException {
        double sum = 0;
        try (PreparedStatement statement = connection.prepareStatement("SELECT CAST(? AS INTEGER)")) {
            for (int repeat = 0; repeat < REPEATS; repeat++) {
                statement.setInt(1, repeat);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    sum += rows.getInt(1);
                }
            }
        }
        return sum;
    }

    private static double batch(Connection connection) throws SQLException {
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS batch");
            statement.execute("CREATE TABLE batch (id INTEGER, name VARCHAR, total DECIMAL(9,2))");
        }
        connection.setAutoCommit(false);
        double sum = 0;
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO batch VALUES (?, ?, ?)")) {
            for (int row = 0; row < BATCH; row++) {
                statement.setInt(1, row);
                statement.setString(2, "row " + row);
                statement.setBigDecimal(3, BigDecimal.valueOf(row, 2));
                statement.addBatch();
            }
            for (int count : statement.executeBatch()) {
                sum += List.of(1, Statement.SUCCESS_NO_INFO).contains(count) ? 1 : 0;
            }
        }
        connection.commit();
        return sum;
    }
}
