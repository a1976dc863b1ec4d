package images_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/images"
	corev1 "k8s.io/api/core/v1"
)

// docker returns a directory with files of a docker configuration.
func docker(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestNodeCredentials(t *testing.T) {
	const (
		one    = `{"auths":{"registry.test":{"username":"one","password":"p"},"registry.test/team":{"auth":"dGVhbTpz"}}}`
		two    = `{"auths":{"registry.test":{"username":"two","password":"p"}}}`
		old    = `{"registry.test":{"username":"old","password":"p"}}`
		secret = "hunter2"
	)
	for what, test := range map[string]struct {
		directories []string
		image       string
		want        string
		said        string
	}{
		"no directory":                  {nil, "registry.test/a", "", ""},
		"no file":                       {[]string{docker(t, nil), "/does/not/exist"}, "registry.test/a", "", ""},
		"the first":                     {[]string{docker(t, map[string]string{"config.json": one}), docker(t, map[string]string{"config.json": two})}, "registry.test/a", "one", ""},
		"the most specific":             {[]string{docker(t, map[string]string{"config.json": one})}, "registry.test/team/a:1", "team,one", ""},
		"another registry":              {[]string{docker(t, map[string]string{"config.json": one})}, "other.test/a", "", ""},
		"the old form":                  {[]string{docker(t, map[string]string{".dockercfg": old})}, "registry.test/a", "old", ""},
		"the new form before the old":   {[]string{docker(t, map[string]string{".dockercfg": old}), docker(t, map[string]string{"config.json": two})}, "registry.test/a", "two", ""},
		"a broken file is left out":     {[]string{docker(t, map[string]string{"config.json": secret}), docker(t, map[string]string{"config.json": two})}, "registry.test/a", "two", "config.json: not valid JSON"},
		"a huge file":                   {[]string{docker(t, map[string]string{"config.json": strings.Repeat(" ", 2<<20)})}, "registry.test/a", "", "larger than"},
		"nothing but a broken old form": {[]string{docker(t, map[string]string{".dockercfg": secret})}, "registry.test/a", "", ".dockercfg: not valid JSON"},
	} {
		list, err := images.NodeCredentials(test.directories, test.image)
		var names []string
		for _, auth := range list {
			names = append(names, auth.Username)
		}
		if got := strings.Join(names, ","); got != test.want {
			t.Errorf("%s: NodeCredentials(%q, %q) has the users %q, want %q", what, test.directories, test.image, got, test.want)
		}
		if test.said == "" && err != nil || test.said != "" && (err == nil || !strings.Contains(err.Error(), test.said) || strings.Contains(err.Error(), secret)) {
			t.Errorf("%s: NodeCredentials(%q, %q): error %v, want %q in it (empty: no error), and never the secret",
				what, test.directories, test.image, err, test.said)
		}
	}
}

func TestNodeCredentialsNeverBlock(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "config.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, ".dockercfg")); err != nil {
		t.Fatal(err)
	}
	if list, err := images.NodeCredentials([]string{dir}, "registry.test/a"); err == nil || len(list) != 0 {
		t.Errorf("NodeCredentials of a FIFO and of a device = %v, %v, want none and an error", list, err)
	}
}

func FuzzNodeCredentials(f *testing.F) {
	f.Add([]byte(`{"auths":{"*.test":{"auth":"YTpi"}}}`), "registry.test/a")
	f.Add([]byte(`{"auths":null}`), "a")
	f.Add([]byte(`{"registry.test":{}}`), "registry.test:5000/a@sha256:0")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		// A secret with the same content has the same credentials.
		list, err := images.NodeCredentials([]string{dir}, image)
		same, bad := images.Credentials(&corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: data}}, image)
		if len(list) != len(same) || (err == nil) != (bad == nil) {
			t.Errorf("%v, %v; of a secret: %v, %v", list, err, same, bad)
		}
	})
}

func TestPullFailure(t *testing.T) {
	for said, want := range map[string]string{
		"not found":                            "ErrImagePull: not found",
		"RegistryUnavailable: connection lost": "RegistryUnavailable: image pull failed for a:1 because the registry is unavailable: connection lost",
		"rpc error: code = Unknown desc = SignatureValidationFailed": "SignatureValidationFailed: image pull failed for a:1 because the signature validation failed",
		"the registry said RegistryUnavailable":                      "ErrImagePull: the registry said RegistryUnavailable",
	} {
		reason, message := images.PullFailure("a:1", said)
		if reason+": "+message != want {
			t.Errorf("PullFailure(\"a:1\", %q) = %s: %s, want %s", said, reason, message, want)
		}
	}
}
