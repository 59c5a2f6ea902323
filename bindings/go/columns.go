package hypostyle

/*
#include <hypostyle.h>
*/
import "C"

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"math/big"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// Columns are the columns of a result. They outlive the connection and the tables they come from. Any
// number of goroutines may read them. The slices of a column are memory of the database: they end with
// Close, which is called when nothing reads them any more. Nothing else ends them.
type Columns struct {
	result   *C.hypostyle_result
	columns  []*Column
	writable []*Column
}

// ReadColumns runs a query and gives its columns. See [Conn.ReadColumns].
func ReadColumns(ctx context.Context, db *sql.DB, query string, args ...any) (columns *Columns, err error) {
	err = withConn(ctx, db, func(conn *Conn) error {
		columns, err = conn.ReadColumns(ctx, query, args...)
		return err
	})
	return columns, err
}

// ReadColumns runs a query and gives its columns. A stored column of a table is a mapping of its file, which
// takes no time and no memory however long it is; others are computed.
func (c *Conn) ReadColumns(ctx context.Context, query string, args ...any) (*Columns, error) {
	named, err := namedValues(args)
	if err != nil {
		return nil, err
	}
	statement, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	result, err := statement.execute(ctx, named)
	if err != nil {
		return nil, err
	}
	columns := &Columns{result: result}
	described, err := columnsOf(result)
	for index := 0; err == nil && index < len(described); index++ {
		read := &Column{column: described[index]}
		columns.columns = append(columns.columns, read)
		if !isNested(read.kind) {
			err = c.call(ctx, func(failure **C.hypostyle_error) C.hypostyle_status {
				return read.read(result, index, 0, failure)
			})
		}
	}
	if err != nil {
		columns.Close()
		return nil, err
	}
	return columns, nil
}

func namedValues(args []any) ([]driver.NamedValue, error) {
	named := make([]driver.NamedValue, len(args))
	for index, arg := range args {
		given := driver.NamedValue{Ordinal: index + 1, Value: arg}
		if arg, ok := arg.(sql.NamedArg); ok {
			given.Name, given.Value = arg.Name, arg.Value
		}
		var err error
		if given.Value, err = checked(given.Value); err != nil {
			return nil, err
		}
		named[index] = given
	}
	return named, nil
}

func isNested(kind C.hypostyle_type) bool {
	switch kind {
	case C.HYPOSTYLE_LIST, C.HYPOSTYLE_ARRAY, C.HYPOSTYLE_STRUCT, C.HYPOSTYLE_MAP:
		return true
	}
	return false
}

// Close frees the columns. Slices of them must not be read after it.
func (c *Columns) Close() error {
	for _, column := range append(c.columns, c.writable...) {
		C.hypostyle_values_free(&column.values)
		column.isClosed = true
	}
	C.hypostyle_result_free(&c.result)
	return nil
}

// Names returns the names of the columns.
func (c *Columns) Names() []string {
	names := make([]string, len(c.columns))
	for index, column := range c.columns {
		names[index] = column.name
	}
	return names
}

// Column returns a column by its place, from 0 on.
func (c *Columns) Column(index int) (*Column, error) {
	if index < 0 || index >= len(c.columns) {
		return nil, refused(StatusInvalidInput, "07009", "no column %d: the result has %d columns", index, len(c.columns))
	}
	found := c.columns[index]
	if found.isClosed {
		return nil, isClosed("result")
	}
	if isNested(found.kind) {
		return nil, refused(StatusUnsupported, "0A000", "a column of %s has no values side by side; read it by rows", found.typeName)
	}
	return found, nil
}

// Named returns a column by its name.
func (c *Columns) Named(name string) (*Column, error) {
	index := slices.IndexFunc(c.columns, func(column *Column) bool { return column.name == name })
	if index < 0 {
		return nil, refused(StatusUnknownName, "42703", "no column %q; the result has %s", name, strings.Join(c.Names(), ", "))
	}
	return c.Column(index)
}

// Writable returns a column again, by its place, whose slices the program may write into. Nobody else sees it.
func (c *Columns) Writable(index int) (*Column, error) {
	found, err := c.Column(index)
	if err != nil {
		return nil, err
	}
	again := &Column{column: found.column}
	var failure *C.hypostyle_error
	status := again.read(c.result, index, C.HYPOSTYLE_VALUES_PRIVATE, &failure)
	if err := failed(nil, status, &failure); err != nil {
		return nil, err
	}
	c.writable = append(c.writable, again)
	return again, nil
}

// Verify checks the checksums of a column that is a mapping.
func (c *Columns) Verify(index int) error {
	found, err := c.Column(index)
	if err != nil {
		return err
	}
	var failure *C.hypostyle_error
	status := C.hypostyle_result_verify(c.result, C.size_t(index), 0, found.values.count, &failure)
	return failed(nil, status, &failure)
}

// Column has the values of a column side by side.
type Column struct {
	column
	values   C.hypostyle_values
	isClosed bool
}

func (c *Column) read(result *C.hypostyle_result, index int, flags C.uint32_t, failure **C.hypostyle_error) C.hypostyle_status {
	c.values.size = C.uint32_t(unsafe.Sizeof(c.values))
	return C.hypostyle_result_values(result, C.size_t(index), flags, &c.values, failure)
}

// Name returns the name.
func (c *Column) Name() string { return c.name }

// Type returns the type in SQL, such as DECIMAL(9,2).
func (c *Column) Type() string { return c.typeName }

// Len returns the number of rows.
func (c *Column) Len() int { return int(c.values.count) }

// NullCount returns the number of NULLs.
func (c *Column) NullCount() int { return int(c.values.null_count) }

// IsMapped tells whether the values are a mapping of the database's files.
func (c *Column) IsMapped() bool { return c.values.flags&C.HYPOSTYLE_VALUES_MAPPED != 0 }

func bitAt(data unsafe.Pointer, place uint64) bool {
	return *(*byte)(unsafe.Add(data, place/8))>>(place%8)&1 != 0
}

// check panics as a slice does.
func (c *Column) check(row int) {
	if c.isClosed {
		panic("hypostyle: the column is closed")
	}
	_ = unsafe.Slice((*struct{})(unsafe.Pointer(&aByte)), c.Len())[row]
}

// IsNull tells whether the value of a row, from 0 on, is NULL.
func (c *Column) IsNull(row int) bool {
	c.check(row)
	return c.values.validity != nil && !bitAt(unsafe.Pointer(c.values.validity), uint64(c.values.validity_offset)+uint64(row))
}

// Element is a type of the elements of a slice: a Go type of the same kind and width as the column's.
type Element interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64 | ~[16]byte | Interval
}

// Values returns a column as a slice over the database's memory, without a copy. NULLs hold anything.
//
//	TINYINT … BIGINT                        int8 … int64
//	UTINYINT … UBIGINT                      uint8 … uint64
//	FLOAT, DOUBLE                           float32, float64
//	DATE                                    Date, int32
//	TIME, TIMESTAMP, TIMESTAMPTZ, DURATION  int64, units since 1970; Scale says how many digits they have
//	DECIMAL                                 int32, int64, [16]byte (little-endian), times 10 to the Scale
//	INTERVAL, UUID                          Interval, UUID
//
// The slice is read only: writing into a mapping ends the process; see [Columns.Writable].
func Values[T Element](c *Column) ([]T, error) {
	if c.isClosed {
		return nil, isClosed("column")
	}
	var none T
	if c.values.flags&C.HYPOSTYLE_VALUES_DICTIONARY != 0 || c.shape() != shapeOf(reflect.TypeOf(none)) ||
		uintptr(c.values.width) != unsafe.Sizeof(none) {
		return nil, refused(StatusInvalidInput, "22018", "a column of %s, of %d bytes each, is no slice of %T", c.typeName, c.values.width, none)
	}
	return unsafe.Slice((*T)(c.values.data), c.Len()), nil
}

type shape int

const (
	noShape shape = iota
	signed
	unsigned
	floating
	interval
	bytes16
)

func shapeOf(of reflect.Type) shape {
	switch of.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signed
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsigned
	case reflect.Float32, reflect.Float64:
		return floating
	case reflect.Struct:
		return interval
	}
	return bytes16
}

func (c *Column) shape() shape {
	switch c.kind {
	case C.HYPOSTYLE_TINYINT, C.HYPOSTYLE_SMALLINT, C.HYPOSTYLE_INTEGER, C.HYPOSTYLE_BIGINT, C.HYPOSTYLE_DATE,
		C.HYPOSTYLE_TIME, C.HYPOSTYLE_TIMESTAMP, C.HYPOSTYLE_TIMESTAMPTZ, C.HYPOSTYLE_DURATION:
		return signed
	case C.HYPOSTYLE_UTINYINT, C.HYPOSTYLE_USMALLINT, C.HYPOSTYLE_UINTEGER, C.HYPOSTYLE_UBIGINT:
		return unsigned
	case C.HYPOSTYLE_FLOAT, C.HYPOSTYLE_DOUBLE:
		return floating
	case C.HYPOSTYLE_INTERVAL:
		return interval
	case C.HYPOSTYLE_UUID, C.HYPOSTYLE_FIXED_BINARY:
		return bytes16
	case C.HYPOSTYLE_DECIMAL:
		if c.values.width == 16 {
			return bytes16
		}
		return signed
	}
	return noShape
}

// Scale returns the digits behind the point of a DECIMAL, and those of the unit of a time.
func (c *Column) Scale() int { return int(c.values.scale) }

// Dictionary returns the texts that the codes of a column stand for, and false for a column without them.
func (c *Column) Dictionary() ([]string, bool) {
	if c.isClosed || c.values.flags&C.HYPOSTYLE_VALUES_DICTIONARY == 0 {
		return nil, false
	}
	texts := make([]string, c.values.dictionary_count)
	for code := range texts {
		texts[code] = string(c.heap(code))
	}
	return texts, true
}

// Code returns the code of a row of a column with a dictionary, and -1 for NULL.
func (c *Column) Code(row int) int {
	if c.values.flags&C.HYPOSTYLE_VALUES_DICTIONARY == 0 || c.IsNull(row) {
		return -1
	}
	at := unsafe.Add(c.values.data, row*int(c.values.width))
	switch c.values.width {
	case 1:
		return int(*(*int8)(at))
	case 2:
		return int(*(*int16)(at))
	}
	return int(*(*int32)(at))
}

// heap returns the bytes of a text.
func (c *Column) heap(place int) []byte {
	offsets := unsafe.Slice((*int64)(unsafe.Pointer(c.values.offsets)), place+2)
	start, end := offsets[place], offsets[place+1]
	if start == end {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(c.values.heap)), c.values.heap_length)[start:end:end]
}

// Bytes returns the bytes of a VARCHAR, JSON or BLOB without a copy, and nil for NULL. They are read only.
func (c *Column) Bytes(row int) []byte {
	if c.values.offsets == nil || c.IsNull(row) {
		return nil
	}
	if c.values.flags&C.HYPOSTYLE_VALUES_DICTIONARY != 0 {
		return c.heap(c.Code(row))
	}
	return c.heap(row)
}

// Text returns a copy of a VARCHAR, JSON or BLOB, or the digits of a DECIMAL, and "" for NULL.
func (c *Column) Text(row int) string {
	if c.kind == C.HYPOSTYLE_DECIMAL && !c.IsNull(row) {
		width := int(c.values.width)
		return decimalText(unscaled(unsafe.Slice((*byte)(unsafe.Add(c.values.data, row*width)), width)), c.Scale())
	}
	return string(c.Bytes(row))
}

// Bool returns a BOOLEAN, and false for NULL.
func (c *Column) Bool(row int) bool {
	if c.kind != C.HYPOSTYLE_BOOLEAN || c.IsNull(row) {
		return false
	}
	return bitAt(c.values.data, uint64(c.values.data_offset)+uint64(row))
}

// Time returns a DATE, TIMESTAMP or TIMESTAMPTZ in UTC, and the zero time for NULL.
func (c *Column) Time(row int) time.Time {
	if c.IsNull(row) {
		return time.Time{}
	}
	switch c.kind {
	case C.HYPOSTYLE_DATE:
		return Date(*(*int32)(unsafe.Add(c.values.data, row*4))).Time()
	case C.HYPOSTYLE_TIMESTAMP, C.HYPOSTYLE_TIMESTAMPTZ:
		return timeOf(*(*int64)(unsafe.Add(c.values.data, row*8)), int64(c.values.scale))
	}
	return time.Time{}
}

// unscaled returns the digits of a DECIMAL, which lie in the order of the machine's, as a number.
func unscaled(stored []byte) *big.Int {
	bytes := slices.Clone(stored)
	slices.Reverse(bytes)
	number := new(big.Int).SetBytes(bytes)
	if bytes[0]&0x80 != 0 {
		number.Sub(number, new(big.Int).Lsh(big.NewInt(1), uint(len(bytes))*8))
	}
	return number
}

func decimalText(unscaled *big.Int, scale int) string {
	digits := new(big.Int).Abs(unscaled).String()
	if scale > 0 {
		if len(digits) <= scale {
			digits = strings.Repeat("0", scale+1-len(digits)) + digits
		}
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if unscaled.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

// Valid returns which rows are not NULL, or nil if all are.
func (c *Column) Valid() []bool {
	if c.isClosed || c.values.validity == nil {
		return nil
	}
	valid := make([]bool, c.Len())
	for row := range valid {
		valid[row] = bitAt(unsafe.Pointer(c.values.validity), uint64(c.values.validity_offset)+uint64(row))
	}
	return valid
}

// packed returns bits, the first one the least significant.
func packed(values []bool) []byte {
	packed := make([]byte, (len(values)+7)/8)
	for index, value := range values {
		if value {
			packed[index/8] |= 1 << (index % 8)
		}
	}
	return packed
}

func countTrue(packed []byte) (count int) {
	for _, byte := range packed {
		count += bits.OnesCount8(byte)
	}
	return count
}
