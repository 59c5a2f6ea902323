/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Blob;
import java.sql.CallableStatement;
import java.sql.Clob;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.NClob;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLClientInfoException;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.SQLXML;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Struct;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.Executor;

/** A session with a database. Threads that share it run one statement after the other. */
public final class HypostyleConnection extends HypostyleWrapper implements Connection {
    private static final Set<String> CLIENT_INFO = Set.of("ApplicationName", "ClientUser", "ClientHostname");
    /** What PostgreSQL calls its levels, which are those of SQL. */
    private static final Map<Integer, String> LEVELS = Map.of(TRANSACTION_READ_UNCOMMITTED, "READ UNCOMMITTED",
            TRANSACTION_READ_COMMITTED, "READ COMMITTED", TRANSACTION_REPEATABLE_READ, "REPEATABLE READ",
            TRANSACTION_SERIALIZABLE, "SERIALIZABLE");
    private static final byte[] BEGIN_READ_ONLY = "BEGIN READ ONLY".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] BEGIN = "BEGIN".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] SET_READ_ONLY = "SET TRANSACTION READ ONLY".getBytes(StandardCharsets.US_ASCII);

    private final String url;
    private final Address address;
    private final Session session;
    private final Catalog catalog = new Catalog(this);
    /** Those that are open; one that nobody has any more is not kept. */
    private final Set<HypostyleStatement> statements =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
    private final Properties clientInfo = new Properties();
    private Map<String, Class<?>> typeMap = new HashMap<>();
    private volatile boolean isAutoCommit = true;
    private volatile boolean isReadOnly;
    private volatile int holdability = ResultSet.HOLD_CURSORS_OVER_COMMIT;
    private volatile int networkTimeout;
    private int isolation = TRANSACTION_REPEATABLE_READ;
    private int savepoints;
    private SQLWarning warnings;

    private HypostyleConnection(String url, Address address, Database database) throws SQLException {
        this.url = url;
        this.address = address;
        this.session = new Session(database);
    }

    static HypostyleConnection open(String url, Address address) throws SQLException {
        return open(url, address, Database.acquire(address));
    }

    /** Opens a session with a database that the caller has acquired, and which belongs to the session. */
    static HypostyleConnection open(String url, Address address, Database database) throws SQLException {
        HypostyleConnection connection;
        try {
            connection = new HypostyleConnection(url, address, database);
        } catch (SQLException error) {
            database.release();
            throw error;
        }
        String schema = address.options().get("schema");
        if (schema != null) {
            try {
                connection.setSchema(schema);
            } catch (SQLException error) {
                connection.close();
                throw error;
            }
        }
        return connection;
    }

    Session session() {
        return session;
    }

    Catalog catalog() {
        return catalog;
    }

    String url() {
        return url;
    }

    Address address() {
        return address;
    }

    long networkTimeout() {
        return networkTimeout;
    }

    void statementClosed(HypostyleStatement statement) {
        statements.remove(statement);
    }

    private void check() throws SQLException {
        if (session.isClosed()) {
            throw Errors.closed("connection");
        }
    }

    /** Tells whether it matters what kind of statement is run. */
    boolean needsKind() {
        return isReadOnly;
    }

    /** Returns the kind of a statement. */
    int kind(byte[] sql) throws SQLException {
        return session.call(null, handle -> {
            long prepared = Native.prepare(handle, sql);
            int kind = Native.kind(prepared);
            Native.freeStatement(prepared);
            return kind;
        });
    }

    /** Work with the session, under its lock. */
    interface Work<T> {
        T run() throws SQLException;
    }

    private static void command(long handle, byte[] sql) throws SQLException {
        Native.freeResult(Native.execute(handle, sql));
    }

    /** Runs a statement: in a transaction that can only read, if the connection is read only. */
    <T> T within(long handle, int kind, Work<T> work) throws SQLException {
        boolean isOpen = Native.transactionState(handle) != 0;
        if (!isReadOnly || kind == SqlText.KIND_TRANSACTION || isOpen) {
            return work.run();
        }
        if (!isAutoCommit) {
            command(handle, SET_READ_ONLY);
            return work.run();
        }
        return inTransaction(handle, BEGIN_READ_ONLY, work);
    }

    /** Runs several statements so that all of them take effect or none; without auto-commit the transaction sees to it. */
    <T> T atomically(long handle, Work<T> work) throws SQLException {
        boolean isOpen = !isAutoCommit || Native.transactionState(handle) != 0;
        return isOpen ? work.run() : inTransaction(handle, isReadOnly ? BEGIN_READ_ONLY : BEGIN, work);
    }

    private static <T> T inTransaction(long handle, byte[] begin, Work<T> work) throws SQLException {
        command(handle, begin);
        boolean isDone = false;
        try {
            T result = work.run();
            Native.commit(handle);
            isDone = true;
            return result;
        } finally {
            if (!isDone && Native.transactionState(handle) != 0) {
                Native.rollback(handle);
            }
        }
    }

    /** Runs a SET of the driver's own for the session: a transaction that begins with it ends with it. */
    private void set(String sql) throws SQLException {
        byte[] text = Native.utf8(sql);
        session.call(null, handle -> {
            boolean isIdle = Native.transactionState(handle) == 0;
            command(handle, text);
            if (isIdle && Native.transactionState(handle) != 0) {
                Native.commit(handle);
            }
            return null;
        });
    }

    /** Runs a statement of the driver's own. */
    private void command(String sql) throws SQLException {
        byte[] text = Native.utf8(sql);
        session.call(null, handle -> {
            command(handle, text);
            return null;
        });
    }

    /** Asks something by a statement of the driver's own; a transaction that begins with it ends with it. */
    private static <T> T aside(HypostyleStatement statement, Work<T> work) throws SQLException {
        return statement.watched(handle -> {
            boolean isIdle = Native.transactionState(handle) == 0;
            try {
                return work.run();
            } finally {
                if (isIdle && Native.transactionState(handle) != 0) {
                    Native.rollback(handle);
                }
            }
        });
    }

    private HypostyleStatement ownStatement() throws SQLException {
        return (HypostyleStatement) createStatement();
    }

    private String ask(String sql) throws SQLException {
        try (HypostyleStatement statement = ownStatement()) {
            return aside(statement, () -> {
                ResultSet rows = statement.executeQuery(sql);
                return rows.next() ? rows.getString(1) : null;
            });
        }
    }

    @Override
    public Statement createStatement() throws SQLException {
        return createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY);
    }

    @Override
    public Statement createStatement(int type, int concurrency) throws SQLException {
        return createStatement(type, concurrency, holdability);
    }

    @Override
    public Statement createStatement(int type, int concurrency, int resultHoldability) throws SQLException {
        check();
        checkResult(type, concurrency, resultHoldability);
        return opened(new HypostyleStatement(this, scrollType(type), concurrency, resultHoldability));
    }

    private <T extends HypostyleStatement> T opened(T statement) {
        statements.add(statement);
        return statement;
    }

    private static void checkResult(int type, int concurrency, int holdability) throws SQLException {
        if (type < ResultSet.TYPE_FORWARD_ONLY || type > ResultSet.TYPE_SCROLL_SENSITIVE) {
            throw Errors.refused("HY024", "there is no result of the type " + type);
        }
        if (concurrency != ResultSet.CONCUR_READ_ONLY && concurrency != ResultSet.CONCUR_UPDATABLE) {
            throw Errors.refused("HY024", "there is no result of the concurrency " + concurrency);
        }
        checkHoldability(holdability);
    }

    private static void checkHoldability(int holdability) throws SQLException {
        if (holdability != ResultSet.HOLD_CURSORS_OVER_COMMIT && holdability != ResultSet.CLOSE_CURSORS_AT_COMMIT) {
            throw Errors.refused("HY024", "there is no holdability " + holdability);
        }
    }

    /** Returns the type that a result gets: one that sees the changes of others is insensitive, as JDBC allows. */
    private int scrollType(int type) {
        if (type != ResultSet.TYPE_SCROLL_SENSITIVE) {
            return type;
        }
        warnings = new SQLWarning("results are of a snapshot: TYPE_SCROLL_SENSITIVE is TYPE_SCROLL_INSENSITIVE", "01S02");
        return ResultSet.TYPE_SCROLL_INSENSITIVE;
    }

    @Override
    public PreparedStatement prepareStatement(String sql) throws SQLException {
        return prepareStatement(sql, ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY);
    }

    @Override
    public PreparedStatement prepareStatement(String sql, int type, int concurrency) throws SQLException {
        return prepareStatement(sql, type, concurrency, holdability);
    }

    @Override
    public PreparedStatement prepareStatement(String sql, int type, int concurrency, int resultHoldability)
            throws SQLException {
        check();
        checkResult(type, concurrency, resultHoldability);
        return opened(new HypostylePreparedStatement(this, sql, scrollType(type), concurrency, resultHoldability, null));
    }

    @Override
    public PreparedStatement prepareStatement(String sql, int autoGeneratedKeys) throws SQLException {
        return prepareStatement(sql, autoGeneratedKeys == Statement.RETURN_GENERATED_KEYS ? new String[0] : null);
    }

    @Override
    public PreparedStatement prepareStatement(String sql, int[] columnIndexes) throws SQLException {
        return prepareStatement(sql, catalog.columns(sql, columnIndexes));
    }

    @Override
    public PreparedStatement prepareStatement(String sql, String[] columnNames) throws SQLException {
        check();
        return opened(new HypostylePreparedStatement(this, sql, ResultSet.TYPE_FORWARD_ONLY,
                ResultSet.CONCUR_READ_ONLY, holdability, columnNames));
    }

    @Override
    public CallableStatement prepareCall(String sql) throws SQLException {
        return prepareCall(sql, ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY);
    }

    @Override
    public CallableStatement prepareCall(String sql, int type, int concurrency) throws SQLException {
        return prepareCall(sql, type, concurrency, holdability);
    }

    @Override
    public CallableStatement prepareCall(String sql, int type, int concurrency, int resultHoldability)
            throws SQLException {
        check();
        checkResult(type, concurrency, resultHoldability);
        return opened(new HypostyleCallableStatement(this, sql, scrollType(type), concurrency, resultHoldability));
    }

    /** Begins to append rows to a table, {@code table} or {@code schema.table}. */
    public Appender createAppender(String table) throws SQLException {
        check();
        return new Appender(session, table);
    }

    /**
     * Appends the rows of an ArrowArrayStream of the C stream interface, which is moved, to a table; all rows or none.
     * Columns are matched by name, and missing ones get their default. Returns the number of rows.
     *
     * @param address where the struct is
     * @param create whether the table is made if there is none
     */
    public long appendStream(String table, long address, boolean create) throws SQLException {
        byte[] name = Native.utf8(table);
        return session.call(null, handle -> Native.append(handle, name, address, create ? 3 : 2));
    }

    @Override
    public String nativeSQL(String sql) throws SQLException {
        check();
        return Escapes.translate(sql);
    }

    @Override
    public void setAutoCommit(boolean autoCommit) throws SQLException {
        boolean ends = autoCommit && !isAutoCommit;
        session.call(null, handle -> {
            if (autoCommit != isAutoCommit) {
                Native.setAutoCommit(handle, autoCommit);
                isAutoCommit = autoCommit;
            }
            return null;
        });
        if (ends) {
            transactionEnded();
        }
    }

    @Override
    public boolean getAutoCommit() throws SQLException {
        check();
        return isAutoCommit;
    }

    private void refuseAutoCommit() throws SQLException {
        check();
        if (isAutoCommit) {
            throw Errors.refused("25P01", "auto-commit is on: there is no transaction to end");
        }
    }

    private interface End {
        void of(long handle) throws SQLException;
    }

    private void end(End end) throws SQLException {
        refuseAutoCommit();
        session.call(null, handle -> {
            if (Native.transactionState(handle) != 0) {
                end.of(handle);
            }
            return null;
        });
        transactionEnded();
    }

    private void transactionEnded() throws SQLException {
        for (HypostyleStatement statement : open()) {
            statement.transactionEnded();
        }
    }

    @Override
    public void commit() throws SQLException {
        end(Native::commit);
    }

    @Override
    public void rollback() throws SQLException {
        end(Native::rollback);
    }

    @Override
    public Savepoint setSavepoint() throws SQLException {
        return savepoint(null);
    }

    @Override
    public Savepoint setSavepoint(String name) throws SQLException {
        if (name == null) {
            throw Errors.refused("HY009", "the savepoint's name is null");
        }
        return savepoint(name);
    }

    private Savepoint savepoint(String name) throws SQLException {
        refuseAutoCommit();
        HypostyleSavepoint made = new HypostyleSavepoint(this, ++savepoints, name);
        command("SAVEPOINT " + made.sqlName());
        return made;
    }

    private String ours(Savepoint savepoint) throws SQLException {
        refuseAutoCommit();
        if (!(savepoint instanceof HypostyleSavepoint ours) || !ours.isOf(this)) {
            throw Errors.refused("3B001", "the savepoint is none of this connection");
        }
        return ours.sqlName();
    }

    @Override
    public void rollback(Savepoint savepoint) throws SQLException {
        command("ROLLBACK TO SAVEPOINT " + ours(savepoint));
    }

    @Override
    public void releaseSavepoint(Savepoint savepoint) throws SQLException {
        command("RELEASE SAVEPOINT " + ours(savepoint));
    }

    private List<HypostyleStatement> open() {
        synchronized (statements) {
            return new ArrayList<>(statements);
        }
    }

    /** Closes the connection and what it has opened; a transaction that is open is rolled back. */
    @Override
    public void close() throws SQLException {
        session.close();
        for (HypostyleStatement statement : open()) {
            statement.close();
        }
    }

    @Override
    public boolean isClosed() {
        return session.isClosed();
    }

    @Override
    public boolean isValid(int timeout) throws SQLException {
        if (timeout < 0) {
            throw Errors.refused("HY024", "a timeout cannot be " + timeout);
        }
        if (!session.isUsable() || !session.isFreeWithin(timeout)) {
            return false;
        }
        try (HypostyleStatement statement = ownStatement()) {
            statement.setQueryTimeout(timeout);
            return aside(statement, () -> {
                statement.execute("SELECT 1");
                return true;
            });
        } catch (SQLException error) {
            // In a transaction that has failed the session answers nothing else, but it is there.
            return session.isUsable() && error.getSQLState().equals("25P02");
        }
    }

    @Override
    public void abort(Executor executor) throws SQLException {
        if (executor == null) {
            throw Errors.refused("HY009", "the executor is null");
        }
        session.abort();
        executor.execute(() -> {
            try {
                close();
            } catch (SQLException error) {
                throw new IllegalStateException(error);
            }
        });
    }

    @Override
    public void setNetworkTimeout(Executor executor, int milliseconds) throws SQLException {
        check();
        if (milliseconds < 0) {
            throw Errors.refused("HY024", "a timeout cannot be " + milliseconds);
        }
        networkTimeout = milliseconds;
    }

    @Override
    public int getNetworkTimeout() throws SQLException {
        check();
        return networkTimeout;
    }

    @Override
    public void setReadOnly(boolean readOnly) throws SQLException {
        session.call(null, handle -> {
            if (readOnly != isReadOnly && Native.transactionState(handle) != 0) {
                throw Errors.refused("25001", "a transaction is open: it stays as it began");
            }
            isReadOnly = readOnly;
            return null;
        });
    }

    @Override
    public boolean isReadOnly() throws SQLException {
        check();
        return isReadOnly || address.flag("read_only");
    }

    /** Asks for a level. Transactions have snapshot isolation, which is stronger than all but SERIALIZABLE. */
    @Override
    public void setTransactionIsolation(int level) throws SQLException {
        check();
        if (address.isPostgres()) {
            String name = LEVELS.get(level);
            if (name == null) {
                throw Errors.refused("HY024", "there is no isolation level " + level);
            }
            set("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL " + name);
            return;
        }
        switch (level) {
            case TRANSACTION_READ_UNCOMMITTED:
            case TRANSACTION_READ_COMMITTED:
            case TRANSACTION_REPEATABLE_READ:
                isolation = level;
                return;
            case TRANSACTION_SERIALIZABLE:
                throw Errors.unsupported("transactions are not serializable: they have snapshot isolation");
            default:
                throw Errors.refused("HY024", "there is no isolation level " + level);
        }
    }

    @Override
    public int getTransactionIsolation() throws SQLException {
        check();
        if (address.isPostgres()) {
            String name = ask("SELECT upper(current_setting('default_transaction_isolation'))");
            return LEVELS.entrySet().stream().filter(level -> level.getValue().equals(name)).map(Map.Entry::getKey)
                    .findFirst().orElse(TRANSACTION_READ_COMMITTED);
        }
        return isolation;
    }

    @Override
    public void setHoldability(int wanted) throws SQLException {
        check();
        checkHoldability(wanted);
        holdability = wanted;
    }

    @Override
    public int getHoldability() throws SQLException {
        check();
        return holdability;
    }

    @Override
    public void setSchema(String schema) throws SQLException {
        if (schema == null) {
            throw Errors.refused("HY009", "the schema's name is null");
        }
        if (!address.isPostgres()) {
            command("SET schema = " + Texts.literal(schema));
            return;
        }
        // The server takes the name of one that it has not, and finds nothing then.
        if (ask("SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = " + Texts.literal(schema)) == null) {
            throw Errors.refused("3F000", "there is no schema \"" + schema + "\"");
        }
        set("SET search_path TO " + Texts.identifier(schema));
    }

    @Override
    public String getSchema() throws SQLException {
        return ask("SELECT current_schema()");
    }

    @Override
    public void setCatalog(String catalogName) throws SQLException {
        check();
        if (catalogName != null && !catalogName.equals(getCatalog())) {
            if (address.isPostgres()) {
                throw Errors.unsupported("a session of PostgreSQL stays in its database");
            }
            command("USE " + Texts.identifier(catalogName));
        }
    }

    @Override
    public String getCatalog() throws SQLException {
        return ask("SELECT current_database()");
    }

    @Override
    public DatabaseMetaData getMetaData() throws SQLException {
        check();
        return new HypostyleDatabaseMetaData(this);
    }

    @Override
    public SQLWarning getWarnings() throws SQLException {
        check();
        return warnings;
    }

    @Override
    public void clearWarnings() throws SQLException {
        check();
        warnings = null;
    }

    @Override
    public Map<String, Class<?>> getTypeMap() throws SQLException {
        check();
        return typeMap;
    }

    @Override
    public void setTypeMap(Map<String, Class<?>> map) throws SQLException {
        check();
        typeMap = map == null ? new HashMap<>() : map;
    }

    @Override
    public void setClientInfo(String name, String value) throws SQLClientInfoException {
        try {
            check();
        } catch (SQLException error) {
            throw Errors.clientInfo(error);
        }
        if (name == null || !CLIENT_INFO.contains(name)) {
            SQLWarning unknown = new SQLWarning("there is no client info \"" + name + "\"", "01S00");
            if (warnings == null) {
                warnings = unknown;
            } else {
                warnings.setNextWarning(unknown);
            }
        } else if (value == null) {
            clientInfo.remove(name);
        } else {
            clientInfo.setProperty(name, value);
        }
    }

    @Override
    public void setClientInfo(Properties properties) throws SQLClientInfoException {
        try {
            check();
            if (properties == null) {
                throw Errors.refused("HY009", "the properties are null");
            }
        } catch (SQLException error) {
            throw Errors.clientInfo(error);
        }
        clientInfo.clear();
        for (String name : properties.stringPropertyNames()) {
            setClientInfo(name, properties.getProperty(name));
        }
    }

    @Override
    public String getClientInfo(String name) throws SQLException {
        check();
        return name == null ? null : clientInfo.getProperty(name);
    }

    @Override
    public Properties getClientInfo() throws SQLException {
        check();
        Properties copied = new Properties();
        copied.putAll(clientInfo);
        return copied;
    }

    @Override
    public Array createArrayOf(String typeName, Object[] elements) throws SQLException {
        check();
        return HypostyleArray.of(typeName, elements);
    }

    @Override
    public Struct createStruct(String typeName, Object[] attributes) throws SQLException {
        check();
        return HypostyleStruct.of(typeName, attributes);
    }

    @Override
    public Blob createBlob() throws SQLException {
        check();
        return new HypostyleBlob(new byte[0]);
    }

    @Override
    public Clob createClob() throws SQLException {
        check();
        return new HypostyleClob("");
    }

    @Override
    public NClob createNClob() throws SQLException {
        check();
        return new HypostyleClob("");
    }

    @Override
    public SQLXML createSQLXML() throws SQLException {
        check();
        return new HypostyleSqlXml(null);
    }
}
