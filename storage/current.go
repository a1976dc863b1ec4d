package storage

import "context"

// Current is an optional interface of a [Store] that reports the store's revision more cheaply than
// a listing does. See [Now].
type Current interface {
	// Revision returns a revision that the store has reached. It is linearizable: the result is not
	// lower than the revision of any change acknowledged before the call. It may be higher than the
	// last change to this store's keys if other stores share the revision counter. If ctx is done,
	// Revision returns its error.
	Revision(ctx context.Context) (Revision, error)
}

// nothing is a prefix that no key has by convention, so that listing it is cheap.
const nothing Key = "\x00"

// Now returns the current revision of s, as described by [Current]. If s does not implement
// Current, Now lists a prefix without keys.
func Now(ctx context.Context, s Store) (Revision, error) {
	if c, ok := s.(Current); ok {
		return c.Revision(ctx)
	}
	page, err := s.List(ctx, nothing, ListOptions{Limit: 1})
	return page.Revision, err
}
