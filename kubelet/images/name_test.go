package images_test

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet/images"
)

func TestCheckName(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, name := range []string{
		"nginx", "nginx:1.27", "library/nginx", "docker.io/library/nginx:latest", "localhost/a", "localhost:5000/a/b:c", "example.com:80/a_b.c--d@" + digest,
		"[::1]:5000/a", "a@" + digest, "registry.k8s.io/pause:3.10", "Registry.example.com/a", strings.Repeat("a", 247),
	} {
		if err := images.CheckName(name); err != nil {
			t.Error(err)
		}
	}
	const invalid = "invalid reference format"
	for name, want := range map[string]string{
		"":                              invalid,
		"Busy Box":                      invalid + ": repository name (library/Busy Box) must be lowercase",
		"a b":                           invalid,
		"a:":                            invalid,
		"a@sha256:12":                   invalid,
		"../a":                          invalid,
		"a//b":                          invalid,
		"-a":                            invalid,
		"a:b:c":                         invalid,
		"example.com/":                  invalid,
		"a\n":                           invalid,
		strings.Repeat("a", 64):         "invalid repository name (" + strings.Repeat("a", 64) + "), cannot specify 64-byte hexadecimal strings",
		"a/" + strings.Repeat("b", 254): "repository name must not be more than 255 characters",
	} {
		want = "couldn't parse image name \"" + strings.ReplaceAll(name, "\n", "\\n") + "\": " + want
		if err := images.CheckName(name); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, seed := range []string{"nginx", "a/b:c@sha256:" + strings.Repeat("0", 64), "[::1]/a", "A b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if images.CheckName(name) == nil && strings.ContainsAny(name, " \n\t\x00\"'$;") {
			t.Errorf("%q is accepted", name)
		}
	})
}
