package warning

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWarnings(t *testing.T) {
	many := func(n int, text string) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(text, i))
		}
		return out
	}
	for _, c := range []struct {
		name  string
		texts []string
		want  int // headers
		bytes int // of the longest
	}{
		{"none", nil, 0, 0},
		{"empty", []string{""}, 0, 0},
		{"one", []string{`a "b"`}, 1, len(`299 - "a \"b\""`)},
		{"the same", []string{"a", "b", "a"}, 2, len(`299 - "a"`)},
		{"a long one", []string{strings.Repeat("x", 3000)}, 1, 3008},
		{"two long ones", many(2, "%d"+strings.Repeat("x", 3000)), 2, 264},
		{"too long by itself", []string{strings.Repeat("é", 5000)}, 1, 264},
		{"many", many(100_000, "unknown field %d"), 145, 40},
		{"many long ones", many(1000, "%d"+strings.Repeat("x", 500)), 15, 264},
		{"quotes", []string{strings.Repeat(`"`, 5000), "b"}, 2, 520},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, h := &Headers{}, http.Header{}
			for _, text := range c.texts {
				w.Add(h, text)
			}
			total, longest := 0, 0
			for _, value := range h.Values("Warning") {
				if total += len(value); !utf8.ValidString(value) || !strings.HasPrefix(value, `299 - "`) {
					t.Errorf(`Add makes the warning %q, want valid UTF-8 that begins with 299 - "`, value)
				}
				longest = max(longest, len(value))
			}
			if n := len(h.Values("Warning")); total > 4096 || n < c.want-10*(c.want/20) || n > c.want+10*(c.want/20) || longest > c.bytes {
				t.Errorf("%d headers of %d bytes, the longest of %d; want %d, %d", n, total, longest, c.want, c.bytes)
			}
		})
	}
}
