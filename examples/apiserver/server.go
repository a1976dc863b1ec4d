package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/pki/servingcert"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/plane/stack"
)

// run serves until ctx is done, and reports on stdout when it is ready.
func (o *options) run(ctx context.Context, stdout io.Writer) error {
	begin := time.Now()
	s := stack.New()
	return s.Main(ctx, func(ctx context.Context) error {
		url, err := o.start(ctx, s)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "ready in %v: %s\n", time.Since(begin).Round(time.Millisecond), url)
		// Most of the heap is garbage of the start. An idle server would not collect it for
		// two minutes.
		debug.FreeOSMemory()
		return nil
	})
}

// start starts the store and the server on s, and returns the server's URL once it decides.
func (o *options) start(ctx context.Context, s *stack.Stack) (url string, err error) {
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return "", fmt.Errorf("--listen: %w", err)
	}
	// The server closes the listener, if it comes to that.
	s.OnStop("listener", func() error { listener.Close(); return nil })
	url = "https://" + listener.Addr().String()
	c, err := o.credentials(url)
	if err != nil {
		return "", err
	}
	who, err := o.authenticator(c)
	if err != nil {
		return "", err
	}
	store, err := o.openStore(ctx, s)
	if err != nil {
		return "", err
	}
	return url, o.serve(ctx, s, apiserver.Config{
		Store: store, Authenticator: who, Listener: listener, TLS: c.ServerTLS(true), Log: o.log.WithName("apiserver"),
	}, c)
}

// credentials opens or makes the server's certificates, and writes the administrator's kubeconfig.
func (o *options) credentials(url string) (*credentials.Credentials, error) {
	more, err := servingcert.OpenFlags(o.main, o.named)
	if err != nil {
		return nil, err
	}
	c, err := credentials.Open(filepath.Join(o.dataDir, "pki"), o.sans...)
	if err != nil {
		return nil, err
	}
	if c, err = c.With(more); err != nil {
		return nil, fmt.Errorf("--tls-sni-cert-key: %w", err)
	}
	c.ReportTo(func(name string, until time.Time, err error) {
		o.log.Info("a certificate in use has changed, or stays because of the error", "certificate", name, "until", until, "error", err)
	})
	return c, c.Kubeconfig(url).Write(filepath.Join(o.dataDir, "admin.kubeconfig"))
}

// authenticator asks, in this order, for a front proxy, a client certificate and a token.
func (o *options) authenticator(c *credentials.Credentials) (authn.Authenticator, error) {
	proxies, err := c.FrontProxies()
	if err != nil {
		return nil, err
	}
	certificates, err := c.Clients()
	if err != nil {
		return nil, err
	}
	tokens, err := o.tokens()
	if err != nil {
		return nil, err
	}
	return authn.Chain{proxies, certificates, tokens, anonymous.Authenticator{}}, nil
}

// tokens returns the authenticator of the tokens in the file that the options name, or of none.
func (o *options) tokens() (authn.Authenticator, error) {
	if o.tokenFile == "" {
		return tokenfile.New(nil)
	}
	file, err := os.Open(o.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--token-auth-file: %w", err)
	}
	defer file.Close()
	entries, err := tokenfile.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("--token-auth-file %s: %w", o.tokenFile, err)
	}
	return tokenfile.New(entries)
}

// serve starts a server of Kubernetes' resources with the caches that its decisions are made from, and
// returns once it decides.
func (o *options) serve(ctx context.Context, s *stack.Stack, config apiserver.Config, c *credentials.Credentials) error {
	// The caches read from the server that they are for.
	var server *apiserver.Server
	p, err := newPolicy(func() *apiserver.Server { return server }, c, o.log)
	if err != nil {
		return err
	}
	config.Authorizer, config.Admission, config.Aggregator = p.authorizer, p.admission, p.aggregator
	config.Resources = append(kube.Resources(), review.Resources(config.Authenticator, config.Authorizer)...)
	if server, err = apiserver.New(config); err != nil {
		return err
	}
	s.Start("API server", server.Run)
	if err := s.Await(ctx, server.Ready()); err != nil {
		return err
	}
	if err := seed(ctx, p.client, c, config.Resources); err != nil {
		return fmt.Errorf("bootstrap objects: %w", err)
	}
	return p.start(ctx, s)
}
