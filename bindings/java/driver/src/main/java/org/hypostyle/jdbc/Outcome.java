/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

/**
 * What a statement has come to.
 *
 * @param rows the rows, or null if it gives none
 * @param count the number of rows that were written; -1 for rows that are no RETURNING
 */
record Outcome(HypostyleResultSet rows, long count) {
    /** What there is behind the last outcome. */
    static final Outcome NONE = new Outcome(null, -1);
}
