package apiserver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

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
	var cells []byte // of all rows; ends tells where those of each end
	ends, objects := make([]int, len(l.items)+1), make([][]byte, len(l.items))
	for n, i := range l.items {
		if cells, err = appendCells(cells, columns, i); err != nil {
			return nil, err
		}
		ends[n+1] = len(cells)
		if objects[n], err = k.withCells(i, include); err != nil {
			return nil, err
		}
		b.size += len(`{"cells":,"object":}`) + ends[n+1] - ends[n] + len(objects[n])
	}
	b.next = func(to []byte, n int) []byte {
		to = append(append(append(to, `{"cells":`...), cells[ends[n]:ends[n+1]]...), `,"object":`...)
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

// appendCells appends a row's cells as JSON.
func appendCells(to []byte, columns []Column, i *item) ([]byte, error) {
	kept := i.Object.cells.Load()
	if kept == nil {
		steady, err := steadyCells(columns, i)
		if err != nil {
			return nil, err
		}
		kept = &steady
		i.Object.cells.Store(kept)
	}
	to = append(to, '[')
	rest := *kept
	for _, c := range columns {
		if c.Steady {
			continue
		}
		at := bytes.IndexByte(rest, 0)
		to = append(to, rest[:at]...)
		rest = rest[at+1:]
		var err error
		if to, err = appendCell(to, c.Value(i.Object.Object)); err != nil {
			return nil, err
		}
		to = append(to, ',')
	}
	to = append(to, rest...)
	to[len(to)-1] = ']' // in place of a comma: there is a column at least
	return to, nil
}

func steadyCells(columns []Column, i *item) ([]byte, error) {
	var cells []byte
	for _, c := range columns {
		if !c.Steady {
			cells = append(cells, 0)
			continue
		}
		var err error
		if cells, err = appendCell(cells, c.Value(i.Object.Object)); err != nil {
			return nil, err
		}
		cells = append(cells, ',')
	}
	return bytes.Clone(cells), nil // without spare room
}

// appendCell appends a value as JSON. Most need no escapes.
func appendCell(to []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int64:
		return strconv.AppendInt(to, v, 10), nil
	case string:
		if plain(v) {
			return append(append(append(to, '"'), v...), '"'), nil
		}
	}
	data, err := json.Marshal(value)
	return append(to, data...), err
}

// plain reports whether JSON has s as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
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
