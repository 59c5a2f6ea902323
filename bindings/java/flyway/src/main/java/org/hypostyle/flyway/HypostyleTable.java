/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.flyway;

import java.sql.SQLException;
import org.flywaydb.core.internal.database.base.Table;
import org.flywaydb.core.internal.jdbc.JdbcTemplate;

/** A table for Flyway. */
public class HypostyleTable extends Table<HypostyleDatabase, HypostyleSchema> {
    HypostyleTable(JdbcTemplate template, HypostyleDatabase database, HypostyleSchema schema, String name) {
        super(template, database, schema, name);
    }

    @Override
    protected void doDrop() throws SQLException {
        jdbcTemplate.execute("DROP TABLE IF EXISTS " + database.quote(schema.getName(), name) + " CASCADE");
    }

    @Override
    protected boolean doExists() throws SQLException {
        return exists(null, schema, name);
    }

    /** Does nothing: of two that migrate at once, the second one's commit fails, and changes nothing. */
    @Override
    protected void doLock() {
        // Tables have no locks.
    }
}
