package plane

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/advertise"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/nodeproxy"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/controllerset"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makeServer makes the API server of all that was made before.
func (p *Plane) makeServer() error {
	authenticator, err := p.authenticator()
	if err != nil {
		return err
	}
	resources, err := p.connectNodes(kube.ResourcesFor(kube.Config{ServiceCIDRs: p.config.ServiceCIDRs}))
	if err != nil {
		return err
	}
	if err := p.makeAggregator(); err != nil {
		return err
	}
	resources = append(p.tokens.serve(resources), review.Resources(authenticator, p.Authorizers.Authorizer, p.Issuer())...)
	config := apiserver.Config{
		Store:         p.config.Store,
		Resources:     append(resources, p.config.Resources...),
		Handlers:      p.tokens.handlers,
		Authenticator: authenticator,
		Authorizer:    p.Authorizers.Authorizer,
		Aggregator:    p.Aggregator,
		Listener:      p.listener,
		TLS:           p.Credentials.ServerTLS(!p.config.OmitClientCAs),
		Log:           p.config.Log.WithName("apiserver"),
	}
	p.plugins.Configure(&config)
	if err := p.controlFlow(&config); err != nil {
		return err
	}
	if p.config.Configure != nil {
		if err := p.config.Configure(p, &config); err != nil {
			return err
		}
	}
	p.resources = config.Resources
	p.Server, err = apiserver.New(config)
	return err
}

// authenticator asks for a front proxy, a client certificate and a service account
// token, in kube-apiserver's order, and then those of the program.
func (p *Plane) authenticator() (authn.Authenticator, error) {
	if p.config.NewAuthenticator != nil {
		return p.config.NewAuthenticator(p)
	}
	proxies, err := p.Credentials.FrontProxies()
	if err != nil {
		return nil, err
	}
	certificates, err := p.Credentials.Clients()
	if err != nil {
		return nil, err
	}
	chain := authn.Chain{authn.MeantFor(p.Audiences(), proxies), authn.MeantFor(p.Audiences(), certificates), p.Accounts}
	for _, more := range p.config.Authenticators {
		chain = append(chain, authn.MeantFor(p.Audiences(), more))
	}
	if p.config.BootstrapTokens {
		nodes, err := p.JoiningNodes()
		if err != nil {
			return nil, err
		}
		chain = append(chain, authn.MeantFor(p.Audiences(), nodes))
	}
	if !p.config.NoAnonymous {
		chain = append(chain, anonymous.Authenticator{})
	}
	return chain, nil
}

// JoiningNodes returns the authenticator of bootstrap tokens, with which nodes join.
func (p *Plane) JoiningNodes() (authn.Authenticator, error) {
	return bootstraptoken.New(bootstraptoken.Config{
		Secrets: func(ctx context.Context, namespace, name string) (bootstraptoken.Secret, bool, error) {
			secret, ok := p.Caches.Secrets.Get(namespace + "/" + name)
			if !ok {
				var err error
				secret, err = typed.Secrets(p.client).Get(ctx, namespace, name)
				if apierrors.IsNotFound(err) {
					return bootstraptoken.Secret{}, false, nil
				}
				if err != nil {
					return bootstraptoken.Secret{}, false, err
				}
			}
			return bootstraptoken.Secret{Type: string(secret.Type), Data: secret.Data, Deleted: secret.DeletionTimestamp != nil}, true, nil
		},
	})
}

// makeAggregator passes groups on to other API servers, at the endpoints of their
// services: this machine need not forward to cluster IPs.
func (p *Plane) makeAggregator() (err error) {
	certificate := p.Credentials.FrontClient.Live()
	p.Aggregator, err = aggregate.New(aggregate.Config{
		APIServices:    p.Caches.APIServices,
		Services:       p.Caches.Services,
		EndpointSlices: p.Caches.EndpointSlices,
		Endpoints:      p.Caches.SlicesByService,
		Status:         typed.APIServices(p.client),
		Certificate:    func() (*tls.Certificate, error) { return certificate.Certificate(nil) },
		Log:            p.config.Log.WithName("aggregation"),
	})
	return err
}

// controlFlow sets what bounds the requests of the API server, and makes the keeper of
// the objects that configure it.
func (p *Plane) controlFlow(config *apiserver.Config) error {
	bounds := p.config.FlowControl
	if bounds.Reading == 0 && bounds.Changing == 0 && !bounds.Unbounded {
		bounds.Reading, bounds.Changing = 400, 200 // kube-apiserver's
	}
	seats := bounds.Reading + bounds.Changing
	flow := flowcontrol.Default(seats)
	if bounds.InFlight {
		flow = flowcontrol.InFlight(bounds.Reading, bounds.Changing)
	}
	control, err := flowcontrol.NewController(flow)
	if err != nil {
		return err
	}
	config.FlowControl = control
	config.Handlers[flowcontrol.DebugPath] = control.DebugHandler()
	if bounds.InFlight {
		return nil
	}
	// The objects name the writer that kube-apiserver names.
	api, err := p.ClientFor(p.User(), "api-priority-and-fairness-config-producer-v1")
	if err != nil {
		return err
	}
	p.fairness, err = objects.NewKeeper(objects.KeeperConfig{
		Levels:       p.Caches.PriorityLevels,
		Schemas:      p.Caches.FlowSchemas,
		LevelClient:  typed.PriorityLevelConfigurations(api),
		SchemaClient: typed.FlowSchemas(api),
		Target:       control,
		Seats:        seats,
		Log:          p.config.Log.WithName("fairness"),
	})
	return err
}

// KubeletClient is the user as which the API server connects to kubelets. A binding to
// system:kubelet-api-admin grants it what it needs there, and it has no other permissions.
const KubeletClient = "kube-apiserver-kubelet-client"

// MetricsServer is the user that the metrics server is at the kubelets; see package
// plane/metricsserver.
const MetricsServer = "system:metrics-server"

// NodeDialer returns the function that connects to nodes, nil where that is the machine's network.
func (p *Plane) NodeDialer() func(ctx context.Context, address string) (net.Conn, error) {
	if p.config.Network == nil {
		return nil
	}
	return p.config.Network.Dial
}

// MayDialNode returns the function of the Config that refuses addresses which no node has; it may
// be nil.
func (p *Plane) MayDialNode() func(netip.Addr) error { return p.config.MayDialNode }

// serviceRanges yields the ranges of the addresses of services.
func (p *Plane) serviceRanges(yield func(netip.Prefix) bool) {
	for _, r := range p.config.ServiceCIDRs {
		if !yield(r) {
			return
		}
	}
	for object := range p.Caches.ServiceCIDRs.All() {
		for _, text := range object.Spec.CIDRs {
			if r, err := netip.ParsePrefix(text); err == nil && !yield(r) {
				return
			}
		}
	}
}

// mayDialPod refuses addresses that no pod has. One of a service could lead to the API server itself.
func (p *Plane) mayDialPod(address netip.Addr) error {
	for r := range p.serviceRanges {
		if r.Contains(address) {
			return errServiceAddress
		}
	}
	return nodeproxy.Routable(address)
}

var errServiceAddress = errors.New("address not allowed: it is one of services")

// nodeNames returns what the serving certificates of nodes cannot name: the API server and services.
func (p *Plane) nodeNames() controllerset.NodeNames {
	own := p.Credentials.Serving.Certificate
	names := controllerset.NodeNames{Names: own.DNSNames, Shared: p.config.SharedAddress, Services: p.serviceRanges}
	for _, ip := range own.IPAddresses {
		if address, ok := netip.AddrFromSlice(ip); ok {
			names.Addresses = append(names.Addresses, address.Unmap())
		}
	}
	if p.config.Advertise.IsValid() {
		names.Addresses = append(names.Addresses, p.config.Advertise.Addr().Unmap())
	}
	return names
}

// policy is the policy that RBAC begins with. Without a node authorizer nodes have
// what their role says. The API server may do everything at the kubelets.
func (p *Plane) policy() rbac.Policy {
	policy := rbac.Bootstrap{ControllersAsOne: true, NodesByRole: !p.config.nodesByMode()}.Policy()
	policy.ClusterRoleBindings = append(policy.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: KubeletClient, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: KubeletClient}},
	})
	grant(&policy, controllerset.ServingApproverAccount, []rbacv1.PolicyRule{
		{Verbs: []string{"update"}, APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests/approval"}},
		{Verbs: []string{"approve"}, APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"signers"}, ResourceNames: []string{certificatesv1.KubeletServingSignerName}},
	})
	grant(&policy, controllerset.AddressRepairAccount, []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"services"}},
		{Verbs: []string{"create", "delete"}, APIGroups: []string{networkingv1.GroupName}, Resources: []string{"ipaddresses"}},
		{Verbs: []string{"create", "patch", "update"}, APIGroups: []string{"", eventsv1.GroupName}, Resources: []string{"events"}},
	})
	return policy
}

// grant adds rules for a controller that kube-controller-manager does not have.
func grant(policy *rbac.Policy, account string, rules []rbacv1.PolicyRule) {
	meta := metav1.ObjectMeta{Name: "planekit:" + account, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}}
	policy.ClusterRoles = append(policy.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
	policy.ClusterRoleBindings = append(policy.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
		ObjectMeta: *meta.DeepCopy(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: account}},
	})
}

// ownAddresses returns where the API server can be reached: where it listens, as it is advertised, and at
// the address of the Service default/kubernetes.
func (p *Plane) ownAddresses() []netip.AddrPort {
	var own []netip.AddrPort
	if address, err := netip.ParseAddrPort(p.listener.Addr().String()); err == nil {
		own = append(own, address)
	}
	if p.config.Advertise.IsValid() {
		own = append(own, p.config.Advertise)
	}
	for _, services := range p.config.ServiceCIDRs {
		own = append(own, netip.AddrPortFrom(advertise.ServiceIP(services), advertise.ServicePort))
	}
	return own
}

// connectNodes adds to resources what leads to the kubelets: logs, exec and their
// like. The API server shows them a certificate of its own.
func (p *Plane) connectNodes(resources []apiserver.Resource) ([]apiserver.Resource, error) {
	pair, err := p.Credentials.Authority.Client("apiserver-kubelet-client", KubeletClient)
	if err != nil {
		return nil, err
	}
	nodes := typed.Nodes(p.client)
	proxy, err := nodeproxy.New(nodeproxy.Config{
		Nodes: nodeproxy.NodesFunc(func(ctx context.Context, name string) (*corev1.Node, error) {
			if node, ok := p.Caches.Nodes.Get(name); ok {
				return node, nil
			}
			return nodes.Get(ctx, "", name)
		}),
		Slices:      p.Caches.SlicesByService,
		Pods:        p.Caches.Pods,
		TLS:         p.Credentials.KubeletTLS(pair),
		MayDial:     p.mayDialPod,
		MayDialNode: p.config.MayDialNode,
		ConnectNode: p.NodeDialer(),
		Self:        p.ownAddresses(),
		Log:         p.config.Log.WithName("nodeproxy"),
	})
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, closer{"connections to nodes", func() error { proxy.Close(); return nil }})
	return kube.Connect(resources, kube.Connections{
		Log: proxy.Log, Exec: proxy.Exec, Attach: proxy.Attach, PortForward: proxy.PortForward,
		PodProxy: proxy.PodProxy, NodeProxy: proxy.NodeProxy, ServiceProxy: proxy.ServiceProxy,
	}), nil
}
