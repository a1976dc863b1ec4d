package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// stopTimeout bounds how long Run waits for an etcd to stop that has failed. A
// sound one stops in milliseconds, after the calls under way, and is waited
// for.
const stopTimeout = 5 * time.Second

// Config says where and how the server keeps its data.
type Config struct {
	// Dir is the data directory. It is made if it does not exist, readable by
	// its owner alone. Required.
	Dir string
	// QuotaBytes is the size of the database beyond which writes are refused.
	// Zero is 8 GiB, the most that etcd recommends.
	QuotaBytes int64
	// Compaction is how long history is kept, at least: every so often,
	// everything older than that is given up. Zero is 5 minutes, which is
	// kube-apiserver's --etcd-compaction-interval.
	Compaction time.Duration
	// InsecureNoSync acknowledges writes before they are on disk. If the host
	// goes down the data is lost or broken; if only the process dies it is not.
	// It is for tests.
	InsecureNoSync bool
	// Log receives what etcd has to say. Zero is silent.
	Log logr.Logger
}

// A Server is one etcd member. Its methods are safe for concurrent use.
type Server struct {
	config Config
	log    *logSink
	ready  chan struct{}
	began  atomic.Bool
	client *clientv3.Client // set before ready is closed
}

// New checks the config. It touches no file: that is Run's.
func New(c Config) (*Server, error) {
	switch {
	case c.Dir == "":
		return nil, errors.New("embedded: Dir is required")
	case c.QuotaBytes < 0:
		return nil, fmt.Errorf("embedded: QuotaBytes is negative: %d", c.QuotaBytes)
	case c.Compaction < 0:
		return nil, fmt.Errorf("embedded: Compaction is negative: %v", c.Compaction)
	}
	if c.QuotaBytes == 0 {
		c.QuotaBytes = defaultQuota
	}
	if c.Compaction == 0 {
		c.Compaction = defaultCompaction
	}
	return &Server{config: c, log: newLogSink(c.Log), ready: make(chan struct{})}, nil
}

// Ready is closed once the server answers. It stays open where Run fails first.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Client returns the client that calls this server directly, or nil while the
// server is not ready. It is closed when Run returns; it must not be closed by
// others.
func (s *Server) Client() *clientv3.Client {
	select {
	case <-s.ready:
		return s.client
	default:
		return nil
	}
}

// Run serves until ctx is done and returns nil then, after everything has been
// stopped and written. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	if s.began.Swap(true) {
		return errors.New("embedded: Run was called before")
	}
	if err := os.MkdirAll(s.config.Dir, 0o700); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	unlock, err := lock(s.config.Dir)
	if err != nil {
		return err
	}
	etcd, err := s.start()
	if err != nil {
		unlock()
		return fmt.Errorf("embedded: start etcd on %s: %w", s.config.Dir, err)
	}
	calls := &gate{}
	client := newClient(etcd, calls)
	err = s.serve(ctx, etcd, client)
	calls.close()
	// Close ends the watches. It answers with the state of the client's own
	// context, which it has just cancelled.
	_ = client.Close()
	if !stop(etcd, calls, err != nil) {
		return fmt.Errorf("%w (etcd did not stop: its directory stays locked)", err)
	}
	unlock()
	return err
}

// serve waits until etcd is ready, says so, and waits for the end.
func (s *Server) serve(ctx context.Context, etcd *etcdserver.EtcdServer, client *clientv3.Client) error {
	ready := etcd.ReadyNotify()
	for {
		select {
		case <-ready:
			s.client = client
			close(s.ready)
			ready = nil
		case <-ctx.Done():
			return nil
		case err := <-s.log.fatal:
			return fmt.Errorf("embedded: etcd failed: %w", err)
		case <-etcd.StopNotify():
			return errors.New("embedded: etcd stopped by itself")
		}
	}
}

// start brings etcd up to where it serves. etcd reports some failures by ending
// the process or the goroutine, so it gets a goroutine to lose.
func (s *Server) start() (*etcdserver.EtcdServer, error) {
	config, err := s.config.etcd(s.log.zap())
	if err != nil {
		return nil, err
	}
	type result struct {
		etcd *etcdserver.EtcdServer
		err  error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errors.New("etcd gave up without a word")}
		defer func() { done <- r }()
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("panic: %v", p)
			}
		}()
		if r.etcd, r.err = etcdserver.NewServer(config); r.err == nil {
			r.etcd.Start()
		}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			select {
			case r.err = <-s.log.fatal: // says more
			default:
			}
		}
		return r.etcd, r.err
	case err := <-s.log.fatal:
		return nil, err
	}
}

// stop ends etcd after the last call, and says whether it did end. One that has
// failed may not, nor may its calls.
func stop(etcd *etcdserver.EtcdServer, calls *gate, failed bool) bool {
	if !failed {
		calls.inside.Wait()
		etcd.Stop()
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		calls.inside.Wait()
		etcd.HardStop()
	}()
	select {
	case <-done:
		return true
	case <-time.After(stopTimeout):
		return false
	}
}
