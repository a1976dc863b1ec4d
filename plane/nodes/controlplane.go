package nodes

import (
	"context"
	"crypto/tls"
	"iter"
	"net"
	"net/http"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/trustbundle"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
)

// controlPlane holds what a node needs of its control plane, in this process or in another.
type controlPlane struct {
	api            *client.Client // acts as the node's user
	services       func(namespace string) iter.Seq[*corev1.Service]
	runtimeClasses localcache.Getter[*nodev1.RuntimeClass]
	trustBundles   trustbundle.Bundles
	// startCaches starts the caches above and waits until the node can start pods. Nil means that they
	// are running.
	startCaches func(context.Context, *stack.Stack) error
	// listen opens the listener of the kubelet's server, and server has TLS, Authenticate and Authorize.
	listen func(address string) (net.Listener, error)
	server server.Config
}

// inProcess returns what the node of c needs of p.
func inProcess(p *plane.Plane, c Config) (controlPlane, error) {
	api, err := p.ClientFor(&user.Info{Name: user.NodePrefix + c.Name, Groups: []string{user.Nodes, user.Authenticated}}, "kubelet")
	if err != nil {
		return controlPlane{}, err
	}
	pair, err := p.Credentials.Kubelets.Kubelet(c.Name, c.Address)
	if err != nil {
		return controlPlane{}, err
	}
	certificates, err := p.Credentials.Clients()
	if err != nil {
		return controlPlane{}, err
	}
	return controlPlane{
		api: api, services: p.Caches.ServicesByNamespace.Get, runtimeClasses: p.Caches.RuntimeClasses, trustBundles: p.Caches.ClusterTrustBundles,
		listen: p.Listen,
		server: server.Config{
			TLS:          &tls.Config{GetCertificate: pair.Live().Certificate, ClientCAs: p.Credentials.Authority.Pool()},
			Authenticate: userOf(certificates),
			Authorize: func(ctx context.Context, who string, groups []string, verb, subresource string) (bool, error) {
				decision, _, err := authorizerFor(p, who).Authorize(ctx, authz.Attributes{
					User: &user.Info{Name: who, Groups: append(groups, user.Authenticated)},
					Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: c.Name,
				})
				return decision == authz.Allow, err
			},
		},
	}, nil
}

// userOf returns a function that tells who sent a request to a kubelet's server.
func userOf(authenticator authn.Authenticator) func(*http.Request) (string, []string, error) {
	return func(r *http.Request) (string, []string, error) {
		u, known, err := authenticator.Authenticate(r)
		if err != nil || !known {
			return "", nil, err
		}
		return u.Name, u.Groups, nil
	}
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
