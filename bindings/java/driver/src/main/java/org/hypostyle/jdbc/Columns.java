/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.SQLException;

/** Finds the column class for an array, and has those for numbers. */
final class Columns {
    private Columns() {}

    /** Returns the column that reads an array; {@code before} is the offset of the array around it. */
    static Column of(Field field, ArrayData data, long before) throws SQLException {
        if (field.dictionary != null) {
            return new DictionaryColumn(field, data, before);
        }
        switch (field.format.charAt(0)) {
            case 'n': return new NullColumn(field);
            case 'b': return new BooleanColumn(field, data, before);
            case 'c':
            case 'C': return new ByteColumn(field, data, before);
            case 's':
            case 'S': return new ShortColumn(field, data, before);
            case 'i':
            case 'I': return new IntColumn(field, data, before);
            case 'l':
            case 'L': return new LongColumn(field, data, before);
            case 'f': return new RealColumn(field, data, before, Float.BYTES);
            case 'g': return new RealColumn(field, data, before, Double.BYTES);
            case 'd': return decimal(field, data, before);
            case 't': return TemporalColumns.of(field, data, before);
            case '+': return NestedColumns.of(field, data, before);
            default: return TextColumns.of(field, data, before);
        }
    }

    private static Column decimal(Field field, ArrayData data, long before) {
        if (field.format.endsWith(",32")) {
            return new IntColumn(field, data, before);
        }
        return field.format.endsWith(",64") ? new LongColumn(field, data, before)
                : new WideDecimalColumn(field, data, before);
    }

    /** A column of NULLs. */
    private static final class NullColumn extends Column {
        NullColumn(Field field) {
            super(field);
        }

        @Override
        boolean isNull(long row) {
            return true;
        }

        @Override
        Object getObject(long row) {
            return null;
        }
    }

    private static final class BooleanColumn extends ArrowColumn {
        private final Memory bits;

        BooleanColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            bits = Memory.at(data.buffers[1], (end(data) + 7) / 8);
        }

        @Override
        boolean getBoolean(long row) {
            return bits.bit(place(row));
        }

        @Override
        long getLong(long row) {
            return getBoolean(row) ? 1 : 0;
        }

        @Override
        double getDouble(long row) {
            return getLong(row);
        }

        @Override
        BigDecimal getBigDecimal(long row) {
            return BigDecimal.valueOf(getLong(row));
        }

        @Override
        Object getObject(long row) {
            return getBoolean(row);
        }
    }

    /** Integers, and DECIMALs that are stored as integers of up to 64 bits. */
    private abstract static class IntegerColumn extends ArrowColumn {
        private static final long[] POWERS = new long[19];

        static {
            POWERS[0] = 1;
            for (int index = 1; index < POWERS.length; index++) {
                POWERS[index] = POWERS[index - 1] * 10;
            }
        }

        /** The digits behind the point. */
        private final int scale;

        IntegerColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            scale = field.type == SqlType.DECIMAL ? field.scale : 0;
        }

        /** Returns the integer that is stored; of a UBIGINT its bits. */
        abstract long stored(long row);

        @Override
        long getLong(long row) throws SQLException {
            long value = stored(row);
            if (field.type == SqlType.UBIGINT && value < 0) {
                throw outOfRange(Long.toUnsignedString(value), "a long");
            }
            return scale == 0 ? value : scale < POWERS.length ? value / POWERS[scale] : 0;
        }

        @Override
        double getDouble(long row) {
            long value = stored(row);
            if (scale > 0 && scale < POWERS.length && Math.abs(value) <= 1L << 53) {
                // Both are exact, so that the quotient is rounded once.
                return value / (double) POWERS[scale];
            }
            return scale == 0 && field.type != SqlType.UBIGINT ? value : getBigDecimal(row).doubleValue();
        }

        @Override
        BigDecimal getBigDecimal(long row) {
            long value = stored(row);
            if (field.type == SqlType.UBIGINT && value < 0) {
                return new BigDecimal(Long.toUnsignedString(value));
            }
            return BigDecimal.valueOf(value, scale);
        }

        @Override
        String getString(long row) {
            return scale == 0 ? integerText(stored(row)) : getBigDecimal(row).toPlainString();
        }

        private String integerText(long value) {
            return field.type == SqlType.UBIGINT ? Long.toUnsignedString(value) : Long.toString(value);
        }

        @Override
        Object getObject(long row) {
            switch (field.type) {
                case BIGINT:
                case UINTEGER:
                    return stored(row);
                case DECIMAL:
                case UBIGINT:
                    return getBigDecimal(row);
                default:
                    return (int) stored(row);
            }
        }
    }

    private static final class ByteColumn extends IntegerColumn {
        private final Memory memory;
        private final long mask;

        ByteColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            memory = elements(data, 1);
            mask = field.type == SqlType.UTINYINT ? 0xff : -1;
        }

        @Override
        long stored(long row) {
            return memory.int8(place(row)) & mask;
        }
    }

    private static final class ShortColumn extends IntegerColumn {
        private final Memory memory;
        private final long mask;

        ShortColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            memory = elements(data, 2);
            mask = field.type == SqlType.USMALLINT ? 0xffff : -1;
        }

        @Override
        long stored(long row) {
            return memory.int16(place(row) * 2) & mask;
        }
    }

    private static final class IntColumn extends IntegerColumn {
        private final Memory memory;
        private final long mask;

        IntColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            memory = elements(data, 4);
            mask = field.type == SqlType.UINTEGER ? 0xffffffffL : -1;
        }

        @Override
        long stored(long row) {
            return memory.int32(place(row) * 4) & mask;
        }
    }

    private static final class LongColumn extends IntegerColumn {
        private final Memory memory;

        LongColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            memory = elements(data, 8);
        }

        @Override
        long stored(long row) {
            return memory.int64(place(row) * 8);
        }
    }

    /** FLOAT and DOUBLE, which differ by their width. */
    private static final class RealColumn extends ArrowColumn {
        private final Memory memory;
        private final int width;

        RealColumn(Field field, ArrayData data, long before, int width) {
            super(field, data, before);
            this.width = width;
            memory = elements(data, width);
        }

        @Override
        double getDouble(long row) {
            long at = place(row) * width;
            return width == Float.BYTES ? memory.float32(at) : memory.float64(at);
        }

        @Override
        Object getObject(long row) {
            double value = getDouble(row);
            return width == Float.BYTES ? (Object) (float) value : (Object) value;
        }

        @Override
        long getLong(long row) throws SQLException {
            return whole(getDouble(row));
        }

        @Override
        boolean getBoolean(long row) {
            return getDouble(row) != 0;
        }

        @Override
        BigDecimal getBigDecimal(long row) throws SQLException {
            double value = getDouble(row);
            if (Double.isNaN(value) || Double.isInfinite(value)) {
                throw outOfRange(value, "a BigDecimal");
            }
            return new BigDecimal(getString(row));
        }
    }

    /** DECIMALs of 128 or 256 bits. */
    private static final class WideDecimalColumn extends ArrowColumn {
        private final Memory memory;
        private final int width;

        WideDecimalColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            width = field.format.endsWith(",256") ? 32 : 16;
            memory = elements(data, width);
        }

        @Override
        BigDecimal getBigDecimal(long row) {
            long at = place(row) * width;
            if (width == 16) {
                long low = memory.int64(at);
                if (memory.int64(at + 8) == low >> 63) {
                    return BigDecimal.valueOf(low, field.scale);
                }
            }
            byte[] bytes = memory.bytes(at, width);
            for (int left = 0, right = width - 1; left < right; left++, right--) {
                byte kept = bytes[left];
                bytes[left] = bytes[right];
                bytes[right] = kept;
            }
            return new BigDecimal(new BigInteger(bytes), field.scale);
        }

        @Override
        Object getObject(long row) {
            return getBigDecimal(row);
        }
    }
}
