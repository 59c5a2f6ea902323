package hypostyle

/*
#include <stdlib.h>
#include <hypostyle.h>
*/
import "C"

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

func init() {
	sql.Register("hypostyle", Driver{})
}

// Driver is the driver "hypostyle" of database/sql.
type Driver struct{}

// Open opens a connection of its own; database/sql uses OpenConnector.
func (d Driver) Open(dsn string) (driver.Conn, error) {
	connector, err := d.OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	defer connector.(*Connector).Close()
	return connector.Connect(context.Background())
}

// OpenConnector reads the name of a data source. The database is opened with the first connection.
func (Driver) OpenConnector(dsn string) (driver.Connector, error) {
	config, err := ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return NewConnector(config), nil
}

// Config says how a database is opened; zeros leave the defaults.
type Config struct {
	// Target is a directory, which is made if it is missing; ":memory:"; or a server's address.
	Target                 string
	ReadOnly               bool
	AllowNetworkFilesystem bool
	Threads                uint32 // 0: all processors
	MemoryLimit            uint64 // bytes; 0: most of the machine's memory
	TempDirectory          string // where queries spill
	Verify                 string // when stored columns are verified: auto, always, never
	User, Password         string // of a server; else those of the address
}

// ParseDSN reads the name of a data source. The address of a server is left as it is. A directory or
// ":memory:" may have options behind a question mark: read_only, allow_network_filesystem, threads,
// memory_limit (bytes), temp_directory, verify. A path with a question mark needs a [Config].
func ParseDSN(dsn string) (Config, error) {
	target, options, _ := strings.Cut(dsn, "?")
	if strings.Contains(target, "://") {
		return Config{Target: dsn}, nil
	}
	config := Config{Target: target}
	// A question mark may be in a password, and begin no options. The error of the parser quotes them.
	mayBeSecret := strings.Contains(dsn, "@")
	values, err := url.ParseQuery(options)
	if err != nil {
		return Config{}, refused(StatusInvalidInput, "HY024",
			"the options of the data source cannot be read: a %% in one is written as %%25")
	}
	for name, all := range values {
		value := all[len(all)-1]
		var err error
		switch name {
		case "read_only":
			config.ReadOnly, err = strconv.ParseBool(value)
		case "allow_network_filesystem":
			config.AllowNetworkFilesystem, err = strconv.ParseBool(value)
		case "threads":
			var threads uint64
			threads, err = strconv.ParseUint(value, 10, 32)
			config.Threads = uint32(threads)
		case "memory_limit":
			config.MemoryLimit, err = strconv.ParseUint(value, 10, 64)
		case "temp_directory":
			config.TempDirectory = value
		case "verify":
			config.Verify = value
		default:
			if mayBeSecret {
				return Config{}, refused(StatusInvalidInput, "HY024", "a data source has no such option")
			}
			return Config{}, refused(StatusInvalidInput, "HY024", "a data source has no option %q", name)
		}
		if err != nil {
			if mayBeSecret {
				value = "…"
			}
			return Config{}, refused(StatusInvalidInput, "HY024", "the option %s cannot be %q", name, value)
		}
	}
	return config, nil
}

// Connector opens connections to one database; [sql.OpenDB] takes it.
type Connector struct {
	config Config

	mu       sync.Mutex
	database *C.hypostyle_database
	users    int // calls that use it
	closed   bool
}

// NewConnector returns a connector, which opens the database with its first connection.
func NewConnector(config Config) *Connector {
	return &Connector{config: config}
}

// Driver returns the driver.
func (c *Connector) Driver() driver.Driver { return Driver{} }

// Connect opens a connection. It does not wait for a server longer than the context says.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if ctx.Done() == nil {
		return c.connect()
	}
	type opened struct {
		conn driver.Conn
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		conn, err := c.connect()
		done <- opened{conn, err}
	}()
	select {
	case opened := <-done:
		return opened.conn, opened.err
	case <-ctx.Done():
		go func() {
			if opened := <-done; opened.err == nil {
				opened.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

func (c *Connector) connect() (driver.Conn, error) {
	database, err := c.use()
	if err != nil {
		return nil, err
	}
	defer c.release()
	var failure *C.hypostyle_error
	conn := &Conn{isPostgres: isPostgres(c.config.Target)}
	if err := failed(nil, C.hypostyle_connect(database, &conn.handle, &failure), &failure); err != nil {
		return nil, err
	}
	return conn, nil
}

// isPostgres tells whether a target is a database of PostgreSQL.
func isPostgres(target string) bool {
	return strings.HasPrefix(target, "postgresql://") || strings.HasPrefix(target, "postgres://")
}

// use returns the database until release is called.
func (c *Connector) use() (*C.hypostyle_database, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, isClosed("database")
	}
	if c.database == nil {
		if err := c.open(); err != nil {
			return nil, err
		}
	}
	c.users++
	return c.database, nil
}

func (c *Connector) open() error {
	var texts []unsafe.Pointer
	defer func() {
		for _, text := range texts {
			C.free(text)
		}
	}()
	text := func(text string) *C.char {
		if text == "" {
			return nil
		}
		copied := C.CString(text)
		texts = append(texts, unsafe.Pointer(copied))
		return copied
	}
	number := func(is bool) C.int32_t {
		if is {
			return 1
		}
		return 0
	}
	options := C.hypostyle_options{
		size:                     C.uint32_t(unsafe.Sizeof(C.hypostyle_options{})),
		read_only:                number(c.config.ReadOnly),
		allow_network_filesystem: number(c.config.AllowNetworkFilesystem),
		threads:                  C.uint32_t(c.config.Threads),
		memory_limit:             C.uint64_t(c.config.MemoryLimit),
		temp_directory:           text(c.config.TempDirectory),
		verify:                   text(c.config.Verify),
		user:                     text(c.config.User),
		password:                 text(c.config.Password),
	}
	var failure *C.hypostyle_error
	target, length := textOf(c.config.Target)
	return failed(nil, C.hypostyle_open(target, length, &options, &c.database, &failure), &failure)
}

func (c *Connector) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if c.closed && c.users == 0 {
		C.hypostyle_close(&c.database)
	}
}

// Close closes the database. Its files are released with its last connection; [sql.DB.Close] calls it.
func (c *Connector) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.users == 0 {
		C.hypostyle_close(&c.database)
	}
	return nil
}
