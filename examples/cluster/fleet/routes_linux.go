package fleet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
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

// followRoutes keeps routes to the pods of machines until ctx is done: webhooks and API servers in pods are reached
// from here.
func followRoutes(ctx context.Context, all localcache.ListSubscriber[*corev1.Node], machines, pods netip.Prefix, log logr.Logger) error {
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
		err := setRoutes(routesTo(all, machines, pods), machines)
		if err != nil {
			retry = time.After(routeRetry)
			if err.Error() != said {
				log.Error(err, "routes to pods are not set")
			}
			said = err.Error()
		}
	}
}

// routesTo returns the gateways to the ranges of pods.
func routesTo(all localcache.Lister[*corev1.Node], machines, pods netip.Prefix) map[netip.Prefix]netip.Addr {
	routes := map[netip.Prefix]netip.Addr{}
	for node := range all.All() {
		own, err := netip.ParsePrefix(node.Spec.PodCIDR)
		if err != nil || !pods.Contains(own.Addr()) {
			continue
		}
		for _, address := range node.Status.Addresses {
			ip, err := netip.ParseAddr(address.Address)
			if err == nil && address.Type == corev1.NodeInternalIP && machines.Contains(ip) {
				routes[own.Masked()] = ip
			}
		}
	}
	return routes
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
		via, ok := netip.AddrFromSlice(route.Gw.To4())
		if route.Dst == nil || !ok || !machines.Contains(via) {
			continue
		}
		to, ok := netip.AddrFromSlice(route.Dst.IP.To4())
		bits, _ := route.Dst.Mask.Size()
		if _, wanted := want[netip.PrefixFrom(to, bits)]; ok && !wanted {
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
