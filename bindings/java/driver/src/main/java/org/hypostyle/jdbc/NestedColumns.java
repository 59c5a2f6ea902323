/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The columns of lists, arrays, structs and maps. Their values are copied into Java's memory. */
final class NestedColumns {
    private NestedColumns() {}

    static Column of(Field field, ArrayData data, long before) throws SQLException {
        switch (field.type) {
            case STRUCT: return new StructColumn(field, data, before);
            case MAP: return new MapColumn(field, data, before);
            default: return new ListColumn(field, data, before);
        }
    }

    /** Where the elements of each row are: between offsets, or as many for each. */
    private static final class Elements {
        private final Memory offsets;
        private final int width;
        private final int each;

        Elements(String format, ArrayData data, long end) {
            boolean isFixed = format.startsWith("+w:");
            each = isFixed ? Integer.parseInt(format.substring(3)) : 0;
            width = format.equals("+L") ? 8 : 4;
            offsets = isFixed ? null : Memory.at(data.buffers[1], (end + 1) * width);
        }

        long start(long place) {
            return offsets == null ? place * each : width == 8 ? offsets.int64(place * 8) : offsets.int32(place * 4);
        }
    }

    private static final class ListColumn extends ArrowColumn {
        private final Elements elements;
        private final Column values;

        ListColumn(Field field, ArrayData data, long before) throws SQLException {
            super(field, data, before);
            elements = new Elements(field.format, data, end(data));
            values = Columns.of(field.children.get(0), data.children[0], 0);
        }

        @Override
        HypostyleArray getObject(long row) throws SQLException {
            long start = elements.start(place(row));
            long end = elements.start(place(row) + 1);
            Object[] copied = new Object[Math.toIntExact(end - start)];
            for (int index = 0; index < copied.length; index++) {
                copied[index] = values.isNull(start + index) ? null : values.getObject(start + index);
            }
            return new HypostyleArray(values.field, copied);
        }

        @Override
        String getString(long row) throws SQLException {
            long end = elements.start(place(row) + 1);
            List<String> texts = new ArrayList<>();
            for (long at = elements.start(place(row)); at < end; at++) {
                texts.add(values.isNull(at) ? null : values.getString(at));
            }
            return Texts.list(texts, values.field.type.isNested());
        }
    }

    private static final class StructColumn extends ArrowColumn {
        private final Column[] members;

        StructColumn(Field field, ArrayData data, long before) throws SQLException {
            super(field, data, before);
            members = new Column[field.children.size()];
            for (int index = 0; index < members.length; index++) {
                members[index] = Columns.of(field.children.get(index), data.children[index], place(0));
            }
        }

        @Override
        HypostyleStruct getObject(long row) throws SQLException {
            Object[] copied = new Object[members.length];
            for (int index = 0; index < copied.length; index++) {
                copied[index] = members[index].isNull(row) ? null : members[index].getObject(row);
            }
            return new HypostyleStruct(field, copied);
        }

        @Override
        String getString(long row) throws SQLException {
            StringBuilder text = new StringBuilder("{");
            for (Column member : members) {
                text.append(text.length() > 1 ? ", " : "").append(Texts.quoted(member.field.name)).append(": ")
                        .append(Texts.element(member.isNull(row) ? null : member.getString(row),
                                member.field.type.isNested()));
            }
            return text.append('}').toString();
        }
    }

    private static final class MapColumn extends ArrowColumn {
        private final Elements elements;
        private final Column keys;
        private final Column values;

        MapColumn(Field field, ArrayData data, long before) throws SQLException {
            super(field, data, before);
            elements = new Elements(field.format, data, end(data));
            Field entry = field.children.get(0);
            ArrayData entries = data.children[0];
            keys = Columns.of(entry.children.get(0), entries.children[0], entries.offset);
            values = Columns.of(entry.children.get(1), entries.children[1], entries.offset);
        }

        @Override
        Map<Object, Object> getObject(long row) throws SQLException {
            Map<Object, Object> copied = new LinkedHashMap<>();
            long end = elements.start(place(row) + 1);
            for (long at = elements.start(place(row)); at < end; at++) {
                copied.put(keys.getObject(at), values.isNull(at) ? null : values.getObject(at));
            }
            return copied;
        }

        @Override
        String getString(long row) throws SQLException {
            Map<String, String> texts = new LinkedHashMap<>();
            long end = elements.start(place(row) + 1);
            for (long at = elements.start(place(row)); at < end; at++) {
                texts.put(keys.getString(at), values.isNull(at) ? null : values.getString(at));
            }
            return Texts.map(texts, values.field.type.isNested());
        }
    }
}
