//go:build walk

package walk

import "testing"

// TestSelf compares planekit with itself: what differs is the walk's own doing.
func TestSelf(t *testing.T) { walk(t, planekit(t), planekit(t)) }
