package pieces

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/planekit/planekit/storage"
)

type item struct {
	created, revision storage.Revision
	text              []byte
}

type list []item

func (l *list) Len() int                        { return len(*l) }
func (l *list) Revision(i int) storage.Revision { return (*l)[i].revision }
func (l *list) Created(i int) storage.Revision  { return (*l)[i].created }

func (l *list) body(c *Cache) *Body {
	b := &Body{Head: []byte("["), Tail: []byte("]\n"), Separator: []byte{','}, Items: l, Cache: c}
	b.Size = len(b.Head) + len(b.Tail) + max(len(*l)-1, 0)
	for _, i := range *l {
		b.Size += len(i.text)
	}
	b.Next = func(to []byte, i int) []byte { return append(to, (*l)[i].text...) }
	return b
}

func text(random *rand.Rand) []byte {
	return bytes.Repeat([]byte{byte('a' + random.IntN(26)), byte('a' + random.IntN(26))}, random.IntN(300))
}

func compareZipped(t *testing.T, l *list, c *Cache) {
	t.Helper()
	b := l.body(c)
	var plain, zipped bytes.Buffer
	b.Write(&plain)
	b.WriteZipped(&zipped)
	if plain.Len() != b.Size {
		t.Fatalf("%d bytes, announced %d", plain.Len(), b.Size)
	}
	z, err := gzip.NewReader(&zipped)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(got, plain.Bytes()) || zipped.Len() > 0 {
		t.Fatalf("a list of %d: %d bytes, want %d; %d left; %v", len(*l), len(got), plain.Len(), zipped.Len(), err)
	}
}

// TestChangeCostsOnePiece changes one of many items: all but a piece stays as it
// was compressed.
func TestChangeCostsOnePiece(t *testing.T) {
	l, c := &list{}, &Cache{}
	random := rand.New(rand.NewPCG(1, 2))
	add := func(created, revision storage.Revision) item { return item{created, revision, text(random)} }
	const items = 5000
	for n := range storage.Revision(items) {
		*l = append(*l, add(n+1, n+1))
	}
	pieces := func() map[*piece]bool {
		compareZipped(t, l, c)
		all := map[*piece]bool{}
		for _, p := range c.pieces {
			all[p] = true
		}
		return all
	}
	before := pieces()
	if n := len(before); n < items/pieceMost || n > 2*items/pieceItems {
		t.Errorf("%d pieces of %d items", n, items)
	}
	(*l)[1234] = add(1235, items+1)
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
		(*l)[n] = add(n+1, 2*items+n)
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
