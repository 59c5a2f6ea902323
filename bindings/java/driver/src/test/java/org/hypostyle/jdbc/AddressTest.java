/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.hypostyle.jdbc.Databases.fails;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What URLs and properties mean. Needs no library. */
class AddressTest {
    private static Address of(String url) throws SQLException {
        return Address.of(url, null);
    }

    @Test
    void targets() throws SQLException {
        assertEquals("shop.hypo", of("jdbc:hypostyle:shop.hypo").target());
        assertEquals("/a b/shop.hypo", of("jdbc:hypostyle:/a b/shop.hypo").target());
        assertEquals("hypostyle://ada@host:4953/", of("jdbc:hypostyle://ada@host:4953/").target());
        assertEquals("hypostyle://host/?tls=on&streams=2", of("jdbc:hypostyle://host/?tls=on&streams=2&user=x").target());
        assertEquals("hypostyle+unix:///tmp/socket", of("jdbc:hypostyle+unix:/tmp/socket").target());
        assertEquals("hypostyle+unix:///tmp/socket", of("jdbc:hypostyle+unix:///tmp/socket").target());
        assertEquals("postgresql://host/db", of("jdbc:hypostyle:postgresql://host/db").target());
        assertTrue(of("jdbc:hypostyle:postgresql://host/db").isServer());
        assertFalse(of("jdbc:hypostyle:shop.hypo").isServer());
        fails("08001", () -> of("jdbc:hypostyle:"));
        fails("08001", () -> of("jdbc:other:x"));
        assertEquals("/data/a:b@c.hypo", of("jdbc:hypostyle:/data/a:b@c.hypo").target());
        assertEquals("./ada:b@c.hypo", of("jdbc:hypostyle:./ada:b@c.hypo").target());
        assertEquals("C:/a:b@c.hypo", of("jdbc:hypostyle:C:/a:b@c.hypo").target());
        fails("08001", () -> of("jdbc:hypostyle:/host:4953/"));
        fails("08001", () -> of("jdbc:hypostyle:ada:secret@host"));
    }

    @Test
    void sharing() throws SQLException {
        assertNull(of("jdbc:hypostyle::memory:").shared());
        assertEquals(":memory:", of("jdbc:hypostyle::memory:a").target());
        assertNotEquals(of("jdbc:hypostyle::memory:a").shared(), of("jdbc:hypostyle::memory:b").shared());
        assertEquals(of("jdbc:hypostyle:a/../shop.hypo").shared(), of("jdbc:hypostyle:shop.hypo").shared());
    }

    @Test
    void properties() throws SQLException {
        Properties info = new Properties();
        info.setProperty("threads", "1");
        info.setProperty("verify", "never");
        info.setProperty("tls", "off");
        info.setProperty("unknown", "x");
        Address address = Address.of("jdbc:hypostyle:shop.hypo?threads=2&read_only=true&memory_limit=4GiB&schema=a%20b", info);
        assertEquals(2, address.count("threads"));
        assertTrue(address.flag("read_only"));
        assertEquals(4L << 30, address.bytes("memory_limit"));
        assertEquals(Map.of("threads", "2", "verify", "never", "read_only", "true", "memory_limit", "4GiB", "schema", "a b"),
                address.options());
        assertEquals("hypostyle://host/?tls=off", Address.of("jdbc:hypostyle://host/", info).target());
        fails("HY024", () -> of("jdbc:hypostyle:shop.hypo?no_such=1"));
        fails("HY024", () -> of("jdbc:hypostyle:shop.hypo?threads=many").count("threads"));
        fails("HY024", () -> of("jdbc:hypostyle:shop.hypo?memory_limit=4XB").bytes("memory_limit"));
        fails("HY024", () -> of("jdbc:hypostyle:shop.hypo?read_only=perhaps").flag("read_only"));
        assertEquals(Address.PROPERTIES.size(), address.described().length);
    }

    @Test
    void passwordsAreNotShown() throws SQLException {
        String password = "s3cr:t%@/#?x";
        List<String> urls = List.of("jdbc:other://ada:*@h/", "jdbc:hypostyle:ada:*@h", "jdbc:hypostyle:*",
                "jdbc:hypostyle:shop.hypo?password=*", "jdbc:hypostyle:shop.hypo?password=a&s3cr=b",
                "jdbc:hypostyle:shop.hypo?*=b", "jdbc:hypostyle://h/?password=*", "jdbc:hypostyle://h/?verify=*",
                "jdbc:hypostyle:postgresql://h/?a=*", "jdbc:hypostyle:/ada:*@h", "jdbc:hypostyle:/ada:s3cr@h",
                "jdbc:hypostyle:/ada:1/s3cr@h", "jdbc:hypostyle:ada:s3cr\0@h");
        for (String url : urls) {
            SQLException error = assertThrows(SQLException.class, () -> of(url.replace("*", password)), url);
            for (Throwable told = error; told != null; told = told.getCause()) {
                for (String part : List.of("s3cr", "t%", "#?", "@/", "?x", "\"x")) {
                    assertFalse(told.getMessage().contains(part), told.getMessage());
                }
            }
        }
        Address wrong = of("jdbc:hypostyle:shop.hypo?password=a&threads=s3cr&memory_limit=s3cr&read_only=s3cr");
        for (Executable read : List.<Executable>of(() -> wrong.count("threads"), () -> wrong.bytes("memory_limit"),
                () -> wrong.flag("read_only"))) {
            assertFalse(assertThrows(SQLException.class, read).getMessage().contains("s3cr"));
        }
        // What may be wrong with these the library tells, which sees that there is a password before a name.
        assertEquals("hypostyle://h/?password=a&s3cr=", of("jdbc:hypostyle://h/?password=a&s3cr").target());
        assertFalse(of("jdbc:hypostyle://ada:s3cr@h/?password=s3cr").toString().contains("s3cr"));
    }

    @Test
    void urlsAreToldWithoutPasswords() {
        for (String[] pair : new String[][] {{"jdbc:hypostyle://ada:*@h:1/?tls=on", "jdbc:hypostyle://ada@h:1/?tls=on"},
                {"jdbc:hypostyle:postgresql://ada:*/@h/db", "jdbc:hypostyle:postgresql://ada@h/db"},
                {"jdbc:hypostyle+unix:ada:*@/run/a.sock", "jdbc:hypostyle+unix:ada@/run/a.sock"},
                {"jdbc:hypostyle+unix:/run/a:b@c", "jdbc:hypostyle+unix:/run/a:b@c"},
                {"jdbc:hypostyle://h/?password=*&tls=on", "jdbc:hypostyle://h/?password=&tls=on"},
                {"jdbc:hypostyle:C:/a:b@c.hypo", "jdbc:hypostyle:C:/a:b@c.hypo"}}) {
            assertEquals(pair[1], Address.withoutPassword(pair[0].replace("*", "s3cr@t%3F")));
        }
    }
}
