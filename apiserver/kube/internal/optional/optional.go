// Package optional reads and fills fields that a client may leave out.
package optional

// SetIfEmpty sets *p to value if it is zero.
func SetIfEmpty[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// SetIfNil makes *p point to value if it is nil.
func SetIfNil[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// Deref returns what p points to, or the zero value.
func Deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
