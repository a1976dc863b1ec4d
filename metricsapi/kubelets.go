package metricsapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/planekit/planekit/authn/user"
	corev1 "k8s.io/api/core/v1"
)

// Limits of connections to kubelets.
const (
	dialTimeout    = 5 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
)

// Kubelets asks kubelets over TLS, at an address and the port that the Node has: its first address
// of type InternalIP, ExternalIP or Hostname, in this order. It sends nothing to a server whose
// certificate is not the node's own (system:node:NAME in the group system:nodes), follows no
// redirects and accepts no compression. It must not be copied.
type Kubelets struct {
	// TLS has the client certificate to show, and the authorities of the kubelets in RootCAs.
	TLS *tls.Config
	// MayDial returns an error for addresses that no node has. Nil means that they must be global
	// unicast addresses.
	MayDial func(netip.Addr) error
	// Dial, if set, connects instead of the machine's network; MayDial is not called.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	once      sync.Once
	transport *http.Transport
}

// kubelet is where a node's kubelet is. A pointer to it is in the context of requests.
type kubelet struct{ node, host, port string }

type kubeletKey struct{}

// Scrape asks a node's kubelet for /metrics/resource.
func (k *Kubelets) Scrape(ctx context.Context, node *corev1.Node) (io.ReadCloser, error) {
	k.once.Do(k.open)
	to, err := locate(node)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, kubeletKey{}, to)
	// http.Transport keeps connections by host. The name of the node there keeps a connection that
	// was verified as one node's from carrying a request to another that claims its address.
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(to.node, to.port)+"/metrics/resource", nil)
	if err != nil {
		return nil, err
	}
	request.Host = net.JoinHostPort(to.host, to.port)
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := k.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	encoding := response.Header.Get("Content-Encoding")
	switch {
	case response.StatusCode != http.StatusOK:
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		err = fmt.Errorf("the kubelet answered %d: %q", response.StatusCode, text)
	case encoding != "" && encoding != "identity":
		err = fmt.Errorf("the kubelet answered with the encoding %q, which was not asked for", encoding)
	default:
		return response.Body, nil
	}
	return nil, errors.Join(err, response.Body.Close())
}

// Close closes idle connections.
func (k *Kubelets) Close() {
	k.once.Do(k.open)
	k.transport.CloseIdleConnections()
}

func (k *Kubelets) open() {
	k.transport = &http.Transport{
		DialTLSContext: k.dial, DisableCompression: true, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 1,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// locate returns where the kubelet of a node is.
func locate(node *corev1.Node) (*kubelet, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port <= 0 || port > 65535 {
		return nil, fmt.Errorf("status.daemonEndpoints.kubeletEndpoint.Port of the node is %d", port)
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName} {
		for _, a := range node.Status.Addresses {
			if a.Type == kind && a.Address != "" {
				return &kubelet{node.Name, a.Address, strconv.Itoa(int(port))}, nil
			}
		}
	}
	return nil, errors.New("status.addresses of the node has no InternalIP, ExternalIP or Hostname")
}

// dial connects to the kubelet in ctx and verifies that it is its node's.
func (k *Kubelets) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	to, ok := ctx.Value(kubeletKey{}).(*kubelet)
	if !ok {
		return nil, errors.New("no kubelet to connect to")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	plain, err := k.connect(ctx, network, net.JoinHostPort(to.host, to.port))
	if err != nil {
		return nil, err
	}
	config := k.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.ServerName = to.host
	config.VerifyConnection = func(state tls.ConnectionState) error {
		subject := state.PeerCertificates[0].Subject
		if subject.CommonName != user.NodePrefix+to.node || !slices.Contains(subject.Organization, user.Nodes) {
			return fmt.Errorf("the certificate at %s is of %q, not of node %q", net.JoinHostPort(to.host, to.port), subject, to.node)
		}
		return nil
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return conn, nil
}

func (k *Kubelets) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if k.Dial != nil {
		return k.Dial(ctx, address)
	}
	may := k.MayDial
	if may == nil {
		may = func(a netip.Addr) error {
			if !a.IsGlobalUnicast() {
				return errors.New("it is not a global unicast address")
			}
			return nil
		}
	}
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err == nil {
			err = may(to.Addr().Unmap().WithZone(""))
		}
		return err
	}}
	return dialer.DialContext(ctx, network, address)
}
