//! The rows of those relations that have any.

use crate::pg_catalog::definition;
use crate::pg_catalog::definition::{action_code, quote};
use crate::pg_catalog::objects::{
    INFORMATION_SCHEMA_OID, OWNER_OID, Objects, PG_CATALOG_OID, Relation, What, attribute_number,
    database_oid,
};
use crate::pg_catalog::rows::{Row, SystemRelation, row, system_relations};
use crate::pg_catalog::settings::Settings;
use crate::pg_catalog::standard::standard_relations;
use crate::pg_catalog::type_rows::{NO_FUNCTION, procedures, type_rows};
use crate::scope::Scope;
use datafusion::sql::sqlparser::ast::Expr;
use hypostyle_expr::named_zones;
use hypostyle_pgtypes::types::{Shown, TEXT, by_name, shown};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_sql::walk::expressions;
use hypostyle_storage::{ConstraintRule, Deferral, Identity, TableEntry};
use hypostyle_types::{LogicalType, Result};
use std::collections::HashSet;
use std::ops::ControlFlow;

const HEAP: i64 = 2;
const BTREE: i64 = 403;
const DEFAULT_TABLESPACE: i64 = 1663;
const DEFAULT_COLLATION: i64 = 100;
const CLASS_OF_RELATIONS: i64 = 1259;
const CLASS_OF_SCHEMAS: i64 = 2615;
const CLASS_OF_CONSTRAINTS: i64 = 2606;
const INT8_OID: i64 = 20;
const UTF8: i64 = 6;

/// The columns of a view, which planning it tells.
pub(super) type ViewColumns = Vec<(i64, Vec<(String, LogicalType)>)>;

/// The objects that the rows are built from.
pub(super) struct Source<'a> {
    pub scope: &'a Scope,
    pub objects: &'a Objects,
    pub settings: &'a Settings,
    pub views: &'a ViewColumns,
    /// Names of the session's functions.
    pub functions: &'a [String],
}

/// Says whether a relation never has rows.
pub(super) fn is_empty(name: &str) -> bool {
    !FILLED.iter().any(|(filled, _)| *filled == name)
}

/// Returns the rows of one relation.
pub(super) fn rows(name: &str, source: &Source<'_>) -> Result<Vec<Row>> {
    match FILLED.iter().find(|(filled, _)| *filled == name) {
        Some((_, rows)) => rows(source),
        None => Ok(Vec::new()),
    }
}

type Fill = fn(&Source<'_>) -> Result<Vec<Row>>;

const FILLED: [(&str, Fill); 28] = [
    ("pg_am", |_| {
        Ok(vec![
            row! { oid: HEAP, amname: "heap", amtype: "t" },
            row! { oid: BTREE, amname: "btree", amtype: "i" },
        ])
    }),
    ("pg_attrdef", |source| Ok(defaults(source))),
    ("pg_attribute", |source| Ok(attributes(source))),
    ("pg_authid", |source| Ok(roles(source))),
    ("pg_class", |source| Ok(classes(source))),
    ("pg_collation", |_| Ok(collations())),
    ("pg_constraint", |source| Ok(constraints(source))),
    ("pg_database", |source| Ok(databases(source))),
    ("pg_depend", |source| Ok(dependencies(source))),
    ("pg_description", |source| Ok(descriptions(source))),
    ("pg_index", |source| Ok(indexes(source))),
    ("pg_indexes", |source| Ok(index_texts(source))),
    ("pg_language", |_| {
        Ok(vec![
            row! { oid: 12_i64, lanname: "internal", lanowner: OWNER_OID, lanispl: false, lanpltrusted: false },
        ])
    }),
    ("pg_matviews", |source| Ok(materialized_views(source))),
    ("pg_namespace", |source| Ok(namespaces(source))),
    ("pg_proc", |source| Ok(functions(source))),
    ("pg_roles", |source| Ok(roles(source))),
    ("pg_sequence", |source| Ok(sequences(source))),
    ("pg_sequences", |source| Ok(sequence_texts(source))),
    ("pg_settings", |source| Ok(settings(source))),
    ("pg_stat_activity", |source| Ok(activity(source))),
    ("pg_stat_user_tables", |source| Ok(statistics(source))),
    ("pg_tables", |source| Ok(tables(source))),
    ("pg_tablespace", |_| {
        Ok(vec![row! { oid: DEFAULT_TABLESPACE, spcname: "pg_default", spcowner: OWNER_OID }])
    }),
    ("pg_timezone_names", |_| Ok(time_zones())),
    // All are of the system.
    ("pg_type", |_| Ok(Vec::new())),
    ("pg_user", |source| {
        let is_super = source.scope.privileges().machine;
        Ok(vec![row! {
            usename: source.settings.user(), usesysid: OWNER_OID, usecreatedb: is_super, usesuper: is_super,
            userepl: false, usebypassrls: is_super,
        }])
    }),
    ("pg_views", |source| Ok(views(source))),
];

fn namespaces(source: &Source<'_>) -> Vec<Row> {
    let schemas = source.objects.schemas.iter();
    schemas.map(|(oid, name)| row! { oid: *oid, nspname: name.as_str(), nspowner: OWNER_OID }).collect()
}

/// Returns the rows of relations of the system themselves, and of types, which are always the same.
pub(super) fn system_rows(name: &str) -> Vec<Row> {
    let of_schemas = [(PG_CATALOG_OID, system_relations()), (INFORMATION_SCHEMA_OID, standard_relations())];
    let all = of_schemas
        .into_iter()
        .flat_map(|(schema, relations)| relations.iter().map(move |relation| (schema, relation)));
    match name {
        "pg_class" => all.map(|(schema, relation)| system_class(schema, relation)).collect(),
        "pg_attribute" => all.flat_map(|(_, relation)| system_attributes(relation)).collect(),
        "pg_type" => type_rows(),
        _ => Vec::new(),
    }
}

fn system_class(schema: i64, relation: &SystemRelation) -> Row {
    row! {
        oid: relation.oid, relname: relation.name, relnamespace: schema, reltype: 0_i64,
        relowner: OWNER_OID, relam: if relation.is_view { 0 } else { HEAP }, reltuples: -1.0,
        relkind: if relation.is_view { "v" } else { "r" }, relpersistence: "p",
        relnatts: relation.columns.len(), relhasindex: false, relchecks: 0_i64, relhasrules: relation.is_view,
        relhastriggers: false, relhassubclass: false, relrowsecurity: false, relforcerowsecurity: false,
        relispopulated: true, relreplident: "n", relispartition: false, reltablespace: 0_i64,
        reloftype: 0_i64, reltoastrelid: 0_i64, relpages: 0_i64, relallvisible: 0_i64, relisshared: false,
        relrewrite: 0_i64, relfilenode: 0_i64, relfrozenxid: 0_i64, relminmxid: 0_i64,
    }
}

fn system_attributes(relation: &SystemRelation) -> Vec<Row> {
    let mut rows = Vec::with_capacity(relation.columns.len());
    for (place, (name, _)) in relation.columns.iter().enumerate() {
        let (scalar, is_array) =
            relation.types.get(place).and_then(|of| by_name(of)).unwrap_or((TEXT, false));
        let shown = Shown { scalar, is_array, modifier: -1 };
        let mut row = attribute(relation.oid, place as i64 + 1, name, shown, false);
        row.extend(row! { atthasdef: false, attidentity: "", attgenerated: "" });
        rows.push(row);
    }
    rows
}

fn classes(source: &Source<'_>) -> Vec<Row> {
    let own = source.objects.relations.iter().map(|relation| {
        let (kind, columns, rows, method, checks, has_index) = match &relation.what {
            What::Table { entry, rows } => {
                let is_check = |rule: &ConstraintRule| matches!(rule, ConstraintRule::Check { .. });
                let checks = entry.constraints.iter().filter(|constraint| is_check(&constraint.rule)).count();
                let kind = if entry.query.is_some() { "m" } else { "r" };
                (kind, entry.columns.len(), *rows as f64, HEAP, checks, has_indexes(entry))
            }
            What::View(_) => ("v", view_columns(source, relation).len(), -1.0, 0, 0, false),
            What::Sequence(_) => ("S", 3, 1.0, 0, 0, false),
            What::Index { columns, .. } => ("i", columns.len(), -1.0, BTREE, 0, false),
        };
        let is_populated = !matches!(&relation.what, What::Table { entry, .. } if entry.is_unpopulated());
        // PostgreSQL implements foreign keys by triggers on both sides; its programs ask for these
        // triggers.
        let triggers = source.objects.constraints.iter().any(|constraint| match &constraint.entry.rule {
            ConstraintRule::ForeignKey { table, .. } => {
                constraint.table == relation.oid
                    || Objects::oid_of_table(constraint.table, table.0) == relation.oid
            }
            _ => false,
        });
        row! {
            oid: relation.oid, relname: relation.name.as_str(), relnamespace: relation.schema,
            // PostgreSQL has a type for the rows of each table.
            reltype: 0_i64, relowner: OWNER_OID, relam: method, reltuples: rows, relkind: kind,
            relpersistence: if relation.temporary { "t" } else { "p" }, relnatts: columns,
            relhasindex: has_index, relchecks: checks, relhasrules: matches!(kind, "v" | "m"), relhastriggers: triggers,
            relhassubclass: false, relrowsecurity: false, relforcerowsecurity: false, relispopulated: is_populated,
            relreplident: "d", relispartition: false, reltablespace: 0_i64, reloftype: 0_i64,
            reltoastrelid: 0_i64, relpages: 0_i64, relallvisible: 0_i64, relisshared: false, relrewrite: 0_i64,
            relfilenode: relation.oid, relfrozenxid: 0_i64, relminmxid: 0_i64,
        }
    });
    own.collect()
}

fn has_indexes(table: &TableEntry) -> bool {
    !table.indexes.is_empty() || table.constraints.iter().any(|constraint| constraint.rule.key().is_some())
}

fn view_columns<'a>(source: &'a Source<'_>, relation: &Relation) -> &'a [(String, LogicalType)] {
    let found = source.views.iter().find(|(oid, _)| *oid == relation.oid);
    found.map_or(&[], |(_, columns)| columns.as_slice())
}

fn attribute(relation: i64, number: i64, name: &str, shown: Shown, not_null: bool) -> Row {
    row! {
        attrelid: relation, attname: name, atttypid: shown.oid(), attstattarget: -1_i64,
        attlen: i64::from(shown.bytes()), attnum: number, attndims: i64::from(shown.is_array), attcacheoff: -1_i64,
        atttypmod: shown.modifier, attbyval: shown.bytes() > 0 && shown.bytes() <= 8,
        attalign: shown.scalar.alignment, attstorage: if shown.bytes() < 0 { "x" } else { "p" },
        attcompression: "", attnotnull: not_null, atthasmissing: false, attisdropped: false, attislocal: true,
        attinhcount: 0_i64, attcollation: if shown.scalar.category == 'S' { DEFAULT_COLLATION } else { 0 },
    }
}

fn attributes(source: &Source<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for relation in &source.objects.relations {
        match &relation.what {
            What::Table { entry, .. } => rows.extend(entry.columns.iter().map(|column| {
                let number = attribute_number(column.id);
                let mut row = attribute(
                    relation.oid,
                    number,
                    &column.name,
                    shown(&column.logical_type),
                    !column.nullable,
                );
                row.extend(row! {
                    atthasdef: column.default.is_some() || column.generated.is_some(),
                    attidentity: match column.identity {
                        None => "",
                        Some(Identity::Always) => "a",
                        Some(Identity::ByDefault) => "d",
                    },
                    attgenerated: if column.generated.is_some() { "s" } else { "" },
                });
                row
            })),
            What::View(_) => {
                let columns = view_columns(source, relation).iter().zip(1..);
                rows.extend(columns.map(|((name, logical_type), number)| {
                    let mut row = attribute(relation.oid, number, name, shown(logical_type), false);
                    row.extend(row! { atthasdef: false, attidentity: "", attgenerated: "" });
                    row
                }));
            }
            What::Index { table, columns, .. } => {
                let Some(entry) = source.objects.table(*table) else { continue };
                for (id, number) in columns.iter().zip(1..) {
                    let Some(column) = entry.columns.iter().find(|column| column.id == *id) else { continue };
                    let mut row =
                        attribute(relation.oid, number, &column.name, shown(&column.logical_type), false);
                    row.extend(row! { atthasdef: false, attidentity: "", attgenerated: "" });
                    rows.push(row);
                }
            }
            What::Sequence(_) => {
                for (name, number, logical_type) in [
                    ("last_value", 1, LogicalType::BigInt),
                    ("log_cnt", 2, LogicalType::BigInt),
                    ("is_called", 3, LogicalType::Boolean),
                ] {
                    let mut row = attribute(relation.oid, number, name, shown(&logical_type), true);
                    row.extend(row! { atthasdef: false, attidentity: "", attgenerated: "" });
                    rows.push(row);
                }
            }
        }
    }
    rows
}

/// Returns the tables with their numbers.
fn entries<'a>(source: &'a Source<'_>) -> impl Iterator<Item = (&'a Relation, &'a TableEntry)> {
    source.objects.relations.iter().filter_map(|relation| match &relation.what {
        What::Table { entry, .. } => Some((relation, entry.as_ref())),
        _ => None,
    })
}

fn defaults(source: &Source<'_>) -> Vec<Row> {
    let (mut rows, mut numbers) = (Vec::new(), Objects::default());
    for (relation, entry) in entries(source) {
        for column in &entry.columns {
            let Some(sql) = column.generated.as_ref().or(column.default.as_ref()) else { continue };
            let number = attribute_number(column.id);
            rows.push(row! {
                oid: numbers.number(&["default", &relation.oid.to_string(), &number.to_string()]),
                adrelid: relation.oid, adnum: number, adbin: sql.as_str(),
            });
        }
    }
    rows
}

/// Returns the columns of a table that an expression of it names.
fn columns_named(table: &TableEntry, sql: &str) -> Vec<hypostyle_types::ColumnId> {
    let Ok(expr) = parse_as_written(sql) else { return Vec::new() };
    let mut names = HashSet::new();
    let _all = expressions(&expr, &mut |part| {
        match part {
            Expr::Identifier(name) => _ = names.insert(fold(name)),
            Expr::CompoundIdentifier(parts) => names.extend(parts.iter().map(fold)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    table.columns.iter().filter(|column| names.contains(&column.name)).map(|column| column.id).collect()
}

fn constraints(source: &Source<'_>) -> Vec<Row> {
    let numbers = |columns: &[hypostyle_types::ColumnId]| {
        columns.iter().map(|column| attribute_number(*column)).collect::<Vec<i64>>()
    };
    let each = source.objects.constraints.iter().map(|constraint| {
        let mut row = row! {
            oid: constraint.oid, conname: constraint.entry.name.as_str(), connamespace: constraint.schema,
            condeferrable: constraint.entry.deferral != Deferral::Never,
            condeferred: constraint.entry.deferral == Deferral::AtFirst, convalidated: true, conrelid: constraint.table,
            contypid: 0_i64, conindid: constraint.index, conparentid: 0_i64, conislocal: true, coninhcount: 0_i64,
            connoinherit: true, confupdtype: " ", confdeltype: " ", confmatchtype: " ",
        };
        row.retain(|(name, _)| !name.starts_with("conf") || !matches!(constraint.entry.rule, ConstraintRule::ForeignKey { .. }));
        row.extend(match &constraint.entry.rule {
            ConstraintRule::PrimaryKey { columns } => {
                row! { contype: "p", conkey: numbers(columns), confrelid: 0_i64 }
            }
            ConstraintRule::Unique { columns } => row! { contype: "u", conkey: numbers(columns), confrelid: 0_i64 },
            ConstraintRule::Check { sql } => {
                let mut row = row! { contype: "c", confrelid: 0_i64, conbin: sql.as_str() };
                let table = source.objects.table(constraint.table);
                let columns = table.map_or_else(Vec::new, |table| columns_named(table, sql));
                if !columns.is_empty() {
                    row.extend(row! { conkey: numbers(&columns) });
                }
                row
            }
            ConstraintRule::ForeignKey { columns, table, referred, on_delete, on_update } => row! {
                contype: "f", conkey: numbers(columns), confkey: numbers(referred),
                confrelid: Objects::oid_of_table(constraint.table, table.0), confupdtype: action_code(*on_update),
                confdeltype: action_code(*on_delete), confmatchtype: "s",
            },
        });
        row
    });
    each.collect()
}

fn indexes(source: &Source<'_>) -> Vec<Row> {
    let each = source.objects.relations.iter().filter_map(|relation| {
        let What::Index { table, columns, unique, primary } = &relation.what else { return None };
        let zeros: Vec<i64> = vec![0; columns.len()];
        Some(row! {
            indexrelid: relation.oid, indrelid: *table, indnatts: columns.len(), indnkeyatts: columns.len(),
            indisunique: *unique, indnullsnotdistinct: false, indisprimary: *primary, indisexclusion: false,
            indimmediate: true, indisclustered: false, indisvalid: true, indcheckxmin: false, indisready: true,
            indislive: true, indisreplident: false,
            indkey: columns.iter().map(|column| attribute_number(*column)).collect::<Vec<i64>>(),
            indcollation: zeros.clone(), indclass: zeros.clone(), indoption: zeros,
        })
    });
    each.collect()
}

fn index_texts(source: &Source<'_>) -> Vec<Row> {
    let each = source.objects.relations.iter().filter_map(|relation| {
        let What::Index { table, .. } = &relation.what else { return None };
        let of = source.objects.relation(*table)?;
        Some(row! {
            schemaname: relation.schema_name.as_str(), tablename: of.name.as_str(), indexname: relation.name.as_str(),
            indexdef: definition::index(source.objects, relation, 0)?,
        })
    });
    each.collect()
}

fn sequences(source: &Source<'_>) -> Vec<Row> {
    let each = source.objects.relations.iter().filter_map(|relation| {
        let What::Sequence(sequence) = &relation.what else { return None };
        Some(row! {
            seqrelid: relation.oid, seqtypid: INT8_OID, seqstart: sequence.start, seqincrement: sequence.increment,
            seqmax: sequence.max, seqmin: sequence.min, seqcache: 1_i64, seqcycle: sequence.cycle,
        })
    });
    each.collect()
}

fn sequence_texts(source: &Source<'_>) -> Vec<Row> {
    let each = source.objects.relations.iter().filter_map(|relation| {
        let What::Sequence(sequence) = &relation.what else { return None };
        let mut row = row! {
            schemaname: relation.schema_name.as_str(), sequencename: relation.name.as_str(),
            sequenceowner: source.settings.user(), data_type: "bigint", start_value: sequence.start,
            min_value: sequence.min, max_value: sequence.max, increment_by: sequence.increment,
            cycle: sequence.cycle, cache_size: 1_i64,
        };
        if sequence.state.is_called {
            row.extend(row! { last_value: sequence.state.last });
        }
        Some(row)
    });
    each.collect()
}

/// Returns which column a sequence belongs to.
fn dependencies(source: &Source<'_>) -> Vec<Row> {
    let each = source.objects.relations.iter().filter_map(|relation| {
        let What::Sequence(sequence) = &relation.what else { return None };
        let owner = sequence.owner?;
        let base = if relation.temporary { 0x2000_0000 } else { 0 };
        Some(row! {
            classid: CLASS_OF_RELATIONS, objid: relation.oid, objsubid: 0_i64, refclassid: CLASS_OF_RELATIONS,
            refobjid: Objects::oid_of_table(base, owner.table.0), refobjsubid: attribute_number(owner.column),
            deptype: "i",
        })
    });
    each.collect()
}

fn descriptions(source: &Source<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |class: i64, oid: i64, number: i64, comment: &Option<String>| {
        if let Some(comment) = comment {
            rows.push(row! { objoid: oid, classoid: class, objsubid: number, description: comment.as_str() });
        }
    };
    for (oid, comment) in &source.objects.comments {
        add(CLASS_OF_SCHEMAS, *oid, 0, &Some(comment.clone()));
    }
    for constraint in &source.objects.constraints {
        add(CLASS_OF_CONSTRAINTS, constraint.oid, 0, &constraint.entry.comment);
    }
    for relation in &source.objects.relations {
        add(CLASS_OF_RELATIONS, relation.oid, 0, relation.comment());
        if let What::Table { entry, .. } = &relation.what {
            for column in &entry.columns {
                add(CLASS_OF_RELATIONS, relation.oid, attribute_number(column.id), &column.comment);
            }
        }
    }
    rows
}

fn databases(source: &Source<'_>) -> Vec<Row> {
    let names: Vec<String> = source.scope.databases.read().iter().map(|named| named.name.clone()).collect();
    let each = names.iter().filter(|name| name.as_str() != crate::scope::TEMPORARY).map(|name| {
        row! {
            oid: database_oid(name), datname: name.as_str(), datdba: OWNER_OID, encoding: UTF8, datlocprovider: "c",
            datistemplate: false, datallowconn: true, datconnlimit: -1_i64, dattablespace: DEFAULT_TABLESPACE,
            datcollate: "C", datctype: "C",
        }
    });
    each.collect()
}

fn roles(source: &Source<'_>) -> Vec<Row> {
    // A superuser is a user with rights to the whole machine.
    let is_super = source.scope.privileges().machine;
    vec![row! {
        oid: OWNER_OID, rolname: source.settings.user(), rolsuper: is_super, rolinherit: true, rolcreaterole: is_super,
        rolcreatedb: is_super, rolcanlogin: true, rolreplication: false, rolconnlimit: -1_i64, rolbypassrls: is_super,
    }]
}

fn time_zones() -> Vec<Row> {
    let each = named_zones().into_iter().map(|zone| {
        let (sign, seconds) = (if zone.offset < 0 { "-" } else { "" }, zone.offset.unsigned_abs());
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        row! {
            name: zone.name, abbrev: zone.abbreviation, utc_offset: format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
            is_dst: zone.is_summer,
        }
    });
    each.collect()
}

fn collations() -> Vec<Row> {
    let of = |oid: i64, name: &str| {
        row! {
            oid: oid, collname: name, collnamespace: PG_CATALOG_OID, collowner: OWNER_OID, collprovider: "c",
            collisdeterministic: true, collencoding: -1_i64,
        }
    };
    vec![of(DEFAULT_COLLATION, "default"), of(950, "C"), of(951, "POSIX")]
}

fn functions(source: &Source<'_>) -> Vec<Row> {
    let mut numbers = Objects::default();
    let function = |oid: i64, name: &str| {
        row! {
            oid: oid, proname: name, pronamespace: PG_CATALOG_OID, proowner: OWNER_OID, prolang: 12_i64, procost: 1.0,
            prorows: 0.0, provariadic: 0_i64, prosupport: NO_FUNCTION, prokind: "f", prosecdef: false,
            proleakproof: false, proisstrict: false, proretset: false, provolatile: "s", proparallel: "s",
            pronargs: 0_i64, pronargdefaults: 0_i64, prorettype: 25_i64, proargtypes: Vec::<i64>::new(), prosrc: name,
        }
    };
    let own = source.functions.iter().map(|name| function(number_of_function(&mut numbers, name), name));
    let of_types = procedures().iter().map(|(oid, name)| function(*oid, name));
    own.chain(of_types).collect()
}

/// Returns the number of a function that is not one of PostgreSQL's types.
pub(super) fn number_of_function(numbers: &mut Objects, name: &str) -> i64 {
    numbers.number(&["function", name])
}

fn settings(source: &Source<'_>) -> Vec<Row> {
    let each = source.settings.all().into_iter().map(|(name, value)| {
        row! {
            name: name, setting: value.as_str(), category: "", short_desc: "", context: "user", vartype: "string",
            source: "default", boot_val: value.as_str(), reset_val: value.as_str(), pending_restart: false,
        }
    });
    each.collect()
}

fn activity(source: &Source<'_>) -> Vec<Row> {
    vec![row! {
        datid: database_oid(&source.scope.current().0), datname: source.scope.current().0,
        pid: i64::from(source.settings.process()), usesysid: OWNER_OID, usename: source.settings.user(),
        application_name: source.settings.get("application_name").unwrap_or_default(), state: "active",
        backend_type: "client backend",
    }]
}

fn statistics(source: &Source<'_>) -> Vec<Row> {
    let each = source.objects.relations.iter().filter_map(|relation| {
        let What::Table { rows, .. } = &relation.what else { return None };
        Some(row! {
            relid: relation.oid, schemaname: relation.schema_name.as_str(), relname: relation.name.as_str(),
            n_live_tup: *rows as i64, n_dead_tup: 0_i64,
        })
    });
    each.collect()
}

fn tables(source: &Source<'_>) -> Vec<Row> {
    let own = entries(source).filter(|(_, entry)| entry.query.is_none()).map(|(relation, entry)| {
        row! {
            schemaname: relation.schema_name.as_str(), tablename: relation.name.as_str(),
            tableowner: source.settings.user(), hasrules: false, hastriggers: false, rowsecurity: false,
            hasindexes: has_indexes(entry),
        }
    });
    own.collect()
}

fn materialized_views(source: &Source<'_>) -> Vec<Row> {
    let each = entries(source).filter_map(|(relation, entry)| {
        let query = entry.query.as_ref()?;
        Some(row! {
            schemaname: relation.schema_name.as_str(), matviewname: relation.name.as_str(),
            matviewowner: source.settings.user(), hasindexes: has_indexes(entry),
            ispopulated: query.populated, definition: query.sql.as_str(),
        })
    });
    each.collect()
}

fn views(source: &Source<'_>) -> Vec<Row> {
    let each = source.objects.relations.iter().filter_map(|relation| {
        let What::View(view) = &relation.what else { return None };
        Some(row! {
            schemaname: relation.schema_name.as_str(), viewname: relation.name.as_str(),
            viewowner: source.settings.user(), definition: view.sql.as_str(),
        })
    });
    each.collect()
}

/// Returns the name of the sequence that a column owns, as `pg_get_serial_sequence` gives it.
pub(super) fn serial_sequence(objects: &Objects, table: &Relation, column: &str) -> Option<String> {
    let What::Table { entry, .. } = &table.what else { return None };
    let column = entry.column(column)?;
    let found = objects.relations.iter().find(|relation| {
        matches!(&relation.what, What::Sequence(sequence)
            if relation.temporary == table.temporary
                && sequence.owner.is_some_and(|owner| owner.table == entry.id && owner.column == column.id))
    })?;
    Some(format!("{}.{}", quote(&found.schema_name), quote(&found.name)))
}
