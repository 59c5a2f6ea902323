/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** Asks the database's catalog what the driver has to know of a table. */
final class Catalog {
    private static final String OF_TABLE = " WHERE table_name = ? AND table_schema = coalesce(?, current_schema()) "
            + "AND table_catalog = coalesce(?, current_database()) ";

    private final HypostyleConnection connection;

    Catalog(HypostyleConnection connection) {
        this.connection = connection;
    }

    /** Writes the parts of a name as SQL. */
    static String quoted(List<String> name) {
        return name.stream().map(Texts::identifier).collect(Collectors.joining("."));
    }

    private List<String> names(String sql, List<String> table) throws SQLException {
        List<String> found = new ArrayList<>();
        int parts = table.size();
        if (parts == 0) {
            return found;
        }
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, table.get(parts - 1));
            statement.setString(2, parts > 1 ? table.get(parts - 2) : null);
            statement.setString(3, parts > 2 ? table.get(parts - 3) : null);
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    found.add(rows.getString(1));
                }
            }
        }
        return found;
    }

    /** Returns the columns of a table's primary key in its order. */
    List<String> primaryKey(List<String> table) throws SQLException {
        return names("SELECT column_name FROM information_schema.key_column_usage" + OF_TABLE
                + "AND constraint_name IN (SELECT constraint_name FROM information_schema.table_constraints t "
                + "WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_name = key_column_usage.table_name "
                + "AND t.table_schema = key_column_usage.table_schema) ORDER BY ordinal_position", table);
    }

    /** Returns the columns whose values the database makes: identities, those of sequences, and computed ones. */
    private List<String> generated(List<String> table) throws SQLException {
        return names("SELECT column_name FROM information_schema.columns" + OF_TABLE
                + "AND (is_identity = 'YES' OR lower(column_default) LIKE 'nextval(%') ORDER BY ordinal_position", table);
    }

    /** Returns the names of a table's columns in their order. */
    List<String> columns(List<String> table) throws SQLException {
        return names("SELECT column_name FROM information_schema.columns" + OF_TABLE + "ORDER BY ordinal_position", table);
    }

    /** Returns the names of a table's columns by their numbers, from 1 on; null for none. */
    String[] columns(String sql, int[] numbers) throws SQLException {
        if (numbers == null) {
            return null;
        }
        List<String> all = columns(SqlText.changedTable(sql));
        String[] names = new String[numbers.length];
        for (int index = 0; index < numbers.length; index++) {
            if (numbers[index] < 1 || numbers[index] > all.size()) {
                throw Errors.refused("42703", "the table has " + all.size() + " columns, and not the column "
                        + numbers[index]);
            }
            names[index] = Texts.identifier(all.get(numbers[index] - 1));
        }
        return names;
    }

    /**
     * Adds RETURNING to a statement that has none. Without names it gives the columns that are generated, else those of
     * the primary key, else all.
     */
    String returning(String sql, String[] names) throws SQLException {
        if (SqlText.find(sql, "RETURNING", 0) >= 0) {
            return sql;
        }
        String columns;
        if (names.length > 0) {
            columns = String.join(", ", names);
        } else {
            List<String> table = SqlText.changedTable(sql);
            List<String> found = generated(table);
            if (found.isEmpty()) {
                found = primaryKey(table);
            }
            columns = found.isEmpty() ? "*" : found.stream().map(Texts::identifier).collect(Collectors.joining(", "));
        }
        // On a line of its own, because a comment may end the statement.
        return sql.stripTrailing().replaceAll(";$", "") + "\nRETURNING " + columns;
    }
}
