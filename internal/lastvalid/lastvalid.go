// Package lastvalid keeps the last valid value that was parsed from contents that change, such as those
// of files.
package lastvalid

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// Value holds what was parsed from the newest contents that were valid. It is safe for concurrent use.
type Value[T any] struct {
	read    func() ([][]byte, error)
	parse   func([][]byte) (T, error)
	current atomic.Pointer[T]

	mu   sync.Mutex
	seen [sha256.Size]byte // hash of the contents that current was made of; guarded by mu
}

// New reads a value for the first time. read returns the contents, of one file or of several, and parse
// makes a value of them. Both are called by one goroutine at a time.
func New[T any](read func() ([][]byte, error), parse func([][]byte) (T, error)) (*Value[T], error) {
	v := &Value[T]{read: read, parse: parse}
	if _, err := v.Refresh(); err != nil {
		return nil, err
	}
	return v, nil
}

// Current returns the value. It is the same one as long as the contents do not change.
func (v *Value[T]) Current() T { return *v.current.Load() }

// Refresh reads the contents and reports whether the value has changed. After an error, which is that of
// read or parse, the value is the same as before. Of the contents, only a hash is kept.
func (v *Value[T]) Refresh() (changed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	contents, err := v.read()
	if err != nil {
		return false, err
	}
	hash := sha256.New()
	for _, data := range contents {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data)))) // so that "a" and "bc" are not "ab" and "c"
		hash.Write(data)
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if sum == v.seen {
		return false, nil
	}
	value, err := v.parse(contents)
	if err != nil {
		return false, err
	}
	v.seen = sum
	v.current.Store(&value)
	return true, nil
}
