package service

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// taker takes a name for one service alone and reports whether it was free.
type taker func(name string) (bool, error)

var (
	errAllocated     = errors.New("provided IP is already allocated")
	errPortAllocated = errors.New("provided port is already allocated")
	errFull          = errors.New("range is full")
)

// maxAttempts bounds the search for a free value. It is more than the number of ports, and the
// number of addresses that Kubernetes allocates from one range.
const maxAttempts = 1 << 16

func (c Config) serviceAllocation() *apiserver.Allocation {
	c = c.withDefaults()
	return &apiserver.Allocation{
		Names: func(obj runtime.Object) []string { return serviceHoldings(obj.(*corev1.Service)) },
		Fill: func(obj, old runtime.Object, take func(string) (bool, error)) error {
			s := obj.(*corev1.Service)
			was := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}
			if old != nil {
				was = old.(*corev1.Service)
			}
			held := serviceHoldings(was)
			return c.allocate(s, was, func(name string) (bool, error) {
				if slices.Contains(held, name) {
					return true, nil
				}
				return take(name)
			})
		},
	}
}

func ipName(ip string) string { return "ip/" + ip }

func portName(port int32) string { return "port/" + strconv.Itoa(int(port)) }

// serviceHoldings returns the names of what a service has for itself alone. A port has one name for
// all protocols, because a service may use it for several.
func serviceHoldings(s *corev1.Service) []string {
	var out []string
	if hasClusterIP(s) && !headless(s) {
		for _, ip := range s.Spec.ClusterIPs {
			out = append(out, ipName(ip))
		}
	}
	if hasNodePorts(s) {
		for _, port := range nodePorts(s) {
			out = append(out, portName(port))
		}
	}
	if hasHealthCheck(s) && s.Spec.HealthCheckNodePort != 0 {
		out = append(out, portName(s.Spec.HealthCheckNodePort))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (c Config) allocate(s, old *corev1.Service, take taker) error {
	if hasClusterIP(s) {
		if err := c.families(s, old); err != nil {
			return err
		}
	}
	if hasClusterIP(s) && (len(s.Spec.ClusterIPs) == 0 || s.Spec.ClusterIPs[0] != corev1.ClusterIPNone) {
		if err := c.addresses(s, take); err != nil {
			return err
		}
	}
	if hasNodePorts(s) {
		if err := c.ports(s, old, take); err != nil {
			return err
		}
	}
	if !hasHealthCheck(s) {
		return nil
	}
	return c.healthPort(s, take)
}

// addresses gives the service an address of each of its families.
func (c Config) addresses(s *corev1.Service, take taker) error {
	spec := &s.Spec
	at := field.NewPath("spec", "clusterIPs")
	for i, family := range spec.IPFamilies {
		cidr := c.cidr(family)
		if i < len(spec.ClusterIPs) {
			wanted := spec.ClusterIPs[i]
			err := takeAddress(cidr, wanted, take)
			if err != nil {
				return invalidService(s, field.Invalid(at, spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", wanted, err)))
			}
			continue
		}
		ip, err := freeAddress(cidr, take)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", s.Name, err))
		}
		spec.ClusterIPs = append(spec.ClusterIPs, ip.String())
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

func takeAddress(cidr netip.Prefix, wanted string, take taker) error {
	ip, ok := check.ParseIP(wanted)
	if first, n := hosts(cidr); !ok || !cidr.Contains(ip) || ip.Less(first) || !ip.Less(plus(first, n)) {
		return fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", wanted, cidr)
	}
	free, err := take(ipName(ip.String()))
	if err == nil && !free {
		err = errAllocated
	}
	return err
}

// freeAddress takes a free address at random. It leaves the low end of the range, while there are
// others, to services that request an address.
func freeAddress(cidr netip.Prefix, take taker) (netip.Addr, error) {
	first, n := hosts(cidr)
	low := min(max(n/16, min(16, n/2)), 256)
	for i, at := range searchOrder(n, low) {
		if i == maxAttempts {
			break
		}
		ip := plus(first, at)
		free, err := take(ipName(ip.String()))
		if err != nil || free {
			return ip, err
		}
	}
	return netip.Addr{}, errFull
}

// searchOrder yields [low, n) once around from a random place, then [0, low), with the number of
// the attempt.
func searchOrder(n, low uint64) func(yield func(int, uint64) bool) {
	return func(yield func(int, uint64) bool) {
		upper := n - low
		start := uint64(0)
		if upper > 0 {
			start = rand.Uint64N(upper)
		}
		for i := range n {
			at := i - upper
			if i < upper {
				at = low + (start+i)%upper
			}
			if !yield(int(i), at) {
				return
			}
		}
	}
}

// hosts returns the first address of a range that a service can have, and how
// many there are: not the network's own and, with IPv4, not its broadcast
// address. Of large ranges it is the first 2^32.
func hosts(cidr netip.Prefix) (netip.Addr, uint64) {
	bits := min(cidr.Addr().BitLen()-cidr.Bits(), 32)
	n := uint64(1) << bits
	spare := uint64(1)
	if cidr.Addr().Is4() {
		spare = 2
	}
	if n <= spare {
		return cidr.Masked().Addr(), n
	}
	return cidr.Masked().Addr().Next(), n - spare
}

// plus returns the address n after ip. n is less than 2^33.
func plus(ip netip.Addr, n uint64) netip.Addr {
	b := ip.AsSlice()
	for i := len(b) - 1; i >= 0 && n > 0; i-- {
		n += uint64(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	out, _ := netip.AddrFromSlice(b) // as long as the slice of an address
	return out
}

// ports gives each port of the service a node port. Ports of the same number and different
// protocols share one.
func (c Config) ports(s, old *corev1.Service, take taker) error {
	needed := s.Spec.Type == corev1.ServiceTypeNodePort || optional.Deref(s.Spec.AllocateLoadBalancerNodePorts)
	shared := map[int32]int32{}
	if !hasNodePorts(old) {
		for _, port := range s.Spec.Ports {
			if shared[port.Port] == 0 {
				shared[port.Port] = port.NodePort
			}
		}
	}
	for i, port := range s.Spec.Ports { // requested ports first, so that none is given to another
		if port.NodePort == 0 {
			continue
		}
		if err := c.takePort(port.NodePort, take); err != nil {
			return invalidService(s, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, err.Error()))
		}
	}
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		if port.NodePort != 0 || !needed {
			continue
		}
		if shared[port.Port] == 0 {
			n, err := c.freePort(s, take)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			shared[port.Port] = n
		}
		port.NodePort = shared[port.Port]
	}
	return nil
}

func (c Config) takePort(port int32, take taker) error {
	if port < c.NodePorts.First || port > c.NodePorts.Last {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", c.NodePorts.First, c.NodePorts.Last)
	}
	free, err := take(portName(port))
	if err == nil && !free {
		err = errPortAllocated
	}
	return err
}

// freePort takes a port that the service does not use yet.
func (c Config) freePort(s *corev1.Service, take taker) (int32, error) {
	used := append(nodePorts(s), s.Spec.HealthCheckNodePort)
	n := uint64(c.NodePorts.Last-c.NodePorts.First) + 1
	for _, at := range searchOrder(n, min(n/32, 86)) {
		port := c.NodePorts.First + int32(at)
		if slices.Contains(used, port) {
			continue
		}
		free, err := take(portName(port))
		if err != nil || free {
			return port, err
		}
	}
	return 0, errFull
}

func (c Config) healthPort(s *corev1.Service, take taker) error {
	if port := s.Spec.HealthCheckNodePort; port != 0 {
		if err := c.takePort(port, take); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", port, err))
		}
		return nil
	}
	port, err := c.freePort(s, take)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", port, err))
	}
	s.Spec.HealthCheckNodePort = port
	return nil
}

func invalidService(s *corev1.Service, errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, s.Name, errs)
}
