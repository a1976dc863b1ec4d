package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/nodeproxy"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeletClient is the user that the API server is at the kubelets. What it may do
// there is granted by a binding to system:kubelet-api-admin, and it may do no more
// anywhere else.
const kubeletClient = "kube-apiserver-kubelet-client"

// kubeletClientBinding lets the API server do everything at kubelets.
func kubeletClientBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:        kubeletClient,
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubeletClient}},
	}
}

// connectNodes adds to resources what leads to the kubelets: logs, exec and
// their like. The API server shows them a certificate of its own.
func (c *cluster) connectNodes(resources []apiserver.Resource, nodes client.Resource[*corev1.Node]) ([]apiserver.Resource, error) {
	pair, err := c.credentials.authority.Client("apiserver-kubelet-client", kubeletClient)
	if err != nil {
		return nil, err
	}
	self, err := netip.ParseAddrPort(c.address.String())
	if err != nil {
		return nil, err
	}
	proxy, err := nodeproxy.New(nodeproxy.Config{
		Nodes: nodeproxy.NodesFunc(func(ctx context.Context, name string) (*corev1.Node, error) {
			if node, ok := c.copies.nodes.Get(name); ok {
				return node, nil
			}
			return nodes.Get(ctx, "", name)
		}),
		TLS:         &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, RootCAs: c.credentials.authority.Pool()},
		MayDialNode: mayBeNode(hostAddress(c.podNetwork)),
		Self:        []netip.AddrPort{self},
		Log:         c.log.WithName("nodeproxy"),
	})
	if err != nil {
		return nil, err
	}
	c.stack.closing("connections to nodes", func() error { proxy.Close(); return nil })
	return kube.Connect(resources, kube.Connections{
		Log: proxy.Log, Exec: proxy.Exec, Attach: proxy.Attach, PortForward: proxy.PortForward,
		PodProxy: proxy.PodProxy, NodeProxy: proxy.NodeProxy,
	}), nil
}

// mayBeNode refuses addresses that no node has. The loopback address is one only on
// a machine that has no other, for the kubelets that listen at host.
func mayBeNode(host string) func(netip.Addr) error {
	return func(address netip.Addr) error {
		if address.IsGlobalUnicast() || address.String() == host {
			return nil
		}
		return errors.New("address not allowed")
	}
}

// nodeServer is the kubelet's server in the making.
type nodeServer struct {
	config server.Config
	host   string
}

// newNodeServer returns the server of the node called name. It believes client
// certificates of the cluster's authority and asks the cluster's authorizer.
func (c *cluster) newNodeServer(name string, addresses []corev1.NodeAddress) (nodeServer, error) {
	host := addresses[0].Address
	pair, err := c.credentials.authority.Kubelet(name, host)
	if err != nil {
		return nodeServer{}, err
	}
	certificates, err := x509.New(x509.Config{Roots: c.credentials.authority.Pool()})
	if err != nil {
		return nodeServer{}, err
	}
	return nodeServer{host: host, config: server.Config{
		NodeName: name,
		TLS:      &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientCAs: c.credentials.authority.Pool()},
		Authenticate: func(r *http.Request) (string, []string, error) {
			u, known, err := certificates.Authenticate(r)
			if err != nil || !known {
				return "", nil, err
			}
			return u.Name, u.Groups, nil
		},
		Authorize: func(ctx context.Context, who string, groups []string, verb, subresource string) (bool, error) {
			decision, _, err := c.judgeAtNodes(who).Authorize(ctx, authz.Attributes{
				User: &user.Info{Name: who, Groups: append(groups, user.Authenticated)},
				Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: name,
			})
			return decision == authz.Allow, err
		},
		Log: c.log.WithName("kubelet-server").WithValues("node", name),
	}}, nil
}

// judgeAtNodes returns the authorizer of who at the kubelets. The API server itself is
// judged by its role, whatever judges users: policies of theirs need not know of it.
func (c *cluster) judgeAtNodes(who string) authz.Authorizer {
	if who == kubeletClient {
		return c.roles
	}
	return c.authorizer
}

// start serves on a free port, which it returns: all nodes share the machine.
func (n *nodeServer) start(s *stack, k kubelet.Config, pods localcache.Reader[*corev1.Pod], runtime server.Runtime) (int32, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(n.host, "0"))
	if err != nil {
		return 0, err
	}
	n.config.Listener, n.config.LogRoot, n.config.Pods, n.config.Runtime = listener, k.LogRoot, pods, runtime
	serve, err := server.New(n.config)
	if err != nil {
		return 0, errors.Join(err, listener.Close())
	}
	s.start("kubelet's server", serve.Run)
	return int32(listener.Addr().(*net.TCPAddr).Port), nil
}
