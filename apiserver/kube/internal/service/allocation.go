package service

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/internal/invalid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A pool has the names that a service may take.
type pool struct {
	apiserver.Values
	held []string // the names that the service has
}

// take takes a name for one service alone and reports whether it was free.
func (p pool) take(name string) (bool, error) {
	if slices.Contains(p.held, name) {
		return true, nil
	}
	return p.Take(name)
}

var (
	errAllocated     = errors.New("provided IP is already allocated")
	errPortAllocated = errors.New("provided port is already allocated")
	errElsewhere     = errors.New("the provided network does not match the current range")
	errFull          = errors.New("range is full")
)

func (c Config) serviceAllocation() *apiserver.Allocation {
	c = c.withDefaults()
	return &apiserver.Allocation{
		Names: func(obj runtime.Object) []string { return serviceHoldings(obj.(*corev1.Service)) },
		Fill: func(obj, old runtime.Object, values apiserver.Values) error {
			s := obj.(*corev1.Service)
			was := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}
			if old != nil {
				was = old.(*corev1.Service)
			}
			return c.allocate(s, was, pool{values, serviceHoldings(was)})
		},
		Shown: shownAddresses(),
	}
}

const ipPrefix = "ip/"

func ipName(ip string) string {
	if addr, ok := check.ParseIP(ip); ok {
		ip = addr.String()
	}
	return ipPrefix + ip
}

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

func (c Config) allocate(s, old *corev1.Service, p pool) error {
	if hasClusterIP(s) {
		if err := c.families(s, old); err != nil {
			return err
		}
	}
	if hasClusterIP(s) && (len(s.Spec.ClusterIPs) == 0 || s.Spec.ClusterIPs[0] != corev1.ClusterIPNone) {
		if err := c.addresses(s, p); err != nil {
			return err
		}
	}
	if hasNodePorts(s) {
		if err := c.ports(s, old, p); err != nil {
			return err
		}
	}
	if !hasHealthCheck(s) {
		return nil
	}
	return c.healthPort(s, p)
}

// addresses gives the service an address of each of its families.
func (c Config) addresses(s *corev1.Service, p pool) error {
	spec := &s.Spec
	at := field.NewPath("spec", "clusterIPs")
	for i, family := range spec.IPFamilies {
		if i < len(spec.ClusterIPs) {
			wanted := spec.ClusterIPs[i]
			if err := c.takeAddress(family, wanted, p); err != nil {
				return invalidService(s, field.Invalid(at, spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", wanted, err)))
			}
			continue
		}
		ip, err := c.freeAddress(family, p)
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

// takeAddress takes an address of a family, unless the service has it already.
func (c Config) takeAddress(family corev1.IPFamily, wanted string, p pool) error {
	name := ipName(wanted)
	if slices.Contains(p.held, name) {
		return nil
	}
	ip, ok := check.ParseIP(wanted)
	if !ok {
		return errElsewhere
	}
	ranges, err := c.ranges(p, family)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return isHost(r, ip) }) {
		return errElsewhere
	}
	free, err := p.take(name)
	if err == nil && !free {
		err = errAllocated
	}
	return err
}

// freeAddress takes a free address of a family at random. It asks for every change of the addresses
// only if it knows of no free one.
func (c Config) freeAddress(family corev1.IPFamily, p pool) (netip.Addr, error) {
	ranges, err := c.ranges(p, family)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, now := range []bool{false, true} {
		taken, err := p.Taken(now)
		if err != nil {
			return netip.Addr{}, err
		}
		ip, err := search(ranges, taken, p)
		if !errors.Is(err, errFull) {
			return ip, err
		}
	}
	return netip.Addr{}, errFull
}

// search takes an address that is not known to be taken, from the first range that has one. It leaves
// the low end of a range, while there are others, to services that request an address.
func search(ranges []netip.Prefix, taken func(name string) bool, p pool) (netip.Addr, error) {
	for _, r := range ranges {
		first, n, low := hosts(r)
		for at := range searchOrder(n, low) {
			ip := plus(first, at)
			name := ipPrefix + ip.String()
			if taken(name) {
				continue
			}
			free, err := p.take(name)
			if err != nil || free {
				return ip, err
			}
		}
	}
	return netip.Addr{}, errFull
}

// ports gives each port of the service a node port. Ports of the same number and different
// protocols share one.
func (c Config) ports(s, old *corev1.Service, p pool) error {
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
		if err := c.takePort(port.NodePort, p); err != nil {
			return invalidService(s, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, err.Error()))
		}
	}
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		if port.NodePort != 0 || !needed {
			continue
		}
		if shared[port.Port] == 0 {
			n, err := c.freePort(s, p)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			shared[port.Port] = n
		}
		port.NodePort = shared[port.Port]
	}
	return nil
}

func (c Config) takePort(port int32, p pool) error {
	if port < c.NodePorts.First || port > c.NodePorts.Last {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", c.NodePorts.First, c.NodePorts.Last)
	}
	free, err := p.take(portName(port))
	if err == nil && !free {
		err = errPortAllocated
	}
	return err
}

// freePort takes a port that the service does not use yet.
func (c Config) freePort(s *corev1.Service, p pool) (int32, error) {
	used := append(nodePorts(s), s.Spec.HealthCheckNodePort)
	n := uint64(c.NodePorts.Last-c.NodePorts.First) + 1
	for at := range searchOrder(n, min(n/32, 86)) {
		port := c.NodePorts.First + int32(at)
		if slices.Contains(used, port) {
			continue
		}
		free, err := p.take(portName(port))
		if err != nil || free {
			return port, err
		}
	}
	return 0, errFull
}

func (c Config) healthPort(s *corev1.Service, p pool) error {
	if port := s.Spec.HealthCheckNodePort; port != 0 {
		if err := c.takePort(port, p); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", port, err))
		}
		return nil
	}
	port, err := c.freePort(s, p)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", port, err))
	}
	s.Spec.HealthCheckNodePort = port
	return nil
}

func invalidService(s *corev1.Service, errs ...*field.Error) error {
	return invalid.Object(schema.GroupKind{Kind: "Service"}, s.Name, errs)
}
