/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.hibernate;

import org.hibernate.LockMode;
import org.hibernate.dialect.DatabaseVersion;
import org.hibernate.dialect.PostgreSQLDialect;
import org.hibernate.engine.jdbc.dialect.spi.DialectResolutionInfo;

/** The SQL of Hypostyle for Hibernate: PostgreSQL's, without locks of rows, which transactions here have none of. */
public class HypostyleDialect extends PostgreSQLDialect {
    private static final DatabaseVersion AS_POSTGRESQL = DatabaseVersion.make(15);

    /** Makes a dialect. */
    public HypostyleDialect() {
        super(AS_POSTGRESQL);
    }

    /** Makes a dialect for a connection's database. */
    public HypostyleDialect(DialectResolutionInfo info) {
        super(AS_POSTGRESQL);
    }

    /** Returns none: PostgreSQL's setting of messages is not there. */
    @Override
    public String getBeforeDropStatement() {
        return null;
    }

    @Override
    public String getForUpdateString() {
        return "";
    }

    @Override
    public String getForUpdateString(LockMode lockMode) {
        return "";
    }

    @Override
    public boolean supportsSkipLocked() {
        return false;
    }

    @Override
    public boolean supportsNoWait() {
        return false;
    }

    @Override
    public boolean supportsOuterJoinForUpdate() {
        return true;
    }

    /** Enumerations are texts with a CHECK: there is no CREATE TYPE. */
    @Override
    public String getEnumTypeDeclaration(String name, String[] values) {
        return null;
    }
}
