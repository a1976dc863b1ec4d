package storagetest_test

import (
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
)

// The test of a Store of one's own is one line.
func Example() {
	_ = func(t *testing.T) {
		storagetest.Run(t, func(testing.TB) storage.Store { return memstore.New() })
	}
}
