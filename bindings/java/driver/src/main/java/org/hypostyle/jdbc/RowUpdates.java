/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Changes rows of a table through a result that has its primary key. The result itself stays what the query gave.
 */
final class RowUpdates {
    private final HypostyleConnection connection;
    private final String table;
    private final Field[] fields;
    /** The numbers of the key's columns in the result, from 1 on. */
    private final List<Integer> key;
    private final Map<Integer, Object> changes = new TreeMap<>();
    private boolean isInserting;

    private RowUpdates(HypostyleConnection connection, String table, Field[] fields, List<Integer> key) {
        this.connection = connection;
        this.table = table;
        this.fields = fields;
        this.key = key;
    }

    /**
     * Returns what changes the rows of a query's one table; null if the query has several, or not the key, or
     * other columns than the table's under their own names: a value that is computed tells no row.
     */
    static RowUpdates of(HypostyleConnection connection, String sql, Field[] fields) throws SQLException {
        int select = SqlText.find(sql, "SELECT", 0);
        int from = SqlText.find(sql, "FROM", 0);
        List<String> name = from < 0 ? List.of() : SqlText.name(sql, from + 4);
        boolean isOne = SqlText.find(sql, "JOIN", 0) < 0 && SqlText.find(sql, "GROUP", 0) < 0
                && SqlText.find(sql, "UNION", 0) < 0 && SqlText.find(sql, "DISTINCT", 0) < 0
                && SqlText.find(sql, "FROM", from + 4) < 0 && !name.isEmpty() && !SqlText.hasSeveralTables(sql, from);
        // A query's own WITH may give a table's name to something else.
        boolean isPlain = isOne && select >= 0 && select < from && SqlText.find(sql.substring(0, select), "WITH", 0) < 0
                && SqlText.arePlainColumns(sql, select + 6, from, name);
        Catalog.Table table = isPlain ? connection.catalog().table(name) : null;
        if (table == null || !haveColumns(table.columns(), fields)) {
            return null;
        }
        List<Integer> key = new ArrayList<>();
        for (String column : connection.catalog().primaryKey(table)) {
            int found = 0;
            for (int index = 0; index < fields.length && found == 0; index++) {
                found = fields[index].name.equals(column) ? index + 1 : 0;
            }
            if (found == 0) {
                return null;
            }
            key.add(found);
        }
        return key.isEmpty() ? null : new RowUpdates(connection, Catalog.quoted(name), fields, key);
    }

    private static boolean haveColumns(List<String> columns, Field[] fields) {
        return Arrays.stream(fields).allMatch(field -> columns.contains(field.name));
    }

    void set(int column, Object value) {
        changes.put(column, value);
    }

    void cancel() {
        changes.clear();
        isInserting = false;
    }

    void moveToInsertRow() {
        changes.clear();
        isInserting = true;
    }

    private String name(int column) {
        return Texts.identifier(fields[column - 1].name);
    }

    void insertRow() throws SQLException {
        if (!isInserting) {
            throw Errors.refused("24000", "the result is not on the row to insert: call moveToInsertRow()");
        }
        List<String> names = changes.keySet().stream().map(this::name).toList();
        String sql = names.isEmpty() ? "INSERT INTO " + table + " DEFAULT VALUES"
                : "INSERT INTO " + table + " (" + String.join(", ", names) + ") VALUES ("
                        + String.join(", ", names.stream().map(name -> "?").toList()) + ")";
        run(sql, new ArrayList<>(changes.values()));
        changes.clear();
    }

    void updateRow(HypostyleResultSet result) throws SQLException {
        refuseInserting();
        if (changes.isEmpty()) {
            return;
        }
        List<Object> values = new ArrayList<>(changes.values());
        String sql = "UPDATE " + table + " SET "
                + String.join(", ", changes.keySet().stream().map(column -> name(column) + " = ?").toList())
                + where(result, values);
        changeOne(sql, values);
        changes.clear();
    }

    void deleteRow(HypostyleResultSet result) throws SQLException {
        refuseInserting();
        List<Object> values = new ArrayList<>();
        changeOne("DELETE FROM " + table + where(result, values), values);
    }

    void refuseInserting() throws SQLException {
        if (isInserting) {
            throw Errors.refused("24000", "the result is on the row to insert");
        }
    }

    private String where(HypostyleResultSet result, List<Object> values) throws SQLException {
        List<String> conditions = new ArrayList<>();
        for (int column : key) {
            conditions.add(name(column) + " = ?");
            values.add(result.exactly(column));
        }
        return " WHERE " + String.join(" AND ", conditions);
    }

    private void changeOne(String sql, List<Object> values) throws SQLException {
        if (run(sql, values) != 1) {
            throw Errors.refused("24000", "the row is not there any more, or has another key");
        }
    }

    private int run(String sql, List<Object> values) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int index = 0; index < values.size(); index++) {
                statement.setObject(index + 1, values.get(index));
            }
            return statement.executeUpdate();
        }
    }
}
