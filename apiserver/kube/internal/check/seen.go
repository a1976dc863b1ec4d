package check

// Seen finds values that a list repeats, in time that grows with the list.
//
//	seen := check.Seen[string]{}
//	for i, name := range names {
//		ps.Unique(!seen.Again(name), p.Index(i), name)
//	}
type Seen[T comparable] map[T]bool

// Again records a value and reports whether it has been recorded before.
func (s Seen[T]) Again(value T) bool {
	again := s[value]
	s[value] = true
	return again
}

// SetOf returns the values of a list.
func SetOf[E any, T comparable](list []E, value func(*E) T) Seen[T] {
	s := make(Seen[T], len(list))
	for i := range list {
		s[value(&list[i])] = true
	}
	return s
}
