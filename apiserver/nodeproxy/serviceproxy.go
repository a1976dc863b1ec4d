package nodeproxy

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// ServiceProxy leads to a port of one of the pods that are ready behind a service, chosen at random. The port is
// named by the name or the number of a port of the service, and by nothing if the service has one port without a
// name. parent is a *corev1.Service.
func (p *Proxy) ServiceProxy(parent runtime.Object) (http.Handler, error) {
	service := parent.(*corev1.Service)
	if p.config.Slices == nil || p.config.Pods == nil {
		return nil, apierrors.NewServiceUnavailable("this server does not look for the pods of services")
	}
	return handler(func(w http.ResponseWriter, r *http.Request) error {
		target, err := parseTarget(r.URL.Path, "services")
		if err != nil || target.endWithSlash(w, r) {
			return err
		}
		port, err := portName(service, target.port)
		if err != nil {
			return err
		}
		to, node, err := p.endpoint(service, port)
		if err != nil {
			return err
		}
		address := &url.URL{Scheme: "http", Host: to, Path: target.path, RawQuery: r.URL.RawQuery}
		if target.scheme != "" {
			address.Scheme = target.scheme
		}
		return p.forward(w, r, backend{url: address, by: p.pods, node: node, prefix: target.prefix(r)})
	}), nil
}

// portName returns the name of the port of a service that text, a name or a number, means.
func portName(service *corev1.Service, text string) (string, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return text, nil //nolint:nilerr // it is a name
	}
	for i := range service.Spec.Ports {
		if one := &service.Spec.Ports[i]; int64(one.Port) == number {
			return one.Name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, service.Name))
}

// endpoint returns the address "host:port" of a pod that is ready behind a port of a service, and its node.
//
// A user who may write EndpointSlices may write any address into them. An address is used only if it is that of
// the pod that the slice names, as in Kubernetes.
func (p *Proxy) endpoint(service *corev1.Service, port string) (address, node string, err error) {
	type candidate struct {
		*discoveryv1.Endpoint
		port int32
	}
	var candidates []candidate
	for slice := range p.config.Slices.Get(service.Namespace + "/" + service.Name) {
		number, ok := portOf(slice, port)
		if !ok || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for i := range slice.Endpoints {
			if e := &slice.Endpoints[i]; e.Conditions.Ready == nil || *e.Conditions.Ready {
				candidates = append(candidates, candidate{e, number})
			}
		}
	}
	rand.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	for _, c := range candidates {
		ref := c.TargetRef
		if ref == nil || ref.Kind != "Pod" || ref.Namespace != service.Namespace || len(c.Addresses) == 0 {
			continue
		}
		if pod, ok := p.config.Pods.Get(ref.Namespace + "/" + ref.Name); ok && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == c.Addresses[0] }) {
			return net.JoinHostPort(c.Addresses[0], strconv.Itoa(int(c.port))), pod.Spec.NodeName, nil
		}
	}
	return "", "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
}

// portOf returns the number of the TCP port of a slice with a name.
func portOf(slice *discoveryv1.EndpointSlice, name string) (int32, bool) {
	for i := range slice.Ports {
		one := &slice.Ports[i]
		tcp := one.Protocol == nil || *one.Protocol == corev1.ProtocolTCP
		if tcp && one.Port != nil && (one.Name != nil && *one.Name == name || one.Name == nil && name == "") {
			return *one.Port, true
		}
	}
	return 0, false
}
