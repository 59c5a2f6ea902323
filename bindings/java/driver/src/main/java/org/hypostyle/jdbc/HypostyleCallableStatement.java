/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A call of a function: <code>{? = call f(?, ?)}</code> or <code>{call f(?)}</code>. The function's value is the
 * out-parameter 1; the arguments come behind it. Any other text is a prepared statement without out-parameters.
 */
final class HypostyleCallableStatement extends NamedCallableStatement {
    private static final Pattern CALL = Pattern.compile("\\s*\\{\\s*(\\?\\s*=)?\\s*call\\s+(.*)\\}\\s*",
            Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

    /** What CALL runs; all other names are functions. */
    private static final Pattern PROCEDURE =
            Pattern.compile("(tpch|ssb)_generate\\b.*", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

    /** How many parameters stand before the arguments: 1 for the value. */
    private final int before;
    private boolean isRegistered;
    private ResultSet value;

    HypostyleCallableStatement(HypostyleConnection connection, String sql, int type, int concurrency, int holdability)
            throws SQLException {
        super(connection, select(sql), type, concurrency, holdability);
        Matcher call = CALL.matcher(sql);
        before = call.matches() && call.group(1) != null ? 1 : 0;
    }

    private static String select(String sql) throws SQLException {
        if (sql == null) {
            throw Errors.refused("HY009", "the statement's text is null");
        }
        Matcher call = CALL.matcher(sql);
        if (!call.matches()) {
            return sql;
        }
        String function = call.group(2).strip();
        boolean isProcedure = call.group(1) == null && PROCEDURE.matcher(function).matches();
        return (isProcedure ? "CALL " : "SELECT ") + function + (function.endsWith(")") ? "" : "()");
    }

    @Override
    void set(int parameter, Value given) throws SQLException {
        if (parameter <= before) {
            throw Errors.refused("07009", "the parameter 1 is the value of the function");
        }
        super.set(parameter - before, given);
    }

    @Override
    int position(String name) throws SQLException {
        return namedPosition(name) + before;
    }

    @Override
    int outPosition(String name) {
        return 1;
    }

    @Override
    public void registerOutParameter(int parameter, int jdbcType) throws SQLException {
        check();
        if (parameter != 1 || before == 0) {
            throw Errors.refused("07009", "the only out-parameter is the value of {? = call …}, the parameter 1");
        }
        isRegistered = true;
    }

    @Override
    ResultSet out(int parameter) throws SQLException {
        check();
        if (parameter != 1 || !isRegistered || value == null) {
            throw Errors.refused("07009", "the parameter " + parameter
                    + " is no out-parameter that is registered and that a call has given a value");
        }
        return value;
    }

    @Override
    public boolean execute() throws SQLException {
        boolean hasRows = super.execute();
        if (before == 0) {
            return hasRows;
        }
        value = getResultSet();
        if (!value.next()) {
            throw Errors.refused("02000", "the function gives no value");
        }
        return false;
    }

    @Override
    public long executeLargeUpdate() throws SQLException {
        if (before == 0) {
            return super.executeLargeUpdate();
        }
        execute();
        return 0;
    }

    @Override
    public boolean wasNull() throws SQLException {
        return out(1).wasNull();
    }
}
