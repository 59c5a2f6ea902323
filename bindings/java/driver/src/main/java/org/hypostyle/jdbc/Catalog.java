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
    /** A name without a schema is first that of a temporary table: those are in a catalog of their own. */
    private static final String COLUMNS = "SELECT table_catalog, table_schema, column_name, is_identity = 'YES' "
            + "OR lower(column_default) LIKE 'nextval(%' FROM information_schema.columns WHERE table_name = $1 AND "
            + "(table_schema = coalesce($2::VARCHAR, current_schema()) AND table_catalog = coalesce($3::VARCHAR, "
            + "current_database()) OR $2::VARCHAR IS NULL AND table_catalog = 'temp') "
            + "ORDER BY table_catalog <> 'temp', ordinal_position";
    private static final String KEY = "SELECT column_name FROM information_schema.key_column_usage k WHERE table_name = $1 "
            + "AND table_schema = $2 AND table_catalog = $3 AND constraint_name IN (SELECT constraint_name "
            + "FROM information_schema.table_constraints t WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_name = "
            + "k.table_name AND t.table_schema = k.table_schema) ORDER BY ordinal_position";

    /**
     * A table's columns in their order, and those of them whose values the database makes: identities, and those of
     * sequences. A name that is none's has no columns.
     */
    record Table(String catalog, String schema, String name, List<String> columns, List<String> generated) {}

    private final HypostyleConnection connection;

    Catalog(HypostyleConnection connection) {
        this.connection = connection;
    }

    /** Writes the parts of a name as SQL. */
    static String quoted(List<String> name) {
        return name.stream().map(Texts::identifier).collect(Collectors.joining("."));
    }

    /** Finds a table by the parts of its name. */
    Table table(List<String> name) throws SQLException {
        int parts = name.size();
        String last = parts == 0 ? "" : name.get(parts - 1);
        Table found = new Table(null, null, last, new ArrayList<>(), new ArrayList<>());
        try (PreparedStatement statement = connection.prepareStatement(COLUMNS)) {
            statement.setString(1, last);
            statement.setString(2, parts > 1 ? name.get(parts - 2) : null);
            statement.setString(3, parts > 2 ? name.get(parts - 3) : null);
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    if (found.catalog == null) {
                        found = new Table(rows.getString(1), rows.getString(2), last, found.columns, found.generated);
                    }
                    if (!found.catalog.equals(rows.getString(1))) {
                        break;
                    }
                    found.columns.add(rows.getString(3));
                    if (rows.getBoolean(4)) {
                        found.generated.add(rows.getString(3));
                    }
                }
            }
        }
        return found;
    }

    /** Returns the columns of a table's primary key in its order. */
    List<String> primaryKey(Table table) throws SQLException {
        List<String> found = new ArrayList<>();
        if (table.columns.isEmpty()) {
            return found;
        }
        try (PreparedStatement statement = connection.prepareStatement(KEY)) {
            statement.setString(1, table.name);
            statement.setString(2, table.schema);
            statement.setString(3, table.catalog);
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    found.add(rows.getString(1));
                }
            }
        }
        return found;
    }

    /** Returns the names of a table's columns by their numbers, from 1 on; null for none. */
    String[] columns(String sql, int[] numbers) throws SQLException {
        if (numbers == null) {
            return null;
        }
        List<String> all = table(SqlText.changedTable(sql)).columns;
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
            Table table = table(SqlText.changedTable(sql));
            List<String> found = table.generated.isEmpty() ? primaryKey(table) : table.generated;
            columns = found.isEmpty() ? "*" : found.stream().map(Texts::identifier).collect(Collectors.joining(", "));
        }
        // On a line of its own, because a comment may end the statement.
        return sql.stripTrailing().replaceAll(";$", "") + "\nRETURNING " + columns;
    }
}
