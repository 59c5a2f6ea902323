/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;

/** Writes values as the database casts them to VARCHAR. */
final class Texts {
    private static final String SPECIAL = "'\",[](){}:=\\";

    private Texts() {}

    /** Returns the shortest text that reads as the same DOUBLE. */
    static String of(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return named(value);
        }
        BigDecimal exact = new BigDecimal(value);
        // Below the normal numbers there are fewer digits.
        for (int digits = Math.abs(value) < Double.MIN_NORMAL ? 1 : 15; digits < 17; digits++) {
            BigDecimal rounded = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
            if (rounded.doubleValue() == value) {
                return written(rounded, value < 0 || 1 / value < 0);
            }
        }
        return written(exact.round(new MathContext(17, RoundingMode.HALF_EVEN)), value < 0);
    }

    /** Returns the shortest text that reads as the same FLOAT. */
    static String of(float value) {
        if (Float.isNaN(value) || Float.isInfinite(value)) {
            return named(value);
        }
        BigDecimal exact = new BigDecimal(value);
        for (int digits = Math.abs(value) < Float.MIN_NORMAL ? 1 : 6; digits < 9; digits++) {
            BigDecimal rounded = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
            if (rounded.floatValue() == value) {
                return written(rounded, value < 0 || 1 / value < 0);
            }
        }
        return written(exact.round(new MathContext(9, RoundingMode.HALF_EVEN)), value < 0);
    }

    private static String named(double value) {
        return Double.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf";
    }

    /** Writes digits plainly from 1e-4 up to 1e16, else with an exponent of two digits or more, and its sign. */
    private static String written(BigDecimal number, boolean isNegative) {
        if (number.signum() == 0) {
            return isNegative ? "-0.0" : "0.0";
        }
        BigDecimal digits = number.stripTrailingZeros();
        int exponent = digits.precision() - digits.scale() - 1;
        if (exponent < -4 || exponent >= 16) {
            String first = digits.scaleByPowerOfTen(-exponent).stripTrailingZeros().toPlainString();
            return first + String.format("e%+03d", exponent);
        }
        return (digits.scale() < 1 ? digits.setScale(1) : digits).toPlainString();
    }

    static String of(byte[] bytes) {
        return "\\x" + HexFormat.of().formatHex(bytes);
    }

    static String of(LocalTime time) {
        StringBuilder text = new StringBuilder(18);
        two(text, time.getHour()).append(':');
        two(text, time.getMinute()).append(':');
        two(text, time.getSecond());
        if (time.getNano() != 0) {
            text.append(BigDecimal.valueOf(time.getNano(), 9).stripTrailingZeros().toPlainString().substring(1));
        }
        return text.toString();
    }

    private static StringBuilder two(StringBuilder text, int number) {
        return text.append(number < 10 ? "0" : "").append(number);
    }

    /** Writes a day without its era: years count from 1 on in both directions, as in PostgreSQL. */
    private static String day(LocalDate date) {
        int year = date.getYear() > 0 ? date.getYear() : 1 - date.getYear();
        return String.format(Locale.ROOT, "%04d-%02d-%02d", year, date.getMonthValue(), date.getDayOfMonth());
    }

    private static String era(LocalDate date) {
        return date.getYear() > 0 ? "" : " BC";
    }

    static String of(LocalDate date) {
        return day(date) + era(date);
    }

    private static String of(LocalDateTime point, String offset) {
        LocalDate date = point.toLocalDate();
        return day(date) + " " + of(point.toLocalTime()) + offset + era(date);
    }

    static String of(LocalDateTime point) {
        return of(point, "");
    }

    /** Writes a point in time as UTC shows it. */
    static String ofInstant(LocalDateTime utc) {
        return of(utc, "+00");
    }

    /** Returns what {@code getString} gives for a value that Java's heap has. */
    static String of(Object value) {
        if (value == null) {
            return null;
        }
        if (value instanceof Double number) {
            return of(number.doubleValue());
        }
        if (value instanceof Float number) {
            return of(number.floatValue());
        }
        if (value instanceof BigDecimal number) {
            return number.toPlainString();
        }
        if (value instanceof byte[] bytes) {
            return of(bytes);
        }
        return ofPoint(value);
    }

    private static String ofPoint(Object value) {
        if (value instanceof java.sql.Date date) {
            return of(date.toLocalDate());
        }
        if (value instanceof java.sql.Time time) {
            return of(Conversions.localTime(time));
        }
        if (value instanceof java.sql.Timestamp point) {
            return of(point.toLocalDateTime());
        }
        if (value instanceof LocalTime time) {
            return of(time);
        }
        if (value instanceof LocalDate date) {
            return of(date);
        }
        if (value instanceof LocalDateTime point) {
            return of(point);
        }
        if (value instanceof java.time.OffsetDateTime point) {
            return ofInstant(point.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime());
        }
        if (value instanceof java.time.Duration duration) {
            return Interval.of(duration).toString();
        }
        return value.toString();
    }

    /** Writes a list; the elements are texts or null, and nested ones stand without quotes. */
    static String list(List<String> elements, boolean isNested) {
        StringJoiner text = new StringJoiner(", ", "[", "]");
        for (String element : elements) {
            text.add(element(element, isNested));
        }
        return text.toString();
    }

    /** Writes a value within a list, a struct or a map: in quotes if it could be taken for something else. */
    static String element(String text, boolean isNested) {
        if (text == null) {
            return "NULL";
        }
        if (isNested) {
            return text;
        }
        boolean isPlain = !text.isEmpty() && text.strip().equals(text) && !text.equalsIgnoreCase("null")
                && text.chars().noneMatch(character -> SPECIAL.indexOf(character) >= 0);
        return isPlain ? text : quoted(text);
    }

    /** Writes a text as the name of a struct's field. */
    static String quoted(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }

    /** Writes a name as an identifier of SQL. */
    static String identifier(String name) {
        return '"' + name.replace("\"", "\"\"") + '"';
    }

    /** Writes a text as a literal of SQL. */
    static String literal(String text) {
        return text == null ? "NULL" : "'" + text.replace("'", "''") + "'";
    }

    static String map(Map<String, String> entries, boolean areNested) {
        StringJoiner text = new StringJoiner(", ", "{", "}");
        entries.forEach((key, value) -> text.add(element(key, false) + "=" + element(value, areNested)));
        return text.toString();
    }

    /** Returns the date that a text shows. */
    static LocalDate date(String text) {
        return LocalDate.parse(text.strip());
    }
}
