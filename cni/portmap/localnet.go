//go:build linux

package portmap

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

// hostInterface returns the host's interface on the way to the container's IPv4 address; empty if it
// has none.
func hostInterface(addresses []netip.Prefix) (string, error) {
	for _, a := range addresses {
		if !a.Addr().Is4() {
			continue
		}
		routes, err := netlink.RouteGet(a.Addr().AsSlice())
		if err != nil {
			return "", fmt.Errorf("route to %v: %w", a.Addr(), err)
		}
		if len(routes) == 0 {
			return "", fmt.Errorf("no route to %v", a.Addr())
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			return "", fmt.Errorf("interface on the way to %v: %w", a.Addr(), err)
		}
		return link.Attrs().Name, nil
	}
	return "", nil
}

func routeLocalnet(link string) string {
	return filepath.Join("/proc/sys/net/ipv4/conf", link, "route_localnet")
}

// allowLocalnet lets connections from 127.0.0.1 leave by the interface.
func allowLocalnet(link string) error {
	if link == "" {
		return nil
	}
	return os.WriteFile(routeLocalnet(link), []byte("1"), 0o644)
}

// forbidLocalnet undoes allowLocalnet. It ignores an interface that has been removed.
func forbidLocalnet(link string) error {
	err := os.WriteFile(routeLocalnet(link), []byte("0"), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func checkLocalnet(link string) error {
	if link == "" {
		return nil
	}
	value, err := os.ReadFile(routeLocalnet(link))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(value)) != "1" {
		return fmt.Errorf("route_localnet of %s is off", link)
	}
	return nil
}
