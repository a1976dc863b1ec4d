package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/pki"
)

// administrator is who the kubeconfig is for.
const administrator = "kubernetes-admin"

// credentials are the cluster's certificates and the administrator's token.
type credentials struct {
	address        net.Addr
	authority      *pki.Authority
	serving, admin *pki.Pair
	// frontProxy signs frontClient, by which other API servers know this one.
	frontProxy  *pki.Authority
	frontClient *pki.Pair
	tokens      []byte // CSV
}

// openCredentials reads the credentials in the data directory or makes them.
func openCredentials(dir *dataDir, address net.Addr, more []string) (*credentials, error) {
	authority, err := pki.Open(dir.join("pki"))
	if err != nil {
		return nil, err
	}
	serving, err := authority.Serving("apiserver", servingNames(address, more)...)
	if err != nil {
		return nil, err
	}
	admin, err := authority.Client("admin", administrator, user.Masters)
	if err != nil {
		return nil, err
	}
	tokens, err := adminToken(dir.join("tokens.csv"))
	if err != nil {
		return nil, err
	}
	c := &credentials{address: address, authority: authority, serving: serving, admin: admin, tokens: tokens}
	return c, c.openFrontProxy(dir.join("pki", "front-proxy"))
}

// servingNames are what the API server may be called.
func servingNames(address net.Addr, more []string) []string {
	names := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			names = append(names, host)
		}
	}
	return append(names, more...)
}

// serverURL is where clients on this machine reach a server that listens on
// address.
func serverURL(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return "https://" + address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// adminToken reads the token file, or makes one with a token for the
// administrator.
func adminToken(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	var random [32]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	line := fmt.Sprintf("%s,%s,,%q\n", hex.EncodeToString(random[:]), administrator, user.Masters)
	return []byte(line), os.WriteFile(file, []byte(line), 0o600)
}

// writeKubeconfig writes the administrator's kubeconfig, readable by its owner. What
// others have put into the file stays.
func (c *credentials) writeKubeconfig(file string) error {
	const name = "planekit"
	config := &kubeconfig.Config{
		CurrentContext: name,
		Clusters: map[string]kubeconfig.Cluster{name: {
			Server: serverURL(c.address), CertificateAuthorityData: c.authority.CertificatePEM,
		}},
		Users: map[string]kubeconfig.User{name: {
			ClientCertificateData: c.admin.CertificatePEM, ClientKeyData: c.admin.KeyPEM,
		}},
		Contexts: map[string]kubeconfig.Context{name: {Cluster: name, User: name}},
	}
	theirs, err := kubeconfig.Load(file)
	switch {
	case err == nil:
		config = kubeconfig.Merge(config, theirs)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return config.Write(file)
}
