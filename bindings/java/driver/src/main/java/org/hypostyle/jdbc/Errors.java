/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLClientInfoException;
import java.sql.SQLDataException;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.sql.SQLInvalidAuthorizationSpecException;
import java.sql.SQLNonTransientConnectionException;
import java.sql.SQLRecoverableException;
import java.sql.SQLSyntaxErrorException;
import java.sql.SQLTimeoutException;
import java.sql.SQLTransactionRollbackException;
import java.sql.SQLTransientConnectionException;
import java.sql.SQLTransientException;
import java.util.Map;

/** Makes exceptions of JDBC's classes. The vendor's code is the status of hypostyle.h. */
final class Errors {
    static final int INVALID_INPUT = 3;
    static final int BUSY = 11;
    static final int READ_ONLY = 12;
    static final int CONFLICT = 13;
    static final int INTERRUPTED = 14;
    static final int OUT_OF_MEMORY = 15;
    static final int UNSUPPORTED = 16;
    static final int CLOSED = 17;
    static final int DENIED = 19;
    static final int CONNECTION = 20;

    private Errors() {}

    /** Makes the exception for an error of the library. */
    static SQLException of(int status, String sqlState, String message, String detail, long position) {
        StringBuilder text = new StringBuilder(message);
        if (detail != null) {
            text.append("\nDetail: ").append(detail);
        }
        if (position > 0) {
            text.append("\nPosition: ").append(position);
        }
        return make(status, sqlState, text.toString());
    }

    private static SQLException make(int status, String state, String text) {
        switch (status) {
            case UNSUPPORTED:
                return new SQLFeatureNotSupportedException(text, state, status);
            case CONFLICT:
                return new SQLTransactionRollbackException(text, state, status);
            case BUSY:
            case OUT_OF_MEMORY:
                return new SQLTransientException(text, state, status);
            case DENIED:
                return state.startsWith("28") ? new SQLInvalidAuthorizationSpecException(text, state, status)
                        : new SQLSyntaxErrorException(text, state, status);
            case CONNECTION:
                return state.equals("08001") ? new SQLTransientConnectionException(text, state, status)
                        : new SQLNonTransientConnectionException(text, state, status);
            case CLOSED:
                return new SQLNonTransientConnectionException(text, state, status);
            default:
        }
        switch (state.substring(0, 2)) {
            case "08":
                return new SQLNonTransientConnectionException(text, state, status);
            case "22":
                return new SQLDataException(text, state, status);
            case "23":
                return new SQLIntegrityConstraintViolationException(text, state, status);
            case "28":
                return new SQLInvalidAuthorizationSpecException(text, state, status);
            case "40":
                return new SQLTransactionRollbackException(text, state, status);
            case "42":
                return new SQLSyntaxErrorException(text, state, status);
            default:
                return new SQLException(text, state, status);
        }
    }

    /** Makes an exception of the driver's own. */
    static SQLException refused(String sqlState, String message) {
        return make(INVALID_INPUT, sqlState, message);
    }

    static SQLException refused(String sqlState, String message, Throwable cause) {
        SQLException error = refused(sqlState, message);
        error.initCause(cause);
        return error;
    }

    static SQLException unsupported(String message) {
        return new SQLFeatureNotSupportedException(message, "0A000", UNSUPPORTED);
    }

    static SQLException closed(String what) {
        return new SQLNonTransientConnectionException("the " + what + " is closed", "08003", CLOSED);
    }

    /** Makes the exception for a closed thing that is none of a connection's, such as a result. */
    static SQLException ended(String what) {
        return new SQLException("the " + what + " is closed", "HY010", CLOSED);
    }

    /** Makes the exception for a result whose statement was cancelled while it waited to be read. */
    static SQLException cancelled() {
        return make(INTERRUPTED, "57014", "the statement was cancelled");
    }

    static SQLTimeoutException timeout(SQLException cause, String message) {
        return new SQLTimeoutException(message, cause.getSQLState(), INTERRUPTED, cause);
    }

    static SQLTimeoutException busy() {
        return new SQLTimeoutException("the connection was busy for longer than the statement's timeout", "57014",
                INTERRUPTED);
    }

    static SQLRecoverableException aborted(Throwable cause) {
        return new SQLRecoverableException("the network timeout has passed: the connection is closed", "08006",
                CONNECTION, cause);
    }

    static SQLClientInfoException clientInfo(SQLException cause) {
        return new SQLClientInfoException(cause.getMessage(), cause.getSQLState(), cause.getErrorCode(), Map.of(),
                cause);
    }

    /** Tells whether the session is lost after this error. */
    static boolean isFatal(SQLException error) {
        return error.getErrorCode() == CONNECTION || error.getErrorCode() == CLOSED;
    }
}
