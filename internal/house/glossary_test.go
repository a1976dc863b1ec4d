package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestGlossary checks that the terms of docs/glossary.md are in alphabetical order, and that each is explained in at most three
// sentences and names a package. TestNames checks that the packages exist.
func TestGlossary(t *testing.T) {
	const page = "docs/glossary.md"
	entry := regexp.MustCompile(`^- \*\*([^*]+)\*\*: (.+)$`)
	var terms []string
	for line := range strings.Lines(read(t, page)) {
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		m := entry.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("%s has the entry %q, want the form %v", page, line, entry)
			continue
		}
		terms = append(terms, strings.ToLower(m[1]))
		text, _, _ := strings.Cut(m[2], " (`")
		if n := strings.Count(text, ". ") + 1; n > 3 {
			t.Errorf("%s explains %q in %d sentences, want at most three", page, m[1], n)
		}
		if !span.MatchString(m[2]) {
			t.Errorf("%s names no package at %q, want one", page, m[1])
		}
	}
	if !slices.IsSorted(terms) {
		t.Errorf("the terms of %s are in the order %q, want the alphabet's", page, terms)
	}
	if n := len(terms); n < 30 || n > 60 {
		t.Errorf("%s has %d terms, want 30 to 60", page, n)
	}
}
