/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.sql.Array;
import java.sql.Blob;
import java.sql.Clob;
import java.sql.SQLException;
import java.sql.SQLXML;
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
import java.util.Collection;
import java.util.UUID;

/** A value for a parameter or an appended column, in the parts of {@code hypostyle_value}. */
final class Value {
    static final Value NULL = new Value(SqlType.NULL, 0, 0, 0, 0, null, null);
    /** Between these years a TIMESTAMP of nanoseconds reaches. */
    private static final int NANO_YEAR_LEAST = 1678;
    private static final int NANO_YEAR_MOST = 2261;
    private static final int DECIMAL_BITS = 126;

    final SqlType type;
    final int scale;
    final long integer;
    final long high;
    final double number;
    final byte[] bytes;
    /** The elements of a list, or null. */
    final Value[] elements;
    /**
     * The point in time that the value is where the database wants a TIMESTAMPTZ, or null: a {@code java.util.Date} is
     * one, which a clock of the program's zone shows as what the value has.
     */
    private final Instant moment;

    private Value(SqlType type, int scale, long integer, long high, double number, byte[] bytes, Value[] elements) {
        this(type, scale, integer, high, number, bytes, elements, null);
    }

    private Value(SqlType type, int scale, long integer, long high, double number, byte[] bytes, Value[] elements,
            Instant moment) {
        this.type = type;
        this.scale = scale;
        this.integer = integer;
        this.high = high;
        this.number = number;
        this.bytes = bytes;
        this.elements = elements;
        this.moment = moment;
    }

    private Value at(Instant point) {
        return new Value(type, scale, integer, high, number, bytes, elements, point);
    }

    /** Tells whether it matters if the database wants a TIMESTAMPTZ. */
    boolean hasMoment() {
        return moment != null || elements != null && Arrays.stream(elements).anyMatch(Value::hasMoment);
    }

    /** Returns the value for a place that wants a TIMESTAMPTZ, or a list of them. */
    Value asMoment() throws SQLException {
        if (elements == null) {
            return moment == null ? this : of(moment);
        }
        Value[] moments = new Value[elements.length];
        for (int index = 0; index < moments.length; index++) {
            moments[index] = elements[index].asMoment();
        }
        return new Value(type, scale, integer, high, number, bytes, moments);
    }

    /** Returns about how many bytes the value has. */
    long size() {
        return bytes != null ? bytes.length : elements == null ? 16 : Arrays.stream(elements).mapToLong(Value::size).sum();
    }

    static Value of(boolean value) {
        return integer(SqlType.BOOLEAN, value ? 1 : 0);
    }

    static Value integer(SqlType type, long value) {
        return new Value(type, 0, value, 0, 0, null, null);
    }

    static Value of(float value) {
        return new Value(SqlType.FLOAT, 0, 0, 0, value, null, null);
    }

    static Value of(double value) {
        return new Value(SqlType.DOUBLE, 0, 0, 0, value, null, null);
    }

    static Value of(String text) throws SQLException {
        return text == null ? NULL : bytes(SqlType.VARCHAR, Native.utf8(text));
    }

    static Value of(byte[] bytes) {
        return bytes == null ? NULL : bytes(SqlType.BLOB, bytes.clone());
    }

    private static Value bytes(SqlType type, byte[] bytes) {
        return new Value(type, 0, 0, 0, 0, bytes, null);
    }

    /** A DECIMAL of up to 126 bits; a longer one is its text. */
    static Value of(BigDecimal number) throws SQLException {
        if (number == null) {
            return NULL;
        }
        Conversions.checkDigits(number);
        BigDecimal plain = number.scale() < 0 ? number.setScale(0) : number;
        BigInteger unscaled = plain.unscaledValue();
        if (unscaled.bitLength() > DECIMAL_BITS || plain.scale() > 38) {
            return of(plain.toPlainString());
        }
        return new Value(SqlType.DECIMAL, plain.scale(), unscaled.longValue(), unscaled.shiftRight(64).longValue(), 0,
                null, null);
    }


    BigDecimal decimal() {
        BigInteger low = new BigInteger(Long.toUnsignedString(integer));
        return new BigDecimal(BigInteger.valueOf(high).shiftLeft(64).add(low), scale);
    }

    static Value of(UUID uuid) {
        ByteBuffer bytes = ByteBuffer.allocate(16);
        bytes.putLong(uuid.getMostSignificantBits()).putLong(uuid.getLeastSignificantBits());
        return bytes(SqlType.UUID, bytes.array());
    }

    static Value of(LocalDate date) throws SQLException {
        return integer(SqlType.DATE, Conversions.days(date));
    }

    /** A TIME; what is below its microseconds is cut off. */
    static Value of(LocalTime time) {
        return integer(SqlType.TIME, time.toNanoOfDay() / 1000);
    }

    static Value of(LocalDateTime point) throws SQLException {
        return point(SqlType.TIMESTAMP, point.toInstant(ZoneOffset.UTC), point.getYear());
    }

    static Value of(Instant point) throws SQLException {
        boolean isCommon = point.getEpochSecond() > -1L << 33 && point.getEpochSecond() < 1L << 33;
        return point(SqlType.TIMESTAMPTZ, point, isCommon ? point.atOffset(ZoneOffset.UTC).getYear() : 0);
    }

    /** Keeps nanoseconds in the years that have them. */
    private static Value point(SqlType type, Instant point, int year) throws SQLException {
        if (point.getNano() % 1000 != 0 && year >= NANO_YEAR_LEAST && year <= NANO_YEAR_MOST) {
            return new Value(type, 9, point.getEpochSecond() * 1_000_000_000L + point.getNano(), 0, 0, null, null);
        }
        return new Value(type, 6, Conversions.micros(point), 0, 0, null, null);
    }

    static Value of(Interval interval) {
        long high = (long) interval.days() << 32 | interval.months() & 0xffffffffL;
        return new Value(SqlType.INTERVAL, 9, interval.nanoseconds(), high, 0, null, null);
    }

    static Value date(java.util.Date date, Calendar calendar) throws SQLException {
        if (date == null) {
            return NULL;
        }
        LocalDate day = calendar == null && date instanceof java.sql.Date plain ? Conversions.localDate(plain)
                : Conversions.localDateTime(date, calendar).toLocalDate();
        return of(day).at(day.atStartOfDay(Conversions.zone(calendar)).toInstant());
    }

    static Value time(Time time, Calendar calendar) {
        return time == null ? NULL : of(Conversions.localDateTime(time, calendar).toLocalTime());
    }

    /** A TIMESTAMP: what a clock shows in the calendar's zone, or in that of the JVM. */
    static Value timestamp(Timestamp point, Calendar calendar) throws SQLException {
        if (point == null) {
            return NULL;
        }
        LocalDateTime shown = calendar == null ? Conversions.localDateTime(point)
                : Conversions.localDateTime(point, calendar);
        return of(shown).at(point.toInstant());
    }

    static Value list(Object[] elements) throws SQLException {
        Value[] values = new Value[elements.length];
        for (int index = 0; index < elements.length; index++) {
            values[index] = of(elements[index]);
        }
        return new Value(SqlType.LIST, 0, 0, 0, 0, null, values);
    }

    /** Returns the value for an object of any class that a parameter may have. */
    static Value of(Object value) throws SQLException {
        if (value == null) {
            return NULL;
        }
        if (value instanceof Number number) {
            return ofNumber(number);
        }
        if (value instanceof Boolean truth) {
            return of(truth.booleanValue());
        }
        if (value instanceof byte[] bytes) {
            return of(bytes);
        }
        if (value instanceof UUID uuid) {
            return of(uuid);
        }
        if (value instanceof CharSequence || value instanceof Character || value instanceof Enum<?>) {
            return of(value.toString());
        }
        Value found = ofPoint(value);
        if (found == null) {
            found = ofObject(value);
        }
        if (found == null) {
            throw Errors.refused("22018", "a parameter cannot be a " + value.getClass().getName());
        }
        return found;
    }

    private static Value ofNumber(Number value) throws SQLException {
        if (value instanceof Integer) {
            return integer(SqlType.INTEGER, value.intValue());
        }
        if (value instanceof Long) {
            return integer(SqlType.BIGINT, value.longValue());
        }
        if (value instanceof Double) {
            return of(value.doubleValue());
        }
        if (value instanceof BigDecimal number) {
            return of(number);
        }
        if (value instanceof BigInteger number) {
            return of(new BigDecimal(number));
        }
        if (value instanceof Short || value instanceof Byte) {
            return integer(SqlType.SMALLINT, value.shortValue());
        }
        if (value instanceof Float) {
            return of(value.floatValue());
        }
        try {
            return of(Conversions.parseNumber(value.toString()));
        } catch (NumberFormatException error) {
            throw Errors.refused("22018", "a parameter cannot be a " + value.getClass().getName(), error);
        }
    }

    private static Value ofPoint(Object value) throws SQLException {
        if (value instanceof LocalDate date) {
            return of(date);
        }
        if (value instanceof LocalDateTime point) {
            return of(point);
        }
        if (value instanceof OffsetDateTime point) {
            return of(point.toInstant());
        }
        if (value instanceof Timestamp point) {
            return timestamp(point, null);
        }
        if (value instanceof java.sql.Date date) {
            return date(date, null);
        }
        if (value instanceof Time time) {
            return time(time, null);
        }
        if (value instanceof LocalTime time) {
            return of(time);
        }
        if (value instanceof Instant point) {
            return of(point);
        }
        if (value instanceof ZonedDateTime point) {
            return of(point.toInstant());
        }
        if (value instanceof Calendar calendar) {
            return of(calendar.toInstant());
        }
        return value instanceof java.util.Date date ? of(Conversions.localDateTime(date, null)).at(date.toInstant()) : null;
    }

    private static Value ofObject(Object value) throws SQLException {
        if (value instanceof Interval interval) {
            return of(interval);
        }
        try {
            if (value instanceof Duration duration) {
                return of(Interval.of(duration));
            }
            if (value instanceof Period period) {
                return of(Interval.of(period));
            }
        } catch (ArithmeticException error) {
            throw Errors.refused("22015", "the interval " + value + " is out of range", error);
        }
        if (value instanceof Array array) {
            return list(boxed(array.getArray()));
        }
        if (value instanceof Collection<?> collection) {
            return list(collection.toArray());
        }
        if (value.getClass().isArray()) {
            return list(boxed(value));
        }
        if (value instanceof Clob clob) {
            return of(clob.getSubString(1, Streams.limit(clob.length())));
        }
        if (value instanceof Blob blob) {
            return of(blob.getBytes(1, Streams.limit(blob.length())));
        }
        return value instanceof SQLXML xml ? of(xml.getString()) : null;
    }

    private static Object[] boxed(Object array) {
        Object[] boxed = new Object[java.lang.reflect.Array.getLength(array)];
        for (int index = 0; index < boxed.length; index++) {
            boxed[index] = java.lang.reflect.Array.get(array, index);
        }
        return boxed;
    }

    /** Returns the value for an object as a type of {@link java.sql.Types}. */
    static Value of(Object value, int jdbcType, int scale) throws SQLException {
        if (value == null) {
            return NULL;
        }
        Field field = Field.inMemory("parameter", SqlType.VARCHAR, value.getClass().getSimpleName());
        Column column = new ObjectColumn(field, java.util.List.of(value));
        switch (jdbcType) {
            case java.sql.Types.BIT:
            case java.sql.Types.BOOLEAN:
                return value instanceof String text ? ofBoolean(text) : of(column.getBoolean(0));
            case java.sql.Types.TINYINT:
            case java.sql.Types.SMALLINT:
                return integer(SqlType.SMALLINT, Conversions.integer(column, 0, Short.MIN_VALUE, Short.MAX_VALUE));
            case java.sql.Types.INTEGER:
                return integer(SqlType.INTEGER, Conversions.integer(column, 0, Integer.MIN_VALUE, Integer.MAX_VALUE));
            case java.sql.Types.BIGINT:
                return integer(SqlType.BIGINT, column.getLong(0));
            case java.sql.Types.REAL:
                return of((float) column.getDouble(0));
            case java.sql.Types.FLOAT:
            case java.sql.Types.DOUBLE:
                return of(column.getDouble(0));
            case java.sql.Types.DECIMAL:
            case java.sql.Types.NUMERIC: {
                BigDecimal number = column.getBigDecimal(0);
                return of(scale >= 0 ? Conversions.scaled(number, scale) : number);
            }
            case java.sql.Types.CHAR:
            case java.sql.Types.VARCHAR:
            case java.sql.Types.LONGVARCHAR:
            case java.sql.Types.NCHAR:
            case java.sql.Types.NVARCHAR:
            case java.sql.Types.LONGNVARCHAR:
                if (value instanceof BigDecimal number) {
                    Conversions.checkDigits(number);
                }
                return value instanceof Clob ? of(value) : of(Texts.of(value));
            default:
                return ofPointAs(of(value), jdbcType);
        }
    }

    private static Value ofBoolean(String text) throws SQLException {
        try {
            return of(Conversions.parseBoolean(text));
        } catch (IllegalArgumentException error) {
            throw Errors.refused("22018", "the text '" + text + "' is no boolean", error);
        }
    }

    /** Makes a date, a time or a point in time of a timestamp where a program asks for one. */
    private static Value ofPointAs(Value value, int jdbcType) throws SQLException {
        if (jdbcType == java.sql.Types.TIMESTAMP_WITH_TIMEZONE) {
            return value.asMoment();
        }
        long unit = value.scale == 9 ? 86_400_000_000_000L : 86_400_000_000L;
        if (value.type == SqlType.TIMESTAMP && jdbcType == java.sql.Types.DATE) {
            return integer(SqlType.DATE, Math.floorDiv(value.integer, unit));
        }
        if (value.type == SqlType.TIMESTAMP && jdbcType == java.sql.Types.TIME) {
            long within = Math.floorMod(value.integer, unit);
            return integer(SqlType.TIME, value.scale == 9 ? within / 1000 : within);
        }
        return value;
    }
}
