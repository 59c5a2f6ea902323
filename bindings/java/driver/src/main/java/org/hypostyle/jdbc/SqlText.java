/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

/** Finds out about a text of SQL what the driver has to know. */
final class SqlText {
    /** The kinds of statements, with hypostyle.h's numbers. */
    static final int KIND_OTHER = 0;
    static final int KIND_QUERY = 1;
    static final int KIND_INSERT = 2;
    static final int KIND_MERGE = 5;
    static final int KIND_TRANSACTION = 8;

    /** What may stand behind a table that has no alias. */
    private static final Set<String> BEHIND_TABLES = Set.of("where", "order", "limit", "offset", "fetch", "for", "window",
            "having", "qualify", "tablesample", "except", "intersect");

    private SqlText() {}

    /** Tells whether a kind of statement writes rows, which RETURNING gives. */
    static boolean writesRows(int kind) {
        return kind >= KIND_INSERT && kind <= KIND_MERGE;
    }

    /** Splits a text into its statements. A text without any is one, which the database refuses. */
    static List<byte[]> statements(String sql) throws SQLException {
        byte[] text = Native.utf8(sql);
        int[] places = new int[3];
        List<byte[]> found = new ArrayList<>(1);
        int from = 0;
        while (from < text.length && Native.nextStatement(text, from, places)) {
            found.add(Arrays.copyOfRange(text, places[0], places[0] + places[1]));
            from = places[2];
        }
        return found.isEmpty() ? List.of(text) : found;
    }

    /** Finds the word of SQL that begins at a place or behind it, outside of quotes and comments; -1 for none. */
    static int find(String sql, String word, int from) {
        for (int at = from; at < sql.length(); at = skip(sql, at)) {
            boolean isWordsBegin = Character.isUnicodeIdentifierStart(sql.charAt(at))
                    && (at == 0 || !isPart(sql.charAt(at - 1)));
            int end = at + word.length();
            if (isWordsBegin && sql.regionMatches(true, at, word, 0, word.length())
                    && (end >= sql.length() || !isPart(sql.charAt(end)))) {
                return at;
            }
        }
        return -1;
    }

    static boolean isPart(char character) {
        return Character.isUnicodeIdentifierPart(character) || character == '$';
    }

    /** Returns the place behind the character, the quoted text or the comment that begins at a place. */
    static int skip(String sql, int at) {
        char first = sql.charAt(at);
        char second = at + 1 < sql.length() ? sql.charAt(at + 1) : 0;
        if (first == '\'' || first == '"') {
            boolean hasEscapes = first == '\'' && at > 0 && (sql.charAt(at - 1) == 'e' || sql.charAt(at - 1) == 'E')
                    && (at == 1 || !isPart(sql.charAt(at - 2)));
            return quoted(sql, at, hasEscapes);
        }
        if (first == '-' && second == '-') {
            int end = sql.indexOf('\n', at);
            return end < 0 ? sql.length() : end + 1;
        }
        if (first == '/' && second == '*') {
            return comment(sql, at);
        }
        if (first == '$' && (at == 0 || !isPart(sql.charAt(at - 1)))) {
            return dollarQuoted(sql, at);
        }
        return at + 1;
    }

    private static int quoted(String sql, int at, boolean hasEscapes) {
        char quote = sql.charAt(at);
        for (int end = at + 1; end < sql.length(); end++) {
            if (hasEscapes && sql.charAt(end) == '\\') {
                end++;
            } else if (sql.charAt(end) == quote) {
                return end + 1;
            }
        }
        return sql.length();
    }

    private static int comment(String sql, int at) {
        int depth = 1;
        for (int end = at + 2; end + 1 < sql.length(); end++) {
            if (sql.startsWith("/*", end)) {
                depth++;
                end++;
            } else if (sql.startsWith("*/", end)) {
                depth--;
                end++;
                if (depth == 0) {
                    return end + 1;
                }
            }
        }
        return sql.length();
    }

    private static int dollarQuoted(String sql, int at) {
        int end = at + 1;
        while (end < sql.length() && Character.isUnicodeIdentifierPart(sql.charAt(end))) {
            end++;
        }
        if (end >= sql.length() || sql.charAt(end) != '$' || end > at + 1 && Character.isDigit(sql.charAt(at + 1))) {
            return at + 1;
        }
        String tag = sql.substring(at, end + 1);
        int close = sql.indexOf(tag, end + 1);
        return close < 0 ? sql.length() : close + tag.length();
    }

    /**
     * Tells whether a query's columns, between two places, are those of its one table: names or all, and no aliases. What
     * stands before a name is the table's name or alias: else the name is that of a structure's field.
     */
    static boolean arePlainColumns(String sql, int from, int to, List<String> table) {
        String items = sql.substring(from, to);
        String alias = alias(sql, to + "FROM".length());
        List<String> qualifier = alias == null ? table : List.of(alias);
        int at = 0;
        while (true) {
            int start = behindBlanks(items, at);
            at = behindColumn(items, start);
            if (at < 0 || !isQualified(name(items.substring(start, at), 0), qualifier, items.charAt(at - 1) == '*')) {
                return false;
            }
            at = behindBlanks(items, at);
            if (at == items.length()) {
                return true;
            }
            if (items.charAt(at) != ',') {
                return false;
            }
            at++;
        }
    }

    /** Tells whether a name has before its last part the last parts of another one, or nothing. */
    private static boolean isQualified(List<String> column, List<String> table, boolean isAll) {
        int before = isAll ? column.size() : column.size() - 1;
        return before <= table.size()
                && column.subList(0, before).equals(table.subList(table.size() - before, table.size()));
    }

    /** Returns the alias of the table whose name begins at a place or behind blanks there; null if it has none. */
    private static String alias(String sql, int from) {
        int start = behindBlanks(sql, from);
        int at = behindColumn(sql, start);
        List<String> next = at < 0 ? List.of() : name(sql, at);
        if (!next.isEmpty() && next.get(0).equals("as")) {
            next = name(sql, behindBlanks(sql, at) + "AS".length());
        }
        return next.isEmpty() || BEHIND_TABLES.contains(next.get(0)) ? null : next.get(0);
    }

    /** Returns the place behind white space and comments. */
    private static int behindBlanks(String text, int from) {
        int at = from;
        while (at < text.length()) {
            boolean isComment = text.startsWith("--", at) || text.startsWith("/*", at);
            if (!isComment && !Character.isWhitespace(text.charAt(at))) {
                return at;
            }
            at = skip(text, at);
        }
        return at;
    }

    /** Returns the place behind a name of one or more parts, whose last may be the star; -1 if there is none. */
    private static int behindColumn(String text, int from) {
        int at = from;
        while (at < text.length()) {
            char first = text.charAt(at);
            if (first == '*') {
                return at + 1;
            }
            if (first == '"') {
                do {
                    at = quoted(text, at, false);
                } while (at < text.length() && text.charAt(at) == '"');
            } else if (first == '_' || Character.isUnicodeIdentifierStart(first)) {
                while (at < text.length() && isPart(text.charAt(at))) {
                    at++;
                }
            } else {
                return -1;
            }
            if (at >= text.length() || text.charAt(at) != '.') {
                return at;
            }
            at++;
        }
        return -1;
    }

    /** Tells whether a query, whose FROM is at a place, has a comma before the next of its clauses. */
    static boolean hasSeveralTables(String sql, int from) {
        int end = sql.length();
        for (String clause : List.of("WHERE", "ORDER", "LIMIT", "OFFSET", "FETCH")) {
            int found = find(sql, clause, from);
            end = found < 0 ? end : Math.min(end, found);
        }
        for (int at = from; at < end; at = skip(sql, at)) {
            if (sql.charAt(at) == ',') {
                return true;
            }
        }
        return false;
    }

    /** Returns the parts of the name of the table that an INSERT, UPDATE or DELETE changes; none if it is not found. */
    static List<String> changedTable(String sql) {
        int insert = find(sql, "INTO", 0);
        int delete = find(sql, "FROM", 0);
        int update = find(sql, "UPDATE", 0);
        int at = find(sql, "INSERT", 0) >= 0 && insert >= 0 ? insert + 4
                : find(sql, "DELETE", 0) >= 0 && delete >= 0 ? delete + 4 : update >= 0 ? update + 6 : sql.length();
        return name(sql, at);
    }

    /** Splits a name that is no SQL: its parts are between dots, and quotes keep a dot. */
    static List<String> parts(String name) {
        List<String> parts = new ArrayList<>();
        StringBuilder part = new StringBuilder();
        boolean isInside = false;
        for (int at = 0; at < name.length(); at++) {
            char character = name.charAt(at);
            if (character == '"' && isInside && name.startsWith("\"\"", at)) {
                part.append(character);
                at++;
            } else if (character == '"') {
                isInside = !isInside;
            } else if (character == '.' && !isInside) {
                parts.add(part.toString());
                part.setLength(0);
            } else {
                part.append(character);
            }
        }
        parts.add(part.toString());
        return parts;
    }

    /** Reads a name of one or more parts, as the database reads it; none if there is none. */
    static List<String> name(String sql, int from) {
        List<String> parts = new ArrayList<>();
        int at = from;
        while (true) {
            at = behindBlanks(sql, at);
            if (at >= sql.length()) {
                return parts;
            }
            int end;
            if (sql.charAt(at) == '"') {
                end = quoted(sql, at, false);
                while (end < sql.length() && sql.charAt(end) == '"') {
                    end = quoted(sql, end, false);
                }
                parts.add(sql.substring(at + 1, Math.max(at + 1, end - 1)).replace("\"\"", "\""));
            } else {
                end = at;
                while (end < sql.length() && isPart(sql.charAt(end))) {
                    end++;
                }
                if (end == at) {
                    return parts;
                }
                parts.add(sql.substring(at, end).toLowerCase(java.util.Locale.ROOT));
            }
            if (end >= sql.length() || sql.charAt(end) != '.') {
                return parts;
            }
            at = end + 1;
        }
    }
}
