package storage

import (
	"errors"
	"fmt"
)

// The conditions a Store reports. Compare with errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("conflict")
	ErrCompacted = errors.New("revision has been compacted")
	ErrFuture    = errors.New("revision is in the future")
	ErrInvalid   = errors.New("invalid argument")
	ErrClosed    = errors.New("closed")
	ErrDamaged   = errors.New("value is damaged")
	// ErrFull is that of a change for which the store has no room. Reads go on.
	ErrFull = errors.New("no space left in the store")
)

// ConflictError says that a guarded change found another revision than it
// wanted. It is [ErrConflict].
type ConflictError struct {
	Key Key
	// Current is the record that stands in the way.
	Current Record
	// Want is the revision that the change was guarded by.
	Want Revision
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: conflict: at revision %d, not %d", e.Key, e.Current.Revision, e.Want)
}

// Is reports that e is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
