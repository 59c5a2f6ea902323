/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.InputStream;
import java.io.Reader;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Blob;
import java.sql.Clob;
import java.sql.Date;
import java.sql.NClob;
import java.sql.Ref;
import java.sql.ResultSet;
import java.sql.RowId;
import java.sql.SQLException;
import java.sql.SQLType;
import java.sql.SQLXML;
import java.sql.Time;
import java.sql.Timestamp;

/** The methods of a result that set a column of the current row or of the one to insert: all are one of them. */
abstract class UpdatableResultSet extends HypostyleWrapper implements ResultSet {
    /** Sets a column, from 1 on. */
    abstract void update(int column, Object value) throws SQLException;

    private static Object scaled(Object value, int scale) throws SQLException {
        return value instanceof BigDecimal number ? Conversions.scaled(number, scale) : value;
    }

    @Override
    public final void updateNull(int column) throws SQLException {
        update(column, null);
    }

    @Override
    public final void updateBoolean(int column, boolean value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateByte(int column, byte value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateShort(int column, short value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateInt(int column, int value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateLong(int column, long value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateFloat(int column, float value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateDouble(int column, double value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateBigDecimal(int column, BigDecimal value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateString(int column, String value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateBytes(int column, byte[] value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateDate(int column, Date value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateTime(int column, Time value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateTimestamp(int column, Timestamp value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateRef(int column, Ref value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateBlob(int column, Blob value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateClob(int column, Clob value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateArray(int column, Array value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateRowId(int column, RowId value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateNString(int column, String value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateNClob(int column, NClob value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateSQLXML(int column, SQLXML value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateObject(int column, Object value) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateObject(int column, Object value, int scale) throws SQLException {
        update(column, scaled(value, scale));
    }

    @Override
    public final void updateObject(int column, Object value, SQLType type) throws SQLException {
        update(column, value);
    }

    @Override
    public final void updateObject(int column, Object value, SQLType type, int scale) throws SQLException {
        update(column, scaled(value, scale));
    }

    @Override
    public final void updateAsciiStream(int column, InputStream value) throws SQLException {
        update(column, Streams.ascii(value, Streams.ALL));
    }

    @Override
    public final void updateAsciiStream(int column, InputStream value, int length) throws SQLException {
        update(column, Streams.ascii(value, length));
    }

    @Override
    public final void updateAsciiStream(int column, InputStream value, long length) throws SQLException {
        update(column, Streams.ascii(value, length));
    }

    @Override
    public final void updateBinaryStream(int column, InputStream value) throws SQLException {
        update(column, Streams.bytes(value, Streams.ALL));
    }

    @Override
    public final void updateBinaryStream(int column, InputStream value, int length) throws SQLException {
        update(column, Streams.bytes(value, length));
    }

    @Override
    public final void updateBinaryStream(int column, InputStream value, long length) throws SQLException {
        update(column, Streams.bytes(value, length));
    }

    @Override
    public final void updateCharacterStream(int column, Reader value) throws SQLException {
        update(column, Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateCharacterStream(int column, Reader value, int length) throws SQLException {
        update(column, Streams.text(value, length));
    }

    @Override
    public final void updateCharacterStream(int column, Reader value, long length) throws SQLException {
        update(column, Streams.text(value, length));
    }

    @Override
    public final void updateNCharacterStream(int column, Reader value) throws SQLException {
        update(column, Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateNCharacterStream(int column, Reader value, long length) throws SQLException {
        update(column, Streams.text(value, length));
    }

    @Override
    public final void updateBlob(int column, InputStream value) throws SQLException {
        update(column, Streams.bytes(value, Streams.ALL));
    }

    @Override
    public final void updateBlob(int column, InputStream value, long length) throws SQLException {
        update(column, Streams.bytes(value, length));
    }

    @Override
    public final void updateClob(int column, Reader value) throws SQLException {
        update(column, Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateClob(int column, Reader value, long length) throws SQLException {
        update(column, Streams.text(value, length));
    }

    @Override
    public final void updateNClob(int column, Reader value) throws SQLException {
        update(column, Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateNClob(int column, Reader value, long length) throws SQLException {
        update(column, Streams.text(value, length));
    }

    @Override
    public final void updateNull(String label) throws SQLException {
        update(findColumn(label), null);
    }

    @Override
    public final void updateBoolean(String label, boolean value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateByte(String label, byte value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateShort(String label, short value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateInt(String label, int value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateLong(String label, long value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateFloat(String label, float value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateDouble(String label, double value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateBigDecimal(String label, BigDecimal value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateString(String label, String value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateBytes(String label, byte[] value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateDate(String label, Date value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateTime(String label, Time value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateTimestamp(String label, Timestamp value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateRef(String label, Ref value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateBlob(String label, Blob value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateClob(String label, Clob value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateArray(String label, Array value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateRowId(String label, RowId value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateNString(String label, String value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateNClob(String label, NClob value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateSQLXML(String label, SQLXML value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateObject(String label, Object value) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateObject(String label, Object value, int scale) throws SQLException {
        update(findColumn(label), scaled(value, scale));
    }

    @Override
    public final void updateObject(String label, Object value, SQLType type) throws SQLException {
        update(findColumn(label), value);
    }

    @Override
    public final void updateObject(String label, Object value, SQLType type, int scale) throws SQLException {
        update(findColumn(label), scaled(value, scale));
    }

    @Override
    public final void updateAsciiStream(String label, InputStream value) throws SQLException {
        update(findColumn(label), Streams.ascii(value, Streams.ALL));
    }

    @Override
    public final void updateAsciiStream(String label, InputStream value, int length) throws SQLException {
        update(findColumn(label), Streams.ascii(value, length));
    }

    @Override
    public final void updateAsciiStream(String label, InputStream value, long length) throws SQLException {
        update(findColumn(label), Streams.ascii(value, length));
    }

    @Override
    public final void updateBinaryStream(String label, InputStream value) throws SQLException {
        update(findColumn(label), Streams.bytes(value, Streams.ALL));
    }

    @Override
    public final void updateBinaryStream(String label, InputStream value, int length) throws SQLException {
        update(findColumn(label), Streams.bytes(value, length));
    }

    @Override
    public final void updateBinaryStream(String label, InputStream value, long length) throws SQLException {
        update(findColumn(label), Streams.bytes(value, length));
    }

    @Override
    public final void updateCharacterStream(String label, Reader value) throws SQLException {
        update(findColumn(label), Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateCharacterStream(String label, Reader value, int length) throws SQLException {
        update(findColumn(label), Streams.text(value, length));
    }

    @Override
    public final void updateCharacterStream(String label, Reader value, long length) throws SQLException {
        update(findColumn(label), Streams.text(value, length));
    }

    @Override
    public final void updateNCharacterStream(String label, Reader value) throws SQLException {
        update(findColumn(label), Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateNCharacterStream(String label, Reader value, long length) throws SQLException {
        update(findColumn(label), Streams.text(value, length));
    }

    @Override
    public final void updateBlob(String label, InputStream value) throws SQLException {
        update(findColumn(label), Streams.bytes(value, Streams.ALL));
    }

    @Override
    public final void updateBlob(String label, InputStream value, long length) throws SQLException {
        update(findColumn(label), Streams.bytes(value, length));
    }

    @Override
    public final void updateClob(String label, Reader value) throws SQLException {
        update(findColumn(label), Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateClob(String label, Reader value, long length) throws SQLException {
        update(findColumn(label), Streams.text(value, length));
    }

    @Override
    public final void updateNClob(String label, Reader value) throws SQLException {
        update(findColumn(label), Streams.text(value, Streams.ALL));
    }

    @Override
    public final void updateNClob(String label, Reader value, long length) throws SQLException {
        update(findColumn(label), Streams.text(value, length));
    }
}
