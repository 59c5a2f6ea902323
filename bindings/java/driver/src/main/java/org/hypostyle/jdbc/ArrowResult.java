/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;

/** A result that hands its rows out as Arrow; a result of this driver unwraps to it. */
public interface ArrowResult {
    /**
     * Moves all rows into an ArrowArrayStream of the C stream interface, and closes the result. Columns that are stored
     * are mappings. Fails (24000) when a row was read before, and for a statement with a limit of rows.
     *
     * @param address where the struct is, which must be released or zero
     */
    void exportStream(long address) throws SQLException;
}
