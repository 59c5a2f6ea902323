/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.hibernate;

import org.hibernate.dialect.Dialect;
import org.hibernate.engine.jdbc.dialect.spi.DialectResolutionInfo;
import org.hibernate.engine.jdbc.dialect.spi.DialectResolver;

/** Finds the dialect by the name of the product that a connection's metadata tells. */
public class HypostyleDialectResolver implements DialectResolver {
    @Override
    public Dialect resolveDialect(DialectResolutionInfo info) {
        return info.getDatabaseName().equals("Hypostyle") ? new HypostyleDialect(info) : null;
    }
}
