package aggregate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Resolver returns the URL of a port of a service, such as https://10.0.0.7:8443. It is called
// for every request and must be safe for concurrent use.
type Resolver interface {
	Resolve(ctx context.Context, namespace, name string, port int32) (*url.URL, error)
}

// ResolverFunc is a function that is a [Resolver].
type ResolverFunc func(ctx context.Context, namespace, name string, port int32) (*url.URL, error)

// Resolve calls f.
func (f ResolverFunc) Resolve(ctx context.Context, namespace, name string, port int32) (*url.URL, error) {
	return f(ctx, namespace, name, port)
}

// ByClusterIP finds a service at its cluster IP, or where the name of an
// ExternalName service leads. Something must forward from cluster IPs on the
// machine of this server.
func ByClusterIP(services localcache.Getter[*corev1.Service]) Resolver {
	return ResolverFunc(func(_ context.Context, namespace, name string, port int32) (*url.URL, error) {
		s, external, err := find(services, namespace, name, port)
		if err != nil || external != nil {
			return external, err
		}
		if s.Spec.ClusterIP == corev1.ClusterIPNone || s.Spec.ClusterIP == "" {
			return nil, fmt.Errorf(`unsupported service type %q with ClusterIP %q`, s.Spec.Type, s.Spec.ClusterIP)
		}
		if portOf(s, port) == nil {
			return nil, noPort(s, port)
		}
		return at(s.Spec.ClusterIP, port), nil
	})
}

// ByEndpoints finds a service at one of its ready endpoints, any of them, or
// where the name of an ExternalName service leads.
func ByEndpoints(services localcache.Getter[*corev1.Service], endpoints localcache.Index[string, *discoveryv1.EndpointSlice]) Resolver {
	return ResolverFunc(func(_ context.Context, namespace, name string, port int32) (*url.URL, error) {
		s, external, err := find(services, namespace, name, port)
		if err != nil || external != nil {
			return external, err
		}
		p := portOf(s, port)
		if p == nil {
			return nil, noPort(s, port)
		}
		var found *url.URL
		seen := 0
		for slice := range endpoints.Get(namespace + "/" + name) {
			number := numberOf(slice, p.Name)
			if number == 0 {
				continue
			}
			for _, e := range slice.Endpoints {
				if !usable(e) {
					continue
				}
				// Each of them is the one with the same probability.
				if seen++; rand.IntN(seen) == 0 {
					found = at(e.Addresses[0], number)
				}
			}
		}
		if found == nil {
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
		}
		return found, nil
	})
}

// find returns the service, and where it is if it is but another name.
func find(services localcache.Getter[*corev1.Service], namespace, name string, port int32) (*corev1.Service, *url.URL, error) {
	s, ok := services.Get(namespace + "/" + name)
	if !ok {
		return nil, nil, apierrors.NewNotFound(corev1.Resource("services"), name)
	}
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		return s, nil, nil
	}
	if s.Spec.ExternalName == "" {
		return nil, nil, errors.New("the service has no external name")
	}
	return s, at(s.Spec.ExternalName, port), nil
}

func portOf(s *corev1.Service, number int32) *corev1.ServicePort {
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.Port == number {
			return p
		}
	}
	return nil
}

func noPort(s *corev1.Service, port int32) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, s.Name))
}

// numberOf is the number of a slice's port, zero if it has none of that name.
func numberOf(s *discoveryv1.EndpointSlice, name string) int32 {
	for _, p := range s.Ports {
		have := ""
		if p.Name != nil {
			have = *p.Name
		}
		if have == name && p.Port != nil {
			return *p.Port
		}
	}
	return 0
}

// usable reports an endpoint that is ready; one that does not say is.
func usable(e discoveryv1.Endpoint) bool {
	return len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready)
}

func at(host string, port int32) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}
}
