package hypostyle

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var ctx = context.Background()

// endless is a query that takes hours.
const endless = "SELECT count(*) FROM generate_series(1, 1000000) AS t (a), generate_series(1, 1000000) AS u (b)"

func TestMain(m *testing.M) {
	if target := os.Getenv("HYPOSTYLE_TEST_WRITER"); target != "" {
		writeUntilKilled(target)
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, and not %v", got, want)
	}
}

// fails checks an error of the database's.
func fails(t *testing.T, err error, status Status, code string) *Error {
	t.Helper()
	var told *Error
	if !errors.As(err, &told) {
		t.Fatalf("no error of the database: %v", err)
	}
	if told.Status != status || told.SQLState() != code || told.Message == "" {
		t.Fatalf("status %d, %s: %v", told.Status, told.Code, err)
	}
	return told
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("hypostyle", dsn)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func memory(t *testing.T) *sql.DB { return open(t, ":memory:") }

func do(t *testing.T, db *sql.DB, query string, args ...any) int64 {
	t.Helper()
	result, err := db.Exec(query, args...)
	must(t, err)
	rows, err := result.RowsAffected()
	must(t, err)
	return rows
}

func scan[T any](t *testing.T, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	must(t, db.QueryRow(query, args...).Scan(&value))
	return value
}

// serve starts a server and returns what it logs when it listens.
func serve(t *testing.T, pattern string, options ...string) string {
	t.Helper()
	program := os.Getenv("HYPOSTYLE_PROGRAM")
	if program == "" {
		t.Skip("HYPOSTYLE_PROGRAM does not say where the program is")
	}
	server := exec.Command(program, append([]string{"serve", ":memory:", "--log-level", "info"}, options...)...)
	log, err := server.StderrPipe()
	must(t, err)
	must(t, server.Start())
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if found := regexp.MustCompile(pattern).FindString(lines.Text()); found != "" {
			go func() {
				for lines.Scan() {
				}
			}()
			return found
		}
	}
	t.Fatal("the server ended before it listened")
	return ""
}

// everywhere runs a test with a database of each kind.
func everywhere(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Run("memory", func(t *testing.T) { test(t, memory(t)) })
	t.Run("file", func(t *testing.T) { test(t, open(t, filepath.Join(t.TempDir(), "test.hypo"))) })
	t.Run("unix", func(t *testing.T) { test(t, open(t, unixServer(t))) })
	t.Run("tcp", func(t *testing.T) { test(t, open(t, tcpServer(t))) })
}

func unixServer(t *testing.T) string {
	socket := filepath.Join(t.TempDir(), "socket")
	serve(t, regexp.QuoteMeta(socket), "--unix", socket)
	return "hypostyle+unix://" + socket
}

func tcpServer(t *testing.T, options ...string) string {
	return "hypostyle://" + serve(t, `127\.0\.0\.1:[1-9]\d*`, append([]string{"--listen", "127.0.0.1:0"}, options...)...) + "/"
}

// within fails a test that takes too long.
func within(t *testing.T, limit time.Duration, work func()) {
	t.Helper()
	begin := time.Now()
	work()
	if taken := time.Since(begin); taken > limit {
		t.Fatalf("it took %v", taken)
	}
}

// writeUntilKilled appends rows, and says of each that it is there.
func writeUntilKilled(target string) {
	db, err := sql.Open("hypostyle", target)
	for row := 0; err == nil; row++ {
		if _, err = db.Exec("INSERT INTO acknowledged VALUES (?)", row); err == nil {
			fmt.Println(row)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func names(rows *sql.Rows, t *testing.T) string {
	t.Helper()
	columns, err := rows.Columns()
	must(t, err)
	return strings.Join(columns, " ")
}
