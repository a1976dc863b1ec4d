//go:build walk

package walk

import (
	"testing"

	"github.com/planekit/planekit/compat/pair"
)

// TestSelf compares planekit with itself: what differs is the walk's own doing.
func TestSelf(t *testing.T) { walk(t, pair.Planekit(t), pair.Planekit(t)) }
