package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
)

// deaf returns an address where connections are accepted and then ignored.
func deaf(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// dead returns an address where nothing listens.
func dead(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestDialRefusesConfig(t *testing.T) {
	a := newAuthority(t)
	for name, test := range map[string]struct {
		config etcdstore.DialConfig
		want   string
	}{
		"no endpoints":      {etcdstore.DialConfig{}, "no etcd endpoints"},
		"plain by accident": {etcdstore.DialConfig{Endpoints: []string{"127.0.0.1:1"}}, "http://"},
		"https without TLS": {etcdstore.DialConfig{Endpoints: []string{"https://127.0.0.1:1"}}, "http://"},
		"plain with TLS":    {etcdstore.DialConfig{Endpoints: []string{"http://127.0.0.1:1"}, TLS: a.client(t)}, "http://"},
		"no port":           {etcdstore.DialConfig{Endpoints: []string{"https://10.0.0.1"}, TLS: a.client(t)}, "missing port"},
		"other scheme":      {etcdstore.DialConfig{Endpoints: []string{"ftp://10.0.0.1:1"}, TLS: a.client(t)}, "scheme"},
		"not a URL":         {etcdstore.DialConfig{Endpoints: []string{"https://%zz:1"}, TLS: a.client(t)}, "%zz"},
		"negative time-out": {etcdstore.DialConfig{Endpoints: []string{"http://127.0.0.1:1"}, Timeout: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := etcdstore.Dial(t.Context(), test.config)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// A dead etcd is an error in bounded time that names every endpoint.
func TestDialDead(t *testing.T) {
	a := newAuthority(t)
	for name, endpoints := range map[string][]string{
		"refused": {"http://" + dead(t), "http://" + dead(t)},
		"silent":  {"http://" + deaf(t)},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{Endpoints: endpoints, Timeout: time.Second})
			if err == nil {
				_ = client.Close()
				t.Fatal("dialled a dead etcd")
			}
			if !strings.Contains(err.Error(), "no answer within 1s") {
				t.Errorf("error %v", err)
			}
			for _, endpoint := range endpoints {
				if !strings.Contains(err.Error(), endpoint) {
					t.Errorf("error %v does not name %s", err, endpoint)
				}
			}
			if name == "refused" && !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("error %v does not say why", err)
			}
		})
	}
	t.Run("unknown authority", func(t *testing.T) {
		client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{
			Endpoints: []string{listen(t, newAuthority(t))}, TLS: a.client(t), Timeout: time.Second,
		})
		if err == nil {
			_ = client.Close()
			t.Fatal("trusted a stranger")
		}
		if !strings.Contains(err.Error(), "certificate") {
			t.Errorf("error %v does not say why", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := etcdstore.Dial(ctx, etcdstore.DialConfig{Endpoints: []string{"http://" + deaf(t)}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
	})
}

// A client that shows no certificate is not let in.
func TestDialWithoutCertificate(t *testing.T) {
	a := newAuthority(t)
	config := a.client(t)
	config.Certificates = nil
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{
		Endpoints: []string{listen(t, a)}, TLS: config, Timeout: time.Second,
	})
	if err == nil {
		_ = client.Close()
		t.Fatal("let in without a certificate")
	}
}

func TestNewRefusesConfig(t *testing.T) {
	if _, err := etcdstore.New(etcdstore.Config{}); err == nil {
		t.Error("a store without a client")
	}
}

func TestValueTooLarge(t *testing.T) {
	a := newAuthority(t)
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{
		Endpoints: []string{listen(t, a)}, TLS: a.client(t), Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for name, store := range map[string]storage.Store{
		"embedded": stores(serve(t), true)(t),
		"external": stores(client, false)(t),
	} {
		// etcd refuses the first, gRPC the second.
		for _, size := range []int{1600 << 10, 4 << 20} {
			_, err := store.Commit(t.Context(), storage.Change{Key: "/a", Value: make([]byte, size)})
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s: a value of %d bytes: error %v, want %v", name, size, err, storage.ErrInvalid)
			}
		}
	}
}
