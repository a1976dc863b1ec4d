package nodeproxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/upgraded"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	// Slices, by namespace/name of their service, and Pods, by namespace/name, are for ServiceProxy, which needs
	// them.
	Slices localcache.Index[string, *discoveryv1.EndpointSlice]
	Pods   localcache.Getter[*corev1.Pod]
	// TLS is for connections to kubelets: the API server's client certificate,
	// and in RootCAs the authority of the kubelets' certificates.
	TLS *tls.Config
	// VerifyNode returns an error unless certificate, which has been verified for
	// the address, is that of the kubelet of node. Nil: the subject must be the
	// node's user, as the signer kubernetes.io/kubelet-serving has it.
	VerifyNode func(node string, certificate *x509.Certificate) error
	// MayDial refuses addresses of pods with an error. Nil means Routable.
	MayDial func(netip.Addr) error
	// MayDialNode is the same for the addresses of nodes.
	MayDialNode func(netip.Addr) error
	// Self is where the API server listens, or can be reached otherwise. It is never
	// connected to, whatever the functions above say. An address of this machine, or an
	// unspecified one, means all addresses of the machine.
	Self []netip.AddrPort
	// ConnectNode connects to the address of a node, "host:port", in place of the
	// machine's network and of MayDialNode. Nil uses those.
	ConnectNode func(ctx context.Context, address string) (net.Conn, error)
	// StreamsPerUser and StreamsPerNode bound the upgraded connections that are open
	// at a time. Zero is 256 for a user and 512 for a node.
	StreamsPerUser, StreamsPerNode int
	// Streams bounds the life of upgraded connections.
	Streams StreamLimits
	// Log is silent when zero.
	Log logr.Logger
}

// StreamLimits bound the life of an upgraded connection. Zero fields have the
// defaults.
type StreamLimits = upgraded.Limits

// Limits on connections to nodes.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// headerTimeout is how long a kubelet may think before it answers: the
	// runtime has two minutes for a call.
	headerTimeout = 2*time.Minute + 30*time.Second
	maxHeader     = 1 << 20
	idleTimeout   = 90 * time.Second

	defaultStreamsPerUser = 256
	defaultStreamsPerNode = 512
)

// Proxy leads to the nodes. Its methods are safe for concurrent use.
type Proxy struct {
	config   Config
	kubelets *http.Transport
	pods     *http.Transport
	users    upgraded.Counter // of upgraded connections
	nodes    upgraded.Counter
}

// New checks the configuration. It opens no connection.
func New(c Config) (*Proxy, error) {
	switch {
	case c.Nodes == nil:
		return nil, errors.New("nodeproxy: Nodes is missing")
	case c.TLS == nil || c.TLS.RootCAs == nil:
		return nil, errors.New("nodeproxy: TLS has no RootCAs to verify kubelets with")
	case c.TLS.InsecureSkipVerify:
		return nil, errors.New("nodeproxy: TLS does not verify kubelets")
	case c.StreamsPerUser < 0 || c.StreamsPerNode < 0:
		return nil, errors.New("nodeproxy: StreamsPerUser or StreamsPerNode is negative")
	}
	if c.MayDial == nil {
		c.MayDial = Routable
	}
	if c.MayDialNode == nil {
		c.MayDialNode = Routable
	}
	if c.VerifyNode == nil {
		c.VerifyNode = isNode
	}
	c.StreamsPerUser = cmp.Or(c.StreamsPerUser, defaultStreamsPerUser)
	c.StreamsPerNode = cmp.Or(c.StreamsPerNode, defaultStreamsPerNode)
	p := &Proxy{config: c, kubelets: newTransport(), pods: newTransport()}
	p.kubelets.DialTLSContext = p.dialKubelet
	p.pods.DialContext = p.dialer(c.MayDial).DialContext
	// As in Kubernetes: the certificates of pods are their own affair, and nothing
	// that is secret is sent to them.
	p.pods.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	return p, nil
}

// newTransport speaks HTTP/1.1, the only version whose connections can be upgraded.
func newTransport() *http.Transport {
	return &http.Transport{
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

// kubelet returns the kubelet of the node of that name.
func (p *Proxy) kubelet(ctx context.Context, name string) (*kubelet, error) {
	node, err := p.config.Nodes.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	return p.kubeletOf(node)
}

// addressTypes are tried in this order.
var addressTypes = []corev1.NodeAddressType{
	corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeInternalDNS, corev1.NodeExternalDNS, corev1.NodeHostName,
}

func (p *Proxy) kubeletOf(node *corev1.Node) (*kubelet, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port <= 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("node %s does not say where its kubelet listens", node.Name))
	}
	for _, kind := range addressTypes {
		for _, address := range node.Status.Addresses {
			if address.Type == kind && address.Address != "" {
				return &kubelet{proxy: p, node: node.Name, host: address.Address, port: strconv.Itoa(int(port))}, nil
			}
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no preferred addresses found; known addresses: %v", node.Status.Addresses))
}
