// Package optional reads optional fields of API objects, which are pointers.
package optional

// Value returns what pointer points to, or otherwise if pointer is nil.
func Value[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}
