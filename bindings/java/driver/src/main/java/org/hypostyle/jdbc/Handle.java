/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/** A handle of the library, which is freed once: by its owner, or when nobody has the owner any more. */
final class Handle {
    private static final Cleaner CLEANER = Cleaner.create();

    private final Release release;
    private final Cleaner.Cleanable cleanable;

    /** Takes a handle. What frees it must not know the owner. */
    Handle(Object owner, long handle, LongConsumer free) {
        release = new Release(handle, free);
        cleanable = CLEANER.register(owner, release);
    }

    private static final class Release implements Runnable {
        private final AtomicLong handle;
        private final LongConsumer free;

        Release(long handle, LongConsumer free) {
            this.handle = new AtomicLong(handle);
            this.free = free;
        }

        @Override
        public void run() {
            long taken = handle.getAndSet(0);
            if (taken != 0) {
                free.accept(taken);
            }
        }
    }

    /** Returns the handle, or 0 if it is freed. */
    long get() {
        return release.handle.get();
    }

    void free() {
        cleanable.clean();
    }
}
