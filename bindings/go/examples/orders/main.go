// A table, a query with a parameter, a transaction, and what an error says.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"example.org/hypostyle"
)

func main() {
	db, err := sql.Open("hypostyle", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := run(context.Background(), db); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer VARCHAR, day DATE, total DECIMAL(9,2))")
	if err != nil {
		return err
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert, err := tx.PrepareContext(ctx, "INSERT INTO orders VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	day := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for id, order := range []struct{ customer, total string }{{"Ann", "120.50"}, {"Bob", "80.00"}, {"Ann", "19.90"}, {"Cem", "240.00"}} {
		if _, err := insert.ExecContext(ctx, id+1, order.customer, hypostyle.DateOf(day.AddDate(0, 0, id)), order.total); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	rows, err := db.QueryContext(ctx, "SELECT customer, max(day), sum(total) FROM orders WHERE total > $least GROUP BY customer ORDER BY customer",
		sql.Named("least", "50"))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var customer, total string
		var last time.Time
		if err := rows.Scan(&customer, &last, &total); err != nil {
			return err
		}
		fmt.Println(customer, last.Format(time.DateOnly), total)
	}
	if err := rows.Err(); err != nil {
		return err
	}

	// A key that is there already.
	_, err = db.ExecContext(ctx, "INSERT INTO orders (id) VALUES (1)")
	var refused *hypostyle.Error
	if errors.As(err, &refused) && refused.Status == hypostyle.StatusConstraint {
		fmt.Println("refused:", refused.SQLState())
	}

	// A query that would take hours ends with its context.
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = db.ExecContext(soon, "SELECT count(*) FROM generate_series(1, 1000000) AS a, generate_series(1, 1000000) AS b")
	fmt.Println("too late:", errors.Is(err, context.DeadlineExceeded))
	return nil
}
