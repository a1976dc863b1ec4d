package used_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/internal/used"
)

var kept []byte

func TestPeak(t *testing.T) {
	const size = 64 << 20
	// The clock of the bubble stands still while Peak takes a sample, so that one is taken within the 3 ms.
	synctest.Test(t, func(t *testing.T) {
		got := used.Peak(func() {
			kept = make([]byte, size)
			time.Sleep(3 * time.Millisecond)
			kept = nil
		})
		if got < size || got > 2*size {
			t.Errorf("Peak() of %d bytes held for 3 ms = %d, want at least that and at most twice", size, got)
		}
	})
}

func TestProcessor(t *testing.T) {
	before := used.Processor()
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	if took := used.Processor() - before; took < 5*time.Millisecond {
		t.Errorf("a loop of 50 ms takes %v of processor time, want at least 5ms", took)
	}
}
