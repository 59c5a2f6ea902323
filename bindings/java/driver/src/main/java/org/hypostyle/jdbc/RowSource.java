/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;

/** Where a result's batches come from. */
interface RowSource {
    /** Returns the next batch that has rows, or null at the end. */
    Batch next() throws SQLException;

    /**
     * Moves the rows that are left into the ArrowArrayStream at an address, behind those of a batch that was fetched
     * before; it may be null.
     */
    default void stream(Batch first, long address) throws SQLException {
        throw Errors.unsupported("rows in Java's memory have no Arrow stream");
    }

    /** Frees what gives the batches, but no batch. */
    void close();
}
