/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.ParameterMetaData;
import java.sql.SQLException;

/** What the database expects of each parameter. One whose type nothing determines is told as VARCHAR. */
final class HypostyleParameterMetaData extends HypostyleWrapper implements ParameterMetaData {
    private final Parameter[] parameters;

    /** A parameter's type, its digits, and the type's name in SQL. */
    record Parameter(SqlType type, int precision, int scale, String typeName) {}

    HypostyleParameterMetaData(Parameter[] parameters) {
        this.parameters = parameters;
    }

    private Parameter parameter(int index) throws SQLException {
        if (index < 1 || index > parameters.length) {
            throw Errors.refused("07009", "the statement has " + parameters.length
                    + " parameters, and not the parameter " + index);
        }
        Parameter found = parameters[index - 1];
        return found.type == SqlType.NULL ? new Parameter(SqlType.VARCHAR, 0, 0, "VARCHAR") : found;
    }

    @Override
    public int getParameterCount() {
        return parameters.length;
    }

    @Override
    public int isNullable(int parameter) throws SQLException {
        parameter(parameter);
        return parameterNullableUnknown;
    }

    @Override
    public boolean isSigned(int parameter) throws SQLException {
        return parameter(parameter).type.isSigned();
    }

    @Override
    public int getPrecision(int parameter) throws SQLException {
        Parameter found = parameter(parameter);
        return found.type == SqlType.DECIMAL ? found.precision : found.type.precision;
    }

    @Override
    public int getScale(int parameter) throws SQLException {
        return parameter(parameter).scale;
    }

    @Override
    public int getParameterType(int parameter) throws SQLException {
        return parameter(parameter).type.jdbcType;
    }

    @Override
    public String getParameterTypeName(int parameter) throws SQLException {
        return parameter(parameter).typeName;
    }

    @Override
    public String getParameterClassName(int parameter) throws SQLException {
        return parameter(parameter).type.javaClass.getName();
    }

    @Override
    public int getParameterMode(int parameter) throws SQLException {
        parameter(parameter);
        return parameterModeIn;
    }
}
