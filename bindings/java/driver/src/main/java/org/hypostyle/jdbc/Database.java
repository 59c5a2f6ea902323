/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;

/**
 * A database that is open in this process. Connections to one address with equal options share it; it is closed with
 * the last of them.
 */
final class Database {
    private static final Map<Address, Database> SHARED = new HashMap<>();

    /** The key in {@link #SHARED}; null for a database that is not shared. */
    private final Address key;
    private volatile long handle;
    private int users;

    private Database(Address key) {
        this.key = key;
    }

    /** Opens the database of an address, or finds it. Each call is paired with one of {@link #release}. */
    static Database acquire(Address address) throws SQLException {
        Library.load();
        if (address.shared() == null) {
            return new Database(null).retain().opened(address);
        }
        Address key = new Address(address.shared(), address.shared(), address.options());
        Database database;
        synchronized (SHARED) {
            database = SHARED.computeIfAbsent(key, Database::new).retain();
        }
        return database.opened(address);
    }

    /**
     * Opens the database for a user, unless another one has; users of other databases wait for nothing. If that fails,
     * the user is none.
     */
    private Database opened(Address address) throws SQLException {
        boolean isOpen = false;
        try {
            synchronized (this) {
                if (handle == 0) {
                    handle = open(address);
                }
            }
            isOpen = true;
            return this;
        } finally {
            if (!isOpen) {
                release();
            }
        }
    }

    private static long open(Address address) throws SQLException {
        // A database in the process has no users; frameworks give one to any driver.
        String user = address.isServer() ? address.options().get("user") : null;
        String password = address.isServer() ? address.options().get("password") : null;
        return Native.open(Native.utf8(address.target()), address.flag("read_only"),
                address.flag("allow_network_filesystem"), address.count("threads"), address.bytes("memory_limit"),
                Native.terminated(address.options().get("temp_directory")),
                Native.terminated(address.options().get("verify")), Native.terminated(user),
                Native.terminated(password));
    }

    /** Takes another user, for whom {@link #release} is called. */
    Database retain() {
        synchronized (SHARED) {
            users++;
            return this;
        }
    }

    /** Opens a session; returns its handle. */
    long connect() throws SQLException {
        return Native.connect(handle);
    }

    /** Closes the database after its last user. */
    void release() {
        synchronized (SHARED) {
            users--;
            if (users > 0) {
                return;
            }
            if (key != null) {
                SHARED.remove(key);
            }
        }
        synchronized (this) {
            if (handle != 0) {
                Native.close(handle);
                handle = 0;
            }
        }
    }
}
