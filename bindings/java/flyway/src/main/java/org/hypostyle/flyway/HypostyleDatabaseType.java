/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.flyway;

import java.sql.Connection;
import java.sql.Types;
import org.flywaydb.core.api.ResourceProvider;
import org.flywaydb.core.api.configuration.Configuration;
import org.flywaydb.core.internal.database.base.BaseDatabaseType;
import org.flywaydb.core.internal.database.base.Database;
import org.flywaydb.core.internal.jdbc.JdbcConnectionFactory;
import org.flywaydb.core.internal.jdbc.StatementInterceptor;
import org.flywaydb.core.internal.parser.Parser;
import org.flywaydb.core.internal.parser.ParsingContext;

/** Makes Flyway know Hypostyle's URLs. */
public class HypostyleDatabaseType extends BaseDatabaseType {
    /** How far a parser looks ahead, in characters. */
    private static final int PEEK_DEPTH = 3;

    @Override
    public String getName() {
        return "Hypostyle";
    }

    @Override
    public int getNullType() {
        return Types.NULL;
    }

    @Override
    public boolean handlesJDBCUrl(String url) {
        return url.startsWith("jdbc:hypostyle:") || url.startsWith("jdbc:hypostyle+unix:");
    }

    @Override
    public String getDriverClass(String url, ClassLoader classLoader) {
        return "org.hypostyle.jdbc.HypostyleDriver";
    }

    /** Looks at the product's name, behind which Flyway has written its version. */
    @Override
    public boolean handlesDatabaseProductNameAndVersion(String name, String version, Connection connection) {
        return name.startsWith("Hypostyle");
    }

    @Override
    public Database<?> createDatabase(Configuration configuration, JdbcConnectionFactory factory,
            StatementInterceptor interceptor) {
        return new HypostyleDatabase(configuration, factory, interceptor);
    }

    @Override
    public Parser createParser(Configuration configuration, ResourceProvider resources, ParsingContext context) {
        return new Parser(configuration, context, PEEK_DEPTH) {
            @Override
            protected char getAlternativeStringLiteralQuote() {
                return '$';
            }
        };
    }

    /** Returns false: a database in the process has no users. */
    @Override
    public boolean detectUserRequiredByUrl(String url) {
        return false;
    }

    @Override
    public boolean detectPasswordRequiredByUrl(String url) {
        return false;
    }
}
