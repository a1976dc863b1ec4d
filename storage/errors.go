package storage

import (
	"errors"
	"fmt"
)

// The conditions that a Store reports. Compare with errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("conflict")
	ErrCompacted = errors.New("revision has been compacted")
	ErrFuture    = errors.New("revision is in the future")
	ErrInvalid   = errors.New("invalid argument")
	ErrClosed    = errors.New("closed")
	ErrDamaged   = errors.New("value is damaged")
	// ErrFull means that the store has, or just had, no room for a change. The change may or may
	// not have been committed.
	ErrFull = errors.New("no space left in the store")
)

// Refused reports whether err, an error of Commit, proves that nothing was changed and never will be
// by that call. After any other error, of a kind that this package does not know too, the change may
// have been committed, or may be committed later: a read that does not show it proves nothing.
func Refused(err error) bool {
	for _, refusal := range []error{ErrConflict, ErrExists, ErrNotFound, ErrInvalid, errors.ErrUnsupported} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// ConflictError means that a guarded change found a revision other than the one it expected. It
// matches [ErrConflict].
type ConflictError struct {
	Key Key
	// Current is the record as stored.
	Current Record
	// Want is the revision that the change expected.
	Want Revision
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: conflict: at revision %d, not %d", e.Key, e.Current.Revision, e.Want)
}

// Is reports whether target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
