package eventstream

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// client is the connection to one client. It is blocked until its write deadline while stuck.
type client struct {
	header  http.Header
	code    int
	got     bytes.Buffer
	writes  int
	flushes int
	stuck   bool
	cut     chan struct{}
}

func newClient() *client { return &client{header: http.Header{}, cut: make(chan struct{})} }

func (c *client) Header() http.Header  { return c.header }
func (c *client) WriteHeader(code int) { c.code = code }

func (c *client) Write(data []byte) (int, error) {
	c.writes++
	if c.stuck {
		<-c.cut
		return 0, os.ErrDeadlineExceeded
	}
	return c.got.Write(data)
}

func (c *client) FlushError() error {
	c.flushes++
	return nil
}

func (c *client) SetWriteDeadline(t time.Time) error {
	if time.Now().After(t) {
		close(c.cut)
	}
	return nil
}

// TestTogether: events that come between two calls of Flush are one write, unless they are many.
func TestTogether(t *testing.T) {
	c := newClient()
	w := New(c, time.Minute)
	if err := w.Flush(); err != nil || c.flushes > 0 {
		t.Fatalf("nothing was flushed %d times, %v", c.flushes, err)
	}
	w.Begin("application/json")
	if err := w.Flush(); err != nil || c.code != http.StatusOK || c.flushes != 1 || c.writes > 0 {
		t.Fatalf("the headers: %d, %d, %v", c.code, c.flushes, err)
	}
	for range 100 {
		w.Add([]byte("event\n"), nil)
	}
	if err := w.Flush(); err != nil || c.writes != 1 || c.flushes != 2 || c.got.Len() != 600 {
		t.Fatalf("%d bytes in %d writes, %v", c.got.Len(), c.writes, err)
	}
	w.Add(make([]byte, 2*maxBuffer), nil)
	if c.writes != 2 {
		t.Errorf("more than fits was kept")
	}
	broken := errors.New("broken")
	w.Add(nil, broken)
	w.Add([]byte("more"), nil)
	if err := w.Flush(); err != broken || c.got.Len() != 600+2*maxBuffer {
		t.Errorf("after a failure: %v, %d bytes", err, c.got.Len())
	}
}

// TestSlowClient: a client that takes no bytes is cut off when its time is over, and a client that
// does is not, however long the stream lasts.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient()
		w := New(c, 30*time.Second)
		for range 10 {
			time.Sleep(time.Minute)
			w.Add([]byte("event\n"), nil)
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		c.stuck = true
		began := time.Now()
		w.Add([]byte("event\n"), nil)
		if err := w.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := w.Flush(); err == nil {
			t.Error("the stream goes on")
		}
	})
}
