package images

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func FuzzParseLogins(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://r.example/v1/":{"auth":"dTpw"}}}`), "r.example/a:1")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		logins, err := parseLogins(&corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: data}})
		if err != nil && len(data) > 0 && strings.Contains(err.Error(), string(data)) && len(data) > 20 {
			t.Error("the error quotes the secret")
		}
		for registry, l := range logins {
			fits(registry, image)
			l.config(registry)
		}
	})
}

func TestCredentialsFit(t *testing.T) {
	for _, test := range []struct {
		registry, image string
		want            bool
	}{
		{"https://index.docker.io/v1/", "nginx", true}, {"docker.io", "nginx:1", true}, {"docker.io", "r.example/nginx", false},
		{"r.example", "r.example/a", true}, {"r.example/a", "r.example/a/b:1", true}, {"r.example/a", "r.example/ab", false},
		{"*.example", "r.example/a", true}, {"*.example", "r.s.example/a", false}, {"r.example:5000", "r.example/a", false},
	} {
		if got := fits(test.registry, test.image); got != test.want {
			t.Errorf("%s for %s: %t", test.registry, test.image, got)
		}
	}
}

func TestCredentials(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(
		`{"auths":{"r.example":{"username":"all","password":"p"},"r.example/team":{"auth":"dGVhbTpw"},"other.example":{"auth":"dTpw"}}}`)}}
	list, err := Credentials(secret, "r.example/team/web:1")
	if err != nil || len(list) != 2 || list[0].Username != "team" || list[1].Username != "all" {
		t.Errorf("Credentials(secret, \"r.example/team/web:1\") = %v, %v, want those of the users team and all, in this order", list, err)
	}
	if list, err := Credentials(secret, "r.example/web:1"); err != nil || len(list) != 1 || list[0].Password != "p" {
		t.Errorf("Credentials(secret, \"r.example/web:1\") = %v, %v, want one with the password p", list, err)
	}
	bad := &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":"secret"`)}}
	if _, err := Credentials(bad, "r.example/web:1"); err == nil || strings.Contains(err.Error(), "secret\"") {
		t.Error(err)
	}
}
