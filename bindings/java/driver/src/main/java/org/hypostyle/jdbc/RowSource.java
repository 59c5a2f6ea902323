/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;

/** Where a result's batches come from. */
interface RowSource {
    /** Returns the next batch that has rows, or null at the end. */
    Batch next() throws SQLException;

    /** Frees what gives the batches, but no batch. */
    void close();

    /** A source without rows, or behind the last. */
    RowSource NOTHING = new RowSource() {
        @Override
        public Batch next() {
            return null;
        }

        @Override
        public void close() {
            // There is nothing to free.
        }
    };
}
