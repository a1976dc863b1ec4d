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
	// ReserveBytes is how much disk space is kept for the time when the disk is full,
	// half of it ready for the database, half of it in a file that is given back then.
	// Besides, the log keeps its next two segments of 64 MB each, and a sixteenth of
	// ReserveBytes behind each segment. Zero is 128 MiB, and the least is 32 MiB.
	ReserveBytes int64
	// InsecureNoSync acknowledges writes before they are on disk. If the host
	// goes down the data is lost or broken; if only the process dies it is not.
	// It is for tests.
	InsecureNoSync bool
	// Log receives what etcd has to say. Zero is silent.
	Log logr.Logger

	// shrinkEvery is for tests; zero is a minute.
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
	applied uint64                 // by the database, when Run began
	client  *clientv3.Client       // set before ready is closed
	etcd    *etcdserver.EtcdServer // set before ready is closed
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

// Ready is closed once the server answers. It stays open where Run fails first.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// CheckSpace returns nil while writes are admitted, and an error that says why where
// they are refused because the disk is full. Reads and watches go on then.
func (s *Server) CheckSpace(context.Context) error { return s.reserve.state() }

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
		<-shrunk // an etcd that failed may never return
	}
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
func (s *Server) serve(ctx context.Context, etcd *etcdserver.EtcdServer, client *clientv3.Client) (failed error) {
	ready := etcd.ReadyNotify()
	looking, stop := context.WithCancel(context.Background())
	behind := s.behind(looking, etcd)
	var looks sync.WaitGroup
	defer func() {
		// An etcd that has failed may keep a look waiting.
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

// open makes ready what etcd needs and starts it.
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
		// The database was found sound; what else etcd reads is its log.
		err = damaged(filepath.Join(s.config.Dir, "member", "wal"), "holds a damaged write-ahead log: %w", err)
	}
	return etcd, err
}

// behindTimeout is how long an etcd that leads may take to get past the entries that its
// database has. It takes one write to the log.
const behindTimeout = 3 * time.Second

// behind returns a channel that receives once it is clear that the log of etcd ends
// before the database: new entries would be taken for ones that are in it already, and
// etcd would wait for them for ever.
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
