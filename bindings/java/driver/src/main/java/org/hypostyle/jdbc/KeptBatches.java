/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.util.ArrayDeque;
import java.util.Queue;

/** Batches of several results of one statement, as the rows of one result. */
final class KeptBatches implements RowSource {
    private final Queue<Batch> left = new ArrayDeque<>();

    /** Adds rows behind the others. */
    void add(Batch batch) {
        left.add(batch);
    }

    @Override
    public Batch next() {
        return left.poll();
    }

    /** Frees the batches that nobody has taken, too. */
    @Override
    public void close() {
        left.forEach(Batch::close);
        left.clear();
    }
}
