/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.SQLException;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Set;

/**
 * Loads the native library once for a class loader. It is, in this order, the one that {@code -Dhypostyle.library=}
 * names, the one in the driver's jar, and the system's {@code libhypostyle.so.1}. What the jar has is unpacked once into
 * a cache that only its user can write to, by its digest.
 */
final class Library {
    private static final String NAME = "libhypostyle.so.1";
    private static final String GLUE = "libhypostyle_jni.so";
    private static final Set<PosixFilePermission> PRIVATE = PosixFilePermissions.fromString("rwx------");

    private static boolean isLoaded;
    private static String version;

    private Library() {}

    /** Loads the library unless it is loaded. */
    static synchronized void load() throws SQLException {
        if (isLoaded) {
            return;
        }
        try {
            loadGlue(unpacked(GLUE));
            String named = System.getProperty("hypostyle.library");
            String path = named != null ? named : resource(NAME) != null ? unpacked(NAME).toString() : NAME;
            byte[] why = Native.load(Native.terminated(path));
            if (why != null) {
                throw Errors.refused("08001", Native.text(why) + (named != null || path != NAME ? ""
                        : "; this jar has no library for this platform, and -Dhypostyle.library names none"));
            }
        } catch (IOException | UnsatisfiedLinkError error) {
            throw Errors.refused("08001", "the native library cannot be loaded: " + error.getMessage(), error);
        }
        version = Native.text(Native.version());
        isLoaded = true;
    }

    /** Returns the library's version, such as 0.1.0; the driver's own before it is loaded. */
    static synchronized String version() {
        return version == null ? HypostyleDriver.VERSION : version;
    }

    /** Loads the glue; a second class loader, to which the JVM refuses the same file, loads a copy. */
    private static void loadGlue(Path glue) throws IOException {
        try {
            System.load(glue.toString());
        } catch (UnsatisfiedLinkError error) {
            Path copy = Files.createTempFile(glue.getParent(), "copy", ".so");
            try {
                Files.copy(glue, copy, StandardCopyOption.REPLACE_EXISTING);
                System.load(copy.toString());
            } finally {
                Files.deleteIfExists(copy);
            }
        }
    }

    /** Returns the folder of this platform's libraries in the jar. */
    private static String place(String name) {
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String processor = machine.equals("amd64") ? "x86_64" : machine;
        return "native/linux-" + processor + "/" + name;
    }

    private static InputStream resource(String name) {
        return Library.class.getResourceAsStream(place(name));
    }

    private static Path unpacked(String name) throws IOException {
        String digest;
        try (InputStream from = resource(name + ".sha256")) {
            if (from == null) {
                throw new IOException("the driver has no " + place(name) + ": it supports Linux on x86-64");
            }
            digest = new String(from.readAllBytes(), StandardCharsets.US_ASCII).strip();
        }
        Path file = cache().resolve(digest.substring(0, 16) + "-" + name);
        if (!Files.exists(file)) {
            unpack(name, digest, file);
        }
        return file;
    }

    /** Writes a library under its final name only when its last byte is there and its digest is right. */
    private static void unpack(String name, String digest, Path file) throws IOException {
        Path partial = Files.createTempFile(file.getParent(), "partial", ".so");
        try {
            MessageDigest computed = MessageDigest.getInstance("SHA-256");
            try (InputStream from = resource(name); OutputStream to = Files.newOutputStream(partial)) {
                byte[] piece = new byte[1 << 16];
                for (int count = from.read(piece); count >= 0; count = from.read(piece)) {
                    computed.update(piece, 0, count);
                    to.write(piece, 0, count);
                }
            }
            if (!HexFormat.of().formatHex(computed.digest()).equals(digest)) {
                throw new IOException("the library in the driver's jar is damaged");
            }
            Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (NoSuchAlgorithmException error) {
            throw new IOException(error);
        } finally {
            Files.deleteIfExists(partial);
        }
    }

    /** Returns the cache, which is made if it is missing. */
    private static Path cache() throws IOException {
        String named = System.getProperty("hypostyle.cache");
        String base = System.getenv("XDG_CACHE_HOME");
        Path cache = named != null ? Path.of(named)
                : (base != null && !base.isEmpty() ? Path.of(base) : Path.of(System.getProperty("user.home"), ".cache"))
                        .resolve("hypostyle").resolve("jdbc");
        try {
            return prepared(cache);
        } catch (FileSystemException error) {
            if (named != null) {
                throw error;
            }
            // A service's user often has no home.
            return prepared(Path.of(System.getProperty("java.io.tmpdir"),
                    "hypostyle-jdbc-" + System.getProperty("user.name")));
        }
    }

    private static Path prepared(Path cache) throws IOException {
        Files.createDirectories(cache.toAbsolutePath().getParent());
        if (!Files.exists(cache, LinkOption.NOFOLLOW_LINKS)) {
            try {
                Files.createDirectory(cache, PosixFilePermissions.asFileAttribute(PRIVATE));
            } catch (java.nio.file.FileAlreadyExistsException raced) {
                // Another process has made it; whose it is, is checked below.
            }
        }
        PosixFileAttributes found = Files.readAttributes(cache, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        Path probe = Files.createTempFile(cache, "probe", "");
        boolean isOurs = Files.getOwner(probe).equals(found.owner());
        Files.delete(probe);
        if (!found.isDirectory() || !isOurs || found.permissions().contains(PosixFilePermission.GROUP_WRITE)
                || found.permissions().contains(PosixFilePermission.OTHERS_WRITE)) {
            throw new FileSystemException(cache.toString(), null, "others can write to it, so that no library is loaded from it");
        }
        return cache.toAbsolutePath();
    }
}
