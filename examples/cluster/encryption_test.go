package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keyFile writes a file by which the first of keys encrypts secrets, and all
// decrypt them.
func keyFile(t *testing.T, keys ...string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" +
		"- resources: [secrets]\n  providers:\n  - aesgcm:\n      keys:\n")
	for _, key := range keys {
		secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(key), 16)) // two letters, 32 bytes
		fmt.Fprintf(&text, "      - {name: %s, secret: %s}\n", key, secret)
	}
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds tells which of texts are in a file below dir.
func holds(t *testing.T, dir string, texts ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) {
				found[text] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEncryptionAtRest: with a key file, secrets are not to be read on disk; they
// are to be read through a cluster that has the key, also after its rotation, and
// through no other.
func TestEncryptionAtRest(t *testing.T) {
	const hidden, shown = "swordfish-is-the-password", "fine-is-the-weather"
	dir := t.TempDir()
	flags := func(keys ...string) []string {
		return []string{"--nodes", "0", "--encryption-provider-config", keyFile(t, keys...)}
	}
	first := start(t, dir, flags("k1")...)
	meta := func(text string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: "kept", Annotations: map[string]string{"text": text}}
	}
	api := first.client(t)
	if _, err := typed.Secrets(api).Create(t.Context(), &corev1.Secret{ObjectMeta: meta(hidden)}); err != nil {
		t.Fatal(err)
	}
	if _, err := typed.ConfigMaps(api).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta(shown)}); err != nil {
		t.Fatal(err)
	}
	first.stop()
	if found := holds(t, dir, hidden, shown); found[hidden] || !found[shown] {
		t.Errorf("on disk: %v", found)
	}
	rotated := start(t, dir, flags("k2", "k1")...)
	secret, err := typed.Secrets(rotated.client(t)).Get(t.Context(), "default", "kept")
	if err != nil || secret.Annotations["text"] != hidden {
		t.Errorf("after a rotation: %v, error %v", secret, err)
	}
	rotated.stop()
	other := start(t, dir, flags("k3")...)
	if secret, err := typed.Secrets(other.client(t)).Get(t.Context(), "default", "kept"); err == nil {
		t.Errorf("with another key: %v", secret)
	}
}
