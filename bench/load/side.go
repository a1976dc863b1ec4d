package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/bench/wire"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind is a server in one of the ways it can be run.
type kind string

const (
	planekitMemory  kind = "planekit, memory"
	planekitInside  kind = "planekit, etcd inside"
	planekitOutside kind = "planekit"
	stock           kind = "kube-apiserver"
)

var (
	allSides     = []kind{planekitMemory, planekitInside, planekitOutside, stock}
	defaultSides = []kind{planekitInside, planekitOutside, stock}
)

// name is how a server is called on the command line and in names of files.
func (k kind) name() string {
	switch k {
	case planekitMemory:
		return "memory"
	case planekitInside:
		return "inside"
	}
	return string(k)
}

func names(kinds []kind) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.name())
	}
	return all
}

// side is one API server under load, with what it stands on.
type side struct {
	kind   kind
	target wire.Target
	server *peer.Process
	// etcd is nil where it is in the server's process, or where there is none.
	etcd *peer.Process
	// ready is the time from the start of the server until it was ready, etcd
	// outside standing already.
	ready time.Duration
	api   *client.Client

	work  string
	files *peer.Stock
}

// start starts a server on an empty store.
func (b *bench) start(ctx context.Context, k kind) (_ *side, err error) {
	b.lives++
	work := filepath.Join(b.dir, fmt.Sprintf("life-%d", b.lives))
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	files, err := peer.NewStock(work)
	if err != nil {
		return nil, err
	}
	s := &side{kind: k, target: wire.Target{URL: files.URL, Token: files.Token}, work: work, files: files}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", k, errors.Join(err, s.stop()))
		}
	}()
	if k == planekitOutside || k == stock {
		if s.etcd, err = peer.Launch(filepath.Join(work, "etcd.log"), b.program("etcd"), files.EtcdArguments()...); err != nil {
			return nil, err
		}
		if err := answers(ctx, files.Etcd+"/health"); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		return nil, err
	}
	// A store in memory is empty after a restart, so its profile has everything.
	return s, s.startServer(ctx, b, k == planekitMemory)
}

// startServer starts the API server on the store as it is.
func (s *side) startServer(ctx context.Context, b *bench, profiled bool) error {
	start := s.startPlanekit
	if s.kind == stock {
		start = s.startStock
	}
	begin := time.Now()
	if err := start(ctx, b, profiled); err != nil {
		return err
	}
	s.ready = time.Since(begin)
	api, err := client.New(client.Config{
		Server: s.target.URL, BearerToken: s.files.Token, TLS: &tls.Config{InsecureSkipVerify: true},
	})
	s.api = api
	return err
}

// profileFromNow starts planekit's servers again, with a profile of what comes,
// if profiles are asked for.
func (b *bench) profileFromNow(ctx context.Context, sides []*side) error {
	if b.profile == "" {
		return nil
	}
	for _, s := range sides {
		if s.kind != planekitInside && s.kind != planekitOutside {
			continue
		}
		s.api.Close()
		if err := s.server.Stop(); err != nil {
			return err
		}
		s.api, s.server = nil, nil
		if err := s.startServer(ctx, b, true); err != nil {
			return fmt.Errorf("restart %s: %w", s.kind, err)
		}
	}
	return nil
}

func (s *side) stop() error {
	var failed error
	if s.api != nil {
		s.api.Close()
	}
	// In this order: the server would wait for an etcd that is gone.
	for _, p := range []*peer.Process{s.server, s.etcd} {
		if p != nil {
			failed = errors.Join(failed, p.Stop())
		}
	}
	return failed
}

// namespace makes a namespace that pods can be created in: the account of
// their own is a controller's work elsewhere.
func (s *side) namespace(ctx context.Context, name string) error {
	_, err := typed.Namespaces(s.api).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil {
		return err
	}
	_, err = typed.ServiceAccounts(s.api).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
	return err
}

// startAll starts one server of each kind; stop stops them.
func (b *bench) startAll(ctx context.Context) (sides []*side, stop func() error, err error) {
	stop = func() error {
		var failed error
		for _, s := range sides {
			failed = errors.Join(failed, s.stop())
		}
		return failed
	}
	for _, k := range b.kinds {
		s, err := b.start(ctx, k)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		sides = append(sides, s)
	}
	return sides, stop, nil
}
