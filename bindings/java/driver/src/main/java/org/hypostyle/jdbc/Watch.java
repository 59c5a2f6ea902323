/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Ends one execution of a statement when it is cancelled or has taken too long. An interrupt between two calls of the
 * library meets nothing, so that it is repeated until the execution is over; and it never meets another statement.
 */
final class Watch {
    private static final long AGAIN_MILLIS = 5;
    private static final ScheduledThreadPoolExecutor TIMER = timer();

    private final Session session;
    private final boolean hasTimeout;
    private ScheduledFuture<?> timer;
    private boolean isCalling;
    private boolean isOver;
    private boolean isTimeout;

    Watch(Session session, long timeoutMillis) {
        this.session = session;
        hasTimeout = timeoutMillis > 0;
        if (hasTimeout) {
            timer = TIMER.schedule(this::expire, timeoutMillis, TimeUnit.MILLISECONDS);
        }
    }

    /** Makes a timer whose thread ends when there is nothing to do, so that it keeps no class loader. */
    private static ScheduledThreadPoolExecutor timer() {
        ScheduledThreadPoolExecutor made = new ScheduledThreadPoolExecutor(1, work -> {
            Thread thread = new Thread(work, "hypostyle-timer");
            thread.setDaemon(true);
            thread.setContextClassLoader(null);
            return thread;
        });
        made.setKeepAliveTime(1, TimeUnit.SECONDS);
        made.allowCoreThreadTimeOut(true);
        made.setRemoveOnCancelPolicy(true);
        return made;
    }

    /** Interrupts the execution; any thread may call it. */
    synchronized void interrupt() {
        if (isOver) {
            return;
        }
        if (isCalling) {
            session.interrupt();
        }
        timer = TIMER.schedule(this::interrupt, AGAIN_MILLIS, TimeUnit.MILLISECONDS);
    }

    private synchronized void expire() {
        if (!isOver) {
            isTimeout = true;
            interrupt();
        }
    }

    /** Tells whether there is a time after which the execution has taken too long. */
    boolean hasTimeout() {
        return hasTimeout;
    }

    /** Tells whether the execution has taken too long. */
    synchronized boolean hasExpired() {
        return isTimeout;
    }

    /** Is called before a call of the library that may take long, and {@link #leave} after it. */
    synchronized void enter() {
        isCalling = true;
    }

    synchronized void leave() {
        isCalling = false;
    }

    /** Ends the watch. */
    synchronized void end() {
        isOver = true;
        if (timer != null) {
            timer.cancel(false);
        }
    }

    /** Returns the exception that a program gets for one of the library's. */
    synchronized SQLException explain(SQLException error) {
        boolean isTimeoutOfOurs = isTimeout && error.getErrorCode() == Errors.INTERRUPTED;
        return isTimeoutOfOurs ? Errors.timeout(error, "the statement has taken longer than its timeout") : error;
    }
}
