// Go's clients: `go run . pgx` and `go run . pq`.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/lib/pq"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func same(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		must(fmt.Errorf("%s: %#v in place of %#v", what, found, expected))
	}
}

func done(client, module, what string) {
	info, _ := debug.ReadBuildInfo()
	for _, known := range info.Deps {
		if known.Path == module {
			fmt.Printf("CLIENT\t%s\t%s\t%s\n", client, known.Version, what)
		}
	}
}

type row struct {
	ID    int64
	Name  *string
	Price pgtype.Numeric
	At    time.Time
	Tags  []int32
}

func viaPgx(ctx context.Context) {
	connection, err := pgx.Connect(ctx, "")
	must(err)
	defer connection.Close(ctx)
	_, err = connection.Exec(ctx, "DROP TABLE IF EXISTS pgx_rows")
	must(err)
	_, err = connection.Exec(ctx, `CREATE TABLE pgx_rows
		(id BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(10,2), at TIMESTAMPTZ, tags INTEGER[])`)
	must(err)

	at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	columns := []string{"id", "name", "price", "at", "tags"}
	copied, err := connection.CopyFrom(ctx, pgx.Identifier{"pgx_rows"}, columns, pgx.CopyFromSlice(1000, func(i int) ([]any, error) {
		return []any{int64(i), fmt.Sprint("n", i), pgtype.Numeric{Int: nil, Valid: false}, at, []int32{1, int32(i)}}, nil
	}))
	must(err)
	same("copied", copied, int64(1000))
	_, err = connection.Exec(ctx, "UPDATE pgx_rows SET price = $1, name = $2 WHERE id = $3", "12.50", nil, 7)
	must(err)

	rows, err := connection.Query(ctx, "SELECT id, name, price, at, tags FROM pgx_rows WHERE id = ANY($1) ORDER BY id", []int64{7, 8})
	must(err)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	must(err)
	same("rows", len(found), 2)
	same("name", []any{found[0].Name, *found[1].Name}, []any{(*string)(nil), "n8"})
	price, err := found[0].Price.Float64Value()
	must(err)
	same("price", price.Float64, 12.5)
	same("at", found[0].At.UTC(), at)
	same("tags", found[1].Tags, []int32{1, 8})

	batch := &pgx.Batch{}
	for i := range 5 {
		batch.Queue("SELECT count(*) FROM pgx_rows WHERE id < $1", i*10)
	}
	results := connection.SendBatch(ctx, batch)
	for i := range 5 {
		var count int64
		must(results.QueryRow().Scan(&count))
		same("batch", count, int64(i*10))
	}
	must(results.Close())

	transaction, err := connection.Begin(ctx)
	must(err)
	_, err = transaction.Exec(ctx, "DELETE FROM pgx_rows")
	must(err)
	must(transaction.Rollback(ctx))
	_, err = connection.Exec(ctx, "INSERT INTO pgx_rows (id) VALUES (1)")
	var failure *pgconn.PgError
	same("unique", errors.As(err, &failure) && failure.Code == "23505", true)
	var count int
	must(connection.QueryRow(ctx, "SELECT count(*) FROM pgx_rows").Scan(&count))
	same("rolled back", count, 1000)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		must(connection.QueryRow(ctx, "SELECT id FROM pgx_rows WHERE id = $1", mode, int64(9)).Scan(&count))
		same("modes", count, 9)
	}
	var oid uint32
	var kind string
	must(connection.QueryRow(ctx, "SELECT oid, typtype::text FROM pg_type WHERE typname = $1", "int4").Scan(&oid, &kind))
	same("catalog", []any{oid, kind}, []any{uint32(23), "b"})
	_, err = connection.Exec(ctx, "DROP TABLE pgx_rows")
	must(err)
	done("pgx", "github.com/jackc/pgx/v5", "CopyFrom, arrays, structs, batches, rollback, all query modes")
}

func viaPq(ctx context.Context) {
	database, err := sql.Open("postgres", "sslmode=disable")
	must(err)
	defer database.Close()
	for _, statement := range []string{"DROP TABLE IF EXISTS pq_rows", "CREATE TABLE pq_rows (id INTEGER, name VARCHAR)"} {
		_, err = database.ExecContext(ctx, statement)
		must(err)
	}
	transaction, err := database.BeginTx(ctx, nil)
	must(err)
	statement, err := transaction.Prepare(pq.CopyIn("pq_rows", "id", "name"))
	must(err)
	for i := range 100 {
		_, err = statement.Exec(i, fmt.Sprint("n", i))
		must(err)
	}
	_, err = statement.Exec()
	must(err)
	must(statement.Close())
	must(transaction.Commit())
	var count int
	must(database.QueryRow("SELECT count(*) FROM pq_rows WHERE id = ANY($1)", pq.Array([]int64{1, 2, 200})).Scan(&count))
	same("any", count, 2)
	prepared, err := database.Prepare("SELECT name FROM pq_rows WHERE id = $1")
	must(err)
	var name string
	for i := range 3 {
		must(prepared.QueryRow(i).Scan(&name))
		same("prepared", name, fmt.Sprint("n", i))
	}
	rows, err := database.Query("SELECT id, name FROM pq_rows LIMIT 1")
	must(err)
	types, err := rows.ColumnTypes()
	must(err)
	same("types", []string{types[0].DatabaseTypeName(), types[1].DatabaseTypeName()}, []string{"INT4", "VARCHAR"})
	must(rows.Close())
	_, err = database.Exec("DROP TABLE pq_rows")
	must(err)
	done("lib/pq", "github.com/lib/pq", "CopyIn, arrays, prepared statements, column types, transactions")
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch os.Args[1] {
	case "pgx":
		viaPgx(ctx)
	case "pq":
		viaPq(ctx)
	}
}
