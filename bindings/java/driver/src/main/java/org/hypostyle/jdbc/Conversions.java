/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.InputStream;
import java.io.Reader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.sql.Array;
import java.sql.Blob;
import java.sql.Clob;
import java.sql.Date;
import java.sql.NClob;
import java.sql.SQLException;
import java.sql.SQLXML;
import java.sql.Struct;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.Period;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.util.Arrays;
import java.util.Calendar;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Makes values of one class of those of another. */
final class Conversions {
    /** So many digits a number may have before the point and behind it: to write out more takes all memory. */
    private static final int DIGITS_MOST = 131_072;
    /** The milliseconds of a moment soon after the year 1 has begun in any zone and calendar. */
    private static final long EARLY = -62_100_000_000_000L;
    private static final Map<Class<?>, ValueReader> READERS = new HashMap<>();

    private Conversions() {}

    /** Reads the value of a row as an object of one class. */
    private interface ValueReader {
        Object read(Column column, long row) throws SQLException;
    }

    static {
        READERS.put(Object.class, Column::getObject);
        READERS.put(String.class, Column::getString);
        READERS.put(Boolean.class, Column::getBoolean);
        READERS.put(Byte.class, (column, row) -> (byte) integer(column, row, Byte.MIN_VALUE, Byte.MAX_VALUE));
        READERS.put(Short.class, (column, row) -> (short) integer(column, row, Short.MIN_VALUE, Short.MAX_VALUE));
        READERS.put(Integer.class, (column, row) -> (int) integer(column, row, Integer.MIN_VALUE, Integer.MAX_VALUE));
        READERS.put(Long.class, Column::getLong);
        READERS.put(Float.class, (column, row) -> (float) column.getDouble(row));
        READERS.put(Double.class, Column::getDouble);
        READERS.put(BigDecimal.class, Column::getBigDecimal);
        READERS.put(BigInteger.class, (column, row) -> wholeNumber(column.getBigDecimal(row)));
        READERS.put(byte[].class, Column::getBytes);
        READERS.put(LocalDate.class, (column, row) -> column.isInstant()
                ? localDateTime(column, row).toLocalDate() : column.getDate(row));
        READERS.put(LocalTime.class, (column, row) -> column.isInstant()
                ? localDateTime(column, row).toLocalTime() : column.getTime(row));
        READERS.put(LocalDateTime.class, Conversions::localDateTime);
        READERS.put(OffsetDateTime.class, Column::getOffsetDateTime);
        READERS.put(ZonedDateTime.class, (column, row) -> column.getOffsetDateTime(row).toZonedDateTime());
        READERS.put(Instant.class, (column, row) -> column.getOffsetDateTime(row).toInstant());
        READERS.put(Date.class, (column, row) -> date(column, row, null));
        READERS.put(Time.class, (column, row) -> time(column, row, null));
        READERS.put(Timestamp.class, (column, row) -> timestamp(column, row, null));
        READERS.put(java.util.Date.class, (column, row) -> timestamp(column, row, null));
        READERS.put(Calendar.class, Conversions::calendar);
        READERS.put(UUID.class, Column::getUuid);
        READERS.put(Interval.class, Conversions::interval);
        READERS.put(Period.class, (column, row) -> interval(column, row).toPeriod());
        READERS.put(Duration.class, Conversions::duration);
        READERS.put(Array.class, Conversions::array);
        READERS.put(List.class, (column, row) -> Arrays.asList((Object[]) array(column, row).getArray()));
        READERS.put(Struct.class, (column, row) -> of(column, row, HypostyleStruct.class, "a struct"));
        READERS.put(Map.class, (column, row) -> of(column, row, Map.class, "a map"));
        READERS.put(Blob.class, (column, row) -> new HypostyleBlob(column.getBytes(row)));
        READERS.put(Clob.class, (column, row) -> new HypostyleClob(column.getString(row)));
        READERS.put(NClob.class, (column, row) -> new HypostyleClob(column.getString(row)));
        READERS.put(SQLXML.class, (column, row) -> new HypostyleSqlXml(column.getString(row)));
        READERS.put(InputStream.class, (column, row) -> new java.io.ByteArrayInputStream(column.getBytes(row)));
        READERS.put(Reader.class, (column, row) -> new java.io.StringReader(column.getString(row)));
    }

    /** Reads a value that is not NULL as an object of a class. */
    static <T> T read(Column column, long row, Class<T> type) throws SQLException {
        ValueReader reader = READERS.get(type);
        if (reader != null) {
            return type.cast(reader.read(column, row));
        }
        Object value = column.getObject(row);
        if (type.isInstance(value)) {
            return type.cast(value);
        }
        if (type.isArray()) {
            return type.cast(elements(array(column, row), type));
        }
        throw column.notAs("a " + type.getName());
    }

    private static Object elements(HypostyleArray array, Class<?> type) throws SQLException {
        Object[] from = (Object[]) array.getArray();
        Class<?> element = type.getComponentType();
        Object copied = java.lang.reflect.Array.newInstance(element, from.length);
        for (int index = 0; index < from.length; index++) {
            try {
                java.lang.reflect.Array.set(copied, index, from[index]);
            } catch (IllegalArgumentException | NullPointerException error) {
                throw Errors.refused("22018", "the element " + from[index] + " is no " + element.getName(), error);
            }
        }
        return copied;
    }

    static long integer(Column column, long row, long least, long most) throws SQLException {
        long value = column.getLong(row);
        if (value < least || value > most) {
            throw column.outOfRange(value, "the integer type that is asked for");
        }
        return value;
    }

    private static <T> T of(Column column, long row, Class<T> type, String what) throws SQLException {
        Object value = column.getObject(row);
        if (!type.isInstance(value)) {
            throw column.notAs(what);
        }
        return type.cast(value);
    }

    static HypostyleArray array(Column column, long row) throws SQLException {
        return of(column, row, HypostyleArray.class, "an array");
    }

    private static Interval interval(Column column, long row) throws SQLException {
        Object value = column.getObject(row);
        return value instanceof Duration duration ? Interval.of(duration) : of(column, row, Interval.class, "an interval");
    }

    private static Duration duration(Column column, long row) throws SQLException {
        if (column.getObject(row) instanceof Duration duration) {
            return duration;
        }
        Interval interval = interval(column, row);
        if (interval.months() != 0 || interval.days() != 0) {
            throw column.notAs("a duration: its months and days have no fixed length");
        }
        return interval.toDuration();
    }

    private static LocalDateTime localDateTime(Column column, long row) throws SQLException {
        if (!column.isInstant()) {
            return column.getTimestamp(row);
        }
        return column.getOffsetDateTime(row).atZoneSameInstant(ZoneId.systemDefault()).toLocalDateTime();
    }

    private static Calendar calendar(Column column, long row) throws SQLException {
        Calendar calendar = Calendar.getInstance();
        calendar.setTime(timestamp(column, row, null));
        return calendar;
    }

    static ZoneId zone(Calendar calendar) {
        return calendar == null ? ZoneId.systemDefault() : calendar.getTimeZone().toZoneId();
    }

    /** Reads a date: the moment at which it begins in the calendar's zone, or in that of the JVM. */
    static Date date(Column column, long row, Calendar calendar) throws SQLException {
        LocalDate date = column.isInstant()
                ? column.getOffsetDateTime(row).atZoneSameInstant(zone(calendar)).toLocalDate() : column.getDate(row);
        return calendar == null ? Date.valueOf(date)
                : new Date(date.atStartOfDay(zone(calendar)).toInstant().toEpochMilli());
    }

    static Time time(Column column, long row, Calendar calendar) throws SQLException {
        LocalTime time = column.isInstant()
                ? column.getOffsetDateTime(row).atZoneSameInstant(zone(calendar)).toLocalTime() : column.getTime(row);
        return new Time(time.atDate(LocalDate.EPOCH).atZone(zone(calendar)).toInstant().toEpochMilli());
    }

    /** Reads a timestamp: a point in time, or what a clock shows in the calendar's zone, or in that of the JVM. */
    static Timestamp timestamp(Column column, long row, Calendar calendar) throws SQLException {
        if (column.isInstant()) {
            return Timestamp.from(column.getOffsetDateTime(row).toInstant());
        }
        LocalDateTime point = column.getTimestamp(row);
        return calendar == null ? Timestamp.valueOf(point) : Timestamp.from(point.atZone(zone(calendar)).toInstant());
    }

    /** Returns the moment of the first day of 1970 at which a clock of the JVM's zone shows a time. */
    static Time time(LocalTime time) {
        return new Time(Timestamp.valueOf(time.atDate(LocalDate.EPOCH)).getTime());
    }

    /** Returns what a clock of the JVM's zone shows, with milliseconds. */
    static LocalTime localTime(Time time) {
        return new Timestamp(time.getTime()).toLocalDateTime().toLocalTime();
    }

    /** Returns the day that a date shows; {@code toLocalDate} forgets that a year is before Christ. */
    static LocalDate localDate(Date date) throws SQLException {
        try {
            return date.getTime() < EARLY ? early(date).toLocalDate() : date.toLocalDate();
        } catch (DateTimeException error) {
            throw notGregorian(date, error);
        }
    }

    static LocalDateTime localDateTime(Timestamp point) throws SQLException {
        try {
            return point.getTime() < EARLY ? early(point).withNano(point.getNanos()) : point.toLocalDateTime();
        } catch (DateTimeException error) {
            throw notGregorian(point, error);
        }
    }

    private static LocalDateTime early(java.util.Date moment) {
        GregorianCalendar shown = new GregorianCalendar();
        shown.setTime(moment);
        int year = shown.get(Calendar.YEAR);
        return LocalDateTime.of(shown.get(Calendar.ERA) == GregorianCalendar.BC ? 1 - year : year,
                shown.get(Calendar.MONTH) + 1, shown.get(Calendar.DAY_OF_MONTH), shown.get(Calendar.HOUR_OF_DAY),
                shown.get(Calendar.MINUTE), shown.get(Calendar.SECOND));
    }

    private static SQLException notGregorian(java.util.Date moment, DateTimeException error) {
        return Errors.refused("22008", "the day of " + moment + " is one of the Julian calendar alone", error);
    }

    /** Returns what a clock of the calendar's zone shows at a moment. */
    static LocalDateTime localDateTime(java.util.Date moment, Calendar calendar) {
        LocalDateTime point = Instant.ofEpochMilli(moment.getTime()).atZone(zone(calendar)).toLocalDateTime();
        return moment instanceof Timestamp exact ? point.withNano(exact.getNanos()) : point;
    }

    static void checkDigits(BigDecimal number) throws SQLException {
        checkDigits(number.scale(), number.precision());
    }

    private static void checkDigits(long scale, long precision) throws SQLException {
        if (scale > DIGITS_MOST || precision - scale > DIGITS_MOST) {
            throw Errors.refused("22003", "a number has more than " + DIGITS_MOST + " digits before or behind its point");
        }
    }

    /** Rounds a number to digits behind the point. */
    static BigDecimal scaled(BigDecimal number, int scale) throws SQLException {
        checkDigits(number);
        checkDigits(scale, scale);
        return number.setScale(scale, RoundingMode.HALF_UP);
    }

    /** Cuts a fraction off. */
    static BigInteger wholeNumber(BigDecimal number) throws SQLException {
        if ((long) number.precision() - number.scale() <= 0) {
            return BigInteger.ZERO;
        }
        checkDigits(0, (long) number.precision() - number.scale());
        return number.setScale(0, RoundingMode.DOWN).unscaledValue();
    }

    /** Reads a number whose text may be anybody's: more digits than any number has take minutes. */
    static BigDecimal parseNumber(String text) {
        String stripped = text.strip();
        if (stripped.length() > 3 * DIGITS_MOST) {
            throw new NumberFormatException("a text of " + stripped.length() + " characters");
        }
        return new BigDecimal(stripped);
    }

    /** Reads a number as the database writes it. */
    static double parseDouble(String text) {
        String stripped = text.strip();
        switch (stripped.toLowerCase(java.util.Locale.ROOT)) {
            case "inf":
            case "infinity": return Double.POSITIVE_INFINITY;
            case "-inf":
            case "-infinity": return Double.NEGATIVE_INFINITY;
            case "nan": return Double.NaN;
            default: return Double.parseDouble(stripped);
        }
    }

    static boolean parseBoolean(String text) {
        switch (text.strip().toLowerCase(java.util.Locale.ROOT)) {
            case "t":
            case "true":
            case "y":
            case "yes":
            case "on":
            case "1": return true;
            case "f":
            case "false":
            case "n":
            case "no":
            case "off":
            case "0": return false;
            default: throw new IllegalArgumentException(text);
        }
    }

    /** Reads a date, or a date and a time with a blank or a T between, also with an offset from UTC. */
    static LocalDateTime parseTimestamp(String text) {
        String stripped = text.strip();
        int time = Math.max(stripped.indexOf(' '), stripped.indexOf('T'));
        if (time < 0) {
            return LocalDate.parse(stripped).atStartOfDay();
        }
        String point = stripped.substring(0, time) + 'T' + stripped.substring(time + 1);
        boolean hasOffset = point.endsWith("Z") || point.indexOf('+', time) > 0 || point.indexOf('-', time) > 0;
        return !hasOffset ? LocalDateTime.parse(point)
                : OffsetDateTime.parse(point).atZoneSameInstant(ZoneId.systemDefault()).toLocalDateTime();
    }

    /** Returns the days since 1970 of a date, which a DATE has to hold. */
    static long days(LocalDate date) throws SQLException {
        long days = date.toEpochDay();
        if (days != (int) days) {
            throw Errors.refused("22008", "the date " + date + " is out of range");
        }
        return days;
    }

    /** Returns the microseconds since 1970. */
    static long micros(Instant point) throws SQLException {
        try {
            return Math.addExact(Math.multiplyExact(point.getEpochSecond(), 1_000_000L), point.getNano() / 1000);
        } catch (ArithmeticException | DateTimeException error) {
            throw Errors.refused("22008", "the point in time " + point + " is out of range", error);
        }
    }
}
