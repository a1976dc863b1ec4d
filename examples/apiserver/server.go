package main

import (
	"context"
	"crypto/tls"
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
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/storage"
	"golang.org/x/sync/errgroup"
)

// run serves until ctx is done, and says on stdout when it is ready.
func (o *options) run(ctx context.Context, stdout io.Writer) error {
	begin := time.Now()
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	url := "https://" + listener.Addr().String()
	authenticator, config, front, err := o.credentials(url)
	if err != nil {
		return err
	}
	return o.withStore(ctx, func(ctx context.Context, store storage.Store) error {
		return o.serve(ctx, apiserver.Config{
			Store: store, Authenticator: authenticator, Listener: listener, TLS: config, Log: o.log.WithName("apiserver"),
		}, front, func() {
			fmt.Fprintf(stdout, "ready in %v: %s\n", time.Since(begin).Round(time.Millisecond), url)
		})
	})
}

// credentials opens or makes the server's certificates, writes the
// administrator's kubeconfig, and returns who is believed and how the server
// shows itself, to clients and to the servers behind it.
func (o *options) credentials(url string) (authn.Authenticator, *tls.Config, *frontProxy, error) {
	authority, err := pki.Open(filepath.Join(o.dataDir, "pki"))
	if err != nil {
		return nil, nil, nil, err
	}
	serving, err := authority.Serving("apiserver", "localhost", "127.0.0.1", "::1")
	if err != nil {
		return nil, nil, nil, err
	}
	admin, err := authority.Client("admin", "kubernetes-admin", user.Masters)
	if err != nil {
		return nil, nil, nil, err
	}
	const name = "planekit"
	err = (&kubeconfig.Config{
		CurrentContext: name,
		Clusters:       map[string]kubeconfig.Cluster{name: {Server: url, CertificateAuthorityData: authority.CertificatePEM}},
		Users:          map[string]kubeconfig.User{name: {ClientCertificateData: admin.CertificatePEM, ClientKeyData: admin.KeyPEM}},
		Contexts:       map[string]kubeconfig.Context{name: {Cluster: name, User: name}},
	}).Write(filepath.Join(o.dataDir, "admin.kubeconfig"))
	if err != nil {
		return nil, nil, nil, err
	}
	certificates, err := x509.New(x509.Config{Roots: authority.Pool()})
	if err != nil {
		return nil, nil, nil, err
	}
	tokens, err := o.tokens()
	if err != nil {
		return nil, nil, nil, err
	}
	front, err := openFrontProxy(o.dataDir, authority)
	if err != nil {
		return nil, nil, nil, err
	}
	proxies, err := front.authenticator()
	if err != nil {
		return nil, nil, nil, err
	}
	authorities := authority.Pool()
	authorities.AddCert(front.Certificate)
	return authn.Chain{proxies, certificates, tokens, anonymous.Authenticator{}}, &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{serving.TLS()},
		ClientAuth:   tls.RequestClientCert,
		ClientCAs:    authorities,
	}, front, nil
}

// tokens knows the tokens of the file that the options name, or none.
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

// serve runs a server of Kubernetes' resources with the local copies that its
// decisions are made from, and calls ready once it decides.
func (o *options) serve(ctx context.Context, config apiserver.Config, front *frontProxy, ready func()) error {
	// The copies are read through the server that they are for.
	var server *apiserver.Server
	policy, err := newPolicy(func() *apiserver.Server { return server }, o.log)
	if err != nil {
		return err
	}
	config.Authorizer, config.Admission = policy.authorizer, policy.admission
	aggregator, err := front.aggregate(policy, o.log)
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
		if err := seed(ctx, policy.client, front, config.Resources); err != nil {
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
		// Most of the heap is what starting took. A server that nobody asks
		// anything would not collect it for two minutes.
		debug.FreeOSMemory()
		return nil
	})
	if err := parts.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
