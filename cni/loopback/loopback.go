//go:build linux

// Package loopback is the CNI plugin "loopback": it sets the interface lo of a
// container up. Runtimes call it themselves, beside the network's plugins.
//
// A result of plugins before it is passed on as it is. DEL does nothing: the
// interface ends with its namespace.
package loopback

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Plugin returns the plugin.
func Plugin() skel.Plugin { return skel.Plugin{Name: "loopback", Add: add, Check: check} }

// lo calls f with the interface of the request's namespace.
func lo(r *skel.Request, f func(*netlink.Handle, netlink.Link) error) error {
	fd, err := netns.GetFromPath(r.NetNS)
	if err != nil {
		return fmt.Errorf("open %s: %w", r.NetNS, err)
	}
	defer fd.Close()
	h, err := netlink.NewHandleAt(fd, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("enter %s: %w", r.NetNS, err)
	}
	defer h.Close()
	link, err := h.LinkByName("lo")
	if err != nil {
		return err
	}
	return f(h, link)
}

func add(_ context.Context, r *skel.Request) (*cni.Result, error) {
	result := &cni.Result{Interfaces: []cni.Interface{{Name: "lo", Mac: "00:00:00:00:00:00", Sandbox: r.NetNS}}}
	err := lo(r, func(h *netlink.Handle, link netlink.Link) error {
		if err := h.LinkSetUp(link); err != nil {
			return err
		}
		addrs, err := h.AddrList(link, netlink.FAMILY_ALL)
		zero := 0
		for _, a := range addrs {
			addr, _ := netip.AddrFromSlice(a.IP)
			ones, _ := a.Mask.Size()
			result.IPs = append(result.IPs, cni.IP{Interface: &zero, Address: netip.PrefixFrom(addr.Unmap(), ones)})
		}
		return err
	})
	if r.Previous != nil {
		result = r.Previous
	}
	return result, err
}

func check(_ context.Context, r *skel.Request) error {
	return lo(r, func(_ *netlink.Handle, link netlink.Link) error {
		if link.Attrs().Flags&net.FlagUp == 0 {
			return cni.Errorf(cni.CodePlugin, "lo is down")
		}
		return nil
	})
}
