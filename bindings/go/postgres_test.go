package hypostyle

import (
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"os"
	"testing"
	"time"
)

// withPostgres runs a test with a database of PostgreSQL, by each way in which results come. The schema
// "shop" is empty at first.
func withPostgres(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	plain, columns := os.Getenv("HYPOSTYLE_POSTGRES"), os.Getenv("HYPOSTYLE_POSTGRES_COLUMNS")
	if plain == "" {
		t.Skip("HYPOSTYLE_POSTGRES is not set: run the tests by scripts/with_postgres.sh")
	}
	addresses := map[string]string{"auto": plain, "copy": plain, "rows": plain}
	if columns != "" {
		addresses["columns"] = columns
	}
	for transfer, address := range addresses {
		t.Run(transfer, func(t *testing.T) {
			db := open(t, address+"&options=-csearch_path%3Dshop&transfer="+transfer)
			do(t, db, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop")
			test(t, db)
		})
	}
}

func TestPostgresValues(t *testing.T) {
	withPostgres(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (x int, y text)")
		row := db.QueryRow(`SELECT 12.30::numeric(9,2), 0.10::numeric, timestamptz '2024-01-01 00:00+02',
			'6ccd780c-baba-1026-9564-5b8c656024db'::uuid, '{"a":1}'::jsonb, '{1,NULL}'::int[], 'ok'::mood,
			'\x00ff'::bytea, interval '1 month 2 days 3.5 s', 9007199254740993, '(1,z)'::pair, '10.0.0.1'::inet, NULL::int`)
		var (
			decimal, numeric, json, list, mood, pair, address string
			at                                                time.Time
			id                                                UUID
			bytes                                             []byte
			interval                                          Interval
			whole                                             int64
			none                                              sql.NullInt64
		)
		must(t, row.Scan(&decimal, &numeric, &at, &id, &json, &list, &mood, &bytes, &interval, &whole, &pair, &address, &none))
		equal(t, decimal+" "+numeric, "12.30 0.10")
		equal(t, at, time.Date(2023, 12, 31, 22, 0, 0, 0, time.UTC))
		equal(t, id.String(), "6ccd780c-baba-1026-9564-5b8c656024db")
		equal(t, json+list+mood, `{"a": 1}[1, NULL]ok`)
		equal(t, string(bytes), "\x00\xff")
		equal(t, interval, Interval{Months: 1, Days: 2, Nanoseconds: 3_500_000_000})
		equal(t, whole, 9007199254740993)
		equal(t, pair+" "+address, "{x: 1, y: z} 10.0.0.1")
		equal(t, none.Valid, false)
		_, err := db.Exec("SELECT timestamptz 'infinity'")
		fails(t, err, StatusInvalidInput, "22008")
	})
}

func TestPostgresParameters(t *testing.T) {
	withPostgres(t, func(t *testing.T, db *sql.DB) {
		equal(t, scan[int](t, db, "SELECT ?::int + ?", 1, 2), 3)
		equal(t, scan[int](t, db, "SELECT $a::int - $b", sql.Named("a", 5), sql.Named("b", 2)), 3)
		equal(t, scan[string](t, db, "SELECT $2::text || $1", "a", "b"), "ba")
		equal(t, scan[string](t, db, "SELECT ?::numeric", big.NewInt(5)), "5")
		equal(t, scan[string](t, db, "SELECT encode(?, 'hex')", []byte{1, 2}), "0102")
		equal(t, scan[time.Time](t, db, "SELECT ?", time.Unix(1, 0)), time.Unix(1, 0).UTC())
		equal(t, scan[sql.NullInt64](t, db, "SELECT ?::int", nil), sql.NullInt64{})
		id := UUID{1, 2}
		equal(t, scan[UUID](t, db, "SELECT ?", id), id)
		equal(t, scan[UUID](t, db, "SELECT ?::uuid", id.String()), id)
		equal(t, scan[int](t, db, "SELECT (?::int[])[2]", "{1,2}"), 2)
		_, err := db.Exec("SELECT ?::int", "x")
		fails(t, err, StatusInvalidInput, "22P02")
		prepared, err := db.Prepare("SELECT ?::int + 1")
		must(t, err)
		for number := range 3 {
			var sum int
			must(t, prepared.QueryRow(number).Scan(&sum))
			equal(t, sum, number+1)
		}
		must(t, prepared.Close())
		_, err = db.Exec("SELECT nosuch")
		equal(t, fails(t, err, StatusUnknownName, "42703").Position, 8)
	})
}

func TestPostgresTransactions(t *testing.T) {
	withPostgres(t, func(t *testing.T, db *sql.DB) {
		do(t, db, "CREATE TABLE t (a int PRIMARY KEY, b text)")
		equal(t, do(t, db, "INSERT INTO t VALUES (?, ?), (2, 'y')", 1, "x"), 2)
		_, err := db.Exec("INSERT INTO t VALUES (1, 'x')")
		fails(t, err, StatusConstraint, "23505")
		tx, err := db.Begin()
		must(t, err)
		_, err = tx.Exec("DELETE FROM t")
		must(t, err)
		must(t, tx.Rollback())
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 2)
		for level, shown := range map[sql.IsolationLevel]string{
			sql.LevelDefault: "read committed", sql.LevelSnapshot: "repeatable read", sql.LevelSerializable: "serializable",
		} {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: true})
			must(t, err)
			var told string
			must(t, tx.QueryRow("SHOW transaction_isolation").Scan(&told))
			equal(t, told, shown)
			_, err = tx.Exec("DELETE FROM t")
			fails(t, err, StatusReadOnly, "25006")
			must(t, tx.Rollback())
		}
		tx, err = db.Begin()
		must(t, err)
		_, err = tx.Exec("INSERT INTO t VALUES (3, 'z')")
		must(t, err)
		_, err = tx.Exec("SELECT 1 / 0")
		fails(t, err, StatusInvalidInput, "22012")
		_, err = tx.Exec("SELECT 1")
		fails(t, err, StatusTransactionState, "25P02")
		// The server rolls back, which is no success.
		fails(t, tx.Commit(), StatusTransactionState, "25P02")
		equal(t, scan[int](t, db, "SELECT count(*) FROM t"), 2)
	})
}

func TestPostgresColumns(t *testing.T) {
	withPostgres(t, func(t *testing.T, db *sql.DB) {
		rows, err := Append(ctx, db, "made", AppendOptions{Create: true}, Data{"a", []int64{1, 2, 3}, nil}, Data{"b", []string{"x", "", "z"}, []bool{true, false, true}})
		must(t, err)
		equal(t, rows, 3)
		columns := read(t, db, "SELECT a, b FROM made ORDER BY a")
		equal(t, columnOf(t, columns, "a").IsMapped(), false)
		equal(t, columnOf(t, columns, "b").IsNull(1), true)
		equal(t, columnOf(t, columns, "b").Text(2), "z")
		conn, err := db.Conn(ctx)
		must(t, err)
		must(t, Raw(conn, func(c *Conn) error {
			appender, err := c.NewAppender(ctx, "made")
			must(t, err)
			for row := range 1000 {
				must(t, appender.Row(row, fmt.Sprint(row)))
			}
			rows, err := appender.Finish()
			equal(t, rows, 1000)
			must(t, err)
			return appender.Close()
		}))
		must(t, conn.Close())
		equal(t, scan[int](t, db, "SELECT count(*) FROM made"), 1003)
	})
}

func TestPostgresCancel(t *testing.T) {
	withPostgres(t, func(t *testing.T, db *sql.DB) {
		for _, query := range []string{"SELECT pg_sleep(60)", "SELECT i, pg_sleep(0.001) FROM generate_series(1, 100000) AS s (i)"} {
			ending, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			within(t, 20*time.Second, func() {
				rows, err := db.QueryContext(ending, query)
				for err == nil && rows.Next() {
				}
				if err == nil {
					err = rows.Err()
				}
				fails(t, err, StatusInterrupted, "57014")
			})
			cancel()
			equal(t, scan[int](t, db, "SELECT 1"), 1)
		}
	})
}
