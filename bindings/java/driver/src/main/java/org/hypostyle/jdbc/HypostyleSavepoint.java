/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.sql.Savepoint;

/** A place in a transaction to which it can be rolled back. */
final class HypostyleSavepoint implements Savepoint {
    private final HypostyleConnection connection;
    private final int number;
    private final String name;

    /** Makes a savepoint; {@code name} is null for one that only has a number. */
    HypostyleSavepoint(HypostyleConnection connection, int number, String name) {
        this.connection = connection;
        this.number = number;
        this.name = name;
    }

    boolean isOf(HypostyleConnection other) {
        return connection == other;
    }

    /** Returns the name in SQL. */
    String sqlName() {
        return Texts.identifier(name != null ? name : "hypostyle_jdbc_" + number);
    }

    @Override
    public int getSavepointId() throws SQLException {
        if (name != null) {
            throw Errors.refused("3B001", "the savepoint has a name, and no number");
        }
        return number;
    }

    @Override
    public String getSavepointName() throws SQLException {
        if (name == null) {
            throw Errors.refused("3B001", "the savepoint has a number, and no name");
        }
        return name;
    }
}
