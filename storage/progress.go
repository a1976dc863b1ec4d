package storage

import (
	"context"
	"errors"
	"fmt"
)

// Progresser is an optional interface of a [Watcher] that can report its progress on request. See
// [RequestProgress].
type Progresser interface {
	Watcher
	// RequestProgress asks Next to report how far the watch has come. Next soon returns an event,
	// of type Progress if there is no other, with a revision not lower than that of the last change
	// acknowledged before the call. There is no such event if Next has already delivered that
	// revision. A request may be lost while the watch catches up or when its connection breaks, so
	// a waiting caller repeats it from time to time. It may be called by any goroutine.
	RequestProgress(ctx context.Context) error
}

// RequestProgress asks w to report its progress, as described by [Progresser]. It returns
// [errors.ErrUnsupported] if w is not a Progresser.
func RequestProgress(ctx context.Context, w Watcher) error {
	if p, ok := w.(Progresser); ok {
		return p.RequestProgress(ctx)
	}
	return fmt.Errorf("progress of a %T: %w", w, errors.ErrUnsupported)
}
