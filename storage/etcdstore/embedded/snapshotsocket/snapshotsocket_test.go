package snapshotsocket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/storage/etcdstore/embedded/snapshotsocket"
)

func Example() {
	dir, err := os.MkdirTemp("", "snapshot")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "snapshot.sock")
	s, err := snapshotsocket.Listen(path, func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "the database") // embedded.Server.Snapshot writes a real one
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	fmt.Println(snapshotsocket.Read(ctx, path, os.Stdout))
	cancel()
	fmt.Println(<-done)
	// Output:
	// the database<nil>
	// <nil>
}

// serve serves snapshot at a path until the test or stop ends it.
func serve(t *testing.T, path string, snapshot func(context.Context, io.Writer) error) (failed <-chan error, stop func()) {
	t.Helper()
	s, err := snapshotsocket.Listen(path, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	failures := make(chan error, 1)
	s.Failed = func(err error) { failures <- err }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ended := false
	stop = func() {
		cancel()
		if ended {
			return
		}
		ended = true
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return failures, stop
}

// TestRead: the socket is its owner's alone, works at a path of any length, replaces one that a killed
// process left, and goes with its server.
func TestRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "snapshot.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("x"), 5<<20)
	_, stop := serve(t, path, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(large)
		return err
	})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, error %v", info, err)
	}
	var got bytes.Buffer
	if err := snapshotsocket.Read(t.Context(), path, &got); err != nil || !bytes.Equal(got.Bytes(), large) {
		t.Errorf("%d bytes, error %v", got.Len(), err)
	}
	stop()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := snapshotsocket.Read(t.Context(), path, io.Discard); !errors.Is(err, snapshotsocket.ErrNotServed) {
		t.Errorf("error %v, want %v", err, snapshotsocket.ErrNotServed)
	}
}

// TestBroken: a snapshot that is cut short, at any place, is an error for the reader and the server.
func TestBroken(t *testing.T) {
	for _, size := range []int{0, 1, 5 << 20} {
		path := filepath.Join(t.TempDir(), "snapshot.sock")
		broken := errors.New("the disk is gone")
		failed, stop := serve(t, path, func(_ context.Context, w io.Writer) error {
			if _, err := w.Write(bytes.Repeat([]byte("x"), size)); err != nil {
				return err
			}
			return broken
		})
		if err := snapshotsocket.Read(t.Context(), path, io.Discard); err == nil {
			t.Errorf("after %d bytes: no error", size)
		}
		if err := <-failed; !errors.Is(err, broken) {
			t.Errorf("after %d bytes: the server's error is %v", size, err)
		}
		stop()
	}
}

// TestStopWhileWriting: the server ends although a reader does not read.
func TestStopWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.sock")
	_, stop := serve(t, path, func(ctx context.Context, w io.Writer) error {
		<-ctx.Done()
		return ctx.Err()
	})
	reading := make(chan error, 1)
	go func() { reading <- snapshotsocket.Read(context.Background(), path, io.Discard) }()
	stop()
	if err := <-reading; err == nil {
		t.Error("a snapshot that was cut short is no error")
	}
}
