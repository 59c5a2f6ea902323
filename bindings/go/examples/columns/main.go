// A million rows that are appended as slices, and read where they lie.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"example.org/hypostyle"
)

func main() {
	directory, err := os.MkdirTemp("", "hypostyle")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	db, err := sql.Open("hypostyle", filepath.Join(directory, "shop.hypo"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := run(context.Background(), db); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context, db *sql.DB) error {
	const count = 1_000_000
	sensors, degrees, valid := make([]int32, count), make([]float64, count), make([]bool, count)
	for row := range count {
		sensors[row], degrees[row], valid[row] = int32(row%100), float64(row%400)/10, row%10 > 0
	}
	appended, err := hypostyle.Append(ctx, db, "measured", hypostyle.AppendOptions{Create: true},
		hypostyle.Data{Name: "sensor", Values: sensors},
		hypostyle.Data{Name: "degrees", Values: degrees, Valid: valid})
	if err != nil {
		return err
	}
	fmt.Println(appended, "rows are appended")

	// A mapping of the table's files: this takes no time and no memory, however many rows there are.
	columns, err := hypostyle.ReadColumns(ctx, db, "SELECT * FROM measured")
	if err != nil {
		return err
	}
	defer columns.Close()
	column, err := columns.Named("degrees")
	if err != nil {
		return err
	}
	stored, err := hypostyle.Values[float64](column)
	if err != nil {
		return err
	}
	fmt.Println("mapped:", column.IsMapped(), "NULLs:", column.NullCount())
	sum := 0.0
	for row, value := range stored {
		if !column.IsNull(row) {
			sum += value
		}
	}
	fmt.Printf("mean: %.3f\n", sum/float64(column.Len()-column.NullCount()))
	return nil
}
