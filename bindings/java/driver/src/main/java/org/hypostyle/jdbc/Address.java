/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * What a URL and its properties say: which database it is, and how it is opened.
 *
 * @param target what {@code hypostyle_open} takes
 * @param shared the name under which connections share the database; null if it is this connection's alone
 * @param options the properties of {@link #PROPERTIES}, without those that are not given
 */
record Address(String target, String shared, Map<String, String> options) {
    private static final String PREFIX = "jdbc:hypostyle:";
    private static final String UNIX_PREFIX = "jdbc:hypostyle+unix:";
    private static final String MEMORY = ":memory:";

    /** The driver's properties and what they mean. */
    static final Map<String, String> PROPERTIES = properties();
    /** Those of a server's address. */
    private static final Set<String> SERVER_OPTIONS = Set.of("tls", "tls_ca", "tls_cert", "tls_key", "variables",
            "streams", "chunk_bytes");
    /** The password behind a user, which ends at the last @ before the options. */
    private static final Pattern PASSWORD = Pattern
            .compile("^(jdbc:hypostyle(?:\\+unix:(?://)?|:(?:[a-z+]+:)?//)[^:@/?]*):[^?]*@");
    /** A server behind one slash or none, which would be taken for a path, and shown with its password. */
    private static final Pattern NO_PATH = Pattern.compile("^(?:/[^/:]+:|[^/:]{2,}:.*@)", Pattern.DOTALL);
    private static final Pattern PASSWORD_OPTION = Pattern.compile("([?&](?:ssl)?password=)[^&]*");

    private static Map<String, String> properties() {
        Map<String, String> all = new LinkedHashMap<>();
        all.put("user", "The user, of a server");
        all.put("password", "The user's password, of a server");
        all.put("read_only", "Whether changes are refused");
        all.put("schema", "The schema of the connection");
        all.put("threads", "Threads for queries, of a database in this process; 0 is all processors");
        all.put("memory_limit", "Memory for queries, such as 4GB, of a database in this process");
        all.put("temp_directory", "Where queries spill, of a database in this process");
        all.put("verify", "When stored columns are verified: auto, always or never");
        all.put("allow_network_filesystem", "Whether the database may lie on a network file system");
        return all;
    }

    static boolean isOurs(String url) {
        return url != null && (url.startsWith(PREFIX) || url.startsWith(UNIX_PREFIX));
    }

    /** Reads a URL. A property of the URL goes before one of {@code info}. */
    static Address of(String url, Properties info) throws SQLException {
        if (!isOurs(url)) {
            throw Errors.refused("08001", "the URL does not begin with " + PREFIX);
        }
        boolean isUnix = url.startsWith(UNIX_PREFIX);
        String rest = url.substring((isUnix ? UNIX_PREFIX : PREFIX).length());
        int mark = rest.indexOf('?');
        String place = mark < 0 ? rest : rest.substring(0, mark);
        Map<String, String> options = new LinkedHashMap<>();
        Map<String, String> ofServer = new LinkedHashMap<>();
        if (info != null) {
            for (String name : info.stringPropertyNames()) {
                if (PROPERTIES.containsKey(name)) {
                    options.put(name, info.getProperty(name));
                } else if (SERVER_OPTIONS.contains(name)) {
                    ofServer.put(name, info.getProperty(name));
                }
            }
        }
        boolean isServer = isUnix || place.contains("//");
        if (mark >= 0) {
            read(rest.substring(mark + 1), isServer, rest.contains("@"), options, ofServer);
        }
        return isServer ? server(isUnix, place, options, ofServer) : embedded(place, options);
    }

    /**
     * Reads the properties of a URL. A name may be of a password, which ends at a question mark or an ampersand
     * if they are not encoded: it is shown only if the URL has no password before it.
     */
    private static void read(String query, boolean isServer, boolean mayBeSecret, Map<String, String> options,
            Map<String, String> ofServer) throws SQLException {
        boolean isSecret = mayBeSecret;
        for (String pair : query.split("&")) {
            int equals = pair.indexOf('=');
            String name = equals < 0 ? pair : pair.substring(0, equals);
            if (name.isEmpty()) {
                continue;
            }
            String value;
            try {
                value = URLDecoder.decode(equals < 0 ? "" : pair.substring(equals + 1), StandardCharsets.UTF_8);
            } catch (IllegalArgumentException error) {
                // The error has a part of the value.
                String shown = PROPERTIES.containsKey(name) ? "the property " + name : "a property";
                throw Errors.refused("HY024", shown + " of the URL cannot be decoded: a % is written as %25");
            }
            if (PROPERTIES.containsKey(name)) {
                options.put(name, value);
                if (isServer && name.equals("password")) {
                    // What reads the address knows by it that names behind it are not to be shown.
                    ofServer.put(name, value);
                }
                isSecret |= name.equals("password");
            } else if (isServer) {
                ofServer.put(name, value);
            } else {
                String shown = isSecret ? "a property of the URL is none" : "a URL has no property \"" + name + "\"";
                throw Errors.refused("HY024", shown + "; there are " + String.join(", ", PROPERTIES.keySet()));
            }
        }
    }

    private static Address server(boolean isUnix, String place, Map<String, String> options,
            Map<String, String> ofServer) {
        String path = place.startsWith("//") ? place.substring(2) : place;
        String target = isUnix ? "hypostyle+unix://" + path : place.startsWith("//") ? "hypostyle:" + place : place;
        StringBuilder query = new StringBuilder();
        ofServer.forEach((name, value) -> query.append(query.length() == 0 ? "?" : "&").append(name).append('=')
                .append(URLEncoder.encode(value, StandardCharsets.UTF_8).replace("+", "%20")));
        return new Address(target + query, target + query, options);
    }

    private static Address embedded(String place, Map<String, String> options) throws SQLException {
        if (place.isEmpty()) {
            throw Errors.refused("08001", "the URL names no database: write jdbc:hypostyle:PATH or jdbc:hypostyle::memory:");
        }
        if (NO_PATH.matcher(place).find()) {
            throw Errors.refused("08001", "the URL names no path and no server: that of a server has two slashes, as in "
                    + "jdbc:hypostyle://user@host:port/");
        }
        if (place.startsWith(MEMORY)) {
            return new Address(MEMORY, place.equals(MEMORY) ? null : place, options);
        }
        try {
            return new Address(place, Path.of(place).toAbsolutePath().normalize().toString(), options);
        } catch (InvalidPathException error) {
            throw Errors.refused("08001", "the URL names no path and no server");
        }
    }

    /** Returns a URL without its password, for telling it. */
    static String withoutPassword(String url) {
        return PASSWORD_OPTION.matcher(PASSWORD.matcher(url).replaceFirst("$1@")).replaceAll("$1");
    }

    /** Shows no password. */
    @Override
    public String toString() {
        return "Address of " + (isServer() ? "a server" : target);
    }

    boolean isServer() {
        return target.contains("://");
    }

    /** Tells whether the database is a PostgreSQL server's. */
    boolean isPostgres() {
        return target.startsWith("postgresql://") || target.startsWith("postgres://");
    }

    boolean flag(String name) throws SQLException {
        String value = options.get(name);
        if (value == null) {
            return false;
        }
        switch (value.toLowerCase(Locale.ROOT)) {
            case "true":
            case "1":
            case "on": return true;
            case "false":
            case "0":
            case "off": return false;
            default: throw wrong(name);
        }
    }

    int count(String name) throws SQLException {
        String value = options.getOrDefault(name, "0");
        try {
            return Integer.parseUnsignedInt(value);
        } catch (NumberFormatException error) {
            throw wrong(name);
        }
    }

    /** Reads bytes, such as 4GB or 512MiB. */
    long bytes(String name) throws SQLException {
        String value = options.getOrDefault(name, "0").strip();
        int digits = 0;
        while (digits < value.length() && Character.isDigit(value.charAt(digits))) {
            digits++;
        }
        try {
            long number = Long.parseLong(value.substring(0, digits));
            return Math.multiplyExact(number, unit(value.substring(digits).strip().toLowerCase(Locale.ROOT)));
        } catch (IllegalArgumentException | ArithmeticException error) {
            throw wrong(name);
        }
    }

    private static long unit(String unit) {
        int power = unit.isEmpty() ? 0 : "bkmgt".indexOf(unit.charAt(0));
        if (power < 0 || !Set.of("", "b", "ib").contains(unit.substring(Math.min(1, unit.length())))) {
            throw new IllegalArgumentException(unit);
        }
        return (long) Math.pow(unit.endsWith("ib") ? 1024 : 1000, power);
    }

    /** Does not tell the value: behind an ampersand it may be a part of a password. */
    private static SQLException wrong(String name) {
        return Errors.refused("HY024", "the property " + name + " has a value that it cannot have");
    }

    /** Describes the properties for tools, with the values that they have now. */
    DriverPropertyInfo[] described() {
        return PROPERTIES.entrySet().stream().map(property -> {
            DriverPropertyInfo info = new DriverPropertyInfo(property.getKey(), options.get(property.getKey()));
            info.description = property.getValue();
            if (property.getKey().equals("verify")) {
                info.choices = new String[] {"auto", "always", "never"};
            } else if (property.getKey().equals("read_only") || property.getKey().startsWith("allow_")) {
                info.choices = new String[] {"true", "false"};
            }
            return info;
        }).toArray(DriverPropertyInfo[]::new);
    }
}
