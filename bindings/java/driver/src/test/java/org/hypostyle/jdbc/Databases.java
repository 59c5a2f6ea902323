/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.function.Executable;

/** Databases of each kind for tests, and what tests say about them. */
final class Databases {
    /** A query that takes hours. */
    static final String ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) AS t (a), "
            + "generate_series(1, 1000000) AS u (b)";
    private static final List<Process> SERVERS = new ArrayList<>();
    private static Path folder;
    private static String unixUrl;
    private static String tcpUrl;

    private Databases() {}

    static Connection memory() throws SQLException {
        return DriverManager.getConnection("jdbc:hypostyle::memory:");
    }

    /** Returns a folder that is removed when the JVM ends. */
    static synchronized Path folder() throws IOException {
        if (folder == null) {
            folder = Files.createTempDirectory("hypostyle-jdbc");
            Runtime.getRuntime().addShutdownHook(new Thread(Databases::end));
        }
        return folder;
    }

    private static void end() {
        SERVERS.forEach(Process::destroy);
        try (Stream<Path> all = Files.walk(folder)) {
            all.sorted(java.util.Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** Starts a server of a database in memory; returns what it logs where it listens. */
    static Process serve(Pattern where, StringBuilder found, String... options) throws IOException {
        String program = System.getProperty("hypostyle.program", "");
        assertNotNull(program.isEmpty() ? null : program, "-Dhypostyle.program= does not say where the program is");
        List<String> command = new ArrayList<>(List.of(program, "serve", ":memory:", "--log-level", "info"));
        command.addAll(List.of(options));
        Path log = Files.createTempFile(folder(), "server", ".log");
        Process server = new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(log.toFile()).start();
        SERVERS.add(server);
        while (server.isAlive()) {
            Matcher match = where.matcher(Files.readString(log));
            if (match.find()) {
                found.append(match.group());
                return server;
            }
            java.util.concurrent.locks.LockSupport.parkNanos(10_000_000);
        }
        throw new IOException("the server ended before it listened: " + Files.readString(log));
    }

    static synchronized String unix() throws IOException {
        if (unixUrl == null) {
            Path socket = folder().resolve("socket");
            serve(Pattern.compile(Pattern.quote(socket.toString())), new StringBuilder(), "--unix", socket.toString());
            unixUrl = "jdbc:hypostyle+unix:" + socket;
        }
        return unixUrl;
    }

    static synchronized String tcp() throws IOException {
        if (tcpUrl == null) {
            StringBuilder found = new StringBuilder();
            serve(Pattern.compile("127\\.0\\.0\\.1:[1-9]\\d*"), found, "--listen", "127.0.0.1:0");
            tcpUrl = "jdbc:hypostyle://" + found + "/";
        }
        return tcpUrl;
    }

    /** Returns a URL of each kind. */
    static List<String> urls() throws IOException {
        Path place = Files.createTempDirectory(folder(), "database");
        return List.of("jdbc:hypostyle::memory:", "jdbc:hypostyle:" + place.resolve("test.hypo"), unix(), tcp());
    }

    static void run(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : statements) {
                statement.execute(sql);
            }
        }
    }

    /** Returns the rows as texts: values by commas, rows by semicolons. */
    static String rows(ResultSet rows) throws SQLException {
        List<String> lines = new ArrayList<>();
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                values.add(rows.getString(column));
            }
            lines.add(String.join(",", values.stream().map(String::valueOf).toList()));
        }
        return String.join(";", lines);
    }

    /** Returns some columns of the rows as {@link #rows} does, and closes them. */
    static String some(ResultSet rows, String... columns) throws SQLException {
        List<String> lines = new ArrayList<>();
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            for (String column : columns) {
                values.add(String.valueOf(rows.getString(column)));
            }
            lines.add(String.join(",", values));
        }
        rows.close();
        return String.join(";", lines);
    }

    static String query(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            return rows(rows);
        }
    }

    /** Returns the SQLSTATE with which work fails. */
    static String anyFailure(Executable work) {
        return assertThrows(SQLException.class, work).getSQLState();
    }

    /** Checks that work fails with an SQLSTATE. */
    static SQLException fails(String state, Executable work) {
        SQLException error = assertThrows(SQLException.class, work);
        assertEquals(state, error.getSQLState(), error.getMessage());
        return error;
    }
}
