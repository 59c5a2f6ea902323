package hypostyle

/*
#include <hypostyle.h>
#include <string.h>

typedef struct cell {
  int32_t is_null;
  int64_t integer;
  double number;
  const void *data;
  size_t length;
} cell;

enum { READ_INTEGER = 0, READ_NUMBER = 1, READ_BYTES = 2, READ_TEXT = 3 };

// Goes to the next row and reads all of it in one call.
static hypostyle_status read_row(hypostyle_result *result, const int32_t *ways, size_t columns, cell *cells,
                                 int32_t *has_row, hypostyle_error **error) {
  hypostyle_status status = hypostyle_result_step(result, has_row, error);
  for (size_t column = 0; status == HYPOSTYLE_OK && *has_row && column < columns; column++) {
    cell *at = &cells[column];
    const char *text = NULL;
    at->is_null = 0;
    switch (ways[column]) {
    case READ_INTEGER:
      status = hypostyle_row_int64(result, column, &at->integer, error);
      // NULL is 0.
      if (at->integer == 0) at->is_null = hypostyle_row_is_null(result, column) != 0;
      break;
    case READ_NUMBER:
      status = hypostyle_row_double(result, column, &at->number, error);
      if (at->number != at->number) at->is_null = hypostyle_row_is_null(result, column) != 0;
      break;
    case READ_BYTES:
      status = hypostyle_row_bytes(result, column, &at->data, &at->length, error);
      at->is_null = at->data == NULL;
      break;
    default:
      status = hypostyle_row_text(result, column, &text, &at->length, error);
      at->data = text;
      at->is_null = text == NULL;
    }
  }
  return status;
}

// Computes some rows that nobody reads, and tells how many, 0 at the end.
static hypostyle_status skip_rows(hypostyle_result *result, int64_t *skipped, hypostyle_error **error) {
  struct ArrowArray rows;
  hypostyle_status status;
  *skipped = 0;
  do {
    memset(&rows, 0, sizeof rows);
    status = hypostyle_result_next(result, &rows, error);
    if (status != HYPOSTYLE_OK || rows.release == NULL) break;
    *skipped += rows.length;
    rows.release(&rows);
  } while (*skipped == 0);
  return status;
}
*/
import "C"

import (
	"context"
	"database/sql/driver"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// A column of a result.
type column struct {
	name      string
	typeName  string
	kind      C.hypostyle_type
	precision int64
	scale     int64
	nullable  bool
}

func columnsOf(result *C.hypostyle_result) ([]column, error) {
	columns := make([]column, C.hypostyle_result_columns(result))
	for index := range columns {
		told := C.hypostyle_column{size: C.uint32_t(unsafe.Sizeof(C.hypostyle_column{}))}
		var failure *C.hypostyle_error
		status := C.hypostyle_result_column(result, C.size_t(index), &told, &failure)
		if err := failed(nil, status, &failure); err != nil {
			return nil, err
		}
		columns[index] = column{
			name:      C.GoStringN(told.name, C.int(told.name_length)),
			typeName:  C.GoStringN(told.type_name, C.int(told.type_name_length)),
			kind:      told._type,
			precision: int64(told.precision),
			scale:     int64(told.scale),
			nullable:  told.nullable != 0,
		}
	}
	return columns, nil
}

// way returns how C reads the values of a column.
func (c *column) way() C.int32_t {
	switch c.kind {
	case C.HYPOSTYLE_BOOLEAN, C.HYPOSTYLE_TINYINT, C.HYPOSTYLE_SMALLINT, C.HYPOSTYLE_INTEGER, C.HYPOSTYLE_BIGINT,
		C.HYPOSTYLE_UTINYINT, C.HYPOSTYLE_USMALLINT, C.HYPOSTYLE_UINTEGER, C.HYPOSTYLE_DATE, C.HYPOSTYLE_TIMESTAMP,
		C.HYPOSTYLE_TIMESTAMPTZ:
		return C.READ_INTEGER
	case C.HYPOSTYLE_FLOAT, C.HYPOSTYLE_DOUBLE:
		return C.READ_NUMBER
	case C.HYPOSTYLE_VARCHAR, C.HYPOSTYLE_JSON, C.HYPOSTYLE_BLOB, C.HYPOSTYLE_FIXED_BINARY:
		return C.READ_BYTES
	}
	return C.READ_TEXT
}

// value returns what C has read as a value of database/sql.
func (c *column) value(read *C.cell) (driver.Value, error) {
	if read.is_null != 0 {
		return nil, nil
	}
	integer := int64(read.integer)
	switch c.kind {
	case C.HYPOSTYLE_BOOLEAN:
		return integer != 0, nil
	case C.HYPOSTYLE_DATE:
		return Date(integer).Time(), nil
	case C.HYPOSTYLE_TIMESTAMP, C.HYPOSTYLE_TIMESTAMPTZ:
		return timeOf(integer, c.scale), nil
	case C.HYPOSTYLE_BLOB, C.HYPOSTYLE_FIXED_BINARY:
		return append([]byte{}, unsafe.Slice((*byte)(read.data), read.length)...), nil
	}
	switch c.way() {
	case C.READ_INTEGER:
		return integer, nil
	case C.READ_NUMBER:
		return float64(read.number), nil
	}
	text := string(unsafe.Slice((*byte)(read.data), read.length))
	if c.kind == C.HYPOSTYLE_UBIGINT {
		return strconv.ParseUint(text, 10, 64)
	}
	return text, nil
}

// timeOf returns a time that is so many units after 1970; digits says how many of them a second has.
func timeOf(units, digits int64) time.Time {
	switch digits {
	case 0:
		return time.Unix(units, 0).UTC()
	case 3:
		return time.UnixMilli(units).UTC()
	case 6:
		return time.UnixMicro(units).UTC()
	}
	return time.Unix(0, units).UTC()
}

var scanTypes = map[C.hypostyle_type]reflect.Type{
	C.HYPOSTYLE_BOOLEAN:      reflect.TypeFor[bool](),
	C.HYPOSTYLE_TINYINT:      reflect.TypeFor[int64](),
	C.HYPOSTYLE_SMALLINT:     reflect.TypeFor[int64](),
	C.HYPOSTYLE_INTEGER:      reflect.TypeFor[int64](),
	C.HYPOSTYLE_BIGINT:       reflect.TypeFor[int64](),
	C.HYPOSTYLE_UTINYINT:     reflect.TypeFor[int64](),
	C.HYPOSTYLE_USMALLINT:    reflect.TypeFor[int64](),
	C.HYPOSTYLE_UINTEGER:     reflect.TypeFor[int64](),
	C.HYPOSTYLE_UBIGINT:      reflect.TypeFor[uint64](),
	C.HYPOSTYLE_FLOAT:        reflect.TypeFor[float64](),
	C.HYPOSTYLE_DOUBLE:       reflect.TypeFor[float64](),
	C.HYPOSTYLE_DATE:         reflect.TypeFor[time.Time](),
	C.HYPOSTYLE_TIMESTAMP:    reflect.TypeFor[time.Time](),
	C.HYPOSTYLE_TIMESTAMPTZ:  reflect.TypeFor[time.Time](),
	C.HYPOSTYLE_BLOB:         reflect.TypeFor[[]byte](),
	C.HYPOSTYLE_FIXED_BINARY: reflect.TypeFor[[]byte](),
}

// Rows are the rows of one or more results. They outlive their statement.
type Rows struct {
	conn    *Conn
	watch   *watch
	results []*C.hypostyle_result // those that are left; the first is read
	columns []column
	batch   *batch // or else, row by row:
	ways    []C.int32_t
	cells   []C.cell
}

var (
	_ driver.Rows                           = (*Rows)(nil)
	_ driver.RowsNextResultSet              = (*Rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*Rows)(nil)
	_ driver.RowsColumnTypeLength           = (*Rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*Rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*Rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*Rows)(nil)
)

func newRows(ctx context.Context, conn *Conn, results []*C.hypostyle_result) (driver.Rows, error) {
	rows := &Rows{conn: conn, results: results}
	if err := rows.begin(); err != nil {
		freeResults(results)
		return nil, err
	}
	rows.watch = newWatch(ctx, conn)
	return rows, nil
}

// begin describes the first result that is left.
func (r *Rows) begin() (err error) {
	if r.columns, err = columnsOf(r.results[0]); err != nil {
		return err
	}
	if r.batch, err = batchOf(r.results[0], r.columns); err != nil || r.batch != nil {
		return err
	}
	r.ways = make([]C.int32_t, len(r.columns))
	for index := range r.columns {
		r.ways[index] = r.columns[index].way()
	}
	r.cells = make([]C.cell, len(r.columns))
	return nil
}

// Columns returns the names.
func (r *Rows) Columns() []string {
	names := make([]string, len(r.columns))
	for index := range r.columns {
		names[index] = r.columns[index].name
	}
	return names
}

// Close frees the results.
func (r *Rows) Close() error {
	r.watch.end()
	r.release()
	freeResults(r.results)
	r.results = nil
	return nil
}

func (r *Rows) release() {
	if r.batch != nil {
		r.batch.release()
	}
}

// nextOfBatch reads a row of the batch, or of the next one.
func (r *Rows) nextOfBatch(into []driver.Value) error {
	if r.batch.next >= int(r.batch.rows.length) {
		var failure *C.hypostyle_error
		r.watch.enter()
		hasRows, status := r.batch.read(r.results[0], &failure)
		r.watch.leave()
		if status != C.HYPOSTYLE_OK {
			return r.conn.checked(failed(r.watch.ctx, status, &failure))
		}
		if !hasRows {
			return io.EOF
		}
	}
	for index, read := range r.batch.cells {
		into[index] = read(r.batch.next)
	}
	r.batch.next++
	return nil
}

// Next reads a row.
func (r *Rows) Next(into []driver.Value) error {
	if len(r.results) == 0 {
		return isClosed("result")
	}
	if len(r.columns) == 0 {
		return io.EOF
	}
	if r.batch != nil {
		return r.nextOfBatch(into)
	}
	var (
		hasRow  C.int32_t
		failure *C.hypostyle_error
	)
	r.watch.enter()
	status := C.read_row(r.results[0], &r.ways[0], C.size_t(len(r.ways)), &r.cells[0], &hasRow, &failure)
	r.watch.leave()
	if status != C.HYPOSTYLE_OK {
		return r.conn.checked(failed(r.watch.ctx, status, &failure))
	}
	if hasRow == 0 {
		return io.EOF
	}
	for index := range r.columns {
		value, err := r.columns[index].value(&r.cells[index])
		if err != nil {
			return err
		}
		into[index] = value
	}
	return nil
}

// HasNextResultSet tells whether another statement gave rows.
func (r *Rows) HasNextResultSet() bool { return len(r.results) > 1 }

// NextResultSet goes to the rows of the next statement that gave any.
func (r *Rows) NextResultSet() error {
	if !r.HasNextResultSet() {
		return io.EOF
	}
	r.release()
	C.hypostyle_result_free(&r.results[0])
	r.results = r.results[1:]
	return r.begin()
}

// ColumnTypeDatabaseTypeName returns the type in SQL, a DECIMAL's without precision and scale.
func (r *Rows) ColumnTypeDatabaseTypeName(index int) string {
	if r.columns[index].kind == C.HYPOSTYLE_DECIMAL {
		name, _, _ := strings.Cut(r.columns[index].typeName, "(")
		return name
	}
	return r.columns[index].typeName
}

// ColumnTypeNullable tells whether NULL may occur.
func (r *Rows) ColumnTypeNullable(index int) (nullable, ok bool) {
	return r.columns[index].nullable, true
}

// ColumnTypePrecisionScale tells the digits of a DECIMAL.
func (r *Rows) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	c := r.columns[index]
	if c.kind != C.HYPOSTYLE_DECIMAL {
		return 0, 0, false
	}
	return c.precision, c.scale, true
}

// ColumnTypeLength tells that texts and bytes have no limit.
func (r *Rows) ColumnTypeLength(index int) (length int64, ok bool) {
	switch r.columns[index].kind {
	case C.HYPOSTYLE_VARCHAR, C.HYPOSTYLE_JSON, C.HYPOSTYLE_BLOB:
		return math.MaxInt64, true
	}
	return 0, false
}

// ColumnTypeScanType returns the type of the values that are not NULL.
func (r *Rows) ColumnTypeScanType(index int) reflect.Type {
	if found, ok := scanTypes[r.columns[index].kind]; ok {
		return found
	}
	return reflect.TypeFor[string]()
}

// written returns what a statement has written, and computes the rows that nobody wants. It frees the result.
func (c *Conn) written(ctx context.Context, statement *Stmt, result *C.hypostyle_result) (driver.Result, error) {
	defer C.hypostyle_result_free(&result)
	rows := C.int64_t(0)
	for more := C.int64_t(1); more != 0 && C.hypostyle_result_columns(result) > 0; rows += more {
		err := c.call(ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
			return C.skip_rows(result, &more, failure)
		})
		if err != nil {
			return nil, err
		}
	}
	if affected := C.hypostyle_result_rows_affected(result); affected >= 0 || rows == 0 {
		return written(affected), nil
	}
	if statement == nil || !statement.writes() {
		return written(-1), nil
	}
	// RETURNING gives each row that was written.
	return written(rows), nil
}

// The number of rows that a statement has written; -1 if it writes none.
type written int64

func (w written) LastInsertId() (int64, error) {
	return 0, refused(StatusUnsupported, "0A000", "there is no last id; use INSERT … RETURNING")
}

func (w written) RowsAffected() (int64, error) { return max(int64(w), 0), nil }
