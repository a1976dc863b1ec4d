// Command widgets serves a Go type of its own as a Kubernetes API over TLS,
// with a controller on it. Nothing is generated: widget.go is the type and all
// that the server has to know of it, in less than 50 lines. kubectl works:
//
//	go run ./examples/widgets &
//	echo '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"color":"red"}' |
//	  kubectl --kubeconfig widgets/kubeconfig create -f -
//	kubectl --kubeconfig widgets/kubeconfig get widgets
//
// Objects are kept in memory, and are gone with the program.
//
// It can also be a part of a cluster, whose API server passes example.com on to
// it: with --front-proxy-ca, a file with requestheader-client-ca-file of the
// config map kube-system/extension-apiserver-authentication, it believes what that
// server says of users, lets the cluster's administrators in, and calls itself
// widgets.default.svc. An APIService with the authority in widgets/ca.crt as its
// caBundle leads to it.
package main

import (
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/storage/memstore"
	"golang.org/x/sync/errgroup"
)

func main() {
	address := flag.String("address", "127.0.0.1:6444", "where to serve; port 0 picks a free one")
	proxyCA := flag.String("front-proxy-ca", "", "file with the authority of the API server in front, where there is one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "widgets", *address, *proxyCA, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves at address until ctx is done. Certificates and the kubeconfig of
// the only user of its own are in dir.
func run(ctx context.Context, dir, address, proxyCA string, stdout io.Writer) error {
	authority, err := pki.Open(dir)
	if err != nil {
		return err
	}
	serving, err1 := authority.Serving("server", "127.0.0.1", "localhost", "widgets.default.svc")
	maker, err2 := authority.Client("maker", "maker", "makers")
	users, err3 := authenticator(authority, proxyCA)
	listener, err4 := net.Listen("tcp", address)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(), Resources: []apiserver.Resource{served()},
		Authenticator: users, Authorizer: authz.Chain{authz.Superusers("makers"), authz.Superusers(user.Masters)},
		Listener: listener,
		TLS:      &tls.Config{Certificates: []tls.Certificate{serving.TLS()}, ClientAuth: tls.RequestClientCert},
	})
	if err != nil {
		return err
	}
	url := "https://" + listener.Addr().String()
	config := filepath.Join(dir, "kubeconfig")
	if err := writeKubeconfig(config, url, authority, maker); err != nil {
		return err
	}
	// The controller is in the process and needs neither wire nor credentials.
	api, err := client.New(client.InProcess(server.Transport(&user.Info{Name: "painter", Groups: []string{"makers"}})))
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return server.Run(ctx) })
	parts.Go(func() error { return paint(ctx, api) })
	fmt.Fprintf(stdout, "%s: kubectl --kubeconfig %s get widgets\n", url, config)
	return parts.Wait()
}

// authenticator knows who has a certificate of authority, and for whom an API
// server in front asks, if proxyCA names the file of its authority.
func authenticator(authority *pki.Authority, proxyCA string) (authn.Authenticator, error) {
	certificates, err := x509.New(x509.Config{Roots: authority.Pool()})
	if err != nil || proxyCA == "" {
		return certificates, err
	}
	pem, err := os.ReadFile(proxyCA)
	if err != nil {
		return nil, fmt.Errorf("--front-proxy-ca: %w", err)
	}
	roots := stdx509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--front-proxy-ca: no certificate in %s", proxyCA)
	}
	front, err := requestheader.New(requestheader.Config{Roots: roots, AllowedNames: []string{"front-proxy-client"}})
	if err != nil {
		return nil, err
	}
	return authn.Chain{front, certificates}, nil
}

func writeKubeconfig(file, url string, authority *pki.Authority, maker *pki.Pair) error {
	const name = "widgets"
	return (&kubeconfig.Config{
		CurrentContext: name,
		Clusters:       map[string]kubeconfig.Cluster{name: {Server: url, CertificateAuthorityData: authority.CertificatePEM}},
		Users:          map[string]kubeconfig.User{name: {ClientCertificateData: maker.CertificatePEM, ClientKeyData: maker.KeyPEM}},
		Contexts:       map[string]kubeconfig.Context{name: {Cluster: name, User: name}},
	}).Write(file)
}
