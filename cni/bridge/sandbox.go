//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// sandbox is an open network namespace.
type sandbox struct {
	fd     netns.NsHandle
	handle *netlink.Handle
}

// open opens the namespace at path; the error is fs.ErrNotExist if there is none. An unmounted
// namespace leaves an empty file, which counts as none.
func open(path string) (*sandbox, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Type != unix.NSFS_MAGIC && st.Type != unix.PROC_SUPER_MAGIC {
		return nil, fmt.Errorf("%s is not a network namespace: %w", path, fs.ErrNotExist)
	}
	fd, err := netns.GetFromPath(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	handle, err := netlink.NewHandleAt(fd, unix.NETLINK_ROUTE)
	if err != nil {
		fd.Close()
		return nil, fmt.Errorf("enter %s: %w", path, err)
	}
	return &sandbox{fd: fd, handle: handle}, nil
}

func (s *sandbox) close() {
	s.handle.Close()
	s.fd.Close()
}

// unplug removes an interface from a namespace, if both exist. The host's end is removed with it.
func unplug(path, ifName string) error {
	if path == "" {
		return nil
	}
	ns, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.close()
	link, err := ns.handle.LinkByName(ifName)
	if err == nil {
		err = ns.handle.LinkDel(link)
	}
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// inside configures the container's end.
func (c *Conf) inside(ctx context.Context, ns *sandbox, ifName string, result *cni.Result) error {
	link, err := ns.handle.LinkByName(ifName)
	if err != nil || c.DisableContainerInterface {
		return err
	}
	// Setting the interface up then announces the new owner of the address to neighbours, which may
	// have cached another.
	if err := ns.sysctl(filepath.Join("ipv4/conf", ifName, "arp_notify"), "1"); err != nil {
		return err
	}
	if c.EnableDAD {
		for _, name := range []string{"enhanced_dad", "accept_dad"} {
			if err := ns.sysctl(filepath.Join("ipv6/conf", ifName, name), "1"); err != nil {
				return fmt.Errorf("enabledad: %w", err)
			}
		}
	}
	for _, ip := range result.IPs {
		a := addr(ip.Address)
		if c.EnableDAD {
			a.Flags = 0
		}
		if err := ns.handle.AddrAdd(link, a); err != nil {
			return fmt.Errorf("add %v to %s: %w", ip.Address, ifName, err)
		}
	}
	if err := ns.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", ifName, err)
	}
	if c.EnableDAD {
		if err := ns.waitForDAD(ctx, link); err != nil {
			return err
		}
	}
	if c.AddressSpoofChk {
		if err := c.fixGateways(ns, link, result); err != nil {
			return err
		}
	}
	for _, r := range result.Routes {
		if err := ns.handle.RouteAdd(route(link, r, result.IPs)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add route to %v: %w", r.Dst, err)
		}
	}
	return nil
}

// Detection takes 1 to 2 s by the kernel's defaults.
const (
	dadTimeout = 10 * time.Second
	dadPoll    = 50 * time.Millisecond
)

// waitForDAD waits until no IPv6 address of the link is tentative, and fails if one is a duplicate.
func (s *sandbox) waitForDAD(ctx context.Context, link netlink.Link) error {
	ctx, cancel := context.WithTimeout(ctx, dadTimeout)
	defer cancel()
	for {
		all, err := dump(func() ([]netlink.Addr, error) { return s.handle.AddrList(link, netlink.FAMILY_V6) })
		if err != nil {
			return err
		}
		tentative := false
		for _, a := range all {
			if a.Flags&unix.IFA_F_DADFAILED != 0 {
				return cni.Errorf(cni.CodePlugin, "address %v is in use by another", a.IPNet)
			}
			tentative = tentative || a.Flags&unix.IFA_F_TENTATIVE != 0
		}
		if !tentative {
			return nil
		}
		select {
		case <-ctx.Done():
			return cni.Errorf(cni.CodePlugin, "the addresses of %s are still tentative: %v", link.Attrs().Name, context.Cause(ctx))
		case <-time.After(dadPoll):
		}
	}
}

// route sets the gateway of a route without one.
func route(link netlink.Link, r cni.Route, ips []cni.IP) *netlink.Route {
	gw := r.GW
	for _, ip := range ips {
		if !gw.IsValid() && ip.Gateway.Is4() == r.Dst.Addr().Is4() {
			gw = ip.Gateway
		}
	}
	route := &netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: ipNet(r.Dst.Masked()),
		MTU: r.MTU, AdvMSS: r.AdvMSS, Priority: r.Priority,
	}
	if gw.IsValid() {
		route.Gw = gw.AsSlice()
	}
	if r.Table != nil {
		route.Table = *r.Table
	}
	if r.Scope != nil {
		route.Scope = netlink.Scope(*r.Scope)
	}
	return route
}

// sysctl writes a file of /proc/sys/net within the namespace.
func (s *sandbox) sysctl(name, value string) error {
	done := make(chan error, 1) // room for the one answer
	go func() {
		// The thread changes its namespace and must not be used for anything else: when a goroutine
		// ends while locked, its thread ends too.
		runtime.LockOSThread()
		if err := netns.Set(s.fd); err != nil {
			done <- fmt.Errorf("enter the namespace: %w", err)
			return
		}
		done <- os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644)
	}()
	return <-done
}

// has reports whether a link has an address.
func has(h *netlink.Handle, link netlink.Link, p netip.Prefix) (bool, error) {
	all, err := dump(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return false, err
	}
	want := addr(p)
	for _, a := range all {
		if a.IPNet.String() == want.IPNet.String() {
			return true, nil
		}
	}
	return false, nil
}
