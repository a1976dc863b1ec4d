//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Remove undoes what the plugin did on this host for the bridge: the veth
// pairs on it, the bridge, its iptables rules, and the directories given, such
// as host-local's. It does as much as it can and succeeds on what is gone.
// Nothing may call the plugin for this bridge meanwhile.
func Remove(ctx context.Context, bridge string, dirs ...string) error {
	var failed []error
	links, err := ports(bridge)
	failed = append(failed, err)
	for _, l := range links {
		if l.Type() == "veth" { // others were put there by somebody else
			failed = append(failed, gone(netlink.LinkDel(l)))
		}
	}
	if l, err := netlink.LinkByName(bridge); err == nil && l.Type() == "bridge" {
		failed = append(failed, gone(netlink.LinkDel(l)))
	}
	failed = append(failed, removeRules(ctx, bridge))
	for _, dir := range dirs {
		failed = append(failed, os.RemoveAll(dir))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("remove bridge %s: %w", bridge, err)
	}
	return nil
}

// gone makes a success of finding nothing to delete.
func gone(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
