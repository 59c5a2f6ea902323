/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.Reader;
import java.io.StringReader;
import java.lang.ref.Reference;
import java.math.BigDecimal;
import java.net.MalformedURLException;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Blob;
import java.sql.Clob;
import java.sql.Date;
import java.sql.NClob;
import java.sql.Ref;
import java.sql.ResultSetMetaData;
import java.sql.RowId;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.SQLXML;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Calendar;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Rows of a query, read where the database's columns lie. */
final class HypostyleResultSet extends LabelledResultSet implements ArrowResult {
    private final HypostyleStatement statement;
    private final Field[] fields;
    private final int type;
    /** Null when the result is closed. */
    private volatile Rows rows;
    private boolean wasNull;
    private Map<String, Integer> labels;
    private int fetchSize;
    private int fetchDirection = FETCH_FORWARD;
    /** What changes the rows, or null. */
    private RowUpdates updates;

    /** Makes a result of a statement's; {@code statement} may be null for rows in memory. */
    HypostyleResultSet(HypostyleStatement statement, Field[] fields, RowSource source, int type, long limit)
            throws SQLException {
        this.statement = statement;
        this.fields = fields;
        this.type = type;
        this.rows = new Rows(source, type != TYPE_FORWARD_ONLY, limit);
    }

    /** Makes a result of columns in Java's memory, which have equal lengths. */
    static HypostyleResultSet inMemory(HypostyleStatement statement, Field[] fields, List<List<?>> columns)
            throws SQLException {
        Column[] made = new Column[fields.length];
        for (int index = 0; index < made.length; index++) {
            made[index] = new ObjectColumn(fields[index], columns.get(index));
        }
        int length = columns.isEmpty() ? 0 : columns.get(0).size();
        Batch[] left = {length == 0 ? null : new Batch(made, length)};
        RowSource source = new RowSource() {
            @Override
            public Batch next() {
                Batch batch = left[0];
                left[0] = null;
                return batch;
            }

            @Override
            public void close() {
                left[0] = null;
            }
        };
        return new HypostyleResultSet(statement, fields, source, TYPE_SCROLL_INSENSITIVE, 0);
    }

    /** Gives all rows away, before the first is read. */
    void moveTo(KeptBatches batches) throws SQLException {
        rows.moveTo(batches);
    }

    void makeUpdatable(RowUpdates made) {
        updates = made;
    }

    Field[] fields() {
        return fields;
    }

    private Rows rows() throws SQLException {
        Rows open = rows;
        if (open == null) {
            throw Errors.ended("result");
        }
        return open;
    }

    private Field field(int column) throws SQLException {
        if (column < 1 || column > fields.length) {
            throw Errors.refused("42703", "the result has " + fields.length + " columns, and not the column " + column);
        }
        return fields[column - 1];
    }

    /** Returns the batch that has the current row. */
    private static Batch batch(Rows rows) throws SQLException {
        Batch batch = rows.batch();
        long row = rows.row();
        if (row < 0 || row >= batch.length()) {
            throw Errors.refused("24000", "the result is on no row: call next(), and look what it returns");
        }
        return batch;
    }

    /** Returns a column of a batch, and notes whether its value is NULL. */
    private Column column(Batch batch, long row, int column) throws SQLException {
        if (column < 1 || column > fields.length) {
            field(column);
        }
        Column found = batch.column(column - 1);
        wasNull = found.isNull(row);
        return found;
    }

    /** Reads a value that is not NULL. */
    private interface Reading<T> {
        T read(Column column, long row) throws SQLException;
    }

    /** Reads a value as an object, or null. */
    private <T> T read(int column, Reading<T> reading) throws SQLException {
        Rows from = rows();
        Batch batch = batch(from);
        try {
            long row = from.row();
            Column found = column(batch, row, column);
            return wasNull ? null : reading.read(found, row);
        } finally {
            Reference.reachabilityFence(batch);
        }
    }

    @Override
    public boolean getBoolean(int column) throws SQLException {
        Rows from = rows();
        Batch batch = batch(from);
        try {
            long row = from.row();
            Column found = column(batch, row, column);
            return !wasNull && found.getBoolean(row);
        } finally {
            Reference.reachabilityFence(batch);
        }
    }

    @Override
    public long getLong(int column) throws SQLException {
        Rows from = rows();
        Batch batch = batch(from);
        try {
            long row = from.row();
            Column found = column(batch, row, column);
            return wasNull ? 0 : found.getLong(row);
        } finally {
            Reference.reachabilityFence(batch);
        }
    }

    private long integer(int column, long least, long most) throws SQLException {
        long value = getLong(column);
        if (value < least || value > most) {
            throw Errors.refused("22003", "the value " + value + " of the column \"" + fields[column - 1].name
                    + "\" is out of the range from " + least + " to " + most);
        }
        return value;
    }

    @Override
    public byte getByte(int column) throws SQLException {
        return (byte) integer(column, Byte.MIN_VALUE, Byte.MAX_VALUE);
    }

    @Override
    public short getShort(int column) throws SQLException {
        return (short) integer(column, Short.MIN_VALUE, Short.MAX_VALUE);
    }

    @Override
    public int getInt(int column) throws SQLException {
        return (int) integer(column, Integer.MIN_VALUE, Integer.MAX_VALUE);
    }

    @Override
    public float getFloat(int column) throws SQLException {
        return (float) getDouble(column);
    }

    @Override
    public double getDouble(int column) throws SQLException {
        Rows from = rows();
        Batch batch = batch(from);
        try {
            long row = from.row();
            Column found = column(batch, row, column);
            return wasNull ? 0 : found.getDouble(row);
        } finally {
            Reference.reachabilityFence(batch);
        }
    }

    @Override
    public String getString(int column) throws SQLException {
        return read(column, Column::getString);
    }

    @Override
    public BigDecimal getBigDecimal(int column) throws SQLException {
        return read(column, Column::getBigDecimal);
    }

    @Override
    @Deprecated
    public BigDecimal getBigDecimal(int column, int scale) throws SQLException {
        return read(column, (from, row) -> Conversions.scaled(from.getBigDecimal(row), scale));
    }

    @Override
    public byte[] getBytes(int column) throws SQLException {
        return read(column, Column::getBytes);
    }

    @Override
    public Date getDate(int column) throws SQLException {
        return getDate(column, null);
    }

    @Override
    public Date getDate(int column, Calendar calendar) throws SQLException {
        return read(column, (from, row) -> Conversions.date(from, row, calendar));
    }

    @Override
    public Time getTime(int column) throws SQLException {
        return getTime(column, null);
    }

    @Override
    public Time getTime(int column, Calendar calendar) throws SQLException {
        return read(column, (from, row) -> Conversions.time(from, row, calendar));
    }

    @Override
    public Timestamp getTimestamp(int column) throws SQLException {
        return getTimestamp(column, null);
    }

    @Override
    public Timestamp getTimestamp(int column, Calendar calendar) throws SQLException {
        return read(column, (from, row) -> Conversions.timestamp(from, row, calendar));
    }

    @Override
    public InputStream getAsciiStream(int column) throws SQLException {
        return read(column, (from, row) ->
                new ByteArrayInputStream(from.getString(row).getBytes(StandardCharsets.US_ASCII)));
    }

    @Override
    @Deprecated
    public InputStream getUnicodeStream(int column) throws SQLException {
        return read(column, (from, row) ->
                new ByteArrayInputStream(from.getString(row).getBytes(StandardCharsets.UTF_8)));
    }

    @Override
    public InputStream getBinaryStream(int column) throws SQLException {
        return read(column, (from, row) -> new ByteArrayInputStream(from.getBytes(row)));
    }

    @Override
    public Reader getCharacterStream(int column) throws SQLException {
        return read(column, (from, row) -> new StringReader(from.getString(row)));
    }

    @Override
    public Reader getNCharacterStream(int column) throws SQLException {
        return getCharacterStream(column);
    }

    @Override
    public String getNString(int column) throws SQLException {
        return getString(column);
    }

    /** Reads a value; a struct is what the connection's type map has for it. */
    @Override
    public Object getObject(int column) throws SQLException {
        Object value = read(column, Column::getObject);
        if (!(value instanceof HypostyleStruct struct) || statement == null) {
            return value;
        }
        Class<?> type = statement.connection.getTypeMap().get(field(column).typeName);
        return type == null ? value : struct.as(type);
    }

    @Override
    public <T> T getObject(int column, Class<T> type) throws SQLException {
        if (type == null) {
            throw Errors.refused("HY009", "the class to read is null");
        }
        return read(column, (from, row) -> Conversions.read(from, row, type));
    }

    /** Reads a value so that it says all that the column has, as a java.sql.Time does not. */
    Object exactly(int column) throws SQLException {
        switch (field(column).type) {
            case DATE: return getObject(column, LocalDate.class);
            case TIME: return getObject(column, LocalTime.class);
            case TIMESTAMP: return getObject(column, LocalDateTime.class);
            default: return getObject(column);
        }
    }

    /** Reads a value as the class that a map has for its type's name; a struct may become an SQLData. */
    @Override
    public Object getObject(int column, Map<String, Class<?>> map) throws SQLException {
        if (map == null) {
            return getObject(column);
        }
        Class<?> type = map.get(field(column).typeName);
        Object value = read(column, Column::getObject);
        if (type == null) {
            return value;
        }
        return value instanceof HypostyleStruct struct ? struct.as(type) : getObject(column, type);
    }

    @Override
    public Blob getBlob(int column) throws SQLException {
        return getObject(column, Blob.class);
    }

    @Override
    public Clob getClob(int column) throws SQLException {
        return getObject(column, Clob.class);
    }

    @Override
    public NClob getNClob(int column) throws SQLException {
        return getObject(column, NClob.class);
    }

    @Override
    public Array getArray(int column) throws SQLException {
        return getObject(column, Array.class);
    }

    @Override
    public SQLXML getSQLXML(int column) throws SQLException {
        return getObject(column, SQLXML.class);
    }

    @Override
    public URL getURL(int column) throws SQLException {
        return read(column, (from, row) -> {
            try {
                return URI.create(from.getString(row)).toURL();
            } catch (MalformedURLException | IllegalArgumentException error) {
                throw Errors.refused("22018", "the text of the column \"" + from.field.name + "\" is no URL", error);
            }
        });
    }

    @Override
    public Ref getRef(int column) throws SQLException {
        throw Errors.unsupported("there are no references to rows");
    }

    @Override
    public RowId getRowId(int column) throws SQLException {
        throw Errors.unsupported("there are no row ids");
    }

    @Override
    public boolean wasNull() throws SQLException {
        rows();
        return wasNull;
    }

    /** Finds a column by its label: spelled exactly so, or else in other cases. The first one counts. */
    @Override
    public int findColumn(String label) throws SQLException {
        rows();
        if (labels == null) {
            Map<String, Integer> found = new HashMap<>();
            for (int index = 0; index < fields.length; index++) {
                found.putIfAbsent(fields[index].name, index + 1);
            }
            for (int index = 0; index < fields.length; index++) {
                found.putIfAbsent(fields[index].name.toLowerCase(Locale.ROOT), index + 1);
            }
            labels = found;
        }
        Integer column = label == null ? null : labels.get(label);
        if (column == null && label != null) {
            column = labels.get(label.toLowerCase(Locale.ROOT));
        }
        if (column == null) {
            throw Errors.refused("42703", "the result has no column \"" + label + "\"");
        }
        return column;
    }

    @Override
    public boolean next() throws SQLException {
        Rows open = rows();
        if (updates != null) {
            updates.cancel();
        }
        return open.next();
    }

    private Rows scrolling() throws SQLException {
        Rows open = rows();
        if (type == TYPE_FORWARD_ONLY) {
            throw Errors.refused("HY106", "the result goes forward only: create the statement with TYPE_SCROLL_INSENSITIVE");
        }
        if (updates != null) {
            updates.cancel();
        }
        return open;
    }

    @Override
    public boolean absolute(int row) throws SQLException {
        return scrolling().absolute(row);
    }

    @Override
    public boolean relative(int rowCount) throws SQLException {
        Rows open = scrolling();
        if (rowCount == 0) {
            return open.number() > 0;
        }
        long from = open.number();
        if (from == 0 && open.isAfterLast()) {
            return rowCount < 0 && open.absolute(rowCount);
        }
        return open.absolute(Math.max(from + rowCount, 0));
    }

    @Override
    public boolean previous() throws SQLException {
        return relative(-1);
    }

    @Override
    public boolean first() throws SQLException {
        return scrolling().absolute(1);
    }

    @Override
    public boolean last() throws SQLException {
        return scrolling().absolute(-1);
    }

    @Override
    public void beforeFirst() throws SQLException {
        scrolling().absolute(0);
    }

    @Override
    public void afterLast() throws SQLException {
        scrolling().absolute(Long.MAX_VALUE);
    }

    @Override
    public boolean isBeforeFirst() throws SQLException {
        return rows().isBeforeFirst();
    }

    @Override
    public boolean isAfterLast() throws SQLException {
        return rows().isAfterLast();
    }

    @Override
    public boolean isFirst() throws SQLException {
        return rows().number() == 1;
    }

    @Override
    public boolean isLast() throws SQLException {
        return rows().isLast();
    }

    @Override
    public int getRow() throws SQLException {
        return (int) Math.min(rows().number(), Integer.MAX_VALUE);
    }

    @Override
    public int getType() throws SQLException {
        rows();
        return type;
    }

    @Override
    public int getConcurrency() throws SQLException {
        rows();
        return updates == null ? CONCUR_READ_ONLY : CONCUR_UPDATABLE;
    }

    @Override
    public int getHoldability() throws SQLException {
        rows();
        return statement == null ? HOLD_CURSORS_OVER_COMMIT : statement.getResultSetHoldability();
    }

    @Override
    public void setFetchDirection(int direction) throws SQLException {
        rows();
        if (direction < FETCH_FORWARD || direction > FETCH_UNKNOWN) {
            throw Errors.refused("HY024", "there is no fetch direction " + direction);
        }
        if (direction != FETCH_FORWARD && type == TYPE_FORWARD_ONLY) {
            throw Errors.refused("HY106", "the result goes forward only");
        }
        fetchDirection = direction;
    }

    @Override
    public int getFetchDirection() throws SQLException {
        rows();
        return fetchDirection;
    }

    /** Takes a hint; the database decides how many rows come at a time. */
    @Override
    public void setFetchSize(int size) throws SQLException {
        rows();
        if (size < 0) {
            throw Errors.refused("HY024", "a fetch size cannot be " + size);
        }
        fetchSize = size;
    }

    @Override
    public int getFetchSize() throws SQLException {
        rows();
        return fetchSize;
    }

    @Override
    public ResultSetMetaData getMetaData() throws SQLException {
        rows();
        return new HypostyleResultSetMetaData(fields);
    }

    @Override
    public Statement getStatement() throws SQLException {
        rows();
        return statement;
    }

    @Override
    public String getCursorName() throws SQLException {
        rows();
        return null;
    }

    @Override
    public SQLWarning getWarnings() throws SQLException {
        rows();
        return null;
    }

    @Override
    public void clearWarnings() throws SQLException {
        rows();
    }

    @Override
    public boolean isClosed() {
        return rows == null;
    }

    @Override
    public void close() throws SQLException {
        Rows open;
        synchronized (this) {
            open = rows;
            rows = null;
        }
        if (open != null) {
            open.close();
            if (statement != null) {
                statement.resultClosed();
            }
        }
    }

    @Override
    public void exportStream(long address) throws SQLException {
        rows().stream(address);
        close();
    }

    private RowUpdates updates() throws SQLException {
        rows();
        if (updates == null) {
            throw Errors.refused("25006", "the result is read only: create the statement with CONCUR_UPDATABLE, and "
                    + "query one table with its primary key");
        }
        return updates;
    }

    @Override
    void update(int column, Object value) throws SQLException {
        field(column);
        updates().set(column, value);
    }

    @Override
    public void updateRow() throws SQLException {
        updates().updateRow(this);
    }

    @Override
    public void insertRow() throws SQLException {
        updates().insertRow();
    }

    @Override
    public void deleteRow() throws SQLException {
        updates().deleteRow(this);
    }

    @Override
    public void refreshRow() throws SQLException {
        updates().refuseInserting();
    }

    @Override
    public void cancelRowUpdates() throws SQLException {
        updates().refuseInserting();
        updates().cancel();
    }

    @Override
    public void moveToInsertRow() throws SQLException {
        updates().moveToInsertRow();
    }

    @Override
    public void moveToCurrentRow() throws SQLException {
        updates().cancel();
    }

    /** Returns false: the rows are those of the query, whatever has happened since. */
    @Override
    public boolean rowUpdated() throws SQLException {
        rows();
        return false;
    }

    @Override
    public boolean rowInserted() throws SQLException {
        rows();
        return false;
    }

    @Override
    public boolean rowDeleted() throws SQLException {
        rows();
        return false;
    }
}
