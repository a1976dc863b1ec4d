package podnetwork

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/localcache"
)

const (
	// Domain is the domain of the cluster's names.
	Domain = "cluster.local"
	// DNSPort is where the DNS servers of nodes listen, so that a resolver of the machine may have port 53.
	DNSPort = 10053
	// dnsService is the Service of these servers, in kube-system, and dnsSlice the slice with their addresses.
	dnsService, dnsSlice = "kube-dns", "kube-dns-nodes"
	// dnsRetry is when a write that failed is tried again.
	dnsRetry = time.Second
)

// DNSAddress returns the address of the cluster's DNS: the tenth of the first range of services. It is invalid if the
// range is too small.
func DNSAddress(services []netip.Prefix) netip.Addr {
	if len(services) == 0 {
		return netip.Addr{}
	}
	a := services[0].Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	if !services[0].Contains(a) {
		return netip.Addr{}
	}
	return a
}

// A NodeCache has the nodes of the cluster.
type NodeCache interface {
	localcache.Lister[*corev1.Node]
	localcache.Subscriber[*corev1.Node]
}

// KeepDNS keeps the Service kube-system/kube-dns at an address, and its endpoints: the DNS server of each node. A pod is
// sent to that of its own node. A Service that has a selector is left to its pods. KeepDNS returns nil when ctx is done;
// the client must be an administrator's.
func KeepDNS(ctx context.Context, api *client.Client, nodes NodeCache, address netip.Addr, log logr.Logger) error {
	changed := make(chan struct{}, 1) // a token
	defer nodes.Subscribe(func(_, _ *corev1.Node) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}).Stop()
	select {
	case <-nodes.Synced():
	case <-ctx.Done():
		return nil
	}
	var written []discoveryv1.Endpoint
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry.C:
		}
		endpoints := dnsEndpoints(nodes, address.Is6())
		if written != nil && reflect.DeepEqual(endpoints, written) {
			continue
		}
		if err := publishDNS(ctx, api, address, endpoints); err != nil {
			if ctx.Err() == nil {
				log.Error(err, "could not write kube-system/kube-dns")
			}
			retry.Reset(dnsRetry)
			continue
		}
		written = endpoints
	}
}

// dnsEndpoints returns the DNS servers of all nodes. Their readiness is unknown, which counts as ready: a server answers
// also while its node cannot reach the control plane.
func dnsEndpoints(nodes localcache.Lister[*corev1.Node], v6 bool) []discoveryv1.Endpoint {
	endpoints := []discoveryv1.Endpoint{}
	for n := range nodes.All() {
		for _, a := range n.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if a.Type == corev1.NodeInternalIP && err == nil && ip.Is6() == v6 {
				endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{a.Address}, NodeName: &n.Name})
				break
			}
		}
	}
	slices.SortFunc(endpoints, func(a, b discoveryv1.Endpoint) int { return strings.Compare(*a.NodeName, *b.NodeName) })
	return endpoints
}

// publishDNS writes the Service, if there is none, and its endpoints, unless the Service has a selector.
func publishDNS(ctx context.Context, api *client.Client, address netip.Addr, endpoints []discoveryv1.Endpoint) error {
	service, err := typed.Services(api).Get(ctx, metav1.NamespaceSystem, dnsService)
	if apierrors.IsNotFound(err) {
		service, err = typed.Services(api).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: dnsService,
				Labels: map[string]string{"k8s-app": dnsService, "kubernetes.io/cluster-service": "true"},
			},
			Spec: corev1.ServiceSpec{
				ClusterIP: address.String(), InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal),
				Ports: []corev1.ServicePort{
					{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, TargetPort: intstr.FromInt32(DNSPort)},
					{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53, TargetPort: intstr.FromInt32(DNSPort)},
				},
			},
		})
	}
	if err != nil || len(service.Spec.Selector) > 0 {
		return err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: dnsSlice,
			Labels: map[string]string{discoveryv1.LabelServiceName: dnsService, discoveryv1.LabelManagedBy: "planekit"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("dns"), Protocol: new(corev1.ProtocolUDP), Port: new(int32(DNSPort))},
			{Name: new("dns-tcp"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(DNSPort))},
		},
	}
	if address.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	return put(ctx, typed.EndpointSlices(api), slice)
}
