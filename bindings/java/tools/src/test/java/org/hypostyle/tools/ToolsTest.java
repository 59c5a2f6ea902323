/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.flywaydb.core.Flyway;
import org.hypostyle.jdbc.HypostyleDataSource;
import org.jooq.DSLContext;
import org.jooq.Record;
import org.jooq.SQLDialect;
import org.jooq.impl.DSL;
import org.jooq.impl.SQLDataType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.BadSqlGrammarException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.core.simple.SimpleJdbcInsert;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.support.GeneratedKeyHolder;
import org.springframework.transaction.support.TransactionTemplate;

/** HikariCP, Spring's JdbcTemplate, jOOQ and Flyway do their work. */
class ToolsTest {
    @TempDir
    private Path folder;

    private String url() {
        return "jdbc:hypostyle:" + folder.resolve("test.hypo");
    }

    @Test
    void hikari() throws Exception {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url());
        config.setMaximumPoolSize(4);
        config.setUsername("any");
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement()) {
                statement.execute("CREATE TABLE t (a INTEGER)");
            }
            List<Future<Integer>> added = new java.util.ArrayList<>();
            for (int number = 0; number < 40; number++) {
                int value = number;
                added.add(threads.submit(() -> {
                    try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement()) {
                        return statement.executeUpdate("INSERT INTO t VALUES (" + value + ")");
                    }
                }));
            }
            for (Future<Integer> future : added) {
                assertEquals(1, future.get());
            }
            try (Connection connection = pool.getConnection()) {
                connection.setAutoCommit(false);
                connection.setReadOnly(true);
            }
            // What one user has set, the next one does not find.
            try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery("SELECT count(*) FROM t")) {
                assertTrue(connection.getAutoCommit());
                assertFalse(connection.isReadOnly());
                assertTrue(rows.next());
                assertEquals(40, rows.getInt(1));
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void spring() {
        try (HypostyleDataSource source = new HypostyleDataSource("jdbc:hypostyle::memory:")) {
            JdbcTemplate template = new JdbcTemplate(source);
            template.execute("CREATE TABLE orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer VARCHAR "
                    + "UNIQUE, total DECIMAL(9,2), day DATE)");
            GeneratedKeyHolder key = new GeneratedKeyHolder();
            template.update(connection -> {
                var statement = connection.prepareStatement("INSERT INTO orders (customer, total) VALUES (?, ?)",
                        Statement.RETURN_GENERATED_KEYS);
                statement.setString(1, "Ada");
                statement.setBigDecimal(2, new BigDecimal("12.50"));
                return statement;
            }, key);
            assertEquals(1L, key.getKey());
            Number id = new SimpleJdbcInsert(source).withTableName("orders").usingGeneratedKeyColumns("id")
                    .executeAndReturnKey(Map.of("customer", "Grace", "total", 5, "day", LocalDate.of(2026, 1, 31)));
            assertEquals(2L, id.longValue());
            int[] counts = template.batchUpdate("INSERT INTO orders (customer, total) VALUES (?, ?)",
                    List.of(new Object[] {"x", null}, new Object[] {"y", 2}));
            assertEquals(2, counts.length);
            assertEquals(new BigDecimal("19.50"), template.queryForObject("SELECT sum(total) FROM orders", BigDecimal.class));
            assertEquals(List.of("Ada", "Grace"), new NamedParameterJdbcTemplate(source).queryForList(
                    "SELECT customer FROM orders WHERE customer IN (:names) ORDER BY id", Map.of("names",
                            List.of("Ada", "Grace")), String.class));
            assertThrows(DuplicateKeyException.class, () -> template.update("INSERT INTO orders (customer) VALUES ('Ada')"));
            assertThrows(BadSqlGrammarException.class, () -> template.queryForList("SELECT nothing"));
            TransactionTemplate transaction = new TransactionTemplate(new DataSourceTransactionManager(source));
            transaction.executeWithoutResult(status -> {
                template.update("DELETE FROM orders");
                status.setRollbackOnly();
            });
            assertEquals(4, template.queryForObject("SELECT count(*) FROM orders", Integer.class));
        }
    }

    @Test
    void jooq() throws SQLException {
        try (HypostyleDataSource source = new HypostyleDataSource("jdbc:hypostyle::memory:");
                Connection connection = source.getConnection()) {
            DSLContext create = DSL.using(connection, SQLDialect.POSTGRES);
            var orders = DSL.table(DSL.name("orders"));
            var id = DSL.field(DSL.name("id"), SQLDataType.INTEGER);
            var name = DSL.field(DSL.name("name"), SQLDataType.VARCHAR);
            var total = DSL.field(DSL.name("total"), SQLDataType.NUMERIC(9, 2));
            var at = DSL.field(DSL.name("at"), SQLDataType.LOCALDATETIME);
            var key = DSL.field(DSL.name("key"), SQLDataType.UUID);
            create.createTable(orders).column(id, SQLDataType.INTEGER.notNull()).column(name).column(total).column(at)
                    .column(key).primaryKey(id).execute();
            LocalDateTime point = LocalDateTime.of(2026, 1, 31, 12, 0, 0, 5000);
            UUID uuid = new UUID(1, 2);
            assertEquals(2, create.insertInto(orders, id, name, total, at, key)
                    .values(1, "Ada", new BigDecimal("12.50"), point, uuid).values(2, null, null, null, null).execute());
            Record row = create.select().from(orders).where(id.eq(1)).fetchOne();
            assertNotNull(row);
            assertEquals("Ada", row.get(name));
            assertEquals(new BigDecimal("12.50"), row.get(total));
            assertEquals(point, row.get(at.getName(), LocalDateTime.class));
            assertEquals(uuid, row.get(key));
            assertNull(create.select(name).from(orders).where(id.eq(2)).fetchOne(name));
            assertEquals(3, create.insertInto(orders, id).values(3).returning(id).fetchOne(id));
            create.transaction(inner -> DSL.using(inner).update(orders).set(name, "Grace").where(id.gt(1)).execute());
            assertEquals(List.of(2, 3), create.select(id).from(orders).where(name.eq("Grace")).orderBy(id).fetch(id));
            assertTrue(create.meta().getTables("orders").get(0).field("total").getDataType().isNumeric());
        }
    }

    @Test
    void flyway() throws SQLException {
        Flyway flyway = Flyway.configure().dataSource(url(), "", "").locations("classpath:migrations").cleanDisabled(false)
                .load();
        assertEquals(2, flyway.migrate().migrationsExecuted);
        assertEquals(0, flyway.migrate().migrationsExecuted);
        flyway.validate();
        assertEquals("2", flyway.info().current().getVersion().toString());
        JdbcTemplate template = new JdbcTemplate(new HypostyleDataSource(url()));
        assertEquals(List.of("Ada; Grace", "Edsger"), template.queryForList("SELECT * FROM customers ORDER BY 1", String.class));
        flyway.clean();
        assertThrows(BadSqlGrammarException.class, () -> template.queryForList("SELECT * FROM orders"));
    }
}
