package pieces

import (
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
)

// TestZippedAges reads a list until it becomes shorter, and then no more: pieces of what is gone go,
// and at last all.
func TestZippedAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		l := &list{}
		for i := range storage.Revision(1000) {
			*l = append(*l, item{i + 1, i + 1, text(random)})
		}
		z := &Cache{}
		read := func() {
			z.writeTo(io.Discard, l.body(z))
		}
		kept := func() int {
			z.mu.Lock()
			defer z.mu.Unlock()
			if len(z.pieces) != len(z.order) {
				t.Fatalf("%d pieces, %d in order", len(z.pieces), len(z.order))
			}
			return len(z.pieces)
		}
		read()
		all := kept()
		for range 10 {
			time.Sleep(4 * time.Minute)
			read()
			if kept() != all {
				t.Fatalf("%d pieces of a list that is read all the time, not %d", kept(), all)
			}
		}
		*l = (*l)[:300]
		for range 10 {
			time.Sleep(4 * time.Minute)
			read()
		}
		if few := kept(); few == 0 || few > all/2 {
			t.Errorf("%d pieces of a list that is a third as long as the one with %d", few, all)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if kept() != 0 {
			t.Errorf("%d pieces of a list that nobody reads", kept())
		}
	})
}
