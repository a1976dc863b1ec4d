package storage

import "context"

// Current is an optional interface of a [Store] that tells how far it has come
// for less than the price of a listing. See [Now].
type Current interface {
	// Revision returns a revision that the store has reached, and that is not
	// before that of any change acknowledged before the call: it is linearizable,
	// as a read without a revision is. It may be later than that of the last
	// change to any key of this store, where others share its counter. A context
	// that is done is answered with its error.
	Revision(ctx context.Context) (Revision, error)
}

// nothing is a prefix that keys do not begin with by convention, so that listing
// it costs next to nothing.
const nothing Key = "\x00"

// Now returns the current revision of s, as [Current] describes it: from s, if
// it is a Current, or else from a listing of next to nothing.
func Now(ctx context.Context, s Store) (Revision, error) {
	if c, ok := s.(Current); ok {
		return c.Revision(ctx)
	}
	page, err := s.List(ctx, nothing, ListOptions{Limit: 1})
	return page.Revision, err
}
