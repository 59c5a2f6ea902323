/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.sql.Array;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** The elements of a LIST or an ARRAY, in Java's memory. */
final class HypostyleArray implements Array {
    private final Field element;
    private Object[] values;

    /** Takes the elements, which are of one type. */
    HypostyleArray(Field element, Object[] values) {
        this.element = element;
        this.values = values;
    }

    /** Makes an array for a parameter; {@code typeName} is that of its elements. */
    static HypostyleArray of(String typeName, Object[] elements) throws SQLException {
        if (typeName == null) {
            throw Errors.refused("HY009", "the name of the elements' type is null");
        }
        Object[] values = elements == null ? new Object[0] : elements.clone();
        return new HypostyleArray(Field.inMemory("item", SqlType.portable(typeName), typeName), values);
    }

    private Object[] values() throws SQLException {
        if (values == null) {
            throw Errors.ended("array");
        }
        return values;
    }

    @Override
    public String getBaseTypeName() throws SQLException {
        values();
        return element.typeName;
    }

    @Override
    public int getBaseType() throws SQLException {
        values();
        return element.type.jdbcType;
    }

    /** Returns a copy of the elements, an array of their class. */
    @Override
    public Object getArray() throws SQLException {
        Object[] all = values();
        boolean isOneClass = Arrays.stream(all).allMatch(value -> value == null || element.type.javaClass.isInstance(value));
        Object[] copied = isOneClass
                ? (Object[]) java.lang.reflect.Array.newInstance(element.type.javaClass, all.length)
                : new Object[all.length];
        System.arraycopy(all, 0, copied, 0, all.length);
        return copied;
    }

    @Override
    public Object getArray(long index, int count) throws SQLException {
        Object[] all = (Object[]) getArray();
        if (index < 1 || index - 1 > all.length || count < 0) {
            throw Errors.refused("2202E", "the array has " + all.length + " elements, and not those from " + index);
        }
        int from = (int) index - 1;
        return Arrays.copyOfRange(all, from, (int) Math.min(all.length, (long) from + count));
    }

    @Override
    public Object getArray(Map<String, Class<?>> map) throws SQLException {
        return getArray();
    }

    @Override
    public Object getArray(long index, int count, Map<String, Class<?>> map) throws SQLException {
        return getArray(index, count);
    }

    @Override
    public ResultSet getResultSet() throws SQLException {
        return getResultSet(1, values().length);
    }

    /** Returns the elements as rows: their numbers from 1 on, and their values. */
    @Override
    public ResultSet getResultSet(long index, int count) throws SQLException {
        Object[] part = (Object[]) getArray(index, count);
        List<Long> numbers = new ArrayList<>();
        for (int place = 0; place < part.length; place++) {
            numbers.add(index + place);
        }
        Field[] fields = {Field.inMemory("INDEX", SqlType.BIGINT, "BIGINT"), element.named("VALUE")};
        return HypostyleResultSet.inMemory(null, fields, List.of(numbers, Arrays.asList(part)));
    }

    @Override
    public ResultSet getResultSet(Map<String, Class<?>> map) throws SQLException {
        return getResultSet();
    }

    @Override
    public ResultSet getResultSet(long index, int count, Map<String, Class<?>> map) throws SQLException {
        return getResultSet(index, count);
    }

    @Override
    public void free() {
        values = null;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof HypostyleArray array && Arrays.deepEquals(values, array.values);
    }

    @Override
    public int hashCode() {
        return Arrays.deepHashCode(values);
    }

    /** Returns the elements as the database writes them. */
    @Override
    public String toString() {
        if (values == null) {
            return "a freed array";
        }
        return Texts.list(Arrays.stream(values).map(Texts::of).toList(), element.type.isNested());
    }
}
