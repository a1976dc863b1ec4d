//go:build linux

package bridge

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpAttempts is how often a listing is taken again that the kernel says was
// changed meanwhile: elsewhere on a host, links come and go all the time.
const dumpAttempts = 20

// dump lists something of the kernel's, whole.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for attempt := 1; ; attempt++ {
		all, err := list()
		if attempt == dumpAttempts || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
}
