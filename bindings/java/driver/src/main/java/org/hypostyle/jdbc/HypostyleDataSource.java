/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.PrintWriter;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Properties;
import java.util.logging.Logger;
import javax.sql.DataSource;

/**
 * Connections to one database. Those of one data source share a database in memory, which lives until the data source
 * is closed.
 */
public final class HypostyleDataSource extends HypostyleWrapper implements DataSource, AutoCloseable {
    private String url;
    private final Properties properties = new Properties();
    private int loginTimeout;
    private PrintWriter logWriter;
    /** What keeps a database in memory between two connections. */
    private Database kept;

    /** Makes a data source without a URL, which {@link #setUrl} sets. */
    public HypostyleDataSource() {}

    /** Makes a data source for a URL of the driver's. */
    public HypostyleDataSource(String url) {
        this.url = url;
    }

    public synchronized String getUrl() {
        return url;
    }

    public synchronized void setUrl(String url) {
        this.url = url;
    }

    public synchronized String getUser() {
        return properties.getProperty("user");
    }

    public synchronized void setUser(String user) {
        set("user", user);
    }

    public synchronized void setPassword(String password) {
        set("password", password);
    }

    /** Sets one of the driver's properties; null takes it away. */
    public synchronized void setProperty(String name, String value) {
        set(name, value);
    }

    private void set(String name, String value) {
        if (value == null) {
            properties.remove(name);
        } else {
            properties.setProperty(name, value);
        }
    }

    @Override
    public Connection getConnection() throws SQLException {
        return connect(null, null);
    }

    @Override
    public Connection getConnection(String user, String password) throws SQLException {
        return connect(user, password);
    }

    private Connection connect(String user, String password) throws SQLException {
        String where;
        Address address;
        Database database = null;
        int timeout;
        synchronized (this) {
            if (url == null) {
                throw Errors.refused("08001", "the data source has no URL");
            }
            Properties all = new Properties();
            all.putAll(properties);
            if (user != null) {
                all.setProperty("user", user);
            }
            if (password != null) {
                all.setProperty("password", password);
            }
            where = url;
            address = Address.of(where, all);
            timeout = loginTimeout;
            if (address.shared() == null) {
                kept = kept == null ? Database.acquire(address) : kept;
                database = kept.retain();
            }
        }
        // A server that does not answer keeps nobody else.
        return database != null ? HypostyleConnection.open(where, address, database)
                : Login.within(timeout, address, () -> HypostyleConnection.open(where, address));
    }

    /** Gives up a database in memory; connections that are open keep it until they are closed. */
    @Override
    public synchronized void close() {
        if (kept != null) {
            kept.release();
            kept = null;
        }
    }

    @Override
    public synchronized PrintWriter getLogWriter() {
        return logWriter;
    }

    @Override
    public synchronized void setLogWriter(PrintWriter out) {
        logWriter = out;
    }

    @Override
    public synchronized int getLoginTimeout() {
        return loginTimeout;
    }

    @Override
    public synchronized void setLoginTimeout(int seconds) {
        loginTimeout = seconds;
    }

    @Override
    public Logger getParentLogger() {
        return Logger.getLogger("org.hypostyle.jdbc");
    }
}
