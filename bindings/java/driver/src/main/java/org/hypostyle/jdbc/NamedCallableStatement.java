/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.InputStream;
import java.io.Reader;
import java.math.BigDecimal;
import java.net.URL;
import java.sql.Array;
import java.sql.Blob;
import java.sql.CallableStatement;
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
import java.util.Calendar;
import java.util.Map;

/** The methods of a call that read its outcome, or name a parameter: all are one of a few. */
abstract class NamedCallableStatement extends HypostylePreparedStatement implements CallableStatement {
    NamedCallableStatement(HypostyleConnection connection, String sql, int type, int concurrency, int holdability)
            throws SQLException {
        super(connection, sql, type, concurrency, holdability, null);
    }

    /** Returns the row whose first column is an out-parameter's value. */
    abstract ResultSet out(int parameter) throws SQLException;

    /** Returns the number of the parameter $name. */
    abstract int position(String name) throws SQLException;

    /** Returns the number of the out-parameter, which any name means. */
    abstract int outPosition(String name) throws SQLException;

    @Override
    public String getString(int parameter) throws SQLException {
        return out(parameter).getString(1);
    }

    @Override
    public String getString(String name) throws SQLException {
        return getString(outPosition(name));
    }

    @Override
    public boolean getBoolean(int parameter) throws SQLException {
        return out(parameter).getBoolean(1);
    }

    @Override
    public boolean getBoolean(String name) throws SQLException {
        return getBoolean(outPosition(name));
    }

    @Override
    public byte getByte(int parameter) throws SQLException {
        return out(parameter).getByte(1);
    }

    @Override
    public byte getByte(String name) throws SQLException {
        return getByte(outPosition(name));
    }

    @Override
    public short getShort(int parameter) throws SQLException {
        return out(parameter).getShort(1);
    }

    @Override
    public short getShort(String name) throws SQLException {
        return getShort(outPosition(name));
    }

    @Override
    public int getInt(int parameter) throws SQLException {
        return out(parameter).getInt(1);
    }

    @Override
    public int getInt(String name) throws SQLException {
        return getInt(outPosition(name));
    }

    @Override
    public long getLong(int parameter) throws SQLException {
        return out(parameter).getLong(1);
    }

    @Override
    public long getLong(String name) throws SQLException {
        return getLong(outPosition(name));
    }

    @Override
    public float getFloat(int parameter) throws SQLException {
        return out(parameter).getFloat(1);
    }

    @Override
    public float getFloat(String name) throws SQLException {
        return getFloat(outPosition(name));
    }

    @Override
    public double getDouble(int parameter) throws SQLException {
        return out(parameter).getDouble(1);
    }

    @Override
    public double getDouble(String name) throws SQLException {
        return getDouble(outPosition(name));
    }

    @Override
    public byte[] getBytes(int parameter) throws SQLException {
        return out(parameter).getBytes(1);
    }

    @Override
    public byte[] getBytes(String name) throws SQLException {
        return getBytes(outPosition(name));
    }

    @Override
    public Date getDate(int parameter) throws SQLException {
        return out(parameter).getDate(1);
    }

    @Override
    public Date getDate(String name) throws SQLException {
        return getDate(outPosition(name));
    }

    @Override
    public Time getTime(int parameter) throws SQLException {
        return out(parameter).getTime(1);
    }

    @Override
    public Time getTime(String name) throws SQLException {
        return getTime(outPosition(name));
    }

    @Override
    public Timestamp getTimestamp(int parameter) throws SQLException {
        return out(parameter).getTimestamp(1);
    }

    @Override
    public Timestamp getTimestamp(String name) throws SQLException {
        return getTimestamp(outPosition(name));
    }

    @Override
    public Object getObject(int parameter) throws SQLException {
        return out(parameter).getObject(1);
    }

    @Override
    public Object getObject(String name) throws SQLException {
        return getObject(outPosition(name));
    }

    @Override
    public BigDecimal getBigDecimal(int parameter) throws SQLException {
        return out(parameter).getBigDecimal(1);
    }

    @Override
    public BigDecimal getBigDecimal(String name) throws SQLException {
        return getBigDecimal(outPosition(name));
    }

    @Override
    public Ref getRef(int parameter) throws SQLException {
        return out(parameter).getRef(1);
    }

    @Override
    public Ref getRef(String name) throws SQLException {
        return getRef(outPosition(name));
    }

    @Override
    public Blob getBlob(int parameter) throws SQLException {
        return out(parameter).getBlob(1);
    }

    @Override
    public Blob getBlob(String name) throws SQLException {
        return getBlob(outPosition(name));
    }

    @Override
    public Clob getClob(int parameter) throws SQLException {
        return out(parameter).getClob(1);
    }

    @Override
    public Clob getClob(String name) throws SQLException {
        return getClob(outPosition(name));
    }

    @Override
    public Array getArray(int parameter) throws SQLException {
        return out(parameter).getArray(1);
    }

    @Override
    public Array getArray(String name) throws SQLException {
        return getArray(outPosition(name));
    }

    @Override
    public URL getURL(int parameter) throws SQLException {
        return out(parameter).getURL(1);
    }

    @Override
    public URL getURL(String name) throws SQLException {
        return getURL(outPosition(name));
    }

    @Override
    public RowId getRowId(int parameter) throws SQLException {
        return out(parameter).getRowId(1);
    }

    @Override
    public RowId getRowId(String name) throws SQLException {
        return getRowId(outPosition(name));
    }

    @Override
    public NClob getNClob(int parameter) throws SQLException {
        return out(parameter).getNClob(1);
    }

    @Override
    public NClob getNClob(String name) throws SQLException {
        return getNClob(outPosition(name));
    }

    @Override
    public SQLXML getSQLXML(int parameter) throws SQLException {
        return out(parameter).getSQLXML(1);
    }

    @Override
    public SQLXML getSQLXML(String name) throws SQLException {
        return getSQLXML(outPosition(name));
    }

    @Override
    public String getNString(int parameter) throws SQLException {
        return out(parameter).getNString(1);
    }

    @Override
    public String getNString(String name) throws SQLException {
        return getNString(outPosition(name));
    }

    @Override
    public Reader getNCharacterStream(int parameter) throws SQLException {
        return out(parameter).getNCharacterStream(1);
    }

    @Override
    public Reader getNCharacterStream(String name) throws SQLException {
        return getNCharacterStream(outPosition(name));
    }

    @Override
    public Reader getCharacterStream(int parameter) throws SQLException {
        return out(parameter).getCharacterStream(1);
    }

    @Override
    public Reader getCharacterStream(String name) throws SQLException {
        return getCharacterStream(outPosition(name));
    }

    @Deprecated
    @Override
    public BigDecimal getBigDecimal(int parameter, int scale) throws SQLException {
        return out(parameter).getBigDecimal(1, scale);
    }

    @Override
    public Object getObject(int parameter, Map<String, Class<?>> map) throws SQLException {
        return out(parameter).getObject(1, map);
    }

    @Override
    public Object getObject(String name, Map<String, Class<?>> map) throws SQLException {
        return getObject(outPosition(name), map);
    }

    @Override
    public Date getDate(int parameter, Calendar calendar) throws SQLException {
        return out(parameter).getDate(1, calendar);
    }

    @Override
    public Date getDate(String name, Calendar calendar) throws SQLException {
        return getDate(outPosition(name), calendar);
    }

    @Override
    public Time getTime(int parameter, Calendar calendar) throws SQLException {
        return out(parameter).getTime(1, calendar);
    }

    @Override
    public Time getTime(String name, Calendar calendar) throws SQLException {
        return getTime(outPosition(name), calendar);
    }

    @Override
    public Timestamp getTimestamp(int parameter, Calendar calendar) throws SQLException {
        return out(parameter).getTimestamp(1, calendar);
    }

    @Override
    public Timestamp getTimestamp(String name, Calendar calendar) throws SQLException {
        return getTimestamp(outPosition(name), calendar);
    }

    @Override
    public <T> T getObject(int parameter, Class<T> type) throws SQLException {
        return out(parameter).getObject(1, type);
    }

    @Override
    public <T> T getObject(String name, Class<T> type) throws SQLException {
        return getObject(outPosition(name), type);
    }

    @Override
    public void setURL(String name, URL value) throws SQLException {
        setURL(position(name), value);
    }

    @Override
    public void setBoolean(String name, boolean value) throws SQLException {
        setBoolean(position(name), value);
    }

    @Override
    public void setByte(String name, byte value) throws SQLException {
        setByte(position(name), value);
    }

    @Override
    public void setShort(String name, short value) throws SQLException {
        setShort(position(name), value);
    }

    @Override
    public void setInt(String name, int value) throws SQLException {
        setInt(position(name), value);
    }

    @Override
    public void setLong(String name, long value) throws SQLException {
        setLong(position(name), value);
    }

    @Override
    public void setFloat(String name, float value) throws SQLException {
        setFloat(position(name), value);
    }

    @Override
    public void setDouble(String name, double value) throws SQLException {
        setDouble(position(name), value);
    }

    @Override
    public void setBigDecimal(String name, BigDecimal value) throws SQLException {
        setBigDecimal(position(name), value);
    }

    @Override
    public void setString(String name, String value) throws SQLException {
        setString(position(name), value);
    }

    @Override
    public void setBytes(String name, byte[] value) throws SQLException {
        setBytes(position(name), value);
    }

    @Override
    public void setDate(String name, Date value) throws SQLException {
        setDate(position(name), value);
    }

    @Override
    public void setTime(String name, Time value) throws SQLException {
        setTime(position(name), value);
    }

    @Override
    public void setTimestamp(String name, Timestamp value) throws SQLException {
        setTimestamp(position(name), value);
    }

    @Override
    public void setObject(String name, Object value) throws SQLException {
        setObject(position(name), value);
    }

    @Override
    public void setRowId(String name, RowId value) throws SQLException {
        setRowId(position(name), value);
    }

    @Override
    public void setNString(String name, String value) throws SQLException {
        setNString(position(name), value);
    }

    @Override
    public void setNClob(String name, NClob value) throws SQLException {
        setNClob(position(name), value);
    }

    @Override
    public void setSQLXML(String name, SQLXML value) throws SQLException {
        setSQLXML(position(name), value);
    }

    @Override
    public void setBlob(String name, Blob value) throws SQLException {
        setBlob(position(name), value);
    }

    @Override
    public void setClob(String name, Clob value) throws SQLException {
        setClob(position(name), value);
    }

    @Override
    public void setDate(String name, Date value, Calendar calendar) throws SQLException {
        setDate(position(name), value, calendar);
    }

    @Override
    public void setTime(String name, Time value, Calendar calendar) throws SQLException {
        setTime(position(name), value, calendar);
    }

    @Override
    public void setTimestamp(String name, Timestamp value, Calendar calendar) throws SQLException {
        setTimestamp(position(name), value, calendar);
    }

    @Override
    public void setNull(String name, int jdbcType) throws SQLException {
        setNull(position(name), jdbcType);
    }

    @Override
    public void setNull(String name, int jdbcType, String typeName) throws SQLException {
        setNull(position(name), jdbcType, typeName);
    }

    @Override
    public void setObject(String name, Object value, int jdbcType) throws SQLException {
        setObject(position(name), value, jdbcType);
    }

    @Override
    public void setObject(String name, Object value, int jdbcType, int scale) throws SQLException {
        setObject(position(name), value, jdbcType, scale);
    }

    @Override
    public void setAsciiStream(String name, InputStream value, int length) throws SQLException {
        setAsciiStream(position(name), value, length);
    }

    @Override
    public void setAsciiStream(String name, InputStream value, long length) throws SQLException {
        setAsciiStream(position(name), value, length);
    }

    @Override
    public void setAsciiStream(String name, InputStream value) throws SQLException {
        setAsciiStream(position(name), value);
    }

    @Override
    public void setBinaryStream(String name, InputStream value, int length) throws SQLException {
        setBinaryStream(position(name), value, length);
    }

    @Override
    public void setBinaryStream(String name, InputStream value, long length) throws SQLException {
        setBinaryStream(position(name), value, length);
    }

    @Override
    public void setBinaryStream(String name, InputStream value) throws SQLException {
        setBinaryStream(position(name), value);
    }

    @Override
    public void setCharacterStream(String name, Reader value, int length) throws SQLException {
        setCharacterStream(position(name), value, length);
    }

    @Override
    public void setCharacterStream(String name, Reader value, long length) throws SQLException {
        setCharacterStream(position(name), value, length);
    }

    @Override
    public void setCharacterStream(String name, Reader value) throws SQLException {
        setCharacterStream(position(name), value);
    }

    @Override
    public void setNCharacterStream(String name, Reader value, long length) throws SQLException {
        setNCharacterStream(position(name), value, length);
    }

    @Override
    public void setNCharacterStream(String name, Reader value) throws SQLException {
        setNCharacterStream(position(name), value);
    }

    @Override
    public void setBlob(String name, InputStream value, long length) throws SQLException {
        setBlob(position(name), value, length);
    }

    @Override
    public void setBlob(String name, InputStream value) throws SQLException {
        setBlob(position(name), value);
    }

    @Override
    public void setClob(String name, Reader value, long length) throws SQLException {
        setClob(position(name), value, length);
    }

    @Override
    public void setClob(String name, Reader value) throws SQLException {
        setClob(position(name), value);
    }

    @Override
    public void setNClob(String name, Reader value, long length) throws SQLException {
        setNClob(position(name), value, length);
    }

    @Override
    public void setNClob(String name, Reader value) throws SQLException {
        setNClob(position(name), value);
    }

    @Override
    public void registerOutParameter(int parameter, int jdbcType, int scale) throws SQLException {
        registerOutParameter(parameter, jdbcType);
    }

    @Override
    public void registerOutParameter(int parameter, int jdbcType, String typeName) throws SQLException {
        registerOutParameter(parameter, jdbcType);
    }

    @Override
    public void registerOutParameter(String name, int jdbcType) throws SQLException {
        registerOutParameter(outPosition(name), jdbcType);
    }

    @Override
    public void registerOutParameter(String name, int jdbcType, int scale) throws SQLException {
        registerOutParameter(outPosition(name), jdbcType);
    }

    @Override
    public void registerOutParameter(String name, int jdbcType, String typeName) throws SQLException {
        registerOutParameter(outPosition(name), jdbcType);
    }

    @Override
    public void registerOutParameter(int parameter, SQLType type) throws SQLException {
        registerOutParameter(parameter, typeNumber(type));
    }

    @Override
    public void registerOutParameter(int parameter, SQLType type, int scale) throws SQLException {
        registerOutParameter(parameter, typeNumber(type));
    }

    @Override
    public void registerOutParameter(int parameter, SQLType type, String typeName) throws SQLException {
        registerOutParameter(parameter, typeNumber(type));
    }

    @Override
    public void registerOutParameter(String name, SQLType type) throws SQLException {
        registerOutParameter(outPosition(name), typeNumber(type));
    }

    @Override
    public void registerOutParameter(String name, SQLType type, int scale) throws SQLException {
        registerOutParameter(outPosition(name), typeNumber(type));
    }

    @Override
    public void registerOutParameter(String name, SQLType type, String typeName) throws SQLException {
        registerOutParameter(outPosition(name), typeNumber(type));
    }

    @Override
    public void setObject(String name, Object value, SQLType type) throws SQLException {
        setObject(position(name), value, type);
    }

    @Override
    public void setObject(String name, Object value, SQLType type, int scaleOrLength) throws SQLException {
        setObject(position(name), value, type, scaleOrLength);
    }
}
