/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.Reader;
import java.io.StringReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Blob;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.JDBCType;
import java.sql.NClob;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.SQLType;
import java.sql.SQLXML;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Struct;
import java.sql.Time;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Calendar;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Executor;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;

/**
 * Each method of JDBC's interfaces is called with arguments that mean something and with such that do not, on objects that
 * are open and on such that are closed: what fails is an SQLException with its state, and nothing else.
 */
class ContractTest {
    private static final String ROWS = "SELECT 1 AS a, 'x' AS b, [1, 2] AS l, {'a': 1} AS s, '\\x01'::BLOB AS bytes";
    /** What no driver of the field has: pointers to rows, numbers of rows, and shards; and XML as what is no form of it. */
    private static final Set<String> UNSUPPORTED = Set.of("CallableStatement.getRef", "CallableStatement.getRowId",
            "CallableStatement.setRowId", "Connection.setShardingKey", "Connection.setShardingKeyIfValid",
            "DataSource.createConnectionBuilder", "DataSource.createShardingKeyBuilder", "PreparedStatement.setRef",
            "CallableStatement.setRef", "PreparedStatement.setRowId", "ResultSet.getRef", "ResultSet.getRowId",
            "SQLXML.setResult");
    /** Methods of JDBC's own, which say that null is a NullPointerException and have no states. */
    private static final Set<String> OF_JDBC = Set.of("enquoteLiteral", "enquoteIdentifier", "enquoteNCharLiteral",
            "isSimpleIdentifier", "setShardingKey", "setShardingKeyIfValid", "createConnectionBuilder",
            "createShardingKeyBuilder");
    /** Methods that a closed connection, statement or result answers. */
    private static final Set<String> ANSWERED = Set.of("close", "isClosed", "isValid", "abort", "isWrapperFor", "unwrap",
            "beginRequest", "endRequest", "enquoteLiteral", "enquoteIdentifier", "enquoteNCharLiteral",
            "isSimpleIdentifier");
    private static final int KINDS_OF_ARGUMENTS = 4;

    private final Set<String> unsupported = new TreeSet<>();
    private final List<String> wrong = new ArrayList<>();

    private interface Maker {
        Object make(Connection connection) throws SQLException;
    }

    private static ResultSet rows(Connection connection) throws SQLException {
        ResultSet rows = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)
                .executeQuery(ROWS);
        rows.next();
        return rows;
    }

    private static CallableStatement call(Connection connection) throws SQLException {
        CallableStatement call = connection.prepareCall("{? = call upper(?)}");
        call.registerOutParameter(1, java.sql.Types.VARCHAR);
        call.setString(2, "a");
        call.execute();
        return call;
    }

    private static ResultSet updatable(Connection connection) throws SQLException {
        Databases.run(connection, "CREATE OR REPLACE TABLE k (a INTEGER PRIMARY KEY, b VARCHAR)", "INSERT INTO k VALUES (1, 'x')");
        ResultSet rows = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)
                .executeQuery("SELECT a, b FROM k");
        rows.next();
        return rows;
    }

    private static Savepoint savepoint(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        return connection.setSavepoint();
    }

    @Test
    void everyMethodKeepsTheContract() throws Exception {
        each(Driver.class, connection -> DriverManager.getDriver("jdbc:hypostyle:x"));
        each(DataSource.class, connection -> new HypostyleDataSource("jdbc:hypostyle::memory:"));
        each(Connection.class, connection -> connection);
        each(Statement.class, Connection::createStatement);
        each(PreparedStatement.class, connection -> connection.prepareStatement("SELECT ?"));
        each(CallableStatement.class, ContractTest::call);
        each(ResultSet.class, ContractTest::rows);
        each(ResultSet.class, ContractTest::updatable);
        each(ResultSetMetaData.class, connection -> rows(connection).getMetaData());
        each(ParameterMetaData.class, connection -> connection.prepareStatement("SELECT ?").getParameterMetaData());
        each(DatabaseMetaData.class, Connection::getMetaData);
        each(Array.class, connection -> rows(connection).getArray("l"));
        each(Struct.class, connection -> rows(connection).getObject("s"));
        each(Blob.class, connection -> rows(connection).getBlob("bytes"));
        each(NClob.class, connection -> rows(connection).getNClob("b"));
        each(SQLXML.class, Connection::createSQLXML);
        each(Savepoint.class, ContractTest::savepoint);
        assertEquals(List.of(), wrong);
        assertEquals(new TreeSet<>(UNSUPPORTED), unsupported);
    }

    private void each(Class<?> type, Maker maker) throws Exception {
        // Calls of a connection change it, or close it.
        boolean isItsOwn = type == Connection.class || type == Savepoint.class;
        try (Connection shared = Databases.memory(); Connection other = Databases.memory()) {
            Object closed = maker.make(other);
            close(closed, other);
            for (Method method : type.getMethods()) {
                if (method.getDeclaringClass() == Object.class || Modifier.isStatic(method.getModifiers())) {
                    continue;
                }
                int kinds = method.getParameterCount() == 0 ? 1 : KINDS_OF_ARGUMENTS;
                for (int kind = 0; kind < kinds; kind++) {
                    try (Connection own = isItsOwn ? Databases.memory() : null) {
                        call(type, method, kind, maker.make(own == null ? shared : own), false);
                    }
                }
                call(type, method, 1, closed, true);
            }
        }
    }

    private static void close(Object object, Connection connection) throws Exception {
        if (object instanceof AutoCloseable open) {
            open.close();
        } else if (object instanceof Blob blob) {
            blob.free();
        } else if (object instanceof NClob clob) {
            clob.free();
        } else if (object instanceof Array array) {
            array.free();
        } else if (object instanceof SQLXML xml) {
            xml.free();
        } else {
            connection.close();
        }
    }

    private void call(Class<?> type, Method method, int kind, Object object, boolean isClosed) throws Exception {
        Object[] arguments = new Object[method.getParameterCount()];
        for (int index = 0; index < arguments.length; index++) {
            arguments[index] = argument(method.getParameterTypes()[index], kind);
        }
        String what = type.getSimpleName() + "." + method.getName() + Arrays.toString(method.getParameterTypes())
                + " with the arguments " + kind + (isClosed ? " when it is closed" : "");
        try {
            method.invoke(object, arguments);
            boolean isRefused = object instanceof Connection || object instanceof Statement || object instanceof ResultSet;
            if (isClosed && isRefused && !ANSWERED.contains(method.getName())) {
                wrong.add(what + " is answered");
            }
        } catch (InvocationTargetException failed) {
            Throwable error = failed.getCause();
            if (error instanceof SQLFeatureNotSupportedException) {
                unsupported.add(type.getSimpleName() + "." + method.getName());
            }
            boolean hasState = error instanceof SQLException told && told.getSQLState() != null;
            if (!hasState && !OF_JDBC.contains(method.getName())) {
                wrong.add(what + ": " + error);
            }
        }
    }

    /** Returns an argument of a class: nothing or 0, something that may do, something strange, something very large. */
    private static Object argument(Class<?> type, int kind) throws Exception {
        if (type.isPrimitive()) {
            return primitive(type, kind);
        }
        if (type == Object.class) {
            return Arrays.asList(null, "x", new Object(), new BigDecimal("1e999999999")).get(kind);
        }
        return kind == 0 ? null : given(type, kind);
    }

    private static Object primitive(Class<?> type, int kind) {
        int number = new int[] {0, 1, -1, Integer.MAX_VALUE}[kind];
        switch (type.getName()) {
            case "int": return number;
            case "long": return kind == 3 ? Long.MAX_VALUE : (long) number;
            case "short": return (short) number;
            case "byte": return (byte) number;
            case "boolean": return kind == 1;
            case "float": return kind == 3 ? Float.NaN : number;
            default: return kind == 3 ? Double.NaN : number;
        }
    }

    private static Object given(Class<?> type, int kind) throws Exception {
        long moment = kind == 1 ? 0 : kind == 2 ? Long.MIN_VALUE : Long.MAX_VALUE;
        switch (type.getSimpleName()) {
            case "String": return List.of("a", "\ud800", "1e999999999").get(kind - 1);
            case "Class": return List.of(String.class, int.class, String[].class).get(kind - 1);
            case "BigDecimal": return new BigDecimal(List.of("1", "1e999999999", "1e-999999999").get(kind - 1));
            case "byte[]": return new byte[kind];
            case "int[]": return new int[] {kind};
            case "String[]": return new String[] {kind == 1 ? "a" : null};
            case "Object[]": return new Object[] {kind == 1 ? 1 : null};
            case "Calendar": return Calendar.getInstance();
            case "Map": return Map.of("STRUCT(a BIGINT)", String.class);
            case "Properties": return properties();
            case "Date": return new Date(moment);
            case "Time": return new Time(moment);
            case "Timestamp": return new Timestamp(moment);
            case "InputStream": return (InputStream) new ByteArrayInputStream(new byte[] {1});
            case "Reader": return (Reader) new StringReader("a");
            case "SQLType": return (SQLType) JDBCType.values()[kind];
            case "Executor": return (Executor) Runnable::run;
            case "URL": return java.net.URI.create("http://localhost/").toURL();
            default: return null;
        }
    }

    private static Properties properties() {
        Properties made = new Properties();
        made.setProperty("a", "b");
        return made;
    }

    @Test
    void nothingIsUnwrappedAsWhatItIsNot() throws SQLException {
        try (Connection connection = Databases.memory()) {
            assertNotNull(connection.unwrap(HypostyleConnection.class));
            assertThrows(SQLException.class, () -> connection.unwrap(Statement.class));
            assertThrows(SQLException.class, () -> connection.unwrap(null));
        }
    }
}
