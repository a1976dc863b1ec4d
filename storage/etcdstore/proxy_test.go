package etcdstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
)

// A wire lies between a client and an etcd. It does not understand what it
// carries.
type wire struct {
	address string
	target  string

	mu sync.Mutex
	// mute drops what the etcd answers. It is under mu, with conns, the two ends
	// of every connection.
	mute  bool
	conns map[net.Conn]bool
}

// newWire leads to the etcd at an https URL for as long as t.
func newWire(t *testing.T, url string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: listener.Addr().String(), target: strings.TrimPrefix(url, "https://"), conns: map[net.Conn]bool{}}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut()
		group.Wait()
	})
	return w
}

// carry serves one connection.
func (w *wire) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	w.mu.Lock()
	w.conns[near], w.conns[far] = true, true
	w.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
	group.Go(func() { _, _ = io.Copy(muted{near, w}, far); _ = near.Close() })
	group.Wait()
}

// muted is a connection's way to the client.
type muted struct {
	net.Conn
	wire *wire
}

func (m muted) Write(data []byte) (int, error) {
	m.wire.mu.Lock()
	mute := m.wire.mute
	m.wire.mu.Unlock()
	if mute {
		return len(data), nil
	}
	return m.Conn.Write(data)
}

// cut ends every connection. New ones may be made, and are not mute.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = false
	for conn := range w.conns {
		_ = conn.Close()
	}
	clear(w.conns)
}

func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = true
}

// across returns a store behind a wire to a new etcd, and one that is not.
func across(t *testing.T) (w *wire, behind, direct *etcdstore.Store) {
	t.Helper()
	a := newAuthority(t)
	url := listen(t, a)
	w = newWire(t, url)
	open := func(endpoint string, config *tls.Config) *etcdstore.Store {
		client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{Endpoints: []string{endpoint}, TLS: config, Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		store, err := etcdstore.New(etcdstore.Config{Client: client, Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	return w, open("https://"+w.address, a.client(t)), open(url, a.client(t))
}

// The connection breaks after etcd has committed and before its answer arrives. A client that
// retries meets its first write.
func TestReplyIsLost(t *testing.T) {
	w, store, direct := across(t)
	before, err := store.Commit(t.Context(), storage.Change{Key: "/before", Value: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	changes := []storage.Change{
		{Key: "/a", Value: []byte("mine")},
		{Op: storage.Update, Key: "/before", Value: []byte("two"), Previous: before.Revision},
	}
	for _, c := range changes {
		w.silence()
		lost := make(chan error, 1)
		go func() {
			_, err := store.Commit(t.Context(), c)
			lost <- err
		}()
		var stands storage.Record
		for string(stands.Value) != string(c.Value) {
			var err error
			if stands, err = direct.Get(t.Context(), c.Key, 0); err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Fatal(err)
			}
		}
		w.cut()
		if err := <-lost; err == nil || errors.Is(err, storage.ErrExists) || errors.Is(err, storage.ErrConflict) {
			t.Fatalf("%s without an answer: error %v", c.Op, err)
		}
		r, err := again(t, store, c)
		if c.Op == storage.Create && (!errors.Is(err, storage.ErrExists) || r.Revision != stands.Revision) {
			t.Errorf("the second create: %v, error %v, want %v in the way", r, err, stands)
		}
		var conflict *storage.ConflictError
		if c.Op == storage.Update && (!errors.As(err, &conflict) || conflict.Current.Revision != stands.Revision) {
			t.Errorf("the second update: %v, error %v, want %v in the way", r, err, stands)
		}
	}
}

// again makes c until the answer is not that the connection broke.
func again(t *testing.T, s storage.Store, c storage.Change) (storage.Record, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		r, err := s.Commit(ctx, c)
		if err == nil || errors.Is(err, storage.ErrExists) || errors.Is(err, storage.ErrConflict) || ctx.Err() != nil {
			return r, err
		}
	}
}

// A watch outlives its connection: it goes on where it was.
func TestWatchReconnects(t *testing.T) {
	w, store, direct := across(t)
	start, err := store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := store.Watch(t.Context(), "/", start)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	const cuts, each = 3, 20
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next := 0
	for range cuts {
		// Some are written while it is connected, some while it is not.
		for i := range each {
			if i == each/2 {
				w.cut()
			}
			c := storage.Change{Key: storage.Key(fmt.Sprintf("/%03d", next+i))}
			if _, err := direct.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		for until := next + each; next < until; {
			events, err := watcher.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.Type == storage.Progress {
					continue
				}
				if want := storage.Key(fmt.Sprintf("/%03d", next)); e.Record.Key != want {
					t.Fatalf("%v, want %s", e, want)
				}
				next++
			}
		}
	}
}
