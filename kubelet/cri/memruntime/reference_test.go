package memruntime

import (
	"strings"
	"testing"
)

func TestParseReference(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for in, want := range map[string]string{
		"nginx":                             "docker.io/library/nginx:latest",
		"a/b:1":                             "docker.io/a/b:1",
		"r.example/a":                       "r.example/a:latest",
		"r.example:5000/a/b:1":              "r.example:5000/a/b:1",
		"localhost/a":                       "localhost/a:latest",
		"nginx@" + digest:                   "docker.io/library/nginx@" + digest,
		"nginx:1@" + digest:                 "docker.io/library/nginx:1@" + digest,
		"docker.io/nginx":                   "docker.io/library/nginx:latest",
		"":                                  "",
		"Nginx":                             "",
		"nginx:":                            "",
		"nginx@sha256:00":                   "",
		"a//b":                              "",
		"../a":                              "",
		"nginx:" + strings.Repeat("x", 129): "",
		strings.Repeat("x", 300):            "",
	} {
		got, err := parseReference(in)
		if want == "" && err == nil || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%q: %s %v, want %s", in, got, err, want)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"nginx", "r.example:5000/a/b:1", "nginx@sha256:00", "[::1]:5000/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseReference(s)
		if err != nil {
			return
		}
		again, err := parseReference(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %s, which is %s %v", s, r, again, err)
		}
	})
}
