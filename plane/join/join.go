// Package join makes a machine a node of a cluster: it learns the cluster's authority, gets the
// certificates of the node by signing requests, and renews them
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/).
//
//	// On a control plane, by an administrator's client:
//	invitation, err := join.Invite(ctx, join.InviteConfig{Client: api, Server: "https://10.0.0.1:6443", CA: pem})
//
//	// On the machine:
//	j, err := join.New(join.Config{
//		Server: invitation.Server, Token: invitation.Token, CAHashes: invitation.CAHashes,
//		Node: "node-1", Dir: "/var/lib/planekit", Addresses: addresses,
//	})
//	err = j.Join(ctx)  // from here on, j.Kubeconfig() names a file that a kubelet can use
//	go j.Run(ctx)      // gets the serving certificate and renews both
//	tls := &tls.Config{GetCertificate: j.ServingCertificate}
//
// # Trust
//
// Join reads the ConfigMap cluster-info of kube-public without verifying the server. It believes only
// authorities with a public key that Config.CAHashes names, and only if the token has signed the
// ConfigMap (package pki/clusterinfo). It shows the token to a server that such an authority has
// certified, never to another one.
//
// # Files
//
//	Dir/kubeconfig                       the server, its authorities, and the names of the next file
//	Dir/pki/kubelet-client-current.pem   client certificate and key of the user system:node:NAME
//	Dir/pki/kubelet-server-current.pem   serving certificate and key
//	Dir/pki/ca.crt                       the authorities of the cluster
//
// Files are replaced atomically. Only their owner can read them, except ca.crt. One process at a time may
// use a directory.
//
// # Model
//
// Join asks for nothing if the files of an earlier run are still good, so that a machine that starts
// again needs no token. The serving certificate comes later: the cluster approves only the names and
// addresses that the Node object has, so the kubelet must have registered the node. Until then
// [Joiner.ServingCertificate] returns an error, and TLS handshakes fail.
//
// Run asks for a new certificate when 70 to 90 % of the life of the current one are over, and for a new
// serving certificate when the node has a name or address that the current one lacks.
//
// # Failure
//
// Join returns the first error; errors.Is finds [ErrAuthority], [ErrToken], [ErrDenied], [ErrClock] and
// [ErrUnreachable]. Once it has sent a signing request, it waits for the certificate until its context
// ends, also while the server is away. Run tries again, with growing delays of up to five minutes. A file
// that is torn or missing is reported in the log and replaced.
package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/pki/clusterinfo"
	"k8s.io/apimachinery/pkg/util/validation"
)

// What went wrong, for errors.Is.
var (
	// ErrAuthority means that the server is not one of the expected cluster.
	ErrAuthority = errors.New("the cluster is not the expected one")
	// ErrToken means that the token is missing, unknown or has expired.
	ErrToken = errors.New("the token is not valid")
	// ErrDenied means that a signing request was denied or failed.
	ErrDenied = errors.New("the signing request was refused")
	// ErrClock means that a certificate is not valid at the time of this machine's clock.
	ErrClock = errors.New("a certificate is not valid at the time of this machine")
	// ErrUnreachable means that the server did not answer.
	ErrUnreachable = errors.New("the server cannot be reached")
	// ErrNotIssued means that there is no serving certificate yet.
	ErrNotIssued = errors.New("join: the serving certificate is not issued yet")
)

// Config describes the node and its cluster. Server, Node and Dir are required. Token and CAHashes are
// required to join, and not used while the files of an earlier run are good.
type Config struct {
	// Server is the URL of the API server, such as https://10.0.0.1:6443.
	Server string
	// Token is a bootstrap token: an ID, a dot and a secret part. It is never logged.
	Token string
	// CAHashes are the hashes of the public keys of the cluster's authorities, in the form of
	// [clusterinfo.PublicKeyHash].
	CAHashes []string
	// Node is the name of the node.
	Node string
	// Dir is the directory of the files.
	Dir string
	// Addresses returns the addresses and DNS names of the serving certificate: those that the Node
	// object has. Nil, or none, means that there is no serving certificate.
	Addresses func() ([]netip.Addr, []string)
	// Duration is the life of a certificate to ask for, at least ten minutes. Zero leaves it to the
	// cluster.
	Duration time.Duration
	// Dial connects to the server. Nil means over the network of the machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log receives what happens to the certificates. The zero Logger discards it.
	Log logr.Logger
}

// A Joiner has the certificates of a node. It is safe for concurrent use.
type Joiner struct {
	config  Config
	files   files
	client  certificate
	serving certificate

	mu        sync.Mutex // guards the following field
	authority []byte     // PEM, nil before Join
}

// New checks c and returns a Joiner. It reads no files and sends nothing.
func New(c Config) (*Joiner, error) {
	server, err := url.Parse(c.Server)
	switch {
	case err != nil:
		return nil, fmt.Errorf("join: Server: %w", err)
	case server.Scheme != "https" || server.Host == "" || server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return nil, fmt.Errorf("join: Server %q is not an https URL with a host", c.Server)
	case c.Dir == "":
		return nil, errors.New("join: no Dir")
	case c.Duration < 0 || c.Duration > 0 && c.Duration < minDuration:
		return nil, fmt.Errorf("join: Duration %v is less than %v", c.Duration, minDuration)
	}
	if problems := validation.IsDNS1123Subdomain(c.Node); len(problems) > 0 {
		return nil, fmt.Errorf("join: Node %q: %s", c.Node, problems[0])
	}
	if c.Token != "" {
		if _, _, ok := bootstraptoken.Parse(c.Token); !ok {
			return nil, errors.New("join: Token does not have the form abcdef.0123456789abcdef")
		}
	}
	for _, hash := range c.CAHashes {
		if err := clusterinfo.CheckHash(hash); err != nil {
			return nil, fmt.Errorf("join: CAHashes: %w", err)
		}
	}
	c.Server, c.CAHashes = strings.TrimSuffix(c.Server, "/"), slices.Clone(c.CAHashes)
	j := &Joiner{config: c, files: newFiles(c.Dir)}
	j.client.file, j.serving.file = j.files.client, j.files.serving
	return j, nil
}

// Kubeconfig returns the path of the file with which the node acts. It exists once Join has returned.
func (j *Joiner) Kubeconfig() string { return j.files.kubeconfig }

// CAFile returns the path of the file with the cluster's authorities. It exists once Join has returned.
func (j *Joiner) CAFile() string { return j.files.ca }

// Join gets the client certificate of the node and writes the kubeconfig. It does nothing if the files of
// an earlier run are good.
func (j *Joiner) Join(ctx context.Context) error {
	problem := j.load()
	if problem == nil {
		return nil
	}
	if !errors.Is(problem, errNoFiles) {
		j.config.Log.Info("joins again, because the files of an earlier run cannot be used", "reason", problem.Error())
	}
	if err := j.join(ctx); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return nil
}

// retry is the time between two attempts of JoinWhenReachable.
const retry = time.Second

// JoinWhenReachable calls Join every second until the server answers. It returns any error of Join but ErrUnreachable,
// or that of ctx. The first reason to wait is logged.
func (j *Joiner) JoinWhenReachable(ctx context.Context) error {
	for said := false; ; said = true {
		err := j.Join(ctx)
		if !errors.Is(err, ErrUnreachable) {
			return err
		}
		if !said {
			j.config.Log.Info("waiting for the control plane", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retry):
		}
	}
}

// join gets a client certificate by the token.
func (j *Joiner) join(ctx context.Context) error {
	authority, err := j.discover(ctx)
	if err != nil {
		return err
	}
	api, err := j.connect(authority, nil, j.config.Token)
	if err != nil {
		return err
	}
	defer api.Close()
	pair, err := j.obtain(ctx, api, true, j.clientTerms())
	if err != nil {
		return err
	}
	if err := j.files.writeAuthority(authority); err != nil {
		return err
	}
	if err := j.client.replace(pair); err != nil {
		return err
	}
	if err := j.writeKubeconfig(authority); err != nil {
		return err
	}
	j.setAuthority(authority)
	j.config.Log.Info("joined the cluster", "server", j.config.Server, "node", j.config.Node, "until", pair.tls.Leaf.NotAfter)
	return nil
}

// load reads the files of an earlier run. It returns why they cannot be used.
func (j *Joiner) load() error {
	authority, err := j.files.readAuthority()
	if err != nil {
		return err
	}
	pair, err := j.client.read()
	if err != nil {
		return err
	}
	if err := j.checkClient(pair.tls.Leaf, authority); err != nil {
		return err
	}
	if serving, err := j.serving.read(); err == nil {
		j.serving.set(serving)
	} else if !errors.Is(err, errNoFiles) {
		j.config.Log.Info("the serving certificate cannot be used, so another one is asked for", "reason", err.Error())
	}
	if err := j.writeKubeconfig(authority); err != nil {
		return err
	}
	j.client.set(pair)
	j.setAuthority(authority)
	return nil
}

// checkClient returns why a certificate is not good for the node now.
func (j *Joiner) checkClient(leaf *x509.Certificate, authority []byte) error {
	if want := userOf(j.config.Node); leaf.Subject.CommonName != want {
		return fmt.Errorf("the client certificate is that of %s, not of %s", leaf.Subject.CommonName, want)
	}
	kept := keepAuthorities(authority, j.config.CAHashes)
	if len(j.config.CAHashes) > 0 && kept == nil {
		return errors.New("the authority has another hash")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("the client certificate: %w", err)
	}
	return nil
}

func (j *Joiner) setAuthority(pem []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.authority = pem
}

func (j *Joiner) currentAuthority() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.authority
}

// ClientCertificate returns the current client certificate. It is a tls.Config.GetClientCertificate.
func (j *Joiner) ClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if current := j.client.current(); current != nil {
		return current, nil
	}
	return &tls.Certificate{}, nil
}

// ServingCertificate returns the current serving certificate, or [ErrNotIssued]. It is a
// tls.Config.GetCertificate.
func (j *Joiner) ServingCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := j.serving.current(); current != nil {
		return current, nil
	}
	return nil, ErrNotIssued
}
