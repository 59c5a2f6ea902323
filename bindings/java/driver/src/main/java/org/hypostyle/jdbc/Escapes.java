/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * Translates JDBC's escapes, such as <code>{d '2026-01-31'}</code> and <code>{fn ucase(name)}</code>, into SQL. Other
 * braces are those of the database's structs, and stay.
 */
final class Escapes {
    /** The functions of JDBC that the database has under other names, with their arguments as %s. */
    private static final Map<String, String> FUNCTIONS = Map.ofEntries(
            Map.entry("UCASE", "upper(%s)"), Map.entry("LCASE", "lower(%s)"), Map.entry("CHAR", "chr(%s)"),
            Map.entry("IFNULL", "coalesce(%s)"), Map.entry("LOG", "ln(%s)"), Map.entry("RAND", "random()"),
            Map.entry("TRUNCATE", "trunc(%s)"), Map.entry("CEILING", "ceil(%s)"),
            Map.entry("CURDATE", "current_date"), Map.entry("CURTIME", "current_time"),
            Map.entry("CURRENT_DATE", "current_date"), Map.entry("CURRENT_TIME", "current_time"),
            Map.entry("CURRENT_TIMESTAMP", "current_timestamp"), Map.entry("DATABASE", "current_database()"),
            Map.entry("USER", "current_user"), Map.entry("DAYOFMONTH", "extract(day FROM %s)"),
            Map.entry("DAYOFWEEK", "(extract(dow FROM %s) + 1)"), Map.entry("DAYOFYEAR", "extract(doy FROM %s)"),
            Map.entry("HOUR", "extract(hour FROM %s)"), Map.entry("MINUTE", "extract(minute FROM %s)"),
            Map.entry("SECOND", "CAST(floor(extract(second FROM %s)) AS INTEGER)"),
            Map.entry("MONTH", "extract(month FROM %s)"),
            Map.entry("QUARTER", "extract(quarter FROM %s)"), Map.entry("WEEK", "extract(week FROM %s)"),
            Map.entry("YEAR", "extract(year FROM %s)"), Map.entry("SPACE", "repeat(' ', %s)"));
    /** The types of JDBC, with SQL_ before them or without, that the database has under other names. */
    private static final Map<String, String> TYPES = Map.ofEntries(Map.entry("BIT", "BOOLEAN"),
            Map.entry("FLOAT", "DOUBLE"), Map.entry("NUMERIC", "DECIMAL"), Map.entry("CHAR", "VARCHAR"),
            Map.entry("LONGVARCHAR", "VARCHAR"), Map.entry("CLOB", "VARCHAR"), Map.entry("NCHAR", "VARCHAR"),
            Map.entry("NVARCHAR", "VARCHAR"), Map.entry("LONGNVARCHAR", "VARCHAR"), Map.entry("NCLOB", "VARCHAR"),
            Map.entry("BINARY", "BLOB"), Map.entry("VARBINARY", "BLOB"), Map.entry("LONGVARBINARY", "BLOB"),
            Map.entry("GUID", "UUID"));
    private static final Set<String> NILADIC = Set.of("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP");
    private static final Map<String, String> LITERALS = Map.of("D", "DATE ", "T", "TIME ", "TS", "TIMESTAMP ");

    private Escapes() {}

    static String translate(String sql) throws SQLException {
        if (sql == null) {
            throw Errors.refused("HY009", "the statement's text is null");
        }
        return sql.indexOf('{') < 0 ? sql : part(sql, 0, sql.length());
    }

    private static String part(String sql, int from, int to) throws SQLException {
        StringBuilder text = new StringBuilder(to - from);
        int at = from;
        while (at < to) {
            String word = sql.charAt(at) == '{' ? keyword(sql, at + 1, to) : "";
            if (word.isEmpty()) {
                int next = Math.min(SqlText.skip(sql, at), to);
                text.append(sql, at, next);
                at = next;
                continue;
            }
            int close = close(sql, at, to);
            int body = blanksEnd(sql, at + 1, to) + word.length();
            text.append(escape(word, sql, body, close));
            at = close + 1;
        }
        return text.toString();
    }

    static int blanksEnd(String sql, int from, int to) {
        int end = from;
        while (end < to && Character.isWhitespace(sql.charAt(end))) {
            end++;
        }
        return end;
    }

    /** Returns the word that makes a brace an escape; nothing if it is none. */
    private static String keyword(String sql, int from, int to) {
        int start = blanksEnd(sql, from, to);
        int end = start;
        while (end < to && SqlText.isPart(sql.charAt(end))) {
            end++;
        }
        int next = blanksEnd(sql, end, to);
        char following = next < to ? sql.charAt(next) : 0;
        String word = sql.substring(start, end).toUpperCase(Locale.ROOT);
        switch (word) {
            case "D":
            case "T":
            case "TS":
            case "ESCAPE":
                return following == '\'' ? word : "";
            case "OJ":
                return next > end && (following == '(' || following == '"' || Character.isUnicodeIdentifierStart(following))
                        ? word : "";
            case "FN":
            case "CALL":
                return next > end && Character.isUnicodeIdentifierStart(following) ? word : "";
            case "LIMIT":
                return next > end && (Character.isDigit(following) || following == '?') ? word : "";
            default:
                return "";
        }
    }

    private static int close(String sql, int open, int to) throws SQLException {
        int depth = 0;
        for (int at = open; at < to; at = SqlText.skip(sql, at)) {
            if (sql.charAt(at) == '{') {
                depth++;
            } else if (sql.charAt(at) == '}') {
                depth--;
                if (depth == 0) {
                    return at;
                }
            }
        }
        throw Errors.refused("42601", "the escape at the place " + (open + 1) + " has no closing brace");
    }

    private static String escape(String word, String sql, int from, int to) throws SQLException {
        String body = part(sql, from, to).strip();
        switch (word) {
            case "FN":
                return function(body);
            case "OJ":
                return body;
            case "CALL":
                return "SELECT " + body + (body.endsWith(")") ? "" : "()");
            case "ESCAPE":
            case "LIMIT":
                return word + " " + body;
            default:
                return LITERALS.get(word) + body;
        }
    }

    private static String function(String call) throws SQLException {
        if (NILADIC.contains(call.toUpperCase(Locale.ROOT))) {
            return call;
        }
        int open = call.indexOf('(');
        if (open < 0 || !call.endsWith(")")) {
            throw Errors.refused("42601", "the escape {fn " + call + "} is no call of a function");
        }
        String name = call.substring(0, open).strip().toUpperCase(Locale.ROOT);
        String inner = call.substring(open + 1, call.length() - 1).strip();
        List<String> arguments = arguments(inner);
        if (name.equals("CONVERT") && arguments.size() == 2) {
            String type = arguments.get(1).toUpperCase(Locale.ROOT).replaceFirst("^SQL_", "");
            return "CAST(" + arguments.get(0) + " AS " + TYPES.getOrDefault(type, type) + ")";
        }
        if (name.equals("INSERT") && arguments.size() == 4) {
            return insert(arguments);
        }
        if (name.equals("LOCATE") && arguments.size() >= 2) {
            return locate(arguments);
        }
        if ((name.equals("TIMESTAMPADD") || name.equals("TIMESTAMPDIFF")) && arguments.size() == 3) {
            return timestamp(name, arguments);
        }
        String form = FUNCTIONS.get(name);
        return form == null ? call : form.replace("%s", inner);
    }

    /** Writes a text into another one, in the place of some of its characters. */
    private static String insert(List<String> arguments) {
        String text = arguments.get(0);
        String start = arguments.get(1);
        return "(left(%s, (%s) - 1) || %s || substr(%s, (%s) + (%s)))".formatted(text, start, arguments.get(3), text, start,
                arguments.get(2));
    }

    private static String locate(List<String> arguments) {
        String found = "strpos(%s, %s)".formatted(arguments.get(1), arguments.get(0));
        if (arguments.size() == 2) {
            return found;
        }
        String start = arguments.get(2);
        String rest = "strpos(substr(%s, %s), %s)".formatted(arguments.get(1), start, arguments.get(0));
        return "(CASE WHEN %s = 0 THEN 0 ELSE %s + %s - 1 END)".formatted(rest, rest, start);
    }

    private static String timestamp(String name, List<String> arguments) throws SQLException {
        String unit = arguments.get(0).toUpperCase(Locale.ROOT);
        if (!unit.matches("SQL_TSI_(SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|QUARTER|YEAR)")) {
            throw Errors.refused("42601", "the escape {fn " + name + "} has no unit " + unit);
        }
        String word = unit.substring("SQL_TSI_".length()).toLowerCase(Locale.ROOT);
        if (name.equals("TIMESTAMPDIFF")) {
            return "date_diff('%s', %s, %s)".formatted(word, arguments.get(1), arguments.get(2));
        }
        String one = word.equals("quarter") ? "3 months" : "1 " + word;
        return "(%s + (%s) * INTERVAL '%s')".formatted(arguments.get(2), arguments.get(1), one);
    }

    private static List<String> arguments(String inner) {
        List<String> found = new ArrayList<>();
        int depth = 0;
        int from = 0;
        for (int at = 0; at < inner.length(); at = SqlText.skip(inner, at)) {
            char character = inner.charAt(at);
            if (character == '(' || character == '[' || character == '{') {
                depth++;
            } else if (character == ')' || character == ']' || character == '}') {
                depth--;
            } else if (character == ',' && depth == 0) {
                found.add(inner.substring(from, at).strip());
                from = at + 1;
            }
        }
        if (!inner.isBlank()) {
            found.add(inner.substring(from).strip());
        }
        return found;
    }
}
