package nodes

import (
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
)

// nodeServer is the kubelet's server in the making.
type nodeServer struct {
	config server.Config
	host   string
	port   int32
	listen func(address string) (net.Listener, error)
}

// newNodeServer returns the server of a node.
func newNodeServer(cp controlPlane, c Config) nodeServer {
	config := cp.server
	config.NodeName, config.Log = c.Name, c.Log.WithName("kubelet-server").WithValues("node", c.Name)
	if c.Server != nil {
		c.Server(&config)
	}
	return nodeServer{host: c.Address, port: c.Port, listen: cp.listen, config: config}
}

// start serves, and returns the port.
func (n *nodeServer) start(s *stack.Stack, k kubelet.Config, pods localcache.Reader[*corev1.Pod], static staticpods.Config, runtime server.Runtime) (int32, error) {
	listener, err := n.listen(net.JoinHostPort(n.host, strconv.Itoa(int(n.port))))
	if err != nil {
		return 0, err
	}
	n.config.Listener, n.config.LogRoot, n.config.Pods, n.config.Runtime = listener, k.LogRoot, pods, runtime
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	n.config.Configuration = func() any { return configuration(k, n.host, port, static) }
	serve, err := server.New(n.config)
	if err != nil {
		return 0, errors.Join(err, listener.Close())
	}
	s.Start("kubelet's server", serve.Run)
	return port, nil
}

// expiry returns when the serving certificate expires, zero if it is unknown.
func expiry(config *tls.Config) time.Time {
	var certificate *tls.Certificate
	switch {
	case config.GetCertificate != nil:
		certificate, _ = config.GetCertificate(&tls.ClientHelloInfo{})
	case len(config.Certificates) > 0:
		certificate = &config.Certificates[0]
	}
	if certificate == nil || certificate.Leaf == nil {
		return time.Time{}
	}
	return certificate.Leaf.NotAfter
}
