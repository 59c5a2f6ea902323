/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.util.Properties;
import java.util.logging.Logger;

/**
 * The driver for {@code jdbc:hypostyle:PATH}, {@code jdbc:hypostyle::memory:}, {@code jdbc:hypostyle://host:port/} and
 * {@code jdbc:hypostyle+unix:PATH}.
 */
public final class HypostyleDriver implements Driver {
    static final int MAJOR = 0;
    static final int MINOR = 1;
    static final String VERSION = MAJOR + "." + MINOR + ".0";

    private static final HypostyleDriver REGISTERED = new HypostyleDriver();

    static {
        try {
            DriverManager.registerDriver(REGISTERED);
        } catch (SQLException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    /** Makes a driver; {@link DriverManager} has one already. */
    public HypostyleDriver() {}

    /** Takes the driver from {@link DriverManager}, so that its class loader can go. */
    public static void deregister() throws SQLException {
        DriverManager.deregisterDriver(REGISTERED);
    }

    @Override
    public Connection connect(String url, Properties info) throws SQLException {
        if (!acceptsURL(url)) {
            return null;
        }
        Address address = Address.of(url, info);
        return Login.within(DriverManager.getLoginTimeout(), address, () -> HypostyleConnection.open(url, address));
    }

    @Override
    public boolean acceptsURL(String url) {
        return Address.isOurs(url);
    }

    @Override
    public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) throws SQLException {
        return Address.of(url, info).described();
    }

    @Override
    public int getMajorVersion() {
        return MAJOR;
    }

    @Override
    public int getMinorVersion() {
        return MINOR;
    }

    /** Returns false: of the SQL-92 entry level, GRANT and REVOKE of single privileges are not there. */
    @Override
    public boolean jdbcCompliant() {
        return false;
    }

    @Override
    public Logger getParentLogger() {
        return Logger.getLogger("org.hypostyle.jdbc");
    }
}
