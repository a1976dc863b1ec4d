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

// kind is a server in one of its configurations.
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

// name returns the name of a server on the command line and in file names.
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

// side is one API server under load, with its etcd.
type side struct {
	kind   kind
	target wire.Target
	server *peer.Process
	// etcd is nil if it is in the server's process or does not exist.
	etcd *peer.Process
	// ready is the time from the start of the server until it was ready. An outside etcd is started
	// before.
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
	// A store in memory is empty after a restart, so its profile includes everything.
	return s, s.startServer(ctx, b, k == planekitMemory)
}

// startServer starts the API server on the existing store.
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

// profileFromNow restarts planekit's servers with a profile, if profiles were requested.
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
	// Stop the server first: it would wait for a stopped etcd.
	for _, p := range []*peer.Process{s.server, s.etcd} {
		if p != nil {
			failed = errors.Join(failed, p.Stop())
		}
	}
	return failed
}

// namespace creates a namespace in which pods can be created, including the service account that a
// controller would create elsewhere.
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
