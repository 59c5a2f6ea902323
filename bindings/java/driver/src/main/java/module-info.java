/* SPDX-License-Identifier: Apache-2.0 */

/** A driver of JDBC for Hypostyle, a columnar database in the process or on a server. */
module org.hypostyle.jdbc {
    requires transitive java.sql;
    requires java.sql.rowset;

    exports org.hypostyle.jdbc;

    provides java.sql.Driver with org.hypostyle.jdbc.HypostyleDriver;
}
