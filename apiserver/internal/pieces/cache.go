package pieces

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/storage"
)

// Compression costs many times more than the rest of a list, and most clients ask for it. A gzip
// stream may consist of pieces that were compressed separately (RFC 1951: blocks that end on a byte
// and refer to nothing before them), so pieces of some tens of items are kept. The items
// themselves, and not their positions, decide where a piece ends, so that a change costs only its
// piece.
const (
	pieceItems = 64  // on average
	pieceMost  = 256 // items
)

// A Cache holds the compressed pieces of the lists of one kind in one media type. The zero value is
// empty. It is safe for concurrent use.
type Cache struct {
	mu sync.Mutex // guards what follows
	// pieces holds pieces by the revision of their first item, up to twice as many as the longest
	// lists need; order has the oldest first.
	pieces map[storage.Revision]*piece
	order  []storage.Revision
	most   int
	// aging is set while a call of age is pending.
	aging bool
}

// zippedAge is the interval after which pieces are dropped that no list has used since: their
// objects may have been deleted long ago.
const zippedAge = 5 * time.Minute

// piece is a run of items. A revision is that of one change of one key, so the revisions identify
// the items.
type piece struct {
	revisions []storage.Revision
	data      []byte // deflated
	size      int    // before
	sum       uint32 // CRC-32 of it
	shift     shift  // over it
	used      bool   // since age was last called; guarded by Cache.mu
}

// endsPiece reports whether a piece ends after an item, which is true for one item in pieceItems.
func endsPiece(created storage.Revision) bool {
	return uint64(created)*0x9e3779b97f4a7c15>>58 == 0 // the golden ratio, which spreads neighbours
}

// writeTo writes the body as a gzip stream (RFC 1952).
func (z *Cache) writeTo(w io.Writer, b *Body) {
	out := stream{w: w}
	out.write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255})
	out.plain(b.Head)
	count, items := 0, b.Items.Len()
	for from := 0; from < items; count++ {
		to := from + 1
		for to < items && to-from < pieceMost && !endsPiece(b.Items.Created(to-1)) {
			to++
		}
		if from > 0 {
			out.plain(b.Separator)
		}
		out.piece(z.piece(b, from, to))
		from = to
	}
	z.bound(2 * count)
	out.plain(b.Tail)
	out.write([]byte{1, 0, 0, 0xff, 0xff}) // the last block, with nothing in it
	out.write(binary.LittleEndian.AppendUint32(nil, out.sum))
	out.write(binary.LittleEndian.AppendUint32(nil, uint32(out.size)))
}

// piece returns the items between from and to, compressed.
func (z *Cache) piece(b *Body, from, to int) *piece {
	first := b.Items.Revision(from)
	z.mu.Lock()
	have := z.pieces[first]
	if have != nil {
		have.used = true
	}
	z.mu.Unlock()
	if have != nil && have.holds(b, from, to) {
		return have
	}
	made := deflate(b, from, to)
	if first == 0 {
		return made // no records
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.pieces == nil {
		z.pieces = map[storage.Revision]*piece{}
	}
	if z.pieces[first] == nil {
		z.order = append(z.order, first)
	}
	made.used = true
	z.pieces[first] = made
	z.ageLater()
	return made
}

// ageLater schedules a call of age. mu is held.
func (z *Cache) ageLater() {
	if !z.aging && len(z.pieces) > 0 {
		z.aging = true
		time.AfterFunc(zippedAge, z.age)
	}
}

// age drops the pieces that no list has used since the previous call.
func (z *Cache) age() {
	z.mu.Lock()
	defer z.mu.Unlock()
	// Create both again: neither a map nor an array releases memory.
	pieces := map[storage.Revision]*piece{}
	var order []storage.Revision
	for _, first := range z.order {
		if p := z.pieces[first]; p.used {
			p.used = false
			pieces[first] = p
			order = append(order, first)
		}
	}
	z.pieces, z.order = pieces, order
	z.aging = false
	z.ageLater()
}

// holds reports whether p consists of the present items between from and to.
func (p *piece) holds(b *Body, from, to int) bool {
	if len(p.revisions) != to-from {
		return false
	}
	for i, revision := range p.revisions {
		if revision != b.Items.Revision(from+i) {
			return false
		}
	}
	return true
}

func deflate(b *Body, from, to int) *piece {
	p := &piece{}
	var raw []byte
	for i := from; i < to; i++ {
		if i > from {
			raw = append(raw, b.Separator...)
		}
		raw = b.Next(raw, i)
		p.revisions = append(p.revisions, b.Items.Revision(i))
	}
	var data bytes.Buffer
	d := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(d)
	d.Reset(&data)
	d.Write(raw) // to memory, which does not fail
	d.Flush()
	p.data, p.size, p.sum, p.shift = bytes.Clone(data.Bytes()), len(raw), crc32.ChecksumIEEE(raw), shiftOver(len(raw))
	return p
}

// deflaters are reused, because each has a megabyte of tables.
var deflaters = sync.Pool{New: func() any {
	d, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // of a level that exists
	}
	return d
}}

// bound drops the oldest pieces beyond the number that lists have needed.
func (z *Cache) bound(need int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.most = max(z.most, need)
	for len(z.order) > z.most {
		delete(z.pieces, z.order[0])
		z.order = z.order[1:]
	}
}

// stream is a gzip stream that is being written.
type stream struct {
	w    io.Writer
	size int
	sum  uint32
	err  error
}

func (s *stream) write(data []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(data)
	}
}

// plain writes bytes as uncompressed blocks.
func (s *stream) plain(data []byte) {
	s.size += len(data)
	s.sum = crc32.Update(s.sum, crc32.IEEETable, data)
	for part := range slices.Chunk(data, 0xffff) {
		head := binary.LittleEndian.AppendUint16([]byte{0}, uint16(len(part)))
		s.write(append(binary.LittleEndian.AppendUint16(head, ^uint16(len(part))), part...))
	}
}

func (s *stream) piece(p *piece) {
	s.size += p.size
	s.sum = p.shift.times(s.sum) ^ p.sum
	s.write(p.data)
}

// A shift maps the CRC-32 of a string to its CRC-32 after a number of zero bytes.
// The map is linear over bits: element i is the image of bit i. The CRC-32 of two
// strings is the sum of the first, shifted by the length of the second, xor the sum
// of the second.
type shift [32]uint32

func (m *shift) times(sum uint32) uint32 {
	var out uint32
	for i := 0; sum != 0; i++ {
		if sum&1 != 0 {
			out ^= m[i]
		}
		sum >>= 1
	}
	return out
}

func (m *shift) after(other *shift) (both shift) {
	for i := range both {
		both[i] = m.times(other[i])
	}
	return both
}

func shiftOver(n int) shift {
	var power, all shift // power is over one bit, then over one byte, two, four ...
	power[0], all[0] = crc32.IEEE, 1
	for i := 1; i < 32; i++ {
		power[i], all[i] = 1<<(i-1), 1<<i
	}
	for range 3 {
		power = power.after(&power)
	}
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			all = power.after(&all)
		}
		power = power.after(&power)
	}
	return all
}
