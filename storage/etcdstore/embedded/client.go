package embedded

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
)

// newClient returns a client that calls etcd's functions directly. Calls that use the database go
// through g: etcd relies on its network server to wait for all calls before it closes the database,
// and ends the process on a later one.
func newClient(etcd *etcdserver.EtcdServer, g *gate, r *reserve) *clientv3.Client {
	client := v3client.New(etcd)
	kv := &gatedKV{KVServer: v3rpc.NewQuotaKVServer(etcd), gate: g, reserve: r}
	client.KV = clientv3.NewKVFromKVClient(adapter.KvServerToKvClient(kv), client)
	leases := &gatedLease{LeaseServer: v3rpc.NewQuotaLeaseServer(etcd), gate: g, reserve: r}
	client.Lease = clientv3.NewLeaseFromLeaseClient(adapter.LeaseServerToLeaseClient(leases), client, time.Second)
	watch := &gatedWatch{WatchServer: v3rpc.NewWatchServer(etcd), gate: g}
	client.Watcher = clientv3.NewWatchFromWatchClient(adapter.WatchServerToWatchClient(watch), client)
	client.Maintenance = &maintenance{Maintenance: client.Maintenance, etcd: etcd, gate: g}
	return client
}

// A gate counts the calls in progress and can be closed.
type gate struct {
	mu sync.Mutex
	// shut means that no further call may enter. mu guards it.
	shut   bool
	inside sync.WaitGroup
	// closing is closed when shut is set.
	closing chan struct{}
}

func newGate() *gate { return &gate{closing: make(chan struct{})} }

// context returns a child of ctx that also ends when g closes.
func (g *gate) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-g.closing:
			cancel(rpctypes.ErrGRPCStopped)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// enter returns a function to call at the end, or an error if the gate is closed.
func (g *gate) enter() (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, rpctypes.ErrGRPCStopped
	}
	g.inside.Add(1)
	return g.inside.Done, nil
}

// close closes the gate. Calls in progress may finish.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		close(g.closing)
	}
}

// through runs call inside g.
func through[Q, A any](ctx context.Context, g *gate, call func(context.Context, *Q) (*A, error), request *Q) (*A, error) {
	leave, err := g.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return call(ctx, request)
}

type gatedKV struct {
	pb.KVServer
	gate    *gate
	reserve *reserve
}

func (s *gatedKV) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return through(ctx, s.gate, s.KVServer.Range, r)
}

func (s *gatedKV) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := s.reserve.admit(ctx, r.Size(), false); err != nil {
		return nil, err
	}
	return through(ctx, s.gate, s.KVServer.Put, r)
}

func (s *gatedKV) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return through(ctx, s.gate, s.KVServer.DeleteRange, r)
}

func (s *gatedKV) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := s.reserve.admit(ctx, r.Size(), !puts(r)); err != nil {
		return s.refuse(ctx, r, err)
	}
	return through(ctx, s.gate, s.KVServer.Txn, r)
}

func (s *gatedKV) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return through(ctx, s.gate, s.KVServer.Compact, r)
}

// refuse answers a transaction that may not write. If its guard fails, the answer is as usual, so
// that an existing record is reported as such; otherwise it is err.
func (s *gatedKV) refuse(ctx context.Context, r *pb.TxnRequest, err error) (*pb.TxnResponse, error) {
	guard := &pb.TxnRequest{Compare: r.Compare, Failure: r.Failure}
	for _, o := range r.Failure {
		if o.GetRequestRange() == nil {
			return nil, err
		}
	}
	response, failed := through(ctx, s.gate, s.KVServer.Txn, guard)
	if failed != nil || response.Succeeded {
		return nil, err
	}
	return response, nil
}

// puts reports whether r contains a put.
func puts(r *pb.TxnRequest) bool {
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, o := range branch {
			if o.GetRequestPut() != nil || o.GetRequestTxn() != nil {
				return true
			}
		}
	}
	return false
}

type gatedLease struct {
	pb.LeaseServer
	gate    *gate
	reserve *reserve
}

func (s *gatedLease) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if err := s.reserve.admit(ctx, r.Size(), false); err != nil {
		return nil, err
	}
	return through(ctx, s.gate, s.LeaseServer.LeaseGrant, r)
}

type gatedWatch struct {
	pb.WatchServer
	gate *gate
}

// Watch serves one stream. It returns when the stream's own goroutine, which reads previous values
// from the database, has ended.
func (s *gatedWatch) Watch(stream pb.Watch_WatchServer) error {
	leave, err := s.gate.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.WatchServer.Watch(stream)
}
