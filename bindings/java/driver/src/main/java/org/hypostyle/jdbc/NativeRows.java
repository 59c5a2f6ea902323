/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;

/** The rows that a result of the library's gives. */
final class NativeRows implements RowSource {
    private final HypostyleStatement statement;
    private final Field[] fields;
    private final Handle handle;

    /** Takes a result of a statement. */
    NativeRows(HypostyleStatement statement, Field[] fields, long handle) {
        this.statement = statement;
        this.fields = fields;
        this.handle = new Handle(this, handle, Native::freeResult);
    }

    @Override
    public Batch next() throws SQLException {
        return statement.watched(connection -> {
            statement.checkCancelled();
            while (true) {
                long result = handle.get();
                if (result == 0) {
                    throw Errors.ended("result");
                }
                long[] words = Native.nextBatch(result);
                if (words == null) {
                    return null;
                }
                Batch batch = new Batch(words, fields);
                if (batch.length() > 0) {
                    return batch;
                }
                batch.close();
            }
        });
    }

    @Override
    public void stream(Batch first, long address) throws SQLException {
        statement.watched(connection -> {
            long result = handle.get();
            if (result == 0) {
                throw Errors.ended("result");
            }
            Native.stream(result, first == null ? 0 : first.handle(), address);
            return null;
        });
    }

    @Override
    public void close() {
        statement.session().free(handle::free);
    }
}
