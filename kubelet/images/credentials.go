package images

import (
	"encoding/base64"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// login is one entry of a docker configuration file.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// Credentials returns the credentials in a secret of one of the two docker types that match an image,
// the most specific first. Errors do not quote the secret.
// https://kubernetes.io/docs/concepts/containers/images/
func Credentials(secret *corev1.Secret, image string) ([]*runtimeapi.AuthConfig, error) {
	logins, err := parseLogins(secret)
	if err != nil {
		return nil, err
	}
	return matching(logins, image), nil
}

// parseLogins parses a secret of one of the two docker types. Errors do not quote it.
func parseLogins(secret *corev1.Secret) (map[string]login, error) {
	key, parse := corev1.DockerConfigJsonKey, parseConfigJSON
	data, ok := secret.Data[key]
	if !ok {
		key, parse = corev1.DockerConfigKey, parseDockercfg
		data, ok = secret.Data[key]
	}
	if !ok {
		return nil, nil
	}
	logins, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s is %w", key, err)
	}
	return logins, nil
}

func (l login) config(registry string) *runtimeapi.AuthConfig {
	if l.Auth != "" {
		if text, err := base64.StdEncoding.DecodeString(l.Auth); err == nil {
			l.Username, l.Password, _ = strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
		}
	}
	return &runtimeapi.AuthConfig{
		Username: l.Username, Password: l.Password, ServerAddress: registry,
		IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken,
	}
}

// fits reports whether an entry matches an image. Its registry may have a scheme, a path, and a
// star for a part of its host.
func fits(registry, image string) bool {
	registry = strings.TrimPrefix(strings.TrimPrefix(registry, "https://"), "http://")
	registry = strings.TrimSuffix(registry, "/")
	registry = strings.TrimSuffix(strings.TrimSuffix(registry, "/v1"), "/v2")
	if registry == "index.docker.io" {
		registry = "docker.io"
	}
	host, rest, cut := strings.Cut(image, "/")
	if !cut || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = "docker.io", image
	}
	wantHost, wantPath, _ := strings.Cut(registry, "/")
	want, have := strings.Split(wantHost, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != "*" && want[i] != have[i] {
			return false
		}
	}
	return wantPath == "" || rest == wantPath || strings.HasPrefix(rest, wantPath+"/") || strings.HasPrefix(rest, wantPath+":")
}
