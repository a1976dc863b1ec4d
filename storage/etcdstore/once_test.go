package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
)

// A forgetful etcd commits the first transaction, refuses all later ones, and answers each with code.
type forgetful struct {
	pb.UnimplementedKVServer
	code atomic.Uint32
	text string
	txns atomic.Int64
}

func (f *forgetful) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil
}

func (f *forgetful) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	if f.txns.Add(1) == 1 {
		return nil, status.Error(codes.Code(f.code.Load()), f.text)
	}
	read := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
	return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 2}, Responses: []*pb.ResponseOp{read}}, nil
}

// A transaction whose outcome is not known is sent once, whatever the error is. A repetition would meet the
// effect of the first, and its refusal would say that nothing was changed.
func TestTransactionIsSentOnce(t *testing.T) {
	for _, c := range []struct {
		code codes.Code
		text string
	}{
		{codes.Canceled, "etcdserver: request cancelled"},
		{codes.DeadlineExceeded, "context deadline exceeded"},
		{codes.Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"},
		{codes.Unavailable, "etcdserver: leader changed"},
		{codes.Unavailable, "error reading from server: EOF"},
		{codes.ResourceExhausted, "stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM"},
		{codes.Unknown, "raft: stopped"},
		{codes.Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"},
		{codes.Aborted, "aborted"},
	} {
		t.Run(c.text, func(t *testing.T) {
			f := &forgetful{text: c.text}
			f.code.Store(uint32(c.code))
			store := f.serve(t)
			_, err := store.Commit(t.Context(), storage.Change{Op: storage.Update, Key: "/a", Value: []byte("x"), Previous: 1})
			if n := f.txns.Load(); err == nil || storage.Refused(err) || n != 1 {
				t.Errorf("update answered with %v = %v after %d transactions, want an unknown outcome after 1", c.code, err, n)
			}
		})
	}
}

// serve returns a store in f.
func (f *forgetful) serve(t *testing.T) *etcdstore.Store {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{Endpoints: []string{"http://" + listener.Addr().String()}, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
