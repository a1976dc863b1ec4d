// Package selector compiles label and field selectors, so that an object is matched at a cost that
// depends on the labels of the object and not on the number of requirements:
//
//	parsed, err := labels.Parse("tier in (web,db),!canary")
//	compiled := selector.Labels(parsed)
//	matched := compiled.Matches(pod.Labels)
//
// A client may send a selector of 100,000 requirements, and a server evaluates it for each object of
// a list and for each event of a watch. The requirements on one key become one term, and the terms
// are sorted by key.
package selector

import (
	"maps"
	"slices"
	"sort"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A LabelSelector matches labels. It is immutable.
type LabelSelector struct {
	terms []term
	// never reports that the requirements contradict each other.
	never bool
	// present is the number of terms whose key must be present.
	present int
}

// A term is all requirements on one key.
type term struct {
	key string
	// present and absent report that the key must, or must not, be present.
	present, absent bool
	// among and except are sorted. among is nil if every value is allowed.
	among, except []string
	bounds        []labels.Requirement // with > or <
}

// Labels compiles s.
func Labels(s labels.Selector) *LabelSelector {
	requirements, selectable := s.Requirements()
	if !selectable {
		return &LabelSelector{never: true}
	}
	if !sort.IsSorted(byKey(requirements)) {
		requirements = slices.Clone(requirements)
		sort.Stable(byKey(requirements))
	}
	out := &LabelSelector{}
	for i := 0; i < len(requirements); {
		end := i + 1
		for end < len(requirements) && requirements[end].Key() == requirements[i].Key() {
			end++
		}
		t, possible := newTerm(requirements[i:end])
		if !possible {
			return &LabelSelector{never: true}
		}
		if t.present {
			out.present++
		}
		out.terms = append(out.terms, t)
		i = end
	}
	out.terms = slices.Clip(out.terms)
	return out
}

// byKey sorts requirements. Package sort sorts by methods, so that the program has no sort of its own for them.
type byKey []labels.Requirement

func (r byKey) Len() int           { return len(r) }
func (r byKey) Less(i, j int) bool { return r[i].Key() < r[j].Key() }
func (r byKey) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// newTerm joins requirements on one key. It reports whether a value or no value can meet all of them.
func newTerm(requirements []labels.Requirement) (t term, possible bool) {
	t.key = requirements[0].Key()
	var sets [][]string
	for i := range requirements {
		switch r := &requirements[i]; r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			t.present = true
			sets = append(sets, r.ValuesUnsorted())
		case selection.NotIn, selection.NotEquals:
			t.except = append(t.except, r.ValuesUnsorted()...)
		case selection.Exists:
			t.present = true
		case selection.DoesNotExist:
			t.absent = true
		case selection.GreaterThan, selection.LessThan:
			t.present = true
			t.bounds = append(t.bounds, *r)
		default:
			return t, false
		}
	}
	if t.present && t.absent {
		return t, false
	}
	t.except = sortedSet(t.except)
	if len(sets) > 0 {
		t.among = sortedSet(intersection(sets))
	}
	t.bounds = tightest(t.bounds)
	return t, sets == nil || len(t.among) > 0
}

func sortedSet(words []string) []string {
	if len(words) > 1 {
		slices.Sort(words)
		words = slices.Clip(slices.Compact(words))
	}
	return words
}

// intersection returns the words in all sets. It never returns nil.
func intersection(sets [][]string) []string {
	common := map[string]bool{}
	for _, word := range sets[0] {
		common[word] = true
	}
	for _, set := range sets[1:] {
		next := map[string]bool{}
		for _, word := range set {
			if common[word] {
				next[word] = true
			}
		}
		common = next
	}
	return slices.AppendSeq(make([]string, 0, len(common)), maps.Keys(common))
}

// tightest returns the largest lower bound and the smallest upper bound.
func tightest(bounds []labels.Requirement) []labels.Requirement {
	if len(bounds) < 2 {
		return bounds
	}
	best := map[selection.Operator]int{}
	for i := range bounds {
		operator := bounds[i].Operator()
		b, known := best[operator]
		if !known || (operator == selection.GreaterThan) == (number(&bounds[i]) > number(&bounds[b])) {
			best[operator] = i
		}
	}
	var out []labels.Requirement
	for _, i := range best {
		out = append(out, bounds[i])
	}
	return out
}

func number(r *labels.Requirement) int64 {
	n, _ := strconv.ParseInt(r.ValuesUnsorted()[0], 10, 64) // it has been parsed before
	return n
}

// Empty reports whether s matches everything.
func (s *LabelSelector) Empty() bool { return !s.never && len(s.terms) == 0 }

// Matches reports whether all requirements match these labels.
func (s *LabelSelector) Matches(of map[string]string) bool {
	if s.never || s.present > len(of) {
		return false
	}
	if len(s.terms) <= len(of) || len(s.terms) <= 8 {
		for i := range s.terms {
			value, present := of[s.terms[i].key]
			if !s.terms[i].matches(value, present) {
				return false
			}
		}
		return true
	}
	present := 0
	for key, value := range of {
		i := sort.Search(len(s.terms), func(i int) bool { return s.terms[i].key >= key })
		if i == len(s.terms) || s.terms[i].key != key {
			continue
		}
		if !s.terms[i].matches(value, true) {
			return false
		}
		if s.terms[i].present {
			present++
		}
	}
	return present == s.present
}

func (t *term) matches(value string, present bool) bool {
	if !present {
		return !t.present
	}
	if t.absent || !allowed(t.among, t.except, value) {
		return false
	}
	for i := range t.bounds {
		if !t.bounds[i].Matches(labels.Set{t.key: value}) {
			return false
		}
	}
	return true
}

// allowed reports whether among holds value, unless it is nil, and except does not.
func allowed(among, except []string, value string) bool {
	return (among == nil || holds(among, value)) && !holds(except, value)
}

func holds(sorted []string, value string) bool {
	switch len(sorted) {
	case 0:
		return false
	case 1:
		return sorted[0] == value
	}
	_, found := slices.BinarySearch(sorted, value)
	return found
}

// A FieldSelector matches the fields of an object. It is immutable.
type FieldSelector struct {
	terms []fieldTerm
	never bool
}

type fieldTerm struct {
	field string
	// among is nil if every value is allowed, and otherwise has one value. except is sorted.
	among, except []string
}

// Fields compiles s.
func Fields(s fields.Selector) *FieldSelector {
	out := &FieldSelector{}
	at := map[string]int{}
	requirements := s.Requirements()
	if len(requirements) == 0 && !s.Empty() {
		return &FieldSelector{never: true}
	}
	for _, r := range requirements {
		i, known := at[r.Field]
		if !known {
			i = len(out.terms)
			at[r.Field] = i
			out.terms = append(out.terms, fieldTerm{field: r.Field})
		}
		t := &out.terms[i]
		switch {
		case r.Operator == selection.NotEquals:
			t.except = append(t.except, r.Value)
		case t.among != nil && t.among[0] != r.Value:
			return &FieldSelector{never: true}
		default:
			t.among = []string{r.Value}
		}
	}
	for i := range out.terms {
		out.terms[i].except = sortedSet(out.terms[i].except)
	}
	return out
}

// Empty reports whether s matches everything.
func (s *FieldSelector) Empty() bool { return !s.never && len(s.terms) == 0 }

// Matches reports whether all requirements match these fields.
func (s *FieldSelector) Matches(of fields.Fields) bool {
	for i := range s.terms {
		if t := &s.terms[i]; !allowed(t.among, t.except, of.Get(t.field)) {
			return false
		}
	}
	return !s.never
}

// Equals yields the fields that must have one value, and these values.
func (s *FieldSelector) Equals(yield func(field, value string) bool) {
	for _, t := range s.terms {
		if t.among != nil && !yield(t.field, t.among[0]) {
			return
		}
	}
}
