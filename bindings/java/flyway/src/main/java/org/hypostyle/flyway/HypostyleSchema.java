/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.flyway;

import java.sql.SQLException;
import java.util.List;
import org.flywaydb.core.internal.database.base.Schema;
import org.flywaydb.core.internal.database.base.Table;
import org.flywaydb.core.internal.jdbc.JdbcTemplate;

/** A schema for Flyway, and how it is emptied. */
public class HypostyleSchema extends Schema<HypostyleDatabase, HypostyleTable> {
    HypostyleSchema(JdbcTemplate template, HypostyleDatabase database, String name) {
        super(template, database, name);
    }

    @Override
    protected boolean doExists() throws SQLException {
        return jdbcTemplate.queryForInt("SELECT count(*) FROM information_schema.schemata WHERE schema_name = ? "
                + "AND catalog_name = current_database()", name) > 0;
    }

    @Override
    protected boolean doEmpty() throws SQLException {
        return jdbcTemplate.queryForInt("SELECT count(*) FROM information_schema.tables WHERE table_schema = ? "
                + "AND table_catalog = current_database()", name) == 0;
    }

    @Override
    protected void doCreate() throws SQLException {
        jdbcTemplate.execute("CREATE SCHEMA " + database.quote(name));
    }

    @Override
    protected void doDrop() throws SQLException {
        jdbcTemplate.execute("DROP SCHEMA " + database.quote(name) + " CASCADE");
    }

    @Override
    protected void doClean() throws SQLException {
        for (String view : named("VIEW")) {
            jdbcTemplate.execute("DROP VIEW IF EXISTS " + database.quote(name, view) + " CASCADE");
        }
        for (Table<?, ?> table : allTables()) {
            table.drop();
        }
        List<String> sequences = jdbcTemplate.queryForStringList(
                "SELECT sequence_name FROM information_schema.sequences WHERE sequence_schema = ?", name);
        for (String sequence : sequences) {
            jdbcTemplate.execute("DROP SEQUENCE IF EXISTS " + database.quote(name, sequence));
        }
    }

    private List<String> named(String type) throws SQLException {
        return jdbcTemplate.queryForStringList("SELECT table_name FROM information_schema.tables WHERE table_schema = ? "
                + "AND table_type = ? AND table_catalog = current_database()", name, type);
    }

    @Override
    protected HypostyleTable[] doAllTables() throws SQLException {
        return named("BASE TABLE").stream().map(table -> new HypostyleTable(jdbcTemplate, database, this, table))
                .toArray(HypostyleTable[]::new);
    }

    @Override
    public Table<?, ?> getTable(String table) {
        return new HypostyleTable(jdbcTemplate, database, this, table);
    }
}
