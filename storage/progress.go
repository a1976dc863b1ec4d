package storage

import (
	"context"
	"errors"
	"fmt"
)

// Progresser is an optional interface of a [Watcher] that can be asked how far
// it has come. See [RequestProgress].
type Progresser interface {
	Watcher
	// RequestProgress asks that Next deliver how far the watch has come: before
	// long an event, of type Progress if nothing else happens, with a revision not
	// before that of the last change acknowledged before the call. A request may
	// be lost where the watch has yet to catch up or its connection breaks, so
	// whoever waits for the answer asks again after a while; and it has no answer
	// where Next has delivered that much already. Any goroutine may call it.
	RequestProgress(ctx context.Context) error
}

// RequestProgress asks w how far it has come, as [Progresser] describes it. It
// fails with [errors.ErrUnsupported] where w is none.
func RequestProgress(ctx context.Context, w Watcher) error {
	if p, ok := w.(Progresser); ok {
		return p.RequestProgress(ctx)
	}
	return fmt.Errorf("progress of a %T: %w", w, errors.ErrUnsupported)
}
