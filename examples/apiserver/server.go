package main

import (
	"context"
	"errors"
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
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/storage"
	"golang.org/x/sync/errgroup"
)

// run serves until ctx is done, and reports on stdout when it is ready.
func (o *options) run(ctx context.Context, stdout io.Writer) error {
	begin := time.Now()
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	url := "https://" + listener.Addr().String()
	c, err := o.credentials(url)
	if err != nil {
		return err
	}
	authenticator, err := o.authenticator(c)
	if err != nil {
		return err
	}
	return o.withStore(ctx, func(ctx context.Context, store storage.Store) error {
		return o.serve(ctx, apiserver.Config{
			Store: store, Authenticator: authenticator, Listener: listener, TLS: c.ServerTLS(true), Log: o.log.WithName("apiserver"),
		}, c, func() {
			fmt.Fprintf(stdout, "ready in %v: %s\n", time.Since(begin).Round(time.Millisecond), url)
		})
	})
}

// credentials opens or makes the server's certificates, and writes the administrator's kubeconfig.
func (o *options) credentials(url string) (*credentials.Credentials, error) {
	c, err := credentials.Open(filepath.Join(o.dataDir, "pki"))
	if err != nil {
		return nil, err
	}
	return c, c.Kubeconfig(url).Write(filepath.Join(o.dataDir, "admin.kubeconfig"))
}

// authenticator asks, in this order, for a front proxy, a client certificate and a token.
func (o *options) authenticator(c *credentials.Credentials) (authn.Authenticator, error) {
	proxies, err := requestheader.New(requestheader.Config{Roots: c.FrontProxy.Pool(), AllowedNames: []string{credentials.FrontProxy}})
	if err != nil {
		return nil, err
	}
	certificates, err := x509.New(x509.Config{Roots: c.Authority.Pool()})
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

// serve runs a server of Kubernetes' resources with the caches that its decisions are made from,
// and calls ready once it decides.
func (o *options) serve(ctx context.Context, config apiserver.Config, c *credentials.Credentials, ready func()) error {
	// The caches read from the server that they are for.
	var server *apiserver.Server
	policy, err := newPolicy(func() *apiserver.Server { return server }, o.log)
	if err != nil {
		return err
	}
	config.Authorizer, config.Admission = policy.authorizer, policy.admission
	aggregator, err := policy.aggregate(c, o.log)
	if err != nil {
		return err
	}
	config.Aggregator = aggregator
	config.Resources = append(kube.Resources(), review.Resources(config.Authenticator, config.Authorizer)...)
	if server, err = apiserver.New(config); err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	run := func(part func(context.Context) error) { parts.Go(func() error { return part(ctx) }) }
	run(server.Run)
	run(func(ctx context.Context) error {
		if err := seed(ctx, policy.client, c, config.Resources); err != nil {
			return fmt.Errorf("bootstrap objects: %w", err)
		}
		for _, part := range policy.parts {
			run(part)
		}
		for _, step := range []<-chan struct{}{aggregator.Ready(), policy.synced} {
			select {
			case <-step:
			case <-ctx.Done():
				return nil
			}
		}
		ready()
		// Most of the heap is garbage of the start. An idle server would not collect it for
		// two minutes.
		debug.FreeOSMemory()
		return nil
	})
	if err := parts.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
