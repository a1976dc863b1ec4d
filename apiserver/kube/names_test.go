package kube_test

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		plural, name string
		prefix       bool
		want         string
	}{
		{"clusterroles", "system:node", false, ""},
		{"clusterroles", "a/b%c", false, "may not contain '/'; may not contain '%'"},
		{"roles", "..", false, "may not be '..'"},
		{"roles", "..", true, ""},
		{"rolebindings", ".", false, "may not be '.'"},
		{"clusterrolebindings", "a%", true, "may not contain '%'"},
		{"namespaces", "a.b", false, "must not contain dots"},
		{"namespaces", "a-", true, ""},
		{"services", "1-web", false, ""},
		{"services", "a.b", false, "must not contain dots"},
		{"ipaddresses", "10.0.0.1", false, ""},
		{"ipaddresses", "010.0.0.1", false, "must not have leading 0s"},
		{"ipaddresses", "a", false, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"},
	} {
		have := strings.Join(resource(c.plural).Strategy.ValidateName(c.name, c.prefix), "; ")
		if have != c.want {
			t.Errorf("%s %q: have %q, want %q", c.plural, c.name, have, c.want)
		}
	}
}
