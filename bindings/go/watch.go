package hypostyle

import (
	"context"
	"sync"
	"time"
)

// How often a statement whose context has ended is interrupted again: an interrupt between two calls
// of the library meets nothing.
const interruptEvery = 5 * time.Millisecond

// A watch interrupts the calls of one statement when its context ends.
type watch struct {
	ctx  context.Context
	conn *Conn
	stop func() bool

	mu      sync.Mutex
	calling bool // never set when an interrupt would meet another statement
	over    bool
}

func newWatch(ctx context.Context, conn *Conn) *watch {
	w := &watch{ctx: ctx, conn: conn}
	if ctx.Done() != nil {
		w.stop = context.AfterFunc(ctx, w.interrupt)
	}
	return w
}

func (w *watch) interrupt() {
	for {
		w.mu.Lock()
		over := w.over
		if w.calling {
			w.conn.interrupt()
		}
		w.mu.Unlock()
		if over {
			return
		}
		time.Sleep(interruptEvery)
	}
}

// enter is called before a call of the library that may take long, and leave after it.
func (w *watch) enter() {
	if w.stop != nil {
		w.mu.Lock()
		w.calling = true
		w.mu.Unlock()
	}
}

func (w *watch) leave() {
	if w.stop != nil {
		w.mu.Lock()
		w.calling = false
		w.mu.Unlock()
	}
}

// end ends the watch.
func (w *watch) end() {
	if w.stop != nil {
		w.stop()
		w.mu.Lock()
		w.calling, w.over = false, true
		w.mu.Unlock()
	}
}
