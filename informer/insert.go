package informer

// insert returns s with v at i. slices.Insert inserts any number, for which its
// code is a kilobyte and more for each type that it is compiled for.
func insert[E any](s []E, i int, v E) []E {
	s = append(s, v)
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}
