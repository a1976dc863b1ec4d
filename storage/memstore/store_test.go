package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Store { return memstore.New() }, storagetest.VirtualTime())
}

func BenchmarkStore(b *testing.B) {
	storagetest.Bench(b, func(testing.TB) storage.Store { return memstore.New() })
}
