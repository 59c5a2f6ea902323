/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.jdbc;

import java.util.Set;

/** The reserved words of SQL:2003 that this database reserves, too (ISO/IEC 9075-2:2003, 5.2), in lower case. */
final class Sql2003 {
    static final Set<String> KEYWORDS = Set.of("all", "and", "any", "array", "as", "asymmetric", "both", "case", "cast",
            "check", "collate", "column", "constraint", "create", "current_date", "current_role", "current_time",
            "current_timestamp", "current_user", "default", "distinct", "else", "end", "except", "false", "fetch", "for",
            "foreign", "from", "grant", "group", "having", "in", "intersect", "into", "lateral", "leading", "localtime",
            "localtimestamp", "not", "null", "only", "or", "order", "primary", "references", "select", "session_user",
            "some", "symmetric", "table", "then", "to", "trailing", "true", "union", "unique", "user", "using", "when",
            "where", "window", "with");

    private Sql2003() {}
}
