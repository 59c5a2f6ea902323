/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.hypostyle.jdbc.Databases.fails;
import static org.hypostyle.jdbc.Databases.query;
import static org.hypostyle.jdbc.Databases.run;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLTimeoutException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What must not crash, hang or leak: use after close, shared connections, small stacks, lost servers, class loaders. */
class MisuseTest {
    private static void makeRows(Connection connection, int rows) throws SQLException {
        run(connection, "CREATE TABLE t AS SELECT value::INTEGER AS a, 'row ' || value AS b FROM generate_series(1, " + rows
                + ") AS s (value)");
    }

    @Test
    void useAfterClose() throws SQLException {
        Connection connection = Databases.memory();
        makeRows(connection, 1000);
        Statement statement = connection.createStatement();
        PreparedStatement prepared = connection.prepareStatement("SELECT ?");
        ResultSet rows = statement.executeQuery("SELECT * FROM t");
        rows.next();
        rows.close();
        fails("HY010", () -> rows.getInt(1));
        fails("HY010", rows::next);
        fails("HY010", rows::getMetaData);
        ResultSet replaced = statement.executeQuery("SELECT * FROM t");
        replaced.next();
        statement.executeQuery("SELECT 1");
        fails("HY010", () -> replaced.getString(2));
        statement.close();
        fails("HY010", () -> statement.executeQuery("SELECT 1"));
        Statement open = connection.createStatement();
        ResultSet last = open.executeQuery("SELECT * FROM t");
        last.next();
        Appender appender = connection.unwrap(HypostyleConnection.class).createAppender("t");
        connection.close();
        fails("HY010", () -> last.getInt(1));
        fails("08003", () -> open.executeQuery("SELECT 1"));
        fails("08003", () -> prepared.setInt(1, 1));
        fails("08003", connection::getMetaData);
        fails("08003", () -> appender.append(1, "x"));
        appender.close();
        prepared.close();
    }

    @Test
    void threadsThatShareAConnection() throws Exception {
        try (Connection connection = Databases.memory()) {
            makeRows(connection, 10_000);
            AtomicReference<Throwable> failed = new AtomicReference<>();
            List<Thread> threads = new ArrayList<>();
            for (int number = 0; number < 8; number++) {
                Thread thread = new Thread(() -> {
                    try (Statement statement = connection.createStatement()) {
                        for (int round = 0; round < 50; round++) {
                            assertEquals("10000,50005000", Databases.rows(statement.executeQuery(
                                    "SELECT count(*), sum(a) FROM t")));
                        }
                    } catch (SQLException | RuntimeException | AssertionError error) {
                        failed.set(error);
                    }
                });
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(null, failed.get());
        }
    }

    /** A thread reads while another closes what it reads, again and again. */
    @Test
    void resultsThatAreClosedWhileTheyAreRead() throws Exception {
        try (Connection connection = Databases.memory(); Statement statement = connection.createStatement()) {
            makeRows(connection, 100_000);
            AtomicReference<Throwable> failed = new AtomicReference<>();
            for (int round = 0; round < 100; round++) {
                ResultSet rows = statement.executeQuery(round % 2 == 0 ? "SELECT * FROM t" : "SELECT a + 1, b FROM t");
                Thread reader = new Thread(() -> {
                    try {
                        while (rows.next()) {
                            rows.getInt(1);
                            assertTrue(rows.getString(2).startsWith("row "));
                        }
                    } catch (SQLException error) {
                        if (!error.getSQLState().equals("HY010") && !error.getSQLState().equals("24000")) {
                            failed.set(error);
                        }
                    } catch (RuntimeException | AssertionError error) {
                        failed.set(error);
                    }
                });
                reader.start();
                Thread.sleep(round % 5);
                rows.close();
                reader.join();
            }
            assertEquals(null, failed.get());
        }
    }

    @Test
    void aConnectionThatIsClosedWhileAStatementRuns() throws Exception {
        Connection connection = Databases.memory();
        AtomicReference<SQLException> told = new AtomicReference<>();
        Thread runner = new Thread(() -> {
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery(Databases.ENDLESS);
            } catch (SQLException error) {
                told.set(error);
            }
        });
        runner.start();
        Thread.sleep(200);
        connection.close();
        runner.join(20_000);
        assertFalse(runner.isAlive());
        assertEquals("57014", told.get().getSQLState());
        Connection aborted = Databases.memory();
        List<Runnable> later = new ArrayList<>();
        aborted.abort(later::add);
        // It counts as closed before the executor has closed it.
        assertTrue(aborted.isClosed());
        assertFalse(aborted.isValid(1));
        fails("08003", aborted::createStatement);
        later.get(0).run();
        assertTrue(aborted.isClosed());
    }

    /** Whoever asks whether a connection is valid waits no longer than he has said. */
    @Test
    void aBusyConnectionIsNotWaitedForForever() throws Exception {
        Connection connection = Databases.memory();
        Thread runner = new Thread(() -> {
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery(Databases.ENDLESS);
            } catch (SQLException error) {
                // It is closed while it runs.
            }
        });
        runner.start();
        boolean isValid;
        long begun;
        // It is valid until the statement runs, which has to find it free.
        do {
            Thread.sleep(50);
            begun = System.nanoTime();
            isValid = connection.isValid(1);
        } while (isValid && runner.isAlive());
        assertFalse(isValid);
        assertTrue(System.nanoTime() - begun < 10_000_000_000L);
        connection.close();
        runner.join(20_000);
        assertFalse(runner.isAlive());
    }

    @Test
    void smallStacks() throws Exception {
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Thread thread = new Thread(null, () -> {
            try (Connection connection = Databases.memory()) {
                makeRows(connection, 1000);
                StringBuilder deep = new StringBuilder("SELECT 1");
                for (int depth = 0; depth < 30; depth++) {
                    deep.insert(0, "SELECT * FROM (").append(") AS q").append(depth);
                }
                assertEquals("1", query(connection, deep.toString()));
                assertEquals("1000", query(connection, "SELECT count(*) FROM t JOIN t AS u USING (a)"));
            } catch (SQLException | RuntimeException | AssertionError error) {
                failed.set(error);
            }
        }, "small", 256 << 10);
        thread.start();
        thread.join();
        assertEquals(null, failed.get());
    }

    private static long descriptors() throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
            return all.count();
        }
    }

    /** Counts the mappings of a database's files. */
    private static long mappings(Path database) throws IOException {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
            return lines.filter(line -> line.contains(database.toString())).count();
        }
    }

    private static void readAndLeave(Connection connection) throws SQLException {
        ResultSet rows = connection.createStatement().executeQuery("SELECT * FROM t");
        rows.next();
        rows.getString(2);
    }

    /** Rows of a table are read where its files are mapped: none of them is copied before. */
    @Test
    void columnsAreReadFromTheMapping() throws Exception {
        Path database = Files.createTempDirectory(Databases.folder(), "mapped").resolve("test.hypo");
        try (Connection connection = DriverManager.getConnection("jdbc:hypostyle:" + database);
                Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE,
                        ResultSet.CONCUR_READ_ONLY)) {
            makeRows(connection, 1_000_000);
            long before = mappings(database);
            try (ResultSet rows = statement.executeQuery("SELECT * FROM t")) {
                assertTrue(rows.last());
                assertTrue(mappings(database) > before);
                // Each place is as near as any other: walking there would take hours.
                int place = 1;
                long begun = System.nanoTime();
                for (int round = 0; round < 20_000; round++) {
                    place = (int) ((place * 7919L + 12_345) % 1_000_000) + 1;
                    assertTrue(rows.absolute(place));
                    assertEquals("row " + rows.getInt(1), rows.getString(2));
                }
                assertTrue(System.nanoTime() - begun < 20_000_000_000L);
            }
        }
    }

    @Test
    void nothingLeaks() throws Exception {
        Path database = Files.createTempDirectory(Databases.folder(), "leaks").resolve("test.hypo");
        String url = "jdbc:hypostyle:" + database;
        try (Connection connection = DriverManager.getConnection(url)) {
            makeRows(connection, 200_000);
        }
        useEverything(url);
        assertEquals(0, mappings(database));
        long before = descriptors();
        for (int round = 0; round < 20; round++) {
            useEverything(url);
        }
        assertEquals(0, mappings(database));
        assertTrue(descriptors() <= before, descriptors() + " descriptors after " + before);
        // What nobody closes is freed when nobody has it any more.
        Connection connection = DriverManager.getConnection(url);
        for (int round = 0; round < 20; round++) {
            readAndLeave(connection);
        }
        connection.close();
        for (int round = 0; round < 100 && mappings(database) > 0; round++) {
            System.gc();
            Thread.sleep(20);
        }
        assertEquals(0, mappings(database));
    }

    private static void useEverything(String url) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE,
                        ResultSet.CONCUR_READ_ONLY);
                PreparedStatement prepared = connection.prepareStatement("SELECT * FROM t WHERE a < ?")) {
            ResultSet rows = statement.executeQuery("SELECT * FROM t");
            rows.last();
            rows.getString(2);
            // Closed by the next execution, and that by the statement.
            statement.executeQuery("SELECT * FROM t").next();
            prepared.setInt(1, 100);
            ResultSet few = prepared.executeQuery();
            while (few.next()) {
                few.getString(2);
            }
            assertThrows(SQLException.class, () -> statement.executeQuery("SELECT nothing"));
        }
    }

    @Test
    void aServerThatDies() throws Exception {
        StringBuilder where = new StringBuilder();
        Process server = Databases.serve(Pattern.compile("127\\.0\\.0\\.1:[1-9]\\d*"), where, "--listen", "127.0.0.1:0");
        String url = "jdbc:hypostyle://" + where + "/";
        try (Connection connection = DriverManager.getConnection(url)) {
            makeRows(connection, 1000);
            Thread killer = new Thread(() -> {
                try {
                    Thread.sleep(200);
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
                server.destroyForcibly();
            });
            killer.start();
            SQLException error = assertThrows(SQLException.class, () -> query(connection, Databases.ENDLESS));
            assertTrue(error.getSQLState().startsWith("08"), error.getSQLState());
            killer.join();
            assertFalse(connection.isValid(1));
            assertTrue(assertThrows(SQLException.class, () -> query(connection, "SELECT 1")).getSQLState().startsWith("08"));
        }
        assertTrue(assertThrows(SQLException.class, () -> DriverManager.getConnection(url)).getSQLState().startsWith("08"));
    }

    private static void signal(Process process, String name) throws Exception {
        assertEquals(0, new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor());
    }

    /** Nobody waits longer for a server that says nothing than he has said, and others do not wait at all. */
    @Test
    void aServerThatDoesNotAnswer() throws Exception {
        StringBuilder where = new StringBuilder();
        Process server = Databases.serve(Pattern.compile("127\\.0\\.0\\.1:[1-9]\\d*"), where, "--listen", "127.0.0.1:0");
        String url = "jdbc:hypostyle://" + where + "/";
        int before = DriverManager.getLoginTimeout();
        Connection first = DriverManager.getConnection(url);
        Connection second = DriverManager.getConnection(url);
        Connection third = DriverManager.getConnection(url);
        signal(server, "STOP");
        try {
            first.setNetworkTimeout(Runnable::run, 500);
            fails("08006", () -> query(first, "SELECT 1"));
            assertTrue(first.isClosed());
            try (Statement statement = second.createStatement()) {
                statement.setQueryTimeout(1);
                fails("08006", () -> statement.executeQuery("SELECT 1"));
            }
            assertFalse(third.isValid(1));
            DriverManager.setLoginTimeout(1);
            // The second address is one that has no connection yet.
            for (String target : List.of(url, url + "?streams=2")) {
                assertInstanceOf(SQLTimeoutException.class, fails("08001", () -> DriverManager.getConnection(target)));
                Databases.memory().close();
                DriverManager.getConnection("jdbc:hypostyle::memory:other").close();
            }
            HypostyleDataSource source = new HypostyleDataSource(url);
            source.setLoginTimeout(1);
            fails("08001", source::getConnection);
            second.close();
            third.close();
        } finally {
            DriverManager.setLoginTimeout(before);
            signal(server, "CONT");
            server.destroyForcibly();
        }
    }

    /** Two class loaders use the driver at once, and when one goes, its classes go with it. */
    @Test
    void classLoadersComeAndGo() throws Exception {
        URL[] urls = {Path.of(HypostyleDriver.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toUri()
                .toURL()};
        List<WeakReference<ClassLoader>> gone = new ArrayList<>();
        for (int round = 0; round < 3; round++) {
            gone.add(useAndClose(urls));
        }
        for (WeakReference<ClassLoader> loader : gone) {
            for (int round = 0; round < 200 && loader.get() != null; round++) {
                System.gc();
                Thread.sleep(20);
            }
            assertEquals(null, loader.get());
        }
    }

    private static WeakReference<ClassLoader> useAndClose(URL[] urls) throws Exception {
        try (URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
            Driver driver = (Driver) loader.loadClass(HypostyleDriver.class.getName()).getDeclaredConstructor().newInstance();
            try (Connection connection = driver.connect("jdbc:hypostyle::memory:", new Properties());
                    Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT 1")) {
                assertTrue(rows.next());
                assertEquals(1, rows.getInt(1));
            }
            // As a container does it when it takes a program away.
            loader.loadClass(HypostyleDriver.class.getName()).getMethod("deregister").invoke(null);
            return new WeakReference<>(loader);
        }
    }
}
