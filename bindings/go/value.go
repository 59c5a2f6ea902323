package hypostyle

/*
#include <hypostyle.h>
*/
import "C"

import (
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// Date is a DATE: the days since 1970-01-01.
type Date int32

const secondsPerDay = 24 * 60 * 60

// DateOf returns the date that a clock shows at a time, in its own zone.
func DateOf(at time.Time) Date {
	year, month, day := at.Date()
	return Date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

// Time returns the begin of the day in UTC.
func (d Date) Time() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

func (d Date) String() string { return d.Time().Format(time.DateOnly) }

// UUID is a UUID.
type UUID [16]byte

func (u UUID) String() string {
	text := hex.EncodeToString(u[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// Scan reads a UUID as the database gives it, or its 16 bytes.
func (u *UUID) Scan(from any) error {
	switch from := from.(type) {
	case string:
		bytes, err := hex.DecodeString(strings.ReplaceAll(from, "-", ""))
		if err == nil && len(bytes) == len(u) {
			copy(u[:], bytes)
			return nil
		}
	case []byte:
		if len(from) == len(u) {
			copy(u[:], from)
			return nil
		}
	}
	return refused(StatusInvalidInput, "22018", "%v is no UUID", from)
}

// Interval is an INTERVAL, whose parts have signs of their own.
type Interval struct {
	Months, Days int32
	Nanoseconds  int64
}

// Scan reads an interval as the database gives it, such as "1 mon 2 days 03:00:00".
func (i *Interval) Scan(from any) error {
	text, ok := from.(string)
	if !ok {
		return refused(StatusInvalidInput, "22018", "%v is no INTERVAL", from)
	}
	read, err := parseInterval(text)
	if err != nil {
		return refused(StatusInvalidInput, "22007", "%q is no INTERVAL", text)
	}
	*i = read
	return nil
}

func parseInterval(text string) (Interval, error) {
	var read Interval
	words := strings.Fields(text)
	for index := 0; index < len(words); index++ {
		if strings.Contains(words[index], ":") {
			nanoseconds, err := parseClock(words[index])
			if err != nil {
				return read, err
			}
			read.Nanoseconds = nanoseconds
			continue
		}
		if index+1 == len(words) {
			return read, errors.New("a number without a unit")
		}
		number, err := strconv.ParseInt(words[index], 10, 32)
		if err != nil {
			return read, err
		}
		index++
		switch strings.TrimSuffix(words[index], "s") {
		case "year":
			read.Months += int32(number) * 12
		case "mon":
			read.Months += int32(number)
		case "day":
			read.Days = int32(number)
		default:
			return read, errors.New("another unit")
		}
	}
	return read, nil
}

// parseClock reads [-+]hours:minutes:seconds[.fraction] as nanoseconds.
func parseClock(text string) (int64, error) {
	digits, isNegative := strings.CutPrefix(strings.TrimPrefix(text, "+"), "-")
	parts := strings.Split(digits, ":")
	if len(parts) != 3 {
		return 0, errors.New("no clock")
	}
	seconds, fraction, _ := strings.Cut(parts[2], ".")
	if len(fraction) > 9 {
		return 0, errors.New("more than nanoseconds")
	}
	var sum int64
	for _, part := range []struct {
		text string
		unit time.Duration
	}{{parts[0], time.Hour}, {parts[1], time.Minute}, {seconds, time.Second}, {(fraction + "000000000")[:9], 1}} {
		number, err := strconv.ParseUint(part.text, 10, 63)
		if err != nil {
			return 0, err
		}
		sum += int64(number) * int64(part.unit)
	}
	if isNegative {
		sum = -sum
	}
	return sum, nil
}

// A value for C.
type encoded struct {
	kind, scale   int32
	integer, high int64
	number        float64
	data          unsafe.Pointer // of the Go value
	length        int
}

// encode returns a value as C has it. The Go value must be kept alive while it is used.
func encode(value any) (encoded, error) {
	switch value := value.(type) {
	case nil:
		return encoded{kind: C.HYPOSTYLE_NULL}, nil
	case bool:
		if value {
			return encoded{kind: C.HYPOSTYLE_BOOLEAN, integer: 1}, nil
		}
		return encoded{kind: C.HYPOSTYLE_BOOLEAN}, nil
	case int:
		return encoded{kind: C.HYPOSTYLE_BIGINT, integer: int64(value)}, nil
	case int64:
		return encoded{kind: C.HYPOSTYLE_BIGINT, integer: value}, nil
	case int32:
		return encoded{kind: C.HYPOSTYLE_BIGINT, integer: int64(value)}, nil
	case uint64:
		return encoded{kind: C.HYPOSTYLE_UBIGINT, integer: int64(value)}, nil
	case float64:
		return encoded{kind: C.HYPOSTYLE_DOUBLE, number: value}, nil
	case float32:
		return encoded{kind: C.HYPOSTYLE_DOUBLE, number: float64(value)}, nil
	case string:
		return encoded{kind: C.HYPOSTYLE_VARCHAR, data: unsafe.Pointer(unsafe.StringData(value)), length: len(value)}, nil
	case []byte:
		return encoded{kind: C.HYPOSTYLE_BLOB, data: unsafe.Pointer(unsafe.SliceData(value)), length: len(value)}, nil
	case time.Time:
		return encodeTime(value), nil
	case Date:
		return encoded{kind: C.HYPOSTYLE_DATE, integer: int64(value)}, nil
	case UUID:
		return encoded{kind: C.HYPOSTYLE_UUID, data: unsafe.Pointer(&value), length: len(value)}, nil
	case Interval:
		high := int64(value.Days)<<32 | int64(uint32(value.Months))
		return encoded{kind: C.HYPOSTYLE_INTERVAL, scale: 9, integer: value.Nanoseconds, high: high}, nil
	case *big.Int:
		return encodeBig(value)
	}
	// The rest is what parameters become by themselves.
	given, err := checked(value)
	if err != nil {
		return encoded{}, err
	}
	return encode(given)
}

// encodeTime keeps nanoseconds where a TIMESTAMP of nanoseconds reaches, 1678 to 2261.
func encodeTime(at time.Time) encoded {
	if at.Nanosecond()%1000 != 0 && at.Year() >= 1678 && at.Year() <= 2261 {
		return encoded{kind: C.HYPOSTYLE_TIMESTAMPTZ, scale: 9, integer: at.UnixNano()}
	}
	return encoded{kind: C.HYPOSTYLE_TIMESTAMPTZ, scale: 6, integer: at.UnixMicro()}
}

func encodeBig(number *big.Int) (encoded, error) {
	if number.BitLen() > 126 {
		return encoded{}, refused(StatusInvalidInput, "22003", "%v is out of range for DECIMAL(38,0)", number)
	}
	// The 128 bits of the two's complement.
	bits := new(big.Int).And(number, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1)))
	low := new(big.Int).And(bits, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	high := new(big.Int).Rsh(bits, 64).Uint64()
	return encoded{kind: C.HYPOSTYLE_DECIMAL, integer: int64(low), high: int64(high)}, nil
}

// checked returns a parameter as one of the types that encode knows.
func checked(value any) (any, error) {
	switch value := value.(type) {
	case nil, bool, int64, uint64, float64, string, []byte, time.Time, Date, UUID, Interval:
		return value, nil
	case *big.Int:
		if value == nil {
			return nil, nil
		}
		return value, nil
	case time.Duration:
		return Interval{Nanoseconds: int64(value)}, nil
	case json.RawMessage:
		if value == nil {
			return nil, nil
		}
		return string(value), nil
	case uint:
		return uint64(value), nil
	case [16]byte:
		return UUID(value), nil
	case *Date:
		return pointed(value), nil
	case *UUID:
		return pointed(value), nil
	case *Interval:
		return pointed(value), nil
	}
	given, err := driver.DefaultParameterConverter.ConvertValue(value)
	if err != nil {
		return nil, &Error{Status: StatusInvalidInput, Code: "22018", Message: fmt.Sprintf("a parameter cannot be a %T: %v", value, err)}
	}
	return given, nil
}

func pointed[T any](value *T) any {
	if value == nil {
		return nil
	}
	return *value
}

// CheckNamedValue takes what a parameter may be.
func (c *Conn) CheckNamedValue(named *driver.NamedValue) (err error) {
	named.Value, err = checked(named.Value)
	return err
}

// CheckNamedValue takes what a parameter may be.
func (s *Stmt) CheckNamedValue(named *driver.NamedValue) error { return s.conn.CheckNamedValue(named) }
