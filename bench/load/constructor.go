package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/bench/wire"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	"github.com/planekit/planekit/storage/memstore"
)

// constructedKinds are the stores that a server is constructed on in process.
var constructedKinds = []kind{planekitMemory, planekitInside}

// constructors measures servers in this process, from before the first
// constructor to the first answer over TLS.
func (b *bench) constructors(ctx context.Context) error {
	b.results.constructors = map[kind]time.Duration{}
	fmt.Fprintln(b.out, "\n| constructor to ready, in process, all of Kubernetes' resources, TLS included | first | median |\n|---|---|---|")
	took := map[kind][]time.Duration{}
	for range max(3*b.rounds, 3) {
		for _, k := range constructedKinds {
			d, err := constructed(ctx, k, b.dir)
			if err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			took[k] = append(took[k], d)
		}
	}
	for _, k := range constructedKinds {
		first := took[k][0]
		b.results.constructors[k] = middleOf(took[k])
		fmt.Fprintf(b.out, "| %s | %s ms | %s ms |\n", k, millis(first), millis(b.results.constructors[k]))
	}
	return nil
}

// constructed makes a server on an empty store, in a new directory in parent,
// and returns how long that took: a key and a certificate, the store, the
// server, and the answer that it is ready to a client over TLS and HTTP/2 with a
// token. The server has stopped when it returns.
func constructed(ctx context.Context, k kind, parent string) (took time.Duration, err error) {
	dir, err := os.MkdirTemp(parent, "constructed-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	begin := time.Now()
	if k == planekitMemory {
		ready, err := serveOnce(ctx, memstore.New())
		return ready.Sub(begin), err
	}
	etcd, err := embedded.New(embedded.Config{Dir: dir})
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- etcd.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	select {
	case <-etcd.Ready():
	case err := <-ended:
		ended <- nil // for the end of this function
		return 0, errors.Join(ctx.Err(), err)
	}
	store, err := etcdstore.New(etcdstore.Config{Client: etcd.Client(), SoleMember: true})
	if err != nil {
		return 0, err
	}
	ready, err := serveOnce(ctx, store)
	return ready.Sub(begin), err
}

// serveOnce runs a server on store until it has said that it is ready, and
// returns when that was.
func serveOnce(ctx context.Context, store storage.Store) (ready time.Time, err error) {
	const token = "a-token-for-this-run-only"
	certificate, err := peer.Certificate()
	if err != nil {
		return ready, err
	}
	tokens, err := tokenfile.New([]tokenfile.Entry{{Token: token, User: user.Info{Name: "admin", Groups: []string{user.Masters}}}})
	if err != nil {
		return ready, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ready, err
	}
	defer listener.Close()
	server, err := apiserver.New(apiserver.Config{
		Store: store, Resources: kube.Resources(), Authenticator: tokens, Authorizer: authz.Func(mastersOnly),
		Listener: listener, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}},
	})
	if err != nil {
		return ready, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	conn, err := wire.Dial(wire.Target{URL: "https://" + listener.Addr().String(), Token: token})
	if err != nil {
		return ready, err
	}
	_, err = conn.Do(wire.Request{Method: "GET", Path: "/readyz"}, nil)
	ready = time.Now()
	return ready, errors.Join(err, conn.Close())
}

func mastersOnly(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if a.User.In(user.Masters) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}
