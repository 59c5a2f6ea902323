/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.sql.Wrapper;

/** What is no wrapper of anything but itself. */
abstract class HypostyleWrapper implements Wrapper {
    @Override
    public final <T> T unwrap(Class<T> type) throws SQLException {
        if (!isWrapperFor(type)) {
            throw Errors.refused("HY024", getClass().getName() + " is no " + (type == null ? "null" : type.getName()));
        }
        return type.cast(this);
    }

    @Override
    public final boolean isWrapperFor(Class<?> type) {
        return type != null && type.isInstance(this);
    }
}
