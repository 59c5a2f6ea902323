/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.UUID;

/**
 * A column of a batch. A value is read as what the caller wants; a value that is no such thing is refused with 22018, and
 * one that does not fit with 22003. No method but {@link #isNull} may be called for a row whose value is NULL.
 */
abstract class Column {
    private static final BigInteger LEAST = BigInteger.valueOf(Long.MIN_VALUE);
    private static final BigInteger MOST = BigInteger.valueOf(Long.MAX_VALUE);

    final Field field;

    Column(Field field) {
        this.field = field;
    }

    abstract boolean isNull(long row);

    /** Returns the value in the class of its type. */
    abstract Object getObject(long row) throws SQLException;

    /** Returns the value as the database casts it to VARCHAR. */
    String getString(long row) throws SQLException {
        return Texts.of(getObject(row));
    }

    /** Returns a number without its fraction. */
    long getLong(long row) throws SQLException {
        return whole(getBigDecimal(row));
    }

    double getDouble(long row) throws SQLException {
        return getBigDecimal(row).doubleValue();
    }

    BigDecimal getBigDecimal(long row) throws SQLException {
        throw notAs("a number");
    }

    boolean getBoolean(long row) throws SQLException {
        return getBigDecimal(row).signum() != 0;
    }

    byte[] getBytes(long row) throws SQLException {
        return getString(row).getBytes(StandardCharsets.UTF_8);
    }

    LocalDate getDate(long row) throws SQLException {
        throw notAs("a date");
    }

    LocalTime getTime(long row) throws SQLException {
        throw notAs("a time");
    }

    /** Returns the date and time of a TIMESTAMP, or those that UTC shows at a TIMESTAMPTZ. */
    LocalDateTime getTimestamp(long row) throws SQLException {
        throw notAs("a timestamp");
    }

    /** Tells whether {@link #getTimestamp} gives a point in time. */
    boolean isInstant() {
        return false;
    }

    OffsetDateTime getOffsetDateTime(long row) throws SQLException {
        throw notAs("a point in time");
    }

    UUID getUuid(long row) throws SQLException {
        throw notAs("a UUID");
    }

    SQLException notAs(String what) {
        return Errors.refused("22018", "the column \"" + field.name + "\" of the type " + field.typeName
                + " cannot be read as " + what);
    }

    SQLException outOfRange(Object value, String what) {
        return Errors.refused("22003", "the value " + value + " of the column \"" + field.name
                + "\" is out of the range of " + what);
    }

    /** Cuts a fraction off. */
    final long whole(BigDecimal number) throws SQLException {
        BigInteger whole = Conversions.wholeNumber(number);
        if (whole.compareTo(LEAST) < 0 || whole.compareTo(MOST) > 0) {
            throw outOfRange(number, "a long");
        }
        return whole.longValue();
    }

    final long whole(double number) throws SQLException {
        if (number >= -0x1p63 && number < 0x1p63) {
            return (long) number;
        }
        throw outOfRange(number, "a long");
    }
}
