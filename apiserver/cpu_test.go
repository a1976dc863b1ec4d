package apiserver_test

import (
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
)

// bounded fails t if do needs more than limit of processor time, of the server
// and of the client together, times slowdown. Unlike a clock it does not run while
// other programs have the machine.
func bounded(t *testing.T, limit time.Duration, do func()) {
	t.Helper()
	before := used.Processor()
	do()
	if took := used.Processor() - before; took > limit*slowdown {
		t.Errorf("took %v of processor time, at most %v are due", took, limit*slowdown)
	}
}
