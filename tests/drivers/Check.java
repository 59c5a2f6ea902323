import java.sql.*;

/** What a program does that knows the database only by its metadata. */
public class Check {
    static void show(String what, ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        int count = 0;
        while (rows.next()) {
            if (count++ < 4) {
                StringBuilder line = new StringBuilder(what + ":");
                for (int i = 1; i <= Math.min(columns.getColumnCount(), 8); i++) line.append(' ').append(rows.getString(i));
                System.out.println(line);
            }
        }
        System.out.println(what + ": " + count + " rows");
    }

    interface Step { void run() throws SQLException; }
    static int failed = 0;

    static void step(String what, Step step) {
        try {
            step.run();
        } catch (SQLException error) {
            failed++;
            System.out.println(what + " FAILED: " + error.getMessage());
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            DatabaseMetaData data = connection.getMetaData();
            System.out.println(data.getDatabaseProductName() + " " + data.getDatabaseProductVersion());
            try (Statement statement = connection.createStatement()) {
                statement.execute("DROP TABLE IF EXISTS jdbc_child");
                statement.execute("DROP TABLE IF EXISTS jdbc");
                statement.execute("CREATE TABLE jdbc (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(10,2), made TIMESTAMP)");
                statement.execute("CREATE TABLE jdbc_child (id BIGINT, parent INTEGER REFERENCES jdbc (id))");
            }
            step("getTables", () -> show("getTables", data.getTables(null, "main", "jdbc%", new String[] {"TABLE", "VIEW"})));
            step("getColumns", () -> show("getColumns", data.getColumns(null, "main", "jdbc", "%")));
            step("getPrimaryKeys", () -> show("getPrimaryKeys", data.getPrimaryKeys(null, "main", "jdbc")));
            step("getImportedKeys", () -> show("getImportedKeys", data.getImportedKeys(null, "main", "jdbc_child")));
            step("getIndexInfo", () -> show("getIndexInfo", data.getIndexInfo(null, "main", "jdbc", false, false)));
            step("getSchemas", () -> show("getSchemas", data.getSchemas()));
            step("getCatalogs", () -> show("getCatalogs", data.getCatalogs()));
            step("getTypeInfo", () -> show("getTypeInfo", data.getTypeInfo()));
            step("batch", () -> {
                connection.setAutoCommit(false);
                try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jdbc VALUES (?, ?, ?, ?)")) {
                    for (int i = 1; i <= 20; i++) {
                        insert.setInt(1, i);
                        insert.setString(2, "n" + i);
                        insert.setBigDecimal(3, new java.math.BigDecimal("1.25"));
                        insert.setTimestamp(4, Timestamp.valueOf("2024-01-02 03:04:05"));
                        insert.addBatch();
                    }
                    insert.executeBatch();
                }
                connection.commit();
            });
            step("fetch", () -> {
                try (PreparedStatement query = connection.prepareStatement("SELECT * FROM jdbc WHERE id > ? ORDER BY id")) {
                    query.setFetchSize(3);
                    for (int i = 0; i < 7; i++) {
                        query.setInt(1, 0);
                        show("fetch", query.executeQuery());
                    }
                }
                connection.commit();
            });
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
