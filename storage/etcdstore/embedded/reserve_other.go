//go:build !linux

package embedded

import "math"

// allocate does nothing on systems without fallocate.
func allocate(string, int64, int64, bool) error { return nil }

// freeSpace returns a large number on systems that do not report it.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }
