// Package hypostyle is a driver of database/sql for Hypostyle, a columnar database in the process or on
// a server. It is a layer of cgo over the library for C.
//
//	db, err := sql.Open("hypostyle", "shop.hypo")
//
// The name of a data source is a directory, ":memory:", "hypostyle://user@host:port/" or
// "hypostyle+unix:///path", or that of a database of PostgreSQL, "postgresql://user@host/database"; see
// [ParseDSN] for options. All connections of one [sql.DB] share one
// database, also one in memory.
//
// # Values
//
//	column                                  driver value   also scans into
//	BOOLEAN                                 bool
//	TINYINT … BIGINT, UTINYINT … UINTEGER   int64          any integer that has room
//	UBIGINT                                 uint64
//	FLOAT, DOUBLE                           float64
//	DECIMAL                                 string         all its digits, as "12.50"
//	DATE, TIMESTAMP, TIMESTAMPTZ            time.Time      in UTC
//	TIME, INTERVAL, DURATION                string         [Interval], for INTERVAL and DURATION
//	VARCHAR, JSON                           string
//	UUID                                    string         [UUID]
//	BLOB                                    []byte
//	LIST, ARRAY, STRUCT, MAP                string         as text
//
// Parameters are ?, $1 or $name, the last one by [sql.Named]. Besides Go's basic types they may be
// [time.Time], [time.Duration], [Date], [UUID], [Interval], [big.Int] and [json.RawMessage].
//
// # Columns
//
// [ReadColumns] gives the columns of a result as Go slices. A stored column is a mapping of its file,
// however long it is. [Append] stores slices as columns of a table.
package hypostyle
