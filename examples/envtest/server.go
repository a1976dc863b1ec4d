package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/stack"
	"github.com/spf13/pflag"
)

// runServer runs the API server until ctx is done.
func runServer(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	o := newOptions(flags)
	if err := parse(flags, arguments, stdout); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	log := logr.FromSlogHandler(slog.NewTextHandler(stderr, nil))
	for _, text := range o.ineffective() {
		log.Info("a flag changes nothing", "flag", text)
	}
	// What the flags need runs longer than the control plane.
	s := stack.New()
	return s.Main(ctx, func(ctx context.Context) error {
		config := plane.Config{NoControllers: true, NoScheduler: true, BareNamespaces: true, Issuer: o.issuer, Log: log}
		p, listener, err := o.plane(&config, s)
		if err != nil {
			return err
		}
		s.Start("control plane", p.Run)
		if err := s.Await(ctx, p.Ready()); err != nil {
			return err
		}
		listener.open()
		log.Info("ready", "address", p.Addr().String())
		return nil
	})
}

// plane makes the control plane of the flags. Its listener is closed with it.
func (o *options) plane(config *plane.Config, s *stack.Stack) (*plane.Plane, *lateListener, error) {
	certificate, err := o.certificate()
	if err != nil {
		return nil, nil, err
	}
	key, err := o.accountKey()
	if err != nil {
		return nil, nil, err
	}
	if config.Credentials, err = credentials.New(o.address); err != nil {
		return nil, nil, err
	}
	if key != nil {
		config.Credentials.AccountKey = key
	}
	if err := o.kube.Apply(config, s); err != nil {
		return nil, nil, err
	}
	before := config.Configure
	config.Configure = func(p *plane.Plane, server *apiserver.Config) error {
		if certificate != nil {
			server.TLS.Certificates = []tls.Certificate{*certificate}
		}
		if before == nil {
			return nil
		}
		return before(p, server)
	}
	customresources.Enable(config)
	inner, err := net.Listen("tcp", net.JoinHostPort(o.address, strconv.Itoa(o.port)))
	if err != nil {
		return nil, nil, fmt.Errorf("--bind-address, --secure-port: %w", err)
	}
	listener := &lateListener{Listener: inner, opened: make(chan struct{}), closed: make(chan struct{})}
	config.Listener = listener
	p, err := plane.New(*config)
	if err != nil {
		_ = listener.Close()
	}
	return p, listener, err
}

// A lateListener accepts connections only once it is open. Connections before that wait, so that the first
// answer of the server is that of a complete one.
type lateListener struct {
	net.Listener
	opened, closed chan struct{}
	once           sync.Once
}

func (l *lateListener) open() { close(l.opened) }

// Accept implements [net.Listener].
func (l *lateListener) Accept() (net.Conn, error) {
	select {
	case <-l.opened:
		return l.Listener.Accept()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *lateListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
