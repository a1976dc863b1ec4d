package informer

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestSourceStoresWhatIsFull has the goroutine that stores get no processor: it
// is not there. The source does not wait for it, nothing gets out of order, and
// handlers are woken once somebody else stores the rest.
func TestSourceStoresWhatIsFull(t *testing.T) {
	for name, rest := range map[string]func(*writer[*item]){
		"writer": (*writer[*item]).flush, "end of the source": (*writer[*item]).finish, "list": (*writer[*item]).Begin,
	} {
		for _, n := range []int{maxQueue, maxQueue + 1, 3*maxQueue + 7} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBatches(t, rand.New(rand.NewPCG(1, 3)), nil)
					b.inf.writer.Replace("0", nil)
					var told atomic.Int64
					h := b.inf.Follow(func(Event[*item]) { told.Add(1) }, Options{})
					h.start()
					synctest.Wait()
					w := b.inf.writer
					for i := range n {
						o := &item{key: fmt.Sprintf("0/%d", i%50), uid: fmt.Sprint(i % 50), revision: i + 1}
						b.model[o.key] = o
						w.Put(fmt.Sprint(i+1), o)
					}
					stored := (n - 1) / maxQueue * maxQueue
					if n == maxQueue {
						// What is left to be stored changes nothing.
						w.Bookmark(fmt.Sprint(n))
						stored = n
					}
					if got, want := b.inf.Snapshot().Revision(), fmt.Sprint(stored); got != want {
						t.Errorf("the view is at %s, want %s", got, want)
					}
					synctest.Wait()
					if told.Load() != 0 {
						t.Errorf("told of %d before the rest was stored", told.Load())
					}
					rest(w)
					synctest.Wait()
					if told.Load() != int64(n) {
						t.Errorf("told of %d, want %d", told.Load(), n)
					}
					b.check()
					h.Close()
				})
			})
		}
	}
}
