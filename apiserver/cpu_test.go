package apiserver_test

import (
	"syscall"
	"testing"
	"time"
)

// bounded fails t if do needs more than limit of processor time, of the server
// and of the client together, times slowdown. Unlike a clock it does not run while
// other programs have the machine.
func bounded(t *testing.T, limit time.Duration, do func()) {
	t.Helper()
	before := processorTime(t)
	do()
	if took := processorTime(t) - before; took > limit*slowdown {
		t.Errorf("took %v of processor time, at most %v are due", took, limit*slowdown)
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
