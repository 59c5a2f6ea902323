/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** Builds a result in Java's memory, row by row. */
final class RowBuilder {
    private final Field[] fields;
    private final List<List<?>> columns = new ArrayList<>();

    private RowBuilder(Field[] fields) {
        this.fields = fields;
        for (int index = 0; index < fields.length; index++) {
            columns.add(new ArrayList<>());
        }
    }

    /** Takes names and types in turn: {@code "TABLE_NAME VARCHAR, …"}. */
    static RowBuilder of(String described) {
        String[] parts = described.split(",");
        Field[] fields = new Field[parts.length];
        for (int index = 0; index < parts.length; index++) {
            String[] words = parts[index].strip().split(" ");
            fields[index] = Field.inMemory(words[0], SqlType.valueOf(words[1]), words[1]);
        }
        return new RowBuilder(fields);
    }

    /** Adds a row with a value for each column. */
    RowBuilder row(Object... values) {
        if (values.length != fields.length) {
            throw new IllegalArgumentException(values.length + " values for " + fields.length + " columns");
        }
        for (int index = 0; index < values.length; index++) {
            @SuppressWarnings("unchecked")
            List<Object> column = (List<Object>) columns.get(index);
            column.add(values[index]);
        }
        return this;
    }

    ResultSet build() throws SQLException {
        return HypostyleResultSet.inMemory(null, fields, columns);
    }
}
