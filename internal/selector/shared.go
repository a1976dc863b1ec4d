package selector

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// few is the number of requirements and values up to which the selectors of Kubernetes are cheap.
const few = 16

// shared holds the *compiled selectors of large label selectors by weak.Pointer[metav1.LabelSelector], as
// long as these are in use.
var shared sync.Map

// Of returns the selector that s describes, as metav1.LabelSelectorAsSelector does: nil selects nothing, and
// an empty one everything. A large one is parsed only once, and matches a labels.Set at a cost that depends on
// the labels. s must not change afterwards, as the objects of a cache do not.
func Of(s *metav1.LabelSelector) (labels.Selector, error) {
	if !large(s) {
		return metav1.LabelSelectorAsSelector(s)
	}
	key := weak.Make(s)
	if known, ok := shared.Load(key); ok {
		return known.(*compiled), nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, err
	}
	known, loaded := shared.LoadOrStore(key, compile(parsed))
	if !loaded {
		runtime.AddCleanup(s, func(key weak.Pointer[metav1.LabelSelector]) { shared.Delete(key) }, key)
	}
	return known.(*compiled), nil
}

// OrNothing is Of for callers to which an invalid selector selects nothing.
func OrNothing(s *metav1.LabelSelector) labels.Selector {
	parsed, err := Of(s)
	if err != nil {
		return labels.Nothing()
	}
	return parsed
}

// And returns a selector of what s selects if it has all of these labels.
func And(s labels.Selector, all labels.Set) labels.Selector {
	if _, selectable := s.Requirements(); !selectable || len(all) == 0 {
		return s
	}
	requirements, _ := all.AsSelector().Requirements()
	return s.Add(requirements...)
}

// Matches reports whether the selector that s describes, as Of returns it, matches labels. One that is invalid
// matches nothing.
func Matches(s *metav1.LabelSelector, of map[string]string) bool {
	if s == nil || len(s.MatchLabels) > len(of) {
		return false
	}
	parsed, err := Of(s)
	return err == nil && parsed.Matches(labels.Set(of))
}

// large reports whether s has more than few requirements and values.
func large(s *metav1.LabelSelector) bool {
	if s == nil {
		return false
	}
	n := len(s.MatchLabels) + len(s.MatchExpressions)
	for i := range s.MatchExpressions {
		if n > few {
			return true
		}
		n += len(s.MatchExpressions[i].Values)
	}
	return n > few
}

// compiled is a selector of Kubernetes that matches fast. It is immutable.
type compiled struct {
	labels.Selector
	fast *LabelSelector
	text func() string
	more labels.Selector // the requirements that were added; nil if there are none
}

func compile(s labels.Selector) *compiled {
	return &compiled{Selector: s, fast: Labels(s), text: sync.OnceValue(s.String)}
}

// Matches implements labels.Selector.
func (c *compiled) Matches(of labels.Labels) bool {
	if c.more != nil && !c.more.Matches(of) {
		return false
	}
	if set, ok := of.(labels.Set); ok {
		return c.fast.Matches(set)
	}
	return c.Selector.Matches(of)
}

// String implements labels.Selector.
func (c *compiled) String() string {
	if c.more == nil {
		return c.text()
	}
	return c.text() + "," + c.more.String()
}

// Add implements labels.Selector. It takes no longer for a long c.
func (c *compiled) Add(more ...labels.Requirement) labels.Selector {
	if len(more) == 0 {
		return c
	}
	added := *c
	if added.more == nil {
		added.more = labels.NewSelector()
	}
	added.more = added.more.Add(more...)
	return &added
}

// Requirements implements labels.Selector.
func (c *compiled) Requirements() (labels.Requirements, bool) {
	all, selectable := c.Selector.Requirements()
	if c.more != nil {
		more, _ := c.more.Requirements()
		all = slices.Concat(all, more)
	}
	return all, selectable
}

// RequiresExactMatch implements labels.Selector.
func (c *compiled) RequiresExactMatch(label string) (string, bool) {
	if c.more != nil {
		if value, found := c.more.RequiresExactMatch(label); found {
			return value, true
		}
	}
	return c.Selector.RequiresExactMatch(label)
}

// DeepCopySelector implements labels.Selector.
func (c *compiled) DeepCopySelector() labels.Selector { return c }
