// Package snapshotsocket lets other processes of one user read a snapshot of an etcd that runs inside
// this one, which has no port that etcdctl could connect to. The socket is a file that only its owner
// may open.
//
//	s, err := snapshotsocket.Listen(filepath.Join(dir, "snapshot.sock"), server.Snapshot)
//	go s.Run(ctx)
//
// Another process calls [Read].
package snapshotsocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// ErrNotServed is the error of Read if no process serves the socket.
var ErrNotServed = errors.New("no process serves snapshots")

// A Server serves snapshots at a socket.
type Server struct {
	path     string
	listener net.Listener
	snapshot func(context.Context, io.Writer) error

	// Failed is called with the error of each snapshot that is not complete. It may be nil, and must
	// not change while Run is running.
	Failed func(error)
}

// Listen makes the socket at path with mode 0600, in place of one that a killed process left. The
// caller must make sure that no other process serves it, for example by a lock of the directory. Each
// snapshot is written by a call of snapshot.
func Listen(path string, snapshot func(context.Context, io.Writer) error) (*Server, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // the short path is valid only here
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &Server{path: path, listener: listener, snapshot: snapshot}, nil
}

// Run serves until ctx is done, which ends the snapshots that are being written, and removes the
// socket.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err := server.Close()
	<-ended
	return errors.Join(err, os.RemoveAll(s.path))
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if err := s.snapshot(r.Context(), w); err != nil {
		if s.Failed != nil {
			s.Failed(err)
		}
		panic(http.ErrAbortHandler) // so that the reader does not take what was sent for a whole snapshot
	}
}

// Read writes a snapshot from the process that serves the socket at path to w. It returns an error
// that wraps ErrNotServed if there is no such process.
func Read(ctx context.Context, path string, w io.Writer) error {
	short, done, err := shortPath(path)
	if err != nil {
		return err
	}
	defer done()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", short)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	defer conn.Close()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://snapshot/", nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, response.Status)
	}
	_, err = io.Copy(w, response.Body)
	return err
}

// shortPath returns a path of the same file that fits into the address of a socket, which has at most
// 107 bytes. The path is valid until done is called.
func shortPath(path string) (short string, done func(), err error) {
	if runtime.GOOS != "linux" {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}
