// Package credentials holds the certificates and keys of one control plane: the authority of clients and
// servers, that of kubelets' servers, that of front proxies, and the key that signs service account tokens.
//
//	c, err := credentials.New("127.0.0.1")        // in memory
//	c, err := credentials.Open(dir, "10.0.0.1")   // kept in dir
//	kubeconfig := c.Kubeconfig("https://127.0.0.1:6443")
//	clients, err := c.Clients()                   // the users that they sign for
//	c, err := c.With(servingcert.Set{...})        // certificates of an operator's too
//
// The authorities differ on purpose: the holder of a front proxy's certificate may speak for any user, and
// a node chooses the names and addresses in the certificate of its kubelet, by which it must not pass for
// another server. Read access to the directory gives full control of the cluster; keys have mode 0600.
//
// The configurations of [Credentials.ServerTLS], [Credentials.ClientTLS] and [Credentials.KubeletTLS] renew
// their certificates while they are in use, and follow the files in the directory: see [pki.Live].
package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"path/filepath"
	"slices"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/pki/servingcert"
)

const (
	// Administrator is the user of the administrator's certificate.
	Administrator = "kubernetes-admin"
	// FrontProxy is the user as which the API server shows itself to servers behind it.
	FrontProxy = "front-proxy-client"
)

// Credentials are the certificates and keys of one control plane.
type Credentials struct {
	// Authority signs clients and the API server.
	Authority *pki.Authority
	// Kubelets signs the serving certificates of kubelets. Only [Credentials.KubeletTLS] trusts it.
	Kubelets *pki.Authority
	// Serving is the API server's certificate, and Admin that of a member of
	// system:masters.
	Serving, Admin *pki.Pair
	// FrontProxy signs FrontClient, by which servers behind the API server know it.
	FrontProxy  *pki.Authority
	FrontClient *pki.Pair
	// More are certificates of an operator's that the API server serves beside Serving. See [Credentials.With].
	More servingcert.Set
	// AccountKey signs service account tokens: an *ecdsa.PrivateKey or an *rsa.PrivateKey.
	AccountKey crypto.Signer
}

// Names returns the names of every API server, in addition to its address.
func Names() []string {
	return []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
}

// New makes credentials in memory. The certificate of the API server is valid for hosts and for
// Names.
func New(hosts ...string) (*Credentials, error) {
	authority, err := pki.New()
	if err != nil {
		return nil, err
	}
	front, err := pki.New()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return complete(&Credentials{Authority: authority, FrontProxy: front, AccountKey: key}, hosts)
}

// Open reads the credentials in dir, or makes those that are missing.
func Open(dir string, hosts ...string) (*Credentials, error) {
	authority, err := pki.Open(dir)
	if err != nil {
		return nil, err
	}
	front, err := pki.Open(filepath.Join(dir, "front-proxy"))
	if err != nil {
		return nil, err
	}
	key, err := pki.Key(filepath.Join(dir, "sa.key"))
	if err != nil {
		return nil, err
	}
	return complete(&Credentials{Authority: authority, FrontProxy: front, AccountKey: key}, hosts)
}

// complete issues the certificates.
func complete(c *Credentials, hosts []string) (_ *Credentials, err error) {
	if c.Kubelets, err = c.Authority.Derived("kubelet-serving"); err != nil {
		return nil, err
	}
	if c.Serving, err = c.Authority.Serving("apiserver", append(Names(), hosts...)...); err != nil {
		return nil, err
	}
	if c.Admin, err = c.Authority.Client("admin", Administrator, user.Masters); err != nil {
		return nil, err
	}
	c.FrontClient, err = c.FrontProxy.Client("client", FrontProxy)
	return c, err
}

// With returns the credentials with certificates of an operator's, which the API server serves too. Clients
// inside the cluster are served by Serving as before.
func (c *Credentials) With(more servingcert.Set) (*Credentials, error) {
	if err := more.Check(c.Serving.Certificate); err != nil {
		return nil, err
	}
	with := *c
	with.More = more
	return &with, nil
}

// Bundle returns the certificates, in PEM, by which a client outside the cluster verifies the API server:
// Authority, and what has signed More. Clients inside need Authority alone.
func (c *Credentials) Bundle() []byte {
	return slices.Concat(c.Authority.CertificatePEM, c.More.Anchors(c.Authority.Pool()))
}

// ServerTLS returns the configuration of the API server. Clients may show a
// certificate; an authenticator must verify it. With hint, the server names the
// authorities it believes, so that clients show no certificate of another.
func (c *Credentials) ServerTLS(hint bool) *tls.Config {
	serving := c.Serving.Live()
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: c.More.Choose(func() *tls.Certificate {
			own := serving.Pair().TLS()
			return &own
		}),
		ClientAuth: tls.RequestClientCert,
	}
	if hint {
		config.ClientCAs = c.Authority.Pool()
		config.ClientCAs.AddCert(c.FrontProxy.Certificate)
	}
	return config
}

// FrontProxies returns the authenticator of the users for whom the control plane's own front proxies
// speak: those with a certificate of FrontClient's name, which FrontProxy has signed.
func (c *Credentials) FrontProxies() (authn.Authenticator, error) {
	return requestheader.New(requestheader.Config{Roots: c.FrontProxy.Pool(), AllowedNames: []string{FrontProxy}})
}

// Clients returns the authenticator of the client certificates that Authority has signed.
func (c *Credentials) Clients() (authn.Authenticator, error) {
	return x509.New(x509.Config{Roots: c.Authority.Pool()})
}

// ClientTLS returns the configuration of a client with this certificate.
func (c *Credentials) ClientTLS(pair *pki.Pair) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Authority.Pool(), GetClientCertificate: pair.Live().ClientCertificate}
}

// KubeletTLS returns the configuration of a client of kubelets with this certificate. It also trusts
// Authority, which signed kubelets before Kubelets did and may sign the certificates that an operator
// gives to nodes. The caller must verify that the subject is the node's user: the names and addresses in
// these certificates are the nodes' own choice.
func (c *Credentials) KubeletTLS(pair *pki.Pair) *tls.Config {
	config := c.ClientTLS(pair)
	config.RootCAs.AddCert(c.Kubelets.Certificate)
	return config
}

// ReportTo sets what receives reports about certificates in use.
func (c *Credentials) ReportTo(r pki.Report) {
	for _, authority := range []*pki.Authority{c.Authority, c.Kubelets, c.FrontProxy} {
		authority.ReportTo(r)
	}
	c.More.ReportTo(r)
}

// Kubeconfig returns the administrator's configuration for the server at url.
func (c *Credentials) Kubeconfig(url string) *kubeconfig.Config { return c.KubeconfigOf(url, c.Admin) }

// KubeconfigOf returns the configuration of the user that a certificate names.
func (c *Credentials) KubeconfigOf(url string, pair *pki.Pair) *kubeconfig.Config {
	const name = "planekit"
	return &kubeconfig.Config{
		CurrentContext: name,
		Clusters:       map[string]kubeconfig.Cluster{name: {Server: url, CertificateAuthorityData: c.Bundle()}},
		Users:          map[string]kubeconfig.User{name: {ClientCertificateData: pair.CertificatePEM, ClientKeyData: pair.KeyPEM}},
		Contexts:       map[string]kubeconfig.Context{name: {Cluster: name, User: name}},
	}
}
