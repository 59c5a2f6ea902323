/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Array;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLData;
import java.sql.SQLException;
import java.sql.SQLInput;
import java.sql.SQLOutput;
import java.sql.SQLXML;
import java.sql.Statement;
import java.sql.Struct;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.Period;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.Arrays;
import java.util.Calendar;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.UUID;
import java.util.stream.Stream;
import javax.xml.transform.Result;
import javax.xml.transform.Source;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.dom.DOMResult;
import javax.xml.transform.dom.DOMSource;
import javax.xml.transform.sax.SAXResult;
import javax.xml.transform.sax.SAXSource;
import javax.xml.transform.stax.StAXResult;
import javax.xml.transform.stax.StAXSource;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each type with NULL and its extremes: as it is stored, as it is computed, and as a parameter. */
class TypesTest {
    /** A type, literals of its values, and the objects that Java gets. */
    private record Case(String type, List<String> literals, List<Object> objects) {
        static Case of(String type, Object... pairs) {
            List<Object> all = Arrays.asList(pairs);
            return new Case(type, Stream.iterate(0, index -> index < all.size(), index -> index + 2)
                    .map(index -> (String) all.get(index)).toList(),
                    Stream.iterate(1, index -> index < all.size(), index -> index + 2).map(all::get).toList());
        }
    }

    private static final List<Case> CASES = List.of(
            Case.of("BOOLEAN", "true", true, "false", false),
            Case.of("TINYINT", "-128", -128, "127", 127, "0", 0),
            Case.of("SMALLINT", "-32768", -32768, "32767", 32767),
            Case.of("INTEGER", "-2147483648", Integer.MIN_VALUE, "2147483647", Integer.MAX_VALUE),
            Case.of("BIGINT", "-9223372036854775808", Long.MIN_VALUE, "9223372036854775807", Long.MAX_VALUE),
            Case.of("UTINYINT", "0", 0, "255", 255),
            Case.of("USMALLINT", "65535", 65535),
            Case.of("UINTEGER", "4294967295", 4294967295L),
            Case.of("UBIGINT", "0", BigDecimal.ZERO, "18446744073709551615", new BigDecimal("18446744073709551615")),
            Case.of("REAL", "1.5", 1.5f, "'NaN'", Float.NaN, "3.4028235e38", Float.MAX_VALUE, "1e-45", Float.MIN_VALUE,
                    "0.1", 0.1f, "16777216", 16777216f, "1e7", 1e7f, "'-inf'", Float.NEGATIVE_INFINITY),
            Case.of("DOUBLE", "0.1", 0.1, "1e23", 1e23, "5e-324", Double.MIN_VALUE, "1.7976931348623157e308",
                    Double.MAX_VALUE, "'inf'", Double.POSITIVE_INFINITY, "'NaN'", Double.NaN, "1e16", 1e16, "1e15", 1e15,
                    "0.00001", 1e-5, "0.000001", 1e-6, "123456789.125", 123456789.125, "2e-44", 2e-44,
                    "9007199254740993", 9007199254740992.0),
            Case.of("DECIMAL(4,1)", "-999.9", new BigDecimal("-999.9"), "0", new BigDecimal("0.0")),
            Case.of("DECIMAL(18,2)", "9999999999999999.99", new BigDecimal("9999999999999999.99"), "-0.05",
                    new BigDecimal("-0.05")),
            Case.of("DECIMAL(38,5)", "-123456789012345678901234567890123.45678",
                    new BigDecimal("-123456789012345678901234567890123.45678"), "1", new BigDecimal("1.00000")),
            Case.of("DECIMAL(76,10)", "'123456789012345678901234567890123456789012345678901234567890123456.0123456789'",
                    new BigDecimal("123456789012345678901234567890123456789012345678901234567890123456.0123456789")),
            Case.of("DATE", "'0001-01-01'", LocalDate.of(1, 1, 1), "'9999-12-31'", LocalDate.of(9999, 12, 31),
                    "'12020-01-01'", LocalDate.of(12020, 1, 1), "'0044-03-15 BC'", LocalDate.of(-43, 3, 15)),
            Case.of("TIME", "'00:00:00'", LocalTime.MIDNIGHT, "'23:59:59.999999'", LocalTime.of(23, 59, 59, 999999000)),
            Case.of("TIMESTAMP", "'1969-12-31 23:59:59.999999'", LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999999000),
                    "'2026-01-31 12:00:00.5'", LocalDateTime.of(2026, 1, 31, 12, 0, 0, 500000000),
                    "'0001-01-01 00:00:00'", LocalDateTime.of(1, 1, 1, 0, 0)),
            Case.of("TIMESTAMP(0)", "'2026-01-31 12:00:01'", LocalDateTime.of(2026, 1, 31, 12, 0, 1)),
            Case.of("TIMESTAMP(3)", "'1900-01-31 12:00:01.001'", LocalDateTime.of(1900, 1, 31, 12, 0, 1, 1000000)),
            Case.of("TIMESTAMP(9)", "'1969-01-31 12:00:01.123456789'", LocalDateTime.of(1969, 1, 31, 12, 0, 1, 123456789)),
            Case.of("TIMESTAMPTZ", "'2026-01-31 12:00:00.25+02'", OffsetDateTime.parse("2026-01-31T10:00:00.25Z")),
            Case.of("INTERVAL", "'1 year 2 mons -3 days 04:05:06.789'", new Interval(14, -3, 14706789000000L),
                    "'-1 days -00:00:00.000001'", new Interval(0, -1, -1000), "'0 days'", new Interval(0, 0, 0),
                    "'1000 hours'", new Interval(0, 0, 3_600_000_000_000_000L), "'-1 mons 1 day'", new Interval(-1, 1, 0)),
            Case.of("VARCHAR", "''", "", "'a'", "a", "'Ärger 🐘 漢字'", "Ärger 🐘 漢字", "'it''s'", "it's"),
            Case.of("JSON", "'{\"a\": [1, null]}'", "{\"a\": [1, null]}"),
            Case.of("UUID", "'00000000-0000-0000-0000-000000000001'", new UUID(0, 1),
                    "'ffffffff-ffff-ffff-ffff-fffffffffffe'", new UUID(-1, -2)),
            Case.of("INTEGER[]", "[1, NULL, 3]", Arrays.asList(1, null, 3), "[]", List.of()),
            Case.of("INTEGER[2]", "[1, 2]", List.of(1, 2)),
            Case.of("VARCHAR[]", "['a b', '', 'NULL', NULL, 'it''s', 'x,y', ' z']",
                    Arrays.asList("a b", "", "NULL", null, "it's", "x,y", " z")),
            Case.of("INTEGER[][]", "[[1], NULL, [2, 3]]", null));

    static List<String> urls() throws Exception {
        return Databases.urls();
    }

    /** Compares with what the database itself says: its cast to text, and the values that were written. */
    @ParameterizedTest
    @MethodSource("urls")
    void valuesAreThoseOfTheDatabase(String url) throws Exception {
        try (Connection connection = DriverManager.getConnection(url)) {
            int number = 0;
            for (Case each : CASES) {
                String table = "types_" + number++;
                Databases.run(connection, "CREATE TABLE " + table + " (n INTEGER, v " + each.type + ")",
                        "INSERT INTO " + table + " VALUES (0, NULL)");
                for (int index = 0; index < each.literals.size(); index++) {
                    Databases.run(connection, "INSERT INTO " + table + " VALUES (" + (index + 1) + ", CAST("
                            + each.literals.get(index) + " AS " + each.type + "))");
                }
                compare(connection, each, "SELECT v, v::VARCHAR FROM " + table + " ORDER BY n");
                compare(connection, each, "SELECT v, v::VARCHAR FROM " + table + " WHERE n >= 0");
                compare(connection, each, "SELECT coalesce(v, v), v::VARCHAR FROM " + table + " ORDER BY n + 0");
                Databases.run(connection, "DROP TABLE " + table);
            }
        }
    }

    private static void compare(Connection connection, Case each, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            assertTrue(rows.next());
            assertNull(rows.getObject(1), each.type);
            assertTrue(rows.wasNull());
            assertNull(rows.getString(1));
            for (Object wanted : each.objects) {
                assertTrue(rows.next(), each.type);
                assertEquals(rows.getString(2), rows.getString(1), each.type);
                if (wanted != null) {
                    assertEquals(wanted, read(rows, wanted), each.type);
                    assertFalse(rows.wasNull());
                }
                Class<?> told = rows.getObject(1).getClass();
                assertTrue(named(rows.getMetaData().getColumnClassName(1)).isAssignableFrom(told), told.getName());
            }
            assertFalse(rows.next());
        }
    }

    private static Class<?> named(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException error) {
            throw new AssertionError(error);
        }
    }

    private static Object read(ResultSet rows, Object wanted) throws SQLException {
        if (wanted instanceof LocalDate || wanted instanceof LocalTime || wanted instanceof LocalDateTime) {
            return rows.getObject(1, wanted.getClass());
        }
        Object read = rows.getObject(1);
        return read instanceof Array array ? Arrays.asList((Object[]) array.getArray()) : read;
    }

    @ParameterizedTest
    @MethodSource("urls")
    void parametersComeBack(String url) throws Exception {
        List<Object> values = List.of(true, 1, 2L, (short) 3, (byte) 4, 1.5f, 2.5, new BigDecimal("-12.50"),
                new BigDecimal("99999999999999999999999999999999999999"), new BigInteger("-18446744073709551616"), "text 🐘",
                new byte[] {0, -1, 39}, LocalDate.of(2026, 1, 31), LocalTime.of(1, 2, 3, 4000),
                LocalDateTime.of(2026, 1, 31, 1, 2, 3, 4000), LocalDateTime.of(2026, 1, 31, 1, 2, 3, 4),
                OffsetDateTime.of(2026, 1, 31, 1, 2, 3, 4000, ZoneOffset.ofHours(2)), Instant.parse("1969-12-31T23:59:59Z"),
                new UUID(1, 2), new Interval(1, -2, 3000), Duration.ofSeconds(-5), Period.of(1, 2, 3),
                Timestamp.valueOf("2026-01-31 01:02:03.000004"), Date.valueOf("2026-01-31"), Time.valueOf("01:02:03"));
        try (Connection connection = DriverManager.getConnection(url);
                PreparedStatement statement = connection.prepareStatement("SELECT ?")) {
            for (Object value : values) {
                statement.setObject(1, value);
                try (ResultSet rows = statement.executeQuery()) {
                    assertTrue(rows.next());
                    Object read = rows.getObject(1, value.getClass());
                    if (value instanceof byte[] bytes) {
                        assertArrayEquals(bytes, (byte[]) read);
                    } else if (value instanceof OffsetDateTime point) {
                        assertEquals(point.toInstant(), ((OffsetDateTime) read).toInstant());
                    } else {
                        assertEquals(value, read, value.getClass().getName());
                    }
                }
            }
            statement.setNull(1, java.sql.Types.INTEGER);
            try (ResultSet rows = statement.executeQuery()) {
                assertTrue(rows.next());
                assertNull(rows.getObject(1));
            }
        }
    }

    /** A java.sql.Timestamp is a point in time where a TIMESTAMPTZ is wanted, whatever zone the JVM has. */
    @ParameterizedTest
    @MethodSource("urls")
    void momentsStayMoments(String url) throws Exception {
        Instant noon = Instant.parse("2026-07-01T12:00:00Z");
        Timestamp moment = Timestamp.from(noon);
        TimeZone before = TimeZone.getDefault();
        try (Connection connection = DriverManager.getConnection(url); Statement statement = connection.createStatement()) {
            for (String zone : List.of("Asia/Kathmandu", "America/New_York", "UTC")) {
                TimeZone.setDefault(TimeZone.getTimeZone(zone));
                Date day = Date.valueOf("2026-07-01");
                statement.execute("CREATE TEMP TABLE moments (n INTEGER, p TIMESTAMPTZ, l TIMESTAMP)");
                try (PreparedStatement insert = connection.prepareStatement("INSERT INTO moments VALUES (?, ?, ?)")) {
                    for (int row = 0; row < 3; row++) {
                        insert.setInt(1, row);
                        insert.setTimestamp(2, moment);
                        insert.setTimestamp(3, moment);
                        insert.addBatch();
                    }
                    insert.executeBatch();
                    insert.setInt(1, 3);
                    insert.setTimestamp(2, moment, Calendar.getInstance(TimeZone.getTimeZone("Asia/Tokyo")));
                    insert.executeUpdate();
                    insert.setDate(2, day);
                    insert.setInt(1, 4);
                    insert.executeUpdate();
                }
                try (Appender rows = connection.unwrap(HypostyleConnection.class).createAppender("moments")) {
                    rows.append(5, moment, moment);
                    rows.finish();
                }
                try (PreparedStatement query = connection.prepareStatement("SELECT * FROM moments WHERE p = ?::TIMESTAMPTZ")) {
                    query.setObject(1, moment);
                    try (ResultSet rows = query.executeQuery()) {
                        for (int row = 0; row < 5; row++) {
                            assertTrue(rows.next(), zone);
                            assertEquals(moment, rows.getTimestamp("p"), zone);
                            assertEquals(moment, rows.getTimestamp("l"), zone);
                            assertEquals("2026-07-01 12:00:00+00", rows.getString("p"), zone);
                            LocalDateTime shown = noon.atZone(TimeZone.getDefault().toZoneId()).toLocalDateTime();
                            assertEquals(shown, rows.getObject("p", LocalDateTime.class), zone);
                            assertEquals(shown.toLocalDate(), rows.getObject("p", LocalDate.class), zone);
                            assertEquals(shown.toLocalTime(), rows.getObject("p", LocalTime.class), zone);
                        }
                        assertFalse(rows.next());
                    }
                }
                try (ResultSet rows = statement.executeQuery("SELECT p FROM moments WHERE n = 4")) {
                    assertTrue(rows.next());
                    assertEquals(day, rows.getDate(1), zone);
                }
                statement.execute("DROP TABLE moments");
                try (PreparedStatement query = connection.prepareStatement("SELECT ?, ?::TIMESTAMPTZ[]")) {
                    query.setObject(1, moment, java.sql.Types.TIMESTAMP_WITH_TIMEZONE);
                    query.setObject(2, List.of(moment));
                    try (ResultSet rows = query.executeQuery()) {
                        assertEquals("2026-07-01 12:00:00+00,['2026-07-01 12:00:00+00']", Databases.rows(rows), zone);
                    }
                }
            }
        } finally {
            TimeZone.setDefault(before);
        }
    }

    /** A few characters may stand for a number that fills all memory when its digits are written out. */
    @Test
    void textsOfNumbersWithManyDigits() throws Exception {
        try (Connection connection = Databases.memory();
                PreparedStatement statement = connection.prepareStatement("SELECT ?::VARCHAR")) {
            for (String text : List.of("1e999999999", "-1e200000000", "7e131073", "9".repeat(500_000))) {
                statement.setString(1, text);
                try (ResultSet rows = statement.executeQuery()) {
                    assertTrue(rows.next());
                    String state = text.length() > 100 ? "22018" : "22003";
                    Databases.fails(state, () -> rows.getLong(1));
                    Databases.fails(state, () -> rows.getInt(1));
                    Databases.fails(state, () -> rows.getObject(1, BigInteger.class));
                    Databases.fails(state, () -> scaled(rows));
                }
                for (int type : new int[] {java.sql.Types.BIGINT, java.sql.Types.SMALLINT, java.sql.Types.NUMERIC}) {
                    assertTrue(Databases.anyFailure(() -> statement.setObject(1, text, type)).startsWith("22"), text);
                }
            }
            Databases.fails("22003", () -> statement.setObject(1, new BigDecimal("1e999999999"), java.sql.Types.VARCHAR));
            statement.setString(1, "1e-999999999");
            try (ResultSet rows = statement.executeQuery()) {
                assertTrue(rows.next());
                assertEquals(0, rows.getLong(1));
                assertEquals(BigInteger.ZERO, rows.getObject(1, BigInteger.class));
            }
        }
    }

    /** Java's own conversions forget that a year is before Christ, and fail for days of the Julian calendar alone. */
    @Test
    void datesOfLongAgo() throws Exception {
        try (Connection connection = Databases.memory(); Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT '0044-03-15 BC'::DATE, '0044-03-15 BC'::TIMESTAMP, "
                        + "'0001-01-01'::DATE, '1582-10-04'::DATE");
                PreparedStatement query = connection.prepareStatement("SELECT ?, ?, ?, ?")) {
            assertTrue(rows.next());
            query.setDate(1, rows.getDate(1));
            query.setTimestamp(2, rows.getTimestamp(2));
            query.setDate(3, rows.getDate(3));
            query.setDate(4, rows.getDate(4));
            try (ResultSet again = query.executeQuery()) {
                assertEquals("0044-03-15 BC,0044-03-15 00:00:00 BC,0001-01-01,1582-10-04", Databases.rows(again));
            }
            Date julian = new Date(Date.valueOf("1500-02-28").getTime() + Duration.ofDays(1).toMillis());
            Databases.fails("22008", () -> query.setDate(1, julian));
        }
    }

    @Test
    void textsWithOffsetsAreMoments() throws Exception {
        try (Connection connection = Databases.memory(); Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT '2026-01-31 12:00:00+01', '2026-01-31T12:00:00Z', "
                        + "'2026-01-31 12:00:00'")) {
            assertTrue(rows.next());
            assertEquals(Instant.parse("2026-01-31T11:00:00Z"), rows.getTimestamp(1).toInstant());
            assertEquals(Instant.parse("2026-01-31T12:00:00Z"), rows.getTimestamp(2).toInstant());
            assertEquals(Timestamp.valueOf("2026-01-31 12:00:00"), rows.getTimestamp(3));
            assertEquals(Instant.parse("2026-01-31T11:00:00Z"), rows.getObject(1, Instant.class));
        }
    }

    /** A pair that a struct becomes. */
    public static final class Pair implements SQLData {
        private long first;
        private String second;

        @Override
        public String getSQLTypeName() {
            return "STRUCT(a BIGINT, b VARCHAR)";
        }

        @Override
        public void readSQL(SQLInput from, String typeName) throws SQLException {
            first = from.readLong();
            second = from.readString();
        }

        @Override
        public void writeSQL(SQLOutput to) throws SQLException {
            to.writeLong(first);
            to.writeString(second);
        }
    }

    @Test
    void theTypeMapOfTheConnection() throws Exception {
        try (Connection connection = Databases.memory(); Statement statement = connection.createStatement()) {
            connection.setTypeMap(Map.of("STRUCT(a BIGINT, b VARCHAR)", Pair.class));
            try (ResultSet rows = statement.executeQuery("SELECT {'a': 1, 'b': 'x'} AS s, {'a': 1} AS t")) {
                assertTrue(rows.next());
                Pair pair = (Pair) rows.getObject("s");
                assertEquals(1, pair.first);
                assertEquals("x", pair.second);
                assertTrue(rows.getObject("t") instanceof Struct);
                // A map of the call's own takes the place of the connection's.
                assertTrue(rows.getObject("s", Map.of()) instanceof Struct);
            }
        }
    }

    @Test
    void xmlInEachForm() throws Exception {
        String text = "<a b=\"1\">t</a>";
        try (Connection connection = Databases.memory();
                PreparedStatement query = connection.prepareStatement("SELECT ?")) {
            for (Class<? extends Result> form : List.of(DOMResult.class, SAXResult.class, StAXResult.class,
                    StreamResult.class)) {
                SQLXML xml = connection.createSQLXML();
                Transformer transformer = TransformerFactory.newInstance().newTransformer();
                transformer.transform(new StreamSource(new StringReader(text)), xml.setResult(form));
                query.setSQLXML(1, xml);
                try (ResultSet rows = query.executeQuery()) {
                    assertTrue(rows.next());
                    assertTrue(rows.getString(1).endsWith(text), rows.getString(1));
                }
            }
            for (Class<? extends Source> form : List.of(DOMSource.class, SAXSource.class, StAXSource.class,
                    StreamSource.class)) {
                SQLXML xml = connection.createSQLXML();
                xml.setString(text);
                StringWriter copied = new StringWriter();
                TransformerFactory.newInstance().newTransformer().transform(xml.getSource(form), new StreamResult(copied));
                assertTrue(copied.toString().endsWith(text), copied.toString());
            }
            SQLXML evil = connection.createSQLXML();
            evil.setString("<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/hostname'>]><a>&e;</a>");
            Databases.fails("22000", () -> evil.getSource(DOMSource.class));
        }
    }

    @SuppressWarnings("deprecation")
    private static BigDecimal scaled(ResultSet rows) throws SQLException {
        return rows.getBigDecimal(1, 2);
    }

    @Test
    void nestedValues() throws Exception {
        try (Connection connection = Databases.memory(); Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT {'a': 1, 'b': 'x y'} AS s, map {'k': 1, 'z': NULL} AS m, "
                        + "[{'a': [1, 2]}, NULL] AS l, [1.5, 2.5]::DOUBLE[] AS d, s::VARCHAR, m::VARCHAR, l::VARCHAR")) {
            assertTrue(rows.next());
            Struct struct = (Struct) rows.getObject("s");
            assertArrayEquals(new Object[] {1L, "x y"}, struct.getAttributes());
            assertEquals("STRUCT(a BIGINT, b VARCHAR)", struct.getSQLTypeName());
            assertEquals(Map.of("a", 1L, "b", "x y"), rows.getObject("s", Map.of(struct.getSQLTypeName(), Map.class)));
            Map<?, ?> map = (Map<?, ?>) rows.getObject("m");
            assertEquals(1L, map.get("k"));
            assertTrue(map.containsKey("z"));
            Object[] list = (Object[]) rows.getArray("l").getArray();
            assertEquals("{'a': [1, 2]}", list[0].toString());
            assertNull(list[1]);
            assertArrayEquals(new double[] {1.5, 2.5}, rows.getObject("d", double[].class));
            assertEquals(List.of(1.5, 2.5), rows.getObject("d", List.class));
            for (int column = 1; column <= 3; column++) {
                assertEquals(rows.getString(column + 4), rows.getString(column));
                assertEquals(rows.getString(column), rows.getObject(column).toString().replace("=null", "=NULL"));
            }
            try (ResultSet elements = rows.getArray("d").getResultSet()) {
                assertEquals("1,1.5;2,2.5", Databases.rows(elements));
            }
            assertArrayEquals(new Double[] {2.5}, (Object[]) rows.getArray("d").getArray(2, 1));
        }
    }

    @Test
    void numbersAreConvertedOrRefused() throws Exception {
        try (Connection connection = Databases.memory(); Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT 300::INTEGER, -1.9::DECIMAL(3,1), 1e300::DOUBLE, '12', 'x', "
                        + "true, 18446744073709551615::UBIGINT, 'NaN'::DOUBLE, 2.5::DOUBLE, 0.1::REAL, 't'")) {
            assertTrue(rows.next());
            assertEquals(300, rows.getShort(1));
            Databases.fails("22003", () -> rows.getByte(1));
            assertEquals(-1, rows.getInt(2));
            assertEquals(-1.9, rows.getDouble(2));
            Databases.fails("22003", () -> rows.getLong(3));
            assertEquals(12, rows.getInt(4));
            assertEquals(new BigDecimal("12"), rows.getBigDecimal(4));
            Databases.fails("22018", () -> rows.getInt(5));
            assertEquals(1, rows.getInt(6));
            assertTrue(rows.getBoolean(1));
            Databases.fails("22003", () -> rows.getLong(7));
            assertEquals(1.8446744073709552e19, rows.getDouble(7));
            assertEquals(new BigInteger("18446744073709551615"), rows.getObject(7, BigInteger.class));
            Databases.fails("22003", () -> rows.getBigDecimal(8));
            assertEquals(2, rows.getInt(9));
            assertEquals(new BigDecimal("0.1"), rows.getBigDecimal(10));
            assertTrue(rows.getBoolean(11));
            Databases.fails("22018", () -> rows.getDate(1));
            Databases.fails("22018", () -> rows.getObject(1, UUID.class));
            Databases.fails("42703", () -> rows.getInt(12));
            Databases.fails("42703", () -> rows.getInt("nothing"));
        }
    }

    @Test
    void pointsInTimeInCalendars() throws Exception {
        Calendar tokyo = Calendar.getInstance(TimeZone.getTimeZone("Asia/Tokyo"));
        try (Connection connection = Databases.memory(); Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT TIMESTAMP '2026-01-31 12:00:00', DATE '2026-01-31', "
                        + "TIME '12:00:00', '2026-01-31 12:00:00+00'::TIMESTAMPTZ, '2026-01-31 12:00:00.5'")) {
            assertTrue(rows.next());
            assertEquals(Timestamp.valueOf("2026-01-31 12:00:00"), rows.getTimestamp(1));
            assertEquals(Instant.parse("2026-01-31T03:00:00Z"), rows.getTimestamp(1, tokyo).toInstant());
            assertEquals(Instant.parse("2026-01-30T15:00:00Z").toEpochMilli(), rows.getDate(2, tokyo).getTime());
            assertEquals(Instant.parse("1970-01-01T03:00:00Z").toEpochMilli(), rows.getTime(3, tokyo).getTime());
            assertEquals(Instant.parse("2026-01-31T12:00:00Z"), rows.getTimestamp(4, tokyo).toInstant());
            assertEquals(Date.valueOf("2026-01-31"), rows.getDate(1));
            assertEquals(Time.valueOf("12:00:00"), rows.getTime(1));
            assertEquals(LocalDateTime.of(2026, 1, 31, 12, 0, 0, 500000000), rows.getObject(5, LocalDateTime.class));
            assertEquals(Instant.parse("2026-01-31T12:00:00Z"), rows.getObject(4, ZonedDateTime.class).toInstant());
            Databases.fails("22018", () -> rows.getObject(1, OffsetDateTime.class));
        }
        try (Connection connection = Databases.memory();
                PreparedStatement statement = connection.prepareStatement("SELECT ?, ?, ?")) {
            statement.setTimestamp(1, Timestamp.from(Instant.parse("2026-01-31T03:00:00Z")), tokyo);
            statement.setDate(2, new Date(Instant.parse("2026-01-30T15:00:00Z").toEpochMilli()), tokyo);
            statement.setTime(3, new Time(Instant.parse("1970-01-01T03:00:00Z").toEpochMilli()), tokyo);
            try (ResultSet rows = statement.executeQuery()) {
                assertEquals("2026-01-31 12:00:00,2026-01-31,12:00:00", Databases.rows(rows));
            }
        }
    }
}
