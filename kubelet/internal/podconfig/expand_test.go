package podconfig

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "B": "$(A)", "": "empty"}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$(B)": "$(A)", "$(C)": "$(C)",
		"$$(A)": "$(A)", "$$$(A)": "$1", "$": "$", "$$": "$", "$A": "$A", "$(A": "$(A", "a$(": "a$(", "$()": "empty", "$($(A))": "$($(A))",
	} {
		if got := expand(in, lookup, new(budget(100))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"$(A)", "$$(A)", "$(", "a$b$$$(C)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		none := func(string) (string, bool) { return "", false }
		if !strings.Contains(s, "$$") && expand(s, none, new(budget(0))) != s {
			t.Errorf("%q changed without a variable: %q", s, expand(s, none, new(budget(0))))
		}
		if escaped := strings.ReplaceAll(s, "$", "$$"); expand(escaped, none, new(budget(0))) != s {
			t.Errorf("%q escaped and expanded is %q", s, expand(escaped, none, new(budget(0))))
		}
	})
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 10.0.0.1\nsearch a.b. c\n# x\noptions ndots:5\n")
	f.Fuzz(func(t *testing.T, text string) {
		dns := parseResolvConf(text)
		for _, list := range [][]string{dns.Servers, dns.Searches, dns.Options} {
			for _, word := range list {
				if strings.ContainsAny(word, " \t\n") {
					t.Errorf("%q is not a word", word)
				}
			}
		}
	})
}
