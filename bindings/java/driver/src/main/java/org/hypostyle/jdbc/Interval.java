/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.time.Duration;
import java.time.Period;

/**
 * An INTERVAL: months, days and nanoseconds, each with a sign of its own. A month has no fixed number of days, and a
 * day that of a change of clocks no fixed number of hours.
 *
 * @param months the years and months
 * @param days the days
 * @param nanoseconds the hours and what is below them
 */
public record Interval(int months, int days, long nanoseconds) {
    private static final long SECOND = 1_000_000_000L;

    /** Returns the interval that has a period's months and days. */
    public static Interval of(Period period) {
        return new Interval(Math.toIntExact(period.toTotalMonths()), period.getDays(), 0);
    }

    /** Returns the interval that has a duration's nanoseconds, and no days. */
    public static Interval of(Duration duration) {
        return new Interval(0, 0, duration.toNanos());
    }

    /** Returns the months and days. */
    public Period toPeriod() {
        return Period.of(months / 12, months % 12, days);
    }

    /** Returns the nanoseconds. */
    public Duration toDuration() {
        return Duration.ofNanos(nanoseconds);
    }

    /** Returns the interval as the database writes it, such as {@code 1 year 2 mons -3 days +04:05:06.789}. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        boolean isAfterNegative = unit(text, months / 12, "year", false);
        isAfterNegative = unit(text, months % 12, "mon", isAfterNegative);
        isAfterNegative = unit(text, days, "day", isAfterNegative);
        if (nanoseconds != 0 || text.length() == 0) {
            clock(text, isAfterNegative);
        }
        return text.toString();
    }

    /** Writes a part that is not 0, with a sign behind one that is negative; tells whether the last one is. */
    private static boolean unit(StringBuilder text, int count, String unit, boolean isAfterNegative) {
        if (count == 0) {
            return isAfterNegative;
        }
        text.append(text.length() > 0 ? " " : "").append(isAfterNegative && count > 0 ? "+" : "").append(count)
                .append(' ').append(unit).append(count == 1 ? "" : "s");
        return count < 0;
    }

    private void clock(StringBuilder text, boolean isAfterNegative) {
        text.append(text.length() > 0 ? " " : "").append(nanoseconds < 0 ? "-" : isAfterNegative ? "+" : "");
        long seconds = Math.abs(nanoseconds / SECOND);
        text.append(String.format("%02d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60));
        long fraction = Math.abs(nanoseconds % SECOND);
        if (fraction != 0) {
            text.append(BigDecimal.valueOf(fraction, 9).stripTrailingZeros().toPlainString().substring(1));
        }
    }
}
