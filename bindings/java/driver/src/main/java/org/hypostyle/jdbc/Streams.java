/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.IOException;
import java.io.InputStream;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;

/** Reads streams as a whole, up to a length. */
final class Streams {
    /** The length of a stream that ends by itself. */
    static final long ALL = -1;

    private Streams() {}

    static byte[] bytes(InputStream from, long length) throws SQLException {
        if (from == null) {
            return null;
        }
        try {
            byte[] read = length == ALL ? from.readAllBytes() : from.readNBytes(limit(length));
            return whole(read, read.length, length);
        } catch (IOException error) {
            throw failed(error);
        }
    }

    static String ascii(InputStream from, long length) throws SQLException {
        byte[] read = bytes(from, length);
        return read == null ? null : new String(read, StandardCharsets.US_ASCII);
    }

    static String text(Reader from, long length) throws SQLException {
        if (from == null) {
            return null;
        }
        long left = length == ALL ? Long.MAX_VALUE : limit(length);
        StringBuilder text = new StringBuilder();
        char[] piece = new char[4096];
        try {
            while (left > 0) {
                int count = from.read(piece, 0, (int) Math.min(piece.length, left));
                if (count < 0) {
                    break;
                }
                text.append(piece, 0, count);
                left -= count;
            }
        } catch (IOException error) {
            throw failed(error);
        }
        return whole(text.toString(), text.length(), length);
    }

    static int limit(long length) throws SQLException {
        if (length < 0 || length > Integer.MAX_VALUE - 8) {
            throw Errors.refused("HY090", "a stream cannot have the length " + length);
        }
        return (int) length;
    }

    private static <T> T whole(T read, long found, long length) throws SQLException {
        if (length != ALL && found < length) {
            throw Errors.refused("22026", "the stream has ended after " + found + " of " + length);
        }
        return read;
    }

    private static SQLException failed(IOException error) {
        return Errors.refused("22000", "the stream cannot be read: " + error.getMessage(), error);
    }
}
