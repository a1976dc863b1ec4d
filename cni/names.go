package cni

import (
	"fmt"
	"strings"
	"unicode"
)

// CheckName checks the name of a network or the ID of a container: letters, digits, '_', '.' and
// '-', beginning with a letter or digit. A valid name is safe as a file name.
func CheckName(name string) error {
	for i, c := range []byte(name) {
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("_.-", rune(c))) {
			return fmt.Errorf("invalid name %q: letters, digits, '_', '.', '-' are allowed, beginning with a letter or digit", name)
		}
	}
	if name == "" {
		return fmt.Errorf("invalid name %q: empty", name)
	}
	return nil
}

// CheckIfName checks the name of an interface by the kernel's rules: 1 to 15 bytes, no '/', ':' or
// space, neither "." nor "..".
func CheckIfName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("invalid interface name %q", name)
	case len(name) > 15:
		return fmt.Errorf("invalid interface name %q: longer than 15 bytes", name)
	case strings.ContainsAny(name, "/:") || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || r < ' ' }):
		return fmt.Errorf("invalid interface name %q: '/', ':' and space are not allowed", name)
	}
	return nil
}

// CheckType checks the type of a plugin: a file name without a directory.
func CheckType(typ string) error {
	if typ == "" {
		return fmt.Errorf("invalid plugin type %q: empty", typ)
	}
	if typ == "." || typ == ".." || strings.ContainsAny(typ, "/\\\x00") {
		return fmt.Errorf("invalid plugin type %q: it must be a file name without separators", typ)
	}
	return nil
}
