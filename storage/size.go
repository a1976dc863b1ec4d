package storage

import (
	"context"
	"errors"
	"fmt"
)

// Sized is an optional interface of a [Store] that knows how much its database takes. See [Size].
type Sized interface {
	// Size returns how many bytes the files of the database take.
	Size(ctx context.Context) (int64, error)
}

// Size returns how many bytes the database of s takes, as described by [Sized]. It returns
// [errors.ErrUnsupported] if s is not Sized.
func Size(ctx context.Context, s Store) (int64, error) {
	if sized, ok := s.(Sized); ok {
		return sized.Size(ctx)
	}
	return 0, fmt.Errorf("size of a %T: %w", s, errors.ErrUnsupported)
}
