package hypostyle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func columnOf(t *testing.T, columns *Columns, name string) *Column {
	t.Helper()
	found, err := columns.Named(name)
	must(t, err)
	return found
}

func values[T Element](t *testing.T, columns *Columns, name string) []T {
	t.Helper()
	found, err := Values[T](columnOf(t, columns, name))
	must(t, err)
	return found
}

func read(t *testing.T, db *sql.DB, query string, args ...any) *Columns {
	t.Helper()
	columns, err := ReadColumns(ctx, db, query, args...)
	must(t, err)
	t.Cleanup(func() { must(t, columns.Close()) })
	return columns
}

func TestColumns(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t AS SELECT value AS a, CASE WHEN value % 4 > 0 THEN value / 2.0::DOUBLE END AS b,"+
			" CASE WHEN value % 4 > 0 THEN (['x', 'yy', 'z'])[value % 4] END AS c, 'row ' || value AS d, value % 2 = 0 AS e,"+
			" DATE '2024-02-29' + value::INTEGER % 2 AS f, (value - 3)::DECIMAL(12,2) AS g FROM generate_series(1, 100000)")
		columns := read(t, db, "SELECT * FROM t")
		equal(t, strings.Join(columns.Names(), " "), "a b c d e f g")
		numbers, floats := values[int64](t, columns, "a"), values[float64](t, columns, "b")
		equal(t, len(numbers), 100000)
		sum, half := int64(0), 0.0
		b := columnOf(t, columns, "b")
		for row, number := range numbers {
			sum += number
			if !b.IsNull(row) {
				half += floats[row]
			}
		}
		equal(t, sum, 5000050000)
		equal(t, half, 1875000000)
		equal(t, b.NullCount(), 25000)
		equal(t, b.Valid()[3], false)
		equal(t, b.Valid()[4], true)
		equal(t, columnOf(t, columns, "a").Valid() == nil, true)
		c := columnOf(t, columns, "c")
		equal(t, c.Text(0)+c.Text(1)+c.Text(2)+c.Text(3), "xyyz")
		equal(t, c.Bytes(3) == nil, true)
		if texts, ok := c.Dictionary(); ok {
			equal(t, len(texts), 3)
			equal(t, texts[c.Code(1)], "yy")
			equal(t, c.Code(3), -1)
		}
		equal(t, columnOf(t, columns, "d").Text(99999), "row 100000")
		equal(t, columnOf(t, columns, "d").Code(5), -1)
		e := columnOf(t, columns, "e")
		equal(t, e.Bool(0), false)
		equal(t, e.Bool(1), true)
		equal(t, columnOf(t, columns, "f").Time(0).Format(time.DateOnly), "2024-03-01")
		equal(t, values[Date](t, columns, "f")[1].String(), "2024-02-29")
		g := columnOf(t, columns, "g")
		equal(t, g.Text(0)+" "+g.Text(2)+" "+g.Text(99999), "-2.00 0.00 99997.00")
		equal(t, g.Type()+fmt.Sprint(g.Scale()), "DECIMAL(12,2)2")
		must(t, columns.Verify(0))
		if strings.HasSuffix(t.Name(), "/file") || strings.HasSuffix(t.Name(), "/unix") {
			equal(t, columnOf(t, columns, "a").IsMapped() && b.IsMapped(), true)
		}

		// They outlive the table.
		do(t, db, "DROP TABLE t")
		equal(t, numbers[50000], 50001)
		equal(t, columnOf(t, columns, "d").Text(2), "row 3")
	})
}

func TestStoredColumnsAreMappings(t *testing.T) {
	db := open(t, t.TempDir()+"/test.hypo")
	do(t, db, "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 100000)")
	columns := read(t, db, "SELECT a, a + 1 AS b FROM t")
	whole := read(t, db, "SELECT a FROM t")
	equal(t, columnOf(t, whole, "a").IsMapped(), true)
	equal(t, columnOf(t, columns, "b").IsMapped(), false)
	// The program's own copy, page by page as it is written.
	mine, err := whole.Writable(0)
	must(t, err)
	numbers, err := Values[int64](mine)
	must(t, err)
	for row := range numbers {
		numbers[row] = -1
	}
	equal(t, values[int64](t, whole, "a")[7], 8)
	equal(t, scan[int](t, db, "SELECT min(a) FROM t"), 1)
	equal(t, len(whole.Names()), 1)
	must(t, whole.Close())
	if _, err := Values[int64](mine); err == nil {
		t.Error("the columns are closed")
	}
}

func TestColumnsOfEachType(t *testing.T) {
	db := memory(t)
	columns := read(t, db, "SELECT 1::TINYINT AS a, 2::SMALLINT AS b, 3::INTEGER AS c, 4::BIGINT AS d, 5::UTINYINT AS e, 6::USMALLINT AS f,"+
		" 7::UINTEGER AS g, 8::UBIGINT AS h, 1.5::FLOAT AS i, 2.5::DOUBLE AS j, (-1.25)::DECIMAL(38,2) AS k, TIME '00:00:01' AS l,"+
		" TIMESTAMP '1970-01-02 00:00:00' AS m, INTERVAL '14 months 3 days' AS n, 'x' AS o, 'y'::BLOB AS p,"+
		" '12345678-1234-5678-1234-567812345678'::UUID AS q, NULL AS r, [1] AS s, ''::VARCHAR AS u, NULL::INTEGER AS v, false AS w, '[]'::JSON AS x, ?::TIMESTAMPTZ AS y",
		time.Unix(5, 0))
	equal(t, values[int8](t, columns, "a")[0], 1)
	equal(t, values[int16](t, columns, "b")[0], 2)
	equal(t, values[int32](t, columns, "c")[0], 3)
	equal(t, values[int64](t, columns, "d")[0], 4)
	equal(t, values[uint8](t, columns, "e")[0], 5)
	equal(t, values[uint16](t, columns, "f")[0], 6)
	equal(t, values[uint32](t, columns, "g")[0], 7)
	equal(t, values[uint64](t, columns, "h")[0], 8)
	equal(t, values[float32](t, columns, "i")[0], 1.5)
	equal(t, values[float64](t, columns, "j")[0], 2.5)
	equal(t, values[[16]byte](t, columns, "k")[0][0], 0x83)
	equal(t, columnOf(t, columns, "k").Text(0), "-1.25")
	equal(t, values[int64](t, columns, "l")[0], 1000000)
	equal(t, columnOf(t, columns, "m").Time(0).Equal(time.Unix(86400, 0)), true)
	equal(t, values[Interval](t, columns, "n")[0], Interval{14, 3, 0})
	equal(t, columnOf(t, columns, "o").Text(0)+columnOf(t, columns, "p").Text(0), "xy")
	equal(t, values[UUID](t, columns, "q")[0].String(), "12345678-1234-5678-1234-567812345678")
	equal(t, columnOf(t, columns, "r").IsNull(0), true)
	equal(t, columnOf(t, columns, "u").Bytes(0) != nil, true)
	equal(t, columnOf(t, columns, "v").IsNull(0), true)
	equal(t, columnOf(t, columns, "v").Time(0).IsZero(), true)
	equal(t, columnOf(t, columns, "a").Time(0).IsZero(), true)
	equal(t, columnOf(t, columns, "w").Bool(0) || columnOf(t, columns, "a").Bool(0), false)
	equal(t, columnOf(t, columns, "x").Text(0), "[]")
	equal(t, columnOf(t, columns, "y").Time(0).Unix(), 5)

	_, err := columns.Named("s")
	fails(t, err, StatusUnsupported, "0A000")
	_, err = columns.Named("none")
	fails(t, err, StatusUnknownName, "42703")
	for _, index := range []int{-1, 24} {
		_, err = columns.Column(index)
		fails(t, err, StatusInvalidInput, "07009")
		_, err = columns.Writable(index)
		fails(t, err, StatusInvalidInput, "07009")
		fails(t, columns.Verify(index), StatusInvalidInput, "07009")
	}
	for _, err := range []error{
		second(Values[int32](columnOf(t, columns, "d"))), second(Values[uint64](columnOf(t, columns, "d"))), second(Values[float64](columnOf(t, columns, "d"))),
		second(Values[UUID](columnOf(t, columns, "n"))), second(Values[Interval](columnOf(t, columns, "q"))), second(Values[int8](columnOf(t, columns, "o"))),
		second(Values[int8](columnOf(t, columns, "w"))), second(Values[int64](columnOf(t, columns, "p"))), second(Values[float32](columnOf(t, columns, "j"))),
	} {
		fails(t, err, StatusInvalidInput, "22018")
	}
	for _, row := range []int{-1, 1} {
		func() {
			defer func() { equal(t, recover() != nil, true) }()
			columnOf(t, columns, "a").IsNull(row)
		}()
	}

	_, err = ReadColumns(ctx, db, "SELECT nothing")
	fails(t, err, StatusUnknownName, "42703")
	_, err = ReadColumns(ctx, db, "SELECT ?", struct{}{})
	fails(t, err, StatusInvalidInput, "22018")
	_, err = ReadColumns(ctx, db, "SELECT ?")
	fails(t, err, StatusInvalidInput, "07001")
	equal(t, values[int64](t, read(t, db, "SELECT $x::BIGINT AS a", sql.Named("x", 9)), "a")[0], 9)
	equal(t, len(values[int64](t, read(t, db, "SELECT 1::BIGINT AS a WHERE false"), "a")), 0)

	must(t, columns.Close())
	_, err = columns.Column(0)
	fails(t, err, StatusClosed, "08003")
}

func TestAppend(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		type price int32
		all := []Data{
			{"a", []int{1, 2, 3}, nil}, {"b", []float64{0.5, 0, 1.5}, []bool{true, false, true}}, {"c", []string{"one", "", "three"}, []bool{true, false, true}},
			{"d", []bool{true, false, true}, nil}, {"e", []time.Time{time.Unix(1, 0), time.Unix(2, 500), time.Unix(3, 0)}, nil},
			{"f", []Date{0, 1, 2}, nil}, {"g", []UUID{{1}, {2}, {3}}, nil}, {"h", []Interval{{1, 2, 3e9}, {}, {}}, nil}, {"i", [][]byte{{1}, nil, {2, 3}}, nil},
			{"j", []price{7, 8, 9}, nil}, {"k", []uint8{1, 2, 255}, nil}, {"l", []int8{-1, 0, 1}, nil}, {"m", []uint64{0, 1, math.MaxUint64}, nil},
			{"n", []float32{0.5, 1, 2}, nil}, {"o", []int16{-1, 0, 1}, nil}, {"p", []uint16{1, 2, 3}, nil}, {"q", []uint32{1, 2, 3}, nil}, {"r", []uint{1, 2, 3}, nil},
		}
		_, err := Append(ctx, db, "made", AppendOptions{}, all...)
		fails(t, err, StatusUnknownName, "42P01")
		rows, err := Append(ctx, db, "made", AppendOptions{Create: true}, all...)
		must(t, err)
		equal(t, rows, 3)
		equal(t, scan[string](t, db, "SELECT string_agg(concat_ws(' ', a, b, c, d, e AT TIME ZONE 'UTC', f, h, octet_length(i), j, k, l, m, n, o, p, q, r), '|' ORDER BY a) FROM made"),
			"1 0.5 one true 1970-01-01 00:00:01 1970-01-01 1 mon 2 days 00:00:03 1 7 1 -1 0 0.5 -1 1 1 1|"+
				"2 false 1970-01-01 00:00:02 1970-01-02 00:00:00 0 8 2 0 1 1.0 0 2 2 2|"+
				"3 1.5 three true 1970-01-01 00:00:03 1970-01-03 00:00:00 2 9 255 1 18446744073709551615 2.0 1 3 3 3")
		rows, err = Append(ctx, db, "made", AppendOptions{}, all[2], all[0])
		must(t, err)
		equal(t, rows, 3)
		equal(t, scan[int](t, db, "SELECT count(*) FROM made WHERE b IS NULL"), 4)
		rows, err = Append(ctx, db, "made", AppendOptions{}, Data{"a", []int64{}, nil}, Data{"c", []string{}, []bool{}})
		must(t, err)
		equal(t, rows, 0)
		do(t, db, "CREATE TABLE pair (x INTEGER NOT NULL, y VARCHAR)")
		_, err = Append(ctx, db, "pair", AppendOptions{ByPosition: true}, all[0], all[2])
		must(t, err)
		// All or none.
		_, err = Append(ctx, db, "pair", AppendOptions{}, Data{"x", []int32{4, 5}, []bool{true, false}}, Data{"y", []string{"a", "b"}, nil})
		fails(t, err, StatusConstraint, "23502")
		equal(t, scan[string](t, db, "SELECT string_agg(x || coalesce(y, '-'), ' ' ORDER BY x) FROM pair"), "1one 2- 3three")
	})
}

func TestRefusedColumns(t *testing.T) {
	db := memory(t)
	do(t, db, "CREATE TABLE t (a INTEGER, b VARCHAR)")
	for _, test := range []struct {
		columns []Data
		code    string
	}{
		{nil, "HY009"}, {[]Data{{"a", 7, nil}}, "22018"}, {[]Data{{"a", nil, nil}}, "22018"}, {[]Data{{"a", []any{1}, nil}}, "22018"},
		{[]Data{{"a", []struct{}{{}}, nil}}, "22018"}, {[]Data{{"a", []*int{nil}, nil}}, "22018"}, {[]Data{{"a", []int{1}, []bool{}}}, "HY024"},
		{[]Data{{"a", []int{1}, nil}, {"b", []string{"x", "y"}, nil}}, "HY009"}, {[]Data{{"b", []string{"\xff"}, nil}}, "HY009"},
	} {
		_, err := Append(ctx, db, "t", AppendOptions{}, test.columns...)
		fails(t, err, StatusInvalidInput, test.code)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Append(over, db, "t", AppendOptions{}, Data{"a", []int{1}, nil}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 0)
}

// raw calls a function with the session of one connection.
func raw(t *testing.T, db *sql.DB, work func(*Conn) error) {
	t.Helper()
	conn, err := db.Conn(ctx)
	must(t, err)
	defer conn.Close()
	must(t, Raw(conn, work))
}

func TestAppender(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR, c TIMESTAMP, d UUID, e DECIMAL(9,2))")
		raw(t, db, func(conn *Conn) error {
			appender, err := conn.NewAppender(ctx, "t")
			must(t, err)
			defer appender.Close()
			for row := range 20000 {
				must(t, appender.Row(row, "text", time.Unix(int64(row), 0), UUID{1}, "1.50"))
			}
			rows, err := appender.Finish()
			must(t, err)
			equal(t, rows, 20000)
			_, err = appender.Finish()
			fails(t, err, StatusClosed, "08003")
			return nil
		})
		equal(t, scan[string](t, db, "SELECT count(*) || ' ' || sum(a) || ' ' || max(c) || ' ' || sum(e) FROM t"),
			"20000 199990000 1970-01-01 05:33:19 30000.00")

		// What is not finished is not there.
		raw(t, db, func(conn *Conn) error {
			appender, err := conn.NewAppender(ctx, "t")
			must(t, err)
			for row := range 70000 {
				must(t, appender.Row(row, nil, nil, nil, nil))
			}
			must(t, appender.Close())
			must(t, appender.Close())
			fails(t, appender.Row(1), StatusClosed, "08003")
			_, err = appender.Finish()
			fails(t, err, StatusClosed, "08003")
			return nil
		})
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 20000)

		raw(t, db, func(conn *Conn) error {
			for _, test := range []struct {
				row  []any
				code string
			}{{[]any{1}, "HY024"}, {[]any{1, 2, 3, 4, 5, 6}, "22018"}, {[]any{"x", nil, nil, nil, nil}, "22018"}, {[]any{struct{}{}}, "22018"}} {
				appender, err := conn.NewAppender(ctx, "t")
				must(t, err)
				fails(t, appender.Row(test.row...), StatusInvalidInput, test.code)
				// It stays so.
				fails(t, appender.Row(1, nil, nil, nil, nil), StatusInvalidInput, test.code)
				_, err = appender.Finish()
				fails(t, err, StatusInvalidInput, test.code)
				must(t, appender.Close())
			}
			appender, err := conn.NewAppender(ctx, "t")
			must(t, err)
			must(t, appender.Row(nil, nil, nil, nil, nil))
			_, err = appender.Finish()
			fails(t, err, StatusConstraint, "23502")
			must(t, appender.Close())
			_, err = conn.NewAppender(ctx, "nowhere")
			fails(t, err, StatusUnknownName, "42P01")
			ending, cancel := context.WithCancel(ctx)
			appender, err = conn.NewAppender(ending, "t")
			must(t, err)
			must(t, appender.Row(1, nil, nil, nil, nil))
			cancel()
			if err := appender.Row(1, nil, nil, nil, nil); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return appender.Close()
		})
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 20000)
	})
}

// Columns and rows that are appended belong to the transaction of their connection.
func TestAppendInATransaction(t *testing.T) {
	db := memory(t)
	do(t, db, "CREATE TABLE t (a BIGINT)")
	conn, err := db.Conn(ctx)
	must(t, err)
	defer conn.Close()
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := conn.BeginTx(ctx, nil)
		must(t, err)
		for range 2 {
			must(t, Raw(conn, func(c *Conn) error {
				_, err := c.Append(ctx, "t", AppendOptions{}, Data{"a", []int64{1, 2}, nil})
				return err
			}))
		}
		must(t, end(tx))
	}
	equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 4)
}

func BenchmarkRows(b *testing.B) {
	db, err := sql.Open("hypostyle", ":memory:")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t AS SELECT value AS a, value / 2.0::DOUBLE AS b, 'row ' || value AS c FROM generate_series(1, 100000)"); err != nil {
		b.Fatal(err)
	}
	b.Run("rows", func(b *testing.B) {
		for b.Loop() {
			rows, err := db.Query("SELECT * FROM t")
			if err != nil {
				b.Fatal(err)
			}
			for rows.Next() {
				var i int64
				var f float64
				var s string
				if err := rows.Scan(&i, &f, &s); err != nil {
					b.Fatal(err)
				}
			}
			if err := rows.Err(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100000, "ns/row")
	})
	b.Run("columns", func(b *testing.B) {
		for b.Loop() {
			columns, err := ReadColumns(ctx, db, "SELECT * FROM t")
			if err != nil {
				b.Fatal(err)
			}
			columns.Close()
		}
	})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			var one int
			if err := db.QueryRow("SELECT ?", 1).Scan(&one); err != nil {
				b.Fatal(err)
			}
		}
	})
}
