/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;

/**
 * The native methods over hypostyle.h. Handles are longs, which 0 stands for none of. Nothing here checks a handle:
 * who calls holds the session's lock and has looked whether the handle is still there. Texts are bytes in UTF-8.
 */
final class Native {
    private Native() {}

    /** Opens the library at a path, which NUL ends; returns why it could not, or null. */
    static native byte[] load(byte[] path);

    static native byte[] version();

    /** Opens a database. Texts other than the target end with NUL, or are null. */
    static native long open(byte[] target, boolean readOnly, boolean allowNetworkFilesystem, int threads,
            long memoryLimit, byte[] tempDirectory, byte[] verify, byte[] user, byte[] password) throws SQLException;

    static native void close(long database);

    static native long connect(long database) throws SQLException;

    static native void disconnect(long connection);

    static native void interrupt(long connection);

    /** Returns 0 without a transaction, 1 in one, 2 in one that has failed. */
    static native int transactionState(long connection);

    static native long sessionId(long connection);

    static native void setAutoCommit(long connection, boolean autoCommit) throws SQLException;

    static native void commit(long connection) throws SQLException;

    static native void rollback(long connection) throws SQLException;

    /** Runs statements and returns the result of the last. */
    static native long execute(long connection, byte[] sql) throws SQLException;

    /** Finds the statement behind a place: where it begins, its length, and where to go on. */
    static native boolean nextStatement(byte[] sql, int from, int[] places) throws SQLException;

    static native long prepare(long connection, byte[] sql) throws SQLException;

    /** Returns one of {@link SqlText}'s kinds. */
    static native int kind(long statement);

    static native int parameters(long statement);

    /** Returns the name of a parameter's type, and in {@code numbers} type, precision and scale. */
    static native byte[] parameter(long statement, int index, int[] numbers) throws SQLException;

    static native int parameterIndex(long statement, byte[] name) throws SQLException;

    static native void bind(long statement, int index, int type, int scale, long integer, long high, double number,
            byte[] bytes) throws SQLException;

    /** Binds a batch of rows, whose nodes are given in the order of a walk from the top. */
    static native void bindRows(long statement, byte[][] formats, byte[][] names, byte[][] metadata, int[] children,
            long[] lengths, long[] nullCounts, byte[][][] buffers) throws SQLException;

    static native void clearBindings(long statement) throws SQLException;

    static native long executeStatement(long statement) throws SQLException;

    static native void freeStatement(long statement);

    static native int columns(long result);

    /** Returns what {@link Field#ofResult} reads. */
    static native byte[] describe(long result) throws SQLException;

    /** Returns what {@link Field#ofStatement} reads. */
    static native byte[] describeStatement(long statement) throws SQLException;

    /** Returns the number of rows that were written, or -1. */
    static native long rowsAffected(long result);

    static native void freeResult(long result);

    /** Returns what {@link Batch} reads, or null at the end. */
    static native long[] nextBatch(long result) throws SQLException;

    static native void releaseBatch(long batch);

    static native ByteBuffer buffer(long address, long length);

    /** Moves a batch, which may be 0, and the rows that are left into the ArrowArrayStream at an address. */
    static native void stream(long result, long batch, long stream) throws SQLException;

    /** Appends the ArrowArrayStream at an address, which is moved. */
    static native long append(long connection, byte[] table, long stream, int flags) throws SQLException;

    static native long openAppender(long connection, byte[] table) throws SQLException;

    static native void appendValue(long appender, int type, int scale, long integer, long high, double number,
            byte[] bytes) throws SQLException;

    static native void endRow(long appender) throws SQLException;

    static native long finishAppender(long appender) throws SQLException;

    static native void freeAppender(long appender);

    /** Makes the exception that the native code throws. */
    static SQLException error(int status, byte[] sqlState, byte[] message, byte[] detail, long position) {
        return Errors.of(status, text(sqlState), text(message), text(detail), position);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    /** Returns a text as UTF-8. A surrogate that stands alone has none, and is refused. */
    static byte[] utf8(String text) throws SQLException {
        if (text == null) {
            throw Errors.refused("HY009", "a name or a text is null");
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        // A surrogate that stands alone has become one byte, '?'.
        for (int index = 0; index < text.length(); index++) {
            if (Character.isSurrogate(text.charAt(index))) {
                if (!Character.isHighSurrogate(text.charAt(index)) || index + 1 == text.length()
                        || !Character.isLowSurrogate(text.charAt(index + 1))) {
                    throw Errors.refused("22021", "a text has half a character at the place " + index);
                }
                index++;
            }
        }
        return bytes;
    }

    /** Returns a text as UTF-8 with NUL behind it; null for null. */
    static byte[] terminated(String text) throws SQLException {
        if (text == null) {
            return null;
        }
        if (text.indexOf('\0') >= 0) {
            throw Errors.refused("HY024", "an option cannot have a NUL in it");
        }
        return utf8(text + '\0');
    }
}
