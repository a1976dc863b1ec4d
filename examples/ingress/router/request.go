package router

import (
	"net/netip"
	"strings"
)

// candidates returns the hosts of rules that a request may match, in the order of their precedence.
func candidates(hostport string) []string {
	name := hostName(hostport)
	if name == "" {
		return []string{""}
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return []string{""} // no rule has an address
	}
	names := []string{name}
	if label, rest, ok := strings.Cut(name, "."); ok && label != "" && label != "*" {
		names = append(names, "*."+rest)
	}
	return append(names, "")
}

// hostName returns a host in lower case, without its port and the dot at its end.
func hostName(hostport string) string {
	if strings.HasPrefix(hostport, "[") {
		return "" // an address
	}
	name, _, _ := strings.Cut(hostport, ":")
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// clean returns a path with adjacent slashes as one. It reports false for a path that is not absolute,
// or that a backend may understand as another one.
func clean(path string) (string, bool) {
	if !strings.HasPrefix(path, "/") {
		return "", false
	}
	if !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return path, true
	}
	var out strings.Builder
	for element := range strings.SplitSeq(path, "/") {
		if element == "." || element == ".." {
			return "", false
		}
		if element != "" {
			out.WriteString("/")
			out.WriteString(element)
		}
	}
	if strings.HasSuffix(path, "/") {
		out.WriteString("/")
	}
	return out.String(), true
}
