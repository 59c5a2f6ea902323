//! The statement layer: statements that are no queries, and how a query becomes an outcome.

mod alter;
mod alter_column;
mod alter_distributed;
mod attach;
mod attempt;
mod backup;
mod call;
mod cluster;
mod cluster_sequence;
mod column;
mod completion;
mod constraint;
mod copy;
mod databases;
mod ddl;
mod declared_constraint;
mod deferred_keys;
mod definer;
mod describe;
mod dialect;
mod error_place;
mod explain_options;
mod expression;
mod foreign;
mod given_rows;
mod given_types;
#[cfg(test)]
mod golden_plans;
mod index;
mod insert;
mod insert_rows;
mod key_lookup;
mod keyed_query;
mod like_table;
mod local_settings;
mod macros;
mod maintenance;
mod materialized;
mod merge;
mod named_parameters;
mod names;
mod node_call;
mod over_rows;
mod own_schema;
mod parameters;
mod partitions;
mod partners;
mod pivot;
mod planned_parameters;
mod planner;
mod prepared;
mod queries;
mod referential;
mod refusal;
mod renamed_in_views;
mod result;
mod returning;
mod route;
mod row_locks;
mod sequence;
mod sessions;
mod settings;
mod shares;
mod short_plan;
mod start;
mod stored_plan;
mod summarize;
mod target;
#[cfg(test)]
mod test_queries;
mod transaction;
mod update_in_place;
mod values;
mod versions;
mod view_columns;
mod violation;
mod with_writes;
mod write;
mod writer;

pub use settings::{is_own_setting, parse_bytes, system_memory};

use crate::session::kept::Attempt;
use crate::session::outcome::DONE;
use crate::session::statement_cache::{GivenQuery, Other, Parsed, ValuesInsert, positional};
use crate::session::{Outcome, Parameters, Session, may_lock};
use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchReader};
use attach::show_databases;
use attempt::drop_attempt;
use datafusion::sql::parser::{ExplainStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    CreateFunction, DescribeAlias, ObjectType, Set, ShowCreateObject, Statement, VacuumStatement,
};
use dialect::{as_statement, extension, name_columns_for};
use error_place::{located, located_within};
use hypostyle_catalog::databases::check_populated;
use hypostyle_catalog::scope::{Name, Scope, TEMPORARY};
use hypostyle_error::from_datafusion;
use hypostyle_exec::memory::for_text;
use hypostyle_expr::nan::with_one_nan;
use hypostyle_sql::common_table::writes_within;
use hypostyle_sql::gate::{check_size, with_more_room, with_room, with_room_for_text};
use hypostyle_sql::identifier::split_name;
use hypostyle_sql::kind::{Kind, has_in_name};
use hypostyle_sql::names::{name_columns, name_told_columns};
use hypostyle_sql::split::split_statements;
use hypostyle_sql::{Statement as SqlStatement, build};
use hypostyle_storage::{DeclaredIndex, NewColumn, Snapshot, TableEntry, unknown_column, unknown_table};
use hypostyle_types::{Error, ErrorKind, Identity, LogicalType, Result};
use maintenance::built_in_extension;
use materialized::refuse_materialized;
use pivot::write_pivots_out;
use prepared::deallocate;
use queries::Queries;
use refusal::{drop_nothing, refuse, refuse_given};
use result::for_caller;
use sessions::{kill_session, show_sessions};
use settings::{set_search_path, show_tables};
use shares::shares;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stored_plan::StoredPlan;
use summarize::summarize;
use transaction::ATTEMPTS;

impl Session {
    /// Runs the statements of a text and gives the outcome of the last. Each `?` takes the next of the
    /// parameters; those with numbers or names are there for all statements.
    ///
    /// # Errors
    /// The first statement's that fails; the ones before it have taken effect.
    pub fn execute(&self, sql: &str, parameters: &Parameters) -> Result<Outcome> {
        let _text = for_text(sql, &self.context.runtime_env().memory_pool)?;
        let execute = || self.meter.charge(|| self.execute_with_room(sql, parameters));
        let of_macros = self.kept_macros().parts();
        let is_known_query = of_macros == 0 && self.remembered.lock().is_query(sql);
        let outcome = match is_known_query {
            true => with_room_for_text(sql, execute),
            false => with_room(sql, of_macros, execute),
        };
        outcome.and_then(for_caller).map_err(|error| located(error, sql))
    }

    fn execute_with_room(&self, sql: &str, parameters: &Parameters) -> Result<Outcome> {
        let _running = self.enter();
        self.setter().take_configured()?;
        self.run.lock().begin(sql);
        let remembered = self.remembered.lock().get(sql);
        match remembered {
            Some(Parsed::Given(query)) if query.other.given == positional(parameters) => {
                let start = || self.start_unpinned();
                self.in_transaction_from(start, sql, ATTEMPTS, || match query.result(parameters) {
                    Some(result) => Ok(Outcome::batch(result)),
                    None => self.execute_again(sql, &query.other, parameters),
                })
            }
            Some(Parsed::Keyed(other, query)) if other.given == positional(parameters) => {
                let run = || match self.planner().keyed_rows(&query, parameters)? {
                    Some(outcome) => Ok(outcome),
                    None => self.execute_again(sql, &other, parameters),
                };
                self.in_transaction_from(|| self.start(), sql, ATTEMPTS, run)
            }
            Some(Parsed::Other(other)) if other.given == positional(parameters) => {
                let start = || if other.reads_nothing { self.start_unpinned() } else { self.start() };
                self.in_transaction_from(start, sql, ATTEMPTS, || self.execute_again(sql, &other, parameters))
            }
            Some(Parsed::Insert(insert)) => {
                with_more_room(sql, || self.execute_insert(sql, &insert, parameters))
            }
            _ => with_more_room(sql, || self.execute_statements(sql, parameters)),
        }
    }

    /// Runs an INSERT of values that was parsed for an earlier time.
    fn execute_insert(&self, sql: &str, insert: &ValuesInsert, parameters: &Parameters) -> Result<Outcome> {
        let start = || self.start_unpinned();
        let name = *self.next_name.lock();
        let stored =
            self.in_transaction_from(start, sql, ATTEMPTS, || self.dml().insert_values(insert, parameters))?;
        if let Some(outcome) = stored {
            return Ok(outcome);
        }
        // The planner makes the statement that the client has named.
        *self.next_name.lock() = name;
        self.execute_statements(sql, parameters)
    }

    /// Runs statements that nothing is known of.
    fn execute_statements(&self, sql: &str, parameters: &Parameters) -> Result<Outcome> {
        let statements = split_statements(sql);
        let shares = shares(&statements, parameters)?;
        let mut outcome = DONE;
        for (index, statement) in statements.iter().enumerate() {
            if index > 0 {
                self.finish(outcome).inspect_err(|error| self.abort_transaction(error.message()))?;
                self.setter().take_configured()?;
            }
            let parameters = shares.as_ref().map_or(parameters, |shares| &shares[index]);
            let may_change = Kind::read(statement).may_change_session();
            self.forget_state(may_change);
            let locks = may_lock(statement);
            let result = self.in_transaction(statement, || {
                check_size(statement)?;
                let outcome = match locks {
                    true => self.with_locks(|| self.computed(self.execute_one(statement, parameters)?)),
                    false => self.execute_one(statement, parameters),
                };
                outcome.map_err(|error| located_within(error, statement, sql))
            });
            if !self.is_in_transaction() {
                self.locks.end_transaction();
            }
            self.forget_state(may_change);
            outcome = result?;
        }
        Ok(outcome)
    }

    /// Runs a statement that was parsed for an earlier time.
    fn execute_again(&self, sql: &str, other: &Other, parameters: &Parameters) -> Result<Outcome> {
        let statement = DfStatement::Statement(Box::new(other.statement.as_ref().clone()));
        let outcome = match self.names().may_be_small(&statement) {
            true => self.execute_parsed(statement, parameters),
            // What a view reads nests apart from the text, and so do the definitions of a table that changes.
            false => with_more_room(sql, || self.execute_parsed(statement, parameters)),
        }?;
        let given = || GivenQuery::recognize(other, parameters, &outcome).map(Arc::new).map(Parsed::Given);
        let known =
            if other.reads_nothing { given() } else { self.planner().as_keyed(other, parameters, &outcome) };
        if let Some(known) = known {
            self.remembered.lock().put(sql, known);
        }
        Ok(outcome)
    }

    /// Reads a statement of the caller's, with as many values for its `?` as are given, and says whether it
    /// means something else where names mean other tables, or another time: macros change, and so does what a
    /// PIVOT finds.
    pub(super) fn read(&self, sql: &str, given: Option<usize>) -> Result<(SqlStatement, bool)> {
        let is_wire = self.settings.is_wire();
        let known = self.last_read.lock().take_if(|last| last.is(sql, is_wire, given));
        let statement = match known {
            Some(known) => known.statement,
            None => SqlStatement::parse(sql, given, extension(is_wire))?,
        };
        self.meant(sql, statement)
    }

    /// Returns what a statement that is read means now, and says what [`Self::read`] does.
    pub(super) fn meant(&self, sql: &str, mut statement: SqlStatement) -> Result<(SqlStatement, bool)> {
        let is_expanded = self.kept_macros().expand(sql, &mut statement)?;
        let full_name = |parts: &[String]| {
            let name = self.scope.resolve(parts, None).ok()?;
            Some([name.database, name.schema, name.name])
        };
        let is_of_now = sql.contains('.') && statement.qualify(&full_name);
        let is_filled = has_in_name(sql, "pivot") && write_pivots_out(self, &mut statement)?;
        Ok((statement, is_of_now || is_expanded || is_filled))
    }

    pub(super) fn forget_state(&self, may_change: bool) {
        if may_change {
            *self.spare_state.lock() = None;
            self.remembered.lock().forget_results();
        }
    }

    /// Runs a query whose rows nobody will read, for its errors.
    fn finish(&self, outcome: Outcome) -> Result<()> {
        match outcome {
            Outcome::Stream { stream, .. } => self.for_each(stream, |_| Ok(())),
            _ => Ok(()),
        }
    }

    fn execute_one(&self, sql: &str, parameters: &Parameters) -> Result<Outcome> {
        // Drivers put these around each statement, and parsing one takes longer than running it.
        let is = |known: &str| sql.eq_ignore_ascii_case(known);
        if matches!(parameters, Parameters::None) {
            if is("BEGIN") || is("START TRANSACTION") {
                return self.begin(&[]);
            } else if is("COMMIT") {
                return self.commit(false);
            } else if is("ROLLBACK") {
                return self.roll_back(false, None);
            }
        }
        let (statement, is_of_now) = self.read(sql, positional(parameters))?;
        match statement {
            SqlStatement::Tree(statement) => self.execute_tree(sql, *statement, is_of_now, parameters),
            SqlStatement::Cluster(statement) => self.execute_on_cluster(statement, parameters),
            SqlStatement::AlterColumn(alter) => self.ddl().alter_computed(&alter),
            SqlStatement::AlterMaterialized(alter) => self.ddl().alter_materialized(*alter),
            SqlStatement::AlterSequence(definition) => self.ddl().alter_sequence(*definition),
            SqlStatement::Analyze { tables } => self.names().analyze_tables(&tables),
            SqlStatement::BackupDatabase { directory } => self.backup(Path::new(&directory)),
            SqlStatement::CheckDatabase => self.check_database(),
            SqlStatement::Checkpoint => checkpoint(&self.scope, &self.identity),
            SqlStatement::CommentOnConstraint(comment) => self.ddl().comment_constraint(comment),
            SqlStatement::CopyFrom(copy) => self.copy_from(copy),
            SqlStatement::CopyTo(copy) => self.copy_to(copy),
            SqlStatement::CreateLike(like) => self.ddl().create_like(like),
            SqlStatement::CreateMaterialized(view) => self.ddl().create_materialized(view),
            SqlStatement::CreateOrderIndex(index) => self.ddl().create_index(&index, DeclaredIndex::Order),
            SqlStatement::CreateSequence(definition) => self.ddl().create_sequence(*definition),
            SqlStatement::DiscardTemporary => self.discard_temporary(),
            SqlStatement::DropMacro { name, if_exists } => self.kept_macros().drop_macro(&name, if_exists),
            SqlStatement::Explain(options, explained) => match *explained {
                SqlStatement::Tree(explained) => self.explain_with(options, &explained, parameters),
                _ => Err(Error::unsupported("EXPLAIN is for queries, INSERT, UPDATE and DELETE")),
            },
            SqlStatement::ExportDatabase { directory } => self.export_database(Path::new(&directory)),
            SqlStatement::Extension { name } => built_in_extension(&name),
            SqlStatement::ImportDatabase { directory } => self.import_database(Path::new(&directory)),
            SqlStatement::Kill(kill) => kill_session(&self.engine, &self.identity, kill),
            SqlStatement::Pragma(pragma) => self.setter().pragma(pragma),
            SqlStatement::ReadPartition { text } => self.read_partition(&text),
            SqlStatement::RefreshMaterialized(refresh) => self.ddl().refresh_materialized(refresh),
            SqlStatement::ResetVariable { name } => self.kept_macros().reset_variable(&name),
            SqlStatement::Refused(why) => Err(Error::unsupported(why)),
            SqlStatement::SetConstraints(set) => self.set_constraints(set),
            SqlStatement::SetSchema { name } => set_search_path(&self.scope, &self.settings, &name),
            SqlStatement::SetVariable { name, query } => self.kept_macros().set_variable(&name, *query),
            SqlStatement::ShowDatabases => show_databases(&self.scope, &self.identity),
            SqlStatement::ShowIndexes => self.names().show_indexes(),
            SqlStatement::ShowPartitions { query } => self.show_partitions(&query, parameters),
            SqlStatement::ShowSessions => show_sessions(&self.engine, &self.identity, self.id),
            SqlStatement::Summarize(query) => summarize(self, *query),
            SqlStatement::Vacuum { tables } => self.vacuum_tables(&tables),
        }
    }

    /// Runs what the parser has read, and remembers it for the next time, unless it is of now.
    fn execute_tree(
        &self,
        sql: &str,
        mut statement: DfStatement,
        is_of_now: bool,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        if let DfStatement::Statement(inner) = &mut statement
            && Kind::read(sql).is_of_rows()
        {
            if let Statement::Query(query) = inner.as_mut() {
                name_told_columns(query);
            }
            // What takes locks is tried again until they are free.
            if let Some(parsed) =
                Parsed::recognize(inner, parameters).filter(|_| !is_of_now && !may_lock(sql))
            {
                self.remembered.lock().put(sql, parsed);
            }
        }
        if let Some(insert) = ValuesInsert::recognize(&statement) {
            let insert = Arc::new(insert);
            self.remembered.lock().put(sql, Parsed::Insert(insert.clone()));
            if let Some(outcome) = self.dml().insert_values(&insert, parameters)? {
                return Ok(outcome);
            }
            let outcome = self.execute_parsed(statement, parameters);
            return outcome.map_err(|error| self.dml().told_of_column(error, &insert, parameters));
        }
        self.execute_parsed(statement, parameters)
    }

    fn execute_parsed(&self, statement: DfStatement, parameters: &Parameters) -> Result<Outcome> {
        let inner = match statement {
            DfStatement::Statement(inner) => inner,
            DfStatement::Reset(reset) => return self.setter().reset(reset),
            DfStatement::Explain(explain) => return self.explain(explain, parameters),
            other => return self.planner().query(other, parameters),
        };
        match *inner {
            Statement::CreateTable(create) => self.ddl().create_table(create, parameters),
            Statement::CreateView(create) => self.ddl().create_view(create),
            Statement::CreateSchema {
                schema_name,
                if_not_exists,
                with: None,
                options: None,
                default_collate_spec: None,
                clone: None,
            } => self.ddl().create_schema(&schema_name, if_not_exists),
            Statement::CreateSchema { .. } => {
                Err(Error::unsupported("CREATE SCHEMA with options is not supported"))
            }
            Statement::Drop { object_type, if_exists, names, cascade, purge, temporary, .. } => {
                refuse(purge || temporary, "DROP with TEMPORARY or PURGE")?;
                if object_type == ObjectType::Index {
                    return self.ddl().drop_indexes(&names, if_exists);
                }
                self.ddl().drop(object_type, if_exists, &names, cascade)
            }
            Statement::Insert(_) => self.insert(DfStatement::Statement(inner), parameters),
            Statement::Call(function) => self.call(&function),
            Statement::Set(Set::SetTransaction { modes, snapshot: None, session: false }) => {
                self.set_transaction(&modes)
            }
            Statement::Set(Set::SetTransaction { .. }) => Err(Error::unsupported(
                "modes are of one transaction: write them after BEGIN, or as SET TRANSACTION within it",
            )),
            Statement::Set(set) => self.setter().set(set),
            Statement::ShowVariable { variable } => self
                .setter()
                .show(variable.iter().map(|part| part.value.clone()).collect::<Vec<_>>().join(".")),
            Statement::CreateFunction(function) if let Some(attempt) = Attempt::read(&function) => {
                *self.attempt.lock() = Some(attempt);
                Ok(DONE)
            }
            Statement::CreateFunction(CreateFunction { language: Some(language), .. })
                if !language.value.eq_ignore_ascii_case("sql") =>
            {
                Err(Error::unsupported(format!("there are no functions in the language {language}")))
            }
            Statement::CreateFunction(_) => Err(Error::unsupported(
                "CREATE FUNCTION is not supported; write CREATE MACRO, which names an expression, or the expression in the \
                 query, or in a view",
            )),
            Statement::CreateDatabase { .. } => Err(Error::unsupported(
                "CREATE DATABASE is not supported; a database is a directory, made when it is opened first or attached",
            )),
            Statement::CreateMacro { or_replace, temporary, name, args, definition } => self
                .kept_macros()
                .create_macro(&name, or_replace, temporary, args.unwrap_or_default(), definition),
            Statement::DropFunction(drop) => {
                if drop_attempt(&mut self.attempt.lock(), &drop) {
                    return Ok(DONE);
                }
                self.kept_macros().drop_functions(&drop)
            }
            Statement::DropProcedure { if_exists, proc_desc, .. } => {
                let mut names = proc_desc.iter().map(|procedure| procedure.name.to_string());
                names.try_for_each(|name| drop_nothing("procedure", &name, if_exists, "42883")).map(|()| DONE)
            }
            Statement::DropDomain(drop) => {
                let name = drop.name.to_string();
                drop_nothing("domain", &name, drop.if_exists, "42704").map(|()| DONE)
            }
            Statement::Query(query) if writes_within(&query) => self.query_with_writes(*query, parameters),
            Statement::Query(mut query) => {
                if let Some(outcome) = self.call_attempt(&mut query)? {
                    return Ok(outcome);
                }
                if let Some(outcome) = self.planner().whole_table(&query)? {
                    return Ok(outcome);
                }
                name_columns_for(&mut query, self.settings.is_wire());
                self.keep_locked_rows(&query, parameters)?;
                let statement = DfStatement::Statement(Box::new(Statement::Query(query)));
                self.planner().query_for_result(statement, parameters)
            }
            Statement::ShowCreate {
                obj_type: ShowCreateObject::Table | ShowCreateObject::View,
                obj_name,
            } => self.names().show_create(&obj_name),
            Statement::ShowTables { show_options, .. } => show_tables(self, &self.scope, show_options),
            Statement::ExplainTable { table_name, .. } => {
                self.planner().describe_query(build::all_rows(build::table(table_name, None)), parameters)
            }
            Statement::Explain { describe_alias, statement, .. }
                if describe_alias != DescribeAlias::Explain && matches!(*statement, Statement::Query(_)) =>
            {
                let Statement::Query(mut query) = *statement else {
                    return Err(Error::internal("a query that is none"));
                };
                name_columns(&mut query);
                self.planner().describe_query(*query, parameters)
            }
            Statement::Delete(delete) => self.dml().delete(delete, parameters),
            Statement::Update(update) => self.dml().update(update, parameters),
            Statement::Truncate(truncate) => self.ddl().truncate(&truncate),
            Statement::StartTransaction { modes, .. } => self.begin(&modes),
            Statement::Commit { chain, .. } => self.commit(chain),
            Statement::Rollback { chain, savepoint } => self.roll_back(chain, savepoint),
            Statement::Savepoint { name } => self.savepoint(&name),
            Statement::ReleaseSavepoint { name } => self.release_savepoint(&name),
            Statement::Merge(merge) => self.dml().merge(merge, parameters),
            Statement::AlterTable(alter) => self.ddl().alter_table(alter),
            Statement::Comment { object_type, object_name, comment, if_exists, .. } => {
                refuse(if_exists, "COMMENT with IF EXISTS")?;
                self.ddl().comment(object_type, &object_name, comment)
            }
            Statement::AttachDatabase { schema_name, database_file_name, .. } => {
                self.attach(&settings::text_of(&database_file_name), Some(&schema_name), false, &[])
            }
            Statement::AttachDuckDBDatabase {
                if_not_exists,
                database_path,
                database_alias,
                attach_options,
                ..
            } => self.attach(&database_path.value, database_alias.as_ref(), if_not_exists, &attach_options),
            Statement::DetachDuckDBDatabase { if_exists, database_alias, .. } => {
                self.detach(&database_alias, if_exists)
            }
            Statement::Use(names) => self.names().use_names(&names),
            Statement::Prepare { name, data_types, statement } => self.prepare(&name, &data_types, statement),
            Statement::Execute { name: Some(name), parameters, immediate: false, .. } => {
                self.execute_prepared(&name, &parameters)
            }
            Statement::Deallocate { name, .. } => deallocate(&mut self.prepared.lock(), &name),
            Statement::CreateIndex(index) => self.ddl().create_index(&index, DeclaredIndex::Key),
            Statement::Vacuum(VacuumStatement {
                full: _,
                sort_only: false,
                delete_only: false,
                reindex: false,
                recluster: false,
                table_name,
                threshold: None,
                boost: false,
            }) => self.vacuum(table_name.as_ref()),
            Statement::Vacuum(_) => {
                Err(Error::unsupported("VACUUM with another option than FULL is not supported"))
            }
            Statement::CreateType { .. } => Err(Error::unsupported(
                "CREATE TYPE is not supported; for an enumeration take VARCHAR with CHECK (column IN ('one', 'other'))",
            )),
            other => self.planner().query(DfStatement::Statement(Box::new(other)), parameters),
        }
    }

    /// Runs EXPLAIN. For a statement that writes, it explains the query that finds its rows. Other
    /// statements have no plan that may run.
    fn explain(&self, mut explain: ExplainStatement, parameters: &Parameters) -> Result<Outcome> {
        let DfStatement::Statement(statement) = explain.statement.as_ref() else {
            return Err(Error::unsupported(
                "EXPLAIN is for queries, INSERT, UPDATE and DELETE; of COPY explain its query",
            ));
        };
        let mut _target = None;
        match statement.as_ref() {
            Statement::Query(_) => {}
            Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
            | Statement::Truncate(_) => {
                refuse(explain.options.analyze, "EXPLAIN ANALYZE of a statement that writes")?;
                let (query, target) = self.dml().query_of(statement)?;
                *explain.statement = as_statement(query);
                _target = target;
            }
            _ => {
                return Err(Error::unsupported("EXPLAIN is for queries, INSERT, UPDATE and DELETE"));
            }
        }
        self.planner().query(DfStatement::Explain(explain), parameters)
    }

    /// Returns the whole of a table or view.
    pub fn table(&self, name: &str) -> Result<Outcome> {
        let _running = self.enter();
        self.run.lock().begin(&format!("table {name}"));
        self.start()?;
        let Name { database, schema, name: relation } = self.scope.resolve(&split_name(name), None)?;
        if self.scope.foreign(&database).is_some() {
            return self.planner().whole_relation([&database, &schema, &relation]);
        }
        let snapshot = self.scope.database(&database)?.snapshot;
        let full = Name::new(&database, &schema, &relation);
        let is_of_cluster = self.scope.cluster_table(&full).is_some();
        if let Some(table) = snapshot.table(&schema, &relation).filter(|_| !is_of_cluster) {
            check_populated(table.entry())?;
            let threads = self.engine.options().threads;
            return Ok(Outcome::Stored(StoredPlan::whole(table, &snapshot).open(threads)?));
        }
        if snapshot.catalog().view(&schema, &relation).is_none() && !is_of_cluster {
            return Err(unknown_table(snapshot.catalog(), name));
        }
        self.planner().whole_relation([&database, &schema, &relation])
    }

    /// Appends rows that are already in the shape of the caller: by name or by position.
    ///
    /// # Errors
    /// `UnknownName`, `InvalidInput` or `Constraint`, naming column, row and value; nothing is then
    /// appended.
    pub fn append(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        create: bool,
        by_name: bool,
    ) -> Result<u64> {
        let _running = self.enter();
        self.run.lock().begin(&format!("append to {table}"));
        // The rows are gone once they are read.
        let appended = self.in_transaction_once("INSERT", || self.append_rows(table, data, create, by_name));
        appended.map_err(|error| match error.kind() {
            ErrorKind::Conflict => {
                let message = format!("{}; nothing was appended: append the data again", error.message());
                Error::new(ErrorKind::Conflict, message).with_sqlstate(error.sqlstate())
            }
            _ => error,
        })
    }

    /// Checks that rows may be appended to a table, before there are any.
    ///
    /// # Errors
    /// `Denied` without the right to write; `ReadOnly` in a transaction that only reads; `InvalidInput`
    /// (42809) for what is no table.
    pub fn check_append(&self, table: &str) -> Result<()> {
        let _running = self.enter();
        self.refresh()?;
        let Name { database, schema, name } = self.scope.resolve(&split_name(table), None)?;
        if database != TEMPORARY {
            self.identity.privileges.check_write()?;
            if self.transaction.lock().as_ref().is_some_and(|explicit| explicit.read_only) {
                return Err(Error::new(ErrorKind::ReadOnly, "the transaction is read-only; it cannot write"));
            }
        }
        // The other system says what it takes.
        if self.scope.foreign(&database).is_some() {
            return Ok(());
        }
        let snapshot = self.scope.database(&database)?.snapshot;
        match snapshot.catalog().table(&schema, &name) {
            Some(entry) => refuse_materialized(entry),
            None => {
                Err(Error::invalid_input(format!("\"{name}\" is no table; rows cannot be appended to it"))
                    .with_sqlstate("42809"))
            }
        }
    }

    fn append_rows(
        &self,
        table: &str,
        data: Box<dyn RecordBatchReader + Send>,
        create: bool,
        by_name: bool,
    ) -> Result<u64> {
        let found = self.scope.resolve(&split_name(table), None)?;
        if let Some(attached) = self.scope.foreign(&found.database) {
            return self.append_to_foreign(&attached, &found, data, create, by_name);
        }
        let Name { database, schema: schema_name, name } = found;
        let snapshot = self.scope.database(&database)?.snapshot;
        let schema = data.schema();
        let exists = snapshot.table(&schema_name, &name).is_some();
        if !exists && !create {
            let error = unknown_table(snapshot.catalog(), &split_name(table).join("."));
            return Err(Error::new(
                error.kind(),
                format!("{}; an append makes no table unless it is told to create one", error.message()),
            ));
        }
        self.write(&database, |writer| {
            let existing = writer.catalog().table(&schema_name, &name).map(|entry| entry.id);
            let id = match existing {
                Some(id) => id,
                None => writer.create_table(&schema_name, &name, new_columns(&schema)?)?,
            };
            let Some(entry) = writer.catalog().tables.iter().find(|entry| entry.id == id).cloned() else {
                return Err(Error::internal("a table that was just created is missing"));
            };
            refuse_materialized(&entry)?;
            let given = match existing.is_some() && by_name {
                true => places_by_name(&schema, &entry)?,
                false => places_in_order(&schema, &entry)?,
            };
            let mut completion = self.compiler().completion(&database, writer.catalog(), &entry, &given)?;
            let mut rows = 0;
            for batch in data {
                let batch = batch.map_err(|error| from_datafusion(error.into()))?;
                // Scans compare what is stored, before anything else looks at it.
                let batch = with_one_nan(batch).map_err(from_datafusion)?;
                writer.append(id, &completion.complete(&batch)?)?;
                rows += batch.num_rows() as u64;
                self.counters.done.store(rows, Ordering::Relaxed);
                self.check_interrupt()?;
            }
            Ok(rows)
        })
    }

    /// Returns all rows of an outcome.
    pub(crate) fn collect_rows(&self, outcome: Outcome) -> Result<(Arc<Schema>, Vec<RecordBatch>)> {
        match outcome {
            Outcome::Stream { schema, stream } => Ok((schema, self.collect(stream)?)),
            Outcome::Batches { schema, batches, .. } => Ok((schema, batches)),
            Outcome::Stored(stored) => {
                stored.verify_rows(0..stored.rows())?;
                Ok((stored.schema(), stored.batches()?))
            }
            Outcome::Done { .. } => Ok((Arc::new(Schema::empty()), Vec::new())),
        }
    }

    /// Hands on the rows of an outcome, which are never all in memory where they are computed.
    pub(crate) fn each_batch(
        &self,
        outcome: Outcome,
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        match outcome {
            Outcome::Stream { stream, .. } => self.for_each(stream, each),
            other => self.collect_rows(other)?.1.into_iter().try_for_each(|batch| {
                each(batch)?;
                self.check_interrupt()
            }),
        }
    }

    /// Returns the tables and views of the current database, as the session sees them.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.refresh()?;
        Ok(self.scope.current_database()?.snapshot)
    }

    fn check_database(&self) -> Result<Outcome> {
        self.identity.privileges.check_write()?;
        let database = self.scope.current_database()?.database;
        let snapshot = database.snapshot()?;
        let mut interrupted = Ok(());
        let damages = snapshot.check(|progress| {
            self.counters.done.store(progress.rows_done, Ordering::Relaxed);
            self.counters.total.store(progress.rows_total, Ordering::Relaxed);
            interrupted = self.check_interrupt();
            interrupted.is_ok()
        });
        interrupted?;
        self.ddl().build_declared(&snapshot)?;
        if damages.is_empty() && !database.is_read_only() {
            database.adopt()?;
        }
        let text = |value: fn(&hypostyle_storage::Damage) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(damages.iter().map(value)))
        };
        let number = |value: fn(&hypostyle_storage::Damage) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(damages.iter().map(value)))
        };
        let columns = [
            ("schema_name", text(|damage| damage.schema.clone())),
            ("table_name", text(|damage| damage.table.clone())),
            ("column_name", text(|damage| damage.column.clone())),
            ("node", number(|damage| damage.node as i64)),
            ("block", number(|damage| damage.block as i64)),
            ("error", text(|damage| damage.error.message().to_string())),
        ];
        let batch = RecordBatch::try_from_iter(columns)
            .map_err(|error| Error::internal(format!("cannot list the damage: {error}")))?;
        Ok(Outcome::batch(batch))
    }
}

/// Runs CHECKPOINT.
fn checkpoint(scope: &Scope, identity: &Identity) -> Result<Outcome> {
    identity.privileges.check_write()?;
    scope.current_database()?.database.checkpoint()?;
    Ok(DONE)
}

/// Returns the columns of a table made from data of this schema.
pub(crate) fn new_columns(schema: &Schema) -> Result<Vec<NewColumn>> {
    schema
        .fields()
        .iter()
        .map(|field| Ok(NewColumn::new(field.name(), LogicalType::from_arrow(field)?, field.is_nullable())))
        .collect()
}

/// Returns for each column of a table its place in the data; `None` takes the default.
fn places_by_name(schema: &Schema, table: &TableEntry) -> Result<Vec<Option<usize>>> {
    for (index, field) in schema.fields().iter().enumerate() {
        let column = table.column(field.name()).ok_or_else(|| unknown_column(table, field.name()))?;
        refuse_given(&table.name, column)?;
        if schema.fields()[..index].iter().any(|before| before.name() == field.name()) {
            return Err(Error::invalid_input(format!("the data has two columns \"{}\"", field.name())));
        }
    }
    Ok(table.columns.iter().map(|column| schema.index_of(&column.name).ok()).collect())
}

/// Returns the same for data whose columns are those of the table, but for the ones that make their
/// own values.
fn places_in_order(schema: &Schema, table: &TableEntry) -> Result<Vec<Option<usize>>> {
    let (mut next, width) = (0, schema.fields().len());
    let places: Vec<Option<usize>> = table
        .columns
        .iter()
        .map(|column| {
            refuse_given(&table.name, column).is_ok().then(|| {
                next += 1;
                next - 1
            })
        })
        .collect();
    if next != width {
        let which = if next == places.len() { "" } else { " to be given" };
        return Err(Error::invalid_input(format!(
            "table \"{}\" has {next} columns{which}, but the data has {width}",
            table.name
        )));
    }
    Ok(places)
}
