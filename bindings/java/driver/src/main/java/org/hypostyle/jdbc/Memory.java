/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Bytes outside of Java's heap, read through buffers. A buffer has less than 2 GiB: longer memory is seen through
 * windows that begin every GiB and overlap, so that a value below a GiB is in one window as a whole.
 */
final class Memory {
    private static final int SHIFT = 30;
    private static final long STEP = 1L << SHIFT;
    private static final Memory NOTHING = new Memory(new ByteBuffer[] {ByteBuffer.allocate(0)});

    private final ByteBuffer[] windows;

    private Memory(ByteBuffer[] windows) {
        this.windows = windows;
    }

    /** Returns the memory at an address; that of no bytes may be anywhere. */
    static Memory at(long address, long length) {
        if (length <= 0) {
            return NOTHING;
        }
        ByteBuffer[] windows = new ByteBuffer[(int) ((length + STEP - 1) >>> SHIFT)];
        for (int index = 0; index < windows.length; index++) {
            long from = index * STEP;
            long bytes = Math.min(length - from, Integer.MAX_VALUE);
            windows[index] = Native.buffer(address + from, bytes).order(ByteOrder.nativeOrder());
        }
        return new Memory(windows);
    }

    private ByteBuffer window(long at) {
        return windows[(int) (at >>> SHIFT)];
    }

    private static int within(long at) {
        return (int) (at & STEP - 1);
    }

    byte int8(long at) {
        return window(at).get(within(at));
    }

    short int16(long at) {
        return window(at).getShort(within(at));
    }

    int int32(long at) {
        return window(at).getInt(within(at));
    }

    long int64(long at) {
        return window(at).getLong(within(at));
    }

    float float32(long at) {
        return window(at).getFloat(within(at));
    }

    double float64(long at) {
        return window(at).getDouble(within(at));
    }

    boolean bit(long at) {
        return (int8(at >>> 3) >>> (at & 7) & 1) != 0;
    }

    byte[] bytes(long at, int length) {
        byte[] copied = new byte[length];
        if (length > 0) {
            window(at).get(within(at), copied);
        }
        return copied;
    }
}
