package hypostyle

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestVersion(t *testing.T) {
	if !strings.Contains(Version(), ".") {
		t.Fatal(Version())
	}
}

func TestFirstSteps(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		must(t, db.Ping())
		equal(t, do(t, db, "CREATE TABLE orders (name VARCHAR NOT NULL, total DECIMAL(9,2))"), 0)
		equal(t, do(t, db, "INSERT INTO orders VALUES ('pen', 1.5), ('ink', ?)", "7.25"), 2)
		equal(t, do(t, db, "INSERT INTO orders VALUES ($name, $total)", sql.Named("total", nil), sql.Named("name", "glue")), 1)
		rows, err := db.Query("SELECT name, total FROM orders ORDER BY name")
		must(t, err)
		equal(t, names(rows, t), "name total")
		var text []string
		for rows.Next() {
			var name string
			var total sql.NullString
			must(t, rows.Scan(&name, &total))
			text = append(text, name+"="+total.String)
		}
		must(t, rows.Err())
		equal(t, strings.Join(text, " "), "glue= ink=7.25 pen=1.50")
		equal(t, do(t, db, "UPDATE orders SET total = 3 WHERE total > 1"), 2)
		equal(t, do(t, db, "DELETE FROM orders"), 3)
	})
}

func TestDataSources(t *testing.T) {
	config, err := ParseDSN("some/path?read_only=true&threads=2&memory_limit=268435456&temp_directory=/tmp&verify=always&allow_network_filesystem=1")
	must(t, err)
	equal(t, config, Config{Target: "some/path", ReadOnly: true, Threads: 2, MemoryLimit: 1 << 28, TempDirectory: "/tmp",
		Verify: "always", AllowNetworkFilesystem: true})
	config, err = ParseDSN("hypostyle://host/?streams=2")
	must(t, err)
	equal(t, config, Config{Target: "hypostyle://host/?streams=2"})
	for _, wrong := range []string{"x?colour=red", "x?threads=many", "x?read_only=perhaps", "x?memory_limit=1GB", "x?a=%zz"} {
		_, err := sql.Open("hypostyle", wrong)
		fails(t, err, StatusInvalidInput, "HY024")
	}

	// No part of a password is shown, whatever it is taken for.
	for _, wrong := range []string{"ada:*@h", "hypostyle:ada:*@h/", "x?threads=*", "x?*=1", "x?a@b=s3cr", "hypostyle://ada:*@h/",
		"hypostyle://ada:1?*@h/", "hypostyle://ada:s3cr", "hypostyle://h/?password=a&s3cr", "hypostyle+unix://ada:*@/run/s",
		"postgresql://ada:*@h/db", "postgresql://ada:s3cr?x=1@h/db", "mysql://ada:*@h/db"} {
		db, err := sql.Open("hypostyle", strings.ReplaceAll(wrong, "*", "s3cr:t%@/#?x"))
		if err == nil {
			err = db.Ping()
			must(t, db.Close())
		}
		if err == nil {
			t.Fatal(wrong)
		}
		for _, part := range []string{"s3cr", "t%", "#?"} {
			if strings.Contains(err.Error(), part) {
				t.Fatalf("%s: %v", wrong, err)
			}
		}
	}

	// Nothing is made before the first connection.
	path := filepath.Join(t.TempDir(), "new.hypo")
	db := open(t, path)
	if _, err := os.Stat(path); err == nil {
		t.Fatal("the directory is there already")
	}
	do(t, db, "CREATE TABLE t (a INTEGER)")
	readOnly := open(t, path+"?read_only=true&threads=1")
	_, err = readOnly.Exec("INSERT INTO t VALUES (1)")
	fails(t, err, StatusReadOnly, "25006")
	equal(t, scan[int](t, readOnly, "SELECT count(*) FROM t"), 0)
	fails(t, open(t, path+".none?read_only=true").Ping(), StatusNotFound, "58P01")
	fails(t, open(t, "").Ping(), StatusInvalidInput, "22000")
	fails(t, open(t, ":memory:?verify=sometimes").Ping(), StatusInvalidInput, "22000")
	fails(t, sql.OpenDB(NewConnector(Config{Target: ":memory:", User: "somebody"})).Ping(), StatusInvalidInput, "22000")
	var told *Error
	if err := open(t, "hypostyle://127.0.0.1:1/").Ping(); !errors.As(err, &told) || told.Status != StatusConnection {
		t.Fatal(err)
	}
}

func TestConnectionsShareMemory(t *testing.T) {
	db := memory(t)
	do(t, db, "CREATE TABLE t (a INTEGER)")
	one, err := db.Conn(ctx)
	must(t, err)
	two, err := db.Conn(ctx)
	must(t, err)
	_, err = one.ExecContext(ctx, "INSERT INTO t VALUES (1)")
	must(t, err)
	var count int
	must(t, two.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&count))
	equal(t, count, 1)
	must(t, one.Close())
	must(t, two.Close())

	// The driver's own Open, as old programs use it.
	conn, err := Driver{}.Open(":memory:")
	must(t, err)
	statement, err := conn.Prepare("SELECT ?")
	must(t, err)
	rows, err := statement.Query([]driver.Value{int64(7)})
	must(t, err)
	row := make([]driver.Value, 1)
	must(t, rows.Next(row))
	equal(t, row[0], driver.Value(int64(7)))
	must(t, rows.Close())
	result, err := statement.Exec([]driver.Value{int64(7)})
	must(t, err)
	_, err = result.LastInsertId()
	fails(t, err, StatusUnsupported, "0A000")
	must(t, statement.Close())
	must(t, conn.Close())
}

func TestValues(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 456789000, time.UTC)
	everywhere(t, func(t *testing.T, db *sql.DB) {
		for _, test := range []struct {
			sql  string
			want any
		}{
			{"true", true}, {"false", false}, {"NULL", nil}, {"NULL::INTEGER", nil}, {"NULL::DOUBLE", nil}, {"NULL::BLOB", nil},
			{"0::TINYINT", int64(0)}, {"(-128)::TINYINT", int64(-128)}, {"32767::SMALLINT", int64(32767)}, {"7::INTEGER", int64(7)},
			{"9223372036854775807", int64(math.MaxInt64)}, {"(-9223372036854775808)::BIGINT", int64(math.MinInt64)},
			{"255::UTINYINT", int64(255)}, {"65535::USMALLINT", int64(65535)}, {"4294967295::UINTEGER", int64(4294967295)},
			{"18446744073709551615::UBIGINT", uint64(math.MaxUint64)}, {"0::UBIGINT", uint64(0)},
			{"1.5::FLOAT", 1.5}, {"0.1::DOUBLE", 0.1}, {"'-inf'::DOUBLE", math.Inf(-1)}, {"'NaN'::DOUBLE", math.NaN()},
			{"1.10::DECIMAL(4,2)", "1.10"}, {"(-0.05)::DECIMAL(4,2)", "-0.05"}, {"0::DECIMAL(9,0)", "0"},
			{"12345678901234567890123456789012345678::DECIMAL(38,0)", "12345678901234567890123456789012345678"},
			{"DATE '2024-02-29'", at.Truncate(24 * time.Hour)}, {"DATE '0001-01-01'", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
			{"TIMESTAMP '2024-02-29 01:02:03.456789'", at}, {"TIMESTAMP '1969-12-31 23:59:59'", time.Unix(-1, 0).UTC()},
			{"TIMESTAMP '9999-12-31 23:59:59'", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
			{"TIMESTAMPTZ '2024-02-29 03:02:03.456789+02'", at},
			{"'2024-02-29 01:02:03'::TIMESTAMP_S", at.Truncate(time.Second)}, {"'2024-02-29 01:02:03.456'::TIMESTAMP_MS", at.Truncate(time.Millisecond)},
			{"'2024-02-29 01:02:03.456789123'::TIMESTAMP_NS", at.Add(123)}, {"'1969-12-31 23:59:59.999999999'::TIMESTAMP_NS", time.Unix(0, -1).UTC()},
			{"TIME '01:02:03.5'", "01:02:03.500"}, {"INTERVAL '1 month -2 days 03:00:00'", "1 mon -2 days +03:00:00"},
			{"'text'", "text"}, {"''", ""}, {"'ä' || chr(0) || 'b'", "ä\x00b"}, {`'{"a":1}'::JSON`, `{"a":1}`},
			{"'\\x00ff'::BLOB", []byte{0, 255}}, {"''::BLOB", []byte{}},
			{"'12345678-1234-5678-1234-567812345678'::UUID", "12345678-1234-5678-1234-567812345678"},
			{"[1, NULL, 3]", "[1, NULL, 3]"}, {"{'a': 1, 'b': 'x'}", "{a: 1, b: x}"},
		} {
			// As it is, stored beside NULLs, and row by row beside a list.
			for _, query := range []string{
				"SELECT " + test.sql + " AS a", "SELECT " + test.sql + " AS a, [1] AS b",
				"DROP TABLE IF EXISTS t; CREATE TABLE t AS SELECT CASE WHEN value <> 5 THEN " + test.sql +
					" END AS a FROM generate_series(1, 20) AS s (value); SELECT * FROM t",
				"SELECT a, [1] AS b FROM t", "SELECT a FROM t WHERE a IS NOT NULL OR random() < 2",
			} {
				for row, got := range readAll(t, db, query) {
					if row == 4 {
						equal(t, got == nil, true)
					} else if !isSame(got, test.want) {
						t.Errorf("%s, row %d, is %#v", query, row, got)
					}
				}
			}
		}
	})
}

// Rows are the same in batches and, beside a list, one by one: stored and computed, with dictionaries, views and NULLs.
func TestRowsInBatches(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t AS SELECT value AS a, CASE WHEN value % 4 > 0 THEN (['x', 'yy', 'a text of more than twelve bytes'])[value % 4] END AS b,"+
			" 'row ' || value AS c, CASE WHEN value % 3 > 0 THEN ('blob of ' || value)::BLOB END AS d, value::DECIMAL(5,1) AS e, value::DECIMAL(15,2) AS f,"+
			" CASE WHEN value % 5 > 0 THEN TIMESTAMP '2024-02-29 01:02:03' END AS g, value % 2 = 0 AS h, NULL AS i, value::DECIMAL(38,2) AS j, value::FLOAT AS k"+
			" FROM generate_series(1, 9000) AS s (value)")
		do(t, db, "INSERT INTO t (a, b) VALUES (0, NULL), (-1, 'another text')")
		do(t, db, "DELETE FROM t WHERE a % 100 = 7")
		for _, query := range []string{
			"SELECT * %s FROM t", "SELECT * %s FROM t ORDER BY a DESC LIMIT 500", "SELECT b %s FROM t", "SELECT upper(b), b || 'x', substr(c, 2), d %s FROM t WHERE a % 2 = 0",
			"SELECT b, count(*), max(c), sum(e) %s FROM t GROUP BY b ORDER BY b", "SELECT max(d), max(g) %s FROM t", "SELECT c::JSON %s FROM (SELECT a::VARCHAR AS c FROM t) AS s",
			"SELECT arrow_cast(b, 'Utf8'), arrow_cast(b, 'LargeUtf8'), arrow_cast(b, 'Utf8View'), arrow_cast(b, 'Dictionary(Int16, Utf8)'), arrow_cast(b, 'Dictionary(Int8, Utf8)') %s FROM t",
			"SELECT arrow_cast(g, 'Timestamp(Second, None)'), arrow_cast(g, 'Timestamp(Millisecond, None)'), arrow_cast(g, 'Timestamp(Nanosecond, None)') %s FROM t",
		} {
			batched, single := allRows(t, db, strings.Replace(query, "%s", "", 1)), allRows(t, db, strings.Replace(query, "%s", ", [1]", 1))
			equal(t, len(batched), len(single))
			for row := range batched {
				if want := strings.TrimSuffix(single[row], " [1]"); batched[row] != want {
					t.Fatalf("%s: row %d is\n%s, and not\n%s", query, row, batched[row], want)
				}
			}
		}
	})
}

func allRows(t *testing.T, db *sql.DB, query string) (texts []string) {
	t.Helper()
	rows, err := db.Query(query)
	must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	row := make([]any, len(columns))
	for index := range row {
		row[index] = new(any)
	}
	for rows.Next() {
		must(t, rows.Scan(row...))
		text := make([]string, len(row))
		for index := range row {
			text[index] = fmt.Sprint(*row[index].(*any))
		}
		texts = append(texts, strings.Join(text, " "))
	}
	must(t, rows.Err())
	return texts
}

// readAll returns the first column.
func readAll(t *testing.T, db *sql.DB, query string) (values []any) {
	t.Helper()
	rows, err := db.Query(query)
	must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	for rows.Next() {
		var value, ignored any
		must(t, rows.Scan([]any{&value, &ignored}[:len(columns)]...))
		values = append(values, value)
	}
	must(t, rows.Err())
	if len(values) == 0 {
		t.Error(query)
	}
	return values
}

func isSame(got, want any) bool {
	switch want := want.(type) {
	case time.Time:
		got, ok := got.(time.Time)
		return ok && want.Equal(got) && got.Location() == time.UTC
	case []byte:
		got, ok := got.([]byte)
		return ok && got != nil && bytes.Equal(got, want)
	case float64:
		got, ok := got.(float64)
		return ok && (got == want || math.IsNaN(got) && math.IsNaN(want))
	}
	return got == want
}

func TestScanning(t *testing.T) {
	db := memory(t)
	row := func(text string) *sql.Row { return db.QueryRow("SELECT " + text) }
	var (
		small int8
		float float32
		text  string
		raw   []byte
		null  sql.NullInt64
		some  sql.Null[time.Time]
		uuid  UUID
		part  Interval
		yes   bool
	)
	must(t, row("7").Scan(&small))
	must(t, row("0.5::FLOAT").Scan(&float))
	must(t, row("12").Scan(&text))
	must(t, row("'x'").Scan(&raw))
	must(t, row("NULL::BIGINT").Scan(&null))
	must(t, row("DATE '2024-02-29'").Scan(&some))
	must(t, row("'12345678-1234-5678-1234-567812345678'::UUID").Scan(&uuid))
	must(t, row("INTERVAL '14 months -3 days -01:02:03.5'").Scan(&part))
	must(t, row("1").Scan(&yes))
	equal(t, small, 7)
	equal(t, float, 0.5)
	equal(t, text, "12")
	equal(t, string(raw), "x")
	equal(t, null.Valid, false)
	equal(t, some.V.Format(time.DateOnly), "2024-02-29")
	equal(t, uuid.String(), "12345678-1234-5678-1234-567812345678")
	equal(t, part, Interval{14, -3, -int64(time.Hour + 2*time.Minute + 3500*time.Millisecond)})
	equal(t, yes, true)
	for _, wrong := range []error{
		row("300").Scan(&small), row("'x'").Scan(&small), row("NULL::INTEGER").Scan(&small), row("'x'").Scan(&some), row("1.5").Scan(&small),
		row("2").Scan(&yes), row("7").Scan(&uuid), row("'x'").Scan(&uuid), row("'x'").Scan(&part), row("7").Scan(&part),
		row("'1 mon x'").Scan(&part), row("'1:2'").Scan(&part), row("'1 moon'").Scan(&part), row("'00:00:00.1234567890'").Scan(&part),
		row("'7'").Scan(&part), row("'a:b:c'").Scan(&part),
	} {
		if wrong == nil {
			t.Error("a value was scanned into what it does not fit")
		}
	}
	must(t, row("'\\x000102030405060708090a0b0c0d0e0f'::BLOB").Scan(&uuid))
	equal(t, uuid[15], 15)
	if err := row("1 WHERE false").Scan(&small); !errors.Is(err, sql.ErrNoRows) {
		t.Error(err)
	}
}

type celsius float64

func (c celsius) Value() (driver.Value, error) { return float64(c), nil }

func TestParameters(t *testing.T) {
	at := time.Date(2024, 2, 29, 3, 2, 3, 456789123, time.FixedZone("", 7200))
	big128, _ := new(big.Int).SetString("-12345678901234567890123456789012345678", 10)
	uuid := UUID{0x12, 15: 7}
	everywhere(t, func(t *testing.T, db *sql.DB) {
		for _, test := range []struct {
			of    string
			value any
			want  string
		}{
			{"INTEGER", 7, "7"}, {"BIGINT", int64(math.MinInt64), "-9223372036854775808"}, {"TINYINT", int8(-3), "-3"},
			{"UBIGINT", uint64(math.MaxUint64), "18446744073709551615"}, {"UBIGINT", uint(3), "3"}, {"DOUBLE", float32(0.5), "0.5"},
			{"DOUBLE", celsius(3.5), "3.5"}, {"BOOLEAN", true, "true"}, {"BOOLEAN", false, "false"}, {"VARCHAR", "", ""},
			{"VARCHAR", "ä\x00b", "ä\x00b"}, {"DECIMAL(20,5)", "1.50", "1.50000"}, {"DECIMAL(38,0)", big128, big128.String()},
			{"DECIMAL(38,0)", big.NewInt(5), "5"}, {"DATE", DateOf(at), "2024-02-29"}, {"DATE", "2024-02-29", "2024-02-29"},
			{"TIMESTAMP", at, "2024-02-29 01:02:03.456789"}, {"TIMESTAMP_NS", at, "2024-02-29 01:02:03.456789123"}, {"TIME", "01:02:03", "01:02:03"}, {"UUID", uuid, uuid.String()},
			{"UUID", [16]byte(uuid), uuid.String()}, {"UUID", uuid.String(), uuid.String()}, {"UUID", &uuid, uuid.String()},
			{"INTERVAL", 90 * time.Minute, "01:30:00"}, {"INTERVAL", Interval{14, -3, -1e9}, "1 year 2 mons -3 days -00:00:01"},
			{"JSON", json.RawMessage(`{"a":1}`), `{"a":1}`}, {"BIGINT", sql.NullInt64{Int64: 5, Valid: true}, "5"},
		} {
			var got string
			err := db.QueryRow("SELECT CAST(CAST(? AS "+test.of+") AS VARCHAR)", test.value).Scan(&got)
			if err != nil || got != test.want {
				t.Errorf("%s of %T: %q, %v", test.of, test.value, got, err)
			}
		}
		for _, null := range []any{nil, (*int)(nil), (*UUID)(nil), (*Date)(nil), (*Interval)(nil), (*big.Int)(nil), json.RawMessage(nil), sql.NullString{}} {
			equal(t, scan[bool](t, db, "SELECT ?::VARCHAR IS NULL", null), true)
		}
		equal(t, scan[int](t, db, "SELECT octet_length(?::BLOB)", []byte{0, 1, 255}), 3)
		equal(t, scan[int](t, db, "SELECT octet_length(?::BLOB)", []byte{}), 0)
		equal(t, scan[bool](t, db, "SELECT ?::TIMESTAMPTZ = TIMESTAMPTZ '2024-02-29 03:02:03.456789+02'", at.Truncate(time.Microsecond)), true)
		equal(t, scan[bool](t, db, "SELECT ?::TIMESTAMP = TIMESTAMP '0001-01-01 00:00:00'", time.Date(1, 1, 1, 0, 0, 0, 5, time.UTC)), true)

		// By number, by name, and by the place of a name.
		equal(t, scan[string](t, db, "SELECT $2::VARCHAR || $1::VARCHAR || $2::VARCHAR", "a", "b"), "bab")
		equal(t, scan[string](t, db, "SELECT $x::VARCHAR || $y::VARCHAR || $x::VARCHAR", sql.Named("y", "b"), sql.Named("x", "a")), "aba")
		equal(t, scan[string](t, db, "SELECT $x::VARCHAR || $y::VARCHAR", "a", "b"), "ab")
	})
}

func TestRefusedParameters(t *testing.T) {
	db := memory(t)
	refuse := func(status Status, code, query string, args ...any) {
		t.Helper()
		_, err := db.Exec(query, args...)
		fails(t, err, status, code)
		_, err = db.Query(query, args...)
		fails(t, err, status, code)
	}
	refuse(StatusInvalidInput, "07001", "SELECT ?, ?", 1)
	refuse(StatusInvalidInput, "07001", "SELECT 1", 1)
	refuse(StatusInvalidInput, "07001", "SELECT ?")
	refuse(StatusUnknownName, "42P02", "SELECT $x", sql.Named("y", 1))
	refuse(StatusInvalidInput, "22018", "SELECT ?", struct{}{})
	refuse(StatusInvalidInput, "22018", "SELECT ?", []int{1})
	refuse(StatusInvalidInput, "22003", "SELECT ?::TINYINT", 300)
	refuse(StatusInvalidInput, "22003", "SELECT ?", new(big.Int).Lsh(big.NewInt(1), 127))
	refuse(StatusInvalidInput, "22021", "SELECT ?", "\xff")
	refuse(StatusInvalidInput, "22021", "SELECT '\xff'")
}

func TestPrepared(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
		insert, err := db.Prepare("INSERT INTO t VALUES (?, ?)")
		must(t, err)
		for row := range 100 {
			_, err := insert.Exec(row, strconv.Itoa(row))
			must(t, err)
		}
		_, err = insert.Exec(7, "again")
		fails(t, err, StatusConstraint, "23505")
		_, err = insert.Exec("seven", "again")
		if err == nil {
			t.Error("a text is no INTEGER")
		}
		if _, err = insert.Exec(1); err == nil {
			t.Error("a parameter is missing")
		}
		must(t, insert.Close())
		if _, err = insert.Exec(1000, "x"); err == nil {
			t.Error("the statement is closed")
		}
		ask, err := db.Prepare("SELECT b FROM t WHERE a = $key")
		must(t, err)
		defer ask.Close()
		var b string
		for row := range 100 {
			must(t, ask.QueryRow(sql.Named("key", row)).Scan(&b))
			equal(t, b, strconv.Itoa(row))
		}
		// Errors of a statement come when it runs; rows outlive it.
		wrong, err := db.Prepare("SELECT nothing FROM t")
		must(t, err)
		_, err = wrong.Query()
		fails(t, err, StatusUnknownName, "42703")
		must(t, wrong.Close())
		gone, err := db.Prepare("SELECT a FROM t ORDER BY a")
		must(t, err)
		rows, err := gone.Query()
		must(t, err)
		must(t, gone.Close())
		count := 0
		for rows.Next() {
			count++
		}
		must(t, rows.Err())
		equal(t, count, 100)
	})
}

func TestSeveralStatements(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		rows, err := db.Query("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a; -- ;\n SELECT 'x;y' AS b, a FROM t WHERE a > 5; SELECT 3 AS c;")
		must(t, err)
		var found []string
		for {
			found = append(found, "("+names(rows, t)+")")
			for rows.Next() {
				var a any
				must(t, rows.Scan(&a))
				found = append(found, strconv.FormatInt(a.(int64), 10))
			}
			if !rows.NextResultSet() {
				break
			}
		}
		must(t, rows.Err())
		must(t, rows.Close())
		equal(t, strings.Join(found, " "), "(a) 1 2 (b a) (c) 3")

		// Statements before the one that fails have taken effect.
		_, err = db.Query("INSERT INTO t VALUES (3); SELECT * FROM t; SELECT * FROM nowhere")
		fails(t, err, StatusUnknownName, "42P01")
		_, err = db.Exec("INSERT INTO t VALUES (4); SELECT * FROM nowhere")
		fails(t, err, StatusUnknownName, "42P01")
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 4)
		equal(t, do(t, db, "INSERT INTO t VALUES (5); DELETE FROM t WHERE a > 3"), 2)

		// A statement without rows gives none, one with RETURNING does.
		rows, err = db.Query("INSERT INTO t VALUES (6)")
		must(t, err)
		equal(t, names(rows, t), "")
		equal(t, rows.Next(), false)
		must(t, rows.Err())
		must(t, rows.Close())
		equal(t, scan[int](t, db, "INSERT INTO t VALUES (7) RETURNING a + 1"), 8)
		equal(t, do(t, db, "INSERT INTO t VALUES (8), (9) RETURNING a"), 2)
		equal(t, do(t, db, "SELECT * FROM t"), 0)
		do(t, db, "-- nothing")
	})
}

func TestColumnTypes(t *testing.T) {
	db := memory(t)
	do(t, db, "CREATE TABLE t (a INTEGER NOT NULL, b DECIMAL(9,2), c VARCHAR, d TIMESTAMPTZ, e BLOB, f INTEGER[], g UBIGINT, h UUID, i BOOLEAN)")
	rows, err := db.Query("SELECT * FROM t")
	must(t, err)
	defer rows.Close()
	types, err := rows.ColumnTypes()
	must(t, err)
	for index, want := range []struct {
		name, of, scan      string
		nullable, hasLength bool
		isDecimal           bool
	}{
		{"a", "INTEGER", "int64", false, false, false}, {"b", "DECIMAL", "string", true, false, true},
		{"c", "VARCHAR", "string", true, true, false}, {"d", "TIMESTAMP WITH TIME ZONE", "time.Time", true, false, false},
		{"e", "BLOB", "[]uint8", true, true, false}, {"f", "INTEGER[]", "string", true, false, false},
		{"g", "UBIGINT", "uint64", true, false, false}, {"h", "UUID", "string", true, false, false}, {"i", "BOOLEAN", "bool", true, false, false},
	} {
		got := types[index]
		equal(t, got.Name(), want.name)
		equal(t, got.DatabaseTypeName(), want.of)
		equal(t, got.ScanType().String(), want.scan)
		nullable, ok := got.Nullable()
		equal(t, ok, true)
		equal(t, nullable, want.nullable)
		_, ok = got.Length()
		equal(t, ok, want.hasLength)
		precision, scale, ok := got.DecimalSize()
		equal(t, ok, want.isDecimal)
		if ok && (precision != 9 || scale != 2) {
			t.Error(precision, scale)
		}
	}
}

func TestErrors(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR NOT NULL CHECK (b <> 'x'))")
		do(t, db, "INSERT INTO t VALUES (1, 'y')")
		for _, test := range []struct {
			sql    string
			status Status
			code   string
		}{
			{"SELECT 1 +", StatusSyntax, "42601"}, {"SELECT * FROM nowhere", StatusUnknownName, "42P01"},
			{"INSERT INTO t VALUES (1, 'z')", StatusConstraint, "23505"}, {"INSERT INTO t VALUES (2, NULL)", StatusConstraint, "23502"},
			{"INSERT INTO t VALUES (2, 'x')", StatusConstraint, "23514"}, {"CREATE TABLE t (a INTEGER)", StatusAlreadyExists, "42P07"},
			{"SELECT 1 / (a - 1) FROM t", StatusInvalidInput, "22012"}, {"COMMIT", StatusTransactionState, "25P01"},
		} {
			_, err := db.Exec(test.sql)
			fails(t, err, test.status, test.code)
			rows, err := db.Query(test.sql)
			if err == nil {
				for rows.Next() {
				}
				err = rows.Err()
			}
			fails(t, err, test.status, test.code)
		}
		_, err := db.Exec("SELECT\n  nothing FROM t")
		equal(t, fails(t, err, StatusUnknownName, "42703").Position, 10)
		if !strings.Contains(err.Error(), "42703") || !strings.HasPrefix(err.Error(), "hypostyle: ") {
			t.Error(err)
		}
	})
}

func TestTransactions(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t (a INTEGER)")
		count := func() int { return scan[int](t, db, "SELECT count(*) FROM t") }
		tx, err := db.Begin()
		must(t, err)
		_, err = tx.Exec("INSERT INTO t VALUES (1)")
		must(t, err)
		equal(t, count(), 0)
		must(t, tx.Commit())
		equal(t, count(), 1)
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
		tx, err = db.Begin()
		must(t, err)
		_, err = tx.Exec("DELETE FROM t")
		must(t, err)
		must(t, tx.Rollback())
		equal(t, count(), 1)

		// After an error only the rollback is left.
		tx, err = db.Begin()
		must(t, err)
		_, err = tx.Exec("SELECT nothing FROM t")
		fails(t, err, StatusUnknownName, "42703")
		_, err = tx.Exec("SELECT 1")
		fails(t, err, StatusTransactionState, "25P02")
		must(t, tx.Rollback())

		for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSnapshot} {
			tx, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			must(t, err)
			must(t, tx.Commit())
		}
		for _, level := range []sql.IsolationLevel{sql.LevelSerializable, sql.LevelLinearizable, sql.LevelWriteCommitted} {
			_, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			fails(t, err, StatusUnsupported, "0A000")
		}
		tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelSnapshot})
		must(t, err)
		var seen int
		must(t, tx.QueryRow("SELECT count(*) FROM t").Scan(&seen))
		do(t, db, "INSERT INTO t VALUES (2)")
		must(t, tx.QueryRow("SELECT count(*) FROM t").Scan(&seen))
		equal(t, seen, 1)
		_, err = tx.Exec("INSERT INTO t VALUES (3)")
		fails(t, err, StatusReadOnly, "25006")
		must(t, tx.Rollback())

		// Two changes of one row: the second commit has a conflict.
		one, err := db.Begin()
		must(t, err)
		two, err := db.Begin()
		must(t, err)
		for _, tx := range []*sql.Tx{one, two} {
			_, err = tx.Exec("UPDATE t SET a = a + 10 WHERE a = 1")
			must(t, err)
		}
		must(t, one.Commit())
		fails(t, two.Commit(), StatusConflict, "40001")
		equal(t, scan[int](t, db, "SELECT sum(a) FROM t"), 13)
	})
}

func TestATransactionEndsWithItsContext(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		db.SetMaxOpenConns(1)
		do(t, db, "CREATE TABLE t (a INTEGER)")
		ending, cancel := context.WithCancel(ctx)
		tx, err := db.BeginTx(ending, nil)
		must(t, err)
		_, err = tx.Exec("INSERT INTO t VALUES (1)")
		must(t, err)
		cancel()
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 0)
		if err := tx.Commit(); err == nil {
			t.Error("it was rolled back")
		}
	})
}

// What somebody has left open is no transaction of the next one.
func TestSessionsAreReset(t *testing.T) {
	db := memory(t)
	db.SetMaxOpenConns(1)
	do(t, db, "CREATE TABLE t (a INTEGER)")
	do(t, db, "BEGIN; INSERT INTO t VALUES (1)")
	equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 0)
	tx, err := db.Begin()
	must(t, err)
	must(t, tx.Commit())
}

func TestCancelledContexts(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		db.SetMaxOpenConns(1)
		for _, run := range []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := db.ExecContext(ctx, endless); return err },
			func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, endless+" WHERE a > ?", 0)
				return err
			},
			func(ctx context.Context) error {
				var count int
				return db.QueryRowContext(ctx, endless).Scan(&count)
			},
			func(ctx context.Context) error {
				columns, err := ReadColumns(ctx, db, endless)
				if err == nil {
					columns.Close()
				}
				return err
			},
		} {
			ending, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			within(t, 5*time.Second, func() {
				err := run(ending)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("no deadline: %v", err)
				}
			})
			cancel()
			// The connection is as before.
			equal(t, scan[int](t, db, "SELECT 1"), 1)

			over, cancel := context.WithCancel(ctx)
			cancel()
			if err := run(over); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		ending, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(ending, endless)
		fails(t, err, StatusInterrupted, "57014")
	})
}

// An interrupt that comes late must not meet the next statement.
func TestInterruptsMeetTheirStatement(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		db.SetMaxOpenConns(1)
		for round := range 60 {
			ending, cancel := context.WithTimeout(ctx, time.Duration(round)*200*time.Microsecond)
			_, err := db.ExecContext(ending, "SELECT sum(value) FROM generate_series(1, 20000)")
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			equal(t, scan[int](t, db, "SELECT sum(value) FROM generate_series(1, 1000)"), 500500)
		}
	})
}

func TestRows(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		rows, err := db.Query("SELECT value FROM generate_series(1, 100000) AS t (value)")
		must(t, err)
		sum := int64(0)
		for rows.Next() {
			var value int64
			must(t, rows.Scan(&value))
			sum += value
		}
		must(t, rows.Err())
		equal(t, sum, 5000050000)

		// Closed in the middle, cancelled in the middle.
		rows, err = db.Query("SELECT value FROM generate_series(1, 100000) AS t (value)")
		must(t, err)
		equal(t, rows.Next(), true)
		must(t, rows.Close())
		equal(t, rows.Next(), false)
		if err := rows.Scan(new(int)); err == nil {
			t.Error("the rows are closed")
		}
		must(t, rows.Close())
		ending, cancel := context.WithCancel(ctx)
		rows, err = db.QueryContext(ending, "SELECT value FROM generate_series(1, 100000) AS t (value)")
		must(t, err)
		equal(t, rows.Next(), true)
		cancel()
		for rows.Next() {
		}
		if !errors.Is(rows.Err(), context.Canceled) {
			t.Error(rows.Err())
		}
		equal(t, scan[int](t, db, "SELECT 1"), 1)

		// In a transaction several rows are open at once.
		tx, err := db.Begin()
		must(t, err)
		outer, err := tx.Query("SELECT * FROM generate_series(1, 50)")
		must(t, err)
		total := 0
		for outer.Next() {
			var a, b int
			must(t, outer.Scan(&a))
			must(t, tx.QueryRow("SELECT ? * 2", a).Scan(&b))
			total += b
		}
		must(t, outer.Err())
		equal(t, total, 2550)
		must(t, tx.Commit())
	})
}

func TestUseAfterClose(t *testing.T) {
	db := memory(t)
	conn, err := db.Conn(ctx)
	must(t, err)
	var kept *Conn
	must(t, Raw(conn, func(c *Conn) error { kept = c; return nil }))
	prepared, err := kept.Prepare("SELECT 1")
	must(t, err)
	rows, err := kept.QueryContext(ctx, "SELECT 7", nil)
	must(t, err)
	must(t, kept.Close())
	must(t, kept.Close())
	for _, err := range []error{
		second(kept.Prepare("SELECT 1")), second(kept.ExecContext(ctx, "SELECT 1", nil)), second(kept.QueryContext(ctx, "SELECT 1", nil)),
		second(kept.Begin()), kept.Ping(ctx), kept.ResetSession(ctx), second(kept.NewAppender(ctx, "t")), second(kept.ReadColumns(ctx, "SELECT 1")),
		second(kept.Append(ctx, "t", AppendOptions{}, Data{"a", []int{1}, nil})),
	} {
		if !errors.Is(err, driver.ErrBadConn) {
			t.Error(err)
		}
	}
	equal(t, kept.IsValid(), false)
	kept.interrupt()
	if _, err := prepared.Query(nil); err == nil {
		t.Error("the connection is closed")
	}
	must(t, prepared.Close())
	_, err = prepared.Query(nil)
	fails(t, err, StatusClosed, "08003")
	// A result outlives its connection.
	row := make([]driver.Value, 1)
	must(t, rows.Next(row))
	equal(t, row[0], driver.Value(int64(7)))
	must(t, rows.Close())
	fails(t, rows.Next(row), StatusClosed, "08003")
	must(t, rows.Close())
	conn.Close()

	connector := NewConnector(Config{Target: ":memory:"})
	closed := sql.OpenDB(connector)
	must(t, closed.Ping())
	must(t, closed.Close())
	if err := closed.Ping(); err == nil {
		t.Error("the database is closed")
	}
	_, err = connector.Connect(ctx)
	fails(t, err, StatusClosed, "08003")
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = connector.Connect(over); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestManyGoroutines(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t (a INTEGER, b INTEGER)")
		const workers, rounds = 8, 20
		var group sync.WaitGroup
		for worker := range workers {
			group.Add(1)
			go func() {
				defer group.Done()
				for round := range rounds {
					if _, err := db.Exec("INSERT INTO t VALUES (?, ?)", worker, round); err != nil {
						t.Error(err)
					}
					var mine int
					if err := db.QueryRow("SELECT count(*) FROM t WHERE a = ?", worker).Scan(&mine); err != nil || mine != round+1 {
						t.Error(mine, err)
					}
					ending, cancel := context.WithTimeout(ctx, time.Duration(round)*time.Millisecond)
					if _, err := db.ExecContext(ending, "SELECT * FROM t"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
				}
			}()
		}
		group.Wait()
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), workers*rounds)
	})
}

// A process that is killed loses nothing that it was told is there.
func TestKilledProcess(t *testing.T) {
	target := filepath.Join(t.TempDir(), "test.hypo")
	db := open(t, target)
	do(t, db, "CREATE TABLE acknowledged (a INTEGER)")
	writer := exec.Command(os.Args[0])
	writer.Env = append(os.Environ(), "HYPOSTYLE_TEST_WRITER="+target)
	writer.Stderr = os.Stderr
	told, err := writer.StdoutPipe()
	must(t, err)
	must(t, writer.Start())
	lines, last := bufio.NewScanner(told), -1
	for lines.Scan() {
		last, err = strconv.Atoi(lines.Text())
		must(t, err)
		if last == 30 {
			must(t, writer.Process.Kill())
		}
	}
	writer.Wait()
	if last < 30 {
		t.Fatal("the writer ended too early")
	}
	found := scan[int](t, db, "SELECT count(*) FROM acknowledged WHERE a <= ?", last)
	equal(t, found, last+1)
	if rest := scan[int](t, db, "SELECT count(*) FROM acknowledged"); rest > last+2 {
		t.Error(rest)
	}
	do(t, db, "INSERT INTO acknowledged VALUES (-1)")
}

// A connection whose server is gone is not used again.
func TestLostServer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	var db *sql.DB
	t.Run("first", func(t *testing.T) {
		serve(t, socket, "--unix", socket)
		var err error
		db, err = sql.Open("hypostyle", "hypostyle+unix://"+socket)
		must(t, err)
		db.SetMaxOpenConns(1)
		must(t, db.Ping())
	})
	if db == nil {
		t.Skip("there is no server")
	}
	defer db.Close()
	if err := db.Ping(); err == nil {
		t.Fatal("the server has ended")
	}
	serve(t, socket, "--unix", socket)
	must(t, db.Ping())
	equal(t, scan[int](t, db, "SELECT 1"), 1)
}

// Go's runtime sends signals to threads; none of them ends a call of the library.
func TestSignals(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		signals, over := make(chan os.Signal, 1), make(chan struct{})
		signal.Notify(signals, syscall.SIGUSR1)
		defer signal.Stop(signals)
		var group sync.WaitGroup
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				select {
				case <-over:
					return
				default:
					syscall.Kill(os.Getpid(), syscall.SIGUSR1)
					time.Sleep(100 * time.Microsecond)
				}
			}
		}()
		defer group.Wait()
		defer close(over)
		do(t, db, "CREATE TABLE t (a BIGINT, b VARCHAR)")
		for round := range 20 {
			equal(t, do(t, db, "INSERT INTO t SELECT value, 'row ' || value FROM generate_series(1, 5000) AS s (value)"), 5000)
			equal(t, scan[int](t, db, "SELECT sum(a) FROM t"), (round+1)*12502500)
		}
		equal(t, columnOf(t, read(t, db, "SELECT b FROM t"), "b").Text(4999), "row 5000")
	})
}

// What is closed, or fails, is freed: the process stays as large as it was.
func TestNothingIsKept(t *testing.T) {
	db := memory(t)
	work := func(rounds int) {
		for range rounds {
			rows, err := db.Query("SELECT value, 'some text ' || value FROM generate_series(1, 20000) AS s (value)")
			must(t, err)
			rows.Next()
			must(t, rows.Close())
			if _, err := db.Exec("SELECT ?", "\xff"); err == nil {
				t.Error("it is not UTF-8")
			}
			columns, err := ReadColumns(ctx, db, "SELECT value, [1] AS b FROM generate_series(1, 20000) AS s (value)")
			must(t, err)
			_, err = columns.Writable(0)
			must(t, err)
			must(t, columns.Close())
		}
	}
	work(50)
	before := resident(t)
	work(300)
	if grown := resident(t) - before; grown > 48<<20 {
		t.Errorf("the process has grown by %d MiB", grown>>20)
	}
}

func resident(t *testing.T) int {
	t.Helper()
	told, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	must(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(told))[1])
	must(t, err)
	return pages * os.Getpagesize()
}

// A server that does not answer is waited for as long as the context says.
func TestASilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	db := open(t, "hypostyle://"+silent.Addr().String()+"/?tls=off")
	ending, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	within(t, 5*time.Second, func() {
		if err := db.PingContext(ending); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A statement of a transaction that is cancelled leaves the rollback.
func TestACancelledStatementOfATransaction(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		db.SetMaxOpenConns(1)
		do(t, db, "CREATE TABLE t (a INTEGER)")
		tx, err := db.Begin()
		must(t, err)
		_, err = tx.Exec("INSERT INTO t VALUES (1)")
		must(t, err)
		ending, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err = tx.ExecContext(ending, endless)
		fails(t, err, StatusInterrupted, "57014")
		must(t, tx.Rollback())
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 0)
	})
}

func TestUsers(t *testing.T) {
	program := os.Getenv("HYPOSTYLE_PROGRAM")
	if program == "" {
		t.Skip("HYPOSTYLE_PROGRAM does not say where the program is")
	}
	user := exec.Command(program, "user", "ann", "--role", "read")
	user.Stdin = strings.NewReader("secret\n")
	line, err := user.Output()
	must(t, err)
	users := filepath.Join(t.TempDir(), "users")
	must(t, os.WriteFile(users, line, 0o600))
	target := tcpServer(t, "--users", users)
	db := sql.OpenDB(NewConnector(Config{Target: target, User: "ann", Password: "secret"}))
	defer db.Close()
	must(t, db.Ping())
	_, err = db.Exec("CREATE TABLE t (a INTEGER)")
	fails(t, err, StatusDenied, "42501")
	equal(t, scan[int](t, open(t, strings.Replace(target, "//", "//ann:secret@", 1)), "SELECT 1"), 1)
	for code, config := range map[string]Config{"28P01": {Target: target, User: "ann", Password: "wrong"}, "28000": {Target: target}} {
		refused := sql.OpenDB(NewConnector(config))
		fails(t, refused.Ping(), StatusDenied, code)
		must(t, refused.Close())
	}
}
