/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Reader;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.sql.Clob;
import java.sql.NClob;
import java.sql.SQLException;

/** A text in Java's memory. */
final class HypostyleClob implements NClob {
    private String text;

    HypostyleClob(String text) {
        this.text = text;
    }

    private String text() throws SQLException {
        if (text == null) {
            throw Errors.ended("clob");
        }
        return text;
    }

    @Override
    public long length() throws SQLException {
        return text().length();
    }

    @Override
    public String getSubString(long position, int length) throws SQLException {
        int from = HypostyleBlob.offset(position, text().length());
        return text.substring(from, from + HypostyleBlob.count(length, from, text.length()));
    }

    @Override
    public Reader getCharacterStream() throws SQLException {
        return new StringReader(text());
    }

    @Override
    public Reader getCharacterStream(long position, long length) throws SQLException {
        int from = HypostyleBlob.offset(position, text().length());
        return new StringReader(text.substring(from, from + HypostyleBlob.count(length, from, text.length())));
    }

    @Override
    public InputStream getAsciiStream() throws SQLException {
        return new ByteArrayInputStream(text().getBytes(StandardCharsets.US_ASCII));
    }

    @Override
    public long position(String wanted, long start) throws SQLException {
        HypostyleBlob.checkGiven(wanted);
        int found = text().indexOf(wanted, HypostyleBlob.offset(start, text.length()));
        return found < 0 ? -1 : found + 1L;
    }

    @Override
    public long position(Clob wanted, long start) throws SQLException {
        HypostyleBlob.checkGiven(wanted);
        return position(wanted.getSubString(1, Streams.limit(wanted.length())), start);
    }

    @Override
    public int setString(long position, String from) throws SQLException {
        HypostyleBlob.checkGiven(from);
        int at = HypostyleBlob.offset(position, text().length());
        int end = Math.min(text.length(), at + from.length());
        text = text.substring(0, at) + from + text.substring(end);
        return from.length();
    }

    @Override
    public int setString(long position, String from, int offset, int length) throws SQLException {
        HypostyleBlob.checkGiven(from);
        HypostyleBlob.checkPart(offset, length, from.length());
        return setString(position, from.substring(offset, offset + length));
    }

    /** Returns a stream whose characters are set when it is closed. */
    @Override
    public OutputStream setAsciiStream(long position) throws SQLException {
        HypostyleBlob.offset(position, text().length());
        return new ByteArrayOutputStream() {
            @Override
            public void close() throws IOException {
                put(position, toString(StandardCharsets.US_ASCII));
            }
        };
    }

    /** Returns a writer whose characters are set when it is closed. */
    @Override
    public Writer setCharacterStream(long position) throws SQLException {
        HypostyleBlob.offset(position, text().length());
        return new StringWriter() {
            @Override
            public void close() throws IOException {
                put(position, toString());
            }
        };
    }

    private void put(long position, String from) throws IOException {
        try {
            setString(position, from);
        } catch (SQLException error) {
            throw new IOException(error);
        }
    }

    @Override
    public void truncate(long length) throws SQLException {
        text = text().substring(0, HypostyleBlob.offset(length + 1, text.length()));
    }

    @Override
    public void free() {
        text = null;
    }
}
