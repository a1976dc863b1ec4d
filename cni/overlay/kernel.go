//go:build linux

package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// kernel reads and changes the network of one namespace. One goroutine uses it.
type kernel struct {
	c      *Config
	ns     netns.NsHandle // none for that of the process
	handle *netlink.Handle
	tunnel *tunnel // of the UDP backend, else nil
}

func openKernel(c *Config) (*kernel, error) {
	k := &kernel{c: c, ns: netns.None()}
	var err error
	if c.NetNS != "" {
		if k.ns, err = netns.GetFromPath(c.NetNS); err != nil {
			return nil, fmt.Errorf("NetNS: %s: %w", c.NetNS, err)
		}
		k.handle, err = netlink.NewHandleAt(k.ns, unix.NETLINK_ROUTE)
	} else {
		k.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
	}
	if err != nil {
		k.close()
		return nil, fmt.Errorf("netlink: %w", err)
	}
	return k, nil
}

func (k *kernel) close() {
	if k.handle != nil {
		k.handle.Close()
	}
	if k.ns.IsOpen() {
		k.ns.Close()
	}
}

// inside runs f on a thread in the namespace. Sockets that f makes stay there.
func (k *kernel) inside(f func() error) error {
	if !k.ns.IsOpen() {
		return f()
	}
	done := make(chan error, 1) // room for the one answer
	go func() {
		// The thread changes its namespace and must not be used for anything else: when a goroutine
		// ends while locked, its thread ends too.
		runtime.LockOSThread()
		if err := netns.Set(k.ns); err != nil {
			done <- fmt.Errorf("enter the namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

func (k *kernel) sysctl(name string) (value string, err error) {
	err = k.inside(func() error {
		data, err := os.ReadFile(filepath.Join("/proc/sys/net", name))
		value = strings.TrimSpace(string(data))
		return err
	})
	return value, err
}

func (k *kernel) setSysctl(name, value string) error {
	return k.inside(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644) })
}

const (
	forwarding4 = "ipv4/ip_forward"
	forwarding6 = "ipv6/conf/all/forwarding"
)

// dumpAttempts bounds the repetitions of a listing that the kernel reports as inconsistent.
const dumpAttempts = 20

// dump returns a complete listing.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for attempt := 1; ; attempt++ {
		all, err := list()
		if attempt == dumpAttempts || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
}

// underlay reads the interface to the other members.
func (k *kernel) underlay() (*underlay, error) {
	index, err := k.underlayIndex()
	if err != nil {
		return nil, err
	}
	link, err := k.handle.LinkByIndex(index)
	if err != nil {
		return nil, fmt.Errorf("underlay: %w", err)
	}
	u := &underlay{name: link.Attrs().Name, index: index, mtu: link.Attrs().MTU, address4: k.c.Local.Address, address6: k.c.Local.Address6}
	addrs, err := dump(func() ([]netlink.Addr, error) { return k.handle.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", u.name, err)
	}
	given4, given6 := u.address4.IsValid(), u.address6.IsValid()
	for _, a := range addrs {
		p, ok := prefixOf(a.IPNet)
		if !ok || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		u.prefixes = append(u.prefixes, p)
		if p.Addr().Is4() && !u.address4.IsValid() {
			u.address4 = p.Addr()
		}
		if p.Addr().Is6() && !u.address6.IsValid() {
			u.address6 = p.Addr()
		}
	}
	if given4 && !u.has(u.address4) {
		return nil, fmt.Errorf("%s has lost the address %v", u.name, u.address4)
	}
	if given6 && !u.has(u.address6) {
		return nil, fmt.Errorf("%s has lost the address %v", u.name, u.address6)
	}
	u.address = u.address4
	if !u.address.IsValid() {
		u.address = u.address6
	}
	return u, nil
}

func (u *underlay) has(a netip.Addr) bool {
	for _, p := range u.prefixes {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

func (k *kernel) underlayIndex() (int, error) {
	if k.c.Underlay != "" {
		link, err := k.handle.LinkByName(k.c.Underlay)
		if err != nil {
			return 0, fmt.Errorf("underlay %s: %w", k.c.Underlay, err)
		}
		return link.Attrs().Index, nil
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return k.handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return 0, fmt.Errorf("addresses: %w", err)
	}
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok && (p.Addr() == k.c.Local.Address || p.Addr() == k.c.Local.Address6) {
			return a.LinkIndex, nil
		}
	}
	return 0, fmt.Errorf("no interface has the address %v or %v", k.c.Local.Address, k.c.Local.Address6)
}

// prefixOf converts an address with its network. Host bits stay.
func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, ones), ones <= a.BitLen()
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// isMissing reports whether err says that what should be removed or read does not exist.
func isMissing(err error) bool {
	_, missing := errors.AsType[netlink.LinkNotFoundError](err)
	return missing || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) ||
		errors.Is(err, unix.EADDRNOTAVAIL)
}
