/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.sql.SQLException;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.UUID;

/** A column of texts, which are read as other values if they show some. */
abstract class TextBasedColumn extends ArrowColumn {
    TextBasedColumn(Field field, ArrayData data, long before) {
        super(field, data, before);
    }

    @Override
    abstract String getString(long row) throws SQLException;

    @Override
    Object getObject(long row) throws SQLException {
        return getString(row);
    }

    @Override
    BigDecimal getBigDecimal(long row) throws SQLException {
        return read(row, "a number", Conversions::parseNumber);
    }

    @Override
    double getDouble(long row) throws SQLException {
        return read(row, "a number", Conversions::parseDouble);
    }

    @Override
    boolean getBoolean(long row) throws SQLException {
        return read(row, "a boolean", Conversions::parseBoolean);
    }

    @Override
    LocalDate getDate(long row) throws SQLException {
        return read(row, "a date", text -> Conversions.parseTimestamp(text).toLocalDate());
    }

    @Override
    LocalTime getTime(long row) throws SQLException {
        return read(row, "a time", text -> LocalTime.parse(text.strip()));
    }

    /** Reads a text with an offset from UTC as what a clock of the JVM's zone shows then. */
    @Override
    LocalDateTime getTimestamp(long row) throws SQLException {
        return read(row, "a timestamp", Conversions::parseTimestamp);
    }

    @Override
    OffsetDateTime getOffsetDateTime(long row) throws SQLException {
        return read(row, "a point in time", text -> OffsetDateTime.parse(text.strip().replace(' ', 'T')))
                .withOffsetSameInstant(ZoneOffset.UTC);
    }

    @Override
    UUID getUuid(long row) throws SQLException {
        return read(row, "a UUID", text -> UUID.fromString(text.strip()));
    }

    private interface Reader<T> {
        T read(String text);
    }

    private <T> T read(long row, String what, Reader<T> reader) throws SQLException {
        String text = getString(row);
        try {
            return reader.read(text);
        } catch (IllegalArgumentException | DateTimeException error) {
            String shown = text.length() > 100 ? text.substring(0, 100) + "…" : text;
            throw Errors.refused("22018", "the text '" + shown + "' of the column \"" + field.name + "\" is not " + what,
                    error);
        }
    }
}
