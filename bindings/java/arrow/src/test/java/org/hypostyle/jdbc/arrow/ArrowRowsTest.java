/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc.arrow;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.junit.jupiter.api.Test;

/** Rows go out as Arrow and come back, and nothing stays allocated. */
class ArrowRowsTest {
    private static final int ROWS = 100_000;

    @Test
    void rowsGoOutAndComeBack() throws Exception {
        try (BufferAllocator allocator = new RootAllocator();
                Connection connection = DriverManager.getConnection("jdbc:hypostyle::memory:");
                Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE t AS SELECT value AS a, 'row ' || value AS b FROM generate_series(1, " + ROWS
                    + ") AS s (value)");
            for (String sql : new String[] {"SELECT a, b FROM t", "SELECT a + 0 AS a, b FROM t", "SELECT a, b FROM t WHERE a < 0"}) {
                long sum = 0;
                long rows = 0;
                try (ArrowReader reader = ArrowRows.read(statement.executeQuery(sql), allocator)) {
                    while (reader.loadNextBatch()) {
                        BigIntVector column = (BigIntVector) reader.getVectorSchemaRoot().getVector("a");
                        for (int row = 0; row < column.getValueCount(); row++) {
                            sum += column.get(row);
                        }
                        rows += column.getValueCount();
                    }
                }
                boolean isEmpty = sql.endsWith("< 0");
                assertEquals(isEmpty ? 0 : ROWS, rows);
                assertEquals(isEmpty ? 0 : (long) ROWS * (ROWS + 1) / 2, sum);
            }
            ArrowReader both = ArrowRows.read(statement.executeQuery("SELECT a, b FROM t"), allocator);
            assertEquals(ROWS, ArrowRows.appendOrCreate(connection, "copy", both, allocator));
            ArrowReader one = ArrowRows.read(statement.executeQuery("SELECT a FROM t"), allocator);
            assertEquals(ROWS, ArrowRows.append(connection, "copy", one, allocator));
            ArrowReader refused = ArrowRows.read(statement.executeQuery("SELECT a FROM t"), allocator);
            assertThrows(SQLException.class, () -> ArrowRows.append(connection, "nothing", refused, allocator));
            try (ResultSet rows = statement.executeQuery("SELECT count(*), count(b), sum(a) FROM copy")) {
                assertTrue(rows.next());
                assertEquals(2L * ROWS, rows.getLong(1));
                assertEquals(ROWS, rows.getLong(2));
                assertEquals((long) ROWS * (ROWS + 1), rows.getLong(3));
            }
        }
    }

    @Test
    void rowsThatWereReadAreRefused() throws Exception {
        try (BufferAllocator allocator = new RootAllocator();
                Connection connection = DriverManager.getConnection("jdbc:hypostyle::memory:");
                Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT 1")) {
            assertTrue(rows.next());
            SQLException error = assertThrows(SQLException.class, () -> ArrowRows.read(rows, allocator));
            assertEquals("24000", error.getSQLState());
        }
    }
}
