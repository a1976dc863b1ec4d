//go:build linux

package bridge

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestDumpIsTakenAgain(t *testing.T) {
	interrupted := 0
	all, err := dump(func() ([]int, error) {
		if interrupted++; interrupted < 4 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(all) != 2 {
		t.Errorf("dump = %v, %v, want the 2 items of the dump without interruption", all, err)
	}
	broken := errors.New("broken")
	calls := 0
	if _, err := dump(func() ([]int, error) { calls++; return nil, broken }); !errors.Is(err, broken) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	calls = 0
	if _, err := dump(func() ([]int, error) { calls++; return nil, netlink.ErrDumpInterrupted }); err == nil || calls != dumpAttempts {
		t.Errorf("%v after %d calls", err, calls)
	}
}
