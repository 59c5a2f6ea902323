/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.SQLData;
import java.sql.SQLException;
import java.sql.Struct;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The values of a STRUCT, in Java's memory. */
final class HypostyleStruct implements Struct {
    private final String typeName;
    private final List<Field> members;
    private final Object[] values;

    HypostyleStruct(Field field, Object[] values) {
        this(field.typeName, field.children, values);
    }

    private HypostyleStruct(String typeName, List<Field> members, Object[] values) {
        this.typeName = typeName;
        this.members = members;
        this.values = values;
    }

    /** Makes a struct for a program's own use. */
    static HypostyleStruct of(String typeName, Object[] attributes) throws SQLException {
        if (typeName == null) {
            throw Errors.refused("HY009", "the type's name is null");
        }
        return new HypostyleStruct(typeName, List.of(), attributes == null ? new Object[0] : attributes.clone());
    }

    @Override
    public String getSQLTypeName() {
        return typeName;
    }

    @Override
    public Object[] getAttributes() {
        return values.clone();
    }

    @Override
    public Object[] getAttributes(Map<String, Class<?>> map) {
        return getAttributes();
    }

    /** Returns the values by their names. */
    Map<String, Object> toMap() {
        Map<String, Object> named = new LinkedHashMap<>();
        for (int index = 0; index < members.size(); index++) {
            named.put(members.get(index).name, values[index]);
        }
        return named;
    }

    /** Makes an object of a class of SQLData's, which reads the values in their order. */
    Object as(Class<?> type) throws SQLException {
        if (type == Map.class) {
            return toMap();
        }
        if (!SQLData.class.isAssignableFrom(type)) {
            throw Errors.refused("22018", type.getName() + " is no java.sql.SQLData");
        }
        try {
            SQLData made = (SQLData) type.getDeclaredConstructor().newInstance();
            made.readSQL(new javax.sql.rowset.serial.SQLInputImpl(values, Map.of()), typeName);
            return made;
        } catch (ReflectiveOperationException error) {
            throw Errors.refused("22018", "no " + type.getName() + " can be made", error);
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof HypostyleStruct struct && typeName.equals(struct.typeName)
                && Arrays.deepEquals(values, struct.values);
    }

    @Override
    public int hashCode() {
        return Arrays.deepHashCode(values);
    }

    /** Returns the values as the database writes them. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("{");
        for (int index = 0; index < values.length; index++) {
            boolean isNested = index < members.size() && members.get(index).type.isNested();
            String name = index < members.size() ? members.get(index).name : "f" + (index + 1);
            text.append(index > 0 ? ", " : "").append(Texts.quoted(name)).append(": ")
                    .append(Texts.element(Texts.of(values[index]), isNested));
        }
        return text.append('}').toString();
    }
}
