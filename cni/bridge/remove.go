//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Remove removes everything that the plugin created on this host for the bridge: its veth pairs,
// the bridge, its rules, and the given directories, such as host-local's. It continues
// after errors and ignores what is missing. The plugin must not be called for this bridge
// meanwhile.
func Remove(ctx context.Context, bridge string, dirs ...string) error {
	var failed []error
	links, err := ports(bridge)
	failed = append(failed, err)
	for _, l := range links {
		if l.Type() == "veth" { // other links were not created by the plugin
			failed = append(failed, gone(netlink.LinkDel(l)))
		}
	}
	if l, err := netlink.LinkByName(bridge); err == nil && l.Type() == "bridge" {
		failed = append(failed, gone(netlink.LinkDel(l)))
	}
	failed = append(failed, removeRules(ctx, bridge))
	failed = append(failed, removeGuards(ctx, func(name string) bool { return strings.HasPrefix(name, spoofTables(bridge)) }))
	for _, dir := range dirs {
		failed = append(failed, os.RemoveAll(dir))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("remove bridge %s: %w", bridge, err)
	}
	return nil
}

// gone turns errors about missing objects into success.
func gone(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
