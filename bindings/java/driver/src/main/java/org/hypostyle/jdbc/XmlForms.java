/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.sql.SQLException;
import javax.xml.XMLConstants;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.parsers.SAXParserFactory;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLOutputFactory;
import javax.xml.stream.XMLStreamException;
import javax.xml.transform.OutputKeys;
import javax.xml.transform.Result;
import javax.xml.transform.Source;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.dom.DOMResult;
import javax.xml.transform.dom.DOMSource;
import javax.xml.transform.sax.SAXResult;
import javax.xml.transform.sax.SAXSource;
import javax.xml.transform.sax.SAXTransformerFactory;
import javax.xml.transform.sax.TransformerHandler;
import javax.xml.transform.stax.StAXResult;
import javax.xml.transform.stax.StAXSource;
import javax.xml.transform.stream.StreamResult;
import org.xml.sax.InputSource;
import org.xml.sax.SAXException;
import org.xml.sax.helpers.DefaultHandler;

/** Reads and writes XML as trees and as events. A DTD, which may bring files and a text of any length, is refused. */
final class XmlForms {
    private static final String NO_DTD = "http://apache.org/xml/features/disallow-doctype-decl";

    private XmlForms() {}

    static Source source(String text, Class<?> type) throws SQLException {
        InputSource from = new InputSource(new StringReader(text));
        try {
            if (type == DOMSource.class) {
                DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
                factory.setNamespaceAware(true);
                factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
                factory.setFeature(NO_DTD, true);
                javax.xml.parsers.DocumentBuilder builder = factory.newDocumentBuilder();
                // The exception says what is wrong; nothing is printed.
                builder.setErrorHandler(new DefaultHandler());
                return new DOMSource(builder.parse(from));
            }
            if (type == SAXSource.class) {
                SAXParserFactory factory = SAXParserFactory.newInstance();
                factory.setNamespaceAware(true);
                factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
                factory.setFeature(NO_DTD, true);
                return new SAXSource(factory.newSAXParser().getXMLReader(), from);
            }
            if (type == StAXSource.class) {
                XMLInputFactory factory = XMLInputFactory.newInstance();
                factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
                factory.setProperty(XMLInputFactory.IS_SUPPORTING_EXTERNAL_ENTITIES, false);
                return new StAXSource(factory.createXMLStreamReader(from.getCharacterStream()));
            }
        } catch (ParserConfigurationException | SAXException | IOException | XMLStreamException error) {
            throw Errors.refused("22000", "the text is no XML that can be read: " + error.getMessage(), error);
        }
        throw Errors.unsupported("XML is not read as a " + type.getName());
    }

    static Result result(StringWriter into, Class<?> type) throws SQLException {
        try {
            if (type == SAXResult.class) {
                TransformerHandler handler = ((SAXTransformerFactory) secure()).newTransformerHandler();
                handler.getTransformer().setOutputProperty(OutputKeys.OMIT_XML_DECLARATION, "yes");
                handler.setResult(new StreamResult(into));
                return new SAXResult(handler);
            }
            if (type == StAXResult.class) {
                return new StAXResult(XMLOutputFactory.newInstance().createXMLStreamWriter(into));
            }
        } catch (TransformerException | XMLStreamException error) {
            throw Errors.refused("22000", "XML cannot be written: " + error.getMessage(), error);
        }
        throw Errors.unsupported("XML is not written as a " + type.getName());
    }

    private static TransformerFactory secure() throws TransformerException {
        TransformerFactory factory = TransformerFactory.newInstance();
        factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
        return factory;
    }

    static String text(DOMResult tree) throws SQLException {
        StringWriter text = new StringWriter();
        try {
            Transformer transformer = secure().newTransformer();
            transformer.setOutputProperty(OutputKeys.OMIT_XML_DECLARATION, "yes");
            transformer.transform(new DOMSource(tree.getNode()), new StreamResult(text));
        } catch (TransformerException error) {
            throw Errors.refused("22000", "the tree cannot be written as XML: " + error.getMessage(), error);
        }
        return text.toString();
    }
}
