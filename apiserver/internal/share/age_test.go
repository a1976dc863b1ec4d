package share_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/internal/share"
)

// TestTableAges lets time pass: a part that is asked for now and then stays, one that is not goes.
func TestTableAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := share.NewTable[*int](10)
		often, once := table.One([]byte("often"), new(int)), table.One([]byte("once"), new(int))
		for range 30 {
			time.Sleep(4 * time.Minute)
			synctest.Wait() // a table that is aging at this moment is not asked
			if table.One([]byte("often"), new(int)) != often {
				t.Fatal("a part that is asked for every four minutes was forgotten")
			}
		}
		if table.One([]byte("once"), new(int)) == once {
			t.Error("a part that nobody asked for in two hours was not forgotten")
		}
	})
}
