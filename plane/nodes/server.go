package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
)

// nodeServer is the kubelet's server in the making.
type nodeServer struct {
	config server.Config
	host   string
	listen func(address string) (net.Listener, error)
}

// newNodeServer returns the server of a node. It believes client certificates of the
// control plane's authority and asks its authorizers.
func newNodeServer(p *plane.Plane, c Config) (nodeServer, error) {
	authority := p.Credentials.Authority
	pair, err := authority.Kubelet(c.Name, c.Address)
	if err != nil {
		return nodeServer{}, err
	}
	certificates, err := p.Credentials.Clients()
	if err != nil {
		return nodeServer{}, err
	}
	config := server.Config{
		NodeName: c.Name,
		TLS:      &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientCAs: authority.Pool()},
		Authenticate: func(r *http.Request) (string, []string, error) {
			u, known, err := certificates.Authenticate(r)
			if err != nil || !known {
				return "", nil, err
			}
			return u.Name, u.Groups, nil
		},
		Authorize: func(ctx context.Context, who string, groups []string, verb, subresource string) (bool, error) {
			decision, _, err := authorizerFor(p, who).Authorize(ctx, authz.Attributes{
				User: &user.Info{Name: who, Groups: append(groups, user.Authenticated)},
				Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: c.Name,
			})
			return decision == authz.Allow, err
		},
		Log: c.Log.WithName("kubelet-server").WithValues("node", c.Name),
	}
	if c.Server != nil {
		c.Server(&config)
	}
	return nodeServer{host: c.Address, listen: p.Listen, config: config}, nil
}

// authorizerFor returns the authorizer of a user at the kubelets. The API server itself
// and the metrics server have the rights of their roles, whatever decides about users:
// their policies need not know of these.
func authorizerFor(p *plane.Plane, who string) authz.Authorizer {
	if who == plane.KubeletClient || who == plane.MetricsServer {
		return p.Authorizers.RBAC
	}
	return p.Authorizers
}

// start serves on a free port, which it returns: all nodes share the machine.
func (n *nodeServer) start(s *stack.Stack, k kubelet.Config, pods localcache.Reader[*corev1.Pod], static staticpods.Config, runtime server.Runtime) (int32, error) {
	listener, err := n.listen(net.JoinHostPort(n.host, "0"))
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
