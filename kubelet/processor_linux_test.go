package kubelet_test

import (
	"syscall"
	"time"
)

// realTime returns the time of the processor that this process has used. Clocks in a bubble tell another.
func realTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
