package podsecurity

import (
	"slices"
	"strings"
)

// setters are the parts of a pod that set something forbidden.
type setters struct {
	pod        bool
	containers []string
}

func (s *setters) none() bool { return !s.pod && len(s.containers) == 0 }

// list returns the parts in words, such as `pod` and `containers "a", "b"`.
func (s *setters) list() []string {
	var list []string
	if s.pod {
		list = append(list, "pod")
	}
	if len(s.containers) > 0 {
		list = append(list, named("container", s.containers))
	}
	return list
}

// String joins the parts by " and ".
func (s *setters) String() string { return strings.Join(s.list(), " and ") }

// named returns a noun and quoted names, such as `containers "a", "b"`.
func named(noun string, names []string) string { return plural(noun, len(names)) + " " + quoted(names) }

// plural returns the form of a noun for n things.
func plural(noun string, n int) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// uses returns the form of the verb for n subjects.
func uses(n int) string {
	if n == 1 {
		return "uses"
	}
	return "use"
}

// quoted returns `"a", "b"`, without escapes, as Kubernetes does.
func quoted(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return `"` + strings.Join(names, `", "`) + `"`
}

// unique sorts a list in place and drops repeated elements.
func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
