/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/**
 * The rows of a result and the place in them. Going forward it has one batch at a time; going anywhere it keeps all that
 * it has met, and finds a row's batch by where each begins.
 */
final class Rows {
    private static final Batch NONE = new Batch(new Column[0], 0);

    private final RowSource source;
    private final boolean isScrollable;
    private final boolean hasLimit;
    private final List<Batch> kept = new ArrayList<>();
    private final List<Long> starts = new ArrayList<>();
    private boolean isWhole;
    private boolean isClosed;
    /** What may still come, by the statement's limit. */
    private long room;

    private Batch batch = NONE;
    /** How many rows are before the batch. */
    private long before;
    /** The row within the batch. */
    private long row = -1;
    /** Fetched and not yet begun. */
    private Batch following;

    /** Takes a source; {@code limit} is the most rows to give, 0 for all. The first batch is fetched. */
    Rows(RowSource source, boolean isScrollable, long limit) throws SQLException {
        this.source = source;
        this.isScrollable = isScrollable;
        this.hasLimit = limit > 0;
        this.room = hasLimit ? limit : Long.MAX_VALUE;
        following = fetch();
    }

    private synchronized Batch fetch() throws SQLException {
        if (isClosed) {
            throw Errors.ended("result");
        }
        if (isWhole) {
            return null;
        }
        Batch fetched = room == 0 ? null : source.next();
        if (fetched == null) {
            isWhole = true;
            return null;
        }
        fetched.limit(room);
        room -= fetched.length();
        if (isScrollable) {
            starts.add(fetchedRows());
            kept.add(fetched);
        }
        return fetched;
    }

    private long fetchedRows() {
        int last = kept.size() - 1;
        return last < 0 ? 0 : starts.get(last) + kept.get(last).length();
    }

    /** Returns the batch that has the row. It is one without rows when the place is before or behind all. */
    Batch batch() {
        return batch;
    }

    /** Returns the row within the batch; it has none if this is negative or not below its length. */
    long row() {
        return row;
    }

    /** Returns the number of the row, from 1 on; 0 if there is none. */
    long number() {
        return row >= 0 && row < batch.length() ? before + row + 1 : 0;
    }

    boolean next() throws SQLException {
        if (++row < batch.length()) {
            return true;
        }
        row = batch.length();
        if (isScrollable) {
            return absolute(before + row + 1);
        }
        if (following == null && !isWhole) {
            following = fetch();
        }
        if (following == null) {
            return false;
        }
        before += batch.length();
        batch.close();
        batch = following;
        following = null;
        row = 0;
        return true;
    }

    boolean isBeforeFirst() {
        return before == 0 && row < 0 && hasRows();
    }

    private boolean hasRows() {
        return batch.length() > 0 || following != null || !kept.isEmpty();
    }

    boolean isAfterLast() throws SQLException {
        return row >= batch.length() && hasRows() && !hasMore();
    }

    boolean isLast() throws SQLException {
        return number() > 0 && row == batch.length() - 1 && !hasMore();
    }

    /** Tells whether there are rows behind the batch. */
    private boolean hasMore() throws SQLException {
        if (isScrollable) {
            return before + batch.length() < fetchedRows() || fetch() != null;
        }
        if (following == null) {
            following = fetch();
        }
        return following != null;
    }

    /** Goes to a row by its number; a negative one counts from the end. Tells whether it is there. */
    synchronized boolean absolute(long number) throws SQLException {
        long wanted = number > 0 ? number - 1 : count() + number;
        if (number == 0 || wanted < 0) {
            place(0, -1);
            return false;
        }
        while (wanted >= fetchedRows() && fetch() != null) {
            // The rows between are fetched and kept.
        }
        if (wanted >= fetchedRows()) {
            place(Math.max(kept.size() - 1, 0), Long.MAX_VALUE);
            return false;
        }
        int index = java.util.Collections.binarySearch(starts, wanted);
        int found = index >= 0 ? index : -index - 2;
        place(found, wanted - starts.get(found));
        return true;
    }

    private void place(int index, long within) {
        batch = kept.isEmpty() ? NONE : kept.get(index);
        before = kept.isEmpty() ? 0 : starts.get(index);
        row = Math.min(within, batch.length());
    }

    private long count() throws SQLException {
        while (fetch() != null) {
            // All rows are fetched and kept.
        }
        return fetchedRows();
    }

    /** Moves all rows into the ArrowArrayStream at an address; only before the first is read. */
    synchronized void stream(long address) throws SQLException {
        boolean isUnread = before == 0 && row < 0 && batch == NONE;
        if (!isUnread || hasLimit || isScrollable) {
            throw Errors.refused("24000", "rows go out as Arrow before the first is read, "
                    + "from a statement that goes forward and has no limit of rows");
        }
        source.stream(following, address);
    }

    /** Gives all rows away; only before the first is read. */
    synchronized void moveTo(KeptBatches batches) throws SQLException {
        Batch next = following != null ? following : fetch();
        following = null;
        kept.clear();
        starts.clear();
        while (next != null) {
            batches.add(next);
            next = fetch();
            kept.clear();
            starts.clear();
        }
    }

    synchronized void close() {
        isClosed = true;
        source.close();
        batch.close();
        if (following != null) {
            following.close();
        }
        kept.forEach(Batch::close);
        kept.clear();
    }
}
