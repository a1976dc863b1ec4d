package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/localcache"
)

// routeRetry is how soon routes are set again after an error, and routeProtocol the number of the routes.
const (
	routeRetry    = time.Second
	routeProtocol = 113
)

// chooseRoutes finds out which ranges of services may lead to machines.
func (f *Fleet) chooseRoutes() error {
	others, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("routes of this machine: %w", err)
	}
	for _, services := range f.config.Services {
		if !services.Addr().Is4() {
			continue
		}
		at := slices.IndexFunc(others, func(route netlink.Route) bool {
			to, via := prefixOf(route)
			return to.Bits() > 0 && to.Overlaps(services) && !(route.Protocol == routeProtocol && f.config.Network.Contains(via))
		})
		if at < 0 {
			f.routed = append(f.routed, services)
			continue
		}
		f.config.Log.Info("addresses of services do not lead to nodes from this machine, which has another route", "services", services, "route", others[at].String())
	}
	return nil
}

// followRoutes keeps routes to pods and services until ctx is done: webhooks and API servers in pods are reached from here.
func (f *Fleet) followRoutes(ctx context.Context, all localcache.ListSubscriber[*corev1.Node]) error {
	changed := make(chan struct{}, 1) // one pending look is enough
	defer all.Subscribe(func(_, _ *corev1.Node) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}).Stop()
	var retry <-chan time.Time
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
		retry = nil
		err := setRoutes(f.routesTo(all), f.config.Network)
		if err != nil {
			retry = time.After(routeRetry)
			if err.Error() != said {
				f.config.Log.Error(err, "routes to pods are not set")
			}
			said = err.Error()
		}
	}
}

// routesTo returns the gateways to the ranges of pods, and to those of services: the ready machine with the lowest address.
func (f *Fleet) routesTo(all localcache.Lister[*corev1.Node]) map[netip.Prefix]netip.Addr {
	routes := map[netip.Prefix]netip.Addr{}
	var door netip.Addr
	for node := range all.All() {
		own, err := netip.ParsePrefix(node.Spec.PodCIDR)
		if err != nil || !f.config.Pods.Contains(own.Addr()) {
			continue
		}
		for _, address := range node.Status.Addresses {
			ip, err := netip.ParseAddr(address.Address)
			if err != nil || address.Type != corev1.NodeInternalIP || !f.config.Network.Contains(ip) {
				continue
			}
			routes[own.Masked()] = ip
			if isReady(node) && (!door.IsValid() || ip.Less(door)) {
				door = ip
			}
		}
	}
	if door.IsValid() {
		for _, services := range f.routed {
			routes[services] = door
		}
	}
	return routes
}

// isReady reports whether a node says that it is ready.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// prefixOf returns where a route leads, and by which gateway. A default route leads to 0.0.0.0/0.
func prefixOf(route netlink.Route) (to netip.Prefix, via netip.Addr) {
	via, _ = netip.AddrFromSlice(route.Gw.To4())
	if route.Dst == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0), via
	}
	address, _ := netip.AddrFromSlice(route.Dst.IP.To4())
	bits, _ := route.Dst.Mask.Size()
	return netip.PrefixFrom(address, bits), via
}

// setRoutes sets routes that are missing or wrong, and removes those of nodes that are gone. Routes by gateways
// that are no machines are of other clusters.
func setRoutes(want map[netip.Prefix]netip.Addr, machines netip.Prefix) error {
	have, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return err
	}
	var failed error
	for _, route := range have {
		to, via := prefixOf(route)
		if _, wanted := want[to]; machines.Contains(via) && to.Bits() > 0 && !wanted {
			if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				failed = errors.Join(failed, err)
			}
		}
	}
	for to, via := range want {
		failed = errors.Join(failed, netlink.RouteReplace(&netlink.Route{
			Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())},
			Gw:  via.AsSlice(), Protocol: routeProtocol,
		}))
	}
	return failed
}
