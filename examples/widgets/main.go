// Command widgets serves a Go type of its own as a Kubernetes API over TLS,
// with a controller on it. Nothing is generated: widget.go is the type and all
// that the server has to know of it, in less than 50 lines. kubectl works:
//
//	go run ./examples/widgets &
//	kubectl --kubeconfig widgets/kubeconfig create -f widget.yaml
//	kubectl --kubeconfig widgets/kubeconfig get widgets
//
// Objects are kept in memory, and are gone with the program.
package main

import (
	"context"
	"crypto/tls"
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
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/examples/cluster/pki"
	"github.com/planekit/planekit/storage/memstore"
	"golang.org/x/sync/errgroup"
)

func main() {
	address := flag.String("address", "127.0.0.1:6444", "where to serve; port 0 picks a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "widgets", *address, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves at address until ctx is done. Certificates and the kubeconfig of
// the only user are in dir.
func run(ctx context.Context, dir, address string, stdout io.Writer) error {
	authority, err := pki.Open(dir)
	if err != nil {
		return err
	}
	serving, err1 := authority.Serving("server", "127.0.0.1", "localhost")
	maker, err2 := authority.Client("maker", "maker", "makers")
	certificates, err3 := x509.New(x509.Config{Roots: authority.Pool()})
	listener, err4 := net.Listen("tcp", address)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(), Resources: []apiserver.Resource{widgets()},
		Authenticator: certificates, Authorizer: authz.Superusers("makers"),
		Listener: listener,
		TLS:      &tls.Config{Certificates: []tls.Certificate{serving.TLS()}, ClientAuth: tls.RequestClientCert, ClientCAs: authority.Pool()},
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
	api, err := client.New(client.Config{
		Server: "http://in-process", Transport: server.Transport(&user.Info{Name: "painter", Groups: []string{"makers"}}),
	})
	if err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return server.Run(ctx) })
	parts.Go(func() error { return paint(ctx, api) })
	fmt.Fprintf(stdout, "%s: kubectl --kubeconfig %s get widgets\n", url, config)
	return parts.Wait()
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
