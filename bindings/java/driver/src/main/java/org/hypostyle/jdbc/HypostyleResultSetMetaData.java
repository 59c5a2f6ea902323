/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.ResultSetMetaData;
import java.sql.SQLException;

/** What a result's columns are. */
final class HypostyleResultSetMetaData extends HypostyleWrapper implements ResultSetMetaData {
    private final Field[] fields;

    HypostyleResultSetMetaData(Field[] fields) {
        this.fields = fields;
    }

    private Field field(int column) throws SQLException {
        if (column < 1 || column > fields.length) {
            throw Errors.refused("42703", "the result has " + fields.length + " columns, and not the column " + column);
        }
        return fields[column - 1];
    }

    @Override
    public int getColumnCount() {
        return fields.length;
    }

    @Override
    public String getColumnLabel(int column) throws SQLException {
        return field(column).name;
    }

    @Override
    public String getColumnName(int column) throws SQLException {
        return field(column).name;
    }

    @Override
    public int getColumnType(int column) throws SQLException {
        return field(column).type.jdbcType;
    }

    @Override
    public String getColumnTypeName(int column) throws SQLException {
        Field field = field(column);
        return field.type == SqlType.DECIMAL ? "DECIMAL" : field.typeName;
    }

    @Override
    public String getColumnClassName(int column) throws SQLException {
        return field(column).type.javaClass.getName();
    }

    @Override
    public int getPrecision(int column) throws SQLException {
        Field field = field(column);
        return field.type == SqlType.DECIMAL ? field.precision : field.type.precision;
    }

    @Override
    public int getScale(int column) throws SQLException {
        Field field = field(column);
        return field.type == SqlType.TIME ? 6 : field.scale;
    }

    @Override
    public int getColumnDisplaySize(int column) throws SQLException {
        Field field = field(column);
        return field.type == SqlType.DECIMAL ? field.precision + 2 : field.type.displaySize;
    }

    @Override
    public int isNullable(int column) throws SQLException {
        return field(column).isNullable ? columnNullable : columnNoNulls;
    }

    @Override
    public boolean isSigned(int column) throws SQLException {
        return field(column).type.isSigned();
    }

    @Override
    public boolean isCaseSensitive(int column) throws SQLException {
        SqlType type = field(column).type;
        return type == SqlType.VARCHAR || type == SqlType.JSON;
    }

    @Override
    public boolean isSearchable(int column) throws SQLException {
        field(column);
        return true;
    }

    @Override
    public boolean isAutoIncrement(int column) throws SQLException {
        field(column);
        return false;
    }

    @Override
    public boolean isCurrency(int column) throws SQLException {
        field(column);
        return false;
    }

    /** Returns nothing: the database does not tell which table a column comes from. */
    @Override
    public String getSchemaName(int column) throws SQLException {
        field(column);
        return "";
    }

    @Override
    public String getTableName(int column) throws SQLException {
        field(column);
        return "";
    }

    @Override
    public String getCatalogName(int column) throws SQLException {
        field(column);
        return "";
    }

    @Override
    public boolean isReadOnly(int column) throws SQLException {
        field(column);
        return false;
    }

    @Override
    public boolean isWritable(int column) throws SQLException {
        return !isReadOnly(column);
    }

    @Override
    public boolean isDefinitelyWritable(int column) throws SQLException {
        field(column);
        return false;
    }
}
