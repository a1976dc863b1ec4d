package nodeimages

import "testing"

func TestFullName(t *testing.T) {
	for name, want := range map[string]string{
		"nginx":                                "docker.io/library/nginx:latest",
		"nginx:1":                              "docker.io/library/nginx:1",
		"jane/app":                             "docker.io/jane/app:latest",
		"docker.io/nginx:1":                    "docker.io/library/nginx:1",
		"docker.io/library/nginx:1":            "docker.io/library/nginx:1",
		"index.docker.io/library/nginx":        "docker.io/library/nginx:latest",
		"localhost/app":                        "localhost/app:latest",
		"registry.example:5000/a/b":            "registry.example:5000/a/b:latest",
		"registry.k8s.io/pause:3.10.2":         "registry.k8s.io/pause:3.10.2",
		"x@sha256:" + hex64:                    "docker.io/library/x@sha256:" + hex64,
		"registry.example/x:1@sha256:" + hex64: "registry.example/x:1@sha256:" + hex64,
	} {
		if got, err := fullName(name); err != nil || got != want {
			t.Errorf("fullName(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", "Nginx", "a b", "nginx:", "nginx:1:2", "../x", "https://x/y"} {
		if got, err := fullName(name); err == nil {
			t.Errorf("fullName(%q) = %q, want an error", name, got)
		}
	}
}

const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
