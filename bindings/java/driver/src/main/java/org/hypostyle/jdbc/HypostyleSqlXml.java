/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Reader;
import java.io.StringReader;
import java.io.StringWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.sql.SQLXML;
import javax.xml.transform.Result;
import javax.xml.transform.Source;
import javax.xml.transform.dom.DOMResult;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;

/** A text that is XML. It is parsed where a source wants it, without a DTD and what one may bring. */
final class HypostyleSqlXml implements SQLXML {
    private String text;
    /** What a program writes, until it is read. */
    private Object written;
    private boolean isFreed;

    HypostyleSqlXml(String text) {
        this.text = text;
    }

    @Override
    public String getString() throws SQLException {
        if (isFreed) {
            throw Errors.ended("XML");
        }
        if (written instanceof ByteArrayOutputStream bytes) {
            return bytes.toString(StandardCharsets.UTF_8);
        }
        if (written instanceof DOMResult tree) {
            return XmlForms.text(tree);
        }
        return written != null ? written.toString() : text;
    }

    @Override
    public void setString(String value) throws SQLException {
        written(null);
        text = value;
    }

    private <T> T written(T into) throws SQLException {
        if (isFreed) {
            throw Errors.ended("XML");
        }
        if (text != null || written != null) {
            throw Errors.refused("HY010", "the XML has its text already");
        }
        written = into;
        return into;
    }

    private String whole() throws SQLException {
        String all = getString();
        if (all == null) {
            throw Errors.refused("HY010", "the XML has no text yet");
        }
        return all;
    }

    @Override
    public InputStream getBinaryStream() throws SQLException {
        return new ByteArrayInputStream(whole().getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public OutputStream setBinaryStream() throws SQLException {
        return written(new ByteArrayOutputStream());
    }

    @Override
    public Reader getCharacterStream() throws SQLException {
        return new StringReader(whole());
    }

    @Override
    public Writer setCharacterStream() throws SQLException {
        return written(new StringWriter());
    }

    @Override
    public <T extends Source> T getSource(Class<T> type) throws SQLException {
        Source source = type == null || type.isAssignableFrom(StreamSource.class) ? new StreamSource(getCharacterStream())
                : XmlForms.source(whole(), type);
        @SuppressWarnings("unchecked")
        T asked = (T) source;
        return asked;
    }

    @Override
    public <T extends Result> T setResult(Class<T> type) throws SQLException {
        Result result;
        if (type == null || type.isAssignableFrom(StreamResult.class)) {
            result = new StreamResult(setCharacterStream());
        } else if (type == DOMResult.class) {
            result = written(new DOMResult());
        } else {
            StringWriter into = new StringWriter();
            result = XmlForms.result(into, type);
            written(into);
        }
        @SuppressWarnings("unchecked")
        T asked = (T) result;
        return asked;
    }

    @Override
    public void free() {
        isFreed = true;
    }
}
