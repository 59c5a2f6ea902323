/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.flyway;

import java.sql.Connection;
import org.flywaydb.core.api.configuration.Configuration;
import org.flywaydb.core.internal.database.base.Database;
import org.flywaydb.core.internal.database.base.Table;
import org.flywaydb.core.internal.jdbc.JdbcConnectionFactory;
import org.flywaydb.core.internal.jdbc.StatementInterceptor;

/** A database for Flyway: its history table, and what its transactions can do. */
public class HypostyleDatabase extends Database<HypostyleFlywayConnection> {
    HypostyleDatabase(Configuration configuration, JdbcConnectionFactory factory, StatementInterceptor interceptor) {
        super(configuration, factory, interceptor);
    }

    @Override
    protected HypostyleFlywayConnection doGetConnection(Connection connection) {
        return new HypostyleFlywayConnection(this, connection);
    }

    /** Accepts all versions. */
    @Override
    public void ensureSupported(Configuration configuration) {
        // There is no older one.
    }

    @Override
    public boolean supportsDdlTransactions() {
        return true;
    }

    @Override
    public String getBooleanTrue() {
        return "true";
    }

    @Override
    public String getBooleanFalse() {
        return "false";
    }

    @Override
    public boolean catalogIsSchema() {
        return false;
    }

    @Override
    public String getRawCreateScript(Table table, boolean baseline) {
        return "CREATE TABLE " + table + " (\n"
                + "    \"installed_rank\" INTEGER PRIMARY KEY,\n"
                + "    \"version\" VARCHAR,\n"
                + "    \"description\" VARCHAR NOT NULL,\n"
                + "    \"type\" VARCHAR NOT NULL,\n"
                + "    \"script\" VARCHAR NOT NULL,\n"
                + "    \"checksum\" INTEGER,\n"
                + "    \"installed_by\" VARCHAR NOT NULL,\n"
                + "    \"installed_on\" TIMESTAMP NOT NULL DEFAULT now(),\n"
                + "    \"execution_time\" INTEGER NOT NULL,\n"
                + "    \"success\" BOOLEAN NOT NULL\n"
                + ");\n" + (baseline ? getBaselineStatement(table) + ";\n" : "");
    }
}
