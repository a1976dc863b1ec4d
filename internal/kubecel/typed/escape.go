package typed

import "strings"

// reserved are the words that no identifier of CEL can be.
var reserved = func() map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.Fields(`true false null in as break const continue else for function if import let loop package
		namespace return var void while`) {
		words[word] = true
	}
	return words
}()

// escapes holds the texts that no identifier contains, and what stands for them. An underscore
// alone is kept.
var escapes = []struct{ text, name string }{{"__", "underscores"}, {".", "dot"}, {"-", "dash"}, {"/", "slash"}}

// Escape returns the name of a field in expressions, and false if it has none.
func Escape(name string) (string, bool) {
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		return "", false
	}
	if reserved[name] {
		return "__" + name + "__", true
	}
	var out strings.Builder
next:
	for rest := name; rest != ""; {
		for _, e := range escapes {
			if strings.HasPrefix(rest, e.text) {
				out.WriteString("__" + e.name + "__")
				rest = rest[len(e.text):]
				continue next
			}
		}
		c := rest[0]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' {
			return "", false
		}
		out.WriteByte(c)
		rest = rest[1:]
	}
	return out.String(), true
}

// Unescape returns the name of a field that an expression calls escaped, and false if no field has
// that name.
func Unescape(escaped string) (string, bool) {
	if !strings.Contains(escaped, "__") {
		return escaped, true
	}
	var out strings.Builder
	rest := escaped
	for {
		before, after, found := strings.Cut(rest, "__")
		if !found {
			out.WriteString(rest)
			return out.String(), true
		}
		word, left, closed := strings.Cut(after, "__")
		if !closed || word == "" || strings.Contains(word, "_") {
			// It begins no escape. An underscore may be the first of another one.
			out.WriteString(before + "_")
			rest = rest[len(before)+1:]
			continue
		}
		out.WriteString(before)
		text, ok := unescaped(word)
		if !ok || reserved[word] && len(escaped) != len(word)+4 {
			return "", false
		}
		out.WriteString(text)
		rest = left
	}
}

func unescaped(word string) (string, bool) {
	for _, e := range escapes {
		if e.name == word {
			return e.text, true
		}
	}
	return word, reserved[word]
}
