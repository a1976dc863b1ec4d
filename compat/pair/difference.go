package pair

import (
	"fmt"
	"maps"
	"slices"
)

// Aspects are the parts of a response that are compared, by name.
type Aspects map[string]string

// Flatten adds v's values under the paths that lead to them.
func (a Aspects) Flatten(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			a[path] = "{}"
		}
		for key, value := range v {
			a.Flatten(path+"."+key, value)
		}
	case []any:
		if len(v) == 0 {
			a[path] = "[]"
		}
		for i, value := range v {
			a.Flatten(fmt.Sprintf("%s[%d]", path, i), value)
		}
	default:
		a[path] = fmt.Sprintf("%#v", v)
	}
}

// Difference is one aspect in which two responses differ.
type Difference struct{ Aspect, Want, Got string }

// Differences compares two responses.
func Differences(want, got Aspects) (all []Difference) {
	names := map[string]bool{}
	for name := range want {
		names[name] = true
	}
	for name := range got {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		w, inWant := want[name]
		g, inGot := got[name]
		if w != g || inWant != inGot {
			if !inWant {
				w = "(none)"
			}
			if !inGot {
				g = "(none)"
			}
			all = append(all, Difference{name, w, g})
		}
	}
	// If the codes differ, so do the rest.
	if i := slices.IndexFunc(all, func(d Difference) bool { return d.Aspect == "code" }); i >= 0 {
		all[i].Want += " " + want[".message"] + want["body"]
		all[i].Got += " " + got[".message"] + got["body"]
		return all[i : i+1]
	}
	return all
}
