package apiserver

import (
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
)

// TestZippedAges reads a list until it becomes shorter, and then no more: pieces of what is gone go,
// and at last all.
func TestZippedAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		k := wireKind(t, podResource())
		l := &listing{}
		for i := range 1000 {
			data, err := k.encode(randomPod(random))
			if err != nil {
				t.Fatal(err)
			}
			one, err := k.item(storage.Record{Key: "/registry/core/pods/a", Value: data, Revision: storage.Revision(i + 1), Created: storage.Revision(i + 1)})
			if err != nil {
				t.Fatal(err)
			}
			l.items = append(l.items, one)
		}
		z := &zipped{}
		read := func() {
			b, err := k.listBody(wire.JSON, l)
			if err != nil {
				t.Fatal(err)
			}
			z.writeTo(io.Discard, b)
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
		l.items = l.items[:300]
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
