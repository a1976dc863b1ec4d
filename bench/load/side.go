package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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

// withoutEtcd is planekit's program that has no etcd linked into it, as
// kube-apiserver has none.
const withoutEtcd = "apiserver-noembed"

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
}

// start starts a server on an empty store.
func (b *bench) start(ctx context.Context, k kind) (s *side, err error) {
	b.lives++
	work := filepath.Join(b.dir, fmt.Sprintf("life-%d", b.lives))
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	files, err := peer.NewStock(work)
	if err != nil {
		return nil, err
	}
	s = &side{kind: k, target: wire.Target{URL: files.URL, Token: files.Token}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", k, errors.Join(err, s.stop()))
		}
	}()
	if k == planekitOutside || k == stock {
		if s.etcd, err = peer.Launch(filepath.Join(work, "etcd.log"), filepath.Join(b.bin, "etcd"), files.EtcdArguments()...); err != nil {
			return nil, err
		}
		if err := answers(ctx, files.Etcd+"/health"); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	if k == stock {
		err = s.startStock(ctx, b, work, files)
	} else {
		err = s.startPlanekit(ctx, b, work, files)
	}
	if err != nil {
		return nil, err
	}
	s.ready = time.Since(begin)
	s.api, err = client.New(client.Config{
		Server: s.target.URL, BearerToken: files.Token, TLS: &tls.Config{InsecureSkipVerify: true},
	})
	return s, err
}

func (s *side) startStock(ctx context.Context, b *bench, work string, files *peer.Stock) (err error) {
	s.server, err = peer.Launch(filepath.Join(work, "server.log"), filepath.Join(b.bin, "kube-apiserver"), files.APIServerArguments()...)
	if err != nil {
		return err
	}
	return files.AwaitReady(ctx)
}

func (s *side) startPlanekit(ctx context.Context, b *bench, work string, files *peer.Stock) (err error) {
	arguments := []string{"--data-dir", filepath.Join(work, "data"), "--listen", "127.0.0.1:0", "--token-auth-file", files.Tokens}
	if err := os.Mkdir(filepath.Join(work, "data"), 0o700); err != nil {
		return err
	}
	program := "apiserver"
	switch s.kind {
	case planekitMemory:
		arguments = append(arguments, "--storage", "memory")
	case planekitOutside:
		program = withoutEtcd
		arguments = append(arguments, "--etcd-servers", files.Etcd)
	}
	if b.profile != "" {
		arguments = append(arguments, "--cpu-profile", filepath.Join(b.profile, string(s.kind)+".prof"))
	}
	s.server, err = peer.Launch(filepath.Join(work, "server.log"), filepath.Join(b.bin, program), arguments...)
	if err != nil {
		return err
	}
	line, err := s.server.AwaitLine(ctx, "ready in ")
	if err != nil {
		return err
	}
	_, s.target.URL, _ = strings.Cut(line, ": ")
	return nil
}

// answers waits until url does.
func answers(ctx context.Context, url string) error {
	web := http.Client{Timeout: time.Second}
	defer web.CloseIdleConnections()
	return peer.Poll(ctx, func() (bool, error) {
		answer, err := web.Get(url)
		if err != nil {
			return false, nil // not listening yet
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}

func (s *side) stop() error {
	var failed error
	if s.api != nil {
		s.api.Close()
	}
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
