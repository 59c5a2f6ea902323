package hypostyle

/*
#include <hypostyle.h>

// The value's parts are arguments, so that Go passes no struct with a pointer of its own.
static hypostyle_status bind_parts(hypostyle_statement *statement, size_t index, int32_t type, int32_t scale,
                                   int64_t integer, int64_t high, double number, const void *data, size_t length,
                                   hypostyle_error **error) {
  hypostyle_value value = hypostyle_value_of(type);
  value.scale = scale;
  value.integer = integer;
  value.high = high;
  value.number = number;
  value.data = data;
  value.length = length;
  return hypostyle_bind(statement, index, &value, error);
}
*/
import "C"

import (
	"context"
	"database/sql/driver"
	"runtime"
	"strconv"
)

// Stmt is a prepared statement.
type Stmt struct {
	conn       *Conn
	handle     *C.hypostyle_statement
	parameters int
}

var (
	_ driver.Stmt              = (*Stmt)(nil)
	_ driver.StmtExecContext   = (*Stmt)(nil)
	_ driver.StmtQueryContext  = (*Stmt)(nil)
	_ driver.NamedValueChecker = (*Stmt)(nil)
)

// Prepare prepares a statement; database/sql uses PrepareContext.
func (c *Conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext prepares a statement. The database is not asked: errors in it come when it runs.
func (c *Conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.prepare(query)
}

func (c *Conn) prepare(query string) (*Stmt, error) {
	if c.handle == nil {
		return nil, driver.ErrBadConn
	}
	s := &Stmt{conn: c}
	var failure *C.hypostyle_error
	text, length := textOf(query)
	status := C.hypostyle_prepare(c.handle, text, length, &s.handle, &failure)
	runtime.KeepAlive(query)
	if err := c.checked(failed(nil, status, &failure)); err != nil {
		return nil, err
	}
	s.parameters = int(C.hypostyle_statement_parameters(s.handle))
	return s, nil
}

// Close frees the statement; its rows stay.
func (s *Stmt) Close() error {
	C.hypostyle_statement_free(&s.handle)
	return nil
}

// NumInput returns the number of parameters.
func (s *Stmt) NumInput() int { return s.parameters }

// writes tells whether the statement writes rows.
func (s *Stmt) writes() bool {
	switch C.hypostyle_statement_kind(s.handle) {
	case C.HYPOSTYLE_KIND_INSERT, C.HYPOSTYLE_KIND_UPDATE, C.HYPOSTYLE_KIND_DELETE, C.HYPOSTYLE_KIND_MERGE:
		return true
	}
	return false
}

// place returns where an argument is bound.
func (s *Stmt) place(arg driver.NamedValue) (C.size_t, error) {
	name := arg.Name
	if name == "" {
		// $2 may stand before $1.
		name = strconv.Itoa(arg.Ordinal)
	}
	var (
		index   C.size_t
		failure *C.hypostyle_error
	)
	text, length := textOf(name)
	status := C.hypostyle_statement_parameter_index(s.handle, text, length, &index, &failure)
	runtime.KeepAlive(name)
	err := failed(nil, status, &failure)
	if err != nil && arg.Name == "" && arg.Ordinal >= 1 && arg.Ordinal <= s.parameters {
		// Named parameters may be given by position, too.
		return C.size_t(arg.Ordinal - 1), nil
	}
	return index, err
}

func (s *Stmt) bind(args []driver.NamedValue) error {
	if s.handle == nil {
		return isClosed("statement")
	}
	if len(args) != s.parameters {
		return refused(StatusInvalidInput, "07001", "the statement has %d parameters, and not %d", s.parameters, len(args))
	}
	var failure *C.hypostyle_error
	if err := failed(nil, C.hypostyle_clear_bindings(s.handle, &failure), &failure); err != nil {
		return err
	}
	for _, arg := range args {
		place, err := s.place(arg)
		if err != nil {
			return err
		}
		given, err := encode(arg.Value)
		if err != nil {
			return err
		}
		status := C.bind_parts(s.handle, place, C.int32_t(given.kind), C.int32_t(given.scale), C.int64_t(given.integer),
			C.int64_t(given.high), C.double(given.number), given.data, C.size_t(given.length), &failure)
		runtime.KeepAlive(arg.Value)
		if err := failed(nil, status, &failure); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stmt) execute(ctx context.Context, args []driver.NamedValue) (*C.hypostyle_result, error) {
	if err := s.bind(args); err != nil {
		return nil, err
	}
	var result *C.hypostyle_result
	err := s.conn.call(ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_statement_execute(s.handle, &result, failure)
	})
	return result, err
}

// Exec runs the statement; database/sql uses ExecContext.
func (s *Stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), numbered(args))
}

// Query runs the statement; database/sql uses QueryContext.
func (s *Stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), numbered(args))
}

func numbered(args []driver.Value) []driver.NamedValue {
	named := make([]driver.NamedValue, len(args))
	for index, arg := range args {
		named[index] = driver.NamedValue{Ordinal: index + 1, Value: arg}
	}
	return named
}

// ExecContext runs the statement.
func (s *Stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.execute(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.conn.written(ctx, s, result)
}

// QueryContext runs the statement and gives its rows, which outlive it.
func (s *Stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	result, err := s.execute(ctx, args)
	if err != nil {
		return nil, err
	}
	return newRows(ctx, s.conn, []*C.hypostyle_result{result})
}
