package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// stopTimeout bounds the wait of Run for a failed etcd to stop. Without a failure, etcd stops
// within milliseconds after the calls in progress, and Run waits for it without a bound.
const stopTimeout = 5 * time.Second

// Config configures a Server.
type Config struct {
	// Dir is the data directory. It is created if missing, readable only by its owner. Required.
	Dir string
	// QuotaBytes is the size of the database above which writes are refused. Zero means 8 GiB, the
	// maximum that etcd recommends.
	QuotaBytes int64
	// Compaction is the interval of compaction and the minimum age of discarded history. Zero means
	// 5 minutes, as for kube-apiserver's --etcd-compaction-interval.
	Compaction time.Duration
	// ReserveBytes is the disk space to reserve for a full disk: half of it for the database, and
	// half in a file that is removed then. In addition, the log has its next two segments of 64 MB
	// each allocated, and a sixteenth of ReserveBytes behind each segment. Zero means 128 MiB; the
	// minimum is 32 MiB.
	ReserveBytes int64
	// InsecureNoSync acknowledges writes before they are on disk. Data is lost or corrupted if the
	// host crashes, but not if only the process does. Use it only in tests.
	InsecureNoSync bool
	// Log receives etcd's log. The zero Logger discards it.
	Log logr.Logger

	// shrinkEvery is for tests; zero means a minute.
	shrinkEvery time.Duration
}

// A Server is one etcd member. Its methods are safe for concurrent use.
type Server struct {
	config  Config
	log     *logSink
	ready   chan struct{}
	began   atomic.Bool
	gate    *gate
	reserve *reserve
	applied uint64                 // last log index in the database when Run began
	client  *clientv3.Client       // set before ready is closed
	etcd    *etcdserver.EtcdServer // set before ready is closed
}

// New returns a server. It does not touch the disk before Run.
func New(c Config) (*Server, error) {
	switch {
	case c.Dir == "":
		return nil, errors.New("embedded: Dir is required")
	case c.QuotaBytes < 0:
		return nil, fmt.Errorf("embedded: QuotaBytes is negative: %d", c.QuotaBytes)
	case c.Compaction < 0:
		return nil, fmt.Errorf("embedded: Compaction is negative: %v", c.Compaction)
	}
	if c.ReserveBytes == 0 {
		c.ReserveBytes = defaultReserve
	}
	if c.ReserveBytes < leastReserve {
		return nil, fmt.Errorf("embedded: ReserveBytes is less than %d: %d", int64(leastReserve), c.ReserveBytes)
	}
	if c.QuotaBytes == 0 {
		c.QuotaBytes = defaultQuota
	}
	if c.Compaction == 0 {
		c.Compaction = defaultCompaction
	}
	if c.shrinkEvery == 0 {
		c.shrinkEvery = shrinkEvery
	}
	return &Server{
		config: c, log: newLogSink(c.Log), ready: make(chan struct{}), gate: newGate(),
		reserve: newReserve(c.Dir, c.ReserveBytes, c.Log),
	}, nil
}

// Ready returns a channel that is closed when the server can serve. It stays open if Run fails
// before that.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// CheckSpace returns nil while writes are admitted, and otherwise the reason why they are refused.
// Reads and watches are not affected.
func (s *Server) CheckSpace(context.Context) error { return s.reserve.state() }

// Client returns a client that calls this server directly, or nil while the server is not ready.
// Run closes it before it returns; the caller must not close it.
func (s *Server) Client() *clientv3.Client {
	select {
	case <-s.ready:
		return s.client
	default:
		return nil
	}
}

// Run serves until ctx is done, stops everything, and returns nil. It can be called once.
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
	etcd, err := s.open()
	if err != nil {
		unlock()
		return fmt.Errorf("embedded: start etcd on %s: %w", s.config.Dir, err)
	}
	calls := s.gate
	client := newClient(etcd, calls, s.reserve)
	shrinking, stopShrinking := context.WithCancel(ctx)
	shrunk := make(chan struct{})
	go func() {
		defer close(shrunk)
		s.shrink(shrinking, etcd, calls)
	}()
	err = s.serve(ctx, etcd, client)
	stopShrinking()
	if err == nil {
		<-shrunk // a failed etcd may never return
	}
	calls.close()
	// Close ends the watches. Its error is that of the client's own context, which it has just
	// cancelled.
	_ = client.Close()
	if !stop(etcd, calls, err != nil) {
		return fmt.Errorf("%w (etcd did not stop: its directory stays locked)", err)
	}
	unlock()
	return err
}

// serve waits until etcd is ready, closes s.ready, and waits for the end.
func (s *Server) serve(ctx context.Context, etcd *etcdserver.EtcdServer, client *clientv3.Client) (failed error) {
	ready := etcd.ReadyNotify()
	looking, stop := context.WithCancel(context.Background())
	behind := s.behind(looking, etcd)
	var looks sync.WaitGroup
	defer func() {
		// A failed etcd may block a look.
		if stop(); failed == nil {
			looks.Wait()
		}
	}()
	for {
		select {
		case <-ready:
			s.reserve.look(etcd.Backend())
			looks.Go(func() { s.reserve.run(looking, etcd.Backend()) })
			s.client, s.etcd = client, etcd
			close(s.ready)
			ready = nil
		case <-ctx.Done():
			return nil
		case err := <-behind:
			return fmt.Errorf("embedded: start etcd on %s: %w", s.config.Dir, err)
		case err := <-s.log.fatal:
			return fmt.Errorf("embedded: etcd failed: %w", err)
		case <-etcd.StopNotify():
			return errors.New("embedded: etcd stopped by itself")
		}
	}
}

// open checks and prepares the data directory, and starts etcd.
func (s *Server) open() (*etcdserver.EtcdServer, error) {
	applied, err := inspect(s.config.Dir)
	if err != nil {
		return nil, err
	}
	if err := s.reserve.prepare(); err != nil {
		return nil, err
	}
	s.applied = applied
	etcd, err := s.start()
	var system syscall.Errno
	if err != nil && !errors.As(err, &system) {
		// The database has been checked, so the error is about the log.
		err = damaged(filepath.Join(s.config.Dir, "member", "wal"), "holds a damaged write-ahead log: %w", err)
	}
	return etcd, err
}

// behindTimeout is how long an etcd that leads may take to log an entry later than those in its
// database. It takes one write.
const behindTimeout = 3 * time.Second

// behind returns a channel that receives an error if the log of etcd ends before the database. New
// entries would then be treated as already applied, and etcd would wait for them forever.
func (s *Server) behind(ctx context.Context, etcd *etcdserver.EtcdServer) <-chan error {
	found := make(chan error, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		var led time.Time
		for etcd.CommittedIndex() <= s.applied {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				switch {
				case etcd.Lead() == 0:
				case led.IsZero():
					led = now
				case now.Sub(led) > behindTimeout:
					found <- damaged(filepath.Join(s.config.Dir, "member", "wal"),
						"ends at entry %d of the write-ahead log, and the database has entry %d", etcd.CommittedIndex(), s.applied)
					return
				}
			}
		}
	}()
	return found
}

// start starts etcd in a goroutine of its own, because etcd reports some failures by ending the
// process or the goroutine.
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
			case r.err = <-s.log.fatal: // more detailed
			default:
			}
		}
		return r.etcd, r.err
	case err := <-s.log.fatal:
		return nil, err
	}
}

// stop stops etcd after the last call, and reports whether it stopped. A failed etcd and its calls
// may not end.
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
