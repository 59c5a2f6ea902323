/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;

/** A column of codes, which stand for texts. Each text is decoded once, when it is first met. */
final class DictionaryColumn extends TextBasedColumn {
    private final Memory codes;
    private final int width;
    private final Column values;
    private final String[] known;

    DictionaryColumn(Field field, ArrayData data, long before) throws SQLException {
        super(field, data, before);
        width = widthOf(field.format);
        codes = elements(data, width);
        values = Columns.of(field.dictionary, data.dictionary, 0);
        known = new String[Math.toIntExact(data.dictionary.length)];
    }

    private static int widthOf(String format) throws SQLException {
        switch (format) {
            case "c": return 1;
            case "s": return 2;
            case "i": return 4;
            default: throw Errors.unsupported("this driver does not know codes of Arrow's format \"" + format + "\"");
        }
    }

    private int code(long row) {
        long at = place(row) * width;
        return width == 1 ? codes.int8(at) : width == 2 ? codes.int16(at) : codes.int32(at);
    }

    @Override
    boolean isNull(long row) {
        return super.isNull(row) || values.isNull(code(row));
    }

    @Override
    String getString(long row) throws SQLException {
        int code = code(row);
        String text = known[code];
        if (text == null) {
            text = values.getString(code);
            known[code] = text;
        }
        return text;
    }
}
