/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.UUID;

/** The columns of texts, bytes and UUIDs. */
final class TextColumns {
    private TextColumns() {}

    static Column of(Field field, ArrayData data, long before) throws SQLException {
        Bytes bytes = bytesOf(field.format, data, before);
        switch (field.type) {
            case UUID:
                return new UuidColumn(field, data, before);
            case BLOB:
            case FIXED_BINARY:
                return new BytesColumn(field, data, before, bytes);
            default:
                return new TextColumn(field, data, before, bytes);
        }
    }

    /** Copies the bytes of the value at a place. */
    private interface Bytes {
        byte[] at(long place) throws SQLException;
    }

    private static Bytes bytesOf(String format, ArrayData data, long before) throws SQLException {
        long end = data.offset + before + data.length;
        switch (format) {
            case "u":
            case "z": {
                Memory offsets = Memory.at(data.buffers[1], (end + 1) * 4);
                Memory heap = Memory.at(data.buffers[2], end == 0 ? 0 : offsets.int32(end * 4));
                return place -> {
                    int start = offsets.int32(place * 4);
                    return heap.bytes(start, offsets.int32(place * 4 + 4) - start);
                };
            }
            case "U":
            case "Z": {
                Memory offsets = Memory.at(data.buffers[1], (end + 1) * 8);
                Memory heap = Memory.at(data.buffers[2], end == 0 ? 0 : offsets.int64(end * 8));
                return place -> {
                    long start = offsets.int64(place * 8);
                    return heap.bytes(start, length(offsets.int64(place * 8 + 8) - start));
                };
            }
            case "vu":
            case "vz":
                return views(data, end);
            default:
                if (format.startsWith("w:")) {
                    int width = Integer.parseInt(format.substring(2));
                    Memory memory = Memory.at(data.buffers[1], end * width);
                    return place -> memory.bytes(place * width, width);
                }
                throw Errors.unsupported("this driver does not know Arrow's format \"" + format + "\"");
        }
    }

    private static int length(long length) throws SQLException {
        if (length > 1 << 30) {
            throw Errors.refused("54000", "a value has " + length + " bytes; Java reads up to " + (1 << 30));
        }
        return (int) length;
    }

    /** Reads views: 16 bytes with a length and either the value or its place in one of several heaps. */
    private static Bytes views(ArrayData data, long end) {
        Memory views = Memory.at(data.buffers[1], end * 16);
        int heaps = data.buffers.length - 3;
        Memory lengths = Memory.at(data.buffers[data.buffers.length - 1], heaps * 8L);
        Memory[] heap = new Memory[heaps];
        for (int index = 0; index < heaps; index++) {
            heap[index] = Memory.at(data.buffers[2 + index], lengths.int64(index * 8L));
        }
        return place -> {
            int length = views.int32(place * 16);
            return length <= 12 ? views.bytes(place * 16 + 4, length)
                    : heap[views.int32(place * 16 + 8)].bytes(views.int32(place * 16 + 12), length);
        };
    }

    private static final class TextColumn extends TextBasedColumn {
        private final Bytes bytes;

        TextColumn(Field field, ArrayData data, long before, Bytes bytes) {
            super(field, data, before);
            this.bytes = bytes;
        }

        @Override
        String getString(long row) throws SQLException {
            return new String(bytes.at(place(row)), StandardCharsets.UTF_8);
        }

        @Override
        byte[] getBytes(long row) throws SQLException {
            return bytes.at(place(row));
        }
    }

    private static final class BytesColumn extends ArrowColumn {
        private final Bytes bytes;

        BytesColumn(Field field, ArrayData data, long before, Bytes bytes) {
            super(field, data, before);
            this.bytes = bytes;
        }

        @Override
        byte[] getBytes(long row) throws SQLException {
            return bytes.at(place(row));
        }

        @Override
        Object getObject(long row) throws SQLException {
            return getBytes(row);
        }
    }

    private static final class UuidColumn extends ArrowColumn {
        private final Memory memory;

        UuidColumn(Field field, ArrayData data, long before) {
            super(field, data, before);
            memory = elements(data, 16);
        }

        @Override
        UUID getUuid(long row) {
            long at = place(row) * 16;
            return new UUID(Long.reverseBytes(memory.int64(at)), Long.reverseBytes(memory.int64(at + 8)));
        }

        @Override
        byte[] getBytes(long row) {
            return memory.bytes(place(row) * 16, 16);
        }

        @Override
        Object getObject(long row) {
            return getUuid(row);
        }
    }
}
