package embedded

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// errNotReady is the error of a call on a server that is not running.
var errNotReady = errors.New("embedded: the server is not running")

// Snapshot writes the store to w as of one revision, which includes all writes acknowledged before
// the call. The format is that of `etcdctl snapshot save`: the database followed by its SHA-256
// sum. Reads and writes continue. The database keeps data that is deleted meanwhile until Snapshot
// returns. Snapshot ends when Run does. Run waits for a Write in progress, so w must not block
// forever.
func (s *Server) Snapshot(ctx context.Context, w io.Writer) error {
	select {
	case <-s.ready:
	default:
		return errNotReady
	}
	leave, err := s.gate.enter()
	if err != nil {
		return errNotReady
	}
	defer leave()
	ctx, cancel := s.gate.context(ctx)
	defer cancel()
	if err := snapshot(ctx, s.etcd, w); err != nil {
		return fmt.Errorf("embedded: snapshot of %s: %w", s.config.Dir, err)
	}
	return nil
}

// SnapshotDir writes a snapshot of the store in dir, which no process may be using, to w. It starts an
// etcd for that, because some acknowledged writes may be in the log alone.
func SnapshotDir(ctx context.Context, dir string, w io.Writer) error {
	server, err := New(Config{Dir: dir})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(running) }()
	select {
	case err := <-ended:
		return err
	case <-server.Ready():
	}
	err = server.Snapshot(ctx, w)
	stop()
	return errors.Join(err, <-ended)
}

// snapshot writes the database of etcd and its sum to w.
func snapshot(ctx context.Context, etcd *etcdserver.EtcdServer, w io.Writer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	view := etcd.Backend().Snapshot()
	sum := sha256.New()
	_, err := view.WriteTo(io.MultiWriter(&contextWriter{ctx, w}, sum))
	if err = errors.Join(err, view.Close()); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// A contextWriter fails once its context is done.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w *contextWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.w.Write(p)
}

// maintenance replaces methods of the client library that do not work within a process: its
// Snapshot ends with the context of the call that opened it, and its Defragment requires a network
// server.
type maintenance struct {
	clientv3.Maintenance
	etcd *etcdserver.EtcdServer
	gate *gate
}

// AlarmList returns the alarms. Unlike the client library's, it does not write a log entry for each
// request.
func (m *maintenance) AlarmList(context.Context) (*clientv3.AlarmResponse, error) {
	leave, err := m.gate.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return &clientv3.AlarmResponse{Alarms: m.etcd.Alarms()}, nil
}

// Defragment rewrites the database without its free space. Reads and writes wait meanwhile.
func (m *maintenance) Defragment(ctx context.Context, _ string) (*clientv3.DefragmentResponse, error) {
	leave, err := m.gate.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := m.etcd.Defragment(); err != nil {
		return nil, err
	}
	return &clientv3.DefragmentResponse{}, nil
}

// Snapshot returns a reader of the output of [Server.Snapshot]. The caller must close it.
func (m *maintenance) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	leave, err := m.gate.enter()
	if err != nil {
		return nil, err
	}
	reader, writer := io.Pipe()
	// The copy ends with the last byte, when the reader is closed, with ctx, or with Run.
	//
	ctx, cancel := m.gate.context(ctx)
	stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer leave()
		defer cancel()
		defer stop()
		_ = writer.CloseWithError(snapshot(ctx, m.etcd, writer))
	}()
	return reader, nil
}

func (m *maintenance) SnapshotWithVersion(ctx context.Context) (*clientv3.SnapshotResponse, error) {
	header := &pb.ResponseHeader{Revision: m.etcd.KV().Rev()}
	version := ""
	if v := schema.ReadStorageVersion(m.etcd.Backend().ReadTx()); v != nil {
		version = v.String()
	}
	reader, err := m.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &clientv3.SnapshotResponse{Header: header, Snapshot: reader, Version: version}, nil
}
