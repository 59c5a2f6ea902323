package hypostyle

/*
#include <stdlib.h>
#include <hypostyle.h>

static hypostyle_status append_parts(hypostyle_appender *appender, int32_t type, int32_t scale, int64_t integer,
                                     int64_t high, double number, const void *data, size_t length,
                                     hypostyle_error **error) {
  hypostyle_value value = hypostyle_value_of(type);
  value.scale = scale;
  value.integer = integer;
  value.high = high;
  value.number = number;
  value.data = data;
  value.length = length;
  return hypostyle_appender_value(appender, &value, error);
}
*/
import "C"

import (
	"context"
	"database/sql"
	"reflect"
	"runtime"
	"time"
	"unsafe"
)

// Data is a column to append.
type Data struct {
	Name string
	// Values is a slice: of integers, floats, bool, string, []byte, time.Time, Date, UUID, Interval, or of
	// types that are made of integers, floats or [16]byte.
	Values any
	// Valid says which values are not NULL; nil is all of them.
	Valid []bool
}

// AppendOptions say how columns are appended.
type AppendOptions struct {
	// Create makes the table from the columns if there is none.
	Create bool
	// ByPosition matches columns by position; else by name, and missing ones get their default.
	ByPosition bool
}

// Append appends columns to a table. See [Conn.Append].
func Append(ctx context.Context, db *sql.DB, table string, options AppendOptions, columns ...Data) (rows int64, err error) {
	err = withConn(ctx, db, func(conn *Conn) error {
		rows, err = conn.Append(ctx, table, options, columns...)
		return err
	})
	return rows, err
}

// Append appends columns of equal length to a table, "table" or "schema.table", and returns the number of rows.
// All of them are appended, or none. Slices of numbers are read where they are.
func (c *Conn) Append(ctx context.Context, table string, options AppendOptions, columns ...Data) (int64, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	values := make([]C.hypostyle_values, len(columns)+1)
	names := make([]*C.char, len(columns)+1)
	for index, column := range columns {
		given, err := valuesOf(column, &pinner)
		if err != nil {
			return 0, err
		}
		values[index] = given
		names[index] = C.CString(column.Name)
		defer C.free(unsafe.Pointer(names[index]))
	}
	var flags C.uint32_t
	if options.Create {
		flags |= C.HYPOSTYLE_APPEND_CREATE
	}
	if !options.ByPosition {
		flags |= C.HYPOSTYLE_BY_NAME
	}
	var rows C.uint64_t
	text, length := textOf(table)
	err := c.call(ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_append_columns(c.handle, text, length, &names[0], &values[0], C.size_t(len(columns)), flags,
			&rows, failure)
	})
	runtime.KeepAlive(columns)
	runtime.KeepAlive(table)
	return int64(rows), err
}

// pinned returns where a slice begins, which stays there.
func pinned[T any](values []T, pinner *runtime.Pinner) unsafe.Pointer {
	if len(values) == 0 {
		return nil
	}
	pinner.Pin(&values[0])
	return unsafe.Pointer(&values[0])
}

// valuesOf describes a column for C.
func valuesOf(column Data, pinner *runtime.Pinner) (C.hypostyle_values, error) {
	values := C.hypostyle_values{size: C.uint32_t(unsafe.Sizeof(C.hypostyle_values{}))}
	fixed := func(kind C.hypostyle_type, scale, width, count int, data unsafe.Pointer) {
		values._type, values.scale, values.width = kind, C.int32_t(scale), C.uint32_t(width)
		values.count, values.data = C.uint64_t(count), data
	}
	switch given := column.Values.(type) {
	case []bool:
		fixed(C.HYPOSTYLE_BOOLEAN, 0, 0, len(given), pinned(packed(given), pinner))
	case []string:
		heaped(&values, C.HYPOSTYLE_VARCHAR, given, pinner)
	case [][]byte:
		heaped(&values, C.HYPOSTYLE_BLOB, given, pinner)
	case []time.Time:
		units := make([]int64, len(given))
		for index, at := range given {
			units[index] = at.UnixMicro()
		}
		fixed(C.HYPOSTYLE_TIMESTAMPTZ, 6, 8, len(units), pinned(units, pinner))
	case []Date:
		fixed(C.HYPOSTYLE_DATE, 0, 4, len(given), pinned(given, pinner))
	case []Interval:
		fixed(C.HYPOSTYLE_INTERVAL, 9, 16, len(given), pinned(given, pinner))
	default:
		found := reflect.ValueOf(column.Values)
		if found.Kind() != reflect.Slice || kindOf(found.Type().Elem()) == C.HYPOSTYLE_NULL {
			return values, refused(StatusInvalidInput, "22018", "the values of the column %q cannot be %T", column.Name, column.Values)
		}
		element := found.Type().Elem()
		fixed(kindOf(element), 0, int(element.Size()), found.Len(), nil)
		if found.Len() > 0 {
			values.data = found.UnsafePointer()
			pinner.Pin(values.data)
		}
	}
	if column.Valid != nil {
		if len(column.Valid) != int(values.count) {
			return values, refused(StatusInvalidInput, "HY024", "the column %q has %d values, and says of %d whether they are valid",
				column.Name, values.count, len(column.Valid))
		}
		valid := packed(column.Valid)
		values.validity = (*C.uint8_t)(pinned(valid, pinner))
		values.null_count = C.uint64_t(len(column.Valid) - countTrue(valid))
	}
	return values, nil
}

func kindOf(element reflect.Type) C.hypostyle_type {
	switch element.Kind() {
	case reflect.Int8:
		return C.HYPOSTYLE_TINYINT
	case reflect.Int16:
		return C.HYPOSTYLE_SMALLINT
	case reflect.Int32:
		return C.HYPOSTYLE_INTEGER
	case reflect.Int, reflect.Int64:
		if element.Size() == 4 {
			return C.HYPOSTYLE_INTEGER
		}
		return C.HYPOSTYLE_BIGINT
	case reflect.Uint8:
		return C.HYPOSTYLE_UTINYINT
	case reflect.Uint16:
		return C.HYPOSTYLE_USMALLINT
	case reflect.Uint32:
		return C.HYPOSTYLE_UINTEGER
	case reflect.Uint, reflect.Uint64:
		if element.Size() == 4 {
			return C.HYPOSTYLE_UINTEGER
		}
		return C.HYPOSTYLE_UBIGINT
	case reflect.Float32:
		return C.HYPOSTYLE_FLOAT
	case reflect.Float64:
		return C.HYPOSTYLE_DOUBLE
	case reflect.Array:
		if element.Len() == 16 && element.Elem().Kind() == reflect.Uint8 {
			return C.HYPOSTYLE_UUID
		}
	}
	return C.HYPOSTYLE_NULL
}

// heaped lays texts or bytes side by side.
func heaped[T string | []byte](values *C.hypostyle_values, kind C.hypostyle_type, given []T, pinner *runtime.Pinner) {
	offsets := make([]int64, len(given)+1)
	for index, text := range given {
		offsets[index+1] = offsets[index] + int64(len(text))
	}
	heap := make([]byte, 0, offsets[len(given)])
	for _, text := range given {
		heap = append(heap, text...)
	}
	values._type, values.count = kind, C.uint64_t(len(given))
	values.offsets = (*C.int64_t)(pinned(offsets, pinner))
	values.heap = (*C.uint8_t)(pinned(heap, pinner))
	values.heap_length = C.uint64_t(len(heap))
}

// Appender appends rows one by one, which take effect together with Finish. Other statements of its session
// belong to the same transaction until then.
type Appender struct {
	ctx    context.Context
	conn   *Conn
	handle *C.hypostyle_appender
	failed error // of a row, which is half there; or that it is finished
}

// NewAppender begins to append rows to a table. The context is that of all the work. Close it at last.
func (c *Conn) NewAppender(ctx context.Context, table string) (*Appender, error) {
	a := &Appender{ctx: ctx, conn: c}
	text, length := textOf(table)
	err := c.call(ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_appender_open(c.handle, text, length, &a.handle, failure)
	})
	runtime.KeepAlive(table)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Row appends a row with a value for each column: what may be a parameter. After an error all calls fail with it,
// and nothing is appended.
func (a *Appender) Row(values ...any) error {
	if err := a.check(); err != nil {
		return err
	}
	a.failed = a.row(values)
	return a.failed
}

func (a *Appender) check() error {
	if a.handle == nil {
		return isClosed("appender")
	}
	return a.failed
}

func (a *Appender) row(values []any) error {
	var failure *C.hypostyle_error
	for _, value := range values {
		given, err := encode(value)
		if err != nil {
			return err
		}
		status := C.append_parts(a.handle, C.int32_t(given.kind), C.int32_t(given.scale), C.int64_t(given.integer),
			C.int64_t(given.high), C.double(given.number), given.data, C.size_t(given.length), &failure)
		runtime.KeepAlive(value)
		if err := failed(nil, status, &failure); err != nil {
			return err
		}
	}
	return a.conn.call(a.ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_appender_end_row(a.handle, failure)
	})
}

// Finish makes the rows take effect, and returns their number.
func (a *Appender) Finish() (int64, error) {
	if err := a.check(); err != nil {
		return 0, err
	}
	var rows C.uint64_t
	err := a.conn.call(a.ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
		return C.hypostyle_appender_finish(a.handle, &rows, failure)
	})
	if err == nil {
		a.failed = isClosed("appender")
	}
	return int64(rows), err
}

// Close frees the appender. Rows that were not finished are not appended.
func (a *Appender) Close() error {
	C.hypostyle_appender_free(&a.handle)
	return nil
}
