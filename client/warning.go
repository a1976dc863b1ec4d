package client

import "strings"

// warningTexts returns the texts of a Warning header (RFC 7234, section 5.5) with the code 299, the
// only one that API servers send. It stops at the first value that it cannot parse.
func warningTexts(header string) (texts []string) {
	for {
		rest, ok := strings.CutPrefix(strings.TrimLeft(header, " ,"), "299 ")
		if !ok {
			return texts
		}
		_, rest, ok = strings.Cut(rest, ` "`) // after the agent
		if !ok {
			return texts
		}
		text, end := unquote(rest)
		if end < 0 {
			return texts
		}
		texts = append(texts, text)
		_, header, _ = strings.Cut(rest[end:], ",")
	}
}

// unquote reads a quoted string after its first quote. It returns the index behind the string, or
// -1 if the string does not end.
func unquote(s string) (text string, end int) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i + 1
		case '\\':
			if i++; i == len(s) {
				return "", -1
			}
		}
		b.WriteByte(s[i])
	}
	return "", -1
}
