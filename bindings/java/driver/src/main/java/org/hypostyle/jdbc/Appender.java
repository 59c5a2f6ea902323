/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/**
 * Appends rows to a table, which take effect together with {@link #finish()}. Other statements of the connection belong to
 * the same transaction until then. Rows that were not finished are not appended.
 *
 * <pre>{@code
 * try (Appender rows = connection.unwrap(HypostyleConnection.class).createAppender("orders")) {
 *     rows.append(1, "Ada", new BigDecimal("12.50"));
 *     rows.finish();
 * }
 * }</pre>
 */
public final class Appender implements AutoCloseable {
    private final Session session;
    private final Handle handle;
    /** Why nothing more can be appended, or null. */
    private SQLException failed;
    private boolean isFinished;
    private final String table;
    /** The table's columns, once it has mattered what they are. */
    private Field[] columns;

    Appender(Session session, String table) throws SQLException {
        this.session = session;
        this.table = table;
        byte[] name = Native.utf8(table);
        long opened = session.call(null, connection -> Native.openAppender(connection, name));
        handle = new Handle(this, opened, Native::freeAppender);
    }

    /** Returns the handle, for a caller that holds the session's lock. */
    private long handle() throws SQLException {
        long open = handle.get();
        if (open == 0 || isFinished) {
            throw Errors.ended("appender");
        }
        if (failed != null) {
            throw Errors.refused("HY010", "a row has failed before, so that nothing is appended: " + failed.getMessage(),
                    failed);
        }
        return open;
    }

    /**
     * Appends a row with a value for each column of the table: what a parameter may be. After an error nothing is
     * appended, and all calls fail.
     */
    public void append(Object... values) throws SQLException {
        session.call(null, connection -> {
            long open = handle();
            try {
                List<Value> row = new ArrayList<>(values.length);
                for (Object value : values) {
                    row.add(wanted(connection, row.size(), scalar(Value.of(value))));
                }
                for (Value value : row) {
                    Native.appendValue(open, value.type.ordinal(), value.scale, value.integer, value.high, value.number,
                            value.bytes);
                }
                Native.endRow(open);
            } catch (SQLException error) {
                failed = error;
                throw error;
            }
            return null;
        });
    }

    /** Returns the value for its column: a moment where that is a TIMESTAMPTZ. */
    private Value wanted(long connection, int index, Value value) throws SQLException {
        if (!value.hasMoment()) {
            return value;
        }
        if (columns == null) {
            String name = Catalog.quoted(SqlText.parts(table));
            long prepared = Native.prepare(connection, Native.utf8("SELECT * FROM " + name));
            try {
                columns = Field.ofStatement(Native.describeStatement(prepared));
            } finally {
                Native.freeStatement(prepared);
            }
        }
        return index < columns.length && columns[index].type == SqlType.TIMESTAMPTZ ? value.asMoment() : value;
    }

    private static Value scalar(Value value) throws SQLException {
        if (value.type == SqlType.LIST) {
            throw Errors.unsupported("an appender takes no arrays: use a prepared statement, or Arrow");
        }
        return value;
    }

    /** Makes the rows take effect and returns their number. */
    public long finish() throws SQLException {
        return session.call(null, connection -> {
            long rows = Native.finishAppender(handle());
            isFinished = true;
            return rows;
        });
    }

    /** Frees the appender. Rows that were not finished are not appended. */
    @Override
    public void close() {
        session.free(handle::free);
    }
}
