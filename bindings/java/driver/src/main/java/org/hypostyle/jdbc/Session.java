/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A session with a database: its handle, and the lock under which one thread at a time calls the library with it, its
 * statements and its results.
 */
final class Session {
    private static final long IMPATIENCE_MILLIS = 5;

    private final ReentrantLock lock = new ReentrantLock();
    /** Held for writing when the handle is freed, and for reading by interrupts. */
    private final ReentrantReadWriteLock guard = new ReentrantReadWriteLock();
    private final Handle handle;
    private volatile boolean isBroken;
    /** The session is about to be closed: no call begins. */
    private volatile boolean isAborted;

    /** Opens a session. It holds its database until it is closed. */
    Session(Database database) throws SQLException {
        this.handle = new Handle(this, database.connect(), connection -> {
            Native.disconnect(connection);
            database.release();
        });
    }

    /** What is done with the handle. */
    interface Call<T> {
        T run(long handle) throws SQLException;
    }

    /** Runs calls of the library, which the watch may end, also while another thread has the lock; it may be null. */
    <T> T call(Watch watch, Call<T> work) throws SQLException {
        take(watch);
        try {
            long connection = handle.get();
            if (connection == 0 || isAborted) {
                throw Errors.closed("connection");
            }
            if (watch == null) {
                return work.run(connection);
            }
            watch.enter();
            try {
                return work.run(connection);
            } finally {
                watch.leave();
            }
        } catch (SQLException error) {
            isBroken |= Errors.isFatal(error) && handle.get() != 0;
            throw watch == null ? error : watch.explain(error);
        } finally {
            lock.unlock();
        }
    }

    /** Takes the lock, before the watch's time is over. */
    private void take(Watch watch) throws SQLException {
        if (watch == null || !watch.hasTimeout()) {
            lock.lock();
            return;
        }
        try {
            while (!lock.tryLock(IMPATIENCE_MILLIS, TimeUnit.MILLISECONDS)) {
                if (watch.hasExpired()) {
                    throw Errors.busy();
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            lock.lock();
        }
    }

    /** What is done whether the session is open or not. */
    interface Work {
        void run();
    }

    /** Frees something of the session's, which may be closed. */
    void free(Work work) {
        lock.lock();
        try {
            work.run();
        } finally {
            lock.unlock();
        }
    }

    void interrupt() {
        guard.readLock().lock();
        try {
            long connection = handle.get();
            if (connection != 0) {
                Native.interrupt(connection);
            }
        } finally {
            guard.readLock().unlock();
        }
    }

    /** Marks the session as closed, and interrupts the call that runs. */
    void abort() {
        isAborted = true;
        interrupt();
    }

    /** Waits for the call that runs to end, 0 seconds for as long as it takes; tells whether it has ended. */
    boolean isFreeWithin(int seconds) {
        try {
            boolean isTaken = lock.tryLock(seconds == 0 ? Long.MAX_VALUE : seconds, TimeUnit.SECONDS);
            if (isTaken) {
                lock.unlock();
            }
            return isTaken;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /** Tells whether the calling thread is in a call. */
    boolean isHeld() {
        return lock.isHeldByCurrentThread();
    }

    /** Tells whether the session can be used. */
    boolean isUsable() {
        return !isClosed() && !isBroken;
    }

    boolean isClosed() {
        return isAborted || handle.get() == 0;
    }

    /** Ends the session. A statement that runs is interrupted. */
    void close() {
        seize();
        try {
            guard.writeLock().lock();
            try {
                handle.free();
            } finally {
                guard.writeLock().unlock();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Takes the lock, and interrupts who has it until it is free. */
    private void seize() {
        boolean wasInterrupted = Thread.interrupted();
        boolean isTaken = lock.tryLock();
        while (!isTaken) {
            interrupt();
            try {
                isTaken = lock.tryLock(IMPATIENCE_MILLIS, TimeUnit.MILLISECONDS);
            } catch (InterruptedException error) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
