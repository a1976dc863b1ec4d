// Package warning writes the Warning headers of a response, in a bounded number of bytes and each of
// them once:
//
//	var w warning.Headers
//	w.Add(response.Header(), "unknown field \"spec.foo\"")
package warning

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of the Warning headers of an answer, in bytes: of all of them, and of the text of
// one once all are more than that. kube-apiserver has the same in characters.
const (
	maxWarnings   = 4 << 10
	maxLongerText = 256
)

// Headers holds the Warning headers of a response. The zero value has none.
type Headers struct {
	texts     []string
	known     map[string]bool
	written   int // bytes of headers
	shortened bool
}

// Add adds a warning to h, unless it is there. Where all are too long, each is shortened;
// those that do not fit even so are dropped.
func (w *Headers) Add(h http.Header, text string) {
	if text == "" || w.known[text] || w.shortened && w.written >= maxWarnings {
		return
	}
	if w.known == nil {
		w.known = map[string]bool{}
	}
	w.known[text] = true
	w.texts = append(w.texts, text)
	if w.write(h, text) || w.shortened {
		return
	}
	w.shortened, w.written = true, 0
	h.Del("Warning")
	for _, text := range w.texts {
		if !w.write(h, text) {
			w.written = maxWarnings
			return
		}
	}
}

// write reports whether there was room for the warning.
func (w *Headers) write(h http.Header, text string) bool {
	if w.shortened && len(text) > maxLongerText {
		text = cutText(text, maxLongerText)
	}
	if len(text) > maxWarnings {
		return false
	}
	value := warningValue(text)
	if w.written+len(value) > maxWarnings {
		if w.shortened {
			w.written = maxWarnings
		}
		return false
	}
	w.written += len(value)
	h.Add("Warning", value)
	return true
}

// cutText is the beginning of text, of most bytes or somewhat less.
func cutText(text string, most int) string {
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Clone returns a copy, so that warnings of an attempt that is tried again can be forgotten.
func (w *Headers) Clone() *Headers {
	if w == nil {
		return nil
	}
	return &Headers{slices.Clone(w.texts), maps.Clone(w.known), w.written, w.shortened}
}

// warningValue is a Warning header (RFC 7234, section 5.5).
func warningValue(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	return `299 - "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
