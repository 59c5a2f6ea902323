/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.sql.SQLException;
import java.util.List;

/** A column of values in Java's memory. */
final class ObjectColumn extends Column {
    private final List<?> values;

    ObjectColumn(Field field, List<?> values) {
        super(field);
        this.values = values;
    }

    @Override
    boolean isNull(long row) {
        return values.get((int) row) == null;
    }

    @Override
    Object getObject(long row) {
        return values.get((int) row);
    }

    @Override
    byte[] getBytes(long row) throws SQLException {
        return getObject(row) instanceof byte[] bytes ? bytes.clone() : super.getBytes(row);
    }

    @Override
    boolean getBoolean(long row) throws SQLException {
        return getObject(row) instanceof Boolean value ? value : super.getBoolean(row);
    }

    @Override
    BigDecimal getBigDecimal(long row) throws SQLException {
        Object value = getObject(row);
        if (value instanceof Boolean truth) {
            return truth ? BigDecimal.ONE : BigDecimal.ZERO;
        }
        try {
            return value instanceof BigDecimal number ? number : Conversions.parseNumber(Texts.of(value));
        } catch (NumberFormatException error) {
            throw notAs("a number");
        }
    }

    @Override
    double getDouble(long row) throws SQLException {
        return getObject(row) instanceof Number number ? number.doubleValue() : super.getDouble(row);
    }

    @Override
    java.time.LocalDate getDate(long row) throws SQLException {
        return getObject(row) instanceof java.sql.Date date ? date.toLocalDate() : super.getDate(row);
    }

    @Override
    java.time.LocalTime getTime(long row) throws SQLException {
        return getObject(row) instanceof java.sql.Time time ? Conversions.localTime(time) : super.getTime(row);
    }

    @Override
    java.time.LocalDateTime getTimestamp(long row) throws SQLException {
        return getObject(row) instanceof java.sql.Timestamp point ? point.toLocalDateTime() : super.getTimestamp(row);
    }

    @Override
    java.time.OffsetDateTime getOffsetDateTime(long row) throws SQLException {
        return getObject(row) instanceof java.time.OffsetDateTime point ? point : super.getOffsetDateTime(row);
    }

    @Override
    java.util.UUID getUuid(long row) throws SQLException {
        return getObject(row) instanceof java.util.UUID uuid ? uuid : super.getUuid(row);
    }
}
