package ownership

import "strings"

// mask holds the fields below a struct that are not compared: all of a field with a nil mask, and
// of the other fields those in their mask.
type mask map[string]mask

// maskOf returns the mask for paths such as metadata.labels.
func maskOf(paths []string) mask {
	out := mask{}
	for _, path := range paths {
		out.add(path)
	}
	return out
}

func (m mask) add(path string) {
	name, rest, deeper := strings.Cut(path, ".")
	below, known := m[name]
	switch {
	case !deeper:
		m[name] = nil
	case !known:
		m[name] = maskOf([]string{rest})
	case below != nil:
		below.add(rest)
	}
}
