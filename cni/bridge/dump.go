//go:build linux

package bridge

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpAttempts bounds the repetitions of a listing that the kernel reports as inconsistent: links
// of other programs on the host change all the time.
const dumpAttempts = 20

// dump returns a complete listing from the kernel.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for attempt := 1; ; attempt++ {
		all, err := list()
		if attempt == dumpAttempts || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
}
