/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** A column of a result or a part of one: its name, its SQL type, and how Arrow lays it out. */
final class Field {
    private static final int NULLABLE = 2;

    final String name;
    /** The format of the C data interface; of a dictionary's codes, if there is a dictionary. */
    final String format;
    final boolean isNullable;
    final List<Field> children;
    /** The values that codes stand for, or null. */
    final Field dictionary;
    final SqlType type;
    /** The digits of a DECIMAL. */
    final int precision;
    /** The digits behind a DECIMAL's point, or those of a second's fraction. */
    final int scale;
    /** The type in SQL, such as DECIMAL(9,2). */
    final String typeName;

    private Field(String name, String format, boolean isNullable, List<Field> children, Field dictionary, SqlType type,
            int precision, int scale, String typeName) {
        this.name = name;
        this.format = format;
        this.isNullable = isNullable;
        this.children = children;
        this.dictionary = dictionary;
        this.type = type;
        this.precision = precision;
        this.scale = scale;
        this.typeName = typeName;
    }

    /** Makes a column that no database has given, for rows in memory. */
    static Field inMemory(String name, SqlType type, String typeName) {
        return new Field(name, "", true, List.of(), null, type, type.precision, 0, typeName);
    }

    /** Returns the same field under another name. */
    Field named(String other) {
        return new Field(other, format, isNullable, children, dictionary, type, precision, scale, typeName);
    }

    /** Reads the columns of a result: nodes, and what the library says of each column. */
    static Field[] ofResult(byte[] described) {
        ByteBuffer from = ByteBuffer.wrap(described).order(ByteOrder.nativeOrder());
        Field[] columns = node(from).children.toArray(new Field[0]);
        for (int index = 0; index < columns.length; index++) {
            SqlType type = SqlType.of(from.getInt());
            int precision = from.getInt();
            int scale = from.getInt();
            boolean isNullable = from.getInt() != 0;
            Field raw = columns[index];
            columns[index] = new Field(raw.name, raw.format, isNullable, raw.children, raw.dictionary, type, precision,
                    scale, text(from));
        }
        return columns;
    }

    /** Reads the columns that a prepared statement's rows will have. */
    static Field[] ofStatement(byte[] described) {
        return node(ByteBuffer.wrap(described).order(ByteOrder.nativeOrder())).children.toArray(new Field[0]);
    }

    private static Field node(ByteBuffer from) {
        String format = text(from);
        String name = text(from);
        String extension = extension(from);
        int flags = from.getInt();
        int count = from.getInt();
        boolean hasDictionary = from.getInt() != 0;
        List<Field> children = new ArrayList<>(count);
        for (int index = 0; index < count; index++) {
            children.add(node(from));
        }
        Field dictionary = hasDictionary ? node(from) : null;
        return ofLayout(name, format, (flags & NULLABLE) != 0, children, dictionary, extension);
    }

    private static String text(ByteBuffer from) {
        byte[] bytes = new byte[from.getInt()];
        from.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** Reads metadata, and returns the name of the extension type in it, or nothing. */
    private static String extension(ByteBuffer from) {
        int end = from.getInt() + from.position();
        String found = "";
        for (int left = end > from.position() ? from.getInt() : 0; left > 0; left--) {
            String key = text(from);
            String value = text(from);
            if (key.equals("ARROW:extension:name")) {
                found = value;
            }
        }
        from.position(end);
        return found;
    }

    private static Field ofLayout(String name, String format, boolean isNullable, List<Field> children,
            Field dictionary, String extension) {
        if (dictionary != null) {
            return new Field(name, format, isNullable, children, dictionary, dictionary.type, dictionary.precision,
                    dictionary.scale, dictionary.typeName);
        }
        int precision = 0;
        int scale = 0;
        SqlType type = typeOf(format, extension);
        if (type == SqlType.DECIMAL) {
            String[] digits = format.substring(2).split(",");
            precision = Integer.parseInt(digits[0]);
            scale = Integer.parseInt(digits[1]);
        } else if (type == SqlType.TIMESTAMP || type == SqlType.TIMESTAMPTZ || type == SqlType.DURATION) {
            scale = 3 * "smun".indexOf(format.charAt(2));
        } else if (type == SqlType.TIME) {
            scale = 6;
        }
        return new Field(name, format, isNullable, children, null, type, precision, scale,
                typeName(type, format, precision, scale, children));
    }

    private static SqlType typeOf(String format, String extension) {
        if (extension.equals("arrow.json")) {
            return SqlType.JSON;
        }
        if (extension.equals("arrow.uuid")) {
            return SqlType.UUID;
        }
        switch (format.charAt(0)) {
            case 'b': return SqlType.BOOLEAN;
            case 'c': return SqlType.TINYINT;
            case 's': return SqlType.SMALLINT;
            case 'i': return SqlType.INTEGER;
            case 'l': return SqlType.BIGINT;
            case 'C': return SqlType.UTINYINT;
            case 'S': return SqlType.USMALLINT;
            case 'I': return SqlType.UINTEGER;
            case 'L': return SqlType.UBIGINT;
            case 'f': return SqlType.FLOAT;
            case 'g': return SqlType.DOUBLE;
            case 'd': return SqlType.DECIMAL;
            case 'z':
            case 'Z': return SqlType.BLOB;
            case 'w': return SqlType.FIXED_BINARY;
            case 'n': return SqlType.NULL;
            case 't': return temporalType(format);
            case '+': return nestedType(format);
            default: return format.equals("vz") ? SqlType.BLOB : SqlType.VARCHAR;
        }
    }

    private static SqlType temporalType(String format) {
        switch (format.charAt(1)) {
            case 'd': return SqlType.DATE;
            case 't': return SqlType.TIME;
            case 's': return format.length() > 4 ? SqlType.TIMESTAMPTZ : SqlType.TIMESTAMP;
            case 'D': return SqlType.DURATION;
            default: return SqlType.INTERVAL;
        }
    }

    private static SqlType nestedType(String format) {
        switch (format.charAt(1)) {
            case 's': return SqlType.STRUCT;
            case 'm': return SqlType.MAP;
            case 'w': return SqlType.ARRAY;
            default: return SqlType.LIST;
        }
    }

    private static String typeName(SqlType type, String format, int precision, int scale, List<Field> children) {
        switch (type) {
            case DECIMAL:
                return "DECIMAL(" + precision + "," + scale + ")";
            case TIMESTAMP:
                return scale == 6 ? "TIMESTAMP" : "TIMESTAMP_" + (scale == 0 ? "S" : scale == 3 ? "MS" : "NS");
            case TIMESTAMPTZ:
                return SqlType.TIMESTAMPTZ_NAME;
            case LIST:
                return children.get(0).typeName + "[]";
            case ARRAY:
                return children.get(0).typeName + "[" + format.substring(3) + "]";
            case STRUCT:
                return children.stream().map(child -> child.name + " " + child.typeName)
                        .collect(Collectors.joining(", ", "STRUCT(", ")"));
            case MAP: {
                List<Field> entry = children.get(0).children;
                return "MAP(" + entry.get(0).typeName + ", " + entry.get(1).typeName + ")";
            }
            default:
                return type.name();
        }
    }
}
