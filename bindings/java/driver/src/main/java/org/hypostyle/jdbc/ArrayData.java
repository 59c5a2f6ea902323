/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

/** An array of Arrow: where its buffers and those of its children are. */
final class ArrayData {
    final long length;
    final long offset;
    final long nullCount;
    final long[] buffers;
    final ArrayData[] children;
    final ArrayData dictionary;

    private ArrayData(long[] words, int[] at, Field field, Field[] fields) {
        length = words[at[0]++];
        offset = words[at[0]++];
        nullCount = words[at[0]++];
        buffers = new long[(int) words[at[0]++]];
        System.arraycopy(words, at[0], buffers, 0, buffers.length);
        at[0] += buffers.length;
        children = new ArrayData[fields.length];
        for (int child = 0; child < children.length; child++) {
            children[child] = new ArrayData(words, at, fields[child], fields[child].children.toArray(new Field[0]));
        }
        Field values = field == null ? null : field.dictionary;
        dictionary = values == null ? null : new ArrayData(words, at, values, values.children.toArray(new Field[0]));
    }

    /** Reads the rows that {@link Native#nextBatch} gives, from behind the batch's handle on. */
    static ArrayData ofRows(long[] words, Field[] columns) {
        return new ArrayData(words, new int[] {1}, null, columns);
    }
}
