package ownership

import "slices"

// set is a set of paths, flat: every step is followed by the steps below it, and
// siblings are in the order of structured-merge-diff. A set in use is immutable.
type set []step

// step is one element of a path with what is below it.
type step struct {
	*elem
	// member is set if the path that ends here is in the set.
	member bool
	// size counts the step and all below it.
	size int32
}

// open appends a step whose children follow; close ends it.
func (s set) open(e *elem, member bool) set {
	return append(s, step{elem: e, member: member, size: 1})
}

// close ends the step at index at, and removes it if nothing is below it.
func (s set) close(at int) set {
	if len(s) == at+1 && !s[at].member {
		return s[:at]
	}
	s[at].size = int32(len(s) - at)
	return s
}

// copyOwn returns a copy that shares no memory with scratch space.
func (s set) copyOwn() set {
	out := slices.Clone(s)
	for i := range out {
		if e := out[i].elem; e.text == "" { // all others are a plan's or were read
			out[i].elem = &elem{e.kind, e.name, slices.Clone(e.parts), string(e.appendText(nil))}
		}
	}
	return out
}

// subtract appends the paths of a that are not in b to out.
func subtract(out, a, b set) set {
	for len(a) > 0 {
		x := &a[0]
		whole := a[:x.size]
		b = b.from(x.elem)
		if len(b) == 0 || b[0].compare(x.elem) != 0 {
			out = append(out, whole...)
		} else {
			at := len(out)
			out = out.open(x.elem, x.member && !b[0].member)
			out = subtract(out, whole[1:], b[1:b[0].size])
			out = out.close(at)
		}
		a = a[x.size:]
	}
	return out
}

// unite appends the paths of a and of b to out.
func unite(out, a, b set) set {
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].compare(b[0].elem); {
		case c < 0:
			out = append(out, a[:a[0].size]...)
			a = a[a[0].size:]
		case c > 0:
			out = append(out, b[:b[0].size]...)
			b = b[b[0].size:]
		default:
			at := len(out)
			out = out.open(a[0].elem, a[0].member || b[0].member)
			out = unite(out, a[1:a[0].size], b[1:b[0].size])
			out = out.close(at)
			a, b = a[a[0].size:], b[b[0].size:]
		}
	}
	return append(append(out, a...), b...)
}

// meets reports whether a and b have a path in common.
func (s set) meets(b set) bool {
	for len(s) > 0 && len(b) > 0 {
		b = b.from(s[0].elem)
		if len(b) > 0 && b[0].compare(s[0].elem) == 0 {
			if s[0].member && b[0].member || s[1:s[0].size].meets(b[1:b[0].size]) {
				return true
			}
		}
		s = s[s[0].size:]
	}
	return false
}

// from skips the siblings before e.
func (s set) from(e *elem) set {
	for len(s) > 0 && s[0].compare(e) < 0 {
		s = s[s[0].size:]
	}
	return s
}

// appendJSON appends the set in the form of FieldsV1.
func (s set) appendJSON(out []byte) []byte {
	out = s.appendSteps(append(out, '{'))
	return append(out, '}')
}

func (s set) appendSteps(out []byte) []byte {
	for i := 0; i < len(s); i += int(s[i].size) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(s[i].appendText(out), ':', '{')
		below := s[i+1 : i+int(s[i].size)]
		if len(below) > 0 {
			if s[i].member {
				out = append(out, `".":{},`...)
			}
			out = below.appendSteps(out)
		}
		out = append(out, '}')
	}
	return out
}
