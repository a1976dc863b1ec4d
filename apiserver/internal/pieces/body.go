// Package pieces writes lists that are put together from their encoded items, and keeps parts of them
// compressed, so that a list that has changed a little is not compressed again.
package pieces

import (
	"compress/gzip"
	"io"
	"sync"

	"github.com/planekit/planekit/storage"
)

// A Body is a response that consists of pieces. Its length is known.
type Body struct {
	Head, Tail []byte
	Items      Items
	Separator  []byte // between items
	Size       int
	// Next appends the i-th item.
	Next func(to []byte, i int) []byte
	// Cache keeps compressed pieces; nil if the body is not sent again.
	Cache *Cache
}

// Items are the items of a body, which are stored records. A revision is that of one change of one
// record.
type Items interface {
	Len() int
	// Revision returns the revision of the i-th item, zero if it is in no record.
	Revision(i int) storage.Revision
	// Created returns the revision at which the i-th item was created.
	Created(i int) storage.Revision
}

// chunk is the maximum number of bytes of one write.
const chunk = 64 << 10

var chunks = sync.Pool{New: func() any { return new(make([]byte, 0, chunk+chunk/4)) }}

// Write writes the body in chunks. It stops at the first failure.
func (b *Body) Write(w interface{ Write([]byte) (int, error) }) {
	pooled := chunks.Get().(*[]byte)
	buffer := append((*pooled)[:0], b.Head...)
	defer func() {
		*pooled = buffer
		chunks.Put(pooled)
	}()
	for i := range b.Items.Len() {
		if i > 0 {
			buffer = append(buffer, b.Separator...)
		}
		buffer = b.Next(buffer, i)
		if len(buffer) >= chunk {
			if _, err := w.Write(buffer); err != nil {
				return
			}
			buffer = buffer[:0]
		}
	}
	buffer = append(buffer, b.Tail...)
	w.Write(buffer)
}

// WriteZipped writes the body as a gzip stream.
func (b *Body) WriteZipped(w io.Writer) {
	if b.Cache != nil {
		b.Cache.writeTo(w, b)
		return
	}
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(w)
	b.Write(z)
	z.Close()
}

// zippers are reused: each has a megabyte of tables.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // of a level that exists
	}
	return z
}}
