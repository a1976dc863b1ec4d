package nodeproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Nodes finds nodes.
type Nodes interface {
	// Node returns the node of that name, which may be a little old, shared and
	// is not changed. The error is one of k8s.io/apimachinery/pkg/api/errors.
	Node(ctx context.Context, name string) (*corev1.Node, error)
}

// NodesFunc is a function that is [Nodes].
type NodesFunc func(ctx context.Context, name string) (*corev1.Node, error)

// Node calls f.
func (f NodesFunc) Node(ctx context.Context, name string) (*corev1.Node, error) { return f(ctx, name) }

// Config describes a proxy. Nodes and TLS must be set.
type Config struct {
	Nodes Nodes
	// TLS is for connections to kubelets: the API server's client certificate,
	// and in RootCAs the authority of the kubelets' certificates.
	TLS *tls.Config
	// MayDial refuses addresses of pods with an error. Nil: loopback, link-local,
	// multicast and unspecified addresses are refused, as in Kubernetes.
	MayDial func(netip.Addr) error
	// Log is silent when zero.
	Log logr.Logger
}

// Limits on connections to nodes.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// headerTimeout is how long a kubelet may think before it answers: the
	// runtime has two minutes for a call.
	headerTimeout = 2*time.Minute + 30*time.Second
	maxHeader     = 1 << 20
	idleTimeout   = 90 * time.Second
)

// Proxy leads to the nodes. Its methods are safe for concurrent use.
type Proxy struct {
	config   Config
	kubelets *http.Transport
	pods     *http.Transport
}

// New checks the configuration. It dials nobody.
func New(c Config) (*Proxy, error) {
	switch {
	case c.Nodes == nil:
		return nil, errors.New("nodeproxy: Nodes is missing")
	case c.TLS == nil || c.TLS.RootCAs == nil:
		return nil, errors.New("nodeproxy: TLS has no RootCAs to verify kubelets with")
	case c.TLS.InsecureSkipVerify:
		return nil, errors.New("nodeproxy: TLS does not verify kubelets")
	}
	if c.MayDial == nil {
		c.MayDial = routable
	}
	p := &Proxy{config: c, kubelets: transport(c.TLS.Clone()), pods: transport(&tls.Config{
		// As in Kubernetes: the certificates of pods are their own affair, and
		// nothing that is secret is sent to them.
		InsecureSkipVerify: true,
	})}
	return p, nil
}

// transport speaks HTTP/1.1, the only version whose connections can be upgraded.
func transport(c *tls.Config) *http.Transport {
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return &http.Transport{
		TLSClientConfig:        c,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
	}
}

// Close closes the connections that are idle. Those in use end with their
// requests.
func (p *Proxy) Close() {
	p.kubelets.CloseIdleConnections()
	p.pods.CloseIdleConnections()
}

// kubelet is where the kubelet of a node listens.
func (p *Proxy) kubelet(ctx context.Context, name string) (*url.URL, error) {
	node, err := p.config.Nodes.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	return location(node)
}

// addressTypes are tried in this order.
var addressTypes = []corev1.NodeAddressType{
	corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeInternalDNS, corev1.NodeExternalDNS, corev1.NodeHostName,
}

func location(node *corev1.Node) (*url.URL, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port <= 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("node %s does not say where its kubelet listens", node.Name))
	}
	for _, kind := range addressTypes {
		for _, address := range node.Status.Addresses {
			if address.Type == kind && address.Address != "" {
				return &url.URL{Scheme: "https", Host: net.JoinHostPort(address.Address, strconv.Itoa(int(port)))}, nil
			}
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no preferred addresses found; known addresses: %v", node.Status.Addresses))
}

// routable refuses what the API server must not be made to talk to: itself and
// its neighbours on the link, where cloud metadata lives.
func routable(address netip.Addr) error {
	if a := address.Unmap(); !a.IsGlobalUnicast() {
		return errors.New("address not allowed")
	}
	return nil
}
