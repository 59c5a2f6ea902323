/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;

/**
 * Some rows of a result, column by column.
 *
 * <p>The values lie in memory of the library, which must not be freed while a thread reads it. A thread that reads is
 * admitted once. If only the thread that closes the batch has read it, the memory is freed at once. Else another
 * thread may be in the middle of reading: then the garbage collector frees it, when no thread has the batch any more.
 * Therefore those who read keep the batch reachable until they have read ({@code Reference.reachabilityFence}).
 */
final class Batch {
    /** The only thread that may read without being admitted again. */
    private Thread reader;

    private boolean isShared;
    private boolean isClosed;
    /** The library's memory; null for columns in Java's. */
    private final Handle memory;
    private final Field[] fields;
    private final ArrayData rows;
    private final Column[] columns;
    private long length;

    /** Takes the rows that {@link Native#nextBatch} gives. */
    Batch(long[] words, Field[] fields) {
        this.fields = fields;
        this.rows = ArrayData.ofRows(words, fields);
        this.length = rows.length;
        this.columns = new Column[fields.length];
        this.memory = new Handle(this, words[0], Native::releaseBatch);
    }

    /** Makes a batch of columns in Java's memory. */
    Batch(Column[] columns, long length) {
        this.fields = null;
        this.rows = null;
        this.memory = null;
        this.columns = columns;
        this.length = length;
    }

    /** Returns what {@link Native#stream} takes. */
    long handle() {
        return memory.get();
    }

    long length() {
        return length;
    }

    /** Leaves out rows behind the first ones. */
    void limit(long most) {
        length = Math.min(length, most);
    }

    /** Returns a column for the calling thread to read. */
    Column column(int index) throws SQLException {
        if (reader != Thread.currentThread()) {
            admit();
        }
        Column column = columns[index];
        return column != null ? column : open(index);
    }

    private synchronized void admit() throws SQLException {
        if (isClosed) {
            throw Errors.ended("result");
        }
        if (reader == null) {
            reader = Thread.currentThread();
        } else if (reader != Thread.currentThread()) {
            isShared = true;
        }
    }

    private Column open(int index) throws SQLException {
        Column column = Columns.of(fields[index], rows.children[index], rows.offset);
        columns[index] = column;
        return column;
    }

    /** Frees the memory, or leaves it to the garbage collector if another thread may read it. */
    synchronized void close() {
        isClosed = true;
        boolean isAlone = !isShared && (reader == null || reader == Thread.currentThread());
        if (isAlone && memory != null) {
            memory.free();
        }
    }
}
