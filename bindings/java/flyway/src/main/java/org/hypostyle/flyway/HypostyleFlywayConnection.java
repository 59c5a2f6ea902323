/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.flyway;

import java.sql.SQLException;
import org.flywaydb.core.internal.database.base.Connection;
import org.flywaydb.core.internal.database.base.Schema;

/** A connection of Flyway's, which goes from schema to schema. */
public class HypostyleFlywayConnection extends Connection<HypostyleDatabase> {
    HypostyleFlywayConnection(HypostyleDatabase database, java.sql.Connection connection) {
        super(database, connection);
    }

    @Override
    protected String getCurrentSchemaNameOrSearchPath() throws SQLException {
        return getJdbcConnection().getSchema();
    }

    @Override
    public void doChangeCurrentSchemaOrSearchPathTo(String schema) throws SQLException {
        getJdbcConnection().setSchema(schema);
    }

    @Override
    public Schema<?, ?> getSchema(String name) {
        return new HypostyleSchema(jdbcTemplate, database, name);
    }
}
