/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

/** A column over an array of Arrow. */
abstract class ArrowColumn extends Column {
    private final long offset;
    private final Memory validity;

    /** Takes an array; {@code before} is the offset of the array that it is a part of. */
    ArrowColumn(Field field, ArrayData data, long before) {
        super(field);
        offset = data.offset + before;
        boolean hasNulls = data.nullCount != 0 && data.buffers.length > 0 && data.buffers[0] != 0;
        validity = hasNulls ? Memory.at(data.buffers[0], (end(data) + 7) / 8) : null;
    }

    /** Returns where a row is in the buffers. */
    final long place(long row) {
        return offset + row;
    }

    /** Returns the place behind the last row. */
    final long end(ArrayData data) {
        return offset + data.length;
    }

    /** Returns the buffer of elements that have so many bytes. */
    final Memory elements(ArrayData data, long width) {
        return Memory.at(data.buffers[1], end(data) * width);
    }

    @Override
    boolean isNull(long row) {
        return validity != null && !validity.bit(offset + row);
    }
}
