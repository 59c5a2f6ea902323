/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.InputStream;
import java.io.Reader;
import java.math.BigDecimal;
import java.net.URL;
import java.sql.Array;
import java.sql.Blob;
import java.sql.Clob;
import java.sql.Date;
import java.sql.NClob;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.Ref;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.RowId;
import java.sql.SQLException;
import java.sql.SQLType;
import java.sql.SQLXML;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Calendar;
import java.util.List;

/** A prepared statement. Rows of a batch that inserts are bound as columns and run at once. */
class HypostylePreparedStatement extends HypostyleStatement implements PreparedStatement {
    /** How many rows of a batch are bound at once. */
    private static final int PIECE = 65_536;
    /** And how many bytes of texts: a column of a piece is one array. */
    private static final long PIECE_BYTES = 32L << 20;
    /** Rows whose keys are wanted are one piece, up to so many bytes; beyond, they go one by one. */
    private static final long KEYS_BYTES = 512L << 20;

    private final String sql;
    private final int kind;
    private final boolean wantsKeys;
    private final Handle handle;
    /** Where each parameter is bound: $2 may stand before $1. */
    private final int[] places;
    private Value[] values;
    private final boolean[] isBound;
    private final List<Value[]> rows = new ArrayList<>();
    private byte[] description = {};
    private Field[] fields;

    /** Prepares a statement. With {@code keyColumns} it gives keys of the rows that it writes. */
    HypostylePreparedStatement(HypostyleConnection connection, String sql, int type, int concurrency, int holdability,
            String[] keyColumns) throws SQLException {
        super(connection, type, concurrency, holdability);
        String translated = translated(sql);
        long prepared = prepare(translated);
        int found = Native.kind(prepared);
        boolean adds = keyColumns != null && SqlText.writesRows(found);
        if (adds) {
            Native.freeStatement(prepared);
            translated = connection.catalog().returning(translated, keyColumns);
            prepared = prepare(translated);
        }
        this.sql = translated;
        this.kind = found;
        this.wantsKeys = adds;
        this.handle = new Handle(this, prepared, Native::freeStatement);
        int count = Native.parameters(prepared);
        this.values = new Value[count];
        this.isBound = new boolean[count];
        this.places = new int[count];
        for (int index = 0; index < count; index++) {
            places[index] = place(prepared, index);
        }
    }

    private long prepare(String text) throws SQLException {
        byte[] bytes = Native.utf8(text);
        return session().call(null, open -> Native.prepare(open, bytes));
    }

    private int place(long prepared, int index) {
        if (sql.indexOf('$') < 0) {
            return index;
        }
        try {
            return Native.parameterIndex(prepared, Native.utf8(Integer.toString(index + 1)));
        } catch (SQLException error) {
            // The parameters have names, which count in the order in which they first stand.
            return index;
        }
    }

    private long handle() throws SQLException {
        check();
        long open = handle.get();
        if (open == 0) {
            throw Errors.ended("statement");
        }
        return open;
    }

    @Override
    Field[] described(byte[] told) {
        if (!Arrays.equals(told, description)) {
            fields = Field.ofResult(told);
            description = told;
        }
        return fields;
    }

    /** Returns the number of the parameter $name. */
    final int namedPosition(String name) throws SQLException {
        int place = Native.parameterIndex(handle(), Native.utf8(name));
        for (int index = 0; index < places.length; index++) {
            if (places[index] == place) {
                return index + 1;
            }
        }
        throw Errors.refused("07009", "the statement has no parameter $" + name);
    }

    void set(int parameter, Value value) throws SQLException {
        check();
        if (parameter < 1 || parameter > values.length) {
            throw Errors.refused("07009", "the statement has " + values.length + " parameters, and not the parameter "
                    + parameter);
        }
        values[parameter - 1] = value;
        isBound[parameter - 1] = false;
    }

    private static void checkWhole(Value[] row) throws SQLException {
        for (int index = 0; index < row.length; index++) {
            if (row[index] == null) {
                throw Errors.refused("07001", "the parameter " + (index + 1) + " has no value");
            }
        }
    }

    /** Binds what has changed since the last execution. */
    private void bind() throws SQLException {
        checkWhole(values);
        long prepared = handle();
        boolean hasList = Arrays.stream(values).anyMatch(value -> value.type == SqlType.LIST);
        if (hasList) {
            if (!ParameterRows.bind(prepared, List.<Value[]>of(placed(values)))) {
                throw Errors.refused("22018", "the elements of an array have several types");
            }
            Arrays.fill(isBound, false);
            return;
        }
        for (int index = 0; index < values.length; index++) {
            if (!isBound[index]) {
                Value value = wanted(index, values[index]);
                Native.bind(prepared, places[index], value.type.ordinal(), value.scale, value.integer, value.high,
                        value.number, value.bytes);
                isBound[index] = true;
            }
        }
    }

    /** Returns the value for what the database wants there: a moment where that is a TIMESTAMPTZ. */
    private Value wanted(int index, Value value) throws SQLException {
        if (!value.hasMoment()) {
            return value;
        }
        String type = Native.text(Native.parameter(handle(), places[index], new int[3]));
        return type.startsWith(SqlType.TIMESTAMPTZ_NAME) ? value.asMoment() : value;
    }

    /** Returns values in the order in which they are bound. */
    private Value[] placed(Value[] row) throws SQLException {
        Value[] placed = new Value[row.length];
        for (int index = 0; index < row.length; index++) {
            placed[places[index]] = wanted(index, row[index]);
        }
        return placed;
    }

    private List<Value[]> placed(List<Value[]> all) throws SQLException {
        List<Value[]> placed = new ArrayList<>(all.size());
        for (Value[] row : all) {
            placed.add(placed(row));
        }
        return placed;
    }

    private List<Outcome> runBound() throws SQLException {
        begin();
        return List.of(run(kind, open -> {
            bind();
            return Native.executeStatement(handle());
        }, sql));
    }

    @Override
    public boolean execute() throws SQLException {
        List<Outcome> outcomes = runBound();
        if (wantsKeys) {
            updateWithKeys(outcomes);
            return false;
        }
        return finish(outcomes);
    }

    @Override
    public ResultSet executeQuery() throws SQLException {
        return query(runBound());
    }

    @Override
    public int executeUpdate() throws SQLException {
        return toInt(executeLargeUpdate());
    }

    @Override
    public long executeLargeUpdate() throws SQLException {
        List<Outcome> outcomes = runBound();
        return wantsKeys ? updateWithKeys(outcomes) : update(outcomes);
    }

    @Override
    public void addBatch() throws SQLException {
        check();
        checkWhole(values);
        rows.add(values.clone());
    }

    @Override
    public void clearBatch() throws SQLException {
        super.clearBatch();
        rows.clear();
    }

    /**
     * Runs the statement for each row of the batch. With auto-commit all rows take effect or none. Rows that are
     * inserted count one each if all were, else nobody knows which were.
     */
    @Override
    public long[] executeLargeBatch() throws SQLException {
        begin();
        if (rows.isEmpty()) {
            return super.executeLargeBatch();
        }
        List<Value[]> taken = new ArrayList<>(rows);
        rows.clear();
        Arrays.fill(isBound, false);
        long[] counts = new long[taken.size()];
        int[] done = {0};
        try {
            watched(open -> connection.atomically(open, () -> {
                if (kind != SqlText.KIND_INSERT || !insert(taken, counts, done)) {
                    runEach(taken, counts, done);
                }
                return null;
            }));
        } catch (SQLException error) {
            boolean isUndone = connection.getAutoCommit();
            if (isUndone) {
                Arrays.fill(counts, Statement.EXECUTE_FAILED);
            }
            throw failedBatch(error, isUndone ? counts : Arrays.copyOf(counts, done[0]));
        }
        return counts;
    }

    /** Inserts rows in few statements; returns false, and does nothing, if their types do not allow it. */
    private boolean insert(List<Value[]> all, long[] counts, int[] done) throws SQLException {
        if (wantsKeys && pieceEnd(all, 0, all.size(), KEYS_BYTES) < all.size()) {
            return false;
        }
        int end;
        for (int from = 0; from < all.size(); from = end) {
            end = wantsKeys ? all.size() : pieceEnd(all, from, PIECE, PIECE_BYTES);
            List<Value[]> part = all.subList(from, end);
            if (values.length == 0 || !ParameterRows.bind(handle(), placed(part))) {
                if (from > 0) {
                    runEach(part, counts, done);
                    continue;
                }
                return false;
            }
            Outcome outcome = run(kind, open -> Native.executeStatement(handle()), null);
            if (wantsKeys) {
                updateWithKeys(List.of(outcome));
            } else if (outcome.rows() != null) {
                outcome.rows().close();
            }
            boolean isOneEach = outcome.count() == part.size() && SqlText.find(sql, "SELECT", 0) < 0;
            Arrays.fill(counts, from, from + part.size(), isOneEach ? 1 : Statement.SUCCESS_NO_INFO);
            done[0] = from + part.size();
        }
        return true;
    }

    /** Returns the place behind the rows of a piece: at least one, at most so many, and with so many bytes. */
    private static int pieceEnd(List<Value[]> all, int from, int mostRows, long mostBytes) {
        long bytes = 0;
        int end = from;
        while (end < all.size() && end - from < mostRows && (end == from || bytes < mostBytes)) {
            for (Value value : all.get(end)) {
                bytes += value.size();
            }
            end++;
        }
        return end;
    }

    /** Runs the statement for each row; the keys of all of them are those of the batch. */
    private void runEach(List<Value[]> all, long[] counts, int[] done) throws SQLException {
        Value[] before = values;
        KeptBatches keys = new KeptBatches();
        Field[] keyFields = null;
        try {
            for (Value[] row : all) {
                values = row;
                Arrays.fill(isBound, false);
                bind();
                Outcome outcome = run(kind, open -> Native.executeStatement(handle()), null);
                if (outcome.rows() != null) {
                    if (wantsKeys) {
                        keyFields = outcome.rows().fields();
                        outcome.rows().moveTo(keys);
                    }
                    outcome.rows().close();
                    if (outcome.count() < 0) {
                        throw Errors.refused("0100E", "a statement of a batch must not give rows");
                    }
                }
                counts[done[0]++] = outcome.count();
            }
            if (keyFields != null) {
                giveKeys(keyFields, keys);
                keys = new KeptBatches();
            }
        } finally {
            keys.close();
            values = before;
            Arrays.fill(isBound, false);
        }
    }

    @Override
    public void clearParameters() throws SQLException {
        long prepared = handle();
        Arrays.fill(values, null);
        Arrays.fill(isBound, false);
        session().call(null, open -> {
            Native.clearBindings(prepared);
            return null;
        });
    }

    @Override
    public ResultSetMetaData getMetaData() throws SQLException {
        long prepared = handle();
        boolean givesRows = kind <= SqlText.KIND_QUERY || wantsKeys || SqlText.find(sql, "RETURNING", 0) >= 0;
        if (!givesRows) {
            return null;
        }
        Field[] told = watched(open -> Field.ofStatement(Native.describeStatement(prepared)));
        return told.length == 0 ? null : new HypostyleResultSetMetaData(told);
    }

    @Override
    public ParameterMetaData getParameterMetaData() throws SQLException {
        long prepared = handle();
        HypostyleParameterMetaData.Parameter[] told = new HypostyleParameterMetaData.Parameter[values.length];
        for (int index = 0; index < told.length; index++) {
            int place = places[index];
            told[index] = watched(open -> {
                int[] numbers = new int[3];
                String name = Native.text(Native.parameter(prepared, place, numbers));
                return new HypostyleParameterMetaData.Parameter(SqlType.of(numbers[0]), numbers[1], numbers[2], name);
            });
        }
        return new HypostyleParameterMetaData(told);
    }

    @Override
    public void close() throws SQLException {
        super.close();
        session().free(handle::free);
    }

    private static SQLException isPrepared() {
        return Errors.refused("HY010", "the statement is prepared: run it without a text");
    }

    @Override
    public final boolean execute(String text) throws SQLException {
        throw isPrepared();
    }

    @Override
    public final ResultSet executeQuery(String text) throws SQLException {
        throw isPrepared();
    }

    @Override
    public final long executeLargeUpdate(String text) throws SQLException {
        throw isPrepared();
    }

    @Override
    public final long executeLargeUpdate(String text, String[] columnNames) throws SQLException {
        throw isPrepared();
    }

    @Override
    public final boolean execute(String text, String[] columnNames) throws SQLException {
        throw isPrepared();
    }

    @Override
    public final void addBatch(String text) throws SQLException {
        throw isPrepared();
    }

    @Override
    public void setNull(int parameter, int jdbcType) throws SQLException {
        set(parameter, Value.NULL);
    }

    @Override
    public void setNull(int parameter, int jdbcType, String typeName) throws SQLException {
        set(parameter, Value.NULL);
    }

    @Override
    public void setBoolean(int parameter, boolean value) throws SQLException {
        set(parameter, Value.of(value));
    }

    @Override
    public void setByte(int parameter, byte value) throws SQLException {
        set(parameter, Value.integer(SqlType.SMALLINT, value));
    }

    @Override
    public void setShort(int parameter, short value) throws SQLException {
        set(parameter, Value.integer(SqlType.SMALLINT, value));
    }

    @Override
    public void setInt(int parameter, int value) throws SQLException {
        set(parameter, Value.integer(SqlType.INTEGER, value));
    }

    @Override
    public void setLong(int parameter, long value) throws SQLException {
        set(parameter, Value.integer(SqlType.BIGINT, value));
    }

    @Override
    public void setFloat(int parameter, float value) throws SQLException {
        set(parameter, Value.of(value));
    }

    @Override
    public void setDouble(int parameter, double value) throws SQLException {
        set(parameter, Value.of(value));
    }

    @Override
    public void setBigDecimal(int parameter, BigDecimal value) throws SQLException {
        set(parameter, Value.of(value));
    }

    @Override
    public void setString(int parameter, String value) throws SQLException {
        set(parameter, Value.of(value));
    }

    @Override
    public void setNString(int parameter, String value) throws SQLException {
        set(parameter, Value.of(value));
    }

    @Override
    public void setBytes(int parameter, byte[] value) throws SQLException {
        set(parameter, Value.of(value));
    }

    @Override
    public void setDate(int parameter, Date value) throws SQLException {
        set(parameter, Value.date(value, null));
    }

    @Override
    public void setDate(int parameter, Date value, Calendar calendar) throws SQLException {
        set(parameter, Value.date(value, calendar));
    }

    @Override
    public void setTime(int parameter, Time value) throws SQLException {
        set(parameter, Value.time(value, null));
    }

    @Override
    public void setTime(int parameter, Time value, Calendar calendar) throws SQLException {
        set(parameter, Value.time(value, calendar));
    }

    @Override
    public void setTimestamp(int parameter, Timestamp value) throws SQLException {
        set(parameter, Value.timestamp(value, null));
    }

    @Override
    public void setTimestamp(int parameter, Timestamp value, Calendar calendar) throws SQLException {
        set(parameter, Value.timestamp(value, calendar));
    }

    @Override
    public void setObject(int parameter, Object value) throws SQLException {
        if (value instanceof InputStream || value instanceof Reader) {
            setObject(parameter, value, java.sql.Types.OTHER);
        } else {
            set(parameter, Value.of(value));
        }
    }

    @Override
    public void setObject(int parameter, Object value, int jdbcType) throws SQLException {
        if (value instanceof InputStream stream) {
            set(parameter, Value.of(Streams.bytes(stream, Streams.ALL)));
        } else if (value instanceof Reader reader) {
            set(parameter, Value.of(Streams.text(reader, Streams.ALL)));
        } else {
            set(parameter, Value.of(value, jdbcType, -1));
        }
    }

    @Override
    public void setObject(int parameter, Object value, int jdbcType, int scaleOrLength) throws SQLException {
        if (value instanceof InputStream stream) {
            set(parameter, Value.of(Streams.bytes(stream, scaleOrLength)));
        } else if (value instanceof Reader reader) {
            set(parameter, Value.of(Streams.text(reader, scaleOrLength)));
        } else {
            set(parameter, Value.of(value, jdbcType, scaleOrLength));
        }
    }

    @Override
    public void setObject(int parameter, Object value, SQLType type) throws SQLException {
        setObject(parameter, value, typeNumber(type));
    }

    @Override
    public void setObject(int parameter, Object value, SQLType type, int scaleOrLength) throws SQLException {
        setObject(parameter, value, typeNumber(type), scaleOrLength);
    }

    static int typeNumber(SQLType type) {
        return type == null || type.getVendorTypeNumber() == null ? java.sql.Types.OTHER : type.getVendorTypeNumber();
    }

    @Override
    public void setArray(int parameter, Array value) throws SQLException {
        set(parameter, Value.of((Object) value));
    }

    @Override
    public void setBlob(int parameter, Blob value) throws SQLException {
        set(parameter, Value.of((Object) value));
    }

    @Override
    public void setBlob(int parameter, InputStream value) throws SQLException {
        set(parameter, Value.of(Streams.bytes(value, Streams.ALL)));
    }

    @Override
    public void setBlob(int parameter, InputStream value, long length) throws SQLException {
        set(parameter, Value.of(Streams.bytes(value, length)));
    }

    @Override
    public void setClob(int parameter, Clob value) throws SQLException {
        set(parameter, Value.of((Object) value));
    }

    @Override
    public void setClob(int parameter, Reader value) throws SQLException {
        setCharacterStream(parameter, value);
    }

    @Override
    public void setClob(int parameter, Reader value, long length) throws SQLException {
        setCharacterStream(parameter, value, length);
    }

    @Override
    public void setNClob(int parameter, NClob value) throws SQLException {
        setClob(parameter, value);
    }

    @Override
    public void setNClob(int parameter, Reader value) throws SQLException {
        setCharacterStream(parameter, value);
    }

    @Override
    public void setNClob(int parameter, Reader value, long length) throws SQLException {
        setCharacterStream(parameter, value, length);
    }

    @Override
    public void setSQLXML(int parameter, SQLXML value) throws SQLException {
        set(parameter, Value.of((Object) value));
    }

    @Override
    public void setURL(int parameter, URL value) throws SQLException {
        set(parameter, Value.of(value == null ? null : value.toString()));
    }

    @Override
    public void setRef(int parameter, Ref value) throws SQLException {
        throw Errors.unsupported("there are no references to rows");
    }

    @Override
    public void setRowId(int parameter, RowId value) throws SQLException {
        throw Errors.unsupported("there are no row ids");
    }

    @Override
    public void setAsciiStream(int parameter, InputStream value) throws SQLException {
        set(parameter, Value.of(Streams.ascii(value, Streams.ALL)));
    }

    @Override
    public void setAsciiStream(int parameter, InputStream value, int length) throws SQLException {
        set(parameter, Value.of(Streams.ascii(value, length)));
    }

    @Override
    public void setAsciiStream(int parameter, InputStream value, long length) throws SQLException {
        set(parameter, Value.of(Streams.ascii(value, length)));
    }

    @Override
    @Deprecated
    public void setUnicodeStream(int parameter, InputStream value, int length) throws SQLException {
        byte[] bytes = Streams.bytes(value, length);
        set(parameter, Value.of(Native.text(bytes)));
    }

    @Override
    public void setBinaryStream(int parameter, InputStream value) throws SQLException {
        set(parameter, Value.of(Streams.bytes(value, Streams.ALL)));
    }

    @Override
    public void setBinaryStream(int parameter, InputStream value, int length) throws SQLException {
        set(parameter, Value.of(Streams.bytes(value, length)));
    }

    @Override
    public void setBinaryStream(int parameter, InputStream value, long length) throws SQLException {
        set(parameter, Value.of(Streams.bytes(value, length)));
    }

    @Override
    public void setCharacterStream(int parameter, Reader value) throws SQLException {
        set(parameter, Value.of(Streams.text(value, Streams.ALL)));
    }

    @Override
    public void setCharacterStream(int parameter, Reader value, int length) throws SQLException {
        set(parameter, Value.of(Streams.text(value, length)));
    }

    @Override
    public void setCharacterStream(int parameter, Reader value, long length) throws SQLException {
        set(parameter, Value.of(Streams.text(value, length)));
    }

    @Override
    public void setNCharacterStream(int parameter, Reader value) throws SQLException {
        setCharacterStream(parameter, value);
    }

    @Override
    public void setNCharacterStream(int parameter, Reader value, long length) throws SQLException {
        setCharacterStream(parameter, value, length);
    }
}
