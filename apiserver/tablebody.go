package apiserver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tableBody puts a table together: what goes with the rows' cells is kept ready,
// the cells are not, for there are ages in them.
func (k *kind) tableBody(q *request, l *listing) (*body, error) {
	include, err := includeObject(q)
	if err != nil {
		return nil, err
	}
	empty, err := k.table(q, &listing{revision: l.revision, next: l.next, remaining: l.remaining})
	if err != nil {
		return nil, err
	}
	around, err := k.codec.encode(mediaJSON, empty)
	if err != nil {
		return nil, err
	}
	tail := []byte("]}\n")
	head, ok := bytes.CutSuffix(around, tail)
	if !ok {
		return nil, fmt.Errorf("a table without rows is %s", around)
	}
	b := &body{head: head, tail: tail, items: l.items, separator: []byte{','}}
	b.size = len(head) + len(tail) + max(len(l.items)-1, 0)
	columns := k.columns()
	cells, objects := make([][]byte, len(l.items)), make([][]byte, len(l.items))
	for n, i := range l.items {
		if cells[n], err = json.Marshal(cellsOf(columns, i)); err != nil {
			return nil, err
		}
		if objects[n], err = k.withCells(i, include); err != nil {
			return nil, err
		}
		b.size += len(`{"cells":,"object":}`) + len(cells[n]) + len(objects[n])
	}
	b.next = func(to []byte, n int) []byte {
		to = append(append(append(to, `{"cells":`...), cells[n]...), `,"object":`...)
		return append(append(to, objects[n]...), '}')
	}
	return b, nil
}

// cellsOf are the values of a row.
func cellsOf(columns []Column, i *item) []any {
	values := make([]any, len(columns))
	for n, c := range columns {
		values[n] = c.Value(i.Object.Object)
	}
	return values
}

// withCells is what a row has beside its cells.
func (k *kind) withCells(i *item, include metav1.IncludeObjectPolicy) ([]byte, error) {
	switch include {
	case metav1.IncludeObject:
		return k.jsonOf(i)
	case metav1.IncludeMetadata:
		return k.partialOf(i)
	}
	return []byte("null"), nil
}

// writeZipped writes the body as a gzip stream.
func (b *body) writeZipped(w io.Writer) {
	if b.zipped != nil {
		b.zipped.writeTo(w, b)
		return
	}
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(w)
	b.writeTo(z)
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
