/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.sql.Timestamp;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;

/** The columns of dates, times, points in time and intervals. */
final class TemporalColumns {
    private TemporalColumns() {}

    static Column of(Field field, ArrayData data, long before) {
        switch (field.type) {
            case DATE: return new DateColumn(field, data, before);
            case TIME: return new TimeColumn(field, data, before);
            case INTERVAL: return new IntervalColumn(field, data, before);
            case DURATION: return new DurationColumn(field, data, before);
            default: return new TimestampColumn(field, data, before);
        }
    }

    private static long power(int digits) {
        return digits == 0 ? 1 : 10 * power(digits - 1);
    }

    private static final class DateColumn extends ArrowColumn {
        private final Memory memory;
        /** How many elements make a day: days of 32 bits, or milliseconds of 64. */
        private final boolean isDays;

        DateColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            isDays = field.format.equals("tdD");
            memory = elements(data, isDays ? 4 : 8);
        }

        @Override
        LocalDate getDate(long row) {
            long at = place(row);
            return LocalDate.ofEpochDay(isDays ? memory.int32(at * 4) : Math.floorDiv(memory.int64(at * 8), 86_400_000L));
        }

        @Override
        LocalDateTime getTimestamp(long row) {
            return getDate(row).atStartOfDay();
        }

        @Override
        String getString(long row) {
            return Texts.of(getDate(row));
        }

        @Override
        Object getObject(long row) {
            return java.sql.Date.valueOf(getDate(row));
        }
    }

    private static final class TimeColumn extends ArrowColumn {
        private final Memory memory;
        private final boolean isInt;
        /** The nanoseconds of an element. */
        private final long unit;

        TimeColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            char letter = field.format.charAt(2);
            isInt = letter == 's' || letter == 'm';
            unit = power(9 - 3 * "smun".indexOf(letter));
            memory = elements(data, isInt ? 4 : 8);
        }

        @Override
        LocalTime getTime(long row) {
            long at = place(row);
            return LocalTime.ofNanoOfDay((isInt ? memory.int32(at * 4) : memory.int64(at * 8)) * unit);
        }

        @Override
        LocalDateTime getTimestamp(long row) {
            return getTime(row).atDate(LocalDate.EPOCH);
        }

        @Override
        String getString(long row) {
            return Texts.of(getTime(row));
        }

        @Override
        Object getObject(long row) {
            return Conversions.time(getTime(row));
        }
    }

    private static final class TimestampColumn extends ArrowColumn {
        private final Memory memory;
        /** How many elements make a second. */
        private final long second;

        TimestampColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            second = power(3 * "smun".indexOf(field.format.charAt(2)));
            memory = elements(data, 8);
        }

        @Override
        boolean isInstant() {
            return field.type == SqlType.TIMESTAMPTZ;
        }

        @Override
        LocalDateTime getTimestamp(long row) throws SQLException {
            long value = memory.int64(place(row) * 8);
            try {
                return LocalDateTime.ofEpochSecond(Math.floorDiv(value, second),
                        (int) (Math.floorMod(value, second) * (1_000_000_000L / second)), ZoneOffset.UTC);
            } catch (DateTimeException error) {
                throw outOfRange(value, "java.time");
            }
        }

        @Override
        LocalDate getDate(long row) throws SQLException {
            return getTimestamp(row).toLocalDate();
        }

        @Override
        LocalTime getTime(long row) throws SQLException {
            return getTimestamp(row).toLocalTime();
        }

        @Override
        OffsetDateTime getOffsetDateTime(long row) throws SQLException {
            if (!isInstant()) {
                throw notAs("a point in time, because it has no time zone");
            }
            return getTimestamp(row).atOffset(ZoneOffset.UTC);
        }

        @Override
        String getString(long row) throws SQLException {
            return isInstant() ? Texts.ofInstant(getTimestamp(row)) : Texts.of(getTimestamp(row));
        }

        @Override
        Object getObject(long row) throws SQLException {
            return isInstant() ? getOffsetDateTime(row) : Timestamp.valueOf(getTimestamp(row));
        }
    }

    private static final class IntervalColumn extends ArrowColumn {
        private final Memory memory;

        IntervalColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            memory = elements(data, 16);
        }

        @Override
        Interval getObject(long row) {
            long at = place(row) * 16;
            return new Interval(memory.int32(at), memory.int32(at + 4), memory.int64(at + 8));
        }
    }

    private static final class DurationColumn extends ArrowColumn {
        private final Memory memory;
        private final long second;

        DurationColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            second = power(field.scale);
            memory = elements(data, 8);
        }

        @Override
        Duration getObject(long row) {
            long value = memory.int64(place(row) * 8);
            return Duration.ofSeconds(Math.floorDiv(value, second),
                    Math.floorMod(value, second) * (1_000_000_000L / second));
        }
    }
}
