/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/** Runs statements, one or several in a text. It owns their results, which end with it or with its next execution. */
class HypostyleStatement extends HypostyleWrapper implements Statement {
    final HypostyleConnection connection;
    private final int type;
    private final int concurrency;
    private final int holdability;
    private volatile boolean isClosed;
    private volatile Watch running;
    /** Cancelled while no call ran: the next rows of its result are refused. */
    private volatile boolean isCancelled;
    private Outcome current = Outcome.NONE;
    private final Deque<Outcome> following = new ArrayDeque<>();
    /** Results that {@code getMoreResults(KEEP_CURRENT_RESULT)} has left open. */
    private final List<HypostyleResultSet> kept = new ArrayList<>();
    private HypostyleResultSet generatedKeys;
    private final List<String> batch = new ArrayList<>();
    private long limit;
    private int timeoutSeconds;
    private int maxFieldSize;
    private int fetchSize;
    private int fetchDirection = ResultSet.FETCH_FORWARD;
    private boolean isPoolable;
    private boolean closesOnCompletion;
    private boolean hasEscapes = true;

    HypostyleStatement(HypostyleConnection connection, int type, int concurrency, int holdability) {
        this.connection = connection;
        this.type = type;
        this.concurrency = concurrency;
        this.holdability = holdability;
    }

    final Session session() {
        return connection.session();
    }

    final void check() throws SQLException {
        if (isClosed) {
            throw connection.isClosed() ? Errors.closed("connection") : Errors.ended("statement");
        }
    }

    /** Runs calls of the library, which {@link #cancel()} and the timeouts end. */
    final <T> T watched(Session.Call<T> work) throws SQLException {
        if (session().isHeld()) {
            // A part of an execution that is watched already.
            return session().call(null, work);
        }
        long network = connection.networkTimeout();
        long own = timeoutSeconds * 1000L;
        boolean isNetwork = network > 0 && (own == 0 || network < own);
        Watch watch = new Watch(session(), isNetwork ? network : own);
        running = watch;
        try {
            return session().call(watch, work);
        } catch (SQLException error) {
            // Whether the server has ended the statement, or has not answered at all.
            if (isNetwork && watch.hasExpired()) {
                session().close();
                throw Errors.aborted(error);
            }
            throw error;
        } finally {
            running = null;
            watch.end();
        }
    }

    /** Runs one statement as the connection's state asks for. */
    final Outcome run(int kind, Session.Call<Long> work, String sql) throws SQLException {
        return watched(handle -> connection.within(handle, kind, () -> outcome(work.run(handle), sql)));
    }

    /** Describes a result and fetches its first rows, or frees it if it has none or they fail. */
    private Outcome outcome(long result, String sql) throws SQLException {
        NativeRows source = null;
        boolean isGiven = false;
        try {
            long count = Native.rowsAffected(result);
            if (Native.columns(result) == 0) {
                return new Outcome(null, Math.max(count, 0));
            }
            Field[] fields = described(Native.describe(result));
            source = new NativeRows(this, fields, result);
            boolean isUpdatable = concurrency == ResultSet.CONCUR_UPDATABLE && sql != null;
            HypostyleResultSet rows = new HypostyleResultSet(this, fields, source, type, limit);
            if (isUpdatable) {
                rows.makeUpdatable(RowUpdates.of(connection, sql, fields));
            }
            isGiven = true;
            return new Outcome(rows, count);
        } finally {
            if (source == null) {
                Native.freeResult(result);
            } else if (!isGiven) {
                // The first rows have failed, and nobody will close the result.
                source.close();
            }
        }
    }

    /** Reads the description of a result's columns. */
    Field[] described(byte[] description) {
        return Field.ofResult(description);
    }

    /** Begins an execution: the results of the one before end. */
    final void begin() throws SQLException {
        check();
        isCancelled = false;
        closeResults();
    }

    final boolean finish(List<Outcome> outcomes) {
        following.addAll(outcomes);
        current = following.poll();
        return current.rows() != null;
    }

    final Outcome current() {
        return current;
    }

    private void closeResults() throws SQLException {
        boolean closes = closesOnCompletion;
        closesOnCompletion = false;
        List<HypostyleResultSet> open = new ArrayList<>(kept);
        open.add(current.rows());
        following.forEach(outcome -> open.add(outcome.rows()));
        open.add(generatedKeys);
        kept.clear();
        following.clear();
        current = Outcome.NONE;
        generatedKeys = null;
        for (HypostyleResultSet rows : open) {
            if (rows != null) {
                rows.close();
            }
        }
        closesOnCompletion = closes;
    }

    /** Ends results that must not outlive a transaction. */
    final void transactionEnded() throws SQLException {
        if (holdability == ResultSet.CLOSE_CURSORS_AT_COMMIT) {
            closeResults();
        }
    }

    /** Closes the statement when its last result is closed, if the program has asked for it. */
    final void resultClosed() throws SQLException {
        boolean isOpen = current.rows() != null && !current.rows().isClosed() || !following.isEmpty()
                || kept.stream().anyMatch(rows -> !rows.isClosed());
        if (closesOnCompletion && !isOpen && !isClosed) {
            close();
        }
    }

    final String translated(String sql) throws SQLException {
        if (sql == null) {
            throw Errors.refused("HY009", "the statement's text is null");
        }
        return hasEscapes ? Escapes.translate(sql) : sql;
    }

    private List<Outcome> runAll(String sql, String[] keyColumns) throws SQLException {
        String translated = translated(sql);
        boolean isOne = translated.indexOf(';') < 0;
        List<byte[]> statements = isOne ? List.of(Native.utf8(translated)) : SqlText.statements(translated);
        List<Outcome> outcomes = new ArrayList<>(statements.size());
        try {
            for (byte[] statement : statements) {
                outcomes.add(runOne(statement, isOne ? translated : Native.text(statement), keyColumns));
            }
        } catch (SQLException error) {
            for (Outcome outcome : outcomes) {
                if (outcome.rows() != null) {
                    outcome.rows().close();
                }
            }
            throw error;
        }
        return outcomes;
    }

    private Outcome runOne(byte[] text, String sql, String[] keyColumns) throws SQLException {
        int kind = connection.needsKind() || keyColumns != null ? connection.kind(text) : SqlText.KIND_OTHER;
        if (keyColumns == null || !SqlText.writesRows(kind)) {
            return run(kind, handle -> Native.execute(handle, text), sql);
        }
        byte[] returning = Native.utf8(connection.catalog().returning(sql, keyColumns));
        return run(kind, handle -> Native.execute(handle, returning), sql);
    }

    @Override
    public boolean execute(String sql) throws SQLException {
        begin();
        return finish(runAll(sql, null));
    }

    @Override
    public ResultSet executeQuery(String sql) throws SQLException {
        begin();
        return query(runAll(sql, null));
    }

    /** Finishes an execution that has to give rows. */
    final ResultSet query(List<Outcome> outcomes) throws SQLException {
        if (!finish(outcomes)) {
            throw Errors.refused("02000", "the statement gives no rows: call executeUpdate() or execute()");
        }
        return current.rows();
    }

    @Override
    public long executeLargeUpdate(String sql) throws SQLException {
        begin();
        return update(runAll(sql, null));
    }

    /** Finishes an execution that must not be a query. */
    final long update(List<Outcome> outcomes) throws SQLException {
        if (finish(outcomes) && current.count() < 0) {
            closeResults();
            throw Errors.refused("0100E", "the statement gives rows: call executeQuery() or execute()");
        }
        return current.count();
    }

    /** Finishes an execution whose rows are the generated keys. */
    final long updateWithKeys(List<Outcome> outcomes) throws SQLException {
        long count = 0;
        for (Outcome outcome : outcomes) {
            count = Math.max(outcome.count(), 0);
            if (outcome.rows() != null) {
                generatedKeys = outcome.rows();
            }
        }
        current = new Outcome(null, count);
        return count;
    }

    /** Gives rows as the generated keys. */
    final void giveKeys(Field[] fields, RowSource keys) throws SQLException {
        generatedKeys = new HypostyleResultSet(this, fields, keys, type, 0);
    }

    static int toInt(long count) {
        return (int) Math.min(count, Integer.MAX_VALUE);
    }

    @Override
    public int executeUpdate(String sql) throws SQLException {
        return toInt(executeLargeUpdate(sql));
    }

    private static String[] wanted(int autoGeneratedKeys) {
        return autoGeneratedKeys == RETURN_GENERATED_KEYS ? new String[0] : null;
    }

    @Override
    public long executeLargeUpdate(String sql, int autoGeneratedKeys) throws SQLException {
        return executeLargeUpdate(sql, wanted(autoGeneratedKeys));
    }

    @Override
    public long executeLargeUpdate(String sql, int[] columnIndexes) throws SQLException {
        return executeLargeUpdate(sql, connection.catalog().columns(sql, columnIndexes));
    }

    /** Runs a statement that gives columns of the rows that it writes as keys; without names those that are generated. */
    @Override
    public long executeLargeUpdate(String sql, String[] columnNames) throws SQLException {
        begin();
        List<Outcome> outcomes = runAll(sql, columnNames);
        return columnNames == null ? update(outcomes) : updateWithKeys(outcomes);
    }

    @Override
    public int executeUpdate(String sql, int autoGeneratedKeys) throws SQLException {
        return toInt(executeLargeUpdate(sql, autoGeneratedKeys));
    }

    @Override
    public int executeUpdate(String sql, int[] columnIndexes) throws SQLException {
        return toInt(executeLargeUpdate(sql, columnIndexes));
    }

    @Override
    public int executeUpdate(String sql, String[] columnNames) throws SQLException {
        return toInt(executeLargeUpdate(sql, columnNames));
    }

    @Override
    public boolean execute(String sql, int autoGeneratedKeys) throws SQLException {
        return execute(sql, wanted(autoGeneratedKeys));
    }

    @Override
    public boolean execute(String sql, int[] columnIndexes) throws SQLException {
        return execute(sql, connection.catalog().columns(sql, columnIndexes));
    }

    @Override
    public boolean execute(String sql, String[] columnNames) throws SQLException {
        begin();
        List<Outcome> outcomes = runAll(sql, columnNames);
        boolean isQuery = outcomes.get(0).rows() != null && outcomes.get(0).count() < 0;
        if (columnNames == null || isQuery) {
            return finish(outcomes);
        }
        updateWithKeys(outcomes);
        return false;
    }

    @Override
    public ResultSet getGeneratedKeys() throws SQLException {
        check();
        if (generatedKeys == null) {
            generatedKeys = HypostyleResultSet.inMemory(this, new Field[0], List.of());
        }
        return generatedKeys;
    }

    @Override
    public ResultSet getResultSet() throws SQLException {
        check();
        return current.rows();
    }

    @Override
    public long getLargeUpdateCount() throws SQLException {
        check();
        return current.rows() != null ? -1 : current.count();
    }

    @Override
    public int getUpdateCount() throws SQLException {
        return toInt(getLargeUpdateCount());
    }

    @Override
    public boolean getMoreResults() throws SQLException {
        return getMoreResults(CLOSE_CURRENT_RESULT);
    }

    @Override
    public boolean getMoreResults(int how) throws SQLException {
        check();
        if (how < CLOSE_CURRENT_RESULT || how > CLOSE_ALL_RESULTS) {
            throw Errors.refused("HY024", "there is no way " + how + " to leave a result");
        }
        List<HypostyleResultSet> closing = new ArrayList<>();
        if (how == KEEP_CURRENT_RESULT && current.rows() != null) {
            kept.add(current.rows());
        } else if (current.rows() != null) {
            closing.add(current.rows());
        }
        if (how == CLOSE_ALL_RESULTS) {
            closing.addAll(kept);
            kept.clear();
        }
        Outcome next = following.poll();
        current = next == null ? Outcome.NONE : next;
        for (HypostyleResultSet rows : closing) {
            rows.close();
        }
        return current.rows() != null;
    }

    @Override
    public void addBatch(String sql) throws SQLException {
        check();
        batch.add(translated(sql));
    }

    @Override
    public void clearBatch() throws SQLException {
        check();
        batch.clear();
    }

    /** Runs the statements of the batch one after the other, up to the first that fails. */
    @Override
    public long[] executeLargeBatch() throws SQLException {
        begin();
        long[] counts = new long[batch.size()];
        int done = 0;
        try {
            for (String sql : batch) {
                // A text may have several statements: the results of one are none of the next.
                closeResults();
                counts[done] = update(runAll(sql, null));
                done++;
            }
        } catch (SQLException error) {
            throw failedBatch(error, Arrays.copyOf(counts, done));
        } finally {
            batch.clear();
        }
        return counts;
    }

    static BatchUpdateException failedBatch(SQLException error, long[] counts) {
        BatchUpdateException failed = new BatchUpdateException(error.getMessage(), error.getSQLState(),
                error.getErrorCode(), counts, error);
        failed.setNextException(error);
        return failed;
    }

    @Override
    public int[] executeBatch() throws SQLException {
        return Arrays.stream(executeLargeBatch()).mapToInt(HypostyleStatement::toInt).toArray();
    }

    @Override
    public void cancel() throws SQLException {
        check();
        Watch watch = running;
        if (watch != null) {
            watch.interrupt();
        } else {
            isCancelled = true;
        }
    }

    final void checkCancelled() throws SQLException {
        if (isCancelled) {
            throw Errors.cancelled();
        }
    }

    @Override
    public void close() throws SQLException {
        if (!isClosed) {
            isClosed = true;
            closeResults();
            connection.statementClosed(this);
        }
    }

    @Override
    public boolean isClosed() {
        return isClosed;
    }

    @Override
    public Connection getConnection() throws SQLException {
        check();
        return connection;
    }

    @Override
    public void setLargeMaxRows(long max) throws SQLException {
        check();
        limit = notNegative(max, "a limit of rows");
    }

    @Override
    public long getLargeMaxRows() throws SQLException {
        check();
        return limit;
    }

    @Override
    public void setMaxRows(int max) throws SQLException {
        setLargeMaxRows(max);
    }

    @Override
    public int getMaxRows() throws SQLException {
        return toInt(getLargeMaxRows());
    }

    private static long notNegative(long number, String what) throws SQLException {
        if (number < 0) {
            throw Errors.refused("HY024", what + " cannot be " + number);
        }
        return number;
    }

    /** Takes a limit of bytes, which no value is cut at. */
    @Override
    public void setMaxFieldSize(int max) throws SQLException {
        check();
        maxFieldSize = (int) notNegative(max, "a field's size");
    }

    @Override
    public int getMaxFieldSize() throws SQLException {
        check();
        return maxFieldSize;
    }

    @Override
    public void setQueryTimeout(int seconds) throws SQLException {
        check();
        timeoutSeconds = (int) notNegative(seconds, "a timeout");
    }

    @Override
    public int getQueryTimeout() throws SQLException {
        check();
        return timeoutSeconds;
    }

    @Override
    public void setEscapeProcessing(boolean enable) throws SQLException {
        check();
        hasEscapes = enable;
    }

    @Override
    public void setCursorName(String name) throws SQLException {
        check();
    }

    @Override
    public SQLWarning getWarnings() throws SQLException {
        check();
        return null;
    }

    @Override
    public void clearWarnings() throws SQLException {
        check();
    }

    @Override
    public void setFetchDirection(int direction) throws SQLException {
        check();
        if (direction < ResultSet.FETCH_FORWARD || direction > ResultSet.FETCH_UNKNOWN) {
            throw Errors.refused("HY024", "there is no fetch direction " + direction);
        }
        fetchDirection = direction;
    }

    @Override
    public int getFetchDirection() throws SQLException {
        check();
        return fetchDirection;
    }

    /** Takes a hint; the database decides how many rows come at a time. */
    @Override
    public void setFetchSize(int rows) throws SQLException {
        check();
        fetchSize = (int) notNegative(rows, "a fetch size");
    }

    @Override
    public int getFetchSize() throws SQLException {
        check();
        return fetchSize;
    }

    @Override
    public int getResultSetType() throws SQLException {
        check();
        return type;
    }

    @Override
    public int getResultSetConcurrency() throws SQLException {
        check();
        return concurrency;
    }

    @Override
    public int getResultSetHoldability() throws SQLException {
        check();
        return holdability;
    }

    @Override
    public void setPoolable(boolean poolable) throws SQLException {
        check();
        isPoolable = poolable;
    }

    @Override
    public boolean isPoolable() throws SQLException {
        check();
        return isPoolable;
    }

    @Override
    public void closeOnCompletion() throws SQLException {
        check();
        closesOnCompletion = true;
    }

    @Override
    public boolean isCloseOnCompletion() throws SQLException {
        check();
        return closesOnCompletion;
    }
}
