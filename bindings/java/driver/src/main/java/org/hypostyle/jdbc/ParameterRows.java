/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Rows of parameters as columns of Arrow, which are bound at once. A column has values of one type and NULLs. */
final class ParameterRows {
    private static final int DIGITS = 38;
    private static final byte[] UUID_METADATA = metadata("ARROW:extension:name", "arrow.uuid",
            "ARROW:extension:metadata", "");

    private final List<byte[]> formats = new ArrayList<>();
    private final List<byte[]> names = new ArrayList<>();
    private final List<byte[]> metadata = new ArrayList<>();
    private final List<Integer> children = new ArrayList<>();
    private final List<Long> lengths = new ArrayList<>();
    private final List<Long> nullCounts = new ArrayList<>();
    private final List<byte[][]> buffers = new ArrayList<>();

    private ParameterRows() {}

    /** Binds rows; returns false, and binds nothing, if a column has values of several types. */
    static boolean bind(long statement, List<Value[]> rows) throws SQLException {
        int width = rows.get(0).length;
        ParameterRows built = new ParameterRows();
        built.node("+s", "", null, width, rows.size(), 0, new byte[][] {null});
        for (int column = 0; column < width; column++) {
            Value[] values = new Value[rows.size()];
            for (int row = 0; row < values.length; row++) {
                values[row] = rows.get(row)[column];
            }
            if (!built.column(Integer.toString(column + 1), values)) {
                return false;
            }
        }
        Native.bindRows(statement, built.formats.toArray(new byte[0][]), built.names.toArray(new byte[0][]),
                built.metadata.toArray(new byte[0][]), built.children.stream().mapToInt(Integer::intValue).toArray(),
                built.lengths.stream().mapToLong(Long::longValue).toArray(),
                built.nullCounts.stream().mapToLong(Long::longValue).toArray(),
                built.buffers.toArray(new byte[0][][]));
        return true;
    }

    private void node(String format, String name, byte[] extension, int childCount, long length, long nullCount,
            byte[][] data) {
        formats.add(format.getBytes(StandardCharsets.UTF_8));
        names.add(name.getBytes(StandardCharsets.UTF_8));
        metadata.add(extension);
        children.add(childCount);
        lengths.add(length);
        nullCounts.add(nullCount);
        buffers.add(data);
    }

    private static byte[] metadata(String... pairs) {
        ByteBuffer bytes = ByteBuffer.allocate(256).order(ByteOrder.nativeOrder()).putInt(pairs.length / 2);
        for (String text : pairs) {
            bytes.putInt(text.length()).put(text.getBytes(StandardCharsets.US_ASCII));
        }
        return Arrays.copyOf(bytes.array(), bytes.position());
    }

    private boolean column(String name, Value[] values) {
        Value first = Value.NULL;
        int scale = 0;
        int nulls = 0;
        for (Value value : values) {
            if (value.type == SqlType.NULL) {
                nulls++;
            } else {
                first = first == Value.NULL ? value : first;
                if (value.type != first.type || value.scale != first.scale && first.type != SqlType.DECIMAL) {
                    return false;
                }
                scale = Math.max(scale, value.scale);
            }
        }
        switch (first.type) {
            case NULL:
                node("n", name, null, 0, values.length, values.length, new byte[0][]);
                return true;
            case LIST:
                return lists(name, values, nulls);
            case VARCHAR:
            case BLOB:
                return texts(first.type == SqlType.BLOB ? "Z" : "U", name, values, nulls);
            default:
                return fixed(first, scale, name, values, nulls);
        }
    }

    private static byte[] validity(Value[] values, int nulls) {
        if (nulls == 0) {
            return null;
        }
        byte[] bits = new byte[(values.length + 7) / 8];
        for (int row = 0; row < values.length; row++) {
            if (values[row].type != SqlType.NULL) {
                bits[row >> 3] |= (byte) (1 << (row & 7));
            }
        }
        return bits;
    }

    private static ByteBuffer allocate(long bytes) {
        return ByteBuffer.allocate(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
    }

    private boolean texts(String format, String name, Value[] values, int nulls) {
        ByteBuffer offsets = allocate(8L * (values.length + 1)).putLong(0);
        ByteArrayOutputStream heap = new ByteArrayOutputStream();
        for (Value value : values) {
            if (value.bytes != null) {
                heap.writeBytes(value.bytes);
            }
            offsets.putLong(heap.size());
        }
        node(format, name, null, 0, values.length, nulls,
                new byte[][] {validity(values, nulls), offsets.array(), heap.toByteArray()});
        return true;
    }

    private boolean lists(String name, Value[] values, int nulls) {
        ByteBuffer offsets = allocate(8L * (values.length + 1)).putLong(0);
        List<Value> elements = new ArrayList<>();
        for (Value value : values) {
            if (value.elements != null) {
                elements.addAll(Arrays.asList(value.elements));
            }
            offsets.putLong(elements.size());
        }
        node("+L", name, null, 1, values.length, nulls, new byte[][] {validity(values, nulls), offsets.array()});
        return column("item", elements.toArray(new Value[0]));
    }

    private boolean fixed(Value first, int scale, String name, Value[] values, int nulls) {
        if (first.type == SqlType.BOOLEAN) {
            byte[] bits = new byte[(values.length + 7) / 8];
            for (int row = 0; row < values.length; row++) {
                bits[row >> 3] |= (byte) (values[row].integer << (row & 7));
            }
            node("b", name, null, 0, values.length, nulls, new byte[][] {validity(values, nulls), bits});
            return true;
        }
        // No more digits than there are, because wide DECIMALs are slower.
        int digits = first.type == SqlType.DECIMAL ? digits(values, scale) : 0;
        if (digits > DIGITS) {
            return false;
        }
        ByteBuffer data = allocate((long) width(first.type) * values.length);
        for (Value value : values) {
            put(data, value, first.type, scale);
        }
        node(format(first, digits, scale), name, first.type == SqlType.UUID ? UUID_METADATA : null, 0, values.length, nulls,
                new byte[][] {validity(values, nulls), data.array()});
        return true;
    }

    private static int digits(Value[] values, int scale) {
        int most = Math.max(scale, 1);
        for (Value value : values) {
            if (value.type != SqlType.NULL) {
                BigDecimal number = value.decimal();
                most = Math.max(most, number.precision() - number.scale() + scale);
            }
        }
        return most;
    }

    private static int width(SqlType type) {
        switch (type) {
            case SMALLINT: return 2;
            case INTEGER:
            case FLOAT:
            case DATE: return 4;
            case DECIMAL:
            case INTERVAL:
            case UUID: return 16;
            default: return 8;
        }
    }

    private static String format(Value value, int digits, int scale) {
        String unit = value.scale == 9 ? "n" : "u";
        switch (value.type) {
            case SMALLINT: return "s";
            case INTEGER: return "i";
            case FLOAT: return "f";
            case DOUBLE: return "g";
            case DECIMAL: return "d:" + digits + "," + scale;
            case DATE: return "tdD";
            case TIME: return "ttu";
            case TIMESTAMP: return "ts" + unit + ":";
            case TIMESTAMPTZ: return "ts" + unit + ":UTC";
            case INTERVAL: return "tin";
            case UUID: return "w:16";
            default: return "l";
        }
    }

    private static void put(ByteBuffer data, Value value, SqlType type, int scale) {
        switch (type) {
            case SMALLINT:
                data.putShort((short) value.integer);
                return;
            case INTEGER:
            case DATE:
                data.putInt((int) value.integer);
                return;
            case FLOAT:
                data.putFloat((float) value.number);
                return;
            case DOUBLE:
                data.putDouble(value.number);
                return;
            case DECIMAL:
                putDecimal(data, value, scale);
                return;
            case INTERVAL:
                data.putInt((int) value.high).putInt((int) (value.high >> 32)).putLong(value.integer);
                return;
            case UUID:
                data.put(value.bytes != null ? value.bytes : new byte[16]);
                return;
            default:
                data.putLong(value.integer);
                return;
        }
    }

    private static void putDecimal(ByteBuffer data, Value value, int scale) {
        if (value.type == SqlType.NULL || value.scale == scale) {
            data.putLong(value.integer).putLong(value.high);
            return;
        }
        BigInteger unscaled = value.decimal().setScale(scale).unscaledValue();
        data.putLong(unscaled.longValue()).putLong(unscaled.shiftRight(64).longValue());
    }
}
