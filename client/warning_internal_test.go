package client

import (
	"slices"
	"testing"
)

func TestWarningTexts(t *testing.T) {
	for header, want := range map[string][]string{
		`299 - "nothing acts on it"`:                    {"nothing acts on it"},
		`299 host:1 "a \"quoted\" \\ word"`:             {`a "quoted" \ word`},
		`299 - "one", 299 - "two, three"`:               {"one", "two, three"},
		`299 - "dated" "Sat, 25 Aug 2012 23:34:45 GMT"`: {"dated"},
		`199 - "another code"`:                          nil,
		`299 - "no end`:                                 nil,
		`299 - "no end\`:                                nil,
		`299 -`:                                         nil,
		``:                                              nil,
	} {
		if got := warningTexts(header); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

func FuzzWarningTexts(f *testing.F) {
	f.Add(`299 - "a \"b\"", 299 - "c"`)
	f.Fuzz(func(t *testing.T, header string) {
		total := 0
		for _, text := range warningTexts(header) {
			total += len(text)
		}
		if total > len(header) {
			t.Errorf("%q has %d bytes of text", header, total)
		}
	})
}
