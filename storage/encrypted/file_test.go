package encrypted_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/encrypted"
	"github.com/planekit/planekit/storage/memstore"
)

func secret(name string) string { return base64.StdEncoding.EncodeToString(cipher(name).Key) }

// configuration is in the words of the Kubernetes documentation.
var configuration = fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources:
      - events
    providers:
      - identity: {} # do not encrypt events even though *.* is specified below
  - resources:
      - secrets
      - deployments.apps
    providers:
      - aesgcm:
          keys:
            - name: key2
              secret: %s
            - name: key1
              secret: %s
      - identity: {}
  - resources: ['*.batch']
    providers:
      - aesgcm: {keys: [{name: key3, secret: %s}]}
  - resources: ['*.*']
    providers:
      - aesgcm: {keys: [{name: key4, secret: %s}]}
`, secret("key2"), secret("key1"), secret("key3"), secret("key4"))

// Which cipher writes what, by the file.
func TestParse(t *testing.T) {
	rules, err := encrypted.Parse([]byte(configuration), encrypted.Layout("/registry"))
	if err != nil {
		t.Fatal(err)
	}
	inner := memstore.New()
	store, err := encrypted.New(encrypted.Config{Store: inner, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[storage.Key]string{
		"/registry/core/events/default/a":    "value",
		"/registry/core/secrets/default/a":   "k8s:enc:aesgcm:v1:key2:",
		"/registry/apps/deployments/a/b":     "k8s:enc:aesgcm:v1:key2:",
		"/registry/batch/jobs/a/b":           "k8s:enc:aesgcm:v1:key3:",
		"/registry/core/configmaps/a/b":      "k8s:enc:aesgcm:v1:key4:",
		"/registry/core/secretsandmore/a/b":  "k8s:enc:aesgcm:v1:key4:",
		"/registry/events/secrets/default/a": "k8s:enc:aesgcm:v1:key4:",
		"/elsewhere/core/secrets/default/a":  "value",
	} {
		create(t, store, key, "value")
		kept, err := inner.Get(t.Context(), key, 0)
		if err != nil || !strings.HasPrefix(string(kept.Value), want) {
			t.Errorf("%s is kept as %q, error %v, want %q", key, kept.Value, err, want)
		}
		reads(t, store, key, "value", false)
	}
	create(t, inner, "/registry/core/secrets/default/old", "value")
	reads(t, store, "/registry/core/secrets/default/old", "value", true)
}

func TestParseCoreGroup(t *testing.T) {
	file := strings.Replace(configuration, "'*.batch'", "'*.'", 1)
	rules, err := encrypted.Parse([]byte(file), encrypted.Layout("/registry"))
	if err != nil {
		t.Fatal(err)
	}
	if prefix := rules[3].Prefix; prefix != "/registry/core/" {
		t.Errorf("*. is %s", prefix)
	}
}

// Each mistake is named, and no key is.
func TestParseRefuses(t *testing.T) {
	replaced := func(old, new string) string {
		if !strings.Contains(configuration, old) {
			t.Fatalf("no %q to replace", old)
		}
		return strings.Replace(configuration, old, new, 1)
	}
	for _, test := range []struct{ file, want string }{
		{"", "want kind"},
		{"{", "neither YAML nor JSON"},
		{replaced("kind: Enc", "kind: Dec"), `"DecryptionConfiguration", want kind EncryptionConfiguration`},
		{replaced("k8s.io/v1", "k8s.io/v2"), "apiserver.config.k8s.io/v2"},
		{"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration", "no resources"},
		{replaced("['*.batch']", "[]"), "resources[2]: no resources"},
		{replaced("*.batch", "*"), `resource "*"`},
		{replaced("*.batch", "jobs.*"), `resource "jobs.*"`},
		{replaced("*.batch", "a/b"), `resource "a/b"`},
		{replaced("*.batch", "*.*"), "no effect"},
		{replaced("*.batch", "secrets"), "no effect"},
		{replaced("identity: {}", "aescbc: {}"), "only aesgcm and identity are supported"},
		{replaced("identity: {}", "kms: {name: a}"), "only aesgcm and identity are supported"},
		{replaced("identity: {}", "rot13: {}"), "unknown or repeated fields"},
		{replaced("- identity: {}", "- {}"), "exactly one of"},
		{replaced("- identity: {}", "- {identity: {}, aescbc: {}}"), "exactly one of"},
		{replaced("{keys: [{name: key3, secret: "+secret("key3")+"}]}", "{keys: []}"), "aesgcm without keys"},
		{replaced(secret("key3"), secret("key3")[2:]), `the secret of key "key3" is not base64`},
		{replaced(secret("key3"), secret("key3")[8:]), `"key3": a key of 26 bytes`},
		{replaced("name: key1", "name: key2"), "aesgcm key2 twice"},
		{replaced("  - resources: ['*.batch']", secret("key1")), "neither YAML nor JSON"},
	} {
		_, err := encrypted.Parse([]byte(test.file), encrypted.Layout("/registry"))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
			continue
		}
		if strings.Contains(err.Error(), secret("key1")[:20]) || strings.Contains(err.Error(), secret("key3")[8:20]) {
			t.Errorf("the error tells a key: %v", err)
		}
	}
}
