/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.hypostyle.jdbc.Databases.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Where the native library comes from, each case in a JVM of its own; and how databases are shared. */
class LibraryTest {
    /** Connects and says what came of it. */
    public static final class Program {
        private Program() {}

        public static void main(String[] arguments) {
            try (Connection connection = DriverManager.getConnection("jdbc:hypostyle::memory:")) {
                System.out.println(Databases.query(connection, "SELECT 42"));
            } catch (SQLException error) {
                System.out.println(error.getSQLState() + " " + error.getMessage());
            }
        }
    }

    private static String run(String... properties) throws IOException {
        return runWith(System.getProperty("java.class.path"), properties);
    }

    private static String runWith(String classPath, String... properties) throws IOException {
        List<String> command = new java.util.ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java")
                .toString(), "-cp", classPath));
        command.addAll(List.of(properties));
        command.add(Program.class.getName());
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        try (BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(),
                StandardCharsets.UTF_8))) {
            return out.lines().collect(Collectors.joining("\n"));
        }
    }

    private static String library() {
        return "-Dhypostyle.library=" + System.getProperty("hypostyle.library");
    }

    @Test
    void theCacheIsPrivateAndFilledOnce() throws Exception {
        Path cache = Databases.folder().resolve("a").resolve("cache");
        assertEquals("42", run(library(), "-Dhypostyle.cache=" + cache));
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(cache)));
        List<Path> files = list(cache);
        assertEquals(1, files.size(), files.toString());
        Object written = Files.getLastModifiedTime(files.get(0));
        assertEquals("42", run(library(), "-Dhypostyle.cache=" + cache));
        assertEquals(written, Files.getLastModifiedTime(files.get(0)));
        assertEquals(files, list(cache));
        Files.setPosixFilePermissions(cache, PosixFilePermissions.fromString("rwxrwxrwx"));
        assertTrue(run(library(), "-Dhypostyle.cache=" + cache).startsWith("08001 "));
    }

    private static List<Path> list(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.toList();
        }
    }

    /** A jar that has the library needs no other one; what is damaged in it is not loaded. */
    @Test
    void theLibraryOfTheJar() throws Exception {
        Path bundle = Files.createTempDirectory(Databases.folder(), "bundle");
        Path place = Files.createDirectories(bundle.resolve("org/hypostyle/jdbc/native/linux-x86_64"));
        String classPath = bundle + java.io.File.pathSeparator + System.getProperty("java.class.path");
        Path library = place.resolve("libhypostyle.so.1");
        Path digest = place.resolve("libhypostyle.so.1.sha256");
        Path cache = Databases.folder().resolve("c");
        Files.writeString(library, "no library");
        Files.writeString(digest, "0".repeat(64));
        String damaged = runWith(classPath, "-Dhypostyle.cache=" + cache);
        assertTrue(damaged.startsWith("08001 ") && damaged.contains("damaged"), damaged);
        Files.copy(Path.of(System.getProperty("hypostyle.library")), library, StandardCopyOption.REPLACE_EXISTING);
        Files.writeString(digest, sha256(library));
        assertEquals("42", runWith(classPath, "-Dhypostyle.cache=" + cache));
        List<Path> files = list(cache);
        assertEquals(2, files.size(), files.toString());
        assertTrue(files.stream().anyMatch(file -> file.toString().endsWith("-libhypostyle.so.1")), files.toString());
        assertEquals("42", runWith(classPath, "-Dhypostyle.cache=" + cache));
        assertEquals(2, list(cache).size());
    }

    private static String sha256(Path file) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        try (InputStream from = new DigestInputStream(Files.newInputStream(file), digest)) {
            from.transferTo(OutputStream.nullOutputStream());
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    @Test
    void aLibraryThatIsNoneIsAnError() throws Exception {
        String cache = "-Dhypostyle.cache=" + Databases.folder().resolve("b");
        String missing = run("-Dhypostyle.library=/nowhere/libhypostyle.so.1", cache);
        assertTrue(missing.startsWith("08001 ") && missing.contains("/nowhere/libhypostyle.so.1"), missing);
        String other = run("-Dhypostyle.library=libc.so.6", cache);
        assertTrue(other.startsWith("08001 ") && other.contains("hypostyle_"), other);
    }

    @Test
    void databasesInMemory() throws SQLException {
        try (Connection one = Databases.memory(); Connection other = Databases.memory()) {
            Databases.run(one, "CREATE TABLE t (a INTEGER)");
            fails("42P01", () -> Databases.query(other, "SELECT * FROM t"));
        }
        String named = "jdbc:hypostyle::memory:shared";
        try (Connection one = DriverManager.getConnection(named); Connection other = DriverManager.getConnection(named)) {
            Databases.run(one, "CREATE TABLE t (a INTEGER)");
            assertEquals("0", Databases.query(other, "SELECT count(*) FROM t"));
        }
        try (Connection again = DriverManager.getConnection(named)) {
            fails("42P01", () -> Databases.query(again, "SELECT * FROM t"));
        }
        try (HypostyleDataSource source = new HypostyleDataSource("jdbc:hypostyle::memory:")) {
            try (Connection one = source.getConnection()) {
                Databases.run(one, "CREATE TABLE t (a INTEGER)");
            }
            try (Connection other = source.getConnection("any", "password")) {
                assertEquals("0", Databases.query(other, "SELECT count(*) FROM t"));
            }
            source.setUrl(null);
            fails("08001", source::getConnection);
        }
    }

    @Test
    void aDatabaseThatIsReadOnly() throws Exception {
        String url = "jdbc:hypostyle:" + Databases.folder().resolve("read.hypo");
        fails("58P01", () -> DriverManager.getConnection(url + "?read_only=true"));
        try (Connection connection = DriverManager.getConnection(url)) {
            Databases.run(connection, "CREATE SCHEMA app", "CREATE TABLE app.t (a INTEGER)");
        }
        try (Connection connection = DriverManager.getConnection(url + "?read_only=true&schema=app&threads=1")) {
            assertTrue(connection.isReadOnly());
            assertEquals("0", Databases.query(connection, "SELECT count(*) FROM t"));
            fails("25006", () -> Databases.run(connection, "INSERT INTO t VALUES (1)"));
        }
        fails("3F000", () -> DriverManager.getConnection(url + "?schema=nothing"));
    }
}
