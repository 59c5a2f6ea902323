/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.sql.Types;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Map;
import java.util.UUID;

/** The types of values and columns, with the numbers of hypostyle.h in their order. */
enum SqlType {
    NULL(Types.NULL, Object.class, 1, 0),
    BOOLEAN(Types.BOOLEAN, Boolean.class, 5, 1),
    TINYINT(Types.TINYINT, Integer.class, 4, 3),
    SMALLINT(Types.SMALLINT, Integer.class, 6, 5),
    INTEGER(Types.INTEGER, Integer.class, 11, 10),
    BIGINT(Types.BIGINT, Long.class, 20, 19),
    UTINYINT(Types.SMALLINT, Integer.class, 3, 3),
    USMALLINT(Types.INTEGER, Integer.class, 5, 5),
    UINTEGER(Types.BIGINT, Long.class, 10, 10),
    UBIGINT(Types.DECIMAL, BigDecimal.class, 20, 20),
    FLOAT(Types.REAL, Float.class, 15, 8),
    DOUBLE(Types.DOUBLE, Double.class, 25, 17),
    DECIMAL(Types.DECIMAL, BigDecimal.class, 78, 76),
    DATE(Types.DATE, java.sql.Date.class, 13, 13),
    TIME(Types.TIME, java.sql.Time.class, 15, 15),
    TIMESTAMP(Types.TIMESTAMP, java.sql.Timestamp.class, 32, 32),
    TIMESTAMPTZ(Types.TIMESTAMP_WITH_TIMEZONE, OffsetDateTime.class, 35, 35),
    INTERVAL(Types.OTHER, Interval.class, 64, 64),
    DURATION(Types.OTHER, Duration.class, 64, 64),
    VARCHAR(Types.VARCHAR, String.class, Integer.MAX_VALUE, Integer.MAX_VALUE),
    JSON(Types.VARCHAR, String.class, Integer.MAX_VALUE, Integer.MAX_VALUE),
    BLOB(Types.VARBINARY, byte[].class, Integer.MAX_VALUE, Integer.MAX_VALUE),
    UUID(Types.OTHER, UUID.class, 36, 36),
    FIXED_BINARY(Types.BINARY, byte[].class, Integer.MAX_VALUE, Integer.MAX_VALUE),
    LIST(Types.ARRAY, java.sql.Array.class, Integer.MAX_VALUE, Integer.MAX_VALUE),
    ARRAY(Types.ARRAY, java.sql.Array.class, Integer.MAX_VALUE, Integer.MAX_VALUE),
    STRUCT(Types.STRUCT, java.sql.Struct.class, Integer.MAX_VALUE, Integer.MAX_VALUE),
    MAP(Types.JAVA_OBJECT, Map.class, Integer.MAX_VALUE, Integer.MAX_VALUE);

    /** How the database calls a TIMESTAMPTZ. */
    static final String TIMESTAMPTZ_NAME = "TIMESTAMP WITH TIME ZONE";

    private static final SqlType[] ALL = values();

    /** The type in {@link java.sql.Types}. */
    final int jdbcType;
    /** The class of what {@code getObject} gives. */
    final Class<?> javaClass;
    /** The most characters of a value's text. */
    final int displaySize;
    /** The most digits or characters, but for DECIMAL, whose columns have their own. */
    final int precision;

    SqlType(int jdbcType, Class<?> javaClass, int displaySize, int precision) {
        this.jdbcType = jdbcType;
        this.javaClass = javaClass;
        this.displaySize = displaySize;
        this.precision = precision;
    }

    /** Returns the type with a number of hypostyle.h; one that a later library has is text. */
    static SqlType of(int number) {
        return number >= 0 && number < ALL.length ? ALL[number] : VARCHAR;
    }

    /** Returns the type that a column type's SQL name stands for, such as DECIMAL(9,2) or INTEGER[]. */
    static SqlType named(String name) {
        if (name.endsWith("[]")) {
            return LIST;
        }
        if (name.endsWith("]")) {
            return ARRAY;
        }
        int paren = name.indexOf('(');
        String word = paren < 0 ? name : name.substring(0, paren);
        if (word.equals(TIMESTAMPTZ_NAME)) {
            return TIMESTAMPTZ;
        }
        if (word.startsWith("TIMESTAMP")) {
            return TIMESTAMP;
        }
        for (SqlType type : ALL) {
            if (type.name().equals(word)) {
                return type;
            }
        }
        return VARCHAR;
    }

    /** Returns the type that has a name of the SQL standard's or of PostgreSQL's, in any case. */
    static SqlType portable(String name) {
        String upper = name.toUpperCase(java.util.Locale.ROOT);
        switch (upper) {
            case "BOOL": return BOOLEAN;
            case "INT":
            case "INT4": return INTEGER;
            case "INT2": return SMALLINT;
            case "INT8": return BIGINT;
            case "REAL":
            case "FLOAT4": return FLOAT;
            case "DOUBLE PRECISION":
            case "FLOAT8": return DOUBLE;
            case "NUMERIC": return DECIMAL;
            case "BYTEA": return BLOB;
            case "ARRAY": return LIST;
            case "TIMESTAMP WITHOUT TIME ZONE": return TIMESTAMP;
            case "TIMESTAMPTZ": return TIMESTAMPTZ;
            default: return named(upper);
        }
    }

    /** Returns our name of a type as PostgreSQL writes it, such as DECIMAL(9,2); types that we have not are text. */
    static String nameOfPostgres(String name) {
        if (name.endsWith("[]")) {
            return nameOfPostgres(name.substring(0, name.length() - 2)) + "[]";
        }
        int paren = name.indexOf('(');
        String word = paren < 0 ? name : name.substring(0, paren);
        if (word.startsWith("timestamp")) {
            return name.endsWith(" with time zone") ? TIMESTAMPTZ_NAME : "TIMESTAMP";
        }
        if (word.startsWith("interval")) {
            return "INTERVAL";
        }
        switch (word) {
            case "boolean":
            case "smallint":
            case "integer":
            case "bigint":
            case "date":
            case "uuid":
            case "json": return word.toUpperCase(java.util.Locale.ROOT);
            case "time":
            case "time without time zone": return name.endsWith(" with time zone") ? "VARCHAR" : "TIME";
            case "oid": return "UINTEGER";
            case "real": return "FLOAT";
            case "double precision": return "DOUBLE";
            case "numeric": return paren < 0 ? "VARCHAR" : "DECIMAL" + name.substring(paren);
            case "bytea": return "BLOB";
            case "jsonb": return "JSON";
            default: return "VARCHAR";
        }
    }

    boolean isSigned() {
        return ordinal() >= TINYINT.ordinal() && ordinal() <= BIGINT.ordinal() || this == FLOAT || this == DOUBLE
                || this == DECIMAL || this == INTERVAL || this == DURATION;
    }

    boolean isNested() {
        return ordinal() >= LIST.ordinal();
    }
}
