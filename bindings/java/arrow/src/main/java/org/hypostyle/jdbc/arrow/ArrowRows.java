/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc.arrow;

import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import org.apache.arrow.c.ArrowArrayStream;
import org.apache.arrow.c.Data;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.hypostyle.jdbc.ArrowResult;
import org.hypostyle.jdbc.HypostyleConnection;

/** Rows between the driver and Arrow's library for Java, without a copy. */
public final class ArrowRows {
    private ArrowRows() {}

    /** Returns all rows of a result, of which none was read; the result is closed, the reader is the caller's to close. */
    public static ArrowReader read(ResultSet rows, BufferAllocator allocator) throws SQLException {
        ArrowArrayStream stream = ArrowArrayStream.allocateNew(allocator);
        try {
            rows.unwrap(ArrowResult.class).exportStream(stream.memoryAddress());
            // The reader closes the stream.
            return Data.importArrayStream(allocator, stream);
        } catch (SQLException | RuntimeException error) {
            stream.close();
            throw error;
        }
    }

    /**
     * Appends all rows of a reader to a table, or none, and returns their number. Columns are matched by name, and missing
     * ones get their default. The reader is closed, also when this fails.
     */
    public static long append(Connection connection, String table, ArrowReader rows, BufferAllocator allocator)
            throws SQLException {
        return append(connection, table, rows, allocator, false);
    }

    /** Does the same; the table is made of the rows if there is none. */
    public static long appendOrCreate(Connection connection, String table, ArrowReader rows, BufferAllocator allocator)
            throws SQLException {
        return append(connection, table, rows, allocator, true);
    }

    private static long append(Connection connection, String table, ArrowReader rows, BufferAllocator allocator,
            boolean create) throws SQLException {
        HypostyleConnection ours = connection.unwrap(HypostyleConnection.class);
        try (ArrowArrayStream stream = ArrowArrayStream.allocateNew(allocator)) {
            Data.exportArrayStream(allocator, rows, stream);
            try {
                return ours.appendStream(table, stream.memoryAddress(), create);
            } finally {
                // Does nothing when the database has taken the stream.
                stream.release();
            }
        }
    }
}
