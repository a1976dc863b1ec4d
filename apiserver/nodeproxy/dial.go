package nodeproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"

	"github.com/planekit/planekit/authn/user"
)

// kubelet is the kubelet of a node at the address that its node object gives.
type kubelet struct {
	proxy            *Proxy
	node, host, port string
}

func (k *kubelet) address() string { return net.JoinHostPort(k.host, k.port) }

func (k *kubelet) url(path, query string) *url.URL {
	return &url.URL{Scheme: "https", Host: k.address(), Path: path, RawQuery: query}
}

// kubeletKey is the key of a *kubelet in the context of a request to it.
type kubeletKey struct{}

// RoundTrip sends a request to the kubelet. http.Transport keeps connections by the
// host of the URL, which becomes the node's name here: a connection that was
// verified as one node's never carries a request for another that claims the same
// address.
func (k *kubelet) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.WithContext(context.WithValue(r.Context(), kubeletKey{}, k))
	to := *r.URL
	to.Host, out.Host = net.JoinHostPort(k.node, k.port), k.address()
	out.URL = &to
	return k.proxy.kubelets.RoundTrip(out)
}

// dialKubelet connects to the kubelet in ctx and verifies that it is its node's.
func (p *Proxy) dialKubelet(ctx context.Context, network, _ string) (net.Conn, error) {
	to, ok := ctx.Value(kubeletKey{}).(*kubelet)
	if !ok {
		return nil, errors.New("no kubelet to connect to")
	}
	plain, err := p.connectNode(ctx, network, to.address())
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, p.tlsFor(to))
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return conn, nil
}

func (p *Proxy) connectNode(ctx context.Context, network, address string) (net.Conn, error) {
	if p.config.ConnectNode != nil {
		return p.config.ConnectNode(ctx, address)
	}
	return p.dialer(p.config.MayDialNode).DialContext(ctx, network, address)
}

func (p *Proxy) tlsFor(to *kubelet) *tls.Config {
	config := p.config.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if config.ServerName == "" {
		config.ServerName = to.host
	}
	more := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if more != nil {
			if err := more(state); err != nil {
				return err
			}
		}
		return p.config.VerifyNode(to.node, state.PeerCertificates[0])
	}
	return config
}

// isNode returns an error unless the certificate's subject is the user that the
// node is. The names for which a certificate is valid prove nothing: a user who may
// create nodes chooses their names, and could choose one of the API server's.
func isNode(node string, certificate *x509.Certificate) error {
	subject := certificate.Subject
	if subject.CommonName != user.NodePrefix+node || !slices.Contains(subject.Organization, user.Nodes) {
		return fmt.Errorf("the certificate at this address is of %q, not of node %q", subject, node)
	}
	return nil
}

// refusedError says that an address is not connected to.
type refusedError struct{ cause error }

func (e *refusedError) Error() string { return e.cause.Error() }
func (e *refusedError) Unwrap() error { return e.cause }

var errNotAllowed = errors.New("address not allowed")

// dialer checks the addresses that names stand for, when they are connected to.
func (p *Proxy) dialer(may func(netip.Addr) error) *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return &refusedError{err}
		}
		to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
		if p.isSelf(to) {
			return &refusedError{errNotAllowed}
		}
		if err := may(to.Addr()); err != nil {
			return &refusedError{err}
		}
		return nil
	}}
}

// isSelf reports whether the API server itself is at an address: at one that it was given or, if that is of
// this machine, at another of the machine with the same port. The server may listen at more addresses than it
// knows. Connecting to an unspecified address leads to the machine.
func (p *Proxy) isSelf(to netip.AddrPort) bool {
	return slices.ContainsFunc(p.config.Self, func(self netip.AddrPort) bool {
		own := self.Addr().Unmap().WithZone("")
		if to.Port() != self.Port() {
			return false
		}
		return to.Addr() == own || to.Addr().IsUnspecified() || (own.IsUnspecified() || onMachine(own)) && onMachine(to.Addr())
	})
}

// onMachine reports whether an address is one of this machine. Where it cannot be
// found out, it may be.
func onMachine(address netip.Addr) bool {
	if address.IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		own, ok := netip.AddrFromSlice(network.IP)
		return ok && own.Unmap() == address
	})
}

// Routable refuses what the API server must not be made to talk to: itself and
// its neighbours on the link, where cloud metadata lives. These are loopback, link-local, multicast and unspecified
// addresses, as in Kubernetes.
func Routable(address netip.Addr) error {
	if a := address.Unmap(); !a.IsGlobalUnicast() {
		return errNotAllowed
	}
	return nil
}
