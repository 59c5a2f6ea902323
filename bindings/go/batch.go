package hypostyle

/*
#include <hypostyle.h>
#include <string.h>

static hypostyle_status next_batch(hypostyle_result *result, struct ArrowArray *rows, hypostyle_error **error) {
  memset(rows, 0, sizeof *rows);
  return hypostyle_result_next(result, rows, error);
}

static void release_batch(struct ArrowArray *rows) {
  if (rows->release != NULL) rows->release(rows);
}

static void release_schema(struct ArrowSchema *schema) {
  if (schema->release != NULL) schema->release(schema);
}
*/
import "C"

import (
	"database/sql/driver"
	"math/big"
	"strings"
	"unsafe"
)

// A batch has some rows as arrays of Arrow, which are read without calls of C. Results with a column that
// has no such form, such as a list, are read row by row instead.
type batch struct {
	layouts []layout
	rows    C.struct_ArrowArray
	cells   []func(row int) driver.Value
	next    int
}

// The layout of a column's arrays.
type layout struct {
	format       string // of the values
	kind         C.hypostyle_type
	scale        int64
	isDictionary bool
	codes        string // the format of the codes
}

// batchOf returns a place for the batches of a result, or nil if it has to be read row by row.
func batchOf(result *C.hypostyle_result, columns []column) (*batch, error) {
	var (
		schema  C.struct_ArrowSchema
		failure *C.hypostyle_error
	)
	if err := failed(nil, C.hypostyle_result_schema(result, &schema, &failure), &failure); err != nil {
		return nil, err
	}
	defer C.release_schema(&schema)
	b := &batch{layouts: make([]layout, len(columns)), cells: make([]func(int) driver.Value, len(columns))}
	for index, child := range unsafe.Slice(schema.children, int(schema.n_children)) {
		l := layout{format: C.GoString(child.format), kind: columns[index].kind, scale: columns[index].scale}
		if child.dictionary != nil {
			l.isDictionary, l.codes, l.format = true, l.format, C.GoString(child.dictionary.format)
		}
		if !l.isReadable() {
			return nil, nil
		}
		b.layouts[index] = l
	}
	return b, nil
}

func (l layout) isReadable() bool {
	if l.isDictionary && (l.format != "u" && l.format != "U" || !strings.Contains("csi", l.codes)) {
		return false
	}
	switch l.format {
	case "n", "b", "c", "C", "s", "S", "i", "I", "l", "L", "f", "g", "tdD", "u", "U", "z", "Z":
		return true
	case "w:16":
		return l.kind == C.HYPOSTYLE_UUID
	}
	return l.kind == C.HYPOSTYLE_TIMESTAMP || l.kind == C.HYPOSTYLE_TIMESTAMPTZ || l.decimalWidth() > 0
}

// decimalWidth returns the bytes of a DECIMAL; the format d:precision,scale has 16.
func (l layout) decimalWidth() uintptr {
	switch digits, ok := strings.CutPrefix(l.format, "d:"); {
	case !ok:
		return 0
	case strings.HasSuffix(digits, ",32"):
		return 4
	case strings.HasSuffix(digits, ",64"):
		return 8
	case strings.HasSuffix(digits, ",256"):
		return 0
	}
	return 16
}

// read goes to the next rows, and tells whether there are any.
func (b *batch) read(result *C.hypostyle_result, failure **C.hypostyle_error) (bool, C.hypostyle_status) {
	for {
		b.release()
		if status := C.next_batch(result, &b.rows, failure); status != C.HYPOSTYLE_OK {
			return false, status
		}
		if b.rows.release == nil {
			return false, C.HYPOSTYLE_OK
		}
		if b.rows.length > 0 {
			break
		}
	}
	for index, child := range unsafe.Slice(b.rows.children, int(b.rows.n_children)) {
		b.cells[index] = b.layouts[index].reader(arrayOf(child, int(b.rows.offset)))
	}
	return true, C.HYPOSTYLE_OK
}

func (b *batch) release() {
	C.release_batch(&b.rows)
	b.rows = C.struct_ArrowArray{}
	b.next = 0
}

// An array of Arrow.
type array struct {
	offset     int
	validity   unsafe.Pointer
	buffers    []unsafe.Pointer
	dictionary *C.struct_ArrowArray
}

func arrayOf(from *C.struct_ArrowArray, before int) array {
	buffers := unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(from.buffers)), int(from.n_buffers))
	a := array{offset: int(from.offset) + before, buffers: buffers, dictionary: from.dictionary}
	if len(buffers) > 0 && from.null_count != 0 {
		a.validity = buffers[0]
	}
	return a
}

func (a *array) isNull(row int) bool {
	return a.validity != nil && !bitAt(a.validity, uint64(a.offset+row))
}

func at[T any](a *array, row int) T {
	return *(*T)(unsafe.Add(a.buffers[1], uintptr(a.offset+row)*unsafe.Sizeof(*new(T))))
}

// cells returns what reads one value that is not NULL, and looks for NULL first.
func cells(a array, read func(a *array, row int) driver.Value) func(int) driver.Value {
	return func(row int) driver.Value {
		if a.isNull(row) {
			return nil
		}
		return read(&a, row)
	}
}

func integerAt[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](a *array, row int) driver.Value {
	return int64(at[T](a, row))
}

func (l layout) reader(a array) func(int) driver.Value {
	if l.isDictionary {
		return l.dictionaryReader(a)
	}
	switch l.format {
	case "n":
		return func(int) driver.Value { return nil }
	case "b":
		return cells(a, func(a *array, row int) driver.Value { return bitAt(a.buffers[1], uint64(a.offset+row)) })
	case "c":
		return cells(a, integerAt[int8])
	case "C":
		return cells(a, integerAt[uint8])
	case "s":
		return cells(a, integerAt[int16])
	case "S":
		return cells(a, integerAt[uint16])
	case "i":
		return cells(a, integerAt[int32])
	case "I":
		return cells(a, integerAt[uint32])
	case "l":
		return cells(a, integerAt[int64])
	case "L":
		return cells(a, func(a *array, row int) driver.Value { return at[uint64](a, row) })
	case "f":
		return cells(a, func(a *array, row int) driver.Value { return float64(at[float32](a, row)) })
	case "g":
		return cells(a, func(a *array, row int) driver.Value { return at[float64](a, row) })
	case "tdD":
		return cells(a, func(a *array, row int) driver.Value { return Date(at[int32](a, row)).Time() })
	case "u", "U":
		bytes := bytesOf(l.format)
		return cells(a, func(a *array, row int) driver.Value { return string(bytes(a, row)) })
	case "z", "Z":
		bytes := bytesOf(l.format)
		return cells(a, func(a *array, row int) driver.Value { return append([]byte{}, bytes(a, row)...) })
	case "w:16":
		return cells(a, func(a *array, row int) driver.Value { return at[UUID](a, row).String() })
	}
	scale := l.scale
	switch l.decimalWidth() {
	case 4:
		return cells(a, func(a *array, row int) driver.Value { return decimalOf(int64(at[int32](a, row)), scale) })
	case 8:
		return cells(a, func(a *array, row int) driver.Value { return decimalOf(at[int64](a, row), scale) })
	case 16:
		return cells(a, func(a *array, row int) driver.Value {
			bits := at[[2]uint64](a, row)
			if int64(bits[1]) == int64(bits[0])>>63 {
				return decimalOf(int64(bits[0]), scale)
			}
			return decimalText(unscaled(unsafe.Slice((*byte)(unsafe.Pointer(&bits)), 16)), int(scale))
		})
	}
	digits := int64(strings.Index("s  m  u  n", l.format[2:3]))
	return cells(a, func(a *array, row int) driver.Value { return timeOf(at[int64](a, row), digits) })
}

func decimalOf(value, scale int64) string { return decimalText(big.NewInt(value), int(scale)) }

// bytesOf returns what finds the bytes of a text, by 32-bit or 64-bit offsets.
func bytesOf(format string) func(*array, int) []byte {
	if format == "u" || format == "z" {
		return func(a *array, row int) []byte { return between(a, int(at[int32](a, row)), int(at[int32](a, row+1))) }
	}
	return func(a *array, row int) []byte { return between(a, int(at[int64](a, row)), int(at[int64](a, row+1))) }
}

func between(a *array, start, end int) []byte {
	if start == end {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(a.buffers[2], start)), end-start)
}

// dictionaryReader copies each text of a dictionary once, when it is first met.
func (l layout) dictionaryReader(a array) func(int) driver.Value {
	values := layout{format: l.format, kind: l.kind}.reader(arrayOf(a.dictionary, 0))
	known := make([]driver.Value, int(a.dictionary.length))
	return cells(a, func(a *array, row int) driver.Value {
		var code int
		switch l.codes {
		case "c":
			code = int(at[int8](a, row))
		case "s":
			code = int(at[int16](a, row))
		default:
			code = int(at[int32](a, row))
		}
		if known[code] == nil {
			known[code] = values(code)
		}
		return known[code]
	})
}
