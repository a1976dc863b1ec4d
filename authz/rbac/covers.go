package rbac

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
)

// maxMissing is the maximum number of missing parts that are listed. A refusal needs no more, and a
// rule of a few kilobytes has millions of parts.
const maxMissing = 10_000

// uncovered returns the parts of wanted that held does not cover, as rules of one group, one
// resource and at most one name each, or of one path and one verb.
//
// One rule in held must cover each part: several rules together cannot cover a wildcard, because it
// also stands for words that do not exist yet. The parts of a rule are the product of its lists and
// are not looked at one by one: see gaps.
//
// An error means that b did not suffice to decide, or that more than maxMissing parts are missing. It
// comes with those that were found.
func uncovered(b *budget.Budget, held, wanted []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	h, err := newHoldings(b, held, wanted)
	if err != nil {
		return nil, fmt.Errorf("%d rules are too wide to compare with the %d held: %w", len(wanted), len(held), err)
	}
	var missing []rbacv1.PolicyRule
	for i := range wanted {
		for _, form := range formsOf(&wanted[i]) {
			if missing, err = form.missing(b, h, missing); err != nil {
				return compact(missing), fmt.Errorf("rules[%d] with %s is too wide to compare with the %d held: %w", i, form.size(), len(held), err)
			}
			if len(missing) >= maxMissing {
				return compact(missing), fmt.Errorf("only the first %d missing permissions are listed, up to those of rules[%d] with %s", len(missing), i, form.size())
			}
		}
	}
	return compact(missing), nil
}

// An axis is one of the lists whose product is a rule.
type axis int

const (
	groupAxis axis = iota
	resourceAxis
	verbAxis
	nameAxis
	unnamedAxis // in place of the names of a rule without any, with one empty word
	pathAxis
)

var axisNames = [...]string{
	groupAxis: "API groups", resourceAxis: "resources", verbAxis: "verbs", nameAxis: "resource names", pathAxis: "paths",
}

// A form is a rule as the product of its lists, in the order in which its parts are listed.
type form []list

type list struct {
	axis  axis
	words []string
}

// formsOf returns the product of resources and that of paths that make up rule.
func formsOf(rule *rbacv1.PolicyRule) []form {
	var forms []form
	if len(rule.APIGroups) > 0 && len(rule.Resources) > 0 && len(rule.Verbs) > 0 {
		allowed := list{nameAxis, rule.ResourceNames}
		if len(allowed.words) == 0 {
			allowed = list{unnamedAxis, []string{""}}
		}
		forms = append(forms, form{{groupAxis, rule.APIGroups}, {resourceAxis, rule.Resources}, {verbAxis, rule.Verbs}, allowed})
	}
	if len(rule.NonResourceURLs) > 0 && len(rule.Verbs) > 0 {
		forms = append(forms, form{{pathAxis, rule.NonResourceURLs}, {verbAxis, rule.Verbs}})
	}
	return forms
}

// size describes f for a message.
func (f form) size() string {
	var sizes []string
	for _, l := range f {
		if l.axis != unnamedAxis {
			sizes = append(sizes, fmt.Sprintf("%d %s", len(l.words), axisNames[l.axis]))
		}
	}
	return strings.Join(sizes, " x ")
}

// missing appends the parts of f that no held rule covers, up to maxMissing altogether.
func (f form) missing(b *budget.Budget, h *holdings, found []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	c, err := h.classify(b, f)
	if err != nil {
		return found, err
	}
	gap, err := c.gaps(b, 0, c.everyRule)
	if err != nil || gap == nil {
		return found, err
	}
	l := lister{budget: b, form: f, classes: c, part: make([]string, len(f)), found: found}
	err = l.list(0, gap)
	return l.found, err
}

// A lister lists missing parts.
type lister struct {
	budget  *budget.Budget
	form    form
	classes *classes
	part    []string // the words of the part, up to the level
	found   []rbacv1.PolicyRule
}

// list appends the parts below level that are missing according to g.
func (l *lister) list(level int, g *gap) error {
	if level == len(l.form) {
		l.found = append(l.found, toPart(l.form, l.part))
		return nil
	}
	if err := l.budget.Work(len(l.form[level].words)); err != nil {
		return err
	}
	for i, word := range l.form[level].words {
		next := g.of(l.classes.levels[level].of[i])
		if next == nil {
			continue
		}
		l.part[level] = word
		if err := l.list(level+1, next); err != nil || len(l.found) >= maxMissing {
			return err
		}
	}
	return nil
}

// toPart returns the rule of one word from each list of f.
func toPart(f form, words []string) rbacv1.PolicyRule {
	var part rbacv1.PolicyRule
	for i, l := range f {
		one := []string{words[i]} // not shared, because compact appends to it
		switch l.axis {
		case groupAxis:
			part.APIGroups = one
		case resourceAxis:
			part.Resources = one
		case verbAxis:
			part.Verbs = one
		case pathAxis:
			part.NonResourceURLs = one
		case nameAxis:
			part.ResourceNames = one
		}
	}
	return part
}

// A gap is what is missing below some words of a form: everything if children is nil, and otherwise
// what is missing below each class of the next list, where nil means nothing.
type gap struct{ children []*gap }

// everywhere is the gap that has no limits.
var everywhere = &gap{}

func (g *gap) of(class int) *gap {
	if g.children == nil {
		return g
	}
	return g.children[class]
}

// gaps returns what of the lists from level on the rules do not cover. It never looks at two words
// that the same rules cover, and stops where one rule covers all that is left, or none is left.
func (c *classes) gaps(b *budget.Budget, level int, rules bitset) (*gap, error) {
	if !rules.intersects(nil) {
		return everywhere, nil
	}
	if level == len(c.levels) || rules.intersects(c.levels[level].fully) {
		return nil, nil
	}
	l := &c.levels[level]
	if err := b.Product(len(l.sets), 4+2*len(rules)); err != nil {
		return nil, err
	}
	var out *gap
	rest := l.rest
	for i, set := range l.sets {
		rest.and(rules, set)
		child, err := c.gaps(b, level+1, rest)
		if err != nil {
			return nil, err
		}
		if child == nil {
			continue
		}
		if out == nil {
			if err := b.Memory(8 * len(l.sets)); err != nil {
				return nil, err
			}
			out = &gap{children: make([]*gap, len(l.sets))}
		}
		out.children[i] = child
	}
	return out, nil
}

// compact joins the verbs of rules that are otherwise equal.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type key struct{ group, resource, name string }
	at := map[key]int{}
	var joined []rbacv1.PolicyRule
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 {
			joined = append(joined, r)
			continue
		}
		k := key{group: r.APIGroups[0], resource: r.Resources[0]}
		if len(r.ResourceNames) > 0 {
			k.name = "/" + r.ResourceNames[0] // an empty name differs from no name
		}
		if i, ok := at[k]; ok {
			joined[i].Verbs = append(joined[i].Verbs, r.Verbs...)
			continue
		}
		at[k] = len(joined)
		joined = append(joined, r)
	}
	return joined
}

// A bitset is a set of held rules.
type bitset []uint64

func (s bitset) add(i int) { s[i/64] |= 1 << (i % 64) }

// and sets s to the rules in both a and b.
func (s bitset) and(a, b bitset) {
	for i := range s {
		s[i] = a[i] & b[i]
	}
}

// intersects reports whether a rule is in both s and t; nil contains all.
func (s bitset) intersects(t bitset) bool {
	for i, word := range s {
		if t != nil {
			word &= t[i]
		}
		if word != 0 {
			return true
		}
	}
	return false
}

// key returns s as a key of a map.
func (s bitset) key(to []byte) []byte {
	to = to[:0]
	for _, word := range s {
		for shift := 0; shift < 64; shift += 8 {
			to = append(to, byte(word>>shift))
		}
	}
	return to
}
