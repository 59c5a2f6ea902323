/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.sql.Blob;
import java.sql.SQLException;
import java.util.Arrays;

/** Bytes in Java's memory. */
final class HypostyleBlob implements Blob {
    private byte[] bytes;

    /** Takes the bytes, which nobody else changes. */
    HypostyleBlob(byte[] bytes) {
        this.bytes = bytes;
    }

    private byte[] bytes() throws SQLException {
        if (bytes == null) {
            throw Errors.ended("blob");
        }
        return bytes;
    }

    /** Returns where a position, from 1 on, is; it may be right behind the end. */
    static int offset(long position, long length) throws SQLException {
        if (position < 1 || position - 1 > length) {
            throw Errors.refused("22011", "the position " + position + " is not within the " + length + " there are");
        }
        return (int) (position - 1);
    }

    /** Checks that a part is one of so many bytes or characters. */
    static void checkPart(int offset, int length, int all) throws SQLException {
        if (offset < 0 || length < 0 || length > all - offset) {
            throw Errors.refused("22011", "there are no " + length + " behind the place " + offset + " of " + all);
        }
    }

    static void checkGiven(Object given) throws SQLException {
        if (given == null) {
            throw Errors.refused("HY009", "what is to be set or found is null");
        }
    }

    static int count(long count, int offset, long length) throws SQLException {
        if (count < 0) {
            throw Errors.refused("22011", "a length cannot be " + count);
        }
        return (int) Math.min(count, length - offset);
    }

    @Override
    public long length() throws SQLException {
        return bytes().length;
    }

    @Override
    public byte[] getBytes(long position, int length) throws SQLException {
        int from = offset(position, bytes().length);
        return Arrays.copyOfRange(bytes, from, from + count(length, from, bytes.length));
    }

    @Override
    public InputStream getBinaryStream() throws SQLException {
        return new ByteArrayInputStream(bytes());
    }

    @Override
    public InputStream getBinaryStream(long position, long length) throws SQLException {
        int from = offset(position, bytes().length);
        return new ByteArrayInputStream(bytes, from, count(length, from, bytes.length));
    }

    @Override
    public long position(byte[] pattern, long start) throws SQLException {
        checkGiven(pattern);
        byte[] all = bytes();
        for (int from = offset(start, all.length); from + pattern.length <= all.length; from++) {
            if (Arrays.equals(all, from, from + pattern.length, pattern, 0, pattern.length)) {
                return from + 1L;
            }
        }
        return -1;
    }

    @Override
    public long position(Blob pattern, long start) throws SQLException {
        checkGiven(pattern);
        return position(pattern.getBytes(1, Streams.limit(pattern.length())), start);
    }

    @Override
    public int setBytes(long position, byte[] from) throws SQLException {
        checkGiven(from);
        return setBytes(position, from, 0, from.length);
    }

    @Override
    public int setBytes(long position, byte[] from, int offset, int length) throws SQLException {
        int at = offset(position, bytes().length);
        checkGiven(from);
        checkPart(offset, length, from.length);
        byte[] changed = Arrays.copyOf(bytes, Math.max(bytes.length, at + length));
        System.arraycopy(from, offset, changed, at, length);
        bytes = changed;
        return length;
    }

    /** Returns a stream whose bytes are set when it is closed. */
    @Override
    public OutputStream setBinaryStream(long position) throws SQLException {
        offset(position, bytes().length);
        return new ByteArrayOutputStream() {
            @Override
            public void close() throws java.io.IOException {
                try {
                    setBytes(position, toByteArray());
                } catch (SQLException error) {
                    throw new java.io.IOException(error);
                }
            }
        };
    }

    @Override
    public void truncate(long length) throws SQLException {
        bytes = Arrays.copyOf(bytes(), offset(length + 1, bytes.length));
    }

    @Override
    public void free() {
        bytes = null;
    }
}
