package hypostyle

/*
#include <hypostyle.h>

// Tells where the next statement is by its place, so that no address of Go's comes back.
static hypostyle_status next_place(const char *sql, size_t length, size_t *start, size_t *place, size_t *found,
                                   hypostyle_error **error) {
  const char *statement = sql;
  hypostyle_status status = hypostyle_next_statement(sql, length, start, &statement, found, error);
  *place = (size_t)(statement - sql);
  return status;
}
*/
import "C"

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"sync"
)

// Conn is a session with a database, as [sql.Conn.Raw] and [Raw] give it. Its methods are for one
// goroutine at a time.
type Conn struct {
	mu     sync.RWMutex // held for writing when the handle is freed, for reading by interrupts
	handle *C.hypostyle_connection
	broken bool
	// isPostgres says that the database is one of PostgreSQL.
	isPostgres bool
}

var (
	_ driver.Conn               = (*Conn)(nil)
	_ driver.ConnBeginTx        = (*Conn)(nil)
	_ driver.ConnPrepareContext = (*Conn)(nil)
	_ driver.ExecerContext      = (*Conn)(nil)
	_ driver.QueryerContext     = (*Conn)(nil)
	_ driver.NamedValueChecker  = (*Conn)(nil)
	_ driver.Pinger             = (*Conn)(nil)
	_ driver.SessionResetter    = (*Conn)(nil)
	_ driver.Validator          = (*Conn)(nil)
)

// Raw calls a function with the session of a connection, for what database/sql has no words for.
func Raw(conn *sql.Conn, work func(*Conn) error) error {
	return conn.Raw(func(held any) error {
		c, ok := held.(*Conn)
		if !ok {
			return refused(StatusInvalidInput, "HY024", "a connection of %T is none of this driver", held)
		}
		return work(c)
	})
}

// withConn calls a function with one session of a database.
func withConn(ctx context.Context, db *sql.DB, work func(*Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return Raw(conn, work)
}

func (c *Conn) interrupt() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	C.hypostyle_interrupt(c.handle)
}

// call runs a call of the library, which the end of the context interrupts.
func (c *Conn) call(ctx context.Context, work func(failure **C.hypostyle_error) C.hypostyle_status) error {
	if c.handle == nil {
		return driver.ErrBadConn
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w := newWatch(ctx, c)
	defer w.end()
	var failure *C.hypostyle_error
	w.enter()
	status := work(&failure)
	w.leave()
	return c.checked(failed(ctx, status, &failure))
}

// checked remembers that the session is lost if an error says so.
func (c *Conn) checked(err error) error {
	var told *Error
	if errors.As(err, &told) && (told.Status == StatusConnection || told.Status == StatusClosed) {
		c.broken = true
	}
	return err
}

// execute runs one or more statements, and gives the result of the last one.
func (c *Conn) execute(ctx context.Context, query string) (*C.hypostyle_result, error) {
	var result *C.hypostyle_result
	text, length := textOf(query)
	err := c.call(ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_execute(c.handle, text, length, &result, failure)
	})
	runtime.KeepAlive(query)
	return result, err
}

// results runs one or more statements, and gives the results that have rows, or else the last one.
func (c *Conn) results(ctx context.Context, query string) (results []*C.hypostyle_result, err error) {
	statements, err := split(query)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			freeResults(results)
			results = nil
		}
	}()
	for index, statement := range statements {
		result, err := c.execute(ctx, statement)
		if err != nil {
			return results, err
		}
		isLast := index == len(statements)-1
		if C.hypostyle_result_columns(result) > 0 || isLast && len(results) == 0 {
			results = append(results, result)
		} else {
			C.hypostyle_result_free(&result)
		}
	}
	return results, nil
}

func freeResults(results []*C.hypostyle_result) {
	for index := range results {
		C.hypostyle_result_free(&results[index])
	}
}

// split finds the statements of a text. A text without any is one, which the database refuses.
func split(query string) ([]string, error) {
	var (
		statements           []string
		start, place, length C.size_t
		failure              *C.hypostyle_error
	)
	text, whole := textOf(query)
	for {
		status := C.next_place(text, whole, &start, &place, &length, &failure)
		if err := failed(nil, status, &failure); err != nil {
			return nil, err
		}
		if length == 0 {
			break
		}
		statements = append(statements, query[place:place+length])
	}
	runtime.KeepAlive(query)
	if len(statements) == 0 {
		statements = []string{query}
	}
	return statements, nil
}

// ExecContext runs one or more statements, with arguments a single one.
func (c *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) > 0 {
		statement, err := c.prepare(query)
		if err != nil {
			return nil, err
		}
		defer statement.Close()
		return statement.ExecContext(ctx, args)
	}
	result, err := c.execute(ctx, query)
	if err != nil {
		return nil, err
	}
	if C.hypostyle_result_columns(result) == 0 {
		return c.written(ctx, nil, result)
	}
	// What kind of statement gave the rows is known of one alone.
	statement, err := c.prepare(query)
	if err != nil {
		C.hypostyle_result_free(&result)
		return nil, err
	}
	defer statement.Close()
	return c.written(ctx, statement, result)
}

// QueryContext runs one or more statements, with arguments a single one. The rows have a result set for
// each statement that gives rows. All statements run before the first row is read.
func (c *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) > 0 {
		statement, err := c.prepare(query)
		if err != nil {
			return nil, err
		}
		defer statement.Close()
		return statement.QueryContext(ctx, args)
	}
	results, err := c.results(ctx, query)
	if err != nil {
		return nil, err
	}
	return newRows(ctx, c, results)
}

// Ping asks the database something.
func (c *Conn) Ping(ctx context.Context) error {
	result, err := c.execute(ctx, "SELECT 1")
	C.hypostyle_result_free(&result)
	if c.broken {
		return driver.ErrBadConn
	}
	return err
}

// ResetSession rolls back what the last user has left open.
func (c *Conn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	if C.hypostyle_transaction_state(c.handle) != C.HYPOSTYLE_NO_TRANSACTION {
		if err := c.rollback(); err != nil {
			return driver.ErrBadConn
		}
	}
	return nil
}

// IsValid tells whether the session can be used again.
func (c *Conn) IsValid() bool { return c.handle != nil && !c.broken }

// Close ends the session; a transaction that is open is rolled back.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	C.hypostyle_disconnect(&c.handle)
	return nil
}

// Begin begins a transaction; database/sql uses BeginTx.
func (c *Conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

var isolationLevels = map[sql.IsolationLevel]string{
	sql.LevelDefault:         "",
	sql.LevelReadUncommitted: " ISOLATION LEVEL READ UNCOMMITTED",
	sql.LevelReadCommitted:   " ISOLATION LEVEL READ COMMITTED",
	sql.LevelRepeatableRead:  " ISOLATION LEVEL REPEATABLE READ",
	sql.LevelSnapshot:        " ISOLATION LEVEL SNAPSHOT",
	sql.LevelSerializable:    " ISOLATION LEVEL SERIALIZABLE",
}

// BeginTx begins a transaction, which reads a snapshot whatever weaker level is asked for. The database
// refuses sql.LevelSerializable. In PostgreSQL the levels are the server's, and a snapshot is its
// REPEATABLE READ.
func (c *Conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	asked := sql.IsolationLevel(options.Isolation)
	if c.isPostgres && asked == sql.LevelSnapshot {
		asked = sql.LevelRepeatableRead
	}
	level, ok := isolationLevels[asked]
	if !ok {
		return nil, refused(StatusUnsupported, "0A000", "no transaction has the isolation level %v", asked)
	}
	statement := "BEGIN" + level
	if options.ReadOnly {
		statement += " READ ONLY"
	}
	result, err := c.execute(ctx, statement)
	C.hypostyle_result_free(&result)
	if err != nil {
		if c.broken {
			// Nothing has happened: another connection may try.
			return nil, driver.ErrBadConn
		}
		return nil, err
	}
	return transaction{c}, nil
}

type transaction struct{ conn *Conn }

func (t transaction) Commit() error {
	c := t.conn
	err := c.call(context.Background(), func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_commit(c.handle, failure)
	})
	if err != nil && C.hypostyle_transaction_state(c.handle) != C.HYPOSTYLE_NO_TRANSACTION {
		c.broken = c.rollback() != nil || c.broken
	}
	return err
}

func (t transaction) Rollback() error { return t.conn.rollback() }

func (c *Conn) rollback() error {
	return c.call(context.Background(), func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_rollback(c.handle, failure)
	})
}
