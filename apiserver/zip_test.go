package apiserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
)

// TestZippedIsTheBody compares what is put together from compressed pieces with
// the body itself, for lists that change bit by bit.
func TestZippedIsTheBody(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := wireKind(t, podResource())
	revision := storage.Revision(1)
	fresh := func(created storage.Revision) *item {
		revision++
		data, err := k.encode(context.Background(), randomPod(random))
		if err != nil {
			t.Fatal(err)
		}
		if created == 0 {
			created = revision
		}
		i, err := k.item(storage.Record{Key: storage.Key(fmt.Sprint("/registry/core/pods/", created)), Value: data, Revision: revision, Created: created})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	l := &listing{}
	for range 40 {
		switch n := len(l.items); {
		case n == 0 || random.IntN(4) == 0:
			for range random.IntN(400) {
				l.items = append(l.items, fresh(0))
			}
		case random.IntN(2) == 0:
			at := random.IntN(n)
			l.items[at] = fresh(l.items[at].Created)
		default:
			at := random.IntN(n)
			l.items = slices.Delete(l.items, at, at+1)
		}
		l.revision = revision
		for _, media := range []string{wire.JSON, wire.Proto} {
			compareZipped(t, k, media, l)
		}
	}
	gone := &listing{revision: revision, items: []*item{asItem(randomPod(random))}}
	compareZipped(t, k, wire.JSON, gone)
	gone.items = []*item{asItem(randomPod(random))}
	compareZipped(t, k, wire.JSON, gone)
}

func compareZipped(t *testing.T, k *servedKind, media string, l *listing) {
	t.Helper()
	b, err := k.listBody(media, l)
	if err != nil {
		t.Fatal(err)
	}
	var plain, zipped bytes.Buffer
	b.Write(&plain)
	b.WriteZipped(&zipped)
	z, err := gzip.NewReader(&zipped)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(got, plain.Bytes()) || zipped.Len() > 0 {
		t.Fatalf("a list of %d as %s: %d bytes, want %d; %d left; %v", len(l.items), media, len(got), plain.Len(), zipped.Len(), err)
	}
}
