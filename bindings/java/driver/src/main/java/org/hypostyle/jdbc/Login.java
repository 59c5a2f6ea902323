/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.sql.SQLTimeoutException;
import java.util.concurrent.TimeUnit;

/**
 * Opens a connection to a server within a time. A server that takes a connection and says nothing keeps who opens it:
 * that is a thread of its own, which closes the connection if nobody waits for it any more.
 */
final class Login {
    private final Opening opening;
    private HypostyleConnection opened;
    private Throwable failed;
    private boolean isAbandoned;

    private Login(Opening opening) {
        this.opening = opening;
    }

    interface Opening {
        HypostyleConnection open() throws SQLException;
    }

    /** Opens a connection within so many seconds; 0 for as long as it takes. */
    static HypostyleConnection within(int seconds, Address address, Opening opening) throws SQLException {
        if (seconds <= 0 || !address.isServer()) {
            return opening.open();
        }
        Login login = new Login(opening);
        Thread thread = new Thread(login::run, "hypostyle-login");
        thread.setDaemon(true);
        thread.setContextClassLoader(null);
        thread.start();
        return login.await(seconds);
    }

    private void run() {
        HypostyleConnection made = null;
        Throwable error = null;
        try {
            made = opening.open();
        } catch (SQLException | RuntimeException | Error thrown) {
            error = thrown;
        }
        synchronized (this) {
            opened = made;
            failed = error;
            notifyAll();
            if (!isAbandoned || made == null) {
                return;
            }
        }
        try {
            made.close();
        } catch (SQLException thrown) {
            // Nobody is there to be told.
        }
    }

    private synchronized HypostyleConnection await(int seconds) throws SQLException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        try {
            while (opened == null && failed == null) {
                long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                if (left <= 0) {
                    isAbandoned = true;
                    throw new SQLTimeoutException("the server has not answered within " + seconds + " s", "08001",
                            Errors.CONNECTION);
                }
                wait(left);
            }
        } catch (InterruptedException error) {
            isAbandoned = true;
            Thread.currentThread().interrupt();
            throw Errors.refused("08001", "the thread was interrupted while it connected", error);
        }
        if (failed instanceof SQLException error) {
            throw error;
        }
        if (failed != null) {
            throw Errors.refused("08001", "connecting has failed: " + failed, failed);
        }
        return opened;
    }
}
