package rbac

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
)

// holdings finds the held rules that cover a word. It only knows the words of the wanted rules.
type holdings struct {
	// rules holds, for each pattern that covers a wanted word, the held rules with it in order.
	rules map[pattern][]int
	// prefixes are the held paths with a star at their end.
	prefixes []prefix
	count    int
	// place and stamp are scratch space of classify: place holds the bit of each candidate.
	place, stamp []int
	round        int
}

type pattern struct {
	axis axis
	word string
}

type prefix struct {
	text string
	rule int
}

// wordCost is the number of steps that looking up a word takes, and searchCost that of a binary search.
const (
	wordCost   = 4
	searchCost = 4
)

func newHoldings(b *budget.Budget, held, wanted []rbacv1.PolicyRule) (*holdings, error) {
	h := &holdings{rules: map[pattern][]int{}, count: len(held), place: make([]int, len(held)), stamp: make([]int, len(held))}
	for i := range wanted {
		for _, f := range formsOf(&wanted[i]) {
			for _, l := range f {
				if err := b.Product(wordCost, len(l.words)); err != nil {
					return nil, err
				}
				for _, word := range l.words {
					for p := range patterns(l.axis, word) {
						h.rules[p] = nil
					}
				}
			}
		}
	}
	for i := range held {
		if err := h.hold(b, i, &held[i]); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// hold records the held rule with index i.
func (h *holdings) hold(b *budget.Budget, i int, rule *rbacv1.PolicyRule) error {
	for _, f := range formsOf(rule) {
		for _, l := range f {
			if err := b.Product(wordCost, len(l.words)); err != nil {
				return err
			}
			for _, word := range l.words {
				h.add(pattern{l.axis, word}, i)
				if l.axis == pathAxis && strings.HasSuffix(word, "*") {
					h.prefixes = append(h.prefixes, prefix{strings.TrimRight(word, "*"), i})
				}
			}
		}
	}
	return nil
}

func (h *holdings) add(p pattern, rule int) {
	rules, known := h.rules[p]
	if !known || len(rules) > 0 && rules[len(rules)-1] == rule {
		return
	}
	h.rules[p] = append(rules, rule)
}

// patterns yields what a rule may hold to cover word, beside prefixes of paths.
func patterns(a axis, word string) iter.Seq[pattern] {
	return func(yield func(pattern) bool) {
		if !yield(pattern{a, word}) {
			return
		}
		switch a {
		case groupAxis, verbAxis:
			yield(pattern{a, "*"})
		case resourceAxis:
			if !yield(pattern{a, "*"}) {
				return
			}
			if _, subresource, ok := strings.Cut(word, "/"); ok {
				yield(pattern{a, "*/" + subresource})
			}
		case nameAxis:
			yield(pattern{unnamedAxis, ""})
		}
	}
}

// visit calls f with the held rules that cover word, some of them more than once. If among is not nil
// it may leave out other rules; it is sorted.
func (h *holdings) visit(b *budget.Budget, a axis, word string, among []int, f func(rule int)) error {
	for p := range patterns(a, word) {
		rules := h.rules[p]
		if among != nil && len(rules) > searchCost*len(among) {
			if err := b.Work(wordCost + searchCost*len(among)); err != nil {
				return err
			}
			for _, rule := range among {
				if _, ok := slices.BinarySearch(rules, rule); ok {
					f(rule)
				}
			}
			continue
		}
		if err := b.Work(wordCost + len(rules)); err != nil {
			return err
		}
		for _, rule := range rules {
			f(rule)
		}
	}
	if a != pathAxis {
		return nil
	}
	for _, p := range h.prefixes {
		if err := b.Work(1 + len(p.text)/16); err != nil {
			return err
		}
		if strings.HasPrefix(word, p.text) {
			f(p.rule)
		}
	}
	return nil
}

// classes are the words of a form, where those that the same rules cover count as one.
type classes struct {
	levels []level
	// everyRule contains all rules that cover a word of the first list.
	everyRule bitset
}

type level struct {
	// of is the class of each word, and sets the rules that cover each class.
	of   []int
	sets []bitset
	// fully contains the rules that cover all words of this list and those after it.
	fully bitset
	// rest is scratch space of gaps.
	rest bitset
}

// classify finds the rules that cover the words of f. Only those matter that cover a word of the list
// whose words the fewest rules cover.
func (h *holdings) classify(b *budget.Budget, f form) (*classes, error) {
	candidates, err := h.candidates(b, f)
	if err != nil {
		return nil, err
	}
	size := (len(candidates) + 63) / 64
	c := &classes{levels: make([]level, len(f)), everyRule: make(bitset, size)}
	for i := range candidates {
		c.everyRule.add(i)
	}
	fully := c.everyRule
	for i := len(f) - 1; i >= 0; i-- {
		if c.levels[i], err = h.classifyList(b, f[i], candidates, fully); err != nil {
			return nil, err
		}
		fully = c.levels[i].fully
	}
	return c, nil
}

// candidates returns the rules that matter, in order, and gives each a bit.
func (h *holdings) candidates(b *budget.Budget, f form) ([]int, error) {
	chosen, fewest := f[0], math.MaxInt
	for _, l := range f {
		if err := b.Product(wordCost, len(l.words)); err != nil {
			return nil, err
		}
		if n := h.incidences(l); n < fewest {
			chosen, fewest = l, n
		}
	}
	candidates := []int{}
	h.round++
	for _, word := range chosen.words {
		err := h.visit(b, chosen.axis, word, nil, func(rule int) {
			if h.stamp[rule] != h.round {
				h.stamp[rule] = h.round
				candidates = append(candidates, rule)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(candidates)
	for bit, rule := range candidates {
		h.place[rule] = bit
	}
	return candidates, nil
}

// incidences returns how often the held rules cover a word of l, at most.
func (h *holdings) incidences(l list) int {
	n := 0
	for _, word := range l.words {
		for p := range patterns(l.axis, word) {
			n += len(h.rules[p])
		}
		if l.axis == pathAxis {
			n += len(h.prefixes)
		}
	}
	return n
}

// classifyList returns the level of l, where after contains the rules that cover all lists after it.
func (h *holdings) classifyList(b *budget.Budget, l list, candidates []int, after bitset) (level, error) {
	size := len(after)
	if err := b.Product(len(l.words), 4+12*size); err != nil {
		return level{}, err
	}
	out := level{of: make([]int, len(l.words)), fully: append(bitset(nil), after...), rest: make(bitset, size)}
	known := map[string]int{}
	set, key := make(bitset, size), []byte(nil)
	for i, word := range l.words {
		clear(set)
		err := h.visit(b, l.axis, word, candidates, func(rule int) {
			if h.stamp[rule] == h.round {
				set.add(h.place[rule])
			}
		})
		if err != nil {
			return level{}, err
		}
		out.fully.and(out.fully, set)
		key = set.key(key)
		class, ok := known[string(key)]
		if !ok {
			if err := b.Memory(64 + 16*size); err != nil {
				return level{}, err
			}
			class = len(out.sets)
			known[string(key)] = class
			out.sets = append(out.sets, append(bitset(nil), set...))
		}
		out.of[i] = class
	}
	return out, nil
}
