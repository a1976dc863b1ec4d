package apiserver

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
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
		data, err := k.encode(randomPod(random))
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

func compareZipped(t *testing.T, k *kind, media string, l *listing) {
	t.Helper()
	b, err := k.listBody(media, l)
	if err != nil {
		t.Fatal(err)
	}
	var plain, zipped bytes.Buffer
	b.writeTo(&plain)
	b.zipped.writeTo(&zipped, b)
	z, err := gzip.NewReader(&zipped)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(got, plain.Bytes()) || zipped.Len() > 0 {
		t.Fatalf("a list of %d as %s: %d bytes, want %d; %d left; %v", len(l.items), media, len(got), plain.Len(), zipped.Len(), err)
	}
}

// TestChangeCostsOnePiece changes one of many items: all but a piece stays as it
// was compressed.
func TestChangeCostsOnePiece(t *testing.T) {
	k := wireKind(t, podResource())
	l := &listing{revision: 1}
	random := rand.New(rand.NewPCG(1, 2))
	add := func(created, revision storage.Revision) *item {
		data, err := k.encode(randomPod(random))
		if err != nil {
			t.Fatal(err)
		}
		i, err := k.item(storage.Record{Key: "k", Value: data, Revision: revision, Created: created})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	const items = 5000
	for n := range storage.Revision(items) {
		l.items = append(l.items, add(n+1, n+1))
	}
	pieces := func() map[*piece]bool {
		compareZipped(t, k, wire.Proto, l)
		all := map[*piece]bool{}
		for _, p := range k.forms.protoZipped.pieces {
			all[p] = true
		}
		return all
	}
	before := pieces()
	if n := len(before); n < items/pieceMost || n > 2*items/pieceItems {
		t.Errorf("%d pieces of %d items", n, items)
	}
	l.items[1234] = add(1235, items+1)
	made := 0
	for p := range pieces() {
		if !before[p] {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d pieces were made anew", made)
	}
	for n := range storage.Revision(items) { // everything changes: the old goes
		l.items[n] = add(n+1, 2*items+n)
	}
	for range 3 {
		if n := len(pieces()); n > 2*len(before) {
			t.Errorf("%d pieces are kept, %d are needed", n, len(before))
		}
	}
}

// FuzzShift: the sum of two strings follows from those of each.
func FuzzShift(f *testing.F) {
	f.Add([]byte(""), []byte(""))
	f.Add([]byte("one"), []byte("two"))
	f.Add([]byte{}, make([]byte, 70_000))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		over := shiftOver(len(b))
		if got, want := over.times(crc32.ChecksumIEEE(a))^crc32.ChecksumIEEE(b), crc32.ChecksumIEEE(slices.Concat(a, b)); got != want {
			t.Errorf("%x, want %x", got, want)
		}
	})
}
