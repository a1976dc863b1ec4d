package nodes

import (
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"errors"
	"net"

	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/reconcile/controllers"
	corev1 "k8s.io/api/core/v1"
)

// Remote is a control plane in another process. All fields must be set.
type Remote struct {
	// Client acts as the user system:node:NAME in the group system:nodes. Its credentials may be
	// replaced while it is in use.
	Client *client.Client
	// TLS has the serving certificate of the kubelet's server. If it has GetConfigForClient, what that
	// returns must request certificates of clients.
	TLS *tls.Config
	// ClientCAs returns the authorities of the server's clients. It must be safe for concurrent use, and
	// return the same pool as long as nothing changes.
	ClientCAs func() *stdx509.CertPool
}

// StartRemote starts a node of a control plane in another process on s, and waits until it is ready for
// pods. Until the control plane answers, it waits. The clients of the kubelet's server have certificates, and
// the API server says what they may do.
func StartRemote(ctx context.Context, s *stack.Stack, r Remote, c Config) error {
	cp, err := r.controlPlane(c)
	if err != nil {
		return err
	}
	n, err := newNode(cp, c)
	if err != nil {
		return err
	}
	return startAll(ctx, s, []*node{n})
}

func (r Remote) controlPlane(c Config) (controlPlane, error) {
	if r.Client == nil || r.TLS == nil || r.ClientCAs == nil {
		return controlPlane{}, errors.New("nodes: Remote without Client, TLS or ClientCAs")
	}
	clients, err := x509.New(x509.Config{CurrentRoots: r.ClientCAs})
	if err != nil {
		return controlPlane{}, err
	}
	var group caches.Group
	log := c.Log.WithName("caches").WithValues("node", c.Name)
	services, err1 := caches.Add(&group, "services", typed.Services(r.Client), log)
	classes, err2 := caches.Add(&group, "runtimeclasses", typed.RuntimeClasses(r.Client), log)
	bundles, err3 := caches.Add(&group, "clustertrustbundles", typed.ClusterTrustBundles(r.Client), log)
	if err := errors.Join(err1, err2, err3); err != nil {
		return controlPlane{}, err
	}
	byNamespace := informer.NewIndex(services, controllers.ByNamespace[*corev1.Service])
	config := r.TLS.Clone()
	config.ClientAuth = max(config.ClientAuth, tls.RequestClientCert)
	reviews := newReviews(r.Client, c.Name)
	return controlPlane{
		api: r.Client, services: byNamespace.Get, runtimeClasses: classes, trustBundles: bundles,
		startCaches: func(ctx context.Context, s *stack.Stack) error {
			group.Start(s)
			return s.Await(ctx, services.Synced()) // containers get their addresses
		},
		listen: func(address string) (net.Listener, error) { return net.Listen("tcp", address) },
		server: server.Config{TLS: config, Authenticate: userOf(clients), Authorize: reviews.authorize},
	}, nil
}
